//! Formats compile-time arguments, so that a diagnostic can state which instance of a function it is about.

use super::instance::{FunctionInstance, GenericArgument};
use clk_check::typed::{Generic, Program, Type};

/// Formats arguments as `T = f32, N = 4, op = max`; `None` if there are no arguments.
pub fn arguments(program: &Program, generics: &[Generic], arguments: &[GenericArgument]) -> Option<String> {
    let pairs = generics.iter().zip(arguments);
    let texts: Vec<String> =
        pairs.map(|(generic, argument)| format!("{} = {}", generic.name, describe(program, argument))).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn describe(program: &Program, argument: &GenericArgument) -> String {
    match argument {
        GenericArgument::Type(ty) => type_name(program, ty),
        GenericArgument::Const(value) => value.to_string(),
        GenericArgument::Fn(FunctionInstance::Builtin(builtin)) => builtin.name().to_string(),
        GenericArgument::Fn(FunctionInstance::Fn { id, .. }) => {
            program.fns.get(*id).map_or_else(|| "?".to_string(), |function| function.name.to_string())
        }
    }
}

fn type_name(program: &Program, ty: &Type) -> String {
    match ty {
        Type::Scalar(s) => s.name().to_string(),
        Type::Vector(s, n) => format!("{s}x{n}"),
        Type::Struct(id) => program.structs.get(*id).map_or_else(|| "?".to_string(), |s| s.name.to_string()),
        Type::Tuple(parts) => {
            let parts: Vec<String> = parts.iter().map(|part| type_name(program, part)).collect();
            format!("({})", parts.join(", "))
        }
        other => format!("{other:?}"),
    }
}
