//! The variables that statements change.

use super::tree::{ClkFunction, Expr, ExprKind, Stmt, StmtKind};
use smol_str::SmolStr;

/// Returns the variable that a place is, or is a part of.
pub(super) fn root(place: &Expr) -> Option<SmolStr> {
    match &place.kind {
        ExprKind::Name(name) => Some(name.clone()),
        ExprKind::Field(base, _) | ExprKind::Index(base, _) => root(base),
        _ => None,
    }
}

/// Returns the variables that statements assign or pass to functions that change them.
pub(super) fn assigned(stmts: &[Stmt], functions: &[ClkFunction]) -> Vec<SmolStr> {
    let mut names = vec![];
    for stmt in stmts {
        match &stmt.kind {
            StmtKind::Assign { place, value, .. } => {
                names.extend(root(place));
                names.extend(passed(value, functions));
            }
            StmtKind::Expr(value) | StmtKind::Declare { value: Some(value), .. } => {
                names.extend(passed(value, functions));
            }
            StmtKind::If { then, otherwise, .. } => {
                names.extend(assigned(then, functions));
                names.extend(assigned(otherwise, functions));
            }
            StmtKind::While { body, .. } | StmtKind::Loop(body) | StmtKind::For { body, .. } => {
                names.extend(assigned(body, functions));
            }
            _ => {}
        }
    }
    names
}

/// Returns the variables that a call may change.
fn passed(value: &Expr, functions: &[ClkFunction]) -> Vec<SmolStr> {
    let ExprKind::Call(name, args) = &value.kind else { return vec![] };
    let Some(function) = functions.iter().find(|function| function.name == *name) else { return vec![] };
    let changed = function.params.iter().zip(args).filter(|(param, _)| param.inout);
    changed.filter_map(|(_, arg)| root(arg)).collect()
}
