//! A decision procedure for integer linear arithmetic with disjunctions and products of variables.
//!
//! Input: a [`LinearProblem`]. Output: a point at which all facts hold, a [`Certificate`] that no such point exists, or
//! an [`UnknownReason`]. Idea: the solver eliminates equalities over the integers, then runs branch and cut on the
//! rational relaxation, which the simplex method solves. Products of variables are approximated by products of
//! inequalities. [`recheck()`] verifies a certificate without using the code of the search.
//!
//! # Vocabulary
//! - Linear form: an integer constant plus integer multiples of variables ([`AffineForm`]).
//! - Atom: a comparison of a linear form with zero, `form >= 0` or `form == 0` ([`Atom`]).
//! - Point: a value for each variable.
//! - Proof step: the derivation of an atom from earlier atoms, its premises ([`DerivedLine`]).
//! - Case distinction: the search branches on the alternatives of a disjunction, or on `form <= bound` and
//!   `form > bound`; the latter is called a split.
//! - Assumption level: the depth of the node of the search tree whose case distinction adds an assumption.
//! - Lemma: the product of two atoms, an atom about products of variables.
//! - Cutting plane (cut): an inequality that excludes a fractional vertex but no integer point.

mod certificate;
mod form;
mod formula;
mod model;
mod number;
mod point;
mod products;
mod recheck;
mod relaxation;
mod search;
mod simplex;
mod steps;
mod system;
mod verdict;

pub use certificate::{
    Certificate, CertificateEnd, CertificateNode, CertificateParseError, CertificateSize, DerivedLine,
};
pub use form::{AffineForm, Var};
pub use formula::{Atom, Formula, LinearProblem};
pub use recheck::{RecheckError, recheck};
pub use search::decide;
pub use verdict::{SolverBudget, SolverVerdict, UnknownReason};
