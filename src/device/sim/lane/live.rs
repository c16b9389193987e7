//! Liveness in LaneIR, and the removal of what nobody reads.
//!
//! Input: a region. Output: for each loop and each phase, in the order of the text, the values that are live at its head. The idea: control is
//! structured, so one walk backward suffices, which repeats loops until their heads do not change.

use rustc_hash::FxHashMap;

use super::*;

/// A set of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Set(Vec<u64>);

impl Set {
    pub fn with_room(values: usize) -> Set {
        Set(vec![0; values.div_ceil(64)])
    }

    pub fn contains(&self, value: Value) -> bool {
        self.0[value.index() / 64] >> (value.index() % 64) & 1 != 0
    }

    pub fn insert(&mut self, value: Value) {
        self.0[value.index() / 64] |= 1 << (value.index() % 64);
    }

    pub fn remove(&mut self, value: Value) {
        self.0[value.index() / 64] &= !(1 << (value.index() % 64));
    }

    pub fn join(&mut self, other: &Set) -> bool {
        let old = self.clone();
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
        *self != old
    }

    pub fn iter(&self) -> impl Iterator<Item = Value> + '_ {
        let bits = |(word, &bits): (usize, &u64)| {
            (0..64).filter(move |b| bits >> b & 1 != 0).map(move |b| Value((word * 64 + b) as u32))
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

/// Removes instructions without an effect whose result nobody reads; returns what is live at the head of each loop.
pub(crate) fn clean(region: &mut Region) -> Vec<Set> {
    let mut live = Set::with_room(region.values.len());
    let mut walk = Walk { exits: FxHashMap::default(), remove: true, heads: vec![] };
    let mut body = std::mem::take(&mut region.body);
    walk.nodes(&mut body, &mut live);
    region.body = body;
    // Constants that only say that a check passes are for the verifier; they cost nothing.
    let said: Vec<Value> = region.accesses.iter().flat_map(|a| a.checks.iter().flat_map(|c| c.args)).collect();
    let constant = |inst: &Inst| matches!(inst.op, Op::Const(_) | Op::Splat(_));
    for at in (0..region.setup.len()).rev() {
        let inst = region.setup[at];
        if is_dead(&inst, &live) && !(constant(&inst) && said.contains(&inst.dst)) {
            region.setup.remove(at);
        } else {
            step(&inst, &mut live);
        }
    }
    walk.heads.reverse();
    walk.heads
}

struct Walk {
    exits: FxHashMap<Exit, Set>,
    /// Dead instructions are removed, and heads recorded.
    remove: bool,
    /// Of the loops, the last one first.
    heads: Vec<Set>,
}

impl Walk {
    fn nodes(&mut self, nodes: &mut Vec<Node>, live: &mut Set) {
        for at in (0..nodes.len()).rev() {
            match &mut nodes[at] {
                Node::Inst(inst) => {
                    if self.remove && is_dead(inst, live) && matches!(inst.op, Op::Atomic(..) | Op::Warp(..)) {
                        // It updates memory, or leaves, all the same; what it compares with is needed.
                        if matches!(inst.op, Op::Atomic(..)) && !inst.compares() {
                            inst.dst = Value::NONE;
                        }
                        step(inst, live);
                    } else if self.remove && is_dead(inst, live) {
                        nodes.remove(at);
                    } else {
                        step(inst, live);
                    }
                }
                Node::Block(exit, body) => {
                    self.exits.insert(*exit, live.clone());
                    self.nodes(body, live);
                }
                Node::Loop(_) | Node::Each(_) => {
                    // A phase is left behind the last batch, a loop only by branches.
                    let (body, after) = match &mut nodes[at] {
                        Node::Loop(body) => (body, Set::with_room(live.0.len() * 64)),
                        Node::Each(body) => (body, live.clone()),
                        _ => continue,
                    };
                    let remove = std::mem::replace(&mut self.remove, false);
                    let mut head = after.clone();
                    loop {
                        let mut inside = head.clone();
                        self.nodes(body, &mut inside);
                        if !head.join(&inside) {
                            break;
                        }
                    }
                    self.remove = remove;
                    *live = head.clone();
                    if remove {
                        self.nodes(body, live);
                        // Reversed, a loop comes in front of those inside of it.
                        self.heads.push(head);
                    }
                }
                Node::Branch(cond, exit) => {
                    let there = self.exits.get(exit).cloned().unwrap_or_default();
                    match cond {
                        Cond::Always => *live = there,
                        _ => {
                            live.join(&there);
                        }
                    }
                    cond.uses().for_each(|v| live.insert(v));
                }
            }
        }
    }
}

/// Goes backward over nodes whose branches stay inside.
pub(super) fn back(nodes: &[Node], live: &mut Set) {
    Walk { exits: FxHashMap::default(), remove: false, heads: vec![] }.nodes(&mut nodes.to_vec(), live);
}

fn is_dead(inst: &Inst, live: &Set) -> bool {
    inst.dst != Value::NONE && !live.contains(inst.dst)
}

/// Goes backward over an instruction.
pub(super) fn step(inst: &Inst, live: &mut Set) {
    if inst.dst != Value::NONE {
        live.remove(inst.dst);
    }
    inst.uses().for_each(|v| live.insert(v));
}
