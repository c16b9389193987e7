//! Runs a launch so that one of two accesses to an element comes before the other.
//!
//! Input: a launch, and two accesses of different threads: who, at which line, to which element. Output: for each of the two orders, what
//! the reading thread finds, what the element holds behind both, and the arrays in the end; or why an order cannot be had. All other threads
//! go first, as far as they can; the one that is to be the later waits in front of its access, and the earlier one rests behind its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::check::Stop;
use super::event::{Access, At, Kind};
use super::meet::{meet_block, meet_warp, waits_at};
use super::memory::{Bytes, Shared};
use super::state::Launch;
use super::thread::{Observer, Phase, Thread, World};
use super::value::Val;
use crate::base::source::Span;
use crate::device::Arg;
use crate::device::Extents;
use crate::device::fault::{DeviceError, FaultKind, Who};
use crate::ir::Checks;
use crate::ir::calls::resolve;
use crate::ir::def::{ExprKind, Stmt, StmtKind};
use crate::lang::ops::BarrierKind;

/// Statements of a run, and of a thread until others have their turn.
const MOST_STEPS: u64 = 300_000;
const TURN: u64 = 2_000;
const WARP: usize = 32;

/// One of the two accesses.
#[derive(Clone, Debug)]
pub struct Party {
    pub who: Who,
    /// The line, with calls resolved.
    pub span: Span,
    /// What it does there: one line may read an element and write it.
    pub kind: Kind,
}

/// What a run in one order led to.
#[derive(Debug)]
pub struct Outcome {
    /// What each of the two accesses found before it, and what it read or left; in the order of the parties.
    pub seen: [Option<Seen>; 2],
    /// What the element holds behind both accesses.
    pub left: Option<Val>,
    /// The arrays in the end, by position.
    pub arrays: Vec<Vec<u8>>,
    /// The first fault of a thread.
    pub fault: Option<FaultKind>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub reads: bool,
    /// Nothing was written there before.
    pub unwritten: bool,
    pub value: Val,
}

/// Why an order cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// In the usual order, the two do not access the element in one epoch.
    Elsewhere,
    /// The one waits for the other.
    Waits,
    TooLong,
    Interrupted,
    Memory,
}

/// Runs a launch in both orders: first with the first party's access before the second one's, then the other way round.
pub fn both(
    launch: &Launch<'_>,
    args: &[Arg<'_>],
    parties: &[Party; 2],
    place: &str,
    stop: &AtomicBool,
) -> Result<[Outcome; 2], Obstacle> {
    let numbers = [number(launch, &parties[0].who), number(launch, &parties[1].who)];
    let run = |order: Option<Order>| {
        let mut run = Run::new(launch, args, (parties, numbers), place, stop).map_err(|_| Obstacle::Memory)?;
        run.order = order;
        run.all()?;
        Ok(run)
    };
    let meeting = run(None)?.meeting().ok_or(Obstacle::Elsewhere)?;
    let one = run(Some(Order { first: 0, turns: meeting }))?.outcome()?;
    let other = run(Some(Order { first: 1, turns: meeting }))?.outcome()?;
    Ok([one, other])
}

/// Returns the number of a thread's block, and its own in it.
fn number(launch: &Launch<'_>, who: &Who) -> (usize, usize) {
    let flat = |at: [u32; 3], of: [u32; 3]| (at[0] + of[0] * (at[1] + of[1] * at[2])) as usize;
    match (launch.extents, &who.index) {
        (Extents::Threads(of), Some(index)) => {
            let at = |k: usize| index.get(k).copied().unwrap_or(0);
            let all = ((at(0) * of[1] + at(1)) * of[2] + at(2)) as usize;
            (all / WARP, all % WARP)
        }
        (Extents::Grid { grid, block }, _) => (flat(who.block, grid), flat(who.thread, block)),
        (Extents::Threads(_), None) => (0, 0),
    }
}

/// Which party comes first, and which of the accesses of each it is about: the number of those at its line to the element before.
#[derive(Clone, Copy)]
struct Order {
    first: usize,
    turns: [usize; 2],
}

struct Block<'m> {
    threads: Vec<Arc<Thread<'m>>>,
    shared: Shared,
    /// How often its threads have met at a barrier, and the threads of each warp.
    met: usize,
    warps: Vec<usize>,
}

/// What the parties do to the element.
struct Watch<'a> {
    parties: &'a [Party; 2],
    numbers: [(usize, usize); 2],
    place: &'a str,
    /// The accesses of each party at its line to the element, with the epoch: meetings of the grid, the block and the warp.
    seen: [Vec<(Seen, [usize; 3])>; 2],
    /// The last value written to the element.
    current: Option<Val>,
    epoch: [usize; 3],
    calls: &'a [crate::ir::calls::Call],
}

impl Observer for Watch<'_> {
    fn access(&mut self, at: At, access: &Access<'_, '_>) {
        if !is_at(access, self.place) {
            return;
        }
        if access.writes() {
            self.current = Some(access.value);
        }
        let (line, _) = resolve(self.calls, access.span);
        let who = (at.block as usize, at.thread as usize);
        for (party, seen) in self.seen.iter_mut().enumerate() {
            let own = &self.parties[party];
            if self.numbers[party] == who && own.span == line && own.kind == access.kind {
                let reads = access.kind == Kind::Read;
                seen.push((Seen { reads, unwritten: access.before.is_none(), value: access.value }, self.epoch));
            }
        }
    }
}

/// Returns whether an access is to the element with this name, or to a part of it.
fn is_at(access: &Access<'_, '_>, place: &str) -> bool {
    place.strip_prefix(&element(access)).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the name of the element of an access: `s[3, 4]`.
pub(super) fn element(access: &Access<'_, '_>) -> String {
    access.array.element(access.offset)
}

struct Run<'a, 'm> {
    launch: &'a Launch<'m>,
    blocks: Vec<Block<'m>>,
    global: Vec<Bytes>,
    watch: Watch<'a>,
    order: Option<Order>,
    /// Of each party: whether it did its access, or would do it next and must not.
    done: [bool; 2],
    held: [bool; 2],
    /// What the element held when the second one had done its access.
    left: Option<Val>,
    fault: Option<FaultKind>,
    steps: u64,
    grids: usize,
    stop: &'a AtomicBool,
}

impl<'a, 'm> Run<'a, 'm> {
    fn new(
        launch: &'a Launch<'m>,
        args: &[Arg<'_>],
        (parties, numbers): (&'a [Party; 2], [(usize, usize); 2]),
        place: &'a str,
        stop: &'a AtomicBool,
    ) -> Result<Self, DeviceError> {
        let global = launch.start(args)?.global;
        let body = &launch.module.functions[launch.module.kernel.body];
        let (seen, current, epoch) = ([vec![], vec![]], None, [0; 3]);
        let watch = Watch { parties, numbers, place, seen, current, epoch, calls: &body.calls };
        let mut run = Run {
            launch,
            blocks: vec![],
            global,
            watch,
            order: None,
            done: [false; 2],
            held: [false; 2],
            left: None,
            fault: None,
            steps: 0,
            grids: 0,
            stop,
        };
        for number in 0..launch.blocks {
            let count = launch.threads(number);
            let threads =
                (0..count).map(|flat| Arc::new(Thread::new(launch.module, launch.ids(number, flat)))).collect();
            let warps = vec![0; (count as usize).div_ceil(WARP)];
            run.blocks.push(Block { threads, shared: Shared::new(), met: 0, warps });
            for thread in 0..count as usize {
                run.with_thread((number as usize, thread), &mut |thread, world| thread.start(world));
            }
        }
        Ok(run)
    }

    /// Has a thread do something in the world as it is; a fault ends it.
    fn with_thread(
        &mut self,
        (block, thread): (usize, usize),
        act: &mut dyn FnMut(&mut Thread<'m>, &mut World<'_>) -> Result<(), Stop>,
    ) {
        let at = At { step: self.steps, block: block as u64, thread: thread as u32 };
        let owner = &mut self.blocks[block];
        self.watch.epoch = [self.grids, owner.met, owner.warps.get(thread / WARP).copied().unwrap_or(0)];
        let mut world = World {
            parameters: &self.launch.parameters,
            checks: Checks::default(),
            global: &mut self.global,
            shared: &mut owner.shared,
            output: &mut String::new(),
            observer: &mut self.watch,
            at,
            copied: 0,
        };
        let thread = Arc::make_mut(&mut owner.threads[thread]);
        if let Err((kind, _)) = act(thread, &mut world) {
            thread.phase = Phase::Faulted;
            self.fault.get_or_insert(kind);
        }
    }

    /// Returns the first accesses of the two that nothing orders: in one epoch, or in different blocks between two meetings of the grid.
    fn meeting(&self) -> Option<[usize; 2]> {
        let [a, b] = self.watch.numbers;
        let same_warp = a.0 == b.0 && a.1 / WARP == b.1 / WARP;
        let apart = |one: &[usize; 3], other: &[usize; 3]| {
            one[0] == other[0] && (a.0 != b.0 || one[1] == other[1] && (!same_warp || one[2] == other[2]))
        };
        let [ours, theirs] = &self.watch.seen;
        let with = |(i, one): (usize, &(Seen, [usize; 3]))| {
            theirs.iter().position(|other| apart(&one.1, &other.1)).map(|j| [i, j])
        };
        ours.iter().enumerate().find_map(with)
    }

    fn outcome(self) -> Result<Outcome, Obstacle> {
        let Some(order) = self.order.filter(|_| self.done == [true; 2]) else { return Err(Obstacle::Elsewhere) };
        let seen = [0, 1].map(|party| self.watch.seen[party].get(order.turns[party]).map(|(seen, _)| *seen));
        let bytes = |bytes: &Bytes| {
            let mut to = vec![0; bytes.len()];
            bytes.copy_to(&mut to);
            to
        };
        Ok(Outcome { seen, left: self.left, arrays: self.global.iter().map(bytes).collect(), fault: self.fault })
    }

    /// Runs to the end.
    fn all(&mut self) -> Result<(), Obstacle> {
        let parties = self.watch.numbers;
        loop {
            let mut moved = false;
            for block in 0..self.blocks.len() {
                for thread in 0..self.blocks[block].threads.len() {
                    if self.order.is_none() || !parties.contains(&(block, thread)) {
                        moved |= self.turn((block, thread))?;
                    }
                }
            }
            if let Some(Order { first, .. }) = self.order {
                moved |= self.turn_of(first)? | self.turn_of(1 - first)?;
            }
            if moved || self.meet() {
                continue;
            }
            match self.order {
                // The earlier one rests, and the later one cannot get to its access without it: that comes later in any case.
                Some(Order { first, .. }) if self.held[first] => self.held[first] = false,
                Some(Order { first, .. }) if self.held[1 - first] => return Err(Obstacle::Waits),
                _ => return Ok(()),
            }
        }
    }

    /// Runs a thread until it waits, or for a while; returns whether it did anything.
    fn turn(&mut self, who: (usize, usize)) -> Result<bool, Obstacle> {
        let mut taken = 0;
        while taken < TURN && self.blocks[who.0].threads[who.1].is_ready() {
            self.step(who)?;
            taken += 1;
        }
        Ok(taken > 0)
    }

    fn step(&mut self, who: (usize, usize)) -> Result<(), Obstacle> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err(Obstacle::TooLong);
        }
        if self.steps.is_multiple_of(1024) && self.stop.load(Ordering::Relaxed) {
            return Err(Obstacle::Interrupted);
        }
        self.with_thread(who, &mut |thread, world| thread.step(world, 0));
        Ok(())
    }

    /// As [`Run::turn`] of a party: the earlier one stops behind its access until the later one has done its own, which stops in front of it.
    fn turn_of(&mut self, party: usize) -> Result<bool, Obstacle> {
        let Some(Order { first, turns }) = self.order else { return Ok(false) };
        let (who, other) = (self.watch.numbers[party], 1 - party);
        let mut taken = 0;
        while taken < TURN && self.blocks[who.0].threads[who.1].is_ready() && !self.held[party] {
            let is_next = self.watch.seen[party].len() == turns[party] && !self.done[party];
            let must_wait = party != first && !self.done[other];
            let before = (is_next && must_wait && self.may_access(who)).then(|| self.saved(who.0));
            self.step(who)?;
            taken += 1;
            if !is_next || self.watch.seen[party].len() <= turns[party] {
                continue;
            }
            if let Some(saved) = before {
                self.restore(who.0, saved, party);
                self.held[party] = true;
                // What was taken back is no progress.
                return Ok(taken > 1);
            }
            self.done[party] = true;
            if self.done[other] {
                self.left = self.watch.current;
                self.held = [false; 2];
            } else {
                self.held = [party == 0, party == 1];
            }
        }
        Ok(taken > 0)
    }

    /// Returns whether the next statement of a thread accesses an array at all.
    fn may_access(&self, (block, thread): (usize, usize)) -> bool {
        let thread = &self.blocks[block].threads[thread];
        let is_load = |stmt: &Stmt| match (&stmt.kind, thread.frames.last()) {
            (StmtKind::Let(expr), Some(frame)) => matches!(frame.function.exprs[*expr].kind, ExprKind::Load { .. }),
            (StmtKind::Store { .. } | StmtKind::Atomic { .. }, _) => true,
            _ => false,
        };
        thread.next().is_some_and(is_load)
    }

    fn saved(&self, block: usize) -> Saved<'m> {
        let owner = &self.blocks[block];
        Saved {
            threads: owner.threads.clone(),
            shared: owner.shared.clone(),
            global: self.global.clone(),
            current: self.watch.current,
            fault: self.fault.clone(),
        }
    }

    fn restore(&mut self, block: usize, saved: Saved<'m>, party: usize) {
        self.watch.seen[party].pop();
        self.watch.current = saved.current;
        (self.global, self.fault) = (saved.global, saved.fault);
        (self.blocks[block].threads, self.blocks[block].shared) = (saved.threads, saved.shared);
    }

    /// Performs the operations at which all have arrived; returns whether there were any.
    fn meet(&mut self) -> bool {
        let mut met = false;
        for block in &mut self.blocks {
            for (warp, count) in block.threads.chunks_mut(WARP).zip(&mut block.warps) {
                if meet_warp(warp, Checks::default(), &mut vec![]) {
                    *count += 1;
                    met = true;
                }
            }
            if meet_block(&mut block.threads) {
                block.met += 1;
                met = true;
            }
        }
        let mut all = self.blocks.iter().flat_map(|block| &block.threads);
        if !met && self.launch.module.kernel.cooperative && all.all(|thread| waits_at(thread, BarrierKind::Grid)) {
            self.blocks.iter_mut().flat_map(|block| &mut block.threads).for_each(|t| Arc::make_mut(t).resume(None));
            self.grids += 1;
            met = true;
        }
        met
    }
}

/// The state before a step.
struct Saved<'m> {
    threads: Vec<Arc<Thread<'m>>>,
    shared: Shared,
    global: Vec<Bytes>,
    current: Option<Val>,
    fault: Option<FaultKind>,
}
