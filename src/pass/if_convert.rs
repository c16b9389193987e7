//! If-conversion: small branches become selects. `if c { $x = a } else { $x = b }` becomes `$x = select c, a, b`.
//!
//! Both sides are then computed by all threads, so they may only contain cheap operations that cannot fault, reads, and writes of
//! locals. This avoids masking lanes, and a select costs less than a jump.

use rustc_hash::FxHashMap;

use super::edit::{self, Faults, may_fault, may_fault_checked};
use crate::base::source::Span;
use crate::base::stop;
use crate::ir::def::*;

/// The largest cost of both sides together.
const MAX_OPERATIONS: usize = 12;
const MAX_WRITES: usize = 4;

pub(crate) fn run(module: &mut Module) {
    run_with(module, may_fault);
}

/// The variant for runs with checks, in which more operations can fault.
pub(crate) fn run_checked(module: &mut Module) {
    run_with(module, may_fault_checked);
}

fn run_with(module: &mut Module, faults: Faults) {
    for (_, function) in module.functions.iter_mut() {
        let body = std::mem::take(&mut function.body);
        function.body = block(function, body, faults);
    }
}

fn block(function: &mut Function, stmts: Block, faults: Faults) -> Block {
    let mut out = Vec::with_capacity(stmts.len());
    for mut stmt in stmts {
        stop::poll();
        for inner in stmt.kind.blocks_mut() {
            *inner = block(function, std::mem::take(inner), faults);
        }
        match stmt.kind {
            StmtKind::If { cond, then, other } if fits(function, &then, &other, faults) => {
                convert(function, cond, then, other, stmt.span, &mut out);
            }
            _ => out.push(stmt),
        }
    }
    out
}

/// Returns the last write of a branch to each local, in order.
fn writes(block: &Block) -> Vec<(LocalId, ExprId)> {
    let mut out: Vec<(LocalId, ExprId)> = Vec::new();
    for stmt in block {
        if let StmtKind::Write { local, value } = stmt.kind {
            out.retain(|(l, _)| *l != local);
            out.push((local, value));
        }
    }
    out
}

fn fits(function: &Function, then: &Block, other: &Block, faults: Faults) -> bool {
    let (Some(a), Some(b)) = (operations(function, then, faults), operations(function, other, faults)) else {
        return false;
    };
    let mut locals: Vec<LocalId> = writes(then).into_iter().chain(writes(other)).map(|(local, _)| local).collect();
    locals.sort();
    locals.dedup();
    a + b <= MAX_OPERATIONS && (1..=MAX_WRITES).contains(&locals.len())
}

/// Returns the cost of a branch that contains only such operations and writes; `None` for others.
fn operations(function: &Function, block: &Block, faults: Faults) -> Option<usize> {
    let mut written = FxHashMap::default();
    let mut count = 0;
    for stmt in block {
        match stmt.kind {
            StmtKind::Let(id) => {
                let kind = &function.exprs[id].kind;
                if let ExprKind::Read(local) = kind {
                    // A value written in this branch; `forward` has replaced it, or will before the next run of this pass.
                    if written.contains_key(local) {
                        return None;
                    }
                } else if !kind.is_pure() || faults(function, id) {
                    return None;
                }
                count += cost(function, id);
            }
            StmtKind::Write { local, .. } => {
                written.insert(local, ());
            }
            _ => return None,
        }
    }
    Some(count)
}

fn cost(function: &Function, id: ExprId) -> usize {
    let expr = &function.exprs[id];
    let lanes = expr.ty.lanes() as usize;
    match &expr.kind {
        ExprKind::Read(_) | ExprKind::Extract { .. } | ExprKind::Compose(_) | ExprKind::Bitcast(_) => 0,
        ExprKind::Binary { op: BinOp::Div | BinOp::Rem, .. } => 6 * lanes,
        ExprKind::Binary { op: BinOp::Pow, .. } => 100,
        ExprKind::Math { function, .. } => function.row().cost * lanes,
        _ => lanes,
    }
}

fn convert(function: &mut Function, cond: ExprId, then: Block, other: Block, span: Span, out: &mut Block) {
    let (after_then, after_other) = (writes(&then), writes(&other));
    let is_let = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Let(_));
    out.extend(then.into_iter().filter(is_let));
    out.extend(other.into_iter().filter(is_let));
    let mut locals: Vec<LocalId> = after_then.iter().map(|(local, _)| *local).collect();
    locals.extend(after_other.iter().map(|(local, _)| *local).filter(|l| !after_then.iter().any(|(t, _)| t == l)));
    let find = |list: &[(LocalId, ExprId)], local| list.iter().find(|(l, _)| *l == local).map(|(_, value)| *value);
    let mut stores = Vec::new();
    for local in locals {
        let ty = function.locals[local].ty;
        let mut held = || {
            let id = edit::push(function, ExprKind::Read(local), ty, span);
            out.push(Stmt { kind: StmtKind::Let(id), span });
            id
        };
        let then = find(&after_then, local).unwrap_or_else(&mut held);
        let other = find(&after_other, local).unwrap_or_else(&mut held);
        let value = edit::push(function, ExprKind::Select { cond, then, other }, ty, span);
        stores.push((local, value));
    }
    // All values precede all writes: a value may be a read of another local.
    out.extend(stores.iter().map(|&(_, value)| Stmt { kind: StmtKind::Let(value), span }));
    out.extend(stores.iter().map(|&(local, value)| Stmt { kind: StmtKind::Write { local, value }, span }));
}
