//! Prefetch distances between iterations of a loop around phases.
//!
//! Input: a region with phases. Output: for addresses of global arrays, the byte distance to the same access in the
//! next iteration. Main idea: between two iterations, entire phases run for all batches of the block, so the hardware
//! prefetcher does not predict the addresses of the next iteration. If an address is affine in the loop's counter, its
//! distance to the next iteration is known. A wrong distance costs only time.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::code::{KernelTables, MemoryKind};
use crate::lir::{LaneBinOp, LaneElem, LaneInst, LaneNode, LaneOp, LaneRegion, LaneValue, for_each_inst};

/// The difference of a scalar between consecutive iterations.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum InductionStep {
    Bytes(i64),
    /// The product of a value of the setup and a constant.
    Times(LaneValue, i64),
}

const ZERO: InductionStep = InductionStep::Bytes(0);

impl InductionStep {
    fn plus(self, other: InductionStep) -> Option<InductionStep> {
        match (self, other) {
            (step, ZERO) | (ZERO, step) => Some(step),
            (InductionStep::Bytes(a), InductionStep::Bytes(b)) => a.checked_add(b).map(InductionStep::Bytes),
            (InductionStep::Times(v, a), InductionStep::Times(w, b)) if v == w => {
                a.checked_add(b).map(|c| InductionStep::Times(v, c))
            }
            _ => None,
        }
    }

    fn times(self, factor: i64) -> Option<InductionStep> {
        match self {
            InductionStep::Bytes(a) => a.checked_mul(factor).map(InductionStep::Bytes),
            InductionStep::Times(v, a) => a.checked_mul(factor).map(|c| InductionStep::Times(v, c)),
        }
    }
}

/// Returns the differences between consecutive iterations for the addresses whose cache lines should be prefetched.
pub(crate) fn steps(region: &LaneRegion, code: &KernelTables) -> FxHashMap<LaneValue, InductionStep> {
    let mut constants = FxHashMap::default();
    let mut setup = FxHashSet::default();
    for inst in &region.setup {
        setup.insert(inst.dst);
        if let LaneOp::Const(value) = inst.op {
            constants.insert(inst.dst, value);
        }
    }
    let mut pass = InductionAnalysis { region, constants, setup, steps: FxHashMap::default() };
    pass.nodes(&region.body);
    let mut steps = pass.steps;
    let is_global = |address: &LaneValue| {
        let mut accesses = region.accesses.iter().filter(|access| access.address == *address);
        accesses.any(|a| matches!(code.memories[a.memory.index()].kind, MemoryKind::Global(_)))
    };
    steps.retain(|address, step| *step != ZERO && is_global(address));
    steps
}

struct InductionAnalysis<'a> {
    region: &'a LaneRegion,
    constants: FxHashMap<LaneValue, i64>,
    setup: FxHashSet<LaneValue>,
    steps: FxHashMap<LaneValue, InductionStep>,
}

impl InductionAnalysis<'_> {
    /// Analyzes the loops around phases. Inner loops come last, so their steps replace those of outer loops.
    fn nodes(&mut self, nodes: &[LaneNode]) {
        for node in nodes {
            match node {
                LaneNode::Loop(body) if body.iter().any(has_phase) => {
                    let steps = self.of_loop(body);
                    self.steps.extend(steps);
                    self.nodes(body);
                }
                LaneNode::Block(_, body) => self.nodes(body),
                _ => {}
            }
        }
    }

    fn of_loop(&self, body: &[LaneNode]) -> FxHashMap<LaneValue, InductionStep> {
        let mut definitions: FxHashMap<LaneValue, usize> = FxHashMap::default();
        for_each_inst(body, &mut |inst| *definitions.entry(inst.dst).or_default() += 1);
        let mut loop_steps: FxHashMap<LaneValue, InductionStep> = FxHashMap::default();
        for node in body {
            let LaneNode::Inst(LaneInst { op: LaneOp::Scalar(LaneBinOp::Add, _), dst, args: [a, by, _], .. }) = node
            else {
                continue;
            };
            if dst == a
                && definitions[dst] == 1
                && let Some(&by) = self.constants.get(by)
            {
                loop_steps.insert(*dst, InductionStep::Bytes(by));
            }
        }
        for_each_inst(body, &mut |inst| {
            let single = inst.dst != LaneValue::NONE && !self.region.values[inst.dst.index()].mutable;
            if single
                && self.region.ty(inst.dst).is_scalar()
                && let Some(step) = self.step(inst, &definitions, &loop_steps)
            {
                loop_steps.insert(inst.dst, step);
            }
        });
        loop_steps
    }

    fn step(
        &self,
        inst: &LaneInst,
        inside: &FxHashMap<LaneValue, usize>,
        loop_steps: &FxHashMap<LaneValue, InductionStep>,
    ) -> Option<InductionStep> {
        let of = |v: LaneValue| if inside.contains_key(&v) { loop_steps.get(&v).copied() } else { Some(ZERO) };
        let origin = self.region.phase_origin(inst.dst);
        if origin != inst.dst && !inside.contains_key(&origin) {
            return Some(ZERO);
        }
        let [a, b, _] = inst.args;
        let scaled = |step: InductionStep, by: LaneValue| match (self.constants.get(&by), step) {
            (Some(&by), step) => step.times(by),
            (None, InductionStep::Bytes(factor)) => {
                self.setup.contains(&by).then_some(InductionStep::Times(by, factor))
            }
            (None, InductionStep::Times(..)) => None,
        };
        match inst.op {
            LaneOp::Sext | LaneOp::Zext | LaneOp::Trunc | LaneOp::Move => of(a),
            LaneOp::Scalar(LaneBinOp::Add, _) => of(a)?.plus(of(b)?),
            LaneOp::Scalar(LaneBinOp::Sub, _) => of(a)?.plus(of(b)?.times(-1)?),
            LaneOp::Scalar(LaneBinOp::Mul, elem) => match (of(a)?, of(b)?) {
                (ZERO, ZERO) => Some(ZERO),
                (step, ZERO) if elem == LaneElem::I64 || self.constants.contains_key(&b) => scaled(step, b),
                (ZERO, step) if elem == LaneElem::I64 || self.constants.contains_key(&a) => scaled(step, a),
                _ => None,
            },
            LaneOp::Scalar(LaneBinOp::Shl, _) => {
                let count = self.constants.get(&b).copied().filter(|c| (0..32).contains(c))?;
                of(a)?.times(1 << count)
            }
            LaneOp::Const(_) | LaneOp::Coord(_) | LaneOp::Scalar(..) => {
                inst.uses().all(|v| of(v) == Some(ZERO)).then_some(ZERO)
            }
            _ => None,
        }
    }
}

fn has_phase(node: &LaneNode) -> bool {
    match node {
        LaneNode::Phase(_) => true,
        LaneNode::Block(_, body) | LaneNode::Loop(body) => body.iter().any(has_phase),
        LaneNode::Inst(_) | LaneNode::Branch(..) => false,
    }
}
