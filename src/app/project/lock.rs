//! `clk.lock`: the commits that the Git dependencies of one project are pinned to. Input and output: its text, in TOML.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use toml::de::DeTable;

use super::manifest::WRONG;
use crate::base::diag::Diagnostic;
use crate::base::source::{FileId, Span};

/// The pinned dependencies, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lock(pub BTreeMap<String, Pin>);

/// A pinned dependency: what `clk.toml` asked for, and the commit that this was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pin {
    pub url: String,
    pub wanted: String,
    pub commit: String,
}

impl Lock {
    /// Returns the pin of a dependency if it is for what `clk.toml` requests. A requested commit cannot be pinned to another one.
    pub fn find(&self, name: &str, url: &str, wanted: &str) -> Option<&Pin> {
        let fits = |pin: &Pin| {
            let start = wanted.strip_prefix("rev ").map(str::to_ascii_lowercase);
            start.is_none_or(|start| pin.commit.to_ascii_lowercase().starts_with(&start))
        };
        self.0.get(name).filter(|pin| pin.url == url && pin.wanted == wanted && fits(pin))
    }

    pub fn text(&self) -> String {
        let mut text =
            String::from("# Written by `clk fetch`. Keep it with the sources: it pins what they were tested with.\n");
        for (name, pin) in &self.0 {
            let quoted = |text: &str| serde_json::Value::from(text).to_string();
            let (url, wanted, commit) = (quoted(&pin.url), quoted(&pin.wanted), quoted(&pin.commit));
            let _ = write!(text, "\n[{name}]\ngit = {url}\nwanted = {wanted}\ncommit = {commit}\n");
        }
        text
    }
}

pub(super) fn parse(file: FileId, text: &str) -> Result<Lock, Vec<Diagnostic>> {
    let wrong = |range: std::ops::Range<usize>, title: String| {
        let span = Span::new(file, range.start, range.end);
        vec![Diagnostic::error(WRONG, title).at(span, "here").help("remove the file, and run `clk fetch`")]
    };
    let table = DeTable::parse(text)
        .map_err(|error| wrong(error.span().unwrap_or(0..0), format!("this is no TOML: {}", error.message())))?;
    let mut lock = Lock::default();
    for (name, value) in table.get_ref().iter() {
        let field = |key: &str| value.get_ref().get(key).and_then(|v| v.get_ref().as_str()).map(str::to_owned);
        let pin = (|| Some(Pin { url: field("git")?, wanted: field("wanted")?, commit: field("commit")? }))();
        let is_commit = |pin: &Pin| is_hash(&pin.commit);
        let pin = pin.filter(is_commit).ok_or_else(|| {
            wrong(value.span(), format!("`{}` needs `git`, `wanted` and a `commit` of 40 or 64 digits", name.get_ref()))
        })?;
        lock.0.insert(name.get_ref().to_string(), pin);
    }
    Ok(lock)
}

/// Whether a text is the full hash of a commit. It becomes part of a path.
pub(super) fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let pin = Pin { url: "https://x/\"y\"".into(), wanted: "tag v1".into(), commit: "0123456789".repeat(4) };
        let lock = Lock(BTreeMap::from([("a".to_string(), pin)]));
        assert_eq!(parse(FileId::default(), &lock.text()), Ok(lock));
        assert!(parse(FileId::default(), "[a]\ngit = \"u\"\nwanted = \"HEAD\"\ncommit = \"../../x\"\n").is_err());
    }

    #[test]
    fn a_pin_fits_the_requested_commit() {
        let pin = |wanted: &str| Pin { url: "u".into(), wanted: wanted.into(), commit: "0123456789".repeat(4) };
        for (wanted, fits) in [("rev 01234", true), ("rev 01235", false), ("tag 9", true), ("HEAD", true)] {
            let lock = Lock(BTreeMap::from([("a".to_string(), pin(wanted))]));
            assert_eq!(lock.find("a", "u", wanted).is_some(), fits, "{wanted}");
            assert!(lock.find("a", "v", wanted).is_none());
        }
    }
}
