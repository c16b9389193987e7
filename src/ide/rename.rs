//! Finds the references to a name, and renames it.

use std::ops::Range;

use thiserror::Error;

use super::{Analysis, is_prelude_type, slice};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Definition, DefinitionKind, NameBinding, NameTarget};
use clk_compile::Files;
use clk_scalar::builtin;
use clk_syntax::token::{KEYWORDS, Tok, Token};

/// Why a name cannot be renamed, or not to this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RenameError {
    #[error("there is no name here")]
    NoName,
    #[error("`{0}` is part of the language")]
    Builtin(String),
    #[error("`{0}` has no definition")]
    NoDefinition(String),
    #[error("`{name}` is defined in {file}: rename it there")]
    OtherFile { name: String, file: String },
    #[error("`{0}` differs from the name at its definition")]
    OtherName(String),
    #[error(
        "because of an error, the meaning of `{name}` in line {line} of {file} is unknown: correct the error first"
    )]
    Unresolved { name: String, file: String, line: usize },
    #[error("`{0}` is not a valid name: use letters, digits and `_`, and do not begin with a digit")]
    InvalidName(String),
    #[error("`{0}` is a keyword")]
    Keyword(String),
    #[error("`{0}` is already the name of something else here")]
    Conflict(String),
    #[error("`{0}` already means something else here")]
    Captured(String),
    #[error("`{0}` would refer to something else")]
    OtherTarget(String),
    #[error("with `{new}` there would be an error: {error}")]
    WouldFail { new: String, error: String },
}

impl Analysis {
    /// Returns the references in this text to the definition at an offset, including the definition itself. The flag is
    /// true if the reference is a write.
    pub fn references(&self, offset: usize) -> Vec<(Range<usize>, bool)> {
        let Some((_, target)) = self.names().at(offset as u32) else { return vec![] };
        match self.definition_span(target) {
            Some(place) => self.occurrences(place),
            None => self.occurrences_where(|other| other == target),
        }
    }

    /// Returns the references in this text to the definition at a location in any file.
    fn occurrences(&self, place: Span) -> Vec<(Range<usize>, bool)> {
        self.occurrences_where(|target| self.definition_span(target) == Some(place))
    }

    /// Like [`Analysis::references`], but for a definition in another file, given by the file's name and the range
    /// there.
    pub fn references_to(&self, file: &str, range: &Range<usize>) -> Vec<(Range<usize>, bool)> {
        self.occurrences_where(|target| {
            let place = self.definition_span(target).and_then(|span| self.place(span));
            place.is_some_and(|place| place.range == *range && place.file == file)
        })
    }

    /// Returns whether other files can refer to the definition at an offset.
    pub fn is_shared(&self, offset: usize) -> bool {
        let Some((_, target)) = self.names().at(offset as u32) else { return false };
        match target {
            NameTarget::Item(NameBinding::Global(_)) | NameTarget::Builtin(_) | NameTarget::Type => false,
            NameTarget::Item(_) | NameTarget::Field(..) => true,
            NameTarget::Local(span) => self.names().definition(span).is_none_or(|definition| {
                use DefinitionKind::{Let, Loop, Shared, ThreadIndex, Var};
                !matches!(definition.kind, Let | Var | Loop | Shared | ThreadIndex)
            }),
        }
    }

    fn occurrences_where(&self, matches: impl Fn(NameTarget) -> bool) -> Vec<(Range<usize>, bool)> {
        let names = self.names();
        let definitions = names.definitions.iter().filter(|definition| matches(definition.target));
        let definitions = definitions.map(|definition| (definition.span.range(), true));
        let uses = names.uses.iter().filter(|used| matches(used.target)).map(|used| (used.span.range(), used.written));
        let mut ranges: Vec<(Range<usize>, bool)> = definitions.chain(uses).collect();
        ranges.sort_by_key(|(range, _)| (range.start, range.end));
        ranges.dedup_by(|a, b| a.0 == b.0);
        ranges
    }

    /// Returns the range of the name at an offset, or the reason why it cannot be renamed.
    pub fn renamable(&self, offset: usize) -> Result<Range<usize>, RenameError> {
        let (span, target) = self.names().at(offset as u32).ok_or(RenameError::NoName)?;
        let name = slice(&self.text, span.range());
        if matches!(target, NameTarget::Builtin(_) | NameTarget::Type) {
            return Err(RenameError::Builtin(name.into()));
        }
        let place = self.definition_span(target).ok_or_else(|| RenameError::NoDefinition(name.into()))?;
        if place.file != self.file {
            let file = self.session.sources.name(place.file).to_string();
            return Err(RenameError::OtherFile { name: name.into(), file });
        }
        if slice(&self.text, place.range()) != name {
            return Err(RenameError::OtherName(name.into()));
        }
        Ok(span.range())
    }

    /// Returns where a text with errors has the name of a definition without a record of what it refers to there: in a
    /// part that the checker did not reach. The occurrence may be a reference to the definition. Returns `None` if the
    /// text has no errors, because then only names that refer to no definition have no record.
    ///
    /// `can_qualify` is false for a variable, which is neither a member (`a.name`) nor a named argument (`name = 1`).
    pub fn unresolved(&self, name: &str, can_qualify: bool) -> Option<Range<usize>> {
        if !self.diagnostics.iter().any(Diagnostic::is_error) {
            return None;
        }
        let names = self.names();
        let tokens = clk_syntax::lex(self.file, &self.text).tokens;
        let kind = |at: usize| tokens.get(at).map(|token| token.kind);
        let is_candidate = |at: usize, token: &Token| {
            let before = at.checked_sub(1).and_then(kind);
            let is_qualified = before == Some(Tok::Dot)
                || matches!(before, Some(Tok::LParen | Tok::Comma)) && kind(at + 1) == Some(Tok::Assign);
            token.kind == Tok::Name && token.text(&self.text) == name && (can_qualify || !is_qualified)
        };
        let spans = tokens.iter().enumerate().filter(|(at, token)| is_candidate(*at, token));
        let mut spans = spans.map(|(_, token)| Span::new(self.file, token.start as usize, token.end as usize));
        let has_record = |span: Span| {
            names.definition(span).is_some() || names.uses.binary_search_by_key(&span, |used| used.span).is_ok()
        };
        spans.find(|span| !has_record(*span)).map(|span| span.range())
    }

    /// Returns the ranges to replace with a new name. Fails if the name is invalid or would change the meaning of a
    /// reference: the renamed text is analyzed and must not have more errors or other references. Also fails if the
    /// text has references that the checker may not have recorded.
    pub fn rename(&self, offset: usize, new: &str, files: &dyn Files) -> Result<Vec<Range<usize>>, RenameError> {
        let renamable = self.renamable(offset)?;
        check_name(new)?;
        let old = slice(&self.text, renamable);
        if let Some(place) = self.unresolved(old, self.is_shared(offset)) {
            return Err(self.unresolved_error(old, &place));
        }
        let places: Vec<Range<usize>> = self.references(offset).into_iter().map(|(range, _)| range).collect();
        let names = self.names();
        let is_reference = |span: Span| places.contains(&span.range());
        let renamed: Vec<&Definition> = names.definitions.iter().filter(|d| is_reference(d.span)).collect();
        let renames_field = renamed.iter().any(|d| d.kind == DefinitionKind::Field);
        let is_in = |at: u32, definition: &Definition| definition.scope.0 <= at && at <= definition.scope.1;
        for other in names.definitions.iter().filter(|d| d.name == new && !is_reference(d.span)) {
            if (other.kind == DefinitionKind::Field) != renames_field {
                continue;
            }
            // The new name conflicts with a definition of this name if one of the two definitions is visible at a
            // reference to the other.
            let conflicts = places.iter().any(|place| is_in(place.start as u32, other))
                || renamed.iter().any(|definition| is_in(other.span.start, definition));
            if conflicts {
                return Err(RenameError::Conflict(new.into()));
            }
        }
        let foreign = names.uses.iter().filter(|u| slice(&self.text, u.span.range()) == new && !is_reference(u.span));
        for used in foreign {
            if !matches!(used.target, NameTarget::Field(..))
                && renamed.first().is_some_and(|definition| is_in(used.span.start, definition))
            {
                return Err(RenameError::Captured(new.into()));
            }
        }
        self.try_name(&places, new, files)?;
        Ok(places)
    }

    /// Returns the error for a name with an unresolved occurrence.
    pub fn unresolved_error(&self, name: &str, place: &Range<usize>) -> RenameError {
        let span = Span::new(self.file, place.start, place.end);
        let (file, line) = (self.session.sources.name(self.file).to_string(), self.session.sources.line_column(span).0);
        RenameError::Unresolved { name: name.into(), file, line }
    }

    fn try_name(&self, places: &[Range<usize>], new: &str, files: &dyn Files) -> Result<(), RenameError> {
        let mut text = self.text.clone();
        for range in places.iter().rev() {
            text.replace_range(range.clone(), new);
        }
        let name = self.session.sources.name(self.file).to_owned();
        let after = Analysis::after(self.previous_session.clone(), &name, &text, files);
        let errors = |a: &Analysis| a.diagnostics.iter().filter(|d| d.is_error()).count();
        if errors(&after) > errors(self) {
            let error = after.diagnostics.iter().find(|d| d.is_error()).map_or(String::new(), |d| d.title.clone());
            return Err(RenameError::WouldFail { new: new.into(), error });
        }
        let occurrences_where = places.first().is_none_or(|first| after.references(first.start).len() == places.len());
        if occurrences_where { Ok(()) } else { Err(RenameError::OtherTarget(new.into())) }
    }
}

fn check_name(name: &str) -> Result<(), RenameError> {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !first || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_') || name == "_" {
        return Err(RenameError::InvalidName(name.into()));
    }
    if KEYWORDS.iter().any(|(word, _)| *word == name) {
        return Err(RenameError::Keyword(name.into()));
    }
    if builtin::find(name).is_some() || is_prelude_type(name) {
        return Err(RenameError::Builtin(name.into()));
    }
    Ok(())
}
