//! Values during code generation (constants, registers, affine forms), and register allocation by use counts.

use super::state::{Affine, Kind, Role, ZERO};
use super::*;
use crate::device::sim::lanes::{is_wide, lane_of_raw, raw_of_lane};
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::exact::{is_first_nonfinite, is_reported};
use crate::lang::scalar::{Scalar, Value, dynamic};

impl<'a> Compiler<'a> {
    pub(crate) fn alloc(&mut self, kind: Kind) -> Reg {
        let reg = match self.free[kind as usize].pop() {
            Some(reg) => reg,
            None => self.new_reg(kind),
        };
        self.fresh.push(reg);
        reg
    }

    pub(crate) fn alloc_for(&mut self, uniform: bool, scalar: Scalar) -> Reg {
        self.alloc(match (uniform, is_wide(scalar)) {
            (true, false) => Kind::Uniform,
            (true, true) => Kind::UniformWide,
            (false, false) => Kind::Lanes,
            (false, true) => Kind::LanesWide,
        })
    }

    /// Allocates a register that is never freed.
    pub(crate) fn alloc_permanent(&mut self, uniform: bool, scalar: Scalar) -> Reg {
        let reg = self.new_reg(match (uniform, is_wide(scalar)) {
            (true, false) => Kind::Uniform,
            (true, true) => Kind::UniformWide,
            (false, false) => Kind::Lanes,
            (false, true) => Kind::LanesWide,
        });
        self.held[reg as usize] = PERMANENT;
        reg
    }

    pub(crate) fn new_reg(&mut self, kind: Kind) -> Reg {
        let def = match kind {
            Kind::Uniform | Kind::UniformWide => {
                let offset = self.uniform_bytes;
                self.uniform_bytes += if kind == Kind::Uniform { 64 } else { 128 };
                RegDef::Uniform { offset, wide: kind == Kind::UniformWide }
            }
            Kind::Lanes | Kind::LanesWide | Kind::View => {
                let (column, wide) = (self.columns, kind == Kind::LanesWide);
                self.columns += 1 + u32::from(wide);
                RegDef::Lanes { column, wide }
            }
        };
        // Where there are more than numbers, the code is not used: see `finish`.
        let reg = self.regs.len() as Reg;
        self.regs.push(def);
        self.held.push(0);
        self.kinds.push(kind);
        reg
    }

    pub(crate) fn is_uniform_reg(&self, reg: Reg) -> bool {
        matches!(self.regs[reg as usize], RegDef::Uniform { .. })
    }

    pub(crate) fn is_uniform(&self, val: &Val) -> bool {
        match val {
            Val::Const(_) => true,
            Val::Reg(reg) => self.is_uniform_reg(*reg),
            Val::Affine(_) => false,
        }
    }

    /// Calls `f` with each register that a value consists of.
    pub(super) fn each_reg(val: &Val, f: &mut impl FnMut(Reg)) {
        match val {
            Val::Const(_) => {}
            Val::Reg(reg) => f(*reg),
            Val::Affine(affine) => {
                Self::each_reg(&affine.base, f);
                affine.coef.iter().for_each(|c| Self::each_reg(c, f));
            }
        }
    }

    /// Binds an expression to its value from here on.
    pub fn bind(&mut self, e: ExprId, vals: Vec<Val>) {
        for val in &vals {
            Self::each_reg(val, &mut |reg| self.held[reg as usize] += 1);
        }
        self.vals.insert(e, vals);
    }

    /// Ends the live range of an expression.
    pub fn release(&mut self, e: ExprId) {
        let mut dropped = vec![];
        for val in self.vals.remove(&e).unwrap_or_default() {
            Self::each_reg(&val, &mut |reg| dropped.push(reg));
        }
        if let Some(reg) = self.spread.remove(&e) {
            dropped.push(reg);
        }
        for reg in dropped {
            self.held[reg as usize] -= 1;
            if self.held[reg as usize] == 0 {
                self.give_back(reg);
            }
        }
    }

    /// Returns whether none of these registers holds a value that is used after a statement.
    pub(crate) fn is_unread(&self, regs: &[Val], number: Number) -> bool {
        let mut unread = true;
        for (e, vals) in &self.vals {
            if self.uses.last[*e] > number {
                let mut meet = |reg| unread &= !regs.contains(&Val::Reg(reg));
                vals.iter().for_each(|val| Self::each_reg(val, &mut meet));
            }
        }
        unread
    }

    pub(crate) fn give_back(&mut self, reg: Reg) {
        let kind = self.kinds[reg as usize];
        if !self.free[kind as usize].contains(&reg) {
            self.free[kind as usize].push(reg);
        }
    }

    /// Frees the registers allocated during this statement that hold no bound value.
    pub(crate) fn drop_fresh(&mut self, mut fresh: Vec<Reg>) {
        fresh.sort_unstable();
        fresh.dedup();
        for reg in fresh {
            if self.held[reg as usize] == 0 {
                self.give_back(reg);
            }
        }
    }

    pub(crate) fn const_reg(&mut self, wide: bool, bits: u64) -> Reg {
        if let Some(&reg) = self.consts.get(&(wide, bits)) {
            return reg;
        }
        let scalar = if wide { Scalar::U64 } else { Scalar::U32 };
        let reg = self.alloc_permanent(true, scalar);
        self.consts.insert((wide, bits), reg);
        self.launch.push((reg, Special::Const(scalar, bits)));
        reg
    }

    /// Returns the uniform register of a value that the launch or the block sets.
    pub fn special(&mut self, special: Special) -> Reg {
        if let Some(&reg) = self.specials.get(&special) {
            return reg;
        }
        let scalar = match special {
            Special::Param(_, _, scalar) | Special::Const(scalar, _) => scalar,
            Special::Extent(..) | Special::Id(..) => Scalar::I32,
        };
        let reg = self.alloc_permanent(true, scalar);
        self.specials.insert(special, reg);
        match special {
            Special::Id(Id3::Block | Id3::Global, _) => self.block.push((reg, special)),
            _ => self.launch.push((reg, special)),
        }
        reg
    }

    /// Returns a 4-byte value as a register, uniform or lane.
    pub(crate) fn reg(&mut self, val: &Val) -> Reg {
        self.reg_as(val, false)
    }

    pub(crate) fn reg_as(&mut self, val: &Val, wide: bool) -> Reg {
        match val {
            Val::Const(bits) => self.const_reg(wide, *bits),
            Val::Reg(reg) => *reg,
            Val::Affine(affine) => {
                let affine = affine.clone();
                let reg = self.alloc(Kind::Lanes);
                self.spread_into(reg, &affine);
                reg
            }
        }
    }

    /// Returns the components of an expression as registers.
    pub(crate) fn regs_of(&mut self, e: ExprId) -> Vec<Reg> {
        let wide = is_wide(self.f.exprs[e].ty.scalar());
        let vals = self.value(e);
        if let ([Val::Affine(_)], Some(&reg)) = (vals.as_slice(), self.spread.get(&e)) {
            return vec![reg];
        }
        if let ([Val::Affine(affine)], true) = (vals.as_slice(), self.f.exprs[e].kind.is_free()) {
            return vec![self.spread_in_prologue(e, affine)];
        }
        vals.iter().map(|v| self.reg_as(v, wide)).collect()
    }

    /// Computes the lanes of a free affine value once, in the prologue.
    fn spread_in_prologue(&mut self, e: ExprId, affine: &Affine) -> Reg {
        let part = std::mem::replace(&mut self.part, Section::Prologue);
        let reg = self.alloc_permanent(false, Scalar::I32);
        self.spread_into(reg, affine);
        self.spread.insert(e, reg);
        self.part = part;
        reg
    }

    /// Computes the lanes of an affine value that was just computed, if a later use needs them.
    pub(crate) fn spread_if_wanted(&mut self, e: ExprId) {
        if !self.uses.spread[e] {
            return;
        }
        if let Some([Val::Affine(affine)]) = self.vals.get(&e).map(Vec::as_slice) {
            let affine = affine.clone();
            let reg = self.alloc(Kind::Lanes);
            self.held[reg as usize] += 1;
            self.spread_into(reg, &affine);
            self.spread.insert(e, reg);
        }
    }

    fn spread_into(&mut self, reg: Reg, affine: &Affine) {
        let index = self.affine_index(affine);
        let access = self.push_index(vec![index]);
        if self.part == Section::Prologue {
            self.numbers.push((reg, Some(access)));
        }
        let run = self.pick::<control::Spread>();
        self.emit(run, Op { d: reg, x: access, ..nothing() });
        self.role(Role::Early { writes: vec![reg] });
    }

    /// Adds an entry to the table of accesses for affine forms of an op that is not an access.
    pub(crate) fn push_index(&mut self, axes: Vec<Index>) -> u32 {
        let (scalar, span) = (Scalar::I32, 0);
        self.accesses.push(Access {
            memory: 0,
            axes,
            offset: 0,
            scalar,
            regs: vec![],
            span,
            write: false,
            view: false,
            ahead: false,
        });
        self.accesses.len() as u32 - 1
    }

    pub(crate) fn affine_index(&mut self, affine: &Affine) -> Index {
        let base = self.reg(&affine.base);
        let coef = std::array::from_fn(|k| match &affine.coef[k] {
            Val::Const(0) => Coef::Zero,
            Val::Const(bits) => Coef::Const(*bits as i32),
            Val::Reg(reg) => Coef::Reg(*reg),
            Val::Affine(_) => Coef::Zero,
        });
        Index { base, wide: false, unsigned: false, coef }
    }

    /// Returns the affine form of a value that has one; a uniform is its own base.
    pub(crate) fn as_affine(&self, val: &Val) -> Option<Affine> {
        match val {
            Val::Affine(affine) => Some((**affine).clone()),
            _ if self.is_uniform(val) => Some(Affine { base: val.clone(), coef: [ZERO; AXES] }),
            _ => None,
        }
    }

    /// Emits a uniform i32 operation on parts of affine forms, constant-folded where possible.
    fn term(&mut self, op: BinOp, a: &Val, b: &Val) -> Val {
        match (op, a, b) {
            (BinOp::Add | BinOp::Sub, a, &ZERO) => a.clone(),
            (BinOp::Add, &ZERO, b) => b.clone(),
            (BinOp::Mul, &ZERO, _) | (BinOp::Mul, _, &ZERO) => ZERO,
            (BinOp::Mul, a, Val::Const(1)) => a.clone(),
            (BinOp::Mul, Val::Const(1), b) => b.clone(),
            _ => self.binary(op, Scalar::I32, a, b),
        }
    }

    /// Emits `a op b` in affine form, if it has one.
    pub(crate) fn affine_binary(&mut self, op: BinOp, a: &Val, b: &Val) -> Option<Val> {
        if self.is_uniform(a) && self.is_uniform(b) {
            return None;
        }
        let (x, y) = (self.as_affine(a)?, self.as_affine(b)?);
        let affine = match op {
            BinOp::Add | BinOp::Sub => Affine {
                base: self.term(op, &x.base, &y.base),
                coef: std::array::from_fn(|k| self.term(op, &x.coef[k], &y.coef[k])),
            },
            BinOp::Mul => {
                let (affine, factor) = match (self.is_uniform(a), self.is_uniform(b)) {
                    (true, _) => (y, a),
                    (_, true) => (x, b),
                    _ => return None,
                };
                Affine {
                    base: self.term(op, &affine.base, factor),
                    coef: std::array::from_fn(|k| self.term(op, &affine.coef[k], factor)),
                }
            }
            _ => return None,
        };
        Some(Val::Affine(Box::new(affine)))
    }

    /// Whether a run reports that an operation on constants gives a NaN or an infinity.
    pub(super) fn is_trapped(&self, a: Value, b: Value, result: Value) -> bool {
        self.checks.nan && is_first_nonfinite(&[a, b], result)
    }

    /// Folds constants, except divisions that fault and, with checks, what these report.
    pub fn fold(&self, op: BinaryOp, scalar: Scalar, right_scalar: Scalar, a: &Val, b: &Val) -> Option<Val> {
        let (Val::Const(a), Val::Const(b)) = (a, b) else {
            return None;
        };
        let value = |ty: Scalar, bits: u64| Value { ty, bits: raw_of_lane(ty, bits) };
        let (a, b) = (value(scalar, *a), value(right_scalar, *b));
        if self.checks.arithmetic && is_reported(op, a, b) {
            return None;
        }
        let result = dynamic::binary(op, a, b).ok().filter(|&result| !self.is_trapped(a, b, result))?;
        Some(Val::Const(lane_of_raw(result.ty, result.bits)))
    }
}
