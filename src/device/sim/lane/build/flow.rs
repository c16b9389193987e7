//! Statements: jumps where control is the same for all lanes of a vector, masks where it is not.

use super::atomic::Update;
use super::form::{Atom, COUNTERS, Linear, Sym, ZERO};
use super::*;
use crate::ir::def::{Block, StmtKind};
use crate::ir::variance::Variance;
use crate::ir::visit::each_stmt;
use crate::lang::ops::BarrierKind;

impl Builder<'_> {
    /// Creates the locals that the statements write, with the values that they have outside. A local that only varies in one of
    /// its writes is a vector all along.
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
                    None => Lane::Bits(0),
                };
                lanes.push(self.local_value(&lane, ty.scalar(), uniform)?);
            }
            self.locals.insert(local, lanes);
        }
        Some(())
    }

    /// Returns a new mutable value with this one.
    fn local_value(&mut self, lane: &Lane, scalar: Scalar, uniform: bool) -> Option<Lane> {
        let (value, made): (Value, fn(Value) -> Lane) = match (uniform, scalar) {
            (_, scalar) if scalar.is_float() => (self.vector(lane, scalar), Lane::Vector),
            (true, Scalar::Bool | Scalar::I64 | Scalar::U64) => (self.uniform_value(lane, scalar)?, Lane::Scalar),
            (true, _) => (self.uniform_value(lane, scalar)?, |v| Lane::Linear(Linear::uniform(v))),
            (false, Scalar::Bool) => (self.mask_of(lane)?, Lane::Mask),
            (false, _) => (self.vector(lane, scalar), Lane::Vector),
        };
        let local = self.variable(self.region.ty(value));
        self.push(Inst::new(Op::Move, local, &[value]));
        Some(made(local))
    }

    pub(super) fn stmts(&mut self, stmts: &[Stmt]) -> Option<()> {
        for (at, stmt) in stmts.iter().enumerate() {
            crate::base::stop::poll();
            let number = self.number;
            self.number += 1;
            self.stmt(stmt, number)?;
            if self.frames.is_empty() {
                self.built = at + 1;
            }
            if stmt.kind.leaves() {
                each_stmt(&stmts[at + 1..], &mut |_| self.number += 1);
                break;
            }
            if stmt.kind.blocks().next().is_some() {
                self.resume();
            }
        }
        Some(())
    }

    fn stmt(&mut self, stmt: &Stmt, number: Number) -> Option<()> {
        match &stmt.kind {
            StmtKind::Let(e) => {
                let lanes = self.expr(*e)?;
                self.values.insert(*e, lanes);
            }
            StmtKind::Write { local, value } => self.write(*local, *value, number)?,
            StmtKind::Store { place, value, .. } => self.store(place, *value)?,
            StmtKind::Atomic { op, place, value, compare, result } => {
                let update = Update { op: *op, value: *value, compare: *compare, result: *result };
                self.atomic(&update, place)?;
            }
            StmtKind::Warp { op, value, lane, among: None, result } => self.warp(*op, *value, *lane, *result)?,
            StmtKind::Declare(memory) => self.declare(*memory)?,
            // All threads arrive where all lanes are active.
            StmtKind::Barrier { kind: BarrierKind::Block, value: None, .. } if self.mask == self.entered => {
                self.region.together = true;
                self.push(Inst::new(Op::Barrier, Value::NONE, &[]));
            }
            StmtKind::If { cond, then, other } => self.if_(*cond, then, other)?,
            StmtKind::Block { label, body } => {
                let own = self.variances.leaky.contains(label);
                self.open(Some(*label), own, false);
                self.stmts(body)?;
                self.close();
            }
            StmtKind::Loop { label, body, .. } => self.loop_(*label, body)?,
            StmtKind::For { label, local, start, end, step, inclusive, body, .. } => {
                let range = Range { local: *local, start: *start, end: *end, step: *step, inclusive: *inclusive };
                self.for_(*label, &range, body)?;
            }
            StmtKind::Break(label) => self.leave(*label, false)?,
            StmtKind::Continue(label) => self.leave(*label, true)?,
            _ => return None,
        }
        Some(())
    }

    /// Writes all components of a local at once.
    fn write(&mut self, local: LocalId, value: ExprId, number: Number) -> Option<()> {
        let scalar = self.f.locals[local].ty.scalar();
        let blend = self.variances.blend.contains(&number);
        let to = self.locals.get(&local)?.clone();
        let from = self.operand(value)?;
        let mut moves = vec![];
        for (to, lane) in to.iter().zip(&from) {
            let (d, a) = match to {
                Lane::Vector(d) => (*d, self.vector(lane, scalar)),
                Lane::Mask(d) => (*d, self.mask_of(lane)?),
                Lane::Scalar(d) => (*d, self.uniform_value(lane, scalar)?),
                Lane::Linear(Linear { base: Atom::Value(d), .. }) => (*d, self.uniform_value(lane, scalar)?),
                _ => return None,
            };
            moves.push((d, a));
        }
        // What is read is read before anything is written.
        if moves.len() > 1 {
            for (_, a) in &mut moves {
                let copy = self.new_value(self.region.ty(*a), self.level(), false);
                self.push(Inst::new(Op::Move, copy, &[*a]));
                *a = copy;
            }
        }
        for (d, a) in moves {
            let mask = if blend && !self.region.ty(d).is_scalar() { self.mask } else { Value::NONE };
            self.push(Inst::new(Op::Move, d, &[a]).under(mask));
        }
        Some(())
    }

    // Control

    pub(super) fn open(&mut self, label: Option<Label>, own: bool, iteration: bool) {
        let exit = self.new_exit();
        if own {
            let mask = self.variable(Ty::Mask);
            self.push(Inst::new(Op::Move, mask, &[self.mask]));
            self.mask = mask;
        }
        self.frames.push(Frame { label, iteration, mask: self.mask, owns: own, exit, leaked: false });
        self.lists.push(vec![]);
        self.known.push((self.loops.len(), Known::default()));
    }

    /// Opens a frame for the lanes of a mask, which is skipped where there are none; returns its end.
    fn open_under(&mut self, label: Option<Label>, mask: Value) -> Option<Exit> {
        self.open(label, false, false);
        let frame = self.frames.last_mut()?;
        (frame.mask, frame.owns) = (mask, true);
        let exit = frame.exit;
        self.mask = mask;
        self.depth += 1;
        self.push_node(Node::Branch(Cond::None(mask), exit));
        Some(exit)
    }

    /// Ends the innermost frame.
    pub(super) fn close(&mut self) {
        let (Some(frame), Some(list)) = (self.frames.pop(), self.lists.pop()) else { return };
        self.known.pop();
        self.mask = self.frames.last().map_or(self.entered, |f| f.mask);
        // Whoever left a frame goes on behind it.
        self.certain |= self.frames.is_empty();
        self.push_node(Node::Block(frame.exit, list));
    }

    /// After a statement through which lanes may have left frames around it, goes on only if there are lanes left.
    fn resume(&mut self) {
        let mask = self.mask;
        if let Some(frame) = self.frames.iter_mut().rfind(|f| f.owns && f.mask == mask)
            && std::mem::take(&mut frame.leaked)
        {
            let exit = frame.exit;
            self.push_node(Node::Branch(Cond::None(mask), exit));
        }
    }

    /// The innermost loop's iteration may end here.
    fn breaks(&mut self) {
        self.loops.iter_mut().for_each(|scope| scope.broken = true);
        self.certain = false;
    }

    fn leave(&mut self, label: Label, iteration: bool) -> Option<()> {
        let target = self.frames.iter().rposition(|f| f.label == Some(label) && f.iteration == iteration)?;
        self.breaks();
        let mut masks: Vec<Value> = vec![];
        for frame in self.frames[target..].iter().rev() {
            if frame.mask != self.mask && !masks.contains(&frame.mask) {
                masks.push(frame.mask);
            }
        }
        if masks.is_empty() {
            let exit = self.frames[target].exit;
            self.push_node(Node::Branch(Cond::Always, exit));
            return Some(());
        }
        let around: Vec<Value> = self.frames[..target].iter().map(|f| f.mask).chain([self.entered]).collect();
        if around.contains(&self.frames[target].mask) {
            // Lanes would stay in a frame that they leave.
            return None;
        }
        for mask in masks.into_iter().filter(|m| !around.contains(m)) {
            self.region.values[mask.index()].mutable = true;
            self.push(Inst::new(Op::MaskWithout, mask, &[mask, self.mask]));
            self.frames.iter_mut().filter(|f| f.owns && f.mask == mask).for_each(|f| f.leaked = true);
        }
        let inner = self.frames.iter().rfind(|f| f.owns && f.mask == self.mask)?.exit;
        self.push_node(Node::Branch(Cond::Always, inner));
        Some(())
    }

    fn if_(&mut self, cond: ExprId, then: &Block, other: &Block) -> Option<()> {
        let lane = self.operand(cond)?.into_iter().next()?;
        if self.variances.exprs[cond] == Variance::Uniform {
            return self.if_uniform(&lane, then, other);
        }
        if let Some(()) = self.leave_where(&lane, then, other) {
            return Some(());
        }
        let cond = self.mask_of(&lane)?;
        if then.is_empty() {
            let no = self.result(Op::MaskWithout, Ty::Mask, &[self.mask, cond]);
            return self.branch(no, other);
        }
        let yes = self.result(Op::MaskAnd, Ty::Mask, &[cond, self.mask]);
        let no = (!other.is_empty()).then(|| self.result(Op::MaskWithout, Ty::Mask, &[self.mask, cond]));
        self.branch(yes, then)?;
        if let Some(no) = no {
            self.branch(no, other)?;
        }
        Some(())
    }

    /// `if cond { break }` out of the frame that owns the mask: the mask loses lanes.
    fn leave_where(&mut self, lane: &Lane, then: &Block, other: &Block) -> Option<()> {
        let (leaver, op) = match (then.as_slice(), other.as_slice()) {
            ([stmt], []) => (stmt, Op::MaskWithout),
            ([], [stmt]) => (stmt, Op::MaskAnd),
            _ => return None,
        };
        let (label, iteration) = match leaver.kind {
            StmtKind::Break(label) => (label, false),
            StmtKind::Continue(label) => (label, true),
            _ => return None,
        };
        let inner = self.frames.iter().rposition(|f| f.owns && f.mask == self.mask)?;
        let frame = &self.frames[inner];
        if frame.label != Some(label) || frame.iteration != iteration {
            return None;
        }
        let (mask, exit) = (self.mask, frame.exit);
        let cond = self.mask_of(lane)?;
        self.number += 1;
        self.breaks();
        self.push(Inst::new(op, mask, &[mask, cond]));
        self.push_node(Node::Branch(Cond::None(mask), exit));
        Some(())
    }

    /// Writes the branch of an `if` for the lanes of a mask.
    fn branch(&mut self, mask: Value, block: &Block) -> Option<()> {
        self.open_under(None, mask)?;
        self.stmts(block)?;
        self.depth -= 1;
        self.close();
        Some(())
    }

    fn if_uniform(&mut self, lane: &Lane, then: &Block, other: &Block) -> Option<()> {
        let cond = self.uniform_value(lane, Scalar::Bool)?;
        let zero = self.constant(Ty::I32, 0);
        let unless = |rel| Cond::Scalar(rel, Elem::I32, cond, zero);
        self.depth += 1;
        // The frames of the branches have no label of their own and the mask around them.
        self.open(None, false, false);
        let end = self.frames.last()?.exit;
        self.open(None, false, false);
        let exit = self.frames.last()?.exit;
        self.push_node(Node::Branch(unless(Rel::Eq), exit));
        self.stmts(then)?;
        if !other.is_empty() {
            self.push_node(Node::Branch(Cond::Always, end));
        }
        self.close();
        self.stmts(other)?;
        self.close();
        self.depth -= 1;
        Some(())
    }

    fn open_loop(&mut self, counter: Option<(Value, Value)>) {
        let certain = self.depth == self.loops.last().map_or(0, |l| l.depth)
            && self.loops.last().map_or(self.certain, |l| !l.broken);
        self.loops.push(LoopScope { pre: vec![], counter, mask: self.mask, depth: self.depth, broken: false, certain });
        self.lists.push(vec![]);
        self.known.push((self.loops.len(), Known::default()));
    }

    pub(super) fn close_loop(&mut self) {
        let (Some(scope), Some(list)) = (self.loops.pop(), self.lists.pop()) else { return };
        if self.loops.is_empty() {
            self.nest = None;
        }
        self.known.pop();
        if let Some(outer) = self.lists.last_mut() {
            outer.extend(scope.pre);
        }
        self.push_node(Node::Loop(list));
    }

    fn loop_(&mut self, label: Label, body: &Block) -> Option<()> {
        let own = self.variances.parts(label);
        self.open(Some(label), own, false);
        self.open_loop(None);
        self.iteration(label, body)?;
        if own {
            let (mask, exit) = (self.mask, self.frames.last()?.exit);
            self.push_node(Node::Branch(Cond::None(mask), exit));
        }
        self.close_loop();
        self.close();
        Some(())
    }

    fn iteration(&mut self, label: Label, body: &Block) -> Option<()> {
        let own = self.variances.continue_leaky.contains(&label);
        self.open(Some(label), own, true);
        self.stmts(body)?;
        self.close();
        Some(())
    }

    fn for_(&mut self, label: Label, range: &Range, body: &Block) -> Option<()> {
        let scalar = self.f.locals[range.local].ty.scalar();
        let step = match self.operand(range.step)?.first()? {
            // The steps of a `u32` are positive, however large.
            Lane::Linear(form) => {
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
            (Lane::Linear(from), Lane::Linear(to)) if uniform => self.for_uniform(label, range, (from, to, step), body),
            _ => self.for_lanes(label, range, (&start, &end, step), body),
        }
    }

    /// A loop with the same range in all lanes: counts from 0.
    fn for_uniform(
        &mut self,
        label: Label,
        range: &Range,
        (start, end, step): (&Linear, &Linear, i32),
        body: &Block,
    ) -> Option<()> {
        let unsigned = self.f.locals[range.local].ty.scalar() == Scalar::U32;
        let wide = if unsigned { Op::Zext } else { Op::Sext };
        let (from, to) = (self.linear_scalar(start), self.linear_scalar(end));
        let (from, to) = (self.pure(wide, Ty::I64, &[from]), self.pure(wide, Ty::I64, &[to]));
        let (high, low) = if step > 0 { (to, from) } else { (from, to) };
        // ceil(distance / step), or floor + 1 if the end counts.
        let distance = self.pure(Op::Scalar(Bin::Sub, Elem::I64), Ty::I64, &[high, low]);
        let size = i64::from(step.unsigned_abs());
        let more = self.constant(Ty::I64, if range.inclusive { size } else { size - 1 });
        let distance = self.pure(Op::Scalar(Bin::Add, Elem::I64), Ty::I64, &[distance, more]);
        let size = self.constant(Ty::I64, size);
        let trips = match step.unsigned_abs() {
            1 => distance,
            _ => self.pure(Op::Scalar(Bin::Div, Elem::I64), Ty::I64, &[distance, size]),
        };
        let own = self.variances.parts(label);
        self.open(Some(label), own, false);
        let exit = self.frames.last()?.exit;
        let zero = self.constant(Ty::I64, 0);
        let one = self.constant(Ty::I64, 1);
        self.push_node(Node::Branch(Cond::Scalar(Rel::Le, Elem::I64, trips, zero), exit));
        let limit = self.constant(Ty::I64, COUNTERS);
        let check = Inst::new(Op::CheckOne, Value::NONE, &[trips, limit]);
        if !self.definitions.passes(&Check { op: check.op, args: check.args }) {
            self.push(check);
        }
        let last = self.pure(Op::Scalar(Bin::Sub, Elem::I64), Ty::I64, &[trips, one]);
        // Where some iteration ends the loop, the last one may never run.
        let counter = self.count(zero, (!jumps(body)).then_some(last));
        if let Some(last) = self.definitions.constant(last) {
            self.lasts.insert(counter, last);
        }
        let form = self.counted(start, counter, step);
        self.locals.insert(range.local, vec![Lane::Linear(form)]);
        self.iteration(label, body)?;
        if own {
            self.push_node(Node::Branch(Cond::None(self.mask), exit));
        }
        self.push(Inst::new(Op::Scalar(Bin::Add, Elem::I64), counter, &[counter, one]));
        self.push_node(Node::Branch(Cond::Scalar(Rel::Ge, Elem::I64, counter, trips), exit));
        self.close_loop();
        self.close();
        self.locals.remove(&range.local);
        Some(())
    }

    /// Returns `start` plus `step` times a counter.
    fn counted(&mut self, start: &Linear, counter: Value, step: i32) -> Linear {
        let term = Linear { base: ZERO, terms: vec![(Sym::Counter(counter), Atom::Imm(step))] };
        self.linear_sum(Bin::Add, start, &term)
    }

    /// Opens a loop with a counter from zero.
    pub(super) fn count(&mut self, zero: Value, last: Option<Value>) -> Value {
        let counter = self.new_value(Ty::I64, self.level() + 1, true);
        self.push(Inst::new(Op::Move, counter, &[zero]));
        self.open_loop(last.map(|last| (counter, last)));
        counter
    }

    /// A loop whose range differs between lanes: lanes leave its mask one after the other.
    fn for_lanes(
        &mut self,
        label: Label,
        range: &Range,
        (start, end, step): (&Lane, &Lane, i32),
        body: &Block,
    ) -> Option<()> {
        let scalar = self.f.locals[range.local].ty.scalar();
        let elem = Elem::of(scalar).filter(|e| !e.is_float() && !e.is_wide())?;
        let end = self.vector(end, scalar);
        let first = self.vector(start, scalar);
        let rel = if range.inclusive { Rel::Le } else { Rel::Lt };
        let (low, high) = if step > 0 { (first, end) } else { (end, first) };
        let runs = self.result(Op::Compare(rel, elem), Ty::Mask, &[low, high]);
        let mask = self.variable(Ty::Mask);
        self.push(Inst::new(Op::MaskAnd, mask, &[runs, self.mask]));
        let exit = self.open_under(Some(label), mask)?;
        let (zero, one) = (self.constant(Ty::I64, 0), self.constant(Ty::I64, 1));
        let linear = match start {
            Lane::Linear(form) => Some(form.clone()),
            _ => None,
        };
        let local = match &linear {
            Some(_) => Value::NONE,
            None => {
                let local = self.new_value(Ty::V32, self.level() + 1, true);
                self.push(Inst::new(Op::Move, local, &[first]));
                local
            }
        };
        let counter = self.count(zero, None);
        match &linear {
            Some(form) => {
                let form = self.counted(form, counter, step);
                self.locals.insert(range.local, vec![Lane::Linear(form)]);
            }
            None => {
                self.locals.insert(range.local, vec![Lane::Vector(local)]);
            }
        }
        self.iteration(label, body)?;
        // An exact distance between the local and its end: whether there is another step, without overflow.
        let lane = self.locals.remove(&range.local)?.into_iter().next()?;
        let present = self.vector(&lane, scalar);
        let (high, low) = if step > 0 { (end, present) } else { (present, end) };
        let distance = self.result(Op::Vector(Bin::Sub, Elem::U32), Ty::V32, &[high, low]);
        let size = self.splat(false, step.unsigned_abs().into());
        let rel = if range.inclusive { Rel::Ge } else { Rel::Gt };
        let more = self.result(Op::Compare(rel, Elem::U32), Ty::Mask, &[distance, size]);
        self.push(Inst::new(Op::MaskAnd, mask, &[more, mask]));
        self.push_node(Node::Branch(Cond::None(mask), exit));
        self.push(Inst::new(Op::Scalar(Bin::Add, Elem::I64), counter, &[counter, one]));
        let limit = self.constant(Ty::I64, COUNTERS);
        self.push(Inst::new(Op::CheckOne, Value::NONE, &[counter, limit]));
        if linear.is_none() {
            let step = self.splat(false, u64::from(step as u32));
            self.push(Inst::new(Op::Vector(Bin::Add, Elem::I32), local, &[local, step]));
        }
        self.close_loop();
        self.depth -= 1;
        self.close();
        Some(())
    }
}

/// Returns whether something in a body jumps, perhaps out of it.
fn jumps(body: &Block) -> bool {
    let mut jumps = false;
    each_stmt(body, &mut |stmt| jumps |= matches!(stmt.kind, StmtKind::Break(_)));
    jumps
}

/// The range of a `for` loop.
struct Range {
    local: LocalId,
    start: ExprId,
    end: ExprId,
    step: ExprId,
    inclusive: bool,
}
