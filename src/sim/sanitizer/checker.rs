//! The state of the checker of one worker.

use super::checked_access::Finding;
use super::clock::Clock;
use super::launch_state::SharedCheckState;
use super::shadow::{Planes, PrivateInitMap, ShadowPlanes};
use super::{divergence, exact_state, happens_before, local_init, lock_order, shared_access_log, trace};
use crate::code::{KernelTables, MemoryKind, TrackedMemory};
use crate::group::ThreadGroup;
use clk_base::alloc;
use clk_runtime::Fault;
use clk_runtime::Isa;

/// The checker of one worker. It checks one group at a time.
pub(crate) struct WorkerChecker<'a> {
    pub(super) shared_state: &'a SharedCheckState<'a>,
    pub(super) code: &'a KernelTables,
    pub(super) isa: Isa,
    pub(super) shared_clock: Clock,
    pub(super) global_clock: Clock,
    /// Indexed by memory: the shadow words of shared arrays, reallocated if a block has a larger array.
    pub(super) shadow_planes: Vec<Option<ShadowPlanes>>,
    /// Indexed by memory: the initialization maps of shared arrays that are proved to be free of races. `init_mark` is
    /// the value that marks elements written by the current block.
    init_bytes: Vec<Vec<u8>>,
    init_mark: u8,
    /// Indexed by memory: the access logs of shared arrays.
    pub(super) access_logs: Vec<shared_access_log::SharedAccessLog>,
    /// Indexed by region: the accesses when its machine code was last entered.
    pub(super) plans: Vec<super::region_plan::CheckPlan>,
    pub(super) local_init: local_init::LocalInitMap,
    pub(super) divergence: divergence::DivergenceRecords,
    /// Set if every access is tracked individually (exact check).
    pub(super) is_exact: bool,
    pub(super) order: happens_before::CurrentBlockOrder,
    /// Indexed by memory: the traces of shared arrays. `variables` holds the synchronization variables in shared
    /// arrays.
    pub(super) traces: Vec<Option<Box<trace::Trace>>>,
    pub(super) variables: happens_before::Variables,
    pub(super) held_locks: lock_order::HeldLocks,
    pub(super) atomic_results: exact_state::AtomicResults,
    pub(super) polling: divergence::PollingTracker,
    pub(super) finding: Option<Finding>,
    pub(super) group_number: u64,
    /// Indexed by access: the fault for the most expensive warp so far.
    pub(super) worst_accesses: Vec<Option<Fault>>,
}

impl<'a> WorkerChecker<'a> {
    pub fn new(watch: &'a SharedCheckState<'a>, code: &'a KernelTables, isa: Isa, lanes: usize) -> Self {
        WorkerChecker {
            shared_state: watch,
            code,
            isa,
            shared_clock: Clock::for_shared(),
            global_clock: Clock::for_global(watch.global_shadow.start_time),
            shadow_planes: code.memories.iter().map(|_| None).collect(),
            init_bytes: code.memories.iter().map(|_| vec![]).collect(),
            init_mark: 0,
            access_logs: code.memories.iter().map(|_| shared_access_log::SharedAccessLog::default()).collect(),
            plans: vec![],
            local_init: local_init::LocalInitMap::new(code, lanes),
            divergence: divergence::DivergenceRecords::new(lanes),
            is_exact: watch.exact.is_some(),
            order: happens_before::CurrentBlockOrder::default(),
            traces: code.memories.iter().map(|_| None).collect(),
            variables: happens_before::Variables::default(),
            held_locks: lock_order::HeldLocks::default(),
            atomic_results: exact_state::AtomicResults::default(),
            polling: divergence::PollingTracker::default(),
            finding: None,
            group_number: 0,
            worst_accesses: vec![],
        }
    }

    /// Starts group `number`, which has `lanes` threads.
    pub fn begin_group(&mut self, number: u64, lanes: usize) {
        self.group_number = number;
        if self.is_exact {
            self.order.begin_group(number, lanes);
            self.variables.clear();
            self.held_locks.begin(lanes);
        }
        self.shared_clock.begin_shared();
        self.global_clock.begin_global(number, self.shared_state.global_shadow.start_time);
        if self.init_mark == u8::MAX {
            self.init_bytes.iter_mut().for_each(|marks| marks.fill(0));
        }
        self.init_mark = self.init_mark % u8::MAX + 1;
        self.local_init.reset();
        self.divergence.reset();
        self.polling = divergence::PollingTracker::default();
    }

    /// Called at a grid barrier, with its logical time.
    pub fn on_grid_barrier(&mut self, time: u64) {
        self.shared_clock.on_block_barrier();
        self.global_clock.on_grid_barrier(time);
        if self.is_exact {
            self.order.on_grid_barrier(time);
            self.variables.clear();
        }
    }

    /// Returns the current logical time of the block for global memory.
    pub fn time(&self) -> u64 {
        if self.is_exact { self.order.time } else { self.global_clock.time }
    }

    /// Returns the initialization map of a memory of `size` bytes; `None` if the memory has shadow words instead.
    #[inline]
    pub(super) fn init_map(&mut self, memory: usize, size: usize) -> Option<PrivateInitMap> {
        if let MemoryKind::Global(_) = self.code.memories[memory].kind {
            return self.shared_state.global_shadow.init_map(memory);
        }
        let watched = self.code.events.tracked[memory].as_ref().filter(|watched| watched.is_race_free)?;
        let (marks, len) = (&mut self.init_bytes[memory], size / watched.unit.max(1));
        if marks.len() < len {
            marks.resize(len, 0);
        }
        Some(PrivateInitMap { bytes: marks.as_mut_ptr(), len, mark: self.init_mark })
    }

    /// Returns the shadow planes of a memory, and whether it is global.
    pub(super) fn planes(&mut self, g: &ThreadGroup, memory: usize, watched: &TrackedMemory) -> (Planes, bool) {
        if let MemoryKind::Global(_) = self.code.memories[memory].kind {
            return (self.shared_state.global_shadow.planes(memory).unwrap_or(Planes::NONE), true);
        }
        if self.is_exact || watched.is_race_free {
            return (Planes::NONE, false);
        }
        // SAFETY: G4: each memory of the code has an entry.
        let bytes = unsafe { (*g.memories.add(memory)).len };
        let len = bytes / watched.unit.max(1);
        let store = &mut self.shadow_planes[memory];
        if store.as_ref().is_none_or(|s| s.planes.len < len) {
            // If a plane is too small, its words are from earlier blocks, because the size of a shared array does not
            // change within a block. So they can be dropped.
            *store = Some(ShadowPlanes::new(watched, len, alloc::zeros));
        }
        (store.as_ref().map_or(Planes::NONE, |s| s.planes), false)
    }
}

impl Drop for WorkerChecker<'_> {
    fn drop(&mut self) {
        self.shared_state
            .global_shadow
            .last_time
            .fetch_max(self.global_clock.time, std::sync::atomic::Ordering::Relaxed);
        self.shared_state.add_costs(&mut self.worst_accesses);
        if self.access_logs.iter().any(|quick| quick.is_inconclusive) {
            self.shared_state.inconclusive.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

impl WorkerChecker<'_> {
    /// Writes the logged accesses to shared arrays into their shadow words.
    pub(super) fn flush_logs(&mut self) {
        for (number, quick) in self.access_logs.iter_mut().enumerate() {
            let current = self.shared_clock.current_access(0);
            if let (true, Some(store)) = (quick.has_entries(&current), &self.shadow_planes[number]) {
                // SAFETY: the planes belong to this memory.
                unsafe { quick.write_out(&store.planes, &current, self.isa, self.code.properties.has_warp_ops) };
            }
        }
    }

    /// Called when the block's time advances: publishes the time if it is the largest of all blocks so far. If the
    /// largest representable time is reached, first restarts the times of the block.
    pub(super) fn publish_time(&mut self) {
        if self.global_clock.is_at_end() {
            self.shared_state.global_shadow.rewrite(self.global_clock.restart_times());
        }
        if self.global_clock.time > self.shared_state.global_shadow.last_time.load(std::sync::atomic::Ordering::Relaxed)
        {
            self.shared_state
                .global_shadow
                .last_time
                .fetch_max(self.global_clock.time, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
