//! The execution state of one lane group: the lanes of a block (or a row of a `threads` launch) that run in lockstep.
//!
//! # Safety
//! Ops work on raw pointers into areas that the group owns (registers, shared and local memory) and into the launch's buffers.
//! What they rely on are the rules of compiled code, C1 to C13 (see [`verify`](super::verify)), and what holds of each group that
//! runs: a [`frame`](super::frame) establishes it, and ops keep it. Comments on `unsafe` blocks name both.
//! - **G1 registers**: the slot of each register gives initialized memory of the frame, which no other register, memory or
//!   reference overlaps: a chunk of a uniform register, all chunks of a column of another one. The slot of one that views memory may
//!   give elements of an array instead, in the chunks of the mask for which it was redirected.
//! - **G2 masks**: the chunks of a mask, from its first to its last and so those of its ranges, are chunks of columns. In its
//!   ranges its lanes are 0 or !0; those that do not exist are 0, as are all between the ranges of a mask that has more than one.
//! - **G3 memories**: a memory is good for its bytes, and all elements within the extents of its axes are within them: the launch is
//!   refused where arrays do not suit ([`misfit`](super::memory::layout::misfit)). What the kernel may write is nobody else's
//!   while it runs. Elements are aligned where they are updated atomically.
//! - **G4 tables**: there is a slot and a home for each register, a summary for each mask, a counter for each loop, a plan for each
//!   access, and a memory for each of the code's.
//! - **G5 lifetimes**: ops, code, machine code, observer and stop flag outlive the run, and ops and code do not change.
//! - **G6 instruction set**: the machine has the instructions that the code was compiled for.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use super::code::{AXES, Code, MaskId, Reg, WaitDef};
use super::memory::{MemoryRt, Plan, Run};
use super::note::Note;
use super::shape::Shape;
use crate::device::FaultKind;
use crate::device::stall::WorkerStall;
use crate::ir::def::Scope;

/// Executes an op and returns the next one; null ends the run.
pub(crate) type Call = unsafe fn(&mut Group, *const Op) -> *const Op;

/// The function of an op; in builds with debug assertions also its shape, for the verifier.
#[derive(Clone, Copy)]
pub struct OpFn {
    pub(crate) call: Call,
    #[cfg(debug_assertions)]
    shape: &'static Shape,
}

impl OpFn {
    pub(crate) fn new(call: Call, shape: &'static Shape) -> OpFn {
        #[cfg(not(debug_assertions))]
        let _ = shape;
        OpFn {
            call,
            #[cfg(debug_assertions)]
            shape,
        }
    }

    /// Returns the shape, in builds that keep it.
    pub(crate) fn shape(self) -> Option<&'static Shape> {
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

/// Lanes per chunk: the unit of every loop over lanes.
pub(crate) const CHUNK: usize = 16;
/// Lanes of a warp.
pub(crate) const WARP: usize = 32;
/// The largest group whose lanes may diverge, and of a block.
pub(crate) const MAX_LANES: usize = 1024;
/// The largest group without divergence.
pub(crate) const MAX_ROW: usize = 4096;

/// The address of a register.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub ptr: *mut u8,
    /// Bytes from chunk to chunk; 0 for a uniform.
    pub stride: usize,
}

/// A summary of a mask: which chunks hold active lanes, and whether all lanes are active.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MaskInfo {
    pub lo: u32,
    pub hi: u32,
    pub full: bool,
    /// The active lanes, if they are known to be the contiguous range from one lane up to, not including, another.
    pub row: Option<(u32, u32)>,
    /// The chunks with active lanes, as ranges; short gaps may be covered too.
    pub ranges: LaneRanges,
}

/// Ranges of chunks, ascending.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LaneRanges {
    pub count: u32,
    pub at: [(u16, u16); LANE_RANGES],
}

/// The largest number of ranges; the last one covers all that follows.
pub(crate) const LANE_RANGES: usize = 6;

impl LaneRanges {
    pub const NONE: LaneRanges = LaneRanges { count: 0, at: [(0, 0); LANE_RANGES] };

    pub fn one(lo: usize, hi: usize) -> LaneRanges {
        let mut one = LaneRanges { count: 1, ..LaneRanges::default() };
        one.at[0] = (lo as u16, hi as u16);
        one
    }

    #[inline(always)]
    pub fn list(&self) -> &[(u16, u16)] {
        self.at.get(..self.count as usize).unwrap_or(&self.at)
    }

    /// Appends a range of chunks behind all others.
    #[inline(always)]
    pub fn add(&mut self, lo: usize, hi: usize) {
        let count = self.count as usize;
        if count < LANE_RANGES {
            self.at[count] = (lo as u16, hi as u16);
            self.count += 1;
        } else {
            self.at[LANE_RANGES - 1].1 = hi as u16;
        }
    }
}

/// The iteration state of a running `For` loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    pub iteration: u64,
    /// The smallest trip count of any lane.
    pub least: u64,
    /// The largest trip count of any lane.
    pub most: u64,
}

/// Why a group does not continue by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It runs or has finished.
    #[default]
    None,
    /// It is ready: it yielded to other groups.
    Iteration,
    /// Some of its warps poll for the result of others of its warps, which therefore have to run separately. It is paused behind
    /// the [`Poll`](super::control::Poll).
    Fork,
    /// It waits at a barrier for the other warp splits of its block.
    Barrier,
    /// It waits for all blocks at a grid barrier.
    Grid,
}

/// An access of a region's machine code that is about to run: the elements of the first iterations, and for each loop around it
/// its trip count and the bytes from one iteration to the next.
pub(crate) struct Reach {
    pub note: u32,
    pub run: Run,
    pub loops: [(usize, isize); 3],
}

/// What some lanes of a batch in machine code are about to access.
pub(crate) struct Places<'a> {
    pub note: u32,
    /// The first lane of the batch.
    pub lane: usize,
    /// A bit for each lane of the batch that takes part.
    pub active: u64,
    /// The lanes of a vector.
    pub width: usize,
    /// For each vector, the address of its first lane's element, or what offsets are relative to.
    pub bases: [*mut u8; 4],
    pub apart: Apart<'a>,
    /// The region only loads from the memory.
    pub only_loads: bool,
}

/// How far from the base of their vector elements are.
#[derive(Clone, Copy)]
pub(crate) enum Apart<'a> {
    /// The bytes from each lane's to the next.
    Step(usize),
    /// Bytes, for each lane of the batch.
    Lanes(&'a [i32; 64]),
}

/// What is known of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It is correct, and recorded.
    Clean,
    /// So are all loads from the same memory by these or other lanes, until the threads of the block synchronize or store to it.
    Settled,
    /// It might be wrong. It may have been recorded.
    Doubtful,
}

/// Receives the events of a group. A handler that finds a fault stops the group ([`stop_at`]).
///
/// # Safety
/// The methods are called by ops of the group's code only, with notes of that code.
pub trait Observer {
    /// The active lanes are about to access memory.
    unsafe fn touches(&mut self, g: &mut Group, note: &Note);
    /// The lanes of a full group are about to load in all iterations of a loop: the elements of the first iteration, the trip
    /// count, and the bytes from one iteration to the next. Returns false if the loop has to report its loads one iteration at a
    /// time.
    unsafe fn loads(&mut self, g: &mut Group, note: &Note, run: &Run, iterations: usize, iteration: isize) -> bool;
    /// All threads of a block are about to reduce a shared array by a tree, in the loop with these accesses: `distance` of them
    /// in the first iteration, half as many in the next, with barriers in between. Returns false if the loop has to report one
    /// iteration at a time.
    unsafe fn tree(&mut self, g: &mut Group, notes: &[Note], distance: usize) -> bool;
    /// The active lanes have (re)declared local array `memory`.
    unsafe fn declared(&mut self, g: &mut Group, memory: u32);
    /// All threads of the block have synchronized.
    fn block_met(&mut self, g: &mut Group);
    /// The active lanes have synchronized warp by warp.
    fn warps_met(&mut self, g: &mut Group);
    fn fenced(&mut self, g: &mut Group, scope: Scope);
    /// The lanes of mask `from` that are not active diverged at `span`; with `first`, only those without an earlier record.
    unsafe fn parted(&mut self, g: &mut Group, from: MaskId, span: u32, first: bool);
    /// The active lanes leave for good, at `span`.
    fn left(&mut self, g: &mut Group, span: u32);
    /// The active lanes enter a loop: none of them has left it yet.
    fn gathered(&mut self, g: &mut Group);
    /// A polling loop starts another iteration.
    fn polls(&mut self, g: &mut Group, wait: &WaitDef);
    /// Describes what the loop that the group is in waits for, if nothing has changed for a while.
    fn waits(&self, g: &Group) -> Option<String>;
    /// Returns where thread `lane` diverged, if that was recorded.
    fn parted_at(&self, lane: usize) -> Option<u32>;
    /// All active lanes are about to make the accesses that a function returns, which are in bounds, and the same for the same
    /// words of a region. Returns false if one of them might have to be reported; only accesses among these have been recorded then.
    unsafe fn reaches(
        &mut self,
        g: &mut Group,
        region: usize,
        words: &[u64],
        reaches: &dyn Fn(&mut Group) -> Vec<Reach>,
    ) -> bool;
    /// The active lanes begin a segment of the code; those of mask `from` would have, had they not parted.
    unsafe fn begins(&mut self, _g: &mut Group, _segment: u32, _from: MaskId) {}
    /// Some lanes are about to access elements that are in bounds.
    unsafe fn places(&mut self, g: &mut Group, places: &Places<'_>) -> Told;
    /// Returns whether no two threads conflict on the elements of a memory: so it is proved, or so the launch's indices tell.
    fn is_owned(&self, memory: u32) -> bool;
    /// Returns the bytes that say which cells of such a memory, of this size, have been written, and their value, if that matters.
    fn marks(&mut self, memory: u32, size: usize) -> Option<(*mut u8, u8)>;
}

/// The machine code of a region.
pub(crate) trait RegionCode: Send + Sync {
    /// Runs the region for the active lanes of a group. Returns false, with everything as it was, if it left.
    ///
    /// # Safety
    /// The region is one of the group's code, at which the group is.
    unsafe fn run(&self, g: &mut Group, region: usize) -> bool;
    /// Returns whether it also leaves for no reason, for tests.
    fn is_forced(&self) -> bool;

    /// Returns the address of its code, and the number of bytes.
    fn place(&self) -> (usize, usize);
}

/// Where a launch gets machine code from.
pub(crate) trait Coding: Sync {
    /// Returns the machine code of a region, if there is some by now. `missed` is how often a worker found none in this launch.
    fn machine(&self, region: usize, missed: &mut u32, code: &Code) -> Option<&dyn RegionCode>;
}

/// A line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Line(pub [u64; 8]);

/// How often a region was entered, and left before its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub entered: u32,
    pub left: u32,
}

/// The state of a group when it last paused in a polling loop.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollSnapshot {
    pub op: *const Op,
    pub lanes: usize,
    /// Iterations of all loops until then, and since the previous pause.
    pub iterations: u64,
    pub iterations_since: u64,
    /// Number of consecutive pauses with the same state.
    pub repeats: u32,
}

impl Default for PollSnapshot {
    fn default() -> PollSnapshot {
        PollSnapshot { op: std::ptr::null(), lanes: 0, iterations: 0, iterations_since: 0, repeats: 0 }
    }
}

/// Why a group stopped.
#[derive(Debug)]
pub struct Stop {
    pub kind: FaultKind,
    /// Index into the code's spans.
    pub span: u32,
    pub lane: usize,
    pub others: u64,
}

pub(crate) struct Group {
    pub slots: *mut Slot,
    /// The chunks of the current mask, from `lo` up to `hi`.
    pub lo: usize,
    pub hi: usize,
    pub ranges: LaneRanges,
    /// Cached plans of accesses, valid if of this epoch: neither the shape nor the layout of memory has changed since.
    pub plans: *mut Plan,
    pub epoch: u32,
    /// The first and the last active lane.
    pub first_lane: usize,
    pub last_lane: usize,
    /// Whether these are valid for the current mask.
    pub ends_known: bool,
    /// All lanes from the first to the last active one are known to be active.
    pub solid: bool,
    /// Lanes of the current mask: `u32`s of 0 or !0.
    pub mask: *const u32,
    /// All existing lanes are active.
    pub full: bool,
    pub lanes: usize,
    /// Chunks that a register has memory for.
    pub column_chunks: usize,
    /// Extents along x, y, z, and blocks.
    pub shape: [usize; AXES],
    pub memories: *mut MemoryRt,
    /// The slots of registers where they do not view memory.
    pub homes: *const Slot,
    pub masks: Vec<MaskInfo>,
    pub counters: Vec<Counter>,
    pub ops: *const Op,
    pub shared: *mut u8,
    pub code: *const Code,
    /// Loop iterations until the next check of the stop flag.
    pub ticks: u32,
    pub granted: u32,
    pub steps: u64,
    pub max_steps: u64,
    pub stop: *const AtomicBool,
    /// The block; of a batch, the first one.
    pub block: [u32; 3],
    /// x, y, z of the first lane over the whole launch.
    pub first_index: [u32; 3],
    pub stopped: Option<Box<Stop>>,
    pub printed: String,
    /// The op to continue with after a pause.
    pub resume: *const Op,
    pub pause: Pause,
    /// Mask 0 does not hold all lanes of the block: other warps run separately ([`warp_split`](super::warp_split)).
    pub is_split: bool,
    /// The group yields while it polls, because other blocks run beside it and not only its own warps.
    pub shares: bool,
    /// Whatever may happen in any order happens in the reverse of the usual one.
    pub backward: bool,
    /// The number of this warp split in its block.
    pub part: usize,
    /// The warps of mask 0, one bit each.
    pub warps: u32,
    /// Iterations of polling loops.
    pub polled: u32,
    /// Consecutive time slices in which only some of the warps polled; and the number of all slices with polling.
    pub lonely: u32,
    pub looks: u32,
    /// Where the worker records whether its groups only wait, or null; and what this group looked like then.
    pub worker: *const WorkerStall,
    pub poll_snapshot: PollSnapshot,
    /// Where machine code comes from, if the launch may have some; how often there was none; and what became of entering it, by
    /// region.
    pub coding: Option<NonNull<dyn Coding>>,
    pub missed: u32,
    pub tallies: Vec<Tally>,
    /// The memory that machine code uses, by region; empty until it is first entered.
    pub rooms: Vec<Vec<Line>>,
    /// The receiver of sanitizer events, if the code has any.
    pub observer: Option<NonNull<dyn Observer>>,
}

/// Loop iterations between two checks of the stop flag.
pub(crate) const TICKS: u32 = 256;

impl Group {
    /// # Safety
    /// `reg` is a register of the code.
    #[inline(always)]
    pub unsafe fn slot(&self, reg: Reg) -> Slot {
        // SAFETY: C1: the caller's register is one of the code's, and there is a slot for each (G1).
        unsafe { *self.slots.add(reg as usize) }
    }

    pub fn code(&self) -> &Code {
        // SAFETY: G5: the launch keeps the code alive while groups run.
        unsafe { &*self.code }
    }

    /// Reads the first lane of a register.
    ///
    /// # Safety
    /// The register holds lanes of `T`'s size.
    #[inline(always)]
    pub unsafe fn first<T: Copy>(&self, reg: Reg) -> T {
        // SAFETY: C1, G1: the register has lanes of `T`'s size, the first of which is initialized.
        unsafe { self.slot(reg).ptr.cast::<T>().read_unaligned() }
    }

    /// Broadcasts a value to all lanes of a uniform register.
    ///
    /// # Safety
    /// The register is uniform and holds lanes of `T`'s size.
    #[inline(always)]
    pub unsafe fn broadcast<T: Copy>(&self, reg: Reg, value: T) {
        // SAFETY: C1, G1: the register is uniform, a chunk of lanes of `T`'s size.
        unsafe { self.slot(reg).ptr.cast::<[T; CHUNK]>().write_unaligned([value; CHUNK]) }
    }

    /// Reads one lane of a register (uniform or not).
    ///
    /// # Safety
    /// As [`Group::first`]; `lane` is below the padded lane count.
    #[inline(always)]
    pub unsafe fn lane<T: Copy>(&self, reg: Reg, lane: usize) -> T {
        // SAFETY: C1, G1: the register has lanes of `T`'s size, and the caller's lane exists.
        unsafe {
            let slot = self.slot(reg);
            slot.ptr.add(lane / CHUNK * slot.stride).cast::<T>().add(lane % CHUNK).read_unaligned()
        }
    }

    /// # Safety
    /// As [`Group::lane`].
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
    pub fn at(&self, position: u32) -> *const Op {
        self.ops.wrapping_add(position as usize)
    }

    #[inline(always)]
    pub fn is_active(&self, lane: usize) -> bool {
        // Outside its range of chunks a mask's memory is stale.
        let in_range = (self.lo..self.hi).contains(&(lane / CHUNK));
        // SAFETY: G2: masks have room for all lanes of a column, and this one exists.
        lane < self.lanes && (self.full || in_range && unsafe { *self.mask.add(lane) != 0 })
    }

    /// Returns whether a mask contains a lane.
    pub fn has(&self, mask: MaskId, lane: usize) -> bool {
        let info = self.masks[mask as usize];
        let in_range = (info.lo as usize..info.hi as usize).contains(&(lane / CHUNK));
        // SAFETY: C2: the caller's mask is one of the code's, whose register exists.
        let lanes: *const u32 = unsafe { self.slot(self.code().masks[mask as usize]).ptr.cast() };
        // SAFETY: G2: the lane exists and is in the chunks of the mask.
        lane < self.lanes && (info.full || in_range && unsafe { *lanes.add(lane) != 0 })
    }

    /// Returns the lanes of a chunk of a mask, not 0 where they are in it.
    #[inline(always)]
    pub fn lanes_of(&self, mask: MaskId, chunk: usize) -> [u32; CHUNK] {
        let info = self.masks[mask as usize];
        // SAFETY: C2: the caller's mask is one of the code's, whose register exists.
        let lanes: *const u32 = unsafe { self.slot(self.code().masks[mask as usize]).ptr.cast() };
        self.chunk_of(lanes, (info.lo as usize, info.hi as usize), info.full, chunk)
    }

    /// As [`Group::lanes_of`], of the current mask.
    #[inline(always)]
    pub fn active_lanes(&self, chunk: usize) -> [u32; CHUNK] {
        self.chunk_of(self.mask, (self.lo, self.hi), self.full, chunk)
    }

    #[inline(always)]
    fn chunk_of(&self, lanes: *const u32, (lo, hi): (usize, usize), full: bool, chunk: usize) -> [u32; CHUNK] {
        if full {
            return std::array::from_fn(|i| if chunk * CHUNK + i < self.lanes { !0 } else { 0 });
        }
        if !(lo..hi).contains(&chunk) {
            return [0; CHUNK];
        }
        // SAFETY: G2: the chunk is one of the mask's, whose lanes that do not exist are 0.
        unsafe { lanes.add(chunk * CHUNK).cast::<[u32; CHUNK]>().read_unaligned() }
    }

    /// Returns the active lanes in ascending order.
    pub fn active(&self) -> impl Iterator<Item = usize> + '_ {
        (self.lo * CHUNK..(self.hi * CHUNK).min(self.lanes)).filter(|&l| self.is_active(l))
    }

    pub fn active_count(&self) -> usize {
        self.active().count()
    }

    /// Returns x, y, z and block of a lane in its group.
    pub fn coordinates(&self, lane: usize) -> [usize; AXES] {
        let [x, y, z, _] = self.shape;
        [lane % x, lane / x % y, lane / x / y % z, lane / x / y / z]
    }

    /// Makes a mask the current one.
    #[inline(always)]
    pub fn enter(&mut self, mask: u16) {
        let info = &self.masks[mask as usize];
        (self.lo, self.hi, self.full) = (info.lo as usize, info.hi as usize, info.full);
        // Usually there is one range; reading all of an array of which parts were just written would stall on store forwarding.
        self.ranges.count = info.ranges.count;
        self.ranges.at[0] = info.ranges.at[0];
        if info.ranges.count > 1 {
            self.ranges.at = info.ranges.at;
        }
        self.ends_known = info.row.is_some();
        self.solid = info.row.is_some();
        if let Some((from, to)) = info.row {
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
            // SAFETY: G2: masks have room for all lanes of a column, and this one exists.
            let lanes = unsafe { self.mask.add(chunk * CHUNK).cast::<[u32; CHUNK]>().read_unaligned() };
            let bits = lanes.iter().enumerate().fold(0u32, |bits, (i, &l)| bits | u32::from(l != 0) << i);
            (chunk * CHUNK + bits.trailing_zeros() as usize, chunk * CHUNK + bits.checked_ilog2().unwrap_or(0) as usize)
        };
        self.first_lane = ends(self.lo).0;
        self.last_lane = ends(self.hi - 1).1;
    }

    /// Returns the first and the last active lane.
    #[inline(always)]
    pub fn ends(&mut self) -> (usize, usize) {
        self.find_ends();
        (self.first_lane, self.last_lane)
    }

    /// Counts a loop iteration; returns false if the run has to stop.
    #[inline(always)]
    pub fn iteration(&mut self) -> bool {
        self.ticks -= 1;
        self.ticks > 0 || self.look_outside()
    }

    #[cold]
    #[inline(never)]
    fn look_outside(&mut self) -> bool {
        self.steps += u64::from(self.granted);
        // SAFETY: G5: the flag lives as long as the launch.
        let stopped = unsafe { (*self.stop).load(Ordering::Relaxed) };
        self.grant_iterations();
        self.ticks > 0 && !stopped
    }

    /// Schedules the next check of the stop flag.
    pub fn grant_iterations(&mut self) {
        let left = if self.max_steps == 0 { u64::MAX } else { self.max_steps.saturating_sub(self.steps) };
        self.granted = left.min(u64::from(TICKS)) as u32;
        self.ticks = self.granted;
    }
}

/// Stops the group; the first fault is kept.
#[cold]
pub(crate) fn stop_at(g: &mut Group, kind: FaultKind, span: u32, lane: usize, others: u64) -> *const Op {
    g.stopped.get_or_insert_with(|| Box::new(Stop { kind, span, lane, others }));
    std::ptr::null()
}
