//! .csv: numbers in columns.
//!
//! A first line that has anything but numbers names the columns: then the file is a table of 1-d arrays. Without one it is
//! a 2-d array, or a 1-d one if there is one column only. Numbers are `f64`, an empty field is a NaN. Fields are separated
//! by commas, or by semicolons or tabs if the first line has no comma; lines that begin with `#` are left out.

use ::csv::{ReaderBuilder, StringRecord, Trim, WriterBuilder};
use indexmap::{IndexMap, IndexSet};
use smol_str::SmolStr;

use crate::base::room::{self, Sink};
use crate::base::stop::{self, Ticks};
use crate::host::array::{Array, Element};
use crate::host::files::{File, Items, scalars_only, table};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::scalar::{self, Scalar};

/// The columns' names, and the numbers row by row.
struct Sheet {
    names: Option<Vec<SmolStr>>,
    width: usize,
    numbers: Vec<f64>,
}

pub fn decode(file: &File) -> Outcome<Value> {
    let text = super::text(file.name, file.bytes)?;
    let sheet = read(file, text)?;
    let rows = sheet.numbers.len() / sheet.width.max(1);
    match (sheet.names, sheet.width) {
        (Some(names), width) => columns(file, names, &sheet.numbers, width, rows),
        (None, 1) => Array::from_items(&sheet.numbers).map(Value::Array),
        (None, width) => Array::from_shaped(&sheet.numbers, &[rows, width]).map(Value::Array),
    }
}

fn separator(text: &str) -> u8 {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or("");
    let found = [',', ';', '\t'].into_iter().find(|&c| first.contains(c));
    found.map_or(b',', |c| c as u8)
}

fn read(file: &File, text: &str) -> Outcome<Sheet> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .comment(Some(b'#'))
        .delimiter(separator(text))
        .trim(Trim::All)
        .from_reader(text.as_bytes());
    let mut sheet = Sheet { names: None, width: 0, numbers: Vec::new() };
    let mut record = StringRecord::new();
    let mut is_first = true;
    let ticks = Ticks::default();
    while reader.read_record(&mut record).map_err(|error| Problem::new("E0714", format!("`{}`: {error}", file.name)))? {
        ticks.pass(record.len());
        room::reserve(&mut sheet.numbers, record.len());
        let line = record.position().map_or(0, |position| position.line());
        if is_first {
            is_first = false;
            sheet.width = record.len();
            if record.iter().any(|field| !field.is_empty() && number(field).is_none()) {
                sheet.names = Some(names(file, &record)?);
                continue;
            }
        }
        if record.len() != sheet.width {
            let (have, want) = (record.len(), sheet.width);
            let title = format!("line {line} of `{}` has {have} fields, and the first line has {want}", file.name);
            return Err(Problem::new("E0714", title));
        }
        for (column, field) in record.iter().enumerate() {
            match number(field) {
                Some(number) => sheet.numbers.push(number),
                None if field.is_empty() => sheet.numbers.push(f64::NAN),
                None => return Err(no_number(file, line, column, field, &sheet)),
            }
        }
    }
    Ok(sheet)
}

/// As in source, without `_` and without hexadecimals.
fn number(field: &str) -> Option<f64> {
    let plain = field.chars().all(|c| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | 'e' | 'E'));
    match field.to_ascii_lowercase().as_str() {
        "nan" | "inf" | "+inf" | "-inf" | "infinity" | "-infinity" => field.parse().ok(),
        _ if plain => field.parse().ok(),
        _ => None,
    }
}

fn no_number(file: &File, line: u64, column: usize, field: &str, sheet: &Sheet) -> Problem {
    let name =
        sheet.names.as_ref().and_then(|names| names.get(column)).map_or(String::new(), |name| format!(" ({name})"));
    let shown: String = field.chars().take(40).collect();
    let title = format!("`{}`, line {line}, column {}{name}: {shown:?} is not a number", file.name, column + 1);
    let problem = Problem::new("E0714", title);
    match field.replace(',', ".").parse::<f64>() {
        Ok(_) if field.contains(',') => problem.help("write numbers with a point: 1.5"),
        _ => problem,
    }
}

fn names(file: &File, record: &StringRecord) -> Outcome<Vec<SmolStr>> {
    let mut names: IndexSet<SmolStr> = IndexSet::with_capacity(record.len());
    for (column, field) in record.iter().enumerate() {
        let name = if field.is_empty() { SmolStr::new(format!("column_{}", column + 1)) } else { SmolStr::new(field) };
        if !names.insert(name.clone()) {
            return Err(Problem::new("E0714", format!("`{}` has two columns called `{name}`", file.name)));
        }
    }
    Ok(names.into_iter().collect())
}

fn columns(file: &File, names: Vec<SmolStr>, numbers: &[f64], width: usize, rows: usize) -> Outcome<Value> {
    let mut arrays = IndexMap::new();
    for (column, name) in names.into_iter().enumerate() {
        stop::poll();
        let items = numbers.iter().skip(column).step_by(width.max(1)).copied();
        let array = Array::build(Element::Scalar(Scalar::F64), &[rows], |places: &mut [f64]| {
            stop::polled(places.iter_mut().zip(items)).for_each(|(place, item)| *place = item);
        })?;
        if arrays.insert(name.clone(), array).is_some() {
            return Err(Problem::new("E0714", format!("`{}` has two columns called `{name}`", file.name)));
        }
    }
    Ok(table(arrays))
}

/// One array of one or two axes, or columns by name.
pub fn encode(items: &Items) -> Outcome<Vec<u8>> {
    let mut lines = WriterBuilder::new().from_writer(Sink::default());
    let failed = |error: ::csv::Error| Problem::new("E0715", format!("the file cannot be written: {error}"));
    let (columns, rows) = match (items.has_names, items.named.first()) {
        (false, Some((_, array))) if items.named.len() == 1 => whole(array)?,
        _ => {
            lines.write_record(items.named.keys().map(SmolStr::as_str)).map_err(failed)?;
            by_name(&items.named)?
        }
    };
    let ticks = Ticks::default();
    for row in 0..rows {
        ticks.pass(columns.len().max(1));
        lines.write_record(columns.iter().map(|column| column.text(row))).map_err(failed)?;
    }
    let written = lines.into_inner().map(|lines| lines.0);
    written.map_err(|error| Problem::new("E0715", format!("the file cannot be written: {error}")))
}

/// Every `stride`-th scalar of an array, from `first` on.
struct Column<'a> {
    array: &'a Array,
    scalar: Scalar,
    first: usize,
    stride: usize,
}

impl Column<'_> {
    fn text(&self, row: usize) -> String {
        let size = self.scalar.size();
        let start = (self.first + row * self.stride) * size;
        let bytes = self.array.bytes().get(start..start + size).unwrap_or(&[]);
        let number = scalar::Value::from_bytes(self.scalar, bytes);
        match self.scalar {
            Scalar::Bool => u8::from(number.is_true()).to_string(),
            _ => scalar::format::plain(number),
        }
    }
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
    // Nothing is not written column by column: there may be very many of them, or rows.
    let (width, rows) = if array.is_empty() { (0, 0) } else { (width, rows) };
    let columns = (0..width).map(|first| Column { array, scalar, first, stride: width });
    Ok((room::collect(width, columns), rows))
}

fn by_name(arrays: &IndexMap<SmolStr, Array>) -> Outcome<(Vec<Column<'_>>, usize)> {
    let mut columns = Vec::with_capacity(arrays.len());
    let rows = arrays.first().map_or(0, |(_, first)| first.count());
    for (name, array) in arrays {
        let (scalar, shape) = scalars_only(array)?;
        if shape.len() != 1 {
            let title = format!("a column of a .csv file has one axis, and `{name}` has {}", shape.len());
            return Err(Problem::new("E0715", title));
        }
        if array.count() != rows {
            let title = format!(
                "the columns of a .csv file have to be equally long, and `{name}` has {} elements",
                array.count()
            );
            return Err(Problem::new("E0715", title).note(format!("the first column has {rows}")));
        }
        columns.push(Column { array, scalar, first: 0, stride: 1 });
    }
    Ok((columns, rows))
}
