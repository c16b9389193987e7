//! The files around the open ones: those of the editor's folders, and the standard library as files to look at.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::convert;
use super::document::Overlay;
use super::server::Server;
use super::text::Text;
use super::uri;
use crate::app::disk;
use crate::compile::library;
use crate::ide::Analysis;

/// More files than these are not searched.
const MAX_FILES: usize = 300;

/// The address of a source by its name: a file's, or that of a copy of a module of the standard library.
pub fn address_of(name: &str) -> String {
    match name.strip_prefix("std/").and_then(|file| library_file(file.strip_suffix(".clk")?)) {
        Some(path) => uri::from_path(&path),
        None => convert::address_of_path(name),
    }
}

/// A module of the standard library as a file in the user's cache, so that an editor can open it.
fn library_file(module: &str) -> Option<PathBuf> {
    let text = library::text(module)?;
    let folder = cache_folder()?.join("clk").join(concat!("std-", env!("CARGO_PKG_VERSION")));
    let path = folder.join(format!("{module}.clk"));
    if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Some(path);
    }
    std::fs::create_dir_all(&folder).ok()?;
    disk::write_whole(&path, text.as_bytes()).ok()?;
    Some(path)
}

/// The folder for caches, by the XDG rules.
fn cache_folder() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let home = || std::env::var_os("HOME").map(PathBuf::from).filter(|p| p.is_absolute());
    let local = || std::env::var_os("LOCALAPPDATA").map(PathBuf::from);
    named.or_else(|| home().map(|h| h.join(".cache"))).or_else(local)
}

/// A text that was looked at, open or not.
pub struct Seen {
    pub address: String,
    pub text: Text,
    pub analysis: Rc<Analysis>,
}

impl Server {
    /// All open texts and the programs of the open folders.
    pub fn everything(&mut self) -> Vec<Seen> {
        let open: Vec<String> = self.documents.keys().cloned().collect();
        let mut seen = Vec::new();
        let mut paths: BTreeSet<PathBuf> = BTreeSet::new();
        for address in open {
            let Some(analysis) = self.analysis(&address) else { continue };
            let Some(document) = self.documents.get(&address) else { continue };
            paths.extend(document.path.clone());
            seen.push(Seen { address, text: document.text.clone(), analysis });
        }
        let folders = self.folders.clone();
        let files = folders.iter().flat_map(|folder| disk::programs(folder).unwrap_or_default());
        for path in files.filter(|path| paths.insert(path.clone())).take(MAX_FILES).collect::<Vec<_>>() {
            seen.extend(self.look_at(&path));
        }
        seen
    }

    fn look_at(&self, path: &Path) -> Option<Seen> {
        let text = disk::read_source(path).ok()?;
        let name = path.display().to_string();
        let analysis = Rc::new(Analysis::new(&name, &text, &Overlay(&self.documents)));
        Some(Seen { address: uri::from_path(path), text: Text::new(text, self.encoding), analysis })
    }
}
