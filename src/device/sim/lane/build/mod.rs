//! DeviceIR to LaneIR.
//!
//! Input: a run of statements, and what the interpreter's compiler knows about the values and locals from outside of it. Output: a
//! [`Region`], or `None` where something has no LaneIR. The idea: integers that are the same in a row, or change evenly along it and
//! with the counters of loops, stay **linear forms** as long as possible, so that addresses, checks and their extremes over whole
//! loops follow from the form; and whatever is pure is placed where its operands are known, in front of the loops around it.

mod access;
mod arith;
mod atomic;
mod expr;
mod flow;
mod form;
mod guard;
mod half;
mod linear;
mod own;
mod report;
mod supported;
mod warp;

use std::rc::Rc;

use rustc_hash::FxHashMap;

use self::form::Linear;
pub(crate) use self::supported::{Support, outside};
use super::bounds::Definitions;
use super::*;
use crate::device::sim::code::AXES;
use crate::device::sim::compile::state::Val;
use crate::device::sim::lane::guards::Guards;
use crate::ir::def::{ExprId, Function, Label, LocalId, Stmt};
use crate::ir::variance::{Number, Variances};

/// One component of an expression's value.
#[derive(Clone, Debug)]
enum Lane {
    /// The bits of a lane, the same in all lanes.
    Bits(u64),
    /// A uniform integer of 64 bits, or a uniform `bool` as 0 or 1.
    Scalar(Value),
    /// An `i32` or `u32`.
    Linear(Linear),
    Vector(Value),
    /// A `bool` that varies.
    Mask(Value),
}

/// What the interpreter's compiler knows about a region's surroundings.
#[derive(Default)]
pub(crate) struct Outside {
    pub values: FxHashMap<ExprId, Vec<Val>>,
    pub locals: FxHashMap<LocalId, Vec<Val>>,
    /// By register, whether it has the same value in all lanes.
    pub uniform: Vec<bool>,
    pub guards: Rc<Guards>,
    /// The memories of whose accesses the checker hears when they happen.
    pub told: Vec<MemId>,
}

/// Why there is no region of some statements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Refusal {
    /// So many statements have LaneIR, up to one that has none.
    Behind(usize),
    /// Not all accesses to this memory can be told of before the region runs.
    Untold(MemId),
}

/// An open region of control.
struct Frame {
    /// What `break` names (of an iteration: `continue`).
    label: Option<Label>,
    iteration: bool,
    /// The mask of the lanes inside.
    mask: Value,
    /// It is this frame's own, not that of a surrounding one.
    owns: bool,
    exit: Exit,
    /// Lanes have left for the end of a surrounding frame, so that the mask may have become empty.
    leaked: bool,
}

/// An open loop.
struct LoopScope {
    /// What goes in front of the loop.
    pre: Vec<Node>,
    /// For a loop over a range: the counter from 0, and the last one, both `i64`.
    counter: Option<(Value, Value)>,
    /// The mask in front of it.
    mask: Value,
    /// Nesting of conditions at its start.
    depth: u32,
    /// Some branch or condition may end the iteration early.
    broken: bool,
    /// The loop itself runs whenever the body around it does.
    certain: bool,
}

/// Names pure computations, to find them again.
type Known = FxHashMap<(Op, Ty, [Value; 3]), Value>;

pub(crate) struct Builder<'a> {
    f: &'a Function,
    variances: Rc<Variances>,
    guards: Rc<Guards>,
    outside: Outside,
    region: Region,
    /// How many loops, plus one, a value is inside of; 0 in the setup.
    levels: Vec<u8>,
    /// Open lists of nodes, innermost last.
    lists: Vec<Vec<Node>>,
    loops: Vec<LoopScope>,
    frames: Vec<Frame>,
    /// Scopes of known computations: the setup, the body, and each open block; with the number of loops around it.
    known: Vec<(usize, Known)>,
    values: FxHashMap<ExprId, Vec<Lane>>,
    locals: FxHashMap<LocalId, Vec<Lane>>,
    mask: Value,
    entered: Value,
    /// Nesting of conditions.
    depth: u32,
    /// All lanes that entered are still active, so that a check of all of them at once is due anyway.
    certain: bool,
    number: Number,
    exits: u32,
    /// The present expression is the same for all threads.
    uniform: bool,
    /// Instructions at the start of the body that read registers.
    starts: usize,
    /// How many of the region's statements have been built.
    built: usize,
    /// What says which checks are not needed.
    definitions: Definitions,
    /// The last values of counters, where they are known. (A loop may end before.)
    lasts: FxHashMap<Value, i64>,
    /// The number of the present outermost loop with reports, or of the present report outside of loops.
    nests: u32,
    nest: Option<u32>,
    /// Memories to which floats are added.
    sums: Vec<MemId>,
    /// See [`Refusal::Untold`].
    untold: Option<MemId>,
}

impl<'a> Builder<'a> {
    /// Builds the region of these statements, of which the first has this number; outputs follow.
    pub fn new(
        f: &'a Function,
        variances: Rc<Variances>,
        outside: Outside,
        stmts: &[Stmt],
        number: Number,
    ) -> Result<Builder<'a>, Refusal> {
        let region = Region {
            values: vec![],
            setup: vec![],
            body: vec![],
            reads: vec![],
            writes: vec![],
            memories: vec![],
            owned: vec![],
            reports: vec![],
            touches: vec![],
            accesses: vec![],
            wide: false,
            whole: None,
            together: false,
            inner: 0,
            kept: vec![],
            origins: FxHashMap::default(),
        };
        let mut builder = Builder {
            f,
            variances,
            guards: outside.guards.clone(),
            outside,
            region,
            levels: vec![],
            lists: vec![vec![]],
            loops: vec![],
            frames: vec![],
            known: vec![(0, Known::default()), (0, Known::default())],
            values: FxHashMap::default(),
            locals: FxHashMap::default(),
            mask: Value::NONE,
            entered: Value::NONE,
            depth: 0,
            certain: true,
            number,
            exits: 0,
            uniform: false,
            starts: 0,
            built: 0,
            definitions: Definitions::new(),
            lasts: FxHashMap::default(),
            nests: 0,
            nest: None,
            sums: vec![],
            untold: None,
        };
        builder.entered = builder.result(Op::Entered, Ty::Mask, &[]);
        builder.mask = builder.entered;
        builder.enter_locals(stmts).ok_or(Refusal::Behind(0))?;
        match builder.stmts(stmts) {
            Some(()) => Ok(builder),
            None => Err(builder.untold.map_or(Refusal::Behind(builder.built), Refusal::Untold)),
        }
    }

    /// Adds the values of expressions and locals that the interpreter's code behind the region reads, and completes it.
    pub fn finish(
        mut self,
        values: &[(ExprId, Vec<Val>)],
        locals: &[(LocalId, Vec<Val>)],
        fresh: &dyn Fn(Reg) -> bool,
        uniform: Vec<bool>,
    ) -> Option<Region> {
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
        self.region.wide = self.region.values.iter().any(|v| v.ty == Ty::V64);
        vary(&mut self.region);
        super::verify::debug_verify(&self.region, "the build");
        Some(self.region)
    }

    fn output(
        &mut self,
        val: &Val,
        lane: &Lane,
        scalar: Scalar,
        fresh: &dyn Fn(Reg) -> bool,
        done: &mut Vec<Reg>,
    ) -> Option<()> {
        match (val, lane) {
            (Val::Const(_), _) => Some(()),
            (Val::Affine(affine), Lane::Linear(linear)) => {
                let parts = std::iter::once((&affine.base, linear.base()))
                    .chain((0..AXES).map(|axis| (&affine.coef[axis], linear.coefficient(axis as u8))));
                for (part, atom) in parts.collect::<Vec<_>>() {
                    if let Val::Reg(reg) = *part
                        && fresh(reg)
                    {
                        let value = self.atom_value(atom);
                        self.output_uniform(reg, value, Scalar::I32, done);
                    }
                }
                // A counter of a loop inside of the region would have to be part of the base.
                linear.is_free_of_counters().then_some(())
            }
            (Val::Affine(_), _) => None,
            (&Val::Reg(reg), lane) => {
                if !fresh(reg) || done.contains(&reg) {
                    return Some(());
                }
                if self.outside.uniform[reg as usize] {
                    let value = self.uniform_value(lane, scalar)?;
                    self.output_uniform(reg, value, scalar, done);
                    return Some(());
                }
                let value = self.vector(lane, scalar);
                let address = self.pure(Op::Input(Input::Lanes(reg)), Ty::I64, &[]);
                self.push(Inst::new(Op::StoreReg, Value::NONE, &[address, value]).under(self.entered));
                self.region.writes.push(Written { reg, scalar, uniform: false });
                done.push(reg);
                Some(())
            }
        }
    }

    fn output_uniform(&mut self, reg: Reg, value: Value, scalar: Scalar, done: &mut Vec<Reg>) {
        if done.contains(&reg) {
            return;
        }
        let number = self.region.writes.iter().filter(|w| w.uniform).count() as u32;
        self.push(Inst::new(Op::Output(number), Value::NONE, &[value]));
        self.region.writes.push(Written { reg, scalar, uniform: true });
        done.push(reg);
    }

    // Values and instructions

    fn new_value(&mut self, ty: Ty, level: u8, mutable: bool) -> Value {
        let value = Value(self.region.values.len() as u32);
        self.region.values.push(ValueDef { ty, mutable, by_x: false, by_row: false });
        self.levels.push(level);
        value
    }

    /// The level of the code that is being written.
    fn level(&self) -> u8 {
        1 + self.loops.len() as u8
    }

    /// Creates a mutable value, which is defined at the present level.
    fn variable(&mut self, ty: Ty) -> Value {
        self.new_value(ty, self.level(), true)
    }

    fn push(&mut self, inst: Inst) {
        self.push_node(Node::Inst(inst));
    }

    fn push_node(&mut self, node: Node) {
        self.define(&node);
        if let Some(list) = self.lists.last_mut() {
            list.push(node);
        }
    }

    fn define(&mut self, node: &Node) {
        if let Node::Inst(inst) = node
            && inst.dst != Value::NONE
            && !self.region.values[inst.dst.index()].mutable
        {
            self.definitions.note(inst);
        }
    }

    /// Writes an instruction here; its result is a new value.
    fn result(&mut self, op: Op, ty: Ty, args: &[Value]) -> Value {
        self.result_under(op, ty, args, Value::NONE)
    }

    fn result_under(&mut self, op: Op, ty: Ty, args: &[Value], mask: Value) -> Value {
        let dst = self.new_value(ty, self.level(), false);
        self.push(Inst::new(op, dst, args).under(mask));
        dst
    }

    /// Returns the result of a pure operation on values that do not change while they are known: computed where its operands are,
    /// and only once.
    fn pure(&mut self, op: Op, ty: Ty, args: &[Value]) -> Value {
        if let Some(known) = self.known_result(op, ty, args) {
            return known;
        }
        let inst = Inst::new(op, Value::NONE, args);
        if let Some(&value) = self.known.iter().rev().find_map(|(_, known)| known.get(&(op, ty, inst.args))) {
            return value;
        }
        let own = if matches!(op, Op::Coord(_)) { 1 } else { 0 };
        let level = args.iter().map(|v| self.levels[v.index()]).max().unwrap_or(0).max(own);
        let dst = self.new_value(ty, level, false);
        self.place(level, Inst { dst, ..inst });
        self.remember(level, (op, ty, inst.args), dst);
        dst
    }

    /// Returns the constant that an operation on constants has as its result.
    fn known_result(&mut self, op: Op, ty: Ty, args: &[Value]) -> Option<Value> {
        let constants = args.iter().map(|&v| self.definitions.constant(v));
        let constants: Vec<i64> = constants.collect::<Option<_>>().filter(|all: &Vec<i64>| !all.is_empty())?;
        match (op, ty) {
            (Op::Broadcast, Ty::V32) => Some(self.splat(false, u64::from(constants[0] as u32))),
            (_, Ty::I32 | Ty::I64) => fold(op, &constants).map(|bits| self.constant(ty, bits)),
            _ => None,
        }
    }

    /// Notes what has just been placed at this level: in front of an open loop, it is known until the loop ends.
    fn remember(&mut self, level: u8, key: (Op, Ty, [Value; 3]), value: Value) {
        let scope = match level {
            0 => Some(0),
            _ if level == self.level() => None,
            _ => self.known.iter().position(|(loops, _)| *loops == level as usize),
        };
        let last = self.known.len() - 1;
        self.known[scope.unwrap_or(last)].1.insert(key, value);
    }

    /// Writes an instruction at the end of what has this level.
    fn place(&mut self, level: u8, inst: Inst) {
        let node = Node::Inst(inst);
        self.define(&node);
        match level {
            0 => self.region.setup.push(inst),
            _ if level == self.level() => self.push_node(node),
            _ => self.loops[level as usize - 1].pre.push(node),
        }
    }

    fn constant(&mut self, ty: Ty, bits: i64) -> Value {
        self.pure(Op::Const(bits), ty, &[])
    }

    fn splat(&mut self, wide: bool, bits: u64) -> Value {
        self.pure(Op::Splat(bits), if wide { Ty::V64 } else { Ty::V32 }, &[])
    }

    fn new_exit(&mut self) -> Exit {
        self.exits += 1;
        Exit(self.exits)
    }
}

/// Computes an operation on known scalars.
fn fold(op: Op, known: &[i64]) -> Option<i64> {
    let narrow = |v: i64| i64::from(v as i32);
    Some(match (op, known) {
        (Op::Sext | Op::Trunc, &[v]) => narrow(v),
        (Op::Zext, &[v]) => i64::from(v as u32),
        (Op::Scalar(bin, elem @ (Elem::I32 | Elem::I64)), &[a, b]) => {
            let value = match bin {
                Bin::Add => a.wrapping_add(b),
                Bin::Sub => a.wrapping_sub(b),
                Bin::Mul => a.wrapping_mul(b),
                Bin::Div if b > 0 => a / b,
                _ => return None,
            };
            if elem == Elem::I32 { narrow(value) } else { value }
        }
        _ => return None,
    })
}

/// Marks the values that depend on where a vector lies in its row, or on its row.
fn vary(region: &mut Region) {
    let Region { values, setup, body, .. } = region;
    let mut changed = true;
    while changed {
        changed = false;
        let mut visit = |inst: &Inst| {
            let Some(old) = values.get(inst.dst.index()).copied().filter(|v| v.ty != Ty::Mask) else { return };
            let mut new = old;
            let (by_x, by_row) = inst.varies(|v| (values[v.index()].by_x, values[v.index()].by_row));
            new.by_x |= by_x;
            new.by_row |= by_row;
            changed |= new.by_x != old.by_x || new.by_row != old.by_row;
            values[inst.dst.index()] = new;
        };
        setup.iter().for_each(&mut visit);
        each_inst(body, &mut |inst| visit(inst));
    }
}
