//! Atomic replacement of files: either the complete new content is written, or the old file stays unchanged.
//!
//! The content is written to a temporary file in the same directory, created under a random name. If it replaces a
//! file, it has mode 0600 until it is complete. It then gets the mode and owner of the old file and is renamed.
//! Temporary files left by killed processes are removed first.

use std::fs::{self, Metadata, Permissions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use super::{confinement, stale_files};
use crate::temp_files::TempFileRegistration;
use clk_base::file_error::FileError;
use clk_base::stop;

/// Writes a file atomically. On failure, returns the reason and leaves the old file unchanged.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    confinement::check_write(path)?;
    if path.is_dir() {
        return Err(FileError::Refused("it is a folder"));
    }
    // A device or a pipe, such as `/dev/stdout`, cannot be replaced. The content is written to it directly.
    if path.exists() && !path.is_file() {
        return Ok(fs::File::options().write(true).open(path)?.write_all(bytes)?);
    }
    let path = resolve_link(path)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(FileError::NoFolder(folder.into()));
    }
    path.file_name().ok_or(FileError::Refused("it has no file name"))?;
    let old = fs::metadata(&path).ok();
    if old.is_some() && !is_writable(&path) {
        return Err(FileError::Refused("it is read-only"));
    }
    stale_files::remove_abandoned(folder);
    // Unwinding, as after a stop request, drops the temporary file and thereby removes it. The end of the process
    // removes it too.
    let (mut file, _leftover) =
        TempFileRegistration::make(|| create_temporary(folder, old.is_some()), |file| file.path())?;
    for part in bytes.chunks(stop::POLL_BYTES) {
        stop::poll();
        file.write_all(part)?;
    }
    if let Some(old) = &old {
        file.as_file().set_permissions(permissions_after(file.as_file(), old))?;
    }
    file.persist(&path).map_err(io::Error::from)?;
    Ok(())
}

/// Resolves a symbolic link, so that its target is replaced and the link stays. Like the Linux kernel
/// (`protected_symlinks`), rejects links that another user has created in a directory that others can write to.
fn resolve_link(path: &Path) -> Result<PathBuf, FileError> {
    let Ok(link) = fs::symlink_metadata(path) else { return Ok(path.to_path_buf()) };
    if link.is_symlink() && is_planted(path, &link) {
        let why = "it is a link that another user has put into a folder which everybody may write";
        return Err(FileError::Refused(why));
    }
    Ok(fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()))
}

#[cfg(unix)]
fn is_planted(path: &Path, link: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // If the directory is not accessible, the write fails later with its own message.
    let Ok(folder) = fs::metadata(folder) else { return true };
    folder.mode() & 0o022 != 0 && ![crate::permissions::effective_user(), folder.uid()].contains(&link.uid())
}

#[cfg(not(unix))]
fn is_planted(_: &Path, _: &Metadata) -> bool {
    false
}

/// Whether a file may be written according to its mode. This protects read-only files even from root, which the system
/// lets write them.
#[cfg(unix)]
fn is_writable(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(name) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is zero-terminated and lives until the call returns.
    let allowed = unsafe { libc::faccessat(libc::AT_FDCWD, name.as_ptr(), libc::W_OK, libc::AT_EACCESS) } == 0;
    allowed && fs::metadata(path).is_ok_and(|data| !data.permissions().readonly())
}

#[cfg(not(unix))]
fn is_writable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| !data.permissions().readonly())
}

/// Creates the temporary file. If it replaces a file, other users cannot read it until it has that file's mode;
/// otherwise, its mode follows the umask.
fn create_temporary(folder: &Path, replaces: bool) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    let (start, end) = stale_files::name();
    builder.prefix(&start).suffix(end).rand_bytes(12);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(if replaces { 0o600 } else { 0o666 }));
    builder.tempfile_in(folder)
}

/// Gives the new file the owner and group of the old one, if the system permits; returns the permissions to set.
#[cfg(unix)]
fn permissions_after(file: &fs::File, old: &Metadata) -> Permissions {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let whole = fchown(file, Some(old.uid()), Some(old.gid())).is_ok();
    let has_group = whole || fchown(file, None, Some(old.gid())).is_ok();
    let mode = old.mode() & 0o777;
    // If the group could not be kept, the new group gets at most the permissions that all users had on the old file.
    Permissions::from_mode(if has_group { mode } else { mode & !0o070 | (mode & 0o007) << 3 & mode })
}

#[cfg(not(unix))]
fn permissions_after(_: &fs::File, old: &Metadata) -> Permissions {
    old.permissions()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    fn count(folder: &Path) -> usize {
        fs::read_dir(folder).expect("listed").count()
    }

    #[test]
    fn writes_replace_the_whole_file() {
        let folder = folder();
        let path = folder.path().join("a.npy");
        write_atomically(&path, b"one").expect("written");
        write_atomically(&path, b"two").expect("written");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        assert_eq!(count(folder.path()), 1, "no temporary file is left");
        assert!(
            write_atomically(&folder.path().join("no/a.npy"), b"x")
                .is_err_and(|e| e.to_string().contains("does not exist"))
        );
        assert!(write_atomically(folder.path(), b"x").is_err());
        let longest = folder.path().join("n".repeat(255));
        write_atomically(&longest, b"x").expect("a temporary name is not longer than the name");
    }

    #[cfg(unix)]
    mod on_unix {
        use super::*;
        use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};

        fn mode(path: &Path) -> u32 {
            fs::metadata(path).expect("there").mode() & 0o777
        }

        #[test]
        fn private_file_is_never_readable_by_others() {
            let folder = folder();
            let path = folder.path().join("private");
            for own in [0o600, 0o640, 0o755] {
                fs::write(&path, "old").expect("written");
                fs::set_permissions(&path, Permissions::from_mode(own)).expect("set");
                assert_eq!(
                    mode(create_temporary(folder.path(), true).expect("made").path()),
                    0o600,
                    "while it is written"
                );
                write_atomically(&path, b"new").expect("written");
                assert_eq!(mode(&path), own, "as the old one at the end");
            }
            assert_eq!(count(folder.path()), 1);
        }

        #[test]
        fn read_only_files_and_foreign_links_are_rejected() {
            let folder = folder();
            let path = folder.path().join("a.clk");
            fs::write(&path, "old").expect("written");
            fs::set_permissions(&path, Permissions::from_mode(0o444)).expect("set");
            assert!(matches!(write_atomically(&path, b"new"), Err(FileError::Refused("it is read-only"))));
            assert_eq!(fs::read(&path).expect("read"), b"old");
            fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("set");
            let link = folder.path().join("link");
            symlink(&path, &link).expect("a link");
            write_atomically(&link, b"new").expect("through one's own link");
            assert!(link.is_symlink() && fs::read(&path).expect("read") == b"new");
            if crate::permissions::effective_user() != 0 {
                println!("skipped: only root can make links of another user");
                return;
            }
            lchown(&link, Some(65_534), Some(65_534)).expect("given away");
            write_atomically(&link, b"own").expect("other users cannot put a link here");
            fs::set_permissions(folder.path(), Permissions::from_mode(0o1777)).expect("open");
            assert!(write_atomically(&link, b"bad").is_err_and(|why| why.to_string().contains("another user")));
            assert_eq!(fs::read(&path).expect("read"), b"own");
        }

        #[test]
        fn owner_is_kept_if_permitted() {
            if crate::permissions::effective_user() != 0 {
                println!("skipped: only root can give files away");
                return;
            }
            let folder = folder();
            let path = folder.path().join("theirs");
            fs::write(&path, "old").expect("written");
            lchown(&path, Some(65_534), Some(65_533)).expect("given away");
            write_atomically(&path, b"new").expect("written");
            let data = fs::metadata(&path).expect("there");
            assert_eq!((data.uid(), data.gid()), (65_534, 65_533));
        }

        #[test]
        fn existing_temporary_names_are_not_followed() {
            let folder = folder();
            let (path, victim) = (folder.path().join("a.clk"), folder.path().join("victim"));
            fs::write(&victim, "private").expect("written");
            // A predictable name, which programs use that name temporary files by their process number.
            symlink(&victim, folder.path().join(format!(".a.clk.{}.part", std::process::id()))).expect("a link");
            write_atomically(&path, b"text").expect("written");
            assert_eq!(fs::read(&victim).expect("read"), b"private");
            assert_eq!(fs::read(&path).expect("read"), b"text");
        }
    }
}
