//! Files that are there only while something is done: parts of files that are being written, sockets, private folders. In: their
//! names. Out: none of them is left, however the process ends that has a say in it.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static NAMES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A file or folder that is there as long as this is; whoever holds it removes it.
#[derive(Debug)]
pub(crate) struct Leftover(PathBuf);

impl Leftover {
    pub fn new(path: &Path) -> Leftover {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        NAMES.lock().unwrap_or_else(PoisonError::into_inner).push(path.clone());
        Leftover(path)
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = names.iter().position(|name| *name == self.0) {
            names.swap_remove(at);
        }
    }
}

/// Removes all of them, before the process ends.
pub(crate) fn remove() {
    remove_these(&NAMES.lock().unwrap_or_else(PoisonError::into_inner));
}

/// The same where nothing can be waited for.
pub(crate) fn remove_if_free() {
    if let Ok(names) = NAMES.try_lock() {
        remove_these(&names);
    }
}

fn remove_these(names: &[PathBuf]) {
    for name in names {
        // Links in a folder are removed and not followed.
        if std::fs::remove_file(name).is_err() {
            let _ = std::fs::remove_dir_all(name);
        }
    }
}
