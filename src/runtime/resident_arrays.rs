//! The arrays that are resident in a device's memory. When memory is full, the least recently used arrays are evicted
//! to the host.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::DeviceError;

/// An array in a device's memory.
pub trait ResidentArray: Send + Sync {
    /// Returns the number of the last launch that used the array, as returned by [`ResidentArrays::count_use`].
    fn last_use(&self) -> u64;

    /// Evicts the array to the host if only its owner and the caller refer to it. Returns the number of freed bytes, or
    /// 0 if the array was not evicted.
    fn spill(self: Arc<Self>) -> Result<u64, DeviceError>;
}

/// The arrays that are resident in one device's memory.
#[derive(Default)]
pub struct ResidentArrays {
    all: Mutex<Vec<Weak<dyn ResidentArray>>>,
    uses: AtomicU64,
    /// Number of bytes evicted so far.
    spilled: AtomicU64,
}

impl ResidentArrays {
    fn all(&self) -> MutexGuard<'_, Vec<Weak<dyn ResidentArray>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an array. It is removed when it is dropped.
    pub fn add(&self, array: Weak<dyn ResidentArray>) {
        let mut all = self.all();
        if all.len() == all.capacity() {
            all.retain(|known| known.strong_count() > 0);
        }
        all.push(array);
    }

    /// Counts a use of an array by a launch, and returns its number. Later uses have higher numbers.
    pub fn count_use(&self) -> u64 {
        self.uses.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of bytes evicted so far.
    pub fn spilled(&self) -> u64 {
        self.spilled.load(Ordering::Relaxed)
    }

    /// Evicts the least recently used array that can be evicted. Returns its size in bytes, or 0 if no array can be
    /// evicted.
    pub fn spill(&self) -> Result<u64, DeviceError> {
        let mut all: Vec<Arc<dyn ResidentArray>> = self.all().iter().filter_map(Weak::upgrade).collect();
        all.sort_by_key(|array| array.last_use());
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
