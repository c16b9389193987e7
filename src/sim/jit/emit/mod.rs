//! Emits machine code from LaneIR, with AVX-512 or AVX2.
//!
//! Input: a region, the locations of its values, and the shape of a batch. Output: a function that takes the address of
//! the frame. It returns 0 at its end, and 1 after a side exit. Main idea: most code is the same for both instruction
//! sets, because the assembler picks the encoding. The differences are in [`mask`], [`masked_memory`],
//! [`avx2_emulation`] and [`exp_log`]. `docs/internals/jit.md` lists the fixed registers and the differences between
//! the instruction sets.

mod atomic;
mod avx2_emulation;
mod cold_paths;
mod control;
mod exp_log;
mod float;
mod mask;
mod mask_register;
mod masked_memory;
mod memory;
mod narrow_gather;
mod operand;
mod out_of_line;
mod phase;
mod scalar;
mod vector;
mod warp;

use rustc_hash::FxHashMap;

use self::cold_paths::ColdPath;
use self::mask_register::{K0, K6, K7, MaskRegister};
use super::asm::*;
use super::block_prefetch::PrefetchDistances;
use super::frame::FrameLayout;
use super::register_allocation::{AllocatableRegisters, BatchShape, RegisterAllocation};
use crate::lir::{
    BranchCond, Exit, LaneComparison, LaneElem, LaneInst, LaneNode, LaneOp, LaneRegion, LaneTy, LaneValue,
};
use clk_runtime::Isa;

/// The registers that are available for values.
pub(crate) fn registers(isa: Isa) -> AllocatableRegisters {
    const GPRS: &[u8] = &[3, 5, 6, 7, 8, 9, 10, 11];
    const VECTORS: &[u8] =
        &[3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31];
    match isa {
        Isa::Avx512 => AllocatableRegisters { gprs: GPRS, vectors: VECTORS, masks: &[1, 2, 3, 4, 5] },
        _ => AllocatableRegisters { gprs: GPRS, vectors: &VECTORS[..11], masks: &[] },
    }
}

const FRAME: Gpr = Gpr::R14;
const BUDGET: Gpr = Gpr::R15;
const X: Gpr = Gpr::R13;
/// Four times the number of the batch's first lane.
const LANE: Gpr = Gpr::R12;
/// Vector registers for intermediate results, which the register allocator does not use.
const V: [Vreg; 5] = [Vreg(0), Vreg(1), Vreg(2), Vreg(6), Vreg(7)];

/// Maximum trip count of a loop in which prefetching for the next block is useful. In longer loops, the prefetched
/// cache lines would be evicted before the next block uses them.
const SHORT_TRIP_COUNT: i32 = 16;

struct RegionEmitter<'a> {
    asm: Assembler,
    region: &'a LaneRegion,
    allocation: &'a RegisterAllocation,
    shape: BatchShape,
    layout: &'a FrameLayout,
    exits: FxHashMap<Exit, CodeLabel>,
    cold: Vec<(ColdPath, CodeLabel, CodeLabel)>,
    leave: CodeLabel,
    next: CodeLabel,
    /// Whether the current code runs for each batch, because it is in the body of a region without phases, or in a
    /// phase.
    in_batch: bool,
    /// The branch that skips the current phase for a batch if all later batches can be skipped as well, and the label
    /// after the loop over batches.
    rest: Option<(BranchCond, Exit, CodeLabel)>,
    /// The position of the current instruction, as numbered by the register allocator.
    position: u32,
    ways: ExitOptions,
    /// Whether the current code reads the y or z coordinate.
    rows: bool,
    /// The definitions of immutable vectors with 4-byte lanes.
    vectors: FxHashMap<LaneValue, LaneInst>,
    prefetch: PrefetchDistances,
    /// The prefetch distance in bytes of the current access. It is computed for the first vector and reused for the
    /// others.
    next_block: Option<i32>,
    /// The number of long loops around the current instruction.
    loops: u32,
}

/// How the code handles side exits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExitOptions {
    /// Whether stores are logged, so that a side exit can undo them.
    pub logged: bool,
    /// For tests: whether the code also takes a side exit at a random check or end of an iteration, although no check
    /// fails.
    pub forced: bool,
}

/// Emits the code of a region for a batch shape. Registers must have been allocated for `isa`.
pub(crate) fn emit(
    isa: Isa,
    region: &LaneRegion,
    allocation: &RegisterAllocation,
    prefetch: PrefetchDistances,
    layout: &FrameLayout,
    shape: BatchShape,
    ways: ExitOptions,
) -> Vec<u8> {
    let mut asm = Assembler::new(isa == Isa::Avx512);
    let (leave, next) = (asm.label(), asm.label());
    let rows = reads_rows(&region.body);
    let mut vectors = FxHashMap::default();
    let mut note = |inst: &LaneInst| {
        let def = region.values.get(inst.dst.index());
        if def.is_some_and(|def| def.ty == LaneTy::V32 && !def.mutable) {
            vectors.insert(inst.dst, *inst);
        }
    };
    region.setup.iter().for_each(&mut note);
    crate::lir::for_each_inst(&region.body, &mut |inst| note(inst));
    // A value that was created by renaming for a phase has the definition of the original value.
    for (name, origin) in &region.phase_origins {
        if let Some(def) = vectors.get(origin).copied() {
            vectors.insert(*name, def);
        }
    }
    let mut emit = RegionEmitter {
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
        prefetch,
        next_block: None,
        loops: 0,
    };
    emit.function();
    emit.asm.finish()
}

/// Returns whether the nodes read the y or z coordinate.
fn reads_rows(nodes: &[LaneNode]) -> bool {
    let mut rows = false;
    crate::lir::for_each_inst(nodes, &mut |inst| rows |= matches!(inst.op, LaneOp::Coord(1 | 2)));
    rows
}

impl RegionEmitter<'_> {
    fn nodes(&mut self, nodes: &[LaneNode]) {
        for node in nodes {
            match node {
                LaneNode::Inst(inst) => {
                    if !self.allocation.folds.is_folded(inst) {
                        self.inst(inst);
                    }
                    self.position += 1;
                }
                LaneNode::Block(exit, body) => {
                    let label = self.asm.label();
                    self.exits.insert(*exit, label);
                    self.nodes(body);
                    self.asm.bind(label);
                }
                LaneNode::Loop(body) => {
                    let top = self.asm.label();
                    self.asm.bind(top);
                    let long = u32::from(!self.is_short(body));
                    self.loops += long;
                    self.nodes(body);
                    self.loops -= long;
                    self.position += 1;
                    self.loop_back(top);
                }
                LaneNode::Phase(body) => {
                    self.phase(body);
                    self.position += 1;
                }
                LaneNode::Branch(cond, exit) => {
                    // Redirect only the first branch with this condition and target; later branches may test the same
                    // mask after it has changed.
                    let rest = self.rest.take_if(|(skip, from, _)| skip == cond && from == exit);
                    let label = rest.map_or_else(|| self.exits[exit], |(_, _, rest)| rest);
                    self.branch(cond, label);
                    self.position += 1;
                }
            }
        }
    }

    /// Returns whether the trip count of a loop is a constant of at most [`SHORT_TRIP_COUNT`].
    fn is_short(&self, body: &[LaneNode]) -> bool {
        body.iter().any(|node| match node {
            LaneNode::Branch(BranchCond::Scalar(LaneComparison::Ge, LaneElem::I64, _, trips), _) => {
                self.imm(*trips).is_some_and(|n| n <= SHORT_TRIP_COUNT)
            }
            _ => false,
        })
    }

    fn inst(&mut self, inst: &LaneInst) {
        match inst.op {
            LaneOp::Const(_)
            | LaneOp::Input(_)
            | LaneOp::Coord(_)
            | LaneOp::Scalar(..)
            | LaneOp::CompareScalar(..)
            | LaneOp::Sext
            | LaneOp::Zext
            | LaneOp::Trunc
            | LaneOp::SelectScalar
            | LaneOp::RowLimit(_)
            | LaneOp::FirstLane
            | LaneOp::AnyActive => self.scalar_inst(inst),
            LaneOp::LoadScalar(_)
            | LaneOp::Load(..)
            | LaneOp::Store(..)
            | LaneOp::LoadReg
            | LaneOp::StoreReg
            | LaneOp::Output(_) => {
                self.memory_inst(inst);
            }
            LaneOp::CheckUniform
            | LaneOp::CheckRow(_)
            | LaneOp::CheckLanes
            | LaneOp::CheckRange
            | LaneOp::ExitIfAny
            | LaneOp::ExitIfZero => {
                self.check(inst);
            }
            LaneOp::ReportWord(number) => {
                let x = self.gpr(inst.args[0], 0, Gpr::RAX);
                self.asm.store(OperandSize::S64, Self::slot(self.layout.words + 8 * number as i32), x);
            }
            LaneOp::SubmitReports => self.submit_reports(),
            LaneOp::Barrier => {}
            LaneOp::SaveSlot(slot) => self.save_slot(slot, inst.args[0]),
            LaneOp::LoadSlot(slot) => self.load_slot(slot, inst.dst),
            LaneOp::ReportAccess(cell, form, note) => self.report_access(cell, form, note, inst),
            LaneOp::Move => match self.region.ty(inst.dst) {
                LaneTy::I32 | LaneTy::I64 => self.scalar_inst(inst),
                LaneTy::V32 | LaneTy::V64 => self.vector_inst(inst),
                LaneTy::Mask => self.mask_inst(inst),
            },
            LaneOp::EntryMask => self.entered(inst),
            LaneOp::Atomic(op, elem) => self.atomic(op, elem, inst),
            LaneOp::Warp(op, elem) => self.warp(op, elem, inst),
            LaneOp::Call(function, _) if self.exponential(function, inst) => {}
            LaneOp::Call(function, _) => self.call(function, inst),
            _ if self.region.ty(inst.dst) == LaneTy::Mask => self.mask_inst(inst),
            _ => self.vector_inst(inst),
        }
    }

    /// Returns a constant vector `first`, `first + step`, …, with 32-bit lanes.
    fn lane_multiples(&mut self, first: i32, step: i32) -> Src {
        let lanes = (0..self.shape.width as i32).map(|lane| first.wrapping_add(lane.wrapping_mul(step)));
        let bytes: Vec<u8> = lanes.flat_map(i32::to_le_bytes).collect();
        Src::Const(self.asm.constant(&bytes))
    }

    /// Returns whether the code is for AVX-512 rather than AVX2.
    fn evex(&self) -> bool {
        self.asm.is_evex()
    }

    fn copies(&self, value: LaneValue) -> usize {
        self.shape.copies(self.region, value)
    }

    fn ty(&self, value: LaneValue) -> LaneTy {
        self.region.ty(value)
    }

    /// Returns the length of a whole vector register.
    fn full_len(&self) -> Len {
        if self.evex() { Len::L512 } else { Len::L256 }
    }

    /// Returns the length of a vector of this type.
    fn len(&self, ty: LaneTy) -> Len {
        match self.shape.width * if ty == LaneTy::V64 { 8 } else { 4 } {
            64 => Len::L512,
            32 => Len::L256,
            _ => Len::L128,
        }
    }
}
