//! Solves for dimensions that occur in a signature only inside expressions. For example, if `start: [i32; R + 1]` is an
//! array of 5 elements, `R` is 4.
//!
//! Input: dimension expressions, and the set of unknown dimensions. Output: the dimension that an extent determines,
//! and its value. If an expression is linear in its only unknown dimension, its values at 0 and 1 determine the linear
//! function. The checker, the script interpreter and lowering compute these values in different ways and then call
//! [`solution`].

use crate::typed::{Dim, Expr, ExprKind, Signature, Type};
use crate::visit;
use clk_scalar::ops::{BinaryOp, UnaryOp};
use clk_syntax::ast;

/// Returns the only unknown dimension in an expression, if the expression is linear in it.
pub fn solvable_dim(e: &Expr, open: &dyn Fn(u32) -> bool) -> Option<u32> {
    let mut dim = None;
    let mut several = false;
    visit::expr(e, &mut |e| match e.kind {
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
            visit::expr(e, &mut |e| any |= matches!(e.kind, ExprKind::Dim(i) if i == dim));
            (!any).then_some(0)
        }
    }
}

/// Solves `f(x) = value` for the linear function `f` with `f(0) = at_0` and `f(1) = at_1`. None unless `x` is an
/// integer of at least 0.
pub fn solution(value: i64, at_0: i64, at_1: i64) -> Option<i64> {
    let (rest, slope) = (value.checked_sub(at_0)?, at_1.checked_sub(at_0)?);
    let x = rest.checked_div(slope)?;
    (rest.checked_rem(slope)? == 0 && x >= 0).then_some(x)
}

/// Visits those names in a dimension expression in which the expression may be linear.
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

/// The dimensions of a signature that are not themselves the extent of an array parameter.
pub struct SolveOrder {
    /// The dimensions that dimension expressions determine, in an order in which they can be solved for. Each one has a
    /// parameter, an axis of it, and the index of the axis's dimension expression.
    pub solved: Vec<(u32, (usize, usize, usize))>,
    /// The dimensions that no extent of an array determines.
    pub open: Vec<u32>,
}

/// Returns how the dimensions of a signature can be computed from the extents of its arrays.
pub fn order(sig: &Signature) -> SolveOrder {
    let dims = || {
        sig.params.iter().enumerate().flat_map(|(p, param)| {
            let dims = if let Type::Array(array) = &param.ty { &array.dims[..] } else { &[] };
            dims.iter().enumerate().map(move |(axis, dim)| (p, axis, dim))
        })
    };
    let is_extent = |i: u32| sig.params.iter().any(|param| has_extent(&param.ty, i));
    let mut open: Vec<u32> = (0..sig.dims.len() as u32).filter(|&i| !is_extent(i)).collect();
    let mut solved = vec![];
    let next = |open: &[u32]| {
        dims().find_map(|(p, axis, dim)| {
            let Dim::Expr(i) = dim else { return None };
            let dim = solvable_dim(sig.dim_exprs.get(*i as usize)?, &|i| open.contains(&i))?;
            Some((dim, (p, axis, *i as usize)))
        })
    };
    while let Some(next_solved) = next(&open) {
        open.retain(|&dim| dim != next_solved.0);
        solved.push(next_solved);
    }
    SolveOrder { solved, open }
}

/// Returns whether a dimension is an extent of an array, or of an array in a tuple.
fn has_extent(ty: &Type, dim: u32) -> bool {
    match ty {
        Type::Array(array) => array.dims.contains(&Dim::Name(dim)),
        Type::Tuple(parts) => parts.iter().any(|part| has_extent(part, dim)),
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
