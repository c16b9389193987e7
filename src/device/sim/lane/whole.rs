//! Regions for whole groups: all lanes are active, and the extents of the group may be known.
//!
//! Input: a region, and the extents, x first, 0 where unknown. Output: the same region with fewer masks, coordinates that are
//! constants where an axis has one element, and without the checks that no coordinate of such a group fails. The idea: what every lane
//! that exists passes needs no mask, and what definitions and extents prove ([`super::bounds`]) needs no check.
//!
//! A mask may have bits beyond the width of a vector ([`Op::MaskNot`], [`Op::MaskOf`]). Those that have none are called *clean* here:
//! `a & entered` is `a` only if `a` is clean.

use rustc_hash::FxHashMap;

use super::bounds::Definitions;
use super::live::Set;
use super::*;

/// Specializes a region. It has passed no other pass yet. `rows`: each vector is a whole row.
pub(crate) fn specialize(region: &mut Region, extents: [u32; 3], rows: bool) {
    region.whole = Some(extents);
    coordinates(region, extents, rows);
    arithmetic(region);
    masks(region);
    flags(region);
    let definitions = Definitions::of(region);
    let passes = |inst: &Inst| {
        matches!(inst.op, Op::CheckOne | Op::CheckRow(_) | Op::CheckLanes | Op::CheckRange)
            && definitions.passes(&Check { op: inst.op, args: inst.args })
    };
    region.setup.retain(|inst| !passes(inst));
    retain(&mut region.body, &|node| !matches!(node, Node::Inst(inst) if passes(inst)));
    verify::debug_verify(region, "specialization");
    // From here on the definitions that prove them may go.
    for access in &mut region.accesses {
        access.checks.retain(|check| !definitions.passes(check));
    }
}

/// Keeps the nodes that `keep` says, also inside of others.
fn retain(nodes: &mut Vec<Node>, keep: &impl Fn(&Node) -> bool) {
    nodes.retain(keep);
    for node in nodes {
        if let Node::Block(_, inner) | Node::Loop(inner) | Node::Each(inner) = node {
            retain(inner, keep);
        }
    }
}

/// Coordinates along axes with one element, those of vectors that are whole rows, and the first and last ones of active lanes are
/// constants.
fn coordinates(region: &mut Region, extents: [u32; 3], rows: bool) {
    for inst in &mut region.setup {
        let known = match inst.op {
            Op::Input(Input::First(_)) => Some(0),
            Op::Input(Input::Last(axis)) => i64::from(extents[usize::from(axis)]).checked_sub(1).filter(|&n| n >= 0),
            _ => None,
        };
        if let Some(known) = known {
            inst.op = Op::Const(known);
        }
    }
    let values = &region.values;
    let alone = |inst: &Inst| {
        matches!(inst.op, Op::Coord(axis) if extents[usize::from(axis)] == 1 || axis == 0 && rows)
            && !values[inst.dst.index()].mutable
    };
    let mut zeros = vec![];
    each_inst(&region.body, &mut |inst| {
        if alone(inst) {
            zeros.push(Inst::new(Op::Const(0), inst.dst, &[]));
        }
    });
    retain(&mut region.body, &|node| !matches!(node, Node::Inst(inst) if alone(inst)));
    region.setup.splice(0..0, zeros);
}

/// Sums, differences and products of scalar constants, and those with 0 and 1.
fn arithmetic(region: &mut Region) {
    let Region { values, setup, body, accesses, .. } = region;
    let mut fold = Fold { values, constants: FxHashMap::default(), names: FxHashMap::default(), found: vec![] };
    for inst in setup.iter_mut() {
        fold.inst(inst);
    }
    setup.retain(|inst| inst.dst == Value::NONE || !fold.names.contains_key(&inst.dst));
    fold.found.clear();
    each_inst_mut(body, &mut |inst| fold.inst(inst));
    let Fold { names, found, .. } = fold;
    let is_found = |inst: &Inst| inst.dst != Value::NONE && found.iter().any(|constant| constant.dst == inst.dst);
    retain(
        body,
        &|node| !matches!(node, Node::Inst(inst) if inst.dst != Value::NONE && (names.contains_key(&inst.dst) || is_found(inst))),
    );
    copies::rename_uses(body, &names);
    setup.splice(0..0, found);
    for value in accesses.iter_mut().flat_map(Access::values_mut) {
        *value = names.get(value).copied().unwrap_or(*value);
    }
}

struct Fold<'a> {
    values: &'a [ValueDef],
    constants: FxHashMap<Value, i64>,
    /// Results that are another value.
    names: FxHashMap<Value, Value>,
    /// Definitions of results that turned out to be constant.
    found: Vec<Inst>,
}

impl Fold<'_> {
    fn inst(&mut self, inst: &mut Inst) {
        for arg in inst.args.iter_mut().chain([&mut inst.mask]) {
            *arg = self.names.get(arg).copied().unwrap_or(*arg);
        }
        if inst.dst == Value::NONE || self.values[inst.dst.index()].mutable {
            return;
        }
        let [a, b, _] = inst.args;
        let of = |v: Value| self.constants.get(&v).copied();
        let narrow = self.values[inst.dst.index()].ty == Ty::I32;
        let own = |c: i64| if narrow { (c as i32).into() } else { c };
        let constant = match (inst.op, of(a), of(b)) {
            (Op::Const(c), ..) => Some(own(c)),
            (Op::Sext, Some(a), _) => Some((a as i32).into()),
            (Op::Zext, Some(a), _) => Some((a as u32).into()),
            (Op::Trunc, Some(a), _) => Some((a as i32).into()),
            (Op::Scalar(Bin::Add, _), Some(a), Some(b)) => Some(own(a.wrapping_add(b))),
            (Op::Scalar(Bin::Sub, _), Some(a), Some(b)) => Some(own(a.wrapping_sub(b))),
            (Op::Scalar(Bin::Mul, _), Some(a), Some(b)) => Some(own(a.wrapping_mul(b))),
            (Op::Scalar(Bin::Mul, _), Some(0), _) | (Op::Scalar(Bin::Mul, _), _, Some(0)) => Some(0),
            _ => None,
        };
        if let Some(constant) = constant {
            self.constants.insert(inst.dst, constant);
            if !matches!(inst.op, Op::Const(_)) {
                *inst = Inst::new(Op::Const(constant), inst.dst, &[]);
                self.found.push(*inst);
            }
            return;
        }
        let same = match (inst.op, of(a), of(b)) {
            (Op::Scalar(Bin::Add | Bin::Sub | Bin::Shl | Bin::Shr, _), _, Some(0)) => a,
            (Op::Scalar(Bin::Mul, _), _, Some(1)) => a,
            (Op::Scalar(Bin::Add, _), Some(0), _) | (Op::Scalar(Bin::Mul, _), Some(1), _) => b,
            _ => return,
        };
        if !self.values[same.index()].mutable {
            self.names.insert(inst.dst, same);
        }
    }
}

/// Removes masks that have all lanes.
fn masks(region: &mut Region) {
    let values = &region.values;
    let mut pass = Masks {
        values,
        entered: Set::with_room(values.len()),
        clean: Set::with_room(values.len()),
        names: FxHashMap::default(),
    };
    pass.nodes(&mut region.body);
}

struct Masks<'a> {
    values: &'a [ValueDef],
    /// Masks of all lanes.
    entered: Set,
    clean: Set,
    names: FxHashMap<Value, Value>,
}

impl Masks<'_> {
    fn nodes(&mut self, nodes: &mut Vec<Node>) {
        nodes.retain_mut(|node| match node {
            Node::Inst(inst) => self.inst(inst),
            Node::Block(_, inner) | Node::Loop(inner) | Node::Each(inner) => {
                self.nodes(inner);
                true
            }
            Node::Branch(cond, _) => {
                if let Cond::None(mask) = cond {
                    *mask = self.names.get(mask).copied().unwrap_or(*mask);
                    return !self.has_all(*mask);
                }
                true
            }
        });
    }

    fn has_all(&self, mask: Value) -> bool {
        mask != Value::NONE && self.entered.contains(mask)
    }

    fn is_clean(&self, mask: Value) -> bool {
        self.clean.contains(mask)
    }

    /// Returns whether the instruction is still needed.
    fn inst(&mut self, inst: &mut Inst) -> bool {
        for value in inst.args.iter_mut().chain([&mut inst.mask]) {
            *value = self.names.get(value).copied().unwrap_or(*value);
        }
        use Op::*;
        let accesses = matches!(inst.op, Load(..) | Store(..) | StoreReg | CheckOne | CheckRow(_) | CheckLanes);
        let maskless = accesses || matches!(inst.op, Compare(..) | Move | Vector(..));
        if maskless && self.has_all(inst.mask) {
            inst.mask = Value::NONE;
        }
        let single = inst.dst != Value::NONE && !self.values[inst.dst.index()].mutable;
        let [a, b, _] = inst.args;
        if inst.op == Op::MaskAnd {
            let other = if self.has_all(a) { Some(b) } else { self.has_all(b).then_some(a) };
            if let Some(other) = other.filter(|&other| self.is_clean(other)) {
                if single {
                    self.names.insert(inst.dst, other);
                    return false;
                }
                *inst = Inst::new(Op::Move, inst.dst, &[other]);
                return true;
            }
        }
        let is_mask = single && self.values[inst.dst.index()].ty == Ty::Mask;
        if is_mask && self.results_clean(inst) {
            self.clean.insert(inst.dst);
        }
        if is_mask && inst.op == Op::Entered {
            self.entered.insert(inst.dst);
        }
        true
    }

    fn results_clean(&self, inst: &Inst) -> bool {
        let [a, b, _] = inst.args;
        match inst.op {
            Op::Entered | Op::Compare(..) | Op::MaskOfLanes | Op::MaskConst(false) => true,
            Op::MaskAnd => self.is_clean(a) || self.is_clean(b),
            Op::MaskOr | Op::MaskXor => self.is_clean(a) && self.is_clean(b),
            Op::MaskWithout => self.is_clean(a),
            Op::Move => inst.mask == Value::NONE && self.is_clean(a),
            _ => false,
        }
    }
}

/// Says again what depends on where a vector lies: with constants for coordinates, less does.
fn flags(region: &mut Region) {
    let Region { values, setup, body, .. } = region;
    let mut marks = vec![(false, false); values.len()];
    loop {
        let mut changed = false;
        let mut mark = |inst: &Inst| {
            if inst.dst != Value::NONE {
                let found = inst.varies(|v| marks[v.index()]);
                let old = marks[inst.dst.index()];
                let new = (old.0 | found.0, old.1 | found.1);
                changed |= new != old;
                marks[inst.dst.index()] = new;
            }
        };
        setup.iter().for_each(&mut mark);
        each_inst(body, &mut |inst| mark(inst));
        if !changed {
            break;
        }
    }
    for (def, mark) in values.iter_mut().zip(marks).filter(|(def, _)| def.ty != Ty::Mask) {
        def.by_x &= mark.0;
        def.by_row &= mark.1;
    }
}
