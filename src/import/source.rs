//! Locations in CUDA files: the place of a token, the macros that produced it, and the files that were included.
//!
//! Each token and node has a [`SourceSpan`]. Its `span` is a place that the user sees in a file: for a token of a macro
//! body, the invocation of the macro; for a token of a macro argument, the argument. [`Provenance`] lists the chain of
//! macros and of `#include` directives, which [`Provenance::explain`] adds to a diagnostic.

use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, Span};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;
use std::num::NonZeroU32;

/// Index of a macro invocation in [`Provenance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExpansionId(NonZeroU32);

/// A place in a file, and the macro invocation that produced the text there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SourceSpan {
    /// A place that the user sees: of a macro body, the outermost invocation of the macro.
    pub span: Span,
    /// The innermost invocation whose body contains the text; `None` for text outside of macro bodies.
    pub expansion: Option<ExpansionId>,
}

impl SourceSpan {
    pub fn new(span: Span) -> Self {
        SourceSpan { span, expansion: None }
    }

    /// Returns the smallest range that contains both ranges. Ranges of different invocations lose the invocation.
    pub fn to(self, other: SourceSpan) -> SourceSpan {
        let expansion = if self.expansion == other.expansion { self.expansion } else { None };
        SourceSpan { span: self.span.to(other.span), expansion }
    }

    /// Returns the empty range at the end of this one.
    pub fn after(self) -> SourceSpan {
        SourceSpan { span: self.span.after(), ..self }
    }
}

impl From<Span> for SourceSpan {
    fn from(span: Span) -> Self {
        SourceSpan::new(span)
    }
}

/// An invocation of a macro.
#[derive(Clone, Debug, PartialEq)]
pub struct MacroExpansion {
    pub name: SmolStr,
    /// The name in the macro's `#define`; `None` for predefined macros.
    pub definition: Option<Span>,
    /// The invocation, whose own `expansion` continues the chain.
    pub call: SourceSpan,
}

/// The origin of tokens that are not written where they take effect: macro expansions and included files.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    expansions: Vec<MacroExpansion>,
    /// The `#include` directive through which a file was read first.
    includes: FxHashMap<FileId, Span>,
}

/// Maximum length of a chain of macros or includes in a message.
const MAX_NOTES: usize = 4;

impl Provenance {
    pub(crate) fn add_expansion(&mut self, expansion: MacroExpansion) -> Option<ExpansionId> {
        self.expansions.push(expansion);
        u32::try_from(self.expansions.len()).ok().and_then(NonZeroU32::new).map(ExpansionId)
    }

    pub(crate) fn add_include(&mut self, file: FileId, directive: Span) {
        self.includes.entry(file).or_insert(directive);
    }

    /// Returns the macro invocations that produced the text of a span, innermost first.
    pub fn expansions(&self, span: SourceSpan) -> impl Iterator<Item = &MacroExpansion> {
        let mut next = span.expansion;
        std::iter::from_fn(move || {
            let expansion = self.expansions.get(next?.0.get() as usize - 1)?;
            next = expansion.call.expansion;
            Some(expansion)
        })
    }

    /// Returns the `#include` directives that lead to a file, innermost first.
    pub fn includes(&self, file: FileId) -> impl Iterator<Item = Span> {
        let mut next = self.includes.get(&file).copied();
        std::iter::from_fn(move || {
            let directive = next?;
            next = self.includes.get(&directive.file).copied();
            Some(directive)
        })
    }

    /// Adds the macros that produced the text of a span, and the includes of its file, to a diagnostic.
    pub fn explain(&self, mut diagnostic: Diagnostic, span: SourceSpan) -> Diagnostic {
        for expansion in self.expansions(span).take(MAX_NOTES) {
            let text = format!("in this macro `{}`", expansion.name);
            diagnostic = match expansion.definition {
                Some(definition) => diagnostic.because(definition, text),
                None => diagnostic.note(text),
            };
        }
        for directive in self.includes(span.span.file).take(MAX_NOTES) {
            diagnostic = diagnostic.because(directive, "included here");
        }
        diagnostic
    }
}
