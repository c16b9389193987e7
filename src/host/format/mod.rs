//! Values as text, as `print` shows them. Arrays are formatted like NumPy's.

pub mod column;
pub(crate) mod layout;
mod table;

use smol_str::SmolStr;

use crate::base::escape;
use crate::host::array::Array;
use crate::host::format::column::Cells;
use crate::host::format::layout::Layout;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Range, Record, Timing, Value};
use crate::lang::scalar;
use crate::lang::scalar::format::{self, Align, Spec};

/// Returns the output of `print(value)`.
pub fn print(value: &Value) -> Outcome<String> {
    Ok(match value {
        Value::Unit => "()".into(),
        Value::Scalar(number) => format::plain(*number),
        Value::Int(n) => n.to_string(),
        Value::Float(x) => format::plain(scalar::Value::of(*x)),
        Value::Vector(vector) => list("(", vector.values().map(|lane| Ok(format::plain(lane))), ")")?,
        Value::Str(text) => text.to_string(),
        Value::Array(array) => print_array(array, layout::LINE)?,
        Value::Record(record) => print_record(record, quoted)?,
        Value::Tuple(parts) => list("(", parts.iter().map(quoted), ")")?,
        Value::Range(range) => print_range(range),
        Value::Table(table) => table::print(table, layout::LINE, print)?,
        Value::Strings(texts) => print_texts(texts, layout::LINE),
        Value::Timing(timing) => print_timing(timing),
        Value::Kernel(_) => "kernel".into(),
        Value::Traced(traced) => print(traced.primal())?,
    })
}

/// As [`print()`], with arrays and tables wrapped at this many columns.
pub fn print_in(value: &Value, columns: usize) -> Outcome<String> {
    match value {
        Value::Array(array) => print_array(array, columns),
        Value::Strings(texts) => Ok(print_texts(texts, columns)),
        Value::Table(table) => table::print(table, columns, print),
        _ => print(value),
    }
}

fn list(open: &str, parts: impl Iterator<Item = Outcome<String>>, close: &str) -> Outcome<String> {
    Ok(format!("{open}{}{close}", parts.collect::<Outcome<Vec<_>>>()?.join(", ")))
}

/// Formats the fields of a record, each with its name.
fn fields(record: &Record, field: impl Fn(&Value) -> Outcome<String>) -> impl Iterator<Item = Outcome<String>> {
    let names = record.layout.fields.iter().map(|field| escape::name(&field.name));
    names.zip(&record.fields).map(move |(name, value)| Ok(format!("{name}: {}", field(value)?)))
}

fn print_record(record: &Record, field: impl Fn(&Value) -> Outcome<String>) -> Outcome<String> {
    list(&format!("{} {{ ", escape::name(&record.layout.name)), fields(record, field), " }")
}

/// Formats a part of a larger value: strings are quoted.
fn quoted(value: &Value) -> Outcome<String> {
    match value {
        Value::Str(text) => Ok(format!("{text:?}")),
        _ => print(value),
    }
}

/// Formats a value for a message: strings are quoted and truncated.
pub fn brief(value: &Value) -> Outcome<String> {
    const SHOWN: usize = 60;
    match value {
        Value::Str(text) if text.chars().nth(SHOWN).is_some() => {
            let shown: String = text.chars().take(SHOWN).collect();
            Ok(format!("{shown:?} and so on"))
        }
        _ => quoted(value),
    }
}

/// Formats an array in NumPy's style: aligned columns, three elements at each end of a large axis.
fn print_array(array: &Array, columns: usize) -> Outcome<String> {
    let layout = Layout::new(array.shape());
    let shown = array.items_at(layout.shown()).collect::<Outcome<Vec<Value>>>()?;
    let texts = Cells::new(array.element(), &shown).texts();
    Ok(layout.render(texts, columns))
}

/// Formats an array of texts: quoted, separated by commas, wrapped at `columns`, summarized if there are many.
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

fn print_range(range: &Range) -> String {
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

/// Formats `"{value:spec}"`: the specification applies to every number in an array, vector, tuple or record; strings are padded.
pub(crate) fn with_spec(value: &Value, spec: &str) -> Outcome<String> {
    if spec.is_empty() {
        return print(value);
    }
    let parsed = Spec::parse(spec).map_err(|reason| bad_spec(spec, &reason))?;
    let number = |number: scalar::Value| format::with_spec(number, &parsed).map_err(|reason| bad_spec(spec, &reason));
    match value {
        Value::Scalar(n) => number(*n),
        Value::Int(_) => value.clone().settled().as_scalar().map_or_else(|| print(value), number),
        Value::Float(x) => number(scalar::Value::of(*x)),
        Value::Vector(_) | Value::Array(_) => spec_of_elements(value, &number),
        Value::Tuple(parts) => list("(", parts.iter().map(|part| with_spec(part, spec)), ")"),
        Value::Traced(traced) => with_spec(traced.primal(), spec),
        Value::Record(record) => print_record(record, |field| with_spec(field, spec)),
        Value::Strings(texts) => {
            let each = texts.iter().map(|text| with_spec(&Value::Str(text.clone()), spec).map(SmolStr::from));
            Ok(print_texts(&each.collect::<Outcome<Vec<SmolStr>>>()?, layout::LINE))
        }
        Value::Table(table) => {
            let name = table.keys().next().map_or("name", SmolStr::as_str);
            let problem = bad_spec(spec, "is for numbers and texts, and the value is a table");
            Err(problem.help(format!("give it to one column: `{{t[{name:?}]:{spec}}}`")))
        }
        Value::Str(_) | Value::Unit | Value::Range(_) | Value::Timing(_) | Value::Kernel(_) => {
            text(value, spec, &parsed)
        }
    }
}

fn spec_of_elements(value: &Value, number: &impl Fn(scalar::Value) -> Outcome<String>) -> Outcome<String> {
    match value {
        Value::Scalar(n) => number(*n),
        Value::Vector(vector) => list("(", vector.values().map(number), ")"),
        Value::Tuple(parts) => list("(", parts.iter().map(|part| spec_of_elements(part, number)), ")"),
        Value::Record(record) => list("{", fields(record, |field| spec_of_elements(field, number)), "}"),
        Value::Array(array) => {
            let layout = Layout::new(array.shape());
            let shown = array.items_at(layout.shown());
            let texts = shown.map(|item| spec_of_elements(&item?, number)).collect::<Outcome<Vec<String>>>()?;
            Ok(layout.render(column::right_aligned(texts), layout::LINE))
        }
        other => print(other),
    }
}

fn text(value: &Value, spec: &str, parsed: &Spec) -> Outcome<String> {
    let plain = matches!(parsed.style, format::Style::Plain) && !parsed.plus && !parsed.zeros;
    // Only a text can be truncated by a precision.
    if !plain || parsed.precision.is_some() && !matches!(value, Value::Str(_)) {
        let name = value.type_name();
        return Err(bad_spec(spec, &format!("is for numbers, and the value is of type {name}")));
    }
    let mut text = print(value)?;
    if let Some(most) = parsed.precision {
        text = text.chars().take(most).collect();
    }
    Ok(parsed.pad(&text, Align::Left))
}

fn bad_spec(spec: &str, reason: &str) -> Problem {
    Problem::new("E0545", format!("the format `{spec}` {reason}")).note(format::SYNTAX)
}

/// Returns type, shape and size of an array, which a session shows below it.
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
