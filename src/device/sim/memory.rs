//! Loads, and the address computation of all accesses.
//!
//! The indices of an access select the method: **uniform** ones read a single element for all lanes, **affine** ones copy rows
//! after one bounds check for the whole group, others **gather** lane by lane.
//!
//! # Races
//! A kernel may contain data races: two blocks on two workers may write one memory location. Element accesses are plain unaligned
//! pointer reads and writes of at most 8 bytes or row copies, through raw pointers that no Rust reference overlaps while a launch
//! runs. Nothing is ever assumed about a value that was read (any bit pattern of an element is valid, indices are checked after
//! they were loaded), so that on the machines Clk runs on a race yields some mixture of the written bytes, as on a GPU, and
//! nothing worse. Atomic operations of kernels are atomic instructions.

pub mod layout;

use std::marker::PhantomData;

pub(crate) use self::layout::{Axis, MemoryRt, Plan, Run};
use self::layout::{PlanAxis, PlanKind};
use super::code::{AXES, Access, Coef, Index};
use super::fault::stop_at;
use super::group::{CHUNK, Group, Op};
use super::lanes::Step;
use super::shape::{Indices, Shape, Word};
use crate::device::FaultKind;

/// The representation of a scalar in memory and its conversion to and from the one in a register.
pub(crate) trait Elem: 'static {
    type Repr: Copy + Default;
    const SIZE: usize;
    /// Memory and register hold the same bytes.
    const RAW: bool;
    /// # Safety
    /// `ptr` is good for reading `SIZE` bytes.
    unsafe fn read(ptr: *const u8) -> Self::Repr;
    /// # Safety
    /// `ptr` is good for writing `SIZE` bytes.
    unsafe fn write(ptr: *mut u8, value: Self::Repr);
}

macro_rules! elem {
    ($($name:ident: $mem:ty => $repr:ty, $raw:expr, $m:ident => $get:expr, $r:ident => $put:expr;)*) => {
        $(
            pub struct $name;
            impl Elem for $name {
                type Repr = $repr;
                const SIZE: usize = size_of::<$mem>();
                const RAW: bool = $raw;
                #[inline(always)]
                unsafe fn read(ptr: *const u8) -> $repr {
                    // SAFETY: the caller's `ptr` is good for a `$mem`.
                    let $m = unsafe { ptr.cast::<$mem>().read_unaligned() };
                    $get
                }
                #[inline(always)]
                unsafe fn write(ptr: *mut u8, $r: $repr) {
                    // SAFETY: the caller's `ptr` is good for a `$mem`.
                    unsafe { ptr.cast::<$mem>().write_unaligned($put) }
                }
            }
        )*
    };
}

elem! {
    W4: u32 => u32, true, m => m, r => r;
    W8: u64 => u64, true, m => m, r => r;
    Flag: u8 => u32, false, m => if m != 0 { !0 } else { 0 }, r => (r & 1) as u8;
    U1: u8 => u32, false, m => m.into(), r => r as u8;
    I1: i8 => i32, false, m => m.into(), r => r as i8;
    U2: u16 => u32, false, m => m.into(), r => r as u16;
    I2: i16 => i32, false, m => m.into(), r => r as i16;
}

impl Run {
    /// Returns the run of elements at these distances in bytes along each axis, from the address for coordinates 0, for the box that
    /// covers the active lanes.
    pub fn of(g: &mut Group, addr: *mut u8, stride: [i64; AXES]) -> Run {
        if !g.full {
            g.find_ends();
        }
        let (start, count, lane) = active_box(g);
        let offset: i64 = (0..AXES).map(|d| start[d] as i64 * stride[d]).sum();
        let (count, stride) = collapse(count, stride);
        Run { addr: addr.wrapping_offset(offset as isize), lane, count, stride }
    }

    /// Returns whether its lanes are exactly those from the first to the last active one, in one row. A box may include lanes
    /// around them, for which the mask is undefined outside of its chunks.
    #[inline(always)]
    pub fn is_exact(&self, g: &Group) -> bool {
        self.count[1..] == [1; 3] && self.lane == g.first_lane && self.count[0] == g.last_lane + 1 - g.first_lane
    }

    /// Calls `row` with the first lane, its address and the number of lanes of each innermost row.
    #[inline(always)]
    pub fn rows(&self, mut row: impl FnMut(usize, *mut u8, usize)) {
        let (n, s) = (self.count, self.stride);
        if n[1] == 1 && n[2] == 1 && n[3] == 1 {
            return row(self.lane, self.addr, n[0]);
        }
        let mut lane = self.lane;
        for w in 0..n[3] {
            for z in 0..n[2] {
                for y in 0..n[1] {
                    let offset = w as isize * s[3] + z as isize * s[2] + y as isize * s[1];
                    row(lane, self.addr.wrapping_offset(offset), n[0]);
                    lane += n[0];
                }
            }
        }
    }
}

#[inline(always)]
pub(crate) unsafe fn coef(g: &Group, c: Coef) -> i64 {
    match c {
        Coef::Zero => 0,
        Coef::Const(v) => v.into(),
        // SAFETY: C5: coefficients are uniform registers of 4-byte lanes.
        Coef::Reg(r) => unsafe { g.first::<i32>(r) }.into(),
    }
}

/// Returns the value of an index's base.
#[inline(always)]
unsafe fn base(g: &Group, index: &Index) -> i64 {
    // SAFETY: C5: the base of an index is as wide as it says, and the caller's uniform, or it wants the first lane.
    unsafe {
        if index.wide {
            g.first::<i64>(index.base)
        } else if index.unsigned {
            g.first::<u32>(index.base).into()
        } else {
            g.first::<i32>(index.base).into()
        }
    }
}

/// Returns the box of coordinates that covers the active lanes: first and count per axis, and its first lane.
#[inline(always)]
pub(crate) fn active_box(g: &Group) -> ([usize; AXES], [usize; AXES], usize) {
    if g.full {
        return ([0; AXES], g.shape, 0);
    }
    partial_box(g)
}

fn partial_box(g: &Group) -> ([usize; AXES], [usize; AXES], usize) {
    let [x, y, z, _] = g.shape;
    if y == 1 && z == 1 && x == g.lanes {
        return ([g.first_lane, 0, 0, 0], [g.last_lane - g.first_lane + 1, 1, 1, 1], g.first_lane);
    }
    let (first, last) = (g.coordinates(g.first_lane), g.coordinates(g.last_lane));
    let (mut start, mut count) = (first, [1; AXES]);
    for axis in (0..AXES).rev() {
        if first[axis] != last[axis] {
            count[axis] = last[axis] - first[axis] + 1;
            for inner in 0..axis {
                (start[inner], count[inner]) = (0, g.shape[inner]);
            }
            break;
        }
    }
    let lane = start[0] + x * (start[1] + y * (start[2] + z * start[3]));
    (start, count, lane)
}

#[cold]
#[inline(never)]
unsafe fn make_plan(g: &Group, access: &Access) -> Plan {
    // SAFETY: C5: the access's memory exists (G3).
    let memory = unsafe { &*g.memories.add(access.memory as usize) };
    let known = |i: &Index| i.coef.iter().all(|c| !matches!(c, Coef::Reg(_)));
    if access.axes.len() > AXES || !access.axes.iter().all(known) {
        return Plan { epoch: g.epoch, ..Plan::default() };
    }
    let [x, y, z, w] = g.shape;
    let kind = if y * z * w == 1 { PlanKind::Row } else { PlanKind::Full };
    let mut plan = Plan { epoch: g.epoch, kind, count: [1; AXES], rank: access.axes.len(), ..Plan::default() };
    let mut stride = [0i64; AXES];
    for (k, (index, axis)) in access.axes.iter().zip(&memory.axes).enumerate() {
        let mut planned = PlanAxis {
            base: index.base,
            wide: index.wide,
            unsigned: index.unsigned,
            pitch: axis.pitch,
            extent: axis.extent,
            ..PlanAxis::default()
        };
        for d in 0..AXES {
            let c = if let Coef::Const(c) = index.coef[d] { i64::from(c) } else { 0 };
            let span = c * (g.shape[d] as i64 - 1);
            planned.low += span.min(0);
            planned.high += span.max(0);
            stride[d] += c * axis.pitch;
            if d == 0 {
                planned.step = c;
            }
        }
        plan.axes[k] = planned;
    }
    (plan.count, plan.stride) = collapse(g.shape, stride);
    if x == g.lanes {
        plan.stride[0] = stride[0] as isize;
    }
    plan
}

/// Merges dimensions that are contiguous with one another.
fn collapse(count: [usize; AXES], stride: [i64; AXES]) -> ([usize; AXES], [isize; AXES]) {
    let (mut counts, mut strides) = ([1; AXES], [0; AXES]);
    let mut dims = 0;
    for d in (0..AXES).filter(|&d| count[d] > 1) {
        if dims > 0 && strides[dims - 1] * counts[dims - 1] as isize == stride[d] as isize {
            counts[dims - 1] *= count[d];
        } else {
            (counts[dims], strides[dims]) = (count[d], stride[d] as isize);
            dims += 1;
        }
    }
    (counts, strides)
}

/// Checks the bounds of an affine access for all active lanes at once. Returns `None` if some lane might be out of bounds.
///
/// # Safety
/// The access is number `number` of the group's code, and its bases are uniform.
#[inline(always)]
pub(crate) unsafe fn resolve(g: &mut Group, access: &Access, number: u32) -> Option<Run> {
    // SAFETY: G4: there is a plan for each access. C5, G3: its memory exists; the bases are as wide as they say. All indices
    // between those of the first and the last active lane are within the extents here, so that the address is within the memory.
    unsafe {
        let plan = &mut *g.plans.add(number as usize);
        if plan.epoch != g.epoch {
            *plan = make_plan(g, access);
        }
        let memory = &*g.memories.add(access.memory as usize);
        let mut offset = i64::from(access.offset);
        if plan.kind == PlanKind::Row {
            let (first, last) = if g.full { (0, g.lanes - 1) } else { g.ends() };
            for axis in plan.axes.iter().take(plan.rank) {
                let b = axis.base(g);
                let (p, q) = (b + axis.step * first as i64, b + axis.step * last as i64);
                if p.min(q) < 0 || p.max(q) >= axis.extent {
                    return None;
                }
                offset += p * axis.pitch;
            }
            let addr = memory.ptr.offset(offset as isize);
            let (count, stride) = ([last - first + 1, 1, 1, 1], [plan.stride[0], 0, 0, 0]);
            return Some(Run { addr, lane: first, count, stride });
        }
        if plan.kind == PlanKind::Full && g.full {
            for axis in plan.axes.iter().take(plan.rank) {
                let b = axis.base(g);
                if b + axis.low < 0 || b + axis.high >= axis.extent {
                    return None;
                }
                offset += b * axis.pitch;
            }
            let addr = memory.ptr.offset(offset as isize);
            return Some(Run { addr, lane: 0, count: plan.count, stride: plan.stride });
        }
        g.find_ends();
        resolve_box(g, access)
    }
}

impl PlanAxis {
    #[inline(always)]
    unsafe fn base(&self, g: &Group) -> i64 {
        // SAFETY: C5: bases are as wide as their indices say, which the plan has copied.
        unsafe {
            base(g, &Index { base: self.base, wide: self.wide, unsigned: self.unsigned, coef: [Coef::Zero; AXES] })
        }
    }
}

/// As [`resolve`], without a plan, for the box of coordinates that covers the active lanes.
#[inline(never)]
unsafe fn resolve_box(g: &Group, access: &Access) -> Option<Run> {
    // SAFETY: C5, G3: the memory exists; bases and coefficients are as wide as they say. Between the corners of the box, all
    // indices are within the extents here, so that the address is within the memory.
    unsafe {
        let memory = &*g.memories.add(access.memory as usize);
        let (start, count, lane) = active_box(g);
        let mut offset = i64::from(access.offset);
        let mut stride = [0i64; AXES];
        for (index, axis) in access.axes.iter().zip(&memory.axes) {
            let mut low = base(g, index);
            let mut high = low;
            let mut at = low;
            for d in 0..AXES {
                if matches!(index.coef[d], Coef::Zero) {
                    continue;
                }
                let c = coef(g, index.coef[d]);
                let begin = c * start[d] as i64;
                let span = c * (count[d] as i64 - 1);
                at += begin;
                low += begin + span.min(0);
                high += begin + span.max(0);
                stride[d] += c * axis.pitch;
            }
            if low < 0 || high >= axis.extent {
                return None;
            }
            offset += at * axis.pitch;
        }
        let (count, stride) = collapse(count, stride);
        Some(Run { addr: memory.ptr.offset(offset as isize), lane, count, stride })
    }
}

/// Returns the index of one lane along one axis.
unsafe fn index_of_lane(g: &Group, index: &Index, lane: usize) -> i64 {
    // SAFETY: C5: the base is as wide as it says, coefficients are uniform registers of 4-byte lanes; the caller's lane exists.
    unsafe {
        if index.wide {
            return g.lane::<i64>(index.base, lane);
        }
        let mut value = g.lane::<i32>(index.base, lane);
        let coordinates = g.coordinates(lane);
        for d in 0..AXES {
            value = value.wrapping_add((coef(g, index.coef[d]) as i32).wrapping_mul(coordinates[d] as i32));
        }
        if index.unsigned { (value as u32).into() } else { value.into() }
    }
}

/// Returns the address of a lane's element, if it is in bounds.
pub(crate) unsafe fn address(g: &Group, access: &Access, lane: usize) -> Option<*mut u8> {
    // SAFETY: C5, G3: the memory exists, and there is an index for each of its axes, which is within the extent here: so is the
    // address.
    unsafe {
        let memory = &*g.memories.add(access.memory as usize);
        let mut offset = i64::from(access.offset) * memory.unit as i64;
        for (index, axis) in access.axes.iter().zip(&memory.axes) {
            let i = index_of_lane(g, index, lane);
            if i < 0 || i >= axis.extent {
                return None;
            }
            offset += i * axis.pitch;
        }
        Some(memory.ptr.offset(offset as isize))
    }
}

/// Returns the address of an access with the same indices in all lanes, if it is in bounds.
///
/// # Safety
/// The access is one of the group's code, without lane indices.
#[inline(always)]
pub(crate) unsafe fn uniform_address(g: &Group, access: &Access) -> Option<*mut u8> {
    // SAFETY: C5, G3: the memory exists, and there is an index for each of its axes, which is within the extent here: so is the
    // address.
    unsafe {
        let memory = &*g.memories.add(access.memory as usize);
        let mut offset = access.offset as usize * memory.unit;
        for (index, axis) in access.axes.iter().zip(&memory.axes) {
            let i = base(g, index);
            if i as u64 >= axis.extent as u64 {
                return None;
            }
            offset += (i * axis.pitch) as usize;
        }
        Some(memory.ptr.add(offset))
    }
}

/// As [`address`], for atomics.
///
/// # Safety
/// The access is one of the group's code.
pub(crate) unsafe fn place(g: &Group, access: &Access, lane: usize) -> Option<*mut u8> {
    // SAFETY: the caller's access and lane suit [`address`].
    unsafe { address(g, access, lane) }
}

/// Stops at an access of which some active lane is out of bounds, and reports the first such lane.
#[cold]
#[inline(never)]
pub(crate) fn out_of_bounds(g: &mut Group, access: &Access) -> *const Op {
    // SAFETY: C4, C5: the access is one of the code's, and so is its memory (G3); active lanes exist (G2).
    unsafe {
        let mut bad = g.active().filter(|&l| address(g, access, l).is_none());
        let lane = bad.next().unwrap_or(0);
        let others = bad.count() as u64;
        let memory = &*g.memories.add(access.memory as usize);
        let indices: Vec<i64> = access.axes.iter().map(|i| index_of_lane(g, i, lane)).collect();
        let shape: Vec<u32> = memory.axes.iter().map(|a| a.extent as u32).collect();
        let fits = |(i, axis): (&i64, &Axis)| (0..axis.extent).contains(i);
        let axis = indices.iter().zip(&memory.axes).position(|pair| !fits(pair)).unwrap_or(0);
        let array = g.code().memories[access.memory as usize].name.clone();
        let kind = FaultKind::OutOfBounds { array, indices, shape, axis, write: access.write };
        stop_at(g, kind, access.span, lane, others)
    }
}

#[inline(always)]
pub(crate) unsafe fn access<'a>(g: &Group, op: *const Op) -> &'a Access {
    // SAFETY: G5: the code outlives the run of its ops. C4: `x` is an access.
    unsafe { (&(*g.code).accesses).get_unchecked((*op).x as usize) }
}

/// A load with the same indices in all lanes.
pub(crate) struct LoadUniform<E>(PhantomData<E>);

impl<E: Elem> Step for LoadUniform<E> {
    const SHAPE: Shape = Shape::new("load uniform").x(Word::Load(Indices::Uniform, E::SIZE));

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C5: the indices are uniform, elements have `SIZE` bytes, and all components are within an element, so that they
        // are within the memory once the element is (G3). The registers are uniform and as wide as `Repr`. C3: there is an op
        // behind.
        unsafe {
            let access = access(g, op);
            let Some(from) = uniform_address(g, access) else {
                return out_of_bounds(g, access);
            };
            for (k, &reg) in access.regs.iter().enumerate() {
                g.broadcast(reg, E::read(from.add(k * E::SIZE)));
            }
            op.add(1)
        }
    }
}

/// A load whose rows lie at fixed strides.
pub(crate) struct LoadAffine<E>(PhantomData<E>);

impl<E: Elem> Step for LoadAffine<E> {
    const SHAPE: Shape = Shape::new("load affine").x(Word::Load(Indices::Affine, E::SIZE));

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C5: the indices are affine, elements have `SIZE` bytes, and all components are within an element: rows of a
        // resolved access are within the memory (G3). The registers have lanes of `Repr`, with room for all lanes of the box (G1).
        // C3: there is an op behind.
        unsafe {
            let access = access(g, op);
            let Some(run) = resolve(g, access, (*op).x) else {
                return gather::<E>(g, op);
            };
            if access.view && E::RAW && view::<E>(g, access, &run) {
                return op.add(1);
            }
            for (k, &reg) in access.regs.iter().enumerate() {
                let to = home(g, access, reg).cast::<E::Repr>();
                let stride = run.stride[0];
                run.rows(|lane, addr, count| {
                    let (to, from) = (to.add(lane), addr.wrapping_add(k * E::SIZE));
                    copy_row::<E>(to, from, stride, count);
                });
            }
            op.add(1)
        }
    }
}

/// Returns the memory of a destination register; a register that viewed memory gets its own memory back.
#[inline(always)]
unsafe fn home(g: &Group, access: &Access, reg: u16) -> *mut u8 {
    // SAFETY: C5: `reg` is one of the code's; there are as many homes as slots (G4).
    unsafe {
        if access.view {
            let slot = *g.homes.add(reg as usize);
            *g.slots.add(reg as usize) = slot;
            slot.ptr
        } else {
            g.slot(reg).ptr
        }
    }
}

#[inline(always)]
unsafe fn copy_row<E: Elem>(to: *mut E::Repr, from: *mut u8, stride: isize, count: usize) {
    // SAFETY: the caller's row has `count` elements `stride` bytes apart, and as many lanes; memory of registers is apart from that
    // of arrays (G1).
    unsafe {
        if stride == E::SIZE as isize {
            if E::RAW && count >= 64 {
                std::ptr::copy_nonoverlapping(from, to.cast(), count * E::SIZE);
            } else {
                for i in 0..count {
                    to.add(i).write_unaligned(E::read(from.add(i * E::SIZE)));
                }
            }
        } else if stride == 0 {
            let value = E::read(from);
            if count == CHUNK {
                return to.cast::<[E::Repr; CHUNK]>().write_unaligned([value; CHUNK]);
            }
            for i in 0..count {
                to.add(i).write_unaligned(value);
            }
        } else {
            for i in 0..count {
                to.add(i).write_unaligned(E::read(from.wrapping_offset(i as isize * stride)));
            }
        }
    }
}

/// Longest row, in lanes, behind which the next one is prefetched: on longer rows the hardware prefetcher does that.
const AHEAD: usize = 512;

/// Prefetches the cache line at an address, which need not be valid.
#[inline(always)]
fn fetch(at: *const u8) {
    // SAFETY: a hint, which has no effect on invalid addresses.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Makes the register a view of the memory itself if its chunks lie at a fixed stride.
#[inline(always)]
unsafe fn view<E: Elem>(g: &mut Group, access: &Access, run: &Run) -> bool {
    // SAFETY: C5, G3: the memory exists. C6: the register is one that only loads, whose slots may be redirected. All chunks up to
    // the last active one lie within the memory here, which is what G1 says of views.
    unsafe {
        let chunk = (CHUNK * E::SIZE) as isize;
        let step = E::SIZE as isize;
        if run.count[2] != 1 || run.count[3] != 1 || run.stride[0] != step || access.regs.len() != 1 {
            return false;
        }
        let stride = if run.count[1] == 1 {
            chunk
        } else if run.count[0] == CHUNK && run.stride[1] >= 0 {
            run.stride[1]
        } else {
            return false;
        };
        // Views are read in whole chunks and addressed from lane 0.
        let memory = &*g.memories.add(access.memory as usize);
        let first = run.lane / CHUNK;
        let begin = (run.addr as usize).wrapping_sub(run.lane % CHUNK * E::SIZE);
        let end = begin + stride as usize * (g.hi - 1 - first) + chunk as usize;
        if begin < memory.ptr as usize || end > memory.ptr as usize + memory.len {
            return false;
        }
        let back = (run.lane % CHUNK * E::SIZE) as isize + stride * first as isize;
        let ptr = run.addr.wrapping_offset(-back);
        if access.ahead && run.count[1] == 1 && run.count[0] <= AHEAD {
            for line in 0..run.count[0] / CHUNK {
                fetch(run.addr.wrapping_add((run.count[0] + line * CHUNK) * E::SIZE));
            }
        }
        (*g.slots.add(access.regs[0] as usize)) = super::group::Slot { ptr, stride: stride as usize };
        true
    }
}

/// A load with separate indices in each lane.
pub(crate) struct LoadGather<E>(PhantomData<E>);

impl<E: Elem> Step for LoadGather<E> {
    const SHAPE: Shape = Shape::new("load gather").x(Word::Load(Indices::Lanes, E::SIZE));

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C5: indices have no coefficients, elements have `SIZE` bytes, and all components are within an element. Where not
        // all lanes of a chunk are in bounds, only the active ones are read, which are. The registers are of lanes of `Repr` (G1,
        // G2). C3: there is an op behind.
        unsafe {
            let access = access(g, op);
            let memory = &*g.memories.add(access.memory as usize);
            for chunk in g.lo..g.hi {
                let (offsets, ok) = offsets(g, access, memory, chunk);
                if !ok && !active_in_bounds(g, access, chunk) {
                    return out_of_bounds(g, access);
                }
                for (k, &reg) in access.regs.iter().enumerate() {
                    let slot = g.slot(reg);
                    let to = slot.ptr.add(chunk * slot.stride).cast::<E::Repr>();
                    let from = memory.ptr.add(k * E::SIZE);
                    if ok {
                        for i in 0..CHUNK {
                            to.add(i).write_unaligned(E::read(from.offset(offsets[i] as isize)));
                        }
                    } else {
                        for i in 0..CHUNK {
                            if g.is_active(chunk * CHUNK + i) {
                                to.add(i).write_unaligned(E::read(from.offset(offsets[i] as isize)));
                            }
                        }
                    }
                }
            }
            op.add(1)
        }
    }
}

/// Returns the byte offsets of a chunk's lanes, and whether all (active or not) are in bounds.
#[inline(always)]
pub(crate) unsafe fn offsets(g: &Group, access: &Access, memory: &MemoryRt, chunk: usize) -> ([i64; CHUNK], bool) {
    // SAFETY: C5: bases are as wide as they say, and have the chunk, which the caller says is one of the mask (G1).
    unsafe {
        let mut offsets = [i64::from(access.offset); CHUNK];
        let mut outside = 0u32;
        for (index, axis) in access.axes.iter().zip(&memory.axes) {
            let slot = g.slot(index.base);
            let ptr = slot.ptr.add(chunk * slot.stride);
            if index.wide {
                let lanes = ptr.cast::<[i64; CHUNK]>().read_unaligned();
                for i in 0..CHUNK {
                    outside |= u32::from(lanes[i] as u64 >= axis.extent as u64);
                    offsets[i] = offsets[i].wrapping_add(lanes[i].wrapping_mul(axis.pitch));
                }
            } else {
                // Extents are below 2^31, so that a negative index is too large when read as unsigned.
                let lanes = ptr.cast::<[u32; CHUNK]>().read_unaligned();
                let extent = axis.extent as u32;
                for i in 0..CHUNK {
                    outside |= u32::from(lanes[i] >= extent);
                    offsets[i] = offsets[i].wrapping_add(i64::from(lanes[i]).wrapping_mul(axis.pitch));
                }
            }
        }
        (offsets, outside == 0)
    }
}

#[inline(never)]
pub(crate) unsafe fn active_in_bounds(g: &Group, access: &Access, chunk: usize) -> bool {
    let mut lanes = (chunk * CHUNK..(chunk + 1) * CHUNK).filter(|&l| g.is_active(l));
    // SAFETY: C5: the access is one of the code's; active lanes exist (G2).
    lanes.all(|lane| unsafe { address(g, access, lane) }.is_some())
}

/// Performs an affine load some of whose lanes might be out of bounds, lane by lane.
#[inline(never)]
unsafe fn gather<E: Elem>(g: &mut Group, op: *const Op) -> *const Op {
    // SAFETY: C5: as in [`LoadAffine`], but only elements of active lanes that are in bounds are read.
    unsafe {
        let access = access(g, op);
        let lanes = g.lo * CHUNK..(g.hi * CHUNK).min(g.lanes);
        let homes: Vec<*mut u8> = access.regs.iter().map(|&r| home(g, access, r)).collect();
        for lane in lanes {
            if !g.is_active(lane) {
                continue;
            }
            let Some(from) = address(g, access, lane) else {
                return out_of_bounds(g, access);
            };
            for (k, &to) in homes.iter().enumerate() {
                to.cast::<E::Repr>().add(lane).write_unaligned(E::read(from.add(k * E::SIZE)));
            }
        }
        op.add(1)
    }
}
