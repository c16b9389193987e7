//! Detection of errors that only appear when kernels are compiled, before anything runs.
//!
//! Compiles every kernel of the main module whose instance is known: those without compile-time parameters, those with defaults
//! for all of them, and those launched somewhere with known arguments. (Other instances are compiled when a launch binds their
//! parameters.)

use indexmap::IndexMap;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::exprs;
use crate::check::typed::{Block, ExprKind, GenericArg, Launch, ModuleId, Program, Type};
use crate::lower::{Argument, Constants, Instance, default_argument, function, lower};

use super::{Session, default_instance};

/// Minimum number of kernels for which a second thread pays off.
const PARALLEL: usize = 64;

/// A kernel to compile, and the launch that requires it.
type Wanted = (Instance, Option<Span>);

impl Session {
    /// Returns the errors of kernels that the main module defines or launches.
    pub fn examine(&self) -> Vec<Diagnostic> {
        let wanted = self.wanted();
        let mut found: Vec<Diagnostic> = Vec::new();
        for diagnostic in examine_all(&self.program, &wanted) {
            // The same error in several instances is reported once.
            if !found.iter().any(|d| d.code == diagnostic.code && d.primary() == diagnostic.primary()) {
                found.push(diagnostic);
            }
        }
        found
    }

    fn wanted(&self) -> Vec<Wanted> {
        let program = &self.program;
        let mut wanted: IndexMap<Instance, Option<Span>> = IndexMap::new();
        each_launch(program, &|module| Some(module) == self.main, &mut |launch, span| {
            if let Some(arguments) = launched(program, launch).into_iter().collect() {
                wanted.entry(Instance::new(launch.kernel, arguments)).or_insert(Some(span));
            }
        });
        for (id, _) in program.kernels_of(self.main) {
            if let Some(instance) = default_instance(program, id) {
                wanted.entry(instance).or_insert(None);
            }
        }
        wanted.into_iter().collect()
    }
}

/// Calls `f` with the launches of some modules.
pub fn each_launch(program: &Program, of: &dyn Fn(ModuleId) -> bool, f: &mut dyn FnMut(&Launch, Span)) {
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

/// Returns the compile-time arguments of a launch, as far as they are known before the program runs: in a function with parameters of its
/// own, these are not.
pub fn launched(program: &Program, launch: &Launch) -> Vec<Option<Argument>> {
    let declared = program.kernels.get(launch.kernel).map_or(&[][..], |kernel| &kernel.sig.generics);
    let mut all: Vec<Option<Argument>> = Vec::with_capacity(declared.len());
    for (given, generic) in launch.generics.iter().zip(declared) {
        all.push(match given {
            GenericArg::Type(ty) => is_concrete(ty).then(|| Argument::Type(ty.clone())),
            GenericArg::Const(value) => Constants::new(program, &[]).evaluate(value).ok().map(Argument::Const),
            GenericArg::Fn(callee) => function(program, callee, &[]).ok().map(Argument::Fn),
            GenericArg::Infer => {
                let before: Option<Vec<Argument>> = all.iter().cloned().collect();
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

fn examine_all(program: &Program, wanted: &[Wanted]) -> Vec<Diagnostic> {
    let part = |part: &[Wanted]| part.iter().flat_map(|wanted| errors(program, wanted)).collect::<Vec<_>>();
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(8);
    if wanted.len() < PARALLEL || workers < 2 {
        return part(wanted);
    }
    std::thread::scope(|scope| {
        let run =
            |share| (share, std::thread::Builder::new().stack_size(32 << 20).spawn_scoped(scope, move || part(share)));
        let handles: Vec<_> = wanted.chunks(wanted.len().div_ceil(workers)).map(run).collect();
        let done = handles.into_iter().map(|(share, handle)| match handle.ok().and_then(|handle| handle.join().ok()) {
            Some(found) => found,
            None => part(share),
        });
        done.flatten().collect()
    })
}

fn errors(program: &Program, (instance, launch): &Wanted) -> Vec<Diagnostic> {
    let found = lower(program, instance).err().unwrap_or_default();
    let named = |d: Diagnostic| match launch.filter(|span| d.primary() != Some(*span)) {
        Some(span) => d.because(span, "compiled for this launch"),
        None => d,
    };
    found.into_iter().map(named).collect()
}
