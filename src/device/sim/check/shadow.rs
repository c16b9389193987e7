//! Where the words lie: planes beside each memory, and locks for those that several workers write.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::word::LAST_GLOBAL_TIME;
use crate::device::sim::code::{Code, MemoryKind, Watched};
use crate::device::sim::frame::Binding;

/// The words of a memory's elements. Planes that are not needed are null.
#[derive(Clone, Copy)]
pub struct Planes {
    pub w: *mut u64,
    pub r: *mut u64,
    pub a: *mut u64,
    /// Words per plane.
    pub len: usize,
}

impl Planes {
    pub const NONE: Planes =
        Planes { w: std::ptr::null_mut(), r: std::ptr::null_mut(), a: std::ptr::null_mut(), len: 0 };

    /// The three words of an element; absent ones are 0.
    ///
    /// # Safety
    /// `cell` is below `len`, and nobody else is writing the words.
    #[inline(always)]
    pub unsafe fn words(&self, cell: usize) -> (u64, u64, u64) {
        let word = |plane: *mut u64| if plane.is_null() { 0 } else { unsafe { *plane.add(cell) } };
        (word(self.w), word(self.r), word(self.a))
    }
}

/// Planes with what they lie in.
pub struct Store {
    /// Kept for what the planes point to.
    _words: [Vec<u64>; 3],
    pub planes: Planes,
}

impl Store {
    pub fn new(watched: &Watched, len: usize, mut make: impl FnMut(usize) -> Vec<u64>) -> Store {
        let mut plane = |wanted: bool| if wanted { make(len.max(1)) } else { vec![] };
        let mut words = [plane(true), plane(watched.loads), plane(watched.atomics)];
        let ptr = |v: &mut Vec<u64>| if v.is_empty() { std::ptr::null_mut() } else { v.as_mut_ptr() };
        let [w, r, a] = &mut words;
        let planes = Planes { w: ptr(w), r: ptr(r), a: ptr(a), len };
        Store { _words: words, planes }
    }
}

/// Planes of global memory are used again: allocating them costs more than most launches. What is left in them is older than
/// any later launch.
struct Pool {
    free: Vec<Vec<u64>>,
    /// The first time of the next launch.
    time: u64,
    /// Counts how often time began anew.
    age: u64,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { free: vec![], time: 1, age: 0 });

impl Watched {
    /// Whether these axes tell all threads apart.
    pub fn is_own(&self, wide: u8) -> bool {
        self.own != 0 && wide & !self.own == 0
    }
}

/// Words that are kept for later launches, at most.
const KEPT: usize = 1 << 26;

/// Elements that share a lock.
pub const PAGE_SHIFT: u32 = 10;
const LOCKS: usize = 256;

/// The words of a launch's global memory.
pub struct Globals {
    /// By memory of the code.
    stores: Vec<Option<Store>>,
    /// The launch's first time; words from before are of other launches.
    pub start: u64,
    age: u64,
    /// The last time that a block has seen.
    pub last: AtomicU64,
    locks: Vec<AtomicBool>,
    /// Several workers run.
    pub shared: bool,
}

// SAFETY: workers write the words under locks.
unsafe impl Sync for Globals {}

impl Globals {
    /// `wide` are the axes (bit by bit x, y, z) along which there are several threads.
    pub fn new(code: &Code, bindings: &[Binding], workers: usize, wide: u8) -> Globals {
        let mut pool = POOL.lock().unwrap_or_else(|e| e.into_inner());
        if pool.time > LAST_GLOBAL_TIME * 3 / 4 {
            *pool = Pool { free: vec![], time: 1, age: pool.age + 1 };
        }
        let (start, age) = (pool.time, pool.age);
        let mut stores = vec![];
        for (def, watched) in code.memories.iter().zip(&code.watched) {
            stores.push(match (def.kind, watched) {
                // Nobody else touches a thread's own element; if it has been written from the first, nothing can go wrong.
                (MemoryKind::Global(_), Some(watched)) if watched.is_own(wide) && !watched.fresh => None,
                (MemoryKind::Global(param), Some(watched)) => {
                    let bytes = match bindings.get(param as usize) {
                        Some(Binding::Array { len, .. }) => *len,
                        _ => 0,
                    };
                    Some(Store::new(watched, bytes / watched.unit.max(1), |len| take(&mut pool.free, len)))
                }
                _ => None,
            });
        }
        let locks = (0..LOCKS).map(|_| AtomicBool::new(false)).collect();
        Globals { stores, start, age, last: AtomicU64::new(start), locks, shared: workers > 1 }
    }

    pub fn planes(&self, memory: usize) -> Option<Planes> {
        self.stores.get(memory)?.as_ref().map(|s| s.planes)
    }

    /// Runs `f` while nobody else touches the words of this page.
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
        None => vec![0; len],
    }
}

impl Drop for Globals {
    fn drop(&mut self) {
        let mut pool = POOL.lock().unwrap_or_else(|e| e.into_inner());
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
