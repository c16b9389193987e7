//! A writer of .csv files, from one array of numbers or from named columns. The file reads back as the same columns: texts are
//! always quoted, and names where necessary. If there are no rows, quoted names mark columns of texts.

use std::io::Write;

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::base::escape;
use crate::base::room::{self, Sink};
use crate::base::stop::Ticks;
use crate::host::array::Array;
use crate::host::files::csv::records::number;
use crate::host::files::items::{Items, scalars_only};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::scalar::{self, Scalar};

/// Encodes one array of one or two axes, or named columns.
pub(crate) fn encode(items: &Items) -> Outcome<Vec<u8>> {
    let mut out = Sink::default();
    let (columns, rows) = match (items.has_names, items.named.first()) {
        (false, Some((_, Value::Array(array)))) if items.named.len() == 1 => whole(array)?,
        (false, Some((_, Value::Strings(_)))) => {
            let problem = Problem::new("E0715", "a column of text in a .csv file has a name");
            return Err(problem.help("give it one: `save(\"names.csv\", name = names)`"));
        }
        _ => {
            let (columns, rows) = by_name(&items.named)?;
            header(&items.named, rows, &mut out)?;
            (columns, rows)
        }
    };
    let ticks = Ticks::default();
    for row in 0..rows {
        ticks.pass(columns.len().max(1));
        for (i, column) in columns.iter().enumerate() {
            let separator = if i == 0 { "" } else { "," };
            put(&mut out, format_args!("{separator}"))?;
            column.write(row, &mut out)?;
        }
        put(&mut out, format_args!("\n"))?;
    }
    Ok(out.0)
}

fn put(out: &mut Sink, text: std::fmt::Arguments<'_>) -> Outcome<()> {
    out.write_fmt(text).map_err(|error| Problem::new("E0715", format!("the file cannot be written: {error}")))
}

/// The data of a column.
enum Column<'a> {
    /// Every `stride`-th scalar of an array, starting at `first`.
    Numbers {
        bytes: &'a [u8],
        scalar: Scalar,
        first: usize,
        stride: usize,
    },
    Texts(&'a [SmolStr]),
}

impl Column<'_> {
    fn write(&self, row: usize, out: &mut Sink) -> Outcome<()> {
        match self {
            Column::Numbers { bytes, scalar, first, stride } => {
                let size = scalar.size();
                let start = (first + row * stride) * size;
                let number = scalar::Value::from_bytes(*scalar, bytes.get(start..start + size).unwrap_or(&[]));
                match scalar {
                    Scalar::Bool => put(out, format_args!("{}", u8::from(number.is_true()))),
                    _ => put(out, format_args!("{}", scalar::format::plain(number))),
                }
            }
            Column::Texts(texts) => in_quotes(texts.get(row).map_or("", SmolStr::as_str), out),
        }
    }
}

fn in_quotes(text: &str, out: &mut Sink) -> Outcome<()> {
    match text.contains('"') {
        true => put(out, format_args!("\"{}\"", text.replace('"', "\"\""))),
        false => put(out, format_args!("\"{text}\"")),
    }
}

/// Writes the names of the columns, quoted if they would otherwise be read as something else. If there are no rows, quotes mark
/// columns of texts.
fn header(named: &IndexMap<SmolStr, Value>, rows: usize, out: &mut Sink) -> Outcome<()> {
    let numbers = named.keys().all(|name| number(name).is_some());
    for (i, (name, column)) in named.iter().enumerate() {
        put(out, format_args!("{}", if i == 0 { "" } else { "," }))?;
        let is_text = matches!(column, Value::Strings(_));
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '%');
        let plain = !name.is_empty() && name.chars().all(is_plain) && !numbers;
        match rows {
            0 if !plain && !is_text => return Err(needs_quotes(name)),
            0 if is_text => in_quotes(name, out)?,
            _ if plain => put(out, format_args!("{name}"))?,
            _ => in_quotes(name, out)?,
        }
    }
    put(out, format_args!("\n"))
}

fn needs_quotes(name: &str) -> Problem {
    let title = format!("a .csv file can't have a column of no numbers called `{}`", escape::name(name));
    Problem::new("E0715", title)
        .note("this name would stand in quotes, which say of a column without elements that it is of texts")
        .help("give the column a name of letters and digits, or save it as .npz")
}

fn whole(array: &Array) -> Outcome<(Vec<Column<'_>>, usize)> {
    let (scalar, shape) = scalars_only(array)?;
    let (rows, width) = match shape.as_slice() {
        [] => (1, 1),
        [rows] => (*rows, 1),
        [rows, width] => (*rows, *width),
        _ => {
            let title = format!("a .csv file has two axes, and the array has {}", shape.len());
            return Err(Problem::new("E0715", title).help("save it as .npy, or reshape it"));
        }
    };
    // An empty array may have a huge number of columns or rows, so it is written as none.
    let (width, rows) = if array.is_empty() { (0, 0) } else { (width, rows) };
    let bytes = array.bytes()?;
    let columns = (0..width).map(|first| Column::Numbers { bytes, scalar, first, stride: width });
    Ok((room::collect(width, columns), rows))
}

fn by_name(named: &IndexMap<SmolStr, Value>) -> Outcome<(Vec<Column<'_>>, usize)> {
    let mut columns = Vec::with_capacity(named.len());
    let mut rows: Option<usize> = None;
    for (name, value) in named {
        let (column, count) = match value {
            Value::Strings(texts) => (Column::Texts(texts), texts.len()),
            Value::Array(array) => {
                let (scalar, shape) = scalars_only(array)?;
                if shape.len() != 1 {
                    let title = format!("a column of a .csv file has one axis, and `{name}` has {}", shape.len());
                    return Err(Problem::new("E0715", title));
                }
                (Column::Numbers { bytes: array.bytes()?, scalar, first: 0, stride: 1 }, array.count())
            }
            other => {
                let title =
                    format!("a column of a .csv file is an array, and `{name}` is of type {}", other.type_name());
                return Err(Problem::new("E0715", title));
            }
        };
        let rows = *rows.get_or_insert(count);
        if count != rows {
            let title =
                format!("the columns of a .csv file have to be equally long, and `{name}` has {count} elements");
            return Err(Problem::new("E0715", title).note(format!("the first column has {rows}")));
        }
        columns.push(column);
    }
    Ok((columns, rows.unwrap_or(0)))
}
