//! The formats that `load` and `save` know.

use crate::host::problem::{Outcome, Problem};

/// The formats of `load` and `save`, determined by the file name extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Npy,
    Npz,
    SafeTensors,
    Csv,
    Png,
}

impl Format {
    pub const ALL: [Format; 5] = [Format::Npy, Format::Npz, Format::SafeTensors, Format::Csv, Format::Png];

    /// Returns the extension without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::SafeTensors => "safetensors",
            Format::Csv => "csv",
            Format::Png => "png",
        }
    }

    /// Returns the format for a file name, ignoring case.
    pub fn of(name: &str) -> Outcome<Format> {
        let extension = match name.rsplit_once('.') {
            Some((_, extension)) if !extension.contains(['/', '\\']) => extension,
            _ => "",
        };
        let found = Format::ALL.into_iter().find(|f| f.extension().eq_ignore_ascii_case(extension));
        found.ok_or_else(|| unknown_format(name, extension))
    }
}

fn unknown_format(name: &str, extension: &str) -> Problem {
    let known = Format::ALL.map(|f| format!(".{}", f.extension())).join(", ");
    let problem = match extension {
        "" => Problem::new("E0710", format!("the name `{name}` does not say which format the file has")),
        _ => Problem::new("E0710", format!("files ending in `.{extension}` are of no format that Clk knows")),
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
    let problem = problem.note(format!("the formats are {known}"));
    hint.into_iter().fold(problem, Problem::help)
}
