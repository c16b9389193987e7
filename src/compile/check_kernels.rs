//! Compiles kernels before the program runs, to report errors that are found only by compiling.
//!
//! Compiles every kernel of the main module for which an instance is known: kernels without compile-time parameters,
//! kernels with defaults for all of them, and kernels that are launched with known arguments. Other instances are
//! compiled at their launch.

use indexmap::IndexMap;

use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, Span};
use clk_check::typed::{Block, ExprKind, GenericArg, LaunchExpr, ModuleId, Program, Type};
use clk_check::{changed_copies_of_script, exprs};
use clk_lower::{ConstEvaluator, GenericArgument, Instance, default_argument, function, lower};

use super::{Session, default_instance};

/// Minimum number of kernels for which a second thread pays off.
const PARALLEL: usize = 64;

/// An instance of a kernel to compile, and the location of the launch that requires it.
type RequiredInstance = (Instance, Option<Span>);

impl Session {
    /// Returns the errors of kernels that the main module defines or launches, and the warnings that need the whole
    /// script.
    pub fn examine(&self) -> Vec<Diagnostic> {
        let mut diagnostics = self.errors_of_instances(&self.required_instances());
        diagnostics.extend(self.main.iter().flat_map(|main| changed_copies_of_script(&self.program, *main)));
        diagnostics
    }

    /// Returns the errors of the kernels that a session entry defines. Does not compile the kernels that the entry
    /// launches: they are compiled when its statements run, and an error at a launch rolls back the whole entry.
    /// Kernels that were checked again because the entry redefines a name in them are compiled at their next launch.
    pub(super) fn examine_entry(&self, file: FileId, first_kernel: usize) -> Vec<Diagnostic> {
        let program = &self.program;
        let new = program.kernels.iter().skip(first_kernel).filter(|(_, kernel)| kernel.span.file == file);
        let required: Vec<RequiredInstance> =
            new.filter_map(|(id, _)| Some((default_instance(program, id)?, None))).collect();
        self.errors_of_instances(&required)
    }

    fn errors_of_instances(&self, required: &[RequiredInstance]) -> Vec<Diagnostic> {
        let mut errors: Vec<Diagnostic> = Vec::new();
        for diagnostic in compile_all(&self.program, required) {
            // The same error in several instances is reported once.
            if !errors.iter().any(|d| d.code == diagnostic.code && d.primary() == diagnostic.primary()) {
                errors.push(diagnostic);
            }
        }
        errors
    }

    fn required_instances(&self) -> Vec<RequiredInstance> {
        let program = &self.program;
        let mut required: IndexMap<Instance, Option<Span>> = IndexMap::new();
        each_launch(program, &|module| Some(module) == self.main, &mut |launch, span| {
            if let Some(arguments) = known_arguments(program, launch).into_iter().collect() {
                required.entry(Instance::new(launch.kernel, arguments)).or_insert(Some(span));
            }
        });
        for (id, _) in program.kernels_of(self.main) {
            if let Some(instance) = default_instance(program, id) {
                required.entry(instance).or_insert(None);
            }
        }
        required.into_iter().collect()
    }
}

/// Calls `f` with the launches in the selected modules.
pub fn each_launch(program: &Program, of: &dyn Fn(ModuleId) -> bool, f: &mut dyn FnMut(&LaunchExpr, Span)) {
    let mut launches = |block: &Block| {
        exprs(block, &mut |e| {
            if let ExprKind::Launch(launch) = &e.kind {
                f(launch, e.span);
            }
        });
    };
    let chunks = program.chunks.iter().filter(|chunk| of(chunk.module));
    chunks.for_each(|chunk| launches(&chunk.body.root));
    for (_, section) in program.tests.iter().chain(program.benches.iter()) {
        if of(section.module) {
            launches(&section.body.root);
        }
    }
    for (_, f) in program.fns.iter() {
        if let Some(body) = f.body.as_ref().filter(|_| of(f.module)) {
            launches(&body.root);
        }
    }
}

/// Returns the compile-time arguments of a launch; `None` for each one that is not known before the program runs.
/// Arguments that depend on compile-time parameters of the enclosing function are unknown.
pub fn known_arguments(program: &Program, launch: &LaunchExpr) -> Vec<Option<GenericArgument>> {
    let declared = program.kernels.get(launch.kernel).map_or(&[][..], |kernel| &kernel.sig.generics);
    let mut all: Vec<Option<GenericArgument>> = Vec::with_capacity(declared.len());
    for (given, generic) in launch.generics.iter().zip(declared) {
        all.push(match given {
            GenericArg::Type(ty) => is_concrete(ty).then(|| GenericArgument::Type(ty.clone())),
            GenericArg::Const(value) => {
                ConstEvaluator::new(program, &[]).evaluate(value).ok().map(GenericArgument::Const)
            }
            GenericArg::Fn(callee) => function(program, callee, &[]).ok().map(GenericArgument::Fn),
            GenericArg::Infer => {
                let before: Option<Vec<GenericArgument>> = all.iter().cloned().collect();
                before.and_then(|before| default_argument(program, generic, &before)?.ok())
            }
            GenericArg::Error => None,
        });
    }
    all
}

fn is_concrete(ty: &Type) -> bool {
    match ty {
        Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) => true,
        Type::Tuple(parts) => parts.iter().all(is_concrete),
        _ => false,
    }
}

fn compile_all(program: &Program, required: &[RequiredInstance]) -> Vec<Diagnostic> {
    let compile_share =
        |share: &[RequiredInstance]| share.iter().flat_map(|required| errors_of(program, required)).collect::<Vec<_>>();
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(8);
    if required.len() < PARALLEL || workers < 2 {
        return compile_share(required);
    }
    std::thread::scope(|scope| {
        let run = |share| {
            (share, std::thread::Builder::new().stack_size(32 << 20).spawn_scoped(scope, move || compile_share(share)))
        };
        let handles: Vec<_> = required.chunks(required.len().div_ceil(workers)).map(run).collect();
        let results =
            handles.into_iter().map(|(share, handle)| match handle.ok().and_then(|handle| handle.join().ok()) {
                Some(diagnostics) => diagnostics,
                None => compile_share(share),
            });
        results.flatten().collect()
    })
}

fn errors_of(program: &Program, (instance, launch): &RequiredInstance) -> Vec<Diagnostic> {
    let errors = lower(program, instance).err().unwrap_or_default();
    let with_launch = |d: Diagnostic| match launch.filter(|span| d.primary() != Some(*span)) {
        Some(span) => d.because(span, "compiled for this launch"),
        None => d,
    };
    errors.into_iter().map(with_launch).collect()
}
