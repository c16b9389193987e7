//! The state of a launch after a number of steps: the positions of threads and the contents of arrays. States can be
//! copied.

use std::sync::Arc;

use super::event::StepPosition;
use super::memory::{PagedBytes, SharedArrays};
use super::rendezvous::{is_waiting_at, run_block_rendezvous, run_warp_rendezvous};
use super::thread::{ParamValue, StepObserver, Thread, ThreadEnvironment, ThreadIds, ThreadPhase, fault};
use super::value::ThreadValue;
use clk_ir::Checks;
use clk_ir::def::{Access, KernelParam, LaunchForm, Module};
use clk_runtime::{Arg, LaunchExtents};
use clk_runtime::{DeviceError, Fault, FaultKind};
use clk_scalar::ops::BarrierKind;

/// Number of threads in a warp, and in a group of a `threads` kernel.
const WARP: u64 = 32;

/// The immutable part of a launch.
pub struct StepLaunch<'m> {
    pub module: &'m Module,
    pub extents: LaunchExtents,
    pub parameters: Vec<ParamValue>,
    /// Number of blocks. In `threads` kernels, number of groups of 32 threads.
    pub blocks: u64,
    /// Maximum number of statements that a thread may execute; 0 means no limit.
    pub most: u64,
    /// Optional checks. Out-of-bounds accesses and divisions by zero are always checked; data races are never checked.
    pub checks: Checks,
}

fn product(sizes: [u32; 3]) -> u64 {
    sizes.iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul)
}

/// Converts a linear index to coordinates, x fastest.
fn coordinates(number: u64, sizes: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = sizes.map(|n| u64::from(n.max(1)));
    [number % x, number / x % y, number / x / y].map(|n| n as u32)
}

impl<'m> StepLaunch<'m> {
    /// Binds the arguments of a launch to the kernel's parameters.
    ///
    /// # Panics
    /// Panics if an argument does not fit its parameter.
    pub fn new(module: &'m Module, extents: LaunchExtents, args: &[Arg<'_>], most: u64) -> StepLaunch<'m> {
        let pair = |(i, (param, arg)): (usize, (&KernelParam, &Arg<'_>))| match (param, arg) {
            (KernelParam::Value { ty, .. }, Arg::Value(values)) => {
                ParamValue::Value(ThreadValue::from_values(*ty, values.iter().copied()))
            }
            (KernelParam::Array { .. }, array) => {
                let extents = array.shape().expect("an array for an array parameter").to_vec();
                ParamValue::Array(super::ArrayStorage::Global(i), extents)
            }
            _ => panic!("an argument does not fit its parameter"),
        };
        let parameters = module.kernel.params.iter().zip(args).enumerate().map(pair).collect();
        let blocks = match extents {
            LaunchExtents::Threads(sizes) => product(sizes).div_ceil(WARP),
            LaunchExtents::Grid { grid, .. } => product(grid),
        };
        StepLaunch { module, extents, parameters, blocks, most, checks: Checks::default() }
    }

    /// Sets the optional checks of the launch.
    pub fn checked(self, checks: Checks) -> StepLaunch<'m> {
        StepLaunch { checks, ..self }
    }

    /// Returns the state before the first step.
    pub fn start(&self, args: &[Arg<'_>]) -> Result<LaunchSnapshot<'m>, DeviceError> {
        let mut global = Vec::with_capacity(args.len());
        for (param, arg) in self.module.kernel.params.iter().zip(args) {
            let written = param.access() != Some(Access::Out);
            global.push(match arg {
                Arg::Value(_) => PagedBytes::default(),
                Arg::Read { bytes, .. } => PagedBytes::of(bytes, written),
                Arg::Write { bytes, .. } => PagedBytes::of(bytes, written),
                Arg::Array { storage, .. } => PagedBytes::of(storage.bytes()?, written),
                Arg::ArrayMut { storage, .. } => PagedBytes::of(storage.bytes()?, written),
            });
        }
        let block = BlockState { number: 0, threads: vec![], shared: SharedArrays::new() };
        let mut state = LaunchSnapshot {
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
            state.enter_block(self, 0);
            state.advance_to_ready_thread(self);
        }
        Ok(state)
    }

    /// Returns the number of threads of a block.
    pub fn threads(&self, block: u64) -> u64 {
        match self.extents {
            LaunchExtents::Threads(sizes) => product(sizes).saturating_sub(block * WARP).min(WARP),
            LaunchExtents::Grid { block, .. } => product(block),
        }
    }

    /// Returns the indices of a thread.
    pub fn ids(&self, block: u64, thread: u64) -> ThreadIds {
        match self.extents {
            LaunchExtents::Threads(sizes) => {
                let rank = if let LaunchForm::Threads { rank } = self.module.kernel.form { rank } else { 3 };
                // The last index varies fastest.
                let [a, b, c] = coordinates(block * WARP + thread, [sizes[2], sizes[1], sizes[0]]);
                ThreadIds { index: Some(([c, b, a], usize::from(rank))), flat: thread as u32, ..ThreadIds::default() }
            }
            LaunchExtents::Grid { grid, block: size } => ThreadIds {
                thread: coordinates(thread, size),
                block: coordinates(block, grid),
                block_dim: size,
                grid_dim: grid,
                flat: thread as u32,
                index: None,
            },
        }
    }
}

/// A block that has started.
#[derive(Clone)]
pub struct BlockState<'m> {
    pub number: u64,
    pub threads: Vec<Arc<Thread<'m>>>,
    pub shared: SharedArrays,
}

/// The state of a launch after a number of steps. Copies share memory until one of them changes it.
#[derive(Clone)]
pub struct LaunchSnapshot<'m> {
    /// The number of steps so far.
    pub step: u64,
    /// The contents of the array arguments.
    pub global: Vec<PagedBytes>,
    /// The running block.
    pub block: Arc<BlockState<'m>>,
    /// The suspended blocks of a cooperative launch. Between two grid barriers, each block runs once. Blocks before the
    /// running one have already run; blocks after it have not.
    parked: Vec<Option<Arc<BlockState<'m>>>>,
    /// Index of the thread that executes the next step.
    cursor: usize,
    /// The faults of all threads that faulted, in the order of steps.
    pub faults: Vec<Fault>,
    /// Number of bytes printed so far.
    pub printed: usize,
    /// Number of bytes that steps copied because pages were shared with other states.
    pub copied: u64,
    pub is_over: bool,
}

impl<'m> LaunchSnapshot<'m> {
    /// Returns the thread that executes the next step; `None` at the end.
    pub fn current(&self) -> Option<&Thread<'m>> {
        if self.is_over { None } else { self.block.threads.get(self.cursor).map(|thread| &**thread) }
    }

    /// Returns the number of the next step, and the thread that executes it.
    pub fn at(&self) -> StepPosition {
        StepPosition { step: self.step, block: self.block.number, thread: self.cursor as u32 }
    }

    /// Returns a block in progress: the running block, or any block of a cooperative launch.
    pub fn block(&self, number: u64) -> Option<&BlockState<'m>> {
        let parked = || self.parked.get(usize::try_from(number).ok()?)?.as_deref();
        if number == self.block.number { Some(&self.block) } else { parked() }
    }

    /// Executes the next step; returns `false` at the end. `output` must begin with the text that was printed before
    /// this step.
    pub fn step(&mut self, launch: &StepLaunch<'m>, output: &mut String, observer: &mut dyn StepObserver) -> bool {
        if self.is_over {
            return false;
        }
        output.truncate(self.printed);
        let at = self.at();
        let block = Arc::make_mut(&mut self.block);
        let Some(thread) = block.threads.get_mut(self.cursor) else { return false };
        let thread = Arc::make_mut(thread);
        let mut world = ThreadEnvironment {
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
        if let Err((kind, span)) = result {
            self.faults.push(fault(thread, kind, span, output));
        }
        self.printed = output.len();
        self.step += 1;
        self.advance_to_ready_thread(launch);
        true
    }

    /// Advances to the next thread that can execute a statement. Performs barriers and warp operations at which all
    /// threads have arrived.
    fn advance_to_ready_thread(&mut self, launch: &StepLaunch<'m>) {
        loop {
            let waiting = &self.block.threads[self.cursor..];
            if let Some(ahead) = waiting.iter().position(|thread| thread.is_ready()) {
                self.cursor += ahead;
                return;
            }
            self.cursor = 0;
            let has_waiting = |thread: &Arc<Thread<'m>>| matches!(thread.phase, ThreadPhase::Waiting(..));
            if self.block.threads.iter().any(has_waiting) {
                let threads = &mut Arc::make_mut(&mut self.block).threads;
                let warps = threads
                    .chunks_mut(WARP as usize)
                    .map(|warp| run_warp_rendezvous(warp, launch.checks, &mut self.faults))
                    .filter(|met| *met)
                    .count()
                    > 0;
                if warps || run_block_rendezvous(threads) {
                    continue;
                }
                self.report_stuck_threads();
            }
            if !self.next_block(launch) {
                self.is_over = true;
                return;
            }
        }
    }

    /// Advances to the next block. A cooperative launch wraps around to the first block once all blocks have reached
    /// the grid barrier. Returns `false` at the end.
    fn next_block(&mut self, launch: &StepLaunch<'m>) -> bool {
        let number = self.block.number;
        let cooperates = launch.module.kernel.cooperative;
        if cooperates {
            self.park();
        }
        if number + 1 < launch.blocks {
            self.enter_block(launch, number + 1);
            return true;
        }
        if !cooperates {
            return false;
        }
        let all = self.parked.iter().flatten().flat_map(|block| &block.threads);
        if all.clone().count() == 0 || !all.clone().all(|t| is_waiting_at(t, BarrierKind::Grid)) {
            let waiting: Vec<&Thread<'_>> =
                all.clone().filter(|t| is_waiting_at(t, BarrierKind::Grid)).map(|t| &**t).collect();
            let fault = divergence_fault(&waiting, all.count());
            self.add(fault);
            return false;
        }
        for block in self.parked.iter_mut().flatten() {
            Arc::make_mut(block).threads.iter_mut().for_each(|thread| Arc::make_mut(thread).resume(None));
        }
        self.enter_block(launch, 0);
        true
    }

    fn park(&mut self) {
        let number = self.block.number as usize;
        if self.parked.len() <= number {
            self.parked.resize(number + 1, None);
        }
        self.parked[number] = Some(self.block.clone());
    }

    /// Makes a block the running block. Starts it, or resumes it if it is suspended.
    fn enter_block(&mut self, launch: &StepLaunch<'m>, number: u64) {
        self.cursor = 0;
        if let Some(parked) = self.parked.get_mut(number as usize).and_then(Option::take) {
            self.block = parked;
            return;
        }
        let mut shared = SharedArrays::new();
        let (mut threads, mut faults) = (Vec::with_capacity(launch.threads(number) as usize), vec![]);
        for flat in 0..launch.threads(number) {
            let mut thread = Thread::new(launch.module, launch.ids(number, flat));
            let mut world = ThreadEnvironment {
                parameters: &launch.parameters,
                checks: launch.checks,
                global: &mut self.global,
                shared: &mut shared,
                output: &mut String::new(),
                observer: &mut super::NoObserver,
                at: StepPosition::default(),
                copied: 0,
            };
            if let Err((kind, span)) = thread.start(&mut world) {
                faults.push(fault(&mut thread, kind, span, ""));
            }
            threads.push(Arc::new(thread));
        }
        self.faults.extend(faults);
        self.block = Arc::new(BlockState { number, threads, shared });
    }

    /// Adds a divergence or deadlock fault if threads wait for an operation that can never complete, unless another
    /// fault is the cause.
    fn report_stuck_threads(&mut self) {
        let threads = &self.block.threads;
        let faulted = threads.iter().any(|t| matches!(t.phase, ThreadPhase::Faulted));
        let waiting: Vec<&Thread<'_>> =
            threads.iter().filter(|t| matches!(t.phase, ThreadPhase::Waiting(..))).map(|t| &**t).collect();
        let at_grid = waiting.len() == threads.len() && waiting.iter().all(|t| is_waiting_at(t, BarrierKind::Grid));
        if !faulted && !at_grid {
            let fault = divergence_fault(&waiting, threads.len());
            self.add(fault);
        }
    }

    fn add(&mut self, fault: Option<Fault>) {
        if self.faults.is_empty() {
            self.faults.extend(fault);
        }
    }

    /// Copies the contents of `out` and `inout` arrays to the arguments of the launch.
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

    /// Calls `f` with the address and the size of each object that the state may share with other states: pages,
    /// threads and blocks.
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

    /// Describes the first difference between two states.
    pub fn difference(&self, other: &LaunchSnapshot<'m>) -> Option<String> {
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
        let blocks = |state: &LaunchSnapshot<'m>| -> Vec<Arc<BlockState<'m>>> {
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

fn divergence_fault(waiting: &[&Thread<'_>], threads: usize) -> Option<Fault> {
    let (first, ThreadPhase::Waiting(at, _)) = waiting.first().map(|t| (t.ids, t.phase))? else { return None };
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
