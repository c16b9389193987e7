//! Active masks: divergence, reconvergence, and jumps where no lanes are left.

use std::marker::PhantomData;

use super::wide::WideLanes;
use super::{OpStep, each_chunk, load, store};
use crate::current_mask::{CurrentMask, LaneRanges, MaskInfo};
use crate::group::{GroupShape, Op, ThreadGroup};
use crate::group_registers::CHUNK;
use crate::op_shape::{OpFlow, OpShape, OperandRole, RegisterRole, Width};

/// Bytes of a chunk of mask lanes.
const STRIDE: usize = 4 * CHUNK;

#[inline(always)]
fn any(lanes: [u32; CHUNK]) -> bool {
    lanes.iter().fold(0, |a, b| a | b) != 0
}

/// The chunks that have active lanes, one bit each; the last bit stands for all chunks from there on.
#[derive(Clone, Copy, Default)]
pub(crate) struct ActiveChunks(u64);

impl ActiveChunks {
    #[inline(always)]
    pub fn add(&mut self, chunk: usize, active: bool) {
        self.0 |= u64::from(active) << chunk.min(63);
    }

    /// Adds the chunks from this one on, by bits. The largest group that computes masks has 64 chunks.
    #[inline(always)]
    pub fn add_all(&mut self, chunk: usize, active: u64) {
        self.0 |= active.wrapping_shl(chunk as u32);
    }

    #[inline(always)]
    fn none(&self) -> bool {
        self.0 == 0
    }

    /// Returns the summary of a mask with these chunks.
    #[inline(always)]
    fn info(self, shape: &GroupShape, full: bool) -> MaskInfo {
        let chunks = shape.lanes.div_ceil(CHUNK);
        let mut ranges = LaneRanges::NONE;
        let mut left = self.0;
        while left != 0 {
            let lo = left.trailing_zeros();
            let rest = !(left >> lo);
            let hi = (lo + rest.trailing_zeros()).min(64);
            left &= if hi == 64 { 0 } else { u64::MAX << hi };
            ranges.push(lo as usize, if hi == 64 { chunks.max(64) } else { hi as usize });
        }
        let ([(lo, _), ..], [.., (_, hi)]) = (ranges.as_slice(), ranges.as_slice()) else {
            return MaskInfo::default();
        };
        MaskInfo { lo: (*lo).into(), hi: (*hi).into(), full, active_row: None, ranges }
    }
}

/// Returns the lanes of a mask.
///
/// # Safety
/// `mask` is one of the code's.
#[inline(always)]
pub(crate) unsafe fn mask_ptr(g: &ThreadGroup, mask: u16) -> *mut u8 {
    // SAFETY: C2: the caller's mask is one of the code's, which has a register for each.
    unsafe { g.registers.slot(*g.code().registers.masks.get_unchecked(mask as usize)).ptr }
}

/// Clears a new mask in the gaps between the current mask's ranges of chunks, which ops skip: it has no lanes there.
#[inline(always)]
unsafe fn clear_gaps(mask: &CurrentMask, to: *mut u8) {
    if mask.ranges.count > 1 {
        // SAFETY: the caller's memory is that of a mask, which has all chunks (G2).
        unsafe { fill_gaps(mask, to) };
    }
}

#[inline(never)]
unsafe fn fill_gaps(mask: &CurrentMask, to: *mut u8) {
    for pair in mask.ranges.as_slice().windows(2) {
        for chunk in pair[0].1..pair[1].0 {
            // SAFETY: the caller's memory is that of a mask; gaps lie between chunks that the group has (G2).
            unsafe { store(to, STRIDE, chunk.into(), [0u32; CHUNK]) };
        }
    }
}

#[inline(always)]
fn set(g: &mut ThreadGroup, mask: u16, info: MaskInfo) {
    // SAFETY: C2: the caller's mask is one of the code's, and there is a summary for each (G4).
    unsafe { *g.masks.get_unchecked_mut(mask as usize) = info }
}

/// Splits the active lanes by the condition `a`: those where it is true become mask `b`, which becomes the current one,
/// the others mask `c`. Jumps to `x` if it is true in none.
pub(crate) struct SplitMask<V>(PhantomData<V>);

impl<V: WideLanes> OpStep for SplitMask<V> {
    const SHAPE: OpShape = OpShape::new("split")
        .a(RegisterRole::Read(Width::Four))
        .b(RegisterRole::SetMask)
        .c(RegisterRole::SetMask)
        .x(OperandRole::Target);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` has 4-byte lanes. C2: `b` and `c` are masks. All have the chunks of the current mask (G1,
        // G2). C3: another op follows.
        unsafe {
            let o = &*op;
            let (cond, current) = (g.registers.slot(o.a), g.mask.lanes.cast::<u8>());
            let (then, other) = (mask_ptr(g, o.b), mask_ptr(g, o.c));
            let (mut yes, mut no) = (ActiveChunks::default(), ActiveChunks::default());
            each_chunk(&g.mask, STRIDE, |chunk| {
                let m = V::load(current.add(chunk * STRIDE));
                let c = V::load(cond.ptr.add(chunk * cond.stride));
                let (t, e) = (m.and(c), m.without(c));
                yes.add(chunk, t.any());
                no.add(chunk, e.any());
                t.store(then.add(chunk * STRIDE));
                e.store(other.add(chunk * STRIDE));
            });
            clear_gaps(&g.mask, then);
            clear_gaps(&g.mask, other);
            let full = g.mask.full;
            set(g, o.b, yes.info(&g.shape, full && no.none()));
            set(g, o.c, no.info(&g.shape, full && yes.none()));
            if yes.none() {
                return g.op_at(o.x);
            }
            g.set_mask(o.b);
            op.add(1)
        }
    }
}

/// Keeps in mask `b` the active lanes where the condition `a` is true (`NEGATE`: false), and makes it the current one.
/// Jumps to `x` if none are left. `b` may be the current mask.
pub(crate) struct Keep<V, const NEGATE: bool>(PhantomData<V>);

impl<V: WideLanes, const NEGATE: bool> OpStep for Keep<V, NEGATE> {
    const SHAPE: OpShape =
        OpShape::new("keep").a(RegisterRole::Read(Width::Four)).b(RegisterRole::SetMask).x(OperandRole::Target);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` has 4-byte lanes. C2: `b` is a mask. Both have the chunks of the current mask (G1, G2). C3:
        // another op follows.
        unsafe {
            let o = &*op;
            let (cond, current) = (g.registers.slot(o.a), g.mask.lanes.cast::<u8>());
            let kept = mask_ptr(g, o.b);
            let mut yes = ActiveChunks::default();
            let mut lost = false;
            each_chunk(&g.mask, STRIDE, |chunk| {
                let m = V::load(current.add(chunk * STRIDE));
                let c = V::load(cond.ptr.add(chunk * cond.stride));
                let (t, e) = if NEGATE { (m.without(c), m.and(c)) } else { (m.and(c), m.without(c)) };
                lost |= e.any();
                yes.add(chunk, t.any());
                t.store(kept.add(chunk * STRIDE));
            });
            if keep_found(g, o.b, yes, lost) { op.add(1) } else { g.op_at(o.x) }
        }
    }
}

/// Keeps in mask `b` the active lanes where both conditions `a` and `c` are true, and makes it the current one; jumps
/// to `x` if none are left.
pub(crate) struct KeepBoth<V>(PhantomData<V>);

impl<V: WideLanes> OpStep for KeepBoth<V> {
    const SHAPE: OpShape = OpShape::new("keep both")
        .a(RegisterRole::Read(Width::Four))
        .b(RegisterRole::SetMask)
        .c(RegisterRole::Read(Width::Four))
        .x(OperandRole::Target);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C1: `a` and `c` have 4-byte lanes. C2: `b` is a mask. All have the chunks of the current mask (G1,
        // G2). C3: another op follows.
        unsafe {
            let o = &*op;
            let (p, q, current) = (g.registers.slot(o.a), g.registers.slot(o.c), g.mask.lanes.cast::<u8>());
            let kept = mask_ptr(g, o.b);
            let mut yes = ActiveChunks::default();
            let mut lost = false;
            each_chunk(&g.mask, STRIDE, |chunk| {
                let m = V::load(current.add(chunk * STRIDE));
                let c = V::load(p.ptr.add(chunk * p.stride)).and(V::load(q.ptr.add(chunk * q.stride)));
                let (t, e) = (m.and(c), m.without(c));
                lost |= e.any();
                yes.add(chunk, t.any());
                t.store(kept.add(chunk * STRIDE));
            });
            if keep_found(g, o.b, yes, lost) { op.add(1) } else { g.op_at(o.x) }
        }
    }
}

/// Makes mask `mask` current after its lanes were written in all chunks of the current one. Returns false if none are
/// left.
///
/// # Safety
/// `mask` is one of the code's.
#[inline(always)]
pub(crate) unsafe fn keep_found(g: &mut ThreadGroup, mask: u16, found: ActiveChunks, lost: bool) -> bool {
    // SAFETY: C2: the caller's mask is one of the code's.
    unsafe {
        clear_gaps(&g.mask, mask_ptr(g, mask));
        let full = g.mask.full && !lost;
        set(g, mask, found.info(&g.shape, full));
        g.set_mask(mask);
        !found.none()
    }
}

/// Makes mask `b` a copy of the current one and enters it.
pub(crate) struct CopyMask;

impl OpStep for CopyMask {
    const SHAPE: OpShape = OpShape::new("copy mask").b(RegisterRole::SetMask);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C2: `b` is a mask, which has the chunks of the current one (G2). C3: another op follows.
        unsafe {
            let o = &*op;
            let (from, to) = (g.mask.lanes.cast_mut().cast(), mask_ptr(g, o.b));
            each_chunk(&g.mask, STRIDE, |chunk| store(to, STRIDE, chunk, load::<u32>(from, STRIDE, chunk)));
            clear_gaps(&g.mask, to);
            set(g, o.b, g.mask.info());
            g.set_mask(o.b);
            op.add(1)
        }
    }
}

/// Removes the active lanes from all masks of list `y`; jumps to `x`.
pub(crate) struct Leave;

impl OpStep for Leave {
    const SHAPE: OpShape = OpShape::new("leave").x(OperandRole::Target).y(OperandRole::List).flow(OpFlow::Jump);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C4: `y` is a list of masks of the code (C2).
        unsafe {
            let o = &*op;
            let code = &*g.code;
            for &mask in code.mask_lists.get_unchecked(o.y as usize) {
                leave(g, mask);
            }
            g.op_at(o.x)
        }
    }
}

#[inline(always)]
unsafe fn leave(g: &mut ThreadGroup, mask: u16) {
    // SAFETY: C2: the caller's mask is one of the code's; its ranges and those of the current mask are chunks that both
    // have (G2).
    unsafe {
        let (gone, from) = (g.mask.lanes.cast_mut().cast(), mask_ptr(g, mask));
        let info = *g.masks.get_unchecked(mask as usize);
        let mut left = ActiveChunks::default();
        for &(lo, hi) in info.ranges.as_slice() {
            for chunk in lo as usize..hi as usize {
                let mut m = load::<u32>(from, STRIDE, chunk);
                let in_gone = |&(lo, hi): &(u16, u16)| (lo as usize..hi as usize).contains(&chunk);
                if g.mask.ranges.as_slice().iter().any(in_gone) {
                    let l = load::<u32>(gone, STRIDE, chunk);
                    for i in 0..CHUNK {
                        m[i] &= !l[i];
                    }
                    store(from, STRIDE, chunk, m);
                }
                left.add(chunk, any(m));
            }
        }
        set(g, mask, left.info(&g.shape, false));
    }
}

/// Makes mask `b` the current one; jumps to `x` if it is empty.
pub(crate) struct Resume;

impl OpStep for Resume {
    const SHAPE: OpShape = OpShape::new("resume").b(RegisterRole::Mask).x(OperandRole::Target);

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C3: `op` is one of the code's, with one behind.
        unsafe {
            let o = &*op;
            g.set_mask(o.b);
            if g.mask.is_empty() { g.op_at(o.x) } else { op.add(1) }
        }
    }
}

/// Sets mask 0 to all existing lanes.
pub(crate) fn all_lanes(g: &mut ThreadGroup) {
    let chunks = g.shape.lanes.div_ceil(CHUNK);
    // SAFETY: C2: there is a mask 0, with room for all chunks of a column (G1), and no more lanes than these have.
    unsafe {
        let ptr = mask_ptr(g, 0).cast::<u32>();
        for lane in 0..chunks * CHUNK {
            ptr.add(lane).write(if lane < g.shape.lanes { !0 } else { 0 });
        }
    }
    let row = (g.shape.lanes > 0).then_some((0, g.shape.lanes as u32));
    set(
        g,
        0,
        MaskInfo { lo: 0, hi: chunks as u32, full: true, active_row: row, ranges: LaneRanges::single(0, chunks) },
    );
}

/// Restricts all masks to the lanes of these warps, one bit each.
///
/// # Safety
/// The group's masks are those of its code.
pub(crate) unsafe fn restrict(g: &mut ThreadGroup, warps: u32) {
    for mask in 0..g.masks.len() as u16 {
        let info = g.masks[mask as usize];
        let mut left = ActiveChunks::default();
        for &(lo, hi) in info.ranges.as_slice() {
            for chunk in lo as usize..hi as usize {
                // SAFETY: C2: the mask is one of the code's; G2: the chunks are its.
                unsafe {
                    let ptr = mask_ptr(g, mask);
                    let stays = warps >> (chunk * CHUNK / 32) & 1 != 0;
                    let lanes = if stays { load::<u32>(ptr, STRIDE, chunk) } else { [0; CHUNK] };
                    store(ptr, STRIDE, chunk, lanes);
                    left.add(chunk, any(lanes));
                }
            }
        }
        set(g, mask, left.info(&g.shape, false));
    }
}

/// Sets mask `mask` to the lanes `from..to`, all of which are active, and makes it the current one; returns false if
/// there are none.
///
/// # Safety
/// `mask` is one of the code's, and the lanes exist.
pub(crate) unsafe fn keep_row(g: &mut ThreadGroup, mask: u16, from: usize, to: usize) -> bool {
    let (lo, hi) = (from / CHUNK, to.div_ceil(CHUNK));
    if from >= to {
        set(g, mask, MaskInfo::default());
        g.set_mask(mask);
        return false;
    }
    // SAFETY: C2: the caller's mask is one of the code's; the chunks are those of lanes that exist (G2).
    unsafe {
        let ptr = mask_ptr(g, mask);
        for chunk in lo..hi {
            store(ptr, STRIDE, chunk, [!0u32; CHUNK]);
        }
        let ptr = ptr.cast::<u32>();
        (lo * CHUNK..from).for_each(|lane| ptr.add(lane).write(0));
        (to..hi * CHUNK).for_each(|lane| ptr.add(lane).write(0));
    }
    let (row, full) = (Some((from as u32, to as u32)), to - from == g.shape.lanes);
    set(g, mask, MaskInfo { lo: lo as u32, hi: hi as u32, full, active_row: row, ranges: LaneRanges::single(lo, hi) });
    g.set_mask(mask);
    true
}

/// Keeps in mask `mask` the active lanes whose trip count `trips` is more than `turn`, and makes it the current one.
///
/// # Safety
/// `mask` is one of the code's, and `trips` a lane register.
pub(crate) unsafe fn keep_turning(g: &mut ThreadGroup, mask: u16, trips: u16, iteration: u64) {
    // SAFETY: C2: the caller's mask is one of the code's, and `trips` has 4-byte lanes in its chunks (G1, G2).
    unsafe {
        g.set_mask(mask);
        let (lanes, trips) = (mask_ptr(g, mask), g.registers.slot(trips).ptr);
        let iteration = iteration.min(u64::from(u32::MAX)) as u32;
        let mut yes = ActiveChunks::default();
        let mut lost = false;
        each_chunk(&g.mask, STRIDE, |chunk| {
            let mut m = load::<u32>(lanes, STRIDE, chunk);
            let t = load::<u32>(trips, STRIDE, chunk);
            let mut e = [0; CHUNK];
            for i in 0..CHUNK {
                let stays = if t[i] > iteration { !0 } else { 0 };
                e[i] = m[i] & !stays;
                m[i] &= stays;
            }
            lost |= any(e);
            yes.add(chunk, any(m));
            store(lanes, STRIDE, chunk, m);
        });
        let full = g.mask.full && !lost;
        set(g, mask, yes.info(&g.shape, full));
        g.set_mask(mask);
    }
}

/// Counts the active lanes in which a condition is true.
pub(crate) fn count(g: &ThreadGroup, cond: u16) -> usize {
    // SAFETY: C1: the caller's condition has 4-byte lanes; active lanes exist (G2).
    unsafe {
        let slot = g.registers.slot(cond);
        let active = g.active();
        active.filter(|&l| *slot.ptr.add(l / CHUNK * slot.stride).cast::<u32>().add(l % CHUNK) != 0).count()
    }
}
