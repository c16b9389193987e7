//! Private temporary directories: created anew with mode 0700 under a random name, removed when dropped.
//!
//! The system's temporary directory is shared with other users, so nothing already in it is trusted or opened, and names are
//! unpredictable.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::reason;
use crate::app::leftovers::Leftover;

/// A private temporary directory, also removed if a signal ends the process.
pub(crate) struct Folder(TempDir, #[expect(dead_code, reason = "kept for as long as the folder is there")] Leftover);

impl Folder {
    /// Creates one in the system's temporary directory; `Err` is the reason why that fails.
    pub fn new() -> Result<Folder, String> {
        Folder::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> Result<Folder, String> {
        refuse_replaceable(parent).map_err(|why| format!("in `{}`, {why}", parent.display()))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix("clk-").rand_bytes(12);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let made = Leftover::make(|| builder.tempdir_in(parent), |folder| folder.path());
        let (folder, leftover) = made.map_err(|error| format!("in `{}`, {}", parent.display(), reason(&error)))?;
        Ok(Folder(folder, leftover))
    }

    /// Creates a file in it with this content, accessible to the owner only.
    pub fn file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.0.path().join(name);
        let written = new_private_file(&path).and_then(|mut file| file.write_all(bytes));
        written.map(|()| path).map_err(|error| reason(&error))
    }
}

/// Refuses a parent that others can write without the sticky bit: they could replace our directory by another.
#[cfg(unix)]
fn refuse_replaceable(parent: &Path) -> Result<(), String> {
    use std::os::unix::fs::MetadataExt;
    let data = std::fs::metadata(parent).map_err(|error| reason(&error))?;
    let sticky = data.mode() & 0o1000 != 0;
    if data.mode() & 0o022 != 0 && !sticky {
        return Err("other users may replace what is there (it lacks the sticky bit)".into());
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_replaceable(_: &Path) -> Result<(), String> {
    Ok(())
}

/// Creates a file with mode 0600; fails if the name exists, even as a symbolic link.
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
    fn a_folder_is_new_private_and_goes_away() {
        let parent = tempfile::tempdir().expect("a folder");
        let one = Folder::within(parent.path()).expect("a folder");
        let other = Folder::within(parent.path()).expect("a folder");
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
    fn a_folder_in_which_others_may_put_things_in_our_place_is_refused() {
        let parent = tempfile::tempdir().expect("a folder");
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o777)).expect("open");
        assert!(Folder::within(parent.path()).is_err_and(|why| why.contains("sticky")));
        fs::set_permissions(parent.path(), fs::Permissions::from_mode(0o1777)).expect("open");
        assert!(Folder::within(parent.path()).is_ok());
    }
}
