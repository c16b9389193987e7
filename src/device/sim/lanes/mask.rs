//! Divergence: which lanes are active, and jumps where none are.

use super::{Step, load, store};
use crate::device::sim::code::Op;
use crate::device::sim::group::{CHUNK, Group, MaskInfo};

/// Bytes of a chunk of mask lanes.
const STRIDE: usize = 4 * CHUNK;

#[inline(always)]
fn any(lanes: [u32; CHUNK]) -> bool {
    lanes.iter().fold(0, |a, b| a | b) != 0
}

/// The range of chunks that turned out to have active lanes.
#[derive(Clone, Copy)]
struct Range {
    lo: usize,
    hi: usize,
}

impl Range {
    const EMPTY: Range = Range { lo: usize::MAX, hi: 0 };

    #[inline(always)]
    fn add(&mut self, chunk: usize, active: bool) {
        if active {
            self.lo = self.lo.min(chunk);
            self.hi = chunk + 1;
        }
    }

    /// What is known of the mask whose lanes lie at `ptr`.
    #[inline(always)]
    unsafe fn info(self, ptr: *const u8, full: bool) -> MaskInfo {
        if self.hi == 0 {
            return MaskInfo::default();
        }
        unsafe {
            let first = load::<u32>(ptr.cast_mut(), STRIDE, self.lo).iter().position(|&l| l != 0).unwrap_or(0);
            let last = load::<u32>(ptr.cast_mut(), STRIDE, self.hi - 1).iter().rposition(|&l| l != 0).unwrap_or(0);
            MaskInfo {
                lo: self.lo as u32,
                hi: self.hi as u32,
                first: (self.lo * CHUNK + first) as u32,
                last: ((self.hi - 1) * CHUNK + last) as u32,
                full,
            }
        }
    }
}

#[inline(always)]
unsafe fn mask_ptr(g: &Group, mask: u16) -> *mut u8 {
    unsafe { g.slot(*g.code().masks.get_unchecked(mask as usize)).ptr }
}

#[inline(always)]
fn set(g: &mut Group, mask: u16, info: MaskInfo) {
    // SAFETY: the compiler numbers masks.
    unsafe { *g.masks.get_unchecked_mut(mask as usize) = info }
}

/// Splits the active lanes by the condition `a`: where it holds they go to mask `b`, which becomes the current one, the others
/// to mask `c`. Jumps to `x` if none hold.
pub struct Split;

impl Step for Split {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let o = &*op;
            let (cond, current) = (g.slot(o.a), g.mask.cast_mut().cast());
            let (then, other) = (mask_ptr(g, o.b), mask_ptr(g, o.c));
            let (mut yes, mut no) = (Range::EMPTY, Range::EMPTY);
            for chunk in g.lo..g.hi {
                let m = load::<u32>(current, STRIDE, chunk);
                let c = load::<u32>(cond.ptr, cond.stride, chunk);
                let (mut t, mut e) = ([0; CHUNK], [0; CHUNK]);
                for i in 0..CHUNK {
                    t[i] = m[i] & c[i];
                    e[i] = m[i] & !c[i];
                }
                yes.add(chunk, any(t));
                no.add(chunk, any(e));
                store(then, STRIDE, chunk, t);
                store(other, STRIDE, chunk, e);
            }
            let full = g.full;
            set(g, o.b, yes.info(then, full && no.hi == 0));
            set(g, o.c, no.info(other, full && yes.hi == 0));
            if yes.hi == 0 {
                return g.at(o.x);
            }
            g.enter(o.b);
            op.add(1)
        }
    }
}

/// Keeps in mask `b` the active lanes where the condition `a` holds (`NEGATE`: does not), and makes it the current one.
/// Jumps to `x` if none are left. `b` may be the current mask.
pub struct Keep<const NEGATE: bool>;

impl<const NEGATE: bool> Step for Keep<NEGATE> {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let o = &*op;
            let (cond, current) = (g.slot(o.a), g.mask.cast_mut().cast());
            let kept = mask_ptr(g, o.b);
            let mut yes = Range::EMPTY;
            let mut lost = [0; CHUNK];
            for chunk in g.lo..g.hi {
                let m = load::<u32>(current, STRIDE, chunk);
                let c = load::<u32>(cond.ptr, cond.stride, chunk);
                let mut t = [0; CHUNK];
                for i in 0..CHUNK {
                    t[i] = m[i] & if NEGATE { !c[i] } else { c[i] };
                    lost[i] |= m[i] ^ t[i];
                }
                yes.add(chunk, any(t));
                store(kept, STRIDE, chunk, t);
            }
            let full = g.full && !any(lost);
            set(g, o.b, yes.info(kept, full));
            g.enter(o.b);
            if yes.hi == 0 { g.at(o.x) } else { op.add(1) }
        }
    }
}

/// Makes mask `b` a copy of the current one and enters it.
pub struct CopyMask;

impl Step for CopyMask {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let o = &*op;
            let (from, to) = (g.mask.cast_mut().cast(), mask_ptr(g, o.b));
            for chunk in g.lo..g.hi {
                store(to, STRIDE, chunk, load::<u32>(from, STRIDE, chunk));
            }
            let info = MaskInfo {
                lo: g.lo as u32,
                hi: g.hi as u32,
                first: g.first_lane as u32,
                last: g.last_lane as u32,
                full: g.full,
            };
            set(g, o.b, info);
            g.enter(o.b);
            op.add(1)
        }
    }
}

/// The active lanes leave all masks of list `y`; jumps to `x`.
pub struct Leave;

impl Step for Leave {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let o = &*op;
            let code = &*g.code;
            for &mask in code.lists.get_unchecked(o.y as usize) {
                leave(g, mask);
            }
            g.at(o.x)
        }
    }
}

#[inline(always)]
unsafe fn leave(g: &mut Group, mask: u16) {
    unsafe {
        let (gone, from) = (g.mask.cast_mut().cast(), mask_ptr(g, mask));
        let info = *g.masks.get_unchecked(mask as usize);
        let mut left = Range::EMPTY;
        for chunk in info.lo as usize..info.hi as usize {
            let mut m = load::<u32>(from, STRIDE, chunk);
            if (g.lo..g.hi).contains(&chunk) {
                let l = load::<u32>(gone, STRIDE, chunk);
                for i in 0..CHUNK {
                    m[i] &= !l[i];
                }
                store(from, STRIDE, chunk, m);
            }
            left.add(chunk, any(m));
        }
        set(g, mask, left.info(from, false));
    }
}

/// Makes mask `b` the current one; jumps to `x` if it is empty.
pub struct Resume;

impl Step for Resume {
    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        unsafe {
            let o = &*op;
            g.enter(o.b);
            if g.lo >= g.hi { g.at(o.x) } else { op.add(1) }
        }
    }
}

/// The lanes that exist, as mask 0.
pub fn all_lanes(g: &mut Group) {
    let chunks = g.lanes.div_ceil(CHUNK);
    // SAFETY: mask 0 has room for the padded lanes.
    unsafe {
        let ptr = mask_ptr(g, 0).cast::<u32>();
        for lane in 0..chunks * CHUNK {
            ptr.add(lane).write(if lane < g.lanes { !0 } else { 0 });
        }
    }
    let last = g.lanes.saturating_sub(1) as u32;
    set(g, 0, MaskInfo { lo: 0, hi: chunks as u32, first: 0, last, full: true });
}

/// Keeps in mask `mask` the active lanes whose `trips` are more than `turn`, and makes it the current one.
///
/// # Safety
/// `mask` is one of the code's, and `trips` a lane register.
pub unsafe fn keep_turning(g: &mut Group, mask: u16, trips: u16, turn: u64) {
    unsafe {
        g.enter(mask);
        let (lanes, trips) = (mask_ptr(g, mask), g.slot(trips).ptr);
        let turn = turn.min(u64::from(u32::MAX)) as u32;
        let mut yes = Range::EMPTY;
        let mut lost = [0; CHUNK];
        for chunk in g.lo..g.hi {
            let mut m = load::<u32>(lanes, STRIDE, chunk);
            let t = load::<u32>(trips, STRIDE, chunk);
            for i in 0..CHUNK {
                let stays = m[i] & if t[i] > turn { !0 } else { 0 };
                lost[i] |= m[i] ^ stays;
                m[i] = stays;
            }
            yes.add(chunk, any(m));
            store(lanes, STRIDE, chunk, m);
        }
        let full = g.full && !any(lost);
        set(g, mask, yes.info(lanes, full));
        g.enter(mask);
    }
}

/// In how many of the active lanes a condition holds.
pub fn count(g: &Group, cond: u16) -> usize {
    // SAFETY: conditions are 4-byte registers.
    unsafe {
        let slot = g.slot(cond);
        let active = g.active();
        active.filter(|&l| *slot.ptr.add(l / CHUNK * slot.stride).cast::<u32>().add(l % CHUNK) != 0).count()
    }
}
