//! Launches of kernels that are products of matrices or programs of tiles: which of them tensor cores compute, and how they read the factors.

use std::sync::Arc;

use super::{Facts, assumes_values};
use crate::device::Extents;
use crate::device::cuda::kernel::Kernel;
use crate::device::cuda::text::abi::{BOX_ALIGN, Copies, LaunchFacts, NARROW, Options};
use crate::device::cuda::text::{TENSOR_ARCHITECTURE, is_narrow, most_product_tiles, product_extents};
use crate::device::cuda::variant::Variant;
use crate::ir::def::{Factor, KernelParam, TileFactor, TileStep};

/// Numbers of tiles stay below this, so that 32 bits hold them and those that a block does not come to.
const MOST_TILES: u64 = 1 << 30;

impl Kernel {
    /// Starts to compile the text for tensor cores that most launches need, if there is one.
    pub fn expect_product(&self) -> bool {
        let options = Options { product: Some(Copies::Boxes), ..self.options() };
        self.context.properties.architecture == TENSOR_ARCHITECTURE && self.product_variant(&options).is_some()
    }

    /// Returns the variant that computes this launch on tensor cores, if there can be one; and whether that depends on the values of
    /// parameters.
    pub(super) fn on_tensor_cores(&self, facts: &Facts<'_, '_>) -> (Option<Arc<Variant>>, bool) {
        let Some((copies, extents)) = self.computable(facts).or_else(|| self.held_in_registers(facts)) else {
            return (None, false);
        };
        let facts = Facts { args: facts.args, extents, declared: facts.declared };
        let mut options = Options { product: Some(copies), ..self.options() };
        let Some(variant) = self.product_variant(&options) else { return (None, false) };
        let asks = assumes_values(&variant);
        // A compiler that does not know these instructions is no reason not to run the kernel.
        let fits =
            |variant: &Arc<Variant>| variant.kernel.assumptions_hold(&facts) && variant.load(&self.context).is_ok();
        if fits(&variant) {
            return (Some(variant), asks);
        }
        options.assume = false;
        (self.product_variant(&options).filter(fits), asks)
    }

    fn element_size(&self, param: u32) -> Option<u64> {
        let kernel = self.definition();
        let KernelParam::Array { memory, .. } = kernel.params.get(param as usize)? else { return None };
        Some(self.prepared.module.functions[kernel.body].memories[*memory].layout.size as u64)
    }

    /// Returns how a launch reads the factors, and the rows and columns that it computes; `None` if tensor cores cannot compute them.
    fn computable(&self, facts: &Facts<'_, '_>) -> Option<(Copies, Extents)> {
        let product = self.definition().product.as_ref()?;
        let Extents::Grid { grid, block } = facts.extents else { return None };
        let is_plane = grid[2] == 1 && grid.iter().chain(&block).all(|&n| n > 0);
        if self.context.properties.architecture != TENSOR_ARCHITECTURE || !is_plane {
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
        let sizes = [self.element_size(product.a.param)?, self.element_size(product.b.param)?];
        let in_boxes =
            [a, b].iter().zip(sizes).all(|(shape, size)| (size * u64::from(shape[1])).is_multiple_of(BOX_ALIGN));
        Some((if in_boxes { Copies::Boxes } else { Copies::Elements }, extents))
    }
}

impl Kernel {
    /// As `computable`, of a program of tiles.
    fn held_in_registers(&self, facts: &Facts<'_, '_>) -> Option<(Copies, Extents)> {
        let tiles = self.definition().tiles.as_ref().filter(|_| self.definition().product.is_none())?;
        let Extents::Grid { grid, block } = facts.extents else { return None };
        let is_usual = grid.iter().chain(&block).all(|&n| n > 0) && is_narrow(&self.prepared.module, facts);
        if self.context.properties.architecture != TENSOR_ARCHITECTURE || !is_usual {
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
        copied(&tiles.steps).into_iter().all(in_boxes).then_some((Copies::Boxes, facts.extents))
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
