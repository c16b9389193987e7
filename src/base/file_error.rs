//! Errors of files, in the wording of Clk's diagnostics. Each message is a clause for the end of a sentence that names
//! the file.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a file or folder cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("{}", io_reason(.0))]
    Io(#[from] io::Error),
    /// Clk does not use files of this kind, or with this content or owner.
    #[error("{0}")]
    Refused(&'static str),
    #[error("it is not UTF-8 (at byte {0})")]
    NotUtf8(usize),
    /// The maximum size is in MiB.
    #[error("it is larger than {0} MiB (data can be kept in a file of its own, which `load` reads)")]
    TooLarge(u64),
    #[error("the folder `{}` does not exist", .0.display())]
    NoFolder(PathBuf),
    #[error("in `{}`, {error}", folder.display())]
    InFolder { folder: PathBuf, error: Box<FileError> },
}

fn io_reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "it is a folder".into(),
        io::ErrorKind::NotADirectory => "a part of the path is not a folder".into(),
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_lowercase()
        }
    }
}
