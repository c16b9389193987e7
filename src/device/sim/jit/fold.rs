//! What operands in memory do themselves: sums of addresses, and loads for the instruction behind them.
//!
//! Input: a region and whether its batches are whole rows. Output: the sums and loads that need neither an instruction nor a register, with
//! their parts. The idea: an operand in memory adds a constant and two registers, one of them times 1, 2, 4 or 8, and arithmetic can take
//! it.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::device::sim::lane::copies::{Numbered, number, stays};
use crate::device::sim::lane::displace::addresses;
use crate::device::sim::lane::{Bin, Cell, Elem, Form, Inst, Node, Op, Region, Value, each_inst};

/// `base + scale·index`
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sum {
    pub base: Value,
    pub index: Value,
    pub scale: u8,
}

/// The sums that are part of operands, and the products that only these sums read.
#[derive(Debug, Default)]
pub(crate) struct Folds {
    /// Addresses that are another value, the root, and a constant.
    displaced: FxHashMap<Value, (Value, i32)>,
    sums: FxHashMap<Value, Sum>,
    products: FxHashSet<Value>,
    /// Loads that are the last operand of an instruction behind them.
    loads: FxHashMap<Value, Inst>,
}

impl Folds {
    pub fn is_empty(&self) -> bool {
        self.displaced.is_empty() && self.sums.is_empty() && self.products.is_empty() && self.loads.is_empty()
    }

    /// `operands`: arithmetic takes operands from any row and single elements for all lanes (AVX-512).
    pub fn of(region: &Region, rows: bool, operands: bool) -> Folds {
        let numbered = number(region);
        let (mut defs, mut addressed) = (FxHashMap::default(), FxHashMap::default());
        let mut constants = FxHashMap::default();
        for inst in &region.setup {
            if let Op::Const(value) = inst.op {
                constants.insert(inst.dst, value);
            }
        }
        let mut folds = Folds::default();
        let mut finder = Finder { numbered, defs: FxHashMap::default(), constants, followers: FxHashMap::default() };
        folds.displace(region, &mut finder);
        each_inst(&region.body, &mut |inst| {
            if inst.dst != Value::NONE && !region.values[inst.dst.index()].mutable {
                defs.insert(inst.dst, *inst);
            }
            if takes_sum(inst, rows) {
                *addressed.entry(inst.args[0]).or_insert(0) += 1;
            }
        });
        finder.defs = defs;
        // A displaced address uses its root once.
        for (&root, followers) in &finder.followers {
            let takes = |address: &&Value| addressed.get(*address) == Some(&finder.uses(**address));
            let count = followers.iter().filter(takes).count();
            *addressed.entry(root).or_insert(0) += count;
        }
        for (&address, &count) in &addressed {
            if finder.uses(address) == count
                && !folds.displaced.contains_key(&address)
                && let Some([base, index]) = finder.sum(address)
            {
                folds.sums.insert(address, Sum { base, index, scale: 1 });
            }
        }
        folds.scale(&finder);
        if operands {
            folds.take_loads(&region.body, region, (rows, &finder));
        }
        folds
    }

    /// Takes constants out of addresses.
    fn displace(&mut self, region: &Region, finder: &mut Finder) {
        let addresses = addresses(region, &finder.numbered);
        let mut found = vec![];
        let mut note = |inst: &Inst| {
            if inst.op != Op::Scalar(Bin::Add, Elem::I64) || !addresses.contains(&inst.dst) {
                return;
            }
            let [a, b, _] = inst.args;
            let constant =
                |v: Value| finder.constants.get(&v).and_then(|&c| i32::try_from(c).ok()).filter(|c| c.abs() < FARTHEST);
            let parts = constant(b).map(|c| (a, c)).or_else(|| constant(a).map(|c| (b, c)));
            if let Some((root, constant)) = parts
                && !region.values[inst.dst.index()].mutable
                && !finder.constants.contains_key(&root)
                && finder.keeps(inst.dst, root)
            {
                found.push((inst.dst, root, constant));
            }
        };
        region.setup.iter().for_each(&mut note);
        each_inst(&region.body, &mut |inst| note(inst));
        for (address, root, constant) in found {
            self.displaced.insert(address, (root, constant));
            finder.followers.entry(root).or_default().push(address);
        }
    }

    /// Takes loads into the instructions that read them, if these have as many copies.
    fn take_loads(&mut self, nodes: &[Node], region: &Region, (rows, finder): (bool, &Finder)) {
        let varies = |value: Value| {
            let def = &region.values[value.index()];
            if rows { def.by_row } else { def.by_x }
        };
        for (at, node) in nodes.iter().enumerate() {
            let Node::Inst(load) = node else { continue };
            let plain = |inst: &Inst| inst.mask == Value::NONE;
            let known = matches!(load.op, Op::Load(Cell::W4 | Cell::W8, Form::Row | Form::One)) && plain(load);
            if !known || finder.uses(load.dst) != 1 || !finder.defs.contains_key(&load.dst) {
                continue;
            }
            let Some(reader) = reader(load, &nodes[at + 1..]) else { continue };
            let stays =
                [[load.args[0]; 2], self.parts(load.args[0])].as_flattened().iter().all(|&v| finder.keeps(load.dst, v));
            if stays
                && takes_memory(reader.op)
                && plain(reader)
                && reader.args[1] == load.dst
                && varies(load.dst) == varies(reader.dst)
            {
                self.loads.insert(load.dst, *load);
            }
        }
        for node in nodes {
            if let Node::Block(_, inner) | Node::Loop(inner) | Node::Each(inner) = node {
                self.take_loads(inner, region, (rows, finder));
            }
        }
    }

    /// Takes products by 2, 4 and 8 into the sums, if they are for nothing else.
    fn scale(&mut self, finder: &Finder) {
        let mut readers: FxHashMap<Value, Vec<Value>> = FxHashMap::default();
        for (&address, sum) in &self.sums {
            for part in [sum.base, sum.index] {
                readers.entry(part).or_default().push(address);
            }
        }
        for (product, addresses) in readers {
            let Some((factor, scale)) = finder.product(product) else { continue };
            let fits = |address: &Value| {
                let sum = self.sums[address];
                sum.scale == 1 && sum.base != sum.index && finder.keeps(*address, factor)
            };
            if finder.uses(product) != addresses.len() || !addresses.iter().all(fits) {
                continue;
            }
            for address in addresses {
                let sum = self.sums[&address];
                let base = if sum.index == product { sum.base } else { sum.index };
                self.sums.insert(address, Sum { base, index: factor, scale });
            }
            self.products.insert(product);
        }
    }

    /// Returns what an address is a constant away from, and that constant.
    pub fn root(&self, address: Value) -> (Value, i32) {
        self.displaced.get(&address).copied().unwrap_or((address, 0))
    }

    /// Returns the values that are read where an address is.
    pub fn parts(&self, address: Value) -> [Value; 2] {
        let (root, _) = self.root(address);
        self.sum(root).map_or([root; 2], |sum| [sum.base, sum.index])
    }

    /// Returns the parts of a root, if it is folded.
    pub fn sum(&self, address: Value) -> Option<Sum> {
        self.sums.get(&address).copied()
    }

    /// Returns the load of a value that is an operand in memory.
    pub fn load(&self, value: Value) -> Option<Inst> {
        self.loads.get(&value).copied()
    }

    /// Returns whether the instruction needs no code.
    pub fn covers(&self, inst: &Inst) -> bool {
        let dst = inst.dst;
        self.displaced.contains_key(&dst)
            || self.sums.contains_key(&dst)
            || self.products.contains(&dst)
            || self.loads.contains_key(&dst)
    }

    /// Calls `f` with each value that the code of an instruction reads.
    pub fn each_use(&self, inst: &Inst, f: &mut impl FnMut(Value)) {
        for value in inst.uses() {
            match self.loads.get(&value) {
                Some(load) => self.each_use(load, f),
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

/// Returns the instruction that reads a load, if it is in the nodes behind it and control, stores and calls are not in between.
fn reader<'a>(load: &Inst, behind: &'a [Node]) -> Option<&'a Inst> {
    for node in behind.iter().take(NEAR) {
        let Node::Inst(inst) = node else { return None };
        if inst.uses().any(|value| value == load.dst) {
            return Some(inst);
        }
        if matches!(inst.op, Op::Store(..) | Op::Atomic(..) | Op::Call(..) | Op::Warp(..) | Op::Touch(..)) {
            return None;
        }
    }
    None
}

/// How far behind a load its reader may be.
const NEAR: usize = 16;

/// The farthest displacement.
const FARTHEST: i32 = 1 << 24;

/// Returns whether an operation is one instruction, whose last operand may lie in memory.
fn takes_memory(op: Op) -> bool {
    let Op::Vector(bin, elem) = op else { return false };
    match bin {
        Bin::Add | Bin::Sub | Bin::Mul => true,
        Bin::Div => elem.is_float(),
        Bin::And | Bin::Or | Bin::Xor => !elem.is_float(),
        Bin::Shl | Bin::Shr | Bin::Rem | Bin::Min | Bin::Max => false,
    }
}

/// Returns whether an instruction's first operand is an address to which nothing is added.
fn takes_sum(inst: &Inst, rows: bool) -> bool {
    match inst.op {
        Op::LoadScalar(_) | Op::Load(_, Form::One) | Op::Touch(_, Form::One, _) => true,
        // Batches of whole rows begin at x = 0.
        Op::Load(_, Form::Row) | Op::Store(_, Form::Row) | Op::Touch(_, Form::Row, _) => rows,
        _ => false,
    }
}

struct Finder {
    numbered: Numbered,
    /// The addresses that are read where others, their roots, are.
    followers: FxHashMap<Value, Vec<Value>>,
    /// The instructions of the body that define values for good.
    defs: FxHashMap<Value, Inst>,
    constants: FxHashMap<Value, i64>,
}

impl Finder {
    fn uses(&self, value: Value) -> usize {
        self.numbered.places[value.index()].uses.len()
    }

    /// Returns whether `part` still has its value wherever `value`, or what follows it, is read.
    fn keeps(&self, value: Value, part: Value) -> bool {
        let followers = self.followers.get(&value).into_iter().flatten();
        self.numbered.places[part.index()].defs.len() == 1
            || followers.chain([&value]).all(|&value| stays(&self.numbered, value, part))
    }

    fn sum(&self, address: Value) -> Option<[Value; 2]> {
        let inst = self.defs.get(&address).filter(|inst| inst.op == Op::Scalar(Bin::Add, Elem::I64))?;
        let parts = [inst.args[0], inst.args[1]];
        parts.iter().all(|&part| self.keeps(address, part)).then_some(parts)
    }

    fn product(&self, value: Value) -> Option<(Value, u8)> {
        let inst = self.defs.get(&value)?;
        let [factor, by, _] = inst.args;
        let by = *self.constants.get(&by)?;
        let scale = match (inst.op, by) {
            (Op::Scalar(Bin::Mul, Elem::I64), 2 | 4 | 8) => by as u8,
            (Op::Scalar(Bin::Shl, Elem::I64), 1..=3) => 1 << by,
            _ => return None,
        };
        self.keeps(value, factor).then_some((factor, scale))
    }
}
