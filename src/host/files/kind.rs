//! [`FileFormat`]: the file formats of `load` and `save`.

use crate::problem::{HostResult, RuntimeError};

/// The formats of `load` and `save`, determined by the file name extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Npy,
    Npz,
    SafeTensors,
    Csv,
    Text,
    MatrixMarket,
    Json,
    Png,
    Apng,
    Jpeg,
    Wav,
}

/// The extensions of each format without the dot. Messages name the first one.
const EXTENSIONS: [(FileFormat, &[&str]); 11] = [
    (FileFormat::Npy, &["npy"]),
    (FileFormat::Npz, &["npz"]),
    (FileFormat::SafeTensors, &["safetensors"]),
    (FileFormat::Csv, &["csv"]),
    (FileFormat::Text, &["txt"]),
    (FileFormat::MatrixMarket, &["mtx"]),
    (FileFormat::Json, &["json"]),
    (FileFormat::Png, &["png"]),
    (FileFormat::Apng, &["apng"]),
    (FileFormat::Jpeg, &["jpg", "jpeg"]),
    (FileFormat::Wav, &["wav"]),
];

impl FileFormat {
    /// Returns the first extension of the format, without the dot.
    pub fn extension(self) -> &'static str {
        let names = EXTENSIONS.iter().find(|(format, _)| *format == self).map(|(_, names)| *names);
        names.and_then(<[_]>::first).copied().unwrap_or("")
    }

    /// Returns whether a file without bytes is valid: it contains no numbers.
    pub fn may_be_empty(self) -> bool {
        matches!(self, FileFormat::Csv | FileFormat::Text)
    }

    /// Returns whether the members of a file are read when a program uses them.
    pub fn is_archive(self) -> bool {
        matches!(self, FileFormat::Npz | FileFormat::SafeTensors)
    }

    /// Returns the format for a file name, ignoring case.
    pub fn of(name: &str) -> HostResult<FileFormat> {
        let extension = match name.rsplit_once('.') {
            Some((_, extension)) if !extension.contains(['/', '\\']) => extension,
            _ => "",
        };
        let has_extension = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(extension));
        let format = EXTENSIONS.iter().find(|(_, names)| has_extension(names));
        format.map(|(format, _)| *format).ok_or_else(|| unknown_format(name, extension))
    }
}

fn unknown_format(name: &str, extension: &str) -> RuntimeError {
    let formats = EXTENSIONS.map(|(format, _)| format!(".{}", format.extension())).join(", ");
    let problem = match extension {
        "" => RuntimeError::new("E0710", format!("the name `{name}` does not say which format the file has")),
        _ => RuntimeError::new("E0710", format!("files ending in `.{extension}` have a format that Clk does not know")),
    };
    let hint = match extension.to_ascii_lowercase().as_str() {
        "gif" | "bmp" | "webp" | "tif" | "tiff" => Some("convert the picture to .png"),
        "pt" | "pth" | "bin" | "ckpt" | "onnx" | "gguf" => Some("save the tensors as .safetensors"),
        "tsv" | "dat" | "md" | "log" => Some(
            "`read_text(path)` and `write_text(path, text)` are for text; numbers in columns are a .txt file if spaces \
             separate them, or a .csv file: rename it",
        ),
        "mp3" | "flac" | "ogg" | "aiff" => Some("convert the sound to .wav"),
        "h5" | "hdf5" | "mat" | "parquet" | "pkl" | "pickle" => Some("save the arrays with numpy as .npy or .npz"),
        _ => None,
    };
    let problem = problem.note(format!("the formats are {formats}"));
    hint.into_iter().fold(problem, RuntimeError::help)
}
