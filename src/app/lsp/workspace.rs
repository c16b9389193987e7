//! Searches all texts of the workspace: the open documents, and the program files in the directories open in the
//! editor.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::document::Overlay;
use super::snapshot::DocumentsView;
use super::text::Text;
use crate::{disk, project, uri};
use clk_base::file_error::FileError;
use clk_ide::Analysis;

/// Maximum number of files to analyze in one search. Files that do not contain the searched word are not counted.
const MAX_FILES: usize = 2000;

/// An analyzed text: an open document or a file.
pub(crate) struct AnalyzedText {
    pub address: String,
    pub text: Text,
    pub analysis: Arc<Analysis>,
}

/// A file or directory that a search could not read.
struct UnreadPath {
    path: PathBuf,
    why: FileError,
    /// Whether the path may contain a program with imports. False for a file that is not text.
    may_import: bool,
}

impl UnreadPath {
    /// Whether a program at this path may import `file`. A program of a project can import files of that project and of
    /// its dependencies. A program outside of all projects can import any file by its path.
    fn can_import(&self, file: &Path) -> bool {
        let folder = if self.path.is_dir() { Some(self.path.as_path()) } else { self.path.parent() };
        let project = |folder: Option<&Path>| project::folder_of(folder?);
        match (project(folder), project(file.parent())) {
            _ if !self.may_import || !file.is_file() => false,
            (Some(own), Some(other)) => own == other || project::depends_on(&own, &other),
            (Some(_), None) | (None, _) => true,
        }
    }
}

/// The result of searching all texts for a word.
pub(crate) struct WorkspaceSearch {
    pub texts: Vec<AnalyzedText>,
    unread: Vec<UnreadPath>,
    /// Whether the search stopped because of [`MAX_FILES`].
    is_cut: bool,
}

impl WorkspaceSearch {
    /// Returns the reason if the search was incomplete; `None` if it was complete.
    pub fn missing(&self) -> Option<String> {
        self.reason(&|_| true)
    }

    /// Returns the reason if the search may have missed references to a definition in this file; `None` if it has found
    /// all.
    pub fn missing_of(&self, file: &Path) -> Option<String> {
        self.reason(&|unread| unread.can_import(file))
    }

    fn reason(&self, counts: &dyn Fn(&UnreadPath) -> bool) -> Option<String> {
        let unread: Vec<&UnreadPath> = self.unread.iter().filter(|unread| counts(unread)).collect();
        match unread.as_slice() {
            [] if self.is_cut => {
                Some(format!("more than {MAX_FILES} files have this word; the others were not searched"))
            }
            [] => None,
            [UnreadPath { path, why, .. }] => Some(format!("`{}` was not searched: {why}", path.display())),
            [UnreadPath { path, why, .. }, rest @ ..] => {
                Some(format!("`{}` was not searched: {why}; nor were {} others", path.display(), rest.len()))
            }
        }
    }
}

impl DocumentsView {
    /// Analyzes all texts that contain a word, ignoring case: the open documents, and the program files in the open
    /// directories. `word` is in lower case.
    pub fn search_word(&self, word: &str) -> WorkspaceSearch {
        let has_word = |text: &str| contains_ignoring_case(text, word);
        let open: Vec<String> = self.documents.keys().cloned().collect();
        let mut analyzed = Vec::new();
        let mut paths: BTreeSet<PathBuf> = BTreeSet::new();
        for address in open {
            let Some(document) = self.documents.get(&address) else { continue };
            paths.extend(document.path.clone());
            let text = document.text.clone();
            if has_word(text.as_str())
                && let Some(analysis) = self.analysis(&address)
            {
                analyzed.push(AnalyzedText { address, text, analysis });
            }
        }
        let mut unread: Vec<UnreadPath> = Vec::new();
        let mut files = 0;
        for found in self.folders.iter().map(|folder| disk::programs(folder)) {
            unread.extend(found.unread.into_iter().map(|(path, why)| UnreadPath { path, why, may_import: true }));
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
                            analyzed.push(self.look_at(&path, text));
                        }
                    }
                    Err((why, may_import)) => unread.push(UnreadPath { path, why, may_import }),
                }
            }
        }
        WorkspaceSearch { texts: analyzed, unread, is_cut: files > MAX_FILES }
    }

    fn look_at(&self, path: &Path, text: String) -> AnalyzedText {
        let name = path.display().to_string();
        let analysis = Arc::new(Analysis::new(&name, &text, &Overlay(&self.documents)));
        AnalyzedText { address: uri::from_path(path), text: Text::new(text, self.encoding), analysis }
    }
}

/// Whether a text contains a word, ignoring ASCII case. That is sufficient, because names are ASCII.
fn contains_ignoring_case(text: &str, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    word.is_empty() || text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}
