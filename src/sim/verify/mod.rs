//! The verifier of compiled code. Input: ops and their tables, as produced by [`compile`](super::compile). Output: the
//! first violation of a rule, with the rule's name and the op.
//!
//! `docs/internals/verifier-rules.md` lists the rules C1 to C13. Comments on `unsafe` blocks refer to these rules and
//! to the rules G1 to G6 of a running [`group`](super::group). In the JIT, they also refer to the rules of
//! [LaneIR](super::lir::verify).

mod control_flow;
mod dataflow;
mod registers;
mod table_rules;

use self::registers::{CodeVerifier, OpEffects, VerifyResult, in_table, set, views, width};
use super::code::*;
use super::group::Op;
use super::op_shape::{OpFlow, OperandRole, RegisterRole};
use super::shared_memory;
use super::strip::TURNS;
use crate::rule_violation::violation;
use clk_scalar::Scalar;

/// The span index that means "no span".
const NO_SPAN: u32 = u32::MAX;

/// Returns the first violation. Builds without debug assertions do not store the shapes of ops, so they
/// accept all code.
pub(crate) fn verify(ops: &[Op], code: &KernelTables) -> VerifyResult {
    let Some(shapes) = ops.iter().map(|op| op.run.shape()).collect::<Option<Vec<_>>>() else { return Ok(()) };
    let effects = OpEffects::default();
    let mut verifier =
        CodeVerifier { ops, code, shapes, views: views(ops, &code.accesses), set: set(&code.registers), effects };
    table_rules::code(&mut verifier)?;
    let mut all = vec![];
    for at in 0..ops.len() {
        verifier.effects = OpEffects::default();
        verifier.op(at).map_err(|e| e.at(format_args!(" in op {at}, `{}`", verifier.shapes[at].name)))?;
        all.push(std::mem::take(&mut verifier.effects));
    }
    dataflow::defined(&verifier, &all)
}

/// Panics if the code is invalid, in builds with debug assertions.
pub(crate) fn debug_verify(ops: &[Op], code: &KernelTables, kernel: &str) {
    if cfg!(debug_assertions)
        && let Err(violation) = verify(ops, code)
    {
        panic!("invalid code for kernel {kernel}: {violation}");
    }
}

impl CodeVerifier<'_> {
    fn op(&mut self, at: usize) -> VerifyResult {
        let (op, shape) = (self.ops[at], self.shapes[at]);
        for (field, reg) in [(shape.d, op.d), (shape.a, op.a), (shape.b, op.b), (shape.c, op.c)] {
            self.field(field, reg)?;
        }
        self.word(shape.x, op.x, at)?;
        self.word(shape.y, op.y, at)?;
        if let RegisterRole::Write(width) = shape.d {
            self.result(op.d, width)?;
        }
        self.flow(at)?;
        self.companions(at)
    }

    fn field(&mut self, field: RegisterRole, reg: Reg) -> VerifyResult {
        match field {
            // The register that the op writes is checked after its operands.
            RegisterRole::Free | RegisterRole::Write(_) => Ok(()),
            RegisterRole::Read(width) => self.read(reg, width),
            RegisterRole::MayRead(width) => self.may_read(reg, width),
            RegisterRole::Uniform(width) => self.uniform(reg, width),
            RegisterRole::Lanes(width) => self.write_lanes(reg, width),
            RegisterRole::MaySet(_) if reg == NONE => Ok(()),
            RegisterRole::MaySet(width) => self.write_uniform(reg, width),
            RegisterRole::View => self.view(reg),
            RegisterRole::Mask => self.mask(reg),
            RegisterRole::SetMask => self.set_mask(reg),
        }
    }

    fn word(&mut self, word: OperandRole, number: u32, at: usize) -> VerifyResult {
        let op = self.ops[at];
        match word {
            OperandRole::Free => Ok(()),
            OperandRole::Span if number == NO_SPAN => Ok(()),
            OperandRole::Span => in_table("span", number, self.code.source.spans.len()),
            OperandRole::Target => self.target(number, at),
            OperandRole::Read(width) => match Reg::try_from(number) {
                Ok(reg) => self.read(reg, width),
                Err(_) => Err(violation("C1 registers", format!("there is no register {number}"))),
            },
            OperandRole::Load(indices, bytes) => self.load(number, indices, bytes),
            OperandRole::Store(indices, bytes) => self.store(number, indices, bytes, at),
            OperandRole::Local(indices, width, write) => self.local(number, indices, width, write),
            OperandRole::Forms(count) => self.forms(number, count),
            OperandRole::Atomic(indices, bytes) => self.atomic(number, indices, bytes),
            OperandRole::Slow => self.slow(number, op.d),
            OperandRole::Warp => self.warp(number),
            OperandRole::Message => self.message(number),
            OperandRole::Loop(kind) => self.loop_(number, kind, &op),
            OperandRole::Strip => self.strip(number, at),
            OperandRole::List => {
                in_table("list of masks", number, self.code.mask_lists.len())?;
                self.code.mask_lists[number as usize].iter().try_for_each(|&mask| self.mask(mask))
            }
            OperandRole::Memory(kind) => self.memory(number, kind),
            OperandRole::AccessSite => self.notes(number, 1),
            OperandRole::AccessSites if op.c == NONE => Ok(()),
            OperandRole::AccessSites => self.notes(number, op.c.into()),
            OperandRole::PollingLoop => self.wait(number),
            OperandRole::NanCheck => self.nan_check(number, op.d),
            OperandRole::Types => {
                in_table("type", number, Scalar::ALL.len())?;
                in_table("type", op.c.into(), Scalar::ALL.len())?;
                self.read(op.a, width(Scalar::ALL[op.c as usize]))
            }
            OperandRole::Region if number == u32::MAX => Ok(()),
            OperandRole::Region => in_table("region", number, self.code.regions.len()),
            OperandRole::Product => in_table("product", number, self.code.products.len()),
            OperandRole::Copy => self.copy(number),
            OperandRole::Shared if number as usize <= shared_memory::shared_bytes(&self.code.memories) => Ok(()),
            OperandRole::Shared => {
                Err(violation("C9 memories", format!("{number} bytes are cleared, but there are fewer")))
            }
        }
    }

    // Ops that must precede or follow other ops (rule C7).

    fn companions(&self, at: usize) -> VerifyResult {
        let (op, shape) = (self.ops[at], self.shapes[at]);
        let name = |at: usize| self.shapes.get(at).map_or("", |shape| shape.name);
        if !shape.followers.is_empty() && !shape.followers.contains(&name(at + 1)) {
            return Err(violation("C7 companions", format!("it precedes `{}`", name(at + 1))));
        }
        let next_op = self.ops.get(at + 1);
        match shape.name {
            "strip loop" if next_op.is_none_or(|jump| Some(jump.b) != self.code.strips[op.y as usize].kept) => {
                Err(violation("C7 companions", "its jump has another mask"))
            }
            "strip" if op.c == TURNS => {
                let next = next_op.is_some_and(|next| name(at + 1) == "next" && next.x == op.x);
                let plain = |k: usize| self.shapes[k].flow == OpFlow::Next && self.next(k).count() == 1;
                match next && op.x as usize <= at && (op.x as usize..at).all(plain) {
                    true => Ok(()),
                    false => Err(violation("C7 companions", "it is not a whole loop")),
                }
            }
            "aim" if name(at + 2) != "store unless aimed" || self.ops[at + 2].x != op.x => {
                Err(violation("C7 companions", "no store of its register follows"))
            }
            "aim" if (0..self.ops.len()).any(|k| k != at && k != at + 1 && self.enters(k, at)) => {
                Err(violation("C7 companions", "a jump enters after it"))
            }
            "store unless aimed" if at < 2 || name(at - 2) != "aim" => {
                Err(violation("C7 companions", "no aim precedes it"))
            }
            _ => Ok(()),
        }
    }

    /// Returns whether op `from` may continue at one of the two ops after op `at`: the strip or the store that belong
    /// to the redirecting op `at`.
    fn enters(&self, from: usize, at: usize) -> bool {
        self.next(from).any(|next| next == at + 1 || next == at + 2)
    }
}

#[cfg(test)]
mod tests;
