//! [`FileFormat`]: the file formats of `load` and `save`.

use crate::problem::{HostResult, RuntimeError};

/// The formats of `load` and `save`, determined by the file name extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Npy,
    Npz,
    SafeTensors,
    Csv,
    Png,
}

impl FileFormat {
    pub const ALL: [FileFormat; 5] =
        [FileFormat::Npy, FileFormat::Npz, FileFormat::SafeTensors, FileFormat::Csv, FileFormat::Png];

    /// Returns the extension without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            FileFormat::Npy => "npy",
            FileFormat::Npz => "npz",
            FileFormat::SafeTensors => "safetensors",
            FileFormat::Csv => "csv",
            FileFormat::Png => "png",
        }
    }

    /// Returns the format for a file name, ignoring case.
    pub fn of(name: &str) -> HostResult<FileFormat> {
        let extension = match name.rsplit_once('.') {
            Some((_, extension)) if !extension.contains(['/', '\\']) => extension,
            _ => "",
        };
        let format = FileFormat::ALL.into_iter().find(|f| f.extension().eq_ignore_ascii_case(extension));
        format.ok_or_else(|| unknown_format(name, extension))
    }
}

fn unknown_format(name: &str, extension: &str) -> RuntimeError {
    let formats = FileFormat::ALL.map(|f| format!(".{}", f.extension())).join(", ");
    let problem = match extension {
        "" => RuntimeError::new("E0710", format!("the name `{name}` does not say which format the file has")),
        _ => RuntimeError::new("E0710", format!("files ending in `.{extension}` have a format that Clk does not know")),
    };
    let hint = match extension.to_ascii_lowercase().as_str() {
        "jpg" | "jpeg" | "gif" | "bmp" | "webp" | "tif" | "tiff" => Some("convert the picture to .png"),
        "pt" | "pth" | "bin" | "ckpt" | "onnx" | "gguf" => Some("save the tensors as .safetensors"),
        "txt" | "tsv" | "dat" | "md" | "log" | "json" => Some(
            "`read_text(path)` and `write_text(path, text)` are for text; numbers in columns are a .csv file: rename it",
        ),
        "h5" | "hdf5" | "mat" | "parquet" | "pkl" | "pickle" => Some("save the arrays with numpy as .npy or .npz"),
        _ => None,
    };
    let problem = problem.note(format!("the formats are {formats}"));
    hint.into_iter().fold(problem, RuntimeError::help)
}
