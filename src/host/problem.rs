//! What went wrong in an operation on values: a diagnostic without a place. The interpreter, which knows the place, adds it.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;

/// A mistake found while a script runs, as plain data.
#[derive(Clone, Debug, PartialEq)]
pub struct Problem {
    /// Of `lang::codes::run`.
    pub code: &'static str,
    /// What is wrong, in one sentence without a full stop.
    pub title: String,
    /// What stands under the marked place; empty repeats nothing.
    pub label: String,
    pub notes: Vec<String>,
    pub help: Vec<String>,
}

/// The result of an operation on values.
pub(crate) type Outcome<T> = Result<T, Problem>;

/// Data for which there is no memory.
pub(crate) fn no_room(bytes: u64) -> Problem {
    let size = crate::device::size(bytes);
    Problem::new("E0509", format!("there is not enough memory: {size} were asked for at once"))
}

impl Problem {
    pub fn new(code: &'static str, title: impl Into<String>) -> Self {
        Problem { code, title: title.into(), label: String::new(), notes: vec![], help: vec![] }
    }

    /// Says what is wrong with the marked place itself.
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

    /// The diagnostic of this problem at a place.
    pub fn at(self, span: Span) -> Diagnostic {
        let mut diagnostic = Diagnostic::error(self.code, self.title).at(span, self.label);
        diagnostic.notes = self.notes;
        diagnostic.help = self.help;
        diagnostic
    }
}
