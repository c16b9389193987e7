//! Errors of lowering: a diagnostic, boxed because it is large and rare.

use clk_base::diag::Diagnostic;
use clk_base::source::Span;

pub(crate) type Fallible<T> = Result<T, Box<Diagnostic>>;

/// Builds an internal error for a state that the checker should have prevented. It is reported instead of causing a
/// panic, so that a session can continue.
pub(crate) fn internal(span: Span, what: impl Into<String>) -> Box<Diagnostic> {
    let text = what.into();
    Box::new(
        Diagnostic::error("E0999", format!("internal error: {text}"))
            .at(span, "while compiling this")
            .note("this is a bug in Clk, not in your program; please report it with this source"),
    )
}

/// Returns whether this is an internal error. It is usually a consequence of another reported error.
pub(crate) fn is_internal(diagnostic: &Diagnostic) -> bool {
    diagnostic.code == "E0999"
}
