//! A snapshot of the open documents, taken when a message arrives. Requests are answered from a snapshot.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::convert;
use super::cuda_analysis::CudaAnalysis;
use super::document::{self, Document, Documents, Overlay};
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
    pub fn open(&mut self, address: &str, language: &str, text: String, version: i64) {
        let is_cuda = document::is_cuda(address, language);
        let document = Document::new(address, is_cuda, Text::new(text, self.encoding), version);
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

    /// Returns the analysis of an open Clk program; computes it at the first call.
    pub fn analysis(&self, address: &str) -> Option<Arc<Analysis>> {
        let document = self.documents.get(address).filter(|document| !document.is_cuda)?;
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

    /// Returns the analysis of an open CUDA file; computes it at the first call.
    pub fn cuda(&self, address: &str) -> Option<Arc<CudaAnalysis>> {
        let document = self.documents.get(address).filter(|document| document.is_cuda)?;
        let analyze = || Arc::new(CudaAnalysis::new(&document.name, document.text.as_str(), &Overlay(&self.documents)));
        Some(document.cuda.get_or_init(analyze).clone())
    }

    /// Whether the analysis of an open document has been computed.
    pub fn is_analyzed(&self, address: &str) -> bool {
        let has_analysis =
            |document: &Arc<Document>| document.analysis.get().is_some() || document.cuda.get().is_some();
        self.documents.get(address).is_some_and(has_analysis)
    }

    /// Returns the notification that publishes the diagnostics of an open document.
    pub fn publication(&self, address: &str) -> Option<Value> {
        let document = self.documents.get(address)?;
        let list = match self.cuda(address) {
            Some(analysis) => convert::cuda_diagnostics(&analysis, &document.text, address),
            None => convert::diagnostics(&*self.analysis(address)?, &document.text, address),
        };
        Some(convert::publish(address, Some(document.version), list))
    }

    /// Searches for faults in the next kernel of a CUDA file. Returns the notification that publishes them, if there
    /// are any.
    pub fn fault_publication(&self, address: &str) -> Option<Value> {
        if self.cuda(address)?.search_next() { self.publication(address) } else { None }
    }

    /// Whether an open document is a CUDA file with kernels in which faults were not searched yet.
    pub fn has_unsearched(&self, address: &str) -> bool {
        self.cuda(address).is_some_and(|analysis| analysis.has_unsearched())
    }
}
