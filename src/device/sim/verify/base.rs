//! What all rules need: the code that is looked at, what the current op does, and the rules for single registers and masks.

use rustc_hash::FxHashSet;

use crate::device::sim::code::*;
use crate::device::sim::group::Op;
use crate::device::sim::lanes::is_wide;
use crate::device::sim::shape::{Field, Shape, Width};
use crate::lang::scalar::Scalar;

pub(super) fn width(scalar: Scalar) -> Width {
    if is_wide(scalar) { Width::Eight } else { Width::Four }
}

/// Returns the registers whose slots ops redirect.
pub(super) fn views(ops: &[Op], code: &Code) -> FxHashSet<Reg> {
    let mut views = FxHashSet::default();
    for op in ops {
        let Some(shape) = op.run.shape() else { continue };
        if shape.d == Field::View {
            views.insert(op.d);
        }
        if shape.name == "aim" {
            views.extend(code.accesses.get(op.x as usize).into_iter().flat_map(|access| &access.regs));
        }
    }
    views.extend(code.accesses.iter().filter(|access| access.view).flat_map(|access| &access.regs));
    views
}

/// Returns the registers that the launch or the block sets.
pub(super) fn set(code: &Code) -> FxHashSet<Reg> {
    code.launch.iter().chain(&code.block).map(|&(reg, _)| reg).collect()
}

/// What an op does, by register and mask.
#[derive(Default)]
pub(super) struct Effects {
    pub reads: Vec<Reg>,
    pub writes: Vec<Reg>,
    /// Registers whose slots it redirects.
    pub redirects: Vec<Reg>,
    /// Masks that it uses, and those that it computes.
    pub masks: Vec<MaskId>,
    pub computes: Vec<MaskId>,
}

pub(super) struct Verifier<'a> {
    pub ops: &'a [Op],
    pub code: &'a Code,
    pub shapes: Vec<&'static Shape>,
    pub views: FxHashSet<Reg>,
    pub set: FxHashSet<Reg>,
    /// Those of the current op, as far as it has been looked at.
    pub effects: Effects,
}

pub(super) type Verdict = Result<(), String>;

impl Verifier<'_> {
    pub fn is_uniform(&self, reg: Reg) -> bool {
        matches!(self.code.regs.get(reg as usize), Some(RegDef::Uniform { .. }))
    }

    pub fn exists(&self, reg: Reg, width: Width) -> Verdict {
        let wide = match self.code.regs.get(reg as usize) {
            Some(&(RegDef::Uniform { wide, .. } | RegDef::Lanes { wide, .. })) => wide,
            None => return Err(format!("C1 registers: there is no register {reg}")),
        };
        match wide == (width == Width::Eight) {
            true => Ok(()),
            false => Err(format!("C1 registers: register {reg} has lanes of another size")),
        }
    }

    pub fn read(&mut self, reg: Reg, width: Width) -> Verdict {
        self.effects.reads.push(reg);
        self.exists(reg, width)
    }

    pub fn may_read(&mut self, reg: Reg, width: Width) -> Verdict {
        if reg == NONE { Ok(()) } else { self.read(reg, width) }
    }

    pub fn uniform(&mut self, reg: Reg, width: Width) -> Verdict {
        self.read(reg, width)?;
        match self.is_uniform(reg) {
            true => Ok(()),
            false => Err(format!("C1 registers: register {reg} is not uniform")),
        }
    }

    /// Checks that a register may be written.
    pub fn write(&mut self, reg: Reg, width: Width) -> Verdict {
        self.effects.writes.push(reg);
        self.exists(reg, width)?;
        if self.views.contains(&reg) {
            return Err(format!("C6 views: register {reg}, which may view memory, is written"));
        }
        match self.set.contains(&reg) {
            true => Err(format!("C10 launch: register {reg}, which the launch or the block sets, is written")),
            false => Ok(()),
        }
    }

    pub fn write_lanes(&mut self, reg: Reg, width: Width) -> Verdict {
        self.write(reg, width)?;
        match self.is_uniform(reg) {
            true => Err(format!("C1 registers: lanes of the uniform register {reg} are written")),
            false => Ok(()),
        }
    }

    pub fn write_uniform(&mut self, reg: Reg, width: Width) -> Verdict {
        self.write(reg, width)?;
        match self.is_uniform(reg) {
            true => Ok(()),
            false => Err(format!("C1 registers: register {reg} is not uniform")),
        }
    }

    /// Checks the result of an op that has read its operands.
    pub fn result(&mut self, reg: Reg, width: Width) -> Verdict {
        self.write(reg, width)?;
        match self.effects.reads.iter().find(|&&used| self.is_uniform(reg) && !self.is_uniform(used)) {
            Some(lanes) => Err(format!("C1 registers: the result {reg} is uniform, but not the operand {lanes}")),
            None => Ok(()),
        }
    }

    pub fn mask(&mut self, mask: MaskId) -> Verdict {
        self.effects.masks.push(mask);
        self.mask_exists(mask)
    }

    pub fn set_mask(&mut self, mask: MaskId) -> Verdict {
        self.effects.computes.push(mask);
        self.mask_exists(mask)
    }

    pub fn mask_exists(&self, mask: MaskId) -> Verdict {
        match self.code.masks.get(mask as usize) {
            Some(_) => Ok(()),
            None => Err(format!("C2 masks: there is no mask {mask}")),
        }
    }

    pub fn view(&mut self, reg: Reg) -> Verdict {
        self.effects.redirects.push(reg);
        self.exists(reg, Width::Four)?;
        match self.is_uniform(reg) || self.code.masks.contains(&reg) {
            true => Err(format!("C6 views: register {reg} is not one that may view memory")),
            false => Ok(()),
        }
    }
}

pub(super) fn in_table(what: &str, number: u32, len: usize) -> Verdict {
    match (number as usize) < len {
        true => Ok(()),
        false => Err(format!("C4 tables: there is no {what} {number}")),
    }
}
