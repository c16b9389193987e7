//! Chooses the instances of a kernel to prove: those with its default compile-time arguments, and with the arguments of
//! the program's launches.

use rustc_hash::FxHashSet;

use clk_base::source::Span;
use clk_check::format_types::Show;
use clk_check::tune_configs;
use clk_check::typed::{FnType, Generic, GenericKind, Kernel, KernelId, ModuleId, Program, Type};
use clk_ir::{Checks, PreparedKernel};
use clk_lower::{FunctionInstance, GenericArgument, Instance, default_argument};
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::MathFn;
use clk_scalar::{Scalar, format};

/// The maximum number of instances of a kernel that are proved.
const MAX_INSTANCES: usize = 8;

/// The types that are used for type parameters without a default.
#[derive(Clone, Copy)]
struct PlaceholderTypes {
    /// The type for a type parameter that only allows integers.
    integer: Scalar,
    other: Scalar,
}

/// The placeholder types, in the order in which they are tried.
const PLACEHOLDERS: [PlaceholderTypes; 2] = [
    PlaceholderTypes { integer: Scalar::I32, other: Scalar::F32 },
    PlaceholderTypes { integer: Scalar::I64, other: Scalar::F64 },
];

/// An instance of a kernel, compiled, with its arguments as text.
pub(super) struct NamedInstance {
    pub instance: Instance,
    /// The compile-time arguments as text, such as `T = f32, K = 2`.
    pub text: String,
    pub prepared: Result<PreparedKernel, String>,
}

/// The instances of a kernel that are proved, and those that are not.
pub(super) struct Instances {
    /// The instances to be proved; at least one.
    pub proved: Vec<NamedInstance>,
    /// The compile-time arguments of launches that the proof does not cover, each with a location.
    pub not_examined: Vec<(String, Span)>,
}

/// Returns the kernels to be proved for a file: its own kernels, and generic kernels of the user's other files that it
/// launches. The latter are included because proofs for their own file do not know the compile-time arguments of these
/// launches.
pub fn kernels_of_file(program: &Program, file: Option<ModuleId>) -> Vec<KernelId> {
    let mut all: Vec<KernelId> = program.kernels_of(file).map(|(id, _)| id).collect();
    clk_compile::each_launch(program, &|module| Some(module) == file, &mut |launch, _| {
        let Some(kernel) = program.kernels.get(launch.kernel) else { return };
        let library = program.modules.get(kernel.module).is_none_or(|module| module.name.starts_with("std."));
        if !library && !kernel.sig.generics.is_empty() && !all.contains(&launch.kernel) {
            all.push(launch.kernel);
        }
    });
    all
}

/// Returns the instances of a kernel to prove: the one with default arguments, if possible, and those that the program
/// launches.
pub(super) fn find_instances(program: &Program, id: KernelId, kernel: &Kernel) -> Instances {
    let mut examined: Vec<NamedInstance> = default_instance(program, id, kernel).into_iter().collect();
    let has_default = !examined.is_empty();
    let mut others: Vec<(String, Span)> = vec![];
    if !kernel.sig.generics.is_empty() {
        let mut visited = FxHashSet::default();
        clk_compile::each_launch(program, &|_| true, &mut |launch, span| {
            if launch.kernel != id {
                return;
            }
            let arguments = clk_compile::known_arguments(program, launch);
            let complete: Option<Vec<GenericArgument>> = arguments.iter().cloned().collect();
            match complete {
                Some(complete) if examined.iter().any(|named| named.instance.arguments == complete) => {}
                Some(complete) if examined.len() < MAX_INSTANCES => {
                    examined.push(prepare_instance(program, id, kernel, complete))
                }
                // Launches with unknown arguments are listed separately, because each of them may have different
                // arguments.
                complete => {
                    let text = arguments_text(program, kernel, &arguments);
                    if visited.insert((text.clone(), complete.is_none().then_some(span))) {
                        others.push((text, span));
                    }
                }
            }
        });
    }
    add_tuned_choices(program, id, kernel, &mut examined, &mut others);
    // If the default instance contains placeholders, they may be an invalid combination, so an instance that does not
    // compile is dropped.
    if has_default && examined.len() > 1 && examined[0].prepared.is_err() {
        examined.remove(0);
    }
    if examined.is_empty() {
        let missing = |generic: &&Generic| default_argument_of(program, generic, &[], PLACEHOLDERS[0]).is_none();
        let name = kernel.sig.generics.iter().find(missing).map_or("", |generic| generic.name.as_str());
        let launched = if others.is_empty() { "no launch gives it" } else { "no launch gives one that is known" };
        let prepared = Err(format!("the compile-time parameter `{name}` has no default, and {launched}"));
        examined.push(NamedInstance { instance: Instance::new(id, vec![]), text: String::new(), prepared });
    }
    Instances { proved: examined, not_examined: others }
}

/// Adds instances for the choices of `tune` clauses, with defaults for all other arguments.
fn add_tuned_choices(
    program: &Program,
    id: KernelId,
    kernel: &Kernel,
    examined: &mut Vec<NamedInstance>,
    others: &mut Vec<(String, Span)>,
) {
    let Some(default_arguments) = examined.first().map(|named| named.instance.arguments.clone()) else { return };
    let Some((first, last)) = kernel.tunes.first().zip(kernel.tunes.last()) else { return };
    for choice in tune_configs::admissible(program, kernel) {
        let mut arguments = default_arguments.clone();
        for (tunable, value) in kernel.tunes.iter().zip(choice) {
            if let Some(slot) = arguments.get_mut(tunable.param as usize) {
                *slot = GenericArgument::Const(value);
            }
        }
        if examined.iter().any(|named| named.instance.arguments == arguments) {
            continue;
        }
        if examined.len() < MAX_INSTANCES {
            examined.push(prepare_instance(program, id, kernel, arguments));
            continue;
        }
        let arguments: Vec<Option<GenericArgument>> = arguments.into_iter().map(Some).collect();
        others.push((arguments_text(program, kernel, &arguments), first.span.to(last.span)));
    }
}

/// Returns the instance with default arguments, and with placeholders for type parameters without a default.
fn default_instance(program: &Program, id: KernelId, kernel: &Kernel) -> Option<NamedInstance> {
    let first = prepare_instance(program, id, kernel, default_arguments(program, kernel, PLACEHOLDERS[0])?);
    if first.prepared.is_ok() {
        return Some(first);
    }
    let second = default_arguments(program, kernel, PLACEHOLDERS[1])
        .map(|arguments| prepare_instance(program, id, kernel, arguments));
    Some(second.filter(|second| second.prepared.is_ok()).unwrap_or(first))
}

fn prepare_instance(
    program: &Program,
    id: KernelId,
    kernel: &Kernel,
    arguments: Vec<GenericArgument>,
) -> NamedInstance {
    let instance = Instance::new(id, arguments);
    // With all checks enabled, the passes do not move operations or add new ones.
    let checks = Checks { memory: true, arithmetic: true, nan: true };
    let prepared = clk_compile::compile_kernel(program, &instance, checks);
    let prepared = prepared.map_err(|errors| errors.first().map_or(String::new(), |d| d.title.clone()));
    let arguments: Vec<_> = instance.arguments.iter().cloned().map(Some).collect();
    NamedInstance { text: arguments_text(program, kernel, &arguments), instance, prepared }
}

/// Returns compile-time arguments as text, such as `T = f32, K = ?` if `K` is unknown.
fn arguments_text(program: &Program, kernel: &Kernel, arguments: &[Option<GenericArgument>]) -> String {
    let shown = |(generic, argument): (&Generic, &Option<GenericArgument>)| {
        let value = argument.as_ref().map_or("?".into(), |argument| argument_text(program, argument));
        format!("{} = {value}", generic.name)
    };
    kernel.sig.generics.iter().zip(arguments).map(shown).collect::<Vec<_>>().join(", ")
}

fn argument_text(program: &Program, argument: &GenericArgument) -> String {
    match argument {
        GenericArgument::Type(ty) => Show { program, sig: None, vars: None }.ty(ty),
        GenericArgument::Const(value) => format::plain(*value),
        GenericArgument::Fn(FunctionInstance::Fn { id, .. }) => {
            program.fns.get(*id).map_or(String::new(), |f| f.name.to_string())
        }
        GenericArgument::Fn(FunctionInstance::Builtin(builtin)) => builtin.name().to_string(),
    }
}

fn default_arguments(program: &Program, kernel: &Kernel, types: PlaceholderTypes) -> Option<Vec<GenericArgument>> {
    let mut arguments = vec![];
    for generic in &kernel.sig.generics {
        arguments.push(default_argument_of(program, generic, &arguments, types)?);
    }
    Some(arguments)
}

fn default_argument_of(
    program: &Program,
    generic: &Generic,
    before: &[GenericArgument],
    types: PlaceholderTypes,
) -> Option<GenericArgument> {
    match &generic.kind {
        GenericKind::Type { bound } => {
            let scalar = if *bound == clk_check::typed::TypeBound::Int { types.integer } else { types.other };
            Some(GenericArgument::Type(Type::Scalar(scalar)))
        }
        GenericKind::Const { .. } | GenericKind::Fn { default: Some(_), .. } => {
            default_argument(program, generic, before)?.ok()
        }
        GenericKind::Fn { default: None, ty } => stand_in_function(ty)
            .map(|function| GenericArgument::Fn(FunctionInstance::Builtin(Builtin::Math(function)))),
    }
}

/// Returns a function of this type that is used for a function parameter without a default.
fn stand_in_function(ty: &FnType) -> Option<MathFn> {
    match &ty.params[..] {
        [a, b] if a == b && *a == ty.result => Some(MathFn::Max),
        [a] if *a == ty.result => Some(MathFn::Abs),
        _ => None,
    }
}
