//! .json files of numbers: nested arrays, or an object of such arrays.
//!
//! - A file is an array, a number, a `bool`, or an object whose members are those: a table.
//! - Elements are `i64` if all are integers, `u64` if some exceed an `i64` and none is negative, `f64` if one has a
//!   fraction or an exponent, and `bool`. An array of texts has one axis.
//! - Refused: arrays that are not rectangular, numbers that their type cannot represent exactly, mixed types, `null`.

use std::borrow::Cow;

use indexmap::IndexMap;
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::array::Array;
use crate::files::csv::{is_inexact_integer, write_text};
use crate::files::file::{self, NamedFile, shorten};
use crate::files::items::{SavedItems, scalars_only};
use crate::files::json_visitor::{for_each_element, for_each_member};
use crate::ops::text::texts;
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::alloc::{self, ByteSink};
use clk_base::stop::{self, Ticks};
use clk_scalar::{Scalar, ScalarValue};

pub(crate) fn decode(file: &NamedFile) -> HostResult<HostValue> {
    let text = file::text(file.name, file.bytes)?;
    let json = JsonFile { file: *file, text, ticks: Ticks::default() };
    let whole: &RawValue = serde_json::from_str(text).map_err(|error| json.syntax_error(&error))?;
    if !whole.get().starts_with('{') {
        return json.value(whole.get());
    }
    let mut members = IndexMap::new();
    for_each_member(whole.get(), |name, value| {
        let name = SmolStr::new(name);
        let previous = members.insert(
            name.clone(),
            match json.value(value.get())? {
                scalar @ HostValue::Scalar(_) => Array::full(&scalar, &[]).map(HostValue::Array)?,
                array => array,
            },
        );
        match previous {
            None => Ok(()),
            Some(_) => Err(json.wrong(value.get(), format!("has a second member called {name:?}"))),
        }
    })
    .map_err(|error| json.syntax_error(&error))??;
    Ok(file::table(members))
}

struct JsonFile<'t> {
    file: NamedFile<'t>,
    text: &'t str,
    ticks: Ticks,
}

impl<'t> JsonFile<'t> {
    fn syntax_error(&self, error: &serde_json::Error) -> RuntimeError {
        let problem = self.file.wrong_line(error.line().max(1) as u64, format!("is not JSON: {error}"));
        match self.text.contains("NaN") || self.text.contains("Infinity") {
            true => problem.note("JSON has neither NaN nor infinities, although Python's `json` writes them"),
            false => problem,
        }
    }

    /// Returns the error for a part of the text.
    fn wrong(&self, part: &str, reason: impl std::fmt::Display) -> RuntimeError {
        let offset = (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        let before = self.text.as_bytes().get(..offset).unwrap_or(&[]);
        let line = before.iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
        self.file.wrong_line(line, reason)
    }

    /// Decodes an array, a number or a `bool`.
    fn value(&self, raw: &'t str) -> HostResult<HostValue> {
        let mut array = JsonArray { json: self, shape: vec![], is_shape_known: false, elements: JsonElements::None };
        array.read(raw, 0)?;
        let JsonArray { shape, elements, .. } = array;
        if let JsonElements::Texts(words) = elements {
            return texts(words);
        }
        let scalar = elements.scalar().ok_or_else(|| self.mixed_signs(raw))?;
        let array = match elements {
            JsonElements::Bools(bools) => Array::from_shaped(&bools, &shape)?,
            JsonElements::Integers { bits, .. } => Array::from_bytes(scalar, &shape, bytemuck::cast_slice(&bits))?,
            JsonElements::Floats(floats) => Array::from_shaped(&floats, &shape)?,
            JsonElements::None | JsonElements::Texts(_) => Array::from_shaped::<f64>(&[], &shape)?,
        };
        file::scalar_or_array(array)
    }

    fn inexact(&self, raw: &str, integer: &str) -> RuntimeError {
        self.wrong(raw, format!("belongs to an array of `f64`, and no `f64` is exactly {integer}"))
            .note("an array with a fraction or an exponent is an array of `f64`, which would round this integer")
    }

    fn mixed_signs(&self, raw: &str) -> RuntimeError {
        self.wrong(raw, "has an array with negative integers and integers beyond an `i64`")
            .note("no integer type has both")
    }
}

/// The elements of an array that were read so far.
enum JsonElements {
    None,
    Bools(Vec<bool>),
    /// Integers in two's complement.
    Integers {
        bits: Vec<u64>,
        has_negative: bool,
        exceeds_i64: bool,
    },
    Floats(Vec<f64>),
    Texts(Vec<SmolStr>),
}

impl JsonElements {
    /// Returns the element type; `None` if no type has all the integers.
    fn scalar(&self) -> Option<Scalar> {
        Some(match self {
            JsonElements::Bools(_) => Scalar::Bool,
            JsonElements::Integers { has_negative: true, exceeds_i64: true, .. } => return None,
            JsonElements::Integers { exceeds_i64: true, .. } => Scalar::U64,
            JsonElements::Integers { .. } => Scalar::I64,
            JsonElements::None | JsonElements::Floats(_) | JsonElements::Texts(_) => Scalar::F64,
        })
    }
}

/// An array that is being read.
struct JsonArray<'j, 't> {
    json: &'j JsonFile<'t>,
    /// The extents of the axes so far.
    shape: Vec<usize>,
    /// Whether an element was read, so that the number of axes is known.
    is_shape_known: bool,
    elements: JsonElements,
}

/// Maximum number of axes. Each axis is one more pass over the text, and a level of recursion.
const MOST_AXES: usize = 32;

impl<'t> JsonArray<'_, 't> {
    /// Reads a value inside of `depth` arrays. `raw` is valid JSON.
    fn read(&mut self, raw: &'t str, depth: usize) -> HostResult<()> {
        self.json.ticks.advance(1);
        if !raw.starts_with('[') {
            return self.element(raw, depth);
        }
        if depth == MOST_AXES {
            return Err(self.json.wrong(raw, format!("has an array with more than {MOST_AXES} axes")));
        }
        if self.is_shape_known && depth >= self.shape.len() {
            return Err(self.json.wrong(raw, "has an array among elements").help("all elements are equally deep"));
        }
        let is_first = depth == self.shape.len();
        if is_first {
            self.shape.push(0);
        }
        let mut count = 0usize;
        for_each_element(raw, |element| {
            count += 1;
            self.read(element.get(), depth + 1)
        })
        .map_err(|error| self.json.syntax_error(&error))??;
        match self.shape.get_mut(depth) {
            Some(extent) if is_first => *extent = count,
            Some(extent) if *extent != count => {
                let reason = format!("has an array of {count} elements, and the first one at this depth has {extent}");
                return Err(self.json.wrong(raw, reason).help("all rows of an array are equally long"));
            }
            _ => {}
        }
        Ok(())
    }

    fn element(&mut self, raw: &'t str, depth: usize) -> HostResult<()> {
        if depth != self.shape.len() {
            return Err(self.json.wrong(raw, "has an element among arrays").help("all elements are equally deep"));
        }
        self.is_shape_known = true;
        match raw.as_bytes().first() {
            Some(b'"') => self.text(raw, depth),
            Some(b't' | b'f') => self.bool(raw),
            Some(b'-' | b'0'..=b'9') if raw.contains(['.', 'e', 'E']) => self.float(raw),
            Some(b'-' | b'0'..=b'9') => self.integer(raw),
            Some(b'{') => Err(self.json.wrong(raw, "has an object in place of an array or a number")),
            _ => Err(self.json.wrong(raw, "has a `null`").help("leave it out, or write a number")),
        }
    }

    fn mixed(&self, raw: &str) -> RuntimeError {
        self.json.wrong(raw, "has an element of another type than the elements before it")
    }

    fn bool(&mut self, raw: &str) -> HostResult<()> {
        if let JsonElements::None = self.elements {
            self.elements = JsonElements::Bools(vec![]);
        }
        let JsonElements::Bools(bools) = &mut self.elements else { return Err(self.mixed(raw)) };
        push(bools, raw == "true");
        Ok(())
    }

    fn text(&mut self, raw: &'t str, depth: usize) -> HostResult<()> {
        let text: Cow<'t, str> = serde_json::from_str(raw).map_err(|_| self.json.wrong(raw, "has an invalid text"))?;
        if depth != 1 {
            return Err(self.json.wrong(raw, "has a text that is not in an array with one axis"));
        }
        if let JsonElements::None = self.elements {
            self.elements = JsonElements::Texts(vec![]);
        }
        let JsonElements::Texts(texts) = &mut self.elements else { return Err(self.mixed(raw)) };
        push(texts, SmolStr::new(text));
        Ok(())
    }

    fn integer(&mut self, raw: &str) -> HostResult<()> {
        if let JsonElements::Floats(_) = self.elements {
            return self.float(raw);
        }
        let Some(integer) = raw.parse().ok().filter(|n| (i64::MIN.into()..=u64::MAX.into()).contains(n)) else {
            return Err(self.json.wrong(raw, format!("has the integer {}, too large for 64 bits", shorten(raw))));
        };
        let integer: i128 = integer;
        if let JsonElements::None = self.elements {
            self.elements = JsonElements::Integers { bits: vec![], has_negative: false, exceeds_i64: false };
        }
        match &mut self.elements {
            JsonElements::Integers { bits, has_negative, exceeds_i64 } => {
                *has_negative |= integer < 0;
                *exceeds_i64 |= integer > i64::MAX.into();
                push(bits, integer as u64);
                Ok(())
            }
            _ => Err(self.mixed(raw)),
        }
    }

    fn float(&mut self, raw: &str) -> HostResult<()> {
        let float: f64 = raw.parse().unwrap_or(f64::INFINITY);
        if float.is_infinite() {
            return Err(self.json.wrong(raw, format!("has the number {}, too large for an `f64`", shorten(raw))));
        }
        if is_inexact_integer(raw, float) {
            return Err(self.json.inexact(raw, &shorten(raw)));
        }
        match &mut self.elements {
            JsonElements::None => self.elements = JsonElements::Floats(vec![float]),
            JsonElements::Floats(floats) => push(floats, float),
            JsonElements::Integers { bits, has_negative, exceeds_i64 } => {
                if *has_negative && *exceeds_i64 {
                    return Err(self.json.mixed_signs(raw));
                }
                let is_signed = *has_negative;
                let integer = |bits: u64| if is_signed { i128::from(bits as i64) } else { bits.into() };
                if let Some(&bits) = stop::polled(&*bits).find(|bits| integer(**bits) as f64 as i128 != integer(**bits))
                {
                    return Err(self.json.inexact(raw, &integer(bits).to_string()));
                }
                let mut floats = alloc::collect(bits.len(), bits.iter().map(|bits| integer(*bits) as f64));
                push(&mut floats, float);
                self.elements = JsonElements::Floats(floats);
            }
            JsonElements::Bools(_) | JsonElements::Texts(_) => return Err(self.mixed(raw)),
        }
        Ok(())
    }
}

fn push<T>(items: &mut Vec<T>, item: T) {
    alloc::reserve(items, 1);
    items.push(item);
}

/// Encodes an array as nested arrays, or named arrays as an object.
pub(crate) fn encode(items: &SavedItems) -> HostResult<Vec<u8>> {
    let mut out = ByteSink::default();
    match (items.has_names, items.named.first()) {
        (false, Some((_, value))) if items.named.len() == 1 => write_value(&mut out, value)?,
        _ => {
            for (i, (name, value)) in items.named.iter().enumerate() {
                write_text(&mut out, format_args!("{}{}: ", if i == 0 { "{" } else { ",\n " }, quote(name)?))?;
                write_value(&mut out, value)?;
            }
            write_text(&mut out, format_args!("}}"))?;
        }
    }
    write_text(&mut out, format_args!("\n"))?;
    Ok(out.0)
}

fn quote(text: &str) -> HostResult<String> {
    serde_json::to_string(text)
        .map_err(|error| RuntimeError::new("E0715", format!("the file cannot be written: {error}")))
}

fn write_value(out: &mut ByteSink, value: &HostValue) -> HostResult<()> {
    match value {
        HostValue::Strings(texts) => {
            for (i, text) in stop::polled(texts.iter().enumerate()) {
                write_text(out, format_args!("{}{}", if i == 0 { "[" } else { ", " }, quote(text)?))?;
            }
            write_text(out, format_args!("{}", if texts.is_empty() { "[]" } else { "]" }))
        }
        HostValue::Array(array) => {
            let (scalar, shape) = scalars_only(array)?;
            let scalars = ScalarBytes { scalar, bytes: array.bytes()?, ticks: Ticks::default() };
            write_axis(out, &shape, &scalars, 0)
        }
        other => Err(RuntimeError::new("E0715", format!("a value of type {} cannot be saved", other.type_name()))),
    }
}

/// The scalars of an array.
struct ScalarBytes<'a> {
    scalar: Scalar,
    bytes: &'a [u8],
    ticks: Ticks,
}

impl ScalarBytes<'_> {
    fn write(&self, out: &mut ByteSink, index: usize) -> HostResult<()> {
        let (start, size) = (index * self.scalar.size(), self.scalar.size());
        let bytes = self.bytes.get(start..start + size).unwrap_or(&[]);
        let value = ScalarValue::from_bytes(self.scalar, bytes);
        if self.scalar.is_float() && !value.as_f64().is_finite() {
            let title = format!("JSON has no {}", clk_scalar::format::plain(value));
            return Err(
                RuntimeError::new("E0715", title).help("save the array as .npy or .csv, or replace the element")
            );
        }
        write_text(out, format_args!("{}", clk_scalar::format::plain(value)))
    }
}

/// Writes the part of an array that begins at the scalar `first`. Each row is on its own line.
fn write_axis(out: &mut ByteSink, shape: &[usize], scalars: &ScalarBytes<'_>, first: usize) -> HostResult<()> {
    let Some((&extent, inner)) = shape.split_first() else { return scalars.write(out, first) };
    stop::poll();
    let stride: usize = inner.iter().product();
    let separator = if inner.is_empty() { ", " } else { ",\n" };
    write_text(out, format_args!("["))?;
    for i in 0..extent {
        write_text(out, format_args!("{}", if i == 0 { "" } else { separator }))?;
        scalars.ticks.advance(1);
        write_axis(out, inner, scalars, first + i * stride)?;
    }
    write_text(out, format_args!("]"))
}
