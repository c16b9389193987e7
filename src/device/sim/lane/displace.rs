//! Constants in addresses become displacements.
//!
//! Input and output: a region. The idea: `(base + c) + index` is `(base + index) + c`, in which accesses with different constants share
//! the first sum, and an operand in memory adds the second.

use rustc_hash::{FxHashMap, FxHashSet};

use super::copies::{Numbered, number};
use super::*;

/// Returns the values that are only used as addresses of loads, stores and touches, but not of columns of local arrays.
pub(crate) fn addresses(region: &Region, numbered: &Numbered) -> FxHashSet<Value> {
    let mut counts: FxHashMap<Value, usize> = FxHashMap::default();
    let mut note = |inst: &Inst| {
        let plain = |form: Form| form.columns().is_none();
        if matches!(inst.op, Op::LoadScalar(_))
            || matches!(inst.op, Op::Load(_, form) | Op::Store(_, form) | Op::Touch(_, form, _) if plain(form))
        {
            *counts.entry(inst.args[0]).or_default() += 1;
        }
    };
    region.setup.iter().for_each(&mut note);
    each_inst(&region.body, &mut |inst| note(inst));
    let all = |&(value, count): &(Value, usize)| numbered.places[value.index()].uses.len() == count;
    counts.into_iter().filter(all).map(|(value, _)| value).collect()
}

/// Moves constants to the ends of sums that are addresses.
pub(crate) fn constants(region: &mut Region) {
    let addresses = addresses(region, &number(region));
    let mut sums = FxHashMap::default();
    let mut known = FxHashSet::default();
    let values = &region.values;
    let mut note = |inst: &Inst| {
        if inst.dst != Value::NONE && !values[inst.dst.index()].mutable {
            match inst.op {
                Op::Const(_) => drop(known.insert(inst.dst)),
                Op::Scalar(Bin::Add, Elem::I64) => drop(sums.insert(inst.dst, [inst.args[0], inst.args[1]])),
                _ => {}
            }
        }
    };
    region.setup.iter().for_each(&mut note);
    each_inst(&region.body, &mut |inst| note(inst));
    let mut body = std::mem::take(&mut region.body);
    Pass { region, addresses, sums, constants: known, shared: vec![] }.list(&mut body);
    region.body = body;
}

struct Pass<'a> {
    region: &'a mut Region,
    addresses: FxHashSet<Value>,
    /// The operands of sums that are defined once.
    sums: FxHashMap<Value, [Value; 2]>,
    constants: FxHashSet<Value>,
    /// Sums that have been computed in the open lists of nodes.
    shared: Vec<([Value; 2], Value)>,
}

impl Pass<'_> {
    fn list(&mut self, nodes: &mut Vec<Node>) {
        let open = self.shared.len();
        let mut at = 0;
        while at < nodes.len() {
            let mut before = None;
            match &mut nodes[at] {
                Node::Block(_, inner) | Node::Loop(inner) | Node::Each(inner) => self.list(inner),
                Node::Inst(inst) => before = self.inst(inst),
                Node::Branch(..) => {}
            }
            if let Some(sum) = before {
                nodes.insert(at, Node::Inst(sum));
                at += 1;
            }
            at += 1;
        }
        self.shared.truncate(open);
    }

    /// Rewrites an address; returns the sum to compute in front of it, if there is none yet.
    fn inst(&mut self, inst: &mut Inst) -> Option<Inst> {
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
        let known = self.shared.iter().find(|(parts, _)| *parts == [base, index] || *parts == [index, base]);
        let (sum, new) = match known {
            Some(&(_, sum)) => (sum, None),
            None => {
                let ([x, y], sum) = ([base, index].map(|v| self.region.values[v.index()]), self.region.values.len());
                let (by_x, by_row) = (x.by_x | y.by_x, x.by_row | y.by_row);
                self.region.values.push(ValueDef { ty: Ty::I64, mutable: false, by_x, by_row });
                let sum = Value(sum as u32);
                self.shared.push(([base, index], sum));
                (sum, Some(Inst::new(inst.op, sum, &[base, index])))
            }
        };
        *inst = Inst::new(inst.op, inst.dst, &[sum, constant]);
        new
    }

    /// Returns the parts of a sum with a constant.
    fn split(&self, value: Value) -> Option<(Value, Value)> {
        let &[a, b] = self.sums.get(&value)?;
        let parts = if self.constants.contains(&b) { (a, b) } else { self.constants.contains(&a).then_some((b, a))? };
        (!self.region.values[parts.0.index()].mutable).then_some(parts)
    }
}
