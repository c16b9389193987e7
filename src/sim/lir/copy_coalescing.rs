//! Copy coalescing for mutable values.
//!
//! Input and output: a region. If a value does not change before the last use of its copy, uses of the copy are
//! replaced by the value. If a result is used only by a move, the operation writes the move's destination directly.
//! Main idea: live ranges in text order, extended to the end of each loop that repeats a use.

use rustc_hash::FxHashMap;

use super::*;

/// The positions of a value's definitions and uses, numbered in text order.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveRangeEnds {
    pub defs: Vec<u32>,
    pub uses: Vec<u32>,
}

pub struct NumberedRegion {
    pub places: Vec<LiveRangeEnds>,
    /// The first and the last position of each loop and phase.
    loops: Vec<(u32, u32)>,
}

pub(crate) fn number_region(region: &LaneRegion) -> NumberedRegion {
    let mut numbered = NumberedRegion { places: vec![LiveRangeEnds::default(); region.values.len()], loops: vec![] };
    let mut next = 0;
    for inst in &region.setup {
        note(&mut numbered.places, inst, next);
        next += 1;
    }
    walk(&region.body, &mut numbered, &mut next);
    numbered
}

fn note(places: &mut [LiveRangeEnds], inst: &LaneInst, at: u32) {
    inst.uses().for_each(|v| places[v.index()].uses.push(at));
    if inst.dst != LaneValue::NONE {
        places[inst.dst.index()].defs.push(at);
    }
}

fn walk(nodes: &[LaneNode], numbered: &mut NumberedRegion, next: &mut u32) {
    for node in nodes {
        let at = *next;
        *next += 1;
        match node {
            LaneNode::Inst(inst) => note(&mut numbered.places, inst, at),
            LaneNode::Block(_, body) => walk(body, numbered, next),
            LaneNode::Loop(body) | LaneNode::Phase(body) => {
                walk(body, numbered, next);
                numbered.loops.push((at, *next));
                *next += 1;
            }
            LaneNode::Branch(cond, _) => cond.uses().for_each(|v| numbered.places[v.index()].uses.push(at)),
        }
    }
}

/// Removes the copies of a region that are unnecessary.
pub(crate) fn coalesce_copies(region: &mut LaneRegion) {
    let numbered = number_region(region);
    let mut names: FxHashMap<LaneValue, LaneValue> = FxHashMap::default();
    let mut find = |inst: &LaneInst| {
        let (t, v) = (inst.dst, inst.args[0]);
        if inst.op == LaneOp::Move
            && inst.mask == LaneValue::NONE
            && !region.values[t.index()].mutable
            && region.values[v.index()].mutable
            && is_unchanged_until_last_use(&numbered, t, v)
        {
            names.insert(t, v);
        }
    };
    for_each_inst(&region.body, &mut |inst| find(inst));
    rename(&mut region.body, &names);
    for value in region.accesses.iter_mut().flat_map(AccessChecks::values_mut) {
        *value = names.get(value).copied().unwrap_or(*value);
    }
    let numbered = number_region(region);
    let mut next = region.setup.len() as u32;
    let values = &region.values;
    in_place(&mut region.body, values, &numbered, &mut next);
    let numbered = number_region(region);
    let mut next = region.setup.len() as u32;
    within(&mut region.body, &region.values, &numbered, &mut next);
}

/// Replaces the `and` of a comparison and a mask by a masked comparison, if the comparison has no other use.
fn within(nodes: &mut Vec<LaneNode>, values: &[ValueDef], numbered: &NumberedRegion, next: &mut u32) {
    let positions = for_each_list(nodes, next, &mut |body, next| within(body, values, numbered, next));
    let mut is_removed = vec![false; nodes.len()];
    for at in 0..nodes.len() {
        let LaneNode::Inst(LaneInst { op: LaneOp::MaskAnd, dst, args: [a, b, _], .. }) = nodes[at] else { continue };
        for (cond, mask) in [(a, b), (b, a)] {
            let LiveRangeEnds { defs, uses } = &numbered.places[cond.index()];
            let (&[def], [_]) = (defs.as_slice(), uses.as_slice()) else { continue };
            let Some(from) = positions[..at].iter().position(|&p| p == def).filter(|&from| !is_removed[from]) else {
                continue;
            };
            let LaneNode::Inst(compare) = nodes[from] else { continue };
            let changes = |v: &LaneValue| numbered.places[v.index()].defs.iter().any(|&d| d > def && d < positions[at]);
            let is_plain_compare =
                matches!(compare.op, LaneOp::Compare(..)) && compare.mask == LaneValue::NONE && compare.dst == cond;
            if is_plain_compare && !values[cond.index()].mutable && !compare.uses().any(|v| changes(&v)) {
                nodes[at] = LaneNode::Inst(LaneInst { dst, mask, ..compare });
                is_removed[from] = true;
                break;
            }
        }
    }
    drop_nodes(nodes, &is_removed);
}

/// Calls `inner` with the list of nodes of each directly nested block, loop and phase. Returns the position of each
/// node of this list.
fn for_each_list(
    nodes: &mut [LaneNode],
    next: &mut u32,
    inner: &mut impl FnMut(&mut Vec<LaneNode>, &mut u32),
) -> Vec<u32> {
    let mut positions = vec![];
    for node in nodes {
        positions.push(*next);
        *next += 1;
        match node {
            LaneNode::Block(_, body) => inner(body, next),
            LaneNode::Loop(body) | LaneNode::Phase(body) => {
                inner(body, next);
                *next += 1;
            }
            _ => {}
        }
    }
    positions
}

fn drop_nodes(nodes: &mut Vec<LaneNode>, is_removed: &[bool]) {
    let mut at = 0;
    nodes.retain(|_| {
        at += 1;
        !is_removed[at - 1]
    });
}

/// Returns whether `v` is unchanged from the definition of its copy `t` to the last use of `t`.
pub(crate) fn is_unchanged_until_last_use(numbered: &NumberedRegion, t: LaneValue, v: LaneValue) -> bool {
    let LiveRangeEnds { defs, uses } = &numbered.places[t.index()];
    let (&[def], Some(&last)) = (defs.as_slice(), uses.iter().max()) else { return false };
    let around =
        numbered.loops.iter().filter(|(start, end)| def < *start && uses.iter().any(|u| (start..end).contains(&u)));
    let repeated = around.map(|l| l.1).max();
    let last_read = repeated.unwrap_or(0).max(last);
    // If no loop repeats the last use, the instruction of the last use may redefine `v`, because it reads its operands
    // before it writes.
    let end = if last_read == last { last } else { last_read + 1 };
    !numbered.places[v.index()].defs.iter().any(|&d| d > def && d < end)
}

fn rename(nodes: &mut Vec<LaneNode>, names: &FxHashMap<LaneValue, LaneValue>) {
    drop_definitions(nodes, names);
    rename_uses(nodes, names);
}

fn drop_definitions(nodes: &mut Vec<LaneNode>, names: &FxHashMap<LaneValue, LaneValue>) {
    nodes.retain(|node| !matches!(node, LaneNode::Inst(inst) if names.contains_key(&inst.dst)));
    for node in nodes {
        if let LaneNode::Block(_, body) | LaneNode::Loop(body) | LaneNode::Phase(body) = node {
            drop_definitions(body, names);
        }
    }
}

/// Replaces each operand of instructions and branches that is a key of `names`.
pub(super) fn rename_uses(nodes: &mut [LaneNode], names: &FxHashMap<LaneValue, LaneValue>) {
    let new = |v: &mut LaneValue| {
        if let Some(name) = names.get(v) {
            *v = *name;
        }
    };
    for node in nodes {
        match node {
            LaneNode::Inst(inst) => {
                inst.args.iter_mut().for_each(new);
                new(&mut inst.mask);
            }
            LaneNode::Block(_, body) | LaneNode::Loop(body) | LaneNode::Phase(body) => rename_uses(body, names),
            LaneNode::Branch(cond, _) => match cond {
                BranchCond::Always => {}
                BranchCond::Scalar(_, _, a, b) => {
                    new(a);
                    new(b);
                }
                BranchCond::MaskEmpty(mask) => new(mask),
            },
        }
    }
}

/// Replaces `t = …; move v, t` by `v = …` if `t` has no other use and nothing in between reads or writes `v`.
fn in_place(nodes: &mut Vec<LaneNode>, values: &[ValueDef], numbered: &NumberedRegion, next: &mut u32) {
    let positions = for_each_list(nodes, next, &mut |body, next| in_place(body, values, numbered, next));
    let mut is_removed = vec![false; nodes.len()];
    for at in 0..nodes.len() {
        let LaneNode::Inst(LaneInst { op: LaneOp::Move, dst: v, args: [t, ..], mask }) = nodes[at] else { continue };
        if values[t.index()].mutable || !values[v.index()].mutable {
            continue;
        }
        let LiveRangeEnds { defs, uses } = &numbered.places[t.index()];
        let (&[def], [_]) = (defs.as_slice(), uses.as_slice()) else { continue };
        let Some(from) = positions[..at].iter().position(|&p| p == def) else { continue };
        let LiveRangeEnds { defs, uses } = &numbered.places[v.index()];
        let touched = |&p: &u32| p > def && p < positions[at];
        // Also, no branch may leave the nodes in between: at the branch target, `v` must still have its old value.
        let passes = nodes[from..at].iter().all(|node| stays_inside(node, &mut vec![]));
        if is_removed[from] || defs.iter().any(touched) || uses.iter().any(touched) || !passes {
            continue;
        }
        let LaneNode::Inst(inst) = &mut nodes[from] else { continue };
        if inst.dst != t || inst.op == LaneOp::Move {
            continue;
        }
        if mask == LaneValue::NONE {
            inst.dst = v;
            is_removed[at] = true;
        } else if from + 1 == at && has_merging(inst.op) {
            (inst.dst, inst.mask) = (v, mask);
            is_removed[at] = true;
        }
    }
    drop_nodes(nodes, &is_removed);
}

/// Returns whether the machine code for the operation supports a merging mask, which preserves the other lanes.
fn has_merging(op: LaneOp) -> bool {
    match op {
        LaneOp::Vector(LaneBinOp::Min | LaneBinOp::Max | LaneBinOp::Div | LaneBinOp::Rem, elem) => {
            !elem.is_float() && matches!(op, LaneOp::Vector(LaneBinOp::Min | LaneBinOp::Max, _))
                || elem.is_float() && matches!(op, LaneOp::Vector(LaneBinOp::Div, _))
        }
        LaneOp::Vector(..) => true,
        _ => false,
    }
}

/// Returns whether all branches in a node target blocks inside the node.
pub(super) fn stays_inside(node: &LaneNode, blocks: &mut Vec<Exit>) -> bool {
    match node {
        LaneNode::Inst(_) => true,
        LaneNode::Branch(_, exit) => blocks.contains(exit),
        LaneNode::Loop(body) | LaneNode::Phase(body) => body.iter().all(|node| stays_inside(node, blocks)),
        LaneNode::Block(exit, body) => {
            blocks.push(*exit);
            let stays = body.iter().all(|node| stays_inside(node, blocks));
            blocks.pop();
            stays
        }
    }
}
