//! Short-lived files and directories (partially written files, sockets, private directories), removed however the process ends,
//! unless it is killed by SIGKILL.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// The longest wait for a thread that makes a file while the process ends.
const MOMENT: Duration = Duration::from_millis(200);

static NAMES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Registration of a short-lived file or directory. Its owner removes the file itself; dropping this only ends the registration.
#[derive(Debug)]
pub(crate) struct Leftover(PathBuf);

impl Leftover {
    pub fn new(path: &Path) -> Leftover {
        Leftover::listed(&mut names(), path)
    }

    /// Makes a file or directory and registers it. The process cannot end in between.
    pub fn make<T>(make: impl FnOnce() -> io::Result<T>, path: impl FnOnce(&T) -> &Path) -> io::Result<(T, Leftover)> {
        let mut names = names();
        let made = make()?;
        let leftover = Leftover::listed(&mut names, path(&made));
        Ok((made, leftover))
    }

    fn listed(names: &mut Vec<PathBuf>, path: &Path) -> Leftover {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        names.push(path.clone());
        Leftover(path)
    }
}

fn names() -> MutexGuard<'static, Vec<PathBuf>> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for Leftover {
    fn drop(&mut self) {
        let mut names = names();
        if let Some(at) = names.iter().position(|name| *name == self.0) {
            names.swap_remove(at);
        }
    }
}

/// Removes all registered files. The process ends next: no thread can register more. A thread that is stuck while it makes a file, as on a
/// network file system, does not keep the process from ending.
pub(crate) fn remove() {
    let until = Instant::now() + MOMENT;
    loop {
        match NAMES.try_lock() {
            Ok(names) => return remove_last(names),
            Err(TryLockError::Poisoned(names)) => return remove_last(names.into_inner()),
            Err(TryLockError::WouldBlock) if Instant::now() > until => return,
            Err(TryLockError::WouldBlock) => std::thread::sleep(MOMENT / 100),
        }
    }
}

fn remove_last(names: MutexGuard<'_, Vec<PathBuf>>) {
    remove_these(&names);
    std::mem::forget(names);
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
