//! Reads the source text of a program.

use std::path::Path;

use super::confinement;
use super::open::{contents, open};
use clk_base::file_error::FileError;

/// Maximum size of a source file in bytes. A larger file is probably data, and compiling it would need about a hundred
/// times its size in memory.
pub(crate) const MAX_SOURCE: u64 = 16 << 20;

/// Reads a source file.
pub(crate) fn read_source(path: &Path) -> Result<String, FileError> {
    if let Some(text) = confinement::stand_in(path) {
        return source_text(text.as_bytes().to_vec());
    }
    source_text(contents(open(path)?, MAX_SOURCE + 1)?)
}

/// Decodes the bytes of a program.
pub(crate) fn source_text(mut bytes: Vec<u8>) -> Result<String, FileError> {
    if bytes.len() as u64 > MAX_SOURCE {
        return Err(FileError::TooLarge(MAX_SOURCE >> 20));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    String::from_utf8(bytes).map_err(|e| FileError::NotUtf8(e.utf8_error().valid_up_to()))
}
