//! Conditions on the path to an array access. A length is assumed only under the conditions on parameters of the kernel
//! that the access needs: `if (mode == 1) y[i] = 0;` says nothing about `y` in launches with another mode.

use super::polynomial::SizePolynomial;
use super::tree::{Expr, Stmt, StmtKind};

/// A comparison of sizes: polynomials in parameters of the kernel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SizeCondition {
    pub(super) left: SizePolynomial,
    pub(super) op: &'static str,
    pub(super) right: SizePolynomial,
}

/// A condition on the path to a statement.
#[derive(Clone, Debug)]
pub(super) enum PathCondition {
    Stated(SizeCondition),
    /// Parameters of the kernel decide it, but no assumption can express it.
    Uniform,
    /// The first thread of each block satisfies it, as in `threadIdx.x == 0`.
    FirstThread,
    /// It depends on the thread, on memory, or on the iteration of a loop.
    Varying,
}

/// How a block leaves the code around it before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathExit {
    /// A condition on parameters of the kernel is one of those that decide it.
    Uniform,
    Varying,
}

impl SizeCondition {
    /// Returns a comparison, or its negation.
    pub(super) fn comparison(
        left: SizePolynomial,
        op: &str,
        right: SizePolynomial,
        holds: bool,
    ) -> Option<SizeCondition> {
        let op = if holds { comparison_operator(op)? } else { negated(op)? };
        Some(SizeCondition { left, op, right })
    }

    /// Returns whether the condition follows if a sum of products of nonnegative parameters is positive: `m > 0`
    /// follows from `n * m > 0`.
    pub(super) fn follows_from_positive(&self, sum: &SizePolynomial) -> bool {
        let SizeCondition { left, op, right } = self;
        // The condition is that this is positive.
        let positive = match *op {
            "<" => right.minus(left),
            "<=" => right.plus(&SizePolynomial::number(1)).and_then(|right| right.minus(left)),
            ">" => left.minus(right),
            ">=" => left.plus(&SizePolynomial::number(1)).and_then(|left| left.minus(right)),
            "!=" if right.as_number() == Some(0) => Some(left.clone()),
            "!=" if left.as_number() == Some(0) => Some(right.clone()),
            _ => None,
        };
        let Some(positive) = positive else { return false };
        let is_factor = |symbol| sum.terms().all(|(monomial, by)| by > 0 && monomial.contains(&symbol));
        positive == *sum || positive.as_symbol().is_some_and(is_factor)
    }
}

/// Compares two numbers; `None` if the operator is not a comparison.
pub(super) fn compare(left: i128, op: &str, right: i128) -> Option<bool> {
    Some(match op {
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        ">=" => left >= right,
        "==" => left == right,
        "!=" => left != right,
        _ => return None,
    })
}

fn comparison_operator(op: &str) -> Option<&'static str> {
    ["<", "<=", ">", ">=", "==", "!="].into_iter().find(|known| *known == op)
}

/// Returns the operator of the opposite comparison.
pub(super) fn negated(op: &str) -> Option<&'static str> {
    Some(match op {
        "<" => ">=",
        "<=" => ">",
        ">" => "<=",
        ">=" => "<",
        "==" => "!=",
        "!=" => "==",
        _ => return None,
    })
}

/// Returns whether the code after a block is reached only if the block is not.
pub(super) fn always_leaves(stmts: &[Stmt]) -> bool {
    match stmts.last().map(|stmt| &stmt.kind) {
        Some(StmtKind::Return(_) | StmtKind::Break | StmtKind::Continue) => true,
        Some(StmtKind::If { then, otherwise, .. }) => always_leaves(then) && always_leaves(otherwise),
        _ => false,
    }
}

/// Returns how a block may leave the code around it; `None` if it always reaches its end. With `only_returns`, `break`
/// and `continue` stay inside of that code. `varies` tells whether a condition differs between threads.
pub(super) fn exit_of(stmts: &[Stmt], only_returns: bool, varies: &mut dyn FnMut(&Expr) -> bool) -> Option<PathExit> {
    let mut exit = None;
    for stmt in stmts {
        let found = match &stmt.kind {
            StmtKind::Return(_) => Some(PathExit::Varying),
            StmtKind::Break | StmtKind::Continue if !only_returns => Some(PathExit::Varying),
            StmtKind::If { condition, then, otherwise } => {
                let inner = exit_of(then, only_returns, varies).max_exit(exit_of(otherwise, only_returns, varies));
                match inner {
                    Some(PathExit::Varying) if !varies(condition) => Some(PathExit::Uniform),
                    inner => inner,
                }
            }
            StmtKind::While { body, .. } | StmtKind::Loop(body) | StmtKind::For { body, .. } => {
                exit_of(body, true, varies)
            }
            _ => None,
        };
        exit = exit.max_exit(found);
    }
    exit
}

trait MaxExit {
    fn max_exit(self, other: Self) -> Self;
}

impl MaxExit for Option<PathExit> {
    /// Returns the exit that depends on parameters, if one of two does.
    fn max_exit(self, other: Self) -> Self {
        match (self, other) {
            (Some(PathExit::Uniform), _) | (_, Some(PathExit::Uniform)) => Some(PathExit::Uniform),
            (exit, other) => exit.or(other),
        }
    }
}
