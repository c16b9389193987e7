//! The `expect` and `tune` clauses of a kernel: properties to prove, and compile-time constants to tune.

use clk_base::source::Span;
use clk_scalar::ScalarValue;

/// A property of a kernel that `clk check` must prove.
#[derive(Clone, Copy, Debug)]
pub struct Expect {
    pub expected: Expected,
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
    /// The maximum number of passes for an access of a warp to a shared array. An access with bank conflicts needs more
    /// than one pass.
    BankWays(u32),
    /// The maximum number of 32-byte sectors that a warp's access to a global array touches.
    Sectors(u32),
    /// The maximum error of floats in written arrays, in units in the last place, compared with the same kernel in
    /// `f64`.
    MaxUlp(u32),
}

/// Creates an expectation with a limit, such as [`Expected::Sectors`].
pub(crate) type Limit = fn(u32) -> Expected;

impl Expected {
    /// The expectations without a limit.
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

    /// Formats the expectation as in a program: `sectors <= 4`.
    pub fn text(self) -> String {
        match self {
            Expected::BankWays(most) => format!("bank_ways <= {most}"),
            Expected::Sectors(most) => format!("sectors <= {most}"),
            Expected::MaxUlp(most) => format!("max_ulp <= {most}"),
            _ => Expected::ALL.iter().find(|(_, what)| *what == self).map_or("", |(word, _)| word).into(),
        }
    }

    /// Returns whether both expectations are the same property, possibly with different limits.
    pub(crate) fn is_like(self, other: Expected) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }
}

/// A compile-time constant of a kernel with its candidate values: `tune BM in [64, 128]`.
#[derive(Clone, Debug)]
pub struct Tunable {
    /// The position in the signature's `generics`.
    pub param: u32,
    /// The candidate values in source order. They are distinct and have the type of the parameter, which is an integer
    /// type or `bool`.
    pub values: Vec<ScalarValue>,
    pub span: Span,
}
