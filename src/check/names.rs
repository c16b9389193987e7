//! The table of names in the checked program, for editors: which definition each name refers to.
//! `docs/internals/names.md` describes the table and its invariants.

use rustc_hash::FxHashMap;

use crate::typed::*;
use clk_base::source::{FileId, Span};
use clk_syntax::ast;

impl NameTable {
    /// Returns the names in a file.
    pub fn in_file(&self, file: FileId) -> FileNames {
        let definitions = self.definitions.iter().filter(|definition| definition.span.file == file);
        // The last record of a use replaces the others.
        let uses = self.skipped_uses.iter().chain(&self.uses).filter(|used| used.span.file == file);
        let mut names = FileNames { definitions: definitions.cloned().collect(), uses: uses.copied().collect() };
        names.sort();
        names
    }

    /// Adds a definition that is visible everywhere in the file.
    pub(crate) fn define_item(&mut self, name: &ast::Name, kind: DefinitionKind, target: NameTarget) {
        if let (DefinitionKind::Import, NameTarget::Local(span)) = (kind, target) {
            self.failed_imports.insert((span.file, name.text.clone()), span);
        }
        self.definitions.push(Definition {
            name: name.text.clone(),
            span: name.span,
            kind,
            target,
            scope: (0, u32::MAX),
        });
    }

    pub(crate) fn define_thread_index(&mut self, name: &ast::Name, scope: (u32, u32)) {
        if name.text != "_" {
            let (target, kind) = (NameTarget::Local(name.span), DefinitionKind::ThreadIndex);
            self.definitions.push(Definition { name: name.text.clone(), span: name.span, kind, target, scope });
        }
    }

    pub(crate) fn add_use(&mut self, span: Span, target: NameTarget) {
        self.uses.push(NameUse { span, target, written: false });
    }

    /// Adds the names that the check of a part of the program recorded.
    pub(crate) fn add(&mut self, records: NameRecords) {
        self.definitions.extend(records.definitions);
        let skipped = records.skipped.into_iter();
        self.skipped_uses.extend(skipped.map(|(span, target)| NameUse { span, target, written: false }));
        self.uses.extend(records.uses);
    }

    /// Returns the import with an error that binds a name.
    pub(crate) fn failed_import(&self, name: &SmolStr, file: FileId) -> Option<NameTarget> {
        self.failed_imports.get(&(file, name.clone())).map(|span| NameTarget::Local(*span))
    }

    /// Adds the compile-time parameters, dimensions, parameters and thread indices of an item. `params_from` is the
    /// offset from which its parameters are visible.
    pub(crate) fn define_signature(&mut self, item: Span, sig: &Signature, params_from: u32) {
        let mut add = |name: &SmolStr, span: Span, kind: DefinitionKind, from: u32| {
            if name != "_" {
                let target = NameTarget::Local(span);
                let scope = (from, item.end);
                self.definitions.push(Definition { name: name.clone(), span, kind, target, scope });
            }
        };
        for generic in &sig.generics {
            let kind = match generic.kind {
                GenericKind::Type { .. } => DefinitionKind::TypeParam,
                GenericKind::Const { .. } => DefinitionKind::ConstParam,
                GenericKind::Fn { .. } => DefinitionKind::FnParam,
            };
            add(&generic.name, generic.name_span, kind, item.start);
        }
        for dim in &sig.dims {
            add(&dim.name, dim.span, DefinitionKind::Dimension, item.start);
        }
        for param in &sig.params {
            add(&param.name, param.name_span, DefinitionKind::Param(param.access), params_from);
        }
    }
}

impl FileNames {
    /// Sorts the names by span and keeps one record per span: a definition, or the last use. There are several records
    /// if a part of the file was checked several times, or if a name was resolved in several ways.
    fn sort(&mut self) {
        self.definitions.sort_by_key(|definition| definition.span);
        self.definitions.dedup_by_key(|definition| definition.span);
        let mut uses = std::mem::take(&mut self.uses);
        uses.retain(|used| self.definition(used.span).is_none());
        for used in &mut uses {
            // A script variable has no id before the script has been checked.
            if let NameTarget::Local(span) = used.target
                && let Some(definition) = self.definition(span)
            {
                used.target = definition.target;
            }
        }
        uses.sort_by_key(|used| used.span);
        uses.dedup_by(|later, kept| {
            let is_same = later.span == kept.span;
            if is_same {
                *kept = NameUse { written: kept.written || later.written, ..*later };
            }
            is_same
        });
        self.uses = uses;
    }

    /// Returns the span and the target of the definition or use whose name covers an offset.
    pub fn at(&self, offset: u32) -> Option<(Span, NameTarget)> {
        let first = self.uses.partition_point(|used| used.span.end < offset);
        let near = self.uses.iter().skip(first).take_while(|used| used.span.start <= offset);
        let used = near.map(|used| (used.span, used.target)).next();
        let definition = || self.definitions.iter().find(|definition| definition.span.contains(offset));
        used.or_else(|| definition().map(|definition| (definition.span, definition.target)))
    }

    /// Returns the definition whose name has this span.
    pub fn definition(&self, span: Span) -> Option<&Definition> {
        let at = self.definitions.binary_search_by_key(&span, |definition| definition.span).ok()?;
        self.definitions.get(at)
    }

    /// Returns the definitions visible at an offset; inner ones shadow outer ones.
    pub fn visible(&self, offset: u32) -> Vec<&Definition> {
        let mut found: FxHashMap<&SmolStr, &Definition> = FxHashMap::default();
        let is_visible = |definition: &&Definition| {
            definition.kind != DefinitionKind::Field && definition.scope.0 <= offset && offset <= definition.scope.1
        };
        let width = |definition: &Definition| definition.scope.1 - definition.scope.0;
        for definition in self.definitions.iter().filter(is_visible) {
            if found.get(&definition.name).is_none_or(|other| width(other) >= width(definition)) {
                found.insert(&definition.name, definition);
            }
        }
        let mut found: Vec<&Definition> = found.into_values().collect();
        found.sort_unstable_by_key(|definition| definition.span);
        found
    }
}

/// The names that the check of one body, constant or signature recorded.
#[derive(Debug, Default)]
pub(crate) struct NameRecords {
    pub definitions: Vec<Definition>,
    pub uses: Vec<NameUse>,
    /// Names in expressions whose check ended early because of an error.
    pub skipped: FxHashMap<Span, NameTarget>,
    /// The dimensions of the signature that is being checked, by position.
    pub dims: Vec<(u32, Span)>,
}
