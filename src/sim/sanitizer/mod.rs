//! The sanitizer: receives the events of a group and reports data races, reads of unwritten elements, and divergence at
//! barriers.
//!
//! All threads are treated as concurrent unless synchronization orders them. The **fast path** compares rows of shadow
//! words ([`shadow_word`], [`race_rules`]) on all workers. The **exact check** ([`exact_race_check`], [`trace`])
//! compares each access with all recorded accesses to its element. It is used for kernels that synchronize by fences
//! and atomics, and to confirm a race. The memory model and the algorithm are described in
//! `docs/internals/sanitizer.md`.

mod access_cost;
mod access_pattern;
pub(crate) mod arithmetic;
mod batch_accesses;
mod checked_access;
mod checker;
mod clock;
mod divergence;
mod element_checks;
mod element_names;
mod exact_race_check;
mod exact_state;
mod happens_before;
mod init_checks;
mod launch_state;
mod local_init;
mod lock_order;
mod race_report;
mod race_rules;
mod region_accesses;
mod region_plan;
mod shadow;
mod shadow_word;
mod shared_access_log;
mod trace;
mod vector_clock;

pub(crate) use checker::WorkerChecker;
pub(crate) use launch_state::{SharedCheckState, add_warning};

use super::code::{KernelTables, MaskId, MemoryKind, PollingLoopDef, TrackedMemory};
use super::events::{AccessSite, GroupObserver};
use super::geometry::GroupGeometry;
use super::group::{AccessFacts, LaneAddresses, RegionAccess, ThreadGroup};
use super::memory::AddressRun;
use clk_ir::def::FenceScope;
use clk_runtime::{FaultKind, LaunchExtents};

/// Returns whether threads of this launch may race in global memory, according to the static analysis of indices.
pub(crate) fn may_race(code: &KernelTables, extents: &LaunchExtents) -> bool {
    let geometry = GroupGeometry::new(extents, code);
    let global = |k: usize| matches!(code.memories[k].kind, MemoryKind::Global(_));
    let tracked = |(k, watched): (usize, &Option<TrackedMemory>)| {
        global(k) && watched.as_ref().is_some_and(|w| !geometry.is_race_free(w, &code.properties))
    };
    code.events.tracked.iter().enumerate().any(tracked)
}

/// Returns whether accesses to shared arrays are checked.
pub(crate) fn checks_shared_arrays(code: &KernelTables) -> bool {
    let shared = |k: usize| matches!(code.memories[k].kind, MemoryKind::Shared);
    code.events.tracked.iter().enumerate().any(|(k, watched)| watched.is_some() && shared(k))
}

impl GroupObserver for WorkerChecker<'_> {
    unsafe fn on_access(&mut self, g: &mut ThreadGroup, site: &AccessSite) {
        // SAFETY: C4: the op's access site belongs to the code.
        unsafe { self.check_access(g, site) }
    }

    unsafe fn on_loop_loads(
        &mut self,
        g: &mut ThreadGroup,
        site: &AccessSite,
        run: &AddressRun,
        iterations: usize,
        iteration: isize,
    ) -> bool {
        // SAFETY: C4: the op's access site belongs to the code and is a load, whose elements are in bounds.
        self.code.events.counted_warps.is_none()
            && unsafe { self.check_loop_loads(g, site, run, iterations, iteration) }
    }

    unsafe fn on_tree_reduction(&mut self, g: &mut ThreadGroup, sites: &[AccessSite], distance: usize) -> bool {
        // SAFETY: C4, C7: the access sites belong to the code and to the array of the tree that follows, whose extent
        // is at least twice the distance.
        self.code.events.counted_warps.is_none() && unsafe { self.check_tree(g, sites, distance) }
    }

    unsafe fn on_local_declaration(&mut self, g: &mut ThreadGroup, memory: u32) {
        self.local_init.on_declaration(g, memory as usize);
    }

    fn on_block_barrier(&mut self, _: &mut ThreadGroup) {
        if self.is_exact {
            return self.order.on_block_barrier();
        }
        self.shared_clock.on_block_barrier();
        self.global_clock.on_block_barrier();
        self.publish_time();
    }

    fn on_warp_barrier(&mut self, g: &mut ThreadGroup) {
        if self.is_exact {
            self.order.time += 1;
            let warps = 0..g.shape.lanes.div_ceil(32);
            return warps.filter(|warp| g.is_active(warp * 32)).for_each(|warp| self.order.on_warp_barrier(warp));
        }
        self.flush_logs();
        self.shared_clock.tick();
        self.global_clock.tick();
        for warp in 0..g.shape.lanes.div_ceil(32) {
            if g.is_active(warp * 32) {
                self.shared_clock.on_warp_barrier(warp);
                self.global_clock.on_warp_barrier(warp);
            }
        }
        self.publish_time();
    }

    fn on_fence(&mut self, g: &mut ThreadGroup, scope: FenceScope) {
        // Fences establish an order only together with atomic operations whose results influence control flow. Kernels
        // with such operations are checked exactly, so the fast path ignores fences.
        if self.is_exact {
            self.order.record_fence(g.active(), scope);
        }
    }

    unsafe fn on_divergence(&mut self, g: &mut ThreadGroup, from: MaskId, span: u32, first: bool) {
        self.divergence.on_divergence(g, from, span, first)
    }

    fn on_exit(&mut self, g: &mut ThreadGroup, span: u32) {
        self.divergence.on_exit(g, span);
    }

    fn on_loop_entry(&mut self, g: &mut ThreadGroup) {
        self.divergence.on_loop_entry(g);
    }

    fn on_poll(&mut self, g: &mut ThreadGroup, wait: &PollingLoopDef) {
        if self.polling.on_iteration(g, wait, &self.shared_state.changes)
            && let Some(detail) = self.describe_wait(g)
        {
            let lane = g.active().next().unwrap_or(0);
            let others = g.active_count().saturating_sub(1) as u64;
            g.results.stop_at(FaultKind::Deadlock { detail }, wait.span, lane, others);
        }
    }

    fn describe_wait(&self, g: &ThreadGroup) -> Option<String> {
        self.polling.describe_wait(g)
    }

    fn divergence_of(&self, lane: usize) -> Option<u32> {
        self.divergence.span_of(lane)
    }

    unsafe fn check_region_accesses(
        &mut self,
        g: &mut ThreadGroup,
        region: usize,
        words: &[u64],
        reaches: &dyn Fn(&mut ThreadGroup) -> Vec<RegionAccess>,
    ) -> bool {
        // SAFETY: C4, C11: the access sites belong to a region of the code, and not to local arrays, which regions do
        // not report.
        unsafe { self.check_region(g, region, words, reaches) }
    }

    unsafe fn check_batch(&mut self, g: &mut ThreadGroup, places: &LaneAddresses<'_>) -> AccessFacts {
        // SAFETY: C4, C11: the access site belongs to the code, and not to a local array; the elements of the active
        // lanes are in bounds.
        unsafe { self.check_batch_access(g, places) }
    }

    fn is_race_free(&self, memory: u32) -> bool {
        self.shared_state.is_race_free(memory as usize)
    }

    fn init_marks(&mut self, memory: u32, size: usize) -> Option<(*mut u8, u8)> {
        self.init_map(memory as usize, size).map(|written| (written.bytes, written.mark))
    }
}
