//! The passes on a region before machine code is made of it.
//!
//! Input: a region as it was built, and the groups that the code is for. Output: the region that the emitter gets, and what is live at
//! the heads of its loops.

use super::alloc::MOST;
use super::division::{Division, least};
use super::fold::Folds;
use crate::device::sim::isa::Isa;
use crate::device::sim::lane::{Region, copies, displace, induct, live, phases, verify, whole};

/// Runs the passes on a region, and calls `after` with the name of each and what it has made of the region. Returns what is live at the
/// heads of loops; `None` if there can be no code.
pub(super) fn run(
    region: &mut Region,
    whole: Option<[u32; 3]>,
    division: Division,
    after: &mut dyn FnMut(&'static str, &Region),
) -> Option<Vec<live::Set>> {
    if let Some(extents) = whole {
        let rows = division.shape(region, MOST).rows;
        whole::specialize(region, extents, rows);
        after("whole", region);
    }
    copies::merge(region);
    after("copies", region);
    if let Some(extents) = whole.filter(|_| region.together) {
        let one_batch = division.is_one_batch(region, extents);
        divide(region, one_batch)?;
        after("phases", region);
    }
    // A batch has whole warps.
    if least(region, division.shape(region, 1).width) > MOST {
        return None;
    }
    displace::constants(region);
    after("displace", region);
    induct::multiples(region);
    after("induct", region);
    let heads = live::clean(region);
    after("live", region);
    verify::debug_verify(region, "the passes");
    Some(heads)
}

/// Returns the passes that change a region, and `fold` if operands in memory take over sums or loads.
pub(crate) fn effective(region: &Region, division: Division, isa: Isa) -> Vec<&'static str> {
    let takes_operands = isa == Isa::Avx512;
    let mut effective = vec![];
    for whole in [None, division.whole()] {
        if !division.has(region) || region.together && whole.is_none() {
            continue;
        }
        let (mut changed, mut before) = (region.clone(), region.to_string());
        let passed = run(&mut changed, whole, division, &mut |pass, region| {
            let now = region.to_string();
            if std::mem::replace(&mut before, now.clone()) != now {
                effective.push(pass);
            }
        });
        let rows = division.shape(&changed, MOST).rows;
        if passed.is_some() && !Folds::of(&changed, rows, takes_operands).is_empty() {
            effective.push("fold");
        }
    }
    effective.sort_unstable();
    effective.dedup();
    effective
}

/// Prepares a region with barriers for blocks that are one batch, or several; `None` if that is not possible.
fn divide(region: &mut Region, one_batch: bool) -> Option<()> {
    if one_batch {
        phases::join(region);
        return Some(());
    }
    // What nothing reads is not kept.
    live::clean(region);
    let divided = phases::split(region);
    verify::debug_verify(region, "the division into phases");
    divided.then_some(())
}
