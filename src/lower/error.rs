//! How lowering fails: a diagnostic on the way up, boxed because it is large and rare.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;

pub(crate) type Fallible<T> = Result<T, Box<Diagnostic>>;

/// A state that the checker should have made impossible. It is reported, never a panic, so that a session survives it.
pub(crate) fn internal(span: Span, what: impl Into<String>) -> Box<Diagnostic> {
    let text = what.into();
    Box::new(
        Diagnostic::error("E0999", format!("internal error: {text}"))
            .at(span, "while compiling this")
            .note("this is a mistake in Clk, not in your program; a report with this source helps to mend it"),
    )
}

/// Whether this is a follow-on of an error that was reported elsewhere, as far as one can tell.
pub(crate) fn is_internal(diagnostic: &Diagnostic) -> bool {
    diagnostic.code == "E0999"
}
