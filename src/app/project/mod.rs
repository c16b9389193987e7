//! Projects: a folder with a `clk.toml`, which names the projects that its programs import. Input: the folder of an importing
//! file. Output: the file of a module. A dependency is a folder beside it or a commit of a Git repository, which only `clk fetch`
//! downloads, into the cache; `clk.lock` pins the commit. Each project is resolved by its own two files, also as a dependency.

mod git;
mod lock;
mod manifest;

use std::path::{Path, PathBuf};

pub(crate) use self::git::{checkout, fetch};
pub(crate) use self::lock::Lock;
use self::manifest::WRONG;
pub(crate) use self::manifest::{Manifest, Source, name_problem};
use super::disk;
use crate::base::diag::Diagnostic;
use crate::base::source::Sources;
use crate::compile::Missing;

/// The code of a dependency that cannot be fetched.
pub(crate) const UNFETCHED: &str = "E0731";
/// The code of an import whose dependency is not there.
const ABSENT: &str = "E0294";

pub(crate) const MANIFEST: &str = "clk.toml";
pub(crate) const LOCK: &str = "clk.lock";

/// A project on the disk.
pub(crate) struct Project {
    pub folder: PathBuf,
    pub manifest: Manifest,
}

/// Diagnostics of a project's files, with their texts.
pub(crate) struct Wrong {
    pub diagnostics: Vec<Diagnostic>,
    pub sources: Sources,
}

impl Wrong {
    /// Returns the first complaint with its place, as one line.
    fn line(&self) -> String {
        let Some(first) = self.diagnostics.first() else { return String::new() };
        match first.primary() {
            Some(span) => {
                let (line, column) = self.sources.line_column(span);
                format!("{}:{line}:{column}: {}", self.sources.name(span.file), first.title)
            }
            None => first.title.clone(),
        }
    }
}

/// Returns the folder of the project that a folder belongs to: it or the nearest one above with a `clk.toml`. The path is relative
/// if the folder's is, so that a file has the same path however it is imported.
pub(crate) fn folder_of(folder: &Path) -> Option<PathBuf> {
    // A file without a folder in its name lies in the current one.
    let start = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let absolute = std::path::absolute(start).ok()?;
    let ups = absolute.ancestors().position(|above| above.join(MANIFEST).is_file())?;
    let mut result = folder.to_path_buf();
    for _ in 0..ups {
        match result.components().next_back() {
            Some(std::path::Component::Normal(_)) => drop(result.pop()),
            _ => result.push(".."),
        }
    }
    Some(result)
}

/// Reads the `clk.toml` of a folder.
pub(crate) fn read(folder: &Path) -> Result<Project, Wrong> {
    let path = folder.join(MANIFEST);
    let mut sources = Sources::default();
    let text = match disk::read_source(&path) {
        Ok(text) => text,
        Err(why) => {
            let diagnostic = Diagnostic::error(WRONG, format!("`{}` cannot be read: {why}", path.display()));
            let help = "a project has a `clk.toml` with its name; `clk new NAME` makes one";
            return Err(Wrong { diagnostics: vec![diagnostic.help(help)], sources });
        }
    };
    let file = sources.add(path.display().to_string(), text.as_str());
    match manifest::parse(file, &text) {
        Ok(manifest) => Ok(Project { folder: folder.to_path_buf(), manifest }),
        Err(diagnostics) => Err(Wrong { diagnostics, sources }),
    }
}

/// Whether a project lists another one by its folder. One whose `clk.toml` cannot be read may.
pub(crate) fn depends(folder: &Path, on: &Path) -> bool {
    let Ok(project) = read(folder) else { return true };
    let on = std::fs::canonicalize(on).ok();
    project.manifest.dependencies.iter().any(|(_, source)| match source {
        Source::Path(path) => std::fs::canonicalize(folder.join(path)).ok() == on,
        Source::Git { .. } => false,
    })
}

/// Returns what a project's `clk.lock` pins; nothing if there is none.
pub(crate) fn pins(folder: &Path) -> Result<Lock, Wrong> {
    let path = folder.join(LOCK);
    if !path.is_file() {
        return Ok(Lock::default());
    }
    let mut sources = Sources::default();
    let found = disk::read_source(&path)
        .map_err(|why| vec![Diagnostic::error(WRONG, format!("`{}` cannot be read: {why}", path.display()))]);
    let parsed = found.and_then(|text| {
        let file = sources.add(path.display().to_string(), text.as_str());
        lock::parse(file, &text)
    });
    parsed.map_err(|diagnostics| Wrong { diagnostics, sources })
}

/// Returns the file of the module `words` as imported by a file in a folder; `None` if there is no project.
pub(crate) fn module(words: &[&str], folder: &Path) -> Option<Result<PathBuf, Missing>> {
    let root = folder_of(folder)?;
    let (name, rest) = words.split_first()?;
    Some(found(name, rest, &root))
}

fn found(name: &str, rest: &[&str], root: &Path) -> Result<PathBuf, Missing> {
    let wrong = |wrong: Wrong| Missing { code: WRONG, title: wrong.line(), help: "mend that file first".into() };
    let project = read(root).map_err(wrong)?;
    let manifest = root.join(MANIFEST);
    let (home, own) = if name == project.manifest.name {
        (root.to_path_buf(), project.manifest.name)
    } else {
        let Some((_, source)) = project.manifest.dependencies.iter().find(|(known, _)| known == name) else {
            return Err(unknown(name, &project.manifest, &manifest));
        };
        let home = place(name, source, root)?;
        let dependency = read(&home).map_err(wrong)?;
        (home, dependency.manifest.name)
    };
    let mut file = home;
    match rest {
        [] => file.push(own),
        parts => file.extend(parts),
    }
    file.set_extension("clk");
    if file.is_file() {
        return Ok(file);
    }
    let title = format!("`{}` has no module `{}`", name, [&[name], rest].concat().join("."));
    let help = format!("there is no file `{}`", file.display());
    Err(Missing { code: ABSENT, title, help })
}

/// Returns the folder of a dependency, if it is there.
fn place(name: &str, source: &Source, root: &Path) -> Result<PathBuf, Missing> {
    let absent = |title: String, help: &str| Missing { code: ABSENT, title, help: help.into() };
    match source {
        Source::Path(path) => {
            let home = root.join(path);
            let title = || format!("the dependency `{name}` has no folder `{}`", home.display());
            if home.is_dir() { Ok(home) } else { Err(absent(title(), "`clk.toml` says where it is: `path = …`")) }
        }
        Source::Git { url, wanted } => {
            let lock =
                pins(root).map_err(|w| Missing { code: WRONG, title: w.line(), help: "run `clk fetch`".into() })?;
            let pin = lock.find(name, url, wanted);
            let pin =
                pin.ok_or_else(|| absent(format!("the dependency `{name}` is not pinned yet"), "run `clk fetch`"))?;
            let title = || format!("the dependency `{name}` has not been fetched");
            checkout(url, &pin.commit).ok_or_else(|| absent(title(), "run `clk fetch`"))
        }
    }
}

fn unknown(name: &str, manifest: &Manifest, path: &Path) -> Missing {
    let known = manifest.dependencies.iter().map(|(name, _)| name.as_str()).chain([manifest.name.as_str()]);
    let title = format!("`{name}` is no dependency in `{}`", path.display());
    let help = super::names::did_you_mean(name, known).unwrap_or_else(|| {
        format!("add it below `[dependencies]`: `{name} = {{ path = \"../{name}\" }}`, or import the file: `import \"./{name}.clk\" as {name}`")
    });
    Missing { code: ABSENT, title, help }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_folder_with_a_manifest() {
        let folder = tempfile::tempdir().expect("a folder");
        let deep = folder.path().join("a/b");
        std::fs::create_dir_all(&deep).expect("folders");
        std::fs::write(folder.path().join(MANIFEST), "name = \"x\"").expect("written");
        assert_eq!(folder_of(&deep).as_deref(), Some(folder.path()));
        assert_eq!(folder_of(folder.path()).as_deref(), Some(folder.path()));
    }
}
