//! When a call or a launch is like an earlier one at the same place: what caches of both compare.
//!
//! Input: values of arguments, and compile-time arguments as they are written. Output: [`Kind`]s of the values, and whether the compile-time
//! arguments depend on those of the caller alone ([`is_closed`]).

use std::sync::Arc;

use crate::check::typed::{Expr, ExprKind, FnRef, GenericArg};
use crate::check::walk;
use crate::host::array::Element;
use crate::host::value::Value;
use crate::lang::scalar::Scalar;
use crate::lower::Argument;

/// The properties of an argument that must be the same for reuse.
#[derive(PartialEq)]
pub(super) enum Kind {
    Missing,
    Array(Element, Vec<usize>),
    Scalar(Scalar),
    /// An untyped literal.
    Int,
    Float,
}

impl Kind {
    /// Returns the kind of an argument; `None` for values that prevent caching.
    pub fn of(value: Option<&Value>) -> Option<Kind> {
        Some(match value {
            None => Kind::Missing,
            Some(Value::Array(array)) => Kind::Array(array.element().clone(), array.shape().to_vec()),
            Some(Value::Scalar(value)) => Kind::Scalar(value.ty),
            Some(Value::Int(_)) => Kind::Int,
            Some(Value::Float(_)) => Kind::Float,
            Some(_) => return None,
        })
    }

    pub fn is_of(&self, value: Option<&Value>) -> bool {
        match (self, value) {
            (Kind::Missing, None) => true,
            (Kind::Array(element, shape), Some(Value::Array(array))) => {
                array.shape() == shape && array.element() == element
            }
            (Kind::Scalar(ty), Some(Value::Scalar(value))) => value.ty == *ty,
            (Kind::Int, Some(Value::Int(_))) | (Kind::Float, Some(Value::Float(_))) => true,
            _ => false,
        }
    }
}

/// Whether two items have the same compile-time arguments.
pub(super) fn are_same(a: &Arc<[Argument]>, b: &Arc<[Argument]>) -> bool {
    Arc::ptr_eq(a, b) || **a == **b
}

/// Whether compile-time arguments, as they are written, depend on the caller's alone.
pub(super) fn is_closed(generics: &[GenericArg]) -> bool {
    generics.iter().all(|generic| match generic {
        GenericArg::Infer | GenericArg::Type(_) | GenericArg::Fn(FnRef::Param(_) | FnRef::Builtin(_)) => true,
        GenericArg::Const(expr) => is_constant(expr),
        GenericArg::Fn(FnRef::Fn { generics, .. }) => is_closed(generics),
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

/// Whether an expression reads a variable.
pub(super) fn reads(expr: &Expr) -> bool {
    let mut found = false;
    walk::expr(expr, &mut |e| found |= matches!(e.kind, ExprKind::Local(_) | ExprKind::Global(_)));
    found
}
