//! Derivatives of kernels, from DeviceIR to DeviceIR, and right or refused: what has no rule is a [`Lost`] with its place.
//!
//! The types: [`activity`](active::activity) says which values have a derivative (floats that depend on an active parameter).
//! [`forward`] keeps the control flow and adds a tangent to every active value, local and memory. [`reverse()`] gives a kernel that
//! runs the kernel again, from the original contents of its arrays, and then backwards, and maybe others that do a part of that.
//!
//! The passes of the reverse, each a file:
//! 1. `jumps` replaces jumps by flags, so that every block that is entered reaches its end;
//! 2. `plan` finds the block of every expression, and hoists reads of locals that a loop does not change;
//! 3. `reverse` makes the forward part and its mirror image: statements in opposite order, a load becomes an addition to the adjoint, a
//!    store takes the adjoint and zeroes it, loops run backwards, barriers stay;
//! 4. `alone` asks the kernel's footprint ([`crate::ir::footprint`]) which loads and stores no two threads do to one element at a time;
//! 5. `tape` keeps what the mirror image needs. What depends on constants, parameters, indices, loop counters, read-only arrays and what
//!    shared memory keeps to the end (`settled`) is computed again; values of the outermost block are still there; those of a branch are kept in a local; those of a loop are pushed
//!    when their block ends, and popped when its mirror image begins;
//! 6. `apart` makes kernels of their own for adjoints of arrays that are read at a thread's indices moved by constants (`gather`), and
//!    for sums over all threads (`totals`).
//!
//! Loops that add products of matrices are differentiated as a whole (`product`), with factors that are filled again or taped (`factors`).
//!
//! Invariants:
//! - The forward part touches primal memory, the mirror image adjoint memory (and read-only arrays and the tape), so that one thread may
//!   already run backwards while another still runs forwards.
//! - What one thread writes and another reads is separated by a barrier, which is mirrored: so the addition to an adjoint precedes
//!   its being taken. Additions to an element to which two threads may add between two barriers are atomic. If two threads may
//!   store there, they store one value, as all else is a race: each takes the adjoint by an atomic exchange, and only the first gets it.
//! - The adjoint of a local or memory element is zero before the first and after the last use of each value it holds.
//! - An adjoint that was taken is zeroed at the end of its block, or before a statement that accesses its array or meets other threads.
//! - What is proved holds for the launches that the derivative is made for ([`Launches`]); the host makes another one for others.
//! - Values of `f16` and `bf16` have adjoints of `f32`, and tangents of their own type. Integers and `bool`s have none.
//!
//! Refused: conversion of an active float to an integer, its bits, atomics on active memory other than sums (so also second derivatives
//! in reverse mode where adjoints are exchanged), sums whose old value is
//! used, reads of what atomics of other threads change in the same kernel, `lgamma` and `tgamma`; in reverse mode also the old values
//! of all atomics and such reads of integers (in another run the threads may come in another order), shuffles by amounts that are no
//! constants or, but for `shuffle_xor`, among a part of a warp.
//!
//! What only a side of a `select` uses that is not chosen has the derivative zero. An operation that a taken branch computes and nobody
//! uses otherwise still has its derivative, zero times a partial one: a value such as `sqrt(0)` that is used only in another branch
//! gives NaN, as in other systems.

mod active;
mod alone;
mod apart;
mod companion;
mod def;
mod dual;
mod factors;
mod gather;
mod jumps;
mod launches;
mod lost;
mod mirror;
mod plan;
mod product;
mod repeat;
mod reverse;
mod rules;
mod settled;
mod tape;
mod text;
mod totals;
mod warp;

pub use companion::adjoint_scalar;
pub use def::{Counting, Derived, Gather, Recorder, Role, Totals};
pub use launches::Launches;
pub use lost::Lost;
pub use text::{Head, print};

use crate::ir::def::{KernelParam, MemId, Module};
use crate::pass;

/// Derives a kernel in forward mode. `active` says of each launch parameter whether it has a tangent, `again` that the kernel is a
/// derivative in reverse mode: then several threads may take an adjoint, and the tangent of it may be another one's.
pub fn forward(module: &Module, active: &[bool], again: bool) -> Result<Derived, Lost> {
    let module = pass::for_derivative(module).map_err(Lost::internal)?;
    dual::derive(&module, active, again)
}

/// Derives a kernel in reverse mode. `active` says of each launch parameter whether its derivative is wanted, or given if it is an
/// output. The result is for these launches.
pub fn reverse(module: &Module, active: &[bool], launches: &Launches) -> Result<Derived, Lost> {
    let module = pass::for_derivative(module).map_err(Lost::internal)?;
    reverse::derive(module, active, launches)
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
