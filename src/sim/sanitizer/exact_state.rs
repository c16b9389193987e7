//! The state of the exact check: traces of global arrays, synchronization variables, and locks.

use rustc_hash::FxHashMap;

use super::happens_before::Variables;
use super::lock_order::LockGraph;
use super::trace::{RecordedKinds, Trace};
use crate::code::{KernelTables, MemoryKind, TrackedMemory};
use crate::geometry::GroupGeometry;
use crate::memory::layout::BoundParam;
use clk_scalar::ScalarValue;

/// State of the exact check that the blocks of a launch share.
pub(crate) struct ExactState {
    /// Indexed by memory; only global arrays have a trace.
    pub(super) traces: Vec<Option<Box<Trace>>>,
    pub(super) variables: Variables,
    /// Number of synchronization variables created so far, from which each gets its ID.
    pub(super) variable_count: u64,
    pub locks: LockGraph,
    /// Set if fences and atomics have ordered accesses that would otherwise race.
    pub order_mattered: bool,
}

impl ExactState {
    pub fn new(code: &KernelTables, geometry: &GroupGeometry, bindings: &[BoundParam]) -> ExactState {
        let trace = |(k, watched): (usize, &Option<TrackedMemory>)| {
            let (MemoryKind::Global(param), Some(watched)) = (code.memories[k].kind, watched) else { return None };
            let Some(BoundParam::Array { len, .. }) = bindings.get(param as usize) else { return None };
            (!geometry.is_race_free(watched, &code.properties)).then(|| Box::new(watched.new_trace(*len)))
        };
        let traces = code.events.tracked.iter().enumerate().map(trace).collect();
        ExactState {
            traces,
            variables: Variables::default(),
            variable_count: 0,
            locks: LockGraph::new(code),
            order_mattered: false,
        }
    }

    /// Returns the trace of a global array; `None` if the array needs no checks.
    pub fn trace(&self, memory: usize) -> Option<&Trace> {
        self.traces.get(memory)?.as_deref()
    }

    /// Called at a grid barrier. The barrier orders all accesses before it, so earlier releases are no longer needed.
    pub fn on_grid_barrier(&mut self) {
        self.variables.clear();
    }
}

impl TrackedMemory {
    pub(super) fn new_trace(&self, bytes: usize) -> Trace {
        let kinds = RecordedKinds {
            writes: self.stores || self.starts_unwritten,
            reads: self.loads && (self.stores || self.atomics),
            atomic_loads: self.atomic_loads && self.stores,
            updates: self.has_mixed_accesses(),
        };
        Trace::new(bytes / self.unit.max(1), kinds)
    }

    /// Returns whether the kernel accesses the memory by both plain accesses and atomic operations.
    pub(super) fn has_mixed_accesses(&self) -> bool {
        self.atomics && (self.loads || self.stores)
    }
}

/// The values that earlier lanes of the current atomic operation store. They are not in memory yet, because the check
/// precedes the operation.
#[derive(Default)]
pub(super) struct AtomicResults {
    /// The value of the element, if all lanes access the same element.
    pub(super) uniform: Option<ScalarValue>,
    pub(super) by_address: FxHashMap<usize, ScalarValue>,
}
