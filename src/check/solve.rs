//! Dimensions that a signature names only inside of expressions: what `R` is where an array of 5 elements is given for
//! `start: [i32; R + 1]`.
//!
//! Input: dimension expressions, and which dimensions are still open. Output: the dimension that an extent determines, and its value.
//! The idea: an expression that is linear in the only open dimension is known from its values at 0 and 1, which the checker, the
//! script interpreter and lowering each compute in their own way.

use crate::check::typed::{Dim, Expr, ExprKind, Signature, Type};
use crate::check::walk;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::syntax::ast;

/// Returns the open dimension that an expression is linear in, if it is the only one there.
pub fn unknown(e: &Expr, open: &dyn Fn(u32) -> bool) -> Option<u32> {
    let mut dim = None;
    let mut several = false;
    walk::expr(e, &mut |e| match e.kind {
        ExprKind::Dim(i) if open(i) => several |= dim.replace(i).is_some_and(|other| other != i),
        _ => {}
    });
    dim.filter(|&dim| !several && degree(e, dim).is_some_and(|degree| degree < 2))
}

/// Returns an upper bound of the degree of an expression in a dimension, if it is a polynomial.
fn degree(e: &Expr, dim: u32) -> Option<u32> {
    match &e.kind {
        ExprKind::Dim(i) => Some(u32::from(*i == dim)),
        ExprKind::Unary { op: UnaryOp::Neg, expr } => degree(expr, dim),
        ExprKind::Binary { op: BinaryOp::Add | BinaryOp::Sub, left, right } => {
            Some(degree(left, dim)?.max(degree(right, dim)?))
        }
        ExprKind::Binary { op: BinaryOp::Mul, left, right } => degree(left, dim)?.checked_add(degree(right, dim)?),
        _ => {
            let mut any = false;
            walk::expr(e, &mut |e| any |= matches!(e.kind, ExprKind::Dim(i) if i == dim));
            (!any).then_some(0)
        }
    }
}

/// Returns where a linear function that is `at_0` at 0 and `at_1` at 1 has this value; none if that is not a whole number of at
/// least 0.
pub fn solution(value: i64, at_0: i64, at_1: i64) -> Option<i64> {
    let (rest, slope) = (value.checked_sub(at_0)?, at_1.checked_sub(at_0)?);
    let found = rest.checked_div(slope)?;
    (rest.checked_rem(slope)? == 0 && found >= 0).then_some(found)
}

/// Visits the names in a dimension that it may be a linear function of.
pub(crate) fn names<'e>(e: &'e ast::Expr, visit: &mut dyn FnMut(&'e ast::Name)) {
    match &e.kind {
        ast::ExprKind::Name(name) => visit(name),
        ast::ExprKind::Paren(inner) | ast::ExprKind::Unary { op: UnaryOp::Neg, expr: inner, .. } => names(inner, visit),
        ast::ExprKind::Binary { op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, left, right, .. } => {
            names(left, visit);
            names(right, visit);
        }
        _ => {}
    }
}

/// The dimensions of a signature that are no array's extents.
pub struct Order {
    /// Those that dimension expressions determine, in an order in which they can be solved for, each with the parameter, axis and
    /// index of the expression.
    pub solved: Vec<(u32, (usize, usize, usize))>,
    /// Those that nothing determines.
    pub open: Vec<u32>,
}

/// Returns how the dimensions of a signature follow from the extents of its arrays.
pub fn order(sig: &Signature) -> Order {
    let dims = || {
        sig.params.iter().enumerate().flat_map(|(p, param)| {
            let dims = if let Type::Array(array) = &param.ty { &array.dims[..] } else { &[] };
            dims.iter().enumerate().map(move |(axis, dim)| (p, axis, dim))
        })
    };
    let is_extent = |i: u32| sig.params.iter().any(|param| carries(&param.ty, i));
    let mut open: Vec<u32> = (0..sig.dims.len() as u32).filter(|&i| !is_extent(i)).collect();
    let mut solved = vec![];
    let next = |open: &[u32]| {
        dims().find_map(|(p, axis, dim)| {
            let Dim::Expr(i) = dim else { return None };
            let dim = unknown(sig.dim_exprs.get(*i as usize)?, &|i| open.contains(&i))?;
            Some((dim, (p, axis, *i as usize)))
        })
    };
    while let Some(found) = next(&open) {
        open.retain(|&dim| dim != found.0);
        solved.push(found);
    }
    Order { solved, open }
}

/// Whether a dimension is an extent of an array, which may be a part of a tuple.
fn carries(ty: &Type, dim: u32) -> bool {
    match ty {
        Type::Array(array) => array.dims.contains(&Dim::Name(dim)),
        Type::Tuple(parts) => parts.iter().any(|part| carries(part, dim)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::solution;

    #[test]
    fn extents_are_solved_for_the_dimension() {
        for (scale, offset) in [(1, 1), (2, 1), (3, -2), (-1, 7), (1, 0), (5, 100), (-2, 9)] {
            for dim in 0..50 {
                assert_eq!(solution(scale * dim + offset, offset, scale + offset), Some(dim));
            }
        }
        assert_eq!(solution(4, 1, 3), None, "not whole");
        assert_eq!(solution(0, 1, 2), None, "negative");
        assert_eq!(solution(1, 1, 1), None, "any number does");
        assert_eq!(solution(i64::MAX, i64::MIN, i64::MIN + 1), None);
        assert_eq!(solution(i64::MIN, 0, -1), None);
    }
}
