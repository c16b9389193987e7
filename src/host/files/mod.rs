//! File formats as pure functions between bytes and values.
//!
//! Files are untrusted: every size in a header is checked against the length of the file before anything is allocated, and
//! error messages contain the numbers in question.

pub(crate) mod csv;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod png;
pub(crate) mod python;
pub(crate) mod safetensors;
mod sniff;
pub(crate) mod zip;

use std::sync::Arc;

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::host::array::{Array, Element};
use crate::host::ops;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::scalar::Scalar;

/// The formats of `load` and `save`, determined by the file name extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Npy,
    Npz,
    SafeTensors,
    Csv,
    Png,
}

impl Format {
    pub const ALL: [Format; 5] = [Format::Npy, Format::Npz, Format::SafeTensors, Format::Csv, Format::Png];

    /// Returns the extension without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::SafeTensors => "safetensors",
            Format::Csv => "csv",
            Format::Png => "png",
        }
    }

    /// Returns the format for a file name, ignoring case.
    pub fn of(name: &str) -> Outcome<Format> {
        let extension = match name.rsplit_once('.') {
            Some((_, extension)) if !extension.contains(['/', '\\']) => extension,
            _ => "",
        };
        let found = Format::ALL.into_iter().find(|f| f.extension().eq_ignore_ascii_case(extension));
        found.ok_or_else(|| unknown_format(name, extension))
    }
}

fn unknown_format(name: &str, extension: &str) -> Problem {
    let known = Format::ALL.map(|f| format!(".{}", f.extension())).join(", ");
    let problem = match extension {
        "" => Problem::new("E0710", format!("the name `{name}` does not say which format the file has")),
        _ => Problem::new("E0710", format!("files ending in `.{extension}` are of no format that Clk knows")),
    };
    let hint = match extension.to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" | "gif" | "bmp" | "webp" | "tif" | "tiff" => Some("convert the picture to .png"),
        "pt" | "pth" | "bin" | "ckpt" | "onnx" | "gguf" => Some("save the tensors as .safetensors"),
        "txt" | "tsv" | "dat" | "md" | "log" | "json" => Some(
            "`read_text(path)` and `write_text(path, text)` are for text; numbers in columns are a .csv file: rename it",
        ),
        "h5" | "hdf5" | "mat" | "parquet" | "pkl" | "pickle" => Some("save the arrays with numpy as .npy or .npz"),
        _ => None,
    };
    let problem = problem.note(format!("the formats are {known}"));
    hint.into_iter().fold(problem, Problem::help)
}

/// Decodes a file: an array (or a scalar), or a [`Value::Table`] of named ones. `name` is the path as the user wrote it.
pub fn decode(name: &str, bytes: &[u8]) -> Outcome<Value> {
    let format = Format::of(name)?;
    let file = File { name, bytes };
    file.check_kind(format)?;
    match format {
        Format::Npy => npy::decode(&file).map(scalar_or_array),
        Format::Npz => npz::decode(&file),
        Format::SafeTensors => safetensors::decode(&file),
        Format::Csv => csv::decode(&file),
        Format::Png => png::decode(&file).map(Value::Array),
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

/// Returns the uncompressed size of the content of a compressed file in bytes; `None` for uncompressed formats.
pub(crate) fn unpacked(name: &str, bytes: &[u8]) -> Outcome<Option<u64>> {
    let format = Format::of(name)?;
    let file = File { name, bytes };
    file.check_kind(format)?;
    if format == Format::Npz { npz::unpacked(&file).map(Some) } else { Ok(None) }
}

/// Encodes values as a file. If the format has names, unnamed values are called `arr_0`, `arr_1`, …; a table stands for its arrays.
pub fn encode(name: &str, values: &[(Option<&str>, &Value)]) -> Outcome<Vec<u8>> {
    let format = Format::of(name)?;
    let items = Items::new(values)?;
    match format {
        Format::Npy => npy::encode(items.single(format)?),
        Format::Npz => npz::encode(&items.arrays(format)?),
        Format::SafeTensors => safetensors::encode(&items.arrays(format)?),
        Format::Csv => csv::encode(&items),
        Format::Png => png::encode(items.single(format)?),
    }
}

/// The values to save.
pub(crate) struct Items {
    pub named: IndexMap<SmolStr, Value>,
    /// Whether the names were given by the user.
    pub has_names: bool,
}

impl Items {
    fn new(values: &[(Option<&str>, &Value)]) -> Outcome<Items> {
        let mut items = Items { named: IndexMap::new(), has_names: false };
        for (position, (name, value)) in values.iter().enumerate() {
            items.has_names |= name.is_some() || matches!(value, Value::Table(_));
            match (name, value) {
                (None, Value::Table(table)) => {
                    for (name, column) in table.iter() {
                        items.add(name.clone(), column.clone())?;
                    }
                }
                (Some(name), _) => items.add(SmolStr::new(name), to_arrays(value)?)?,
                (None, _) => items.add(SmolStr::new(format!("arr_{position}")), to_arrays(value)?)?,
            }
        }
        if items.named.is_empty() {
            return Err(Problem::new("E0715", "there is nothing to save").help("name a value: `save(\"out.npy\", x)`"));
        }
        Ok(items)
    }

    fn add(&mut self, name: SmolStr, column: Value) -> Outcome<()> {
        match self.named.insert(name.clone(), column) {
            None => Ok(()),
            Some(_) => Err(Problem::new("E0715", format!("two of the arrays to save are called `{name}`"))),
        }
    }

    /// Returns all values as arrays, for a format without text.
    fn arrays(&self, format: Format) -> Outcome<IndexMap<SmolStr, Array>> {
        let array = |(name, value): (&SmolStr, &Value)| Ok((name.clone(), numbers(value, format)?.clone()));
        self.named.iter().map(array).collect()
    }

    fn single(&self, format: Format) -> Outcome<&Array> {
        match (self.named.len(), self.named.first()) {
            (1, Some((_, array))) => numbers(array, format),
            (count, _) => {
                let title = format!("a .{} file holds one array, not {count}", format.extension());
                Err(Problem::new("E0715", title).help("save several as .npz: `save(\"out.npz\", x = x, y = y)`"))
            }
        }
    }
}

/// Returns the array in a value, for a format without text.
fn numbers(value: &Value, format: Format) -> Outcome<&Array> {
    match value {
        Value::Array(array) => Ok(array),
        _ => {
            let title = format!("a .{} file holds no text", format.extension());
            let help = "columns of text can be saved as .csv; `write_text(path, join(texts, \"\\n\"))` writes lines";
            Err(Problem::new("E0715", title).help(help))
        }
    }
}

/// Converts a value to an array of numbers or of texts.
fn to_arrays(value: &Value) -> Outcome<Value> {
    match value {
        Value::Array(_) | Value::Strings(_) => Ok(value.clone()),
        _ => {
            let name = value.type_name();
            let plain = crate::host::array::leaf::element_of(value).is_some();
            let refused = || Problem::new("E0715", format!("a value of type {name} cannot be saved"));
            if plain { Array::full(&value.clone().settled(), &[]).map(Value::Array) } else { Err(refused()) }
        }
    }
}

/// Converts an array of rank 0 to its element.
fn scalar_or_array(array: Array) -> Value {
    match array.item(0) {
        Some(item) if array.rank() == 0 => item,
        _ => Value::Array(array),
    }
}

/// Returns a table of these arrays of numbers or texts.
fn table(columns: IndexMap<SmolStr, Value>) -> Value {
    Value::Table(Arc::new(columns))
}

/// Returns scalar type and shape with vectors as an additional axis, for formats that have only scalars; an error for records.
fn scalars_only(array: &Array) -> Outcome<(Scalar, Vec<usize>)> {
    let mut shape = array.shape().to_vec();
    match array.element() {
        Element::Scalar(scalar) => Ok((*scalar, shape)),
        Element::Vector(scalar, lanes) => {
            shape.push(usize::from(*lanes));
            Ok((*scalar, shape))
        }
        Element::Record(record) => Err(Problem::new(
            "E0715",
            format!("an array of {} cannot be saved in this format", array.element()),
        )
        .help(match record.fields.first() {
            Some(field) if !record.is_tuple() => format!("save its fields one by one: `{0} = x.{0}`", field.name),
            _ => "save its parts one by one, or the whole as .npy".to_string(),
        })),
    }
}

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
        Problem::new("E0713", format!("`{}` {reason}", self.name))
    }

    /// Refuses a file whose first bytes are those of another format.
    fn check_kind(&self, format: Format) -> Outcome<()> {
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
fn bytes_text(count: u128) -> String {
    if count == 1 { "1 byte".into() } else { format!("{count} bytes") }
}

/// Returns the shape of an array in a file and its size in bytes; an error if Clk cannot hold such an array.
fn checked_shape(file: &File, dims: &[u64], size: usize) -> Outcome<(Vec<usize>, u128)> {
    let limit = crate::host::array::MAX_EXTENT as u64;
    if let Some((axis, n)) = dims.iter().enumerate().find(|(_, n)| **n > limit) {
        return Err(Problem::new(
            "E0713",
            format!("`{}` holds an array with {n} elements along axis {axis}", file.name),
        )
        .note(format!("an axis has at most {limit} elements")));
    }
    let total = dims.iter().try_fold(size as u128, |total, &n| total.checked_mul(u128::from(n)));
    let total = total.ok_or_else(|| file.damaged("the size of its array is beyond all bounds"))?;
    Ok((dims.iter().map(|&n| n as usize).collect(), total))
}

/// Converts an array read in Fortran order to row-major order.
fn from_fortran(array: Array) -> Outcome<Array> {
    match ops::transpose(&Value::Array(array.clone()))? {
        Value::Array(turned) => Ok(turned),
        _ => Ok(array),
    }
}
