//! Builds LaneIR from DeviceIR.
//!
//! Input: a sequence of statements, and the interpreter's values and locals that they use. Output: a [`LaneRegion`], or
//! `None` if some statement has no LaneIR. Main idea: integers that are uniform, or affine in coordinates and loop
//! counters, stay **affine forms** as long as possible. Addresses, checks and bounds over entire loops are derived from
//! affine forms. Pure operations are hoisted to the outermost level at which their operands are available.

mod access;
mod access_reports;
mod affine_arithmetic;
mod affine_form;
mod arithmetic;
mod atomic;
mod control_flow;
mod eligibility;
mod expr;
mod float16;
mod local_arrays;
mod sanitizer_checks;
mod warp_ops;

use std::rc::Rc;

use rustc_hash::FxHashMap;

use self::affine_form::LaneAffine;
pub(crate) use self::eligibility::{RegionSupport, outside};
use super::value_ranges::ValueDefinitions;
use super::*;
use crate::code::AXES;
use crate::compile::state::CompiledValue;
use crate::lir::check_facts::CheckFacts;
use clk_ir::def::{ExprId, Function, Label, LocalId, Stmt};
use clk_ir::variance::{StmtNumber, Variances};

/// The representation of one component of an expression's value.
#[derive(Clone, Debug)]
enum ComponentValue {
    /// The bits of a constant that all lanes share.
    Bits(u64),
    /// A uniform 64-bit integer, or a uniform `bool` as 0 or 1.
    Scalar(LaneValue),
    /// An `i32` or `u32` as an affine form.
    Affine(LaneAffine),
    Vector(LaneValue),
    /// A varying `bool`.
    Mask(LaneValue),
}

/// Facts from the interpreter's compiler about a region's surroundings.
#[derive(Default)]
pub(crate) struct RegionContext {
    pub values: FxHashMap<ExprId, Vec<CompiledValue>>,
    pub locals: FxHashMap<LocalId, Vec<CompiledValue>>,
    /// For each register, whether it is uniform (has the same value in all lanes).
    pub uniform: Vec<bool>,
    pub guards: Rc<CheckFacts>,
    /// Memories whose accesses are reported to the sanitizer as they happen.
    pub reported_on_access: Vec<MemId>,
}

/// The reason why no region was built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NoRegionReason {
    /// The number of statements before the first one that has no LaneIR.
    SupportedPrefix(usize),
    /// Not all accesses to this memory can be reported before the region runs.
    NotReportable(MemId),
}

/// An open control-flow scope.
struct OpenScope {
    /// The label of the `break` statements that leave the scope. For a loop iteration (`iteration`), the label of the
    /// `continue` statements.
    label: Option<Label>,
    iteration: bool,
    /// The mask of the lanes that are active in the scope.
    mask: LaneValue,
    /// Whether the scope has its own mask rather than the mask of an enclosing scope.
    owns_mask: bool,
    exit: Exit,
    /// Set after lanes have jumped to the end of an enclosing scope. The mask may then be empty.
    lanes_left: bool,
}

/// An open loop.
struct LoopScope {
    /// The loop's preheader: code that runs before the loop.
    preheader: Vec<LaneNode>,
    /// For a loop over a range: the counter, which starts at 0, and its last value. Both are `i64`.
    counter: Option<(LaneValue, LaneValue)>,
    /// The mask of the lanes that are active before the loop.
    mask: LaneValue,
    /// The number of conditions around the loop ([`RegionFlow::depth`] at its start).
    depth: u32,
    /// Whether a jump may end an iteration early.
    may_end_early: bool,
    /// Whether every execution of the enclosing loop's body (or of the region's body) reaches this loop.
    always_runs: bool,
}

/// The control flow around the current position.
struct RegionFlow {
    loops: Vec<LoopScope>,
    frames: Vec<OpenScope>,
    mask: LaneValue,
    /// The mask of the lanes that entered the region.
    entered: LaneValue,
    /// The number of conditions around the current position.
    depth: u32,
    /// Whether no jump has removed lanes since the outermost open scope began. If `depth` is 0 as well, all lanes that
    /// entered are active.
    always_runs: bool,
}

impl RegionFlow {
    /// Closes the innermost scope, whose lanes leave it.
    fn close_scope(&mut self) -> Option<OpenScope> {
        let scope = self.frames.pop()?;
        self.mask = self.frames.last().map_or(self.entered, |f| f.mask);
        // Lanes that jumped out of the outermost scope are active again after it.
        self.always_runs |= self.frames.is_empty();
        Some(scope)
    }

    fn open_loop(&mut self, counter: Option<(LaneValue, LaneValue)>) {
        let always_runs = self.depth == self.loops.last().map_or(0, |l| l.depth)
            && self.loops.last().map_or(self.always_runs, |l| !l.may_end_early);
        self.loops.push(LoopScope {
            preheader: vec![],
            counter,
            mask: self.mask,
            depth: self.depth,
            may_end_early: false,
            always_runs,
        });
    }

    /// Records that the current iteration of each open loop may end here.
    fn mark_early_end(&mut self) {
        self.loops.iter_mut().for_each(|scope| scope.may_end_early = true);
        self.always_runs = false;
    }

    /// Returns whether all lanes that entered the region execute the current position, in every iteration of all
    /// enclosing loops.
    fn is_unconditional(&self) -> bool {
        let always = |(number, scope): (usize, &LoopScope)| match self.loops.get(number + 1) {
            Some(inner) => inner.always_runs,
            None => self.depth == scope.depth && !scope.may_end_early,
        };
        let first = match self.loops.first() {
            Some(outer) => outer.always_runs && outer.depth == 0 && outer.mask == self.entered,
            None => self.depth == 0 && self.always_runs,
        };
        let counted = self.loops.iter().all(|scope| scope.counter.is_some());
        first && counted && self.mask == self.entered && self.loops.iter().enumerate().all(always)
    }
}

/// The outermost loops with reports.
#[derive(Default)]
struct ReportNests {
    /// The number of such loops so far; each report outside loops adds one.
    count: u32,
    /// The number of the current outermost loop if it has reports.
    current: Option<u32>,
}

impl ReportNests {
    /// Returns the number of the nest of a report, and begins a nest if necessary.
    fn nest_of_report(&mut self, is_in_loop: bool) -> u32 {
        if !is_in_loop || self.current != Some(self.count) {
            self.count += 1;
            self.current = is_in_loop.then_some(self.count);
        }
        self.count
    }
}

/// Value numbering: maps pure computations to their results.
type ValueNumbering = FxHashMap<(LaneOp, LaneTy, [LaneValue; 3]), LaneValue>;

pub(crate) struct RegionBuilder<'a> {
    f: &'a Function,
    variances: Rc<Variances>,
    outside: RegionContext,
    region: LaneRegion,
    /// The level of each value's definition: 0 in the setup, otherwise 1 plus the number of enclosing loops.
    levels: Vec<u8>,
    /// The lists of nodes that are still being built: the body and the open blocks and loops, innermost last.
    lists: Vec<Vec<LaneNode>>,
    flow: RegionFlow,
    /// The scopes of value numbering: the setup, the body and each open block, each with its number of enclosing loops.
    numbering: Vec<(usize, ValueNumbering)>,
    values: FxHashMap<ExprId, Vec<ComponentValue>>,
    locals: FxHashMap<LocalId, Vec<ComponentValue>>,
    number: StmtNumber,
    exits: u32,
    /// Whether the expression that is being built has the same value for all threads.
    uniform: bool,
    /// The number of instructions at the start of the body that read registers.
    start_insts: usize,
    /// The number of statements that have been translated so far.
    built: usize,
    /// Definitions of values, from which value ranges prove checks unnecessary.
    definitions: ValueDefinitions,
    /// The last values of loop counters whose trip count is constant. A `break` may end the loop earlier.
    last_values: FxHashMap<LaneValue, i64>,
    nests: ReportNests,
    /// Memories to which an atomic of the region adds floats.
    float_sums: Vec<MemId>,
    /// See [`NoRegionReason::NotReportable`].
    not_reportable: Option<MemId>,
}

impl<'a> RegionBuilder<'a> {
    /// Builds the body of the region for these statements. [`RegionBuilder::finish`] adds the outputs. `number` is the
    /// number of the first statement.
    pub fn new(
        f: &'a Function,
        variances: Rc<Variances>,
        outside: RegionContext,
        stmts: &[Stmt],
        number: StmtNumber,
    ) -> Result<RegionBuilder<'a>, NoRegionReason> {
        let region = LaneRegion {
            values: vec![],
            setup: vec![],
            body: vec![],
            reads: vec![],
            writes: vec![],
            memories: vec![],
            owned: vec![],
            reports: vec![],
            checked_accesses: vec![],
            accesses: vec![],
            wide: false,
            full_group: None,
            has_barriers: false,
            inner: 0,
            phase_slots: vec![],
            phase_origins: FxHashMap::default(),
        };
        let mut builder = RegionBuilder {
            f,
            variances,
            outside,
            region,
            levels: vec![],
            lists: vec![vec![]],
            flow: RegionFlow {
                loops: vec![],
                frames: vec![],
                mask: LaneValue::NONE,
                entered: LaneValue::NONE,
                depth: 0,
                always_runs: true,
            },
            numbering: vec![(0, ValueNumbering::default()), (0, ValueNumbering::default())],
            values: FxHashMap::default(),
            locals: FxHashMap::default(),
            number,
            exits: 0,
            uniform: false,
            start_insts: 0,
            built: 0,
            definitions: ValueDefinitions::new(),
            last_values: FxHashMap::default(),
            nests: ReportNests::default(),
            float_sums: vec![],
            not_reportable: None,
        };
        builder.flow.entered = builder.result(LaneOp::EntryMask, LaneTy::Mask, &[]);
        builder.flow.mask = builder.flow.entered;
        builder.enter_locals(stmts).ok_or(NoRegionReason::SupportedPrefix(0))?;
        match builder.stmts(stmts) {
            Some(()) => Ok(builder),
            None => Err(builder
                .not_reportable
                .map_or(NoRegionReason::SupportedPrefix(builder.built), NoRegionReason::NotReportable)),
        }
    }

    /// Adds the outputs that the interpreter's code after the region reads, and completes the region.
    pub fn finish(
        mut self,
        values: &[(ExprId, Vec<CompiledValue>)],
        locals: &[(LocalId, Vec<CompiledValue>)],
        fresh: &dyn Fn(Reg) -> bool,
        uniform: Vec<bool>,
    ) -> Option<LaneRegion> {
        self.outside.uniform = uniform;
        let mut done = vec![];
        for (e, vals) in values {
            let lanes = self.values.get(e)?.clone();
            let scalar = self.f.exprs[*e].ty.scalar();
            for (val, lane) in vals.iter().zip(lanes) {
                self.output(val, &lane, scalar, fresh, &mut done)?;
            }
        }
        for (local, vals) in locals {
            let lanes = self.locals.get(local)?.clone();
            let scalar = self.f.locals[*local].ty.scalar();
            for (val, lane) in vals.iter().zip(lanes) {
                self.output(val, &lane, scalar, &|_| true, &mut done)?;
            }
        }
        self.finish_reports();
        self.region.body = self.lists.pop()?;
        self.region.wide = self.region.values.iter().any(|v| v.ty == LaneTy::V64);
        compute_variance(&mut self.region);
        super::verify::debug_verify(&self.region, "the build");
        self.definitions.drop_proved_checks(&mut self.region.accesses);
        Some(self.region)
    }

    fn output(
        &mut self,
        val: &CompiledValue,
        lane: &ComponentValue,
        scalar: Scalar,
        fresh: &dyn Fn(Reg) -> bool,
        done: &mut Vec<Reg>,
    ) -> Option<()> {
        match (val, lane) {
            (CompiledValue::Const(_), _) => Some(()),
            (CompiledValue::Affine(affine), ComponentValue::Affine(linear)) => {
                let parts = std::iter::once((&affine.base, linear.base))
                    .chain((0..AXES).map(|axis| (&affine.coef[axis], linear.coefficient(axis as u8))));
                for (part, atom) in parts.collect::<Vec<_>>() {
                    if let CompiledValue::Reg(reg) = *part
                        && fresh(reg)
                    {
                        let value = self.operand_value(atom);
                        self.output_uniform(reg, value, Scalar::I32, done);
                    }
                }
                // The interpreter cannot compute an output that contains the counter of a loop in the region.
                linear.is_free_of_counters().then_some(())
            }
            (CompiledValue::Affine(_), _) => None,
            (&CompiledValue::Reg(reg), lane) => {
                if !fresh(reg) || done.contains(&reg) {
                    return Some(());
                }
                if self.outside.uniform[reg as usize] {
                    let value = self.uniform_value(lane, scalar)?;
                    self.output_uniform(reg, value, scalar, done);
                    return Some(());
                }
                let value = self.vector(lane, scalar);
                let address = self.pure(LaneOp::Input(RegionInput::LaneRegister(reg)), LaneTy::I64, &[]);
                self.push(
                    LaneInst::new(LaneOp::StoreReg, LaneValue::NONE, &[address, value]).with_mask(self.flow.entered),
                );
                self.region.writes.push(WrittenRegister { reg, scalar, uniform: false });
                done.push(reg);
                Some(())
            }
        }
    }

    fn output_uniform(&mut self, reg: Reg, value: LaneValue, scalar: Scalar, done: &mut Vec<Reg>) {
        if done.contains(&reg) {
            return;
        }
        let number = self.region.writes.iter().filter(|w| w.uniform).count() as u32;
        self.push(LaneInst::new(LaneOp::Output(number), LaneValue::NONE, &[value]));
        self.region.writes.push(WrittenRegister { reg, scalar, uniform: true });
        done.push(reg);
    }

    // Values and instructions

    fn new_value(&mut self, ty: LaneTy, level: u8, mutable: bool) -> LaneValue {
        let value = LaneValue(self.region.values.len() as u32);
        self.region.values.push(ValueDef { ty, mutable, depends_on_x: false, depends_on_row: false });
        self.levels.push(level);
        value
    }

    /// Returns the level of the code that is being emitted.
    fn level(&self) -> u8 {
        1 + self.flow.loops.len() as u8
    }

    /// Creates a mutable value at the current level.
    fn variable(&mut self, ty: LaneTy) -> LaneValue {
        self.new_value(ty, self.level(), true)
    }

    fn push(&mut self, inst: LaneInst) {
        self.push_node(LaneNode::Inst(inst));
    }

    fn push_node(&mut self, node: LaneNode) {
        self.define(&node);
        if let Some(list) = self.lists.last_mut() {
            list.push(node);
        }
    }

    fn define(&mut self, node: &LaneNode) {
        if let LaneNode::Inst(inst) = node
            && inst.dst != LaneValue::NONE
            && !self.region.values[inst.dst.index()].mutable
        {
            self.definitions.note(inst);
        }
    }

    /// Emits an instruction at the current position, and returns its result.
    fn result(&mut self, op: LaneOp, ty: LaneTy, args: &[LaneValue]) -> LaneValue {
        self.result_under(op, ty, args, LaneValue::NONE)
    }

    fn result_under(&mut self, op: LaneOp, ty: LaneTy, args: &[LaneValue], mask: LaneValue) -> LaneValue {
        let dst = self.new_value(ty, self.level(), false);
        self.push(LaneInst::new(op, dst, args).with_mask(mask));
        dst
    }

    /// Returns the result of a pure operation on immutable values. Places the operation at the level of its operands,
    /// or reuses an earlier result (value numbering).
    fn pure(&mut self, op: LaneOp, ty: LaneTy, args: &[LaneValue]) -> LaneValue {
        if let Some(known) = self.known_result(op, ty, args) {
            return known;
        }
        let inst = LaneInst::new(op, LaneValue::NONE, args);
        if let Some(&value) = self.numbering.iter().rev().find_map(|(_, known)| known.get(&(op, ty, inst.args))) {
            return value;
        }
        let own = if matches!(op, LaneOp::Coord(_)) { 1 } else { 0 };
        let level = args.iter().map(|v| self.levels[v.index()]).max().unwrap_or(0).max(own);
        let dst = self.new_value(ty, level, false);
        self.place(level, LaneInst { dst, ..inst });
        self.remember(level, (op, ty, inst.args), dst);
        dst
    }

    /// Returns the folded result of an operation on constants, or `None` if it cannot be folded.
    fn known_result(&mut self, op: LaneOp, ty: LaneTy, args: &[LaneValue]) -> Option<LaneValue> {
        let constants = args.iter().map(|&v| self.definitions.constant(v));
        let constants: Vec<i64> = constants.collect::<Option<_>>().filter(|all: &Vec<i64>| !all.is_empty())?;
        match (op, ty) {
            (LaneOp::Broadcast, LaneTy::V32) => Some(self.splat(false, u64::from(constants[0] as u32))),
            (_, LaneTy::I32 | LaneTy::I64) => fold_constants(op, &constants).map(|bits| self.constant(ty, bits)),
            _ => None,
        }
    }

    /// Records the result of an operation at this level for value numbering. A result that is computed before an open
    /// loop is available until that loop ends.
    fn remember(&mut self, level: u8, key: (LaneOp, LaneTy, [LaneValue; 3]), value: LaneValue) {
        let scope = match level {
            0 => Some(0),
            _ if level == self.level() => None,
            _ => self.numbering.iter().position(|(loops, _)| *loops == level as usize),
        };
        let last = self.numbering.len() - 1;
        self.numbering[scope.unwrap_or(last)].1.insert(key, value);
    }

    /// Appends an instruction to the code of this level: the setup, the current list of nodes, or a loop's preheader.
    fn place(&mut self, level: u8, inst: LaneInst) {
        let node = LaneNode::Inst(inst);
        self.define(&node);
        match level {
            0 => self.region.setup.push(inst),
            _ if level == self.level() => self.push_node(node),
            _ => self.flow.loops[level as usize - 1].preheader.push(node),
        }
    }

    fn constant(&mut self, ty: LaneTy, bits: i64) -> LaneValue {
        self.pure(LaneOp::Const(bits), ty, &[])
    }

    fn splat(&mut self, wide: bool, bits: u64) -> LaneValue {
        self.pure(LaneOp::Splat(bits), if wide { LaneTy::V64 } else { LaneTy::V32 }, &[])
    }

    fn new_exit(&mut self) -> Exit {
        self.exits += 1;
        Exit(self.exits)
    }
}

/// Folds an operation on constant scalars.
fn fold_constants(op: LaneOp, operands: &[i64]) -> Option<i64> {
    let narrow = |v: i64| i64::from(v as i32);
    Some(match (op, operands) {
        (LaneOp::Sext | LaneOp::Trunc, &[v]) => narrow(v),
        (LaneOp::Zext, &[v]) => i64::from(v as u32),
        (LaneOp::Scalar(bin, elem @ (LaneElem::I32 | LaneElem::I64)), &[a, b]) => {
            let value = match bin {
                LaneBinOp::Add => a.wrapping_add(b),
                LaneBinOp::Sub => a.wrapping_sub(b),
                LaneBinOp::Mul => a.wrapping_mul(b),
                LaneBinOp::Div if b > 0 => a / b,
                _ => return None,
            };
            if elem == LaneElem::I32 { narrow(value) } else { value }
        }
        _ => return None,
    })
}

/// Computes which values depend on the vector's position in its row or on the row.
fn compute_variance(region: &mut LaneRegion) {
    let LaneRegion { values, setup, body, .. } = region;
    let mut changed = true;
    while changed {
        changed = false;
        let mut update = |inst: &LaneInst| {
            let Some(old) = values.get(inst.dst.index()).copied().filter(|v| v.ty != LaneTy::Mask) else { return };
            let mut new = old;
            let (depends_on_x, depends_on_row) =
                inst.variance(|v| (values[v.index()].depends_on_x, values[v.index()].depends_on_row));
            new.depends_on_x |= depends_on_x;
            new.depends_on_row |= depends_on_row;
            changed |= new.depends_on_x != old.depends_on_x || new.depends_on_row != old.depends_on_row;
            values[inst.dst.index()] = new;
        };
        setup.iter().for_each(&mut update);
        for_each_inst(body, &mut |inst| update(inst));
    }
}
