//! Entries of a REPL session, which may replace earlier definitions. Definitions that depend on a replaced definition
//! are checked again, so that callers always call the current definition. Dependents that no longer compile are set
//! aside: their names are unbound until they compile again.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;

use super::import;
use super::session::{CompileResult, Files, Session, SessionDefinition, SessionDefinitions};
use super::snapshot::{ProgramMark, SessionSnapshot};
use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, Span};
use clk_check::Imports;
use clk_check::typed::{ModuleId, NameBinding};
use clk_scalar::builtin;
use clk_syntax::ast::{self, ItemKind};
use clk_syntax::token::Tok;

/// The result of compiling a session entry.
pub struct EntryResult {
    pub outcome: CompileResult,
    /// Dependents of replaced definitions that were recompiled.
    pub followed: Vec<SmolStr>,
    /// Dependents of replaced definitions that no longer compile; `outcome` has a warning about each.
    pub set_aside: Vec<SmolStr>,
    /// Definitions that had been set aside and now compile again.
    pub restored: Vec<SmolStr>,
}

/// The existing definitions that are checked together with an entry.
struct EntryCheck {
    candidates: Vec<Arc<SessionDefinition>>,
    set_aside: Vec<(Arc<SessionDefinition>, String)>,
    warnings: Vec<Diagnostic>,
}

/// An entry without syntax errors whose imports are loaded.
#[derive(Clone, Copy)]
struct ParsedEntry<'e> {
    file: FileId,
    main: ModuleId,
    tree: &'e ast::SourceFile,
    imports: &'e Imports,
    before: &'e SessionSnapshot,
}

impl SessionDefinition {
    /// Returns whether a diagnostic is about a part of the definition.
    fn contains(&self, diagnostic: &Diagnostic) -> bool {
        let item = self.item.span;
        let is_within = |span: Span| span.file == item.file && item.start <= span.start && span.end <= item.end;
        diagnostic.primary().is_some_and(is_within)
    }
}

impl SessionDefinitions {
    /// Returns the location of a definition, and whether it is set aside.
    pub fn place(&self, name: &str) -> Option<(Span, bool)> {
        let current = self.current.get(name).map(|d| (d.item.span, false));
        current.or_else(|| self.set_aside.get(name).map(|(d, _)| (d.item.span, true)))
    }

    /// Returns the names of the definitions that are set aside, each with the reason.
    pub fn set_aside(&self) -> impl Iterator<Item = (&str, &str)> {
        self.set_aside.iter().map(|(name, (_, why))| (name.as_str(), why.as_str()))
    }

    /// Returns the definitions that may depend, directly or indirectly, on one of these names.
    fn find_affected(&self, replaced: &FxHashSet<SmolStr>, new: &FxHashSet<SmolStr>) -> Vec<Arc<SessionDefinition>> {
        let mut changed = replaced.clone();
        let mut dependents: IndexMap<SmolStr, Arc<SessionDefinition>> = IndexMap::new();
        // A definition that is set aside may compile again if the entry defines one of the names in it.
        for definition in self.set_aside.values().map(|(d, _)| d).filter(|d| !new.contains(&d.name)) {
            if definition.words.iter().any(|word| new.contains(word) || self.set_aside.contains_key(word)) {
                changed.insert(definition.name.clone());
                dependents.insert(definition.name.clone(), definition.clone());
            }
        }
        loop {
            let before = dependents.len();
            for definition in self.current.values().filter(|d| !new.contains(&d.name)) {
                if !dependents.contains_key(&definition.name) && !changed.is_disjoint(&definition.words) {
                    changed.insert(definition.name.clone());
                    dependents.insert(definition.name.clone(), definition.clone());
                }
            }
            if dependents.len() == before {
                return dependents.into_values().collect();
            }
        }
    }

    fn define(&mut self, tree: &ast::SourceFile, text: &str, names: &FxHashSet<SmolStr>) {
        // Maps that do not change are not copied.
        if names.iter().any(|name| self.current.contains_key(name)) {
            self.current.retain(|name, _| !names.contains(name));
        }
        if names.iter().any(|name| self.set_aside.contains_key(name)) {
            self.set_aside.retain(|name, _| !names.contains(name));
        }
        for item in &tree.items {
            if let Some(name) = item_name(item) {
                let source = text.get(item.span.range()).unwrap_or("");
                let words = names_in(source);
                self.current.insert(name.clone(), Arc::new(SessionDefinition { name, item: item.clone(), words }));
            }
        }
    }
}

/// If the last statement of an entry is an expression, returns its location. The session displays its value.
fn displayed_value(tree: &ast::SourceFile) -> Option<Span> {
    let mut statements = tree.items.iter().filter_map(|item| match &item.kind {
        ItemKind::Stmt(stmt) => Some(stmt),
        _ => None,
    });
    let ast::StmtKind::Expr { expr, .. } = &statements.next_back()?.kind else { return None };
    Some(ast::bare(expr).span)
}

/// Returns the name of a definition.
fn item_name(item: &ast::Item) -> Option<SmolStr> {
    match &item.kind {
        ItemKind::Const(def) => Some(def.name.text.clone()),
        ItemKind::Struct(def) => Some(def.name.text.clone()),
        ItemKind::Fn(def) => Some(def.name.text.clone()),
        ItemKind::Kernel(def) => Some(def.name.text.clone()),
        ItemKind::Import(_) | ItemKind::Test(_) | ItemKind::Bench(_) | ItemKind::Stmt(_) | ItemKind::Error(_) => None,
    }
}

fn names_in(text: &str) -> FxHashSet<SmolStr> {
    let lexed = clk_syntax::lex(FileId(0), text);
    let names = lexed.tokens.iter().filter(|token| token.kind == Tok::Name);
    names.filter_map(|token| text.get(token.span(FileId(0)).range())).map(SmolStr::from).collect()
}

/// Returns every name that an entry binds by a definition or an import. Includes variables if `variables` is set.
fn new_names(tree: &ast::SourceFile, variables: bool) -> FxHashSet<SmolStr> {
    fn add(pattern: &ast::Pattern, names: &mut FxHashSet<SmolStr>) {
        match pattern {
            ast::Pattern::Name(name) => drop(names.insert(name.text.clone())),
            ast::Pattern::Tuple(parts, _) => parts.iter().for_each(|part| add(part, names)),
        }
    }
    let mut names = FxHashSet::default();
    for item in &tree.items {
        match &item.kind {
            ItemKind::Import(import) => match &import.items {
                ast::ImportItems::Module { .. } => {
                    names.extend(clk_check::module_alias(import).map(|alias| alias.text))
                }
                ast::ImportItems::Names(list) => {
                    names.extend(list.iter().map(|(name, alias)| alias.as_ref().unwrap_or(name).text.clone()));
                }
            },
            ItemKind::Stmt(ast::Stmt { kind: ast::StmtKind::Let { pattern, .. }, .. }) if variables => {
                add(pattern, &mut names);
            }
            _ => names.extend(item_name(item)),
        }
    }
    names
}

impl Session {
    /// Compiles an entry into the main module, and recompiles the dependents of the definitions that it replaces. If
    /// there is an error, the session is unchanged.
    pub fn enter(&mut self, name: &str, text: &str, files: &dyn Files) -> EntryResult {
        let before = self.snapshot();
        self.enter_after(&before, name, text, files)
    }

    /// Like [`Session::enter`], for a caller that has a snapshot of the current state.
    pub fn enter_after(&mut self, before: &SessionSnapshot, name: &str, text: &str, files: &dyn Files) -> EntryResult {
        let file = self.sources.add(name, text);
        let (tree, mut diagnostics) = clk_syntax::parse(file, text);
        let main = self.main_module(file, None);
        let (base, own) = self.base_of(name);
        let imports = import::ImportLoader::new(self, files, &mut diagnostics).imports(&tree, &base, own);
        let (first, first_kernel) = (self.program.chunks.len(), self.program.kernels.len());
        let mut result = EntryResult {
            outcome: CompileResult { file, diagnostics, chunks: first..first },
            followed: vec![],
            set_aside: vec![],
            restored: vec![],
        };
        let new = new_names(&tree, true);
        let candidates = match result.outcome.failed() {
            true => vec![],
            false => self.definitions.find_affected(&self.replaced_items(&tree, main), &new),
        };
        let mut entry_check = EntryCheck { candidates, set_aside: vec![], warnings: vec![] };
        let found = &mut result.outcome.diagnostics;
        if entry_check.candidates.is_empty() {
            super::check_valid_items(&mut self.program, main, (file, text), &tree, &imports, found);
        } else {
            let entry = ParsedEntry { file, main, tree: &tree, imports: &imports, before };
            let mut errors = self.check_with_dependents(&entry, &mut entry_check);
            clk_syntax::translate_names(file, text, &mut errors);
            found.extend(errors);
        }
        super::drop_unreported(found);
        let displayed = displayed_value(&tree);
        found.retain(|d| !(matches!(d.code, "W0005" | "W0012") && d.primary() == displayed));
        if !result.outcome.failed() {
            let errors = self.examine_entry(file, first_kernel);
            result.outcome.diagnostics.extend(errors);
        }
        if result.outcome.failed() {
            self.explain_set_aside(&mut result.outcome.diagnostics);
            result.outcome.drop_warnings();
            self.restore(before);
        } else {
            self.apply_entry_check(entry_check, &mut result);
            self.definitions.define(&tree, text, &new);
            result.outcome.chunks.end = self.program.chunks.len();
        }
        result
    }

    /// Returns the names of the items of an entry that replace a definition. Variables are not included: if a variable
    /// shadows a definition, callers still call the definition.
    fn replaced_items(&self, tree: &ast::SourceFile, main: ModuleId) -> FxHashSet<SmolStr> {
        let is_bound = |name: &SmolStr| match self.program.modules[main].names.get(name) {
            Some(NameBinding::Global(_)) => false,
            Some(_) => true,
            None => builtin::find(name).is_some(),
        };
        new_names(tree, false).into_iter().filter(is_bound).collect()
    }

    /// Adds a note to errors about unknown names whose definition is set aside: the reason why it is.
    fn explain_set_aside(&self, diagnostics: &mut [Diagnostic]) {
        for diagnostic in diagnostics.iter_mut().filter(|d| d.code == "E0201") {
            let name = diagnostic.primary().map_or("", |span| self.sources.slice(span));
            if let Some((_, why)) = self.definitions.set_aside.get(name) {
                diagnostic.help = vec![format!("redefine what it uses, or `{name}` itself")];
                diagnostic.fixes.clear();
                diagnostic.notes.push(format!("`{name}` is set aside: {why}"));
            }
        }
    }

    /// Checks an entry together with the dependents of its definitions, which is a single check unless there are
    /// errors. Sets aside dependents with errors and repeats until there are none. Returns the diagnostics of the
    /// entry.
    fn check_with_dependents(&mut self, entry: &ParsedEntry<'_>, entry_check: &mut EntryCheck) -> Vec<Diagnostic> {
        let ParsedEntry { file, main, tree, imports, before } = *entry;
        let loaded = ProgramMark::of(&self.program);
        let mut is_entry_valid = false;
        loop {
            for (definition, _) in &entry_check.set_aside {
                self.program.modules[main].names.shift_remove(&definition.name);
            }
            let mut combined = tree.clone();
            combined.items.extend(entry_check.candidates.iter().map(|definition| definition.item.clone()));
            let mut diagnostics = clk_check::check(&mut self.program, main, &combined, imports);
            if !diagnostics.iter().any(Diagnostic::is_error) {
                // Warnings about dependents were reported when they were entered.
                let is_own = |d: &Diagnostic| d.primary().is_none_or(|at| at.file == file);
                diagnostics.retain(is_own);
                return diagnostics;
            }
            diagnostics.retain(Diagnostic::is_error);
            let errors = diagnostics;
            let is_in_candidate = |error: &Diagnostic| entry_check.candidates.iter().any(|d| d.contains(error));
            if !is_entry_valid && !errors.iter().all(is_in_candidate) {
                // The errors of the entry must not depend on the errors of its dependents.
                self.restore_loaded(&loaded, before);
                let own = clk_check::check(&mut self.program, main, tree, imports);
                if own.iter().any(Diagnostic::is_error) {
                    return own;
                }
            }
            is_entry_valid = true;
            self.restore_loaded(&loaded, before);
            let find_error = |definition: &SessionDefinition| errors.iter().find(|error| definition.contains(error));
            let (failing, valid): (Vec<_>, Vec<_>) =
                entry_check.candidates.drain(..).partition(|d| find_error(d).is_some());
            if failing.is_empty() {
                return errors;
            }
            for definition in &failing {
                if let (Some(error), false) =
                    (find_error(definition), self.definitions.set_aside.contains_key(&definition.name))
                {
                    entry_check.warnings.push(set_aside_warning(&definition.name, error));
                }
            }
            let why = |d: &SessionDefinition| find_error(d).map_or_else(String::new, |error| error.title.clone());
            let failing: Vec<_> = failing.into_iter().map(|d| (d.clone(), why(&d))).collect();
            entry_check.set_aside.extend(failing);
            entry_check.candidates = valid;
        }
    }

    fn apply_entry_check(&mut self, entry_check: EntryCheck, result: &mut EntryResult) {
        for definition in entry_check.candidates {
            let name = definition.name.clone();
            match self.definitions.set_aside.contains_key(&name) {
                true => {
                    self.definitions.set_aside.shift_remove(&name);
                    result.restored.push(name.clone());
                }
                false => result.followed.push(name.clone()),
            }
            self.definitions.current.insert(name, definition);
        }
        for (definition, why) in entry_check.set_aside {
            let name = definition.name.clone();
            if self.definitions.current.shift_remove(&name).is_some() {
                result.set_aside.push(name.clone());
            }
            self.definitions.set_aside.insert(name, (definition, why));
        }
        result.outcome.diagnostics.extend(entry_check.warnings);
    }
}

fn set_aside_warning(name: &str, error: &Diagnostic) -> Diagnostic {
    let mut warning = Diagnostic::warning("W0010", format!("`{name}` no longer compiles and is set aside"));
    if let Some(place) = error.primary() {
        warning = warning.at(place, error.title.clone());
    }
    let (notes, help) = (error.notes.iter(), error.help.iter());
    warning = notes.fold(warning, |w, note| w.note(note.clone()));
    warning = help.fold(warning, |w, help| w.help(help.clone()));
    warning.help(format!("redefine `{name}` or what it uses; it is restored once it compiles"))
}
