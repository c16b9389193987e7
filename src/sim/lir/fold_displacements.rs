//! Folds constant summands of addresses into the displacements of memory operands.
//!
//! Input and output: a region. Main idea: `(base + c) + index` becomes `(base + index) + c`. Accesses with different
//! constants then share the first sum, and the addressing mode of the access adds the constant.

use rustc_hash::{FxHashMap, FxHashSet};

use super::copy_coalescing::{NumberedRegion, number_region};
use super::*;

/// Returns the values that are used only as addresses of loads, stores and access reports, except accesses of local
/// arrays.
pub(crate) fn address_only_values(region: &LaneRegion, numbered: &NumberedRegion) -> FxHashSet<LaneValue> {
    let mut counts: FxHashMap<LaneValue, usize> = FxHashMap::default();
    let mut note = |inst: &LaneInst| {
        let plain = |form: AddressForm| form.column_offset().is_none();
        if matches!(inst.op, LaneOp::LoadScalar(_))
            || matches!(inst.op, LaneOp::Load(_, form) | LaneOp::Store(_, form) | LaneOp::ReportAccess(_, form, _) if plain(form))
        {
            *counts.entry(inst.args[0]).or_default() += 1;
        }
    };
    region.setup.iter().for_each(&mut note);
    for_each_inst(&region.body, &mut |inst| note(inst));
    let all = |&(value, count): &(LaneValue, usize)| numbered.places[value.index()].uses.len() == count;
    counts.into_iter().filter(all).map(|(value, _)| value).collect()
}

/// Reassociates the sums that compute addresses, so that constants are added last.
pub(crate) fn fold_address_constants(region: &mut LaneRegion) {
    let addresses = address_only_values(region, &number_region(region));
    let mut sums = FxHashMap::default();
    let mut constant_values = FxHashSet::default();
    let values = &region.values;
    let mut note = |inst: &LaneInst| {
        if inst.dst != LaneValue::NONE && !values[inst.dst.index()].mutable {
            match inst.op {
                LaneOp::Const(_) => drop(constant_values.insert(inst.dst)),
                LaneOp::Scalar(LaneBinOp::Add, LaneElem::I64) => {
                    sums.insert(inst.dst, [inst.args[0], inst.args[1]]);
                }
                _ => {}
            }
        }
    };
    region.setup.iter().for_each(&mut note);
    for_each_inst(&region.body, &mut |inst| note(inst));
    let mut body = std::mem::take(&mut region.body);
    DisplacementFolder { region, addresses, sums, constants: constant_values, shared: vec![] }.list(&mut body);
    region.body = body;
}

struct DisplacementFolder<'a> {
    region: &'a mut LaneRegion,
    addresses: FxHashSet<LaneValue>,
    /// For each value whose only definition is a sum: the operands of the sum.
    sums: FxHashMap<LaneValue, [LaneValue; 2]>,
    constants: FxHashSet<LaneValue>,
    /// Sums that are available at the current position: their operands and the value.
    shared: Vec<([LaneValue; 2], LaneValue)>,
}

impl DisplacementFolder<'_> {
    fn list(&mut self, nodes: &mut Vec<LaneNode>) {
        let open = self.shared.len();
        let mut at = 0;
        while at < nodes.len() {
            let mut before = None;
            match &mut nodes[at] {
                LaneNode::Block(_, inner) | LaneNode::Loop(inner) | LaneNode::Phase(inner) => self.list(inner),
                LaneNode::Inst(inst) => before = self.inst(inst),
                LaneNode::Branch(..) => {}
            }
            if let Some(sum) = before {
                nodes.insert(at, LaneNode::Inst(sum));
                at += 1;
            }
            at += 1;
        }
        self.shared.truncate(open);
    }

    /// Rewrites the sum that computes an address. If the sum without the constant is not available yet, returns a new
    /// instruction that computes it.
    fn inst(&mut self, inst: &mut LaneInst) -> Option<LaneInst> {
        let &[a, b] = self.sums.get(&inst.dst)?;
        if [a, b].iter().any(|v| self.region.values[v.index()].mutable) {
            return None;
        }
        let split = self.split(a).map(|(base, constant)| (base, b, constant));
        let split = split.or_else(|| self.split(b).map(|(base, constant)| (base, a, constant)));
        let Some((base, index, constant)) = split.filter(|_| self.addresses.contains(&inst.dst)) else {
            self.shared.push(([a, b], inst.dst));
            return None;
        };
        let shared_sum = self.shared.iter().find(|(parts, _)| *parts == [base, index] || *parts == [index, base]);
        let (sum, new) = match shared_sum {
            Some(&(_, sum)) => (sum, None),
            None => {
                let ([x, y], sum) = ([base, index].map(|v| self.region.values[v.index()]), self.region.values.len());
                let (depends_on_x, depends_on_row) =
                    (x.depends_on_x | y.depends_on_x, x.depends_on_row | y.depends_on_row);
                self.region.values.push(ValueDef { ty: LaneTy::I64, mutable: false, depends_on_x, depends_on_row });
                let sum = LaneValue(sum as u32);
                self.shared.push(([base, index], sum));
                (sum, Some(LaneInst::new(inst.op, sum, &[base, index])))
            }
        };
        *inst = LaneInst::new(inst.op, inst.dst, &[sum, constant]);
        new
    }

    /// Splits a sum of a value and a constant into these two operands.
    fn split(&self, value: LaneValue) -> Option<(LaneValue, LaneValue)> {
        let &[a, b] = self.sums.get(&value)?;
        let parts = if self.constants.contains(&b) { (a, b) } else { self.constants.contains(&a).then_some((b, a))? };
        (!self.region.values[parts.0.index()].mutable).then_some(parts)
    }
}
