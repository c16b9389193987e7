//! The values of expressions: linear forms for integers, formulas for truth values.

use std::sync::Arc;

use super::def::{Obligation, Strictness, int};
use super::form::*;
use super::space::{Definition, ENDLESS, Element, Role};
use super::state::{Value, Walk};
use crate::base::linear::{Formula, Linear};
use crate::base::source::Span;
use crate::ir::def::*;
use crate::ir::ranges::{rounded_up, type_range};
use crate::lang::ops::{MathFn, UnaryOp};
use crate::lang::scalar::{Scalar, Value as Number};

impl Walk<'_> {
    pub(super) fn span(&self, id: ExprId) -> Span {
        self.f.spans[id]
    }

    /// Returns a value of this type of which nothing is known.
    pub(super) fn unknown(&mut self, ty: Ty, why: &'static str, span: Span) -> Value {
        self.some(ty, Role::Unknown(why, span), why)
    }

    /// Returns a new variable of this type.
    pub(super) fn some(&mut self, ty: Ty, role: Role, name: &str) -> Value {
        match ty {
            Ty::Scalar(Scalar::Bool) => {
                let var = self.space.fresh(name, role, 0, 1);
                Value::Bool(nonnegative(variable(var).minus(&number(1))))
            }
            Ty::Scalar(s) if s.is_int() => {
                let (low, high) = type_range(s);
                Value::Int(variable(self.space.fresh(name, role, low, high)))
            }
            _ => Value::Other,
        }
    }

    /// Returns the value of an expression that was evaluated before, or that is free.
    pub(super) fn value(&mut self, id: ExprId) -> Value {
        if let Some(known) = self.values.get(&id) {
            return known.clone();
        }
        let expr = &self.f.exprs[id];
        if expr.kind.is_free() || expr.kind.is_pure() {
            return self.evaluate(id);
        }
        self.unknown(expr.ty, "a value that is not followed", self.span(id))
    }

    pub(super) fn int(&mut self, id: ExprId) -> Option<Linear> {
        match self.value(id) {
            Value::Int(form) => Some(form),
            _ => None,
        }
    }

    /// Returns the formula of a condition.
    pub(super) fn condition(&mut self, id: ExprId) -> Formula {
        match self.value(id) {
            Value::Bool(formula) => formula,
            _ => {
                let span = self.span(id);
                match self.unknown(Ty::Scalar(Scalar::Bool), "a condition on values that are not integers", span) {
                    Value::Bool(formula) => formula,
                    _ => always(),
                }
            }
        }
    }

    /// Evaluates an expression in the current state.
    pub(super) fn evaluate(&mut self, id: ExprId) -> Value {
        let f = self.f;
        let expr = &f.exprs[id];
        let span = self.span(id);
        let wanted = int(expr.ty).is_some() || expr.ty == Ty::Scalar(Scalar::Bool);
        if !wanted || !self.slice.exprs.contains(&id) {
            return Value::Other;
        }
        let value = match &expr.kind {
            ExprKind::Const(bits) => match expr.ty {
                Ty::Scalar(Scalar::Bool) => Some(Value::Bool(if *bits != 0 { always() } else { never() })),
                Ty::Scalar(ty) => Number { ty, bits: *bits }.as_integer().map(|n| Value::Int(number(n))),
                Ty::Vector(..) => None,
            },
            ExprKind::Param(i) => self.given.params.get(i).map(|form| Value::Int(form.clone())),
            ExprKind::Id(which, axis) => self.coordinate(*which, *axis).map(Value::Int),
            ExprKind::Index(k) => self.given.indices.get(usize::from(*k)).map(|form| Value::Int(form.clone())),
            ExprKind::LaneIdx => Some(Value::Int(self.lane(true))),
            ExprKind::WarpIdx => Some(Value::Int(self.lane(false))),
            ExprKind::Extent(memory, axis) => self.extent(*memory, *axis).map(Value::Int),
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
            Some(Value::Int(form)) if is_tame(&form) => Value::Int(form),
            Some(Value::Bool(formula)) => Value::Bool(self.space.short(formula)),
            _ if self.opaque.contains(&id) => self.unknown(expr.ty, "this may overflow", span),
            Some(Value::Int(_)) | None if self.computes(&expr.kind) => {
                self.may_overflow(id);
                self.unknown(expr.ty, "an operation outside of linear integer arithmetic", span)
            }
            _ => self.unknown(expr.ty, "an operation outside of linear integer arithmetic", span),
        }
    }

    /// Returns an element: a function of its indices, if the kernel does not write the array.
    fn load(&mut self, ty: Ty, place: &Place, span: Span) -> Value {
        let memory = &self.f.memories[place.memory];
        let indices: Option<Vec<Linear>> = place.indices.iter().map(|&index| self.int(index)).collect();
        match (memory.space, indices, ty) {
            (Space::Global { param, access: Access::In }, Some(indices), Ty::Scalar(scalar))
                if place.component.is_none() && (scalar.is_int() || scalar == Scalar::Bool) =>
            {
                let element = Element { param, leaf: place.leaf, indices };
                let var = variable(self.space.element(element, &memory.name, type_range(scalar), span));
                match scalar {
                    Scalar::Bool => Value::Bool(less(&number(0), &var)),
                    _ => Value::Int(var),
                }
            }
            (Space::Constant | Space::Local, Some(indices), Ty::Scalar(scalar))
                if scalar.is_int() || scalar == Scalar::Bool =>
            {
                match self.table(place, &indices, scalar, span) {
                    Some(form) if scalar == Scalar::Bool => Value::Bool(less(&number(0), &form)),
                    Some(form) => Value::Int(form),
                    None => self.unknown(ty, "read from memory", span),
                }
            }
            _ => self.unknown(ty, "read from memory", span),
        }
    }

    /// Returns an element of an array of constants.
    fn table(&mut self, place: &Place, indices: &[Linear], scalar: Scalar, span: Span) -> Option<Linear> {
        let memory = &self.f.memories[place.memory];
        let lanes = |leaf: &Leaf| usize::from(leaf.ty.lanes());
        let before: usize = memory.layout.leaves.iter().take(place.leaf as usize).map(lanes).sum();
        let first = before + usize::from(place.component.unwrap_or(0));
        let integer = |bits: &u64| match scalar {
            Scalar::Bool => Some(i128::from(*bits != 0)),
            _ => Number { ty: scalar, bits: *bits }.as_integer(),
        };
        let stored = match memory.space {
            Space::Local => self.tables.get(&place.memory)?.as_slice(),
            _ => &memory.values[..],
        };
        let values = stored.iter().skip(first).step_by(memory.layout.scalars().max(1));
        let values: Arc<[i128]> = values.map(integer).collect::<Option<_>>()?;
        let mut flat = number(0);
        for (index, extent) in indices.iter().zip(&memory.extents) {
            let Extent::Known(extent) = extent else { return None };
            flat = flat.times(i128::from(*extent)).plus(index);
            if !is_tame(&flat) {
                return None;
            }
        }
        // Parameters are numbered from 0, so that no array has this number.
        let array = u32::MAX - place.memory.index() as u32;
        let element = Element { param: array, leaf: first as u32, indices: vec![flat] };
        Some(self.space.table(element, &memory.name, values, type_range(scalar), span))
    }

    fn coordinate(&mut self, which: Id3, axis: Axis) -> Option<Linear> {
        let grid = self.given.grid.as_ref()?;
        let k = axis as usize;
        Some(match which {
            Id3::Thread => grid.thread[k].clone(),
            Id3::Block => grid.at[k].clone(),
            Id3::BlockDim => grid.block[k].clone(),
            Id3::GridDim => grid.grid[k].clone(),
            Id3::Global => grid.global[k].clone(),
        })
    }

    /// Returns the lane of the thread in its warp, or the number of the warp.
    fn lane(&mut self, lane: bool) -> Linear {
        let Some(grid) = self.given.grid.as_ref() else { return number(0) };
        let (thread, block) = (grid.thread.clone(), grid.block.clone());
        let rows = self.space.product(&thread[1], &block[0]);
        let planes = self.space.product(&block[0], &block[1]);
        let planes = self.space.product(&thread[2], &planes);
        let flat = thread[0].plus(&rows).plus(&planes);
        let warp = self.space.quotient(&flat, &number(32), true);
        if lane { flat.minus(&warp.times(32)) } else { warp }
    }

    pub(super) fn extent(&mut self, memory: MemId, axis: u8) -> Option<Linear> {
        let found = &self.f.memories[memory];
        match (found.extents.get(usize::from(axis))?, found.space) {
            (Extent::Known(n), _) => Some(number(i128::from(*n))),
            (Extent::Launch, Space::Global { param, .. }) => self.given.extents.get(&(param, axis)).cloned(),
            (Extent::Dynamic(id), _) => self.int(*id),
            (Extent::Launch, _) => None,
        }
    }

    /// Notes that a result has to be in range for its form to be its value; returns the form, or `None` where that is known
    /// to fail.
    fn within(&mut self, id: ExprId, form: Linear, strictness: Strictness) -> Option<Value> {
        let scalar = int(self.f.exprs[id].ty)?;
        if self.opaque.contains(&id) || !is_tame(&form) {
            return None;
        }
        let (low, high) = type_range(scalar);
        let (least, most) = self.space.bounds(&form);
        if least >= low && most <= high && least > -ENDLESS && most < ENDLESS {
            return Some(Value::Int(form));
        }
        if self.muted == 0
            && let Some(state) = &self.state
        {
            let span = self.f.spans[id];
            let path = state.path.clone();
            self.found.obligations.push(Obligation {
                expr: id,
                span,
                strictness,
                path,
                value: form.clone(),
                low,
                high,
            });
        }
        Some(Value::Int(form))
    }

    /// Returns how an operation of this type treats a result that is out of range.
    fn strictness(&self, id: ExprId) -> Strictness {
        match int(self.f.exprs[id].ty) {
            Some(s) if s.is_signed() => Strictness::Fault,
            _ => Strictness::Wraps,
        }
    }

    fn unary(&mut self, id: ExprId, op: UnaryOp, value: ExprId) -> Option<Value> {
        match (op, self.value(value)) {
            (UnaryOp::Neg, Value::Int(form)) => {
                let strictness = self.strictness(id);
                self.within(id, form.times(-1), strictness)
            }
            (UnaryOp::Not, Value::Bool(formula)) => Some(Value::Bool(not(&formula))),
            (UnaryOp::Not, Value::Int(form)) if self.strictness(id) == Strictness::Fault => {
                Some(Value::Int(number(-1).minus(&form)))
            }
            _ => None,
        }
    }

    fn binary(&mut self, id: ExprId, op: BinOp, left: ExprId, right: ExprId) -> Option<Value> {
        let strictness = self.strictness(id);
        let (a, b) = match (self.value(left), self.value(right)) {
            (Value::Int(a), Value::Int(b)) => (a, b),
            (Value::Bool(a), Value::Bool(b)) => return self.logical(op, a, b),
            _ => return None,
        };
        match op {
            BinOp::Add => {
                // The same as in the geometry of a launch, of which products would be others otherwise.
                let whole = rounded_up(self.f, op, left, right).and_then(|(value, by)| Some((self.int(value)?, by)));
                if let Some((value, by)) = whole.filter(|(value, _)| self.space.bounds(value).0 >= 0) {
                    return Some(Value::Int(self.space.quotient_up(&value, &number(by))));
                }
                self.within(id, a.plus(&b), strictness)
            }
            BinOp::Sub => self.within(id, a.minus(&b), strictness),
            BinOp::Mul => {
                let form = self.space.product(&a, &b);
                self.within(id, form, strictness)
            }
            BinOp::Div => {
                let form = self.space.quotient(&a, &b, false);
                // The smallest number divided by -1.
                self.within(id, form, strictness)
            }
            BinOp::Rem => {
                if self.space.bounds(&b).0 < 0 {
                    // The smallest number by -1.
                    self.may_overflow(id);
                }
                let quotient = self.space.quotient(&a, &b, false);
                let back = self.space.product(&quotient, &b);
                Some(Value::Int(a.minus(&back)))
            }
            BinOp::Eq => Some(Value::Bool(equal(&a, &b))),
            BinOp::Ne => Some(Value::Bool(different(&a, &b))),
            BinOp::Lt => Some(Value::Bool(less(&a, &b))),
            BinOp::Le => Some(Value::Bool(at_most(&a, &b))),
            BinOp::Gt => Some(Value::Bool(less(&b, &a))),
            BinOp::Ge => Some(Value::Bool(at_most(&b, &a))),
            BinOp::Shl | BinOp::Shr => self.shift(id, op, &a, &b),
            BinOp::And | BinOp::Or | BinOp::Xor => self.bits(op, &a, &b),
            BinOp::Pow => match (constant(&a), constant(&b)) {
                (Some(x), Some(y)) if (0..64).contains(&y) => {
                    let form = x.checked_pow(y as u32).filter(|n| n.abs() < 1 << 66)?;
                    self.within(id, number(form), strictness)
                }
                _ => None,
            },
        }
    }

    /// Notes that nothing is known of whether an operation overflows, if it is one that must not.
    pub(super) fn may_overflow(&mut self, id: ExprId) {
        let scalar = self.f.exprs[id].ty.scalar();
        if !(scalar.is_int() && scalar.is_signed()) || self.opaque.contains(&id) || self.muted > 0 {
            return;
        }
        let Some(path) = self.state.as_ref().map(|state| state.path.clone()) else { return };
        let span = self.f.spans[id];
        let role = Role::Unknown("an operation outside of linear integer arithmetic", span);
        let value = variable(self.space.fresh("result", role, -ENDLESS, ENDLESS));
        let (low, high) = type_range(scalar);
        let strictness = Strictness::Fault;
        self.found.obligations.push(Obligation { expr: id, span, strictness, path, value, low, high });
    }

    /// Returns whether an operation may have a result that its type does not hold. Arithmetic of vectors is not followed.
    fn computes(&self, kind: &ExprKind) -> bool {
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

    fn logical(&mut self, op: BinOp, a: Formula, b: Formula) -> Option<Value> {
        let same = |a: &Formula, b: &Formula| or([and([a.clone(), b.clone()]), and([not(a), not(b)])]);
        Some(Value::Bool(match op {
            BinOp::And => and([a, b]),
            BinOp::Or => or([a, b]),
            BinOp::Eq => same(&a, &b),
            BinOp::Ne | BinOp::Xor => same(&a, &not(&b)),
            _ => return None,
        }))
    }

    fn shift(&mut self, id: ExprId, op: BinOp, a: &Linear, b: &Linear) -> Option<Value> {
        let bits = i128::from(int(self.f.exprs[id].ty)?.bits());
        match (constant(b), op) {
            (Some(by), BinOp::Shl) if (0..bits.min(48)).contains(&by) => {
                self.within(id, a.times(1 << by), Strictness::Wraps)
            }
            (Some(by), BinOp::Shr) if (0..bits).contains(&by) => {
                Some(Value::Int(self.space.quotient(a, &number(1 << by), true)))
            }
            _ => None,
        }
    }

    /// Bitwise operations, exact where one operand is a mask of low bits or a single bit.
    fn bits(&mut self, op: BinOp, a: &Linear, b: &Linear) -> Option<Value> {
        let (a, b) = if constant(b).is_some() { (a, b) } else { (b, a) };
        if let (Some(x), Some(y)) = (constant(a), constant(b)) {
            let both = match op {
                BinOp::And => x & y,
                BinOp::Or => x | y,
                _ => x ^ y,
            };
            return Some(Value::Int(number(both)));
        }
        let ((least, most), (from, to)) = (self.space.bounds(a), self.space.bounds(b));
        let mask = constant(b);
        if op == BinOp::And
            && let Some(mask) = mask
            && mask >= 0
            && ((mask + 1) as u128).is_power_of_two()
        {
            let high = self.space.quotient(a, &number(mask + 1), true);
            return Some(Value::Int(a.minus(&high.times(mask + 1))));
        }
        if let Some(bit) = mask
            && bit > 0
            && (bit as u128).is_power_of_two()
        {
            let (low, high) =
                (self.space.quotient(a, &number(bit), true), self.space.quotient(a, &number(2 * bit), true));
            let is_set = low.minus(&high.times(2));
            return Some(Value::Int(match op {
                BinOp::And => is_set.times(bit),
                BinOp::Or => a.plus(&number(bit)).minus(&is_set.times(bit)),
                _ => a.plus(&number(bit)).minus(&is_set.times(2 * bit)),
            }));
        }
        if least < 0 || from < 0 {
            return None;
        }
        // Of two numbers that are not negative.
        let high = match op {
            BinOp::And => most.min(to),
            _ => ((most.max(to) as u128 + 1).next_power_of_two() - 1) as i128,
        };
        let mut on: Vec<_> = a.terms().iter().chain(b.terms()).map(|&(var, _)| var).collect();
        on.sort();
        on.dedup();
        let var = self.space.fresh("bits", Role::Derived(on), 0, high.min(ENDLESS));
        self.space.defined.insert(var, Definition::Bits(op, a.clone(), b.clone()));
        if op == BinOp::And {
            self.space.learn(var, at_most(&variable(var), a));
            self.space.learn(var, at_most(&variable(var), b));
        }
        Some(Value::Int(variable(var)))
    }

    fn math(&mut self, id: ExprId, function: MathFn, args: &[ExprId]) -> Option<Value> {
        let forms: Vec<Linear> = args.iter().map(|&arg| self.int(arg)).collect::<Option<_>>()?;
        let zero = number(0);
        Some(Value::Int(match (function, &forms[..]) {
            (MathFn::Min, [a, b]) => self.space.least(a, b),
            (MathFn::Max, [a, b]) => self.space.greatest(a, b),
            (MathFn::Clamp, [x, low, high]) => {
                let raised = self.space.greatest(x, low);
                self.space.least(&raised, high)
            }
            (MathFn::Abs, [a]) => {
                let form = self.space.either(&at_most(&zero, a), a, &a.times(-1));
                let strictness = self.strictness(id);
                return self.within(id, form, strictness);
            }
            (MathFn::Sign, [a]) => {
                let negative = self.space.either(&less(a, &zero), &number(-1), &zero);
                self.space.either(&less(&zero, a), &number(1), &negative)
            }
            (MathFn::WrappingAdd, [a, b]) => return self.within(id, a.plus(b), Strictness::Wraps),
            (MathFn::WrappingSub, [a, b]) => return self.within(id, a.minus(b), Strictness::Wraps),
            (MathFn::WrappingMul, [a, b]) => {
                let form = self.space.product(a, b);
                return self.within(id, form, Strictness::Wraps);
            }
            (MathFn::WrappingNeg, [a]) => return self.within(id, a.times(-1), Strictness::Wraps),
            _ => return None,
        }))
    }

    fn select(&mut self, cond: ExprId, then: ExprId, other: ExprId) -> Option<Value> {
        let condition = self.condition(cond);
        Some(match (self.value(then), self.value(other)) {
            (Value::Int(a), Value::Int(b)) => Value::Int(self.space.either(&condition, &a, &b)),
            (Value::Bool(a), Value::Bool(b)) => {
                Value::Bool(or([and([condition.clone(), a]), and([not(&condition), b])]))
            }
            _ => return None,
        })
    }

    /// Conversions between integers, and bit casts of the same size: the value itself where the type has it.
    fn convert(&mut self, id: ExprId, value: ExprId) -> Option<Value> {
        match (self.value(value), self.f.exprs[id].ty) {
            (Value::Int(form), Ty::Scalar(Scalar::Bool)) => Some(Value::Bool(different(&form, &number(0)))),
            (Value::Int(form), _) => self.within(id, form, Strictness::Wraps),
            (Value::Bool(formula), Ty::Scalar(s)) if s.is_int() => {
                Some(Value::Int(self.space.either(&formula, &number(1), &number(0))))
            }
            (Value::Bool(formula), Ty::Scalar(Scalar::Bool)) => Some(Value::Bool(formula)),
            _ => None,
        }
    }
}
