//! `batch { }`: launches that come again in the same order are started as one graph.
//!
//! What is launched between two waits is a *run*. The first time a run comes, its launches are made one by one, as outside of a
//! batch, and the order of the functions is kept. When a later run begins like one that is kept, its launches are collected; if
//! it ends like it too, they are made by one graph, whose nodes are given what has changed since: arguments, grids. Else they
//! are made one by one after all. So nothing that a batch does is an error or waits for longer than it would outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use super::context::Context;
use super::driver::{Address, Argument, Driver, Function, Graph, Launch};
use super::records::Pending;
use super::replay::Record;
use crate::device::DeviceError;

/// Shorter runs gain nothing.
const LEAST: usize = 3;
/// A longer run is cut here.
const MOST: usize = 4096;
/// Runs that are kept.
const KEPT: usize = 16;

/// A launch that is ready to be made.
pub(crate) struct Issue<'a> {
    pub launch: Launch,
    /// Which argument is the address of a fault record, if one is, and what to note with the record.
    pub fault: Option<(usize, Pending)>,
    /// Makes the kernel end, if it is one that can be told.
    pub stop: Option<&'a Arc<AtomicBool>>,
    /// What it takes to run it elsewhere, where that may have to be.
    pub replay: Option<Arc<Record>>,
}

/// A launch that waits for the end of its run.
struct Collected {
    launch: Launch,
    fault: Option<(usize, Pending)>,
    stop: Option<Arc<AtomicBool>>,
    replay: Option<Arc<Record>>,
}

/// A run that has come before.
struct Kept {
    functions: Vec<Function>,
    /// From the second time on.
    chain: Option<Chain>,
}

/// A graph, what its nodes were given last, and the number of its block of fault records.
struct Chain {
    graph: Option<Graph>,
    launches: Vec<Launch>,
    block: Option<u32>,
}

/// The batch of a context.
#[derive(Default)]
pub(crate) struct Batch {
    /// How many `batch { }` are open, one within the other.
    depth: usize,
    /// The run that is under way: its functions, and the launches of it that were not made yet.
    functions: Vec<Function>,
    collected: Vec<Collected>,
    /// Positions of kept runs that begin like it.
    alike: Vec<usize>,
    /// The last one used stands last.
    kept: Vec<Kept>,
    /// Memory that launches which were not made yet may use.
    freed: Vec<Address>,
}

impl Batch {
    /// Whether this function goes on like a run that is kept.
    fn goes_on(&mut self, function: Function) -> bool {
        let at = self.functions.len();
        if at == 0 {
            self.alike = (0..self.kept.len()).collect();
        }
        let kept = &self.kept;
        self.alike.retain(|&k| kept[k].functions.get(at) == Some(&function));
        !self.alike.is_empty()
    }
}

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

    /// Makes the launches that were only collected so far, before something that has to come behind them.
    pub fn flush(&self) -> Result<(), DeviceError> {
        if self.is_batching() { self.end_run(&mut self.batch()) } else { Ok(()) }
    }

    /// Gives memory back behind the launches so far.
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

    /// Makes a launch, or collects it.
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
        // SAFETY: whoever issues a launch has made its arguments as the kernel's text says, and memory is given back in the
        // stream's order.
        self.timed(|driver| unsafe { driver.launch(launch.function, &launch.shape, &launch.arguments) })
    }

    /// Makes collected launches one by one.
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

    /// The end of a run: by a graph if it has come before, else one by one.
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

    /// Starts the graph of a run, made now if it was not before.
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
                // SAFETY: as `make`'s, for each time that it is run: then all arguments that are others are given anew.
                let graph = self.call(|driver| unsafe { driver.graph(&launches) });
                Chain { graph: graph.ok(), launches: vec![], block }
            }
        };
        let ran = chain.graph.map(|graph| {
            self.keep(replays.iter().flatten().cloned());
            // SAFETY: as `make`'s; the functions are the graph's.
            self.timed(|driver| unsafe { driver.run_graph(graph, &changes) })
        });
        match ran {
            Some(Ok(())) => {
                kept.chain = Some(Chain { launches, ..chain });
                Ok(())
            }
            // What the driver cannot make a graph of is made one by one.
            _ => {
                for (launch, replay) in launches.iter().zip(replays) {
                    self.keep(replay);
                    // SAFETY: as `make`'s.
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

    /// Lets go of runs with a function that there will be no more.
    pub fn forget_function(&self, function: Function) {
        let mut batch = self.batch();
        let (gone, kept) = std::mem::take(&mut batch.kept).into_iter().partition(|k| k.functions.contains(&function));
        batch.kept = kept;
        batch.alike.clear();
        let gone: Vec<Kept> = gone;
        for kept in gone {
            // A fault of a kernel that nobody has any more is nobody's.
            let _ = self.forget_chain(kept.chain);
        }
    }
}
