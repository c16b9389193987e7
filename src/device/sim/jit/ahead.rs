//! How far from an access that of the next block is, or of the next iteration, so that code can fetch the cache lines in advance.
//!
//! Input: a region for blocks of known extents. Output: for its addresses, the bytes from a block to the next one along x, and in phases
//! those from an iteration of the loop around them to the next ([`super::next`]). The idea: the
//! lines of a small block lie apart, one per row, so that the processor's own prefetcher does not find a pattern; but a block reads and
//! writes what the one before it did, a constant number of bytes further on. Addresses are sums and products of what the launch and
//! the block's number say, so that their differences follow from those of their operands.

use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use super::next::{self, Step};
use crate::device::sim::code::{Code, Special};
use crate::device::sim::lane::{Bin, Elem, Input, Inst, Op, Region, Value, each_inst};
use crate::device::sim::reg::Reg;
use crate::ir::def::Id3;

/// The longest distance that pays: further on, the lines would have been replaced before they are used.
const FARTHEST: i64 = 4096;

/// Bytes of a cache line.
const LINE: i64 = 64;

/// By how much uniform registers that regions write differ from a block to the next.
pub(crate) type Registers = FxHashMap<Reg, i64>;

/// The distances of addresses, and the lines that are fetched already.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    bytes: FxHashMap<Value, i64>,
    next: FxHashMap<Value, Step>,
    fetched: Vec<(Value, i64)>,
}

impl Ahead {
    /// `registers`: what is known of blocks of these extents, from the first region on.
    pub fn of(region: &Region, code: &Code, registers: &OnceLock<Registers>) -> Ahead {
        let Some([x, ..]) = region.whole.filter(|extents| !extents.contains(&0)) else { return Ahead::default() };
        let registers = registers.get_or_init(|| {
            let known = Registers::default();
            code.regions.iter().fold(known, |known, other| Steps::of(other, code, x.into(), known).results())
        });
        let mut bytes = Steps::of(region, code, x.into(), registers.clone()).known;
        bytes.retain(|_, step| *step != 0 && step.abs() <= FARTHEST);
        let next = if region.has_phases() { next::steps(region, code) } else { FxHashMap::default() };
        Ahead { bytes, next, fetched: vec![] }
    }

    /// Returns the step of an address to the next iteration, if its lines should be fetched.
    pub fn next(&self, address: Value) -> Option<Step> {
        self.next.get(&address).copied()
    }

    /// Returns the bytes from this access, `constant` bytes behind an address, to that of the next block, if its line has to be fetched.
    pub fn fetch(&mut self, address: Value, (root, constant): (Value, i32)) -> Option<i32> {
        let step = *self.bytes.get(&address)?;
        let place = i64::from(constant);
        if self.fetched.iter().any(|&(other, at)| other == root && (at - place).abs() < LINE) {
            return None;
        }
        self.fetched.push((root, place));
        i32::try_from(step).ok()
    }
}

/// What scalars change by from a block to the next.
struct Steps<'a> {
    region: &'a Region,
    code: &'a Code,
    /// Threads of a block along x.
    x: i64,
    constants: FxHashMap<Value, i64>,
    known: FxHashMap<Value, i64>,
    /// Of uniform registers that regions write.
    registers: FxHashMap<Reg, i64>,
}

impl<'a> Steps<'a> {
    fn of(region: &'a Region, code: &'a Code, x: i64, registers: FxHashMap<Reg, i64>) -> Steps<'a> {
        let mut steps =
            Steps { region, code, x, constants: FxHashMap::default(), known: FxHashMap::default(), registers };
        region.setup.iter().for_each(|inst| steps.inst(inst));
        each_inst(&region.body, &mut |inst| steps.inst(inst));
        steps
    }

    /// Adds the registers that the region writes to those that are known.
    fn results(self) -> FxHashMap<Reg, i64> {
        let Steps { region, known, mut registers, .. } = self;
        let written: Vec<Reg> = region.writes.iter().filter(|w| w.uniform).map(|w| w.reg).collect();
        each_inst(&region.body, &mut |inst| {
            if let Op::Output(number) = inst.op
                && let Some(&step) = known.get(&inst.args[0])
            {
                registers.insert(written[number as usize], step);
            }
        });
        registers
    }

    fn inst(&mut self, inst: &Inst) {
        if inst.dst == Value::NONE || !self.region.ty(inst.dst).is_scalar() {
            return;
        }
        // The counters of loops are the same in all blocks, as a rule; a wrong guess costs time only.
        let step = if self.region.values[inst.dst.index()].mutable { Some(0) } else { self.step(inst) };
        if let Some(step) = step {
            self.known.insert(inst.dst, step);
        }
        if let Op::Const(value) = inst.op {
            self.constants.insert(inst.dst, value);
        }
    }

    fn step(&self, inst: &Inst) -> Option<i64> {
        let [a, b, c] = inst.args;
        let of = |v: Value| self.known.get(&v).copied();
        let constant = |v: Value| self.constants.get(&v).copied();
        match inst.op {
            Op::Const(_) | Op::Coord(_) => Some(0),
            Op::Input(Input::Uniform(reg, _)) => self.register(reg),
            Op::Input(Input::Lanes(_) | Input::First(_) | Input::Last(_)) => None,
            Op::Input(_) => Some(0),
            Op::Sext | Op::Zext | Op::Trunc => of(a),
            Op::Choose => of(b).filter(|&step| of(c) == Some(step)),
            Op::Scalar(Bin::Add, Elem::I32 | Elem::U32 | Elem::I64) => of(a)?.checked_add(of(b)?),
            Op::Scalar(Bin::Sub, Elem::I32 | Elem::U32 | Elem::I64) => of(a)?.checked_sub(of(b)?),
            Op::Scalar(Bin::Mul, Elem::I32 | Elem::U32 | Elem::I64) => match (of(a)?, of(b)?) {
                (0, 0) => Some(0),
                (step, 0) => step.checked_mul(constant(b)?),
                (0, step) => step.checked_mul(constant(a)?),
                _ => None,
            },
            Op::Scalar(Bin::Shl, Elem::I32 | Elem::U32 | Elem::I64) => match (of(a)?, constant(b)?) {
                (step, count @ 0..32) => step.checked_shl(count as u32),
                _ => None,
            },
            Op::Scalar(..) => (of(a)? == 0 && of(b)? == 0).then_some(0),
            _ => None,
        }
    }

    /// What a uniform register changes by: the launch's do not.
    fn register(&self, reg: Reg) -> Option<i64> {
        if self.code.launch.iter().any(|(known, _)| *known == reg) {
            return Some(0);
        }
        match self.code.block.iter().find(|(known, _)| *known == reg) {
            Some((_, Special::Id(Id3::Block, 0))) => Some(1),
            Some((_, Special::Id(_, 0))) => Some(self.x),
            Some(_) => Some(0),
            None => self.registers.get(&reg).copied(),
        }
    }
}
