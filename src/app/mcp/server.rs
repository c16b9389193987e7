//! The state of an MCP session: answers requests, starts calls, and cancels them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::calls::{CallTable, ToolCallRequest};
use super::reply::ReplyTarget;
use super::schema::{self, CallStatus};
use super::{resources, tools};
use crate::crash;
use crate::json_rpc::{self, MessageOutput, RequestError};

/// The revisions of the protocol, oldest first.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The only revision with batches.
const WITH_BATCHES: &str = "2025-03-26";
/// Maximum number of messages in a batch.
const MAX_BATCH: usize = 100;
/// Maximum length in bytes of an id or a progress token.
const MAX_ID: usize = 1 << 10;
/// From this number on, an id that the JSON reader does not represent as an integer may have changed.
const END_OF_EXACT_IDS: f64 = (1u64 << 53) as f64;

/// Tells agents how the tools belong together.
const INSTRUCTIONS: &str = "Clk is a small language for GPU kernels; it also reads CUDA C++ files. Typical order: write a kernel, `check` it until there are no errors, `prove` that it is correct for every size, `run` it on data. When a result is wrong, use `why` for an element and `debug_at` for a line. When a diagnostic is unclear, use `explain` with its code. Before using a builtin that you are not sure about, use `doc`. Read the resource `clk://manual/tour` for a tour of the language, `clk://manual/from/cuda` if you know CUDA, and `clk://manual/cuda-files` for checking CUDA files. Everything runs on a simulator: no GPU is needed.";

pub(super) struct McpServer {
    /// The negotiated revision; `None` before `initialize`.
    revision: Option<&'static str>,
    calls: Arc<CallTable>,
    output: MessageOutput,
}

impl McpServer {
    pub fn new(calls: Arc<CallTable>, output: MessageOutput) -> McpServer {
        McpServer { revision: None, calls, output }
    }

    /// Handles a message or a batch of messages.
    pub fn receive(&mut self, message: Value) {
        let client = ReplyTarget::Client(self.output.clone());
        let refuse = |why: &str| client.send(json_rpc::error_response(&Value::Null, json_rpc::INVALID_REQUEST, why));
        match message {
            Value::Array(_) if self.revision != Some(WITH_BATCHES) => {
                refuse(&format!("only the revision {WITH_BATCHES} of the protocol has batches"));
            }
            Value::Array(batch) if batch.is_empty() || batch.len() > MAX_BATCH => {
                refuse(&format!("a batch has 1 to {MAX_BATCH} messages"));
            }
            Value::Array(batch) => {
                let target = ReplyTarget::batch(self.output.clone(), batch.len());
                batch.into_iter().for_each(|message| self.receive_one(message, &target));
            }
            message => self.receive_one(message, &client),
        }
    }

    /// Handles one message. Replies exactly once, now or after a call, or skips the reply.
    fn receive_one(&mut self, mut message: Value, target: &ReplyTarget) {
        let error = |id: &Value, code, why: &str| target.send(json_rpc::error_response(id, code, why));
        let invalid = |why: &str| error(&Value::Null, json_rpc::INVALID_REQUEST, why);
        let Some(fields) = message.as_object_mut() else { return invalid("a message is an object") };
        let params = fields.remove("params").unwrap_or(Value::Null);
        let id = match fields.get("id") {
            None => None,
            Some(id) if is_valid_id(id) => Some(id),
            Some(_) => return invalid("an `id` is a string of at most 1 KiB, or a number of at most 64 bits"),
        };
        if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return error(id.unwrap_or(&Value::Null), json_rpc::INVALID_REQUEST, "`jsonrpc` is \"2.0\"");
        }
        let Some(method) = fields.get("method").and_then(Value::as_str) else {
            // The server sends no requests, so it ignores responses.
            if fields.contains_key("result") || fields.contains_key("error") {
                return target.skip();
            }
            return error(id.unwrap_or(&Value::Null), json_rpc::INVALID_REQUEST, "a message has a `method`");
        };
        let Some(id) = id else {
            // Invalid notifications are ignored.
            self.notification(method, &params);
            return target.skip();
        };
        if !params.is_null() && !params.is_object() {
            return error(id, json_rpc::INVALID_PARAMS, "`params` is an object");
        }
        match crash::catch_panic(|| self.request(id, method, params, target)) {
            Ok(None) => {}
            Ok(Some(Ok(result))) => target.send(json_rpc::result_response(id, result)),
            Ok(Some(Err(why))) => error(id, why.code, &why.message),
            Err(panic) => error(id, json_rpc::INTERNAL_ERROR, &panic.title),
        }
    }

    fn notification(&mut self, method: &str, params: &Value) {
        if method == "notifications/cancelled"
            && let Some(id) = params.get("requestId")
        {
            self.calls.cancel(id);
        }
    }

    /// Answers a request, or starts a call and returns `None`.
    fn request(
        &mut self,
        id: &Value,
        method: &str,
        params: Value,
        target: &ReplyTarget,
    ) -> Option<Result<Value, RequestError>> {
        let failure = |code, message: &str| Some(Err(RequestError { code, message: message.to_owned() }));
        match method {
            "ping" => return Some(Ok(json!({}))),
            "initialize" if self.revision.is_some() => {
                return failure(json_rpc::INVALID_REQUEST, "the session has begun");
            }
            "initialize" if matches!(target, ReplyTarget::Batch(_)) => {
                return failure(json_rpc::INVALID_REQUEST, "`initialize` is not part of a batch");
            }
            "initialize" => return Some(self.initialize(&params)),
            "tools/list" | "tools/call" | "resources/list" | "resources/read" | "resources/templates/list" => {}
            _ => return failure(json_rpc::METHOD_NOT_FOUND, "this method is not offered"),
        }
        if self.revision.is_none() {
            return failure(json_rpc::INVALID_REQUEST, "the first request is `initialize`");
        }
        // All lists have one page, so no cursor is valid.
        if method.ends_with("/list") && params.get("cursor").is_some_and(|cursor| !cursor.is_null()) {
            return failure(json_rpc::INVALID_PARAMS, "there is no such `cursor`");
        }
        match method {
            "tools/list" => Some(Ok(json!({ "tools": tools::descriptions(self.calls.may_write()) }))),
            "tools/call" => self.call(id, params, target),
            "resources/list" => Some(Ok(resources::list())),
            "resources/templates/list" => Some(Ok(json!({ "resourceTemplates": [] }))),
            _ => match params.get("uri").and_then(Value::as_str) {
                Some(uri) => Some(resources::read(uri)),
                None => failure(json_rpc::INVALID_PARAMS, "`uri` is a string"),
            },
        }
    }

    fn initialize(&mut self, params: &Value) -> Result<Value, RequestError> {
        let Some(wanted) = params.get("protocolVersion").and_then(Value::as_str) else {
            let message = "`protocolVersion` is a string".to_owned();
            return Err(RequestError { code: json_rpc::INVALID_PARAMS, message });
        };
        // A client with an unknown revision decides whether it supports the newest one of this server.
        let newest = REVISIONS[REVISIONS.len() - 1];
        let revision = REVISIONS.into_iter().find(|revision| *revision == wanted).unwrap_or(newest);
        self.revision = Some(revision);
        Ok(json!({
            "protocolVersion": revision,
            "capabilities": { "tools": { "listChanged": false }, "resources": { "listChanged": false, "subscribe": false } },
            "serverInfo": { "name": "clk", "title": "Clk", "version": env!("CARGO_PKG_VERSION") },
            "instructions": INSTRUCTIONS,
        }))
    }

    fn call(&self, id: &Value, mut params: Value, target: &ReplyTarget) -> Option<Result<Value, RequestError>> {
        let failure = |message: String| Some(Err(RequestError { code: json_rpc::INVALID_PARAMS, message }));
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return failure("`name` is the name of a tool".into());
        };
        let Some(tool) = tools::find(name) else {
            return failure(format!("there is no tool `{}`", name.chars().take(80).collect::<String>()));
        };
        let token = params.pointer("/_meta/progressToken").filter(|token| is_valid_id(token)).cloned();
        let arguments = params.get_mut("arguments").map_or(Value::Null, Value::take);
        let arguments = match Arguments::check(tool.parameters, arguments) {
            Ok(arguments) => arguments,
            Err(why) => return Some(Ok(schema::failure(CallStatus::Refused, &why.to_string()))),
        };
        let (id, target) = (id.clone(), target.clone());
        let request = ToolCallRequest { id, tool, arguments, progress_token: token, target };
        match self.calls.start(request) {
            Ok(()) => None,
            Err(why) => Some(Err(why)),
        }
    }
}

/// Returns whether a value is an id that an answer can repeat unchanged.
fn is_valid_id(id: &Value) -> bool {
    match id {
        Value::String(text) => text.len() <= MAX_ID,
        // The reader represents integers beyond 64 bits as rounded numbers.
        Value::Number(number) => !number.is_f64() || number.as_f64().is_some_and(|id| id.abs() < END_OF_EXACT_IDS),
        _ => false,
    }
}
