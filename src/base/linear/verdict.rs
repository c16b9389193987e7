//! The answers of a decision, and how much work it may be.
//!
//! Input: none. Output: the types of verdicts, reasons and budgets.
//! Idea: a verdict is a proof, a point or a reason, and nothing in between; work is counted in steps, so that a verdict is the
//! same on every machine.

use std::fmt;

use super::certificate::Certificate;

/// What is known about a problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No point satisfies all facts; [`recheck`](super::recheck()) verifies why.
    Empty(Certificate),
    /// All facts hold here, which was checked by evaluating them.
    Point(Vec<i128>),
    /// Neither was found.
    Unknown(Reason),
}

/// Why a problem is not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A number left `i128`.
    Overflow,
    /// The budget was spent.
    Exhausted,
    /// No lemma about products applied.
    Products,
    /// A refutation was found whose certificate does not recheck: its numbers leave `i128`.
    Unproved,
    /// A fact mentions a variable that the problem does not have.
    Foreign,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Overflow => "numbers too large",
            Reason::Exhausted => "too many cases",
            Reason::Products => "products of variables beyond the known lemmas",
            Reason::Unproved => "numbers of the proof too large",
            Reason::Foreign => "a variable without a name",
        })
    }
}

/// How much work a decision may be. Counts of steps, not time, so that verdicts are the same everywhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Cases looked at.
    pub cases: u64,
    /// Exchanges of the simplex method.
    pub exchanges: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { cases: 400, exchanges: 2_000 }
    }
}

/// Names the reason of a missing result of checked arithmetic.
pub(super) trait Checked<T> {
    fn fits(self) -> Result<T, Reason>;
}

impl<T> Checked<T> for Option<T> {
    fn fits(self) -> Result<T, Reason> {
        self.ok_or(Reason::Overflow)
    }
}
