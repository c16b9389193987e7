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

    /// Returns the place in the CUDA file of a place in the text.
    pub fn place(&self, span: Span) -> Span {
        let source = (span.file == self.text).then(|| self.map.source_of(span.range())).flatten();
        source.map_or(span, |source| source.span)
    }

    /// Returns the diagnostic with places in the CUDA file. Drops its fixes, because they edit the translated text.
    pub fn located(&self, diagnostic: &Diagnostic) -> Diagnostic {
        let mut located = diagnostic.clone();
        let is_moved = |span: &Span| span.file == self.text;
        for label in &mut located.labels {
            label.span = self.place(label.span);
        }
        located.fixes.retain(|fix| !fix.edits.iter().any(|(span, _)| is_moved(span)));
        located
    }
}
