//! Decides which launches of matrix products and tile programs run on tensor cores, and how they stage their operands.

use std::sync::Arc;

use super::{LaunchError, PackingMemory};
use crate::context::{GpuContext, TensorInstructions};
use crate::kernel::KernelVariants;
use crate::text::abi::{CodegenOptions, CudaGeometry, NARROW, OperandStaging, TMA_ALIGN};
use crate::text::{TENSOR_ARCHITECTURE, is_narrow, is_rounded, most_product_tiles, product_extents, product_shared};
use crate::variant::KernelVariant;
use clk_ir::def::KernelParam;
use clk_ir::tiles::{GemmKernel, GemmOperand, TileGemmOperand, TileProgram, TileStep};
use clk_runtime::LaunchExtents;
use clk_runtime::launch_facts::{ArgFacts, LaunchFacts, depend_on_values};

/// Maximum number of tiles. It ensures that tile numbers fit in 32 bits, including the numbers past the end with which
/// blocks stop.
const MOST_TILES: u64 = 1 << 30;

impl KernelVariants {
    /// Starts compiling the tensor-core variant that most launches need. Returns whether the kernel has one.
    pub fn prepare_tensor_variant(&self) -> bool {
        let compiles = |way| self.product_variant(&CodegenOptions { product: Some(way), ..self.options() }).is_some();
        let definition = self.definition();
        let staging_options = match (&definition.gemm, &definition.tile_program) {
            (Some(product), _) => self.staging_options(product, [TMA_ALIGN; 2]),
            (None, Some(tiles)) => self.tile_staging_options(tiles, true),
            (None, None) => vec![],
        };
        staging_options.into_iter().any(compiles)
    }

    /// Returns the ways to stage a product's operands on this GPU, fastest first. `rows`: the size of each operand's
    /// rows in bytes.
    fn staging_options(&self, product: &GemmKernel, rows: [u64; 2]) -> Vec<OperandStaging> {
        if !self.context.has_matching_tensor_cores(product.cores) {
            return vec![];
        }
        let rounded = is_rounded(&self.prepared, product.a);
        let in_boxes = rows.map(|bytes| bytes.is_multiple_of(TMA_ALIGN));
        let pieces = OperandStaging::Pieces { packed: in_boxes.map(|whole| rounded || !whole) };
        let mut staging_options = match (self.may_use_sm90a(), in_boxes) {
            (true, [true, true]) => vec![OperandStaging::Boxes, pieces],
            // Packing operands first is faster than copying them by elements.
            (true, _) => vec![pieces, OperandStaging::Elements],
            (false, _) => vec![pieces],
        };
        staging_options.retain(|&way| product_shared(way) <= self.context.properties.shared_per_block);
        staging_options
    }

    /// Like [`Self::staging_options`], but for a tile program. `in_boxes`: TMA can copy the rows of all operands.
    fn tile_staging_options(&self, tiles: &TileProgram, in_boxes: bool) -> Vec<OperandStaging> {
        if !self.context.has_matching_tensor_cores(tiles.sums.cores()) {
            return vec![];
        }
        let pieces = OperandStaging::Pieces { packed: [false; 2] };
        if self.may_use_sm90a() && in_boxes { vec![OperandStaging::Boxes, pieces] } else { vec![pieces] }
    }

    /// Returns whether generated code may use sm_90a instructions.
    fn may_use_sm90a(&self) -> bool {
        let GpuContext { properties, settings, .. } = &*self.context;
        properties.architecture == TENSOR_ARCHITECTURE && settings.tensor == TensorInstructions::Best
    }

    /// Returns the variant that runs this launch on tensor cores, if there is one, and whether the choice depends on
    /// the values of parameters.
    pub(super) fn tensor_core_variant(
        &self,
        facts: &ArgFacts<'_, '_>,
        room: PackingMemory,
    ) -> (Option<Arc<KernelVariant>>, bool) {
        let Some((staging_options, extents)) = self.product_plan(facts).or_else(|| self.tile_program_plan(facts))
        else {
            return (None, false);
        };
        let facts = ArgFacts { args: facts.args, extents, declared: facts.declared };
        // A variant is unusable if the compiler does not support its instructions, or if its blocks cannot all be
        // resident.
        let is_usable = |variant: &Arc<KernelVariant>| {
            let meets =
                || !variant.kernel.cooperative || self.resident_blocks_of(variant).is_ok_and(|blocks| blocks > 0);
            variant.kernel.assumptions_hold(&facts) && variant.load(&self.context).is_ok() && meets()
        };
        let mut depends_on_values = false;
        for way in staging_options.into_iter().filter(|way| room == PackingMemory::Some || !way.packs()) {
            let mut options = CodegenOptions { product: Some(way), ..self.options() };
            let Some(variant) = self.product_variant(&options) else { continue };
            depends_on_values |= depend_on_values(&variant.kernel.assumptions);
            if is_usable(&variant) {
                return (Some(variant), depends_on_values);
            }
            options.assume = false;
            if let Some(variant) = self.product_variant(&options).filter(is_usable) {
                return (Some(variant), depends_on_values);
            }
        }
        (None, depends_on_values)
    }

    /// Returns how many blocks of a tensor-core variant can be resident at once.
    pub(super) fn resident_blocks_of(&self, variant: &KernelVariant) -> Result<u32, LaunchError> {
        let CudaGeometry::Product { threads, shared, .. } = variant.kernel.geometry else { return Ok(0) };
        let loaded = variant.load(&self.context)?;
        self.allow_shared(loaded, shared)?;
        Ok(self.context.call(|driver| driver.resident_blocks(loaded.function, threads, shared))?)
    }

    fn element_size(&self, param: u32) -> Option<u64> {
        let kernel = self.definition();
        let KernelParam::Array { memory, .. } = kernel.params.get(param as usize)? else { return None };
        Some(self.prepared.module.functions[kernel.body].memories[*memory].layout.size as u64)
    }

    /// Returns the ways to stage a product's operands, and the number of rows and columns of the product. Returns
    /// `None` if tensor cores cannot run the launch.
    fn product_plan(&self, facts: &ArgFacts<'_, '_>) -> Option<(Vec<OperandStaging>, LaunchExtents)> {
        let product = self.definition().gemm.as_ref()?;
        let LaunchExtents::Grid { grid, block } = facts.extents else { return None };
        let is_plane = grid[2] == 1 && grid.iter().chain(&block).all(|&n| n > 0);
        if !is_plane {
            return None;
        }
        let is_small = |k: usize, tile: u32| u64::from(grid[k]) * u64::from(tile) <= NARROW;
        if !is_small(1, product.tile[0]) || !is_small(0, product.tile[1]) || !is_narrow(&self.prepared.module, facts) {
            return None;
        }
        let extents = product_extents(product.tile, grid);
        let LaunchExtents::Threads([rows, columns, _]) = extents else { return None };
        let (a, b) = (shape(facts, product.a)?, shape(facts, product.b)?);
        let terms = [a[usize::from(!product.a.transposed)], b[usize::from(product.b.transposed)]];
        if most_product_tiles(rows, columns) > MOST_TILES || terms[0] != terms[1] || [a, b].concat().contains(&0) {
            return None;
        }
        let rows = [
            self.element_size(product.a.param)? * u64::from(a[1]),
            self.element_size(product.b.param)? * u64::from(b[1]),
        ];
        Some((self.staging_options(product, rows), extents))
    }
}

impl KernelVariants {
    /// Like [`Self::product_plan`], but for a tile program.
    fn tile_program_plan(&self, facts: &ArgFacts<'_, '_>) -> Option<(Vec<OperandStaging>, LaunchExtents)> {
        let tiles = self.definition().tile_program.as_ref().filter(|_| self.definition().gemm.is_none())?;
        let LaunchExtents::Grid { grid, block } = facts.extents else { return None };
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
            self.element_size(param).is_some_and(|size| (size * u64::from(columns)).is_multiple_of(TMA_ALIGN))
        };
        let in_boxes = staged_params(&tiles.steps).into_iter().all(in_boxes);
        Some((self.tile_staging_options(tiles, in_boxes), facts.extents))
    }
}

/// Returns the array parameters whose windows are operands of products.
fn staged_params(steps: &[TileStep]) -> Vec<u32> {
    let of = |step: &TileStep| match step {
        TileStep::Mma { a: TileGemmOperand::Window(a), b, .. } => vec![a.param, b.param],
        TileStep::Mma { b, .. } => vec![b.param],
        TileStep::Repeat { body, .. } => staged_params(body),
        TileStep::If { then, other, .. } => [staged_params(then), staged_params(other)].concat(),
        TileStep::Map { .. } | TileStep::Reduce { .. } | TileStep::Barrier => vec![],
    };
    steps.iter().flat_map(of).collect()
}

fn shape(facts: &ArgFacts<'_, '_>, factor: GemmOperand) -> Option<[u32; 2]> {
    let param = factor.param as usize;
    Some([facts.extent(param, 0)?, facts.extent(param, 1)?])
}
