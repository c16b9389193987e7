//! Comparisons of affine integers. An affine value takes its extremes at the corners of the group. If the comparison
//! has the same result for both extremes of the difference, it usually has that result in all lanes. For example, `i <
//! extent` is true in all lanes of most groups. Then the result is a constant, and no lane is computed.

use std::marker::PhantomData;

use super::affine_value::{AffineValue, coefficient, narrow_base};
use super::code::AffineIndex;
use super::group::{GroupShape, Op, OpFn, ThreadGroup};
use super::group_registers::{CHUNK, GroupRegisters, Slot};
use super::lanes::wide::WideLanes;
use super::lanes::{Fn2, LaneScalar, OpStep, arith, mask, pick, pick_wide};
use super::op_shape::{OpShape, OperandRole, RegisterRole, Width};
use clk_ir::def::BinOp;
use clk_runtime::Isa;
use clk_scalar::{NumericScalar, Scalar};

/// `d = left F right` for the two indices of access `x`. The slot of `d` may be redirected. Register `a` is false in
/// all lanes, register `b` is true in all lanes.
pub(crate) struct Compare<T, F>(PhantomData<(T, F)>);

/// Returns whether no value from `low` to `high` wraps in the type.
fn cannot_wrap(scalar: Scalar, low: i64, high: i64) -> bool {
    let range = if scalar == Scalar::U32 { 0..=u32::MAX.into() } else { i32::MIN.into()..=i64::from(i32::MAX) };
    range.contains(&low) && range.contains(&high)
}

impl<T: LaneScalar<Repr = T> + NumericScalar, F: Fn2<T, Out = bool> + Fn2<i64, Out = bool>> OpStep for Compare<T, F> {
    const SHAPE: OpShape = OpShape::new("compare")
        .d(RegisterRole::View)
        .a(RegisterRole::Uniform(Width::Four))
        .b(RegisterRole::Uniform(Width::Four))
        .x(OperandRole::Forms(2));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: `x` has two affine forms. C6: `d` is a register whose slot may be redirected, with a home of
        // 4-byte lanes (G1, G4). `a` and `b` are uniform, so they are readable in all chunks. C3: another op follows.
        unsafe {
            let o = &*op;
            let axes = &(&(*g.code).accesses).get_unchecked(o.x as usize).axes;
            let (left, right) = (AffineValue::of(&g.registers, &axes[0]), AffineValue::of(&g.registers, &axes[1]));
            if let Some(always) = constant_result::<F>(&g.shape, T::SCALAR, &left, &right, o.y == 1) {
                g.registers.set_slot(o.d, g.registers.slot(if always { o.b } else { o.a }));
                return op.add(1);
            }
            let home = g.registers.home(o.d);
            g.registers.set_slot(o.d, home);
            compare_lanes::<T, F>(&g.shape, home, &left, &right);
            op.add(1)
        }
    }
}

/// Returns the result of the comparison if the extremes at the corners of the group prove that it is the same in all
/// lanes.
#[inline(always)]
fn constant_result<F: Fn2<i64, Out = bool>>(
    shape: &GroupShape,
    scalar: Scalar,
    left: &AffineValue,
    right: &AffineValue,
    ordered: bool,
) -> Option<bool> {
    let fits = |value: &AffineValue| {
        let (low, high) = value.bounds(shape);
        cannot_wrap(scalar, low, high)
    };
    if !fits(left) || !fits(right) {
        return None;
    }
    let step = std::array::from_fn(|d| left.step[d] - right.step[d]);
    let (low, high) = AffineValue { base: left.base - right.base, step }.bounds(shape);
    let (at_low, at_high) = (F::call(low, 0), F::call(high, 0));
    // If an order relation holds for the smallest and the largest difference, it holds for all differences. Equality
    // holds for all differences only if the smallest and the largest are equal, and inequality only if 0 is not between
    // them.
    let is_constant = at_low == at_high && (ordered || low == high || low > 0 || high < 0);
    is_constant.then_some(at_low)
}

/// Computes the comparison lane by lane, with the type's wrapping arithmetic.
#[inline(always)]
unsafe fn compare_lanes<T: LaneScalar<Repr = T> + NumericScalar, F: Fn2<T, Out = bool>>(
    shape: &GroupShape,
    to: Slot,
    left: &AffineValue,
    right: &AffineValue,
) {
    let to = to.ptr.cast::<u32>();
    let [nx, ny, nz, nw] = shape.extents;
    let value = |v: i64| T::from_raw(v as u32 as u64);
    let (p, q) = (value(left.step[0]), value(right.step[0]));
    let mut lane = 0;
    for w in 0..nw as i64 {
        for z in 0..nz as i64 {
            for y in 0..ny as i64 {
                let row = |f: &AffineValue| value(f.base + f.step[3] * w + f.step[2] * z + f.step[1] * y);
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
        // SAFETY: as above; a column consists of whole chunks, so padding lanes are within it.
        unsafe { to.add(lane).write(0) };
    }
}

/// [`Compare`] for the indices of access `y`, fused with [`mask::Keep`]: the active lanes in which the comparison is
/// true become mask `b`, which becomes the current mask. Jumps to `x` if there are no such lanes. In a group of one
/// row, these lanes are usually a contiguous range, which is computed directly. Otherwise register `d` holds the
/// comparison's result. Register `a` is false in all lanes, register `c` is true in all lanes.
pub(crate) struct CompareKeep<V, T, F>(PhantomData<(V, T, F)>);

impl<V: WideLanes, T: LaneScalar<Repr = T> + NumericScalar, F: ComparisonOp + Fn2<T, Out = bool> + Fn2<i64, Out = bool>>
    OpStep for CompareKeep<V, T, F>
{
    const SHAPE: OpShape = OpShape::new("compare, keep")
        .d(RegisterRole::View)
        .a(RegisterRole::Uniform(Width::Four))
        .b(RegisterRole::SetMask)
        .c(RegisterRole::Uniform(Width::Four))
        .x(OperandRole::Target)
        .y(OperandRole::Forms(2));

    #[inline(always)]
    unsafe fn step(g: &mut ThreadGroup, op: *const Op) -> *const Op {
        // SAFETY: C5: `y` has two affine forms. C2: `b` is a mask; the lanes `from..to` are active. The copies of the
        // op are valid for the steps that run them: `d`, `a` and `c` are as in [`Compare`]. C3: another op follows.
        unsafe {
            let o = &*op;
            let axes = &(&(*g.code).accesses).get_unchecked(o.y as usize).axes;
            if (g.mask.full || g.mask.is_contiguous) && g.shape.is_row() {
                let (left, right) = (AffineRow::of(&g.registers, &axes[0]), AffineRow::of(&g.registers, &axes[1]));
                if let Some((from, to)) = holding_lanes(F::OP, T::SCALAR, left, right, g.shape.lanes as i64) {
                    let (first, end) =
                        if g.mask.full { (0, g.shape.lanes) } else { (g.mask.first_lane, g.mask.last_lane + 1) };
                    let has_lanes = mask::keep_row(g, o.b, first.max(from as usize), end.min(to as usize));
                    return if has_lanes { op.add(1) } else { g.op_at(o.x) };
                }
            }
            let ordered = !matches!(F::OP, BinOp::Eq | BinOp::Ne);
            let compare = Op { x: o.y, y: ordered.into(), b: o.c, ..*o };
            Compare::<T, F>::step(g, &compare);
            mask::Keep::<V, false>::step(g, &Op { a: o.d, ..*o });
            if g.mask.is_empty() { g.op_at(o.x) } else { op.add(1) }
        }
    }
}

/// A comparison with its operator.
pub(crate) trait ComparisonOp {
    const OP: BinOp;
}

macro_rules! relations {
    ($($name:ident)*) => {
        $(impl ComparisonOp for arith::$name {
            const OP: BinOp = BinOp::$name;
        })*
    };
}

relations!(Lt Le Gt Ge Eq Ne);

/// An affine value along the x axis.
#[derive(Clone, Copy)]
struct AffineRow {
    base: i64,
    step: i64,
}

impl AffineRow {
    #[inline(always)]
    unsafe fn of(registers: &GroupRegisters, index: &AffineIndex) -> AffineRow {
        // SAFETY: C5: affine forms have uniform registers of 4-byte lanes.
        unsafe { AffineRow { base: narrow_base(registers, index), step: coefficient(registers, index.coef[0]) } }
    }

    #[inline(always)]
    fn cannot_wrap(self, scalar: Scalar, lanes: i64) -> bool {
        let last = self.base + self.step * (lanes - 1);
        cannot_wrap(scalar, self.base.min(last), self.base.max(last))
    }
}

/// Returns the lanes of a row in which `left op right` holds, if they form one contiguous range and nothing wraps.
#[inline(always)]
fn holding_lanes(op: BinOp, scalar: Scalar, left: AffineRow, right: AffineRow, lanes: i64) -> Option<(i64, i64)> {
    if !left.cannot_wrap(scalar, lanes) || !right.cannot_wrap(scalar, lanes) {
        return None;
    }
    let (base, step) = (left.base - right.base, left.step - right.step);
    match op {
        BinOp::Lt => Some(lanes_below_zero(base, step, lanes)),
        BinOp::Le => Some(lanes_below_zero(base - 1, step, lanes)),
        BinOp::Gt => Some(lanes_below_zero(-base, -step, lanes)),
        BinOp::Ge => Some(lanes_below_zero(-base - 1, -step, lanes)),
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

/// Returns the range of x in `0..lanes` for which `base + step * x` is below zero.
#[inline(always)]
fn lanes_below_zero(base: i64, step: i64, lanes: i64) -> (i64, i64) {
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

/// Returns the op that makes the lanes in which a comparison is true the current mask.
pub(crate) fn compare_keep(op: BinOp, scalar: Scalar, isa: Isa) -> OpFn {
    if scalar == Scalar::U32 { compare_keep_of::<u32>(op, isa) } else { compare_keep_of::<i32>(op, isa) }
}

fn compare_keep_of<T: LaneScalar<Repr = T> + NumericScalar>(op: BinOp, isa: Isa) -> OpFn {
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

/// Returns the op for a comparison, and whether the comparison is an order relation.
pub(crate) fn compare(op: BinOp, scalar: Scalar, isa: Isa) -> Option<(OpFn, bool)> {
    match scalar {
        Scalar::I32 => compare_of::<i32>(op, isa),
        Scalar::U32 => compare_of::<u32>(op, isa),
        _ => None,
    }
}

fn compare_of<T: LaneScalar<Repr = T> + NumericScalar>(op: BinOp, isa: Isa) -> Option<(OpFn, bool)> {
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
