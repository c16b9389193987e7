//! Kernels that are written in Clk: those of the standard library, of which array operations launch some by name.
//!
//! The library is checked once per process, when the first of them is needed; an instance is lowered once per device.

use std::sync::{Arc, OnceLock};

use crate::check::typed::{Program, Type};
use crate::compile::{self, NoFiles, Session};
use crate::device::{Arg, DeviceError, Executable, Extents, FaultKind};
use crate::host::array::{Element, no_memory};
use crate::host::graph::run::{broken, problem};
use crate::host::graph::site::Site;
use crate::host::problem::Outcome;
use crate::ir::Checks;
use crate::lang::builtin::Builtin;
use crate::lang::ops::MathFn;
use crate::lang::scalar::{Scalar, Value};
use crate::lower::{Argument, Function, Instance};

/// The modules whose kernels are used.
const TEXT: &str = "import std.linalg\nimport std.scan\nimport std.sort\n";

/// A compile-time argument.
#[derive(Clone, Copy, Debug)]
pub(super) enum Given {
    Type(Scalar),
    Number(i32),
    Math(MathFn),
    /// A function of the library with one parameter for a type.
    Function(&'static str, Scalar),
}

/// Returns a kernel of the library with these compile-time arguments, loaded on a site's device.
pub(super) fn kernel(site: &Site, name: &'static str, given: &[Given]) -> Outcome<Arc<dyn Executable>> {
    // No plan has as many axes.
    let mut key = vec![255];
    key.extend(name.bytes());
    for argument in given {
        match *argument {
            Given::Type(scalar) => key.extend([0, scalar as u8]),
            Given::Number(n) => {
                key.push(1);
                key.extend(n.to_le_bytes());
            }
            Given::Math(function) => key.extend([2, function as u8]),
            Given::Function(name, scalar) => {
                key.extend([3, scalar as u8]);
                key.extend(name.bytes());
            }
        }
    }
    site.kernel(key, || load(site, name, given))
}

/// Launches a kernel for a result of this type and shape, which an error of memory names.
pub(super) fn launch(
    site: &Site,
    executable: &dyn Executable,
    extents: Extents,
    args: &mut [Arg<'_>],
    (element, shape): (&Element, &[usize]),
) -> Outcome<()> {
    match executable.launch(extents, args, site.control()) {
        Ok(_) => Ok(()),
        Err(fault) => Err(match fault.kind {
            FaultKind::Device(DeviceError::NoHostMemory { .. }) => no_memory(element, shape),
            _ => problem(&fault),
        }),
    }
}

fn load(site: &Site, name: &str, given: &[Given]) -> Outcome<Arc<dyn Executable>> {
    let program = library()?;
    let kernel = program.kernels.iter().find(|(_, kernel)| kernel.name == name).map(|(id, _)| id);
    let kernel = kernel.ok_or_else(|| broken(&format!("the library has no kernel `{name}`")))?;
    let arguments = given.iter().map(|given| argument(program, *given)).collect::<Outcome<Vec<Argument>>>()?;
    let prepared = compile::kernel(program, &Instance::new(kernel, arguments), Checks::default());
    let prepared = prepared.map_err(|errors| {
        let why = errors.first().map_or("", |error| error.title.as_str());
        broken(&format!("`{name}` of the library: {why}"))
    })?;
    Ok(site.load(prepared))
}

fn argument(program: &Program, given: Given) -> Outcome<Argument> {
    Ok(match given {
        Given::Type(scalar) => Argument::Type(Type::Scalar(scalar)),
        Given::Number(n) => Argument::Const(Value::of(n)),
        Given::Math(function) => Argument::Fn(Function::Builtin(Builtin::Math(function))),
        Given::Function(name, scalar) => {
            let id = program.fns.iter().find(|(_, function)| function.name == name).map(|(id, _)| id);
            let id = id.ok_or_else(|| broken(&format!("the library has no function `{name}`")))?;
            Argument::Fn(Function::Fn { id, arguments: vec![Argument::Type(Type::Scalar(scalar))] })
        }
    })
}

/// Returns the checked modules.
fn library() -> Outcome<&'static Program> {
    static LIBRARY: OnceLock<Result<Program, String>> = OnceLock::new();
    let made = LIBRARY.get_or_init(|| {
        let mut session = Session::default();
        let outcome = session.add("<arrays>", TEXT, &NoFiles);
        match outcome.diagnostics.iter().find(|found| found.is_error()) {
            Some(error) => Err(error.title.clone()),
            None => Ok(session.program),
        }
    });
    made.as_ref().map_err(|why| broken(&format!("the standard library: {why}")))
}
