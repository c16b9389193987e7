//! What exact checking keeps of a launch and of an access: traces of global arrays, synchronization variables, locks.

use rustc_hash::FxHashMap;

use super::locks::Locks;
use super::order::Variables;
use super::trace::{Room, Trace};
use crate::device::sim::code::{Code, MemoryKind, Watched};
use crate::device::sim::geometry::Geometry;
use crate::device::sim::memory::layout::Binding;
use crate::lang::scalar::Value;

/// State shared by the blocks of a launch.
pub(crate) struct Exact {
    /// By memory, for global ones.
    pub(super) traces: Vec<Option<Box<Trace>>>,
    pub(super) variables: Variables,
    /// The number of synchronization variables so far.
    pub(super) ids: u64,
    pub locks: Locks,
    /// Fences and atomics have ordered accesses that would otherwise race.
    pub decided: bool,
}

impl Exact {
    pub fn new(code: &Code, geometry: &Geometry, bindings: &[Binding]) -> Exact {
        let trace = |(k, watched): (usize, &Option<Watched>)| {
            let (MemoryKind::Global(param), Some(watched)) = (code.memories[k].kind, watched) else { return None };
            let Some(Binding::Array { len, .. }) = bindings.get(param as usize) else { return None };
            (!geometry.tells(watched, code)).then(|| Box::new(watched.trace(*len)))
        };
        let traces = code.watched.iter().enumerate().map(trace).collect();
        Exact { traces, variables: Variables::default(), ids: 0, locks: Locks::new(code), decided: false }
    }

    /// Returns the trace of a global array, if any access to it can be wrong.
    pub fn trace(&self, memory: usize) -> Option<&Trace> {
        self.traces.get(memory)?.as_deref()
    }

    /// Handles a grid barrier: earlier releases order nothing beyond what it orders.
    pub fn grid_met(&mut self) {
        self.variables.clear();
    }
}

impl Watched {
    pub(super) fn trace(&self, bytes: usize) -> Trace {
        let room = Room {
            writes: self.stores || self.fresh,
            reads: self.loads && (self.stores || self.atomics),
            looks: self.looks && self.stores,
            updates: self.mixed(),
        };
        Trace::new(bytes / self.unit.max(1), room)
    }

    /// Returns whether there are plain and atomic accesses.
    pub(super) fn mixed(&self) -> bool {
        self.atomics && (self.loads || self.stores)
    }
}

/// Values that atomic operations of previous lanes have produced, by address: they are not in memory yet.
#[derive(Default)]
pub(super) struct Left {
    /// The value, where all lanes have the same address.
    pub(super) one: Option<Value>,
    pub(super) all: FxHashMap<usize, Value>,
}
