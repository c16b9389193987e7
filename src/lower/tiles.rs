//! Reads tile expressions: operations on whole arrays that the threads of a block compute together.
//!
//! Input: an assignment to a shared array or to a window of an array, or a reduction. Output: a tile statement, which
//! `tile_expand` expands to loops, and code for the uniform values that it needs. Elements beyond the edge of an array
//! read as zero and are not stored.

use std::collections::HashSet;

use super::arrays::elements;
use super::context::{BodyLowering, LoweredLocal};
use super::error::{Fallible, internal};
use super::instance::FunctionInstance;
use super::tile_expr::{TileElementOp, TileExpr, TileNode, TileWindow, broadcast, shape_text};
use super::tile_stmt::{TileReductionOp, TileRegion, TileStmt, reduced_tile};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::tiles::is_tf32;
use clk_check::typed::{Expr, ExprKind, FnRef, SmolStr, Type};
use clk_ir::def::{
    self, Axis, BinOp, BuiltinIndex, CacheHint, ElementLayout, ExprId, MemorySpace, Place, Scalar, StmtKind, Ty,
};
use clk_scalar::ScalarValue;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, MathFn};

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
        let start = self.out.open_len();
        // All threads must have finished reading the old values before any thread writes.
        self.barrier_here(span);
        self.wrap_region(start, TileRegion::Expansion, span);
        let stmt = self.tile_assignment(place, op, value, span)?;
        self.emit_tile_stmt(start, stmt, span)?;
        self.reusable_memories.append(&mut self.tile_memories);
        Ok(())
    }

    fn tile_assignment(&mut self, place: &Expr, op: Option<BinaryOp>, value: &Expr, span: Span) -> Fallible<TileStmt> {
        let before = self.out.function().exprs.len();
        let to = self.operand(place)?;
        let TileNode::Part(target) = to.node.clone() else { return Err(internal(span, "an assignment to a value")) };
        if let (None, ExprKind::Local(_), ExprKind::Builtin { builtin: Builtin::Mma, args, .. }) =
            (op, &place.kind, &value.kind)
            && let Some(acc) = args.first()
            && matches!(acc.kind, ExprKind::Local(_))
        {
            let acc = self.operand(acc)?;
            if acc.shape == to.shape {
                return self.product(acc, &target, args, value.span);
            }
        }
        let from = self.operand(value)?;
        let assigned = match op {
            Some(op) => self.each(TileElementOp::Binary(op), vec![to.clone(), from.clone()], to.scalar, span)?,
            None => from.clone(),
        };
        self.check_tile_shape(&assigned, &to)?;
        let reads_memory = (self.out.function().exprs.iter().skip(before))
            .any(|(_, expr)| matches!(expr.kind, def::ExprKind::Load { .. }));
        Ok(TileStmt::Assign { to, target, op, value: from, reads_memory })
    }

    /// Lowers the uniform values of a tile expression as a region of its own.
    fn operand(&mut self, expr: &Expr) -> Fallible<TileExpr> {
        let start = self.out.open_len();
        let tile = self.tile(expr)?;
        self.wrap_region(start, TileRegion::Operands, expr.span);
        Ok(tile)
    }

    /// Like `scalar`, for a condition or the bound of a loop: the code is a region of its own.
    pub(super) fn operand_scalar(&mut self, expr: &Expr) -> Fallible<ExprId> {
        let start = self.out.open_len();
        let value = self.scalar(expr)?;
        self.wrap_region(start, TileRegion::Operands, expr.span);
        Ok(value)
    }

    /// Verifies a tile statement and expands it to loops and barriers. `start` is the position in the open block where
    /// the code of the statement begins.
    fn emit_tile_stmt(&mut self, start: usize, stmt: TileStmt, span: Span) -> Fallible<()> {
        if let Err(violation) = stmt.verify(self.out.function()) {
            return Err(internal(span, format!("an invalid tile statement: {violation}")));
        }
        let expansion = self.out.open_len();
        self.expand(&stmt, span)?;
        self.wrap_region(expansion, TileRegion::Expansion, span);
        self.wrap_region(start, TileRegion::Stmt(Box::new(stmt)), span);
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
        if self.is_block_uniform(value) {
            return value;
        }
        let (start, ty) = (self.out.open_len(), self.out.ty(value));
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
        self.wrap_region(start, TileRegion::Stmt(Box::new(TileStmt::Uniform { value, result: first })), span);
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
                let start = self.out.open_len();
                let acc = args.first().ok_or_else(|| internal(span, "`mma` of nothing"))?;
                // In the `f64` shadow that a gradient check executes, the accumulator is `f64`.
                let acc = self.operand(acc)?;
                let (shape, scalar) = (acc.shape.clone(), acc.scalar);
                let target = self.memory_for(&shape, scalar, span);
                let stmt = self.product(acc, &target, args, span)?;
                self.emit_tile_stmt(start, stmt, span)?;
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

    /// Reads a reduction along one axis or over all elements, and expands it to loops. Returns the result, which is in
    /// shared memory.
    fn reduce_tile(
        &mut self,
        fold: TileReductionOp,
        args: &[Expr],
        named: &[(SmolStr, Expr)],
        span: Span,
    ) -> Fallible<TileExpr> {
        let start = self.out.open_len();
        let of = args.first().ok_or_else(|| internal(span, "a reduction of nothing"))?;
        let mut of = self.operand(of)?;
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
        let to = self.memory_for(&of.shape, of.scalar, of.span);
        let result = reduced_tile(&to, &of, axis, self.out.i32(0, span), span);
        self.emit_tile_stmt(start, TileStmt::Reduce { to, of, axis, fold }, span)?;
        Ok(result)
    }

    /// Reads `target = mma(acc, a, b)`, where `target` has the shape of `acc`. The caller has read the accumulator,
    /// because it may itself be a product.
    fn product(&mut self, acc: TileExpr, target: &TileWindow, args: &[Expr], span: Span) -> Fallible<TileStmt> {
        let [_, a, b] = args else { return Err(internal(span, "`mma` takes three tiles")) };
        let is_rounded = is_tf32(a) && is_tf32(b);
        let (a, b) = (self.operand(a)?, self.operand(b)?);
        let (&[rows, columns], &[m, k], &[l, n]) = (acc.shape.as_slice(), a.shape.as_slice(), b.shape.as_slice())
        else {
            return Err(other_shapes(&[acc, a, b], span));
        };
        let needs_rounding = acc.scalar == Scalar::F32 && a.scalar == Scalar::F32;
        if a.scalar != b.scalar || needs_rounding && !is_rounded || self.product_format(acc.scalar, a.scalar).is_none()
        {
            return Err(not_a_tile_operation(span, "a product of these types"));
        }
        if (rows, columns, k) != (m, n, l) {
            return Err(other_shapes(&[acc, a, b], span));
        }
        Ok(TileStmt::Product { to: target.clone(), acc, a, b })
    }

    pub(super) fn check_tile_shape(&self, from: &TileExpr, to: &TileExpr) -> Fallible<()> {
        match broadcast(&from.shape, &to.shape) {
            Some(shape) if shape == to.shape => Ok(()),
            _ => Err(other_shapes(&[from.clone(), to.clone()], from.span)),
        }
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
