//! Derivatives of kernels, from DeviceIR to DeviceIR, and right or refused: what has no rule is a [`Lost`] with its place.
//!
//! The types: [`activity`](active::activity) says which values have a derivative (floats that depend on an active parameter).
//! [`forward`] keeps the control flow and adds a tangent to every active value, local and memory. [`reverse`] gives one kernel that
//! runs the kernel again, from the original contents of its arrays, and then backwards.
//!
//! The passes of the reverse, each a file:
//! 1. `jumps` replaces jumps by flags, so that every block that is entered reaches its end;
//! 2. `plan` finds the block of every expression, and hoists reads of locals that a loop does not change;
//! 3. `reverse` makes the forward part and its mirror image: statements in opposite order, a load becomes an addition to the adjoint, a
//!    store takes the adjoint and zeroes it, loops run backwards, barriers stay;
//! 4. `tape` keeps what the mirror image needs. What depends on constants, parameters, indices, loop counters and read-only arrays is
//!    computed again; values of the outermost block are still there; those of a branch are kept in a local; those of a loop are pushed
//!    when their block ends, and popped when its mirror image begins.
//!
//! Invariants:
//! - The forward part touches primal memory, the mirror image adjoint memory (and read-only arrays and the tape), so that one thread may
//!   already run backwards while another still runs forwards.
//! - What one thread writes and another reads is separated by a barrier, which is mirrored: so the addition to an adjoint precedes
//!   its being taken. Two threads may add to one element: additions are atomic, unless every access of the array is at the thread's
//!   own indices.
//! - The adjoint of a local or memory element is zero before the first and after the last use of each value it holds.
//! - Values of `f16` and `bf16` have adjoints of their own type. Integers and `bool`s have none.
//!
//! Refused: conversion of an active float to an integer, its bits, atomics on active memory other than sums, sums whose old value is
//! used, `lgamma` and `tgamma`; in reverse mode also the old values of all atomics (in another run the threads may come in another
//! order), shuffles by amounts that are no constants or among a part of a warp.

mod active;
mod companion;
mod dual;
mod jumps;
mod lost;
mod mirror;
mod plan;
mod reverse;
mod rules;
mod tape;
mod text;
mod warp;

pub use lost::Lost;
pub use text::{Head, print};

use crate::ir::def::{Function, KernelParam, MemId, Module, Space};
use crate::ir::typing;
use crate::lang::scalar::Scalar;
use crate::pass;

/// What a parameter of a derived kernel is; the numbers are positions in the parameters of the original kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// As for the original kernel. Reverse: an `inout` array is a copy with the contents before the launch; an `out` array is
    /// scratch. Both are overwritten.
    Primal(usize),
    /// The tangent of a parameter, with its type, extents and access.
    Tangent(usize),
    /// The adjoint of a parameter, `inout`: of an array with its layout and extents, of a value an array of one element. Adjoints
    /// of results come in and are consumed, those of inputs are added to; arrays that are neither begin with zeros.
    Adjoint(usize),
    /// An `inout` array of these scalars without contents: its extents are the slots that one thread needs, and then those of the
    /// index space (`threads`) or the number of all threads (`grid`).
    Tape(Scalar),
    /// Of a counting kernel: `out`, `i32`, with an extent of the number of tapes, and then as those of a tape: the slots that each
    /// thread needs of each tape.
    Counts,
}

/// A derived kernel.
#[derive(Clone, Debug)]
pub struct Derived {
    pub module: Module,
    /// One per parameter of the derived kernel.
    pub params: Vec<Role>,
    /// If the kernel has tapes: a kernel that counts the slots they need.
    pub counting: Option<Counting>,
}

/// A kernel that runs the forward part only, and counts what it would record. It is launched as the derived one.
#[derive(Clone, Debug)]
pub struct Counting {
    pub module: Module,
    pub params: Vec<Role>,
}

/// Derives a kernel in forward mode. `active` says of each launch parameter whether it has a tangent.
pub fn forward(module: &Module, active: &[bool]) -> Result<Derived, Lost> {
    let module = pass::for_derivative(module).map_err(Lost::internal)?;
    dual::derive(&module, active)
}

/// Derives a kernel in reverse mode. `active` says of each launch parameter whether its derivative is wanted, or given if it is an
/// output.
pub fn reverse(module: &Module, active: &[bool]) -> Result<Derived, Lost> {
    let module = pass::for_derivative(module).map_err(Lost::internal)?;
    reverse::derive(module, active)
}

/// Simplifies a derived kernel, for reading.
pub fn simplified(module: &Module) -> Result<Module, String> {
    pass::simplified(module)
}

/// Returns which parameters of a kernel can be active: floats, and arrays with floats.
pub fn can_be_active(module: &Module) -> Vec<bool> {
    let Some(body) = module.functions.get(module.kernel.body) else { return vec![] };
    let of_memory = |memory: MemId| active::has_floats(&body.memories[memory].layout);
    let of = |param: &KernelParam| match param {
        KernelParam::Value { ty, .. } => ty.scalar().is_float(),
        KernelParam::Array { memory, .. } => of_memory(*memory),
    };
    module.kernel.params.iter().map(of).collect()
}

/// Returns the position of the launch parameter that a memory is.
fn param_of(f: &Function, memory: MemId) -> Option<usize> {
    match f.memories[memory].space {
        Space::Global { param, .. } => Some(param as usize),
        _ => None,
    }
}

/// Returns the type of a leaf or component at a place, if it is a float.
fn float_at(f: &Function, place: &crate::ir::def::Place) -> Option<crate::ir::def::Ty> {
    typing::place(f, place).ok().filter(|ty| ty.scalar().is_float())
}
