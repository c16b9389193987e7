//! The file `clk.lock`, which pins the Git dependencies of a project to commits. This module reads and writes its TOML
//! text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use toml::de::DeTable;

use super::manifest::WRONG;
use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, Span};

/// The pinned dependencies, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockFile(pub BTreeMap<String, PinnedDependency>);

/// A pinned dependency: the revision requested in `clk.toml`, and the commit to which it resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PinnedDependency {
    pub url: String,
    pub requested: String,
    pub commit: String,
}

impl LockFile {
    /// Returns the pin of a dependency if it was made for the same address and request. A requested commit must also be
    /// the pinned one.
    pub fn find(&self, name: &str, url: &str, requested: &str) -> Option<&PinnedDependency> {
        let matches_request = |pin: &PinnedDependency| {
            let start = requested.strip_prefix("rev ").map(str::to_ascii_lowercase);
            start.is_none_or(|start| pin.commit.to_ascii_lowercase().starts_with(&start))
        };
        self.0.get(name).filter(|pin| pin.url == url && pin.requested == requested && matches_request(pin))
    }

    pub fn text(&self) -> String {
        let mut text = String::from(
            "# Written by `clk fetch`. Keep it with the sources: it pins the tested versions of the dependencies.\n",
        );
        for (name, pin) in &self.0 {
            let quoted = |text: &str| serde_json::Value::from(text).to_string();
            let (url, requested, commit) = (quoted(&pin.url), quoted(&pin.requested), quoted(&pin.commit));
            let _ = write!(text, "\n[{name}]\ngit = {url}\nwanted = {requested}\ncommit = {commit}\n");
        }
        text
    }
}

pub(super) fn parse(file: FileId, text: &str) -> Result<LockFile, Vec<Diagnostic>> {
    let wrong = |range: std::ops::Range<usize>, title: String| {
        let span = Span::new(file, range.start, range.end);
        vec![Diagnostic::error(WRONG, title).at(span, "here").help("remove the file, and run `clk fetch`")]
    };
    let table = DeTable::parse(text)
        .map_err(|error| wrong(error.span().unwrap_or(0..0), format!("this is not valid TOML: {}", error.message())))?;
    let mut lock = LockFile::default();
    for (name, value) in table.get_ref().iter() {
        let field = |key: &str| value.get_ref().get(key).and_then(|v| v.get_ref().as_str()).map(str::to_owned);
        let pin =
            (|| Some(PinnedDependency { url: field("git")?, requested: field("wanted")?, commit: field("commit")? }))();
        let is_commit = |pin: &PinnedDependency| is_hash(&pin.commit);
        let pin = pin.filter(is_commit).ok_or_else(|| {
            wrong(value.span(), format!("`{}` needs `git`, `wanted` and a `commit` of 40 or 64 digits", name.get_ref()))
        })?;
        lock.0.insert(name.get_ref().to_string(), pin);
    }
    Ok(lock)
}

/// Whether a text is the full hash of a commit. Such a text is safe as a part of a path.
pub(super) fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_file_round_trips() {
        let pin = PinnedDependency {
            url: "https://x/\"y\"".into(),
            requested: "tag v1".into(),
            commit: "0123456789".repeat(4),
        };
        let lock = LockFile(BTreeMap::from([("a".to_string(), pin)]));
        assert_eq!(parse(FileId::default(), &lock.text()), Ok(lock));
        assert!(parse(FileId::default(), "[a]\ngit = \"u\"\nwanted = \"HEAD\"\ncommit = \"../../x\"\n").is_err());
    }

    #[test]
    fn pin_matches_the_requested_commit() {
        let pin = |requested: &str| PinnedDependency {
            url: "u".into(),
            requested: requested.into(),
            commit: "0123456789".repeat(4),
        };
        for (requested, is_match) in [("rev 01234", true), ("rev 01235", false), ("tag 9", true), ("HEAD", true)] {
            let lock = LockFile(BTreeMap::from([("a".to_string(), pin(requested))]));
            assert_eq!(lock.find("a", "u", requested).is_some(), is_match, "{requested}");
            assert!(lock.find("a", "v", requested).is_none());
        }
    }
}
