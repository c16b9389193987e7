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
    /// All, or from an index on.
    From(Option<ExprId>),
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
