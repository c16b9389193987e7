//! State of a server session: the documents, and the messages for the client.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;

use serde_json::Value;

use super::convert;
use super::document::{Documents, Overlay};
use super::text::Encoding;
use crate::app::crash;
use crate::ide::Analysis;
use crate::syntax::ast::{ImportSource, ItemKind};

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Fresh,
    Running,
    ShutDown,
}

#[derive(Default)]
pub(crate) struct Server {
    pub(super) state: State,
    pub encoding: Encoding,
    pub documents: Documents,
    /// The directories open in the editor.
    pub folders: Vec<PathBuf>,
    /// URIs of documents whose diagnostics are outdated.
    pub(super) dirty: BTreeSet<String>,
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

    /// Invalidates the analysis of a changed document and of every document that imports files.
    pub(super) fn changed(&mut self, address: &str) {
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
