//! Products of matrices, found in kernels of tiles: what tensor cores compute in one piece.
//!
//! In: a typed kernel. Out: its factors, and what it does with each element of the product, if it is nothing but a product: a tile of
//! zeros, a loop that adds products of parts of two arrays, and assignments of expressions of that tile, element by element. Since an
//! element depends on its row and column alone, hardware may divide the work otherwise than the kernel does.

use super::emit::Emitter;
use super::error::{Fallible, internal};
use super::instance::{Instance, Sums};
use super::tile::{Node, Step, Tile};
use super::unit::{Body, Slot, Unit};
use crate::base::arena::Arena;
use crate::check::literal::Literal;
use crate::check::typed::{
    self, Block, Dim, Expr, ExprKind, LocalId, Pattern, Program, SliceIndex, Stmt, StmtKind, Type,
};
use crate::check::walk;
use crate::ir::build::module;
use crate::ir::def::{self, BinOp, ExprId, Factor, Form, Function, MemId, Product, Scalar, Space, Ty};
use crate::ir::visit::each_stmt;
use crate::lang::builtin::Builtin;
use crate::lang::ops::MathFn;
use crate::lang::scalar::Value;

/// The terms that are added at once: a part of the sum has to be whole groups of them.
const GROUP: i128 = super::tensor::GROUP as i128;

const I32: Ty = Ty::Scalar(Scalar::I32);

/// Returns the product that a kernel is.
pub(super) fn product(program: &Program, kernel: &typed::Kernel, instance: &Instance) -> Option<Product> {
    let body = kernel.body.as_deref()?;
    let at = body.root.stmts.iter().position(|stmt| matches!(stmt.kind, StmtKind::For { .. }))?;
    if body.root.tail.is_some() {
        return None;
    }
    let (before, after) = (&body.root.stmts[..at], &body.root.stmts[at + 1..]);
    let sum = Sum::of(kernel, &body.root.stmts[at])?;
    let is_grid = matches!(kernel.geometry, typed::Geometry::Grid { .. });
    if !is_grid || before.iter().chain(after).any(|stmt| reads_written(kernel, stmt)) {
        return None;
    }
    let zero = |stmt: &Stmt| match &stmt.kind {
        StmtKind::Assign { place, op: None, value } => {
            let number = match value.kind {
                ExprKind::Float(number) => Literal::Float(number).to(Scalar::F32),
                _ => None,
            };
            is_local(place, sum.acc) && number.is_some_and(|number| number.bits == 0)
        }
        _ => false,
    };
    let plain = |stmt: &Stmt| match &stmt.kind {
        StmtKind::Shared { .. } => true,
        StmtKind::Let { pattern, value: Some(value), .. } => names_numbers(pattern, &value.ty, &body.locals),
        _ => zero(stmt),
    };
    if !before.iter().all(plain) || before.iter().filter(|stmt| zero(stmt)).count() != 1 {
        return None;
    }
    sum.lowered(program, kernel, instance, (before, after)).ok().flatten()
}

/// The loop of a product: `for k in 0..K step S { acc = mma(acc, a[i..i + R, k..k + S], b[k..k + S, j..j + C]) }`.
struct Sum<'e> {
    acc: LocalId,
    /// The parameters, and whether they are transposed.
    a: (LocalId, bool),
    b: (LocalId, bool),
    /// The parts of the factors, and the range along the sum.
    rows: &'e SliceIndex,
    columns: &'e SliceIndex,
    terms: [&'e SliceIndex; 2],
    step: Option<&'e Expr>,
}

impl<'e> Sum<'e> {
    fn of(kernel: &typed::Kernel, stmt: &'e Stmt) -> Option<Sum<'e>> {
        let StmtKind::For { var, iter, body, .. } = &stmt.kind else { return None };
        let ExprKind::Range { start: Some(start), end: Some(end), inclusive: false, step } = &iter.kind else {
            return None;
        };
        let Block { stmts, tail: None, .. } = &**body else { return None };
        let ([Stmt { kind: StmtKind::Assign { place, op: None, value }, .. }], ExprKind::Int(0)) =
            (stmts.as_slice(), &start.kind)
        else {
            return None;
        };
        let ExprKind::Builtin { builtin: Builtin::Mma, args, .. } = &value.kind else { return None };
        let (ExprKind::Local(acc), [sum, a, b]) = (&place.kind, args.as_slice()) else { return None };
        let ExprKind::Dim(terms) = end.kind else { return None };
        let (a, rows, along_a) = factor(kernel, a, terms, *var, 1)?;
        let (b, columns, along_b) = factor(kernel, b, terms, *var, 0)?;
        let found = Sum { acc: *acc, a, b, rows, columns, terms: [along_a, along_b], step: step.as_deref() };
        is_local(sum, *acc).then_some(found)
    }

    /// Compiles what is done with an element.
    fn lowered(
        &self,
        program: &Program,
        kernel: &typed::Kernel,
        instance: &Instance,
        (before, after): (&[Stmt], &[Stmt]),
    ) -> Fallible<Option<Product>> {
        let typed = kernel.body.as_deref().ok_or_else(|| internal(kernel.span, "no body"))?;
        let span = kernel.span;
        let mut unit = Unit::of_kernel(program, instance);
        let out = Emitter::new(kernel.name.as_str(), span);
        let mut body = Body::new(&mut unit, &instance.arguments, kernel.sig.dims.len(), &typed.locals, out);
        body.launch_parameters(kernel, instance)?;
        let Some(tile) = self.tile(&mut body, before)? else { return Ok(None) };
        let (Some(a), Some(b)) = (body.factor(self.a), body.factor(self.b)) else { return Ok(None) };
        let mut unit = Unit::of_kernel(program, instance);
        let out = Emitter::new(format!("{}_epilogue", kernel.name), span);
        let mut body = Body::new(&mut unit, &instance.arguments, kernel.sig.dims.len(), &typed.locals, out);
        body.launch_parameters(kernel, instance)?;
        let element = body.out.at(span).value("element", Ty::Scalar(Scalar::F32));
        let [row, column] = [0, 1].map(|k| body.out.at(span).index(k));
        let [rows, columns] = tile.map(|n| body.out.i32(n as i32, span));
        let [down, across] = [(row, rows), (column, columns)].map(|(at, n)| body.out.binary(BinOp::Div, at, n, span));
        let inside = [(row, rows), (column, columns)].map(|(at, n)| body.out.binary(BinOp::Rem, at, n, span));
        let zero = body.out.i32(0, span);
        body.block = Some([across, down, zero]);
        body.plain(before)?;
        body.tiles
            .insert(self.acc, Tile { shape: tile.to_vec(), scalar: Scalar::F32, node: Node::Same(element), span });
        let mut shared = vec![];
        for stmt in before.iter().chain(after) {
            if let StmtKind::Shared { local, extents } = &stmt.kind {
                shared.push((*local, extents.as_slice()));
            }
        }
        let mut written = vec![];
        for stmt in after {
            if !body.epilogue(stmt, &tile, &inside, &shared, &mut written)? {
                return Ok(None);
            }
        }
        let builder = body.out.into_builder();
        if unit.has_errors() {
            return Ok(None);
        }
        let functions = std::mem::take(&mut unit.functions);
        let mut epilogue = module(functions, builder, Form::Threads { rank: 2 });
        let body = epilogue.kernel.body;
        name_indices(&mut epilogue.functions[body]);
        let is_of_elements = epilogue.functions.iter().all(|(_, function)| is_of_elements(function));
        let Sums::Cut(cores) = instance.sums else { return Ok(None) };
        Ok(is_of_elements.then_some(Product { a, b, cores, tile, epilogue }))
    }

    /// Returns the extents of a block's tile, if the parts of the factors are those of the blocks.
    fn tile(&self, body: &mut Body<'_, '_>, before: &[Stmt]) -> Fallible<Option<[u32; 2]>> {
        // What the block is known by while the parts are compared: numbers that nothing else is.
        let span = Default::default();
        let names = ["across", "down"].map(|name| {
            let local = body.out.local(name, I32, span);
            body.out.read(local, span)
        });
        let zero = body.out.i32(0, span);
        body.block = Some([names[0], names[1], zero]);
        body.plain(before)?;
        let mut extents = [0; 2];
        for (at, (part, block)) in [(self.rows, names[1]), (self.columns, names[0])].into_iter().enumerate() {
            let SliceIndex::Range { start: Some(start), end: Some(end), inclusive: false, step: None } = part else {
                return Ok(None);
            };
            let Some(extent) = body.extent_between(Some(start), Some(end), start.span).ok() else { return Ok(None) };
            let from = body.scalar(start)?;
            if !body.is_times(from, block, extent) {
                return Ok(None);
            }
            extents[at] = extent;
        }
        let step = match self.step {
            Some(step) => body.number(step)?,
            None => Some(1),
        };
        for part in self.terms {
            let SliceIndex::Range { start: Some(start), end: Some(end), .. } = part else { return Ok(None) };
            let extent = body.extent_between(Some(start), Some(end), start.span).ok().map(i128::from);
            if extent != step || step.is_none_or(|step| step % GROUP != 0) {
                return Ok(None);
            }
        }
        Ok(Some(extents))
    }
}

/// Reads a factor: the parameter, the part along its own axis, and that along the axis of the sum, which is the `inner` one.
fn factor<'e>(
    kernel: &typed::Kernel,
    part: &'e Expr,
    terms: u32,
    var: LocalId,
    inner: usize,
) -> Option<((LocalId, bool), &'e SliceIndex, &'e SliceIndex)> {
    let (mut part, mut transposed, mut rounded) = (part, false, false);
    while let ExprKind::Builtin { builtin, args, .. } = &part.kind {
        match builtin {
            Builtin::Transpose => transposed = !transposed,
            Builtin::Math(MathFn::Tf32) => rounded = true,
            _ => return None,
        }
        part = args.first()?;
    }
    let ExprKind::Slice { base, indices } = &part.kind else { return None };
    let ExprKind::Local(param) = base.kind else { return None };
    let declared = kernel.sig.params.get(param.index()).filter(|declared| declared.access == typed::Access::In)?;
    let Type::Array(array) = &declared.ty else { return None };
    // What tensor cores read of `f32` is rounded; anything else of it is none of their products.
    if rounded != (array.element == Type::Scalar(Scalar::F32)) {
        return None;
    }
    let axis = if transposed { 1 - inner } else { inner };
    let along = indices.get(axis)?;
    let SliceIndex::Range { start: Some(start), step: None, inclusive: false, .. } = along else { return None };
    let fits = indices.len() == 2 && array.dims.get(axis) == Some(&Dim::Name(terms)) && is_local(start, var);
    let own = indices.get(1 - axis)?;
    fits.then_some(((param, transposed), own, along))
}

/// Whether a statement reads an array that the kernel writes, otherwise than in the place that it writes: what one element reads of it,
/// another one may have written.
fn reads_written(kernel: &typed::Kernel, stmt: &Stmt) -> bool {
    let mut found = 0;
    let mut count = |expr: &Expr| walk::expr(expr, &mut |expr| found += usize::from(is_written(kernel, expr)));
    match &stmt.kind {
        StmtKind::Let { value: Some(value), .. } => count(value),
        StmtKind::Assign { place, value, .. } => {
            count(place);
            count(value);
            return found > usize::from(matches!(place.kind, ExprKind::Slice { .. }));
        }
        _ => {}
    }
    found > 0
}

/// Whether a pattern gives names to numbers that do not change.
pub(super) fn names_numbers(pattern: &Pattern, ty: &Type, locals: &Arena<typed::Local>) -> bool {
    match (pattern, ty) {
        (Pattern::Local(id), Type::Scalar(_)) => !locals[*id].mutable,
        (Pattern::Discard, Type::Scalar(_)) => true,
        (Pattern::Tuple(parts), Type::Tuple(types)) => {
            parts.iter().zip(types.iter()).all(|(part, ty)| names_numbers(part, ty, locals))
        }
        _ => false,
    }
}

/// Whether a function does nothing that it matters for how often, by which threads and in which order it is done, and that no other
/// element takes part in.
pub(super) fn is_of_elements(function: &Function) -> bool {
    let is_own =
        |kind: &def::ExprKind| !matches!(kind, def::ExprKind::Id(..) | def::ExprKind::LaneIdx | def::ExprKind::WarpIdx);
    let mut found = function.exprs.iter().all(|(_, expr)| is_own(&expr.kind))
        && function.memories.iter().all(|(_, memory)| memory.space != Space::Shared);
    each_stmt(&function.body, &mut |stmt| {
        use def::StmtKind::*;
        found &= !matches!(
            stmt.kind,
            Atomic { .. } | Barrier { .. } | Warp { .. } | Fence(_) | Assert { .. } | Print { .. }
        );
    });
    found
}

/// Writes an index that was taken apart, as `index / n * n + index % n`, as what it is: the text for a device compares it with extents.
fn name_indices(function: &mut Function) {
    use crate::ir::def::ExprKind::{Binary, Const, Index};
    let exprs = &function.exprs;
    let known = |id: ExprId| if let Const(bits) = exprs[id].kind { Some(bits) } else { None };
    let of_index = |id: ExprId, wanted: BinOp| match exprs[id].kind {
        Binary { op, left, right } if op == wanted => match exprs[left].kind {
            Index(k) => known(right).map(|n| (k, n)),
            _ => None,
        },
        _ => None,
    };
    let times = |id: ExprId| match exprs[id].kind {
        Binary { op: BinOp::Mul, left, right } => [(left, right), (right, left)]
            .into_iter()
            .find_map(|(quotient, n)| of_index(quotient, BinOp::Div).filter(|&(_, by)| known(n) == Some(by))),
        _ => None,
    };
    let whole = |id: ExprId| match exprs[id].kind {
        Binary { op: BinOp::Add, left, right } => {
            let parts = [(left, right), (right, left)];
            parts.into_iter().find_map(|(a, b)| times(a).filter(|&found| of_index(b, BinOp::Rem) == Some(found)))
        }
        _ => None,
    };
    let found: Vec<(ExprId, u8)> = exprs.iter().filter_map(|(id, _)| whole(id).map(|(k, _)| (id, k))).collect();
    for (id, k) in found {
        function.exprs[id].kind = Index(k);
    }
}

fn is_written(kernel: &typed::Kernel, expr: &Expr) -> bool {
    let ExprKind::Local(id) = expr.kind else { return false };
    kernel.sig.params.get(id.index()).is_some_and(|param| param.access != typed::Access::In)
}

fn is_local(expr: &Expr, id: LocalId) -> bool {
    matches!(expr.kind, ExprKind::Local(own) if own == id)
}

impl Body<'_, '_> {
    /// Lowers statements in front of the loop that are no work of the block.
    fn plain(&mut self, stmts: &[Stmt]) -> Fallible<()> {
        for stmt in stmts {
            if let StmtKind::Let { .. } = &stmt.kind {
                self.stmt(stmt)?;
            }
        }
        Ok(())
    }

    /// Whether a value is a block's number times an extent.
    fn is_times(&self, value: ExprId, block: ExprId, extent: u32) -> bool {
        use crate::ir::def::ExprKind::Binary;
        let number = |id: ExprId| self.out.known(id).and_then(Value::as_integer);
        match self.out.function().exprs[value].kind {
            Binary { op: BinOp::Mul, left, right } => {
                let extent = Some(i128::from(extent));
                left == block && number(right) == extent || right == block && number(left) == extent
            }
            _ => value == block && extent == 1,
        }
    }

    /// Returns a factor, by the position of its array among the kernel's parameters.
    fn factor(&self, (local, transposed): (LocalId, bool)) -> Option<Factor> {
        let Some(Slot::Array(memory)) = self.slots.get(&local) else { return None };
        let Space::Global { param, .. } = self.out.function().memories[*memory].space else { return None };
        Some(Factor { param, transposed })
    }

    /// Whether a local is a shared array of a tile's shape.
    fn is_shared_tile(&mut self, id: LocalId, tile: &[u32; 2], shared: &[(LocalId, &[Expr])]) -> Fallible<bool> {
        let Some((_, [rows, columns])) = shared.iter().find(|(local, _)| *local == id) else { return Ok(false) };
        let extents = [self.number(rows)?, self.number(columns)?];
        Ok(extents == tile.map(|n| Some(i128::from(n))))
    }

    /// Lowers a statement behind the loop for one element; returns whether it is one of elements. `written` has the arrays that were
    /// written so far: another element may have written the same place before.
    fn epilogue(
        &mut self,
        stmt: &Stmt,
        tile: &[u32; 2],
        inside: &[ExprId; 2],
        shared: &[(LocalId, &[Expr])],
        written: &mut Vec<MemId>,
    ) -> Fallible<bool> {
        let StmtKind::Assign { place, op, value } = &stmt.kind else {
            return match &stmt.kind {
                StmtKind::Shared { .. } => Ok(true),
                StmtKind::Let { pattern, value: Some(value), .. } if names_numbers(pattern, &value.ty, self.locals) => {
                    self.stmt(stmt).map(|()| true)
                }
                _ => Ok(false),
            };
        };
        let mut from = self.tile(value)?;
        match &place.kind {
            ExprKind::Local(id) => {
                if !self.is_shared_tile(*id, tile, shared)? || self.element_of(place)? != from.scalar {
                    return Ok(false);
                }
                if let Some(op) = op {
                    let Some(before) = self.tiles.get(id).cloned() else { return Ok(false) };
                    let scalar = before.scalar;
                    from = self.each(Step::Binary(*op), vec![before, from], scalar, stmt.span)?;
                }
                if from.shape.as_slice() != tile && !from.shape.is_empty() || !from.is_of_element() {
                    return Ok(false);
                }
                let own = self.own_index(&from, inside);
                let value = self.tile_element(&from, &own)?;
                let kept = Tile { shape: tile.to_vec(), scalar: from.scalar, node: Node::Same(value), span: from.span };
                self.tiles.insert(*id, kept);
                Ok(true)
            }
            ExprKind::Slice { .. } => {
                let to = self.tile(place)?;
                if let Some(op) = op {
                    let scalar = to.scalar;
                    from = self.each(Step::Binary(*op), vec![to.clone(), from], scalar, stmt.span)?;
                }
                let Node::Part(target) = to.node.clone() else { return Ok(false) };
                let is_first = !written.contains(&target.memory);
                if to.shape.as_slice() != tile || !from.is_of_element() || !is_first {
                    return Ok(false);
                }
                written.push(target.memory);
                self.tile_fits(&from, &to)?;
                let own = self.own_index(&from, inside);
                let value = self.tile_element(&from, &own)?;
                self.put(&target, inside, value, stmt.span)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn own_index(&mut self, tile: &Tile, inside: &[ExprId; 2]) -> Vec<ExprId> {
        self.broadcast_index(inside, &tile.shape, tile.span)
    }
}
