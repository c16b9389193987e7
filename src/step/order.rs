//! Executes a launch with both possible orders of two racing accesses to an element.
//!
//! Input: a launch, an element, and the two threads (parties) that access it, each with the source line of its access.
//! Output for each order: the values that the accesses read, the final value of the element, and the final arrays; or
//! the reason why the order is impossible. All other threads run first, until they wait. Then the party that comes
//! second stops before its access, until the other party has made its own access.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::check::ThreadFault;
use super::event::{AccessEvent, AccessKind, StepPosition};
use super::memory::{PagedBytes, SharedArrays};
use super::rendezvous::{is_waiting_at, run_block_rendezvous, run_warp_rendezvous};
use super::state::StepLaunch;
use super::thread::{StepObserver, Thread, ThreadEnvironment, ThreadPhase};
use super::value::ThreadValue;
use clk_base::source::Span;
use clk_ir::Checks;
use clk_ir::def::{ExprKind, Stmt, StmtKind};
use clk_ir::inlined_calls::resolve_span;
use clk_runtime::Arg;
use clk_runtime::LaunchExtents;
use clk_runtime::{DeviceError, FaultKind, ThreadId};
use clk_scalar::ops::BarrierKind;

/// Maximum number of statements in one execution of the launch.
const MOST_STEPS: u64 = 300_000;
/// Maximum number of statements that a thread executes before other threads run.
const TURN: u64 = 2_000;
const WARP: usize = 32;

/// One of the two racing accesses.
#[derive(Clone, Debug)]
pub struct RaceParty {
    pub thread: ThreadId,
    /// The original source location, even if the access is in an inlined function ([`resolve_span`]).
    pub span: Span,
    /// The kind of the access. It is needed because one statement may both read and write the element.
    pub kind: AccessKind,
}

/// The result of executing the launch in one order.
#[derive(Debug)]
pub struct OrderOutcome {
    /// For each party, the element's value before its access, and the value that it read or wrote.
    pub observed: [Option<ObservedValue>; 2],
    /// The value of the element after both accesses.
    pub left: Option<ThreadValue>,
    /// The final contents of the array arguments, by position.
    pub arrays: Vec<Vec<u8>>,
    /// The first fault of any thread.
    pub fault: Option<FaultKind>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ObservedValue {
    pub reads: bool,
    /// Whether the element was unwritten before the access.
    pub unwritten: bool,
    pub value: ThreadValue,
}

/// Why an order is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScheduleError {
    /// In the default schedule the two accesses are not concurrent, because synchronization orders them.
    Elsewhere,
    /// The access that should come first waits until the other one has been made.
    Waits,
    TooLong,
    Interrupted,
    Memory,
}

/// Executes a launch in both orders. In the first result, the first party's access comes first; in the second result,
/// the second party's.
pub fn both(
    launch: &StepLaunch<'_>,
    args: &[Arg<'_>],
    parties: &[RaceParty; 2],
    place: &str,
    stop: &AtomicBool,
) -> Result<[OrderOutcome; 2], ScheduleError> {
    let numbers = [number(launch, &parties[0].thread), number(launch, &parties[1].thread)];
    let run = |order: Option<PartyOrder>| {
        let mut run =
            ScheduleSearch::new(launch, args, parties, numbers, place, stop).map_err(|_| ScheduleError::Memory)?;
        run.order = order;
        run.run_to_end()?;
        Ok(run)
    };
    let access_indices = run(None)?.first_concurrent_pair().ok_or(ScheduleError::Elsewhere)?;
    let one = run(Some(PartyOrder { first: 0, turns: access_indices }))?.outcome()?;
    let other = run(Some(PartyOrder { first: 1, turns: access_indices }))?.outcome()?;
    Ok([one, other])
}

/// A thread, identified by the linear index of its block and its linear index in the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadNumber {
    block: usize,
    thread: usize,
}

fn number(launch: &StepLaunch<'_>, id: &ThreadId) -> ThreadNumber {
    let flat = |at: [u32; 3], of: [u32; 3]| (at[0] + of[0] * (at[1] + of[1] * at[2])) as usize;
    match (launch.extents, &id.index) {
        (LaunchExtents::Threads(of), Some(index)) => {
            let at = |k: usize| index.get(k).copied().unwrap_or(0);
            let all = ((at(0) * of[1] + at(1)) * of[2] + at(2)) as usize;
            ThreadNumber { block: all / WARP, thread: all % WARP }
        }
        (LaunchExtents::Grid { grid, block }, _) => {
            ThreadNumber { block: flat(id.block, grid), thread: flat(id.thread, block) }
        }
        (LaunchExtents::Threads(_), None) => ThreadNumber { block: 0, thread: 0 },
    }
}

/// The order to enforce: the party whose access comes first. Since a party may access the element several times at its
/// line, `turns` selects one of these accesses for each party.
#[derive(Clone, Copy)]
struct PartyOrder {
    first: usize,
    turns: [usize; 2],
}

struct ScheduledBlock<'m> {
    threads: Vec<Arc<Thread<'m>>>,
    shared: SharedArrays,
    /// Number of completed block barriers.
    barrier_count: usize,
    /// For each warp, number of completed warp operations.
    warp_sync_counts: Vec<usize>,
}

/// Observes the accesses of both parties to the element.
struct PartyObserver<'a> {
    parties: &'a [RaceParty; 2],
    numbers: [ThreadNumber; 2],
    place: &'a str,
    /// For each party, its accesses to the element at its line. Each has an epoch: the numbers of grid barriers, block
    /// barriers and warp operations completed before it.
    accesses: [Vec<(ObservedValue, [usize; 3])>; 2],
    /// The last value written to the element.
    current: Option<ThreadValue>,
    epoch: [usize; 3],
    calls: &'a [clk_ir::inlined_calls::InlinedCall],
}

impl StepObserver for PartyObserver<'_> {
    fn access(&mut self, at: StepPosition, access: &AccessEvent<'_, '_>) {
        if !is_at(access, self.place) {
            return;
        }
        if access.writes() {
            self.current = Some(access.value);
        }
        let (line, _) = resolve_span(self.calls, access.span);
        let accessor = ThreadNumber { block: at.block as usize, thread: at.thread as usize };
        for (party, seen) in self.accesses.iter_mut().enumerate() {
            let own = &self.parties[party];
            if self.numbers[party] == accessor && own.span == line && own.kind == access.kind {
                let reads = access.kind == AccessKind::Load;
                seen.push((
                    ObservedValue { reads, unwritten: access.before.is_none(), value: access.value },
                    self.epoch,
                ));
            }
        }
    }
}

/// Returns whether an access is to the element or field named `place`, or to a component of it.
fn is_at(access: &AccessEvent<'_, '_>, place: &str) -> bool {
    place.strip_prefix(&element(access)).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Returns the name of the element of an access: `s[3, 4]`.
pub(super) fn element(access: &AccessEvent<'_, '_>) -> String {
    access.array.element(access.offset)
}

struct ScheduleSearch<'a, 'm> {
    launch: &'a StepLaunch<'m>,
    blocks: Vec<ScheduledBlock<'m>>,
    global: Vec<PagedBytes>,
    watch: PartyObserver<'a>,
    order: Option<PartyOrder>,
    /// For each of the two racing threads, whether it has made its access.
    done: [bool; 2],
    /// For each of them, whether it is stopped, either before or after its access.
    is_held: [bool; 2],
    /// The value of the element after the second access.
    left: Option<ThreadValue>,
    fault: Option<FaultKind>,
    steps: u64,
    grid_barrier_count: usize,
    stop: &'a AtomicBool,
}

impl<'a, 'm> ScheduleSearch<'a, 'm> {
    fn new(
        launch: &'a StepLaunch<'m>,
        args: &[Arg<'_>],
        parties: &'a [RaceParty; 2],
        numbers: [ThreadNumber; 2],
        place: &'a str,
        stop: &'a AtomicBool,
    ) -> Result<Self, DeviceError> {
        let global = launch.start(args)?.global;
        let body = &launch.module.functions[launch.module.kernel.body];
        let (seen, current, epoch) = ([vec![], vec![]], None, [0; 3]);
        let watch = PartyObserver { parties, numbers, place, accesses: seen, current, epoch, calls: &body.calls };
        let mut run = ScheduleSearch {
            launch,
            blocks: vec![],
            global,
            watch,
            order: None,
            done: [false; 2],
            is_held: [false; 2],
            left: None,
            fault: None,
            steps: 0,
            grid_barrier_count: 0,
            stop,
        };
        for number in 0..launch.blocks {
            let count = launch.threads(number);
            let threads =
                (0..count).map(|flat| Arc::new(Thread::new(launch.module, launch.ids(number, flat)))).collect();
            let warps = vec![0; (count as usize).div_ceil(WARP)];
            run.blocks.push(ScheduledBlock {
                threads,
                shared: SharedArrays::new(),
                barrier_count: 0,
                warp_sync_counts: warps,
            });
            for thread in 0..count as usize {
                let number = ThreadNumber { block: number as usize, thread };
                run.with_thread(number, &mut |thread, world| thread.start(world));
            }
        }
        Ok(run)
    }

    /// Runs `act` for a thread, with the current memory. A fault stops the thread.
    fn with_thread(
        &mut self,
        number: ThreadNumber,
        act: &mut dyn FnMut(&mut Thread<'m>, &mut ThreadEnvironment<'_>) -> Result<(), ThreadFault>,
    ) {
        let ThreadNumber { block, thread } = number;
        let at = StepPosition { step: self.steps, block: block as u64, thread: thread as u32 };
        let owner = &mut self.blocks[block];
        self.watch.epoch = [
            self.grid_barrier_count,
            owner.barrier_count,
            owner.warp_sync_counts.get(thread / WARP).copied().unwrap_or(0),
        ];
        let mut world = ThreadEnvironment {
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
            thread.phase = ThreadPhase::Faulted;
            self.fault.get_or_insert(kind);
        }
    }

    /// Returns the first pair of concurrent accesses, one of each party. Accesses are concurrent if they have the same
    /// epoch, or if they are in different blocks and no grid barrier separates them.
    fn first_concurrent_pair(&self) -> Option<[usize; 2]> {
        let [a, b] = self.watch.numbers;
        let same_warp = a.block == b.block && a.thread / WARP == b.thread / WARP;
        let is_unordered = |one: &[usize; 3], other: &[usize; 3]| {
            one[0] == other[0] && (a.block != b.block || one[1] == other[1] && (!same_warp || one[2] == other[2]))
        };
        let [ours, theirs] = &self.watch.accesses;
        let with = |(i, one): (usize, &(ObservedValue, [usize; 3]))| {
            theirs.iter().position(|other| is_unordered(&one.1, &other.1)).map(|j| [i, j])
        };
        ours.iter().enumerate().find_map(with)
    }

    fn outcome(self) -> Result<OrderOutcome, ScheduleError> {
        let Some(order) = self.order.filter(|_| self.done == [true; 2]) else { return Err(ScheduleError::Elsewhere) };
        let seen = [0, 1].map(|party| self.watch.accesses[party].get(order.turns[party]).map(|(seen, _)| *seen));
        let bytes = |bytes: &PagedBytes| {
            let mut to = vec![0; bytes.len()];
            bytes.copy_to(&mut to);
            to
        };
        Ok(OrderOutcome {
            observed: seen,
            left: self.left,
            arrays: self.global.iter().map(bytes).collect(),
            fault: self.fault,
        })
    }

    /// Runs all threads until no thread can continue.
    fn run_to_end(&mut self) -> Result<(), ScheduleError> {
        let parties = self.watch.numbers;
        loop {
            let mut moved = false;
            for block in 0..self.blocks.len() {
                for thread in 0..self.blocks[block].threads.len() {
                    let number = ThreadNumber { block, thread };
                    if self.order.is_none() || !parties.contains(&number) {
                        moved |= self.run_thread(number)?;
                    }
                }
            }
            if let Some(PartyOrder { first, .. }) = self.order {
                moved |= self.run_party(first)? | self.run_party(1 - first)?;
            }
            if moved || self.run_rendezvous() {
                continue;
            }
            match self.order {
                // The second party cannot reach its access while the first one is stopped. The first party may
                // continue, since the second access comes later in any case.
                Some(PartyOrder { first, .. }) if self.is_held[first] => self.is_held[first] = false,
                Some(PartyOrder { first, .. }) if self.is_held[1 - first] => return Err(ScheduleError::Waits),
                _ => return Ok(()),
            }
        }
    }

    /// Runs a thread until it waits, but for at most `TURN` steps. Returns whether it took a step.
    fn run_thread(&mut self, number: ThreadNumber) -> Result<bool, ScheduleError> {
        let mut steps_taken = 0;
        while steps_taken < TURN && self.is_ready(number) {
            self.step(number)?;
            steps_taken += 1;
        }
        Ok(steps_taken > 0)
    }

    fn is_ready(&self, number: ThreadNumber) -> bool {
        self.blocks[number.block].threads[number.thread].is_ready()
    }

    fn step(&mut self, number: ThreadNumber) -> Result<(), ScheduleError> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err(ScheduleError::TooLong);
        }
        if self.steps.is_multiple_of(1024) && self.stop.load(Ordering::Relaxed) {
            return Err(ScheduleError::Interrupted);
        }
        self.with_thread(number, &mut |thread, world| thread.step(world, 0));
        Ok(())
    }

    /// Like [`Self::run_thread`], but for a party. The party that comes first stops after its access until the second
    /// one has made its access. The second one stops before its access until the first one has made its access.
    fn run_party(&mut self, party: usize) -> Result<bool, ScheduleError> {
        let Some(PartyOrder { first, turns }) = self.order else { return Ok(false) };
        let (number, other) = (self.watch.numbers[party], 1 - party);
        let mut steps_taken = 0;
        while steps_taken < TURN && self.is_ready(number) && !self.is_held[party] {
            let is_next = self.watch.accesses[party].len() == turns[party] && !self.done[party];
            let must_wait = party != first && !self.done[other];
            let before = (is_next && must_wait && self.may_access(number)).then(|| self.save(number.block));
            self.step(number)?;
            steps_taken += 1;
            if !is_next || self.watch.accesses[party].len() <= turns[party] {
                continue;
            }
            if let Some(saved) = before {
                self.restore(number.block, saved, party);
                self.is_held[party] = true;
                // The last step was undone, so that it is not counted as progress.
                return Ok(steps_taken > 1);
            }
            self.done[party] = true;
            if self.done[other] {
                self.left = self.watch.current;
                self.is_held = [false; 2];
            } else {
                self.is_held = [party == 0, party == 1];
            }
        }
        Ok(steps_taken > 0)
    }

    /// Returns whether the next statement of a thread may access an array.
    fn may_access(&self, number: ThreadNumber) -> bool {
        let thread = &self.blocks[number.block].threads[number.thread];
        let is_load = |stmt: &Stmt| match (&stmt.kind, thread.frames.last()) {
            (StmtKind::Let(expr), Some(frame)) => matches!(frame.function.exprs[*expr].kind, ExprKind::Load { .. }),
            (StmtKind::Store { .. } | StmtKind::Atomic { .. }, _) => true,
            _ => false,
        };
        thread.next().is_some_and(is_load)
    }

    fn save(&self, block: usize) -> SavedState<'m> {
        let owner = &self.blocks[block];
        SavedState {
            threads: owner.threads.clone(),
            shared: owner.shared.clone(),
            global: self.global.clone(),
            current: self.watch.current,
            fault: self.fault.clone(),
        }
    }

    fn restore(&mut self, block: usize, saved: SavedState<'m>, party: usize) {
        self.watch.accesses[party].pop();
        self.watch.current = saved.current;
        (self.global, self.fault) = (saved.global, saved.fault);
        (self.blocks[block].threads, self.blocks[block].shared) = (saved.threads, saved.shared);
    }

    /// Performs all barriers and warp operations at which all their threads have arrived. Returns whether there were
    /// any.
    fn run_rendezvous(&mut self) -> bool {
        let mut met = false;
        for block in &mut self.blocks {
            for (warp, count) in block.threads.chunks_mut(WARP).zip(&mut block.warp_sync_counts) {
                if run_warp_rendezvous(warp, Checks::default(), &mut vec![]) {
                    *count += 1;
                    met = true;
                }
            }
            if run_block_rendezvous(&mut block.threads) {
                block.barrier_count += 1;
                met = true;
            }
        }
        let mut all = self.blocks.iter().flat_map(|block| &block.threads);
        if !met && self.launch.module.kernel.cooperative && all.all(|thread| is_waiting_at(thread, BarrierKind::Grid)) {
            self.blocks.iter_mut().flat_map(|block| &mut block.threads).for_each(|t| Arc::make_mut(t).resume(None));
            self.grid_barrier_count += 1;
            met = true;
        }
        met
    }
}

/// The state of a block and of global memory before a step, so that the step can be undone.
struct SavedState<'m> {
    threads: Vec<Arc<Thread<'m>>>,
    shared: SharedArrays,
    global: Vec<PagedBytes>,
    current: Option<ThreadValue>,
    fault: Option<FaultKind>,
}
