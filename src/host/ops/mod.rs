//! Operations on values: elementwise with NumPy's broadcasting, reductions, rearrangements, creation.
//!
//! The arithmetic is that of `lang::scalar`; this module adds the loops. Operands must have the same element type, but an
//! untyped literal ([`Value::Int`], [`Value::Float`]) takes that of the other operand.

pub(crate) mod binary;
pub(crate) mod convert;
pub(crate) mod create;
pub(crate) mod geometry;
mod grid;
mod map;
pub(crate) mod math;
pub(crate) mod matmul;
pub(crate) mod operand;
pub(crate) mod overflow;
pub(crate) mod parts;
pub(crate) mod rearrange;
pub(crate) mod reduce;
pub mod text;
pub(crate) mod totals;
pub(crate) mod zip;

pub use binary::{binary, unary};
pub(crate) use convert::bitcast_array;
pub use convert::{bitcast, convert};
pub use create::{arange, eye, full, linspace, ones, random, random_int, random_normal, zeros};
pub(crate) use geometry::{cross, length, normalize};
pub use math::{ceil_div, math, select};
pub(crate) use matmul::dot_to;
pub use matmul::{dot, matmul};
pub(crate) use parts::{Column, assign, shape};
pub use parts::{assign_field, compose, field, index, keys, len, named_field, swizzle};
pub use rearrange::{concat, flip, literal, reshape, sort, stack, transpose};
pub use reduce::{Reduce, close, cumsum, reduce};
pub(crate) use reduce::{cumsum_to, reduce_to};
pub use text::parse;

use crate::host::array::broadcast::common_shape;
use crate::host::array::{Array, Item};
use crate::host::problem::Outcome;
use crate::host::value::Value;

/// Applies a function of two scalars of one known type elementwise with broadcasting.
fn elementwise<T: Item, R: Item>(a: &Value, b: &Value, what: &str, f: impl Fn(T, T) -> R + Copy) -> Outcome<Value> {
    let operands = operand::Operands::new(&[a, b], what)?;
    let shapes = [operands.shape(0), operands.shape(1)];
    let mut shape = common_shape(&[("the first argument", shapes[0].as_slice()), ("the second argument", &shapes[1])])?;
    let rows = zip::Rows::new(&shape, &shapes[0], &shapes[1]);
    if operands.lanes > 1 {
        shape.pop();
    }
    let (a, b) = (operands.items::<T>(0)?, operands.items::<T>(1)?);
    let element = operands.element(R::SCALAR);
    let result = Array::build(element, &shape, |result: &mut [R]| rows.map(a, b, result, f))?;
    operands.value(result)
}
