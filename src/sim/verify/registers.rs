//! Shared state of the code verifier, and the rules for single registers and masks.

use rustc_hash::FxHashSet;

use crate::code::*;
use crate::group::Op;
use crate::lanes::is_wide;
use crate::op_shape::{OpShape, RegisterRole, Width};
use crate::rule_violation::{RuleViolation, violation};
use clk_scalar::Scalar;

pub(super) fn width(scalar: Scalar) -> Width {
    if is_wide(scalar) { Width::Eight } else { Width::Four }
}

/// Returns the registers whose slots ops redirect.
pub(super) fn views(ops: &[Op], accesses: &[AccessOperands]) -> FxHashSet<Reg> {
    let mut views = FxHashSet::default();
    for op in ops {
        let Some(shape) = op.run.shape() else { continue };
        if shape.d == RegisterRole::View {
            views.insert(op.d);
        }
        if shape.name == "aim" {
            views.extend(accesses.get(op.x as usize).into_iter().flat_map(|access| &access.regs));
        }
    }
    views.extend(accesses.iter().filter(|access| access.may_view).flat_map(|access| &access.regs));
    views
}

/// Returns the registers that are set per launch or per block.
pub(super) fn set(registers: &RegisterTables) -> FxHashSet<Reg> {
    registers.launch.iter().chain(&registers.block).map(|&(reg, _)| reg).collect()
}

/// The registers and masks that an op reads and writes.
#[derive(Default)]
pub(super) struct OpEffects {
    pub reads: Vec<Reg>,
    pub writes: Vec<Reg>,
    /// Registers whose storage the op changes to another location.
    pub redirects: Vec<Reg>,
    /// Masks that the op uses (`masks`), and masks that it computes (`computes`).
    pub masks: Vec<MaskId>,
    pub computes: Vec<MaskId>,
}

pub(super) struct CodeVerifier<'a> {
    pub ops: &'a [Op],
    pub code: &'a KernelTables,
    pub shapes: Vec<&'static OpShape>,
    pub views: FxHashSet<Reg>,
    pub set: FxHashSet<Reg>,
    /// The effects of the current op, collected so far.
    pub effects: OpEffects,
}

pub(super) type VerifyResult<T = ()> = Result<T, RuleViolation>;

impl CodeVerifier<'_> {
    pub fn is_uniform(&self, reg: Reg) -> bool {
        matches!(self.code.registers.defs.get(reg as usize), Some(RegDef::Uniform { .. }))
    }

    pub fn exists(&self, reg: Reg, width: Width) -> VerifyResult {
        let wide = match self.code.registers.defs.get(reg as usize) {
            Some(&(RegDef::Uniform { wide, .. } | RegDef::Lanes { wide, .. })) => wide,
            None => return Err(violation("C1 registers", format!("there is no register {reg}"))),
        };
        match wide == (width == Width::Eight) {
            true => Ok(()),
            false => Err(violation("C1 registers", format!("register {reg} has lanes of another size"))),
        }
    }

    pub fn read(&mut self, reg: Reg, width: Width) -> VerifyResult {
        self.effects.reads.push(reg);
        self.exists(reg, width)
    }

    pub fn may_read(&mut self, reg: Reg, width: Width) -> VerifyResult {
        if reg == NONE { Ok(()) } else { self.read(reg, width) }
    }

    pub fn uniform(&mut self, reg: Reg, width: Width) -> VerifyResult {
        self.read(reg, width)?;
        match self.is_uniform(reg) {
            true => Ok(()),
            false => Err(violation("C1 registers", format!("register {reg} is not uniform"))),
        }
    }

    /// Checks that a register may be written.
    pub fn write(&mut self, reg: Reg, width: Width) -> VerifyResult {
        self.effects.writes.push(reg);
        self.exists(reg, width)?;
        if self.views.contains(&reg) {
            return Err(violation("C6 views", format!("register {reg}, which may view memory, is written")));
        }
        match self.set.contains(&reg) {
            true => {
                Err(violation("C10 launch", format!("register {reg}, which the launch or the block sets, is written")))
            }
            false => Ok(()),
        }
    }

    pub fn write_lanes(&mut self, reg: Reg, width: Width) -> VerifyResult {
        self.write(reg, width)?;
        match self.is_uniform(reg) {
            true => Err(violation("C1 registers", format!("lanes of the uniform register {reg} are written"))),
            false => Ok(()),
        }
    }

    pub fn write_uniform(&mut self, reg: Reg, width: Width) -> VerifyResult {
        self.write(reg, width)?;
        match self.is_uniform(reg) {
            true => Ok(()),
            false => Err(violation("C1 registers", format!("register {reg} is not uniform"))),
        }
    }

    /// Checks the register that an op writes, after its operands have been checked.
    pub fn result(&mut self, reg: Reg, width: Width) -> VerifyResult {
        self.write(reg, width)?;
        match self.effects.reads.iter().find(|&&used| self.is_uniform(reg) && !self.is_uniform(used)) {
            Some(lanes) => {
                Err(violation("C1 registers", format!("the result {reg} is uniform, but not the operand {lanes}")))
            }
            None => Ok(()),
        }
    }

    pub fn mask(&mut self, mask: MaskId) -> VerifyResult {
        self.effects.masks.push(mask);
        self.mask_exists(mask)
    }

    pub fn set_mask(&mut self, mask: MaskId) -> VerifyResult {
        self.effects.computes.push(mask);
        self.mask_exists(mask)
    }

    pub fn mask_exists(&self, mask: MaskId) -> VerifyResult {
        match self.code.registers.masks.get(mask as usize) {
            Some(_) => Ok(()),
            None => Err(violation("C2 masks", format!("there is no mask {mask}"))),
        }
    }

    pub fn view(&mut self, reg: Reg) -> VerifyResult {
        self.effects.redirects.push(reg);
        self.exists(reg, Width::Four)?;
        match self.is_uniform(reg) || self.code.registers.masks.contains(&reg) {
            true => Err(violation("C6 views", format!("register {reg} is not one that may view memory"))),
            false => Ok(()),
        }
    }
}

pub(super) fn in_table(what: &str, number: u32, len: usize) -> VerifyResult {
    match (number as usize) < len {
        true => Ok(()),
        false => Err(violation("C4 tables", format!("there is no {what} {number}"))),
    }
}
