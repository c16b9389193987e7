//! What the clauses of a kernel say that hold no expressions: what is expected of it, and which constants are to be tuned.

use crate::base::source::Span;
use crate::lang::scalar::Value;

/// What `clk check` has to prove of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Expect {
    pub what: Expected,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    InBounds,
    RaceFree,
    Written,
    Barriers,
    NoOverflow,
    AnyOrder,
    /// What an access of a warp to a shared array takes at most, in passes.
    BankWays(u32),
    /// What an access of a warp to a global array touches at most, in sectors of 32 bytes.
    Sectors(u32),
    /// How far floats of arrays that are written are from those of the same kernel in `f64`, at most, in units in the last place.
    MaxUlp(u32),
}

/// An expectation with a limit.
pub(crate) type Limit = fn(u32) -> Expected;

impl Expected {
    /// Those without a limit.
    pub(crate) const ALL: [(&str, Expected); 6] = [
        ("in_bounds", Expected::InBounds),
        ("race_free", Expected::RaceFree),
        ("written", Expected::Written),
        ("barriers", Expected::Barriers),
        ("no_overflow", Expected::NoOverflow),
        ("any_order", Expected::AnyOrder),
    ];
    pub(crate) const LIMITS: [(&str, Limit); 3] =
        [("bank_ways", Expected::BankWays), ("sectors", Expected::Sectors), ("max_ulp", Expected::MaxUlp)];

    /// Returns it as it is written.
    pub fn text(self) -> String {
        match self {
            Expected::BankWays(most) => format!("bank_ways <= {most}"),
            Expected::Sectors(most) => format!("sectors <= {most}"),
            Expected::MaxUlp(most) => format!("max_ulp <= {most}"),
            _ => Expected::ALL.iter().find(|(_, what)| *what == self).map_or("", |(word, _)| word).into(),
        }
    }

    /// Returns whether both are of the same kind, whatever their limits.
    pub(crate) fn is_like(self, other: Expected) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// A compile-time constant of a kernel with the values that it may be given: `tune BM in [64, 128]`.
#[derive(Clone, Debug)]
pub struct Tunable {
    /// The position in the signature's `generics`.
    pub param: u32,
    /// In the order of the source, all different, and of the parameter's type: an integer or `bool`.
    pub values: Vec<Value>,
    pub span: Span,
}
