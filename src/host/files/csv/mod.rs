//! .csv files, and .txt files of numbers.
//!
//! A .txt file is an array of numbers like a .csv file without names. Blanks separate its numbers.
//!
//! Rules of .csv files:
//!
//! - Names: if a field of the first line is quoted or is not a number, the first line has the names of the columns.
//! - Result: with names, a table of 1-d arrays, each of numbers or of texts. Without names, a 2-d array of numbers, or
//!   a 1-d array if there is only one column.
//! - Numbers are `f64`. An empty field in a column of numbers is a NaN.
//! - A column has texts if one of its fields is quoted, is not a number, or is an integer that `f64` cannot represent
//!   exactly. All its fields are then kept as written. A column without rows has texts if its name is quoted.
//! - The separator is a comma. If the first line has no comma, it is a semicolon or a tab. Blanks can separate numbers
//!   in files without names, as NumPy's `savetxt` writes them.
//!
//! Files that can be read in two ways are rejected, with help for both: see [`ambiguous_comment`] and
//! [`ambiguous_names`].

mod records;
mod write;

use indexmap::{IndexMap, IndexSet};
use smol_str::SmolStr;

use crate::array::Array;
use crate::files::file::{NamedFile, shorten, table};
use crate::ops::text::{check_memory_for, texts};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::alloc;
use clk_base::stop::{self, Ticks};

pub(crate) use records::number;
use records::{CsvField, CsvRecords, words_of_numbers};
pub(crate) use write::{encode, encode_text, write_text};

pub(crate) fn decode(file: &NamedFile) -> HostResult<HostValue> {
    let text = super::file::text(file.name, file.bytes)?;
    let mut records = CsvRecords::new(file.name, text);
    let (before, mut fields) = (records.clone(), Vec::new());
    let first = records.next(&mut fields)?;
    let is_number = |field: &CsvField| !field.quoted && (field.text.is_empty() || number(&field.text).is_some());
    let are_numbers = fields.iter().all(is_number);
    for comment in before.comments() {
        let may_be_data = comment.fields == fields.len() || first.is_none();
        let reads_as_data = if comment.is_spaced { comment.fields > 1 && !are_numbers } else { !before.has_blanks() };
        if may_be_data && reads_as_data {
            return Err(ambiguous_comment(file, comment.line));
        }
    }
    if first.is_none() {
        return Array::from_shaped::<f64>(&[], &[0, 0]).map(HostValue::Array);
    }
    if are_numbers {
        return matrix(file, before, fields.len());
    }
    if let Some(problem) = ambiguous_names(file, first.unwrap_or(1), &fields, &records) {
        return Err(problem);
    }
    columns(file, column_names(file, &fields)?, records)
}

/// Decodes a .txt file, as NumPy's `loadtxt` does: blanks separate numbers, and `#` begins a comment at any place.
pub(crate) fn decode_text(file: &NamedFile) -> HostResult<HostValue> {
    let text = super::file::text(file.name, file.bytes)?;
    let mut records = CsvRecords::separated_by_blanks(file.name, text);
    while records.comment().is_some() {}
    let (before, mut fields) = (records.clone(), Vec::new());
    match records.next(&mut fields)? {
        None => Array::from_shaped::<f64>(&[], &[0, 0]).map(HostValue::Array),
        Some(_) => matrix(file, before, fields.len()),
    }
}

/// Returns the error for a line that begins with `#` and has as many fields as the first record, such as `#ff0000,2`.
/// It could be a comment, data or names. Two kinds of such lines are not ambiguous, but comments:
///
/// - lines with white space after the `#`, if the first record has numbers (before names, `# of items,fruit` may have
///   the names of columns);
/// - all lines with `#` in files whose separator is blanks, because such files have only numbers.
fn ambiguous_comment(file: &NamedFile, line: u64) -> RuntimeError {
    let title = format!("line {line} of `{}` begins with `#`, and may be a comment or data", file.name);
    RuntimeError::new("E0714", title)
        .note("it has as many fields as the first line of data or names")
        .help("put quotes around a field that begins with `#`: `\"#ff0000\",2`; begin a comment with `# `, and leave separators out")
}

/// Returns an error if a line of names may have been split into the wrong columns, for example because the fields of
/// later records contain several numbers.
fn ambiguous_names(
    file: &NamedFile,
    line: u64,
    names: &[CsvField<'_>],
    records: &CsvRecords<'_>,
) -> Option<RuntimeError> {
    let wrong = |line: u64, what: &str| RuntimeError::new("E0714", format!("line {line} of `{}` {what}", file.name));
    let words = |field: &CsvField| if field.quoted { 0 } else { field.text.split_ascii_whitespace().count() };
    let has_numbers = |field: &CsvField| !field.quoted && words_of_numbers(&field.text) > 1;
    if names.iter().any(has_numbers) {
        let problem = wrong(line, "has several numbers between blanks in a field");
        return Some(problem.help("separate all columns in the same way, by commas or by blanks"));
    }
    // `1,5;2,5` is a line of numbers with decimal commas, not of names.
    let whole: Vec<&str> = names.iter().map(|field| field.text.as_ref()).collect();
    let whole = whole.join(",");
    let with_points = |part: &str| number(&part.trim().replace(',', ".")).is_some();
    let unquoted = names.iter().all(|field| !field.quoted);
    if unquoted && names.len() > 1 && whole.contains(';') && whole.split(';').all(with_points) {
        return Some(
            wrong(line, "has numbers with decimal commas").help("write numbers with a point, and a comma between them"),
        );
    }
    let [name] = names else { return None };
    let (mut after, mut fields) = (records.clone(), Vec::new());
    let number = after.next(&mut fields).ok()??;
    let [first] = fields.as_slice() else { return None };
    if has_numbers(first) {
        let problem = wrong(number, "has several numbers between blanks, and the first line names one column");
        return Some(problem.help(
            "separate columns by commas, or begin the line of names with `# `: numbers between blanks have no names",
        ));
    }
    if words(name) > 1 && words(name) == words(first) {
        let problem = wrong(line, "may be one column whose name has blanks, or several columns between blanks");
        return Some(problem.help("separate columns by commas, or put quotes around the name of the column"));
    }
    None
}

/// Reads the next record and checks that it has `width` fields.
fn next<'t>(
    file: &NamedFile,
    records: &mut CsvRecords<'t>,
    fields: &mut Vec<CsvField<'t>>,
    width: usize,
) -> HostResult<Option<u64>> {
    let line = records.next(fields)?;
    match line {
        Some(line) if fields.len() != width => {
            let field_count = fields.len();
            let title =
                format!("line {line} of `{}` has {field_count} fields, and the first line has {width}", file.name);
            let problem = RuntimeError::new("E0714", title);
            let is_comment = fields.first().is_some_and(|field| !field.quoted && field.text.starts_with('#'));
            Err(if is_comment { problem.help("comments must come before the line of names") } else { problem })
        }
        line => Ok(line),
    }
}

/// Returns whether a field is an integer that the `f64` `number` does not represent exactly.
pub(crate) fn is_inexact_integer(field: &str, number: f64) -> bool {
    let digits = field.strip_prefix(['+', '-']).unwrap_or(field);
    let long = digits.len() > 15 && digits.bytes().all(|b| b.is_ascii_digit());
    long && field.parse::<i128>().ok() != Some(number as i128)
}

fn matrix(file: &NamedFile, mut records: CsvRecords<'_>, width: usize) -> HostResult<HostValue> {
    let (mut fields, mut numbers) = (Vec::new(), Vec::new());
    let ticks = Ticks::default();
    loop {
        while let Some(comment) = records.comment() {
            if comment.fields == width && !comment.is_spaced && !records.has_blanks() {
                return Err(ambiguous_comment(file, comment.line));
            }
        }
        let Some(line) = next(file, &mut records, &mut fields, width)? else { break };
        ticks.advance(width);
        alloc::reserve(&mut numbers, width);
        for (column, field) in fields.iter().enumerate() {
            let place = || format!("`{}`, line {line}, column {}", file.name, column + 1);
            match number(&field.text) {
                _ if field.quoted => return Err(not_a_number_error(&place(), field, false)),
                Some(number) if is_inexact_integer(&field.text, number) => {
                    return Err(inexact_integer_error(&place(), field, records.is_text_file()));
                }
                Some(number) => numbers.push(number),
                None if field.text.is_empty() => numbers.push(f64::NAN),
                None => return Err(not_a_number_error(&place(), field, records.is_text_file())),
            }
        }
    }
    match width {
        1 => Array::from_items(&numbers).map(HostValue::Array),
        _ => Array::from_shaped(&numbers, &[numbers.len() / width.max(1), width]).map(HostValue::Array),
    }
}

fn inexact_integer_error(place: &str, field: &CsvField<'_>, is_text_file: bool) -> RuntimeError {
    let title = format!("{place}: no `f64` is exactly {}", field.text);
    let problem = RuntimeError::new("E0714", title);
    match is_text_file {
        true => problem
            .note("a .txt file is an array of `f64`, which would round it")
            .help("save the array as .npy, which keeps its type"),
        false => problem
            .note("a file without names is an array of `f64`, which would round it")
            .help("name the columns in a first line: this one is text then, and `parse(i64, t.name)` reads it"),
    }
}

fn not_a_number_error(place: &str, field: &CsvField<'_>, is_text_file: bool) -> RuntimeError {
    let shown = shorten(&field.text);
    let why = if field.quoted { "is in quotes, so it is text" } else { "is not a number" };
    let title = format!("{place}: {shown:?} {why}");
    let problem = RuntimeError::new("E0714", title);
    if is_text_file {
        let problem = problem.note("a .txt file has numbers only, between spaces or tabs");
        return match field.text.contains([',', ';']) {
            true => problem.help("if commas or semicolons separate its columns, it is a .csv file: rename it"),
            false => problem.help("begin a line of names or comments with `#`"),
        };
    }
    let problem = problem.note("the first line has numbers only, so all have to");
    match field.text.replace(',', ".").parse::<f64>() {
        Ok(_) if field.text.contains(',') => problem.help("write numbers with a point: 1.5"),
        _ => problem.help("name the columns in a first line, and columns may hold text"),
    }
}

/// The name of a column, and whether it is quoted in the file.
struct ColumnName {
    text: SmolStr,
    quoted: bool,
}

fn column_names(file: &NamedFile, fields: &[CsvField<'_>]) -> HostResult<Vec<ColumnName>> {
    let mut unique_names: IndexSet<SmolStr> = IndexSet::with_capacity(fields.len());
    let mut names = Vec::with_capacity(fields.len());
    for (column, field) in fields.iter().enumerate() {
        let text = match field.text.is_empty() && !field.quoted {
            true => SmolStr::new(format!("column_{}", column + 1)),
            false => SmolStr::new(&field.text),
        };
        if !unique_names.insert(text.clone()) {
            return Err(RuntimeError::new("E0714", format!("`{}` has two columns called `{text}`", file.name)));
        }
        names.push(ColumnName { text, quoted: field.quoted });
    }
    Ok(names)
}

/// Reads the columns in two passes: the first one reads numbers and determines which columns are not numeric; the
/// second one reads those as text.
fn columns<'t>(file: &NamedFile, names: Vec<ColumnName>, records: CsvRecords<'t>) -> HostResult<HostValue> {
    let width = names.len();
    let (mut numbers, mut rows) = (vec![Some(Vec::new()); width], 0);
    let (mut first, mut fields) = (records.clone(), Vec::new());
    let ticks = Ticks::default();
    while next(file, &mut first, &mut fields, width)?.is_some() {
        ticks.advance(width);
        rows += 1;
        for (slot, field) in numbers.iter_mut().zip(&fields) {
            let Some(column) = slot else { continue };
            match number(&field.text) {
                Some(number) if !field.quoted && !is_inexact_integer(&field.text, number) => push(column, number),
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
            Some(numbers) => Array::from_items(&numbers).map(HostValue::Array)?,
            None => texts(words.next().unwrap_or_default())?,
        };
        arrays.insert(name.text, value);
    }
    Ok(table(arrays))
}

fn push<T>(column: &mut Vec<T>, item: T) {
    alloc::reserve(column, 1);
    column.push(item);
}

/// Reads the columns that are not numeric.
fn read_texts<'t>(
    file: &NamedFile,
    mut records: CsvRecords<'t>,
    numbers: &[Option<Vec<f64>>],
    rows: usize,
) -> HostResult<Vec<Vec<SmolStr>>> {
    let text_columns: Vec<usize> = (0..numbers.len()).filter(|&column| numbers[column].is_none()).collect();
    if !text_columns.is_empty() {
        check_memory_for(records.rest());
    }
    let mut columns: Vec<Vec<SmolStr>> = text_columns.iter().map(|_| alloc::vec(rows)).collect();
    let (ticks, mut fields) = (Ticks::default(), Vec::new());
    while !text_columns.is_empty() && next(file, &mut records, &mut fields, numbers.len())?.is_some() {
        ticks.advance(numbers.len());
        for (column, &at) in columns.iter_mut().zip(&text_columns) {
            column.push(SmolStr::new(&fields[at].text));
        }
    }
    Ok(columns)
}
