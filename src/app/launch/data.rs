//! Decodes the numbers, structs and arrays in requests. Converts JSON text or raw bytes to the bytes of elements of a
//! known type.
//!
//! Before memory is allocated, each size is checked against the length of the input and against the limit.

use std::borrow::Cow;

use indexmap::IndexMap;
use smol_str::SmolStr;

use super::json::{JsonKind, JsonRaw, NOT_FINITE};
use super::launch_error::{LaunchRequestError, Result};
use crate::suggestions;
use clk_base::aligned::AlignedBytes;
use clk_host::array::{Array, ElementType, HostArray, MAX_EXTENT, RecordLayout, byte_count, element_value};
use clk_host::value::HostValue;
use clk_ir::def::{Leaf, Ty};
use clk_scalar::Scalar;

/// Arrays by name, in insertion order.
pub type NamedArrays = IndexMap<SmolStr, Array>;
/// Arrays in host memory by name.
pub(crate) type HostArrays = IndexMap<SmolStr, HostArray>;

/// What the decoding of arrays needs from the request: the limit, and the raw blocks.
pub(crate) struct DecodeInput<'a> {
    /// Maximum size of one array in bytes.
    pub limit: u64,
    /// The raw blocks of the request. Each can be used by one array.
    pub blocks: &'a mut [Option<AlignedBytes>],
}

/// What is known about an array before it is decoded: its element type and rank.
#[derive(Clone, Debug, Default)]
pub(crate) struct ExpectedArray {
    pub element: Option<ElementType>,
    pub rank: Option<usize>,
}

/// Returns the fields of an object. Rejects duplicate names and names that are not in `known`.
pub(crate) fn fields<'a>(value: JsonRaw<'a>, what: &str, known: &[&str]) -> Result<Vec<(Cow<'a, str>, JsonRaw<'a>)>> {
    if value.kind() != JsonKind::Object {
        return Err(LaunchRequestError::at(
            "E0802",
            format!("{what} is an object, not {}", value.kind().words()),
            value,
        ));
    }
    let object_fields: Vec<(Cow<'a, str>, JsonRaw<'a>)> = value.fields().collect();
    let mut distinct = std::collections::HashSet::new();
    for (name, field) in &object_fields {
        if !known.is_empty() && !known.contains(&name.as_ref()) {
            let refusal =
                LaunchRequestError::at("E0802", format!("{what} has no field `{}`", abbreviated(name)), *field);
            let refusal = refusal.note(format!("its fields are {}", quote_names(known.iter().copied())));
            return Err(suggestions::did_you_mean(name, known.iter().copied())
                .into_iter()
                .fold(refusal, LaunchRequestError::help));
        }
        if !distinct.insert(name.clone()) {
            return Err(LaunchRequestError::at(
                "E0802",
                format!("the field `{}` is given twice", abbreviated(name)),
                *field,
            ));
        }
    }
    Ok(object_fields)
}

/// Returns a name from the request for a message, truncated if it is long.
pub(crate) fn abbreviated(name: &str) -> String {
    let cut: String = name.chars().take(60).collect();
    if cut.len() < name.len() { format!("{cut}…") } else { cut }
}

/// Formats at most 12 names as "`a`, `b`, `c`".
pub(crate) fn quote_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let more = if all.len() > 12 { ", …" } else { "" };
    format!("{}{more}", all[..all.len().min(12)].join(", "))
}

/// Returns the content of a string. Rejects other kinds of values.
pub(crate) fn text<'a>(value: JsonRaw<'a>, what: &str) -> Result<Cow<'a, str>> {
    let wrong = || LaunchRequestError::at("E0802", format!("{what} is a string, not {}", value.kind().words()), value);
    value.string().ok_or_else(wrong)
}

/// Returns a nonnegative integer. Rejects other values.
pub(crate) fn size(value: JsonRaw<'_>, what: &str) -> Result<u64> {
    value.text().parse().map_err(|_| {
        let actual =
            if value.kind() == JsonKind::Number { abbreviated(value.text()) } else { value.kind().words().to_string() };
        LaunchRequestError::at("E0802", format!("{what} is an integer of 0 or more, not {actual}"), value)
    })
}

/// Decodes a number or Boolean; returns the bits of the scalar.
fn scalar(ty: Scalar, value: JsonRaw<'_>) -> Result<u64> {
    let text = value.text();
    let number = match (value.kind(), ty) {
        (JsonKind::Bool, Scalar::Bool) => return Ok(u64::from(text == "true")),
        (JsonKind::Number, Scalar::Bool) | (JsonKind::Bool, _) => None,
        (JsonKind::Number, _) => number(ty, text),
        (JsonKind::Text, _) if ty.is_float() => {
            let inner = text.trim_matches('"');
            NOT_FINITE.contains(&inner).then(|| number(ty, inner)).flatten()
        }
        _ => None,
    };
    number.ok_or_else(|| type_mismatch(ty, value))
}

/// Converts the text of a JSON number, or `NaN`, `Infinity` or `-Infinity`, to this type; returns its bits. `None` if
/// the type cannot represent it.
fn number(ty: Scalar, text: &str) -> Option<u64> {
    let finite = |value: clk_scalar::ScalarValue| {
        (value.as_f64().is_finite() || NOT_FINITE.contains(&text)).then_some(value.bits)
    };
    let spelled = match text {
        // Rust's parser accepts this spelling.
        "Infinity" => "inf",
        "-Infinity" => "-inf",
        other => other,
    };
    match ty {
        Scalar::F32 => finite(clk_scalar::ScalarValue::of(spelled.parse::<f32>().ok()?)),
        Scalar::F64 => finite(clk_scalar::ScalarValue::of(spelled.parse::<f64>().ok()?)),
        Scalar::F16 | Scalar::Bf16 => finite(clk_scalar::ScalarValue::of(spelled.parse::<f64>().ok()?).to_type(ty)),
        Scalar::I32 => text.parse::<i32>().ok().map(|n| u64::from(n.cast_unsigned())),
        _ => clk_scalar::ScalarValue::from_integer(ty, text.parse::<i128>().ok()?).map(|value| value.bits),
    }
}

fn type_mismatch(ty: Scalar, value: JsonRaw<'_>) -> LaunchRequestError {
    let actual = match value.kind() {
        JsonKind::Number | JsonKind::Bool | JsonKind::Null => format!("`{}`", abbreviated(value.text())),
        JsonKind::Text => format!("the string {}", abbreviated(value.text())),
        other => other.words().to_string(),
    };
    let refusal = LaunchRequestError::at("E0804", format!("{actual} is not a value of type `{ty}`"), value);
    match (value.kind(), ty) {
        (JsonKind::Number, Scalar::Bool) => refusal.help("write `true` or `false`"),
        (JsonKind::Number, _) if ty.is_int() && value.text().contains(['.', 'e', 'E']) => {
            refusal.help("integers are written without a point and without an exponent")
        }
        (JsonKind::Number, _) if ty.is_float() => refusal.help("infinity is spelled `\"Infinity\"`"),
        (JsonKind::Text, _) if ty.is_float() => {
            refusal.note("the strings that are numbers are `NaN`, `Infinity` and `-Infinity`")
        }
        _ => refusal,
    }
}

/// Decodes a value and writes the bytes of the element.
pub(crate) fn fill(element: &ElementType, value: JsonRaw<'_>, bytes: &mut [u8]) -> Result<()> {
    match element {
        ElementType::Scalar(ty) => store_scalar(*ty, scalar(*ty, value)?, bytes),
        ElementType::Vector(ty, lanes) => fill_vector(*ty, *lanes, value, bytes)?,
        ElementType::Record(record) => fill_record(record, &record.layout.leaves, value, bytes)?,
    }
    Ok(())
}

fn store_scalar(ty: Scalar, bits: u64, bytes: &mut [u8]) {
    bytes.iter_mut().zip(bits.to_le_bytes()).take(ty.size()).for_each(|(place, byte)| *place = byte);
}

fn fill_vector(ty: Scalar, lanes: u8, value: JsonRaw<'_>, bytes: &mut [u8]) -> Result<()> {
    if value.kind() != JsonKind::List || value.count() != usize::from(lanes) {
        let actual = match value.kind() {
            JsonKind::List => format!("a list of {}", value.count()),
            other => other.words().to_string(),
        };
        let title = format!("a `{ty}x{lanes}` is a list of {lanes} numbers, not {actual}");
        return Err(LaunchRequestError::at("E0804", title, value));
    }
    for (place, lane) in bytes.chunks_exact_mut(ty.size()).zip(value.items()) {
        store_scalar(ty, scalar(ty, lane)?, place);
    }
    Ok(())
}

/// Decodes a struct or tuple. `leaves` are its scalar fields; their offsets are relative to the outermost record.
fn fill_record(record: &RecordLayout, leaves: &[Leaf], value: JsonRaw<'_>, bytes: &mut [u8]) -> Result<()> {
    let parts = field_values(record, value)?;
    for (field, part) in record.fields.iter().zip(parts) {
        let own = leaves.get(field.leaves.clone()).unwrap_or(&[]);
        match (&field.element, own.first()) {
            (ElementType::Record(inner), _) => fill_record(inner, own, part, bytes)?,
            (plain, Some(leaf)) => {
                fill(plain, part, bytes.get_mut(leaf.offset..leaf.offset + plain.size()).unwrap_or(&mut []))?;
            }
            (_, None) => {}
        }
    }
    Ok(())
}

/// Returns the values of the fields of a struct or tuple, in the order of declaration.
fn field_values<'a>(record: &RecordLayout, value: JsonRaw<'a>) -> Result<Vec<JsonRaw<'a>>> {
    let type_label = if record.is_tuple() { "a tuple".to_string() } else { format!("a `{}`", record.name) };
    let names: Vec<&str> = record.fields.iter().map(|field| field.name.as_str()).collect();
    match value.kind() {
        JsonKind::List => {
            let parts: Vec<JsonRaw<'a>> = value.items().collect();
            if parts.len() == names.len() {
                return Ok(parts);
            }
            let title = format!("{type_label} has {} fields, and this list has {}", names.len(), parts.len());
            Err(LaunchRequestError::at("E0804", title, value).note(format!("the fields are {}", quote_names(names))))
        }
        JsonKind::Object if !record.is_tuple() => {
            let named_fields = fields(value, &type_label, &names)?;
            let part = |name: &&str| {
                let located = named_fields.iter().find(|(named_fields, _)| named_fields == name).map(|(_, part)| *part);
                located.ok_or_else(|| {
                    LaunchRequestError::at("E0802", format!("{type_label} lacks its field `{name}`"), value)
                })
            };
            names.iter().map(part).collect()
        }
        other => {
            let form = if record.is_tuple() { "a list" } else { "an object or a list" };
            Err(LaunchRequestError::at("E0804", format!("{type_label} is {form}, not {}", other.words()), value))
        }
    }
}

/// Decodes a value that is not an array.
pub(crate) fn value(element: &ElementType, raw: JsonRaw<'_>) -> Result<HostValue> {
    let mut bytes = vec![0; element.size()];
    fill(element, raw, &mut bytes)?;
    Ok(element_value::read(element, &bytes))
}

/// Returns the type that a value has by default, as in a script: `i32`, `f32` or `bool`.
pub(crate) fn default_scalar_type(value: JsonRaw<'_>) -> Option<Scalar> {
    match value.kind() {
        JsonKind::Bool => Some(Scalar::Bool),
        JsonKind::Number if value.text().trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) => {
            Some(Scalar::I32)
        }
        JsonKind::Number => Some(Scalar::F32),
        JsonKind::Text => value.string().is_some_and(|s| NOT_FINITE.contains(&s.as_ref())).then_some(Scalar::F32),
        JsonKind::List => match value.items().next() {
            Some(first) => default_scalar_type(first),
            None => Some(Scalar::F32),
        },
        JsonKind::Null | JsonKind::Object => None,
    }
}

/// Returns the element type with this name, such as `f32`, `u8x4`, `(f32, i32)` or the name of a struct.
pub(crate) fn element_named(name: &str, find: &mut dyn FnMut(&str) -> Option<ElementType>) -> Option<ElementType> {
    if name.len() > LONGEST_TYPE { None } else { nested_element(name, TYPE_DEPTH, find) }
}

/// Limits for a type name in a request: its length in bytes, and the nesting depth of tuples.
const LONGEST_TYPE: usize = 4096;
const TYPE_DEPTH: usize = 16;

fn nested_element(name: &str, depth: usize, find: &mut dyn FnMut(&str) -> Option<ElementType>) -> Option<ElementType> {
    let name = name.trim();
    if let Some(inner) = name.strip_prefix('(').and_then(|n| n.strip_suffix(')')) {
        let within = depth.checked_sub(1)?;
        let mut open = 0;
        let pieces = inner.split(|c| {
            open += i32::from(c == '(') - i32::from(c == ')');
            c == ',' && open == 0
        });
        let parts: Option<Vec<ElementType>> = pieces.map(|piece| nested_element(piece, within, find)).collect();
        return Some(ElementType::Record(RecordLayout::tuple(parts?).into()));
    }
    if let Some(scalar) = Scalar::from_name(name) {
        return Some(ElementType::Scalar(scalar));
    }
    let vector = name.rsplit_once('x').and_then(|(scalar, lanes)| {
        let lanes = lanes.parse().ok().filter(|n| (2..=4).contains(n) && lanes.len() == 1)?;
        Scalar::from_name(scalar).map(|scalar| ElementType::Vector(scalar, lanes))
    });
    vector.or_else(|| find(name))
}

/// The fields that an array object may have.
const ARRAY: [&str; 5] = ["type", "shape", "data", "data64", "block"];

/// Decodes an array: nested lists, or an object with `shape` and one of the fields `data`, `data64` and `block`.
pub(crate) fn array(
    value: JsonRaw<'_>,
    expected: &ExpectedArray,
    input: &mut DecodeInput<'_>,
    find: &mut dyn FnMut(&str) -> Option<ElementType>,
) -> Result<Array> {
    if value.kind() == JsonKind::List {
        return from_lists(value, None, expected, input.limit);
    }
    if value.kind() != JsonKind::Object {
        return Err(LaunchRequestError::at(
            "E0802",
            format!("an array is a list or an object, not {}", value.kind().words()),
            value,
        ));
    }
    let named_fields = fields(value, "an array", &ARRAY)?;
    let field =
        |name: &str| named_fields.iter().find(|(named_fields, _)| named_fields == name).map(|(_, field)| *field);
    let stated_type = match field("type") {
        Some(ty) => {
            let name = text(ty, "`type`")?;
            let unknown = || {
                LaunchRequestError::at(
                    "E0803",
                    format!("there is no type `{}` that elements can have", abbreviated(&name)),
                    ty,
                )
            };
            Some(element_named(&name, find).ok_or_else(unknown)?)
        }
        None => None,
    };
    let expected = ExpectedArray { element: stated_type.or_else(|| expected.element.clone()), rank: expected.rank };
    let shape = field("shape").map(extents).transpose()?;
    match (field("data"), field("data64"), field("block")) {
        (Some(data), None, None) => from_lists(data, shape, &expected, input.limit),
        (None, Some(data), None) => {
            let (element, shape, bytes) = checked_layout(value, &expected, shape, input.limit)?;
            from_base64(data, element, &shape, bytes)
        }
        (None, None, Some(block)) => {
            let (element, shape, bytes) = checked_layout(value, &expected, shape, input.limit)?;
            from_block(block, element, &shape, bytes, input)
        }
        _ => Err(LaunchRequestError::at("E0802", "an array has exactly one of `data`, `data64` and `block`", value)),
    }
}

/// Decodes a shape. Rejects an extent that is too large for an axis.
fn extents(value: JsonRaw<'_>) -> Result<Vec<usize>> {
    if value.kind() != JsonKind::List {
        return Err(LaunchRequestError::at("E0802", format!("`shape` is a list, not {}", value.kind().words()), value));
    }
    let extent = |raw: JsonRaw<'_>| {
        let extent = size(raw, "an extent")?;
        let small = usize::try_from(extent).ok().filter(|n| *n <= MAX_EXTENT);
        small.ok_or_else(|| {
            LaunchRequestError::at("E0806", format!("an axis cannot have {extent} elements"), raw)
                .note(format!("an axis has at most {MAX_EXTENT} elements"))
        })
    };
    value.items().map(extent).collect()
}

/// Returns the element type, shape and size in bytes of an array whose elements are raw bytes. Rejects an array larger
/// than the limit.
fn checked_layout(
    value: JsonRaw<'_>,
    wanted: &ExpectedArray,
    shape: Option<Vec<usize>>,
    limit: u64,
) -> Result<(ElementType, Vec<usize>, usize)> {
    let lacks =
        |what: &str| LaunchRequestError::at("E0802", format!("an array of raw bytes needs its `{what}`"), value);
    let element = wanted.element.clone().ok_or_else(|| lacks("type"))?;
    let shape = shape.ok_or_else(|| lacks("shape"))?;
    let bytes = checked_byte_count(&element, &shape, limit, value)?;
    Ok((element, shape, bytes))
}

/// Returns the size of an array in bytes. Rejects an array larger than the limit.
fn checked_byte_count(element: &ElementType, shape: &[usize], limit: u64, value: JsonRaw<'_>) -> Result<usize> {
    let too_large = |bytes: &str| {
        let title = format!("an array of `{element}` with the shape {shape:?} is too large{bytes}");
        let note = format!("arrays have at most {limit} bytes here");
        LaunchRequestError::at("E0806", title, value).note(note).help("allow more: `--max-bytes`")
    };
    match byte_count(element, shape) {
        Ok(bytes) if bytes as u64 <= limit => Ok(bytes),
        Ok(bytes) => Err(too_large(&format!(": {bytes} bytes"))),
        Err(_) => Err(too_large("")),
    }
}

fn from_lists(data: JsonRaw<'_>, shape: Option<Vec<usize>>, wanted: &ExpectedArray, limit: u64) -> Result<Array> {
    let element = match &wanted.element {
        Some(element) => element.clone(),
        None => {
            let open = || LaunchRequestError::at("E0802", "the type of the elements is not given", data);
            ElementType::Scalar(
                default_scalar_type(data).ok_or_else(|| open().help("say so: `{\"type\": \"f32\", \"data\": …}`"))?,
            )
        }
    };
    let depth = depth(data).saturating_sub(element_depth(&element, data));
    let Some(shape) = shape else {
        let shape = shape_of(data, wanted.rank.unwrap_or(depth))?;
        let mut array = zeros(&element, &shape, limit, data)?;
        fill_nested(&element, data, &shape, array.bytes_mut()?)?;
        return Ok(array);
    };
    // A list of n elements has at least n - 1 commas, so a shape with more elements than the text has bytes is wrong.
    // It is rejected before memory is allocated.
    let count = shape.iter().try_fold(1usize, |count, n| count.checked_mul(*n));
    if count.is_none_or(|count| count > data.text().len()) {
        return Err(LaunchRequestError::at(
            "E0805",
            format!("there are fewer elements here than the shape {shape:?} has"),
            data,
        ));
    }
    let mut array = zeros(&element, &shape, limit, data)?;
    if count == Some(0) && data.kind() == JsonKind::List && data.count() == 0 {
        return Ok(array);
    }
    let flat = [array.count()];
    let layout: &[usize] = if shape.len() > 1 && depth <= 1 { &flat } else { &shape };
    fill_nested(&element, data, layout, array.bytes_mut()?)?;
    Ok(array)
}

fn zeros(element: &ElementType, shape: &[usize], limit: u64, value: JsonRaw<'_>) -> Result<Array> {
    checked_byte_count(element, shape, limit, value)?;
    Array::zeros(element.clone(), shape).map_err(|problem| LaunchRequestError::of(problem, value))
}

/// Returns the nesting depth of lists. Looks only at the first element of each list.
fn depth(value: JsonRaw<'_>) -> usize {
    match value.kind() {
        JsonKind::List => 1 + value.items().next().map_or(0, depth),
        _ => 0,
    }
}

/// Returns how many levels of nested lists belong to one element (a vector, tuple or struct) instead of to the axes.
fn element_depth(element: &ElementType, value: JsonRaw<'_>) -> usize {
    let mut first = value;
    while let (JsonKind::List, Some(inner)) = (first.kind(), first.items().next()) {
        first = inner;
    }
    match element {
        ElementType::Scalar(_) => 0,
        ElementType::Vector(..) => 1,
        ElementType::Record(_) if first.kind() == JsonKind::Object => 0,
        ElementType::Record(record) => {
            1 + record.fields.first().map_or(0, |field| element_depth(&field.element, first))
        }
    }
}

/// Returns the extents of nested lists. Looks only at the first list of each level.
fn shape_of(data: JsonRaw<'_>, rank: usize) -> Result<Vec<usize>> {
    let mut shape = Vec::new();
    let mut level = Some(data);
    while shape.len() < rank {
        match level {
            Some(list) if list.kind() == JsonKind::List => {
                shape.push(list.count());
                level = list.items().next();
            }
            Some(other) => {
                let title =
                    format!("an array of {rank} axes is {rank} lists deep, and this is {}", other.kind().words());
                return Err(LaunchRequestError::at("E0805", title, other));
            }
            None => shape.push(0),
        }
    }
    Ok(shape)
}

/// Decodes nested lists into the bytes of an array of this shape. Rejects lists of unequal lengths.
fn fill_nested(element: &ElementType, data: JsonRaw<'_>, shape: &[usize], bytes: &mut [u8]) -> Result<()> {
    let Some((&extent, inner)) = shape.split_first() else { return fill(element, data, bytes) };
    let wrong = |found: String| {
        LaunchRequestError::at("E0805", format!("a list of {extent} belongs here, not {found}"), data)
            .note("all rows of an array are equally long")
    };
    if data.kind() != JsonKind::List {
        return Err(wrong(data.kind().words().to_string()));
    }
    let step = inner.iter().product::<usize>() * element.size();
    let mut items = data.items();
    for at in 0..extent {
        let Some(item) = items.next() else { return Err(wrong(format!("one of {at}"))) };
        let place = bytes.get_mut(at * step..(at + 1) * step).unwrap_or(&mut []);
        match inner.is_empty() {
            true => fill(element, item, place)?,
            false => fill_nested(element, item, inner, place)?,
        }
    }
    match items.count() {
        0 => Ok(()),
        more => Err(wrong(format!("one of {}", extent + more))),
    }
}

fn from_base64(data: JsonRaw<'_>, element: ElementType, shape: &[usize], bytes: usize) -> Result<Array> {
    let text = text(data, "`data64`")?;
    let digits = text.trim_end_matches('=');
    if text.len() != bytes.div_ceil(3) * 4 || digits.len() * 6 / 8 != bytes {
        let title =
            format!("the Base64 text of {bytes} bytes has {} letters, not {}", bytes.div_ceil(3) * 4, text.len());
        return Err(LaunchRequestError::at("E0805", title, data)
            .note(format!("the shape {shape:?} of `{element}` has {bytes} bytes")));
    }
    let mut array = Array::zeros(element, shape).map_err(|problem| LaunchRequestError::of(problem, data))?;
    let wrong =
        || LaunchRequestError::at("E0804", "this is not valid Base64", data).note("with `+` and `/`, padded with `=`");
    decode64(digits.as_bytes(), array.bytes_mut()?).ok_or_else(wrong)?;
    normalize_bools(&mut array)?;
    Ok(array)
}

/// Decodes Base64 without padding. `None` if a character is not in the Base64 alphabet.
fn decode64(digits: &[u8], bytes: &mut [u8]) -> Option<()> {
    for (group, place) in digits.chunks(4).zip(bytes.chunks_mut(3)) {
        let mut bits = 0u32;
        for digit in group {
            let six = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(six);
        }
        bits <<= 6 * (4 - group.len());
        place.iter_mut().zip(bits.to_be_bytes().into_iter().skip(1)).for_each(|(place, byte)| *place = byte);
    }
    Some(())
}

fn from_block(
    block: JsonRaw<'_>,
    element: ElementType,
    shape: &[usize],
    bytes: usize,
    input: &mut DecodeInput<'_>,
) -> Result<Array> {
    let number = size(block, "`block`")?;
    let slot = usize::try_from(number).ok().and_then(|n| input.blocks.get_mut(n));
    let Some(slot) = slot else {
        return Err(LaunchRequestError::at("E0805", format!("there is no block {number}"), block)
            .note("blocks are counted from 0, and only framed requests have any"));
    };
    match slot.take() {
        None => Err(LaunchRequestError::at("E0805", format!("block {number} is used twice"), block)),
        Some(content) if content.len() != bytes => {
            let title = format!("block {number} has {} bytes, and the array {bytes}", content.len());
            Err(LaunchRequestError::at("E0805", title, block)
                .note(format!("the shape {shape:?} of `{element}` has {bytes} bytes")))
        }
        Some(content) => {
            let mut array = Array::of_aligned(element, shape, content)?;
            normalize_bools(&mut array)?;
            Ok(array)
        }
    }
}

/// Sets each nonzero byte of a `bool` field to 1.
fn normalize_bools(array: &mut Array) -> Result<()> {
    let layout = array.element().layout();
    let places: Vec<std::ops::Range<usize>> = layout
        .leaves
        .iter()
        .filter(|leaf| leaf.ty.scalar() == Scalar::Bool)
        .map(|leaf| leaf.offset..leaf.offset + Ty::size(leaf.ty))
        .collect();
    if places.is_empty() {
        return Ok(());
    }
    for element in array.bytes_mut()?.chunks_exact_mut(layout.size.max(1)) {
        for place in &places {
            element.get_mut(place.clone()).unwrap_or(&mut []).iter_mut().for_each(|b| *b = u8::from(*b != 0));
        }
    }
    Ok(())
}
