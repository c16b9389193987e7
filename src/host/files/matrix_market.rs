//! Matrix Market files (.mtx), as in Boisvert, Pozo and Remington, "The Matrix Market Exchange Formats: Initial Design"
//! (NISTIR 5935, 1996).
//!
//! - `coordinate`: a table of a sparse matrix in compressed sparse row format, as `std.sparse` expects it: `starts`,
//!   `cols`, `vals`, and `shape` with the numbers of rows and columns. The columns of a row ascend. Duplicates stay.
//! - `array`: a 2-d array.
//! - Values: `real` is `f64`, `integer` is `i64`, SciPy's `unsigned-integer` is `u64`, and a `pattern` has only 1.0.
//! - The omitted half of a `symmetric` or `skew-symmetric` matrix is filled in. `complex` is unsupported.

use std::str::SplitAsciiWhitespace;

use bytemuck::Zeroable;
use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::array::{Array, ArrayScalar, MAX_EXTENT};
use crate::files::csv::{is_inexact_integer, number, write_text};
use crate::files::file::{self, NamedFile, shorten};
use crate::files::items::{SavedItems, scalars_only};
use crate::files::kind::FileFormat;
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::alloc::{self, ByteSink};
use clk_base::stop::{self, Ticks};
use clk_scalar::{Scalar, ScalarValue};

/// Number of rows that any file may have. A larger matrix needs at least a byte of the file for each row, so that a
/// wrong header cannot exhaust memory.
const ROWS_OF_ANY_FILE: u64 = 1 << 24;

/// The names of the arrays of a sparse matrix.
const SPARSE: [&str; 4] = ["starts", "cols", "vals", "shape"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum MatrixLayout {
    Coordinate,
    Dense,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MatrixField {
    Real,
    Integer,
    Unsigned,
    Pattern,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum MatrixSymmetry {
    General,
    Symmetric,
    Skew,
}

/// The first line of a file.
struct MatrixHeader {
    layout: MatrixLayout,
    field: MatrixField,
    symmetry: MatrixSymmetry,
}

/// A scalar type of the values in a file.
trait MatrixValue: ArrayScalar + Zeroable + Copy {
    /// Parses a value. Returns `None` if it is invalid or out of range.
    fn parse(word: &str) -> Option<Self>;
    /// Returns the negative value; `None` if it is out of range.
    fn negative(self) -> Option<Self>;
}

impl MatrixValue for f64 {
    fn parse(word: &str) -> Option<f64> {
        number(word).filter(|number| !is_inexact_integer(word, *number))
    }

    fn negative(self) -> Option<f64> {
        Some(-self)
    }
}

impl MatrixValue for i64 {
    fn parse(word: &str) -> Option<i64> {
        word.parse().ok()
    }

    fn negative(self) -> Option<i64> {
        self.checked_neg()
    }
}

impl MatrixValue for u64 {
    fn parse(word: &str) -> Option<u64> {
        word.parse().ok()
    }

    fn negative(self) -> Option<u64> {
        self.checked_neg()
    }
}

/// The lines of a file with content, and their numbers from 1.
struct MatrixLines<'t> {
    file: NamedFile<'t>,
    rest: std::iter::Enumerate<std::str::Split<'t, char>>,
    ticks: Ticks,
}

impl<'t> MatrixLines<'t> {
    /// Returns the next line that is neither blank nor a comment, as words.
    fn next(&mut self) -> Option<(u64, SplitAsciiWhitespace<'t>)> {
        for (index, line) in self.rest.by_ref() {
            self.ticks.advance(1);
            let line = line.trim_ascii();
            if !line.is_empty() && !line.starts_with('%') {
                return Some((index as u64 + 1, line.split_ascii_whitespace()));
            }
        }
        None
    }

    /// Reads the line of `N` sizes that follows the header.
    fn sizes<const N: usize>(&mut self) -> HostResult<[u64; N]> {
        let (line, words) =
            self.next().ok_or_else(|| self.file.damaged("it has no line with the size of the matrix"))?;
        let sizes: Option<Vec<u64>> = words.map(|word| word.parse().ok()).collect();
        let sizes = sizes.and_then(|sizes| <[u64; N]>::try_from(sizes).ok());
        let sizes = sizes.ok_or_else(|| self.file.wrong_line(line, format!("is not the {N} sizes of a matrix")))?;
        match sizes.iter().find(|size| **size > MAX_EXTENT as u64) {
            None => Ok(sizes),
            Some(size) => {
                let problem = self.file.unsupported(format!("holds a matrix with {size} rows, columns or entries"));
                Err(problem.note(format!("Clk's arrays have at most {MAX_EXTENT} elements along an axis")))
            }
        }
    }

    /// Reads a value of the line `line`, and checks that nothing follows it.
    fn value<T: MatrixValue>(&self, line: u64, mut words: SplitAsciiWhitespace<'t>) -> HostResult<T> {
        let word = words.next().unwrap_or("");
        match (T::parse(word), words.next()) {
            (Some(value), None) => Ok(value),
            (_, Some(_)) => Err(self.file.wrong_line(line, "has more words than an entry of this matrix")),
            (None, None) if word.is_empty() => Err(self.file.wrong_line(line, "has no value")),
            (None, None) => {
                let problem = self.file.wrong_line(line, format!("has no {}: {:?}", T::SCALAR, shorten(word)));
                Err(match number(word) {
                    Some(number) if is_inexact_integer(word, number) => problem
                        .note("no `f64` is exactly this integer")
                        .help("if all values are integers, write `integer` in place of `real` in the first line"),
                    _ => problem,
                })
            }
        }
    }

    /// Returns an error if lines with content remain.
    fn end(&mut self, count: u64) -> HostResult<()> {
        match self.next() {
            None => Ok(()),
            Some((line, _)) => Err(self.file.wrong_line(line, format!("follows the {count} entries of the matrix"))),
        }
    }

    fn too_few(&self, promised: u64, count: usize) -> RuntimeError {
        self.file.damaged(format!("its header promises {promised} entries, and {count} follow"))
    }
}

pub(crate) fn decode(file: &NamedFile) -> HostResult<HostValue> {
    let text = file::text(file.name, file.bytes)?;
    let mut rest = text.split('\n').enumerate();
    let header = header(file, rest.next().map_or("", |(_, line)| line))?;
    let lines = MatrixLines { file: *file, rest, ticks: Ticks::default() };
    match header.field {
        MatrixField::Real | MatrixField::Pattern => decode_values::<f64>(lines, &header),
        MatrixField::Integer => decode_values::<i64>(lines, &header),
        MatrixField::Unsigned => decode_values::<u64>(lines, &header),
    }
}

fn decode_values<T: MatrixValue>(lines: MatrixLines<'_>, header: &MatrixHeader) -> HostResult<HostValue> {
    match header.layout {
        MatrixLayout::Dense => dense::<T>(lines, header),
        MatrixLayout::Coordinate => sparse::<T>(lines, header),
    }
}

fn header(file: &NamedFile, line: &str) -> HostResult<MatrixHeader> {
    let words: Vec<String> = line.split_ascii_whitespace().map(str::to_ascii_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let [banner, object, layout, field, symmetry] = words[..] else {
        let problem = file.damaged("its first line is not the header of a Matrix Market file");
        return Err(problem.note("an example is `%%MatrixMarket matrix coordinate real general`"));
    };
    let unknown = |word: &str| file.damaged(format!("its header has the unknown word {:?}", shorten(word)));
    let unsupported = |what: &str| file.unsupported(format!("holds {what}, which Clk has no type for"));
    if banner != "%%matrixmarket" {
        return Err(unknown(banner));
    }
    let layout = match (object, layout) {
        ("matrix", "coordinate") => MatrixLayout::Coordinate,
        ("matrix", "array") => MatrixLayout::Dense,
        ("matrix", other) => return Err(unknown(other)),
        ("vector", _) => return Err(unsupported("a sparse vector")),
        (other, _) => return Err(unknown(other)),
    };
    let field = match field {
        "real" | "double" => MatrixField::Real,
        "integer" => MatrixField::Integer,
        "unsigned-integer" => MatrixField::Unsigned,
        "pattern" if layout == MatrixLayout::Coordinate => MatrixField::Pattern,
        "complex" => {
            return Err(unsupported("complex numbers").help("save the real and the imaginary parts in two files"));
        }
        other => return Err(unknown(other)),
    };
    let symmetry = match symmetry {
        "general" => MatrixSymmetry::General,
        "symmetric" => MatrixSymmetry::Symmetric,
        "skew-symmetric" if !matches!(field, MatrixField::Pattern | MatrixField::Unsigned) => MatrixSymmetry::Skew,
        other => return Err(unknown(other)),
    };
    Ok(MatrixHeader { layout, field, symmetry })
}

/// Returns an error if a symmetric matrix is not square.
fn check_square(file: &NamedFile, symmetry: MatrixSymmetry, rows: u64, cols: u64) -> HostResult<()> {
    match symmetry == MatrixSymmetry::General || rows == cols {
        true => Ok(()),
        false => Err(file.damaged(format!("it holds a symmetric matrix of {rows} rows and {cols} columns"))),
    }
}

/// Reads a matrix whose values are in the order of columns. A symmetric one lists only the entries from the diagonal on
/// downward, a skew-symmetric one only those below the diagonal.
fn dense<T: MatrixValue>(mut lines: MatrixLines<'_>, header: &MatrixHeader) -> HostResult<HostValue> {
    let [rows, cols] = lines.sizes()?;
    check_square(&lines.file, header.symmetry, rows, cols)?;
    let first_row = |col: u64| match header.symmetry {
        MatrixSymmetry::General => 0,
        MatrixSymmetry::Symmetric => col,
        MatrixSymmetry::Skew => col + 1,
    };
    let count = match header.symmetry {
        MatrixSymmetry::General => rows * cols,
        MatrixSymmetry::Symmetric => rows * (rows + 1) / 2,
        MatrixSymmetry::Skew => rows * rows.saturating_sub(1) / 2,
    };
    // An entry and the end of its line take two bytes.
    let most = lines.file.bytes.len() as u64 / 2 + 1;
    if count > most {
        return Err(lines.file.damaged(format!("its header promises {count} entries, more than it can hold")));
    }
    let (height, width) = (rows as usize, cols as usize);
    let mut items: Vec<T> = alloc::zeros(height * width);
    let places = (0..cols).flat_map(|col| (first_row(col)..rows).map(move |row| (row as usize, col as usize)));
    // A matrix without rows may have many columns.
    for (done, (row, col)) in places.take(count as usize).enumerate() {
        let (line, words) = lines.next().ok_or_else(|| lines.too_few(count, done))?;
        let value: T = lines.value(line, words)?;
        items[row * width + col] = value;
        if header.symmetry != MatrixSymmetry::General {
            let mirrored = if header.symmetry == MatrixSymmetry::Skew { value.negative() } else { Some(value) };
            let mirrored = mirrored.ok_or_else(|| lines.file.wrong_line(line, "has a value without a negative"))?;
            items[col * width + row] = mirrored;
        }
    }
    lines.end(count)?;
    Array::from_shaped(&items, &[height, width]).map(HostValue::Array)
}

/// The entries of a sparse matrix in any order, with indices from 0.
struct MatrixEntries<T> {
    rows: Vec<i32>,
    cols: Vec<i32>,
    vals: Vec<T>,
}

impl<T> MatrixEntries<T> {
    fn push(&mut self, row: i32, col: i32, value: T) {
        alloc::reserve(&mut self.rows, 1);
        alloc::reserve(&mut self.cols, 1);
        alloc::reserve(&mut self.vals, 1);
        self.rows.push(row);
        self.cols.push(col);
        self.vals.push(value);
    }
}

fn sparse<T: MatrixValue>(mut lines: MatrixLines<'_>, header: &MatrixHeader) -> HostResult<HostValue> {
    let [rows, cols, count] = lines.sizes()?;
    check_square(&lines.file, header.symmetry, rows, cols)?;
    let file_len = lines.file.bytes.len() as u64;
    if rows > ROWS_OF_ANY_FILE.max(file_len) {
        let problem = lines.file.unsupported(format!("holds a matrix of {rows} rows, most of which are empty"));
        return Err(problem.note(format!("a file of {file_len} bytes may have {ROWS_OF_ANY_FILE} rows")));
    }
    let mut entries = MatrixEntries { rows: Vec::new(), cols: Vec::new(), vals: Vec::<T>::new() };
    let one = T::parse("1");
    // The first lines with entries below and above the diagonal.
    let (mut below, mut above) = (None, None);
    for done in 0..count {
        let (line, mut words) = lines.next().ok_or_else(|| lines.too_few(count, done as usize))?;
        let row = index(&lines.file, line, words.next(), rows)?;
        let col = index(&lines.file, line, words.next(), cols)?;
        let value = match (header.field, one) {
            (MatrixField::Pattern, Some(one)) if words.next().is_none() => one,
            (MatrixField::Pattern, _) => {
                return Err(lines.file.wrong_line(line, "has a value, and a pattern has none"));
            }
            _ => lines.value(line, words)?,
        };
        entries.push(row, col, value);
        if header.symmetry == MatrixSymmetry::General {
            continue;
        }
        let mirrored = match (header.symmetry, row == col) {
            (MatrixSymmetry::Skew, true) => {
                return Err(lines.file.wrong_line(line, "is on the diagonal, and the matrix is skew-symmetric"));
            }
            (_, true) => continue,
            (MatrixSymmetry::Skew, false) => value.negative(),
            _ => Some(value),
        };
        let mirrored = mirrored.ok_or_else(|| lines.file.wrong_line(line, "has a value without a negative"))?;
        *(if row > col { &mut below } else { &mut above }) = Some(line);
        if let (Some(below), Some(above)) = (below, above) {
            let problem = lines.file.wrong_line(line, "is on the other side of the diagonal than an earlier line");
            return Err(problem.note(format!(
                "lines {} and {} list both halves of a symmetric matrix, of which one follows from the other",
                below.min(above),
                below.max(above)
            )));
        }
        entries.push(col, row, mirrored);
    }
    lines.end(count)?;
    if entries.vals.len() > MAX_EXTENT {
        let problem = lines.file.unsupported(format!("holds a matrix of {} entries", entries.vals.len()));
        return Err(problem.note(format!("Clk's arrays have at most {MAX_EXTENT} elements along an axis")));
    }
    compressed_rows(entries, rows as usize, cols as usize)
}

/// Reads an index, which begins at 1 in a file. Returns it from 0 on.
fn index(file: &NamedFile, line: u64, word: Option<&str>, extent: u64) -> HostResult<i32> {
    let word = word.ok_or_else(|| file.wrong_line(line, "is not an entry with a row and a column"))?;
    let index: Option<u64> = word.parse().ok().filter(|index| (1..=extent).contains(index));
    index.map(|index| (index - 1) as i32).ok_or_else(|| {
        file.wrong_line(line, format!("has the index {:?}, which is not from 1 to {extent}", shorten(word)))
    })
}

/// Returns the table of a sparse matrix. Sorts the entries by row and column; duplicates stay in order.
fn compressed_rows<T: MatrixValue>(entries: MatrixEntries<T>, rows: usize, cols: usize) -> HostResult<HostValue> {
    let MatrixEntries { rows: entry_rows, cols: entry_cols, vals } = entries;
    let positions = || entry_rows.iter().zip(&entry_cols);
    let is_sorted = stop::polled(positions().zip(positions().skip(1))).all(|(a, b)| a <= b);
    let (entry_cols, vals) = if is_sorted {
        (entry_cols, vals)
    } else {
        // A radix sort, whose passes are stable: the last one orders by the most significant digit.
        let mut order: Vec<u32> = alloc::collect(vals.len(), 0..vals.len() as u32);
        for (keys, extent) in [(&entry_cols, cols), (&entry_rows, rows)] {
            for shift in [0, DIGIT_BITS] {
                if extent > 1 << shift {
                    order = sort_by_digit(&order, keys, shift);
                }
            }
        }
        let at = |position: &u32| *position as usize;
        (
            alloc::collect(order.len(), order.iter().map(|position| entry_cols[at(position)])),
            alloc::collect(order.len(), order.iter().map(|position| vals[at(position)])),
        )
    };
    let mut starts: Vec<i32> = alloc::zeros(rows + 1);
    for &row in stop::polled(&entry_rows) {
        starts[row as usize + 1] += 1;
    }
    let mut total = 0;
    for start in stop::polled(&mut starts) {
        total += *start;
        *start = total;
    }
    let arrays = [
        Array::from_items(&starts)?,
        Array::from_items(&entry_cols)?,
        Array::from_items(&vals)?,
        Array::from_items(&[rows as i32, cols as i32])?,
    ];
    let named = SPARSE.into_iter().map(SmolStr::new_static).zip(arrays.map(HostValue::Array));
    Ok(file::table(named.collect::<IndexMap<_, _>>()))
}

const DIGIT_BITS: u32 = 16;

/// Returns the positions in `order`, sorted stably by 16 bits of their keys.
fn sort_by_digit(order: &[u32], keys: &[i32], shift: u32) -> Vec<u32> {
    let digit = |position: u32| (keys[position as usize] as usize >> shift) & ((1 << DIGIT_BITS) - 1);
    let mut places = vec![0u32; 1 << DIGIT_BITS];
    for &position in stop::polled(order) {
        places[digit(position)] += 1;
    }
    let mut total = 0;
    for place in &mut places {
        total += std::mem::replace(place, total);
    }
    let mut sorted: Vec<u32> = alloc::zeros(order.len());
    for &position in stop::polled(order) {
        let place = &mut places[digit(position)];
        sorted[*place as usize] = position;
        *place += 1;
    }
    sorted
}

/// Encodes a 2-d array, or a sparse matrix that consists of the arrays named in [`SPARSE`].
pub(crate) fn encode(items: &SavedItems) -> HostResult<Vec<u8>> {
    let format = FileFormat::MatrixMarket;
    let arrays = items.arrays(format)?;
    match SPARSE.map(|name| arrays.get(name)) {
        [Some(starts), Some(cols), Some(vals), Some(shape)] if arrays.len() == SPARSE.len() => {
            SparseMatrix { starts, cols, vals, shape }.encode()
        }
        _ if arrays.len() == 1 => encode_dense(items.single(format)?),
        _ => Err(not_a_matrix("a .mtx file holds one matrix".into())),
    }
}

fn not_a_matrix(title: String) -> RuntimeError {
    RuntimeError::new("E0715", title).help("save an array with two axes").help(
        "save a sparse matrix by the names of `std.sparse`: \
         `save(\"a.mtx\", starts = starts, cols = cols, vals = vals, shape = [rows, columns])`",
    )
}

/// Writes a header; returns the buffer.
fn start_file(layout: &str, scalar: Scalar) -> HostResult<ByteSink> {
    let field = match scalar {
        Scalar::U64 => "unsigned-integer",
        _ if scalar.is_float() => "real",
        _ => "integer",
    };
    let mut out = ByteSink::default();
    write_text(&mut out, format_args!("%%MatrixMarket matrix {layout} {field} general\n"))?;
    Ok(out)
}

/// Returns the text of the element with this index.
fn element_text(bytes: &[u8], scalar: Scalar, index: usize) -> String {
    let (start, size) = (index * scalar.size(), scalar.size());
    let value = ScalarValue::from_bytes(scalar, bytes.get(start..start + size).unwrap_or(&[]));
    if scalar == Scalar::Bool { u8::from(value.is_true()).to_string() } else { clk_scalar::format::plain(value) }
}

fn encode_dense(array: &Array) -> HostResult<Vec<u8>> {
    let (scalar, shape) = scalars_only(array)?;
    let [rows, cols] = shape[..] else {
        return Err(not_a_matrix(format!("a matrix has two axes, and the array has {}", shape.len())));
    };
    let bytes = array.bytes()?;
    let mut out = start_file("array", scalar)?;
    write_text(&mut out, format_args!("{rows} {cols}\n"))?;
    // An empty array may have many empty rows or columns.
    let places = (0..if rows == 0 { 0 } else { cols }).flat_map(|col| (0..rows).map(move |row| row * cols + col));
    for place in stop::polled(places) {
        write_text(&mut out, format_args!("{}\n", element_text(bytes, scalar, place)))?;
    }
    Ok(out.0)
}

/// A sparse matrix in compressed sparse row format.
struct SparseMatrix<'a> {
    starts: &'a Array,
    cols: &'a Array,
    vals: &'a Array,
    shape: &'a Array,
}

impl SparseMatrix<'_> {
    fn encode(&self) -> HostResult<Vec<u8>> {
        let wrong = |title: String| not_a_matrix(format!("this is not a sparse matrix: {title}"));
        let starts = integers("starts", self.starts)?;
        let cols = integers("cols", self.cols)?;
        let [rows, width] = integers("shape", self.shape)?[..] else {
            return Err(wrong(format!("`shape` has {} elements, not 2", self.shape.count())));
        };
        let (scalar, vals_shape) = scalars_only(self.vals)?;
        if vals_shape.len() != 1 {
            return Err(wrong(format!("`vals` has {} axes, not 1", vals_shape.len())));
        }
        let count = self.vals.count();
        if cols.len() != count {
            return Err(wrong(format!("`cols` has {} elements, and `vals` has {count}", cols.len())));
        }
        if rows < 0 || starts.len() as i64 != rows.saturating_add(1) {
            return Err(wrong(format!("`starts` has {} elements, and `shape` has {rows} rows", starts.len())));
        }
        let ascends = stop::polled(starts.windows(2)).all(|pair| pair[0] <= pair[1]);
        if !ascends || starts.first() != Some(&0) || starts.last() != Some(&(count as i64)) {
            return Err(wrong(format!("`starts` does not ascend from 0 to the {count} values")));
        }
        if width < 0 {
            return Err(wrong("`shape` has a number of columns that is not from 0 to 2⁶³ - 1".into()));
        }
        if let Some(col) = stop::polled(&cols).find(|col| !(0..width).contains(*col)) {
            return Err(wrong(format!("the column {col} is not from 0 to {}", width.saturating_sub(1))));
        }
        let bytes = self.vals.bytes()?;
        let mut out = start_file("coordinate", scalar)?;
        write_text(&mut out, format_args!("{rows} {width} {count}\n"))?;
        let mut row = 0;
        for (place, col) in stop::polled(cols.iter().enumerate()) {
            // Rows may be empty.
            while starts[row + 1] <= place as i64 {
                row += 1;
            }
            write_text(&mut out, format_args!("{} {} {}\n", row + 1, col + 1, element_text(bytes, scalar, place)))?;
        }
        Ok(out.0)
    }
}

/// Returns the elements of a 1-d array of integers.
fn integers(name: &str, array: &Array) -> HostResult<Vec<i64>> {
    let (scalar, shape) = scalars_only(array)?;
    if !scalar.is_int() || shape.len() != 1 {
        let title = format!("`{name}` of a sparse matrix is a 1-d array of integers, not {}", array.type_name());
        return Err(not_a_matrix(title));
    }
    let elements = array.bytes()?.chunks_exact(scalar.size());
    let integer = |bytes: &[u8]| ScalarValue::from_bytes(scalar, bytes).as_integer();
    // A `u64` beyond `i64` is invalid in each of these arrays, like -1.
    let integers = elements.map(|bytes| integer(bytes).and_then(|n| i64::try_from(n).ok()).unwrap_or(-1));
    Ok(alloc::collect(array.count(), integers))
}
