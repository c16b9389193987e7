//! Lowers statements.

use super::context::{BodyLowering, LoweredLocal};
use super::error::{Fallible, internal};
use super::types;
use clk_base::source::Span;
use clk_base::stop;
use clk_check::typed::{Block, Expr, ExprKind, LocalId, Pattern, Stmt, StmtKind, Type};
use clk_ir::def::{self, ExprId};
use clk_scalar::ops::BinaryOp;

impl BodyLowering<'_, '_> {
    /// Lowers a block's statements and value into the open IR block. After an error in a statement, continues with the
    /// next statement to report its errors too.
    pub fn block(&mut self, block: &Block) -> Fallible<Vec<ExprId>> {
        self.stmts(block);
        match &block.tail {
            None => Ok(vec![]),
            Some(tail) if self.out.is_done() => {
                let ty = self.type_of(tail)?;
                self.unreachable(&ty, tail.span)
            }
            Some(tail) => self.value(tail),
        }
    }

    /// Lowers a block whose value is unused.
    pub(crate) fn effects(&mut self, block: &Block) -> Fallible<()> {
        self.stmts(block);
        match &block.tail {
            Some(tail) if !self.out.is_done() => self.discard(tail),
            _ => Ok(()),
        }
    }

    pub fn stmts(&mut self, block: &Block) {
        for stmt in &block.stmts {
            if self.out.is_done() {
                break;
            }
            if let Err(error) = self.stmt(stmt) {
                self.unit.report(error);
            }
        }
    }

    pub(super) fn stmt(&mut self, stmt: &Stmt) -> Fallible<()> {
        stop::poll();
        let span = stmt.span;
        match &stmt.kind {
            StmtKind::Let { pattern, value, .. } => self.let_(pattern, value.as_ref(), span),
            StmtKind::LocalArray { local, extents, init } => self.local_array(*local, extents, init, span),
            StmtKind::Shared { local, extents } => self.shared(*local, extents, span),
            StmtKind::Assign { place, op, value } => self.assign(place, *op, value, span),
            StmtKind::Expr { expr, .. } => self.discard(expr),
            StmtKind::For { var, iter, body, unroll } => self.for_(*var, iter, body, *unroll, span),
            StmtKind::While { cond, body, unroll } => self.while_(cond, body, *unroll, span),
            StmtKind::Loop { body } => self.loop_(body, span),
            StmtKind::Break => {
                let label = self.innermost(span)?;
                self.out.stmt(def::StmtKind::Break(label), span);
                Ok(())
            }
            StmtKind::Continue => {
                let label = self.innermost(span)?;
                self.out.stmt(def::StmtKind::Continue(label), span);
                Ok(())
            }
            StmtKind::Return(value) => self.return_(value.as_ref(), span),
            StmtKind::On { .. } | StmtKind::Batch { .. } => Err(internal(span, "a host statement in a kernel")),
        }
    }

    fn return_(&mut self, value: Option<&Expr>, span: Span) -> Fallible<()> {
        let mut values = match (value, self.result_array) {
            (Some(value), Some(memory)) => {
                self.array_into(value, memory, true)?;
                vec![]
            }
            (Some(value), None) => {
                let ty = self.result.clone();
                self.value_as(value, &ty)?
            }
            (None, _) => vec![],
        };
        values.extend(self.inout_results(span)?);
        self.out.stmt(def::StmtKind::Return(values), span);
        Ok(())
    }

    // Variables

    fn let_(&mut self, pattern: &Pattern, value: Option<&Expr>, span: Span) -> Fallible<()> {
        let Some(value) = value else {
            return match pattern {
                // The checker rejects reads before the first write. If such a read happens anyway, it returns zero on
                // all devices.
                Pattern::Local(id) => {
                    let local = self.local(*id, span)?;
                    let ty = self.mono.ty(&local.ty, span)?;
                    let zeros = self.unreachable(&ty, span)?;
                    self.variable_slot(*id, &ty, zeros, span)
                }
                _ => Err(internal(span, "a variable without value or name")),
            };
        };
        let ty = self.type_of(value)?;
        if ty == Type::Never {
            self.value(value)?;
            return self.bind_unreachable(pattern, span);
        }
        if self.is_array(value) {
            return self.let_array(pattern, value, span);
        }
        let values = self.value(value)?;
        self.bind(pattern, &ty, values, span)
    }

    /// Binds an array-typed variable. It has its own memory, unless it is immutable and its value is a constant, whose
    /// memory it can share.
    fn let_array(&mut self, pattern: &Pattern, value: &Expr, span: Span) -> Fallible<()> {
        let memory = match pattern {
            Pattern::Local(id) => {
                let declared = self.local(*id, span)?;
                match value.kind {
                    ExprKind::Const(_) if !declared.mutable => self.array(value)?,
                    _ => self.array_named(&declared.name, value)?,
                }
            }
            Pattern::Discard => return self.array(value).map(drop),
            Pattern::Global(_) | Pattern::Tuple(_) => return Err(internal(span, "an array that is no variable")),
        };
        if let Pattern::Local(id) = pattern {
            self.slots.insert(*id, LoweredLocal::Array(memory));
        }
        Ok(())
    }

    fn bind(&mut self, pattern: &Pattern, ty: &Type, values: Vec<ExprId>, span: Span) -> Fallible<()> {
        match pattern {
            Pattern::Discard => Ok(()),
            Pattern::Global(_) => Err(internal(span, "a script variable in a kernel")),
            Pattern::Local(id) if self.local(*id, span)?.mutable => self.variable_slot(*id, ty, values, span),
            Pattern::Local(id) => {
                let declared = self.local(*id, span)?;
                self.bind_debug_locals(&declared.name, ty, &values, declared.span)?;
                self.slots.insert(*id, LoweredLocal::Value(values));
                Ok(())
            }
            Pattern::Tuple(patterns) => {
                for (position, pattern) in patterns.iter().enumerate() {
                    let (range, part) = types::part(self.program, ty, position as u32, span)?;
                    let leaves =
                        values.get(range).ok_or_else(|| internal(span, "a tuple with too few parts"))?.to_vec();
                    self.bind(pattern, &part, leaves, span)?;
                }
                Ok(())
            }
        }
    }

    fn bind_unreachable(&mut self, pattern: &Pattern, span: Span) -> Fallible<()> {
        match pattern {
            Pattern::Local(id) => {
                let ty = self.mono.ty(&self.local(*id, span)?.ty, span)?;
                let zeros = self.unreachable(&ty, span)?;
                self.bind(pattern, &ty, zeros, span)
            }
            Pattern::Tuple(patterns) => patterns.iter().try_for_each(|part| self.bind_unreachable(part, span)),
            Pattern::Discard | Pattern::Global(_) => Ok(()),
        }
    }

    /// Writes the leaves of a variable to debug locals with its name, if the module has debug locals. No code reads
    /// these locals.
    pub(super) fn bind_debug_locals(&mut self, name: &str, ty: &Type, values: &[ExprId], span: Span) -> Fallible<()> {
        if self.unit.debug_locals {
            for ((path, machine), &value) in types::leaves(self.program, ty, span)?.into_iter().zip(values) {
                let local = self.out.local(types::leaf_name(name, &path), machine, span);
                self.out.stmt(def::StmtKind::Write { local, value }, span);
            }
        }
        Ok(())
    }

    pub(crate) fn variable_slot(&mut self, id: LocalId, ty: &Type, values: Vec<ExprId>, span: Span) -> Fallible<()> {
        let declared = self.local(id, span)?;
        let mut locals = Vec::with_capacity(values.len());
        for ((path, machine), value) in types::leaves(self.program, ty, span)?.into_iter().zip(values) {
            let local = self.out.local(types::leaf_name(&declared.name, &path), machine, declared.span);
            self.out.stmt(def::StmtKind::Write { local, value }, span);
            locals.push(local);
        }
        self.slots.insert(id, LoweredLocal::Variable(locals));
        Ok(())
    }

    // Assignment

    fn assign(&mut self, place: &Expr, op: Option<BinaryOp>, value: &Expr, span: Span) -> Fallible<()> {
        if self.is_tile(place)? {
            return self.assign_tile(place, op, value, span);
        }
        let Some(op) = op else {
            if self.is_array(place) && matches!(place.kind, ExprKind::Local(_)) {
                let to = self.array(place)?;
                return self.array_into(value, to, false);
            }
            if self.is_array(place) {
                let leaves = self.array_leaves(value)?;
                let target = self.target(place)?;
                return self.store(&target, &leaves, span);
            }
            let ty = self.type_of(place)?;
            let values = self.value_as(value, &ty)?;
            let target = self.target(place)?;
            return self.store(&target, &values, span);
        };
        let right = self.scalar(value)?;
        let target = self.target(place)?;
        let left = match self.load(&target)?.as_slice() {
            [one] => *one,
            _ => return Err(internal(span, "an operator on values of several parts")),
        };
        let result = self.apply(op, left, right, value.span, span)?;
        self.store(&target, &[result], span)
    }
}
