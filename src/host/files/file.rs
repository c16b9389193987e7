//! A file as it was read, and what formats make of its content.

use std::sync::Arc;

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::host::array::Array;
use crate::host::files::kind::Format;
use crate::host::files::sniff;
use crate::host::ops;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Table, Value};

/// The code of a valid file, or a member of one, whose content has no type in Clk.
const UNSUPPORTED: &str = "E0713";

/// The content of a file with its name.
#[derive(Clone, Copy)]
pub(crate) struct File<'a> {
    pub name: &'a str,
    pub bytes: &'a [u8],
}

impl<'a> File<'a> {
    /// Returns the error for a file that violates its format.
    pub fn damaged(&self, reason: impl std::fmt::Display) -> Problem {
        Problem::new("E0711", format!("`{}` is damaged: {reason}", self.name))
    }

    /// Returns the error for a valid file whose content has no type in Clk.
    pub(crate) fn unsupported(&self, reason: impl std::fmt::Display) -> Problem {
        Problem::new(UNSUPPORTED, format!("`{}` {reason}", self.name))
    }

    /// Refuses a file whose first bytes are those of another format.
    pub(crate) fn check_kind(&self, format: Format) -> Outcome<()> {
        let extension = format.extension();
        if self.bytes.is_empty() && format != Format::Csv {
            return Err(self.damaged("it is empty"));
        }
        let found = sniff::kind(self.bytes);
        if found.is_none_or(|kind| kind.formats.contains(&format)) {
            return Ok(());
        }
        let kind = found.map_or("something else", |kind| kind.name);
        let problem = Problem::new("E0712", format!("`{}` is {kind}, not a .{extension} file", self.name));
        Err(match found.and_then(|kind| kind.formats.first()) {
            Some(format) => problem.help(format!("give it a name that ends in `.{}`", format.extension())),
            None => problem,
        })
    }
}

/// Formats a number of bytes for messages.
pub(crate) fn bytes_text(count: u128) -> String {
    if count == 1 { "1 byte".into() } else { format!("{count} bytes") }
}

/// Returns the shape of an array in a file and its size in bytes; an error if Clk cannot hold such an array.
pub(crate) fn checked_shape(file: &File, dims: &[u64], size: usize) -> Outcome<(Vec<usize>, u128)> {
    let limit = crate::host::array::MAX_EXTENT as u64;
    if let Some((axis, n)) = dims.iter().enumerate().find(|(_, n)| **n > limit) {
        let title = format!("holds an array with {n} elements along axis {axis}");
        return Err(file.unsupported(title).note(format!("an axis has at most {limit} elements")));
    }
    let total = dims.iter().try_fold(size as u128, |total, &n| total.checked_mul(u128::from(n)));
    let total = total.ok_or_else(|| file.damaged("the size of its array is beyond all bounds"))?;
    Ok((dims.iter().map(|&n| n as usize).collect(), total))
}

/// Converts an array read in Fortran order to row-major order.
pub(crate) fn from_fortran(array: Array) -> Outcome<Array> {
    match ops::transpose(&Value::Array(array.clone()))? {
        Value::Array(turned) => Ok(turned),
        _ => Ok(array),
    }
}

/// Returns a table of these arrays of numbers or texts.
pub(crate) fn table(columns: IndexMap<SmolStr, Value>) -> Value {
    Value::Table(Arc::new(Table { columns, unreadable: IndexMap::new() }))
}

/// The members of an archive as they are decoded.
#[derive(Default)]
pub(crate) struct Members {
    arrays: IndexMap<SmolStr, Value>,
    unreadable: IndexMap<SmolStr, Problem>,
}

impl Members {
    /// Adds a member. One of a type that Clk does not have is an error only when a program reads it.
    pub fn add(&mut self, file: &File, name: &str, member: Outcome<Array>) -> Outcome<()> {
        let known = self.arrays.contains_key(name) || self.unreadable.contains_key(name);
        match member {
            _ if known => return Err(file.damaged(format!("it holds two arrays called `{name}`"))),
            Ok(array) => drop(self.arrays.insert(SmolStr::new(name), Value::Array(array))),
            Err(problem) if problem.code == UNSUPPORTED => drop(self.unreadable.insert(SmolStr::new(name), problem)),
            Err(problem) => return Err(problem),
        }
        Ok(())
    }

    /// Returns the table; an error if no member is readable, although there are some.
    pub fn table(self) -> Outcome<Value> {
        let table = Table { columns: self.arrays, unreadable: self.unreadable };
        if table.is_empty() {
            table.check_readable()?;
        }
        Ok(Value::Table(Arc::new(table)))
    }

    pub fn is_empty(&self) -> bool {
        self.arrays.is_empty() && self.unreadable.is_empty()
    }
}

/// Returns the text in a file, without a byte order mark.
pub(crate) fn text<'b>(name: &str, bytes: &'b [u8]) -> Outcome<&'b str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or(&[]);
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        let problem = Problem::new("E0718", format!("`{name}` is not a text file in UTF-8"));
        let problem = problem.note(format!("line {line} is not text"));
        match sniff::kind(bytes) {
            Some(kind) => problem.note(format!("the file is {}", kind.name)),
            None => problem,
        }
    })
}
