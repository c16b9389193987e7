//! What belongs to this user alone: folders, files, peers of sockets.

use std::fs;
use std::path::Path;

/// Makes a folder with access for its owner alone, unless it is there; one of another user, or one that others may write, is
/// refused. `Err` says why.
#[cfg(unix)]
pub(crate) fn folder(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};
    let why = |error: std::io::Error| super::disk::reason(&error);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(why)?;
    let data = fs::metadata(folder).map_err(why)?;
    if !data.is_dir() {
        return Err("it is not a folder".into());
    }
    if data.uid() != own_user() {
        return Err("it belongs to another user".into());
    }
    if data.mode() & 0o022 != 0 {
        return Err("other users may write there".into());
    }
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn folder(folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| super::disk::reason(&error))
}

/// The user that this process acts as.
#[cfg(unix)]
pub(crate) fn own_user() -> u32 {
    // SAFETY: it only asks.
    unsafe { libc::geteuid() }
}

/// A plain file of this user that nobody else may write.
#[cfg(unix)]
pub(crate) fn is_own(data: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    data.is_file() && data.uid() == own_user() && data.mode() & 0o022 == 0
}

#[cfg(not(unix))]
pub(crate) fn is_own(data: &fs::Metadata) -> bool {
    data.is_file()
}

/// The user at the other end of a connection, as the system saw it when it was made.
#[cfg(target_os = "linux")]
pub(crate) fn peer(stream: &std::os::unix::net::UnixStream) -> std::io::Result<u32> {
    use std::os::fd::AsRawFd;
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the call fills a structure of the size that it is told, which lives until it returns.
    let answered =
        unsafe { libc::getsockopt(stream.as_raw_fd(), level, option, (&raw mut found).cast(), &raw mut size) };
    if answered == 0 { Ok(found.uid) } else { Err(std::io::Error::last_os_error()) }
}

/// The user at the other end of a connection, as the system saw it when it was made.
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) fn peer(stream: &std::os::unix::net::UnixStream) -> std::io::Result<u32> {
    use std::os::fd::AsRawFd;
    let (mut user, mut group) = (0, 0);
    // SAFETY: the call fills two numbers that live until it returns.
    let answered = unsafe { libc::getpeereid(stream.as_raw_fd(), &raw mut user, &raw mut group) };
    if answered == 0 { Ok(user) } else { Err(std::io::Error::last_os_error()) }
}

/// Waits until something can be read, or for so long.
#[cfg(unix)]
pub(crate) fn wait_readable(descriptor: std::os::fd::RawFd, most: std::time::Duration) {
    let mut asked = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: the call reads and writes one structure that lives until it returns. Whatever it says, who asked looks again.
    unsafe { libc::poll(&raw mut asked, 1, most.as_millis() as libc::c_int) };
}
