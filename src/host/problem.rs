//! Errors of operations on values: diagnostics without a location, which the interpreter adds.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;

/// A run-time error as plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// A code of `lang::codes::run`.
    pub code: &'static str,
    /// The message, one sentence without a period.
    pub title: String,
    /// The text at the marked location; may be empty.
    pub label: String,
    pub notes: Vec<String>,
    pub help: Vec<String>,
}

/// Result of an operation on values.
pub(crate) type Outcome<T> = Result<T, Problem>;

/// Returns the error for an allocation that failed.
pub(crate) fn no_room(bytes: u64) -> Problem {
    let size = crate::device::size(bytes);
    Problem::new("E0509", format!("there is not enough memory: {size} were asked for at once"))
}

impl Problem {
    pub fn new(code: &'static str, title: impl Into<String>) -> Self {
        Problem { code, title: title.into(), label: String::new(), notes: vec![], help: vec![] }
    }

    /// Sets the text at the marked location.
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.label = text.into();
        self
    }

    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// Returns the diagnostic at a location.
    pub fn at(self, span: Span) -> Diagnostic {
        let mut diagnostic = Diagnostic::error(self.code, self.title).at(span, self.label);
        diagnostic.notes = self.notes;
        diagnostic.help = self.help;
        diagnostic
    }
}
