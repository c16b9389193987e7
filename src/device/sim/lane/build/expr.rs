//! Expressions, and the forms of a value that instructions ask for.

use super::form::{Atom, Linear, Sym, ZERO};
use super::*;
use crate::device::sim::compile::state::Affine;
use crate::device::sim::lanes::lane_of_raw;
use crate::ir::def::{ExprKind, Id3};
use crate::ir::variance::Variance;

/// Returns whether a NaN or an infinity may be born here.
fn computes(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::Unary { .. } | ExprKind::Binary { .. } | ExprKind::Math { .. } | ExprKind::Convert(_))
}

impl Builder<'_> {
    /// Computes an expression at this point. Integers that are the same in all lanes become scalars.
    pub(super) fn expr(&mut self, e: ExprId) -> Option<Vec<Lane>> {
        let uniform = self.variances.exprs[e] == Variance::Uniform;
        // Operands that are computed on the way have their own.
        let outer = std::mem::replace(&mut self.uniform, uniform);
        let mut lanes = self.any_expr(e)?;
        self.uniform = outer;
        let scalar = self.f.exprs[e].ty.scalar();
        if self.guards.nan && computes(&self.f.exprs[e].kind) {
            lanes.iter().try_for_each(|lane| self.guard_finite(scalar, lane))?;
        }
        if self.variances.exprs[e] == Variance::Uniform && scalar.is_int() {
            for lane in &mut lanes {
                if let Lane::Vector(_) = lane {
                    let value = self.uniform_value(lane, scalar)?;
                    *lane = match scalar.size() {
                        8 => Lane::Scalar(value),
                        _ => Lane::Linear(Linear::uniform(value)),
                    };
                }
            }
        }
        Some(lanes)
    }

    fn any_expr(&mut self, e: ExprId) -> Option<Vec<Lane>> {
        let f = self.f;
        let expr = &f.exprs[e];
        let scalar = expr.ty.scalar();
        let one = |lane: Option<Lane>| lane.map(|lane| vec![lane]);
        match &expr.kind {
            ExprKind::Const(bits) => {
                let lane = self.constant_lane(scalar, lane_of_raw(scalar, *bits));
                Some(vec![lane; expr.ty.lanes() as usize])
            }
            ExprKind::Id(Id3::Thread, axis) => {
                let terms = vec![(Sym::Axis(*axis as u8), Atom::Imm(1))];
                Some(vec![Lane::Linear(Linear { base: ZERO, terms })])
            }
            ExprKind::Read(local) => self.read(*local),
            ExprKind::Load { place, .. } => self.load(place, self.variances.exprs[e] == Variance::Uniform),
            ExprKind::Unary { op, value } => {
                let lanes = self.operand(*value)?;
                lanes.iter().map(|lane| self.unary(*op, scalar, lane)).collect()
            }
            ExprKind::Binary { op, left, right } => {
                let (ty, by) = (f.exprs[*left].ty.scalar(), f.exprs[*right].ty.scalar());
                let (a, b) = (self.operand(*left)?, self.operand(*right)?);
                let at = |v: &[Lane], k: usize| v.get(if v.len() == 1 { 0 } else { k }).cloned();
                let exact = !self.may_overflow(e);
                (0..a.len().max(b.len()))
                    .map(|k| {
                        let (x, y) = (at(&a, k)?, at(&b, k)?);
                        self.guard_binary(*op, (ty, by), (&x, &y), exact)?;
                        self.binary(*op, (ty, by), &x, &y)
                    })
                    .collect()
            }
            ExprKind::Math { function, args } => {
                let ty = args.first().map_or(scalar, |&a| f.exprs[a].ty.scalar());
                let columns: Vec<Vec<Lane>> = args.iter().map(|&a| self.operand(a)).collect::<Option<_>>()?;
                let pick = |v: &Vec<Lane>, k: usize| v.get(if v.len() == 1 { 0 } else { k }).cloned();
                (0..expr.ty.lanes() as usize)
                    .map(|k| {
                        let lanes: Vec<Lane> = columns.iter().map(|c| pick(c, k)).collect::<Option<_>>()?;
                        self.math(*function, ty, &lanes)
                    })
                    .collect()
            }
            ExprKind::Select { cond, then, other } => {
                let (c, a, b) = (self.operand(*cond)?, self.operand(*then)?, self.operand(*other)?);
                let varies = self.variances.exprs[e] != Variance::Uniform;
                let cond = |k: usize| c.get(if c.len() == 1 { 0 } else { k }).cloned();
                (0..a.len()).map(|k| self.select(&cond(k)?, (&a[k], &b[k]), scalar, varies)).collect()
            }
            ExprKind::Convert(value) => {
                let from = f.exprs[*value].ty.scalar();
                let lanes = self.operand(*value)?;
                let convert = |lane: &Lane| {
                    self.guard_conversion(from, scalar, lane)?;
                    self.convert(from, scalar, lane)
                };
                lanes.iter().map(convert).collect()
            }
            ExprKind::Bitcast(value) => {
                let from = f.exprs[*value].ty.scalar();
                let lanes = self.operand(*value)?;
                lanes.iter().map(|lane| self.bitcast(from, scalar, lane)).collect()
            }
            ExprKind::Compose(parts) => {
                let mut lanes = vec![];
                for part in parts {
                    lanes.extend(self.operand(*part)?);
                }
                Some(lanes)
            }
            ExprKind::Extract { value, lane } => one(self.operand(*value)?.get(*lane as usize).cloned()),
            // Parameters and the like come from outside.
            _ => None,
        }
    }

    /// Returns the components of an expression that was computed before, here or outside.
    pub(super) fn operand(&mut self, e: ExprId) -> Option<Vec<Lane>> {
        if let Some(lanes) = self.values.get(&e) {
            return Some(lanes.clone());
        }
        let lanes = match self.outside.values.get(&e).cloned() {
            Some(vals) => {
                let scalar = self.f.exprs[e].ty.scalar();
                vals.iter().map(|val| self.import(val, scalar)).collect::<Option<_>>()?
            }
            None => self.expr(e)?,
        };
        Some(lanes)
    }

    pub(super) fn constant_lane(&mut self, scalar: Scalar, bits: u64) -> Lane {
        match scalar {
            Scalar::I32 | Scalar::U32 => Lane::Linear(Linear::imm(bits as u32 as i32)),
            _ => Lane::Bits(bits),
        }
    }

    /// Returns a value of the interpreter.
    pub(super) fn import(&mut self, val: &Val, scalar: Scalar) -> Option<Lane> {
        match val {
            Val::Const(bits) => Some(self.constant_lane(scalar, *bits)),
            &Val::Reg(reg) if self.outside.uniform[reg as usize] => Some(match scalar {
                Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64 => {
                    let ty = if scalar == Scalar::F64 { Ty::V64 } else { Ty::V32 };
                    Lane::Vector(self.pure(Op::BroadcastInput(Input::Uniform(reg, scalar)), ty, &[]))
                }
                Scalar::I64 | Scalar::U64 => {
                    Lane::Scalar(self.pure(Op::Input(Input::Uniform(reg, scalar)), Ty::I64, &[]))
                }
                Scalar::Bool => Lane::Scalar(self.pure(Op::Input(Input::Uniform(reg, scalar)), Ty::I32, &[])),
                _ => {
                    let value = self.pure(Op::Input(Input::Uniform(reg, scalar)), Ty::I32, &[]);
                    Lane::Linear(Linear::uniform(value))
                }
            }),
            &Val::Reg(reg) => {
                let address = self.pure(Op::Input(Input::Lanes(reg)), Ty::I64, &[]);
                if !self.region.reads.contains(&reg) {
                    self.region.reads.push(reg);
                }
                let ty = if scalar.size() == 8 { Ty::V64 } else { Ty::V32 };
                // Read at the start, as the register may be written at the end.
                let value = self.load_register(address, ty);
                Some(if scalar == Scalar::Bool { Lane::Mask(self.register_mask(value)) } else { Lane::Vector(value) })
            }
            Val::Affine(affine) => self.import_affine(affine).map(Lane::Linear),
        }
    }

    fn load_register(&mut self, address: Value, ty: Ty) -> Value {
        let key = (Op::LoadReg, ty, Inst::new(Op::LoadReg, Value::NONE, &[address]).args);
        if let Some(&value) = self.known[1].1.get(&key) {
            return value;
        }
        let value = self.at_start(Op::LoadReg, ty, address);
        self.known[1].1.insert(key, value);
        value
    }

    fn register_mask(&mut self, lanes: Value) -> Value {
        let key = (Op::MaskOfLanes, Ty::Mask, Inst::new(Op::MaskOfLanes, Value::NONE, &[lanes]).args);
        if let Some(&value) = self.known[1].1.get(&key) {
            return value;
        }
        let value = self.at_start(Op::MaskOfLanes, Ty::Mask, lanes);
        self.known[1].1.insert(key, value);
        value
    }

    /// Writes an instruction at the start of the body, behind those that were written there before.
    fn at_start(&mut self, op: Op, ty: Ty, arg: Value) -> Value {
        let dst = self.new_value(ty, 1, false);
        let at = self.starts;
        self.lists[0].insert(at, Node::Inst(Inst::new(op, dst, &[arg])));
        self.starts += 1;
        dst
    }

    fn import_affine(&mut self, affine: &Affine) -> Option<Linear> {
        let mut atom = |val: &Val| match val {
            Val::Const(bits) => Some(Atom::Imm(*bits as u32 as i32)),
            &Val::Reg(reg) => Some(Atom::Value(self.pure(Op::Input(Input::Uniform(reg, Scalar::I32)), Ty::I32, &[]))),
            Val::Affine(_) => None,
        };
        let base = atom(&affine.base)?;
        let mut terms = vec![];
        for (axis, coef) in affine.coef.iter().enumerate() {
            match atom(coef)? {
                ZERO => {}
                c if axis < 3 => terms.push((Sym::Axis(axis as u8), c)),
                _ => return None,
            }
        }
        Some(Linear { base, terms })
    }

    fn read(&mut self, local: LocalId) -> Option<Vec<Lane>> {
        let Some(lanes) = self.locals.get(&local).cloned() else {
            // Not written inside of the region.
            let vals = self.outside.locals.get(&local)?.clone();
            let scalar = self.f.locals[local].ty.scalar();
            return vals.iter().map(|val| self.import(val, scalar)).collect();
        };
        let mut copy = |value: Value| {
            if !self.region.values[value.index()].mutable {
                return value;
            }
            let (ty, level) = (self.region.ty(value), self.level());
            let snapshot = self.new_value(ty, level, false);
            self.push(Inst::new(Op::Move, snapshot, &[value]));
            snapshot
        };
        let lanes = lanes.iter().map(|lane| match lane {
            Lane::Scalar(value) => Lane::Scalar(copy(*value)),
            Lane::Vector(value) => Lane::Vector(copy(*value)),
            Lane::Mask(value) => Lane::Mask(copy(*value)),
            // The form of a loop's own variable has no mutable base.
            Lane::Linear(Linear { base: Atom::Value(value), terms }) if terms.is_empty() => {
                Lane::Linear(Linear::uniform(copy(*value)))
            }
            other => other.clone(),
        });
        Some(lanes.collect())
    }

    // Forms

    /// Returns the value in each lane; a `bool` as 0 or all ones.
    pub(super) fn vector(&mut self, lane: &Lane, scalar: Scalar) -> Value {
        let wide = scalar.size() == 8;
        match lane {
            Lane::Bits(bits) => self.splat(wide, *bits),
            Lane::Linear(form) => self.linear_vector(&form.clone()),
            Lane::Vector(value) => *value,
            Lane::Mask(mask) => self.result(Op::LanesOfMask, Ty::V32, &[*mask]),
            Lane::Scalar(value) if scalar == Scalar::Bool => {
                let zero = self.constant(Ty::I32, 0);
                let all = self.pure(Op::Scalar(Bin::Sub, Elem::I32), Ty::I32, &[zero, *value]);
                self.pure(Op::Broadcast, Ty::V32, &[all])
            }
            Lane::Scalar(value) => self.pure(Op::Broadcast, if wide { Ty::V64 } else { Ty::V32 }, &[*value]),
        }
    }

    /// Returns a `bool` as a mask.
    pub(super) fn mask_of(&mut self, lane: &Lane) -> Option<Value> {
        Some(match lane {
            Lane::Mask(mask) => *mask,
            Lane::Bits(bits) => self.result(Op::MaskConst(*bits != 0), Ty::Mask, &[]),
            Lane::Scalar(value) => self.result(Op::MaskOf, Ty::Mask, &[*value]),
            Lane::Vector(value) => self.result(Op::MaskOfLanes, Ty::Mask, &[*value]),
            Lane::Linear(_) => return None,
        })
    }

    /// Returns a uniform value: a scalar, or for a float a vector.
    pub(super) fn uniform_value(&mut self, lane: &Lane, scalar: Scalar) -> Option<Value> {
        if scalar.is_float() {
            return Some(self.vector(lane, scalar));
        }
        Some(match lane {
            Lane::Bits(bits) if scalar.size() == 8 => self.constant(Ty::I64, *bits as i64),
            Lane::Bits(bits) if scalar == Scalar::Bool => self.constant(Ty::I32, i64::from(*bits != 0)),
            Lane::Bits(bits) => self.constant(Ty::I32, i64::from(*bits as u32 as i32)),
            Lane::Linear(form) if form.is_even() => self.linear_scalar(&form.clone()),
            Lane::Scalar(value) => *value,
            Lane::Mask(mask) => self.result_under(Op::Any, Ty::I32, &[*mask], self.mask),
            Lane::Vector(value) if !scalar.is_float() => {
                let ty = if scalar.size() == 8 { Ty::I64 } else { Ty::I32 };
                self.result(Op::FirstLane, ty, &[*value])
            }
            _ => return None,
        })
    }
}
