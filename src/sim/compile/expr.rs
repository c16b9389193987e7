//! Code generation for expressions.

use super::state::{CompiledAffine, CompilerRegClass, StripRole, ZERO};
use super::*;
use crate::affine_compare;
use crate::lanes::slow::{self, SlowDef, SlowOp};
use crate::lanes::{Map2, arith, convert, is_wide, lane_of_raw};
use crate::strip::StripOpcode as Act;
use clk_scalar::Scalar;
use clk_scalar::exact::{is_reported_conversion, is_reported_unary};
use clk_scalar::ops::{MathFn, UnaryOp};

/// Span of operations that the compiler itself introduces (all modulo 2^32).
const NO_SPAN: u32 = u32::MAX;

impl<'a> KernelCompiler<'a> {
    /// Returns an expression's components; free expressions (constants, parameters, thread coordinates) are computed on
    /// demand.
    pub fn value(&mut self, e: ExprId) -> Vec<CompiledValue> {
        if let Some(vals) = self.values.by_expr.get(&e) {
            return vals.clone();
        }
        let vals = self.expr(e);
        if self.f.exprs[e].kind.is_free() {
            self.bind(e, vals.clone());
        }
        vals
    }

    /// Emits the computation of an expression at this point.
    pub fn expr(&mut self, e: ExprId) -> Vec<CompiledValue> {
        let f = self.f;
        let expr = &f.exprs[e];
        let scalar = expr.ty.scalar();
        match &expr.kind {
            ExprKind::Const(bits) => vec![CompiledValue::Const(lane_of_raw(scalar, *bits)); expr.ty.lanes() as usize],
            ExprKind::Param(p) => {
                let part = |k| CompiledValue::Reg(self.special(Special::Param(*p, k, scalar)));
                (0..expr.ty.lanes()).map(part).collect()
            }
            ExprKind::Id(id, axis) => vec![self.id(*id, *axis as u8)],
            ExprKind::Index(k) => vec![self.thread_index(*k)],
            ExprKind::LaneIdx => vec![self.warp_ids(0)],
            ExprKind::WarpIdx => vec![self.warp_ids(1)],
            ExprKind::Extent(memory, axis) => vec![self.extent(*memory, *axis)],
            ExprKind::Read(local) => self.values.locals[local.index()].clone(),
            ExprKind::Load { place, .. } => self.load(e, place),
            ExprKind::Unary { op, value } => {
                let vals = self.operands(*value);
                let span = self.span(f.spans[e]);
                vals.iter().map(|v| self.unary(*op, scalar, v, span)).collect()
            }
            ExprKind::Binary { op, left, right } => self.binary_expr(e, *op, *left, *right),
            ExprKind::Math { function, args } => self.math(e, *function, args),
            ExprKind::Select { cond, then, other } => self.select(*cond, *then, *other, scalar),
            ExprKind::Convert(value) => {
                let from = f.exprs[*value].ty.scalar();
                let vals = self.value(*value);
                let span = self.span(f.spans[e]);
                vals.iter().map(|v| self.convert(from, scalar, v, *value, span)).collect()
            }
            ExprKind::Bitcast(value) => {
                let from = f.exprs[*value].ty.scalar();
                let vals = self.value(*value);
                vals.iter().map(|v| self.bitcast(from, scalar, v, *value)).collect()
            }
            ExprKind::Compose(parts) => parts.iter().flat_map(|p| self.value(*p)).collect(),
            ExprKind::Extract { value, lane } => {
                let vals = self.value(*value);
                vals.get(*lane as usize).cloned().into_iter().collect()
            }
            ExprKind::Result => vec![ZERO; expr.ty.lanes() as usize],
        }
    }

    /// Returns components for an op that takes registers: affine values as the lane register that was made for them.
    fn operands(&mut self, e: ExprId) -> Vec<CompiledValue> {
        let vals = self.value(e);
        match vals.as_slice() {
            [CompiledValue::Affine(_)] => self.regs_of(e).into_iter().map(CompiledValue::Reg).collect(),
            _ => vals,
        }
    }

    fn id(&mut self, id: BuiltinIndex, axis: u8) -> CompiledValue {
        match id {
            BuiltinIndex::Thread => self.coordinate(ZERO, axis as usize),
            BuiltinIndex::Global => {
                let base = CompiledValue::Reg(self.special(Special::Id(BuiltinIndex::Global, axis)));
                self.coordinate(base, axis as usize)
            }
            BuiltinIndex::Block | BuiltinIndex::BlockDim | BuiltinIndex::GridDim => {
                CompiledValue::Reg(self.special(Special::Id(id, axis)))
            }
        }
    }

    fn coordinate(&mut self, base: CompiledValue, axis: usize) -> CompiledValue {
        let mut coef = [ZERO; AXES];
        coef[axis] = CompiledValue::Const(1);
        CompiledValue::Affine(Box::new(CompiledAffine { base, coef }))
    }

    /// Returns index `k` of a `threads` kernel; the last index is x.
    fn thread_index(&mut self, k: u8) -> CompiledValue {
        let rank = match self.kernel.form {
            LaunchForm::Threads { rank } => rank,
            LaunchForm::Grid => 1,
        };
        self.id(BuiltinIndex::Global, rank.saturating_sub(1).saturating_sub(k))
    }

    fn warp_ids(&mut self, which: u32) -> CompiledValue {
        let part = std::mem::replace(&mut self.writer.section, CodeSection::Prologue);
        let reg = self.alloc_permanent(false, Scalar::I32);
        self.writer.numbers.push((reg, None));
        self.emit(plain::<control_flow::WarpIds>(), Op { d: reg, x: which, ..nothing() });
        self.writer.section = part;
        CompiledValue::Reg(reg)
    }

    pub fn extent(&mut self, memory: MemId, axis: u8) -> CompiledValue {
        match self.f.memories[memory].extents.get(axis as usize) {
            Some(Extent::Known(n)) => CompiledValue::Const(u64::from(*n)),
            Some(Extent::Dynamic(_)) => {
                CompiledValue::Reg(self.tables.memories[memory.index()].extent_regs[axis as usize])
            }
            _ => CompiledValue::Reg(self.special(Special::Extent(memory.index() as u32, axis))),
        }
    }

    /// Returns the destination register of a result.
    pub fn result(&mut self, uniform: bool, scalar: Scalar) -> Reg {
        match self.values.target.take() {
            Some(reg) if self.is_uniform_reg(reg) == uniform => reg,
            _ => self.alloc_for(uniform, scalar),
        }
    }

    fn all_uniform(&self, regs: &[Reg]) -> bool {
        regs.iter().all(|&r| self.is_uniform_reg(r))
    }

    fn op(&mut self, run: OpFn, out: Scalar, args: &[Reg], y: u32) -> CompiledValue {
        let d = self.result(self.all_uniform(args), out);
        let arg = |k: usize| args.get(k).copied().unwrap_or(NONE);
        self.emit(run, Op { d, a: arg(0), b: arg(1), c: arg(2), x: 0, y, ..nothing() });
        CompiledValue::Reg(d)
    }

    /// Emits an operation without a specialized loop, which is evaluated lane by lane.
    fn slow(&mut self, function: SlowOp, out: Scalar, args: &[(Reg, Scalar)], y: u32) -> CompiledValue {
        let regs: Vec<Reg> = args.iter().map(|a| a.0).collect();
        let d = self.result(self.all_uniform(&regs), out);
        let x = self.tables.slow.len() as u32;
        self.tables.slow.push(SlowDef { function, args: args.to_vec(), out });
        self.emit(slow::slow(), Op { d, x, y, ..nothing() });
        CompiledValue::Reg(d)
    }

    fn unary(&mut self, op: UnaryOp, scalar: Scalar, val: &CompiledValue, span: u32) -> CompiledValue {
        if let CompiledValue::Const(bits) = val {
            let value = clk_scalar::ScalarValue { ty: scalar, bits: crate::lanes::raw_of_lane(scalar, *bits) };
            if !(self.tables.events.checks.arithmetic && is_reported_unary(op, value))
                && let Ok(v) = clk_scalar::dynamic::unary(op, value)
            {
                return CompiledValue::Const(lane_of_raw(v.ty, v.bits));
            }
        }
        let a = self.reg_as(val, is_wide(scalar));
        if op == UnaryOp::Neg {
            self.check_negative(scalar, a, span);
        }
        match arith::unary(op, scalar, self.isa) {
            Some(run) => {
                let before = self.writer.last.take();
                let val = self.op(run, scalar, &[a], 0);
                self.computed(&val, strip::act_of_unary(op, scalar), &[a]);
                if let (UnaryOp::Not, Scalar::Bool, &CompiledValue::Reg(d)) = (op, scalar, &val) {
                    self.writer.before_not = before;
                    self.note_not(d, a);
                }
                val
            }
            None => self.slow(SlowOp::Unary(op), scalar, &[(a, scalar)], 0),
        }
    }

    fn binary_expr(&mut self, e: ExprId, op: BinOp, left: ExprId, right: ExprId) -> Vec<CompiledValue> {
        let f = self.f;
        let ty = f.exprs[left].ty;
        let right_ty = f.exprs[right].ty;
        // Only values that the analysis classifies as affine share registers with their operands.
        let affine = self.variances.exprs[e] == Variance::Affine;
        if affine && is_32_bit_integer(ty) && matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul) {
            let (a, b) = (self.value(left), self.value(right));
            if self.tables.events.checks.arithmetic
                && ty.scalar() == Scalar::I32
                && !self.facts.exact.contains(&e)
                && !(self.is_uniform(&a[0]) && self.is_uniform(&b[0]))
                && let (Some(x), Some(y)) = (self.as_affine(&a[0]), self.as_affine(&b[0]))
            {
                let span = self.span(f.spans[e]);
                self.check_affine(op, &x, &y, span);
            }
            if let Some(val) = self.affine_binary(op, &a[0], &b[0]) {
                return vec![val];
            }
        }
        if is_32_bit_integer(ty) && op.is_comparison() {
            let (a, b) = (self.value(left), self.value(right));
            if let Some(val) = self.affine_compare(op, ty.scalar(), &a[0], &b[0]) {
                return vec![val];
            }
        }
        let (a, b) = (self.operands(left), self.operands(right));
        let count = a.len().max(b.len());
        let at = |v: &[CompiledValue], k: usize| v[if v.len() == 1 { 0 } else { k }].clone();
        let span = self.span(f.spans[e]);
        (0..count)
            .map(|k| {
                let (x, y) = (at(&a, k), at(&b, k));
                if let (1, &CompiledValue::Reg(p), &CompiledValue::Reg(q)) = (count, &x, &y)
                    && Self::joins(op, ty.scalar())
                    && let Some(val) = self.chain(op, (left, p), (right, q))
                {
                    return val;
                }
                if count == 1
                    && Self::joins(op, ty.scalar())
                    && let Some(val) = self.chain_with_const(op, (left, &x), (right, &y))
                {
                    return val;
                }
                if matches!(op, BinOp::Shl | BinOp::Shr) {
                    self.check_shift(ty.scalar(), right_ty.scalar(), &y, span);
                    self.shift(op, ty.scalar(), right_ty.scalar(), &x, &y)
                } else {
                    let checked = !self.facts.exact.contains(&e);
                    self.binary_at(op, ty.scalar(), &x, &y, span, checked)
                }
            })
            .collect()
    }

    /// Emits a comparison of affine values, at least one of which is not uniform.
    fn affine_compare(
        &mut self,
        op: BinOp,
        scalar: Scalar,
        a: &CompiledValue,
        b: &CompiledValue,
    ) -> Option<CompiledValue> {
        if self.is_uniform(a) && self.is_uniform(b) {
            return None;
        }
        let (left, right) = (self.as_affine(a)?, self.as_affine(b)?);
        let (run, ordered) = affine_compare::compare(op, scalar, self.isa)?;
        let mut axes = vec![self.affine_index(&left), self.affine_index(&right)];
        axes.iter_mut().for_each(|i| i.unsigned = scalar == Scalar::U32);
        let x = self.push_index(axes);
        let (never, always) = (self.const_reg(false, 0), self.const_reg(false, u64::from(u32::MAX)));
        let d = self.alloc(CompilerRegClass::View);
        self.values.target = None;
        self.emit(run, Op { d, a: never, b: always, x, y: u32::from(ordered), ..nothing() });
        self.note_affine_compare(op, scalar, d, x);
        self.role(StripRole::Early { writes: vec![d] });
        Some(CompiledValue::Reg(d))
    }

    /// Like [`KernelCompiler::chain`], for one constant operand.
    fn chain_with_const(
        &mut self,
        op: BinOp,
        left: (ExprId, &CompiledValue),
        right: (ExprId, &CompiledValue),
    ) -> Option<CompiledValue> {
        match (left.1, right.1) {
            (&CompiledValue::Reg(p), &CompiledValue::Const(bits)) => {
                let q = self.const_reg(false, bits);
                self.chain(op, (left.0, p), (right.0, q))
            }
            (&CompiledValue::Const(bits), &CompiledValue::Reg(q)) => {
                let p = self.const_reg(false, bits);
                self.chain(op, (left.0, p), (right.0, q))
            }
            _ => None,
        }
    }

    /// Emits one component of a binary operator that cannot fault.
    pub fn binary(&mut self, op: BinOp, scalar: Scalar, a: &CompiledValue, b: &CompiledValue) -> CompiledValue {
        self.binary_at(op, scalar, a, b, NO_SPAN, false)
    }

    fn binary_at(
        &mut self,
        op: BinOp,
        scalar: Scalar,
        a: &CompiledValue,
        b: &CompiledValue,
        span: u32,
        checked: bool,
    ) -> CompiledValue {
        if let Some(val) = self.fold(op.operator(), scalar, scalar, a, b) {
            return val;
        }
        let out = if op.is_comparison() { Scalar::Bool } else { scalar };
        let wide = is_wide(scalar);
        if let Some(val) = self.divide_by_power(op, scalar, a, b) {
            return val;
        }
        let (a, b) = (self.reg_as(a, wide), self.reg_as(b, wide));
        if checked {
            self.check_overflow(op, scalar, a, b, span);
        }
        if self.tables.events.checks.nan {
            // The check reads the operands after the result is written, so that the result must not overwrite one of
            // them.
            self.values.target = None;
        }
        let division = scalar.is_int() && matches!(op, BinOp::Div | BinOp::Rem);
        if division {
            // The message shows the dividend, which a result in the same register would have overwritten.
            self.values.target = None;
        }
        let run = if division { slow::divide(op, scalar, self.isa) } else { arith::binary(op, scalar, self.isa) };
        let val = match run {
            Some(run) => {
                let val = self.op(run, out, &[a, b], span);
                if let (false, &CompiledValue::Reg(d)) = (division, &val) {
                    self.computed(&val, strip::act_of(op, scalar), &[a, b]);
                    self.note_binary(op, scalar, d, a, b);
                }
                val
            }
            None => self.slow(SlowOp::Binary(op.operator()), out, &[(a, scalar), (b, scalar)], span),
        };
        let name = op.operator().symbol();
        self.check_finite(name, true, out, &val, &[(a, scalar), (b, scalar)], span);
        val
    }

    /// Emits `/` and `%` of 4-byte integers by a constant power of two as shifts and masks.
    fn divide_by_power(
        &mut self,
        op: BinOp,
        scalar: Scalar,
        a: &CompiledValue,
        b: &CompiledValue,
    ) -> Option<CompiledValue> {
        let &CompiledValue::Const(divisor) = b else {
            return None;
        };
        let positive = (1..=i32::MAX as u64).contains(&divisor) && matches!(scalar, Scalar::I32 | Scalar::U32);
        if !positive || !divisor.is_power_of_two() || !matches!(op, BinOp::Div | BinOp::Rem) {
            return None;
        }
        let a = self.reg_as(a, false);
        let (run, b) = match (op, scalar) {
            (BinOp::Div, Scalar::U32) => (arith::binary(BinOp::Shr, scalar, self.isa)?, divisor.ilog2().into()),
            (_, Scalar::U32) => (arith::binary(BinOp::And, scalar, self.isa)?, divisor - 1),
            (BinOp::Div, _) => (self.pick::<Map2<i32, u32, slow::Halved>>(), divisor.ilog2().into()),
            _ => (self.pick::<Map2<i32, u32, slow::HalvedRest>>(), divisor.ilog2().into()),
        };
        let b = self.const_reg(false, b);
        Some(self.op(run, scalar, &[a, b], 0))
    }

    fn shift(&mut self, op: BinOp, scalar: Scalar, by: Scalar, a: &CompiledValue, b: &CompiledValue) -> CompiledValue {
        if let Some(val) = self.fold(op.operator(), scalar, by, a, b) {
            return val;
        }
        let (a, b) = (self.reg_as(a, is_wide(scalar)), self.reg_as(b, is_wide(by)));
        match arith::binary(op, scalar, self.isa) {
            // Shift amounts count modulo the width, so that the upper half of a wide amount does not matter.
            Some(run) if !is_wide(by) => self.op(run, scalar, &[a, b], 0),
            _ => self.slow(SlowOp::Binary(op.operator()), scalar, &[(a, scalar), (b, by)], 0),
        }
    }

    fn math(&mut self, e: ExprId, function: MathFn, args: &[ExprId]) -> Vec<CompiledValue> {
        let (out, lanes) = (self.f.exprs[e].ty.scalar(), self.f.exprs[e].ty.lanes());
        let span = self.span(self.f.spans[e]);
        if self.tables.events.checks.nan {
            self.values.target = None;
        }
        let scalar = args.first().map_or(out, |&a| self.f.exprs[a].ty.scalar());
        let columns: Vec<Vec<CompiledValue>> = args.iter().map(|&a| self.operands(a)).collect();
        let wide = is_wide(scalar);
        (0..lanes as usize)
            .map(|k| {
                let pick = |v: &Vec<CompiledValue>| v[if v.len() == 1 { 0 } else { k }].clone();
                let vals: Vec<CompiledValue> = columns.iter().map(pick).collect();
                let regs: Vec<Reg> = vals.iter().map(|v| self.reg_as(v, wide)).collect();
                let args: Vec<(Reg, Scalar)> = regs.iter().map(|&r| (r, scalar)).collect();
                if let (MathFn::Abs, [a]) = (function, regs.as_slice()) {
                    self.check_negative(scalar, *a, span);
                }
                let val = match arith::math(function, scalar, self.isa) {
                    Some(run) => {
                        let val = self.op(run, out, &regs, 0);
                        self.computed(&val, strip::act_of_math(function, scalar), &regs);
                        if let (Scalar::F32, &CompiledValue::Reg(d)) = (scalar, &val) {
                            self.note_math(function, d, &regs);
                        }
                        val
                    }
                    None => self.slow(SlowOp::Math(function), out, &args, 0),
                };
                self.check_finite(&format!("{function:?}").to_lowercase(), false, out, &val, &args, span);
                val
            })
            .collect()
    }

    fn select(&mut self, cond: ExprId, then: ExprId, other: ExprId, scalar: Scalar) -> Vec<CompiledValue> {
        let (c, t, o) = (self.operands(cond), self.operands(then), self.operands(other));
        let wide = is_wide(scalar);
        let run = convert::select(wide, self.isa);
        (0..t.len())
            .map(|k| {
                let cond = self.reg(&c[if c.len() == 1 { 0 } else { k }]);
                let (a, b) = (self.reg_as(&t[k], wide), self.reg_as(&o[k], wide));
                let val = self.op(run, scalar, &[cond, a, b], 0);
                self.computed(&val, (!wide).then_some(Act::Select), &[cond, a, b]);
                val
            })
            .collect()
    }

    fn convert(&mut self, from: Scalar, to: Scalar, val: &CompiledValue, e: ExprId, span: u32) -> CompiledValue {
        if let CompiledValue::Const(bits) = val {
            let raw = crate::lanes::raw_of_lane(from, *bits);
            let value = clk_scalar::ScalarValue { ty: from, bits: raw };
            if !(self.tables.events.checks.arithmetic && is_reported_conversion(to, value)) {
                let result = clk_scalar::dynamic::convert(to, value);
                if !self.is_trapped(value, value, result) {
                    return CompiledValue::Const(lane_of_raw(to, result.bits));
                }
            }
        }
        if convert::is_free(from, to) {
            return val.clone();
        }
        let a = self.lanes_of(val, from, e);
        self.check_conversion(from, to, a, span);
        if self.tables.events.checks.nan {
            self.values.target = None;
        }
        let val = match convert::convert(from, to, self.isa) {
            Some(run) => {
                let val = self.op(run, to, &[a], 0);
                self.computed(&val, strip::act_of_conversion(from, to), &[a]);
                val
            }
            None => self.slow(SlowOp::Convert, to, &[(a, from)], 0),
        };
        self.check_finite(to.name(), false, to, &val, &[(a, from)], span);
        val
    }

    fn bitcast(&mut self, from: Scalar, to: Scalar, val: &CompiledValue, e: ExprId) -> CompiledValue {
        // Lanes hold small numbers without sign, and the bits of small floats, in the same way.
        let same_form = from.size() == to.size() && (from.size() >= 4 || from.is_float() && to == Scalar::U16);
        if same_form && !matches!(val, CompiledValue::Affine(_)) {
            return val.clone();
        }
        let a = self.lanes_of(val, from, e);
        if same_form { CompiledValue::Reg(a) } else { self.slow(SlowOp::Bitcast, to, &[(a, from)], 0) }
    }

    fn lanes_of(&mut self, val: &CompiledValue, scalar: Scalar, e: ExprId) -> Reg {
        match val {
            // A component of a vector has no lane register of its own yet.
            CompiledValue::Affine(_) if self.f.exprs[e].ty.lanes() == 1 => self.regs_of(e)[0],
            _ => self.reg_as(val, is_wide(scalar)),
        }
    }

    /// Allocates the registers of locals.
    pub(crate) fn make_locals(&mut self) {
        for (id, local) in self.f.locals.iter() {
            let uniform = self.variances.locals[id] == Variance::Uniform;
            let scalar = local.ty.scalar();
            let part = |_| CompiledValue::Reg(self.alloc_permanent(uniform, scalar));
            let vals: Vec<CompiledValue> = (0..local.ty.lanes()).map(part).collect();
            if self.variances.may_be_read_unwritten(id) {
                for val in &vals {
                    self.clear(val, scalar);
                }
            }
            self.values.locals.push(vals);
        }
    }

    /// Zeroes a local that may be read before it is written, so that such reads are deterministic.
    fn clear(&mut self, val: &CompiledValue, scalar: Scalar) {
        if let CompiledValue::Reg(d) = *val {
            let wide = is_wide(scalar);
            let a = self.const_reg(wide, 0);
            let section = std::mem::replace(&mut self.writer.section, CodeSection::Prologue);
            self.emit(convert::copy(wide, self.isa), Op { d, a, ..nothing() });
            self.writer.section = section;
        }
    }

    /// Allocates a mask register.
    pub(crate) fn new_mask(&mut self) -> MaskId {
        if let Some(mask) = self.flow.free_masks.pop() {
            return mask;
        }
        let reg = self.alloc(CompilerRegClass::Lanes);
        self.registers.held[reg as usize] = PERMANENT;
        self.tables.registers.masks.push(reg);
        self.tables.registers.masks.len() as MaskId - 1
    }
}
