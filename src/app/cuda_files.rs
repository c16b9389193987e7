//! CUDA C++ files: reads them, and adds the translation of their kernels to the sources.

use std::path::Path;
use std::sync::Arc;

use super::cuda_fences;
use super::disk::source::read_source;
use super::faulty_kernels::{self, FaultyKernels};
use clk_base::diag::{Diagnostic, Severity};
use clk_base::file_error::FileError;
use clk_base::source::{FileId, SourceMap};
use clk_compile::LoadedFile;
use clk_import::ast::TranslationUnit;
use clk_import::source::Provenance;
use clk_import::{
    CudaLaunch, CudaTranslation, HostUnknowns, ImportOptions, LEFT_OUT, ParsedCuda, RefusedKernel, TranslatedKernel,
};

/// The code of warnings about atomic functions of block scope.
const BLOCK_SCOPE: &str = "W0857";

/// The kernels and launches of a CUDA file.
#[derive(Default)]
pub(crate) struct CudaProgram {
    pub kernels: Vec<TranslatedKernel>,
    pub refused: Vec<RefusedKernel>,
    /// Kernels whose translation has an error. The text does not contain them.
    pub faulty: Vec<TranslatedKernel>,
    /// The launches in host code, and the values on which they depend.
    pub launches: Vec<CudaLaunch>,
    pub unknowns: HostUnknowns,
}

/// A CUDA file whose translation is in the sources.
pub(crate) struct LoadedCuda {
    /// The CUDA file.
    pub source: FileId,
    /// The translated text.
    pub file: FileId,
    /// Statements that launch each kernel once, to be appended to the text.
    pub script: String,
    pub program: CudaProgram,
    /// Messages of the preprocessor and the parser, and warnings about the kernels.
    pub diagnostics: Vec<Diagnostic>,
    /// The errors of `faulty` kernels, at places of the text.
    pub kernel_errors: Vec<Diagnostic>,
    pub unit: TranslationUnit,
    pub provenance: Provenance,
}

/// Returns whether a path is that of a CUDA file.
pub(crate) fn is_cuda_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "cu" || extension == "cuh")
}

/// Reads and translates a CUDA file, and adds the file and the translation to the sources.
pub(crate) fn load(path: &Path, options: &ImportOptions, sources: &mut SourceMap) -> Result<LoadedCuda, FileError> {
    let read = |path: &Path| read_source(path);
    let text = read(path)?;
    Ok(translate(&path.display().to_string(), text, options, &read, sources))
}

/// Like [`load`], but kernels with errors stay in the text.
pub(crate) fn load_unexamined(
    path: &Path,
    options: &ImportOptions,
    sources: &mut SourceMap,
) -> Result<LoadedCuda, FileError> {
    let read = |path: &Path| read_source(path);
    let text = read(path)?;
    let source = sources.add(path.display().to_string(), text);
    let (translation, parsed) = translation_of(source, options, &read, sources);
    Ok(loaded(source, translation, FaultyKernels::default(), vec![], parsed, sources))
}

/// Translates a text, and adds it and the translation to the sources. `read` returns the text of a header.
pub(crate) fn translate(
    name: &str,
    text: String,
    options: &ImportOptions,
    read: &dyn Fn(&Path) -> Result<String, FileError>,
    sources: &mut SourceMap,
) -> LoadedCuda {
    let source = sources.add(name, text);
    let (mut translation, parsed) = translation_of(source, options, read, sources);
    let (faulty, session) = faulty_kernels::remove(&mut translation);
    let warnings = cuda_fences::unfenced_locks(&session, &translation.kernels);
    loaded(source, translation, faulty, warnings, parsed, sources)
}

fn translation_of(
    source: FileId,
    options: &ImportOptions,
    read: &dyn Fn(&Path) -> Result<String, FileError>,
    sources: &mut SourceMap,
) -> (CudaTranslation, ParsedCuda) {
    let parsed = clk_import::parse(sources, source, options, &|path| read(Path::new(path)).ok());
    (clk_import::translate(&parsed.unit, &parsed.provenance, options), parsed)
}

/// Adds a translation to the sources. `warnings` are about its text.
fn loaded(
    source: FileId,
    translation: CudaTranslation,
    faulty: FaultyKernels,
    mut warnings: Vec<Diagnostic>,
    parsed: ParsedCuda,
    sources: &mut SourceMap,
) -> LoadedCuda {
    let name = format!("<Clk text of {}>", sources.name(source));
    let file = sources.add_generated(name, translation.text, Arc::new(translation.map));
    let mut kernel_errors = faulty.errors;
    for label in kernel_errors.iter_mut().chain(&mut warnings).flat_map(|found| &mut found.labels) {
        label.span.file = file;
    }
    LoadedCuda {
        source,
        file,
        kernel_errors,
        script: translation.script,
        program: CudaProgram {
            kernels: translation.kernels,
            refused: translation.refused,
            faulty: faulty.kernels,
            launches: translation.launches,
            unknowns: translation.unknowns,
        },
        diagnostics: [parsed.diagnostics, translation.errors, translation.warnings, warnings].concat(),
        unit: parsed.unit,
        provenance: parsed.provenance,
    }
}

/// Loads a CUDA file as a module of a program. Refused kernels and kernels with errors are warnings, because the
/// program may not use them.
/// `read` returns the text of a file.
pub(crate) fn load_module(
    path: &Path,
    options: &ImportOptions,
    read: &dyn Fn(&Path) -> Result<String, FileError>,
    sources: &mut SourceMap,
) -> Result<LoadedFile, FileError> {
    let loaded = translate(&path.display().to_string(), read(path)?, options, read, sources);
    let refused = loaded.program.refused.into_iter().map(|refused| refused.diagnostic);
    let left_out = refused.chain(loaded.kernel_errors).map(|error| Diagnostic {
        code: LEFT_OUT,
        severity: Severity::Warning,
        ..error
    });
    // A script may launch the kernels with several blocks.
    let block_scope = loaded.program.kernels.iter().filter_map(block_scope_warning);
    let diagnostics = loaded.diagnostics.into_iter().chain(left_out).chain(block_scope).collect();
    Ok(LoadedFile { file: loaded.file, diagnostics })
}

/// Returns a warning about the atomic functions of block scope of a kernel that is launched with several blocks.
pub(crate) fn block_scope_warning(kernel: &TranslatedKernel) -> Option<Diagnostic> {
    let place = kernel.block_scope?;
    let title =
        format!("races between blocks through atomic functions of block scope are not found in `{}`", kernel.name);
    let warning = Diagnostic::warning(BLOCK_SCOPE, title).at(place.span, "this has device scope in the run");
    Some(warning.help("use the function without `_block` if several blocks access the element"))
}
