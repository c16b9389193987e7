//! The operations that can be recorded on a tape, and their evaluation on untraced values.

use std::any::Any;
use std::sync::Arc;

use super::kernel::GradLaunch;
use super::value_shape::ValueShape;
use crate::array::{Array, SliceSpec};
use crate::graph::ExecContext;
use crate::ops::{self, GatherIndex, ReduceKind, operand};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_scalar::Scalar;
use clk_scalar::derivative::is_step;
use clk_scalar::ops::{BinaryOp, MathFamily, MathFn, UnaryOp};

/// An operation of the automatic differentiation.
#[derive(Clone, Debug)]
pub(crate) enum TapeOp {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Math(MathFn),
    /// Elementwise selection. The operands are a condition, which is never traced, and two values.
    Select,
    Convert(Scalar),
    Reduce(ReduceKind, Option<Vec<i64>>),
    Cumsum(Option<i64>),
    Reshape(Vec<usize>),
    /// Puts the axes in another order: axis `k` of the result is this axis of the operand.
    Permute(Vec<usize>),
    Flip(i64),
    Concat(i64),
    Stack,
    /// Creates an array from the operands, with an additional first axis.
    Literal,
    /// Creates an array of this shape, filled with the operand.
    Full(Vec<i64>),
    Swizzle(Vec<u8>),
    Compose(Scalar, u8),
    /// Returns an element or a slice of an array.
    Index(Vec<SliceSpec>),
    Gather(Vec<GatherIndex>),
    /// Returns the first operand, an array, with a slice replaced by the second operand.
    Write(Vec<SliceSpec>),
    Scatter(Vec<GatherIndex>),
    /// Returns the first operand, a vector or an array of vectors, with some components replaced by the second operand.
    SetLanes(Vec<u8>),
    /// The transpose of a gather: creates zeros of this shape, and adds the operand's elements to the elements at these
    /// positions.
    ScatterAdd(Vec<GatherIndex>, Vec<usize>),
    /// A kernel launch. The nodes that follow it on the tape are its results.
    Launch(GradLaunch),
    /// A call with a custom VJP. The nodes that follow it on the tape are its results. The interpreter evaluates the
    /// VJP.
    CustomVjp(CustomVjpCall),
    /// The transpose of indexing: creates zeros of this shape in which a slice is replaced by the operand.
    PadSlice(Vec<SliceSpec>, Vec<usize>),
}

/// A call of a function that has a custom VJP.
#[derive(Clone)]
pub(crate) struct CustomVjpCall {
    /// Opaque data that the interpreter needs to evaluate the VJP.
    pub call: Arc<dyn Any + Send + Sync>,
    /// Number of floats, vectors and arrays in the results. Each has a node after the node of the call.
    pub results: usize,
}

impl std::fmt::Debug for CustomVjpCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("call with a custom derivative")
    }
}

impl TapeOp {
    /// Returns whether the result is discrete (a `bool`, an index, or rounded), so that it has no derivative.
    pub fn is_discrete(&self) -> bool {
        match self {
            TapeOp::Binary(op) => op.is_comparison(),
            TapeOp::Unary(op) => *op == UnaryOp::Not,
            TapeOp::Math(function) => function.row().family == MathFamily::Tests || is_step(*function),
            TapeOp::Reduce(how, _) => {
                matches!(how, ReduceKind::Argmin | ReduceKind::Argmax | ReduceKind::All | ReduceKind::Any)
            }
            _ => false,
        }
    }

    /// Returns whether the derivative needs the values of the operands, and whether it needs the value of the result.
    /// For the other operations, the shapes suffice.
    pub fn needed_values(&self) -> (bool, bool) {
        match self {
            TapeOp::Unary(_)
            | TapeOp::Binary(BinaryOp::Add | BinaryOp::Sub)
            | TapeOp::Convert(_)
            | TapeOp::Reduce(ReduceKind::Sum | ReduceKind::Mean, _)
            | TapeOp::Cumsum(_)
            | TapeOp::Reshape(_)
            | TapeOp::Permute(_)
            | TapeOp::Flip(_)
            | TapeOp::Concat(_)
            | TapeOp::Stack
            | TapeOp::Literal
            | TapeOp::Full(_)
            | TapeOp::Swizzle(_)
            | TapeOp::Compose(..)
            | TapeOp::Index(_)
            | TapeOp::Gather(_)
            | TapeOp::Write(_)
            | TapeOp::Scatter(_)
            | TapeOp::SetLanes(_)
            | TapeOp::ScatterAdd(..)
            | TapeOp::PadSlice(..) => (false, false),
            TapeOp::Binary(BinaryOp::Mul | BinaryOp::MatMul) | TapeOp::Select => (true, false),
            TapeOp::Math(MathFn::Exp | MathFn::Exp2 | MathFn::Exp10 | MathFn::Tanh | MathFn::Sqrt) => (false, true),
            TapeOp::Math(MathFn::Expm1) => (true, false),
            _ => (true, true),
        }
    }

    /// Returns whether the operation is a product: its derivative with respect to one operand depends only on the other
    /// one.
    pub fn is_product(&self) -> bool {
        matches!(self, TapeOp::Binary(BinaryOp::Mul | BinaryOp::MatMul))
    }

    /// Evaluates the operation on untraced values.
    pub fn compute(&self, exec: &ExecContext, args: &[HostValue]) -> HostResult<HostValue> {
        match (self, args) {
            (TapeOp::Unary(op), [x]) => ops::unary(exec, *op, x),
            (TapeOp::Binary(op), [x, y]) => ops::binary(exec, *op, x, y),
            (TapeOp::Math(function), args) => ops::math(exec, *function, args),
            (TapeOp::Select, [cond, then, other]) => ops::select(exec, cond, then, other),
            (TapeOp::Convert(to), [x]) => ops::convert(exec, *to, x),
            (TapeOp::Reduce(how, axes), [x]) => ops::reduce_to(exec, *how, x, axes.as_deref(), None),
            (TapeOp::Cumsum(axis), [x]) => ops::cumsum_to(exec, x, *axis, None),
            (TapeOp::Reshape(shape), [x]) => {
                let dims: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
                ops::reshape(x, &dims)
            }
            (TapeOp::Permute(order), [x]) => ops::permute(exec, x, order),
            (TapeOp::Flip(axis), [x]) => ops::flip(exec, x, *axis),
            (TapeOp::Concat(axis), parts) => ops::concat(exec, parts, *axis),
            (TapeOp::Stack, parts) => ops::stack(exec, parts, 0),
            (TapeOp::Literal, parts) => ops::literal(exec, parts, None),
            (TapeOp::Full(dims), [x]) => ops::full(dims, x),
            (TapeOp::Swizzle(lanes), [x]) => ops::swizzle(exec, x, lanes),
            (TapeOp::Compose(ty, lanes), parts) => ops::compose(*ty, *lanes, parts),
            (TapeOp::Index(specs), [x]) => ops::index(exec, x, specs),
            (TapeOp::Gather(picks), [x]) => ops::gather(exec, x, picks),
            (TapeOp::Write(specs), [x, value]) => write_copy(x, |array| ops::assign(exec, array, specs, value)),
            (TapeOp::Scatter(picks), [x, value]) => write_copy(x, |array| ops::scatter(exec, array, picks, value)),
            (TapeOp::SetLanes(lanes), [x, value]) => {
                let mut x = x.clone();
                ops::set_lanes(exec, &mut x, lanes, value)?;
                Ok(x)
            }
            (TapeOp::ScatterAdd(picks, shape), [x]) => ops::scatter_add(exec, x, picks, shape),
            (TapeOp::PadSlice(specs, shape), [x]) => pad_slice(exec, x, specs, shape),
            _ => Err(RuntimeError::new("E0999", "internal error: an operation with a wrong number of operands")),
        }
    }
}

fn write_copy(x: &HostValue, write: impl FnOnce(&mut Array) -> HostResult<()>) -> HostResult<HostValue> {
    let mut array = operand::array(x, "an assignment to a part")?.clone();
    write(&mut array)?;
    Ok(HostValue::Array(array))
}

/// Returns an array of zeros of this shape, with the element type of a value.
fn zeros_with_shape(like: &HostValue, shape: &[usize]) -> HostResult<Array> {
    let form = ValueShape::for_value(like).map(|form| ValueShape { shape: Some(shape.to_vec()), ..form });
    match form.map(|form| form.zeros()).transpose()? {
        Some(HostValue::Array(array)) => Ok(array),
        _ => Err(operand::undefined("a derivative", &[like])),
    }
}

fn pad_slice(exec: &ExecContext, x: &HostValue, specs: &[SliceSpec], shape: &[usize]) -> HostResult<HostValue> {
    let mut array = zeros_with_shape(x, shape)?;
    ops::assign(exec, &mut array, specs, x)?;
    Ok(HostValue::Array(array))
}
