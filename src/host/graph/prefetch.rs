//! State of out-of-core reads: the last range that was read, the prefetched ranges, and the pages that are being
//! pinned. [`out_of_core`](super::out_of_core) starts prefetches. Before an array is written, [`DeferredWork::detach`]
//! waits for its prefetches.

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::array::{DeferredWork, Reader};
use crate::problem::{HostResult, RuntimeError};
use clk_base::background::Background;
use clk_runtime::DeviceError;
use clk_runtime::storage::{DeviceBytes, Storage};

/// The state of out-of-core reads on one device.
#[derive(Default)]
pub(crate) struct PrefetchStream(Mutex<PrefetchState>);

#[derive(Default)]
pub(super) struct PrefetchState {
    pub last_read: Option<ByteRange>,
    /// The prefetched ranges, in the order in which they are expected to be read.
    pub prefetches: VecDeque<PrefetchedRange>,
    /// The background task that pins the pages of the array that is being read.
    pub page_lock: Option<Arc<PageLocking>>,
}

/// A range of bytes of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ByteRange {
    /// The [identity](crate::array::Data::identity) of the array.
    pub array_id: u64,
    pub bytes: Range<usize>,
}

/// A range of an array that is copied to the device before a kernel needs it.
pub(super) struct PrefetchedRange {
    pub range: ByteRange,
    pub copy: Arc<PrefetchCopy>,
}

/// A prefetch copy. It holds a reference to the array until it has finished.
pub(super) struct PrefetchCopy {
    pub bytes: usize,
    pub result: Background<Result<Arc<dyn DeviceBytes>, DeviceError>>,
}

/// The copy is registered as a reader of the array, so that a writer waits for it.
impl DeferredWork for PrefetchCopy {
    fn run(&self, _len: usize, _: Reader) -> HostResult<Storage> {
        Err(RuntimeError::new("E0999", "internal error: a copy that is no array"))
    }

    fn detach(&self, _len: usize) -> HostResult<()> {
        self.result.get();
        Ok(())
    }

    fn pending_bytes(&self) -> usize {
        if self.result.is_ready() { 0 } else { self.bytes }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A background task that pins the pages of an array slice by slice.
pub(super) struct PageLocking {
    /// Set to stop the task, for example when a writer waits for the array.
    pub stop: Arc<AtomicBool>,
    pub done: Background<()>,
}

impl DeferredWork for PageLocking {
    fn run(&self, _len: usize, _: Reader) -> HostResult<Storage> {
        Err(RuntimeError::new("E0999", "internal error: pages that are no array"))
    }

    fn detach(&self, _len: usize) -> HostResult<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.done.get();
        Ok(())
    }

    fn pending_bytes(&self) -> usize {
        // A writer only waits for the current slice, whose size does not depend on the array. So this reports 1 byte.
        usize::from(!self.done.is_ready())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for PageLocking {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl PrefetchStream {
    pub(super) fn state(&self) -> MutexGuard<'_, PrefetchState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the identity of an array after a write to the byte range `written`. Prefetched ranges that do not
    /// overlap it stay valid.
    pub(super) fn update_identity(&self, old_id: u64, new_id: u64, written: &Range<usize>) {
        let mut state = self.state();
        let PrefetchState { last_read: last, prefetches: prefetched, .. } = &mut *state;
        let is_disjoint = |part: &ByteRange| part.bytes.end <= written.start || written.end <= part.bytes.start;
        if let Some(last) = last.as_mut().filter(|last| last.array_id == old_id) {
            last.array_id = new_id;
        }
        for prefetched in prefetched
            .iter_mut()
            .filter(|prefetched| prefetched.range.array_id == old_id && is_disjoint(&prefetched.range))
        {
            prefetched.range.array_id = new_id;
        }
    }
}
