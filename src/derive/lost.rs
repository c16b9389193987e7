//! Refusals: why a kernel has no derivative, and where.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;

/// What stands in the way of a derivative.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    pub code: &'static str,
    pub span: Span,
    /// A sentence without a period.
    pub title: String,
    /// What is there.
    pub label: String,
    pub help: String,
}

impl Lost {
    pub(super) fn new(span: Span, label: impl Into<String>, help: impl Into<String>) -> Lost {
        let title = "the derivative is lost here".to_string();
        Lost { code: "E0491", span, title, label: label.into(), help: help.into() }
    }

    pub(super) fn internal(why: String) -> Lost {
        let help = "please report this as a bug of Clk".to_string();
        Lost { code: "E0999", span: Span::default(), title: "internal error".into(), label: why, help }
    }

    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic::error(self.code, self.title.clone()).at(self.span, self.label.clone()).help(self.help.clone())
    }
}
