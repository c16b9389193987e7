//! The compile-time arguments that a kernel is examined with: its defaults, and those of the program's launches.

use crate::check::show::Show;
use crate::check::typed::{FnType, Generic, GenericArg, GenericKind, Kernel, KernelId, Launch, Program, Type};
use crate::compile;
use crate::ir::{Checks, Prepared};
use crate::lang::builtin::Builtin;
use crate::lang::ops::MathFn;
use crate::lang::scalar::{Scalar, format};
use crate::lower::{Argument, Constants, Function, Instance, function};

/// Instances examined, at most.
const MAX_INSTANCES: usize = 4;

/// What stands for a type parameter of integers, and for any other, one after the other.
const TYPES: [(Scalar, Scalar); 2] = [(Scalar::I32, Scalar::F32), (Scalar::I64, Scalar::F64)];

/// An instance of a kernel.
pub(super) struct Named {
    pub instance: Instance,
    /// Its arguments: `T = f32, K = 2`.
    pub text: String,
    pub prepared: Result<Prepared, String>,
}

/// Returns the instances of a kernel to examine, at least one. Those that differ only in types count as one.
pub(super) fn of(program: &Program, id: KernelId, kernel: &Kernel) -> Vec<Named> {
    let mut found: Vec<Vec<Argument>> = defaults(program, kernel, TYPES[0]).into_iter().collect();
    let differ = |a: &[Argument], b: &[Argument]| {
        a.iter().zip(b).any(|(a, b)| a != b && !matches!((a, b), (Argument::Type(_), Argument::Type(_))))
    };
    if kernel.sig.generics.iter().any(|generic| !matches!(generic.kind, GenericKind::Type { .. })) {
        compile::each_launch(program, Some(kernel.module), &mut |launch, _| {
            let Some(arguments) = (launch.kernel == id).then(|| launched(program, kernel, launch)).flatten() else {
                return;
            };
            if found.len() < MAX_INSTANCES && found.iter().all(|known| differ(known, &arguments)) {
                found.push(arguments);
            }
        });
    }
    if found.is_empty() {
        let missing = |generic: &&Generic| argument(program, generic, &[], TYPES[0]).is_none();
        let name = kernel.sig.generics.iter().find(missing).map_or("", |generic| generic.name.as_str());
        let prepared = Err(format!("the compile-time parameter `{name}` has no default, and no launch gives it"));
        return vec![Named { instance: Instance { kernel: id, arguments: vec![] }, text: String::new(), prepared }];
    }
    let named = found.into_iter().map(|arguments| prepare(program, id, kernel, arguments)).collect::<Vec<_>>();
    match &named[..] {
        // Arguments that were made up may not fit together.
        [only] if only.prepared.is_err() => match defaults(program, kernel, TYPES[1]) {
            Some(arguments) => {
                let other = prepare(program, id, kernel, arguments);
                if other.prepared.is_ok() { vec![other] } else { named }
            }
            None => named,
        },
        _ => named,
    }
}

fn prepare(program: &Program, id: KernelId, kernel: &Kernel, arguments: Vec<Argument>) -> Named {
    let instance = Instance { kernel: id, arguments };
    // No operation is moved or computed where the program does not compute it.
    let checks = Checks { memory: true, arithmetic: true, nan: true };
    let prepared = compile::kernel(program, &instance, checks);
    let prepared = prepared.map_err(|found| found.first().map_or(String::new(), |d| d.title.clone()));
    let shown = |(generic, argument): (&Generic, &Argument)| format!("{} = {}", generic.name, shown(program, argument));
    let text = kernel.sig.generics.iter().zip(&instance.arguments).map(shown).collect::<Vec<_>>().join(", ");
    Named { instance, text, prepared }
}

fn shown(program: &Program, argument: &Argument) -> String {
    match argument {
        Argument::Type(ty) => Show { program, sig: None, vars: None }.ty(ty),
        Argument::Const(value) => format::plain(*value),
        Argument::Fn(Function::Fn { id, .. }) => program.fns.get(*id).map_or(String::new(), |f| f.name.to_string()),
        Argument::Fn(Function::Builtin(builtin)) => builtin.name().to_string(),
    }
}

fn defaults(program: &Program, kernel: &Kernel, types: (Scalar, Scalar)) -> Option<Vec<Argument>> {
    let mut arguments = vec![];
    for generic in &kernel.sig.generics {
        arguments.push(argument(program, generic, &arguments, types)?);
    }
    Some(arguments)
}

/// Returns the arguments of a launch; those that the host infers are made up.
fn launched(program: &Program, kernel: &Kernel, launch: &Launch) -> Option<Vec<Argument>> {
    let mut arguments = vec![];
    for (generic, given) in kernel.sig.generics.iter().zip(&launch.generics) {
        arguments.push(match given {
            GenericArg::Type(ty) if compile::is_concrete(ty) => Argument::Type(ty.clone()),
            GenericArg::Const(value) => Argument::Const(Constants::new(program, &arguments).evaluate(value).ok()?),
            GenericArg::Fn(callee) => Argument::Fn(function(program, callee, &arguments).ok()?),
            GenericArg::Infer => argument(program, generic, &arguments, TYPES[0])?,
            GenericArg::Type(_) | GenericArg::Error => return None,
        });
    }
    Some(arguments)
}

fn argument(
    program: &Program,
    generic: &Generic,
    before: &[Argument],
    (integer, other): (Scalar, Scalar),
) -> Option<Argument> {
    match &generic.kind {
        GenericKind::Type { bound } => {
            let scalar = if *bound == crate::check::typed::Bound::Int { integer } else { other };
            Some(Argument::Type(Type::Scalar(scalar)))
        }
        GenericKind::Const { default, .. } => {
            Constants::new(program, before).evaluate(default.as_deref()?).ok().map(Argument::Const)
        }
        GenericKind::Fn { default: Some(default), .. } => function(program, default, before).ok().map(Argument::Fn),
        GenericKind::Fn { default: None, ty } => {
            stand_in(ty).map(|function| Argument::Fn(Function::Builtin(Builtin::Math(function))))
        }
    }
}

/// Returns a function of this type.
fn stand_in(ty: &FnType) -> Option<MathFn> {
    match &ty.params[..] {
        [a, b] if a == b && *a == ty.result => Some(MathFn::Max),
        [a] if *a == ty.result => Some(MathFn::Abs),
        _ => None,
    }
}
