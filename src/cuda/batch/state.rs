//! State of a `batch { }`: the launches of the current run, and the remembered runs with their graphs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::driver::{DevicePtr, DriverFunction, DriverLaunch, Graph};
use crate::records::PendingReport;
use crate::replay::LaunchRecord;

/// A launch with all data that issuing it requires.
pub(crate) struct Issue<'a> {
    pub launch: DriverLaunch,
    /// For kernels that may fault: the position of the argument that receives the address of a fault record, and the
    /// data to report the fault.
    pub fault: Option<(usize, PendingReport)>,
    /// The stop flag, for kernels that poll it.
    pub stop: Option<&'a Arc<AtomicBool>>,
    /// The data to replay the launch on another device. Set if kernels run in a worker process.
    pub replay: Option<Arc<LaunchRecord>>,
}

/// A launch that is delayed because the current run matches a remembered run so far.
pub(super) struct Collected {
    pub(super) launch: DriverLaunch,
    pub(super) fault: Option<(usize, PendingReport)>,
    pub(super) stop: Option<Arc<AtomicBool>>,
    pub(super) replay: Option<Arc<LaunchRecord>>,
}

/// A remembered run: the functions of its launches, and its graph.
pub(super) struct CachedBatch {
    pub(super) functions: Vec<DriverFunction>,
    /// The graph of the run. It is created when the run occurs for the second time.
    pub(super) launch_graph: Option<LaunchGraph>,
}

/// The graph of a run, the launches in its nodes, and the number of its block of fault records.
pub(super) struct LaunchGraph {
    pub(super) graph: Option<Graph>,
    pub(super) launches: Vec<DriverLaunch>,
    pub(super) block: Option<u32>,
}

/// The batch state of a context.
#[derive(Default)]
pub(crate) struct BatchState {
    /// The nesting depth of open `batch { }` blocks.
    pub(super) depth: usize,
    /// `functions` has the function of each launch in the current run. `collected` has the launches that have not been
    /// issued yet.
    pub(super) functions: Vec<DriverFunction>,
    pub(super) collected: Vec<Collected>,
    /// Indices in `cached_runs` of the remembered runs that begin like the current run.
    pub(super) matching_runs: Vec<usize>,
    /// The remembered runs, least recently used first.
    pub(super) cached_runs: Vec<CachedBatch>,
    /// Memory that will be freed after the collected launches have been issued.
    pub(super) freed: Vec<DevicePtr>,
}

impl BatchState {
    /// Returns whether some remembered run begins with the current run followed by this function.
    pub(super) fn continues_cached_run(&mut self, function: DriverFunction) -> bool {
        let at = self.functions.len();
        if at == 0 {
            self.matching_runs = (0..self.cached_runs.len()).collect();
        }
        let runs = &self.cached_runs;
        self.matching_runs.retain(|&k| runs[k].functions.get(at) == Some(&function));
        !self.matching_runs.is_empty()
    }
}
