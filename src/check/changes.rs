//! Finds modifications of a variable: assignments, calls or launches it is passed to as `out` or `inout`, and atomic operations.
//!
//! Input: typed code and a predicate for the variable. Output: the span of the first expression that modifies it or a
//! component of it.

use crate::base::source::Span;
use crate::check::typed::{Access, Block, Expr, ExprKind, FnRef, Param, Program, StmtKind};
use crate::check::walk;
use crate::check::walk::root;
use crate::lang::builtin::Builtin;

/// Searches an expression and its subexpressions.
pub fn of_expr(program: &Program, e: &Expr, is: &dyn Fn(&Expr) -> bool) -> Option<Span> {
    let mut found = None;
    walk::expr(e, &mut |inner| found = found.or_else(|| by_expr(program, inner, is)));
    found
}

/// Searches a block and everything nested in it.
pub fn of_block(program: &Program, block: &Block, is: &dyn Fn(&Expr) -> bool) -> Option<Span> {
    let mut found = assigned(block, is);
    walk::exprs(block, &mut |inner| found = found.or_else(|| by_expr(program, inner, is)));
    found
}

/// Checks the expression itself and the statements directly in it.
fn by_expr(program: &Program, e: &Expr, is: &dyn Fn(&Expr) -> bool) -> Option<Span> {
    let lent = |params: &[Param], arg: Option<&Expr>, at: usize| {
        let changes = params.get(at).is_some_and(|param| param.access != Access::In);
        arg.filter(|arg| changes && is(root(arg))).map(|arg| arg.span)
    };
    match &e.kind {
        ExprKind::Call { callee: FnRef::Fn { id, .. }, args } => {
            let params = &program.fns.get(*id)?.sig.params;
            args.iter().enumerate().find_map(|(at, arg)| lent(params, Some(arg), at))
        }
        ExprKind::Launch(launch) => {
            let params = &program.kernels.get(launch.kernel)?.sig.params;
            launch.args.iter().enumerate().find_map(|(at, arg)| lent(params, arg.as_ref(), at))
        }
        ExprKind::Builtin { builtin: Builtin::Atomic(_) | Builtin::AtomicStore, args, .. } => {
            args.first().filter(|place| is(root(place))).map(|place| place.span)
        }
        ExprKind::If { then, other, .. } => {
            assigned(then, is).or_else(|| other.as_deref().and_then(|other| assigned(other, is)))
        }
        ExprKind::Block(block) | ExprKind::Time(block) => assigned(block, is),
        _ => None,
    }
}

/// Searches the assignments of a block and of its nested loops.
fn assigned(block: &Block, is: &dyn Fn(&Expr) -> bool) -> Option<Span> {
    block.stmts.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Assign { place, .. } => is(root(place)).then_some(place.span),
        StmtKind::For { body, .. } | StmtKind::While { body, .. } => assigned(body, is),
        StmtKind::Loop { body } | StmtKind::Batch { body } | StmtKind::On { body, .. } => assigned(body, is),
        _ => None,
    })
}
