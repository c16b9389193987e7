//! CUDA C++ files as programs: reads them, translates their kernels to Clk, and reports refused ones.

use std::path::Path;

use super::console::Console;
use super::disk;
use clk_base::source::SourceMap;
use clk_import::CudaTranslation;

/// Returns whether a path is that of a CUDA file.
pub(crate) fn is_cuda_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "cu" || extension == "cuh")
}

/// Reads and translates a CUDA file. Reports refused kernels and assumptions; returns `None` if no kernel remains.
pub(crate) fn translate(path: &Path, sources: &mut SourceMap, console: &mut Console) -> Option<CudaTranslation> {
    let text = match disk::read_source(path) {
        Ok(text) => text,
        Err(why) => {
            console.report(&disk::unreadable(path, &why), sources);
            return None;
        }
    };
    let file = sources.add(path.display().to_string(), text);
    let read_header = |path: &str| disk::read_source(Path::new(path)).ok();
    let parsed = clk_import::parse(sources, file, &console.cuda_options, &read_header);
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
