//! Operators and functions by name. Their semantics is in [`scalar`](super::scalar).

/// A binary operator as written in source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    /// `**`
    Pow,
    /// `@`, on host arrays
    MatMul,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `&&`, short-circuit
    And,
    /// `||`, short-circuit
    Or,
}

impl BinaryOp {
    pub fn symbol(self) -> &'static str {
        use BinaryOp::*;
        match self {
            Add => "+",
            Sub => "-",
            Mul => "*",
            Div => "/",
            Rem => "%",
            Pow => "**",
            MatMul => "@",
            BitAnd => "&",
            BitOr => "|",
            BitXor => "^",
            Shl => "<<",
            Shr => ">>",
            Eq => "==",
            Ne => "!=",
            Lt => "<",
            Le => "<=",
            Gt => ">",
            Ge => ">=",
            And => "&&",
            Or => "||",
        }
    }

    /// Whether the result is `bool` for all operand types.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::*;
        matches!(self, Eq | Ne | Lt | Le | Gt | Ge)
    }

    pub(crate) fn is_logical(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or)
    }

    pub(crate) fn is_bitwise(self) -> bool {
        use BinaryOp::*;
        matches!(self, BitAnd | BitOr | BitXor | Shl | Shr)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `-x`
    Neg,
    /// `!x`: logical on `bool`, bitwise on integers
    Not,
}

/// Pure functions of one to three scalars (or vectors, elementwise), available on host and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MathFn {
    // Num
    Min,
    Max,
    Abs,
    Clamp,
    Sign,
    // Float, exact (correctly rounded)
    Sqrt,
    Fma,
    Floor,
    Ceil,
    Round,
    Trunc,
    Fract,
    Copysign,
    IsNan,
    IsInf,
    IsFinite,
    // Float, within a documented number of ULPs
    Rsqrt,
    Cbrt,
    Exp,
    Exp2,
    Exp10,
    Expm1,
    Log,
    Log2,
    Log10,
    Log1p,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Atan2,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Hypot,
    Pow,
    Erf,
    Erfc,
    Lgamma,
    Tgamma,
    // Int
    Popcount,
    Clz,
    Ctz,
    ReverseBits,
    /// The high half of the product.
    MulHi,
    WrappingAdd,
    WrappingSub,
    WrappingMul,
    WrappingNeg,
    SaturatingAdd,
    SaturatingSub,
}

impl MathFn {
    /// Whether the result is correctly rounded (or not rounded) on every device; other functions may differ by some ULPs between
    /// devices.
    pub(crate) fn is_exact(self) -> bool {
        use MathFn::*;
        !matches!(
            self,
            Rsqrt
                | Cbrt
                | Exp
                | Exp2
                | Exp10
                | Expm1
                | Log
                | Log2
                | Log10
                | Log1p
                | Sin
                | Cos
                | Tan
                | Asin
                | Acos
                | Atan
                | Atan2
                | Sinh
                | Cosh
                | Tanh
                | Asinh
                | Acosh
                | Atanh
                | Hypot
                | Pow
                | Erf
                | Erfc
                | Lgamma
                | Tgamma
        )
    }
}

/// An atomic read-modify-write; each returns the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AtomicOp {
    Add,
    Sub,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exchange,
    CompareExchange,
}

/// An operation among the 32 lanes of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WarpOp {
    /// `shuffle(v, lane)`: the value of lane `lane % 32`
    Shuffle,
    /// `shuffle_up(v, d)`: the value of lane `l - d`, or the lane's own value if there is none
    ShuffleUp,
    ShuffleDown,
    ShuffleXor,
    /// A `u32` in which bit l is set if lane l's argument is true
    Ballot,
    Any,
    All,
    ReduceAdd,
    ReduceMin,
    ReduceMax,
    ReduceAnd,
    ReduceOr,
    ReduceXor,
    /// `match_any(v)`: a `u32` with the bits of the lanes whose value is bitwise equal
    MatchAny,
}

/// A barrier, by its scope and by the result it returns to every thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierKind {
    /// `barrier()`
    Block,
    /// `barrier_any(p)`: bool
    BlockAny,
    /// `barrier_all(p)`: bool
    BlockAll,
    /// `barrier_count(p)`: i32
    BlockCount,
    /// `warp_barrier()`
    Warp,
    /// `grid_barrier()`, in a cooperative launch
    Grid,
}

/// A function on texts, on the host. Implemented in `host::ops::text`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextFn {
    Split,
    Lines,
    Join,
    Trim,
    Find,
    Contains,
    StartsWith,
    EndsWith,
    Replace,
    Upper,
    Lower,
}
