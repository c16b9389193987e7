//! Specializes regions for full groups: groups all of whose lanes are active. The extents of the group may be known.
//!
//! Input: a region and the extents, x first, 0 if unknown. Output: a region with fewer masks, constant coordinates, and
//! fewer checks. Main idea: code that all lanes run needs no mask, and value ranges ([`super::value_ranges`]) prove
//! that checks pass. A mask is *clean* if no bit beyond the vector's width is set. `a & entered` may be replaced by `a`
//! only if `a` is clean. The results of [`LaneOp::MaskNot`] and [`LaneOp::MaskFromScalar`] are not clean.

use rustc_hash::FxHashMap;

use super::liveness::ValueSet;
use super::value_ranges::ValueDefinitions;
use super::*;

/// Specializes a region for full groups. This must be the first pass. `rows`: each vector is a whole row of the group.
pub(crate) fn specialize(region: &mut LaneRegion, extents: [u32; 3], rows: bool) {
    region.full_group = Some(extents);
    coordinates(region, extents, rows);
    arithmetic(region);
    masks(region);
    flags(region);
    let definitions = ValueDefinitions::of(region);
    let passes = |inst: &LaneInst| {
        matches!(inst.op, LaneOp::CheckUniform | LaneOp::CheckRow(_) | LaneOp::CheckLanes | LaneOp::CheckRange)
            && definitions.passes(&LaneCheck { op: inst.op, args: inst.args })
    };
    region.setup.retain(|inst| !passes(inst));
    retain(&mut region.body, &|node| !matches!(node, LaneNode::Inst(inst) if passes(inst)));
    verify::debug_verify(region, "specialization");
    definitions.drop_proved_checks(&mut region.accesses);
}

/// Removes the nodes for which `keep` returns false, at all nesting depths.
fn retain(nodes: &mut Vec<LaneNode>, keep: &impl Fn(&LaneNode) -> bool) {
    nodes.retain(keep);
    for node in nodes {
        if let LaneNode::Block(_, inner) | LaneNode::Loop(inner) | LaneNode::Phase(inner) = node {
            retain(inner, keep);
        }
    }
}

/// Replaces coordinates by constants: coordinates along axes of extent 1, x if each vector is a whole row, and the
/// smallest and largest coordinates of the active lanes.
fn coordinates(region: &mut LaneRegion, extents: [u32; 3], rows: bool) {
    for inst in &mut region.setup {
        let constant = match inst.op {
            LaneOp::Input(RegionInput::FirstCoord(_)) => Some(0),
            LaneOp::Input(RegionInput::LastCoord(axis)) => {
                i64::from(extents[usize::from(axis)]).checked_sub(1).filter(|&n| n >= 0)
            }
            _ => None,
        };
        if let Some(constant) = constant {
            inst.op = LaneOp::Const(constant);
        }
    }
    let values = &region.values;
    let is_zero = |inst: &LaneInst| {
        matches!(inst.op, LaneOp::Coord(axis) if extents[usize::from(axis)] == 1 || axis == 0 && rows)
            && !values[inst.dst.index()].mutable
    };
    let mut zeros = vec![];
    for_each_inst(&region.body, &mut |inst| {
        if is_zero(inst) {
            zeros.push(LaneInst::new(LaneOp::Const(0), inst.dst, &[]));
        }
    });
    retain(&mut region.body, &|node| !matches!(node, LaneNode::Inst(inst) if is_zero(inst)));
    region.setup.splice(0..0, zeros);
}

/// Folds scalar sums, differences and products of constants, and simplifies operations with 0 and 1.
fn arithmetic(region: &mut LaneRegion) {
    let LaneRegion { values, setup, body, accesses, .. } = region;
    let mut fold =
        FullGroupFolder { values, constants: FxHashMap::default(), names: FxHashMap::default(), found: vec![] };
    for inst in setup.iter_mut() {
        fold.inst(inst);
    }
    setup.retain(|inst| inst.dst == LaneValue::NONE || !fold.names.contains_key(&inst.dst));
    fold.found.clear();
    for_each_inst_mut(body, &mut |inst| fold.inst(inst));
    let FullGroupFolder { names, found, .. } = fold;
    let is_found =
        |inst: &LaneInst| inst.dst != LaneValue::NONE && found.iter().any(|constant| constant.dst == inst.dst);
    retain(
        body,
        &|node| !matches!(node, LaneNode::Inst(inst) if inst.dst != LaneValue::NONE && (names.contains_key(&inst.dst) || is_found(inst))),
    );
    copy_coalescing::rename_uses(body, &names);
    setup.splice(0..0, found);
    for value in accesses.iter_mut().flat_map(AccessChecks::values_mut) {
        *value = names.get(value).copied().unwrap_or(*value);
    }
}

struct FullGroupFolder<'a> {
    values: &'a [ValueDef],
    constants: FxHashMap<LaneValue, i64>,
    /// Maps the result of each removed instruction to the equal value that replaces it.
    names: FxHashMap<LaneValue, LaneValue>,
    /// Instructions that define the results found to be constant, for the setup.
    found: Vec<LaneInst>,
}

impl FullGroupFolder<'_> {
    fn inst(&mut self, inst: &mut LaneInst) {
        for arg in inst.args.iter_mut().chain([&mut inst.mask]) {
            *arg = self.names.get(arg).copied().unwrap_or(*arg);
        }
        if inst.dst == LaneValue::NONE || self.values[inst.dst.index()].mutable {
            return;
        }
        let [a, b, _] = inst.args;
        let of = |v: LaneValue| self.constants.get(&v).copied();
        let narrow = self.values[inst.dst.index()].ty == LaneTy::I32;
        let own = |c: i64| if narrow { (c as i32).into() } else { c };
        let constant = match (inst.op, of(a), of(b)) {
            (LaneOp::Const(c), ..) => Some(own(c)),
            (LaneOp::Sext, Some(a), _) => Some((a as i32).into()),
            (LaneOp::Zext, Some(a), _) => Some((a as u32).into()),
            (LaneOp::Trunc, Some(a), _) => Some((a as i32).into()),
            (LaneOp::Scalar(LaneBinOp::Add, _), Some(a), Some(b)) => Some(own(a.wrapping_add(b))),
            (LaneOp::Scalar(LaneBinOp::Sub, _), Some(a), Some(b)) => Some(own(a.wrapping_sub(b))),
            (LaneOp::Scalar(LaneBinOp::Mul, _), Some(a), Some(b)) => Some(own(a.wrapping_mul(b))),
            (LaneOp::Scalar(LaneBinOp::Mul, _), Some(0), _) | (LaneOp::Scalar(LaneBinOp::Mul, _), _, Some(0)) => {
                Some(0)
            }
            _ => None,
        };
        if let Some(constant) = constant {
            self.constants.insert(inst.dst, constant);
            if !matches!(inst.op, LaneOp::Const(_)) {
                *inst = LaneInst::new(LaneOp::Const(constant), inst.dst, &[]);
                self.found.push(*inst);
            }
            return;
        }
        let same = match (inst.op, of(a), of(b)) {
            (LaneOp::Scalar(LaneBinOp::Add | LaneBinOp::Sub | LaneBinOp::Shl | LaneBinOp::Shr, _), _, Some(0)) => a,
            (LaneOp::Scalar(LaneBinOp::Mul, _), _, Some(1)) => a,
            (LaneOp::Scalar(LaneBinOp::Add, _), Some(0), _) | (LaneOp::Scalar(LaneBinOp::Mul, _), Some(1), _) => b,
            _ => return,
        };
        if !self.values[same.index()].mutable {
            self.names.insert(inst.dst, same);
        }
    }
}

/// Removes masks that contain all lanes.
fn masks(region: &mut LaneRegion) {
    let values = &region.values;
    let mut pass = MaskElimination {
        values,
        entered: ValueSet::with_room(values.len()),
        clean: ValueSet::with_room(values.len()),
        names: FxHashMap::default(),
    };
    pass.nodes(&mut region.body);
}

struct MaskElimination<'a> {
    values: &'a [ValueDef],
    /// Masks that contain all lanes.
    entered: ValueSet,
    clean: ValueSet,
    names: FxHashMap<LaneValue, LaneValue>,
}

impl MaskElimination<'_> {
    fn nodes(&mut self, nodes: &mut Vec<LaneNode>) {
        nodes.retain_mut(|node| match node {
            LaneNode::Inst(inst) => self.inst(inst),
            LaneNode::Block(_, inner) | LaneNode::Loop(inner) | LaneNode::Phase(inner) => {
                self.nodes(inner);
                true
            }
            LaneNode::Branch(cond, _) => {
                if let BranchCond::MaskEmpty(mask) = cond {
                    *mask = self.names.get(mask).copied().unwrap_or(*mask);
                    return !self.has_all(*mask);
                }
                true
            }
        });
    }

    fn has_all(&self, mask: LaneValue) -> bool {
        mask != LaneValue::NONE && self.entered.contains(mask)
    }

    fn is_clean(&self, mask: LaneValue) -> bool {
        self.clean.contains(mask)
    }

    /// Simplifies an instruction. Returns false if the instruction must be removed.
    fn inst(&mut self, inst: &mut LaneInst) -> bool {
        for value in inst.args.iter_mut().chain([&mut inst.mask]) {
            *value = self.names.get(value).copied().unwrap_or(*value);
        }
        use LaneOp::*;
        let accesses = matches!(inst.op, Load(..) | Store(..) | StoreReg | CheckUniform | CheckRow(_) | CheckLanes);
        let maskless = accesses || matches!(inst.op, Compare(..) | Move | Vector(..));
        if maskless && self.has_all(inst.mask) {
            inst.mask = LaneValue::NONE;
        }
        let single = inst.dst != LaneValue::NONE && !self.values[inst.dst.index()].mutable;
        let [a, b, _] = inst.args;
        if inst.op == LaneOp::MaskAnd {
            let other = if self.has_all(a) { Some(b) } else { self.has_all(b).then_some(a) };
            if let Some(other) = other.filter(|&other| self.is_clean(other)) {
                if single {
                    self.names.insert(inst.dst, other);
                    return false;
                }
                *inst = LaneInst::new(LaneOp::Move, inst.dst, &[other]);
                return true;
            }
        }
        let is_mask = single && self.values[inst.dst.index()].ty == LaneTy::Mask;
        if is_mask && self.results_clean(inst) {
            self.clean.insert(inst.dst);
        }
        if is_mask && inst.op == LaneOp::EntryMask {
            self.entered.insert(inst.dst);
        }
        true
    }

    fn results_clean(&self, inst: &LaneInst) -> bool {
        let [a, b, _] = inst.args;
        match inst.op {
            LaneOp::EntryMask | LaneOp::Compare(..) | LaneOp::MaskFromLanes | LaneOp::MaskConst(false) => true,
            LaneOp::MaskAnd => self.is_clean(a) || self.is_clean(b),
            LaneOp::MaskOr | LaneOp::MaskXor => self.is_clean(a) && self.is_clean(b),
            LaneOp::MaskAndNot => self.is_clean(a),
            LaneOp::Move => inst.mask == LaneValue::NONE && self.is_clean(a),
            _ => false,
        }
    }
}

/// Recomputes which values depend on the vector's position. Constant coordinates make fewer values depend on it.
fn flags(region: &mut LaneRegion) {
    let LaneRegion { values, setup, body, .. } = region;
    let mut marks = vec![(false, false); values.len()];
    loop {
        let mut changed = false;
        let mut mark = |inst: &LaneInst| {
            if inst.dst != LaneValue::NONE {
                let variance = inst.variance(|v| marks[v.index()]);
                let old = marks[inst.dst.index()];
                let new = (old.0 | variance.0, old.1 | variance.1);
                changed |= new != old;
                marks[inst.dst.index()] = new;
            }
        };
        setup.iter().for_each(&mut mark);
        for_each_inst(body, &mut |inst| mark(inst));
        if !changed {
            break;
        }
    }
    for (def, mark) in values.iter_mut().zip(marks).filter(|(def, _)| def.ty != LaneTy::Mask) {
        def.depends_on_x &= mark.0;
        def.depends_on_row &= mark.1;
    }
}
