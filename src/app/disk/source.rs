//! Reads the source text of a program.

use std::path::Path;

use super::open::{contents, open};

/// Maximum size of a source file in bytes. A larger file is probably data, and compiling it would need about a hundred
/// times its size in memory.
pub(crate) const MAX_SOURCE: u64 = 16 << 20;

/// Reads a source file; `Err` is the reason why it cannot be read.
pub(crate) fn read_source(path: &Path) -> Result<String, String> {
    source_text(contents(open(path)?, MAX_SOURCE + 1)?)
}

/// Decodes the bytes of a program; `Err` is the reason why they are not a valid source text.
pub(crate) fn source_text(mut bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() as u64 > MAX_SOURCE {
        let most = MAX_SOURCE >> 20;
        return Err(format!(
            "it is larger than {most} MiB (data can be kept in a file of its own, which `load` reads)"
        ));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    String::from_utf8(bytes).map_err(|e| format!("it is not UTF-8 (at byte {})", e.utf8_error().valid_up_to()))
}
