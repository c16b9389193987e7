//! Access paths in constant evaluation: which scalars of which variable an expression selects.

use super::super::error::{Fallible, internal};
use super::super::types;
use super::{Constants, failed, not_constant};
use crate::base::source::Span;
use crate::check::typed::{Expr, ExprKind, LocalId, Type};
use crate::lang::scalar::Value;

/// Selected scalars of a variable, or of a computed value.
pub(super) struct Part {
    base: Base,
    positions: Vec<usize>,
}

enum Base {
    Local(LocalId),
    Value(Vec<Value>),
}

impl Constants<'_> {
    pub(super) fn read(&mut self, expr: &Expr) -> Fallible<Vec<Value>> {
        let part = self.part(expr)?;
        self.read_part(&part, expr)
    }

    pub(super) fn read_part(&self, part: &Part, expr: &Expr) -> Fallible<Vec<Value>> {
        let values = match &part.base {
            Base::Local(id) => match self.locals.get(id) {
                Some(stored) => &stored.values,
                None => return Err(not_constant(expr.span, "this is only known when the program runs")),
            },
            Base::Value(values) => values,
        };
        let selected: Option<Vec<Value>> = part.positions.iter().map(|&at| values.get(at).copied()).collect();
        selected.ok_or_else(|| internal(expr.span, "a part that is not there"))
    }

    pub(super) fn write_part(&mut self, part: &Part, values: &[Value], span: Span) -> Fallible<()> {
        let Base::Local(id) = part.base else { return Err(internal(span, "an assignment to a value")) };
        let stored = self.locals.entry(id).or_default();
        for (&at, &value) in part.positions.iter().zip(values) {
            match stored.values.get_mut(at) {
                Some(slot) => *slot = value,
                None => return Err(internal(span, "a part that is not there")),
            }
        }
        Ok(())
    }

    pub(super) fn part(&mut self, expr: &Expr) -> Fallible<Part> {
        match &expr.kind {
            ExprKind::Local(id) => {
                let count = self.locals.get(id).map_or(0, |stored| stored.values.len());
                if !self.locals.contains_key(id) {
                    return Err(not_constant(expr.span, "this is only known when the program runs"));
                }
                Ok(Part { base: Base::Local(*id), positions: (0..count).collect() })
            }
            ExprKind::Field { base, field } | ExprKind::TupleField { base, field } => {
                let part = self.part(base)?;
                let ty = self.ty(base)?;
                let (start, length) = self.field(&ty, *field, expr.span)?;
                let positions = part.positions.iter().copied().skip(start).take(length).collect();
                Ok(Part { positions, ..part })
            }
            ExprKind::Swizzle { base, lanes } => {
                let part = self.part(base)?;
                let positions = lanes.iter().filter_map(|&lane| part.positions.get(lane as usize).copied()).collect();
                Ok(Part { positions, ..part })
            }
            ExprKind::Index { base, indices } => self.element(base, indices, expr),
            _ => {
                let values = self.leaves(expr)?;
                Ok(Part { positions: (0..values.len()).collect(), base: Base::Value(values) })
            }
        }
    }

    fn element(&mut self, base: &Expr, indices: &[Expr], expr: &Expr) -> Fallible<Part> {
        let extents = self.extents(base)?;
        let part = self.part(base)?;
        let ty = self.ty(expr)?;
        let size = self.scalars(&ty, expr.span)?;
        let mut offset = 0_i64;
        for (index, extent) in indices.iter().zip(&extents) {
            let at = self.evaluate(index)?.as_integer().unwrap_or(-1);
            if at < 0 || at >= i128::from(*extent) {
                return Err(failed(index.span, &format!("the index {at} is outside of an array of {extent}")));
            }
            offset = offset * extent + at as i64;
        }
        let positions = part.positions.iter().copied().skip(offset as usize * size).take(size).collect();
        Ok(Part { positions, ..part })
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
