//! The machine code of a region, and how a group runs it.
//!
//! Input: a region, the shape of the launch's groups, and each group that enters the region. Output: registers and
//! memory as the interpreter would leave them, or unchanged after a side exit. Main idea: an entry is a transaction. If
//! the code may take a side exit, the registers that it writes are saved first, and stores that the interpreter could
//! read are logged. A side exit restores both.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::batching::{VectorDivision, min_vectors};
use super::block_prefetch::{PrefetchDistances, RegisterDeltas};
use super::emit::{ExitOptions, emit, registers};
use super::executable_memory::ExecutableMemory;
use super::frame::{self, FrameLayout, FrameWords};
use super::passes;
use super::register_allocation::{BatchShape, MAX_VECTORS, RegisterAllocation, allocate};
use crate::code::{KernelTables, MemoryDef, MemoryKind};
use crate::current_mask::CurrentMask;
use crate::group::{AccessFacts, CacheLine, GroupShape, LaneAddresses, LaneOffsets, RegionAccess, ThreadGroup, WARP};
use crate::group_registers::{CHUNK, GroupRegisters, Slot};
use crate::lanes::is_wide;
use crate::lir::{HoistedReport, LaneRegion, REPORT_WORDS, RegionInput, WrittenRegister, liveness};
use crate::memory::{self, AddressRun};
use crate::register_ids::Reg;
use clk_ir::def::Extent;
use clk_scalar::Scalar;

/// A compiled region: its machine code, and the data that entering it requires.
#[derive(Debug)]
pub(crate) struct CompiledRegion {
    exec: ExecutableMemory,
    /// Inputs and their offsets in the frame. `fixed` inputs are written when a frame is created, `varying` inputs at
    /// each entry.
    fixed: Vec<(i32, RegionInput)>,
    varying: Vec<(i32, RegionInput)>,
    outputs: i32,
    /// Whether no register of the region can be a view of memory. A full group then needs no preparation except saving
    /// the written registers.
    simple: bool,
    /// Size of the frame in bytes. The saved registers follow it.
    frame_bytes: usize,
    writes: Vec<WrittenRegister>,
    /// Whether the code may take a side exit, so everything that it writes must be saved. This includes registers that
    /// the code does not read, because the interpreter may read them.
    leaves: bool,
    reads: Vec<Reg>,
    memories: Vec<u32>,
    /// Memories that a side exit [restores](crate::lir::RegionMemory::restored) entirely.
    restored: Vec<u32>,
    /// Memories that the code updates atomically and may have to undo. No other worker may access them, because it
    /// could have seen the updates.
    undone: Vec<u32>,
    /// See [`LaneRegion::owned`].
    owned: Vec<(u32, bool)>,
    reports: Vec<HoistedReport>,
    /// Offset of the words of the hoisted reports in the frame, in bytes.
    words: i32,
    exits: ExitOptions,
    /// Size in bytes of a local array's column; see [`BatchShape::column`].
    column: usize,
    shape: BatchShape,
    /// The extents of the full groups that the code is for; see [`LaneRegion::full_group`].
    full_group: Option<[u32; 3]>,
    /// Whether the region has loops. The code does not count iterations, so it does not run if they are limited
    /// (`--max-steps`).
    has_loops: bool,
    /// Whether the code reports accesses to the sanitizer as they happen.
    reports_accesses: bool,
    /// `Some` if the region has warp operations. The value is true if each vector of a batch is a whole row.
    warps: Option<bool>,
}

/// The largest column size in bytes for which displacements fit in 32 bits.
const MAX_COLUMN_BYTES: usize = 1 << 14;

/// Compiles a region. Returns `None` if the system forbids executable memory, columns of local arrays are too long, or
/// batches do not divide full groups evenly. `forced`: for tests, the code also takes side exits although no check
/// fails. `full_group`: the extents of [full groups](LaneRegion::full_group) if the code is only for these.
pub(super) fn compile(
    region: &LaneRegion,
    code: &KernelTables,
    division: VectorDivision,
    forced: bool,
    full_group: Option<[u32; 3]>,
    registers: &OnceLock<RegisterDeltas>,
) -> Option<CompiledRegion> {
    if region.has_local_arrays() && division.column > MAX_COLUMN_BYTES {
        return None;
    }
    if !division.can_compile(region) || region.has_barriers && full_group.is_none() {
        return None;
    }
    let mut region = region.clone();
    let heads = passes::run(&mut region, full_group, division, &mut |_, _| {})?;
    let layout = FrameLayout::of(&region);
    let (shape, mut allocation) = choose_shape(&region, &heads, &layout, division);
    if region.full_group.is_some_and(|extents| !shape.divides(extents)) {
        return None;
    }
    let lanes = full_group.map_or(0, |extents| extents.map(|n| n as usize).iter().product());
    allocation.add_phase_slots(&region.phase_slots, layout.slots, lanes);
    let leaves = forced || region.may_exit();
    let restored = if leaves { restore_shared(&mut region, &code.memories) } else { vec![] };
    let exits = ExitOptions { logged: leaves && region.needs_store_log(), forced };
    let prefetch = PrefetchDistances::of(&region, code, registers);
    let bytes = emit(division.isa, &region, &allocation, prefetch, &layout, shape, exits);
    let exec = ExecutableMemory::new(&bytes)?;
    let all = (0..).zip(&layout.inputs).map(|(number, &input)| (layout.input(number), input));
    let (fixed, varying): (Vec<_>, Vec<_>) = all.partition(|(_, input)| is_fixed(input, code));
    let viewed = varying.iter().any(|(_, input)| matches!(input, RegionInput::LaneRegister(_)));
    let unhomed = region.writes.iter().any(|w| !w.uniform && code.registers.views.contains(&w.reg));
    Some(CompiledRegion {
        exec,
        frame_bytes: ((layout.slots + allocation.slot_bytes) as usize).next_multiple_of(64),
        simple: !viewed && !unhomed,
        outputs: layout.outputs,
        fixed,
        varying,
        leaves,
        reads: region.reads.clone(),
        memories: region.memories.iter().map(|m| m.memory.index() as u32).collect(),
        restored,
        undone: region.memories.iter().filter(|m| m.updates && leaves).map(|m| m.memory.index() as u32).collect(),
        owned: region.owned.iter().map(|&(memory, marked)| (memory.index() as u32, marked)).collect(),
        reports: region.reports.clone(),
        words: layout.words,
        exits,
        has_loops: region.has_loops(),
        reports_accesses: region.reports_accesses(),
        warps: region.has_warp_ops().then_some(shape.rows),
        column: if region.has_local_arrays() { division.column } else { 0 },
        writes: region.writes.clone(),
        shape,
        full_group: region.full_group,
    })
}

/// For a region with barriers, marks the shared arrays that a side exit restores from a copy, and returns them. Copying
/// an array costs less than logging its many stores. Atomic updates are still logged, because a spin loop must exit
/// when the log is full.
fn restore_shared(region: &mut LaneRegion, memories: &[MemoryDef]) -> Vec<u32> {
    region.restore_stores_if_atomic();
    let mut restored = vec![];
    for touched in region.memories.iter_mut().filter(|m| region.has_barriers && m.is_reloaded() && !m.updates) {
        let memory = &memories[touched.memory.index()];
        if memory.kind == MemoryKind::Shared && memory.extents.iter().all(|e| matches!(e, Extent::Known(_))) {
            touched.restored = true;
            restored.push(touched.memory.index() as u32);
        }
    }
    restored
}

/// Returns whether an input is the same at all entries with the same frame. This holds for values that the launch sets
/// and for fixed addresses.
fn is_fixed(input: &RegionInput, code: &KernelTables) -> bool {
    match input {
        RegionInput::Uniform(reg, _) => code.registers.launch.iter().any(|(set, _)| set == reg),
        RegionInput::LaneRegister(reg) => !code.registers.views.contains(reg),
        RegionInput::BaseAddress(_)
        | RegionInput::Extent(..)
        | RegionInput::Pitch(..)
        | RegionInput::Exclusive(_)
        | RegionInput::ColumnBytes => true,
        // Each block has its own initialization bytes for shared arrays, so their address varies.
        RegionInput::InitBytes(m) | RegionInput::InitValue(m) => {
            matches!(code.memories[m.index()].kind, MemoryKind::Global(_))
        }
        RegionInput::FirstCoord(_) | RegionInput::LastCoord(_) => false,
    }
}

/// The fraction of uses that access spilled values up to which a larger batch is still faster.
const MAX_SPILLED_SHARE: f32 = 0.04;

/// Chooses the number of vectors per batch: the largest number for which nearly all values fit in registers.
fn choose_shape(
    region: &LaneRegion,
    heads: &[liveness::ValueSet],
    layout: &FrameLayout,
    division: VectorDivision,
) -> (BatchShape, RegisterAllocation) {
    let (inputs, registers) = (layout.offsets(), registers(division.isa));
    let mut most = MAX_VECTORS;
    loop {
        let shape = division.shape(region, most);
        let allocation = allocate(region, heads, shape, &registers, &inputs, layout.slots);
        let divides = region.full_group.is_none_or(|extents| shape.divides(extents));
        // Values that are live across loops may be spilled, but values used in loops should not be.
        if shape.vectors <= min_vectors(region, shape.width) || divides && allocation.spilled < MAX_SPILLED_SHARE {
            return (shape, allocation);
        }
        most = shape.vectors / 2;
    }
}

/// Buffers for saved registers and logs. Each worker thread has one set.
#[derive(Default)]
struct MachineScratch {
    saved: Vec<u8>,
    slots: Vec<Slot>,
    mask: Vec<u32>,
    spread: Vec<Vec<u32>>,
    log: Vec<u8>,
    /// State of the pseudo-random generator for forced exits.
    random: u64,
}

impl MachineScratch {
    /// Chooses how many possible exits the code passes before it takes a forced exit: often few, and sometimes it never
    /// takes one.
    fn exit(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (range, at) = (self.random >> 60, self.random >> 24);
        if range < 12 { 1 + at % (1 << range) } else { u64::MAX }
    }

    /// Clears the log, and chooses when the code takes a forced exit.
    fn begin(&mut self, exits: ExitOptions, frame: FrameWords) {
        frame.write_word(frame::FORCED_EXIT, if exits.forced { self.exit() } else { 0 });
        if !exits.logged {
            return;
        }
        if self.log.is_empty() {
            self.log.resize(LOG_BYTES, 0);
        }
        let start = self.log.as_mut_ptr() as u64;
        frame.write_word(frame::LOG, start);
        frame.write_word(frame::LOG_END, start + LOG_BYTES as u64);
    }

    /// Undoes the logged stores.
    ///
    /// # Safety
    /// Code with this frame has exited after [`MachineScratch::begin`].
    unsafe fn undo_log(&self, frame: FrameWords) {
        let records = (frame.read_word(frame::LOG) as usize - self.log.as_ptr() as usize) / frame::RECORD as usize;
        for record in (0..records).rev() {
            // SAFETY: R9: the log holds records of stores that have been checked, within memories of the launch.
            unsafe { frame::undo_store(self.log.as_ptr().add(record * frame::RECORD as usize)) };
        }
    }
}

thread_local! {
    static SCRATCH: RefCell<MachineScratch> = RefCell::default();
}

/// Size of the undo log in bytes.
const LOG_BYTES: usize = 2 << 20;

/// Number of loop iterations between two polls of the stop flag.
const TICKS: u64 = 4096;

/// Limits for the extents of a memory and for its size in bytes. Below them, byte offsets from the first word fit in 32
/// bits.
const MAX_EXTENT: i64 = 1 << 30;
const MAX_MEMORY_BYTES: usize = (1 << 31) - 4;

extern "sysv64" fn poll(stop: *const AtomicBool) -> u32 {
    // SAFETY: G5: the flag belongs to the launch and outlives its groups.
    u32::from(unsafe { (*stop).load(Ordering::Relaxed) })
}

/// The argument of [`report`] and [`touch`].
struct ReportContext<'a> {
    group: *mut ThreadGroup,
    machine: &'a CompiledRegion,
    region: usize,
    frame: FrameWords,
}

/// Submits the hoisted reports of an entry to the sanitizer. Returns 0 if no access can be a fault.
extern "sysv64" fn report(entry: *const ReportContext<'_>) -> u32 {
    // SAFETY: the context and its group outlive the call of the code, and nothing else uses the group during the call.
    // The notes of reports belong to the code (C11).
    unsafe {
        let ReportContext { group, machine, region, frame } = &*entry;
        u32::from(!machine.report(&mut **group, *region, *frame))
    }
}

/// Reports the elements that active lanes are about to access to the sanitizer. `active` has a bit for each active
/// lane, `lane` is four times the number of the batch's first lane, and `note` describes the access. `alone` is 1 if
/// the region only loads from the memory. `step` is the byte stride between lanes, or -1 if each lane has its own
/// offset. Returns 0 if the access is not a fault, 1 if in addition no further load from the memory in this region can
/// be a fault, and otherwise [`frame::EXIT_RESULT`].
extern "sysv64" fn touch(
    entry: *const ReportContext<'_>,
    active: u64,
    lane: u64,
    note: u32,
    step: i32,
    alone: u32,
) -> u32 {
    // SAFETY: the context and its group outlive the call of the code, and nothing else uses the group during the call.
    // The frame owns the observer while the group runs. R9: the elements of the active lanes have been checked. The
    // code has stored their addresses, and their offsets if there are any, in the frame. Notes belong to the code
    // (C11).
    unsafe {
        let ReportContext { group, machine, frame, .. } = &*entry;
        let group = &mut **group;
        let Some(mut observer) = group.observer else { return frame::EXIT_RESULT as u32 };
        let lane_offsets = match step {
            0.. => LaneOffsets::Step(step as usize),
            _ => LaneOffsets::Lanes(&*frame.0.add(frame::WARP as usize).cast::<[i32; 64]>()),
        };
        let places = LaneAddresses {
            site: note,
            lane: lane as usize / 4,
            active,
            width: machine.shape.width,
            bases: frame.0.add(frame::SOURCE_LANES as usize).cast::<[*mut u8; MAX_VECTORS]>().read(),
            offsets: lane_offsets,
            only_loads: alone != 0,
        };
        match observer.as_mut().check_batch(group, &places) {
            AccessFacts::Clean => 0,
            AccessFacts::AllLoadsClean => 1,
            AccessFacts::Unknown => frame::EXIT_RESULT as u32,
        }
    }
}

impl CompiledRegion {
    /// Returns whether the code supports the group in its current state.
    pub fn accepts(&self, g: &ThreadGroup) -> bool {
        let Some(extents) = self.full_group else { return true };
        let [x, y, z, _] = g.shape.extents;
        g.mask.full
            && (extents == [x as u32, y as u32, z as u32]
                || extents[0] == 0 && self.shape.divides([x, y, z].map(|n| n as u32)))
    }

    /// Runs the region for the active lanes of a group, like
    /// [`RegionCode::run`](crate::group::RegionCode::run). The group has a frame for each `version`.
    ///
    /// # Safety
    /// The region belongs to the group's code, the group is at the region, and the code
    /// [accepts](CompiledRegion::accepts) the group.
    pub unsafe fn run(&self, g: &mut ThreadGroup, region: usize, version: usize) -> bool {
        if g.budget.max_steps != 0 && self.has_loops {
            return false;
        }
        if self
            .warps
            .is_some_and(|rows| !rows && g.shape.lanes > g.shape.extents[0] && !g.shape.extents[0].is_multiple_of(WARP))
        {
            return false;
        }
        let slot_index = 2 * region + version;
        if g.regions.buffers[slot_index].is_empty() {
            if !self.can_enter(g) {
                return false;
            }
            let saved_bytes: usize = self.saved_areas(g).map(|(_, bytes)| bytes).sum();
            g.regions.buffers[slot_index] = vec![CacheLine([0; 8]); (self.frame_bytes + saved_bytes).div_ceil(64)];
            let frame = FrameWords(g.regions.buffers[slot_index].as_mut_ptr().cast());
            frame.write_word(frame::POLL, poll as *const () as u64);
            frame.write_word(frame::POLL_ARG, g.budget.stop as u64);
            frame.write_word(frame::REPORT, report as *const () as u64);
            frame.write_word(frame::REPORT_ACCESS, touch as *const () as u64);
            // SAFETY: C11: the caller's region is the one of the group's code that this was compiled from.
            unsafe { self.inputs(g, &self.fixed, frame) };
        }
        let frame = FrameWords(g.regions.buffers[slot_index].as_mut_ptr().cast());
        // SAFETY: as above: the group has a frame for the version.
        unsafe {
            if self.simple && g.mask.full {
                self.run_full_group(g, region, frame)
            } else {
                self.run_with_scratch(g, region, frame)
            }
        }
    }

    /// Returns the address of the code and its size in bytes.
    pub fn place(&self) -> (usize, usize) {
        (self.exec.entry() as usize, self.exec.len())
    }
}

impl CompiledRegion {
    /// Calls the code, and returns whether it ran to its end.
    #[inline(always)]
    unsafe fn call(
        &self,
        g: &mut ThreadGroup,
        region: usize,
        frame: FrameWords,
        rows: (usize, usize),
        along: (usize, usize),
    ) -> bool {
        frame.write_word(frame::ROW, rows.0 as u64);
        frame.write_word(frame::ROW_END, rows.1 as u64);
        frame.write_word(frame::X_FIRST, along.0 as u64);
        frame.write_word(frame::X_END, along.1 as u64);
        frame.write_word(frame::NX, g.shape.extents[0] as u64);
        frame.write_word(frame::NY, g.shape.extents[1] as u64);
        frame.write_word(frame::TICKS, TICKS);
        if self.reports_accesses {
            (0..frame::CHECKED_MEMORY_WORDS / 2)
                .for_each(|word| frame.write_word(frame::CHECKED_MEMORIES + 8 * word, 0));
        }
        let entry = ReportContext { group: g, machine: self, region, frame };
        frame.write_word(frame::REPORT_ARG, &raw const entry as u64);
        // SAFETY: the code is a complete function of this type, emitted from valid LaneIR. By R1, R2 and R7, it only
        // reads what the frame contains. By R3, it only reads lanes that the group has. By R9 and R10, it only accesses
        // checked memory. G6: it is for this machine.
        unsafe {
            let code: extern "sysv64" fn(*mut u8) -> u32 = std::mem::transmute(self.exec.entry());
            code(frame.0) == 0
        }
    }

    /// Runs the code for a full group if no register can be a view of memory ([`CompiledRegion::simple`]).
    unsafe fn run_full_group(&self, g: &mut ThreadGroup, region: usize, frame: FrameWords) -> bool {
        frame.write_word(frame::MASK, 0);
        // SAFETY: C11: the caller's region is the one of the group's code that this was compiled from.
        unsafe {
            self.inputs(g, &self.varying, frame);
            self.save_state(g, frame);
            let all = ((0, g.shape.extents[1] * g.shape.extents[2]), (0, g.shape.extents[0]));
            let done = match self.exits {
                ExitOptions { logged: false, forced: false } => self.call(g, region, frame, all.0, all.1),
                exits => SCRATCH.with(|scratch| {
                    let Ok(mut scratch) = scratch.try_borrow_mut() else { return false };
                    scratch.begin(exits, frame);
                    let done = self.call(g, region, frame, all.0, all.1);
                    if !done && exits.logged {
                        scratch.undo_log(frame);
                    }
                    done
                }),
            };
            if done {
                self.outputs(&g.registers, frame);
            } else {
                self.restore_state(g, frame);
            }
            done
        }
    }

    /// Returns the addresses and sizes of the lane registers and arrays that a side exit restores.
    fn saved_areas(&self, g: &ThreadGroup) -> impl Iterator<Item = (*mut u8, usize)> {
        let registers = self.writes.iter().filter(|written| self.leaves && !written.uniform);
        // SAFETY: C11: registers that the region writes and its memories exist (G4).
        let registers =
            registers.map(|written| (unsafe { g.registers.slot(written.reg) }.ptr, bytes_of(&g.shape, written)));
        registers.chain(self.arrays(g))
    }

    fn arrays(&self, g: &ThreadGroup) -> impl Iterator<Item = (*mut u8, usize)> {
        self.restored.iter().map(|&memory| {
            // SAFETY: as above.
            let memory = unsafe { &*g.memories.add(memory as usize) };
            (memory.ptr, memory.len)
        })
    }

    /// Saves the registers and arrays that a side exit restores, in the space after the frame.
    unsafe fn save_state(&self, g: &ThreadGroup, frame: FrameWords) {
        let mut at = self.frame_bytes;
        for (from, bytes) in self.saved_areas(g) {
            // SAFETY: C11: registers have the size that the region declares, with all chunks of a column (G1). Memories
            // are valid for their size (G3). The frame has space for all of them.
            unsafe { std::ptr::copy_nonoverlapping(from, frame.0.add(at), bytes) };
            at += bytes;
        }
    }

    /// Restores the memory that [`CompiledRegion::save_state`] has saved.
    unsafe fn restore_state(&self, g: &ThreadGroup, frame: FrameWords) {
        let mut at = self.frame_bytes;
        for (to, bytes) in self.saved_areas(g) {
            // SAFETY: as in `save_state`.
            unsafe { std::ptr::copy_nonoverlapping(frame.0.add(at), to, bytes) };
            at += bytes;
        }
    }

    unsafe fn run_with_scratch(&self, g: &mut ThreadGroup, region: usize, frame: FrameWords) -> bool {
        SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
            // SAFETY: C11: the caller's region is the one of the group's code that this was compiled from.
            Ok(mut scratch) => unsafe { self.run_in(g, region, frame, &mut scratch) },
            Err(_) => false,
        })
    }

    unsafe fn run_in(
        &self,
        g: &mut ThreadGroup,
        region: usize,
        frame: FrameWords,
        scratch: &mut MachineScratch,
    ) -> bool {
        let (rows, along) = self.range(g, scratch, frame);
        scratch.begin(self.exits, frame);
        // SAFETY: C11: the region and its registers belong to the group's code.
        unsafe {
            scratch.slots.clear();
            scratch.slots.extend(self.writes.iter().map(|w| g.registers.slot(w.reg)));
            self.detach_views(g, scratch);
            self.inputs(g, &self.varying, frame);
            self.views(g, &mut scratch.spread, frame);
            if self.call(g, region, frame, rows, along) {
                self.outputs(&g.registers, frame);
                return true;
            }
            self.undo(g, scratch, frame);
            false
        }
    }

    /// Submits all hoisted reports to the sanitizer. Returns false if one of the accesses might be a fault.
    unsafe fn report(&self, g: &mut ThreadGroup, region: usize, frame: FrameWords) -> bool {
        let Some(mut observer) = g.observer else { return false };
        let count = self.reports.len() * REPORT_WORDS as usize;
        // SAFETY: the words are in the frame. The frame owns the observer while the group runs, and nothing else uses
        // it during this call.
        unsafe {
            let words = std::slice::from_raw_parts(frame.0.add(self.words as usize).cast::<u64>(), count);
            observer.as_mut().check_region_accesses(g, region, words, &|g| self.reaches(g, frame))
        }
    }

    /// Decodes the words of the hoisted reports in the frame.
    fn reaches(&self, g: &mut ThreadGroup, frame: FrameWords) -> Vec<RegionAccess> {
        let mut reaches = Vec::with_capacity(self.reports.len());
        for report in &self.reports {
            let word = |k: u32| frame.read_word(self.words + 8 * (report.first + k) as i32) as i64;
            let mut loops = [(1, 0); 3];
            for (number, axis) in loops.iter_mut().enumerate().take(report.loops.into()) {
                *axis = (word(4 + 2 * number as u32) + 1, word(5 + 2 * number as u32) as isize);
            }
            if loops.iter().any(|axis| axis.0 <= 0) {
                continue;
            }
            let strides = [word(1), word(2), word(3), 0];
            let run = AddressRun::for_active_lanes(&g.shape, &mut g.mask, word(0) as *mut u8, strides);
            let loops = loops.map(|(trips, bytes)| (trips as usize, bytes));
            reaches.push(RegionAccess { site: report.note, run, loops });
        }
        reaches
    }

    /// Returns whether the group satisfies the code's assumptions: address computations do not overflow, atomic updates
    /// can be undone, and each element of the memories in `owned` belongs to one thread.
    fn can_enter(&self, g: &ThreadGroup) -> bool {
        if self.column != 0 && self.column != 4 * CHUNK * g.shape.column_chunks {
            return false;
        }
        let owned = |&(memory, marked): &(u32, bool)| {
            // SAFETY: G5: the frame owns the observer, and nothing else uses it while an op runs.
            let is_owned = g.observer.is_some_and(|observer| unsafe { observer.as_ref() }.is_race_free(memory));
            is_owned && (!marked || marks(g, memory).is_some())
        };
        // SAFETY: C11: as below.
        let is_exclusive = |&memory: &u32| unsafe { (*g.memories.add(memory as usize)).is_unshared };
        self.owned.iter().all(owned)
            && self.undone.iter().all(is_exclusive)
            && self.memories.iter().all(|&memory| {
                // SAFETY: C11: the region's memories belong to the code, and each one exists (G4).
                let memory = unsafe { &*g.memories.add(memory as usize) };
                // A 2-byte element must not cross a 4-byte boundary, because the code gathers it with the aligned 4
                // bytes around it.
                let aligned = (memory.ptr as usize).is_multiple_of(2);
                aligned && memory.len < MAX_MEMORY_BYTES && memory.axes.iter().all(|axis| axis.extent < MAX_EXTENT)
            })
    }

    /// Returns the range of rows and the range of lanes in each row to run, and writes the address of the mask of
    /// active lanes to the frame.
    fn range(
        &self,
        g: &ThreadGroup,
        scratch: &mut MachineScratch,
        frame: FrameWords,
    ) -> ((usize, usize), (usize, usize)) {
        let nx = g.shape.extents[0];
        let rows = g.shape.lanes / nx.max(1);
        frame.write_word(frame::MASK, 0);
        if g.mask.full {
            return ((0, rows), (0, nx));
        }
        let (first, end) = (g.mask.lo * CHUNK, (g.mask.hi * CHUNK).min(g.shape.lanes));
        // With warp operations, batches must start at warp boundaries, so the range cannot start at the first active
        // lane.
        if rows == 1 && self.warps.is_none() {
            frame.write_word(frame::MASK, g.mask.lanes as u64);
            return ((0, 1), (first, end));
        }
        // The group's mask is valid only within the chunks of active lanes, so copy these into a zeroed buffer.
        scratch.mask.clear();
        scratch.mask.resize(g.shape.lanes + 4 * CHUNK * MAX_VECTORS, 0);
        // SAFETY: G2: the lanes are in chunks of the current mask.
        let lanes = unsafe { std::slice::from_raw_parts(g.mask.lanes.add(first), end - first) };
        scratch.mask[first..end].copy_from_slice(lanes);
        frame.write_word(frame::MASK, scratch.mask.as_ptr() as u64);
        if self.warps.is_some() {
            return ((0, rows), (0, nx));
        }
        ((first / nx, end.div_ceil(nx)), (0, nx))
    }

    /// Gives each written register that is a view of memory its own storage again, and saves the registers and arrays
    /// that a side exit restores.
    unsafe fn detach_views(&self, g: &mut ThreadGroup, scratch: &mut MachineScratch) {
        scratch.saved.clear();
        // SAFETY: C11: registers that the region writes exist and have the declared size. Each one has a home (G4) with
        // all chunks of a column (G1). Memories are valid for their size (G3).
        unsafe {
            for written in self.writes.iter().filter(|w| !w.uniform) {
                let (slot, home) = (g.registers.slot(written.reg), g.registers.home(written.reg));
                if slot.ptr != home.ptr && self.reads.contains(&written.reg) {
                    copy_view(&g.mask, slot, home.ptr);
                }
                if self.leaves {
                    scratch.saved.extend_from_slice(std::slice::from_raw_parts(home.ptr, bytes_of(&g.shape, written)));
                }
                g.registers.set_slot(written.reg, home);
            }
            for (from, bytes) in self.arrays(g) {
                scratch.saved.extend_from_slice(std::slice::from_raw_parts(from, bytes));
            }
        }
    }

    /// Writes the values of these inputs to the frame.
    #[inline(always)]
    unsafe fn inputs(&self, g: &mut ThreadGroup, inputs: &[(i32, RegionInput)], frame: FrameWords) {
        for &(offset, input) in inputs {
            // SAFETY: C11: uniform registers have the size of their scalars. Registers and memories exist, and axes are
            // axes of the memory (G4).
            let value = unsafe {
                match input {
                    RegionInput::Uniform(reg, scalar) if is_wide(scalar) => g.registers.first::<u64>(reg),
                    RegionInput::Uniform(reg, Scalar::Bool) => u64::from(g.registers.first::<u32>(reg) & 1),
                    RegionInput::Uniform(reg, _) => g.registers.first::<u32>(reg).into(),
                    RegionInput::LaneRegister(reg) => g.registers.slot(reg).ptr as u64,
                    RegionInput::BaseAddress(memory) => (*g.memories.add(memory.index())).ptr as u64,
                    RegionInput::Extent(memory, axis) => {
                        (&(*g.memories.add(memory.index())).axes)[axis as usize].extent as u64
                    }
                    RegionInput::Pitch(memory, axis) => {
                        (&(*g.memories.add(memory.index())).axes)[axis as usize].pitch as u64
                    }
                    RegionInput::Exclusive(memory) => (*g.memories.add(memory.index())).is_unshared.into(),
                    RegionInput::ColumnBytes => 4 * (CHUNK * g.shape.column_chunks) as u64,
                    RegionInput::InitBytes(memory) => {
                        marks(g, memory.index() as u32).map_or(0, |(bytes, _)| bytes as u64)
                    }
                    RegionInput::InitValue(memory) => {
                        marks(g, memory.index() as u32).map_or(0, |(_, mark)| mark.into())
                    }
                    RegionInput::FirstCoord(axis) | RegionInput::LastCoord(axis) => {
                        g.mask.find_ends();
                        let (first, count, _) = memory::active_box(&g.shape, &g.mask);
                        let last = matches!(input, RegionInput::LastCoord(_)) as usize * (count[axis as usize] - 1);
                        (first[axis as usize] + last) as u64
                    }
                }
            };
            frame.write_word(offset, value);
        }
    }

    /// Copies registers that are views of memory into buffers. Code needs contiguous chunks and reads up to a whole
    /// vector, but a view may have gaps between chunks and end at the end of its memory.
    unsafe fn views(&self, g: &ThreadGroup, spread: &mut Vec<Vec<u32>>, frame: FrameWords) {
        spread.clear();
        for &(offset, input) in &self.varying {
            let RegionInput::LaneRegister(reg) = input else { continue };
            // SAFETY: C11: registers that the region reads exist, and each one has a home (G4).
            unsafe {
                let (slot, home) = (g.registers.slot(reg), g.registers.home(reg));
                if slot.ptr != home.ptr {
                    let mut lanes = vec![0u32; CHUNK * (g.shape.column_chunks + MAX_VECTORS)];
                    copy_view(&g.mask, slot, lanes.as_mut_ptr().cast());
                    frame.write_word(offset, lanes.as_ptr() as u64);
                    spread.push(lanes);
                }
            }
        }
    }

    /// Writes the uniform results of the code to their registers.
    #[inline(always)]
    unsafe fn outputs(&self, registers: &GroupRegisters, frame: FrameWords) {
        for (number, written) in self.writes.iter().filter(|w| w.uniform).enumerate() {
            // SAFETY: C11: the registers are uniform and have the size of their scalars.
            unsafe {
                let value = frame.read_word(self.outputs + 8 * number as i32);
                match written.scalar {
                    scalar if is_wide(scalar) => registers.broadcast(written.reg, value),
                    Scalar::Bool => registers.broadcast(written.reg, if value as u32 & 1 != 0 { !0u32 } else { 0 }),
                    _ => registers.broadcast(written.reg, value as u32),
                }
            }
        }
    }

    /// Undoes all changes of registers and memory that the code has made.
    unsafe fn undo(&self, g: &mut ThreadGroup, scratch: &MachineScratch, frame: FrameWords) {
        // SAFETY: R9: the log has records of checked stores, within memories of the launch. C11: registers and their
        // homes exist. `saved` contains what `detach_views` stored there, in the same order.
        unsafe {
            if self.exits.logged {
                scratch.undo_log(frame);
            }
            let mut saved = scratch.saved.as_ptr();
            for (written, slot) in self.writes.iter().zip(&scratch.slots) {
                if self.leaves && !written.uniform {
                    let home = g.registers.home(written.reg);
                    std::ptr::copy_nonoverlapping(saved, home.ptr, bytes_of(&g.shape, written));
                    saved = saved.add(bytes_of(&g.shape, written));
                }
                g.registers.set_slot(written.reg, *slot);
            }
            for (to, bytes) in self.arrays(g) {
                std::ptr::copy_nonoverlapping(saved, to, bytes);
                saved = saved.add(bytes);
            }
        }
    }
}

/// Returns the initialization bytes of a memory, and the value that means "written".
fn marks(g: &ThreadGroup, memory: u32) -> Option<(*mut u8, u8)> {
    // SAFETY: G5: the frame owns the observer, and nothing else uses it while an op runs. By C11 and G4,
    // `memory` is the index of a memory of this kernel.
    unsafe { g.observer?.as_mut().init_marks(memory, (*g.memories.add(memory as usize)).len) }
}

/// Returns the size of a lane register in bytes.
fn bytes_of(shape: &GroupShape, register: &WrittenRegister) -> usize {
    4 * CHUNK * shape.column_chunks * if is_wide(register.scalar) { 2 } else { 1 }
}

/// Copies the active chunks of a register that is a view of memory to contiguous memory.
unsafe fn copy_view(mask: &CurrentMask, slot: Slot, to: *mut u8) {
    for chunk in mask.chunks() {
        // SAFETY: G1: a view has the chunks of the mask, with 4-byte lanes (C6). `to` has space for all chunks.
        unsafe { std::ptr::copy(slot.ptr.wrapping_add(chunk * slot.stride), to.add(4 * CHUNK * chunk), 4 * CHUNK) };
    }
}
