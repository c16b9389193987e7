//! Formats values as text for `print` and messages. Arrays are formatted as in NumPy.

pub mod column;
pub(crate) mod layout;
mod table;

use smol_str::SmolStr;

use crate::array::Array;
use crate::format::column::Cells;
use crate::format::layout::ArrayTextLayout;
use crate::problem::{HostResult, RuntimeError};
use crate::value::{HostValue, RangeValue, RecordValue, Timing};
use clk_base::escape;
use clk_scalar::format::{self, Align, FormatError, Spec};

/// Returns the output of `print(value)`.
pub fn print(value: &HostValue) -> HostResult<String> {
    Ok(match value {
        HostValue::Unit => "()".into(),
        HostValue::Scalar(number) => format::plain(*number),
        HostValue::Int(n) => n.to_string(),
        HostValue::Float(x) => format::plain(clk_scalar::ScalarValue::of(*x)),
        HostValue::Vector(vector) => list("(", vector.values().map(|lane| Ok(format::plain(lane))), ")")?,
        HostValue::Str(text) => text.to_string(),
        HostValue::Array(array) => print_array(array, layout::LINE)?,
        HostValue::Record(record) => print_record(record, print_quoted)?,
        HostValue::Tuple(parts) => list("(", parts.iter().map(print_quoted), ")")?,
        HostValue::Range(range) => print_range(range),
        HostValue::Table(table) => table::print(table, layout::LINE, print)?,
        HostValue::Strings(texts) => print_texts(texts, layout::LINE),
        HostValue::Timing(timing) => print_timing(timing),
        HostValue::Kernel(_) => "kernel".into(),
        HostValue::Traced(traced) => print(traced.primal())?,
    })
}

/// Like [`print()`], but wraps arrays and tables at this number of columns.
pub fn print_in(value: &HostValue, columns: usize) -> HostResult<String> {
    match value {
        HostValue::Array(array) => print_array(array, columns),
        HostValue::Strings(texts) => Ok(print_texts(texts, columns)),
        HostValue::Table(table) => table::print(table, columns, print),
        _ => print(value),
    }
}

fn list(open: &str, parts: impl Iterator<Item = HostResult<String>>, close: &str) -> HostResult<String> {
    Ok(format!("{open}{}{close}", parts.collect::<HostResult<Vec<_>>>()?.join(", ")))
}

/// Formats the fields of a record, each with its name.
fn fields(
    record: &RecordValue,
    field: impl Fn(&HostValue) -> HostResult<String>,
) -> impl Iterator<Item = HostResult<String>> {
    let names = record.layout.fields.iter().map(|field| escape::name(&field.name));
    names.zip(&record.fields).map(move |(name, value)| Ok(format!("{name}: {}", field(value)?)))
}

fn print_record(record: &RecordValue, field: impl Fn(&HostValue) -> HostResult<String>) -> HostResult<String> {
    list(&format!("{} {{ ", escape::name(&record.layout.name)), fields(record, field), " }")
}

/// Formats a part of a tuple or record. Like [`print()`], but quotes strings.
fn print_quoted(value: &HostValue) -> HostResult<String> {
    match value {
        HostValue::Str(text) => Ok(format!("{text:?}")),
        _ => print(value),
    }
}

/// Formats a value for an error message. Like [`print()`], but quotes strings and truncates long ones.
pub fn print_brief(value: &HostValue) -> HostResult<String> {
    const SHOWN: usize = 60;
    match value {
        HostValue::Str(text) if text.chars().nth(SHOWN).is_some() => {
            let shown: String = text.chars().take(SHOWN).collect();
            Ok(format!("{shown:?} and so on"))
        }
        _ => print_quoted(value),
    }
}

/// Formats an array as NumPy does: with aligned columns. A large array shows three elements at each end of an axis.
fn print_array(array: &Array, columns: usize) -> HostResult<String> {
    let layout = ArrayTextLayout::new(array.shape());
    let shown = array.items_at(layout.shown()).collect::<HostResult<Vec<HostValue>>>()?;
    let texts = Cells::new(array.element(), &shown).texts();
    Ok(layout.render(texts, columns))
}

/// Formats an array of texts as a list of quoted texts, wrapped at `columns`. Shows only the first and last ones of
/// many.
fn print_texts(texts: &[SmolStr], columns: usize) -> String {
    const EDGE: usize = 3;
    let quoted = |text: &SmolStr| format!("{text:?}");
    let words: Vec<String> = match texts.len() > layout::THRESHOLD {
        false => texts.iter().map(quoted).collect(),
        true => {
            let (first, last) = (&texts[..EDGE], &texts[texts.len() - EDGE..]);
            first.iter().map(quoted).chain(["...".to_string()]).chain(last.iter().map(quoted)).collect()
        }
    };
    let (mut out, mut column) = (String::from("["), 1);
    for (i, word) in words.iter().enumerate() {
        let width = word.chars().count() + 1;
        match i {
            0 => {}
            _ if column + 1 + width > columns => {
                out += ",\n ";
                column = 1;
            }
            _ => {
                out += ", ";
                column += 2;
            }
        }
        out += word;
        column += width - 1;
    }
    out + "]"
}

fn print_range(range: &RangeValue) -> String {
    let end = |end: Option<i64>| end.map_or(String::new(), |n| n.to_string());
    let dots = if range.inclusive { "..=" } else { ".." };
    let step = if range.step == 1 { String::new() } else { format!(" step {}", range.step) };
    format!("{}{dots}{}{step}", end(range.start), end(range.end))
}

fn print_timing(timing: &Timing) -> String {
    let Timing { median, min, max, runs } = timing;
    match runs {
        1 => format!("{} (1 run)", seconds(*median)),
        _ => format!("{} (median of {runs} runs, {} to {})", seconds(*median), seconds(*min), seconds(*max)),
    }
}

/// Formats a duration with three digits and a suitable unit.
pub fn seconds(seconds: f64) -> String {
    let units = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
    let fitting = units.into_iter().find(|(unit, _)| seconds >= unit * 0.9995);
    let (unit, name) = fitting.unwrap_or((1e-9, "ns"));
    let amount = seconds / unit;
    let decimals = if amount < 9.995 { 2 } else { usize::from(amount < 99.95) };
    format!("{amount:.decimals$} {name}")
}

/// Formats `"{value:spec}"`: the specification applies to every number in an array, vector, tuple or record; strings
/// are padded.
pub(crate) fn with_spec(value: &HostValue, spec: &str) -> HostResult<String> {
    if spec.is_empty() {
        return print(value);
    }
    let parsed = Spec::parse(spec).map_err(|reason| bad_spec(spec, reason))?;
    let number =
        |number: clk_scalar::ScalarValue| format::with_spec(number, &parsed).map_err(|reason| bad_spec(spec, reason));
    match value {
        HostValue::Scalar(n) => number(*n),
        HostValue::Int(_) => value.clone().with_default_type().as_scalar().map_or_else(|| print(value), number),
        HostValue::Float(x) => number(clk_scalar::ScalarValue::of(*x)),
        HostValue::Vector(_) | HostValue::Array(_) => spec_of_elements(value, &number),
        HostValue::Tuple(parts) => list("(", parts.iter().map(|part| with_spec(part, spec)), ")"),
        HostValue::Traced(traced) => with_spec(traced.primal(), spec),
        HostValue::Record(record) => print_record(record, |field| with_spec(field, spec)),
        HostValue::Strings(texts) => {
            let each = texts.iter().map(|text| with_spec(&HostValue::Str(text.clone()), spec).map(SmolStr::from));
            Ok(print_texts(&each.collect::<HostResult<Vec<SmolStr>>>()?, layout::LINE))
        }
        HostValue::Table(table) => {
            let name = table.keys().next().map_or("name", SmolStr::as_str);
            let problem = bad_spec(spec, FormatError::Table);
            Err(problem.help(format!("give it to one column: `{{t[{name:?}]:{spec}}}`")))
        }
        HostValue::Str(_) | HostValue::Unit | HostValue::Range(_) | HostValue::Timing(_) | HostValue::Kernel(_) => {
            text(value, spec, &parsed)
        }
    }
}

fn spec_of_elements(
    value: &HostValue,
    number: &impl Fn(clk_scalar::ScalarValue) -> HostResult<String>,
) -> HostResult<String> {
    match value {
        HostValue::Scalar(n) => number(*n),
        HostValue::Vector(vector) => list("(", vector.values().map(number), ")"),
        HostValue::Tuple(parts) => list("(", parts.iter().map(|part| spec_of_elements(part, number)), ")"),
        HostValue::Record(record) => list("{", fields(record, |field| spec_of_elements(field, number)), "}"),
        HostValue::Array(array) => {
            let layout = ArrayTextLayout::new(array.shape());
            let shown = array.items_at(layout.shown());
            let texts = shown.map(|item| spec_of_elements(&item?, number)).collect::<HostResult<Vec<String>>>()?;
            Ok(layout.render(column::right_aligned(texts), layout::LINE))
        }
        other => print(other),
    }
}

fn text(value: &HostValue, spec: &str, parsed: &Spec) -> HostResult<String> {
    let plain = matches!(parsed.style, format::NumberStyle::Plain) && !parsed.plus && !parsed.zeros;
    // A precision is an error unless the value is a text, which it truncates.
    if !plain || parsed.precision.is_some() && !matches!(value, HostValue::Str(_)) {
        return Err(bad_spec(spec, FormatError::NotANumber(value.type_name())));
    }
    let mut text = print(value)?;
    if let Some(most) = parsed.precision {
        text = text.chars().take(most).collect();
    }
    Ok(parsed.pad(&text, Align::Left))
}

fn bad_spec(spec: &str, reason: FormatError) -> RuntimeError {
    RuntimeError::new("E0545", format!("the format `{spec}` {reason}")).note(format::SYNTAX)
}

/// Returns the type and size of an array, which a session shows below the array.
pub fn describe(array: &Array) -> String {
    match array.byte_len() {
        0..1024 => array.type_name(),
        bytes => format!("{}, {}", array.type_name(), size(bytes)),
    }
}

/// Formats an amount of memory.
pub fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} bytes"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", bytes as f64 / 1_073_741_824.0),
    }
}
