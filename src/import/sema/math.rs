//! Mathematical functions, conversions with rounding, and the functions of `half`.

use super::arith::{coerce, realize};
use super::lower::Lower;
use super::tree::{Expr, ExprKind};
use super::types::{CType, ClkScalar, ComponentKind, DOUBLE, FLOAT, FloatKind, INT, IntKind, UINT};
use super::value::{Denoted, Res, Value, refuse};
use crate::ast::{CppBinaryOp, CppExpr};
use crate::source::SourceSpan;

/// Functions of floating-point numbers with the same meaning in Clk: the name in C, the name in Clk, the number of
/// arguments.
const FUNCTIONS: &[(&str, &str, usize)] = &[
    ("sqrt", "sqrt", 1),
    ("rsqrt", "rsqrt", 1),
    ("cbrt", "cbrt", 1),
    ("exp", "exp", 1),
    ("exp2", "exp2", 1),
    ("exp10", "exp10", 1),
    ("expm1", "expm1", 1),
    ("log", "log", 1),
    ("log2", "log2", 1),
    ("log10", "log10", 1),
    ("log1p", "log1p", 1),
    ("sin", "sin", 1),
    ("cos", "cos", 1),
    ("tan", "tan", 1),
    ("asin", "asin", 1),
    ("acos", "acos", 1),
    ("atan", "atan", 1),
    ("sinh", "sinh", 1),
    ("cosh", "cosh", 1),
    ("tanh", "tanh", 1),
    ("asinh", "asinh", 1),
    ("acosh", "acosh", 1),
    ("atanh", "atanh", 1),
    ("erf", "erf", 1),
    ("erfc", "erfc", 1),
    ("lgamma", "lgamma", 1),
    ("tgamma", "tgamma", 1),
    ("floor", "floor", 1),
    ("ceil", "ceil", 1),
    ("trunc", "trunc", 1),
    ("rint", "round", 1),
    ("nearbyint", "round", 1),
    ("fabs", "abs", 1),
    ("pow", "pow", 2),
    ("atan2", "atan2", 2),
    ("hypot", "hypot", 2),
    ("copysign", "copysign", 2),
    ("fmax", "max", 2),
    ("fmin", "min", 2),
    ("fma", "fma", 3),
];

/// Functions that CUDA computes with less precision than Clk.
const FAST: &[(&str, &str, usize)] = &[
    ("__expf", "exp", 1),
    ("__exp10f", "exp10", 1),
    ("__logf", "log", 1),
    ("__log2f", "log2", 1),
    ("__log10f", "log10", 1),
    ("__sinf", "sin", 1),
    ("__cosf", "cos", 1),
    ("__tanf", "tan", 1),
    ("__powf", "pow", 2),
];

/// Functions of `half` and `__nv_bfloat16` numbers and vectors.
const HALF: &[(&str, &str, usize)] = &[
    ("hexp", "exp", 1),
    ("hexp2", "exp2", 1),
    ("hlog", "log", 1),
    ("hlog2", "log2", 1),
    ("hsqrt", "sqrt", 1),
    ("hrsqrt", "rsqrt", 1),
    ("hsin", "sin", 1),
    ("hcos", "cos", 1),
    ("hfloor", "floor", 1),
    ("hceil", "ceil", 1),
    ("hrint", "round", 1),
    ("htrunc", "trunc", 1),
    ("__habs", "abs", 1),
    ("__hmax", "max", 2),
    ("__hmin", "min", 2),
    ("__hfma", "fma", 3),
    ("__hfma2", "fma", 3),
    ("__hmax2", "max", 2),
    ("__hmin2", "min", 2),
];

/// Operators with a name: the name, and the operator.
const OPERATORS: &[(&str, CppBinaryOp)] = &[
    ("__fadd_rn", CppBinaryOp::Add),
    ("__fsub_rn", CppBinaryOp::Sub),
    ("__fmul_rn", CppBinaryOp::Mul),
    ("__fdiv_rn", CppBinaryOp::Div),
    ("__dadd_rn", CppBinaryOp::Add),
    ("__dsub_rn", CppBinaryOp::Sub),
    ("__dmul_rn", CppBinaryOp::Mul),
    ("__ddiv_rn", CppBinaryOp::Div),
    ("__fdividef", CppBinaryOp::Div),
    ("fdividef", CppBinaryOp::Div),
    ("__hadd", CppBinaryOp::Add),
    ("__hsub", CppBinaryOp::Sub),
    ("__hmul", CppBinaryOp::Mul),
    ("__hdiv", CppBinaryOp::Div),
    ("__hadd2", CppBinaryOp::Add),
    ("__hsub2", CppBinaryOp::Sub),
    ("__hmul2", CppBinaryOp::Mul),
    ("__h2div", CppBinaryOp::Div),
    ("__heq", CppBinaryOp::Eq),
    ("__hne", CppBinaryOp::Ne),
    ("__hlt", CppBinaryOp::Lt),
    ("__hle", CppBinaryOp::Le),
    ("__hgt", CppBinaryOp::Gt),
    ("__hge", CppBinaryOp::Ge),
];

fn find(table: &'static [(&str, &str, usize)], name: &str) -> Option<(&'static str, usize)> {
    table.iter().find(|(known, _, _)| *known == name).map(|(_, clk, count)| (*clk, *count))
}

impl<'a> Lower<'_, 'a> {
    /// Calls a mathematical function of the headers; `None` if there is no such function.
    pub(crate) fn call_math(&mut self, name: &str, args: &'a [CppExpr], span: SourceSpan) -> Res<Option<Value>> {
        if let Some(value) = self.call_output_math(name, args, span)? {
            return Ok(Some(value));
        }
        if !self.is_math(name) {
            return Ok(None);
        }
        let refs: Vec<_> = args.iter().collect();
        let values = self.operands(&refs)?;
        if values.is_empty() {
            return refuse(format!("`{name}` without arguments"), span, "");
        }
        let single = name.strip_suffix('f').filter(|base| is_generic(base));
        if let Some((clk, count)) = find(FUNCTIONS, single.unwrap_or(name)) {
            let ty = self.math_type(single.is_some(), &values, name, span)?;
            return self.float_function(clk, count, &ty, values, name, span).map(Some);
        }
        if let Some((clk, count)) = find(FAST, name) {
            self.requirements
                .note(format!("`{name}` is computed like `{clk}`, with a smaller error than on a GPU"), span);
            return self.float_function(clk, count, &FLOAT, values, name, span).map(Some);
        }
        if let Some((clk, count)) = find(HALF, name) {
            let ty = values[0].ty.clone();
            return self.float_function(clk, count, &ty, values, name, span).map(Some);
        }
        if let Some((_, op)) = OPERATORS.iter().find(|(known, _)| *known == name) {
            let [a, b] = two(values, name, span)?;
            if name.contains("fdividef") {
                self.requirements
                    .note(format!("`{name}` is computed like `/`, with a smaller error than on a GPU"), span);
            }
            let (a, b) = match name.as_bytes()[2] {
                b'f' | b'i' => (self.convert(a, &FLOAT, span)?, self.convert(b, &FLOAT, span)?),
                b'd' => (self.convert(a, &DOUBLE, span)?, self.convert(b, &DOUBLE, span)?),
                _ => (a, b),
            };
            // nvcc contracts operators only.
            let exact = |value| Value { is_product: false, ..value };
            return self.binary(*op, exact(a), exact(b), span).map(exact).map(Some);
        }
        let base = single.unwrap_or(name);
        self.other_math(base, single.is_some(), values, name, span).map(Some)
    }

    fn is_math(&self, name: &str) -> bool {
        let base = name.strip_suffix('f').filter(|base| is_generic(base)).unwrap_or(name);
        find(FUNCTIONS, base).is_some()
            || find(FAST, name).is_some()
            || find(HALF, name).is_some()
            || OPERATORS.iter().any(|(known, _)| *known == name)
            || is_generic(base)
            || conversion(name).is_some()
    }

    /// Returns the type in which a function of `<cmath>` computes: `float` for floats, `double` for integers.
    fn math_type(&mut self, single: bool, values: &[Value], name: &str, span: SourceSpan) -> Res<CType> {
        if single {
            return Ok(FLOAT);
        }
        let mut ty = None;
        for value in values {
            let own = match &value.ty {
                CType::Float(kind) => CType::Float(*kind),
                other if other.is_integer() => DOUBLE,
                other => return refuse(format!("`{name}` of {}", self.t.describe(other)), span, ""),
            };
            ty = match ty {
                None => Some(own),
                Some(known) => match own.common(&known) {
                    Some(common) => Some(common),
                    None => return refuse(format!("`{name}` of these types"), span, "convert the arguments"),
                },
            };
        }
        Ok(ty.unwrap_or(DOUBLE))
    }

    fn float_function(
        &mut self,
        clk: &str,
        count: usize,
        ty: &CType,
        values: Vec<Value>,
        name: &str,
        span: SourceSpan,
    ) -> Res<Value> {
        if values.len() != count {
            return refuse(format!("`{name}` with {} arguments", values.len()), span, "");
        }
        let stable = values.iter().all(|value| value.stable);
        let mut exprs = vec![];
        for value in values {
            exprs.push(self.converted(value, ty, span)?);
        }
        Ok(Value::new(ty.clone(), Expr::call(clk, exprs, span)).with_flags(stable, false))
    }

    fn other_math(&mut self, base: &str, single: bool, values: Vec<Value>, name: &str, span: SourceSpan) -> Res<Value> {
        if let Some((result, rounding)) = conversion(name) {
            return self.rounded(values, result, rounding, name, span);
        }
        match base {
            "abs" | "labs" | "llabs" => {
                let [value] = one(values, name, span)?;
                if let CType::Float(_) = value.ty {
                    let ty = value.ty.clone();
                    return self.float_function("abs", 1, &ty, vec![value], name, span);
                }
                let Some(kind) = value.ty.promoted() else {
                    return refuse(format!("`{name}` of {}", self.t.describe(&value.ty)), span, "");
                };
                let ty = CType::Int(kind);
                let value = self.convert(value, &ty, span)?;
                let stable = value.stable;
                let expr = realize(&value);
                let expr = if kind.scalar().is_signed() { Expr::call("abs", vec![expr], span) } else { expr };
                let (_, high) = kind.scalar().limits();
                Ok(Value { range: Some((0, high)), stable, ..Value::new(ty, expr) })
            }
            "min" | "max" | "umin" | "umax" | "llmin" | "llmax" => {
                let [a, b] = two(values, name, span)?;
                let Some(ty) = a.ty.common(&b.ty) else {
                    return refuse(format!("`{name}` of these types"), span, "convert the arguments");
                };
                let clk = if base.ends_with("min") { "min" } else { "max" };
                let (a, b) = (self.convert(a, &ty, span)?, self.convert(b, &ty, span)?);
                let range = match (a.range, b.range) {
                    (Some(x), Some(y)) if clk == "min" => Some((x.0.min(y.0), x.1.min(y.1))),
                    (Some(x), Some(y)) => Some((x.0.max(y.0), x.1.max(y.1))),
                    _ => None,
                };
                let scalar = self.scalar_of(&ty, span)?;
                let rep = if a.rep == b.rep && a.rep.size() >= 4 { a.rep } else { scalar };
                let (x, y) = if ty.is_integer() { (coerce(&a, rep), coerce(&b, rep)) } else { (a.expr, b.expr) };
                let stable = a.stable && b.stable;
                let value = Value::new(ty.clone(), Expr::call(clk, vec![x, y], span));
                let rep = if ty.is_integer() { rep } else { value.rep };
                Ok(Value { rep, range, stable, ..value })
            }
            "fmod" => {
                let ty = self.math_type(single, &values, name, span)?;
                let [a, b] = two(values, name, span)?;
                let stable = a.stable && b.stable;
                let (a, b) = (self.converted(a, &ty, span)?, self.converted(b, &ty, span)?);
                Ok(Value::new(ty, Expr::binary("%", a, b, span)).with_flags(stable, false))
            }
            "isnan" | "isinf" | "isfinite" | "__isnan" | "__isinf" | "__hisnan" => {
                let ty = self.math_type(false, &values, name, span)?;
                let [value] = one(values, name, span)?;
                let stable = value.stable;
                let expr = self.converted(value, &ty, span)?;
                let clk = match base {
                    "isinf" | "__isinf" => "isinf",
                    "isfinite" => "isfinite",
                    _ => "isnan",
                };
                Ok(Value::new(CType::Bool, Expr::call(clk, vec![expr], span)).with_flags(stable, false))
            }
            "round" | "lround" | "llround" => {
                let ty = self.math_type(single, &values, name, span)?;
                let [value] = one(values, name, span)?;
                let value = self.convert(value, &ty, span)?;
                let x = self.spill(value).expr;
                let whole = Value::new(ty.clone(), Expr::call("trunc", vec![x.clone()], span));
                let whole = self.spill(whole).expr;
                let half = realize(&Value::float(0.5, ty.clone(), span));
                let unit = realize(&Value::float(1.0, ty.clone(), span));
                let rest = Expr::call("abs", vec![Expr::binary("-", x.clone(), whole.clone(), span)], span);
                let away = Expr::binary("+", whole.clone(), Expr::call("copysign", vec![unit, x], span), span);
                let condition = Expr::binary(">=", rest, half, span);
                let expr = Expr::new(ExprKind::If(Box::new(condition), Box::new(away), Box::new(whole)), span);
                let value = Value::new(ty, expr);
                match base {
                    "round" => Ok(value),
                    "lround" => self.convert(value, &CType::Int(IntKind::Long), span),
                    _ => self.convert(value, &CType::Int(IntKind::LongLong), span),
                }
            }
            "lrint" | "llrint" => {
                let ty = self.math_type(single, &values, name, span)?;
                let value = self.float_function("round", 1, &ty, values, name, span)?;
                self.convert(value, &CType::Int(IntKind::Long), span)
            }
            "fdim" => {
                let ty = self.math_type(single, &values, name, span)?;
                let [a, b] = two(values, name, span)?;
                let (a, b) = (self.convert(a, &ty, span)?, self.convert(b, &ty, span)?);
                let (a, b) = (self.spill(a).expr, self.spill(b).expr);
                let zero = realize(&Value::float(0.0, ty.clone(), span));
                let below = Expr::binary("<=", a.clone(), b.clone(), span);
                let difference = Expr::binary("-", a, b, span);
                let expr = Expr::new(ExprKind::If(Box::new(below), Box::new(zero), Box::new(difference)), span);
                Ok(Value::new(ty, expr))
            }
            "signbit" => {
                let ty = self.math_type(single, &values, name, span)?;
                let [value] = one(values, name, span)?;
                let expr = self.converted(value, &ty, span)?;
                let unit = realize(&Value::float(1.0, ty.clone(), span));
                let zero = realize(&Value::float(0.0, ty, span));
                let sign = Expr::call("copysign", vec![unit, expr], span);
                Ok(Value::new(CType::Bool, Expr::binary("<", sign, zero, span)))
            }
            "__saturate" => {
                let [value] = one(values, name, span)?;
                let expr = self.converted(value, &FLOAT, span)?;
                let (zero, unit) = (Value::float(0.0, FLOAT, span), Value::float(1.0, FLOAT, span));
                let low = Expr::call("max", vec![expr, realize(&zero)], span);
                Ok(Value::new(FLOAT, Expr::call("min", vec![low, realize(&unit)], span)))
            }
            "__fsqrt_rn" | "__dsqrt_rn" => {
                let ty = if base.starts_with("__f") { FLOAT } else { DOUBLE };
                self.float_function("sqrt", 1, &ty, values, name, span)
            }
            "__frcp_rn" | "__drcp_rn" => {
                let ty = if base.starts_with("__f") { FLOAT } else { DOUBLE };
                let [value] = one(values, name, span)?;
                let unit = Value::float(1.0, ty.clone(), span);
                let value = self.convert(value, &ty, span)?;
                self.binary(CppBinaryOp::Div, unit, value, span)
            }
            "__fmaf_rn" | "__fma_rn" => {
                let ty = if base == "__fmaf_rn" { FLOAT } else { DOUBLE };
                self.float_function("fma", 3, &ty, values, name, span)
            }
            "__mul24" | "__umul24" => {
                let ty = if base == "__mul24" { INT } else { UINT };
                let [a, b] = two(values, name, span)?;
                self.requirements.note(format!("the arguments of `{name}` have at most 24 bits"), span);
                let (a, b) = (self.convert(a, &ty, span)?, self.convert(b, &ty, span)?);
                self.binary(CppBinaryOp::Mul, a, b, span)
            }
            "__hneg" | "__hneg2" => {
                let [value] = one(values, name, span)?;
                self.unary_arithmetic("-", value, span)
            }
            "__low2half" | "__high2half" | "__low2float" | "__high2float" | "__low2bfloat16" | "__high2bfloat16" => {
                let [value] = one(values, name, span)?;
                let CType::Vector(component, 2) = value.ty else { return refuse(format!("`{name}`"), span, "") };
                let field = if base.starts_with("__low") { "x" } else { "y" };
                let expr = Expr::new(ExprKind::Field(Box::new(value.expr), field.into()), span);
                let part = Value::new(component.ty(), expr);
                if base.ends_with("float") { self.convert(part, &FLOAT, span) } else { Ok(part) }
            }
            "__float2half2_rn"
            | "__half2half2"
            | "__floats2half2_rn"
            | "__halves2half2"
            | "__float2bfloat162_rn"
            | "__floats2bfloat162_rn"
            | "__halves2bfloat162"
            | "__bfloat162bfloat162" => {
                let kind = if base.contains("bfloat") { FloatKind::Bfloat16 } else { FloatKind::Half };
                let component = ComponentKind::Float(kind);
                let ty = CType::Vector(component, 2);
                let mut exprs = vec![];
                for value in values {
                    exprs.push(self.converted(value, &component.ty(), span)?);
                }
                if exprs.len() > 2 {
                    return refuse(format!("`{name}`"), span, "");
                }
                let text = self.t.type_text(&ty);
                Ok(Value::new(ty, Expr::call(text, exprs, span)))
            }
            "__float22half2_rn" | "__float22bfloat162_rn" => {
                let [value] = one(values, name, span)?;
                let source = CType::Vector(ComponentKind::Float(FloatKind::Float), 2);
                let value = self.convert(value, &source, span)?;
                let vector = self.spill(value).expr;
                let kind = if base.contains("bfloat") { FloatKind::Bfloat16 } else { FloatKind::Half };
                let part = |field: &str| {
                    let field = Expr::new(ExprKind::Field(Box::new(vector.clone()), field.into()), span);
                    Expr::call(kind.scalar().name(), vec![field], span)
                };
                let ty = CType::Vector(ComponentKind::Float(kind), 2);
                let text = self.t.type_text(&ty);
                Ok(Value::new(ty, Expr::call(text, vec![part("x"), part("y")], span)))
            }
            "__half22float2" | "__bfloat1622float2" => {
                let [value] = one(values, name, span)?;
                let vector = self.spill(value).expr;
                let part = |field: &str| {
                    let field = Expr::new(ExprKind::Field(Box::new(vector.clone()), field.into()), span);
                    Expr::call("f32", vec![field], span)
                };
                let ty = CType::Vector(ComponentKind::Float(FloatKind::Float), 2);
                Ok(Value::new(ty, Expr::call("f32x2", vec![part("x"), part("y")], span)))
            }
            _ => refuse(format!("the function `{name}`"), span, "define it in this file"),
        }
    }

    /// A conversion with a rounding mode: `__float2int_rn`.
    fn rounded(
        &mut self,
        values: Vec<Value>,
        result: CType,
        rounding: Option<&'static str>,
        name: &str,
        span: SourceSpan,
    ) -> Res<Value> {
        let [value] = one(values, name, span)?;
        let source = if name.starts_with("__float2") {
            FLOAT
        } else if name.starts_with("__double2") {
            DOUBLE
        } else if name.starts_with("__int2") {
            INT
        } else if name.starts_with("__uint2") {
            UINT
        } else {
            value.ty.clone()
        };
        let value = self.convert(value, &source, span)?;
        let value = match rounding {
            Some(clk) if source.is_float() && result.is_integer() => {
                self.float_function(clk, 1, &source, vec![value], name, span)?
            }
            _ => value,
        };
        self.convert(value, &result, span)
    }

    /// Functions that return results through pointers.
    fn call_output_math(&mut self, name: &str, args: &'a [CppExpr], span: SourceSpan) -> Res<Option<Value>> {
        let ty = match name {
            "sincosf" | "__sincosf" => FLOAT,
            "sincos" => match args.first() {
                Some(first) if self.type_of(first)? == FLOAT => FLOAT,
                _ => DOUBLE,
            },
            _ => return Ok(None),
        };
        let [angle, sine, cosine] = args else { return refuse(format!("`{name}`"), span, "") };
        let angle = self.operand(angle)?;
        let angle = self.convert(angle, &ty, span)?;
        let angle = self.spill(angle);
        for (clk, target) in [("sin", sine), ("cos", cosine)] {
            let denoted = self.denote(target)?;
            let pointer = self.pointer_of(denoted, span)?;
            let Denoted::Place(place) = self.object_at(pointer, span)? else {
                return refuse(format!("`{name}`"), span, "");
            };
            let value = Value::new(ty.clone(), Expr::call(clk, vec![angle.expr.clone()], span));
            let value = self.convert(value, &place.ty.clone(), span)?;
            self.store(&place, value, span)?;
        }
        Ok(Some(Value::int(0, INT, span)))
    }
}

fn one(values: Vec<Value>, name: &str, span: SourceSpan) -> Res<[Value; 1]> {
    match <[Value; 1]>::try_from(values) {
        Ok(values) => Ok(values),
        Err(_) => refuse(format!("`{name}` with these arguments"), span, ""),
    }
}

fn two(values: Vec<Value>, name: &str, span: SourceSpan) -> Res<[Value; 2]> {
    match <[Value; 2]>::try_from(values) {
        Ok(values) => Ok(values),
        Err(_) => refuse(format!("`{name}` with these arguments"), span, ""),
    }
}

/// Returns whether a function of the headers has overloads, and a variant with the suffix `f` for floats.
fn is_generic(name: &str) -> bool {
    find(FUNCTIONS, name).is_some()
        || matches!(
            name,
            "abs"
                | "labs"
                | "llabs"
                | "min"
                | "max"
                | "umin"
                | "umax"
                | "llmin"
                | "llmax"
                | "fmod"
                | "isnan"
                | "isinf"
                | "isfinite"
                | "__isnan"
                | "__isinf"
                | "__hisnan"
                | "round"
                | "lround"
                | "llround"
                | "lrint"
                | "llrint"
                | "fdim"
                | "signbit"
                | "__saturate"
                | "__fsqrt_rn"
                | "__dsqrt_rn"
                | "__frcp_rn"
                | "__drcp_rn"
                | "__fmaf_rn"
                | "__fma_rn"
                | "__mul24"
                | "__umul24"
                | "__hneg"
                | "__hneg2"
                | "__low2half"
                | "__high2half"
                | "__low2float"
                | "__high2float"
                | "__low2bfloat16"
                | "__high2bfloat16"
                | "__float2half2_rn"
                | "__half2half2"
                | "__floats2half2_rn"
                | "__halves2half2"
                | "__float2bfloat162_rn"
                | "__floats2bfloat162_rn"
                | "__halves2bfloat162"
                | "__bfloat162bfloat162"
                | "__float22half2_rn"
                | "__float22bfloat162_rn"
                | "__half22float2"
                | "__bfloat1622float2"
        )
}

/// Returns the result of a conversion function, and the Clk function that rounds to an integer.
fn conversion(name: &str) -> Option<(CType, Option<&'static str>)> {
    let rest = name.strip_prefix("__")?;
    let (source, rest) = rest.split_once('2')?;
    if !matches!(source, "float" | "double" | "int" | "uint" | "ll" | "ull" | "half" | "bfloat16" | "ushort" | "short")
    {
        return None;
    }
    let (target, mode) = match rest.rsplit_once('_') {
        Some((target, mode)) if matches!(mode, "rn" | "rz" | "rd" | "ru") => (target, Some(mode)),
        _ => (rest, None),
    };
    let result = match target {
        "int" => INT,
        "uint" => UINT,
        "ll" => CType::Int(IntKind::LongLong),
        "ull" => CType::Int(IntKind::UnsignedLongLong),
        "short" => CType::Int(IntKind::Short),
        "ushort" => CType::Int(IntKind::UnsignedShort),
        "float" => FLOAT,
        "double" => DOUBLE,
        "half" => CType::Float(FloatKind::Half),
        "bfloat16" => CType::Float(FloatKind::Bfloat16),
        _ => return None,
    };
    let rounding = match mode {
        Some("rd") => Some("floor"),
        Some("ru") => Some("ceil"),
        Some("rn") => Some("round"),
        _ => Some("trunc"),
    };
    // Only rounding to nearest is the rounding of a conversion to a floating-point type.
    if result.scalar().is_some_and(ClkScalar::is_float) && matches!(mode, Some("rd" | "ru" | "rz")) {
        return None;
    }
    Some((result, rounding))
}
