//! Lowers loops: `for` over ranges and arrays, `while`, `loop`.

use super::context::{BodyLowering, LoweredLocal};
use super::error::{Fallible, internal};
use super::types;
use clk_base::source::Span;
use clk_check::literal::NumberLiteral;
use clk_check::typed::{Block, Expr, ExprKind, LocalId, Type, Unroll};
use clk_ir::def::{self, CollectiveLoop, ExprId, Label, LocalId as IrLocal, MemId, Scalar, StmtKind, Ty};

/// The operands of a `for` over a range.
struct RangeExprs<'e> {
    start: Option<&'e Expr>,
    end: Option<&'e Expr>,
    step: Option<&'e Expr>,
    inclusive: bool,
}

/// The operands of a counted loop, which are evaluated once before the loop.
pub(super) struct LoopBounds {
    pub start: ExprId,
    pub end: ExprId,
    pub step: ExprId,
    pub inclusive: bool,
}

impl BodyLowering<'_, '_> {
    pub fn innermost(&self, span: Span) -> Fallible<Label> {
        self.loops.last().copied().ok_or_else(|| internal(span, "`break` or `continue` outside of a loop"))
    }

    pub fn for_(&mut self, var: LocalId, iter: &Expr, body: &Block, unroll: Unroll, span: Span) -> Fallible<()> {
        match &iter.kind {
            ExprKind::Range { start, end, inclusive, step } => {
                let (start, end, step) = (start.as_deref(), end.as_deref(), step.as_deref());
                self.for_range(var, RangeExprs { start, end, step, inclusive: *inclusive }, body, unroll, span)
            }
            ExprKind::Array(elements) => {
                let memory = self.literal_array(var, elements, iter)?;
                self.for_elements(var, memory, iter, body, unroll, span)
            }
            _ => {
                let memory = self.array_value_during(iter, body)?;
                self.for_elements(var, memory, iter, body, unroll, span)
            }
        }
    }

    fn for_range(
        &mut self,
        var: LocalId,
        range: RangeExprs<'_>,
        body: &Block,
        unroll: Unroll,
        span: Span,
    ) -> Fallible<()> {
        let declared = self.local(var, span)?;
        let ty = types::single(&self.mono.ty(&declared.ty, span)?, span)?;
        let RangeExprs { start, end, step, inclusive } = range;
        let end = end.ok_or_else(|| internal(span, "a `for` without an end"))?;
        let start = match start {
            Some(start) => self.operand_scalar(start)?,
            None => self.literal(NumberLiteral::Int(0), ty, span)?,
        };
        let end = self.operand_scalar(end)?;
        let step = match step {
            Some(step) => self.operand_scalar(step)?,
            None => self.literal(NumberLiteral::Int(1), ty, span)?,
        };
        let counter = self.out.local(declared.name.as_str(), ty, declared.span);
        if [start, end, step].into_iter().all(|bound| self.is_block_uniform(bound)) {
            self.counters.insert(counter);
        }
        let bounds = LoopBounds { start, end, step, inclusive };
        self.counted(counter, bounds, unroll, span, |this| {
            let value = this.out.read(counter, declared.span);
            this.slots.insert(var, LoweredLocal::Value(vec![value]));
            this.effects(body)
        })
    }

    /// Lowers a `for` over the first axis of an array: iterates over an index and loads the element at the start of
    /// each iteration.
    fn for_elements(
        &mut self,
        var: LocalId,
        memory: MemId,
        iter: &Expr,
        body: &Block,
        unroll: Unroll,
        span: Span,
    ) -> Fallible<()> {
        let declared = self.local(var, span)?;
        let axes = self.out.function().memories[memory].extents.len();
        if axes != 1 {
            return Err(internal(iter.span, format!("a `for` over an array of {axes} axes")));
        }
        let index = Ty::Scalar(Scalar::I32);
        let bounds = LoopBounds {
            start: self.out.i32(0, span),
            end: self.extent(memory, 0, iter.span),
            step: self.out.i32(1, span),
            inclusive: false,
        };
        let counter = self.out.local(format!("{}_at", declared.name), index, declared.span);
        self.counted(counter, bounds, unroll, span, |this| {
            let at = this.out.read(counter, declared.span);
            let element = this.element_at(memory, &[at], iter.span)?;
            let ty = this.mono.ty(&declared.ty, span)?;
            this.bind_debug_locals(&declared.name, &ty, &element, declared.span)?;
            this.slots.insert(var, LoweredLocal::Value(element));
            this.effects(body)
        })
    }

    /// Emits a counted loop. `fill` lowers its body.
    pub(super) fn counted(
        &mut self,
        local: IrLocal,
        bounds: LoopBounds,
        unroll: Unroll,
        span: Span,
        fill: impl FnOnce(&mut Self) -> Fallible<()>,
    ) -> Fallible<()> {
        self.counted_collective(local, bounds, unroll, None, span, fill)
    }

    /// Like `counted`, and annotates the loop with the collective operation of the block that it implements.
    pub(super) fn counted_collective(
        &mut self,
        local: IrLocal,
        bounds: LoopBounds,
        unroll: Unroll,
        collective: Option<CollectiveLoop>,
        span: Span,
        fill: impl FnOnce(&mut Self) -> Fallible<()>,
    ) -> Fallible<()> {
        let label = self.out.label();
        let body = self.iteration(label, fill)?;
        let LoopBounds { start, end, step, inclusive } = bounds;
        let unroll = hint(unroll);
        self.out.stmt(StmtKind::For { label, local, start, end, step, inclusive, unroll, collective, body }, span);
        Ok(())
    }

    /// Lowers the body of the loop `label` to a block.
    fn iteration(&mut self, label: Label, fill: impl FnOnce(&mut Self) -> Fallible<()>) -> Fallible<def::Block> {
        self.loops.push(label);
        self.out.open();
        let filled = fill(self);
        let (body, _) = self.out.close();
        self.loops.pop();
        filled.map(|()| body)
    }

    pub(crate) fn while_(&mut self, cond: &Expr, body: &Block, unroll: Unroll, span: Span) -> Fallible<()> {
        let label = self.out.label();
        let block = self.iteration(label, |this| {
            let holds = this.scalar(cond)?;
            this.out.open();
            this.out.stmt(StmtKind::Break(label), cond.span);
            let (leave, _) = this.out.close();
            match this.out.const_value(holds).map(|known| known.bits != 0) {
                Some(true) => {}
                Some(false) => this.out.stmt(StmtKind::Break(label), cond.span),
                None => this.out.stmt(StmtKind::If { cond: holds, then: vec![], other: leave }, cond.span),
            }
            this.effects(body)
        })?;
        self.out.stmt(StmtKind::Loop { label, unroll: hint(unroll), body: block }, span);
        Ok(())
    }

    pub fn loop_(&mut self, body: &Block, span: Span) -> Fallible<()> {
        let label = self.out.label();
        let block = self.iteration(label, |this| this.effects(body))?;
        let leaves = breaks(&block, label);
        self.out.stmt(StmtKind::Loop { label, unroll: def::Unroll::Auto, body: block }, span);
        if !leaves {
            self.out.set_done();
        }
        Ok(())
    }

    /// Emits nested counted loops over all index tuples within `extents`, for operations on whole arrays.
    pub(crate) fn for_all(
        &mut self,
        extents: &[u32],
        span: Span,
        fill: &mut dyn FnMut(&mut Self, &[ExprId]) -> Fallible<()>,
    ) -> Fallible<()> {
        let mut at = Vec::with_capacity(extents.len());
        self.for_axis(extents, &mut at, span, fill)
    }

    fn for_axis(
        &mut self,
        extents: &[u32],
        at: &mut Vec<ExprId>,
        span: Span,
        fill: &mut dyn FnMut(&mut Self, &[ExprId]) -> Fallible<()>,
    ) -> Fallible<()> {
        let Some(&extent) = extents.get(at.len()) else { return fill(self, at) };
        let bounds = LoopBounds {
            start: self.out.i32(0, span),
            end: self.out.i32(extent as i32, span),
            step: self.out.i32(1, span),
            inclusive: false,
        };
        let counter = self.out.local(format!("axis_{}", at.len()), Ty::Scalar(Scalar::I32), span);
        self.counted(counter, bounds, Unroll::Auto, span, |this| {
            let index = this.out.read(counter, span);
            at.push(index);
            let filled = this.for_axis(extents, at, span, fill);
            at.pop();
            filled
        })
    }

    fn literal_array(&mut self, var: LocalId, elements: &[Expr], iter: &Expr) -> Fallible<MemId> {
        let declared = self.local(var, iter.span)?;
        let element = match self.mono.ty(&declared.ty, iter.span)? {
            Type::Array(_) => return Err(internal(iter.span, "a `for` over rows")),
            element => element,
        };
        self.filled_array(&format!("{}_of", declared.name), &element, elements, iter.span)
    }
}

fn hint(unroll: Unroll) -> def::Unroll {
    match unroll {
        Unroll::Auto => def::Unroll::Auto,
        Unroll::Full => def::Unroll::Full,
        Unroll::By(n) => def::Unroll::By(n),
        Unroll::Never => def::Unroll::Never,
    }
}

/// Returns whether a statement in the block breaks out of the loop or block `label`.
fn breaks(block: &def::Block, label: Label) -> bool {
    block.iter().any(|stmt| match &stmt.kind {
        StmtKind::Break(target) => *target == label,
        StmtKind::If { then, other, .. } => breaks(then, label) || breaks(other, label),
        StmtKind::For { body, .. } | StmtKind::Loop { body, .. } | StmtKind::Block { body, .. } => breaks(body, label),
        _ => false,
    })
}
