//! Layer 5: compiles sources to a checked program, and kernels to DeviceIR that is ready to run. Does no I/O itself: it
//! reads files through [`Files`].

#![allow(rustdoc::private_intra_doc_links)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_base::source::{FileId, Span};
use clk_check::typed::{KernelId, Module, ModuleId, Program, Type};
use clk_derive::DerivativeLaunches;
use clk_ir::footprint::SymbolicLaunch;
use clk_ir::{Checks, DeclaredLaunches, MAX_ELEMENTS, PreparedKernel};
use clk_lower::{
    FunctionInstance, GenericArgument, Instance, default_argument, lower_for, lower_map, lower_with_debug_locals,
};
use clk_pass::InvalidIrError;
use clk_syntax::ast;
use symbolic_launch::LaunchSizes;

pub mod advice;
mod check_kernels;
mod entry;
mod import;
mod session;
mod snapshot;
pub mod symbolic_launch;
mod translated_lints;
pub mod trials;

pub use check_kernels::{each_launch, known_arguments};
pub use clk_stdlib as library;
pub use entry::EntryResult;
pub use session::{CompileResult, Files, LoadedFile, MissingModule, Modules, NoFiles, Session, SessionDefinitions};
pub use snapshot::SessionSnapshot;

impl Session {
    /// Compiles a script with its imports into the main module. If there is an error, the program is unchanged.
    pub fn add(&mut self, name: &str, text: &str, files: &dyn Files) -> CompileResult {
        let file = self.sources.add(name, text);
        self.add_file(file, files)
    }

    /// Like [`Session::add`], for a file on disk, or its translation from another language.
    pub fn add_path(&mut self, path: &Path, files: &dyn Files) -> Result<CompileResult, FileError> {
        let loaded = files.load(path, &mut self.sources)?;
        let mut result = self.add_file(loaded.file, files);
        result.diagnostics.splice(0..0, loaded.diagnostics);
        Ok(result)
    }

    /// Like [`Session::add`], for a text that is in the sources.
    pub fn add_file(&mut self, file: FileId, files: &dyn Files) -> CompileResult {
        let before = self.snapshot();
        let (tree, mut result) = self.read_file(file, files);
        free_in_background(tree, self.sources.text(file).len());
        if result.failed() {
            result.drop_warnings();
            self.restore(&before);
            let end = self.program.chunks.len();
            result.chunks = end..end;
        }
        result
    }

    /// Like [`Session::add`], but if there are errors, adds the valid parts to the program, which must not be run then.
    /// For tools that display the program, such as editors. Also returns the syntax tree.
    pub fn read(&mut self, name: &str, text: &str, files: &dyn Files) -> (ast::SourceFile, CompileResult) {
        let file = self.sources.add(name, text);
        self.read_file(file, files)
    }

    fn read_file(&mut self, file: FileId, files: &dyn Files) -> (ast::SourceFile, CompileResult) {
        let first = self.program.chunks.len();
        let name = self.sources.name(file).to_owned();
        let text = self.sources.get(file).map_or_else(Arc::default, |source| source.text.clone());
        let (name, text) = (name.as_str(), &*text);
        let (tree, mut diagnostics) = clk_syntax::parse(file, text);
        let main = self.main_module(file, tree.doc.clone());
        let (base, own) = self.base_of(name);
        let imports = import::ImportLoader::new(self, files, &mut diagnostics).imports(&tree, &base, own);
        // The chunks of imported files are skipped: an import makes a file's items available, but does not run its
        // script.
        let first = first.max(self.program.chunks.len());
        check_valid_items(&mut self.program, main, (file, text), &tree, &imports, &mut diagnostics);
        drop_unreported(&mut diagnostics);
        translated_lints::retain(&mut diagnostics, &self.sources);
        let outcome = CompileResult { file, diagnostics, chunks: first..self.program.chunks.len() };
        (tree, outcome)
    }

    fn main_module(&mut self, file: FileId, doc: Option<String>) -> ModuleId {
        self.program.library = Some(library::home);
        match self.main {
            Some(main) => main,
            None => {
                let main = self.program.modules.push(Module { file, doc, ..Module::default() });
                self.main = Some(main);
                main
            }
        }
    }

    /// Returns the directory for relative imports of the main text, and the path of the main text if it is a file.
    fn base_of(&self, name: &str) -> (PathBuf, Option<PathBuf>) {
        let own_path = (!name.starts_with('<')).then(|| PathBuf::from(name));
        let own_folder = own_path.as_deref().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
        let base = if self.folder.as_os_str().is_empty() { own_folder } else { self.folder.clone() };
        (base, own_path)
    }
}

/// Removes the checker's internal error "unreported" about error nodes, if there is another error that caused them,
/// such as a syntax error.
fn drop_unreported(diagnostics: &mut Vec<Diagnostic>) {
    if diagnostics.iter().any(|d| d.is_error() && d.code != clk_check::UNREPORTED) {
        diagnostics.retain(|d| d.code != clk_check::UNREPORTED);
    }
}

/// Checks a file. Adds the errors to its syntax errors, except those in broken items.
fn check_valid_items(
    program: &mut Program,
    module: ModuleId,
    (file, text): (FileId, &str),
    tree: &ast::SourceFile,
    imports: &clk_check::Imports,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let broken = broken_items(tree, text, diagnostics);
    let mut errors = clk_check::check(program, module, tree, imports);
    errors.retain(|d| !d.primary().is_some_and(|at| broken.iter().any(|item| item.contains(at.start))));
    clk_syntax::translate_names(file, text, &mut errors);
    diagnostics.extend(errors);
}

/// Returns the spans of items with an unclosed `{`, and of code in another language with the items that contain it.
/// Other errors in these spans are usually consequences of it.
fn broken_items(tree: &ast::SourceFile, text: &str, diagnostics: &[Diagnostic]) -> Vec<Span> {
    let unclosed = diagnostics.iter().filter(|d| d.code == "E0102").filter_map(Diagnostic::primary);
    let braces = unclosed.filter(|span| text.get(span.range()) == Some("{"));
    let item = |place: Span| tree.items.iter().map(|item| item.span).find(|item| item.contains(place.start));
    let translated: Vec<Span> = diagnostics.iter().filter_map(clk_syntax::translated_span).collect();
    let items = braces.chain(translated.iter().copied()).filter_map(item).collect::<Vec<_>>();
    items.into_iter().chain(translated).collect()
}

/// Drops a syntax tree. If it is large, that happens in another thread, because the tree may consist of millions of
/// small allocations.
fn free_in_background(tree: ast::SourceFile, bytes: usize) {
    const LARGE: usize = 1 << 19;
    if bytes >= LARGE {
        // If no thread can be started, `spawn` drops the closure, and with it the tree, in this thread.
        let _ = std::thread::Builder::new().spawn(move || drop(tree));
    }
}

/// Returns the instance of a kernel with the defaults of its compile-time parameters, if all of them have a default.
pub fn default_instance(program: &Program, kernel: KernelId) -> Option<Instance> {
    let mut arguments: Vec<GenericArgument> = Vec::new();
    for generic in &program.kernels.get(kernel)?.sig.generics {
        arguments.push(default_argument(program, generic, &arguments)?.ok()?);
    }
    Some(Instance::new(kernel, arguments))
}

/// Compiles an instance of a kernel to DeviceIR, and prepares it to run on a device with these checks.
pub fn compile_kernel(
    program: &Program,
    instance: &Instance,
    checks: Checks,
) -> Result<PreparedKernel, Vec<Diagnostic>> {
    let kernel = program.kernels.get(instance.kernel);
    let place = kernel.map_or_else(Default::default, |kernel| kernel.name_span);
    let mut prepared = prepare(lower_for(program, instance, checks)?, checks, place)?;
    prepared.declared_launches = symbolic_launch(program, instance, &prepared.module).map(DeclaredLaunches::new);
    Ok(prepared)
}

/// Compiles an instance of a kernel without optimizations, for devices that show the values of source variables (see
/// [`Device::shows_variables`](clk_runtime::Device::shows_variables)).
pub fn compile_unoptimized(program: &Program, instance: &Instance) -> Result<PreparedKernel, Vec<Diagnostic>> {
    let place = program.kernels.get(instance.kernel).map_or_else(Default::default, |kernel| kernel.name_span);
    clk_pass::verify_only(lower_with_debug_locals(program, instance)?).map_err(|broken| invalid_ir(broken, place))
}

/// Describes the launches that a kernel's signature allows, with dimensions up to [`MAX_ELEMENTS`].
fn symbolic_launch(program: &Program, instance: &Instance, module: &clk_ir::def::Module) -> Option<SymbolicLaunch> {
    let most = LaunchSizes::Any(i128::from(MAX_ELEMENTS));
    let launch =
        symbolic_launch::symbolic_launch(program, program.kernels.get(instance.kernel)?, instance, module, &most);
    launch.ok().map(|launch| launch.symbolic)
}

/// Describes the launches that a kernel's signature allows, for differentiation; `None` if that is not possible.
pub fn derivative_launches(
    program: &Program,
    instance: &Instance,
    module: &clk_ir::def::Module,
) -> Option<DerivativeLaunches> {
    symbolic_launch(program, instance, module).map(|given| DerivativeLaunches::new(module, given))
}

/// Compiles a function that is applied to all elements of arrays to a kernel (see [`lower_map`]). `place` is the
/// location of the call.
pub fn compile_map(
    program: &Program,
    function: &FunctionInstance,
    params: &[(Type, bool)],
    checks: Checks,
    place: Span,
) -> Result<PreparedKernel, Vec<Diagnostic>> {
    prepare(lower_map(program, function, params, checks)?, checks, place)
}

fn prepare(module: clk_ir::def::Module, checks: Checks, place: Span) -> Result<PreparedKernel, Vec<Diagnostic>> {
    clk_pass::prepare_for(module, checks).map_err(|broken| invalid_ir(broken, place))
}

fn invalid_ir(broken: InvalidIrError, place: Span) -> Vec<Diagnostic> {
    let diagnostic = Diagnostic::error("E0999", "internal error: a compiler pass broke a kernel");
    vec![diagnostic.at(place, "this kernel").note(broken.to_string()).help("please report this as a bug of Clk")]
}
