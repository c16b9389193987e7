//! Builds the code of a body: statements, blocks and control flow. Input: typed statements. Output: a [`HostCode`].

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::value::HostValue;
use clk_base::source::Span;
use clk_check::typed::{Block, Body, Expr, ExprKind, LocalId, OnDevice, Pattern, Program, Stmt, StmtKind, Type};
use clk_check::visit;
use clk_lower::GenericArgument;
use clk_scalar::Scalar;
use clk_scalar::ops::{BinaryOp, UnaryOp};

use super::slot_variables::SlotVariables;
use super::{
    ArrayVariable, CodeMode, Dest, ElementAccess, HostCode, HostOp, LoopCounter, NodeKind, Pc, SlotIndex, TreeNode,
    ValueLoop, arithmetic,
};

/// What the builder compiles.
pub(in super::super) enum CodeSource<'a> {
    /// A function, `test` or `bench` body.
    Body(&'a Body),
    /// The statements of a script chunk, and the current values of all script variables. The value of a chunk is that
    /// of its last statement, if that statement is an expression.
    Chunk(&'a Body, &'a [Option<HostValue>]),
    /// A single expression. All its variables are in locals, none in slots.
    Expr(&'a Expr),
}

/// Builds code for the given compile-time arguments.
pub(in super::super) fn build(
    program: &Program,
    generics: &[GenericArgument],
    source: CodeSource<'_>,
    mode: CodeMode,
) -> HostCode {
    let mut builder = CodeBuilder {
        program,
        generics,
        checked: mode.checked,
        traced: mode.traced,
        code: HostCode::default(),
        next: 0,
        loop_values: 0,
        loops: Vec::new(),
        stmt_span: Span::default(),
        pending_locals: Vec::new(),
        constants: FxHashMap::default(),
        most_constants: 0,
        slot_variables: SlotVariables::default(),
    };
    match source {
        CodeSource::Body(body) => {
            builder.place_variables(body);
            builder.body(&body.root);
        }
        CodeSource::Chunk(body, globals) => {
            builder.slot_variables = SlotVariables::from_chunk(body, globals);
            builder.place_variables(body);
            builder.chunk(&body.root);
            builder.emit(HostOp::EndValue, body.root.span);
        }
        CodeSource::Expr(expr) => {
            builder.reserve_constants(|count| visit::expr(expr, count));
            builder.value(expr, Dest::Result);
            builder.emit(HostOp::EndValue, expr.span);
        }
    }
    builder.build_pending_locals();
    builder.code
}

pub(super) struct CodeBuilder<'a> {
    pub program: &'a Program,
    pub generics: &'a [GenericArgument],
    pub checked: bool,
    traced: bool,
    pub code: HostCode,
    /// The first free slot.
    pub next: SlotIndex,
    /// Number of enclosing loops of the kind [`ValueLoop`].
    loop_values: u32,
    loops: Vec<OpenLoop>,
    /// Location of the statement that is being compiled.
    pub stmt_span: Span,
    pub pending_locals: Vec<OutlinedLocal>,
    /// Maps the bits of a constant to its index in [`HostCode::constants`].
    constants: FxHashMap<u64, usize>,
    most_constants: usize,
    pub slot_variables: SlotVariables,
}

/// A loop that is being compiled: the instructions whose jump targets are only known at the end of the loop.
#[derive(Default)]
struct OpenLoop {
    breaks: Vec<usize>,
    continues: Vec<usize>,
    /// `Eval` instructions, whose operands may contain `break` or `continue`.
    nodes: Vec<usize>,
}

/// A computed local. Its code is built after the code that uses it.
pub(super) struct OutlinedLocal {
    pub number: usize,
    pub expr: Expr,
    /// The first free slot where the local is used.
    pub next: SlotIndex,
    pub loop_values: u32,
    pub stmt_span: Span,
}

impl CodeBuilder<'_> {
    pub fn emit(&mut self, op: HostOp, span: Span) -> usize {
        self.code.ops.push(op);
        self.code.spans.push(span);
        self.code.ops.len() - 1
    }

    pub fn next_pc(&self) -> Pc {
        self.code.ops.len() as Pc
    }

    /// Sets the target of a jump.
    pub fn patch(&mut self, at: usize, target: Pc) {
        match self.code.ops.get_mut(at) {
            Some(
                HostOp::Jump { to }
                | HostOp::If { to, .. }
                | HostOp::IfFast { to, .. }
                | HostOp::IfBinary { to, .. }
                | HostOp::BeginCount { exit: to, .. }
                | HostOp::NextItem { exit: to, .. },
            ) => *to = target,
            other => debug_assert!(false, "{other:?} does not jump"),
        }
    }

    pub fn patch_all(&mut self, jumps: &[usize], target: Pc) {
        jumps.iter().for_each(|&at| self.patch(at, target));
    }

    /// Reserves adjacent slots.
    pub fn temporaries(&mut self, count: u32) -> SlotIndex {
        let first = self.next;
        self.next += count;
        self.code.slots = self.code.slots.max(self.next as usize);
        first
    }

    pub fn temporary(&mut self) -> SlotIndex {
        self.temporaries(1)
    }

    /// Assigns each variable to a slot or a local.
    fn place_variables(&mut self, body: &Body) {
        let mut scalars: Vec<Option<Scalar>> = body.locals.iter().map(|(_, local)| self.scalar_of(&local.ty)).collect();
        exclude_uninitialized(&body.root, &mut scalars);
        self.code.locals = scalars.iter().rposition(Option::is_none).map_or(0, |last| last + 1);
        self.code.scalars = scalars;
        self.temporaries(body.locals.len() as u32);
        self.reserve_constants(|count| visit::exprs(&body.root, count));
    }

    /// Reserves a slot for each constant in the expressions that `visit` enumerates.
    fn reserve_constants(&mut self, visit: impl FnOnce(&mut dyn FnMut(&Expr))) {
        let mut count = 0;
        visit(&mut |expr| count += u32::from(is_constant(expr)));
        self.code.first_constant = self.temporaries(count);
        self.most_constants = count as usize;
    }

    /// Returns the slot of a constant; `None` if all reserved slots are used.
    pub fn constant_slot(&mut self, bits: u64) -> Option<SlotIndex> {
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
        Some(self.code.first_constant + at as SlotIndex)
    }

    /// Builds the body of a function.
    fn body(&mut self, root: &Block) {
        if let Some(tail) = &root.tail
            && let Some(ty) = self.scalar_of(&tail.ty)
            && self.is_native(tail)
        {
            root.stmts.iter().for_each(|stmt| self.stmt(stmt));
            self.stmt_span = tail.span;
            let src = self.scalar(tail, ty);
            self.emit(HostOp::End { src, ty }, tail.span);
            return;
        }
        self.block(root, Dest::Result);
        self.emit(HostOp::EndValue, root.span);
    }

    /// Returns the scalar type that a slot needs for values of type `ty`, after substitution of compile-time arguments.
    /// Returns `None` if a slot cannot hold them: for types that are not scalar, and for traced floats.
    pub fn scalar_of(&self, ty: &Type) -> Option<Scalar> {
        let scalar = match ty {
            Type::Scalar(scalar) => Some(*scalar),
            Type::Param(i) => match self.generics.get(*i as usize) {
                Some(GenericArgument::Type(Type::Scalar(scalar))) => Some(*scalar),
                _ => None,
            },
            _ => None,
        };
        scalar.filter(|scalar| !(self.traced && scalar.is_float()))
    }

    /// Builds the code of all pending computed locals.
    fn build_pending_locals(&mut self) {
        while let Some(waiting) = self.pending_locals.pop() {
            self.code.computed[waiting.number] = self.next_pc();
            (self.next, self.loop_values, self.stmt_span) = (waiting.next, waiting.loop_values, waiting.stmt_span);
            let expr = &waiting.expr;
            match self.scalar_of(&expr.ty).filter(|_| self.is_native(expr)) {
                Some(ty) => {
                    let src = self.scalar(expr, ty);
                    self.emit(HostOp::End { src, ty }, expr.span);
                }
                None => {
                    self.value(expr, Dest::Result);
                    self.emit(HostOp::EndValue, expr.span);
                }
            }
        }
    }

    /// Adds a tree node, and the instruction that evaluates it.
    pub fn add_node(&mut self, kind: NodeKind, dst: Dest, span: Span) {
        let node = self.code.nodes.len() as u32;
        self.code.nodes.push(TreeNode { kind, stmt_span: self.stmt_span });
        let at = self.emit(HostOp::Eval { node, dst }, span);
        if let Some(inner) = self.loops.last_mut() {
            inner.nodes.push(at);
        }
    }

    /// Builds a block and stores its value in `dst`.
    pub fn block(&mut self, block: &Block, dst: Dest) {
        block.stmts.iter().for_each(|stmt| self.stmt(stmt));
        match &block.tail {
            Some(tail) => {
                let outer = std::mem::replace(&mut self.stmt_span, tail.span);
                self.value(tail, dst);
                self.stmt_span = outer;
            }
            None => self.unit(dst, block.span),
        }
    }

    fn chunk(&mut self, block: &Block) {
        match (&block.tail, block.stmts.split_last()) {
            (None, Some((Stmt { kind: StmtKind::Expr { expr, .. }, span }, before))) => {
                before.iter().for_each(|stmt| self.stmt(stmt));
                self.stmt_span = *span;
                self.value(expr, Dest::Result);
            }
            _ => self.block(block, Dest::Result),
        }
    }

    pub fn unit(&mut self, dst: Dest, span: Span) {
        if dst != Dest::Nowhere {
            self.emit(HostOp::Unit { dst }, span);
        }
    }

    /// Builds a block whose value is a scalar.
    pub fn scalar_block(&mut self, block: &Block, ty: Scalar, dst: SlotIndex) {
        block.stmts.iter().for_each(|stmt| self.stmt(stmt));
        match &block.tail {
            Some(tail) => self.scalar_to(tail, ty, dst),
            // A block without a tail expression ends with `return`, `break` or `continue`.
            None => drop(self.emit(HostOp::Unreachable, block.span)),
        }
    }

    pub fn stmt(&mut self, stmt: &Stmt) {
        let (next, outer) = (self.next, std::mem::replace(&mut self.stmt_span, stmt.span));
        match &stmt.kind {
            StmtKind::Let { value: None, .. } => {}
            StmtKind::Let { pattern, value: Some(value), declared } => {
                let plain = declared.as_ref().is_none_or(|declared| {
                    let declared = self.scalar_of(&declared.ty);
                    declared.is_some() && declared == self.scalar_of(&value.ty)
                });
                if !(plain && self.build_plain_let(pattern, value)) {
                    let value = self.operand(value);
                    let declared = declared.as_ref().map(|declared| Box::new(self.declared(declared)));
                    self.add_node(
                        NodeKind::Let { pattern: pattern.clone(), declared, value },
                        Dest::Nowhere,
                        stmt.span,
                    );
                }
            }
            StmtKind::LocalArray { local, extents, init } => {
                let extents = extents.iter().map(|extent| self.operand(extent)).collect();
                let init = self.initializer(init);
                self.add_node(NodeKind::LocalArray { local: *local, extents, init }, Dest::Nowhere, stmt.span);
            }
            StmtKind::Assign { place, op, value } => self.assign(place, *op, value, stmt.span),
            StmtKind::Expr { expr, .. } => self.value(expr, Dest::Nowhere),
            StmtKind::For { var, iter, body, .. } => {
                self.with_slot_variables(stmt, |this| this.for_loop(*var, iter, body));
            }
            StmtKind::While { cond, body, .. } => self.with_slot_variables(stmt, |this| this.while_loop(cond, body)),
            StmtKind::Loop { body } => self.with_slot_variables(stmt, |this| this.infinite_loop(body)),
            StmtKind::Break => self.build_loop_exit(true, stmt.span),
            StmtKind::Continue => self.build_loop_exit(false, stmt.span),
            StmtKind::Return(value) => self.build_return(value.as_ref(), stmt.span),
            StmtKind::On { device, body } => {
                let device = match device {
                    OnDevice::Gpu(Some(number)) => OnDevice::Gpu(Some(Box::new(self.operand(number)))),
                    OnDevice::Sim(Some(number)) => OnDevice::Sim(Some(Box::new(self.operand(number)))),
                    other => other.clone(),
                };
                let body = self.outline_block(body);
                self.add_node(NodeKind::On { device, body }, Dest::Nowhere, stmt.span);
            }
            StmtKind::Batch { body } => {
                let body = self.outline_block(body);
                self.add_node(NodeKind::Batch { body }, Dest::Nowhere, stmt.span);
            }
            // Host code has no `shared` statements; only kernels do.
            StmtKind::Shared { .. } => drop(self.emit(HostOp::Unreachable, stmt.span)),
        }
        (self.next, self.stmt_span) = (next, outer);
    }

    /// Builds a `let` of one variable whose value needs no check against a declared type. Returns false if the
    /// statement must become a tree node.
    fn build_plain_let(&mut self, pattern: &Pattern, value: &Expr) -> bool {
        // A redefinition must be recorded for provenance; only the `Let` node does that.
        if self.traced && self.scalar_of(&value.ty).is_none() {
            return false;
        }
        match pattern {
            Pattern::Local(local) => match (self.code.scalar(*local), self.scalar_of(&value.ty)) {
                (Some(ty), Some(found)) if ty == found => self.scalar_to(value, ty, local.index() as SlotIndex),
                (None, _) => self.value(value, Dest::Local(*local)),
                _ => return false,
            },
            Pattern::Global(global) => self.value(value, Dest::Global(*global)),
            Pattern::Discard => self.value(value, Dest::Nowhere),
            Pattern::Tuple(_) => return false,
        }
        true
    }

    fn build_return(&mut self, value: Option<&Expr>, span: Span) {
        let Some(value) = value else {
            self.write_back_variables(span);
            self.unit(Dest::Result, span);
            self.emit(HostOp::ReturnValue, span);
            return;
        };
        match self.scalar_of(&value.ty).filter(|_| self.is_native(value)) {
            Some(ty) => {
                let src = self.scalar(value, ty);
                self.write_back_variables(value.span);
                self.emit(HostOp::Return { src, ty }, value.span);
            }
            None => {
                self.value(value, Dest::Result);
                self.write_back_variables(value.span);
                self.emit(HostOp::ReturnValue, value.span);
            }
        }
    }

    fn build_loop_exit(&mut self, ends: bool, span: Span) {
        if self.loops.is_empty() {
            self.emit(if ends { HostOp::Break } else { HostOp::Continue }, span);
            return;
        }
        let at = self.emit(HostOp::Jump { to: 0 }, span);
        if let Some(inner) = self.loops.last_mut() {
            if ends { &mut inner.breaks } else { &mut inner.continues }.push(at);
        }
    }

    /// Builds the body of a loop. Returns the jumps to patch with [`CodeBuilder::end_loop`].
    fn loop_body(&mut self, body: &Block) -> OpenLoop {
        self.loops.push(OpenLoop::default());
        self.block(body, Dest::Nowhere);
        self.loops.pop().unwrap_or_default()
    }

    /// Sets the jump targets of a loop's `break` and `continue`.
    fn end_loop(&mut self, inner: &OpenLoop, next: Pc, end: Pc) {
        self.patch_all(&inner.breaks, end);
        self.patch_all(&inner.continues, next);
        self.code.jumps.extend(inner.nodes.iter().map(|&at| (at as Pc, (end, next))));
    }

    fn while_loop(&mut self, cond: &Expr, body: &Block) {
        let first = self.emit(HostOp::Jump { to: 0 }, cond.span);
        let top = self.next_pc();
        self.emit(HostOp::Poll, body.span);
        let inner = self.loop_body(body);
        let next = self.next_pc();
        self.patch(first, next);
        let back = self.branch(cond, true);
        self.patch_all(&back, top);
        let end = self.next_pc();
        self.end_loop(&inner, next, end);
    }

    fn infinite_loop(&mut self, body: &Block) {
        let top = self.next_pc();
        self.emit(HostOp::Poll, body.span);
        let inner = self.loop_body(body);
        self.emit(HostOp::Jump { to: top }, body.span);
        let end = self.next_pc();
        self.end_loop(&inner, top, end);
    }

    fn for_loop(&mut self, var: LocalId, iter: &Expr, body: &Block) {
        if let Some((start, end, step, ty, inclusive)) = self.counting_range(var, iter) {
            let state = self.temporaries(3);
            match start {
                Some(start) => self.widen_to_i64(start, ty, state),
                None => drop(self.emit(HostOp::Load { dst: state, bits: 0 }, iter.span)),
            }
            self.widen_to_i64(end, ty, state + 1);
            self.emit(HostOp::Load { dst: state + 2, bits: step as u64 }, iter.span);
            let (var, count) =
                (var.index() as SlotIndex, LoopCounter { up: step > 0, inclusive, bits: ty.bits() as u8 });
            let first = self.emit(HostOp::BeginCount { state, var, count, exit: 0 }, body.span);
            let top = self.next_pc();
            let inner = self.loop_body(body);
            let next = self.next_pc();
            self.emit(HostOp::AdvanceCount { state, var, count, body: top }, body.span);
            let end = self.next_pc();
            self.patch(first, end);
            return self.end_loop(&inner, next, end);
        }
        let loop_values = self.loop_values;
        self.loop_values += 1;
        self.value(iter, Dest::LoopValue(loop_values));
        let items = self.code.loops.len() as u32;
        let state = self.temporaries(2);
        let scalar = self.range_scalar(iter);
        self.code.loops.push(ValueLoop { loop_value: loop_values, state, var, scalar });
        self.emit(HostOp::BeginItems { items }, iter.span);
        let top = self.emit(HostOp::NextItem { items, exit: 0 }, iter.span);
        self.emit(HostOp::Poll, body.span);
        let inner = self.loop_body(body);
        self.emit(HostOp::Jump { to: top as Pc }, body.span);
        let end = self.next_pc();
        self.patch(top, end);
        self.end_loop(&inner, top as Pc, end);
        self.loop_values = loop_values;
    }

    /// Returns the type of the counter of a `for` loop over a range; `i32` for other loops.
    fn range_scalar(&self, iter: &Expr) -> Scalar {
        let ExprKind::Range { start, end, .. } = &iter.kind else { return Scalar::I32 };
        let mut bounds = [start, end].into_iter().flatten();
        bounds.find_map(|bound| self.scalar_of(&bound.ty)).unwrap_or(Scalar::I32)
    }

    /// Returns start, end, step, type and inclusiveness of a range whose bounds have the integer type of the loop
    /// variable; `None` for other loops.
    fn counting_range<'e>(
        &self,
        var: LocalId,
        iter: &'e Expr,
    ) -> Option<(Option<&'e Expr>, &'e Expr, i64, Scalar, bool)> {
        let ExprKind::Range { start, end: Some(end), inclusive, step } = &iter.kind else { return None };
        let ty = self.code.scalar(var).filter(|ty| ty.is_int() && *ty != Scalar::U64)?;
        let step = step.as_deref().map_or(Some(1), integer_literal).filter(|step| *step != 0)?;
        let mut bounds = start.iter().chain(std::iter::once(end));
        let has_type = bounds.all(|bound| self.scalar_of(&bound.ty) == Some(ty));
        has_type.then_some((start.as_deref(), &**end, step, ty, *inclusive))
    }

    /// Computes an integer and widens it to `i64`.
    fn widen_to_i64(&mut self, expr: &Expr, ty: Scalar, dst: SlotIndex) {
        let a = self.scalar(expr, ty);
        match arithmetic::convert_fn(ty, Scalar::I64, false) {
            arithmetic::UnaryFn::Total(f) => self.emit(HostOp::Unary { f, dst, a }, expr.span),
            arithmetic::UnaryFn::Partial(f) => self.emit(HostOp::TryUnary { f, dst, a }, expr.span),
        };
    }

    fn assign(&mut self, place: &Expr, op: Option<BinaryOp>, value: &Expr, span: Span) {
        let value_type = self.scalar_of(&value.ty);
        let is_plain = match (op, self.scalar_of(&place.ty)) {
            (None, Some(ty)) => value_type == Some(ty),
            (Some(op), Some(ty)) => self.has_instruction(op, ty, value_type),
            _ => false,
        };
        if is_plain
            && let (Some(ty), Some(value_type)) = (self.scalar_of(&place.ty), value_type)
            && self.assign_scalar(place, ty, op, value, value_type)
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
        self.add_node(NodeKind::Assign { place, op, value }, Dest::Nowhere, span);
    }

    /// Builds an assignment of a scalar to a variable or an array element. Returns false for other lvalues.
    fn assign_scalar(&mut self, place: &Expr, ty: Scalar, op: Option<BinaryOp>, value: &Expr, found: Scalar) -> bool {
        if let Some(dst) = self.slot_of_variable(place, ty) {
            self.assign_slot(dst, ty, op, value, found, place.span);
            return true;
        }
        match &place.kind {
            ExprKind::Local(local) if self.code.scalar(*local) == Some(ty) => {
                self.assign_slot(local.index() as SlotIndex, ty, op, value, found, place.span);
                true
            }
            ExprKind::Global(id) => {
                let b = self.scalar(value, found);
                let src = self.combine_with_old(op, ty, (b, found), place.span, |this, dst| {
                    this.emit(HostOp::GetGlobal { dst, id: *id, ty }, place.span);
                });
                self.emit(HostOp::SetGlobal { src, id: *id, ty }, place.span);
                true
            }
            ExprKind::Index { .. } if self.direct_element(place).is_some() => {
                let b = self.scalar(value, found);
                let Some(element) = self.register_element(place, ty, true) else { return false };
                let src = self.combine_with_old(op, ty, (b, found), place.span, |this, dst| {
                    this.emit(HostOp::GetElement { dst, element }, place.span);
                });
                self.emit(HostOp::SetElement { src, element }, place.span);
                true
            }
            _ => false,
        }
    }

    fn assign_slot(
        &mut self,
        dst: SlotIndex,
        ty: Scalar,
        op: Option<BinaryOp>,
        value: &Expr,
        found: Scalar,
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

    /// Returns the slot of the value to assign. For a compound assignment such as `x += y`, emits the operation on the
    /// old value, which `read` loads.
    fn combine_with_old(
        &mut self,
        op: Option<BinaryOp>,
        ty: Scalar,
        operand: (SlotIndex, Scalar),
        span: Span,
        read: impl FnOnce(&mut Self, SlotIndex),
    ) -> SlotIndex {
        let Some(op) = op else { return operand.0 };
        let dst = self.temporary();
        read(self, dst);
        self.operator(op, (dst, ty), operand, dst, None, span);
        dst
    }

    /// Computes the indices of an element and registers the access; `None` if the expression is not a direct element
    /// access.
    pub fn register_element(&mut self, expr: &Expr, ty: Scalar, compound: bool) -> Option<u32> {
        let (base, indices) = self.direct_element(expr)?;
        let slots = self.scalar_slots(indices);
        let at = self.stmt_span;
        self.code.elements.push(ElementAccess {
            base,
            indices: slots,
            ty,
            expr: expr.clone(),
            compound,
            stmt_span: at,
        });
        Some(self.code.elements.len() as u32 - 1)
    }

    /// Returns the array variable and indices of an element access, if a single instruction can execute it.
    pub fn direct_element<'e>(&self, expr: &'e Expr) -> Option<(ArrayVariable, &'e [Expr])> {
        let ExprKind::Index { base, indices } = &expr.kind else { return None };
        let Type::Array(array) = &base.ty else { return None };
        self.scalar_of(&array.element)?;
        let base = self.array_variable(base)?;
        let integers = indices.iter().all(|index| self.scalar_of(&index.ty).is_some_and(Scalar::is_int));
        let no_assignments = indices.iter().all(|index| !self.may_assign(index));
        (integers && no_assignments && indices.len() == array.dims.len()).then_some((base, &indices[..]))
    }

    /// If the expression is a variable that is not in a slot, returns the variable.
    pub fn array_variable(&self, expr: &Expr) -> Option<ArrayVariable> {
        match expr.kind {
            ExprKind::Local(local) if self.code.scalar(local).is_none() => Some(ArrayVariable::Local(local)),
            ExprKind::Global(id) => Some(ArrayVariable::Global(id)),
            _ => None,
        }
    }

    pub fn outline_block(&mut self, block: &Block) -> Expr {
        self.outline_operand(&Expr { kind: ExprKind::Block(block.clone()), ty: Type::Unknown, span: block.span })
    }

    /// Schedules separate code for an expression. Returns the computed local that replaces it in the tree.
    pub fn outline_operand(&mut self, expr: &Expr) -> Expr {
        let number = self.code.computed.len();
        self.code.computed.push(0);
        let (next, held, at) = (self.next, self.loop_values, self.stmt_span);
        self.pending_locals.push(OutlinedLocal { number, expr: expr.clone(), next, loop_values: held, stmt_span: at });
        let local = LocalId::new(super::COMPUTED + number);
        Expr { kind: ExprKind::Local(local), ty: expr.ty.clone(), span: expr.span }
    }
}

fn is_constant(expr: &Expr) -> bool {
    use ExprKind::{Bool, Const, ConstParam, Float, Int};
    matches!(expr.kind, Int(_) | Float(_) | Bool(_) | Const(_) | ConstParam(_))
}

/// Returns the value of an integer literal that may have a sign; `None` for other expressions.
fn integer_literal(expr: &Expr) -> Option<i64> {
    match &expr.kind {
        ExprKind::Int(number) => i64::try_from(*number).ok(),
        ExprKind::Unary { op: UnaryOp::Neg, expr } => integer_literal(expr)?.checked_neg(),
        _ => None,
    }
}

/// Excludes variables that are declared without a value from slots, because a slot cannot detect a read before
/// initialization.
fn exclude_uninitialized(block: &Block, scalars: &mut [Option<Scalar>]) {
    let mut look = |block: &Block| {
        for stmt in &block.stmts {
            if let StmtKind::Let { pattern: Pattern::Local(local), value: None, .. } = &stmt.kind
                && let Some(scalar) = scalars.get_mut(local.index())
            {
                *scalar = None;
            }
        }
    };
    visit::blocks(block, &mut look);
}

/// Sharing of a body's code.
impl HostCode {
    pub(in super::super) fn share(mut self, body: &Arc<Body>) -> Arc<HostCode> {
        self.body = Some(body.clone());
        Arc::new(self)
    }
}
