//! Tiles: expressions of whole arrays in kernels that give their blocks, which the threads of a block compute together.
//!
//! In: an assignment to a shared array or to a part of an array, or a reduction. Out: loops in which each thread computes the elements
//! whose numbers are its own modulo the number of threads, between barriers. An expression is not stored element by element, but
//! followed from the elements that are stored back to what is loaded; only what needs other threads' elements (sums, factors of
//! products, an array that is read where it is written) is kept in shared memory of its own.
//!
//! Beyond the edge of an array a part of it is zero, and what is assigned there is dropped.

use std::collections::HashSet;

use super::arrays::elements;
use super::error::{Fallible, internal};
use super::instance::Function;
use super::loops::Bounds;
use super::tensor;
use super::tile::{Along, Node, Part, Step, Tile, Window, broadcast, shape_text};
use super::unit::{Body, Slot};
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::tiles::is_tf32;
use crate::check::typed::{Expr, ExprKind, FnRef, SmolStr, Type};
use crate::ir::def::{
    self, Axis, BinOp, ExprId, Extent, Factors, Hint, Id3, Layout, MemId, Place, Scalar, Space, StmtKind, Together, Ty,
};
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BarrierKind, BinaryOp, MathFn};
use crate::lang::scalar::Value;
use crate::syntax::ast;

const I32: Ty = Ty::Scalar(Scalar::I32);

impl Body<'_, '_> {
    /// Whether an assignment to this place is one of all threads of a block together.
    pub(super) fn is_tile(&self, place: &Expr) -> Fallible<bool> {
        let (array, is_part) = match &place.kind {
            ExprKind::Slice { base, .. } => (&**base, true),
            _ => (place, false),
        };
        let ExprKind::Local(id) = array.kind else { return Ok(false) };
        let Slot::Array(memory) = self.slot(id, place.span)? else { return Ok(false) };
        let memory = &self.out.function().memories[memory];
        Ok(match memory.space {
            Space::Shared => is_part || !memory.extents.is_empty(),
            Space::Global { .. } => is_part,
            _ => false,
        })
    }

    /// Lowers `place = value` and `place op= value` of a tile. What it keeps on the way, later assignments may keep theirs in.
    pub(super) fn assign_tile(&mut self, place: &Expr, op: Option<BinaryOp>, value: &Expr, span: Span) -> Fallible<()> {
        self.assigned(place, op, value, span)?;
        self.spare.append(&mut self.taken);
        Ok(())
    }

    fn assigned(&mut self, place: &Expr, op: Option<BinaryOp>, value: &Expr, span: Span) -> Fallible<()> {
        // What is read is what stood there before, for all threads; and no thread writes before all have read.
        self.barrier_here(span);
        let before = self.out.function().exprs.len();
        let to = self.tile(place)?;
        let Node::Part(target) = to.node.clone() else { return Err(internal(span, "an assignment to a value")) };
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
            from = self.each(Step::Binary(op), parts, to.scalar, span)?;
        }
        self.tile_fits(&from, &to)?;
        if from.reads_elsewhere(&target, &to.shape) {
            from.node = Node::Part(self.kept(&from)?);
        }
        let new = self.out.function().exprs.iter().skip(before);
        if new.into_iter().any(|(_, expr)| matches!(expr.kind, def::ExprKind::Load { .. })) {
            self.barrier_here(span);
        }
        self.own_elements(&to.shape.clone(), span, &mut |this, at| {
            let own = this.broadcast_index(at, &from.shape, span);
            let value = this.tile_element(&from, &own)?;
            this.put(&target, at, value, span)
        })?;
        self.barrier_here(span);
        Ok(())
    }

    /// Lowers a reduction of a whole array to one number.
    pub(super) fn tile_scalar(&mut self, expr: &Expr) -> Fallible<ExprId> {
        let before = self.taken.len();
        let tile = self.tile(expr)?;
        // The number may be read at any later time.
        self.taken.truncate(before);
        if !tile.shape.is_empty() {
            return Err(internal(expr.span, "an array is used as a number"));
        }
        let value = self.tile_element(&tile, &[])?;
        self.uniform.insert(value);
        Ok(value)
    }

    /// Returns a value that all threads of the block share. Where that does not follow from how it is computed, they compare it, and a
    /// difference is a fault.
    pub(super) fn shared_value(&mut self, value: ExprId, span: Span) -> ExprId {
        if self.block.is_some() || self.is_block_uniform(value) {
            return value;
        }
        let ty = self.out.ty(value);
        let memory = self.out.at(span).memory("value", Space::Shared, Layout::plain(ty), vec![]);
        let place = Place { memory, indices: vec![], leaf: 0, component: None };
        let zero = self.out.i32(0, span);
        let mut cond = self.out.bool(true, span);
        for axis in [Axis::X, Axis::Y, Axis::Z] {
            let at = self.out.value(def::ExprKind::Id(Id3::Thread, axis), I32, span);
            let first = self.out.binary(BinOp::Eq, at, zero, span);
            cond = self.out.binary(BinOp::And, cond, first, span);
        }
        let store = StmtKind::Store { place: place.clone(), value, hint: Hint::None };
        let then = vec![def::Stmt { kind: store, span }];
        self.barrier_here(span);
        self.out.stmt(StmtKind::If { cond, then, other: vec![] }, span);
        self.barrier_here(span);
        let first = self.out.value(def::ExprKind::Load { place, hint: Hint::None }, ty, span);
        let mut same = self.out.binary(BinOp::Eq, value, first, span);
        if ty.scalar().is_float() {
            let nan = [value, first].map(|x| self.math(MathFn::IsNan, &[x], span));
            let both = self.out.binary(BinOp::And, nan[0], nan[1], span);
            same = self.out.binary(BinOp::Or, same, both, span);
        }
        let message = "the threads of a block compute one tile, but this value differs between them";
        self.out.stmt(StmtKind::Assert { cond: same, message: vec![def::Part::Text(message.into())] }, span);
        self.uniform.insert(first);
        first
    }

    /// Whether all threads of a block have the same value: it is computed from what they share.
    pub(super) fn is_block_uniform(&self, value: ExprId) -> bool {
        use def::ExprKind::*;
        let function = self.out.function();
        let (mut seen, mut left) = (HashSet::new(), vec![value]);
        while let Some(id) = left.pop() {
            if self.uniform.contains(&id) || !seen.insert(id) {
                continue;
            }
            let shared = match &function.exprs[id].kind {
                Id(id, _) => matches!(id, Id3::Block | Id3::BlockDim | Id3::GridDim),
                Read(local) => self.counters.contains(local),
                Load { place, .. } => {
                    let access = function.memories[place.memory].space;
                    matches!(access, Space::Constant | Space::Global { access: def::Access::In, .. })
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

    /// The error for an array that is computed where no tile is assigned.
    pub(super) fn not_of_threads(&self, span: Span) -> Box<Diagnostic> {
        if !self.unit.is_of_kernel() {
            return internal(span, "an array of the host's world in a function of a thread");
        }
        Box::new(
            Diagnostic::error("E0493", "a whole array is computed here, where each thread is on its own")
                .at(span, "the threads of a block compute arrays together, and into shared memory")
                .help("assign it to a shared array: `shared t: [f32; 16, 16]`, then `t = …`")
                .help("one element is `a[i, j]`"),
        )
    }

    // Expressions

    pub(super) fn tile(&mut self, expr: &Expr) -> Fallible<Tile> {
        let span = expr.span;
        let whole = matches!(expr.ty, Type::Array(_));
        match &expr.kind {
            ExprKind::Builtin { builtin: Builtin::Sum, args, named } => {
                self.reduced(BinaryOp::Add.into(), args, named, span)
            }
            ExprKind::Builtin { builtin: Builtin::Math(f @ (MathFn::Min | MathFn::Max)), args, named }
                if args.len() == 1 || !named.is_empty() =>
            {
                self.reduced(Fold::Math(*f), args, named, span)
            }
            _ if !whole => {
                let value = self.scalar(expr)?;
                let value = self.shared_value(value, span);
                Ok(Tile { shape: vec![], scalar: self.out.ty(value).scalar(), node: Node::Same(value), span })
            }
            ExprKind::Local(id) if self.tiles.contains_key(id) => Ok(self.tiles[id].clone()),
            ExprKind::Local(_) | ExprKind::Const(_) => {
                let memory = self.array(expr)?;
                self.part(memory, None, span)
            }
            ExprKind::Slice { base, indices } => {
                let memory = match base.kind {
                    ExprKind::Local(_) | ExprKind::Const(_) => self.array(base)?,
                    _ => return Err(not_of_tiles(base.span, "a part of this")),
                };
                self.part(memory, Some(indices), span)
            }
            ExprKind::Unary { op, expr: of } => {
                let of = self.tile(of)?;
                let scalar = of.scalar;
                self.each(Step::Unary(*op), vec![of], scalar, span)
            }
            ExprKind::Binary { op, left, right } => {
                let parts = vec![self.tile(left)?, self.tile(right)?];
                let scalar = if op.is_comparison() { Scalar::Bool } else { parts[0].scalar };
                self.each(Step::Binary(*op), parts, scalar, span)
            }
            ExprKind::Convert { to, expr: of } => {
                let of = self.tile(of)?;
                self.each(Step::Convert(*to), vec![of], *to, span)
            }
            ExprKind::ConvertParam { to, expr: of } => {
                let (to, of) = (self.mono.scalar_param(*to, span)?, self.tile(of)?);
                self.each(Step::Convert(to), vec![of], to, span)
            }
            ExprKind::Lift { callee, args } => self.lifted(callee, args, span),
            ExprKind::Builtin { builtin: Builtin::Transpose, args, .. } if args.len() == 1 => {
                let of = self.tile(&args[0])?;
                let shape = of.shape.iter().rev().copied().collect();
                Ok(Tile { shape, scalar: of.scalar, node: Node::Transposed(Box::new(of)), span })
            }
            ExprKind::Builtin { builtin: Builtin::Reshape, args, .. } => self.reshaped(args, span),
            ExprKind::Builtin { builtin: Builtin::Arange, args, .. } if args.len() == 1 => {
                let count = self.known_number(&args[0])?;
                let scalar = self.element_of(expr)?;
                let count = Tile { shape: vec![count], scalar: Scalar::I32, node: Node::Count, span };
                self.each(Step::Convert(scalar), vec![count], scalar, span)
            }
            ExprKind::Builtin { builtin: Builtin::Mma, args, .. } => {
                let acc = args.first().ok_or_else(|| internal(span, "`mma` of nothing"))?;
                // `f64` in the twin of a derivative's audit.
                let acc = self.tile(acc)?;
                let (shape, scalar) = (acc.shape.clone(), acc.scalar);
                let target = self.memory_for(&shape, scalar, span);
                self.product_into(acc, &target, args, span)?;
                Ok(Tile { shape, scalar, node: Node::Part(target), span })
            }
            ExprKind::Builtin { builtin: builtin @ (Builtin::Math(_) | Builtin::Select), args, .. } => {
                let parts = args.iter().map(|arg| self.tile(arg)).collect::<Fallible<Vec<Tile>>>()?;
                let scalar = self.element_of(expr)?;
                self.each(Step::Builtin(*builtin), parts, scalar, span)
            }
            _ => Err(not_of_tiles(span, "this")),
        }
    }

    pub(super) fn element_of(&self, expr: &Expr) -> Fallible<Scalar> {
        match self.type_of(expr)? {
            Type::Array(array) => match self.mono.ty(&array.element, expr.span)? {
                Type::Scalar(scalar) => Ok(scalar),
                _ => Err(not_of_tiles(expr.span, "an array of vectors or structs")),
            },
            _ => Err(internal(expr.span, "a tile that is no array")),
        }
    }

    pub(super) fn number(&mut self, expr: &Expr) -> Fallible<Option<i128>> {
        let value = self.scalar(expr)?;
        Ok(self.out.known(value).and_then(Value::as_integer))
    }

    pub(super) fn known_number(&mut self, expr: &Expr) -> Fallible<u32> {
        let count = self.number(expr)?.ok_or_else(|| of_unknown_extent(expr.span))?;
        super::arrays::size(count, "a tile", expr.span)
    }

    pub(super) fn each(&mut self, step: Step, parts: Vec<Tile>, scalar: Scalar, span: Span) -> Fallible<Tile> {
        let mut shape: Vec<u32> = vec![];
        for part in &parts {
            shape = broadcast(&shape, &part.shape).ok_or_else(|| other_shapes(&parts, span))?;
        }
        Ok(Tile { shape, scalar, node: Node::Each(step, parts), span })
    }

    fn lifted(&mut self, callee: &FnRef, args: &[Expr], span: Span) -> Fallible<Tile> {
        let parts = args.iter().map(|arg| self.tile(arg)).collect::<Fallible<Vec<Tile>>>()?;
        match self.mono.function(callee, span)? {
            Function::Builtin(builtin) => {
                let scalar = parts.first().map_or(Scalar::F32, |part| part.scalar);
                self.each(Step::Builtin(builtin), parts, scalar, span)
            }
            Function::Fn { id, arguments } => {
                let function = self.unit.instance(id, &arguments, span)?;
                let of = &self.unit.functions[function];
                let (&[ty @ Ty::Scalar(scalar)], true) = (of.results.as_slice(), of.memories.is_empty()) else {
                    return Err(not_of_tiles(span, "a function that does not give one number"));
                };
                self.each(Step::Call(function, ty), parts, scalar, span)
            }
        }
    }

    fn reshaped(&mut self, args: &[Expr], span: Span) -> Fallible<Tile> {
        let [of, dims @ ..] = args else { return Err(internal(span, "`reshape` of nothing")) };
        let of = self.tile(of)?;
        let mut shape = vec![];
        let mut open = None;
        for given in dims {
            let parts = match &given.kind {
                ExprKind::Tuple(parts) => parts.as_slice(),
                _ if matches!(given.ty, Type::Tuple(_)) => return Err(of_unknown_extent(given.span)),
                _ => std::slice::from_ref(given),
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
            return Err(other_shapes(&[of, Tile { shape, scalar: Scalar::I32, node: Node::Count, span }], span));
        }
        Ok(Tile { shape, scalar: of.scalar, node: Node::Reshaped(Box::new(of)), span })
    }

    // What needs memory of its own

    /// Returns shared memory for a tile: such as was for one of an earlier assignment, or else new memory.
    fn memory_for(&mut self, shape: &[u32], scalar: Scalar, span: Span) -> Part {
        let extents: Vec<Extent> = shape.iter().map(|&n| Extent::Known(n)).collect();
        let layout = Layout::plain(Ty::Scalar(scalar));
        let memories = &self.out.function().memories;
        let fits = |&memory: &MemId| memories[memory].layout == layout && memories[memory].extents == extents;
        let memory = match self.spare.iter().position(fits) {
            Some(at) => self.spare.swap_remove(at),
            None => self.out.at(span).memory("tile", Space::Shared, layout, extents),
        };
        self.taken.push(memory);
        Part { memory, along: vec![Along::From(Window::ALL); shape.len()] }
    }

    /// Returns a factor of a product in shared memory: where it is, if that is all of an array that the product does not write.
    fn factor_in_memory(&mut self, tile: &Tile, target: &Part) -> Fallible<Part> {
        if let Node::Part(part) = &tile.node {
            let memory = &self.out.function().memories[part.memory];
            let is_whole = part.along.iter().all(|along| *along == Along::From(Window::ALL))
                && tile.shape.iter().map(|&n| Extent::Known(n)).eq(memory.extents.iter().copied());
            if memory.space == Space::Shared && is_whole && part.memory != target.memory {
                return Ok(part.clone());
            }
        }
        self.kept(tile)
    }

    /// Computes a tile into shared memory.
    fn kept(&mut self, tile: &Tile) -> Fallible<Part> {
        let kept = self.memory_for(&tile.shape, tile.scalar, tile.span);
        self.barrier_here(tile.span);
        let together = self.copied(tile, kept.memory).map(|copied| Together::Copy(Box::new(copied)));
        self.own_elements_of(&tile.shape, together, tile.span, &mut |this, at| {
            let value = this.tile_element(tile, at)?;
            this.put(&kept, at, value, tile.span)
        })?;
        self.barrier_here(tile.span);
        Ok(kept)
    }

    /// Reduces along an axis, or all: the upper half is combined with the lower half until one is left.
    fn reduced(&mut self, fold: Fold, args: &[Expr], named: &[(SmolStr, Expr)], span: Span) -> Fallible<Tile> {
        if let Some(given) = self.given.get(&span) {
            return Ok(given.clone());
        }
        let of = args.first().ok_or_else(|| internal(span, "a reduction of nothing"))?;
        let mut of = self.tile(of)?;
        if matches!(fold, Fold::Operator(_)) && of.scalar.is_int() && of.scalar.size() < 4 {
            // As on the host.
            let wide = if of.scalar.is_signed() { Scalar::I64 } else { Scalar::U64 };
            of = self.each(Step::Convert(wide), vec![of], wide, span)?;
        }
        let axis = args.get(1).or(named.first().map(|(_, axis)| axis));
        let (of, axis) = match axis {
            None => {
                let flat = vec![elements(&of.shape) as u32];
                (Tile { shape: flat, scalar: of.scalar, span, node: Node::Reshaped(Box::new(of)) }, 0)
            }
            Some(axis) if !matches!(axis.ty, Type::Scalar(_)) => {
                return Err(not_of_tiles(axis.span, "a reduction along several axes"));
            }
            Some(axis) => {
                let number = self.number(axis)?.and_then(|n| usize::try_from(n).ok());
                let number = number.filter(|&n| n < of.shape.len());
                (of, number.ok_or_else(|| not_of_tiles(axis.span, "a reduction along this axis"))?)
            }
        };
        let kept = self.kept(&of)?;
        let mut left = of.shape[axis];
        while left > 1 {
            let half = left.next_power_of_two() / 2;
            let mut shape = of.shape.clone();
            shape[axis] = left - half;
            self.own_elements(&shape, span, &mut |this, at| {
                let mut upper = at.to_vec();
                let half = this.out.i32(half as i32, span);
                upper[axis] = this.out.binary(BinOp::Add, upper[axis], half, span);
                let [low, high] = [at, &upper].map(|at| this.get(&kept, at, of.scalar, false, span));
                let value = this.folded(fold, low, high, span)?;
                this.put(&kept, at, value, span)
            })?;
            self.barrier_here(span);
            left = half;
        }
        let zero = self.out.i32(0, span);
        let mut along = kept.along;
        along[axis] = Along::At(zero);
        let mut shape = of.shape.clone();
        shape.remove(axis);
        Ok(Tile { shape, scalar: of.scalar, node: Node::Part(Part { memory: kept.memory, along }), span })
    }

    pub(super) fn folded(&mut self, fold: Fold, low: ExprId, high: ExprId, span: Span) -> Fallible<ExprId> {
        match fold {
            Fold::Operator(op) => self.apply(op, low, high, span, span),
            Fold::Math(function) => Ok(self.math(function, &[low, high], span)),
        }
    }

    /// Lowers `target = mma(acc, a, b)`, of a target of the sum's shape. The sum is lowered already, as it may be a product itself.
    fn product_into(&mut self, mut acc: Tile, target: &Part, args: &[Expr], span: Span) -> Fallible<()> {
        let [_, a, b] = args else { return Err(internal(span, "`mma` takes three tiles")) };
        let is_tf32 = is_tf32(a) && is_tf32(b);
        let (a, b) = (self.tile(a)?, self.tile(b)?);
        let (&[rows, columns], &[m, k], &[l, n]) = (acc.shape.as_slice(), a.shape.as_slice(), b.shape.as_slice())
        else {
            return Err(other_shapes(&[acc, a, b], span));
        };
        let format = match (acc.scalar, a.scalar == b.scalar) {
            (Scalar::F32, true) => match a.scalar {
                Scalar::F32 => is_tf32.then(|| tensor::Format::tf32(self.unit.sums)),
                narrow => tensor::Format::of(narrow, self.unit.sums),
            },
            // Of a twin in `f64`: nothing is cut.
            (Scalar::F64, true) if a.scalar == Scalar::F64 => Some(tensor::Format::Exact),
            _ => None,
        };
        let format = format.ok_or_else(|| not_of_tiles(span, "a product of these types"))?;
        if (rows, columns, k) != (m, n, l) {
            return Err(other_shapes(&[acc, a, b], span));
        }
        let shape = &acc.shape.clone();
        if acc.reads_elsewhere(target, shape) {
            acc.node = Node::Part(self.kept(&acc)?);
        }
        let (scalar, of_left, of_right) = (a.scalar, a.span, b.span);
        let (a, b) = (self.factor_in_memory(&a, target)?, self.factor_in_memory(&b, target)?);
        if !matches!(&acc.node, Node::Part(part) if part == target) {
            self.own_elements(shape, span, &mut |this, at| {
                let value = this.tile_element(&acc, at)?;
                this.put(target, at, value, span)
            })?;
        }
        // The last group may be beyond the factors.
        let size = format.group();
        let guarded = k % size != 0;
        self.barrier_here(span);
        let factors =
            Together::Product(Factors { sum: target.memory, left: a.memory, right: b.memory, sums: format.sums() });
        self.own_elements_of(shape, Some(factors), span, &mut |this, at| {
            let first = this.get(target, at, acc.scalar, false, span);
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
                    let left = this.get(&a, &[at[0], index], scalar, guarded, of_left);
                    let right = this.get(&b, &[index, at[1]], scalar, guarded, of_right);
                    terms.push((left, right));
                }
                let before = this.out.read(sum, span);
                let after = this.tensor_step(format, before, &terms, span);
                this.out.stmt(StmtKind::Write { local: sum, value: after }, span);
                Ok(())
            })?;
            let value = this.out.read(sum, span);
            this.put(target, at, value, span)
        })?;
        self.barrier_here(span);
        Ok(())
    }

    // Elements

    /// Computes an element of a tile.
    pub(super) fn tile_element(&mut self, tile: &Tile, at: &[ExprId]) -> Fallible<ExprId> {
        let span = tile.span;
        match &tile.node {
            Node::Same(value) => Ok(*value),
            Node::Count => Ok(at[0]),
            Node::Part(part) => Ok(self.get(part, at, tile.scalar, false, span)),
            Node::Transposed(of) => {
                let at: Vec<ExprId> = at.iter().rev().copied().collect();
                self.tile_element(of, &at)
            }
            Node::Reshaped(of) => {
                let position = self.position_of(at, &tile.shape, span);
                let at = self.indices_of(position, &of.shape, span);
                self.tile_element(of, &at)
            }
            Node::Each(step, parts) => {
                let mut values = Vec::with_capacity(parts.len());
                for part in parts {
                    let own = self.broadcast_index(at, &part.shape, span);
                    values.push(self.tile_element(part, &own)?);
                }
                self.step(step, &values, span)
            }
        }
    }

    fn step(&mut self, step: &Step, values: &[ExprId], span: Span) -> Fallible<ExprId> {
        match (step, values) {
            (Step::Unary(op), &[value]) => Ok(self.unary_value(*op, value, span)),
            (Step::Binary(op), &[left, right]) => self.apply(*op, left, right, span, span),
            (Step::Convert(to), &[value]) => Ok(self.convert(value, *to, span)),
            (Step::Builtin(builtin), values) => {
                let args: Vec<Vec<ExprId>> = values.iter().map(|&value| vec![value]).collect();
                let found = self.pure_builtin(*builtin, &args, span)?;
                found.first().copied().ok_or_else(|| internal(span, "a builtin without a result"))
            }
            (Step::Call(function, ty), values) => {
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

    /// Returns the index into a tile of this shape that is broadcast.
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

    /// Waits for the block, unless the last statement does.
    fn barrier_here(&mut self, span: Span) {
        if self.out.is_behind_barrier() {
            return;
        }
        self.out.stmt(StmtKind::Barrier { kind: BarrierKind::Block, value: None, result: None }, span);
    }

    /// Loops over the elements of a tile that are the thread's own.
    fn own_elements(
        &mut self,
        shape: &[u32],
        span: Span,
        fill: &mut dyn FnMut(&mut Self, &[ExprId]) -> Fallible<()>,
    ) -> Fallible<()> {
        self.own_elements_of(shape, None, span, fill)
    }

    /// The same, where it is known what is done with the elements.
    fn own_elements_of(
        &mut self,
        shape: &[u32],
        together: Option<Together>,
        span: Span,
        fill: &mut dyn FnMut(&mut Self, &[ExprId]) -> Fallible<()>,
    ) -> Fallible<()> {
        let mut id = |id: Id3, axis: Axis| self.out.value(def::ExprKind::Id(id, axis), I32, span);
        let (threads, own) = [Axis::Z, Axis::Y, Axis::X]
            .map(|axis| (id(Id3::BlockDim, axis), id(Id3::Thread, axis)))
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
        let bounds = Bounds { start, end, step, inclusive: false };
        self.counted_together(number, bounds, (ast::Unroll::Auto, together), span, |this| {
            let position = this.out.read(number, span);
            let at = this.indices_of(position, &shape, span);
            fill(this, &at)
        })
    }

    pub(super) fn tile_fits(&self, from: &Tile, to: &Tile) -> Fallible<()> {
        match broadcast(&from.shape, &to.shape) {
            Some(shape) if shape == to.shape => Ok(()),
            _ => Err(other_shapes(&[from.clone(), to.clone()], from.span)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Fold {
    Operator(BinaryOp),
    Math(MathFn),
}

impl From<BinaryOp> for Fold {
    fn from(op: BinaryOp) -> Fold {
        Fold::Operator(op)
    }
}

/// Whether two expressions are the same text of variables and numbers.
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

fn other_shapes(tiles: &[Tile], span: Span) -> Box<Diagnostic> {
    let mut d = Diagnostic::error("E0305", "these shapes do not fit together").at(span, "here");
    for tile in tiles {
        d = d.because(tile.span, format!("this is {}", shape_text(&tile.shape)));
    }
    Box::new(d)
}

pub(super) fn of_unknown_extent(span: Span) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0492", "the extents of a tile are not known when the kernel is compiled")
            .at(span, "how many elements has this?")
            .help("take a part of constant extents: `a[i..i + 64, k..k + 32]`"),
    )
}

pub(super) fn not_of_tiles(span: Span, what: &str) -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error("E0493", format!("{what} cannot be computed with tiles"))
            .at(span, "the threads of a block compute this together")
            .help(
                "tiles have operators, conversions, mathematical functions, `select`, functions of numbers, `sum`, `min`, `max`, \
                 `transpose`, `reshape`, `arange` and `mma`",
            ),
    )
}
