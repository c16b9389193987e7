//! .csv files.
//!
//! If the first line contains a field that is quoted or not a number, it names columns, and the file is a table of 1-d arrays,
//! each of numbers or of texts. Without names it is a 2-d array of numbers, or a 1-d one if there is only one column. Numbers
//! are `f64`, and an empty field among them is a NaN. Quoted fields are text, even if they spell numbers. A column is text if
//! one of its fields is quoted, is not a number, or is an integer that `f64` cannot represent exactly; its fields are then kept
//! as written. A column without rows is text if its name is quoted. The separator is a comma, or a semicolon or tab if the
//! first line has no comma.

mod records;
mod write;

use indexmap::{IndexMap, IndexSet};
use smol_str::SmolStr;

use crate::base::room;
use crate::base::stop::{self, Ticks};
use crate::host::array::Array;
use crate::host::files::file::{File, table};
use crate::host::ops::text::{room_for, texts};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;

use records::{Field, Records, number};
pub(crate) use write::encode;

pub(crate) fn decode(file: &File) -> Outcome<Value> {
    let text = super::file::text(file.name, file.bytes)?;
    let mut records = Records::new(file.name, text);
    let (before, mut fields) = (records.clone(), Vec::new());
    if records.next(&mut fields)?.is_none() {
        return Array::from_shaped::<f64>(&[], &[0, 0]).map(Value::Array);
    }
    let is_number = |field: &Field| !field.quoted && (field.text.is_empty() || number(&field.text).is_some());
    if fields.iter().all(is_number) {
        return matrix(file, before, fields.len());
    }
    columns(file, names(file, &fields)?, records)
}

/// Reads the next record and checks that it has `width` fields.
fn next<'t>(file: &File, records: &mut Records<'t>, fields: &mut Vec<Field<'t>>, width: usize) -> Outcome<Option<u64>> {
    let line = records.next(fields)?;
    match line {
        Some(line) if fields.len() != width => {
            let have = fields.len();
            let title = format!("line {line} of `{}` has {have} fields, and the first line has {width}", file.name);
            Err(Problem::new("E0714", title))
        }
        line => Ok(line),
    }
}

/// Whether an integer cannot be represented exactly by the number.
fn is_rounded(field: &str, number: f64) -> bool {
    let digits = field.strip_prefix(['+', '-']).unwrap_or(field);
    let long = digits.len() > 15 && digits.bytes().all(|b| b.is_ascii_digit());
    long && field.parse::<i128>().ok() != Some(number as i128)
}

fn matrix(file: &File, mut records: Records<'_>, width: usize) -> Outcome<Value> {
    let (mut fields, mut numbers) = (Vec::new(), Vec::new());
    let ticks = Ticks::default();
    while let Some(line) = next(file, &mut records, &mut fields, width)? {
        ticks.pass(width);
        room::reserve(&mut numbers, width);
        for (column, field) in fields.iter().enumerate() {
            match number(&field.text) {
                _ if field.quoted => return Err(no_number(file, line, column, field)),
                Some(number) if is_rounded(&field.text, number) => {
                    return Err(rounded(file, line, column, &field.text));
                }
                Some(number) => numbers.push(number),
                None if field.text.is_empty() => numbers.push(f64::NAN),
                None => return Err(no_number(file, line, column, field)),
            }
        }
    }
    match width {
        1 => Array::from_items(&numbers).map(Value::Array),
        _ => Array::from_shaped(&numbers, &[numbers.len() / width.max(1), width]).map(Value::Array),
    }
}

fn rounded(file: &File, line: u64, column: usize, field: &str) -> Problem {
    let title = format!("`{}`, line {line}, column {}: no `f64` is exactly {field}", file.name, column + 1);
    Problem::new("E0714", title)
        .note("a file without names is an array of `f64`, which would round it")
        .help("name the columns in a first line: this one is text then, and `parse(i64, t.name)` reads it")
}

fn no_number(file: &File, line: u64, column: usize, field: &Field<'_>) -> Problem {
    let shown: String = field.text.chars().take(40).collect();
    let why = if field.quoted { "stands in quotes, so it is text" } else { "is not a number" };
    let title = format!("`{}`, line {line}, column {}: {shown:?} {why}", file.name, column + 1);
    let problem = Problem::new("E0714", title).note("the first line has numbers only, so all have to");
    match field.text.replace(',', ".").parse::<f64>() {
        Ok(_) if field.text.contains(',') => problem.help("write numbers with a point: 1.5"),
        _ => problem.help("name the columns in a first line, and columns may hold text"),
    }
}

/// The name of a column, and whether it is quoted.
struct Name {
    text: SmolStr,
    quoted: bool,
}

fn names(file: &File, fields: &[Field<'_>]) -> Outcome<Vec<Name>> {
    let mut seen: IndexSet<SmolStr> = IndexSet::with_capacity(fields.len());
    let mut names = Vec::with_capacity(fields.len());
    for (column, field) in fields.iter().enumerate() {
        let text = match field.text.is_empty() && !field.quoted {
            true => SmolStr::new(format!("column_{}", column + 1)),
            false => SmolStr::new(&field.text),
        };
        if !seen.insert(text.clone()) {
            return Err(Problem::new("E0714", format!("`{}` has two columns called `{text}`", file.name)));
        }
        names.push(Name { text, quoted: field.quoted });
    }
    Ok(names)
}

/// Reads the columns in two passes: numbers in the first, which also finds out which columns are not numeric, and those in the
/// second.
fn columns<'t>(file: &File, names: Vec<Name>, records: Records<'t>) -> Outcome<Value> {
    let width = names.len();
    let (mut numbers, mut rows) = (vec![Some(Vec::new()); width], 0);
    let (mut first, mut fields) = (records.clone(), Vec::new());
    let ticks = Ticks::default();
    while next(file, &mut first, &mut fields, width)?.is_some() {
        ticks.pass(width);
        rows += 1;
        for (slot, field) in numbers.iter_mut().zip(&fields) {
            let Some(column) = slot else { continue };
            match number(&field.text) {
                Some(number) if !field.quoted && !is_rounded(&field.text, number) => push(column, number),
                None if !field.quoted && field.text.is_empty() => push(column, f64::NAN),
                _ => *slot = None,
            }
        }
    }
    if rows == 0 {
        let columns = numbers.iter_mut().zip(&names).filter(|(_, name)| name.quoted);
        columns.for_each(|(column, _)| *column = None);
    }
    let mut words = read_texts(file, records, &numbers, rows)?.into_iter();
    let mut arrays = IndexMap::with_capacity(width);
    for (name, column) in names.into_iter().zip(numbers) {
        stop::poll();
        let value = match column {
            Some(numbers) => Array::from_items(&numbers).map(Value::Array)?,
            None => texts(words.next().unwrap_or_default())?,
        };
        arrays.insert(name.text, value);
    }
    Ok(table(arrays))
}

fn push<T>(column: &mut Vec<T>, item: T) {
    room::reserve(column, 1);
    column.push(item);
}

/// Reads the columns that are not numeric.
fn read_texts<'t>(
    file: &File,
    mut records: Records<'t>,
    numbers: &[Option<Vec<f64>>],
    rows: usize,
) -> Outcome<Vec<Vec<SmolStr>>> {
    let which: Vec<usize> = (0..numbers.len()).filter(|&column| numbers[column].is_none()).collect();
    if !which.is_empty() {
        room_for(records.rest());
    }
    let mut columns: Vec<Vec<SmolStr>> = which.iter().map(|_| room::vec(rows)).collect();
    let (ticks, mut fields) = (Ticks::default(), Vec::new());
    while !which.is_empty() && next(file, &mut records, &mut fields, numbers.len())?.is_some() {
        ticks.pass(numbers.len());
        for (column, &at) in columns.iter_mut().zip(&which) {
            column.push(SmolStr::new(&fields[at].text));
        }
    }
    Ok(columns)
}
