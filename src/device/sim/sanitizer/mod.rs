//! The sanitizer: receives the events of a group and reports data races, reads of unwritten elements, and divergence at barriers.
//!
//! # Memory model
//! All threads of a launch are concurrent except where synchronization orders them: `barrier()` orders the threads of a block,
//! `warp_barrier()` and the warp operations those of a warp, `grid_barrier()` all. Accesses before a `fence()` (within a block,
//! also a `fence_block()`) happen before another thread's accesses behind an atomic operation that reads what the first thread
//! wrote by an atomic operation after its fence, if the value read influences control flow or addresses ([`order`]). Atomic
//! operations without fences order nothing, nor do those that change nothing or whose old values influence nothing.
//!
//! Two accesses to one element by different threads without a happens-before order are a race if one of them is a plain write, or
//! if one is a plain read and the other an atomic operation that may change the element
//! ([`Touch::conflicts`](super::events::Touch::conflicts)). Which one came first in this run does not matter: each element has a
//! shadow word ([`word`]) for its last write, one for its readers, and one each for atomic updates and loads, and these are
//! compared with what is ordered before the current access ([`rows`]).
//!
//! # Fast and exact checking
//! Shadow words are fast: whole rows of them are compared at once, by all workers. But a word identifies one thread where there
//! were several, and does not model fences. So a kernel whose threads synchronize by fences and atomics is checked exactly, on
//! one worker: each access is compared with all recorded accesses to its element ([`exact`], [`trace`]), and what is ordered
//! before a thread is a map similar to a vector clock, which threads share structurally ([`view`]). The cost in time is
//! proportional to the number of accesses, in memory to the sizes of arrays and the number of releases. A launch in which the
//! fast rules find a race also runs again with exact checking, which identifies both threads and decides whether all conflicts are
//! writes of the same value: `docs/internals/race-checks.md` shows why no conflict is missed.
//!
//! The order that fences and atomics establish in one run may be different in another. So where they ruled out a race, the launch
//! runs a second time with the reverse order of blocks, of the warps of the first and last blocks, and of the lanes in atomic
//! operations ([`sched`](super::sched)), and is checked the same way; the arrays keep the contents of the first run. Two accesses
//! that race in some interleaving mostly do so in one of these two.
//!
//! # Proofs
//! Of arrays that are [proved](crate::ir::footprint::apart) to be free of races only what is written is recorded, one byte for each
//! cell ([`written`]), or nothing at all. A run that finds something runs again with everything recorded.
//!
//! - [`rows`]: the race rules, per element and vectorized; [`clock`]: logical times; [`shadow`]: storage of shadow words
//! - [`pattern`], [`quick`]: accesses to shared arrays that can be checked without words
//! - [`checker`]: the state of a worker's checker; [`event`]: an access under examination; [`touch`]: from an access to its elements
//! - [`race`]: which rule is violated, and by which thread; [`text`]: names and values in messages
//! - [`judge`], [`exact`], [`trace`]: exact checking; [`order`], [`view`]: fences and atomics
//! - [`crowd`]: what accesses cost warps, where that is counted
//! - [`written`]: arrays on which threads do not conflict; [`local`]: local arrays; [`split`]: divergence and
//!   polling; [`locks`]: lock order; [`arithmetic`]: overflow and the like

pub(crate) mod arithmetic;
mod checker;
mod clock;
mod crowd;
mod event;
mod exact;
mod judge;
mod local;
mod locks;
mod order;
mod pattern;
mod places;
mod plan;
mod quick;
mod race;
mod reach;
mod rows;
mod shadow;
mod split;
mod text;
mod touch;
mod trace;
mod view;
mod watch;
mod word;
mod written;

pub(crate) use checker::Checker;
pub(crate) use watch::{Watch, keep};

use super::code::{Code, MaskId, MemoryKind, WaitDef, Watched};
use super::events::{Note, Observer};
use super::fault::stop_at;
use super::geometry::Geometry;
use super::group::{Group, Places, Reach, Told};
use super::memory::Run;
use crate::device::{Extents, FaultKind};
use crate::ir::def::Scope;

/// Returns whether blocks of this launch may race in global memory, as far as indices tell.
pub(crate) fn may_race(code: &Code, extents: &Extents) -> bool {
    let geometry = Geometry::new(extents, code);
    let global = |k: usize| matches!(code.memories[k].kind, MemoryKind::Global(_));
    let tracked = |(k, watched): (usize, &Option<Watched>)| {
        global(k) && watched.as_ref().is_some_and(|w| !geometry.tells(w, code))
    };
    code.watched.iter().enumerate().any(tracked)
}

/// Returns whether accesses to shared arrays are checked.
pub(crate) fn watches_shared(code: &Code) -> bool {
    let shared = |k: usize| matches!(code.memories[k].kind, MemoryKind::Shared);
    code.watched.iter().enumerate().any(|(k, watched)| watched.is_some() && shared(k))
}

impl Observer for Checker<'_> {
    unsafe fn touches(&mut self, g: &mut Group, note: &Note) {
        // SAFETY: C4: the op's note is one of the code's.
        unsafe { self.touched(g, note) }
    }

    unsafe fn loads(&mut self, g: &mut Group, note: &Note, run: &Run, iterations: usize, iteration: isize) -> bool {
        // SAFETY: C4: the op's note is one of the code's, of a load, and its elements are inside.
        self.code.counted.is_none() && unsafe { self.touched_over(g, note, run, iterations, iteration) }
    }

    unsafe fn tree(&mut self, g: &mut Group, notes: &[Note], distance: usize) -> bool {
        // SAFETY: C4, C7: the notes are the code's, of the array of the tree behind them, whose extent is at least twice the
        // distance.
        self.code.counted.is_none() && unsafe { self.touched_by_tree(g, notes, distance) }
    }

    unsafe fn declared(&mut self, g: &mut Group, memory: u32) {
        self.locals.declared(g, memory as usize);
    }

    fn block_met(&mut self, _: &mut Group) {
        if self.careful {
            return self.order.block_met();
        }
        self.shared.block_met();
        self.global.block_met();
        self.seen();
    }

    fn warps_met(&mut self, g: &mut Group) {
        if self.careful {
            self.order.time += 1;
            let warps = 0..g.lanes.div_ceil(32);
            return warps.filter(|warp| g.is_active(warp * 32)).for_each(|warp| self.order.warp_met(warp));
        }
        self.write_out();
        self.shared.tick();
        self.global.tick();
        for warp in 0..g.lanes.div_ceil(32) {
            if g.is_active(warp * 32) {
                self.shared.warp_met(warp);
                self.global.warp_met(warp);
            }
        }
        self.seen();
    }

    fn fenced(&mut self, g: &mut Group, scope: Scope) {
        // Fences only matter together with atomic operations whose results decide; such kernels are checked exactly.
        if self.careful {
            self.order.fence(g.active(), scope);
        }
    }

    unsafe fn parted(&mut self, g: &mut Group, from: MaskId, span: u32, first: bool) {
        self.splits.parted(g, from, span, first)
    }

    fn left(&mut self, g: &mut Group, span: u32) {
        self.splits.left(g, span);
    }

    fn gathered(&mut self, g: &mut Group) {
        self.splits.gathered(g);
    }

    fn polls(&mut self, g: &mut Group, wait: &WaitDef) {
        if self.polls.iteration(g, wait, &self.watch.changes)
            && let Some(detail) = self.waits(g)
        {
            let lane = g.active().next().unwrap_or(0);
            let others = g.active_count().saturating_sub(1) as u64;
            stop_at(g, FaultKind::Deadlock { detail }, wait.span, lane, others);
        }
    }

    fn waits(&self, g: &Group) -> Option<String> {
        self.polls.detail(g)
    }

    fn parted_at(&self, lane: usize) -> Option<u32> {
        self.splits.at(lane)
    }

    unsafe fn reaches(
        &mut self,
        g: &mut Group,
        region: usize,
        words: &[u64],
        reaches: &dyn Fn(&mut Group) -> Vec<Reach>,
    ) -> bool {
        // SAFETY: C4, C11: the notes are those of a region of the code, and not of local arrays, which regions do not report.
        unsafe { self.reached(g, region, words, reaches) }
    }

    unsafe fn places(&mut self, g: &mut Group, places: &Places<'_>) -> Told {
        // SAFETY: C4, C11: the note is one of the code's, and not of local arrays; the elements of the active lanes are inside.
        unsafe { self.touched_at(g, places) }
    }

    fn is_owned(&self, memory: u32) -> bool {
        self.watch.is_owned(memory as usize)
    }

    fn marks(&mut self, memory: u32, size: usize) -> Option<(*mut u8, u8)> {
        self.written(memory as usize, size).map(|written| (written.bytes, written.mark))
    }
}
