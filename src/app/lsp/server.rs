//! The state of the language server. Notifications change the documents; requests are added to the task queues.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::convert;
use super::document::Document;
use super::snapshot::DocumentsView;
use super::task_queues::{LspTask, TaskQueues};
use super::text::PositionEncoding;
use crate::json_rpc::{self, RequestError};
use crate::{crash, exit, uri};

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ServerState {
    #[default]
    Fresh,
    Running,
    ShutDown,
}

pub(crate) struct Server {
    state: ServerState,
    view: DocumentsView,
    lanes: Arc<TaskQueues>,
}

impl Server {
    pub fn new(lanes: Arc<TaskQueues>) -> Server {
        Server { state: ServerState::Fresh, view: DocumentsView::default(), lanes }
    }

    pub fn is_shut_down(&self) -> bool {
        self.state == ServerState::ShutDown
    }

    /// Handles a message. Returns the exit code if the message ends the session.
    pub fn receive(&mut self, message: Value) -> Option<u8> {
        // This protocol has no batches, but JSON-RPC does, and supporting them is cheap.
        if let Value::Array(messages) = message {
            return messages.into_iter().find_map(|m| self.receive(m));
        }
        let id = message.get("id").filter(|id| id.is_string() || id.is_number()).cloned();
        let Some(method) = message.get("method").and_then(Value::as_str) else {
            // The message is a response or is invalid. The server sends no requests, so it ignores responses.
            if message.get("result").is_none() && message.get("error").is_none() {
                let id = id.unwrap_or(Value::Null);
                self.lanes.output.send(json_rpc::error_response(
                    &id,
                    json_rpc::INVALID_REQUEST,
                    "a message without a method",
                ));
            }
            return None;
        };
        let params = message.get("params").unwrap_or(&Value::Null);
        match id {
            Some(id) => {
                match self.request(&id, method, params) {
                    None => {}
                    Some(Ok(result)) => self.lanes.output.send(json_rpc::result_response(&id, result)),
                    Some(Err(failure)) => {
                        self.lanes.output.send(json_rpc::error_response(&id, failure.code, &failure.message));
                    }
                }
                None
            }
            // If the handling of a notification panics, the server keeps the changes made before the panic.
            None => crash::catch_panic(|| self.notification(method, params)).unwrap_or(None),
        }
    }

    /// Answers a request at once, or adds it to the task queue of its document and returns `None`.
    fn request(&mut self, id: &Value, method: &str, params: &Value) -> Option<Result<Value, RequestError>> {
        let failure = |code, message: &str| Some(Err(RequestError { code, message: message.into() }));
        match (self.state, method) {
            (ServerState::Fresh, "initialize") => Some(Ok(self.initialize(params))),
            (ServerState::Fresh, _) => failure(json_rpc::NOT_INITIALIZED, "the first request is `initialize`"),
            (ServerState::ShutDown, _) => failure(json_rpc::INVALID_REQUEST, "the session was shut down"),
            (ServerState::Running, "initialize") => failure(json_rpc::INVALID_REQUEST, "the session has begun"),
            (ServerState::Running, "shutdown") => {
                self.state = ServerState::ShutDown;
                Some(Ok(Value::Null))
            }
            (ServerState::Running, _) => {
                // The document is named in the parameters, or is the first argument of a command.
                let address = ["/textDocument/uri", "/arguments/0"].iter().find_map(|at| params.pointer(at)?.as_str());
                let task = LspTask::Request { id: id.clone(), method: method.to_owned(), params: params.clone() };
                self.lanes.push(address.unwrap_or_default(), task, self.view.clone());
                None
            }
        }
    }

    fn initialize(&mut self, params: &Value) -> Value {
        self.state = ServerState::Running;
        let encodings = params.pointer("/capabilities/general/positionEncodings").and_then(Value::as_array);
        let utf8 = encodings.is_some_and(|all| all.iter().any(|e| e == "utf-8"));
        self.view.encoding = if utf8 { PositionEncoding::Utf8 } else { PositionEncoding::Utf16 };
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
        if self.state != ServerState::Running {
            return None;
        }
        let address = params.pointer("/textDocument/uri").and_then(Value::as_str);
        match (method, address) {
            ("textDocument/didOpen", Some(address)) => {
                let item = &params["textDocument"];
                let text = item.get("text").and_then(Value::as_str).unwrap_or("").to_owned();
                let version = item.get("version").and_then(Value::as_i64).unwrap_or(0);
                let language = item.get("languageId").and_then(Value::as_str).unwrap_or_default();
                self.view.open(address, language, text, version);
                self.changed(address);
            }
            ("textDocument/didChange", Some(address)) => {
                let document = self.view.documents.get(address)?;
                let is_cuda = document.is_cuda;
                let (mut text, mut version) = (document.text.clone(), document.version);
                for change in params.get("contentChanges").and_then(Value::as_array).into_iter().flatten() {
                    text.change(change);
                }
                if let Some(newer) = params.pointer("/textDocument/version").and_then(Value::as_i64) {
                    version = newer;
                }
                self.view.replace(address, Document::new(address, is_cuda, text, version));
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

    /// After a change of a document, queues the analysis of this document and of every document that imports files.
    fn changed(&mut self, address: &str) {
        let dependents = |(other, document): (&String, &Arc<Document>)| {
            (other == address || document.may_import_files()).then(|| other.clone())
        };
        let outdated: Vec<String> = self.view.documents.iter().filter_map(dependents).collect();
        for other in outdated.iter().filter(|other| *other != address) {
            if let Some(document) = self.view.documents.get(other) {
                let fresh = document.outdated(other);
                self.view.replace(other, fresh);
            }
        }
        for other in outdated {
            self.lanes.outdate(&other);
            self.lanes.push(&other, LspTask::Publish, self.view.clone());
        }
    }
}
