//! Windows of arrays in tile expressions: which array elements a window selects, and the bounds checks at the edges of
//! the array.
//!
//! Input: the indices of a slice. Output: an index or a range for each axis of the array, and for each element its
//! location in the array and its bounds check.

use super::context::BodyLowering;
use super::error::Fallible;
use super::tile_expr::{AxisRange, TileAxisIndex, TileElementOp, TileExpr, TileNode, TileWindow};
use super::tiles::{not_a_tile_operation, same, unknown_tile_extent};
use clk_base::source::Span;
use clk_check::typed::{Expr, ExprKind, SliceIndex};
use clk_ir::def::{
    self, AxisWindow, BinOp, CacheHint, ExprId, MemId, MemorySpace, Place, Scalar, StmtKind, TileCopy, Ty,
};
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::{BinaryOp, MathFn};

/// The maximum step of a window.
const MAX_STEP: u32 = 1 << 10;

/// A tile that consists of the elements of one window, in the order of memory.
pub(super) struct PlainWindow<'t> {
    /// The window as a tile.
    pub tile: &'t TileExpr,
    pub part: &'t TileWindow,
    /// The shape that the window is given before it is transposed.
    pub matrix: &'t [u32],
    /// Whether the tile is a matrix with the elements in column-major order.
    pub transposed: bool,
    /// Whether the elements are rounded to `tf32`.
    pub rounded: bool,
}

impl PlainWindow<'_> {
    pub fn of(tile: &TileExpr) -> Option<PlainWindow<'_>> {
        let (mut tile, mut matrix, mut transposed, mut rounded) = (tile, None, false, false);
        loop {
            tile = match &tile.node {
                TileNode::Part(part) => {
                    let matrix = matrix.unwrap_or(tile.shape.as_slice());
                    return Some(PlainWindow { tile, part, matrix, transposed, rounded });
                }
                TileNode::Each(TileElementOp::Builtin(Builtin::Math(MathFn::Tf32)), parts)
                    if tile.scalar == Scalar::F32 =>
                {
                    rounded = true;
                    parts.first()?
                }
                TileNode::Transposed(of) if matrix.is_none() && of.shape.len() == 2 => {
                    transposed = !transposed;
                    of
                }
                TileNode::Reshaped(of) => {
                    matrix = matrix.or(Some(tile.shape.as_slice()));
                    of
                }
                _ => return None,
            };
        }
    }
}

impl BodyLowering<'_, '_> {
    /// Returns the tile for a whole array, or for the window with these indices.
    pub(super) fn part(&mut self, memory: MemId, indices: Option<&[SliceIndex]>, span: Span) -> Fallible<TileExpr> {
        let own = &self.out.function().memories[memory];
        let [leaf] = own.layout.leaves.as_slice() else {
            return Err(not_a_tile_operation(span, "an array of structs"));
        };
        let (Ty::Scalar(scalar), rank) = (leaf.ty, own.extents.len()) else {
            return Err(not_a_tile_operation(span, "an array of vectors"));
        };
        if own.space == MemorySpace::Local {
            return Err(not_a_tile_operation(span, "an array that each thread has for itself"));
        }
        let (mut shape, mut along) = (vec![], vec![]);
        for axis in 0..rank {
            let index = indices.and_then(|indices| indices.get(axis));
            let (axis_index, extent) = match index {
                Some(SliceIndex::At(index)) => (TileAxisIndex::At(self.shared_index(index)?), None),
                Some(SliceIndex::Range { start, end, inclusive: false, step }) if start.is_some() || end.is_some() => {
                    let (window, extent) = self.window([start.as_ref(), end.as_ref(), step.as_ref()], span)?;
                    (TileAxisIndex::From(window), Some(extent))
                }
                None | Some(SliceIndex::Range { start: None, end: None, step: None, .. }) => {
                    let extent = self.known_extent(memory, axis as u8);
                    (TileAxisIndex::From(AxisRange::ALL), Some(extent.ok_or_else(|| unknown_tile_extent(span))?))
                }
                _ => return Err(not_a_tile_operation(span, "a part with lists of positions")),
            };
            along.push(axis_index);
            shape.extend(extent);
        }
        Ok(TileExpr { shape, scalar, node: TileNode::Part(TileWindow { memory, axes: along }), span })
    }

    /// Returns the window for a range, and its number of indices. The range `i..min(i + 64, n)` has 64 indices. Indices
    /// from `n` on are beyond the edge.
    fn window(&mut self, [start, end, step]: [Option<&Expr>; 3], span: Span) -> Fallible<(AxisRange, u32)> {
        let step = match step {
            Some(step) => self.known_number(step)?,
            None => 1,
        };
        if step > MAX_STEP {
            return Err(not_a_tile_operation(span, "a part with such a step"));
        }
        let bounds = match end.map(|end| &end.kind) {
            Some(ExprKind::Builtin { builtin: Builtin::Math(MathFn::Min), args, named }) if named.is_empty() => {
                args.as_slice()
            }
            _ => &[],
        };
        let (mut extent, mut limit) = (None, None);
        if let [one, other] = bounds {
            for (end, edge) in [(one, other), (other, one)] {
                if extent.is_none()
                    && let Ok(between) = self.extent_between(start, Some(end), span)
                {
                    (extent, limit) = (Some(between), Some(self.shared_index(edge)?));
                }
            }
        }
        let extent = extent.map_or_else(|| self.extent_between(start, end, span), Ok)?;
        let start = start.map(|start| self.shared_index(start)).transpose()?;
        Ok((AxisRange { start, step, end: limit }, extent.div_ceil(step)))
    }

    /// Splits an index into a base and a constant offset: `(i - 1) + 4` is `(i, 3)`.
    fn split_offset<'e>(&mut self, expr: &'e Expr) -> Fallible<(&'e Expr, i128)> {
        let ExprKind::Binary { op, left, right } = &expr.kind else { return Ok((expr, 0)) };
        let (base, by) = match op {
            BinaryOp::Add => match self.number(right)? {
                Some(by) => (left, by),
                None => match self.number(left)? {
                    Some(by) => (right, by),
                    None => return Ok((expr, 0)),
                },
            },
            BinaryOp::Sub => match self.number(right)? {
                Some(by) => (left, -by),
                None => return Ok((expr, 0)),
            },
            _ => return Ok((expr, 0)),
        };
        let (base, before) = self.split_offset(base)?;
        Ok((base, before + by))
    }

    fn shared_index(&mut self, index: &Expr) -> Fallible<ExprId> {
        let value = self.scalar(index)?;
        Ok(self.shared_value(value, index.span))
    }

    /// Returns the number of indices of a range, such as 64 for `i..i + 64`.
    pub(super) fn extent_between(&mut self, start: Option<&Expr>, end: Option<&Expr>, span: Span) -> Fallible<u32> {
        let end = end.ok_or_else(|| unknown_tile_extent(span))?;
        let count = match (start, &end.kind) {
            (Some(start), ExprKind::Binary { op: BinaryOp::Add, left, right }) if same(left, start) => {
                self.number(right)?
            }
            (Some(start), ExprKind::Binary { op: BinaryOp::Add, left, right }) if same(right, start) => {
                self.number(left)?
            }
            (start, _) => {
                let from = start.map_or(Ok(Some(0)), |start| self.number(start))?;
                let between = self.number(end)?.zip(from).map(|(end, from)| end - from);
                match (between, start) {
                    (None, Some(start)) => {
                        let ((base, from), (other, to)) = (self.split_offset(start)?, self.split_offset(end)?);
                        same(base, other).then_some(to - from)
                    }
                    _ => between,
                }
            }
        };
        let count = count.ok_or_else(|| unknown_tile_extent(span))?;
        super::arrays::size(count, "a part", span)
    }

    /// Returns the location of an element in the array, and the condition that the location is inside the array; `None`
    /// if it always is.
    fn place_in(&mut self, part: &TileWindow, at: &[ExprId], guarded: bool, span: Span) -> (Place, Option<ExprId>) {
        let (mut indices, mut inside) = (vec![], None);
        let mut rest = at.iter();
        for (axis, along) in part.axes.iter().enumerate() {
            let (index, tested) = match along {
                TileAxisIndex::At(index) => (*index, false),
                TileAxisIndex::From(window) => {
                    let own = rest.next().copied().unwrap_or_else(|| self.out.i32(0, span));
                    (self.index_in(window, own, span), guarded || *window != AxisRange::ALL)
                }
            };
            indices.push(index);
            if tested {
                let extent = self.extent(part.memory, axis as u8, span);
                let zero = self.out.i32(0, span);
                let wide = self.out.ty(index).scalar();
                let end = if let TileAxisIndex::From(window) = along { window.end } else { None };
                for (op, limit) in
                    [(BinOp::Ge, zero), (BinOp::Lt, extent)].into_iter().chain(end.map(|end| (BinOp::Lt, end)))
                {
                    let limit = self.out.convert(limit, wide, span);
                    let in_bounds = self.out.binary(op, index, limit, span);
                    inside = Some(match inside {
                        Some(before) => self.out.binary(BinOp::And, before, in_bounds, span),
                        None => in_bounds,
                    });
                }
            }
        }
        (Place { memory: part.memory, indices, leaf: 0, component: None }, inside)
    }

    /// Returns the array index of an element of a window. If the bounds are not `i32`, the index is computed in `i64`,
    /// so that a large index is beyond the edge and does not wrap around.
    fn index_in(&mut self, window: &AxisRange, own: ExprId, span: Span) -> ExprId {
        let bounds = window.start.into_iter().chain(window.end);
        let is_usual = bounds.into_iter().all(|bound| self.out.ty(bound).scalar() == Scalar::I32);
        let wide = if is_usual { Scalar::I32 } else { Scalar::I64 };
        let mut own = self.out.convert(own, wide, span);
        if window.step > 1 {
            let step = self.out.i32(window.step as i32, span);
            let step = self.out.convert(step, wide, span);
            own = self.out.binary(BinOp::Mul, own, step, span);
        }
        let Some(start) = window.start else { return own };
        let start = self.out.convert(start, wide, span);
        self.out.binary(BinOp::Add, start, own, span)
    }

    /// If the tile is a plain copy of an array window, returns that copy.
    pub(super) fn as_tile_copy(&mut self, tile: &TileExpr, to: MemId) -> Option<TileCopy> {
        let PlainWindow { tile, part, transposed, rounded, .. } = PlainWindow::of(tile)?;
        let (mut extents, mut along) = (tile.shape.iter(), vec![]);
        for index in &part.axes {
            along.push(match index {
                TileAxisIndex::At(at) => AxisWindow::Index(*at),
                TileAxisIndex::From(AxisRange { start, step, end }) => {
                    let start = start.unwrap_or_else(|| self.out.i32(0, tile.span));
                    AxisWindow::Range { start, extent: *extents.next()?, step: *step, end: *end }
                }
            });
        }
        let is_usual = |index: ExprId| self.out.ty(index) == Ty::Scalar(Scalar::I32);
        let is_copy = along.iter().all(|window| match *window {
            AxisWindow::Index(index) => is_usual(index),
            AxisWindow::Range { start, end, .. } => is_usual(start) && end.is_none_or(is_usual),
        });
        is_copy.then_some(TileCopy { to, from: part.memory, axes: along, transposed, rounded })
    }

    /// Loads an element of a window, or returns zero if the element is beyond the edge. With `guarded`, the index is
    /// checked even along axes that the window covers wholly.
    pub(super) fn load_window_element(
        &mut self,
        part: &TileWindow,
        at: &[ExprId],
        scalar: Scalar,
        guarded: bool,
        span: Span,
    ) -> ExprId {
        let ty = Ty::Scalar(scalar);
        let (place, inside) = self.place_in(part, at, guarded, span);
        let Some(cond) = inside else {
            return self.out.value(def::ExprKind::Load { place, hint: CacheHint::None }, ty, span);
        };
        let local = self.out.local("element", ty, span);
        let zero = self.out.zero(ty, span);
        self.out.stmt(StmtKind::Write { local, value: zero }, span);
        self.out.open();
        let value = self.out.value(def::ExprKind::Load { place, hint: CacheHint::None }, ty, span);
        self.out.stmt(StmtKind::Write { local, value }, span);
        let (then, _) = self.out.close();
        self.out.stmt(StmtKind::If { cond, then, other: vec![] }, span);
        self.out.read(local, span)
    }

    pub(super) fn store_window_element(
        &mut self,
        part: &TileWindow,
        at: &[ExprId],
        value: ExprId,
        span: Span,
    ) -> Fallible<()> {
        let (place, inside) = self.place_in(part, at, false, span);
        let store = StmtKind::Store { place, value, hint: CacheHint::None };
        let Some(cond) = inside else {
            self.out.stmt(store, span);
            return Ok(());
        };
        self.out.open();
        self.out.stmt(store, span);
        let (then, _) = self.out.close();
        self.out.stmt(StmtKind::If { cond, then, other: vec![] }, span);
        Ok(())
    }
}
