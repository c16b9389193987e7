//! Shadow memory: planes of words beside each memory, and locks for those that several workers write.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::word::{GLOBAL_TIME_SHIFT, GRID, KIND_SHIFT, LAST_GLOBAL_TIME};
use crate::base::room;
use crate::device::sim::code::{Code, MemoryKind, Watched};
use crate::device::sim::geometry::Geometry;
use crate::device::sim::memory::layout::Binding;

/// The shadow words of a memory's elements. Unneeded planes are null.
#[derive(Clone, Copy)]
pub(crate) struct Planes {
    pub w: *mut u64,
    pub r: *mut u64,
    pub a: *mut u64,
    /// Words of atomic loads.
    pub l: *mut u64,
    /// Words per plane.
    pub len: usize,
}

impl Planes {
    pub const NONE: Planes = Planes {
        w: std::ptr::null_mut(),
        r: std::ptr::null_mut(),
        a: std::ptr::null_mut(),
        l: std::ptr::null_mut(),
        len: 0,
    };

    /// Returns the words of an element's writes, reads and atomic updates; absent ones are 0.
    ///
    /// # Safety
    /// `cell` is below `len`, and nothing else is writing the words.
    #[inline(always)]
    pub unsafe fn words(&self, cell: usize) -> (u64, u64, u64) {
        // SAFETY: the caller's cell is below `len`, and planes that are not null have as many words.
        let word = |plane: *mut u64| if plane.is_null() { 0 } else { unsafe { *plane.add(cell) } };
        (word(self.w), word(self.r), word(self.a))
    }

    /// Returns the word of an element's atomic loads, 0 if absent.
    ///
    /// # Safety
    /// As for [`Planes::words`].
    #[inline(always)]
    pub unsafe fn look(&self, cell: usize) -> u64 {
        // SAFETY: the caller's cell is below `len`, and a plane that is not null has as many words.
        if self.l.is_null() { 0 } else { unsafe { *self.l.add(cell) } }
    }
}

/// Planes with their allocations.
pub(crate) struct Store {
    /// Owns the memory of the planes.
    _words: [Vec<u64>; 4],
    pub planes: Planes,
}

impl Store {
    pub fn new(watched: &Watched, len: usize, mut make: impl FnMut(usize) -> Vec<u64>) -> Store {
        let mut plane = |wanted: bool| if wanted { make(len.max(1)) } else { vec![] };
        // Atomic loads conflict with plain writes only.
        let looks = watched.looks && watched.stores;
        let mut words = [plane(true), plane(watched.loads), plane(watched.atomics), plane(looks)];
        let ptr = |v: &mut Vec<u64>| if v.is_empty() { std::ptr::null_mut() } else { v.as_mut_ptr() };
        let [w, r, a, l] = &mut words;
        let planes = Planes { w: ptr(w), r: ptr(r), a: ptr(a), l: ptr(l), len };
        Store { _words: words, planes }
    }
}

/// The initialization state of an array whose elements are private to threads, which needs no other checks. One byte per element,
/// which equals `mark` if it has been written.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    pub bytes: *mut u8,
    pub len: usize,
    pub mark: u8,
}

/// Bytes of [`Written`], and the mark of the launch that used them last.
type Marks = (Vec<u8>, u8);

/// [`Written`] with its allocation.
struct Own {
    /// Owns the memory of `written`.
    marks: Marks,
    written: Written,
}

impl Own {
    fn new(mut marks: Marks) -> Own {
        let (bytes, mark) = &mut marks;
        let written = Written { bytes: bytes.as_mut_ptr(), len: bytes.len(), mark: *mark };
        Own { marks, written }
    }
}

/// Planes of global memory are reused: allocating them costs more than most launches. Words left in them are older than any later
/// launch.
struct Pool {
    free: Vec<Vec<u64>>,
    marks: Vec<Marks>,
    /// The first time of the next launch.
    time: u64,
    /// Counts restarts of the time.
    age: u64,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: vec![], marks: vec![], time: 1, age: 0 });

/// The largest number of words that are kept for later launches.
const KEPT: usize = 1 << 26;

/// The number of elements that are tested together at the end of a launch.
const SCAN: usize = 1 << 12;

/// Elements that share a lock, as a power of two.
pub(crate) const PAGE_SHIFT: u32 = 10;
const LOCKS: usize = 256;

/// The shadow memory of a launch's global memory.
pub(crate) struct Globals {
    /// By memory of the code.
    stores: Vec<Option<Store>>,
    /// By memory, in place of words.
    own: Vec<Option<Own>>,
    /// The launch's first time; earlier words are of other launches.
    pub start: u64,
    age: u64,
    /// The last time of any block.
    pub last: AtomicU64,
    locks: Vec<AtomicBool>,
    /// Several workers run.
    pub shared: bool,
}

// SAFETY: workers write words under locks, and marks only for elements that are private to their threads.
unsafe impl Sync for Globals {}

impl Globals {
    /// Creates the shadow memory; without `words`, only marks.
    pub fn new(code: &Code, geometry: &Geometry, bindings: &[Binding], workers: usize, words: bool) -> Globals {
        let mut pool = POOL.lock().unwrap_or_else(|e| e.into_inner());
        if pool.time > LAST_GLOBAL_TIME * 3 / 4 {
            (pool.free, pool.time, pool.age) = (vec![], 1, pool.age + 1);
        }
        let (start, age) = (pool.time, pool.age);
        let (mut stores, mut own) = (vec![], vec![]);
        for (def, watched) in code.memories.iter().zip(&code.watched) {
            let (mut store, mut marks) = (None, None);
            if let (MemoryKind::Global(param), Some(watched)) = (def.kind, watched) {
                let bytes = match bindings.get(param as usize) {
                    Some(Binding::Array { len, .. }) => *len,
                    _ => 0,
                };
                let len = bytes / watched.unit.max(1);
                // Private elements of a thread need only the initialization check, and not even that if they are initialized at
                // the start.
                match geometry.tells(watched, code) {
                    true => marks = watched.fresh.then(|| Own::new(take_marks(&mut pool.marks, len))),
                    false if words => store = Some(Store::new(watched, len, |len| take(&mut pool.free, len))),
                    false => {}
                }
            }
            stores.push(store);
            own.push(marks);
        }
        let locks = (0..LOCKS).map(|_| AtomicBool::new(false)).collect();
        Globals { stores, own, start, age, last: AtomicU64::new(start), locks, shared: workers > 1 }
    }

    pub fn planes(&self, memory: usize) -> Option<Planes> {
        self.stores.get(memory)?.as_ref().map(|s| s.planes)
    }

    /// Returns the marks of a memory, if it has these instead of planes.
    #[inline]
    pub fn written(&self, memory: usize) -> Option<Written> {
        Some(self.own.get(memory)?.as_ref()?.written)
    }

    /// Returns whether an element was never written, in a memory that was unwritten when the kernel began; the workers have
    /// ended.
    pub fn is_unwritten(&self, memory: usize, cell: usize) -> bool {
        let born = self.start << GLOBAL_TIME_SHIFT;
        // SAFETY: the cell is in bounds.
        if let Some(own) = self.written(memory) {
            // SAFETY: the cell is below the number of marks; the workers have ended.
            return cell < own.len && unsafe { *own.bytes.add(cell) } != own.mark;
        }
        // SAFETY: the cell is below the number of words; the workers have ended.
        self.planes(memory).is_some_and(|planes| cell < planes.len && unsafe { *planes.w.add(cell) } < born)
    }

    /// Returns whether no element of such a memory is unwritten.
    pub fn is_all_written(&self, memory: usize) -> bool {
        if let Some(own) = self.written(memory) {
            // SAFETY: the marks have this length, and nothing changes them any more.
            let marks = unsafe { std::slice::from_raw_parts(own.bytes, own.len) };
            return marks.chunks(SCAN).all(|part| part.iter().fold(0, |wrong, mark| wrong | (mark ^ own.mark)) == 0);
        }
        let Some(planes) = self.planes(memory) else { return true };
        let born = self.start << GLOBAL_TIME_SHIFT;
        // SAFETY: the marks have this length, and nothing changes them any more.
        let words = unsafe { std::slice::from_raw_parts(planes.w, planes.len) };
        words.chunks(SCAN).all(|part| part.iter().fold(true, |all, &word| all & (word >= born)))
    }

    /// Replaces all words by `f` of them.
    pub fn rewrite(&self, f: impl Fn(u64) -> u64) {
        for planes in self.stores.iter().flatten().map(|store| store.planes) {
            for plane in [planes.w, planes.r, planes.a, planes.l].into_iter().filter(|plane| !plane.is_null()) {
                for page in (0..planes.len).step_by(1 << PAGE_SHIFT) {
                    let cells = page..(page + (1 << PAGE_SHIFT)).min(planes.len);
                    // SAFETY: the cells are in the plane, and nothing else accesses them meanwhile.
                    self.with_page(page, || cells.for_each(|cell| unsafe { *plane.add(cell) = f(*plane.add(cell)) }));
                }
            }
        }
    }

    /// Starts a new window: as many blocks have run as words can distinguish. For the following blocks all of these count as
    /// different ones.
    pub fn next_window(&self) {
        let base = (self.start + 1) << GLOBAL_TIME_SHIFT;
        self.rewrite(|word| if word < base { word } else { word | GRID << KIND_SHIFT });
    }

    /// Handles a grid barrier at this time; returns a time that words can represent.
    pub fn grid_met(&self, time: u64) -> u64 {
        if time < LAST_GLOBAL_TIME / 8 * 7 {
            return time;
        }
        let (base, past) = ((self.start + 1) << GLOBAL_TIME_SHIFT, u64::MAX >> (64 - GLOBAL_TIME_SHIFT));
        self.rewrite(|word| if word < base { word } else { base | word & past });
        self.start + 2
    }

    /// Runs `f` with exclusive access to the words of this page.
    #[inline(always)]
    pub fn with_page<T>(&self, cell: usize, f: impl FnOnce() -> T) -> T {
        if !self.shared {
            return f();
        }
        let lock = &self.locks[(cell >> PAGE_SHIFT) % LOCKS];
        while lock.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
            std::hint::spin_loop();
        }
        let result = f();
        lock.store(false, Ordering::Release);
        result
    }
}

fn take(free: &mut Vec<Vec<u64>>, len: usize) -> Vec<u64> {
    let fits = |v: &Vec<u64>| v.len() >= len && v.len() <= 2 * len.max(1 << 12);
    match free.iter().position(fits) {
        Some(at) => free.swap_remove(at),
        None => room::zeros(len),
    }
}

/// Returns zeros, or bytes with older marks, and the new mark.
fn take_marks(free: &mut Vec<Marks>, len: usize) -> Marks {
    match free.iter().position(|(bytes, mark)| bytes.len() == len && *mark < u8::MAX) {
        Some(at) => {
            let (bytes, mark) = free.swap_remove(at);
            (bytes, mark + 1)
        }
        None => (room::zeros(len), 1),
    }
}

/// Limits on the bytes that are kept for later launches, and on arrays of them.
const KEPT_MARKS: usize = 1 << 28;
const KEPT_ARRAYS: usize = 16;

impl Drop for Globals {
    fn drop(&mut self) {
        let mut pool = POOL.lock().unwrap_or_else(|e| e.into_inner());
        for Own { marks, .. } in self.own.drain(..).flatten() {
            if pool.marks.len() >= KEPT_ARRAYS {
                pool.marks.remove(0);
            }
            if pool.marks.iter().map(|(bytes, _)| bytes.len()).sum::<usize>() + marks.0.len() <= KEPT_MARKS {
                pool.marks.push(marks);
            }
        }
        if pool.age != self.age {
            return;
        }
        pool.time = pool.time.max(self.last.load(Ordering::Relaxed) + 2);
        let mut kept: usize = pool.free.iter().map(Vec::len).sum();
        for store in self.stores.drain(..).flatten() {
            for words in store._words.into_iter().filter(|w| !w.is_empty()) {
                if kept + words.len() <= KEPT {
                    kept += words.len();
                    pool.free.push(words);
                }
            }
        }
    }
}
