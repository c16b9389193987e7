//! File formats as pure functions between bytes and values.
//!
//! Files are untrusted: every size in a header is checked against the length of the file before anything is allocated,
//! and error messages contain the numbers in question.

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

use self::file::NamedFile;
pub(crate) use self::file::text;
use self::items::SavedItems;
pub(crate) use self::kind::FileFormat;
use crate::array::Array;
use crate::problem::HostResult;
use crate::value::HostValue;

/// Decodes a file. Returns an array or a scalar, or a [`HostValue::Table`] if the format has names. `name` is the path
/// as the user wrote it.
pub fn decode(name: &str, bytes: &[u8]) -> HostResult<HostValue> {
    let format = FileFormat::of(name)?;
    let file = NamedFile { name, bytes };
    file.check_kind(format)?;
    match format {
        FileFormat::Npy => npy::decode(&file).and_then(scalar_or_array),
        FileFormat::Npz => npz::decode(&file),
        FileFormat::SafeTensors => safetensors::decode(&file),
        FileFormat::Csv => csv::decode(&file),
        FileFormat::Png => png::decode(&file).map(HostValue::Array),
    }
}

/// Returns the size in bytes of the content of a file after decompression. Returns `None` for formats without
/// compression.
pub fn uncompressed_size(name: &str, bytes: &[u8]) -> HostResult<Option<u64>> {
    let format = FileFormat::of(name)?;
    let file = NamedFile { name, bytes };
    file.check_kind(format)?;
    if format == FileFormat::Npz { npz::uncompressed_size(&file).map(Some) } else { Ok(None) }
}

/// Encodes values as a file. If the format has names, values without a name are named `arr_0`, `arr_1`, …. A table is
/// replaced by its arrays.
pub fn encode(name: &str, values: &[(Option<&str>, &HostValue)]) -> HostResult<Vec<u8>> {
    let format = FileFormat::of(name)?;
    let items = SavedItems::new(values)?;
    match format {
        FileFormat::Npy => npy::encode(items.single(format)?),
        FileFormat::Npz => npz::encode(&items.arrays(format)?),
        FileFormat::SafeTensors => safetensors::encode(&items.arrays(format)?),
        FileFormat::Csv => csv::encode(&items),
        FileFormat::Png => png::encode(items.single(format)?),
    }
}

/// Converts an array of rank 0 to its element; returns other arrays unchanged.
fn scalar_or_array(array: Array) -> HostResult<HostValue> {
    Ok(match array.item(0)? {
        Some(item) if array.rank() == 0 => item,
        _ => HostValue::Array(array),
    })
}
