//! Affine forms: a base plus multiples of coordinates and loop counters.
//!
//! The base and the coefficients are uniform `i32`s. The value of an affine form is the sum of base and terms modulo
//! 2^32. For an index, this sum is computed in 64 bits, without wrapping. If the 64-bit sum is in bounds, it equals the
//! index. Otherwise the bounds check exits the region, even if the index is in bounds because it wraps around.

use crate::lir::LaneValue;

/// A base or coefficient of an affine form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FormOperand {
    Imm(i32),
    /// A computed `i32` value.
    Value(LaneValue),
}

/// The variable of a term in an affine form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FormSymbol {
    /// A coordinate of the thread in its group.
    Axis(u8),
    /// The counter of an open loop, an `i64`.
    Counter(LaneValue),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct LaneAffine {
    pub base: FormOperand,
    pub terms: Vec<(FormSymbol, FormOperand)>,
}

pub(super) const ZERO: FormOperand = FormOperand::Imm(0);

/// The region exits if a loop counter reaches this limit. This guarantees that the 64-bit value of an index cannot
/// overflow.
pub(super) const COUNTER_LIMIT: i64 = 1 << 30;

/// Maximum number of loop counters in an index, so that its 64-bit value cannot overflow.
pub(super) const MAX_INDEX_COUNTERS: usize = 2;

impl LaneAffine {
    pub fn imm(value: i32) -> LaneAffine {
        LaneAffine { base: FormOperand::Imm(value), terms: vec![] }
    }

    pub fn uniform(value: LaneValue) -> LaneAffine {
        LaneAffine { base: FormOperand::Value(value), terms: vec![] }
    }

    pub fn coefficient(&self, axis: u8) -> FormOperand {
        self.coefficient_of(FormSymbol::Axis(axis))
    }

    pub fn coefficient_of(&self, sym: FormSymbol) -> FormOperand {
        self.terms.iter().find(|(s, _)| *s == sym).map_or(ZERO, |t| t.1)
    }

    pub fn without(&self, sym: FormSymbol) -> LaneAffine {
        let terms = self.terms.iter().copied().filter(|(s, _)| *s != sym).collect();
        LaneAffine { base: self.base, terms }
    }

    /// Returns whether the affine form has the same value for all threads.
    pub fn is_uniform(&self) -> bool {
        self.terms.iter().all(|(s, _)| !matches!(s, FormSymbol::Axis(_)))
    }

    /// Returns the coefficient of x if the affine form is suitable as an index: the coefficient is a small constant,
    /// and there are at most two loop counters.
    pub fn index_coefficient(&self) -> Option<i32> {
        let counters = self.terms.iter().filter(|(s, _)| matches!(s, FormSymbol::Counter(_))).count();
        match self.coefficient(0) {
            FormOperand::Imm(c) if c.unsigned_abs() <= 1 << 15 && counters <= MAX_INDEX_COUNTERS => Some(c),
            _ => None,
        }
    }

    /// Returns whether the affine form has the same value for all threads of a row.
    pub fn is_row_uniform(&self) -> bool {
        self.coefficient(0) == ZERO
    }

    pub fn is_free_of_counters(&self) -> bool {
        self.terms.iter().all(|(s, _)| matches!(s, FormSymbol::Axis(_)))
    }

    pub fn as_imm(&self) -> Option<i32> {
        match (self.base, self.terms.is_empty()) {
            (FormOperand::Imm(v), true) => Some(v),
            _ => None,
        }
    }
}
