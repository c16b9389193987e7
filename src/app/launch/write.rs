//! Encodes arrays as JSON: as nested lists, as Base64, or as references to binary blocks.

use std::io::{self, Write};

use clk_base::escape;
use clk_host::array::{ElementType, HostArray, RecordLayout};
use clk_host::picture::base64;
use clk_ir::def::Leaf;
use clk_scalar::{Scalar, format};

/// How a reply encodes the elements of arrays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ArrayEncoding {
    /// Nested lists.
    #[default]
    List,
    /// The bytes of the elements in Base64.
    Base64,
    /// A binary block that follows the header of a frame.
    Block,
}

/// Returns a text as a JSON string.
pub(crate) fn string(text: &str) -> String {
    escape::json(serde_json::Value::from(text).to_string())
}

/// Writes an array as `{"type": …, "shape": …, "data": …}`. For a block, writes its index among the blocks of the
/// reply.
pub(crate) fn array(out: &mut dyn Write, array: &HostArray, encoding: ArrayEncoding, block: usize) -> io::Result<()> {
    write!(out, "{{\"type\": {}, \"shape\": {:?}, ", string(&array.element().to_string()), array.shape())?;
    match encoding {
        ArrayEncoding::Block => write!(out, "\"block\": {block}")?,
        ArrayEncoding::Base64 => write!(out, "\"data64\": \"{}\"", base64::encode(array.bytes()))?,
        ArrayEncoding::List => {
            out.write_all(b"\"data\": ")?;
            match array.is_empty() {
                // An array without elements is `[]`, even if its shape consists of several empty rows.
                true => out.write_all(b"[]")?,
                false => nested(out, array.element(), array.shape(), array.bytes())?,
            }
        }
    }
    out.write_all(b"}")
}

fn nested(out: &mut dyn Write, element: &ElementType, shape: &[usize], bytes: &[u8]) -> io::Result<()> {
    let Some((&extent, inner)) = shape.split_first() else { return one(out, element, bytes) };
    let step = inner.iter().product::<usize>() * element.size();
    out.write_all(b"[")?;
    for at in 0..extent {
        if at > 0 {
            out.write_all(b", ")?;
        }
        nested(out, element, inner, bytes.get(at * step..(at + 1) * step).unwrap_or(&[]))?;
    }
    out.write_all(b"]")
}

fn one(out: &mut dyn Write, element: &ElementType, bytes: &[u8]) -> io::Result<()> {
    match element {
        ElementType::Scalar(ty) => scalar(out, *ty, bytes),
        ElementType::Vector(ty, lanes) => {
            out.write_all(b"[")?;
            for (at, lane) in bytes.chunks_exact(ty.size()).take(usize::from(*lanes)).enumerate() {
                out.write_all(if at > 0 { b", " } else { b"" })?;
                scalar(out, *ty, lane)?;
            }
            out.write_all(b"]")
        }
        ElementType::Record(layout) => record(out, layout, &layout.layout.leaves, bytes),
    }
}

/// Writes a struct or tuple. `leaves` are its scalar fields; their offsets are relative to the outermost record.
fn record(out: &mut dyn Write, layout: &RecordLayout, leaves: &[Leaf], bytes: &[u8]) -> io::Result<()> {
    let (open, close) = if layout.is_tuple() { ("[", "]") } else { ("{", "}") };
    out.write_all(open.as_bytes())?;
    for (at, field) in layout.fields.iter().enumerate() {
        out.write_all(if at > 0 { b", " } else { b"" })?;
        if !layout.is_tuple() {
            write!(out, "{}: ", string(&field.name))?;
        }
        let own = leaves.get(field.leaves.clone()).unwrap_or(&[]);
        match (&field.element, own.first()) {
            (ElementType::Record(inner), _) => record(out, inner, own, bytes)?,
            (plain, Some(leaf)) => {
                one(out, plain, bytes.get(leaf.offset..leaf.offset + plain.size()).unwrap_or(&[]))?;
            }
            (_, None) => out.write_all(b"null")?,
        }
    }
    out.write_all(close.as_bytes())
}

/// Writes a number as the shortest decimal text that is read back as the same value.
fn scalar(out: &mut dyn Write, ty: Scalar, bytes: &[u8]) -> io::Result<()> {
    let value = clk_scalar::ScalarValue::from_bytes(ty, bytes);
    let number = value.as_f64();
    match ty {
        _ if ty.is_float() && number.is_nan() => out.write_all(b"\"NaN\""),
        _ if ty.is_float() && number == f64::INFINITY => out.write_all(b"\"Infinity\""),
        _ if ty.is_float() && number == f64::NEG_INFINITY => out.write_all(b"\"-Infinity\""),
        Scalar::F32 => write!(out, "{:?}", value.to::<f32>()),
        Scalar::F64 => write!(out, "{number:?}"),
        _ => out.write_all(format::plain(value).as_bytes()),
    }
}
