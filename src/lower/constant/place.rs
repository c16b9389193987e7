//! Resolves access paths in constant evaluation. An access path selects scalars of a variable or of a computed value.

use std::ops::Range;

use super::super::error::{Fallible, internal};
use super::super::types;
use super::{ConstEvaluator, failed, not_constant};
use clk_base::source::Span;
use clk_check::typed::{Expr, ExprKind, LocalId, SliceIndex, Type};
use clk_scalar::ScalarValue;

/// Selected scalars of a variable, or of a computed value.
pub(super) struct ConstSelection {
    base: ConstPlaceBase,
    positions: Positions,
}

/// The positions of the selected scalars. A contiguous range is stored without listing its positions, so that selecting
/// from a long array is fast.
enum Positions {
    Run(Range<usize>),
    List(Vec<usize>),
}

impl Positions {
    fn len(&self) -> usize {
        match self {
            Positions::Run(run) => run.len(),
            Positions::List(list) => list.len(),
        }
    }

    fn get(&self, at: usize) -> Option<usize> {
        match self {
            Positions::Run(run) => run.clone().nth(at),
            Positions::List(list) => list.get(at).copied(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        let (run, list) = match self {
            Positions::Run(run) => (run.clone(), [].as_slice()),
            Positions::List(list) => (0..0, list.as_slice()),
        };
        run.chain(list.iter().copied())
    }

    /// Returns up to `length` positions, beginning with the one at `start`.
    fn slice(&self, start: usize, length: usize) -> Positions {
        let end = self.len().min(start.saturating_add(length));
        let start = start.min(end);
        match self {
            Positions::Run(run) => Positions::Run(run.start + start..run.start + end),
            Positions::List(list) => Positions::List(list[start..end].to_vec()),
        }
    }
}

enum ConstPlaceBase {
    Local(LocalId),
    Value(Vec<ScalarValue>),
}

impl ConstEvaluator<'_> {
    pub(super) fn read(&mut self, expr: &Expr) -> Fallible<Vec<ScalarValue>> {
        let part = self.part(expr)?;
        self.read_part(&part, expr)
    }

    pub(super) fn read_part(&self, part: &ConstSelection, expr: &Expr) -> Fallible<Vec<ScalarValue>> {
        let values = match &part.base {
            ConstPlaceBase::Local(id) => match self.locals.get(id) {
                Some(stored) => &stored.values,
                None => return Err(not_constant(expr.span, "this is only known when the program runs")),
            },
            ConstPlaceBase::Value(values) => values,
        };
        let selected: Option<Vec<ScalarValue>> = part.positions.iter().map(|at| values.get(at).copied()).collect();
        selected.ok_or_else(|| internal(expr.span, "a part that is not there"))
    }

    pub(super) fn write_part(&mut self, part: &ConstSelection, values: &[ScalarValue], span: Span) -> Fallible<()> {
        let ConstPlaceBase::Local(id) = part.base else { return Err(internal(span, "an assignment to a value")) };
        let stored = self.locals.entry(id).or_default();
        for (at, &value) in part.positions.iter().zip(values) {
            match stored.values.get_mut(at) {
                Some(slot) => *slot = value,
                None => return Err(internal(span, "a part that is not there")),
            }
        }
        Ok(())
    }

    pub(super) fn part(&mut self, expr: &Expr) -> Fallible<ConstSelection> {
        match &expr.kind {
            ExprKind::Local(id) => {
                let count = self.locals.get(id).map_or(0, |stored| stored.values.len());
                if !self.locals.contains_key(id) {
                    return Err(not_constant(expr.span, "this is only known when the program runs"));
                }
                Ok(ConstSelection { base: ConstPlaceBase::Local(*id), positions: Positions::Run(0..count) })
            }
            ExprKind::Field { base, field } | ExprKind::TupleField { base, field } => {
                let part = self.part(base)?;
                let ty = self.ty(base)?;
                let (start, length) = self.field(&ty, *field, expr.span)?;
                Ok(ConstSelection { positions: part.positions.slice(start, length), ..part })
            }
            ExprKind::Swizzle { base, lanes } => {
                let part = self.part(base)?;
                let positions = lanes.iter().filter_map(|&lane| part.positions.get(lane as usize)).collect();
                Ok(ConstSelection { positions: Positions::List(positions), ..part })
            }
            ExprKind::Index { base, indices } => self.element(base, indices, expr),
            ExprKind::Slice { base, indices } => self.row(base, indices, expr),
            _ => {
                let values = self.leaves(expr)?;
                Ok(ConstSelection { positions: Positions::Run(0..values.len()), base: ConstPlaceBase::Value(values) })
            }
        }
    }

    fn element(&mut self, base: &Expr, indices: &[Expr], expr: &Expr) -> Fallible<ConstSelection> {
        let extents = self.extents(base)?;
        let part = self.part(base)?;
        let ty = self.ty(expr)?;
        let size = self.scalars(&ty, expr.span)?;
        let mut offset = 0_i64;
        for (index, extent) in indices.iter().zip(&extents) {
            offset = offset * extent + self.index(index, *extent)?;
        }
        Ok(ConstSelection { positions: part.positions.slice(offset as usize * size, size), ..part })
    }

    /// Resolves a slice such as `m[i, ..]`, which has an index for some axes and covers the other axes wholly.
    fn row(&mut self, base: &Expr, indices: &[SliceIndex], expr: &Expr) -> Fallible<ConstSelection> {
        let extents = self.extents(base)?;
        let part = self.part(base)?;
        let size = part.positions.len() / (extents.iter().product::<i64>().max(1) as usize);
        // The positions of the selected elements, extended axis by axis.
        let mut elements = vec![0];
        for (axis, &extent) in extents.iter().enumerate() {
            let axis_range = match indices.get(axis) {
                None | Some(SliceIndex::Range { start: None, end: None, step: None, .. }) => 0..extent,
                Some(SliceIndex::At(index)) => {
                    let at = self.index(index, extent)?;
                    at..at + 1
                }
                Some(_) => return Err(not_constant(expr.span, "a part of an axis belongs to the host")),
            };
            elements = elements.iter().flat_map(|&at| axis_range.clone().map(move |k| at * extent + k)).collect();
        }
        let scalars = elements.iter().flat_map(|&at| (0..size).map(move |k| at as usize * size + k));
        let positions: Option<Vec<usize>> = scalars.map(|at| part.positions.get(at)).collect();
        let positions = positions.ok_or_else(|| internal(expr.span, "a row that is not there"))?;
        Ok(ConstSelection { positions: Positions::List(positions), ..part })
    }

    fn index(&mut self, index: &Expr, extent: i64) -> Fallible<i64> {
        let at = self.evaluate(index)?.as_integer().unwrap_or(-1);
        if at < 0 || at >= i128::from(extent) {
            return Err(failed(index.span, &format!("the index {at} is outside of an array of {extent}")));
        }
        Ok(at as i64)
    }

    /// Returns the offset and length, in scalars, of a field of a struct or tuple.
    pub(super) fn field(&self, ty: &Type, field: u32, span: Span) -> Fallible<(usize, usize)> {
        let mut start = 0;
        for (position, (_, part)) in types::parts(self.program, ty, span)?.into_iter().enumerate() {
            let length = self.scalars(part, span)?;
            if position == field as usize {
                return Ok((start, length));
            }
            start += length;
        }
        Err(internal(span, "a part that is not there"))
    }

    pub(super) fn scalars(&self, ty: &Type, span: Span) -> Fallible<usize> {
        Ok(types::machine(self.program, ty, span)?.iter().map(|leaf| leaf.lanes() as usize).sum())
    }
}
