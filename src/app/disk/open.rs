//! Opens regular files for reading, and rejects all other kinds of files.
//!
//! Reading a pipe or a terminal can block forever, a device such as `/dev/zero` never ends, and opening some devices
//! has side effects. The file type is checked before opening. It is checked again on the opened handle, because the
//! name may refer to another file by then. `O_NONBLOCK` keeps the opening itself from blocking.

use std::fs::{File, FileType, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::confinement;
use clk_base::file_error::FileError;
use clk_base::{alloc, stop};
use clk_host::files::ByteSource;

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

/// Files of at most this size are read at once, so that they need no open file.
const SMALL: u64 = 1 << 20;

/// Opens a regular file that is read in parts.
pub(crate) fn open_parts(path: &Path) -> Result<Arc<dyn ByteSource>, FileError> {
    let file = open(path)?;
    let metadata = file.metadata()?;
    let (len, modified) = (metadata.len(), metadata.modified().ok());
    match len <= SMALL {
        true => Ok(Arc::new(contents(file, u64::MAX)?)),
        false => Ok(Arc::new(FileParts { file: Mutex::new(file), len, modified })),
    }
}

/// A file that is read in parts. A file that replaces it does not matter, but writes into it do.
struct FileParts {
    file: Mutex<File>,
    /// Length and time of the last write when the file was opened.
    len: u64,
    modified: Option<SystemTime>,
}

impl ByteSource for FileParts {
    fn byte_len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let metadata = file.metadata()?;
        if metadata.len() != self.len || metadata.modified().ok() != self.modified {
            return Err(FileError::Refused("it has changed since it was loaded"));
        }
        file.seek(SeekFrom::Start(offset))?;
        Ok(file.read_exact(into)?)
    }
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

    #[test]
    fn parts_of_a_file_are_those_of_its_first_content() {
        let folder = tempfile::tempdir().expect("a folder");
        for size in [10, SMALL as usize + 10] {
            let path = folder.path().join("a");
            let old: Vec<u8> = (0..size).map(|i| (i % 251) as u8).collect();
            std::fs::write(&path, &old).expect("written");
            let parts = open_parts(&path).expect("open");
            let read = |offset: usize| {
                let mut part = [0; 7];
                parts.read_at(offset as u64, &mut part).map(|()| part)
            };
            assert_eq!((parts.byte_len(), read(3).expect("a part")), (size as u64, [3, 4, 5, 6, 7, 8, 9]));
            assert!(read(size - 6).is_err(), "beyond the end");
            // `save` replaces a file, so that the opened one keeps its content.
            std::fs::write(folder.path().join("b"), b"new").expect("written");
            std::fs::rename(folder.path().join("b"), &path).expect("renamed");
            assert_eq!(read(size - 7).expect("a part"), old[size - 7..]);
        }
    }

    #[test]
    fn a_file_that_changes_in_place_is_not_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a");
        std::fs::write(&path, vec![1; SMALL as usize + 1]).expect("written");
        let parts = open_parts(&path).expect("open");
        std::fs::write(&path, vec![2; SMALL as usize + 2]).expect("written");
        let error = parts.read_at(0, &mut [0]).expect_err("it has changed");
        assert_eq!(error.to_string(), "it has changed since it was loaded");
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
