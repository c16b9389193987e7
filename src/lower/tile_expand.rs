//! Expands tile statements to loops and barriers.
//!
//! Input: a tile statement. Output: loops between barriers, in which each of the n threads of a block computes every
//! n-th element. Intermediate tiles are fused into these loops. A tile is stored in shared memory only if other threads
//! need its elements: sums, operands of products, and values that depend on the array being written.

use super::arrays::elements;
use super::context::BodyLowering;
use super::error::{Fallible, internal};
use super::loops::LoopBounds;
use super::mma_emulation::MmaFormat;
use super::tile_expr::{AxisRange, TileAxisIndex, TileElementOp, TileExpr, TileNode, TileWindow};
use super::tile_stmt::{TileReductionOp, TileRegion, TileStmt};
use clk_base::source::Span;
use clk_ir::def::{
    self, Axis, BinOp, BuiltinIndex, CollectiveGemm, CollectiveLoop, ElementLayout, ExprId, Extent, MemId, MemorySpace,
    Scalar, StmtKind, Ty,
};
use clk_scalar::ops::BarrierKind;
use clk_syntax::ast;

const I32: Ty = Ty::Scalar(Scalar::I32);

impl BodyLowering<'_, '_> {
    /// Emits the code of a tile statement for the threads of a block.
    pub(super) fn expand(&mut self, stmt: &TileStmt, span: Span) -> Fallible<()> {
        match stmt {
            // The code that shares a value is emitted where the value is.
            TileStmt::Declare(_) | TileStmt::Uniform { .. } => Ok(()),
            TileStmt::Assign { to, target, op, value, reads_memory } => {
                let mut from = value.clone();
                if let Some(op) = *op {
                    from = self.each(TileElementOp::Binary(op), vec![to.clone(), from], to.scalar, span)?;
                }
                if from.reads_elsewhere(target, &to.shape) {
                    from.node = TileNode::Part(self.materialize(&from)?);
                }
                if *reads_memory {
                    self.barrier_here(span);
                }
                self.own_elements(&to.shape, span, &mut |this, at| {
                    let own = this.broadcast_index(at, &from.shape, span);
                    let value = this.tile_element(&from, &own)?;
                    this.store_window_element(target, at, value, span)
                })?;
                self.barrier_here(span);
                Ok(())
            }
            TileStmt::Reduce { to, of, axis, fold } => self.expand_reduction(to, of, *axis, *fold, span),
            TileStmt::Product { to, acc, a, b } => self.expand_product(to, acc.clone(), a, b, span),
        }
    }

    /// Marks the statements of the open block from the position `start` on as a region, if this is the body of a kernel
    /// that may become a tile program.
    pub(super) fn wrap_region(&mut self, start: usize, region: TileRegion, span: Span) {
        let is_needed = self.out.open_len() > start || matches!(region, TileRegion::Stmt(_));
        if let (Some(regions), true) = (&mut self.regions, is_needed) {
            self.out.wrap_open(start, TileRegion::label(regions.len()), span);
            regions.push(region);
        }
    }

    // Tiles in shared memory

    /// Returns shared memory for a tile. Reuses the memory of an earlier assignment if the type and the shape match.
    pub(super) fn memory_for(&mut self, shape: &[u32], scalar: Scalar, span: Span) -> TileWindow {
        let extents: Vec<Extent> = shape.iter().map(|&n| Extent::Known(n)).collect();
        let layout = ElementLayout::plain(Ty::Scalar(scalar));
        let memories = &self.out.function().memories;
        let matches_tile = |&memory: &MemId| memories[memory].layout == layout && memories[memory].extents == extents;
        let memory = match self.reusable_memories.iter().position(matches_tile) {
            Some(at) => self.reusable_memories.swap_remove(at),
            None => self.out.at(span).memory("tile", MemorySpace::Shared, layout, extents),
        };
        self.tile_memories.push(memory);
        TileWindow { memory, axes: vec![TileAxisIndex::From(AxisRange::ALL); shape.len()] }
    }

    /// Returns the window of shared memory that contains an operand of a product. A whole shared array that the product
    /// does not write is used directly; any other operand is computed into shared memory.
    fn factor_in_memory(&mut self, tile: &TileExpr, target: &TileWindow) -> Fallible<TileWindow> {
        if let TileNode::Part(part) = &tile.node {
            let memory = &self.out.function().memories[part.memory];
            let is_whole =
                part.is_whole() && tile.shape.iter().map(|&n| Extent::Known(n)).eq(memory.extents.iter().copied());
            if memory.space == MemorySpace::Shared && is_whole && part.memory != target.memory {
                return Ok(part.clone());
            }
        }
        self.materialize(tile)
    }

    /// Computes a tile into shared memory.
    fn materialize(&mut self, tile: &TileExpr) -> Fallible<TileWindow> {
        let window = self.memory_for(&tile.shape, tile.scalar, tile.span);
        self.materialize_in(tile, &window)?;
        Ok(window)
    }

    fn materialize_in(&mut self, tile: &TileExpr, window: &TileWindow) -> Fallible<()> {
        self.barrier_here(tile.span);
        let collective = self.as_tile_copy(tile, window.memory).map(|copied| CollectiveLoop::Copy(Box::new(copied)));
        self.own_elements_collective(&tile.shape, collective, tile.span, &mut |this, at| {
            let value = this.tile_element(tile, at)?;
            this.store_window_element(window, at, value, tile.span)
        })?;
        self.barrier_here(tile.span);
        Ok(())
    }

    fn expand_reduction(
        &mut self,
        to: &TileWindow,
        of: &TileExpr,
        axis: usize,
        fold: TileReductionOp,
        span: Span,
    ) -> Fallible<()> {
        self.materialize_in(of, to)?;
        let mut left = of.shape[axis];
        while left > 1 {
            let half = left.next_power_of_two() / 2;
            let mut shape = of.shape.clone();
            shape[axis] = left - half;
            self.own_elements(&shape, span, &mut |this, at| {
                let mut upper = at.to_vec();
                let half = this.out.i32(half as i32, span);
                upper[axis] = this.out.binary(BinOp::Add, upper[axis], half, span);
                let [low, high] = [at, &upper].map(|at| this.load_window_element(to, at, of.scalar, false, span));
                let value = this.reduce_pair(fold, low, high, span)?;
                this.store_window_element(to, at, value, span)
            })?;
            self.barrier_here(span);
            left = half;
        }
        Ok(())
    }

    pub(super) fn reduce_pair(
        &mut self,
        fold: TileReductionOp,
        low: ExprId,
        high: ExprId,
        span: Span,
    ) -> Fallible<ExprId> {
        match fold {
            TileReductionOp::Operator(op) => self.apply(op, low, high, span, span),
            TileReductionOp::Math(function) => Ok(self.math(function, &[low, high], span)),
        }
    }

    /// Returns the arithmetic of products of these types; `None` if there are no such products.
    pub(super) fn product_format(&self, sum: Scalar, factor: Scalar) -> Option<MmaFormat> {
        match (sum, factor) {
            // `f32` operands are rounded to `tf32`.
            (Scalar::F32, Scalar::F32) => Some(MmaFormat::tf32(self.unit.sums)),
            (Scalar::F32, narrow) => MmaFormat::of(narrow, self.unit.sums),
            // In an `f64` shadow, operands and sums are not rounded.
            (Scalar::F64, Scalar::F64) => Some(MmaFormat::Exact),
            _ => None,
        }
    }

    fn expand_product(
        &mut self,
        target: &TileWindow,
        mut acc: TileExpr,
        a: &TileExpr,
        b: &TileExpr,
        span: Span,
    ) -> Fallible<()> {
        let format = self.product_format(acc.scalar, a.scalar);
        let format = format.ok_or_else(|| internal(span, "a product of these types"))?;
        let &[_, k] = a.shape.as_slice() else { return Err(internal(span, "a product of tiles that are no matrices")) };
        let shape = &acc.shape.clone();
        if acc.reads_elsewhere(target, shape) {
            acc.node = TileNode::Part(self.materialize(&acc)?);
        }
        let (scalar, of_left, of_right) = (a.scalar, a.span, b.span);
        let (a, b) = (self.factor_in_memory(a, target)?, self.factor_in_memory(b, target)?);
        if !matches!(&acc.node, TileNode::Part(part) if part == target) {
            self.own_elements(shape, span, &mut |this, at| {
                let value = this.tile_element(&acc, at)?;
                this.store_window_element(target, at, value, span)
            })?;
        }
        // The last group of products may extend beyond the operands.
        let size = format.group();
        let guarded = k % size != 0;
        self.barrier_here(span);
        let factors = CollectiveLoop::Gemm(CollectiveGemm {
            sum: target.memory,
            left: a.memory,
            right: b.memory,
            precision: format.sums(),
        });
        self.own_elements_collective(shape, Some(factors), span, &mut |this, at| {
            let first = this.load_window_element(target, at, acc.scalar, false, span);
            let sum = this.out.local("sum", Ty::Scalar(acc.scalar), span);
            this.out.stmt(StmtKind::Write { local: sum, value: first }, span);
            let steps = k.div_ceil(size);
            this.for_all(&[steps], span, &mut |this, step| {
                let mut terms = Vec::with_capacity(size as usize);
                let group = this.out.i32(size as i32, span);
                let from = this.out.binary(BinOp::Mul, step[0], group, span);
                for term in 0..size.min(k) {
                    let by = this.out.i32(term as i32, span);
                    let index = this.out.binary(BinOp::Add, from, by, span);
                    let left = this.load_window_element(&a, &[at[0], index], scalar, guarded, of_left);
                    let right = this.load_window_element(&b, &[index, at[1]], scalar, guarded, of_right);
                    terms.push((left, right));
                }
                let before = this.out.read(sum, span);
                let after = this.tensor_step(format, before, &terms, span);
                this.out.stmt(StmtKind::Write { local: sum, value: after }, span);
                Ok(())
            })?;
            let value = this.out.read(sum, span);
            this.store_window_element(target, at, value, span)
        })?;
        self.barrier_here(span);
        Ok(())
    }

    // Elements

    /// Computes an element of a tile.
    pub(super) fn tile_element(&mut self, tile: &TileExpr, at: &[ExprId]) -> Fallible<ExprId> {
        let span = tile.span;
        match &tile.node {
            TileNode::Same(value) => Ok(*value),
            TileNode::Count => Ok(at[0]),
            TileNode::Part(part) => Ok(self.load_window_element(part, at, tile.scalar, false, span)),
            TileNode::Transposed(of) => {
                let at: Vec<ExprId> = at.iter().rev().copied().collect();
                self.tile_element(of, &at)
            }
            TileNode::Reshaped(of) => {
                let position = self.position_of(at, &tile.shape, span);
                let at = self.indices_of(position, &of.shape, span);
                self.tile_element(of, &at)
            }
            TileNode::Each(step, parts) => {
                let mut values = Vec::with_capacity(parts.len());
                for part in parts {
                    let own = self.broadcast_index(at, &part.shape, span);
                    values.push(self.tile_element(part, &own)?);
                }
                self.step(step, &values, span)
            }
        }
    }

    fn step(&mut self, step: &TileElementOp, values: &[ExprId], span: Span) -> Fallible<ExprId> {
        match (step, values) {
            (TileElementOp::Unary(op), &[value]) => Ok(self.unary_value(*op, value, span)),
            (TileElementOp::Binary(op), &[left, right]) => self.apply(*op, left, right, span, span),
            (TileElementOp::Convert(to), &[value]) => Ok(self.convert(value, *to, span)),
            (TileElementOp::Builtin(builtin), values) => {
                let args: Vec<Vec<ExprId>> = values.iter().map(|&value| vec![value]).collect();
                let results = self.pure_builtin(*builtin, &args, span)?;
                results.first().copied().ok_or_else(|| internal(span, "a builtin without a result"))
            }
            (TileElementOp::Call(function, ty), values) => {
                let result = self.out.result(*ty, span);
                let kind = StmtKind::Call {
                    function: *function,
                    args: values.to_vec(),
                    memories: vec![],
                    results: vec![result],
                };
                self.out.stmt(kind, span);
                Ok(result)
            }
            _ => Err(internal(span, "an operation on another number of tiles")),
        }
    }

    /// Maps the index of an element to the index of the corresponding element in a tile of this shape that is
    /// broadcast.
    pub(super) fn broadcast_index(&mut self, at: &[ExprId], shape: &[u32], span: Span) -> Vec<ExprId> {
        let own = &at[at.len().saturating_sub(shape.len())..];
        own.iter().zip(shape).map(|(&index, &n)| if n == 1 { self.out.i32(0, span) } else { index }).collect()
    }

    pub(super) fn position_of(&mut self, at: &[ExprId], shape: &[u32], span: Span) -> ExprId {
        let mut position = self.out.i32(0, span);
        for (&index, &n) in at.iter().zip(shape) {
            let n = self.out.i32(n as i32, span);
            let scaled = self.out.binary(BinOp::Mul, position, n, span);
            position = self.out.binary(BinOp::Add, scaled, index, span);
        }
        position
    }

    pub(super) fn indices_of(&mut self, position: ExprId, shape: &[u32], span: Span) -> Vec<ExprId> {
        let (mut rest, mut at) = (position, vec![]);
        for (axis, &n) in shape.iter().enumerate().rev() {
            let n = self.out.i32(n as i32, span);
            at.push(if axis == 0 { rest } else { self.out.binary(BinOp::Rem, rest, n, span) });
            if axis > 0 {
                rest = self.out.binary(BinOp::Div, rest, n, span);
            }
        }
        at.reverse();
        at
    }

    // Loops and barriers

    /// Emits a barrier of the block, unless the last statement is already such a barrier.
    pub(super) fn barrier_here(&mut self, span: Span) {
        if self.out.ends_with_barrier() {
            return;
        }
        self.out.stmt(StmtKind::Barrier { kind: BarrierKind::Block, value: None, result: None }, span);
    }

    /// Loops over the elements of a tile that this thread computes.
    fn own_elements(
        &mut self,
        shape: &[u32],
        span: Span,
        fill: &mut dyn FnMut(&mut Self, &[ExprId]) -> Fallible<()>,
    ) -> Fallible<()> {
        self.own_elements_collective(shape, None, span, fill)
    }

    /// Like `own_elements`, but annotates the loop with the collective operation that it implements.
    fn own_elements_collective(
        &mut self,
        shape: &[u32],
        collective: Option<CollectiveLoop>,
        span: Span,
        fill: &mut dyn FnMut(&mut Self, &[ExprId]) -> Fallible<()>,
    ) -> Fallible<()> {
        let mut id = |id: BuiltinIndex, axis: Axis| self.out.value(def::ExprKind::Id(id, axis), I32, span);
        let (threads, own) = [Axis::Z, Axis::Y, Axis::X]
            .map(|axis| (id(BuiltinIndex::BlockDim, axis), id(BuiltinIndex::Thread, axis)))
            .into_iter()
            .fold((None, None), |(threads, own): (Option<ExprId>, Option<ExprId>), (dim, at)| {
                let own = match own {
                    Some(own) => {
                        let scaled = self.out.binary(BinOp::Mul, own, dim, span);
                        self.out.binary(BinOp::Add, scaled, at, span)
                    }
                    None => at,
                };
                let threads = threads.map_or(dim, |threads| self.out.binary(BinOp::Mul, threads, dim, span));
                (Some(threads), Some(own))
            });
        let (Some(step), Some(start)) = (threads, own) else { return Err(internal(span, "a block without threads")) };
        let end = self.out.i32(elements(shape) as i32, span);
        let shape = shape.to_vec();
        let number = self.out.local("number", I32, span);
        let bounds = LoopBounds { start, end, step, inclusive: false };
        self.counted_collective(number, bounds, ast::Unroll::Auto, collective, span, |this| {
            let position = this.out.read(number, span);
            let at = this.indices_of(position, &shape, span);
            fill(this, &at)
        })
    }
}
