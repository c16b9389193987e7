//! Files beyond the open documents: those in the editor's directories, and the standard library as read-only files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::json;

use super::answer;
use super::document::Overlay;
use super::server::Server;
use super::text::Text;
use super::uri;
use crate::app::disk;
use crate::ide::Analysis;

/// Limit on the files analyzed in one search; files without the word do not count.
const MAX_FILES: usize = 2000;

/// An analyzed text, open or not.
pub(crate) struct Seen {
    pub address: String,
    pub text: Text,
    pub analysis: Rc<Analysis>,
}

/// Result of a search.
pub(crate) struct Search {
    pub seen: Vec<Seen>,
    /// The reason why the search is incomplete, if it is: an unreadable directory or file, or too many files.
    pub missing: Option<String>,
}

impl Server {
    /// Analyzes all texts that contain a word (in lower case; the search ignores case): the open documents and the programs in the
    /// open directories.
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
        let mut unread: Vec<(PathBuf, String)> = Vec::new();
        let mut files = 0;
        for found in folders.iter().map(|folder| disk::programs(folder)) {
            unread.extend(found.unread);
            for path in found.programs {
                if files > MAX_FILES || !paths.insert(path.clone()) {
                    continue;
                }
                match disk::read_source(&path) {
                    Ok(text) if !has_word(&text) => {}
                    Ok(text) => {
                        files += 1;
                        if files <= MAX_FILES {
                            seen.push(self.look_at(&path, text));
                        }
                    }
                    Err(why) => unread.push((path, why)),
                }
            }
        }
        let missing = match unread.as_slice() {
            [] if files > MAX_FILES => {
                Some(format!("more than {MAX_FILES} files have this word; the others were not searched"))
            }
            [] => None,
            [(path, why)] => Some(format!("`{}` was not searched: {why}", path.display())),
            [(path, why), rest @ ..] => {
                Some(format!("`{}` was not searched: {why}; nor were {} others", path.display(), rest.len()))
            }
        };
        Search { seen, missing }
    }

    /// Informs the user that a search was incomplete.
    pub fn mention(&mut self, missing: Option<String>) {
        if let Some(text) = missing {
            self.send(answer::notification("window/showMessage", json!({ "type": 2, "message": text })));
        }
    }

    fn look_at(&self, path: &Path, text: String) -> Seen {
        let name = path.display().to_string();
        let analysis = Rc::new(Analysis::new(&name, &text, &Overlay(&self.documents)));
        Seen { address: uri::from_path(path), text: Text::new(text, self.encoding), analysis }
    }
}

/// Whether a text contains a word, ignoring ASCII case; names are ASCII.
fn contains_ignoring_case(text: &str, word: &str) -> bool {
    let (text, word) = (text.as_bytes(), word.as_bytes());
    word.is_empty() || text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}
