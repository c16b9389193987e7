//! Dependencies from Git repositories, by the installed `git`. Input: an address and what is wanted of it. Output: the commit, whose
//! files lie in the cache under its hash. A checkout appears there complete or not at all, and is never changed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::lock::{self, Pin};
use crate::app::leftovers::Leftover;
use crate::app::{cache, disk, private};

/// Returns the folder of a checkout, which need not exist; `None` without a cache folder.
pub(crate) fn checkout(url: &str, commit: &str) -> Option<PathBuf> {
    Some(checkouts(&cache::folder()?, url).join(commit))
}

/// All checkouts of one address. Each character that a file name may not have is replaced by its number.
fn checkouts(cache: &Path, url: &str) -> PathBuf {
    let mut name = String::new();
    for byte in url.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            _ => name += &format!("%{byte:02x}"),
        }
    }
    cache.join("projects").join(name)
}

/// Makes sure that a dependency is in the cache; returns its commit. `known` is the pinned commit. `root` is the folder to which
/// an address that is a path is relative.
pub(crate) fn fetch(url: &str, wanted: &str, known: Option<&str>, root: &Path) -> Result<Pin, String> {
    let cache = cache::folder().ok_or("there is no folder for a cache: set `CLK_CACHE_DIR`, or `HOME`")?;
    let pin = |commit: &str| Pin { url: url.into(), wanted: wanted.into(), commit: commit.into() };
    let home = checkouts(&cache, url);
    if let Some(commit) = known.filter(|commit| home.join(commit).is_dir()) {
        return Ok(pin(commit));
    }
    // Marks the cache as such, or refuses a folder that is none.
    cache::Cache::open(&cache).map_err(|refusal| refusal.diagnostic(&cache).title)?;
    private::folder(&cache.join("projects"))?;
    private::folder(&home)?;
    let scratch = tempfile::tempdir_in(&home).map_err(|error| disk::reason(&error))?;
    let _leftover = Leftover::new(scratch.path());
    let clone = scratch.path().join("clone");
    // No links: a file of a project cannot stand for one elsewhere.
    let words =
        ["clone", "--quiet", "--no-checkout", "--config", "core.symlinks=false", "--config", "core.autocrlf=false"];
    let from = address(url, root);
    git(Command::new("git").args(words).arg("--").arg(&from).arg(&clone))?;
    let inside = || {
        let mut command = Command::new("git");
        command.arg("-C").arg(&clone);
        command
    };
    let commit = match known {
        Some(commit) => commit.to_owned(),
        None => {
            let revision = revision(wanted);
            let words = ["rev-parse", "--quiet", "--verify", "--end-of-options", &format!("{revision}^{{commit}}")];
            let found = git(inside().args(words)).map_err(|_| format!("the repository has no {wanted}"))?;
            found.trim().to_owned()
        }
    };
    if !lock::is_hash(&commit) {
        return Err(format!("`git` answered `{commit}` instead of a commit"));
    }
    git(inside().args(["checkout", "--quiet", "--detach", &commit]))?;
    let place = home.join(&commit);
    if !place.is_dir() {
        // Another process may have put the same files there meanwhile.
        std::fs::rename(&clone, &place)
            .or_else(|error| if place.is_dir() { Ok(()) } else { Err(disk::reason(&error)) })?;
    }
    Ok(pin(&commit))
}

/// What `clk.toml` asks for, as Git names it in a fresh clone.
fn revision(wanted: &str) -> String {
    match wanted.split_once(' ') {
        Some(("branch", name)) => format!("refs/remotes/origin/{name}"),
        Some(("tag", name)) => format!("refs/tags/{name}"),
        Some((_, name)) => name.to_owned(),
        None => wanted.to_owned(),
    }
}

/// An address without a scheme or a host is a path, relative to the project's folder.
fn address(url: &str, root: &Path) -> PathBuf {
    if url.contains(':') { PathBuf::from(url) } else { root.join(url) }
}

/// Runs `git`, which asks for nothing; returns its output, or its last words.
fn git(command: &mut Command) -> Result<String, String> {
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    let output = command.env("GIT_TERMINAL_PROMPT", "0").env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => "the program `git` is not installed".into(),
        _ => format!("`git` does not start: {}", disk::reason(&error)),
    })?;
    if output.status.success() {
        return String::from_utf8(output.stdout).map_err(|_| "`git` did not answer in UTF-8".into());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it failed without a word");
    Err(format!("git: {}", last.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_folder() {
        let place = checkouts(Path::new("/c"), "https://a.b/../c");
        assert_eq!(place, Path::new("/c/projects/https%3a%2f%2fa%2eb%2f%2e%2e%2fc"));
    }
}
