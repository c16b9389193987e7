//! Maps source names to URIs. The URI of a standard library module is that of a copy on disk.

use std::path::PathBuf;

use crate::{cache, disk, uri};
use clk_compile::library;

/// Returns the URI of a source. For a standard library module, writes a copy to disk and returns the URI of that copy.
pub(crate) fn address_of(name: &str) -> String {
    match name.strip_prefix("std/").and_then(|file| library_file(file.strip_suffix(".clk")?)) {
        Some(path) => uri::from_path(&path),
        None => address_of_path(name),
    }
}

/// Returns the URI of a source file, given its path.
fn address_of_path(path: &str) -> String {
    uri::from_path(std::path::Path::new(path))
}

/// Writes a library module to the user's cache, from which the editor can open it, and returns the path.
fn library_file(module: &str) -> Option<PathBuf> {
    let text = library::text(module)?;
    let path = cache::library_folder()?.join(format!("{module}.clk"));
    if disk::read_source(&path).is_ok_and(|there| there == text) {
        return Some(path);
    }
    disk::write_atomically(&path, text.as_bytes()).ok()?;
    Some(path)
}
