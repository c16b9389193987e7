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
use std::sync::atomic::{AtomicBool, Ordering};

use super::access_site::AccessSite;
use super::code::{AXES, KernelTables, MaskId, PollingLoopDef, Reg};
use super::memory::{AddressPlan, AddressRun, MemoryRt};
use super::op_shape::OpShape;
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

/// Number of lanes in a chunk. All loops over lanes process whole chunks.
pub(crate) const CHUNK: usize = 16;
/// Number of lanes in a warp.
pub(crate) const WARP: usize = 32;
/// Maximum number of lanes of a block, and of a group whose lanes can diverge.
pub(crate) const MAX_LANES: usize = 1024;
/// Maximum number of lanes of a group whose lanes cannot diverge.
pub(crate) const MAX_ROW: usize = 4096;

/// The location of a register's lanes.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub ptr: *mut u8,
    /// Bytes from chunk to chunk; 0 for a uniform register.
    pub stride: usize,
}

/// Summary of a mask: the chunks that contain active lanes, and whether all lanes are active.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MaskInfo {
    pub lo: u32,
    pub hi: u32,
    pub full: bool,
    /// The active lanes as a range `first..end`, if they are known to be contiguous.
    pub active_row: Option<(u32, u32)>,
    /// The chunks with active lanes, as ranges. A range may include a few chunks without active lanes.
    pub ranges: LaneRanges,
}

/// Ranges of chunks, in ascending order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneRanges {
    pub count: u32,
    pub ranges: [(u16, u16); LANE_RANGES],
}

/// Maximum number of ranges in [`LaneRanges`]. If there are more, the last range covers all remaining chunks.
pub(crate) const LANE_RANGES: usize = 6;

impl LaneRanges {
    pub const NONE: LaneRanges = LaneRanges { count: 0, ranges: [(0, 0); LANE_RANGES] };

    pub fn single(lo: usize, hi: usize) -> LaneRanges {
        let mut one = LaneRanges { count: 1, ..LaneRanges::default() };
        one.ranges[0] = (lo as u16, hi as u16);
        one
    }

    #[inline(always)]
    pub fn as_slice(&self) -> &[(u16, u16)] {
        self.ranges.get(..self.count as usize).unwrap_or(&self.ranges)
    }

    /// Appends a range of chunks after the last range.
    #[inline(always)]
    pub fn push(&mut self, lo: usize, hi: usize) {
        let count = self.count as usize;
        if count < LANE_RANGES {
            self.ranges[count] = (lo as u16, hi as u16);
            self.count += 1;
        } else {
            self.ranges[LANE_RANGES - 1].1 = hi as u16;
        }
    }
}

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
/// ([`stop_at`]).
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

pub(crate) struct ThreadGroup {
    pub slots: *mut Slot,
    /// The chunks of the current mask: `lo..hi`.
    pub lo: usize,
    pub hi: usize,
    pub ranges: LaneRanges,
    /// Cached address plans of accesses. A plan is valid if its epoch equals `epoch`; otherwise the group's shape or
    /// the layout of memory has changed since the plan was made.
    pub plans: *mut AddressPlan,
    pub epoch: u32,
    /// The first and the last active lane.
    pub first_lane: usize,
    pub last_lane: usize,
    /// Whether `first_lane` and `last_lane` are valid for the current mask.
    pub ends_known: bool,
    /// Set if all lanes from `first_lane` to `last_lane` are known to be active.
    pub is_contiguous: bool,
    /// The lanes of the current mask, each 0 or !0.
    pub mask: *const u32,
    /// Set if all lanes of the group are active.
    pub full: bool,
    pub lanes: usize,
    /// Number of chunks in a lane column.
    pub column_chunks: usize,
    /// Extents of the group along x, y, z, and the blocks of a batch.
    pub shape: [usize; AXES],
    pub memories: *mut MemoryRt,
    /// For each register, the slot that points to its own memory, used while the register is not a view.
    pub homes: *const Slot,
    pub masks: Vec<MaskInfo>,
    pub counters: Vec<ForLoopState>,
    pub ops: *const Op,
    pub shared: *mut u8,
    pub code: *const KernelTables,
    /// Loop iterations until the next check of the stop flag.
    pub iterations_left: u32,
    pub granted_iterations: u32,
    pub steps: u64,
    pub max_steps: u64,
    pub stop: *const AtomicBool,
    /// Index of the group's block, or of its first block if the group is a batch of blocks.
    pub block: [u32; 3],
    /// Index (x, y, z) of the first lane in the whole launch.
    pub first_index: [u32; 3],
    pub stopped: Option<Box<GroupStop>>,
    pub printed: String,
    /// The op at which the group continues after a pause.
    pub resume: *const Op,
    pub pause: Pause,
    /// Set if mask 0 contains only some warps of the block, because the other warps run separately
    /// ([`warp_split`](super::warp_split)).
    pub is_split: bool,
    /// Set if other blocks run concurrently with this group. It then yields to them while it polls.
    pub yields_to_blocks: bool,
    /// Set if everything whose order is unspecified (blocks, warp splits, lanes of atomics) runs in the reverse of the
    /// usual order.
    pub reverse_order: bool,
    /// Index of this warp split in its block.
    pub split_number: usize,
    /// The warps of mask 0, one bit each.
    pub warps: u32,
    /// Number of iterations of polling loops.
    pub polling_iterations: u32,
    /// Number of consecutive time slices in which only some of the warps polled; and the number of all time slices with
    /// polling (`polling_slices`).
    pub partial_polling_slices: u32,
    pub polling_slices: u32,
    /// The worker's record of whether its groups only wait for other threads, or null; and this group's state when it
    /// last paused in a polling loop.
    pub worker: *const WorkerStall,
    pub poll_snapshot: PollSnapshot,
    /// The source of machine code, if the launch may use machine code; the number of lookups that found none; and for
    /// each region, how often its code was entered and exited early.
    pub region_code: Option<NonNull<dyn RegionCodeSource>>,
    pub missed_lookups: u32,
    pub region_counts: Vec<RegionCounts>,
    /// For each region, the working memory of its machine code, which is allocated when the region is first entered.
    pub jit_buffers: Vec<Vec<CacheLine>>,
    /// The receiver of events, if the code reports events.
    pub observer: Option<NonNull<dyn GroupObserver>>,
}

/// Number of loop iterations between two checks of the stop flag.
pub(crate) const TICKS: u32 = 256;

impl ThreadGroup {
    /// # Safety
    /// `reg` is a register of the code.
    #[inline(always)]
    pub unsafe fn slot(&self, reg: Reg) -> Slot {
        // SAFETY: C1: the caller's register belongs to the code, and each register has a slot (G1).
        unsafe { *self.slots.add(reg as usize) }
    }

    pub fn code(&self) -> &KernelTables {
        // SAFETY: G5: the launch keeps the code alive while groups run.
        unsafe { &*self.code }
    }

    /// Reads the first lane of a register.
    ///
    /// # Safety
    /// The register holds lanes of `T`'s size.
    #[inline(always)]
    pub unsafe fn first<T: Copy>(&self, reg: Reg) -> T {
        // SAFETY: C1, G1: the register has lanes of `T`'s size, and the first one is initialized.
        unsafe { self.slot(reg).ptr.cast::<T>().read_unaligned() }
    }

    /// Writes a value to all lanes of a uniform register.
    ///
    /// # Safety
    /// The register is uniform and holds lanes of `T`'s size.
    #[inline(always)]
    pub unsafe fn broadcast<T: Copy>(&self, reg: Reg, value: T) {
        // SAFETY: C1, G1: the register is uniform, so it consists of one chunk of lanes of `T`'s size.
        unsafe { self.slot(reg).ptr.cast::<[T; CHUNK]>().write_unaligned([value; CHUNK]) }
    }

    /// Reads one lane of a register, uniform or not.
    ///
    /// # Safety
    /// As for [`ThreadGroup::first`]; `lane` is less than the padded lane count.
    #[inline(always)]
    pub unsafe fn lane<T: Copy>(&self, reg: Reg, lane: usize) -> T {
        // SAFETY: C1, G1: the register has lanes of `T`'s size, and the caller's lane exists.
        unsafe {
            let slot = self.slot(reg);
            slot.ptr.add(lane / CHUNK * slot.stride).cast::<T>().add(lane % CHUNK).read_unaligned()
        }
    }

    /// # Safety
    /// As for [`ThreadGroup::lane`].
    #[inline(always)]
    pub unsafe fn set_lane<T: Copy>(&self, reg: Reg, lane: usize, value: T) {
        // SAFETY: C1, G1: the register has lanes of `T`'s size, and the caller's lane exists.
        unsafe {
            let slot = self.slot(reg);
            slot.ptr.add(lane / CHUNK * slot.stride).cast::<T>().add(lane % CHUNK).write_unaligned(value)
        }
    }

    /// Returns the op at a position of the code.
    #[inline(always)]
    pub fn op_at(&self, position: u32) -> *const Op {
        self.ops.wrapping_add(position as usize)
    }

    #[inline(always)]
    pub fn is_active(&self, lane: usize) -> bool {
        // The memory of a mask is stale outside its range of chunks, so lanes there are not active.
        let in_range = (self.lo..self.hi).contains(&(lane / CHUNK));
        // SAFETY: G2: a mask has room for all lanes of a column, and this lane exists.
        lane < self.lanes && (self.full || in_range && unsafe { *self.mask.add(lane) != 0 })
    }

    /// Returns whether a mask contains a lane.
    pub fn mask_contains(&self, mask: MaskId, lane: usize) -> bool {
        let info = self.masks[mask as usize];
        let in_range = (info.lo as usize..info.hi as usize).contains(&(lane / CHUNK));
        // SAFETY: C2: the caller's mask belongs to the code, so its register exists.
        let lanes: *const u32 = unsafe { self.slot(self.code().masks[mask as usize]).ptr.cast() };
        // SAFETY: G2: the lane exists and is in the chunks of the mask.
        lane < self.lanes && (info.full || in_range && unsafe { *lanes.add(lane) != 0 })
    }

    /// Returns the lanes of one chunk of a mask. A lane is in the mask if its value is not 0.
    #[inline(always)]
    pub fn mask_lanes(&self, mask: MaskId, chunk: usize) -> [u32; CHUNK] {
        let info = self.masks[mask as usize];
        // SAFETY: C2: the caller's mask belongs to the code, so its register exists.
        let lanes: *const u32 = unsafe { self.slot(self.code().masks[mask as usize]).ptr.cast() };
        self.chunk_lanes(lanes, info.lo as usize..info.hi as usize, info.full, chunk)
    }

    /// Like [`ThreadGroup::mask_lanes`], for the current mask.
    #[inline(always)]
    pub fn active_lanes(&self, chunk: usize) -> [u32; CHUNK] {
        self.chunk_lanes(self.mask, self.lo..self.hi, self.full, chunk)
    }

    /// Returns the lanes of one chunk of a mask. Chunks outside the range `used` are empty, regardless of the contents
    /// of `lanes`. If `full` is set, all lanes are in the mask.
    #[inline(always)]
    fn chunk_lanes(&self, lanes: *const u32, used: Range<usize>, full: bool, chunk: usize) -> [u32; CHUNK] {
        if full {
            return std::array::from_fn(|i| if chunk * CHUNK + i < self.lanes { !0 } else { 0 });
        }
        if !used.contains(&chunk) {
            return [0; CHUNK];
        }
        // SAFETY: G2: the chunk belongs to the mask, and lanes that do not exist are 0.
        unsafe { lanes.add(chunk * CHUNK).cast::<[u32; CHUNK]>().read_unaligned() }
    }

    /// Returns the active lanes in ascending order.
    pub fn active(&self) -> impl Iterator<Item = usize> + '_ {
        (self.lo * CHUNK..(self.hi * CHUNK).min(self.lanes)).filter(|&l| self.is_active(l))
    }

    pub fn active_count(&self) -> usize {
        self.active().count()
    }

    /// Returns the coordinates of a lane in its group: x, y, z and block.
    pub fn coordinates(&self, lane: usize) -> [usize; AXES] {
        let [x, y, z, _] = self.shape;
        [lane % x, lane / x % y, lane / x / y % z, lane / x / y / z]
    }

    /// Makes a mask the current one.
    #[inline(always)]
    pub fn set_mask(&mut self, mask: u16) {
        let info = &self.masks[mask as usize];
        (self.lo, self.hi, self.full) = (info.lo as usize, info.hi as usize, info.full);
        // Copy only the ranges in use, usually one. Reading the whole array shortly after some of its ranges were
        // written would stall, because store forwarding fails.
        self.ranges.count = info.ranges.count;
        self.ranges.ranges[0] = info.ranges.ranges[0];
        if info.ranges.count > 1 {
            self.ranges.ranges = info.ranges.ranges;
        }
        self.ends_known = info.active_row.is_some();
        self.is_contiguous = info.active_row.is_some();
        if let Some((from, to)) = info.active_row {
            (self.first_lane, self.last_lane) = (from as usize, to as usize - 1);
        }
        // SAFETY: C2: the register of a mask exists.
        self.mask = unsafe { self.slot(self.code().masks[mask as usize]).ptr.cast() };
    }

    /// Finds the first and the last active lane.
    #[inline(always)]
    pub fn find_ends(&mut self) {
        if self.ends_known {
            return;
        }
        self.ends_known = true;
        let ends = |chunk: usize| {
            // SAFETY: G2: a mask has room for all lanes of a column, and this chunk exists.
            let lanes = unsafe { self.mask.add(chunk * CHUNK).cast::<[u32; CHUNK]>().read_unaligned() };
            let bits = lanes.iter().enumerate().fold(0u32, |bits, (i, &l)| bits | u32::from(l != 0) << i);
            (chunk * CHUNK + bits.trailing_zeros() as usize, chunk * CHUNK + bits.checked_ilog2().unwrap_or(0) as usize)
        };
        self.first_lane = ends(self.lo).0;
        self.last_lane = ends(self.hi - 1).1;
    }

    /// Returns the first and the last active lane.
    #[inline(always)]
    pub fn active_bounds(&mut self) -> (usize, usize) {
        self.find_ends();
        (self.first_lane, self.last_lane)
    }

    /// Counts a loop iteration. Returns false if the launch has been asked to stop or has reached its step limit.
    #[inline(always)]
    pub fn count_iteration(&mut self) -> bool {
        self.iterations_left -= 1;
        self.iterations_left > 0 || self.check_stop()
    }

    #[cold]
    #[inline(never)]
    fn check_stop(&mut self) -> bool {
        self.steps += u64::from(self.granted_iterations);
        // SAFETY: G5: the flag lives as long as the launch.
        let stopped = unsafe { (*self.stop).load(Ordering::Relaxed) };
        self.grant_iterations();
        self.iterations_left > 0 && !stopped
    }

    /// Schedules the next check of the stop flag.
    pub fn grant_iterations(&mut self) {
        let left = if self.max_steps == 0 { u64::MAX } else { self.max_steps.saturating_sub(self.steps) };
        self.granted_iterations = left.min(u64::from(TICKS)) as u32;
        self.iterations_left = self.granted_iterations;
    }
}

/// Stops the group with a fault. If the group already has a fault, keeps that fault.
#[cold]
pub(crate) fn stop_at(g: &mut ThreadGroup, kind: FaultKind, span: u32, lane: usize, others: u64) -> *const Op {
    g.stopped.get_or_insert_with(|| Box::new(GroupStop { kind, span, lane, others }));
    std::ptr::null()
}
