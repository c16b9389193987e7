//! An open document and its analysis.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::text::Text;
use super::uri;
use crate::app::disk::Disk;
use crate::compile::{Files, Missing};
use crate::ide::Analysis;

pub(crate) struct Document {
    pub text: Text,
    pub version: i64,
    /// The source name: its path, or its URI in angle brackets if it is not a file.
    pub name: String,
    pub path: Option<PathBuf>,
    pub analysis: Option<Rc<Analysis>>,
}

impl Document {
    pub fn new(address: &str, text: Text, version: i64) -> Document {
        let path = uri::to_path(address);
        let name = path.as_ref().map_or_else(|| format!("<{address}>"), |p| p.display().to_string());
        Document { text, version, name, path, analysis: None }
    }
}

/// The open documents, by URI.
pub(crate) type Documents = BTreeMap<String, Document>;

/// Files as the editor sees them: an open document takes precedence over the disk.
pub(crate) struct Overlay<'d>(pub &'d Documents);

impl Files for Overlay<'_> {
    fn read(&self, path: &Path) -> Result<String, String> {
        match self.0.values().find(|d| d.path.as_deref() == Some(path)) {
            Some(document) => Ok(document.text.as_str().to_owned()),
            None => Disk.read(path),
        }
    }

    fn module(&self, words: &[&str], folder: &Path) -> Option<Result<PathBuf, Missing>> {
        Disk.module(words, folder)
    }

    fn neighbors(&self, path: &Path) -> Vec<String> {
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(2000);
        let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}
