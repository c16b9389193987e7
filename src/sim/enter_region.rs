//! The op at the start of a region that may have machine code.

use super::code::KernelTables;
use super::group::{GroupRegions, Op, RegionCode, RegionCodeSource, ThreadGroup};
use super::lanes::OpStep;
use super::op_shape::{OpShape, OperandRole};
use clk_runtime::FaultKind;

/// Runs region `y` by machine code and continues at op `x`. Without machine code, continues with the next op, so the
/// region is interpreted.
pub(crate) struct EnterRegion;

/// The result of entering a region.
#[derive(PartialEq)]
enum RegionEntry {
    Done,
    /// The region has not run; the interpreter has to run it.
    Left,
    /// The launch has been asked to stop.
    Stopped,
}

impl OpStep for EnterRegion {
    const SHAPE: OpShape = OpShape::new("enter").x(OperandRole::Target).y(OperandRole::Region);

    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is the group's current op in the code, and another op follows.
        unsafe {
            let o = &*op;
            match g.run_machine(o.y) {
                RegionEntry::Done => g.op_at(o.x),
                RegionEntry::Left => op.add(1),
                RegionEntry::Stopped => {
                    let (span, lane) = (g.code().source.kernel, g.active().next().unwrap_or(0));
                    let others = g.active_count().saturating_sub(1) as u64;
                    g.results.stop_at(FaultKind::Interrupted, span, lane, others)
                }
            }
        }
    }
}

impl ThreadGroup {
    /// Runs a region by machine code, if the region has been compiled.
    unsafe fn run_machine(&mut self, region: u32) -> RegionEntry {
        // SAFETY: G5: the launch keeps its machine code and its code while groups run.
        let Some(machine) = (unsafe { self.regions.enter(region as usize, &*self.code) }) else {
            return RegionEntry::Left;
        };
        // SAFETY: C4: `y` is a region of the code that the group runs, and its LaneIR is valid (C11).
        if unsafe { machine.run(self, region as usize) } {
            return RegionEntry::Done;
        }
        self.regions.counts[region as usize].left += 1;
        // If machine code exits from a loop because of the stop flag, it may leave partial effects of the loop. So the
        // interpreter must not run the region again.
        if self.budget.is_stop_requested() { RegionEntry::Stopped } else { RegionEntry::Left }
    }
}

impl GroupRegions {
    /// Returns the machine code by which a region is about to run, and counts the entry. `None` if the interpreter has
    /// to run the region.
    ///
    /// # Safety
    /// The launch keeps its machine code for `'a`.
    unsafe fn enter<'a>(&mut self, region: usize, code: &'a KernelTables) -> Option<&'a dyn RegionCode> {
        // SAFETY: G5: guaranteed by the caller.
        let source: &'a dyn RegionCodeSource = unsafe { self.source?.as_ref() };
        let machine = source.region_code(region, &mut self.missed_lookups, code)?;
        let tally = &mut self.counts[region];
        // Do not enter machine code that has exited early in more than half of its entries: it costs more time than it
        // saves.
        if tally.left > 8 && 2 * tally.left > tally.entered && !machine.exits_at_random() {
            return None;
        }
        tally.entered += 1;
        Some(machine)
    }
}
