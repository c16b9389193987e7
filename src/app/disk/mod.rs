//! File access: reads sources, suggests names for missing files, and lists programs. All files are opened through
//! [`open()`] (reading), [`mod@replace`] (writing) and [`temporary`] (short-lived files). [`confinement`] can restrict
//! the first two to a folder.

pub(crate) mod confinement;
mod open;
mod replace;
pub(crate) mod source;
mod stale_files;
pub(crate) mod temporary;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{cuda_files, project, suggestions};
use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_base::source::SourceMap;
use clk_compile::{Files, LoadedFile, MissingModule};
use clk_import::ImportOptions;

pub(crate) use self::confinement::{Confinement, check_read, confine, is_confined, is_visible};
pub(crate) use self::open::{contents, open, open_parts, read, read_system_file};
pub(crate) use self::replace::write_atomically;
pub(crate) use self::source::{MAX_SOURCE, read_source, source_text};

/// The diagnostic code of a source file that cannot be read.
pub(crate) const CODE: &str = "E0701";

/// The file system of this machine.
pub(crate) struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<String, FileError> {
        read_source(path)
    }

    fn load(&self, path: &Path, sources: &mut SourceMap) -> Result<LoadedFile, FileError> {
        DiskWithCuda(&ImportOptions::default()).load(path, sources)
    }

    fn module(&self, words: &[&str], folder: &Path) -> Option<Result<PathBuf, MissingModule>> {
        project::module(words, folder)
    }
}

/// Like [`Disk`], but reads imported CUDA files with these options.
pub(crate) struct DiskWithCuda<'o>(pub(crate) &'o ImportOptions);

impl Files for DiskWithCuda<'_> {
    fn read(&self, path: &Path) -> Result<String, FileError> {
        Disk.read(path)
    }

    fn load(&self, path: &Path, sources: &mut SourceMap) -> Result<LoadedFile, FileError> {
        match cuda_files::is_cuda_file(path) {
            true => cuda_files::load_module(path, self.0, &read_source, sources),
            false => Ok(LoadedFile::of_text(path, self.read(path)?, sources)),
        }
    }

    fn module(&self, words: &[&str], folder: &Path) -> Option<Result<PathBuf, MissingModule>> {
        Disk.module(words, folder)
    }
}

/// Converts a path written by a user: expands a leading `~` to the home directory. `./~` is a directory named `~`.
pub(crate) fn path_of(written: &str) -> PathBuf {
    let home = || std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
    match written.strip_prefix('~').filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        Some(rest) => home().map_or_else(|| PathBuf::from(written), |home| home.join(rest.trim_start_matches('/'))),
        None => PathBuf::from(written),
    }
}

/// Returns the diagnostic for a source file that cannot be read, with a suggestion of a similar file name.
pub(crate) fn unreadable(path: &Path, why: &FileError) -> Diagnostic {
    let mut diagnostic = Diagnostic::error(CODE, format!("`{}` cannot be read: {why}", path.display()));
    if !is_visible(path) {
        return diagnostic;
    }
    if path.is_dir() {
        return diagnostic
            .help(format!("give a `.clk` file; `clk test {}` runs the tests of a whole folder", path.display()));
    }
    if path.exists() {
        // Whether the path is a pipe or a device, as in `clk run <(…)` or `clk run /dev/stdin`.
        let special = !path.is_file();
        return if special { diagnostic.help("`clk run -` reads a program from standard input") } else { diagnostic };
    }
    let with_extension = path.with_extension("clk");
    if path.extension().is_none() && with_extension.is_file() {
        return diagnostic.help(format!("did you mean `{}`?", with_extension.display()));
    }
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return diagnostic.note(format!("the folder `{}` does not exist", folder.display()));
    }
    let entries: Vec<String> = sources_in(folder);
    let file_name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(meant) = suggestions::did_you_mean(&file_name, entries.iter().map(String::as_str)) {
        diagnostic = diagnostic.help(meant);
    } else if !entries.is_empty() {
        let shown: Vec<String> = entries.iter().take(6).map(|e| format!("`{e}`")).collect();
        let more = if entries.len() > 6 { ", …" } else { "" };
        diagnostic = diagnostic.note(format!("in `{}` there are {}{more}", folder.display(), shown.join(", ")));
    }
    diagnostic
}

/// Returns the diagnostic for a directory that cannot be listed.
pub(crate) fn unlisted(folder: &Path, why: &FileError) -> Diagnostic {
    Diagnostic::error(CODE, format!("the folder `{}` cannot be read: {why}", folder.display()))
        .note("the programs in it are left out")
}

/// Returns the diagnostic for a file that cannot be written.
pub(crate) fn unwritable(path: &Path, why: &FileError) -> Diagnostic {
    Diagnostic::error("E0702", format!("`{}` cannot be written: {why}", path.display()))
}

fn sources_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".clk"))
        .collect();
    names.sort();
    names
}

/// Programs found in a directory tree.
#[derive(Debug, Default)]
pub(crate) struct FoundPrograms {
    /// The `.clk` files, sorted.
    pub programs: Vec<PathBuf>,
    /// Directories that could not be listed.
    pub unread: Vec<(PathBuf, FileError)>,
}

/// Finds all `.clk` files in a directory tree, except in hidden directories and `target`.
pub(crate) fn programs(folder: &Path) -> FoundPrograms {
    let mut result = FoundPrograms::default();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let listed = list(&folder, &mut folders, &mut result.programs);
        result.unread.extend(listed.err().map(|error| (folder, error.into())));
    }
    result.programs.sort();
    result
}

fn list(folder: &Path, folders: &mut Vec<PathBuf>, programs: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let hidden = name.to_string_lossy().starts_with('.') || name == "target";
        // `file_type` does not follow symbolic links, so there are no cycles.
        if entry.file_type()?.is_dir() {
            if !hidden {
                folders.push(path);
            }
        } else if path.extension().is_some_and(|e| e == "clk") && path.is_file() {
            programs.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_file_is_suggested() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("mandelbrot.clk"), "").expect("written");
        let missing = FileError::Io(io::ErrorKind::NotFound.into());
        let typo = unreadable(&folder.path().join("mandlebrot.clk"), &missing);
        assert_eq!(typo.help, ["did you mean `mandelbrot.clk`?"]);
        let bare = unreadable(&folder.path().join("mandelbrot"), &missing);
        assert!(bare.help.iter().any(|h| h.contains("mandelbrot.clk")), "{bare:?}");
        let far = unreadable(&folder.path().join("x.clk"), &missing);
        assert!(far.notes.iter().any(|n| n.contains("mandelbrot.clk")), "{far:?}");
    }

    #[test]
    fn programs_must_be_utf8() {
        assert_eq!(source_text(b"\xef\xbb\xbfa".to_vec()).expect("UTF-8"), "a");
        assert!(matches!(source_text(b"ab\xff".to_vec()), Err(FileError::NotUtf8(2))));
    }

    #[test]
    fn programs_are_listed_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b.clk", "a.clk", "c.txt", "sub/d.clk", "target/e.clk", ".git/f.clk"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            fs::write(path, "").expect("written");
        }
        let listing = programs(folder.path());
        assert!(listing.unread.is_empty());
        let names: Vec<_> =
            listing.programs.iter().map(|p| p.file_name().expect("name").to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["a.clk", "b.clk", "d.clk"]);
        let listing = programs(&folder.path().join("nowhere"));
        assert_eq!((listing.programs.len(), listing.unread.len()), (0, 1));
    }
}
