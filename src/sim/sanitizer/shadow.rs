//! Shadow memory: planes (arrays of shadow words) for each memory, and locks for planes that several workers write.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::shadow_word::{GLOBAL_TIME_SHIFT, GRID, KIND_SHIFT, LAST_GLOBAL_TIME};
use crate::code::{KernelTables, MemoryKind, TrackedMemory};
use crate::geometry::GroupGeometry;
use crate::memory::layout::BoundParam;
use clk_base::alloc;

/// The shadow words of a memory's elements: one plane each for writes, reads and atomic updates. Planes that are not
/// needed are null.
#[derive(Clone, Copy)]
pub(crate) struct Planes {
    pub writes: *mut u64,
    pub reads: *mut u64,
    pub atomics: *mut u64,
    /// The plane of shadow words for atomic loads.
    pub atomic_loads: *mut u64,
    /// Number of shadow words in a plane.
    pub len: usize,
}

/// The shadow words of an element, except the word of its atomic loads. A word is 0 if the memory has no plane for it.
#[derive(Clone, Copy)]
pub(crate) struct ShadowWords {
    pub writes: u64,
    pub reads: u64,
    /// The shadow word of atomic updates.
    pub atomics: u64,
}

impl Planes {
    pub const NONE: Planes = Planes {
        writes: std::ptr::null_mut(),
        reads: std::ptr::null_mut(),
        atomics: std::ptr::null_mut(),
        atomic_loads: std::ptr::null_mut(),
        len: 0,
    };

    /// Returns the words of an element's writes, reads and atomic updates; 0 if the plane is null.
    ///
    /// # Safety
    /// `cell` is less than `len`, and no other thread writes the words at the same time.
    #[inline(always)]
    pub unsafe fn words(&self, cell: usize) -> ShadowWords {
        // SAFETY: the caller's cell is below `len`, and planes that are not null have `len` words.
        let word = |plane: *mut u64| if plane.is_null() { 0 } else { unsafe { *plane.add(cell) } };
        ShadowWords { writes: word(self.writes), reads: word(self.reads), atomics: word(self.atomics) }
    }

    /// Returns the word of an element's atomic loads; 0 if the plane is null.
    ///
    /// # Safety
    /// As for [`Planes::words`].
    #[inline(always)]
    pub unsafe fn atomic_load_word(&self, cell: usize) -> u64 {
        // SAFETY: the caller's cell is below `len`, and a plane that is not null has `len` words.
        if self.atomic_loads.is_null() { 0 } else { unsafe { *self.atomic_loads.add(cell) } }
    }
}

/// Planes with their allocations.
pub(crate) struct ShadowPlanes {
    /// Owns the memory of the planes.
    _words: [Vec<u64>; 4],
    pub planes: Planes,
}

impl ShadowPlanes {
    pub fn new(watched: &TrackedMemory, len: usize, mut make: impl FnMut(usize) -> Vec<u64>) -> ShadowPlanes {
        let mut plane = |is_needed: bool| if is_needed { make(len.max(1)) } else { vec![] };
        // Atomic loads conflict with plain writes only.
        let looks = watched.atomic_loads && watched.stores;
        let mut words = [plane(true), plane(watched.loads), plane(watched.atomics), plane(looks)];
        let ptr = |v: &mut Vec<u64>| if v.is_empty() { std::ptr::null_mut() } else { v.as_mut_ptr() };
        let [w, r, a, l] = &mut words;
        let planes = Planes { writes: ptr(w), reads: ptr(r), atomics: ptr(a), atomic_loads: ptr(l), len };
        ShadowPlanes { _words: words, planes }
    }
}

/// The initialization map of an array each of whose elements only one thread accesses, so that races are impossible. It
/// has one byte for each element, which is equal to `mark` if the element has been written.
#[derive(Clone, Copy)]
pub(crate) struct PrivateInitMap {
    pub bytes: *mut u8,
    pub len: usize,
    pub mark: u8,
}

/// The bytes of a [`PrivateInitMap`], and the mark of the last launch that used them.
type Marks = (Vec<u8>, u8);

/// A [`PrivateInitMap`] with its allocation.
struct OwnedInitMap {
    /// Owns the memory of `written`.
    marks: Marks,
    written: PrivateInitMap,
}

impl OwnedInitMap {
    fn new(mut marks: Marks) -> OwnedInitMap {
        let (bytes, mark) = &mut marks;
        let written = PrivateInitMap { bytes: bytes.as_mut_ptr(), len: bytes.len(), mark: *mark };
        OwnedInitMap { marks, written }
    }
}

/// Planes and initialization maps that later launches reuse, because allocating them takes longer than most launches.
/// The words in them need not be cleared: their times are earlier than those of every later launch.
struct ShadowPool {
    free: Vec<Vec<u64>>,
    marks: Vec<Marks>,
    /// The first time of the next launch.
    time: u64,
    /// Number of times that the logical time has restarted.
    age: u64,
}

static POOL: Mutex<ShadowPool> = Mutex::new(ShadowPool { free: vec![], marks: vec![], time: 1, age: 0 });

/// Maximum number of shadow words that are kept for later launches.
const MAX_KEPT_WORDS: usize = 1 << 26;

/// Number of elements that are tested together for initialization at the end of a launch.
const SCAN: usize = 1 << 12;

/// The binary logarithm of the number of elements that share a lock.
pub(crate) const PAGE_SHIFT: u32 = 10;
const LOCKS: usize = 256;

/// The shadow memory of a launch's global memory.
pub(crate) struct GlobalShadow {
    /// Indexed by memory: the planes of global arrays.
    stores: Vec<Option<ShadowPlanes>>,
    /// Indexed by memory: the initialization maps of global arrays that have such a map instead of planes.
    init_maps: Vec<Option<OwnedInitMap>>,
    /// The launch's first time; earlier words belong to other launches.
    pub start_time: u64,
    age: u64,
    /// The largest logical time of all blocks so far.
    pub last_time: AtomicU64,
    locks: Vec<AtomicBool>,
    /// Set if the launch has several workers.
    pub has_several_workers: bool,
}

// SAFETY: workers write words under locks, and initialization bytes only for elements that are private to their
// threads.
unsafe impl Sync for GlobalShadow {}

impl GlobalShadow {
    /// Creates the shadow memory. If `words` is false, creates only initialization maps.
    pub fn new(
        code: &KernelTables,
        geometry: &GroupGeometry,
        bindings: &[BoundParam],
        workers: usize,
        words: bool,
    ) -> GlobalShadow {
        let mut pool = POOL.lock().unwrap_or_else(|e| e.into_inner());
        if pool.time > LAST_GLOBAL_TIME * 3 / 4 {
            (pool.free, pool.time, pool.age) = (vec![], 1, pool.age + 1);
        }
        let (start, age) = (pool.time, pool.age);
        let (mut stores, mut own) = (vec![], vec![]);
        for (def, watched) in code.memories.iter().zip(&code.events.tracked) {
            let (mut store, mut marks) = (None, None);
            if let (MemoryKind::Global(param), Some(watched)) = (def.kind, watched) {
                let bytes = match bindings.get(param as usize) {
                    Some(BoundParam::Array { len, .. }) => *len,
                    _ => 0,
                };
                let len = bytes / watched.unit.max(1);
                // If each element is accessed by one thread only, the array needs only an initialization check, or no
                // check if it is initialized at the start.
                match geometry.is_race_free(watched, &code.properties) {
                    true => {
                        marks = watched.starts_unwritten.then(|| OwnedInitMap::new(take_marks(&mut pool.marks, len)))
                    }
                    false if words => {
                        store = Some(ShadowPlanes::new(watched, len, |len| take_words(&mut pool.free, len)))
                    }
                    false => {}
                }
            }
            stores.push(store);
            own.push(marks);
        }
        let locks = (0..LOCKS).map(|_| AtomicBool::new(false)).collect();
        GlobalShadow {
            stores,
            init_maps: own,
            start_time: start,
            age,
            last_time: AtomicU64::new(start),
            locks,
            has_several_workers: workers > 1,
        }
    }

    pub fn planes(&self, memory: usize) -> Option<Planes> {
        self.stores.get(memory)?.as_ref().map(|s| s.planes)
    }

    /// Returns the initialization map of a memory; `None` if it has planes or needs no checks.
    #[inline]
    pub fn init_map(&self, memory: usize) -> Option<PrivateInitMap> {
        Some(self.init_maps.get(memory)?.as_ref()?.written)
    }

    /// Returns whether an element was never written, in a memory that was uninitialized when the kernel began. Called
    /// when the workers have ended.
    pub fn is_unwritten(&self, memory: usize, cell: usize) -> bool {
        let allocation_time = self.start_time << GLOBAL_TIME_SHIFT;
        // SAFETY: the cell is in bounds.
        if let Some(own) = self.init_map(memory) {
            // SAFETY: the cell is less than the number of bytes, and the workers have ended.
            return cell < own.len && unsafe { *own.bytes.add(cell) } != own.mark;
        }
        // SAFETY: the cell is below the number of words; the workers have ended.
        self.planes(memory)
            .is_some_and(|planes| cell < planes.len && unsafe { *planes.writes.add(cell) } < allocation_time)
    }

    /// Returns whether all elements have been written, in a memory that was uninitialized when the kernel began.
    pub fn is_all_written(&self, memory: usize) -> bool {
        if let Some(own) = self.init_map(memory) {
            // SAFETY: the bytes have this length, and nothing changes them anymore.
            let marks = unsafe { std::slice::from_raw_parts(own.bytes, own.len) };
            return marks.chunks(SCAN).all(|part| part.iter().fold(0, |wrong, mark| wrong | (mark ^ own.mark)) == 0);
        }
        let Some(planes) = self.planes(memory) else { return true };
        let allocation_time = self.start_time << GLOBAL_TIME_SHIFT;
        // SAFETY: the plane has this length, and nothing changes it anymore.
        let words = unsafe { std::slice::from_raw_parts(planes.writes, planes.len) };
        words.chunks(SCAN).all(|part| part.iter().fold(true, |all, &word| all & (word >= allocation_time)))
    }

    /// Replaces each shadow word by `f(word)`.
    pub fn rewrite(&self, f: impl Fn(u64) -> u64) {
        for planes in self.stores.iter().flatten().map(|store| store.planes) {
            for plane in [planes.writes, planes.reads, planes.atomics, planes.atomic_loads]
                .into_iter()
                .filter(|plane| !plane.is_null())
            {
                for page in (0..planes.len).step_by(1 << PAGE_SHIFT) {
                    let cells = page..(page + (1 << PAGE_SHIFT)).min(planes.len);
                    // SAFETY: the cells are in the plane, and the lock keeps other workers from accessing them.
                    self.with_page(page, || cells.for_each(|cell| unsafe { *plane.add(cell) = f(*plane.add(cell)) }));
                }
            }
        }
    }

    /// Starts a new window of blocks. Called when as many blocks have run as shadow words can distinguish. All existing
    /// words get kind `GRID`, so later blocks treat them as accesses of other blocks.
    pub fn next_window(&self) {
        let base = (self.start_time + 1) << GLOBAL_TIME_SHIFT;
        self.rewrite(|word| if word < base { word } else { word | GRID << KIND_SHIFT });
    }

    /// Called at a grid barrier. Returns the time at which blocks continue. If the times are nearly used up, restarts
    /// them and rewrites all shadow words.
    pub fn on_grid_barrier(&self, time: u64) -> u64 {
        if time < LAST_GLOBAL_TIME / 8 * 7 {
            return time;
        }
        let (base, past) = ((self.start_time + 1) << GLOBAL_TIME_SHIFT, u64::MAX >> (64 - GLOBAL_TIME_SHIFT));
        self.rewrite(|word| if word < base { word } else { base | word & past });
        self.start_time + 2
    }

    /// Runs `f` with exclusive access to the shadow words of the page that contains `cell`.
    #[inline(always)]
    pub fn with_page<T>(&self, cell: usize, f: impl FnOnce() -> T) -> T {
        if !self.has_several_workers {
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

fn take_words(free: &mut Vec<Vec<u64>>, len: usize) -> Vec<u64> {
    let has_suitable_length = |v: &Vec<u64>| v.len() >= len && v.len() <= 2 * len.max(1 << 12);
    match free.iter().position(has_suitable_length) {
        Some(at) => free.swap_remove(at),
        None => alloc::zeros(len),
    }
}

/// Returns `len` bytes and a mark that none of them is equal to. The bytes are zero or contain the marks of earlier
/// launches.
fn take_marks(free: &mut Vec<Marks>, len: usize) -> Marks {
    match free.iter().position(|(bytes, mark)| bytes.len() == len && *mark < u8::MAX) {
        Some(at) => {
            let (bytes, mark) = free.swap_remove(at);
            (bytes, mark + 1)
        }
        None => (alloc::zeros(len), 1),
    }
}

/// Maximum number of bytes in initialization maps that are kept for later launches, and maximum number of these maps
/// (`MAX_KEPT_ARRAYS`).
const MAX_KEPT_BYTES: usize = 1 << 28;
const MAX_KEPT_ARRAYS: usize = 16;

impl Drop for GlobalShadow {
    fn drop(&mut self) {
        let mut pool = POOL.lock().unwrap_or_else(|e| e.into_inner());
        for OwnedInitMap { marks, .. } in self.init_maps.drain(..).flatten() {
            if pool.marks.len() >= MAX_KEPT_ARRAYS {
                pool.marks.remove(0);
            }
            if pool.marks.iter().map(|(bytes, _)| bytes.len()).sum::<usize>() + marks.0.len() <= MAX_KEPT_BYTES {
                pool.marks.push(marks);
            }
        }
        if pool.age != self.age {
            return;
        }
        pool.time = pool.time.max(self.last_time.load(Ordering::Relaxed) + 2);
        let mut kept_words: usize = pool.free.iter().map(Vec::len).sum();
        for store in self.stores.drain(..).flatten() {
            for words in store._words.into_iter().filter(|w| !w.is_empty()) {
                if kept_words + words.len() <= MAX_KEPT_WORDS {
                    kept_words += words.len();
                    pool.free.push(words);
                }
            }
        }
    }
}
