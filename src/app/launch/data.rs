//! Decoding of numbers, structs and arrays in requests: JSON text or raw bytes to the bytes of elements of a known type.
//!
//! Every size is checked against the available input and against the limit before memory is allocated for it.

use std::borrow::Cow;

use indexmap::IndexMap;
use smol_str::SmolStr;

use super::json::{Kind, NOT_FINITE, Raw};
use super::refusal::{Refusal, Result};
use crate::app::names;
use crate::base::aligned::AlignedBytes;
use crate::host::array::{Array, Element, HostArray, MAX_EXTENT, RecordLayout, byte_count, leaf};
use crate::host::value::Value;
use crate::ir::def::{Leaf, Ty};
use crate::lang::scalar::{self, Scalar};

/// Arrays by name, in insertion order.
pub type Arrays = IndexMap<SmolStr, Array>;
/// Arrays in host memory by name.
pub(crate) type HostArrays = IndexMap<SmolStr, HostArray>;

/// Limits and raw blocks for decoding.
pub(crate) struct Input<'a> {
    /// Maximum size of an array in bytes.
    pub limit: u64,
    /// The raw blocks of the request; each can be used once.
    pub blocks: &'a mut [Option<AlignedBytes>],
}

/// The expected element type and rank of an array, where known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub element: Option<Element>,
    pub rank: Option<usize>,
}

/// Returns the fields of an object; refuses duplicates and unknown names.
pub(crate) fn fields<'a>(value: Raw<'a>, what: &str, known: &[&str]) -> Result<Vec<(Cow<'a, str>, Raw<'a>)>> {
    if value.kind() != Kind::Object {
        return Err(Refusal::at("E0802", format!("{what} is an object, not {}", value.kind().words()), value));
    }
    let found: Vec<(Cow<'a, str>, Raw<'a>)> = value.fields().collect();
    let mut seen = std::collections::HashSet::new();
    for (name, field) in &found {
        if !known.is_empty() && !known.contains(&name.as_ref()) {
            let refusal = Refusal::at("E0802", format!("{what} has no field `{}`", shown(name)), *field);
            let refusal = refusal.note(format!("its fields are {}", quoted(known.iter().copied())));
            return Err(names::did_you_mean(name, known.iter().copied()).into_iter().fold(refusal, Refusal::help));
        }
        if !seen.insert(name.clone()) {
            return Err(Refusal::at("E0802", format!("the field `{}` is given twice", shown(name)), *field));
        }
    }
    Ok(found)
}

/// Returns a name from the request, truncated if it is long.
pub(crate) fn shown(name: &str) -> String {
    let cut: String = name.chars().take(60).collect();
    if cut.len() < name.len() { format!("{cut}…") } else { cut }
}

/// Formats names as "`a`, `b`, `c`", at most a dozen.
pub(crate) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    let more = if all.len() > 12 { ", …" } else { "" };
    format!("{}{more}", all[..all.len().min(12)].join(", "))
}

/// Returns a value as a string; refuses other kinds.
pub(crate) fn text<'a>(value: Raw<'a>, what: &str) -> Result<Cow<'a, str>> {
    let wrong = || Refusal::at("E0802", format!("{what} is a string, not {}", value.kind().words()), value);
    value.string().ok_or_else(wrong)
}

/// Returns a value as a nonnegative integer; refuses others.
pub(crate) fn size(value: Raw<'_>, what: &str) -> Result<u64> {
    value.text().parse().map_err(|_| {
        let found = if value.kind() == Kind::Number { shown(value.text()) } else { value.kind().words().to_string() };
        Refusal::at("E0802", format!("{what} is an integer of 0 or more, not {found}"), value)
    })
}

/// Returns the bits of a scalar.
fn scalar(ty: Scalar, value: Raw<'_>) -> Result<u64> {
    let text = value.text();
    let number = match (value.kind(), ty) {
        (Kind::Bool, Scalar::Bool) => return Ok(u64::from(text == "true")),
        (Kind::Number, Scalar::Bool) | (Kind::Bool, _) => None,
        (Kind::Number, _) => number(ty, text),
        (Kind::Text, _) if ty.is_float() => {
            let inner = text.trim_matches('"');
            NOT_FINITE.contains(&inner).then(|| number(ty, inner)).flatten()
        }
        _ => None,
    };
    number.ok_or_else(|| misfit(ty, value))
}

/// Returns the bits of the number that a JSON number (or `NaN`, `Infinity`, `-Infinity`) denotes in this type; `None` if it is
/// not representable.
fn number(ty: Scalar, text: &str) -> Option<u64> {
    let finite =
        |value: scalar::Value| (value.as_f64().is_finite() || NOT_FINITE.contains(&text)).then_some(value.bits);
    let spelled = match text {
        // The spelling that Rust parses.
        "Infinity" => "inf",
        "-Infinity" => "-inf",
        other => other,
    };
    match ty {
        Scalar::F32 => finite(scalar::Value::of(spelled.parse::<f32>().ok()?)),
        Scalar::F64 => finite(scalar::Value::of(spelled.parse::<f64>().ok()?)),
        Scalar::F16 | Scalar::Bf16 => finite(scalar::Value::of(spelled.parse::<f64>().ok()?).to_type(ty)),
        Scalar::I32 => text.parse::<i32>().ok().map(|n| u64::from(n.cast_unsigned())),
        _ => scalar::Value::from_integer(ty, text.parse::<i128>().ok()?).map(|value| value.bits),
    }
}

fn misfit(ty: Scalar, value: Raw<'_>) -> Refusal {
    let found = match value.kind() {
        Kind::Number | Kind::Bool | Kind::Null => format!("`{}`", shown(value.text())),
        Kind::Text => format!("the string {}", shown(value.text())),
        other => other.words().to_string(),
    };
    let refusal = Refusal::at("E0804", format!("{found} is no value of type `{ty}`"), value);
    match (value.kind(), ty) {
        (Kind::Number, Scalar::Bool) => refusal.help("write `true` or `false`"),
        (Kind::Number, _) if ty.is_int() && value.text().contains(['.', 'e', 'E']) => {
            refusal.help("integers are written without a point and without an exponent")
        }
        (Kind::Number, _) if ty.is_float() => refusal.help("infinity is spelled `\"Infinity\"`"),
        (Kind::Text, _) if ty.is_float() => {
            refusal.note("the strings that are numbers are `NaN`, `Infinity` and `-Infinity`")
        }
        _ => refusal,
    }
}

/// Decodes a value into the bytes of an element.
pub(crate) fn fill(element: &Element, value: Raw<'_>, bytes: &mut [u8]) -> Result<()> {
    match element {
        Element::Scalar(ty) => put(*ty, scalar(*ty, value)?, bytes),
        Element::Vector(ty, lanes) => fill_vector(*ty, *lanes, value, bytes)?,
        Element::Record(record) => fill_record(record, &record.layout.leaves, value, bytes)?,
    }
    Ok(())
}

fn put(ty: Scalar, bits: u64, bytes: &mut [u8]) {
    bytes.iter_mut().zip(bits.to_le_bytes()).take(ty.size()).for_each(|(place, byte)| *place = byte);
}

fn fill_vector(ty: Scalar, lanes: u8, value: Raw<'_>, bytes: &mut [u8]) -> Result<()> {
    if value.kind() != Kind::List || value.count() != usize::from(lanes) {
        let found = match value.kind() {
            Kind::List => format!("a list of {}", value.count()),
            other => other.words().to_string(),
        };
        let title = format!("a `{ty}x{lanes}` is a list of {lanes} numbers, not {found}");
        return Err(Refusal::at("E0804", title, value));
    }
    for (place, lane) in bytes.chunks_exact_mut(ty.size()).zip(value.items()) {
        put(ty, scalar(ty, lane)?, place);
    }
    Ok(())
}

/// Decodes a struct or tuple. `leaves` are the scalar components of the outermost record: the offsets of an inner one count
/// from there.
fn fill_record(record: &RecordLayout, leaves: &[Leaf], value: Raw<'_>, bytes: &mut [u8]) -> Result<()> {
    let parts = parts(record, value)?;
    for (field, part) in record.fields.iter().zip(parts) {
        let own = leaves.get(field.leaves.clone()).unwrap_or(&[]);
        match (&field.element, own.first()) {
            (Element::Record(inner), _) => fill_record(inner, own, part, bytes)?,
            (plain, Some(leaf)) => {
                fill(plain, part, bytes.get_mut(leaf.offset..leaf.offset + plain.size()).unwrap_or(&mut []))?;
            }
            (_, None) => {}
        }
    }
    Ok(())
}

/// Returns the field values of a struct or tuple in declaration order.
fn parts<'a>(record: &RecordLayout, value: Raw<'a>) -> Result<Vec<Raw<'a>>> {
    let what = if record.is_tuple() { "a tuple".to_string() } else { format!("a `{}`", record.name) };
    let names: Vec<&str> = record.fields.iter().map(|field| field.name.as_str()).collect();
    match value.kind() {
        Kind::List => {
            let parts: Vec<Raw<'a>> = value.items().collect();
            if parts.len() == names.len() {
                return Ok(parts);
            }
            let title = format!("{what} has {} fields, and this list has {}", names.len(), parts.len());
            Err(Refusal::at("E0804", title, value).note(format!("the fields are {}", quoted(names))))
        }
        Kind::Object if !record.is_tuple() => {
            let given = fields(value, &what, &names)?;
            let part = |name: &&str| {
                let found = given.iter().find(|(given, _)| given == name).map(|(_, part)| *part);
                found.ok_or_else(|| Refusal::at("E0802", format!("{what} lacks its field `{name}`"), value))
            };
            names.iter().map(part).collect()
        }
        other => {
            let form = if record.is_tuple() { "a list" } else { "an object or a list" };
            Err(Refusal::at("E0804", format!("{what} is {form}, not {}", other.words()), value))
        }
    }
}

/// Decodes a single value.
pub(crate) fn value(element: &Element, raw: Raw<'_>) -> Result<Value> {
    let mut bytes = vec![0; element.size()];
    fill(element, raw, &mut bytes)?;
    Ok(leaf::read(element, &bytes))
}

/// Returns the default type of a value, as in a script: `i32`, `f32` or `bool`.
pub(crate) fn settled(value: Raw<'_>) -> Option<Scalar> {
    match value.kind() {
        Kind::Bool => Some(Scalar::Bool),
        Kind::Number if value.text().trim_start_matches('-').bytes().all(|b| b.is_ascii_digit()) => Some(Scalar::I32),
        Kind::Number => Some(Scalar::F32),
        Kind::Text => value.string().is_some_and(|s| NOT_FINITE.contains(&s.as_ref())).then_some(Scalar::F32),
        Kind::List => match value.items().next() {
            Some(first) => settled(first),
            None => Some(Scalar::F32),
        },
        Kind::Null | Kind::Object => None,
    }
}

/// Returns the element type with this name: `f32`, `u8x4`, a struct, `(f32, i32)`.
pub(crate) fn element_named(name: &str, find: &mut dyn FnMut(&str) -> Option<Element>) -> Option<Element> {
    if name.len() > LONGEST_TYPE { None } else { nested_element(name, TYPE_DEPTH, find) }
}

/// Limits on the length of a type name and on the nesting of tuples in it.
const LONGEST_TYPE: usize = 4096;
const TYPE_DEPTH: usize = 16;

fn nested_element(name: &str, depth: usize, find: &mut dyn FnMut(&str) -> Option<Element>) -> Option<Element> {
    let name = name.trim();
    if let Some(inner) = name.strip_prefix('(').and_then(|n| n.strip_suffix(')')) {
        let within = depth.checked_sub(1)?;
        let mut open = 0;
        let pieces = inner.split(|c| {
            open += i32::from(c == '(') - i32::from(c == ')');
            c == ',' && open == 0
        });
        let parts: Option<Vec<Element>> = pieces.map(|piece| nested_element(piece, within, find)).collect();
        return Some(Element::Record(RecordLayout::tuple(parts?).into()));
    }
    if let Some(scalar) = Scalar::from_name(name) {
        return Some(Element::Scalar(scalar));
    }
    let vector = name.rsplit_once('x').and_then(|(scalar, lanes)| {
        let lanes = lanes.parse().ok().filter(|n| (2..=4).contains(n) && lanes.len() == 1)?;
        Scalar::from_name(scalar).map(|scalar| Element::Vector(scalar, lanes))
    });
    vector.or_else(|| find(name))
}

/// The fields of an array object.
const ARRAY: [&str; 5] = ["type", "shape", "data", "data64", "block"];

/// Decodes an array: nested lists, or an object with `shape` and one of `data`, `data64` and `block`.
pub(crate) fn array(
    value: Raw<'_>,
    wanted: &Wanted,
    input: &mut Input<'_>,
    find: &mut dyn FnMut(&str) -> Option<Element>,
) -> Result<Array> {
    if value.kind() == Kind::List {
        return from_lists(value, None, wanted, input.limit);
    }
    if value.kind() != Kind::Object {
        return Err(Refusal::at(
            "E0802",
            format!("an array is a list or an object, not {}", value.kind().words()),
            value,
        ));
    }
    let given = fields(value, "an array", &ARRAY)?;
    let field = |name: &str| given.iter().find(|(given, _)| given == name).map(|(_, field)| *field);
    let named = match field("type") {
        Some(ty) => {
            let name = text(ty, "`type`")?;
            let unknown =
                || Refusal::at("E0803", format!("there is no type `{}` that elements can have", shown(&name)), ty);
            Some(element_named(&name, find).ok_or_else(unknown)?)
        }
        None => None,
    };
    let wanted = Wanted { element: named.or_else(|| wanted.element.clone()), rank: wanted.rank };
    let shape = field("shape").map(extents).transpose()?;
    match (field("data"), field("data64"), field("block")) {
        (Some(data), None, None) => from_lists(data, shape, &wanted, input.limit),
        (None, Some(data), None) => {
            let (element, shape, bytes) = sized(value, &wanted, shape, input.limit)?;
            from_base64(data, element, &shape, bytes)
        }
        (None, None, Some(block)) => {
            let (element, shape, bytes) = sized(value, &wanted, shape, input.limit)?;
            from_block(block, element, &shape, bytes, input)
        }
        _ => Err(Refusal::at("E0802", "an array has exactly one of `data`, `data64` and `block`", value)),
    }
}

/// Decodes a shape; refuses an extent that is too large for an axis.
fn extents(value: Raw<'_>) -> Result<Vec<usize>> {
    if value.kind() != Kind::List {
        return Err(Refusal::at("E0802", format!("`shape` is a list, not {}", value.kind().words()), value));
    }
    let extent = |raw: Raw<'_>| {
        let extent = size(raw, "an extent")?;
        let small = usize::try_from(extent).ok().filter(|n| *n <= MAX_EXTENT);
        small.ok_or_else(|| {
            Refusal::at("E0806", format!("an axis cannot have {extent} elements"), raw)
                .note(format!("an axis has at most {MAX_EXTENT} elements"))
        })
    };
    value.items().map(extent).collect()
}

/// Returns the element type, shape and size in bytes of an array given as raw bytes; refuses one over the limit.
fn sized(
    value: Raw<'_>,
    wanted: &Wanted,
    shape: Option<Vec<usize>>,
    limit: u64,
) -> Result<(Element, Vec<usize>, usize)> {
    let lacks = |what: &str| Refusal::at("E0802", format!("an array of raw bytes needs its `{what}`"), value);
    let element = wanted.element.clone().ok_or_else(|| lacks("type"))?;
    let shape = shape.ok_or_else(|| lacks("shape"))?;
    let bytes = within(&element, &shape, limit, value)?;
    Ok((element, shape, bytes))
}

/// Returns the size in bytes of an array; refuses one over the limit.
fn within(element: &Element, shape: &[usize], limit: u64, value: Raw<'_>) -> Result<usize> {
    let too_large = |bytes: &str| {
        let title = format!("an array of `{element}` with the shape {shape:?} is too large{bytes}");
        let note = format!("arrays have at most {limit} bytes here");
        Refusal::at("E0806", title, value).note(note).help("allow more: `--max-bytes`")
    };
    match byte_count(element, shape) {
        Ok(bytes) if bytes as u64 <= limit => Ok(bytes),
        Ok(bytes) => Err(too_large(&format!(": {bytes} bytes"))),
        Err(_) => Err(too_large("")),
    }
}

fn from_lists(data: Raw<'_>, shape: Option<Vec<usize>>, wanted: &Wanted, limit: u64) -> Result<Array> {
    let element = match &wanted.element {
        Some(element) => element.clone(),
        None => {
            let open = || Refusal::at("E0802", "nothing says which type the elements have", data);
            Element::Scalar(settled(data).ok_or_else(|| open().help("say so: `{\"type\": \"f32\", \"data\": …}`"))?)
        }
    };
    let depth = depth(data).saturating_sub(element_depth(&element, data));
    let Some(shape) = shape else {
        let shape = shape_of(data, wanted.rank.unwrap_or(depth))?;
        let mut array = zeros(&element, &shape, limit, data)?;
        fill_nested(&element, data, &shape, array.bytes_mut()?)?;
        return Ok(array);
    };
    // A list of n elements has at least n - 1 commas. A shape that promises more elements than the text has bytes is refused
    // before allocating.
    let count = shape.iter().try_fold(1usize, |count, n| count.checked_mul(*n));
    if count.is_none_or(|count| count > data.text().len()) {
        return Err(Refusal::at("E0805", format!("there are fewer elements here than the shape {shape:?} has"), data));
    }
    let mut array = zeros(&element, &shape, limit, data)?;
    if count == Some(0) && data.kind() == Kind::List && data.count() == 0 {
        return Ok(array);
    }
    let flat = [array.count()];
    let layout: &[usize] = if shape.len() > 1 && depth <= 1 { &flat } else { &shape };
    fill_nested(&element, data, layout, array.bytes_mut()?)?;
    Ok(array)
}

fn zeros(element: &Element, shape: &[usize], limit: u64, value: Raw<'_>) -> Result<Array> {
    within(element, shape, limit, value)?;
    Array::zeros(element.clone(), shape).map_err(|problem| Refusal::of(problem, value))
}

/// Returns the nesting depth of lists, measured along the first elements.
fn depth(value: Raw<'_>) -> usize {
    match value.kind() {
        Kind::List => 1 + value.items().next().map_or(0, depth),
        _ => 0,
    }
}

/// Returns how many levels of that nesting belong to an element rather than to the array's axes.
fn element_depth(element: &Element, value: Raw<'_>) -> usize {
    let mut first = value;
    while let (Kind::List, Some(inner)) = (first.kind(), first.items().next()) {
        first = inner;
    }
    match element {
        Element::Scalar(_) => 0,
        Element::Vector(..) => 1,
        Element::Record(_) if first.kind() == Kind::Object => 0,
        Element::Record(record) => 1 + record.fields.first().map_or(0, |field| element_depth(&field.element, first)),
    }
}

/// Returns the extents of nested lists, taken from the first list of each level.
fn shape_of(data: Raw<'_>, rank: usize) -> Result<Vec<usize>> {
    let mut shape = Vec::new();
    let mut level = Some(data);
    while shape.len() < rank {
        match level {
            Some(list) if list.kind() == Kind::List => {
                shape.push(list.count());
                level = list.items().next();
            }
            Some(other) => {
                let title =
                    format!("an array of {rank} axes is {rank} lists deep, and this is {}", other.kind().words());
                return Err(Refusal::at("E0805", title, other));
            }
            None => shape.push(0),
        }
    }
    Ok(shape)
}

/// Decodes nested lists into the bytes of an array of this shape; refuses ragged lists.
fn fill_nested(element: &Element, data: Raw<'_>, shape: &[usize], bytes: &mut [u8]) -> Result<()> {
    let Some((&extent, inner)) = shape.split_first() else { return fill(element, data, bytes) };
    let wrong = |found: String| {
        Refusal::at("E0805", format!("a list of {extent} belongs here, not {found}"), data)
            .note("all rows of an array are equally long")
    };
    if data.kind() != Kind::List {
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

fn from_base64(data: Raw<'_>, element: Element, shape: &[usize], bytes: usize) -> Result<Array> {
    let text = text(data, "`data64`")?;
    let digits = text.trim_end_matches('=');
    if text.len() != bytes.div_ceil(3) * 4 || digits.len() * 6 / 8 != bytes {
        let title =
            format!("the Base64 text of {bytes} bytes has {} letters, not {}", bytes.div_ceil(3) * 4, text.len());
        return Err(
            Refusal::at("E0805", title, data).note(format!("the shape {shape:?} of `{element}` has {bytes} bytes"))
        );
    }
    let mut array = Array::zeros(element, shape).map_err(|problem| Refusal::of(problem, data))?;
    let wrong = || Refusal::at("E0804", "this is no Base64 text", data).note("with `+` and `/`, padded with `=`");
    decode64(digits.as_bytes(), array.bytes_mut()?).ok_or_else(wrong)?;
    make_truths(&mut array)?;
    Ok(array)
}

/// Decodes unpadded Base64; `None` if a character is not in the alphabet.
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

fn from_block(block: Raw<'_>, element: Element, shape: &[usize], bytes: usize, input: &mut Input<'_>) -> Result<Array> {
    let number = size(block, "`block`")?;
    let slot = usize::try_from(number).ok().and_then(|n| input.blocks.get_mut(n));
    let Some(slot) = slot else {
        return Err(Refusal::at("E0805", format!("there is no block {number}"), block)
            .note("blocks are counted from 0, and only framed requests have any"));
    };
    match slot.take() {
        None => Err(Refusal::at("E0805", format!("block {number} is used twice"), block)),
        Some(content) if content.len() != bytes => {
            let title = format!("block {number} has {} bytes, and the array {bytes}", content.len());
            Err(Refusal::at("E0805", title, block)
                .note(format!("the shape {shape:?} of `{element}` has {bytes} bytes")))
        }
        Some(content) => {
            let mut array = Array::of_aligned(element, shape, content)?;
            make_truths(&mut array)?;
            Ok(array)
        }
    }
}

/// Normalizes the bytes of `bool` components: any nonzero byte becomes 1.
fn make_truths(array: &mut Array) -> Result<()> {
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
