//! Decides whether integer-linear facts, with disjunctions and named products, hold at some point.
//!
//! Input: a [`Problem`]. Output: a point at which all facts hold, or a [`Certificate`] that there is none, or the reason why
//! neither was found. Idea: equalities are eliminated over the integers, a rational simplex refutes or proposes, cuts and
//! splits close the gap to the integers, and products follow from products of inequalities. [`recheck()`] trusts none of that.

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

pub use certificate::{Certificate, End, Line, Node, Size};
pub use form::{Linear, Var};
pub use formula::{Atom, Formula, Problem};
pub use recheck::recheck;
pub use search::decide;
pub use verdict::{Budget, Reason, Verdict};
