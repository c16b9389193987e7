//! Splits a region with barriers into phases, for blocks of several batches (cf. loop fission at barriers in pocl,
//! Jääskeläinen et al. 2015).
//!
//! Input: a region with barriers, for blocks of known extents. Output: the region without barriers. Control flow around
//! barriers runs once per block. The code between two barriers becomes a [phase](LaneNode::Phase), which runs for all
//! batches. Main idea: if one phase computes a value and another uses it, the value is recomputed if that is cheap;
//! otherwise it is saved in the frame for each batch. `docs/internals/laneir.md` lists the invariants.

use rustc_hash::FxHashMap;

use super::liveness::{self, ValueSet};
use super::*;

/// Removes the barriers of a region if each block is a single batch.
pub(crate) fn remove_barriers(region: &mut LaneRegion) {
    fn walk(nodes: &mut Vec<LaneNode>) {
        nodes.retain(|node| !is_barrier(node));
        for node in nodes {
            if let LaneNode::Block(_, inner) | LaneNode::Loop(inner) | LaneNode::Phase(inner) = node {
                walk(inner);
            }
        }
    }
    walk(&mut region.body);
}

/// Divides a region into phases. Returns false and leaves the region unchanged if the execution of a barrier depends on
/// a mask.
pub(crate) fn split_into_phases(region: &mut LaneRegion) -> bool {
    let block = block_values(region);
    let mut skeleton = PhaseSplitter { region, block: &block, phases: 0 };
    let Some(mut body) = skeleton.list(region.body.clone()) else { return false };
    let phases = skeleton.phases;
    let mut flow = PhaseLiveness {
        block: &block,
        exits: FxHashMap::default(),
        phases: vec![PhaseSets::default(); phases],
        at: phases,
        empty: ValueSet::with_room(region.values.len()),
    };
    flow.back(&body, &mut flow.empty.clone());
    let mut definitions = FxHashMap::default();
    for_each_inst(&body, &mut |inst| {
        if inst.dst != LaneValue::NONE && !region.values[inst.dst.index()].mutable {
            definitions.insert(inst.dst, *inst);
        }
    });
    let phases = flow.phases;
    let mut naming = PhaseRenamer {
        region,
        block: &block,
        definitions,
        phases: &phases,
        slots: FxHashMap::default(),
        seen: vec![],
        at: 0,
    };
    naming.nodes(&mut body);
    naming.at = 0;
    naming.keep(&mut body);
    region.body = body;
    true
}

fn is_barrier(node: &LaneNode) -> bool {
    matches!(node, LaneNode::Inst(inst) if inst.op == LaneOp::Barrier)
}

/// Returns whether a node contains a barrier, or a branch to a target outside the node. Such a node cannot be part of a
/// phase.
fn is_forked(node: &LaneNode) -> bool {
    fn contains_barrier(node: &LaneNode) -> bool {
        match node {
            LaneNode::Block(_, inner) | LaneNode::Loop(inner) | LaneNode::Phase(inner) => {
                inner.iter().any(contains_barrier)
            }
            node => is_barrier(node),
        }
    }
    contains_barrier(node) || !copy_coalescing::stays_inside(node, &mut vec![])
}

/// Calls `f` with the instructions that cannot be part of a phase.
fn for_each_outer_inst(nodes: &[LaneNode], f: &mut impl FnMut(&LaneInst)) {
    for node in nodes {
        match node {
            LaneNode::Inst(inst) => f(inst),
            LaneNode::Block(_, inner) | LaneNode::Loop(inner) if is_forked(node) => for_each_outer_inst(inner, f),
            _ => {}
        }
    }
}

/// Returns the block values: values that are computed once per block.
fn block_values(region: &LaneRegion) -> ValueSet {
    let values = &region.values;
    let mut block = ValueSet::with_room(values.len());
    for inst in region.setup.iter().filter(|inst| inst.dst != LaneValue::NONE) {
        block.insert(inst.dst);
    }
    let constants = region.setup_constants();
    let is_pure = |inst: &LaneInst| match inst.op {
        // Computed once per block, a division might run before the check of its divisor and trap.
        LaneOp::Scalar(LaneBinOp::Div | LaneBinOp::Rem, _) => constants.get(&inst.args[1]).is_some_and(|c| *c > 0),
        LaneOp::Const(_)
        | LaneOp::Scalar(..)
        | LaneOp::CompareScalar(..)
        | LaneOp::Sext
        | LaneOp::Zext
        | LaneOp::Trunc
        | LaneOp::SelectScalar => true,
        LaneOp::RowLimit(_) | LaneOp::Move => true,
        _ => false,
    };
    // For each value: the number of all its definitions, and the number of its definitions that may be outside phases.
    let mut counts = vec![(0u32, 0u32); values.len()];
    for_each_inst(&region.body, &mut |inst| {
        if inst.dst != LaneValue::NONE {
            counts[inst.dst.index()].0 += 1;
        }
    });
    let mut outer = vec![];
    for_each_outer_inst(&region.body, &mut |inst| {
        if inst.dst != LaneValue::NONE && is_pure(inst) {
            counts[inst.dst.index()].1 += 1;
            outer.push(*inst);
        }
    });
    for inst in &outer {
        let def = &values[inst.dst.index()];
        let (all, possible) = counts[inst.dst.index()];
        if def.ty.is_scalar() && !def.depends_on_x && !def.depends_on_row && all == possible {
            block.insert(inst.dst);
        }
    }
    loop {
        let wrong = |inst: &&LaneInst| block.contains(inst.dst) && !inst.uses().all(|v| block.contains(v));
        let invalid: Vec<LaneValue> = outer.iter().filter(wrong).map(|inst| inst.dst).collect();
        if invalid.is_empty() {
            return block;
        }
        invalid.into_iter().for_each(|value| block.remove(value));
    }
}

/// Divides lists of nodes into phases and nodes that run once per block.
struct PhaseSplitter<'a> {
    region: &'a LaneRegion,
    block: &'a ValueSet,
    phases: usize,
}

impl PhaseSplitter<'_> {
    fn list(&mut self, nodes: Vec<LaneNode>) -> Option<Vec<LaneNode>> {
        let (mut out, mut phase) = (vec![], vec![]);
        for node in nodes {
            let forked = is_forked(&node);
            match node {
                node if is_barrier(&node) => self.end(&mut phase, &mut out),
                LaneNode::Inst(inst) if inst.dst != LaneValue::NONE && self.block.contains(inst.dst) => {
                    if reads_value(&phase, inst.dst) {
                        self.end(&mut phase, &mut out);
                    }
                    out.push(LaneNode::Inst(inst));
                }
                LaneNode::Branch(cond, exit) => {
                    let plain = |v: LaneValue| {
                        let def = &self.region.values[v.index()];
                        def.ty.is_scalar() && !def.depends_on_x && !def.depends_on_row
                    };
                    if !cond.uses().all(plain) {
                        return None;
                    }
                    self.end(&mut phase, &mut out);
                    out.push(LaneNode::Branch(cond, exit));
                }
                LaneNode::Block(exit, inner) if forked => {
                    self.end(&mut phase, &mut out);
                    out.push(LaneNode::Block(exit, self.list(inner)?));
                }
                LaneNode::Loop(inner) if forked => {
                    self.end(&mut phase, &mut out);
                    out.push(LaneNode::Loop(self.list(inner)?));
                }
                node => phase.push(node),
            }
        }
        self.end(&mut phase, &mut out);
        Some(out)
    }

    fn end(&mut self, phase: &mut Vec<LaneNode>, out: &mut Vec<LaneNode>) {
        if !phase.is_empty() {
            self.phases += 1;
            out.push(LaneNode::Phase(std::mem::take(phase)));
        }
    }
}

/// Calls `f` with each value that the nodes read.
fn for_each_use(nodes: &[LaneNode], f: &mut impl FnMut(LaneValue)) {
    for node in nodes {
        match node {
            LaneNode::Inst(inst) => inst.uses().for_each(&mut *f),
            LaneNode::Branch(cond, _) => cond.uses().for_each(&mut *f),
            LaneNode::Block(_, inner) | LaneNode::Loop(inner) | LaneNode::Phase(inner) => for_each_use(inner, f),
        }
    }
}

fn reads_value(nodes: &[LaneNode], value: LaneValue) -> bool {
    let mut is_mentioned = false;
    for_each_use(nodes, &mut |v| is_mentioned |= v == value);
    is_mentioned
}

/// The values of a batch that are live before and after a phase.
#[derive(Clone, Default)]
struct PhaseSets {
    before: ValueSet,
    live_after: ValueSet,
}

/// Backward liveness analysis over phases, which are numbered in text order.
struct PhaseLiveness<'a> {
    block: &'a ValueSet,
    exits: FxHashMap<Exit, ValueSet>,
    phases: Vec<PhaseSets>,
    /// The number of the phase that was visited last.
    at: usize,
    empty: ValueSet,
}

impl PhaseLiveness<'_> {
    fn back(&mut self, nodes: &[LaneNode], live: &mut ValueSet) {
        for node in nodes.iter().rev() {
            match node {
                LaneNode::Inst(inst) => liveness::step_back(inst, live),
                LaneNode::Phase(inner) => {
                    self.at -= 1;
                    let live_after = live.clone();
                    liveness::step_back_nodes(inner, live);
                    for value in live.iter().collect::<Vec<_>>() {
                        if self.block.contains(value) {
                            live.remove(value);
                        }
                    }
                    self.phases[self.at] = PhaseSets { before: live.clone(), live_after };
                }
                LaneNode::Block(exit, inner) => {
                    self.exits.insert(*exit, live.clone());
                    self.back(inner, live);
                }
                LaneNode::Loop(inner) => {
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
                LaneNode::Branch(cond, exit) => {
                    let target = self.exits.get(exit).unwrap_or(&self.empty);
                    if *cond == BranchCond::Always {
                        *live = target.clone();
                    } else {
                        live.join(target);
                    }
                    cond.uses().for_each(|v| live.insert(v));
                }
            }
        }
    }
}

/// Gives each phase its own copies of the values that it shares with other phases.
struct PhaseRenamer<'a> {
    region: &'a mut LaneRegion,
    block: &'a ValueSet,
    /// The defining instruction of each immutable value.
    definitions: FxHashMap<LaneValue, LaneInst>,
    phases: &'a [PhaseSets],
    /// The values that have a slot in the frame.
    slots: FxHashMap<LaneValue, PhaseSlot>,
    /// The mutable values that an earlier phase already uses under their original name.
    seen: Vec<LaneValue>,
    /// The number of the next phase to visit.
    at: usize,
}

/// Maximum cost at which a value is recomputed rather than saved. The unit is the cost of half a vector operation.
const RECOMPUTE_LIMIT: u32 = 4;

impl PhaseRenamer<'_> {
    /// Inserts code at the head of each phase that recomputes or loads the values that other phases compute.
    fn nodes(&mut self, nodes: &mut Vec<LaneNode>) {
        let mut at = 0;
        while at < nodes.len() {
            match &mut nodes[at] {
                LaneNode::Phase(inner) => {
                    let mut inner = std::mem::take(inner);
                    self.phase(&mut inner);
                    nodes[at] = LaneNode::Phase(inner);
                }
                LaneNode::Block(_, inner) | LaneNode::Loop(inner) => self.nodes(inner),
                LaneNode::Branch(cond, _) => {
                    let (mut names, mut before) = (FxHashMap::default(), vec![]);
                    for value in cond.uses().filter(|&v| !self.block.contains(v)).collect::<Vec<_>>() {
                        let dst = self.name(value);
                        names.insert(value, dst);
                        before.push(LaneNode::Inst(self.load(value, dst)));
                    }
                    let count = before.len();
                    copy_coalescing::rename_uses(&mut nodes[at..=at], &names);
                    nodes.splice(at..at, before);
                    at += count;
                }
                LaneNode::Inst(_) => {}
            }
            at += 1;
        }
    }

    fn phase(&mut self, nodes: &mut Vec<LaneNode>) {
        let before = &self.phases[self.at].before;
        self.at += 1;
        let mut mentioned = ValueSet::with_room(self.region.values.len());
        let mut defined: Vec<LaneValue> = vec![];
        for_each_use(nodes, &mut |v| mentioned.insert(v));
        for_each_inst(nodes, &mut |inst| {
            if inst.dst != LaneValue::NONE {
                mentioned.insert(inst.dst);
                if self.region.values[inst.dst.index()].mutable && !defined.contains(&inst.dst) {
                    defined.push(inst.dst);
                }
            }
        });
        let (mut names, mut head) = (FxHashMap::default(), vec![]);
        for value in mentioned.iter().filter(|&v| before.contains(v)) {
            if self.cost(value) <= RECOMPUTE_LIMIT {
                self.recompute(value, &mut names, &mut head);
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
        nodes.splice(0..0, head.into_iter().map(LaneNode::Inst));
    }

    /// Returns the cost of recomputing a value, or a number above [`RECOMPUTE_LIMIT`] if it cannot be recomputed.
    fn cost(&self, value: LaneValue) -> u32 {
        let def = &self.region.values[value.index()];
        if self.block.contains(value) {
            return if def.mutable { RECOMPUTE_LIMIT + 1 } else { 0 };
        }
        let Some(inst) = self.definitions.get(&value) else { return RECOMPUTE_LIMIT + 1 };
        let own = match inst.op {
            LaneOp::Scalar(LaneBinOp::Div | LaneBinOp::Rem, _) => return RECOMPUTE_LIMIT + 1,
            LaneOp::Coord(_) | LaneOp::EntryMask | LaneOp::MaskConst(_) | LaneOp::Const(_) => 0,
            LaneOp::Scalar(..)
            | LaneOp::CompareScalar(..)
            | LaneOp::Sext
            | LaneOp::Zext
            | LaneOp::Trunc
            | LaneOp::SelectScalar
            | LaneOp::RowLimit(_) => 1,
            LaneOp::Broadcast | LaneOp::Iota(_) | LaneOp::Splat(_) => 1,
            LaneOp::Vector(LaneBinOp::Div | LaneBinOp::Rem, _) => return RECOMPUTE_LIMIT + 1,
            LaneOp::Vector(..) | LaneOp::Compare(..) | LaneOp::MaskAnd | LaneOp::MaskAndNot | LaneOp::MaskOr => 2,
            _ => return RECOMPUTE_LIMIT + 1,
        };
        inst.uses().fold(own, |sum, v| sum.saturating_add(self.cost(v)).min(RECOMPUTE_LIMIT + 1))
    }

    /// Emits code that recomputes a value at the head of a phase.
    fn recompute(
        &mut self,
        value: LaneValue,
        names: &mut FxHashMap<LaneValue, LaneValue>,
        head: &mut Vec<LaneInst>,
    ) -> LaneValue {
        if value == LaneValue::NONE || self.block.contains(value) {
            return value;
        }
        if let Some(&known) = names.get(&value) {
            return known;
        }
        let LaneInst { op, args, mask, .. } = self.definitions[&value];
        let args = args.map(|arg| self.recompute(arg, names, head));
        let mask = self.recompute(mask, names, head);
        let dst = self.name(value);
        names.insert(value, dst);
        head.push(LaneInst { op, dst, args, mask });
        dst
    }

    /// Creates a new value that replaces this value in one phase.
    fn name(&mut self, value: LaneValue) -> LaneValue {
        let name = LaneValue(self.region.values.len() as u32);
        self.region.values.push(self.region.values[value.index()]);
        self.region.phase_origins.insert(name, value);
        name
    }

    /// Returns the instruction that loads a saved value from its phase slot.
    fn load(&mut self, value: LaneValue, dst: LaneValue) -> LaneInst {
        let def = self.region.values[value.index()];
        let slot = *self.slots.entry(value).or_insert_with(|| {
            self.region.phase_slots.push(def.ty);
            PhaseSlot {
                number: self.region.phase_slots.len() as u32 - 1,
                depends_on_x: def.depends_on_x,
                depends_on_row: def.depends_on_row,
            }
        });
        LaneInst::new(LaneOp::LoadSlot(slot), dst, &[])
    }

    /// Renames the values in a phase, and adds entries with the new names to the region's accesses.
    fn rename(&mut self, nodes: &mut [LaneNode], names: &FxHashMap<LaneValue, LaneValue>) {
        copy_coalescing::rename_uses(nodes, names);
        rename_definitions(nodes, names);
        let of = |v: LaneValue| names.get(&v).copied().unwrap_or(v);
        let is_renamed = |a: &&AccessChecks| names.contains_key(&a.address) || names.contains_key(&a.offsets);
        let renamed: Vec<AccessChecks> = self.region.accesses.iter().filter(is_renamed).cloned().collect();
        // The operands of checks are not renamed, because the check may be in another phase.
        let renamed = renamed.into_iter().map(|a| AccessChecks { address: of(a.address), offsets: of(a.offsets), ..a });
        self.region.accesses.extend(renamed);
    }

    /// Inserts code that saves the values that later phases load.
    fn keep(&mut self, nodes: &mut [LaneNode]) {
        for node in nodes {
            match node {
                LaneNode::Phase(inner) => {
                    let live_after = &self.phases[self.at].live_after;
                    self.at += 1;
                    let mut changed = vec![];
                    for_each_inst(inner, &mut |inst| {
                        let value = self.region.phase_origin(inst.dst);
                        let is_mutable = inst.dst != LaneValue::NONE && self.region.values[inst.dst.index()].mutable;
                        let is_changed = is_mutable && !matches!(inst.op, LaneOp::LoadSlot(_));
                        if is_changed && live_after.contains(value) && !changed.contains(&inst.dst) {
                            changed.push(inst.dst);
                        }
                    });
                    self.keep_single(inner);
                    for value in changed {
                        if let Some(&slot) = self.slots.get(&self.region.phase_origin(value)) {
                            inner.push(LaneNode::Inst(LaneInst::new(
                                LaneOp::SaveSlot(slot),
                                LaneValue::NONE,
                                &[value],
                            )));
                        }
                    }
                }
                LaneNode::Block(_, inner) | LaneNode::Loop(inner) => self.keep(inner),
                LaneNode::Inst(_) | LaneNode::Branch(..) => {}
            }
        }
    }

    /// Inserts code that saves each immutable value that has a slot, directly after its definition.
    fn keep_single(&self, nodes: &mut Vec<LaneNode>) {
        let mut at = 0;
        while at < nodes.len() {
            match &mut nodes[at] {
                LaneNode::Inst(inst) => {
                    let (dst, op) = (inst.dst, inst.op);
                    let single = dst != LaneValue::NONE && !self.region.values[dst.index()].mutable;
                    if single
                        && !matches!(op, LaneOp::LoadSlot(_))
                        && let Some(&slot) = self.slots.get(&dst)
                    {
                        at += 1;
                        nodes
                            .insert(at, LaneNode::Inst(LaneInst::new(LaneOp::SaveSlot(slot), LaneValue::NONE, &[dst])));
                    }
                }
                LaneNode::Block(_, inner) | LaneNode::Loop(inner) | LaneNode::Phase(inner) => self.keep_single(inner),
                LaneNode::Branch(..) => {}
            }
            at += 1;
        }
    }
}

fn rename_definitions(nodes: &mut [LaneNode], names: &FxHashMap<LaneValue, LaneValue>) {
    for node in nodes {
        match node {
            LaneNode::Inst(inst) => inst.dst = names.get(&inst.dst).copied().unwrap_or(inst.dst),
            LaneNode::Block(_, inner) | LaneNode::Loop(inner) | LaneNode::Phase(inner) => {
                rename_definitions(inner, names)
            }
            LaneNode::Branch(..) => {}
        }
    }
}
