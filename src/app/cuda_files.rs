//! CUDA C++ files as programs: translates their kernels to Clk, and moves diagnostics about the text to the CUDA file.

use std::path::Path;

use super::console::Console;
use super::disk;
use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, SourceMap, Span};
use clk_import::{ImportOptions, SpanMap, Translation};

/// The translation of a CUDA file, whose diagnostics are moved to that file.
pub(crate) struct CudaOrigin {
    /// The translated text.
    text: FileId,
    map: SpanMap,
}

impl CudaOrigin {
    pub fn new(text: FileId, map: SpanMap) -> CudaOrigin {
        CudaOrigin { text, map }
    }

    /// Returns the diagnostic with the places of the CUDA file. Its fixes are those of the text, so they are left out.
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

/// Returns whether a path is that of a CUDA file.
pub(crate) fn is_cuda_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "cu" || extension == "cuh")
}

/// Reads and translates a CUDA file. Reports refused kernels and assumptions; returns `None` if no kernel remains.
pub(crate) fn translate(path: &Path, sources: &mut SourceMap, console: &mut Console) -> Option<Translation> {
    let text = match disk::read_source(path) {
        Ok(text) => text,
        Err(why) => {
            console.report(&disk::unreadable(path, &why), sources);
            return None;
        }
    };
    let file = sources.add(path.display().to_string(), text);
    let read_header = |path: &str| disk::read_source(Path::new(path)).ok();
    let parsed = clk_import::parse(sources, file, &ImportOptions::default(), &read_header);
    let translation = clk_import::translate(&parsed.unit, &parsed.provenance);
    console.report_all(&parsed.diagnostics, sources);
    for refused in &translation.refused {
        console.report(&refused.diagnostic, sources);
    }
    if translation.kernels.is_empty() {
        if translation.refused.is_empty() {
            console.error_line(&format!("error: `{}` has no kernel", path.display()));
        }
        return None;
    }
    for kernel in &translation.kernels {
        for assumption in &kernel.assumptions {
            let (line, _) = sources.line_column(assumption.source.span);
            let name = &kernel.name;
            console.error_line(&format!(
                "note: the translation of `{name}` assumes that {} (line {line})",
                assumption.text
            ));
        }
    }
    Some(translation)
}
