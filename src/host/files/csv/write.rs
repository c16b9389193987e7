//! A writer of .csv and .txt files, from one array of numbers or from named columns. Texts are always quoted, and names
//! if necessary, so that reading the file returns the same columns. If there are no rows, the names of columns of texts
//! are quoted.

use std::io::Write;

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::array::Array;
use crate::files::csv::records::number;
use crate::files::items::{SavedItems, scalars_only};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::alloc::{self, ByteSink};
use clk_base::escape;
use clk_base::stop::Ticks;
use clk_scalar::Scalar;

/// Encodes an array with one or two axes, or named columns.
pub(crate) fn encode(items: &SavedItems) -> HostResult<Vec<u8>> {
    let mut out = ByteSink::default();
    let (columns, rows) = match (items.has_names, items.named.first()) {
        (false, Some((_, HostValue::Array(array)))) if items.named.len() == 1 => matrix_columns(array)?,
        (false, Some((_, HostValue::Strings(_)))) => {
            let problem = RuntimeError::new("E0715", "a column of text in a .csv file has a name");
            return Err(problem.help("give it one: `save(\"names.csv\", name = names)`"));
        }
        _ => {
            let (columns, rows) = named_columns(&items.named)?;
            write_header(&items.named, rows, &mut out)?;
            (columns, rows)
        }
    };
    write_rows(&columns, rows, ",", &mut out)?;
    Ok(out.0)
}

/// Encodes an array with one or two axes as a .txt file: like NumPy's `savetxt`, but each number has as few digits as
/// possible.
pub(crate) fn encode_text(array: &Array) -> HostResult<Vec<u8>> {
    let mut out = ByteSink::default();
    let (columns, rows) = matrix_columns(array)?;
    write_rows(&columns, rows, " ", &mut out)?;
    Ok(out.0)
}

fn write_rows(columns: &[CsvColumn<'_>], rows: usize, separator: &str, out: &mut ByteSink) -> HostResult<()> {
    let ticks = Ticks::default();
    for row in 0..rows {
        ticks.advance(columns.len().max(1));
        for (i, column) in columns.iter().enumerate() {
            let separator = if i == 0 { "" } else { separator };
            write_text(out, format_args!("{separator}"))?;
            column.write(row, out)?;
        }
        write_text(out, format_args!("\n"))?;
    }
    Ok(())
}

pub(crate) fn write_text(out: &mut ByteSink, text: std::fmt::Arguments<'_>) -> HostResult<()> {
    out.write_fmt(text).map_err(|error| RuntimeError::new("E0715", format!("the file cannot be written: {error}")))
}

/// The data of a column.
enum CsvColumn<'a> {
    /// Every `stride`-th scalar of an array, starting at `first`.
    Numbers {
        bytes: &'a [u8],
        scalar: Scalar,
        first: usize,
        stride: usize,
    },
    Texts(&'a [SmolStr]),
}

impl CsvColumn<'_> {
    fn write(&self, row: usize, out: &mut ByteSink) -> HostResult<()> {
        match self {
            CsvColumn::Numbers { bytes, scalar, first, stride } => {
                let size = scalar.size();
                let start = (first + row * stride) * size;
                let number =
                    clk_scalar::ScalarValue::from_bytes(*scalar, bytes.get(start..start + size).unwrap_or(&[]));
                match scalar {
                    Scalar::Bool => write_text(out, format_args!("{}", u8::from(number.is_true()))),
                    _ => write_text(out, format_args!("{}", clk_scalar::format::plain(number))),
                }
            }
            CsvColumn::Texts(texts) => write_quoted(texts.get(row).map_or("", SmolStr::as_str), out),
        }
    }
}

fn write_quoted(text: &str, out: &mut ByteSink) -> HostResult<()> {
    match text.contains('"') {
        true => write_text(out, format_args!("\"{}\"", text.replace('"', "\"\""))),
        false => write_text(out, format_args!("\"{text}\"")),
    }
}

/// Writes the names of the columns. A name is quoted if the reader would otherwise not read it as the same name. If
/// there are no rows, the names of columns of texts are quoted.
fn write_header(named: &IndexMap<SmolStr, HostValue>, rows: usize, out: &mut ByteSink) -> HostResult<()> {
    let numbers = named.keys().all(|name| number(name).is_some());
    for (i, (name, column)) in named.iter().enumerate() {
        write_text(out, format_args!("{}", if i == 0 { "" } else { "," }))?;
        let is_text = matches!(column, HostValue::Strings(_));
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '%');
        let plain = !name.is_empty() && name.chars().all(is_plain) && !numbers;
        match rows {
            0 if !plain && !is_text => return Err(needs_quotes(name)),
            0 if is_text => write_quoted(name, out)?,
            _ if plain => write_text(out, format_args!("{name}"))?,
            _ => write_quoted(name, out)?,
        }
    }
    write_text(out, format_args!("\n"))
}

fn needs_quotes(name: &str) -> RuntimeError {
    let title = format!("a .csv file can't have a column of no numbers called `{}`", escape::name(name));
    RuntimeError::new("E0715", title)
        .note("this name would need quotes, and quotes mark an empty column as text")
        .help("give the column a name of letters and digits, or save it as .npz")
}

fn matrix_columns(array: &Array) -> HostResult<(Vec<CsvColumn<'_>>, usize)> {
    let (scalar, shape) = scalars_only(array)?;
    let (rows, width) = match shape.as_slice() {
        [] => (1, 1),
        [rows] => (*rows, 1),
        [rows, width] => (*rows, *width),
        _ => {
            let title = format!("a table of numbers has two axes, and the array has {}", shape.len());
            return Err(RuntimeError::new("E0715", title).help("save it as .npy, or reshape it"));
        }
    };
    // An empty array may have many empty rows or columns, so it is written as an empty file.
    let (width, rows) = if array.is_empty() { (0, 0) } else { (width, rows) };
    let bytes = array.bytes()?;
    let columns = (0..width).map(|first| CsvColumn::Numbers { bytes, scalar, first, stride: width });
    Ok((alloc::collect(width, columns), rows))
}

fn named_columns(named: &IndexMap<SmolStr, HostValue>) -> HostResult<(Vec<CsvColumn<'_>>, usize)> {
    let mut columns = Vec::with_capacity(named.len());
    let mut rows: Option<usize> = None;
    for (name, value) in named {
        let (column, count) = match value {
            HostValue::Strings(texts) => (CsvColumn::Texts(texts), texts.len()),
            HostValue::Array(array) => {
                let (scalar, shape) = scalars_only(array)?;
                if shape.len() != 1 {
                    let title = format!("a column of a .csv file has one axis, and `{name}` has {}", shape.len());
                    return Err(RuntimeError::new("E0715", title));
                }
                (CsvColumn::Numbers { bytes: array.bytes()?, scalar, first: 0, stride: 1 }, array.count())
            }
            other => {
                let title =
                    format!("a column of a .csv file is an array, and `{name}` is of type {}", other.type_name());
                return Err(RuntimeError::new("E0715", title));
            }
        };
        let rows = *rows.get_or_insert(count);
        if count != rows {
            let title =
                format!("the columns of a .csv file have to be equally long, and `{name}` has {count} elements");
            return Err(RuntimeError::new("E0715", title).note(format!("the first column has {rows}")));
        }
        columns.push(column);
    }
    Ok((columns, rows.unwrap_or(0)))
}
