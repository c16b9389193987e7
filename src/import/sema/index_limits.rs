//! Limits of indices: inequalities between polynomials, and their use as replacements.

use super::polynomial::{SizePolynomial, divide};
use crate::source::SourceSpan;

/// The inequality `left <= right`. Terms of `left` have positive coefficients and a symbol that is not a parameter.
#[derive(Clone, Debug)]
pub(super) struct IndexLimit {
    pub(super) left: SizePolynomial,
    pub(super) right: SizePolynomial,
    pub(super) source: SourceSpan,
    pub(super) origin: LimitOrigin,
}

/// Where a limit comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LimitOrigin {
    /// The condition on the path with this number.
    Condition(u32),
    /// The number of blocks.
    Grid,
    /// The number of threads of a block.
    Block,
    Arithmetic,
}

/// An upper bound of an index.
pub(super) struct IndexBound {
    pub(super) most: SizePolynomial,
    /// The first condition that limits the index.
    pub(super) source: Option<SourceSpan>,
    /// The numbers of the conditions that limit it.
    pub(super) used: Vec<u32>,
    pub(super) from_launch: bool,
    /// Whether it is that of the thread in its block.
    pub(super) from_block: bool,
}

/// Replaces a multiple of `left` in a polynomial by that multiple of `right`. `None` if no term contains `left`.
pub(super) fn replace(value: &SizePolynomial, left: &SizePolynomial, right: &SizePolynomial) -> Option<SizePolynomial> {
    let (first, by) = left.terms().next()?;
    value.terms().find_map(|(monomial, coefficient)| {
        let factor = divide(monomial, first)?;
        let count = coefficient / by;
        if count < 1 || coefficient % by != 0 {
            return None;
        }
        let multiple = SizePolynomial::term(factor, count);
        let part = left.times(&multiple)?;
        let fits = part.terms().all(|(monomial, coefficient)| value.coefficient(monomial) >= coefficient);
        if !fits {
            return None;
        }
        value.minus(&part)?.plus(&right.times(&multiple)?)
    })
}
