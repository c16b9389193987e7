//! Sums over all threads of a launch, as parts of adjoints: of values, and of a few elements of arrays.
//!
//! Input: an array with what each thread of a kernel of sums has added up. Output: parts of adjoints. The sums are added, in `f64`, in
//! the order of array expressions.

use super::apply::{apply, reshaped};
use super::deed::Deed;
use super::form::Form;
use super::pull::Part;
use super::tape::Step;
use crate::host::array::{Array, SliceSpec};
use crate::host::ops::{Pick, Reduce};
use crate::host::problem::Outcome;
use crate::host::value::Value;

/// The most threads that add up, and along the last axis, if there are others.
const MOST: usize = 1 << 17;
const ACROSS: usize = 1 << 12;

/// Returns the extents of the launch that adds up for one with these: they alone decide the order of the additions.
pub(super) fn threads(launch: &[usize]) -> Vec<usize> {
    let mut left = MOST;
    let mut found = vec![];
    for (axis, &len) in launch.iter().enumerate().rev() {
        let is_last_of_several = axis > 0 && axis + 1 == launch.len();
        let own = len.min(if is_last_of_several { ACROSS } else { left });
        left /= own.max(1);
        found.push(own);
    }
    found.reverse();
    found
}

/// Returns the parts of the adjoints of operands; `of` has the operand and the element of each row of the sums.
pub(super) fn parts(step: &Step, of: &[(usize, Vec<u32>)], sums: Value) -> Outcome<Vec<(usize, Part)>> {
    let axes = Form::of(&sums).map_or(0, |form| form.shape().len()) as i64;
    let totals = apply(&Deed::Reduce(Reduce::Sum, Some((1..axes).collect())), vec![sums])?;
    let mut params: Vec<usize> = of.iter().map(|(param, _)| *param).collect();
    params.dedup();
    let mut parts = vec![];
    for param in params {
        let operand = &step.operands[param];
        let (Some(_), Some(form)) = (operand.node, &operand.form) else { continue };
        let own: Vec<(i64, usize)> = of
            .iter()
            .zip(0..)
            .filter(|((own, _), _)| *own == param)
            .filter_map(|((_, at), row)| Some((row, position(form, at)?)))
            .collect();
        parts.push((param, Part::Whole(adjoint(form, &totals, &own)?)));
    }
    Ok(parts)
}

/// Returns the position of an element, or of the component of a vector; none beyond the array: no thread has added to it.
fn position(form: &Form, at: &[u32]) -> Option<usize> {
    let components = [form.lanes];
    let extents = form.shape.as_deref().unwrap_or(if form.lanes > 1 { &components } else { &[] });
    let fits = extents.len() == at.len();
    extents.iter().zip(at).filter(|_| fits).try_fold(0, |position, (&extent, &index)| {
        ((index as usize) < extent).then_some(position * extent + index as usize)
    })
}

/// Returns an adjoint of this form, to whose elements these rows of the sums are added.
fn adjoint(form: &Form, totals: &Value, own: &[(i64, usize)]) -> Outcome<Value> {
    let list = |items: Vec<i64>| Array::from_items(&items).map(|array| vec![Pick::Array(array)]);
    let rows = apply(&Deed::Gather(list(own.iter().map(|(row, _)| *row).collect())?), vec![totals.clone()])?;
    let count = form.shape().iter().product::<usize>() * form.lanes;
    let places = list(own.iter().map(|(_, place)| *place as i64).collect())?;
    let sums = apply(&Deed::Collect(places, vec![count]), vec![rows])?;
    let sums = apply(&Deed::Convert(form.scalar), vec![sums])?;
    let component = |at: usize| apply(&Deed::Index(vec![SliceSpec::At(at as i64)]), vec![sums.clone()]);
    match (&form.shape, form.lanes) {
        (Some(shape), _) => reshaped(sums, shape),
        (None, 1) => component(0),
        (None, lanes) => {
            let parts = (0..lanes).map(component).collect::<Outcome<Vec<Value>>>()?;
            apply(&Deed::Compose(form.scalar, lanes as u8), parts)
        }
    }
}
