//! Formats compile-time arguments for diagnostics about one instance among several.

use super::instance::{Argument, Function};
use crate::check::typed::{Generic, Program, Type};

/// Formats arguments as `T = f32, N = 4, op = max`; none if there are none.
pub fn arguments(program: &Program, generics: &[Generic], arguments: &[Argument]) -> Option<String> {
    let pairs = generics.iter().zip(arguments);
    let texts: Vec<String> =
        pairs.map(|(generic, argument)| format!("{} = {}", generic.name, describe(program, argument))).collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

fn describe(program: &Program, argument: &Argument) -> String {
    match argument {
        Argument::Type(ty) => type_name(program, ty),
        Argument::Const(value) => value.to_string(),
        Argument::Fn(Function::Builtin(builtin)) => builtin.name().to_string(),
        Argument::Fn(Function::Fn { id, .. }) => {
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
