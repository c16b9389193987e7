//! `batch { }`: issues repeated sequences of launches as one CUDA graph.
//!
//! A *run* is the sequence of launches between two waits of the host. When a run first occurs, its launches are issued
//! one at a time, and the sequence of their functions is remembered. Later, while the launches match the beginning of a
//! remembered run, they are delayed. If they match the whole run, they are issued as one graph, after updating the
//! nodes whose arguments or grid differ. Otherwise, they are issued one at a time. Therefore a batch fails or waits
//! only where the same code would also do so outside a batch.

mod state;

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

pub(crate) use self::state::{BatchState, Issue};
use self::state::{CachedBatch, Collected, LaunchGraph};
use super::context::GpuContext;
use super::driver::{DevicePtr, Driver, DriverArgument, DriverFunction, DriverLaunch};
use clk_runtime::DeviceError;

/// Minimum number of launches in a remembered run; a graph of fewer launches saves no time.
const MIN_RUN_LENGTH: usize = 3;
/// Maximum number of launches in a run; longer sequences are split into several runs.
const MAX_RUN_LENGTH: usize = 4096;
/// Limit on the number of remembered runs.
const MAX_CACHED_RUNS: usize = 16;

impl GpuContext {
    fn batch(&self) -> MutexGuard<'_, BatchState> {
        self.batch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_batching(&self) -> bool {
        self.batching.load(Ordering::Relaxed)
    }

    pub fn begin_batch(&self) {
        self.batch().depth += 1;
        self.batching.store(true, Ordering::Relaxed);
    }

    pub fn end_batch(&self) -> Result<(), DeviceError> {
        let mut batch = self.batch();
        batch.depth = batch.depth.saturating_sub(1);
        if batch.depth > 0 {
            return Ok(());
        }
        let ended = self.end_run(&mut batch);
        self.batching.store(false, Ordering::Relaxed);
        ended
    }

    /// Issues the launches collected so far. Callers use it before an operation that must execute after these launches.
    pub fn flush(&self) -> Result<(), DeviceError> {
        if self.is_batching() { self.end_run(&mut self.batch()) } else { Ok(()) }
    }

    /// Frees memory after all launches so far, including collected ones.
    pub fn free_after_launches(&self, driver: &dyn Driver, address: DevicePtr) {
        if self.is_batching() {
            let mut batch = self.batch();
            if !batch.collected.is_empty() {
                batch.freed.push(address);
                return;
            }
        }
        driver.free(address);
    }

    /// Issues a launch, or in a batch delays it while the launches match a remembered run.
    pub fn issue(&self, issue: Issue<'_>) -> Result<(), DeviceError> {
        self.count_launch();
        if !self.is_batching() {
            return self.issue_now(issue);
        }
        let mut batch = self.batch();
        if issue.launch.shape.cooperative {
            self.end_run(&mut batch)?;
            return self.issue_now(issue);
        }
        let function = issue.launch.function;
        let continues_cached_run = batch.continues_cached_run(function);
        batch.functions.push(function);
        if continues_cached_run {
            let Issue { launch, fault, stop, replay } = issue;
            batch.collected.push(Collected { launch, fault, stop: stop.cloned(), replay });
        } else {
            self.issue_collected(&mut batch)?;
            self.issue_now(issue)?;
        }
        if batch.functions.len() >= MAX_RUN_LENGTH { self.end_run(&mut batch) } else { Ok(()) }
    }

    fn issue_now(&self, issue: Issue<'_>) -> Result<(), DeviceError> {
        self.limit_queue()?;
        let Issue { mut launch, fault, stop, replay } = issue;
        if let Some((at, pending)) = fault {
            let record = self.record(pending, stop)?;
            if let Some(argument) = launch.arguments.get_mut(at) {
                *argument = DriverArgument::Address(record);
            }
        }
        self.record_replays(replay);
        // SAFETY: `issue`'s callers build arguments that match the kernel's text, and memory is freed in stream order.
        self.run_timed(|driver| unsafe { driver.launch(launch.function, &launch.shape, &launch.arguments) })
    }

    /// Issues collected launches one at a time.
    fn issue_collected(&self, batch: &mut BatchState) -> Result<(), DeviceError> {
        let mut result = Ok(());
        for Collected { launch, fault, stop, replay } in batch.collected.drain(..) {
            if result.is_ok() {
                result = self.issue_now(Issue { launch, fault, stop: stop.as_ref(), replay });
            }
        }
        self.free_deferred(batch);
        result
    }

    fn free_deferred(&self, batch: &mut BatchState) {
        if let Ok(driver) = self.driver() {
            batch.freed.drain(..).for_each(|address| driver.free(address));
        }
    }

    /// Ends the current run. Issues its collected launches as a graph if they match a remembered run, otherwise one at
    /// a time.
    fn end_run(&self, batch: &mut BatchState) -> Result<(), DeviceError> {
        let functions = std::mem::take(&mut batch.functions);
        let whole = batch.collected.len() == functions.len();
        let same = batch.matching_runs.iter().copied().find(|&k| whole && batch.cached_runs[k].functions == functions);
        batch.matching_runs.clear();
        match same {
            Some(k) => {
                let mut cached_run = batch.cached_runs.remove(k);
                let ran = self.launch_as_graph(&mut cached_run, &mut batch.collected);
                batch.collected.clear();
                self.free_deferred(batch);
                batch.cached_runs.push(cached_run);
                ran
            }
            None => {
                self.issue_collected(batch)?;
                if functions.len() >= MIN_RUN_LENGTH
                    && !batch.cached_runs.iter().any(|cached_run| cached_run.functions == functions)
                {
                    if batch.cached_runs.len() >= MAX_CACHED_RUNS {
                        let oldest = batch.cached_runs.remove(0);
                        self.destroy_launch_graph(oldest.launch_graph)?;
                    }
                    batch.cached_runs.push(CachedBatch { functions, launch_graph: None });
                }
                Ok(())
            }
        }
    }

    /// Starts the graph of a run. Creates the graph when the run occurs for the second time.
    fn launch_as_graph(&self, cached_run: &mut CachedBatch, collected: &mut Vec<Collected>) -> Result<(), DeviceError> {
        self.limit_queue()?;
        let reporting = collected.iter().filter(|c| c.fault.is_some()).count();
        let block_number = cached_run.launch_graph.as_ref().and_then(|chain| chain.block);
        let block = match block_number {
            Some(block) => Some(block),
            None if reporting > 0 => Some(self.new_block(reporting)?),
            None => None,
        };
        if let Some(block) = block {
            let faults = collected.iter_mut().filter_map(|c| {
                let (at, pending) = c.fault.take()?;
                Some((c.launch.arguments.get_mut(at)?, pending, c.stop.take()))
            });
            self.use_block(block, faults);
        }
        let (launches, replays): (Vec<DriverLaunch>, Vec<_>) =
            collected.drain(..).map(|c| (c.launch, c.replay)).unzip();
        let mut changes: Vec<(usize, &DriverLaunch)> = vec![];
        let chain = match cached_run.launch_graph.take() {
            Some(chain) => {
                let pairs = launches.iter().zip(&chain.launches).enumerate();
                changes.extend(pairs.filter(|(_, (new, old))| new != old).map(|(k, (new, _))| (k, new)));
                chain
            }
            None => {
                // SAFETY: as in `issue_now`. This holds each time the graph is run, because arguments that differ are
                // replaced first.
                let graph = self.call(|driver| unsafe { driver.graph(&launches) });
                LaunchGraph { graph: graph.ok(), launches: vec![], block }
            }
        };
        let ran = chain.graph.map(|graph| {
            self.record_replays(replays.iter().flatten().cloned());
            // SAFETY: as in `issue_now`; the functions are the graph's.
            self.run_timed(|driver| unsafe { driver.run_graph(graph, &changes) })
        });
        match ran {
            Some(Ok(())) => {
                cached_run.launch_graph = Some(LaunchGraph { launches, ..chain });
                Ok(())
            }
            // If the driver cannot create a graph of these launches, issue them one at a time.
            _ => {
                for (launch, replay) in launches.iter().zip(replays) {
                    self.record_replays(replay);
                    // SAFETY: as in `issue_now`.
                    self.run_timed(|driver| unsafe {
                        driver.launch(launch.function, &launch.shape, &launch.arguments)
                    })?;
                }
                self.destroy_launch_graph(Some(chain))
            }
        }
    }

    fn destroy_launch_graph(&self, launch_graph: Option<LaunchGraph>) -> Result<(), DeviceError> {
        let Some(chain) = launch_graph else { return Ok(()) };
        if let Some(graph) = chain.graph {
            self.driver()?.forget_graph(graph);
        }
        match chain.block {
            Some(block) => self.forget_block(block),
            None => Ok(()),
        }
    }

    /// Forgets the remembered runs that contain a function which is about to be unloaded.
    pub fn forget_runs_with(&self, function: DriverFunction) {
        let mut batch = self.batch();
        let (gone, remaining) =
            std::mem::take(&mut batch.cached_runs).into_iter().partition(|k| k.functions.contains(&function));
        batch.cached_runs = remaining;
        batch.matching_runs.clear();
        let gone: Vec<CachedBatch> = gone;
        for remaining in gone {
            // Ignore an error, which may be a fault of the kernel: nothing that could report it owns the kernel any
            // longer.
            let _ = self.destroy_launch_graph(remaining.launch_graph);
        }
    }
}
