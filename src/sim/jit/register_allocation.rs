//! Register allocation by linear scan (Poletto & Sarkar 1999).
//!
//! Input: a region, and the number of vectors per batch. Output: a location for each copy of each value: a register, a
//! spill slot in the frame, or a constant or input to reload. Main idea: the live interval of a value, in text order,
//! includes every loop across whose iterations the value is live. When registers run out, the least used value is
//! spilled for its whole interval. Masks, and values that differ between vectors, have one copy for each vector of the
//! batch.

use rustc_hash::FxHashMap;

use super::memory_operands::FoldedOperands;
use crate::lir::liveness::ValueSet;
use crate::lir::{LaneInst, LaneNode, LaneOp, LaneRegion, LaneTy, LaneValue, RegionInput};

/// Maximum number of vectors in a batch.
pub(crate) const MAX_VECTORS: usize = 4;

/// The location of a copy of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum ValueLocation {
    #[default]
    None,
    Gpr(u8),
    Vector(u8),
    Mask(u8),
    /// A slot in the frame, at this byte offset.
    Slot(i32),
    /// An input in the frame, at this byte offset.
    Input(i32),
    /// A scalar constant.
    Imm(i64),
    /// A vector constant, all of whose lanes have these bits.
    Splat(u64),
}

/// The arrangement of the lanes of a batch in the thread group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BatchShape {
    /// Number of lanes in a vector.
    pub width: usize,
    pub vectors: usize,
    /// Whether each vector is an entire row of `width` lanes. If false, the vectors are consecutive parts of one row.
    pub rows: bool,
    /// Size in bytes of a local array's column (one 4-byte value per lane), or 0 if the code does not depend on it.
    pub column: usize,
}

impl BatchShape {
    /// Returns the number of copies of a value.
    pub fn copies(&self, region: &LaneRegion, value: LaneValue) -> usize {
        let def = &region.values[value.index()];
        let own = def.ty == LaneTy::Mask || if self.rows { def.depends_on_row } else { def.depends_on_x };
        if own { self.vectors } else { 1 }
    }

    /// Returns whether groups of these extents consist of whole batches, each within one plane. An extent of 0 is
    /// unknown; a check at entry covers it.
    pub fn divides(&self, [x, y, _]: [u32; 3]) -> bool {
        if self.rows {
            x == 0 || x as usize == self.width && (y as usize).is_multiple_of(self.vectors)
        } else {
            (x as usize).is_multiple_of(self.width * self.vectors)
        }
    }

    /// Returns the number of lanes that one row check covers.
    pub fn span(&self) -> i64 {
        (if self.rows { self.width } else { self.width * self.vectors }) as i64
    }
}

/// The cost of a spilled scalar, relative to a spilled vector.
const SCALAR: f32 = 0.1;

/// The registers that are available for values.
pub(crate) struct AllocatableRegisters {
    pub gprs: &'static [u8],
    pub vectors: &'static [u8],
    /// Mask registers; empty if masks are in vector registers (AVX2).
    pub masks: &'static [u8],
}

impl AllocatableRegisters {
    fn class_of(&self, ty: LaneTy) -> RegisterClass {
        match ty {
            LaneTy::I32 | LaneTy::I64 => RegisterClass::Gpr,
            LaneTy::Mask if !self.masks.is_empty() => RegisterClass::Mask,
            LaneTy::V32 | LaneTy::V64 | LaneTy::Mask => RegisterClass::Vector,
        }
    }
}

pub(crate) struct RegisterAllocation {
    pub locs: Vec<[ValueLocation; MAX_VECTORS]>,
    /// Addresses and loads that are folded into memory operands, and therefore have no location.
    pub folds: FoldedOperands,
    /// For each value, the first and the last position at which it is live.
    pub spans: Vec<(u32, u32)>,
    /// Size of the spill slots and phase slots in bytes.
    pub slot_bytes: i32,
    /// Offset of each phase slot in the frame. A slot has space for all lanes of the block.
    pub phase_slots: Vec<i32>,
    /// The fraction of uses that access spilled values, weighted by loop depth. Rematerialized constants and inputs are
    /// not included.
    pub spilled: f32,
}

impl RegisterAllocation {
    pub fn of(&self, value: LaneValue, copy: usize, copies: usize) -> ValueLocation {
        self.locs[value.index()][copy.min(copies - 1)]
    }

    /// Allocates the phase slots for a block of `lanes` lanes, after the spill slots, which start at `base`.
    pub fn add_phase_slots(&mut self, phase_slots: &[LaneTy], base: i32, lanes: usize) {
        for ty in phase_slots {
            self.phase_slots.push(base + self.slot_bytes);
            let bytes = lanes * if *ty == LaneTy::V64 { 8 } else { 4 };
            // The extra 64 bytes avoid cache conflicts: the same lane of different values is in different cache sets.
            self.slot_bytes += bytes.next_multiple_of(64) as i32 + 64;
        }
    }
}

struct LiveInterval {
    value: LaneValue,
    copy: usize,
    start: u32,
    end: u32,
    weight: f32,
}

/// Computes live intervals. Instructions of the setup are numbered before those of the body.
struct IntervalBuilder<'a> {
    spans: Vec<(u32, u32)>,
    weights: Vec<f32>,
    heads: &'a [ValueSet],
    folds: &'a FoldedOperands,
    next: u32,
    loops: usize,
    depth: i32,
}

impl IntervalBuilder<'_> {
    fn touch(&mut self, value: LaneValue, at: u32) {
        let span = &mut self.spans[value.index()];
        *span = (span.0.min(at), span.1.max(at));
        self.weights[value.index()] += 8f32.powi(self.depth);
    }

    fn inst(&mut self, inst: &LaneInst) {
        let at = self.next;
        self.next += 1;
        if self.folds.is_folded(inst) {
            return;
        }
        let folds = self.folds;
        folds.for_each_use(inst, &mut |v| self.touch(v, at));
        if inst.dst != LaneValue::NONE {
            self.touch(inst.dst, at);
        }
    }

    fn nodes(&mut self, nodes: &[LaneNode]) {
        for node in nodes {
            match node {
                LaneNode::Inst(inst) => self.inst(inst),
                LaneNode::Block(_, body) => self.nodes(body),
                // Treat a phase like a loop, because it runs for each batch.
                LaneNode::Loop(body) | LaneNode::Phase(body) => {
                    let (number, start) = (self.loops, self.next);
                    self.loops += 1;
                    self.depth += 1;
                    self.nodes(body);
                    self.depth -= 1;
                    let end = self.next;
                    self.next += 1;
                    if let Some(head) = self.heads.get(number) {
                        for value in head.iter() {
                            // Reading a folded address reads its operands.
                            for part in self.folds.parts(value) {
                                let span = &mut self.spans[part.index()];
                                *span = (span.0.min(start), span.1.max(end));
                            }
                        }
                    }
                }
                LaneNode::Branch(cond, _) => {
                    let at = self.next;
                    self.next += 1;
                    cond.uses().for_each(|v| self.touch(v, at));
                }
            }
        }
    }
}

/// Allocates locations. Spill slots start at `base`. `heads` contains the values that are live at the heads of loops.
pub(crate) fn allocate(
    region: &LaneRegion,
    heads: &[ValueSet],
    shape: BatchShape,
    registers: &AllocatableRegisters,
    inputs: &FxHashMap<RegionInput, i32>,
    base: i32,
) -> RegisterAllocation {
    let count = region.values.len();
    let folds = FoldedOperands::of(region, shape.rows, !registers.masks.is_empty());
    let mut numbering = IntervalBuilder {
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
    // The body is like a loop of depth 1, because it runs for each batch.
    numbering.depth = 1;
    numbering.nodes(&region.body);
    let end = numbering.next;
    for inst in region.setup.iter().filter(|inst| inst.dst != LaneValue::NONE) {
        let span = &mut numbering.spans[inst.dst.index()];
        if span.1 >= setup {
            span.1 = end;
        }
    }
    let IntervalBuilder { spans, weights, .. } = numbering;
    let reloads = rematerialized(region, inputs);
    let mut locs = vec![[ValueLocation::None; MAX_VECTORS]; count];
    let mut intervals = vec![];
    for (index, &(start, end)) in spans.iter().enumerate() {
        let value = LaneValue(index as u32);
        if start == u32::MAX {
            continue;
        }
        if let Some(loc) = reloads.get(&value) {
            locs[index] = [*loc; MAX_VECTORS];
            if let ValueLocation::Imm(v) = loc
                && i32::try_from(*v).is_ok()
            {
                continue;
            }
        }
        let cheap = if reloads.contains_key(&value) { 0.25 } else { 1.0 };
        let length = (end - start + 1) as f32;
        let weight = weights[index] * cheap / length;
        for copy in 0..shape.copies(region, value) {
            // A rematerialized vector needs only one interval, because all of its copies are equal.
            if copy > 0 && reloads.contains_key(&value) {
                break;
            }
            intervals.push(LiveInterval { value, copy, start, end, weight });
        }
    }
    intervals.sort_by_key(|i| (i.start, i.value, i.copy));
    let mut scan = LinearScan {
        region,
        registers,
        locs,
        slots: SpillSlots { next: base, free: vec![] },
        spilled: 0.0,
        reloads: &reloads,
    };
    for class in [RegisterClass::Gpr, RegisterClass::Vector, RegisterClass::Mask] {
        let list = match class {
            RegisterClass::Gpr => registers.gprs,
            RegisterClass::Vector => registers.vectors,
            RegisterClass::Mask => registers.masks,
        };
        scan.run(class, list, &intervals, &weights);
    }
    // A rematerialized value has the same location for all copies.
    for value in reloads.keys() {
        let first = scan.locs[value.index()][0];
        scan.locs[value.index()] = [first; MAX_VECTORS];
    }
    let all: f32 = intervals.iter().map(|i| weights[i.value.index()]).sum();
    let spilled = scan.spilled / all.max(1.0);
    let LinearScan { locs, slots, .. } = scan;
    RegisterAllocation { locs, folds, spans, slot_bytes: slots.next - base, phase_slots: vec![], spilled }
}

/// Returns the values that can be rematerialized from a constant or an input and therefore need no spill slot.
fn rematerialized(region: &LaneRegion, inputs: &FxHashMap<RegionInput, i32>) -> FxHashMap<LaneValue, ValueLocation> {
    let mut reloads = FxHashMap::default();
    for inst in &region.setup {
        let loc = match inst.op {
            LaneOp::Const(v) => ValueLocation::Imm(v),
            LaneOp::Splat(bits) => ValueLocation::Splat(bits),
            LaneOp::Input(input) | LaneOp::BroadcastInput(input) => match inputs.get(&input) {
                Some(&offset) => ValueLocation::Input(offset),
                None => continue,
            },
            _ => continue,
        };
        reloads.insert(inst.dst, loc);
    }
    reloads
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RegisterClass {
    Gpr,
    Vector,
    Mask,
}

/// Allocator of spill slots in the frame, 64 bytes each.
struct SpillSlots {
    next: i32,
    free: Vec<i32>,
}

impl SpillSlots {
    fn allocate(&mut self) -> i32 {
        self.free.pop().unwrap_or_else(|| {
            let slot = self.next;
            self.next += 64;
            slot
        })
    }
}

struct LinearScan<'a> {
    region: &'a LaneRegion,
    registers: &'a AllocatableRegisters,
    locs: Vec<[ValueLocation; MAX_VECTORS]>,
    slots: SpillSlots,
    spilled: f32,
    reloads: &'a FxHashMap<LaneValue, ValueLocation>,
}

impl LinearScan<'_> {
    fn run(&mut self, class: RegisterClass, list: &[u8], intervals: &[LiveInterval], weights: &[f32]) {
        let mut free: Vec<u8> = list.iter().rev().copied().collect();
        let mut active: Vec<(&LiveInterval, u8)> = vec![];
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

    fn assign(&mut self, class: RegisterClass, interval: &LiveInterval, register: u8) {
        self.locs[interval.value.index()][interval.copy] = match class {
            RegisterClass::Gpr => ValueLocation::Gpr(register),
            RegisterClass::Vector => ValueLocation::Vector(register),
            RegisterClass::Mask => ValueLocation::Mask(register),
        };
    }

    fn spill(&mut self, interval: &LiveInterval, weights: &[f32]) {
        let loc = match self.reloads.get(&interval.value) {
            Some(loc) => *loc,
            None => {
                // Spilling a scalar is cheap, because instructions usually read it as a memory operand.
                let cost = if self.region.ty(interval.value).is_scalar() { SCALAR } else { 1.0 };
                self.spilled += cost * weights[interval.value.index()];
                ValueLocation::Slot(self.slots.allocate())
            }
        };
        self.locs[interval.value.index()][interval.copy] = loc;
    }
}
