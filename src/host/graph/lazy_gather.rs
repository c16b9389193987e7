//! Deferred gathers: the array that a gather reads, and the positions.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::array::{Array, DeferredWork};
use crate::graph::context::ExecContext;
use crate::graph::node::GraphSize;
use crate::graph::view::ViewAxis;
use clk_runtime::storage::Storage;
use clk_scalar::Scalar;

/// A list of positions along an axis of an array.
#[derive(Clone, Debug)]
pub(crate) struct IndexList {
    pub axis: usize,
    /// An array of integers.
    pub positions: Array,
    /// The first of the result's axes along which the positions vary.
    pub first_axis: usize,
    /// Whether the positions were still deferred when they were checked, so that a kernel that computes them again
    /// needs bounds checks.
    pub is_deferred: bool,
}

impl IndexList {
    pub fn new(axis: usize, at: &Array, first: usize) -> IndexList {
        IndexList { axis, positions: at.clone(), first_axis: first, is_deferred: at.data().computed().is_none() }
    }
}

/// A deferred gather.
pub(crate) struct LazyGather {
    pub state: Mutex<GatherState>,
    /// The indexing of each axis of the array. Axes with an index list have the single index 0.
    pub axes: Vec<ViewAxis>,
    /// The shape of the array in scalars: the components of vectors are an additional last axis.
    pub source_shape: Vec<usize>,
    pub shape: Vec<usize>,
    pub scalar: Scalar,
    pub context: ExecContext,
    pub op_count: usize,
    pub input_count: usize,
    pub pinned_bytes: usize,
    /// Whether another kernel has already computed the elements inline.
    pub was_inlined: AtomicBool,
}

/// The array that a gather reads, and its positions.
#[derive(Clone, Debug)]
pub(crate) struct GatherSource {
    pub source: Array,
    pub lists: Vec<IndexList>,
}

pub(crate) enum GatherState {
    Pending(GatherSource),
    /// The elements, which were computed early because the array was about to be written.
    Computed(Storage),
    Consumed,
}

/// Returns the deferred work as a gather, if it is one.
pub(crate) fn as_gather(work: &dyn DeferredWork) -> Option<&LazyGather> {
    work.as_any().downcast_ref()
}

impl LazyGather {
    pub fn pending_state(source: Array, lists: Vec<IndexList>) -> Mutex<GatherState> {
        Mutex::new(GatherState::Pending(GatherSource { source, lists }))
    }

    fn state(&self) -> MutexGuard<'_, GatherState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the array and the positions that the gather reads; `None` if the elements have been computed.
    pub fn pending_source(&self) -> Option<GatherSource> {
        match &*self.state() {
            GatherState::Pending(parts) => Some(parts.clone()),
            GatherState::Computed(_) | GatherState::Consumed => None,
        }
    }

    pub fn graph_size(&self) -> GraphSize {
        GraphSize {
            op_count: self.op_count,
            input_count: self.input_count,
            pinned_bytes: self.pinned_bytes,
            has_reductions: false,
        }
    }

    /// Takes the elements if they were computed early.
    pub fn take_computed(&self) -> Option<Storage> {
        match std::mem::replace(&mut *self.state(), GatherState::Consumed) {
            GatherState::Computed(storage) => Some(storage),
            GatherState::Pending(_) | GatherState::Consumed => None,
        }
    }

    /// Stores the computed elements, and releases the array and the positions.
    pub fn set_computed(&self, computed: Storage) {
        *self.state() = GatherState::Computed(computed);
    }
}
