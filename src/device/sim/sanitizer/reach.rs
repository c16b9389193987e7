//! Accesses of machine code, all at once before they happen.
//!
//! Input: the accesses of all active lanes in a region, with the loops around them. Output: whether they are known to be correct;
//! if so, they are recorded. The idea: a row of elements per access is a pattern, as is one per iteration of a loop. Threads of a
//! group that conflict do so in whichever order they access, so only the order of a thread's own accesses matters: a read that
//! needs an earlier write comes before the writes of the same loop. What was recorded may be recorded again.
//!
//! Blocks mostly access the same elements of their shared arrays again and again, so the patterns of an entry are kept for the next.

use super::checker::Checker;
use super::event::Event;
use super::pattern::{Axis, Pattern};
use super::plan::{Lanes, Plan, Step};
use super::quick::{Deed, Part};
use crate::device::sim::events::Touch;
use crate::device::sim::group::{Group, Reach};

impl Checker<'_> {
    /// Checks and records the accesses of a region that `words` stand for, and `reaches` returns; returns false if one of them might
    /// be wrong; some of them may have been recorded then.
    ///
    /// # Safety
    /// The notes are of the group's code, not of local arrays.
    pub(super) unsafe fn reached(
        &mut self,
        g: &mut Group,
        region: usize,
        words: &[u64],
        reaches: &dyn Fn(&mut Group) -> Vec<Reach>,
    ) -> bool {
        if self.careful {
            return false;
        }
        if self.plans.len() <= region {
            self.plans.resize_with(region + 1, Plan::default);
        }
        let mut plan = std::mem::take(&mut self.plans[region]);
        let lanes = Lanes::of(g);
        if !plan.is_of(words, lanes) {
            let all = reaches(g);
            // SAFETY: the caller's notes.
            let Some(steps) = (unsafe { self.steps(g, &all) }) else { return false };
            plan.become_of(words, lanes, steps);
            self.share(&mut plan);
        }
        // SAFETY: as above.
        let clean = unsafe { self.follow(g, &plan) };
        self.plans[region] = plan;
        clean
    }

    /// Returns the accesses that can be wrong; `None` if one of them is no pattern.
    unsafe fn steps(&mut self, g: &Group, all: &[Reach]) -> Option<Vec<Step>> {
        let code = self.code;
        let mut steps: Vec<Step> = Vec::with_capacity(all.len());
        for reach in all {
            // SAFETY: the caller's notes.
            let Some(event) = (unsafe { self.event(g, &code.notes[reach.note as usize]) }) else { continue };
            let pattern = pattern(g, &event, reach)?;
            let shared = (!event.global).then_some(event.access.memory as usize);
            let before = |step: &Step| step.touch == Touch::Store && step.shared == shared && step.pattern == pattern;
            let (written, touch, hull) = (steps.iter().any(before), event.note.touch, pattern.hull());
            steps.push(Step { note: reach.note, shared, touch, pattern, hull, written });
        }
        Some(steps)
    }

    /// Collects what the logs of shared arrays get from a plan.
    fn share(&self, plan: &mut Plan) {
        plan.parts.clear();
        for step in &plan.steps {
            let Some(memory) = step.shared else { continue };
            let deed = Deed::at(&self.code.notes[step.note as usize]);
            match plan.parts.iter_mut().find(|(number, _)| *number == memory) {
                Some((_, part)) => part.add(&deed, &step.pattern, step.hull),
                None => plan.parts.push((memory, Part::of(&deed, &step.pattern, step.hull))),
            }
        }
    }

    /// Checks and records the accesses of a plan.
    unsafe fn follow(&mut self, g: &mut Group, plan: &Plan) -> bool {
        let (now, born) = (self.shared.now(0), self.shared.born);
        let quick = &mut self.quick;
        // Mostly they are the first ones since the last barrier, to elements that have been written before it.
        let simple = plan.agrees
            && plan.parts.iter().all(|(memory, part)| {
                let quick = &mut quick[*memory];
                quick.is_open(&now, born) && quick.takes(part)
            });
        let fits = |step: &Step| {
            let Some(memory) = step.shared else { return true };
            let quick = &mut quick[memory];
            quick.is_open(&now, born) && quick.agrees(step.touch, &step.pattern, step.hull, step.written)
        };
        if !(simple || plan.agrees && plan.steps.iter().all(fits)) {
            // Words tell what patterns do not.
            // SAFETY: the caller's notes.
            return plan.steps.iter().all(|step| unsafe { self.compare(g, step) });
        }
        // Words may hold conflicting accesses of other blocks.
        // SAFETY: the caller's notes.
        let alone = plan.steps.iter().filter(|step| step.shared.is_none()).all(|step| unsafe { self.record(g, step) });
        if !alone {
            return false;
        }
        if simple {
            plan.parts.iter().for_each(|(memory, part)| self.quick[*memory].take(part, now.own));
            return true;
        }
        // SAFETY: the caller's notes.
        plan.steps.iter().filter(|step| step.shared.is_some()).all(|step| unsafe { self.record(g, step) })
    }

    /// Checks and records an access of a plan by words, unless its pattern suffices; returns false if it may be wrong.
    unsafe fn compare(&mut self, g: &Group, step: &Step) -> bool {
        let code = self.code;
        // SAFETY: the caller's notes; patterns are in bounds.
        unsafe {
            let Some(event) = self.event(g, &code.notes[step.note as usize]) else { return true };
            let inside = step.hull.1 < event.planes.len as isize;
            let clean = inside && self.noted_as(&event, &step.pattern);
            if clean && !event.global && step.touch == Touch::Store {
                self.quick[event.access.memory as usize].learn(&step.pattern);
            }
            clean
        }
    }

    /// Records an access of a plan; returns false if it may be wrong.
    unsafe fn record(&mut self, g: &Group, step: &Step) -> bool {
        let code = self.code;
        // SAFETY: the caller's notes; patterns are in bounds.
        unsafe {
            let Some(event) = self.event(g, &code.notes[step.note as usize]) else { return true };
            if step.hull.1 >= event.planes.len as isize {
                return false;
            }
            let quick = step.shared.map(|memory| &mut self.quick[memory]);
            quick.is_some_and(|quick| quick.add(&Deed::of(&event), &step.pattern, step.hull))
                || self.noted_as(&event, &step.pattern)
        }
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
