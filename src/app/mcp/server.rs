//! The state of an MCP session: answers requests, starts calls, and cancels them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::calls::{CallTable, ToolCallRequest};
use super::reply::ReplyTarget;
use super::{resources, tools};
use crate::crash;
use crate::json_rpc::{self, MessageOutput, RequestError};

/// The revisions of the protocol, oldest first.
const REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
/// The only revision with batches.
const WITH_BATCHES: &str = "2025-03-26";
/// Maximum number of messages in a batch.
const MAX_BATCH: usize = 1000;

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
    fn receive_one(&mut self, message: Value, target: &ReplyTarget) {
        let error = |id: &Value, code, why: &str| target.send(json_rpc::error_response(id, code, why));
        let invalid = |why: &str| error(&Value::Null, json_rpc::INVALID_REQUEST, why);
        let Some(fields) = message.as_object() else { return invalid("a message is an object") };
        let id = match fields.get("id") {
            None => None,
            Some(id) if id.is_string() || id.is_number() => Some(id),
            Some(_) => return invalid("an `id` is a string or a number"),
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
        let params = fields.get("params").unwrap_or(&Value::Null);
        let Some(id) = id else {
            // Invalid notifications are ignored.
            self.notification(method, params);
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
        params: &Value,
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
            "initialize" => return Some(self.initialize(params)),
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

    fn call(&self, id: &Value, params: &Value, target: &ReplyTarget) -> Option<Result<Value, RequestError>> {
        let failure = |message: String| Some(Err(RequestError { code: json_rpc::INVALID_PARAMS, message }));
        let Some(name) = params.get("name").and_then(Value::as_str) else {
            return failure("`name` is the name of a tool".into());
        };
        let Some(tool) = tools::find(name) else {
            return failure(format!("there is no tool `{}`", name.chars().take(80).collect::<String>()));
        };
        let token = params.pointer("/_meta/progressToken").filter(|token| token.is_string() || token.is_number());
        let request = ToolCallRequest {
            id: id.clone(),
            tool,
            arguments: params.get("arguments").cloned().unwrap_or(Value::Null),
            progress_token: token.cloned(),
            target: target.clone(),
        };
        match self.calls.start(request) {
            Ok(()) => None,
            Err(why) => Some(Err(why)),
        }
    }
}
