//! The execution state of one lane group: the lanes of a block (or of a row of a `threads` launch) that run in
//! lockstep.
//!
//! # Safety
//! Ops work on raw pointers into memory that the group owns (registers, shared and local memory) and into the launch's
//! buffers. They rely on the rules of compiled code, C1 to C13 (see [`verify`](super::verify)), and on the following
//! rules for a running group. A [`frame`](super::frame) establishes these rules, and ops preserve them. Comments on
//! `unsafe` blocks name both.
//! - **G1 registers**: the slot of a register points to initialized memory of the frame that no other register, memory
//!   or reference overlaps. The memory is one chunk for a uniform register, otherwise all chunks of a column. If a
//!   register views memory, its slot may point to array elements instead; they cover the chunks of the mask that was
//!   active when the slot was redirected.
//! - **G2 masks**: the chunks of a mask, from its first to its last one and in its ranges, are chunks of columns. Lanes
//!   in its ranges are 0 or !0. Lanes that do not exist are 0, and so are all lanes between the ranges of a mask with
//!   several ranges.
//! - **G3 memories**: a memory is valid for its size, and all elements within the extents of its axes are inside it. A
//!   launch with an array that does not fit the kernel is rejected (`memory::layout::find_mismatch`). While the kernel
//!   runs, nothing else accesses the arrays that it may write. Elements that are updated atomically are aligned.
//! - **G4 tables**: each register has a slot and a home, each mask a summary, each loop a counter, each access a plan,
//!   and each memory of the code an entry.
//! - **G5 lifetimes**: ops, code, machine code, observer and stop flag outlive the execution of the group. Ops and code
//!   do not change.
//! - **G6 instruction set**: the machine has the instructions for which the code was compiled.

use std::ops::Range;
use std::ptr::NonNull;

use super::access_site::AccessSite;
use super::code::{AXES, KernelTables, MaskId, PollingLoopDef, Reg};
use super::current_mask::{CurrentMask, MaskInfo};
use super::group_registers::{CHUNK, GroupRegisters};
use super::memory::{AddressPlans, AddressRun, MemoryRt};
use super::op_shape::OpShape;
use super::step_budget::StepBudget;
use clk_ir::def::FenceScope;
use clk_runtime::FaultKind;
use clk_runtime::stall::WorkerStall;

/// Executes an op and returns the next one. A null pointer ends or pauses the execution of the group.
pub(crate) type OpCall = unsafe fn(&mut ThreadGroup, *const Op) -> *const Op;

/// The function that executes an op. Builds with debug assertions also store the op's shape, for the verifier.
#[derive(Clone, Copy)]
pub struct OpFn {
    pub(crate) call: OpCall,
    #[cfg(debug_assertions)]
    shape: &'static OpShape,
}

impl OpFn {
    pub(crate) fn new(call: OpCall, shape: &'static OpShape) -> OpFn {
        #[cfg(not(debug_assertions))]
        let _ = shape;
        OpFn {
            call,
            #[cfg(debug_assertions)]
            shape,
        }
    }

    /// Returns the op's shape; `None` in builds without debug assertions.
    pub(crate) fn shape(self) -> Option<&'static OpShape> {
        #[cfg(debug_assertions)]
        return Some(self.shape);
        #[cfg(not(debug_assertions))]
        None
    }
}

/// One instruction. The meaning of the fields depends on `run`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Op {
    pub run: OpFn,
    pub d: Reg,
    pub a: Reg,
    pub b: Reg,
    pub c: Reg,
    pub x: u32,
    pub y: u32,
}

/// Number of lanes in a warp.
pub(crate) const WARP: usize = 32;
/// Maximum number of lanes of a block, and of a group whose lanes can diverge.
pub(crate) const MAX_LANES: usize = 1024;
/// Maximum number of lanes of a group whose lanes cannot diverge.
pub(crate) const MAX_ROW: usize = 4096;

/// The iteration state of a running `For` loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ForLoopState {
    pub iteration: u64,
    /// The smallest trip count of any lane.
    pub min_trips: u64,
    /// The largest trip count of any lane.
    pub max_trips: u64,
}

/// The reason why a group is not running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The group is running or has finished.
    #[default]
    None,
    /// The group yielded to other groups and can continue at any time.
    Iteration,
    /// Some warps of the group may wait for its other warps, so these warps have to run separately from now on. The
    /// group is paused after a [`PollOp`](super::control_flow::PollOp).
    Fork,
    /// The warp split waits at a block barrier for the other warp splits of its block.
    Barrier,
    /// The group waits at a grid barrier for all blocks.
    Grid,
}

/// An access in a region whose machine code is about to run. `run` holds the elements of the first iteration of all
/// enclosing loops. `loops` holds each enclosing loop's trip count, and the distance in bytes from one iteration to the
/// next.
pub(crate) struct RegionAccess {
    pub site: u32,
    pub run: AddressRun,
    pub loops: [(usize, isize); 3],
}

/// The elements that the active lanes of a batch (up to four vectors of lanes) are about to access in machine code.
pub(crate) struct LaneAddresses<'a> {
    pub site: u32,
    /// The first lane of the batch.
    pub lane: usize,
    /// The active lanes of the batch, one bit each.
    pub active: u64,
    /// Number of lanes in a vector.
    pub width: usize,
    /// For each vector, the base address to which `offsets` are added. With `LaneOffsets::Step`, it is the address of
    /// the first lane's element.
    pub bases: [*mut u8; 4],
    pub offsets: LaneOffsets<'a>,
    /// Set if the region loads from this memory but does not write it.
    pub only_loads: bool,
}

/// Offsets of the lanes' elements from the base address of their vector.
#[derive(Clone, Copy)]
pub(crate) enum LaneOffsets<'a> {
    /// A constant distance in bytes from each lane's element to the next lane's.
    Step(usize),
    /// An offset in bytes for each lane of the batch.
    Lanes(&'a [i32; 64]),
}

/// The checker's result for an access in machine code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessFacts {
    /// The access is correct and has been recorded.
    Clean,
    /// Like `Clean`. Moreover, every load from this memory by any lane is correct until the block synchronizes or
    /// stores to the memory.
    AllLoadsClean,
    /// The access may violate a rule. It may have been recorded anyway.
    Unknown,
}

/// A checker or a profiler, which receives the events of a group. A handler that finds a fault stops the group
/// ([`GroupResults::stop_at`]).
///
/// # Safety
/// Only ops of the group's code call the methods, with access sites of that code.
pub trait GroupObserver {
    /// Called before the active lanes access memory at a site.
    unsafe fn on_access(&mut self, g: &mut ThreadGroup, site: &AccessSite);
    /// Called before a loop of a full group runs, for one load in it: `run` holds the elements of the first iteration,
    /// `iterations` the trip count, and `iteration` the distance in bytes from one iteration to the next. Returns false
    /// if the loop has to report its loads one iteration at a time.
    unsafe fn on_loop_loads(
        &mut self,
        g: &mut ThreadGroup,
        site: &AccessSite,
        run: &AddressRun,
        iterations: usize,
        iteration: isize,
    ) -> bool;
    /// Called before all threads of a block reduce a shared array by a tree, in a loop with these accesses. The first
    /// iteration combines `distance` pairs of elements, and each further iteration half as many. A barrier separates
    /// the iterations. Returns false if the loop has to report its accesses one iteration at a time.
    unsafe fn on_tree_reduction(&mut self, g: &mut ThreadGroup, sites: &[AccessSite], distance: usize) -> bool;
    /// Called after the active lanes have declared local array `memory`; in a loop, this occurs repeatedly.
    unsafe fn on_local_declaration(&mut self, g: &mut ThreadGroup, memory: u32);
    /// Called after all threads of the block have synchronized.
    fn on_block_barrier(&mut self, g: &mut ThreadGroup);
    /// Called after the active lanes have synchronized with the other lanes of their warp.
    fn on_warp_barrier(&mut self, g: &mut ThreadGroup);
    fn on_fence(&mut self, g: &mut ThreadGroup, scope: FenceScope);
    /// Called when the inactive lanes of mask `from` have diverged at `span`. With `first`, lanes that already have a
    /// divergence record keep it.
    unsafe fn on_divergence(&mut self, g: &mut ThreadGroup, from: MaskId, span: u32, first: bool);
    /// Called before the active lanes exit the kernel at `span`.
    fn on_exit(&mut self, g: &mut ThreadGroup, span: u32);
    /// Called when the active lanes enter a loop. None of them has left the loop at that point.
    fn on_loop_entry(&mut self, g: &mut ThreadGroup);
    /// Called when a polling loop starts another iteration.
    fn on_poll(&mut self, g: &mut ThreadGroup, wait: &PollingLoopDef);
    /// Describes the condition that the current polling loop waits for, if no iteration has made progress for a while.
    fn describe_wait(&self, g: &ThreadGroup) -> Option<String>;
    /// Returns the span at which thread `lane` diverged, if it was recorded.
    fn divergence_of(&self, lane: usize) -> Option<u32>;
    /// Checks and records the accesses that all active lanes are about to perform in a region; `reaches` returns them.
    /// The accesses are in bounds, and the region and the values of `words` determine them. Returns false if one of the
    /// accesses may violate a rule; in that case, only some of them have been recorded.
    unsafe fn check_region_accesses(
        &mut self,
        g: &mut ThreadGroup,
        region: usize,
        words: &[u64],
        reaches: &dyn Fn(&mut ThreadGroup) -> Vec<RegionAccess>,
    ) -> bool;
    /// Called when the active lanes begin a straight-line segment of the code. The other lanes of mask `from` do not
    /// execute it, because they diverged.
    unsafe fn on_segment(&mut self, _g: &mut ThreadGroup, _segment: u32, _from: MaskId) {}
    /// Checks and records one access that some lanes are about to perform in machine code. The elements are in bounds.
    unsafe fn check_batch(&mut self, g: &mut ThreadGroup, places: &LaneAddresses<'_>) -> AccessFacts;
    /// Returns whether no two threads can conflict on elements of a memory, either because of a proof, or because only
    /// one thread accesses each element.
    fn is_race_free(&self, memory: u32) -> bool;
    /// Returns the initialization map of a memory of `size` bytes, and the value that marks a written cell; `None` if
    /// the memory has no such map. The map has one byte per cell (part of an element whose initialization is tracked
    /// separately).
    fn init_marks(&mut self, memory: u32, size: usize) -> Option<(*mut u8, u8)>;
}

/// The machine code of a region.
pub(crate) trait RegionCode: Send + Sync {
    /// Runs the region for the active lanes of a group. Returns false if the machine code exited early. It has then
    /// undone its effects, unless the launch has been asked to stop.
    ///
    /// # Safety
    /// The region belongs to the group's code, and the group is at its start.
    unsafe fn run(&self, g: &mut ThreadGroup, region: usize) -> bool;
    /// Returns whether the code also exits early at random; tests use such code.
    fn exits_at_random(&self) -> bool;

    /// Returns the address and the size in bytes of its code.
    fn code_range(&self) -> (usize, usize);
}

/// The source from which a launch gets machine code.
pub(crate) trait RegionCodeSource: Sync {
    /// Returns the machine code of a region if it has been compiled so far. `missed` counts the worker's lookups in
    /// this launch that found no machine code.
    fn region_code(&self, region: usize, missed: &mut u32, code: &KernelTables) -> Option<&dyn RegionCode>;
}

/// A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct CacheLine(pub [u64; 8]);

/// How often a region was entered, and how often its code exited early.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegionCounts {
    pub entered: u32,
    pub left: u32,
}

/// The state of a group when it last paused in a polling loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollSnapshot {
    pub op: *const Op,
    pub lanes: usize,
    /// Number of loop iterations (of all loops) from the start of the group to the pause, and from the previous pause
    /// to this one (`iterations_since`).
    pub iterations: u64,
    pub iterations_since: u64,
    /// Number of consecutive pauses in which the group was in the same state.
    pub repeats: u32,
}

impl Default for PollSnapshot {
    fn default() -> PollSnapshot {
        PollSnapshot { op: std::ptr::null(), lanes: 0, iterations: 0, iterations_since: 0, repeats: 0 }
    }
}

/// The fault that stopped a group.
#[derive(Debug)]
pub struct GroupStop {
    pub kind: FaultKind,
    /// Index into the code's spans.
    pub span: u32,
    pub lane: usize,
    pub others: u64,
}

/// The lanes of a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupShape {
    /// Extents of the group along x, y, z, and the blocks of a batch.
    pub extents: [usize; AXES],
    /// Number of lanes: the product of the extents.
    pub lanes: usize,
    /// Number of chunks in a lane column.
    pub column_chunks: usize,
}

impl GroupShape {
    /// Returns whether the lanes differ only in x.
    #[inline(always)]
    pub fn is_row(&self) -> bool {
        self.extents[0] == self.lanes
    }

    /// Returns the coordinates of a lane in its group: x, y, z and block.
    pub fn coordinates(&self, lane: usize) -> [usize; AXES] {
        let [x, y, z, _] = self.extents;
        [lane % x, lane / x % y, lane / x / y % z, lane / x / y / z]
    }
}

/// The position of a group in its launch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GroupPosition {
    /// Index of the group's block, or of its first block if the group is a batch of blocks.
    pub block: [u32; 3],
    /// Index (x, y, z) of the first lane in the whole launch.
    pub first_index: [u32; 3],
}

/// The output and the fault of a group.
#[derive(Debug, Default)]
pub(crate) struct GroupResults {
    pub stopped: Option<Box<GroupStop>>,
    pub printed: String,
}

impl GroupResults {
    /// Stops the group with a fault. If the group already has a fault, keeps that fault.
    #[cold]
    pub fn stop_at(&mut self, kind: FaultKind, span: u32, lane: usize, others: u64) -> *const Op {
        self.stopped.get_or_insert_with(|| Box::new(GroupStop { kind, span, lane, others }));
        std::ptr::null()
    }

    /// Appends the results of a warp split to the results of its block.
    pub fn take_from(&mut self, split: &mut GroupResults) {
        let GroupResults { stopped, printed } = std::mem::take(split);
        self.printed.push_str(&printed);
        self.stopped = self.stopped.take().or(stopped);
    }
}

/// Whether a group is paused, and where it continues.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PauseState {
    pub reason: Pause,
    /// The op at which the group continues after a pause.
    pub next: *const Op,
}

impl PauseState {
    /// Pauses the group, so that it later continues with the op after `op`. Returns the null pointer, which ends the
    /// execution.
    pub fn pause_after(&mut self, op: *const Op, reason: Pause) -> *const Op {
        *self = PauseState { reason, next: op.wrapping_add(1) };
        std::ptr::null()
    }

    /// Ends the pause, and returns the op at which the group continues.
    pub fn resume(&mut self) -> *const Op {
        std::mem::replace(self, PauseState { reason: Pause::None, next: std::ptr::null() }).next
    }
}

/// The warps of a block that run as this group; see [`warp_split`](super::warp_split).
#[derive(Clone, Copy, Debug)]
pub(crate) struct WarpSplitState {
    /// Set if mask 0 contains only some warps of the block, because the other warps run separately.
    pub is_split: bool,
    /// Index of this warp split in its block.
    pub number: usize,
    /// The warps of mask 0, one bit each.
    pub warps: u32,
}

/// How long a group has been running polling loops.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollingProgress {
    /// Number of iterations of polling loops.
    pub iterations: u32,
    /// Number of consecutive time slices in which only some of the warps polled.
    pub partial_slices: u32,
    /// Number of all time slices with polling.
    pub slices: u32,
    /// The worker's record of whether its groups only wait for other threads, or null.
    pub worker: *const WorkerStall,
    /// This group's state when it last paused in a polling loop.
    pub snapshot: PollSnapshot,
}

impl PollingProgress {
    pub fn new(worker: *const WorkerStall) -> PollingProgress {
        PollingProgress { iterations: 0, partial_slices: 0, slices: 0, worker, snapshot: PollSnapshot::default() }
    }

    /// Restarts the counts of time slices, after the group was split or has passed a barrier.
    pub fn restart_slices(&mut self) {
        (self.partial_slices, self.slices) = (0, 0);
    }
}

/// The state of the code's regions, for entering their machine code.
pub(crate) struct GroupRegions {
    /// The source of machine code, if the launch may use machine code.
    pub source: Option<NonNull<dyn RegionCodeSource>>,
    /// Number of lookups that found no machine code.
    pub missed_lookups: u32,
    /// For each region, how often its code was entered and exited early.
    pub counts: Vec<RegionCounts>,
    /// For each region, the working memory of its machine code, which is allocated when the region is first entered.
    pub buffers: Vec<Vec<CacheLine>>,
}

/// The state of a running group. The parts that most ops use come first.
pub(crate) struct ThreadGroup {
    pub registers: GroupRegisters,
    pub mask: CurrentMask,
    pub shape: GroupShape,
    pub plans: AddressPlans,
    pub memories: *mut MemoryRt,
    pub ops: *const Op,
    pub code: *const KernelTables,
    pub budget: StepBudget,
    /// The summary of each mask of the code.
    pub masks: Vec<MaskInfo>,
    pub counters: Vec<ForLoopState>,
    /// The receiver of events, if the code reports events.
    pub observer: Option<NonNull<dyn GroupObserver>>,
    pub regions: GroupRegions,
    /// The block's area for shared arrays.
    pub shared: *mut u8,
    pub position: GroupPosition,
    pub results: GroupResults,
    pub pause: PauseState,
    pub split: WarpSplitState,
    pub polling: PollingProgress,
    /// Set if other blocks run concurrently with this group. It then yields to them while it polls.
    pub yields_to_blocks: bool,
    /// Set if everything whose order is unspecified (blocks, warp splits, lanes of atomics) runs in the reverse of the
    /// usual order.
    pub reverse_order: bool,
}

impl ThreadGroup {
    pub fn code(&self) -> &KernelTables {
        // SAFETY: G5: the launch keeps the code alive while groups run.
        unsafe { &*self.code }
    }

    /// Returns the op at a position of the code.
    #[inline(always)]
    pub fn op_at(&self, position: u32) -> *const Op {
        self.ops.wrapping_add(position as usize)
    }

    #[inline(always)]
    pub fn is_active(&self, lane: usize) -> bool {
        // The memory of a mask is stale outside its range of chunks, so lanes there are not active.
        let in_range = self.mask.chunks().contains(&(lane / CHUNK));
        // SAFETY: G2: a mask has room for all lanes of a column, and this lane exists.
        lane < self.shape.lanes && (self.mask.full || in_range && unsafe { *self.mask.lanes.add(lane) != 0 })
    }

    /// Returns whether a mask contains a lane.
    pub fn mask_contains(&self, mask: MaskId, lane: usize) -> bool {
        let info = self.masks[mask as usize];
        let in_range = (info.lo as usize..info.hi as usize).contains(&(lane / CHUNK));
        // SAFETY: C2: the caller's mask belongs to the code, so its register exists.
        let lanes: *const u32 = unsafe { self.registers.slot(self.code().registers.masks[mask as usize]).ptr.cast() };
        // SAFETY: G2: the lane exists and is in the chunks of the mask.
        lane < self.shape.lanes && (info.full || in_range && unsafe { *lanes.add(lane) != 0 })
    }

    /// Returns the lanes of one chunk of a mask. A lane is in the mask if its value is not 0.
    #[inline(always)]
    pub fn mask_lanes(&self, mask: MaskId, chunk: usize) -> [u32; CHUNK] {
        let info = self.masks[mask as usize];
        // SAFETY: C2: the caller's mask belongs to the code, so its register exists.
        let lanes: *const u32 = unsafe { self.registers.slot(self.code().registers.masks[mask as usize]).ptr.cast() };
        self.chunk_lanes(lanes, info.lo as usize..info.hi as usize, info.full, chunk)
    }

    /// Like [`ThreadGroup::mask_lanes`], for the current mask.
    #[inline(always)]
    pub fn active_lanes(&self, chunk: usize) -> [u32; CHUNK] {
        self.chunk_lanes(self.mask.lanes, self.mask.chunks(), self.mask.full, chunk)
    }

    /// Returns the lanes of one chunk of a mask. Chunks outside the range `used` are empty, regardless of the contents
    /// of `lanes`. If `full` is set, all lanes are in the mask.
    #[inline(always)]
    fn chunk_lanes(&self, lanes: *const u32, used: Range<usize>, full: bool, chunk: usize) -> [u32; CHUNK] {
        if full {
            return std::array::from_fn(|i| if chunk * CHUNK + i < self.shape.lanes { !0 } else { 0 });
        }
        if !used.contains(&chunk) {
            return [0; CHUNK];
        }
        // SAFETY: G2: the chunk belongs to the mask, and lanes that do not exist are 0.
        unsafe { lanes.add(chunk * CHUNK).cast::<[u32; CHUNK]>().read_unaligned() }
    }

    /// Returns the active lanes in ascending order.
    pub fn active(&self) -> impl Iterator<Item = usize> + '_ {
        (self.mask.lo * CHUNK..(self.mask.hi * CHUNK).min(self.shape.lanes)).filter(|&l| self.is_active(l))
    }

    pub fn active_count(&self) -> usize {
        self.active().count()
    }

    /// Makes a mask the current one.
    #[inline(always)]
    pub fn set_mask(&mut self, mask: MaskId) {
        // SAFETY: C2: the register of a mask exists.
        let lanes = unsafe { self.registers.slot(self.code().registers.masks[mask as usize]).ptr.cast() };
        self.mask.set(&self.masks[mask as usize], lanes);
    }
}
