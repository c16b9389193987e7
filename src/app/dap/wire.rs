//! The server's end of the connection: sends responses and events, with the sequence numbers that the protocol
//! requires.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::command_error::CommandResult;
use crate::framing;

/// Sends messages to the client. Clones share one stream and one sequence number.
#[derive(Clone)]
pub(crate) struct DapWire(Arc<Mutex<DapWriter>>);

struct DapWriter {
    to: Box<dyn Write + Send>,
    /// Sequence number of the last message sent.
    seq: i64,
}

impl DapWire {
    pub fn new(to: impl Write + Send + 'static) -> DapWire {
        DapWire(Arc::new(Mutex::new(DapWriter { to: Box::new(to), seq: 0 })))
    }

    fn send(&self, mut message: Value) {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.seq += 1;
        message["seq"] = json!(out.seq);
        // Ignores a failed write: the client has disconnected, and the thread that reads requests detects the end of
        // its stream.
        let _ = framing::write(&mut out.to, &message);
    }

    pub fn event(&self, name: &str, body: Value) {
        self.send(json!({ "type": "event", "event": name, "body": body }));
    }

    pub fn output(&self, category: &str, text: &str) {
        self.event("output", json!({ "category": category, "output": text }));
    }

    /// Sends the response to a request.
    pub fn answer(&self, request: &DapRequest, result: CommandResult<Value>) {
        let mut message = json!({ "type": "response", "request_seq": request.seq, "command": request.command });
        match result {
            Ok(body) => {
                message["success"] = json!(true);
                if !body.is_null() {
                    message["body"] = body;
                }
            }
            Err(why) => {
                message["success"] = json!(false);
                let why = why.to_string();
                message["message"] = json!(why);
                message["body"] =
                    json!({ "error": { "id": 1, "format": "{why}", "variables": { "why": why }, "showUser": false } });
            }
        }
        self.send(message);
    }
}

/// A request of the client.
#[derive(Clone, Debug)]
pub(crate) struct DapRequest {
    pub seq: i64,
    pub command: String,
    pub arguments: Value,
}

impl DapRequest {
    /// Decodes a message; `None` if it is not a request.
    pub fn of(message: &Value) -> Option<DapRequest> {
        let command = message.get("command")?.as_str()?.to_string();
        let is_request = message.get("type").is_none_or(|kind| kind == "request");
        let seq = message.get("seq").and_then(Value::as_i64)?;
        let arguments = message.get("arguments").cloned().unwrap_or(Value::Null);
        is_request.then_some(DapRequest { seq, command, arguments })
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.arguments.get(name)?.as_str()
    }

    pub fn number(&self, name: &str) -> Option<i64> {
        self.arguments.get(name)?.as_i64()
    }
}
