//! The deferred arrays that a kernel under construction already computes. The planners of elementwise kernels and of kernels of rows share
//! this lookup.
//!
//! Two arrays may share their bytes and differ in the scalar type (`bitcast`), so the type is part of every key. The place tells apart the
//! elements at which a kernel computes an array.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::host::array::{Array, Data, Work};
use crate::lang::scalar::Scalar;

/// What identifies a deferred array in a kernel: its bytes, their scalar type, and where the kernel computes them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key<Place>(*const Data, Option<Scalar>, Place);

impl<Place> Key<Place> {
    pub fn new(array: &Array, place: Place) -> Key<Place> {
        Key(Arc::as_ptr(array.data()), array.scalar(), place)
    }
}

/// Where a kernel computes deferred arrays.
pub(super) struct Memo<Place, Found> {
    found: FxHashMap<Key<Place>, Found>,
    /// Keeps the data alive whose addresses are keys.
    kept: Vec<(Array, Arc<dyn Work>)>,
}

impl<Place, Found> Default for Memo<Place, Found> {
    fn default() -> Self {
        Memo { found: FxHashMap::default(), kept: Vec::new() }
    }
}

impl<Place: Eq + Hash, Found: Copy> Memo<Place, Found> {
    pub fn get(&self, key: &Key<Place>) -> Option<Found> {
        self.found.get(key).copied()
    }

    /// Notes where the kernel computes an array, which is the result of this work.
    pub fn insert(&mut self, key: Key<Place>, (array, work): (&Array, Arc<dyn Work>), found: Found) {
        self.found.insert(key, found);
        self.kept.push((array.clone(), work));
    }
}
