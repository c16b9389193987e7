//! File formats as pure functions between bytes and values.
//!
//! Files are untrusted: every size in a header is checked against the length of the file before anything is allocated,
//! and error messages contain the numbers in question.

pub(crate) mod csv;
mod file;
mod items;
mod jpeg;
mod json;
mod json_visitor;
mod kind;
mod matrix_market;
pub(crate) mod npy;
pub(crate) mod npz;
pub(crate) mod png;
pub(crate) mod python;
pub(crate) mod safetensors;
mod sniff;
mod source;
mod wav;
pub(crate) mod zip;

use std::sync::Arc;

use self::file::NamedFile;
pub(crate) use self::file::text;
use self::items::SavedItems;
pub(crate) use self::kind::FileFormat;
pub use self::source::ByteSource;
use self::source::OpenArchive;
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;

/// Number of first bytes that suffice to detect the type of a file.
const SIGNATURE_LEN: u64 = 32;

/// Decodes a file. Returns an array, a scalar or texts, or a [`HostValue::Table`] if the format has names. `name` is
/// the path as the user wrote it.
pub fn decode(name: &str, bytes: &[u8]) -> HostResult<HostValue> {
    let format = FileFormat::of(name)?;
    let file = NamedFile { name, bytes };
    file.check_kind(format)?;
    match format {
        FileFormat::Npy => npy::decode(&file).and_then(file::scalar_or_array),
        FileFormat::Npz => npz::decode(&file),
        FileFormat::SafeTensors => safetensors::decode(&file),
        FileFormat::Csv => csv::decode(&file),
        FileFormat::Text => csv::decode_text(&file),
        FileFormat::MatrixMarket => matrix_market::decode(&file),
        FileFormat::Json => json::decode(&file),
        FileFormat::Png | FileFormat::Apng => png::decode(&file, format).map(HostValue::Array),
        FileFormat::Jpeg => jpeg::decode(&file).map(HostValue::Array),
        FileFormat::Wav => wav::decode(&file),
    }
}

/// Returns whether a file is an archive, which [`open_archive`] reads in parts.
pub(crate) fn is_archive(name: &str) -> bool {
    FileFormat::of(name).is_ok_and(FileFormat::is_archive)
}

/// Like [`decode`], but reads each member of an archive only when its elements are first used. The arrays of the result
/// keep `source` alive until they have been read.
pub fn open_archive(name: &str, source: Arc<dyn ByteSource>) -> HostResult<HostValue> {
    let format = FileFormat::of(name)?;
    let archive = OpenArchive { name: name.into(), source };
    let file = archive.file();
    let first = file.read(0, SIGNATURE_LEN.min(file.byte_len()))?.unwrap_or_default();
    NamedFile { name, bytes: &first }.check_kind(format)?;
    match format {
        FileFormat::Npz => npz::open(&archive),
        FileFormat::SafeTensors => safetensors::open(&archive),
        _ => decode(name, &file.read(0, file.byte_len())?.unwrap_or_default()),
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
        FileFormat::Text => csv::encode_text(items.single(format)?),
        FileFormat::MatrixMarket => matrix_market::encode(&items),
        FileFormat::Json => json::encode(&items),
        FileFormat::Png | FileFormat::Apng => png::encode(&items, format),
        FileFormat::Jpeg => Err(RuntimeError::new("E0715", "Clk writes no JPEG pictures")
            .help("save the picture as .png, which keeps all pixels")),
        FileFormat::Wav => wav::encode(&items),
    }
}
