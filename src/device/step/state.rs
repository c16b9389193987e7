//! A launch in progress, as a value: which threads are where, and what all arrays hold, after so many steps.

use std::sync::Arc;

use super::event::At;
use super::meet::{meet_block, meet_warp, waits_at};
use super::memory::{Bytes, Shared};
use super::thread::{Ids, Observer, Parameter, Phase, Thread, World, fault};
use super::value::Val;
use crate::device::fault::{DeviceError, Fault, FaultKind};
use crate::device::{Arg, Extents};
use crate::ir::Checks;
use crate::ir::def::{Access, Form, KernelParam, Module};
use crate::lang::ops::BarrierKind;

/// Threads in a warp, and in a group of a kernel `threads(…)`.
const WARP: u64 = 32;

/// What does not change during a launch.
pub struct Launch<'m> {
    pub module: &'m Module,
    pub extents: Extents,
    pub parameters: Vec<Parameter>,
    /// The number of blocks, or of groups of 32 index tuples.
    pub blocks: u64,
    /// The statements that a thread may execute; 0 is no limit.
    pub most: u64,
    /// Beyond out-of-bounds accesses and divisions by zero. Races are not among the stepper's checks.
    pub checks: Checks,
}

fn product(sizes: [u32; 3]) -> u64 {
    sizes.iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul)
}

/// Returns the place with a number, x fastest.
fn place(number: u64, sizes: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = sizes.map(|n| u64::from(n.max(1)));
    [number % x, number / x % y, number / x / y].map(|n| n as u32)
}

impl<'m> Launch<'m> {
    /// # Panics
    /// if an argument does not fit its parameter.
    pub fn new(module: &'m Module, extents: Extents, args: &[Arg<'_>], most: u64) -> Launch<'m> {
        let pair = |(i, (param, arg)): (usize, (&KernelParam, &Arg<'_>))| match (param, arg) {
            (KernelParam::Value { ty, .. }, Arg::Value(values)) => {
                Parameter::Value(Val::from_values(*ty, values.iter().copied()))
            }
            (KernelParam::Array { .. }, array) => {
                let extents = array.shape().expect("an array for an array parameter").to_vec();
                Parameter::Array(super::Store::Global(i), extents)
            }
            _ => panic!("an argument does not fit its parameter"),
        };
        let parameters = module.kernel.params.iter().zip(args).enumerate().map(pair).collect();
        let blocks = match extents {
            Extents::Threads(sizes) => product(sizes).div_ceil(WARP),
            Extents::Grid { grid, .. } => product(grid),
        };
        Launch { module, extents, parameters, blocks, most, checks: Checks::default() }
    }

    /// Returns the launch with more checks.
    pub fn checked(self, checks: Checks) -> Launch<'m> {
        Launch { checks, ..self }
    }

    /// Returns the state before the first step.
    pub fn start(&self, args: &[Arg<'_>]) -> Result<State<'m>, DeviceError> {
        let mut global = Vec::with_capacity(args.len());
        for (param, arg) in self.module.kernel.params.iter().zip(args) {
            let written = param.access() != Some(Access::Out);
            global.push(match arg {
                Arg::Value(_) => Bytes::default(),
                Arg::Read { bytes, .. } => Bytes::of(bytes, written),
                Arg::Write { bytes, .. } => Bytes::of(bytes, written),
                Arg::Array { storage, .. } => Bytes::of(storage.bytes()?, written),
                Arg::ArrayMut { storage, .. } => Bytes::of(storage.bytes()?, written),
            });
        }
        let block = Block { number: 0, threads: vec![], shared: Shared::new() };
        let mut state = State {
            step: 0,
            global,
            block: Arc::new(block),
            parked: vec![],
            cursor: 0,
            faults: vec![],
            printed: 0,
            copied: 0,
            is_over: self.blocks == 0,
        };
        if !state.is_over {
            state.open(self, 0);
            state.settle(self);
        }
        Ok(state)
    }

    /// Returns the number of threads of a block.
    pub fn threads(&self, block: u64) -> u64 {
        match self.extents {
            Extents::Threads(sizes) => product(sizes).saturating_sub(block * WARP).min(WARP),
            Extents::Grid { block, .. } => product(block),
        }
    }

    /// Returns what a thread of a block is called.
    pub fn ids(&self, block: u64, thread: u64) -> Ids {
        match self.extents {
            Extents::Threads(sizes) => {
                let rank = if let Form::Threads { rank } = self.module.kernel.form { rank } else { 3 };
                // The last index varies fastest.
                let [a, b, c] = place(block * WARP + thread, [sizes[2], sizes[1], sizes[0]]);
                Ids { index: Some(([c, b, a], usize::from(rank))), flat: thread as u32, ..Ids::default() }
            }
            Extents::Grid { grid, block: size } => Ids {
                thread: place(thread, size),
                block: place(block, grid),
                block_dim: size,
                grid_dim: grid,
                flat: thread as u32,
                index: None,
            },
        }
    }
}

/// A block in progress.
#[derive(Clone)]
pub struct Block<'m> {
    pub number: u64,
    pub threads: Vec<Arc<Thread<'m>>>,
    pub shared: Shared,
}

/// A launch after so many steps. A copy shares what neither changes.
#[derive(Clone)]
pub struct State<'m> {
    /// The number of steps so far.
    pub step: u64,
    /// The arguments that are arrays.
    pub global: Vec<Bytes>,
    /// The block that runs.
    pub block: Arc<Block<'m>>,
    /// The blocks of a cooperative launch before it in this round, and behind it as the last round left them.
    parked: Vec<Option<Arc<Block<'m>>>>,
    /// The thread that runs next.
    cursor: usize,
    /// The first fault of each thread that faulted, in order.
    pub faults: Vec<Fault>,
    /// The bytes of output so far.
    pub printed: usize,
    /// Bytes of pages that steps had to copy, as other states had them too.
    pub copied: u64,
    pub is_over: bool,
}

impl<'m> State<'m> {
    /// Returns the thread that takes the next step; `None` at the end.
    pub fn current(&self) -> Option<&Thread<'m>> {
        if self.is_over { None } else { self.block.threads.get(self.cursor).map(|thread| &**thread) }
    }

    /// Returns the number of the next step, and who takes it.
    pub fn at(&self) -> At {
        At { step: self.step, block: self.block.number, thread: self.cursor as u32 }
    }

    /// Returns a block that is in progress: the one that runs, or of a cooperative launch any.
    pub fn block(&self, number: u64) -> Option<&Block<'m>> {
        let parked = || self.parked.get(usize::try_from(number).ok()?)?.as_deref();
        if number == self.block.number { Some(&self.block) } else { parked() }
    }

    /// Takes the next step; returns `false` at the end. `output` is what was printed at least until now.
    pub fn step(&mut self, launch: &Launch<'m>, output: &mut String, observer: &mut dyn Observer) -> bool {
        if self.is_over {
            return false;
        }
        output.truncate(self.printed);
        let at = self.at();
        let block = Arc::make_mut(&mut self.block);
        let Some(thread) = block.threads.get_mut(self.cursor) else { return false };
        let thread = Arc::make_mut(thread);
        let mut world = World {
            parameters: &launch.parameters,
            checks: launch.checks,
            global: &mut self.global,
            shared: &mut block.shared,
            output: &mut *output,
            observer,
            at,
            copied: 0,
        };
        let result = thread.step(&mut world, launch.most);
        self.copied += world.copied;
        if let Err(stop) = result {
            self.faults.push(fault(thread, stop, output));
        }
        self.printed = output.len();
        self.step += 1;
        self.settle(launch);
        true
    }

    /// Moves on to the next thread that can take a step, past the operations at which threads have met.
    fn settle(&mut self, launch: &Launch<'m>) {
        loop {
            let waiting = &self.block.threads[self.cursor..];
            if let Some(ahead) = waiting.iter().position(|thread| thread.is_ready()) {
                self.cursor += ahead;
                return;
            }
            self.cursor = 0;
            let has_waiting = |thread: &Arc<Thread<'m>>| matches!(thread.phase, Phase::Waiting(..));
            if self.block.threads.iter().any(has_waiting) {
                let threads = &mut Arc::make_mut(&mut self.block).threads;
                let warps = threads
                    .chunks_mut(WARP as usize)
                    .map(|warp| meet_warp(warp, launch.checks, &mut self.faults))
                    .filter(|met| *met)
                    .count()
                    > 0;
                if warps || meet_block(threads) {
                    continue;
                }
                self.stuck();
            }
            if !self.next_block(launch) {
                self.is_over = true;
                return;
            }
        }
    }

    /// Takes up the next block; of a cooperative launch after the last one the first, if all have met. Returns `false` at the end.
    fn next_block(&mut self, launch: &Launch<'m>) -> bool {
        let number = self.block.number;
        let cooperates = launch.module.kernel.cooperative;
        if cooperates {
            self.park();
        }
        if number + 1 < launch.blocks {
            self.open(launch, number + 1);
            return true;
        }
        if !cooperates {
            return false;
        }
        let all = self.parked.iter().flatten().flat_map(|block| &block.threads);
        if all.clone().count() == 0 || !all.clone().all(|t| waits_at(t, BarrierKind::Grid)) {
            let waiting: Vec<&Thread<'_>> =
                all.clone().filter(|t| waits_at(t, BarrierKind::Grid)).map(|t| &**t).collect();
            let fault = diverged(&waiting, all.count());
            self.add(fault);
            return false;
        }
        for block in self.parked.iter_mut().flatten() {
            Arc::make_mut(block).threads.iter_mut().for_each(|thread| Arc::make_mut(thread).resume(None));
        }
        self.open(launch, 0);
        true
    }

    fn park(&mut self) {
        let number = self.block.number as usize;
        if self.parked.len() <= number {
            self.parked.resize(number + 1, None);
        }
        self.parked[number] = Some(self.block.clone());
    }

    /// Makes this the block that runs: a new one, or one that has waited.
    fn open(&mut self, launch: &Launch<'m>, number: u64) {
        self.cursor = 0;
        if let Some(parked) = self.parked.get_mut(number as usize).and_then(Option::take) {
            self.block = parked;
            return;
        }
        let mut shared = Shared::new();
        let (mut threads, mut faults) = (Vec::with_capacity(launch.threads(number) as usize), vec![]);
        for flat in 0..launch.threads(number) {
            let mut thread = Thread::new(launch.module, launch.ids(number, flat));
            let mut world = World {
                parameters: &launch.parameters,
                checks: launch.checks,
                global: &mut self.global,
                shared: &mut shared,
                output: &mut String::new(),
                observer: &mut super::Nobody,
                at: At::default(),
                copied: 0,
            };
            if let Err(stop) = thread.start(&mut world) {
                faults.push(fault(&mut thread, stop, ""));
            }
            threads.push(Arc::new(thread));
        }
        self.faults.extend(faults);
        self.block = Arc::new(Block { number, threads, shared });
    }

    /// Adds a fault for threads that wait for an operation that can never complete, unless another fault explains it.
    fn stuck(&mut self) {
        let threads = &self.block.threads;
        let faulted = threads.iter().any(|t| matches!(t.phase, Phase::Faulted));
        let waiting: Vec<&Thread<'_>> =
            threads.iter().filter(|t| matches!(t.phase, Phase::Waiting(..))).map(|t| &**t).collect();
        let at_grid = waiting.len() == threads.len() && waiting.iter().all(|t| waits_at(t, BarrierKind::Grid));
        if !faulted && !at_grid {
            let fault = diverged(&waiting, threads.len());
            self.add(fault);
        }
    }

    fn add(&mut self, fault: Option<Fault>) {
        if self.faults.is_empty() {
            self.faults.extend(fault);
        }
    }

    /// Copies the arrays that the launch wrote to its arguments.
    pub fn write_back(&self, args: &mut [Arg<'_>]) -> Result<(), DeviceError> {
        for (arg, bytes) in args.iter_mut().zip(&self.global) {
            match arg {
                Arg::Write { bytes: to, .. } => bytes.copy_to(to),
                Arg::ArrayMut { storage, .. } => bytes.copy_to(storage.bytes_mut()?),
                Arg::Value(_) | Arg::Read { .. } | Arg::Array { .. } => {}
            }
        }
        Ok(())
    }

    /// Calls `f` with the address and the size of what a state shares with others: pages, threads, blocks.
    pub(super) fn parts(&self, f: &mut dyn FnMut(usize, u64)) {
        self.global.iter().for_each(|bytes| bytes.pages(f));
        for block in self.parked.iter().flatten().chain([&self.block]) {
            f(Arc::as_ptr(block) as usize, 8 * block.threads.len() as u64);
            block.shared.values().for_each(|bytes| bytes.pages(f));
            for thread in &block.threads {
                f(Arc::as_ptr(thread) as usize, thread.size());
                thread.local.iter().for_each(|bytes| bytes.pages(f));
            }
        }
    }

    /// Returns the first thing in which two states differ.
    pub fn difference(&self, other: &State<'m>) -> Option<String> {
        if (self.step, self.cursor, self.printed, self.is_over)
            != (other.step, other.cursor, other.printed, other.is_over)
        {
            return Some(format!("steps {} and {}", self.step, other.step));
        }
        if self.faults != other.faults {
            return Some(format!("faults {:?} and {:?}", self.faults, other.faults));
        }
        if let Some(i) = (0..self.global.len()).find(|&i| self.global[i] != other.global[i]) {
            return Some(format!("argument {i}"));
        }
        let blocks = |state: &State<'m>| -> Vec<Arc<Block<'m>>> {
            state.parked.iter().flatten().chain([&state.block]).cloned().collect()
        };
        let (ours, theirs) = (blocks(self), blocks(other));
        if ours.len() != theirs.len() {
            return Some("the blocks in progress".into());
        }
        ours.iter().zip(&theirs).find_map(|(a, b)| {
            if (a.number, &a.shared) != (b.number, &b.shared) {
                return Some(format!("the shared memory of block {}", a.number));
            }
            let differs = a.threads.iter().zip(&b.threads).position(|(a, b)| !a.is_same(b));
            differs.map(|thread| format!("thread {thread} of block {}", a.number))
        })
    }
}

fn diverged(waiting: &[&Thread<'_>], threads: usize) -> Option<Fault> {
    let (first, Phase::Waiting(at, _)) = waiting.first().map(|t| (t.ids, t.phase))? else { return None };
    let (arrived, expected) = (waiting.len() as u32, threads as u32);
    Some(Fault {
        kind: FaultKind::Divergence { what: "barrier", arrived, expected, elsewhere: None },
        span: at.span,
        trace: vec![],
        block: first.block,
        thread: first.thread,
        index: None,
        others: 0,
        output: String::new(),
    })
}
