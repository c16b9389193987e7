//! Folders and files for a moment. In: nothing that others could choose. Out: a folder with mode 0700 and a random name, made
//! anew; it goes away with its owner.
//!
//! The folder for temporary files is everybody's. Nothing in it is trusted, no name in it is foreseeable, and nothing that is
//! there already is opened.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::reason;
use crate::app::leftovers::Leftover;

/// A private folder. It goes away also where a signal ends the process.
pub(crate) struct Folder(TempDir, #[expect(dead_code, reason = "kept for as long as the folder is there")] Leftover);

impl Folder {
    /// Makes one in the system's folder for temporary files; `Err` says why it cannot.
    pub fn new() -> Result<Folder, String> {
        Folder::within(&std::env::temp_dir())
    }

    fn within(parent: &Path) -> Result<Folder, String> {
        refuse_replaceable(parent).map_err(|why| format!("in `{}`, {why}", parent.display()))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix("clk-").rand_bytes(12);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let made = builder.tempdir_in(parent);
        let folder = made.map_err(|error| format!("in `{}`, {}", parent.display(), reason(&error)))?;
        let leftover = Leftover::new(folder.path());
        Ok(Folder(folder, leftover))
    }

    /// A new file in it with this content, for its owner alone.
    pub fn file(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.0.path().join(name);
        let written = new_private_file(&path).and_then(|mut file| file.write_all(bytes));
        written.map(|()| path).map_err(|error| reason(&error))
    }
}

/// In a folder that others may write without the sticky bit, they can put another folder in the place of ours.
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

/// A file that was not there before, for its owner alone. A link of this name is not followed.
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
