//! Builds expressions, and converts between the representations of a value.

use super::affine_form::{FormOperand, FormSymbol, LaneAffine, ZERO};
use super::*;
use crate::compile::state::CompiledAffine;
use crate::lanes::lane_of_raw;
use clk_ir::def::{BuiltinIndex, ExprKind};
use clk_ir::variance::Variance;

/// Returns whether the expression may produce a NaN or an infinity.
fn may_produce_nan(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::Unary { .. } | ExprKind::Binary { .. } | ExprKind::Math { .. } | ExprKind::Convert(_))
}

impl RegionBuilder<'_> {
    /// Emits code for an expression at the current position. Uniform integers become scalars.
    pub(super) fn expr(&mut self, e: ExprId) -> Option<Vec<ComponentValue>> {
        let uniform = self.variances.exprs[e] == Variance::Uniform;
        // `any_expr` may compute operands on demand, which set `self.uniform` themselves, so the flag is restored
        // afterward.
        let outer = std::mem::replace(&mut self.uniform, uniform);
        let mut lanes = self.any_expr(e)?;
        self.uniform = outer;
        let scalar = self.f.exprs[e].ty.scalar();
        if self.outside.guards.nan && may_produce_nan(&self.f.exprs[e].kind) {
            lanes.iter().try_for_each(|lane| self.guard_finite(scalar, lane))?;
        }
        if self.variances.exprs[e] == Variance::Uniform && scalar.is_int() {
            for lane in &mut lanes {
                if let ComponentValue::Vector(_) = lane {
                    let value = self.uniform_value(lane, scalar)?;
                    *lane = match scalar.size() {
                        8 => ComponentValue::Scalar(value),
                        _ => ComponentValue::Affine(LaneAffine::uniform(value)),
                    };
                }
            }
        }
        Some(lanes)
    }

    fn any_expr(&mut self, e: ExprId) -> Option<Vec<ComponentValue>> {
        let f = self.f;
        let expr = &f.exprs[e];
        let scalar = expr.ty.scalar();
        let one = |lane: Option<ComponentValue>| lane.map(|lane| vec![lane]);
        match &expr.kind {
            ExprKind::Const(bits) => {
                let lane = self.constant_lane(scalar, lane_of_raw(scalar, *bits));
                Some(vec![lane; expr.ty.lanes() as usize])
            }
            ExprKind::Id(BuiltinIndex::Thread, axis) => {
                let terms = vec![(FormSymbol::Axis(*axis as u8), FormOperand::Imm(1))];
                Some(vec![ComponentValue::Affine(LaneAffine { base: ZERO, terms })])
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
                let at = |v: &[ComponentValue], k: usize| v.get(if v.len() == 1 { 0 } else { k }).cloned();
                let exact = !self.may_overflow(e);
                (0..a.len().max(b.len()))
                    .map(|k| {
                        let (x, y) = (at(&a, k)?, at(&b, k)?);
                        self.guard_binary(*op, ty, by, &x, &y, exact)?;
                        self.binary(*op, ty, by, &x, &y)
                    })
                    .collect()
            }
            ExprKind::Math { function, args } => {
                let ty = args.first().map_or(scalar, |&a| f.exprs[a].ty.scalar());
                let columns: Vec<Vec<ComponentValue>> = args.iter().map(|&a| self.operand(a)).collect::<Option<_>>()?;
                let pick = |v: &Vec<ComponentValue>, k: usize| v.get(if v.len() == 1 { 0 } else { k }).cloned();
                (0..expr.ty.lanes() as usize)
                    .map(|k| {
                        let lanes: Vec<ComponentValue> = columns.iter().map(|c| pick(c, k)).collect::<Option<_>>()?;
                        self.math(*function, ty, &lanes)
                    })
                    .collect()
            }
            ExprKind::Select { cond, then, other } => {
                let (c, a, b) = (self.operand(*cond)?, self.operand(*then)?, self.operand(*other)?);
                let varies = self.variances.exprs[e] != Variance::Uniform;
                let cond = |k: usize| c.get(if c.len() == 1 { 0 } else { k }).cloned();
                (0..a.len()).map(|k| self.select(&cond(k)?, &a[k], &b[k], scalar, varies)).collect()
            }
            ExprKind::Convert(value) => {
                let from = f.exprs[*value].ty.scalar();
                let lanes = self.operand(*value)?;
                let convert = |lane: &ComponentValue| {
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
            // A region does not compute other expressions, such as parameters: [`RegionBuilder::operand`] imports them.
            _ => None,
        }
    }

    /// Returns the components of an expression. Emits code for the expression if it has not been computed yet.
    pub(super) fn operand(&mut self, e: ExprId) -> Option<Vec<ComponentValue>> {
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

    pub(super) fn constant_lane(&mut self, scalar: Scalar, bits: u64) -> ComponentValue {
        match scalar {
            Scalar::I32 | Scalar::U32 => ComponentValue::Affine(LaneAffine::imm(bits as u32 as i32)),
            _ => ComponentValue::Bits(bits),
        }
    }

    /// Makes a value of the interpreter available in the region.
    pub(super) fn import(&mut self, val: &CompiledValue, scalar: Scalar) -> Option<ComponentValue> {
        match val {
            CompiledValue::Const(bits) => Some(self.constant_lane(scalar, *bits)),
            &CompiledValue::Reg(reg) if self.outside.uniform[reg as usize] => Some(match scalar {
                Scalar::F16 | Scalar::Bf16 | Scalar::F32 | Scalar::F64 => {
                    let ty = if scalar == Scalar::F64 { LaneTy::V64 } else { LaneTy::V32 };
                    ComponentValue::Vector(self.pure(
                        LaneOp::BroadcastInput(RegionInput::Uniform(reg, scalar)),
                        ty,
                        &[],
                    ))
                }
                Scalar::I64 | Scalar::U64 => ComponentValue::Scalar(self.pure(
                    LaneOp::Input(RegionInput::Uniform(reg, scalar)),
                    LaneTy::I64,
                    &[],
                )),
                Scalar::Bool => ComponentValue::Scalar(self.pure(
                    LaneOp::Input(RegionInput::Uniform(reg, scalar)),
                    LaneTy::I32,
                    &[],
                )),
                _ => {
                    let value = self.pure(LaneOp::Input(RegionInput::Uniform(reg, scalar)), LaneTy::I32, &[]);
                    ComponentValue::Affine(LaneAffine::uniform(value))
                }
            }),
            &CompiledValue::Reg(reg) => {
                let address = self.pure(LaneOp::Input(RegionInput::LaneRegister(reg)), LaneTy::I64, &[]);
                if !self.region.reads.contains(&reg) {
                    self.region.reads.push(reg);
                }
                let ty = if scalar.size() == 8 { LaneTy::V64 } else { LaneTy::V32 };
                // Load the register at the start of the body, because the region may write it at the end.
                let value = self.load_register(address, ty);
                Some(if scalar == Scalar::Bool {
                    ComponentValue::Mask(self.register_mask(value))
                } else {
                    ComponentValue::Vector(value)
                })
            }
            CompiledValue::Affine(affine) => self.import_affine(affine).map(ComponentValue::Affine),
        }
    }

    fn load_register(&mut self, address: LaneValue, ty: LaneTy) -> LaneValue {
        let key = (LaneOp::LoadReg, ty, LaneInst::new(LaneOp::LoadReg, LaneValue::NONE, &[address]).args);
        if let Some(&value) = self.numbering[1].1.get(&key) {
            return value;
        }
        let value = self.at_start(LaneOp::LoadReg, ty, address);
        self.numbering[1].1.insert(key, value);
        value
    }

    fn register_mask(&mut self, lanes: LaneValue) -> LaneValue {
        let key =
            (LaneOp::MaskFromLanes, LaneTy::Mask, LaneInst::new(LaneOp::MaskFromLanes, LaneValue::NONE, &[lanes]).args);
        if let Some(&value) = self.numbering[1].1.get(&key) {
            return value;
        }
        let value = self.at_start(LaneOp::MaskFromLanes, LaneTy::Mask, lanes);
        self.numbering[1].1.insert(key, value);
        value
    }

    /// Emits an instruction at the start of the body, after the instructions that earlier calls have emitted there.
    fn at_start(&mut self, op: LaneOp, ty: LaneTy, arg: LaneValue) -> LaneValue {
        let dst = self.new_value(ty, 1, false);
        let at = self.start_insts;
        self.lists[0].insert(at, LaneNode::Inst(LaneInst::new(op, dst, &[arg])));
        self.start_insts += 1;
        dst
    }

    fn import_affine(&mut self, affine: &CompiledAffine) -> Option<LaneAffine> {
        let mut atom = |val: &CompiledValue| match val {
            CompiledValue::Const(bits) => Some(FormOperand::Imm(*bits as u32 as i32)),
            &CompiledValue::Reg(reg) => Some(FormOperand::Value(self.pure(
                LaneOp::Input(RegionInput::Uniform(reg, Scalar::I32)),
                LaneTy::I32,
                &[],
            ))),
            CompiledValue::Affine(_) => None,
        };
        let base = atom(&affine.base)?;
        let mut terms = vec![];
        for (axis, coef) in affine.coef.iter().enumerate() {
            match atom(coef)? {
                ZERO => {}
                c if axis < 3 => terms.push((FormSymbol::Axis(axis as u8), c)),
                _ => return None,
            }
        }
        Some(LaneAffine { base, terms })
    }

    fn read(&mut self, local: LocalId) -> Option<Vec<ComponentValue>> {
        let Some(lanes) = self.locals.get(&local).cloned() else {
            // The region does not write this local.
            let vals = self.outside.locals.get(&local)?.clone();
            let scalar = self.f.locals[local].ty.scalar();
            return vals.iter().map(|val| self.import(val, scalar)).collect();
        };
        let mut copy = |value: LaneValue| {
            if !self.region.values[value.index()].mutable {
                return value;
            }
            let (ty, level) = (self.region.ty(value), self.level());
            let snapshot = self.new_value(ty, level, false);
            self.push(LaneInst::new(LaneOp::Move, snapshot, &[value]));
            snapshot
        };
        let lanes = lanes.iter().map(|lane| match lane {
            ComponentValue::Scalar(value) => ComponentValue::Scalar(copy(*value)),
            ComponentValue::Vector(value) => ComponentValue::Vector(copy(*value)),
            ComponentValue::Mask(value) => ComponentValue::Mask(copy(*value)),
            // Only a form without terms can have a mutable base; the affine form of a loop variable has none.
            ComponentValue::Affine(LaneAffine { base: FormOperand::Value(value), terms }) if terms.is_empty() => {
                ComponentValue::Affine(LaneAffine::uniform(copy(*value)))
            }
            other => other.clone(),
        });
        Some(lanes.collect())
    }

    // Conversions between scalars, vectors and masks

    /// Returns the value as a vector. Each lane of a `bool` is 0 or all ones.
    pub(super) fn vector(&mut self, lane: &ComponentValue, scalar: Scalar) -> LaneValue {
        let wide = scalar.size() == 8;
        match lane {
            ComponentValue::Bits(bits) => self.splat(wide, *bits),
            ComponentValue::Affine(form) => self.linear_vector(&form.clone()),
            ComponentValue::Vector(value) => *value,
            ComponentValue::Mask(mask) => self.result(LaneOp::LanesFromMask, LaneTy::V32, &[*mask]),
            ComponentValue::Scalar(value) if scalar == Scalar::Bool => {
                let zero = self.constant(LaneTy::I32, 0);
                let all = self.pure(LaneOp::Scalar(LaneBinOp::Sub, LaneElem::I32), LaneTy::I32, &[zero, *value]);
                self.pure(LaneOp::Broadcast, LaneTy::V32, &[all])
            }
            ComponentValue::Scalar(value) => {
                self.pure(LaneOp::Broadcast, if wide { LaneTy::V64 } else { LaneTy::V32 }, &[*value])
            }
        }
    }

    /// Returns a `bool` as a mask.
    pub(super) fn mask_of(&mut self, lane: &ComponentValue) -> Option<LaneValue> {
        Some(match lane {
            ComponentValue::Mask(mask) => *mask,
            ComponentValue::Bits(bits) => self.result(LaneOp::MaskConst(*bits != 0), LaneTy::Mask, &[]),
            ComponentValue::Scalar(value) => self.result(LaneOp::MaskFromScalar, LaneTy::Mask, &[*value]),
            ComponentValue::Vector(value) => self.result(LaneOp::MaskFromLanes, LaneTy::Mask, &[*value]),
            ComponentValue::Affine(_) => return None,
        })
    }

    /// Returns a uniform value as a scalar, or as a vector if it is a float.
    pub(super) fn uniform_value(&mut self, lane: &ComponentValue, scalar: Scalar) -> Option<LaneValue> {
        if scalar.is_float() {
            return Some(self.vector(lane, scalar));
        }
        Some(match lane {
            ComponentValue::Bits(bits) if scalar.size() == 8 => self.constant(LaneTy::I64, *bits as i64),
            ComponentValue::Bits(bits) if scalar == Scalar::Bool => self.constant(LaneTy::I32, i64::from(*bits != 0)),
            ComponentValue::Bits(bits) => self.constant(LaneTy::I32, i64::from(*bits as u32 as i32)),
            ComponentValue::Affine(form) if form.is_row_uniform() => self.linear_scalar(&form.clone()),
            ComponentValue::Scalar(value) => *value,
            ComponentValue::Mask(mask) => self.result_under(LaneOp::AnyActive, LaneTy::I32, &[*mask], self.flow.mask),
            ComponentValue::Vector(value) if !scalar.is_float() => {
                let ty = if scalar.size() == 8 { LaneTy::I64 } else { LaneTy::I32 };
                self.result(LaneOp::FirstLane, ty, &[*value])
            }
            _ => return None,
        })
    }
}
