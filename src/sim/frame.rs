//! The memory of one running group: registers, local and shared arrays, and the tables that point to them. A worker
//! reuses one frame for all groups that it runs; a cooperative launch has one frame per block, because all its blocks
//! run concurrently.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::cell::RefCell;
use std::iter::repeat_n;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::code::{AXES, KernelTables, MemoryKind, RegDef, Special};
use super::current_mask::{CurrentMask, MaskInfo};
use super::events::GroupObserver;
use super::geometry::GroupGeometry;
use super::group::{
    CacheLine, ForLoopState, GroupPosition, GroupRegions, GroupResults, GroupShape, Op, Pause, PauseState,
    PollingProgress, RegionCodeSource, RegionCounts, ThreadGroup, WARP, WarpSplitState,
};
use super::group_registers::{CHUNK, GroupRegisters, Slot};
use super::lanes::{is_wide, lane_of_raw, mask};
use super::memory::layout::{BoundParam, element_columns, known_extents, local_columns};
use super::memory::{AddressPlan, AddressPlans, MemoryRt};
use super::polling;
use super::profile::{LaunchProfiler as Counts, WorkerProfiler};
use super::sanitizer::{SharedCheckState, WorkerChecker};
use super::shared_memory;
use super::statistics::SimStatistics;
use super::step_budget::StepBudget;
use clk_base::alloc;
use clk_ir::def::BuiltinIndex;
use clk_runtime::Control;
use clk_runtime::Isa;
use clk_scalar::Scalar;

/// State shared by all groups of a launch.
pub(crate) struct SimLaunch<'a> {
    pub ops: &'a [Op],
    pub code: &'a KernelTables,
    pub geometry: &'a GroupGeometry,
    pub bindings: Vec<BoundParam>,
    pub control: &'a Control,
    pub workers: usize,
    /// Shared state of the sanitizer, for code with checks.
    pub checks: Option<SharedCheckState<'a>>,
    /// Cost counters, for a profiled launch.
    pub counts: Option<Counts<'a>>,
    /// Set if blocks run in reverse order, the last block first.
    pub reverse_order: bool,
    pub isa: Isa,
    /// The source of machine code, if the launch may use it.
    pub region_code: Option<&'a (dyn RegionCodeSource + 'static)>,
    pub report: &'a SimStatistics,
}

// SAFETY: G3: the launch borrows the buffers that the pointers refer to while it runs; `memory` explains how workers
// access them. Machine code and the observers' shared state are `Sync`.
unsafe impl Sync for SimLaunch<'_> {}

/// An allocation for registers and arrays, aligned to 64 bytes. It is zeroed because ops may read lanes that no op has
/// written.
struct Area {
    ptr: *mut u8,
    /// The start of the allocation that contains the area.
    start: *mut u8,
    layout: Layout,
}

/// Alignment of an area, and of its allocation. The alignment of the allocation is small, so that the allocator can
/// take zeroed pages from the operating system.
const ALIGN: usize = 64;
const START_ALIGN: usize = 16;

/// The tables of a frame. Later launches reuse only the memory of the tables, not their contents.
#[derive(Default)]
struct Tables {
    slots: Vec<Slot>,
    homes: Vec<Slot>,
    memories: Vec<MemoryRt>,
    plans: Vec<AddressPlan>,
    masks: Vec<MaskInfo>,
    counters: Vec<ForLoopState>,
    tallies: Vec<RegionCounts>,
    rooms: Vec<Vec<CacheLine>>,
}

thread_local! {
    /// The area and tables of the last frame that this thread dropped, for the next frame. Allocating them takes longer
    /// than a small launch.
    static SPARE: RefCell<(Option<Area>, Tables)> = RefCell::default();
}

/// Maximum size in bytes of an area that is kept for reuse.
const SPARE_BYTES: usize = 1 << 20;

impl Area {
    fn new(size: usize) -> Area {
        let cached =
            SPARE.with(|cached| cached.try_borrow_mut().ok()?.0.take_if(|area| area.layout.size() >= size + ALIGN));
        if let Some(area) = cached {
            return area;
        }
        let layout = size.checked_add(ALIGN).and_then(|size| Layout::from_size_align(size, START_ALIGN).ok());
        let Some(layout) = layout.filter(|layout| alloc::is_available(layout.size())) else { alloc::fail(size) };
        // SAFETY: the size is at least `ALIGN`, so it is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            alloc::fail(size);
        }
        let ptr = start.wrapping_add(start.addr().next_multiple_of(ALIGN) - start.addr());
        Area { ptr, start, layout }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: `start` was allocated with this layout.
        unsafe { dealloc(self.start, self.layout) }
    }
}

pub(crate) struct GroupFrame<'a> {
    pub group: ThreadGroup,
    /// The warp splits of the block other than `group`.
    pub(super) splits: Vec<GroupFrame<'a>>,
    pub(super) launch: &'a SimLaunch<'a>,
    area: Option<Area>,
    /// Size in bytes of registers and local arrays, which are at the start of the area.
    own_bytes: usize,
    slots: Vec<Slot>,
    homes: Vec<Slot>,
    memories: Vec<MemoryRt>,
    plans: Vec<AddressPlan>,
    /// Private copies of global arrays that the kernel only adds to: the address of the array, and the partial sums of
    /// this frame's groups.
    sums: Vec<(*mut u8, Vec<u32>)>,
    pub(super) checker: Option<Box<WorkerChecker<'a>>>,
    profiler: Option<Box<WorkerProfiler<'a>>>,
}

/// Maximum size in bytes of an array for which each worker accumulates private partial sums.
const MAX_PRIVATE_SUMS: usize = 64 * 1024;

/// Padding in bytes between lane columns, so that one lane of different registers is in different cache sets.
const COLUMN_PADDING: usize = 64;
/// Padding in bytes after all registers: machine code reads up to four vectors of a register at once.
const TAIL_PADDING: usize = 512;

impl<'a> GroupFrame<'a> {
    /// Creates a frame. `alone` is true if no other frame of the launch runs at the same time.
    pub fn new(launch: &'a SimLaunch<'a>, alone: bool) -> GroupFrame<'a> {
        let mut frame = GroupFrame::without_observer(launch, alone);
        let lanes = CHUNK * frame.group.shape.column_chunks;
        let checker = |watch| Box::new(WorkerChecker::new(watch, launch.code, launch.isa, lanes));
        frame.checker = launch.checks.as_ref().map(checker);
        frame.group.observer = frame.checker.as_deref_mut().map(|checker| observer(checker));
        frame.profiler = launch.counts.as_ref().map(|counts| Box::new(WorkerProfiler::new(counts)));
        if let Some(profiler) = frame.profiler.as_deref_mut() {
            frame.group.observer = Some(observer(profiler));
        }
        frame.set_launch_registers();
        frame
    }

    /// Creates a frame without an observer.
    fn without_observer(launch: &'a SimLaunch<'a>, alone: bool) -> GroupFrame<'a> {
        let code = launch.code;
        let lanes = launch.geometry.max_lanes.next_multiple_of(CHUNK);
        let column = 4 * lanes;
        let uniform_bytes = code.registers.uniform_bytes;
        let local: usize = code.memories.iter().map(|m| local_columns(m) * column).sum();
        let shared_bytes = shared_memory::shared_bytes(&code.memories).next_multiple_of(64);
        let registers = code.registers.columns * (column + COLUMN_PADDING);
        let area = Area::new(uniform_bytes + registers + local + shared_bytes + TAIL_PADDING);
        let lane_base = area.ptr.wrapping_add(uniform_bytes);
        let slot = |def: &RegDef| match *def {
            RegDef::Uniform { offset, .. } => Slot { ptr: area.ptr.wrapping_add(offset as usize), stride: 0 },
            RegDef::Lanes { column: c, wide } => Slot {
                ptr: lane_base.wrapping_add(c as usize * (column + COLUMN_PADDING)),
                stride: if wide { 8 * CHUNK } else { 4 * CHUNK },
            },
        };
        let mut tables = SPARE
            .with(|cached| cached.try_borrow_mut().map(|mut cached| std::mem::take(&mut cached.1)))
            .unwrap_or_default();
        let Tables { slots, homes, memories, plans, masks, counters, tallies, rooms } = &mut tables;
        refill(slots, code.registers.defs.iter().map(slot));
        refill(homes, slots.iter().copied());
        let mut local_ptr = lane_base.wrapping_add(registers);
        let (shared_ptr, mut shared_used) = (local_ptr.wrapping_add(local), 0);
        let mut sums = vec![];
        memories.resize_with(code.memories.len(), MemoryRt::unplaced);
        for (memory, def) in memories.iter_mut().zip(&code.memories) {
            match def.kind {
                MemoryKind::Global(param) => {
                    locate_global(memory, &launch.bindings, param, def.layout.size);
                    memory.is_unshared = alone;
                    if def.only_summed && !alone && memory.len <= MAX_PRIVATE_SUMS {
                        use_private_sums(memory, &mut sums);
                    }
                }
                MemoryKind::Local => {
                    let size = local_columns(def) * column;
                    memory.set_location(local_ptr, size, known_extents(def), element_columns(def) * column);
                    memory.offset_unit = column;
                    local_ptr = local_ptr.wrapping_add(size);
                }
                MemoryKind::Constant => {
                    // Constants are never written: the verifier rejects stores and atomic operations on them.
                    let (ptr, len) = (def.constants.as_ptr().cast_mut(), def.constants.len());
                    memory.set_location(ptr, len, known_extents(def), def.layout.size);
                }
                MemoryKind::Shared => {
                    let (start, end) = shared_memory::array_range(shared_used, def).unwrap_or_default();
                    shared_used = end;
                    let ptr = shared_ptr.wrapping_add(start as usize);
                    memory.set_location(ptr, (end - start) as usize, known_extents(def), def.layout.size);
                }
            }
        }
        refill(plans, repeat_n(AddressPlan::default(), code.accesses.len()));
        refill(masks, repeat_n(MaskInfo::default(), code.registers.masks.len()));
        refill(counters, repeat_n(ForLoopState::default(), code.loops.len()));
        refill(tallies, repeat_n(RegionCounts::default(), code.regions.len()));
        rooms.iter_mut().for_each(Vec::clear);
        rooms.resize_with(2 * code.regions.len(), Vec::new);
        let group = ThreadGroup {
            registers: GroupRegisters { slots: slots.as_mut_ptr(), homes: homes.as_ptr() },
            mask: CurrentMask::unset(),
            shape: GroupShape { extents: [0; AXES], lanes: 0, column_chunks: lanes / CHUNK },
            plans: AddressPlans { table: plans.as_mut_ptr(), epoch: 1 },
            memories: memories.as_mut_ptr(),
            ops: launch.ops.as_ptr(),
            code,
            budget: StepBudget::new(launch.control.max_steps, &*launch.control.stop),
            masks: std::mem::take(masks),
            counters: std::mem::take(counters),
            observer: None,
            regions: GroupRegions {
                source: launch.region_code.map(NonNull::from),
                missed_lookups: 0,
                counts: std::mem::take(tallies),
                buffers: std::mem::take(rooms),
            },
            shared: local_ptr,
            position: GroupPosition::default(),
            results: GroupResults::default(),
            pause: PauseState { reason: Pause::None, next: std::ptr::null() },
            split: WarpSplitState { is_split: false, number: 0, warps: 0 },
            polling: PollingProgress::new(std::ptr::null()),
            yields_to_blocks: code.properties.cooperative || launch.reverse_order,
            reverse_order: launch.reverse_order,
        };
        let Tables { slots, homes, memories, plans, .. } = tables;
        GroupFrame {
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

    /// Clones the frame in its current state. The clone has separate registers and local arrays. It shares everything
    /// else with the original, so it must be dropped before the original.
    pub(super) fn clone_frame(&self) -> GroupFrame<'a> {
        let (mut copy, g) = (GroupFrame::without_observer(self.launch, true), &self.group);
        let start = |frame: &GroupFrame<'_>| frame.area.as_ref().map_or(std::ptr::null_mut(), |area| area.ptr);
        let (from, to) = (start(self), start(&copy));
        // SAFETY: both areas belong to frames of one launch. They start with `own_bytes` initialized bytes of registers
        // and local arrays (G1).
        unsafe { std::ptr::copy_nonoverlapping(from, to, copy.own_bytes) };
        for (k, old) in self.slots.iter().enumerate() {
            // If the register is a view of memory, the clone's register views the same memory.
            copy.slots[k] = if old.ptr == self.homes[k].ptr { copy.homes[k] } else { *old };
        }
        for (k, def) in self.launch.code.memories.iter().enumerate() {
            if def.kind != MemoryKind::Local {
                copy.memories[k] = self.memories[k].clone();
            }
        }
        copy.group = ThreadGroup {
            registers: copy.group.registers,
            plans: AddressPlans { table: copy.group.plans.table, ..g.plans },
            memories: copy.group.memories,
            masks: g.masks.clone(),
            counters: g.counters.clone(),
            regions: GroupRegions {
                // Each frame counts only the region entries of its own group.
                counts: vec![RegionCounts::default(); g.regions.counts.len()],
                buffers: vec![vec![]; g.regions.buffers.len()],
                ..g.regions
            },
            results: GroupResults::default(),
            ..*g
        };
        copy
    }

    fn set_launch_registers(&mut self) {
        let launch = self.launch;
        for &(reg, special) in &launch.code.registers.launch {
            let (scalar, bits) = match special {
                Special::Const(scalar, bits) => (scalar, bits),
                Special::Param(p, k, scalar) => (scalar, lane_of_raw(scalar, param_bits(&launch.bindings, p, k))),
                Special::Extent(memory, axis) => {
                    let extent = self.memories[memory as usize].axes.get(axis as usize).map_or(0, |a| a.extent);
                    (Scalar::I32, extent as u64)
                }
                Special::Id(BuiltinIndex::BlockDim, axis) => (Scalar::I32, launch.geometry.block[axis as usize].into()),
                Special::Id(_, axis) => (Scalar::I32, launch.geometry.grid[axis as usize].into()),
            };
            // SAFETY: C10: registers that are set per launch are uniform, and as wide as their values.
            unsafe {
                if is_wide(scalar) {
                    self.group.registers.broadcast(reg, bits)
                } else {
                    self.group.registers.broadcast(reg, bits as u32)
                }
            }
        }
    }

    /// Prepares to run group `number` from its first op.
    pub fn start(&mut self, number: u64) {
        let geometry = self.launch.geometry;
        let unit = geometry.group(number);
        let g = &mut self.group;
        self.splits.clear();
        let mut begin = self.launch.code.block_invariant_end;
        if g.shape.lanes == 0 || g.split.is_split || (!geometry.has_equal_groups() && unit.extents != g.shape.extents) {
            (g.shape.lanes, g.shape.extents) = (unit.extents.iter().product(), unit.extents);
            mask::all_lanes(g);
            g.plans.invalidate();
            begin = 0;
        }
        g.position = unit.position;
        for &(reg, special) in &self.launch.code.registers.block {
            let value = match special {
                Special::Id(BuiltinIndex::Block, axis) => g.position.block[axis as usize],
                Special::Id(_, axis) => g.position.first_index[axis as usize],
                _ => 0,
            };
            // SAFETY: C10: registers that are set per block are uniform and have 4-byte lanes.
            unsafe { g.registers.broadcast(reg, value) };
        }
        if let Some(checker) = &mut self.checker {
            checker.begin_group(number, g.shape.lanes);
        }
        if let Some(profiler) = &mut self.profiler {
            profiler.begin(number);
        }
        g.budget.restart();
        g.set_mask(0);
        g.pause = PauseState { reason: Pause::Iteration, next: g.op_at(begin) };
        g.split = WarpSplitState { is_split: false, number: 0, warps: polling::all_warps(g.shape.lanes) };
        g.polling = PollingProgress::new(g.polling.worker);
        let ends = number < polling::SPLIT_BLOCKS_AT_ENDS || number + polling::SPLIT_BLOCKS_AT_ENDS >= geometry.groups;
        if self.launch.reverse_order && self.launch.code.properties.can_split_warps && ends && g.shape.lanes > WARP {
            self.run_until(self.group.op_at(self.launch.code.body));
            self.split_into_warps();
        }
    }

    /// Runs the group until it ends, waits at a grid barrier, or has a fault. A block that runs concurrently with other
    /// blocks also returns when it yields to them.
    pub fn run(&mut self) {
        if self.splits.is_empty() {
            self.run_until_pause();
            if self.group.yields_to_blocks && self.group.pause.reason == Pause::Iteration {
                return;
            }
        }
        if !matches!(self.group.pause.reason, Pause::None | Pause::Grid) || !self.splits.is_empty() {
            self.run_splits();
        }
    }

    /// Runs the group until it ends, pauses or has a fault.
    pub(super) fn run_until_pause(&mut self) {
        let g = &mut self.group;
        let mut op = g.pause.resume();
        // SAFETY: C3: an op returns an op of the code, or null. G6: the machine can run the ops.
        unsafe {
            while !op.is_null() {
                op = ((*op).run.call)(g, op);
            }
        }
    }

    /// Runs the group up to op `end`, unless it pauses or has a fault before that.
    fn run_until(&mut self, end: *const Op) {
        let g = &mut self.group;
        let mut op = g.pause.resume();
        // SAFETY: C3, G6: as in [`GroupFrame::run_until_pause`].
        unsafe {
            while op != end && !op.is_null() {
                op = ((*op).run.call)(g, op);
            }
        }
        if !op.is_null() {
            g.pause = PauseState { reason: Pause::Iteration, next: op };
        }
    }

    /// Adds the private partial sums to their global arrays. Called when the frame's last group is done.
    pub fn add_sums(&mut self) {
        for (to, sums) in self.sums.drain(..) {
            for (k, &sum) in sums.iter().enumerate().filter(|(_, sum)| **sum != 0) {
                // SAFETY: G3: there is a sum for each 4-byte element of the array. The elements are aligned, because
                // the kernel updates them atomically.
                unsafe { AtomicU32::from_ptr(to.add(4 * k).cast()) }.fetch_add(sum, Ordering::Relaxed);
            }
        }
    }

    /// Returns the logical time of the frame's checker; 0 without a checker.
    pub fn time(&self) -> u64 {
        self.checker.as_ref().map_or(0, |c| c.time())
    }

    /// Continues after a grid barrier that all blocks reached at this logical time.
    pub fn resume_after_grid_barrier(&mut self, time: u64) {
        if let Some(checker) = &mut self.checker {
            checker.on_grid_barrier(time);
        }
        self.group.pause.reason = Pause::Iteration;
        self.splits.iter_mut().for_each(|part| part.group.pause.reason = Pause::Iteration);
    }
}

impl Drop for GroupFrame<'_> {
    fn drop(&mut self) {
        self.launch.report.count_entries(&self.group.regions.counts);
        let Some(area) = self.area.take().filter(|area| area.layout.size() <= SPARE_BYTES) else { return };
        let group = &mut self.group;
        let tables = Tables {
            slots: std::mem::take(&mut self.slots),
            homes: std::mem::take(&mut self.homes),
            memories: std::mem::take(&mut self.memories),
            plans: std::mem::take(&mut self.plans),
            masks: std::mem::take(&mut group.masks),
            counters: std::mem::take(&mut group.counters),
            tallies: std::mem::take(&mut group.regions.counts),
            rooms: std::mem::take(&mut group.regions.buffers),
        };
        // Ignore the error if the thread is ending and its thread-local storage has been destroyed.
        let _ = SPARE.try_with(|cached| {
            let Ok(mut cached) = cached.try_borrow_mut() else { return };
            if cached.0.as_ref().is_none_or(|old| old.layout.size() < area.layout.size()) {
                cached.0 = Some(area);
            }
            cached.1 = tables;
        });
    }
}

/// Returns the checker or the profiler as the group's observer. The frame owns both, so they outlive the group's runs.
fn observer<'a>(own: &mut (dyn GroupObserver + 'a)) -> NonNull<dyn GroupObserver> {
    let wide: NonNull<dyn GroupObserver + 'a> = NonNull::from(own);
    // SAFETY: only erases the lifetime: the frame owns the observer, and what the observer borrows outlives the group's
    // runs (G5).
    unsafe { std::mem::transmute::<NonNull<dyn GroupObserver + 'a>, NonNull<dyn GroupObserver + 'static>>(wide) }
}

fn param_bits(bindings: &[BoundParam], p: u32, k: u8) -> u64 {
    match bindings.get(p as usize) {
        Some(BoundParam::Value(values)) => values.get(k as usize).map_or(0, |v| v.bits),
        _ => 0,
    }
}

fn locate_global(memory: &mut MemoryRt, bindings: &[BoundParam], param: u32, size: usize) {
    match bindings.get(param as usize) {
        Some(BoundParam::Array { ptr, len, shape, .. }) => memory.set_location(*ptr, *len, shape.iter().copied(), size),
        _ => *memory = MemoryRt::unplaced(),
    }
}

/// Replaces the contents of a table.
fn refill<T>(table: &mut Vec<T>, items: impl Iterator<Item = T>) {
    table.clear();
    table.extend(items);
}

/// Redirects an array to a zeroed private copy, so that workers do not contend for the array. Its only accesses are
/// additions whose results are unused.
fn use_private_sums(memory: &mut MemoryRt, sums: &mut Vec<(*mut u8, Vec<u32>)>) {
    let mut copy = vec![0u32; memory.len.div_ceil(4)];
    let place = std::mem::replace(&mut memory.ptr, copy.as_mut_ptr().cast());
    memory.is_unshared = true;
    sums.push((place, copy));
}
