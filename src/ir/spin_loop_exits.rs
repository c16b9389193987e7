//! Finds how a spin loop can exit without an action of another thread: by a counter or a timeout.
//!
//! Input: the body of a loop. Output: the locals that the loop advances by itself (`n += 1`) and compares in an exit
//! condition that suffices to leave the loop. While one of them changes, the loop makes progress. A comparison is
//! ignored if the local moves away from satisfying it (the loop exits if `n < limit`, but `n` grows). Exit conditions
//! that also require another condition (`n > limit && flag == 0`) are listed separately; they do not guarantee an exit.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::def::*;
use crate::visit::each_stmt;
use clk_scalar::ops::UnaryOp;

/// The counters that can end a loop.
#[derive(Default)]
pub struct ExitCounters {
    /// Locals that end the loop on their own.
    pub unconditional: Vec<LocalId>,
    /// Locals that end the loop only if another condition holds as well.
    pub conditional: Vec<LocalId>,
}

/// Conditions nested more deeply are not searched for exit counters.
const MAX_DEPTH: u32 = 16;

pub fn find_exit_counters(f: &Function, label: Label, body: &Block) -> ExitCounters {
    let mut analysis = ExitCounterAnalysis {
        f,
        body,
        inner_labels: FxHashSet::default(),
        writes: FxHashMap::default(),
        counters: ExitCounters::default(),
    };
    each_stmt(body, &mut |stmt| match &stmt.kind {
        StmtKind::Write { local, value } => analysis.writes.entry(*local).or_default().push(*value),
        StmtKind::Loop { label, .. } | StmtKind::For { label, .. } | StmtKind::Block { label, .. } => {
            analysis.inner_labels.insert(*label);
        }
        _ => {}
    });
    analysis.inner_labels.remove(&label);
    analysis.block(body, true);
    let ExitCounters { mut unconditional, mut conditional } = analysis.counters;
    for locals in [&mut unconditional, &mut conditional] {
        locals.sort_unstable();
        locals.dedup();
    }
    ExitCounters { unconditional, conditional }
}

struct ExitCounterAnalysis<'a> {
    f: &'a Function,
    body: &'a Block,
    /// Labels of the loops and blocks nested in the loop.
    inner_labels: FxHashSet<Label>,
    /// The values that the loop writes to each local.
    writes: FxHashMap<LocalId, Vec<ExprId>>,
    counters: ExitCounters,
}

impl ExitCounterAnalysis<'_> {
    /// Searches a block of the loop for exit conditions. `sufficient` is set if every iteration either reaches the
    /// block or exits the loop.
    fn block(&mut self, block: &[Stmt], sufficient: bool) {
        for stmt in block {
            match &stmt.kind {
                StmtKind::If { cond, then, other } => {
                    let (yes, no) = (self.exits_loop(then), self.exits_loop(other));
                    if yes != no {
                        self.record_condition(*cond, yes, sufficient, MAX_DEPTH);
                    }
                    self.block(then, sufficient && no);
                    self.block(other, sufficient && yes);
                }
                StmtKind::Block { body, .. } => self.block(body, sufficient),
                StmtKind::For { body, .. } | StmtKind::Loop { body, .. } => self.block(body, false),
                _ => {}
            }
        }
    }

    /// Returns whether a block ends with a jump out of the loop.
    fn exits_loop(&self, block: &[Stmt]) -> bool {
        block.last().is_some_and(|stmt| match &stmt.kind {
            StmtKind::Break(label) => !self.inner_labels.contains(label),
            StmtKind::Return(_) => true,
            StmtKind::If { then, other, .. } => self.exits_loop(then) && self.exits_loop(other),
            _ => false,
        })
    }

    /// Records the exit counters in a condition. The loop exits if `cond` equals `exit_value`.
    fn record_condition(&mut self, cond: ExprId, exit_value: bool, sufficient: bool, depth: u32) {
        if depth == 0 {
            return;
        }
        let f = self.f;
        let is_constant = |id: ExprId, value: u64| f.exprs[id].kind == ExprKind::Const(value);
        let deeper = depth - 1;
        match &f.exprs[cond].kind {
            ExprKind::Unary { op: UnaryOp::Not, value } => {
                self.record_condition(*value, !exit_value, sufficient, deeper)
            }
            ExprKind::Binary { op: op @ (BinOp::And | BinOp::Or), left, right } => {
                // One operand suffices for `a || b` to be true, and for `a && b` to be false.
                let sufficient = sufficient && (*op == BinOp::Or) == exit_value;
                self.record_condition(*left, exit_value, sufficient, deeper);
                self.record_condition(*right, exit_value, sufficient, deeper);
            }
            ExprKind::Select { cond, then, other } if is_constant(*other, 0) => {
                self.record_condition(*cond, exit_value, sufficient && !exit_value, deeper);
                self.record_condition(*then, exit_value, sufficient && !exit_value, deeper);
            }
            ExprKind::Select { cond, then, other } if is_constant(*then, 1) => {
                self.record_condition(*cond, exit_value, sufficient && exit_value, deeper);
                self.record_condition(*other, exit_value, sufficient && exit_value, deeper);
            }
            ExprKind::Binary { op, left, right } if op.is_comparison() => {
                let (falls, grows) = match (op, exit_value) {
                    (BinOp::Lt | BinOp::Le, true) | (BinOp::Gt | BinOp::Ge, false) => (true, false),
                    (BinOp::Gt | BinOp::Ge, true) | (BinOp::Lt | BinOp::Le, false) => (false, true),
                    _ => (true, true),
                };
                self.record_comparison_side(*left, falls, grows, sufficient);
                self.record_comparison_side(*right, grows, falls, sufficient);
            }
            ExprKind::Read(flag) => self.record_flag(*flag, exit_value, sufficient, deeper),
            _ => {}
        }
    }

    /// Records the exit counters in a condition that is stored in a local `bool`. The loop exits if the local equals
    /// `exit_value`. Follows the values written to the local, and the conditions under which they are written.
    fn record_flag(&mut self, flag: LocalId, exit_value: bool, sufficient: bool, depth: u32) {
        for value in self.writes.get(&flag).cloned().unwrap_or_default() {
            self.record_condition(value, exit_value, sufficient, depth);
        }
        let body = self.body;
        let mut conditions = vec![];
        let sets = |block: &Block| {
            block.iter().any(|stmt| match stmt.kind {
                StmtKind::Write { local, value } => {
                    local == flag && self.f.exprs[value].kind == ExprKind::Const(exit_value.into())
                }
                _ => false,
            })
        };
        let direct: Vec<*const Stmt> = body.iter().map(std::ptr::from_ref).collect();
        each_stmt(body, &mut |stmt| {
            if let StmtKind::If { cond, then, other } = &stmt.kind {
                let sufficient = sufficient && direct.contains(&std::ptr::from_ref(stmt));
                conditions.extend(sets(then).then_some((*cond, true, sufficient)));
                conditions.extend(sets(other).then_some((*cond, false, sufficient)));
            }
        });
        for (cond, exit_value, sufficient) in conditions {
            self.record_condition(cond, exit_value, sufficient, depth);
        }
    }

    /// Adds to [`ExitCounters`] the locals on which one side of an exit condition's comparison depends. If `falls` is
    /// set, the loop exits once this side is small enough; if `grows` is set, once it is large enough. Skips locals
    /// that the loop does not advance, or advances only in the opposite direction.
    fn record_comparison_side(&mut self, side: ExprId, falls: bool, grows: bool, sufficient: bool) {
        for local in self.source_locals(side) {
            if !self.sources_of_local(local).contains(&local) {
                continue;
            }
            let approaches_exit = match self.direction(local) {
                Some(up) if self.f.exprs[side].kind == ExprKind::Read(local) || self.is_next(side, local) => {
                    if up {
                        grows
                    } else {
                        falls
                    }
                }
                _ => true,
            };
            if approaches_exit {
                if sufficient { self.counters.unconditional.push(local) } else { self.counters.conditional.push(local) }
            }
        }
    }

    /// Returns whether the loop writes `value` to the local, so `value` is the local's value in the next iteration.
    fn is_next(&self, value: ExprId, local: LocalId) -> bool {
        self.writes.get(&local).is_some_and(|writes| writes.contains(&value))
    }

    /// Returns `true` if a local only increases, and `false` if it only decreases. `None` unless all its increments are
    /// constants of the same sign.
    fn direction(&self, local: LocalId) -> Option<bool> {
        let kind = |id: ExprId| &self.f.exprs[id].kind;
        let step = |id: ExprId| self.f.const_integer(id);
        let up = |value: &ExprId| match kind(*value) {
            ExprKind::Binary { op: BinOp::Add, left, right } if *kind(*left) == ExprKind::Read(local) => step(*right),
            ExprKind::Binary { op: BinOp::Add, left, right } if *kind(*right) == ExprKind::Read(local) => step(*left),
            ExprKind::Binary { op: BinOp::Sub, left, right } if *kind(*left) == ExprKind::Read(local) => {
                step(*right).map(|n| -n)
            }
            _ => None,
        };
        let mut steps = self.writes.get(&local)?.iter().map(up);
        let first = steps.next()??;
        let same = steps.all(|step| step.is_some_and(|n| (n > 0) == (first > 0) && n != 0));
        (same && first != 0).then_some(first > 0)
    }

    /// Returns the locals that a value depends on, directly or through values that the loop writes to locals.
    fn source_locals(&self, value: ExprId) -> FxHashSet<LocalId> {
        let (mut sources, mut visited) = (FxHashSet::default(), FxHashSet::default());
        let mut open = vec![value];
        while let Some(id) = open.pop() {
            if !visited.insert(id) {
                continue;
            }
            if let ExprKind::Read(local) = self.f.exprs[id].kind
                && let Some(writes) = self.writes.get(&local)
                && sources.insert(local)
            {
                open.extend(writes);
            }
            self.f.exprs[id].kind.operands(|operand| open.push(operand));
        }
        sources
    }

    /// Like [`ExitCounterAnalysis::source_locals`], for all values written to a local.
    fn sources_of_local(&self, local: LocalId) -> FxHashSet<LocalId> {
        let writes = self.writes.get(&local).into_iter().flatten();
        writes.flat_map(|&value| self.source_locals(value)).collect()
    }
}
