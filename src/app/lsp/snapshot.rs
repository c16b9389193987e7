//! A snapshot of the open documents, taken when a message arrives. Requests are answered from a snapshot.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::convert;
use super::document::{Document, Documents, Overlay};
use super::text::{PositionEncoding, Text};
use clk_ide::Analysis;

/// The open documents at one time. Clones are cheap, because they share the documents and their analyses.
#[derive(Clone, Default)]
pub(crate) struct DocumentsView {
    pub documents: Arc<Documents>,
    /// The directories that are open in the editor.
    pub folders: Arc<Vec<PathBuf>>,
    pub encoding: PositionEncoding,
}

impl DocumentsView {
    /// Adds or replaces a document.
    pub fn open(&mut self, address: &str, text: String, version: i64) {
        let document = Document::new(address, Text::new(text, self.encoding), version);
        self.replace(address, document);
    }

    pub fn replace(&mut self, address: &str, document: Document) {
        Arc::make_mut(&mut self.documents).insert(address.to_owned(), Arc::new(document));
    }

    pub fn close(&mut self, address: &str) -> bool {
        Arc::make_mut(&mut self.documents).remove(address).is_some()
    }

    /// Makes the analysis of a document run until it is stopped, for tests.
    #[cfg(test)]
    pub fn delay(&mut self, address: &str) {
        if let Some(document) = Arc::make_mut(&mut self.documents).get_mut(address).and_then(Arc::get_mut) {
            document.is_endless = true;
        }
    }

    /// Returns the analysis of an open document; computes it at the first call.
    pub fn analysis(&self, address: &str) -> Option<Arc<Analysis>> {
        let document = self.documents.get(address)?;
        let analyze = || {
            #[cfg(test)]
            if document.is_endless {
                loop {
                    clk_base::stop::poll();
                    std::thread::yield_now();
                }
            }
            Arc::new(Analysis::new(&document.name, document.text.as_str(), &Overlay(&self.documents)))
        };
        Some(document.analysis.get_or_init(analyze).clone())
    }

    /// Whether the analysis of an open document has been computed.
    pub fn is_analyzed(&self, address: &str) -> bool {
        self.documents.get(address).is_some_and(|document| document.analysis.get().is_some())
    }

    /// Returns the notification that publishes the diagnostics of an open document.
    pub fn publication(&self, address: &str) -> Option<Value> {
        let (analysis, document) = (self.analysis(address)?, self.documents.get(address)?);
        let list = convert::diagnostics(&analysis, &document.text, address);
        Some(convert::publish(address, Some(document.version), list))
    }
}
