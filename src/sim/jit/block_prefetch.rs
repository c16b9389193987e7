//! Prefetch distances between consecutive blocks.
//!
//! Input: a region for blocks of known extents. Output: for each address, the byte distance to the same access in the
//! next block along x, and for phases also the distance to the next iteration ([`super::iteration_prefetch`]). Main
//! idea: the rows of a small block are not adjacent in memory, so the hardware prefetcher finds no pattern. However,
//! the distance between accesses of consecutive blocks is constant, and is computed from the operands of the address.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use clk_base::affine::Affine;

use super::iteration_prefetch;
use super::scalar_differences::{ScalarDifference, result_difference};
use crate::code::{KernelTables, Special};
use crate::lir::{LaneInst, LaneOp, LaneRegion, LaneValue, RegionInput, for_each_inst};
use crate::register_ids::Reg;
use clk_ir::def::BuiltinIndex;

/// The longest useful prefetch distance in bytes. Cache lines that are farther away would be evicted before they are
/// used.
const MAX_PREFETCH_DISTANCE: i64 = 4096;

/// Size of a cache line in bytes.
const CACHE_LINE: i64 = 64;

/// For uniform registers that regions write: the difference of their values between consecutive blocks.
pub(crate) type RegisterDeltas = FxHashMap<Reg, i64>;

/// The prefetch distances of addresses, and the accesses for which prefetches have already been emitted.
#[derive(Debug, Default)]
pub(crate) struct PrefetchDistances {
    bytes: FxHashMap<LaneValue, i64>,
    next: FxHashMap<LaneValue, ScalarDifference>,
    prefetched: Vec<(LaneValue, i64)>,
}

impl PrefetchDistances {
    /// Computes the prefetch distances of a region. `registers` caches the register differences for blocks of the
    /// region's extents.
    pub fn of(region: &LaneRegion, code: &KernelTables, registers: &OnceLock<RegisterDeltas>) -> PrefetchDistances {
        let Some([x, ..]) = region.full_group.filter(|extents| !extents.contains(&0)) else {
            return PrefetchDistances::default();
        };
        let registers = registers.get_or_init(|| {
            let deltas = RegisterDeltas::default();
            code.regions.iter().fold(deltas, |deltas, other| BlockStrides::of(other, code, x.into(), deltas).results())
        });
        let mut bytes = BlockStrides::of(region, code, x.into(), registers.clone()).deltas;
        bytes.retain(|_, step| *step != 0 && step.abs() <= MAX_PREFETCH_DISTANCE);
        let next =
            if region.has_phases() { iteration_prefetch::steps(region, &code.memories) } else { FxHashMap::default() };
        PrefetchDistances { bytes, next, prefetched: vec![] }
    }

    /// Returns the difference of an address between consecutive iterations if its cache lines should be prefetched.
    pub fn iteration_step(&self, address: LaneValue) -> Option<ScalarDifference> {
        self.next.get(&address).cloned()
    }

    /// Returns the byte distance from the access at `root + constant` to the same access in the next block, unless its
    /// cache line is already prefetched.
    pub fn block_distance(&mut self, address: LaneValue, root: LaneValue, constant: i32) -> Option<i32> {
        let step = *self.bytes.get(&address)?;
        let place = i64::from(constant);
        if self.prefetched.iter().any(|&(other, at)| other == root && (at - place).abs() < CACHE_LINE) {
            return None;
        }
        self.prefetched.push((root, place));
        i32::try_from(step).ok()
    }
}

/// Computes the difference of each scalar between consecutive blocks.
struct BlockStrides<'a> {
    region: &'a LaneRegion,
    code: &'a KernelTables,
    /// The number of threads of a block along x.
    x: i64,
    constants: FxHashMap<LaneValue, i64>,
    deltas: FxHashMap<LaneValue, i64>,
    /// Differences of the uniform registers that regions write; see [`RegisterDeltas`].
    registers: FxHashMap<Reg, i64>,
}

impl<'a> BlockStrides<'a> {
    fn of(region: &'a LaneRegion, code: &'a KernelTables, x: i64, registers: FxHashMap<Reg, i64>) -> BlockStrides<'a> {
        let mut steps =
            BlockStrides { region, code, x, constants: FxHashMap::default(), deltas: FxHashMap::default(), registers };
        region.setup.iter().for_each(|inst| steps.inst(inst));
        for_each_inst(&region.body, &mut |inst| steps.inst(inst));
        steps
    }

    /// Returns the known register differences, extended by the registers that the region writes.
    fn results(self) -> FxHashMap<Reg, i64> {
        let BlockStrides { region, deltas, mut registers, .. } = self;
        let written: Vec<Reg> = region.writes.iter().filter(|w| w.uniform).map(|w| w.reg).collect();
        for_each_inst(&region.body, &mut |inst| {
            if let LaneOp::Output(number) = inst.op
                && let Some(&step) = deltas.get(&inst.args[0])
            {
                registers.insert(written[number as usize], step);
            }
        });
        registers
    }

    fn inst(&mut self, inst: &LaneInst) {
        if inst.dst == LaneValue::NONE || !self.region.ty(inst.dst).is_scalar() {
            return;
        }
        // Assume that mutable values, usually loop counters, are the same in all blocks. A wrong assumption costs only
        // time.
        let step = if self.region.values[inst.dst.index()].mutable { Some(0) } else { self.step(inst) };
        if let Some(step) = step {
            self.deltas.insert(inst.dst, step);
        }
        if let LaneOp::Const(value) = inst.op {
            self.constants.insert(inst.dst, value);
        }
    }

    fn step(&self, inst: &LaneInst) -> Option<i64> {
        match inst.op {
            LaneOp::Input(RegionInput::Uniform(reg, _)) => self.register(reg),
            LaneOp::Input(RegionInput::LaneRegister(_) | RegionInput::FirstCoord(_) | RegionInput::LastCoord(_)) => {
                None
            }
            LaneOp::Input(_) => Some(0),
            _ => {
                let difference = |v: LaneValue| Some(Affine::from(i128::from(*self.deltas.get(&v)?)));
                let value = |v: LaneValue| Some(Affine::from(i128::from(*self.constants.get(&v)?)));
                result_difference(inst, &difference, &value)?.as_constant()?.try_into().ok()
            }
        }
    }

    /// Returns the difference of a uniform register between blocks. Registers set by the launch do not change.
    fn register(&self, reg: Reg) -> Option<i64> {
        if self.code.registers.launch.iter().any(|(deltas, _)| *deltas == reg) {
            return Some(0);
        }
        match self.code.registers.block.iter().find(|(deltas, _)| *deltas == reg) {
            Some((_, Special::Id(BuiltinIndex::Block, 0))) => Some(1),
            Some((_, Special::Id(_, 0))) => Some(self.x),
            Some(_) => Some(0),
            None => self.registers.get(&reg).copied(),
        }
    }
}
