//! Session entries that replace definitions. Dependents of a replaced definition are checked again, so that callers always call
//! the current definition. Dependents that no longer compile are set aside until they do.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;

use super::import;
use super::session::{Definition, Definitions, Files, Outcome, Session};
use crate::base::diag::Diagnostic;
use crate::base::source::{FileId, Span};
use crate::check::typed::{Binding, ModuleId, Program};
use crate::check::{self, Imports};
use crate::lang::builtin;
use crate::syntax;
use crate::syntax::ast::{self, ItemKind};
use crate::syntax::token::Tok;

/// Result of compiling an entry.
pub struct Entered {
    pub outcome: Outcome,
    /// Dependents of replaced definitions that were recompiled.
    pub followed: Vec<SmolStr>,
    /// Dependents of replaced definitions that no longer compile; `outcome` has a warning about each.
    pub set_aside: Vec<SmolStr>,
    /// Definitions that were set aside and compile again.
    pub restored: Vec<SmolStr>,
}

/// Definitions checked together with an entry.
struct Trial {
    candidates: Vec<Arc<Definition>>,
    set_aside: Vec<(Arc<Definition>, String)>,
    warnings: Vec<Diagnostic>,
}

impl Definitions {
    /// Returns the location of a definition, and whether it is set aside.
    pub fn place(&self, name: &str) -> Option<(Span, bool)> {
        let known = self.known.get(name).map(|d| (d.item.span, false));
        known.or_else(|| self.aside.get(name).map(|(d, _)| (d.item.span, true)))
    }

    /// Returns the names of the definitions set aside, with the reasons.
    pub fn set_aside(&self) -> impl Iterator<Item = (&str, &str)> {
        self.aside.iter().map(|(name, (_, why))| (name.as_str(), why.as_str()))
    }

    /// Returns the definitions that may depend, directly or indirectly, on one of these names.
    fn affected(&self, replaced: &FxHashSet<SmolStr>, new: &FxHashSet<SmolStr>) -> Vec<Arc<Definition>> {
        let mut changed = replaced.clone();
        let mut found: IndexMap<SmolStr, Arc<Definition>> = IndexMap::new();
        // A definition that was set aside may compile with anything new.
        for definition in self.aside.values().map(|(d, _)| d).filter(|d| !new.contains(&d.name)) {
            if definition.words.iter().any(|word| new.contains(word) || self.aside.contains_key(word)) {
                changed.insert(definition.name.clone());
                found.insert(definition.name.clone(), definition.clone());
            }
        }
        loop {
            let before = found.len();
            for definition in self.known.values().filter(|d| !new.contains(&d.name)) {
                if !found.contains_key(&definition.name) && !changed.is_disjoint(&definition.words) {
                    changed.insert(definition.name.clone());
                    found.insert(definition.name.clone(), definition.clone());
                }
            }
            if found.len() == before {
                return found.into_values().collect();
            }
        }
    }

    fn define(&mut self, tree: &ast::File, text: &str, names: &FxHashSet<SmolStr>) {
        for name in names {
            self.known.shift_remove(name);
            self.aside.shift_remove(name);
        }
        for item in &tree.items {
            if let Some(name) = item_name(item) {
                let source = text.get(item.span.range()).unwrap_or("");
                let words = words(source);
                self.known.insert(name.clone(), Arc::new(Definition { name, item: item.clone(), words }));
            }
        }
    }
}

/// Returns the place of the value that a session shows: the last statement of the entry, if that is an expression.
fn shown_value(tree: &ast::File) -> Option<Span> {
    let mut statements = tree.items.iter().filter_map(|item| match &item.kind {
        ItemKind::Stmt(stmt) => Some(stmt),
        _ => None,
    });
    let ast::StmtKind::Expr { expr, .. } = &statements.next_back()?.kind else { return None };
    let mut shown = expr;
    while let ast::ExprKind::Paren(inner) = &shown.kind {
        shown = inner;
    }
    Some(shown.span)
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

fn words(text: &str) -> FxHashSet<SmolStr> {
    let lexed = syntax::lex(FileId(0), text);
    let names = lexed.tokens.iter().filter(|token| token.kind == Tok::Name);
    names.filter_map(|token| text.get(token.span(FileId(0)).range())).map(SmolStr::from).collect()
}

/// Returns every name that an entry binds: definitions, imports and, if requested, variables.
fn new_names(tree: &ast::File, variables: bool) -> FxHashSet<SmolStr> {
    fn add(pattern: &ast::Pattern, names: &mut FxHashSet<SmolStr>) {
        match pattern {
            ast::Pattern::Name(name) => drop(names.insert(name.text.clone())),
            ast::Pattern::Tuple(parts, _) => parts.iter().for_each(|part| add(part, names)),
        }
    }
    let mut names = FxHashSet::default();
    for item in &tree.items {
        match &item.kind {
            ItemKind::Import(import) => match &import.what {
                ast::ImportWhat::Module { .. } => names.extend(check::module_alias(import)),
                ast::ImportWhat::Names(list) => {
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
    /// Compiles an entry into the main module and recompiles the dependents of definitions that it replaces. After an error
    /// everything is as before.
    pub fn enter(&mut self, name: &str, text: &str, files: &dyn Files) -> Entered {
        let before = (self.program.clone(), self.main, self.modules.clone());
        let file = self.sources.add(name, text);
        let (tree, mut diagnostics) = syntax::parse(file, text);
        let main = self.main_module(file, None);
        let (base, own) = self.base_of(name);
        let imports = import::Loader::new(self, files, &mut diagnostics).imports(&tree, &base, own);
        let loaded = self.program.clone();
        let first = loaded.chunks.len();
        diagnostics.extend(check::check(&mut self.program, main, &tree, &imports));
        super::without_unreported(&mut diagnostics);
        let shown = shown_value(&tree);
        diagnostics.retain(|d| !(matches!(d.code, "W0005" | "W0012") && d.primary() == shown));
        let mut entered = Entered {
            outcome: Outcome { file, diagnostics, chunks: first..first },
            followed: vec![],
            set_aside: vec![],
            restored: vec![],
        };
        if !entered.outcome.failed() {
            self.follow(loaded, main, &tree, &imports, &mut entered);
        }
        match entered.outcome.failed() {
            true => {
                self.explain_set_aside(&mut entered.outcome.diagnostics);
                entered.outcome.without_warnings();
                (self.program, self.main, self.modules) = before;
            }
            false => entered.outcome.chunks.end = self.program.chunks.len(),
        }
        entered
    }

    /// Adds the reason to errors about unknown names whose definition is set aside.
    fn explain_set_aside(&self, diagnostics: &mut [Diagnostic]) {
        for diagnostic in diagnostics.iter_mut().filter(|d| d.code == "E0201") {
            let name = diagnostic.primary().map_or("", |span| self.sources.slice(span));
            if let Some((_, why)) = self.definitions.aside.get(name) {
                diagnostic.help = vec![format!("enter what it uses, or `{name}` itself, so that both fit again")];
                diagnostic.fixes.clear();
                diagnostic.notes.push(format!("`{name}` is set aside: {why}"));
            }
        }
    }

    /// Checks the dependents of a valid entry's names again. `loaded` is the program before the entry.
    fn follow(&mut self, loaded: Program, main: ModuleId, tree: &ast::File, imports: &Imports, entered: &mut Entered) {
        let new = new_names(tree, true);
        // A variable may shadow a definition; its callers still call the definition.
        let items = new_names(tree, false);
        let bound = |name: &SmolStr| match loaded.modules[main].names.get(name) {
            Some(Binding::Global(_)) => false,
            Some(_) => true,
            None => builtin::find(name).is_some(),
        };
        let replaced: FxHashSet<SmolStr> = items.iter().filter(|name| bound(name)).cloned().collect();
        let candidates = self.definitions.affected(&replaced, &new);
        if !candidates.is_empty() {
            let mut trial = Trial { candidates, set_aside: vec![], warnings: vec![] };
            match self.try_all(&loaded, main, tree, imports, &mut trial) {
                Ok(()) => self.settle(trial, entered),
                Err(errors) => {
                    entered.outcome.diagnostics = errors;
                    return;
                }
            }
        }
        let text = self.sources.text(entered.outcome.file).to_string();
        self.definitions.define(tree, &text, &new);
    }

    /// Checks the entry together with the candidates, repeatedly removing those that fail. `Err` if the entry itself fails.
    fn try_all(
        &mut self,
        loaded: &Program,
        main: ModuleId,
        tree: &ast::File,
        imports: &Imports,
        trial: &mut Trial,
    ) -> Result<(), Vec<Diagnostic>> {
        loop {
            self.program = loaded.clone();
            for (definition, _) in &trial.set_aside {
                self.program.modules[main].names.shift_remove(&definition.name);
            }
            let mut whole = tree.clone();
            whole.items.extend(trial.candidates.iter().map(|definition| definition.item.clone()));
            let found = check::check(&mut self.program, main, &whole, imports);
            let errors: Vec<Diagnostic> = found.into_iter().filter(Diagnostic::is_error).collect();
            if errors.is_empty() {
                return Ok(());
            }
            let blamed = |definition: &Definition| {
                let within = |span: Span| {
                    let item = definition.item.span;
                    span.file == item.file && item.start <= span.start && span.end <= item.end
                };
                errors.iter().find(|error| error.primary().is_some_and(within))
            };
            let (left_out, kept): (Vec<_>, Vec<_>) = trial.candidates.drain(..).partition(|d| blamed(d).is_some());
            if left_out.is_empty() {
                return Err(errors);
            }
            for definition in &left_out {
                if let (Some(error), false) =
                    (blamed(definition), self.definitions.aside.contains_key(&definition.name))
                {
                    trial.warnings.push(misfit(&definition.name, error));
                }
            }
            let why = |d: &Definition| blamed(d).map_or_else(String::new, |error| error.title.clone());
            let left_out: Vec<_> = left_out.into_iter().map(|d| (d.clone(), why(&d))).collect();
            trial.set_aside.extend(left_out);
            trial.candidates = kept;
        }
    }

    fn settle(&mut self, trial: Trial, entered: &mut Entered) {
        for definition in trial.candidates {
            let name = definition.name.clone();
            match self.definitions.aside.shift_remove(&name) {
                Some(_) => entered.restored.push(name.clone()),
                None => entered.followed.push(name.clone()),
            }
            self.definitions.known.insert(name, definition);
        }
        for (definition, why) in trial.set_aside {
            let name = definition.name.clone();
            if self.definitions.known.shift_remove(&name).is_some() {
                entered.set_aside.push(name.clone());
            }
            self.definitions.aside.insert(name, (definition, why));
        }
        entered.outcome.diagnostics.extend(trial.warnings);
    }
}

fn misfit(name: &str, error: &Diagnostic) -> Diagnostic {
    let mut warning = Diagnostic::warning("W0010", format!("`{name}` does not fit any more and is set aside"));
    if let Some(place) = error.primary() {
        warning = warning.at(place, error.title.clone());
    }
    let (notes, help) = (error.notes.iter(), error.help.iter());
    warning = notes.fold(warning, |w, note| w.note(note.clone()));
    warning = help.fold(warning, |w, help| w.help(help.clone()));
    warning.help(format!("enter `{name}` again, or what it uses: it comes back as soon as both fit"))
}
