//! `:save`: the successful entries of a session as a script that reproduces it.
//!
//! In a script all definitions are visible from the beginning. A definition that was replaced after it had been used is
//! therefore kept under another name (`f` becomes `f_1`), and its uses are renamed.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;

use crate::base::source::FileId;
use crate::check;
use crate::compile::{Entered, Session};
use crate::ide;
use crate::lang::builtin;
use crate::syntax;
use crate::syntax::ast::{self, ItemKind, StmtKind};
use crate::syntax::token::{Tok, Token};

/// A text, and where it names definitions of the session.
#[derive(Clone, Debug, Default)]
struct Source {
    text: String,
    names: Vec<Range<usize>>,
}

impl Source {
    /// Returns a part of the text, without blank space around it.
    fn part(&self, range: Range<usize>) -> Source {
        let part = self.text.get(range.clone()).unwrap_or("");
        let text = part.trim_matches(['\n', ' ', ';']);
        let start = range.start + part.find(text).unwrap_or(0);
        let end = start + text.len();
        let inside = self.names.iter().filter(|name| start <= name.start && name.end <= end);
        let names = inside.map(|name| name.start - start..name.end - start).collect();
        Source { text: text.to_string(), names }
    }

    fn split_at(&self, at: usize) -> (Source, Source) {
        let (head, tail) = self.text.split_at(at);
        let (first, second): (Vec<_>, Vec<_>) = self.names.iter().cloned().partition(|name| name.end <= at);
        let second = second.into_iter().map(|name| name.start - at..name.end - at).collect();
        (Source { text: head.into(), names: first }, Source { text: tail.into(), names: second })
    }

    /// Replaces parts of the text. `edits` are in order and do not overlap the names of definitions.
    fn edited(&self, edits: &[(Range<usize>, String)]) -> Source {
        let (mut text, mut end) = (String::new(), 0);
        for (range, by) in edits {
            text += self.text.get(end..range.start).unwrap_or("");
            text += by;
            end = range.end;
        }
        text += self.text.get(end..).unwrap_or("");
        let moved = |at: usize| {
            let before = edits.iter().take_while(|(range, _)| range.end <= at);
            before.fold(at as isize, |at, (range, by)| at + by.len() as isize - range.len() as isize) as usize
        };
        let names = self.names.iter().map(|name| moved(name.start)..moved(name.end)).collect();
        Source { text, names }
    }

    fn within(&self, before: &str, after: &str) -> Source {
        let end = self.text.len();
        self.edited(&[(0..0, before.to_string()), (end..end, after.to_string())])
    }

    fn words(&self) -> impl Iterator<Item = (&str, &Range<usize>)> {
        self.names.iter().map(|range| (self.text.get(range.clone()).unwrap_or(""), range))
    }
}

/// A successful entry.
pub(crate) struct Kept {
    pub text: String,
    /// Where the text names definitions of the session.
    names: Vec<Range<usize>>,
    /// The directory that its file imports are relative to.
    pub folder: PathBuf,
    /// Its source name.
    pub name: String,
    /// The number of the entry; files have none.
    number: Option<usize>,
    /// Whether its value was shown; `None` if it has no value.
    value: Option<bool>,
    followed: Vec<SmolStr>,
    set_aside: Vec<SmolStr>,
}

impl Kept {
    /// Creates a log entry. `quiet`: its value, if any, was not shown.
    pub fn new(
        (before, session): (&Session, &Session),
        entered: &Entered,
        name: &str,
        text: &str,
        number: Option<usize>,
        quiet: Option<bool>,
    ) -> Kept {
        let followed = entered.followed.iter().chain(&entered.restored).cloned().collect();
        let value = quiet.map(|quiet| !quiet);
        let file = entered.outcome.file;
        let names = ide::definitions_named(before, session, file, &syntax::parse(file, text).0);
        Kept {
            text: text.to_string(),
            names,
            folder: session.folder.clone(),
            name: name.to_string(),
            number,
            value,
            followed,
            set_aside: entered.set_aside.clone(),
        }
    }

    /// Creates a log entry for a setting, as a statement of a script.
    pub fn setting(text: String) -> Kept {
        Kept {
            text,
            names: vec![],
            folder: PathBuf::new(),
            name: "<setting>".into(),
            number: None,
            value: None,
            followed: vec![],
            set_aside: vec![],
        }
    }

    fn source(&self) -> Source {
        Source { text: self.text.clone(), names: self.names.clone() }
    }
}

/// Returns the file imports of the entries: their directories and texts.
pub(crate) fn file_imports(log: &[Kept]) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for kept in log {
        let (tree, _) = syntax::parse(FileId(0), &kept.text);
        for item in &tree.items {
            if let ItemKind::Import(ast::Import { source: ast::ImportSource::File { .. }, .. }) = &item.kind
                && let Some(text) = kept.text.get(item.span.range())
            {
                let import = (kept.folder.clone(), text.to_string());
                if !found.contains(&import) {
                    found.push(import);
                }
            }
        }
    }
    found
}

/// The versions of the definitions that a text uses, by name.
type Uses = FxHashMap<SmolStr, usize>;

/// One version of a definition.
struct Version {
    name: SmolStr,
    source: Source,
    /// The versions of the definitions it uses.
    uses: Uses,
}

enum Piece {
    Plain(String),
    Definition(usize),
    /// Texts in sequence, each with the versions of the definitions it uses.
    Statement(Vec<(Source, Uses)>),
}

/// A script under construction.
#[derive(Default)]
struct Script {
    versions: Vec<Version>,
    /// The current version of each name.
    current: FxHashMap<SmolStr, usize>,
    /// Names of variables.
    variables: FxHashSet<SmolStr>,
    pieces: Vec<Piece>,
    /// Number of the last value.
    last_value: Option<usize>,
    /// Numbers of the values that later entries use.
    wanted: FxHashSet<usize>,
    /// All words of the session. A replaced definition gets a name that is not among them.
    words: FxHashSet<SmolStr>,
}

/// Returns the statement for a seed of the random stream.
pub(crate) fn seeded(seed: u64) -> String {
    let suffix = if i32::try_from(seed).is_ok() { "" } else { "u64" };
    format!("seed_random({seed}{suffix})")
}

/// Returns the entries as one script, to be saved at this path. `seed` is that with which the session began.
pub(crate) fn script(log: &[Kept], seed: Option<u64>, path: &Path) -> String {
    let mut script = Script { wanted: wanted(log), words: words(log), ..Script::default() };
    if let Some(seed) = seed {
        script.pieces.push(Piece::Plain(seeded(seed)));
    }
    for kept in log {
        script.entry(kept, path.parent().unwrap_or(Path::new("")));
    }
    script.write()
}

/// Returns the definitions and imports of the entries as a program at this path, without statements.
pub(crate) fn definitions(log: &[Kept], path: &Path) -> String {
    let mut script = Script { words: words(log), ..Script::default() };
    for kept in log {
        script.entry(kept, path.parent().unwrap_or(Path::new("")));
    }
    script.pieces.retain(|piece| !matches!(piece, Piece::Statement(_)));
    script.write()
}

/// Returns the numbers of the values that entries use.
fn wanted(log: &[Kept]) -> FxHashSet<usize> {
    let mut found = FxHashSet::default();
    let mut last = None;
    for kept in log {
        for token in lex(&kept.text).iter().filter(|token| token.kind == Tok::Name) {
            match token.text(&kept.text).strip_prefix('_') {
                Some("") => found.extend(last),
                Some(number) => found.extend(number.parse::<usize>().ok()),
                None => {}
            }
        }
        if kept.value.is_some() {
            last = kept.number.or(last);
        }
    }
    found
}

/// Returns the words of the entries, also those in strings: a string may contain expressions.
fn words(log: &[Kept]) -> FxHashSet<SmolStr> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    log.iter()
        .flat_map(|kept| kept.text.split(|c| !is_word(c)))
        .filter(|word| !word.is_empty())
        .map(SmolStr::new)
        .collect()
}

fn lex(text: &str) -> Vec<Token> {
    syntax::lex(FileId(0), text).tokens
}

impl Script {
    fn entry(&mut self, kept: &Kept, folder: &Path) {
        let (tree, _) = syntax::parse(FileId(0), &kept.text);
        let whole = kept.source();
        let new = self.definitions(kept, &whole, &tree);
        // Uses can be resolved only when all names of the entry are defined.
        for version in new {
            let uses = self.uses(&self.versions[version].source);
            self.versions[version].uses = uses;
        }
        let statements = tree.items.iter().filter(|item| matches!(item.kind, ItemKind::Stmt(_))).count();
        let mut seen = 0;
        let mut end = 0;
        for item in &tree.items {
            let source = whole.part(end..item.span.end as usize);
            end = item.span.end as usize;
            match &item.kind {
                ItemKind::Import(import) => {
                    let text = kept.text.get(item.span.range()).unwrap_or("");
                    self.pieces.push(Piece::Plain(moved_import(import, text, item.span.start, &kept.folder, folder)));
                }
                ItemKind::Test(_) | ItemKind::Bench(_) => {
                    let uses = self.uses(&source);
                    self.pieces.push(Piece::Statement(vec![(source, uses)]));
                }
                ItemKind::Stmt(stmt) => {
                    seen += 1;
                    let source = self.without_underscore(&source);
                    let last = seen == statements;
                    let source = match (&stmt.kind, last.then_some(kept.value).flatten()) {
                        (StmtKind::Expr { .. }, Some(shown)) => self.valued(source, kept.number, shown),
                        _ => source,
                    };
                    let parts = match &stmt.kind {
                        StmtKind::Let { pattern, .. } => self.binding(pattern, &source),
                        _ => {
                            let uses = self.uses(&source);
                            vec![(source, uses)]
                        }
                    };
                    self.pieces.push(Piece::Statement(parts));
                }
                _ => {}
            }
        }
        if kept.value.is_some() {
            self.last_value = kept.number.or(self.last_value);
        }
    }

    /// Adds the definitions of an entry; returns the new versions.
    fn definitions(&mut self, kept: &Kept, whole: &Source, tree: &ast::File) -> Vec<usize> {
        for name in &kept.set_aside {
            self.current.remove(name);
        }
        let mut new = Vec::new();
        let mut end = 0;
        for item in &tree.items {
            let source = whole.part(end..item.span.end as usize);
            end = item.span.end as usize;
            match &item.kind {
                ItemKind::Fn(ast::Fn { name, .. })
                | ItemKind::Kernel(ast::Kernel { name, .. })
                | ItemKind::Struct(ast::Struct { name, .. })
                | ItemKind::Const(ast::Const { name, .. }) => new.push(self.define(&name.text, source)),
                ItemKind::Import(import) => drop(check::module_alias(import).map(|name| self.current.remove(&name))),
                _ => {}
            }
        }
        for name in &kept.followed {
            let latest = self.versions.iter().rev().find(|version| version.name == *name);
            if let Some(source) = latest.map(|version| version.source.clone()) {
                new.push(self.define(name, source));
            }
        }
        new
    }

    /// Adds a `let` or `var`. Its initializer can still refer to a definition that its name shadows.
    fn binding(&mut self, pattern: &ast::Pattern, source: &Source) -> Vec<(Source, Uses)> {
        let assign = lex(&source.text).iter().find(|token| token.kind == Tok::Assign).map(|token| token.start as usize);
        let (head, value) = source.split_at(assign.unwrap_or(source.text.len()));
        let (of_head, of_value) = (self.uses(&head), self.uses(&value));
        self.declare(pattern);
        vec![(head, of_head), (value, of_value)]
    }

    /// Declares a variable, which shadows a definition of its name and keeps the name in the script.
    fn declare(&mut self, pattern: &ast::Pattern) {
        match pattern {
            ast::Pattern::Name(name) => {
                self.current.remove(&name.text);
                self.variables.insert(name.text.clone());
            }
            ast::Pattern::Tuple(parts, _) => parts.iter().for_each(|part| self.declare(part)),
        }
    }

    fn define(&mut self, name: &SmolStr, source: Source) -> usize {
        let version = self.versions.len();
        self.versions.push(Version { name: name.clone(), source, uses: FxHashMap::default() });
        self.current.insert(name.clone(), version);
        self.pieces.push(Piece::Definition(version));
        version
    }

    fn uses(&self, source: &Source) -> Uses {
        let known = source.words().filter_map(|(word, _)| self.current.get_key_value(word));
        known.map(|(name, version)| (name.clone(), *version)).collect()
    }

    /// Replaces `_` in expressions by the value it stood for. Patterns and types, before `=` or after `for`, are unchanged.
    fn without_underscore(&self, source: &Source) -> Source {
        let Some(value) = self.last_value else { return source.clone() };
        let tokens = lex(&source.text);
        let declares = tokens.first().is_some_and(|t| matches!(t.kind, Tok::Let | Tok::Var));
        let assign = tokens.iter().position(|t| t.kind == Tok::Assign).filter(|_| declares).unwrap_or(0);
        let mut edits = vec![];
        for (i, token) in tokens.iter().enumerate().skip(assign) {
            let after_for =
                i > 0 && tokens.get(i - 1).is_some_and(|t| matches!(t.kind, Tok::For | Tok::Let | Tok::Var));
            if token.kind == Tok::Name && token.text(&source.text) == "_" && !after_for {
                edits.push((token.start as usize..token.end as usize, format!("_{value}")));
            }
        }
        source.edited(&edits)
    }

    /// Returns the statement for an expression whose value the session showed or kept.
    fn valued(&self, source: Source, number: Option<usize>, shown: bool) -> Source {
        match number.filter(|number| self.wanted.contains(number)) {
            Some(number) if shown => source.within(&format!("let _{number} = "), &format!("\nprint(_{number})")),
            Some(number) => source.within(&format!("let _{number} = "), ""),
            None if shown => source.within("print(", ")"),
            None => source,
        }
    }

    fn write(&self) -> String {
        let needed = self.needed();
        let names = self.names(&needed);
        let mut text = String::new();
        for piece in &self.pieces {
            let piece = match piece {
                Piece::Plain(text) => text.clone(),
                Piece::Definition(version) if !needed.contains(version) => continue,
                Piece::Definition(version) => {
                    let definition = &self.versions[*version];
                    let mut uses = definition.uses.clone();
                    uses.insert(definition.name.clone(), *version);
                    renamed(&definition.source, &uses, &names)
                }
                Piece::Statement(parts) => parts.iter().map(|(source, uses)| renamed(source, uses, &names)).collect(),
            };
            text += piece.trim_end();
            text.push('\n');
        }
        text
    }

    /// Returns the current versions and all versions they or the statements depend on.
    fn needed(&self) -> FxHashSet<usize> {
        let mut todo: Vec<usize> = self.current.values().copied().collect();
        for piece in &self.pieces {
            if let Piece::Statement(parts) = piece {
                todo.extend(parts.iter().flat_map(|(_, uses)| uses.values()));
            }
        }
        let mut needed = FxHashSet::default();
        while let Some(version) = todo.pop() {
            if needed.insert(version) {
                todo.extend(self.versions[version].uses.values());
            }
        }
        needed
    }

    /// Returns a name for each version: the current version keeps its name unless a variable has it.
    fn names(&self, needed: &FxHashSet<usize>) -> Vec<SmolStr> {
        let mut count: FxHashMap<&SmolStr, usize> = FxHashMap::default();
        let mut taken = self.words.clone();
        let mut names = Vec::new();
        for (i, version) in self.versions.iter().enumerate() {
            let latest = self.current.get(&version.name) == Some(&i) && !self.variables.contains(&version.name);
            if !needed.contains(&i) || latest {
                names.push(version.name.clone());
                continue;
            }
            let number = count.entry(&version.name).or_default();
            loop {
                *number += 1;
                let name = SmolStr::from(format!("{}_{number}", version.name));
                if builtin::find(&name).is_none() && taken.insert(name.clone()) {
                    names.push(name);
                    break;
                }
            }
        }
        names
    }
}

/// Renames the definitions in a text: each use gets the name of its version.
fn renamed(source: &Source, uses: &Uses, names: &[SmolStr]) -> String {
    let found = source.words().filter_map(|(word, range)| {
        let name = uses.get(word).and_then(|version| names.get(*version))?;
        Some((range.clone(), name.to_string()))
    });
    let edits: Vec<(Range<usize>, String)> = found.collect();
    Source { text: source.text.clone(), names: vec![] }.edited(&edits).text
}

/// Returns an import with its path made relative to the script's directory.
fn moved_import(import: &ast::Import, text: &str, start: u32, from: &Path, to: &Path) -> String {
    let ast::ImportSource::File { path, span } = &import.source else { return text.to_string() };
    let here = |folder: &Path| folder.as_os_str().is_empty() || folder == Path::new(".");
    let target = match (here(from), here(to)) {
        _ if Path::new(path.as_str()).is_absolute() => return text.to_string(),
        (true, true) => return text.to_string(),
        (false, true) => from.join(path.as_str()),
        _ => std::path::absolute(from.join(path.as_str())).unwrap_or_else(|_| from.join(path.as_str())),
    };
    let (first, last) = ((span.start - start) as usize, (span.end - start) as usize);
    let (head, tail) = (text.get(..first).unwrap_or(""), text.get(last..).unwrap_or(""));
    format!("{head}\"{}\"{tail}", target.display())
}
