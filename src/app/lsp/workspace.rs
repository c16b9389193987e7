//! Files beyond the open documents: those in the editor's directories, and the standard library as read-only files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::Overlay;
use super::text::Text;
use super::uri;
use super::view::View;
use crate::app::{disk, project};
use crate::ide::Analysis;

/// Limit on the files analyzed in one search; files without the word do not count.
const MAX_FILES: usize = 2000;

/// An analyzed text, open or not.
pub(crate) struct Seen {
    pub address: String,
    pub text: Text,
    pub analysis: Arc<Analysis>,
}

/// A file or directory that a search could not read.
struct Unread {
    path: PathBuf,
    why: String,
    /// It may have programs that import others: its text is unknown. A text that cannot be a program imports nothing.
    may_import: bool,
}

impl Unread {
    /// Whether a program there may import a file. A file can import the files of its own project and of that project's
    /// dependencies. One
    /// outside of all projects may import any file, by its path.
    fn can_import(&self, file: &Path) -> bool {
        let folder = if self.path.is_dir() { Some(self.path.as_path()) } else { self.path.parent() };
        let project = |folder: Option<&Path>| project::folder_of(folder?);
        match (project(folder), project(file.parent())) {
            _ if !self.may_import || !file.is_file() => false,
            (Some(own), Some(other)) => own == other || project::depends(&own, &other),
            (Some(_), None) | (None, _) => true,
        }
    }
}

/// Result of a search.
pub(crate) struct Search {
    pub seen: Vec<Seen>,
    unread: Vec<Unread>,
    /// There were too many files.
    is_cut: bool,
}

impl Search {
    /// Returns why the search is incomplete, if it is.
    pub fn missing(&self) -> Option<String> {
        self.reason(&|_| true)
    }

    /// Returns why the search may lack references to a definition in this file, if it may.
    pub fn missing_of(&self, file: &Path) -> Option<String> {
        self.reason(&|unread| unread.can_import(file))
    }

    fn reason(&self, counts: &dyn Fn(&Unread) -> bool) -> Option<String> {
        let unread: Vec<&Unread> = self.unread.iter().filter(|unread| counts(unread)).collect();
        match unread.as_slice() {
            [] if self.is_cut => {
                Some(format!("more than {MAX_FILES} files have this word; the others were not searched"))
            }
            [] => None,
            [Unread { path, why, .. }] => Some(format!("`{}` was not searched: {why}", path.display())),
            [Unread { path, why, .. }, rest @ ..] => {
                Some(format!("`{}` was not searched: {why}; nor were {} others", path.display(), rest.len()))
            }
        }
    }
}

impl View {
    /// Analyzes all texts that contain a word (in lower case; the search ignores case): the open documents and the programs in the
    /// open directories.
    pub fn everything_with(&self, word: &str) -> Search {
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
        let mut unread: Vec<Unread> = Vec::new();
        let mut files = 0;
        for found in self.folders.iter().map(|folder| disk::programs(folder)) {
            unread.extend(found.unread.into_iter().map(|(path, why)| Unread { path, why, may_import: true }));
            for path in found.programs {
                if files > MAX_FILES || !paths.insert(path.clone()) {
                    continue;
                }
                let read = disk::open(&path).and_then(|file| disk::contents(file, disk::MAX_SOURCE + 1));
                let text = read.map_err(|why| (why, true));
                match text.and_then(|bytes| disk::source_text(bytes).map_err(|why| (why, false))) {
                    Ok(text) if !has_word(&text) => {}
                    Ok(text) => {
                        files += 1;
                        if files <= MAX_FILES {
                            seen.push(self.look_at(&path, text));
                        }
                    }
                    Err((why, may_import)) => unread.push(Unread { path, why, may_import }),
                }
            }
        }
        Search { seen, unread, is_cut: files > MAX_FILES }
    }

    fn look_at(&self, path: &Path, text: String) -> Seen {
        let name = path.display().to_string();
        let analysis = Arc::new(Analysis::new(&name, &text, &Overlay(&self.documents)));
        Seen { address: uri::from_path(path), text: Text::new(text, self.encoding), analysis }
    }
}

/// Whether a text contains a word, ignoring ASCII case; names are ASCII.
fn contains_ignoring_case(text: &str, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    word.is_empty() || text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}
