//! Phases: the body of a region with barriers, for blocks of several batches.
//!
//! Input: a region with barriers for blocks of known extents, before addresses are rewritten. Output: the same without barriers: control
//! around barriers, with the scalars that it needs, runs once per block, and each run of instructions between two barriers is a
//! [phase](Node::Each). The idea: what a phase reads of an earlier one is computed again where that is cheap, or kept in the
//! frame for each batch; so no value lives in a register from one phase to another, but scalars that are the same for the whole block.
//!
//! # What holds
//! - A *block value* is one of the setup, or a scalar that is the same in all lanes, all of whose definitions lie outside of phases and have
//!   block values as operands. Every other value belongs to one phase: each phase has names of its own for what it reads and writes
//!   ([`Region::origins`]).
//! - What is in front of a barrier has been done for all batches before anything behind it is done for one. (Phases also end where
//!   control forks or meets around a barrier, and in front of a change of a block value that they read.)
//! - A phase has no barrier and no branch out of it, so that it runs for all batches. The region is for groups all of whose lanes are
//!   active.
//! - Leaving is what it is in other regions: all effects of all phases are undone, and the interpreter runs the region's statements
//!   from the start. So no state in the middle of a phase has to be described.

use rustc_hash::FxHashMap;

use super::live::{self, Set};
use super::*;

/// Removes the barriers of a region whose blocks are one batch.
pub(crate) fn join(region: &mut Region) {
    fn walk(nodes: &mut Vec<Node>) {
        nodes.retain(|node| !is_barrier(node));
        for node in nodes {
            if let Node::Block(_, inner) | Node::Loop(inner) | Node::Each(inner) = node {
                walk(inner);
            }
        }
    }
    walk(&mut region.body);
}

/// Divides a region into phases; returns false, with the region as it was, where control around a barrier depends on masks.
pub(crate) fn split(region: &mut Region) -> bool {
    let block = block_values(region);
    let mut skeleton = Skeleton { region, block: &block, phases: 0 };
    let Some(mut body) = skeleton.list(region.body.clone()) else { return false };
    let phases = skeleton.phases;
    let mut flow = Flow {
        block: &block,
        exits: FxHashMap::default(),
        phases: vec![Phase::default(); phases],
        at: phases,
        empty: Set::with_room(region.values.len()),
    };
    flow.back(&body, &mut flow.empty.clone());
    let mut definitions = FxHashMap::default();
    each_inst(&body, &mut |inst| {
        if inst.dst != Value::NONE && !region.values[inst.dst.index()].mutable {
            definitions.insert(inst.dst, *inst);
        }
    });
    let phases = flow.phases;
    let mut naming =
        Naming { region, block: &block, definitions, phases: &phases, kept: FxHashMap::default(), seen: vec![], at: 0 };
    naming.nodes(&mut body);
    naming.at = 0;
    naming.keep(&mut body);
    region.body = body;
    true
}

fn is_barrier(node: &Node) -> bool {
    matches!(node, Node::Inst(inst) if inst.op == Op::Barrier)
}

/// Returns whether control of a node surrounds a barrier or leaves the node, so that it cannot be part of a phase.
fn is_forked(node: &Node) -> bool {
    fn meets(node: &Node) -> bool {
        match node {
            Node::Block(_, inner) | Node::Loop(inner) | Node::Each(inner) => inner.iter().any(meets),
            node => is_barrier(node),
        }
    }
    meets(node) || !copies::stays_inside(node, &mut vec![])
}

/// Calls `f` with the instructions of control around barriers, outside of what can be part of phases.
fn each_outer(nodes: &[Node], f: &mut impl FnMut(&Inst)) {
    for node in nodes {
        match node {
            Node::Inst(inst) => f(inst),
            Node::Block(_, inner) | Node::Loop(inner) if is_forked(node) => each_outer(inner, f),
            _ => {}
        }
    }
}

/// Returns the values that are computed once per block.
fn block_values(region: &Region) -> Set {
    let values = &region.values;
    let mut block = Set::with_room(values.len());
    let mut constants = FxHashMap::default();
    for inst in region.setup.iter().filter(|inst| inst.dst != Value::NONE) {
        block.insert(inst.dst);
        if let Op::Const(value) = inst.op {
            constants.insert(inst.dst, value);
        }
    }
    let is_pure = |inst: &Inst| match inst.op {
        // A quotient may trap where a check in front of it leaves.
        Op::Scalar(Bin::Div | Bin::Rem, _) => constants.get(&inst.args[1]).is_some_and(|c| *c > 0),
        Op::Const(_) | Op::Scalar(..) | Op::Set(..) | Op::Sext | Op::Zext | Op::Trunc | Op::Choose => true,
        Op::Limit(_) | Op::Move => true,
        _ => false,
    };
    // The definitions of a value, and those that can be outside of phases.
    let mut counts = vec![(0u32, 0u32); values.len()];
    each_inst(&region.body, &mut |inst| {
        if inst.dst != Value::NONE {
            counts[inst.dst.index()].0 += 1;
        }
    });
    let mut outer = vec![];
    each_outer(&region.body, &mut |inst| {
        if inst.dst != Value::NONE && is_pure(inst) {
            counts[inst.dst.index()].1 += 1;
            outer.push(*inst);
        }
    });
    for inst in &outer {
        let def = &values[inst.dst.index()];
        let (all, possible) = counts[inst.dst.index()];
        if def.ty.is_scalar() && !def.by_x && !def.by_row && all == possible {
            block.insert(inst.dst);
        }
    }
    loop {
        let wrong = |inst: &&Inst| block.contains(inst.dst) && !inst.uses().all(|v| block.contains(v));
        let found: Vec<Value> = outer.iter().filter(wrong).map(|inst| inst.dst).collect();
        if found.is_empty() {
            return block;
        }
        found.into_iter().for_each(|value| block.remove(value));
    }
}

/// Divides lists of nodes into phases and what is between them.
struct Skeleton<'a> {
    region: &'a Region,
    block: &'a Set,
    phases: usize,
}

impl Skeleton<'_> {
    fn list(&mut self, nodes: Vec<Node>) -> Option<Vec<Node>> {
        let (mut out, mut phase) = (vec![], vec![]);
        for node in nodes {
            let forked = is_forked(&node);
            match node {
                node if is_barrier(&node) => self.end(&mut phase, &mut out),
                Node::Inst(inst) if inst.dst != Value::NONE && self.block.contains(inst.dst) => {
                    if mentions(&phase, inst.dst) {
                        self.end(&mut phase, &mut out);
                    }
                    out.push(Node::Inst(inst));
                }
                Node::Branch(cond, exit) => {
                    let plain = |v: Value| {
                        let def = &self.region.values[v.index()];
                        def.ty.is_scalar() && !def.by_x && !def.by_row
                    };
                    if !cond.uses().all(plain) {
                        return None;
                    }
                    self.end(&mut phase, &mut out);
                    out.push(Node::Branch(cond, exit));
                }
                Node::Block(exit, inner) if forked => {
                    self.end(&mut phase, &mut out);
                    out.push(Node::Block(exit, self.list(inner)?));
                }
                Node::Loop(inner) if forked => {
                    self.end(&mut phase, &mut out);
                    out.push(Node::Loop(self.list(inner)?));
                }
                node => phase.push(node),
            }
        }
        self.end(&mut phase, &mut out);
        Some(out)
    }

    fn end(&mut self, phase: &mut Vec<Node>, out: &mut Vec<Node>) {
        if !phase.is_empty() {
            self.phases += 1;
            out.push(Node::Each(std::mem::take(phase)));
        }
    }
}

/// Calls `f` with the values that nodes read.
fn each_use(nodes: &[Node], f: &mut impl FnMut(Value)) {
    for node in nodes {
        match node {
            Node::Inst(inst) => inst.uses().for_each(&mut *f),
            Node::Branch(cond, _) => cond.uses().for_each(&mut *f),
            Node::Block(_, inner) | Node::Loop(inner) | Node::Each(inner) => each_use(inner, f),
        }
    }
}

fn mentions(nodes: &[Node], value: Value) -> bool {
    let mut found = false;
    each_use(nodes, &mut |v| found |= v == value);
    found
}

/// What a phase reads from before and what is read behind it: of a batch, for which phases are straight-line code.
#[derive(Clone, Default)]
struct Phase {
    before: Set,
    behind: Set,
}

/// Walks backward over phases, in numbers in the order of the text.
struct Flow<'a> {
    block: &'a Set,
    exits: FxHashMap<Exit, Set>,
    phases: Vec<Phase>,
    /// The number of the last phase that has been seen.
    at: usize,
    empty: Set,
}

impl Flow<'_> {
    fn back(&mut self, nodes: &[Node], live: &mut Set) {
        for node in nodes.iter().rev() {
            match node {
                Node::Inst(inst) => live::step(inst, live),
                Node::Each(inner) => {
                    self.at -= 1;
                    let behind = live.clone();
                    live::back(inner, live);
                    for value in live.iter().collect::<Vec<_>>() {
                        if self.block.contains(value) {
                            live.remove(value);
                        }
                    }
                    self.phases[self.at] = Phase { before: live.clone(), behind };
                }
                Node::Block(exit, inner) => {
                    self.exits.insert(*exit, live.clone());
                    self.back(inner, live);
                }
                Node::Loop(inner) => {
                    let (end, mut head) = (self.at, self.empty.clone());
                    loop {
                        self.at = end;
                        let mut inside = head.clone();
                        self.back(inner, &mut inside);
                        if !head.join(&inside) {
                            break;
                        }
                    }
                    *live = head;
                }
                Node::Branch(cond, exit) => {
                    let there = self.exits.get(exit).unwrap_or(&self.empty);
                    if *cond == Cond::Always {
                        *live = there.clone();
                    } else {
                        live.join(there);
                    }
                    cond.uses().for_each(|v| live.insert(v));
                }
            }
        }
    }
}

/// Gives phases names of their own.
struct Naming<'a> {
    region: &'a mut Region,
    block: &'a Set,
    /// Of values that have one.
    definitions: FxHashMap<Value, Inst>,
    phases: &'a [Phase],
    /// What has a place in the frame.
    kept: FxHashMap<Value, Kept>,
    /// The mutable values that some phase calls by their own names.
    seen: Vec<Value>,
    /// The number of the next phase.
    at: usize,
}

/// The cost above which a value is kept instead of being computed again: that of two operations on vectors.
const CHEAP: u32 = 4;

impl Naming<'_> {
    /// Lets phases compute or load what they read of others.
    fn nodes(&mut self, nodes: &mut Vec<Node>) {
        let mut at = 0;
        while at < nodes.len() {
            match &mut nodes[at] {
                Node::Each(inner) => {
                    let mut inner = std::mem::take(inner);
                    self.phase(&mut inner);
                    nodes[at] = Node::Each(inner);
                }
                Node::Block(_, inner) | Node::Loop(inner) => self.nodes(inner),
                Node::Branch(cond, _) => {
                    let (mut names, mut before) = (FxHashMap::default(), vec![]);
                    for value in cond.uses().filter(|&v| !self.block.contains(v)).collect::<Vec<_>>() {
                        let dst = self.name(value);
                        names.insert(value, dst);
                        before.push(Node::Inst(self.load(value, dst)));
                    }
                    let count = before.len();
                    copies::rename_uses(&mut nodes[at..=at], &names);
                    nodes.splice(at..at, before);
                    at += count;
                }
                Node::Inst(_) => {}
            }
            at += 1;
        }
    }

    fn phase(&mut self, nodes: &mut Vec<Node>) {
        let before = &self.phases[self.at].before;
        self.at += 1;
        let mut mentioned = Set::with_room(self.region.values.len());
        let mut defined: Vec<Value> = vec![];
        each_use(nodes, &mut |v| mentioned.insert(v));
        each_inst(nodes, &mut |inst| {
            if inst.dst != Value::NONE {
                mentioned.insert(inst.dst);
                if self.region.values[inst.dst.index()].mutable && !defined.contains(&inst.dst) {
                    defined.push(inst.dst);
                }
            }
        });
        let (mut names, mut head) = (FxHashMap::default(), vec![]);
        for value in mentioned.iter().filter(|&v| before.contains(v)) {
            if self.cost(value) <= CHEAP {
                self.remake(value, &mut names, &mut head);
            } else {
                let dst = self.name(value);
                names.insert(value, dst);
                head.push(self.load(value, dst));
            }
        }
        defined.retain(|value| !names.contains_key(value));
        for value in defined {
            if self.seen.contains(&value) {
                let dst = self.name(value);
                names.insert(value, dst);
            }
            self.seen.push(value);
        }
        self.rename(nodes, &names);
        nodes.splice(0..0, head.into_iter().map(Node::Inst));
    }

    /// Returns what it costs to compute a value again, at least more than [`CHEAP`] where that is not possible.
    fn cost(&self, value: Value) -> u32 {
        let def = &self.region.values[value.index()];
        if self.block.contains(value) {
            return if def.mutable { CHEAP + 1 } else { 0 };
        }
        let Some(inst) = self.definitions.get(&value) else { return CHEAP + 1 };
        let own = match inst.op {
            Op::Scalar(Bin::Div | Bin::Rem, _) => return CHEAP + 1,
            Op::Coord(_) | Op::Entered | Op::MaskConst(_) | Op::Const(_) => 0,
            Op::Scalar(..) | Op::Set(..) | Op::Sext | Op::Zext | Op::Trunc | Op::Choose | Op::Limit(_) => 1,
            Op::Broadcast | Op::Iota(_) | Op::Splat(_) => 1,
            Op::Vector(Bin::Div | Bin::Rem, _) => return CHEAP + 1,
            Op::Vector(..) | Op::Compare(..) | Op::MaskAnd | Op::MaskWithout | Op::MaskOr => 2,
            _ => return CHEAP + 1,
        };
        inst.uses().fold(own, |sum, v| sum.saturating_add(self.cost(v)).min(CHEAP + 1))
    }

    /// Computes a value again, at the head of a phase.
    fn remake(&mut self, value: Value, names: &mut FxHashMap<Value, Value>, head: &mut Vec<Inst>) -> Value {
        if value == Value::NONE || self.block.contains(value) {
            return value;
        }
        if let Some(&known) = names.get(&value) {
            return known;
        }
        let Inst { op, args, mask, .. } = self.definitions[&value];
        let args = args.map(|arg| self.remake(arg, names, head));
        let mask = self.remake(mask, names, head);
        let dst = self.name(value);
        names.insert(value, dst);
        head.push(Inst { op, dst, args, mask });
        dst
    }

    /// Returns a new name of a value.
    fn name(&mut self, value: Value) -> Value {
        let name = Value(self.region.values.len() as u32);
        self.region.values.push(self.region.values[value.index()]);
        self.region.origins.insert(name, value);
        name
    }

    /// Returns the instruction that loads what is kept of a value.
    fn load(&mut self, value: Value, dst: Value) -> Inst {
        let def = self.region.values[value.index()];
        let kept = *self.kept.entry(value).or_insert_with(|| {
            self.region.kept.push(def.ty);
            Kept { number: self.region.kept.len() as u32 - 1, by_x: def.by_x, by_row: def.by_row }
        });
        Inst::new(Op::Kept(kept), dst, &[])
    }

    /// Renames what a phase reads and writes, and lists its accesses under the new names.
    fn rename(&mut self, nodes: &mut [Node], names: &FxHashMap<Value, Value>) {
        copies::rename_uses(nodes, names);
        rename_definitions(nodes, names);
        let of = |v: Value| names.get(&v).copied().unwrap_or(v);
        let is_renamed = |a: &&Access| names.contains_key(&a.address) || names.contains_key(&a.offsets);
        let renamed: Vec<Access> = self.region.accesses.iter().filter(is_renamed).cloned().collect();
        // Checks have the names of where they were made.
        let renamed = renamed.into_iter().map(|a| Access { address: of(a.address), offsets: of(a.offsets), ..a });
        self.region.accesses.extend(renamed);
    }

    /// Lets phases keep what others load.
    fn keep(&mut self, nodes: &mut [Node]) {
        for node in nodes {
            match node {
                Node::Each(inner) => {
                    let behind = &self.phases[self.at].behind;
                    self.at += 1;
                    let mut changed = vec![];
                    each_inst(inner, &mut |inst| {
                        let value = self.region.origin(inst.dst);
                        let is_mutable = inst.dst != Value::NONE && self.region.values[inst.dst.index()].mutable;
                        let is_changed = is_mutable && !matches!(inst.op, Op::Kept(_));
                        if is_changed && behind.contains(value) && !changed.contains(&inst.dst) {
                            changed.push(inst.dst);
                        }
                    });
                    self.keep_single(inner);
                    for value in changed {
                        if let Some(&kept) = self.kept.get(&self.region.origin(value)) {
                            inner.push(Node::Inst(Inst::new(Op::Keep(kept), Value::NONE, &[value])));
                        }
                    }
                }
                Node::Block(_, inner) | Node::Loop(inner) => self.keep(inner),
                Node::Inst(_) | Node::Branch(..) => {}
            }
        }
    }

    /// Keeps what has one definition behind that.
    fn keep_single(&self, nodes: &mut Vec<Node>) {
        let mut at = 0;
        while at < nodes.len() {
            match &mut nodes[at] {
                Node::Inst(inst) => {
                    let (dst, op) = (inst.dst, inst.op);
                    let single = dst != Value::NONE && !self.region.values[dst.index()].mutable;
                    if single
                        && !matches!(op, Op::Kept(_))
                        && let Some(&kept) = self.kept.get(&dst)
                    {
                        at += 1;
                        nodes.insert(at, Node::Inst(Inst::new(Op::Keep(kept), Value::NONE, &[dst])));
                    }
                }
                Node::Block(_, inner) | Node::Loop(inner) | Node::Each(inner) => self.keep_single(inner),
                Node::Branch(..) => {}
            }
            at += 1;
        }
    }
}

fn rename_definitions(nodes: &mut [Node], names: &FxHashMap<Value, Value>) {
    for node in nodes {
        match node {
            Node::Inst(inst) => inst.dst = names.get(&inst.dst).copied().unwrap_or(inst.dst),
            Node::Block(_, inner) | Node::Loop(inner) | Node::Each(inner) => rename_definitions(inner, names),
            Node::Branch(..) => {}
        }
    }
}
