//! Symbolic footprints: which elements of which array a thread of a kernel accesses, as formulas of its coordinates, the sizes
//! of the launch and the iterations of its loops.
//!
//! Input: the body of a kernel with all calls inlined, and the launch in symbols ([`Given`]): extents, parameters, coordinates.
//! Output: a [`Footprint`]. Proofs ([`claim`]) are questions about it to [`crate::base::linear`].
//!
//! # Fragment
//!
//! An index is followed through `+ - *`, division, remainder, shifts, masks, `min`, `max`, `abs`, `clamp`, selections and
//! variables. Integers are linear forms over variables ([`space`]); conditions are formulas. A product of two variables, a
//! quotient, a selection and the value of a variable behind an `if` are variables of their own with facts that define them.
//!
//! The walk ([`walk`]) goes forward through the body once. A [`State`](state::State) is what holds at a point: the *path*, the
//! conjunction of the conditions that led there (negated ones included, also those of `break`, `continue` and `return`), and the
//! values of the locals. Loops ([`loops`]) with few known iterations are executed; of others one iteration stands for all: number
//! `k >= 0`, in which the variable of a `for` is `start + step * k`, a local that grows by a constant is `first + constant * k`, and
//! every other local is unknown up to invariants that are guessed and then proved.
//!
//! An element of an array of constants is a number where its index is one. Otherwise it is a variable with the element for each index as a
//! fact, or with the bounds and the order of the elements if there are many.
//!
//! Everything else is *unknown*: a variable with no facts but its type's range, with a reason and a place. Unknown values make
//! the footprint larger than what the kernel does, never smaller. So what is proved holds, and what is refuted has to be shown by
//! a run.
//!
//! # Coverage
//!
//! That all elements of an array are written is the one question for which the footprint must not be too large. Each access knows
//! a *sure* way ([`Step`]): conditions under which a thread makes it, unless a fault stops the launch. Behind a loop it is the way
//! to the loop, as loops end. [`cover`] makes up the thread that should write an element;
//! [`whole`] asks it of launches, for devices.
//!
//! A flat array whose rows have a dimension as their length is taken apart into rows first. A loop with one iteration at most needs no digit.
//!
//! # Parts
//!
//! A launch on several devices is cut along a coordinate; that each part of it accesses only what its device has is asked by [`parts`].
//!
//! # Warps
//!
//! What the lanes of a warp access together is a matter of one access and 32 threads: [`warp`] puts the coordinates of lanes into it and counts. The
//! lanes are in the same iterations of the loops around the access, but may have left earlier loops in different iterations
//! ([`Footprint::together`]).
//!
//! # Barriers
//!
//! Each access knows the barriers that may be the last one before it ([`Moment`]): a place in the program, and the
//! iterations of the loops around that place. As all threads of a block pass the same barriers in the same order (which is proved
//! separately), two of them are between the same two barriers exactly if they agree in the last one. At the head of a loop the
//! last barrier is the one before the loop in iteration 0, and one of iteration `k - 1` in iteration `k`.
//!
//! # Overflow
//!
//! Forms are exact integers, machine numbers are not. Every operation whose result might not fit its type leaves an
//! [`Obligation`]. If one cannot be proved, the walk is repeated with that result unknown. So nothing else rests on an
//! operation that might overflow. The first operation of a run that overflowed would contradict its obligation, since all
//! values before it are exact.

pub mod apart;
pub mod claim;
pub mod cover;
pub(crate) mod def;
pub mod form;
pub mod inside;
mod loops;
pub mod parts;
pub mod question;
pub mod settle;
mod slice;
pub mod space;
mod state;
mod value;
mod walk;
pub mod warp;
pub mod whole;

use rustc_hash::FxHashSet;

pub use def::*;
pub use form::{at_most, constant, number, single, variable};

use crate::ir::def::{ExprId, Module};

/// Walks the kernel's body. The results of the operations in `opaque` are unknown; `unroll` is whether loops may be executed
/// iteration by iteration.
pub(crate) fn footprint(module: &Module, given: &Given, opaque: &FxHashSet<ExprId>, unroll: bool) -> Footprint {
    let Some(function) = module.functions.get(module.kernel.body) else { return Footprint::default() };
    walk::run(state::Walk::new(function, given, opaque, unroll))
}
