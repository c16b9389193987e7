//! The state of one lane group: the lanes of a block (or a row of a `threads` launch) that run in lockstep.
//!
//! # Safety
//! Ops work on raw pointers into areas that the group owns (registers, shared and local memory) and into the launch's
//! buffers. The compiler guarantees that an op's register numbers are in range and that 8-byte ops get 8-byte registers.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

use super::code::{AXES, Code, MaskId, Op, Reg};
use super::fault::Stop;
use super::listen::Listener;
use super::memory::{MemoryRt, Plan};

/// Lanes per chunk: the unit of every loop over lanes.
pub(crate) const CHUNK: usize = 16;
/// The largest group: that of a block, and any in which lanes may part.
pub(crate) const MAX_LANES: usize = 1024;
/// The largest group whose lanes do everything together.
pub(crate) const MAX_ROW: usize = 4096;

/// Where a register lies.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub ptr: *mut u8,
    /// Bytes from chunk to chunk; 0 for a uniform.
    pub stride: usize,
}

/// Which chunks of a mask hold active lanes, and whether all lanes are active.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MaskInfo {
    pub lo: u32,
    pub hi: u32,
    pub full: bool,
    /// The active lanes, if they are known to be all from one lane up to, not including, another.
    pub row: Option<(u32, u32)>,
    /// The chunks with active lanes, as stretches; short gaps may be covered too.
    pub stretches: Stretches,
}

/// Ranges of chunks, ascending.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stretches {
    pub count: u32,
    pub at: [(u16, u16); STRETCHES],
}

/// What lies further apart than this many stretches is covered together.
pub(crate) const STRETCHES: usize = 6;

impl Stretches {
    pub const NONE: Stretches = Stretches { count: 0, at: [(0, 0); STRETCHES] };

    pub fn one(lo: usize, hi: usize) -> Stretches {
        let mut one = Stretches { count: 1, ..Stretches::default() };
        one.at[0] = (lo as u16, hi as u16);
        one
    }

    #[inline(always)]
    pub fn list(&self) -> &[(u16, u16)] {
        self.at.get(..self.count as usize).unwrap_or(&self.at)
    }

    /// Takes in chunks behind all so far.
    #[inline(always)]
    pub fn add(&mut self, lo: usize, hi: usize) {
        let count = self.count as usize;
        if count < STRETCHES {
            self.at[count] = (lo as u16, hi as u16);
            self.count += 1;
        } else {
            self.at[STRETCHES - 1].1 = hi as u16;
        }
    }
}

/// The turns of a running `For` loop.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counter {
    pub turn: u64,
    /// All lanes take this many turns,
    pub least: u64,
    /// and none more than this.
    pub most: u64,
}

/// Why a group does not go on by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pause {
    /// It runs or is done.
    #[default]
    None,
    /// It may go on: others had to have their turn.
    Turn,
    /// Some of its warps wait in a loop for what others may do, which have to run by themselves for that. It waits behind the
    /// [`Poll`](super::control::Poll).
    Fork,
    /// It waits for the other parts of its block, at a barrier.
    Barrier,
    /// It waits for all blocks.
    Grid,
}

pub(crate) struct Group {
    pub slots: *mut Slot,
    /// Chunks of the current mask.
    pub lo: usize,
    pub hi: usize,
    pub stretches: Stretches,
    /// Plans of accesses, good if they are of this epoch: the shape and the arrangement of memory are as they were.
    pub plans: *mut Plan,
    pub epoch: u32,
    /// The first and the last active lane.
    pub first_lane: usize,
    pub last_lane: usize,
    /// Whether they have been looked for since the mask became current.
    pub ends_known: bool,
    /// All lanes from the first to the last active one are known to be active.
    pub solid: bool,
    /// Lanes of the current mask: `u32`s of 0 or !0.
    pub mask: *const u32,
    /// All lanes that exist are active.
    pub full: bool,
    pub lanes: usize,
    /// Chunks that a register has room for.
    pub column_chunks: usize,
    /// Extents along x, y, z, and blocks.
    pub shape: [usize; AXES],
    pub memories: *mut MemoryRt,
    /// Where registers lie when they do not view memory.
    pub homes: *const Slot,
    pub masks: Vec<MaskInfo>,
    pub counters: Vec<Counter>,
    pub ops: *const Op,
    pub shared: *mut u8,
    pub code: *const Code,
    /// Loop turns until the next look at the outside.
    pub ticks: u32,
    pub granted: u32,
    pub steps: u64,
    pub max_steps: u64,
    pub stop: *const AtomicBool,
    /// The block, the first one of a batch.
    pub block: [u32; 3],
    /// x, y, z of the first lane, over the whole launch.
    pub first_index: [u32; 3],
    pub stopped: Option<Box<Stop>>,
    pub printed: String,
    /// Where to go on after a pause.
    pub resume: *const Op,
    pub pause: Pause,
    /// The lanes of mask 0 are not all of the block's: other warps run by themselves ([`parts`](super::parts)).
    pub apart: bool,
    /// Others have to have their turn when it waits: blocks beside it, not only its own warps.
    pub shares: bool,
    /// What can come in any order comes in the opposite of the usual one.
    pub backward: bool,
    /// Its number among these parts.
    pub part: usize,
    /// The warps of mask 0, a bit each.
    pub warps: u32,
    /// Turns of loops that poll.
    pub polled: u32,
    /// How often in a row, every so many turns, only some of the warps polled; and how often there was a look at all.
    pub lonely: u32,
    pub looks: u32,
    /// Who hears what the group does, if the code tells.
    pub listener: Option<NonNull<dyn Listener>>,
}

/// Loop turns between two looks at the stop flag.
pub(crate) const TICKS: u32 = 256;

impl Group {
    /// # Safety
    /// `reg` is a register of the code.
    #[inline(always)]
    pub unsafe fn slot(&self, reg: Reg) -> Slot {
        unsafe { *self.slots.add(reg as usize) }
    }

    pub fn code(&self) -> &Code {
        // SAFETY: the launch keeps the code alive while groups run.
        unsafe { &*self.code }
    }

    /// The first lane of a register.
    ///
    /// # Safety
    /// The register holds lanes of `T`'s size.
    #[inline(always)]
    pub unsafe fn first<T: Copy>(&self, reg: Reg) -> T {
        unsafe { self.slot(reg).ptr.cast::<T>().read() }
    }

    /// Sets all lanes of a uniform register.
    ///
    /// # Safety
    /// The register is uniform and holds lanes of `T`'s size.
    #[inline(always)]
    pub unsafe fn splat<T: Copy>(&self, reg: Reg, value: T) {
        unsafe { self.slot(reg).ptr.cast::<[T; CHUNK]>().write_unaligned([value; CHUNK]) }
    }

    /// One lane of a register (uniform or not).
    ///
    /// # Safety
    /// As [`Group::first`]; `lane` is below the padded lane count.
    #[inline(always)]
    pub unsafe fn lane<T: Copy>(&self, reg: Reg, lane: usize) -> T {
        unsafe {
            let slot = self.slot(reg);
            slot.ptr.add(lane / CHUNK * slot.stride).cast::<T>().add(lane % CHUNK).read_unaligned()
        }
    }

    /// # Safety
    /// As [`Group::lane`].
    #[inline(always)]
    pub unsafe fn set_lane<T: Copy>(&self, reg: Reg, lane: usize, value: T) {
        unsafe {
            let slot = self.slot(reg);
            slot.ptr.add(lane / CHUNK * slot.stride).cast::<T>().add(lane % CHUNK).write_unaligned(value)
        }
    }

    /// The op at a position, to jump to.
    #[inline(always)]
    pub fn at(&self, position: u32) -> *const Op {
        self.ops.wrapping_add(position as usize)
    }

    #[inline(always)]
    pub fn is_active(&self, lane: usize) -> bool {
        // Outside its range of chunks a mask holds what an earlier one left there.
        let in_range = (self.lo..self.hi).contains(&(lane / CHUNK));
        // SAFETY: masks have room for the padded lanes.
        lane < self.lanes && (self.full || in_range && unsafe { *self.mask.add(lane) != 0 })
    }

    /// Whether a lane is one of a mask's.
    pub fn has(&self, mask: MaskId, lane: usize) -> bool {
        let info = self.masks[mask as usize];
        let in_range = (info.lo as usize..info.hi as usize).contains(&(lane / CHUNK));
        // SAFETY: masks are registers of the code with room for the padded lanes.
        let lanes: *const u32 = unsafe { self.slot(self.code().masks[mask as usize]).ptr.cast() };
        lane < self.lanes && (info.full || in_range && unsafe { *lanes.add(lane) != 0 })
    }

    /// The active lanes, ascending.
    pub fn active(&self) -> impl Iterator<Item = usize> + '_ {
        (self.lo * CHUNK..(self.hi * CHUNK).min(self.lanes)).filter(|&l| self.is_active(l))
    }

    pub fn active_count(&self) -> usize {
        self.active().count()
    }

    /// x, y, z of a lane in its group.
    pub fn coordinates(&self, lane: usize) -> [usize; AXES] {
        let [x, y, z, _] = self.shape;
        [lane % x, lane / x % y, lane / x / y % z, lane / x / y / z]
    }

    /// Makes a mask the current one.
    #[inline(always)]
    pub fn enter(&mut self, mask: u16) {
        let info = &self.masks[mask as usize];
        (self.lo, self.hi, self.full) = (info.lo as usize, info.hi as usize, info.full);
        // Mostly there is one: what was written in parts a moment ago is slow to read as a whole.
        self.stretches.count = info.stretches.count;
        self.stretches.at[0] = info.stretches.at[0];
        if info.stretches.count > 1 {
            self.stretches.at = info.stretches.at;
        }
        self.ends_known = info.row.is_some();
        self.solid = info.row.is_some();
        if let Some((from, to)) = info.row {
            (self.first_lane, self.last_lane) = (from as usize, to as usize - 1);
        }
        // SAFETY: masks are registers of the code.
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
            // SAFETY: masks have room for the padded lanes.
            let lanes = unsafe { self.mask.add(chunk * CHUNK).cast::<[u32; CHUNK]>().read_unaligned() };
            let bits = lanes.iter().enumerate().fold(0u32, |bits, (i, &l)| bits | u32::from(l != 0) << i);
            (chunk * CHUNK + bits.trailing_zeros() as usize, chunk * CHUNK + bits.checked_ilog2().unwrap_or(0) as usize)
        };
        self.first_lane = ends(self.lo).0;
        self.last_lane = ends(self.hi - 1).1;
    }

    /// The first and the last active lane.
    #[inline(always)]
    pub fn ends(&mut self) -> (usize, usize) {
        self.find_ends();
        (self.first_lane, self.last_lane)
    }

    /// Counts a loop turn; false if the run has to stop.
    #[inline(always)]
    pub fn turn(&mut self) -> bool {
        self.ticks -= 1;
        self.ticks > 0 || self.look_outside()
    }

    #[cold]
    #[inline(never)]
    fn look_outside(&mut self) -> bool {
        self.steps += u64::from(self.granted);
        // SAFETY: the flag lives as long as the launch.
        let stopped = unsafe { (*self.stop).load(Ordering::Relaxed) };
        self.grant_turns();
        self.ticks > 0 && !stopped
    }

    /// Sets when to look outside next.
    pub fn grant_turns(&mut self) {
        let left = if self.max_steps == 0 { u64::MAX } else { self.max_steps.saturating_sub(self.steps) };
        self.granted = left.min(u64::from(TICKS)) as u32;
        self.ticks = self.granted;
    }
}
