//! Symbolic evaluation of expressions: affine forms for integers, formulas for truth values.

use std::sync::Arc;

use super::def::{OverflowObligation, OverflowRule, SignedOverflow};
use super::formula::*;
use super::state::{FootprintAnalysis, SymbolicState, SymbolicValue};
use super::vars::{DerivedVar, ENDLESS, SymbolicLoad, VarRole};
use crate::def::*;
use crate::ranges::match_ceil_div;
use clk_base::linear::{AffineForm, Formula};
use clk_base::source::Span;
use clk_scalar::exact::limits;
use clk_scalar::ops::{MathFn, UnaryOp};
use clk_scalar::{Scalar, ScalarValue as Number};

/// The maximum number of facts about the results of operations that do not overflow.
const MAX_IN_RANGE: usize = 40;

impl FootprintAnalysis<'_> {
    pub(super) fn span(&self, id: ExprId) -> Span {
        self.f.spans[id]
    }

    /// Returns a value of this type about which nothing is known. `why` is the reason, for reports.
    pub(super) fn unknown(&mut self, ty: Ty, why: &'static str, span: Span) -> SymbolicValue {
        self.some(ty, VarRole::Unknown(why, span), why)
    }

    /// Returns a new variable with this role as a value of this type.
    pub(super) fn some(&mut self, ty: Ty, role: VarRole, name: &str) -> SymbolicValue {
        match ty {
            Ty::Scalar(Scalar::Bool) => {
                let var = self.space.fresh(name, role, 0, 1);
                SymbolicValue::Bool(nonnegative(variable(var).minus(&number(1))))
            }
            Ty::Scalar(s) if s.is_int() => {
                let (low, high) = limits(s);
                SymbolicValue::Int(variable(self.space.fresh(name, role, low, high)))
            }
            _ => SymbolicValue::Other,
        }
    }

    /// Returns the value of an expression that is free or has already been evaluated.
    pub(super) fn value(&mut self, id: ExprId) -> SymbolicValue {
        if let Some(known) = self.values.get(&id) {
            return known.clone();
        }
        let expr = &self.f.exprs[id];
        if expr.kind.is_free() || expr.kind.is_pure() {
            return self.evaluate(id);
        }
        self.unknown(expr.ty, "a value that is not followed", self.span(id))
    }

    pub(super) fn int(&mut self, id: ExprId) -> Option<AffineForm> {
        match self.value(id) {
            SymbolicValue::Int(form) => Some(form),
            _ => None,
        }
    }

    /// Returns the formula of a condition.
    pub(super) fn condition(&mut self, id: ExprId) -> Formula {
        match self.value(id) {
            SymbolicValue::Bool(formula) => formula,
            _ => {
                let span = self.span(id);
                match self.unknown(Ty::Scalar(Scalar::Bool), "a condition on values that are not integers", span) {
                    SymbolicValue::Bool(formula) => formula,
                    _ => always(),
                }
            }
        }
    }

    /// Evaluates an expression in the current state.
    pub(super) fn evaluate(&mut self, id: ExprId) -> SymbolicValue {
        let f = self.f;
        let expr = &f.exprs[id];
        let span = self.span(id);
        let is_followed = expr.ty.as_int().is_some() || expr.ty == Ty::Scalar(Scalar::Bool);
        if !is_followed || !self.slice.exprs.contains(&id) {
            return SymbolicValue::Other;
        }
        let value = match &expr.kind {
            ExprKind::Const(bits) => match expr.ty {
                Ty::Scalar(Scalar::Bool) => Some(SymbolicValue::Bool(if *bits != 0 { always() } else { never() })),
                Ty::Scalar(ty) => Number { ty, bits: *bits }.as_integer().map(|n| SymbolicValue::Int(number(n))),
                Ty::Vector(..) => None,
            },
            ExprKind::Param(i) => self.launch.params.get(i).map(|form| SymbolicValue::Int(form.clone())),
            ExprKind::Id(which, axis) => self.coordinate(*which, *axis).map(SymbolicValue::Int),
            ExprKind::Index(k) => self.launch.indices.get(usize::from(*k)).map(|form| SymbolicValue::Int(form.clone())),
            ExprKind::LaneIdx => Some(SymbolicValue::Int(self.lane_or_warp(true))),
            ExprKind::WarpIdx => Some(SymbolicValue::Int(self.lane_or_warp(false))),
            ExprKind::Extent(memory, axis) => self.extent(*memory, *axis).map(SymbolicValue::Int),
            ExprKind::Read(local) => {
                Some(self.state.as_ref().and_then(|s| s.locals.get(local).cloned()).unwrap_or_else(|| {
                    let ty = f.locals[*local].ty;
                    self.unknown(ty, "a variable that is not followed", span)
                }))
            }
            ExprKind::Load { place, .. } => Some(self.load(expr.ty, place, span)),
            ExprKind::Unary { op, value } => self.unary(id, *op, *value),
            ExprKind::Binary { op, left, right } => self.binary(id, *op, *left, *right),
            ExprKind::Math { function, args } => self.math(id, *function, args),
            ExprKind::Select { cond, then, other } => self.select(*cond, *then, *other),
            ExprKind::Convert(value) => self.convert(id, *value),
            ExprKind::Bitcast(value) => self.convert(id, *value),
            ExprKind::Compose(_) | ExprKind::Extract { .. } | ExprKind::Result => None,
        };
        match value {
            Some(SymbolicValue::Int(form)) if is_tame(&form) => SymbolicValue::Int(form),
            Some(SymbolicValue::Bool(formula)) => SymbolicValue::Bool(self.space.shorten(formula)),
            _ if self.opaque.contains(&id) => self.unknown(expr.ty, "this may overflow", span),
            Some(SymbolicValue::Int(_)) | None if self.may_leave_type(&expr.kind) => {
                self.may_overflow(id);
                self.unknown(expr.ty, "an operation outside of linear integer arithmetic", span)
            }
            _ => self.unknown(expr.ty, "an operation outside of linear integer arithmetic", span),
        }
    }

    /// Returns the value of a loaded element. If the kernel does not write the array, loads with equal indices return
    /// equal values.
    fn load(&mut self, ty: Ty, place: &Place, span: Span) -> SymbolicValue {
        let memory = &self.f.memories[place.memory];
        let indices: Option<Vec<AffineForm>> = place.indices.iter().map(|&index| self.int(index)).collect();
        match (memory.space, indices, ty) {
            (MemorySpace::Global { param, access: Access::In }, Some(indices), Ty::Scalar(scalar))
                if place.component.is_none() && (scalar.is_int() || scalar == Scalar::Bool) =>
            {
                let element = SymbolicLoad { param, leaf: place.leaf, indices };
                let var = variable(self.space.element(element, &memory.name, limits(scalar), span));
                match scalar {
                    Scalar::Bool => SymbolicValue::Bool(less(&number(0), &var)),
                    _ => SymbolicValue::Int(var),
                }
            }
            (MemorySpace::Constant | MemorySpace::Local, Some(indices), Ty::Scalar(scalar))
                if scalar.is_int() || scalar == Scalar::Bool =>
            {
                match self.constant_element(place, &indices, scalar, span) {
                    Some(form) if scalar == Scalar::Bool => SymbolicValue::Bool(less(&number(0), &form)),
                    Some(form) => SymbolicValue::Int(form),
                    None => self.unknown(ty, "read from memory", span),
                }
            }
            _ => self.unknown(ty, "read from memory", span),
        }
    }

    /// Returns an element of a constant array.
    fn constant_element(
        &mut self,
        place: &Place,
        indices: &[AffineForm],
        scalar: Scalar,
        span: Span,
    ) -> Option<AffineForm> {
        let memory = &self.f.memories[place.memory];
        let first = memory.layout.scalars_before(place.leaf, place.component);
        let integer = |bits: &u64| match scalar {
            Scalar::Bool => Some(i128::from(*bits != 0)),
            _ => Number { ty: scalar, bits: *bits }.as_integer(),
        };
        let contents = match memory.space {
            MemorySpace::Local => self.tables.get(&place.memory)?.as_slice(),
            _ => &memory.values[..],
        };
        let values = contents.iter().skip(first).step_by(memory.layout.scalar_count().max(1));
        let values: Arc<[i128]> = values.map(integer).collect::<Option<_>>()?;
        let mut flat = number(0);
        for (index, extent) in indices.iter().zip(&memory.extents) {
            flat = flat.times(extent.known()?.into()).plus(index);
            if !is_tame(&flat) {
                return None;
            }
        }
        // Numbers constant arrays downward from the largest number, to avoid the numbers of parameters, which start at
        // 0.
        let array = u32::MAX - place.memory.index() as u32;
        let element = SymbolicLoad { param: array, leaf: first as u32, indices: vec![flat] };
        Some(self.space.constant_array_element(element, &memory.name, values, limits(scalar), span))
    }

    fn coordinate(&mut self, which: BuiltinIndex, axis: Axis) -> Option<AffineForm> {
        let grid = self.launch.grid.as_ref()?;
        let k = axis as usize;
        Some(match which {
            BuiltinIndex::Thread => grid.thread[k].clone(),
            BuiltinIndex::Block => grid.block_idx[k].clone(),
            BuiltinIndex::BlockDim => grid.block[k].clone(),
            BuiltinIndex::GridDim => grid.grid[k].clone(),
            BuiltinIndex::Global => grid.global[k].clone(),
        })
    }

    /// Returns the thread's lane index (if `lane`) or its warp index.
    fn lane_or_warp(&mut self, lane: bool) -> AffineForm {
        let Some(grid) = self.launch.grid.as_ref() else { return number(0) };
        let (thread, block) = (grid.thread.clone(), grid.block.clone());
        let rows = self.space.product(&thread[1], &block[0]);
        let planes = self.space.product(&block[0], &block[1]);
        let planes = self.space.product(&thread[2], &planes);
        let flat = thread[0].plus(&rows).plus(&planes);
        let warp = self.space.quotient(&flat, &number(32), true);
        if lane { flat.minus(&warp.times(32)) } else { warp }
    }

    pub(super) fn extent(&mut self, memory: MemId, axis: u8) -> Option<AffineForm> {
        let memory_def = &self.f.memories[memory];
        match (memory_def.extents.get(usize::from(axis))?, memory_def.space) {
            (Extent::Known(n), _) => Some(number(i128::from(*n))),
            (Extent::Launch, MemorySpace::Global { param, .. }) => self.launch.extents.get(&(param, axis)).cloned(),
            (Extent::Dynamic(id), _) => self.int(*id),
            (Extent::Launch, _) => None,
        }
    }

    /// Returns an affine form as the value of an operation, and records the obligation that the result fits its type.
    /// `None` if the result must be treated as unknown.
    fn require_in_range(&mut self, id: ExprId, form: AffineForm, rule: OverflowRule) -> Option<SymbolicValue> {
        let scalar = self.f.exprs[id].ty.as_int()?;
        if !is_tame(&form) {
            return None;
        }
        let (low, high) = limits(scalar);
        if self.opaque.contains(&id) {
            return (rule == OverflowRule::Wraps && high - low < 1 << 32)
                .then(|| SymbolicValue::Int(self.space.wrapped(&form, low, high)));
        }
        let (least, most) = self.space.bounds(&form);
        if least >= low && most <= high && least > -ENDLESS && most < ENDLESS {
            return Some(SymbolicValue::Int(form));
        }
        if self.exploring == 0
            && let Some(state) = &mut self.state
        {
            if rule == OverflowRule::Fault && self.overflow == SignedOverflow::Undefined {
                let facts = [at_most(&number(low), &form), at_most(&form, &number(high))];
                for fact in facts.into_iter().filter(|fact| !is_always(fact)) {
                    if state.in_range.len() < MAX_IN_RANGE && !state.in_range.contains(&fact) {
                        state.in_range.push(fact);
                    }
                }
                return Some(SymbolicValue::Int(form));
            }
            let span = self.f.spans[id];
            let path = state.facts();
            self.footprint.obligations.push(OverflowObligation {
                expr: id,
                span,
                rule,
                path,
                value: form.clone(),
                low,
                high,
            });
        }
        Some(SymbolicValue::Int(form))
    }

    /// Returns whether an out-of-range result of this operation is a fault or wraps around.
    fn overflow_rule(&self, id: ExprId) -> OverflowRule {
        match self.f.exprs[id].ty.as_int() {
            Some(s) if s.is_signed() => OverflowRule::Fault,
            _ => OverflowRule::Wraps,
        }
    }

    fn unary(&mut self, id: ExprId, op: UnaryOp, value: ExprId) -> Option<SymbolicValue> {
        match (op, self.value(value)) {
            (UnaryOp::Neg, SymbolicValue::Int(form)) => {
                let rule = self.overflow_rule(id);
                self.require_in_range(id, form.times(-1), rule)
            }
            (UnaryOp::Not, SymbolicValue::Bool(formula)) => Some(SymbolicValue::Bool(not(&formula))),
            (UnaryOp::Not, SymbolicValue::Int(form)) if self.overflow_rule(id) == OverflowRule::Fault => {
                Some(SymbolicValue::Int(number(-1).minus(&form)))
            }
            _ => None,
        }
    }

    fn binary(&mut self, id: ExprId, op: BinOp, left: ExprId, right: ExprId) -> Option<SymbolicValue> {
        let rule = self.overflow_rule(id);
        let (a, b) = match (self.value(left), self.value(right)) {
            (SymbolicValue::Int(a), SymbolicValue::Int(b)) => (a, b),
            (SymbolicValue::Bool(a), SymbolicValue::Bool(b)) => return self.logical(op, a, b),
            _ => return None,
        };
        match op {
            BinOp::Add => {
                // Uses the same quotient variable for `ceil_div` as the launch geometry. Otherwise products with the
                // quotient would be different variables.
                let whole =
                    match_ceil_div(self.f, op, left, right).and_then(|(value, by)| Some((self.int(value)?, by)));
                if let Some((value, by)) = whole.filter(|(value, _)| self.space.bounds(value).0 >= 0) {
                    return Some(SymbolicValue::Int(self.space.ceil_quotient(&value, &number(by))));
                }
                self.require_in_range(id, a.plus(&b), rule)
            }
            BinOp::Sub => self.require_in_range(id, a.minus(&b), rule),
            BinOp::Mul => {
                let form = self.space.product(&a, &b);
                self.require_in_range(id, form, rule)
            }
            BinOp::Div => {
                let form = self.space.quotient(&a, &b, false);
                // `INT_MIN / -1` overflows.
                self.require_in_range(id, form, rule)
            }
            BinOp::Rem => {
                if self.space.bounds(&b).0 < 0 {
                    // `INT_MIN % -1` overflows.
                    self.may_overflow(id);
                }
                let quotient = self.space.quotient(&a, &b, false);
                let back = self.space.product(&quotient, &b);
                Some(SymbolicValue::Int(a.minus(&back)))
            }
            BinOp::Eq => Some(SymbolicValue::Bool(equal(&a, &b))),
            BinOp::Ne => Some(SymbolicValue::Bool(different(&a, &b))),
            BinOp::Lt => Some(SymbolicValue::Bool(less(&a, &b))),
            BinOp::Le => Some(SymbolicValue::Bool(at_most(&a, &b))),
            BinOp::Gt => Some(SymbolicValue::Bool(less(&b, &a))),
            BinOp::Ge => Some(SymbolicValue::Bool(at_most(&b, &a))),
            BinOp::Shl | BinOp::Shr => self.shift(id, op, &a, &b),
            BinOp::And | BinOp::Or | BinOp::Xor => self.bits(op, &a, &b),
            BinOp::Pow => match (constant(&a), constant(&b)) {
                (Some(x), Some(y)) if (0..64).contains(&y) => {
                    let form = x.checked_pow(y as u32).filter(|n| n.abs() < 1 << 66)?;
                    self.require_in_range(id, number(form), rule)
                }
                _ => None,
            },
        }
    }

    /// Records that a signed operation may overflow, with an obligation that cannot be proved.
    pub(super) fn may_overflow(&mut self, id: ExprId) {
        let scalar = self.f.exprs[id].ty.scalar();
        if !(scalar.is_int() && scalar.is_signed()) || self.opaque.contains(&id) || self.exploring > 0 {
            return;
        }
        let Some(path) = self.state.as_ref().map(SymbolicState::facts) else { return };
        let span = self.f.spans[id];
        let role = VarRole::Unknown("an operation outside of linear integer arithmetic", span);
        let value = variable(self.space.fresh("result", role, -ENDLESS, ENDLESS));
        let (low, high) = limits(scalar);
        let rule = OverflowRule::Fault;
        self.footprint.obligations.push(OverflowObligation { expr: id, span, rule, path, value, low, high });
    }

    /// Returns whether an operation's result may not fit its type. Operations on vectors are ignored.
    fn may_leave_type(&self, kind: &ExprKind) -> bool {
        use BinOp::*;
        match kind {
            ExprKind::Binary { op, .. } => matches!(op, Add | Sub | Mul | Div | Rem | Pow),
            ExprKind::Unary { op, .. } => *op == UnaryOp::Neg,
            ExprKind::Extract { value, .. } => {
                let from = &self.f.exprs[*value].kind;
                !matches!(from, ExprKind::Load { .. } | ExprKind::Param(_) | ExprKind::Compose(_))
            }
            _ => false,
        }
    }

    fn logical(&mut self, op: BinOp, a: Formula, b: Formula) -> Option<SymbolicValue> {
        let same = |a: &Formula, b: &Formula| or([and([a.clone(), b.clone()]), and([not(a), not(b)])]);
        Some(SymbolicValue::Bool(match op {
            BinOp::And => and([a, b]),
            BinOp::Or => or([a, b]),
            BinOp::Eq => same(&a, &b),
            BinOp::Ne | BinOp::Xor => same(&a, &not(&b)),
            _ => return None,
        }))
    }

    fn shift(&mut self, id: ExprId, op: BinOp, a: &AffineForm, b: &AffineForm) -> Option<SymbolicValue> {
        let bits = i128::from(self.f.exprs[id].ty.as_int()?.bits());
        match (constant(b), op) {
            (Some(by), BinOp::Shl) if (0..bits.min(48)).contains(&by) => {
                self.require_in_range(id, a.times(1 << by), OverflowRule::Wraps)
            }
            (Some(by), BinOp::Shr) if (0..bits).contains(&by) => {
                Some(SymbolicValue::Int(self.space.quotient(a, &number(1 << by), true)))
            }
            _ => None,
        }
    }

    /// Evaluates bitwise operations. The result is exact if one operand is a mask of low bits or a single bit;
    /// otherwise only its bounds are known.
    fn bits(&mut self, op: BinOp, a: &AffineForm, b: &AffineForm) -> Option<SymbolicValue> {
        let (a, b) = if constant(b).is_some() { (a, b) } else { (b, a) };
        if let (Some(x), Some(y)) = (constant(a), constant(b)) {
            let both = match op {
                BinOp::And => x & y,
                BinOp::Or => x | y,
                _ => x ^ y,
            };
            return Some(SymbolicValue::Int(number(both)));
        }
        let ((least, most), (from, to)) = (self.space.bounds(a), self.space.bounds(b));
        let mask = constant(b);
        if op == BinOp::And
            && let Some(mask) = mask
            && mask >= 0
            && ((mask + 1) as u128).is_power_of_two()
        {
            let high = self.space.quotient(a, &number(mask + 1), true);
            return Some(SymbolicValue::Int(a.minus(&high.times(mask + 1))));
        }
        if let Some(bit) = mask
            && bit > 0
            && (bit as u128).is_power_of_two()
        {
            let (low, high) =
                (self.space.quotient(a, &number(bit), true), self.space.quotient(a, &number(2 * bit), true));
            let is_set = low.minus(&high.times(2));
            return Some(SymbolicValue::Int(match op {
                BinOp::And => is_set.times(bit),
                BinOp::Or => a.plus(&number(bit)).minus(&is_set.times(bit)),
                _ => a.plus(&number(bit)).minus(&is_set.times(2 * bit)),
            }));
        }
        if least < 0 || from < 0 {
            return None;
        }
        // Both operands are nonnegative.
        let high = match op {
            BinOp::And => most.min(to),
            _ => ((most.max(to) as u128 + 1).next_power_of_two() - 1) as i128,
        };
        let mut on: Vec<_> = a.terms().iter().chain(b.terms()).map(|&(var, _)| var).collect();
        on.sort();
        on.dedup();
        let var = self.space.fresh("bits", VarRole::Derived(on), 0, high.min(ENDLESS));
        self.space.definitions.insert(var, DerivedVar::Bits(op, a.clone(), b.clone()));
        if op == BinOp::And {
            self.space.add_fact(var, at_most(&variable(var), a));
            self.space.add_fact(var, at_most(&variable(var), b));
        }
        Some(SymbolicValue::Int(variable(var)))
    }

    fn math(&mut self, id: ExprId, function: MathFn, args: &[ExprId]) -> Option<SymbolicValue> {
        let forms: Vec<AffineForm> = args.iter().map(|&arg| self.int(arg)).collect::<Option<_>>()?;
        let zero = number(0);
        Some(SymbolicValue::Int(match (function, &forms[..]) {
            (MathFn::Min, [a, b]) => self.space.min_form(a, b),
            (MathFn::Max, [a, b]) => self.space.max_form(a, b),
            (MathFn::Clamp, [x, low, high]) => {
                let raised = self.space.max_form(x, low);
                self.space.min_form(&raised, high)
            }
            (MathFn::Abs, [a]) => {
                let form = self.space.either(&at_most(&zero, a), a, &a.times(-1));
                let rule = self.overflow_rule(id);
                return self.require_in_range(id, form, rule);
            }
            (MathFn::Sign, [a]) => {
                let negative = self.space.either(&less(a, &zero), &number(-1), &zero);
                self.space.either(&less(&zero, a), &number(1), &negative)
            }
            (MathFn::WrappingAdd, [a, b]) => return self.require_in_range(id, a.plus(b), OverflowRule::Wraps),
            (MathFn::WrappingSub, [a, b]) => return self.require_in_range(id, a.minus(b), OverflowRule::Wraps),
            (MathFn::WrappingMul, [a, b]) => {
                let form = self.space.product(a, b);
                return self.require_in_range(id, form, OverflowRule::Wraps);
            }
            (MathFn::WrappingNeg, [a]) => return self.require_in_range(id, a.times(-1), OverflowRule::Wraps),
            _ => return None,
        }))
    }

    fn select(&mut self, cond: ExprId, then: ExprId, other: ExprId) -> Option<SymbolicValue> {
        let condition = self.condition(cond);
        Some(match (self.value(then), self.value(other)) {
            (SymbolicValue::Int(a), SymbolicValue::Int(b)) => SymbolicValue::Int(self.space.either(&condition, &a, &b)),
            (SymbolicValue::Bool(a), SymbolicValue::Bool(b)) => {
                SymbolicValue::Bool(or([and([condition.clone(), a]), and([not(&condition), b])]))
            }
            _ => return None,
        })
    }

    /// Evaluates integer conversions and bitcasts of the same size. The result is the operand's value if the type can
    /// represent it.
    fn convert(&mut self, id: ExprId, value: ExprId) -> Option<SymbolicValue> {
        match (self.value(value), self.f.exprs[id].ty) {
            (SymbolicValue::Int(form), Ty::Scalar(Scalar::Bool)) => {
                Some(SymbolicValue::Bool(different(&form, &number(0))))
            }
            (SymbolicValue::Int(form), _) => self.require_in_range(id, form, OverflowRule::Wraps),
            (SymbolicValue::Bool(formula), Ty::Scalar(s)) if s.is_int() => {
                Some(SymbolicValue::Int(self.space.either(&formula, &number(1), &number(0))))
            }
            (SymbolicValue::Bool(formula), Ty::Scalar(Scalar::Bool)) => Some(SymbolicValue::Bool(formula)),
            _ => None,
        }
    }
}
