//! Prefetch distances between iterations of a loop around phases.
//!
//! Input: a region with phases. Output: for addresses of global arrays, the byte distance to the same access in the
//! next iteration. Main idea: between two iterations, entire phases run for all batches of the block, so the hardware
//! prefetcher does not predict the addresses of the next iteration. If an address is affine in the loop's counter, its
//! distance to the next iteration is known. A wrong distance costs only time.

use rustc_hash::{FxHashMap, FxHashSet};

use clk_base::affine::Affine;

use super::scalar_differences::{ScalarDifference, result_difference};
use crate::code::{MemoryDef, MemoryKind};
use crate::lir::{LaneBinOp, LaneInst, LaneNode, LaneOp, LaneRegion, LaneValue, for_each_inst};

/// Returns the differences between consecutive iterations for the addresses whose cache lines should be prefetched.
pub(crate) fn steps(region: &LaneRegion, memories: &[MemoryDef]) -> FxHashMap<LaneValue, ScalarDifference> {
    let setup = region.setup.iter().map(|inst| inst.dst).collect();
    let constants = region.setup_constants();
    let mut pass = InductionAnalysis { region, constants, setup, steps: FxHashMap::default() };
    pass.nodes(&region.body);
    let mut steps = pass.steps;
    let is_global = |address: &LaneValue| {
        let mut accesses = region.accesses.iter().filter(|access| access.address == *address);
        accesses.any(|a| matches!(memories[a.memory.index()].kind, MemoryKind::Global(_)))
    };
    steps.retain(|address, step| step.as_constant() != Some(0) && is_global(address));
    steps
}

struct InductionAnalysis<'a> {
    region: &'a LaneRegion,
    constants: FxHashMap<LaneValue, i64>,
    setup: FxHashSet<LaneValue>,
    steps: FxHashMap<LaneValue, ScalarDifference>,
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

    fn of_loop(&self, body: &[LaneNode]) -> FxHashMap<LaneValue, ScalarDifference> {
        let mut definitions: FxHashMap<LaneValue, usize> = FxHashMap::default();
        for_each_inst(body, &mut |inst| *definitions.entry(inst.dst).or_default() += 1);
        let mut loop_steps: FxHashMap<LaneValue, ScalarDifference> = FxHashMap::default();
        for node in body {
            let LaneNode::Inst(LaneInst { op: LaneOp::Scalar(LaneBinOp::Add, _), dst, args: [a, by, _], .. }) = node
            else {
                continue;
            };
            if dst == a
                && definitions[dst] == 1
                && let Some(&by) = self.constants.get(by)
            {
                loop_steps.insert(*dst, Affine::from(i128::from(by)));
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
        loop_steps: &FxHashMap<LaneValue, ScalarDifference>,
    ) -> Option<ScalarDifference> {
        let origin = self.region.phase_origin(inst.dst);
        if origin != inst.dst && !inside.contains_key(&origin) {
            return Some(Affine::from(0));
        }
        let of =
            |v: LaneValue| if inside.contains_key(&v) { loop_steps.get(&v).cloned() } else { Some(Affine::from(0)) };
        let value = |v: LaneValue| match self.constants.get(&v) {
            Some(&constant) => Some(Affine::from(i128::from(constant))),
            None => self.setup.contains(&v).then(|| Affine::variable(v)),
        };
        // A prefetch can add a number of bytes or a multiple of a value to an address, but not both.
        let is_usable =
            |step: &ScalarDifference| step.terms().is_empty() || step.terms().len() == 1 && step.constant() == 0;
        result_difference(inst, &of, &value).filter(is_usable)
    }
}

fn has_phase(node: &LaneNode) -> bool {
    match node {
        LaneNode::Phase(_) => true,
        LaneNode::Block(_, body) | LaneNode::Loop(body) => body.iter().any(has_phase),
        LaneNode::Inst(_) | LaneNode::Branch(..) => false,
    }
}
