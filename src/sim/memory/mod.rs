//! Load ops, and the address computation of all accesses.
//!
//! The indices of an access determine its addressing mode. With **uniform** indices, all lanes load a single element.
//! For **affine** indices, rows of elements are copied after a single bounds check for the whole group. With other
//! indices, elements are **gathered** lane by lane.
//!
//! # Races
//! A kernel may contain data races: two blocks on two workers may write one memory location. Element accesses are plain
//! unaligned pointer reads and writes of at most 8 bytes, or row copies. They use raw pointers that no Rust reference
//! overlaps while a launch runs. A value that was read may be arbitrary: every bit pattern of an element is valid, and
//! indices are checked after they were loaded. So on the machines that Clk supports, a race only affects the values of
//! the racing elements, which may be a mixture of the written bytes, as on a GPU. Atomic operations of kernels are
//! atomic instructions.

pub mod layout;

use std::marker::PhantomData;

pub(crate) use self::layout::{AddressPlan, AddressPlans, AddressRun, AxisLayout, MemoryRt};
use self::layout::{PlanAxis, PlanKind};
use super::affine_value::{coefficient, index_base, index_of_lane};
use super::code::{AXES, AccessOperands, AffineIndex, Coef};
use super::current_mask::CurrentMask;
use super::group::{GroupShape, Op, ThreadGroup};
use super::group_registers::{CHUNK, GroupRegisters, Slot};
use super::lanes::OpStep;
use super::op_shape::{Indices, OpShape, OperandRole};
use clk_runtime::FaultKind;

/// The representation of a scalar in memory, and conversions from and to its representation in a register.
pub(crate) trait StoredScalar: 'static {
    type Repr: Copy + Default;
    const SIZE: usize;
    /// Set if the scalar has the same bytes in memory and in a register.
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
            impl StoredScalar for $name {
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

impl AddressRun {
    /// Returns the addresses for a box of lanes that contains all active lanes. `addr` is the address for lane
    /// coordinates 0, and `stride` the distance in bytes between adjacent coordinates of each axis.
    pub fn for_active_lanes(
        shape: &GroupShape,
        mask: &mut CurrentMask,
        addr: *mut u8,
        stride: [i64; AXES],
    ) -> AddressRun {
        if !mask.full {
            mask.find_ends();
        }
        let (start, count, lane) = active_box(shape, mask);
        let offset: i64 = (0..AXES).map(|d| start[d] as i64 * stride[d]).sum();
        let (count, stride) = merge_dimensions(count, stride);
        AddressRun { addr: addr.wrapping_offset(offset as isize), lane, count, stride }
    }

    /// Returns whether the box of lanes is one row, from the first to the last active lane. Otherwise it may also
    /// contain lanes before and after these, for which the mask's memory may be stale.
    #[inline(always)]
    pub fn is_exact(&self, mask: &CurrentMask) -> bool {
        self.count[1..] == [1; 3]
            && self.lane == mask.first_lane
            && self.count[0] == mask.last_lane + 1 - mask.first_lane
    }

    /// Calls `row` for each innermost row of the box, with the row's first lane, the address of that lane's element,
    /// and the number of lanes.
    #[inline(always)]
    pub fn for_each_row(&self, mut row: impl FnMut(usize, *mut u8, usize)) {
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

/// Returns the box of coordinates that contains the active lanes: the first coordinate and the count for each axis, and
/// the first lane of the box. The ends of the mask are known.
#[inline(always)]
pub(crate) fn active_box(shape: &GroupShape, mask: &CurrentMask) -> ([usize; AXES], [usize; AXES], usize) {
    if mask.full {
        return ([0; AXES], shape.extents, 0);
    }
    partial_box(shape, mask)
}

fn partial_box(shape: &GroupShape, mask: &CurrentMask) -> ([usize; AXES], [usize; AXES], usize) {
    let [x, y, z, _] = shape.extents;
    if y == 1 && z == 1 && x == shape.lanes {
        return ([mask.first_lane, 0, 0, 0], [mask.last_lane - mask.first_lane + 1, 1, 1, 1], mask.first_lane);
    }
    let (first, last) = (shape.coordinates(mask.first_lane), shape.coordinates(mask.last_lane));
    let (mut start, mut count) = (first, [1; AXES]);
    for axis in (0..AXES).rev() {
        if first[axis] != last[axis] {
            count[axis] = last[axis] - first[axis] + 1;
            for inner in 0..axis {
                (start[inner], count[inner]) = (0, shape.extents[inner]);
            }
            break;
        }
    }
    let lane = start[0] + x * (start[1] + y * (start[2] + z * start[3]));
    (start, count, lane)
}

#[cold]
#[inline(never)]
fn make_plan(access: &AccessOperands, memory: &MemoryRt, shape: &GroupShape, epoch: u32) -> AddressPlan {
    let is_constant = |i: &AffineIndex| i.coef.iter().all(|c| !matches!(c, Coef::Reg(_)));
    if access.axes.len() > AXES || !access.axes.iter().all(is_constant) {
        return AddressPlan { epoch, ..AddressPlan::default() };
    }
    let [x, y, z, w] = shape.extents;
    let kind = if y * z * w == 1 { PlanKind::Row } else { PlanKind::Full };
    let mut plan = AddressPlan { epoch, kind, count: [1; AXES], rank: access.axes.len(), ..AddressPlan::default() };
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
            let span = c * (shape.extents[d] as i64 - 1);
            planned.low += span.min(0);
            planned.high += span.max(0);
            stride[d] += c * axis.pitch;
            if d == 0 {
                planned.step = c;
            }
        }
        plan.axes[k] = planned;
    }
    (plan.count, plan.stride) = merge_dimensions(shape.extents, stride);
    if x == shape.lanes {
        plan.stride[0] = stride[0] as isize;
    }
    plan
}

/// Merges adjacent dimensions whose addresses form one arithmetic sequence.
fn merge_dimensions(count: [usize; AXES], stride: [i64; AXES]) -> ([usize; AXES], [isize; AXES]) {
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

/// Checks the bounds of an affine access for all active lanes at once. Returns `None` if some lane might be out of
/// bounds.
///
/// # Safety
/// The access is number `number` of the group's code, and its bases are uniform.
#[inline(always)]
pub(crate) unsafe fn resolve_affine(g: &mut ThreadGroup, access: &AccessOperands, number: u32) -> Option<AddressRun> {
    // SAFETY: G4: each access has a plan. C5, G3: its memory exists, and bases have the declared width. All indices
    // from the first to the last active lane are within the extents here, so the address is within the memory.
    unsafe {
        let memory = &*g.memories.add(access.memory as usize);
        let plan = &mut *g.plans.table.add(number as usize);
        if plan.epoch != g.plans.epoch {
            *plan = make_plan(access, memory, &g.shape, g.plans.epoch);
        }
        let mut offset = i64::from(access.offset);
        if plan.kind == PlanKind::Row {
            let (first, last) = if g.mask.full { (0, g.shape.lanes - 1) } else { g.mask.active_bounds() };
            for axis in plan.axes.iter().take(plan.rank) {
                let b = axis.base(&g.registers);
                let (p, q) = (b + axis.step * first as i64, b + axis.step * last as i64);
                if p.min(q) < 0 || p.max(q) >= axis.extent {
                    return None;
                }
                offset += p * axis.pitch;
            }
            let addr = memory.ptr.offset(offset as isize);
            let (count, stride) = ([last - first + 1, 1, 1, 1], [plan.stride[0], 0, 0, 0]);
            return Some(AddressRun { addr, lane: first, count, stride });
        }
        if plan.kind == PlanKind::Full && g.mask.full {
            for axis in plan.axes.iter().take(plan.rank) {
                let b = axis.base(&g.registers);
                if b + axis.low < 0 || b + axis.high >= axis.extent {
                    return None;
                }
                offset += b * axis.pitch;
            }
            let addr = memory.ptr.offset(offset as isize);
            return Some(AddressRun { addr, lane: 0, count: plan.count, stride: plan.stride });
        }
        g.mask.find_ends();
        resolve_box(g, access)
    }
}

impl PlanAxis {
    #[inline(always)]
    unsafe fn base(&self, registers: &GroupRegisters) -> i64 {
        // SAFETY: C5: bases have the width that the index declares; the plan has a copy of it.
        unsafe {
            index_base(
                registers,
                &AffineIndex { base: self.base, wide: self.wide, unsigned: self.unsigned, coef: [Coef::Zero; AXES] },
            )
        }
    }
}

/// Like [`resolve_affine`], without a cached plan, for the box of coordinates that contains the active lanes.
#[inline(never)]
unsafe fn resolve_box(g: &ThreadGroup, access: &AccessOperands) -> Option<AddressRun> {
    // SAFETY: C5, G3: the memory exists, and bases and coefficients have the declared width. Between the corners of the
    // box, all indices are within the extents here, so the address is within the memory.
    unsafe {
        let memory = &*g.memories.add(access.memory as usize);
        let (start, count, lane) = active_box(&g.shape, &g.mask);
        let mut offset = i64::from(access.offset);
        let mut stride = [0i64; AXES];
        for (index, axis) in access.axes.iter().zip(&memory.axes) {
            let mut low = index_base(&g.registers, index);
            let mut high = low;
            let mut at = low;
            for d in 0..AXES {
                if matches!(index.coef[d], Coef::Zero) {
                    continue;
                }
                let c = coefficient(&g.registers, index.coef[d]);
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
        let (count, stride) = merge_dimensions(count, stride);
        Some(AddressRun { addr: memory.ptr.offset(offset as isize), lane, count, stride })
    }
}

/// Returns the address of the element that a lane accesses; `None` if it is out of bounds.
pub(crate) unsafe fn address(g: &ThreadGroup, access: &AccessOperands, lane: usize) -> Option<*mut u8> {
    // SAFETY: C5, G3: the memory exists, and each of its axes has an index that is within the extent here, so the
    // address is within the memory.
    unsafe {
        let memory = &*g.memories.add(access.memory as usize);
        let mut offset = i64::from(access.offset) * memory.offset_unit as i64;
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

/// Returns the address of an access with the same indices in all lanes; `None` if it is out of bounds.
///
/// # Safety
/// The access belongs to the group's code and has no lane indices.
#[inline(always)]
pub(crate) unsafe fn uniform_address(g: &ThreadGroup, access: &AccessOperands) -> Option<*mut u8> {
    // SAFETY: C5, G3: the memory exists, and each of its axes has an index that is within the extent here, so the
    // address is within the memory.
    unsafe {
        let memory = &*g.memories.add(access.memory as usize);
        let mut offset = access.offset as usize * memory.offset_unit;
        for (index, axis) in access.axes.iter().zip(&memory.axes) {
            let i = index_base(&g.registers, index);
            if i as u64 >= axis.extent as u64 {
                return None;
            }
            offset += (i * axis.pitch) as usize;
        }
        Some(memory.ptr.add(offset))
    }
}

/// Like [`address`], for atomics.
///
/// # Safety
/// The access belongs to the group's code.
pub(crate) unsafe fn atomic_address(g: &ThreadGroup, access: &AccessOperands, lane: usize) -> Option<*mut u8> {
    // SAFETY: the caller's access and lane are valid for [`address`].
    unsafe { address(g, access, lane) }
}

/// Stops the group because an access is out of bounds in some active lane; reports the first such lane.
#[cold]
#[inline(never)]
pub(crate) fn out_of_bounds(g: &mut ThreadGroup, access: &AccessOperands) -> *const Op {
    // SAFETY: C4, C5: the access and its memory belong to the code (G3). Active lanes exist (G2).
    unsafe {
        let mut bad = g.active().filter(|&l| address(g, access, l).is_none());
        let lane = bad.next().unwrap_or(0);
        let others = bad.count() as u64;
        let memory = &*g.memories.add(access.memory as usize);
        let indices: Vec<i64> = access.axes.iter().map(|i| index_of_lane(g, i, lane)).collect();
        let shape: Vec<u32> = memory.axes.iter().map(|a| a.extent as u32).collect();
        let is_inside = |(i, axis): (&i64, &AxisLayout)| (0..axis.extent).contains(i);
        let axis = indices.iter().zip(&memory.axes).position(|pair| !is_inside(pair)).unwrap_or(0);
        let array = g.code().memories[access.memory as usize].name.clone();
        let kind = FaultKind::OutOfBounds { array, indices, shape, axis, write: access.write };
        g.results.stop_at(kind, access.span, lane, others)
    }
}

#[inline(always)]
pub(crate) unsafe fn access<'a>(g: &ThreadGroup, op: *const Op) -> &'a AccessOperands {
    // SAFETY: G5: the code outlives the run of its ops. C4: `x` is an access.
    unsafe { (&(*g.code).accesses).get_unchecked((*op).x as usize) }
}

/// A load of one element, with the same indices in all lanes.
pub(crate) struct LoadUniform<E>(PhantomData<E>);

impl<E: StoredScalar> OpStep for LoadUniform<E> {
    const SHAPE: OpShape = OpShape::new("load uniform").x(OperandRole::Load(Indices::Uniform, E::SIZE));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: the indices are uniform, elements have `SIZE` bytes, and all components are within an element, so
        // they are within the memory if the element is (G3). The registers are uniform and as wide as `Repr`. C3:
        // another op follows.
        unsafe {
            let access = access(g, op);
            let Some(from) = uniform_address(g, access) else {
                return out_of_bounds(g, access);
            };
            for (k, &reg) in access.regs.iter().enumerate() {
                g.registers.broadcast(reg, E::read(from.add(k * E::SIZE)));
            }
            op.add(1)
        }
    }
}

/// A load with affine indices, which accesses rows of elements with constant strides.
pub(crate) struct LoadAffine<E>(PhantomData<E>);

impl<E: StoredScalar> OpStep for LoadAffine<E> {
    const SHAPE: OpShape = OpShape::new("load affine").x(OperandRole::Load(Indices::Affine, E::SIZE));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: the indices are affine, elements have `SIZE` bytes, and all components are within an element. So
        // the rows of a resolved access are within the memory (G3). The registers have lanes of `Repr`, with room for
        // all lanes of the box (G1). C3: another op follows.
        unsafe {
            let access = access(g, op);
            let Some(run) = resolve_affine(g, access, (*op).x) else {
                return gather::<E>(g, op);
            };
            if access.may_view && E::RAW && try_view::<E>(g, access, &run) {
                return op.add(1);
            }
            for (k, &reg) in access.regs.iter().enumerate() {
                let to = reset_register(&mut g.registers, access, reg).cast::<E::Repr>();
                let stride = run.stride[0];
                run.for_each_row(|lane, addr, count| {
                    let (to, from) = (to.add(lane), addr.wrapping_add(k * E::SIZE));
                    copy_row::<E>(to, from, stride, count);
                });
            }
            op.add(1)
        }
    }
}

/// Returns the address to which an op writes a destination register. If the register was a view, its slot points to its
/// own memory again.
#[inline(always)]
unsafe fn reset_register(registers: &mut GroupRegisters, access: &AccessOperands, reg: u16) -> *mut u8 {
    // SAFETY: C5: `reg` belongs to the code, and each register has a home and a slot (G4).
    unsafe {
        if access.may_view {
            let slot = registers.home(reg);
            registers.set_slot(reg, slot);
            slot.ptr
        } else {
            registers.slot(reg).ptr
        }
    }
}

#[inline(always)]
unsafe fn copy_row<E: StoredScalar>(to: *mut E::Repr, from: *mut u8, stride: isize, count: usize) {
    // SAFETY: the caller's row has `count` elements that are `stride` bytes apart, and as many lanes. Registers do not
    // overlap arrays (G1).
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

/// Maximum length in lanes of a row for which the op prefetches the next row. For longer rows, the hardware prefetcher
/// does this.
const MAX_PREFETCHED_ROW: usize = 512;

/// Prefetches the cache line at an address, which may be invalid.
#[inline(always)]
fn prefetch_line(at: *const u8) {
    // SAFETY: the instruction is only a hint and has no effect on invalid addresses.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// Makes the destination register a view of the accessed elements if their chunks are at a constant distance. Returns
/// whether it did.
#[inline(always)]
unsafe fn try_view<E: StoredScalar>(g: &mut ThreadGroup, access: &AccessOperands, run: &AddressRun) -> bool {
    // SAFETY: C5, G3: the memory exists. C6: only loads write the register, and its slot may be redirected. All chunks
    // up to the last active one are within the memory, as G1 requires for views.
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
        // Ops read views in whole chunks, and compute addresses in them from the address of lane 0.
        let memory = &*g.memories.add(access.memory as usize);
        let first = run.lane / CHUNK;
        let begin = (run.addr as usize).wrapping_sub(run.lane % CHUNK * E::SIZE);
        let end = begin + stride as usize * (g.mask.hi - 1 - first) + chunk as usize;
        if begin < memory.ptr as usize || end > memory.ptr as usize + memory.len {
            return false;
        }
        let back = (run.lane % CHUNK * E::SIZE) as isize + stride * first as isize;
        let ptr = run.addr.wrapping_offset(-back);
        if access.prefetch && run.count[1] == 1 && run.count[0] <= MAX_PREFETCHED_ROW {
            for line in 0..run.count[0] / CHUNK {
                prefetch_line(run.addr.wrapping_add((run.count[0] + line * CHUNK) * E::SIZE));
            }
        }
        g.registers.set_slot(access.regs[0], Slot { ptr, stride: stride as usize });
        true
    }
}

/// A load with a separate index in each lane.
pub(crate) struct LoadGather<E>(PhantomData<E>);

impl<E: StoredScalar> OpStep for LoadGather<E> {
    const SHAPE: OpShape = OpShape::new("load gather").x(OperandRole::Load(Indices::Lanes, E::SIZE));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: indices have no coefficients, elements have `SIZE` bytes, and all components are within an
        // element. If some lane of a chunk is out of bounds, only the elements of active lanes are read, and these are
        // in bounds. The registers have lanes of `Repr` (G1, G2). C3: another op follows.
        unsafe {
            let access = access(g, op);
            let memory = &*g.memories.add(access.memory as usize);
            for chunk in g.mask.chunks() {
                let (offsets, ok) = chunk_offsets(&g.registers, access, memory, chunk);
                if !ok && !active_in_bounds(g, access, chunk) {
                    return out_of_bounds(g, access);
                }
                for (k, &reg) in access.regs.iter().enumerate() {
                    let slot = g.registers.slot(reg);
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

/// Returns the byte offset of the element for each lane of a chunk, and whether the elements of all these lanes,
/// including inactive lanes, are in bounds.
#[inline(always)]
pub(crate) unsafe fn chunk_offsets(
    registers: &GroupRegisters,
    access: &AccessOperands,
    memory: &MemoryRt,
    chunk: usize,
) -> ([i64; CHUNK], bool) {
    // SAFETY: C5: bases have the declared width and contain the chunk, which belongs to the mask (G1).
    unsafe {
        let mut offsets = [i64::from(access.offset); CHUNK];
        let mut outside = 0u32;
        for (index, axis) in access.axes.iter().zip(&memory.axes) {
            let slot = registers.slot(index.base);
            let ptr = slot.ptr.add(chunk * slot.stride);
            if index.wide {
                let lanes = ptr.cast::<[i64; CHUNK]>().read_unaligned();
                for i in 0..CHUNK {
                    outside |= u32::from(lanes[i] as u64 >= axis.extent as u64);
                    offsets[i] = offsets[i].wrapping_add(lanes[i].wrapping_mul(axis.pitch));
                }
            } else {
                // Extents are below 2^31. A negative index that is read as unsigned is at least 2^31, so it is out of
                // bounds.
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
pub(crate) unsafe fn active_in_bounds(g: &ThreadGroup, access: &AccessOperands, chunk: usize) -> bool {
    let mut lanes = (chunk * CHUNK..(chunk + 1) * CHUNK).filter(|&l| g.is_active(l));
    // SAFETY: C5: the access belongs to the code; active lanes exist (G2).
    lanes.all(|lane| unsafe { address(g, access, lane) }.is_some())
}

/// Performs an affine load lane by lane because some lanes might be out of bounds.
#[inline(never)]
unsafe fn gather<E: StoredScalar>(g: &mut ThreadGroup, op: *const Op) -> *const Op {
    // SAFETY: C5: as in [`LoadAffine`], but only elements of active lanes that are in bounds are read.
    unsafe {
        let access = access(g, op);
        let lanes = g.mask.lo * CHUNK..(g.mask.hi * CHUNK).min(g.shape.lanes);
        let homes: Vec<*mut u8> = access.regs.iter().map(|&r| reset_register(&mut g.registers, access, r)).collect();
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
