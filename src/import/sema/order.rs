//! Detection of expressions whose meaning depends on the order of evaluation, which C++ leaves open:
//! `a[i] + i++`. They are refused.

use super::lower::Lower;
use super::value::{Res, refuse};
use crate::ast::{CppDecl, CppDeclKind, CppExpr, CppExprKind, CppInit, CppStmtKind, CppUnaryOp};
use rustc_hash::FxHashSet;
use smol_str::SmolStr;

#[derive(Default)]
struct Accesses {
    reads: FxHashSet<SmolStr>,
    writes: FxHashSet<SmolStr>,
}

impl Lower<'_, '_> {
    /// Refuses operands if one of them changes a variable that another one uses.
    pub(crate) fn check_order(&self, exprs: &[&CppExpr]) -> Res<()> {
        if exprs.len() < 2 || !exprs.iter().any(|expr| has_effect(expr)) {
            return Ok(());
        }
        let all: Vec<Accesses> = exprs
            .iter()
            .map(|expr| {
                let mut accesses = Accesses::default();
                collect(expr, &mut accesses);
                accesses
            })
            .collect();
        for (at, a) in all.iter().enumerate() {
            for (other, b) in all.iter().enumerate() {
                if at == other {
                    continue;
                }
                if let Some(name) = a.writes.iter().find(|name| b.reads.contains(*name) || b.writes.contains(*name)) {
                    return refuse(
                        format!("a change of `{name}` in an expression that uses it elsewhere"),
                        exprs[at].span,
                        "C++ does not define the order; use two statements",
                    );
                }
            }
        }
        Ok(())
    }
}

/// Returns whether an expression assigns a variable.
fn has_effect(expr: &CppExpr) -> bool {
    let mut accesses = Accesses::default();
    collect(expr, &mut accesses);
    !accesses.writes.is_empty()
}

fn written(expr: &CppExpr, accesses: &mut Accesses) {
    match &expr.kind {
        CppExprKind::Name(name) => {
            if let Some(last) = name.segments.last() {
                accesses.writes.insert(last.name.text.clone());
            }
        }
        CppExprKind::Member { base, .. } => written(base, accesses),
        // The elements of arrays are not followed, but the index is read.
        _ => collect(expr, accesses),
    }
}

fn collect(expr: &CppExpr, accesses: &mut Accesses) {
    match &expr.kind {
        CppExprKind::Name(name) => {
            if let [only] = name.segments.as_slice() {
                accesses.reads.insert(only.name.text.clone());
            }
        }
        CppExprKind::Unary { op, operand } => {
            if matches!(
                op,
                CppUnaryOp::PreIncrement
                    | CppUnaryOp::PreDecrement
                    | CppUnaryOp::PostIncrement
                    | CppUnaryOp::PostDecrement
            ) {
                written(operand, accesses);
            }
            collect(operand, accesses);
        }
        CppExprKind::Assign { target, value, op } => {
            written(target, accesses);
            if op.is_some() {
                collect(target, accesses);
            }
            collect(value, accesses);
        }
        CppExprKind::Binary { left, right, .. } | CppExprKind::Comma { left, right } => {
            collect(left, accesses);
            collect(right, accesses);
        }
        CppExprKind::Conditional { condition, then, otherwise } => {
            collect(condition, accesses);
            collect(then, accesses);
            collect(otherwise, accesses);
        }
        CppExprKind::Call { callee, args } => {
            if let CppExprKind::Member { base, .. } = &callee.kind {
                collect(base, accesses);
            }
            for arg in args {
                collect(arg, accesses);
            }
        }
        CppExprKind::Index { base, index } => {
            collect(base, accesses);
            collect(index, accesses);
        }
        CppExprKind::Statements(block) => {
            for stmt in &block.stmts {
                match &stmt.kind {
                    CppStmtKind::Expr(value) => collect(value, accesses),
                    CppStmtKind::Decl(CppDecl { kind: CppDeclKind::Variables(decl), .. }) => {
                        for variable in &decl.variables {
                            match &variable.init {
                                CppInit::Equal(value) => collect(value, accesses),
                                CppInit::Paren(args) | CppInit::Brace(args) => {
                                    args.iter().for_each(|arg| collect(arg, accesses));
                                }
                                CppInit::None => {}
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        CppExprKind::Member { base, .. } => collect(base, accesses),
        CppExprKind::Cast { value, .. } => collect(value, accesses),
        CppExprKind::Construct { args, .. } => {
            for arg in args {
                collect(arg, accesses);
            }
        }
        CppExprKind::InitList(items) => {
            for item in items {
                collect(&item.value, accesses);
            }
        }
        _ => {}
    }
}
