//! Recognizes tree reductions of shared arrays.

use super::*;
use crate::events::ReportTree;
use crate::tree::{CombineOp, tree};
use clk_scalar::Scalar;
use clk_scalar::ops::BarrierKind;

/// `while d > 0 { if t < d { s[t] = s[t] joint s[t + d] } barrier() d /= 2 }`
struct TreeReduction {
    distance: LocalId,
    memory: MemId,
    joint: CombineOp,
    value: ExprId,
}

impl<'a> KernelCompiler<'a> {
    /// Emits, in front of such a loop, the op that runs all its iterations; returns the position of its jump past the
    /// loop, to be patched.
    pub fn tree(&mut self, label: Label, body: &[Stmt]) -> Option<usize> {
        let found = self.find_tree(label, body)?;
        let [CompiledValue::Reg(a)] = *self.values.locals[found.distance.index()].as_slice() else {
            return None;
        };
        let memory = &self.f.memories[found.memory];
        let [leaf] = memory.layout.leaves.as_slice() else {
            return None;
        };
        let Ty::Scalar(scalar) = leaf.ty else {
            return None;
        };
        let plain = memory.space == MemorySpace::Shared && memory.layout.size == 4 && memory.extents.len() == 1;
        if !plain || !self.is_uniform_reg(a) {
            return None;
        }
        let overflows = self.tables.events.checks.arithmetic && !self.facts.exact.contains(&found.value);
        let run = tree(found.joint, scalar, self.isa, overflows, self.tables.events.checks.nan)?;
        if self.is_observed() {
            let report = self.pick::<ReportTree>();
            self.emit(report, nothing());
        }
        Some(self.emit_jump(run, Op { a, y: found.memory.index() as u32, ..nothing() }))
    }

    /// After the loop behind the op at `tree` has been written: gives the event op in front of it the loop's access
    /// events.
    pub(crate) fn report_tree(&mut self, tree: usize) {
        if !self.is_observed() {
            return;
        }
        let notes = self.touches(tree + 1);
        match *notes.as_slice() {
            // The array is not looked at.
            [] => (self.writer.ops[tree - 1].x, self.writer.ops[tree - 1].c) = (0, 0),
            [a, b, c] if (b, c) == (a + 1, a + 2) => {
                (self.writer.ops[tree - 1].x, self.writer.ops[tree - 1].c) = (a, 3)
            }
            _ => {}
        }
    }

    fn find_tree(&mut self, label: Label, body: &[Stmt]) -> Option<TreeReduction> {
        let [read, more, exit, less, step, barrier, half, write] = body else {
            return None;
        };
        let (&StmtKind::Let(d), &StmtKind::Let(more)) = (&read.kind, &more.kind) else {
            return None;
        };
        let (&StmtKind::Let(less), &StmtKind::Let(half)) = (&less.kind, &half.kind) else {
            return None;
        };
        let ExprKind::Read(distance) = self.f.exprs[d].kind else {
            return None;
        };
        let ends = match &exit.kind {
            StmtKind::If { cond, then, other } => {
                let leaves = matches!(other.as_slice(), [Stmt { kind: StmtKind::Break(l), .. }] if *l == label);
                *cond == more && then.is_empty() && leaves
            }
            _ => false,
        };
        let waits = matches!(barrier.kind, StmtKind::Barrier { kind: BarrierKind::Block, .. });
        let writes = matches!(write.kind, StmtKind::Write { local, value } if local == distance && value == half);
        let word = self.f.exprs[d].ty == Ty::Scalar(Scalar::I32);
        if !(ends && waits && writes && word && self.is_positive(more, d) && self.is_half(half, d)) {
            return None;
        }
        let StmtKind::If { cond, then, other } = &step.kind else {
            return None;
        };
        let ExprKind::Binary { op: BinOp::Lt, left, right } = self.f.exprs[less].kind else {
            return None;
        };
        if *cond != less || !other.is_empty() || right != d || !self.is_thread(left) {
            return None;
        }
        let (memory, joint, value) = self.find_step(then, d)?;
        Some(TreeReduction { distance, memory, joint, value })
    }

    /// Matches `s[t] = s[t] joint s[t + d]` and nothing else.
    fn find_step(&mut self, body: &[Stmt], d: ExprId) -> Option<(MemId, CombineOp, ExprId)> {
        let f = self.f;
        let [lets @ .., Stmt { kind: StmtKind::Store { place, value, .. }, .. }] = body else {
            return None;
        };
        let (value, defining) = self.computed_value(*value);
        let (joint, left, right) = match &f.exprs[value].kind {
            ExprKind::Binary { op, left, right } => (CombineOp::Binary(*op), *left, *right),
            ExprKind::Math { function, args } => match args.as_slice() {
                &[left, right] => (CombineOp::Math(*function), left, right),
                _ => return None,
            },
            _ => return None,
        };
        let place_of = |e: ExprId| match &f.exprs[e].kind {
            ExprKind::Load { place, .. } => Some(place),
            _ => None,
        };
        let (near, far) = (place_of(left)?, place_of(right)?);
        let (&[to], &[from], &[other]) = (&*place.indices, &*near.indices, &*far.indices) else {
            return None;
        };
        let ExprKind::Binary { op: BinOp::Add, left: p, right: q } = f.exprs[other].kind else {
            return None;
        };
        let same = near.memory == place.memory && far.memory == place.memory;
        let apart = (self.is_thread(p) && q == d) || (self.is_thread(q) && p == d);
        let known: Vec<ExprId> = [value, left, right, other].into_iter().chain(defining).collect();
        let is_known = |stmt: &Stmt| matches!(stmt.kind, StmtKind::Let(e) if known.contains(&e));
        let alone = lets.len() == known.len() && lets.iter().all(is_known);
        let fits = same && apart && alone && self.is_thread(to) && self.is_thread(from);
        fits.then_some((place.memory, joint, value))
    }

    /// Returns the value whose NaNs a selection gives the defined bits ([`nan_bits`]), and the expressions that do so.
    fn computed_value(&self, e: ExprId) -> (ExprId, Vec<ExprId>) {
        if let ExprKind::Select { cond, then, other } = self.f.exprs[e].kind
            && self.f.exprs[cond].kind == (ExprKind::Binary { op: BinOp::Ne, left: other, right: other })
            && self.constant(then) == Some(self.f.exprs[e].ty.scalar().canonical_nan())
        {
            return (other, vec![cond, e]);
        }
        (e, vec![])
    }

    fn constant(&self, e: ExprId) -> Option<u64> {
        match self.f.exprs[e].kind {
            ExprKind::Const(bits) => Some(bits),
            _ => None,
        }
    }

    /// Matches `d > 0`.
    fn is_positive(&self, e: ExprId, d: ExprId) -> bool {
        match self.f.exprs[e].kind {
            ExprKind::Binary { op: BinOp::Gt, left, right } => left == d && self.constant(right) == Some(0),
            ExprKind::Binary { op: BinOp::Ge, left, right } => left == d && self.constant(right) == Some(1),
            _ => false,
        }
    }

    /// Matches `d / 2` or `d >> 1`.
    fn is_half(&self, e: ExprId, d: ExprId) -> bool {
        match self.f.exprs[e].kind {
            ExprKind::Binary { op: BinOp::Div, left, right } => left == d && self.constant(right) == Some(2),
            ExprKind::Binary { op: BinOp::Shr, left, right } => left == d && self.constant(right) == Some(1),
            _ => false,
        }
    }

    /// Returns whether a value is the thread's index along x.
    fn is_thread(&mut self, e: ExprId) -> bool {
        let known = self.f.exprs[e].kind.is_free() || self.values.by_expr.contains_key(&e);
        let first = |affine: &state::CompiledAffine| {
            affine.base == state::ZERO
                && affine.coef == [CompiledValue::Const(1), state::ZERO, state::ZERO, state::ZERO]
        };
        known && matches!(self.value(e).as_slice(), [CompiledValue::Affine(affine)] if first(affine))
    }
}
