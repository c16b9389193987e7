//! Builds the code of a body: statements, blocks and control flow. In: typed statements; out: a [`Code`].

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::base::source::Span;
use crate::check::typed::{Block, Body, Expr, ExprKind, LocalId, OnDevice, Pattern, Program, Stmt, StmtKind, Type};
use crate::check::walk;
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar::Scalar;
use crate::lower::Argument;

use super::resident::Residents;
use super::{Base, Code, Count, Dest, Element, Items, Mode, Node, NodeKind, Op, Pc, Slot, arith};

/// What code is built of.
pub(in super::super) enum Source<'a> {
    /// A body, whose variables' types are known.
    Body(&'a Body),
    /// The statements of a script, and the values of script variables: its value is that of the last one, if that is an
    /// expression.
    Chunk(&'a Body, &'a [Option<Value>]),
    /// An expression by itself: all its variables are locals.
    Expr(&'a Expr),
}

/// Builds code for these compile-time arguments.
pub(in super::super) fn build(program: &Program, generics: &[Argument], source: Source<'_>, mode: Mode) -> Code {
    let mut builder = Builder {
        program,
        generics,
        checked: mode.checked,
        traced: mode.traced,
        code: Code::default(),
        next: 0,
        held: 0,
        loops: Vec::new(),
        at: Span::default(),
        waiting: Vec::new(),
        constants: FxHashMap::default(),
        most_constants: 0,
        residents: Residents::default(),
    };
    match source {
        Source::Body(body) => {
            builder.variables(body);
            builder.body(&body.root);
        }
        Source::Chunk(body, globals) => {
            builder.residents = Residents::of_chunk(body, globals);
            builder.variables(body);
            builder.chunk(&body.root);
            builder.emit(Op::EndValue, body.root.span);
        }
        Source::Expr(expr) => {
            builder.reserve_constants(|count| walk::expr(expr, count));
            builder.value(expr, Dest::Result);
            builder.emit(Op::EndValue, expr.span);
        }
    }
    builder.operands();
    builder.code
}

pub(super) struct Builder<'a> {
    pub program: &'a Program,
    pub generics: &'a [Argument],
    pub checked: bool,
    traced: bool,
    pub code: Code,
    /// The first free slot.
    pub next: Slot,
    /// Number of values that the loops around go over.
    held: u32,
    loops: Vec<Loop>,
    /// The statement being built.
    pub at: Span,
    pub waiting: Vec<Waiting>,
    /// Positions of constants by their bits.
    constants: FxHashMap<u64, usize>,
    most_constants: usize,
    pub residents: Residents,
}

/// A loop being built: instructions whose targets are known at its end.
#[derive(Default)]
struct Loop {
    breaks: Vec<usize>,
    continues: Vec<usize>,
    /// Instructions whose operands may contain `break` or `continue`.
    around: Vec<usize>,
}

/// A computed local whose code is built behind the code that uses it.
pub(super) struct Waiting {
    pub number: usize,
    pub expr: Expr,
    /// The first slot that is free where it is used.
    pub next: Slot,
    pub held: u32,
    pub at: Span,
}

impl Builder<'_> {
    pub fn emit(&mut self, op: Op, span: Span) -> usize {
        self.code.ops.push(op);
        self.code.spans.push(span);
        self.code.ops.len() - 1
    }

    pub fn here(&self) -> Pc {
        self.code.ops.len() as Pc
    }

    /// Sets the target of a jump.
    pub fn patch(&mut self, at: usize, target: Pc) {
        match self.code.ops.get_mut(at) {
            Some(
                Op::Jump { to }
                | Op::If { to, .. }
                | Op::IfFast { to, .. }
                | Op::IfTwo { to, .. }
                | Op::Enter { exit: to, .. }
                | Op::Next { exit: to, .. },
            ) => *to = target,
            other => debug_assert!(false, "{other:?} does not jump"),
        }
    }

    pub fn patch_all(&mut self, jumps: &[usize], target: Pc) {
        jumps.iter().for_each(|&at| self.patch(at, target));
    }

    /// Reserves slots that lie side by side.
    pub fn temporaries(&mut self, count: u32) -> Slot {
        let first = self.next;
        self.next += count;
        self.code.slots = self.code.slots.max(self.next as usize);
        first
    }

    pub fn temporary(&mut self) -> Slot {
        self.temporaries(1)
    }

    /// Decides where each variable is kept.
    fn variables(&mut self, body: &Body) {
        let mut scalars: Vec<Option<Scalar>> = body.locals.iter().map(|(_, local)| self.scalar_of(&local.ty)).collect();
        unset(&body.root, &mut scalars);
        self.code.locals = scalars.iter().rposition(Option::is_none).map_or(0, |last| last + 1);
        self.code.scalars = scalars;
        self.temporaries(body.locals.len() as u32);
        self.reserve_constants(|count| walk::exprs(&body.root, count));
    }

    /// Reserves slots for as many constants as there are in the expressions that `visit` visits.
    fn reserve_constants(&mut self, visit: impl FnOnce(&mut dyn FnMut(&Expr))) {
        let mut count = 0;
        visit(&mut |expr| count += u32::from(is_constant(expr)));
        self.code.first_constant = self.temporaries(count);
        self.most_constants = count as usize;
    }

    /// Returns the slot of a constant; `None` if there is no room.
    pub fn constant_slot(&mut self, bits: u64) -> Option<Slot> {
        let constants = &mut self.code.constants;
        let at = match self.constants.get(&bits) {
            Some(at) => *at,
            None if constants.len() < self.most_constants => {
                constants.push(bits);
                self.constants.insert(bits, constants.len() - 1);
                constants.len() - 1
            }
            None => return None,
        };
        Some(self.code.first_constant + at as Slot)
    }

    /// Builds the body of a function.
    fn body(&mut self, root: &Block) {
        if let Some(tail) = &root.tail
            && let Some(ty) = self.scalar_of(&tail.ty)
            && self.is_native(tail)
        {
            root.stmts.iter().for_each(|stmt| self.stmt(stmt));
            self.at = tail.span;
            let src = self.scalar(tail, ty);
            self.emit(Op::End { src, ty }, tail.span);
            return;
        }
        self.block(root, Dest::Result);
        self.emit(Op::EndValue, root.span);
    }

    /// Returns a type with the compile-time arguments put in, if that is a scalar that slots hold. While derivatives are taken along,
    /// floats are none.
    pub fn scalar_of(&self, ty: &Type) -> Option<Scalar> {
        let scalar = match ty {
            Type::Scalar(scalar) => Some(*scalar),
            Type::Param(i) => match self.generics.get(*i as usize) {
                Some(Argument::Type(Type::Scalar(scalar))) => Some(*scalar),
                _ => None,
            },
            _ => None,
        };
        scalar.filter(|scalar| !(self.traced && scalar.is_float()))
    }

    /// Builds the computed locals.
    fn operands(&mut self) {
        while let Some(waiting) = self.waiting.pop() {
            self.code.computed[waiting.number] = self.here();
            (self.next, self.held, self.at) = (waiting.next, waiting.held, waiting.at);
            let expr = &waiting.expr;
            match self.scalar_of(&expr.ty).filter(|_| self.is_native(expr)) {
                Some(ty) => {
                    let src = self.scalar(expr, ty);
                    self.emit(Op::End { src, ty }, expr.span);
                }
                None => {
                    self.value(expr, Dest::Result);
                    self.emit(Op::EndValue, expr.span);
                }
            }
        }
    }

    /// Adds an instruction for a node.
    pub fn node(&mut self, kind: NodeKind, dst: Dest, span: Span) {
        let node = self.code.nodes.len() as u32;
        self.code.nodes.push(Node { kind, at: self.at });
        let at = self.emit(Op::Eval { node, dst }, span);
        if let Some(inner) = self.loops.last_mut() {
            inner.around.push(at);
        }
    }

    /// Builds a block whose value goes to `dst`.
    pub fn block(&mut self, block: &Block, dst: Dest) {
        block.stmts.iter().for_each(|stmt| self.stmt(stmt));
        match &block.tail {
            Some(tail) => {
                let outer = std::mem::replace(&mut self.at, tail.span);
                self.value(tail, dst);
                self.at = outer;
            }
            None => self.unit(dst, block.span),
        }
    }

    fn chunk(&mut self, block: &Block) {
        match (&block.tail, block.stmts.split_last()) {
            (None, Some((Stmt { kind: StmtKind::Expr { expr, .. }, span }, before))) => {
                before.iter().for_each(|stmt| self.stmt(stmt));
                self.at = *span;
                self.value(expr, Dest::Result);
            }
            _ => self.block(block, Dest::Result),
        }
    }

    pub fn unit(&mut self, dst: Dest, span: Span) {
        if dst != Dest::Nowhere {
            self.emit(Op::Unit { dst }, span);
        }
    }

    /// Builds a block with a scalar as its value.
    pub fn scalar_block(&mut self, block: &Block, ty: Scalar, dst: Slot) {
        block.stmts.iter().for_each(|stmt| self.stmt(stmt));
        match &block.tail {
            Some(tail) => self.scalar_to(tail, ty, dst),
            // It does not end by itself.
            None => drop(self.emit(Op::Unreachable, block.span)),
        }
    }

    pub fn stmt(&mut self, stmt: &Stmt) {
        let (next, outer) = (self.next, std::mem::replace(&mut self.at, stmt.span));
        match &stmt.kind {
            StmtKind::Let { value: None, .. } => {}
            StmtKind::Let { pattern, value: Some(value), declared } => {
                let plain = declared.as_ref().is_none_or(|declared| {
                    let declared = self.scalar_of(&declared.ty);
                    declared.is_some() && declared == self.scalar_of(&value.ty)
                });
                if !(plain && self.let_plain(pattern, value)) {
                    let value = self.operand(value);
                    let declared = declared.as_ref().map(|declared| Box::new(self.declared(declared)));
                    self.node(NodeKind::Let { pattern: pattern.clone(), declared, value }, Dest::Nowhere, stmt.span);
                }
            }
            StmtKind::LocalArray { local, extents, init } => {
                let extents = extents.iter().map(|extent| self.operand(extent)).collect();
                let init = self.initializer(init);
                self.node(NodeKind::LocalArray { local: *local, extents, init }, Dest::Nowhere, stmt.span);
            }
            StmtKind::Assign { place, op, value } => self.assign(place, *op, value, stmt.span),
            StmtKind::Expr { expr, .. } => self.value(expr, Dest::Nowhere),
            StmtKind::For { var, iter, body, .. } => {
                self.with_residents(stmt, |this| this.for_loop(*var, iter, body));
            }
            StmtKind::While { cond, body, .. } => self.with_residents(stmt, |this| this.while_loop(cond, body)),
            StmtKind::Loop { body } => self.with_residents(stmt, |this| this.endless(body)),
            StmtKind::Break => self.leave(true, stmt.span),
            StmtKind::Continue => self.leave(false, stmt.span),
            StmtKind::Return(value) => self.give(value.as_ref(), stmt.span),
            StmtKind::On { device, body } => {
                let device = match device {
                    OnDevice::Gpu(Some(number)) => OnDevice::Gpu(Some(Box::new(self.operand(number)))),
                    OnDevice::Sim(Some(number)) => OnDevice::Sim(Some(Box::new(self.operand(number)))),
                    other => other.clone(),
                };
                let body = self.computed_block(body);
                self.node(NodeKind::On { device, body }, Dest::Nowhere, stmt.span);
            }
            StmtKind::Batch { body } => {
                let body = self.computed_block(body);
                self.node(NodeKind::Batch { body }, Dest::Nowhere, stmt.span);
            }
            // Of kernels only.
            StmtKind::Shared { .. } => drop(self.emit(Op::Unreachable, stmt.span)),
        }
        (self.next, self.at) = (next, outer);
    }

    /// Builds a `let` of one variable that nothing has to be checked for.
    fn let_plain(&mut self, pattern: &Pattern, value: &Expr) -> bool {
        // Whoever asks where a number came from has to know that a variable of that name begins anew.
        if self.traced && self.scalar_of(&value.ty).is_none() {
            return false;
        }
        match pattern {
            Pattern::Local(local) => match (self.code.scalar(*local), self.scalar_of(&value.ty)) {
                (Some(ty), Some(found)) if ty == found => self.scalar_to(value, ty, local.index() as Slot),
                (None, _) => self.value(value, Dest::Local(*local)),
                _ => return false,
            },
            Pattern::Global(global) => self.value(value, Dest::Global(*global)),
            Pattern::Discard => self.value(value, Dest::Nowhere),
            Pattern::Tuple(_) => return false,
        }
        true
    }

    fn give(&mut self, value: Option<&Expr>, span: Span) {
        let Some(value) = value else {
            self.dismiss(span);
            self.unit(Dest::Result, span);
            self.emit(Op::ReturnValue, span);
            return;
        };
        match self.scalar_of(&value.ty).filter(|_| self.is_native(value)) {
            Some(ty) => {
                let src = self.scalar(value, ty);
                self.dismiss(value.span);
                self.emit(Op::Return { src, ty }, value.span);
            }
            None => {
                self.value(value, Dest::Result);
                self.dismiss(value.span);
                self.emit(Op::ReturnValue, value.span);
            }
        }
    }

    fn leave(&mut self, ends: bool, span: Span) {
        if self.loops.is_empty() {
            self.emit(if ends { Op::Break } else { Op::Continue }, span);
            return;
        }
        let at = self.emit(Op::Jump { to: 0 }, span);
        if let Some(inner) = self.loops.last_mut() {
            if ends { &mut inner.breaks } else { &mut inner.continues }.push(at);
        }
    }

    /// Builds the body of a loop. Returns what is to be patched: see [`Builder::end_loop`].
    fn loop_body(&mut self, body: &Block) -> Loop {
        self.loops.push(Loop::default());
        self.block(body, Dest::Nowhere);
        self.loops.pop().unwrap_or_default()
    }

    /// Sets where `break` and `continue` of a loop lead.
    fn end_loop(&mut self, inner: &Loop, next: Pc, end: Pc) {
        self.patch_all(&inner.breaks, end);
        self.patch_all(&inner.continues, next);
        self.code.jumps.extend(inner.around.iter().map(|&at| (at as Pc, (end, next))));
    }

    fn while_loop(&mut self, cond: &Expr, body: &Block) {
        let first = self.emit(Op::Jump { to: 0 }, cond.span);
        let top = self.here();
        self.emit(Op::Poll, body.span);
        let inner = self.loop_body(body);
        let next = self.here();
        self.patch(first, next);
        let back = self.branch(cond, true);
        self.patch_all(&back, top);
        let end = self.here();
        self.end_loop(&inner, next, end);
    }

    fn endless(&mut self, body: &Block) {
        let top = self.here();
        self.emit(Op::Poll, body.span);
        let inner = self.loop_body(body);
        self.emit(Op::Jump { to: top }, body.span);
        let end = self.here();
        self.end_loop(&inner, top, end);
    }

    fn for_loop(&mut self, var: LocalId, iter: &Expr, body: &Block) {
        if let Some((start, end, step, ty, inclusive)) = self.counted(var, iter) {
            let state = self.temporaries(3);
            match start {
                Some(start) => self.wide(start, ty, state),
                None => drop(self.emit(Op::Load { dst: state, bits: 0 }, iter.span)),
            }
            self.wide(end, ty, state + 1);
            self.emit(Op::Load { dst: state + 2, bits: step as u64 }, iter.span);
            let (var, count) = (var.index() as Slot, Count { up: step > 0, inclusive, bits: ty.bits() as u8 });
            let first = self.emit(Op::Enter { state, var, count, exit: 0 }, body.span);
            let top = self.here();
            let inner = self.loop_body(body);
            let next = self.here();
            self.emit(Op::Again { state, var, count, body: top }, body.span);
            let end = self.here();
            self.patch(first, end);
            return self.end_loop(&inner, next, end);
        }
        let held = self.held;
        self.held += 1;
        self.value(iter, Dest::Held(held));
        let items = self.code.loops.len() as u32;
        let state = self.temporaries(2);
        let scalar = self.range_scalar(iter);
        self.code.loops.push(Items { held, state, var, scalar });
        self.emit(Op::Begin { items }, iter.span);
        let top = self.emit(Op::Next { items, exit: 0 }, iter.span);
        self.emit(Op::Poll, body.span);
        let inner = self.loop_body(body);
        self.emit(Op::Jump { to: top as Pc }, body.span);
        let end = self.here();
        self.patch(top, end);
        self.end_loop(&inner, top as Pc, end);
        self.held = held;
    }

    /// Returns the type in which a `for` over a range counts.
    fn range_scalar(&self, iter: &Expr) -> Scalar {
        let ExprKind::Range { start, end, .. } = &iter.kind else { return Scalar::I32 };
        let mut bounds = [start, end].into_iter().flatten();
        bounds.find_map(|bound| self.scalar_of(&bound.ty)).unwrap_or(Scalar::I32)
    }

    /// Returns start, end, step and type of a loop whose counter surely has the variable's type and fits it.
    fn counted<'e>(&self, var: LocalId, iter: &'e Expr) -> Option<(Option<&'e Expr>, &'e Expr, i64, Scalar, bool)> {
        let ExprKind::Range { start, end: Some(end), inclusive, step } = &iter.kind else { return None };
        let ty = self.code.scalar(var).filter(|ty| ty.is_int() && *ty != Scalar::U64)?;
        let step = step.as_deref().map_or(Some(1), constant).filter(|step| *step != 0)?;
        let mut bounds = start.iter().chain(std::iter::once(end));
        let known = bounds.all(|bound| self.scalar_of(&bound.ty) == Some(ty));
        known.then_some((start.as_deref(), &**end, step, ty, *inclusive))
    }

    /// Computes an integer as an `i64`.
    fn wide(&mut self, expr: &Expr, ty: Scalar, dst: Slot) {
        let a = self.scalar(expr, ty);
        match arith::convert(ty, Scalar::I64, false) {
            arith::One::Total(f) => self.emit(Op::One { f, dst, a }, expr.span),
            arith::One::Partial(f) => self.emit(Op::TryOne { f, dst, a }, expr.span),
        };
    }

    fn assign(&mut self, place: &Expr, op: Option<BinaryOp>, value: &Expr, span: Span) {
        let found = self.scalar_of(&value.ty);
        let is_plain = match (op, self.scalar_of(&place.ty)) {
            (None, Some(ty)) => found == Some(ty),
            (Some(op), Some(ty)) => self.has_instruction(op, ty, found),
            _ => false,
        };
        if is_plain
            && let (Some(ty), Some(found)) = (self.scalar_of(&place.ty), found)
            && self.assign_scalar(place, ty, op, value, found)
        {
            return;
        }
        if let (None, ExprKind::Local(local)) = (op, &place.kind)
            && self.code.scalar(*local).is_none()
            && matches!(place.ty, Type::Unknown)
        {
            return self.value(value, Dest::Local(*local));
        }
        let value = self.operand(value);
        let place = self.place(place);
        self.node(NodeKind::Assign { place, op, value }, Dest::Nowhere, span);
    }

    /// Builds an assignment of a scalar to a variable or an element; false if the place is neither.
    fn assign_scalar(&mut self, place: &Expr, ty: Scalar, op: Option<BinaryOp>, value: &Expr, found: Scalar) -> bool {
        if let Some(dst) = self.resident(place, ty) {
            self.assign_slot((dst, ty), op, (value, found), place.span);
            return true;
        }
        match &place.kind {
            ExprKind::Local(local) if self.code.scalar(*local) == Some(ty) => {
                self.assign_slot((local.index() as Slot, ty), op, (value, found), place.span);
                true
            }
            ExprKind::Global(id) => {
                let b = self.scalar(value, found);
                let src = self.updated(op, ty, (b, found), place.span, |this, dst| {
                    this.emit(Op::GetGlobal { dst, id: *id, ty }, place.span);
                });
                self.emit(Op::SetGlobal { src, id: *id, ty }, place.span);
                true
            }
            ExprKind::Index { .. } if self.element_of(place).is_some() => {
                let b = self.scalar(value, found);
                let Some(element) = self.element(place, ty, true) else { return false };
                let src = self.updated(op, ty, (b, found), place.span, |this, dst| {
                    this.emit(Op::GetElement { dst, element }, place.span);
                });
                self.emit(Op::SetElement { src, element }, place.span);
                true
            }
            _ => false,
        }
    }

    fn assign_slot(
        &mut self,
        (dst, ty): (Slot, Scalar),
        op: Option<BinaryOp>,
        (value, found): (&Expr, Scalar),
        span: Span,
    ) {
        match op {
            None => self.scalar_to(value, ty, dst),
            Some(op) => {
                let b = self.scalar(value, found);
                self.operator(op, (dst, ty), (b, found), dst, None, span);
            }
        }
    }

    /// Returns the slot of the value to be assigned: as given, or combined with the old one.
    fn updated(
        &mut self,
        op: Option<BinaryOp>,
        ty: Scalar,
        given: (Slot, Scalar),
        span: Span,
        read: impl FnOnce(&mut Self, Slot),
    ) -> Slot {
        let Some(op) = op else { return given.0 };
        let dst = self.temporary();
        read(self, dst);
        self.operator(op, (dst, ty), given, dst, None, span);
        dst
    }

    /// Registers an element of an array whose indices are computed into slots; `None` if the expression is not one.
    pub fn element(&mut self, expr: &Expr, ty: Scalar, compound: bool) -> Option<u32> {
        let (base, indices) = self.element_of(expr)?;
        let slots = self.slots(indices);
        let at = self.at;
        self.code.elements.push(Element { base, indices: slots, ty, expr: expr.clone(), compound, at });
        Some(self.code.elements.len() as u32 - 1)
    }

    /// Returns the variable and the indices of an element that has an instruction.
    pub fn element_of<'e>(&self, expr: &'e Expr) -> Option<(Base, &'e [Expr])> {
        let ExprKind::Index { base, indices } = &expr.kind else { return None };
        let Type::Array(array) = &base.ty else { return None };
        self.scalar_of(&array.element)?;
        let base = self.base(base)?;
        let integers = indices.iter().all(|index| self.scalar_of(&index.ty).is_some_and(Scalar::is_int));
        let settled = indices.iter().all(|index| !self.may_assign(index));
        (integers && settled && indices.len() == array.dims.len()).then_some((base, &indices[..]))
    }

    /// Returns the variable that an expression names, if it is kept as a value.
    pub fn base(&self, expr: &Expr) -> Option<Base> {
        match expr.kind {
            ExprKind::Local(local) if self.code.scalar(local).is_none() => Some(Base::Local(local)),
            ExprKind::Global(id) => Some(Base::Global(id)),
            _ => None,
        }
    }

    pub fn computed_block(&mut self, block: &Block) -> Expr {
        self.computed(&Expr { kind: ExprKind::Block(block.clone()), ty: Type::Unknown, span: block.span })
    }

    /// Makes an expression a computed local.
    pub fn computed(&mut self, expr: &Expr) -> Expr {
        let number = self.code.computed.len();
        self.code.computed.push(0);
        let (next, held, at) = (self.next, self.held, self.at);
        self.waiting.push(Waiting { number, expr: expr.clone(), next, held, at });
        let local = LocalId::new(super::COMPUTED + number);
        Expr { kind: ExprKind::Local(local), ty: expr.ty.clone(), span: expr.span }
    }
}

fn is_constant(expr: &Expr) -> bool {
    use ExprKind::{Bool, Const, ConstParam, Float, Int};
    matches!(expr.kind, Int(_) | Float(_) | Bool(_) | Const(_) | ConstParam(_))
}

/// Returns the value of an integer literal, which may have a sign.
fn constant(expr: &Expr) -> Option<i64> {
    match &expr.kind {
        ExprKind::Int(number) => i64::try_from(*number).ok(),
        ExprKind::Unary { op: UnaryOp::Neg, expr } => constant(expr)?.checked_neg(),
        _ => None,
    }
}

/// Removes the variables that are declared without a value, since their absence has to be noticed.
fn unset(block: &Block, scalars: &mut [Option<Scalar>]) {
    let mut look = |block: &Block| {
        for stmt in &block.stmts {
            if let StmtKind::Let { pattern: Pattern::Local(local), value: None, .. } = &stmt.kind
                && let Some(scalar) = scalars.get_mut(local.index())
            {
                *scalar = None;
            }
        }
    };
    blocks(block, &mut look);
}

/// Visits a block and all blocks in it.
fn blocks(block: &Block, visit: &mut dyn FnMut(&Block)) {
    visit(block);
    for stmt in &block.stmts {
        match &stmt.kind {
            StmtKind::For { body, .. } | StmtKind::While { body, .. } => blocks(body, visit),
            StmtKind::Loop { body } | StmtKind::Batch { body } | StmtKind::On { body, .. } => blocks(body, visit),
            _ => {}
        }
    }
    walk::exprs(block, &mut |expr| match &expr.kind {
        ExprKind::If { then, other, .. } => {
            inner_blocks(then, visit);
            if let Some(other) = other {
                inner_blocks(other, visit);
            }
        }
        ExprKind::Block(block) | ExprKind::Time(block) => inner_blocks(block, visit),
        _ => {}
    });
}

/// Visits a block and the loops in it; blocks of expressions are visited by [`blocks`].
fn inner_blocks(block: &Block, visit: &mut dyn FnMut(&Block)) {
    visit(block);
    for stmt in &block.stmts {
        match &stmt.kind {
            StmtKind::For { body, .. } | StmtKind::While { body, .. } => inner_blocks(body, visit),
            StmtKind::Loop { body } | StmtKind::Batch { body } | StmtKind::On { body, .. } => inner_blocks(body, visit),
            _ => {}
        }
    }
}

/// Shares the code of a body.
impl Code {
    pub(in super::super) fn of(mut self, body: &Arc<Body>) -> Arc<Code> {
        self.body = Some(body.clone());
        Arc::new(self)
    }
}
