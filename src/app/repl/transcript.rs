//! Writes the successful entries of a session as a script that reproduces it, for `:save`.
//!
//! In a script, all definitions are visible from the beginning. If a definition was used and later replaced, the script
//! keeps the old one under another name (`f` becomes `f_1`) and renames its uses.

use std::ops::Range;
use std::path::{Path, PathBuf};

use rustc_hash::{FxHashMap, FxHashSet};
use smol_str::SmolStr;

use clk_base::source::FileId;
use clk_compile::EntryResult;
use clk_scalar::builtin;
use clk_syntax::ast::{self, ItemKind, StmtKind};
use clk_syntax::token::{Tok, Token};

/// A source text, with the byte ranges of the names in it that refer to definitions of the session.
#[derive(Clone, Debug, Default)]
struct EntryText {
    text: String,
    names: Vec<Range<usize>>,
}

impl EntryText {
    /// Returns a range of the text, without surrounding blank space.
    fn part(&self, range: Range<usize>) -> EntryText {
        let part = self.text.get(range.clone()).unwrap_or("");
        let text = part.trim_matches(['\n', ' ', ';']);
        let start = range.start + part.find(text).unwrap_or(0);
        let end = start + text.len();
        let inside = self.names.iter().filter(|name| start <= name.start && name.end <= end);
        let names = inside.map(|name| name.start - start..name.end - start).collect();
        EntryText { text: text.to_string(), names }
    }

    fn split_at(&self, at: usize) -> (EntryText, EntryText) {
        let (head, tail) = self.text.split_at(at);
        let (first, second): (Vec<_>, Vec<_>) = self.names.iter().cloned().partition(|name| name.end <= at);
        let second = second.into_iter().map(|name| name.start - at..name.end - at).collect();
        (EntryText { text: head.into(), names: first }, EntryText { text: tail.into(), names: second })
    }

    /// Replaces ranges of the text. `edits` are in ascending order and do not overlap the names of definitions.
    fn edited(&self, edits: &[(Range<usize>, String)]) -> EntryText {
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
        EntryText { text, names }
    }

    fn within(&self, before: &str, after: &str) -> EntryText {
        let end = self.text.len();
        self.edited(&[(0..0, before.to_string()), (end..end, after.to_string())])
    }

    fn words(&self) -> impl Iterator<Item = (&str, &Range<usize>)> {
        self.names.iter().map(|range| (self.text.get(range.clone()).unwrap_or(""), range))
    }
}

/// A successful entry of the session's log.
pub(crate) struct TranscriptEntry {
    pub text: String,
    /// The byte ranges of the names in the text that refer to definitions of the session.
    names: Vec<Range<usize>>,
    /// The directory to which its imports of files are relative.
    pub folder: PathBuf,
    /// The name of its source text: `<entry 3>` or a file name.
    pub name: String,
    /// The number of the entry; `None` for a loaded file or a setting.
    number: Option<usize>,
    /// Whether the session showed the entry's value; `None` if it has no value.
    value: Option<bool>,
    followed: Vec<SmolStr>,
    set_aside: Vec<SmolStr>,
}

impl TranscriptEntry {
    /// Creates a log entry. `names` are the byte ranges of the names in the text that refer to definitions of the
    /// session. `quiet` is `None` if the entry has no value, and `Some(true)` if its value was not shown.
    pub fn new(
        folder: &Path,
        entered: &EntryResult,
        names: Vec<Range<usize>>,
        name: &str,
        text: &str,
        number: Option<usize>,
        quiet: Option<bool>,
    ) -> TranscriptEntry {
        let followed = entered.followed.iter().chain(&entered.restored).cloned().collect();
        let value = quiet.map(|quiet| !quiet);
        TranscriptEntry {
            text: text.to_string(),
            names,
            folder: folder.to_path_buf(),
            name: name.to_string(),
            number,
            value,
            followed,
            set_aside: entered.set_aside.clone(),
        }
    }

    /// Creates a log entry for a setting that a script sets by a statement.
    pub fn setting(text: String) -> TranscriptEntry {
        TranscriptEntry {
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

    fn source(&self) -> EntryText {
        EntryText { text: self.text.clone(), names: self.names.clone() }
    }
}

/// Returns the texts of all imports of files, each with the directory to which it is relative.
pub(crate) fn file_imports(log: &[TranscriptEntry]) -> Vec<(PathBuf, String)> {
    let mut imports = Vec::new();
    for kept in log {
        let (tree, _) = clk_syntax::parse(FileId(0), &kept.text);
        for item in &tree.items {
            if let ItemKind::Import(ast::Import { source: ast::ImportSource::File { .. }, .. }) = &item.kind
                && let Some(text) = kept.text.get(item.span.range())
            {
                let import = (kept.folder.clone(), text.to_string());
                if !imports.contains(&import) {
                    imports.push(import);
                }
            }
        }
    }
    imports
}

/// For each definition that a text uses, by name, the index of the version in use.
type VersionUses = FxHashMap<SmolStr, usize>;

/// One of the definitions that a name had during the session.
struct DefinitionVersion {
    name: SmolStr,
    source: EntryText,
    /// The versions of other definitions that this version uses.
    uses: VersionUses,
}

enum TranscriptPiece {
    Plain(String),
    Definition(usize),
    /// Consecutive texts that form one statement, each with the versions of the definitions it uses.
    Statement(Vec<(EntryText, VersionUses)>),
}

/// A script under construction.
#[derive(Default)]
struct ScriptBuilder {
    versions: Vec<DefinitionVersion>,
    /// The version that each name currently refers to.
    current: FxHashMap<SmolStr, usize>,
    /// The names of variables.
    variables: FxHashSet<SmolStr>,
    pieces: Vec<TranscriptPiece>,
    /// Number of the last entry that has a value, to which `_` refers.
    last_value: Option<usize>,
    /// Numbers of the entries whose values later entries use by name.
    wanted: FxHashSet<usize>,
    /// All words in the session's texts, which a new name must not repeat.
    words: FxHashSet<SmolStr>,
}

/// Returns the statement that sets the seed of the random number generator.
pub(crate) fn seeded(seed: u64) -> String {
    let suffix = if i32::try_from(seed).is_ok() { "" } else { "u64" };
    format!("seed_random({seed}{suffix})")
}

/// Returns the entries as one script, to be saved at this path. `seed` is the seed with which the session began.
pub(crate) fn script(log: &[TranscriptEntry], seed: Option<u64>, path: &Path) -> String {
    let mut script = ScriptBuilder { wanted: used_value_numbers(log), words: words(log), ..ScriptBuilder::default() };
    if let Some(seed) = seed {
        script.pieces.push(TranscriptPiece::Plain(seeded(seed)));
    }
    for kept in log {
        script.entry(kept, path.parent().unwrap_or(Path::new("")));
    }
    script.write()
}

/// Returns the definitions and imports of the entries as a program at this path, without statements.
pub(crate) fn definitions(log: &[TranscriptEntry], path: &Path) -> String {
    let mut script = ScriptBuilder { words: words(log), ..ScriptBuilder::default() };
    for kept in log {
        script.entry(kept, path.parent().unwrap_or(Path::new("")));
    }
    script.pieces.retain(|piece| !matches!(piece, TranscriptPiece::Statement(_)));
    script.write()
}

/// Returns the numbers of the entries whose values other entries use.
fn used_value_numbers(log: &[TranscriptEntry]) -> FxHashSet<usize> {
    let mut numbers = FxHashSet::default();
    let mut last = None;
    for kept in log {
        for token in lex(&kept.text).iter().filter(|token| token.kind == Tok::Name) {
            match token.text(&kept.text).strip_prefix('_') {
                Some("") => numbers.extend(last),
                Some(number) => numbers.extend(number.parse::<usize>().ok()),
                None => {}
            }
        }
        if kept.value.is_some() {
            last = kept.number.or(last);
        }
    }
    numbers
}

/// Returns the words of the entries, including those in strings, which may contain expressions.
fn words(log: &[TranscriptEntry]) -> FxHashSet<SmolStr> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    log.iter()
        .flat_map(|kept| kept.text.split(|c| !is_word(c)))
        .filter(|word| !word.is_empty())
        .map(SmolStr::new)
        .collect()
}

fn lex(text: &str) -> Vec<Token> {
    clk_syntax::lex(FileId(0), text).tokens
}

impl ScriptBuilder {
    fn entry(&mut self, kept: &TranscriptEntry, folder: &Path) {
        let (tree, _) = clk_syntax::parse(FileId(0), &kept.text);
        let whole = kept.source();
        let new = self.definitions(kept, &whole, &tree);
        // Resolves the uses of definitions only now, because the definitions of an entry may use each other.
        for version in new {
            let uses = self.uses(&self.versions[version].source);
            self.versions[version].uses = uses;
        }
        let statements = tree.items.iter().filter(|item| matches!(item.kind, ItemKind::Stmt(_))).count();
        let mut statement_count = 0;
        let mut end = 0;
        for item in &tree.items {
            let source = whole.part(end..item.span.end as usize);
            end = item.span.end as usize;
            match &item.kind {
                ItemKind::Import(import) => {
                    let text = kept.text.get(item.span.range()).unwrap_or("");
                    self.pieces.push(TranscriptPiece::Plain(relocated_import(
                        import,
                        text,
                        item.span.start,
                        &kept.folder,
                        folder,
                    )));
                }
                ItemKind::Test(_) | ItemKind::Bench(_) => {
                    let uses = self.uses(&source);
                    self.pieces.push(TranscriptPiece::Statement(vec![(source, uses)]));
                }
                ItemKind::Stmt(stmt) => {
                    statement_count += 1;
                    let source = self.without_underscore(&source);
                    let last = statement_count == statements;
                    let source = match (&stmt.kind, last.then_some(kept.value).flatten()) {
                        (StmtKind::Expr { .. }, Some(shown)) => self.value_statement(source, kept.number, shown),
                        _ => source,
                    };
                    let parts = match &stmt.kind {
                        StmtKind::Let { pattern, .. } => self.binding(pattern, &source),
                        _ => {
                            let uses = self.uses(&source);
                            vec![(source, uses)]
                        }
                    };
                    self.pieces.push(TranscriptPiece::Statement(parts));
                }
                _ => {}
            }
        }
        if kept.value.is_some() {
            self.last_value = kept.number.or(self.last_value);
        }
    }

    /// Adds the definitions of an entry; returns the indices of the new versions.
    fn definitions(&mut self, kept: &TranscriptEntry, whole: &EntryText, tree: &ast::SourceFile) -> Vec<usize> {
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
                ItemKind::Import(import) => {
                    if let Some(name) = clk_check::module_alias(import) {
                        self.current.remove(&name.text);
                    }
                }
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

    /// Adds a `let` or `var` statement. Its initializer may still use the definition that the new variable shadows.
    fn binding(&mut self, pattern: &ast::Pattern, source: &EntryText) -> Vec<(EntryText, VersionUses)> {
        let assign = lex(&source.text).iter().find(|token| token.kind == Tok::Assign).map(|token| token.start as usize);
        let (head, value) = source.split_at(assign.unwrap_or(source.text.len()));
        let (of_head, of_value) = (self.uses(&head), self.uses(&value));
        self.declare(pattern);
        vec![(head, of_head), (value, of_value)]
    }

    /// Declares a variable. It shadows a definition of the same name, and is not renamed in the script.
    fn declare(&mut self, pattern: &ast::Pattern) {
        match pattern {
            ast::Pattern::Name(name) => {
                self.current.remove(&name.text);
                self.variables.insert(name.text.clone());
            }
            ast::Pattern::Tuple(parts, _) => parts.iter().for_each(|part| self.declare(part)),
        }
    }

    fn define(&mut self, name: &SmolStr, source: EntryText) -> usize {
        let version = self.versions.len();
        self.versions.push(DefinitionVersion { name: name.clone(), source, uses: FxHashMap::default() });
        self.current.insert(name.clone(), version);
        self.pieces.push(TranscriptPiece::Definition(version));
        version
    }

    fn uses(&self, source: &EntryText) -> VersionUses {
        let used = source.words().filter_map(|(word, _)| self.current.get_key_value(word));
        used.map(|(name, version)| (name.clone(), *version)).collect()
    }

    /// Replaces `_` in expressions by the name of the last value (`_3`). Does not change `_` in patterns and types,
    /// which occurs before `=` or after `for`.
    fn without_underscore(&self, source: &EntryText) -> EntryText {
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

    /// Returns the statement that reproduces an expression entry: binds its value if later entries use it, and prints
    /// it if the session did.
    fn value_statement(&self, source: EntryText, number: Option<usize>, shown: bool) -> EntryText {
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
                TranscriptPiece::Plain(text) => text.clone(),
                TranscriptPiece::Definition(version) if !needed.contains(version) => continue,
                TranscriptPiece::Definition(version) => {
                    let definition = &self.versions[*version];
                    let mut uses = definition.uses.clone();
                    uses.insert(definition.name.clone(), *version);
                    rename_uses(&definition.source, &uses, &names)
                }
                TranscriptPiece::Statement(parts) => {
                    parts.iter().map(|(source, uses)| rename_uses(source, uses, &names)).collect()
                }
            };
            text += piece.trim_end();
            text.push('\n');
        }
        text
    }

    /// Returns the versions that the script must contain: the current ones, those in statements, and all that these
    /// use.
    fn needed(&self) -> FxHashSet<usize> {
        let mut todo: Vec<usize> = self.current.values().copied().collect();
        for piece in &self.pieces {
            if let TranscriptPiece::Statement(parts) = piece {
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

    /// Returns the name of each version in the script. A current version keeps its name, unless a variable has the same
    /// name.
    fn names(&self, needed: &FxHashSet<usize>) -> Vec<SmolStr> {
        let mut count: FxHashMap<&SmolStr, usize> = FxHashMap::default();
        let mut used_names = self.words.clone();
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
                if builtin::find(&name).is_none() && used_names.insert(name.clone()) {
                    names.push(name);
                    break;
                }
            }
        }
        names
    }
}

/// Replaces each use of a definition in a text by the name of the version it refers to.
fn rename_uses(source: &EntryText, uses: &VersionUses, names: &[SmolStr]) -> String {
    let edits_of_uses = source.words().filter_map(|(word, range)| {
        let name = uses.get(word).and_then(|version| names.get(*version))?;
        Some((range.clone(), name.to_string()))
    });
    let edits: Vec<(Range<usize>, String)> = edits_of_uses.collect();
    EntryText { text: source.text.clone(), names: vec![] }.edited(&edits).text
}

/// Returns an import statement in which the path is relative to the script's directory instead of the entry's.
fn relocated_import(import: &ast::Import, text: &str, start: u32, from: &Path, to: &Path) -> String {
    let ast::ImportSource::File { path, span } = &import.source else { return text.to_string() };
    let is_current = |folder: &Path| folder.as_os_str().is_empty() || folder == Path::new(".");
    let target = match (is_current(from), is_current(to)) {
        _ if Path::new(path.as_str()).is_absolute() => return text.to_string(),
        (true, true) => return text.to_string(),
        (false, true) => from.join(path.as_str()),
        _ => std::path::absolute(from.join(path.as_str())).unwrap_or_else(|_| from.join(path.as_str())),
    };
    let (first, last) = ((span.start - start) as usize, (span.end - start) as usize);
    let (head, tail) = (text.get(..first).unwrap_or(""), text.get(last..).unwrap_or(""));
    format!("{head}\"{}\"{tail}", target.display())
}
