//! Folds address sums and loads into memory operands.
//!
//! Input: a region, and whether each vector is a whole row. Output: the sums and loads that need neither an instruction
//! nor a register. Main idea: an x86 memory operand adds a constant and two registers, one of which is scaled by 1, 2,
//! 4 or 8. Also, arithmetic instructions accept memory operands.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::lir::copy_coalescing::{NumberedRegion, is_unchanged_until_last_use, number_region};
use crate::lir::fold_displacements::address_only_values;
use crate::lir::{
    AddressForm, LaneBinOp, LaneElem, LaneInst, LaneNode, LaneOp, LaneRegion, LaneValue, MemoryWidth, for_each_inst,
};

/// The address `base + scale·index`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ScaledAddress {
    pub base: LaneValue,
    pub index: LaneValue,
    pub scale: u8,
}

/// The values that need no instruction because memory operands compute them.
#[derive(Debug, Default)]
pub(crate) struct FoldedOperands {
    /// Addresses that equal `root + constant`: maps the address to the root and the constant.
    displaced: FxHashMap<LaneValue, (LaneValue, i32)>,
    sums: FxHashMap<LaneValue, ScaledAddress>,
    products: FxHashSet<LaneValue>,
    /// Loads that are folded into a later instruction, as its last operand.
    loads: FxHashMap<LaneValue, LaneInst>,
}

impl FoldedOperands {
    pub fn is_empty(&self) -> bool {
        self.displaced.is_empty() && self.sums.is_empty() && self.products.is_empty() && self.loads.is_empty()
    }

    /// Finds the values to fold. `rows`: each vector is a whole row. `operands`: arithmetic instructions accept
    /// unaligned and broadcast memory operands (AVX-512).
    pub fn of(region: &LaneRegion, rows: bool, operands: bool) -> FoldedOperands {
        let numbered = number_region(region);
        let (mut defs, mut addressed) = (FxHashMap::default(), FxHashMap::default());
        let constants = region.setup_constants();
        let mut folds = FoldedOperands::default();
        let mut finder =
            AddressFolder { numbered, defs: FxHashMap::default(), constants, followers: FxHashMap::default() };
        folds.split_displacements(region, &mut finder);
        for_each_inst(&region.body, &mut |inst| {
            if inst.dst != LaneValue::NONE && !region.values[inst.dst.index()].mutable {
                defs.insert(inst.dst, *inst);
            }
            if uses_address_directly(inst, rows) {
                *addressed.entry(inst.args[0]).or_insert(0) += 1;
            }
        });
        finder.defs = defs;
        // Each address with a displacement is one use of its root as an address.
        for (&root, followers) in &finder.followers {
            let is_folded_use = |address: &&LaneValue| addressed.get(*address) == Some(&finder.uses(**address));
            let count = followers.iter().filter(is_folded_use).count();
            *addressed.entry(root).or_insert(0) += count;
        }
        for (&address, &count) in &addressed {
            if finder.uses(address) == count
                && !folds.displaced.contains_key(&address)
                && let Some([base, index]) = finder.sum(address)
            {
                folds.sums.insert(address, ScaledAddress { base, index, scale: 1 });
            }
        }
        folds.scale(&finder);
        if operands {
            folds.fold_loads(&region.body, region, rows, &finder);
        }
        folds
    }

    /// Splits addresses into a root and a displacement.
    fn split_displacements(&mut self, region: &LaneRegion, finder: &mut AddressFolder) {
        let addresses = address_only_values(region, &finder.numbered);
        let mut displacements = vec![];
        let mut note = |inst: &LaneInst| {
            if inst.op != LaneOp::Scalar(LaneBinOp::Add, LaneElem::I64) || !addresses.contains(&inst.dst) {
                return;
            }
            let [a, b, _] = inst.args;
            let constant = |v: LaneValue| {
                finder.constants.get(&v).and_then(|&c| i32::try_from(c).ok()).filter(|c| c.abs() < MAX_DISPLACEMENT)
            };
            let parts = constant(b).map(|c| (a, c)).or_else(|| constant(a).map(|c| (b, c)));
            if let Some((root, constant)) = parts
                && !region.values[inst.dst.index()].mutable
                && !finder.constants.contains_key(&root)
                && finder.is_unchanged(inst.dst, root)
            {
                displacements.push((inst.dst, root, constant));
            }
        };
        region.setup.iter().for_each(&mut note);
        for_each_inst(&region.body, &mut |inst| note(inst));
        for (address, root, constant) in displacements {
            self.displaced.insert(address, (root, constant));
            finder.followers.entry(root).or_default().push(address);
        }
    }

    /// Folds loads into the instructions that read them, if both have the same number of copies.
    fn fold_loads(&mut self, nodes: &[LaneNode], region: &LaneRegion, rows: bool, finder: &AddressFolder) {
        let varies = |value: LaneValue| {
            let def = &region.values[value.index()];
            if rows { def.depends_on_row } else { def.depends_on_x }
        };
        for (at, node) in nodes.iter().enumerate() {
            let LaneNode::Inst(load) = node else { continue };
            let plain = |inst: &LaneInst| inst.mask == LaneValue::NONE;
            let is_foldable_load = matches!(
                load.op,
                LaneOp::Load(MemoryWidth::W4 | MemoryWidth::W8, AddressForm::Contiguous | AddressForm::Uniform)
            ) && plain(load);
            if !is_foldable_load || finder.uses(load.dst) != 1 || !finder.defs.contains_key(&load.dst) {
                continue;
            }
            let Some(reader) = reader(load, &nodes[at + 1..]) else { continue };
            let stays = [[load.args[0]; 2], self.parts(load.args[0])]
                .as_flattened()
                .iter()
                .all(|&v| finder.is_unchanged(load.dst, v));
            if stays
                && accepts_memory_operand(reader.op)
                && plain(reader)
                && reader.args[1] == load.dst
                && varies(load.dst) == varies(reader.dst)
            {
                self.loads.insert(load.dst, *load);
            }
        }
        for node in nodes {
            if let LaneNode::Block(_, inner) | LaneNode::Loop(inner) | LaneNode::Phase(inner) = node {
                self.fold_loads(inner, region, rows, finder);
            }
        }
    }

    /// Folds products with 2, 4 and 8 into the sums that compute addresses, if the products have no other use.
    fn scale(&mut self, finder: &AddressFolder) {
        let mut readers: FxHashMap<LaneValue, Vec<LaneValue>> = FxHashMap::default();
        for (&address, sum) in &self.sums {
            for part in [sum.base, sum.index] {
                readers.entry(part).or_default().push(address);
            }
        }
        for (product, addresses) in readers {
            let Some((factor, scale)) = finder.product(product) else { continue };
            let can_scale = |address: &LaneValue| {
                let sum = self.sums[address];
                sum.scale == 1 && sum.base != sum.index && finder.is_unchanged(*address, factor)
            };
            if finder.uses(product) != addresses.len() || !addresses.iter().all(can_scale) {
                continue;
            }
            for address in addresses {
                let sum = self.sums[&address];
                let base = if sum.index == product { sum.base } else { sum.index };
                self.sums.insert(address, ScaledAddress { base, index: factor, scale });
            }
            self.products.insert(product);
        }
    }

    /// Returns the root and the displacement (in bytes) of an address.
    pub fn root(&self, address: LaneValue) -> (LaneValue, i32) {
        self.displaced.get(&address).copied().unwrap_or((address, 0))
    }

    /// Returns the values that an instruction reads when it uses this address.
    pub fn parts(&self, address: LaneValue) -> [LaneValue; 2] {
        let (root, _) = self.root(address);
        self.sum(root).map_or([root; 2], |sum| [sum.base, sum.index])
    }

    /// Returns the base, index and scale of an address, if its sum is folded.
    pub fn sum(&self, address: LaneValue) -> Option<ScaledAddress> {
        self.sums.get(&address).copied()
    }

    /// Returns the load that computes this value, if it is folded into a memory operand.
    pub fn load(&self, value: LaneValue) -> Option<LaneInst> {
        self.loads.get(&value).copied()
    }

    /// Returns whether the instruction is folded and needs no code.
    pub fn is_folded(&self, inst: &LaneInst) -> bool {
        let dst = inst.dst;
        self.displaced.contains_key(&dst)
            || self.sums.contains_key(&dst)
            || self.products.contains(&dst)
            || self.loads.contains_key(&dst)
    }

    /// Calls `f` with each value that the code of an instruction reads.
    pub fn for_each_use(&self, inst: &LaneInst, f: &mut impl FnMut(LaneValue)) {
        for value in inst.uses() {
            match self.loads.get(&value) {
                Some(load) => self.for_each_use(load, f),
                None => {
                    let [first, second] = self.parts(value);
                    f(first);
                    if second != first {
                        f(second);
                    }
                }
            }
        }
    }
}

/// Returns the instruction that reads the result of a load, if only a few nodes separate them, and none of these is
/// control flow, a store or a call.
fn reader<'a>(load: &LaneInst, behind: &'a [LaneNode]) -> Option<&'a LaneInst> {
    for node in behind.iter().take(MAX_READER_DISTANCE) {
        let LaneNode::Inst(inst) = node else { return None };
        if inst.uses().any(|value| value == load.dst) {
            return Some(inst);
        }
        if matches!(
            inst.op,
            LaneOp::Store(..) | LaneOp::Atomic(..) | LaneOp::Call(..) | LaneOp::Warp(..) | LaneOp::ReportAccess(..)
        ) {
            return None;
        }
    }
    None
}

/// The maximum number of nodes between a load and its reader.
const MAX_READER_DISTANCE: usize = 16;

/// Limit for the absolute value of displacements, in bytes.
const MAX_DISPLACEMENT: i32 = 1 << 24;

/// Returns whether an operation is a single instruction that accepts a memory operand.
fn accepts_memory_operand(op: LaneOp) -> bool {
    let LaneOp::Vector(bin, elem) = op else { return false };
    match bin {
        LaneBinOp::Add | LaneBinOp::Sub | LaneBinOp::Mul => true,
        LaneBinOp::Div => elem.is_float(),
        LaneBinOp::And | LaneBinOp::Or | LaneBinOp::Xor => !elem.is_float(),
        LaneBinOp::Shl | LaneBinOp::Shr | LaneBinOp::Rem | LaneBinOp::Min | LaneBinOp::Max => false,
    }
}

/// Returns whether an instruction uses its first operand directly as an address, without adding anything.
fn uses_address_directly(inst: &LaneInst, rows: bool) -> bool {
    match inst.op {
        LaneOp::LoadScalar(_)
        | LaneOp::Load(_, AddressForm::Uniform)
        | LaneOp::ReportAccess(_, AddressForm::Uniform, _) => true,
        // If vectors are whole rows, they start at x = 0, so nothing is added to the address.
        LaneOp::Load(_, AddressForm::Contiguous)
        | LaneOp::Store(_, AddressForm::Contiguous)
        | LaneOp::ReportAccess(_, AddressForm::Contiguous, _) => rows,
        _ => false,
    }
}

struct AddressFolder {
    numbered: NumberedRegion,
    /// Maps each root to the addresses that are computed from it.
    followers: FxHashMap<LaneValue, Vec<LaneValue>>,
    /// The instructions of the body that define immutable values.
    defs: FxHashMap<LaneValue, LaneInst>,
    constants: FxHashMap<LaneValue, i64>,
}

impl AddressFolder {
    fn uses(&self, value: LaneValue) -> usize {
        self.numbered.places[value.index()].uses.len()
    }

    /// Returns whether the operand `part` has not changed at any use of `value` or of an address computed from `value`.
    fn is_unchanged(&self, value: LaneValue, part: LaneValue) -> bool {
        let followers = self.followers.get(&value).into_iter().flatten();
        self.numbered.places[part.index()].defs.len() == 1
            || followers.chain([&value]).all(|&value| is_unchanged_until_last_use(&self.numbered, value, part))
    }

    fn sum(&self, address: LaneValue) -> Option<[LaneValue; 2]> {
        let inst = self.defs.get(&address).filter(|inst| inst.op == LaneOp::Scalar(LaneBinOp::Add, LaneElem::I64))?;
        let parts = [inst.args[0], inst.args[1]];
        parts.iter().all(|&part| self.is_unchanged(address, part)).then_some(parts)
    }

    fn product(&self, value: LaneValue) -> Option<(LaneValue, u8)> {
        let inst = self.defs.get(&value)?;
        let [factor, by, _] = inst.args;
        let by = *self.constants.get(&by)?;
        let scale = match (inst.op, by) {
            (LaneOp::Scalar(LaneBinOp::Mul, LaneElem::I64), 2 | 4 | 8) => by as u8,
            (LaneOp::Scalar(LaneBinOp::Shl, LaneElem::I64), 1..=3) => 1 << by,
            _ => return None,
        };
        self.is_unchanged(value, factor).then_some((factor, scale))
    }
}
