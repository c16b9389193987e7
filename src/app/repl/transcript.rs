//! `:save`: the successful entries of a session as a script that reproduces it.
//!
//! In a script all definitions are visible from the beginning. A definition that was replaced after it had been used is
//! therefore kept under another name (`f` becomes `f_1`), and its uses are renamed.

use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;

use crate::base::source::FileId;
use crate::check;
use crate::compile::Entered;
use crate::syntax;
use crate::syntax::ast::{self, ItemKind, StmtKind};
use crate::syntax::token::{Tok, Token};

/// A successful entry.
pub(crate) struct Kept {
    pub text: String,
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
        entered: &Entered,
        name: &str,
        text: &str,
        folder: PathBuf,
        number: Option<usize>,
        quiet: Option<bool>,
    ) -> Kept {
        let followed = entered.followed.iter().chain(&entered.restored).cloned().collect();
        let value = quiet.map(|quiet| !quiet);
        let (text, name) = (text.to_string(), name.to_string());
        Kept { text, folder, name, number, value, followed, set_aside: entered.set_aside.clone() }
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
    text: String,
    /// The versions of the definitions it uses.
    uses: Uses,
}

enum Piece {
    Plain(String),
    Definition(usize),
    /// Texts in sequence, each with the versions of the definitions it uses.
    Statement(Vec<(String, Uses)>),
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
}

/// Returns the entries as one script, to be saved at this path.
pub(crate) fn script(log: &[Kept], path: &Path) -> String {
    let mut script = Script { wanted: wanted(log), ..Script::default() };
    for kept in log {
        script.entry(kept, path.parent().unwrap_or(Path::new("")));
    }
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

fn lex(text: &str) -> Vec<Token> {
    syntax::lex(FileId(0), text).tokens
}

impl Script {
    fn entry(&mut self, kept: &Kept, folder: &Path) {
        let (tree, _) = syntax::parse(FileId(0), &kept.text);
        let new = self.definitions(kept, &tree);
        // Uses can be resolved only when all names of the entry are defined.
        for version in new {
            let uses = self.uses(&self.versions[version].text);
            self.versions[version].uses = uses;
        }
        let statements = tree.items.iter().filter(|item| matches!(item.kind, ItemKind::Stmt(_))).count();
        let mut seen = 0;
        let mut end = 0;
        for item in &tree.items {
            let text =
                kept.text.get(end..item.span.end as usize).unwrap_or("").trim_matches(['\n', ' ', ';']).to_string();
            end = item.span.end as usize;
            match &item.kind {
                ItemKind::Import(import) => {
                    let text = kept.text.get(item.span.range()).unwrap_or("");
                    self.pieces.push(Piece::Plain(moved_import(import, text, item.span.start, &kept.folder, folder)));
                }
                ItemKind::Test(_) | ItemKind::Bench(_) => {
                    let uses = self.uses(&text);
                    self.pieces.push(Piece::Statement(vec![(text, uses)]));
                }
                ItemKind::Stmt(stmt) => {
                    seen += 1;
                    let text = self.without_underscore(&text);
                    let last = seen == statements;
                    let text = match (&stmt.kind, last.then_some(kept.value).flatten()) {
                        (StmtKind::Expr { .. }, Some(shown)) => self.valued(&text, kept.number, shown),
                        _ => text,
                    };
                    let parts = match &stmt.kind {
                        StmtKind::Let { pattern, .. } => self.binding(pattern, &text),
                        _ => {
                            let uses = self.uses(&text);
                            vec![(text, uses)]
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
    fn definitions(&mut self, kept: &Kept, tree: &ast::File) -> Vec<usize> {
        for name in &kept.set_aside {
            self.current.remove(name);
        }
        let mut new = Vec::new();
        let mut end = 0;
        for item in &tree.items {
            let text = kept.text.get(end..item.span.end as usize).unwrap_or("").trim_matches(['\n', ' ', ';']);
            end = item.span.end as usize;
            match &item.kind {
                ItemKind::Fn(ast::Fn { name, .. })
                | ItemKind::Kernel(ast::Kernel { name, .. })
                | ItemKind::Struct(ast::Struct { name, .. })
                | ItemKind::Const(ast::Const { name, .. }) => new.push(self.define(&name.text, text.to_string())),
                ItemKind::Import(import) => drop(check::module_alias(import).map(|name| self.current.remove(&name))),
                _ => {}
            }
        }
        for name in &kept.followed {
            let latest = self.versions.iter().rev().find(|version| version.name == *name);
            if let Some(text) = latest.map(|version| version.text.clone()) {
                new.push(self.define(name, text));
            }
        }
        new
    }

    /// Adds a `let` or `var`. Its initializer can still refer to a definition that its name shadows.
    fn binding(&mut self, pattern: &ast::Pattern, text: &str) -> Vec<(String, Uses)> {
        let assign = lex(text).iter().find(|token| token.kind == Tok::Assign).map_or(text.len(), |t| t.start as usize);
        let (head, value) = text.split_at(assign);
        let (mut of_head, of_value) = (self.uses(head), self.uses(value));
        self.declare(pattern);
        of_head.retain(|name, _| self.current.contains_key(name));
        vec![(head.to_string(), of_head), (value.to_string(), of_value)]
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

    fn define(&mut self, name: &SmolStr, text: String) -> usize {
        let version = self.versions.len();
        self.versions.push(Version { name: name.clone(), text, uses: FxHashMap::default() });
        self.current.insert(name.clone(), version);
        self.pieces.push(Piece::Definition(version));
        version
    }

    fn uses(&self, text: &str) -> Uses {
        let names = lex(text).into_iter().filter(|token| token.kind == Tok::Name);
        let known = names.filter_map(|token| self.current.get_key_value(token.text(text)));
        known.map(|(name, version)| (name.clone(), *version)).collect()
    }

    /// Replaces `_` in expressions by the value it stood for. Patterns and types, before `=` or after `for`, are unchanged.
    fn without_underscore(&self, text: &str) -> String {
        let Some(value) = self.last_value else { return text.to_string() };
        let tokens = lex(text);
        let declares = tokens.first().is_some_and(|t| matches!(t.kind, Tok::Let | Tok::Var));
        let assign = tokens.iter().position(|t| t.kind == Tok::Assign).filter(|_| declares).unwrap_or(0);
        let mut result = String::new();
        let mut end = 0;
        for (i, token) in tokens.iter().enumerate().skip(assign) {
            let behind_for =
                i > 0 && tokens.get(i - 1).is_some_and(|t| matches!(t.kind, Tok::For | Tok::Let | Tok::Var));
            if token.kind == Tok::Name && token.text(text) == "_" && !behind_for {
                result += text.get(end..token.start as usize).unwrap_or("");
                result += &format!("_{value}");
                end = token.end as usize;
            }
        }
        result + text.get(end..).unwrap_or("")
    }

    /// Returns the statement for an expression whose value the session showed or kept.
    fn valued(&self, text: &str, number: Option<usize>, shown: bool) -> String {
        match number.filter(|number| self.wanted.contains(number)) {
            Some(number) if shown => format!("let _{number} = {text}\nprint(_{number})"),
            Some(number) => format!("let _{number} = {text}"),
            None if shown => format!("print({text})"),
            None => text.to_string(),
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
                    renamed(&definition.text, &uses, &names)
                }
                Piece::Statement(parts) => parts.iter().map(|(text, uses)| renamed(text, uses, &names)).collect(),
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
        let mut names = Vec::new();
        for (i, version) in self.versions.iter().enumerate() {
            let latest = self.current.get(&version.name) == Some(&i) && !self.variables.contains(&version.name);
            if !needed.contains(&i) || latest {
                names.push(version.name.clone());
                continue;
            }
            let number = count.entry(&version.name).or_default();
            *number += 1;
            names.push(format!("{}_{number}", version.name).into());
        }
        names
    }
}

/// Replaces names by those of the versions used. A word after a dot is a field and is unchanged.
fn renamed(text: &str, uses: &Uses, names: &[SmolStr]) -> String {
    let mut result = String::new();
    let mut end = 0;
    let mut before = Tok::Newline;
    for token in lex(text) {
        if token.kind == Tok::Name
            && before != Tok::Dot
            && let Some(name) = uses.get(token.text(text)).and_then(|version| names.get(*version))
        {
            result += text.get(end..token.start as usize).unwrap_or("");
            result += name;
            end = token.end as usize;
        }
        before = token.kind;
    }
    result + text.get(end..).unwrap_or("")
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
