//! Access to components of values: vector components, fields of records and tables, extents, and elements of arrays.

use smol_str::SmolStr;

use crate::array::broadcast::repeats_to;
use crate::array::{Array, ElementType, SliceSpec, element_value, slice};
use crate::graph::{self, ExecContext, NodeOperand, ViewAxis};
use crate::ops::operand::{self, adapt, array, common_scalar, undefined};
use crate::ops::text;
use crate::problem::{HostResult, RuntimeError};
use crate::shard::sharded::ShardState;
use crate::shard::{self, Sharded, lift};
use crate::value::{HostValue, Vector};
use clk_base::stop;
use clk_scalar::Scalar;

/// Evaluates `f32x3(a, b, c)`. The arguments are scalars and vectors with `lanes` components in total, or one scalar,
/// which is broadcast. They must have the scalar type `ty`; untyped literals are converted.
pub fn compose(ty: Scalar, lanes: u8, parts: &[HostValue]) -> HostResult<HostValue> {
    let constructor = format!("`{ty}x{lanes}`");
    let values: Vec<&HostValue> = parts.iter().collect();
    let mut bits = Vec::new();
    for part in parts {
        match adapt(part, ty, &constructor)? {
            HostValue::Scalar(number) if number.ty == ty => bits.push(number.bits),
            HostValue::Vector(vector) if vector.ty() == ty => bits.extend(vector.values().map(|lane| lane.bits)),
            _ => return Err(undefined(&constructor, &values)),
        }
    }
    let lanes = usize::from(lanes);
    match bits.as_slice() {
        [one] if parts.len() == 1 => Ok(HostValue::Vector(Vector::new(ty, vec![*one; lanes]))),
        all if all.len() == lanes => Ok(HostValue::Vector(Vector::new(ty, bits))),
        all => Err(RuntimeError::new("E0541", format!("{constructor} of {} components", all.len()))),
    }
}

/// Evaluates `.xyz` of a vector, or of every element of an array of vectors. A single component is a scalar.
pub fn swizzle(exec: &ExecContext, value: &HostValue, lanes: &[u8]) -> HostResult<HostValue> {
    let missing = || {
        let name: String = lanes.iter().map(|&lane| "xyzw".chars().nth(usize::from(lane)).unwrap_or('?')).collect();
        undefined(&format!("`.{name}`"), &[value])
    };
    match value {
        HostValue::Vector(vector) => {
            let picked: Option<Vec<clk_scalar::ScalarValue>> =
                lanes.iter().map(|&lane| vector.lane(usize::from(lane))).collect();
            match picked.ok_or_else(missing)?.as_slice() {
                [one] => Ok(HostValue::Scalar(*one)),
                many => Ok(HostValue::Vector(Vector::new(vector.ty(), many.iter().map(|lane| lane.bits)))),
            }
        }
        HostValue::Array(array)
            if let ([lane], ElementType::Vector(ty, width)) = (lanes, array.element())
                && lane < width =>
        {
            graph::component_view(exec, array, *ty, usize::from(*lane)).map(HostValue::Array)
        }
        HostValue::Array(array) => {
            PartProjection::of_lanes(array, lanes).ok_or_else(missing)?.extract(exec, array).map(HostValue::Array)
        }
        _ => Err(missing()),
    }
}

/// Returns the indices of the vector components that a name such as `xy` selects; `None` if it is not such a name.
pub(crate) fn lanes_of(name: &str) -> Option<Vec<u8>> {
    let lanes: Vec<u8> = name.chars().map(|c| "xyzw".find(c).map(|lane| lane as u8)).collect::<Option<_>>()?;
    (1..=4).contains(&lanes.len()).then_some(lanes)
}

/// Executes `v.xy = w` for a vector or an array of vectors.
pub(crate) fn set_lanes(exec: &ExecContext, target: &mut HostValue, lanes: &[u8], value: &HostValue) -> HostResult<()> {
    match target {
        HostValue::Vector(vector) => set_lanes_of_vector(vector, lanes, value),
        HostValue::Array(array) => {
            let none =
                || RuntimeError::new("E0504", format!("an array of type {} has no such column", array.type_name()));
            let column = PartProjection::of_lanes(array, lanes).ok_or_else(none)?;
            let mut part = column.extract(exec, array)?;
            assign(exec, &mut part, &[], value)?;
            column.write_back(exec, array, &part)
        }
        _ => Err(undefined("an assignment to components", &[target])),
    }
}

fn set_lanes_of_vector(vector: &mut Vector, lanes: &[u8], value: &HostValue) -> HostResult<()> {
    let mut bits = vector.all_bits();
    for (k, &lane) in lanes.iter().enumerate() {
        let new = match value {
            HostValue::Vector(from) if from.lanes() == lanes.len() => from.lane(k),
            scalar => scalar.adapt(vector.ty()).filter(|_| lanes.len() == 1),
        };
        let new = new.filter(|new| new.ty == vector.ty());
        let (Some(slot), Some(new)) = (bits.get_mut(usize::from(lane)), new) else {
            let title = format!("a value of type {} does not fit these components", value.type_name());
            return Err(RuntimeError::new("E0504", title));
        };
        *slot = new.bits;
    }
    *vector = Vector::new(vector.ty(), bits.into_iter().take(vector.lanes()));
    Ok(())
}

/// A projection of an array's elements to a field or to vector components. The projected elements form a column.
pub struct PartProjection {
    element: ElementType,
    /// The byte ranges to copy: offset in the array's element, offset in the column's element, and size in bytes.
    pieces: Vec<(usize, usize, usize)>,
}

impl PartProjection {
    /// Creates the projection of an array of vectors to these components.
    pub(crate) fn of_lanes(array: &Array, lanes: &[u8]) -> Option<PartProjection> {
        let ElementType::Vector(ty, width) = *array.element() else { return None };
        let element = match lanes.len() {
            _ if lanes.iter().any(|&lane| lane >= width) => return None,
            0 => return None,
            1 => ElementType::Scalar(ty),
            n => ElementType::Vector(ty, n as u8),
        };
        let piece = |(to, &from): (usize, &u8)| (usize::from(from) * ty.size(), to * ty.size(), ty.size());
        Some(PartProjection { element, pieces: lanes.iter().enumerate().map(piece).collect() })
    }

    /// Creates the projection of an array of structs or tuples to a field.
    pub(crate) fn of_field(array: &Array, field: usize) -> Option<PartProjection> {
        let ElementType::Record(layout) = array.element() else { return None };
        let field = layout.fields.get(field)?;
        let from = layout.layout.leaves.get(field.leaves.clone())?;
        let to = field.element.layout();
        let pieces = from.iter().zip(&to.leaves).map(|(a, b)| (a.offset, b.offset, a.ty.size())).collect();
        Some(PartProjection { element: field.element.clone(), pieces })
    }

    /// If the column is contiguous in each element, returns its byte offset, and the largest scalar type whose size
    /// divides all sizes and offsets. Otherwise `None`.
    fn contiguous_unit(&self, array: &Array) -> Option<(Scalar, usize)> {
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
                let divides_all =
                    |unit: &usize| [first, size, self.element.size()].iter().all(|n| n.is_multiple_of(*unit));
                graph::struct_words([4, 2, 1].into_iter().find(divides_all)?)?.0
            }
        };
        (end == self.element.size() && first.is_multiple_of(unit.size()) && size.is_multiple_of(unit.size()))
            .then_some((unit, first))
    }

    /// Extracts the column as an array. On a GPU, the result is a view.
    pub fn extract(&self, exec: &ExecContext, array: &Array) -> HostResult<Array> {
        if let Some((unit, first)) = self.contiguous_unit(array)
            && let Some(column) = graph::column_view(exec, array, &self.element, unit, first)?
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

    /// Writes a changed column back to the array.
    pub fn write_back(&self, exec: &ExecContext, array: &mut Array, column: &Array) -> HostResult<()> {
        if *column.element() != self.element || column.shape() != array.shape() {
            let (own, other) = (array.type_name(), column.type_name());
            return Err(RuntimeError::new(
                "E0504",
                format!("a column of type {other} does not fit an array of type {own}"),
            ));
        }
        if let Some((unit, first)) = self.contiguous_unit(array)
            && graph::write_column(exec, array, column, unit, first)?
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

/// Returns the field with this index of a record or a tuple, or of each element of an array of records or tuples.
pub fn field(exec: &ExecContext, value: &HostValue, field: usize) -> HostResult<HostValue> {
    let missing =
        || RuntimeError::new("E0543", format!("there is no field {field} in a value of type {}", value.type_name()));
    match value {
        HostValue::Record(record) => record.fields.get(field).cloned().ok_or_else(missing),
        HostValue::Tuple(parts) => parts.get(field).cloned().ok_or_else(missing),
        HostValue::Array(array) => {
            PartProjection::of_field(array, field).ok_or_else(missing)?.extract(exec, array).map(HostValue::Array)
        }
        _ => Err(missing()),
    }
}

/// Returns the field with this name of a record, a timing, or a table of arrays.
pub fn named_field(exec: &ExecContext, value: &HostValue, name: &str) -> HostResult<HostValue> {
    match value {
        HostValue::Record(record) => match record.layout.position(name) {
            Some(position) => field(exec, value, position),
            None => Err(no_name(value, name, record.layout.fields.iter().map(|f| f.name.as_str()))),
        },
        HostValue::Array(array) => match array.element() {
            ElementType::Record(layout) => match layout.position(name) {
                Some(position) => field(exec, value, position),
                None => Err(no_name(value, name, layout.fields.iter().map(|f| f.name.as_str()))),
            },
            ElementType::Scalar(_) | ElementType::Vector(..) => vector_field(exec, value, name),
        },
        HostValue::Vector(_) => vector_field(exec, value, name),
        HostValue::Tuple(parts) => match name.parse::<usize>() {
            Ok(position) => field(exec, value, position),
            Err(_) => Err(no_name(value, name, (0..parts.len()).map(|_| ""))),
        },
        HostValue::Table(table) => match table.get(name) {
            Some(HostValue::Array(array)) if array.rank() == 0 => {
                Ok(array.item(0)?.unwrap_or(HostValue::Array(array.clone())))
            }
            Some(column) => Ok(column.clone()),
            None => Err(match table.unreadable.get(name) {
                Some(problem) => problem.clone(),
                None => no_name(value, name, table.keys().map(SmolStr::as_str)),
            }),
        },
        HostValue::Timing(timing) => match name {
            "median" => Ok(HostValue::of(timing.median)),
            "min" => Ok(HostValue::of(timing.min)),
            "max" => Ok(HostValue::of(timing.max)),
            "runs" => Ok(HostValue::of(timing.runs as i32)),
            _ => Err(no_name(value, name, ["median", "min", "max", "runs"].into_iter())),
        },
        HostValue::Unit
        | HostValue::Scalar(_)
        | HostValue::Int(_)
        | HostValue::Float(_)
        | HostValue::Str(_)
        | HostValue::Range(_) => Err(no_name(value, name, std::iter::empty())),
        HostValue::Strings(_) | HostValue::Kernel(_) | HostValue::Traced(_) => {
            Err(no_name(value, name, std::iter::empty()))
        }
    }
}

fn vector_field(exec: &ExecContext, value: &HostValue, name: &str) -> HostResult<HostValue> {
    match lanes_of(name) {
        Some(lanes) => swizzle(exec, value, &lanes),
        None => Err(no_name(value, name, std::iter::empty())),
    }
}

fn no_name<'n>(value: &HostValue, name: &str, names: impl Iterator<Item = &'n str>) -> RuntimeError {
    let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
    let title = match value {
        HostValue::Table(_) => format!("there is no `{name}` in this table"),
        _ => format!("there is no `{name}` in a value of type {}", value.type_name()),
    };
    let problem = RuntimeError::new("E0543", title);
    let near = names.iter().map(|known| (strsim::levenshtein(known, name), known)).min();
    match near {
        Some((distance, known)) if distance <= name.chars().count().max(3) / 3 => {
            problem.help(format!("there is one with a similar name: `{known}`"))
        }
        Some(_) => problem.note(format!("it has {}", list(&names))),
        None => problem,
    }
}

/// Formats a list of at most ten names for a message.
fn list(names: &[&str]) -> String {
    let shown: Vec<String> = names.iter().take(10).map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(10);
    if more > 0 { format!("{} and {more} more", shown.join(", ")) } else { shown.join(", ") }
}

/// Evaluates `len(x)`: the extent of an array's first axis, or the number of texts, characters or columns.
pub fn len(value: &HostValue) -> HostResult<HostValue> {
    let count = match value {
        HostValue::Strings(strings) => strings.len(),
        HostValue::Table(table) => table.len(),
        HostValue::Str(text) => text::length(text),
        _ => match array(value, "`len`")?.shape() {
            [first, ..] => *first,
            [] => return Err(undefined("`len`", &[value])),
        },
    };
    Ok(HostValue::of(i32::try_from(count).unwrap_or(i32::MAX)))
}

/// Evaluates `shape(x)`: the extents of all axes as a tuple, or the extent of one axis.
pub fn shape(value: &HostValue, axis: Option<i64>) -> HostResult<HostValue> {
    let count;
    let shape = match value {
        HostValue::Strings(texts) => {
            count = [texts.len()];
            &count[..]
        }
        _ => array(value, "`shape`")?.shape(),
    };
    let extent = |&n: &usize| HostValue::of(n as i32);
    match axis {
        None => Ok(HostValue::Tuple(shape.iter().map(extent).collect())),
        Some(k) => {
            let k = operand::axis(k, shape.len(), "`shape`")?;
            shape.get(k).map(extent).ok_or_else(|| undefined("`shape`", &[value]))
        }
    }
}

/// Evaluates `keys(x)`: the names of a table's arrays or columns.
pub fn keys(value: &HostValue) -> HostResult<HostValue> {
    match value {
        HostValue::Table(table) => text::texts(table.keys().cloned().collect()),
        _ => Err(undefined("`keys`", &[value])),
    }
}

/// Evaluates `a[i, j]` or `a[0..4, ..]`. Axes without an index are selected whole. Also indexes arrays of texts, the
/// characters of a text, and the components of a vector.
pub fn index(exec: &ExecContext, value: &HostValue, specs: &[SliceSpec]) -> HostResult<HostValue> {
    match (value, specs) {
        (HostValue::Array(array), _) => select(exec, array, specs),
        (HostValue::Strings(texts), [spec]) => text::slice_texts(texts, *spec),
        (HostValue::Str(text), [spec]) => text::slice_text(text, *spec).map(HostValue::Str),
        (HostValue::Strings(_) | HostValue::Str(_), specs) => {
            let title = format!("{} indices are given to a value of type {}", specs.len(), value.type_name());
            Err(RuntimeError::new("E0503", title).help("it takes one: `x[i]`, or `x[a..b]`"))
        }
        (HostValue::Tuple(parts), [SliceSpec::At(at)]) => {
            let part = usize::try_from(*at).ok().and_then(|i| parts.get(i));
            part.cloned().ok_or_else(|| slice::out_of_range(*at, 0, parts.len(), 1))
        }
        (HostValue::Vector(vector), [SliceSpec::At(at)]) => {
            let part = usize::try_from(*at).ok().and_then(|i| vector.lane(i));
            part.map(HostValue::Scalar).ok_or_else(|| slice::out_of_range(*at, 0, vector.lanes(), 1))
        }
        (HostValue::Table(table), _) => {
            let name = table.keys().next().map_or("name", SmolStr::as_str);
            let problem = RuntimeError::new("E0505", "the columns of a table have names, and no positions");
            Err(problem.help(format!(
                "`t[{name:?}]` is a column and `t[{name:?}][0]` an element of it; `for name in keys(t)` goes through all of them"
            )))
        }
        _ => Err(RuntimeError::new("E0505", format!("a value of type {} has no elements to index", value.type_name()))),
    }
}

/// Returns an element if every axis has a single index, otherwise a slice.
fn select(exec: &ExecContext, array: &Array, specs: &[SliceSpec]) -> HostResult<HostValue> {
    let at = |spec: &SliceSpec| match spec {
        SliceSpec::At(index) => Some(*index),
        SliceSpec::Range { .. } => None,
    };
    match specs.iter().map(at).collect::<Option<Vec<i64>>>() {
        Some(indices) if indices.len() == array.rank() => element(exec, array, &indices),
        _ => {
            let (axes, shape) = view_axes(array, specs)?;
            if let Some(sharded) = shard::as_sharded(array)
                && let Some(picked) = lift::lift_slice(exec, &sharded, &axes, &shape)?
            {
                return Ok(HostValue::Array(picked));
            }
            graph::make_view(exec, array, axes, &shape).map(HostValue::Array)
        }
    }
}

/// Returns an element. For a sharded array, reads it from the shard that owns it.
fn element(exec: &ExecContext, array: &Array, indices: &[i64]) -> HostResult<HostValue> {
    let Some(sharded) = shard::as_sharded(array) else { return array.get(indices) };
    array.position(indices)?;
    let (axes, _) = view_axes(array, &indices.iter().map(|&index| SliceSpec::At(index)).collect::<Vec<_>>())?;
    match lift::lift_slice(exec, &sharded, &axes, &[])? {
        Some(picked) => picked.get(&[]),
        None => array.get(indices),
    }
}

/// Converts indices to the axes of a view. Also returns the shape of the view.
fn view_axes(array: &Array, specs: &[SliceSpec]) -> HostResult<(Vec<ViewAxis>, Vec<usize>)> {
    let mut shape = Vec::with_capacity(array.rank());
    let mut axes = Vec::with_capacity(array.rank());
    for picked in array.resolve_slices(specs)? {
        if picked.single {
            axes.push(ViewAxis::index(picked.start));
        } else {
            // If only one element is selected, the step has no effect and can be arbitrarily large.
            let step = if picked.count > 1 { picked.step as isize } else { 1 };
            axes.push(ViewAxis { start: picked.start, step, axis: shape.len() });
            shape.push(picked.count);
        }
    }
    Ok((axes, shape))
}

/// Gathers a sharded array on one device. Returns other values unchanged.
pub(crate) fn gather_shards(value: &HostValue) -> HostResult<HostValue> {
    match value {
        HostValue::Array(array) => match shard::as_sharded(array) {
            Some(sharded) => sharded.gather_all().map(HostValue::Array),
            None => Ok(value.clone()),
        },
        _ => Err(super::operand::undefined("`gather`", &[value])),
    }
}

/// Executes `a[i, j] = value` or `a[0..4, ..] = value`.
pub fn assign(exec: &ExecContext, array: &mut Array, specs: &[SliceSpec], value: &HostValue) -> HostResult<()> {
    let at = |spec: &SliceSpec| match spec {
        SliceSpec::At(index) => Some(*index),
        SliceSpec::Range { .. } => None,
    };
    match specs.iter().map(at).collect::<Option<Vec<i64>>>() {
        Some(indices) if indices.len() == array.rank() && shard::as_sharded(array).is_none() => {
            set(exec, array, &indices, value)
        }
        _ => {
            let (axes, shape) = view_axes(array, specs)?;
            if shard::as_sharded(array).is_some() && assign_to_parts(exec, array, specs, &axes, &shape, value)? {
                return Ok(());
            }
            let operand = match (value, array.element()) {
                (HostValue::Array(value), own) if value.element() == own && repeats_to(value.shape(), &shape) => {
                    let shape = graph::view::scalar_shape(own, value.shape());
                    Some(NodeOperand::Array(value.clone(), shape))
                }
                (number, ElementType::Scalar(own)) => {
                    number.adapt(*own).filter(|n| n.ty == *own).map(NodeOperand::Scalar)
                }
                _ => None,
            };
            match operand {
                Some(operand) if graph::write_window(exec, array, &axes, &shape, &operand)? => Ok(()),
                _ => array.assign(specs, value),
            }
        }
    }
}

/// Assigns to each shard of a sharded array separately. Returns false if the value cannot be divided among the shards.
fn assign_to_parts(
    exec: &ExecContext,
    array: &mut Array,
    specs: &[SliceSpec],
    axes: &[ViewAxis],
    shape: &[usize],
    value: &HostValue,
) -> HostResult<bool> {
    let Some(sharded) = shard::as_sharded(array) else { return Ok(false) };
    let (layout, team) = (sharded.layout().clone(), sharded.team().clone());
    let cut_axis = axes[layout.axis];
    let count = if cut_axis.step == 0 { 1 } else { shape[cut_axis.axis] };
    let value_array = match value {
        HostValue::Array(value) if value.element() == array.element() && repeats_to(value.shape(), shape) => {
            Some(value)
        }
        HostValue::Array(_) => return Ok(false),
        _ => None,
    };
    if cut_axis.step > 1 || cut_axis.step < 0 {
        return Ok(false);
    }
    // The shards must not be shared, so that they are written without a copy.
    let (element, whole) = (array.element().clone(), array.shape().to_vec());
    let ShardState { mut parts, mut fresh } = sharded.parts();
    drop(sharded);
    *array = Array::unplaced(element.clone(), &[0])?;
    let mut failed = None;
    for (part, rows) in layout.owners(cut_axis.start..cut_axis.start + count) {
        let first = layout.rows_with_halo(part).start;
        let local = (rows.start - first) as i64..(rows.end - first) as i64;
        let mut own = specs.to_vec();
        own.resize(whole.len(), SliceSpec::ALL);
        own[layout.axis] = match cut_axis.step {
            0 => SliceSpec::At(local.start),
            _ => SliceSpec::Range { start: Some(local.start), end: Some(local.end), inclusive: false, step: None },
        };
        let exec = &exec.on(&team.contexts[part]);
        let own_value = match value_array {
            Some(value) if cut_axis.step != 0 => {
                let trailing = shape.len() - cut_axis.axis;
                match value.rank().checked_sub(trailing).filter(|&axis| value.shape()[axis] != 1) {
                    Some(axis) => {
                        shard::slice_rows(exec, value, axis, rows.start - cut_axis.start..rows.end - cut_axis.start)
                    }
                    None => Ok(value.clone()),
                }
                .map(HostValue::Array)
            }
            _ => Ok(value.clone()),
        };
        failed = own_value.and_then(|value| assign(exec, &mut parts[part], &own, &value)).err();
        fresh = false;
        if failed.is_some() {
            break;
        }
    }
    *array = Sharded::into_array(element, &whole, layout, team, ShardState { parts, fresh })?;
    failed.map_or(Ok(true), Err)
}

/// Executes `a[i, j] = value`.
fn set(exec: &ExecContext, array: &mut Array, indices: &[i64], value: &HostValue) -> HostResult<()> {
    let position = array.position(indices)?;
    let mut bytes = vec![0; array.element().size()];
    element_value::write(&array.element().clone(), &mut bytes, value)?;
    let at: Vec<usize> = indices.iter().map(|&index| index as usize).collect();
    if graph::write_element(exec, array, &at, &bytes)? { Ok(()) } else { array.set_item(position, value) }
}

/// Executes `a[i].pos = value`: writes one field (a path of field indices) of one element.
pub fn assign_field(array: &mut Array, indices: &[i64], path: &[usize], value: &HostValue) -> HostResult<()> {
    let position = array.position(indices)?;
    let mut element = array.item(position)?.ok_or_else(|| slice::out_of_range(position as i64, 0, array.count(), 1))?;
    set_field(&mut element, path, value)?;
    array.set_item(position, &element)
}

/// Executes `body.pos = value`. The field is given by a path of field indices, whose last one may be a lane of a
/// vector.
pub(crate) fn set_field(target: &mut HostValue, path: &[usize], value: &HostValue) -> HostResult<()> {
    let Some((&first, rest)) = path.split_first() else {
        return replace(target, value);
    };
    let name = target.type_name();
    let missing = || RuntimeError::new("E0543", format!("there is no field {first} in a value of type {name}"));
    match target {
        HostValue::Record(record) => set_field(record.fields.get_mut(first).ok_or_else(missing)?, rest, value),
        HostValue::Tuple(parts) => set_field(parts.get_mut(first).ok_or_else(missing)?, rest, value),
        HostValue::Vector(vector) if rest.is_empty() && first < vector.lanes() => {
            let number = value.adapt(vector.ty()).filter(|n| n.ty == vector.ty()).ok_or_else(missing)?;
            let lanes = vector.values().enumerate();
            *vector = Vector::new(vector.ty(), lanes.map(|(i, lane)| if i == first { number.bits } else { lane.bits }));
            Ok(())
        }
        _ => Err(missing()),
    }
}

/// Overwrites a value with a value of the same type.
fn replace(target: &mut HostValue, value: &HostValue) -> HostResult<()> {
    let scalar = common_scalar(&[target]);
    let value = scalar.map_or(Ok(value.clone()), |s| adapt(value, s, "an assignment"))?;
    if element_value::element_of(&value) != element_value::element_of(target) {
        let (have, want) = (value.type_name(), target.type_name());
        return Err(RuntimeError::new(
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

    fn counting(shape: &[usize]) -> HostValue {
        let items: Vec<i32> = (0..shape.iter().product::<usize>() as i32).collect();
        HostValue::Array(Array::from_shaped(&items, shape).unwrap())
    }

    fn by(start: Option<i64>, end: Option<i64>, inclusive: bool, step: i64) -> SliceSpec {
        SliceSpec::Range { start, end, inclusive, step: Some(step) }
    }

    fn to(start: i64, end: i64) -> SliceSpec {
        SliceSpec::Range { start: Some(start), end: Some(end), inclusive: false, step: None }
    }

    fn check(exec: &ExecContext, shape: &[usize], specs: &[SliceSpec], result: &[usize], items: &[i32]) {
        let HostValue::Array(slice) = index(exec, &counting(shape), specs).unwrap() else { panic!("no array") };
        assert_eq!(slice.shape(), result);
        assert_eq!(slice.items::<i32>().unwrap(), items);
    }

    #[test]
    fn slices_contain_the_named_elements() {
        let exec = &ExecContext::default();
        use SliceSpec::At;
        check(exec, &[6], &[to(1, 4)], &[3], &[1, 2, 3]);
        check(exec, &[6], &[to(4, 2)], &[0], &[]);
        check(exec, &[6], &[by(None, None, false, 2)], &[3], &[0, 2, 4]);
        check(exec, &[6], &[by(None, None, false, -2)], &[3], &[5, 3, 1]);
        check(exec, &[6], &[by(Some(3), Some(0), true, -1)], &[4], &[3, 2, 1, 0]);
        check(exec, &[3, 4], &[At(1)], &[4], &[4, 5, 6, 7]);
        check(exec, &[3, 4], &[SliceSpec::ALL, At(2)], &[3], &[2, 6, 10]);
        check(exec, &[3, 4], &[to(1, 3), to(1, 3)], &[2, 2], &[5, 6, 9, 10]);
        check(exec, &[2, 2, 3], &[At(1), SliceSpec::ALL, by(None, None, false, 2)], &[2, 2], &[6, 8, 9, 11]);
        check(exec, &[0, 4], &[SliceSpec::ALL, At(1)], &[0], &[]);
        check(exec, &[3], &[by(None, None, false, i64::MIN)], &[1], &[2]);
    }

    #[test]
    fn slices_out_of_range_are_errors() {
        let exec = &ExecContext::default();
        let a = counting(&[3, 4]);
        assert!(index(exec, &a, &[to(0, 4)]).is_err());
        assert!(index(exec, &a, &[to(-1, 2)]).is_err());
        assert!(index(exec, &a, &[by(None, None, false, 0)]).is_err());
        assert!(index(exec, &a, &[to(i64::MIN, i64::MAX)]).is_err());
        assert!(index(exec, &a, &[by(Some(i64::MAX), Some(i64::MIN), true, -1)]).is_err());
        assert_eq!(index(exec, &a, &[SliceSpec::ALL; 3]).unwrap_err().code, "E0503");
    }
}
