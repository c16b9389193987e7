//! Emits the checks that `--check` requires in a region, in addition to bounds checks.
//!
//! Input: operators and accesses as they are built, and facts about the kernel's checks. Output: instructions that exit
//! the region if the interpreter might report a fault, and instructions that update the initialization bytes. Main
//! idea: machine code never reports a fault itself. If a fault is possible, it takes a side exit, and the interpreter
//! runs the same statements and reports the fault.

use super::access::{AddressBase, AxisIndex, LeafAccess};
use super::affine_form::{FormOperand, FormSymbol, LaneAffine};
use super::*;
use crate::access_site::AccessKind;
use crate::lanes::raw_of_lane;
use crate::lir::check_facts::AccessGuard;
use clk_ir::def::{BinOp, Place};
use clk_scalar::exact::is_reported_conversion;

/// Adding this value maps the range of `i32` to `0..I32_RANGE`.
const I32_BIAS: i64 = 1 << 31;
const I32_RANGE: i64 = 1 << 32;

impl RegionBuilder<'_> {
    /// Returns whether the operator of an expression may overflow and must be checked.
    pub(super) fn may_overflow(&self, e: ExprId) -> bool {
        self.outside.guards.arithmetic && !self.outside.guards.exact.contains(&e)
    }

    /// Emits a side exit that is taken if a binary operator might overflow, or if a shift amount might be out of range.
    /// `ty` is the type of the left operand. `exact`: the operator cannot overflow.
    pub(super) fn guard_binary(
        &mut self,
        op: BinOp,
        ty: Scalar,
        right_ty: Scalar,
        a: &ComponentValue,
        b: &ComponentValue,
        exact: bool,
    ) -> Option<()> {
        if !self.outside.guards.arithmetic {
            return Some(());
        }
        match op {
            BinOp::Shl | BinOp::Shr => self.guard_shift(ty, right_ty, b),
            BinOp::Add | BinOp::Sub | BinOp::Mul if !exact && matches!(ty, Scalar::I32 | Scalar::I64) => {
                self.guard_sum(op, ty, a, b)
            }
            BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Rem | BinOp::Pow
                if !exact && matches!(ty, Scalar::I8 | Scalar::I16) =>
            {
                None
            }
            BinOp::Pow if ty.is_int() => None,
            BinOp::Div | BinOp::Rem if !exact && ty == Scalar::I32 => self.guard_quotient(a, b),
            // The interpreter handles operators on 8-bit and 16-bit integers that may overflow.
            BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Rem
                if !exact && ty.is_int() && ty.is_signed() && ty.size() < 4 =>
            {
                None
            }
            // A 64-bit scalar division by -1 has already taken a side exit, and 64-bit vectors have no division.
            _ => Some(()),
        }
    }

    /// Emits a side exit that is taken if a negation might overflow.
    pub(super) fn guard_negation(&mut self, ty: Scalar, a: &ComponentValue) -> Option<()> {
        let zero = if ty.size() == 8 { ComponentValue::Bits(0) } else { ComponentValue::Affine(LaneAffine::imm(0)) };
        self.guard_binary(BinOp::Sub, ty, ty, &zero, a, false)
    }

    fn guard_sum(&mut self, op: BinOp, ty: Scalar, a: &ComponentValue, b: &ComponentValue) -> Option<()> {
        match (a, b) {
            (ComponentValue::Affine(x), ComponentValue::Affine(y)) if ty == Scalar::I32 => {
                self.guard_linear(op, x, y);
                Some(())
            }
            _ if ty == Scalar::I64 && a.is_scalar() && b.is_scalar() => self.guard_wide_scalars(op, a, b),
            _ => {
                let doubt = self.overflow_lanes(op, ty, a, b)?;
                doubt.into_iter().for_each(|doubt| self.leave_any(doubt));
                Some(())
            }
        }
    }

    /// Emits a side exit that is taken if the mask of [suspect](RegionBuilder::suspect_lanes) lanes is not empty.
    fn leave_any(&mut self, doubt: LaneValue) {
        self.push(LaneInst::new(LaneOp::ExitIfAny, LaneValue::NONE, &[doubt]));
    }

    /// Returns the active lanes for which a comparison holds.
    fn suspect_lanes(&mut self, rel: LaneComparison, elem: LaneElem, x: LaneValue, y: LaneValue) -> LaneValue {
        self.result_under(LaneOp::Compare(rel, elem), LaneTy::Mask, &[x, y], self.flow.mask)
    }

    // Checks of affine forms

    /// Checks that the smallest and the largest result over all lanes and loop iterations fit in an `i32`. Also checks
    /// the operands, because the value of an affine form is defined only modulo 2^32.
    fn guard_linear(&mut self, op: BinOp, a: &LaneAffine, b: &LaneAffine) {
        let (p, q) = self.interval(a);
        let (r, s) = self.interval(b);
        self.guard_word(p, q);
        self.guard_word(r, s);
        let mut wide = |bin, x, y| self.wide_op(bin, Some(x), y);
        let (low, high) = match op {
            BinOp::Add => (wide(LaneBinOp::Add, p, r), wide(LaneBinOp::Add, q, s)),
            BinOp::Sub => (wide(LaneBinOp::Sub, p, s), wide(LaneBinOp::Sub, q, r)),
            _ => {
                let products = [(p, r), (p, s), (q, r), (q, s)].map(|(x, y)| wide(LaneBinOp::Mul, x, y));
                let [first, rest @ ..] = products;
                rest.iter().fold((first, first), |(low, high), &product| {
                    (wide(LaneBinOp::Min, low, product), wide(LaneBinOp::Max, high, product))
                })
            }
        };
        self.guard_word(low, high);
    }

    /// Returns the lower and the upper bound of an affine form's value, as `i64`s.
    fn interval(&mut self, form: &LaneAffine) -> (LaneValue, LaneValue) {
        let base = self.wide(form.base);
        let (mut low, mut high) = (base, base);
        for &(sym, c) in &form.terms {
            let (first, last) = match sym {
                FormSymbol::Axis(axis) => (
                    self.pure(LaneOp::Input(RegionInput::FirstCoord(axis)), LaneTy::I64, &[]),
                    self.pure(LaneOp::Input(RegionInput::LastCoord(axis)), LaneTy::I64, &[]),
                ),
                FormSymbol::Counter(counter) => {
                    let range = self.flow.loops.iter().find_map(|l| l.counter.filter(|c| c.0 == counter));
                    match range {
                        Some((_, last)) => (self.constant(LaneTy::I64, 0), last),
                        None => (counter, counter),
                    }
                }
            };
            let factor = self.wide(c);
            let p = self.wide_op(LaneBinOp::Mul, Some(first), factor);
            let q = self.wide_op(LaneBinOp::Mul, Some(last), factor);
            let (least, most) = match c {
                FormOperand::Imm(c) if c >= 0 => (p, q),
                FormOperand::Imm(_) => (q, p),
                FormOperand::Value(_) => {
                    (self.wide_op(LaneBinOp::Min, Some(p), q), self.wide_op(LaneBinOp::Max, Some(p), q))
                }
            };
            low = self.wide_op(LaneBinOp::Add, Some(low), least);
            high = self.wide_op(LaneBinOp::Add, Some(high), most);
        }
        (low, high)
    }

    /// Emits a side exit that is taken unless both bounds fit in an `i32`. It is in the setup if the bounds are
    /// computed there.
    fn guard_word(&mut self, low: LaneValue, high: LaneValue) {
        let level = self.levels[low.index()].max(self.levels[high.index()]);
        let half = self.constant(LaneTy::I64, I32_BIAS);
        let words = self.constant(LaneTy::I64, I32_RANGE);
        let low = self.wide_op(LaneBinOp::Add, Some(low), half);
        let high = self.wide_op(LaneBinOp::Add, Some(high), half);
        if level == 0 {
            self.check_at(0, LaneValue::NONE, LaneOp::CheckRange, &[low, high, words]);
            return;
        }
        for bound in [low, high] {
            self.check_at(self.level(), self.flow.mask, LaneOp::CheckUniform, &[bound, words]);
        }
    }

    // Checks of 64-bit scalars

    fn guard_wide_scalars(&mut self, op: BinOp, a: &ComponentValue, b: &ComponentValue) -> Option<()> {
        let (x, y) = (self.uniform_value(a, Scalar::I64)?, self.uniform_value(b, Scalar::I64)?);
        if op == BinOp::Mul {
            // If both operands fit in an `i32`, the product fits in an `i64`. Otherwise, the region exits.
            self.guard_word(x, x);
            self.guard_word(y, y);
            return Some(());
        }
        let bin = if op == BinOp::Add { LaneBinOp::Add } else { LaneBinOp::Sub };
        let mut wide = |bin, x, y| self.wide_op(bin, Some(x), y);
        let sum = wide(bin, x, y);
        let (p, q) = match bin {
            LaneBinOp::Add => (wide(LaneBinOp::Xor, x, sum), wide(LaneBinOp::Xor, y, sum)),
            _ => (wide(LaneBinOp::Xor, x, y), wide(LaneBinOp::Xor, x, sum)),
        };
        let sign = wide(LaneBinOp::And, p, q);
        // As an unsigned number, the limit is 2^63, so the check fails if the sign bit of `sign` is set.
        let positive = self.constant(LaneTy::I64, i64::MIN);
        self.check_at(self.level(), self.flow.mask, LaneOp::CheckUniform, &[sign, positive]);
        Some(())
    }

    // Checks of vectors

    /// Returns masks of the lanes in which an operator might overflow. A lane is suspect if any mask contains it.
    fn overflow_lanes(
        &mut self,
        op: BinOp,
        ty: Scalar,
        a: &ComponentValue,
        b: &ComponentValue,
    ) -> Option<Vec<LaneValue>> {
        let elem = LaneElem::from_scalar(ty)?;
        let (x, y) = (self.vector(a, ty), self.vector(b, ty));
        if op == BinOp::Mul {
            return Some(match (constant_int(a), constant_int(b)) {
                (Some(c), _) if !elem.is_wide() => vec![self.product_overflow_lanes(y, c)],
                (_, Some(c)) if !elem.is_wide() => vec![self.product_overflow_lanes(x, c)],
                _ if elem.is_wide() => vec![self.lanes_outside_i32(x), self.lanes_outside_i32(y)],
                _ => vec![self.large_product_lanes(x, y)],
            });
        }
        let bin = if op == BinOp::Add { LaneBinOp::Add } else { LaneBinOp::Sub };
        // Swap the operands of a sum so that a constant is the second operand.
        let (x, y, b) = if bin == LaneBinOp::Add && constant_int(a).is_some() { (y, x, a) } else { (x, y, b) };
        let vector = |b: &mut Self, bin, x, y| b.pure(LaneOp::Vector(bin, elem), elem.vector_ty(), &[x, y]);
        let sum = vector(self, bin, x, y);
        let down = match (constant_int(b), bin) {
            (Some(c), LaneBinOp::Add) => Some(c < 0),
            (Some(c), _) => Some(c > 0),
            (None, _) => None,
        };
        if let Some(down) = down {
            let rel = if down { LaneComparison::Gt } else { LaneComparison::Lt };
            return Some(vec![self.suspect_lanes(rel, elem, sum, x)]);
        }
        let (p, q) = match bin {
            LaneBinOp::Add => (vector(self, LaneBinOp::Xor, x, sum), vector(self, LaneBinOp::Xor, y, sum)),
            _ => (vector(self, LaneBinOp::Xor, x, y), vector(self, LaneBinOp::Xor, x, sum)),
        };
        let signs = vector(self, LaneBinOp::And, p, q);
        let zero = self.splat(elem.is_wide(), 0);
        Some(vec![self.suspect_lanes(LaneComparison::Lt, elem, signs, zero)])
    }

    /// Returns the lanes whose product with a constant does not fit in an `i32`.
    fn product_overflow_lanes(&mut self, x: LaneValue, c: i64) -> LaneValue {
        let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
        let (low, high) = match c {
            0 => (least, most),
            1.. => (least / c, most / c),
            _ => (most / c, (least / c).min(most)),
        };
        let first = self.splat(false, low as u32 as u64);
        let range = self.splat(false, (high - low) as u64);
        let shifted = self.pure(LaneOp::Vector(LaneBinOp::Sub, LaneElem::U32), LaneTy::V32, &[x, first]);
        self.suspect_lanes(LaneComparison::Gt, LaneElem::U32, shifted, range)
    }

    /// Returns the lanes whose `i64` does not fit in an `i32`.
    fn lanes_outside_i32(&mut self, x: LaneValue) -> LaneValue {
        let (half, words) = (self.splat(true, I32_BIAS as u64), self.splat(true, I32_RANGE as u64));
        let shifted = self.pure(LaneOp::Vector(LaneBinOp::Add, LaneElem::U64), LaneTy::V64, &[x, half]);
        self.suspect_lanes(LaneComparison::Ge, LaneElem::U64, shifted, words)
    }

    /// Returns the lanes whose product might not fit in an `i32`. The product is estimated in `f32`; the total error of
    /// the three roundings is below 2^31 · 2^-22.
    fn large_product_lanes(&mut self, x: LaneValue, y: LaneValue) -> LaneValue {
        let [x, y] = [x, y].map(|v| self.pure(LaneOp::Convert(LaneElem::I32, LaneElem::F32), LaneTy::V32, &[v]));
        let product = self.pure(LaneOp::Vector(LaneBinOp::Mul, LaneElem::F32), LaneTy::V32, &[x, y]);
        let size = self.pure(LaneOp::Unary(LaneUnaryOp::Abs, LaneElem::F32), LaneTy::V32, &[product]);
        let limit = self.splat(false, ((I32_BIAS - 1024) as f32).to_bits().into());
        self.suspect_lanes(LaneComparison::Ge, LaneElem::F32, size, limit)
    }

    /// Emits a side exit that is taken if the smallest `i32` might be divided by -1.
    fn guard_quotient(&mut self, a: &ComponentValue, b: &ComponentValue) -> Option<()> {
        if constant_int(b).is_some_and(|c| c != -1) {
            return Some(());
        }
        let (x, y) = (self.vector(a, Scalar::I32), self.vector(b, Scalar::I32));
        let (least, minus) = (self.splat(false, i32::MIN as u32 as u64), self.splat(false, u32::MAX.into()));
        let x = self.suspect_lanes(LaneComparison::Eq, LaneElem::I32, x, least);
        let y = self.suspect_lanes(LaneComparison::Eq, LaneElem::I32, y, minus);
        let both = self.result(LaneOp::MaskAnd, LaneTy::Mask, &[x, y]);
        self.leave_any(both);
        Some(())
    }

    /// Emits a side exit that is taken if a shift amount might be negative, or at least the width.
    fn guard_shift(&mut self, ty: Scalar, by: Scalar, amount: &ComponentValue) -> Option<()> {
        let bits = ty.bits() as i64;
        if let Some(c) = constant_int(amount) {
            // The interpreter handles a shift by a constant that is out of range.
            return (0..bits).contains(&c).then_some(());
        }
        if amount.is_scalar() {
            let mut value = self.uniform_value(amount, by)?;
            if self.region.ty(value) == LaneTy::I32 {
                value = self.pure(LaneOp::Sext, LaneTy::I64, &[value]);
            }
            let bits = self.constant(LaneTy::I64, bits);
            self.check_at(self.level(), self.flow.mask, LaneOp::CheckUniform, &[value, bits]);
            return Some(());
        }
        let value = self.vector(amount, by);
        let wide = self.region.ty(value) == LaneTy::V64;
        let elem = if wide { LaneElem::U64 } else { LaneElem::U32 };
        let bits = self.splat(wide, bits as u64);
        let over = self.suspect_lanes(LaneComparison::Ge, elem, value, bits);
        self.leave_any(over);
        Some(())
    }

    /// Emits a side exit that is taken if a float might be outside the range of the integer type to which it is
    /// converted.
    pub(super) fn guard_conversion(&mut self, from: Scalar, to: Scalar, a: &ComponentValue) -> Option<()> {
        if !self.outside.guards.arithmetic || !from.is_float() || !to.is_int() {
            return Some(());
        }
        if let ComponentValue::Bits(bits) = a {
            if is_reported_conversion(to, constant(from, *bits)) {
                self.leave_any(self.flow.mask);
            }
            return Some(());
        }
        let elem = LaneElem::from_scalar(from)?;
        let (rel, low, high) = match to {
            Scalar::I32 => (LaneComparison::Ge, -(I32_BIAS as f64), I32_BIAS as f64),
            Scalar::U32 => (LaneComparison::Gt, -1.0, I32_RANGE as f64),
            _ => return None,
        };
        let x = self.vector(a, from);
        let bits = |v: f64| if elem.is_wide() { v.to_bits() } else { (v as f32).to_bits().into() };
        let (low, high) = (self.splat(elem.is_wide(), bits(low)), self.splat(elem.is_wide(), bits(high)));
        let above_low = self.suspect_lanes(rel, elem, x, low);
        let below_high = self.suspect_lanes(LaneComparison::Lt, elem, x, high);
        let in_range = self.result(LaneOp::MaskAnd, LaneTy::Mask, &[above_low, below_high]);
        let outside = self.result(LaneOp::MaskAndNot, LaneTy::Mask, &[self.flow.mask, in_range]);
        self.leave_any(outside);
        Some(())
    }

    /// Emits a side exit that is taken if a result is a NaN or an infinity. The interpreter then determines whether an
    /// operand was already a NaN or an infinity.
    pub(super) fn guard_finite(&mut self, scalar: Scalar, result: &ComponentValue) -> Option<()> {
        if !scalar.is_float() {
            return Some(());
        }
        if let ComponentValue::Bits(bits) = result {
            if !constant(scalar, *bits).as_f64().is_finite() {
                self.leave_any(self.flow.mask);
            }
            return Some(());
        }
        let (elem, infinity) = match scalar {
            Scalar::F32 => (LaneElem::U32, 0x7f80_0000),
            Scalar::F64 => (LaneElem::U64, 0x7ff0_0000_0000_0000),
            _ => return None,
        };
        // Shift out the sign bit, which does not matter.
        let value = self.vector(result, scalar);
        let (one, limit) = (self.splat(elem.is_wide(), 1), self.splat(elem.is_wide(), infinity << 1));
        let size = self.pure(LaneOp::Vector(LaneBinOp::Shl, elem), elem.vector_ty(), &[value, one]);
        let doubt = self.suspect_lanes(LaneComparison::Ge, elem, size, limit);
        self.leave_any(doubt);
        Some(())
    }

    // Checks of accesses

    /// Emits the sanitizer's checks before a load or store. The region exits if it might read an element that has not
    /// been written.
    pub(super) fn guard_access(
        &mut self,
        place: &Place,
        indices: &[AxisIndex],
        checks: &mut Vec<LaneCheck>,
        store: bool,
    ) -> Option<()> {
        let guard = self.outside.guards.memories.get(place.memory.index()).copied().unwrap_or_default();
        if guard != AccessGuard::Unchecked {
            self.region.checked_accesses.push((place.memory, store));
        }
        match guard {
            AccessGuard::Unchecked => Some(()),
            AccessGuard::Forbidden => None,
            AccessGuard::Shared if self.outside.reported_on_access.contains(&place.memory) => {
                self.report_on_access(place, indices, checks, if store { AccessKind::Store } else { AccessKind::Load })
            }
            AccessGuard::Shared => {
                let reported = self.hoist_report(place, indices, checks, store);
                if reported.is_none() {
                    self.not_reportable = Some(place.memory);
                }
                reported
            }
            AccessGuard::Owned => {
                self.record_owned(place.memory, false);
                Some(())
            }
            AccessGuard::OwnedInit { unit } => {
                self.record_owned(place.memory, true);
                let LeafAccess { count, offset, step, .. } = self.leaf(place)?;
                let is_whole_element = unit == self.f.memories[place.memory].layout.size;
                (0..if is_whole_element { 1 } else { i64::from(count) }).try_for_each(|k| {
                    let view = AddressBase { base: RegionInput::InitBytes(place.memory), unit: unit as i64 };
                    let cell = if is_whole_element { 0 } else { (offset + k * step) / unit as i64 };
                    self.guard_initialized(place.memory, view, indices, cell, checks, store)
                })
            }
        }
    }

    /// Like [`RegionBuilder::guard_access`], for an atomic on an unchecked or a shared memory.
    pub(super) fn guard_update(
        &mut self,
        place: &Place,
        indices: &[AxisIndex],
        checks: &mut Vec<LaneCheck>,
        touch: AccessKind,
    ) -> Option<()> {
        if self.outside.guards.memories.get(place.memory.index()).copied().unwrap_or_default() == AccessGuard::Unchecked
        {
            return Some(());
        }
        self.region.checked_accesses.push((place.memory, false));
        if !self.outside.reported_on_access.contains(&place.memory) {
            self.not_reportable = Some(place.memory);
            return None;
        }
        self.report_on_access(place, indices, checks, touch)
    }

    fn record_owned(&mut self, memory: MemId, marked: bool) {
        if !self.region.owned.contains(&(memory, marked)) {
            self.region.owned.push((memory, marked));
        }
    }

    fn guard_initialized(
        &mut self,
        memory: MemId,
        view: AddressBase,
        indices: &[AxisIndex],
        offset: i64,
        checks: &mut Vec<LaneCheck>,
        store: bool,
    ) -> Option<()> {
        let mut target = self.access_address(memory, view, indices, offset, MemoryWidth::U8, checks)?;
        // No check is needed if the same lanes have already written or checked the element: it remains initialized.
        let key = (
            LaneOp::Store(MemoryWidth::U8, target.form),
            LaneTy::Mask,
            [target.address, target.offsets, LaneValue::NONE],
        );
        if self.numbering.iter().any(|(_, known)| known.contains_key(&key)) {
            return Some(());
        }
        self.remember(self.level(), key, LaneValue::NONE);
        let mark = self.pure(LaneOp::Input(RegionInput::InitValue(memory)), LaneTy::I64, &[]);
        let mark = self.pure(LaneOp::Trunc, LaneTy::I32, &[mark]);
        let mark = self.pure(LaneOp::Broadcast, LaneTy::V32, &[mark]);
        if store {
            if target.form == AddressForm::Uniform {
                target.form = AddressForm::Indexed;
                target.offsets = self.splat(false, 0);
            }
            self.add_access_checks(memory, target, checks);
            let args = [target.address, mark, target.offsets];
            let args = if target.form == AddressForm::Indexed { &args[..] } else { &args[..2] };
            self.push(
                LaneInst::new(LaneOp::Store(MemoryWidth::U8, target.form), LaneValue::NONE, args)
                    .with_mask(self.flow.mask),
            );
            return Some(());
        }
        self.add_access_checks(memory, target, checks);
        let args = [target.address, target.offsets];
        let args = if target.form == AddressForm::Indexed { &args[..] } else { &args[..1] };
        let loaded = self.result_under(LaneOp::Load(MemoryWidth::U8, target.form), LaneTy::V32, args, self.flow.mask);
        let unwritten = self.suspect_lanes(LaneComparison::Ne, LaneElem::I32, loaded, mark);
        self.leave_any(unwritten);
        Some(())
    }
}

/// Returns the value of a constant lane.
fn constant(scalar: Scalar, bits: u64) -> clk_scalar::ScalarValue {
    clk_scalar::ScalarValue { ty: scalar, bits: raw_of_lane(scalar, bits) }
}

/// Returns the value of a constant integer.
fn constant_int(lane: &ComponentValue) -> Option<i64> {
    match lane {
        ComponentValue::Bits(bits) => Some(*bits as i64),
        ComponentValue::Affine(form) => form.as_imm().map(i64::from),
        _ => None,
    }
}
