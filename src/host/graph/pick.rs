//! Indexing by arrays of positions: in, an array, the positions along some of its axes, and how the others are read; out, an array
//! whose elements a kernel loads at positions that it computes. That all positions are inside is found out at once, by one
//! reduction on the device, so that an error shows at its line and what is deferred cannot fail; the loads are part of the kernel
//! of what reads them.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::base::room;
use crate::device::profile::{self, standing_at};
use crate::device::storage::Storage;
use crate::host::array::{Array, Item, MAX_EXTENT, Work, byte_count};
use crate::host::graph::fold::fold;
use crate::host::graph::node::{Below, Fold, MOST, MOST_INPUTS, Op, Operand, Rows};
use crate::host::graph::picked::{List, Parts, Picked};
use crate::host::graph::place::{in_scalars, is_far, is_here};
use crate::host::graph::plan::Plan;
use crate::host::graph::run::{below, broken, compute, defer};
use crate::host::graph::site::{Held, Site};
use crate::host::graph::view::{Along, MUCH};
use crate::host::problem::Outcome;
use crate::lang::ops::BinaryOp;
use crate::lang::scalar::{Scalar, Value};
use crate::with_integer;

/// The most elements that are copied on the host, if everything is there; tests have kernels for more than a few.
pub(super) const FEW: usize = if cfg!(test) { 16 } else { 1 << 10 };

/// Returns the elements of an array at these positions; `axes` has an entry for each of its axes, and `shape` is that of the result.
/// `None` if they are to be copied on the host, or if a position is not inside.
pub(crate) fn pick(array: &Array, axes: Vec<Along>, lists: Vec<List>, shape: &[usize]) -> Outcome<Option<Array>> {
    let bytes = byte_count(array.element(), shape)?;
    let Some((source, last)) = in_scalars(array)? else { return Ok(None) };
    let extended = |shape: &[usize]| shape.iter().copied().chain(last).collect::<Vec<usize>>();
    let (from, whole) = (extended(array.shape()), extended(shape));
    let axes: Vec<Along> = axes.into_iter().chain(last.map(|_| Along::all(shape.len()))).collect();
    let count = whole.iter().product::<usize>();
    let all = || std::iter::once(array).chain(lists.iter().map(|list| &list.at));
    if bytes == 0 || from.iter().product::<usize>() > MAX_EXTENT || count <= FEW && all().all(is_here) {
        return Ok(None);
    }
    let site = place(array, bytes);
    for list in &lists {
        if !is_inside(&list.at, array.shape()[list.axis], &site)? {
            return Ok(None);
        }
    }
    let scalar = source.scalar().ok_or_else(|| broken("a selection of structs"))?;
    let is_pinning = bytes <= array.byte_len() / MUCH;
    let pinned = if is_pinning { array.byte_len() } else { 0 };
    let (axes, lists) = counted(axes, lists);
    let kept: Vec<Array> = std::iter::once(array).chain(lists.iter().map(|list| &list.at)).cloned().collect();
    let Below { size, inputs, pinned, .. } = all_below(&lists, pinned)?;
    let work = Picked {
        state: Picked::pending(source.clone(), lists.clone()),
        axes,
        from,
        shape: whole,
        scalar,
        site,
        size,
        inputs,
        pinned,
        seen: AtomicBool::new(false),
        span: profile::place(),
    };
    let work: Arc<dyn Work> = Arc::new(work);
    source.data().read_by(&work);
    let result = Array::deferred(array.element().clone(), shape, work)?;
    if is_pinning && is_here(array) {
        // It should not keep a much larger array in memory.
        result.storage()?;
    } else {
        Held::keep(&result, kept.iter())?;
    }
    Ok(Some(result))
}

/// Takes positions that count, 0, 1, 2, …, for what they are: indices of the result. Some positions stay.
fn counted(mut axes: Vec<Along>, mut lists: Vec<List>) -> (Vec<Along>, Vec<List>) {
    while let Some(found) = lists.iter().position(|list| list.at.is_counting()).filter(|_| lists.len() > 1) {
        let list = lists.swap_remove(found);
        if let Some(axis) = axes.get_mut(list.axis) {
            *axis = Along::all(list.first);
        }
    }
    (axes, lists)
}

/// Returns which elements of a matrix with so many columns are at these positions, one in each row; `None` if some are not inside.
pub(crate) fn in_rows(at: &Array, columns: usize) -> Outcome<Option<Array>> {
    let shape = [at.count(), columns];
    if byte_count(&Scalar::Bool.into(), &shape)? == 0
        || columns > MAX_EXTENT
        || !is_inside(at, columns, &Site::current())?
    {
        return Ok(None);
    }
    let (own, scalar) = ([at.count(), 1], Scalar::I32);
    let numbers: Vec<i32> = room::collect(columns, 0..columns as i32);
    let mut at = at.with_shape(&own)?;
    if at.scalar() != Some(scalar) {
        at = defer(Op::Convert(scalar), vec![Operand::Array(at, own.to_vec())], scalar, scalar.into(), &own)?;
    }
    let numbers = Operand::Array(Array::from_shaped(&numbers, &[1, columns])?, vec![1, columns]);
    let operands = vec![Operand::Array(at, own.to_vec()), numbers];
    defer(Op::Binary(BinaryOp::Eq), operands, Scalar::Bool, Scalar::Bool.into(), &shape).map(Some)
}

/// Returns where so many bytes of an array are selected: on a GPU, unless that would have to be given much more than the result.
fn place(array: &Array, bytes: usize) -> Site {
    let site = Site::current();
    let moves = array.data().computed().is_some() && !is_far(array);
    match site.near() {
        Some(near) if moves && 2 * bytes < array.byte_len() => near.clone(),
        _ => site,
    }
}

/// Returns what is deferred below these positions and what reads them; computes them first if that is too much.
fn all_below(lists: &[List], pinned: usize) -> Outcome<Below> {
    let sum = || {
        let each = lists.iter().map(|list| below(&list.at));
        let first = Below { size: 1, inputs: 1, pinned, folds: false };
        each.fold(first, |a, b| Below {
            size: a.size + b.size + 1,
            inputs: a.inputs + b.inputs,
            pinned: a.pinned.saturating_add(b.pinned),
            folds: false,
        })
    };
    if sum().size > MOST / 2 || sum().inputs > MOST_INPUTS / 2 {
        lists.iter().try_for_each(|list| list.at.storage().map(drop))?;
    }
    Ok(sum())
}

/// Returns whether all integers of an array are positions along an axis of this length.
pub(super) fn is_inside(at: &Array, len: usize, site: &Site) -> Outcome<bool> {
    let scalar = at.scalar().ok_or_else(|| broken("structs as positions"))?;
    if at.data().is_known_below(scalar, len) {
        return Ok(true);
    }
    let inside = if at.count() <= FEW && is_here(at) {
        with_integer!(scalar, T => on_host::<T>(at, len)?, _ => return Ok(false))
    } else {
        let _standing = site.clone().enter();
        Held::aside(|| by_fold(at, scalar, len))?
    };
    if inside && at.data().computed().is_some() {
        at.data().note_below(scalar, len);
    }
    Ok(inside)
}

fn on_host<T: Item>(at: &Array, len: usize) -> Outcome<bool> {
    // A negative number becomes a large one, and one of `u64` beyond `i64` stays one.
    Ok(at.items::<T>()?.iter().all(|number| (number.to::<i64>() as u64) < len as u64))
}

/// Compares the integers, as unsigned ones, with the length.
fn by_fold(at: &Array, scalar: Scalar, len: usize) -> Outcome<bool> {
    let shape = at.shape().to_vec();
    let convert = |array: Array, to: Scalar| match array.scalar() == Some(to) {
        true => Ok(array),
        false => defer(Op::Convert(to), vec![Operand::Array(array, shape.clone())], to, to.into(), &shape),
    };
    let numbers = match scalar {
        Scalar::I64 | Scalar::U64 => convert(at.clone(), Scalar::U64)?,
        Scalar::I8 | Scalar::I16 => convert(convert(at.clone(), Scalar::I32)?, Scalar::U32)?,
        _ => convert(at.clone(), Scalar::U32)?,
    };
    let limit = Value::of(len as u64).to_type(numbers.scalar().unwrap_or(Scalar::U32));
    let operands = vec![Operand::Array(numbers, shape.clone()), Operand::Scalar(limit)];
    let outside = defer(Op::Binary(BinaryOp::Ge), operands, Scalar::Bool, Scalar::Bool.into(), &shape)?;
    let any = Fold { combine: Op::Binary(BinaryOp::BitOr), wide: Scalar::Bool, divisor: None, result: Scalar::Bool };
    let rows = Rows { outer: 1, len: at.count(), inner: 1 };
    match fold(&any, &outside, &shape, &vec![1; shape.len()], rows)? {
        Some(found) => Ok(found.bytes()?.iter().all(|byte| *byte == 0)),
        None => Ok(false),
    }
}

/// Computes the elements of a selection from these parts.
fn computed(picked: &Picked, parts: &Parts, len: usize) -> Outcome<Storage> {
    let _place = picked.site.counts().then(|| standing_at(picked.span));
    let (plan, element) = Plan::of_picked(picked, parts)?;
    compute(&plan, element, (picked.scalar, &picked.shape), &picked.site, len, false)
}

impl Work for Picked {
    fn run(&self, len: usize) -> Outcome<Storage> {
        if let Some(parts) = self.parts() {
            return computed(self, &parts, len);
        }
        self.give().ok_or_else(|| broken("a selection that is computed twice"))
    }

    fn settle(&self, len: usize) -> Outcome<()> {
        let Some(parts) = self.parts() else { return Ok(()) };
        let computed = computed(self, &parts, len)?;
        self.release(computed);
        Ok(())
    }

    fn unsettled(&self) -> usize {
        self.parts().map_or(0, |_| self.shape.iter().product::<usize>() * self.scalar.size())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
