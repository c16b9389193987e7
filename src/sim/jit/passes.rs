//! Runs the LaneIR passes on a region before machine code is emitted.
//!
//! Input: a region as built, and the kind of groups for which code is emitted. Output: the region for the emitter, and
//! the values that are live at the heads of its loops.

use super::batching::{VectorDivision, min_vectors};
use super::memory_operands::FoldedOperands;
use super::register_allocation::MAX_VECTORS;
use crate::lir::{
    LaneRegion, copy_coalescing, fold_displacements, full_group, liveness, phases, strength_reduction, verify,
};
use clk_runtime::Isa;

/// Runs the passes on a region. After each pass, calls `after` with the pass's name and the region. Returns the values
/// that are live at the heads of loops, or `None` if the region cannot be compiled.
pub(super) fn run(
    region: &mut LaneRegion,
    full_group: Option<[u32; 3]>,
    division: VectorDivision,
    after: &mut dyn FnMut(&'static str, &LaneRegion),
) -> Option<Vec<liveness::ValueSet>> {
    if let Some(extents) = full_group {
        let rows = division.shape(region, MAX_VECTORS).rows;
        full_group::specialize(region, extents, rows);
        after("full_group", region);
    }
    copy_coalescing::coalesce_copies(region);
    after("copy_coalescing", region);
    if let Some(extents) = full_group.filter(|_| region.has_barriers) {
        let one_batch = division.is_one_batch(region, extents);
        prepare_barriers(region, one_batch)?;
        after("phases", region);
    }
    // With warp operations, a batch must contain whole warps.
    if min_vectors(region, division.shape(region, 1).width) > MAX_VECTORS {
        return None;
    }
    fold_displacements::fold_address_constants(region);
    after("fold_displacements", region);
    strength_reduction::reduce_multiples(region);
    after("strength_reduction", region);
    let heads = liveness::eliminate_dead_code(region);
    after("liveness", region);
    verify::debug_verify(region, "the passes");
    Some(heads)
}

/// Returns the names of the passes that change a region, and `fold` if sums or loads are folded into memory operands.
pub(crate) fn effective_passes(region: &LaneRegion, division: VectorDivision, isa: Isa) -> Vec<&'static str> {
    let takes_operands = isa == Isa::Avx512;
    let mut effective = vec![];
    for full_group in [None, division.full_group()] {
        if !division.can_compile(region) || region.has_barriers && full_group.is_none() {
            continue;
        }
        let (mut changed, mut before) = (region.clone(), region.to_string());
        let heads = run(&mut changed, full_group, division, &mut |pass, region| {
            let text = region.to_string();
            if std::mem::replace(&mut before, text.clone()) != text {
                effective.push(pass);
            }
        });
        let rows = division.shape(&changed, MAX_VECTORS).rows;
        if heads.is_some() && !FoldedOperands::of(&changed, rows, takes_operands).is_empty() {
            effective.push("fold");
        }
    }
    effective.sort_unstable();
    effective.dedup();
    effective
}

/// Removes the barriers of a region, by division into phases if a block has several batches. Returns `None` if that is
/// impossible.
fn prepare_barriers(region: &mut LaneRegion, one_batch: bool) -> Option<()> {
    if one_batch {
        phases::remove_barriers(region);
        return Some(());
    }
    // Eliminate dead values first, so that they get no phase slots.
    liveness::eliminate_dead_code(region);
    let divided = phases::split_into_phases(region);
    verify::debug_verify(region, "the division into phases");
    divided.then_some(())
}
