//! What an array holds: the storage of its bytes, or the work that computes them when they are first needed.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::device::storage::Storage;
use crate::host::problem::{Outcome, Problem};
use crate::lang::scalar::Scalar;

/// Pending work whose result is the bytes of an array.
pub trait Work: Send + Sync {
    /// Computes the bytes, `len` of them.
    fn run(&self, len: usize) -> Outcome<Storage>;

    /// Reads now what is to be read of other arrays, as one of them is to be written. The work has `len` bytes to compute.
    fn settle(&self, _len: usize) -> Outcome<()> {
        Ok(())
    }

    /// Returns the bytes that [`Work::settle`] would compute.
    fn unsettled(&self) -> usize {
        0
    }

    /// Returns whether it is another form of the bytes, which stays when they have been computed, until somebody writes them.
    fn lasts(&self) -> bool {
        false
    }

    /// For downcasts by the module that defers work.
    fn as_any(&self) -> &dyn Any;
}

/// The bytes of an array, computed or not.
#[derive(Default)]
pub struct Data {
    len: usize,
    storage: OnceLock<Storage>,
    /// Held by the thread that computes the storage, so that no other one does.
    computing: Mutex<()>,
    /// Kept until the storage is there; if it fails, the next reader tries again.
    work: Mutex<Option<Arc<dyn Work>>>,
    /// Work that reads a part of these bytes, and could do so before they change.
    readers: Mutex<Vec<Weak<dyn Work>>>,
    /// Copies of the bytes for other devices, by device. The first one that asks uses the bytes themselves.
    replicas: Mutex<Vec<(usize, Option<Arc<Data>>)>>,
    /// A type, and the length of an axis of which all elements, as such integers, are known to be positions; 0 if none is.
    positions: AtomicU64,
    /// The integers of a type that are 0, 1, 2, …, as one more than the type's number; 0 if that is not known.
    counting: AtomicU8,
    /// What tells these bytes from all others there have been, and from their own later ones; 0 if nobody has asked yet.
    identity: AtomicU64,
    /// The least and the largest element as integers of a type, once somebody has looked.
    extremes: Mutex<Option<(Scalar, (i128, i128))>>,
}

impl Data {
    pub fn deferred(len: usize, work: Arc<dyn Work>) -> Data {
        Data { work: Mutex::new(Some(work)), ..Data::with(len, OnceLock::new()) }
    }

    fn with(len: usize, storage: OnceLock<Storage>) -> Data {
        Data { len, storage, ..Data::default() }
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the storage if it has been computed.
    #[inline]
    pub fn computed(&self) -> Option<&Storage> {
        self.storage.get()
    }

    /// Returns the storage for writing if it has been computed.
    #[inline]
    pub fn computed_mut(&mut self) -> Option<&mut Storage> {
        self.forget();
        self.storage.get_mut()
    }

    /// Returns the work that has yet to be done.
    pub fn work(&self) -> Option<Arc<dyn Work>> {
        match self.storage.get() {
            Some(_) => None,
            None => self.work.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }

    /// Returns the work that lasts, whether or not the bytes have been computed.
    pub fn lasting(&self) -> Option<Arc<dyn Work>> {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.as_ref().filter(|work| work.lasts()).cloned()
    }

    /// Returns a copy of the bytes for one of several devices that read them, made once for each; `None` if there is no memory.
    pub fn replica(self: &Arc<Self>, device: usize, copy: impl FnOnce() -> Option<Storage>) -> Option<Arc<Data>> {
        let mut replicas = self.replicas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = replicas.iter().find(|(of, _)| *of == device) {
            return Some(known.as_ref().unwrap_or(self).clone());
        }
        let new = if replicas.is_empty() { None } else { Some(Arc::new(Data::from(copy()?))) };
        replicas.push((device, new.clone()));
        Some(new.unwrap_or_else(|| self.clone()))
    }

    /// Returns the storage, computed now if necessary.
    pub fn storage(&self) -> Outcome<&Storage> {
        if let Some(storage) = self.storage.get() {
            return Ok(storage);
        }
        // What is computed does not depend on itself: it does not wait for this lock.
        let _computing = self.computing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(work) = self.work() {
            let storage = work.run(self.len)?;
            // Cannot fail: the lock is held.
            let _ = self.storage.set(storage);
            if !work.lasts() {
                *self.work.lock().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
        self.storage.get().ok_or_else(|| Problem::new("E0999", "internal error: an array without bytes"))
    }

    /// Returns the storage if it has been computed.
    pub fn into_storage(mut self) -> Result<Storage, Arc<Data>> {
        self.storage.take().ok_or_else(|| Arc::new(self))
    }

    /// Notes that all elements, as integers of this type, are positions along an axis of this length.
    pub fn note_below(&self, scalar: Scalar, len: usize) {
        self.positions.store((scalar as u64) << 48 | len as u64, Ordering::Relaxed);
    }

    /// Returns whether that is known.
    pub fn is_known_below(&self, scalar: Scalar, len: usize) -> bool {
        let known = self.positions.load(Ordering::Relaxed);
        known != 0 && known >> 48 == scalar as u64 && known & 0xffff_ffff_ffff <= len as u64
    }

    /// Notes that the elements, as integers of this type, are 0, 1, 2, ….
    pub fn note_counting(&self, scalar: Scalar) {
        self.counting.store(scalar as u8 + 1, Ordering::Relaxed);
    }

    /// Returns whether that is known.
    pub fn is_counting(&self, scalar: Scalar) -> bool {
        self.counting.load(Ordering::Relaxed) == scalar as u8 + 1
    }

    /// Notes the least and the largest element, as integers of this type.
    pub fn note_extremes(&self, scalar: Scalar, extremes: (i128, i128)) {
        *self.extremes.lock().unwrap_or_else(PoisonError::into_inner) = Some((scalar, extremes));
    }

    /// Returns what was noted.
    pub fn known_extremes(&self, scalar: Scalar) -> Option<(i128, i128)> {
        let known = *self.extremes.lock().unwrap_or_else(PoisonError::into_inner);
        known.filter(|(of, _)| *of == scalar).map(|(_, extremes)| extremes)
    }

    /// Returns a number that other bytes never have: not those of another array, nor these after a write.
    pub fn identity(&self) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let new = NEXT.fetch_add(1, Ordering::Relaxed);
        self.identity.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|known| known, |_| new)
    }

    /// Forgets what is known of elements that are to be written.
    #[inline]
    fn forget(&mut self) {
        if self.storage.get().is_some() {
            *self.work.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        }
        self.replicas.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
        *self.positions.get_mut() = 0;
        *self.counting.get_mut() = 0;
        *self.identity.get_mut() = 0;
        *self.extremes.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Notes work that reads a part of these bytes.
    pub fn read_by(&self, work: &Arc<dyn Work>) {
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.len() == readers.capacity() {
            readers.retain(|reader| reader.strong_count() > 0);
        }
        readers.push(Arc::downgrade(work));
    }

    /// Has noted work read what it needs, if that is less than all bytes, so that it does not keep them from being written. Work that
    /// fails goes on keeping them.
    pub fn settle(&self) {
        let noted = || self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        let readers: Vec<Arc<dyn Work>> = noted().iter().filter_map(Weak::upgrade).collect();
        let sizes: Vec<usize> = readers.iter().map(|reader| reader.unsettled()).collect();
        if sizes.iter().fold(0, |all: usize, size| all.saturating_add(*size)) >= self.len {
            return;
        }
        for (reader, size) in readers.iter().zip(sizes) {
            drop(reader.settle(size));
        }
        noted().retain(|reader| reader.upgrade().is_some_and(|reader| reader.unsettled() > 0));
    }

    /// Returns the storage for writing, computed now if necessary.
    pub fn storage_mut(&mut self) -> Outcome<&mut Storage> {
        self.storage()?;
        self.forget();
        self.storage.get_mut().ok_or_else(|| Problem::new("E0999", "internal error: an array without bytes"))
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
