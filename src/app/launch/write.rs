//! Encoding of arrays as JSON: nested lists, Base64, or references to binary blocks.

use std::io::{self, Write};

use crate::base::escape;
use crate::host::array::{Element, HostArray, RecordLayout};
use crate::host::picture::base64;
use crate::ir::def::Leaf;
use crate::lang::scalar::{self, Scalar, format};

/// Encoding of an array's elements in a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Nested lists.
    #[default]
    List,
    /// Base64 of the bytes.
    Base64,
    /// A binary block after the header of a framed reply.
    Block,
}

/// Returns a JSON string.
pub(crate) fn string(text: &str) -> String {
    escape::json(serde_json::Value::from(text).to_string())
}

/// Writes `{"type": …, "shape": …, "data": …}`. A block is referenced by its index among the reply's blocks.
pub(crate) fn array(out: &mut dyn Write, array: &HostArray, encoding: Encoding, block: usize) -> io::Result<()> {
    write!(out, "{{\"type\": {}, \"shape\": {:?}, ", string(&array.element().to_string()), array.shape())?;
    match encoding {
        Encoding::Block => write!(out, "\"block\": {block}")?,
        Encoding::Base64 => write!(out, "\"data64\": \"{}\"", base64::encode(array.bytes()))?,
        Encoding::List => {
            out.write_all(b"\"data\": ")?;
            match array.is_empty() {
                // An array without elements is `[]`, however many empty rows it has.
                true => out.write_all(b"[]")?,
                false => nested(out, array.element(), array.shape(), array.bytes())?,
            }
        }
    }
    out.write_all(b"}")
}

fn nested(out: &mut dyn Write, element: &Element, shape: &[usize], bytes: &[u8]) -> io::Result<()> {
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

fn one(out: &mut dyn Write, element: &Element, bytes: &[u8]) -> io::Result<()> {
    match element {
        Element::Scalar(ty) => scalar(out, *ty, bytes),
        Element::Vector(ty, lanes) => {
            out.write_all(b"[")?;
            for (at, lane) in bytes.chunks_exact(ty.size()).take(usize::from(*lanes)).enumerate() {
                out.write_all(if at > 0 { b", " } else { b"" })?;
                scalar(out, *ty, lane)?;
            }
            out.write_all(b"]")
        }
        Element::Record(layout) => record(out, layout, &layout.layout.leaves, bytes),
    }
}

/// Writes a struct or tuple. `leaves` are the scalar components of the outermost record: the offsets of an inner one count from
/// there.
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
            (Element::Record(inner), _) => record(out, inner, own, bytes)?,
            (plain, Some(leaf)) => {
                one(out, plain, bytes.get(leaf.offset..leaf.offset + plain.size()).unwrap_or(&[]))?;
            }
            (_, None) => out.write_all(b"null")?,
        }
    }
    out.write_all(close.as_bytes())
}

/// Writes the shortest decimal number that reads back as the same value.
fn scalar(out: &mut dyn Write, ty: Scalar, bytes: &[u8]) -> io::Result<()> {
    let value = scalar::Value::from_bytes(ty, bytes);
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
