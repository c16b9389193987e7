//! State of a server session, and the handling of messages: notifications change the documents, requests go to the lanes.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::answer::{self, Failure};
use super::document::Document;
use super::lanes::{Lanes, Task};
use super::text::Encoding;
use super::view::View;
use super::{convert, uri};
use crate::app::{crash, exit};

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Fresh,
    Running,
    ShutDown,
}

pub(crate) struct Server {
    state: State,
    view: View,
    lanes: Arc<Lanes>,
}

impl Server {
    pub fn new(lanes: Arc<Lanes>) -> Server {
        Server { state: State::Fresh, view: View::default(), lanes }
    }

    pub fn is_shut_down(&self) -> bool {
        self.state == State::ShutDown
    }

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
                self.lanes.output.send(answer::error(&id, answer::INVALID_REQUEST, "a message without a method"));
            }
            return None;
        };
        let params = message.get("params").unwrap_or(&Value::Null);
        match id {
            Some(id) => {
                match self.request(&id, method, params) {
                    None => {}
                    Some(Ok(result)) => self.lanes.output.send(answer::result(&id, result)),
                    Some(Err(failure)) => {
                        self.lanes.output.send(answer::error(&id, failure.code, &failure.message));
                    }
                }
                None
            }
            // If a notification panics, the server keeps the state reached so far.
            None => crash::survived(|| self.notification(method, params)).unwrap_or(None),
        }
    }

    /// Answers a request, or hands it to a lane.
    fn request(&mut self, id: &Value, method: &str, params: &Value) -> Option<Result<Value, Failure>> {
        let failure = |code, message: &str| Some(Err(Failure { code, message: message.into() }));
        match (self.state, method) {
            (State::Fresh, "initialize") => Some(Ok(self.initialize(params))),
            (State::Fresh, _) => failure(answer::NOT_INITIALIZED, "the first request is `initialize`"),
            (State::ShutDown, _) => failure(answer::INVALID_REQUEST, "the session was shut down"),
            (State::Running, "initialize") => failure(answer::INVALID_REQUEST, "the session has begun"),
            (State::Running, "shutdown") => {
                self.state = State::ShutDown;
                Some(Ok(Value::Null))
            }
            (State::Running, _) => {
                // The document that the request is about, or that its command has as the first argument.
                let address = ["/textDocument/uri", "/arguments/0"].iter().find_map(|at| params.pointer(at)?.as_str());
                let task = Task::Request { id: id.clone(), method: method.to_owned(), params: params.clone() };
                self.lanes.push(address.unwrap_or_default(), task, self.view.clone());
                None
            }
        }
    }

    fn initialize(&mut self, params: &Value) -> Value {
        self.state = State::Running;
        let encodings = params.pointer("/capabilities/general/positionEncodings").and_then(Value::as_array);
        let utf8 = encodings.is_some_and(|all| all.iter().any(|e| e == "utf-8"));
        self.view.encoding = if utf8 { Encoding::Utf8 } else { Encoding::Utf16 };
        let listed = params.get("workspaceFolders").and_then(Value::as_array).into_iter().flatten();
        let folders = listed.filter_map(|f| f.get("uri")).chain(params.get("rootUri"));
        let mut folders: Vec<PathBuf> = folders.filter_map(|u| uri::to_path(u.as_str()?)).collect();
        folders.dedup();
        self.view.folders = Arc::new(folders);
        convert::capabilities(self.view.encoding)
    }

    fn notification(&mut self, method: &str, params: &Value) -> Option<u8> {
        if method == "exit" {
            return Some(if self.is_shut_down() { exit::OK } else { exit::FAILURE });
        }
        if method == "$/cancelRequest" {
            self.lanes.cancel(params.get("id").unwrap_or(&Value::Null));
            return None;
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
                self.view.open(address, text, version);
                self.changed(address);
            }
            ("textDocument/didChange", Some(address)) => {
                let known = self.view.documents.get(address)?;
                let (mut text, mut version) = (known.text.clone(), known.version);
                for change in params.get("contentChanges").and_then(Value::as_array).into_iter().flatten() {
                    text.change(change);
                }
                if let Some(newer) = params.pointer("/textDocument/version").and_then(Value::as_i64) {
                    version = newer;
                }
                self.view.replace(address, Document::new(address, text, version));
                self.changed(address);
            }
            ("textDocument/didClose", Some(address)) => {
                if !self.view.close(address) {
                    return None;
                }
                self.lanes.outdate(address);
                self.lanes.output.send(convert::publish(address, None, vec![]));
                self.changed(address);
            }
            ("workspace/didChangeWatchedFiles" | "textDocument/didSave", _) => self.changed(""),
            _ => {}
        }
        None
    }

    /// Analyzes a changed document anew, and every document that imports files.
    fn changed(&mut self, address: &str) {
        let dependents = |(other, document): (&String, &Arc<Document>)| {
            (other == address || document.may_import_files()).then(|| other.clone())
        };
        let outdated: Vec<String> = self.view.documents.iter().filter_map(dependents).collect();
        for other in outdated.iter().filter(|other| *other != address) {
            if let Some(document) = self.view.documents.get(other) {
                let fresh = Document::new(other, document.text.clone(), document.version);
                self.view.replace(other, fresh);
            }
        }
        for other in outdated {
            self.lanes.outdate(&other);
            self.lanes.push(&other, Task::Publish, self.view.clone());
        }
    }
}
