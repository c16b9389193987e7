//! The server's end of the connection: responses and events, numbered as the protocol wants.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

use crate::app::framing;

/// What is sent; shared by all that send.
#[derive(Clone)]
pub(crate) struct Wire(Arc<Mutex<Out>>);

struct Out {
    to: Box<dyn Write + Send>,
    /// The number of the last message.
    seq: i64,
}

impl Wire {
    pub fn new(to: impl Write + Send + 'static) -> Wire {
        Wire(Arc::new(Mutex::new(Out { to: Box::new(to), seq: 0 })))
    }

    fn send(&self, mut message: Value) {
        let mut out = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        out.seq += 1;
        message["seq"] = json!(out.seq);
        // A client that has gone reads nothing; the end of its stream is noticed where requests are read.
        let _ = framing::write(&mut out.to, &message);
    }

    pub fn event(&self, name: &str, body: Value) {
        self.send(json!({ "type": "event", "event": name, "body": body }));
    }

    pub fn output(&self, category: &str, text: &str) {
        self.event("output", json!({ "category": category, "output": text }));
    }

    /// Answers a request.
    pub fn answer(&self, request: &Request, result: Result<Value, String>) {
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
pub(crate) struct Request {
    pub seq: i64,
    pub command: String,
    pub arguments: Value,
}

impl Request {
    /// Reads a message; `None` if it is no request.
    pub fn of(message: &Value) -> Option<Request> {
        let command = message.get("command")?.as_str()?.to_string();
        let is_request = message.get("type").is_none_or(|kind| kind == "request");
        let seq = message.get("seq").and_then(Value::as_i64)?;
        let arguments = message.get("arguments").cloned().unwrap_or(Value::Null);
        is_request.then_some(Request { seq, command, arguments })
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.arguments.get(name)?.as_str()
    }

    pub fn number(&self, name: &str) -> Option<i64> {
        self.arguments.get(name)?.as_i64()
    }
}
