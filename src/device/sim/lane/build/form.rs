//! Linear forms: a base, and multiples of coordinates and of loop counters.
//!
//! All parts are `i32`s of uniform value; a form's value is their sum modulo 2^32. As an index it is computed in 64 bits: an index
//! that is in bounds has not wrapped around, unless by a multiple of 2^32, in which case the check leaves.

use crate::device::sim::lane::Value;

/// A part of a linear form.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Atom {
    Imm(i32),
    /// An `i32`.
    Value(Value),
}

/// What a form has multiples of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sym {
    /// A coordinate of the thread in its group.
    Axis(u8),
    /// The counter of an open loop, an `i64`.
    Counter(Value),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Linear {
    pub base: Atom,
    pub terms: Vec<(Sym, Atom)>,
}

pub(super) const ZERO: Atom = Atom::Imm(0);

/// Counters of loops whose forms are used as indices stay below this limit, or the region leaves.
pub(super) const COUNTERS: i64 = 1 << 30;

/// Counters of loops in the form of an index: then its value in 64 bits does not overflow.
pub(super) const COUNTERS_OF_INDEX: usize = 2;

impl Linear {
    pub fn imm(value: i32) -> Linear {
        Linear { base: Atom::Imm(value), terms: vec![] }
    }

    pub fn uniform(value: Value) -> Linear {
        Linear { base: Atom::Value(value), terms: vec![] }
    }

    pub fn base(&self) -> Atom {
        self.base
    }

    pub fn coefficient(&self, axis: u8) -> Atom {
        self.of(Sym::Axis(axis))
    }

    pub fn of(&self, sym: Sym) -> Atom {
        self.terms.iter().find(|(s, _)| *s == sym).map_or(ZERO, |t| t.1)
    }

    pub fn without(&self, sym: Sym) -> Linear {
        let terms = self.terms.iter().copied().filter(|(s, _)| *s != sym).collect();
        Linear { base: self.base, terms }
    }

    /// Returns whether it is the same for all threads.
    pub fn is_uniform(&self) -> bool {
        self.terms.iter().all(|(s, _)| !matches!(s, Sym::Axis(_)))
    }

    /// Returns whether the form fits what indices are computed from: a small step along the row, and at most two counters.
    pub fn as_index(&self) -> Option<i32> {
        let counters = self.terms.iter().filter(|(s, _)| matches!(s, Sym::Counter(_))).count();
        match self.coefficient(0) {
            Atom::Imm(c) if c.unsigned_abs() <= 1 << 15 && counters <= COUNTERS_OF_INDEX => Some(c),
            _ => None,
        }
    }

    /// Returns whether it is the same for all threads of a row.
    pub fn is_even(&self) -> bool {
        self.coefficient(0) == ZERO
    }

    pub fn is_free_of_counters(&self) -> bool {
        self.terms.iter().all(|(s, _)| matches!(s, Sym::Axis(_)))
    }

    pub fn as_imm(&self) -> Option<i32> {
        match (self.base, self.terms.is_empty()) {
            (Atom::Imm(v), true) => Some(v),
            _ => None,
        }
    }
}
