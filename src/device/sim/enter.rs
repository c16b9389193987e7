//! The op in front of a region that may have machine code.

use super::group::{Group, Op};
use super::lanes::Step;

/// Runs region `y` by machine code and goes on at `x`, or goes on with the interpreter's code for it.
pub(crate) struct Enter;

impl Step for Enter {
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: the op is in the group's code, at which the group is.
        unsafe {
            let o = &*op;
            if g.run_machine(o.y) {
                return g.at(o.x);
            }
            op.add(1)
        }
    }
}

impl Group {
    /// Runs a region by machine code; false if there is none, or it has left.
    unsafe fn run_machine(&mut self, region: u32) -> bool {
        // SAFETY: the launch keeps its machine code while groups run.
        let machines = unsafe { &*self.machines };
        let Some(Some(machine)) = machines.get(region as usize) else { return false };
        let tally = &mut self.tallies[region as usize];
        // Where the code leaves too often, entering it does not pay.
        if tally.left > 8 && 2 * tally.left > tally.entered {
            return false;
        }
        tally.entered += 1;
        // SAFETY: the region is one of this code's.
        let done = unsafe { machine.run(self, region as usize) };
        self.tallies[region as usize].left += u32::from(!done);
        done
    }
}
