//! `clk.toml`: the project's name and its dependencies. Input: the text. Output: a [`Manifest`], or complaints with their places.
//! Every key is known, so that a misspelled one is not ignored.

use std::ops::Range;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::app::names;
use crate::base::diag::{self, Diagnostic};
use crate::base::source::{FileId, Span};
use crate::syntax::token::KEYWORDS;

/// The code of a `clk.toml` or `clk.lock` that cannot be read.
pub(super) const WRONG: &str = "E0730";

/// What `clk.toml` says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub name: String,
    /// By name, in the order of names.
    pub dependencies: Vec<(String, Source)>,
}

/// Where a dependency is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A folder, relative to that of the `clk.toml`.
    Path(PathBuf),
    Git {
        url: String,
        /// `HEAD`, `branch main`, `tag v1` or `rev 0123abc`.
        wanted: String,
    },
}

/// Complaints that are shown.
const MAX_ERRORS: usize = 20;

const KEYS: &[&str] = &["name", "version", "description", "license", "dependencies"];
const OF_DEPENDENCY: &[&str] = &["path", "git", "branch", "tag", "rev"];

pub(crate) fn parse(file: FileId, text: &str) -> Result<Manifest, Vec<Diagnostic>> {
    let mut reader = Reader { file, found: vec![] };
    let manifest = match DeTable::parse(text) {
        Ok(table) => reader.manifest(table.get_ref()),
        Err(error) => {
            reader.complain(error.span().unwrap_or(0..0), format!("this is no TOML: {}", error.message()), "here");
            Manifest::default()
        }
    };
    if reader.found.is_empty() { Ok(manifest) } else { Err(diag::first(reader.found, MAX_ERRORS)) }
}

/// Returns why a text cannot be the name of a project: names are bound by imports.
pub(crate) fn name_problem(name: &str) -> Option<String> {
    let first = name.chars().next();
    let fits = first.is_some_and(|c| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !fits {
        return Some("a name consists of lowercase letters, digits and `_`, and begins with a letter".into());
    }
    if name == "std" {
        return Some("`std` is the standard library".into());
    }
    KEYWORDS.iter().any(|(word, _)| *word == name).then(|| format!("`{name}` is a keyword"))
}

/// Git looks for abbreviations of 4 digits or more.
fn is_start_of_hash(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

struct Reader {
    file: FileId,
    found: Vec<Diagnostic>,
}

type Entry<'e, 'i> = (&'e Spanned<std::borrow::Cow<'i, str>>, &'e Spanned<DeValue<'i>>);

impl Reader {
    fn complain(&mut self, range: Range<usize>, title: String, label: &str) {
        let span = Span::new(self.file, range.start, range.end);
        self.found.push(Diagnostic::error(WRONG, title).at(span, label));
    }

    fn unknown(&mut self, (key, _): Entry<'_, '_>, known: &[&str]) {
        let word = key.get_ref();
        let span = Span::new(self.file, key.span().start, key.span().end);
        let help = names::did_you_mean(word, known.iter().copied());
        let help = help.unwrap_or_else(|| format!("there are `{}`", known.join("`, `")));
        self.found.push(Diagnostic::error(WRONG, format!("unknown key `{word}`")).at(span, "not known").help(help));
    }

    fn text(&mut self, (key, value): Entry<'_, '_>) -> Option<String> {
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.complain(value.span(), format!("`{}` is a string", key.get_ref()), "not a string");
        }
        text
    }

    fn manifest(&mut self, table: &DeTable<'_>) -> Manifest {
        let mut manifest = Manifest::default();
        for entry in table.iter() {
            match entry.0.get_ref().as_ref() {
                "name" => {
                    let Some(name) = self.text(entry) else { continue };
                    if let Some(why) = name_problem(&name) {
                        self.complain(entry.1.span(), format!("`{name}` cannot be a project's name"), &why);
                    }
                    manifest.name = name;
                }
                "version" | "description" | "license" => drop(self.text(entry)),
                "dependencies" => match entry.1.get_ref().as_table() {
                    Some(table) => {
                        let found = table.iter().filter_map(|entry| self.dependency(entry));
                        manifest.dependencies = found.collect();
                    }
                    None => self.complain(entry.1.span(), "`dependencies` is a table".into(), "not a table"),
                },
                _ => self.unknown(entry, KEYS),
            }
        }
        if manifest.name.is_empty() && self.found.is_empty() {
            self.complain(0..0, "the project has no name".into(), "add `name = \"…\"`");
        }
        manifest
    }

    fn dependency(&mut self, entry: Entry<'_, '_>) -> Option<(String, Source)> {
        let (key, value) = entry;
        let name = key.get_ref().to_string();
        if let Some(why) = name_problem(&name) {
            self.complain(key.span(), format!("`{name}` cannot be imported"), &why);
        }
        let Some(table) = value.get_ref().as_table() else {
            self.complain(
                value.span(),
                format!("the dependency `{name}` says where it is"),
                "write `{ path = \"…\" }` or `{ git = \"…\", tag = \"…\" }`",
            );
            return None;
        };
        let (mut path, mut url, mut wanted) = (None, None, None);
        for entry in table.iter() {
            match entry.0.get_ref().as_ref() {
                "path" => path = self.text(entry),
                "git" => url = self.text(entry),
                kind @ ("branch" | "tag" | "rev") => {
                    if wanted.is_some() {
                        self.complain(
                            entry.0.span(),
                            "one of `branch`, `tag` and `rev` is enough".into(),
                            "another one",
                        );
                    }
                    let text = self.text(entry);
                    if kind == "rev" && text.as_deref().is_some_and(|text| !is_start_of_hash(text)) {
                        let title = "`rev` is the hash of a commit, or its first digits (at least 4)".into();
                        self.complain(entry.1.span(), title, "not a hash: write `branch = …` or `tag = …` for a name");
                    }
                    wanted = text.map(|text| format!("{kind} {text}"));
                }
                _ => self.unknown(entry, OF_DEPENDENCY),
            }
        }
        match (path, url) {
            (Some(path), None) if wanted.is_none() => Some((name, Source::Path(path.into()))),
            (None, Some(url)) => Some((name, Source::Git { url, wanted: wanted.unwrap_or_else(|| "HEAD".into()) })),
            _ => {
                let title = format!("the dependency `{name}` has either `path` or `git`");
                self.complain(value.span(), title, "`branch`, `tag` and `rev` belong to `git`");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        let found = parse(FileId::default(), text).expect_err("a complaint");
        found.iter().map(|d| format!("{} {}", d.title, d.help.join(" "))).collect()
    }

    #[test]
    fn dependencies() {
        let text = "name = \"a\"\n[dependencies]\nb = { path = \"../b\" }\nc = { git = \"u\", tag = \"v1\" }\n";
        let manifest = parse(FileId::default(), text).expect("a manifest");
        let git = Source::Git { url: "u".into(), wanted: "tag v1".into() };
        assert_eq!(manifest.dependencies, [("b".into(), Source::Path("../b".into())), ("c".into(), git)]);
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(complaint("nam = \"a\"").contains("did you mean `name`"), "{}", complaint("nam = \"a\""));
        assert!(complaint("").contains("no name"));
        assert!(complaint("name = 3").contains("is a string"));
        assert!(complaint("name = \"my-project\"").contains("cannot be a project's name"));
        let many: String = (0..1000).map(|n| format!("key{n} = {n}\n")).collect();
        let found = parse(FileId::default(), &many).expect_err("complaints");
        assert_eq!(found.len(), MAX_ERRORS);
        assert!(found.last().is_some_and(|last| last.notes[0].starts_with("980 more errors")), "{found:?}");
        assert!(complaint("name = [").contains("no TOML"));
        assert!(complaint("name = \"a\"\ndependencies = 1").contains("is a table"));
        assert!(complaint("name = \"a\"\n[dependencies]\nb = \"1.0\"").contains("says where it is"));
        assert!(complaint("name = \"a\"\n[dependencies]\nb = { path = \"b\", tag = \"v\" }").contains("either"));
        assert!(
            complaint("name = \"a\"\n[dependencies]\nb = { git = \"b\", tag = \"v\", rev = \"0123\" }")
                .contains("enough")
        );
        for rev in ["main", "012", "v1.0", "HEAD~1"] {
            let text = format!("name = \"a\"\n[dependencies]\nb = {{ git = \"b\", rev = \"{rev}\" }}");
            assert!(complaint(&text).contains("hash of a commit"), "{rev}");
        }
        assert!(complaint("name = \"a\"\n[dependencies]\nfn = { path = \"b\" }").contains("cannot be imported"));
    }
}
