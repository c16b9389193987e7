//! State of a batch: the launches of the current run, and the remembered runs with their graphs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::device::cuda::driver::{Address, Function, Graph, Launch};
use crate::device::cuda::records::Pending;
use crate::device::cuda::replay::Record;

/// A launch that is ready to be issued.
pub(crate) struct Issue<'a> {
    pub launch: Launch,
    /// The argument that takes the address of a fault record, if there is one, and the data to store with the record.
    pub fault: Option<(usize, Pending)>,
    /// The stop request, for a kernel that polls for one.
    pub stop: Option<&'a Arc<AtomicBool>>,
    /// The data to run it again on another device, where that may be necessary.
    pub replay: Option<Arc<Record>>,
}

/// A launch that is held back until the end of its run.
pub(super) struct Collected {
    pub(super) launch: Launch,
    pub(super) fault: Option<(usize, Pending)>,
    pub(super) stop: Option<Arc<AtomicBool>>,
    pub(super) replay: Option<Arc<Record>>,
}

/// A run that occurred before.
pub(super) struct Kept {
    pub(super) functions: Vec<Function>,
    /// From the second time on.
    pub(super) chain: Option<Chain>,
}

/// A graph, the launches that its nodes currently hold, and the number of its block of fault records.
pub(super) struct Chain {
    pub(super) graph: Option<Graph>,
    pub(super) launches: Vec<Launch>,
    pub(super) block: Option<u32>,
}

/// The batch state of a context.
#[derive(Default)]
pub(crate) struct Batch {
    /// The nesting depth of open `batch { }` blocks.
    pub(super) depth: usize,
    /// The current run: its functions, and its launches that were not issued yet.
    pub(super) functions: Vec<Function>,
    pub(super) collected: Vec<Collected>,
    /// Positions of remembered runs with this prefix.
    pub(super) alike: Vec<usize>,
    /// Least recently used first.
    pub(super) kept: Vec<Kept>,
    /// Memory to be freed after launches that were not issued yet.
    pub(super) freed: Vec<Address>,
}

impl Batch {
    /// Returns whether the current run followed by this function is a prefix of a remembered run.
    pub(super) fn goes_on(&mut self, function: Function) -> bool {
        let at = self.functions.len();
        if at == 0 {
            self.alike = (0..self.kept.len()).collect();
        }
        let kept = &self.kept;
        self.alike.retain(|&k| kept[k].functions.get(at) == Some(&function));
        !self.alike.is_empty()
    }
}
