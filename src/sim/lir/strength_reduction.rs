//! Strength reduction of induction variables.
//!
//! Input and output: a region. Main idea: if a loop adds a constant to its counter, a constant multiple of the counter
//! also grows by a constant. The pass replaces the multiplication by an addition to a new counter.

use rustc_hash::FxHashMap;

use super::copy_coalescing::{NumberedRegion, number_region};
use super::*;

/// Maximum number of new counters per loop; each occupies a register.
const MAX_COUNTERS: usize = 4;

/// A multiple of a loop counter, which the pass replaces by a new induction variable.
struct CounterMultiple {
    product: LaneInst,
    /// The value that each iteration adds to the multiple.
    step: i64,
}

/// Replaces multiples of loop counters by new induction variables where possible.
pub(crate) fn reduce_multiples(region: &mut LaneRegion) {
    let numbered = number_region(region);
    let constants = region.setup_constants();
    let mut body = std::mem::take(&mut region.body);
    let mut pass = StrengthReduction { region, numbered, constants, names: FxHashMap::default() };
    pass.list(&mut body);
    let names = pass.names;
    copy_coalescing::rename_uses(&mut body, &names);
    region.body = body;
    for value in region.accesses.iter_mut().flat_map(AccessChecks::values_mut) {
        *value = names.get(value).copied().unwrap_or(*value);
    }
}

struct StrengthReduction<'a> {
    region: &'a mut LaneRegion,
    numbered: NumberedRegion,
    constants: FxHashMap<LaneValue, i64>,
    /// Maps each replaced product to its new induction variable.
    names: FxHashMap<LaneValue, LaneValue>,
}

impl StrengthReduction<'_> {
    fn list(&mut self, nodes: &mut Vec<LaneNode>) {
        let mut at = 0;
        while at < nodes.len() {
            let mut before = vec![];
            match &mut nodes[at] {
                LaneNode::Block(_, inner) | LaneNode::Phase(inner) => self.list(inner),
                LaneNode::Loop(inner) => {
                    self.list(inner);
                    before = self.counted(inner);
                }
                _ => {}
            }
            let count = before.len();
            nodes.splice(at..at, before.into_iter().map(LaneNode::Inst));
            at += count + 1;
        }
    }

    /// Replaces the multiples of a loop's counter. Returns the instructions that initialize the new induction variables
    /// before the loop.
    fn counted(&mut self, body: &mut Vec<LaneNode>) -> Vec<LaneInst> {
        let Some((at, counter, step)) = self.counter(body) else { return vec![] };
        let mut multiples = vec![];
        for node in &body[..at] {
            for_each_inst(std::slice::from_ref(node), &mut |inst| {
                if multiples.len() < MAX_COUNTERS
                    && let Some(multiple) = self.multiple(inst, counter, step)
                {
                    multiples.push(multiple);
                }
            });
        }
        let mut before = vec![];
        for CounterMultiple { product, step } in multiples {
            let (dst, by) = (self.new_value(true), self.constant(step));
            self.names.insert(product.dst, dst);
            remove(body, product.dst);
            before.push(LaneInst { dst, ..product });
            // Search again: the removal of the product has shifted the positions in the list.
            let end = body.iter().position(|node| increments(node, counter)).unwrap_or(body.len() - 1);
            body.insert(
                end + 1,
                LaneNode::Inst(LaneInst::new(LaneOp::Scalar(LaneBinOp::Add, LaneElem::I64), dst, &[dst, by])),
            );
        }
        before
    }

    /// Finds the only instruction in a loop that changes the loop's counter. Returns its position, the counter and the
    /// step.
    fn counter(&self, body: &[LaneNode]) -> Option<(usize, LaneValue, i64)> {
        let steps = body.iter().enumerate().filter_map(|(at, node)| match node {
            LaneNode::Inst(LaneInst {
                op: LaneOp::Scalar(LaneBinOp::Add, LaneElem::I64),
                dst,
                args: [a, by, _],
                ..
            }) if dst == a => Some((at, *dst, *self.constants.get(by)?)),
            _ => None,
        });
        let own = |&(_, counter, _): &(usize, LaneValue, i64)| {
            let mut changes = 0;
            for_each_inst(body, &mut |inst| changes += usize::from(inst.dst == counter));
            changes == 1 && self.region.ty(counter) == LaneTy::I64
        };
        steps.into_iter().find(own)
    }

    /// If an instruction multiplies the counter by a constant and all uses of the product precede the counter's
    /// increment, returns the product.
    fn multiple(&self, inst: &LaneInst, counter: LaneValue, step: i64) -> Option<CounterMultiple> {
        let [a, by, _] = inst.args;
        let by = *self.constants.get(&by).filter(|_| a == counter)?;
        let factor = match inst.op {
            // Factors 2, 4 and 8 are free: the addressing mode multiplies by them.
            LaneOp::Scalar(LaneBinOp::Mul, LaneElem::I64) if ![2, 4, 8].contains(&by) => by,
            LaneOp::Scalar(LaneBinOp::Shl, LaneElem::I64) if (4..32).contains(&by) => 1 << by,
            _ => return None,
        };
        let places = &self.numbered.places;
        let (&[def], uses) = (places[inst.dst.index()].defs.as_slice(), &places[inst.dst.index()].uses) else {
            return None;
        };
        let end = places[counter.index()].defs.iter().copied().filter(|&p| p > def).min()?;
        let inside = uses.iter().all(|&p| p > def && p < end);
        let checked = self.region.accesses.iter().any(|a| a.checks.iter().any(|c| c.args.contains(&inst.dst)));
        (inside && !checked).then_some(CounterMultiple { product: *inst, step: step.checked_mul(factor)? })
    }

    fn new_value(&mut self, mutable: bool) -> LaneValue {
        self.region.values.push(ValueDef { ty: LaneTy::I64, mutable, depends_on_x: false, depends_on_row: false });
        LaneValue(self.region.values.len() as u32 - 1)
    }

    fn constant(&mut self, value: i64) -> LaneValue {
        if let Some((&known, _)) =
            self.constants.iter().find(|(v, c)| **c == value && self.region.ty(**v) == LaneTy::I64)
        {
            return known;
        }
        let dst = self.new_value(false);
        self.region.setup.insert(0, LaneInst::new(LaneOp::Const(value), dst, &[]));
        self.constants.insert(dst, value);
        dst
    }
}

fn increments(node: &LaneNode, counter: LaneValue) -> bool {
    matches!(node, LaneNode::Inst(inst) if inst.dst == counter)
}

/// Removes the instruction that defines a value.
fn remove(nodes: &mut Vec<LaneNode>, value: LaneValue) {
    nodes.retain(|node| !increments(node, value));
    for node in nodes {
        if let LaneNode::Block(_, inner) | LaneNode::Loop(inner) | LaneNode::Phase(inner) = node {
            remove(inner, value);
        }
    }
}
