//! Builds the code of expressions: scalars into slots, other values by nodes.

use crate::base::source::Span;
use crate::check::literal::Literal;
use crate::check::typed::{Access, Block, Dim, Expr, ExprKind, FnRef, SmolStr, Type};
use crate::check::walk;
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::{Scalar, Value, dynamic};
use crate::lower::Argument;

use super::build::Builder;
use super::{Call, Dest, Fault, NodeKind, Op, Passed, Pc, Slot, arith};

/// A scalar in a slot.
type Typed = (Slot, Scalar);

impl Builder<'_> {
    /// Returns whether a scalar expression has instructions of its own. Others are nodes.
    pub fn is_native(&self, expr: &Expr) -> bool {
        let Some(ty) = self.scalar_of(&expr.ty) else { return false };
        match &expr.kind {
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Const(_)
            | ExprKind::ConstParam(_) => self.constant(expr, ty).is_some(),
            ExprKind::Local(_) | ExprKind::Global(_) | ExprKind::If { .. } | ExprKind::Block(_) => true,
            ExprKind::Dim(_) => ty == Scalar::I32,
            ExprKind::Unary { op, expr: inner } => {
                self.scalar_of(&inner.ty) == Some(ty) && arith::unary(*op, ty, self.checked).is_some()
            }
            ExprKind::Binary { op, .. } if op.is_logical() => ty == Scalar::Bool,
            ExprKind::Binary { op, left, right } => {
                self.scalar_of(&left.ty).is_some_and(|left| self.has_instruction(*op, left, self.scalar_of(&right.ty)))
            }
            ExprKind::Convert { to, expr: inner } => *to == ty && self.scalar_of(&inner.ty).is_some(),
            ExprKind::ConvertParam { expr: inner, .. } => self.scalar_of(&inner.ty).is_some(),
            ExprKind::Bitcast { expr: inner } => {
                let from = self.scalar_of(&inner.ty);
                from.is_some_and(|from| from.size() == ty.size() && from != Scalar::Bool && ty != Scalar::Bool)
            }
            ExprKind::Index { .. } => self.element_of(expr).is_some(),
            ExprKind::Call { callee, args } => self.is_direct(callee, args),
            ExprKind::Builtin { builtin, args, named } => self.is_native_builtin(*builtin, args, named, ty),
            _ => false,
        }
    }

    fn is_native_builtin(&self, builtin: Builtin, args: &[Expr], named: &[(SmolStr, Expr)], ty: Scalar) -> bool {
        let scalar = |expr: &Expr| self.scalar_of(&expr.ty);
        match (builtin, args) {
            _ if !named.is_empty() => false,
            (Builtin::Math(function), [first, rest @ ..]) => {
                let Some(of) = scalar(first) else { return false };
                let may_fail = self.checked && of.is_int() && matches!(function, MathFn::Pow | MathFn::Abs);
                let zeros = [Value::zero(of); 3];
                args.len() == function.row().arity
                    && !may_fail
                    && rest.iter().all(|arg| scalar(arg) == Some(of))
                    && dynamic::math(function, &zeros[..args.len()]).is_ok_and(|result| result.ty == ty)
            }
            (Builtin::Select, [cond, then, other]) => {
                scalar(cond) == Some(Scalar::Bool) && scalar(then) == Some(ty) && scalar(other) == Some(ty)
            }
            (Builtin::Len, [array]) => ty == Scalar::I32 && self.is_array(array),
            (Builtin::Shape, [array, axis]) => {
                let literal = matches!(axis.kind, ExprKind::Int(0..=7));
                ty == Scalar::I32 && literal && self.is_array(array)
            }
            _ => false,
        }
    }

    fn is_array(&self, expr: &Expr) -> bool {
        matches!(expr.ty, Type::Array(_)) && self.base(expr).is_some()
    }

    /// Returns whether an operator on scalars has an instruction.
    pub fn has_instruction(&self, op: BinaryOp, left: Scalar, right: Option<Scalar>) -> bool {
        let Some(right) = right else { return false };
        let fits = match op {
            // The amount is taken as an `u32`; a check needs all of it.
            BinaryOp::Shl | BinaryOp::Shr if self.checked => matches!(right, Scalar::I32 | Scalar::U32),
            BinaryOp::Shl | BinaryOp::Shr => right.is_int(),
            _ => left == right,
        };
        fits && arith::binary(op, left, self.checked).is_some()
    }

    /// Returns the value of an expression that is the same in every run of the code.
    fn constant(&self, expr: &Expr, ty: Scalar) -> Option<u64> {
        let number = match &expr.kind {
            ExprKind::Int(number) => Literal::Int(*number).to(ty)?,
            ExprKind::Float(number) => Literal::Float(*number).to(ty)?,
            ExprKind::Bool(value) => Value::of(*value),
            ExprKind::Const(id) => {
                let value = &self.program.consts.get(*id)?.value;
                let literal = matches!(value.kind, ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_));
                return if literal && value.ty == Type::Scalar(ty) { self.constant(value, ty) } else { None };
            }
            ExprKind::ConstParam(i) => match self.generics.get(*i as usize)? {
                Argument::Const(value) => *value,
                _ => return None,
            },
            _ => return None,
        };
        (number.ty == ty).then_some(number.bits)
    }

    /// Returns whether evaluating an expression may assign to a variable.
    pub fn may_assign(&self, expr: &Expr) -> bool {
        let mut found = false;
        walk::expr(expr, &mut |e| {
            found |= match &e.kind {
                ExprKind::Block(block) | ExprKind::Time(block) => !block.stmts.is_empty(),
                ExprKind::If { then, other, .. } => {
                    let has = |block: &Block| !block.stmts.is_empty();
                    has(then) || other.as_deref().is_some_and(has)
                }
                ExprKind::Call { callee: FnRef::Fn { id, .. }, .. } => {
                    self.program.fns[*id].sig.params.iter().any(|param| param.access != Access::In)
                }
                ExprKind::Launch(_) => true,
                _ => false,
            }
        });
        found
    }

    /// Computes scalars of any types, each into a slot of its own or that of its variable.
    pub fn slots(&mut self, exprs: &[Expr]) -> Vec<Typed> {
        let mut slots = Vec::with_capacity(exprs.len());
        for (i, expr) in exprs.iter().enumerate() {
            let Some(ty) = self.scalar_of(&expr.ty) else { continue };
            let later = exprs[i + 1..].iter().any(|later| self.may_assign(later));
            slots.push((self.kept(expr, ty, later), ty));
        }
        slots
    }

    /// Computes a scalar into a slot that keeps it, even if what comes `later` may assign to variables.
    fn kept(&mut self, expr: &Expr, ty: Scalar, later: bool) -> Slot {
        let slot = self.scalar(expr, ty);
        if !later || !matches!(expr.kind, ExprKind::Local(_) | ExprKind::Global(_)) {
            return slot;
        }
        let dst = self.temporary();
        self.emit(Op::Move { dst, src: slot }, expr.span);
        dst
    }

    /// Computes a scalar; returns its slot, which is the variable's if it is one.
    pub fn scalar(&mut self, expr: &Expr, ty: Scalar) -> Slot {
        if let ExprKind::Local(local) = expr.kind
            && self.code.scalar(local) == Some(ty)
        {
            return local.index() as Slot;
        }
        if let Some(slot) = self.resident(expr, ty) {
            return slot;
        }
        if let Some(bits) = self.constant(expr, ty)
            && let Some(slot) = self.constant_slot(bits)
        {
            return slot;
        }
        let dst = self.temporary();
        self.scalar_to(expr, ty, dst);
        dst
    }

    /// Computes a scalar into a slot.
    pub fn scalar_to(&mut self, expr: &Expr, ty: Scalar, dst: Slot) {
        let span = expr.span;
        match &expr.kind {
            ExprKind::If { cond, then, other: Some(other) } => {
                let no = self.branch(cond, false);
                self.scalar_block(then, ty, dst);
                let end = self.emit(Op::Jump { to: 0 }, span);
                let here = self.here();
                self.patch_all(&no, here);
                self.scalar_block(other, ty, dst);
                let here = self.here();
                self.patch(end, here);
            }
            ExprKind::Block(block) => self.scalar_block(block, ty, dst),
            _ if self.scalar_of(&expr.ty) != Some(ty) || !self.is_native(expr) => {
                self.evaluate(expr, Dest::Slot(dst, ty));
            }
            _ => self.native(expr, ty, dst),
        }
    }

    fn native(&mut self, expr: &Expr, ty: Scalar, dst: Slot) {
        let span = expr.span;
        if let Some(bits) = self.constant(expr, ty) {
            self.emit(Op::Load { dst, bits }, span);
            return;
        }
        match &expr.kind {
            ExprKind::Local(local) => {
                let (local, src) = (*local, local.index() as Slot);
                let op = match self.code.scalar(local) {
                    Some(_) if src == dst => return,
                    Some(_) => Op::Move { dst, src },
                    None => Op::GetLocal { dst, local, ty },
                };
                self.emit(op, span);
            }
            ExprKind::Global(id) => match self.resident(expr, ty) {
                Some(src) if src == dst => {}
                Some(src) => drop(self.emit(Op::Move { dst, src }, span)),
                None => drop(self.emit(Op::GetGlobal { dst, id: *id, ty }, span)),
            },
            ExprKind::Dim(index) => drop(self.emit(Op::Dim { dst, index: *index }, span)),
            ExprKind::Unary { op, expr: inner } => {
                let a = self.scalar(inner, ty);
                if let Some(function) = arith::unary(*op, ty, self.checked) {
                    self.one(function, a, dst, Fault::Unary(*op, (a, ty)), span);
                }
            }
            ExprKind::Binary { op, left, right } if op.is_logical() => self.logical(*op, left, right, dst),
            ExprKind::Binary { op, left, right } => {
                let both = [&**left, right].map(|side| self.scalar_of(&side.ty));
                if let [Some(l), Some(r)] = both {
                    let later = self.may_assign(right);
                    let a = self.kept(left, l, later);
                    let b = self.scalar(right, r);
                    self.operator(*op, (a, l), (b, r), dst, Some((left.span, right.span)), span);
                }
            }
            ExprKind::Convert { expr: inner, .. } | ExprKind::ConvertParam { expr: inner, .. } => {
                if let Some(from) = self.scalar_of(&inner.ty) {
                    let a = self.scalar(inner, from);
                    let function = arith::convert(from, ty, self.checked);
                    self.one(function, a, dst, Fault::Convert(ty, (a, from)), span);
                }
            }
            ExprKind::Bitcast { expr: inner } => {
                if let Some(from) = self.scalar_of(&inner.ty) {
                    let src = self.scalar(inner, from);
                    self.emit(Op::Move { dst, src }, span);
                }
            }
            ExprKind::Index { .. } => {
                if let Some(element) = self.element(expr, ty, false) {
                    self.emit(Op::GetElement { dst, element }, span);
                }
            }
            ExprKind::Call { callee, args } => self.call(callee, args, Dest::Slot(dst, ty), span),
            ExprKind::Builtin { builtin, args, .. } => self.builtin(*builtin, args, dst, span),
            _ => debug_assert!(false, "{:?} has no instructions", expr.kind),
        }
    }

    fn builtin(&mut self, builtin: Builtin, args: &[Expr], dst: Slot, span: Span) {
        match (builtin, args) {
            (Builtin::Math(function), [first, ..]) => {
                let Some(ty) = self.scalar_of(&first.ty) else { return };
                let place = self.temporaries(args.len() as u32);
                for (i, arg) in args.iter().enumerate() {
                    self.scalar_to(arg, ty, place + i as Slot);
                }
                self.emit(Op::Math { function, ty, count: args.len() as u8, dst, args: place }, span);
            }
            (Builtin::Select, args) => {
                if let [(cond, _), (then, _), (other, _)] = self.slots(args)[..] {
                    self.emit(Op::Select { dst, cond, then, other }, span);
                }
            }
            (_, [array, axis @ ..]) => {
                let axis = match axis.first().map(|axis| &axis.kind) {
                    Some(ExprKind::Int(axis)) => *axis as u8,
                    _ => 0,
                };
                if let Some(base) = self.base(array) {
                    self.emit(Op::Extent { dst, base, axis }, span);
                }
            }
            _ => {}
        }
    }

    fn one(&mut self, function: arith::One, a: Slot, dst: Slot, fault: Fault, span: Span) {
        match function {
            arith::One::Total(f) => drop(self.emit(Op::One { f, dst, a }, span)),
            arith::One::Partial(f) => {
                let at = self.emit(Op::TryOne { f, dst, a }, span);
                self.code.faults.insert(at as Pc, fault);
            }
        }
    }

    /// Adds the instruction of an operator.
    pub fn operator(
        &mut self,
        op: BinaryOp,
        left: Typed,
        right: Typed,
        dst: Slot,
        places: Option<(Span, Span)>,
        span: Span,
    ) {
        let (a, ty) = left;
        let mut b = right.0;
        if let Some(what) = arith::fast(op, ty, self.checked) {
            self.emit(Op::Fast { what, dst, a, b }, span);
            return;
        }
        if matches!(op, BinaryOp::Shl | BinaryOp::Shr)
            && !matches!(right.1, Scalar::I32 | Scalar::U32)
            && let arith::One::Total(f) = arith::convert(right.1, Scalar::U32, false)
        {
            let amount = self.temporary();
            self.emit(Op::One { f, dst: amount, a: b }, span);
            b = amount;
        }
        match arith::binary(op, ty, self.checked) {
            Some(arith::Two::Total(f)) => drop(self.emit(Op::Two { f, dst, a, b }, span)),
            Some(arith::Two::Partial(f)) => {
                let at = self.emit(Op::TryTwo { f, dst, a, b }, span);
                self.code.faults.insert(at as Pc, Fault::Binary(op, left, right, places));
            }
            None => debug_assert!(false, "{op:?} of {ty} has no instruction"),
        }
    }

    fn logical(&mut self, op: BinaryOp, left: &Expr, right: &Expr, dst: Slot) {
        let decided = op == BinaryOp::Or;
        let jumps = self.branch(left, decided);
        let src = self.truth(right);
        self.emit(Op::Move { dst, src }, right.span);
        let end = self.emit(Op::Jump { to: 0 }, right.span);
        let here = self.here();
        self.patch_all(&jumps, here);
        self.emit(Op::Load { dst, bits: decided.into() }, left.span);
        let here = self.here();
        self.patch(end, here);
    }

    /// Computes a condition.
    fn truth(&mut self, cond: &Expr) -> Slot {
        if self.scalar_of(&cond.ty) == Some(Scalar::Bool) {
            return self.scalar(cond, Scalar::Bool);
        }
        let dst = self.temporary();
        self.value(cond, Dest::Truth(dst));
        dst
    }

    /// Jumps if a condition is `when`; returns the jumps, whose target is not set yet.
    pub fn branch(&mut self, cond: &Expr, when: bool) -> Vec<usize> {
        if let ExprKind::Unary { op: UnaryOp::Not, expr: inner } = &cond.kind
            && self.scalar_of(&inner.ty) == Some(Scalar::Bool)
        {
            return self.branch(inner, !when);
        }
        if let ExprKind::Binary { op, left, right } = &cond.kind {
            if op.is_logical() && self.scalar_of(&cond.ty) == Some(Scalar::Bool) {
                return self.branch_logical(*op, left, right, when);
            }
            let both = [&**left, right].map(|side| self.scalar_of(&side.ty));
            if let [Some(l), Some(r)] = both
                && op.is_comparison()
                && self.has_instruction(*op, l, Some(r))
            {
                let later = self.may_assign(right);
                let a = self.kept(left, l, later);
                let b = self.scalar(right, r);
                return vec![self.compare(*op, l, (a, b), when, cond.span)];
            }
        }
        let cond_slot = self.truth(cond);
        vec![self.emit(Op::If { cond: cond_slot, when, to: 0 }, cond.span)]
    }

    fn branch_logical(&mut self, op: BinaryOp, left: &Expr, right: &Expr, when: bool) -> Vec<usize> {
        let decided = op == BinaryOp::Or;
        if when == decided {
            let mut jumps = self.branch(left, when);
            jumps.extend(self.branch(right, when));
            return jumps;
        }
        let past = self.branch(left, decided);
        let jumps = self.branch(right, when);
        let here = self.here();
        self.patch_all(&past, here);
        jumps
    }

    fn compare(&mut self, op: BinaryOp, ty: Scalar, (a, b): (Slot, Slot), when: bool, span: Span) -> usize {
        if let Some((test, exchanged, holds)) = arith::test(op, ty) {
            let (a, b) = if exchanged { (b, a) } else { (a, b) };
            return self.emit(Op::IfFast { test, when: when == holds, a, b, to: 0 }, span);
        }
        match arith::binary(op, ty, self.checked) {
            Some(arith::Two::Total(f)) => self.emit(Op::IfTwo { f, when, a, b, to: 0 }, span),
            _ => self.emit(Op::Unreachable, span),
        }
    }

    /// Computes any value.
    pub fn value(&mut self, expr: &Expr, dst: Dest) {
        match &expr.kind {
            ExprKind::If { cond, then, other } => {
                let no = self.branch(cond, false);
                self.block(then, dst);
                let is_done = other.is_none() && dst == Dest::Nowhere;
                let end = (!is_done).then(|| self.emit(Op::Jump { to: 0 }, expr.span));
                let here = self.here();
                self.patch_all(&no, here);
                match other {
                    Some(other) => self.block(other, dst),
                    None => self.unit(dst, expr.span),
                }
                let here = self.here();
                end.into_iter().for_each(|end| self.patch(end, here));
            }
            ExprKind::Block(block) => self.block(block, dst),
            ExprKind::Call { callee, args } if self.scalar_of(&expr.ty).is_none() && self.is_direct(callee, args) => {
                self.call(callee, args, dst, expr.span);
            }
            _ => match self.scalar_of(&expr.ty).filter(|_| self.is_native(expr)) {
                Some(ty) => {
                    let src = self.scalar(expr, ty);
                    if dst != Dest::Nowhere {
                        self.emit(Op::Put { src, ty, dst }, expr.span);
                    }
                }
                None => self.evaluate(expr, dst),
            },
        }
    }

    /// Adds a node for an expression.
    fn evaluate(&mut self, expr: &Expr, dst: Dest) {
        let shaped = self.shaped(expr);
        self.node(NodeKind::Expr(shaped), dst, expr.span);
    }

    /// Returns whether a call can be an instruction: of a function without compile-time parameters, with scalars, and with arrays
    /// that are in variables.
    fn is_direct(&self, callee: &FnRef, args: &[Expr]) -> bool {
        let FnRef::Fn { id, generics } = callee else { return false };
        let sig = &self.program.fns[*id].sig;
        if !generics.is_empty() || !sig.generics.is_empty() || sig.params.len() != args.len() {
            return false;
        }
        let mut arrays = false;
        let fits = sig.params.iter().zip(args).all(|(param, arg)| match &param.ty {
            _ if param.access != Access::In => false,
            Type::Scalar(ty) => self.scalar_of(&arg.ty) == Some(*ty),
            Type::Array(array) => {
                arrays = true;
                let plain = matches!(array.element, Type::Scalar(_) | Type::Vector(..));
                plain && !array.dims.iter().any(|dim| matches!(dim, Dim::Expr(_) | Dim::Local(_))) && self.is_array(arg)
            }
            _ => false,
        });
        fits && !(arrays && args.iter().any(|arg| self.may_assign(arg)))
    }

    fn call(&mut self, callee: &FnRef, args: &[Expr], dst: Dest, span: Span) {
        let FnRef::Fn { id, .. } = callee else { return };
        let mut passed = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            passed.extend(match self.scalar_of(&arg.ty) {
                Some(ty) => {
                    let later = args[i + 1..].iter().any(|later| self.may_assign(later));
                    Some(Passed::Scalar(self.kept(arg, ty, later), ty))
                }
                None => self.base(arg).map(Passed::Array),
            });
        }
        let spans = args.iter().map(|arg| arg.span).collect();
        let call = self.code.calls.len() as u32;
        self.code.calls.push(Call { id: *id, args: passed, spans, at: self.at });
        self.emit(Op::Call { call, dst }, span);
    }
}
