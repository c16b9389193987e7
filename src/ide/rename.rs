//! References to a name, and renaming.

use std::ops::Range;

use super::names::{DefKind, Meaning, is_prelude_type};
use super::{Analysis, slice};
use crate::base::source::Span;
use crate::compile::Files;
use crate::lang::builtin;
use crate::syntax::token::KEYWORDS;

impl Analysis {
    /// Returns the references in this text to the definition at an offset, the definition first if it is in this text. The flag
    /// marks writes.
    pub fn references(&self, offset: usize) -> Vec<(Range<usize>, bool)> {
        let Some((_, meaning)) = self.names().at(offset as u32) else { return vec![] };
        match self.defined(meaning) {
            Some(place) => self.named(place),
            None => self.same(|other| other == meaning),
        }
    }

    /// Returns the references in this text to a definition at a location in any file.
    fn named(&self, place: Span) -> Vec<(Range<usize>, bool)> {
        self.same(|meaning| self.defined(meaning) == Some(place))
    }

    /// As [`Analysis::references`], for a definition in another text: its file's name and range there.
    pub fn references_to(&self, file: &str, range: &Range<usize>) -> Vec<(Range<usize>, bool)> {
        self.same(|meaning| {
            self.defined(meaning).is_some_and(|s| s.range() == *range && self.session.sources.name(s.file) == file)
        })
    }

    /// Whether other files can refer to the definition at an offset.
    pub fn is_shared(&self, offset: usize) -> bool {
        match self.names().at(offset as u32).map(|(_, meaning)| meaning) {
            Some(Meaning::Def(index)) => self.names().defs.get(index).is_some_and(|def| {
                !matches!(
                    def.kind,
                    DefKind::Let | DefKind::Var | DefKind::Loop | DefKind::Shared | DefKind::ThreadIndex
                )
            }),
            Some(Meaning::Bound(_) | Meaning::Field(..) | Meaning::Elsewhere(_)) => true,
            Some(Meaning::Builtin(_) | Meaning::Type) | None => false,
        }
    }

    fn same(&self, is: impl Fn(Meaning) -> bool) -> Vec<(Range<usize>, bool)> {
        let names = self.names();
        let defs =
            names.defs.iter().enumerate().filter(|(i, _)| is(Meaning::Def(*i))).map(|(_, d)| (d.span.range(), true));
        let uses = names.uses.iter().filter(|u| is(u.meaning)).map(|u| (u.span.range(), u.written));
        let mut found: Vec<(Range<usize>, bool)> = defs.chain(uses).collect();
        found.sort_by_key(|(range, _)| (range.start, range.end));
        found.dedup_by(|a, b| a.0 == b.0);
        found
    }

    /// Returns the range of the name at an offset if it can be renamed, else the reason why not.
    pub fn renamable(&self, offset: usize) -> Result<Range<usize>, String> {
        let (span, meaning) = self.names().at(offset as u32).ok_or("there is no name here")?;
        let name = slice(&self.text, span.range());
        if matches!(meaning, Meaning::Builtin(_) | Meaning::Type) {
            return Err(format!("`{name}` is part of the language"));
        }
        let place = self.defined(meaning).ok_or_else(|| format!("`{name}` is defined nowhere"))?;
        if place.file != self.file {
            let file = self.session.sources.name(place.file);
            return Err(format!("`{name}` is defined in {file}: rename it there"));
        }
        if slice(&self.text, place.range()) != name {
            return Err(format!("`{name}` is not the name that its definition has"));
        }
        Ok(span.range())
    }

    /// Returns the ranges to change for a new name. Refuses a name that is invalid or would change the meaning of any reference:
    /// the renamed text is analyzed and must have neither more errors nor other references.
    pub fn rename(&self, offset: usize, new: &str, files: &dyn Files) -> Result<Vec<Range<usize>>, String> {
        self.renamable(offset)?;
        check_name(new)?;
        let places: Vec<Range<usize>> = self.references(offset).into_iter().map(|(range, _)| range).collect();
        let names = self.names();
        let own = |span: Span| places.contains(&span.range());
        for def in names.defs.iter().filter(|d| d.name == new && !own(d.span)) {
            let is_field = def.kind == DefKind::Field;
            let renamed_field = names.defs.iter().any(|d| own(d.span) && d.kind == DefKind::Field);
            if is_field != renamed_field {
                continue;
            }
            let in_scope = |at: usize| def.scope.0 as usize <= at && at <= def.scope.1 as usize;
            // Another definition of this name is visible at a reference, or the renamed one would be visible at a reference to the
            // other.
            let clash = places.iter().any(|p| in_scope(p.start))
                || names
                    .defs
                    .iter()
                    .filter(|d| own(d.span))
                    .any(|d| d.scope.0 <= def.span.start && def.span.start <= d.scope.1);
            if clash {
                return Err(format!("`{new}` is already the name of something else here"));
            }
        }
        let foreign = names.uses.iter().filter(|u| slice(&self.text, u.span.range()) == new && !own(u.span));
        for used in foreign {
            let scope = names.defs.iter().find(|d| own(d.span)).map(|d| d.scope);
            if !matches!(used.meaning, Meaning::Field(..))
                && scope.is_some_and(|(start, end)| start <= used.span.start && used.span.start <= end)
            {
                return Err(format!("`{new}` already means something else here"));
            }
        }
        self.try_name(&places, new, files)?;
        Ok(places)
    }

    fn try_name(&self, places: &[Range<usize>], new: &str, files: &dyn Files) -> Result<(), String> {
        let mut text = self.text.clone();
        for range in places.iter().rev() {
            text.replace_range(range.clone(), new);
        }
        let name = self.session.sources.name(self.file).to_owned();
        let after = Analysis::after(self.before.clone(), &name, &text, files);
        let errors = |a: &Analysis| a.diagnostics.iter().filter(|d| d.is_error()).count();
        if errors(&after) > errors(self) {
            let why = after.diagnostics.iter().find(|d| d.is_error()).map_or("", |d| &d.title);
            return Err(format!("with `{new}` there would be an error: {why}"));
        }
        let same = places.first().is_none_or(|first| after.references(first.start).len() == places.len());
        if same { Ok(()) } else { Err(format!("`{new}` would be mixed up with something else")) }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if !first || !letters.all(|c| c.is_ascii_alphanumeric() || c == '_') || name == "_" {
        return Err(format!(
            "`{name}` is no name: letters, digits and `_` make one, and it does not begin with a digit"
        ));
    }
    if KEYWORDS.iter().any(|(word, _)| *word == name) {
        return Err(format!("`{name}` is a keyword"));
    }
    if builtin::find(name).is_some() || is_prelude_type(name) {
        return Err(format!("`{name}` is part of the language"));
    }
    Ok(())
}
