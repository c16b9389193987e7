//! Operations on arrays, element by element, and their operands.

use std::sync::atomic::AtomicBool;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::base::source::Span;
use crate::host::array::{Array, Work};
use crate::host::graph::site::Site;
use crate::ir::def::BinOp;
use crate::ir::def::Ty;
use crate::ir::typing;
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::dynamic::{self, Failure};
use crate::lang::scalar::{Scalar, Value};

/// The most operations of one kernel, and the most arrays and scalars that it reads.
pub(crate) const MOST: usize = 64;
pub(crate) const MOST_INPUTS: usize = 32;

/// The most bytes of arrays that are kept in memory for views of small parts of them.
pub(crate) const MOST_PINNED: usize = 1 << 28;

/// An operation on scalars, applied to arrays element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Math(MathFn),
    /// To the scalar type of the result.
    Convert(Scalar),
    /// The second operand where the first holds, else the third.
    Select,
}

impl Op {
    /// Returns bytes that are those of no other operation.
    pub fn key(self) -> [u8; 2] {
        match self {
            Op::Unary(op) => [0, op as u8],
            Op::Binary(op) => [1, op as u8],
            Op::Math(function) => [2, function as u8],
            Op::Convert(to) => [3, to as u8],
            Op::Select => [4, 0],
        }
    }

    /// Returns the type of the result; `None` if the operation does not take operands of these types.
    pub fn result(self, operands: &[Scalar]) -> Option<Scalar> {
        let types: Vec<Ty> = operands.iter().map(|&scalar| Ty::Scalar(scalar)).collect();
        let found = match (self, types.as_slice()) {
            (Op::Convert(to), [_]) => return Some(to),
            (Op::Unary(op), [x]) => typing::unary(op, *x),
            (Op::Binary(BinaryOp::And | BinaryOp::Or), [x, _]) if x.scalar() != Scalar::Bool => return None,
            (Op::Binary(op), [x, y]) => typing::binary(BinOp::strict(op)?, *x, *y),
            (Op::Math(function), types) => typing::math(function, types),
            (Op::Select, [cond, then, other]) => typing::select(*cond, *then, *other),
            _ => return None,
        };
        found.ok().map(Ty::scalar)
    }

    /// Applies the operation to scalars of types that it takes.
    pub fn apply(self, operands: &[Value]) -> Result<Value, Failure> {
        match (self, operands) {
            (Op::Convert(to), [x]) => Ok(x.to_type(to)),
            (Op::Unary(op), [x]) => dynamic::unary(op, *x),
            (Op::Binary(op), [x, y]) => dynamic::binary(op, *x, *y),
            (Op::Math(function), values) => dynamic::math(function, values),
            (Op::Select, [cond, then, other]) => Ok(if cond.is_true() { *then } else { *other }),
            _ => Err(Failure::Undefined),
        }
    }

    /// Returns whether elements of an operand can make the operation fault: divisors.
    pub fn may_fault(self, operands: &[Operand]) -> bool {
        let divides = matches!(self, Op::Binary(BinaryOp::Div | BinaryOp::Rem));
        divides && matches!(operands, [_, Operand::Array(divisor, _)] if divisor.scalar().is_some_and(Scalar::is_int))
    }
}

/// An operand of an operation.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Scalar(Value),
    /// An array and its shape. If any operand of the operation is an array of vectors, the components are a last axis of all.
    Array(Array, Vec<usize>),
}

impl Operand {
    pub fn shape(&self) -> &[usize] {
        match self {
            Operand::Scalar(_) => &[],
            Operand::Array(_, shape) => shape,
        }
    }

    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            Operand::Scalar(value) => Some(value.ty),
            Operand::Array(array, _) => array.scalar(),
        }
    }
}

/// A deferred operation.
pub(crate) struct Node {
    pub op: Op,
    /// Locked, as one of them may be taken for the result.
    pub operands: RwLock<Vec<Operand>>,
    /// The scalar type of the result.
    pub scalar: Scalar,
    /// The shape of the result, with the components of vectors as a last axis.
    pub shape: Vec<usize>,
    /// Operations and inputs of the graph below; those that are reached in several ways count several times.
    pub size: usize,
    pub inputs: usize,
    /// Bytes of arrays of which only small parts are read, as far as they have not been computed.
    pub pinned: usize,
    pub site: Site,
    /// Whether there are deferred reductions below.
    pub folds: bool,
    /// Whether a kernel has computed it for its own use.
    pub seen: AtomicBool,
    /// Where it was entered, if launches are counted.
    pub span: Span,
}

impl Node {
    pub fn operands(&self) -> RwLockReadGuard<'_, Vec<Operand>> {
        self.operands.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn operands_mut(&self) -> RwLockWriteGuard<'_, Vec<Operand>> {
        self.operands.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is deferred below an array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Below {
    /// Operations, inputs and bytes, as of a node.
    pub size: usize,
    pub inputs: usize,
    pub pinned: usize,
    pub folds: bool,
}

impl Below {
    /// An array that has been computed.
    pub const STORED: Below = Below { size: 0, inputs: 1, pinned: 0, folds: false };

    /// Returns what is below a node or a reduction.
    pub fn of(work: &dyn Work) -> Option<Below> {
        let node = |node: &Node| {
            let Node { size, inputs, pinned, folds, .. } = *node;
            Below { size, inputs, pinned, folds }
        };
        let folded = |folded: &Folded| {
            let Folded { size, inputs, pinned, .. } = *folded;
            Below { size, inputs, pinned, folds: true }
        };
        node_of(work).map(node).or_else(|| folded_of(work).map(folded))
    }
}

/// How elements are combined.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Fold {
    pub combine: Op,
    /// The type in which they are combined.
    pub wide: Scalar,
    /// Divides the result by this.
    pub divisor: Option<f64>,
    pub result: Scalar,
}

/// An array as a reduction sees it: `outer` blocks of `len` rows of `inner` scalars.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub outer: usize,
    pub len: usize,
    pub inner: usize,
}

impl Rows {
    /// Returns the rows along an axis.
    pub fn along(shape: &[usize], axis: usize) -> Rows {
        let product = |part: Option<&[usize]>| part.unwrap_or(&[]).iter().product();
        let len = shape.get(axis).copied().unwrap_or(1);
        Rows { outer: product(shape.get(..axis)), len, inner: product(shape.get(axis + 1..)) }
    }
}

/// A deferred reduction of an array along its last axes, those of its rows.
pub(crate) struct Folded {
    pub fold: Fold,
    pub array: Array,
    /// The shape of the array.
    pub shape: Vec<usize>,
    /// The number of rows, and of elements of each.
    pub rows: usize,
    pub len: usize,
    /// As of a node.
    pub size: usize,
    pub inputs: usize,
    pub pinned: usize,
    pub site: Site,
    pub seen: AtomicBool,
    pub span: Span,
}

/// Returns the reduction that deferred work is.
pub(crate) fn folded_of(work: &dyn Work) -> Option<&Folded> {
    work.as_any().downcast_ref()
}

/// Returns the node that deferred work is.
pub(crate) fn node_of(work: &dyn Work) -> Option<&Node> {
    work.as_any().downcast_ref()
}

/// Returns the extents without those of 1.
pub(crate) fn essential(shape: &[usize]) -> impl Iterator<Item = usize> + '_ {
    shape.iter().copied().filter(|&len| len != 1)
}
