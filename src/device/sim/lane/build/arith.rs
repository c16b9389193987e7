//! Operators, functions and conversions: on scalars where a value is uniform, in linear forms where it changes evenly, else on
//! vectors and masks.

use super::form::Linear;
use super::half::is_half;
use super::*;
use crate::device::sim::lanes::convert::is_free;
use crate::device::sim::lanes::lane_of_raw;
use crate::ir::def::BinOp;
use crate::lang::ops::UnaryOp;

/// Returns the relation of a comparison.
fn relation(op: BinOp) -> Option<Rel> {
    Some(match op {
        BinOp::Eq => Rel::Eq,
        BinOp::Ne => Rel::Ne,
        BinOp::Lt => Rel::Lt,
        BinOp::Le => Rel::Le,
        BinOp::Gt => Rel::Gt,
        BinOp::Ge => Rel::Ge,
        _ => return None,
    })
}

fn operation(op: BinOp) -> Option<Bin> {
    Some(match op {
        BinOp::Add => Bin::Add,
        BinOp::Sub => Bin::Sub,
        BinOp::Mul => Bin::Mul,
        BinOp::Div => Bin::Div,
        BinOp::Rem => Bin::Rem,
        BinOp::And => Bin::And,
        BinOp::Or => Bin::Or,
        BinOp::Xor => Bin::Xor,
        BinOp::Shl => Bin::Shl,
        BinOp::Shr => Bin::Shr,
        _ => return None,
    })
}

/// Returns how registers hold a type: small integers extended to 32 bits.
fn element(scalar: Scalar) -> Option<Elem> {
    Elem::of(scalar).or(match scalar {
        Scalar::I8 | Scalar::I16 => Some(Elem::I32),
        Scalar::U8 | Scalar::U16 => Some(Elem::U32),
        _ => None,
    })
}

/// Returns the largest amount of a shift: amounts count modulo the width.
fn largest_shift(scalar: Scalar) -> u32 {
    8 * scalar.size() as u32 - 1
}

/// Returns whether an operand is a constant.
fn is_known(lane: &Lane) -> bool {
    match lane {
        Lane::Bits(_) => true,
        Lane::Linear(form) => form.as_imm().is_some(),
        _ => false,
    }
}

impl Lane {
    /// Returns whether it is a scalar: the same in all lanes of a vector, which lie in one row.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            Lane::Bits(_) | Lane::Scalar(_) => true,
            Lane::Linear(form) => form.is_even(),
            Lane::Vector(_) | Lane::Mask(_) => false,
        }
    }
}

impl Builder<'_> {
    fn scalar_lane(&self, scalar: Scalar, value: Value) -> Lane {
        match scalar {
            Scalar::Bool | Scalar::I64 | Scalar::U64 => Lane::Scalar(value),
            _ => Lane::Linear(Linear::uniform(value)),
        }
    }

    pub(super) fn unary(&mut self, op: UnaryOp, scalar: Scalar, a: &Lane) -> Option<Lane> {
        if scalar == Scalar::Bool {
            return Some(match a {
                Lane::Mask(mask) => Lane::Mask(self.result(Op::MaskNot, Ty::Mask, &[*mask])),
                _ => {
                    let (value, one) = (self.uniform_value(a, scalar)?, self.constant(Ty::I32, 1));
                    Lane::Scalar(self.pure(Op::Scalar(Bin::Xor, Elem::I32), Ty::I32, &[value, one]))
                }
            });
        }
        if is_half(scalar) {
            return self.half_unary(op, scalar, a);
        }
        let elem = element(scalar)?;
        if op == UnaryOp::Neg {
            self.guard_negation(scalar, a)?;
        }
        match op {
            UnaryOp::Neg if !elem.is_float() => {
                let zero = self.constant_lane(scalar, 0);
                self.binary(BinOp::Sub, (scalar, scalar), &zero, a)
            }
            UnaryOp::Neg => {
                let a = self.vector(a, scalar);
                Some(Lane::Vector(self.pure(Op::Unary(Un::Neg, elem), elem.vector(), &[a])))
            }
            UnaryOp::Not => {
                let ones = self.constant_lane(scalar, lane_of_raw(scalar, u64::MAX >> (64 - 8 * scalar.size())));
                self.binary(BinOp::Xor, (scalar, scalar), &ones, a)
            }
        }
    }

    /// Returns one component of a binary operator, of operands of these types.
    pub(super) fn binary(&mut self, op: BinOp, (ty, by): (Scalar, Scalar), a: &Lane, b: &Lane) -> Option<Lane> {
        if ty == Scalar::Bool {
            return self.logic(op, a, b);
        }
        if is_half(ty) {
            return self.half_binary(op, ty, a, b);
        }
        let elem = element(ty)?;
        let small = Elem::of(ty).is_none();
        if op == BinOp::Pow {
            let args = [self.vector(a, ty), self.vector(b, ty)];
            return self.call(MathFn::Pow, ty, &args);
        }
        if let Some(rel) = relation(op) {
            return self.compare(rel, elem, ty, a, b);
        }
        let bin = operation(op)?;
        if small {
            let lane = self.arithmetic(bin, elem, (ty, by), a, b)?;
            return if matches!(bin, Bin::And | Bin::Or | Bin::Xor) { Some(lane) } else { self.cut(ty, &lane) };
        }
        if let (Lane::Linear(x), Lane::Linear(y)) = (a, b) {
            match bin {
                Bin::Add | Bin::Sub => return Some(Lane::Linear(self.linear_sum(bin, x, y))),
                Bin::Mul => {
                    if let Some(form) = self.linear_product(x, y) {
                        return Some(Lane::Linear(form));
                    }
                }
                _ => {}
            }
        }
        self.arithmetic(bin, elem, (ty, by), a, b)
    }

    /// Returns the result of an operation in 4 or 8 bytes.
    fn arithmetic(&mut self, bin: Bin, elem: Elem, (ty, by): (Scalar, Scalar), a: &Lane, b: &Lane) -> Option<Lane> {
        // A divisor that differs between rows may be 0 where no lane is active.
        let divides = matches!(bin, Bin::Div | Bin::Rem) && !self.uniform && !is_known(b);
        if !elem.is_float() && a.is_scalar() && b.is_scalar() && !divides {
            return self.scalar_binary(bin, elem, (ty, by), a, b);
        }
        match bin {
            Bin::Div | Bin::Rem if !elem.is_float() => self.divide(bin, elem, ty, a, b),
            Bin::Rem => None,
            Bin::Shl | Bin::Shr => self.shift(bin, elem, (ty, by), a, b),
            _ => {
                let (a, b) = (self.vector(a, ty), self.vector(b, ty));
                Some(Lane::Vector(self.pure(Op::Vector(bin, elem), elem.vector(), &[a, b])))
            }
        }
    }

    fn scalar_binary(&mut self, bin: Bin, elem: Elem, (ty, by): (Scalar, Scalar), a: &Lane, b: &Lane) -> Option<Lane> {
        let x = self.uniform_value(a, ty)?;
        let mut y = self.uniform_value(b, by)?;
        if self.region.ty(y) != self.region.ty(x) {
            // The amount of a shift, which counts modulo the width.
            let (op, to) = if elem.is_wide() { (Op::Zext, Ty::I64) } else { (Op::Trunc, Ty::I32) };
            y = self.pure(op, to, &[y]);
        }
        if ty.size() < 4 && matches!(bin, Bin::Shl | Bin::Shr) {
            let most = self.constant(Ty::I32, largest_shift(ty).into());
            y = self.pure(Op::Scalar(Bin::And, Elem::U32), Ty::I32, &[y, most]);
        }
        let op = Op::Scalar(bin, elem);
        if !matches!(bin, Bin::Div | Bin::Rem) {
            let value = self.pure(op, elem.scalar(), &[x, y]);
            return Some(self.scalar_lane(ty, value));
        }
        let known = match b {
            Lane::Linear(form) => form.as_imm().map(i64::from),
            Lane::Bits(bits) if elem.is_wide() => Some(*bits as i64),
            Lane::Bits(bits) => Some(i64::from(*bits as u32 as i32)),
            _ => None,
        };
        let value = match known {
            Some(0 | -1) | None => {
                // Zero is a fault, and the quotient of the least integer by -1 traps.
                self.push(Inst::new(Op::LeaveZero, Value::NONE, &[y]));
                if elem.is_signed() {
                    let one = self.constant(elem.scalar(), 1);
                    let next = self.pure(Op::Scalar(Bin::Add, elem), elem.scalar(), &[y, one]);
                    self.push(Inst::new(Op::LeaveZero, Value::NONE, &[next]));
                }
                self.result(op, elem.scalar(), &[x, y])
            }
            Some(_) => self.pure(op, elem.scalar(), &[x, y]),
        };
        Some(self.scalar_lane(ty, value))
    }

    /// Vector shifts by amounts modulo the width.
    fn shift(&mut self, bin: Bin, elem: Elem, (ty, by): (Scalar, Scalar), a: &Lane, b: &Lane) -> Option<Lane> {
        let wide = elem.is_wide();
        if (by.size() == 8) != wide {
            let amount = match b {
                Lane::Linear(form) => form.as_imm()? as u32,
                Lane::Bits(bits) => *bits as u32,
                _ => return None,
            };
            let (a, b) = (self.vector(a, ty), self.splat(wide, (amount & largest_shift(ty)).into()));
            return Some(Lane::Vector(self.pure(Op::Vector(bin, elem), elem.vector(), &[a, b])));
        }
        let a = self.vector(a, ty);
        let amount = match b {
            Lane::Linear(form) if form.as_imm().is_some() => {
                self.splat(false, u64::from(form.as_imm().unwrap_or(0) as u32 & largest_shift(ty)))
            }
            _ => {
                let (b, most) = (self.vector(b, by), self.splat(wide, largest_shift(ty).into()));
                let and = if wide { Elem::U64 } else { Elem::U32 };
                self.pure(Op::Vector(Bin::And, and), elem.vector(), &[b, most])
            }
        };
        Some(Lane::Vector(self.pure(Op::Vector(bin, elem), elem.vector(), &[a, amount])))
    }

    /// Integer division of vectors of 4-byte lanes.
    fn divide(&mut self, bin: Bin, elem: Elem, ty: Scalar, a: &Lane, b: &Lane) -> Option<Lane> {
        if elem.is_wide() {
            return None;
        }
        let known = match b {
            Lane::Linear(form) => form.as_imm(),
            _ => None,
        };
        let x = self.vector(a, ty);
        if let Some(divisor) = known.filter(|&d| d > 0 && (d as u32).is_power_of_two()) {
            return Some(Lane::Vector(self.divide_by_power(bin, elem, x, divisor)));
        }
        let y = self.vector(b, ty);
        if known.is_none_or(|d| d == 0) {
            let zero = self.splat(false, 0);
            let zeros = self.result(Op::Compare(Rel::Eq, elem), Ty::Mask, &[y, zero]);
            self.push(Inst::new(Op::LeaveAny, Value::NONE, &[zeros]).under(self.mask));
        }
        Some(Lane::Vector(self.result(Op::Vector(bin, elem), Ty::V32, &[x, y])))
    }

    /// Rounds toward zero: negative dividends are biased before they are shifted.
    fn divide_by_power(&mut self, bin: Bin, elem: Elem, a: Value, divisor: i32) -> Value {
        let (bits, ty) = (divisor.trailing_zeros(), Ty::V32);
        let low = self.splat(false, u64::from(divisor as u32 - 1));
        let by = self.splat(false, bits.into());
        let op = |b: &mut Self, bin, elem, x, y| b.pure(Op::Vector(bin, elem), ty, &[x, y]);
        if elem == Elem::U32 {
            return match bin {
                Bin::Div => op(self, Bin::Shr, elem, a, by),
                _ => op(self, Bin::And, elem, a, low),
            };
        }
        let most = self.splat(false, 31);
        let sign = op(self, Bin::Shr, Elem::I32, a, most);
        let bias = op(self, Bin::And, Elem::I32, sign, low);
        let biased = op(self, Bin::Add, Elem::I32, a, bias);
        let quotient = op(self, Bin::Shr, Elem::I32, biased, by);
        match bin {
            Bin::Div => quotient,
            _ => {
                let whole = op(self, Bin::Shl, Elem::I32, quotient, by);
                op(self, Bin::Sub, Elem::I32, a, whole)
            }
        }
    }

    fn compare(&mut self, rel: Rel, elem: Elem, ty: Scalar, a: &Lane, b: &Lane) -> Option<Lane> {
        if !elem.is_float() && a.is_scalar() && b.is_scalar() {
            let (a, b) = (self.uniform_value(a, ty)?, self.uniform_value(b, ty)?);
            return Some(Lane::Scalar(self.pure(Op::Set(rel, elem), Ty::I32, &[a, b])));
        }
        let (a, b) = (self.vector(a, ty), self.vector(b, ty));
        Some(Lane::Mask(self.result(Op::Compare(rel, elem), Ty::Mask, &[a, b])))
    }

    fn logic(&mut self, op: BinOp, a: &Lane, b: &Lane) -> Option<Lane> {
        let (scalar, mask) = match op {
            BinOp::And => (Bin::And, Op::MaskAnd),
            BinOp::Or => (Bin::Or, Op::MaskOr),
            BinOp::Xor | BinOp::Ne | BinOp::Eq => (Bin::Xor, Op::MaskXor),
            _ => return None,
        };
        let lane = if a.is_scalar() && b.is_scalar() {
            let (a, b) = (self.uniform_value(a, Scalar::Bool)?, self.uniform_value(b, Scalar::Bool)?);
            Lane::Scalar(self.pure(Op::Scalar(scalar, Elem::I32), Ty::I32, &[a, b]))
        } else {
            let (a, b) = (self.mask_of(a)?, self.mask_of(b)?);
            Lane::Mask(self.result(mask, Ty::Mask, &[a, b]))
        };
        if op == BinOp::Eq { self.unary(UnaryOp::Not, Scalar::Bool, &lane) } else { Some(lane) }
    }

    pub(super) fn select(&mut self, cond: &Lane, (a, b): (&Lane, &Lane), scalar: Scalar, varies: bool) -> Option<Lane> {
        let even = cond.is_scalar() && a.is_scalar() && b.is_scalar();
        if (even || !varies) && !scalar.is_float() {
            let cond = self.uniform_value(cond, Scalar::Bool)?;
            let (x, y) = (self.uniform_value(a, scalar)?, self.uniform_value(b, scalar)?);
            let value = self.pure(Op::Choose, self.region.ty(x), &[cond, x, y]);
            return Some(self.scalar_lane(scalar, value));
        }
        let cond = self.mask_of(cond)?;
        if scalar == Scalar::Bool {
            let (x, y) = (self.mask_of(a)?, self.mask_of(b)?);
            let x = self.result(Op::MaskAnd, Ty::Mask, &[x, cond]);
            let y = self.result(Op::MaskWithout, Ty::Mask, &[y, cond]);
            return Some(Lane::Mask(self.result(Op::MaskOr, Ty::Mask, &[x, y])));
        }
        let ty = if scalar.size() == 8 { Ty::V64 } else { Ty::V32 };
        let (x, y) = (self.vector(a, scalar), self.vector(b, scalar));
        Some(Lane::Vector(self.result(Op::Select, ty, &[cond, x, y])))
    }

    pub(super) fn math(&mut self, function: MathFn, ty: Scalar, lanes: &[Lane]) -> Option<Lane> {
        use MathFn::*;
        if is_half(ty) {
            return self.half_math(function, ty, lanes);
        }
        let elem = element(ty)?;
        let binary = match function {
            WrappingAdd => Some(BinOp::Add),
            WrappingSub => Some(BinOp::Sub),
            WrappingMul => Some(BinOp::Mul),
            _ => None,
        };
        if let (Some(op), [a, b]) = (binary, lanes) {
            return self.binary(op, (ty, ty), a, b);
        }
        if !elem.is_float() && lanes.iter().all(Lane::is_scalar) && matches!(function, Min | Max | Clamp) {
            return self.scalar_math(function, elem, ty, lanes);
        }
        if !elem.is_float() && !matches!(function, Min | Max | Clamp | Abs) {
            return None;
        }
        if let (Abs, false, [lane]) = (function, elem.is_signed(), lanes) {
            return Some(lane.clone());
        }
        if let (Abs, [lane]) = (function, lanes) {
            self.guard_negation(ty, lane)?;
        }
        if let (Tf32, Scalar::F64, [lane]) = (function, ty, lanes) {
            return Some(lane.clone());
        }
        let args: Vec<Value> = lanes.iter().map(|lane| self.vector(lane, ty)).collect();
        let vector = elem.vector();
        let two = |b: &mut Self, bin, x, y| b.pure(Op::Vector(bin, elem), vector, &[x, y]);
        let value = match (function, args.as_slice()) {
            (Min, &[a, b]) => two(self, Bin::Min, a, b),
            (Max, &[a, b]) => two(self, Bin::Max, a, b),
            (Clamp, &[a, low, high]) => {
                let a = two(self, Bin::Max, a, low);
                two(self, Bin::Min, a, high)
            }
            (Fma, _) => self.pure(Op::Fma(elem), vector, &args),
            (Fract, &[a]) => {
                let floor = self.pure(Op::Unary(Un::Floor, elem), vector, &[a]);
                two(self, Bin::Sub, a, floor)
            }
            (Tf32, &[a]) => self.rounded_to_tf32(a),
            (IsNan, &[a]) => return Some(Lane::Mask(self.result(Op::Compare(Rel::Ne, elem), Ty::Mask, &[a, a]))),
            _ => {
                let un = match function {
                    Abs => Un::Abs,
                    Sqrt => Un::Sqrt,
                    Rsqrt if elem == Elem::F32 => Un::Rsqrt,
                    Floor => Un::Floor,
                    Ceil => Un::Ceil,
                    Round => Un::Round,
                    Trunc => Un::Trunc,
                    _ => return self.call(function, ty, &args),
                };
                if elem.is_wide() && !elem.is_float() {
                    return None;
                }
                self.pure(Op::Unary(un, elem), vector, &args)
            }
        };
        // The magnitude of the least integer has no place in its type.
        if ty.size() < 4 { self.cut(ty, &Lane::Vector(value)) } else { Some(Lane::Vector(value)) }
    }

    fn scalar_math(&mut self, function: MathFn, elem: Elem, ty: Scalar, lanes: &[Lane]) -> Option<Lane> {
        let args: Vec<Value> = lanes.iter().map(|lane| self.uniform_value(lane, ty)).collect::<Option<_>>()?;
        let mut two = |bin, x, y| self.pure(Op::Scalar(bin, elem), elem.scalar(), &[x, y]);
        let value = match (function, args.as_slice()) {
            (MathFn::Min, &[a, b]) => two(Bin::Min, a, b),
            (MathFn::Max, &[a, b]) => two(Bin::Max, a, b),
            (_, &[a, low, high]) => {
                let a = two(Bin::Max, a, low);
                two(Bin::Min, a, high)
            }
            _ => return None,
        };
        Some(self.scalar_lane(ty, value))
    }

    /// Calls a function of `f32` that is computed by polynomials.
    fn call(&mut self, function: MathFn, ty: Scalar, args: &[Value]) -> Option<Lane> {
        use MathFn::*;
        let unary = [Exp, Exp2, Exp10, Expm1, Log, Log2, Log10, Log1p, Sin, Cos, Sinh, Cosh, Tanh, Erf];
        let known = unary.contains(&function) && args.len() == 1 || function == Pow && args.len() == 2;
        if ty != Scalar::F32 || !known {
            return None;
        }
        Some(Lane::Vector(self.result(Op::Call(function, Elem::F32), Ty::V32, args)))
    }

    pub(super) fn convert(&mut self, from: Scalar, to: Scalar, a: &Lane) -> Option<Lane> {
        if let Lane::Bits(bits) = a {
            use crate::device::sim::lanes::{lane_of_raw, raw_of_lane};
            let value = crate::lang::scalar::Value { ty: from, bits: raw_of_lane(from, *bits) };
            let value = crate::lang::scalar::dynamic::convert(to, value);
            return Some(self.constant_lane(to, lane_of_raw(to, value.bits)));
        }
        if is_free(from, to) {
            return Some(a.clone());
        }
        if is_half(from) || is_half(to) {
            return self.half_convert(from, to, a);
        }
        if from == Scalar::Bool {
            return self.convert_bool(to, a);
        }
        let source = element(from)?;
        if to == Scalar::Bool {
            let zero = if source.is_wide() { Lane::Bits(0) } else { Lane::Linear(Linear::imm(0)) };
            return if source.is_float() { None } else { self.compare(Rel::Ne, source, from, a, &zero) };
        }
        if source.is_float() || !a.is_scalar() {
            return self.convert_vector(source, to, a, from);
        }
        // Uniform integers stay scalars.
        let target = element(to)?;
        let value = match (source.is_wide(), target.is_wide()) {
            _ if target.is_float() => return self.convert_vector(source, to, a, from),
            (false, true) => {
                let value = self.uniform_value(a, from)?;
                self.pure(if source.is_signed() { Op::Sext } else { Op::Zext }, Ty::I64, &[value])
            }
            (true, false) => {
                let value = self.uniform_value(a, from)?;
                let word = self.pure(Op::Trunc, Ty::I32, &[value]);
                self.cut_scalar(to, word)
            }
            (false, false) => {
                let value = self.uniform_value(a, from)?;
                self.cut_scalar(to, value)
            }
            (true, true) => return None,
        };
        Some(self.scalar_lane(to, value))
    }

    fn convert_bool(&mut self, to: Scalar, a: &Lane) -> Option<Lane> {
        let elem = element(to).filter(|e| !e.is_wide())?;
        if a.is_scalar() && !elem.is_float() {
            let value = self.uniform_value(a, Scalar::Bool)?;
            return Some(self.scalar_lane(to, value));
        }
        let mask = self.mask_of(a)?;
        let one = if elem.is_float() { 1f32.to_bits().into() } else { 1 };
        let (one, zero) = (self.splat(false, one), self.splat(false, 0));
        Some(Lane::Vector(self.result(Op::Select, Ty::V32, &[mask, one, zero])))
    }

    fn convert_vector(&mut self, source: Elem, to: Scalar, a: &Lane, from: Scalar) -> Option<Lane> {
        let value = self.vector(a, from);
        if Elem::of(to).is_none() {
            element(to)?;
            if source.is_float() {
                // Both conversions saturate.
                let word = self.pure(Op::Convert(source, Elem::I32), Ty::V32, &[value]);
                return Some(Lane::Vector(self.saturated(to, word)));
            }
            let word =
                if source.is_wide() { self.pure(Op::Convert(source, Elem::I32), Ty::V32, &[value]) } else { value };
            return self.cut(to, &Lane::Vector(word));
        }
        let target = Elem::of(to)?;
        use Elem::*;
        let known = matches!(
            (source, target),
            (I32 | U32, F32 | F64 | I64 | U64)
                | (F32, I32 | U32 | F64)
                | (F64, F32 | I32)
                | (I64 | U64, I32 | U32)
                | (I64, F64)
        );
        if !known {
            return None;
        }
        Some(Lane::Vector(self.pure(Op::Convert(source, target), target.vector(), &[value])))
    }

    /// Limits 32-bit lanes to the range of a smaller type.
    fn saturated(&mut self, to: Scalar, word: Value) -> Value {
        let bits = 8 * to.size() as u32;
        let (low, high) =
            if to.is_signed() { (-1 << (bits - 1), (1 << (bits - 1)) - 1) } else { (0, (1i32 << bits) - 1) };
        let (low, high) = (self.splat(false, low as u32 as u64), self.splat(false, high as u32 as u64));
        let above = self.pure(Op::Vector(Bin::Max, Elem::I32), Ty::V32, &[word, low]);
        self.pure(Op::Vector(Bin::Min, Elem::I32), Ty::V32, &[above, high])
    }

    /// Cuts a 32-bit integer to a type of at most this size, extended again.
    fn cut(&mut self, to: Scalar, lane: &Lane) -> Option<Lane> {
        if lane.is_scalar() {
            let value = self.uniform_value(lane, to)?;
            let cut = self.cut_scalar(to, value);
            return Some(self.scalar_lane(to, cut));
        }
        let value = self.vector(lane, to);
        let op = |bin, elem| (Op::Vector(bin, elem), Ty::V32);
        Some(Lane::Vector(self.cut_value(to, value, op, |b, v| b.splat(false, v.into()))))
    }

    fn cut_scalar(&mut self, to: Scalar, value: Value) -> Value {
        let op = |bin, elem| (Op::Scalar(bin, elem), Ty::I32);
        self.cut_value(to, value, op, |b, v| b.constant(Ty::I32, i64::from(v as i32)))
    }

    fn cut_value(
        &mut self,
        to: Scalar,
        value: Value,
        op: impl Fn(Bin, Elem) -> (Op, Ty),
        constant: impl Fn(&mut Self, u32) -> Value,
    ) -> Value {
        let bits = 8 * to.size() as u32;
        if bits >= 32 {
            return value;
        }
        if !to.is_signed() {
            let low = constant(self, (1 << bits) - 1);
            let (and, ty) = op(Bin::And, Elem::U32);
            return self.pure(and, ty, &[value, low]);
        }
        let by = constant(self, 32 - bits);
        let (left, ty) = op(Bin::Shl, Elem::U32);
        let up = self.pure(left, ty, &[value, by]);
        let (right, ty) = op(Bin::Shr, Elem::I32);
        self.pure(right, ty, &[up, by])
    }

    pub(super) fn bitcast(&mut self, from: Scalar, to: Scalar, a: &Lane) -> Option<Lane> {
        if from.size() != to.size() {
            return None;
        }
        if from.size() < 4 && from.is_int() && to.is_int() {
            return self.convert(from, to, a);
        }
        if from.size() == 2 && to != Scalar::I16 {
            return Some(self.half_bitcast(to, a, from));
        }
        if from.size() < 4 {
            return None;
        }
        Some(match a {
            Lane::Bits(bits) => self.constant_lane(to, *bits),
            _ if from.is_float() == to.is_float() => a.clone(),
            _ => Lane::Vector(self.vector(a, from)),
        })
    }
}
