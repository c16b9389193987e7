//! Violated invariants, and predicates on types that several parts of the verifier use.

use crate::def::*;

/// The message about a violated invariant. It contains the function and the expression.
pub type Violation = String;

pub(super) fn is_type(ty: Ty) -> bool {
    matches!(ty, Ty::Scalar(_) | Ty::Vector(_, 2..=4))
}

pub(super) fn is_int_scalar(ty: Ty) -> bool {
    matches!(ty, Ty::Scalar(s) if s.is_int())
}
