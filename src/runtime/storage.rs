//! The bytes of an array: in this process, in a device's memory, in both, or nowhere while all are zero.
//!
//! Bytes are copied lazily. Kernels on the device that has the bytes use them in place; the first read by the script
//! copies them to the host. A write on the host drops the device's copy, and vice versa.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::fault::DeviceError;
use clk_base::aligned::{AlignedBytes, BufferGuard};
use clk_base::stop;

/// Bytes in a device's memory. Several storages may share them; a shared buffer is copied before it is written.
pub trait DeviceBytes: Send + Sync {
    /// Copies `into.len()` bytes, beginning at `offset`, to the host. Waits for pending operations that change them.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Queues a copy of `len` bytes, beginning at `start`, to another device's memory at offset `at`. The copy runs
    /// after the pending work of both devices; the host does not wait. Returns `None` without copying if other arrays
    /// share the target memory, or if the devices cannot copy directly.
    fn copy_to(
        &self,
        _start: u64,
        _target: Arc<dyn DeviceBytes>,
        _at: u64,
        _len: u64,
    ) -> Result<Option<PendingTransfer>, DeviceError> {
        Ok(None)
    }

    /// Returns the ordinal of the GPU and the address of the bytes, if other libraries may access them.
    fn place(&self) -> Option<(u32, u64)> {
        None
    }

    /// Waits for all work on the device, including the work of other libraries. Afterwards no pending work uses the
    /// bytes.
    fn quiet(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Returns `self` as [`Any`], so that the device can downcast it to its own type.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// A queued copy between two devices. It may overlap with later work of both devices, as long as that work does not
/// access the copied bytes before [`PendingTransfer::settle`]. Dropping a transfer settles it too.
pub struct PendingTransfer(Option<Box<dyn FnOnce() -> Result<(), DeviceError> + Send>>);

impl PendingTransfer {
    /// Creates a transfer. The function `settle` must make later work of both devices wait for the copy.
    pub fn new(settle: impl FnOnce() -> Result<(), DeviceError> + Send + 'static) -> PendingTransfer {
        PendingTransfer(Some(Box::new(settle)))
    }

    /// Makes later work of both devices wait for the copy. The host does not wait.
    pub fn settle(mut self) -> Result<(), DeviceError> {
        self.0.take().map_or(Ok(()), |settle| settle())
    }
}

impl Drop for PendingTransfer {
    fn drop(&mut self) {
        // The devices report the error again when they are used.
        let _ = self.0.take().map_or(Ok(()), |settle| settle());
    }
}

/// Memory of a failed device, for tests of higher layers. Every access returns this error.
pub struct FailedMemory(pub DeviceError);

impl DeviceBytes for FailedMemory {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
        Err(self.0.clone())
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl FailedMemory {
    /// Returns memory of a GPU that is no longer usable.
    pub fn unavailable() -> FailedMemory {
        FailedMemory(DeviceError::Unavailable { device: "gpu:0".into(), why: "gone".into() })
    }
}

/// The copy of an array's bytes in a device's memory, if there is one.
pub type DeviceCopy = Option<Arc<dyn DeviceBytes>>;

/// The bytes of one array: on the host, on a device, or on both. Bytes that are on neither are zero.
#[derive(Default)]
pub struct Storage {
    len: usize,
    host: OnceLock<AlignedBytes>,
    remote: Mutex<DeviceCopy>,
    /// Whether the next kernel overwrites all bytes before they are read, so that new memory need not be zeroed.
    unset: bool,
    /// Number of bytes that partial reads have copied to the host.
    peeked: AtomicUsize,
    /// Number of single elements written on a device since a kernel last used the array.
    poked: AtomicUsize,
}

/// Minimum cost of a partial read: the number of bytes that could be copied in the same time.
const PEEK: usize = 1 << 16;
/// Once partial reads have copied this number of bytes, the next read copies the whole array.
const MOST_PEEKED: usize = 64 * PEEK;
/// Number of consecutive single-element writes on a device, for small and for large arrays, after which the array is
/// copied to the host. There a write takes only a few nanoseconds.
const POKED: (usize, usize) = (8, 64);

impl Storage {
    /// Truncates an array that is only on a device. The device memory is not reallocated.
    pub fn cut(&mut self, len: usize) {
        debug_assert!(self.host.get().is_none() && len <= self.len, "a part of what is on a device");
        self.len = len;
    }

    /// Creates a storage of `len` zero bytes. It allocates memory on the first access.
    pub fn zeros(len: usize) -> Storage {
        Storage { len, ..Storage::default() }
    }

    /// Like [`Storage::zeros`], but for an array that a kernel overwrites completely: memory for it is not cleared
    /// first.
    pub fn unset(len: usize) -> Storage {
        Storage { len, unset: true, ..Storage::default() }
    }

    /// Returns whether a kernel may find arbitrary values in the bytes ([`Storage::unset`]).
    pub fn is_uninitialized(&self) -> bool {
        self.unset
    }

    /// Zeroes uninitialized bytes, so that kernels on several copies of this storage begin with equal bytes.
    pub fn define(&mut self) {
        let is_nowhere = self.host.get().is_none() && self.remote().is_none();
        self.unset &= !is_nowhere;
    }

    pub fn of_bytes(bytes: AlignedBytes) -> Storage {
        Storage { len: bytes.len(), host: OnceLock::from(bytes), ..Storage::default() }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the bytes, copied to the host if necessary. Fails if the device has failed or there is not enough host
    /// memory.
    pub fn bytes(&self) -> Result<&[u8], DeviceError> {
        match self.host.get() {
            Some(bytes) => Ok(bytes),
            None => self.fetch(),
        }
    }

    /// Copies the bytes to the host unless they are already there.
    fn fetch(&self) -> Result<&[u8], DeviceError> {
        // The lock is held during the copy, so that two threads do not copy the same bytes.
        let remote = self.remote();
        if self.host.get().is_none() {
            let byte_count = self.len as u64;
            let new = if self.unset || remote.is_some() { AlignedBytes::for_overwrite } else { AlignedBytes::zeroed };
            let mut bytes = new(self.len).ok_or(DeviceError::NoHostMemory { wanted: byte_count })?;
            if let Some(remote) = &*remote {
                remote.read(0, &mut bytes)?;
            }
            // `set` cannot fail: `host` is empty, and only holders of the lock set it.
            let _ = self.host.set(bytes);
        }
        drop(remote);
        Ok(self.host.get().map_or(&[], |bytes| bytes))
    }

    /// Returns the bytes for writing and drops the device copy; fails like [`Storage::bytes`].
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], DeviceError> {
        self.bytes()?;
        *self.remote.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(self.host.get_mut().map_or(&mut [], |bytes| bytes))
    }

    /// Returns the bytes for writing if they are on the host and there is no device copy.
    #[inline]
    pub fn host_only_mut(&mut self) -> Option<&mut [u8]> {
        let remote = self.remote.get_mut().unwrap_or_else(PoisonError::into_inner);
        if remote.is_some() { None } else { self.host.get_mut().map(|bytes| &mut bytes[..]) }
    }

    /// Copies a part of an array that is only on a device. Returns `None` if the array is also on the host. Also
    /// returns `None` if the caller should copy the whole array, because earlier partial reads have already copied many
    /// bytes.
    pub fn peek(&self, offset: usize, len: usize) -> Result<Option<Vec<u8>>, DeviceError> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        let remote = self.remote().clone().filter(|_| inside && self.host.get().is_none());
        let Some(remote) = remote else { return Ok(None) };
        let bytes_read = self.peeked.fetch_add(len.max(PEEK), Ordering::Relaxed);
        if bytes_read >= self.len.min(MOST_PEEKED) {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        remote.read(offset as u64, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Copies all bytes to a slice of the same length, without changing where the array is stored.
    pub fn copy_to(&self, into: &mut [u8]) -> Result<(), DeviceError> {
        let remote = self.remote().clone();
        match (self.host.get(), remote) {
            (None, Some(remote)) if into.len() == self.len => remote.read(0, into),
            _ => {
                let bytes = self.bytes()?;
                let len = bytes.len().min(into.len());
                stop::copy(&mut into[..len], &bytes[..len]);
                Ok(())
            }
        }
    }

    /// Returns the number of single elements that were written on a device since a kernel last used the array. `None`
    /// if the array is also on the host, or if it should be copied there because of the number of writes.
    pub fn element_write_count(&self) -> Option<usize> {
        let is_far = self.host.get().is_none() && self.remote().is_some();
        let most = (self.len / PEEK).clamp(POKED.0, POKED.1);
        Some(self.poked.load(Ordering::Relaxed)).filter(|&poked| is_far && poked < most)
    }

    /// Sets the number of single elements that were written on a device. A kernel that uses the array resets it to 0.
    pub fn set_element_write_count(&self, poked: usize) {
        self.poked.store(poked, Ordering::Relaxed);
    }

    /// Returns the bytes if they are on the host.
    pub fn here(&self) -> Option<&[u8]> {
        self.host.get().map(|bytes| &bytes[..])
    }

    /// Attaches a guard that is dropped when the host memory of the bytes is freed.
    pub fn hold(&self, guard: BufferGuard) {
        if let Some(bytes) = self.host.get() {
            bytes.add_guard(guard);
        }
    }

    /// Returns whether the bytes are on the host in memory that this storage owns (not in an imported buffer).
    pub fn is_own(&self) -> bool {
        self.host.get().is_some_and(AlignedBytes::is_owned)
    }

    /// Returns the number of attached guards.
    pub fn holds(&self) -> usize {
        self.host.get().map_or(0, AlignedBytes::guard_count)
    }

    /// Locks and returns the device copy. The device uses it for launches, and sets it after uploads.
    pub fn remote(&self) -> MutexGuard<'_, DeviceCopy> {
        self.remote.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes `copy`, which a kernel writes, the only copy of the bytes; drops the bytes on the host.
    pub fn set_device_copy(&mut self, copy: Arc<dyn DeviceBytes>) {
        *self.remote.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(copy);
        self.host.take();
        self.set_element_write_count(0);
    }

    /// Copies bytes from another storage with [`DeviceBytes::copy_to`], if both storages are on devices that support
    /// it. Returns `None` if nothing was copied.
    pub fn copy_on_devices(
        &mut self,
        at: usize,
        from: &Storage,
        start: usize,
        len: usize,
    ) -> Result<Option<PendingTransfer>, DeviceError> {
        let within = |start: usize, all: usize| start.checked_add(len).is_some_and(|end| end <= all);
        let source = from.remote().clone();
        let target = self.remote.get_mut().unwrap_or_else(PoisonError::into_inner).clone();
        let (Some(source), Some(target)) = (source, target) else { return Ok(None) };
        if !within(at, self.len) || !within(start, from.len) {
            return Ok(None);
        }
        let arrival = source.copy_to(start as u64, target, at as u64, len as u64)?;
        if arrival.is_some() {
            self.host.take();
        }
        Ok(arrival)
    }

    /// Returns a copy of the array; `None` if there is not enough memory. Device memory is shared until either array is
    /// written; host memory is copied. Bytes that are uninitialized in the original are zero in the copy.
    pub fn duplicate(&self) -> Option<Storage> {
        let remote = self.remote().clone();
        if remote.is_some() {
            return Some(Storage { len: self.len, remote: Mutex::new(remote), ..Storage::default() });
        }
        match self.host.get() {
            Some(bytes) => AlignedBytes::copy_of(bytes).map(Storage::of_bytes),
            None => Some(Storage::zeros(self.len)),
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = if self.host.get().is_some() { " here" } else { "" };
        let device = if self.remote().is_some() { " on a device" } else { "" };
        write!(f, "{} bytes{host}{device}", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A device's memory that counts the bytes read from it.
    struct Far {
        bytes: Vec<u8>,
        read: AtomicUsize,
    }

    impl DeviceBytes for Far {
        fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
            self.read.fetch_add(into.len(), Ordering::Relaxed);
            into.copy_from_slice(&self.bytes[offset as usize..offset as usize + into.len()]);
            Ok(())
        }
        fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
            self
        }
    }

    fn far(bytes: &[u8]) -> Arc<Far> {
        Arc::new(Far { bytes: bytes.to_vec(), read: AtomicUsize::new(0) })
    }

    #[test]
    fn bytes_are_downloaded_lazily_and_once() {
        let device = far(&[1, 2, 3, 4]);
        let mut storage = Storage::zeros(4);
        assert!(storage.here().is_none());
        storage.set_device_copy(device.clone());
        assert_eq!(storage.peek(1, 2).unwrap().as_deref(), Some(&[2, 3][..]));
        assert_eq!(device.read.load(Ordering::Relaxed), 2);
        assert_eq!(storage.peek(2, 2).unwrap(), None, "an array as small as this is brought whole the second time");
        assert_eq!(storage.bytes().unwrap(), [1, 2, 3, 4]);
        assert_eq!(storage.bytes().unwrap(), [1, 2, 3, 4]);
        assert_eq!(storage.peek(0, 1).unwrap(), None, "it is here");
        assert_eq!(device.read.load(Ordering::Relaxed), 6);
        assert!(storage.remote().is_some(), "both copies are good");
        storage.bytes_mut().unwrap()[0] = 9;
        assert!(storage.remote().is_none(), "the device's is old now");
        assert_eq!(storage.bytes().unwrap(), [9, 2, 3, 4]);
    }

    #[test]
    fn single_element_writes_on_the_device_are_limited() {
        let mut storage = Storage::zeros(2 * PEEK);
        assert_eq!(storage.element_write_count(), None, "it is nowhere");
        storage.set_device_copy(far(&vec![0; 2 * PEEK]));
        for n in 0..POKED.0 {
            assert_eq!(storage.element_write_count(), Some(n));
            storage.set_element_write_count(n + 1);
        }
        assert_eq!(storage.element_write_count(), None);
        storage.set_device_copy(far(&vec![0; 2 * PEEK]));
        assert_eq!(storage.element_write_count(), Some(0), "a kernel has written it");
        storage.bytes().unwrap();
        assert_eq!(storage.element_write_count(), None, "it is here");
    }

    #[test]
    fn duplicates_share_device_bytes() {
        let device = far(&[5, 6]);
        let mut storage = Storage::zeros(2);
        storage.set_device_copy(device.clone());
        let copy = storage.duplicate().unwrap();
        storage.bytes_mut().unwrap()[1] = 0;
        assert_eq!((storage.bytes().unwrap(), copy.bytes().unwrap()), (&[5u8, 0][..], &[5u8, 6][..]));
        assert_eq!(Storage::zeros(3).duplicate().unwrap().bytes().unwrap(), [0, 0, 0]);
    }

    /// The test recycles memory with nonzero bytes, so that uninitialized bytes do not look like zeros.
    #[test]
    fn zeroed_bytes_equal_those_of_copies() {
        const LEN: usize = 300 << 10;
        let used = || drop(AlignedBytes::copy_of(&[7; LEN]).unwrap());
        let defined = |mut storage: Storage| {
            used();
            storage.define();
            let copy = storage.duplicate().unwrap();
            assert_eq!(storage.bytes().unwrap(), copy.bytes().unwrap());
            storage.bytes().unwrap()[LEN - 1]
        };
        assert_eq!(defined(Storage::unset(LEN)), 0);
        assert_eq!(defined(Storage::of_bytes(AlignedBytes::copy_of(&[5; LEN]).unwrap())), 5);
        let mut remote = Storage::unset(LEN);
        remote.set_device_copy(far(&vec![3; LEN]));
        assert_eq!(defined(remote), 3);
    }

    #[test]
    fn a_failed_device_returns_its_error() {
        let mut storage = Storage::zeros(2);
        storage.set_device_copy(Arc::new(FailedMemory::unavailable()));
        let FailedMemory(gone) = FailedMemory::unavailable();
        assert_eq!(storage.bytes(), Err(gone.clone()));
        assert_eq!(storage.peek(0, 1), Err(gone.clone()));
        assert_eq!(storage.bytes_mut(), Err(gone));
        assert!(storage.here().is_none() && storage.remote().is_some(), "nothing has changed");
        storage.set_device_copy(far(&[7, 8]));
        assert_eq!(storage.bytes(), Ok(&[7, 8][..]), "a kernel has written it anew");
    }
}
