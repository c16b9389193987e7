//! The op in front of a region that may have machine code.

use std::sync::atomic::Ordering;

use super::group::{Group, Op, stop_at};
use super::lanes::Step;
use super::shape::{Shape, Word};
use crate::device::FaultKind;

/// Runs region `y` by machine code and goes on at `x`, or goes on with the interpreter's code for it.
pub(crate) struct Enter;

/// What became of entering a region.
#[derive(PartialEq)]
enum Entry {
    Done,
    /// The interpreter has to run it.
    Left,
    /// The launch has been asked to stop.
    Stopped,
}

impl Step for Enter {
    const SHAPE: Shape = Shape::new("enter").x(Word::Target).y(Word::Region);

    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, at which the group is, with one behind.
        unsafe {
            let o = &*op;
            match g.run_machine(o.y) {
                Entry::Done => g.at(o.x),
                Entry::Left => op.add(1),
                Entry::Stopped => {
                    let (span, lane) = (g.code().span, g.active().next().unwrap_or(0));
                    let others = g.active_count().saturating_sub(1) as u64;
                    stop_at(g, FaultKind::Interrupted, span, lane, others)
                }
            }
        }
    }
}

impl Group {
    /// Runs a region by machine code, if there is some.
    unsafe fn run_machine(&mut self, region: u32) -> Entry {
        let Some(coding) = self.coding else { return Entry::Left };
        // SAFETY: G5: the launch keeps its machine code and its code while groups run.
        let (coding, code) = unsafe { (coding.as_ref(), &*self.code) };
        let Some(machine) = coding.machine(region as usize, &mut self.missed, code) else { return Entry::Left };
        let tally = &mut self.tallies[region as usize];
        // Where the code leaves too often, entering it does not pay.
        if tally.left > 8 && 2 * tally.left > tally.entered && !machine.is_forced() {
            return Entry::Left;
        }
        tally.entered += 1;
        // SAFETY: C4: `y` is a region of the code that the group runs, whose LaneIR is valid (C11).
        if unsafe { machine.run(self, region as usize) } {
            return Entry::Done;
        }
        self.tallies[region as usize].left += 1;
        // Code that leaves a loop because of this has not always undone what it did: the interpreter might finish the loop at once.
        // SAFETY: G5: the flag lives as long as the launch.
        if unsafe { (*self.stop).load(Ordering::Relaxed) } { Entry::Stopped } else { Entry::Left }
    }
}
