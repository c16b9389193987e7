//! The race rules per element, and loops over rows of elements that LLVM vectorizes.
//!
//! An access is **ordered** after an earlier one if a barrier of the block or a synchronization of the warp lies between them. It
//! races with one by another thread that is not ordered before it, unless both are reads or both are atomic.

use super::word::{BLOCK, GRID, KIND, KIND_SHIFT, LANE_SHIFT, ONE, SITE, WARP};
use crate::device::sim::lanes::Isa;

/// The current access: its identity, and what is ordered before it.
#[derive(Clone, Copy)]
pub(crate) struct Now {
    /// Time, group and site of a shadow word, without the lane.
    pub own: u64,
    /// Words below this are ordered before, whichever block they are of.
    pub base: u64,
    /// Words below this are ordered before, if they are of the same block.
    pub block_base: u64,
    /// Words below this mean unwritten memory: they are older than the allocation.
    pub born: u64,
    /// The bits that distinguish threads, warps and groups.
    pub thread: u64,
    pub warp: u64,
    pub group: u64,
    /// Per warp of the group: words below this are ordered before, if they are of the same warp.
    pub warp_bases: *const u64,
    /// A joint word of several threads keeps the first one's identity instead of this one's.
    pub modest: bool,
}

/// Elements with the lanes that access them.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// The shadow words of the first element: writes, reads (or null), atomics (or null).
    pub w: *mut u64,
    pub r: *mut u64,
    pub a: *mut u64,
    /// Distance from element to element.
    pub step: isize,
    pub count: usize,
    /// The first lane of the first element, and the distance from element to element.
    pub lane: usize,
    pub lane_step: usize,
    /// The distance from the first to the last lane of an element.
    pub spread: usize,
    /// Lanes of 0 or !0, from lane 0 on; null if all are active.
    pub mask: *const u32,
}

impl Now {
    /// Returns whether the word is of this single thread.
    #[inline(always)]
    fn same(&self, word: u64, me: u64) -> bool {
        (word ^ me) & (self.thread | KIND) == 0
    }

    /// Returns the word of writes of the same value by several threads: later accesses have to be ordered after all of them.
    pub fn together(&self, word: u64, me: u64) -> u64 {
        let before = (word & KIND) >> KIND_SHIFT;
        let many = if (word ^ me) & self.warp == 0 && before <= WARP {
            WARP
        } else if (word ^ me) & self.group == 0 && before != GRID {
            BLOCK
        } else {
            GRID
        };
        me | many << KIND_SHIFT
    }

    #[inline(always)]
    pub fn ordered<const WARPS: bool>(&self, word: u64, me: u64, lane: usize, kind: u64) -> bool {
        let in_group = (word ^ me) & self.group == 0 && word & KIND != GRID << KIND_SHIFT;
        let mut ordered = word < self.base || (in_group && word < self.block_base);
        if WARPS {
            // SAFETY: there is one for each warp of the group.
            let base = unsafe { *self.warp_bases.add(lane / 32) };
            let in_warp = (word ^ me) & self.warp == 0 && word & KIND <= WARP << KIND_SHIFT && kind <= WARP;
            ordered |= in_warp && word < base;
        }
        ordered
    }

    /// Returns whether a write by one thread is compatible with the threads that this word stands for.
    #[inline(always)]
    pub fn follows<const WARPS: bool>(&self, word: u64, me: u64, lane: usize) -> bool {
        self.ordered::<WARPS>(word, me, lane, ONE) || self.alone(word, me, ONE)
    }

    /// Returns whether the word stands for this single thread, as does the access.
    #[inline(always)]
    fn alone(&self, word: u64, me: u64, kind: u64) -> bool {
        (word ^ me) & (self.thread | KIND) == 0 && kind == ONE
    }

    /// Returns the word for earlier threads and the current ones together.
    #[inline(always)]
    fn joined<const WARPS: bool>(&self, word: u64, me: u64, lane: usize, kind: u64) -> u64 {
        let (warp, group) = ((word ^ me) & self.warp == 0, (word ^ me) & self.group == 0);
        let before = (word & KIND) >> KIND_SHIFT;
        let many = if warp && before <= WARP && kind <= WARP {
            WARP
        } else if group && before != GRID {
            BLOCK
        } else {
            GRID
        };
        let fresh = self.ordered::<WARPS>(word, me, lane, kind) || self.alone(word, me, kind);
        let name = self.thread | SITE;
        let joined = if self.modest { me & !name | word & name } else { me };
        if fresh { me | kind << KIND_SHIFT } else { joined | many << KIND_SHIFT }
    }

    /// Checks a plain read; returns whether it is correct, and the new word of reads.
    #[inline(always)]
    pub fn read<const A: bool, const WARPS: bool>(
        &self,
        (w, r, a): (u64, u64, u64),
        me: u64,
        lane: usize,
        kind: u64,
    ) -> (bool, u64) {
        self.sees::<A, WARPS>(w, a, r, me, lane, kind)
    }

    /// Checks an atomic load; returns whether it is correct, and the new word of atomic loads.
    #[inline(always)]
    pub fn look<const WARPS: bool>(&self, (w, l): (u64, u64), me: u64, lane: usize, kind: u64) -> (bool, u64) {
        self.sees::<false, WARPS>(w, 0, l, me, lane, kind)
    }

    /// Checks a plain write by one thread; returns whether it is correct. The new word of writes is `me`.
    #[inline(always)]
    pub fn write<const R: bool, const A: bool, const WARPS: bool>(
        &self,
        (w, r, a): (u64, u64, u64),
        me: u64,
        lane: usize,
    ) -> bool {
        let mut ok = self.ordered::<WARPS>(w, me, lane, ONE) || self.same(w, me);
        if R {
            ok &= self.follows::<WARPS>(r, me, lane);
        }
        if A {
            ok &= self.follows::<WARPS>(a, me, lane);
        }
        ok
    }

    /// Checks an atomic update; returns whether it is correct, and the new word of atomics.
    #[inline(always)]
    pub fn update<const R: bool, const WARPS: bool>(
        &self,
        (w, r, a): (u64, u64, u64),
        me: u64,
        lane: usize,
        kind: u64,
    ) -> (bool, u64) {
        self.sees::<R, WARPS>(w, r, a, me, lane, kind)
    }

    /// Checks an access that depends on the written value and is compatible with accesses of its kind (with word `like`), but not
    /// with those of the `other` word (if `O`). Returns whether it is correct, and the new word of its kind.
    #[inline(always)]
    fn sees<const O: bool, const WARPS: bool>(
        &self,
        w: u64,
        other: u64,
        like: u64,
        me: u64,
        lane: usize,
        kind: u64,
    ) -> (bool, u64) {
        let mut ok = w >= self.born;
        ok &= self.ordered::<WARPS>(w, me, lane, kind) || (self.same(w, me) && kind == ONE);
        if O {
            ok &= self.ordered::<WARPS>(other, me, lane, kind) || self.alone(other, me, kind);
        }
        (ok, self.joined::<WARPS>(like, me, lane, kind))
    }
}

/// Returns the kind of a word for the threads that access an element, from its first lane and the distance to its last.
#[inline(always)]
pub(crate) fn company(lane: usize, spread: usize) -> u64 {
    if spread == 0 {
        ONE
    } else if lane % 32 + spread < 32 {
        WARP
    } else {
        BLOCK
    }
}

/// Checks and records a row; returns false if some element violates a rule. Writes are then not recorded at all.
pub(crate) type RowFn = unsafe fn(&Now, &Row) -> bool;

trait Rows {
    unsafe fn run(now: &Now, row: &Row) -> bool;
}

struct Reads<const A: bool, const WARPS: bool, const MASK: bool>;
struct Writes<const R: bool, const A: bool, const WARPS: bool, const MASK: bool>;

impl<const A: bool, const WARPS: bool, const MASK: bool> Rows for Reads<A, WARPS, MASK> {
    #[inline(always)]
    unsafe fn run(now: &Now, row: &Row) -> bool {
        // SAFETY: the caller's row suits [`reads`]: it is the same row.
        unsafe {
            match (row.step, row.spread) {
                (1, 0) if row.lane_step == 1 => {
                    reads::<A, WARPS, MASK>(now, &Row { step: 1, lane_step: 1, spread: 0, ..*row })
                }
                (1, _) => reads::<A, WARPS, MASK>(now, &Row { step: 1, ..*row }),
                _ => reads::<A, WARPS, MASK>(now, row),
            }
        }
    }
}

#[inline(always)]
unsafe fn reads<const A: bool, const WARPS: bool, const MASK: bool>(now: &Now, row: &Row) -> bool {
    // SAFETY: the caller's row lies within the planes, of which there is one for each kind of access that the memory's notes have.
    // Lanes of the row exist, and the mask has them (G2).
    unsafe {
        let now = *now;
        let mut bad = false;
        for i in 0..row.count {
            let at = i as isize * row.step;
            let lane = row.lane + i * row.lane_step;
            let me = now.own | (lane as u64) << LANE_SHIFT;
            let (w, r) = (*row.w.offset(at), *row.r.offset(at));
            let a = if A { *row.a.offset(at) } else { 0 };
            let (ok, joined) = now.read::<A, WARPS>((w, r, a), me, lane, company(lane, row.spread));
            let active = !MASK || *row.mask.add(lane) != 0;
            bad |= active & !ok;
            *row.r.offset(at) = if active { joined } else { r };
        }
        !bad
    }
}

impl<const R: bool, const A: bool, const WARPS: bool, const MASK: bool> Rows for Writes<R, A, WARPS, MASK> {
    #[inline(always)]
    unsafe fn run(now: &Now, row: &Row) -> bool {
        // SAFETY: the caller's row suits [`writes`]: it is the same row.
        unsafe {
            match row.step {
                1 if row.lane_step == 1 => writes::<R, A, WARPS, MASK>(now, &Row { step: 1, lane_step: 1, ..*row }),
                _ => writes::<R, A, WARPS, MASK>(now, row),
            }
        }
    }
}

#[inline(always)]
unsafe fn writes<const R: bool, const A: bool, const WARPS: bool, const MASK: bool>(now: &Now, row: &Row) -> bool {
    // SAFETY: the caller's row lies within the planes, of which there is one for each kind of access that the memory's notes have.
    // Lanes of the row exist, and the mask has them (G2).
    unsafe {
        let now = *now;
        let mut bad = false;
        for i in 0..row.count {
            let at = i as isize * row.step;
            let lane = row.lane + i * row.lane_step;
            let me = now.own | (lane as u64) << LANE_SHIFT;
            let words =
                (*row.w.offset(at), if R { *row.r.offset(at) } else { 0 }, if A { *row.a.offset(at) } else { 0 });
            let ok = now.write::<R, A, WARPS>(words, me, lane);
            bad |= (!MASK || *row.mask.add(lane) != 0) & !ok;
        }
        if bad {
            return false;
        }
        for i in 0..row.count {
            let at = i as isize * row.step;
            let lane = row.lane + i * row.lane_step;
            let me = now.own | (lane as u64) << LANE_SHIFT;
            let to = row.w.offset(at);
            *to = if !MASK || *row.mask.add(lane) != 0 { me } else { *to };
        }
        true
    }
}

unsafe fn base<S: Rows>(now: &Now, row: &Row) -> bool {
    // SAFETY: the caller's row suits the loop.
    unsafe { S::run(now, row) }
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<S: Rows>(now: &Now, row: &Row) -> bool {
    // SAFETY: the caller's row suits the loop. G6: the machine has these instructions.
    unsafe { S::run(now, row) }
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx512<S: Rows>(now: &Now, row: &Row) -> bool {
    // SAFETY: the caller's row suits the loop. G6: the machine has these instructions.
    unsafe { S::run(now, row) }
}

fn pick<S: Rows>(isa: Isa) -> RowFn {
    match isa {
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        Isa::Avx2 => avx2::<S>,
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        Isa::Avx512 => avx512::<S>,
        _ => base::<S>,
    }
}

/// The specialization of the row loops for a memory and a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// There are words of reads, of atomics.
    pub reads: bool,
    pub atomics: bool,
    /// The kernel has warp operations.
    pub warps: bool,
    /// Some lanes are inactive.
    pub mask: bool,
}

pub(crate) fn reader(isa: Isa, v: Variant) -> RowFn {
    match (v.atomics, v.warps, v.mask) {
        (false, false, false) => pick::<Reads<false, false, false>>(isa),
        (false, false, true) => pick::<Reads<false, false, true>>(isa),
        (false, true, false) => pick::<Reads<false, true, false>>(isa),
        (false, true, true) => pick::<Reads<false, true, true>>(isa),
        (true, false, false) => pick::<Reads<true, false, false>>(isa),
        (true, false, true) => pick::<Reads<true, false, true>>(isa),
        (true, true, false) => pick::<Reads<true, true, false>>(isa),
        (true, true, true) => pick::<Reads<true, true, true>>(isa),
    }
}

pub(crate) fn writer(isa: Isa, v: Variant) -> RowFn {
    fn with<const R: bool, const A: bool>(isa: Isa, v: Variant) -> RowFn {
        match (v.warps, v.mask) {
            (false, false) => pick::<Writes<R, A, false, false>>(isa),
            (false, true) => pick::<Writes<R, A, false, true>>(isa),
            (true, false) => pick::<Writes<R, A, true, false>>(isa),
            (true, true) => pick::<Writes<R, A, true, true>>(isa),
        }
    }
    match (v.reads, v.atomics) {
        (false, false) => with::<false, false>(isa, v),
        (false, true) => with::<false, true>(isa, v),
        (true, false) => with::<true, false>(isa, v),
        (true, true) => with::<true, true>(isa, v),
    }
}
