//! The schema of the structured content that all tools return.

use serde_json::{Value, json};

/// Maximum length in bytes of the note of a call that has failed outside of the tool.
const MAX_NOTE: usize = 8 << 10;

/// How a call has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallStatus {
    /// The command succeeded: the program has no errors, or the run had no fault.
    Ok,
    /// The command found errors in the program, or a fault, or a counterexample.
    Failed,
    /// The tool rejected its arguments.
    Refused,
    TimeLimit,
    LaunchLimit,
    /// The process of the call ended without a result.
    Crashed,
}

impl CallStatus {
    const ALL: [CallStatus; 6] = [
        CallStatus::Ok,
        CallStatus::Failed,
        CallStatus::Refused,
        CallStatus::TimeLimit,
        CallStatus::LaunchLimit,
        CallStatus::Crashed,
    ];

    pub fn word(self) -> &'static str {
        match self {
            CallStatus::Ok => "ok",
            CallStatus::Failed => "failed",
            CallStatus::Refused => "refused",
            CallStatus::TimeLimit => "time_limit",
            CallStatus::LaunchLimit => "launch_limit",
            CallStatus::Crashed => "crashed",
        }
    }
}

/// Returns the schema of a tool's structured content. `results` describes the items of `results`.
pub(super) fn output_schema(results: &str) -> Value {
    let words: Vec<&str> = CallStatus::ALL.into_iter().map(CallStatus::word).collect();
    let place = json!({
        "file": { "type": "string" },
        "line": { "type": "integer", "description": "Counts from 1" },
        "column": { "type": "integer", "description": "Counts from 1" },
        "end_line": { "type": "integer" },
        "end_column": { "type": "integer" },
        "start": { "type": "integer", "description": "Offset in bytes" },
        "end": { "type": "integer" },
    });
    let with = |more: Value| {
        let mut properties = place.clone();
        if let (Some(properties), Value::Object(more)) = (properties.as_object_mut(), more) {
            properties.extend(more);
        }
        json!({ "type": "object", "properties": properties, "required": ["file", "line", "column"] })
    };
    let label = with(json!({
        "primary": { "type": "boolean", "description": "Whether this is the place of the error itself" },
        "text": { "type": "string" },
    }));
    let edit = with(json!({ "replacement": { "type": "string" } }));
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let fix = json!({
        "type": "object",
        "properties": {
            "title": { "type": "string" },
            "applicability": { "type": "string", "enum": ["machine-applicable", "maybe-incorrect"] },
            "edits": { "type": "array", "items": edit },
        },
    });
    let diagnostic = json!({
        "type": "object",
        "properties": {
            "code": { "type": "string", "description": "The tool `explain` explains it" },
            "severity": { "type": "string", "description": "error, warning or note" },
            "title": { "type": "string" },
            "labels": { "type": "array", "items": label },
            "notes": texts,
            "help": texts,
            "fixes": { "type": "array", "items": fix },
        },
        "required": ["code", "severity", "title", "labels"],
    });
    json!({
        "type": "object",
        "properties": {
            "status": { "type": "string", "enum": words, "description": "ok; failed: the program has errors, a fault or a counterexample; refused: the arguments are invalid; time_limit and launch_limit: the call was ended there; crashed: the call's process ended without a result, for instance for lack of memory" },
            "exit_code": { "type": ["integer", "null"], "description": "The exit code of the same command of `clk`, or null" },
            "output": { "type": "string", "description": "What the program printed" },
            "diagnostics": { "type": "array", "items": diagnostic, "description": "Errors, warnings and notes, as `clk --json` prints them" },
            "results": { "type": "array", "items": { "type": "object" }, "description": results },
            "notes": { "type": "array", "items": { "type": "string" }, "description": "Messages without a code" },
            "left_out": {
                "type": "object",
                "properties": {
                    "output_bytes": { "type": "integer" },
                    "text_bytes": { "type": "integer" },
                    "items": { "type": "integer" },
                },
                "description": "Sizes of the parts beyond the size limit of a result",
            },
        },
        "required": ["status", "exit_code", "output", "diagnostics", "results", "notes", "left_out"],
    })
}

/// Returns the structured content of a call without output.
pub(super) fn empty_content(note: &str) -> Value {
    json!({
        "output": "", "diagnostics": [], "results": [], "notes": [note],
        "left_out": { "output_bytes": 0, "text_bytes": 0, "items": 0 },
    })
}

/// Returns the result of a call in the protocol's form.
pub(super) fn call_result(status: CallStatus, code: Option<u8>, is_error: bool, text: &str, mut data: Value) -> Value {
    data["status"] = json!(status.word());
    data["exit_code"] = json!(code);
    json!({
        "content": [{ "type": "text", "text": text }],
        "structuredContent": data,
        "isError": is_error,
    })
}

/// Returns the result of a call that has failed outside of the tool. The note may contain a part of the request, so it
/// is cut.
pub(super) fn failure(status: CallStatus, note: &str) -> Value {
    let note = &note[..note.floor_char_boundary(MAX_NOTE)];
    call_result(status, None, true, note, empty_content(note))
}
