//! Opens regular files for reading, and rejects all other kinds of files.
//!
//! Reading a pipe or a terminal can block forever, a device such as `/dev/zero` never ends, and opening some devices
//! has side effects. The file type is checked before opening. It is checked again on the opened handle, because the
//! name may refer to another file by then. `O_NONBLOCK` keeps the opening itself from blocking.

use std::fs::{File, FileType, Metadata};
use std::io::Read;
use std::path::Path;

use super::confinement;
use clk_base::file_error::FileError;
use clk_base::{alloc, stop};

/// Opens a regular file for reading.
pub(crate) fn open(path: &Path) -> Result<File, FileError> {
    confinement::check_read(path)?;
    open_unconfined(path)
}

fn open_unconfined(path: &Path) -> Result<File, FileError> {
    let regular =
        |data: Metadata| if data.is_file() { Ok(()) } else { Err(FileError::Refused(kind(data.file_type()))) };
    regular(std::fs::metadata(path)?)?;
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path)?;
    regular(file.metadata()?)?;
    Ok(file)
}

/// Returns the content of a regular file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, FileError> {
    contents(open(path)?, u64::MAX)
}

/// Returns the content of a file of the operating system that Clk itself needs, also in a confined process.
pub(crate) fn read_system_file(path: &Path) -> Result<Vec<u8>, FileError> {
    contents(open_unconfined(path)?, u64::MAX)
}

/// Returns the content of an open file, at most `most` bytes.
///
/// # Unwinds
/// if the memory cannot be allocated or a stop was requested.
pub(crate) fn contents(file: File, most: u64) -> Result<Vec<u8>, FileError> {
    // The reported length is only an estimate: files in `/proc` report 0, and a file may grow while it is read.
    let length = file.metadata().map_or(0, |data| data.len()).min(most);
    let mut bytes = alloc::vec(usize::try_from(length).unwrap_or(usize::MAX));
    let mut file = file.take(most);
    while file.by_ref().take(stop::POLL_BYTES as u64).read_to_end(&mut bytes)? > 0 {
        stop::poll();
        alloc::reserve(&mut bytes, 1);
    }
    Ok(bytes)
}

/// Returns the kind of a file that is not regular, for messages.
#[cfg(unix)]
fn kind(kind: FileType) -> &'static str {
    use std::os::unix::fs::FileTypeExt;
    match kind {
        kind if kind.is_dir() => "it is a folder",
        kind if kind.is_fifo() => "it is a pipe, and only regular files are read",
        kind if kind.is_socket() => "it is a socket, and only regular files are read",
        _ => "it is a device, and only regular files are read",
    }
}

#[cfg(not(unix))]
fn kind(kind: FileType) -> &'static str {
    if kind.is_dir() { "it is a folder" } else { "it is not a regular file" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_files_are_read_up_to_the_limit() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, "0123456789").expect("written");
        assert_eq!(read(&path).expect("read"), b"0123456789");
        assert_eq!(contents(open(&path).expect("open"), 3).expect("read"), b"012");
        assert!(open(folder.path()).is_err_and(|why| why.to_string().contains("a folder")));
        assert!(open(&folder.path().join("b")).is_err_and(|why| why.to_string().contains("no such file")));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn files_of_unknown_or_infinite_length() {
        assert!(!read(Path::new("/proc/self/status")).expect("a file of /proc").is_empty());
        for device in ["/dev/zero", "/dev/null", "/dev/full"] {
            assert!(open(Path::new(device)).is_err_and(|why| why.to_string().contains("a device")), "{device}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn pipes_and_sockets_are_rejected_without_waiting() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let name = std::ffi::CString::new(pipe.display().to_string()).expect("no zeros");
        // SAFETY: the name is zero-terminated and lives until the call returns.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        assert!(open(&pipe).is_err_and(|why| why.to_string().contains("a pipe")));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).expect("a link");
        assert!(open(&link).is_err_and(|why| why.to_string().contains("a pipe")), "through a link");
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).expect("a socket");
        assert!(open(&socket).is_err_and(|why| why.to_string().contains("a socket")));
    }
}
