//! What operands in memory do themselves: sums of addresses, and loads for the instruction behind them.
//!
//! Input: a region and whether its batches are whole rows. Output: the sums and loads that need neither an instruction nor a register, with
//! their parts. The idea: an operand in memory adds two registers, one of them times 1, 2, 4 or 8, and arithmetic can take it.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::device::sim::lane::copies::{Numbered, number, stays};
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
    sums: FxHashMap<Value, Sum>,
    products: FxHashSet<Value>,
    /// Loads that are the last operand of the instruction behind them.
    loads: FxHashMap<Value, Inst>,
}

impl Folds {
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
        each_inst(&region.body, &mut |inst| {
            if inst.dst != Value::NONE && !region.values[inst.dst.index()].mutable {
                defs.insert(inst.dst, *inst);
            }
            if takes_sum(inst, rows) {
                *addressed.entry(inst.args[0]).or_insert(0) += 1;
            }
        });
        let finder = Finder { numbered, defs, constants };
        let mut folds = Folds::default();
        for (&address, &count) in &addressed {
            if finder.uses(address) == count
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

    /// Takes loads into the instructions behind them, if they have as many copies.
    fn take_loads(&mut self, nodes: &[Node], region: &Region, (rows, finder): (bool, &Finder)) {
        let varies = |value: Value| {
            let def = &region.values[value.index()];
            if rows { def.by_row } else { def.by_x }
        };
        for pair in nodes.windows(2) {
            let [Node::Inst(load), Node::Inst(next)] = pair else { continue };
            let plain = load.mask == Value::NONE && next.mask == Value::NONE;
            if plain
                && matches!(load.op, Op::Load(Cell::W4 | Cell::W8, Form::Row | Form::One))
                && takes_memory(next.op)
                && next.args[1] == load.dst
                && finder.uses(load.dst) == 1
                && finder.defs.contains_key(&load.dst)
                && varies(load.dst) == varies(next.dst)
            {
                self.loads.insert(load.dst, *load);
            }
        }
        for node in nodes {
            if let Node::Block(_, inner) | Node::Loop(inner) = node {
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

    /// Returns the parts of an address, if it is folded.
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
        self.sums.contains_key(&dst) || self.products.contains(&dst) || self.loads.contains_key(&dst)
    }

    /// Calls `f` with each value that the code of an instruction reads.
    pub fn each_use(&self, inst: &Inst, f: &mut impl FnMut(Value)) {
        for value in inst.uses() {
            match (self.loads.get(&value), self.sums.get(&value)) {
                (Some(load), _) => self.each_use(load, f),
                (_, Some(sum)) => {
                    f(sum.base);
                    f(sum.index);
                }
                (None, None) => f(value),
            }
        }
    }
}

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
        Op::LoadScalar(_) | Op::Load(_, Form::One) => true,
        // Batches of whole rows begin at x = 0.
        Op::Load(_, Form::Row) | Op::Store(_, Form::Row) => rows,
        _ => false,
    }
}

struct Finder {
    numbered: Numbered,
    /// The instructions of the body that define values for good.
    defs: FxHashMap<Value, Inst>,
    constants: FxHashMap<Value, i64>,
}

impl Finder {
    fn uses(&self, value: Value) -> usize {
        self.numbered.places[value.index()].uses.len()
    }

    /// Returns whether `part` still has its value wherever `value` is read.
    fn keeps(&self, value: Value, part: Value) -> bool {
        self.numbered.places[part.index()].defs.len() == 1 || stays(&self.numbered, value, part)
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
