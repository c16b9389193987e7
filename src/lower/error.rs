//! Errors of lowering: a diagnostic, boxed because it is large and rare.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;

pub(crate) type Fallible<T> = Result<T, Box<Diagnostic>>;

/// Builds an internal error for a state that the checker should have ruled out. It is reported, not a panic, so that a
/// session survives it.
pub(crate) fn internal(span: Span, what: impl Into<String>) -> Box<Diagnostic> {
    let text = what.into();
    Box::new(
        Diagnostic::error("E0999", format!("internal error: {text}"))
            .at(span, "while compiling this")
            .note("this is a mistake in Clk, not in your program; a report with this source helps to mend it"),
    )
}

/// Whether this is an internal error, which is usually a consequence of an error reported elsewhere.
pub(crate) fn is_internal(diagnostic: &Diagnostic) -> bool {
    diagnostic.code == "E0999"
}
