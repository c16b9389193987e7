//! Detection of a file's type by its first bytes, for the error message when the extension does not match.

use crate::files::kind::FileFormat;

pub(crate) struct FileSignature {
    /// What the file is, for messages: "a PNG picture", "zstd-compressed".
    pub name: &'static str,
    /// The formats of Clk whose files begin in this way; empty if Clk cannot read files of this type.
    pub formats: &'static [FileFormat],
}

/// First bytes of known file types, each with its signature.
const KINDS: &[(&[u8], FileSignature)] = &[
    (b"\x93NUMPY", FileSignature { name: "a NumPy array", formats: &[FileFormat::Npy] }),
    (b"PK\x03\x04", FileSignature { name: "a zip archive", formats: &[FileFormat::Npz] }),
    (b"PK\x05\x06", FileSignature { name: "an empty zip archive", formats: &[FileFormat::Npz] }),
    (b"\x89PNG", FileSignature { name: "a PNG picture", formats: &[FileFormat::Png, FileFormat::Apng] }),
    (b"\xff\xd8\xff", FileSignature { name: "a JPEG picture", formats: &[FileFormat::Jpeg] }),
    (b"GIF8", FileSignature { name: "a GIF picture", formats: &[] }),
    (b"%%MatrixMarket", FileSignature { name: "a Matrix Market file", formats: &[FileFormat::MatrixMarket] }),
    (b"II*\0", FileSignature { name: "a TIFF picture", formats: &[] }),
    (b"MM\0*", FileSignature { name: "a TIFF picture", formats: &[] }),
    (b"%PDF", FileSignature { name: "a PDF document", formats: &[] }),
    (b"\x1f\x8b", FileSignature { name: "gzip-compressed", formats: &[] }),
    (b"BZh", FileSignature { name: "bzip2-compressed", formats: &[] }),
    (b"\x28\xb5\x2f\xfd", FileSignature { name: "zstd-compressed", formats: &[] }),
    (b"\xfd7zXZ", FileSignature { name: "xz-compressed", formats: &[] }),
    (b"\x89HDF", FileSignature { name: "an HDF5 file", formats: &[] }),
    (b"PAR1", FileSignature { name: "a Parquet file", formats: &[] }),
    (b"GGUF", FileSignature { name: "a GGUF model", formats: &[] }),
    (b"\x7fELF", FileSignature { name: "a program", formats: &[] }),
    (b"\x80\x02", FileSignature { name: "a Python pickle", formats: &[] }),
    (b"\x80\x03", FileSignature { name: "a Python pickle", formats: &[] }),
    (b"\x80\x04", FileSignature { name: "a Python pickle", formats: &[] }),
    (b"\x80\x05", FileSignature { name: "a Python pickle", formats: &[] }),
    (b"<!DOCTYPE", FileSignature { name: "a web page", formats: &[] }),
    (b"<!doctype", FileSignature { name: "a web page", formats: &[] }),
    (b"<html", FileSignature { name: "a web page", formats: &[] }),
    (b"<?xml", FileSignature { name: "an XML file", formats: &[] }),
    (
        b"version https://git-lfs",
        FileSignature { name: "a Git LFS pointer (fetch it with `git lfs pull`)", formats: &[] },
    ),
];

/// Returns the type of a file if its first bytes are known.
pub(crate) fn detect_signature(bytes: &[u8]) -> Option<&'static FileSignature> {
    // A safetensors file starts with the length of the header, whose upper bytes are 0, followed by `{`.
    let is_safetensors = bytes.get(8) == Some(&b'{') && bytes.get(6..8) == Some(&[0, 0]);
    if is_safetensors {
        return Some(&FileSignature { name: "a safetensors file", formats: &[FileFormat::SafeTensors] });
    }
    // The type of a RIFF file follows its length.
    if bytes.starts_with(b"RIFF") {
        return Some(match bytes.get(8..12) {
            Some(b"WAVE") => &FileSignature { name: "a WAV sound", formats: &[FileFormat::Wav] },
            Some(b"WEBP") => &FileSignature { name: "a WebP picture", formats: &[] },
            _ => &FileSignature { name: "a RIFF file", formats: &[] },
        });
    }
    KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, kind)| kind)
}
