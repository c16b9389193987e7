//! The IR emitter for one function. In addition to what [`FunctionBuilder`] does, it sets the span of each node, drops
//! unreachable statements after a `break`, `continue` or `return`, and replaces an extract from a composed vector by
//! the component.

use super::tile_stmt::TileRegion;
use clk_base::source::Span;
use clk_ir::build::FunctionBuilder;
use clk_ir::def::*;
use clk_scalar::ScalarValue;
use clk_scalar::ops::BarrierKind;

pub(crate) struct ExprEmitter {
    builder: FunctionBuilder,
    /// For each open block, whether its end is unreachable.
    done: Vec<bool>,
}

impl ExprEmitter {
    pub fn new(name: impl Into<String>, span: Span) -> Self {
        let mut builder = FunctionBuilder::new(name);
        builder.function_span(span);
        builder.set_span(span);
        ExprEmitter { builder, done: vec![false] }
    }

    /// Returns the builder, which assigns this span to new nodes.
    pub fn at(&mut self, span: Span) -> &mut FunctionBuilder {
        self.builder.set_span(span);
        &mut self.builder
    }

    /// Returns the function so far, without its statements.
    pub fn function(&self) -> &Function {
        self.builder.function()
    }

    /// Returns whether the last statement of the open IR block is a barrier of the thread block.
    pub fn ends_with_barrier(&self) -> bool {
        ends_with_barrier(self.builder.open_block()).unwrap_or(false)
    }

    /// Returns the number of statements of the open block.
    pub fn open_len(&self) -> usize {
        self.builder.open_block().len()
    }

    /// Replaces the statements of the open block from the position `start` on by a region with this label.
    pub fn wrap_open(&mut self, start: usize, label: Label, span: Span) {
        if let Some(block) = self.builder.open_block_mut() {
            let body = block.split_off(start);
            block.push(Stmt { kind: StmtKind::Block { label, body }, span });
        }
    }

    pub fn into_builder(self) -> FunctionBuilder {
        self.builder
    }

    /// Adds an expression that is evaluated at this point.
    pub fn value(&mut self, kind: ExprKind, ty: Ty, span: Span) -> ExprId {
        if kind.is_free() {
            return self.at(span).free(kind, ty);
        }
        let id = self.at(span).expr_without_let(kind, ty);
        self.stmt(StmtKind::Let(id), span);
        id
    }

    /// Creates the result expression of a statement that produces a value (an atomic, a call, …).
    pub fn result(&mut self, ty: Ty, span: Span) -> ExprId {
        self.at(span).expr_without_let(ExprKind::Result, ty)
    }

    pub fn constant(&mut self, value: ScalarValue, span: Span) -> ExprId {
        self.at(span).constant(value)
    }

    pub fn i32(&mut self, value: i32, span: Span) -> ExprId {
        self.at(span).i32(value)
    }

    pub fn bool(&mut self, value: bool, span: Span) -> ExprId {
        self.at(span).bool(value)
    }

    /// Returns an all-zero constant of the type.
    pub fn zero(&mut self, ty: Ty, span: Span) -> ExprId {
        let zero = self.constant(ScalarValue { ty: ty.scalar(), bits: 0 }, span);
        self.broadcast(zero, ty, span)
    }

    /// Broadcasts a scalar to a vector type; returns any other value unchanged.
    pub fn broadcast(&mut self, value: ExprId, ty: Ty, span: Span) -> ExprId {
        match (self.ty(value), ty) {
            (Ty::Scalar(scalar), Ty::Vector(_, n)) => {
                self.value(ExprKind::Compose(vec![value; n as usize]), Ty::Vector(scalar, n), span)
            }
            _ => value,
        }
    }

    /// Extracts one component of a vector; a scalar is returned unchanged.
    pub fn extract(&mut self, value: ExprId, lane: u8, span: Span) -> ExprId {
        let ty = self.ty(value);
        if ty.lanes() == 1 {
            return value;
        }
        if let ExprKind::Compose(parts) = &self.function().exprs[value].kind
            && let Some(&part) = parts.get(lane as usize)
        {
            return part;
        }
        self.value(ExprKind::Extract { value, lane }, Ty::Scalar(ty.scalar()), span)
    }

    /// Returns the components of a vector; a scalar has itself as its only component.
    pub fn lanes(&mut self, value: ExprId, span: Span) -> Vec<ExprId> {
        (0..self.ty(value).lanes()).map(|lane| self.extract(value, lane, span)).collect()
    }

    /// Composes a vector from scalars; a single scalar is returned unchanged.
    pub fn compose(&mut self, lanes: Vec<ExprId>, span: Span) -> ExprId {
        match lanes.as_slice() {
            [one] => *one,
            _ => {
                let scalar = lanes.first().map_or(Scalar::I32, |&lane| self.ty(lane).scalar());
                let ty = Ty::Vector(scalar, lanes.len() as u8);
                self.value(ExprKind::Compose(lanes), ty, span)
            }
        }
    }

    pub fn binary(&mut self, op: BinOp, left: ExprId, right: ExprId, span: Span) -> ExprId {
        let operand = self.ty(left);
        let ty = if op.is_comparison() { operand.with_scalar(Scalar::Bool) } else { operand };
        self.value(ExprKind::Binary { op, left, right }, ty, span)
    }

    pub fn convert(&mut self, value: ExprId, to: Scalar, span: Span) -> ExprId {
        let from = self.ty(value);
        if from.scalar() == to {
            return value;
        }
        self.value(ExprKind::Convert(value), from.with_scalar(to), span)
    }

    pub fn read(&mut self, local: LocalId, span: Span) -> ExprId {
        let ty = self.function().locals[local].ty;
        self.value(ExprKind::Read(local), ty, span)
    }

    pub fn local(&mut self, name: impl Into<String>, ty: Ty, span: Span) -> LocalId {
        self.at(span).local(name, ty)
    }

    pub fn label(&mut self) -> Label {
        self.builder.label()
    }

    pub fn ty(&self, value: ExprId) -> Ty {
        self.builder.ty(value)
    }

    /// Returns the value, if it is a scalar constant.
    pub fn const_value(&self, value: ExprId) -> Option<ScalarValue> {
        self.function().const_value(value)
    }

    pub fn stmt(&mut self, kind: StmtKind, span: Span) {
        if self.is_done() {
            return;
        }
        let leaves = matches!(kind, StmtKind::Break(_) | StmtKind::Continue(_) | StmtKind::Return(_));
        self.at(span).stmt(kind);
        if leaves {
            self.set_done();
        }
    }

    /// Returns whether the current point of the open block is unreachable.
    pub fn is_done(&self) -> bool {
        self.done.last().copied().unwrap_or(false)
    }

    /// Marks the rest of the open block as unreachable.
    pub fn set_done(&mut self) {
        if let Some(done) = self.done.last_mut() {
            *done = true;
        }
    }

    pub fn open(&mut self) {
        self.builder.push_block();
        self.done.push(false);
    }

    /// Closes the innermost block: returns its statements, and whether its end is unreachable.
    pub fn close(&mut self) -> (Block, bool) {
        (self.builder.pop_block(), self.done.pop().unwrap_or(false))
    }
}

/// Returns whether the last statement is a barrier of the thread block; `None` if there is no statement. Regions count
/// as their statements.
fn ends_with_barrier(block: &[Stmt]) -> Option<bool> {
    block.iter().rev().find_map(|stmt| match TileRegion::of(&stmt.kind) {
        Some((_, body)) => ends_with_barrier(body),
        None => Some(matches!(stmt.kind, StmtKind::Barrier { kind: BarrierKind::Block, .. })),
    })
}
