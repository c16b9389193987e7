//! Moves diagnostics about the translation of a CUDA file to that file.

use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, Span};
use clk_import::OriginMap;

/// The translation of a CUDA file, whose diagnostics are moved to that file.
pub(crate) struct CudaOrigin {
    /// The translated text.
    text: FileId,
    map: OriginMap,
}

impl CudaOrigin {
    pub fn new(text: FileId, map: OriginMap) -> CudaOrigin {
        CudaOrigin { text, map }
    }

    /// Returns the diagnostic with places in the CUDA file. Drops its fixes, because they edit the translated text.
    pub fn located(&self, diagnostic: &Diagnostic) -> Diagnostic {
        let mut located = diagnostic.clone();
        let is_moved = |span: &Span| span.file == self.text;
        for label in located.labels.iter_mut().filter(|label| is_moved(&label.span)) {
            if let Some(source) = self.map.source_of(label.span.range()) {
                label.span = source.span;
            }
        }
        located.fixes.retain(|fix| !fix.edits.iter().any(|(span, _)| is_moved(span)));
        located
    }
}
