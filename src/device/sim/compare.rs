//! Comparisons of affine integers. The lanes for which they hold are mostly known from the corners of the group alone: an index
//! against an extent holds for all lanes but at the edges. Then the result is a constant, and no lane is computed.

use std::marker::PhantomData;

use super::code::{AXES, Coef, Index};
use super::group::{CHUNK, Group, Op, OpFn, Slot};
use super::lanes::wide::Wide;
use super::lanes::{Fn2, Isa, Lane, Step, arith, mask, pick, pick_wide};
use super::shape::{Field, Shape, Width, Word};
use crate::ir::def::BinOp;
use crate::lang::scalar::{Number, Scalar};

/// `d = left F right` of the two indices of access `x`. The slot of `d` may be redirected; `a` and `b` are constant registers
/// that are false and true in all lanes.
pub(crate) struct Compare<T, F>(PhantomData<(T, F)>);

/// The value of an affine index: a base and a step per axis.
struct Form {
    base: i64,
    step: [i64; AXES],
}

unsafe fn form(g: &Group, index: &Index) -> Form {
    // SAFETY: C5: forms have uniform registers of 4-byte lanes.
    unsafe {
        let base = if index.unsigned { g.first::<u32>(index.base).into() } else { g.first::<i32>(index.base).into() };
        let step = index.coef.map(|c| match c {
            Coef::Zero => 0,
            Coef::Const(c) => c.into(),
            Coef::Reg(r) => i64::from(g.first::<i32>(r)),
        });
        Form { base, step }
    }
}

impl Form {
    /// Returns the smallest and the largest value in the group.
    fn bounds(&self, g: &Group) -> (i64, i64) {
        let spans = (0..AXES).map(|d| self.step[d] * (g.shape[d] as i64 - 1));
        spans.fold((self.base, self.base), |(low, high), span| (low + span.min(0), high + span.max(0)))
    }
}

/// Returns whether no value in this range wraps in a type.
fn fits(scalar: Scalar, (low, high): (i64, i64)) -> bool {
    let range = if scalar == Scalar::U32 { 0..=u32::MAX.into() } else { i32::MIN.into()..=i64::from(i32::MAX) };
    range.contains(&low) && range.contains(&high)
}

impl<T: Lane<Repr = T> + Number, F: Fn2<T, Out = bool> + Fn2<i64, Out = bool>> Step for Compare<T, F> {
    const SHAPE: Shape = Shape::new("compare")
        .d(Field::View)
        .a(Field::Uniform(Width::Four))
        .b(Field::Uniform(Width::Four))
        .x(Word::Forms(2));

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C5: `x` has two affine forms. C6: `d` is a register whose slot may be redirected, with a home of 4-byte lanes
        // (G1, G4); `a` and `b` are uniform, so that they are readable in all chunks. C3: there is an op behind.
        unsafe {
            let o = &*op;
            let axes = &(&(*g.code).accesses).get_unchecked(o.x as usize).axes;
            let (left, right) = (form(g, &axes[0]), form(g, &axes[1]));
            if let Some(always) = decide::<F>(g, T::SCALAR, &left, &right, o.y == 1) {
                *g.slots.add(o.d as usize) = g.slot(if always { o.b } else { o.a });
                return op.add(1);
            }
            let home = *g.homes.add(o.d as usize);
            *g.slots.add(o.d as usize) = home;
            lanes::<T, F>(g, home, &left, &right);
            op.add(1)
        }
    }
}

/// Returns the result if it is the same in all lanes, as far as the corners prove that.
#[inline(always)]
fn decide<F: Fn2<i64, Out = bool>>(
    g: &Group,
    scalar: Scalar,
    left: &Form,
    right: &Form,
    ordered: bool,
) -> Option<bool> {
    if !fits(scalar, left.bounds(g)) || !fits(scalar, right.bounds(g)) {
        return None;
    }
    let step = std::array::from_fn(|d| left.step[d] - right.step[d]);
    let (low, high) = Form { base: left.base - right.base, step }.bounds(g);
    let (at_low, at_high) = (F::call(low, 0), F::call(high, 0));
    // An order relation that holds at both ends holds in between; equality does so only if both ends are equal, and inequality
    // only if there is no zero in between.
    let settled = at_low == at_high && (ordered || low == high || low > 0 || high < 0);
    settled.then_some(at_low)
}

/// Computes the comparison lane by lane, wrapping as the type does.
#[inline(always)]
unsafe fn lanes<T: Lane<Repr = T> + Number, F: Fn2<T, Out = bool>>(g: &Group, to: Slot, left: &Form, right: &Form) {
    let to = to.ptr.cast::<u32>();
    let [nx, ny, nz, nw] = g.shape;
    let value = |v: i64| T::from_raw(v as u32 as u64);
    let (p, q) = (value(left.step[0]), value(right.step[0]));
    let mut lane = 0;
    for w in 0..nw as i64 {
        for z in 0..nz as i64 {
            for y in 0..ny as i64 {
                let row = |f: &Form| value(f.base + f.step[3] * w + f.step[2] * z + f.step[1] * y);
                let (a, b) = (row(left), row(right));
                for x in 0..nx {
                    let at = value(x as i64);
                    let holds = F::call(a.op_add(p.op_mul(at)), b.op_add(q.op_mul(at)));
                    // SAFETY: the caller's `to` is a register's own memory, with room for all lanes of the shape (G1).
                    unsafe { to.add(lane + x).write(if holds { !0 } else { 0 }) };
                }
                lane += nx;
            }
        }
    }
    // Padding lanes are false.
    for lane in lane..lane.next_multiple_of(CHUNK) {
        // SAFETY: as above: columns have whole chunks.
        unsafe { to.add(lane).write(0) };
    }
}

/// [`Compare`] of the indices of access `y`, fused with [`mask::Keep`]: the active lanes where it holds become mask `b`, which
/// becomes the current one; jumps to `x` if there are none. In one row these lanes mostly are a contiguous range. `d` is a
/// temporary for the case that the range is not known; `a` and `c` are constant registers that are false and true in all lanes.
pub(crate) struct CompareKeep<V, T, F>(PhantomData<(V, T, F)>);

impl<V: Wide, T: Lane<Repr = T> + Number, F: Relation + Fn2<T, Out = bool> + Fn2<i64, Out = bool>> Step
    for CompareKeep<V, T, F>
{
    const SHAPE: Shape = Shape::new("compare, keep")
        .d(Field::View)
        .a(Field::Uniform(Width::Four))
        .b(Field::SetMask)
        .c(Field::Uniform(Width::Four))
        .x(Word::Target)
        .y(Word::Forms(2));

    #[inline(always)]
    unsafe fn step(g: &mut Group, op: *const Op) -> *const Op {
        // SAFETY: C5: `y` has two affine forms. C2: `b` is a mask; the lanes from `from` up to `to` are active. The copies of the
        // op suit the steps that run them: `d`, `a` and `c` are as in [`Compare`]. C3: there is an op behind.
        unsafe {
            let o = &*op;
            let axes = &(&(*g.code).accesses).get_unchecked(o.y as usize).axes;
            if (g.full || g.solid) && g.shape[0] == g.lanes {
                let (left, right) = (Line::of(g, &axes[0]), Line::of(g, &axes[1]));
                if let Some((from, to)) = range(F::OP, T::SCALAR, left, right, g.lanes as i64) {
                    let (first, end) = if g.full { (0, g.lanes) } else { (g.first_lane, g.last_lane + 1) };
                    let kept = mask::keep_row(g, o.b, first.max(from as usize), end.min(to as usize));
                    return if kept { op.add(1) } else { g.at(o.x) };
                }
            }
            let ordered = !matches!(F::OP, BinOp::Eq | BinOp::Ne);
            let compare = Op { x: o.y, y: ordered.into(), b: o.c, ..*o };
            Compare::<T, F>::step(g, &compare);
            mask::Keep::<V, false>::step(g, &Op { a: o.d, ..*o });
            if g.lo >= g.hi { g.at(o.x) } else { op.add(1) }
        }
    }
}

/// A comparison with its operator.
pub(crate) trait Relation {
    const OP: BinOp;
}

macro_rules! relations {
    ($($name:ident)*) => {
        $(impl Relation for arith::$name {
            const OP: BinOp = BinOp::$name;
        })*
    };
}

relations!(Lt Le Gt Ge Eq Ne);

/// An affine value along x alone.
#[derive(Clone, Copy)]
struct Line {
    base: i64,
    step: i64,
}

impl Line {
    #[inline(always)]
    unsafe fn of(g: &Group, index: &Index) -> Line {
        // SAFETY: C5: forms have uniform registers of 4-byte lanes.
        let base = unsafe {
            if index.unsigned { g.first::<u32>(index.base).into() } else { g.first::<i32>(index.base).into() }
        };
        let step = match index.coef[0] {
            Coef::Zero => 0,
            Coef::Const(c) => c.into(),
            // SAFETY: C5: the same.
            Coef::Reg(r) => i64::from(unsafe { g.first::<i32>(r) }),
        };
        Line { base, step }
    }

    #[inline(always)]
    fn fits(self, scalar: Scalar, lanes: i64) -> bool {
        let last = self.base + self.step * (lanes - 1);
        fits(scalar, (self.base.min(last), self.base.max(last)))
    }
}

/// Returns the lanes of a row where `left op right` holds, if they are one contiguous range and nothing wraps.
#[inline(always)]
fn range(op: BinOp, scalar: Scalar, left: Line, right: Line, lanes: i64) -> Option<(i64, i64)> {
    if !left.fits(scalar, lanes) || !right.fits(scalar, lanes) {
        return None;
    }
    let (base, step) = (left.base - right.base, left.step - right.step);
    match op {
        BinOp::Lt => Some(below(base, step, lanes)),
        BinOp::Le => Some(below(base - 1, step, lanes)),
        BinOp::Gt => Some(below(-base, -step, lanes)),
        BinOp::Ge => Some(below(-base - 1, -step, lanes)),
        _ => {
            let zero = zero_at(base, step).filter(|x| (0..lanes).contains(x));
            match (op == BinOp::Eq, zero) {
                _ if step == 0 => Some((0, if (base == 0) == (op == BinOp::Eq) { lanes } else { 0 })),
                (true, zero) => Some(zero.map_or((0, 0), |x| (x, x + 1))),
                (false, None) => Some((0, lanes)),
                (false, Some(0)) => Some((1, lanes)),
                (false, Some(x)) => (x == lanes - 1).then_some((0, x)),
            }
        }
    }
}

/// Returns where `base + step * x` is below zero, for x from 0 up to `lanes`.
#[inline(always)]
fn below(base: i64, step: i64, lanes: i64) -> (i64, i64) {
    match step {
        0 => (0, if base < 0 { lanes } else { 0 }),
        1 => (0, (-base).clamp(0, lanes)),
        2.. => (0, (-base).div_euclid(step).saturating_add(i64::from((-base).rem_euclid(step) > 0)).clamp(0, lanes)),
        -1 => ((base + 1).clamp(0, lanes), lanes),
        _ => ((base.div_euclid(-step) + 1).clamp(0, lanes), lanes),
    }
}

/// Returns the x for which `base + step * x` is zero.
#[inline(always)]
fn zero_at(base: i64, step: i64) -> Option<i64> {
    match step {
        0 => None,
        1 => Some(-base),
        _ => (base % step == 0).then(|| -base / step),
    }
}

/// Returns the op of a comparison whose lanes become a mask.
pub(crate) fn compare_keep(op: BinOp, scalar: Scalar, isa: Isa) -> OpFn {
    if scalar == Scalar::U32 { keep_of::<u32>(op, isa) } else { keep_of::<i32>(op, isa) }
}

fn keep_of<T: Lane<Repr = T> + Number>(op: BinOp, isa: Isa) -> OpFn {
    match op {
        BinOp::Lt => pick_wide!(isa, V => CompareKeep<V, T, arith::Lt>),
        BinOp::Le => pick_wide!(isa, V => CompareKeep<V, T, arith::Le>),
        BinOp::Gt => pick_wide!(isa, V => CompareKeep<V, T, arith::Gt>),
        BinOp::Ge => pick_wide!(isa, V => CompareKeep<V, T, arith::Ge>),
        BinOp::Ne => pick_wide!(isa, V => CompareKeep<V, T, arith::Ne>),
        _ => pick_wide!(isa, V => CompareKeep<V, T, arith::Eq>),
    }
}

/// Returns the negation of a comparison.
pub(crate) fn opposite(op: BinOp) -> BinOp {
    match op {
        BinOp::Lt => BinOp::Ge,
        BinOp::Le => BinOp::Gt,
        BinOp::Gt => BinOp::Le,
        BinOp::Ge => BinOp::Lt,
        BinOp::Eq => BinOp::Ne,
        _ => BinOp::Eq,
    }
}

/// Returns the op of a comparison, and whether it is an order relation.
pub(crate) fn compare(op: BinOp, scalar: Scalar, isa: Isa) -> Option<(OpFn, bool)> {
    match scalar {
        Scalar::I32 => compare_of::<i32>(op, isa),
        Scalar::U32 => compare_of::<u32>(op, isa),
        _ => None,
    }
}

fn compare_of<T: Lane<Repr = T> + Number>(op: BinOp, isa: Isa) -> Option<(OpFn, bool)> {
    Some(match op {
        BinOp::Lt => (pick::<Compare<T, arith::Lt>>(isa), true),
        BinOp::Le => (pick::<Compare<T, arith::Le>>(isa), true),
        BinOp::Gt => (pick::<Compare<T, arith::Gt>>(isa), true),
        BinOp::Ge => (pick::<Compare<T, arith::Ge>>(isa), true),
        BinOp::Eq => (pick::<Compare<T, arith::Eq>>(isa), false),
        BinOp::Ne => (pick::<Compare<T, arith::Ne>>(isa), false),
        _ => return None,
    })
}
