//! LaneIR to machine code with AVX-512 or AVX2.
//!
//! Input: a region, where its values live, and the shape of a batch. Output: a function of the frame that returns 0 when it is done
//! and 1 where it leaves. Vectors of 4-byte lanes take a whole register, or half of one where the region has 8-byte lanes.
//!
//! Fixed registers: `r14` the frame, `r15` the iterations until the next poll, `r13` the x of the batch's first lane, `r12` four times
//! the number of its first lane. `rax`, `rcx`, `rdx`, five vectors and three masks hold nothing between instructions.
//!
//! # Two instruction sets
//! Most of the code is the same with either one, as the assembler picks the prefix. What differs lies in four files:
//! - [`mask`]: a [`Mask`] is a mask register with AVX-512. With AVX2 it is a vector register, whose 4-byte lanes are all ones or
//!   zero, also where it masks 8-byte lanes, for which it is extended. Logic, tests, comparisons and choices are methods there.
//! - [`masked`]: loads, stores, gathers and scatters under a mask. AVX2 has no scatters and no masked moves of small elements: it
//!   stores one lane after the other, and loads whole vectors or gathers.
//! - [`emulate`]: instructions that AVX2 does not have, as sequences with the same bits: 8-byte products, arithmetic shifts,
//!   minima and maxima, conversions from and to unsigned or 8-byte integers.
//! - [`exponential`]: functions that are called with AVX2, and computed in place with AVX-512.
//!
//! Scratch masks have the numbers 0, 6 and 7 in both, so that with AVX2 they are the scratch vectors `V[0]`, `V[3]` and `V[4]`:
//! whoever uses both looks out. There, too, operands in memory are whole vectors: constants of the pool are, and inputs are
//! broadcast to a scratch register first ([`Emit::src`]).

mod atomic;
mod cold;
mod control;
mod emulate;
mod exponential;
mod float;
mod mask;
mod masked;
mod memory;
mod narrow;
mod operand;
mod outline;
mod phase;
mod register;
mod scalar;
mod vector;
mod warp;

use rustc_hash::FxHashMap;

use self::cold::Cold;
use self::register::{K0, K6, K7, Mask};
use super::ahead::Ahead;
use super::alloc::{Allocation, Registers, Shape};
use super::asm::*;
use super::frame::Layout;
use crate::device::sim::isa::Isa;
use crate::device::sim::lane::{Cond as When, Elem, Exit, Inst, Node, Op, Region, Rel, Ty, Value};

/// The registers of values.
pub(crate) fn registers(isa: Isa) -> Registers {
    const GPRS: &[u8] = &[3, 5, 6, 7, 8, 9, 10, 11];
    const VECTORS: &[u8] =
        &[3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31];
    match isa {
        Isa::Avx512 => Registers { gprs: GPRS, vectors: VECTORS, masks: &[1, 2, 3, 4, 5] },
        _ => Registers { gprs: GPRS, vectors: &VECTORS[..11], masks: &[] },
    }
}

const FRAME: Gpr = Gpr::R14;
const BUDGET: Gpr = Gpr::R15;
const X: Gpr = Gpr::R13;
/// Four times the number of the batch's first lane.
const LANE: Gpr = Gpr::R12;
/// Scratch vectors.
const V: [Vreg; 5] = [Vreg(0), Vreg(1), Vreg(2), Vreg(6), Vreg(7)];

/// Iterations of a loop whose lines are still in the cache when the next block wants them, at most.
const SHORT: i32 = 16;

struct Emit<'a> {
    asm: Assembler,
    region: &'a Region,
    allocation: &'a Allocation,
    shape: Shape,
    layout: &'a Layout,
    exits: FxHashMap<Exit, Label>,
    cold: Vec<(Cold, Label, Label)>,
    leave: Label,
    next: Label,
    /// The code is for a batch: it is the body, or a phase of it.
    in_batch: bool,
    /// In a phase: the branch that skips it for a batch, and where it goes if no later batch has anything to do either.
    rest: Option<(When, Exit, Label)>,
    /// The position of the present instruction, in the allocation's numbering.
    position: u32,
    ways: Exits,
    /// The body reads coordinates of rows.
    rows: bool,
    /// The definitions of vectors of 4-byte lanes that have one.
    vectors: FxHashMap<Value, Inst>,
    ahead: Ahead,
    /// The bytes to the next block, for the other vectors of an access whose first has been emitted.
    next_block: Option<i32>,
    /// The number of long loops around the present instruction.
    loops: u32,
}

/// How the code leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Exits {
    /// Stores are logged, to be undone.
    pub logged: bool,
    /// For tests: it also leaves for no reason, at one of the checks and ends of iterations that it passes.
    pub forced: bool,
}

/// Compiles a region for a shape; `isa` is one for which places were allocated.
pub(crate) fn emit(
    isa: Isa,
    region: &Region,
    (allocation, ahead): (&Allocation, Ahead),
    layout: &Layout,
    shape: Shape,
    ways: Exits,
) -> Vec<u8> {
    let mut asm = Assembler::new(isa == Isa::Avx512);
    let (leave, next) = (asm.label(), asm.label());
    let rows = reads_rows(&region.body);
    let mut vectors = FxHashMap::default();
    let mut note = |inst: &Inst| {
        let def = region.values.get(inst.dst.index());
        if def.is_some_and(|def| def.ty == Ty::V32 && !def.mutable) {
            vectors.insert(inst.dst, *inst);
        }
    };
    region.setup.iter().for_each(&mut note);
    crate::device::sim::lane::each_inst(&region.body, &mut |inst| note(inst));
    // What phases call by names of their own is defined elsewhere.
    for (name, origin) in &region.origins {
        if let Some(def) = vectors.get(origin).copied() {
            vectors.insert(*name, def);
        }
    }
    let mut emit = Emit {
        asm,
        region,
        allocation,
        shape,
        layout,
        exits: FxHashMap::default(),
        cold: vec![],
        leave,
        next,
        in_batch: !region.has_phases(),
        rest: None,
        position: 0,
        ways,
        rows,
        vectors,
        ahead,
        next_block: None,
        loops: 0,
    };
    emit.function();
    emit.asm.finish()
}

/// Returns whether nodes read coordinates of rows.
fn reads_rows(nodes: &[Node]) -> bool {
    let mut rows = false;
    crate::device::sim::lane::each_inst(nodes, &mut |inst| rows |= matches!(inst.op, Op::Coord(1 | 2)));
    rows
}

impl Emit<'_> {
    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Inst(inst) => {
                    if !self.allocation.folds.covers(inst) {
                        self.inst(inst);
                    }
                    self.position += 1;
                }
                Node::Block(exit, body) => {
                    let label = self.asm.label();
                    self.exits.insert(*exit, label);
                    self.nodes(body);
                    self.asm.bind(label);
                }
                Node::Loop(body) => {
                    let top = self.asm.label();
                    self.asm.bind(top);
                    let long = u32::from(!self.is_short(body));
                    self.loops += long;
                    self.nodes(body);
                    self.loops -= long;
                    self.position += 1;
                    self.again(top);
                }
                Node::Each(body) => {
                    self.phase(body);
                    self.position += 1;
                }
                Node::Branch(cond, exit) => {
                    // The first one only: others may ask about the same mask later.
                    let rest = self.rest.take_if(|(skip, from, _)| skip == cond && from == exit);
                    let label = rest.map_or_else(|| self.exits[exit], |(_, _, rest)| rest);
                    self.branch(cond, label);
                    self.position += 1;
                }
            }
        }
    }

    /// Returns whether a loop is known to have few iterations.
    fn is_short(&self, body: &[Node]) -> bool {
        body.iter().any(|node| match node {
            Node::Branch(When::Scalar(Rel::Ge, Elem::I64, _, trips), _) => self.imm(*trips).is_some_and(|n| n <= SHORT),
            _ => false,
        })
    }

    fn inst(&mut self, inst: &Inst) {
        match inst.op {
            Op::Const(_)
            | Op::Input(_)
            | Op::Coord(_)
            | Op::Scalar(..)
            | Op::Set(..)
            | Op::Sext
            | Op::Zext
            | Op::Trunc
            | Op::Choose
            | Op::Limit(_)
            | Op::FirstLane
            | Op::Any => self.scalar_inst(inst),
            Op::LoadScalar(_) | Op::Load(..) | Op::Store(..) | Op::LoadReg | Op::StoreReg | Op::Output(_) => {
                self.memory_inst(inst);
            }
            Op::CheckOne | Op::CheckRow(_) | Op::CheckLanes | Op::CheckRange | Op::LeaveAny | Op::LeaveZero => {
                self.check(inst);
            }
            Op::Word(number) => {
                let x = self.gpr(inst.args[0], 0, Gpr::RAX);
                self.asm.store(Size::S64, Self::slot(self.layout.words + 8 * number as i32), x);
            }
            Op::Report => self.report(),
            Op::Barrier => {}
            Op::Keep(kept) => self.keep(kept, inst.args[0]),
            Op::Kept(kept) => self.kept(kept, inst.dst),
            Op::Touch(cell, form, note) => self.touch((cell, form, note), inst),
            Op::Move => match self.region.ty(inst.dst) {
                Ty::I32 | Ty::I64 => self.scalar_inst(inst),
                Ty::V32 | Ty::V64 => self.vector_inst(inst),
                Ty::Mask => self.mask_inst(inst),
            },
            Op::Entered => self.entered(inst),
            Op::Atomic(op, elem) => self.atomic(op, elem, inst),
            Op::Warp(op, elem) => self.warp(op, elem, inst),
            Op::Call(function, _) if self.exponential(function, inst) => {}
            Op::Call(function, _) => self.call(function, inst),
            _ if self.region.ty(inst.dst) == Ty::Mask => self.mask_inst(inst),
            _ => self.vector_inst(inst),
        }
    }

    /// Returns the pool's vector of the multiples of a step: `first`, `first + step`, …, as 32-bit lanes.
    fn multiples(&mut self, first: i32, step: i32) -> Src {
        let lanes = (0..self.shape.width as i32).map(|lane| first.wrapping_add(lane.wrapping_mul(step)));
        let bytes: Vec<u8> = lanes.flat_map(i32::to_le_bytes).collect();
        Src::Const(self.asm.constant(&bytes))
    }

    /// Returns whether the code is for AVX-512, otherwise for AVX2.
    fn evex(&self) -> bool {
        self.asm.is_evex()
    }

    fn copies(&self, value: Value) -> usize {
        self.shape.copies(self.region, value)
    }

    fn ty(&self, value: Value) -> Ty {
        self.region.ty(value)
    }

    /// Returns the length of a whole register.
    fn whole(&self) -> Len {
        if self.evex() { Len::L512 } else { Len::L256 }
    }

    /// Returns the length of a vector of this type.
    fn len(&self, ty: Ty) -> Len {
        match self.shape.width * if ty == Ty::V64 { 8 } else { 4 } {
            64 => Len::L512,
            32 => Len::L256,
            _ => Len::L128,
        }
    }
}
