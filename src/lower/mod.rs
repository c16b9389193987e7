//! Layer 4: lowers a typed kernel with its compile-time arguments to monomorphic DeviceIR.
//!
//! Structs, tuples and field arrays are flattened to *leaves*, the scalars and vectors they consist of, each a separate IR
//! value ([`types`]). Functions become one DeviceIR function per instance ([`call`]). Properties that depend on compile-time
//! arguments are checked here ([`arrays`], [`place`], [`operator`]).
//!
//! A kernel's launch parameters are those of its signature in order (one `Value` per leaf of a scalar, vector, struct or
//! tuple; one `Array` per array), followed by one `i32` `Value` for each of its [`hidden_params`].

mod arrays;
mod builtin;
mod call;
mod component;
pub(crate) mod constant;
mod copy;
mod describe;
mod emit;
mod error;
mod expr;
mod instance;
mod kernel;
mod loops;
mod map;
mod message;
mod mono;
mod operator;
mod part;
mod place;
mod product;
mod program;
mod purity;
mod size;
mod steady;
mod stmt;
mod tensor;
mod tile;
mod tiles;
mod types;
mod unit;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{FnRef, Program, Type};
use crate::ir::Checks;
use crate::ir::def::{Layout, Module};

pub use constant::Constants;
pub use describe::arguments as describe;
pub(crate) use error::Fallible;
pub use instance::{Argument, Function, Instance, Sums, hidden_params};
pub use mono::default_argument;

/// Lowers a kernel. Errors are those that depend on the compile-time arguments (a local array of zero size, a division by a
/// constant zero, …).
pub fn lower(program: &Program, instance: &Instance) -> Result<Module, Vec<Diagnostic>> {
    lower_for(program, instance, Checks::default())
}

/// Lowers a kernel for a run with `checks`. Speculative evaluation is then disabled, since a check could fail in code that
/// the program does not execute.
pub fn lower_for(program: &Program, instance: &Instance, checks: Checks) -> Result<Module, Vec<Diagnostic>> {
    let mut unit = unit::Unit::of_kernel(program, instance);
    unit.careful = checks.any();
    lower_unit(unit, instance)
}

/// Lowers a kernel so that all of its variables can be looked at: each has locals with its name and the place of its definition,
/// which are written where it is bound. What nothing reads stays as long as no pass runs.
pub fn lower_named(program: &Program, instance: &Instance) -> Result<Module, Vec<Diagnostic>> {
    let mut unit = unit::Unit::of_kernel(program, instance);
    unit.named = true;
    lower_unit(unit, instance)
}

fn lower_unit<'a>(mut unit: unit::Unit<'a>, instance: &Instance) -> Result<Module, Vec<Diagnostic>> {
    let program: &'a Program = unit.program;
    let lowered = match program.kernels.get(instance.kernel) {
        Some(kernel) => kernel::kernel(&mut unit, kernel, instance),
        None => Err(error::internal(Span::default(), "a kernel that is not there")),
    };
    outcome(unit, lowered)
}

/// Builds a kernel `threads(i: N)` over flat arrays that applies `function` elementwise: parameter k is an array of `N`
/// elements of type `params[k].0` or, if `params[k].1` is false, a single value; the last parameter, after those of `params`,
/// is the `out` array.
pub fn lower_map(
    program: &Program,
    function: &Function,
    params: &[(Type, bool)],
    checks: Checks,
) -> Result<Module, Vec<Diagnostic>> {
    let mut unit = unit::Unit::new(program);
    unit.careful = checks.any();
    let lowered = map::map(&mut unit, function, params);
    outcome(unit, lowered)
}

fn outcome(mut unit: unit::Unit<'_>, lowered: Fallible<Module>) -> Result<Module, Vec<Diagnostic>> {
    match lowered {
        Ok(module) if !unit.has_errors() => match size::check(&module) {
            Ok(()) => Ok(module),
            Err(large) => Err(vec![*large]),
        },
        Ok(_) => Err(unit.into_errors()),
        Err(error) => {
            unit.report(error);
            Err(unit.into_errors())
        }
    }
}

/// Resolves a function reference in an item with these compile-time arguments.
pub fn function(program: &Program, callee: &FnRef, arguments: &[Argument]) -> Fallible<Function> {
    mono::Mono::new(program, arguments).function(callee, Span::default())
}

/// Returns the memory layout of an element of a concrete type; the host's arrays use the same layout.
pub fn layout(program: &Program, ty: &Type) -> Fallible<Layout> {
    types::layout(program, ty, Span::default())
}
