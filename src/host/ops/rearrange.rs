//! Operations that change the shape or order of elements.

use crate::base::stop;
use crate::host::array::{Array, Element, SliceSpec, shape_text};
use crate::host::graph::{self, Along};
use crate::host::ops::operand::{self, array};
use crate::host::ops::text;
use crate::host::problem::{Outcome, Problem};
use crate::host::shard::{self, lift};
use crate::host::value::Value;

/// Returns the same elements in another shape; one dimension may be -1.
pub fn reshape(value: &Value, dims: &[i64]) -> Outcome<Value> {
    let x = array(value, "`reshape`")?;
    let problem = |title: String| Problem::new("E0508", title);
    let open = dims.iter().filter(|&&d| d == -1).count();
    if let Some(bad) = dims.iter().find(|&&d| d < -1) {
        return Err(problem(format!("an axis cannot have {bad} elements")));
    }
    if open > 1 {
        return Err(problem("only one dimension of `reshape` may be -1".into()));
    }
    let known: i128 = dims.iter().filter(|&&d| d != -1).map(|&d| i128::from(d)).product();
    let count = x.count() as i128;
    let fits = if open == 1 { known > 0 && count % known == 0 } else { known == count };
    if !fits {
        let (from, to) = (shape_text(x.shape()), dims_text(dims));
        let title = format!("an array of shape {from} cannot be reshaped to {to}");
        let note = match open {
            0 => format!("{from} has {count} elements, {to} has {known}"),
            _ => format!("{from} has {count} elements, which is no multiple of {known}"),
        };
        return Err(problem(title).label(note));
    }
    let rest = if open == 1 { (count / known) as usize } else { 0 };
    let shape: Vec<usize> = dims.iter().map(|&d| usize::try_from(d).unwrap_or(rest)).collect();
    x.with_shape(&shape).map(Value::Array)
}

fn dims_text(dims: &[i64]) -> String {
    match dims {
        [n] => format!("({n},)"),
        _ => format!("({})", dims.iter().map(i64::to_string).collect::<Vec<_>>().join(", ")),
    }
}

/// Reverses the order of the axes.
pub fn transpose(value: &Value) -> Outcome<Value> {
    let x = array(value, "`transpose`")?;
    if x.rank() < 2 {
        return Ok(value.clone());
    }
    let shape: Vec<usize> = x.shape().iter().rev().copied().collect();
    let axes = || (0..x.rank()).rev().map(Along::all).collect();
    if let Some(sharded) = shard::of(x) {
        let turned = |_, part: &Array| {
            let shape: Vec<usize> = part.shape().iter().rev().copied().collect();
            graph::view(part, axes(), &shape)
        };
        return lift::rows(&sharded, x.rank() - 1 - sharded.layout().axis, false, turned).map(Value::Array);
    }
    graph::view(x, axes(), &shape).map(Value::Array)
}

/// Concatenates arrays along an axis; their other axes must agree.
pub fn concat(parts: &[Value], axis: i64) -> Outcome<Value> {
    if let Some(texts) = text::concat(parts) {
        operand::axis(axis, 1, "`concat`")?;
        return texts;
    }
    let arrays = same_elements(parts, "`concat`")?;
    let Some(first) = arrays.first() else { return Err(Problem::new("E0541", "`concat` of no arrays")) };
    let axis = operand::axis(axis, first.rank(), "`concat`")?;
    let mut shape = first.shape().to_vec();
    let mut total = 0;
    for (position, part) in arrays.iter().enumerate() {
        let agrees = |(k, (a, b)): (usize, (&usize, &usize))| k == axis || a == b;
        if part.rank() != shape.len() || !part.shape().iter().zip(&shape).enumerate().all(agrees) {
            return Err(
                unlike("`concat`", first, part, position).note(format!("all axes but {axis} have to be equally long"))
            );
        }
        total += part.shape().get(axis).copied().unwrap_or(0);
    }
    shape.iter_mut().skip(axis).take(1).for_each(|len| *len = total);
    if let Some(joined) = graph::joined(&arrays, axis, &shape)? {
        return Ok(Value::Array(joined));
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
    Ok(Value::Array(result))
}

/// Stacks arrays of one shape along a new first axis.
pub fn stack(parts: &[Value]) -> Outcome<Value> {
    let arrays = same_elements(parts, "`stack`")?;
    let Some(first) = arrays.first() else { return Err(Problem::new("E0541", "`stack` of no arrays")) };
    join(first.element(), first.shape(), &arrays, "`stack`").map(Value::Array)
}

/// Joins arrays of this shape along a new first axis.
fn join(element: &Element, shape: &[usize], arrays: &[&Array], what: &str) -> Outcome<Array> {
    let mut whole = vec![arrays.len()];
    whole.extend(shape);
    if let Some((position, part)) = arrays.iter().enumerate().find(|(_, part)| part.shape() != shape) {
        return Err(unlike(what, arrays.first().unwrap_or(part), part, position));
    }
    let rows = arrays.iter().map(|part| part.with_shape(&[&[1], shape].concat())).collect::<Outcome<Vec<Array>>>()?;
    if let Some(joined) = graph::joined(&rows.iter().collect::<Vec<_>>(), 0, &whole)? {
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

fn same_elements<'v>(parts: &'v [Value], what: &str) -> Outcome<Vec<&'v Array>> {
    let arrays = parts.iter().map(|part| array(part, what)).collect::<Outcome<Vec<&Array>>>()?;
    match arrays.first().and_then(|first| arrays.iter().find(|a| a.element() != first.element()).map(|a| (first, a))) {
        None => Ok(arrays),
        Some((first, other)) => {
            let title =
                format!("{what} needs arrays of one element type, not {} and {}", first.element(), other.element());
            Err(Problem::new("E0504", title))
        }
    }
}

fn unlike(what: &str, first: &Array, part: &Array, position: usize) -> Problem {
    let (a, b) = (shape_text(first.shape()), shape_text(part.shape()));
    Problem::new("E0501", format!("{what} of arrays of shape {a} and {b}"))
        .label(format!("array {} of the list has the shape {b}", position + 1))
}

/// Reverses the order along an axis.
pub fn flip(value: &Value, axis: i64) -> Outcome<Value> {
    if let Value::Strings(texts) = value {
        operand::axis(axis, 1, "`flip`")?;
        let backward = SliceSpec::Range { start: None, end: None, inclusive: false, step: Some(-1) };
        return text::pick_texts(texts, backward);
    }
    let x = array(value, "`flip`")?;
    let axis = operand::axis(axis, x.rank(), "`flip`")?;
    let mut axes: Vec<Along> = (0..x.rank()).map(Along::all).collect();
    let last = x.shape().get(axis).copied().unwrap_or(0).saturating_sub(1);
    axes.iter_mut().skip(axis).take(1).for_each(|along| *along = Along { start: last, step: -1, axis });
    graph::view(x, axes, x.shape()).map(Value::Array)
}

/// Evaluates an array literal: plain values form one axis, arrays of one shape get one more axis. Untyped literals take the
/// type of the others; `element` is the type of an empty array (or the required one).
pub fn literal(items: &[Value], element: Option<&Element>) -> Outcome<Value> {
    if items.iter().any(|item| matches!(item, Value::Array(_))) {
        let arrays = same_elements(items, "an array literal")?;
        let Some(first) = arrays.first() else { return Err(Problem::new("E0541", "an empty array literal")) };
        return join(first.element(), first.shape(), &arrays, "an array literal").map(Value::Array);
    }
    let scalar = operand::common_scalar(&items.iter().collect::<Vec<_>>());
    let has_point = items.iter().any(|item| matches!(item, Value::Float(_)));
    let adapt = |item: &Value| match (element.and_then(Element::scalar).or(scalar), item) {
        (Some(scalar), _) => operand::adapt(item, scalar, "an array literal"),
        (None, Value::Int(n)) if has_point => Ok(Value::of(*n as f32)),
        _ => Ok(item.clone().settled()),
    };
    let items = items.iter().map(adapt).collect::<Outcome<Vec<Value>>>()?;
    let own = items.first().and_then(crate::host::array::leaf::element_of);
    let Some(element) = element.cloned().or(own) else {
        return Err(match items.first() {
            None => Problem::new("E0541", "the element type of an empty array is not known").help("use `zeros(0)`"),
            Some(item) => {
                Problem::new("E0505", format!("a value of type {} cannot be an array element", item.type_name()))
            }
        });
    };
    let mut result = Array::zeros(element, &[items.len()])?;
    for (position, item) in stop::polled(items.iter().enumerate()) {
        result.set_item(position, item)?;
    }
    Ok(Value::Array(result))
}
