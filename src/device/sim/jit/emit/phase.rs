//! Phases of a block: one batch after the other, and what is kept of each batch from phase to phase.
//!
//! Input: a phase. Output: a loop over the batches of the block. What is kept lies in the frame, where the lanes of a batch have as many
//! bytes as in a register of the interpreter; masks and scalars take the first bytes of their vector's.

use super::*;
use crate::device::sim::lane::{Bin, Kept};

/// Returns the branch that skips all of a phase for a batch whose threads have numbers that are too large: those of later batches are, too.
fn skip_of_rest(body: &[Node], extents: [u32; 3]) -> Option<(When, Exit)> {
    let (Node::Block(exit, inner), before) = body.split_last()? else { return None };
    let &Node::Branch(skip @ When::None(mask), to) = inner.first()? else { return None };
    let mut insts = vec![];
    for node in before {
        match node {
            // Nothing with an effect.
            Node::Inst(inst) if inst.dst != Value::NONE && !matches!(inst.op, Op::Atomic(..) | Op::Warp(..)) => {
                insts.push(inst)
            }
            _ => return None,
        }
    }
    let definition = |value: Value| {
        let mut found = insts.iter().filter(|inst| inst.dst == value);
        found.next().copied().filter(|_| found.next().is_none())
    };
    // The number of the thread in its row: the first of the batch, in all lanes, and what is the same in all batches.
    let is_number = |value: Value| {
        let Some(Inst { op: Op::Vector(Bin::Add, Elem::I32 | Elem::U32), args: [a, b, _], .. }) = definition(value)
        else {
            return false;
        };
        let first = |v: Value| {
            let from = definition(v).filter(|inst| inst.op == Op::Broadcast).and_then(|inst| definition(inst.args[0]));
            from.is_some_and(|inst| inst.op == Op::Coord(0))
        };
        let fixed =
            |v: Value| insts.iter().find(|inst| inst.dst == v).is_none_or(|inst| matches!(inst.op, Op::Iota(_)));
        first(*a) && fixed(*b) || first(*b) && fixed(*a)
    };
    let compare = definition(mask).filter(|inst| inst.mask == Value::NONE)?;
    let [number, limit, _] = compare.args;
    // A limit of the whole block: it is computed outside of the phase.
    let fits = compare.op == Op::Compare(Rel::Lt, Elem::I32) && is_limit(limit, &insts);
    (to == *exit && extents[1] * extents[2] == 1 && fits && is_number(number)).then_some((skip, to))
}

/// Returns whether a vector is the same in all batches: it comes from outside of the phase.
fn is_limit(value: Value, insts: &[&Inst]) -> bool {
    let inside = |v: Value| insts.iter().any(|inst| inst.dst == v);
    match insts.iter().find(|inst| inst.dst == value) {
        Some(inst) => inst.op == Op::Broadcast && !inside(inst.args[0]),
        None => true,
    }
}

impl Emit<'_> {
    /// Runs a phase for each batch.
    pub(super) fn phase(&mut self, body: &[Node]) {
        let Some(extents) = self.region.whole else { return };
        let rows = std::mem::replace(&mut self.rows, reads_rows(body));
        self.in_batch = true;
        if !body.is_empty() {
            let end = self.asm.label();
            self.rest = skip_of_rest(body, extents).map(|(skip, exit)| (skip, exit, end));
            self.each_batch(extents, body);
            self.asm.bind(end);
            self.rest = None;
        }
        self.in_batch = false;
        self.rows = rows;
    }

    /// Returns where a copy of a value is kept.
    fn kept_at(&self, kept: Kept, ty: Ty, copy: usize) -> Mem {
        let (first, at) = ((copy * self.shape.width) as i32, self.allocation.kept[kept.number as usize]);
        match ty {
            // Outside of phases, that of the first batch.
            _ if !self.in_batch => Self::slot(at),
            Ty::V64 => Mem::index(FRAME, LANE, 2, at + 8 * first),
            _ => Mem::index(FRAME, LANE, 1, at + 4 * first),
        }
    }

    pub(super) fn keep(&mut self, kept: Kept, value: Value) {
        let ty = self.ty(value);
        for copy in 0..self.copies(value) {
            let to = self.kept_at(kept, ty, copy);
            match ty {
                Ty::I32 | Ty::I64 => {
                    let x = self.gpr(value, copy, Gpr::RAX);
                    self.asm.store(self.size(value), to, x);
                }
                Ty::V32 | Ty::V64 => {
                    let x = self.vector(value, copy, V[0]);
                    self.asm.vstore(ty == Ty::V64, self.len(ty), to, x, None);
                }
                Ty::Mask => {
                    let mask = self.mask(value, copy, K7);
                    if self.evex() {
                        self.asm.kstore(to, mask.k());
                    } else {
                        self.asm.vstore(false, self.len(Ty::V32), to, mask.v(), None);
                    }
                }
            }
        }
    }

    pub(super) fn kept(&mut self, kept: Kept, value: Value) {
        let ty = self.ty(value);
        for copy in 0..self.copies(value) {
            let from = self.kept_at(kept, ty, copy);
            match ty {
                Ty::I32 | Ty::I64 => {
                    let d = self.gpr_for(value, copy, Gpr::RAX);
                    self.asm.mov(self.size(value), d, from);
                    self.put_gpr(value, copy, d);
                }
                Ty::V32 | Ty::V64 => {
                    let d = self.vector_for(value, copy, V[0]);
                    self.asm.v2(V2::Move, self.len(ty), d, from, Masking::None);
                    self.put_vector(value, copy, d);
                }
                Ty::Mask => {
                    let d = self.mask_for(value, copy, K7);
                    if self.evex() {
                        self.asm.kload(d.k(), from);
                    } else {
                        self.asm.v2(V2::Move, self.len(Ty::V32), d.v(), from, Masking::None);
                    }
                    self.put_mask(value, copy, d);
                }
            }
        }
    }
}
