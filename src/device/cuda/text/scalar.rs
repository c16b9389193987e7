//! Operations on scalars as C++ expressions, with the semantics of `lang::scalar`.
//!
//! - Signed integers wrap: operations that may overflow are computed unsigned ([`Expr::Wrap`]). Types below 32 bits are computed
//!   as `int` and converted back.
//! - Shift amounts are taken modulo the width. Float to integer saturates, as `__float2int_rz` and the like do; NaN becomes 0 by
//!   an explicit test where they do not do that.
//! - f32 and f64 `+ - * /`, `sqrt`, `fma` are IEEE's (the text is compiled without contraction); f16 and bf16 compute in f32 and
//!   round. `fminf` and `fmaxf` prefer numbers to NaN and treat -0 as less than +0.
//! - Every other function is CUDA's of the same name, with the errors that its programming guide states: for f32 and f64 within 2
//!   ULP, except `atan2`, `hypot`, `sinh`, `asinh`, `acosh`, `atanh` within 4, `tan` and `erfc` within 5, `pow` within 8,
//!   `lgamma` within 6 outside of its zeros, `tgamma` within 10.

use super::generator::Known;
use super::helpers::{COMPONENTS, FUNCTION, Helpers};
use super::print;
use super::tree::Expr;
use crate::ir::def::{BinOp, Scalar, Ty};
use crate::lang::ops::{Family, MathFn, UnaryOp};
use crate::lang::scalar::{Value, format};

fn is_half(s: Scalar) -> bool {
    matches!(s, Scalar::F16 | Scalar::Bf16)
}

fn is_narrow(s: Scalar) -> bool {
    s.is_int() && s.size() < 4
}

/// Returns the unsigned type in which a signed one is computed.
fn unsigned(s: Scalar) -> &'static str {
    if s.size() == 8 { "u64" } else { "unsigned" }
}

impl Helpers {
    pub fn literal(&mut self, value: Value) -> Expr {
        let text = match value.ty {
            Scalar::Bool => value.is_true().to_string(),
            Scalar::F16 | Scalar::Bf16 => {
                let name = self.scalar(value.ty);
                return Expr::Braces(name.into(), vec![Expr::atom(format!("{:#x}", value.bits))]);
            }
            Scalar::F32 | Scalar::F64 => return float_literal(value),
            Scalar::I32 if value.bits == 0x8000_0000 => "int(0x80000000u)".into(),
            Scalar::I64 if value.bits == 1 << 63 => "i64(1ull << 63)".into(),
            Scalar::U32 => format!("{value}u"),
            Scalar::I64 => format!("{value}ll"),
            Scalar::U64 => format!("{value}ull"),
            _ => value.to_string(),
        };
        if value.ty == Scalar::I64 {
            self.need("i64");
        }
        Expr::Atom(text)
    }

    /// Converts operands of half types to f32.
    fn widened(&mut self, s: Scalar, value: Expr) -> Expr {
        if !is_half(s) {
            return value;
        }
        self.need(if s == Scalar::F16 { "from f16" } else { "from bf16" });
        Expr::call("to_float", [value])
    }

    /// Converts a result computed in a wider type back.
    fn narrowed(&mut self, s: Scalar, value: Expr) -> Expr {
        match s {
            Scalar::F16 | Scalar::Bf16 => {
                let name = if s == Scalar::F16 { "to_f16" } else { "to_bf16" };
                self.need(if s == Scalar::F16 { "to f16" } else { "to bf16" });
                Expr::call(name, [value])
            }
            s if is_narrow(s) => Expr::call(self.scalar(s), [value]),
            _ => value,
        }
    }

    /// Returns an operation on 32 or 64 bits; signed ones are computed unsigned and converted back, unless they are known not to
    /// overflow.
    fn wrapping(&mut self, op: &'static str, s: Scalar, a: Expr, b: Expr, exact: bool) -> Expr {
        if exact || !s.is_signed() {
            return Expr::binary(op, a, b);
        }
        let name = unsigned(s);
        if s.size() == 8 {
            self.need("u64");
        }
        // One unsigned operand makes the other unsigned too.
        let (a, b) = match (a, b) {
            (Expr::Wrap(_, a), Expr::Wrap(_, b)) => (*a, *b),
            (Expr::Wrap(_, a), b) => (*a, b),
            (a, Expr::Wrap(_, b)) => (a, *b),
            (a, b) => (Expr::call(name, [a]), b),
        };
        Expr::Wrap(self.scalar(s), Box::new(Expr::binary(op, a, b)))
    }

    pub fn unary(&mut self, op: UnaryOp, s: Scalar, value: Expr, known: Known) -> Expr {
        match op {
            UnaryOp::Not if s == Scalar::Bool => not(value),
            UnaryOp::Not => {
                let value = Expr::unary("~", value);
                self.narrowed_int(s, value)
            }
            UnaryOp::Neg if is_half(s) => {
                let bits = Expr::binary("^", Expr::member(value, "bits"), Expr::atom("0x8000"));
                Expr::Braces(self.scalar(s).into(), vec![Expr::call("u16", [bits])])
            }
            UnaryOp::Neg if s.is_signed() && s.size() >= 4 && !known.exact => {
                let zero = Expr::atom(if s.size() == 8 { "0ull" } else { "0u" });
                Expr::Wrap(self.scalar(s), Box::new(Expr::binary("-", zero, value)))
            }
            UnaryOp::Neg => {
                let value = Expr::unary("-", value);
                self.narrowed_int(s, value)
            }
        }
    }

    fn narrowed_int(&mut self, s: Scalar, value: Expr) -> Expr {
        if is_narrow(s) { self.narrowed(s, value) } else { value }
    }

    pub fn binary(&mut self, op: BinOp, s: Scalar, a: Expr, b: Expr, known: Known) -> Expr {
        use BinOp::*;
        if is_half(s) && op != Pow {
            let (a, b) = (self.widened(s, a), self.widened(s, b));
            let value = match op {
                Rem => Expr::call("fmodf", [a, b]),
                _ => Expr::binary(symbol(op), a, b),
            };
            return if op.is_comparison() { value } else { self.narrowed(s, value) };
        }
        match op {
            Pow if s.is_float() => self.math(MathFn::Pow, s, vec![a, b], known),
            Pow => {
                self.need("power");
                let name = format!("power<{}>", self.scalar(s));
                Expr::call(name, [a, b])
            }
            Rem if s.is_float() => Expr::call(if s == Scalar::F32 { "fmodf" } else { "fmod" }, [a, b]),
            Add | Sub | Mul if s.is_int() && s.size() < 4 => {
                // Products of u16 overflow `int`.
                let a = if s == Scalar::U16 && op == Mul { Expr::call("unsigned", [a]) } else { a };
                self.narrowed(s, Expr::binary(symbol(op), a, b))
            }
            Add | Sub | Mul if s.is_int() => self.wrapping(symbol(op), s, a, b, known.exact),
            Div | Rem if s.is_signed() && s.size() >= 4 && known.may_overflow => {
                let name = if op == Div { "quotient" } else { "remainder" };
                self.need(name);
                Expr::call(name, [a, b])
            }
            And | Or if s == Scalar::Bool => Expr::binary(if op == And { "&&" } else { "||" }, a, b),
            Xor if s == Scalar::Bool => Expr::binary("!=", a, b),
            Div | Rem | And | Or | Xor => {
                let value = Expr::binary(symbol(op), a, b);
                self.narrowed_int(s, value)
            }
            Shl | Shr => self.shift(op, s, a, b, known),
            Add | Sub | Mul | Eq | Ne | Lt | Le | Gt | Ge => Expr::binary(symbol(op), a, b),
        }
    }

    fn shift(&mut self, op: BinOp, s: Scalar, a: Expr, amount: Expr, known: Known) -> Expr {
        let bits = s.bits();
        let amount =
            if known.small_shift { amount } else { Expr::binary("&", amount, Expr::int(i128::from(bits - 1))) };
        if op == BinOp::Shl && s.is_signed() && s.size() >= 4 && !known.exact {
            if s.size() == 8 {
                self.need("u64");
            }
            let a = match a {
                Expr::Wrap(_, a) => *a,
                a => Expr::call(unsigned(s), [a]),
            };
            return Expr::Wrap(self.scalar(s), Box::new(Expr::binary("<<", a, amount)));
        }
        let a = if op == BinOp::Shl && is_narrow(s) { Expr::call("unsigned", [a]) } else { a };
        let value = Expr::binary(symbol(op), a, amount);
        self.narrowed_int(s, value)
    }

    pub fn math(&mut self, function: MathFn, s: Scalar, args: Vec<Expr>, known: Known) -> Expr {
        if s.is_int() {
            return self.int_math(function, s, args, known);
        }
        match (function, is_half(s)) {
            (MathFn::Fma, true) => {
                self.need(if s == Scalar::F16 { "fma f16" } else { "fma bf16" });
                Expr::call("fused", args)
            }
            (MathFn::Abs, true) => self.half_bits(s, args, "& 0x7fff"),
            (MathFn::Copysign, true) => {
                let mut args = args.into_iter().map(|x| Expr::member(x, "bits"));
                let (Some(x), Some(y)) = (args.next(), args.next()) else { return Expr::int(0) };
                let magnitude = Expr::binary("&", x, Expr::atom("0x7fff"));
                let bits = Expr::binary("|", magnitude, Expr::binary("&", y, Expr::atom("0x8000")));
                Expr::Braces(self.scalar(s).into(), vec![Expr::call("u16", [bits])])
            }
            _ if function.row().family == Family::Tests => {
                let args = args.into_iter().map(|x| self.widened(s, x)).collect();
                self.float_math(function, s, args)
            }
            (_, true) => {
                let args = args.into_iter().map(|x| self.widened(s, x)).collect();
                let value = self.float_math(function, Scalar::F32, args);
                self.narrowed(s, value)
            }
            _ => self.float_math(function, s, args),
        }
    }

    fn half_bits(&mut self, s: Scalar, args: Vec<Expr>, mask: &str) -> Expr {
        let name = self.scalar(s);
        let bits = args.first().map(print::expr).unwrap_or_default();
        Expr::Braces(name.into(), vec![Expr::call("u16", [Expr::atom(format!("{bits}.bits {mask}"))])])
    }

    /// Returns a function of f32 or f64.
    fn float_math(&mut self, function: MathFn, s: Scalar, args: Vec<Expr>) -> Expr {
        use MathFn::*;
        let row = function.row();
        let name = |name: &str| if s == Scalar::F64 { name.to_string() } else { format!("{name}f") };
        match function {
            Clamp => {
                let mut args = args.into_iter();
                let (x, low) = (args.next(), args.next());
                let inner = Expr::call(name("fmax"), x.into_iter().chain(low));
                Expr::call(name("fmin"), std::iter::once(inner).chain(args))
            }
            Sign => {
                self.need("sign");
                Expr::call("sign", args)
            }
            // Only the twins of programs have it of `f64`, for which it does nothing.
            Tf32 if s == Scalar::F64 => args.into_iter().next().unwrap_or(Expr::int(0)),
            Tf32 => {
                self.need("tf32");
                Expr::call("tf32", args)
            }
            Fract => match args.into_iter().next() {
                Some(x) => Expr::binary("-", x.clone(), Expr::call(name("floor"), [x])),
                None => Expr::int(0),
            },
            _ => match (row.family, row.cuda.first()) {
                (Family::Tests, Some(&own)) => Expr::call(own, args),
                (_, own) => Expr::call(name(own.unwrap_or(&row.name)), args),
            },
        }
    }

    fn int_math(&mut self, function: MathFn, s: Scalar, args: Vec<Expr>, known: Known) -> Expr {
        use MathFn::*;
        let wide = s.size() == 8;
        let bits = i128::from(s.bits());
        let mut rest = args.into_iter();
        let (x, y, z) = (rest.next(), rest.next(), rest.next());
        let x = x.unwrap_or(Expr::int(0));
        let y = y.unwrap_or(Expr::int(0));
        let own = self.scalar(s);
        // The bits as an unsigned number of 32 or 64 bits.
        let raw = |x: Expr| match s {
            Scalar::U32 | Scalar::U64 | Scalar::U8 | Scalar::U16 => x,
            Scalar::I64 => Expr::call("u64", [x]),
            Scalar::I32 => Expr::call("unsigned", [x]),
            Scalar::I8 => Expr::call("u8", [x]),
            _ => Expr::call("u16", [x]),
        };
        let back = |value: Expr| Expr::call(own, [value]);
        if wide {
            self.need("u64");
        }
        if is_narrow(s) {
            self.need(if s.size() == 1 { "u8" } else { "u16" });
        }
        let name = |narrow: &str, long: &str| if wide { long.to_string() } else { narrow.to_string() };
        match function {
            Min | Max => {
                let call = Expr::call(if function == Min { "min" } else { "max" }, [x, y]);
                self.narrowed_int(s, call)
            }
            Clamp => {
                let inner = Expr::call("max", [x, y]);
                let call = Expr::call("min", [inner, z.unwrap_or(Expr::int(0))]);
                self.narrowed_int(s, call)
            }
            Abs if !s.is_signed() => x,
            Abs if is_narrow(s) => back(Expr::call("abs", [Expr::call("int", [x])])),
            Abs => {
                self.need("magnitude");
                Expr::call("magnitude", [x])
            }
            Sign if s.is_signed() => {
                let zero = || Expr::int(0);
                back(Expr::binary("-", Expr::binary(">", x.clone(), zero()), Expr::binary("<", x, zero())))
            }
            Sign => back(Expr::binary("!=", x, Expr::int(0))),
            Clz if is_narrow(s) => back(Expr::binary("-", Expr::call("__clz", [raw(x)]), Expr::int(32 - bits))),
            Clz => back(Expr::call(name("__clz", "__clzll"), [x])),
            Ctz if is_narrow(s) => {
                let stop = Expr::binary("|", raw(x), Expr::atom(format!("{:#x}", 1u32 << bits)));
                back(Expr::binary("-", Expr::call("__ffs", [stop]), Expr::int(1)))
            }
            Ctz => {
                let reversed = Expr::call(name("__brev", "__brevll"), [raw(x)]);
                back(Expr::call(name("__clz", "__clzll"), [reversed]))
            }
            ReverseBits if is_narrow(s) => {
                back(Expr::binary(">>", Expr::call("__brev", [raw(x)]), Expr::int(32 - bits)))
            }
            MulHi if is_narrow(s) => {
                let (x, y) = if s == Scalar::U16 { (Expr::call("unsigned", [x]), y) } else { (x, y) };
                back(Expr::binary(">>", Expr::binary("*", x, y), Expr::int(bits)))
            }
            MulHi => {
                let function = match s {
                    Scalar::I32 => "__mulhi",
                    Scalar::U32 => "__umulhi",
                    Scalar::I64 => "__mul64hi",
                    _ => "__umul64hi",
                };
                Expr::call(function, [x, y])
            }
            WrappingAdd => self.binary(BinOp::Add, s, x, y, known),
            WrappingSub => self.binary(BinOp::Sub, s, x, y, known),
            WrappingMul => self.binary(BinOp::Mul, s, x, y, known),
            WrappingNeg => self.unary(UnaryOp::Neg, s, x, known),
            SaturatingAdd | SaturatingSub => self.saturating(function, s, x, y),
            _ => match *function.row().cuda {
                [narrow, long] => back(Expr::call(name(narrow, long), [raw(x)])),
                _ => Expr::int(0),
            },
        }
    }

    fn saturating(&mut self, function: MathFn, s: Scalar, x: Expr, y: Expr) -> Expr {
        let add = function == MathFn::SaturatingAdd;
        if s.size() == 8 {
            self.need("saturating 64");
            return Expr::call(if add { "saturating_add" } else { "saturating_sub" }, [x, y]);
        }
        self.need("saturated");
        let (low, high) = match s.is_signed() {
            true => (-(1i128 << (s.bits() - 1)), (1i128 << (s.bits() - 1)) - 1),
            false => (0, (1i128 << s.bits()) - 1),
        };
        let value = Expr::binary(if add { "+" } else { "-" }, Expr::call("i64", [x]), y);
        let limit = |n: i128| Expr::atom(format!("{n}ll"));
        Expr::call(format!("saturated<{}>", self.scalar(s)), [value, limit(low), limit(high)])
    }

    pub fn convert(&mut self, from: Scalar, to: Scalar, value: Expr) -> Expr {
        if from == to {
            return value;
        }
        match (from, to) {
            (Scalar::Bool, to) if is_half(to) => {
                let value = Expr::call("float", [value]);
                self.narrowed(to, value)
            }
            (from, Scalar::Bool) if is_half(from) => {
                let bits = Expr::binary("&", Expr::member(value, "bits"), Expr::atom("0x7fff"));
                Expr::binary("!=", bits, Expr::int(0))
            }
            (_, Scalar::Bool) => {
                let zero = self.literal(Value::zero(from));
                Expr::binary("!=", value, zero)
            }
            (from, to) if is_half(from) => {
                let value = self.widened(from, value);
                self.convert(Scalar::F32, to, value)
            }
            (from, to) if is_half(to) => {
                let value = self.odd(from, value);
                self.narrowed(to, value)
            }
            (from, to) if from.is_float() && to.is_int() => self.float_to_int(from, to, value),
            (_, to) => Expr::call(self.scalar(to), [value]),
        }
    }

    /// Converts to f32, exactly or rounded to odd.
    fn odd(&mut self, from: Scalar, value: Expr) -> Expr {
        let helper = match from {
            Scalar::F32 => return value,
            Scalar::I8 | Scalar::I16 | Scalar::U8 | Scalar::U16 => return Expr::call("float", [value]),
            Scalar::I32 | Scalar::U32 => {
                self.need("odd f64");
                return Expr::call("to_odd", [Expr::call("double", [value])]);
            }
            Scalar::I64 => "odd i64",
            Scalar::U64 => "odd u64",
            _ => "odd f64",
        };
        self.need(helper);
        Expr::call("to_odd", [value])
    }

    fn float_to_int(&mut self, from: Scalar, to: Scalar, value: Expr) -> Expr {
        let function = match (from, to) {
            (Scalar::F32, Scalar::I32) => return Expr::call("__float2int_rz", [value]),
            (Scalar::F32, Scalar::U32) => return Expr::call("__float2uint_rz", [value]),
            _ => format!("to_{}", to.name()),
        };
        self.need(&function);
        Expr::call(function, [value])
    }

    pub fn bitcast(&mut self, from: Scalar, to: Scalar, value: Expr) -> Expr {
        use Scalar::*;
        match (from, to) {
            (a, b) if a == b => value,
            (F32, I32) => Expr::call("__float_as_int", [value]),
            (F32, U32) => Expr::call("__float_as_uint", [value]),
            (I32, F32) => Expr::call("__int_as_float", [value]),
            (U32, F32) => Expr::call("__uint_as_float", [value]),
            (F64, to) => {
                let bits = Expr::call("__double_as_longlong", [value]);
                Expr::call(self.scalar(to), [bits])
            }
            (_, F64) => {
                let bits = Expr::call(self.scalar(I64), [value]);
                Expr::call("__longlong_as_double", [bits])
            }
            (from, to) => {
                let bits = if is_half(from) { Expr::member(value, "bits") } else { value };
                let name = self.scalar(to);
                if is_half(to) {
                    Expr::Braces(name.into(), vec![Expr::call("u16", [bits])])
                } else {
                    Expr::call(name, [bits])
                }
            }
        }
    }

    /// Defines a function of vectors on first use, which applies `lane` to each lane. Scalar arguments are broadcast.
    pub fn lanewise(&mut self, name: &str, result: Ty, args: &[Ty], lane: impl Fn(&mut Helpers, Vec<Expr>) -> Expr) {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        let own = self.ty(result);
        let types: Vec<String> = args.iter().map(|&ty| self.ty(ty)).collect();
        let key = format!("{name}({}) {own}", types.join(", "));
        if !self.is_new(&key) {
            return;
        }
        let lanes = (0..result.lanes() as usize).map(|k| {
            let operands = args.iter().zip(NAMES).map(|(ty, name)| match ty {
                Ty::Scalar(_) => Expr::atom(name),
                Ty::Vector(..) => Expr::member(Expr::atom(name), COMPONENTS[k]),
            });
            let operands = operands.collect();
            print::expr(&lane(self, operands))
        });
        let lanes = lanes.collect::<Vec<_>>().join(", ");
        let params: Vec<String> = types.iter().zip(NAMES).map(|(ty, name)| format!("{ty} {name}")).collect();
        self.add(&format!("{FUNCTION} {own} {name}({}) {{ return {own}{{{lanes}}}; }}", params.join(", ")));
        // The printer writes `x = x + y` as `x += y`.
        let sign = name.strip_prefix("operator").filter(|sign| ["+", "-", "*", "/", "|", "&", "^"].contains(sign));
        if let (Some(sign), [a, _]) = (sign, args)
            && *a == result
        {
            let by = &types[1];
            self.add(&format!("{FUNCTION} {own} &{name}=({own} &a, {by} b) {{ return a = a {sign} b; }}"));
        }
    }
}

/// Returns the negation of a condition.
pub(crate) fn not(cond: Expr) -> Expr {
    match cond {
        Expr::Unary("!", value) => *value,
        Expr::Atom(text) if text == "true" => Expr::atom("false"),
        Expr::Atom(text) if text == "false" => Expr::atom("true"),
        cond => Expr::unary("!", cond),
    }
}

/// Returns the C++ operator, for those that are one.
pub(crate) fn symbol(op: BinOp) -> &'static str {
    match op {
        BinOp::Add => "+",
        BinOp::Sub => "-",
        BinOp::Mul => "*",
        BinOp::Div => "/",
        BinOp::Rem => "%",
        BinOp::Pow => "**",
        BinOp::And => "&",
        BinOp::Or => "|",
        BinOp::Xor => "^",
        BinOp::Shl => "<<",
        BinOp::Shr => ">>",
        BinOp::Eq => "==",
        BinOp::Ne => "!=",
        BinOp::Lt => "<",
        BinOp::Le => "<=",
        BinOp::Gt => ">",
        BinOp::Ge => ">=",
    }
}

fn float_literal(value: Value) -> Expr {
    let number = value.as_f64();
    let single = value.ty == Scalar::F32;
    if !number.is_finite() {
        return match single {
            true => Expr::call("__uint_as_float", [Expr::atom(format!("{:#x}", value.bits))]),
            false => Expr::call("__longlong_as_double", [Expr::atom(format!("{:#x}", value.bits))]),
        };
    }
    let text = format::plain(value);
    Expr::atom(if single { format!("{text}f") } else { text })
}
