//! What a device reads of an array of the host in parts, as far as it is remembered: the last part, those that are on their way, and the pages
//! that are being locked. [`stream`](super::stream) begins all that; whoever writes the array waits for it here.

use std::any::Any;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::base::late::Late;
use crate::device::DeviceError;
use crate::device::storage::{Remote, Storage};
use crate::host::array::Work;
use crate::host::problem::{Outcome, Problem};

/// The parts that were read last, and the one that is on its way.
#[derive(Default)]
pub(crate) struct Stream(Mutex<State>);

#[derive(Default)]
pub(super) struct State {
    pub last: Option<Part>,
    /// In the order in which they are expected.
    pub ahead: VecDeque<Ahead>,
    /// Locks the pages of the array that is read.
    pub locking: Option<Arc<Locking>>,
}

/// Bytes of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The array's identity.
    pub of: u64,
    pub bytes: Range<usize>,
}

/// A part that is copied before anybody asked.
pub(super) struct Ahead {
    pub part: Part,
    pub copy: Arc<Copy>,
}

/// The copy, which holds the array until it is over.
pub(super) struct Copy {
    pub bytes: usize,
    pub result: Late<Result<Arc<dyn Remote>, DeviceError>>,
}

/// For those who write the array: what they would have to wait for.
impl Work for Copy {
    fn run(&self, _len: usize) -> Outcome<Storage> {
        Err(Problem::new("E0999", "internal error: a copy that is no array"))
    }

    fn settle(&self, _len: usize) -> Outcome<()> {
        self.result.get();
        Ok(())
    }

    fn unsettled(&self) -> usize {
        if self.result.is_there() { 0 } else { self.bytes }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Locks the pages of an array, slice by slice.
pub(super) struct Locking {
    /// Somebody waits for the array.
    pub wanted: Arc<AtomicBool>,
    pub done: Late<()>,
}

impl Work for Locking {
    fn run(&self, _len: usize) -> Outcome<Storage> {
        Err(Problem::new("E0999", "internal error: pages that are no array"))
    }

    fn settle(&self, _len: usize) -> Outcome<()> {
        self.wanted.store(true, Ordering::Relaxed);
        self.done.get();
        Ok(())
    }

    fn unsettled(&self) -> usize {
        // It is over soon, whatever the array's size.
        usize::from(!self.done.is_there())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Locking {
    fn drop(&mut self) {
        self.wanted.store(true, Ordering::Relaxed);
    }
}

impl Stream {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that only these bytes of an array have been written, as what it is now: what is known of others still holds.
    pub(super) fn rename(&self, before: u64, now: u64, written: &Range<usize>) {
        let mut state = self.state();
        let State { last, ahead, .. } = &mut *state;
        let is_apart = |part: &Part| part.bytes.end <= written.start || written.end <= part.bytes.start;
        if let Some(last) = last.as_mut().filter(|last| last.of == before) {
            last.of = now;
        }
        for ahead in ahead.iter_mut().filter(|ahead| ahead.part.of == before && is_apart(&ahead.part)) {
            ahead.part.of = now;
        }
    }
}
