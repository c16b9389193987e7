//! Operators and functions by name. Their semantics is in [`scalar`](super::scalar).

use super::functions::math_functions;

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

    pub fn is_logical(self) -> bool {
        matches!(self, BinaryOp::And | BinaryOp::Or)
    }

    pub fn is_bitwise(self) -> bool {
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

/// Which operands a [`MathFn`] takes, and what it gives: the sections of the table in [`functions`](super::functions).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Of numbers, exact.
    Numbers,
    /// Of floats, correctly rounded.
    Floats,
    /// Of floats, with a `bool` as result.
    Tests,
    /// Of floats, within a documented number of ULPs.
    Approximations,
    /// As [`Family::Approximations`]; as an operator also of integers.
    Powers,
    /// Of `f32`, exact.
    Singles,
    /// Of integers.
    Integers,
}

/// What is known of a [`MathFn`], apart from its arithmetic.
pub struct Row {
    pub function: MathFn,
    pub name: &'static str,
    pub family: Family,
    /// The number of operands, which all have one type.
    pub arity: usize,
    /// The text after the name, in the language's own syntax.
    pub(crate) signature: &'static str,
    /// In simple operations: 1, 6 (about a division) or 100 (many).
    pub cost: usize,
    /// CUDA's name of a function of `double`, or its names of functions of 32 and 64 bits; empty where there are none.
    pub cuda: &'static [&'static str],
    pub(crate) doc: &'static str,
}

/// Writes the signature of a function.
macro_rules! signature {
    (Numbers $params:tt) => { signature!("Num", "T", $params) };
    (Integers $params:tt) => { signature!("Int", "T", $params) };
    (Singles ($param:ident)) => { concat!("(", stringify!($param), ": f32) -> f32") };
    (Tests $params:tt) => { signature!("Float", "bool", $params) };
    ($floats:ident $params:tt) => { signature!("Float", "T", $params) };
    ($class:literal, $result:literal, ($first:ident $(, $more:ident)*)) => {
        concat!("<T: ", $class, ">(", stringify!($first), ": T" $(, ", ", stringify!($more), ": T")*, ") -> ", $result)
    };
}

/// Declares the functions and their rows.
macro_rules! declare {
    ([] $($family:ident { $(
        $variant:ident $name:literal ($($param:ident),*) $method:ident {$($by:tt)*} $cost:literal [$($cuda:literal),*] $doc:literal;
    )* })*) => {
        /// Pure functions of one to three scalars (or vectors, elementwise), available on host and device.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum MathFn {
            $($(#[doc = $doc] $variant,)*)*
        }

        impl MathFn {
            /// The functions with what is known of them, in the order of their declaration.
            pub const TABLE: &[Row] = &[$($(Row {
                function: MathFn::$variant,
                name: $name,
                family: Family::$family,
                arity: [$(stringify!($param)),*].len(),
                signature: signature!($family ($($param),*)),
                cost: $cost,
                cuda: &[$($cuda),*],
                doc: $doc,
            },)*)*];
        }
    };
}

math_functions!(declare);

impl MathFn {
    pub fn row(self) -> &'static Row {
        &MathFn::TABLE[self as usize]
    }

    /// Whether the result is correctly rounded (or not rounded) on every device; other functions may differ by some ULPs between
    /// devices.
    pub fn is_exact(self) -> bool {
        !matches!(self.row().family, Family::Approximations | Family::Powers)
    }

    /// Whether finite arguments give a finite result.
    pub fn keeps_finite(self) -> bool {
        use MathFn::*;
        matches!(self, Min | Max | Abs | Clamp | Sign | Floor | Ceil | Round | Trunc | Fract | Copysign)
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
