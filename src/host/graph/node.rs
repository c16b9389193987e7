//! The graph of deferred operations: elementwise operations, reductions, and their operands.

use std::sync::atomic::AtomicBool;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::array::{Array, DeferredWork};
use crate::graph::context::ExecContext;
use clk_ir::def::BinOp;
use clk_ir::def::Ty;
use clk_ir::typing;
use clk_scalar::dynamic::{self, ScalarError};
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};
use clk_scalar::{Scalar, ScalarValue};

/// Maximum number of operations in one kernel.
pub(crate) const MAX_OPS: usize = 64;
/// Maximum number of arrays and scalars that one kernel reads.
pub(crate) const MAX_INPUTS: usize = 32;

/// Maximum total size of arrays that are kept in memory only because deferred views read small parts of them.
pub(crate) const MAX_PINNED_BYTES: usize = 1 << 28;

/// An operation on scalars, applied to arrays element by element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ElementwiseOp {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Math(MathFn),
    /// Converts to the scalar type of the result.
    Convert(Scalar),
    /// Selects the second operand if the first one is true, otherwise the third.
    Select,
}

impl ElementwiseOp {
    /// Returns bytes that identify the operation in the cache key of a kernel.
    pub fn key(self) -> [u8; 2] {
        match self {
            ElementwiseOp::Unary(op) => [0, op as u8],
            ElementwiseOp::Binary(op) => [1, op as u8],
            ElementwiseOp::Math(function) => [2, function as u8],
            ElementwiseOp::Convert(to) => [3, to as u8],
            ElementwiseOp::Select => [4, 0],
        }
    }

    /// Returns the scalar type of the result; `None` if the operation does not accept operands of these types.
    pub fn result_type(self, operands: &[Scalar]) -> Option<Scalar> {
        let types: Vec<Ty> = operands.iter().map(|&scalar| Ty::Scalar(scalar)).collect();
        let ty = match (self, types.as_slice()) {
            (ElementwiseOp::Convert(to), [_]) => return Some(to),
            (ElementwiseOp::Unary(op), [x]) => typing::unary(op, *x),
            (ElementwiseOp::Binary(BinaryOp::And | BinaryOp::Or), [x, _]) if x.scalar() != Scalar::Bool => return None,
            (ElementwiseOp::Binary(op), [x, y]) => typing::binary(BinOp::strict(op)?, *x, *y),
            (ElementwiseOp::Math(function), types) => typing::math(function, types),
            (ElementwiseOp::Select, [cond, then, other]) => typing::select(*cond, *then, *other),
            _ => return None,
        };
        ty.ok().map(Ty::scalar)
    }

    /// Applies the operation to scalars, whose types it must accept.
    pub fn apply(self, operands: &[ScalarValue]) -> Result<ScalarValue, ScalarError> {
        match (self, operands) {
            (ElementwiseOp::Convert(to), [x]) => Ok(x.to_type(to)),
            (ElementwiseOp::Unary(op), [x]) => dynamic::unary(op, *x),
            (ElementwiseOp::Binary(op), [x, y]) => dynamic::binary(op, *x, *y),
            (ElementwiseOp::Math(function), values) => dynamic::math(function, values),
            (ElementwiseOp::Select, [cond, then, other]) => Ok(if cond.is_true() { *then } else { *other }),
            _ => Err(ScalarError::Undefined),
        }
    }

    /// Returns whether the operation faults for some operand values: integer division by a divisor that may be zero.
    pub fn may_fault(self, operands: &[NodeOperand]) -> bool {
        let divides = matches!(self, ElementwiseOp::Binary(BinaryOp::Div | BinaryOp::Rem));
        divides
            && matches!(operands, [_, NodeOperand::Array(divisor, _)] if divisor.scalar().is_some_and(Scalar::is_int))
    }
}

/// An operand of an operation.
#[derive(Clone, Debug)]
pub(crate) enum NodeOperand {
    Scalar(ScalarValue),
    /// An array and its shape. If the operation is on vectors, the last axis of each operand's shape is the components.
    Array(Array, Vec<usize>),
}

impl NodeOperand {
    pub fn shape(&self) -> &[usize] {
        match self {
            NodeOperand::Scalar(_) => &[],
            NodeOperand::Array(_, shape) => shape,
        }
    }

    pub fn scalar(&self) -> Option<Scalar> {
        match self {
            NodeOperand::Scalar(value) => Some(value.ty),
            NodeOperand::Array(array, _) => array.scalar(),
        }
    }
}

/// A deferred operation.
pub(crate) struct DeferredNode {
    pub op: ElementwiseOp,
    /// The operands. They are in a lock because donating an operand replaces it.
    pub operands: RwLock<Vec<NodeOperand>>,
    /// The scalar type of the result.
    pub scalar: Scalar,
    /// The shape of the result. For vectors, the last axis is the components.
    pub shape: Vec<usize>,
    /// Number of operations in the graph of this node and all deferred operands. Shared nodes count once for each path.
    pub op_count: usize,
    pub input_count: usize,
    /// Size in bytes of the arrays that are kept alive although only small parts of them are read.
    pub pinned_bytes: usize,
    pub context: ExecContext,
    /// Whether the graph of this node contains deferred reductions.
    pub has_reductions: bool,
    /// Whether another kernel has already computed the node inline, so that computing it inline again would repeat
    /// work.
    pub was_inlined: AtomicBool,
}

impl DeferredNode {
    pub fn operands(&self) -> RwLockReadGuard<'_, Vec<NodeOperand>> {
        self.operands.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn operands_mut(&self) -> RwLockWriteGuard<'_, Vec<NodeOperand>> {
        self.operands.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The size of the graph of deferred operations from which an array is computed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GraphSize {
    /// The fields have the same meaning as in [`DeferredNode`].
    pub op_count: usize,
    pub input_count: usize,
    pub pinned_bytes: usize,
    pub has_reductions: bool,
}

impl GraphSize {
    /// The size of an array that has been computed.
    pub const COMPUTED: GraphSize = GraphSize { op_count: 0, input_count: 1, pinned_bytes: 0, has_reductions: false };

    /// Returns the size of the graph of a deferred node or reduction; `None` for other deferred work.
    pub fn for_work(work: &dyn DeferredWork) -> Option<GraphSize> {
        let node = |node: &DeferredNode| {
            let DeferredNode {
                op_count: size, input_count: inputs, pinned_bytes: pinned, has_reductions: folds, ..
            } = *node;
            GraphSize { op_count: size, input_count: inputs, pinned_bytes: pinned, has_reductions: folds }
        };
        let folded = |folded: &ReductionNode| {
            let ReductionNode { op_count: size, input_count: inputs, pinned_bytes: pinned, .. } = *folded;
            GraphSize { op_count: size, input_count: inputs, pinned_bytes: pinned, has_reductions: true }
        };
        as_node(work).map(node).or_else(|| as_reduction(work).map(folded))
    }
}

/// The operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ReductionOp {
    pub combine: ElementwiseOp,
    /// The type in which elements are accumulated.
    pub accumulator: Scalar,
    /// The number by which the result is divided, for means.
    pub divisor: Option<f64>,
    pub result: Scalar,
}

/// The shape of an array for a reduction along one axis: `outer` is the product of the extents before the axis, `len`
/// the extent of the axis, and `inner` the product of the extents after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReductionShape {
    pub outer: usize,
    pub len: usize,
    pub inner: usize,
}

impl ReductionShape {
    /// Returns the shape for the reduction of an axis.
    pub fn for_axis(shape: &[usize], axis: usize) -> ReductionShape {
        let product = |part: Option<&[usize]>| part.unwrap_or(&[]).iter().product();
        let len = shape.get(axis).copied().unwrap_or(1);
        ReductionShape { outer: product(shape.get(..axis)), len, inner: product(shape.get(axis + 1..)) }
    }
}

/// A deferred reduction of an array along its last axes. The elements along these axes are called a row.
pub(crate) struct ReductionNode {
    pub op: ReductionOp,
    pub array: Array,
    /// The shape of the array.
    pub shape: Vec<usize>,
    /// Number of rows.
    pub rows: usize,
    /// Number of elements in each row.
    pub len: usize,
    /// Number of operations in the graph, as in [`DeferredNode`].
    pub op_count: usize,
    pub input_count: usize,
    pub pinned_bytes: usize,
    pub context: ExecContext,
    pub was_inlined: AtomicBool,
}

/// Returns the deferred work as a reduction, if it is one.
pub(crate) fn as_reduction(work: &dyn DeferredWork) -> Option<&ReductionNode> {
    work.as_any().downcast_ref()
}

/// Returns the deferred work as an elementwise node, if it is one.
pub(crate) fn as_node(work: &dyn DeferredWork) -> Option<&DeferredNode> {
    work.as_any().downcast_ref()
}

/// Returns the extents of a shape that are not 1.
pub(crate) fn non_unit_extents(shape: &[usize]) -> impl Iterator<Item = usize> + '_ {
    shape.iter().copied().filter(|&len| len != 1)
}
