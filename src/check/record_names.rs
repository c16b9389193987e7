//! Records the definitions and uses of names while a body, a constant or a signature is checked.

use crate::ast_names;
use crate::context::{Cx, ResolvedName};
use crate::names::NameRecords;
use crate::scopes::LocalMeaning;
use crate::typed::*;
use clk_base::source::Span;
use clk_syntax::ast;

impl Cx<'_> {
    /// Resolves a name and records the use.
    #[inline]
    pub fn resolve(&mut self, name: &ast::Name) -> Option<ResolvedName> {
        let found = self.lookup(&name.text);
        if self.names_found.is_some()
            && let Some(found) = &found
        {
            self.record_resolved(name, found);
        }
        found
    }

    /// Records a use of a name that was resolved.
    pub fn record_resolved(&mut self, name: &ast::Name, found: &ResolvedName) {
        if let Some(target) = self.target(name, found) {
            self.record_use(name.span, target);
        }
    }

    fn target(&self, name: &ast::Name, found: &ResolvedName) -> Option<NameTarget> {
        match found {
            ResolvedName::Slot(meaning) => self.local_target(*meaning),
            ResolvedName::Item(NameBinding::Error) => {
                self.program.names.as_ref().and_then(|table| table.failed_import(&name.text, name.span.file))
            }
            ResolvedName::Item(binding) => Some(NameTarget::Item(*binding)),
            ResolvedName::Builtin(entry) => Some(NameTarget::Builtin(entry.name)),
            ResolvedName::Type(_) => Some(NameTarget::Type),
        }
    }

    /// Returns the definition of a local name. A hidden variable has none.
    fn local_target(&self, meaning: LocalMeaning) -> Option<NameTarget> {
        let span = match meaning {
            LocalMeaning::Global(id) => return Some(NameTarget::Item(NameBinding::Global(id))),
            LocalMeaning::Local(id) => self.locals.get(id)?.span,
            LocalMeaning::Dim(i) => {
                let dims = self.names_found.iter().flat_map(|records| &records.dims);
                let declared = dims.rev().find(|(dim, _)| *dim == i).map(|(_, span)| *span);
                declared.or_else(|| self.sig.dims.get(i as usize).map(|dim| dim.span))?
            }
            LocalMeaning::ConstParam(i) | LocalMeaning::FnParam(i) | LocalMeaning::TypeParam(i) => {
                self.sig.generics.get(i as usize)?.name_span
            }
        };
        (span.start < span.end).then_some(NameTarget::Local(span))
    }

    pub fn record_use(&mut self, span: Span, target: NameTarget) {
        if let Some(records) = &mut self.names_found {
            records.uses.push(NameUse { span, target, written: false });
        }
    }

    /// Records a use of an item of a module.
    pub fn record_member(&mut self, name: &ast::Name, binding: NameBinding) {
        if binding != NameBinding::Error {
            self.record_use(name.span, NameTarget::Item(binding));
        }
    }

    /// Records a dimension that the signature being checked declares.
    pub fn record_dim(&mut self, dim: usize, span: Span) {
        if let Some(records) = &mut self.names_found {
            records.dims.push((dim as u32, span));
        }
    }

    /// Records the definition of a variable. It is visible after its statement, or in the body of its loop.
    pub fn record_variable(&mut self, name: &ast::Name, kind: DefinitionKind, target: NameTarget) {
        let (start, end) = self.scopes.range();
        let from = if kind == DefinitionKind::Loop { start } else { self.scopes.stmt_end };
        let Some(records) = self.names_found.as_mut().filter(|_| name.text != "_") else { return };
        let scope = (from, end.max(from));
        records.definitions.push(Definition { name: name.text.clone(), span: name.span, kind, target, scope });
    }

    /// Marks the root variable of a place as assigned to.
    pub fn record_write(&mut self, place: &ast::Expr) {
        let Some(records) = &mut self.names_found else { return };
        let mut place = place;
        let root = loop {
            place = match &place.kind {
                ast::ExprKind::Field { base, .. } | ast::ExprKind::Index { base, .. } => base,
                ast::ExprKind::Paren(inner) => inner,
                ast::ExprKind::Name(name) => break name.span,
                _ => return,
            };
        };
        if let Some(used) = records.uses.iter_mut().rev().find(|used| used.span == root) {
            used.written = true;
        }
    }

    /// Records the named arguments of a call of a function or kernel, except for names that are not in the source.
    pub fn record_argument_names(&mut self, sig: &Signature, args: &[ast::Arg]) {
        if self.names_found.is_none() {
            return;
        }
        let generics = || sig.generics.iter().map(|generic| (&generic.name, generic.name_span));
        let dims = || sig.dims.iter().map(|dim| (&dim.name, dim.span));
        let params = || sig.params.iter().map(|param| (&param.name, param.name_span));
        let names = args.iter().filter_map(|arg| arg.name.as_ref());
        for name in names.filter(|name| name.span.start < name.span.end) {
            let mut named = generics().chain(dims()).chain(params());
            if let Some((_, span)) = named.find(|(known, _)| **known == name.text) {
                self.record_use(name.span, NameTarget::Local(span));
            }
        }
    }

    /// Records the field names in a struct literal.
    pub fn record_field_names(&mut self, id: StructId, def: &Struct, fields: &[(ast::Name, ast::Expr)]) {
        if self.names_found.is_none() {
            return;
        }
        for (name, _) in fields {
            if let Some(field) = def.fields.iter().position(|field| field.name == name.text) {
                self.record_use(name.span, NameTarget::Field(id, field as u32));
            }
        }
    }

    /// Records the names in an expression, outside of blocks, that the check did not reach because of an error: for
    /// example, the arguments after an argument of a wrong type. Records of the check take precedence.
    pub fn record_skipped(&mut self, e: &ast::Expr) {
        if self.names_found.is_none() {
            return;
        }
        ast_names::names_outside_blocks(e, &mut |name, _| {
            // The expressions around an error have errors too, and visit the same names again.
            let is_known = |records: &NameRecords| records.skipped.contains_key(&name.span);
            if self.names_found.as_deref().is_none_or(is_known) {
                return;
            }
            let target = self.lookup(&name.text).and_then(|found| self.target(name, &found));
            if let (Some(records), Some(target)) = (&mut self.names_found, target) {
                records.skipped.insert(name.span, target);
            }
        });
    }
}
