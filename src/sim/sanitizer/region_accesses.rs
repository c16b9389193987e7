//! Checks of all accesses in a region of machine code, before the region runs.
//!
//! Input: the accesses of all active lanes in a region, with the enclosing loops. Output: whether all accesses are
//! known to be correct; if so, they are recorded. The elements of an access in all iterations of its loops form one
//! pattern. Accesses of different lanes conflict regardless of their order. So only the order of the accesses of one
//! lane is relevant: a read that must follow a write is checked before the writes of the same loop. It is harmless to
//! record an access twice. Regions usually access the same elements of shared arrays each time they are entered, so the
//! patterns are reused when the region is entered again.

use super::access_pattern::{AccessPattern, PatternAxis};
use super::checked_access::CheckedAccess;
use super::checker::WorkerChecker;
use super::region_plan::{ActiveRange, CheckPlan, PlannedAccess};
use super::shared_access_log::{AccessSummary, RecordedAccess};
use crate::current_mask::CurrentMask;
use crate::events::AccessKind;
use crate::group::{RegionAccess, ThreadGroup};

impl WorkerChecker<'_> {
    /// Checks and records the accesses of a region. `reaches` returns the accesses, and the values of `words` determine
    /// them. Returns false if one of the accesses may violate a rule; some of them may then have been recorded.
    ///
    /// # Safety
    /// The access sites belong to the group's code, and not to local arrays.
    pub(super) unsafe fn check_region(
        &mut self,
        g: &mut ThreadGroup,
        region: usize,
        words: &[u64],
        reaches: &dyn Fn(&mut ThreadGroup) -> Vec<RegionAccess>,
    ) -> bool {
        if self.is_exact {
            return false;
        }
        if self.plans.len() <= region {
            self.plans.resize_with(region + 1, CheckPlan::default);
        }
        let mut plan = std::mem::take(&mut self.plans[region]);
        let lanes = ActiveRange::of(g);
        if !plan.matches(words, lanes) {
            let all = reaches(g);
            // SAFETY: guaranteed by the caller.
            let Some(steps) = (unsafe { self.planned_accesses(g, &all) }) else { return false };
            plan.replace(words, lanes, steps);
            self.collect_log_entries(&mut plan);
        }
        // SAFETY: guaranteed by the caller.
        let clean = unsafe { self.check_plan(g, &plan) };
        self.plans[region] = plan;
        clean
    }

    /// Returns the accesses to memories that need checks; `None` if one of these accesses cannot be expressed as a
    /// pattern.
    unsafe fn planned_accesses(&mut self, g: &ThreadGroup, all: &[RegionAccess]) -> Option<Vec<PlannedAccess>> {
        let code = self.code;
        let mut steps: Vec<PlannedAccess> = Vec::with_capacity(all.len());
        for reach in all {
            // SAFETY: guaranteed by the caller.
            let Some(event) = (unsafe { self.checked_access(g, &code.events.access_sites[reach.site as usize]) })
            else {
                continue;
            };
            let pattern = pattern(&g.mask, &event, reach)?;
            let shared = (!event.is_global).then_some(event.access.memory as usize);
            let before = |step: &PlannedAccess| {
                step.kind == AccessKind::Store && step.shared == shared && step.pattern == pattern
            };
            let (written, touch, hull) = (steps.iter().any(before), event.site.kind, pattern.bounds());
            steps.push(PlannedAccess { site: reach.site, shared, kind: touch, pattern, hull, written });
        }
        Some(steps)
    }

    /// Collects the log entries of a plan for each shared array.
    fn collect_log_entries(&self, plan: &mut CheckPlan) {
        plan.log_entries.clear();
        for step in &plan.accesses {
            let Some(memory) = step.shared else { continue };
            let access = RecordedAccess::from_site(&self.code.events.access_sites[step.site as usize]);
            match plan.log_entries.iter_mut().find(|(number, _)| *number == memory) {
                Some((_, part)) => part.add(&access, &step.pattern, step.hull),
                None => plan.log_entries.push((memory, AccessSummary::of(&access, &step.pattern, step.hull))),
            }
        }
    }

    /// Checks and records the accesses of a plan.
    unsafe fn check_plan(&mut self, g: &mut ThreadGroup, plan: &CheckPlan) -> bool {
        let (current, allocation_time) = (self.shared_clock.current_access(0), self.shared_clock.allocation_time);
        let log = &mut self.access_logs;
        // Usually, these are the first accesses to the shared arrays since the last barrier, and their elements were
        // written before that barrier.
        let simple = plan.is_conflict_free
            && plan.log_entries.iter().all(|(memory, part)| {
                let log = &mut log[*memory];
                log.is_open(&current, allocation_time) && log.needs_no_check(part)
            });
        let is_correct = |step: &PlannedAccess| {
            let Some(memory) = step.shared else { return true };
            let log = &mut log[memory];
            log.is_open(&current, allocation_time) && log.is_correct(step.kind, &step.pattern, step.hull, step.written)
        };
        if !(simple || plan.is_conflict_free && plan.accesses.iter().all(is_correct)) {
            // If patterns do not prove the accesses correct, compare shadow words.
            // SAFETY: guaranteed by the caller.
            return plan.accesses.iter().all(|step| unsafe { self.check_planned(g, step) });
        }
        // For global arrays, shadow words may record conflicting accesses of other blocks.
        // SAFETY: guaranteed by the caller.
        let global_ok = plan
            .accesses
            .iter()
            .filter(|step| step.shared.is_none())
            .all(|step| unsafe { self.record_planned(g, step) });
        if !global_ok {
            return false;
        }
        if simple {
            plan.log_entries.iter().for_each(|(memory, part)| self.access_logs[*memory].append(part, current.word));
            return true;
        }
        // SAFETY: guaranteed by the caller.
        plan.accesses.iter().filter(|step| step.shared.is_some()).all(|step| unsafe { self.record_planned(g, step) })
    }

    /// Checks an access of a plan by its pattern, or by shadow words if the pattern does not prove it correct, and
    /// records it. Returns false if it may violate a rule.
    unsafe fn check_planned(&mut self, g: &ThreadGroup, step: &PlannedAccess) -> bool {
        let code = self.code;
        // SAFETY: guaranteed by the caller; patterns are in bounds.
        unsafe {
            let Some(event) = self.checked_access(g, &code.events.access_sites[step.site as usize]) else {
                return true;
            };
            let inside = step.hull.1 < event.planes.len as isize;
            let clean = inside && self.check_pattern(&event, &step.pattern);
            if clean && !event.is_global && step.kind == AccessKind::Store {
                self.access_logs[event.access.memory as usize].mark_written(&step.pattern);
            }
            clean
        }
    }

    /// Records an access of a plan. Returns false if it may violate a rule.
    unsafe fn record_planned(&mut self, g: &ThreadGroup, step: &PlannedAccess) -> bool {
        let code = self.code;
        // SAFETY: guaranteed by the caller; patterns are in bounds.
        unsafe {
            let Some(event) = self.checked_access(g, &code.events.access_sites[step.site as usize]) else {
                return true;
            };
            if step.hull.1 >= event.planes.len as isize {
                return false;
            }
            let log = step.shared.map(|memory| &mut self.access_logs[memory]);
            log.is_some_and(|log| log.log_access(&RecordedAccess::from_access(&event), &step.pattern, step.hull))
                || self.check_pattern(&event, &step.pattern)
        }
    }
}

/// Returns the pattern of an access in all iterations of its loops. `None` if the active lanes are not contiguous or
/// some element is out of bounds.
fn pattern(mask: &CurrentMask, e: &CheckedAccess<'_>, reach: &RegionAccess) -> Option<AccessPattern> {
    let run = &reach.run;
    if e.init_map.is_some() || !(mask.full || run.is_exact(mask) && (mask.is_contiguous || run.count[0] == 1)) {
        return None;
    }
    let mut pattern = AccessPattern { first: e.cell_of(run.addr), ..AccessPattern::from_run(run, e.tracked.unit)? };
    let unit = e.tracked.unit as isize;
    let components = (e.word_components(), (e.word_pitch() * e.tracked.unit) as isize);
    for (count, bytes) in reach.loops.into_iter().chain([components]).filter(|axis| axis.0 > 1 && axis.1 != 0) {
        if bytes % unit != 0 {
            return None;
        }
        let free = pattern.axes.iter_mut().find(|axis| axis.count == 1)?;
        *free = PatternAxis { count, step: bytes / unit, lanes: 0 };
    }
    // Row loops do not support stores of several lanes to the same element.
    if e.site.kind == AccessKind::Store && pattern.spread > 0 {
        return None;
    }
    let (low, high) = pattern.bounds();
    (low >= 0 && high < e.planes.len as isize).then_some(pattern)
}
