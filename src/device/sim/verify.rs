//! The verifier of compiled code. Input: ops and their tables, as [`compile`](super::compile) gives them. Output: nothing, or the
//! first violation, with the rule's name and the op.
//!
//! What the interpreter relies on (comments on `unsafe` blocks name these rules, those of a running [`group`](super::group), and
//! where machine code runs those of [LaneIR](super::lane::verify)):
//! - **C1 registers**: a register that an op or its tables name exists, and has lanes of the bytes that the op reads or writes. It is
//!   uniform where the op takes one value for all lanes, and a register of lanes where lanes are written one by one. If the result
//!   is uniform, so are all operands.
//! - **C2 masks**: masks exist, and have registers of 4-byte lanes of their own. On every path to a use of a mask it has been
//!   computed, and its register has not been written since.
//! - **C3 flow**: jumps of the body go to ops of the body; the prologue has none. No op continues behind the last one.
//! - **C4 tables**: entries that ops name are in the tables, as are those that these name.
//! - **C5 accesses**: an access has an index for each axis of its memory, of the form that its op takes. Its components lie within
//!   an element and are as large as those of the op. Local memory has ops of its own; only what the kernel may write is written. An
//!   atomic operation's elements are aligned, and lie in global or shared memory.
//! - **C6 views**: a register that may view memory is written by nothing but what redirects its slot, or by a strip right behind
//!   the op that aims it; and on every path to a use of it its slot has been redirected.
//! - **C7 companions**: ops that look at their neighbors have them: a strip that runs all iterations of a loop the loop's end and
//!   only plain ops in its body, a strip loop its jump, an aim its strip and its store, an event of a whole loop the op that
//!   runs it.
//! - **C8 strips**: operands that operations of a strip name exist, have 4-byte lanes, and are registers of lanes where they are
//!   written. Temporaries are written before they are read.
//! - **C9 memories**: there is an extent register for each dynamic extent, and for no other. Local arrays and constants have known
//!   extents, constants as many bytes. What an op clears of shared memory is within it.
//! - **C10 launch**: what the launch and the block set are uniform registers of the value's size, which no op writes.
//! - **C11 regions**: the registers and memories that a region's LaneIR names are the code's, and as large as it says; the region
//!   itself is valid.
//! - **C12 products**: the matrices of a product of tiles are shared arrays with its extents and types, and the sum is none of the factors.
//!   There is code for it.
//! - **C13 copies**: what a copy fills is a shared array with as many elements as it takes, of the same size, and another one than it takes
//!   them from. It takes something along each axis of that, which is not local; where, uniform registers of 4 bytes say.
//!
//! What they take from the compiler: that the mask that is current at an op has no lanes other than those for which its operands
//! were computed. (A register that views memory is readable there in the chunks of the mask that it was loaded for.)

mod base;
mod flow;
mod paths;
mod tables;

use self::base::{Effects, Verdict, Verifier, in_table, set, views, width};
use super::code::*;
use super::group::Op;
use super::shape::{Field, Flow, Word};
use super::shared;
use super::strip::TURNS;
use crate::lang::scalar::Scalar;

/// A number of a span that stands for none.
const NO_SPAN: u32 = u32::MAX;

/// Returns the first violation, as text. Builds without debug assertions do not keep what it needs, and accept everything.
pub(crate) fn verify(ops: &[Op], code: &Code) -> Result<(), String> {
    let Some(shapes) = ops.iter().map(|op| op.run.shape()).collect::<Option<Vec<_>>>() else { return Ok(()) };
    let effects = Effects::default();
    let mut verifier = Verifier { ops, code, shapes, views: views(ops, code), set: set(code), effects };
    tables::code(&mut verifier)?;
    let mut all = vec![];
    for at in 0..ops.len() {
        verifier.effects = Effects::default();
        verifier.op(at).map_err(|message| format!("{message} in op {at}, `{}`", verifier.shapes[at].name))?;
        all.push(std::mem::take(&mut verifier.effects));
    }
    paths::defined(&verifier, &all)
}

/// Panics if the code is invalid, in builds with debug assertions.
pub(crate) fn debug_verify(ops: &[Op], code: &Code, kernel: &str) {
    if cfg!(debug_assertions)
        && let Err(violation) = verify(ops, code)
    {
        panic!("the code of kernel {kernel} is wrong: {violation}");
    }
}

impl Verifier<'_> {
    fn op(&mut self, at: usize) -> Verdict {
        let (op, shape) = (self.ops[at], self.shapes[at]);
        for (field, reg) in [(shape.d, op.d), (shape.a, op.a), (shape.b, op.b), (shape.c, op.c)] {
            self.field(field, reg)?;
        }
        self.word(shape.x, op.x, at)?;
        self.word(shape.y, op.y, at)?;
        if let Field::Write(width) = shape.d {
            self.result(op.d, width)?;
        }
        self.flow(at)?;
        self.companions(at)
    }

    fn field(&mut self, field: Field, reg: Reg) -> Verdict {
        match field {
            // A result is checked when the operands are known.
            Field::Free | Field::Write(_) => Ok(()),
            Field::Read(width) => self.read(reg, width),
            Field::MayRead(width) => self.may_read(reg, width),
            Field::Uniform(width) => self.uniform(reg, width),
            Field::Lanes(width) => self.write_lanes(reg, width),
            Field::MaySet(_) if reg == NONE => Ok(()),
            Field::MaySet(width) => self.write_uniform(reg, width),
            Field::View => self.view(reg),
            Field::Mask => self.mask(reg),
            Field::SetMask => self.set_mask(reg),
        }
    }

    fn word(&mut self, word: Word, number: u32, at: usize) -> Verdict {
        let op = self.ops[at];
        match word {
            Word::Free => Ok(()),
            Word::Span if number == NO_SPAN => Ok(()),
            Word::Span => in_table("span", number, self.code.spans.len()),
            Word::Target => self.target(number, at),
            Word::Read(width) => match Reg::try_from(number) {
                Ok(reg) => self.read(reg, width),
                Err(_) => Err(format!("C1 registers: there is no register {number}")),
            },
            Word::Load(indices, bytes) => self.load(number, indices, bytes),
            Word::Store(indices, bytes) => self.store(number, indices, bytes, at),
            Word::Local(indices, width, write) => self.local(number, indices, width, write),
            Word::Forms(count) => self.forms(number, count),
            Word::Atomic(indices, bytes) => self.atomic(number, indices, bytes),
            Word::Slow => self.slow(number, op.d),
            Word::Warp => self.warp(number),
            Word::Message => self.message(number),
            Word::Loop(kind) => self.loop_(number, kind, &op),
            Word::Strip => self.strip(number, at),
            Word::List => {
                in_table("list of masks", number, self.code.lists.len())?;
                self.code.lists[number as usize].iter().try_for_each(|&mask| self.mask(mask))
            }
            Word::Memory(kind) => self.memory(number, kind),
            Word::Note => self.notes(number, 1),
            Word::Notes if op.c == NONE => Ok(()),
            Word::Notes => self.notes(number, op.c.into()),
            Word::Wait => self.wait(number),
            Word::Birth => self.birth(number, op.d),
            Word::Types => {
                in_table("type", number, Scalar::ALL.len())?;
                in_table("type", op.c.into(), Scalar::ALL.len())?;
                self.read(op.a, width(Scalar::ALL[op.c as usize]))
            }
            Word::Region if number == u32::MAX => Ok(()),
            Word::Region => in_table("region", number, self.code.regions.len()),
            Word::Product => in_table("product", number, self.code.products.len()),
            Word::Copy => self.copy(number),
            Word::Shared if number as usize <= shared::room(&self.code.memories) => Ok(()),
            Word::Shared => Err(format!("C9 memories: {number} bytes are cleared, more than there are")),
        }
    }

    // Companions

    fn companions(&self, at: usize) -> Verdict {
        let (op, shape) = (self.ops[at], self.shapes[at]);
        let name = |at: usize| self.shapes.get(at).map_or("", |shape| shape.name);
        if !shape.before.is_empty() && !shape.before.contains(&name(at + 1)) {
            return Err(format!("C7 companions: it stands in front of `{}`", name(at + 1)));
        }
        let behind = self.ops.get(at + 1);
        match shape.name {
            "strip loop" if behind.is_none_or(|again| Some(again.b) != self.code.strips[op.y as usize].kept) => {
                Err("C7 companions: the jump of another mask".into())
            }
            "strip" if op.c == TURNS => {
                let next = behind.is_some_and(|next| name(at + 1) == "next" && next.x == op.x);
                let plain = |k: usize| self.shapes[k].flow == Flow::Next && self.next(k).count() == 1;
                match next && op.x as usize <= at && (op.x as usize..at).all(plain) {
                    true => Ok(()),
                    false => Err("C7 companions: it is not all of a loop".into()),
                }
            }
            "aim" if name(at + 2) != "store unless aimed" || self.ops[at + 2].x != op.x => {
                Err("C7 companions: no store of what it aims".into())
            }
            "aim" if (0..self.ops.len()).any(|k| k != at && k != at + 1 && self.enters(k, at)) => {
                Err("C7 companions: a jump behind it".into())
            }
            "store unless aimed" if at < 2 || name(at - 2) != "aim" => Err("C7 companions: nothing is aimed".into()),
            _ => Ok(()),
        }
    }

    /// Returns whether op `from` may continue at the strip or the store of the aim at `at`.
    fn enters(&self, from: usize, at: usize) -> bool {
        self.next(from).any(|next| next == at + 1 || next == at + 2)
    }
}

#[cfg(test)]
mod tests;
