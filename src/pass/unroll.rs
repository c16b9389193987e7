//! Loop unrolling: unrolls loops with a small, known number of iterations, if the source requests it or if the counter
//! indexes a local array. The indices then become constants, so `scalarize` can replace the array by registers.

use rustc_hash::{FxHashMap, FxHashSet};

use super::dead_code::trip_count;
use super::edit::{self, has_break, has_jump_to, stmt_count};
use clk_base::stop;
use clk_ir::def::*;
use clk_ir::visit::{each_stmt, each_stmt_mut};
use clk_scalar::ScalarValue;

/// The maximum number of statements of a loop after unrolling.
const MAX_SIZE: usize = 2048;
/// The maximum number of statements that unrolling may add to a function.
const MAX_TOTAL: usize = 16_384;
/// The maximum number of statements after unrolling, for a loop that the source does not request to unroll and whose
/// counter indexes no local array.
const MAX_UNREQUESTED_SIZE: usize = 32;

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
    /// Unrolls outer loops first, because that may turn the bounds of inner loops into constants.
    fn block(&mut self, block: Block) -> Block {
        let mut out = Vec::with_capacity(block.len());
        for mut stmt in block {
            if let Some(iterations) = self.counter_values(&stmt.kind) {
                stop::poll();
                let iterations = self.unroll_loop(stmt, iterations);
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

    /// Returns the values of the counter if the loop should be unrolled.
    fn counter_values(&mut self, kind: &StmtKind) -> Option<Vec<ScalarValue>> {
        let StmtKind::For { local, start, end, step, inclusive, unroll, body, .. } = kind else { return None };
        let count = usize::try_from(trip_count(self.function, *start, *end, *step, *inclusive)?).ok()?;
        let unrolled_size = stmt_count(body).saturating_add(1).saturating_mul(count);
        let should_unroll = match unroll {
            Unroll::Never => false,
            Unroll::Full => unrolled_size <= MAX_SIZE,
            Unroll::By(n) => count <= *n as usize && unrolled_size <= MAX_SIZE,
            Unroll::Auto => {
                unrolled_size <= MAX_UNREQUESTED_SIZE
                    || (unrolled_size <= MAX_SIZE && self.indexes_array_by(body, *local))
            }
        };
        if !should_unroll || unrolled_size > self.budget {
            return None;
        }
        self.budget -= unrolled_size;
        let (start, step) = (self.function.const_integer(*start)?, self.function.const_integer(*step)?);
        let scalar = self.function.locals[*local].ty.scalar();
        (0..count as i128).map(|iteration| ScalarValue::from_integer(scalar, start + iteration * step)).collect()
    }

    /// Returns whether an index into a local or constant array depends on the counter.
    fn indexes_array_by(&self, body: &Block, counter: LocalId) -> bool {
        let mut counter_dependent: FxHashSet<ExprId> = FxHashSet::default();
        let mut indexes_array = false;
        let mut place = |place: &Place, counter_dependent: &FxHashSet<ExprId>| {
            let space = self.function.memories[place.memory].space;
            let local = matches!(space, MemorySpace::Local | MemorySpace::Constant);
            indexes_array |= local && place.indices.iter().any(|index| counter_dependent.contains(index));
        };
        each_stmt(body, &mut |stmt| match &stmt.kind {
            StmtKind::Let(id) => {
                let kind = &self.function.exprs[*id].kind;
                let mut depends = *kind == ExprKind::Read(counter);
                kind.operands(|operand| depends |= counter_dependent.contains(&operand));
                if depends && kind.is_pure() || *kind == ExprKind::Read(counter) {
                    counter_dependent.insert(*id);
                }
                if let ExprKind::Load { place: p, .. } = kind {
                    place(p, &counter_dependent);
                }
            }
            StmtKind::Store { place: p, .. } => place(p, &counter_dependent),
            _ => {}
        });
        indexes_array
    }

    fn unroll_loop(&mut self, stmt: Stmt, iterations: Vec<ScalarValue>) -> Block {
        let span = stmt.span;
        let StmtKind::For { label, local, body, .. } = stmt.kind else { return vec![stmt] };
        let continues = has_jump_to(&body, label);
        let has_break = has_break(&body, label);
        let mut out = Vec::new();
        for value in iterations {
            let start = edit::constant(self.function, value);
            out.push(Stmt { kind: StmtKind::Write { local, value: start }, span });
            let mut copy = self.copy_block(&body);
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
        if has_break { vec![Stmt { kind: StmtKind::Block { label, body: out }, span }] } else { out }
    }

    fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// Copies a block, with new ids for its expressions and labels.
    fn copy_block(&mut self, block: &Block) -> Block {
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
