//! Operations that change the shape or order of elements.

use crate::array::{Array, ElementType, SliceSpec, shape_text};
use crate::graph::{self, ExecContext, ViewAxis};
use crate::ops::operand::{self, array};
use crate::ops::text;
use crate::problem::{HostResult, RuntimeError};
use crate::shard::{self, lift};
use crate::value::HostValue;
use clk_base::stop;

/// Evaluates `reshape`: returns the same elements in another shape. One dimension may be -1, which is then inferred.
pub fn reshape(value: &HostValue, dims: &[i64]) -> HostResult<HostValue> {
    let x = array(value, "`reshape`")?;
    let problem = |title: String| RuntimeError::new("E0508", title);
    let open = dims.iter().filter(|&&d| d == -1).count();
    if let Some(bad) = dims.iter().find(|&&d| d < -1) {
        return Err(problem(format!("an axis cannot have {bad} elements")));
    }
    if open > 1 {
        return Err(problem("only one dimension of `reshape` may be -1".into()));
    }
    let known_product: i128 = dims.iter().filter(|&&d| d != -1).map(|&d| i128::from(d)).product();
    let count = x.count() as i128;
    let is_compatible =
        if open == 1 { known_product > 0 && count % known_product == 0 } else { known_product == count };
    if !is_compatible {
        let (from, to) = (shape_text(x.shape()), dims_text(dims));
        let title = format!("an array of shape {from} cannot be reshaped to {to}");
        let note = match open {
            0 => format!("{from} has {count} elements, {to} has {known_product}"),
            _ => format!("{from} has {count} elements, which is not a multiple of {known_product}"),
        };
        return Err(problem(title).label(note));
    }
    let rest = if open == 1 { (count / known_product) as usize } else { 0 };
    let shape: Vec<usize> = dims.iter().map(|&d| usize::try_from(d).unwrap_or(rest)).collect();
    x.with_shape(&shape).map(HostValue::Array)
}

fn dims_text(dims: &[i64]) -> String {
    match dims {
        [n] => format!("({n},)"),
        _ => format!("({})", dims.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Evaluates `transpose(x, axes)`: puts the axes in this order. Without `axes`, reverses their order.
pub fn transpose(exec: &ExecContext, value: &HostValue, axes: Option<&[i64]>) -> HostResult<HostValue> {
    permute(exec, value, &axis_order(array(value, "`transpose`")?.rank(), axes)?)
}

/// Returns the order of the axes in the result of `transpose`. An error if `axes` is no permutation.
pub(crate) fn axis_order(rank: usize, axes: Option<&[i64]>) -> HostResult<Vec<usize>> {
    let Some(axes) = axes else { return Ok((0..rank).rev().collect()) };
    if operand::axes(axes, rank, "`transpose`")?.len() != rank {
        let title = format!("`transpose` of an array with {rank} axes in the order of {}", axes.len());
        return Err(RuntimeError::new("E0507", title).help("name each axis once: `axes = (1, 0, 2)`"));
    }
    Ok(axes.iter().map(|&axis| axis as usize).collect())
}

/// Returns the order of axes in which the axis `from` is at the position `to`, and the others keep their order.
pub(crate) fn moved_axis(rank: usize, from: usize, to: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).filter(|&axis| axis != from).collect();
    order.insert(to.min(order.len()), from);
    order
}

/// Returns the inverse of a permutation.
pub(crate) fn inverse_order(order: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| inverse[from] = to);
    inverse
}

/// Returns the array with its axes in another order: axis `k` of the result is axis `order[k]` of the array.
pub(crate) fn permute(exec: &ExecContext, value: &HostValue, order: &[usize]) -> HostResult<HostValue> {
    let x = array(value, "`transpose`")?;
    if order.is_sorted() {
        return Ok(value.clone());
    }
    let place = |axis: usize| order.iter().position(|&from| from == axis).unwrap_or(axis);
    let permute_part = |exec: &ExecContext, part: &Array| {
        let shape: Vec<usize> = order.iter().map(|&axis| part.shape()[axis]).collect();
        graph::make_view(exec, part, (0..order.len()).map(place).map(ViewAxis::full).collect(), &shape)
    };
    match shard::as_sharded(x) {
        Some(sharded) => {
            let cut = place(sharded.layout().axis);
            lift::lift_rows(exec, &sharded, cut, false, |exec, _, part| permute_part(exec, part))
        }
        None => permute_part(exec, x),
    }
    .map(HostValue::Array)
}

/// Concatenates arrays along an axis. The extents of their other axes must be equal.
pub fn concat(exec: &ExecContext, parts: &[HostValue], axis: i64) -> HostResult<HostValue> {
    if let Some(texts) = text::concat(parts) {
        operand::axis(axis, 1, "`concat`")?;
        return texts;
    }
    let arrays = arrays_of_one_type(parts, "`concat`")?;
    let Some(first) = arrays.first() else { return Err(RuntimeError::new("E0541", "`concat` of no arrays")) };
    let axis = operand::axis(axis, first.rank(), "`concat`")?;
    let mut shape = first.shape().to_vec();
    let mut total = 0;
    for (position, part) in arrays.iter().enumerate() {
        let agrees = |(k, (a, b)): (usize, (&usize, &usize))| k == axis || a == b;
        if part.rank() != shape.len() || !part.shape().iter().zip(&shape).enumerate().all(agrees) {
            return Err(shape_mismatch("`concat`", first, part, position)
                .note(format!("all axes but {axis} must be equally long")));
        }
        total += part.shape().get(axis).copied().unwrap_or(0);
    }
    shape.iter_mut().skip(axis).take(1).for_each(|len| *len = total);
    if let Some(joined) = graph::concatenate(exec, &arrays, axis, &shape)? {
        return Ok(HostValue::Array(joined));
    }
    let mut result = Array::zeros(first.element().clone(), &shape)?;
    let inner = shape.iter().skip(axis + 1).product::<usize>() * first.element().size();
    let mut start = 0;
    let bytes = result.bytes_mut()?;
    for part in arrays {
        let run = part.shape().get(axis).copied().unwrap_or(0) * inner;
        let blocks = bytes.chunks_exact_mut((total * inner).max(1));
        for (block, from) in stop::polled(blocks.zip(part.bytes()?.chunks_exact(run.max(1)))) {
            if let Some(place) = block.get_mut(start..start + run) {
                stop::copy(place, from);
            }
        }
        start += run;
    }
    Ok(HostValue::Array(result))
}

/// Stacks arrays of one shape along a new axis.
pub fn stack(exec: &ExecContext, parts: &[HostValue], axis: i64) -> HostResult<HostValue> {
    let arrays = arrays_of_one_type(parts, "`stack`")?;
    let Some(first) = arrays.first() else { return Err(RuntimeError::new("E0541", "`stack` of no arrays")) };
    let axis = operand::axis(axis, first.rank() + 1, "`stack`")?;
    let joined = join(exec, first.element(), first.shape(), &arrays, "`stack`").map(HostValue::Array)?;
    if axis == 0 {
        return Ok(joined);
    }
    permute(exec, &joined, &moved_axis(first.rank() + 1, 0, axis))
}

/// Joins arrays of this shape along a new first axis.
fn join(
    exec: &ExecContext,
    element: &ElementType,
    shape: &[usize],
    arrays: &[&Array],
    what: &str,
) -> HostResult<Array> {
    let mut whole = vec![arrays.len()];
    whole.extend(shape);
    if let Some((position, part)) = arrays.iter().enumerate().find(|(_, part)| part.shape() != shape) {
        return Err(shape_mismatch(what, arrays.first().unwrap_or(part), part, position));
    }
    let rows =
        arrays.iter().map(|part| part.with_shape(&[&[1], shape].concat())).collect::<HostResult<Vec<Array>>>()?;
    if let Some(joined) = graph::concatenate(exec, &rows.iter().collect::<Vec<_>>(), 0, &whole)? {
        return Ok(joined);
    }
    let mut result = Array::zeros(element.clone(), &whole)?;
    let mut rest = result.bytes_mut()?;
    for part in arrays {
        let (place, behind) = rest.split_at_mut(part.byte_len().min(rest.len()));
        stop::copy(place, part.bytes()?);
        rest = behind;
    }
    Ok(result)
}

fn arrays_of_one_type<'v>(parts: &'v [HostValue], what: &str) -> HostResult<Vec<&'v Array>> {
    let arrays = parts.iter().map(|part| array(part, what)).collect::<HostResult<Vec<&Array>>>()?;
    match arrays.first().and_then(|first| arrays.iter().find(|a| a.element() != first.element()).map(|a| (first, a))) {
        None => Ok(arrays),
        Some((first, other)) => {
            let title =
                format!("{what} needs arrays of one element type, not {} and {}", first.element(), other.element());
            Err(RuntimeError::new("E0504", title))
        }
    }
}

fn shape_mismatch(what: &str, first: &Array, part: &Array, position: usize) -> RuntimeError {
    let (a, b) = (shape_text(first.shape()), shape_text(part.shape()));
    RuntimeError::new("E0501", format!("{what} of arrays of shape {a} and {b}"))
        .label(format!("array {} of the list has the shape {b}", position + 1))
}

/// Evaluates `flip`: reverses the order of elements along an axis.
pub fn flip(exec: &ExecContext, value: &HostValue, axis: i64) -> HostResult<HostValue> {
    if let HostValue::Strings(texts) = value {
        operand::axis(axis, 1, "`flip`")?;
        let backward = SliceSpec::Range { start: None, end: None, inclusive: false, step: Some(-1) };
        return text::slice_texts(texts, backward);
    }
    let x = array(value, "`flip`")?;
    let axis = operand::axis(axis, x.rank(), "`flip`")?;
    let mut axes: Vec<ViewAxis> = (0..x.rank()).map(ViewAxis::full).collect();
    let last = x.shape().get(axis).copied().unwrap_or(0).saturating_sub(1);
    axes.iter_mut().skip(axis).take(1).for_each(|along| *along = ViewAxis { start: last, step: -1, axis });
    graph::make_view(exec, x, axes, x.shape()).map(HostValue::Array)
}

/// Evaluates an array literal. Scalars, vectors and records form a 1-d array; arrays of one shape are stacked along a
/// new first axis. Untyped literals take the type of the other items. `element` is the required element type, if any;
/// an empty array needs one.
pub fn literal(exec: &ExecContext, items: &[HostValue], element: Option<&ElementType>) -> HostResult<HostValue> {
    if items.iter().any(|item| matches!(item, HostValue::Array(_))) {
        let arrays = arrays_of_one_type(items, "an array literal")?;
        let Some(first) = arrays.first() else { return Err(RuntimeError::new("E0541", "an empty array literal")) };
        return join(exec, first.element(), first.shape(), &arrays, "an array literal").map(HostValue::Array);
    }
    let scalar = operand::common_scalar(&items.iter().collect::<Vec<_>>());
    let has_point = items.iter().any(|item| matches!(item, HostValue::Float(_)));
    let adapt = |item: &HostValue| match (element.and_then(ElementType::scalar).or(scalar), item) {
        (Some(scalar), _) => operand::adapt(item, scalar, "an array literal"),
        (None, HostValue::Int(n)) if has_point => Ok(HostValue::of(*n as f32)),
        _ => Ok(item.clone().with_default_type()),
    };
    let items = items.iter().map(adapt).collect::<HostResult<Vec<HostValue>>>()?;
    let own = items.first().and_then(crate::array::element_value::element_of);
    let Some(element) = element.cloned().or(own) else {
        return Err(match items.first() {
            None => {
                RuntimeError::new("E0541", "the element type of an empty array is not known").help("use `zeros(0)`")
            }
            Some(item) => {
                RuntimeError::new("E0505", format!("a value of type {} cannot be an array element", item.type_name()))
            }
        });
    };
    let mut result = Array::zeros(element, &[items.len()])?;
    for (position, item) in stop::polled(items.iter().enumerate()) {
        result.set_item(position, item)?;
    }
    Ok(HostValue::Array(result))
}
