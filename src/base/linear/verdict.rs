//! The result of the solver, and the limits on its work.
//!
//! A verdict is a certificate, a point or the reason why neither was found. The budget limits the number of cases and
//! pivots, not the time, so a problem has the same verdict on every machine.

use std::fmt;

use super::certificate::Certificate;

/// The result of deciding a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SolverVerdict {
    /// No point satisfies all facts. [`recheck`](super::recheck()) has verified the certificate.
    Empty(Certificate),
    /// A point at which all facts hold. The solver has evaluated all facts at this point.
    Point(Vec<i128>),
    /// Neither a point nor a certificate was found.
    Unknown(UnknownReason),
}

/// Why a problem could not be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownReason {
    /// A number overflowed `i128`.
    Overflow,
    /// The budget was spent, or the search tree was too deep.
    Exhausted,
    /// The search found only points that violate a product of variables, and no lemma or split that excludes them.
    Products,
    /// A refutation was found, but [`recheck`](super::recheck()) could not verify its certificate because numbers
    /// overflow `i128`.
    Unproved,
    /// A fact uses a variable that the problem does not define.
    Foreign,
}

impl fmt::Display for UnknownReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            UnknownReason::Overflow => "numbers too large",
            UnknownReason::Exhausted => "too many cases",
            UnknownReason::Products => "products of variables beyond the known lemmas",
            UnknownReason::Unproved => "numbers of the proof too large",
            UnknownReason::Foreign => "a variable without a name",
        })
    }
}

/// Limits on the work of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SolverBudget {
    /// Maximum number of cases (child nodes of the search tree).
    pub cases: u64,
    /// Maximum number of pivots of the simplex method.
    pub exchanges: u64,
}

impl Default for SolverBudget {
    fn default() -> Self {
        SolverBudget { cases: 400, exchanges: 2_000 }
    }
}

/// Converts a missing result of checked arithmetic to an [`UnknownReason`].
pub(super) trait OverflowReason<T> {
    fn or_overflow(self) -> Result<T, UnknownReason>;
}

impl<T> OverflowReason<T> for Option<T> {
    fn or_overflow(self) -> Result<T, UnknownReason> {
        self.ok_or(UnknownReason::Overflow)
    }
}
