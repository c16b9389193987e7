//! Files: reading sources, writing results whole or not at all, and finding the file that was meant.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::names;
use crate::base::diag::Diagnostic;
use crate::compile::Files;

/// The code of a source file that cannot be read.
pub const CODE: &str = "E0701";

/// A source file larger than this is refused: it is not a program.
const MAX_SOURCE: u64 = 64 << 20;

/// The machine's own files.
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<String, String> {
        read_source(path)
    }
}

/// The text of a source file, or why there is none.
pub fn read_source(path: &Path) -> Result<String, String> {
    let file = fs::File::open(path).map_err(|e| reason(&e))?;
    if file.metadata().is_ok_and(|m| m.is_dir()) {
        return Err("it is a folder".into());
    }
    let mut bytes = Vec::new();
    file.take(MAX_SOURCE + 1).read_to_end(&mut bytes).map_err(|e| reason(&e))?;
    source_text(bytes)
}

/// Bytes as the text of a program.
pub fn source_text(mut bytes: Vec<u8>) -> Result<String, String> {
    if bytes.len() as u64 > MAX_SOURCE {
        return Err(format!("it is larger than {} MiB", MAX_SOURCE >> 20));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    String::from_utf8(bytes).map_err(|e| format!("it is not UTF-8 (at byte {})", e.utf8_error().valid_up_to()))
}

/// An error of the system in the words of a message.
pub fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "it is a folder".into(),
        io::ErrorKind::NotADirectory => "a part of the path is not a folder".into(),
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or(&text).to_lowercase()
        }
    }
}

/// The message about a source file that cannot be read, with what was probably meant.
pub fn unreadable(path: &Path, why: &str) -> Diagnostic {
    let mut diagnostic = Diagnostic::error(CODE, format!("`{}` cannot be read: {why}", path.display()));
    if path.is_dir() {
        return diagnostic
            .help(format!("give a `.clk` file; `clk test {}` runs the tests of a whole folder", path.display()));
    }
    if path.exists() {
        return diagnostic;
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
    let wanted = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(meant) = names::did_you_mean(&wanted, entries.iter().map(String::as_str)) {
        diagnostic = diagnostic.help(meant);
    } else if !entries.is_empty() {
        let shown: Vec<String> = entries.iter().take(6).map(|e| format!("`{e}`")).collect();
        let more = if entries.len() > 6 { ", …" } else { "" };
        diagnostic = diagnostic.note(format!("in `{}` there are {}{more}", folder.display(), shown.join(", ")));
    }
    diagnostic
}

fn sources_in(folder: &Path) -> Vec<String> {
    let mut found: Vec<String> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".clk"))
        .collect();
    found.sort();
    found
}

/// All `.clk` files of a folder and the folders in it, in order; hidden folders and `target` are left out.
pub fn programs(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            let name = entry.file_name();
            let hidden = name.to_string_lossy().starts_with('.') || name == "target";
            // A link to a folder is not followed, so there is no way to run in circles.
            if entry.file_type()?.is_dir() {
                if !hidden {
                    folders.push(path);
                }
            } else if path.extension().is_some_and(|e| e == "clk") && path.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Writes a file whole or not at all: under a temporary name first, which then takes the file's place.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), String> {
    if path.is_dir() {
        return Err("it is a folder".into());
    }
    // A device or a pipe (`/dev/stdout`) cannot be replaced, only written.
    if path.exists() && !path.is_file() {
        return fs::write(path, bytes).map_err(|e| reason(&e));
    }
    // A link stays one: what it points to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !folder.is_dir() {
        return Err(format!("the folder `{}` does not exist", folder.display()));
    }
    let name = path.file_name().ok_or("it has no file name")?.to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}.part", std::process::id()));
    let written = fs::File::create(&temporary).and_then(|mut file| {
        file.write_all(bytes)?;
        if let Ok(existing) = fs::metadata(&path) {
            file.set_permissions(existing.permissions())?;
        }
        fs::rename(&temporary, &path)
    });
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        reason(&error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_replace_whole_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.npy");
        write_whole(&path, b"one").expect("written");
        write_whole(&path, b"two").expect("written");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        assert_eq!(fs::read_dir(folder.path()).expect("list").count(), 1, "no temporary file is left");
        assert!(write_whole(&folder.path().join("no/a.npy"), b"x").is_err_and(|e| e.contains("does not exist")));
        assert!(write_whole(folder.path(), b"x").is_err());
    }

    #[test]
    fn the_file_that_was_meant() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("mandelbrot.clk"), "").expect("written");
        let typo = unreadable(&folder.path().join("mandlebrot.clk"), "there is no such file");
        assert_eq!(typo.help, ["did you mean `mandelbrot.clk`?"]);
        let bare = unreadable(&folder.path().join("mandelbrot"), "there is no such file");
        assert!(bare.help.iter().any(|h| h.contains("mandelbrot.clk")), "{bare:?}");
        let far = unreadable(&folder.path().join("x.clk"), "there is no such file");
        assert!(far.notes.iter().any(|n| n.contains("mandelbrot.clk")), "{far:?}");
    }

    #[test]
    fn only_text_is_a_program() {
        assert_eq!(source_text(b"\xef\xbb\xbfa".to_vec()), Ok("a".into()));
        assert!(source_text(b"ab\xff".to_vec()).is_err_and(|e| e.contains("byte 2")));
    }

    #[test]
    fn programs_are_found_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["b.clk", "a.clk", "c.txt", "sub/d.clk", "target/e.clk", ".git/f.clk"] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("parent")).expect("folder");
            fs::write(path, "").expect("written");
        }
        let found = programs(folder.path()).expect("listed");
        let names: Vec<_> = found.iter().map(|p| p.file_name().expect("name").to_string_lossy().into_owned()).collect();
        assert_eq!(names, ["a.clk", "b.clk", "d.clk"]);
    }
}
