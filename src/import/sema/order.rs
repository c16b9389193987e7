//! Detection of expressions whose meaning depends on the order of evaluation, which C++ leaves open:
//! `a[i] + i++`. They are refused.

use super::lower::Lower;
use super::value::{Closure, Res, refuse};
use crate::ast::{CppDecl, CppDeclKind, CppExpr, CppExprKind, CppFunction, CppInit, CppStmtKind, CppUnaryOp};
use crate::launches::FunctionScan;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;
use std::rc::Rc;

#[derive(Default)]
pub(super) struct Accesses {
    pub(super) reads: FxHashSet<SmolStr>,
    pub(super) writes: FxHashSet<SmolStr>,
}

/// Returns the lambda that a variable holds.
type FindClosure<'f> = &'f dyn Fn(&str) -> Option<Rc<Closure>>;

/// Returns the variables that the body of a lambda reads and changes.
pub(super) fn accesses_of(call: &CppFunction, closures: FindClosure<'_>) -> Accesses {
    let mut accesses = Accesses::default();
    for value in FunctionScan::with_lambdas(&call.body).values {
        collect(value, &mut accesses, closures);
    }
    accesses
}

impl Lower<'_, '_> {
    /// Refuses operands if one of them changes a variable that another one uses.
    pub(crate) fn check_order(&self, exprs: &[&CppExpr]) -> Res<()> {
        let closures = |name: &str| self.closure_of(name);
        if exprs.len() < 2 {
            return Ok(());
        }
        let all: Vec<Accesses> = exprs
            .iter()
            .map(|expr| {
                let mut accesses = Accesses::default();
                collect(expr, &mut accesses, &closures);
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

fn written(expr: &CppExpr, accesses: &mut Accesses, closures: FindClosure<'_>) {
    match &expr.kind {
        CppExprKind::Name(name) => {
            if let Some(last) = name.segments.last() {
                accesses.writes.insert(last.name.text.clone());
            }
        }
        CppExprKind::Member { base, .. } => written(base, accesses, closures),
        // The elements of arrays are not followed, but the index is read.
        _ => collect(expr, accesses, closures),
    }
}

fn collect(expr: &CppExpr, accesses: &mut Accesses, closures: FindClosure<'_>) {
    match &expr.kind {
        CppExprKind::Name(name) => {
            if let [only] = name.segments.as_slice() {
                accesses.reads.insert(only.name.text.clone());
                // The object may be called, here or where it is passed.
                if let Some(closure) = closures(&only.name.text) {
                    accesses.reads.extend(closure.reads.iter().cloned());
                    accesses.writes.extend(closure.writes.iter().cloned());
                }
            }
        }
        CppExprKind::Lambda(lambda) => {
            if let Some(call) = lambda.call() {
                let own = accesses_of(call, closures);
                accesses.reads.extend(own.reads);
                accesses.writes.extend(own.writes);
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
                written(operand, accesses, closures);
            }
            collect(operand, accesses, closures);
        }
        CppExprKind::Assign { target, value, op } => {
            written(target, accesses, closures);
            if op.is_some() {
                collect(target, accesses, closures);
            }
            collect(value, accesses, closures);
        }
        CppExprKind::Binary { left, right, .. } | CppExprKind::Comma { left, right } => {
            collect(left, accesses, closures);
            collect(right, accesses, closures);
        }
        CppExprKind::Conditional { condition, then, otherwise } => {
            collect(condition, accesses, closures);
            collect(then, accesses, closures);
            collect(otherwise, accesses, closures);
        }
        CppExprKind::Call { callee, args } => {
            let is_function = match &callee.kind {
                CppExprKind::Name(name) => match name.segments.as_slice() {
                    [only] => closures(&only.name.text).is_none(),
                    _ => true,
                },
                _ => false,
            };
            if !is_function {
                collect(callee, accesses, closures);
            }
            for arg in args {
                collect(arg, accesses, closures);
            }
        }
        CppExprKind::Index { base, index } => {
            collect(base, accesses, closures);
            collect(index, accesses, closures);
        }
        CppExprKind::Statements(block) => {
            for stmt in &block.stmts {
                match &stmt.kind {
                    CppStmtKind::Expr(value) => collect(value, accesses, closures),
                    CppStmtKind::Decl(CppDecl { kind: CppDeclKind::Variables(decl), .. }) => {
                        for variable in &decl.variables {
                            match &variable.init {
                                CppInit::Equal(value) => collect(value, accesses, closures),
                                CppInit::Paren(args) | CppInit::Brace(args) => {
                                    args.iter().for_each(|arg| collect(arg, accesses, closures));
                                }
                                CppInit::None => {}
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        CppExprKind::Member { base, .. } => collect(base, accesses, closures),
        CppExprKind::Cast { value, .. } => collect(value, accesses, closures),
        CppExprKind::Construct { args, .. } => {
            for arg in args {
                collect(arg, accesses, closures);
            }
        }
        CppExprKind::InitList(items) => {
            for item in items {
                collect(&item.value, accesses, closures);
            }
        }
        _ => {}
    }
}
