//! The memory of one group: registers, local and shared arrays, and the tables that point to them. A worker reuses one frame for
//! all groups that it runs; a cooperative launch has one frame per block.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::iter::repeat_n;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::code::{AXES, Code, MemoryKind, RegDef, Special};
use super::events::Observer;
use super::geometry::Geometry;
use super::group::{
    CHUNK, Coding, Counter, Group, LaneRanges, Line, MaskInfo, Op, Pause, PollSnapshot, Slot, Tally, WARP,
};
use super::lanes::{Isa, is_wide, lane_of_raw, mask};
use super::memory::layout::{Binding, element_columns, known, local_columns};
use super::memory::{MemoryRt, Plan};
use super::poll;
use super::profile::{Profiler, Tally as Counts};
use super::report::Report;
use super::sanitizer::{Checker, Watch};
use super::shared;
use crate::base::room;
use crate::device::Control;
use crate::ir::def::Id3;
use crate::lang::scalar::Scalar;

/// State shared by all groups of a launch.
pub(crate) struct Launch<'a> {
    pub ops: &'a [Op],
    pub code: &'a Code,
    pub geometry: &'a Geometry,
    pub bindings: Vec<Binding>,
    pub control: &'a Control,
    pub workers: usize,
    /// Shared state of the checks, for code with checks.
    pub watch: Option<Watch<'a>>,
    /// The counts of a launch in which everything is counted.
    pub counts: Option<Counts<'a>>,
    /// Blocks run in reverse order, the last one first.
    pub backward: bool,
    pub isa: Isa,
    /// How the launch gets machine code, if it may.
    pub coding: Option<&'a (dyn Coding + 'static)>,
    pub report: &'a Report,
}

// SAFETY: G3: the pointers are to buffers that the launch borrows for as long as it runs; `memory` explains the accesses of
// workers. Machine code and observers' shared state are `Sync`.
unsafe impl Sync for Launch<'_> {}

/// An allocation aligned to 64 bytes. It starts with zeros: ops read lanes that nothing has written.
struct Area {
    ptr: *mut u8,
    /// The allocation that it lies in.
    start: *mut u8,
    layout: Layout,
}

/// The alignment of an area; that of its allocation is one for which zeroed memory comes from the system where possible.
const ALIGN: usize = 64;
const START_ALIGN: usize = 16;

/// The tables of a frame. Their contents are of one launch; only their memory is used again.
#[derive(Default)]
struct Tables {
    slots: Vec<Slot>,
    homes: Vec<Slot>,
    memories: Vec<MemoryRt>,
    plans: Vec<Plan>,
    masks: Vec<MaskInfo>,
    counters: Vec<Counter>,
    tallies: Vec<Tally>,
    rooms: Vec<Vec<Line>>,
}

thread_local! {
    /// The area and the tables of the frame that this thread dropped last, for reuse by the next one: small launches would take longer
    /// to allocate them than to run.
    static SPARE: RefCell<(Option<Area>, Tables)> = RefCell::default();
}

/// The largest area that is kept for reuse.
const SPARE_BYTES: usize = 1 << 20;

impl Area {
    fn new(size: usize) -> Area {
        let spare =
            SPARE.with(|spare| spare.try_borrow_mut().ok()?.0.take_if(|area| area.layout.size() >= size + ALIGN));
        if let Some(area) = spare {
            return area;
        }
        let layout = size.checked_add(ALIGN).and_then(|size| Layout::from_size_align(size, START_ALIGN).ok());
        let Some(layout) = layout.filter(|layout| room::has(layout.size())) else { room::lacking(size) };
        // SAFETY: the size is not zero: it includes `ALIGN`.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            room::lacking(size);
        }
        let ptr = start.wrapping_add(start.addr().next_multiple_of(ALIGN) - start.addr());
        Area { ptr, start, layout }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start, self.layout) }
    }
}

pub(crate) struct Frame<'a> {
    pub group: Group,
    /// The warp splits of the block besides `group`.
    pub(super) splits: Vec<Frame<'a>>,
    pub(super) launch: &'a Launch<'a>,
    area: Option<Area>,
    /// Bytes of registers and local arrays, at the start of the area.
    own_bytes: usize,
    slots: Vec<Slot>,
    homes: Vec<Slot>,
    memories: Vec<MemoryRt>,
    plans: Vec<Plan>,
    /// Per-worker partial sums of global arrays: destination and sums.
    sums: Vec<(*mut u8, Vec<u32>)>,
    pub(super) checker: Option<Box<Checker<'a>>>,
    profiler: Option<Box<Profiler<'a>>>,
}

/// The largest array, in bytes, of which each worker may have a copy.
const SUMS: usize = 64 * 1024;

/// Bytes of padding between the columns of lanes, so that equal lanes of different registers lie in different cache sets.
const GAP: usize = 64;
/// Bytes behind all of them: machine code reads up to four vectors of a register at once.
const BEHIND: usize = 512;

impl<'a> Frame<'a> {
    /// Creates a frame; `alone`: no other frame of the launch runs at the same time.
    pub fn new(launch: &'a Launch<'a>, alone: bool) -> Frame<'a> {
        let mut frame = Frame::unheard(launch, alone);
        let lanes = CHUNK * frame.group.column_chunks;
        let checker = |watch| Box::new(Checker::new(watch, launch.code, launch.isa, lanes));
        frame.checker = launch.watch.as_ref().map(checker);
        frame.group.observer = frame.checker.as_deref_mut().map(|checker| observer(checker));
        frame.profiler = launch.counts.as_ref().map(|counts| Box::new(Profiler::new(counts)));
        if let Some(profiler) = frame.profiler.as_deref_mut() {
            frame.group.observer = Some(observer(profiler));
        }
        frame.set_launch_registers();
        frame
    }

    /// Creates a frame without a observer.
    fn unheard(launch: &'a Launch<'a>, alone: bool) -> Frame<'a> {
        let code = launch.code;
        let lanes = launch.geometry.max_lanes.next_multiple_of(CHUNK);
        let column = 4 * lanes;
        let uniform_bytes = code.uniform_bytes;
        let local: usize = code.memories.iter().map(|m| local_columns(m) * column).sum();
        let shared_bytes = shared::room(&code.memories).next_multiple_of(64);
        let registers = code.columns * (column + GAP);
        let area = Area::new(uniform_bytes + registers + local + shared_bytes + BEHIND);
        let lane_base = area.ptr.wrapping_add(uniform_bytes);
        let slot = |def: &RegDef| match *def {
            RegDef::Uniform { offset, .. } => Slot { ptr: area.ptr.wrapping_add(offset as usize), stride: 0 },
            RegDef::Lanes { column: c, wide } => Slot {
                ptr: lane_base.wrapping_add(c as usize * (column + GAP)),
                stride: if wide { 8 * CHUNK } else { 4 * CHUNK },
            },
        };
        let mut tables = SPARE
            .with(|spare| spare.try_borrow_mut().map(|mut spare| std::mem::take(&mut spare.1)))
            .unwrap_or_default();
        let Tables { slots, homes, memories, plans, masks, counters, tallies, rooms } = &mut tables;
        renew(slots, code.regs.iter().map(slot));
        renew(homes, slots.iter().copied());
        let mut local_ptr = lane_base.wrapping_add(registers);
        let (shared_ptr, mut shared_used) = (local_ptr.wrapping_add(local), 0);
        let mut sums = vec![];
        memories.resize_with(code.memories.len(), MemoryRt::nowhere);
        for (memory, def) in memories.iter_mut().zip(&code.memories) {
            match def.kind {
                MemoryKind::Global(param) => {
                    place_global(memory, &launch.bindings, param, def.layout.size);
                    memory.alone = alone;
                    if def.sums && !alone && memory.len <= SUMS {
                        keep_sums(memory, &mut sums);
                    }
                }
                MemoryKind::Local => {
                    let size = local_columns(def) * column;
                    memory.place(local_ptr, size, known(def), element_columns(def) * column);
                    memory.unit = column;
                    local_ptr = local_ptr.wrapping_add(size);
                }
                MemoryKind::Constant => {
                    // Constants are never written: the verifier rejects stores and atomic operations on them.
                    let (ptr, len) = (def.constants.as_ptr().cast_mut(), def.constants.len());
                    memory.place(ptr, len, known(def), def.layout.size);
                }
                MemoryKind::Shared => {
                    let (start, end) = shared::place(shared_used, def).unwrap_or_default();
                    shared_used = end;
                    let ptr = shared_ptr.wrapping_add(start as usize);
                    memory.place(ptr, (end - start) as usize, known(def), def.layout.size);
                }
            }
        }
        renew(plans, repeat_n(Plan::default(), code.accesses.len()));
        renew(masks, repeat_n(MaskInfo::default(), code.masks.len()));
        renew(counters, repeat_n(Counter::default(), code.loops.len()));
        renew(tallies, repeat_n(Tally::default(), code.regions.len()));
        rooms.iter_mut().for_each(Vec::clear);
        rooms.resize_with(2 * code.regions.len(), Vec::new);
        let group = Group {
            slots: slots.as_mut_ptr(),
            lo: 0,
            hi: 0,
            ranges: LaneRanges::default(),
            plans: plans.as_mut_ptr(),
            epoch: 1,
            first_lane: 0,
            last_lane: 0,
            ends_known: false,
            solid: false,
            mask: std::ptr::null(),
            full: true,
            lanes: 0,
            column_chunks: lanes / CHUNK,
            shape: [0; AXES],
            memories: memories.as_mut_ptr(),
            homes: homes.as_ptr(),
            masks: std::mem::take(masks),
            counters: std::mem::take(counters),
            ops: launch.ops.as_ptr(),
            code,
            shared: local_ptr,
            ticks: 0,
            granted: 0,
            steps: 0,
            max_steps: launch.control.max_steps,
            stop: &*launch.control.stop,
            block: [0; 3],
            first_index: [0; 3],
            stopped: None,
            printed: String::new(),
            resume: std::ptr::null(),
            pause: Pause::None,
            is_split: false,
            shares: code.cooperative || launch.backward,
            backward: launch.backward,
            part: 0,
            warps: 0,
            polled: 0,
            lonely: 0,
            looks: 0,
            worker: std::ptr::null(),
            poll_snapshot: PollSnapshot::default(),
            coding: launch.coding.map(NonNull::from),
            missed: 0,
            tallies: std::mem::take(tallies),
            rooms: std::mem::take(rooms),
            observer: None,
        };
        let Tables { slots, homes, memories, plans, .. } = tables;
        Frame {
            group,
            splits: vec![],
            launch,
            area: Some(area),
            own_bytes: uniform_bytes + registers + local,
            slots,
            homes,
            memories,
            plans,
            sums,
            checker: None,
            profiler: None,
        }
    }

    /// Clones the frame in its current state. The clone shares all but registers and local arrays with this one, and has to be
    /// dropped before it.
    pub(super) fn copy(&self) -> Frame<'a> {
        let (mut copy, g) = (Frame::unheard(self.launch, true), &self.group);
        let start = |frame: &Frame<'_>| frame.area.as_ref().map_or(std::ptr::null_mut(), |area| area.ptr);
        let (from, to) = (start(self), start(&copy));
        // SAFETY: both areas are frames of one launch, which begin with `own_bytes` bytes of registers and local arrays,
        // initialized (G1).
        unsafe { std::ptr::copy_nonoverlapping(from, to, copy.own_bytes) };
        for (k, old) in self.slots.iter().enumerate() {
            // A register that views memory keeps viewing it.
            copy.slots[k] = if old.ptr == self.homes[k].ptr { copy.homes[k] } else { *old };
        }
        for (k, def) in self.launch.code.memories.iter().enumerate() {
            if def.kind != MemoryKind::Local {
                copy.memories[k] = self.memories[k].clone();
            }
        }
        copy.group = Group {
            slots: copy.group.slots,
            plans: copy.group.plans,
            memories: copy.group.memories,
            homes: copy.group.homes,
            masks: g.masks.clone(),
            counters: g.counters.clone(),
            tallies: g.tallies.clone(),
            rooms: vec![vec![]; g.rooms.len()],
            stopped: None,
            printed: String::new(),
            ..*g
        };
        // Each frame counts its own entries.
        copy.group.tallies.fill(Tally::default());
        copy
    }

    fn set_launch_registers(&mut self) {
        let launch = self.launch;
        for &(reg, special) in &launch.code.launch {
            let (scalar, bits) = match special {
                Special::Const(scalar, bits) => (scalar, bits),
                Special::Param(p, k, scalar) => (scalar, lane_of_raw(scalar, param(&launch.bindings, p, k))),
                Special::Extent(memory, axis) => {
                    let extent = self.memories[memory as usize].axes.get(axis as usize).map_or(0, |a| a.extent);
                    (Scalar::I32, extent as u64)
                }
                Special::Id(Id3::BlockDim, axis) => (Scalar::I32, launch.geometry.block[axis as usize].into()),
                Special::Id(_, axis) => (Scalar::I32, launch.geometry.grid[axis as usize].into()),
            };
            // SAFETY: C10: registers of the launch are uniform, and as wide as their values.
            unsafe {
                if is_wide(scalar) { self.group.broadcast(reg, bits) } else { self.group.broadcast(reg, bits as u32) }
            }
        }
    }

    /// Prepares to run group `number` from its first op.
    pub fn start(&mut self, number: u64) {
        let geometry = self.launch.geometry;
        let unit = geometry.unit(number);
        let g = &mut self.group;
        self.splits.clear();
        let mut begin = self.launch.code.steady;
        if g.lanes == 0 || g.is_split || (!geometry.is_even() && unit.shape != g.shape) {
            (g.lanes, g.shape) = (unit.shape.iter().product(), unit.shape);
            mask::all_lanes(g);
            g.epoch += 1;
            begin = 0;
        }
        (g.block, g.first_index) = (unit.block, unit.first_index);
        for &(reg, special) in &self.launch.code.block {
            let value = match special {
                Special::Id(Id3::Block, axis) => unit.block[axis as usize],
                Special::Id(_, axis) => unit.first_index[axis as usize],
                _ => 0,
            };
            // SAFETY: C10: registers of the block are uniform, and have 4-byte lanes.
            unsafe { g.broadcast(reg, value) };
        }
        if let Some(checker) = &mut self.checker {
            checker.begin(number, g.lanes);
        }
        if let Some(profiler) = &mut self.profiler {
            profiler.begin(number);
        }
        g.steps = 0;
        g.grant_iterations();
        g.enter(0);
        (g.resume, g.pause) = (g.at(begin), Pause::Iteration);
        (g.is_split, g.part) = (false, 0);
        (g.warps, g.polled, g.lonely, g.looks) = (poll::warps(g.lanes), 0, 0, 0);
        g.poll_snapshot = PollSnapshot::default();
        let ends = number < poll::ENDS || number + poll::ENDS >= geometry.units;
        if self.launch.backward && self.launch.code.splits && ends && g.lanes > WARP {
            self.go_to(self.group.at(self.launch.code.body));
            self.split();
        }
    }

    /// Runs to the end, a grid barrier or a fault; a block of a cooperative launch also until it yields to other blocks.
    pub fn run(&mut self) {
        if self.splits.is_empty() {
            self.go();
            if self.group.shares && self.group.pause == Pause::Iteration {
                return;
            }
        }
        if !matches!(self.group.pause, Pause::None | Pause::Grid) || !self.splits.is_empty() {
            self.run_splits();
        }
    }

    /// Runs to the end, a pause or a fault.
    pub(super) fn go(&mut self) {
        let g = &mut self.group;
        g.pause = Pause::None;
        let mut op = std::mem::replace(&mut g.resume, std::ptr::null());
        // SAFETY: C3: what an op returns is an op of the code, or null. G6: the ops are for this machine.
        unsafe {
            while !op.is_null() {
                op = ((*op).run.call)(g, op);
            }
        }
    }

    /// Runs up to op `end`, unless something stops it before.
    fn go_to(&mut self, end: *const Op) {
        let g = &mut self.group;
        g.pause = Pause::None;
        let mut op = std::mem::replace(&mut g.resume, std::ptr::null());
        // SAFETY: C3, G6: as in [`Frame::go`].
        unsafe {
            while op != end && !op.is_null() {
                op = ((*op).run.call)(g, op);
            }
        }
        if !op.is_null() {
            (g.resume, g.pause) = (op, Pause::Iteration);
        }
    }

    /// Adds the partial sums to their destinations. To be called when the last group is done.
    pub fn add_sums(&mut self) {
        for (to, sums) in self.sums.drain(..) {
            for (k, &sum) in sums.iter().enumerate().filter(|(_, sum)| **sum != 0) {
                // SAFETY: G3: there is a sum for each word of the array, which is updated atomically, and so aligned.
                unsafe { AtomicU32::from_ptr(to.add(4 * k).cast()) }.fetch_add(sum, Ordering::Relaxed);
            }
        }
    }

    /// Returns the logical time of its checker, 0 without one.
    pub fn time(&self) -> u64 {
        self.checker.as_ref().map_or(0, |c| c.time())
    }

    /// Continues after a grid barrier, which all blocks reached at this logical time.
    pub fn grid_met(&mut self, time: u64) {
        if let Some(checker) = &mut self.checker {
            checker.grid_met(time);
        }
        self.group.pause = Pause::Iteration;
        self.splits.iter_mut().for_each(|part| part.group.pause = Pause::Iteration);
    }
}

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        self.launch.report.count_entries(&self.group.tallies);
        let Some(area) = self.area.take().filter(|area| area.layout.size() <= SPARE_BYTES) else { return };
        let group = &mut self.group;
        let tables = Tables {
            slots: std::mem::take(&mut self.slots),
            homes: std::mem::take(&mut self.homes),
            memories: std::mem::take(&mut self.memories),
            plans: std::mem::take(&mut self.plans),
            masks: std::mem::take(&mut group.masks),
            counters: std::mem::take(&mut group.counters),
            tallies: std::mem::take(&mut group.tallies),
            rooms: std::mem::take(&mut group.rooms),
        };
        // A thread that is ending has no thread-local storage left.
        let _ = SPARE.try_with(|spare| {
            let Ok(mut spare) = spare.try_borrow_mut() else { return };
            if spare.0.as_ref().is_none_or(|old| old.layout.size() < area.layout.size()) {
                spare.0 = Some(area);
            }
            spare.1 = tables;
        });
    }
}

/// Returns the checker or the profiler as the group's observer. The frame owns both, so that it outlives the group's runs.
fn observer<'a>(own: &mut (dyn Observer + 'a)) -> NonNull<dyn Observer> {
    let wide: NonNull<dyn Observer + 'a> = NonNull::from(own);
    // SAFETY: only erases the lifetime: the frame owns the observer, and with it what it borrows, longer than the group runs (G5).
    unsafe { std::mem::transmute::<NonNull<dyn Observer + 'a>, NonNull<dyn Observer + 'static>>(wide) }
}

fn param(bindings: &[Binding], p: u32, k: u8) -> u64 {
    match bindings.get(p as usize) {
        Some(Binding::Value(values)) => values.get(k as usize).map_or(0, |v| v.bits),
        _ => 0,
    }
}

fn place_global(memory: &mut MemoryRt, bindings: &[Binding], param: u32, size: usize) {
    match bindings.get(param as usize) {
        Some(Binding::Array { ptr, len, shape, .. }) => memory.place(*ptr, *len, shape.iter().copied(), size),
        _ => *memory = MemoryRt::nowhere(),
    }
}

/// Fills a table anew.
fn renew<T>(table: &mut Vec<T>, items: impl Iterator<Item = T>) {
    table.clear();
    table.extend(items);
}

/// Redirects an array that is only added to at a zeroed copy, so that workers do not contend for it.
fn keep_sums(memory: &mut MemoryRt, sums: &mut Vec<(*mut u8, Vec<u32>)>) {
    let mut copy = vec![0u32; memory.len.div_ceil(4)];
    let place = std::mem::replace(&mut memory.ptr, copy.as_mut_ptr().cast());
    memory.alone = true;
    sums.push((place, copy));
}
