//! The checker: listens to a group and finds races, reads of what nobody wrote, and who went another way at a barrier.
//!
//! # Model
//! All threads of a launch are concurrent but for what orders them: `barrier()` orders the threads of a block, `warp_barrier()`
//! and the warp operations those of a warp, `grid_barrier()` all. What a thread did before a `fence()` (within its block,
//! also a `fence_block()`) is ordered before what another thread does after it has read, by an atomic operation, what the first one
//! wrote by an atomic operation after its fence, if what it read decides where it goes or what it touches ([`order`]). Atomic
//! operations alone order nothing, nor do those that change nothing or whose old values decide nothing.
//!
//! Two accesses to one element by different threads that are not ordered race if one of them is a plain write, or if one is a
//! plain read, the other an atomic operation that may change the element
//! ([`Touch::conflicts`](super::listen::Touch::conflicts)). Which of them happened first in this run does not matter: each element has a word
//! ([`word`]) that says who wrote it last and when, one for its readers, and one each for atomic updates and loads; these are compared
//! with what the running thread has been ordered behind ([`rows`]).
//!
//! # Two ways
//! Words are fast: whole rows of them are compared at once, and all workers take part. But a word names one thread where there
//! were several, and knows nothing of fences. So a kernel whose threads synchronize by fences and atomics is run with care, by one
//! worker: each access is compared with all that its element has seen ([`exact`], [`trace`]), and each thread
//! knows of others by a view that it shares with those it learned from ([`view`]). That costs in proportion to accesses, and memory in
//! proportion to arrays and releases. And a launch in which the fast way finds a race is run again with care, so that those who took
//! part are named as they are.
//!
//! What fences and atomics order in one run they may not order in another: whose turn comes first is up to the device. So where they
//! decided that something is no race, the launch is run a second time with the opposite order of blocks, of the first and the last
//! blocks' warps, and of the lanes in atomic operations ([`sched`](super::sched)), and judged the same way; the arrays are those of
//! the first run. Two threads that race in one of all orders mostly do so in one of these two.
//!
//! - [`rows`]: the rules, element by element and in vectors; [`clock`]: times; [`shadow`]: where the words lie
//! - [`pattern`], [`quick`]: accesses to shared arrays that can be judged without words
//! - [`touch`]: from an access to its elements; [`race`]: what to say of a broken rule
//! - [`exact`], [`trace`]: every access by itself; [`order`], [`view`]: fences and atomics
//! - [`written`]: global arrays of which each element is one thread's; [`local`]: arrays of one thread; [`split`]: where threads parted; [`arithmetic`]: overflow and its kin

pub(crate) mod arithmetic;
mod clock;
mod exact;
mod local;
mod locks;
mod order;
mod pattern;
mod quick;
mod race;
mod rows;
mod shadow;
mod split;
mod touch;
mod trace;
mod view;
mod watch;
mod word;
mod written;

pub(crate) use watch::{Watch, keep};

use super::code::{Code, MaskId, MemoryKind, WaitDef, Watched};
use super::fault::stop_at;
use super::geometry::Geometry;
use super::group::Group;
use super::lanes::Isa;
use super::listen::{Listener, Note};
use super::memory::Run;
use crate::base::room;
use crate::device::{Extents, FaultKind};
use crate::ir::def::Scope;
use clock::Clock;
use shadow::{Planes, Store};

/// Whether blocks of this launch may race in global memory, as far as its indices tell.
pub(crate) fn may_race(code: &Code, extents: &Extents) -> bool {
    let geometry = Geometry::new(extents, code);
    let global = |k: usize| matches!(code.memories[k].kind, MemoryKind::Global(_));
    let tracked = |(k, watched): (usize, &Option<Watched>)| {
        global(k) && watched.as_ref().is_some_and(|w| !geometry.tells(&w.own, code))
    };
    code.watched.iter().enumerate().any(tracked)
}

/// Listens to one group at a time.
pub(crate) struct Checker<'a> {
    watch: &'a Watch<'a>,
    code: &'a Code,
    isa: Isa,
    shared: Clock,
    global: Clock,
    /// By memory: words of shared arrays, which grow as blocks need them.
    stores: Vec<Option<Store>>,
    /// By memory: what is kept of shared arrays.
    quick: Vec<quick::Quick>,
    locals: local::Locals,
    splits: split::Splits,
    /// Every access is looked at by itself.
    careful: bool,
    order: order::Own,
    /// By memory: what the careful way remembers of shared arrays, and the variables among their elements.
    traces: Vec<Option<Box<trace::Trace>>>,
    variables: order::Variables,
    held: locks::Held,
    left: exact::Left,
    polls: split::Polls,
    finding: Option<race::Finding>,
    number: u64,
}

impl<'a> Checker<'a> {
    pub fn new(watch: &'a Watch<'a>, code: &'a Code, isa: Isa, lanes: usize) -> Self {
        Checker {
            watch,
            code,
            isa,
            shared: Clock::of_shared(),
            global: Clock::of_global(watch.globals.start),
            stores: code.memories.iter().map(|_| None).collect(),
            quick: code.memories.iter().map(|_| quick::Quick::default()).collect(),
            locals: local::Locals::new(code, lanes),
            splits: split::Splits::new(lanes),
            careful: watch.exact.is_some(),
            order: order::Own::default(),
            traces: code.memories.iter().map(|_| None).collect(),
            variables: order::Variables::default(),
            held: locks::Held::default(),
            left: exact::Left::default(),
            polls: split::Polls::default(),
            finding: None,
            number: 0,
        }
    }

    /// Group `number` of so many threads begins.
    pub fn begin(&mut self, number: u64, lanes: usize) {
        self.number = number;
        if self.careful {
            self.order.begin(number, lanes);
            self.variables.clear();
            self.held.begin(lanes);
        }
        self.shared.begin_shared();
        self.global.begin_global(number, self.watch.globals.start);
        self.locals.begin();
        self.splits.begin();
        self.polls = split::Polls::default();
    }

    /// All blocks of the grid have met, at this time.
    pub fn grid_met(&mut self, time: u64) {
        self.shared.block_met();
        self.global.grid_met(time);
        if self.careful {
            self.order.grid_met(time);
            self.variables.clear();
        }
    }

    /// The time of global memory.
    pub fn time(&self) -> u64 {
        if self.careful { self.order.time } else { self.global.time }
    }

    /// The planes of a memory, and whether it is global.
    fn planes(&mut self, g: &Group, memory: usize, watched: &Watched) -> (Planes, bool) {
        if let MemoryKind::Global(_) = self.code.memories[memory].kind {
            return (self.watch.globals.planes(memory).unwrap_or(Planes::NONE), true);
        }
        if self.careful {
            return (Planes::NONE, false);
        }
        // SAFETY: there is one for each memory of the code.
        let bytes = unsafe { (*g.memories.add(memory)).len };
        let len = bytes / watched.unit.max(1);
        let store = &mut self.stores[memory];
        if store.as_ref().is_none_or(|s| s.planes.len < len) {
            // Words of a smaller plane are of earlier blocks: the size of a shared array is one for the whole block.
            *store = Some(Store::new(watched, len, room::zeros));
        }
        (store.as_ref().map_or(Planes::NONE, |s| s.planes), false)
    }
}

impl Drop for Checker<'_> {
    fn drop(&mut self) {
        self.watch.globals.last.fetch_max(self.global.time, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Listener for Checker<'_> {
    unsafe fn touches(&mut self, g: &mut Group, note: &Note) {
        unsafe { self.touched(g, note) }
    }

    unsafe fn loads(&mut self, g: &mut Group, note: &Note, run: &Run, turns: usize, turn: isize) -> bool {
        unsafe { self.touched_over(g, note, run, turns, turn) }
    }

    unsafe fn tree(&mut self, g: &mut Group, notes: &[Note], distance: usize) -> bool {
        unsafe { self.touched_by_tree(g, notes, distance) }
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
        // Fences order something only together with atomic operations that decide; such kernels are run with care.
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
        if self.polls.turn(g, wait, &self.watch.changes)
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
}

impl Checker<'_> {
    /// What is kept of shared arrays becomes words.
    fn write_out(&mut self) {
        for (number, quick) in self.quick.iter_mut().enumerate() {
            let now = self.shared.now(0);
            if let (true, Some(store)) = (quick.holds(&now), &self.stores[number]) {
                // SAFETY: the store is that of the memory.
                unsafe { quick.write_out(&store.planes, &now, self.isa, self.code.warp_ops) };
            }
        }
    }

    /// Blocks begin their times anew, so that the largest one has to be kept.
    fn seen(&mut self) {
        if self.global.ends() {
            self.watch.globals.rewrite(self.global.renew());
        }
        if self.global.time > self.watch.globals.last.load(std::sync::atomic::Ordering::Relaxed) {
            self.watch.globals.last.fetch_max(self.global.time, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
