//! The bytes of an array, wherever they are: in this process, in a device's memory, in both, or nowhere yet because all are zero.
//!
//! Nothing is copied before it is needed: a kernel on the device that has the bytes uses them there, and a script that reads them
//! causes one copy to the host. A write on one side drops the copy on the other.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::fault::DeviceError;
use crate::base::aligned::{AlignedBytes, Guard};
use crate::base::stop;

/// Bytes in a device's memory. Several storages may share them; a writer makes a copy first if they are shared.
pub trait Remote: Send + Sync {
    /// Copies bytes from `offset` on to the host, after all pending operations that change them.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Copies bytes from `start` on to the memory of a device, from `at` on there, behind what both devices have to do now, without
    /// waiting. `None` if nothing was done: others share that memory, or the devices cannot do it by themselves.
    fn copy_to(
        &self,
        _start: u64,
        _target: Arc<dyn Remote>,
        _at: u64,
        _len: u64,
    ) -> Result<Option<Arrival>, DeviceError> {
        Ok(None)
    }

    /// Returns the number of the GPU that has the bytes, and their address there, where other libraries may use them.
    fn place(&self) -> Option<(u32, u64)> {
        None
    }

    /// Waits for everything that the device has to do, for whomever: then those who were given the bytes have done with them.
    fn quiet(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// For downcasts by the device.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

/// A copy between devices that may still be under way, beside what they do from then on: until it is settled, at the latest when
/// it is dropped, they may not touch those bytes.
pub struct Arrival(Option<Box<dyn FnOnce() -> Result<(), DeviceError> + Send>>);

impl Arrival {
    /// Creates one of a copy that both devices wait for by this function.
    pub(crate) fn new(settle: impl FnOnce() -> Result<(), DeviceError> + Send + 'static) -> Arrival {
        Arrival(Some(Box::new(settle)))
    }

    /// Has both devices wait for the copy, without waiting here.
    pub fn settle(mut self) -> Result<(), DeviceError> {
        self.0.take().map_or(Ok(()), |settle| settle())
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        // The devices will report what is wrong with them.
        let _ = self.0.take().map_or(Ok(()), |settle| settle());
    }
}

/// The memory of a device that has failed with this error: for tests of the layers above.
pub struct Gone(pub DeviceError);

impl Remote for Gone {
    fn read(&self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
        Err(self.0.clone())
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Gone {
    /// Returns memory of a GPU that cannot be used any more.
    pub fn unavailable() -> Gone {
        Gone(DeviceError::Unavailable { device: "gpu:0".into(), why: "gone".into() })
    }
}

/// The copy on a device.
pub(crate) type RemoteCopy = Option<Arc<dyn Remote>>;

/// A fixed number of bytes.
#[derive(Default)]
pub struct Storage {
    len: usize,
    host: OnceLock<AlignedBytes>,
    remote: Mutex<RemoteCopy>,
    /// Whether the bytes are to be overwritten before they are read, so that they need not be zero.
    unset: bool,
    /// Bytes that were copied to the host by partial reads.
    peeked: AtomicUsize,
    /// Single elements that were written on a device, without a kernel of a script in between.
    poked: AtomicUsize,
}

/// The cost of a partial read, in bytes that could be copied in the same time.
const PEEK: usize = 1 << 16;
/// After this many bytes in partial reads the whole array is copied.
const MOST_PEEKED: usize = 64 * PEEK;
/// After so many writes of single elements in a row an array is copied to the host, where a write takes a few nanoseconds: at least, and
/// of a large one.
const POKED: (usize, usize) = (8, 64);

impl Storage {
    /// Drops the bytes from `len` on of what only a device has, where they keep their memory.
    pub fn cut(&mut self, len: usize) {
        debug_assert!(self.host.get().is_none() && len <= self.len, "a part of what is on a device");
        self.len = len;
    }

    /// Creates zeros, which take no memory before they are accessed.
    pub fn zeros(len: usize) -> Storage {
        Storage { len, ..Storage::default() }
    }

    /// As [`Storage::zeros`], for a kernel that writes every element: where memory is used again, the bytes are not cleared first.
    pub fn unset(len: usize) -> Storage {
        Storage { len, unset: true, ..Storage::default() }
    }

    /// Returns whether the bytes need not be zero before a kernel writes them. They have no meaning until then.
    pub(crate) fn is_unset(&self) -> bool {
        self.unset
    }

    /// Makes bytes without a meaning zero, so that kernels which run on copies of this storage begin with equal bytes.
    pub(crate) fn define(&mut self) {
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

    /// Returns the bytes, copied to the host if necessary; an error if the device has failed or there is not enough host memory.
    pub fn bytes(&self) -> Result<&[u8], DeviceError> {
        match self.host.get() {
            Some(bytes) => Ok(bytes),
            None => self.fetch(),
        }
    }

    /// Copies the bytes to the host.
    fn fetch(&self) -> Result<&[u8], DeviceError> {
        // Held throughout, so that two threads do not copy the same bytes.
        let remote = self.remote();
        if self.host.get().is_none() {
            let wanted = self.len as u64;
            let new = if self.unset || remote.is_some() { AlignedBytes::unset } else { AlignedBytes::zeroed };
            let mut bytes = new(self.len).ok_or(DeviceError::NoHostMemory { wanted })?;
            if let Some(remote) = &*remote {
                remote.read(0, &mut bytes)?;
            }
            // Cannot fail: the lock is held.
            let _ = self.host.set(bytes);
        }
        drop(remote);
        Ok(self.host.get().map_or(&[], |bytes| bytes))
    }

    /// Returns the bytes for writing and drops the copy on a device; fails as [`Storage::bytes`] does.
    pub fn bytes_mut(&mut self) -> Result<&mut [u8], DeviceError> {
        self.bytes()?;
        *self.remote.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(self.host.get_mut().map_or(&mut [], |bytes| bytes))
    }

    /// Returns the bytes for writing if no device has a copy of them.
    #[inline]
    pub fn own_mut(&mut self) -> Option<&mut [u8]> {
        let remote = self.remote.get_mut().unwrap_or_else(PoisonError::into_inner);
        if remote.is_some() { None } else { self.host.get_mut().map(|bytes| &mut bytes[..]) }
    }

    /// Copies some of the bytes of an array that only a device has; `None` if they are on the host, or if so much has been read
    /// in parts that the whole should be copied.
    pub fn peek(&self, offset: usize, len: usize) -> Result<Option<Vec<u8>>, DeviceError> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        let remote = self.remote().clone().filter(|_| inside && self.host.get().is_none());
        let Some(remote) = remote else { return Ok(None) };
        let seen = self.peeked.fetch_add(len.max(PEEK), Ordering::Relaxed);
        if seen >= self.len.min(MOST_PEEKED) {
            return Ok(None);
        }
        let mut bytes = vec![0; len];
        remote.read(offset as u64, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Copies all bytes to a place of as many, from wherever they are; they stay there alone.
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

    /// Returns how often single elements have been written on a device; `None` if the bytes are not there alone, or if that has
    /// happened so often that the whole should be copied to the host.
    pub fn pokes(&self) -> Option<usize> {
        let is_far = self.host.get().is_none() && self.remote().is_some();
        let most = (self.len / PEEK).clamp(POKED.0, POKED.1);
        Some(self.poked.load(Ordering::Relaxed)).filter(|&poked| is_far && poked < most)
    }

    /// Notes how often single elements have been written on a device; 0 when a kernel uses the bytes there.
    pub fn set_pokes(&self, poked: usize) {
        self.poked.store(poked, Ordering::Relaxed);
    }

    /// Returns the bytes if they are on the host.
    pub fn here(&self) -> Option<&[u8]> {
        self.host.get().map(|bytes| &bytes[..])
    }

    /// Keeps a guard of the host's memory of the bytes until that is freed.
    pub fn hold(&self, guard: Guard) {
        if let Some(bytes) = self.host.get() {
            bytes.hold(guard);
        }
    }

    /// Whether the host has the bytes in memory that nobody else owns.
    pub fn is_own(&self) -> bool {
        self.host.get().is_some_and(AlignedBytes::is_own)
    }

    /// Returns the number of guards.
    pub fn holds(&self) -> usize {
        self.host.get().map_or(0, AlignedBytes::holds)
    }

    /// Returns the copy on a device, for that device to use and to set.
    pub fn remote(&self) -> MutexGuard<'_, RemoteCopy> {
        self.remote.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a kernel writes the copy on a device, which is the only one from now on.
    pub fn written_remotely(&mut self, copy: Arc<dyn Remote>) {
        *self.remote.get_mut().unwrap_or_else(PoisonError::into_inner) = Some(copy);
        self.host.take();
        self.set_pokes(0);
    }

    /// Copies bytes of another storage into this one, if both are on devices that can do it by themselves ([`Remote::copy_to`]); `None`
    /// if nothing was done.
    pub fn copy_part(
        &mut self,
        at: usize,
        from: &Storage,
        start: usize,
        len: usize,
    ) -> Result<Option<Arrival>, DeviceError> {
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

    /// Returns a copy of the bytes: a copy on a device is shared until one of both is written, bytes on the host are copied. Bytes without a
    /// meaning ([`Storage::unset`]) are zero in the copy alone. `None` if there is not enough memory.
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
        let here = if self.host.get().is_some() { " here" } else { "" };
        let there = if self.remote().is_some() { " on a device" } else { "" };
        write!(f, "{} bytes{here}{there}", self.len)
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

    impl Remote for Far {
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
    fn bytes_come_once_and_only_when_asked_for() {
        let device = far(&[1, 2, 3, 4]);
        let mut storage = Storage::zeros(4);
        assert!(storage.here().is_none());
        storage.written_remotely(device.clone());
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
    fn single_elements_are_written_there_a_few_times_in_a_row() {
        let mut storage = Storage::zeros(2 * PEEK);
        assert_eq!(storage.pokes(), None, "it is nowhere");
        storage.written_remotely(far(&vec![0; 2 * PEEK]));
        for n in 0..POKED.0 {
            assert_eq!(storage.pokes(), Some(n));
            storage.set_pokes(n + 1);
        }
        assert_eq!(storage.pokes(), None);
        storage.written_remotely(far(&vec![0; 2 * PEEK]));
        assert_eq!(storage.pokes(), Some(0), "a kernel has written it");
        storage.bytes().unwrap();
        assert_eq!(storage.pokes(), None, "it is here");
    }

    #[test]
    fn duplicates_share_what_is_far_away() {
        let device = far(&[5, 6]);
        let mut storage = Storage::zeros(2);
        storage.written_remotely(device.clone());
        let copy = storage.duplicate().unwrap();
        storage.bytes_mut().unwrap()[1] = 0;
        assert_eq!((storage.bytes().unwrap(), copy.bytes().unwrap()), (&[5u8, 0][..], &[5u8, 6][..]));
        assert_eq!(Storage::zeros(3).duplicate().unwrap().bytes().unwrap(), [0, 0, 0]);
    }

    /// Memory that was used before lets unset bytes be seen.
    #[test]
    fn defined_bytes_are_those_of_their_copies() {
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
        remote.written_remotely(far(&vec![3; LEN]));
        assert_eq!(defined(remote), 3);
    }

    #[test]
    fn a_lost_device_gives_its_error() {
        let mut storage = Storage::zeros(2);
        storage.written_remotely(Arc::new(Gone::unavailable()));
        let Gone(gone) = Gone::unavailable();
        assert_eq!(storage.bytes(), Err(gone.clone()));
        assert_eq!(storage.peek(0, 1), Err(gone.clone()));
        assert_eq!(storage.bytes_mut(), Err(gone));
        assert!(storage.here().is_none() && storage.remote().is_some(), "nothing has changed");
        storage.written_remotely(far(&[7, 8]));
        assert_eq!(storage.bytes(), Ok(&[7, 8][..]), "a kernel has written it anew");
    }
}
