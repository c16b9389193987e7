//! Operations on the values of scripts: elementwise operations with NumPy's broadcasting, reductions, rearrangements,
//! creation of arrays.
//!
//! Scalar arithmetic is defined in `clk_scalar`. For elementwise operations, reductions and products, this module
//! checks the operands, and [`crate::graph`] computes the results. The other operations are loops in this module.
//! Operands must have the same element type, but an untyped literal (`HostValue::Int`, `HostValue::Float`) takes the
//! type of the other operand.

mod argsort;
pub(crate) mod binary;
mod collect;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod elementwise;
mod gather;
pub(crate) mod geometry;
pub(crate) mod math;
pub(crate) mod matmul;
pub(crate) mod operand;
pub(crate) mod overflow;
pub(crate) mod parts;
pub(crate) mod rearrange;
pub(crate) mod reduce;
mod sort;
pub mod text;
pub(crate) mod totals;

pub use argsort::argsort;
pub(crate) use argsort::{order_of_rows, sorted_pairs};
pub(crate) use binary::index_text;
pub use binary::{binary, unary};
pub(crate) use collect::{one_hot_selection, scatter_add};
pub(crate) use convert::bitcast_array;
pub use convert::{bitcast, convert};
pub use create::{arange, eye, full, linspace, ones, random, random_int, random_normal, zeros};
pub(crate) use gather::{GatherIndex, IndexSelector, gather, scatter};
pub(crate) use geometry::{cross, length, normalize};
pub use math::{ceil_div, math, select};
pub(crate) use matmul::dot_to;
pub use matmul::{dot, matmul};
pub(crate) use operand::{adapt, common_scalar};
pub(crate) use parts::{PartProjection, assign, gather_shards, lanes_of, set_lanes, shape};
pub use parts::{assign_field, compose, field, index, keys, len, named_field, swizzle};
pub(crate) use rearrange::{axis_order, inverse_order, moved_axis, permute};
pub use rearrange::{concat, flip, literal, reshape, stack, transpose};
pub use reduce::{ReduceKind, close, cumsum, reduce};
pub(crate) use reduce::{cumsum_to, reduce_to};
pub use sort::{SortOrder, sort};
pub use text::parse;
