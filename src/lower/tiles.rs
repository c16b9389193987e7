//! Lowers tile expressions: operations on whole arrays that the threads of a block compute together.
//!
//! Input: an assignment to a shared array or to a window of an array, or a reduction. Output: loops between barriers,
//! in which each of the n threads of a block computes every n-th element. Intermediate tiles are fused into these
//! loops. A tile is stored in shared memory only if other threads need its elements: sums, operands of products, and
//! values that depend on the array being written. Elements beyond the edge of an array read as zero and are not stored.

use std::collections::HashSet;

use super::arrays::elements;
use super::context::{BodyLowering, LoweredLocal};
use super::error::{Fallible, internal};
use super::instance::FunctionInstance;
use super::loops::LoopBounds;
use super::mma_emulation;
use super::tile_expr::{
    AxisRange, TileAxisIndex, TileElementOp, TileExpr, TileNode, TileWindow, broadcast, shape_text,
};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::tiles::is_tf32;
use clk_check::typed::{Expr, ExprKind, FnRef, SmolStr, Type};
use clk_ir::def::{
    self, Axis, BinOp, BuiltinIndex, CacheHint, CollectiveGemm, CollectiveLoop, ElementLayout, ExprId, Extent, MemId,
    MemorySpace, Place, Scalar, StmtKind, Ty,
};
use clk_scalar::ScalarValue;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BarrierKind, BinaryOp, MathFn};
use clk_syntax::ast;

const I32: Ty = Ty::Scalar(Scalar::I32);

impl BodyLowering<'_, '_> {
    /// Returns whether all threads of a block perform an assignment to this place together.
    pub(super) fn is_tile(&self, place: &Expr) -> Fallible<bool> {
        let (array, is_part) = match &place.kind {
            ExprKind::Slice { base, .. } => (&**base, true),
            _ => (place, false),
        };
        let ExprKind::Local(id) = array.kind else { return Ok(false) };
        let LoweredLocal::Array(memory) = self.slot(id, place.span)? else { return Ok(false) };
        let memory = &self.out.function().memories[memory];
        Ok(match memory.space {
            MemorySpace::Shared => is_part || !memory.extents.is_empty(),
            MemorySpace::Global { .. } => is_part,
            _ => false,
        })
    }

    /// Lowers `place = value` and `place op= value` if `place` is a tile. Later assignments may reuse the shared memory
    /// of the intermediate tiles.
    pub(super) fn assign_tile(&mut self, place: &Expr, op: Option<BinaryOp>, value: &Expr, span: Span) -> Fallible<()> {
        self.lower_tile_assignment(place, op, value, span)?;
        self.reusable_memories.append(&mut self.tile_memories);
        Ok(())
    }

    fn lower_tile_assignment(&mut self, place: &Expr, op: Option<BinaryOp>, value: &Expr, span: Span) -> Fallible<()> {
        // All threads must have finished reading the old values before any thread writes.
        self.barrier_here(span);
        let before = self.out.function().exprs.len();
        let to = self.tile(place)?;
        let TileNode::Part(target) = to.node.clone() else { return Err(internal(span, "an assignment to a value")) };
        if let (None, ExprKind::Local(_), ExprKind::Builtin { builtin: Builtin::Mma, args, .. }) =
            (op, &place.kind, &value.kind)
            && let Some(acc) = args.first()
            && matches!(acc.kind, ExprKind::Local(_))
        {
            let acc = self.tile(acc)?;
            if acc.shape == to.shape {
                return self.product_into(acc, &target, args, value.span);
            }
        }
        let mut from = self.tile(value)?;
        if let Some(op) = op {
            let parts = vec![to.clone(), from];
            from = self.each(TileElementOp::Binary(op), parts, to.scalar, span)?;
        }
        self.check_tile_shape(&from, &to)?;
        if from.reads_elsewhere(&target, &to.shape) {
            from.node = TileNode::Part(self.materialize(&from)?);
        }
        let new = self.out.function().exprs.iter().skip(before);
        if new.into_iter().any(|(_, expr)| matches!(expr.kind, def::ExprKind::Load { .. })) {
            self.barrier_here(span);
        }
        self.own_elements(&to.shape.clone(), span, &mut |this, at| {
            let own = this.broadcast_index(at, &from.shape, span);
            let value = this.tile_element(&from, &own)?;
            this.store_window_element(&target, at, value, span)
        })?;
        self.barrier_here(span);
        Ok(())
    }

    /// Lowers a reduction of a whole array to one number.
    pub(super) fn tile_scalar(&mut self, expr: &Expr) -> Fallible<ExprId> {
        let before = self.tile_memories.len();
        let tile = self.tile(expr)?;
        // The memory of the result is not reused, because later code may read the result at any time.
        self.tile_memories.truncate(before);
        if !tile.shape.is_empty() {
            return Err(internal(expr.span, "an array is used as a number"));
        }
        let value = self.tile_element(&tile, &[])?;
        self.uniform.insert(value);
        Ok(value)
    }

    /// Returns a value that is uniform in the block (the same in all threads). If the value may differ, emits code in
    /// which the threads compare their values and report a fault if they differ.
    pub(super) fn shared_value(&mut self, value: ExprId, span: Span) -> ExprId {
        if self.block.is_some() || self.is_block_uniform(value) {
            return value;
        }
        let ty = self.out.ty(value);
        let memory = self.out.at(span).memory("value", MemorySpace::Shared, ElementLayout::plain(ty), vec![]);
        let place = Place { memory, indices: vec![], leaf: 0, component: None };
        let zero = self.out.i32(0, span);
        let mut cond = self.out.bool(true, span);
        for axis in [Axis::X, Axis::Y, Axis::Z] {
            let at = self.out.value(def::ExprKind::Id(BuiltinIndex::Thread, axis), I32, span);
            let first = self.out.binary(BinOp::Eq, at, zero, span);
            cond = self.out.binary(BinOp::And, cond, first, span);
        }
        let store = StmtKind::Store { place: place.clone(), value, hint: CacheHint::None };
        let then = vec![def::Stmt { kind: store, span }];
        self.barrier_here(span);
        self.out.stmt(StmtKind::If { cond, then, other: vec![] }, span);
        self.barrier_here(span);
        let first = self.out.value(def::ExprKind::Load { place, hint: CacheHint::None }, ty, span);
        let mut same = self.out.binary(BinOp::Eq, value, first, span);
        if ty.scalar().is_float() {
            let nan = [value, first].map(|x| self.math(MathFn::IsNan, &[x], span));
            let both = self.out.binary(BinOp::And, nan[0], nan[1], span);
            same = self.out.binary(BinOp::Or, same, both, span);
        }
        let message = "the threads of a block compute one tile, but this value differs between them";
        self.out.stmt(StmtKind::Assert { cond: same, message: vec![def::MessageSegment::Text(message.into())] }, span);
        self.uniform.insert(first);
        first
    }

    /// Returns whether a value is uniform in the block, because it is computed from uniform values.
    pub(super) fn is_block_uniform(&self, value: ExprId) -> bool {
        use def::ExprKind::*;
        let function = self.out.function();
        let (mut visited, mut left) = (HashSet::new(), vec![value]);
        while let Some(id) = left.pop() {
            if self.uniform.contains(&id) || !visited.insert(id) {
                continue;
            }
            let shared = match &function.exprs[id].kind {
                Id(id, _) => matches!(id, BuiltinIndex::Block | BuiltinIndex::BlockDim | BuiltinIndex::GridDim),
                Read(local) => self.counters.contains(local),
                Load { place, .. } => {
                    let access = function.memories[place.memory].space;
                    matches!(access, MemorySpace::Constant | MemorySpace::Global { access: def::Access::In, .. })
                }
                Index(_) | LaneIdx | WarpIdx | Result => false,
                _ => true,
            };
            if !shared {
                return false;
            }
            function.exprs[id].kind.operands(|operand| left.push(operand));
        }
        true
    }

    /// Builds the error for an array expression that is not allowed because it is not part of a tile assignment.
    pub(super) fn not_of_threads(&self, span: Span) -> Box<Diagnostic> {
        if !self.unit.is_of_kernel() {
            return internal(span, "a host array in a function of one thread");
        }
        Box::new(
            Diagnostic::error("E0493", "a whole array is computed here, where each thread is on its own")
                .at(span, "the threads of a block compute arrays together, and into shared memory")
                .help("assign it to a shared array: `shared t: [f32; 16, 16]`, then `t = …`")
                .help("one element is `a[i, j]`"),
        )
    }

    // Expressions

    pub(super) fn tile(&mut self, expr: &Expr) -> Fallible<TileExpr> {
        let span = expr.span;
        let whole = matches!(expr.ty, Type::Array(_));
        match &expr.kind {
            ExprKind::Builtin { builtin: Builtin::Sum, args, named } => {
                self.reduce_tile(BinaryOp::Add.into(), args, named, span)
            }
            ExprKind::Builtin { builtin: Builtin::Math(f @ (MathFn::Min | MathFn::Max)), args, named }
                if args.len() == 1 || !named.is_empty() =>
            {
                self.reduce_tile(TileReductionOp::Math(*f), args, named, span)
            }
            _ if !whole => {
                let value = self.scalar(expr)?;
                let value = self.shared_value(value, span);
                Ok(TileExpr { shape: vec![], scalar: self.out.ty(value).scalar(), node: TileNode::Same(value), span })
            }
            ExprKind::Local(id) if self.tiles.contains_key(id) => Ok(self.tiles[id].clone()),
            ExprKind::Local(_) | ExprKind::Const(_) => {
                let memory = self.array(expr)?;
                self.part(memory, None, span)
            }
            ExprKind::Slice { base, indices } => {
                let memory = match base.kind {
                    ExprKind::Local(_) | ExprKind::Const(_) => self.array(base)?,
                    _ => return Err(not_a_tile_operation(base.span, "a part of this")),
                };
                self.part(memory, Some(indices), span)
            }
            ExprKind::Unary { op, expr: of } => {
                let of = self.tile(of)?;
                let scalar = of.scalar;
                self.each(TileElementOp::Unary(*op), vec![of], scalar, span)
            }
            ExprKind::Binary { op, left, right } => {
                let parts = vec![self.tile(left)?, self.tile(right)?];
                let scalar = if op.is_comparison() { Scalar::Bool } else { parts[0].scalar };
                self.each(TileElementOp::Binary(*op), parts, scalar, span)
            }
            ExprKind::Convert { to, expr: of } => {
                let of = self.tile(of)?;
                self.each(TileElementOp::Convert(*to), vec![of], *to, span)
            }
            ExprKind::ConvertParam { to, expr: of } => {
                let (to, of) = (self.mono.scalar_param(*to, span)?, self.tile(of)?);
                self.each(TileElementOp::Convert(to), vec![of], to, span)
            }
            ExprKind::Lift { callee, args } => self.lift_over_tiles(callee, args, span),
            ExprKind::Builtin { builtin: Builtin::Transpose, args, .. } if args.len() == 1 => {
                let of = self.tile(&args[0])?;
                let shape = of.shape.iter().rev().copied().collect();
                Ok(TileExpr { shape, scalar: of.scalar, node: TileNode::Transposed(Box::new(of)), span })
            }
            ExprKind::Builtin { builtin: Builtin::Reshape, args, .. } => self.reshape_tile(args, span),
            ExprKind::Builtin { builtin: Builtin::Arange, args, .. } if args.len() == 1 => {
                let count = self.known_number(&args[0])?;
                let scalar = self.element_of(expr)?;
                let count = TileExpr { shape: vec![count], scalar: Scalar::I32, node: TileNode::Count, span };
                self.each(TileElementOp::Convert(scalar), vec![count], scalar, span)
            }
            ExprKind::Builtin { builtin: Builtin::Mma, args, .. } => {
                let acc = args.first().ok_or_else(|| internal(span, "`mma` of nothing"))?;
                // In the `f64` shadow that a gradient check executes, the accumulator is `f64`.
                let acc = self.tile(acc)?;
                let (shape, scalar) = (acc.shape.clone(), acc.scalar);
                let target = self.memory_for(&shape, scalar, span);
                self.product_into(acc, &target, args, span)?;
                Ok(TileExpr { shape, scalar, node: TileNode::Part(target), span })
            }
            ExprKind::Builtin { builtin: builtin @ (Builtin::Math(_) | Builtin::Select), args, .. } => {
                let parts = args.iter().map(|arg| self.tile(arg)).collect::<Fallible<Vec<TileExpr>>>()?;
                let scalar = self.element_of(expr)?;
                self.each(TileElementOp::Builtin(*builtin), parts, scalar, span)
            }
            _ => Err(not_a_tile_operation(span, "this")),
        }
    }

    pub(super) fn element_of(&self, expr: &Expr) -> Fallible<Scalar> {
        match self.type_of(expr)? {
            Type::Array(array) => match self.mono.ty(&array.element, expr.span)? {
                Type::Scalar(scalar) => Ok(scalar),
                _ => Err(not_a_tile_operation(expr.span, "an array of vectors or structs")),
            },
            _ => Err(internal(expr.span, "a tile that is no array")),
        }
    }

    pub(super) fn number(&mut self, expr: &Expr) -> Fallible<Option<i128>> {
        let value = self.scalar(expr)?;
        Ok(self.out.const_value(value).and_then(ScalarValue::as_integer))
    }

    pub(super) fn known_number(&mut self, expr: &Expr) -> Fallible<u32> {
        let count = self.number(expr)?.ok_or_else(|| unknown_tile_extent(expr.span))?;
        super::arrays::size(count, "a tile", expr.span)
    }

    pub(super) fn each(
        &mut self,
        step: TileElementOp,
        parts: Vec<TileExpr>,
        scalar: Scalar,
        span: Span,
    ) -> Fallible<TileExpr> {
        let mut shape: Vec<u32> = vec![];
        for part in &parts {
            shape = broadcast(&shape, &part.shape).ok_or_else(|| other_shapes(&parts, span))?;
        }
        Ok(TileExpr { shape, scalar, node: TileNode::Each(step, parts), span })
    }

    fn lift_over_tiles(&mut self, callee: &FnRef, args: &[Expr], span: Span) -> Fallible<TileExpr> {
        let parts = args.iter().map(|arg| self.tile(arg)).collect::<Fallible<Vec<TileExpr>>>()?;
        match self.mono.function(callee, span)? {
            FunctionInstance::Builtin(builtin) => {
                let scalar = parts.first().map_or(Scalar::F32, |part| part.scalar);
                self.each(TileElementOp::Builtin(builtin), parts, scalar, span)
            }
            FunctionInstance::Fn { id, arguments } => {
                let function = self.unit.instance(id, &arguments, span)?;
                let of = &self.unit.functions[function];
                let (&[ty @ Ty::Scalar(scalar)], true) = (of.results.as_slice(), of.memories.is_empty()) else {
                    return Err(not_a_tile_operation(span, "a function that does not give one number"));
                };
                self.each(TileElementOp::Call(function, ty), parts, scalar, span)
            }
        }
    }

    fn reshape_tile(&mut self, args: &[Expr], span: Span) -> Fallible<TileExpr> {
        let [of, dims @ ..] = args else { return Err(internal(span, "`reshape` of nothing")) };
        let of = self.tile(of)?;
        let mut shape = vec![];
        let mut open = None;
        for extent_arg in dims {
            let parts = match &extent_arg.kind {
                ExprKind::Tuple(parts) => parts.as_slice(),
                _ if matches!(extent_arg.ty, Type::Tuple(_)) => return Err(unknown_tile_extent(extent_arg.span)),
                _ => std::slice::from_ref(extent_arg),
            };
            for part in parts {
                if self.number(part)? == Some(-1) {
                    open = Some(shape.len());
                    shape.push(1);
                } else {
                    shape.push(self.known_number(part)?);
                }
            }
        }
        if let Some(axis) = open {
            shape[axis] = u32::try_from(elements(&of.shape) / elements(&shape).max(1)).unwrap_or(u32::MAX);
        }
        if elements(&shape) != elements(&of.shape) {
            return Err(other_shapes(
                &[of, TileExpr { shape, scalar: Scalar::I32, node: TileNode::Count, span }],
                span,
            ));
        }
        Ok(TileExpr { shape, scalar: of.scalar, node: TileNode::Reshaped(Box::new(of)), span })
    }

    // Tiles in shared memory

    /// Returns shared memory for a tile. Reuses the memory of an earlier assignment if the type and the shape match.
    fn memory_for(&mut self, shape: &[u32], scalar: Scalar, span: Span) -> TileWindow {
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
            let is_whole = part.axes.iter().all(|along| *along == TileAxisIndex::From(AxisRange::ALL))
                && tile.shape.iter().map(|&n| Extent::Known(n)).eq(memory.extents.iter().copied());
            if memory.space == MemorySpace::Shared && is_whole && part.memory != target.memory {
                return Ok(part.clone());
            }
        }
        self.materialize(tile)
    }

    /// Computes a tile into shared memory.
    fn materialize(&mut self, tile: &TileExpr) -> Fallible<TileWindow> {
        let window = self.memory_for(&tile.shape, tile.scalar, tile.span);
        self.barrier_here(tile.span);
        let collective = self.as_tile_copy(tile, window.memory).map(|copied| CollectiveLoop::Copy(Box::new(copied)));
        self.own_elements_collective(&tile.shape, collective, tile.span, &mut |this, at| {
            let value = this.tile_element(tile, at)?;
            this.store_window_element(&window, at, value, tile.span)
        })?;
        self.barrier_here(tile.span);
        Ok(window)
    }

    /// Reduces along one axis or over all elements. Repeatedly combines the upper half of the elements with the lower
    /// half.
    fn reduce_tile(
        &mut self,
        fold: TileReductionOp,
        args: &[Expr],
        named: &[(SmolStr, Expr)],
        span: Span,
    ) -> Fallible<TileExpr> {
        if let Some(result) = self.reduction_results.get(&span) {
            return Ok(result.clone());
        }
        let of = args.first().ok_or_else(|| internal(span, "a reduction of nothing"))?;
        let mut of = self.tile(of)?;
        if matches!(fold, TileReductionOp::Operator(_)) && of.scalar.is_int() && of.scalar.size() < 4 {
            // 8- and 16-bit integers are accumulated in 64 bits, as on the host.
            let wide = if of.scalar.is_signed() { Scalar::I64 } else { Scalar::U64 };
            of = self.each(TileElementOp::Convert(wide), vec![of], wide, span)?;
        }
        let axis = args.get(1).or(named.first().map(|(_, axis)| axis));
        let (of, axis) = match axis {
            None => {
                let flat = vec![elements(&of.shape) as u32];
                (TileExpr { shape: flat, scalar: of.scalar, span, node: TileNode::Reshaped(Box::new(of)) }, 0)
            }
            Some(axis) if !matches!(axis.ty, Type::Scalar(_)) => {
                return Err(not_a_tile_operation(axis.span, "a reduction along several axes"));
            }
            Some(axis) => {
                let number = self.number(axis)?.and_then(|n| usize::try_from(n).ok());
                let number = number.filter(|&n| n < of.shape.len());
                (of, number.ok_or_else(|| not_a_tile_operation(axis.span, "a reduction along this axis"))?)
            }
        };
        let window = self.materialize(&of)?;
        let mut left = of.shape[axis];
        while left > 1 {
            let half = left.next_power_of_two() / 2;
            let mut shape = of.shape.clone();
            shape[axis] = left - half;
            self.own_elements(&shape, span, &mut |this, at| {
                let mut upper = at.to_vec();
                let half = this.out.i32(half as i32, span);
                upper[axis] = this.out.binary(BinOp::Add, upper[axis], half, span);
                let [low, high] = [at, &upper].map(|at| this.load_window_element(&window, at, of.scalar, false, span));
                let value = this.reduce_pair(fold, low, high, span)?;
                this.store_window_element(&window, at, value, span)
            })?;
            self.barrier_here(span);
            left = half;
        }
        let zero = self.out.i32(0, span);
        let mut axes = window.axes;
        axes[axis] = TileAxisIndex::At(zero);
        let mut shape = of.shape.clone();
        shape.remove(axis);
        Ok(TileExpr {
            shape,
            scalar: of.scalar,
            node: TileNode::Part(TileWindow { memory: window.memory, axes }),
            span,
        })
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

    /// Lowers `target = mma(acc, a, b)`, where `target` has the shape of `acc`. The accumulator has been lowered by the
    /// caller, because it may itself be a product.
    fn product_into(&mut self, mut acc: TileExpr, target: &TileWindow, args: &[Expr], span: Span) -> Fallible<()> {
        let [_, a, b] = args else { return Err(internal(span, "`mma` takes three tiles")) };
        let is_tf32 = is_tf32(a) && is_tf32(b);
        let (a, b) = (self.tile(a)?, self.tile(b)?);
        let (&[rows, columns], &[m, k], &[l, n]) = (acc.shape.as_slice(), a.shape.as_slice(), b.shape.as_slice())
        else {
            return Err(other_shapes(&[acc, a, b], span));
        };
        let format = match (acc.scalar, a.scalar == b.scalar) {
            (Scalar::F32, true) => match a.scalar {
                Scalar::F32 => is_tf32.then(|| mma_emulation::MmaFormat::tf32(self.unit.sums)),
                narrow => mma_emulation::MmaFormat::of(narrow, self.unit.sums),
            },
            // In an `f64` shadow, operands and sums are not rounded.
            (Scalar::F64, true) if a.scalar == Scalar::F64 => Some(mma_emulation::MmaFormat::Exact),
            _ => None,
        };
        let format = format.ok_or_else(|| not_a_tile_operation(span, "a product of these types"))?;
        if (rows, columns, k) != (m, n, l) {
            return Err(other_shapes(&[acc, a, b], span));
        }
        let shape = &acc.shape.clone();
        if acc.reads_elsewhere(target, shape) {
            acc.node = TileNode::Part(self.materialize(&acc)?);
        }
        let (scalar, of_left, of_right) = (a.scalar, a.span, b.span);
        let (a, b) = (self.factor_in_memory(&a, target)?, self.factor_in_memory(&b, target)?);
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
    fn barrier_here(&mut self, span: Span) {
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

    pub(super) fn check_tile_shape(&self, from: &TileExpr, to: &TileExpr) -> Fallible<()> {
        match broadcast(&from.shape, &to.shape) {
            Some(shape) if shape == to.shape => Ok(()),
            _ => Err(other_shapes(&[from.clone(), to.clone()], from.span)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum TileReductionOp {
    Operator(BinaryOp),
    Math(MathFn),
}

impl From<BinaryOp> for TileReductionOp {
    fn from(op: BinaryOp) -> TileReductionOp {
        TileReductionOp::Operator(op)
    }
}

/// Returns whether two expressions are syntactically equal and consist of variables and numbers only.
pub(super) fn same(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Local(x), ExprKind::Local(y)) => x == y,
        (ExprKind::Int(x), ExprKind::Int(y)) => x == y,
        (ExprKind::ConstParam(x), ExprKind::ConstParam(y)) | (ExprKind::Dim(x), ExprKind::Dim(y)) => x == y,
        (ExprKind::Const(x), ExprKind::Const(y)) => x == y,
        (ExprKind::Variable(x), ExprKind::Variable(y)) => x == y,
        (ExprKind::Swizzle { base, lanes }, ExprKind::Swizzle { base: other, lanes: of }) => {
            lanes == of && same(base, other)
        }
        (ExprKind::Unary { op, expr }, ExprKind::Unary { op: other, expr: of }) => op == other && same(expr, of),
        (ExprKind::Binary { op, left, right }, ExprKind::Binary { op: other, left: l, right: r }) => {
            op == other && same(left, l) && same(right, r)
        }
        _ => false,
    }
}

fn other_shapes(tiles: &[TileExpr], span: Span) -> Box<Diagnostic> {
    let mut d = Diagnostic::error("E0305", "these shapes do not fit together").at(span, "here");
    for tile in tiles {
        d = d.because(tile.span, format!("this is {}", shape_text(&tile.shape)));
    }
    Box::new(d)
}

pub(super) fn unknown_tile_extent(span: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0492", "the extents of a tile are not known when the kernel is compiled")
            .at(span, "how many elements has this?")
            .help("take a part of constant extents: `a[i..i + 64, k..k + 32]`"),
    )
}

pub(super) fn not_a_tile_operation(span: Span, what: &str) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0493", format!("{what} cannot be computed with tiles"))
            .at(span, "the threads of a block compute this together")
            .help(
                "tiles have operators, conversions, mathematical functions, `select`, functions of numbers, `sum`, `min`, `max`, \
                 `transpose`, `reshape`, `arange` and `mma`",
            ),
    )
}
