//! Annotations of GPUVerify: `__requires(n > 0)` is a precondition, `__assert(i < n)` an assertion. The names have this
//! meaning only in files that do not define them. Invariants and postconditions, which guide GPUVerify to a proof, are
//! ignored: nothing here assumes them.

use super::arith::logical;
use super::lower::{Local, Lower};
use super::tree::{Expr, ExprKind, StmtKind};
use super::types::{CType, INT};
use super::value::{Denoted, Res, Value, refuse};
use crate::ast::{CppBinaryOp, CppExpr, CppExprKind, CppStmt, CppStmtKind};
use crate::source::SourceSpan;
use smol_str::SmolStr;

const IGNORED: &[&str] = &[
    "__invariant",
    "__global_invariant",
    "__candidate_invariant",
    "__candidate_global_invariant",
    "__function_wide_invariant",
    "__function_wide_candidate_invariant",
    "__ensures",
    "__global_ensures",
    "__candidate_assert",
    "__candidate_global_assert",
    "__non_temporal_loads_begin",
    "__non_temporal_loads_end",
    "__reads_from",
    "__writes_to",
    // The translation assumes anyway that pointers refer to different arrays.
    "__requires_fresh_array",
];

/// Predicates about two threads, or about accesses before a point.
const PREDICATES: &[&str] = &[
    "__other_int",
    "__other_bool",
    "__other_ptr_base",
    "__uniform_int",
    "__uniform_bool",
    "__uniform_ptr_base",
    "__distinct_int",
    "__distinct_bool",
    "__distinct_ptr_base",
    "__all",
    "__exclusive",
    "__same_group",
    "__read",
    "__write",
    "__no_read",
    "__no_write",
    "__read_implies",
    "__write_implies",
    "__read_offset_bytes",
    "__write_offset_bytes",
    "__ptr_base",
    "__ptr_offset_bytes",
    "__atomic_has_taken_value",
    "__dominator_enabled",
    "__old_int",
    "__old_bool",
];

impl<'a> Lower<'_, 'a> {
    /// Translates a call of an annotation; `None` if the name is none.
    pub(crate) fn call_annotation(
        &mut self,
        name: &str,
        args: &'a [CppExpr],
        span: SourceSpan,
    ) -> Res<Option<Denoted>> {
        if IGNORED.contains(&name) || name.starts_with("__barrier_invariant") {
            return Ok(Some(Denoted::Void));
        }
        if PREDICATES.contains(&name) {
            let help = "assert a condition on the values of one thread";
            return refuse(format!("`{name}`, a predicate of GPUVerify"), span, help);
        }
        Ok(Some(match (name, args) {
            ("__requires" | "__global_requires", [condition]) => self.precondition(condition, span)?,
            ("__assert", [condition]) => {
                // A condition that all pairs of threads meet is one that each thread meets.
                let condition = match called(condition) {
                    Some(("__all", [inner])) => inner,
                    _ => condition,
                };
                let condition = self.condition(condition)?;
                self.push_assertion(condition, span)
            }
            ("__assume" | "__builtin_assume", [condition]) => self.assumption(condition, span)?,
            ("__enabled", []) => Denoted::Value(Value::bool(true, span)),
            ("__implies", [premise, conclusion]) => {
                let premise = self.condition(premise)?;
                let (conclusion, block) = self.nested(|lower| lower.condition(conclusion))?;
                if !block.is_empty() || conclusion.effect {
                    return refuse("`__implies` of an expression with effects", span, "use an `if`");
                }
                let premise = self.negated(premise);
                Denoted::Value(logical(CppBinaryOp::Or, premise, conclusion, span))
            }
            ("__mod_pow2", [value, power]) => {
                let (value, power) = (self.operand(value)?, self.operand(power)?);
                let mask = self.binary(CppBinaryOp::Sub, power, Value::int(1, INT, span), span)?;
                Denoted::Value(self.binary(CppBinaryOp::BitAnd, value, mask, span)?)
            }
            _ => return Ok(None),
        }))
    }

    /// Returns whether a statement is an annotation that the translation ignores.
    pub(crate) fn is_ignored(&self, stmt: &CppStmt) -> bool {
        matches!(&stmt.kind, CppStmtKind::Expr(expr) if self.is_ignored_call(expr))
    }

    /// Returns whether an expression is a call of an annotation, or several, that the translation ignores.
    pub(crate) fn is_ignored_call(&self, expr: &CppExpr) -> bool {
        if let CppExprKind::Comma { left, right } = &expr.kind {
            return self.is_ignored_call(left) && self.is_ignored_call(right);
        }
        called(expr).is_some_and(|(name, _)| IGNORED.contains(&name) && self.functions_named(name).is_empty())
    }

    fn push_assertion(&mut self, condition: Value, span: SourceSpan) -> Denoted {
        if condition.constant_bool() != Some(true) {
            self.requirements.effect = true;
            self.push(StmtKind::Expr(Expr::call("assert", vec![condition.expr], span)), span);
        }
        Denoted::Void
    }

    /// A precondition of a kernel holds in all launches. One of a device function holds at each call, which is an
    /// assertion.
    fn precondition(&mut self, condition: &'a CppExpr, span: SourceSpan) -> Res<Denoted> {
        if !self.is_kernel {
            if mentions_predicate(condition) {
                self.requirements.note("a `__requires` of a function holds, although it is not examined", span);
                return Ok(Denoted::Void);
            }
            let condition = self.condition(condition)?;
            return Ok(self.push_assertion(condition, span));
        }
        if self.state_assumption(condition, span)? {
            return Ok(Denoted::Void);
        }
        refuse(
            "a `__requires` that is not a condition on parameters at the beginning of the kernel",
            span,
            "state it as `__assert`, or use an `if`",
        )
    }

    /// An assumption about the launch is one of its kernel. Others are examined like assertions, because a violation is
    /// undefined behavior.
    fn assumption(&mut self, condition: &'a CppExpr, span: SourceSpan) -> Res<Denoted> {
        if self.is_kernel && self.state_assumption(condition, span)? {
            return Ok(Denoted::Void);
        }
        let condition = self.condition(condition)?;
        Ok(self.push_assertion(condition, span))
    }

    /// Adds a condition to the `assume` clauses of the kernel. Returns whether it is about the launch only, and before
    /// all statements that could change a parameter or leave the kernel.
    fn state_assumption(&mut self, condition: &'a CppExpr, span: SourceSpan) -> Res<bool> {
        let is_assertion = |stmt: &super::tree::Stmt| match &stmt.kind {
            StmtKind::Declare { .. } => true,
            StmtKind::Expr(expr) => matches!(&expr.kind, ExprKind::Call(name, _) if name == "assert"),
            _ => false,
        };
        if self.blocks.len() != 1 || !self.blocks[0].iter().all(is_assertion) {
            return Ok(false);
        }
        let (condition, block) = self.nested(|lower| lower.condition(condition))?;
        if !block.is_empty() || condition.effect || condition.constant.is_some() {
            return Ok(condition.constant_bool() == Some(true));
        }
        let mut parts = vec![];
        split_conjunction(&condition.expr, &mut parts);
        let clauses: Option<Vec<Expr>> = parts.iter().map(|part| self.clause(part)).collect();
        let Some(clauses) = clauses else { return Ok(false) };
        parts.iter().for_each(|part| self.note_equation(part));
        self.stated_launch.assumed.extend(clauses.into_iter().map(|clause| (clause, span)));
        Ok(true)
    }

    /// After `n == 5` or `n == blockDim.x`, the parameter has this value.
    fn note_equation(&mut self, condition: &Expr) {
        let ExprKind::Binary("==", left, right) = &condition.kind else { return };
        for (name, value) in [(left, right), (right, left)] {
            let ExprKind::Name(name) = &name.kind else { continue };
            let span = value.span;
            let value = match &value.kind {
                ExprKind::Int(number, _) => Value::int(*number, INT, span),
                ExprKind::Field(base, axis) if base.kind == ExprKind::Name("block_dim".into()) => {
                    self.position(2, axis, span)
                }
                _ => continue,
            };
            let is_own = |local: &&mut Local| matches!(local, Local::Variable { name: own, .. } if own == name);
            let mut locals = self.locals.iter_mut().flat_map(|scope| scope.values_mut());
            if let Some(Local::Variable { ty, known, .. }) = locals.find(is_own)
                && let (CType::Int(kind), Some(range)) = (&*ty, value.range)
                && kind.scalar().size() >= 4
            {
                let (low, high) = kind.scalar().limits();
                if low <= range.0 && range.1 <= high {
                    let rep = if value.constant.is_some() { kind.scalar() } else { value.rep };
                    let value = match value.constant_int() {
                        Some(number) => Value::int(number, ty.clone(), span),
                        None => Value { ty: ty.clone(), rep, ..value },
                    };
                    *known = Some(Box::new(value));
                }
            }
        }
    }

    /// Returns a condition in terms of the parameters of the kernel and the extents of the launch; `None` if it
    /// contains anything else.
    fn clause(&self, expr: &Expr) -> Option<Expr> {
        let kind = match &expr.kind {
            ExprKind::Int(..) | ExprKind::Bool(_) => expr.kind.clone(),
            ExprKind::Name(name) => ExprKind::Name(self.launch_value(name)?),
            ExprKind::Field(base, field) => {
                let ExprKind::Name(name) = &base.kind else { return None };
                let is_extent = matches!(name.as_str(), "block_dim" | "grid_dim");
                let name = if is_extent { name.clone() } else { self.launch_value(name)? };
                ExprKind::Field(Box::new(Expr::name(name, base.span)), field.clone())
            }
            ExprKind::Unary(op, operand) => ExprKind::Unary(op, Box::new(self.clause(operand)?)),
            ExprKind::Binary(op, left, right) => {
                ExprKind::Binary(op, Box::new(self.clause(left)?), Box::new(self.clause(right)?))
            }
            ExprKind::Call(name, args) if is_exact_function(name) => {
                ExprKind::Call(name.clone(), args.iter().map(|arg| self.clause(arg)).collect::<Option<_>>()?)
            }
            _ => return None,
        };
        Some(Expr::new(kind, expr.span))
    }

    /// Returns the parameter whose value a variable has; a parameter that is assigned has a copy.
    fn launch_value(&self, name: &SmolStr) -> Option<SmolStr> {
        self.stated_launch.values.iter().find(|(own, _)| own == name).map(|(_, param)| param.clone())
    }
}

fn is_exact_function(name: &str) -> bool {
    matches!(name, "i32" | "u32" | "i64" | "u64" | "wrapping_add" | "wrapping_sub" | "wrapping_mul")
}

fn split_conjunction(expr: &Expr, parts: &mut Vec<Expr>) {
    match &expr.kind {
        ExprKind::Binary("&&", left, right) => {
            split_conjunction(left, parts);
            split_conjunction(right, parts);
        }
        _ => parts.push(expr.clone()),
    }
}

/// Returns the name and the arguments of a call of a function by its plain name.
fn called(expr: &CppExpr) -> Option<(&str, &[CppExpr])> {
    let CppExprKind::Call { callee, args } = &expr.kind else { return None };
    let CppExprKind::Name(name) = &callee.kind else { return None };
    let [only] = name.segments.as_slice() else { return None };
    Some((only.name.text.as_str(), args))
}

fn mentions_predicate(expr: &CppExpr) -> bool {
    let is_predicate = called(expr).is_some_and(|(name, _)| PREDICATES.contains(&name));
    is_predicate
        || match &expr.kind {
            CppExprKind::Unary { operand, .. } => mentions_predicate(operand),
            CppExprKind::Binary { left, right, .. } | CppExprKind::Comma { left, right } => {
                mentions_predicate(left) || mentions_predicate(right)
            }
            CppExprKind::Conditional { condition, then, otherwise } => {
                [condition, then, otherwise].into_iter().any(|part| mentions_predicate(part))
            }
            CppExprKind::Call { args, .. } => args.iter().any(mentions_predicate),
            CppExprKind::Cast { value, .. } => mentions_predicate(value),
            CppExprKind::Index { base, index } => mentions_predicate(base) || mentions_predicate(index),
            _ => false,
        }
}
