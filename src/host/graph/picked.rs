//! Deferred selections by arrays of positions: what they read, and where.

use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::source::Span;
use crate::device::storage::Storage;
use crate::host::array::{Array, Work};
use crate::host::graph::node::Below;
use crate::host::graph::site::Site;
use crate::host::graph::view::Along;
use crate::lang::scalar::Scalar;

/// Positions along an axis of an array.
#[derive(Clone, Debug)]
pub(crate) struct List {
    pub axis: usize,
    /// Integers.
    pub at: Array,
    /// The first of the axes of the result that are those of the positions.
    pub first: usize,
    /// Whether they were yet to be computed when they were checked.
    pub is_deferred: bool,
}

impl List {
    pub fn new(axis: usize, at: &Array, first: usize) -> List {
        List { axis, at: at.clone(), first, is_deferred: at.data().computed().is_none() }
    }
}

/// A deferred selection.
pub(crate) struct Picked {
    pub state: Mutex<State>,
    /// Along each axis of the array; a single index, 0, along those with positions.
    pub axes: Vec<Along>,
    /// The shape of the array, and that of the result, in scalars.
    pub from: Vec<usize>,
    pub shape: Vec<usize>,
    pub scalar: Scalar,
    pub site: Site,
    pub size: usize,
    pub inputs: usize,
    pub pinned: usize,
    /// Whether a kernel has computed it for its own use.
    pub seen: AtomicBool,
    /// Where it was entered, if launches are counted.
    pub span: Span,
}

/// What is selected from, and the positions.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub source: Array,
    pub lists: Vec<List>,
}

pub(crate) enum State {
    Pending(Parts),
    /// Computed before anybody asked, as the array was to be written.
    Computed(Storage),
    Given,
}

/// Returns the selection that deferred work is.
pub(crate) fn picked_of(work: &dyn Work) -> Option<&Picked> {
    work.as_any().downcast_ref()
}

impl Picked {
    pub fn pending(source: Array, lists: Vec<List>) -> Mutex<State> {
        Mutex::new(State::Pending(Parts { source, lists }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what is selected from; `None` if the elements have been computed.
    pub fn parts(&self) -> Option<Parts> {
        match &*self.state() {
            State::Pending(parts) => Some(parts.clone()),
            State::Computed(_) | State::Given => None,
        }
    }

    pub fn below(&self) -> Below {
        Below { size: self.size, inputs: self.inputs, pinned: self.pinned, folds: false }
    }

    /// Returns what was computed before anybody asked.
    pub fn give(&self) -> Option<Storage> {
        match std::mem::replace(&mut *self.state(), State::Given) {
            State::Computed(storage) => Some(storage),
            State::Pending(_) | State::Given => None,
        }
    }

    /// Holds the array and the positions no longer, as the elements have been computed.
    pub fn release(&self, computed: Storage) {
        *self.state() = State::Computed(computed);
    }
}
