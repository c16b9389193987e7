//! Conversions and operators of scalars: integer promotions, the usual arithmetic conversions, and C++'s rules for
//! overflow, division and shifts, written out in Clk.
//!
//! A conversion between integer types that cannot change the value is deferred: [`Value::rep`] stays the old type until
//! an operation needs the new one. So `x[threadIdx.x + 1]` needs no conversion.

use super::lower::Lower;
use super::tree::{Expr, ExprKind};
use super::types::{CType, ClkScalar, ComponentKind, FloatKind, IntKind};
use super::value::{ConstantValue, Position, Res, Value, refuse};
use crate::ast::CppBinaryOp;
use crate::source::SourceSpan;
use clk_base::affine::gcd;

pub(crate) const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

fn contains(scalar: ClkScalar, range: (i128, i128)) -> bool {
    let (low, high) = scalar.limits();
    low <= range.0 && range.1 <= high
}

/// Returns the expression of an integer value in another representation that contains the value, or after wrapping.
pub(crate) fn coerce(value: &Value, rep: ClkScalar) -> Expr {
    if value.rep == rep {
        return value.expr.clone();
    }
    let span = value.expr.span;
    match value.constant {
        Some(ConstantValue::Int(number)) if rep == ClkScalar::Bool => Expr::new(ExprKind::Bool(number != 0), span),
        Some(ConstantValue::Int(number)) if !rep.is_float() => Expr::int(rep.wrap(number), rep, span),
        _ => Expr::call(rep.name(), vec![value.expr.clone()], span),
    }
}

/// Returns the expression of a value in the Clk type of its C++ type.
pub(crate) fn realize(value: &Value) -> Expr {
    match value.ty.scalar() {
        Some(scalar) => coerce(value, scalar),
        None => value.expr.clone(),
    }
}

fn round_to(kind: FloatKind, value: f64) -> Option<f64> {
    match kind {
        FloatKind::Double => Some(value),
        FloatKind::Float => Some(f64::from(value as f32)),
        FloatKind::Half | FloatKind::Bfloat16 => None,
    }
}

impl Lower<'_, '_> {
    /// Converts a value to another type, as an implicit conversion or a `static_cast` does.
    pub(crate) fn convert(&mut self, value: Value, to: &CType, span: SourceSpan) -> Res<Value> {
        let to = to.referent();
        if value.ty == *to {
            return Ok(value);
        }
        if [&value.ty, to].into_iter().any(|ty| matches!(ty, CType::FunctionPointer(_))) {
            return self.convert_function_pointer(value, to, span);
        }
        let (Some(from_scalar), Some(scalar)) = (value.ty.scalar(), to.scalar()) else {
            return self.convert_class(value, to, span);
        };
        if scalar == ClkScalar::Bool {
            return Ok(self.truth(value));
        }
        if let Some(constant) = value.constant {
            let folded = match (constant, to) {
                (ConstantValue::Int(number), CType::Float(kind)) => {
                    let exact = match kind {
                        FloatKind::Float => Some(f64::from(number as f32)),
                        FloatKind::Double => Some(number as f64),
                        _ => None,
                    };
                    exact.map(|number| Value::float(number, to.clone(), span))
                }
                (ConstantValue::Int(number), _) => Some(Value::int(scalar.wrap(number), to.clone(), span)),
                (ConstantValue::Float(number), CType::Float(kind)) => {
                    round_to(*kind, number).map(|number| Value::float(number, to.clone(), span))
                }
                (ConstantValue::Float(number), _) => {
                    let (low, high) = scalar.limits();
                    let number = number.trunc();
                    let fits = number >= low as f64 && number <= high as f64 && number.abs() < 9.0e15;
                    fits.then(|| Value::int(number as i128, to.clone(), span))
                }
            };
            if let Some(folded) = folded {
                return Ok(folded);
            }
        }
        if from_scalar.is_float() || scalar.is_float() {
            let expr = Expr::call(scalar.name(), vec![value.expr.clone()], span);
            let converted = Value::new(to.clone(), expr);
            return Ok(Value { stable: value.stable, effect: value.effect, ..converted });
        }
        // Integers. A bool has no arithmetic in Clk, so it is converted at once.
        let range = value.range.unwrap_or(value.rep.limits());
        if value.rep != ClkScalar::Bool && contains(scalar, range) {
            return Ok(Value { ty: to.clone(), constant: value.constant, ..value });
        }
        let expr = Expr::call(scalar.name(), vec![value.expr.clone()], span);
        let range = if contains(scalar, range) { range } else { scalar.limits() };
        let converted = Value::new(to.clone(), expr);
        Ok(Value { stable: value.stable, effect: value.effect, range: Some(range), ..converted })
    }

    /// Returns whether a value is not zero, as a `bool`.
    pub(crate) fn truth(&mut self, value: Value) -> Value {
        let span = value.expr.span;
        if value.ty == CType::Bool {
            return value;
        }
        if let Some(known) = value.constant_bool() {
            return Value::bool(known, span);
        }
        if value.rep == ClkScalar::Bool {
            // A comparison that was converted to an integer.
            return Value { ty: CType::Bool, range: Some((0, 1)), ..value };
        }
        let zero = match value.ty {
            CType::Float(kind) => Expr::new(ExprKind::Float(0.0, kind.scalar()), span),
            _ => Expr::int(0, value.rep, span),
        };
        let expr = Expr::binary("!=", value.expr.clone(), zero, span);
        Value { stable: value.stable, effect: value.effect, ..Value::new(CType::Bool, expr) }
    }

    pub(crate) fn negated(&mut self, value: Value) -> Value {
        let truth = self.truth(value);
        let span = truth.expr.span;
        if let Some(known) = truth.constant_bool() {
            return Value::bool(!known, span);
        }
        Value { expr: truth.expr.not(), constant: None, ..Value::new(CType::Bool, Expr::name("", span)) }
            .with_flags(truth.stable, truth.effect)
    }

    /// Applies a binary operator to scalars, with the usual arithmetic conversions.
    pub(crate) fn binary(&mut self, op: CppBinaryOp, a: Value, b: Value, span: SourceSpan) -> Res<Value> {
        use CppBinaryOp as Op;
        if matches!(a.ty, CType::Vector(..)) || matches!(b.ty, CType::Vector(..)) {
            return self.vector_binary(op, a, b, span);
        }
        if matches!(op, Op::And | Op::Or) {
            let (a, b) = (self.truth(a), self.truth(b));
            return Ok(logical(op, a, b, span));
        }
        if matches!(op, Op::Shl | Op::Shr) {
            return self.shift(op, a, b, span);
        }
        if [&a.ty, &b.ty].into_iter().any(|ty| matches!(ty, CType::FunctionPointer(_))) {
            return self.compare_function_pointers(op, a, b, span);
        }
        if let Some(value) = self.compare_signed(op, &a, &b, span) {
            return Ok(value);
        }
        if let Some(value) = bool_bits(op, &a, &b, span) {
            return Ok(value);
        }
        let Some(common) = a.ty.common(&b.ty) else {
            let construct = format!("`{}` of {} and {}", op.text(), self.t.describe(&a.ty), self.t.describe(&b.ty));
            return refuse(construct, span, "convert the operands to one arithmetic type");
        };
        let a = self.convert(a, &common, span)?;
        let b = self.convert(b, &common, span)?;
        match op {
            Op::Eq | Op::Ne | Op::Lt | Op::Le | Op::Gt | Op::Ge => Ok(compare(op, &a, &b, &common, span)),
            _ => match &common {
                CType::Float(kind) => self.float_arithmetic(op, a, b, *kind, span),
                CType::Int(kind) => self.int_arithmetic(op, a, b, *kind, span),
                _ => refuse(format!("`{}` of {}", op.text(), self.t.describe(&common)), span, ""),
            },
        }
    }

    /// Returns `n == u` for a signed `n` and an unsigned `u`, if `u` has values of the signed type only. Then the
    /// conversion of `n` to unsigned does not change the result.
    fn compare_signed(&mut self, op: CppBinaryOp, a: &Value, b: &Value, span: SourceSpan) -> Option<Value> {
        let (Some(x), Some(y)) = (a.ty.promoted(), b.ty.promoted()) else { return None };
        let (signed, unsigned, other) = match (x.scalar().is_signed(), y.scalar().is_signed()) {
            (true, false) => (x, y, b),
            (false, true) => (y, x, a),
            _ => return None,
        };
        let fits = contains(signed.scalar(), other.range.unwrap_or(other.rep.limits()));
        let same_size = signed.scalar().size() == unsigned.scalar().size();
        if !matches!(op, CppBinaryOp::Eq | CppBinaryOp::Ne) || !fits || !same_size {
            return None;
        }
        let common = CType::Int(signed);
        let (a, b) = (self.convert(a.clone(), &common, span).ok()?, self.convert(b.clone(), &common, span).ok()?);
        Some(compare(op, &a, &b, &common, span))
    }

    fn float_arithmetic(
        &mut self,
        op: CppBinaryOp,
        a: Value,
        b: Value,
        kind: FloatKind,
        span: SourceSpan,
    ) -> Res<Value> {
        use CppBinaryOp as Op;
        if !matches!(op, Op::Add | Op::Sub | Op::Mul | Op::Div) {
            let construct = format!("`{}` of floating-point numbers", op.text());
            return refuse(construct, span, "use integers, or `fmodf` for the remainder");
        }
        // Constants are folded in the precision of their type, as the compiler does.
        if let (Some(ConstantValue::Float(x)), Some(ConstantValue::Float(y))) = (a.constant, b.constant) {
            let result = match op {
                Op::Add => x + y,
                Op::Sub => x - y,
                Op::Mul => x * y,
                _ => x / y,
            };
            // Rounding the double result of float operands to float equals the float operation for these operators.
            if let Some(rounded) = round_to(kind, result)
                && rounded.is_finite()
            {
                return Ok(Value::float(rounded, CType::Float(kind), span));
            }
        }
        let (stable, effect) = (a.stable && b.stable, a.effect || b.effect);
        let can_contract = self.t.contract && matches!(kind, FloatKind::Float | FloatKind::Double);
        if can_contract && let Some(expr) = contracted(op, &a, &b, span) {
            self.requirements.note("products in sums are computed by `fma`, as `--contract` demands", span);
            return Ok(Value { stable, effect, ..Value::new(CType::Float(kind), expr) });
        }
        let is_product = can_contract && op == Op::Mul;
        let expr = Expr::binary(op.text(), a.expr, b.expr, span);
        Ok(Value { stable, effect, is_product, ..Value::new(CType::Float(kind), expr) })
    }

    fn int_arithmetic(&mut self, op: CppBinaryOp, a: Value, b: Value, kind: IntKind, span: SourceSpan) -> Res<Value> {
        use CppBinaryOp as Op;
        let scalar = kind.scalar();
        let ty = CType::Int(kind);
        if let (Some(x), Some(y)) = (a.constant_int(), b.constant_int())
            && let Some(result) = fold(op, x, y)
        {
            if !scalar.is_signed() {
                return Ok(Value::int(scalar.wrap(result), ty, span));
            }
            if contains(scalar, (result, result)) {
                return Ok(Value::int(result, ty, span));
            }
            return refuse("an overflow of constants", span, "use unsigned constants, or a wider type");
        }
        if let Some(value) = self.position_arithmetic(op, &a, &b, &ty, span) {
            return Ok(value);
        }
        let (ra, rb) = (a.range.unwrap_or(a.rep.limits()), b.range.unwrap_or(b.rep.limits()));
        let exact = result_range(op, ra, rb);
        let non_negative = ra.0 >= 0 && rb.0 >= 0;
        // The representation in which both operands are available without a conversion.
        let shared = match (a.constant, b.constant) {
            (Some(_), None) if contains(b.rep, ra) => b.rep,
            (None, Some(_)) if contains(a.rep, rb) => a.rep,
            _ if a.rep == b.rep => a.rep,
            _ => scalar,
        };
        let usable = shared.size() >= 4 && !matches!(shared, ClkScalar::Bool);
        let fits = match op {
            Op::Add | Op::Sub | Op::Mul => {
                exact.is_some_and(|range| contains(shared, range) && contains(scalar, range))
            }
            Op::Div | Op::Rem | Op::BitAnd | Op::BitOr | Op::BitXor => non_negative,
            _ => false,
        };
        let rep = if usable && fits { shared } else { scalar };
        let wraps = !fits && !scalar.is_signed() && matches!(op, Op::Add | Op::Sub | Op::Mul);
        let (x, y) = (coerce(&a, rep), coerce(&b, rep));
        let expr = match op {
            Op::Add if wraps => Expr::call("wrapping_add", vec![x, y], span),
            Op::Sub if wraps => Expr::call("wrapping_sub", vec![x, y], span),
            Op::Mul if wraps => Expr::call("wrapping_mul", vec![x, y], span),
            _ => Expr::binary(op.text(), x, y, span),
        };
        let (low, high) = scalar.limits();
        let range = match exact {
            Some(range) if contains(scalar, range) => range,
            // Signed overflow is a fault, so the result is within both ranges.
            Some(range) if scalar.is_signed() && range.0 <= high && range.1 >= low => {
                (range.0.max(low), range.1.min(high))
            }
            _ => (low, high),
        };
        let divisor = match op {
            Op::Mul => a.divisor.saturating_mul(b.divisor).min(1 << 32),
            Op::Add | Op::Sub => gcd(a.divisor.into(), b.divisor.into()) as u64,
            _ => 1,
        };
        // Wrapping keeps only divisibility by powers of two.
        let divisor = if wraps { 1 << divisor.trailing_zeros().min(31) } else { divisor };
        Ok(Value {
            rep,
            range: Some(range),
            stable: a.stable && b.stable,
            effect: a.effect || b.effect,
            divisor,
            ..Value::new(ty, expr)
        })
    }

    /// Recognizes the index arithmetic of CUDA: `blockIdx.x * blockDim.x + threadIdx.x` is `global_idx.x`. A launch has
    /// fewer than 2^31 threads along each axis, so these values fit an `i32`.
    fn position_arithmetic(
        &mut self,
        op: CppBinaryOp,
        a: &Value,
        b: &Value,
        ty: &CType,
        span: SourceSpan,
    ) -> Option<Value> {
        use Position as P;
        const AXES: [&str; 3] = ["x", "y", "z"];
        const MOST: i128 = i32::MAX as i128;
        if a.rep != ClkScalar::I32 && a.constant.is_none() || b.rep != ClkScalar::I32 && b.constant.is_none() {
            return None;
        }
        let known = |position, expr: Expr, range| {
            let value = Value::new(ty.clone(), expr);
            Some(Value { rep: ClkScalar::I32, range: Some(range), position: Some(position), stable: true, ..value })
        };
        let product = || Expr::binary("*", a.expr.clone(), b.expr.clone(), span);
        let extent = |position| matches!(position, Some(P::BlockExtent(_)));
        let both = a.position.is_some() && b.position.is_some();
        if op == CppBinaryOp::Mul && both && (extent(a.position) || extent(b.position)) {
            self.requirements.note("a launch has at most 2147483647 threads along each axis", span);
        }
        match (op, a.position, b.position) {
            (CppBinaryOp::Mul, Some(P::Block(x)), Some(P::BlockExtent(y)))
            | (CppBinaryOp::Mul, Some(P::BlockExtent(y)), Some(P::Block(x)))
                if x == y =>
            {
                known(P::BlockStart(x), product(), (0, MOST))
            }
            (CppBinaryOp::Mul, Some(P::GridExtent(x)), Some(P::BlockExtent(y)))
            | (CppBinaryOp::Mul, Some(P::BlockExtent(y)), Some(P::GridExtent(x)))
                if x == y =>
            {
                known(P::Stride(x), product(), (1, MOST))
            }
            (CppBinaryOp::Add, Some(P::BlockStart(x)), Some(P::Thread(y)))
            | (CppBinaryOp::Add, Some(P::Thread(y)), Some(P::BlockStart(x)))
                if x == y =>
            {
                let base = Expr::name("global_idx", span);
                let expr = Expr::new(ExprKind::Field(Box::new(base), AXES[usize::from(x)].into()), span);
                known(P::Global(x), expr, (0, MOST))
            }
            (CppBinaryOp::Mul, Some(P::Block(axis)), None) | (CppBinaryOp::Mul, None, Some(P::Block(axis))) => {
                let factor = a.constant_int().or(b.constant_int())?;
                let scalar = ty.scalar()?;
                if scalar.is_signed() || scalar.size() != 4 || !(1..=65_536).contains(&factor) {
                    return None;
                }
                // The unsigned product wraps only for huge grids, which an `assume` of the kernel excludes.
                // The sum with a thread's index must fit as well.
                // CUDA limits the grid to 65,535 blocks along the other axes.
                let most = if axis == 0 { MOST } else { 65_535 };
                let limit = (axis, most.min((MOST - 1023) / factor + 1));
                self.requirements.limit_grid(limit);
                let blocks = limit.1;
                let (x, y) = (coerce(a, ClkScalar::I32), coerce(b, ClkScalar::I32));
                let value = Value::new(ty.clone(), Expr::binary("*", x, y, span));
                let divisor = a.divisor.saturating_mul(b.divisor);
                let range = Some((0, (blocks - 1) * factor));
                Some(Value { rep: ClkScalar::I32, range, stable: true, divisor, ..value })
            }
            _ => None,
        }
    }

    fn shift(&mut self, op: CppBinaryOp, a: Value, b: Value, span: SourceSpan) -> Res<Value> {
        let (Some(kind), Some(_)) = (a.ty.promoted(), b.ty.promoted()) else {
            return refuse(format!("`{}` of {}", op.text(), self.t.describe(&a.ty)), span, "shift integers");
        };
        let ty = CType::Int(kind);
        let scalar = kind.scalar();
        let a = self.convert(a, &ty, span)?;
        let amount = b.constant_int();
        let bits = 8 * scalar.size() as i128;
        if let (Some(x), Some(n)) = (a.constant_int(), amount)
            && (0..bits).contains(&n)
        {
            let result = if op == CppBinaryOp::Shl { scalar.wrap(x << n) } else { x >> n };
            return Ok(Value::int(result, ty, span));
        }
        let b = self.convert(b, &CType::Int(IntKind::LongLong), span)?;
        let range = a.range.unwrap_or(scalar.limits());
        let known = match amount {
            Some(n) if (0..bits).contains(&n) => {
                let exact = match op {
                    CppBinaryOp::Shl => (range.0 << n, range.1 << n),
                    _ => (range.0 >> n, range.1 >> n),
                };
                if contains(scalar, exact) { Some(exact) } else { None }
            }
            _ if op == CppBinaryOp::Shr && range.0 >= 0 => Some((0, range.1)),
            _ => None,
        };
        // A shift of a non-negative value to the right, or within range to the left, has the same bits in `i32`.
        let rep = match known {
            // Clk counts the amount modulo the number of bits of the representation.
            Some(range)
                if a.rep.size() >= 4
                    && range.0 >= 0
                    && contains(a.rep, range)
                    && (a.rep.size() >= scalar.size() || amount.is_some_and(|n| n < 8 * a.rep.size() as i128)) =>
            {
                a.rep
            }
            _ => scalar,
        };
        let divisor = match (op, amount) {
            (CppBinaryOp::Shl, Some(n)) if (0..32).contains(&n) => 1u64 << n,
            _ => 1,
        };
        let expr = Expr::binary(op.text(), coerce(&a, rep), coerce(&b, rep), span);
        Ok(Value {
            rep,
            range: Some(known.unwrap_or(scalar.limits())),
            stable: a.stable && b.stable,
            effect: a.effect || b.effect,
            divisor,
            ..Value::new(ty, expr)
        })
    }

    /// `-x`, `+x`, `~x` of a scalar or vector.
    pub(crate) fn unary_arithmetic(&mut self, op: &'static str, value: Value, span: SourceSpan) -> Res<Value> {
        if let CType::Vector(ComponentKind::Float(_), _) = value.ty
            && op == "-"
        {
            let expr = Expr::new(ExprKind::Unary("-", Box::new(value.expr.clone())), span);
            return Ok(Value { expr, ..value });
        }
        if let CType::Float(kind) = value.ty {
            return match op {
                "+" => Ok(value),
                "-" => Ok(match value.constant {
                    Some(ConstantValue::Float(number)) => Value::float(-number, CType::Float(kind), span),
                    _ => {
                        let expr = Expr::new(ExprKind::Unary("-", Box::new(value.expr)), span);
                        let negated = Value { is_product: value.is_product, ..Value::new(CType::Float(kind), expr) };
                        negated.with_flags(value.stable, value.effect)
                    }
                }),
                _ => refuse(format!("`{op}` of a floating-point number"), span, ""),
            };
        }
        let Some(kind) = value.ty.promoted() else {
            return refuse(format!("`{op}` of {}", self.t.describe(&value.ty)), span, "");
        };
        let ty = CType::Int(kind);
        let value = self.convert(value, &ty, span)?;
        if op == "+" {
            return Ok(value);
        }
        let scalar = kind.scalar();
        if let Some(number) = value.constant_int() {
            let result = if op == "-" { -number } else { !number };
            if !scalar.is_signed() || contains(scalar, (result, result)) {
                return Ok(Value::int(scalar.wrap(result), ty, span));
            }
        }
        let operand = coerce(&value, scalar);
        let (low, high) = scalar.limits();
        let range = value.range.unwrap_or((low, high));
        let (expr, range) = match op {
            "-" if scalar.is_signed() => {
                (Expr::new(ExprKind::Unary("-", Box::new(operand)), span), ((-range.1).max(low), (-range.0).min(high)))
            }
            "-" => (Expr::call("wrapping_neg", vec![operand], span), (low, high)),
            _ => (Expr::new(ExprKind::Unary("!", Box::new(operand)), span), (low, high)),
        };
        Ok(Value { range: Some(range), stable: value.stable, effect: value.effect, ..Value::new(ty, expr) })
    }
}

impl Value {
    pub(crate) fn with_flags(self, stable: bool, effect: bool) -> Value {
        Value { stable, effect, ..self }
    }
}

/// Returns `a + b` or `a - b` as an `fma`, if one of them is a product. If both are, the left product is exact, like in
/// code of nvcc.
fn contracted(op: CppBinaryOp, a: &Value, b: &Value, span: SourceSpan) -> Option<Expr> {
    let is_sum = match op {
        CppBinaryOp::Add => true,
        CppBinaryOp::Sub => false,
        _ => return None,
    };
    let (x, y, z) = if let Some((x, y)) = factors(a) {
        (x, y, if is_sum { b.expr.clone() } else { negated_float(b.expr.clone()) })
    } else {
        let (x, y) = factors(b)?;
        (if is_sum { x } else { negated_float(x) }, y, a.expr.clone())
    };
    Some(Expr::call("fma", vec![x, y, z], span))
}

/// Returns the factors of a product, or of a negated one.
fn factors(value: &Value) -> Option<(Expr, Expr)> {
    if !value.is_product {
        return None;
    }
    match &value.expr.kind {
        ExprKind::Binary("*", x, y) => Some(((**x).clone(), (**y).clone())),
        ExprKind::Unary("-", product) => match &product.kind {
            ExprKind::Binary("*", x, y) => Some((negated_float((**x).clone()), (**y).clone())),
            _ => None,
        },
        _ => None,
    }
}

fn negated_float(value: Expr) -> Expr {
    let span = value.span;
    match value.kind {
        ExprKind::Unary("-", inner) => *inner,
        ExprKind::Float(number, scalar) => Expr::new(ExprKind::Float(-number, scalar), span),
        kind => Expr::new(ExprKind::Unary("-", Box::new(Expr::new(kind, span))), span),
    }
}

fn fold(op: CppBinaryOp, x: i128, y: i128) -> Option<i128> {
    match op {
        CppBinaryOp::Add => x.checked_add(y),
        CppBinaryOp::Sub => x.checked_sub(y),
        CppBinaryOp::Mul => x.checked_mul(y),
        CppBinaryOp::Div => x.checked_div(y),
        CppBinaryOp::Rem => x.checked_rem(y),
        CppBinaryOp::BitAnd => Some(x & y),
        CppBinaryOp::BitOr => Some(x | y),
        CppBinaryOp::BitXor => Some(x ^ y),
        _ => None,
    }
}

/// Returns the limits of the exact result of an operator, without overflow.
fn result_range(op: CppBinaryOp, a: (i128, i128), b: (i128, i128)) -> Option<(i128, i128)> {
    match op {
        CppBinaryOp::Add => Some((a.0 + b.0, a.1 + b.1)),
        CppBinaryOp::Sub => Some((a.0 - b.1, a.1 - b.0)),
        CppBinaryOp::Mul => {
            let products = [a.0.checked_mul(b.0)?, a.0.checked_mul(b.1)?, a.1.checked_mul(b.0)?, a.1.checked_mul(b.1)?];
            Some((*products.iter().min()?, *products.iter().max()?))
        }
        CppBinaryOp::Div if a.0 >= 0 && b.0 > 0 => Some((a.0 / b.1, a.1 / b.0)),
        CppBinaryOp::Rem if a.0 >= 0 && b.0 > 0 => Some((0, a.1.min(b.1 - 1))),
        CppBinaryOp::BitAnd if a.0 >= 0 && b.0 >= 0 => Some((0, a.1.min(b.1))),
        CppBinaryOp::BitAnd if b.0 >= 0 => Some((0, b.1)),
        CppBinaryOp::BitAnd if a.0 >= 0 => Some((0, a.1)),
        CppBinaryOp::BitOr | CppBinaryOp::BitXor if a.0 >= 0 && b.0 >= 0 => {
            let most = a.1.max(b.1);
            let mut limit = 1i128;
            while limit <= most {
                limit <<= 1;
            }
            Some((0, limit - 1))
        }
        _ => None,
    }
}

/// `a && b` or `a || b` of conditions without statements of their own.
pub(crate) fn logical(op: CppBinaryOp, a: Value, b: Value, span: SourceSpan) -> Value {
    let is_and = op == CppBinaryOp::And;
    match (a.constant_bool(), b.constant_bool()) {
        (Some(known), _) if known != is_and => return Value::bool(known, span),
        (Some(_), _) => return b,
        (_, Some(known)) if known == is_and => return a,
        _ => {}
    }
    let (stable, effect) = (a.stable && b.stable, a.effect || b.effect);
    let expr = Expr::binary(if is_and { "&&" } else { "||" }, a.expr, b.expr, span);
    Value { stable, effect, ..Value::new(CType::Bool, expr) }
}

/// Returns `a | b`, `a & b` or `a ^ b` of two conditions as a condition. `None` if an operand is not a condition, or if
/// the second one must be evaluated even if the first one decides.
fn bool_bits(op: CppBinaryOp, a: &Value, b: &Value, span: SourceSpan) -> Option<Value> {
    let is_condition = |value: &Value| value.ty.is_integer() && value.rep == ClkScalar::Bool && !value.effect;
    if !is_condition(a) || !is_condition(b) || !never_fails(&b.expr) {
        return None;
    }
    let truth = |value: &Value| Value { ty: CType::Bool, ..value.clone() };
    let result = match op {
        CppBinaryOp::BitAnd => logical(CppBinaryOp::And, truth(a), truth(b), span),
        CppBinaryOp::BitOr => logical(CppBinaryOp::Or, truth(a), truth(b), span),
        CppBinaryOp::BitXor => compare(CppBinaryOp::Ne, a, b, &CType::Bool, span),
        _ => return None,
    };
    Some(Value { ty: CType::Int(IntKind::Int), range: Some((0, 1)), ..result })
}

/// Returns whether an expression has a value for all values of its variables.
fn never_fails(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Int(..) | ExprKind::Float(..) | ExprKind::Bool(_) | ExprKind::Name(_) => true,
        ExprKind::Field(base, _) | ExprKind::Unary("!", base) => never_fails(base),
        ExprKind::Binary("==" | "!=" | "<" | "<=" | ">" | ">=" | "&&" | "||", left, right) => {
            never_fails(left) && never_fails(right)
        }
        ExprKind::Call(name, args) => {
            let is_conversion = matches!(&**name, "i32" | "u32" | "i64" | "u64" | "f32" | "f64");
            is_conversion && args.iter().all(never_fails)
        }
        _ => false,
    }
}

fn compare(op: CppBinaryOp, a: &Value, b: &Value, common: &CType, span: SourceSpan) -> Value {
    if let (Some(x), Some(y)) = (a.constant_int(), b.constant_int()) {
        let result = match op {
            CppBinaryOp::Eq => x == y,
            CppBinaryOp::Ne => x != y,
            CppBinaryOp::Lt => x < y,
            CppBinaryOp::Le => x <= y,
            CppBinaryOp::Gt => x > y,
            _ => x >= y,
        };
        return Value::bool(result, span);
    }
    let (x, y) = match common {
        CType::Int(kind) => {
            let scalar = kind.scalar();
            let (ra, rb) = (a.range.unwrap_or(a.rep.limits()), b.range.unwrap_or(b.rep.limits()));
            let shared = match (a.constant, b.constant) {
                (Some(_), None) if contains(b.rep, ra) => b.rep,
                (None, Some(_)) if contains(a.rep, rb) => a.rep,
                _ if a.rep == b.rep => a.rep,
                _ => scalar,
            };
            // Clk has no order of `bool`.
            let is_equality = matches!(op, CppBinaryOp::Eq | CppBinaryOp::Ne);
            let shared = if shared == ClkScalar::Bool && !is_equality { scalar } else { shared };
            (coerce(a, shared), coerce(b, shared))
        }
        _ => (a.expr.clone(), b.expr.clone()),
    };
    let expr = Expr::binary(op.text(), x, y, span);
    Value { stable: a.stable && b.stable, effect: a.effect || b.effect, ..Value::new(CType::Bool, expr) }
}

/// Returns an index: any integer type that contains its value.
pub(crate) fn index_expr(index: &Value) -> Expr {
    match index.constant_int() {
        Some(number) if i32::try_from(number).is_ok() => Expr::int(number, ClkScalar::I32, index.expr.span),
        _ if index.rep == ClkScalar::Bool => coerce(index, ClkScalar::I32),
        _ => index.expr.clone(),
    }
}

/// Reinterprets the bits of a scalar.
pub(crate) fn bits(expr: Expr, from: ClkScalar, to: ClkScalar, span: SourceSpan) -> Expr {
    if from == to {
        expr
    } else if from.is_float() || to.is_float() {
        Expr::call("bitcast", vec![Expr::name(to.name(), span), expr], span)
    } else {
        Expr::call(to.name(), vec![expr], span)
    }
}

pub(crate) fn vector_part(vector: &Expr, at: usize, span: SourceSpan) -> Expr {
    Expr::new(ExprKind::Field(Box::new(vector.clone()), COMPONENTS[at].into()), span)
}
