//! Parts of arrays in tiles: which elements a tile has of an array, and what is beyond the array's edge.
//!
//! In: the indices of a part. Out: for each axis an index or a window; the place of an element, with the condition that it is inside.

use super::error::Fallible;
use super::tile::{Along, Node, Part, Step, Tile, Window};
use super::tiles::{not_of_tiles, of_unknown_extent, same};
use super::unit::Body;
use crate::base::source::Span;
use crate::check::typed::{Expr, ExprKind, SliceIndex};
use crate::ir::def::{self, BinOp, Copied, ExprId, Hint, MemId, Place, Scalar, Space, StmtKind, Taken, Ty};
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, MathFn};

/// The largest step of a part.
const MOST_STEP: u32 = 1 << 10;

impl Body<'_, '_> {
    /// Returns a whole memory, or the part at these indices.
    pub(super) fn part(&mut self, memory: MemId, indices: Option<&[SliceIndex]>, span: Span) -> Fallible<Tile> {
        let own = &self.out.function().memories[memory];
        let [leaf] = own.layout.leaves.as_slice() else { return Err(not_of_tiles(span, "an array of structs")) };
        let (Ty::Scalar(scalar), rank) = (leaf.ty, own.extents.len()) else {
            return Err(not_of_tiles(span, "an array of vectors"));
        };
        if own.space == Space::Local {
            return Err(not_of_tiles(span, "an array that each thread has for itself"));
        }
        let (mut shape, mut along) = (vec![], vec![]);
        for axis in 0..rank {
            let index = indices.and_then(|indices| indices.get(axis));
            let (which, extent) = match index {
                Some(SliceIndex::At(index)) => (Along::At(self.shared_index(index)?), None),
                Some(SliceIndex::Range { start, end, inclusive: false, step }) if start.is_some() || end.is_some() => {
                    let (window, extent) = self.window([start.as_ref(), end.as_ref(), step.as_ref()], span)?;
                    (Along::From(window), Some(extent))
                }
                None | Some(SliceIndex::Range { start: None, end: None, step: None, .. }) => {
                    let known = self.known_extent(memory, axis as u8);
                    (Along::From(Window::ALL), Some(known.ok_or_else(|| of_unknown_extent(span))?))
                }
                _ => return Err(not_of_tiles(span, "a part with lists of positions")),
            };
            along.push(which);
            shape.extend(extent);
        }
        Ok(Tile { shape, scalar, node: Node::Part(Part { memory, along }), span })
    }

    /// Returns the window of a range, and how many indices it has: `i..min(i + 64, n)` has 64, of which those from `n` on are beyond the edge.
    fn window(&mut self, [start, end, step]: [Option<&Expr>; 3], span: Span) -> Fallible<(Window, u32)> {
        let step = match step {
            Some(step) => self.known_number(step)?,
            None => 1,
        };
        if step > MOST_STEP {
            return Err(not_of_tiles(span, "a part with such a step"));
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
                    && let Ok(found) = self.extent_between(start, Some(end), span)
                {
                    (extent, limit) = (Some(found), Some(self.shared_index(edge)?));
                }
            }
        }
        let extent = extent.map_or_else(|| self.extent_between(start, end, span), Ok)?;
        let start = start.map(|start| self.shared_index(start)).transpose()?;
        Ok((Window { start, step, end: limit }, extent.div_ceil(step)))
    }

    /// Returns what a number is added to, and the number: `(i - 1) + 4` is 3 behind `i`.
    fn behind<'e>(&mut self, expr: &'e Expr) -> Fallible<(&'e Expr, i128)> {
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
        let (base, before) = self.behind(base)?;
        Ok((base, before + by))
    }

    fn shared_index(&mut self, index: &Expr) -> Fallible<ExprId> {
        let value = self.scalar(index)?;
        Ok(self.shared_value(value, index.span))
    }

    /// Returns how many indices a range has: `i..i + 64` has 64.
    pub(super) fn extent_between(&mut self, start: Option<&Expr>, end: Option<&Expr>, span: Span) -> Fallible<u32> {
        let end = end.ok_or_else(|| of_unknown_extent(span))?;
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
                        let ((base, from), (other, to)) = (self.behind(start)?, self.behind(end)?);
                        same(base, other).then_some(to - from)
                    }
                    _ => between,
                }
            }
        };
        let count = count.ok_or_else(|| of_unknown_extent(span))?;
        super::arrays::size(count, "a part", span)
    }

    /// Returns the place of an element, and the condition that it is inside of the array; none if it always is.
    fn place_in(&mut self, part: &Part, at: &[ExprId], guarded: bool, span: Span) -> (Place, Option<ExprId>) {
        let (mut indices, mut inside) = (vec![], None);
        let mut rest = at.iter();
        for (axis, along) in part.along.iter().enumerate() {
            let (index, tested) = match along {
                Along::At(index) => (*index, false),
                Along::From(window) => {
                    let own = rest.next().copied().unwrap_or_else(|| self.out.i32(0, span));
                    (self.index_in(window, own, span), guarded || *window != Window::ALL)
                }
            };
            indices.push(index);
            if tested {
                let extent = self.extent(part.memory, axis as u8, span);
                let zero = self.out.i32(0, span);
                let wide = self.out.ty(index).scalar();
                let end = if let Along::From(window) = along { window.end } else { None };
                for (op, limit) in
                    [(BinOp::Ge, zero), (BinOp::Lt, extent)].into_iter().chain(end.map(|end| (BinOp::Lt, end)))
                {
                    let limit = self.out.convert(limit, wide, span);
                    let fits = self.out.binary(op, index, limit, span);
                    inside = Some(match inside {
                        Some(before) => self.out.binary(BinOp::And, before, fits, span),
                        None => fits,
                    });
                }
            }
        }
        (Place { memory: part.memory, indices, leaf: 0, component: None }, inside)
    }

    /// Returns the index of an element of a window. What does not fit `i32` is beyond the edge, and not at its remainder.
    fn index_in(&mut self, window: &Window, own: ExprId, span: Span) -> ExprId {
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

    /// Returns what a tile is as a copy of a part of an array, if it is that.
    pub(super) fn copied(&mut self, tile: &Tile, to: MemId) -> Option<Copied> {
        let (mut tile, mut transposed, mut rounded, mut reshaped) = (tile, false, false, false);
        let part = loop {
            tile = match &tile.node {
                Node::Part(part) => break part,
                Node::Each(Step::Builtin(Builtin::Math(MathFn::Tf32)), parts) if tile.scalar == Scalar::F32 => {
                    rounded = true;
                    parts.first()?
                }
                Node::Transposed(of) if !reshaped && of.shape.len() == 2 => {
                    transposed = !transposed;
                    of
                }
                Node::Reshaped(of) => {
                    reshaped = true;
                    of
                }
                _ => return None,
            };
        };
        let (mut extents, mut along) = (tile.shape.iter(), vec![]);
        for taken in &part.along {
            along.push(match taken {
                Along::At(index) => Taken::At(*index),
                Along::From(Window { start, step, end }) => {
                    let start = start.unwrap_or_else(|| self.out.i32(0, tile.span));
                    Taken::From { start, extent: *extents.next()?, step: *step, end: *end }
                }
            });
        }
        let is_usual = |index: ExprId| self.out.ty(index) == Ty::Scalar(Scalar::I32);
        let fits = along.iter().all(|taken| match *taken {
            Taken::At(index) => is_usual(index),
            Taken::From { start, end, .. } => is_usual(start) && end.is_none_or(is_usual),
        });
        fits.then_some(Copied { to, from: part.memory, along, transposed, rounded })
    }

    /// Loads an element of a part; with `guarded`, its index may be beyond the array along axes of which all is taken, too.
    pub(super) fn get(&mut self, part: &Part, at: &[ExprId], scalar: Scalar, guarded: bool, span: Span) -> ExprId {
        let ty = Ty::Scalar(scalar);
        let (place, inside) = self.place_in(part, at, guarded, span);
        let Some(cond) = inside else {
            return self.out.value(def::ExprKind::Load { place, hint: Hint::None }, ty, span);
        };
        let local = self.out.local("element", ty, span);
        let zero = self.out.zero(ty, span);
        self.out.stmt(StmtKind::Write { local, value: zero }, span);
        self.out.open();
        let value = self.out.value(def::ExprKind::Load { place, hint: Hint::None }, ty, span);
        self.out.stmt(StmtKind::Write { local, value }, span);
        let (then, _) = self.out.close();
        self.out.stmt(StmtKind::If { cond, then, other: vec![] }, span);
        self.out.read(local, span)
    }

    pub(super) fn put(&mut self, part: &Part, at: &[ExprId], value: ExprId, span: Span) -> Fallible<()> {
        let (place, inside) = self.place_in(part, at, false, span);
        let store = StmtKind::Store { place, value, hint: Hint::None };
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
