//! If-conversion: small branches become selects. `if c { $x = a } else { $x = b }` becomes `$x = select c, a, b`.
//!
//! All threads then compute both sides, so the branches may only contain reads and writes of locals, and cheap
//! operations that cannot fault. A select needs no lane mask, and costs less than a jump.

use rustc_hash::FxHashMap;

use super::edit::{self, FaultPredicate, may_fault, may_fault_checked};
use clk_base::source::Span;
use clk_base::stop;
use clk_ir::def::*;

/// The maximum total cost of both branches, in operations.
const MAX_OPERATIONS: usize = 12;
const MAX_WRITES: usize = 4;

pub(crate) fn run(module: &mut Module) {
    run_with(module, may_fault);
}

/// Like [`run`], but for launches with checks, where more operations can fault.
pub(crate) fn run_checked(module: &mut Module) {
    run_with(module, may_fault_checked);
}

fn run_with(module: &mut Module, faults: FaultPredicate) {
    for (_, function) in module.functions.iter_mut() {
        let body = std::mem::take(&mut function.body);
        function.body = block(function, body, faults);
    }
}

fn block(function: &mut Function, stmts: Block, faults: FaultPredicate) -> Block {
    let mut out = Vec::with_capacity(stmts.len());
    for mut stmt in stmts {
        stop::poll();
        for inner in stmt.kind.blocks_mut() {
            *inner = block(function, std::mem::take(inner), faults);
        }
        match stmt.kind {
            StmtKind::If { cond, then, other } if is_convertible(function, &then, &other, faults) => {
                convert(function, cond, then, other, stmt.span, &mut out);
            }
            _ => out.push(stmt),
        }
    }
    out
}

/// Returns the last write of a branch to each local, in order.
fn last_writes(block: &Block) -> Vec<(LocalId, ExprId)> {
    let mut out: Vec<(LocalId, ExprId)> = Vec::new();
    for stmt in block {
        if let StmtKind::Write { local, value } = stmt.kind {
            out.retain(|(l, _)| *l != local);
            out.push((local, value));
        }
    }
    out
}

fn is_convertible(function: &Function, then: &Block, other: &Block, faults: FaultPredicate) -> bool {
    let (Some(a), Some(b)) = (branch_cost(function, then, faults), branch_cost(function, other, faults)) else {
        return false;
    };
    let mut locals: Vec<LocalId> =
        last_writes(then).into_iter().chain(last_writes(other)).map(|(local, _)| local).collect();
    locals.sort();
    locals.dedup();
    a + b <= MAX_OPERATIONS && (1..=MAX_WRITES).contains(&locals.len())
}

/// Returns the cost of a branch; `None` if it contains anything that cannot be converted.
fn branch_cost(function: &Function, block: &Block, faults: FaultPredicate) -> Option<usize> {
    let mut written = FxHashMap::default();
    let mut count = 0;
    for stmt in block {
        match stmt.kind {
            StmtKind::Let(id) => {
                let kind = &function.exprs[id].kind;
                if let ExprKind::Read(local) = kind {
                    // A read of a local that the branch has written is not converted now. `forward_locals` removes such
                    // reads before this pass runs again.
                    if written.contains_key(local) {
                        return None;
                    }
                } else if !kind.is_pure() || faults(function, id) {
                    return None;
                }
                count += operation_cost(function, id);
            }
            StmtKind::Write { local, .. } => {
                written.insert(local, ());
            }
            _ => return None,
        }
    }
    Some(count)
}

fn operation_cost(function: &Function, id: ExprId) -> usize {
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
    let (after_then, after_other) = (last_writes(&then), last_writes(&other));
    let is_let = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Let(_));
    out.extend(then.into_iter().filter(is_let));
    out.extend(other.into_iter().filter(is_let));
    let mut locals: Vec<LocalId> = after_then.iter().map(|(local, _)| *local).collect();
    locals.extend(after_other.iter().map(|(local, _)| *local).filter(|l| !after_then.iter().any(|(t, _)| t == l)));
    let find = |list: &[(LocalId, ExprId)], local| list.iter().find(|(l, _)| *l == local).map(|(_, value)| *value);
    let mut stores = Vec::new();
    for local in locals {
        let ty = function.locals[local].ty;
        let mut current_value = || {
            let id = edit::push(function, ExprKind::Read(local), ty, span);
            out.push(Stmt { kind: StmtKind::Let(id), span });
            id
        };
        let then = find(&after_then, local).unwrap_or_else(&mut current_value);
        let other = find(&after_other, local).unwrap_or_else(&mut current_value);
        let value = edit::push(function, ExprKind::Select { cond, then, other }, ty, span);
        stores.push((local, value));
    }
    // All selects precede all writes, because a value may be a read of a local that is written here.
    out.extend(stores.iter().map(|&(_, value)| Stmt { kind: StmtKind::Let(value), span }));
    out.extend(stores.iter().map(|&(local, value)| Stmt { kind: StmtKind::Write { local, value }, span }));
}
