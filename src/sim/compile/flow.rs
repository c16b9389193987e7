//! Code generation for statements: masks where lanes diverge, jumps where they do not.

use super::events::takes;
use super::segment::SegmentStart;
use super::state::{CompilerRegClass, LaneTree, RegionKind, StripRole};
use super::*;
use crate::lanes::mask::{CopyMask, Leave, Resume, SplitMask};
use crate::lanes::{convert, is_wide, pick_wide};
use crate::warp_ops;
use clk_base::stop;
use clk_ir::spin_loops::is_spin_loop;
use clk_ir::variance::Variance;
use clk_scalar::Scalar;
use clk_scalar::ops::BarrierKind;

impl<'a> KernelCompiler<'a> {
    pub fn block(&mut self, block: &'a Block) {
        let aliases = self.values.aliases.len();
        let mut defined = vec![];
        let (mut open, mut together, mut scanned, mut head) = (None, None, 0, None);
        if block.is_empty() {
            self.profile.branch = None;
        }
        for (at, stmt) in block.iter().enumerate() {
            self.segment(block, at, &mut head);
            if together.is_none() && open.is_none() {
                together = self.open_together(block, at, &mut scanned);
            }
            if open.is_none() {
                open = self.open_machine(block, at);
            }
            let number = self.flow.stmt;
            let fresh = std::mem::take(&mut self.registers.fresh);
            self.flow.stmt += 1;
            self.stmt(stmt, number, &block[at + 1..]);
            self.settle(&stmt.kind, number);
            self.note_results(stmt, &mut defined);
            let done = self.flow.stmt - 1;
            defined.retain(|&e: &ExprId| {
                let dead = self.uses.last[e] <= done;
                if dead {
                    self.release(e);
                }
                !dead
            });
            let fresh = std::mem::replace(&mut self.registers.fresh, fresh);
            self.drop_fresh(fresh);
            self.close_machine(&mut open, block, at);
            self.close_machine(&mut together, block, at);
            if stmt.kind.is_jump() {
                self.skip(&block[at + 1..]);
                break;
            }
            self.resume_after(stmt);
        }
        for e in defined {
            self.release(e);
        }
        self.values.aliases.truncate(aliases);
    }

    /// Skips unreachable statements, which still count in the numbering.
    fn skip(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            clk_ir::visit::each_stmt(std::slice::from_ref(stmt), &mut |_| self.flow.stmt += 1);
        }
    }

    fn note_results(&self, stmt: &Stmt, defined: &mut Vec<ExprId>) {
        if let StmtKind::Let(e) = &stmt.kind {
            defined.push(*e);
        }
        stmt.kind.results(|e| defined.push(e));
    }

    /// After a statement that lanes may have left for good, continues with the lanes that remain.
    fn resume_after(&mut self, stmt: &Stmt) {
        if stmt.kind.blocks().next().is_some() && self.flow.leaked.remove(&self.flow.mask) {
            let mask = self.flow.mask;
            let run = self.pick::<Resume>();
            let jump = self.emit_jump(run, Op { b: mask, ..nothing() });
            self.end_of_mask(jump);
            // Lanes that left have been removed from the region's own mask, and from the masks of surrounding regions
            // for which that was recorded.
        }
    }

    /// Patches the jump to the end of the region that owns the current mask.
    fn end_of_mask(&mut self, jump: usize) {
        let mask = self.flow.mask;
        if let Some(region) = self.flow.scopes.iter_mut().rfind(|r| r.owns && r.mask == mask) {
            region.ends.push(jump);
        }
    }

    fn stmt(&mut self, stmt: &'a Stmt, number: StmtNumber, rest: &[Stmt]) {
        stop::poll();
        match &stmt.kind {
            StmtKind::Let(e) => self.let_(*e, number, rest),
            StmtKind::Write { local, value } => self.write(*local, *value, number),
            StmtKind::Store { place, value, .. } => self.store(place, *value, stmt.span),
            StmtKind::Atomic { op, place, value, compare, result } => {
                self.atomic(*op, place, *value, *compare, *result, stmt.span);
            }
            StmtKind::Barrier { kind, value, result } => self.barrier(*kind, *value, *result, stmt.span),
            StmtKind::Warp { op, value, lane, among, result } => {
                let scalar = self.f.exprs[*value].ty.scalar();
                let lane = lane.map_or(NONE, |l| self.regs_of(l)[0]);
                let among = among.map_or(NONE, |m| self.regs_of(m)[0]);
                let span = self.span(stmt.span);
                let out = self.f.exprs[*result].ty.scalar();
                let mut vals = vec![];
                for value in self.regs_of(*value) {
                    let result = self.alloc_for(false, out);
                    let x = self.tables.warps.len() as u32;
                    self.tables.warps.push(WarpDef { op: *op, scalar, value, lane, participants: among, result, span });
                    self.emit(plain::<warp_ops::WarpStep>(), Op { x, ..nothing() });
                    vals.push(CompiledValue::Reg(result));
                }
                // Only operations of all lanes of a warp synchronize it.
                if among == NONE {
                    self.report_met(true);
                }
                self.bind(*result, vals);
            }
            StmtKind::Fence(scope) => {
                self.emit(plain::<control_flow::FenceOp>(), nothing());
                self.report_fenced(*scope);
            }
            StmtKind::If { cond, then, other } => self.if_(*cond, then, other, self.f.spans[*cond]),
            StmtKind::For { label, local, start, end, step, inclusive, body, .. } => {
                let span = self.span(stmt.span);
                let regs = [*start, *end, *step].map(|e| self.regs_of(e)[0]);
                let scalar = self.f.locals[*local].ty.scalar();
                let def = ForDef {
                    scalar,
                    inclusive: *inclusive,
                    start: regs[0],
                    end: regs[1],
                    step: regs[2],
                    form: None,
                    local: NONE,
                    trips: NONE,
                    mask: NONE,
                    span,
                };
                let at_once = self.at_once(stmt);
                self.for_(*label, *local, *start, def, body, stmt.span);
                if let Some(jump) = at_once {
                    self.patch(jump);
                }
            }
            StmtKind::Loop { label, body, .. } => self.loop_(*label, body, stmt.span),
            StmtKind::Block { label, body } => {
                let mask = self.own_mask(self.variances.early_exits.contains(label));
                self.open(Some(*label), mask, RegionKind::Plain);
                self.block(body);
                self.close(mask);
            }
            StmtKind::Break(label) => self.leave(stmt.span, |r| r.label == Some(*label) && r.kind == RegionKind::Plain),
            StmtKind::Continue(label) => {
                self.leave(stmt.span, |r| r.label == Some(*label) && r.kind == RegionKind::Iteration)
            }
            StmtKind::Return(_) => self.leave_to(0, stmt.span),
            // Prepared kernels contain no calls: all are inlined.
            StmtKind::Call { .. } => {}
            StmtKind::Assert { cond, message } => {
                let a = self.regs_of(*cond)[0];
                let (x, y) = (self.message(message), self.span(stmt.span));
                self.emit(plain::<control_flow::Assert>(), Op { a, x, y, ..nothing() });
            }
            StmtKind::Print { parts } => {
                let x = self.message(parts);
                self.emit(plain::<control_flow::Print>(), Op { x, ..nothing() });
            }
            StmtKind::Declare(memory) => {
                let x = memory.index() as u32;
                self.emit(plain::<crate::local_arrays::DeclareLocal>(), Op { x, ..nothing() });
                self.report_declared(*memory);
            }
        }
    }

    fn message(&mut self, parts: &[clk_ir::def::MessageSegment]) -> u32 {
        let f = self.f;
        let message = PrintMessage::new(parts, |e| (self.regs_of(e), f.exprs[e].ty.scalar()));
        self.tables.messages.push(message);
        self.tables.messages.len() as u32 - 1
    }

    // Values

    fn let_(&mut self, e: ExprId, number: StmtNumber, rest: &[Stmt]) {
        let f = self.f;
        if let ExprKind::Read(local) = f.exprs[e].kind {
            return self.read(e, local, rest);
        }
        self.viewing.is_allowed =
            matches!(&f.exprs[e].kind, ExprKind::Load { place, .. } if self.stays(e, place.memory, rest));
        let target = self.target_of(e, number, rest);
        self.values.target = target;
        let vals = self.expr(e);
        self.values.target = None;
        if let [CompiledValue::Reg(reg)] = *vals.as_slice()
            && target == Some(reg)
        {
            self.values.in_place.insert(e);
        }
        self.bind(e, vals);
        self.spread_if_wanted(e);
    }

    /// Returns whether the loaded elements stay unchanged until the last use of the value.
    fn stays(&self, e: ExprId, memory: MemId, rest: &[Stmt]) -> bool {
        let space = self.f.memories[memory].space;
        if matches!(space, MemorySpace::Global { access: clk_ir::def::Access::In, .. } | MemorySpace::Constant) {
            return true;
        }
        let last = self.uses.last[e];
        let mut number = self.flow.stmt;
        for stmt in rest {
            if number > last {
                return true;
            }
            let plain = matches!(stmt.kind, StmtKind::Let(_) | StmtKind::Write { .. });
            let elsewhere = matches!(&stmt.kind, StmtKind::Store { place, .. } if place.memory != memory);
            if !plain && !elsewhere {
                return false;
            }
            number += 1;
        }
        number > last
    }

    /// Emits the read of a local: an alias of its register unless the local is written before the last use.
    fn read(&mut self, e: ExprId, local: LocalId, rest: &[Stmt]) {
        let vals = self.values.locals[local.index()].clone();
        let last = self.uses.last[e];
        let mut number = self.flow.stmt;
        let mut alias = true;
        for stmt in rest {
            if number > last {
                break;
            }
            let mut inside = 0;
            let mut written = false;
            clk_ir::visit::each_stmt(std::slice::from_ref(stmt), &mut |s| {
                inside += 1;
                written |=
                    matches!(&s.kind, StmtKind::Write { local: l, .. } | StmtKind::For { local: l, .. } if *l == local);
            });
            // The last use may be the write itself: it reads before it writes.
            let is_last_write = number == last && matches!(stmt.kind, StmtKind::Write { .. });
            if written && !is_last_write {
                alias = false;
                break;
            }
            number += inside;
        }
        if alias {
            self.values.aliases.push((e, local));
            self.bind(e, vals);
        } else {
            let scalar = self.f.locals[local].ty.scalar();
            let copies = vals.iter().map(|v| self.copy(v, scalar)).collect();
            self.bind(e, copies);
        }
        self.spread_if_wanted(e);
    }

    fn copy(&mut self, val: &CompiledValue, scalar: Scalar) -> CompiledValue {
        match val {
            CompiledValue::Const(_) => val.clone(),
            // The base of an affine local advances with the loop.
            CompiledValue::Affine(affine) => {
                let mut affine = affine.clone();
                affine.base = self.copy(&affine.base, Scalar::I32);
                CompiledValue::Affine(affine)
            }
            CompiledValue::Reg(a) => {
                let d = self.alloc_for(self.is_uniform_reg(*a), scalar);
                self.emit(convert::copy(is_wide(scalar), self.isa), Op { d, a: *a, ..nothing() });
                self.computes(d, (!is_wide(scalar)).then_some(LaneTree::Reg(*a)));
                CompiledValue::Reg(d)
            }
        }
    }

    /// Returns the register of the local to which the value is about to be written, if the value has no other use and
    /// can be computed there directly.
    fn target_of(&self, e: ExprId, number: StmtNumber, rest: &[Stmt]) -> Option<Reg> {
        if self.uses.count[e] != 1 || self.f.exprs[e].ty.lanes() != 1 {
            return None;
        }
        let mut at = number + 1;
        let mut read_between = vec![];
        for stmt in rest.iter().take(16) {
            match &stmt.kind {
                StmtKind::Let(other) => {
                    if let ExprKind::Read(local) = self.f.exprs[*other].kind {
                        read_between.push(local);
                    }
                }
                StmtKind::Write { local, value } if *value == e => {
                    let in_use = |&(r, l): &(ExprId, LocalId)| l == *local && self.uses.last[r] > number;
                    let busy = read_between.contains(local) || self.values.aliases.iter().any(in_use);
                    if busy || self.variances.masked_writes.contains(&at) {
                        return None;
                    }
                    return match self.values.locals[local.index()].as_slice() {
                        [CompiledValue::Reg(reg)] => Some(*reg),
                        _ => None,
                    };
                }
                StmtKind::Write { local, .. } => read_between.push(*local),
                StmtKind::Store { .. } => {}
                _ => return None,
            }
            at += 1;
        }
        None
    }

    /// Writes all components of a local as a parallel move: reads each source register before overwriting it.
    fn write(&mut self, local: LocalId, value: ExprId, number: StmtNumber) {
        let scalar = self.f.locals[local].ty.scalar();
        let blend = self.variances.masked_writes.contains(&number);
        let to = self.values.locals[local.index()].clone();
        let from = self.regs_of(value);
        debug_assert!(self.is_unread(&to, number), "a value is wanted of a register that is overwritten");
        let moves = to.iter().zip(from).filter_map(|(to, a)| match *to {
            CompiledValue::Reg(d) if d != a => Some((d, a)),
            _ => None,
        });
        let mut moves: Vec<(Reg, Reg)> = moves.collect();
        while let Some(&(first, _)) = moves.first() {
            let is_read = |d: Reg| moves.iter().any(|&(_, a)| a == d);
            if let Some(at) = moves.iter().position(|&(d, _)| !is_read(d)) {
                let (d, a) = moves.remove(at);
                self.write_component(value, scalar, d, a, blend);
            } else if let CompiledValue::Reg(saved) = self.copy(&CompiledValue::Reg(first), scalar) {
                // The remaining moves form cycles: the value of the first register is saved and read from there.
                moves.iter_mut().filter(|(_, a)| *a == first).for_each(|(_, a)| *a = saved);
            }
        }
    }

    /// Copies register `a` to `d`, which holds a component of the value. `blend`: in active lanes only.
    fn write_component(&mut self, value: ExprId, scalar: Scalar, d: Reg, a: Reg, blend: bool) {
        let wide = is_wide(scalar);
        if blend && self.masked_write(value, d, a) {
            return;
        }
        let run = if blend { convert::blend(wide, self.isa) } else { convert::copy(wide, self.isa) };
        self.emit(run, Op { d, a, ..nothing() });
        self.computes(d, (!wide).then_some(LaneTree::Reg(a)));
        if blend {
            self.only_active();
        }
    }

    // Flow

    /// Copies the current mask into a new one and makes that current.
    pub(crate) fn copy_mask(&mut self) -> MaskId {
        let b = self.new_mask();
        let run = self.pick::<CopyMask>();
        self.emit(run, Op { b, ..nothing() });
        self.flow.mask = b;
        b
    }

    fn own_mask(&mut self, own: bool) -> Option<MaskId> {
        own.then(|| {
            let outer = self.flow.mask;
            let mask = self.copy_mask();
            self.flow.mask = outer;
            mask
        })
    }

    fn open(&mut self, label: Option<Label>, own: Option<MaskId>, kind: RegionKind) {
        let mask = own.unwrap_or(self.flow.mask);
        self.flow.scopes.push(MaskScope { label, kind, mask, owns: own.is_some(), ends: vec![] });
        self.flow.mask = mask;
    }

    /// Ends the innermost region: its pending jumps are patched to this position.
    pub(crate) fn close_region(&mut self) {
        if let Some(region) = self.flow.scopes.pop() {
            for jump in region.ends {
                self.patch(jump);
            }
        }
        self.flow.mask = self.flow.scopes.last().map_or(0, |r| r.mask);
    }

    /// As [`KernelCompiler::close_region`], and makes the surrounding region's mask current.
    fn close(&mut self, own: Option<MaskId>) {
        self.close_region();
        if let Some(mask) = own {
            self.flow.leaked.remove(&mask);
            self.flow.free_masks.push(mask);
            self.enter_current();
        }
    }

    /// Makes the surrounding region's mask current; if lanes have left that for good, `resume_after` follows.
    fn enter_current(&mut self) {
        let b = self.flow.mask;
        if self.flow.leaked.contains(&b) {
            return;
        }
        let run = self.pick::<Resume>();
        let jump = self.emit_jump(run, Op { b, ..nothing() });
        self.patch(jump);
    }

    /// Sends all active lanes to the end of the innermost region for which `is_target` holds.
    fn leave(&mut self, span: Span, is_target: impl Fn(&MaskScope) -> bool) {
        if let Some(target) = self.flow.scopes.iter().rposition(is_target) {
            self.leave_to(target, span);
        }
    }

    /// Sends all active lanes to the end of the region at this position; the function is at 0.
    fn leave_to(&mut self, target: usize, span: Span) {
        let mask = self.flow.mask;
        // Masks of the regions that are left, innermost first, up to and including the target's.
        let mut masks: Vec<MaskId> = vec![];
        for region in self.flow.scopes[target..].iter().rev() {
            if region.mask != mask && !masks.contains(&region.mask) {
                masks.push(region.mask);
            }
        }
        if masks.is_empty() {
            let jump = self.emit_jump(plain::<control_flow::JumpOp>(), nothing());
            self.flow.scopes[target].ends.push(jump);
            return;
        }
        // Regions around the target that share its mask are not left.
        self.report_left(span);
        let surrounding: Vec<MaskId> = self.flow.scopes[..target].iter().map(|r| r.mask).collect();
        masks.retain(|m| !surrounding.contains(m));
        self.flow.leaked.extend(masks.iter().copied());
        let y = self.tables.mask_lists.len() as u32;
        self.tables.mask_lists.push(masks);
        let run = self.pick::<Leave>();
        let jump = self.emit_jump(run, Op { y, ..nothing() });
        self.end_of_mask(jump);
    }

    /// Returns the region that a `break` can leave by a mere jump because all its lanes are active here.
    fn plain_exit(&self, label: Label) -> Option<usize> {
        let target = self.flow.scopes.iter().rposition(|r| r.label == Some(label) && r.kind == RegionKind::Plain)?;
        self.flow.scopes[target..].iter().all(|r| r.mask == self.flow.mask).then_some(target)
    }

    fn if_(&mut self, cond: ExprId, then: &'a Block, other: &'a Block, span: Span) {
        let from = self.flow.mask;
        let a = self.regs_of(cond)[0];
        if self.is_uniform_reg(a) && self.variances.exprs[cond] == Variance::Uniform {
            let leaver = match (then.as_slice(), other.as_slice()) {
                ([Stmt { kind: StmtKind::Break(label), .. }], []) => Some((*label, true)),
                ([], [Stmt { kind: StmtKind::Break(label), .. }]) => Some((*label, false)),
                _ => None,
            };
            if let Some((label, negate)) = leaver
                && let Some(target) = self.plain_exit(label)
            {
                let jump = self.jump_unless(cond, a, negate);
                self.flow.stmt += 1;
                self.flow.scopes[target].ends.push(jump);
                return;
            }
            let (over, parent) = (self.jump_unless(cond, a, false), self.profile.segment);
            self.open(None, None, RegionKind::Plain);
            self.branches_off(from, span, SegmentStart::Branch, parent);
            self.block(then);
            let over = match other.is_empty() {
                true => over,
                false => {
                    let end = self.emit_jump(plain::<control_flow::JumpOp>(), nothing());
                    self.patch(over);
                    self.branches_off(from, span, SegmentStart::Branch, parent);
                    self.block(other);
                    end
                }
            };
            self.close_region();
            self.patch(over);
            return;
        }
        if self.leave_where(cond, a, then, other) {
            return;
        }
        let (yes, parent) = (self.new_mask(), self.profile.segment);
        if other.is_empty() {
            let none = self.keep(cond, a, false, yes);
            self.open(None, Some(yes), RegionKind::Plain);
            self.report_parted(from, span, then, false);
            self.branches_off(from, span, SegmentStart::Branch, parent);
            self.block(then);
            if let Some(region) = self.flow.scopes.last_mut() {
                region.ends.push(none);
            }
            self.close(Some(yes));
            return;
        }
        let no = self.new_mask();
        let run = pick_wide!(self.isa, V => SplitMask<V>);
        let none = self.emit_jump(run, Op { a, b: yes, c: no, ..nothing() });
        self.open(None, Some(yes), RegionKind::Plain);
        self.report_parted(from, span, then, false);
        self.branches_off(from, span, SegmentStart::Branch, parent);
        self.block(then);
        if let Some(region) = self.flow.scopes.last_mut() {
            region.ends.push(none);
        }
        self.close_region();
        self.flow.leaked.remove(&yes);
        let run = self.pick::<Resume>();
        let none = self.emit_jump(run, Op { b: no, ..nothing() });
        self.open(None, Some(no), RegionKind::Plain);
        self.report_parted(from, span, other, false);
        self.branches_off(from, span, SegmentStart::Branch, parent);
        self.block(other);
        if let Some(region) = self.flow.scopes.last_mut() {
            region.ends.push(none);
        }
        self.close(Some(no));
        self.flow.free_masks.push(yes);
    }

    /// Emits `if cond { break }` out of the region that owns the current mask as one op.
    fn leave_where(&mut self, cond: ExprId, a: Reg, then: &Block, other: &Block) -> bool {
        if self.is_observed() && self.facts.has_meetings || self.is_profiled() {
            // The lanes that leave are reported as an event and therefore have to be the active ones for a moment.
            return false;
        }
        let (leaver, negate) = match (then.as_slice(), other.as_slice()) {
            ([stmt], []) => (stmt, true),
            ([], [stmt]) => (stmt, false),
            _ => return false,
        };
        let (label, kind) = match leaver.kind {
            StmtKind::Break(label) => (label, RegionKind::Plain),
            StmtKind::Continue(label) => (label, RegionKind::Iteration),
            _ => return false,
        };
        let mask = self.flow.mask;
        let inner = self.flow.scopes.iter().rposition(|r| r.owns && r.mask == mask);
        let target = self.flow.scopes.iter().rposition(|r| r.label == Some(label) && r.kind == kind);
        if inner != target || target.is_none() {
            return false;
        }
        let jump = self.keep(cond, a, negate, mask);
        self.flow.stmt += 1;
        self.end_of_mask(jump);
        true
    }

    fn loop_(&mut self, label: Label, body: &'a Block, span: Span) {
        self.tables.properties.is_straight = false;
        let from = self.flow.mask;
        let own = self.own_mask(self.variances.has_divergent_exit(label));
        self.report_gathered(body);
        let tree = if own.is_none() { self.tree(label, body) } else { None };
        self.open(Some(label), own, RegionKind::Plain);
        let start = self.target();
        self.report_parted(from, span, body, true);
        self.branches_off(from, span, SegmentStart::Loop, self.profile.segment);
        self.iteration(label, body);
        if let Some(tree) = tree {
            self.report_tree(tree);
        }
        if let Some(region) = self.flow.scopes.last_mut() {
            region.ends.extend(tree);
        }
        let polls = self.polls(body);
        if polls {
            self.report_polls(from, label, body, span);
        }
        if polls {
            self.poll(is_spin_loop(self.f, body) || self.idles(body), span);
        }
        let y = self.span(span);
        match own {
            Some(b) => {
                let at = self.emit_jump(plain::<control_flow::LoopBackIf>(), Op { b, y, ..nothing() });
                self.role(StripRole::Again { mask: b });
                self.writer.ops[at].x = start;
            }
            None => {
                let at = self.emit_jump(plain::<control_flow::LoopBack>(), Op { y, ..nothing() });
                self.writer.ops[at].x = start;
            }
        }
        self.close(own);
    }

    /// Emits the op at the end of an iteration of a loop that may wait for other threads; it yields to them from time
    /// to time. `waits`: the loop does nothing else.
    fn poll(&mut self, waits: bool, span: Span) {
        self.tables.properties.has_spin_loop |= waits;
        let (b, y) = (self.flow.mask, self.span(span));
        let run = if waits { plain::<control_flow::PollOp<true>>() } else { plain::<control_flow::PollOp<false>>() };
        let jump = self.emit_jump(run, Op { b, y, ..nothing() });
        if let Some(region) = self.flow.scopes.last_mut() {
            region.ends.push(jump);
        }
        // Once the warps of a block run separately, the surrounding regions may have no lanes left.
        self.flow.leaked.extend(self.flow.scopes.iter().rev().skip(1).map(|r| r.mask));
    }

    /// Emits one iteration of a loop. If the iteration had its own mask, the caller makes the loop's mask current
    /// again.
    fn iteration(&mut self, label: Label, body: &'a Block) {
        let own = self.own_mask(self.variances.early_continues.contains(&label));
        self.open(Some(label), own, RegionKind::Iteration);
        self.block(body);
        self.close_region();
        if let Some(mask) = own {
            self.flow.leaked.remove(&mask);
            self.flow.free_masks.push(mask);
        }
    }

    fn for_(&mut self, label: Label, local: LocalId, start: ExprId, mut def: ForDef, body: &'a Block, span: Span) {
        self.tables.properties.is_straight = false;
        let class = self.variances.locals[local];
        let all_uniform = [def.start, def.end, def.step].iter().all(|&r| self.is_uniform_reg(r));
        let narrow = u16::from(!is_wide(def.scalar) && def.scalar.size() == 4);
        let n = self.tables.loops.len() as u32;
        // An affine local is a uniform base that advances, with the coefficients of the start value.
        let mut base = def.start;
        if class == Variance::Affine
            && let [CompiledValue::Affine(affine)] = self.value(start).as_slice()
        {
            let mut affine = affine.clone();
            base = self.reg(&affine.base);
            def.form = Some(self.affine_index(&affine));
            let moving = self.alloc_permanent(true, def.scalar);
            affine.base = CompiledValue::Reg(moving);
            def.local = moving;
            self.values.locals[local.index()] = vec![CompiledValue::Affine(affine)];
        }
        if def.local == NONE {
            def.local = match self.values.locals[local.index()].as_slice() {
                [CompiledValue::Reg(reg)] => *reg,
                _ => NONE,
            };
        }
        let lanes_local = !self.is_uniform_reg(def.local);
        let from = self.flow.mask;
        self.report_gathered(body);
        if all_uniform && !lanes_local {
            let own = self.own_mask(self.variances.has_divergent_exit(label));
            self.tables.loops.push(def.clone());
            let none = self.emit_jump(plain::<control_flow::ForUniform>(), Op { y: n, ..nothing() });
            self.open(Some(label), own, RegionKind::Plain);
            let dot = self.reserve_dot(n);
            let top = self.target();
            self.report_parted(from, span, body, true);
            self.branches_off(from, span, SegmentStart::For, self.profile.segment);
            self.iteration(label, body);
            match own {
                None => self.try_dot(dot, &def),
                Some(_) => self.drop_dot(dot),
            }
            if let Some(b) = own {
                let run = self.pick::<Resume>();
                let jump = self.emit_jump(run, Op { b, ..nothing() });
                self.end_of_mask(jump);
            }
            if takes(body) {
                self.poll(false, span);
            }
            let op = Op { d: def.local, a: def.step, c: narrow, y: n, ..nothing() };
            let at = self.emit_jump(plain::<control_flow::NextUniform>(), op);
            self.role(StripRole::Next);
            self.writer.ops[at].x = top;
            if let Some(region) = self.flow.scopes.last_mut() {
                region.ends.push(none);
            }
            self.close(own);
            return;
        }
        let outer = self.flow.mask;
        let mask = self.new_mask();
        def.mask = mask;
        def.trips = self.alloc(CompilerRegClass::Lanes);
        self.registers.held[def.trips as usize] += 1;
        let trips = def.trips;
        self.tables.loops.push(def);
        let c = u16::from(lanes_local);
        let none = self.emit_jump(self.pick::<control_flow::ForLanes>(), Op { a: base, c, y: n, ..nothing() });
        self.flow.mask = outer;
        self.open(Some(label), Some(mask), RegionKind::Plain);
        let top = self.target();
        self.report_parted(from, span, body, true);
        self.branches_off(from, span, SegmentStart::For, self.profile.segment);
        self.iteration(label, body);
        if takes(body) {
            self.poll(false, span);
        }
        let at = self.emit_jump(self.pick::<control_flow::NextLanes>(), Op { c, y: n, ..nothing() });
        self.writer.ops[at].x = top;
        if let Some(region) = self.flow.scopes.last_mut() {
            region.ends.push(none);
        }
        self.close(Some(mask));
        self.registers.held[trips as usize] -= 1;
        self.give_back(trips);
    }

    fn barrier(&mut self, kind: BarrierKind, value: Option<ExprId>, result: Option<ExprId>, span: Span) {
        let y = self.span(span);
        if kind == BarrierKind::Block && self.flow.mask == 0 && !self.facts.waits {
            // All threads of the block are synchronized here.
            return self.report_met(false);
        }
        match kind {
            BarrierKind::Warp => {
                self.emit(plain::<warp_ops::WarpBarrier>(), Op { y, ..nothing() });
                self.report_met(true);
            }
            BarrierKind::Grid => {
                let x = control_flow::barrier_code(kind);
                self.emit(plain::<control_flow::GridBarrier>(), Op { x, y, ..nothing() });
            }
            BarrierKind::Block | BarrierKind::BlockAny | BarrierKind::BlockAll | BarrierKind::BlockCount => {
                let a = value.map_or(NONE, |v| self.regs_of(v)[0]);
                let d = match result {
                    Some(e) => {
                        let reg = self.alloc_for(true, self.f.exprs[e].ty.scalar());
                        self.bind(e, vec![CompiledValue::Reg(reg)]);
                        reg
                    }
                    None => NONE,
                };
                self.emit(
                    plain::<control_flow::Barrier>(),
                    Op { d, a, x: control_flow::barrier_code(kind), y, ..nothing() },
                );
                self.report_met(false);
            }
        }
    }
}
