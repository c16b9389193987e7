//! Uses of values, for register allocation.
//!
//! Input: a function and the variance of its values. Output: by expression the last statement that uses it, the number
//! of uses, and whether an affine value is needed per lane; by memory, whether its only accesses are integer sums.

use rustc_hash::FxHashMap;

use clk_base::arena::SideTable;
use clk_ir::def::*;
use clk_ir::variance::{StmtNumber, Variance, Variances, is_32_bit_integer};
use clk_ir::visit::each_stmt;
use clk_scalar::Scalar;
use clk_scalar::ops::AtomicOp;

/// Uses by expression.
pub(crate) struct ExprUses {
    /// The last statement that uses it.
    pub last: SideTable<Expr, StmtNumber>,
    pub count: SideTable<Expr, u32>,
    /// Affine, and used by some consumer that needs one value per lane.
    pub spread: SideTable<Expr, bool>,
}

/// Counts uses of expressions, and marks affine values that are needed per lane.
pub(crate) fn uses(f: &Function, variance: &Variances) -> ExprUses {
    let class = |e: ExprId| variance.exprs[e];
    let mut found = ExprUses {
        last: SideTable::filled(&f.exprs, 0),
        count: SideTable::filled(&f.exprs, 0),
        spread: SideTable::filled(&f.exprs, false),
    };
    let mut number = 0;
    each_stmt(&f.body, &mut |stmt| {
        let mut note = |e: ExprId, lanes: bool| {
            found.last[e] = number;
            found.count[e] += 1;
            found.spread[e] |= lanes && class(e) == Variance::Affine;
        };
        match &stmt.kind {
            StmtKind::Let(e) => {
                let affine = class(*e) == Variance::Affine;
                let kind = &f.exprs[*e].kind;
                let by_form = match kind {
                    ExprKind::Load { .. } => true,
                    ExprKind::Binary { op, left, right }
                        if op.is_comparison() && is_32_bit_integer(f.exprs[*left].ty) =>
                    {
                        class(*left).max(class(*right)) <= Variance::Affine
                    }
                    _ => affine,
                };
                kind.operands(|o| note(o, !by_form));
            }
            StmtKind::Store { place, value, .. } => {
                place.indices.iter().for_each(|&i| note(i, false));
                note(*value, true);
            }
            StmtKind::Atomic { place, value, compare, .. } => {
                place.indices.iter().for_each(|&i| note(i, false));
                note(*value, true);
                compare.iter().for_each(|&c| note(c, true));
            }
            kind => kind.operands(|o| note(o, true)),
        }
        number += 1;
    });
    outlive(f, variance, &mut found);
    found
}

/// Returns whether the value may share the registers of its operands because the bits are the same. (Affine values
/// share registers with their operands too.)
pub(crate) fn may_share(kind: &ExprKind) -> bool {
    use ExprKind::*;
    matches!(kind, Extract { .. } | Compose(_) | Bitcast(_) | Convert(_))
}

/// Extends the live range of operands whose registers a result may share to the end of the result's live range.
fn outlive(f: &Function, variance: &Variances, uses: &mut ExprUses) {
    let mut lets = vec![];
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Let(e) = stmt.kind {
            lets.push(e);
        }
    });
    for e in lets.into_iter().rev() {
        let kind = &f.exprs[e].kind;
        if may_share(kind) || variance.exprs[e] == Variance::Affine {
            let last = uses.last[e];
            kind.operands(|o| uses.last[o] = uses.last[o].max(last));
        }
    }
}

/// Returns, by memory, whether its only accesses are atomic additions of 4-byte integers whose results are unused.
pub(crate) fn sums(f: &Function) -> Vec<bool> {
    let mut sums = vec![true; f.memories.len()];
    for (_, expr) in f.exprs.iter() {
        if let ExprKind::Load { place, .. } = &expr.kind {
            sums[place.memory.index()] = false;
        }
    }
    each_stmt(&f.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, .. } => sums[place.memory.index()] = false,
        StmtKind::Atomic { op, place, result, .. } => {
            let leaf = &f.memories[place.memory].layout.leaves[place.leaf as usize];
            let adds = matches!(op, AtomicOp::Add | AtomicOp::Sub);
            let word = matches!(leaf.ty.scalar(), Scalar::I32 | Scalar::U32);
            sums[place.memory.index()] &= adds && word && result.is_none();
        }
        _ => {}
    });
    sums
}

/// Counts the reads and writes of each local.
pub(crate) fn references(stmts: &[Stmt], f: &Function) -> FxHashMap<LocalId, u32> {
    let mut counts = FxHashMap::default();
    each_stmt(stmts, &mut |stmt| {
        let local = match &stmt.kind {
            StmtKind::Write { local, .. } => Some(*local),
            StmtKind::Let(e) => match f.exprs[*e].kind {
                ExprKind::Read(local) => Some(local),
                _ => None,
            },
            _ => None,
        };
        if let Some(local) = local {
            *counts.entry(local).or_insert(0) += 1;
        }
    });
    counts
}
