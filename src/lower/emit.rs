//! The function under construction. Over [`FunctionBuilder`] this knows each node's own span, drops what follows a `break`,
//! `continue` or `return` in its block, and simplifies vectors that were only just composed.

use crate::base::source::Span;
use crate::ir::build::FunctionBuilder;
use crate::ir::def::*;
use crate::lang::scalar::Value;

pub(crate) struct Emitter {
    builder: FunctionBuilder,
    /// For each open block, whether its end is unreachable by now.
    done: Vec<bool>,
}

impl Emitter {
    pub fn new(name: impl Into<String>, span: Span) -> Self {
        let mut builder = FunctionBuilder::new(name);
        builder.function_span(span);
        builder.set_span(span);
        Emitter { builder, done: vec![false] }
    }

    /// The builder, about to make something with this span.
    pub fn at(&mut self, span: Span) -> &mut FunctionBuilder {
        self.builder.set_span(span);
        &mut self.builder
    }

    /// The function so far, without its statements.
    pub fn function(&self) -> &Function {
        self.builder.function()
    }

    pub fn into_builder(self) -> FunctionBuilder {
        self.builder
    }

    /// An expression that is evaluated here.
    pub fn value(&mut self, kind: ExprKind, ty: Ty, span: Span) -> ExprId {
        if kind.is_free() {
            return self.at(span).free(kind, ty);
        }
        let id = self.at(span).detached(kind, ty);
        self.stmt(StmtKind::Let(id), span);
        id
    }

    /// The expression that a statement will name as what it hands back.
    pub fn result(&mut self, ty: Ty, span: Span) -> ExprId {
        self.at(span).detached(ExprKind::Result, ty)
    }

    pub fn constant(&mut self, value: Value, span: Span) -> ExprId {
        self.at(span).constant(value)
    }

    pub fn i32(&mut self, value: i32, span: Span) -> ExprId {
        self.at(span).i32(value)
    }

    pub fn bool(&mut self, value: bool, span: Span) -> ExprId {
        self.at(span).bool(value)
    }

    /// All bits zero; of a vector, in every lane.
    pub fn zero(&mut self, ty: Ty, span: Span) -> ExprId {
        let zero = self.constant(Value { ty: ty.scalar(), bits: 0 }, span);
        self.splat(zero, ty, span)
    }

    /// A scalar in every lane of a vector type; anything else as it is.
    pub fn splat(&mut self, value: ExprId, ty: Ty, span: Span) -> ExprId {
        match (self.ty(value), ty) {
            (Ty::Scalar(scalar), Ty::Vector(_, n)) => {
                self.value(ExprKind::Compose(vec![value; n as usize]), Ty::Vector(scalar, n), span)
            }
            _ => value,
        }
    }

    /// One lane of a vector; a scalar is its own only lane.
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

    /// The lanes of a vector, or the scalar itself.
    pub fn lanes(&mut self, value: ExprId, span: Span) -> Vec<ExprId> {
        (0..self.ty(value).lanes()).map(|lane| self.extract(value, lane, span)).collect()
    }

    /// A vector of these scalars; of one, the scalar itself.
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

    /// The bits, if the value is a scalar constant.
    pub fn known(&self, value: ExprId) -> Option<Value> {
        match self.function().exprs[value] {
            Expr { kind: ExprKind::Const(bits), ty: Ty::Scalar(ty) } => Some(Value { ty, bits }),
            _ => None,
        }
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

    /// Nothing reaches this point of the open block.
    pub fn is_done(&self) -> bool {
        self.done.last().copied().unwrap_or(false)
    }

    /// Marks the rest of the open block as unreachable: every branch before it has left.
    pub fn set_done(&mut self) {
        if let Some(done) = self.done.last_mut() {
            *done = true;
        }
    }

    pub fn open(&mut self) {
        self.builder.push_block();
        self.done.push(false);
    }

    /// The innermost block's statements, and whether its end is unreachable.
    pub fn close(&mut self) -> (Block, bool) {
        (self.builder.pop_block(), self.done.pop().unwrap_or(false))
    }
}
