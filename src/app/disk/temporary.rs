//! Private temporary directories: each has mode 0700 and a random name, and is removed when it is dropped.
//!
//! Other users can write to the system's temporary directory, so Clk opens nothing that already exists in it, and its
//! names are unpredictable.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::temp_files::TempFileRegistration;
use clk_base::file_error::FileError;

/// A private temporary directory, also removed if a signal ends the process.
pub(crate) struct TempFolder(
    TempDir,
    #[expect(dead_code, reason = "kept for as long as the folder is there")] TempFileRegistration,
);

impl TempFolder {
    /// Creates a directory in the system's temporary directory.
    pub fn new() -> Result<TempFolder, FileError> {
        TempFolder::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> Result<TempFolder, FileError> {
        let inside = |error| FileError::InFolder { folder: parent.into(), error: Box::new(error) };
        reject_replaceable_parent(parent).map_err(inside)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix("clk-").rand_bytes(12);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let created = TempFileRegistration::make(|| builder.tempdir_in(parent), |folder| folder.path());
        let (folder, leftover) = created.map_err(|error| inside(error.into()))?;
        Ok(TempFolder(folder, leftover))
    }

    /// Creates a file with this content in the directory. Only the owner can access it.
    pub fn file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, FileError> {
        let path = self.0.path().join(name);
        new_private_file(&path)?.write_all(bytes)?;
        Ok(path)
    }
}

/// Rejects a parent directory that others can write to, unless it has the sticky bit. Otherwise, they could replace the
/// new directory by another one.
#[cfg(unix)]
fn reject_replaceable_parent(parent: &Path) -> Result<(), FileError> {
    use std::os::unix::fs::MetadataExt;
    let data = std::fs::metadata(parent)?;
    let sticky = data.mode() & 0o1000 != 0;
    if data.mode() & 0o022 != 0 && !sticky {
        return Err(FileError::Refused("other users may replace its files (it lacks the sticky bit)"));
    }
    Ok(())
}

#[cfg(not(unix))]
fn reject_replaceable_parent(_: &Path) -> Result<(), FileError> {
    Ok(())
}

/// Creates a file with mode 0600. Fails if the name exists, even as a symbolic link.
fn new_private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn folder_is_new_private_and_removed_at_the_end() {
        let parent = tempfile::tempdir().expect("a folder");
        let one = TempFolder::within(parent.path()).expect("a folder");
        let other = TempFolder::within(parent.path()).expect("a folder");
        assert_ne!(one.0.path(), other.0.path());
        assert_eq!(fs::metadata(one.0.path()).expect("there").mode() & 0o777, 0o700);
        let file = one.file("entry.clk", b"text").expect("written");
        assert_eq!(fs::metadata(&file).expect("there").mode() & 0o777, 0o600);
        assert!(one.file("entry.clk", b"again").is_err(), "nothing is written over");
        let link = one.0.path().join("link.clk");
        std::os::unix::fs::symlink(parent.path().join("victim"), &link).expect("a link");
        assert!(one.file("link.clk", b"through").is_err() && !parent.path().join("victim").exists());
        drop((one, other));
        assert_eq!(fs::read_dir(parent.path()).expect("listed").count(), 0);
    }

    #[test]
    fn replaceable_parent_folder_is_rejected() {
        let parent = tempfile::tempdir().expect("a folder");
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o777)).expect("open");
        assert!(TempFolder::within(parent.path()).is_err_and(|why| why.to_string().contains("sticky")));
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o1777)).expect("open");
        assert!(TempFolder::within(parent.path()).is_ok());
    }
}
