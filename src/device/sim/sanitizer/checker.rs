//! The state of the checker of one worker.

use super::clock::Clock;
use super::event::Finding;
use super::shadow::{Planes, Store, Written};
use super::watch::Watch;
use super::{exact, local, locks, order, quick, split, trace};
use crate::base::room;
use crate::device::Fault;
use crate::device::sim::code::{Code, MemoryKind, Watched};
use crate::device::sim::group::Group;
use crate::device::sim::lanes::Isa;

/// The checker of one worker, which follows one group at a time.
pub(crate) struct Checker<'a> {
    pub(super) watch: &'a Watch<'a>,
    pub(super) code: &'a Code,
    pub(super) isa: Isa,
    pub(super) shared: Clock,
    pub(super) global: Clock,
    /// By memory: shadow words of shared arrays, which grow as blocks need them.
    pub(super) stores: Vec<Option<Store>>,
    /// By memory: which elements of shared arrays without races have been written, and the mark of the current block.
    marks: Vec<Vec<u8>>,
    mark: u8,
    /// By memory: the patterns of accesses to shared arrays.
    pub(super) quick: Vec<quick::Quick>,
    /// By region: the accesses of the last entry into its machine code.
    pub(super) plans: Vec<super::plan::Plan>,
    pub(super) locals: local::Locals,
    pub(super) splits: split::Splits,
    /// Exact checking: every access individually.
    pub(super) careful: bool,
    pub(super) order: order::Own,
    /// By memory: traces of shared arrays; and the synchronization variables among their elements.
    pub(super) traces: Vec<Option<Box<trace::Trace>>>,
    pub(super) variables: order::Variables,
    pub(super) held: locks::Held,
    pub(super) left: exact::Left,
    pub(super) polls: split::Polls,
    pub(super) finding: Option<Finding>,
    pub(super) number: u64,
    /// By access: what the worst warp paid for it.
    pub(super) crowds: Vec<Option<Fault>>,
}

impl<'a> Checker<'a> {
    pub fn new(watch: &'a Watch<'a>, code: &'a Code, isa: Isa, lanes: usize) -> Self {
        Checker {
            watch,
            code,
            isa,
            shared: Clock::of_shared(),
            global: Clock::of_global(watch.globals.start),
            stores: code.memories.iter().map(|_| None).collect(),
            marks: code.memories.iter().map(|_| vec![]).collect(),
            mark: 0,
            quick: code.memories.iter().map(|_| quick::Quick::default()).collect(),
            plans: vec![],
            locals: local::Locals::new(code, lanes),
            splits: split::Splits::new(lanes),
            careful: watch.exact.is_some(),
            order: order::Own::default(),
            traces: code.memories.iter().map(|_| None).collect(),
            variables: order::Variables::default(),
            held: locks::Held::default(),
            left: exact::Left::default(),
            polls: split::Polls::default(),
            finding: None,
            number: 0,
            crowds: vec![],
        }
    }

    /// Starts group `number` with this many threads.
    pub fn begin(&mut self, number: u64, lanes: usize) {
        self.number = number;
        if self.careful {
            self.order.begin(number, lanes);
            self.variables.clear();
            self.held.begin(lanes);
        }
        self.shared.begin_shared();
        self.global.begin_global(number, self.watch.globals.start);
        if self.mark == u8::MAX {
            self.marks.iter_mut().for_each(|marks| marks.fill(0));
        }
        self.mark = self.mark % u8::MAX + 1;
        self.locals.begin();
        self.splits.begin();
        self.polls = split::Polls::default();
    }

    /// Handles a grid barrier, at this time.
    pub fn grid_met(&mut self, time: u64) {
        self.shared.block_met();
        self.global.grid_met(time);
        if self.careful {
            self.order.grid_met(time);
            self.variables.clear();
        }
    }

    /// Returns the time of global memory.
    pub fn time(&self) -> u64 {
        if self.careful { self.order.time } else { self.global.time }
    }

    /// Returns the marks of a memory of this size whose elements have them in place of words.
    #[inline]
    pub(super) fn written(&mut self, memory: usize, size: usize) -> Option<Written> {
        if let MemoryKind::Global(_) = self.code.memories[memory].kind {
            return self.watch.globals.written(memory);
        }
        let watched = self.code.watched[memory].as_ref().filter(|watched| watched.apart)?;
        let (marks, len) = (&mut self.marks[memory], size / watched.unit.max(1));
        if marks.len() < len {
            marks.resize(len, 0);
        }
        Some(Written { bytes: marks.as_mut_ptr(), len, mark: self.mark })
    }

    /// Returns the shadow planes of a memory, and whether it is global.
    pub(super) fn planes(&mut self, g: &Group, memory: usize, watched: &Watched) -> (Planes, bool) {
        if let MemoryKind::Global(_) = self.code.memories[memory].kind {
            return (self.watch.globals.planes(memory).unwrap_or(Planes::NONE), true);
        }
        if self.careful || watched.apart {
            return (Planes::NONE, false);
        }
        // SAFETY: G4: there is one for each memory of the code.
        let bytes = unsafe { (*g.memories.add(memory)).len };
        let len = bytes / watched.unit.max(1);
        let store = &mut self.stores[memory];
        if store.as_ref().is_none_or(|s| s.planes.len < len) {
            // A smaller plane only has words of earlier blocks: the size of a shared array is fixed within a block.
            *store = Some(Store::new(watched, len, room::zeros));
        }
        (store.as_ref().map_or(Planes::NONE, |s| s.planes), false)
    }
}

impl Drop for Checker<'_> {
    fn drop(&mut self) {
        self.watch.globals.last.fetch_max(self.global.time, std::sync::atomic::Ordering::Relaxed);
        self.watch.count(&mut self.crowds);
        if self.quick.iter().any(|quick| quick.doubtful) {
            self.watch.doubtful.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

impl Checker<'_> {
    /// Writes patterns of shared arrays to shadow words.
    pub(super) fn write_out(&mut self) {
        for (number, quick) in self.quick.iter_mut().enumerate() {
            let now = self.shared.now(0);
            if let (true, Some(store)) = (quick.holds(&now), &self.stores[number]) {
                // SAFETY: the store is that of the memory.
                unsafe { quick.write_out(&store.planes, &now, self.isa, self.code.warp_ops) };
            }
        }
    }

    /// Records the block's time, if it is the largest so far: blocks restart their times.
    pub(super) fn seen(&mut self) {
        if self.global.ends() {
            self.watch.globals.rewrite(self.global.renew());
        }
        if self.global.time > self.watch.globals.last.load(std::sync::atomic::Ordering::Relaxed) {
            self.watch.globals.last.fetch_max(self.global.time, std::sync::atomic::Ordering::Relaxed);
        }
    }
}
