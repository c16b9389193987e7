//! Lowers expressions. The result has one DeviceIR value for each leaf (scalar or vector) of the expression's type.

use super::context::{BodyLowering, LoweredLocal};
use super::error::{Fallible, internal};
use super::types;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::literal::NumberLiteral;
use clk_check::typed::{Block, ConstId, Expr, ExprKind, Type};
use clk_ir::def::{self, ExprId, StmtKind, Ty};
use clk_scalar::ScalarValue;
use clk_scalar::builtin::Builtin;

/// Maximum cost of a branch of an `if` that is converted to a select, which evaluates both branches.
const SELECT_BUDGET: u32 = 4;

impl BodyLowering<'_, '_> {
    /// Lowers an expression to its leaves.
    pub fn value(&mut self, expr: &Expr) -> Fallible<Vec<ExprId>> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Int(number) => {
                let ty = types::single(&self.type_of(expr)?, span)?;
                Ok(vec![self.literal(NumberLiteral::Int(*number), ty, span)?])
            }
            ExprKind::Float(number) => {
                let ty = types::single(&self.type_of(expr)?, span)?;
                Ok(vec![self.literal(NumberLiteral::Float(*number), ty, span)?])
            }
            ExprKind::Bool(value) => Ok(vec![self.out.bool(*value, span)]),
            ExprKind::Const(id) => self.constant_item(*id, expr),
            ExprKind::ConstParam(i) => {
                let value = self.mono.const_param(*i, span)?;
                Ok(vec![self.out.constant(value, span)])
            }
            ExprKind::Dim(dim) => Ok(vec![self.dim(*dim, span)?]),
            ExprKind::Variable(builtin) => Ok(vec![self.variable_builtin(*builtin, span)?]),
            ExprKind::Swizzle { base, lanes } => match (&base.kind, lanes.as_slice()) {
                (ExprKind::Variable(builtin), [lane]) => Ok(vec![self.thread_index(*builtin, *lane, span)?]),
                (ExprKind::Variable(_), lanes) => {
                    let whole = self.scalar(base)?;
                    let parts = lanes.iter().map(|&lane| self.out.extract(whole, lane, span)).collect();
                    Ok(vec![self.out.compose(parts, span)])
                }
                _ => self.read(expr),
            },
            ExprKind::Local(_) | ExprKind::Index { .. } | ExprKind::Field { .. } | ExprKind::TupleField { .. } => {
                self.read(expr)
            }
            ExprKind::Builtin { builtin: Builtin::Cached | Builtin::Streaming, .. } => self.read(expr),
            ExprKind::Unary { op, expr: operand } => self.unary(*op, operand, span),
            ExprKind::Binary { op, left, right } => self.binary(*op, left, right, expr),
            ExprKind::Convert { to, expr: operand } => {
                let value = self.scalar(operand)?;
                Ok(vec![self.convert(value, *to, span)])
            }
            ExprKind::ConvertParam { to, expr: operand } => {
                let to = self.mono.scalar_param(*to, span)?;
                let value = self.scalar(operand)?;
                Ok(vec![self.convert(value, to, span)])
            }
            ExprKind::Bitcast { expr: operand } => {
                let to = types::single(&self.type_of(expr)?, span)?;
                let value = self.scalar(operand)?;
                Ok(vec![self.bitcast(value, to, span)?])
            }
            ExprKind::Vector { parts } => self.vector(parts, expr),
            ExprKind::Tuple(parts) | ExprKind::Struct { fields: parts, .. } => {
                let mut leaves = Vec::new();
                for part in parts {
                    let array = matches!(part.ty, Type::Array(_)) && self.is_array(part);
                    leaves.extend(if array { self.array_leaves(part)? } else { self.value(part)? });
                }
                self.fits_leaves(&leaves, expr)?;
                Ok(leaves)
            }
            ExprKind::Call { callee, args } => self.call(callee, args, expr),
            ExprKind::Builtin { builtin, args, .. } => self.builtin(*builtin, args, expr),
            ExprKind::If { cond, then, other } => self.if_value(cond, then, other.as_deref(), expr),
            ExprKind::Block(block) => self.block(block),
            ExprKind::Slice { .. } | ExprKind::Lift { .. } => Err(self.not_of_threads(span)),
            ExprKind::Str(_)
            | ExprKind::Global(_)
            | ExprKind::DynField { .. }
            | ExprKind::Derive(_)
            | ExprKind::CustomVjp(_)
            | ExprKind::Launch(_)
            | ExprKind::Range { .. }
            | ExprKind::Array(_)
            | ExprKind::Time(_) => Err(internal(span, "a host expression in a kernel")),
            ExprKind::Error => Err(internal(span, "an expression with an error was let through")),
        }
    }

    /// Checks that an array has the size of the field that stores it. The sizes are known only after monomorphization.
    fn fits_leaves(&self, leaves: &[ExprId], expr: &Expr) -> Fallible<()> {
        let expected = self.machine(&self.type_of(expr)?, expr.span)?.len();
        match leaves.len() == expected || self.out.is_done() {
            true => Ok(()),
            false => Err(Box::new(
                Diagnostic::error("E0305", "an array does not fit its field")
                    .at(expr.span, format!("{} parts are given, and {expected} needed", leaves.len())),
            )),
        }
    }

    /// Lowers an expression of scalar or vector type to its single value.
    pub fn scalar(&mut self, expr: &Expr) -> Fallible<ExprId> {
        match self.value(expr)?.as_slice() {
            [one] => Ok(*one),
            // The expression never returns, so the code that uses its value is unreachable.
            [] if self.out.is_done() => Ok(self.out.i32(0, expr.span)),
            leaves => Err(internal(expr.span, format!("a value of {} parts where one is needed", leaves.len()))),
        }
    }

    /// Lowers an expression that must have type `ty`. Returns zeros if the expression never returns.
    pub(crate) fn value_as(&mut self, expr: &Expr, ty: &Type) -> Fallible<Vec<ExprId>> {
        let values = self.value(expr)?;
        if self.out.is_done() {
            return self.unreachable(ty, expr.span);
        }
        Ok(values)
    }

    /// Evaluates an expression for its side effects.
    pub(crate) fn discard(&mut self, expr: &Expr) -> Fallible<()> {
        match &expr.kind {
            ExprKind::If { cond, then, other } => self.if_stmt(cond, then, other.as_deref(), expr.span),
            ExprKind::Builtin { builtin: Builtin::Atomic(op), args, .. } => {
                self.atomic(*op, args, expr, false)?;
                Ok(())
            }
            ExprKind::Block(block) => self.effects(block),
            ExprKind::Tuple(parts) | ExprKind::Array(parts) | ExprKind::Struct { fields: parts, .. } => {
                parts.iter().try_for_each(|part| self.discard(part))
            }
            // A statement that is only the name of an array reads no memory.
            ExprKind::Local(_) | ExprKind::Const(_) if self.is_array(expr) => Ok(()),
            ExprKind::Slice { .. } => self.array(expr).map(drop),
            _ => self.value(expr).map(drop),
        }
    }

    fn read(&mut self, expr: &Expr) -> Fallible<Vec<ExprId>> {
        self.check_unmodified(expr)?;
        let target = self.target(expr)?;
        self.load(&target)
    }

    pub fn literal(&mut self, literal: NumberLiteral, ty: Ty, span: Span) -> Fallible<ExprId> {
        let value = literal.to(ty.scalar()).ok_or_else(|| literal.out_of_range(ty.scalar(), span))?;
        let scalar = self.out.constant(value, span);
        Ok(self.out.broadcast(scalar, ty, span))
    }

    fn constant_item(&mut self, id: ConstId, expr: &Expr) -> Fallible<Vec<ExprId>> {
        let values = self.constant_values(id, expr.span)?;
        let ty = self.type_of(expr)?;
        self.constants(&ty, &values, expr.span)
    }

    /// Returns the scalars of a constant, evaluated once per module.
    pub(crate) fn constant_values(&mut self, id: ConstId, span: Span) -> Fallible<Vec<ScalarValue>> {
        if let Some(known) = self.unit.constants.get(&id) {
            return Ok(known.clone());
        }
        let values = super::constant::ConstEvaluator::new(self.program, &[]).item(id, span)?;
        self.unit.constants.insert(id, values.clone());
        Ok(values)
    }

    /// Builds the leaves of a type from constant scalars in order.
    pub fn constants(&mut self, ty: &Type, values: &[ScalarValue], span: Span) -> Fallible<Vec<ExprId>> {
        let mut rest = values.iter();
        let mut leaves = Vec::new();
        for leaf in self.machine(ty, span)? {
            let lanes: Vec<ExprId> =
                rest.by_ref().take(leaf.lanes() as usize).map(|&v| self.out.constant(v, span)).collect();
            if lanes.len() != leaf.lanes() as usize {
                return Err(internal(span, "a constant with too few parts"));
            }
            leaves.push(self.out.compose(lanes, span));
        }
        Ok(leaves)
    }

    fn vector(&mut self, parts: &[Expr], expr: &Expr) -> Fallible<Vec<ExprId>> {
        let ty = types::single(&self.type_of(expr)?, expr.span)?;
        let mut lanes = Vec::new();
        for part in parts {
            let value = self.scalar(part)?;
            lanes.extend(self.out.lanes(value, part.span));
        }
        match lanes.as_slice() {
            [one] => Ok(vec![self.out.broadcast(*one, ty, expr.span)]),
            lanes if lanes.len() == ty.lanes() as usize => Ok(vec![self.out.compose(lanes.to_vec(), expr.span)]),
            _ => Err(internal(expr.span, "a vector with the wrong number of parts")),
        }
    }

    // `if`

    fn if_value(&mut self, cond: &Expr, then: &Block, other: Option<&Block>, expr: &Expr) -> Fallible<Vec<ExprId>> {
        let ty = self.type_of(expr)?;
        let machine = self.machine(&ty, expr.span)?;
        if machine.is_empty() {
            self.if_stmt(cond, then, other, expr.span)?;
            return Ok(vec![]);
        }
        let Some(other) = other else { return Err(internal(expr.span, "an `if` without `else` has a value")) };
        let cond = self.scalar(cond)?;
        if let Some(known) = self.out.const_value(cond) {
            return self.block(if known.bits != 0 { then } else { other });
        }
        if self.simple_block(then, SELECT_BUDGET) && self.simple_block(other, SELECT_BUDGET) {
            let then = self.block(then)?;
            let other = self.block(other)?;
            return self.select_leaves(cond, &then, &other, expr.span);
        }
        let locals: Vec<def::LocalId> =
            machine.into_iter().map(|machine| self.out.local("chosen", machine, expr.span)).collect();
        let (then, then_done) = self.branch(then, &locals, &ty)?;
        let (other, other_done) = self.branch(other, &locals, &ty)?;
        self.out.stmt(StmtKind::If { cond, then, other }, expr.span);
        if then_done && other_done {
            self.out.set_done();
        }
        Ok(locals.into_iter().map(|local| self.out.read(local, expr.span)).collect())
    }

    fn branch(&mut self, block: &Block, locals: &[def::LocalId], ty: &Type) -> Fallible<(def::Block, bool)> {
        self.out.open();
        let values = self.block(block);
        let span = block.tail.as_ref().map_or(block.span, |tail| tail.span);
        if let Ok(values) = &values {
            for (&local, &value) in locals.iter().zip(values) {
                self.out.stmt(StmtKind::Write { local, value }, span);
            }
        }
        let done = self.out.is_done();
        let closed = self.out.close();
        if values?.len() != locals.len() && !done {
            return Err(internal(span, format!("a branch without the value of type {ty:?}")));
        }
        Ok(closed)
    }

    pub(crate) fn if_stmt(&mut self, cond: &Expr, then: &Block, other: Option<&Block>, span: Span) -> Fallible<()> {
        let cond = self.operand_scalar(cond)?;
        match (self.out.const_value(cond).map(|known| known.bits != 0), other) {
            (Some(true), _) => self.effects(then),
            (Some(false), Some(other)) => self.effects(other),
            (Some(false), None) => Ok(()),
            (None, other) => {
                let (then, then_done) = self.nested(then)?;
                let (other, other_done) = match other {
                    Some(other) => self.nested(other)?,
                    None => (vec![], false),
                };
                self.out.stmt(StmtKind::If { cond, then, other }, span);
                if then_done && other_done {
                    self.out.set_done();
                }
                Ok(())
            }
        }
    }

    /// Lowers a block's statements to a nested IR block. The flag is true if the end of the block is unreachable.
    pub fn nested(&mut self, block: &Block) -> Fallible<(def::Block, bool)> {
        self.out.open();
        let result = self.effects(block);
        let closed = self.out.close();
        result.map(|()| closed)
    }

    /// Emits a select between two values for each leaf.
    pub(crate) fn select_leaves(
        &mut self,
        cond: ExprId,
        then: &[ExprId],
        other: &[ExprId],
        span: Span,
    ) -> Fallible<Vec<ExprId>> {
        if then.len() != other.len() {
            return Err(internal(span, "a choice between values of different shapes"));
        }
        Ok(then.iter().zip(other).map(|(&then, &other)| self.select(cond, then, other, span)).collect())
    }

    fn select(&mut self, cond: ExprId, then: ExprId, other: ExprId, span: Span) -> ExprId {
        if then == other {
            return then;
        }
        let lanes = [cond, then, other].map(|value| self.out.ty(value).lanes()).into_iter().max().unwrap_or(1);
        let scalar = self.out.ty(then).scalar();
        let ty = if lanes == 1 { Ty::Scalar(scalar) } else { Ty::Vector(scalar, lanes) };
        let then = self.out.broadcast(then, ty, span);
        let other = self.out.broadcast(other, ty, span);
        self.out.value(def::ExprKind::Select { cond, then, other }, ty, span)
    }

    // Array-typed expressions

    /// Returns whether an expression is an array, not a shared scalar.
    pub fn is_array(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Local(id) => {
                matches!(self.slots.get(id), Some(LoweredLocal::Array(memory))
                    if !self.out.function().memories[*memory].extents.is_empty())
            }
            _ => matches!(expr.ty, Type::Array(_)),
        }
    }
}
