//! The arrays in a GPU's memory, of which some are moved to the host where there is no more of it: those first that were used longest ago.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::device::DeviceError;

/// An array in a GPU's memory.
pub(crate) trait Resident: Send + Sync {
    /// Returns when a launch needed it last, as [`Arrays::use_one`] counts.
    fn used(&self) -> u64;

    /// Moves it to the host, if only its owner has it, and who calls; returns its bytes, 0 if it stays.
    fn spill(self: Arc<Self>) -> Result<u64, DeviceError>;
}

#[derive(Default)]
pub(crate) struct Arrays {
    all: Mutex<Vec<Weak<dyn Resident>>>,
    uses: AtomicU64,
    /// Bytes that have been moved so far.
    spilled: AtomicU64,
}

impl Arrays {
    fn all(&self) -> MutexGuard<'_, Vec<Weak<dyn Resident>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, array: Weak<dyn Resident>) {
        let mut all = self.all();
        if all.len() == all.capacity() {
            all.retain(|known| known.strong_count() > 0);
        }
        all.push(array);
    }

    /// Counts a use; returns its number.
    pub fn use_one(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the bytes that have been moved to the host so far.
    pub fn spilled(&self) -> u64 {
        self.spilled.load(Ordering::Relaxed)
    }

    /// Moves the array to the host that was used longest ago, if there is one that can be moved. Returns its bytes; 0 for none.
    pub fn spill(&self) -> Result<u64, DeviceError> {
        let mut all: Vec<Arc<dyn Resident>> = self.all().iter().filter_map(Weak::upgrade).collect();
        all.sort_by_key(|array| array.used());
        for array in all {
            let moved = array.spill()?;
            if moved > 0 {
                self.spilled.fetch_add(moved, Ordering::Relaxed);
                return Ok(moved);
            }
        }
        Ok(0)
    }
}
