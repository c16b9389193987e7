//! Register allocation: where each value of a region lives.
//!
//! Input: a region, and how many vectors it runs for at once. Output: a place for each copy of each value: a register, a slot in the
//! frame, or where it can be had again (a constant, an input). The idea: linear scan over intervals in the order of the text, which
//! cover the loops that carry a value; where registers run out, what is used least is kept in memory for good.
//!
//! A mask has as many copies as there are vectors; so has a value that is not the same for all of them.

use rustc_hash::FxHashMap;

use super::fold::Folds;
use crate::device::sim::lane::live::Set;
use crate::device::sim::lane::{Input, Inst, Node, Op, Region, Ty, Value};

/// Vectors at once, at most.
pub(crate) const MOST: usize = 4;

/// Where a copy of a value lives.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Loc {
    #[default]
    None,
    Gpr(u8),
    Vector(u8),
    Mask(u8),
    /// Bytes from the start of the frame.
    Slot(i32),
    /// An input: bytes from the start of the frame.
    Input(i32),
    /// A scalar constant.
    Imm(i64),
    /// A constant in all lanes.
    Splat(u64),
}

/// How the lanes of a batch lie in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Shape {
    /// Lanes of a vector.
    pub width: usize,
    pub vectors: usize,
    /// The vectors are rows of `width` lanes, one below the other; else they follow one another in a row.
    pub rows: bool,
    /// Bytes of a column of 4-byte lanes in local arrays, if the code depends on them.
    pub column: usize,
}

impl Shape {
    /// Returns the number of copies of a value.
    pub fn copies(&self, region: &Region, value: Value) -> usize {
        let def = &region.values[value.index()];
        let own = def.ty == Ty::Mask || if self.rows { def.by_row } else { def.by_x };
        if own { self.vectors } else { 1 }
    }

    /// Returns whether groups of these extents consist of whole batches, none of which has rows of several planes. (Unknown extents
    /// are those of groups that are looked at before they enter.)
    pub fn divides(&self, [x, y, _]: [u32; 3]) -> bool {
        if self.rows {
            x == 0 || x as usize == self.width && (y as usize).is_multiple_of(self.vectors)
        } else {
            (x as usize).is_multiple_of(self.width * self.vectors)
        }
    }

    /// Returns the lanes that one check of a row covers.
    pub fn span(&self) -> i64 {
        (if self.rows { self.width } else { self.width * self.vectors }) as i64
    }
}

/// What a scalar in memory costs, compared with a vector.
const SCALAR: f32 = 0.1;

/// Registers that values can have.
pub(crate) struct Registers {
    pub gprs: &'static [u8],
    pub vectors: &'static [u8],
    /// None, where masks live in vectors.
    pub masks: &'static [u8],
}

impl Registers {
    fn class_of(&self, ty: Ty) -> Class {
        match ty {
            Ty::I32 | Ty::I64 => Class::Gpr,
            Ty::Mask if !self.masks.is_empty() => Class::Mask,
            Ty::V32 | Ty::V64 | Ty::Mask => Class::Vector,
        }
    }
}

pub(crate) struct Allocation {
    pub locs: Vec<[Loc; MOST]>,
    /// The addresses that are nowhere.
    pub folds: Folds,
    /// The first and last position at which a value is live.
    pub spans: Vec<(u32, u32)>,
    /// Bytes of the frame behind `base`.
    pub slot_bytes: i32,
    /// Where the frame has what is kept from phase to phase: of each batch, as many bytes as its lanes have.
    pub kept: Vec<i32>,
    /// The share of uses that are of values in memory that have to be stored there, weighted by loops.
    pub spilled: f32,
}

impl Allocation {
    pub fn of(&self, value: Value, copy: usize, copies: usize) -> Loc {
        self.locs[value.index()][copy.min(copies - 1)]
    }

    /// Adds places for what a block of so many lanes keeps, behind the slots, which begin at `base`.
    pub fn keep(&mut self, kept: &[Ty], base: i32, lanes: usize) {
        for ty in kept {
            self.kept.push(base + self.slot_bytes);
            let bytes = lanes * if *ty == Ty::V64 { 8 } else { 4 };
            // Equal lanes of different values lie in different cache sets.
            self.slot_bytes += bytes.next_multiple_of(64) as i32 + 64;
        }
    }
}

struct Interval {
    value: Value,
    copy: usize,
    start: u32,
    end: u32,
    weight: f32,
}

/// Positions of the body start behind those of the setup.
struct Numbering<'a> {
    spans: Vec<(u32, u32)>,
    weights: Vec<f32>,
    heads: &'a [Set],
    folds: &'a Folds,
    next: u32,
    loops: usize,
    depth: i32,
}

impl Numbering<'_> {
    fn touch(&mut self, value: Value, at: u32) {
        let span = &mut self.spans[value.index()];
        *span = (span.0.min(at), span.1.max(at));
        self.weights[value.index()] += 8f32.powi(self.depth);
    }

    fn inst(&mut self, inst: &Inst) {
        let at = self.next;
        self.next += 1;
        if self.folds.covers(inst) {
            return;
        }
        let folds = self.folds;
        folds.each_use(inst, &mut |v| self.touch(v, at));
        if inst.dst != Value::NONE {
            self.touch(inst.dst, at);
        }
    }

    fn nodes(&mut self, nodes: &[Node]) {
        for node in nodes {
            match node {
                Node::Inst(inst) => self.inst(inst),
                Node::Block(_, body) => self.nodes(body),
                // A phase is repeated for each batch.
                Node::Loop(body) | Node::Each(body) => {
                    let (number, start) = (self.loops, self.next);
                    self.loops += 1;
                    self.depth += 1;
                    self.nodes(body);
                    self.depth -= 1;
                    let end = self.next;
                    self.next += 1;
                    if let Some(head) = self.heads.get(number) {
                        for value in head.iter() {
                            // Where an address is read, its parts are.
                            for part in self.folds.parts(value) {
                                let span = &mut self.spans[part.index()];
                                *span = (span.0.min(start), span.1.max(end));
                            }
                        }
                    }
                }
                Node::Branch(cond, _) => {
                    let at = self.next;
                    self.next += 1;
                    cond.uses().for_each(|v| self.touch(v, at));
                }
            }
        }
    }
}

/// Allocates places, with slots from `base` on. `heads` are the values live at the heads of loops.
pub(crate) fn allocate(
    region: &Region,
    heads: &[Set],
    shape: Shape,
    registers: &Registers,
    inputs: &FxHashMap<Input, i32>,
    base: i32,
) -> Allocation {
    let count = region.values.len();
    let folds = Folds::of(region, shape.rows, !registers.masks.is_empty());
    let mut numbering = Numbering {
        spans: vec![(u32::MAX, 0); count],
        weights: vec![0.0; count],
        heads,
        folds: &folds,
        next: 0,
        loops: 0,
        depth: 0,
    };
    region.setup.iter().for_each(|inst| numbering.inst(inst));
    let setup = numbering.next;
    // The body is repeated for one batch of lanes after the other.
    numbering.depth = 1;
    numbering.nodes(&region.body);
    let end = numbering.next;
    for inst in region.setup.iter().filter(|inst| inst.dst != Value::NONE) {
        let span = &mut numbering.spans[inst.dst.index()];
        if span.1 >= setup {
            span.1 = end;
        }
    }
    let Numbering { spans, weights, .. } = numbering;
    let again = rematerialized(region, inputs);
    let mut locs = vec![[Loc::None; MOST]; count];
    let mut intervals = vec![];
    for (index, &(start, end)) in spans.iter().enumerate() {
        let value = Value(index as u32);
        if start == u32::MAX {
            continue;
        }
        if let Some(loc) = again.get(&value) {
            locs[index] = [*loc; MOST];
            if let Loc::Imm(v) = loc
                && i32::try_from(*v).is_ok()
            {
                continue;
            }
        }
        let cheap = if again.contains_key(&value) { 0.25 } else { 1.0 };
        let length = (end - start + 1) as f32;
        let weight = weights[index] * cheap / length;
        for copy in 0..shape.copies(region, value) {
            // Copies of a rematerialized vector are equal.
            if copy > 0 && again.contains_key(&value) {
                break;
            }
            intervals.push(Interval { value, copy, start, end, weight });
        }
    }
    intervals.sort_by_key(|i| (i.start, i.value, i.copy));
    let mut scan =
        Scan { region, registers, locs, slots: Slots { next: base, free: vec![] }, spilled: 0.0, again: &again };
    for class in [Class::Gpr, Class::Vector, Class::Mask] {
        let list = match class {
            Class::Gpr => registers.gprs,
            Class::Vector => registers.vectors,
            Class::Mask => registers.masks,
        };
        scan.run(class, list, &intervals, &weights);
    }
    // What is the same in all copies has one place.
    for value in again.keys() {
        let first = scan.locs[value.index()][0];
        scan.locs[value.index()] = [first; MOST];
    }
    let all: f32 = intervals.iter().map(|i| weights[i.value.index()]).sum();
    let spilled = scan.spilled / all.max(1.0);
    let Scan { locs, slots, .. } = scan;
    Allocation { locs, folds, spans, slot_bytes: slots.next - base, kept: vec![], spilled }
}

/// Values that need no slot: they can be had again from a constant or an input.
fn rematerialized(region: &Region, inputs: &FxHashMap<Input, i32>) -> FxHashMap<Value, Loc> {
    let mut again = FxHashMap::default();
    for inst in &region.setup {
        let loc = match inst.op {
            Op::Const(v) => Loc::Imm(v),
            Op::Splat(bits) => Loc::Splat(bits),
            Op::Input(input) | Op::BroadcastInput(input) => match inputs.get(&input) {
                Some(&offset) => Loc::Input(offset),
                None => continue,
            },
            _ => continue,
        };
        again.insert(inst.dst, loc);
    }
    again
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Gpr,
    Vector,
    Mask,
}

/// Slots of the frame, all of 64 bytes.
struct Slots {
    next: i32,
    free: Vec<i32>,
}

impl Slots {
    fn take(&mut self) -> i32 {
        self.free.pop().unwrap_or_else(|| {
            let slot = self.next;
            self.next += 64;
            slot
        })
    }
}

struct Scan<'a> {
    region: &'a Region,
    registers: &'a Registers,
    locs: Vec<[Loc; MOST]>,
    slots: Slots,
    spilled: f32,
    again: &'a FxHashMap<Value, Loc>,
}

impl Scan<'_> {
    fn run(&mut self, class: Class, list: &[u8], intervals: &[Interval], weights: &[f32]) {
        let mut free: Vec<u8> = list.iter().rev().copied().collect();
        let mut active: Vec<(&Interval, u8)> = vec![];
        for interval in intervals.iter().filter(|i| self.registers.class_of(self.region.ty(i.value)) == class) {
            active.retain(|(other, register)| {
                let lives = other.end >= interval.start;
                if !lives {
                    free.push(*register);
                }
                lives
            });
            if let Some(register) = free.pop() {
                self.assign(class, interval, register);
                active.push((interval, register));
                continue;
            }
            let least = active.iter().enumerate().min_by(|a, b| a.1.0.weight.total_cmp(&b.1.0.weight));
            match least.map(|(at, _)| at) {
                Some(at) if active[at].0.weight < interval.weight => {
                    let (other, register) = active.swap_remove(at);
                    self.spill(other, weights);
                    self.assign(class, interval, register);
                    active.push((interval, register));
                }
                _ => self.spill(interval, weights),
            }
        }
    }

    fn assign(&mut self, class: Class, interval: &Interval, register: u8) {
        self.locs[interval.value.index()][interval.copy] = match class {
            Class::Gpr => Loc::Gpr(register),
            Class::Vector => Loc::Vector(register),
            Class::Mask => Loc::Mask(register),
        };
    }

    fn spill(&mut self, interval: &Interval, weights: &[f32]) {
        let loc = match self.again.get(&interval.value) {
            Some(loc) => *loc,
            None => {
                // A scalar in memory is an operand there, as a rule.
                let cost = if self.region.ty(interval.value).is_scalar() { SCALAR } else { 1.0 };
                self.spilled += cost * weights[interval.value.index()];
                Loc::Slot(self.slots.take())
            }
        };
        self.locs[interval.value.index()][interval.copy] = loc;
    }
}
