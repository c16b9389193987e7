//! Memo table of the deferred arrays that a planned kernel already computes, for common subexpression elimination. The
//! planners of fused kernels and of row-wise kernels both use it. Arrays may share bytes but have different scalar
//! types (`bitcast`), so that the type is part of the key. The indices at which the kernel computes the array are also
//! part of the key.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::array::{Array, Data, DeferredWork};
use clk_scalar::Scalar;

/// Identifies a deferred array in a kernel: its bytes, their scalar type, and the indices at which the kernel computes
/// them (`Place`).
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct DeferredKey<Place>(*const Data, Option<Scalar>, Place);

impl<Place> DeferredKey<Place> {
    pub fn new(array: &Array, place: Place) -> DeferredKey<Place> {
        DeferredKey(Arc::as_ptr(array.data()), array.scalar(), place)
    }
}

/// Maps deferred arrays to values of the kernel that is being planned.
pub(super) struct DeferredMemo<Place, Found> {
    entries: FxHashMap<DeferredKey<Place>, Found>,
    /// Keeps the arrays alive whose addresses are used as keys.
    keep_alive: Vec<(Array, Arc<dyn DeferredWork>)>,
}

impl<Place, Found> Default for DeferredMemo<Place, Found> {
    fn default() -> Self {
        DeferredMemo { entries: FxHashMap::default(), keep_alive: Vec::new() }
    }
}

impl<Place: Eq + Hash, Found: Copy> DeferredMemo<Place, Found> {
    pub fn get(&self, key: &DeferredKey<Place>) -> Option<Found> {
        self.entries.get(key).copied()
    }

    /// Records that the kernel computes an array as the value `found`. The array is the result of `work`.
    pub fn insert(&mut self, key: DeferredKey<Place>, array: &Array, work: Arc<dyn DeferredWork>, found: Found) {
        self.entries.insert(key, found);
        self.keep_alive.push((array.clone(), work));
    }
}
