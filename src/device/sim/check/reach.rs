//! Accesses of machine code, all at once before they happen.
//!
//! Input: the accesses of all active lanes in a region, with the loops around them. Output: whether they are known to be correct;
//! if so, they are recorded. The idea: a row of elements per access is a pattern, as is one per iteration of a loop. Threads of a
//! group that conflict do so in whichever order they access, so only the order of a thread's own accesses matters: a read that
//! needs an earlier write comes before the writes of the same loop. What was recorded may be recorded again.

use super::checker::Checker;
use super::event::Event;
use super::pattern::{Axis, Pattern};
use super::quick::Deed;
use crate::device::sim::events::Touch;
use crate::device::sim::group::{Group, Reach};

impl Checker<'_> {
    /// Checks and records accesses; returns false if one of them might be wrong. Of those to shared arrays none has been recorded
    /// then.
    ///
    /// # Safety
    /// The notes are of the group's code, not of local arrays.
    pub(super) unsafe fn reached(&mut self, g: &mut Group, all: &[Reach]) -> bool {
        if self.careful {
            return false;
        }
        let code = self.code;
        let mut events: Vec<(Event<'_>, Pattern)> = vec![];
        for reach in all {
            // SAFETY: the caller's notes.
            let Some(event) = (unsafe { self.event(g, &code.notes[reach.note as usize]) }) else { continue };
            let Some(pattern) = pattern(g, &event, reach) else { return false };
            events.push((event, pattern));
        }
        if !self.agree(&events) {
            return false;
        }
        // Words may hold conflicting accesses of other blocks.
        let (global, shared): (Vec<_>, Vec<_>) = events.iter().partition(|(event, _)| event.global);
        // SAFETY: patterns are in bounds.
        global.iter().chain(&shared).all(|(event, pattern)| unsafe { self.noted_as(event, pattern) })
    }

    /// Returns whether accesses to shared arrays conflict neither with one another nor with what was recorded since the last barrier.
    fn agree(&mut self, events: &[(Event<'_>, Pattern)]) -> bool {
        for (at, (event, pattern)) in events.iter().enumerate().filter(|(_, (event, _))| !event.global) {
            let same = |(other, _): &&(Event<'_>, Pattern)| other.access.memory == event.access.memory;
            let (mut written, touch) = (false, event.note.touch);
            for (other, earlier) in events[..at].iter().filter(same) {
                written |= other.note.touch == Touch::Store && earlier == pattern;
                let ((low, high), (least, most)) = (pattern.hull(), earlier.hull());
                if touch.conflicts(other.note.touch) && low <= most && least <= high && !earlier.agrees(pattern) {
                    return false;
                }
            }
            let quick = &mut self.quick[event.access.memory as usize];
            if !quick.is_open(&event.now, event.born) || !quick.agrees(&Deed::of(event), pattern, written) {
                return false;
            }
        }
        true
    }
}

/// Returns the pattern of an access, if its lanes are contiguous and it is in bounds.
fn pattern(g: &Group, e: &Event<'_>, reach: &Reach) -> Option<Pattern> {
    let run = &reach.run;
    if e.written.is_some() || !(g.full || run.is_exact(g) && (g.solid || run.count[0] == 1)) {
        return None;
    }
    let mut pattern = Pattern { first: e.cell(run.addr), ..Pattern::of(run, e.watched.unit)? };
    let unit = e.watched.unit as isize;
    let components = (e.components(), (e.pitch() * e.watched.unit) as isize);
    for (count, bytes) in reach.loops.into_iter().chain([components]).filter(|axis| axis.0 > 1 && axis.1 != 0) {
        if bytes % unit != 0 {
            return None;
        }
        let free = pattern.axes.iter_mut().find(|axis| axis.count == 1)?;
        *free = Axis { count, step: bytes / unit, lanes: 0 };
    }
    // Rows of words do not take several lanes that store to one element.
    if e.note.touch == Touch::Store && pattern.spread > 0 {
        return None;
    }
    let (low, high) = pattern.hull();
    (low >= 0 && high < e.planes.len as isize).then_some(pattern)
}
