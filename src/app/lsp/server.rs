//! State of a server session and dispatch of messages.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::Value;

use super::answer::{self, Failure};
use super::document::{Document, Documents, Overlay};
use super::text::{Encoding, Text};
use super::{convert, requests, uri};
use crate::app::{crash, exit};
use crate::ide::Analysis;
use crate::syntax::ast::{ImportSource, ItemKind};

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Fresh,
    Running,
    ShutDown,
}

#[derive(Default)]
pub(crate) struct Server {
    state: State,
    pub encoding: Encoding,
    pub documents: Documents,
    /// The directories open in the editor.
    pub folders: Vec<PathBuf>,
    /// URIs of documents whose diagnostics are outdated.
    dirty: BTreeSet<String>,
    outbox: Vec<Value>,
}

impl Server {
    pub fn send(&mut self, message: Value) {
        self.outbox.push(message);
    }

    pub fn take_messages(&mut self) -> Vec<Value> {
        std::mem::take(&mut self.outbox)
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

    /// Invalidates the analysis of a changed document and of every document that imports files.
    fn changed(&mut self, address: &str) {
        for (other, document) in &mut self.documents {
            let imports = document.analysis.as_ref().is_some_and(|a| imports_files(a));
            if other == address || imports {
                document.analysis = None;
                self.dirty.insert(other.clone());
            }
        }
    }

    /// Returns the analysis of an open document, computing it if it is outdated.
    pub fn analysis(&mut self, address: &str) -> Option<Rc<Analysis>> {
        let document = self.documents.get(address)?;
        if let Some(known) = &document.analysis {
            return Some(known.clone());
        }
        let fresh = Analysis::new(&document.name, document.text.as_str(), &Overlay(&self.documents));
        let fresh = Rc::new(fresh);
        self.documents.get_mut(address)?.analysis = Some(fresh.clone());
        Some(fresh)
    }

    /// Checks the changed documents and sends their diagnostics.
    pub fn publish(&mut self) {
        for address in std::mem::take(&mut self.dirty) {
            let found = crash::survived(|| self.analysis(&address));
            let (Ok(Some(analysis)), Some(document)) = (found, self.documents.get(&address)) else { continue };
            let found = convert::diagnostics(&analysis, &document.text, &address);
            let message = convert::publish(&address, Some(document.version), found);
            self.send(message);
        }
    }
}

fn imports_files(analysis: &Analysis) -> bool {
    analysis.tree.items.iter().any(
        |item| matches!(&item.kind, ItemKind::Import(import) if matches!(import.source, ImportSource::File { .. })),
    )
}
