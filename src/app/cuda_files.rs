//! CUDA C++ files: reads them, and adds the translation of their kernels to the sources.

use std::path::Path;
use std::sync::Arc;

use super::disk::source::read_source;
use clk_base::diag::{Diagnostic, Severity};
use clk_base::file_error::FileError;
use clk_base::source::{FileId, SourceMap};
use clk_compile::LoadedFile;
use clk_import::{ImportOptions, RefusedKernel, TranslatedKernel};

/// The code of warnings about kernels that an imported file lacks.
const LEFT_OUT: &str = "W0850";

/// A CUDA file whose translation is in the sources.
pub(crate) struct LoadedCuda {
    /// The translated text.
    pub file: FileId,
    pub kernels: Vec<TranslatedKernel>,
    pub refused: Vec<RefusedKernel>,
    /// Messages of the preprocessor and the parser.
    pub diagnostics: Vec<Diagnostic>,
}

/// Returns whether a path is that of a CUDA file.
pub(crate) fn is_cuda_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "cu" || extension == "cuh")
}

/// Reads and translates a CUDA file, and adds the file and the translation to the sources.
pub(crate) fn load(path: &Path, options: &ImportOptions, sources: &mut SourceMap) -> Result<LoadedCuda, FileError> {
    let text = read_source(path)?;
    let file = sources.add(path.display().to_string(), text);
    let read_header = |path: &str| read_source(Path::new(path)).ok();
    let parsed = clk_import::parse(sources, file, options, &read_header);
    let translation = clk_import::translate(&parsed.unit, &parsed.provenance);
    let name = format!("<Clk text of {}>", path.display());
    Ok(LoadedCuda {
        file: sources.add_generated(name, translation.text, Arc::new(translation.map)),
        kernels: translation.kernels,
        refused: translation.refused,
        diagnostics: parsed.diagnostics.into_iter().chain(translation.warnings).collect(),
    })
}

/// Loads a CUDA file as a module of a program. Refused kernels are warnings, because the program may not use them.
pub(crate) fn load_module(path: &Path, sources: &mut SourceMap) -> Result<LoadedFile, FileError> {
    let loaded = load(path, &ImportOptions::default(), sources)?;
    let refused = loaded.refused.into_iter().map(|refused| Diagnostic {
        code: LEFT_OUT,
        severity: Severity::Warning,
        ..refused.diagnostic
    });
    Ok(LoadedFile { file: loaded.file, diagnostics: loaded.diagnostics.into_iter().chain(refused).collect() })
}
