//! Builds the code of expressions: scalars in slots, other values with nodes.

use clk_base::source::Span;
use clk_check::literal::NumberLiteral;
use clk_check::typed::{Access, Block, Dim, Expr, ExprKind, FnRef, SmolStr, Type};
use clk_check::visit;
use clk_lower::GenericArgument;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};
use clk_scalar::{Scalar, ScalarValue, dynamic};

use super::build::CodeBuilder;
use super::{CallOperand, Dest, HostOp, NodeKind, Pc, ScalarCall, SlotIndex, SlowPathOp, arithmetic};

/// A scalar in a slot.
type TypedSlot = (SlotIndex, Scalar);

impl CodeBuilder<'_> {
    /// Returns whether a scalar expression compiles to scalar instructions rather than a node.
    pub fn is_native(&self, expr: &Expr) -> bool {
        let Some(ty) = self.scalar_of(&expr.ty) else { return false };
        match &expr.kind {
            ExprKind::Int(_)
            | ExprKind::Float(_)
            | ExprKind::Bool(_)
            | ExprKind::Const(_)
            | ExprKind::ConstParam(_) => self.constant_bits(expr, ty).is_some(),
            ExprKind::Local(_) | ExprKind::Global(_) | ExprKind::If { .. } | ExprKind::Block(_) => true,
            ExprKind::Dim(_) => ty == Scalar::I32,
            ExprKind::Unary { op, expr: inner } => {
                self.scalar_of(&inner.ty) == Some(ty) && arithmetic::unary_fn(*op, ty, self.checked).is_some()
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
            ExprKind::Index { .. } => self.direct_element(expr).is_some(),
            ExprKind::Call { callee, args } => self.is_scalar_call(callee, args),
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
                let zeros = [ScalarValue::zero(of); 3];
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
        matches!(expr.ty, Type::Array(_)) && self.array_variable(expr).is_some()
    }

    /// Returns whether an operator on scalars has an instruction.
    pub fn has_instruction(&self, op: BinaryOp, left: Scalar, right: Option<Scalar>) -> bool {
        let Some(right) = right else { return false };
        let is_supported = match op {
            // The instruction truncates the shift amount to `u32`, but a check needs all bits of a wider amount.
            BinaryOp::Shl | BinaryOp::Shr if self.checked => matches!(right, Scalar::I32 | Scalar::U32),
            BinaryOp::Shl | BinaryOp::Shr => right.is_int(),
            _ => left == right,
        };
        is_supported && arithmetic::binary_fn(op, left, self.checked).is_some()
    }

    /// Returns the bits of an expression that is a constant of type `ty`; `None` for other expressions.
    fn constant_bits(&self, expr: &Expr, ty: Scalar) -> Option<u64> {
        let number = match &expr.kind {
            ExprKind::Int(number) => NumberLiteral::Int(*number).to(ty)?,
            ExprKind::Float(number) => NumberLiteral::Float(*number).to(ty)?,
            ExprKind::Bool(value) => ScalarValue::of(*value),
            ExprKind::Const(id) => {
                let value = &self.program.consts.get(*id)?.value;
                let literal = matches!(value.kind, ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_));
                return if literal && value.ty == Type::Scalar(ty) { self.constant_bits(value, ty) } else { None };
            }
            ExprKind::ConstParam(i) => match self.generics.get(*i as usize)? {
                GenericArgument::Const(value) => *value,
                _ => return None,
            },
            _ => return None,
        };
        (number.ty == ty).then_some(number.bits)
    }

    /// Returns whether evaluating an expression may assign to a variable.
    pub fn may_assign(&self, expr: &Expr) -> bool {
        let mut assigns = false;
        visit::expr(expr, &mut |e| {
            assigns |= match &e.kind {
                ExprKind::Block(block) | ExprKind::Time(block) => !block.stmts.is_empty(),
                ExprKind::If { then, other, .. } => {
                    let has_stmts = |block: &Block| !block.stmts.is_empty();
                    has_stmts(then) || other.as_deref().is_some_and(has_stmts)
                }
                ExprKind::Call { callee: FnRef::Fn { id, .. }, .. } => {
                    self.program.fns[*id].sig.params.iter().any(|param| param.access != Access::In)
                }
                ExprKind::Launch(_) => true,
                _ => false,
            }
        });
        assigns
    }

    /// Computes scalars, which may have different types. The slot of each is that of its variable, or a new one.
    pub fn scalar_slots(&mut self, exprs: &[Expr]) -> Vec<TypedSlot> {
        let mut slots = Vec::with_capacity(exprs.len());
        for (i, expr) in exprs.iter().enumerate() {
            let Some(ty) = self.scalar_of(&expr.ty) else { continue };
            let later = exprs[i + 1..].iter().any(|later| self.may_assign(later));
            slots.push((self.stable_scalar(expr, ty, later), ty));
        }
        slots
    }

    /// Computes a scalar and returns its slot. `later` is whether a later operand may assign to variables; the value of
    /// a variable is then copied to a temporary.
    fn stable_scalar(&mut self, expr: &Expr, ty: Scalar, later: bool) -> SlotIndex {
        let slot = self.scalar(expr, ty);
        if !later || !matches!(expr.kind, ExprKind::Local(_) | ExprKind::Global(_)) {
            return slot;
        }
        let dst = self.temporary();
        self.emit(HostOp::Move { dst, src: slot }, expr.span);
        dst
    }

    /// Computes a scalar and returns its slot. A variable's own slot is used directly.
    pub fn scalar(&mut self, expr: &Expr, ty: Scalar) -> SlotIndex {
        if let ExprKind::Local(local) = expr.kind
            && self.code.scalar(local) == Some(ty)
        {
            return local.index() as SlotIndex;
        }
        if let Some(slot) = self.slot_of_variable(expr, ty) {
            return slot;
        }
        if let Some(bits) = self.constant_bits(expr, ty)
            && let Some(slot) = self.constant_slot(bits)
        {
            return slot;
        }
        let dst = self.temporary();
        self.scalar_to(expr, ty, dst);
        dst
    }

    /// Computes a scalar into a slot.
    pub fn scalar_to(&mut self, expr: &Expr, ty: Scalar, dst: SlotIndex) {
        let span = expr.span;
        match &expr.kind {
            ExprKind::If { cond, then, other: Some(other) } => {
                let no = self.branch(cond, false);
                self.scalar_block(then, ty, dst);
                let end = self.emit(HostOp::Jump { to: 0 }, span);
                let target = self.next_pc();
                self.patch_all(&no, target);
                self.scalar_block(other, ty, dst);
                let target = self.next_pc();
                self.patch(end, target);
            }
            ExprKind::Block(block) => self.scalar_block(block, ty, dst),
            _ if self.scalar_of(&expr.ty) != Some(ty) || !self.is_native(expr) => {
                self.add_expr_node(expr, Dest::Slot(dst, ty));
            }
            _ => self.native(expr, ty, dst),
        }
    }

    fn native(&mut self, expr: &Expr, ty: Scalar, dst: SlotIndex) {
        let span = expr.span;
        if let Some(bits) = self.constant_bits(expr, ty) {
            self.emit(HostOp::Load { dst, bits }, span);
            return;
        }
        match &expr.kind {
            ExprKind::Local(local) => {
                let (local, src) = (*local, local.index() as SlotIndex);
                let op = match self.code.scalar(local) {
                    Some(_) if src == dst => return,
                    Some(_) => HostOp::Move { dst, src },
                    None => HostOp::GetLocal { dst, local, ty },
                };
                self.emit(op, span);
            }
            ExprKind::Global(id) => match self.slot_of_variable(expr, ty) {
                Some(src) if src == dst => {}
                Some(src) => drop(self.emit(HostOp::Move { dst, src }, span)),
                None => drop(self.emit(HostOp::GetGlobal { dst, id: *id, ty }, span)),
            },
            ExprKind::Dim(index) => drop(self.emit(HostOp::Dim { dst, index: *index }, span)),
            ExprKind::Unary { op, expr: inner } => {
                let a = self.scalar(inner, ty);
                if let Some(function) = arithmetic::unary_fn(*op, ty, self.checked) {
                    self.emit_unary(function, a, dst, SlowPathOp::Unary(*op, (a, ty)), span);
                }
            }
            ExprKind::Binary { op, left, right } if op.is_logical() => self.logical(*op, left, right, dst),
            ExprKind::Binary { op, left, right } => {
                let both = [&**left, right].map(|side| self.scalar_of(&side.ty));
                if let [Some(l), Some(r)] = both {
                    let later = self.may_assign(right);
                    let a = self.stable_scalar(left, l, later);
                    let b = self.scalar(right, r);
                    self.operator(*op, (a, l), (b, r), dst, Some((left.span, right.span)), span);
                }
            }
            ExprKind::Convert { expr: inner, .. } | ExprKind::ConvertParam { expr: inner, .. } => {
                if let Some(from) = self.scalar_of(&inner.ty) {
                    let a = self.scalar(inner, from);
                    let function = arithmetic::convert_fn(from, ty, self.checked);
                    self.emit_unary(function, a, dst, SlowPathOp::Convert(ty, (a, from)), span);
                }
            }
            ExprKind::Bitcast { expr: inner } => {
                if let Some(from) = self.scalar_of(&inner.ty) {
                    let src = self.scalar(inner, from);
                    self.emit(HostOp::Move { dst, src }, span);
                }
            }
            ExprKind::Index { .. } => {
                if let Some(element) = self.register_element(expr, ty, false) {
                    self.emit(HostOp::GetElement { dst, element }, span);
                }
            }
            ExprKind::Call { callee, args } => self.call(callee, args, Dest::Slot(dst, ty), span),
            ExprKind::Builtin { builtin, args, .. } => self.builtin(*builtin, args, dst, span),
            _ => debug_assert!(false, "{:?} has no instructions", expr.kind),
        }
    }

    fn builtin(&mut self, builtin: Builtin, args: &[Expr], dst: SlotIndex, span: Span) {
        match (builtin, args) {
            (Builtin::Math(function), [first, ..]) => {
                let Some(ty) = self.scalar_of(&first.ty) else { return };
                let place = self.temporaries(args.len() as u32);
                for (i, arg) in args.iter().enumerate() {
                    self.scalar_to(arg, ty, place + i as SlotIndex);
                }
                self.emit(HostOp::Math { function, ty, count: args.len() as u8, dst, args: place }, span);
            }
            (Builtin::Select, args) => {
                if let [(cond, _), (then, _), (other, _)] = self.scalar_slots(args)[..] {
                    self.emit(HostOp::Select { dst, cond, then, other }, span);
                }
            }
            (_, [array, axis @ ..]) => {
                let axis = match axis.first().map(|axis| &axis.kind) {
                    Some(ExprKind::Int(axis)) => *axis as u8,
                    _ => 0,
                };
                if let Some(base) = self.array_variable(array) {
                    self.emit(HostOp::Extent { dst, base, axis }, span);
                }
            }
            _ => {}
        }
    }

    fn emit_unary(
        &mut self,
        function: arithmetic::UnaryFn,
        a: SlotIndex,
        dst: SlotIndex,
        fault: SlowPathOp,
        span: Span,
    ) {
        match function {
            arithmetic::UnaryFn::Total(f) => drop(self.emit(HostOp::Unary { f, dst, a }, span)),
            arithmetic::UnaryFn::Partial(f) => {
                let at = self.emit(HostOp::TryUnary { f, dst, a }, span);
                self.code.slow_paths.insert(at as Pc, fault);
            }
        }
    }

    /// Adds the instruction of an operator.
    pub fn operator(
        &mut self,
        op: BinaryOp,
        left: TypedSlot,
        right: TypedSlot,
        dst: SlotIndex,
        places: Option<(Span, Span)>,
        span: Span,
    ) {
        let (a, ty) = left;
        let mut b = right.0;
        if let Some(what) = arithmetic::fast_op(op, ty, self.checked) {
            self.emit(HostOp::Fast { op: what, dst, a, b }, span);
            return;
        }
        if matches!(op, BinaryOp::Shl | BinaryOp::Shr)
            && !matches!(right.1, Scalar::I32 | Scalar::U32)
            && let arithmetic::UnaryFn::Total(f) = arithmetic::convert_fn(right.1, Scalar::U32, false)
        {
            let amount = self.temporary();
            self.emit(HostOp::Unary { f, dst: amount, a: b }, span);
            b = amount;
        }
        match arithmetic::binary_fn(op, ty, self.checked) {
            Some(arithmetic::BinaryFn::Total(f)) => drop(self.emit(HostOp::Binary { f, dst, a, b }, span)),
            Some(arithmetic::BinaryFn::Partial(f)) => {
                let at = self.emit(HostOp::TryBinary { f, dst, a, b }, span);
                self.code.slow_paths.insert(at as Pc, SlowPathOp::Binary(op, left, right, places));
            }
            None => debug_assert!(false, "{op:?} of {ty} has no instruction"),
        }
    }

    fn logical(&mut self, op: BinaryOp, left: &Expr, right: &Expr, dst: SlotIndex) {
        let decided = op == BinaryOp::Or;
        let jumps = self.branch(left, decided);
        let src = self.condition(right);
        self.emit(HostOp::Move { dst, src }, right.span);
        let end = self.emit(HostOp::Jump { to: 0 }, right.span);
        let target = self.next_pc();
        self.patch_all(&jumps, target);
        self.emit(HostOp::Load { dst, bits: decided.into() }, left.span);
        let target = self.next_pc();
        self.patch(end, target);
    }

    /// Computes a condition, which may have a type that is known only at run time. Returns its slot.
    fn condition(&mut self, cond: &Expr) -> SlotIndex {
        if self.scalar_of(&cond.ty) == Some(Scalar::Bool) {
            return self.scalar(cond, Scalar::Bool);
        }
        let dst = self.temporary();
        self.value(cond, Dest::Condition(dst));
        dst
    }

    /// Builds jumps that are taken if a condition equals `when`. Returns the indices of the jump instructions, whose
    /// targets the caller sets.
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
                let a = self.stable_scalar(left, l, later);
                let b = self.scalar(right, r);
                return vec![self.compare(*op, l, a, b, when, cond.span)];
            }
        }
        let cond_slot = self.condition(cond);
        vec![self.emit(HostOp::If { cond: cond_slot, when, to: 0 }, cond.span)]
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
        let target = self.next_pc();
        self.patch_all(&past, target);
        jumps
    }

    fn compare(&mut self, op: BinaryOp, ty: Scalar, a: SlotIndex, b: SlotIndex, when: bool, span: Span) -> usize {
        if let Some((test, exchanged, holds)) = arithmetic::fast_test(op, ty) {
            let (a, b) = if exchanged { (b, a) } else { (a, b) };
            return self.emit(HostOp::IfFast { test, when: when == holds, a, b, to: 0 }, span);
        }
        match arithmetic::binary_fn(op, ty, self.checked) {
            Some(arithmetic::BinaryFn::Total(f)) => self.emit(HostOp::IfBinary { f, when, a, b, to: 0 }, span),
            _ => self.emit(HostOp::Unreachable, span),
        }
    }

    /// Computes a value of any type and stores it in `dst`.
    pub fn value(&mut self, expr: &Expr, dst: Dest) {
        match &expr.kind {
            ExprKind::If { cond, then, other } => {
                let no = self.branch(cond, false);
                self.block(then, dst);
                let is_done = other.is_none() && dst == Dest::Nowhere;
                let end = (!is_done).then(|| self.emit(HostOp::Jump { to: 0 }, expr.span));
                let target = self.next_pc();
                self.patch_all(&no, target);
                match other {
                    Some(other) => self.block(other, dst),
                    None => self.unit(dst, expr.span),
                }
                let target = self.next_pc();
                end.into_iter().for_each(|end| self.patch(end, target));
            }
            ExprKind::Block(block) => self.block(block, dst),
            ExprKind::Call { callee, args }
                if self.scalar_of(&expr.ty).is_none() && self.is_scalar_call(callee, args) =>
            {
                self.call(callee, args, dst, expr.span);
            }
            _ => match self.scalar_of(&expr.ty).filter(|_| self.is_native(expr)) {
                Some(ty) => {
                    let src = self.scalar(expr, ty);
                    if dst != Dest::Nowhere {
                        self.emit(HostOp::StoreScalar { src, ty, dst }, expr.span);
                    }
                }
                None => self.add_expr_node(expr, dst),
            },
        }
    }

    /// Adds a tree node that evaluates an expression.
    fn add_expr_node(&mut self, expr: &Expr, dst: Dest) {
        let shaped = self.shaped(expr);
        self.add_node(NodeKind::Expr(shaped), dst, expr.span);
    }

    /// Returns whether a call compiles to one instruction. The function must have no compile-time parameters, and all
    /// arguments must be scalars or array variables.
    fn is_scalar_call(&self, callee: &FnRef, args: &[Expr]) -> bool {
        let FnRef::Fn { id, generics } = callee else { return false };
        let sig = &self.program.fns[*id].sig;
        if !generics.is_empty() || !sig.generics.is_empty() || sig.params.len() != args.len() {
            return false;
        }
        let mut arrays = false;
        let is_supported = sig.params.iter().zip(args).all(|(param, arg)| match &param.ty {
            _ if param.access != Access::In => false,
            Type::Scalar(ty) => self.scalar_of(&arg.ty) == Some(*ty),
            Type::Array(array) => {
                arrays = true;
                let plain = matches!(array.element, Type::Scalar(_) | Type::Vector(..));
                plain && !array.dims.iter().any(|dim| matches!(dim, Dim::Expr(_) | Dim::Local(_))) && self.is_array(arg)
            }
            _ => false,
        });
        is_supported && !(arrays && args.iter().any(|arg| self.may_assign(arg)))
    }

    fn call(&mut self, callee: &FnRef, args: &[Expr], dst: Dest, span: Span) {
        let FnRef::Fn { id, .. } = callee else { return };
        let mut operands = Vec::with_capacity(args.len());
        for (i, arg) in args.iter().enumerate() {
            operands.extend(match self.scalar_of(&arg.ty) {
                Some(ty) => {
                    let later = args[i + 1..].iter().any(|later| self.may_assign(later));
                    Some(CallOperand::Scalar(self.stable_scalar(arg, ty, later), ty))
                }
                None => self.array_variable(arg).map(CallOperand::Array),
            });
        }
        let spans = args.iter().map(|arg| arg.span).collect();
        let call = self.code.calls.len() as u32;
        self.code.calls.push(ScalarCall { id: *id, args: operands, spans, stmt_span: self.stmt_span });
        self.emit(HostOp::Call { call, dst }, span);
    }
}
