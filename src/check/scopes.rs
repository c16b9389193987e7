//! The local names of a body and the scopes in which they are visible.

use rustc_hash::FxHashMap;

use crate::typed::{GlobalId, LocalId, SmolStr};
use clk_base::source::Span;

/// The meaning of a local name in a body.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LocalMeaning {
    Local(LocalId),
    Global(GlobalId),
    Dim(u32),
    ConstParam(u32),
    FnParam(u32),
    TypeParam(u32),
}

/// The local names that are visible at the statement that is being checked.
#[derive(Default)]
pub(crate) struct Scopes {
    names: FxHashMap<SmolStr, LocalMeaning>,
    /// The previous meanings of names, which are restored at the end of the open scopes.
    undo: Vec<(SmolStr, Option<LocalMeaning>)>,
    open: Vec<LexicalScope>,
    /// The end of the statement that is being checked, from which its variables are visible.
    pub stmt_end: u32,
}

struct LexicalScope {
    /// The number of meanings to restore that outer scopes have replaced.
    undo: usize,
    range: (u32, u32),
}

impl Scopes {
    /// Opens a scope for the names that are visible in this part of the source.
    pub fn open(&mut self, span: Span) {
        self.open.push(LexicalScope { undo: self.undo.len(), range: (span.start, span.end) });
    }

    pub fn close(&mut self) {
        let start = self.open.pop().map_or(0, |scope| scope.undo);
        for (name, old) in self.undo.drain(start..).rev() {
            match old {
                Some(meaning) => self.names.insert(name, meaning),
                None => self.names.remove(&name),
            };
        }
    }

    /// Returns the byte range of the innermost open scope.
    pub fn range(&self) -> (u32, u32) {
        self.open.last().map_or((0, u32::MAX), |scope| scope.range)
    }

    /// Returns whether the current scope is the outermost one.
    pub fn is_outermost(&self) -> bool {
        self.open.is_empty()
    }

    pub fn bind(&mut self, name: SmolStr, meaning: LocalMeaning) {
        let old = self.names.insert(name.clone(), meaning);
        if !self.open.is_empty() {
            self.undo.push((name, old));
        }
    }

    /// Returns whether a name was bound in the innermost open scope, not in an outer one.
    pub fn is_bound_here(&self, name: &str) -> bool {
        let start = self.open.last().map_or(0, |scope| scope.undo);
        self.undo.get(start..).is_some_and(|bound| bound.iter().any(|(own, _)| own == name))
    }

    pub fn get(&self, name: &str) -> Option<LocalMeaning> {
        self.names.get(name).copied()
    }

    pub fn contains(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, LocalMeaning)> {
        self.names.iter().map(|(name, meaning)| (name.as_str(), *meaning))
    }
}
