//! The race rules for an element, and loops that apply them to rows of elements. The loops are written so that LLVM
//! vectorizes them.
//!
//! An access is **ordered** after an earlier one if a barrier of the block or a synchronization of the warp separates
//! them. It races with an access by another thread that is not ordered before it, unless both are reads or both are
//! atomic.

use super::shadow::ShadowWords;
use super::shadow_word::{BLOCK, GRID, KIND, KIND_SHIFT, LANE_SHIFT, ONE, SITE, WARP};
use clk_runtime::Isa;

/// The current access: the contents of its shadow word, and the bounds that determine which accesses are ordered before
/// it.
#[derive(Clone, Copy)]
pub(crate) struct CurrentAccess {
    /// The shadow word of the access: its time, group and site, without the lane.
    pub word: u64,
    /// Accesses whose shadow words are less than this are ordered before the current access, regardless of their block.
    pub base: u64,
    /// Accesses of the same block whose shadow words are less than this are ordered before the current access.
    pub block_base: u64,
    /// If the shadow word of an element's writes is less than this, the element is uninitialized: the word is older
    /// than the allocation.
    pub init_time: u64,
    /// The bits of a shadow word that distinguish threads; and those that distinguish warps (`warp_mask`) and groups
    /// (`group_mask`).
    pub thread_mask: u64,
    pub warp_mask: u64,
    pub group_mask: u64,
    /// For each warp of the group: accesses of this warp whose shadow words are less than this are ordered before the
    /// current access if it belongs to the same warp.
    pub warp_bases: *const u64,
    /// Set if a shadow word that represents several threads keeps the lane and site of the first of them. Otherwise it
    /// gets those of the current access.
    pub keeps_first_thread: bool,
}

/// A row of elements, and the lanes that access them.
#[derive(Clone, Copy)]
pub(crate) struct ShadowRow {
    /// The addresses of the first element's shadow words: of writes (`w`), reads (`r`) and atomics (`a`). `r` and `a`
    /// may be null.
    pub w: *mut u64,
    pub r: *mut u64,
    pub a: *mut u64,
    /// The distance in elements from one element of the row to the next.
    pub step: isize,
    pub count: usize,
    /// The first lane that accesses the first element; and the distance in lanes from one element to the next
    /// (`lane_step`).
    pub lane: usize,
    pub lane_step: usize,
    /// The distance from the first to the last lane that accesses an element.
    pub spread: usize,
    /// The mask (0 or !0 per lane), indexed by lane; null if all lanes are active.
    pub mask: *const u32,
}

impl CurrentAccess {
    /// Returns whether a shadow word represents only the current thread.
    #[inline(always)]
    fn is_same_thread(&self, word: u64, own_word: u64) -> bool {
        (word ^ own_word) & (self.thread_mask | KIND) == 0
    }

    /// Returns the shadow word for writes of the same value by several threads. Later accesses have to be ordered after
    /// the writes of all these threads.
    pub fn joined_write(&self, word: u64, own_word: u64) -> u64 {
        let before = (word & KIND) >> KIND_SHIFT;
        let many = if (word ^ own_word) & self.warp_mask == 0 && before <= WARP {
            WARP
        } else if (word ^ own_word) & self.group_mask == 0 && before != GRID {
            BLOCK
        } else {
            GRID
        };
        own_word | many << KIND_SHIFT
    }

    #[inline(always)]
    pub fn is_ordered<const WARPS: bool>(&self, word: u64, own_word: u64, lane: usize, kind: u64) -> bool {
        let in_group = (word ^ own_word) & self.group_mask == 0 && word & KIND != GRID << KIND_SHIFT;
        let mut ordered = word < self.base || (in_group && word < self.block_base);
        if WARPS {
            // SAFETY: each warp of the group has a base.
            let base = unsafe { *self.warp_bases.add(lane / 32) };
            let in_warp = (word ^ own_word) & self.warp_mask == 0 && word & KIND <= WARP << KIND_SHIFT && kind <= WARP;
            ordered |= in_warp && word < base;
        }
        ordered
    }

    /// Returns whether a write by the current thread does not race with the accesses that a shadow word represents.
    #[inline(always)]
    pub fn allows_write<const WARPS: bool>(&self, word: u64, own_word: u64, lane: usize) -> bool {
        self.is_ordered::<WARPS>(word, own_word, lane, ONE) || self.is_only_thread(word, own_word, ONE)
    }

    /// Returns whether both the shadow word and the current access represent only the current thread.
    #[inline(always)]
    fn is_only_thread(&self, word: u64, own_word: u64, kind: u64) -> bool {
        (word ^ own_word) & (self.thread_mask | KIND) == 0 && kind == ONE
    }

    /// Returns the shadow word that represents both the earlier threads of `word` and the threads of the current
    /// access.
    #[inline(always)]
    fn joined_word<const WARPS: bool>(&self, word: u64, own_word: u64, lane: usize, kind: u64) -> u64 {
        let (warp, group) = ((word ^ own_word) & self.warp_mask == 0, (word ^ own_word) & self.group_mask == 0);
        let before = (word & KIND) >> KIND_SHIFT;
        let many = if warp && before <= WARP && kind <= WARP {
            WARP
        } else if group && before != GRID {
            BLOCK
        } else {
            GRID
        };
        let fresh = self.is_ordered::<WARPS>(word, own_word, lane, kind) || self.is_only_thread(word, own_word, kind);
        let name = self.thread_mask | SITE;
        let joined = if self.keeps_first_thread { own_word & !name | word & name } else { own_word };
        if fresh { own_word | kind << KIND_SHIFT } else { joined | many << KIND_SHIFT }
    }

    /// Checks a plain read. Returns whether it violates no rule, and the new shadow word of reads.
    #[inline(always)]
    pub fn check_read<const A: bool, const WARPS: bool>(
        &self,
        words: ShadowWords,
        own_word: u64,
        lane: usize,
        kind: u64,
    ) -> (bool, u64) {
        self.check_value_access::<A, WARPS>(words.writes, words.atomics, words.reads, own_word, lane, kind)
    }

    /// Checks an atomic load. Returns whether it violates no rule, and the new shadow word of atomic loads.
    #[inline(always)]
    pub fn check_atomic_load<const WARPS: bool>(
        &self,
        writes: u64,
        atomic_loads: u64,
        own_word: u64,
        lane: usize,
        kind: u64,
    ) -> (bool, u64) {
        self.check_value_access::<false, WARPS>(writes, 0, atomic_loads, own_word, lane, kind)
    }

    /// Checks a plain write by one thread. Returns whether it violates no rule. The new shadow word of writes is
    /// `own_word`.
    #[inline(always)]
    pub fn check_write<const R: bool, const A: bool, const WARPS: bool>(
        &self,
        words: ShadowWords,
        own_word: u64,
        lane: usize,
    ) -> bool {
        let ShadowWords { writes, reads, atomics } = words;
        let mut ok = self.is_ordered::<WARPS>(writes, own_word, lane, ONE) || self.is_same_thread(writes, own_word);
        if R {
            ok &= self.allows_write::<WARPS>(reads, own_word, lane);
        }
        if A {
            ok &= self.allows_write::<WARPS>(atomics, own_word, lane);
        }
        ok
    }

    /// Checks an atomic update. Returns whether it violates no rule, and the new shadow word of atomics.
    #[inline(always)]
    pub fn check_update<const R: bool, const WARPS: bool>(
        &self,
        words: ShadowWords,
        own_word: u64,
        lane: usize,
        kind: u64,
    ) -> (bool, u64) {
        self.check_value_access::<R, WARPS>(words.writes, words.reads, words.atomics, own_word, lane, kind)
    }

    /// Checks an access that reads the element. It can race with plain writes (shadow word `w`) and, if `O`, with
    /// accesses in shadow word `other`. It cannot race with accesses of its own kind (shadow word `like`). Returns
    /// whether it violates no rule, and the new shadow word of its kind.
    #[inline(always)]
    fn check_value_access<const O: bool, const WARPS: bool>(
        &self,
        w: u64,
        other: u64,
        like: u64,
        own_word: u64,
        lane: usize,
        kind: u64,
    ) -> (bool, u64) {
        let mut ok = w >= self.init_time;
        ok &= self.is_ordered::<WARPS>(w, own_word, lane, kind) || (self.is_same_thread(w, own_word) && kind == ONE);
        if O {
            ok &= self.is_ordered::<WARPS>(other, own_word, lane, kind) || self.is_only_thread(other, own_word, kind);
        }
        (ok, self.joined_word::<WARPS>(like, own_word, lane, kind))
    }
}

/// Returns the kind (set of threads) of the shadow word for an element that lanes `lane` to `lane + spread` access.
#[inline(always)]
pub(crate) fn thread_set_kind(lane: usize, spread: usize) -> u64 {
    if spread == 0 {
        ONE
    } else if lane % 32 + spread < 32 {
        WARP
    } else {
        BLOCK
    }
}

/// A function that checks and records an access to a row. It returns false if the access to some element violates a
/// rule. A write is then not recorded for any element.
pub(crate) type RowFn = unsafe fn(&CurrentAccess, &ShadowRow) -> bool;

trait RowChecks {
    unsafe fn run(now: &CurrentAccess, row: &ShadowRow) -> bool;
}

struct ReadChecks<const A: bool, const WARPS: bool, const MASK: bool>;
struct WriteChecks<const R: bool, const A: bool, const WARPS: bool, const MASK: bool>;

impl<const A: bool, const WARPS: bool, const MASK: bool> RowChecks for ReadChecks<A, WARPS, MASK> {
    #[inline(always)]
    unsafe fn run(now: &CurrentAccess, row: &ShadowRow) -> bool {
        // SAFETY: the caller's row is valid for [`reads`]: it is the same row.
        unsafe {
            match (row.step, row.spread) {
                (1, 0) if row.lane_step == 1 => {
                    check_read_row::<A, WARPS, MASK>(now, &ShadowRow { step: 1, lane_step: 1, spread: 0, ..*row })
                }
                (1, _) => check_read_row::<A, WARPS, MASK>(now, &ShadowRow { step: 1, ..*row }),
                _ => check_read_row::<A, WARPS, MASK>(now, row),
            }
        }
    }
}

#[inline(always)]
unsafe fn check_read_row<const A: bool, const WARPS: bool, const MASK: bool>(
    current: &CurrentAccess,
    row: &ShadowRow,
) -> bool {
    // SAFETY: the caller's row is within the planes. There is a plane for each access kind of the memory's access
    // sites. Lanes of the row exist, and the mask has them (G2).
    unsafe {
        let current = *current;
        let mut bad = false;
        for i in 0..row.count {
            let at = i as isize * row.step;
            let lane = row.lane + i * row.lane_step;
            let own_word = current.word | (lane as u64) << LANE_SHIFT;
            let words = ShadowWords {
                writes: *row.w.offset(at),
                reads: *row.r.offset(at),
                atomics: if A { *row.a.offset(at) } else { 0 },
            };
            let (ok, joined) = current.check_read::<A, WARPS>(words, own_word, lane, thread_set_kind(lane, row.spread));
            let active = !MASK || *row.mask.add(lane) != 0;
            bad |= active & !ok;
            *row.r.offset(at) = if active { joined } else { words.reads };
        }
        !bad
    }
}

impl<const R: bool, const A: bool, const WARPS: bool, const MASK: bool> RowChecks for WriteChecks<R, A, WARPS, MASK> {
    #[inline(always)]
    unsafe fn run(now: &CurrentAccess, row: &ShadowRow) -> bool {
        // SAFETY: the caller's row is valid for [`writes`]: it is the same row.
        unsafe {
            match row.step {
                1 if row.lane_step == 1 => {
                    check_write_row::<R, A, WARPS, MASK>(now, &ShadowRow { step: 1, lane_step: 1, ..*row })
                }
                _ => check_write_row::<R, A, WARPS, MASK>(now, row),
            }
        }
    }
}

#[inline(always)]
unsafe fn check_write_row<const R: bool, const A: bool, const WARPS: bool, const MASK: bool>(
    current: &CurrentAccess,
    row: &ShadowRow,
) -> bool {
    // SAFETY: the caller's row is within the planes. There is a plane for each access kind of the memory's access
    // sites. Lanes of the row exist, and the mask has them (G2).
    unsafe {
        let current = *current;
        let mut bad = false;
        for i in 0..row.count {
            let at = i as isize * row.step;
            let lane = row.lane + i * row.lane_step;
            let own_word = current.word | (lane as u64) << LANE_SHIFT;
            let words = ShadowWords {
                writes: *row.w.offset(at),
                reads: if R { *row.r.offset(at) } else { 0 },
                atomics: if A { *row.a.offset(at) } else { 0 },
            };
            let ok = current.check_write::<R, A, WARPS>(words, own_word, lane);
            bad |= (!MASK || *row.mask.add(lane) != 0) & !ok;
        }
        if bad {
            return false;
        }
        for i in 0..row.count {
            let at = i as isize * row.step;
            let lane = row.lane + i * row.lane_step;
            let own_word = current.word | (lane as u64) << LANE_SHIFT;
            let to = row.w.offset(at);
            *to = if !MASK || *row.mask.add(lane) != 0 { own_word } else { *to };
        }
        true
    }
}

unsafe fn base<S: RowChecks>(current: &CurrentAccess, row: &ShadowRow) -> bool {
    // SAFETY: the caller's row is valid for the loop.
    unsafe { S::run(current, row) }
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx2<S: RowChecks>(current: &CurrentAccess, row: &ShadowRow) -> bool {
    // SAFETY: the caller's row is valid for the loop. G6: the machine has these instructions.
    unsafe { S::run(current, row) }
}

#[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn avx512<S: RowChecks>(current: &CurrentAccess, row: &ShadowRow) -> bool {
    // SAFETY: the caller's row is valid for the loop. G6: the machine has these instructions.
    unsafe { S::run(current, row) }
}

fn select_isa<S: RowChecks>(isa: Isa) -> RowFn {
    match isa {
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        Isa::Avx2 => avx2::<S>,
        #[cfg(all(target_arch = "x86_64", not(debug_assertions)))]
        Isa::Avx512 => avx512::<S>,
        _ => base::<S>,
    }
}

/// The parameters by which the row loops are specialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RowLoopVariant {
    /// Set if the memory has shadow words for reads (`reads`), and for atomics (`atomics`).
    pub reads: bool,
    pub atomics: bool,
    /// Set if the kernel has warp operations.
    pub warps: bool,
    /// Set if some lanes of the row may be inactive.
    pub mask: bool,
}

pub(crate) fn read_row_fn(isa: Isa, v: RowLoopVariant) -> RowFn {
    match (v.atomics, v.warps, v.mask) {
        (false, false, false) => select_isa::<ReadChecks<false, false, false>>(isa),
        (false, false, true) => select_isa::<ReadChecks<false, false, true>>(isa),
        (false, true, false) => select_isa::<ReadChecks<false, true, false>>(isa),
        (false, true, true) => select_isa::<ReadChecks<false, true, true>>(isa),
        (true, false, false) => select_isa::<ReadChecks<true, false, false>>(isa),
        (true, false, true) => select_isa::<ReadChecks<true, false, true>>(isa),
        (true, true, false) => select_isa::<ReadChecks<true, true, false>>(isa),
        (true, true, true) => select_isa::<ReadChecks<true, true, true>>(isa),
    }
}

pub(crate) fn write_row_fn(isa: Isa, v: RowLoopVariant) -> RowFn {
    fn with<const R: bool, const A: bool>(isa: Isa, v: RowLoopVariant) -> RowFn {
        match (v.warps, v.mask) {
            (false, false) => select_isa::<WriteChecks<R, A, false, false>>(isa),
            (false, true) => select_isa::<WriteChecks<R, A, false, true>>(isa),
            (true, false) => select_isa::<WriteChecks<R, A, true, false>>(isa),
            (true, true) => select_isa::<WriteChecks<R, A, true, true>>(isa),
        }
    }
    match (v.reads, v.atomics) {
        (false, false) => with::<false, false>(isa, v),
        (false, true) => with::<false, true>(isa, v),
        (true, false) => with::<true, false>(isa, v),
        (true, true) => with::<true, true>(isa, v),
    }
}
