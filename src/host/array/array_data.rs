//! The contents of an array: the storage of its bytes, or the deferred work that computes them at their first use.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::problem::{HostResult, RuntimeError};
use clk_runtime::storage::Storage;
use clk_scalar::Scalar;

/// The reader for which the bytes of an array are computed. The result is the same for both, but it is available faster
/// on the side of its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Host,
    /// A kernel on a device that has its own memory.
    Device,
}

/// Deferred work that computes the bytes of an array.
pub trait DeferredWork: Send + Sync {
    /// Computes the `len` bytes of the array.
    fn run(&self, len: usize, reader: Reader) -> HostResult<Storage>;

    /// Makes the work independent of other arrays, by reading or computing what it needs of them now. Called when one
    /// of these arrays is about to be written. `_len` is the number of bytes that the work computes.
    fn detach(&self, _len: usize) -> HostResult<()> {
        Ok(())
    }

    /// Returns the number of bytes that [`DeferredWork::detach`] would have to compute or wait for; 0 if the work is
    /// already detached.
    fn pending_bytes(&self) -> usize {
        0
    }

    /// Returns whether the work remains useful after the bytes have been computed, until they are written: for example,
    /// the shards of an array.
    fn is_persistent(&self) -> bool {
        false
    }

    /// Returns `self` as [`Any`], so that the module that defined the work can downcast it.
    fn as_any(&self) -> &dyn Any;
}

/// The bytes of an array, either computed or deferred. Also caches facts about the elements.
#[derive(Default)]
pub struct Data {
    len: usize,
    storage: OnceLock<Storage>,
    /// Locked by the thread that computes the storage, so that no other thread computes it too.
    computing: Mutex<()>,
    /// The deferred work. It is kept until the storage exists, so that after an error the next reader tries again.
    work: Mutex<Option<Arc<dyn DeferredWork>>>,
    /// Deferred work that reads these bytes, and that must be detached before they are written.
    readers: Mutex<Vec<Weak<dyn DeferredWork>>>,
    /// Copies of the bytes for other devices, by device index. `None` marks the first device, which uses the bytes
    /// themselves.
    replicas: Mutex<Vec<(usize, Option<Arc<Data>>)>>,
    /// Encodes an integer type and a length if all elements, as integers of that type, are known to be valid positions
    /// on an axis of that length. 0 if unknown.
    index_bound: AtomicU64,
    /// If the elements are known to be the integers 0, 1, 2, … of some type, 1 plus the discriminant of that type. 0 if
    /// unknown.
    iota: AtomicU8,
    /// A number that is unique to these contents among all arrays, and changes with each write. 0 if it has not been
    /// requested yet.
    identity: AtomicU64,
    /// The smallest and the largest element, interpreted as integers of this type, if they have been computed.
    min_max: Mutex<Option<(Scalar, (i128, i128))>>,
}

impl Data {
    pub fn deferred(len: usize, work: Arc<dyn DeferredWork>) -> Data {
        Data { work: Mutex::new(Some(work)), ..Data::with(len, OnceLock::new()) }
    }

    fn with(len: usize, storage: OnceLock<Storage>) -> Data {
        Data { len, storage, ..Data::default() }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the storage, if the bytes have been computed.
    #[inline]
    pub fn computed(&self) -> Option<&Storage> {
        self.storage.get()
    }

    /// Returns the storage for writing, if the bytes have been computed.
    #[inline]
    pub fn computed_mut(&mut self) -> Option<&mut Storage> {
        self.invalidate();
        self.storage.get_mut()
    }

    /// Returns the deferred work; `None` if the bytes have been computed.
    pub fn work(&self) -> Option<Arc<dyn DeferredWork>> {
        match self.storage.get() {
            Some(_) => None,
            None => self.work.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Returns the deferred work if it is persistent ([`DeferredWork::is_persistent`]), even if the bytes have been
    /// computed.
    pub fn persistent_work(&self) -> Option<Arc<dyn DeferredWork>> {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.as_ref().filter(|work| work.is_persistent()).cloned()
    }

    /// Returns the copy of the bytes for a device, for arrays that several devices read. Creates the copy on the first
    /// call for that device. `None` if there is not enough memory.
    pub fn replica(self: &Arc<Self>, device: usize, copy: impl FnOnce() -> Option<Storage>) -> Option<Arc<Data>> {
        let mut replicas = self.replicas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = replicas.iter().find(|(of, _)| *of == device) {
            return Some(known.as_ref().unwrap_or(self).clone());
        }
        let new = if replicas.is_empty() { None } else { Some(Arc::new(Data::from(copy()?))) };
        replicas.push((device, new.clone()));
        Some(new.unwrap_or_else(|| self.clone()))
    }

    /// Returns the storage. Computes it now if it is deferred.
    pub fn storage(&self) -> HostResult<&Storage> {
        self.storage_for(Reader::Host)
    }

    /// Like [`Data::storage`], for a reader on the host or on a device.
    pub fn storage_for(&self, reader: Reader) -> HostResult<&Storage> {
        if let Some(storage) = self.storage.get() {
            return Ok(storage);
        }
        // This cannot deadlock, because the computation does not depend on its own result.
        let _computing = self.computing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = self.work() {
            let storage = work.run(self.len, reader)?;
            // `set` cannot fail: `storage` is empty, and only the holder of the lock sets it.
            let _ = self.storage.set(storage);
            if !work.is_persistent() {
                *self.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
        self.storage.get().ok_or_else(|| RuntimeError::new("E0999", "internal error: an array without bytes"))
    }

    /// Takes the storage out; returns the data unchanged if the bytes have not been computed.
    pub fn into_storage(mut self) -> Result<Storage, Arc<Data>> {
        self.storage.take().ok_or_else(|| Arc::new(self))
    }

    /// Records that all elements, interpreted as integers of this type, are valid positions on an axis of this length.
    pub fn record_index_bound(&self, scalar: Scalar, len: usize) {
        self.index_bound.store((scalar as u64) << 48 | len as u64, Ordering::Relaxed);
    }

    /// Returns whether [`Data::record_index_bound`] has recorded this length or a smaller one.
    pub fn has_index_bound(&self, scalar: Scalar, len: usize) -> bool {
        let bound = self.index_bound.load(Ordering::Relaxed);
        bound != 0 && bound >> 48 == scalar as u64 && bound & 0xffff_ffff_ffff <= len as u64
    }

    /// Records that the elements, interpreted as integers of this type, are 0, 1, 2, ….
    pub fn record_iota(&self, scalar: Scalar) {
        self.iota.store(scalar as u8 + 1, Ordering::Relaxed);
    }

    /// Returns whether [`Data::record_iota`] was called with this type.
    pub fn is_iota(&self, scalar: Scalar) -> bool {
        self.iota.load(Ordering::Relaxed) == scalar as u8 + 1
    }

    /// Records the smallest and the largest element, interpreted as integers of this type.
    pub fn record_min_max(&self, scalar: Scalar, extremes: (i128, i128)) {
        *self.min_max.lock().unwrap_or_else(PoisonError::into_inner) = Some((scalar, extremes));
    }

    /// Returns the smallest and the largest element if [`Data::record_min_max`] has recorded them for this type.
    pub fn known_min_max(&self, scalar: Scalar) -> Option<(i128, i128)> {
        let recorded = *self.min_max.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.filter(|(of, _)| *of == scalar).map(|(_, extremes)| extremes)
    }

    /// Returns a number that is unique to these contents among all arrays. It changes with each write.
    pub fn identity(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let new = NEXT.fetch_add(1, Ordering::Relaxed);
        self.identity.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|known| known, |_| new)
    }

    /// Discards all cached facts about the elements, because they are about to be written.
    #[inline]
    fn invalidate(&mut self) {
        if self.storage.get().is_some() {
            *self.work.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.replicas.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        *self.index_bound.get_mut() = 0;
        *self.iota.get_mut() = 0;
        *self.identity.get_mut() = 0;
        *self.min_max.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Registers deferred work that reads these bytes, so that it is detached before a write.
    pub fn add_reader(&self, work: &Arc<dyn DeferredWork>) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() == readers.capacity() {
            readers.retain(|reader| reader.strong_count() > 0);
        }
        readers.push(Arc::downgrade(work));
    }

    /// Detaches registered work that needs fewer bytes than the whole array, so that it no longer holds a reference
    /// that prevents a write in place. Errors are ignored: work that could not be detached keeps its reference.
    pub fn detach_readers(&self) {
        let noted = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let readers: Vec<Arc<dyn DeferredWork>> = noted().iter().filter_map(Weak::upgrade).collect();
        let sizes: Vec<usize> = readers.iter().map(|reader| reader.pending_bytes()).collect();
        if sizes.iter().fold(0, |all: usize, size| all.saturating_add(*size)) >= self.len {
            return;
        }
        for (reader, size) in readers.iter().zip(sizes) {
            drop(reader.detach(size));
        }
        noted().retain(|reader| reader.upgrade().is_some_and(|reader| reader.pending_bytes() > 0));
    }

    /// Returns the storage for writing. Computes it now if it is deferred.
    pub fn storage_mut(&mut self) -> HostResult<&mut Storage> {
        self.storage()?;
        self.invalidate();
        self.storage.get_mut().ok_or_else(|| RuntimeError::new("E0999", "internal error: an array without bytes"))
    }
}

impl From<Storage> for Data {
    fn from(storage: Storage) -> Data {
        Data::with(storage.len(), OnceLock::from(storage))
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.storage.get() {
            Some(storage) => storage.fmt(f),
            None => write!(f, "{} bytes to be computed", self.len),
        }
    }
}
