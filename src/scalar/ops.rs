//! The operators and functions of the language. The other modules of this crate implement their arithmetic.

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
    /// `@`, the matrix product of host arrays
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
    /// `&&`, which evaluates its right operand only if the left one is true
    And,
    /// `||`, which evaluates its right operand only if the left one is false
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

    /// Returns whether the result is `bool` for all operand types.
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

/// A family of mathematical functions, which determines their operand and result types and their accuracy. The table in
/// [`functions`](super::functions) has one block of rows for each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MathFamily {
    /// Functions of integers and floats with exact results.
    Numbers,
    /// Functions of floats with correctly rounded results.
    Floats,
    /// Functions of floats with a `bool` result.
    Tests,
    /// Functions of floats whose error is below a documented number of ULPs.
    Approximations,
    /// The power function: like [`MathFamily::Approximations`], but the operator `**` applies it to integers too.
    Powers,
    /// Functions of `f32` with exact results.
    Singles,
    /// Functions of integers.
    Integers,
}

/// The properties of a [`MathFn`] except its arithmetic.
pub struct MathFnInfo {
    pub function: MathFn,
    pub name: &'static str,
    pub family: MathFamily,
    /// The number of operands, which all have the same type.
    pub arity: usize,
    /// The parameters and the result type as documented, in Clk's syntax: `<T: Num>(x: T) -> T`.
    pub(crate) signature: &'static str,
    /// The cost in simple operations: 1, 6 (about as much as a division) or 100 (more).
    pub cost: usize,
    /// The name of CUDA's `double` function, or the names of its 32- and 64-bit integer functions; empty if CUDA has
    /// none.
    pub cuda: &'static [&'static str],
    pub(crate) doc: &'static str,
}

/// Builds the text of [`MathFnInfo::signature`] from a function's family and parameter names.
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

/// Generates [`MathFn`] and [`MathFn::TABLE`] from the rows of the table of functions.
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
            /// The properties of all functions, in the order of their declaration.
            pub const TABLE: &[MathFnInfo] = &[$($(MathFnInfo {
                function: MathFn::$variant,
                name: $name,
                family: MathFamily::$family,
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
    pub fn row(self) -> &'static MathFnInfo {
        &MathFn::TABLE[self as usize]
    }

    /// Returns whether the result is exact or correctly rounded on every device. The results of other functions may
    /// differ between devices by a few ULPs.
    pub fn is_exact(self) -> bool {
        !matches!(self.row().family, MathFamily::Approximations | MathFamily::Powers)
    }

    /// Returns the documented maximum error in ULPs on all devices; 0 for exact functions. `lgamma` has it away from
    /// its zeros.
    pub fn max_ulps(self) -> u32 {
        use MathFn::*;
        match self {
            Tgamma => 10,
            Pow => 8,
            Lgamma => 6,
            Tan | Erfc => 5,
            Atan2 | Hypot | Sinh | Asinh | Acosh | Atanh => 4,
            _ if self.is_exact() => 0,
            _ => 2,
        }
    }

    /// Returns whether the result is finite for all finite arguments.
    pub fn preserves_finite(self) -> bool {
        use MathFn::*;
        matches!(self, Min | Max | Abs | Clamp | Sign | Floor | Ceil | Round | Trunc | Fract | Copysign)
    }
}

/// An atomic read-modify-write operation. All of them return the old value.
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

/// An operation that exchanges values among the 32 lanes of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WarpOp {
    /// `shuffle(v, lane)`: the value of `v` in lane `lane % 32`
    Shuffle,
    /// `shuffle_up(v, d)`: in lane `l`, the value of `v` in lane `l - d`, or in lane `l` if `l < d`
    ShuffleUp,
    ShuffleDown,
    ShuffleXor,
    /// `ballot(p)`: a `u32` in which bit `l` is set if `p` is true in lane `l`
    Ballot,
    Any,
    All,
    ReduceAdd,
    ReduceMin,
    ReduceMax,
    ReduceAnd,
    ReduceOr,
    ReduceXor,
    /// `match_any(v)`: a `u32` in which the bits of all lanes are set whose `v` has the same bits as `v` in this lane
    MatchAny,
}

/// A barrier, by its scope and by the result it returns to every thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BarrierKind {
    /// `barrier()`
    Block,
    /// `barrier_any(p)`: whether `p` is true in any thread of the block
    BlockAny,
    /// `barrier_all(p)`: whether `p` is true in all threads of the block
    BlockAll,
    /// `barrier_count(p)`: the number of threads of the block in which `p` is true, an `i32`
    BlockCount,
    /// `warp_barrier()`
    Warp,
    /// `grid_barrier()`, which requires a cooperative launch
    Grid,
}

/// A host function that computes with `str` values, implemented in `clk_host::ops::text`.
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
