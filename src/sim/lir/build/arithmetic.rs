//! Builds operators, math functions and conversions. Uniform values are computed as scalars, values that are affine in
//! coordinates and counters as affine forms, and all other values as vectors and masks.

use super::affine_form::LaneAffine;
use super::float16::is_half;
use super::*;
use crate::lanes::convert::is_free;
use crate::lanes::lane_of_raw;
use clk_ir::def::BinOp;
use clk_scalar::ops::UnaryOp;

/// Returns the LaneIR comparison for a comparison operator, or `None` for other operators.
fn relation(op: BinOp) -> Option<LaneComparison> {
    Some(match op {
        BinOp::Eq => LaneComparison::Eq,
        BinOp::Ne => LaneComparison::Ne,
        BinOp::Lt => LaneComparison::Lt,
        BinOp::Le => LaneComparison::Le,
        BinOp::Gt => LaneComparison::Gt,
        BinOp::Ge => LaneComparison::Ge,
        _ => return None,
    })
}

fn operation(op: BinOp) -> Option<LaneBinOp> {
    Some(match op {
        BinOp::Add => LaneBinOp::Add,
        BinOp::Sub => LaneBinOp::Sub,
        BinOp::Mul => LaneBinOp::Mul,
        BinOp::Div => LaneBinOp::Div,
        BinOp::Rem => LaneBinOp::Rem,
        BinOp::And => LaneBinOp::And,
        BinOp::Or => LaneBinOp::Or,
        BinOp::Xor => LaneBinOp::Xor,
        BinOp::Shl => LaneBinOp::Shl,
        BinOp::Shr => LaneBinOp::Shr,
        _ => return None,
    })
}

/// Returns the element type in which registers hold a scalar type. 8-bit and 16-bit integers are extended to 32 bits.
fn element(scalar: Scalar) -> Option<LaneElem> {
    LaneElem::from_scalar(scalar).or(match scalar {
        Scalar::I8 | Scalar::I16 => Some(LaneElem::I32),
        Scalar::U8 | Scalar::U16 => Some(LaneElem::U32),
        _ => None,
    })
}

/// Returns the bit mask that reduces a shift amount modulo the width of the type.
fn largest_shift(scalar: Scalar) -> u32 {
    8 * scalar.size() as u32 - 1
}

/// Returns whether an operand is a constant.
fn is_known(lane: &ComponentValue) -> bool {
    match lane {
        ComponentValue::Bits(_) => true,
        ComponentValue::Affine(form) => form.as_imm().is_some(),
        _ => false,
    }
}

impl ComponentValue {
    /// Returns whether the value is the same in all lanes of a vector. The lanes of a vector belong to one row.
    pub(super) fn is_scalar(&self) -> bool {
        match self {
            ComponentValue::Bits(_) | ComponentValue::Scalar(_) => true,
            ComponentValue::Affine(form) => form.is_row_uniform(),
            ComponentValue::Vector(_) | ComponentValue::Mask(_) => false,
        }
    }
}

impl RegionBuilder<'_> {
    fn scalar_lane(&self, scalar: Scalar, value: LaneValue) -> ComponentValue {
        match scalar {
            Scalar::Bool | Scalar::I64 | Scalar::U64 => ComponentValue::Scalar(value),
            _ => ComponentValue::Affine(LaneAffine::uniform(value)),
        }
    }

    pub(super) fn unary(&mut self, op: UnaryOp, scalar: Scalar, a: &ComponentValue) -> Option<ComponentValue> {
        if scalar == Scalar::Bool {
            return Some(match a {
                ComponentValue::Mask(mask) => {
                    ComponentValue::Mask(self.result(LaneOp::MaskNot, LaneTy::Mask, &[*mask]))
                }
                _ => {
                    let (value, one) = (self.uniform_value(a, scalar)?, self.constant(LaneTy::I32, 1));
                    ComponentValue::Scalar(self.pure(
                        LaneOp::Scalar(LaneBinOp::Xor, LaneElem::I32),
                        LaneTy::I32,
                        &[value, one],
                    ))
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
                self.binary(BinOp::Sub, scalar, scalar, &zero, a)
            }
            UnaryOp::Neg => {
                let a = self.vector(a, scalar);
                Some(ComponentValue::Vector(self.pure(LaneOp::Unary(LaneUnaryOp::Neg, elem), elem.vector_ty(), &[a])))
            }
            UnaryOp::Not => {
                let ones = self.constant_lane(scalar, lane_of_raw(scalar, u64::MAX >> (64 - 8 * scalar.size())));
                self.binary(BinOp::Xor, scalar, scalar, &ones, a)
            }
        }
    }

    /// Emits code for one component of a binary operator. `ty` is the type of the left operand, and also of the result
    /// unless the operator is a comparison.
    pub(super) fn binary(
        &mut self,
        op: BinOp,
        ty: Scalar,
        right_ty: Scalar,
        a: &ComponentValue,
        b: &ComponentValue,
    ) -> Option<ComponentValue> {
        if ty == Scalar::Bool {
            return self.logic(op, a, b);
        }
        if is_half(ty) {
            return self.half_binary(op, ty, a, b);
        }
        let elem = element(ty)?;
        let small = LaneElem::from_scalar(ty).is_none();
        if op == BinOp::Pow {
            let args = [self.vector(a, ty), self.vector(b, ty)];
            return self.call(MathFn::Pow, ty, &args);
        }
        if let Some(rel) = relation(op) {
            return self.compare(rel, elem, ty, a, b);
        }
        let bin = operation(op)?;
        if small {
            let lane = self.arithmetic(bin, elem, ty, right_ty, a, b)?;
            return if matches!(bin, LaneBinOp::And | LaneBinOp::Or | LaneBinOp::Xor) {
                Some(lane)
            } else {
                self.truncate_lane(ty, &lane)
            };
        }
        if let (ComponentValue::Affine(x), ComponentValue::Affine(y)) = (a, b) {
            match bin {
                LaneBinOp::Add | LaneBinOp::Sub => return Some(ComponentValue::Affine(self.linear_sum(bin, x, y))),
                LaneBinOp::Mul => {
                    if let Some(form) = self.linear_product(x, y) {
                        return Some(ComponentValue::Affine(form));
                    }
                }
                _ => {}
            }
        }
        self.arithmetic(bin, elem, ty, right_ty, a, b)
    }

    /// Emits code for an arithmetic operation on 4-byte or 8-byte integers or floats.
    fn arithmetic(
        &mut self,
        bin: LaneBinOp,
        elem: LaneElem,
        ty: Scalar,
        right_ty: Scalar,
        a: &ComponentValue,
        b: &ComponentValue,
    ) -> Option<ComponentValue> {
        // A divisor that differs between rows may be 0 in a row without active lanes, where the division must not
        // fault.
        let divides = matches!(bin, LaneBinOp::Div | LaneBinOp::Rem) && !self.uniform && !is_known(b);
        if !elem.is_float() && a.is_scalar() && b.is_scalar() && !divides {
            return self.scalar_binary(bin, elem, ty, right_ty, a, b);
        }
        match bin {
            LaneBinOp::Div | LaneBinOp::Rem if !elem.is_float() => self.divide(bin, elem, ty, a, b),
            LaneBinOp::Rem => None,
            LaneBinOp::Shl | LaneBinOp::Shr => self.shift(bin, elem, ty, right_ty, a, b),
            _ => {
                let (a, b) = (self.vector(a, ty), self.vector(b, ty));
                Some(ComponentValue::Vector(self.pure(LaneOp::Vector(bin, elem), elem.vector_ty(), &[a, b])))
            }
        }
    }

    fn scalar_binary(
        &mut self,
        bin: LaneBinOp,
        elem: LaneElem,
        ty: Scalar,
        right_ty: Scalar,
        a: &ComponentValue,
        b: &ComponentValue,
    ) -> Option<ComponentValue> {
        let x = self.uniform_value(a, ty)?;
        let mut y = self.uniform_value(b, right_ty)?;
        if self.region.ty(y) != self.region.ty(x) {
            // Shift amounts wrap modulo the width.
            let (op, to) = if elem.is_wide() { (LaneOp::Zext, LaneTy::I64) } else { (LaneOp::Trunc, LaneTy::I32) };
            y = self.pure(op, to, &[y]);
        }
        if ty.size() < 4 && matches!(bin, LaneBinOp::Shl | LaneBinOp::Shr) {
            let most = self.constant(LaneTy::I32, largest_shift(ty).into());
            y = self.pure(LaneOp::Scalar(LaneBinOp::And, LaneElem::U32), LaneTy::I32, &[y, most]);
        }
        let op = LaneOp::Scalar(bin, elem);
        if !matches!(bin, LaneBinOp::Div | LaneBinOp::Rem) {
            let value = self.pure(op, elem.scalar_ty(), &[x, y]);
            return Some(self.scalar_lane(ty, value));
        }
        let constant_divisor = match b {
            ComponentValue::Affine(form) => form.as_imm().map(i64::from),
            ComponentValue::Bits(bits) if elem.is_wide() => Some(*bits as i64),
            ComponentValue::Bits(bits) => Some(i64::from(*bits as u32 as i32)),
            _ => None,
        };
        let value = match constant_divisor {
            Some(0 | -1) | None => {
                // The region exits if the divisor is 0, which is a fault, or if it is -1, for which the smallest
                // dividend traps on x86.
                self.push(LaneInst::new(LaneOp::ExitIfZero, LaneValue::NONE, &[y]));
                if elem.is_signed() {
                    let one = self.constant(elem.scalar_ty(), 1);
                    let next = self.pure(LaneOp::Scalar(LaneBinOp::Add, elem), elem.scalar_ty(), &[y, one]);
                    self.push(LaneInst::new(LaneOp::ExitIfZero, LaneValue::NONE, &[next]));
                }
                self.result(op, elem.scalar_ty(), &[x, y])
            }
            Some(_) => self.pure(op, elem.scalar_ty(), &[x, y]),
        };
        Some(self.scalar_lane(ty, value))
    }

    /// Emits a shift of vectors. Shift amounts wrap modulo the width.
    fn shift(
        &mut self,
        bin: LaneBinOp,
        elem: LaneElem,
        ty: Scalar,
        right_ty: Scalar,
        a: &ComponentValue,
        b: &ComponentValue,
    ) -> Option<ComponentValue> {
        let wide = elem.is_wide();
        if (right_ty.size() == 8) != wide {
            let amount = match b {
                ComponentValue::Affine(form) => form.as_imm()? as u32,
                ComponentValue::Bits(bits) => *bits as u32,
                _ => return None,
            };
            let (a, b) = (self.vector(a, ty), self.splat(wide, (amount & largest_shift(ty)).into()));
            return Some(ComponentValue::Vector(self.pure(LaneOp::Vector(bin, elem), elem.vector_ty(), &[a, b])));
        }
        let a = self.vector(a, ty);
        let amount = match b {
            ComponentValue::Affine(form) if form.as_imm().is_some() => {
                self.splat(false, u64::from(form.as_imm().unwrap_or(0) as u32 & largest_shift(ty)))
            }
            _ => {
                let (b, most) = (self.vector(b, right_ty), self.splat(wide, largest_shift(ty).into()));
                let and = if wide { LaneElem::U64 } else { LaneElem::U32 };
                self.pure(LaneOp::Vector(LaneBinOp::And, and), elem.vector_ty(), &[b, most])
            }
        };
        Some(ComponentValue::Vector(self.pure(LaneOp::Vector(bin, elem), elem.vector_ty(), &[a, amount])))
    }

    /// Emits an integer division of vectors with 4-byte lanes.
    fn divide(
        &mut self,
        bin: LaneBinOp,
        elem: LaneElem,
        ty: Scalar,
        a: &ComponentValue,
        b: &ComponentValue,
    ) -> Option<ComponentValue> {
        if elem.is_wide() {
            return None;
        }
        let constant_divisor = match b {
            ComponentValue::Affine(form) => form.as_imm(),
            _ => None,
        };
        let x = self.vector(a, ty);
        if let Some(divisor) = constant_divisor.filter(|&d| d > 0 && (d as u32).is_power_of_two()) {
            return Some(ComponentValue::Vector(self.divide_by_power(bin, elem, x, divisor)));
        }
        let y = self.vector(b, ty);
        if constant_divisor.is_none_or(|d| d == 0) {
            let zero = self.splat(false, 0);
            let zeros = self.result(LaneOp::Compare(LaneComparison::Eq, elem), LaneTy::Mask, &[y, zero]);
            self.push(LaneInst::new(LaneOp::ExitIfAny, LaneValue::NONE, &[zeros]).with_mask(self.flow.mask));
        }
        Some(ComponentValue::Vector(self.result(LaneOp::Vector(bin, elem), LaneTy::V32, &[x, y])))
    }

    /// Emits a division by a power of two as a shift. The code first biases negative dividends, so that the quotient
    /// rounds toward zero.
    fn divide_by_power(&mut self, bin: LaneBinOp, elem: LaneElem, a: LaneValue, divisor: i32) -> LaneValue {
        let (bits, ty) = (divisor.trailing_zeros(), LaneTy::V32);
        let low = self.splat(false, u64::from(divisor as u32 - 1));
        let by = self.splat(false, bits.into());
        let op = |b: &mut Self, bin, elem, x, y| b.pure(LaneOp::Vector(bin, elem), ty, &[x, y]);
        if elem == LaneElem::U32 {
            return match bin {
                LaneBinOp::Div => op(self, LaneBinOp::Shr, elem, a, by),
                _ => op(self, LaneBinOp::And, elem, a, low),
            };
        }
        let most = self.splat(false, 31);
        let sign = op(self, LaneBinOp::Shr, LaneElem::I32, a, most);
        let bias = op(self, LaneBinOp::And, LaneElem::I32, sign, low);
        let biased = op(self, LaneBinOp::Add, LaneElem::I32, a, bias);
        let quotient = op(self, LaneBinOp::Shr, LaneElem::I32, biased, by);
        match bin {
            LaneBinOp::Div => quotient,
            _ => {
                let full_group = op(self, LaneBinOp::Shl, LaneElem::I32, quotient, by);
                op(self, LaneBinOp::Sub, LaneElem::I32, a, full_group)
            }
        }
    }

    fn compare(
        &mut self,
        rel: LaneComparison,
        elem: LaneElem,
        ty: Scalar,
        a: &ComponentValue,
        b: &ComponentValue,
    ) -> Option<ComponentValue> {
        if !elem.is_float() && a.is_scalar() && b.is_scalar() {
            let (a, b) = (self.uniform_value(a, ty)?, self.uniform_value(b, ty)?);
            return Some(ComponentValue::Scalar(self.pure(LaneOp::CompareScalar(rel, elem), LaneTy::I32, &[a, b])));
        }
        let (a, b) = (self.vector(a, ty), self.vector(b, ty));
        Some(ComponentValue::Mask(self.result(LaneOp::Compare(rel, elem), LaneTy::Mask, &[a, b])))
    }

    fn logic(&mut self, op: BinOp, a: &ComponentValue, b: &ComponentValue) -> Option<ComponentValue> {
        let (scalar, mask) = match op {
            BinOp::And => (LaneBinOp::And, LaneOp::MaskAnd),
            BinOp::Or => (LaneBinOp::Or, LaneOp::MaskOr),
            BinOp::Xor | BinOp::Ne | BinOp::Eq => (LaneBinOp::Xor, LaneOp::MaskXor),
            _ => return None,
        };
        let lane = if a.is_scalar() && b.is_scalar() {
            let (a, b) = (self.uniform_value(a, Scalar::Bool)?, self.uniform_value(b, Scalar::Bool)?);
            ComponentValue::Scalar(self.pure(LaneOp::Scalar(scalar, LaneElem::I32), LaneTy::I32, &[a, b]))
        } else {
            let (a, b) = (self.mask_of(a)?, self.mask_of(b)?);
            ComponentValue::Mask(self.result(mask, LaneTy::Mask, &[a, b]))
        };
        if op == BinOp::Eq { self.unary(UnaryOp::Not, Scalar::Bool, &lane) } else { Some(lane) }
    }

    /// Emits code that selects `a` in lanes where the condition holds, and `b` in the other lanes. `varies`: the result
    /// may differ between lanes.
    pub(super) fn select(
        &mut self,
        cond: &ComponentValue,
        a: &ComponentValue,
        b: &ComponentValue,
        scalar: Scalar,
        varies: bool,
    ) -> Option<ComponentValue> {
        let even = cond.is_scalar() && a.is_scalar() && b.is_scalar();
        if (even || !varies) && !scalar.is_float() {
            let cond = self.uniform_value(cond, Scalar::Bool)?;
            let (x, y) = (self.uniform_value(a, scalar)?, self.uniform_value(b, scalar)?);
            let value = self.pure(LaneOp::SelectScalar, self.region.ty(x), &[cond, x, y]);
            return Some(self.scalar_lane(scalar, value));
        }
        let cond = self.mask_of(cond)?;
        if scalar == Scalar::Bool {
            let (x, y) = (self.mask_of(a)?, self.mask_of(b)?);
            let x = self.result(LaneOp::MaskAnd, LaneTy::Mask, &[x, cond]);
            let y = self.result(LaneOp::MaskAndNot, LaneTy::Mask, &[y, cond]);
            return Some(ComponentValue::Mask(self.result(LaneOp::MaskOr, LaneTy::Mask, &[x, y])));
        }
        let ty = if scalar.size() == 8 { LaneTy::V64 } else { LaneTy::V32 };
        let (x, y) = (self.vector(a, scalar), self.vector(b, scalar));
        Some(ComponentValue::Vector(self.result(LaneOp::Select, ty, &[cond, x, y])))
    }

    pub(super) fn math(&mut self, function: MathFn, ty: Scalar, lanes: &[ComponentValue]) -> Option<ComponentValue> {
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
            return self.binary(op, ty, ty, a, b);
        }
        if !elem.is_float() && lanes.iter().all(ComponentValue::is_scalar) && matches!(function, Min | Max | Clamp) {
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
        let args: Vec<LaneValue> = lanes.iter().map(|lane| self.vector(lane, ty)).collect();
        let vector = elem.vector_ty();
        let two = |b: &mut Self, bin, x, y| b.pure(LaneOp::Vector(bin, elem), vector, &[x, y]);
        let value = match (function, args.as_slice()) {
            (Min, &[a, b]) => two(self, LaneBinOp::Min, a, b),
            (Max, &[a, b]) => two(self, LaneBinOp::Max, a, b),
            (Clamp, &[a, low, high]) => {
                let a = two(self, LaneBinOp::Max, a, low);
                two(self, LaneBinOp::Min, a, high)
            }
            (Fma, _) => self.pure(LaneOp::Fma(elem), vector, &args),
            (Fract, &[a]) => {
                let floor = self.pure(LaneOp::Unary(LaneUnaryOp::Floor, elem), vector, &[a]);
                two(self, LaneBinOp::Sub, a, floor)
            }
            (Tf32, &[a]) => self.rounded_to_tf32(a),
            (IsNan, &[a]) => {
                return Some(ComponentValue::Mask(self.result(
                    LaneOp::Compare(LaneComparison::Ne, elem),
                    LaneTy::Mask,
                    &[a, a],
                )));
            }
            _ => {
                let un = match function {
                    Abs => LaneUnaryOp::Abs,
                    Sqrt => LaneUnaryOp::Sqrt,
                    Rsqrt if elem == LaneElem::F32 => LaneUnaryOp::Rsqrt,
                    Floor => LaneUnaryOp::Floor,
                    Ceil => LaneUnaryOp::Ceil,
                    Round => LaneUnaryOp::Round,
                    Trunc => LaneUnaryOp::Trunc,
                    _ => return self.call(function, ty, &args),
                };
                if elem.is_wide() && !elem.is_float() {
                    return None;
                }
                self.pure(LaneOp::Unary(un, elem), vector, &args)
            }
        };
        // The absolute value of the smallest integer does not fit in its type, so the result is truncated.
        if ty.size() < 4 {
            self.truncate_lane(ty, &ComponentValue::Vector(value))
        } else {
            Some(ComponentValue::Vector(value))
        }
    }

    fn scalar_math(
        &mut self,
        function: MathFn,
        elem: LaneElem,
        ty: Scalar,
        lanes: &[ComponentValue],
    ) -> Option<ComponentValue> {
        let args: Vec<LaneValue> = lanes.iter().map(|lane| self.uniform_value(lane, ty)).collect::<Option<_>>()?;
        let mut two = |bin, x, y| self.pure(LaneOp::Scalar(bin, elem), elem.scalar_ty(), &[x, y]);
        let value = match (function, args.as_slice()) {
            (MathFn::Min, &[a, b]) => two(LaneBinOp::Min, a, b),
            (MathFn::Max, &[a, b]) => two(LaneBinOp::Max, a, b),
            (_, &[a, low, high]) => {
                let a = two(LaneBinOp::Max, a, low);
                two(LaneBinOp::Min, a, high)
            }
            _ => return None,
        };
        Some(self.scalar_lane(ty, value))
    }

    /// Emits a call of an `f32` math function, which is computed by a polynomial approximation.
    fn call(&mut self, function: MathFn, ty: Scalar, args: &[LaneValue]) -> Option<ComponentValue> {
        use MathFn::*;
        let unary = [Exp, Exp2, Exp10, Expm1, Log, Log2, Log10, Log1p, Sin, Cos, Sinh, Cosh, Tanh, Erf];
        let is_supported = unary.contains(&function) && args.len() == 1 || function == Pow && args.len() == 2;
        if ty != Scalar::F32 || !is_supported {
            return None;
        }
        Some(ComponentValue::Vector(self.result(LaneOp::Call(function, LaneElem::F32), LaneTy::V32, args)))
    }

    pub(super) fn convert(&mut self, from: Scalar, to: Scalar, a: &ComponentValue) -> Option<ComponentValue> {
        if let ComponentValue::Bits(bits) = a {
            use crate::lanes::{lane_of_raw, raw_of_lane};
            let value = clk_scalar::ScalarValue { ty: from, bits: raw_of_lane(from, *bits) };
            let value = clk_scalar::dynamic::convert(to, value);
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
            let zero =
                if source.is_wide() { ComponentValue::Bits(0) } else { ComponentValue::Affine(LaneAffine::imm(0)) };
            return if source.is_float() { None } else { self.compare(LaneComparison::Ne, source, from, a, &zero) };
        }
        if source.is_float() || !a.is_scalar() {
            return self.convert_vector(source, to, a, from);
        }
        // Conversions between uniform integers are computed on scalars.
        let target = element(to)?;
        let value = match (source.is_wide(), target.is_wide()) {
            _ if target.is_float() => return self.convert_vector(source, to, a, from),
            (false, true) => {
                let value = self.uniform_value(a, from)?;
                self.pure(if source.is_signed() { LaneOp::Sext } else { LaneOp::Zext }, LaneTy::I64, &[value])
            }
            (true, false) => {
                let value = self.uniform_value(a, from)?;
                let word = self.pure(LaneOp::Trunc, LaneTy::I32, &[value]);
                self.truncate_scalar(to, word)
            }
            (false, false) => {
                let value = self.uniform_value(a, from)?;
                self.truncate_scalar(to, value)
            }
            (true, true) => return None,
        };
        Some(self.scalar_lane(to, value))
    }

    fn convert_bool(&mut self, to: Scalar, a: &ComponentValue) -> Option<ComponentValue> {
        let elem = element(to).filter(|e| !e.is_wide())?;
        if a.is_scalar() && !elem.is_float() {
            let value = self.uniform_value(a, Scalar::Bool)?;
            return Some(self.scalar_lane(to, value));
        }
        let mask = self.mask_of(a)?;
        let one = if elem.is_float() { 1f32.to_bits().into() } else { 1 };
        let (one, zero) = (self.splat(false, one), self.splat(false, 0));
        Some(ComponentValue::Vector(self.result(LaneOp::Select, LaneTy::V32, &[mask, one, zero])))
    }

    fn convert_vector(
        &mut self,
        source: LaneElem,
        to: Scalar,
        a: &ComponentValue,
        from: Scalar,
    ) -> Option<ComponentValue> {
        let value = self.vector(a, from);
        if LaneElem::from_scalar(to).is_none() {
            element(to)?;
            if source.is_float() {
                // The conversion to `i32` saturates, and so does the clamp to the smaller type.
                let word = self.pure(LaneOp::Convert(source, LaneElem::I32), LaneTy::V32, &[value]);
                return Some(ComponentValue::Vector(self.clamp_to(to, word)));
            }
            let word = if source.is_wide() {
                self.pure(LaneOp::Convert(source, LaneElem::I32), LaneTy::V32, &[value])
            } else {
                value
            };
            return self.truncate_lane(to, &ComponentValue::Vector(word));
        }
        let target = LaneElem::from_scalar(to)?;
        use LaneElem::*;
        let is_direct = matches!(
            (source, target),
            (I32 | U32, F32 | F64 | I64 | U64)
                | (F32, I32 | U32 | F64)
                | (F64, F32 | I32)
                | (I64 | U64, I32 | U32)
                | (I64, F64)
        );
        if !is_direct {
            return None;
        }
        Some(ComponentValue::Vector(self.pure(LaneOp::Convert(source, target), target.vector_ty(), &[value])))
    }

    /// Emits code that clamps 32-bit lanes to the range of an 8-bit or 16-bit integer type.
    fn clamp_to(&mut self, to: Scalar, word: LaneValue) -> LaneValue {
        let bits = 8 * to.size() as u32;
        let (low, high) =
            if to.is_signed() { (-1 << (bits - 1), (1 << (bits - 1)) - 1) } else { (0, (1i32 << bits) - 1) };
        let (low, high) = (self.splat(false, low as u32 as u64), self.splat(false, high as u32 as u64));
        let clamped_low = self.pure(LaneOp::Vector(LaneBinOp::Max, LaneElem::I32), LaneTy::V32, &[word, low]);
        self.pure(LaneOp::Vector(LaneBinOp::Min, LaneElem::I32), LaneTy::V32, &[clamped_low, high])
    }

    /// Emits code that truncates a 32-bit integer to a smaller type and extends it to 32 bits again.
    fn truncate_lane(&mut self, to: Scalar, lane: &ComponentValue) -> Option<ComponentValue> {
        if lane.is_scalar() {
            let value = self.uniform_value(lane, to)?;
            let cut = self.truncate_scalar(to, value);
            return Some(self.scalar_lane(to, cut));
        }
        let value = self.vector(lane, to);
        let op = |bin, elem| (LaneOp::Vector(bin, elem), LaneTy::V32);
        Some(ComponentValue::Vector(self.truncate_value(to, value, op, |b, v| b.splat(false, v.into()))))
    }

    fn truncate_scalar(&mut self, to: Scalar, value: LaneValue) -> LaneValue {
        let op = |bin, elem| (LaneOp::Scalar(bin, elem), LaneTy::I32);
        self.truncate_value(to, value, op, |b, v| b.constant(LaneTy::I32, i64::from(v as i32)))
    }

    fn truncate_value(
        &mut self,
        to: Scalar,
        value: LaneValue,
        op: impl Fn(LaneBinOp, LaneElem) -> (LaneOp, LaneTy),
        constant: impl Fn(&mut Self, u32) -> LaneValue,
    ) -> LaneValue {
        let bits = 8 * to.size() as u32;
        if bits >= 32 {
            return value;
        }
        if !to.is_signed() {
            let low = constant(self, (1 << bits) - 1);
            let (and, ty) = op(LaneBinOp::And, LaneElem::U32);
            return self.pure(and, ty, &[value, low]);
        }
        let by = constant(self, 32 - bits);
        let (left, ty) = op(LaneBinOp::Shl, LaneElem::U32);
        let up = self.pure(left, ty, &[value, by]);
        let (right, ty) = op(LaneBinOp::Shr, LaneElem::I32);
        self.pure(right, ty, &[up, by])
    }

    pub(super) fn bitcast(&mut self, from: Scalar, to: Scalar, a: &ComponentValue) -> Option<ComponentValue> {
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
            ComponentValue::Bits(bits) => self.constant_lane(to, *bits),
            _ if from.is_float() == to.is_float() => a.clone(),
            _ => ComponentValue::Vector(self.vector(a, from)),
        })
    }
}
