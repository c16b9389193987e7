//! The happens-before order that fences and atomics establish: for each thread of the running block, the accesses that
//! are ordered before its next access.
//!
//! An access is identified by block, thread and logical **time**. The time advances within a block at its barriers,
//! warp operations and fences. Within a block, times determine the order. Accesses before the last barrier are ordered
//! before the thread, and so are accesses of its warp before the last synchronization of the warp. A
//! [`VectorClock`](super::vector_clock) represents the rest of the order.
//!
//! A `fence()` records the thread's accesses so far, and all accesses that are ordered before them. An atomic operation
//! that changes its element **releases** the accesses that the thread's last fence recorded. It also releases those
//! recorded by fences of other threads that a barrier orders before it. An atomic operation whose old value influences
//! control flow or addresses **acquires** everything released to the element: at once for the thread itself, and for
//! its warp and block from their next synchronization on. (GPUs require a second fence after such an operation; if it
//! is missing, this is not reported.) An atomic operation reads the value that the previous atomic operation on the
//! element wrote, so it continues that operation's release sequence (C++ memory model). After a `fence_block()` only
//! threads of the same block acquire.

use std::cell::Cell;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::trace::WarpAccess;
use super::vector_clock::{self, Release, VectorClock};
use clk_ir::def::FenceScope;

/// Number of scopes of releases: to threads of the same block (index 0), and to all threads (index `DEVICE`).
const SCOPES: usize = 2;
const DEVICE: usize = 1;

/// An element that threads access atomically, as its memory and its cell.
pub(crate) type ElementKey = (u32, usize);

/// A synchronization variable: an element that threads access by atomic operations to synchronize.
#[derive(Default)]
pub(crate) struct SyncVariable {
    /// A number that identifies the variable in the launch; the first variable has number 1.
    pub id: u64,
    /// Number of releases to this variable so far.
    pub version: u64,
    /// The accesses that every thread acquires from the variable; and by block, the accesses that only threads of this
    /// block acquire (`blocks`).
    device: VectorClock,
    blocks: FxHashMap<u64, VectorClock>,
}

/// The synchronization variables of a memory space.
#[derive(Default)]
pub(crate) struct Variables {
    /// The index in `all` of each element's variable.
    positions: FxHashMap<ElementKey, u32>,
    all: Vec<SyncVariable>,
}

impl Variables {
    /// Returns the variable of an element, and creates it if needed. `ids` is the number of variables so far.
    pub fn get(&mut self, key: ElementKey, ids: &mut u64) -> &mut SyncVariable {
        let place = *self.positions.entry(key).or_insert(self.all.len() as u32) as usize;
        if place == self.all.len() {
            *ids += 1;
            self.all.push(SyncVariable { id: *ids, ..SyncVariable::default() });
        }
        &mut self.all[place]
    }

    pub fn clear(&mut self) {
        self.positions.clear();
        self.all.clear();
    }
}

/// The last fence of a thread. It releases the thread's accesses before `time`, accesses of its block before `block`,
/// and accesses of its warp before `warp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FenceTimes {
    time: u64,
    block: u64,
    warp: u64,
}

/// The ordering state of a thread, or of all threads of a warp or block that have not diverged from it since their last
/// synchronization.
#[derive(Clone, Debug, Default)]
struct OrderState {
    clock: VectorClock,
    /// The earlier accesses that a release operation of these threads makes visible to other threads. Several states
    /// share it until one of them changes it: many threads acquire, but few of them release afterwards.
    releasable: Option<Arc<Releasable>>,
}

#[derive(Clone, Debug, Default)]
struct Releasable {
    /// The accesses that were ordered before the last fence, by scope.
    clocks_at_fence: [VectorClock; SCOPES],
    /// The accesses that threads of the block had performed before their last fences, by scope.
    own_accesses: [VectorClock; SCOPES],
}

static NOTHING_RELEASABLE: Releasable =
    Releasable { clocks_at_fence: [VectorClock::EMPTY; SCOPES], own_accesses: [VectorClock::EMPTY; SCOPES] };

impl OrderState {
    fn released(&self) -> &Releasable {
        self.releasable.as_deref().unwrap_or(&NOTHING_RELEASABLE)
    }

    fn releasable_mut(&mut self) -> &mut Releasable {
        Arc::make_mut(self.releasable.get_or_insert_default())
    }

    fn join(&mut self, other: &OrderState) {
        self.clock.join(&other.clock);
        let Some(theirs) = &other.releasable else { return };
        match &mut self.releasable {
            None => self.releasable = Some(theirs.clone()),
            Some(own) if Arc::ptr_eq(own, theirs) => {}
            Some(own) => {
                let own = Arc::make_mut(own);
                join(&mut own.clocks_at_fence, &theirs.clocks_at_fence);
                join(&mut own.own_accesses, &theirs.own_accesses);
            }
        }
    }
}

/// Joins the clocks for each scope. If both scopes share one clock, they still share it afterwards.
fn join(own: &mut [VectorClock; SCOPES], theirs: &[VectorClock; SCOPES]) {
    let same = own[0].is_same(&own[DEVICE]) && theirs[0].is_same(&theirs[DEVICE]);
    own[0].join(&theirs[0]);
    if same {
        own[DEVICE] = own[0].clone();
    } else {
        own[DEVICE].join(&theirs[DEVICE]);
    }
}

#[derive(Clone, Debug, Default)]
struct ThreadOrder {
    /// The state of the thread; `None` if it is equal to the state of its warp.
    state: Option<OrderState>,
    /// For each scope, the thread's last fence since its last synchronization.
    fences: [FenceTimes; SCOPES],
    /// The variable that the thread acquired last, and the variable's version at that time.
    last_acquired: (u64, u64),
}

/// The ordering state of the running block.
#[derive(Default)]
pub(crate) struct CurrentBlockOrder {
    group: u64,
    pub time: u64,
    /// All accesses before time `base` are ordered before this block. All accesses of the block before time
    /// `block_base` are ordered before its threads.
    base: u64,
    block_base: u64,
    /// For each warp: accesses of the warp before this time are ordered before the threads of the warp.
    warp_bases: Vec<u64>,
    lanes: Vec<ThreadOrder>,
    /// Indexed by warp; `None` if the state of the warp is equal to the state of the block.
    warps: Vec<Option<OrderState>>,
    block: OrderState,
    /// Set if some thread has executed a fence or acquired accesses since the last barrier.
    has_changes: bool,
    /// Set if fences and atomics have ordered accesses that would otherwise race.
    pub order_mattered: Cell<bool>,
}

const WARP: usize = 32;

impl CurrentBlockOrder {
    /// Starts block `group`, which has `lanes` threads. No accesses of other blocks are ordered before it, except those
    /// before the last grid barrier.
    pub fn begin_group(&mut self, group: u64, lanes: usize) {
        let warps = lanes.div_ceil(WARP);
        (self.group, self.time, self.base, self.block_base, self.has_changes) = (group, 1, 0, 0, false);
        self.warp_bases.clear();
        self.warp_bases.resize(warps, 0);
        self.lanes.clear();
        self.lanes.resize_with(lanes, ThreadOrder::default);
        self.warps.clear();
        self.warps.resize_with(warps, || None);
        self.block = OrderState::default();
    }

    /// Called at a grid barrier, with its logical time.
    pub fn on_grid_barrier(&mut self, time: u64) {
        let (group, lanes) = (self.group, self.lanes.len());
        self.begin_group(group, lanes);
        (self.time, self.base, self.block_base) = (time, time, time);
    }

    /// Returns the times of the last barriers of the grid and of the block.
    pub fn barrier_times(&self) -> (u64, u64) {
        (self.base, self.block_base)
    }

    fn state(&self, lane: usize) -> &OrderState {
        let own = self.lanes.get(lane).and_then(|l| l.state.as_ref());
        own.or_else(|| self.warps.get(lane / WARP)?.as_ref()).unwrap_or(&self.block)
    }

    fn state_mut(&mut self, lane: usize) -> &mut OrderState {
        self.has_changes = true;
        let copy = match self.lanes[lane].state {
            None => Some(self.state(lane).clone()),
            Some(_) => None,
        };
        self.lanes[lane].state.get_or_insert_with(|| copy.unwrap_or_default())
    }

    /// Called at a block barrier, when all threads of the block have arrived. All accesses before the barrier are
    /// ordered before all accesses after it.
    pub fn on_block_barrier(&mut self) {
        self.time += 1;
        self.block_base = self.time;
        if !std::mem::take(&mut self.has_changes) {
            return;
        }
        let mut all = std::mem::take(&mut self.block);
        self.warps.iter_mut().filter_map(Option::take).for_each(|warp| all.join(&warp));
        self.lanes.iter_mut().filter_map(|lane| lane.state.take()).for_each(|lane| all.join(&lane));
        self.release_fenced(&mut all, 0..self.lanes.len(), vector_clock::block_key(self.group));
        self.block = all;
    }

    /// Called when the threads of a warp have synchronized; the time has advanced.
    pub fn on_warp_barrier(&mut self, warp: usize) {
        let lanes = warp * WARP..((warp + 1) * WARP).min(self.lanes.len());
        self.warp_bases[warp] = self.time;
        if !self.has_changes {
            return;
        }
        let mut all = self.warps[warp].take().unwrap_or_else(|| self.block.clone());
        self.lanes[lanes.clone()].iter_mut().filter_map(|lane| lane.state.take()).for_each(|lane| all.join(&lane));
        self.release_fenced(&mut all, lanes, vector_clock::warp_key(self.group, warp));
        self.warps[warp] = Some(all);
    }

    /// Adds the accesses that each of these lanes performed before its last fence to what all of them can release.
    /// `key` is the key of the lanes' block or warp in a vector clock.
    fn release_fenced(&mut self, all: &mut OrderState, lanes: std::ops::Range<usize>, key: u64) {
        let group = self.group;
        let same_scopes = self.lanes[lanes.clone()].iter().all(|lane| lane.fences[0] == lane.fences[DEVICE]);
        let same_scopes = same_scopes && all.released().own_accesses[0].is_same(&all.released().own_accesses[DEVICE]);
        for k in 0..SCOPES {
            let fences = || self.lanes[lanes.clone()].iter().map(|lane| lane.fences[k]);
            if fences().all(|f| f.time == 0) {
                continue;
            }
            let least = fences().map(|f| f.time).min().unwrap_or(0);
            let block = fences().map(|f| f.block).max().unwrap_or(0);
            let own = &mut all.releasable_mut().own_accesses[k];
            own.raise(key, least);
            own.raise(vector_clock::block_key(group), block);
            for (lane, fence) in lanes.clone().zip(fences()).filter(|(_, f)| f.time > least.max(block)) {
                own.raise(vector_clock::thread_key(group, lane), fence.time);
                own.raise(vector_clock::warp_key(group, lane / WARP), fence.warp);
            }
            if same_scopes {
                let own = &mut all.releasable_mut().own_accesses;
                own[DEVICE] = own[0].clone();
                break;
            }
        }
        self.lanes[lanes].iter_mut().for_each(|lane| lane.fences = Default::default());
    }

    /// Records a fence of these lanes.
    pub fn record_fence(&mut self, lanes: impl Iterator<Item = usize>, scope: FenceScope) {
        self.time += 1;
        self.has_changes = true;
        let scopes = if scope == FenceScope::Device { 0..SCOPES } else { 0..DEVICE };
        for lane in lanes {
            let fence = FenceTimes { time: self.time, block: self.block_base, warp: self.warp_bases[lane / WARP] };
            for k in scopes.clone() {
                self.lanes[lane].fences[k] = fence;
                let state = self.state(lane);
                if !state.released().clocks_at_fence[k].is_same(&state.clock) {
                    let state = self.state_mut(lane);
                    let clock = state.clock.clone();
                    state.releasable_mut().clocks_at_fence[k] = clock;
                }
            }
        }
    }

    /// Acquires: joins the accesses that have been released to a variable into a lane's clock.
    pub fn acquire(&mut self, lane: usize, variable: &SyncVariable) {
        let acquired = (variable.id, variable.version);
        if variable.version == 0 || std::mem::replace(&mut self.lanes[lane].last_acquired, acquired) == acquired {
            return;
        }
        let mut clock = self.state(lane).clock.clone();
        let mut has_changed = clock.join(&variable.device);
        if let Some(view) = variable.blocks.get(&self.group) {
            has_changed |= clock.join(view);
        }
        if has_changed {
            self.state_mut(lane).clock = clock;
        }
    }

    /// Releases the accesses that a lane can release to a variable that the lane has changed. Returns whether there
    /// were any.
    pub fn release(&self, lane: usize, variable: &mut SyncVariable) -> bool {
        let (to_all, to_block) = (self.can_release(lane, DEVICE), self.can_release(lane, 0));
        if !to_all && !to_block {
            return false;
        }
        variable.version += 1;
        let (id, version) = (variable.id, variable.version);
        if to_all {
            let said = self.state(lane).released();
            variable.device.claim_for(id);
            variable.device.join(&said.clocks_at_fence[DEVICE]);
            variable.device.join(&said.own_accesses[DEVICE]);
            variable.device.release(id, version, self.fence_release(lane, DEVICE));
        }
        if self.lanes[lane].fences[0].time > self.lanes[lane].fences[DEVICE].time || self.releases_more_to_block(lane) {
            let view = variable.blocks.entry(self.group).or_default();
            if to_block {
                let said = self.state(lane).released();
                view.join(&said.clocks_at_fence[0]);
                view.join(&said.own_accesses[0]);
                view.raise_release(&self.fence_release(lane, 0));
            }
            view.raise_version(id, version);
        }
        true
    }

    /// Returns whether a lane can release other accesses to its block than to all threads.
    fn releases_more_to_block(&self, lane: usize) -> bool {
        let said = self.state(lane).released();
        !said.own_accesses[0].is_same(&said.own_accesses[DEVICE])
            || !said.clocks_at_fence[0].is_same(&said.clocks_at_fence[DEVICE])
    }

    /// Returns whether a lane can release any accesses in this scope.
    fn can_release(&self, lane: usize, scope: usize) -> bool {
        let (said, fence) = (self.state(lane).released(), self.lanes[lane].fences[scope]);
        fence.time > 0 || !said.own_accesses[scope].is_empty() || !said.clocks_at_fence[scope].is_empty()
    }

    /// Returns the release of a lane's last fence: the times before which it covers accesses of the lane, of its warp
    /// and of its block.
    fn fence_release(&self, lane: usize, scope: usize) -> Release {
        let FenceTimes { time, block, warp } = self.lanes[lane].fences[scope];
        Release { group: self.group, lane, time, block, warp }
    }

    /// Returns the last version of a variable whose release is ordered before a lane.
    pub fn acquired_version(&self, lane: usize, variable: u64) -> u64 {
        self.state(lane).clock.version(variable)
    }

    /// Returns the first lane of a recorded access that is not `lane` and whose access is not ordered before `lane`.
    pub fn first_unordered_lane(&self, entry: &WarpAccess, lane: usize) -> Option<usize> {
        if entry.time < self.base.max(1) {
            return None;
        }
        let mut others = entry.mask;
        if entry.group == self.group {
            let same_warp = entry.warp == lane / WARP;
            if entry.time < self.block_base || (same_warp && entry.time < self.warp_bases[entry.warp]) {
                return None;
            }
            if same_warp {
                others &= !(1 << (lane % WARP));
            }
        }
        if others == 0 {
            return None;
        }
        let clock = &self.state(lane).clock;
        if !clock.is_empty() {
            while others != 0 && clock.is_ordered_before(entry.group, entry.first_lane(others), entry.time) {
                others &= others - 1;
            }
        }
        match others {
            0 => {
                self.order_mattered.set(true);
                None
            }
            _ => Some(entry.first_lane(others)),
        }
    }
}
