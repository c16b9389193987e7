//! Automatic differentiation of scripts. Values that depend on the parameters of a differentiated function are
//! [`Traced`](crate::value::Traced). Each operation on them is a [`TapeOp`]: [`apply()`] evaluates it on the
//! untraced values and propagates its derivative.
//! - Forward mode: a traced value carries its tangent ([`mod@apply`]).
//! - Reverse mode: a traced value is a node of a [`GradTape`]; the reverse sweep ([`mod@reverse`], [`mod@vjp`])
//!   computes adjoints.
//! - Gradient check: the rules of each operation are compared with finite differences ([`mod@derivative_check`]).
//!
//! `docs/internals/differentiation.md` describes nested derivatives and the invariants.

mod apply;
mod custom_vjp;
mod derivative_check;
pub(crate) mod einsum;
mod finite_difference;
mod flatten;
mod kernel;
mod launch;
pub(crate) mod ops;
mod reverse;
mod tape;
pub(crate) mod tape_op;
mod thread_sums;
mod trace_value;
mod used_elements;
mod value_shape;
mod vjp;

pub(crate) use apply::{apply, broadcast_flat, struct_array_error};
pub(crate) use custom_vjp::{record_call, tape_of, with_tangents};
pub(crate) use derivative_check::{auditor, check_custom_vjp};
pub(crate) use finite_difference::{DifferenceSteps, Slope};
pub(crate) use flatten::{dot, dot_magnitude, flatten, random_like, repeat_number, unflatten};
pub(crate) use kernel::{CompileOptions, GradKernel, GradLaunch};
pub(crate) use launch::launch_traced;
pub(crate) use reverse::reverse_sweep;
pub(crate) use tape::{AuditTarget, GradTape};
pub(crate) use tape_op::{CustomVjpCall, TapeOp};
pub(crate) use trace_value::{
    has_same_shape, is_traced, leaves, level_of, primal, shape_of, split_link, strip_levels, trace, wrap_leaves,
    zeros_like,
};
