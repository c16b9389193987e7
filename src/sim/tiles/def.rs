//! The tables of tile products and tile copies.

use crate::product::TileGemm;
use crate::register_ids::Reg;
use clk_runtime::Isa;

/// A product of tiles in shared memory. A tile is given by its index in the table of memories.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProductDef {
    pub sum: u32,
    pub left: u32,
    pub right: u32,
    pub gemm: TileGemm,
    pub isa: Isa,
}

/// A copy of a window of an array to a tile in shared memory. Array and tile are given by their indices in the table of
/// memories.
#[derive(Clone, Debug)]
pub(crate) struct CopyDef {
    pub to: u32,
    pub from: u32,
    /// The window along each axis of the array.
    pub windows: Vec<WindowDef>,
    /// Size of an element in bytes.
    pub size: usize,
    /// The extents of the tile, if it is the transpose of the window.
    pub transposed: Option<[usize; 2]>,
    /// Set if the elements are `f32` and the copy rounds them to TF32.
    pub rounds_to_tf32: bool,
}

/// A window along an axis. Its start and end are in uniform `i32` registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WindowDef {
    At(Reg),
    /// If `end` is `NONE`, the window ends at the array's edge.
    Range {
        start: Reg,
        count: usize,
        step: i64,
        end: Reg,
    },
}

impl CopyDef {
    /// Returns the number of elements that the copy writes.
    pub fn count(&self) -> usize {
        let length = |window: &WindowDef| if let WindowDef::Range { count, .. } = window { *count } else { 1 };
        self.windows.iter().map(length).product()
    }
}
