//! Operations that have derivatives, and how they are computed on plain values.

use std::any::Any;
use std::sync::Arc;

use super::form::Form;
use super::kernel::Launch;
use crate::host::array::{Array, SliceSpec};
use crate::host::graph::{self, Along};
use crate::host::ops::{self, Pick, Reduce, operand};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::derivative::is_step;
use crate::lang::ops::{BinaryOp, Family, MathFn, UnaryOp};
use crate::lang::scalar::Scalar;

/// An operation on values.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Math(MathFn),
    /// Of a condition, which is never traced, and two values.
    Select,
    Convert(Scalar),
    Reduce(Reduce, Option<Vec<i64>>),
    Cumsum(Option<i64>),
    Reshape(Vec<usize>),
    Transpose,
    /// Exchanges the last two axes.
    Swap,
    Flip(i64),
    Concat(i64),
    Stack,
    /// An array of the operands: one more axis.
    Literal,
    /// An array of this shape that repeats a value.
    Full(Vec<i64>),
    Swizzle(Vec<u8>),
    Compose(Scalar, u8),
    /// An element or a part of an array.
    Index(Vec<SliceSpec>),
    Gather(Vec<Pick>),
    /// The first operand with the second in place of a part.
    Write(Vec<SliceSpec>),
    Scatter(Vec<Pick>),
    /// The first operand, a vector or an array of vectors, with the second in place of components.
    SetLanes(Vec<u8>),
    /// Zeros of this shape, to which the operand's elements are added at positions: the transpose of a gather.
    Collect(Vec<Pick>, Vec<usize>),
    /// A launch of a kernel, whose results are the nodes behind its own.
    Launch(Launch),
    /// A call whose results are the nodes behind its own, and which the interpreter goes back over.
    Stated(Ruled),
    /// The transpose of an index: zeros of this shape with the operand in place of a part.
    Place(Vec<SliceSpec>, Vec<usize>),
}

/// A call of a function whose derivative a rule states.
#[derive(Clone)]
pub(crate) struct Ruled {
    /// What the interpreter needs to apply the rule.
    pub call: Arc<dyn Any + Send + Sync>,
    /// How many floats, vectors and arrays are its results: the nodes behind its own.
    pub results: usize,
}

impl std::fmt::Debug for Ruled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("call with a stated derivative")
    }
}

impl Deed {
    /// Whether the result has no derivative because it says which, or whether, but not how much.
    pub fn is_discrete(&self) -> bool {
        match self {
            Deed::Binary(op) => op.is_comparison(),
            Deed::Unary(op) => *op == UnaryOp::Not,
            Deed::Math(function) => function.row().family == Family::Tests || is_step(*function),
            Deed::Reduce(how, _) => {
                matches!(how, Reduce::Argmin | Reduce::Argmax | Reduce::All | Reduce::Any)
            }
            _ => false,
        }
    }

    /// Whether the derivative needs the operands, and the result. Others need their forms alone.
    pub fn needs(&self) -> (bool, bool) {
        match self {
            Deed::Unary(_)
            | Deed::Binary(BinaryOp::Add | BinaryOp::Sub)
            | Deed::Convert(_)
            | Deed::Reduce(Reduce::Sum | Reduce::Mean, _)
            | Deed::Cumsum(_)
            | Deed::Reshape(_)
            | Deed::Transpose
            | Deed::Swap
            | Deed::Flip(_)
            | Deed::Concat(_)
            | Deed::Stack
            | Deed::Literal
            | Deed::Full(_)
            | Deed::Swizzle(_)
            | Deed::Compose(..)
            | Deed::Index(_)
            | Deed::Gather(_)
            | Deed::Write(_)
            | Deed::Scatter(_)
            | Deed::SetLanes(_)
            | Deed::Collect(..)
            | Deed::Place(..) => (false, false),
            Deed::Binary(BinaryOp::Mul | BinaryOp::MatMul) | Deed::Select => (true, false),
            Deed::Math(MathFn::Exp | MathFn::Exp2 | MathFn::Exp10 | MathFn::Tanh | MathFn::Sqrt) => (false, true),
            Deed::Math(MathFn::Expm1) => (true, false),
            _ => (true, true),
        }
    }

    /// Whether it is linear in each operand, by a factor that the others are.
    pub fn is_product(&self) -> bool {
        matches!(self, Deed::Binary(BinaryOp::Mul | BinaryOp::MatMul))
    }

    /// Computes it on plain values.
    pub fn plain(&self, args: &[Value]) -> Outcome<Value> {
        match (self, args) {
            (Deed::Unary(op), [x]) => ops::unary(*op, x),
            (Deed::Binary(op), [x, y]) => ops::binary(*op, x, y),
            (Deed::Math(function), args) => ops::math(*function, args),
            (Deed::Select, [cond, then, other]) => ops::select(cond, then, other),
            (Deed::Convert(to), [x]) => ops::convert(*to, x),
            (Deed::Reduce(how, axes), [x]) => ops::reduce_to(*how, x, axes.as_deref(), None),
            (Deed::Cumsum(axis), [x]) => ops::cumsum_to(x, *axis, None),
            (Deed::Reshape(shape), [x]) => {
                let dims: Vec<i64> = shape.iter().map(|&extent| extent as i64).collect();
                ops::reshape(x, &dims)
            }
            (Deed::Transpose, [x]) => ops::transpose(x),
            (Deed::Swap, [x]) => swap(x),
            (Deed::Flip(axis), [x]) => ops::flip(x, *axis),
            (Deed::Concat(axis), parts) => ops::concat(parts, *axis),
            (Deed::Stack, parts) => ops::stack(parts),
            (Deed::Literal, parts) => ops::literal(parts, None),
            (Deed::Full(dims), [x]) => ops::full(dims, x),
            (Deed::Swizzle(lanes), [x]) => ops::swizzle(x, lanes),
            (Deed::Compose(ty, lanes), parts) => ops::compose(*ty, *lanes, parts),
            (Deed::Index(specs), [x]) => ops::index(x, specs),
            (Deed::Gather(picks), [x]) => ops::gather(x, picks),
            (Deed::Write(specs), [x, value]) => written(x, |array| ops::assign(array, specs, value)),
            (Deed::Scatter(picks), [x, value]) => written(x, |array| ops::scatter(array, picks, value)),
            (Deed::SetLanes(lanes), [x, value]) => {
                let mut x = x.clone();
                ops::set_lanes(&mut x, lanes, value)?;
                Ok(x)
            }
            (Deed::Collect(picks, shape), [x]) => ops::collect(x, picks, shape),
            (Deed::Place(specs, shape), [x]) => place(x, specs, shape),
            _ => Err(Problem::new("E0999", "internal error: an operation with a wrong number of operands")),
        }
    }
}

fn written(x: &Value, write: impl FnOnce(&mut Array) -> Outcome<()>) -> Outcome<Value> {
    let mut array = operand::array(x, "an assignment to a part")?.clone();
    write(&mut array)?;
    Ok(Value::Array(array))
}

/// Returns an array of zeros of this shape, with elements as those of a value.
fn zeros(like: &Value, shape: &[usize]) -> Outcome<Array> {
    let form = Form::of(like).map(|form| Form { shape: Some(shape.to_vec()), ..form });
    match form.map(|form| form.zeros()).transpose()? {
        Some(Value::Array(array)) => Ok(array),
        _ => Err(operand::undefined("a derivative", &[like])),
    }
}

fn place(x: &Value, specs: &[SliceSpec], shape: &[usize]) -> Outcome<Value> {
    let mut array = zeros(x, shape)?;
    ops::assign(&mut array, specs, x)?;
    Ok(Value::Array(array))
}

/// Exchanges the last two axes.
fn swap(x: &Value) -> Outcome<Value> {
    let array = operand::array(x, "a product of matrices")?;
    let rank = array.rank();
    if rank < 2 {
        return Ok(x.clone());
    }
    let mut shape = array.shape().to_vec();
    shape.swap(rank - 1, rank - 2);
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank - 1, rank - 2);
    graph::view(array, axes.into_iter().map(Along::all).collect(), &shape).map(Value::Array)
}
