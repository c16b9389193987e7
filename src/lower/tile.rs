//! What a tile is: an expression of whole arrays, as what it takes to compute one element of it.
//!
//! Built by `lower::tiles` from typed expressions; nothing of it is computed before an element is asked for.

use crate::base::source::Span;
use crate::ir::def::{self, ExprId, MemId, Scalar, Ty};
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, UnaryOp};

/// An array-valued expression, with what it takes to compute one element.
#[derive(Clone, Debug)]
pub(crate) struct Tile {
    pub shape: Vec<u32>,
    pub scalar: Scalar,
    pub node: Node,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// The same for all elements.
    Same(ExprId),
    Part(Part),
    Each(Step, Vec<Tile>),
    /// With the axes in reverse order.
    Transposed(Box<Tile>),
    /// The same elements in the order of memory.
    Reshaped(Box<Tile>),
    /// The index along the only axis.
    Count,
}

/// A part of an array: along each of its axes one index, or indices from a start on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub memory: MemId,
    pub along: Vec<Along>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Along {
    At(ExprId),
    /// All, or those of a window.
    From(Window),
}

/// Indices from a start on, or from 0, as many as the tile has: every one, or every `step`-th, as far as they are below the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    pub start: Option<ExprId>,
    pub step: u32,
    pub end: Option<ExprId>,
}

impl Window {
    pub(super) const ALL: Window = Window { start: None, step: 1, end: None };
}

/// What is computed of the elements of operands.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Convert(Scalar),
    Builtin(Builtin),
    Call(def::FunctionId, Ty),
}

/// What an axis runs along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Row,
    Column,
    One,
}

impl Tile {
    /// Whether it reads the memory of a part of this shape, which is written, at other elements than the one that a thread writes.
    pub(super) fn reads_elsewhere(&self, target: &Part, shape: &[u32]) -> bool {
        match &self.node {
            Node::Same(_) | Node::Count => false,
            Node::Part(part) => part.memory == target.memory && !(part == target && self.shape == shape),
            Node::Transposed(of) | Node::Reshaped(of) => of.reads(target.memory),
            Node::Each(_, parts) => parts.iter().any(|part| part.reads_elsewhere(target, shape)),
        }
    }

    /// Whether an element depends on elements at the same place, and on parts that are no memory of the block.
    pub(super) fn is_of_element(&self) -> bool {
        match &self.node {
            Node::Same(_) | Node::Count | Node::Part(_) => true,
            Node::Transposed(of) | Node::Reshaped(of) => of.is_of_element() && !of.is_held(),
            Node::Each(_, parts) => parts.iter().all(Tile::is_of_element),
        }
    }

    /// Whether the elements of other tiles in it are those at its own place, and the values of rows those of its own row. Axes are the
    /// rows, the columns, or broadcast.
    pub(super) fn is_in_place(&self, axes: &[Place]) -> bool {
        let own = |shape: &[u32]| -> Option<Vec<Place>> {
            let axes = &axes[axes.len().checked_sub(shape.len())?..];
            Some(axes.iter().zip(shape).map(|(&axis, &n)| if n == 1 { Place::One } else { axis }).collect())
        };
        match &self.node {
            Node::Count | Node::Part(_) => true,
            Node::Same(_) => matches!(axes, [] | [Place::Row] | [Place::Row, Place::Column]) || self.shape.is_empty(),
            Node::Transposed(of) => of.is_in_place(&axes.iter().rev().copied().collect::<Vec<_>>()),
            Node::Reshaped(of) => {
                let kept = |shape: &[u32]| shape.iter().copied().filter(|&n| n > 1).collect::<Vec<u32>>();
                let mut left = axes.iter().zip(&self.shape).filter(|&(_, &n)| n > 1).map(|(&axis, _)| axis);
                let inner = of.shape.iter().map(|&n| if n > 1 { left.next() } else { Some(Place::One) });
                let inner: Option<Vec<Place>> = inner.collect();
                !of.is_held() || kept(&self.shape) == kept(&of.shape) && inner.is_some_and(|axes| of.is_in_place(&axes))
            }
            Node::Each(_, parts) => {
                parts.iter().all(|part| own(&part.shape).is_some_and(|axes| part.is_in_place(&axes)))
            }
        }
    }

    /// Whether it is, or has in it, an element that was computed before.
    fn is_held(&self) -> bool {
        match &self.node {
            Node::Same(_) => !self.shape.is_empty(),
            Node::Count | Node::Part(_) => false,
            Node::Transposed(of) | Node::Reshaped(of) => of.is_held(),
            Node::Each(_, parts) => parts.iter().any(Tile::is_held),
        }
    }

    fn reads(&self, memory: MemId) -> bool {
        match &self.node {
            Node::Same(_) | Node::Count => false,
            Node::Part(part) => part.memory == memory,
            Node::Transposed(of) | Node::Reshaped(of) => of.reads(memory),
            Node::Each(_, parts) => parts.iter().any(|part| part.reads(memory)),
        }
    }
}

/// Returns the shape of two together, by the last axes.
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
