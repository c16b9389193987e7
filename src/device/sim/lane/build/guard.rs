//! What `--check` asks of a region, beyond the checks that every access has.
//!
//! Input: operators and accesses as they are built, and what the kernel's checks need to know of each. Output: instructions that
//! leave where the interpreter might have something to report, and that keep the record of written elements up to date. The idea:
//! nothing is decided here. Whatever is doubtful leaves, and the interpreter runs the same statements and reports.

use super::access::{Index, Leaf, View};
use super::form::{Atom, Linear, Sym};
use super::*;
use crate::device::sim::lane::guards::Guard;
use crate::device::sim::lanes::raw_of_lane;
use crate::device::sim::note::Touch;
use crate::ir::def::{BinOp, Place};
use crate::lang::scalar::exact::is_reported_conversion;

/// 2^31: what is added to an `i32` so that it is in the range from 0 up to [`WORDS`].
const HALF: i64 = 1 << 31;
const WORDS: i64 = 1 << 32;

impl Builder<'_> {
    /// Returns whether the operator of an expression may overflow.
    pub(super) fn may_overflow(&self, e: ExprId) -> bool {
        self.guards.arithmetic && !self.guards.exact.contains(&e)
    }

    /// Leaves where a component of a binary operator might overflow, or shift by too much; `exact` if it cannot overflow.
    pub(super) fn guard_binary(
        &mut self,
        op: BinOp,
        (ty, by): (Scalar, Scalar),
        (a, b): (&Lane, &Lane),
        exact: bool,
    ) -> Option<()> {
        if !self.guards.arithmetic {
            return Some(());
        }
        match op {
            BinOp::Shl | BinOp::Shr => self.guard_shift(ty, by, b),
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
            // Small integers that overflow are left to the interpreter.
            BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Div | BinOp::Rem
                if !exact && ty.is_int() && ty.is_signed() && ty.size() < 4 =>
            {
                None
            }
            // Scalars of 64 bits have left if they divide by -1, and vectors of them do not divide.
            _ => Some(()),
        }
    }

    /// Leaves where a negation might overflow.
    pub(super) fn guard_negation(&mut self, ty: Scalar, a: &Lane) -> Option<()> {
        let zero = if ty.size() == 8 { Lane::Bits(0) } else { Lane::Linear(Linear::imm(0)) };
        self.guard_binary(BinOp::Sub, (ty, ty), (&zero, a), false)
    }

    fn guard_sum(&mut self, op: BinOp, ty: Scalar, a: &Lane, b: &Lane) -> Option<()> {
        match (a, b) {
            (Lane::Linear(x), Lane::Linear(y)) if ty == Scalar::I32 => {
                self.guard_linear(op, x, y);
                Some(())
            }
            _ if ty == Scalar::I64 && a.is_scalar() && b.is_scalar() => self.guard_wide_scalars(op, a, b),
            _ => {
                let doubt = self.doubts(op, ty, a, b)?;
                doubt.into_iter().for_each(|doubt| self.leave_any(doubt));
                Some(())
            }
        }
    }

    /// Leaves if a mask of [doubtful](Builder::doubt) lanes has some.
    fn leave_any(&mut self, doubt: Value) {
        self.push(Inst::new(Op::LeaveAny, Value::NONE, &[doubt]));
    }

    /// Returns the active lanes for which a comparison holds.
    fn doubt(&mut self, rel: Rel, elem: Elem, x: Value, y: Value) -> Value {
        self.result_under(Op::Compare(rel, elem), Ty::Mask, &[x, y], self.mask)
    }

    // Linear forms

    /// Compares the least and the greatest value of a result, over all lanes and over the iterations of loops, with the range of an
    /// `i32`. Values of forms are known modulo 2^32 only, so those of the operands are compared as well.
    fn guard_linear(&mut self, op: BinOp, a: &Linear, b: &Linear) {
        let (p, q) = self.interval(a);
        let (r, s) = self.interval(b);
        self.guard_word(p, q);
        self.guard_word(r, s);
        let mut wide = |bin, x, y| self.wide_op(bin, Some(x), y);
        let (low, high) = match op {
            BinOp::Add => (wide(Bin::Add, p, r), wide(Bin::Add, q, s)),
            BinOp::Sub => (wide(Bin::Sub, p, s), wide(Bin::Sub, q, r)),
            _ => {
                let products = [(p, r), (p, s), (q, r), (q, s)].map(|(x, y)| wide(Bin::Mul, x, y));
                let [first, rest @ ..] = products;
                rest.iter().fold((first, first), |(low, high), &product| {
                    (wide(Bin::Min, low, product), wide(Bin::Max, high, product))
                })
            }
        };
        self.guard_word(low, high);
    }

    /// Returns bounds of a form's value, as `i64`s.
    fn interval(&mut self, form: &Linear) -> (Value, Value) {
        let base = self.wide(form.base);
        let (mut low, mut high) = (base, base);
        for &(sym, c) in &form.terms {
            let (first, last) = match sym {
                Sym::Axis(axis) => (
                    self.pure(Op::Input(Input::First(axis)), Ty::I64, &[]),
                    self.pure(Op::Input(Input::Last(axis)), Ty::I64, &[]),
                ),
                Sym::Counter(counter) => {
                    let range = self.loops.iter().find_map(|l| l.counter.filter(|c| c.0 == counter));
                    match range {
                        Some((_, last)) => (self.constant(Ty::I64, 0), last),
                        None => (counter, counter),
                    }
                }
            };
            let factor = self.wide(c);
            let p = self.wide_op(Bin::Mul, Some(first), factor);
            let q = self.wide_op(Bin::Mul, Some(last), factor);
            let (least, most) = match c {
                Atom::Imm(c) if c >= 0 => (p, q),
                Atom::Imm(_) => (q, p),
                Atom::Value(_) => (self.wide_op(Bin::Min, Some(p), q), self.wide_op(Bin::Max, Some(p), q)),
            };
            low = self.wide_op(Bin::Add, Some(low), least);
            high = self.wide_op(Bin::Add, Some(high), most);
        }
        (low, high)
    }

    /// Leaves unless these bounds are in the range of an `i32`: in the setup, if they are known there.
    fn guard_word(&mut self, low: Value, high: Value) {
        let level = self.levels[low.index()].max(self.levels[high.index()]);
        let half = self.constant(Ty::I64, HALF);
        let words = self.constant(Ty::I64, WORDS);
        let low = self.wide_op(Bin::Add, Some(low), half);
        let high = self.wide_op(Bin::Add, Some(high), half);
        if level == 0 {
            self.check_at(0, Value::NONE, Op::CheckRange, &[low, high, words]);
            return;
        }
        for bound in [low, high] {
            self.check_at(self.level(), self.mask, Op::CheckOne, &[bound, words]);
        }
    }

    // Scalars of 64 bits

    fn guard_wide_scalars(&mut self, op: BinOp, a: &Lane, b: &Lane) -> Option<()> {
        let (x, y) = (self.uniform_value(a, Scalar::I64)?, self.uniform_value(b, Scalar::I64)?);
        if op == BinOp::Mul {
            // The product of two `i32`s is an `i64`.
            self.guard_word(x, x);
            self.guard_word(y, y);
            return Some(());
        }
        let bin = if op == BinOp::Add { Bin::Add } else { Bin::Sub };
        let mut wide = |bin, x, y| self.wide_op(bin, Some(x), y);
        let sum = wide(bin, x, y);
        let (p, q) = match bin {
            Bin::Add => (wide(Bin::Xor, x, sum), wide(Bin::Xor, y, sum)),
            _ => (wide(Bin::Xor, x, y), wide(Bin::Xor, x, sum)),
        };
        let sign = wide(Bin::And, p, q);
        // Numbers without sign below 2^63.
        let positive = self.constant(Ty::I64, i64::MIN);
        self.check_at(self.level(), self.mask, Op::CheckOne, &[sign, positive]);
        Some(())
    }

    // Vectors

    /// Returns masks of the lanes in which an operator might overflow.
    fn doubts(&mut self, op: BinOp, ty: Scalar, a: &Lane, b: &Lane) -> Option<Vec<Value>> {
        let elem = Elem::of(ty)?;
        let (x, y) = (self.vector(a, ty), self.vector(b, ty));
        if op == BinOp::Mul {
            return Some(match (known(a), known(b)) {
                (Some(c), _) if !elem.is_wide() => vec![self.beyond(y, c)],
                (_, Some(c)) if !elem.is_wide() => vec![self.beyond(x, c)],
                _ if elem.is_wide() => vec![self.beyond_words(x), self.beyond_words(y)],
                _ => vec![self.large_product(x, y)],
            });
        }
        let bin = if op == BinOp::Add { Bin::Add } else { Bin::Sub };
        // A constant comes last.
        let (x, y, b) = if bin == Bin::Add && known(a).is_some() { (y, x, a) } else { (x, y, b) };
        let vector = |b: &mut Self, bin, x, y| b.pure(Op::Vector(bin, elem), elem.vector(), &[x, y]);
        let sum = vector(self, bin, x, y);
        let down = match (known(b), bin) {
            (Some(c), Bin::Add) => Some(c < 0),
            (Some(c), _) => Some(c > 0),
            (None, _) => None,
        };
        if let Some(down) = down {
            let rel = if down { Rel::Gt } else { Rel::Lt };
            return Some(vec![self.doubt(rel, elem, sum, x)]);
        }
        let (p, q) = match bin {
            Bin::Add => (vector(self, Bin::Xor, x, sum), vector(self, Bin::Xor, y, sum)),
            _ => (vector(self, Bin::Xor, x, y), vector(self, Bin::Xor, x, sum)),
        };
        let signs = vector(self, Bin::And, p, q);
        let zero = self.splat(elem.is_wide(), 0);
        Some(vec![self.doubt(Rel::Lt, elem, signs, zero)])
    }

    /// Returns the lanes of `i32`s whose product with a constant is none.
    fn beyond(&mut self, x: Value, c: i64) -> Value {
        let (least, most) = (i64::from(i32::MIN), i64::from(i32::MAX));
        let (low, high) = match c {
            0 => (least, most),
            1.. => (least / c, most / c),
            _ => (most / c, (least / c).min(most)),
        };
        let first = self.splat(false, low as u32 as u64);
        let range = self.splat(false, (high - low) as u64);
        let above = self.pure(Op::Vector(Bin::Sub, Elem::U32), Ty::V32, &[x, first]);
        self.doubt(Rel::Gt, Elem::U32, above, range)
    }

    /// Returns the lanes of `i64`s that are no `i32`s.
    fn beyond_words(&mut self, x: Value) -> Value {
        let (half, words) = (self.splat(true, HALF as u64), self.splat(true, WORDS as u64));
        let above = self.pure(Op::Vector(Bin::Add, Elem::U64), Ty::V64, &[x, half]);
        self.doubt(Rel::Ge, Elem::U64, above, words)
    }

    /// Returns the lanes of `i32`s whose product may be none. Three roundings to `f32` are off by less than 2^31 · 2^-22 together.
    fn large_product(&mut self, x: Value, y: Value) -> Value {
        let [x, y] = [x, y].map(|v| self.pure(Op::Convert(Elem::I32, Elem::F32), Ty::V32, &[v]));
        let product = self.pure(Op::Vector(Bin::Mul, Elem::F32), Ty::V32, &[x, y]);
        let size = self.pure(Op::Unary(Un::Abs, Elem::F32), Ty::V32, &[product]);
        let limit = self.splat(false, ((HALF - 1024) as f32).to_bits().into());
        self.doubt(Rel::Ge, Elem::F32, size, limit)
    }

    /// Leaves where the least `i32` might be divided by -1.
    fn guard_quotient(&mut self, a: &Lane, b: &Lane) -> Option<()> {
        if known(b).is_some_and(|c| c != -1) {
            return Some(());
        }
        let (x, y) = (self.vector(a, Scalar::I32), self.vector(b, Scalar::I32));
        let (least, minus) = (self.splat(false, i32::MIN as u32 as u64), self.splat(false, u32::MAX.into()));
        let x = self.doubt(Rel::Eq, Elem::I32, x, least);
        let y = self.doubt(Rel::Eq, Elem::I32, y, minus);
        let both = self.result(Op::MaskAnd, Ty::Mask, &[x, y]);
        self.leave_any(both);
        Some(())
    }

    /// Leaves where the amount of a shift might not be less than the width.
    fn guard_shift(&mut self, ty: Scalar, by: Scalar, amount: &Lane) -> Option<()> {
        let bits = ty.bits() as i64;
        if let Some(c) = known(amount) {
            // Known amounts that are wrong are not worth code.
            return (0..bits).contains(&c).then_some(());
        }
        if amount.is_scalar() {
            let mut value = self.uniform_value(amount, by)?;
            if self.region.ty(value) == Ty::I32 {
                value = self.pure(Op::Sext, Ty::I64, &[value]);
            }
            let bits = self.constant(Ty::I64, bits);
            self.check_at(self.level(), self.mask, Op::CheckOne, &[value, bits]);
            return Some(());
        }
        let value = self.vector(amount, by);
        let wide = self.region.ty(value) == Ty::V64;
        let elem = if wide { Elem::U64 } else { Elem::U32 };
        let bits = self.splat(wide, bits as u64);
        let over = self.doubt(Rel::Ge, elem, value, bits);
        self.leave_any(over);
        Some(())
    }

    /// Leaves where a float might be out of range of the integer type that it is converted to.
    pub(super) fn guard_conversion(&mut self, from: Scalar, to: Scalar, a: &Lane) -> Option<()> {
        if !self.guards.arithmetic || !from.is_float() || !to.is_int() {
            return Some(());
        }
        if let Lane::Bits(bits) = a {
            if is_reported_conversion(to, constant(from, *bits)) {
                self.leave_any(self.mask);
            }
            return Some(());
        }
        let elem = Elem::of(from)?;
        let (rel, low, high) = match to {
            Scalar::I32 => (Rel::Ge, -(HALF as f64), HALF as f64),
            Scalar::U32 => (Rel::Gt, -1.0, WORDS as f64),
            _ => return None,
        };
        let x = self.vector(a, from);
        let bits = |v: f64| if elem.is_wide() { v.to_bits() } else { (v as f32).to_bits().into() };
        let (low, high) = (self.splat(elem.is_wide(), bits(low)), self.splat(elem.is_wide(), bits(high)));
        let above = self.doubt(rel, elem, x, low);
        let below = self.doubt(Rel::Lt, elem, x, high);
        let fits = self.result(Op::MaskAnd, Ty::Mask, &[above, below]);
        let outside = self.result(Op::MaskWithout, Ty::Mask, &[self.mask, fits]);
        self.leave_any(outside);
        Some(())
    }

    /// Leaves where a result is a NaN or an infinity: the interpreter looks whether an operand was one.
    pub(super) fn guard_finite(&mut self, scalar: Scalar, result: &Lane) -> Option<()> {
        if !scalar.is_float() {
            return Some(());
        }
        if let Lane::Bits(bits) = result {
            if !constant(scalar, *bits).as_f64().is_finite() {
                self.leave_any(self.mask);
            }
            return Some(());
        }
        let (elem, infinity) = match scalar {
            Scalar::F32 => (Elem::U32, 0x7f80_0000),
            Scalar::F64 => (Elem::U64, 0x7ff0_0000_0000_0000),
            _ => return None,
        };
        // The sign does not matter.
        let value = self.vector(result, scalar);
        let (one, limit) = (self.splat(elem.is_wide(), 1), self.splat(elem.is_wide(), infinity << 1));
        let size = self.pure(Op::Vector(Bin::Shl, elem), elem.vector(), &[value, one]);
        let doubt = self.doubt(Rel::Ge, elem, size, limit);
        self.leave_any(doubt);
        Some(())
    }

    // Accesses

    /// Checks and records an access, in front of it: leaves where an element that is read may not have been written.
    pub(super) fn guard_access(
        &mut self,
        place: &Place,
        indices: &[Index],
        checks: &mut Vec<Check>,
        store: bool,
    ) -> Option<()> {
        let guard = self.guards.memories.get(place.memory.index()).copied().unwrap_or_default();
        if guard != Guard::Free {
            self.region.touches.push((place.memory, store));
        }
        match guard {
            Guard::Free => Some(()),
            Guard::Refused => None,
            Guard::Shared if self.outside.told.contains(&place.memory) => {
                self.tell(place, indices, checks, if store { Touch::Store } else { Touch::Load })
            }
            Guard::Shared => {
                let reported = self.report(place, indices, checks, store);
                if reported.is_none() {
                    self.untold = Some(place.memory);
                }
                reported
            }
            Guard::Own => {
                self.own(place.memory, false);
                Some(())
            }
            Guard::Marked { unit } => {
                self.own(place.memory, true);
                let Leaf { count, offset, step, .. } = self.leaf(place)?;
                let whole = unit == self.f.memories[place.memory].layout.size;
                (0..if whole { 1 } else { i64::from(count) }).try_for_each(|k| {
                    let view = View { base: Input::Marks(place.memory), unit: unit as i64 };
                    let cell = if whole { 0 } else { (offset + k * step) / unit as i64 };
                    self.marked(place.memory, view, indices, cell, checks, store)
                })
            }
        }
    }

    /// As [`Builder::guard_access`], for an atomic on a memory without checks, or a shared one.
    pub(super) fn guard_update(
        &mut self,
        place: &Place,
        indices: &[Index],
        checks: &mut Vec<Check>,
        touch: Touch,
    ) -> Option<()> {
        if self.guards.memories.get(place.memory.index()).copied().unwrap_or_default() == Guard::Free {
            return Some(());
        }
        self.region.touches.push((place.memory, false));
        if !self.outside.told.contains(&place.memory) {
            self.untold = Some(place.memory);
            return None;
        }
        self.tell(place, indices, checks, touch)
    }

    fn own(&mut self, memory: MemId, marked: bool) {
        if !self.region.owned.contains(&(memory, marked)) {
            self.region.owned.push((memory, marked));
        }
    }

    fn marked(
        &mut self,
        memory: MemId,
        view: View,
        indices: &[Index],
        offset: i64,
        checks: &mut Vec<Check>,
        store: bool,
    ) -> Option<()> {
        let mut target = self.target(memory, view, indices, offset, Cell::U8, checks)?;
        // What these lanes, or more of them, have found or made written stays so.
        let key = (Op::Store(Cell::U8, target.form), Ty::Mask, [target.address, target.offsets, Value::NONE]);
        if self.known.iter().any(|(_, known)| known.contains_key(&key)) {
            return Some(());
        }
        self.remember(self.level(), key, Value::NONE);
        let mark = self.pure(Op::Input(Input::Mark(memory)), Ty::I64, &[]);
        let mark = self.pure(Op::Trunc, Ty::I32, &[mark]);
        let mark = self.pure(Op::Broadcast, Ty::V32, &[mark]);
        if store {
            if target.form == Form::One {
                target.form = Form::Lanes;
                target.offsets = self.splat(false, 0);
            }
            self.note_access(memory, target, checks);
            let args = [target.address, mark, target.offsets];
            let args = if target.form == Form::Lanes { &args[..] } else { &args[..2] };
            self.push(Inst::new(Op::Store(Cell::U8, target.form), Value::NONE, args).under(self.mask));
            return Some(());
        }
        self.note_access(memory, target, checks);
        let args = [target.address, target.offsets];
        let args = if target.form == Form::Lanes { &args[..] } else { &args[..1] };
        let found = self.result_under(Op::Load(Cell::U8, target.form), Ty::V32, args, self.mask);
        let unwritten = self.doubt(Rel::Ne, Elem::I32, found, mark);
        self.leave_any(unwritten);
        Some(())
    }
}

/// Returns the value of a constant's lane.
fn constant(scalar: Scalar, bits: u64) -> crate::lang::scalar::Value {
    crate::lang::scalar::Value { ty: scalar, bits: raw_of_lane(scalar, bits) }
}

/// Returns the value of an integer that is known.
fn known(lane: &Lane) -> Option<i64> {
    match lane {
        Lane::Bits(bits) => Some(*bits as i64),
        Lane::Linear(form) => form.as_imm().map(i64::from),
        _ => None,
    }
}
