//! URIs of sources: files, and copies of the standard library's modules.

use std::path::PathBuf;

use super::uri;
use crate::app::{cache, disk};
use crate::compile::library;

/// Returns the URI of a source by its name: of the file itself, or of a copy of a library module.
pub(crate) fn address_of(name: &str) -> String {
    match name.strip_prefix("std/").and_then(|file| library_file(file.strip_suffix(".clk")?)) {
        Some(path) => uri::from_path(&path),
        None => address_of_path(name),
    }
}

/// Returns the URI of a source file by its name.
fn address_of_path(path: &str) -> String {
    uri::from_path(std::path::Path::new(path))
}

/// Returns the path of a copy of a library module in the user's cache, for the editor to open.
fn library_file(module: &str) -> Option<PathBuf> {
    let text = library::text(module)?;
    let path = cache::library_folder()?.join(format!("{module}.clk"));
    if disk::read_source(&path).is_ok_and(|there| there == text) {
        return Some(path);
    }
    disk::write_whole(&path, text.as_bytes()).ok()?;
    Some(path)
}
