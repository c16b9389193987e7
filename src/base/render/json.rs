//! A diagnostic as one line of JSON, for editors and scripts. `docs/schema/clk-output.schema.json` describes the
//! format.

use serde_json::{Value, json};

use super::severity_word;
use crate::diag::{Applicability, Diagnostic};
use crate::escape;
use crate::source::{SourceMap, Span};

/// The version of the format of JSON lines. It increases when a field is removed or changes its meaning; new fields and
/// new kinds of lines do not change it.
pub const JSON_VERSION: u32 = 1;

/// Returns the diagnostic as JSON, without a line end.
pub fn json(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
    let diagnostic = &*diagnostic.at_origins(sources);
    let labels: Vec<Value> = diagnostic
        .labels
        .iter()
        .map(|label| {
            let mut value = place_json(label.span, sources);
            value["primary"] = label.is_primary().into();
            value["role"] = label.role.name().into();
            value["text"] = label.text.as_str().into();
            value
        })
        .collect();
    let fixes: Vec<Value> = diagnostic
        .fixes
        .iter()
        .map(|fix| {
            let edits: Vec<Value> = fix
                .edits
                .iter()
                .map(|(span, text)| {
                    let mut value = place_json(*span, sources);
                    value["replacement"] = text.as_str().into();
                    value
                })
                .collect();
            json!({ "title": fix.title, "applicability": applicability_word(fix.applicability), "edits": edits })
        })
        .collect();
    let object = json!({
        "version": JSON_VERSION,
        "kind": "diagnostic",
        "code": diagnostic.code,
        "severity": severity_word(diagnostic.severity),
        "title": diagnostic.title,
        "labels": labels,
        "notes": diagnostic.notes,
        "help": diagnostic.help,
        "fixes": fixes,
    });
    escape::json(object.to_string())
}

pub fn applicability_word(applicability: Applicability) -> &'static str {
    match applicability {
        Applicability::MachineApplicable => "machine-applicable",
        Applicability::MaybeIncorrect => "maybe-incorrect",
    }
}

/// Returns a location as JSON. Lines and columns are counted from 1, columns in characters. `start` and `end` are byte
/// offsets in the file.
pub fn place_json(span: Span, sources: &SourceMap) -> Value {
    let (line, column) = sources.line_column(span);
    let (end_line, end_column) = sources.line_column(span.after());
    json!({
        "file": sources.name(span.file),
        "line": line, "column": column, "end_line": end_line, "end_column": end_column,
        "start": span.start, "end": span.end,
    })
}
