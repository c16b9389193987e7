//! Dispatch of requests and notifications to their handlers.

use serde_json::Value;

use super::answer::{self, Failure};
use super::document::Document;
use super::server::{Server, State};
use super::text::{Encoding, Text};
use super::{convert, requests, uri};
use crate::app::{crash, exit};

impl Server {
    /// Handles a message; a returned exit code ends the session.
    pub fn receive(&mut self, message: Value) -> Option<u8> {
        // Batches belong to JSON-RPC rather than to this protocol, but are cheap to support.
        if let Value::Array(messages) = message {
            return messages.into_iter().find_map(|m| self.receive(m));
        }
        let id = message.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            // A response (the server sends no requests), or not a valid message.
            if message.get("result").is_none() && message.get("error").is_none() {
                let id = id.unwrap_or(Value::Null);
                self.send(answer::error(&id, answer::INVALID_REQUEST, "a message without a method"));
            }
            return None;
        };
        let params = message.get("params").unwrap_or(&Value::Null);
        match id {
            Some(id) => {
                let answer = match self.request(method, params) {
                    Ok(result) => answer::result(&id, result),
                    Err(failure) => answer::error(&id, failure.code, &failure.message),
                };
                self.send(answer);
                None
            }
            // If a notification panics, the server keeps the state reached so far.
            None => crash::survived(|| self.notification(method, params)).unwrap_or(None),
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> Result<Value, Failure> {
        let failure = |code, message: &str| Err(Failure { code, message: message.into() });
        match (self.state, method) {
            (State::Fresh, "initialize") => Ok(self.initialize(params)),
            (State::Fresh, _) => failure(answer::NOT_INITIALIZED, "the first request is `initialize`"),
            (State::ShutDown, _) => failure(answer::INVALID_REQUEST, "the session was shut down"),
            (State::Running, "initialize") => failure(answer::INVALID_REQUEST, "the session has begun"),
            (State::Running, "shutdown") => {
                self.state = State::ShutDown;
                Ok(Value::Null)
            }
            // A panic fails this request only.
            (State::Running, _) => crash::survived(|| requests::answer(self, method, params)).unwrap_or_else(|fault| {
                failure(answer::INTERNAL_ERROR, &format!("{}; see the server's standard error", fault.title))
            }),
        }
    }

    fn initialize(&mut self, params: &Value) -> Value {
        self.state = State::Running;
        let encodings = params.pointer("/capabilities/general/positionEncodings").and_then(Value::as_array);
        let utf8 = encodings.is_some_and(|all| all.iter().any(|e| e == "utf-8"));
        self.encoding = if utf8 { Encoding::Utf8 } else { Encoding::Utf16 };
        let listed = params.get("workspaceFolders").and_then(Value::as_array).into_iter().flatten();
        let folders = listed.filter_map(|f| f.get("uri")).chain(params.get("rootUri"));
        self.folders = folders.filter_map(|u| uri::to_path(u.as_str()?)).collect();
        self.folders.dedup();
        convert::capabilities(self.encoding)
    }

    fn notification(&mut self, method: &str, params: &Value) -> Option<u8> {
        if method == "exit" {
            return Some(if self.is_shut_down() { exit::OK } else { exit::FAILURE });
        }
        if self.state != State::Running {
            return None;
        }
        let address = params.pointer("/textDocument/uri").and_then(Value::as_str);
        match (method, address) {
            ("textDocument/didOpen", Some(address)) => {
                let item = &params["textDocument"];
                let text = item.get("text").and_then(Value::as_str).unwrap_or("").to_owned();
                let version = item.get("version").and_then(Value::as_i64).unwrap_or(0);
                let document = Document::new(address, Text::new(text, self.encoding), version);
                self.documents.insert(address.to_owned(), document);
                self.changed(address);
            }
            ("textDocument/didChange", Some(address)) => {
                let document = self.documents.get_mut(address)?;
                for change in params.get("contentChanges").and_then(Value::as_array).into_iter().flatten() {
                    document.text.change(change);
                }
                if let Some(version) = params.pointer("/textDocument/version").and_then(Value::as_i64) {
                    document.version = version;
                }
                self.changed(address);
            }
            ("textDocument/didClose", Some(address)) => {
                self.documents.remove(address)?;
                self.dirty.remove(address);
                self.send(convert::publish(address, None, vec![]));
                self.changed(address);
            }
            ("workspace/didChangeWatchedFiles" | "textDocument/didSave", _) => self.changed(""),
            _ => {}
        }
        None
    }
}
