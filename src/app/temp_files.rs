//! A registry of short-lived files and directories: partially written files, sockets, private directories. The process
//! removes them when it ends, unless SIGKILL ends it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// At the end of the process, how long to wait for a thread that is creating a file.
const MAX_WAIT: Duration = Duration::from_millis(200);

static NAMES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Registration of a short-lived file or directory. The owner removes the file; dropping this only removes it from the
/// registry.
#[derive(Debug)]
pub(crate) struct TempFileRegistration(PathBuf);

impl TempFileRegistration {
    pub fn new(path: &Path) -> TempFileRegistration {
        TempFileRegistration::listed(&mut names(), path)
    }

    /// Creates a file or directory and registers it. The process cannot end between the two steps.
    pub fn make<T>(
        make: impl FnOnce() -> io::Result<T>,
        path: impl FnOnce(&T) -> &Path,
    ) -> io::Result<(T, TempFileRegistration)> {
        let mut names = names();
        let created = make()?;
        let leftover = TempFileRegistration::listed(&mut names, path(&created));
        Ok((created, leftover))
    }

    fn listed(names: &mut Vec<PathBuf>, path: &Path) -> TempFileRegistration {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        names.push(path.clone());
        TempFileRegistration(path)
    }
}

fn names() -> MutexGuard<'static, Vec<PathBuf>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for TempFileRegistration {
    fn drop(&mut self) {
        let mut names = names();
        if let Some(at) = names.iter().position(|name| *name == self.0) {
            names.swap_remove(at);
        }
    }
}

/// Removes all registered files before the process ends. The registry stays locked, so that no thread can register
/// another file. If a thread hangs while it creates a file, for example on a network file system, waits only briefly.
pub(crate) fn remove_all() {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match NAMES.try_lock() {
            Ok(names) => return remove_last(names),
            Err(TryLockError::Poisoned(names)) => return remove_last(names.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() > deadline => return,
            Err(TryLockError::WouldBlock) => std::thread::sleep(MAX_WAIT / 100),
        }
    }
}

fn remove_last(names: MutexGuard<'_, Vec<PathBuf>>) {
    remove_files(&names);
    std::mem::forget(names);
}

/// Like [`remove_all`], but returns at once if the registry is locked. Signal handlers need this because they must not
/// block.
pub(crate) fn remove_if_free() {
    if let Ok(names) = NAMES.try_lock() {
        remove_files(&names);
    }
}

fn remove_files(names: &[PathBuf]) {
    for name in names {
        // `remove_dir_all` does not follow symbolic links.
        if std::fs::remove_file(name).is_err() {
            let _ = std::fs::remove_dir_all(name);
        }
    }
}
