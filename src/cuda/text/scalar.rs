//! Emits operations on scalars as C++ expressions, with the semantics of `clk_scalar`.
//!
//! - Signed integers wrap: operations that may overflow are computed on unsigned integers ([`CudaExpr::Wrap`]).
//!   Operations on types of less than 32 bits are computed as `int` and converted back.
//! - Shift amounts are taken modulo the width. Conversions from floats to integers saturate, as functions such as
//!   `__float2int_rz` do. NaN becomes 0; where these functions do not ensure this, the code tests for NaN.
//! - `+ - * /`, `sqrt` and `fma` on f32 and f64 are IEEE operations (the code is compiled without contraction).
//!   Operations on f16 and bf16 are computed in f32 and rounded. If one operand of `fminf` or `fmaxf` is NaN, the
//!   result is the other operand; -0 is less than +0.
//! - Every other function is the CUDA function of the same name, with the maximum errors that CUDA's programming guide
//!   states. For f32 and f64, these are 2 ULP, with the following exceptions: 4 for `atan2`, `hypot`, `sinh`, `asinh`,
//!   `acosh` and `atanh`; 5 for `tan` and `erfc`; 8 for `pow`; 6 for `lgamma` away from its zeros; 10 for `tgamma`.

use super::generator::OpFacts;
use super::helpers::{COMPONENTS, FUNCTION, Helpers};
use super::print;
use super::tree::CudaExpr;
use clk_ir::def::{BinOp, Scalar, Ty};
use clk_scalar::ops::{MathFamily, MathFn, UnaryOp};
use clk_scalar::{ScalarValue, format};

fn is_half(s: Scalar) -> bool {
    matches!(s, Scalar::F16 | Scalar::Bf16)
}

fn is_narrow(s: Scalar) -> bool {
    s.is_int() && s.size() < 4
}

/// Returns the unsigned type in which operations on a signed type are computed.
fn unsigned(s: Scalar) -> &'static str {
    if s.size() == 8 { "u64" } else { "unsigned" }
}

impl Helpers {
    pub fn literal(&mut self, value: ScalarValue) -> CudaExpr {
        let text = match value.ty {
            Scalar::Bool => value.is_true().to_string(),
            Scalar::F16 | Scalar::Bf16 => {
                let name = self.scalar(value.ty);
                return CudaExpr::Braces(name.into(), vec![CudaExpr::atom(format!("{:#x}", value.bits))]);
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
        CudaExpr::Atom(text)
    }

    /// Converts an operand of a 16-bit float type to f32. Returns other operands unchanged.
    fn widened(&mut self, s: Scalar, value: CudaExpr) -> CudaExpr {
        if !is_half(s) {
            return value;
        }
        self.need(if s == Scalar::F16 { "from f16" } else { "from bf16" });
        CudaExpr::call("to_float", [value])
    }

    /// Converts a result that was computed in a wider type back to type `s`.
    fn narrowed(&mut self, s: Scalar, value: CudaExpr) -> CudaExpr {
        match s {
            Scalar::F16 | Scalar::Bf16 => {
                let name = if s == Scalar::F16 { "to_f16" } else { "to_bf16" };
                self.need(if s == Scalar::F16 { "to f16" } else { "to bf16" });
                CudaExpr::call(name, [value])
            }
            s if is_narrow(s) => CudaExpr::call(self.scalar(s), [value]),
            _ => value,
        }
    }

    /// Returns an operation on 32-bit or 64-bit integers. Signed operations are computed on unsigned integers and
    /// converted back, unless they are known not to overflow.
    fn wrapping(&mut self, op: &'static str, s: Scalar, a: CudaExpr, b: CudaExpr, exact: bool) -> CudaExpr {
        if exact || !s.is_signed() {
            return CudaExpr::binary(op, a, b);
        }
        let name = unsigned(s);
        if s.size() == 8 {
            self.need("u64");
        }
        // Convert only one operand: C then converts the other operand to unsigned too.
        let (a, b) = match (a, b) {
            (CudaExpr::Wrap(_, a), CudaExpr::Wrap(_, b)) => (*a, *b),
            (CudaExpr::Wrap(_, a), b) => (*a, b),
            (a, CudaExpr::Wrap(_, b)) => (a, *b),
            (a, b) => (CudaExpr::call(name, [a]), b),
        };
        CudaExpr::Wrap(self.scalar(s), Box::new(CudaExpr::binary(op, a, b)))
    }

    pub fn unary(&mut self, op: UnaryOp, s: Scalar, value: CudaExpr, known: OpFacts) -> CudaExpr {
        match op {
            UnaryOp::Not if s == Scalar::Bool => not(value),
            UnaryOp::Not => {
                let value = CudaExpr::unary("~", value);
                self.narrowed_int(s, value)
            }
            UnaryOp::Neg if is_half(s) => {
                let bits = CudaExpr::binary("^", CudaExpr::member(value, "bits"), CudaExpr::atom("0x8000"));
                CudaExpr::Braces(self.scalar(s).into(), vec![CudaExpr::call("u16", [bits])])
            }
            UnaryOp::Neg if s.is_signed() && s.size() >= 4 && !known.exact => {
                let zero = CudaExpr::atom(if s.size() == 8 { "0ull" } else { "0u" });
                CudaExpr::Wrap(self.scalar(s), Box::new(CudaExpr::binary("-", zero, value)))
            }
            UnaryOp::Neg => {
                let value = CudaExpr::unary("-", value);
                self.narrowed_int(s, value)
            }
        }
    }

    fn narrowed_int(&mut self, s: Scalar, value: CudaExpr) -> CudaExpr {
        if is_narrow(s) { self.narrowed(s, value) } else { value }
    }

    pub fn binary(&mut self, op: BinOp, s: Scalar, a: CudaExpr, b: CudaExpr, known: OpFacts) -> CudaExpr {
        use BinOp::*;
        if is_half(s) && op != Pow {
            let (a, b) = (self.widened(s, a), self.widened(s, b));
            let value = match op {
                Rem => CudaExpr::call("fmodf", [a, b]),
                _ => CudaExpr::binary(symbol(op), a, b),
            };
            return if op.is_comparison() { value } else { self.narrowed(s, value) };
        }
        match op {
            Pow if s.is_float() => self.math(MathFn::Pow, s, vec![a, b], known),
            Pow => {
                self.need("power");
                let name = format!("power<{}>", self.scalar(s));
                CudaExpr::call(name, [a, b])
            }
            Rem if s.is_float() => CudaExpr::call(if s == Scalar::F32 { "fmodf" } else { "fmod" }, [a, b]),
            Add | Sub | Mul if s.is_int() && s.size() < 4 => {
                // A product of two u16 may overflow `int`, so compute it as unsigned.
                let a = if s == Scalar::U16 && op == Mul { CudaExpr::call("unsigned", [a]) } else { a };
                self.narrowed(s, CudaExpr::binary(symbol(op), a, b))
            }
            Add | Sub | Mul if s.is_int() => self.wrapping(symbol(op), s, a, b, known.exact),
            Div | Rem if s.is_signed() && s.size() >= 4 && known.may_overflow => {
                let name = if op == Div { "quotient" } else { "remainder" };
                self.need(name);
                CudaExpr::call(name, [a, b])
            }
            And | Or if s == Scalar::Bool => CudaExpr::binary(if op == And { "&&" } else { "||" }, a, b),
            Xor if s == Scalar::Bool => CudaExpr::binary("!=", a, b),
            Div | Rem | And | Or | Xor => {
                let value = CudaExpr::binary(symbol(op), a, b);
                self.narrowed_int(s, value)
            }
            Shl | Shr => self.shift(op, s, a, b, known),
            Add | Sub | Mul | Eq | Ne | Lt | Le | Gt | Ge => CudaExpr::binary(symbol(op), a, b),
        }
    }

    fn shift(&mut self, op: BinOp, s: Scalar, a: CudaExpr, amount: CudaExpr, known: OpFacts) -> CudaExpr {
        let bits = s.bits();
        let amount =
            if known.small_shift { amount } else { CudaExpr::binary("&", amount, CudaExpr::int(i128::from(bits - 1))) };
        if op == BinOp::Shl && s.is_signed() && s.size() >= 4 && !known.exact {
            if s.size() == 8 {
                self.need("u64");
            }
            let a = match a {
                CudaExpr::Wrap(_, a) => *a,
                a => CudaExpr::call(unsigned(s), [a]),
            };
            return CudaExpr::Wrap(self.scalar(s), Box::new(CudaExpr::binary("<<", a, amount)));
        }
        let a = if op == BinOp::Shl && is_narrow(s) { CudaExpr::call("unsigned", [a]) } else { a };
        let value = CudaExpr::binary(symbol(op), a, amount);
        self.narrowed_int(s, value)
    }

    pub fn math(&mut self, function: MathFn, s: Scalar, args: Vec<CudaExpr>, known: OpFacts) -> CudaExpr {
        if s.is_int() {
            return self.int_math(function, s, args, known);
        }
        match (function, is_half(s)) {
            (MathFn::Fma, true) => {
                self.need(if s == Scalar::F16 { "fma f16" } else { "fma bf16" });
                CudaExpr::call("fused", args)
            }
            (MathFn::Abs, true) => self.half_bits(s, args, "& 0x7fff"),
            (MathFn::Copysign, true) => {
                let mut args = args.into_iter().map(|x| CudaExpr::member(x, "bits"));
                let (Some(x), Some(y)) = (args.next(), args.next()) else { return CudaExpr::int(0) };
                let magnitude = CudaExpr::binary("&", x, CudaExpr::atom("0x7fff"));
                let bits = CudaExpr::binary("|", magnitude, CudaExpr::binary("&", y, CudaExpr::atom("0x8000")));
                CudaExpr::Braces(self.scalar(s).into(), vec![CudaExpr::call("u16", [bits])])
            }
            _ if function.row().family == MathFamily::Tests => {
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

    fn half_bits(&mut self, s: Scalar, args: Vec<CudaExpr>, mask: &str) -> CudaExpr {
        let name = self.scalar(s);
        let bits = args.first().map(print::expr).unwrap_or_default();
        CudaExpr::Braces(name.into(), vec![CudaExpr::call("u16", [CudaExpr::atom(format!("{bits}.bits {mask}"))])])
    }

    /// Returns a call of a math function on f32 or f64.
    fn float_math(&mut self, function: MathFn, s: Scalar, args: Vec<CudaExpr>) -> CudaExpr {
        use MathFn::*;
        let row = function.row();
        let name = |name: &str| if s == Scalar::F64 { name.to_string() } else { format!("{name}f") };
        match function {
            Clamp => {
                let mut args = args.into_iter();
                let (x, low) = (args.next(), args.next());
                let inner = CudaExpr::call(name("fmax"), x.into_iter().chain(low));
                CudaExpr::call(name("fmin"), std::iter::once(inner).chain(args))
            }
            Sign => {
                self.need("sign");
                CudaExpr::call("sign", args)
            }
            // Only f64 shadow programs round f64 values to tf32; this is the identity.
            Tf32 if s == Scalar::F64 => args.into_iter().next().unwrap_or(CudaExpr::int(0)),
            Tf32 => {
                self.need("tf32");
                CudaExpr::call("tf32", args)
            }
            Fract => match args.into_iter().next() {
                Some(x) => CudaExpr::binary("-", x.clone(), CudaExpr::call(name("floor"), [x])),
                None => CudaExpr::int(0),
            },
            _ => match (row.family, row.cuda.first()) {
                (MathFamily::Tests, Some(&own)) => CudaExpr::call(own, args),
                (_, own) => CudaExpr::call(name(own.unwrap_or(&row.name)), args),
            },
        }
    }

    fn int_math(&mut self, function: MathFn, s: Scalar, args: Vec<CudaExpr>, known: OpFacts) -> CudaExpr {
        use MathFn::*;
        let wide = s.size() == 8;
        let bits = i128::from(s.bits());
        let mut rest = args.into_iter();
        let (x, y, z) = (rest.next(), rest.next(), rest.next());
        let x = x.unwrap_or(CudaExpr::int(0));
        let y = y.unwrap_or(CudaExpr::int(0));
        let own = self.scalar(s);
        // Returns the bits of a value as a 32-bit or 64-bit unsigned number.
        let raw = |x: CudaExpr| match s {
            Scalar::U32 | Scalar::U64 | Scalar::U8 | Scalar::U16 => x,
            Scalar::I64 => CudaExpr::call("u64", [x]),
            Scalar::I32 => CudaExpr::call("unsigned", [x]),
            Scalar::I8 => CudaExpr::call("u8", [x]),
            _ => CudaExpr::call("u16", [x]),
        };
        let back = |value: CudaExpr| CudaExpr::call(own, [value]);
        if wide {
            self.need("u64");
        }
        if is_narrow(s) {
            self.need(if s.size() == 1 { "u8" } else { "u16" });
        }
        let name = |narrow: &str, long: &str| if wide { long.to_string() } else { narrow.to_string() };
        match function {
            Min | Max => {
                let call = CudaExpr::call(if function == Min { "min" } else { "max" }, [x, y]);
                self.narrowed_int(s, call)
            }
            Clamp => {
                let inner = CudaExpr::call("max", [x, y]);
                let call = CudaExpr::call("min", [inner, z.unwrap_or(CudaExpr::int(0))]);
                self.narrowed_int(s, call)
            }
            Abs if !s.is_signed() => x,
            Abs if is_narrow(s) => back(CudaExpr::call("abs", [CudaExpr::call("int", [x])])),
            Abs => {
                self.need("magnitude");
                CudaExpr::call("magnitude", [x])
            }
            Sign if s.is_signed() => {
                let zero = || CudaExpr::int(0);
                back(CudaExpr::binary("-", CudaExpr::binary(">", x.clone(), zero()), CudaExpr::binary("<", x, zero())))
            }
            Sign => back(CudaExpr::binary("!=", x, CudaExpr::int(0))),
            Clz if is_narrow(s) => {
                back(CudaExpr::binary("-", CudaExpr::call("__clz", [raw(x)]), CudaExpr::int(32 - bits)))
            }
            Clz => back(CudaExpr::call(name("__clz", "__clzll"), [x])),
            Ctz if is_narrow(s) => {
                let stop = CudaExpr::binary("|", raw(x), CudaExpr::atom(format!("{:#x}", 1u32 << bits)));
                back(CudaExpr::binary("-", CudaExpr::call("__ffs", [stop]), CudaExpr::int(1)))
            }
            Ctz => {
                let reversed = CudaExpr::call(name("__brev", "__brevll"), [raw(x)]);
                back(CudaExpr::call(name("__clz", "__clzll"), [reversed]))
            }
            ReverseBits if is_narrow(s) => {
                back(CudaExpr::binary(">>", CudaExpr::call("__brev", [raw(x)]), CudaExpr::int(32 - bits)))
            }
            MulHi if is_narrow(s) => {
                let (x, y) = if s == Scalar::U16 { (CudaExpr::call("unsigned", [x]), y) } else { (x, y) };
                back(CudaExpr::binary(">>", CudaExpr::binary("*", x, y), CudaExpr::int(bits)))
            }
            MulHi => {
                let function = match s {
                    Scalar::I32 => "__mulhi",
                    Scalar::U32 => "__umulhi",
                    Scalar::I64 => "__mul64hi",
                    _ => "__umul64hi",
                };
                CudaExpr::call(function, [x, y])
            }
            WrappingAdd => self.binary(BinOp::Add, s, x, y, known),
            WrappingSub => self.binary(BinOp::Sub, s, x, y, known),
            WrappingMul => self.binary(BinOp::Mul, s, x, y, known),
            WrappingNeg => self.unary(UnaryOp::Neg, s, x, known),
            SaturatingAdd | SaturatingSub => self.saturating(function, s, x, y),
            _ => match *function.row().cuda {
                [narrow, long] => back(CudaExpr::call(name(narrow, long), [raw(x)])),
                _ => CudaExpr::int(0),
            },
        }
    }

    fn saturating(&mut self, function: MathFn, s: Scalar, x: CudaExpr, y: CudaExpr) -> CudaExpr {
        let add = function == MathFn::SaturatingAdd;
        if s.size() == 8 {
            self.need("saturating 64");
            return CudaExpr::call(if add { "saturating_add" } else { "saturating_sub" }, [x, y]);
        }
        self.need("saturated");
        let (low, high) = match s.is_signed() {
            true => (-(1i128 << (s.bits() - 1)), (1i128 << (s.bits() - 1)) - 1),
            false => (0, (1i128 << s.bits()) - 1),
        };
        let value = CudaExpr::binary(if add { "+" } else { "-" }, CudaExpr::call("i64", [x]), y);
        let limit = |n: i128| CudaExpr::atom(format!("{n}ll"));
        CudaExpr::call(format!("saturated<{}>", self.scalar(s)), [value, limit(low), limit(high)])
    }

    pub fn convert(&mut self, from: Scalar, to: Scalar, value: CudaExpr) -> CudaExpr {
        if from == to {
            return value;
        }
        match (from, to) {
            (Scalar::Bool, to) if is_half(to) => {
                let value = CudaExpr::call("float", [value]);
                self.narrowed(to, value)
            }
            (from, Scalar::Bool) if is_half(from) => {
                let bits = CudaExpr::binary("&", CudaExpr::member(value, "bits"), CudaExpr::atom("0x7fff"));
                CudaExpr::binary("!=", bits, CudaExpr::int(0))
            }
            (_, Scalar::Bool) => {
                let zero = self.literal(ScalarValue::zero(from));
                CudaExpr::binary("!=", value, zero)
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
            (_, to) => CudaExpr::call(self.scalar(to), [value]),
        }
    }

    /// Converts a value to f32, rounding to odd if f32 cannot represent it exactly.
    fn odd(&mut self, from: Scalar, value: CudaExpr) -> CudaExpr {
        let helper = match from {
            Scalar::F32 => return value,
            Scalar::I8 | Scalar::I16 | Scalar::U8 | Scalar::U16 => return CudaExpr::call("float", [value]),
            Scalar::I32 | Scalar::U32 => {
                self.need("odd f64");
                return CudaExpr::call("to_odd", [CudaExpr::call("double", [value])]);
            }
            Scalar::I64 => "odd i64",
            Scalar::U64 => "odd u64",
            _ => "odd f64",
        };
        self.need(helper);
        CudaExpr::call("to_odd", [value])
    }

    fn float_to_int(&mut self, from: Scalar, to: Scalar, value: CudaExpr) -> CudaExpr {
        let function = match (from, to) {
            (Scalar::F32, Scalar::I32) => return CudaExpr::call("__float2int_rz", [value]),
            (Scalar::F32, Scalar::U32) => return CudaExpr::call("__float2uint_rz", [value]),
            _ => format!("to_{}", to.name()),
        };
        self.need(&function);
        CudaExpr::call(function, [value])
    }

    pub fn bitcast(&mut self, from: Scalar, to: Scalar, value: CudaExpr) -> CudaExpr {
        use Scalar::*;
        match (from, to) {
            (a, b) if a == b => value,
            (F32, I32) => CudaExpr::call("__float_as_int", [value]),
            (F32, U32) => CudaExpr::call("__float_as_uint", [value]),
            (I32, F32) => CudaExpr::call("__int_as_float", [value]),
            (U32, F32) => CudaExpr::call("__uint_as_float", [value]),
            (F64, to) => {
                let bits = CudaExpr::call("__double_as_longlong", [value]);
                CudaExpr::call(self.scalar(to), [bits])
            }
            (_, F64) => {
                let bits = CudaExpr::call(self.scalar(I64), [value]);
                CudaExpr::call("__longlong_as_double", [bits])
            }
            (from, to) => {
                let bits = if is_half(from) { CudaExpr::member(value, "bits") } else { value };
                let name = self.scalar(to);
                if is_half(to) {
                    CudaExpr::Braces(name.into(), vec![CudaExpr::call("u16", [bits])])
                } else {
                    CudaExpr::call(name, [bits])
                }
            }
        }
    }

    /// Returns a function on vectors that applies `lane` to each lane. Defines the function on first use. Scalar
    /// arguments are broadcast.
    pub fn lanewise(
        &mut self,
        name: &str,
        result: Ty,
        args: &[Ty],
        lane: impl Fn(&mut Helpers, Vec<CudaExpr>) -> CudaExpr,
    ) {
        const NAMES: [&str; 3] = ["a", "b", "c"];
        let own = self.ty(result);
        let types: Vec<String> = args.iter().map(|&ty| self.ty(ty)).collect();
        let key = format!("{name}({}) {own}", types.join(", "));
        if !self.is_new(&key) {
            return;
        }
        let lanes = (0..result.lanes() as usize).map(|k| {
            let operands = args.iter().zip(NAMES).map(|(ty, name)| match ty {
                Ty::Scalar(_) => CudaExpr::atom(name),
                Ty::Vector(..) => CudaExpr::member(CudaExpr::atom(name), COMPONENTS[k]),
            });
            let operands = operands.collect();
            print::expr(&lane(self, operands))
        });
        let lanes = lanes.collect::<Vec<_>>().join(", ");
        let params: Vec<String> = types.iter().zip(NAMES).map(|(ty, name)| format!("{ty} {name}")).collect();
        self.add(&format!("{FUNCTION} {own} {name}({}) {{ return {own}{{{lanes}}}; }}", params.join(", ")));
        // Also define the compound assignment, because the printer writes `x = x + y` as `x += y`.
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
pub(crate) fn not(cond: CudaExpr) -> CudaExpr {
    match cond {
        CudaExpr::Unary("!", value) => *value,
        CudaExpr::Atom(text) if text == "true" => CudaExpr::atom("false"),
        CudaExpr::Atom(text) if text == "false" => CudaExpr::atom("true"),
        cond => CudaExpr::unary("!", cond),
    }
}

/// Returns the C++ operator for a binary operator.
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

fn float_literal(value: ScalarValue) -> CudaExpr {
    let number = value.as_f64();
    let single = value.ty == Scalar::F32;
    if !number.is_finite() {
        return match single {
            true => CudaExpr::call("__uint_as_float", [CudaExpr::atom(format!("{:#x}", value.bits))]),
            false => CudaExpr::call("__longlong_as_double", [CudaExpr::atom(format!("{:#x}", value.bits))]),
        };
    }
    let text = format::plain(value);
    CudaExpr::atom(if single { format!("{text}f") } else { text })
}
