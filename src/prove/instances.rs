//! The compile-time arguments that a kernel is examined with: its defaults, and those of the program's launches.

use rustc_hash::FxHashSet;

use crate::base::source::Span;
use crate::check::choices;
use crate::check::show::Show;
use crate::check::typed::{FnType, Generic, GenericKind, Kernel, KernelId, ModuleId, Program, Type};
use crate::compile;
use crate::ir::{Checks, Prepared};
use crate::lang::builtin::Builtin;
use crate::lang::ops::MathFn;
use crate::lang::scalar::{Scalar, format};
use crate::lower::{Argument, Function, Instance, default_argument};

/// Instances examined, at most.
const MAX_INSTANCES: usize = 8;

/// What stands for a type parameter of integers, and for any other, one after the other.
const TYPES: [(Scalar, Scalar); 2] = [(Scalar::I32, Scalar::F32), (Scalar::I64, Scalar::F64)];

/// An instance of a kernel.
pub(super) struct Named {
    pub instance: Instance,
    /// Its arguments: `T = f32, K = 2`.
    pub text: String,
    pub prepared: Result<Prepared, String>,
}

/// What a kernel is examined with.
pub(super) struct Instances {
    /// At least one.
    pub examined: Vec<Named>,
    /// The arguments of launches that are not among these, and a place of each.
    pub others: Vec<(String, Span)>,
}

/// Returns the kernels that a file answers for: its own, and those of the user's other files that it launches with compile-time
/// arguments, which the other file does not know.
pub fn of_file(program: &Program, file: Option<ModuleId>) -> Vec<KernelId> {
    let mut all: Vec<KernelId> = program.kernels_of(file).map(|(id, _)| id).collect();
    compile::each_launch(program, &|module| Some(module) == file, &mut |launch, _| {
        let Some(kernel) = program.kernels.get(launch.kernel) else { return };
        let library = program.modules.get(kernel.module).is_none_or(|module| module.name.starts_with("std."));
        if !library && !kernel.sig.generics.is_empty() && !all.contains(&launch.kernel) {
            all.push(launch.kernel);
        }
    });
    all
}

/// Returns the instances of a kernel to examine: one with defaults, if there are any, and those that are launched.
pub(super) fn of(program: &Program, id: KernelId, kernel: &Kernel) -> Instances {
    let mut examined: Vec<Named> = default(program, id, kernel).into_iter().collect();
    let made_up = !examined.is_empty();
    let mut others: Vec<(String, Span)> = vec![];
    if !kernel.sig.generics.is_empty() {
        let mut seen = FxHashSet::default();
        compile::each_launch(program, &|_| true, &mut |launch, span| {
            if launch.kernel != id {
                return;
            }
            let arguments = compile::launched(program, launch);
            let known: Option<Vec<Argument>> = arguments.iter().cloned().collect();
            match known {
                Some(known) if examined.iter().any(|named| named.instance.arguments == known) => {}
                Some(known) if examined.len() < MAX_INSTANCES => examined.push(prepare(program, id, kernel, known)),
                // A launch whose arguments are not known may be another one at each place.
                known => {
                    let text = text(program, kernel, &arguments);
                    if seen.insert((text.clone(), known.is_none().then_some(span))) {
                        others.push((text, span));
                    }
                }
            }
        });
    }
    choices(program, id, kernel, &mut examined, &mut others);
    // Arguments that were made up may not fit together.
    if made_up && examined.len() > 1 && examined[0].prepared.is_err() {
        examined.remove(0);
    }
    if examined.is_empty() {
        let missing = |generic: &&Generic| argument(program, generic, &[], TYPES[0]).is_none();
        let name = kernel.sig.generics.iter().find(missing).map_or("", |generic| generic.name.as_str());
        let launched = if others.is_empty() { "no launch gives it" } else { "no launch gives one that is known" };
        let prepared = Err(format!("the compile-time parameter `{name}` has no default, and {launched}"));
        examined.push(Named { instance: Instance::new(id, vec![]), text: String::new(), prepared });
    }
    Instances { examined, others }
}

/// Adds the choices of a `tune` clause, beside the defaults that were examined.
fn choices(
    program: &Program,
    id: KernelId,
    kernel: &Kernel,
    examined: &mut Vec<Named>,
    others: &mut Vec<(String, Span)>,
) {
    let Some(defaults) = examined.first().map(|named| named.instance.arguments.clone()) else { return };
    let Some((first, last)) = kernel.tunes.first().zip(kernel.tunes.last()) else { return };
    for choice in choices::admissible(program, kernel) {
        let mut arguments = defaults.clone();
        for (tunable, value) in kernel.tunes.iter().zip(choice) {
            if let Some(slot) = arguments.get_mut(tunable.param as usize) {
                *slot = Argument::Const(value);
            }
        }
        if examined.iter().any(|named| named.instance.arguments == arguments) {
            continue;
        }
        if examined.len() < MAX_INSTANCES {
            examined.push(prepare(program, id, kernel, arguments));
            continue;
        }
        let known: Vec<Option<Argument>> = arguments.into_iter().map(Some).collect();
        others.push((text(program, kernel, &known), first.span.to(last.span)));
    }
}

/// Returns the instance with defaults, and with types that stand for others.
fn default(program: &Program, id: KernelId, kernel: &Kernel) -> Option<Named> {
    let first = prepare(program, id, kernel, defaults(program, kernel, TYPES[0])?);
    if first.prepared.is_ok() {
        return Some(first);
    }
    let second = defaults(program, kernel, TYPES[1]).map(|arguments| prepare(program, id, kernel, arguments));
    Some(second.filter(|second| second.prepared.is_ok()).unwrap_or(first))
}

fn prepare(program: &Program, id: KernelId, kernel: &Kernel, arguments: Vec<Argument>) -> Named {
    let instance = Instance::new(id, arguments);
    // No operation is moved or computed where the program does not compute it.
    let checks = Checks { memory: true, arithmetic: true, nan: true };
    let prepared = compile::kernel(program, &instance, checks);
    let prepared = prepared.map_err(|found| found.first().map_or(String::new(), |d| d.title.clone()));
    let known: Vec<_> = instance.arguments.iter().cloned().map(Some).collect();
    Named { text: text(program, kernel, &known), instance, prepared }
}

/// Returns arguments as text: `T = f32, K = ?`.
fn text(program: &Program, kernel: &Kernel, arguments: &[Option<Argument>]) -> String {
    let shown = |(generic, argument): (&Generic, &Option<Argument>)| {
        let value = argument.as_ref().map_or("?".into(), |argument| shown(program, argument));
        format!("{} = {value}", generic.name)
    };
    kernel.sig.generics.iter().zip(arguments).map(shown).collect::<Vec<_>>().join(", ")
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
        GenericKind::Const { .. } | GenericKind::Fn { default: Some(_), .. } => {
            default_argument(program, generic, before)?.ok()
        }
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
