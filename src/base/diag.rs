//! Diagnostics as plain data; [`render`](super::render) formats them.

use std::borrow::Cow;

use crate::source::{SourceMap, Span};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Error,
    Warning,
    Note,
}

/// How a label's location takes part in the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelRole {
    /// The location of the fault. The label's text describes the fault.
    Primary,
    /// A call that leads to the fault, in the same thread. The labels of nested calls begin with the innermost one.
    Call,
    /// The access or the branch of another thread that conflicts with the thread at the primary label.
    OtherThread,
    /// A location that explains the fault.
    Context,
}

impl LabelRole {
    /// Returns the role's name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            LabelRole::Primary => "primary",
            LabelRole::Call => "call",
            LabelRole::OtherThread => "other-thread",
            LabelRole::Context => "context",
        }
    }
}

/// A remark on a source location.
#[derive(Clone, Debug, PartialEq)]
pub struct DiagLabel {
    pub span: Span,
    pub text: String,
    pub role: LabelRole,
}

impl DiagLabel {
    pub fn is_primary(&self) -> bool {
        self.role == LabelRole::Primary
    }
}

/// Whether a fix may be applied without review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applicability {
    MachineApplicable,
    MaybeIncorrect,
}

/// Text replacements that fix an error if all of them are applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Fix {
    /// An imperative sentence: "convert it with `f32(…)`".
    pub title: String,
    pub edits: Vec<(Span, String)>,
    pub applicability: Applicability,
}

/// A message to the user.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// A stable code from `clk_codes`: `E0123`, `W0004`.
    pub code: &'static str,
    pub severity: Severity,
    /// The message, one sentence without a period.
    pub title: String,
    pub labels: Vec<DiagLabel>,
    /// Background information, one paragraph each.
    pub notes: Vec<String>,
    /// Suggestions for fixing it.
    pub help: Vec<String>,
    pub fixes: Vec<Fix>,
    /// An unknown name. The search for similar names runs only when the message is certain to be shown.
    pub misspelled: Option<Box<MisspelledName>>,
}

/// An unknown word of the program, for which the message suggests a similar name.
#[derive(Clone, Debug, PartialEq)]
pub struct MisspelledName {
    pub span: Span,
    pub word: String,
    /// The most similar local name, if any. It is determined when the error is found, because local names are not known
    /// later.
    pub near: Option<String>,
}

impl Diagnostic {
    /// Returns the diagnostic with places of origin instead of places in generated texts. Drops fixes of such texts.
    pub fn at_origins(&self, sources: &SourceMap) -> Cow<'_, Diagnostic> {
        if !self.labels.iter().any(|label| sources.is_generated(label.span.file)) {
            return Cow::Borrowed(self);
        }
        let mut moved = self.clone();
        for label in &mut moved.labels {
            label.span = sources.original(label.span);
        }
        moved.fixes.retain(|fix| !fix.edits.iter().any(|(span, _)| sources.is_generated(span.file)));
        Cow::Owned(moved)
    }

    pub fn new(severity: Severity, code: &'static str, title: impl Into<String>) -> Self {
        let title = title.into();
        Diagnostic {
            code,
            severity,
            title,
            labels: vec![],
            notes: vec![],
            help: vec![],
            fixes: vec![],
            misspelled: None,
        }
    }

    pub fn error(code: &'static str, title: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, title)
    }

    pub fn warning(code: &'static str, title: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, title)
    }

    pub fn label(mut self, role: LabelRole, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(DiagLabel { span, text: text.into(), role });
        self
    }

    /// Adds the primary label.
    pub fn at(self, span: Span, text: impl Into<String>) -> Self {
        self.label(LabelRole::Primary, span, text)
    }

    /// Adds a secondary label, which explains the error.
    pub fn because(self, span: Span, text: impl Into<String>) -> Self {
        self.label(LabelRole::Context, span, text)
    }

    pub fn note(mut self, text: impl Into<String>) -> Self {
        self.notes.push(text.into());
        self
    }

    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help.push(text.into());
        self
    }

    /// Adds a fix with a single edit.
    pub fn fix(
        self,
        title: impl Into<String>,
        span: Span,
        text: impl Into<String>,
        applicability: Applicability,
    ) -> Self {
        self.fix_all(title, vec![(span, text.into())], applicability)
    }

    pub fn fix_all(
        mut self,
        title: impl Into<String>,
        edits: Vec<(Span, String)>,
        applicability: Applicability,
    ) -> Self {
        self.fixes.push(Fix { title: title.into(), edits, applicability });
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Returns the location of the primary label, else of the first label.
    pub fn primary(&self) -> Option<Span> {
        self.labels.iter().find(|l| l.is_primary()).or(self.labels.first()).map(|l| l.span)
    }
}

/// Returns the first `most` errors. If there are more, adds a note to the last one with the number of omitted errors.
pub fn limit_errors(mut errors: Vec<Diagnostic>, most: usize) -> Vec<Diagnostic> {
    let more = errors.len().saturating_sub(most);
    errors.truncate(most);
    if let Some(last) = errors.last_mut() {
        last.notes.extend(hidden_errors_note(more));
    }
    errors
}

/// Returns the note about `count` errors that are not shown.
pub fn hidden_errors_note(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("one more error is not shown".into()),
        n => Some(format!("{n} more errors are not shown: the first ones often explain the others")),
    }
}
