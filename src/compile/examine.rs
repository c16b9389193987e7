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
            if let Some(instance) = launched(program, launch) {
                wanted.entry(instance).or_insert(Some(span));
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

/// Returns the instance that a launch requires, if it is known entirely: compile-time parameters of the function around it are not.
fn launched(program: &Program, launch: &Launch) -> Option<Instance> {
    let declared = &program.kernels.get(launch.kernel)?.sig.generics;
    let mut arguments: Vec<Argument> = Vec::with_capacity(launch.generics.len());
    for (given, generic) in launch.generics.iter().zip(declared) {
        arguments.push(match given {
            GenericArg::Type(ty) => Argument::Type(is_concrete(ty).then(|| ty.clone())?),
            GenericArg::Const(value) => Argument::Const(Constants::new(program, &[]).evaluate(value).ok()?),
            GenericArg::Fn(callee) => Argument::Fn(function(program, callee, &[]).ok()?),
            GenericArg::Infer => default_argument(program, generic, &arguments)?.ok()?,
            GenericArg::Error => return None,
        });
    }
    Some(Instance::new(launch.kernel, arguments))
}

pub fn is_concrete(ty: &Type) -> bool {
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
