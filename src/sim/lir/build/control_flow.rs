//! Builds statements. Uniform control flow becomes branches; divergent control flow becomes masks.

use super::affine_form::{COUNTER_LIMIT, FormOperand, FormSymbol, LaneAffine, ZERO};
use super::atomic::AtomicOperands;
use super::*;
use clk_ir::def::{Block, StmtKind};
use clk_ir::variance::Variance;
use clk_ir::visit::each_stmt;
use clk_scalar::ops::BarrierKind;

impl RegionBuilder<'_> {
    /// Creates the locals that the statements write, and initializes them with their values before the region. A local
    /// that varies after any of its writes is a vector throughout the region.
    pub(super) fn enter_locals(&mut self, stmts: &[Stmt]) -> Option<()> {
        let mut written = vec![];
        each_stmt(stmts, &mut |stmt| {
            if let StmtKind::Write { local, .. } = stmt.kind
                && !written.contains(&local)
            {
                written.push(local);
            }
        });
        for local in written {
            let (ty, uniform) = (self.f.locals[local].ty, self.variances.locals[local] == Variance::Uniform);
            let outside = self.outside.locals.get(&local).cloned();
            let mut lanes = vec![];
            for k in 0..ty.lanes() as usize {
                let lane = match outside.as_ref().and_then(|vals| vals.get(k)) {
                    Some(val) => self.import(val, ty.scalar())?,
                    None => ComponentValue::Bits(0),
                };
                lanes.push(self.local_value(&lane, ty.scalar(), uniform)?);
            }
            self.locals.insert(local, lanes);
        }
        Some(())
    }

    /// Creates a mutable value that is initialized with `lane`.
    fn local_value(&mut self, lane: &ComponentValue, scalar: Scalar, uniform: bool) -> Option<ComponentValue> {
        let (value, made): (LaneValue, fn(LaneValue) -> ComponentValue) = match (uniform, scalar) {
            (_, scalar) if scalar.is_float() => (self.vector(lane, scalar), ComponentValue::Vector),
            (true, Scalar::Bool | Scalar::I64 | Scalar::U64) => {
                (self.uniform_value(lane, scalar)?, ComponentValue::Scalar)
            }
            (true, _) => (self.uniform_value(lane, scalar)?, |v| ComponentValue::Affine(LaneAffine::uniform(v))),
            (false, Scalar::Bool) => (self.mask_of(lane)?, ComponentValue::Mask),
            (false, _) => (self.vector(lane, scalar), ComponentValue::Vector),
        };
        let local = self.variable(self.region.ty(value));
        self.push(LaneInst::new(LaneOp::Move, local, &[value]));
        Some(made(local))
    }

    pub(super) fn stmts(&mut self, stmts: &[Stmt]) -> Option<()> {
        for (at, stmt) in stmts.iter().enumerate() {
            clk_base::stop::poll();
            let number = self.number;
            self.number += 1;
            self.stmt(stmt, number)?;
            if self.flow.frames.is_empty() {
                self.built = at + 1;
            }
            if stmt.kind.is_jump() {
                each_stmt(&stmts[at + 1..], &mut |_| self.number += 1);
                break;
            }
            if stmt.kind.blocks().next().is_some() {
                self.exit_if_mask_empty();
            }
        }
        Some(())
    }

    fn stmt(&mut self, stmt: &Stmt, number: StmtNumber) -> Option<()> {
        match &stmt.kind {
            StmtKind::Let(e) => {
                let lanes = self.expr(*e)?;
                self.values.insert(*e, lanes);
            }
            StmtKind::Write { local, value } => self.write(*local, *value, number)?,
            StmtKind::Store { place, value, .. } => self.store(place, *value)?,
            StmtKind::Atomic { op, place, value, compare, result } => {
                let update = AtomicOperands { op: *op, value: *value, compare: *compare, result: *result };
                self.atomic(&update, place)?;
            }
            StmtKind::Warp { op, value, lane, among: None, result } => self.warp(*op, *value, *lane, *result)?,
            StmtKind::Declare(memory) => self.declare(*memory)?,
            // A barrier is supported only where all lanes are active.
            StmtKind::Barrier { kind: BarrierKind::Block, value: None, .. } if self.flow.mask == self.flow.entered => {
                self.region.has_barriers = true;
                self.push(LaneInst::new(LaneOp::Barrier, LaneValue::NONE, &[]));
            }
            StmtKind::If { cond, then, other } => self.if_(*cond, then, other)?,
            StmtKind::Block { label, body } => {
                let own = self.variances.early_exits.contains(label);
                self.open(Some(*label), own, false);
                self.stmts(body)?;
                self.close();
            }
            StmtKind::Loop { label, body, .. } => self.loop_(*label, body)?,
            StmtKind::For { label, local, start, end, step, inclusive, body, .. } => {
                let range = ForRange { local: *local, start: *start, end: *end, step: *step, inclusive: *inclusive };
                self.for_(*label, &range, body)?;
            }
            StmtKind::Break(label) => self.translate_jump(*label, false)?,
            StmtKind::Continue(label) => self.translate_jump(*label, true)?,
            _ => return None,
        }
        Some(())
    }

    /// Assigns all components of a local at once.
    fn write(&mut self, local: LocalId, value: ExprId, number: StmtNumber) -> Option<()> {
        let scalar = self.f.locals[local].ty.scalar();
        let blend = self.variances.masked_writes.contains(&number);
        let to = self.locals.get(&local)?.clone();
        let from = self.operand(value)?;
        let mut moves = vec![];
        for (to, lane) in to.iter().zip(&from) {
            let (d, a) = match to {
                ComponentValue::Vector(d) => (*d, self.vector(lane, scalar)),
                ComponentValue::Mask(d) => (*d, self.mask_of(lane)?),
                ComponentValue::Scalar(d) => (*d, self.uniform_value(lane, scalar)?),
                ComponentValue::Affine(LaneAffine { base: FormOperand::Value(d), .. }) => {
                    (*d, self.uniform_value(lane, scalar)?)
                }
                _ => return None,
            };
            moves.push((d, a));
        }
        // Copy all operands first: an operand may be a component that an earlier move overwrites.
        if moves.len() > 1 {
            for (_, a) in &mut moves {
                let copy = self.new_value(self.region.ty(*a), self.level(), false);
                self.push(LaneInst::new(LaneOp::Move, copy, &[*a]));
                *a = copy;
            }
        }
        for (d, a) in moves {
            let mask = if blend && !self.region.ty(d).is_scalar() { self.flow.mask } else { LaneValue::NONE };
            self.push(LaneInst::new(LaneOp::Move, d, &[a]).with_mask(mask));
        }
        Some(())
    }

    // Control flow

    pub(super) fn open(&mut self, label: Option<Label>, own: bool, iteration: bool) {
        let exit = self.new_exit();
        if own {
            let mask = self.variable(LaneTy::Mask);
            self.push(LaneInst::new(LaneOp::Move, mask, &[self.flow.mask]));
            self.flow.mask = mask;
        }
        self.flow.frames.push(OpenScope {
            label,
            iteration,
            mask: self.flow.mask,
            owns_mask: own,
            exit,
            lanes_left: false,
        });
        self.lists.push(vec![]);
        self.numbering.push((self.flow.loops.len(), ValueNumbering::default()));
    }

    /// Opens a scope that runs for the lanes of a mask and is skipped if the mask is empty. Returns the scope's exit.
    fn open_under(&mut self, label: Option<Label>, mask: LaneValue) -> Option<Exit> {
        self.open(label, false, false);
        let frame = self.flow.frames.last_mut()?;
        (frame.mask, frame.owns_mask) = (mask, true);
        let exit = frame.exit;
        self.flow.mask = mask;
        self.flow.depth += 1;
        self.push_node(LaneNode::Branch(BranchCond::MaskEmpty(mask), exit));
        Some(exit)
    }

    /// Closes the innermost scope.
    pub(super) fn close(&mut self) {
        let (Some(frame), Some(list)) = (self.flow.close_scope(), self.lists.pop()) else { return };
        self.numbering.pop();
        self.push_node(LaneNode::Block(frame.exit, list));
    }

    /// If the preceding statement may have removed lanes from the current mask, emits a branch to the scope's end that
    /// is taken if the mask is empty.
    fn exit_if_mask_empty(&mut self) {
        let mask = self.flow.mask;
        if let Some(frame) = self.flow.frames.iter_mut().rfind(|f| f.owns_mask && f.mask == mask)
            && std::mem::take(&mut frame.lanes_left)
        {
            let exit = frame.exit;
            self.push_node(LaneNode::Branch(BranchCond::MaskEmpty(mask), exit));
        }
    }

    fn translate_jump(&mut self, label: Label, iteration: bool) -> Option<()> {
        let target = self.flow.frames.iter().rposition(|f| f.label == Some(label) && f.iteration == iteration)?;
        self.flow.mark_early_end();
        let mut masks: Vec<LaneValue> = vec![];
        for frame in self.flow.frames[target..].iter().rev() {
            if frame.mask != self.flow.mask && !masks.contains(&frame.mask) {
                masks.push(frame.mask);
            }
        }
        if masks.is_empty() {
            let exit = self.flow.frames[target].exit;
            self.push_node(LaneNode::Branch(BranchCond::Always, exit));
            return Some(());
        }
        let around: Vec<LaneValue> =
            self.flow.frames[..target].iter().map(|f| f.mask).chain([self.flow.entered]).collect();
        if around.contains(&self.flow.frames[target].mask) {
            // The target scope shares its mask with an outer scope. Removing the jumping lanes from the mask would also
            // remove them from the outer scope.
            return None;
        }
        for mask in masks.into_iter().filter(|m| !around.contains(m)) {
            self.region.values[mask.index()].mutable = true;
            self.push(LaneInst::new(LaneOp::MaskAndNot, mask, &[mask, self.flow.mask]));
            self.flow.frames.iter_mut().filter(|f| f.owns_mask && f.mask == mask).for_each(|f| f.lanes_left = true);
        }
        let inner = self.flow.frames.iter().rfind(|f| f.owns_mask && f.mask == self.flow.mask)?.exit;
        self.push_node(LaneNode::Branch(BranchCond::Always, inner));
        Some(())
    }

    fn if_(&mut self, cond: ExprId, then: &Block, other: &Block) -> Option<()> {
        let lane = self.operand(cond)?.into_iter().next()?;
        if self.variances.exprs[cond] == Variance::Uniform {
            return self.if_uniform(&lane, then, other);
        }
        if let Some(()) = self.remove_lanes_where(&lane, then, other) {
            return Some(());
        }
        let cond = self.mask_of(&lane)?;
        if then.is_empty() {
            let no = self.result(LaneOp::MaskAndNot, LaneTy::Mask, &[self.flow.mask, cond]);
            return self.branch(no, other);
        }
        let yes = self.result(LaneOp::MaskAnd, LaneTy::Mask, &[cond, self.flow.mask]);
        let no = (!other.is_empty()).then(|| self.result(LaneOp::MaskAndNot, LaneTy::Mask, &[self.flow.mask, cond]));
        self.branch(yes, then)?;
        if let Some(no) = no {
            self.branch(no, other)?;
        }
        Some(())
    }

    /// Translates `if cond { break }` if it leaves the scope that owns the current mask, by removing lanes from the
    /// mask.
    fn remove_lanes_where(&mut self, lane: &ComponentValue, then: &Block, other: &Block) -> Option<()> {
        let (leaver, op) = match (then.as_slice(), other.as_slice()) {
            ([stmt], []) => (stmt, LaneOp::MaskAndNot),
            ([], [stmt]) => (stmt, LaneOp::MaskAnd),
            _ => return None,
        };
        let (label, iteration) = match leaver.kind {
            StmtKind::Break(label) => (label, false),
            StmtKind::Continue(label) => (label, true),
            _ => return None,
        };
        let inner = self.flow.frames.iter().rposition(|f| f.owns_mask && f.mask == self.flow.mask)?;
        let frame = &self.flow.frames[inner];
        if frame.label != Some(label) || frame.iteration != iteration {
            return None;
        }
        let (mask, exit) = (self.flow.mask, frame.exit);
        let cond = self.mask_of(lane)?;
        self.number += 1;
        self.flow.mark_early_end();
        self.push(LaneInst::new(op, mask, &[mask, cond]));
        self.push_node(LaneNode::Branch(BranchCond::MaskEmpty(mask), exit));
        Some(())
    }

    /// Emits the `then` or `else` block of an `if` statement for the lanes of a mask.
    fn branch(&mut self, mask: LaneValue, block: &Block) -> Option<()> {
        self.open_under(None, mask)?;
        self.stmts(block)?;
        self.flow.depth -= 1;
        self.close();
        Some(())
    }

    fn if_uniform(&mut self, lane: &ComponentValue, then: &Block, other: &Block) -> Option<()> {
        let cond = self.uniform_value(lane, Scalar::Bool)?;
        let zero = self.constant(LaneTy::I32, 0);
        let unless = |rel| BranchCond::Scalar(rel, LaneElem::I32, cond, zero);
        self.flow.depth += 1;
        // The scopes of the two blocks have no label and use the enclosing mask.
        self.open(None, false, false);
        let end = self.flow.frames.last()?.exit;
        self.open(None, false, false);
        let exit = self.flow.frames.last()?.exit;
        self.push_node(LaneNode::Branch(unless(LaneComparison::Eq), exit));
        self.stmts(then)?;
        if !other.is_empty() {
            self.push_node(LaneNode::Branch(BranchCond::Always, end));
        }
        self.close();
        self.stmts(other)?;
        self.close();
        self.flow.depth -= 1;
        Some(())
    }

    fn open_loop(&mut self, counter: Option<(LaneValue, LaneValue)>) {
        self.flow.open_loop(counter);
        self.lists.push(vec![]);
        self.numbering.push((self.flow.loops.len(), ValueNumbering::default()));
    }

    pub(super) fn close_loop(&mut self) {
        let (Some(scope), Some(list)) = (self.flow.loops.pop(), self.lists.pop()) else { return };
        if self.flow.loops.is_empty() {
            self.nests.current = None;
        }
        self.numbering.pop();
        if let Some(outer) = self.lists.last_mut() {
            outer.extend(scope.preheader);
        }
        self.push_node(LaneNode::Loop(list));
    }

    fn loop_(&mut self, label: Label, body: &Block) -> Option<()> {
        let own = self.variances.has_divergent_exit(label);
        self.open(Some(label), own, false);
        self.open_loop(None);
        self.iteration(label, body)?;
        if own {
            let (mask, exit) = (self.flow.mask, self.flow.frames.last()?.exit);
            self.push_node(LaneNode::Branch(BranchCond::MaskEmpty(mask), exit));
        }
        self.close_loop();
        self.close();
        Some(())
    }

    fn iteration(&mut self, label: Label, body: &Block) -> Option<()> {
        let own = self.variances.early_continues.contains(&label);
        self.open(Some(label), own, true);
        self.stmts(body)?;
        self.close();
        Some(())
    }

    fn for_(&mut self, label: Label, range: &ForRange, body: &Block) -> Option<()> {
        let scalar = self.f.locals[range.local].ty.scalar();
        let step = match self.operand(range.step)?.first()? {
            // The step of a `u32` range is unsigned: a step of 2^31 or more, which is negative as an `i32`, is not
            // supported.
            ComponentValue::Affine(form) => {
                form.as_imm().filter(|&s| s > 0 || s < 0 && s != i32::MIN && scalar != Scalar::U32)?
            }
            _ => return None,
        };
        let class = |e: ExprId| self.variances.exprs[e];
        let uniform = class(range.start).max(class(range.end)) == Variance::Uniform;
        if uniform && !matches!(scalar, Scalar::I32 | Scalar::U32) {
            return None;
        }
        let (start, end) = (self.operand(range.start)?, self.operand(range.end)?);
        let (start, end) = (start.into_iter().next()?, end.into_iter().next()?);
        match (&start, &end) {
            (ComponentValue::Affine(from), ComponentValue::Affine(to)) if uniform => {
                self.for_uniform(label, range, from, to, step, body)
            }
            _ => self.for_lanes(label, range, &start, &end, step, body),
        }
    }

    /// Translates a loop whose range is the same in all lanes. The counter starts at 0.
    fn for_uniform(
        &mut self,
        label: Label,
        range: &ForRange,
        start: &LaneAffine,
        end: &LaneAffine,
        step: i32,
        body: &Block,
    ) -> Option<()> {
        let unsigned = self.f.locals[range.local].ty.scalar() == Scalar::U32;
        let wide = if unsigned { LaneOp::Zext } else { LaneOp::Sext };
        let (from, to) = (self.linear_scalar(start), self.linear_scalar(end));
        let (from, to) = (self.pure(wide, LaneTy::I64, &[from]), self.pure(wide, LaneTy::I64, &[to]));
        let (high, low) = if step > 0 { (to, from) } else { (from, to) };
        // The trip count is `ceil(distance / step)`, or `floor(distance / step) + 1` if the range includes its end.
        let distance = self.pure(LaneOp::Scalar(LaneBinOp::Sub, LaneElem::I64), LaneTy::I64, &[high, low]);
        let size = i64::from(step.unsigned_abs());
        let more = self.constant(LaneTy::I64, if range.inclusive { size } else { size - 1 });
        let distance = self.pure(LaneOp::Scalar(LaneBinOp::Add, LaneElem::I64), LaneTy::I64, &[distance, more]);
        let size = self.constant(LaneTy::I64, size);
        let trips = match step.unsigned_abs() {
            1 => distance,
            _ => self.pure(LaneOp::Scalar(LaneBinOp::Div, LaneElem::I64), LaneTy::I64, &[distance, size]),
        };
        let own = self.variances.has_divergent_exit(label);
        self.open(Some(label), own, false);
        let exit = self.flow.frames.last()?.exit;
        let zero = self.constant(LaneTy::I64, 0);
        let one = self.constant(LaneTy::I64, 1);
        self.push_node(LaneNode::Branch(BranchCond::Scalar(LaneComparison::Le, LaneElem::I64, trips, zero), exit));
        let limit = self.constant(LaneTy::I64, COUNTER_LIMIT);
        let check = LaneInst::new(LaneOp::CheckUniform, LaneValue::NONE, &[trips, limit]);
        if !self.definitions.passes(&LaneCheck { op: check.op, args: check.args }) {
            self.push(check);
        }
        let last = self.pure(LaneOp::Scalar(LaneBinOp::Sub, LaneElem::I64), LaneTy::I64, &[trips, one]);
        // If the body contains a `break`, the last iteration may never run.
        let counter = self.open_counted_loop(zero, (!contains_break(body)).then_some(last));
        if let Some(last) = self.definitions.constant(last) {
            self.last_values.insert(counter, last);
        }
        let form = self.counter_form(start, counter, step);
        self.locals.insert(range.local, vec![ComponentValue::Affine(form)]);
        self.iteration(label, body)?;
        if own {
            self.push_node(LaneNode::Branch(BranchCond::MaskEmpty(self.flow.mask), exit));
        }
        self.push(LaneInst::new(LaneOp::Scalar(LaneBinOp::Add, LaneElem::I64), counter, &[counter, one]));
        self.push_node(LaneNode::Branch(BranchCond::Scalar(LaneComparison::Ge, LaneElem::I64, counter, trips), exit));
        self.close_loop();
        self.close();
        self.locals.remove(&range.local);
        Some(())
    }

    /// Returns `start` plus `step` times a counter.
    fn counter_form(&mut self, start: &LaneAffine, counter: LaneValue, step: i32) -> LaneAffine {
        let term = LaneAffine { base: ZERO, terms: vec![(FormSymbol::Counter(counter), FormOperand::Imm(step))] };
        self.linear_sum(LaneBinOp::Add, start, &term)
    }

    /// Opens a loop with a counter that starts at zero.
    pub(super) fn open_counted_loop(&mut self, zero: LaneValue, last: Option<LaneValue>) -> LaneValue {
        let counter = self.new_value(LaneTy::I64, self.level() + 1, true);
        self.push(LaneInst::new(LaneOp::Move, counter, &[zero]));
        self.open_loop(last.map(|last| (counter, last)));
        counter
    }

    /// Translates a loop whose range differs between lanes. Each lane leaves the loop's mask after its last iteration.
    fn for_lanes(
        &mut self,
        label: Label,
        range: &ForRange,
        start: &ComponentValue,
        end: &ComponentValue,
        step: i32,
        body: &Block,
    ) -> Option<()> {
        let scalar = self.f.locals[range.local].ty.scalar();
        let elem = LaneElem::from_scalar(scalar).filter(|e| !e.is_float() && !e.is_wide())?;
        let end = self.vector(end, scalar);
        let first = self.vector(start, scalar);
        let rel = if range.inclusive { LaneComparison::Le } else { LaneComparison::Lt };
        let (low, high) = if step > 0 { (first, end) } else { (end, first) };
        let runs = self.result(LaneOp::Compare(rel, elem), LaneTy::Mask, &[low, high]);
        let mask = self.variable(LaneTy::Mask);
        self.push(LaneInst::new(LaneOp::MaskAnd, mask, &[runs, self.flow.mask]));
        let exit = self.open_under(Some(label), mask)?;
        let (zero, one) = (self.constant(LaneTy::I64, 0), self.constant(LaneTy::I64, 1));
        let linear = match start {
            ComponentValue::Affine(form) => Some(form.clone()),
            _ => None,
        };
        let local = match &linear {
            Some(_) => LaneValue::NONE,
            None => {
                let local = self.new_value(LaneTy::V32, self.level() + 1, true);
                self.push(LaneInst::new(LaneOp::Move, local, &[first]));
                local
            }
        };
        let counter = self.open_counted_loop(zero, None);
        match &linear {
            Some(form) => {
                let form = self.counter_form(form, counter, step);
                self.locals.insert(range.local, vec![ComponentValue::Affine(form)]);
            }
            None => {
                self.locals.insert(range.local, vec![ComponentValue::Vector(local)]);
            }
        }
        self.iteration(label, body)?;
        // The distance to the end, as a `u32`, is exact, so comparing it with the step size cannot overflow.
        let lane = self.locals.remove(&range.local)?.into_iter().next()?;
        let present = self.vector(&lane, scalar);
        let (high, low) = if step > 0 { (end, present) } else { (present, end) };
        let distance = self.result(LaneOp::Vector(LaneBinOp::Sub, LaneElem::U32), LaneTy::V32, &[high, low]);
        let size = self.splat(false, step.unsigned_abs().into());
        let rel = if range.inclusive { LaneComparison::Ge } else { LaneComparison::Gt };
        let more = self.result(LaneOp::Compare(rel, LaneElem::U32), LaneTy::Mask, &[distance, size]);
        self.push(LaneInst::new(LaneOp::MaskAnd, mask, &[more, mask]));
        self.push_node(LaneNode::Branch(BranchCond::MaskEmpty(mask), exit));
        self.push(LaneInst::new(LaneOp::Scalar(LaneBinOp::Add, LaneElem::I64), counter, &[counter, one]));
        let limit = self.constant(LaneTy::I64, COUNTER_LIMIT);
        self.push(LaneInst::new(LaneOp::CheckUniform, LaneValue::NONE, &[counter, limit]));
        if linear.is_none() {
            let step = self.splat(false, u64::from(step as u32));
            self.push(LaneInst::new(LaneOp::Vector(LaneBinOp::Add, LaneElem::I32), local, &[local, step]));
        }
        self.close_loop();
        self.flow.depth -= 1;
        self.close();
        Some(())
    }
}

/// Returns whether the body contains a `break`.
fn contains_break(body: &Block) -> bool {
    let mut jumps = false;
    each_stmt(body, &mut |stmt| jumps |= matches!(stmt.kind, StmtKind::Break(_)));
    jumps
}

/// The range of a `for` loop.
struct ForRange {
    local: LocalId,
    start: ExprId,
    end: ExprId,
    step: ExprId,
    inclusive: bool,
}
