//! Copies of mutable values: a snapshot that is read before the value changes is the value itself, and a result that only a move
//! reads is computed in place.
//!
//! Input and output: a region. The idea: positions in the order of the text, extended over the loops that repeat a use.

use rustc_hash::FxHashMap;

use super::*;

/// Where a value is defined and used, in the order of the text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub defs: Vec<u32>,
    pub uses: Vec<u32>,
}

pub struct Numbered {
    pub places: Vec<Places>,
    /// Loops and phases: first and last position.
    loops: Vec<(u32, u32)>,
}

pub(crate) fn number(region: &Region) -> Numbered {
    let mut numbered = Numbered { places: vec![Places::default(); region.values.len()], loops: vec![] };
    let mut next = 0;
    for inst in &region.setup {
        note(&mut numbered.places, inst, next);
        next += 1;
    }
    walk(&region.body, &mut numbered, &mut next);
    numbered
}

fn note(places: &mut [Places], inst: &Inst, at: u32) {
    inst.uses().for_each(|v| places[v.index()].uses.push(at));
    if inst.dst != Value::NONE {
        places[inst.dst.index()].defs.push(at);
    }
}

fn walk(nodes: &[Node], numbered: &mut Numbered, next: &mut u32) {
    for node in nodes {
        let at = *next;
        *next += 1;
        match node {
            Node::Inst(inst) => note(&mut numbered.places, inst, at),
            Node::Block(_, body) => walk(body, numbered, next),
            Node::Loop(body) | Node::Each(body) => {
                walk(body, numbered, next);
                numbered.loops.push((at, *next));
                *next += 1;
            }
            Node::Branch(cond, _) => cond.uses().for_each(|v| numbered.places[v.index()].uses.push(at)),
        }
    }
}

/// Removes what copies it can.
pub(crate) fn merge(region: &mut Region) {
    let numbered = number(region);
    let mut names: FxHashMap<Value, Value> = FxHashMap::default();
    let mut find = |inst: &Inst| {
        let (t, v) = (inst.dst, inst.args[0]);
        if inst.op == Op::Move
            && inst.mask == Value::NONE
            && !region.values[t.index()].mutable
            && region.values[v.index()].mutable
            && stays(&numbered, t, v)
        {
            names.insert(t, v);
        }
    };
    each_inst(&region.body, &mut |inst| find(inst));
    rename(&mut region.body, &names);
    for value in region.accesses.iter_mut().flat_map(Access::values_mut) {
        *value = names.get(value).copied().unwrap_or(*value);
    }
    let numbered = number(region);
    let mut next = region.setup.len() as u32;
    let values = &region.values;
    in_place(&mut region.body, values, &numbered, &mut next);
    let numbered = number(region);
    let mut next = region.setup.len() as u32;
    within(&mut region.body, &region.values, &numbered, &mut next);
}

/// Lets a comparison whose only use is in `and` with a mask compare under that mask.
fn within(nodes: &mut Vec<Node>, values: &[ValueDef], numbered: &Numbered, next: &mut u32) {
    let positions = each_list(nodes, next, &mut |body, next| within(body, values, numbered, next));
    let mut gone = vec![false; nodes.len()];
    for at in 0..nodes.len() {
        let Node::Inst(Inst { op: Op::MaskAnd, dst, args: [a, b, _], .. }) = nodes[at] else { continue };
        for (cond, mask) in [(a, b), (b, a)] {
            let Places { defs, uses } = &numbered.places[cond.index()];
            let (&[def], [_]) = (defs.as_slice(), uses.as_slice()) else { continue };
            let Some(from) = positions[..at].iter().position(|&p| p == def).filter(|&from| !gone[from]) else {
                continue;
            };
            let Node::Inst(compare) = nodes[from] else { continue };
            let changes = |v: &Value| numbered.places[v.index()].defs.iter().any(|&d| d > def && d < positions[at]);
            let known = matches!(compare.op, Op::Compare(..)) && compare.mask == Value::NONE && compare.dst == cond;
            if known && !values[cond.index()].mutable && !compare.uses().any(|v| changes(&v)) {
                nodes[at] = Node::Inst(Inst { dst, mask, ..compare });
                gone[from] = true;
                break;
            }
        }
    }
    drop_nodes(nodes, &gone);
}

/// Calls `inner` with each list inside of these nodes; returns the position of each node.
fn each_list(nodes: &mut [Node], next: &mut u32, inner: &mut impl FnMut(&mut Vec<Node>, &mut u32)) -> Vec<u32> {
    let mut positions = vec![];
    for node in nodes {
        positions.push(*next);
        *next += 1;
        match node {
            Node::Block(_, body) => inner(body, next),
            Node::Loop(body) | Node::Each(body) => {
                inner(body, next);
                *next += 1;
            }
            _ => {}
        }
    }
    positions
}

fn drop_nodes(nodes: &mut Vec<Node>, gone: &[bool]) {
    let mut at = 0;
    nodes.retain(|_| {
        at += 1;
        !gone[at - 1]
    });
}

/// Returns whether `v` keeps its value from the definition of its copy `t` to the last use of that.
pub(crate) fn stays(numbered: &Numbered, t: Value, v: Value) -> bool {
    let Places { defs, uses } = &numbered.places[t.index()];
    let (&[def], Some(&last)) = (defs.as_slice(), uses.iter().max()) else { return false };
    let around =
        numbered.loops.iter().filter(|(start, end)| def < *start && uses.iter().any(|u| (start..end).contains(&u)));
    let repeated = around.map(|l| l.1).max();
    let until = repeated.unwrap_or(0).max(last);
    // An instruction reads before it writes.
    let end = if until == last { last } else { until + 1 };
    !numbered.places[v.index()].defs.iter().any(|&d| d > def && d < end)
}

fn rename(nodes: &mut Vec<Node>, names: &FxHashMap<Value, Value>) {
    drop_definitions(nodes, names);
    rename_uses(nodes, names);
}

fn drop_definitions(nodes: &mut Vec<Node>, names: &FxHashMap<Value, Value>) {
    nodes.retain(|node| !matches!(node, Node::Inst(inst) if names.contains_key(&inst.dst)));
    for node in nodes {
        if let Node::Block(_, body) | Node::Loop(body) | Node::Each(body) = node {
            drop_definitions(body, names);
        }
    }
}

/// Lets instructions and branches read other values.
pub(super) fn rename_uses(nodes: &mut [Node], names: &FxHashMap<Value, Value>) {
    let new = |v: &mut Value| {
        if let Some(name) = names.get(v) {
            *v = *name;
        }
    };
    for node in nodes {
        match node {
            Node::Inst(inst) => {
                inst.args.iter_mut().for_each(new);
                new(&mut inst.mask);
            }
            Node::Block(_, body) | Node::Loop(body) | Node::Each(body) => rename_uses(body, names),
            Node::Branch(cond, _) => match cond {
                Cond::Always => {}
                Cond::Scalar(_, _, a, b) => {
                    new(a);
                    new(b);
                }
                Cond::None(mask) => new(mask),
            },
        }
    }
}

/// Lets `t = …; move v, t` compute `v`, if `t` has no other use and nothing in between touches `v`.
fn in_place(nodes: &mut Vec<Node>, values: &[ValueDef], numbered: &Numbered, next: &mut u32) {
    let positions = each_list(nodes, next, &mut |body, next| in_place(body, values, numbered, next));
    let mut gone = vec![false; nodes.len()];
    for at in 0..nodes.len() {
        let Node::Inst(Inst { op: Op::Move, dst: v, args: [t, ..], mask }) = nodes[at] else { continue };
        if values[t.index()].mutable || !values[v.index()].mutable {
            continue;
        }
        let Places { defs, uses } = &numbered.places[t.index()];
        let (&[def], [_]) = (defs.as_slice(), uses.as_slice()) else { continue };
        let Some(from) = positions[..at].iter().position(|&p| p == def) else { continue };
        let Places { defs, uses } = &numbered.places[v.index()];
        let touched = |&p: &u32| p > def && p < positions[at];
        // Nor may control go elsewhere in between, where `v` has its old value.
        let passes = nodes[from..at].iter().all(|node| stays_inside(node, &mut vec![]));
        if gone[from] || defs.iter().any(touched) || uses.iter().any(touched) || !passes {
            continue;
        }
        let Node::Inst(inst) = &mut nodes[from] else { continue };
        if inst.dst != t || inst.op == Op::Move {
            continue;
        }
        if mask == Value::NONE {
            inst.dst = v;
            gone[at] = true;
        } else if from + 1 == at && has_merging(inst.op) {
            (inst.dst, inst.mask) = (v, mask);
            gone[at] = true;
        }
    }
    drop_nodes(nodes, &gone);
}

/// Returns whether machine code has the operation with a mask, under which other lanes keep their values.
fn has_merging(op: Op) -> bool {
    match op {
        Op::Vector(Bin::Min | Bin::Max | Bin::Div | Bin::Rem, elem) => {
            !elem.is_float() && matches!(op, Op::Vector(Bin::Min | Bin::Max, _))
                || elem.is_float() && matches!(op, Op::Vector(Bin::Div, _))
        }
        Op::Vector(..) => true,
        _ => false,
    }
}

/// Returns whether all branches in a node go to the ends of blocks in it.
pub(super) fn stays_inside(node: &Node, blocks: &mut Vec<Exit>) -> bool {
    match node {
        Node::Inst(_) => true,
        Node::Branch(_, exit) => blocks.contains(exit),
        Node::Loop(body) | Node::Each(body) => body.iter().all(|node| stays_inside(node, blocks)),
        Node::Block(exit, body) => {
            blocks.push(*exit);
            let stays = body.iter().all(|node| stays_inside(node, blocks));
            blocks.pop();
            stays
        }
    }
}
