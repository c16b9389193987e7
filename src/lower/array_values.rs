//! Array expressions as values: copies, literals, function results, branches.
//!
//! The value of an array expression is the memory that contains the array. If the expression is the name of an array,
//! it is the memory of that array, without a copy. Any other expression is computed into thread-local memory. A
//! function returns an array through an additional last array parameter, which refers to the caller's memory.

use super::arrays::{STRAIGHT, elements, size};
use super::constant::ConstEvaluator;
use super::context::{BodyLowering, LoweredLocal};
use super::error::{Fallible, internal};
use super::instance::{FunctionInstance, GenericArgument};
use super::types;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Block, ConstId, Dim, Expr, ExprKind, FnId, SliceIndex, Type};
use clk_ir::def::{self, ExprId, MemId, StmtKind};

/// A slice of an array: it covers some axes wholly and has a fixed index along each of the other axes.
pub(crate) struct ArraySlice {
    memory: MemId,
    /// For each axis of the array: the fixed index, or `None` for a whole axis.
    axes: Vec<Option<ExprId>>,
    /// The extents of the whole axes.
    extents: Vec<u32>,
}

impl ArraySlice {
    /// Returns a slice that covers a whole array with these extents.
    pub fn whole(memory: MemId, extents: Vec<u32>) -> ArraySlice {
        ArraySlice { memory, axes: vec![None; extents.len()], extents }
    }

    /// Maps the indices of an element of the slice to indices into the array.
    fn at(&self, of_row: &[ExprId]) -> Vec<ExprId> {
        let mut rest = of_row.iter().copied();
        self.axes.iter().filter_map(|axis| axis.or_else(|| rest.next())).collect()
    }
}

impl BodyLowering<'_, '_> {
    /// Returns the memory of an array-typed expression. Evaluates it into new memory unless it is the name of an array.
    pub fn array(&mut self, expr: &Expr) -> Fallible<MemId> {
        match &expr.kind {
            ExprKind::Local(id) => match self.slot(*id, expr.span)? {
                LoweredLocal::Array(memory) => Ok(memory),
                _ => Err(internal(expr.span, "an index into something that is no array")),
            },
            ExprKind::Const(id) => self.table(*id, expr),
            ExprKind::Field { .. } | ExprKind::TupleField { .. } => {
                let home = self.target(expr)?;
                let name = self.vector_name(expr);
                self.array_at(&name, &home, expr.span)
            }
            _ => self.array_named("array", expr),
        }
    }

    /// Returns the leaves (scalars and vectors) of an array that is stored in a field.
    pub(crate) fn array_leaves(&mut self, expr: &Expr) -> Fallible<Vec<ExprId>> {
        if let ExprKind::Field { .. } | ExprKind::TupleField { .. } = expr.kind {
            let home = self.target(expr)?;
            return self.load(&home);
        }
        let memory = self.array(expr)?;
        self.all_leaves(memory, expr.span)
    }

    /// Evaluates an array-typed expression into new memory.
    pub(crate) fn array_named(&mut self, name: &str, expr: &Expr) -> Fallible<MemId> {
        let extents = self.extents_of(expr)?;
        let element = self.element_type(&expr.ty, expr.span)?;
        let layout = types::layout(self.program, &element, expr.span)?;
        let memory = self.fresh_memory(name, layout, &extents, expr.span)?;
        self.array_into(expr, memory, true)?;
        Ok(memory)
    }

    /// Returns the memory of a `const` array, which each function declares at most once.
    fn table(&mut self, id: ConstId, base: &Expr) -> Fallible<MemId> {
        if let Some(&memory) = self.tables.get(&id) {
            return Ok(memory);
        }
        let constant =
            self.program.consts.get(id).ok_or_else(|| internal(base.span, "a constant that is not there"))?;
        let values = self.constant_values(id, base.span)?;
        let memory = self.constant_table(&constant.name, &constant.ty, &values, constant.span)?;
        self.tables.insert(id, memory);
        Ok(memory)
    }

    /// Evaluates an array into memory `to`. `fresh` is true if the expression cannot access the memory `to`.
    pub(crate) fn array_into(&mut self, expr: &Expr, to: MemId, fresh: bool) -> Fallible<()> {
        let span = expr.span;
        match &expr.kind {
            ExprKind::Array(parts) => {
                let extents = self.sizes(to, span)?;
                let element = self.element_type(&expr.ty, span)?;
                if elements(&extents) != parts.len() as u64 {
                    return Err(other_extents(span, &[parts.len() as u32], &extents));
                }
                if fresh {
                    return self.store_elements(to, &extents, &element, parts);
                }
                let mut values = Vec::with_capacity(parts.len());
                for part in parts {
                    values.push(self.value_as(part, &element)?);
                }
                for (position, leaves) in values.iter().enumerate() {
                    let at = self.tuple_of(position as u64, &extents, span);
                    self.store_element(to, &at, leaves, span);
                }
                Ok(())
            }
            ExprKind::Call { callee, args } if fresh => match self.mono.function(callee, span)? {
                FunctionInstance::Fn { id, arguments } => {
                    self.call_instance(id, &arguments, args, Some(to), span).map(drop)
                }
                FunctionInstance::Builtin(_) => Err(internal(span, "a builtin that gives an array in a kernel")),
            },
            ExprKind::If { cond, then, other: Some(other) } => {
                let cond = self.scalar(cond)?;
                if let Some(known) = self.out.const_value(cond) {
                    return self.block_into(if known.bits != 0 { then } else { other }, to, fresh);
                }
                let (then, then_done) = self.branch_into(then, to, fresh)?;
                let (other, other_done) = self.branch_into(other, to, fresh)?;
                self.out.stmt(StmtKind::If { cond, then, other }, span);
                if then_done && other_done {
                    self.out.set_done();
                }
                Ok(())
            }
            ExprKind::Block(block) => self.block_into(block, to, fresh),
            ExprKind::Local(_)
            | ExprKind::Const(_)
            | ExprKind::Call { .. }
            | ExprKind::Field { .. }
            | ExprKind::TupleField { .. } => {
                let from = self.array(expr)?;
                self.copy(from, to, span)
            }
            ExprKind::Slice { base, indices } => {
                let row = self.row(base, indices, expr)?;
                self.transfer(&row, &ArraySlice::whole(to, row.extents.clone()), span)
            }
            _ => Err(self.not_of_threads(span)),
        }
    }

    /// Resolves the slice `m[i, ..]` and evaluates its indices.
    pub fn row(&mut self, base: &Expr, indices: &[SliceIndex], expr: &Expr) -> Fallible<ArraySlice> {
        self.check_unmodified(expr)?;
        let memory = self.array(base)?;
        let Type::Array(array) = &expr.ty else { return Err(internal(expr.span, "a row that is no array")) };
        let extents = types::extents(array, expr.span)?;
        let mut axes = Vec::with_capacity(indices.len());
        for (axis, index) in indices.iter().enumerate() {
            axes.push(match index {
                SliceIndex::At(index) => {
                    let value = self.scalar(index)?;
                    self.check_constant_index(memory, axis, value, index, base)?;
                    Some(value)
                }
                SliceIndex::Range { start: None, end: None, step: None, .. } => None,
                _ => return Err(self.not_of_threads(expr.span)),
            });
        }
        Ok(ArraySlice { memory, axes, extents })
    }

    /// Copies a slice into new thread-local memory.
    pub(crate) fn copy_slice(&mut self, row: &ArraySlice, span: Span) -> Fallible<MemId> {
        let array = &self.out.function().memories[row.memory];
        let (name, layout) = (array.name.clone(), array.layout.clone());
        let memory = self.fresh_memory(&name, layout, &row.extents, span)?;
        self.transfer(row, &ArraySlice::whole(memory, row.extents.clone()), span)?;
        Ok(memory)
    }

    /// Writes a modified copy of a slice back.
    pub(crate) fn write_back_slice(&mut self, row: &ArraySlice, from: MemId, span: Span) -> Fallible<()> {
        self.transfer(&ArraySlice::whole(from, row.extents.clone()), row, span)
    }

    /// Copies all elements of a slice to another slice with the same extents.
    fn transfer(&mut self, from: &ArraySlice, to: &ArraySlice, span: Span) -> Fallible<()> {
        if self.out.is_done() {
            return Ok(());
        }
        self.each_of(&from.extents, span, &mut |this, at| {
            let leaves = this.element_at(from.memory, &from.at(at), span)?;
            this.store_element(to.memory, &to.at(at), &leaves, span);
            Ok(())
        })
    }

    /// Emits code for each index tuple within `extents`: straight-line code for small arrays, a loop for larger arrays.
    fn each_of(
        &mut self,
        extents: &[u32],
        span: Span,
        each: &mut dyn FnMut(&mut Self, &[ExprId]) -> Fallible<()>,
    ) -> Fallible<()> {
        let count = elements(extents);
        if count > STRAIGHT {
            return self.for_all(extents, span, each);
        }
        for position in 0..count {
            let at = self.tuple_of(position, extents, span);
            each(self, &at)?;
        }
        Ok(())
    }

    /// Lowers a block whose value is an array. Evaluates the value into `to`.
    pub(crate) fn block_into(&mut self, block: &Block, to: MemId, fresh: bool) -> Fallible<()> {
        self.stmts(block);
        match &block.tail {
            Some(tail) if !self.out.is_done() => self.array_into(tail, to, fresh),
            _ => Ok(()),
        }
    }

    fn branch_into(&mut self, block: &Block, to: MemId, fresh: bool) -> Fallible<(def::Block, bool)> {
        self.out.open();
        let lowered = self.block_into(block, to, fresh);
        let closed = self.out.close();
        lowered.map(|()| closed)
    }

    /// Copies all elements of an array.
    pub fn copy(&mut self, from: MemId, to: MemId, span: Span) -> Fallible<()> {
        if from == to || self.out.is_done() {
            return Ok(());
        }
        let (source_extents, extents) = (self.sizes(from, span)?, self.sizes(to, span)?);
        if source_extents != extents {
            return Err(other_extents(span, &source_extents, &extents));
        }
        self.transfer(&ArraySlice::whole(from, source_extents), &ArraySlice::whole(to, extents), span)
    }

    /// Returns the extents of an array to be copied, which must be compile-time constants.
    pub fn sizes(&self, memory: MemId, span: Span) -> Fallible<Vec<u32>> {
        let array = &self.out.function().memories[memory];
        let extents = (0..array.extents.len()).map(|axis| self.known_extent(memory, axis as u8));
        extents.collect::<Option<Vec<u32>>>().ok_or_else(|| unknown_extents(&array.name, span))
    }

    fn extents_of(&mut self, expr: &Expr) -> Fallible<Vec<u32>> {
        let Type::Array(array) = &expr.ty else { return Err(self.not_of_threads(expr.span)) };
        let constant = |dim: &Dim| if let Dim::Known(n) = dim { Some(i128::from(*n)) } else { None };
        if let Some(constant_extents) = array.dims.iter().map(constant).collect::<Option<Vec<i128>>>() {
            return constant_extents.into_iter().map(|n| size(n, "array", expr.span)).collect();
        }
        match &expr.kind {
            ExprKind::Local(_) | ExprKind::Const(_) => {
                let memory = self.array(expr)?;
                self.sizes(memory, expr.span)
            }
            ExprKind::Call { callee, .. } => match self.mono.function(callee, expr.span)? {
                FunctionInstance::Fn { id, arguments } => self.result_extents(id, &arguments, expr.span),
                FunctionInstance::Builtin(_) => Err(internal(expr.span, "a builtin that gives an array in a kernel")),
            },
            ExprKind::Block(block) => self.extents_of_block(block, expr.span),
            ExprKind::If { then, other, .. } => match (&then.tail, other) {
                (None, Some(other)) => self.extents_of_block(other, expr.span),
                _ => self.extents_of_block(then, expr.span),
            },
            _ => Err(unknown_extents("this array", expr.span)),
        }
    }

    fn extents_of_block(&mut self, block: &Block, span: Span) -> Fallible<Vec<u32>> {
        match &block.tail {
            Some(tail) => self.extents_of(tail),
            None => Err(unknown_extents("this array", span)),
        }
    }

    /// Returns the extents of an array-typed function result.
    pub(crate) fn result_extents(&self, id: FnId, arguments: &[GenericArgument], span: Span) -> Fallible<Vec<u32>> {
        let function = self.program.fns.get(id).ok_or_else(|| internal(span, "a function that is not there"))?;
        let Type::Array(array) = &function.result else { return Err(internal(span, "a result that is no array")) };
        let mut extents = Vec::with_capacity(array.dims.len());
        for dim in &array.dims {
            let extent = match dim {
                Dim::Known(n) => Some(i128::from(*n)),
                Dim::Expr(i) => match function.sig.dim_exprs.get(*i as usize) {
                    Some(expr) => ConstEvaluator::new(self.program, arguments).evaluate(expr)?.as_integer(),
                    None => None,
                },
                Dim::Name(_) | Dim::Local(_) | Dim::Unknown => None,
            };
            let extent = extent.ok_or_else(|| unknown_extents(&format!("the result of `{}`", function.name), span))?;
            extents.push(size(extent, &function.name, span)?);
        }
        Ok(extents)
    }

    /// Adds the array parameter that receives an array-typed function result.
    pub(crate) fn result_parameter(&mut self, id: FnId, arguments: &[GenericArgument], span: Span) -> Fallible<()> {
        let Type::Array(_) = &self.result else { return Ok(()) };
        let (extents, result) = (self.result_extents(id, arguments, span)?, self.result.clone());
        let element = self.element_type(&result, span)?;
        let layout = types::layout(self.program, &element, span)?;
        let memory = self.out.at(span).array_param("result", def::Access::Out, layout, extents.len());
        for (axis, extent) in extents.into_iter().enumerate() {
            self.fixed.insert((memory, axis as u8), extent);
        }
        self.result_array = Some(memory);
        Ok(())
    }
}

fn unknown_extents(name: &str, span: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0480", format!("the size of `{name}` is not known when the kernel is compiled"))
            .at(span, "a thread's own array is needed here, which has constant extents")
            .help("write the extents as numbers, constants or const parameters"),
    )
}

fn other_extents(span: Span, source: &[u32], destination: &[u32]) -> Box<Diagnostic> {
    let text = |extents: &[u32]| extents.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    Box::new(
        Diagnostic::error("E0305", format!("an array of {} does not fit one of {}", text(source), text(destination)))
            .at(span, "copied here"),
    )
}
