//! Detection of a file's type by its first bytes, for the error message when the extension does not match.

use crate::host::files::kind::Format;

pub(crate) struct Kind {
    /// The name with its article.
    pub name: &'static str,
    /// The formats as which Clk reads it.
    pub formats: &'static [Format],
}

/// First bytes of known file types.
const KINDS: &[(&[u8], Kind)] = &[
    (b"\x93NUMPY", Kind { name: "a NumPy array", formats: &[Format::Npy] }),
    (b"PK\x03\x04", Kind { name: "a zip archive", formats: &[Format::Npz] }),
    (b"PK\x05\x06", Kind { name: "an empty zip archive", formats: &[Format::Npz] }),
    (b"\x89PNG", Kind { name: "a PNG picture", formats: &[Format::Png] }),
    (b"\xff\xd8\xff", Kind { name: "a JPEG picture", formats: &[] }),
    (b"GIF8", Kind { name: "a GIF picture", formats: &[] }),
    (b"RIFF", Kind { name: "a WebP picture or a sound", formats: &[] }),
    (b"II*\0", Kind { name: "a TIFF picture", formats: &[] }),
    (b"MM\0*", Kind { name: "a TIFF picture", formats: &[] }),
    (b"%PDF", Kind { name: "a PDF document", formats: &[] }),
    (b"\x1f\x8b", Kind { name: "gzip-compressed", formats: &[] }),
    (b"BZh", Kind { name: "bzip2-compressed", formats: &[] }),
    (b"\x28\xb5\x2f\xfd", Kind { name: "zstd-compressed", formats: &[] }),
    (b"\xfd7zXZ", Kind { name: "xz-compressed", formats: &[] }),
    (b"\x89HDF", Kind { name: "an HDF5 file", formats: &[] }),
    (b"PAR1", Kind { name: "a Parquet file", formats: &[] }),
    (b"GGUF", Kind { name: "a GGUF model", formats: &[] }),
    (b"\x7fELF", Kind { name: "a program", formats: &[] }),
    (b"\x80\x02", Kind { name: "a Python pickle", formats: &[] }),
    (b"\x80\x03", Kind { name: "a Python pickle", formats: &[] }),
    (b"\x80\x04", Kind { name: "a Python pickle", formats: &[] }),
    (b"\x80\x05", Kind { name: "a Python pickle", formats: &[] }),
    (b"<!DOCTYPE", Kind { name: "a web page", formats: &[] }),
    (b"<!doctype", Kind { name: "a web page", formats: &[] }),
    (b"<html", Kind { name: "a web page", formats: &[] }),
    (b"<?xml", Kind { name: "an XML file", formats: &[] }),
    (b"version https://git-lfs", Kind { name: "a Git LFS pointer (fetch it with `git lfs pull`)", formats: &[] }),
];

/// Returns the kind of a file, if its first bytes are known.
pub(crate) fn kind(bytes: &[u8]) -> Option<&'static Kind> {
    // A safetensors file starts with the header's length (of which the upper bytes are 0), followed by `{`.
    let is_safetensors = bytes.get(8) == Some(&b'{') && bytes.get(6..8) == Some(&[0, 0]);
    if is_safetensors {
        return Some(&Kind { name: "a safetensors file", formats: &[Format::SafeTensors] });
    }
    KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, kind)| kind)
}
