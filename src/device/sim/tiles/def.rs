//! The definitions of products of tiles and of copies to them.

use crate::device::sim::isa::Isa;
use crate::device::sim::product::Held;
use crate::device::sim::reg::Reg;

/// A product of tiles in shared memory, by the numbers of the memories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProductDef {
    pub sum: u32,
    pub left: u32,
    pub right: u32,
    pub held: Held,
    pub isa: Isa,
}

/// A copy of a part of an array to a tile in shared memory, by the numbers of the memories.
#[derive(Clone, Debug)]
pub(crate) struct CopyDef {
    pub to: u32,
    pub from: u32,
    /// One for each axis.
    pub along: Vec<TakenDef>,
    /// The bytes of an element.
    pub size: usize,
    /// The extents of the tile, if that is the transposition of what is taken.
    pub transposed: Option<[usize; 2]>,
    /// Elements are `f32`, and rounded by `tf32`.
    pub rounded: bool,
}

/// What is taken along an axis, by uniform registers of `i32`s.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TakenDef {
    At(Reg),
    /// Without an `end`, all that are inside.
    From {
        start: Reg,
        count: usize,
        step: i64,
        end: Reg,
    },
}

impl CopyDef {
    /// Returns how many elements there are.
    pub fn count(&self) -> usize {
        let of = |taken: &TakenDef| if let TakenDef::From { count, .. } = taken { *count } else { 1 };
        self.along.iter().map(of).product()
    }
}
