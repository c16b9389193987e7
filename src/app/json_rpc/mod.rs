//! JSON-RPC as the language server and the MCP server use it: responses, error codes, and the output to the client.

mod output;
mod queue;

use serde_json::{Value, json};

pub(crate) use self::output::MessageOutput;

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const NOT_INITIALIZED: i64 = -32002;
/// Error code: the request was valid but failed. The client shows the message to the user.
pub(crate) const REQUEST_FAILED: i64 = -32803;
/// Error code: the document has changed, so the result would be outdated.
pub(crate) const CONTENT_MODIFIED: i64 = -32801;
/// Error code: the server has not executed the request, because too many requests are waiting.
pub(crate) const SERVER_CANCELLED: i64 = -32802;
/// Error code: the client canceled the request.
pub(crate) const REQUEST_CANCELLED: i64 = -32800;

/// Why a request has no result: an error code and a message.
#[derive(Debug)]
pub(crate) struct RequestError {
    pub code: i64,
    pub message: String,
}

impl RequestError {
    pub fn refused(message: impl ToString) -> RequestError {
        RequestError { code: REQUEST_FAILED, message: message.to_string() }
    }
}

pub(crate) fn result_response(id: &Value, result: Value) -> Value {
    json!({ "id": id, "result": result })
}

pub(crate) fn error_response(id: &Value, code: i64, message: &str) -> Value {
    json!({ "id": id, "error": { "code": code, "message": message } })
}

pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({ "method": method, "params": params })
}
