//! [`NamedFile`], the input of the decoders, and functions that several decoders use.

use std::sync::Arc;

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::array::Array;
use crate::files::kind::FileFormat;
use crate::files::sniff;
use crate::graph::ExecContext;
use crate::ops;
use crate::problem::{HostResult, RuntimeError};
use crate::value::{HostValue, TableValue};

/// The code of the error for a valid file, or an array in a file, whose content has no type in Clk.
const UNSUPPORTED: &str = "E0713";

/// The content of a file with its name.
#[derive(Clone, Copy)]
pub(crate) struct NamedFile<'a> {
    pub name: &'a str,
    pub bytes: &'a [u8],
}

impl<'a> NamedFile<'a> {
    /// Returns the error for a file that is invalid in its format.
    pub fn damaged(&self, reason: impl std::fmt::Display) -> RuntimeError {
        damaged(self.name, reason)
    }

    /// Returns the error for a valid file whose content has no type in Clk.
    pub(crate) fn unsupported(&self, reason: impl std::fmt::Display) -> RuntimeError {
        unsupported(self.name, reason)
    }

    /// Returns the error for a line of a text file that is invalid in its format.
    pub(crate) fn wrong_line(&self, line: u64, reason: impl std::fmt::Display) -> RuntimeError {
        RuntimeError::new("E0714", format!("line {line} of `{}` {reason}", self.name))
    }

    /// Returns an error if the file is empty, or if its first bytes are the signature of another format.
    pub(crate) fn check_kind(&self, format: FileFormat) -> HostResult<()> {
        let extension = format.extension();
        if self.bytes.is_empty() && !format.may_be_empty() {
            return Err(self.damaged("it is empty"));
        }
        let signature = sniff::detect_signature(self.bytes);
        if signature.is_none_or(|kind| kind.formats.contains(&format)) {
            return Ok(());
        }
        let kind = signature.map_or("something else", |kind| kind.name);
        let problem = RuntimeError::new("E0712", format!("`{}` is {kind}, not a .{extension} file", self.name));
        Err(match signature.and_then(|kind| kind.formats.first()) {
            Some(format) => problem.help(format!("give it a name that ends in `.{}`", format.extension())),
            None => problem,
        })
    }
}

/// Returns the error for the file `name`, which is invalid in its format.
pub(crate) fn damaged(name: &str, reason: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::new("E0711", format!("`{name}` is damaged: {reason}"))
}

/// Returns the error for the valid file `name`, whose content has no type in Clk.
pub(crate) fn unsupported(name: &str, reason: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::new(UNSUPPORTED, format!("`{name}` {reason}"))
}

/// Returns the beginning of a word of a file, for messages.
pub(crate) fn shorten(word: &str) -> String {
    word.chars().take(40).collect()
}

/// Formats a number of bytes for messages.
pub(crate) fn bytes_text(count: u128) -> String {
    if count == 1 { "1 byte".into() } else { format!("{count} bytes") }
}

/// Returns the shape of an array in a file, and its size in bytes. Returns an error if the array is too large for Clk.
pub(crate) fn check_shape(name: &str, dims: &[u64], size: usize) -> HostResult<(Vec<usize>, u128)> {
    let limit = crate::array::MAX_EXTENT as u64;
    if let Some((axis, n)) = dims.iter().enumerate().find(|(_, n)| **n > limit) {
        let title = format!("holds an array with {n} elements along axis {axis}");
        return Err(unsupported(name, title).note(format!("an axis has at most {limit} elements")));
    }
    let total = dims.iter().try_fold(size as u128, |total, &n| total.checked_mul(u128::from(n)));
    let total = total.ok_or_else(|| damaged(name, "the size of its array is beyond all bounds"))?;
    Ok((dims.iter().map(|&n| n as usize).collect(), total))
}

/// Converts an array read in Fortran order to row-major order.
pub(crate) fn from_fortran(array: Array) -> HostResult<Array> {
    // The transpose is a view, which kernels of all devices read through.
    match ops::transpose(&ExecContext::default(), &HostValue::Array(array.clone()), None)? {
        HostValue::Array(transposed) => Ok(transposed),
        _ => Ok(array),
    }
}

/// Converts an array of rank 0 to its element; returns other arrays unchanged.
pub(crate) fn scalar_or_array(array: Array) -> HostResult<HostValue> {
    Ok(match array.item(0)? {
        Some(item) if array.rank() == 0 => item,
        _ => HostValue::Array(array),
    })
}

/// Returns a table with the given columns, which are arrays of numbers or of texts.
pub(crate) fn table(columns: IndexMap<SmolStr, HostValue>) -> HostValue {
    HostValue::Table(Arc::new(TableValue { columns, unreadable: IndexMap::new() }))
}

/// The arrays of an archive, in the order of the file.
#[derive(Default)]
pub(crate) struct Members {
    arrays: IndexMap<SmolStr, HostValue>,
    unreadable: IndexMap<SmolStr, RuntimeError>,
}

impl Members {
    /// Adds an array. If its element type does not exist in Clk, the error is reported only when a program reads the
    /// array.
    pub fn add(&mut self, file_name: &str, name: &str, member: HostResult<Array>) -> HostResult<()> {
        let is_duplicate = self.arrays.contains_key(name) || self.unreadable.contains_key(name);
        match member {
            _ if is_duplicate => return Err(damaged(file_name, format!("it holds two arrays called `{name}`"))),
            Ok(array) => drop(self.arrays.insert(SmolStr::new(name), HostValue::Array(array))),
            Err(problem) if problem.code == UNSUPPORTED => drop(self.unreadable.insert(SmolStr::new(name), problem)),
            Err(problem) => return Err(problem),
        }
        Ok(())
    }

    /// Returns the table of all arrays. Returns an error if no array is readable, unless the archive is empty.
    pub fn table(self) -> HostResult<HostValue> {
        let table = TableValue { columns: self.arrays, unreadable: self.unreadable };
        if table.is_empty() {
            table.check_readable()?;
        }
        Ok(HostValue::Table(Arc::new(table)))
    }

    pub fn is_empty(&self) -> bool {
        self.arrays.is_empty() && self.unreadable.is_empty()
    }
}

/// Returns the text in a file, without a byte order mark.
pub(crate) fn text<'b>(name: &str, bytes: &'b [u8]) -> HostResult<&'b str> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes.get(..error.valid_up_to()).unwrap_or(&[]);
        let line = before.iter().filter(|&&b| b == b'\n').count() + 1;
        let problem = RuntimeError::new("E0718", format!("`{name}` is not a text file in UTF-8"));
        let problem = problem.note(format!("line {line} is not text"));
        match sniff::detect_signature(bytes) {
            Some(kind) => problem.note(format!("the file is {}", kind.name)),
            None => problem,
        }
    })
}
