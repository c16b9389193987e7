//! Combines runs of pure arithmetic ops into strips (`sim::strip`): small programs for two accumulators that store only
//! values with later uses.
//!
//! Each op of the body carries its [`StripRole`]. When the body is complete, adjacent ops without a jump target between
//! them are combined. A data flow analysis of the run finds temporaries that are dead after it; they need no register.

use super::state::{Dies, LaneTree, OpClass, StripRole};
use super::*;
use crate::lanes::pick_wide;
use crate::store::{RedirectStore, StoreUnlessRedirected};
use crate::strip::{self, Micro, PLACES, SCRATCH, StripDef, StripOpcode as Act, StripOperand};
use clk_ir::variance::StmtNumber;
use clk_scalar::Scalar;
use clk_scalar::ops::{MathFn, UnaryOp};

/// Returns the strip operation of a binary operator, if there is one.
pub(crate) fn act_of(op: BinOp, scalar: Scalar) -> Option<Act> {
    Some(match (op, scalar) {
        (BinOp::Add, Scalar::F32) => Act::Add,
        (BinOp::Sub, Scalar::F32) => Act::Sub,
        (BinOp::Mul, Scalar::F32) => Act::Mul,
        (BinOp::Div, Scalar::F32) => Act::Div,
        (BinOp::Lt, Scalar::F32) => Act::Lt,
        (BinOp::Le, Scalar::F32) => Act::Le,
        (BinOp::Gt, Scalar::F32) => Act::Gt,
        (BinOp::Ge, Scalar::F32) => Act::Ge,
        (BinOp::Eq, Scalar::F32) => Act::Eq,
        (BinOp::Ne, Scalar::F32) => Act::Ne,
        (BinOp::Add, Scalar::I32 | Scalar::U32) => Act::AddI,
        (BinOp::Sub, Scalar::I32 | Scalar::U32) => Act::SubI,
        (BinOp::Mul, Scalar::I32 | Scalar::U32) => Act::MulI,
        (BinOp::Lt, Scalar::I32) => Act::LtI,
        (BinOp::Le, Scalar::I32) => Act::LeI,
        (BinOp::Gt, Scalar::I32) => Act::GtI,
        (BinOp::Ge, Scalar::I32) => Act::GeI,
        (BinOp::Lt, Scalar::U32) => Act::LtU,
        (BinOp::Le, Scalar::U32) => Act::LeU,
        (BinOp::Gt, Scalar::U32) => Act::GtU,
        (BinOp::Ge, Scalar::U32) => Act::GeU,
        (BinOp::Eq, Scalar::I32 | Scalar::U32 | Scalar::Bool) => Act::EqI,
        (BinOp::Ne, Scalar::I32 | Scalar::U32 | Scalar::Bool) => Act::NeI,
        (BinOp::And, Scalar::I32 | Scalar::U32 | Scalar::Bool) => Act::And,
        (BinOp::Or, Scalar::I32 | Scalar::U32 | Scalar::Bool) => Act::Or,
        (BinOp::Xor, Scalar::I32 | Scalar::U32 | Scalar::Bool) => Act::Xor,
        _ => return None,
    })
}

pub(crate) fn act_of_unary(op: UnaryOp, scalar: Scalar) -> Option<Act> {
    match (op, scalar) {
        (UnaryOp::Neg, Scalar::F32) => Some(Act::Neg),
        (UnaryOp::Neg, Scalar::I32 | Scalar::U32) => Some(Act::NegI),
        (UnaryOp::Not, Scalar::Bool | Scalar::I32 | Scalar::U32) => Some(Act::Not),
        _ => None,
    }
}

pub(crate) fn act_of_math(function: MathFn, scalar: Scalar) -> Option<Act> {
    match (function, scalar) {
        (MathFn::Min, Scalar::F32) => Some(Act::Min),
        (MathFn::Max, Scalar::F32) => Some(Act::Max),
        (MathFn::Abs, Scalar::F32) => Some(Act::Abs),
        (MathFn::Sqrt, Scalar::F32) => Some(Act::Sqrt),
        (MathFn::Rsqrt, Scalar::F32) => Some(Act::Rsqrt),
        (MathFn::Fma, Scalar::F32) => Some(Act::Fma),
        _ => None,
    }
}

pub(crate) fn act_of_conversion(from: Scalar, to: Scalar) -> Option<Act> {
    match (from, to) {
        (Scalar::I32, Scalar::F32) => Some(Act::FromI),
        (Scalar::U32, Scalar::F32) => Some(Act::FromU),
        _ => None,
    }
}

/// The largest weight of a strip, in values.
const LIMIT: usize = 32;

impl<'a> KernelCompiler<'a> {
    /// Sets the role of the op written last.
    pub fn role(&mut self, role: StripRole) {
        if self.writer.section == CodeSection::Body
            && let Some(mark) = self.writer.annotations.last_mut()
        {
            mark.role = role;
        }
    }

    /// Sets the class of the op written last.
    pub(crate) fn sort(&mut self, sort: OpClass) {
        if self.writer.section == CodeSection::Body
            && let Some(mark) = self.writer.annotations.last_mut()
        {
            mark.sort = sort;
        }
    }

    /// Returns the notes of the accesses that ops from position `from` report.
    pub(crate) fn touches(&self, from: usize) -> Vec<u32> {
        let reports = self.writer.ops[from..]
            .iter()
            .zip(&self.writer.annotations[from..])
            .filter(|(_, mark)| mark.sort == OpClass::ReportedAccess);
        reports.map(|(op, _)| op.x).collect()
    }

    /// Declares that the only effect of the op written last is to compute the 4-byte register `d`.
    pub fn computes(&mut self, d: Reg, tree: Option<LaneTree>) {
        let role = match tree {
            _ if self.is_uniform_reg(d) => StripRole::Early { writes: vec![d] },
            Some(tree) => StripRole::Lanes { d, tree, masked: false },
            None => StripRole::Other,
        };
        self.role(role);
    }

    /// Like [`Self::computes`], for one operation on registers.
    pub fn computed(&mut self, val: &CompiledValue, act: Option<Act>, regs: &[Reg]) {
        if let CompiledValue::Reg(d) = *val {
            self.computes(d, act.map(|act| LaneTree::of(act, regs)));
        }
    }

    /// Declares that only active lanes of the result of the op written last are stored.
    pub(crate) fn only_active(&mut self) {
        if let Some(OpAnnotation { role: StripRole::Lanes { masked, .. }, .. }) = self.writer.annotations.last_mut() {
            *masked = true;
        }
    }

    /// Completes a statement: records the ends of the live ranges of its results.
    pub(crate) fn settle(&mut self, stmt: &StmtKind, number: StmtNumber) {
        let last = match stmt {
            StmtKind::Let(e) => Some(self.uses.last[*e].max(number)),
            StmtKind::Write { .. } => Some(number),
            _ => None,
        };
        let held = &self.registers.held;
        for mark in self.writer.annotations.iter_mut().rev().take_while(|n| n.dies == Dies::Unknown) {
            mark.dies = match (&mark.role, last) {
                (StripRole::Lanes { d, .. }, Some(last)) if held[*d as usize] < PERMANENT => Dies::After(last),
                _ => Dies::Never,
            };
        }
    }

    /// Rewrites the body, with strips in place of runs of arithmetic.
    pub(crate) fn make_strips(&mut self) {
        let ops = std::mem::take(&mut self.writer.ops);
        let marks = std::mem::take(&mut self.writer.annotations);
        let mut is_target = vec![false; ops.len() + 1];
        let mut jumps = vec![false; ops.len()];
        for &jump in &self.writer.jumps {
            is_target[ops[jump].x as usize] = true;
            jumps[jump] = true;
        }
        // The new position of each op, or of the op that replaces it.
        let mut moved = vec![0; ops.len() + 1];
        let mut done: Vec<Op> = Vec::with_capacity(ops.len());
        let mut new_jumps = vec![];
        let mut at = 0;
        while at < ops.len() {
            let end = run_end(&marks, &is_target, at);
            if let Some(def) = self.strip_with_store(&marks, &is_target, at, end) {
                moved[at..=end].fill(done.len() as u32);
                done.extend(early(&marks, at, end).map(|k| ops[k]));
                let x = ops[end].x;
                if let Some(access) = self.tables.accesses.get_mut(x as usize) {
                    access.regs = self.viewing.store.into_iter().collect();
                }
                done.push(Op { run: plain::<RedirectStore>(), x, ..nothing() });
                let y = self.push_strip(def);
                done.push(Op { run: strip::strip(self.isa).0, y, ..nothing() });
                done.push(Op { run: pick_wide!(self.isa, V => StoreUnlessRedirected<V>), x, ..nothing() });
                at = end + 1;
            } else if let Some(def) = self.strip_of(&marks, at, end, None) {
                moved[at..end].fill(done.len() as u32);
                done.extend(early(&marks, at, end).map(|k| ops[k]));
                let body = matches!(marks[end].role, StripRole::Next) && ops[end].x as usize == at;
                let keep = (at..end).find(|&k| matches!(marks[k].role, StripRole::Keep { .. }));
                let iterations = body && keep.is_none() && self.stays_put(&def);
                if keep.is_some() || iterations {
                    new_jumps.push(done.len());
                }
                let x = keep.map_or(at as u32, |k| ops[k].x);
                let (once, whole_loop) = strip::strip(self.isa);
                let again = matches!(&marks[end].role, StripRole::Again { mask } if def.kept == Some(*mask));
                let goes_back = again && ops[end].x as usize == at && x as usize == end + 1;
                let run = if goes_back && early(&marks, at, end).next().is_none() { whole_loop } else { once };
                let y = self.push_strip(def);
                done.push(Op { run, c: if iterations { strip::TURNS } else { NONE }, x, y, ..nothing() });
                at = end;
            } else {
                let end = end.max(at + 1);
                for k in at..end {
                    moved[k] = done.len() as u32;
                    if jumps[k] {
                        new_jumps.push(done.len());
                    }
                    done.push(ops[k]);
                }
                at = end;
            }
        }
        moved[ops.len()] = done.len() as u32;
        for &jump in &new_jumps {
            done[jump].x = moved[done[jump].x as usize];
        }
        (self.writer.ops, self.writer.jumps) = (done, new_jumps);
        self.tables.registers.stored_columns = self.count_touched();
    }

    /// Returns whether the registers of the strip stay at their addresses, that is, none of them is a view.
    fn stays_put(&self, def: &StripDef) -> bool {
        let moves = |p: &StripOperand| matches!(p, StripOperand::Reg(reg) if self.registers.classes[*reg as usize] == state::CompilerRegClass::View);
        !def.places.iter().any(moves)
    }

    fn push_strip(&mut self, def: StripDef) -> u32 {
        self.tables.strips.push(def);
        self.tables.strips.len() as u32 - 1
    }

    /// Builds the strip of a run whose result the next op stores, which writes memory directly instead of a register.
    fn strip_with_store(
        &mut self,
        marks: &[OpAnnotation],
        is_target: &[bool],
        start: usize,
        end: usize,
    ) -> Option<StripDef> {
        let StripRole::Store { value, memory } = marks.get(end)?.role else {
            return None;
        };
        let keeps = marks[start..end].iter().any(|m| matches!(m.role, StripRole::Keep { .. }));
        if keeps || is_target[end] {
            return None;
        }
        let aim = match self.viewing.store {
            Some(reg) => reg,
            None => self.new_reg(state::CompilerRegClass::View),
        };
        self.viewing.store = Some(aim);
        let mut def = self.strip_of(marks, start, end, Some((value, aim)))?;
        // Memory beyond a block's rows belongs to other workers.
        let global = matches!(self.tables.memories[memory as usize].kind, MemoryKind::Global(_));
        if global && matches!(self.kernel.form, LaunchForm::Threads { .. }) {
            def.fetch_ahead(StripOperand::Reg(aim));
        }
        // The strip stores some chunks while others are still to be loaded.
        let overlaps = |place: &StripOperand| {
            self.viewing.regs.iter().any(|&(reg, m)| m == memory && *place == StripOperand::Reg(reg))
        };
        (!def.places.iter().any(overlaps)).then_some(def)
    }

    /// Counts the lane columns of registers that ops or strips name. Also counts op fields that are not registers but
    /// have the number of one.
    fn count_touched(&self) -> usize {
        let mut touched: FxHashSet<Reg> = FxHashSet::default();
        for op in self.writer.ops.iter().chain(&self.writer.prologue) {
            touched.extend([op.d, op.a, op.b, op.c]);
        }
        touched.extend(self.tables.accesses.iter().flat_map(|a| &a.regs));
        touched.extend(self.tables.accesses.iter().flat_map(|a| &a.axes).map(|i| i.base));
        touched.extend(&self.tables.registers.masks);
        touched.extend(self.tables.strips.iter().flat_map(|s| &s.places).filter_map(|p| match p {
            StripOperand::Reg(reg) => Some(*reg),
            StripOperand::Scratch(_) | StripOperand::Mask | StripOperand::Kept(_) => None,
        }));
        let columns = |&reg: &Reg| match self.registers.classes.get(reg as usize) {
            Some(state::CompilerRegClass::Lanes) => 1,
            Some(state::CompilerRegClass::LanesWide) => 2,
            _ => 0,
        };
        touched.iter().map(columns).sum()
    }

    /// Builds the program of a run of ops, if it pays. `stored`: the result that the op after the run stores, and the
    /// register that receives it instead of its own.
    fn strip_of(
        &self,
        marks: &[OpAnnotation],
        start: usize,
        end: usize,
        stored: Option<(Reg, Reg)>,
    ) -> Option<StripDef> {
        let next = marks.get(end + usize::from(stored.is_some())).map_or(StmtNumber::MAX, |n| n.number);
        let mut writer = StripWriter::default();
        for mark in &marks[start..end] {
            match &mark.role {
                StripRole::Lanes { d, tree, masked } => {
                    let value = writer.tree(tree);
                    let stays = !matches!(mark.dies, Dies::After(last) if last + 1 < next);
                    writer.define(*d, value, *masked, stays);
                }
                StripRole::Keep { conditions, negate, mask } => {
                    writer.keep(conditions, *negate, *mask, self.tables.registers.masks[usize::from(*mask)]);
                }
                _ => {}
            }
        }
        if let Some((from, to)) = stored {
            let value = writer.current.get(&from).copied().filter(|&v| writer.values[v].act.is_some())?;
            writer.define(to, value, true, false);
        }
        if writer.weight() < 2 {
            return None;
        }
        writer.write()
    }
}

/// Returns the ops of a run that are hoisted above its strip.
fn early(marks: &[OpAnnotation], start: usize, end: usize) -> impl Iterator<Item = usize> + '_ {
    (start..end).filter(|&k| matches!(marks[k].role, StripRole::Early { .. }))
}

/// Returns the end of the run of ops that starts here; `start` if there is none.
fn run_end(marks: &[OpAnnotation], is_target: &[bool], start: usize) -> usize {
    let mut touched: Vec<Reg> = vec![];
    let (mut end, mut weight, mut kept) = (start, 0, false);
    while let Some(mark) = marks.get(end) {
        if end > start && is_target[end] || weight >= LIMIT {
            break;
        }
        match &mark.role {
            StripRole::Other | StripRole::Next | StripRole::Again { .. } | StripRole::Store { .. } => break,
            StripRole::Lanes { d, tree, .. } => {
                weight += tree.weight();
                touched.push(*d);
                tree.each_reg(&mut |r| touched.push(r));
            }
            StripRole::Keep { conditions, .. } => {
                if kept {
                    break;
                }
                kept = true;
                touched.extend(conditions);
            }
            StripRole::Early { writes } => {
                if kept || writes.iter().any(|r| touched.contains(r)) {
                    break;
                }
            }
        }
        end += 1;
    }
    end
}

impl LaneTree {
    fn weight(&self) -> usize {
        match self {
            LaneTree::Reg(_) => 0,
            LaneTree::Act(_, args) => 1 + args.iter().map(LaneTree::weight).sum::<usize>(),
        }
    }

    fn each_reg(&self, f: &mut impl FnMut(Reg)) {
        match self {
            LaneTree::Reg(reg) => f(*reg),
            LaneTree::Act(_, args) => args.iter().for_each(|a| a.each_reg(f)),
        }
    }

    pub fn of(act: Act, regs: &[Reg]) -> LaneTree {
        LaneTree::Act(act, regs.iter().map(|&r| LaneTree::Reg(r)).collect())
    }
}

type ValueId = usize;

/// A value in a strip.
struct StripValue {
    /// `None` for values that are in a register before the strip.
    act: Option<Act>,
    args: Vec<ValueId>,
    /// Uses whose code has not been written yet.
    uses: u32,
    /// The operand from which the value can be loaded after the first `since` events.
    place: Option<StripOperand>,
    since: usize,
}

/// An effect of the strip; effects are written in order.
enum StripEffect {
    Write {
        reg: Reg,
        value: ValueId,
        masked: bool,
    },
    Keep {
        conditions: Vec<ValueId>,
        negate: bool,
        mask: MaskId,
        /// The register that contains the mask.
        reg: Reg,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Acc {
    A,
    B,
}

/// The code generator of one strip.
#[derive(Default)]
struct StripWriter {
    values: Vec<StripValue>,
    /// The values that registers hold.
    current: FxHashMap<Reg, ValueId>,
    events: Vec<StripEffect>,
    def: StripDef,
    scratch_free: Vec<u8>,
    scratch_used: u8,
    /// The value that each accumulator still holds.
    holds: [Option<ValueId>; 2],
    mask: Option<MaskId>,
    /// Number of events written so far.
    passed: usize,
    too_large: bool,
}

impl StripWriter {
    fn value(&mut self, act: Option<Act>, args: Vec<ValueId>, place: Option<StripOperand>) -> ValueId {
        for &a in &args {
            self.values[a].uses += 1;
        }
        self.values.push(StripValue { act, args, uses: 0, place, since: 0 });
        self.values.len() - 1
    }

    fn reg(&mut self, reg: Reg) -> ValueId {
        if let Some(&value) = self.current.get(&reg) {
            return value;
        }
        let value = self.value(None, vec![], Some(StripOperand::Reg(reg)));
        self.current.insert(reg, value);
        value
    }

    fn tree(&mut self, tree: &LaneTree) -> ValueId {
        match tree {
            LaneTree::Reg(reg) => self.reg(*reg),
            LaneTree::Act(act, args) => {
                let args = args.iter().map(|a| self.tree(a)).collect();
                self.value(Some(*act), args, None)
            }
        }
    }

    fn define(&mut self, reg: Reg, value: ValueId, masked: bool, stays: bool) {
        if stays || masked {
            self.values[value].uses += 1;
            self.events.push(StripEffect::Write { reg, value, masked });
        }
        // After a masked write the register holds old and new lanes.
        let mut now = value;
        if masked {
            now = self.value(None, vec![], Some(StripOperand::Reg(reg)));
            self.values[now].since = self.events.len();
        }
        self.current.insert(reg, now);
    }

    /// Adds the effect that only lanes where the conditions hold (or do not, if `negate`) stay in the mask.
    fn keep(&mut self, conditions: &[Reg], negate: bool, mask: MaskId, reg: Reg) {
        let conditions: Vec<ValueId> = conditions.iter().map(|&r| self.reg(r)).collect();
        conditions.iter().for_each(|&c| self.values[c].uses += 1);
        self.events.push(StripEffect::Keep { conditions, negate, mask, reg });
    }

    fn weight(&self) -> usize {
        // A single `rsqrt` already pays: strips have a faster one.
        let of = |v: &StripValue| usize::from(v.act.is_some()) + usize::from(v.act == Some(Act::Rsqrt));
        self.values.iter().map(of).sum::<usize>() + self.events.len() / 2
    }

    fn write(mut self) -> Option<StripDef> {
        for event in std::mem::take(&mut self.events) {
            match event {
                StripEffect::Write { reg, value, masked } => self.write_reg(reg, value, masked),
                StripEffect::Keep { conditions, negate, mask, reg } => self.write_keep(&conditions, negate, mask, reg),
            }
            self.passed += 1;
        }
        let fits = !self.too_large && self.def.places.len() <= PLACES;
        (fits && !self.def.micros.is_empty()).then_some(self.def)
    }

    fn write_reg(&mut self, reg: Reg, value: ValueId, masked: bool) {
        let here = StripOperand::Reg(reg);
        if self.values[value].place == Some(here) && !masked {
            self.values[value].uses -= 1;
            return;
        }
        self.bring(value, Acc::A);
        self.values[value].uses -= 1;
        self.rescue(here);
        if masked {
            self.store_if_wanted(value, Acc::A);
            let mask = self.mask.map_or(StripOperand::Mask, StripOperand::Kept);
            self.emit(Act::StoreMasked, &[here, mask]);
        } else {
            self.free(value);
            self.store(Acc::A, here);
            self.values[value].place = Some(here);
            self.holds[0] = Some(value);
        }
    }

    /// Spills values that are still live in a register that is about to be overwritten.
    fn rescue(&mut self, here: StripOperand) {
        for v in 0..self.values.len() {
            let value = &self.values[v];
            if value.place == Some(here) && value.since <= self.passed && value.uses > 0 {
                self.emit(Act::LoadB, &[here]);
                let to = self.scratch();
                self.emit(Act::StoreB, &[to]);
                self.values[v].place = Some(to);
            }
        }
    }

    fn write_keep(&mut self, conditions: &[ValueId], negate: bool, mask: MaskId, reg: Reg) {
        let Some((&first, others)) = conditions.split_first() else {
            return;
        };
        others.iter().for_each(|&other| self.settle(other));
        self.take(first, Acc::A);
        for &other in others {
            let place = self.spend(other);
            self.emit(Act::And, &[place]);
        }
        // The strip may still need the old value of the mask register: it computes some uses later than the kernel
        // does.
        self.rescue(StripOperand::Reg(reg));
        let act = if negate { Act::KeepNot } else { Act::Keep };
        self.emit(act, &[StripOperand::Kept(mask), StripOperand::Mask]);
        self.mask = Some(mask);
        self.def.kept = Some(mask);
    }
}

mod write;
