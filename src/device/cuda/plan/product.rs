//! Launches of kernels that are products of matrices or programs of tiles: which of them tensor cores compute, and how they read the factors.

use std::sync::Arc;

use super::{End, Facts, Room, assumes_values};
use crate::device::Extents;
use crate::device::cuda::context::{Context, Instructions};
use crate::device::cuda::kernel::Kernel;
use crate::device::cuda::text::abi::{BOX_ALIGN, Copies, Geometry, LaunchFacts, NARROW, Options};
use crate::device::cuda::text::{
    TENSOR_ARCHITECTURE, is_narrow, is_rounded, most_product_tiles, product_extents, product_shared,
};
use crate::device::cuda::variant::Variant;
use crate::ir::def::{Factor, KernelParam, Product, TileFactor, TileStep, Tiles};

/// Numbers of tiles stay below this, so that 32 bits hold them and those that a block does not come to.
const MOST_TILES: u64 = 1 << 30;

impl Kernel {
    /// Starts to compile the text for tensor cores that most launches need, if there is one.
    pub fn expect_product(&self) -> bool {
        let compiles = |way| self.product_variant(&Options { product: Some(way), ..self.options() }).is_some();
        let definition = self.definition();
        let ways = match (&definition.product, &definition.tiles) {
            (Some(product), _) => self.ways(product, [BOX_ALIGN; 2]),
            (None, Some(tiles)) => self.ways_of_tiles(tiles, true),
            (None, None) => vec![],
        };
        ways.into_iter().any(compiles)
    }

    /// Returns how texts of a product for the tensor cores of this GPU may read factors, the best way first, given rows of so many bytes.
    fn ways(&self, product: &Product, rows: [u64; 2]) -> Vec<Copies> {
        if !self.context.has_cores(product.cores) {
            return vec![];
        }
        let rounded = is_rounded(&self.prepared, product.a);
        let in_boxes = rows.map(|bytes| bytes.is_multiple_of(BOX_ALIGN));
        let pieces = Copies::Pieces { packed: in_boxes.map(|whole| rounded || !whole) };
        let mut ways = match (self.is_of_sm90a(), in_boxes) {
            (true, [true, true]) => vec![Copies::Boxes, pieces],
            // Packing takes less time than copies by elements do.
            (true, _) => vec![pieces, Copies::Elements],
            (false, _) => vec![pieces],
        };
        ways.retain(|&way| product_shared(way) <= self.context.properties.shared_per_block);
        ways
    }

    /// As `ways`, of a program of tiles, whose factors all have rows of whole boxes or not.
    fn ways_of_tiles(&self, tiles: &Tiles, in_boxes: bool) -> Vec<Copies> {
        if !self.context.has_cores(tiles.cores) {
            return vec![];
        }
        let pieces = Copies::Pieces { packed: [false; 2] };
        if self.is_of_sm90a() && in_boxes { vec![Copies::Boxes, pieces] } else { vec![pieces] }
    }

    /// Whether texts may have the instructions of sm_90a.
    fn is_of_sm90a(&self) -> bool {
        let Context { properties, settings, .. } = &*self.context;
        properties.architecture == TENSOR_ARCHITECTURE && settings.tensor == Instructions::Best
    }

    /// Returns the variant that computes this launch on tensor cores, if there can be one; and whether that depends on the values of
    /// parameters.
    pub(super) fn on_tensor_cores(&self, facts: &Facts<'_, '_>, room: Room) -> (Option<Arc<Variant>>, bool) {
        let Some((ways, extents)) = self.computable(facts).or_else(|| self.held_in_registers(facts)) else {
            return (None, false);
        };
        let facts = Facts { args: facts.args, extents, declared: facts.declared };
        // A compiler that does not know these instructions is no reason not to run the kernel, and neither is a GPU on which no blocks meet.
        let fits = |variant: &Arc<Variant>| {
            let meets = || !variant.kernel.cooperative || self.resident(variant).is_ok_and(|blocks| blocks > 0);
            variant.kernel.assumptions_hold(&facts) && variant.load(&self.context).is_ok() && meets()
        };
        let mut asks = false;
        for way in ways.into_iter().filter(|way| room == Room::Some || !way.packs()) {
            let mut options = Options { product: Some(way), ..self.options() };
            let Some(variant) = self.product_variant(&options) else { continue };
            asks |= assumes_values(&variant);
            if fits(&variant) {
                return (Some(variant), asks);
            }
            options.assume = false;
            if let Some(variant) = self.product_variant(&options).filter(fits) {
                return (Some(variant), asks);
            }
        }
        (None, asks)
    }

    /// Returns how many blocks of a text for tensor cores run at the same time.
    pub(super) fn resident(&self, variant: &Variant) -> Result<u32, End> {
        let Geometry::Product { threads, shared, .. } = variant.kernel.geometry else { return Ok(0) };
        let loaded = variant.load(&self.context)?;
        self.allow_shared(loaded, shared)?;
        Ok(self.context.call(|driver| driver.resident_blocks(loaded.function, threads, shared))?)
    }

    fn element_size(&self, param: u32) -> Option<u64> {
        let kernel = self.definition();
        let KernelParam::Array { memory, .. } = kernel.params.get(param as usize)? else { return None };
        Some(self.prepared.module.functions[kernel.body].memories[*memory].layout.size as u64)
    }

    /// Returns how a launch may read the factors, and the rows and columns that it computes; `None` if tensor cores cannot compute them.
    fn computable(&self, facts: &Facts<'_, '_>) -> Option<(Vec<Copies>, Extents)> {
        let product = self.definition().product.as_ref()?;
        let Extents::Grid { grid, block } = facts.extents else { return None };
        let is_plane = grid[2] == 1 && grid.iter().chain(&block).all(|&n| n > 0);
        if !is_plane {
            return None;
        }
        let is_small = |k: usize, tile: u32| u64::from(grid[k]) * u64::from(tile) <= NARROW;
        if !is_small(1, product.tile[0]) || !is_small(0, product.tile[1]) || !is_narrow(&self.prepared.module, facts) {
            return None;
        }
        let extents = product_extents(product.tile, grid);
        let Extents::Threads([rows, columns, _]) = extents else { return None };
        let (a, b) = (shape(facts, product.a)?, shape(facts, product.b)?);
        let terms = [a[usize::from(!product.a.transposed)], b[usize::from(product.b.transposed)]];
        if most_product_tiles(rows, columns) > MOST_TILES || terms[0] != terms[1] || [a, b].concat().contains(&0) {
            return None;
        }
        let rows = [
            self.element_size(product.a.param)? * u64::from(a[1]),
            self.element_size(product.b.param)? * u64::from(b[1]),
        ];
        Some((self.ways(product, rows), extents))
    }
}

impl Kernel {
    /// As `computable`, of a program of tiles.
    fn held_in_registers(&self, facts: &Facts<'_, '_>) -> Option<(Vec<Copies>, Extents)> {
        let tiles = self.definition().tiles.as_ref().filter(|_| self.definition().product.is_none())?;
        let Extents::Grid { grid, block } = facts.extents else { return None };
        let is_usual = grid.iter().chain(&block).all(|&n| n > 0) && is_narrow(&self.prepared.module, facts);
        if !is_usual {
            return None;
        }
        let extents = |param: usize| -> Vec<u32> {
            (0..facts.rank(param).unwrap_or(0)).filter_map(|axis| facts.extent(param, axis)).collect()
        };
        if (0..facts.args.len()).any(|param| extents(param).contains(&0)) {
            return None;
        }
        let in_boxes = |param: u32| {
            let columns = extents(param as usize).last().copied().unwrap_or(0);
            self.element_size(param).is_some_and(|size| (size * u64::from(columns)).is_multiple_of(BOX_ALIGN))
        };
        let in_boxes = copied(&tiles.steps).into_iter().all(in_boxes);
        Some((self.ways_of_tiles(tiles, in_boxes), facts.extents))
    }
}

/// Returns the arrays of which products take parts.
fn copied(steps: &[TileStep]) -> Vec<u32> {
    let of = |step: &TileStep| match step {
        TileStep::Product { a: TileFactor::Part(a), b, .. } => vec![a.param, b.param],
        TileStep::Product { b, .. } => vec![b.param],
        TileStep::Repeat { body, .. } => copied(body),
        TileStep::If { then, other, .. } => [copied(then), copied(other)].concat(),
        TileStep::Each { .. } | TileStep::Fold { .. } | TileStep::Meet => vec![],
    };
    steps.iter().flat_map(of).collect()
}

fn shape(facts: &Facts<'_, '_>, factor: Factor) -> Option<[u32; 2]> {
    let param = factor.param as usize;
    Some([facts.extent(param, 0)?, facts.extent(param, 1)?])
}
