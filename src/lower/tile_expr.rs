//! Tile expressions: operations on whole arrays, represented by a tree that describes how to compute an element.
//!
//! `clk_lower::tiles` builds the trees from typed expressions. Elements are computed on demand. A tile statement
//! (`tile_stmt`) consists of such trees.

use clk_base::source::Span;
use clk_ir::def::{self, ExprId, MemId, Scalar, Ty};
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, UnaryOp};

/// An array-valued expression, represented by a tree that describes how to compute an element.
#[derive(Clone, Debug)]
pub(crate) struct TileExpr {
    pub shape: Vec<u32>,
    pub scalar: Scalar,
    pub node: TileNode,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum TileNode {
    /// A tile whose elements all have this value.
    Same(ExprId),
    /// A window of an array.
    Part(TileWindow),
    /// An operation on the corresponding elements of the operands, which are broadcast to the same shape.
    Each(TileElementOp, Vec<TileExpr>),
    /// The operand with its axes in reverse order.
    Transposed(Box<TileExpr>),
    /// The elements of the operand in row-major order, with another shape.
    Reshaped(Box<TileExpr>),
    /// A tile with one axis, whose elements are their own indices.
    Count,
}

/// A window of an array: along each axis of the array, one index or a range.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TileWindow {
    pub memory: MemId,
    pub axes: Vec<TileAxisIndex>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum TileAxisIndex {
    At(ExprId),
    /// The indices of a range, which may cover the whole axis.
    From(AxisRange),
}

/// A range of indices along an axis of an array: from `start` (or 0) in steps of `step`. The extent of the tile
/// determines the number of indices. Indices from `end` on are beyond the edge: their elements read as zero and are not
/// stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AxisRange {
    pub start: Option<ExprId>,
    pub step: u32,
    pub end: Option<ExprId>,
}

impl AxisRange {
    pub(super) const ALL: AxisRange = AxisRange { start: None, step: 1, end: None };
}

/// An operation on the elements of operands.
#[derive(Clone, Debug)]
pub(crate) enum TileElementOp {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Convert(Scalar),
    Builtin(Builtin),
    Call(def::FunctionId, Ty),
}

/// The axis of a matrix (rows or columns) to which an axis of a tile corresponds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TileDim {
    Row,
    Column,
    One,
}

impl TileWindow {
    /// Returns whether the window covers the whole array.
    pub(super) fn is_whole(&self) -> bool {
        self.axes.iter().all(|along| *along == TileAxisIndex::From(AxisRange::ALL))
    }
}

impl TileExpr {
    /// `target` is a window of this shape to which the expression is assigned. Returns whether computing an element
    /// reads elements of the memory of `target` other than the one that is written.
    pub(super) fn reads_elsewhere(&self, target: &TileWindow, shape: &[u32]) -> bool {
        match &self.node {
            TileNode::Same(_) | TileNode::Count => false,
            TileNode::Part(part) => part.memory == target.memory && !(part == target && self.shape == shape),
            TileNode::Transposed(of) | TileNode::Reshaped(of) => of.reads(target.memory),
            TileNode::Each(_, parts) => parts.iter().any(|part| part.reads_elsewhere(target, shape)),
        }
    }

    /// Returns whether an element depends only on elements of other tiles with the same indices, and on per-row values
    /// of the same row. For each axis, `axes` states whether it is the row axis, the column axis, or broadcast.
    pub(super) fn is_in_place(&self, axes: &[TileDim]) -> bool {
        let own = |shape: &[u32]| -> Option<Vec<TileDim>> {
            let axes = &axes[axes.len().checked_sub(shape.len())?..];
            Some(axes.iter().zip(shape).map(|(&axis, &n)| if n == 1 { TileDim::One } else { axis }).collect())
        };
        match &self.node {
            TileNode::Count | TileNode::Part(_) => true,
            TileNode::Same(_) => {
                let mut dims = axes.iter().zip(&self.shape).zip([TileDim::Row, TileDim::Column]);
                let is_same = |((axis, n), dim): ((&TileDim, &u32), TileDim)| *n == 1 || *axis == dim;
                self.shape.is_empty() || axes.len() == self.shape.len() && axes.len() <= 2 && dims.all(is_same)
            }
            TileNode::Transposed(of) => of.is_in_place(&axes.iter().rev().copied().collect::<Vec<_>>()),
            TileNode::Reshaped(of) => {
                let without_ones = |shape: &[u32]| shape.iter().copied().filter(|&n| n > 1).collect::<Vec<u32>>();
                let mut left = axes.iter().zip(&self.shape).filter(|&(_, &n)| n > 1).map(|(&axis, _)| axis);
                let inner = of.shape.iter().map(|&n| if n > 1 { left.next() } else { Some(TileDim::One) });
                let inner: Option<Vec<TileDim>> = inner.collect();
                !of.has_computed_elements()
                    || without_ones(&self.shape) == without_ones(&of.shape)
                        && inner.is_some_and(|axes| of.is_in_place(&axes))
            }
            TileNode::Each(_, parts) => {
                parts.iter().all(|part| own(&part.shape).is_some_and(|axes| part.is_in_place(&axes)))
            }
        }
    }

    /// Returns whether the expression contains elements that have been computed already.
    fn has_computed_elements(&self) -> bool {
        match &self.node {
            TileNode::Same(_) => !self.shape.is_empty(),
            TileNode::Count | TileNode::Part(_) => false,
            TileNode::Transposed(of) | TileNode::Reshaped(of) => of.has_computed_elements(),
            TileNode::Each(_, parts) => parts.iter().any(TileExpr::has_computed_elements),
        }
    }

    fn reads(&self, memory: MemId) -> bool {
        let mut found = false;
        self.each_part(&mut |_, part| found |= part.memory == memory);
        found
    }

    /// Calls `f` with each window that the expression reads, and with that part of the expression.
    pub(super) fn each_part(&self, f: &mut impl FnMut(&TileExpr, &TileWindow)) {
        match &self.node {
            TileNode::Same(_) | TileNode::Count => {}
            TileNode::Part(part) => f(self, part),
            TileNode::Transposed(of) | TileNode::Reshaped(of) => of.each_part(f),
            TileNode::Each(_, parts) => parts.iter().for_each(|part| part.each_part(f)),
        }
    }
}

/// Returns the shape to which two tiles broadcast, with their last axes aligned; `None` if they do not broadcast.
pub(super) fn broadcast(a: &[u32], b: &[u32]) -> Option<Vec<u32>> {
    let rank = a.len().max(b.len());
    let at = |shape: &[u32], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |own| shape[own]);
    (0..rank)
        .map(|axis| match (at(a, axis), at(b, axis)) {
            (x, y) if x == y => Some(x),
            (1, n) | (n, 1) => Some(n),
            _ => None,
        })
        .collect()
}

pub(super) fn shape_text(shape: &[u32]) -> String {
    match shape {
        [] => "one number".into(),
        _ => format!("[{}]", shape.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}
