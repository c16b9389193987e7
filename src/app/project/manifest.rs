//! The file `clk.toml`, which contains a project's name and its dependencies. Input: its text. Output: a [`Manifest`],
//! or diagnostics. Unknown keys are errors, so that misspelled keys are found.

use std::ops::Range;
use std::path::PathBuf;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::suggestions;
use clk_base::diag::{self, Diagnostic};
use clk_base::source::{FileId, Span};
use clk_syntax::token::KEYWORDS;

/// The diagnostic code for an invalid `clk.toml` or `clk.lock`.
pub(super) const WRONG: &str = "E0730";

/// The content of a `clk.toml`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub name: String,
    /// The dependencies, sorted by name.
    pub dependencies: Vec<(String, DependencySource)>,
}

/// Where the files of a dependency are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DependencySource {
    /// A folder, relative to the folder that contains the `clk.toml`.
    Path(PathBuf),
    Git {
        url: String,
        /// The requested revision: `HEAD`, `branch main`, `tag v1` or `rev 0123abc`.
        wanted: String,
    },
}

/// Maximum number of errors reported for one file.
const MAX_ERRORS: usize = 20;

const KEYS: &[&str] = &["name", "version", "description", "license", "dependencies"];
const OF_DEPENDENCY: &[&str] = &["path", "git", "branch", "tag", "rev"];

pub(crate) fn parse(file: FileId, text: &str) -> Result<Manifest, Vec<Diagnostic>> {
    let mut reader = ManifestReader { file, found: vec![] };
    let manifest = match DeTable::parse(text) {
        Ok(table) => reader.manifest(table.get_ref()),
        Err(error) => {
            reader.complain(
                error.span().unwrap_or(0..0),
                format!("this is not valid TOML: {}", error.message()),
                "here",
            );
            Manifest::default()
        }
    };
    if reader.found.is_empty() { Ok(manifest) } else { Err(diag::limit_errors(reader.found, MAX_ERRORS)) }
}

/// Returns the reason if a text cannot be the name of a project. The name must be an identifier, because imports bind
/// it.
pub(crate) fn project_name_error(name: &str) -> Option<String> {
    let first = name.chars().next();
    let is_valid = first.is_some_and(|c| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if !is_valid {
        return Some("a name consists of lowercase letters, digits and `_`, and begins with a letter".into());
    }
    if name == "std" {
        return Some("`std` is the standard library".into());
    }
    KEYWORDS.iter().any(|(word, _)| *word == name).then(|| format!("`{name}` is a keyword"))
}

/// Whether a text can be an abbreviated hash, for which Git requires at least 4 digits.
fn is_start_of_hash(text: &str) -> bool {
    (4..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

struct ManifestReader {
    file: FileId,
    found: Vec<Diagnostic>,
}

type ManifestKey<'i> = Spanned<std::borrow::Cow<'i, str>>;
type ManifestValue<'i> = Spanned<DeValue<'i>>;

impl ManifestReader {
    fn complain(&mut self, range: Range<usize>, title: String, label: &str) {
        let span = Span::new(self.file, range.start, range.end);
        self.found.push(Diagnostic::error(WRONG, title).at(span, label));
    }

    fn unknown(&mut self, key: &ManifestKey<'_>, known: &[&str]) {
        let word = key.get_ref();
        let span = Span::new(self.file, key.span().start, key.span().end);
        let help = suggestions::did_you_mean(word, known.iter().copied());
        let help = help.unwrap_or_else(|| format!("there are `{}`", known.join("`, `")));
        self.found.push(Diagnostic::error(WRONG, format!("unknown key `{word}`")).at(span, "not known").help(help));
    }

    fn text(&mut self, key: &ManifestKey<'_>, value: &ManifestValue<'_>) -> Option<String> {
        let text = value.get_ref().as_str().map(str::to_owned);
        if text.is_none() {
            self.complain(value.span(), format!("`{}` is a string", key.get_ref()), "not a string");
        }
        text
    }

    fn manifest(&mut self, table: &DeTable<'_>) -> Manifest {
        let mut manifest = Manifest::default();
        for (key, value) in table.iter() {
            match key.get_ref().as_ref() {
                "name" => {
                    let Some(name) = self.text(key, value) else { continue };
                    if let Some(why) = project_name_error(&name) {
                        self.complain(value.span(), format!("`{name}` cannot be a project's name"), &why);
                    }
                    manifest.name = name;
                }
                "version" | "description" | "license" => drop(self.text(key, value)),
                "dependencies" => match value.get_ref().as_table() {
                    Some(table) => {
                        let dependencies = table.iter().filter_map(|(key, value)| self.dependency(key, value));
                        manifest.dependencies = dependencies.collect();
                    }
                    None => self.complain(value.span(), "`dependencies` is a table".into(), "not a table"),
                },
                _ => self.unknown(key, KEYS),
            }
        }
        if manifest.name.is_empty() && self.found.is_empty() {
            self.complain(0..0, "the project has no name".into(), "add `name = \"…\"`");
        }
        manifest
    }

    fn dependency(&mut self, key: &ManifestKey<'_>, value: &ManifestValue<'_>) -> Option<(String, DependencySource)> {
        let name = key.get_ref().to_string();
        if let Some(why) = project_name_error(&name) {
            self.complain(key.span(), format!("`{name}` cannot be imported"), &why);
        }
        let Some(table) = value.get_ref().as_table() else {
            self.complain(
                value.span(),
                format!("the dependency `{name}` has no location"),
                "write `{ path = \"…\" }` or `{ git = \"…\", tag = \"…\" }`",
            );
            return None;
        };
        let (mut path, mut url, mut wanted) = (None, None, None);
        for (key, entry) in table.iter() {
            match key.get_ref().as_ref() {
                "path" => path = self.text(key, entry),
                "git" => url = self.text(key, entry),
                kind @ ("branch" | "tag" | "rev") => {
                    if wanted.is_some() {
                        self.complain(key.span(), "one of `branch`, `tag` and `rev` is enough".into(), "another one");
                    }
                    let text = self.text(key, entry);
                    if kind == "rev" && text.as_deref().is_some_and(|text| !is_start_of_hash(text)) {
                        let title = "`rev` is the hash of a commit, or its first digits (at least 4)".into();
                        self.complain(entry.span(), title, "not a hash: write `branch = …` or `tag = …` for a name");
                    }
                    wanted = text.map(|text| format!("{kind} {text}"));
                }
                _ => self.unknown(key, OF_DEPENDENCY),
            }
        }
        match (path, url) {
            (Some(path), None) if wanted.is_none() => Some((name, DependencySource::Path(path.into()))),
            (None, Some(url)) => {
                Some((name, DependencySource::Git { url, wanted: wanted.unwrap_or_else(|| "HEAD".into()) }))
            }
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
        let errors = parse(FileId::default(), text).expect_err("a complaint");
        errors.iter().map(|d| format!("{} {}", d.title, d.help.join(" "))).collect()
    }

    #[test]
    fn dependencies() {
        let text = "name = \"a\"\n[dependencies]\nb = { path = \"../b\" }\nc = { git = \"u\", tag = \"v1\" }\n";
        let manifest = parse(FileId::default(), text).expect("a manifest");
        let git = DependencySource::Git { url: "u".into(), wanted: "tag v1".into() };
        assert_eq!(manifest.dependencies, [("b".into(), DependencySource::Path("../b".into())), ("c".into(), git)]);
    }

    #[test]
    fn errors_are_reported_with_their_place() {
        assert!(complaint("nam = \"a\"").contains("did you mean `name`"), "{}", complaint("nam = \"a\""));
        assert!(complaint("").contains("no name"));
        assert!(complaint("name = 3").contains("is a string"));
        assert!(complaint("name = \"my-project\"").contains("cannot be a project's name"));
        let many: String = (0..1000).map(|n| format!("key{n} = {n}\n")).collect();
        let errors = parse(FileId::default(), &many).expect_err("complaints");
        assert_eq!(errors.len(), MAX_ERRORS);
        assert!(errors.last().is_some_and(|last| last.notes[0].starts_with("980 more errors")), "{errors:?}");
        assert!(complaint("name = [").contains("not valid TOML"));
        assert!(complaint("name = \"a\"\ndependencies = 1").contains("is a table"));
        assert!(complaint("name = \"a\"\n[dependencies]\nb = \"1.0\"").contains("has no location"));
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
