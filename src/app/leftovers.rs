//! Short-lived files and directories (partially written files, sockets, private directories), removed however the process ends,
//! unless it is killed by SIGKILL.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static NAMES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Registration of a short-lived file or directory. Its owner removes the file itself; dropping this only ends the registration.
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

/// Removes all registered files before the process ends.
pub(crate) fn remove() {
    remove_these(&NAMES.lock().unwrap_or_else(PoisonError::into_inner));
}

/// The same without blocking, for signal handlers: does nothing if the list is locked.
pub(crate) fn remove_if_free() {
    if let Ok(names) = NAMES.try_lock() {
        remove_these(&names);
    }
}

fn remove_these(names: &[PathBuf]) {
    for name in names {
        // `remove_dir_all` removes symbolic links and does not follow them.
        if std::fs::remove_file(name).is_err() {
            let _ = std::fs::remove_dir_all(name);
        }
    }
}
