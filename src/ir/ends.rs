//! Finds how a polling loop can end without other threads: counters and timeouts.
//!
//! Input: the body of a loop. Output: the locals that advance by themselves (`n += 1`) and are compared by a condition that alone
//! decides whether the loop is left; while one of them changes, the loop makes progress toward its end. A comparison that the
//! local moves away from (`n < limit` leaves, and `n` grows) does not count. Conditions that leave the loop only together with
//! others (`n > limit && flag == 0`) are listed separately, since they guarantee nothing.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::def::*;
use crate::ir::visit::each_stmt;
use crate::lang::ops::UnaryOp;

/// The counters that can end a loop.
#[derive(Default)]
pub struct Ends {
    /// Locals that end the loop by themselves.
    pub alone: Vec<LocalId>,
    /// Locals that end it only together with other conditions.
    pub along: Vec<LocalId>,
}

/// The deepest nesting of expressions that is searched.
const DEEP: u32 = 16;

pub fn ends(f: &Function, label: Label, body: &Block) -> Ends {
    let mut search =
        Search { f, body, inner: FxHashSet::default(), writes: FxHashMap::default(), found: Ends::default() };
    each_stmt(body, &mut |stmt| match &stmt.kind {
        StmtKind::Write { local, value } => search.writes.entry(*local).or_default().push(*value),
        StmtKind::Loop { label, .. } | StmtKind::For { label, .. } | StmtKind::Block { label, .. } => {
            search.inner.insert(*label);
        }
        _ => {}
    });
    search.inner.remove(&label);
    search.block(body, true);
    let Ends { mut alone, mut along } = search.found;
    for found in [&mut alone, &mut along] {
        found.sort_unstable();
        found.dedup();
    }
    Ends { alone, along }
}

struct Search<'a> {
    f: &'a Function,
    body: &'a Block,
    /// Labels of the loops and blocks inside of the loop.
    inner: FxHashSet<Label>,
    /// The values that the loop writes to each local.
    writes: FxHashMap<LocalId, Vec<ExprId>>,
    found: Ends,
}

impl Search<'_> {
    /// Searches a block of the loop for conditions. `alone`: nothing else decides whether the block is reached, or the loop is
    /// left as well where it is not.
    fn block(&mut self, block: &[Stmt], alone: bool) {
        for stmt in block {
            match &stmt.kind {
                StmtKind::If { cond, then, other } => {
                    let (yes, no) = (self.leaves(then), self.leaves(other));
                    if yes != no {
                        self.condition(*cond, yes, alone, DEEP);
                    }
                    self.block(then, alone && no);
                    self.block(other, alone && yes);
                }
                StmtKind::Block { body, .. } => self.block(body, alone),
                StmtKind::For { body, .. } | StmtKind::Loop { body, .. } => self.block(body, false),
                _ => {}
            }
        }
    }

    /// Returns whether a block ends by leaving the loop.
    fn leaves(&self, block: &[Stmt]) -> bool {
        block.last().is_some_and(|stmt| match &stmt.kind {
            StmtKind::Break(label) => !self.inner.contains(label),
            StmtKind::Return(_) => true,
            StmtKind::If { then, other, .. } => self.leaves(then) && self.leaves(other),
            _ => false,
        })
    }

    /// Records a condition: the loop is left where this expression equals `holds`.
    fn condition(&mut self, cond: ExprId, holds: bool, alone: bool, depth: u32) {
        if depth == 0 {
            return;
        }
        let f = self.f;
        let is = |id: ExprId, value: u64| f.exprs[id].kind == ExprKind::Const(value);
        let deeper = depth - 1;
        match &f.exprs[cond].kind {
            ExprKind::Unary { op: UnaryOp::Not, value } => self.condition(*value, !holds, alone, deeper),
            ExprKind::Binary { op: op @ (BinOp::And | BinOp::Or), left, right } => {
                // For `a || b` to be true one operand suffices, and for `a && b` to be false one does.
                let alone = alone && (*op == BinOp::Or) == holds;
                self.condition(*left, holds, alone, deeper);
                self.condition(*right, holds, alone, deeper);
            }
            ExprKind::Select { cond, then, other } if is(*other, 0) => {
                self.condition(*cond, holds, alone && !holds, deeper);
                self.condition(*then, holds, alone && !holds, deeper);
            }
            ExprKind::Select { cond, then, other } if is(*then, 1) => {
                self.condition(*cond, holds, alone && holds, deeper);
                self.condition(*other, holds, alone && holds, deeper);
            }
            ExprKind::Binary { op, left, right } if op.is_comparison() => {
                let (falls, grows) = match (op, holds) {
                    (BinOp::Lt | BinOp::Le, true) | (BinOp::Gt | BinOp::Ge, false) => (true, false),
                    (BinOp::Gt | BinOp::Ge, true) | (BinOp::Lt | BinOp::Le, false) => (false, true),
                    _ => (true, true),
                };
                self.side(*left, falls, grows, alone);
                self.side(*right, grows, falls, alone);
            }
            ExprKind::Read(flag) => self.flag(*flag, holds, alone, deeper),
            _ => {}
        }
    }

    /// Records a condition on a local `bool`, which leaves the loop where it equals `holds`: follows the values written to it and
    /// the conditions that guard those writes.
    fn flag(&mut self, flag: LocalId, holds: bool, alone: bool, depth: u32) {
        for value in self.writes.get(&flag).cloned().unwrap_or_default() {
            self.condition(value, holds, alone, depth);
        }
        let body = self.body;
        let mut conditions = vec![];
        let sets = |block: &Block| {
            block.iter().any(|stmt| match stmt.kind {
                StmtKind::Write { local, value } => {
                    local == flag && self.f.exprs[value].kind == ExprKind::Const(holds.into())
                }
                _ => false,
            })
        };
        let direct: Vec<*const Stmt> = body.iter().map(std::ptr::from_ref).collect();
        each_stmt(body, &mut |stmt| {
            if let StmtKind::If { cond, then, other } = &stmt.kind {
                let alone = alone && direct.contains(&std::ptr::from_ref(stmt));
                conditions.extend(sets(then).then_some((*cond, true, alone)));
                conditions.extend(sets(other).then_some((*cond, false, alone)));
            }
        });
        for (cond, holds, alone) in conditions {
            self.condition(cond, holds, alone, depth);
        }
    }

    /// Records the locals of one side of a comparison that leaves the loop once that side has fallen (`falls`) or grown (`grows`)
    /// far enough.
    fn side(&mut self, side: ExprId, falls: bool, grows: bool, alone: bool) {
        for local in self.behind(side) {
            if !self.behind_local(local).contains(&local) {
                continue;
            }
            let fits = match self.direction(local) {
                Some(up) if self.f.exprs[side].kind == ExprKind::Read(local) || self.is_next(side, local) => {
                    if up {
                        grows
                    } else {
                        falls
                    }
                }
                _ => true,
            };
            if fits {
                if alone { self.found.alone.push(local) } else { self.found.along.push(local) }
            }
        }
    }

    /// Returns whether `value` is one of the values written to the local, that is, the local's next value.
    fn is_next(&self, value: ExprId, local: LocalId) -> bool {
        self.writes.get(&local).is_some_and(|writes| writes.contains(&value))
    }

    /// Returns whether a local only grows (`true`) or only falls (`false`); `None` unless all its steps are constants of one
    /// sign.
    fn direction(&self, local: LocalId) -> Option<bool> {
        let kind = |id: ExprId| &self.f.exprs[id].kind;
        let step = |id: ExprId| match kind(id) {
            ExprKind::Const(bits) => {
                let scalar = self.f.exprs[id].ty.scalar();
                scalar.is_int().then(|| crate::lang::scalar::Value { ty: scalar, bits: *bits }.as_integer()).flatten()
            }
            _ => None,
        };
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

    /// Returns the locals that a value is computed from, including indirectly by way of values that the loop writes to locals.
    fn behind(&self, value: ExprId) -> FxHashSet<LocalId> {
        let (mut found, mut seen) = (FxHashSet::default(), FxHashSet::default());
        let mut open = vec![value];
        while let Some(id) = open.pop() {
            if !seen.insert(id) {
                continue;
            }
            if let ExprKind::Read(local) = self.f.exprs[id].kind
                && let Some(writes) = self.writes.get(&local)
                && found.insert(local)
            {
                open.extend(writes);
            }
            self.f.exprs[id].kind.operands(|operand| open.push(operand));
        }
        found
    }

    /// As [`Search::behind`], for all values written to a local.
    fn behind_local(&self, local: LocalId) -> FxHashSet<LocalId> {
        let writes = self.writes.get(&local).into_iter().flatten();
        writes.flat_map(|&value| self.behind(value)).collect()
    }
}
