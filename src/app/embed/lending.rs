//! Arrays in the memory of a GPU, in and out of a call without a copy to the host.
//!
//! Input: addresses that the caller lends ([`Lending`]). Output: arrays of the device that use this memory, and after the call the bytes
//! where the caller expects them, and results in memory of their own. See [`crate::device::lent`].

use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

use crate::device::Device;
use crate::device::cuda::driver::nvidia;
use crate::device::lent::Lent;
use crate::device::storage::{Remote, Storage};
use crate::host::array::{Array, Element};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;

/// An array in the memory of a GPU that the caller lends for a call.
pub struct Lending {
    element: Element,
    shape: Vec<usize>,
    lent: Lent,
    is_copied: bool,
}

impl Lending {
    /// Lends an array without gaps in row-major order. One that `is_copied` is read from a copy, and what the call writes to that is copied
    /// back.
    ///
    /// # Safety
    /// As of [`Device::lend`], until the call returns.
    pub unsafe fn new(element: Element, shape: Vec<usize>, lent: Lent, is_copied: bool) -> Lending {
        Lending { element, shape, lent, is_copied }
    }

    fn array(&self, lent: &Lent, device: &dyn Device) -> Outcome<Array> {
        if lent.bytes == 0 {
            return Array::zeros(self.element.clone(), &self.shape);
        }
        let mut storage = Storage::zeros(lent.bytes);
        // SAFETY: promised to `Lending::new`.
        storage.written_remotely(unsafe { device.lend(lent, self.is_copied) }?);
        Array::with_storage(self.element.clone(), &self.shape, storage)
    }
}

impl std::fmt::Debug for Lending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}; {:?}] on gpu:{}", self.element, self.shape, self.lent.gpu)
    }
}

/// What a call has borrowed from its caller, who may use it again when this is handed over, or dropped: then the device is waited for,
/// however the call has ended.
pub(super) struct Borrowed<'d> {
    device: &'d dyn Device,
    /// By parameter.
    lent: Vec<(usize, Lent)>,
    /// Arrays that share the memory: as long as they live, a write goes to a copy.
    read: Vec<Array>,
    /// Nothing is under way that the caller's use does not come behind.
    is_over: bool,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if !self.is_over && !self.lent.is_empty() {
            // The call reports what went wrong before.
            let _ = self.device.finish();
        }
    }
}

impl<'d> Borrowed<'d> {
    pub fn new(device: &'d dyn Device) -> Borrowed<'d> {
        Borrowed { device, lent: Vec::new(), read: Vec::new(), is_over: false }
    }

    /// Returns what is lent for a parameter as an array.
    pub fn take(&mut self, at: usize, lending: &Lending, is_written: bool) -> Outcome<Array> {
        let mut lent = lending.lent.clone();
        let is_behind = |(_, known): &(usize, Lent)| known.bytes > 0 && known.after == lent.after;
        if self.lent.iter().any(is_behind) {
            lent.after = None;
        }
        // A copy may be under way, whatever else is refused.
        self.lent.push((at, lending.lent.clone()));
        let array = lending.array(&lent, self.device)?;
        if !is_written {
            self.read.push(array.clone());
        }
        Ok(array)
    }

    pub fn is_empty(&self) -> bool {
        self.lent.is_empty()
    }

    /// Has the lent memory hold what was written to its arrays.
    pub fn give_back(&self, written: &[(usize, Array)]) -> Outcome<()> {
        for (at, array) in written {
            let lent = self.lent.iter().find(|(own, _)| own == at);
            // One of another size does not fit, which the caller will see.
            if let Some((_, lent)) = lent.filter(|(_, lent)| lent.bytes == array.byte_len() && lent.bytes > 0) {
                // SAFETY: promised to `Lending::new`, for an array that the call writes.
                unsafe { self.device.give_back(lent, array.storage()?) }?;
            }
        }
        Ok(())
    }

    /// Has the owners' use of the memory, and of results, come behind what the device does with it: at once if they do theirs on streams
    /// that can wait, and `may_pass_on`.
    pub fn hand_over(&mut self, may_pass_on: bool) -> Outcome<()> {
        let streams = self.streams().filter(|_| may_pass_on);
        let handed = streams.map_or_else(|| self.device.finish(), |streams| self.device.pass_on(&streams));
        self.is_over = true;
        Ok(handed?)
    }

    /// Returns the streams on which all owners go on; `None` if there may be others. Whoever lends an array without elements gets results
    /// all the same.
    fn streams(&self) -> Option<SmallVec<[usize; 2]>> {
        let mut streams: SmallVec<[usize; 2]> = SmallVec::new();
        let gpu = self.lent.first()?.1.gpu;
        for (_, lent) in &self.lent {
            let stream = lent.after.filter(|_| lent.in_order && lent.gpu == gpu)?;
            if !streams.contains(&stream) {
                streams.push(stream);
            }
        }
        Some(streams)
    }

    /// Ends the loan: of the arrays that were written only their shapes are left.
    pub fn end(&self, written: &mut [(usize, Array)]) -> Outcome<()> {
        for (at, array) in written {
            if self.lent.iter().any(|(own, _)| own == at) {
                *array = Array::unplaced(array.element().clone(), array.shape())?;
            }
        }
        Ok(())
    }
}

/// Gives the arrays of a value memory of their own on the device; what is added to `held` keeps it there.
pub(super) fn own(value: &mut Value, device: &dyn Device, held: &mut Vec<Arc<dyn Remote>>) -> Result<(), Problem> {
    match value {
        Value::Array(array) => {
            held.push(device.own(array.storage_mut()?)?);
            Ok(())
        }
        Value::Tuple(parts) => parts.iter_mut().try_for_each(|part| own(part, device, held)),
        Value::Record(record) => record.fields.iter_mut().try_for_each(|part| own(part, device, held)),
        // Columns are looked at one by one: they stay what they are, and come to the host.
        _ => settle(value),
    }
}

/// Copies the arrays of a computed value that are in memory of the caller: it may change or free that at any time, and a written argument
/// is copied back into it after the call.
pub(super) fn detach(value: &mut Value) -> Result<(), Problem> {
    match value {
        Value::Array(array) => {
            let storage = array.storage()?;
            if let Some(bytes) = storage.here().filter(|bytes| !bytes.is_empty() && !storage.is_own()) {
                *array = Array::from_bytes(array.element().clone(), array.shape(), bytes)?;
            }
            Ok(())
        }
        Value::Tuple(parts) => parts.iter_mut().try_for_each(detach),
        Value::Record(record) => record.fields.iter_mut().try_for_each(detach),
        // The columns of a table are read from a file.
        _ => Ok(()),
    }
}

/// Has the arrays of a value computed and brought to the host.
pub(super) fn settle(value: &Value) -> Result<(), Problem> {
    match value {
        Value::Array(array) => array.bytes().map(drop),
        Value::Tuple(parts) => parts.iter().try_for_each(settle),
        Value::Record(record) => record.fields.iter().try_for_each(settle),
        Value::Table(table) => table.values().try_for_each(settle),
        _ => Ok(()),
    }
}

/// An array in memory of a GPU, for other libraries.
pub struct Far {
    array: Array,
    remote: Arc<dyn Remote>,
    pub gpu: u32,
    pub address: u64,
}

impl Far {
    /// Takes an array that a GPU has, and which stays there from now on; returns another one otherwise.
    pub fn of(array: Array) -> Result<Far, Array> {
        let remote = array.storage().ok().and_then(|storage| storage.remote().clone());
        let place = remote.as_ref().and_then(|remote| remote.place());
        match (remote, place) {
            (Some(remote), Some((gpu, address))) => Ok(Far { array, remote, gpu, address }),
            _ => Err(array),
        }
    }

    /// Returns an array of the same type and shape, which takes no memory.
    pub fn shape(&self) -> Outcome<Array> {
        Array::unplaced(self.array.element().clone(), self.array.shape())
    }

    /// Copies the bytes to the host, behind all that anybody has the GPU do.
    pub fn read(&self) -> Outcome<Array> {
        let _visit = nvidia::Visit::begin();
        let mut copy = Array::zeros(self.array.element().clone(), self.array.shape())?;
        self.remote.quiet()?;
        self.remote.read(0, copy.bytes_mut()?)?;
        Ok(copy)
    }

    /// Gives the memory back. With `shared`, others may have work for the GPU that uses it: that is waited for, at the latest when what is
    /// to be given back takes [`RETIRED`] bytes. So a loop with small results does not wait in each of its iterations.
    pub fn release(self, shared: bool) {
        let _visit = nvidia::Visit::begin();
        if !shared {
            return drop(self);
        }
        let retired = {
            let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(self);
            let bytes: usize = waiting.iter().map(|far| far.array.byte_len()).sum();
            if bytes < RETIRED && waiting.len() < MOST {
                return;
            }
            std::mem::take(&mut *waiting)
        };
        let mut quiet = Vec::new();
        for far in &retired {
            if !quiet.contains(&far.gpu) {
                quiet.push(far.gpu);
                // A GPU that has failed uses nothing any more.
                let _ = far.remote.quiet();
            }
        }
        // In the time of the visit.
        drop(retired);
    }
}

/// Bytes, and number of arrays, that are given back at once.
const RETIRED: usize = 16 << 20;
const MOST: usize = 256;

/// Arrays that are to be given back when those who had them are known to have done with them.
static WAITING: Mutex<Vec<Far>> = Mutex::new(Vec::new());

/// Returns the stream of a GPU that those who lend its memory have wait for their work.
pub fn meeting(gpu: u32) -> Result<usize, String> {
    nvidia::meeting(gpu)
}

/// Returns whether a stream's work is being recorded in a graph.
pub fn is_recorded(stream: usize) -> bool {
    nvidia::is_recorded(stream)
}

/// Returns the number of the GPU whose memory has this address.
pub fn owner(address: u64) -> Option<u32> {
    nvidia::owner(address)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::device::{DeviceError, Executable};
    use crate::ir::Prepared;
    use crate::lang::scalar::Scalar;

    /// A device that counts how often it was waited for, by the host and by streams.
    #[derive(Default)]
    struct Counting {
        finished: AtomicUsize,
        passed_on: AtomicUsize,
        refuses: bool,
    }

    impl Counting {
        fn counts(&self) -> (usize, usize) {
            (self.finished.load(Ordering::Relaxed), self.passed_on.load(Ordering::Relaxed))
        }
    }

    impl Device for Counting {
        fn name(&self) -> String {
            "gpu:0".into()
        }
        fn load(&self, _: Arc<Prepared>) -> Arc<dyn Executable> {
            unreachable!("no kernel runs")
        }
        unsafe fn lend(&self, _: &Lent, _: bool) -> Result<Arc<dyn Remote>, DeviceError> {
            match self.refuses {
                true => Err(DeviceError::Unavailable { device: self.name(), why: "for a test".into() }),
                false => Ok(Arc::new(Nothing)),
            }
        }
        fn finish(&self) -> Result<(), DeviceError> {
            self.finished.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
        fn pass_on(&self, streams: &[usize]) -> Result<(), DeviceError> {
            assert!(!streams.is_empty());
            self.passed_on.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    struct Nothing;

    impl Remote for Nothing {
        fn read(&self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
            Ok(())
        }
        fn into_any(self: Arc<Self>) -> Arc<dyn std::any::Any + Send + Sync> {
            self
        }
    }

    /// Returns `count` numbers on a GPU, of a library that works in the order of a stream or not.
    fn lending(gpu: u32, count: usize, in_order: bool) -> Lending {
        let (after, keeper) = (Some(77), Arc::new(()));
        let lent = Lent { gpu, address: 0x1000, bytes: 4 * count, after, in_order, keeper };
        // SAFETY: nobody looks at the memory.
        unsafe { Lending::new(Element::Scalar(Scalar::F32), vec![count], lent, false) }
    }

    /// Borrows these, hands them over, and returns how often the host and streams have waited.
    fn handed_over(arrays: &[Lending], may_pass_on: bool) -> (usize, usize) {
        let device = Counting::default();
        let mut borrowed = Borrowed::new(&device);
        for (at, lending) in arrays.iter().enumerate() {
            borrowed.take(at, lending, false).expect("lent");
        }
        borrowed.hand_over(may_pass_on).expect("handed over");
        drop(borrowed);
        device.counts()
    }

    #[test]
    fn streams_wait_if_all_owners_go_on_there() {
        let (torch, other) = (|| lending(0, 4, true), || lending(0, 4, false));
        assert_eq!(handed_over(&[torch(), torch()], true), (0, 1));
        assert_eq!(handed_over(&[torch()], false), (1, 0), "the host's memory may still be read");
        assert_eq!(handed_over(&[torch(), other()], true), (1, 0));
        // Results are for the first library, also if its array has no elements.
        assert_eq!(handed_over(&[lending(0, 0, false), torch()], true), (1, 0));
        assert_eq!(handed_over(&[lending(1, 0, true), torch()], true), (1, 0));
        assert_eq!(handed_over(&[lending(0, 0, true), torch()], true), (0, 1));
    }

    #[test]
    fn whoever_fails_after_borrowing_waits() {
        let device = Counting::default();
        let mut borrowed = Borrowed::new(&device);
        borrowed.take(0, &lending(0, 4, true), false).expect("lent");
        assert_eq!(device.counts(), (0, 0));
        drop(borrowed);
        assert_eq!(device.counts(), (1, 0), "an error, or a panic");
        let refusing = Counting { refuses: true, ..Counting::default() };
        let mut borrowed = Borrowed::new(&refusing);
        borrowed.take(0, &lending(0, 4, true), false).expect_err("refused");
        drop(borrowed);
        assert_eq!(refusing.counts(), (1, 0), "a copy may have been begun");
        drop(Borrowed::new(&device));
        assert_eq!(device.counts(), (1, 0), "nothing was borrowed");
    }
}
