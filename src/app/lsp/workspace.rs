//! The files around the open ones: those of the editor's folders, and the standard library as files to look at.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::json;

use super::answer;
use super::convert;
use super::document::Overlay;
use super::server::Server;
use super::text::Text;
use super::uri;
use crate::app::{disk, folders};
use crate::compile::library;
use crate::ide::Analysis;

/// More files than these are not analysed in one search; those that do not have the word are not counted.
const MAX_FILES: usize = 2000;

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
    let folder = folders::cache(&folders::environment)?.join(concat!("std-", env!("CARGO_PKG_VERSION")));
    let path = folder.join(format!("{module}.clk"));
    if std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
        return Some(path);
    }
    std::fs::create_dir_all(&folder).ok()?;
    disk::write_whole(&path, text.as_bytes()).ok()?;
    Some(path)
}

/// A text that was looked at, open or not.
pub struct Seen {
    pub address: String,
    pub text: Text,
    pub analysis: Rc<Analysis>,
}

/// What a search found.
pub struct Search {
    pub seen: Vec<Seen>,
    /// There were too many files: some were not searched.
    pub cut: bool,
}

impl Server {
    /// All texts with a word in them (in small letters; large and small are the same): the open ones and the programs of the
    /// open folders.
    pub fn everything_with(&mut self, word: &str) -> Search {
        let has_word = |text: &str| contains_ignoring_case(text, word);
        let open: Vec<String> = self.documents.keys().cloned().collect();
        let mut seen = Vec::new();
        let mut paths: BTreeSet<PathBuf> = BTreeSet::new();
        for address in open {
            let Some(document) = self.documents.get(&address) else { continue };
            paths.extend(document.path.clone());
            let text = document.text.clone();
            if has_word(text.as_str())
                && let Some(analysis) = self.analysis(&address)
            {
                seen.push(Seen { address, text, analysis });
            }
        }
        let folders = self.folders.clone();
        let files = folders.iter().flat_map(|folder| disk::programs(folder).unwrap_or_default());
        let new: Vec<PathBuf> = files.filter(|path| paths.insert(path.clone())).collect();
        let with_word = new.iter().filter_map(|path| {
            let text = disk::read_source(path).ok()?;
            has_word(&text).then_some((path, text))
        });
        let mut cut = false;
        for (number, (path, text)) in with_word.enumerate() {
            if number == MAX_FILES {
                cut = true;
                break;
            }
            seen.push(self.look_at(path, text));
        }
        if cut {
            let text = format!("more than {MAX_FILES} files have this word; the others were not searched");
            self.send(answer::notification("window/showMessage", json!({ "type": 2, "message": text })));
        }
        Search { seen, cut }
    }

    fn look_at(&self, path: &Path, text: String) -> Seen {
        let name = path.display().to_string();
        let analysis = Rc::new(Analysis::new(&name, &text, &Overlay(&self.documents)));
        Seen { address: uri::from_path(path), text: Text::new(text, self.encoding), analysis }
    }
}

/// Names are ASCII: other letters need no care.
fn contains_ignoring_case(text: &str, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    word.is_empty() || text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}
