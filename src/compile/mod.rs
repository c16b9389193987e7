//! Layer 5: from sources to a checked program and to DeviceIR that is ready to run. No I/O: files are read through [`Files`].

use std::path::{Path, PathBuf};

use crate::base::diag::Diagnostic;
use crate::base::source::{FileId, Span};
use crate::check::typed::{KernelId, Module, ModuleId, Program, Type};
use crate::derive::Launches;
use crate::ir::footprint::Given;
use crate::ir::{self, Checks, Declared, MOST_ELEMENTS, Prepared};
use crate::lower::{Argument, Function, Instance, default_argument, lower_for, lower_map, lower_named};
use crate::syntax::ast;
use crate::{check, pass, syntax};
use sizes::Sizes;

pub mod advice;
mod entry;
mod examine;
mod import;
mod session;
pub mod sizes;
pub mod trial;

pub use clk_lang_stdlib as library;
pub use entry::Entered;
pub use examine::{each_launch, launched};
pub use session::{Definitions, Files, Missing, Modules, NoFiles, Outcome, Session};

impl Session {
    /// Compiles a script with its imports into the main module. After an error the program is as before.
    pub fn add(&mut self, name: &str, text: &str, files: &dyn Files) -> Outcome {
        let before = (self.program.clone(), self.main, self.modules.clone());
        let (tree, mut outcome) = self.read(name, text, files);
        discard(tree, text.len());
        if outcome.failed() {
            outcome.without_warnings();
            (self.program, self.main, self.modules) = before;
            let end = self.program.chunks.len();
            outcome.chunks = end..end;
        }
        outcome
    }

    /// As [`Session::add`], but after errors keeps what could be compiled in the program, which must then not be run: for tools
    /// that display it. Also returns the syntax tree.
    pub fn read(&mut self, name: &str, text: &str, files: &dyn Files) -> (ast::File, Outcome) {
        let first = self.program.chunks.len();
        let file = self.sources.add(name, text);
        let (tree, mut diagnostics) = syntax::parse(file, text);
        let main = self.main_module(file, tree.doc.clone());
        let (base, own) = self.base_of(name);
        let imports = import::Loader::new(self, files, &mut diagnostics).imports(&tree, &base, own);
        // Importing a file only makes its items available; its script is not run.
        let first = first.max(self.program.chunks.len());
        let broken = broken_items(&tree, text, &diagnostics);
        let mut found = check::check(&mut self.program, main, &tree, &imports);
        found.retain(|d| !d.primary().is_some_and(|at| broken.iter().any(|item| item.contains(at.start))));
        diagnostics.extend(found);
        without_unreported(&mut diagnostics);
        let outcome = Outcome { file, diagnostics, chunks: first..self.program.chunks.len() };
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

    /// Returns the directory for the main text's imports, and its own path if it is a file.
    fn base_of(&self, name: &str) -> (PathBuf, Option<PathBuf>) {
        let own = (!name.starts_with('<')).then(|| PathBuf::from(name));
        let beside = own.as_deref().and_then(Path::parent).map(Path::to_path_buf).unwrap_or_default();
        let base = if self.folder.as_os_str().is_empty() { beside } else { self.folder.clone() };
        (base, own)
    }
}

/// Removes the checker's internal error about error nodes if another error, for instance one of the parser, explains them.
fn without_unreported(diagnostics: &mut Vec<Diagnostic>) {
    if diagnostics.iter().any(|d| d.is_error() && d.code != check::UNREPORTED) {
        diagnostics.retain(|d| d.code != check::UNREPORTED);
    }
}

/// Returns the items with an unclosed `{`: other errors in them are consequences of that.
fn broken_items(tree: &ast::File, text: &str, diagnostics: &[Diagnostic]) -> Vec<Span> {
    let unclosed = diagnostics.iter().filter(|d| d.code == "E0102").filter_map(Diagnostic::primary);
    let braces = unclosed.filter(|span| text.get(span.range()) == Some("{"));
    let item = |brace: Span| tree.items.iter().map(|item| item.span).find(|item| item.contains(brace.start));
    braces.filter_map(item).collect()
}

/// Frees a syntax tree. A large one consists of millions of small allocations and is freed in the background.
fn discard(tree: ast::File, bytes: usize) {
    const LARGE: usize = 1 << 19;
    if bytes >= LARGE {
        // If no thread can be started, the closure and with it the tree is dropped here.
        let _ = std::thread::Builder::new().spawn(move || drop(tree));
    }
}

/// Returns the instance of a kernel with the defaults of its compile-time parameters, if all have one.
pub fn default_instance(program: &Program, kernel: KernelId) -> Option<Instance> {
    let mut arguments: Vec<Argument> = Vec::new();
    for generic in &program.kernels.get(kernel)?.sig.generics {
        arguments.push(default_argument(program, generic, &arguments)?.ok()?);
    }
    Some(Instance::new(kernel, arguments))
}

/// Compiles a kernel for a device, with these checks.
pub fn kernel(program: &Program, instance: &Instance, checks: Checks) -> Result<Prepared, Vec<Diagnostic>> {
    let kernel = program.kernels.get(instance.kernel);
    let place = kernel.map_or_else(Default::default, |kernel| kernel.name_span);
    let mut prepared = ready(lower_for(program, instance, checks)?, checks, place)?;
    prepared.declared = declared(program, instance, &prepared.module).map(Declared::new);
    Ok(prepared)
}

/// Compiles a kernel for a device that shows what it does: see [`Device::shows_names`](crate::device::Device::shows_names).
pub fn named(program: &Program, instance: &Instance) -> Result<Prepared, Vec<Diagnostic>> {
    let place = program.kernels.get(instance.kernel).map_or_else(Default::default, |kernel| kernel.name_span);
    pass::unchanged(lower_named(program, instance)?).map_err(|broken| broke(broken, place))
}

/// Writes down the launches that a kernel's signature describes, up to [`MOST_ELEMENTS`].
fn declared(program: &Program, instance: &Instance, module: &ir::def::Module) -> Option<Given> {
    let most = Sizes::Any(i128::from(MOST_ELEMENTS));
    let launch = sizes::launch(program, program.kernels.get(instance.kernel)?, instance, module, &most);
    launch.ok().map(|launch| launch.given)
}

/// Returns the launches of a kernel that its signature describes, for its derivative; none if they cannot be written down.
pub fn launches(program: &Program, instance: &Instance, module: &ir::def::Module) -> Option<Launches> {
    declared(program, instance, module).map(|given| Launches::new(module, given))
}

/// Compiles a function applied to all elements of arrays for a device: see [`lower_map`]. `place` is the location of the
/// application.
pub fn map(
    program: &Program,
    function: &Function,
    params: &[(Type, bool)],
    checks: Checks,
    place: Span,
) -> Result<Prepared, Vec<Diagnostic>> {
    ready(lower_map(program, function, params, checks)?, checks, place)
}

fn ready(module: ir::def::Module, checks: Checks, place: Span) -> Result<Prepared, Vec<Diagnostic>> {
    pass::prepare_for(module, checks).map_err(|broken| broke(broken, place))
}

fn broke(broken: String, place: Span) -> Vec<Diagnostic> {
    let diagnostic = Diagnostic::error("E0999", "internal error: a compiler pass broke a kernel");
    vec![diagnostic.at(place, "this kernel").note(broken).help("please report this as a bug of Clk")]
}
