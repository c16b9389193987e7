//! Keys of the call cache and the launch cache. A call or launch can reuse the argument bindings of an earlier one with
//! an equal key.
//!
//! Input: argument values, and compile-time arguments as written in the source. Output: the [`ArgumentKind`]s of the
//! values, and whether the compile-time arguments depend only on the caller's ([`depends_only_on_caller`]).

use std::sync::Arc;

use crate::array::ElementType;
use crate::value::HostValue;
use clk_check::typed::{Expr, ExprKind, FnRef, GenericArg};
use clk_check::visit;
use clk_lower::GenericArgument;
use clk_scalar::Scalar;

/// The properties of an argument that must be equal for a cached binding to be reused.
#[derive(PartialEq)]
pub(super) enum ArgumentKind {
    Missing,
    Array(ElementType, Vec<usize>),
    Scalar(Scalar),
    /// An untyped literal.
    Int,
    Float,
}

impl ArgumentKind {
    /// Returns the kind of an argument. Returns `None` for other values; calls with them are not cached.
    pub fn of(value: Option<&HostValue>) -> Option<ArgumentKind> {
        Some(match value {
            None => ArgumentKind::Missing,
            Some(HostValue::Array(array)) => ArgumentKind::Array(array.element().clone(), array.shape().to_vec()),
            Some(HostValue::Scalar(value)) => ArgumentKind::Scalar(value.ty),
            Some(HostValue::Int(_)) => ArgumentKind::Int,
            Some(HostValue::Float(_)) => ArgumentKind::Float,
            Some(_) => return None,
        })
    }

    pub fn matches(&self, value: Option<&HostValue>) -> bool {
        match (self, value) {
            (ArgumentKind::Missing, None) => true,
            (ArgumentKind::Array(element, shape), Some(HostValue::Array(array))) => {
                array.shape() == shape && array.element() == element
            }
            (ArgumentKind::Scalar(ty), Some(HostValue::Scalar(value))) => value.ty == *ty,
            (ArgumentKind::Int, Some(HostValue::Int(_))) | (ArgumentKind::Float, Some(HostValue::Float(_))) => true,
            _ => false,
        }
    }
}

/// Returns whether two lists of compile-time arguments are equal.
pub(super) fn have_same_arguments(a: &Arc<[GenericArgument]>, b: &Arc<[GenericArgument]>) -> bool {
    Arc::ptr_eq(a, b) || **a == **b
}

/// Returns whether the values of compile-time arguments, as written in the source, depend only on the caller's
/// compile-time arguments.
pub(super) fn depends_only_on_caller(generics: &[GenericArg]) -> bool {
    generics.iter().all(|generic| match generic {
        GenericArg::Infer | GenericArg::Type(_) | GenericArg::Fn(FnRef::Param(_) | FnRef::Builtin(_)) => true,
        GenericArg::Const(expr) => is_constant(expr),
        GenericArg::Fn(FnRef::Fn { generics, .. }) => depends_only_on_caller(generics),
        GenericArg::Error => false,
    })
}

fn is_constant(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_) | ExprKind::Const(_) | ExprKind::ConstParam(_) => {
            true
        }
        ExprKind::Unary { expr, .. } | ExprKind::Convert { expr, .. } => is_constant(expr),
        ExprKind::Binary { left, right, .. } => is_constant(left) && is_constant(right),
        _ => false,
    }
}

/// Returns whether an expression reads a variable.
pub(super) fn reads_variable(expr: &Expr) -> bool {
    let mut reads = false;
    visit::expr(expr, &mut |e| reads |= matches!(e.kind, ExprKind::Local(_) | ExprKind::Global(_)));
    reads
}
