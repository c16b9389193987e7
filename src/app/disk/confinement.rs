//! Restricts this process to the files of one folder. Each call of an MCP tool runs in such a process, because its
//! program is not trusted.
//!
//! Input: a path that a program or a client has named. Output: permission to use it. Symbolic links are resolved first.
//! A refusal does not depend on whether the path exists, so that a program cannot search for files.

use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

use clk_base::file_error::FileError;

const OUTSIDE: FileError = FileError::Refused("it is outside of the root folder");
const NO_ROOT: FileError = FileError::Refused("no files may be read, because `--root` names no folder");
const NO_WRITE: FileError = FileError::Refused("no files may be written without `--write`");

/// The files that a confined process may use.
#[derive(Debug)]
pub(crate) struct Confinement {
    /// The only folder whose files may be read, without symbolic links; `None` for no files.
    pub root: Option<PathBuf>,
    /// Whether files in the root may be written.
    pub may_write: bool,
    /// A path and the text that is read for it. No such file needs to exist.
    pub stand_in: Option<(PathBuf, String)>,
}

static CONFINEMENT: OnceLock<Confinement> = OnceLock::new();

/// Confines this process until it ends. Later calls have no effect.
pub(crate) fn confine(confinement: Confinement) {
    let _ = CONFINEMENT.set(confinement);
}

pub(crate) fn is_confined() -> bool {
    CONFINEMENT.get().is_some()
}

/// Returns the text that this process reads instead of a file.
pub(super) fn stand_in(path: &Path) -> Option<&'static str> {
    CONFINEMENT.get()?.stand_in.as_ref().filter(|(name, _)| name == path).map(|(_, text)| text.as_str())
}

/// Returns an error if this process must not read a path.
pub(crate) fn check_read(path: &Path) -> Result<(), FileError> {
    CONFINEMENT.get().map_or(Ok(()), |confinement| confinement.check_read(path))
}

/// Returns an error if this process must not write a file.
pub(super) fn check_write(path: &Path) -> Result<(), FileError> {
    CONFINEMENT.get().map_or(Ok(()), |confinement| confinement.check_write(path))
}

/// Returns whether this process may learn whether a path exists.
pub(crate) fn is_visible(path: &Path) -> bool {
    check_read(path).is_ok()
}

impl Confinement {
    fn check_read(&self, path: &Path) -> Result<(), FileError> {
        let root = self.root.as_ref().ok_or(NO_ROOT)?;
        if is_within(root, path) { Ok(()) } else { Err(OUTSIDE) }
    }

    fn check_write(&self, path: &Path) -> Result<(), FileError> {
        self.check_read(path)?;
        if self.may_write { Ok(()) } else { Err(NO_WRITE) }
    }
}

/// Returns whether a path is in a folder, which has no symbolic links. If a path does not exist, its existing part must
/// be in the folder, and the rest must not lead out of it.
fn is_within(root: &Path, path: &Path) -> bool {
    for existing in path.ancestors() {
        let named = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
        if let Ok(resolved) = std::fs::canonicalize(named) {
            let rest = path.strip_prefix(existing).unwrap_or(path);
            let stays = rest.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
            return stays && resolved.starts_with(root);
        }
        // A link whose target cannot be resolved, although the link itself exists.
        if std::fs::symlink_metadata(named).is_ok_and(|data| data.is_symlink()) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn paths_outside_of_the_root_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let base = fs::canonicalize(folder.path()).expect("resolved");
        let root = base.join("top");
        fs::create_dir_all(root.join("deep/er")).expect("folders");
        fs::create_dir(base.join("top2")).expect("a folder whose name begins with that of the root");
        for file in ["secret", "top/a", "top/deep/b", "top2/c"] {
            fs::write(base.join(file), "text").expect("written");
        }
        let confinement = Confinement { root: Some(root.clone()), may_write: false, stand_in: None };
        let allowed = |path: &str| confinement.check_read(&root.join(path)).is_ok();
        for inside in ["", "a", "new", "deep/../a", "deep/er/../b", "deep/new/file", "./a"] {
            assert!(allowed(inside), "{inside}");
        }
        for outside in ["..", "../secret", "../new", "deep/../../secret", "../top2/c", "new/../../secret", "new/.."] {
            assert!(!allowed(outside), "{outside}");
        }
        assert!(!allowed("/etc/passwd") && !allowed("/"));
        assert_eq!(confinement.check_write(&root.join("a")).map_err(|why| why.to_string()), Err(NO_WRITE.to_string()));
        let writes = Confinement { root: Some(root.clone()), may_write: true, stand_in: None };
        assert!(writes.check_write(&root.join("new")).is_ok() && writes.check_write(&base.join("new")).is_err());
        let nothing = Confinement { root: None, may_write: true, stand_in: None };
        assert!(nothing.check_read(&root.join("a")).is_err() && nothing.check_write(&root.join("a")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn symbolic_links_that_leave_the_root_are_refused() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().expect("a folder");
        let base = fs::canonicalize(folder.path()).expect("resolved");
        let root = base.join("top");
        fs::create_dir_all(root.join("deep")).expect("folders");
        fs::write(base.join("secret"), "text").expect("written");
        fs::write(root.join("a"), "text").expect("written");
        for (target, link) in [
            ("../secret", "out"),
            ("..", "up"),
            ("../missing", "dangling"),
            ("a", "in"),
            ("circle", "circle"),
            ("deep", "folder"),
        ] {
            symlink(target, root.join(link)).expect("a link");
        }
        for (path, allowed) in [
            ("in", true),
            ("folder/new", true),
            ("out", false),
            ("up/secret", false),
            ("up/top/a", true),
            ("up/new", false),
            ("dangling", false),
            ("dangling/x", false),
            ("circle", false),
        ] {
            assert_eq!(is_within(&root, &root.join(path)), allowed, "{path}");
        }
    }
}
