//! Kernels of the standard library, written in Clk, that array operations launch by name. The library is parsed and
//! type-checked once per process, when the first kernel is needed. Each instance of a kernel is lowered once per
//! device.

use std::sync::{Arc, OnceLock};

use crate::array::{ElementType, no_memory};
use crate::graph::context::ExecContext;
use crate::graph::evaluate::{fault_error, internal_error};
use crate::problem::HostResult;
use clk_base::diag::Diagnostic;
use clk_check::typed::{Program, Type};
use clk_compile::{NoFiles, Session};
use clk_ir::Checks;
use clk_lower::{FunctionInstance, GenericArgument, Instance};
use clk_runtime::{Arg, DeviceError, Executable, FaultKind, LaunchConfig, LaunchExtents};
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::MathFn;
use clk_scalar::{Scalar, ScalarValue};

/// A program that imports the library modules whose kernels are used here.
const IMPORTS: &str = "import std.products\nimport std.scan\nimport std.sort\n";

/// A compile-time argument of a library kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum LibraryArgument {
    Type(Scalar),
    Number(i32),
    Math(MathFn),
    /// A function of the library with one type parameter.
    Function(&'static str, Scalar),
}

/// Returns the instance of a library kernel for these compile-time arguments, loaded on the context's device.
pub(super) fn library_kernel(
    context: &ExecContext,
    name: &'static str,
    given: &[LibraryArgument],
) -> HostResult<Arc<dyn Executable>> {
    // 255 is unique to library kernels: the keys of plans begin with a number of axes, which is smaller.
    let mut key = vec![255];
    key.extend(name.bytes());
    for argument in given {
        match *argument {
            LibraryArgument::Type(scalar) => key.extend([0, scalar as u8]),
            LibraryArgument::Number(n) => {
                key.push(1);
                key.extend(n.to_le_bytes());
            }
            LibraryArgument::Math(function) => key.extend([2, function as u8]),
            LibraryArgument::Function(name, scalar) => {
                key.extend([3, scalar as u8]);
                key.extend(name.bytes());
            }
        }
    }
    context.kernel(key, || load(context, name, given))
}

/// Launches a library kernel. The element type and the shape are only used in out-of-memory errors.
pub(super) fn launch(
    context: &ExecContext,
    executable: &dyn Executable,
    extents: LaunchExtents,
    args: &mut [Arg<'_>],
    element: &ElementType,
    shape: &[usize],
) -> HostResult<()> {
    match executable.launch(&LaunchConfig::new(extents, context.location()), args, context.control()) {
        Ok(_) => Ok(()),
        Err(fault) => Err(match fault.kind {
            FaultKind::Device(DeviceError::NoHostMemory { .. }) => no_memory(element, shape),
            _ => fault_error(&fault),
        }),
    }
}

fn load(context: &ExecContext, name: &str, given: &[LibraryArgument]) -> HostResult<Arc<dyn Executable>> {
    let program = library()?;
    let kernel = program.kernels.iter().find(|(_, kernel)| kernel.name == name).map(|(id, _)| id);
    let kernel = kernel.ok_or_else(|| internal_error(format!("the library has no kernel `{name}`")))?;
    let arguments =
        given.iter().map(|given| argument(program, *given)).collect::<HostResult<Vec<GenericArgument>>>()?;
    let prepared = clk_compile::compile_kernel(program, &Instance::new(kernel, arguments), Checks::default());
    let prepared = prepared.map_err(|errors| {
        let why = errors.first().map_or("", |error| error.title.as_str());
        internal_error(format!("`{name}` of the library: {why}"))
    })?;
    Ok(context.load(prepared))
}

fn argument(program: &Program, given: LibraryArgument) -> HostResult<GenericArgument> {
    Ok(match given {
        LibraryArgument::Type(scalar) => GenericArgument::Type(Type::Scalar(scalar)),
        LibraryArgument::Number(n) => GenericArgument::Const(ScalarValue::of(n)),
        LibraryArgument::Math(function) => GenericArgument::Fn(FunctionInstance::Builtin(Builtin::Math(function))),
        LibraryArgument::Function(name, scalar) => {
            let id = program.fns.iter().find(|(_, function)| function.name == name).map(|(id, _)| id);
            let id = id.ok_or_else(|| internal_error(format!("the library has no function `{name}`")))?;
            GenericArgument::Fn(FunctionInstance::Fn {
                id,
                arguments: vec![GenericArgument::Type(Type::Scalar(scalar))],
            })
        }
    })
}

/// Returns the parsed and type-checked library.
fn library() -> HostResult<&'static Program> {
    static LIBRARY: OnceLock<Result<Program, Box<Diagnostic>>> = OnceLock::new();
    let program = LIBRARY.get_or_init(|| {
        let mut session = Session::default();
        let outcome = session.add("<arrays>", IMPORTS, &NoFiles);
        match outcome.diagnostics.iter().find(|found| found.is_error()) {
            Some(error) => Err(Box::new(error.clone())),
            None => Ok(session.program),
        }
    });
    program.as_ref().map_err(|error| internal_error(format_args!("the standard library: {}", error.title)))
}
