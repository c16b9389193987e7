//! Mistakes that only show when kernels are compiled, found before anything runs.
//!
//! In: a checked program. Out: the errors of every kernel of the main module that its text says how to compile: those without
//! compile-time parameters, those whose parameters all have defaults, and those that a launch somewhere names with arguments
//! which are known. (What stays open until a launch binds it is compiled there.)

use indexmap::IndexMap;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::exprs;
use crate::check::typed::{Block, ExprKind, GenericArg, Launch, Program, Type};
use crate::lower::{Argument, Constants, Instance, function, lower};

use super::{Session, default_instance};

/// Below this many kernels a second thread costs more than it brings.
const PARALLEL: usize = 64;

/// A kernel to compile, and the launch that asks for it.
type Wanted = (Instance, Option<Span>);

impl Session {
    /// What is wrong with kernels that the main module has or launches.
    pub fn examine(&self) -> Vec<Diagnostic> {
        let wanted = self.wanted();
        let mut found: Vec<Diagnostic> = Vec::new();
        for diagnostic in examine_all(&self.program, &wanted) {
            // One mistake shows once for all the instances that have it.
            if !found.iter().any(|d| d.code == diagnostic.code && d.primary() == diagnostic.primary()) {
                found.push(diagnostic);
            }
        }
        found
    }

    fn wanted(&self) -> Vec<Wanted> {
        let program = &self.program;
        let mut wanted: IndexMap<Instance, Option<Span>> = IndexMap::new();
        let mut launches = |block: &Block| {
            exprs(block, &mut |e| {
                if let ExprKind::Launch(launch) = &e.kind
                    && let Some(instance) = launched(program, launch)
                {
                    wanted.entry(instance).or_insert(Some(e.span));
                }
            });
        };
        let chunks = program.chunks.iter().filter(|chunk| Some(chunk.module) == self.main);
        chunks.for_each(|chunk| launches(&chunk.body.root));
        for (_, section) in program.tests.iter().chain(program.benches.iter()) {
            if Some(section.module) == self.main {
                launches(&section.body.root);
            }
        }
        for (_, f) in program.fns.iter() {
            // In a function with parameters of its own a launch may mean those.
            if let Some(body) = f.body.as_ref().filter(|_| Some(f.module) == self.main && f.sig.generics.is_empty()) {
                launches(&body.root);
            }
        }
        for (id, _) in program.kernels.iter().filter(|(_, kernel)| Some(kernel.module) == self.main) {
            if let Some(instance) = default_instance(program, id) {
                wanted.entry(instance).or_insert(None);
            }
        }
        wanted.into_iter().collect()
    }
}

/// The instance that a launch asks for, where all of it is known.
fn launched(program: &Program, launch: &Launch) -> Option<Instance> {
    let mut arguments: Vec<Argument> = Vec::with_capacity(launch.generics.len());
    for generic in &launch.generics {
        arguments.push(match generic {
            GenericArg::Type(ty) => Argument::Type(is_concrete(ty).then(|| ty.clone())?),
            // A default may mean the parameters before it.
            GenericArg::Const(value) => Argument::Const(Constants::new(program, &arguments).evaluate(value).ok()?),
            GenericArg::Fn(callee) => Argument::Fn(function(program, callee, &arguments).ok()?),
            GenericArg::Error | GenericArg::Infer => return None,
        });
    }
    Some(Instance { kernel: launch.kernel, arguments })
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
