//! Passes arrays in GPU memory to and from calls without copying them to the host.
//!
//! Input: the caller's GPU memory, described by [`Lending`]. Output: device arrays that use this memory during the
//! call. After the call, written arguments are in the caller's memory, and results are in memory of their own. See
//! [`clk_runtime::import`].

use std::sync::{Arc, Mutex, PoisonError};

use smallvec::SmallVec;

use crate::devices;
use clk_host::array::{Array, ElementType};
use clk_host::problem::{HostResult, RuntimeError};
use clk_host::value::HostValue;
use clk_runtime::import::{ForeignStream, ImportedBuffer};
use clk_runtime::storage::{DeviceBytes, Storage};
use clk_runtime::{Device, DeviceError, Interop};

/// A GPU array that the caller lends to Clk for one call.
pub struct Lending {
    element: ElementType,
    shape: Vec<usize>,
    lent: ImportedBuffer,
    is_copied: bool,
}

impl Lending {
    /// Lends a contiguous row-major array. If `is_copied`, the call works on a copy of it, and the elements that it
    /// writes are copied back.
    ///
    /// # Safety
    /// The requirements of [`clk_runtime::Interop::import_buffer`] hold until the call returns.
    pub unsafe fn new(element: ElementType, shape: Vec<usize>, lent: ImportedBuffer, is_copied: bool) -> Lending {
        Lending { element, shape, lent, is_copied }
    }

    fn array(&self, lent: &ImportedBuffer, device: &dyn Device) -> HostResult<Array> {
        if lent.bytes == 0 {
            return Array::zeros(self.element.clone(), &self.shape);
        }
        let interop = interop_for(device, lent.gpu)?;
        let mut storage = Storage::zeros(lent.bytes);
        // SAFETY: the caller of `Lending::new` guarantees the requirements.
        storage.set_device_copy(unsafe { interop.import_buffer(lent, self.is_copied) }?);
        Array::with_storage(self.element.clone(), &self.shape, storage)
    }
}

/// Returns the interface to buffers of this GPU, or an error if the device does not share its memory.
fn interop_for(device: &dyn Device, gpu: u32) -> Result<&dyn Interop, DeviceError> {
    let why = || format!("it has not the memory of gpu:{gpu}");
    device.interop().ok_or_else(|| DeviceError::Unavailable { device: device.name(), why: why() })
}

impl std::fmt::Debug for Lending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}; {:?}] on gpu:{}", self.element, self.shape, self.lent.gpu)
    }
}

/// The buffers that a call has borrowed from its caller. The caller may use them again after [`Borrowed::hand_over`],
/// or after this is dropped. Unless they were handed over, dropping waits for the device.
pub(super) struct Borrowed<'d> {
    device: &'d dyn Device,
    /// The borrowed buffers, each with the index of its parameter.
    lent: Vec<(usize, ImportedBuffer)>,
    /// The borrowed arrays that are only read. While these references exist, a write to such an array copies it first.
    read: Vec<Array>,
    /// Whether the buffers were handed over: the caller's next use of them is ordered after all pending device work.
    is_over: bool,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if !self.is_over && !self.lent.is_empty() {
            // An error is ignored here, because the call itself reports it.
            let _ = self.device.finish();
        }
    }
}

impl<'d> Borrowed<'d> {
    pub fn new(device: &'d dyn Device) -> Borrowed<'d> {
        Borrowed { device, lent: Vec::new(), read: Vec::new(), is_over: false }
    }

    /// Returns an array that uses the memory lent for the parameter with index `at`.
    pub fn borrow(&mut self, at: usize, lending: &Lending, is_written: bool) -> HostResult<Array> {
        let mut lent = lending.lent.clone();
        let is_behind = |(_, known): &(usize, ImportedBuffer)| known.bytes > 0 && known.after == lent.after;
        if self.lent.iter().any(is_behind) {
            lent.after = None;
        }
        // Registers the buffer before the import, because a copy may be in progress even if the import fails.
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

    /// Copies the written arrays to the memory that was lent for them, unless they already use it.
    pub fn give_back(&self, written: &[(usize, Array)]) -> HostResult<()> {
        for (at, array) in written {
            let lent = self.lent.iter().find(|(own, _)| own == at);
            // An array that now has another size is not copied back. The caller detects this by the array's new shape.
            if let Some((_, lent)) = lent.filter(|(_, lent)| lent.bytes == array.byte_len() && lent.bytes > 0) {
                let interop = interop_for(self.device, lent.gpu)?;
                // SAFETY: the caller of `Lending::new` guarantees the requirements for an array that the call writes.
                unsafe { interop.write_back(lent, array.storage()?) }?;
            }
        }
        Ok(())
    }

    /// Ensures that the owners of borrowed memory use it, and results, only after the device's pending work. If all
    /// owners use streams and `may_pass_on` is set, makes their streams wait; otherwise, waits on the host.
    pub fn hand_over(&mut self, may_pass_on: bool) -> HostResult<()> {
        let streams = self.streams().filter(|_| may_pass_on);
        // Asks for the interface only if it is needed, because that may open the device.
        let handed = match streams.and_then(|streams| Some((self.device.interop()?, streams))) {
            Some((interop, streams)) => interop.order_streams_after(&streams),
            None => self.device.finish(),
        };
        self.is_over = true;
        Ok(handed?)
    }

    /// Returns the streams on which the owners will use the memory. `None` if some owner does not use a stream of this
    /// GPU. Includes the owner of an empty array, because it may receive results.
    fn streams(&self) -> Option<SmallVec<[ForeignStream; 2]>> {
        let mut streams: SmallVec<[ForeignStream; 2]> = SmallVec::new();
        let gpu = self.lent.first()?.1.gpu;
        for (_, lent) in &self.lent {
            let stream = lent.after.filter(|_| lent.in_order && lent.gpu == gpu)?;
            if !streams.contains(&stream) {
                streams.push(stream);
            }
        }
        Some(streams)
    }

    /// Ends the loan: replaces the written arrays by placeholders with the same type and shape, so that no reference to
    /// the memory remains.
    pub fn end(&self, written: &mut [(usize, Array)]) -> HostResult<()> {
        for (at, array) in written {
            if self.lent.iter().any(|(own, _)| own == at) {
                *array = Array::unplaced(array.element().clone(), array.shape())?;
            }
        }
        Ok(())
    }
}

/// Ensures that each array of a value is in device memory of its own. Adds handles to `held` that keep this memory
/// alive.
pub(super) fn make_owned(
    value: &mut HostValue,
    device: &dyn Device,
    held: &mut Vec<Arc<dyn DeviceBytes>>,
) -> Result<(), RuntimeError> {
    match value {
        HostValue::Array(array) => {
            let why = || "it has no memory to give away".to_string();
            let interop =
                device.interop().ok_or_else(|| DeviceError::Unavailable { device: device.name(), why: why() })?;
            held.push(interop.make_owned(array.storage_mut()?)?);
            Ok(())
        }
        HostValue::Tuple(parts) => parts.iter_mut().try_for_each(|part| make_owned(part, device, held)),
        HostValue::Record(record) => record.fields.iter_mut().try_for_each(|part| make_owned(part, device, held)),
        // The columns of a table are read one at a time, so they are copied to the host.
        _ => bring_to_host(value),
    }
}

/// Copies those arrays of a result that use the caller's memory, which the caller may change or free at any time. An
/// array that the call has written is still copied back afterward.
pub(super) fn copy_borrowed(value: &mut HostValue) -> Result<(), RuntimeError> {
    match value {
        HostValue::Array(array) => {
            let storage = array.storage()?;
            if let Some(bytes) = storage.here().filter(|bytes| !bytes.is_empty() && !storage.is_own()) {
                *array = Array::from_bytes(array.element().clone(), array.shape(), bytes)?;
            }
            Ok(())
        }
        HostValue::Tuple(parts) => parts.iter_mut().try_for_each(copy_borrowed),
        HostValue::Record(record) => record.fields.iter_mut().try_for_each(copy_borrowed),
        // The columns of a table come from a file, so they use no memory of the caller.
        _ => Ok(()),
    }
}

/// Computes the deferred arrays of a value, and copies its arrays to host memory.
pub(super) fn bring_to_host(value: &HostValue) -> Result<(), RuntimeError> {
    match value {
        HostValue::Array(array) => array.bytes().map(drop),
        HostValue::Tuple(parts) => parts.iter().try_for_each(bring_to_host),
        HostValue::Record(record) => record.fields.iter().try_for_each(bring_to_host),
        HostValue::Table(table) => table.values().try_for_each(bring_to_host),
        _ => Ok(()),
    }
}

/// An array in GPU memory that other libraries use in place.
pub struct ExportedArray {
    array: Array,
    remote: Arc<dyn DeviceBytes>,
    pub gpu: u32,
    pub address: u64,
}

impl ExportedArray {
    /// Exports an array that is in GPU memory. Returns any other array unchanged as `Err`.
    pub fn of(array: Array) -> Result<ExportedArray, Array> {
        let remote = array.storage().ok().and_then(|storage| storage.remote().clone());
        let place = remote.as_ref().and_then(|remote| remote.place());
        match (remote, place) {
            (Some(remote), Some((gpu, address))) => Ok(ExportedArray { array, remote, gpu, address }),
            _ => Err(array),
        }
    }

    /// Returns an array of the same type and shape without content.
    pub fn shape(&self) -> HostResult<Array> {
        Array::unplaced(self.array.element().clone(), self.array.shape())
    }

    /// Copies the content to the host, after all pending work on the GPU, including that of other libraries.
    pub fn read(&self) -> HostResult<Array> {
        let _visit = devices::preserve_thread_state();
        let mut copy = Array::zeros(self.array.element().clone(), self.array.shape())?;
        self.remote.quiet()?;
        self.remote.read(0, copy.bytes_mut()?)?;
        Ok(copy)
    }

    /// Frees the memory. If `shared`, pending work of other libraries may still use it, so Clk waits for the GPU first.
    /// This wait is deferred until [`DEFERRED_BYTES`] bytes are to be freed, so that a loop with small results does not
    /// wait in each iteration.
    pub fn release(self, shared: bool) {
        let _visit = devices::preserve_thread_state();
        if !shared {
            return drop(self);
        }
        let retired = {
            let mut waiting = DEFERRED.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.push(self);
            let bytes: usize = waiting.iter().map(|far| far.array.byte_len()).sum();
            if bytes < DEFERRED_BYTES && waiting.len() < DEFERRED_ARRAYS {
                return;
            }
            std::mem::take(&mut *waiting)
        };
        let mut quiet = Vec::new();
        for far in &retired {
            if !quiet.contains(&far.gpu) {
                quiet.push(far.gpu);
                // Ignores an error: a GPU that has failed no longer uses the memory.
                let _ = far.remote.quiet();
            }
        }
        // Frees the memory while the foreign context is still active.
        drop(retired);
    }
}

/// Total size and number of the deferred arrays at which they are freed.
const DEFERRED_BYTES: usize = 16 << 20;
const DEFERRED_ARRAYS: usize = 256;

/// Arrays that are freed after other libraries have finished their work with them.
static DEFERRED: Mutex<Vec<ExportedArray>> = Mutex::new(Vec::new());

/// Returns the stream of a GPU on which libraries that lend arrays order their pending work before Clk's.
pub fn lender_stream(gpu: u32) -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
    devices::lender_stream(gpu).map(|stream| stream.0)
}

/// Returns whether a stream is currently being captured as a CUDA graph.
pub fn is_capturing(stream: usize) -> bool {
    devices::is_capturing(ForeignStream(stream))
}

/// Returns the number of the GPU whose memory contains this address.
pub fn gpu_of_address(address: u64) -> Option<u32> {
    devices::gpu_of_address(address)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use clk_runtime::{DeviceWrapper, ThreadStateGuard};
    use clk_scalar::Scalar;
    use clk_sim::Simulator;

    /// A device for tests. It counts how often the host and how often streams wait.
    #[derive(Default)]
    struct WaitCountingDevice {
        finished: AtomicUsize,
        passed_on: AtomicUsize,
        refuses: bool,
        simulator: Simulator,
    }

    impl WaitCountingDevice {
        fn counts(&self) -> (usize, usize) {
            (self.finished.load(Ordering::Relaxed), self.passed_on.load(Ordering::Relaxed))
        }
    }

    impl DeviceWrapper for WaitCountingDevice {
        fn inner(&self) -> &dyn Device {
            &self.simulator
        }
        fn interop(&self) -> Option<&dyn Interop> {
            Some(self)
        }
        fn finish(&self) -> Result<(), DeviceError> {
            self.finished.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    impl Interop for WaitCountingDevice {
        fn preserve_thread_state(&self) -> ThreadStateGuard {
            Box::new(())
        }
        unsafe fn import_buffer(&self, _: &ImportedBuffer, _: bool) -> Result<Arc<dyn DeviceBytes>, DeviceError> {
            match self.refuses {
                true => Err(DeviceError::Unavailable { device: "gpu:0".into(), why: "for a test".into() }),
                false => Ok(Arc::new(TestTimestamp)),
            }
        }
        unsafe fn write_back(&self, _: &ImportedBuffer, _: &Storage) -> Result<(), DeviceError> {
            unreachable!("nothing is written")
        }
        fn make_owned(&self, _: &mut Storage) -> Result<Arc<dyn DeviceBytes>, DeviceError> {
            unreachable!("nothing is returned")
        }
        fn order_streams_after(&self, streams: &[ForeignStream]) -> Result<(), DeviceError> {
            assert!(!streams.is_empty());
            self.passed_on.fetch_add(1, Ordering::Relaxed);
            Ok(())
        }
    }

    struct TestTimestamp;

    impl DeviceBytes for TestTimestamp {
        fn read(&self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
            Ok(())
        }
        fn into_any(self: Arc<Self>) -> Arc<dyn std::any::Any + Send + Sync> {
            self
        }
    }

    /// Lends an array of `count` numbers. `in_order` is set if the library that owns it works in the order of a stream.
    fn lending(gpu: u32, count: usize, in_order: bool) -> Lending {
        let (after, keep_alive) = (Some(ForeignStream(77)), Arc::new(()));
        let lent = ImportedBuffer { gpu, address: 0x1000, bytes: 4 * count, after, in_order, keep_alive };
        // SAFETY: the memory is not accessed.
        unsafe { Lending::new(ElementType::Scalar(Scalar::F32), vec![count], lent, false) }
    }

    /// Borrows the arrays and hands them over. Returns how often the host waited and how many streams did.
    fn handed_over(arrays: &[Lending], may_pass_on: bool) -> (usize, usize) {
        let device = WaitCountingDevice::default();
        let mut borrowed = Borrowed::new(&device);
        for (at, lending) in arrays.iter().enumerate() {
            borrowed.borrow(at, lending, false).expect("lent");
        }
        borrowed.hand_over(may_pass_on).expect("handed over");
        drop(borrowed);
        device.counts()
    }

    #[test]
    fn streams_wait_if_all_owners_continue_on_them() {
        let (torch, other) = (|| lending(0, 4, true), || lending(0, 4, false));
        assert_eq!(handed_over(&[torch(), torch()], true), (0, 1));
        assert_eq!(handed_over(&[torch()], false), (1, 0), "the host's memory may still be read");
        assert_eq!(handed_over(&[torch(), other()], true), (1, 0));
        // The first library receives the results, even if its own array is empty.
        assert_eq!(handed_over(&[lending(0, 0, false), torch()], true), (1, 0));
        assert_eq!(handed_over(&[lending(1, 0, true), torch()], true), (1, 0));
        assert_eq!(handed_over(&[lending(0, 0, true), torch()], true), (0, 1));
    }

    #[test]
    fn failure_after_borrowing_waits_for_the_gpu() {
        let device = WaitCountingDevice::default();
        let mut borrowed = Borrowed::new(&device);
        borrowed.borrow(0, &lending(0, 4, true), false).expect("lent");
        assert_eq!(device.counts(), (0, 0));
        drop(borrowed);
        assert_eq!(device.counts(), (1, 0), "an error, or a panic");
        let refusing = WaitCountingDevice { refuses: true, ..WaitCountingDevice::default() };
        let mut borrowed = Borrowed::new(&refusing);
        borrowed.borrow(0, &lending(0, 4, true), false).expect_err("refused");
        drop(borrowed);
        assert_eq!(refusing.counts(), (1, 0), "a copy may have been begun");
        drop(Borrowed::new(&device));
        assert_eq!(device.counts(), (1, 0), "nothing was borrowed");
    }

    #[test]
    fn simulator_rejects_lent_buffers() {
        let simulator = Simulator::default();
        let refused = Borrowed::new(&simulator).borrow(0, &lending(2, 1, false), false).expect_err("a refusal");
        assert!(refused.title.contains("gpu:2"), "{refused:?}");
        let array = Array::zeros(ElementType::Scalar(Scalar::F32), &[1]).expect("memory");
        // A buffer of an earlier argument, as if it had been lent to another device.
        let mut borrowed = Borrowed::new(&simulator);
        borrowed.lent.push((0, lending(2, 1, false).lent));
        let refused = borrowed.give_back(&[(0, array.clone())]).expect_err("a refusal");
        assert!(refused.title.contains("gpu:2"), "{refused:?}");
        borrowed.give_back(&[(1, array.clone())]).expect("nothing was lent for this parameter");
        borrowed.hand_over(true).expect("no stream has to wait");
        assert!(make_owned(&mut HostValue::Array(array), &simulator, &mut vec![]).is_err());
    }
}
