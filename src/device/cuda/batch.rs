//! `batch { }`: sequences of launches that repeat in the same order are started as one CUDA graph.
//!
//! The launches between two waits are a *run*. When a run occurs for the first time, its launches are issued one by one, as
//! outside of a batch, and the sequence of functions is remembered. When a later run starts like a remembered one, its launches
//! are collected; if it also ends like it, they are issued as one graph, after updating the nodes that differ (arguments, grids).
//! Else they are issued one by one after all. So a batch causes no errors and no longer waits than the same code outside of one.

mod run;

use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

pub(crate) use self::run::{Batch, Issue};
use self::run::{Chain, Collected, Kept};
use super::context::Context;
use super::driver::{Address, Argument, Driver, Function, Launch};
use crate::device::DeviceError;

/// Shorter runs gain nothing.
const LEAST: usize = 3;
/// Longer runs are split here.
const MOST: usize = 4096;
/// The number of runs that are remembered.
const KEPT: usize = 16;

impl Context {
    fn batch(&self) -> MutexGuard<'_, Batch> {
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

    /// Issues the launches collected so far, before an operation that has to come after them.
    pub fn flush(&self) -> Result<(), DeviceError> {
        if self.is_batching() { self.end_run(&mut self.batch()) } else { Ok(()) }
    }

    /// Frees memory after the launches so far.
    pub fn free_behind(&self, driver: &dyn Driver, address: Address) {
        if self.is_batching() {
            let mut batch = self.batch();
            if !batch.collected.is_empty() {
                batch.freed.push(address);
                return;
            }
        }
        driver.free(address);
    }

    /// Issues a launch, or collects it.
    pub fn issue(&self, issue: Issue<'_>) -> Result<(), DeviceError> {
        self.count_launch();
        if !self.is_batching() {
            return self.make(issue);
        }
        let mut batch = self.batch();
        if issue.launch.shape.cooperative {
            self.end_run(&mut batch)?;
            return self.make(issue);
        }
        let function = issue.launch.function;
        let goes_on = batch.goes_on(function);
        batch.functions.push(function);
        if goes_on {
            let Issue { launch, fault, stop, replay } = issue;
            batch.collected.push(Collected { launch, fault, stop: stop.cloned(), replay });
        } else {
            self.make_all(&mut batch)?;
            self.make(issue)?;
        }
        if batch.functions.len() >= MOST { self.end_run(&mut batch) } else { Ok(()) }
    }

    fn make(&self, issue: Issue<'_>) -> Result<(), DeviceError> {
        self.line_up()?;
        let Issue { mut launch, fault, stop, replay } = issue;
        if let Some((at, pending)) = fault {
            let record = self.record(pending, stop)?;
            if let Some(argument) = launch.arguments.get_mut(at) {
                *argument = Argument::Address(record);
            }
        }
        self.keep(replay);
        // SAFETY: `issue`'s callers build arguments that match the kernel's text, and memory is freed in stream order.
        self.timed(|driver| unsafe { driver.launch(launch.function, &launch.shape, &launch.arguments) })
    }

    /// Issues collected launches one by one.
    fn make_all(&self, batch: &mut Batch) -> Result<(), DeviceError> {
        let mut made = Ok(());
        for Collected { launch, fault, stop, replay } in batch.collected.drain(..) {
            if made.is_ok() {
                made = self.make(Issue { launch, fault, stop: stop.as_ref(), replay });
            }
        }
        self.free_all(batch);
        made
    }

    fn free_all(&self, batch: &mut Batch) {
        if let Ok(driver) = self.driver() {
            batch.freed.drain(..).for_each(|address| driver.free(address));
        }
    }

    /// Ends a run: issues it as a graph if it occurred before, else one by one.
    fn end_run(&self, batch: &mut Batch) -> Result<(), DeviceError> {
        let functions = std::mem::take(&mut batch.functions);
        let whole = batch.collected.len() == functions.len();
        let same = batch.alike.iter().copied().find(|&k| whole && batch.kept[k].functions == functions);
        batch.alike.clear();
        match same {
            Some(k) => {
                let mut kept = batch.kept.remove(k);
                let ran = self.run_chain(&mut kept, &mut batch.collected);
                batch.collected.clear();
                self.free_all(batch);
                batch.kept.push(kept);
                ran
            }
            None => {
                self.make_all(batch)?;
                if functions.len() >= LEAST && !batch.kept.iter().any(|kept| kept.functions == functions) {
                    if batch.kept.len() >= KEPT {
                        let oldest = batch.kept.remove(0);
                        self.forget_chain(oldest.chain)?;
                    }
                    batch.kept.push(Kept { functions, chain: None });
                }
                Ok(())
            }
        }
    }

    /// Starts the graph of a run, created on its first use.
    fn run_chain(&self, kept: &mut Kept, collected: &mut Vec<Collected>) -> Result<(), DeviceError> {
        self.line_up()?;
        let reporting = collected.iter().filter(|c| c.fault.is_some()).count();
        let known = kept.chain.as_ref().and_then(|chain| chain.block);
        let block = match known {
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
        let (launches, replays): (Vec<Launch>, Vec<_>) = collected.drain(..).map(|c| (c.launch, c.replay)).unzip();
        let mut changes: Vec<(usize, &Launch)> = vec![];
        let chain = match kept.chain.take() {
            Some(chain) => {
                let pairs = launches.iter().zip(&chain.launches).enumerate();
                changes.extend(pairs.filter(|(_, (new, old))| new != old).map(|(k, (new, _))| (k, new)));
                chain
            }
            None => {
                // SAFETY: as in `make`, for each time that it is run: all arguments that differ are replaced then.
                let graph = self.call(|driver| unsafe { driver.graph(&launches) });
                Chain { graph: graph.ok(), launches: vec![], block }
            }
        };
        let ran = chain.graph.map(|graph| {
            self.keep(replays.iter().flatten().cloned());
            // SAFETY: as in `make`; the functions are the graph's.
            self.timed(|driver| unsafe { driver.run_graph(graph, &changes) })
        });
        match ran {
            Some(Ok(())) => {
                kept.chain = Some(Chain { launches, ..chain });
                Ok(())
            }
            // Launches of which the driver cannot make a graph are issued one by one.
            _ => {
                for (launch, replay) in launches.iter().zip(replays) {
                    self.keep(replay);
                    // SAFETY: as in `make`.
                    self.timed(|driver| unsafe { driver.launch(launch.function, &launch.shape, &launch.arguments) })?;
                }
                self.forget_chain(Some(chain))
            }
        }
    }

    fn forget_chain(&self, chain: Option<Chain>) -> Result<(), DeviceError> {
        let Some(chain) = chain else { return Ok(()) };
        if let Some(graph) = chain.graph {
            self.driver()?.forget_graph(graph);
        }
        match chain.block {
            Some(block) => self.forget_block(block),
            None => Ok(()),
        }
    }

    /// Forgets runs with a function that is about to be unloaded.
    pub fn forget_function(&self, function: Function) {
        let mut batch = self.batch();
        let (gone, kept) = std::mem::take(&mut batch.kept).into_iter().partition(|k| k.functions.contains(&function));
        batch.kept = kept;
        batch.alike.clear();
        let gone: Vec<Kept> = gone;
        for kept in gone {
            // Faults of a kernel without remaining owners are not reported.
            let _ = self.forget_chain(kept.chain);
        }
    }
}
