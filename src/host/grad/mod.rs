//! Derivatives of what a script computes: values that know how they came to be.
//!
//! While a function is differentiated, the values that depend on its parameters are [`Traced`](crate::host::value::Traced). Each operation on them is a [`Deed`],
//! which [`apply()`] computes on the plain values, as always, and whose derivative it takes along.
//!
//! # Idea
//! - **Forward**: a traced value carries its tangent, and a deed computes that of its result ([`mod@apply`]).
//! - **Reverse**: a traced value is a node of a [`Tape`], and a deed adds a node, with what its derivative needs. Going back over the
//!   tape, the adjoint of each node is complete when it is reached, and becomes parts of the adjoints of its operands ([`mod@pull`]).
//! - **Audit**: a traced value has no derivative, and a deed is judged by itself: its rules for both directions against differences
//!   ([`mod@audit`]).
//!
//! A function whose derivative is stated is one step of a tape, which the interpreter goes back over by the rule.
//!
//! So loops, conditions and calls need no rules: they have happened. Arithmetic rules are those of `lang::derivative`, which kernels use
//! too; what they compute with are deeds again, array expressions that are fused and run where the operands are.
//!
//! # Levels
//! A derivative within another one has a higher level. A value traced at several levels is wrapped once for each, the highest
//! outermost; a deed takes off the highest level of its operands, computes with what is inside, and wraps the result. Thus the
//! derivative of the inner function is itself traced by the outer one, and perturbations of two levels are never confused.
//!
//! # Invariants
//! - A value that does not know of traced ones refuses them, as it refuses any value of the wrong type: no derivative is lost without a
//!   word. What gives integers, truth values or texts takes the plain values ([`primal`]); what makes integers of floats is refused.
//! - An adjoint has the shape of its node, or one that broadcasts to it: then it stands for the same number at each repetition.
//! - The derivative of a result by a parameter that it does not depend on is zero.

mod apply;
mod audit;
pub(crate) mod deed;
mod form;
mod kernel;
mod launch;
mod numbers;
pub(crate) mod ops;
mod pull;
mod reverse;
mod slope;
mod stated;
mod sums;
mod tape;
mod used;
mod wrap;

pub(crate) use apply::{apply, of_structs, spread};
pub(crate) use audit::{auditor, judged_rule};
pub(crate) use deed::{Deed, Ruled};
pub(crate) use kernel::{Kernel, Launch, Manner};
pub(crate) use launch::launched;
pub(crate) use numbers::{dot, numbers, of_numbers, random_like, repeated, size};
pub(crate) use reverse::pulled;
pub(crate) use slope::{Slope, Steps};
pub(crate) use stated::{kept, tape_of, with_tangents};
pub(crate) use tape::{Finds, Tape};
pub(crate) use wrap::{
    is_alike, is_traced, leaves, level_of, links, primal, shape_of, stripped, traced, wrapped, zeros_like,
};
