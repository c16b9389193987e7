//! .npy files: one NumPy array. Supports all versions, both byte orders, both axis orders, and structured types.

use std::borrow::Cow;
use std::sync::Arc;

use crate::array::{Array, ElementType, RecordLayout};
use crate::files::file::{NamedFile, bytes_text, check_shape, damaged, from_fortran};
use crate::files::python::{PythonLiteral, dictionary, quote};
use crate::problem::{HostResult, RuntimeError};
use clk_base::{alloc, stop};
use clk_scalar::Scalar;

const MAGIC: &[u8] = b"\x93NUMPY";
/// Maximum length of a header in bytes, which is NumPy's own limit.
const LONGEST_HEADER: usize = 65_536;

/// A scalar or vector in an element. `from` is its offset in an element of the file.
#[derive(Clone, Copy, Debug, PartialEq)]
struct NpyField {
    from: usize,
    scalar: Scalar,
    lanes: usize,
    swapped: bool,
}

/// The element type of a file, and the scalars and vectors (`pieces`) in an element, in the order of the type.
#[derive(Clone, Debug)]
struct FileElement {
    element: ElementType,
    pieces: Vec<NpyField>,
    size: usize,
}

/// The header of a file.
pub(crate) struct NpyHeader {
    element: FileElement,
    is_fortran: bool,
    dims: Vec<u64>,
    /// Number of bytes before the data.
    len: usize,
}

impl NpyHeader {
    /// Reads the header of a file. `file` may be only the first part of a file, of at least [`header_len`] bytes.
    pub fn read(file: &NamedFile) -> HostResult<NpyHeader> {
        let (header, data) = split(file)?;
        let entries = dictionary(&header).ok_or_else(|| file.damaged("its header is not a Python dictionary"))?;
        let entry = |name: &str| {
            let found = entries.iter().find(|(key, _)| key == name).map(|(_, value)| value);
            found.ok_or_else(|| file.damaged(format!("its header does not give `{name}`")))
        };
        let element = file_element(file, entry("descr")?)?;
        let PythonLiteral::Bool(is_fortran) = *entry("fortran_order")? else {
            return Err(file.damaged("`fortran_order` in its header is neither True nor False"));
        };
        let dims =
            extents(entry("shape")?).ok_or_else(|| file.damaged("`shape` in its header is not a tuple of extents"))?;
        Ok(NpyHeader { element, is_fortran, dims, len: file.bytes.len() - data.len() })
    }

    /// Returns the element type and the shape of the array. `file_len` is the length of the file `name`, which must be
    /// the length of the header and the data.
    pub fn array_type(&self, name: &str, file_len: u64) -> HostResult<(ElementType, Vec<usize>)> {
        let (shape, need) = check_shape(name, &self.dims, self.element.size)?;
        let data_bytes = u128::from(file_len).saturating_sub(self.len as u128);
        if need != data_bytes {
            let (need, data_bytes) = (bytes_text(need), bytes_text(data_bytes));
            return Err(damaged(name, format!("its header promises {need} of data, and {data_bytes} follow")));
        }
        Ok((self.element.element.clone(), shape))
    }
}

/// Returns the number of bytes that a file needs for its header to be read, from its first 12 bytes.
pub(crate) fn header_len(first: &[u8]) -> usize {
    let before = MAGIC.len() + 2;
    match (first.get(MAGIC.len()), first.get(before..before + 4)) {
        (Some(1), Some(&[a, b, ..])) => before + 2 + usize::from(u16::from_le_bytes([a, b])),
        (_, Some(&[a, b, c, d])) => {
            let len = u32::from_le_bytes([a, b, c, d]) as usize;
            before + 4 + len.min(LONGEST_HEADER + 1)
        }
        _ => first.len(),
    }
}

/// Decodes a file.
pub(crate) fn decode(file: &NamedFile) -> HostResult<Array> {
    let header = NpyHeader::read(file)?;
    let (_, mut shape) = header.array_type(file.name, file.bytes.len() as u64)?;
    if header.is_fortran {
        shape.reverse();
    }
    let array = fill(&header.element, &shape, file.bytes.get(header.len..).unwrap_or(&[]))?;
    if header.is_fortran { from_fortran(array) } else { Ok(array) }
}

/// Splits a file into the text of its header and the data. Headers are Latin-1 before version 3, and UTF-8 from then
/// on.
fn split<'a>(file: &NamedFile<'a>) -> HostResult<(Cow<'a, str>, &'a [u8])> {
    let cut_off = || file.damaged(format!("it ends inside its header, after {}", bytes_text(file.bytes.len() as u128)));
    let rest = file.bytes.strip_prefix(MAGIC).ok_or_else(|| file.damaged("it does not begin as a .npy file does"))?;
    let (&[major, _], rest) = rest.split_first_chunk::<2>().ok_or_else(cut_off)?;
    let (len, rest) = match major {
        1 => rest.split_first_chunk::<2>().map(|(len, rest)| (usize::from(u16::from_le_bytes(*len)), rest)),
        2 | 3 => rest.split_first_chunk::<4>().map(|(len, rest)| (u32::from_le_bytes(*len) as usize, rest)),
        _ => return Err(file.unsupported(format!("is of version {major} of the .npy format; Clk knows 1 to 3"))),
    }
    .ok_or_else(cut_off)?;
    if len > LONGEST_HEADER {
        return Err(file.damaged(format!("it claims a header of {len} bytes")));
    }
    let (header, data) = rest.split_at_checked(len).ok_or_else(cut_off)?;
    let header = match major {
        3 => Cow::Borrowed(std::str::from_utf8(header).map_err(|_| file.damaged("its header is not text"))?),
        _ => header.iter().map(|&byte| char::from(byte)).collect(),
    };
    Ok((header, data))
}

fn extents(literal: &PythonLiteral) -> Option<Vec<u64>> {
    let PythonLiteral::List(dims) = literal else { return None };
    dims.iter().map(|dim| if let PythonLiteral::Int(n) = dim { Some(*n) } else { None }).collect()
}

fn file_element(file: &NamedFile, descr: &PythonLiteral) -> HostResult<FileElement> {
    match descr {
        PythonLiteral::Text(code) => scalar_element(file, code),
        PythonLiteral::List(fields) => record_element(file, fields),
        PythonLiteral::Int(_) | PythonLiteral::Bool(_) => Err(file.damaged("`descr` in its header is not a type")),
    }
}

/// Decodes a type such as `<f4`.
fn scalar_element(file: &NamedFile, code: &str) -> HostResult<FileElement> {
    let (swapped, kind) = match code.strip_prefix(['<', '|', '=']) {
        Some(kind) => (false, kind),
        None => (code.starts_with('>'), code.strip_prefix('>').unwrap_or(code)),
    };
    use Scalar::*;
    let scalar = match kind {
        "b1" => Bool,
        "i1" => I8,
        "i2" => I16,
        "i4" => I32,
        "i8" => I64,
        "u1" => U8,
        "u2" => U16,
        "u4" => U32,
        "u8" => U64,
        "f2" => F16,
        "f4" => F32,
        "f8" => F64,
        _ => return Err(foreign_type(file, code, kind)),
    };
    let piece = NpyField { from: 0, scalar, lanes: 1, swapped: swapped && scalar.size() > 1 };
    Ok(FileElement { element: ElementType::Scalar(scalar), pieces: vec![piece], size: scalar.size() })
}

fn foreign_type(file: &NamedFile, code: &str, kind: &str) -> RuntimeError {
    let description = match kind.chars().next() {
        Some('O') => "Python objects (pickled), which Clk does not run",
        Some('c') => "complex numbers, which Clk has no type for",
        Some('U' | 'S' | 'a') => "text, and arrays hold numbers",
        Some('M' | 'm') => "dates or durations, which Clk has no type for",
        Some('f') => "floats of a size that Clk has no type for",
        Some('V') => "raw bytes without a type",
        _ => return file.damaged(format!("its header names a type `{code}` that NumPy does not have")),
    };
    let problem =
        file.unsupported(format!("holds {description}")).note(format!("NumPy's code for the type is `{code}`"));
    match (kind.chars().next(), kind) {
        (Some('c'), _) => problem.help("save the parts: `np.save(\"re.npy\", x.real)`, `np.save(\"im.npy\", x.imag)`"),
        (Some('f'), _) => problem.help("save it as double: `np.save(\"x.npy\", x.astype(np.float64))`"),
        (_, "V2") => problem.help("if it is bfloat16, save it as .safetensors, which says so"),
        (Some('M' | 'm'), _) => problem.help("save the counts: `np.save(\"x.npy\", x.astype(np.int64))`"),
        _ => problem,
    }
}

/// Decodes a type such as `[('pos', '<f4', (3,)), ('mass', '<f4')]`: fields without padding; unnamed raw bytes are
/// padding.
fn record_element(file: &NamedFile, fields: &[PythonLiteral]) -> HostResult<FileElement> {
    let wrong = || file.damaged("its header describes a structured type with an invalid field");
    let mut size = 0;
    let mut pieces = Vec::new();
    let mut named_fields = Vec::new();
    for field in fields {
        let PythonLiteral::List(parts) = field else { return Err(wrong()) };
        let (name, descr, dims) = match parts.as_slice() {
            [name, descr] => (name, descr, vec![]),
            [name, descr, dims] => (name, descr, extents(dims).ok_or_else(wrong)?),
            _ => return Err(wrong()),
        };
        let name = match name {
            PythonLiteral::Text(name) => name,
            // NumPy allows a pair of a title and a name instead of the name.
            PythonLiteral::List(both) => match both.as_slice() {
                [_, PythonLiteral::Text(name)] => name,
                _ => return Err(wrong()),
            },
            _ => return Err(wrong()),
        };
        if let (true, Some(padding)) = (name.is_empty(), padding(descr)) {
            size += padding;
            continue;
        }
        let field = vector_field(file, name, file_element(file, descr)?, &dims)?;
        pieces.extend(field.pieces.iter().map(|piece| NpyField { from: piece.from + size, ..*piece }));
        size += field.size;
        named_fields.push((name.as_str().into(), field.element));
    }
    let layout = Arc::new(RecordLayout::new("record", named_fields));
    Ok(FileElement { element: ElementType::Record(layout), pieces, size })
}

/// Returns the size of a padding field such as `|V12`.
fn padding(descr: &PythonLiteral) -> Option<usize> {
    match descr {
        PythonLiteral::Text(code) => code.strip_prefix("|V")?.parse().ok().filter(|n| *n <= LONGEST_HEADER),
        _ => None,
    }
}

/// Returns the type of a struct field with dimensions. Two to four scalars become a vector.
fn vector_field(file: &NamedFile, name: &str, field: FileElement, dims: &[u64]) -> HostResult<FileElement> {
    match (dims, &field.element, field.pieces.first()) {
        ([], _, _) | ([1], _, _) => Ok(field),
        (&[lanes @ 2..=4], ElementType::Scalar(scalar), Some(piece)) => {
            let piece = NpyField { lanes: lanes as usize, ..*piece };
            Ok(FileElement {
                element: ElementType::Vector(*scalar, lanes as u8),
                pieces: vec![piece],
                size: field.size * lanes as usize,
            })
        }
        _ => Err(file
            .unsupported(format!("holds structs whose field `{name}` is an array"))
            .note("a field of a struct is a scalar, a vector of two to four, or a struct")),
    }
}

/// Creates the array from the data of a file, which must have the size that the shape requires.
fn fill(from: &FileElement, shape: &[usize], data: &[u8]) -> HostResult<Array> {
    let layout = from.element.layout();
    let mut array = Array::zeros(from.element.clone(), shape)?;
    let bytes = array.bytes_mut()?;
    let is_plain = matches!(from.pieces.as_slice(), [piece] if !piece.swapped && piece.scalar != Scalar::Bool);
    if is_plain && bytes.len() == data.len() {
        stop::copy(bytes, data);
        return Ok(array);
    }
    let elements = bytes.chunks_exact_mut(layout.size.max(1)).zip(data.chunks_exact(from.size.max(1)));
    for (to, source) in stop::polled(elements) {
        for (leaf, piece) in layout.leaves.iter().zip(&from.pieces) {
            let len = piece.scalar.size() * piece.lanes;
            if let (Some(to), Some(source)) =
                (to.get_mut(leaf.offset..leaf.offset + len), source.get(piece.from..piece.from + len))
            {
                copy(to, source, *piece);
            }
        }
    }
    Ok(array)
}

/// Copies a scalar or vector, and reverses the byte order if necessary. For a `bool`, any nonzero byte is true.
fn copy(to: &mut [u8], from: &[u8], piece: NpyField) {
    to.copy_from_slice(from);
    if piece.swapped {
        to.chunks_exact_mut(piece.scalar.size()).for_each(<[u8]>::reverse);
    }
    if piece.scalar == Scalar::Bool {
        to.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
    }
}

/// Encodes an array. Vectors become an additional axis; structs become a structured type.
pub(crate) fn encode(array: &Array) -> HostResult<Vec<u8>> {
    let mut shape = array.shape().to_vec();
    let descr = match array.element() {
        ElementType::Vector(scalar, lanes) => {
            shape.push(usize::from(*lanes));
            code(*scalar).map(|code| format!("'{code}'"))
        }
        element => descr(element),
    };
    let descr = descr.ok_or_else(|| {
        RuntimeError::new("E0715", "a .npy file cannot hold bf16")
            .help("save it as .safetensors, or convert it: `f32(x)`")
    })?;
    let extents = match shape.as_slice() {
        [n] => format!("{n},"),
        _ => shape.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
    };
    let mut header = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': ({extents}), }}");
    let long = header.len() + 64 > usize::from(u16::MAX);
    let before = MAGIC.len() + if long { 6 } else { 4 };
    let padded = (before + header.len() + 1).next_multiple_of(64) - before;
    header.push_str(&" ".repeat(padded - header.len() - 1));
    header.push('\n');
    let mut bytes = alloc::vec(before + padded + array.byte_len());
    bytes.extend_from_slice(MAGIC);
    match long || !header.is_ascii() {
        false => {
            bytes.extend_from_slice(&[1, 0]);
            bytes.extend_from_slice(&(padded as u16).to_le_bytes());
        }
        true => {
            bytes.extend_from_slice(&[3, 0]);
            bytes.extend_from_slice(&(padded as u32).to_le_bytes());
        }
    }
    bytes.extend_from_slice(header.as_bytes());
    append_data(array, &mut bytes)?;
    Ok(bytes)
}

/// Appends the bytes of all elements, without the padding in structs.
fn append_data(array: &Array, bytes: &mut Vec<u8>) -> HostResult<()> {
    let layout = array.element().layout();
    let packed: usize = layout.leaves.iter().map(|leaf| leaf.ty.size()).sum();
    if packed == layout.size {
        alloc::append(bytes, array.bytes()?);
        return Ok(());
    }
    for element in stop::polled(array.bytes()?.chunks_exact(layout.size.max(1))) {
        for leaf in &layout.leaves {
            bytes.extend_from_slice(element.get(leaf.offset..leaf.offset + leaf.ty.size()).unwrap_or(&[]));
        }
    }
    Ok(())
}

fn code(scalar: Scalar) -> Option<&'static str> {
    use Scalar::*;
    Some(match scalar {
        Bool => "|b1",
        I8 => "|i1",
        I16 => "<i2",
        I32 => "<i4",
        I64 => "<i8",
        U8 => "|u1",
        U16 => "<u2",
        U32 => "<u4",
        U64 => "<u8",
        F16 => "<f2",
        Bf16 => return None,
        F32 => "<f4",
        F64 => "<f8",
    })
}

fn descr(element: &ElementType) -> Option<String> {
    match element {
        ElementType::Scalar(scalar) => Some(format!("'{}'", code(*scalar)?)),
        ElementType::Vector(scalar, lanes) => Some(format!("'{}', ({lanes},)", code(*scalar)?)),
        ElementType::Record(record) => {
            let field = |f: &crate::array::FieldLayout| Some(format!("({}, {})", quote(&f.name), descr(&f.element)?));
            let fields: Option<Vec<String>> = record.fields.iter().map(field).collect();
            Some(format!("[{}]", fields?.join(", ")))
        }
    }
}
