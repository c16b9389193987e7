//! Layer 4: lowers a typed kernel with its compile-time arguments to monomorphic DeviceIR.
//!
//! Structs, tuples and field arrays are flattened to *leaves*, the scalars and vectors that they consist of. Each leaf
//! is a separate IR value ([`types`]). Each instance of a function becomes a DeviceIR function ([`call`]). Lowering
//! also checks properties that depend on compile-time arguments ([`arrays`], [`place`], [`operator`]).
//!
//! The launch parameters of a kernel are the signature's parameters in order (one `Value` per leaf of a scalar, vector,
//! struct or tuple; one `Array` per array), followed by one `i32` `Value` for each of its [`hidden_params`].

#![allow(rustdoc::private_intra_doc_links)]

mod array_values;
mod arrays;
mod builtin;
mod call;
mod component;
pub(crate) mod constant;
mod context;
mod copy_on_alias;
mod describe;
mod element_kernel;
mod elementwise_kernel;
mod emit;
mod error;
mod expr;
mod inlined_size;
mod instance;
mod kernel;
mod loops;
mod message;
mod mma_emulation;
mod mono;
mod operator;
mod place;
mod speculation;
mod stmt;
mod tile_expand;
mod tile_expr;
mod tile_program;
mod tile_stmt;
mod tile_text;
mod tile_window;
mod tiles;
mod types;

use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{FnRef, Program, Type};
use clk_ir::Checks;
use clk_ir::def::{ElementLayout, Module};

pub use constant::ConstEvaluator;
pub use describe::arguments as describe;
pub(crate) use error::Fallible;
pub use instance::{FunctionInstance, GenericArgument, Instance, MmaPrecision, hidden_params};
pub use mono::default_argument;
pub use tile_program::TileRefusal;

/// Lowers a kernel. Errors are those that depend on the compile-time arguments (a local array of zero size, a division
/// by a constant zero, …).
pub fn lower(program: &Program, instance: &Instance) -> Result<Module, Vec<Diagnostic>> {
    lower_for(program, instance, Checks::default())
}

/// Lowers a kernel for an execution with `checks`. Expressions that a check may report are then not evaluated
/// speculatively, because the check could fail in code that the program does not execute.
pub fn lower_for(program: &Program, instance: &Instance, checks: Checks) -> Result<Module, Vec<Diagnostic>> {
    let mut unit = context::ModuleLowering::of_kernel(program, instance);
    unit.has_checks = checks.any();
    lower_unit(unit, instance)
}

/// Returns why a kernel has no tile program, and the text and location of each of its tile statements. `None` if it has
/// a tile program.
pub fn tile_refusal(program: &Program, instance: &Instance) -> Option<(TileRefusal, Vec<(Span, String)>)> {
    let mut unit = context::ModuleLowering::of_kernel(program, instance);
    let lowered = kernel::kernel(&mut unit, program.kernels.get(instance.kernel)?, instance).ok()?;
    lowered.refusal.map(|refusal| (refusal, tile_text::statements(&lowered)))
}

/// Lowers a kernel for debugging. At its binding, each source variable is written to IR locals with its name and the
/// span of its definition. No code reads these locals, so they exist only until passes remove them.
pub fn lower_with_debug_locals(program: &Program, instance: &Instance) -> Result<Module, Vec<Diagnostic>> {
    let mut unit = context::ModuleLowering::of_kernel(program, instance);
    unit.debug_locals = true;
    lower_unit(unit, instance)
}

fn lower_unit<'a>(mut unit: context::ModuleLowering<'a>, instance: &Instance) -> Result<Module, Vec<Diagnostic>> {
    let program: &'a Program = unit.program;
    let lowered = match program.kernels.get(instance.kernel) {
        Some(kernel) => kernel::kernel(&mut unit, kernel, instance).map(|lowered| lowered.module),
        None => Err(error::internal(Span::default(), "a kernel that is not there")),
    };
    outcome(unit, lowered)
}

/// Builds a kernel with the geometry `threads(i: N)` that applies `function` elementwise to one-dimensional arrays.
/// Parameter k is an array of `N` elements of type `params[k].0` or, if `params[k].1` is false, a single value. The
/// last parameter is the `out` array.
pub fn lower_map(
    program: &Program,
    function: &FunctionInstance,
    params: &[(Type, bool)],
    checks: Checks,
) -> Result<Module, Vec<Diagnostic>> {
    let mut unit = context::ModuleLowering::new(program);
    unit.has_checks = checks.any();
    let lowered = elementwise_kernel::map(&mut unit, function, params);
    outcome(unit, lowered)
}

fn outcome(mut unit: context::ModuleLowering<'_>, lowered: Fallible<Module>) -> Result<Module, Vec<Diagnostic>> {
    match lowered {
        Ok(module) if !unit.has_errors() => match inlined_size::check(&module) {
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

/// Resolves a function reference in the code of an item that has these compile-time arguments.
pub fn function(program: &Program, callee: &FnRef, arguments: &[GenericArgument]) -> Fallible<FunctionInstance> {
    mono::Mono::new(program, arguments).function(callee, Span::default())
}

/// Returns the memory layout of an element of a concrete type; the host's arrays use the same layout.
pub fn layout(program: &Program, ty: &Type) -> Fallible<ElementLayout> {
    types::layout(program, ty, Span::default())
}
