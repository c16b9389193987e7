//! File formats as pure functions between bytes and values.
//!
//! Files are untrusted: every size in a header is checked against the length of the file before anything is allocated, and
//! error messages contain the numbers in question.

pub(crate) mod csv;
mod file;
mod items;
mod kind;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod png;
pub(crate) mod python;
pub(crate) mod safetensors;
mod sniff;
pub(crate) mod zip;

use self::file::File;
pub(crate) use self::file::text;
use self::items::Items;
pub(crate) use self::kind::Format;
use crate::host::array::Array;
use crate::host::problem::Outcome;
use crate::host::value::Value;

/// Decodes a file: an array (or a scalar), or a [`Value::Table`] of named ones. `name` is the path as the user wrote it.
pub fn decode(name: &str, bytes: &[u8]) -> Outcome<Value> {
    let format = Format::of(name)?;
    let file = File { name, bytes };
    file.check_kind(format)?;
    match format {
        Format::Npy => npy::decode(&file).and_then(scalar_or_array),
        Format::Npz => npz::decode(&file),
        Format::SafeTensors => safetensors::decode(&file),
        Format::Csv => csv::decode(&file),
        Format::Png => png::decode(&file).map(Value::Array),
    }
}

/// Returns the uncompressed size of the content of a compressed file in bytes; `None` for uncompressed formats.
pub fn unpacked(name: &str, bytes: &[u8]) -> Outcome<Option<u64>> {
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

/// Converts an array of rank 0 to its element.
fn scalar_or_array(array: Array) -> Outcome<Value> {
    Ok(match array.item(0)? {
        Some(item) if array.rank() == 0 => item,
        _ => Value::Array(array),
    })
}
