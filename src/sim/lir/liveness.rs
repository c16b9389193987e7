//! Liveness analysis and dead code elimination in LaneIR.
//!
//! Input: a region. Output: the values that are live at the head of each loop and each phase, in text order. Main idea:
//! because control flow is structured, one backward walk suffices; it repeats each loop until the loop's head reaches a
//! fixpoint.

use rustc_hash::FxHashMap;

use super::*;

/// A set of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ValueSet(Vec<u64>);

impl ValueSet {
    pub fn with_room(values: usize) -> ValueSet {
        ValueSet(vec![0; values.div_ceil(64)])
    }

    pub fn contains(&self, value: LaneValue) -> bool {
        self.0[value.index() / 64] >> (value.index() % 64) & 1 != 0
    }

    pub fn insert(&mut self, value: LaneValue) {
        self.0[value.index() / 64] |= 1 << (value.index() % 64);
    }

    pub fn remove(&mut self, value: LaneValue) {
        self.0[value.index() / 64] &= !(1 << (value.index() % 64));
    }

    pub fn join(&mut self, other: &ValueSet) -> bool {
        let old = self.clone();
        self.0.iter_mut().zip(&other.0).for_each(|(a, b)| *a |= b);
        *self != old
    }

    pub fn iter(&self) -> impl Iterator<Item = LaneValue> + '_ {
        let bits = |(word, &bits): (usize, &u64)| {
            (0..64).filter(move |b| bits >> b & 1 != 0).map(move |b| LaneValue((word * 64 + b) as u32))
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

/// Removes dead instructions, and returns the values that are live at the head of each loop.
pub(crate) fn eliminate_dead_code(region: &mut LaneRegion) -> Vec<ValueSet> {
    let mut live = ValueSet::with_room(region.values.len());
    let mut walk = Liveness { exits: FxHashMap::default(), remove: true, heads: vec![] };
    let mut body = std::mem::take(&mut region.body);
    walk.nodes(&mut body, &mut live);
    region.body = body;
    for at in (0..region.setup.len()).rev() {
        let inst = region.setup[at];
        if is_dead(&inst, &live) {
            region.setup.remove(at);
        } else {
            step_back(&inst, &mut live);
        }
    }
    walk.heads.reverse();
    walk.heads
}

struct Liveness {
    exits: FxHashMap<Exit, ValueSet>,
    /// Whether this walk removes dead instructions and records loop heads. False while a loop's fixpoint is computed.
    remove: bool,
    /// The values that are live at the loop heads recorded so far, in reverse text order.
    heads: Vec<ValueSet>,
}

impl Liveness {
    fn nodes(&mut self, nodes: &mut Vec<LaneNode>, live: &mut ValueSet) {
        for at in (0..nodes.len()).rev() {
            match &mut nodes[at] {
                LaneNode::Inst(inst) => {
                    if self.remove && is_dead(inst, live) && matches!(inst.op, LaneOp::Atomic(..) | LaneOp::Warp(..)) {
                        // The result is dead, but the instruction updates memory or may exit. A compare-exchange also
                        // reads the expected values from its destination, which therefore remains.
                        if matches!(inst.op, LaneOp::Atomic(..)) && !inst.is_compare_exchange() {
                            inst.dst = LaneValue::NONE;
                        }
                        step_back(inst, live);
                    } else if self.remove && is_dead(inst, live) {
                        nodes.remove(at);
                    } else {
                        step_back(inst, live);
                    }
                }
                LaneNode::Block(exit, body) => {
                    self.exits.insert(*exit, live.clone());
                    self.nodes(body, live);
                }
                LaneNode::Loop(_) | LaneNode::Phase(_) => {
                    // Control reaches the node after a phase once the last batch ends. It never reaches the node after
                    // a loop, because a loop ends only by branches.
                    let (body, after) = match &mut nodes[at] {
                        LaneNode::Loop(body) => (body, ValueSet::with_room(live.0.len() * 64)),
                        LaneNode::Phase(body) => (body, live.clone()),
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
                        // Inner loops have been pushed before their outer loop. The final reversal puts the outer loop
                        // first.
                        self.heads.push(head);
                    }
                }
                LaneNode::Branch(cond, exit) => {
                    let target = self.exits.get(exit).cloned().unwrap_or_default();
                    match cond {
                        BranchCond::Always => *live = target,
                        _ => {
                            live.join(&target);
                        }
                    }
                    cond.uses().for_each(|v| live.insert(v));
                }
            }
        }
    }
}

/// Updates the set of live values backward over nodes whose branches all stay inside them.
pub(super) fn step_back_nodes(nodes: &[LaneNode], live: &mut ValueSet) {
    Liveness { exits: FxHashMap::default(), remove: false, heads: vec![] }.nodes(&mut nodes.to_vec(), live);
}

fn is_dead(inst: &LaneInst, live: &ValueSet) -> bool {
    inst.dst != LaneValue::NONE && !live.contains(inst.dst)
}

/// Updates the set of live values backward over an instruction.
pub(super) fn step_back(inst: &LaneInst, live: &mut ValueSet) {
    if inst.dst != LaneValue::NONE {
        live.remove(inst.dst);
    }
    inst.uses().for_each(|v| live.insert(v));
}
