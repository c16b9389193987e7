//! The plan of a launch: variant of the text, grid and shared memory. Computed once for launches that are alike.

mod kept;
mod product;

use std::sync::{Arc, PoisonError};

pub(crate) use self::kept::{End, Facts, Kept, Plan};
use self::kept::{Room, shapes, values};
use super::context::Context;
use super::driver::Shape;
use super::kernel::Kernel;
use super::text::abi::Geometry;
use super::text::{Options, SharedRefusal, is_narrow};
use super::variant::{Loaded, Variant};
use super::whole;
use crate::base::source::Span;
use crate::device::{Declared, DeviceError, Extents, FaultKind};
use crate::ir::MOST_ELEMENTS;
use crate::ir::def::Form;
use crate::ir::ranges::Symbol;

/// The number of recent plans that a kernel keeps.
const KEPT: usize = 4;

impl Kernel {
    /// Returns the plan of this launch; `None` if there is nothing to run.
    pub(crate) fn plan(&self, facts: &Facts<'_, '_>) -> Result<Option<Arc<Plan>>, End> {
        let is_declared = self.is_declared(facts);
        {
            let mut kept = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = kept.iter().position(|kept| kept.is_for(facts, is_declared)) {
                // Most recently used first.
                kept[..=at].rotate_right(1);
                return Ok(kept[0].plan.clone());
            }
        }
        let (variant, mut by_value) = self.fitting(facts, is_declared, Room::Some);
        let (by_blocks, asks) = whole::by_blocks(&self.prepared, facts, facts.declared);
        by_value |= asks;
        let plan = self.fresh_plan(variant, facts, &by_blocks)?.map(Arc::new);
        let kept = Kept {
            extents: facts.extents,
            is_declared,
            has_signature: facts.declared.is_some(),
            shapes: shapes(facts).collect(),
            values: by_value.then(|| values(facts).collect()),
            plan: plan.clone(),
        };
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.truncate(KEPT - 1);
        plans.insert(0, kept);
        Ok(plan)
    }

    /// Returns the plan of this launch where there is no memory beside that of its arrays.
    pub(crate) fn plan_without_room(&self, facts: &Facts<'_, '_>) -> Result<Option<Arc<Plan>>, End> {
        let (variant, _) = self.fitting(facts, self.is_declared(facts), Room::None);
        let (by_blocks, _) = whole::by_blocks(&self.prepared, facts, facts.declared);
        Ok(self.fresh_plan(variant, facts, &by_blocks)?.map(Arc::new))
    }

    fn fresh_plan(
        &self,
        variant: Arc<Variant>,
        facts: &Facts<'_, '_>,
        by_blocks: &[bool],
    ) -> Result<Option<Plan>, End> {
        let Some(mut grid) = variant.kernel.grid(facts.extents) else { return Ok(None) };
        if matches!(variant.kernel.geometry, Geometry::Product { .. }) {
            // Its blocks occupy a multiprocessor each, and take one tile after the other.
            grid.grid[0] = grid.grid[0].min(self.context.properties.multiprocessors.max(1));
            if variant.kernel.cooperative {
                grid.grid[0] = grid.grid[0].min(self.resident(&variant)?);
            }
        }
        let shared = variant.kernel.shared_bytes(&self.prepared.module, facts);
        let shared = shared.map_err(|fault| self.shared_fault(fault.why, fault.span))?;
        let loaded = variant.load(&self.context)?;
        self.allow_shared(loaded, shared)?;
        let shape = Shape { grid: grid.grid, block: grid.block, shared, cooperative: variant.kernel.cooperative };
        check_grid(&self.context, loaded, &shape)?;
        let whole = self.written_in_full(facts, by_blocks);
        Ok(Some(Plan { variant, shape, whole }))
    }

    /// Returns, by argument, whether the launch overwrites all of the array.
    fn written_in_full(&self, facts: &Facts<'_, '_>, by_blocks: &[bool]) -> Vec<bool> {
        let whole = |param: usize, shape: &[u32]| match facts.extents {
            Extents::Threads(_) => {
                self.own_elements.get(param).copied().unwrap_or(false) && whole::covers(shape, &facts.extents)
            }
            Extents::Grid { .. } => by_blocks.get(param).copied().unwrap_or(false),
        };
        facts.args.iter().enumerate().map(|(param, arg)| arg.shape().is_some_and(|shape| whole(param, shape))).collect()
    }

    /// Returns the variant for this launch: with offsets as wide as necessary, and with more guards where its assumptions do not
    /// hold. Also returns whether that, or the size of shared memory, depends on the values of parameters.
    fn fitting(&self, facts: &Facts<'_, '_>, is_declared: bool, room: Room) -> (Arc<Variant>, bool) {
        let (on_tensor_cores, asks) = self.on_tensor_cores(facts, room);
        if let Some(variant) = on_tensor_cores {
            return (variant, asks);
        }
        let mut options = Options { declared: is_declared, ..self.options() };
        if let (Form::Grid, Extents::Grid { block, .. }) = (self.definition().form, facts.extents) {
            options.block = Some(block);
        }
        let mut variant = self.variant(&options);
        if !is_narrow(&self.prepared.module, facts) {
            options.wide = true;
            variant = self.variant(&options);
        }
        let assumes = asks || assumes_values(&variant);
        if !variant.kernel.assumptions_hold(facts) {
            options.assume = false;
            variant = self.variant(&options);
        }
        let by_value = assumes || !variant.kernel.dynamic_shared.is_empty();
        (variant, by_value)
    }

    /// Returns whether the launch is one that proofs about the kernel are about, as far as that matters.
    fn is_declared(&self, facts: &Facts<'_, '_>) -> bool {
        let Some(declared) = &self.prepared.declared else { return true };
        let inside = declared.inside(&self.prepared.module);
        let proved = |launch: Declared| launch.largest <= MOST_ELEMENTS && (launch.promises || !inside.on_promises);
        inside.axes.is_empty() || facts.declared.is_some_and(proved)
    }

    /// Returns the fault of a block with too much shared memory, which the simulator reports too.
    fn shared_fault(&self, why: SharedRefusal, span: Span) -> End {
        let limit = u64::from(self.context.properties.shared_per_block);
        let kind = match why {
            SharedRefusal::Bytes(bytes) => FaultKind::SharedSize { bytes, limit },
            SharedRefusal::Extent(array, extent) => FaultKind::SharedExtent { array, extent },
        };
        End::Fault(kind.of_launch(span))
    }

    /// Opts in to this much dynamic shared memory.
    fn allow_shared(&self, loaded: &Loaded, wanted: u32) -> Result<(), End> {
        let (limit, bytes) = (self.context.properties.shared_per_block, wanted.saturating_add(loaded.static_shared));
        if bytes > limit {
            return Err(self.shared_fault(SharedRefusal::Bytes(bytes.into()), self.definition().span));
        }
        let mut allowed = loaded.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        if wanted > *allowed {
            self.context.call(|driver| driver.allow_shared(loaded.function, wanted))?;
            *allowed = wanted;
        }
        Ok(())
    }
}

/// Returns whether a text relies on conditions about the values of parameters.
fn assumes_values(variant: &Variant) -> bool {
    let is_value = |symbol: &Symbol| matches!(symbol, Symbol::Param(_));
    let mut assumed = variant.kernel.assumptions.iter();
    assumed.any(|b| b.left.as_ref().is_some_and(is_value) || b.right.as_ref().is_ok_and(is_value))
}

/// Rejects grids that exceed the GPU's limits.
fn check_grid(context: &Context, loaded: &Loaded, shape: &Shape) -> Result<(), DeviceError> {
    let too_large = |what, wanted: u64, limit: u64| {
        let (wanted, limit) = (wanted.to_string(), limit.to_string());
        DeviceError::TooLarge { device: context.name.clone(), what, wanted, limit }
    };
    let limits = context.properties.grid;
    for ((wanted, limit), what) in
        shape.grid.into_iter().zip(limits).zip(["blocks along x", "blocks along y", "blocks along z"])
    {
        if wanted > limit {
            return Err(too_large(what, wanted.into(), limit.into()));
        }
    }
    if shape.cooperative {
        let threads = shape.block.iter().product();
        let limit = context.call(|d| d.resident_blocks(loaded.function, threads, shape.shared))?;
        let wanted = shape.grid.iter().map(|&n| u64::from(n)).product();
        if wanted > u64::from(limit) {
            return Err(too_large("blocks that run at the same time", wanted, limit.into()));
        }
    }
    Ok(())
}
