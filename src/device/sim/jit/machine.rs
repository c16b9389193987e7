//! Machine code of a region, and how a group runs it.
//!
//! Input: a region and the shape of the launch's groups; then, for each entry, the group. Output: the group's registers and memory as
//! the interpreter would leave them, or as they were, if the code has left. The idea: an entry is a transaction. Where code can leave,
//! registers that it writes are copied first and stores that could be read again are logged; both are put back where it does.

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use super::ahead::{Ahead, Registers};
use super::alloc::{Allocation, MOST, Shape, allocate};
use super::division::{Division, least};
use super::emit::{Exits, emit, registers};
use super::exec::Exec;
use super::frame::{self, Layout, Words};
use super::passes;
use crate::device::sim::code::{Code, MemoryKind};
use crate::device::sim::group::{Apart, CHUNK, Group, Line, Places, Reach, Slot, Told, WARP};
use crate::device::sim::lane::{Input, REPORT_WORDS, Region, Report, Written, live};
use crate::device::sim::lanes::is_wide;
use crate::device::sim::memory::{self, Run};
use crate::device::sim::reg::Reg;
use crate::ir::def::Extent;
use crate::lang::scalar::Scalar;

/// The compiled code of a region.
#[derive(Debug)]
pub(crate) struct Machine {
    exec: Exec,
    /// Inputs that are the same in all entries of a frame, and others, with their places.
    fixed: Vec<(i32, Input)>,
    varying: Vec<(i32, Input)>,
    outputs: i32,
    /// No register may view memory, so that a full group needs no preparation but copies of what is written.
    simple: bool,
    /// Bytes of the frame, and where its copies of registers begin that are put back where the code leaves.
    frame_bytes: usize,
    writes: Vec<Written>,
    /// The code can leave, so that whatever it writes has to be kept: the interpreter's code may read registers that it does not.
    leaves: bool,
    reads: Vec<Reg>,
    memories: Vec<u32>,
    /// Those that are [put back](crate::device::sim::lane::Touched::restored) as a whole.
    restored: Vec<u32>,
    /// Those whose updates could not be undone if other workers saw them.
    undone: Vec<u32>,
    /// As in the [region](Region::owned).
    owned: Vec<(u32, bool)>,
    reports: Vec<Report>,
    /// Where the frame has the words of reports.
    words: i32,
    exits: Exits,
    /// See [`Shape`].
    column: usize,
    shape: Shape,
    /// See [`Region::whole`].
    whole: Option<[u32; 3]>,
    /// It has loops, whose iterations are counted where they are limited.
    repeats: bool,
    /// The checker hears of accesses when they happen.
    tells: bool,
    /// It has operations of warps, in batches of whole rows or of parts of one.
    warps: Option<bool>,
}

/// The longest column for which displacements are computed in 32 bits.
const LONGEST: usize = 1 << 14;

/// Compiles a region; `None` if the system forbids executable memory, columns of local arrays are too long, or batches do not divide
/// whole groups. `forced`: the code also leaves for no reason. `whole`: the code is for [whole groups](Region::whole).
pub(super) fn compile(
    region: &Region,
    code: &Code,
    division: Division,
    forced: bool,
    (whole, registers): (Option<[u32; 3]>, &OnceLock<Registers>),
) -> Option<Machine> {
    if region.has_own() && division.column > LONGEST {
        return None;
    }
    if !division.has(region) || region.together && whole.is_none() {
        return None;
    }
    let mut region = region.clone();
    let heads = passes::run(&mut region, whole, division, &mut |_, _| {})?;
    let layout = Layout::of(&region);
    let (shape, mut allocation) = fit(&region, &heads, &layout, division);
    if region.whole.is_some_and(|extents| !shape.divides(extents)) {
        return None;
    }
    let lanes = whole.map_or(0, |extents| extents.map(|n| n as usize).iter().product());
    allocation.keep(&region.kept, layout.slots, lanes);
    let leaves = forced || region.may_leave();
    let restored = if leaves { restore_shared(&mut region, code) } else { vec![] };
    let exits = Exits { logged: leaves && region.reloads(), forced };
    let ahead = Ahead::of(&region, code, registers);
    let bytes = emit(division.isa, &region, (&allocation, ahead), &layout, shape, exits);
    let exec = Exec::new(&bytes)?;
    let all = (0..).zip(&layout.inputs).map(|(number, &input)| (layout.input(number), input));
    let (fixed, varying): (Vec<_>, Vec<_>) = all.partition(|(_, input)| is_fixed(input, code));
    let viewed = varying.iter().any(|(_, input)| matches!(input, Input::Lanes(_)));
    let unhomed = region.writes.iter().any(|w| !w.uniform && code.views.contains(&w.reg));
    Some(Machine {
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
        repeats: region.repeats(),
        tells: region.tells(),
        warps: region.has_warps().then_some(shape.rows),
        column: if region.has_own() { division.column } else { 0 },
        writes: region.writes.clone(),
        shape,
        whole: region.whole,
    })
}

/// Lets a region with barriers put shared arrays back as a whole: a copy of them costs less than a log of all their stores, of which
/// there are many. Returns these arrays. Updates stay in the log: where it is full, a loop may wait for another thread.
fn restore_shared(region: &mut Region, code: &Code) -> Vec<u32> {
    region.undo_with_updates();
    let mut restored = vec![];
    for touched in region.memories.iter_mut().filter(|m| region.together && m.is_reloaded() && !m.updates) {
        let memory = &code.memories[touched.memory.index()];
        if memory.kind == MemoryKind::Shared && memory.extents.iter().all(|e| matches!(e, Extent::Known(_))) {
            touched.restored = true;
            restored.push(touched.memory.index() as u32);
        }
    }
    restored
}

/// Returns whether an input is the same whenever a frame enters the region: what the launch sets, and addresses that do not move.
fn is_fixed(input: &Input, code: &Code) -> bool {
    match input {
        Input::Uniform(reg, _) => code.launch.iter().any(|(set, _)| set == reg),
        Input::Lanes(reg) => !code.views.contains(reg),
        Input::Base(_) | Input::Extent(..) | Input::Pitch(..) | Input::Alone(_) | Input::Column => true,
        // Those of shared arrays are a block's.
        Input::Marks(m) | Input::Mark(m) => matches!(code.memories[m.index()].kind, MemoryKind::Global(_)),
        Input::First(_) | Input::Last(_) => false,
    }
}

/// The largest share of uses of values in memory for which more vectors at once pay.
const SPILLED: f32 = 0.04;

/// Chooses the number of vectors at once: as many as the registers hold.
fn fit(region: &Region, heads: &[live::Set], layout: &Layout, division: Division) -> (Shape, Allocation) {
    let (inputs, registers) = (layout.offsets(), registers(division.isa));
    let mut most = MOST;
    loop {
        let shape = division.shape(region, most);
        let allocation = allocate(region, heads, shape, &registers, &inputs, layout.slots);
        let divides = region.whole.is_none_or(|extents| shape.divides(extents));
        // Values between loops may well be in memory; what loops use may not.
        if shape.vectors <= least(region, shape.width) || divides && allocation.spilled < SPILLED {
            return (shape, allocation);
        }
        most = shape.vectors / 2;
    }
}

/// Memory for the copies and logs of this thread.
#[derive(Default)]
struct Room {
    kept: Vec<u8>,
    slots: Vec<Slot>,
    mask: Vec<u32>,
    spread: Vec<Vec<u32>>,
    log: Vec<u8>,
    /// The last of the pseudo-random numbers that forced exits follow.
    random: u64,
}

impl Room {
    /// Chooses at which of the places that it passes the code leaves: often one of the first, sometimes none.
    fn exit(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (range, at) = (self.random >> 60, self.random >> 24);
        if range < 12 { 1 + at % (1 << range) } else { u64::MAX }
    }

    /// Empties the log, and chooses where the code leaves for no reason.
    fn begin(&mut self, exits: Exits, frame: Words) {
        frame.put(frame::FORCED, if exits.forced { self.exit() } else { 0 });
        if !exits.logged {
            return;
        }
        if self.log.is_empty() {
            self.log.resize(LOG_BYTES, 0);
        }
        let start = self.log.as_mut_ptr() as u64;
        frame.put(frame::LOG, start);
        frame.put(frame::LOG_END, start + LOG_BYTES as u64);
    }

    /// Undoes the stores of the log.
    ///
    /// # Safety
    /// Code with this frame has left behind [`Room::begin`].
    unsafe fn undo_log(&self, frame: Words) {
        let records = (frame.get(frame::LOG) as usize - self.log.as_ptr() as usize) / frame::RECORD as usize;
        for record in (0..records).rev() {
            // SAFETY: R9: the log holds records of stores that have been checked, within memories of the launch.
            unsafe { frame::undo_store(self.log.as_ptr().add(record * frame::RECORD as usize)) };
        }
    }
}

thread_local! {
    static ROOM: RefCell<Room> = RefCell::default();
}

/// Bytes of stores that one entry can undo.
const LOG_BYTES: usize = 2 << 20;

/// Iterations between two looks at the stop flag.
const TICKS: u64 = 4096;

/// The largest extent and size of a memory for which offsets are computed in 32 bits, relative to the word in which it begins.
const LARGEST_EXTENT: i64 = 1 << 30;
const LARGEST: usize = (1 << 31) - 4;

extern "sysv64" fn poll(stop: *const AtomicBool) -> u32 {
    // SAFETY: G5: the flag is the launch's, which lives as long as its groups run.
    u32::from(unsafe { (*stop).load(Ordering::Relaxed) })
}

/// What [`report`] needs.
struct Entry<'a> {
    group: *mut Group,
    machine: &'a Machine,
    region: usize,
    frame: Words,
}

/// Tells the checker of the accesses of an entry; returns 0 if it has nothing to report.
extern "sysv64" fn report(entry: *const Entry<'_>) -> u32 {
    // SAFETY: the entry and its group outlive the call of the code, during which nothing else uses the group. Notes of reports are
    // the code's (C11).
    unsafe {
        let Entry { group, machine, region, frame } = &*entry;
        u32::from(!machine.report(&mut **group, *region, *frame))
    }
}

/// Tells the checker what the lanes whose bits are set are about to access, as a note of the code describes it. `lane` is four times the
/// number of the batch's first lane, `alone` 1 if the region only loads from the memory, `step` the bytes from each lane's element to the next, or -1 if lanes have offsets. Returns 0 if
/// there is nothing to report, 1 if there is nothing to report of more loads either, and else [`frame::LEAVE`].
extern "sysv64" fn touch(entry: *const Entry<'_>, active: u64, lane: u64, note: u32, step: i32, alone: u32) -> u32 {
    // SAFETY: the entry and its group outlive the call of the code, during which nothing else uses the group; the frame owns the observer
    // for as long as the group runs. R9: the elements of the active lanes have been checked; the code has put their addresses, and
    // offsets if there are some, into the frame. Notes are the code's (C11).
    unsafe {
        let Entry { group, machine, frame, .. } = &*entry;
        let group = &mut **group;
        let Some(mut observer) = group.observer else { return frame::LEAVE as u32 };
        let apart = match step {
            0.. => Apart::Step(step as usize),
            _ => Apart::Lanes(&*frame.0.add(frame::WARP as usize).cast::<[i32; 64]>()),
        };
        let places = Places {
            note,
            lane: lane as usize / 4,
            active,
            width: machine.shape.width,
            bases: frame.0.add(frame::ASKED as usize).cast::<[*mut u8; MOST]>().read(),
            apart,
            only_loads: alone != 0,
        };
        match observer.as_mut().places(group, &places) {
            Told::Clean => 0,
            Told::Settled => 1,
            Told::Doubtful => frame::LEAVE as u32,
        }
    }
}

impl Machine {
    /// Returns whether the code is for the group as it is now.
    pub fn takes(&self, g: &Group) -> bool {
        let Some(extents) = self.whole else { return true };
        let [x, y, z, _] = g.shape;
        g.full
            && (extents == [x as u32, y as u32, z as u32]
                || extents[0] == 0 && self.shape.divides([x, y, z].map(|n| n as u32)))
    }

    /// Runs the region for the active lanes of a group, as [`RegionCode::run`](crate::device::sim::group::RegionCode::run). The group keeps a frame for each `version`.
    ///
    /// # Safety
    /// The region is one of the group's code, at which the group is, and the code [takes](Machine::takes) the group.
    pub unsafe fn run(&self, g: &mut Group, region: usize, version: usize) -> bool {
        if g.max_steps != 0 && self.repeats {
            return false;
        }
        if self.warps.is_some_and(|rows| !rows && g.lanes > g.shape[0] && !g.shape[0].is_multiple_of(WARP)) {
            return false;
        }
        let room = 2 * region + version;
        if g.rooms[room].is_empty() {
            if !self.fits(g) {
                return false;
            }
            let kept: usize = self.kept(g).map(|(_, bytes)| bytes).sum();
            g.rooms[room] = vec![Line([0; 8]); (self.frame_bytes + kept).div_ceil(64)];
            let frame = Words(g.rooms[room].as_mut_ptr().cast());
            frame.put(frame::POLL, poll as *const () as u64);
            frame.put(frame::POLL_ARG, g.stop as u64);
            frame.put(frame::REPORT, report as *const () as u64);
            frame.put(frame::TOUCH, touch as *const () as u64);
            // SAFETY: C11: the caller's region is the one of the group's code that this was compiled from.
            unsafe { self.inputs(g, &self.fixed, frame) };
        }
        let frame = Words(g.rooms[room].as_mut_ptr().cast());
        // SAFETY: as above: the frame has a room for the version.
        unsafe {
            if self.simple && g.full { self.run_simply(g, region, frame) } else { self.run_with_room(g, region, frame) }
        }
    }

    /// Returns the address of the code, and the number of bytes.
    pub fn place(&self) -> (usize, usize) {
        (self.exec.entry() as usize, self.exec.len())
    }
}

impl Machine {
    /// Calls the code; whether it ran to its end.
    #[inline(always)]
    unsafe fn call(
        &self,
        g: &mut Group,
        region: usize,
        frame: Words,
        rows: (usize, usize),
        along: (usize, usize),
    ) -> bool {
        frame.put(frame::ROW, rows.0 as u64);
        frame.put(frame::ROW_END, rows.1 as u64);
        frame.put(frame::X_FIRST, along.0 as u64);
        frame.put(frame::X_END, along.1 as u64);
        frame.put(frame::NX, g.shape[0] as u64);
        frame.put(frame::NY, g.shape[1] as u64);
        frame.put(frame::TICKS, TICKS);
        if self.tells {
            (0..frame::SETTLED_WORDS / 2).for_each(|word| frame.put(frame::SETTLED + 8 * word, 0));
        }
        let entry = Entry { group: g, machine: self, region, frame };
        frame.put(frame::REPORT_ARG, &raw const entry as u64);
        // SAFETY: the code is a complete function of this type, emitted from valid LaneIR: by R1, R2 and R7 it reads what the frame
        // has, by R3 lanes that the group has, by R9 and R10 it accesses memory that has been checked. G6: it is for this machine.
        unsafe {
            let code: extern "sysv64" fn(*mut u8) -> u32 = std::mem::transmute(self.exec.entry());
            code(frame.0) == 0
        }
    }

    /// Runs code without registers that may view memory, for a full group.
    unsafe fn run_simply(&self, g: &mut Group, region: usize, frame: Words) -> bool {
        frame.put(frame::MASK, 0);
        // SAFETY: C11: the caller's region is the one of the group's code that this was compiled from.
        unsafe {
            self.inputs(g, &self.varying, frame);
            self.keep(g, frame);
            let all = ((0, g.shape[1] * g.shape[2]), (0, g.shape[0]));
            let done = match self.exits {
                Exits { logged: false, forced: false } => self.call(g, region, frame, all.0, all.1),
                exits => ROOM.with(|room| {
                    let Ok(mut room) = room.try_borrow_mut() else { return false };
                    room.begin(exits, frame);
                    let done = self.call(g, region, frame, all.0, all.1);
                    if !done && exits.logged {
                        room.undo_log(frame);
                    }
                    done
                }),
            };
            if done {
                self.outputs(g, frame);
            } else {
                self.put_back(g, frame);
            }
            done
        }
    }

    /// Returns the registers of lanes and the arrays that are put back where the code leaves: their places and sizes.
    fn kept(&self, g: &Group) -> impl Iterator<Item = (*mut u8, usize)> {
        let registers = self.writes.iter().filter(|written| self.leaves && !written.uniform);
        // SAFETY: C11: registers that the region writes and its memories exist (G4).
        let registers = registers.map(|written| (unsafe { g.slot(written.reg) }.ptr, bytes_of(g, written)));
        registers.chain(self.arrays(g))
    }

    fn arrays(&self, g: &Group) -> impl Iterator<Item = (*mut u8, usize)> {
        self.restored.iter().map(|&memory| {
            // SAFETY: as above.
            let memory = unsafe { &*g.memories.add(memory as usize) };
            (memory.ptr, memory.len)
        })
    }

    /// Copies them behind the frame.
    unsafe fn keep(&self, g: &Group, frame: Words) {
        let mut at = self.frame_bytes;
        for (from, bytes) in self.kept(g) {
            // SAFETY: C11: registers are as wide as the region says, with all chunks of a column (G1), and memories are good for their
            // bytes (G3). The frame was made with room for them.
            unsafe { std::ptr::copy_nonoverlapping(from, frame.0.add(at), bytes) };
            at += bytes;
        }
    }

    /// Puts back what [`Machine::keep`] has copied.
    unsafe fn put_back(&self, g: &Group, frame: Words) {
        let mut at = self.frame_bytes;
        for (to, bytes) in self.kept(g) {
            // SAFETY: as there.
            unsafe { std::ptr::copy_nonoverlapping(frame.0.add(at), to, bytes) };
            at += bytes;
        }
    }

    unsafe fn run_with_room(&self, g: &mut Group, region: usize, frame: Words) -> bool {
        ROOM.with(|room| match room.try_borrow_mut() {
            // SAFETY: C11: the caller's region is the one of the group's code that this was compiled from.
            Ok(mut room) => unsafe { self.run_in(g, region, frame, &mut room) },
            Err(_) => false,
        })
    }

    unsafe fn run_in(&self, g: &mut Group, region: usize, frame: Words, room: &mut Room) -> bool {
        let (rows, along) = self.range(g, room, frame);
        room.begin(self.exits, frame);
        // SAFETY: C11: the region is that of the group's code, and so are its registers.
        unsafe {
            room.slots.clear();
            room.slots.extend(self.writes.iter().map(|w| g.slot(w.reg)));
            self.take_homes(g, room);
            self.inputs(g, &self.varying, frame);
            self.views(g, &mut room.spread, frame);
            if self.call(g, region, frame, rows, along) {
                self.outputs(g, frame);
                return true;
            }
            self.undo(g, room, frame);
            false
        }
    }

    /// Tells the checker of all accesses; returns false if it might have to report one.
    unsafe fn report(&self, g: &mut Group, region: usize, frame: Words) -> bool {
        let Some(mut observer) = g.observer else { return false };
        let count = self.reports.len() * REPORT_WORDS as usize;
        // SAFETY: the words lie in the frame; the frame owns the observer for as long as the group runs, and nothing else uses it
        // meanwhile.
        unsafe {
            let words = std::slice::from_raw_parts(frame.0.add(self.words as usize).cast::<u64>(), count);
            observer.as_mut().reaches(g, region, words, &|g| self.reaches(g, frame))
        }
    }

    /// Returns all accesses that are reported.
    fn reaches(&self, g: &mut Group, frame: Words) -> Vec<Reach> {
        let mut reaches = Vec::with_capacity(self.reports.len());
        for report in &self.reports {
            let word = |k: u32| frame.get(self.words + 8 * (report.first + k) as i32) as i64;
            let mut loops = [(1, 0); 3];
            for (number, axis) in loops.iter_mut().enumerate().take(report.loops.into()) {
                *axis = (word(4 + 2 * number as u32) + 1, word(5 + 2 * number as u32) as isize);
            }
            if loops.iter().any(|axis| axis.0 <= 0) {
                continue;
            }
            let strides = [word(1), word(2), word(3), 0];
            let run = Run::of(g, word(0) as *mut u8, strides);
            let loops = loops.map(|(trips, bytes)| (trips as usize, bytes));
            reaches.push(Reach { note: report.note, run, loops });
        }
        reaches
    }

    /// Returns whether all addresses can be computed as the code computes them, what it updates can be undone, and threads only meet their own elements where the code
    /// takes that for granted.
    fn fits(&self, g: &Group) -> bool {
        if self.column != 0 && self.column != 4 * CHUNK * g.column_chunks {
            return false;
        }
        let owned = |&(memory, marked): &(u32, bool)| {
            // SAFETY: G5: the frame owns the observer, and nothing else uses it while an op runs.
            let found = g.observer.is_some_and(|observer| unsafe { observer.as_ref() }.is_owned(memory));
            found && (!marked || marks(g, memory).is_some())
        };
        // SAFETY: C11: as below.
        let alone = |&memory: &u32| unsafe { (*g.memories.add(memory as usize)).alone };
        self.owned.iter().all(owned)
            && self.undone.iter().all(alone)
            && self.memories.iter().all(|&memory| {
                // SAFETY: C11: the region's memories are the code's, and there is one for each (G4).
                let memory = unsafe { &*g.memories.add(memory as usize) };
                // An element of two bytes has to lie in one word.
                let aligned = (memory.ptr as usize).is_multiple_of(2);
                aligned && memory.len < LARGEST && memory.axes.iter().all(|axis| axis.extent < LARGEST_EXTENT)
            })
    }

    /// Determines the rows and the lanes of each row that run, and their mask.
    fn range(&self, g: &Group, room: &mut Room, frame: Words) -> ((usize, usize), (usize, usize)) {
        let nx = g.shape[0];
        let rows = g.lanes / nx.max(1);
        frame.put(frame::MASK, 0);
        if g.full {
            return ((0, rows), (0, nx));
        }
        let (first, end) = (g.lo * CHUNK, (g.hi * CHUNK).min(g.lanes));
        // With operations of warps, batches begin where warps do.
        if rows == 1 && self.warps.is_none() {
            frame.put(frame::MASK, g.mask as u64);
            return ((0, 1), (first, end));
        }
        // Outside of its chunks the mask's memory is stale.
        room.mask.clear();
        room.mask.resize(g.lanes + 4 * CHUNK * MOST, 0);
        // SAFETY: G2: the lanes are in chunks of the current mask.
        let lanes = unsafe { std::slice::from_raw_parts(g.mask.add(first), end - first) };
        room.mask[first..end].copy_from_slice(lanes);
        frame.put(frame::MASK, room.mask.as_ptr() as u64);
        if self.warps.is_some() {
            return ((0, rows), (0, nx));
        }
        ((first / nx, end.div_ceil(nx)), (0, nx))
    }

    /// Lets registers that are written lie in memory of their own, and copies what has to be put back where the code leaves.
    unsafe fn take_homes(&self, g: &mut Group, room: &mut Room) {
        room.kept.clear();
        // SAFETY: C11: registers that the region writes exist and are as wide as it says, with a home each (G4) that has all chunks
        // of a column (G1); its memories are good for their bytes (G3).
        unsafe {
            for written in self.writes.iter().filter(|w| !w.uniform) {
                let (slot, home) = (g.slot(written.reg), *g.homes.add(written.reg as usize));
                if slot.ptr != home.ptr && self.reads.contains(&written.reg) {
                    copy_view(g, slot, home.ptr);
                }
                if self.leaves {
                    room.kept.extend_from_slice(std::slice::from_raw_parts(home.ptr, bytes_of(g, written)));
                }
                *g.slots.add(written.reg as usize) = home;
            }
            for (from, bytes) in self.arrays(g) {
                room.kept.extend_from_slice(std::slice::from_raw_parts(from, bytes));
            }
        }
    }

    /// Writes these inputs to the frame.
    #[inline(always)]
    unsafe fn inputs(&self, g: &mut Group, inputs: &[(i32, Input)], frame: Words) {
        for &(offset, input) in inputs {
            // SAFETY: C11: uniform registers are as wide as their scalars; registers and memories exist, and axes are among those
            // of the memory (G4).
            let value = unsafe {
                match input {
                    Input::Uniform(reg, scalar) if is_wide(scalar) => g.first::<u64>(reg),
                    Input::Uniform(reg, Scalar::Bool) => u64::from(g.first::<u32>(reg) & 1),
                    Input::Uniform(reg, _) => g.first::<u32>(reg).into(),
                    Input::Lanes(reg) => g.slot(reg).ptr as u64,
                    Input::Base(memory) => (*g.memories.add(memory.index())).ptr as u64,
                    Input::Extent(memory, axis) => {
                        (&(*g.memories.add(memory.index())).axes)[axis as usize].extent as u64
                    }
                    Input::Pitch(memory, axis) => (&(*g.memories.add(memory.index())).axes)[axis as usize].pitch as u64,
                    Input::Alone(memory) => (*g.memories.add(memory.index())).alone.into(),
                    Input::Column => 4 * (CHUNK * g.column_chunks) as u64,
                    Input::Marks(memory) => marks(g, memory.index() as u32).map_or(0, |(bytes, _)| bytes as u64),
                    Input::Mark(memory) => marks(g, memory.index() as u32).map_or(0, |(_, mark)| mark.into()),
                    Input::First(axis) | Input::Last(axis) => {
                        g.find_ends();
                        let (first, count, _) = memory::active_box(g);
                        let last = matches!(input, Input::Last(_)) as usize * (count[axis as usize] - 1);
                        (first[axis as usize] + last) as u64
                    }
                }
            };
            frame.put(offset, value);
        }
    }

    /// Copies registers that view memory: their chunks may lie apart, and nothing may lie behind them.
    unsafe fn views(&self, g: &Group, spread: &mut Vec<Vec<u32>>, frame: Words) {
        spread.clear();
        for &(offset, input) in &self.varying {
            let Input::Lanes(reg) = input else { continue };
            // SAFETY: C11: registers that the region reads exist, with a home each (G4).
            unsafe {
                let (slot, home) = (g.slot(reg), *g.homes.add(reg as usize));
                if slot.ptr != home.ptr {
                    let mut lanes = vec![0u32; CHUNK * (g.column_chunks + MOST)];
                    copy_view(g, slot, lanes.as_mut_ptr().cast());
                    frame.put(offset, lanes.as_ptr() as u64);
                    spread.push(lanes);
                }
            }
        }
    }

    /// Writes uniform results to their registers.
    #[inline(always)]
    unsafe fn outputs(&self, g: &mut Group, frame: Words) {
        for (number, written) in self.writes.iter().filter(|w| w.uniform).enumerate() {
            // SAFETY: C11: the registers are uniform, and as wide as their scalars.
            unsafe {
                let value = frame.get(self.outputs + 8 * number as i32);
                match written.scalar {
                    scalar if is_wide(scalar) => g.broadcast(written.reg, value),
                    Scalar::Bool => g.broadcast(written.reg, if value as u32 & 1 != 0 { !0u32 } else { 0 }),
                    _ => g.broadcast(written.reg, value as u32),
                }
            }
        }
    }

    /// Puts back what the code has changed.
    unsafe fn undo(&self, g: &mut Group, room: &Room, frame: Words) {
        // SAFETY: R9: the log holds records of stores that have been checked, within memories of the launch. C11: registers and
        // their homes exist, and `kept` has what `take_homes` put there, in the same order.
        unsafe {
            if self.exits.logged {
                room.undo_log(frame);
            }
            let mut kept = room.kept.as_ptr();
            for (written, slot) in self.writes.iter().zip(&room.slots) {
                if self.leaves && !written.uniform {
                    let home = *g.homes.add(written.reg as usize);
                    std::ptr::copy_nonoverlapping(kept, home.ptr, bytes_of(g, written));
                    kept = kept.add(bytes_of(g, written));
                }
                *g.slots.add(written.reg as usize) = *slot;
            }
            for (to, bytes) in self.arrays(g) {
                std::ptr::copy_nonoverlapping(kept, to, bytes);
                kept = kept.add(bytes);
            }
        }
    }
}

/// Returns the marks of a memory's written elements, and their value.
fn marks(g: &Group, memory: u32) -> Option<(*mut u8, u8)> {
    // SAFETY: G5: the frame owns the observer, and nothing else uses it while an op runs. C11, G4: the code has the memory.
    unsafe { g.observer?.as_mut().marks(memory, (*g.memories.add(memory as usize)).len) }
}

/// Returns the size of a register of lanes.
fn bytes_of(g: &Group, register: &Written) -> usize {
    4 * CHUNK * g.column_chunks * if is_wide(register.scalar) { 2 } else { 1 }
}

/// Copies the active chunks of a register that views memory, where they may lie apart, and behind which there may be nothing.
unsafe fn copy_view(g: &Group, slot: Slot, to: *mut u8) {
    for chunk in g.lo..g.hi {
        // SAFETY: G1: a view has the chunks of the mask, of 4-byte lanes (C6); `to` has room for all chunks.
        unsafe { std::ptr::copy(slot.ptr.wrapping_add(chunk * slot.stride), to.add(4 * CHUNK * chunk), 4 * CHUNK) };
    }
}
