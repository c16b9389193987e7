//! Restricts this process to the files of one folder. Each call of an MCP tool runs in such a process, because its
//! program is not trusted.
//!
//! Input: a path that a program or a client has named. Output: permission to use it. Symbolic links are resolved first.
//! A refusal does not depend on whether the path exists, so that a program cannot search for files.

use std::ffi::OsString;
use std::io::ErrorKind;
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

/// Maximum number of symbolic links to follow for one path.
const MAX_LINKS: usize = 40;

/// Returns whether a path is in a folder, which has no symbolic links. Relative paths begin at the folder. The path
/// need not exist. No prefix of it may leave the folder, not even if the rest leads back: nothing outside is looked at,
/// so the result says nothing about the files there.
fn is_within(root: &Path, path: &Path) -> bool {
    let mut links = 0;
    // The parts that are not resolved yet, last first.
    let mut parts: Vec<OsString> = vec![];
    let mut folder = root.to_path_buf();
    let Some(rest) = below(root, path) else { return false };
    push_parts(&mut parts, rest);
    while let Some(part) = parts.pop() {
        if part == ".." {
            if folder == root || !folder.pop() {
                return false;
            }
            continue;
        }
        let next = folder.join(&part);
        let data = match std::fs::symlink_metadata(&next) {
            Ok(data) => data,
            // The rest does not exist either.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return parts.iter().all(|part| part != "..");
            }
            // A relative path may be short enough to be opened although this one is too long.
            Err(_) => return false,
        };
        if !data.is_symlink() {
            folder = next;
            continue;
        }
        links += 1;
        let Ok(target) = std::fs::read_link(&next) else { return false };
        if links > MAX_LINKS {
            return false;
        }
        if target.is_absolute() {
            folder = root.to_path_buf();
        }
        let Some(rest) = below(root, &target) else { return false };
        push_parts(&mut parts, rest);
    }
    true
}

/// Returns the rest of a path below a folder, or the path itself if it is relative.
fn below<'a>(root: &Path, path: &'a Path) -> Option<&'a Path> {
    if !path.has_root() && !path.is_absolute() {
        // On Windows, `C:file` is neither.
        return (!path.components().any(|part| matches!(part, Component::Prefix(_)))).then_some(path);
    }
    // A resolved path of Windows has a prefix that other paths do not have.
    let plain = root.to_str().and_then(|root| root.strip_prefix(r"\\?\"));
    path.strip_prefix(root).ok().or_else(|| path.strip_prefix(plain?).ok())
}

/// Adds the parts of a relative path to a list whose last element is the next part.
fn push_parts(parts: &mut Vec<OsString>, path: &Path) {
    let named = path.components().rev().filter(|part| !matches!(part, Component::CurDir));
    parts.extend(named.map(|part| part.as_os_str().to_owned()));
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
        // A path that leaves the root is refused, although it leads back, whether or not the folder outside exists.
        for folder in ["..", "../top2", "../missing"] {
            assert!(!allowed(&format!("{folder}/../top/a")) && !allowed(&format!("{folder}/top/a")), "{folder}");
        }
        let through = |folder: &Path| is_within(&root, &folder.join("..").join("top/a"));
        assert!(!through(&base.join("top2")) && !through(&base.join("missing")));
        assert!(!is_within(&root, Path::new("../top/a")) && is_within(&root, Path::new("deep/../a")));
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
            ("missing", "dangling_inside"),
            ("sub/../../secret", "far"),
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
            ("up/top/a", false),
            ("folder/../a", true),
            ("dangling_inside", true),
            ("far", false),
            ("up/new", false),
            ("dangling", false),
            ("dangling/x", false),
            ("circle", false),
        ] {
            assert_eq!(is_within(&root, &root.join(path)), allowed, "{path}");
        }
    }
}
