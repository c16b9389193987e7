//! Checks whether directories, files and socket peers belong to this user alone.

use std::fs;
use std::path::Path;

use clk_base::file_error::FileError;

/// Creates a directory with mode 0700 unless it exists. Returns `Err` if it belongs to another user or others can write
/// to it.
#[cfg(unix)]
pub(crate) fn create_private_directory(folder: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let data = fs::metadata(folder)?;
    if !data.is_dir() {
        return Err(FileError::Refused("it is not a folder"));
    }
    if data.uid() != effective_user() {
        return Err(FileError::Refused("it belongs to another user"));
    }
    if data.mode() & 0o022 != 0 {
        return Err(FileError::Refused("other users may write there"));
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn create_private_directory(folder: &Path) -> Result<(), FileError> {
    Ok(fs::create_dir_all(folder)?)
}

/// Returns the effective user ID.
#[cfg(unix)]
pub(crate) fn effective_user() -> u32 {
    // SAFETY: the call has no preconditions.
    unsafe { libc::geteuid() }
}

/// Whether this is a regular file of this user that no other user can write.
#[cfg(unix)]
pub(crate) fn is_own_file(data: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    data.is_file() && data.uid() == effective_user() && data.mode() & 0o022 == 0
}

#[cfg(not(unix))]
pub(crate) fn is_own_file(data: &fs::Metadata) -> bool {
    data.is_file()
}

/// Returns the user ID of a connection's peer, as recorded when it connected.
#[cfg(target_os = "linux")]
pub(crate) fn peer_user(stream: &std::os::unix::net::UnixStream) -> std::io::Result<u32> {
    use std::os::fd::AsRawFd;
    let mut credentials = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the call fills a structure of the given size that lives until it returns.
    let answered =
        unsafe { libc::getsockopt(stream.as_raw_fd(), level, option, (&raw mut credentials).cast(), &raw mut size) };
    if answered == 0 { Ok(credentials.uid) } else { Err(std::io::Error::last_os_error()) }
}

/// Returns the user ID of a connection's peer, as recorded when it connected.
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn peer_user(stream: &std::os::unix::net::UnixStream) -> std::io::Result<u32> {
    use std::os::fd::AsRawFd;
    let (mut user, mut group) = (0, 0);
    // SAFETY: the call fills two numbers that live until it returns.
    let answered = unsafe { libc::getpeereid(stream.as_raw_fd(), &raw mut user, &raw mut group) };
    if answered == 0 { Ok(user) } else { Err(std::io::Error::last_os_error()) }
}

/// Waits until the descriptor is readable, at most for `most`.
#[cfg(unix)]
pub(crate) fn wait_readable(descriptor: std::os::fd::RawFd, most: std::time::Duration) {
    let mut request = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: the structure lives until the call returns. The result is not needed, because the caller checks again.
    unsafe { libc::poll(&raw mut request, 1, most.as_millis() as libc::c_int) };
}
