//! Values during code generation (constants, registers, affine forms), and register allocation by use counts.

use super::state::{CompiledAffine, CompilerRegClass, StripRole, ZERO};
use super::*;
use crate::lanes::{is_wide, lane_of_raw, raw_of_lane};
use clk_scalar::exact::{is_first_nonfinite, is_reported};
use clk_scalar::ops::BinaryOp;
use clk_scalar::{Scalar, ScalarValue, dynamic};

impl<'a> KernelCompiler<'a> {
    pub(crate) fn alloc(&mut self, kind: CompilerRegClass) -> Reg {
        let reg = match self.registers.free[kind as usize].pop() {
            Some(reg) => reg,
            None => self.new_reg(kind),
        };
        self.registers.fresh.push(reg);
        reg
    }

    pub(crate) fn alloc_for(&mut self, uniform: bool, scalar: Scalar) -> Reg {
        self.alloc(match (uniform, is_wide(scalar)) {
            (true, false) => CompilerRegClass::Uniform,
            (true, true) => CompilerRegClass::UniformWide,
            (false, false) => CompilerRegClass::Lanes,
            (false, true) => CompilerRegClass::LanesWide,
        })
    }

    /// Allocates a register that is never freed.
    pub(crate) fn alloc_permanent(&mut self, uniform: bool, scalar: Scalar) -> Reg {
        let reg = self.new_reg(match (uniform, is_wide(scalar)) {
            (true, false) => CompilerRegClass::Uniform,
            (true, true) => CompilerRegClass::UniformWide,
            (false, false) => CompilerRegClass::Lanes,
            (false, true) => CompilerRegClass::LanesWide,
        });
        self.registers.held[reg as usize] = PERMANENT;
        reg
    }

    pub(crate) fn new_reg(&mut self, kind: CompilerRegClass) -> Reg {
        let def = match kind {
            CompilerRegClass::Uniform | CompilerRegClass::UniformWide => {
                let offset = self.registers.uniform_bytes;
                self.registers.uniform_bytes += if kind == CompilerRegClass::Uniform { 64 } else { 128 };
                RegDef::Uniform { offset, wide: kind == CompilerRegClass::UniformWide }
            }
            CompilerRegClass::Lanes | CompilerRegClass::LanesWide | CompilerRegClass::View => {
                let (column, wide) = (self.registers.columns, kind == CompilerRegClass::LanesWide);
                self.registers.columns += 1 + u32::from(wide);
                RegDef::Lanes { column, wide }
            }
        };
        // Where there are more than numbers, the code is not used: see `finish`.
        let reg = self.tables.registers.defs.len() as Reg;
        self.tables.registers.defs.push(def);
        self.registers.held.push(0);
        self.registers.classes.push(kind);
        reg
    }

    pub(crate) fn is_uniform_reg(&self, reg: Reg) -> bool {
        matches!(self.tables.registers.defs[reg as usize], RegDef::Uniform { .. })
    }

    pub(crate) fn is_uniform(&self, val: &CompiledValue) -> bool {
        match val {
            CompiledValue::Const(_) => true,
            CompiledValue::Reg(reg) => self.is_uniform_reg(*reg),
            CompiledValue::Affine(_) => false,
        }
    }

    /// Calls `f` with each register that a value consists of.
    pub(super) fn each_reg(val: &CompiledValue, f: &mut impl FnMut(Reg)) {
        match val {
            CompiledValue::Const(_) => {}
            CompiledValue::Reg(reg) => f(*reg),
            CompiledValue::Affine(affine) => {
                Self::each_reg(&affine.base, f);
                affine.coef.iter().for_each(|c| Self::each_reg(c, f));
            }
        }
    }

    /// Binds an expression to its value from here on.
    pub fn bind(&mut self, e: ExprId, vals: Vec<CompiledValue>) {
        for val in &vals {
            Self::each_reg(val, &mut |reg| self.registers.held[reg as usize] += 1);
        }
        self.values.by_expr.insert(e, vals);
    }

    /// Ends the live range of an expression.
    pub fn release(&mut self, e: ExprId) {
        let mut dropped = vec![];
        for val in self.values.by_expr.remove(&e).unwrap_or_default() {
            Self::each_reg(&val, &mut |reg| dropped.push(reg));
        }
        if let Some(reg) = self.values.spread.remove(&e) {
            dropped.push(reg);
        }
        for reg in dropped {
            self.registers.held[reg as usize] -= 1;
            if self.registers.held[reg as usize] == 0 {
                self.give_back(reg);
            }
        }
    }

    /// Returns whether none of these registers holds a value that is used after a statement.
    pub(crate) fn is_unread(&self, regs: &[CompiledValue], number: StmtNumber) -> bool {
        let mut unread = true;
        for (e, vals) in &self.values.by_expr {
            if self.uses.last[*e] > number {
                let mut meet = |reg| unread &= !regs.contains(&CompiledValue::Reg(reg));
                vals.iter().for_each(|val| Self::each_reg(val, &mut meet));
            }
        }
        unread
    }

    pub(crate) fn give_back(&mut self, reg: Reg) {
        let kind = self.registers.classes[reg as usize];
        if !self.registers.free[kind as usize].contains(&reg) {
            self.registers.free[kind as usize].push(reg);
        }
    }

    /// Frees the registers allocated during this statement that hold no bound value.
    pub(crate) fn drop_fresh(&mut self, mut fresh: Vec<Reg>) {
        fresh.sort_unstable();
        fresh.dedup();
        for reg in fresh {
            if self.registers.held[reg as usize] == 0 {
                self.give_back(reg);
            }
        }
    }

    pub(crate) fn const_reg(&mut self, wide: bool, bits: u64) -> Reg {
        if let Some(&reg) = self.values.consts.get(&(wide, bits)) {
            return reg;
        }
        let scalar = if wide { Scalar::U64 } else { Scalar::U32 };
        let reg = self.alloc_permanent(true, scalar);
        self.values.consts.insert((wide, bits), reg);
        self.tables.registers.launch.push((reg, Special::Const(scalar, bits)));
        reg
    }

    /// Returns the uniform register of a value that the launch or the block sets.
    pub fn special(&mut self, special: Special) -> Reg {
        if let Some(&reg) = self.values.specials.get(&special) {
            return reg;
        }
        let scalar = match special {
            Special::Param(_, _, scalar) | Special::Const(scalar, _) => scalar,
            Special::Extent(..) | Special::Id(..) => Scalar::I32,
        };
        let reg = self.alloc_permanent(true, scalar);
        self.values.specials.insert(special, reg);
        match special {
            Special::Id(BuiltinIndex::Block | BuiltinIndex::Global, _) => {
                self.tables.registers.block.push((reg, special))
            }
            _ => self.tables.registers.launch.push((reg, special)),
        }
        reg
    }

    /// Returns a 4-byte value as a register, uniform or lane.
    pub(crate) fn reg(&mut self, val: &CompiledValue) -> Reg {
        self.reg_as(val, false)
    }

    pub(crate) fn reg_as(&mut self, val: &CompiledValue, wide: bool) -> Reg {
        match val {
            CompiledValue::Const(bits) => self.const_reg(wide, *bits),
            CompiledValue::Reg(reg) => *reg,
            CompiledValue::Affine(affine) => {
                let affine = affine.clone();
                let reg = self.alloc(CompilerRegClass::Lanes);
                self.spread_into(reg, &affine);
                reg
            }
        }
    }

    /// Returns the components of an expression as registers.
    pub(crate) fn regs_of(&mut self, e: ExprId) -> Vec<Reg> {
        let wide = is_wide(self.f.exprs[e].ty.scalar());
        let vals = self.value(e);
        if let ([CompiledValue::Affine(_)], Some(&reg)) = (vals.as_slice(), self.values.spread.get(&e)) {
            return vec![reg];
        }
        if let ([CompiledValue::Affine(affine)], true) = (vals.as_slice(), self.f.exprs[e].kind.is_free()) {
            return vec![self.spread_in_prologue(e, affine)];
        }
        vals.iter().map(|v| self.reg_as(v, wide)).collect()
    }

    /// Computes the lanes of a free affine value once, in the prologue.
    fn spread_in_prologue(&mut self, e: ExprId, affine: &CompiledAffine) -> Reg {
        let part = std::mem::replace(&mut self.writer.section, CodeSection::Prologue);
        let reg = self.alloc_permanent(false, Scalar::I32);
        self.spread_into(reg, affine);
        self.values.spread.insert(e, reg);
        self.writer.section = part;
        reg
    }

    /// Computes the lanes of an affine value that was just computed, if a later use needs them.
    pub(crate) fn spread_if_wanted(&mut self, e: ExprId) {
        if !self.uses.spread[e] {
            return;
        }
        if let Some([CompiledValue::Affine(affine)]) = self.values.by_expr.get(&e).map(Vec::as_slice) {
            let affine = affine.clone();
            let reg = self.alloc(CompilerRegClass::Lanes);
            self.registers.held[reg as usize] += 1;
            self.spread_into(reg, &affine);
            self.values.spread.insert(e, reg);
        }
    }

    fn spread_into(&mut self, reg: Reg, affine: &CompiledAffine) {
        let index = self.affine_index(affine);
        let access = self.push_index(vec![index]);
        if self.writer.section == CodeSection::Prologue {
            self.writer.numbers.push((reg, Some(access)));
        }
        let run = self.pick::<control_flow::SpreadAffine>();
        self.emit(run, Op { d: reg, x: access, ..nothing() });
        self.role(StripRole::Early { writes: vec![reg] });
    }

    /// Adds an entry to the table of accesses for affine forms of an op that is not an access.
    pub(crate) fn push_index(&mut self, axes: Vec<AffineIndex>) -> u32 {
        let (scalar, span) = (Scalar::I32, 0);
        self.tables.accesses.push(AccessOperands {
            memory: 0,
            axes,
            offset: 0,
            scalar,
            regs: vec![],
            span,
            write: false,
            may_view: false,
            prefetch: false,
        });
        self.tables.accesses.len() as u32 - 1
    }

    pub(crate) fn affine_index(&mut self, affine: &CompiledAffine) -> AffineIndex {
        let base = self.reg(&affine.base);
        let coef = std::array::from_fn(|k| match &affine.coef[k] {
            CompiledValue::Const(0) => Coef::Zero,
            CompiledValue::Const(bits) => Coef::Const(*bits as i32),
            CompiledValue::Reg(reg) => Coef::Reg(*reg),
            CompiledValue::Affine(_) => Coef::Zero,
        });
        AffineIndex { base, wide: false, unsigned: false, coef }
    }

    /// Returns the affine form of a value that has one; a uniform is its own base.
    pub(crate) fn as_affine(&self, val: &CompiledValue) -> Option<CompiledAffine> {
        match val {
            CompiledValue::Affine(affine) => Some((**affine).clone()),
            _ if self.is_uniform(val) => Some(CompiledAffine { base: val.clone(), coef: [ZERO; AXES] }),
            _ => None,
        }
    }

    /// Emits a uniform i32 operation on parts of affine forms, constant-folded where possible.
    fn term(&mut self, op: BinOp, a: &CompiledValue, b: &CompiledValue) -> CompiledValue {
        match (op, a, b) {
            (BinOp::Add | BinOp::Sub, a, &ZERO) => a.clone(),
            (BinOp::Add, &ZERO, b) => b.clone(),
            (BinOp::Mul, &ZERO, _) | (BinOp::Mul, _, &ZERO) => ZERO,
            (BinOp::Mul, a, CompiledValue::Const(1)) => a.clone(),
            (BinOp::Mul, CompiledValue::Const(1), b) => b.clone(),
            _ => self.binary(op, Scalar::I32, a, b),
        }
    }

    /// Emits `a op b` in affine form, if it has one.
    pub(crate) fn affine_binary(&mut self, op: BinOp, a: &CompiledValue, b: &CompiledValue) -> Option<CompiledValue> {
        if self.is_uniform(a) && self.is_uniform(b) {
            return None;
        }
        let (x, y) = (self.as_affine(a)?, self.as_affine(b)?);
        let affine = match op {
            BinOp::Add | BinOp::Sub => CompiledAffine {
                base: self.term(op, &x.base, &y.base),
                coef: std::array::from_fn(|k| self.term(op, &x.coef[k], &y.coef[k])),
            },
            BinOp::Mul => {
                let (affine, factor) = match (self.is_uniform(a), self.is_uniform(b)) {
                    (true, _) => (y, a),
                    (_, true) => (x, b),
                    _ => return None,
                };
                CompiledAffine {
                    base: self.term(op, &affine.base, factor),
                    coef: std::array::from_fn(|k| self.term(op, &affine.coef[k], factor)),
                }
            }
            _ => return None,
        };
        Some(CompiledValue::Affine(Box::new(affine)))
    }

    /// Whether a run reports that an operation on constants gives a NaN or an infinity.
    pub(super) fn is_trapped(&self, a: ScalarValue, b: ScalarValue, result: ScalarValue) -> bool {
        self.tables.events.checks.nan && is_first_nonfinite(&[a, b], result)
    }

    /// Folds constants, except divisions that fault and, with checks, what these report.
    pub fn fold(
        &self,
        op: BinaryOp,
        scalar: Scalar,
        right_scalar: Scalar,
        a: &CompiledValue,
        b: &CompiledValue,
    ) -> Option<CompiledValue> {
        let (CompiledValue::Const(a), CompiledValue::Const(b)) = (a, b) else {
            return None;
        };
        let value = |ty: Scalar, bits: u64| ScalarValue { ty, bits: raw_of_lane(ty, bits) };
        let (a, b) = (value(scalar, *a), value(right_scalar, *b));
        if self.tables.events.checks.arithmetic && is_reported(op, a, b) {
            return None;
        }
        let result = dynamic::binary(op, a, b).ok().filter(|&result| !self.is_trapped(a, b, result))?;
        Some(CompiledValue::Const(lane_of_raw(result.ty, result.bits)))
    }
}
