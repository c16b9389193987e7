//! Loads a CUDA C++ file as the program. Reports its refused kernels and the assumptions of the translation.

use std::path::Path;

use serde_json::json;

use super::console::Console;
use super::cuda_files::{self, LoadedCuda};
use super::disk;
use clk_base::render;
use clk_base::source::SourceMap;

/// Loads a CUDA file as the program. Reports refused kernels and assumptions; returns `None` if no kernel remains.
pub(crate) fn load(path: &Path, sources: &mut SourceMap, console: &mut Console) -> Option<LoadedCuda> {
    let loaded = match cuda_files::load(path, &console.cuda_options, sources) {
        Ok(loaded) => loaded,
        Err(why) => {
            console.report(&disk::unreadable(path, &why), sources);
            return None;
        }
    };
    console.report_all(&loaded.diagnostics, sources);
    console.report_all(&loaded.kernel_errors, sources);
    for refused in &loaded.program.refused {
        console.report(&refused.diagnostic, sources);
    }
    if loaded.program.kernels.is_empty() {
        if loaded.program.refused.is_empty() && loaded.program.faulty.is_empty() {
            console.error_line(&format!("error: `{}` has no kernel", path.display()));
        }
        return None;
    }
    for kernel in &loaded.program.kernels {
        for assumption in &kernel.assumptions {
            let (name, place) = (&kernel.name, assumption.source.span);
            if console.is_json() {
                let at = render::place_json(place, sources);
                console.record(
                    "assumption",
                    json!({ "kernel": name.as_str(), "text": assumption.text.as_str(), "at": at }),
                );
                continue;
            }
            let (line, _) = sources.line_column(place);
            console.error_line(&format!(
                "note: the translation of `{name}` assumes that {} (line {line})",
                assumption.text
            ));
        }
    }
    Some(loaded)
}
