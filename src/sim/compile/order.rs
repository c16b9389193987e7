//! Schedules expressions: pure arithmetic with a single use moves down to that use, past other `Let`s only, so that
//! chains of operators become adjacent and can be fused, and live ranges are short. Reads, loads and ops that can fault
//! are not moved.

use rustc_hash::FxHashMap;

use clk_ir::def::*;

/// Returns the function with its `Let`s rescheduled.
pub(crate) fn reorder(mut f: Function) -> Function {
    let mut uses: FxHashMap<ExprId, u32> = FxHashMap::default();
    clk_ir::visit::each_stmt(&f.body, &mut |stmt| {
        let mut count = |e| *uses.entry(e).or_default() += 1;
        match &stmt.kind {
            StmtKind::Let(e) => f.exprs[*e].kind.operands(count),
            kind => kind.operands(&mut count),
        }
    });
    let mut body = std::mem::take(&mut f.body);
    EvaluationOrder { f: &f, uses: &uses }.block(&mut body);
    f.body = body;
    f
}

struct EvaluationOrder<'a> {
    f: &'a Function,
    uses: &'a FxHashMap<ExprId, u32>,
}

impl EvaluationOrder<'_> {
    fn block(&self, block: &mut Block) {
        let mut waiting: Vec<(ExprId, Stmt)> = vec![];
        let mut done = Vec::with_capacity(block.len());
        for mut stmt in std::mem::take(block) {
            match &stmt.kind {
                StmtKind::Let(e) if self.can_wait(*e) => {
                    waiting.push((*e, stmt));
                    continue;
                }
                StmtKind::Let(e) => {
                    let e = *e;
                    self.release_operands(e, &mut waiting, &mut done);
                }
                kind => {
                    // Operands of this statement are evaluated last.
                    let mut used = vec![];
                    kind.operands(|o| used.push(o));
                    let (later, now): (Vec<_>, Vec<_>) =
                        std::mem::take(&mut waiting).into_iter().partition(|(e, _)| self.feeds(*e, &used));
                    let mut rest = later;
                    for (e, stmt) in now {
                        self.release_operands(e, &mut rest, &mut done);
                        done.push(stmt);
                    }
                    while let Some((e, stmt)) = take_first(&mut rest) {
                        self.release_operands(e, &mut rest, &mut done);
                        done.push(stmt);
                    }
                }
            }
            for inner in stmt.kind.blocks_mut() {
                self.block(inner);
            }
            done.push(stmt);
        }
        done.extend(waiting.into_iter().map(|(_, stmt)| stmt));
        *block = done;
    }

    fn feeds(&self, e: ExprId, used: &[ExprId]) -> bool {
        used.contains(&e)
    }

    fn can_wait(&self, e: ExprId) -> bool {
        let expr = &self.f.exprs[e];
        let pure = match &expr.kind {
            ExprKind::Binary { op, .. } => {
                expr.ty.scalar().is_float() && !matches!(op, BinOp::Rem | BinOp::Pow) && !op.is_comparison()
            }
            _ => false,
        };
        pure && self.uses.get(&e) == Some(&1)
    }

    /// Emits the pending operands of an expression, recursively.
    fn release_operands(&self, e: ExprId, waiting: &mut Vec<(ExprId, Stmt)>, done: &mut Block) {
        let mut operands = vec![];
        self.f.exprs[e].kind.operands(|o| operands.push(o));
        for operand in operands {
            if let Some(at) = waiting.iter().position(|(w, _)| *w == operand) {
                let (e, stmt) = waiting.remove(at);
                self.release_operands(e, waiting, done);
                done.push(stmt);
            }
        }
    }
}

fn take_first(list: &mut Vec<(ExprId, Stmt)>) -> Option<(ExprId, Stmt)> {
    if list.is_empty() { None } else { Some(list.remove(0)) }
}
