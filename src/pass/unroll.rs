//! Loop unrolling for small known trip counts, if the source requests it or if the counter indexes a local array: with constant
//! indices the array can become registers (`scalarise`).

use rustc_hash::{FxHashMap, FxHashSet};

use super::dead::trip_count;
use super::edit::{self, breaks, integer_of, mentions, size};
use crate::base::stop;
use crate::ir::def::*;
use crate::ir::visit::{each_stmt, each_stmt_mut};
use crate::lang::scalar::Value;

/// The largest number of statements that one loop may become.
const MAX_SIZE: usize = 2048;
/// The largest number of statements that all loops of a function together may add.
const MAX_TOTAL: usize = 16_384;
/// The largest unrolled size of a loop that the source does not ask to unroll and that indexes no local array.
const TINY: usize = 32;

pub(crate) fn run(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let body = std::mem::take(&mut function.body);
        let labels = edit::next_label(&body);
        let mut unroll = Unroller { function, labels, budget: MAX_TOTAL };
        let body = unroll.block(body);
        function.body = body;
    }
}

struct Unroller<'a> {
    function: &'a mut Function,
    labels: u32,
    budget: usize,
}

impl Unroller<'_> {
    /// Outer loops first: the bounds of inner ones may then be constants.
    fn block(&mut self, block: Block) -> Block {
        let mut out = Vec::with_capacity(block.len());
        for mut stmt in block {
            if let Some(iterations) = self.iterations(&stmt.kind) {
                stop::poll();
                let iterations = self.unrolled(stmt, iterations);
                out.extend(self.block(iterations));
                continue;
            }
            for inner in stmt.kind.blocks_mut() {
                *inner = self.block(std::mem::take(inner));
            }
            out.push(stmt);
        }
        out
    }

    /// Returns the counter's values, if the loop should be unrolled.
    fn iterations(&mut self, kind: &StmtKind) -> Option<Vec<Value>> {
        let StmtKind::For { local, start, end, step, inclusive, unroll, body, .. } = kind else { return None };
        let count = usize::try_from(trip_count(self.function, *start, *end, *step, *inclusive)?).ok()?;
        let grown = size(body).saturating_add(1).saturating_mul(count);
        let wanted = match unroll {
            Unroll::Never => false,
            Unroll::Full => grown <= MAX_SIZE,
            Unroll::By(n) => count <= *n as usize && grown <= MAX_SIZE,
            Unroll::Auto => grown <= TINY || (grown <= MAX_SIZE && self.indexes_local(body, *local)),
        };
        if !wanted || grown > self.budget {
            return None;
        }
        self.budget -= grown;
        let (start, step) = (integer_of(self.function, *start)?, integer_of(self.function, *step)?);
        let scalar = self.function.locals[*local].ty.scalar();
        (0..count as i128).map(|iteration| Value::from_integer(scalar, start + iteration * step)).collect()
    }

    /// Returns whether an index into a local array, or into one of constants, depends on the counter.
    fn indexes_local(&self, body: &Block, counter: LocalId) -> bool {
        let mut from: FxHashSet<ExprId> = FxHashSet::default();
        let mut found = false;
        let mut place = |place: &Place, from: &FxHashSet<ExprId>| {
            let space = self.function.memories[place.memory].space;
            let local = matches!(space, Space::Local | Space::Constant);
            found |= local && place.indices.iter().any(|index| from.contains(index));
        };
        each_stmt(body, &mut |stmt| match &stmt.kind {
            StmtKind::Let(id) => {
                let kind = &self.function.exprs[*id].kind;
                let mut depends = *kind == ExprKind::Read(counter);
                kind.operands(|operand| depends |= from.contains(&operand));
                if depends && kind.is_pure() || *kind == ExprKind::Read(counter) {
                    from.insert(*id);
                }
                if let ExprKind::Load { place: p, .. } = kind {
                    place(p, &from);
                }
            }
            StmtKind::Store { place: p, .. } => place(p, &from),
            _ => {}
        });
        found
    }

    fn unrolled(&mut self, stmt: Stmt, iterations: Vec<Value>) -> Block {
        let span = stmt.span;
        let StmtKind::For { label, local, body, .. } = stmt.kind else { return vec![stmt] };
        let continues = mentions(&body, label);
        let leaves = breaks(&body, label);
        let mut out = Vec::new();
        for value in iterations {
            let start = edit::constant(self.function, value);
            out.push(Stmt { kind: StmtKind::Write { local, value: start }, span });
            let mut copy = self.copy(&body);
            if continues {
                let next = self.label();
                each_stmt_mut(&mut copy, &mut |stmt| {
                    if stmt.kind == StmtKind::Continue(label) {
                        stmt.kind = StmtKind::Break(next);
                    }
                });
                copy = vec![Stmt { kind: StmtKind::Block { label: next, body: copy }, span }];
            }
            out.extend(copy);
        }
        if leaves { vec![Stmt { kind: StmtKind::Block { label, body: out }, span }] } else { out }
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// Copies a block with new expressions and labels.
    fn copy(&mut self, block: &Block) -> Block {
        let mut copy = block.clone();
        let mut exprs: FxHashMap<ExprId, ExprId> = FxHashMap::default();
        let mut labels: FxHashMap<Label, Label> = FxHashMap::default();
        each_stmt_mut(&mut copy, &mut |stmt| {
            stmt.kind.operands_mut(|operand| *operand = *exprs.get(operand).unwrap_or(operand));
            if let StmtKind::Let(id) = &mut stmt.kind {
                let expr = self.function.exprs[*id].clone();
                if !expr.kind.is_free() {
                    let mut kind = expr.kind;
                    kind.operands_mut(|operand| *operand = *exprs.get(operand).unwrap_or(operand));
                    let new = edit::push(self.function, kind, expr.ty, self.function.spans[*id]);
                    exprs.insert(*id, new);
                    *id = new;
                }
            }
            stmt.kind.results_mut(|id| {
                let ty = self.function.exprs[*id].ty;
                let new = edit::push(self.function, ExprKind::Result, ty, self.function.spans[*id]);
                exprs.insert(*id, new);
                *id = new;
            });
            match &mut stmt.kind {
                StmtKind::For { label, .. } | StmtKind::Loop { label, .. } | StmtKind::Block { label, .. } => {
                    let new = self.label();
                    labels.insert(*label, new);
                    *label = new;
                }
                StmtKind::Break(label) | StmtKind::Continue(label) => {
                    *label = *labels.get(label).unwrap_or(label);
                }
                _ => {}
            }
        });
        copy
    }
}
