//! Deferred evaluation of array expressions: operators and functions on arrays are deferred, and a chain of elementwise
//! operations is compiled into one kernel. Input: operations on [`Array`]s whose operands have been checked. Output:
//! arrays whose bytes a [`DeferredNode`] computes when they are first read. An operation passes through these stages:
//! ```text
//! operation ─▶ checks ─▶ DeferredNode ─▶ … ─▶ first reader ─▶ FusionPlan ─▶ DeviceIR ─▶ passes ─▶ device ─▶ storage of the array
//! ```
//! `docs/internals/array-expressions.md` describes the invariants and the choice of the device.

pub(crate) mod arg_reduce;
mod compute_node;
pub(crate) mod context;
mod donation;
mod evaluate;
mod gather;
pub(crate) mod integer_range;
mod kernel_builder;
mod lazy_gather;
mod library_kernels;
pub(crate) mod mask_select;
pub(crate) mod matmul;
mod memo;
pub(crate) mod node;
mod out_of_core;
mod plan;
mod prefetch;
pub(crate) mod reduce;
mod residency;
mod row_kernel;
mod row_plan;
mod row_planner;
pub(crate) mod scan;
pub(crate) mod scatter;
mod slice_write;
pub(crate) mod sort;
#[cfg(test)]
mod tests;
pub(crate) mod view;

pub use context::ExecContext;
pub(crate) use context::ExpressionState;
pub(crate) use evaluate::{DIVISION_BY_ZERO, defer, fault_error, for_each_scalar, scalar_error};
pub(crate) use gather::{gather, one_hot_mask};
pub(crate) use lazy_gather::IndexList;
pub(crate) use node::{ElementwiseOp, NodeOperand, ReductionOp, ReductionShape};
pub(crate) use reduce::reduce;
pub(crate) use residency::{materialize_for, struct_words};
pub(crate) use row_plan::round_results;
pub(crate) use slice_write::{concatenate, write_column, write_element, write_window};
pub(crate) use view::{ViewAxis, column_view, component_view, make_view, scalar_shape};

#[cfg(doc)]
use crate::array::Array;
#[cfg(doc)]
use node::DeferredNode;
