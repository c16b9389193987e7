//! Launch plans: the variant, grid and shared memory of a launch. Plans are cached for launches with the same facts.

mod launch_plan;
mod tensor_cores;

use std::sync::{Arc, PoisonError};

use self::launch_plan::PackingMemory;
pub(crate) use self::launch_plan::{LaunchError, LaunchPlan};
use super::context::GpuContext;
use super::driver::LaunchShape;
use super::kernel::KernelVariants;
use super::text::abi::CudaGeometry;
use super::text::{CodegenOptions, SharedLayoutReason, is_narrow};
use super::variant::{KernelVariant, LoadedVariant};
use clk_base::source::Span;
use clk_ir::def::LaunchForm;
use clk_runtime::launch_facts::{ArgFacts, depend_on_values, has_proved_bounds};
use clk_runtime::write_coverage::{fully_overwritten, overwritten_by_grid};
use clk_runtime::{DeviceError, FaultKind, LaunchExtents};

impl KernelVariants {
    /// Returns the plan of this launch, or `None` if the launch has no threads.
    pub(crate) fn plan(&self, facts: &ArgFacts<'_, '_>) -> Result<Option<Arc<LaunchPlan>>, LaunchError> {
        let in_bounds = has_proved_bounds(&self.prepared, facts.declared);
        if let Some(plan) = self.plans.get(facts, in_bounds) {
            return Ok(plan);
        }
        let (variant, variant_depends_on_values) = self.choose_variant(facts, in_bounds, PackingMemory::Some);
        let (by_grid, coverage_depends_on_values) = overwritten_by_grid(&self.prepared, facts, facts.declared);
        let plan = self.build_plan(variant, facts, &by_grid)?.map(Arc::new);
        let depends_on_values = variant_depends_on_values || coverage_depends_on_values;
        self.plans.insert(facts, in_bounds, depends_on_values, plan.clone());
        Ok(plan)
    }

    /// Returns a plan of this launch without packed operands, for when memory for these is full.
    pub(crate) fn plan_without_packing(
        &self,
        facts: &ArgFacts<'_, '_>,
    ) -> Result<Option<Arc<LaunchPlan>>, LaunchError> {
        let (variant, _) =
            self.choose_variant(facts, has_proved_bounds(&self.prepared, facts.declared), PackingMemory::None);
        let (by_grid, _) = overwritten_by_grid(&self.prepared, facts, facts.declared);
        Ok(self.build_plan(variant, facts, &by_grid)?.map(Arc::new))
    }

    /// Builds the plan of a launch of a variant. `by_grid` is a result of [`overwritten_by_grid`].
    fn build_plan(
        &self,
        variant: Arc<KernelVariant>,
        facts: &ArgFacts<'_, '_>,
        by_grid: &[bool],
    ) -> Result<Option<LaunchPlan>, LaunchError> {
        let Some(mut grid) = variant.kernel.grid(facts.extents) else { return Ok(None) };
        if matches!(variant.kernel.geometry, CudaGeometry::Product { .. }) {
            // Launch at most one block per multiprocessor. Each block computes tiles until none are left.
            grid.grid[0] = grid.grid[0].min(self.context.properties.multiprocessors.max(1));
            if variant.kernel.cooperative {
                grid.grid[0] = grid.grid[0].min(self.resident_blocks_of(&variant)?);
            }
        }
        let shared = variant.kernel.shared_bytes(&self.prepared.module, facts);
        let shared = shared.map_err(|fault| self.shared_fault(fault.why, fault.span))?;
        let loaded = variant.load(&self.context)?;
        self.allow_shared(loaded, shared)?;
        let shape = LaunchShape { grid: grid.grid, block: grid.block, shared, cooperative: variant.kernel.cooperative };
        check_grid(&self.context, loaded, &shape)?;
        let whole = fully_overwritten(facts, &self.overwritten_by_threads, by_grid);
        Ok(Some(LaunchPlan { variant, shape, whole }))
    }

    /// Returns the variant for this launch. It has 64-bit offsets if necessary, and additional guards if the
    /// assumptions of the other variant do not hold. Also returns whether the choice, or the size of shared memory,
    /// depends on the values of parameters.
    fn choose_variant(
        &self,
        facts: &ArgFacts<'_, '_>,
        in_bounds: bool,
        room: PackingMemory,
    ) -> (Arc<KernelVariant>, bool) {
        let (tensor_core_variant, mut depends_on_values) = self.tensor_core_variant(facts, room);
        if let Some(variant) = tensor_core_variant {
            return (variant, depends_on_values);
        }
        let mut options = CodegenOptions { declared: in_bounds, ..self.options() };
        if let (LaunchForm::Grid, LaunchExtents::Grid { block, .. }) = (self.definition().form, facts.extents) {
            options.block = Some(block);
        }
        let mut variant = self.variant(&options);
        if !is_narrow(&self.prepared.module, facts) {
            options.wide = true;
            variant = self.variant(&options);
        }
        depends_on_values |= depend_on_values(&variant.kernel.assumptions);
        if !variant.kernel.assumptions_hold(facts) {
            options.assume = false;
            variant = self.variant(&options);
        }
        depends_on_values |= !variant.kernel.dynamic_shared.is_empty();
        (variant, depends_on_values)
    }

    /// Returns the fault for a block that needs too much shared memory. The simulator reports the same fault.
    fn shared_fault(&self, why: SharedLayoutReason, span: Span) -> LaunchError {
        let limit = u64::from(self.context.properties.shared_per_block);
        let kind = match why {
            SharedLayoutReason::Bytes(bytes) => FaultKind::SharedSize { bytes, limit },
            SharedLayoutReason::Extent(array, extent) => FaultKind::SharedExtent { array, extent },
        };
        LaunchError::Fault(kind.into_launch_fault(span))
    }

    /// Tells the driver to allow this many bytes of dynamic shared memory, if they exceed the current limit.
    fn allow_shared(&self, loaded: &LoadedVariant, wanted: u32) -> Result<(), LaunchError> {
        let (limit, bytes) = (self.context.properties.shared_per_block, wanted.saturating_add(loaded.static_shared));
        if bytes > limit {
            return Err(self.shared_fault(SharedLayoutReason::Bytes(bytes.into()), self.definition().span));
        }
        let mut allowed = loaded.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted > *allowed {
            self.context.call(|driver| driver.allow_shared(loaded.function, wanted))?;
            *allowed = wanted;
        }
        Ok(())
    }
}

/// Returns an error if the grid exceeds the GPU's limits.
fn check_grid(context: &GpuContext, loaded: &LoadedVariant, shape: &LaunchShape) -> Result<(), DeviceError> {
    let too_large = |what, requested: u64, limit: u64| {
        let (requested, limit) = (requested.to_string(), limit.to_string());
        DeviceError::TooLarge { device: context.name.clone(), what, wanted: requested, limit }
    };
    let limits = context.properties.grid;
    for ((requested, limit), what) in
        shape.grid.into_iter().zip(limits).zip(["blocks along x", "blocks along y", "blocks along z"])
    {
        if requested > limit {
            return Err(too_large(what, requested.into(), limit.into()));
        }
    }
    if shape.cooperative {
        let threads = shape.block.iter().product();
        let limit = context.call(|d| d.resident_blocks(loaded.function, threads, shape.shared))?;
        let requested = shape.grid.iter().map(|&n| u64::from(n)).product();
        if requested > u64::from(limit) {
            return Err(too_large("blocks that run at the same time", requested, limit.into()));
        }
    }
    Ok(())
}
