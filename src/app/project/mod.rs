//! Projects. A project is a folder with a `clk.toml`, which lists the other projects that its programs may import.
//! Input: the folder of an importing file, and the name of a module. Output: the file of the module. A dependency is a
//! local folder, or a commit of a Git repository that `clk.lock` pins. Only `clk fetch` downloads commits, to the
//! cache. The imports of a dependency are resolved by its own `clk.toml` and `clk.lock`.

mod git;
mod lock;
mod manifest;

use std::path::{Path, PathBuf};

pub(crate) use self::git::{checkout, fetch};
pub(crate) use self::lock::LockFile;
use self::manifest::WRONG;
pub(crate) use self::manifest::{DependencySource, Manifest, project_name_error};
use super::disk::{self, confinement};
use clk_base::diag::Diagnostic;
use clk_base::source::SourceMap;
use clk_compile::MissingModule;

/// The diagnostic code for a Git dependency that has not been fetched.
pub(crate) const UNFETCHED: &str = "E0731";
/// The diagnostic code for an import whose project is not among the dependencies.
const ABSENT: &str = "E0294";

pub(crate) const MANIFEST: &str = "clk.toml";
pub(crate) const LOCK: &str = "clk.lock";

/// A project that was read from disk.
pub(crate) struct Project {
    pub folder: PathBuf,
    pub manifest: Manifest,
}

/// The diagnostics of a project's files, with the sources to which they refer.
pub(crate) struct ProjectErrors {
    pub diagnostics: Vec<Diagnostic>,
    pub sources: SourceMap,
}

impl ProjectErrors {
    /// Returns the first error and its location on one line.
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

/// Returns the project folder for a folder: the nearest folder with a `clk.toml` among this folder and its parents. The
/// result is relative if the argument is, so that a file has the same path in all imports.
pub(crate) fn folder_of(folder: &Path) -> Option<PathBuf> {
    // A file name without a folder refers to the current folder.
    let start = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let absolute = std::path::absolute(start).ok()?;
    // A confined process does not search outside of its root.
    let mut folders = absolute.ancestors().take_while(|above| confinement::is_visible(above));
    let ups = folders.position(|above| above.join(MANIFEST).is_file())?;
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
pub(crate) fn read(folder: &Path) -> Result<Project, ProjectErrors> {
    let path = folder.join(MANIFEST);
    let mut sources = SourceMap::default();
    let text = match disk::read_source(&path) {
        Ok(text) => text,
        Err(why) => {
            let diagnostic = Diagnostic::error(WRONG, format!("`{}` cannot be read: {why}", path.display()));
            let help = "a project has a `clk.toml` with its name; `clk new NAME` makes one";
            return Err(ProjectErrors { diagnostics: vec![diagnostic.help(help)], sources });
        }
    };
    let file = sources.add(path.display().to_string(), text.as_str());
    match manifest::parse(file, &text) {
        Ok(manifest) => Ok(Project { folder: folder.to_path_buf(), manifest }),
        Err(diagnostics) => Err(ProjectErrors { diagnostics, sources }),
    }
}

/// Whether the project in `folder` depends on the project in the folder `on`. Returns true if the `clk.toml` cannot be
/// read.
pub(crate) fn depends_on(folder: &Path, on: &Path) -> bool {
    let Ok(project) = read(folder) else { return true };
    let on = std::fs::canonicalize(on).ok();
    project.manifest.dependencies.iter().any(|(_, source)| match source {
        DependencySource::Path(path) => std::fs::canonicalize(folder.join(path)).ok() == on,
        DependencySource::Git { .. } => false,
    })
}

/// Returns the pins in a project's `clk.lock`. There are none if the file does not exist.
pub(crate) fn read_pins(folder: &Path) -> Result<LockFile, ProjectErrors> {
    let path = folder.join(LOCK);
    if !path.is_file() {
        return Ok(LockFile::default());
    }
    let mut sources = SourceMap::default();
    let manifest = disk::read_source(&path)
        .map_err(|why| vec![Diagnostic::error(WRONG, format!("`{}` cannot be read: {why}", path.display()))]);
    let parsed = manifest.and_then(|text| {
        let file = sources.add(path.display().to_string(), text.as_str());
        lock::parse(file, &text)
    });
    parsed.map_err(|diagnostics| ProjectErrors { diagnostics, sources })
}

/// Returns the file of a module that a file in `folder` imports; `words` are the parts of the module's name. `None` if
/// the folder is not in a project.
pub(crate) fn module(words: &[&str], folder: &Path) -> Option<Result<PathBuf, MissingModule>> {
    let root = folder_of(folder)?;
    let (name, rest) = words.split_first()?;
    Some(find_module(name, rest, &root))
}

fn find_module(name: &str, rest: &[&str], root: &Path) -> Result<PathBuf, MissingModule> {
    let wrong =
        |wrong: ProjectErrors| MissingModule { code: WRONG, title: wrong.line(), help: "mend that file first".into() };
    let project = read(root).map_err(wrong)?;
    let manifest = root.join(MANIFEST);
    let (home, own) = if name == project.manifest.name {
        (root.to_path_buf(), project.manifest.name)
    } else {
        let Some((_, source)) = project.manifest.dependencies.iter().find(|(known, _)| known == name) else {
            return Err(unknown(name, &project.manifest, &manifest));
        };
        let home = dependency_folder(name, source, root)?;
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
    Err(MissingModule { code: ABSENT, title, help })
}

/// Returns the folder of a dependency; an error if it does not exist or was not fetched.
fn dependency_folder(name: &str, source: &DependencySource, root: &Path) -> Result<PathBuf, MissingModule> {
    let absent = |title: String, help: &str| MissingModule { code: ABSENT, title, help: help.into() };
    match source {
        DependencySource::Path(path) => {
            let home = root.join(path);
            confinement::check_read(&home).map_err(|why| {
                absent(format!("the dependency `{name}` cannot be read: {why}"), "move it into the root")
            })?;
            let title = || format!("the dependency `{name}` has no folder `{}`", home.display());
            if home.is_dir() { Ok(home) } else { Err(absent(title(), "give its location in `clk.toml`: `path = …`")) }
        }
        // Fetched projects are in the cache, which a confined process must not read.
        DependencySource::Git { .. } if confinement::is_confined() => {
            let help = "`clk mcp` reads no fetched projects: copy it into the root, and give its location (`path = …`)";
            Err(absent(format!("the dependency `{name}` is outside of the root folder"), help))
        }
        DependencySource::Git { url, wanted } => {
            let lock = read_pins(root).map_err(|w| MissingModule {
                code: WRONG,
                title: w.line(),
                help: "run `clk fetch`".into(),
            })?;
            let pin = lock.find(name, url, wanted);
            let pin =
                pin.ok_or_else(|| absent(format!("the dependency `{name}` is not pinned yet"), "run `clk fetch`"))?;
            let title = || format!("the dependency `{name}` has not been fetched");
            checkout(url, &pin.commit).ok_or_else(|| absent(title(), "run `clk fetch`"))
        }
    }
}

fn unknown(name: &str, manifest: &Manifest, path: &Path) -> MissingModule {
    let candidates = manifest.dependencies.iter().map(|(name, _)| name.as_str()).chain([manifest.name.as_str()]);
    let title = format!("`{name}` is not a dependency in `{}`", path.display());
    let help = super::suggestions::did_you_mean(name, candidates).unwrap_or_else(|| {
        format!("add it below `[dependencies]`: `{name} = {{ path = \"../{name}\" }}`, or import the file: `import \"./{name}.clk\" as {name}`")
    });
    MissingModule { code: ABSENT, title, help }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_folder_with_a_manifest_is_the_root() {
        let folder = tempfile::tempdir().expect("a folder");
        let deep = folder.path().join("a/b");
        std::fs::create_dir_all(&deep).expect("folders");
        std::fs::write(folder.path().join(MANIFEST), "name = \"x\"").expect("written");
        assert_eq!(folder_of(&deep).as_deref(), Some(folder.path()));
        assert_eq!(folder_of(folder.path()).as_deref(), Some(folder.path()));
    }
}
