//! Access to parts of values: vector components, fields of records and tables, extents, elements.

use smol_str::SmolStr;

use crate::base::stop;
use crate::host::array::broadcast::repeats_to;
use crate::host::array::{Array, Element, SliceSpec, leaf, slice};
use crate::host::graph::{self, Along, Operand};
use crate::host::ops::operand::{self, adapt, array, common_scalar, undefined};
use crate::host::ops::text;
use crate::host::problem::{Outcome, Problem};
use crate::host::shard::value::State;
use crate::host::shard::{self, Sharded, lift};
use crate::host::value::{Value, Vector};
use crate::lang::scalar::{self, Scalar};

/// Evaluates `f32x3(a, b, c)`: parts are scalars or vectors with `lanes` components in total, or one scalar to be broadcast.
/// They must have the type already; untyped literals adapt.
pub fn compose(ty: Scalar, lanes: u8, parts: &[Value]) -> Outcome<Value> {
    let what = format!("`{ty}x{lanes}`");
    let values: Vec<&Value> = parts.iter().collect();
    let mut bits = Vec::new();
    for part in parts {
        match adapt(part, ty, &what)? {
            Value::Scalar(number) if number.ty == ty => bits.push(number.bits),
            Value::Vector(vector) if vector.ty() == ty => bits.extend(vector.values().map(|lane| lane.bits)),
            _ => return Err(undefined(&what, &values)),
        }
    }
    let lanes = usize::from(lanes);
    match bits.as_slice() {
        [one] if parts.len() == 1 => Ok(Value::Vector(Vector::new(ty, vec![*one; lanes]))),
        all if all.len() == lanes => Ok(Value::Vector(Vector::new(ty, bits))),
        all => Err(Problem::new("E0541", format!("{what} of {} components", all.len()))),
    }
}

/// Evaluates `.xyz` of a vector, or of every element of an array of vectors. One component gives a scalar.
pub fn swizzle(value: &Value, lanes: &[u8]) -> Outcome<Value> {
    let missing = || {
        let name: String = lanes.iter().map(|&lane| "xyzw".chars().nth(usize::from(lane)).unwrap_or('?')).collect();
        undefined(&format!("`.{name}`"), &[value])
    };
    match value {
        Value::Vector(vector) => {
            let picked: Option<Vec<scalar::Value>> = lanes.iter().map(|&lane| vector.lane(usize::from(lane))).collect();
            match picked.ok_or_else(missing)?.as_slice() {
                [one] => Ok(Value::Scalar(*one)),
                many => Ok(Value::Vector(Vector::new(vector.ty(), many.iter().map(|lane| lane.bits)))),
            }
        }
        Value::Array(array)
            if let ([lane], Element::Vector(ty, width)) = (lanes, array.element())
                && lane < width =>
        {
            graph::component(array, *ty, usize::from(*lane)).map(Value::Array)
        }
        Value::Array(array) => Column::of_lanes(array, lanes).ok_or_else(missing)?.of(array).map(Value::Array),
        _ => Err(missing()),
    }
}

/// Returns the components of vectors that a name such as `xy` has.
pub(crate) fn lanes_of(name: &str) -> Option<Vec<u8>> {
    let lanes: Vec<u8> = name.chars().map(|c| "xyzw".find(c).map(|lane| lane as u8)).collect::<Option<_>>()?;
    (1..=4).contains(&lanes.len()).then_some(lanes)
}

/// Executes `v.xy = w` for a vector or an array of vectors.
pub(crate) fn set_lanes(target: &mut Value, lanes: &[u8], value: &Value) -> Outcome<()> {
    match target {
        Value::Vector(vector) => set_lanes_of_vector(vector, lanes, value),
        Value::Array(array) => {
            let none = || Problem::new("E0504", format!("an array of type {} has no such column", array.type_name()));
            let column = Column::of_lanes(array, lanes).ok_or_else(none)?;
            let mut part = column.of(array)?;
            assign(&mut part, &[], value)?;
            column.put(array, &part)
        }
        _ => Err(undefined("an assignment to components", &[target])),
    }
}

fn set_lanes_of_vector(vector: &mut Vector, lanes: &[u8], value: &Value) -> Outcome<()> {
    let mut bits = vector.all_bits();
    for (k, &lane) in lanes.iter().enumerate() {
        let new = match value {
            Value::Vector(from) if from.lanes() == lanes.len() => from.lane(k),
            scalar => scalar.adapt(vector.ty()).filter(|_| lanes.len() == 1),
        };
        let new = new.filter(|new| new.ty == vector.ty());
        let (Some(slot), Some(new)) = (bits.get_mut(usize::from(lane)), new) else {
            let title = format!("a value of type {} does not fit these components", value.type_name());
            return Err(Problem::new("E0504", title));
        };
        *slot = new.bits;
    }
    *vector = Vector::new(vector.ty(), bits.into_iter().take(vector.lanes()));
    Ok(())
}

/// A projection of an array's elements to a part: its type and location.
pub struct Column {
    element: Element,
    /// Offset in the array's element, offset in the column's element, and size in bytes.
    pieces: Vec<(usize, usize, usize)>,
}

impl Column {
    /// Projects to components of an array of vectors.
    pub(crate) fn of_lanes(array: &Array, lanes: &[u8]) -> Option<Column> {
        let Element::Vector(ty, width) = *array.element() else { return None };
        let element = match lanes.len() {
            _ if lanes.iter().any(|&lane| lane >= width) => return None,
            0 => return None,
            1 => Element::Scalar(ty),
            n => Element::Vector(ty, n as u8),
        };
        let piece = |(to, &from): (usize, &u8)| (usize::from(from) * ty.size(), to * ty.size(), ty.size());
        Some(Column { element, pieces: lanes.iter().enumerate().map(piece).collect() })
    }

    /// Projects to a field of an array of structs or tuples.
    pub(crate) fn of_field(array: &Array, field: usize) -> Option<Column> {
        let Element::Record(layout) = array.element() else { return None };
        let field = layout.fields.get(field)?;
        let from = layout.layout.leaves.get(field.leaves.clone())?;
        let to = field.element.layout();
        let pieces = from.iter().zip(&to.leaves).map(|(a, b)| (a.offset, b.offset, a.ty.size())).collect();
        Some(Column { element: field.element.clone(), pieces })
    }

    /// Returns where the column begins in an element, and the scalars that both consist of, if it is without gaps.
    fn run(&self, array: &Array) -> Option<(Scalar, usize)> {
        let (first, size) = (self.pieces.first()?.0, array.element().size());
        let mut end = 0;
        for &(from, to, len) in &self.pieces {
            if from != first + to {
                return None;
            }
            end = end.max(to + len);
        }
        let unit = match self.element.scalar() {
            Some(scalar) => scalar,
            None => {
                let fits = |unit: &usize| [first, size, self.element.size()].iter().all(|n| n.is_multiple_of(*unit));
                graph::words([4, 2, 1].into_iter().find(fits)?)?.0
            }
        };
        (end == self.element.size() && first.is_multiple_of(unit.size()) && size.is_multiple_of(unit.size()))
            .then_some((unit, first))
    }

    /// Extracts the column as an array: where a GPU has the array, as a view of it.
    pub fn of(&self, array: &Array) -> Outcome<Array> {
        if let Some((unit, first)) = self.run(array)
            && let Some(column) = graph::column(array, &self.element, unit, first)?
        {
            return Ok(column);
        }
        let (from_size, to_size) = (array.element().size().max(1), self.element.size().max(1));
        let mut column = Array::zeros(self.element.clone(), array.shape())?;
        let places = column.bytes_mut()?.chunks_exact_mut(to_size);
        for (place, source) in stop::polled(places.zip(array.bytes()?.chunks_exact(from_size))) {
            for &(from, to, len) in &self.pieces {
                if let (Some(to), Some(from)) = (place.get_mut(to..to + len), source.get(from..from + len)) {
                    to.copy_from_slice(from);
                }
            }
        }
        Ok(column)
    }

    /// Writes a changed column back.
    pub fn put(&self, array: &mut Array, column: &Array) -> Outcome<()> {
        if *column.element() != self.element || column.shape() != array.shape() {
            let (own, other) = (array.type_name(), column.type_name());
            return Err(Problem::new("E0504", format!("a column of type {other} does not fit an array of type {own}")));
        }
        if let Some((unit, first)) = self.run(array)
            && graph::write_column(array, column, unit, first)?
        {
            return Ok(());
        }
        let (to_size, from_size) = (array.element().size().max(1), self.element.size().max(1));
        let places = array.bytes_mut()?.chunks_exact_mut(to_size);
        for (place, source) in stop::polled(places.zip(column.bytes()?.chunks_exact(from_size))) {
            for &(to, from, len) in &self.pieces {
                if let (Some(to), Some(from)) = (place.get_mut(to..to + len), source.get(from..from + len)) {
                    to.copy_from_slice(from);
                }
            }
        }
        Ok(())
    }
}

/// Returns a field by index: of a record or a tuple, or of every element of an array of them.
pub fn field(value: &Value, field: usize) -> Outcome<Value> {
    let missing =
        || Problem::new("E0543", format!("there is no field {field} in a value of type {}", value.type_name()));
    match value {
        Value::Record(record) => record.fields.get(field).cloned().ok_or_else(missing),
        Value::Tuple(parts) => parts.get(field).cloned().ok_or_else(missing),
        Value::Array(array) => Column::of_field(array, field).ok_or_else(missing)?.of(array).map(Value::Array),
        _ => Err(missing()),
    }
}

/// Returns a field by name: of a record, a timing, or a table of arrays.
pub fn named_field(value: &Value, name: &str) -> Outcome<Value> {
    match value {
        Value::Record(record) => match record.layout.position(name) {
            Some(position) => field(value, position),
            None => Err(no_name(value, name, record.layout.fields.iter().map(|f| f.name.as_str()))),
        },
        Value::Array(array) => match array.element() {
            Element::Record(layout) => match layout.position(name) {
                Some(position) => field(value, position),
                None => Err(no_name(value, name, layout.fields.iter().map(|f| f.name.as_str()))),
            },
            Element::Scalar(_) | Element::Vector(..) => vector_field(value, name),
        },
        Value::Vector(_) => vector_field(value, name),
        Value::Tuple(parts) => match name.parse::<usize>() {
            Ok(position) => field(value, position),
            Err(_) => Err(no_name(value, name, (0..parts.len()).map(|_| ""))),
        },
        Value::Table(table) => match table.get(name) {
            Some(Value::Array(array)) if array.rank() == 0 => Ok(array.item(0)?.unwrap_or(Value::Array(array.clone()))),
            Some(column) => Ok(column.clone()),
            None => Err(match table.unreadable.get(name) {
                Some(problem) => problem.clone(),
                None => no_name(value, name, table.keys().map(SmolStr::as_str)),
            }),
        },
        Value::Timing(timing) => match name {
            "median" => Ok(Value::of(timing.median)),
            "min" => Ok(Value::of(timing.min)),
            "max" => Ok(Value::of(timing.max)),
            "runs" => Ok(Value::of(timing.runs as i32)),
            _ => Err(no_name(value, name, ["median", "min", "max", "runs"].into_iter())),
        },
        Value::Unit | Value::Scalar(_) | Value::Int(_) | Value::Float(_) | Value::Str(_) | Value::Range(_) => {
            Err(no_name(value, name, std::iter::empty()))
        }
        Value::Strings(_) | Value::Kernel(_) | Value::Traced(_) => Err(no_name(value, name, std::iter::empty())),
    }
}

fn vector_field(value: &Value, name: &str) -> Outcome<Value> {
    match lanes_of(name) {
        Some(lanes) => swizzle(value, &lanes),
        None => Err(no_name(value, name, std::iter::empty())),
    }
}

fn no_name<'n>(value: &Value, name: &str, names: impl Iterator<Item = &'n str>) -> Problem {
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let title = match value {
        Value::Table(_) => format!("there is no `{name}` in this table"),
        _ => format!("there is no `{name}` in a value of type {}", value.type_name()),
    };
    let problem = Problem::new("E0543", title);
    let near = names.iter().map(|known| (strsim::levenshtein(known, name), known)).min();
    match near {
        Some((distance, known)) if distance <= name.chars().count().max(3) / 3 => {
            problem.help(format!("there is one of a similar name: `{known}`"))
        }
        Some(_) => problem.note(format!("it has {}", list(&names))),
        None => problem,
    }
}

/// Formats at most ten names.
fn list(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(10).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(10);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

/// Returns the extent of the first axis, or the number of texts, characters or columns.
pub fn len(value: &Value) -> Outcome<Value> {
    let count = match value {
        Value::Strings(strings) => strings.len(),
        Value::Table(table) => table.len(),
        Value::Str(text) => text::length(text),
        _ => match array(value, "`len`")?.shape() {
            [first, ..] => *first,
            [] => return Err(undefined("`len`", &[value])),
        },
    };
    Ok(Value::of(i32::try_from(count).unwrap_or(i32::MAX)))
}

/// Returns the extents of all axes as a tuple, or that of one.
pub fn shape(value: &Value, axis: Option<i64>) -> Outcome<Value> {
    let count;
    let shape = match value {
        Value::Strings(texts) => {
            count = [texts.len()];
            &count[..]
        }
        _ => array(value, "`shape`")?.shape(),
    };
    let extent = |&n: &usize| Value::of(n as i32);
    match axis {
        None => Ok(Value::Tuple(shape.iter().map(extent).collect())),
        Some(k) => {
            let k = operand::axis(k, shape.len(), "`shape`")?;
            shape.get(k).map(extent).ok_or_else(|| undefined("`shape`", &[value]))
        }
    }
}

/// Returns the names of a table's arrays or columns.
pub fn keys(value: &Value) -> Outcome<Value> {
    match value {
        Value::Table(table) => text::texts(table.keys().cloned().collect()),
        _ => Err(undefined("`keys`", &[value])),
    }
}

/// Evaluates `a[i, j]` or `a[0..4, ..]`; axes without a spec are taken whole. Also selects from an array of texts, the
/// characters of a text, or a component of a vector.
pub fn index(value: &Value, specs: &[SliceSpec]) -> Outcome<Value> {
    match (value, specs) {
        (Value::Array(array), _) => pick(array, specs),
        (Value::Strings(texts), [spec]) => text::pick_texts(texts, *spec),
        (Value::Str(text), [spec]) => text::pick(text, *spec).map(Value::Str),
        (Value::Strings(_) | Value::Str(_), specs) => {
            let title = format!("{} indices are given to a value of type {}", specs.len(), value.type_name());
            Err(Problem::new("E0503", title).help("it takes one: `x[i]`, or `x[a..b]`"))
        }
        (Value::Tuple(parts), [SliceSpec::At(at)]) => {
            let found = usize::try_from(*at).ok().and_then(|i| parts.get(i));
            found.cloned().ok_or_else(|| slice::out_of_range(*at, 0, parts.len(), 1))
        }
        (Value::Vector(vector), [SliceSpec::At(at)]) => {
            let found = usize::try_from(*at).ok().and_then(|i| vector.lane(i));
            found.map(Value::Scalar).ok_or_else(|| slice::out_of_range(*at, 0, vector.lanes(), 1))
        }
        (Value::Table(table), _) => {
            let name = table.keys().next().map_or("name", SmolStr::as_str);
            let problem = Problem::new("E0505", "the columns of a table have names, and no positions");
            Err(problem.help(format!(
                "`t[{name:?}]` is a column and `t[{name:?}][0]` an element of it; `for name in keys(t)` goes through all of them"
            )))
        }
        _ => Err(Problem::new("E0505", format!("a value of type {} has no elements to index", value.type_name()))),
    }
}

/// Returns an element if every axis has a single index, else a slice.
fn pick(array: &Array, specs: &[SliceSpec]) -> Outcome<Value> {
    let at = |spec: &SliceSpec| match spec {
        SliceSpec::At(index) => Some(*index),
        SliceSpec::Range { .. } => None,
    };
    match specs.iter().map(at).collect::<Option<Vec<i64>>>() {
        Some(indices) if indices.len() == array.rank() => element(array, &indices),
        _ => {
            let (axes, shape) = selected(array, specs)?;
            if let Some(sharded) = shard::of(array)
                && let Some(picked) = lift::pick(&sharded, &axes, &shape)?
            {
                return Ok(Value::Array(picked));
            }
            graph::view(array, axes, &shape).map(Value::Array)
        }
    }
}

/// Returns an element, of a sharded array from the part that owns it.
fn element(array: &Array, indices: &[i64]) -> Outcome<Value> {
    let Some(sharded) = shard::of(array) else { return array.get(indices) };
    array.position(indices)?;
    let (axes, _) = selected(array, &indices.iter().map(|&index| SliceSpec::At(index)).collect::<Vec<_>>())?;
    match lift::pick(&sharded, &axes, &[])? {
        Some(picked) => picked.get(&[]),
        None => array.get(indices),
    }
}

/// Returns where an array is read by these indices, and the shape of the result.
fn selected(array: &Array, specs: &[SliceSpec]) -> Outcome<(Vec<Along>, Vec<usize>)> {
    let mut shape = Vec::with_capacity(array.rank());
    let mut axes = Vec::with_capacity(array.rank());
    for picked in array.picked(specs)? {
        if picked.single {
            axes.push(Along::at(picked.start));
        } else {
            // One element may have any step; its axis has no second index.
            let step = if picked.count > 1 { picked.step as isize } else { 1 };
            axes.push(Along { start: picked.start, step, axis: shape.len() });
            shape.push(picked.count);
        }
    }
    Ok((axes, shape))
}

/// Returns a sharded array as one on one device, and others as they are.
pub(crate) fn whole(value: &Value) -> Outcome<Value> {
    match value {
        Value::Array(array) => match shard::of(array) {
            Some(sharded) => sharded.whole().map(Value::Array),
            None => Ok(value.clone()),
        },
        _ => Err(super::operand::undefined("`gather`", &[value])),
    }
}

/// Executes `a[i, j] = value` or `a[0..4, ..] = value`.
pub fn assign(array: &mut Array, specs: &[SliceSpec], value: &Value) -> Outcome<()> {
    let at = |spec: &SliceSpec| match spec {
        SliceSpec::At(index) => Some(*index),
        SliceSpec::Range { .. } => None,
    };
    match specs.iter().map(at).collect::<Option<Vec<i64>>>() {
        Some(indices) if indices.len() == array.rank() && shard::of(array).is_none() => set(array, &indices, value),
        _ => {
            let (axes, shape) = selected(array, specs)?;
            if shard::of(array).is_some() && assign_to_parts(array, specs, &axes, &shape, value)? {
                return Ok(());
            }
            let operand = match (value, array.element()) {
                (Value::Array(value), own) if value.element() == own && repeats_to(value.shape(), &shape) => {
                    let shape = graph::view::with_lanes(own, value.shape());
                    Some(Operand::Array(value.clone(), shape))
                }
                (number, Element::Scalar(own)) => number.adapt(*own).filter(|n| n.ty == *own).map(Operand::Scalar),
                _ => None,
            };
            match operand {
                Some(operand) if graph::write_part(array, &axes, &shape, &operand)? => Ok(()),
                _ => array.assign(specs, value),
            }
        }
    }
}

/// Assigns to the rows of a sharded array that each part owns; false if something is to be assigned that parts cannot take apart.
fn assign_to_parts(
    array: &mut Array,
    specs: &[SliceSpec],
    axes: &[Along],
    shape: &[usize],
    value: &Value,
) -> Outcome<bool> {
    let Some(sharded) = shard::of(array) else { return Ok(false) };
    let (layout, team) = (sharded.layout().clone(), sharded.team().clone());
    let along = axes[layout.axis];
    let count = if along.step == 0 { 1 } else { shape[along.axis] };
    let value_array = match value {
        Value::Array(value) if value.element() == array.element() && repeats_to(value.shape(), shape) => Some(value),
        Value::Array(_) => return Ok(false),
        _ => None,
    };
    if along.step > 1 || along.step < 0 {
        return Ok(false);
    }
    // Whoever assigns has the parts alone, so that they are not copied.
    let (element, whole) = (array.element().clone(), array.shape().to_vec());
    let State { mut parts, mut fresh } = sharded.parts();
    drop(sharded);
    *array = Array::unplaced(element.clone(), &[0])?;
    let mut failed = None;
    for (part, rows) in layout.owners(along.start..along.start + count) {
        let first = layout.held(part).start;
        let local = (rows.start - first) as i64..(rows.end - first) as i64;
        let mut own = specs.to_vec();
        own.resize(whole.len(), SliceSpec::ALL);
        own[layout.axis] = match along.step {
            0 => SliceSpec::At(local.start),
            _ => SliceSpec::Range { start: Some(local.start), end: Some(local.end), inclusive: false, step: None },
        };
        let _at = team.sites[part].clone().enter();
        let own_value = match value_array {
            Some(value) if along.step != 0 => {
                let behind = shape.len() - along.axis;
                match value.rank().checked_sub(behind).filter(|&axis| value.shape()[axis] != 1) {
                    Some(axis) => shard::rows(value, axis, rows.start - along.start..rows.end - along.start),
                    None => Ok(value.clone()),
                }
                .map(Value::Array)
            }
            _ => Ok(value.clone()),
        };
        failed = own_value.and_then(|value| assign(&mut parts[part], &own, &value)).err();
        fresh = false;
        if failed.is_some() {
            break;
        }
    }
    *array = Sharded::array(element, &whole, layout, team, State { parts, fresh })?;
    failed.map_or(Ok(true), Err)
}

/// Executes `a[i, j] = value`.
fn set(array: &mut Array, indices: &[i64], value: &Value) -> Outcome<()> {
    let position = array.position(indices)?;
    let mut bytes = vec![0; array.element().size()];
    leaf::write(&array.element().clone(), &mut bytes, value)?;
    let at: Vec<usize> = indices.iter().map(|&index| index as usize).collect();
    if graph::write_element(array, &at, &bytes)? { Ok(()) } else { array.set_item(position, value) }
}

/// Executes `a[i].pos = value`: writes one field (a path of field indices) of one element.
pub fn assign_field(array: &mut Array, indices: &[i64], path: &[usize], value: &Value) -> Outcome<()> {
    let position = array.position(indices)?;
    let mut element = array.item(position)?.ok_or_else(|| slice::out_of_range(position as i64, 0, array.count(), 1))?;
    set_field(&mut element, path, value)?;
    array.set_item(position, &element)
}

/// Executes `body.pos = value` along a path of field indices; the last may be a lane of a vector.
pub(crate) fn set_field(target: &mut Value, path: &[usize], value: &Value) -> Outcome<()> {
    let Some((&first, rest)) = path.split_first() else {
        return replace(target, value);
    };
    let name = target.type_name();
    let missing = || Problem::new("E0543", format!("there is no field {first} in a value of type {name}"));
    match target {
        Value::Record(record) => set_field(record.fields.get_mut(first).ok_or_else(missing)?, rest, value),
        Value::Tuple(parts) => set_field(parts.get_mut(first).ok_or_else(missing)?, rest, value),
        Value::Vector(vector) if rest.is_empty() && first < vector.lanes() => {
            let number = value.adapt(vector.ty()).filter(|n| n.ty == vector.ty()).ok_or_else(missing)?;
            let lanes = vector.values().enumerate();
            *vector = Vector::new(vector.ty(), lanes.map(|(i, lane)| if i == first { number.bits } else { lane.bits }));
            Ok(())
        }
        _ => Err(missing()),
    }
}

/// Overwrites a value by one of the same type.
fn replace(target: &mut Value, value: &Value) -> Outcome<()> {
    let scalar = common_scalar(&[target]);
    let value = scalar.map_or(Ok(value.clone()), |s| adapt(value, s, "an assignment"))?;
    if leaf::element_of(&value) != leaf::element_of(target) {
        let (have, want) = (value.type_name(), target.type_name());
        return Err(Problem::new(
            "E0504",
            format!("a value of type {have} cannot be assigned to a place of type {want}"),
        ));
    }
    *target = value;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(shape: &[usize]) -> Value {
        let items: Vec<i32> = (0..shape.iter().product::<usize>() as i32).collect();
        Value::Array(Array::from_shaped(&items, shape).unwrap())
    }

    fn by(start: Option<i64>, end: Option<i64>, inclusive: bool, step: i64) -> SliceSpec {
        SliceSpec::Range { start, end, inclusive, step: Some(step) }
    }

    fn to(start: i64, end: i64) -> SliceSpec {
        SliceSpec::Range { start: Some(start), end: Some(end), inclusive: false, step: None }
    }

    fn check(shape: &[usize], specs: &[SliceSpec], result: &[usize], items: &[i32]) {
        let Value::Array(slice) = index(&counting(shape), specs).unwrap() else { panic!("no array") };
        assert_eq!(slice.shape(), result);
        assert_eq!(slice.items::<i32>().unwrap(), items);
    }

    #[test]
    fn slices_have_what_they_name() {
        use SliceSpec::At;
        check(&[6], &[to(1, 4)], &[3], &[1, 2, 3]);
        check(&[6], &[to(4, 2)], &[0], &[]);
        check(&[6], &[by(None, None, false, 2)], &[3], &[0, 2, 4]);
        check(&[6], &[by(None, None, false, -2)], &[3], &[5, 3, 1]);
        check(&[6], &[by(Some(3), Some(0), true, -1)], &[4], &[3, 2, 1, 0]);
        check(&[3, 4], &[At(1)], &[4], &[4, 5, 6, 7]);
        check(&[3, 4], &[SliceSpec::ALL, At(2)], &[3], &[2, 6, 10]);
        check(&[3, 4], &[to(1, 3), to(1, 3)], &[2, 2], &[5, 6, 9, 10]);
        check(&[2, 2, 3], &[At(1), SliceSpec::ALL, by(None, None, false, 2)], &[2, 2], &[6, 8, 9, 11]);
        check(&[0, 4], &[SliceSpec::ALL, At(1)], &[0], &[]);
        check(&[3], &[by(None, None, false, i64::MIN)], &[1], &[2]);
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let a = counting(&[3, 4]);
        assert!(index(&a, &[to(0, 4)]).is_err());
        assert!(index(&a, &[to(-1, 2)]).is_err());
        assert!(index(&a, &[by(None, None, false, 0)]).is_err());
        assert!(index(&a, &[to(i64::MIN, i64::MAX)]).is_err());
        assert!(index(&a, &[by(Some(i64::MAX), Some(i64::MIN), true, -1)]).is_err());
        assert_eq!(index(&a, &[SliceSpec::ALL; 3]).unwrap_err().code, "E0503");
    }
}
