//! The error that is reported if a kernel has no derivative.

use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_pass::InvalidIrError;

/// The reason why a kernel is not differentiable, with its location.
#[derive(Clone, Debug, PartialEq)]
pub struct NotDifferentiable {
    pub code: &'static str,
    pub span: Span,
    /// A sentence without a period.
    pub title: String,
    /// Text of the label at the location.
    pub label: String,
    pub help: String,
}

impl NotDifferentiable {
    pub(super) fn new(span: Span, label: impl Into<String>, help: impl Into<String>) -> NotDifferentiable {
        let title = "this code has no derivative".to_string();
        NotDifferentiable { code: "E0491", span, title, label: label.into(), help: help.into() }
    }

    pub(super) fn internal(why: InvalidIrError) -> NotDifferentiable {
        let help = "please report this as a bug of Clk".to_string();
        NotDifferentiable {
            code: "E0999",
            span: Span::default(),
            title: "internal error".into(),
            label: why.to_string(),
            help,
        }
    }

    pub fn diagnostic(&self) -> Diagnostic {
        Diagnostic::error(self.code, self.title.clone()).at(self.span, self.label.clone()).help(self.help.clone())
    }
}
