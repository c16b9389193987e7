//! How far from an access in a phase that of the next iteration is, of the loop around the phase.
//!
//! Input: a region with phases. Output: for addresses of global arrays, the bytes from an iteration to the next one. The idea: between
//! two iterations lie barriers and all batches of the block, and the next tile lies far away, where the processor's own prefetcher
//! does not look; but addresses are sums of products of the loop's counter. A wrong guess costs time only.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::device::sim::code::{Code, MemoryKind};
use crate::device::sim::lane::{Bin, Elem, Inst, Node, Op, Region, Value, each_inst};

/// The change of a scalar from an iteration to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Step {
    Bytes(i64),
    /// A value of the setup, times a constant.
    Times(Value, i64),
}

const ZERO: Step = Step::Bytes(0);

impl Step {
    fn plus(self, other: Step) -> Option<Step> {
        match (self, other) {
            (step, ZERO) | (ZERO, step) => Some(step),
            (Step::Bytes(a), Step::Bytes(b)) => a.checked_add(b).map(Step::Bytes),
            (Step::Times(v, a), Step::Times(w, b)) if v == w => a.checked_add(b).map(|c| Step::Times(v, c)),
            _ => None,
        }
    }

    fn times(self, factor: i64) -> Option<Step> {
        match self {
            Step::Bytes(a) => a.checked_mul(factor).map(Step::Bytes),
            Step::Times(v, a) => a.checked_mul(factor).map(|c| Step::Times(v, c)),
        }
    }
}

/// Returns the steps of the addresses whose lines should be fetched.
pub(crate) fn steps(region: &Region, code: &Code) -> FxHashMap<Value, Step> {
    let mut constants = FxHashMap::default();
    let mut setup = FxHashSet::default();
    for inst in &region.setup {
        setup.insert(inst.dst);
        if let Op::Const(value) = inst.op {
            constants.insert(inst.dst, value);
        }
    }
    let mut pass = Pass { region, constants, setup, found: FxHashMap::default() };
    pass.nodes(&region.body);
    let mut found = pass.found;
    let is_global = |address: &Value| {
        let mut accesses = region.accesses.iter().filter(|access| access.address == *address);
        accesses.any(|a| matches!(code.memories[a.memory.index()].kind, MemoryKind::Global(_)))
    };
    found.retain(|address, step| *step != ZERO && is_global(address));
    found
}

struct Pass<'a> {
    region: &'a Region,
    constants: FxHashMap<Value, i64>,
    setup: FxHashSet<Value>,
    found: FxHashMap<Value, Step>,
}

impl Pass<'_> {
    /// Looks at the loops around phases, the inner ones last.
    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Loop(body) if body.iter().any(has_phase) => {
                    let steps = self.of_loop(body);
                    self.found.extend(steps);
                    self.nodes(body);
                }
                Node::Block(_, body) => self.nodes(body),
                _ => {}
            }
        }
    }

    fn of_loop(&self, body: &[Node]) -> FxHashMap<Value, Step> {
        let mut definitions: FxHashMap<Value, usize> = FxHashMap::default();
        each_inst(body, &mut |inst| *definitions.entry(inst.dst).or_default() += 1);
        let mut known: FxHashMap<Value, Step> = FxHashMap::default();
        for node in body {
            let Node::Inst(Inst { op: Op::Scalar(Bin::Add, _), dst, args: [a, by, _], .. }) = node else { continue };
            if dst == a
                && definitions[dst] == 1
                && let Some(&by) = self.constants.get(by)
            {
                known.insert(*dst, Step::Bytes(by));
            }
        }
        each_inst(body, &mut |inst| {
            let single = inst.dst != Value::NONE && !self.region.values[inst.dst.index()].mutable;
            if single
                && self.region.ty(inst.dst).is_scalar()
                && let Some(step) = self.step(inst, &definitions, &known)
            {
                known.insert(inst.dst, step);
            }
        });
        known
    }

    fn step(&self, inst: &Inst, inside: &FxHashMap<Value, usize>, known: &FxHashMap<Value, Step>) -> Option<Step> {
        let of = |v: Value| if inside.contains_key(&v) { known.get(&v).copied() } else { Some(ZERO) };
        let origin = self.region.origin(inst.dst);
        if origin != inst.dst && !inside.contains_key(&origin) {
            return Some(ZERO);
        }
        let [a, b, _] = inst.args;
        let scaled = |step: Step, by: Value| match (self.constants.get(&by), step) {
            (Some(&by), step) => step.times(by),
            (None, Step::Bytes(factor)) => self.setup.contains(&by).then_some(Step::Times(by, factor)),
            (None, Step::Times(..)) => None,
        };
        match inst.op {
            Op::Sext | Op::Zext | Op::Trunc | Op::Move => of(a),
            Op::Scalar(Bin::Add, _) => of(a)?.plus(of(b)?),
            Op::Scalar(Bin::Sub, _) => of(a)?.plus(of(b)?.times(-1)?),
            Op::Scalar(Bin::Mul, elem) => match (of(a)?, of(b)?) {
                (ZERO, ZERO) => Some(ZERO),
                (step, ZERO) if elem == Elem::I64 || self.constants.contains_key(&b) => scaled(step, b),
                (ZERO, step) if elem == Elem::I64 || self.constants.contains_key(&a) => scaled(step, a),
                _ => None,
            },
            Op::Scalar(Bin::Shl, _) => {
                let count = self.constants.get(&b).copied().filter(|c| (0..32).contains(c))?;
                of(a)?.times(1 << count)
            }
            Op::Const(_) | Op::Coord(_) | Op::Scalar(..) => inst.uses().all(|v| of(v) == Some(ZERO)).then_some(ZERO),
            _ => None,
        }
    }
}

fn has_phase(node: &Node) -> bool {
    match node {
        Node::Each(_) => true,
        Node::Block(_, body) | Node::Loop(body) => body.iter().any(has_phase),
        Node::Inst(_) | Node::Branch(..) => false,
    }
}
