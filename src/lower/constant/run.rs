//! Executes function bodies in constant evaluation.

use super::super::FunctionInstance;
use super::super::error::{Fallible, internal};
use super::{ConstEvaluator, MAX_ELEMENTS, Stored, apply, failed, negative, not_constant, pure_builtin, reached};
use clk_base::source::Span;
use clk_check::solve_dims;
use clk_check::typed::{
    Access, ArrayInit, Block, Dim, Expr, ExprKind, FnRef, LocalId, Pattern, Signature, Stmt, StmtKind, Type,
};
use clk_scalar::ops::BinaryOp;
use clk_scalar::{ScalarValue, dynamic};

/// How the execution of a statement ended.
enum ConstControlFlow {
    Next,
    Break,
    Continue,
    Return(Vec<ScalarValue>),
}

impl<'a> ConstEvaluator<'a> {
    pub(super) fn call(&mut self, callee: &FnRef, args: &[Expr], span: Span) -> Fallible<Vec<ScalarValue>> {
        let callee = self.mono.function(callee, span)?;
        let program = self.program;
        let params = match &callee {
            FunctionInstance::Fn { id, .. } => program.fns.get(*id).map_or(&[][..], |function| &function.sig.params),
            FunctionInstance::Builtin(_) => &[],
        };
        let mut values = Vec::with_capacity(args.len());
        let mut places = Vec::new();
        for (position, arg) in args.iter().enumerate() {
            let extents = if matches!(arg.ty, Type::Array(_)) { self.extents(arg)? } else { vec![] };
            if params.get(position).is_none_or(|param| param.access == Access::In) {
                values.push(Stored { values: self.leaves(arg)?, extents });
                continue;
            }
            let place = self.part(arg)?;
            values.push(Stored { values: self.read_part(&place, arg)?, extents });
            places.push((position, place));
        }
        match callee {
            FunctionInstance::Builtin(builtin) => {
                let values: Vec<Vec<ScalarValue>> = values.into_iter().map(|stored| stored.values).collect();
                pure_builtin(builtin, &values, span)
            }
            FunctionInstance::Fn { id, arguments } => {
                self.step(span)?;
                let function =
                    self.program.fns.get(id).ok_or_else(|| internal(span, "a call of a function that is not there"))?;
                let body =
                    function.body.as_deref().ok_or_else(|| internal(span, "a call of a function without body"))?;
                let mut inner = self.nested(&arguments).guarded(span)?;
                inner.bind_dims(&function.sig, &values, span)?;
                inner.locals = values.into_iter().enumerate().map(|(i, value)| (LocalId::new(i), value)).collect();
                let ran = inner.run_block(&body.root);
                let result =
                    match ran.map_err(|d| reached(d, span, || format!("`{}` is called here", function.name)))? {
                        (ConstControlFlow::Return(values), _) => values,
                        (_, values) => values,
                    };
                for (position, place) in places {
                    if let Some(changed) = inner.locals.get(&LocalId::new(position)) {
                        self.write_part(&place, &changed.values, span)?;
                    }
                }
                Ok(result)
            }
        }
    }

    fn bind_dims(&mut self, signature: &Signature, values: &[Stored], span: Span) -> Fallible<()> {
        self.dims = vec![None; signature.dims.len()];
        for (param, value) in signature.params.iter().zip(values) {
            let Type::Array(array) = &param.ty else { continue };
            for (dim, extent) in array.dims.iter().zip(&value.extents) {
                if let Dim::Name(name) = dim
                    && let Some(slot) = self.dims.get_mut(*name as usize)
                {
                    *slot = Some(*extent);
                }
            }
        }
        for (dim, (param, axis, i)) in solve_dims::order(signature).solved {
            let Some(&extent) = values.get(param).and_then(|value| value.extents.get(axis)) else { continue };
            let mut at = |value| {
                self.dims[dim as usize] = Some(value);
                let integer = self.evaluate(&signature.dim_exprs[i])?.as_integer().and_then(|n| i64::try_from(n).ok());
                integer.ok_or_else(|| internal(span, "a dimension that is no integer"))
            };
            let solution = solve_dims::solution(extent, at(0)?, at(1)?);
            let name = &signature.dims[dim as usize].name;
            let why = || failed(span, &format!("no `{name}` gives an extent of {extent}"));
            self.dims[dim as usize] = Some(solution.ok_or_else(why)?);
        }
        Ok(())
    }

    /// Evaluates a block inside of an expression. A `return` in it is not supported in constants.
    pub(super) fn block(&mut self, block: &Block) -> Fallible<Vec<ScalarValue>> {
        match self.run_block(block)? {
            (ConstControlFlow::Next, values) => Ok(values),
            _ => Err(not_constant(block.span, "a constant does not jump out of an expression")),
        }
    }

    fn run_block(&mut self, block: &Block) -> Fallible<(ConstControlFlow, Vec<ScalarValue>)> {
        for stmt in &block.stmts {
            match self.run(stmt)? {
                ConstControlFlow::Next => {}
                flow => return Ok((flow, vec![])),
            }
        }
        match &block.tail {
            None => Ok((ConstControlFlow::Next, vec![])),
            // A branch may contain a `return`. Therefore, if the value of the block is an `if`, it is executed like a
            // statement.
            Some(tail) => match &tail.kind {
                ExprKind::If { cond, then, other } => {
                    let branch = if self.evaluate(cond)?.is_true() { Some(then) } else { other.as_ref() };
                    branch.map_or(Ok((ConstControlFlow::Next, vec![])), |branch| self.run_block(branch))
                }
                ExprKind::Block(inner) => self.run_block(inner),
                _ => Ok((ConstControlFlow::Next, self.leaves(tail)?)),
            },
        }
    }

    fn run(&mut self, stmt: &Stmt) -> Fallible<ConstControlFlow> {
        let span = stmt.span;
        self.step(span)?;
        match &stmt.kind {
            StmtKind::Let { pattern, value: Some(value), .. } => {
                let (ty, extents) = (self.ty(value)?, self.extents(value)?);
                let values = self.leaves(value)?;
                self.bind(pattern, &ty, Stored { values, extents }, span)?;
            }
            // The first assignment determines the size of the variable.
            StmtKind::Let { pattern: Pattern::Local(id), value: None, .. } => {
                self.locals.remove(id);
            }
            StmtKind::LocalArray { local, extents, init } => self.local_array(*local, extents, init, span)?,
            StmtKind::Assign { place, op, value } => self.assign(place, *op, value, span)?,
            StmtKind::Expr { expr, .. } => return self.run_expr(expr),
            StmtKind::For { var, iter, body, .. } => return self.run_for(*var, iter, body, span),
            StmtKind::While { cond, body, .. } => {
                while self.evaluate(cond)?.is_true() {
                    self.step(span)?;
                    match self.run_block(body)?.0 {
                        ConstControlFlow::Break => break,
                        ConstControlFlow::Return(values) => return Ok(ConstControlFlow::Return(values)),
                        ConstControlFlow::Next | ConstControlFlow::Continue => {}
                    }
                }
            }
            StmtKind::Loop { body } => loop {
                self.step(span)?;
                match self.run_block(body)?.0 {
                    ConstControlFlow::Break => break,
                    ConstControlFlow::Return(values) => return Ok(ConstControlFlow::Return(values)),
                    ConstControlFlow::Next | ConstControlFlow::Continue => {}
                }
            },
            StmtKind::Break => return Ok(ConstControlFlow::Break),
            StmtKind::Continue => return Ok(ConstControlFlow::Continue),
            StmtKind::Return(value) => {
                return Ok(ConstControlFlow::Return(value.as_ref().map_or(Ok(vec![]), |value| self.leaves(value))?));
            }
            StmtKind::Let { .. } | StmtKind::Shared { .. } | StmtKind::On { .. } | StmtKind::Batch { .. } => {
                return Err(not_constant(span, "this cannot be part of a constant"));
            }
        }
        Ok(ConstControlFlow::Next)
    }

    fn run_expr(&mut self, expr: &Expr) -> Fallible<ConstControlFlow> {
        match &expr.kind {
            ExprKind::If { cond, then, other } => {
                let branch = if self.evaluate(cond)?.is_true() { Some(then) } else { other.as_ref() };
                branch.map_or(Ok(ConstControlFlow::Next), |branch| Ok(self.run_block(branch)?.0))
            }
            ExprKind::Block(block) => Ok(self.run_block(block)?.0),
            _ => self.leaves(expr).map(|_| ConstControlFlow::Next),
        }
    }

    fn bind(&mut self, pattern: &Pattern, ty: &Type, stored: Stored, span: Span) -> Fallible<()> {
        match pattern {
            Pattern::Discard => Ok(()),
            Pattern::Global(_) => Err(not_constant(span, "a constant does not touch script variables")),
            Pattern::Local(id) => {
                self.locals.insert(*id, stored);
                Ok(())
            }
            Pattern::Tuple(patterns) => {
                let Type::Tuple(parts) = ty else { return Err(internal(span, "a pattern of another shape")) };
                for (position, (pattern, part)) in patterns.iter().zip(parts.iter()).enumerate() {
                    let (start, length) = self.field(ty, position as u32, span)?;
                    let values = stored.values.iter().copied().skip(start).take(length).collect();
                    self.bind(pattern, part, Stored { values, extents: vec![] }, span)?;
                }
                Ok(())
            }
        }
    }

    fn local_array(&mut self, id: LocalId, extents: &[Expr], init: &ArrayInit, span: Span) -> Fallible<()> {
        let mut sizes = Vec::with_capacity(extents.len());
        for extent in extents {
            sizes.push(self.evaluate(extent)?.as_integer().and_then(|n| i64::try_from(n).ok()).unwrap_or(0));
        }
        let count: i64 = sizes.iter().product();
        if !(1..=MAX_ELEMENTS).contains(&count) {
            return Err(failed(span, "an array of this size"));
        }
        let values = match init {
            ArrayInit::Fill(value) => self.leaves(value)?.repeat(count as usize),
            ArrayInit::Elements(elements) => self.all(elements)?,
            ArrayInit::Copy(value) if self.extents(value)? == sizes => self.leaves(value)?,
            ArrayInit::Copy(value) => return Err(failed(value.span, "an array of another size")),
            ArrayInit::None => return Err(not_constant(span, "a constant's variables start with a value")),
        };
        self.locals.insert(id, Stored { values, extents: sizes });
        Ok(())
    }

    fn assign(&mut self, place: &Expr, op: Option<BinaryOp>, value: &Expr, span: Span) -> Fallible<()> {
        let right = self.leaves(value)?;
        if let (ExprKind::Local(id), None) = (&place.kind, op)
            && !self.locals.contains_key(id)
        {
            let extents = self.extents(value)?;
            self.locals.insert(*id, Stored { values: right, extents });
            return Ok(());
        }
        // Resolve the lvalue once, since its indices may have side effects.
        let part = self.part(place)?;
        let values = match op {
            None => right,
            Some(op) => {
                let left = self.read_part(&part, place)?;
                apply(op, &left, &right, span, value.span)?
            }
        };
        self.write_part(&part, &values, span)
    }

    fn run_for(&mut self, var: LocalId, iter: &Expr, body: &Block, span: Span) -> Fallible<ConstControlFlow> {
        for iteration in self.iterations(iter)? {
            self.step(span)?;
            self.locals.insert(var, Stored { values: iteration, extents: vec![] });
            match self.run_block(body)?.0 {
                ConstControlFlow::Break => break,
                ConstControlFlow::Return(values) => return Ok(ConstControlFlow::Return(values)),
                ConstControlFlow::Next | ConstControlFlow::Continue => {}
            }
        }
        Ok(ConstControlFlow::Next)
    }

    /// Returns the values that a `for` iterates over.
    fn iterations(&mut self, iter: &Expr) -> Fallible<Vec<Vec<ScalarValue>>> {
        let ExprKind::Range { start, end: Some(end), inclusive, step } = &iter.kind else {
            let Some(&count) = self.extents(iter)?.first() else {
                return Err(internal(iter.span, "a `for` over something that has no elements"));
            };
            let values = self.leaves(iter)?;
            let size = (values.len() / count.max(1) as usize).max(1);
            return Ok(values.chunks(size).map(<[ScalarValue]>::to_vec).collect());
        };
        let end = self.evaluate(end)?;
        let mut at = match start {
            Some(start) => self.evaluate(start)?,
            None => ScalarValue::zero(end.ty),
        };
        let step = match step {
            Some(step) => self.evaluate(step)?,
            None => ScalarValue::one(end.ty),
        };
        if step.bits == 0 {
            return Err(failed(iter.span, "the step is zero"));
        }
        let down = negative(step);
        let mut iterations = Vec::new();
        loop {
            let (Some(current), Some(last)) = (at.as_integer(), end.as_integer()) else {
                return Err(internal(iter.span, "a `for` over numbers that are no integers"));
            };
            let past = if down { current < last } else { current > last };
            if past || (current == last && !inclusive) {
                return Ok(iterations);
            }
            self.step(iter.span)?;
            iterations.push(vec![at]);
            let next = dynamic::binary(BinaryOp::Add, at, step).map_err(|f| failed(iter.span, &f.to_string()))?;
            // The range ends if the addition wraps around.
            if next.as_integer().is_none_or(|next| if down { next >= current } else { next <= current }) {
                return Ok(iterations);
            }
            at = next;
        }
    }
}
