//! .csv files.
//!
//! If the first line contains a field that is quoted or not a number, it names columns, and the file is a table of 1-d arrays,
//! each of numbers or of texts. Without names it is a 2-d array of numbers, or a 1-d one if there is only one column. Numbers
//! are `f64`, and an empty field among them is a NaN. Quoted fields are text, even if they spell numbers. A column is text if
//! one of its fields is quoted, is not a number, or is an integer that `f64` cannot represent exactly; its fields are then kept
//! as written. A column without rows is text if its name is quoted. The separator is a comma, or a semicolon or tab if the
//! first line has no comma. Blanks can separate numbers without names, as NumPy's `savetxt` writes them.
//!
//! Files that can be read in two ways are refused, with what to write for either: see [`ambiguous_comment`] and [`ambiguous_names`].

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

use records::{Field, Records, number, words_of_numbers};
pub(crate) use write::encode;

pub(crate) fn decode(file: &File) -> Outcome<Value> {
    let text = super::file::text(file.name, file.bytes)?;
    let mut records = Records::new(file.name, text);
    let (before, mut fields) = (records.clone(), Vec::new());
    let first = records.next(&mut fields)?;
    let is_number = |field: &Field| !field.quoted && (field.text.is_empty() || number(&field.text).is_some());
    let are_numbers = fields.iter().all(is_number);
    for comment in before.comments() {
        let may_be_data = comment.fields == fields.len() || first.is_none();
        let reads_as_data = if comment.is_spaced { comment.fields > 1 && !are_numbers } else { !before.has_blanks() };
        if may_be_data && reads_as_data {
            return Err(ambiguous_comment(file, comment.line));
        }
    }
    if first.is_none() {
        return Array::from_shaped::<f64>(&[], &[0, 0]).map(Value::Array);
    }
    if are_numbers {
        return matrix(file, before, fields.len());
    }
    if let Some(problem) = ambiguous_names(file, first.unwrap_or(1), &fields, &records) {
        return Err(problem);
    }
    columns(file, names(file, &fields)?, records)
}

/// Returns the error for a line that begins with `#` where comments may stand, and has as many fields as the first record: a comment,
/// data or names, such as `#ff0000,2`. White space after the `#` makes it a comment if the first record has numbers. Before names it does not:
/// `# of items,fruit` may name columns. Files whose columns blanks separate have only numbers, so the line is a comment.
fn ambiguous_comment(file: &File, line: u64) -> Problem {
    let title = format!("line {line} of `{}` begins with `#`, and may be a comment or data", file.name);
    Problem::new("E0714", title)
        .note("it has as many fields as the first line of data or names")
        .help("put quotes around a field that begins with `#`: `\"#ff0000\",2`; begin a comment with `# `, and leave separators out")
}

/// Returns the error for a first line without numbers that may be of several columns after all, with the records after it.
fn ambiguous_names(file: &File, line: u64, names: &[Field<'_>], records: &Records<'_>) -> Option<Problem> {
    let wrong = |line: u64, what: &str| Problem::new("E0714", format!("line {line} of `{}` {what}", file.name));
    let words = |field: &Field| if field.quoted { 0 } else { field.text.split_ascii_whitespace().count() };
    let has_numbers = |field: &Field| !field.quoted && words_of_numbers(&field.text) > 1;
    if names.iter().any(has_numbers) {
        let problem = wrong(line, "has several numbers between blanks in a field");
        return Some(problem.help("separate all columns in the same way, by commas or by blanks"));
    }
    // `1,5;2,5` has numbers with decimal commas.
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
fn next<'t>(file: &File, records: &mut Records<'t>, fields: &mut Vec<Field<'t>>, width: usize) -> Outcome<Option<u64>> {
    let line = records.next(fields)?;
    match line {
        Some(line) if fields.len() != width => {
            let have = fields.len();
            let title = format!("line {line} of `{}` has {have} fields, and the first line has {width}", file.name);
            let problem = Problem::new("E0714", title);
            let is_comment = fields.first().is_some_and(|field| !field.quoted && field.text.starts_with('#'));
            Err(if is_comment { problem.help("comments stand before the line of names") } else { problem })
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
    loop {
        while let Some(comment) = records.comment() {
            if comment.fields == width && !comment.is_spaced && !records.has_blanks() {
                return Err(ambiguous_comment(file, comment.line));
            }
        }
        let Some(line) = next(file, &mut records, &mut fields, width)? else { break };
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
