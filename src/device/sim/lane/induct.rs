//! Multiples of loop counters become counters of their own.
//!
//! Input and output: a region. The idea: where a loop adds a constant step to its counter, a product of the counter with a constant
//! grows by a constant too, which is added instead of computing the product anew.

use rustc_hash::FxHashMap;

use super::copies::{Numbered, number};
use super::*;

/// New counters of a loop, at most: each takes a register.
const MOST: usize = 4;

/// A product that becomes a counter.
struct Multiple {
    product: Inst,
    /// What is added to it in each iteration.
    step: i64,
}

/// Replaces what multiples of counters it can.
pub(crate) fn multiples(region: &mut Region) {
    let numbered = number(region);
    let mut constants: FxHashMap<Value, i64> = FxHashMap::default();
    for inst in &region.setup {
        if let Op::Const(value) = inst.op {
            constants.insert(inst.dst, value);
        }
    }
    let mut body = std::mem::take(&mut region.body);
    let mut pass = Pass { region, numbered, constants, names: FxHashMap::default() };
    pass.list(&mut body);
    let names = pass.names;
    copies::rename_uses(&mut body, &names);
    region.body = body;
    for value in region.accesses.iter_mut().flat_map(Access::values_mut) {
        *value = names.get(value).copied().unwrap_or(*value);
    }
}

struct Pass<'a> {
    region: &'a mut Region,
    numbered: Numbered,
    constants: FxHashMap<Value, i64>,
    /// Products, and the counters that take their places.
    names: FxHashMap<Value, Value>,
}

impl Pass<'_> {
    fn list(&mut self, nodes: &mut Vec<Node>) {
        let mut at = 0;
        while at < nodes.len() {
            let mut before = vec![];
            match &mut nodes[at] {
                Node::Block(_, inner) | Node::Each(inner) => self.list(inner),
                Node::Loop(inner) => {
                    self.list(inner);
                    before = self.counted(inner);
                }
                _ => {}
            }
            let count = before.len();
            nodes.splice(at..at, before.into_iter().map(Node::Inst));
            at += count + 1;
        }
    }

    /// Gives the multiples of a loop's counter their own counters; returns what has to be computed in front of the loop.
    fn counted(&mut self, body: &mut Vec<Node>) -> Vec<Inst> {
        let Some((at, counter, step)) = self.counter(body) else { return vec![] };
        let mut found = vec![];
        for node in &body[..at] {
            each_inst(std::slice::from_ref(node), &mut |inst| {
                if found.len() < MOST
                    && let Some(multiple) = self.multiple(inst, counter, step)
                {
                    found.push(multiple);
                }
            });
        }
        let mut before = vec![];
        for Multiple { product, step } in found {
            let (dst, by) = (self.new_value(true), self.constant(step));
            self.names.insert(product.dst, dst);
            remove(body, product.dst);
            before.push(Inst { dst, ..product });
            // The list has lost what was removed from it.
            let end = body.iter().position(|node| increments(node, counter)).unwrap_or(body.len() - 1);
            body.insert(end + 1, Node::Inst(Inst::new(Op::Scalar(Bin::Add, Elem::I64), dst, &[dst, by])));
        }
        before
    }

    /// Returns the only instruction of the loop that changes its counter: its place, the counter and the step.
    fn counter(&self, body: &[Node]) -> Option<(usize, Value, i64)> {
        let steps = body.iter().enumerate().filter_map(|(at, node)| match node {
            Node::Inst(Inst { op: Op::Scalar(Bin::Add, Elem::I64), dst, args: [a, by, _], .. }) if dst == a => {
                Some((at, *dst, *self.constants.get(by)?))
            }
            _ => None,
        });
        let own = |&(_, counter, _): &(usize, Value, i64)| {
            let mut changes = 0;
            each_inst(body, &mut |inst| changes += usize::from(inst.dst == counter));
            changes == 1 && self.region.ty(counter) == Ty::I64
        };
        steps.into_iter().find(own)
    }

    /// Returns an instruction's product with the counter, if only what comes before the counter's step reads it.
    fn multiple(&self, inst: &Inst, counter: Value, step: i64) -> Option<Multiple> {
        let [a, by, _] = inst.args;
        let by = *self.constants.get(&by).filter(|_| a == counter)?;
        let factor = match inst.op {
            // What operands in memory multiply by is left to them.
            Op::Scalar(Bin::Mul, Elem::I64) if ![2, 4, 8].contains(&by) => by,
            Op::Scalar(Bin::Shl, Elem::I64) if (4..32).contains(&by) => 1 << by,
            _ => return None,
        };
        let places = &self.numbered.places;
        let (&[def], uses) = (places[inst.dst.index()].defs.as_slice(), &places[inst.dst.index()].uses) else {
            return None;
        };
        let end = places[counter.index()].defs.iter().copied().filter(|&p| p > def).min()?;
        let inside = uses.iter().all(|&p| p > def && p < end);
        let checked = self.region.accesses.iter().any(|a| a.checks.iter().any(|c| c.args.contains(&inst.dst)));
        (inside && !checked).then_some(Multiple { product: *inst, step: step.checked_mul(factor)? })
    }

    fn new_value(&mut self, mutable: bool) -> Value {
        self.region.values.push(ValueDef { ty: Ty::I64, mutable, by_x: false, by_row: false });
        Value(self.region.values.len() as u32 - 1)
    }

    fn constant(&mut self, value: i64) -> Value {
        if let Some((&known, _)) = self.constants.iter().find(|(v, c)| **c == value && self.region.ty(**v) == Ty::I64) {
            return known;
        }
        let dst = self.new_value(false);
        self.region.setup.insert(0, Inst::new(Op::Const(value), dst, &[]));
        self.constants.insert(dst, value);
        dst
    }
}

fn increments(node: &Node, counter: Value) -> bool {
    matches!(node, Node::Inst(inst) if inst.dst == counter)
}

/// Removes the instruction that defines a value.
fn remove(nodes: &mut Vec<Node>, value: Value) {
    nodes.retain(|node| !increments(node, value));
    for node in nodes {
        if let Node::Block(_, inner) | Node::Loop(inner) | Node::Each(inner) = node {
            remove(inner, value);
        }
    }
}
