//! Diagnostics as plain data for other languages, with their text as a terminal would show it.

use crate::base::diag::{Diagnostic, Severity};
use crate::base::render::{self, Style};
use crate::base::source::Sources;
use crate::host::problem::Problem;

/// A message to the user.
#[derive(Clone, Debug)]
pub struct Report {
    pub code: &'static str,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    pub title: String,
    pub notes: Vec<String>,
    pub help: Vec<String>,
    /// The marked places, the primary one first.
    pub places: Vec<Place>,
    /// The whole message, without and with ANSI colors.
    pub plain: String,
    pub colored: String,
}

/// A marked place. Lines and columns count from 1, columns in characters; `start` and `end` are byte offsets.
#[derive(Clone, Debug)]
pub struct Place {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
    pub start: usize,
    pub end: usize,
    pub text: String,
}

impl Report {
    pub(in crate::app) fn new(diagnostic: &Diagnostic, sources: &Sources) -> Report {
        let style = |color| Style { color, ..Style::default() };
        let mut labels: Vec<_> = diagnostic.labels.iter().collect();
        labels.sort_by_key(|label| !label.primary);
        let places = labels.into_iter().map(|label| {
            let (line, column) = sources.line_column(label.span);
            let (end_line, end_column) = sources.line_column(label.span.after());
            let file = sources.name(label.span.file).to_owned();
            let (start, end) = (label.span.start as usize, label.span.end as usize);
            Place { file, line, column, end_line, end_column, start, end, text: label.text.clone() }
        });
        Report {
            code: diagnostic.code,
            severity: match diagnostic.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            },
            title: diagnostic.title.clone(),
            notes: diagnostic.notes.clone(),
            help: diagnostic.help.clone(),
            places: places.collect(),
            plain: render::text(diagnostic, sources, style(false)),
            colored: render::text(diagnostic, sources, style(true)),
        }
    }

    pub(super) fn all(diagnostics: &[Diagnostic], sources: &Sources) -> Vec<Report> {
        diagnostics.iter().map(|diagnostic| Report::new(diagnostic, sources)).collect()
    }

    /// Returns an error that concerns a call as a whole.
    pub fn of_call(code: &'static str, title: impl Into<String>, notes: Vec<String>, help: Vec<String>) -> Report {
        Report::of(Problem { notes, help, ..Problem::new(code, title) })
    }

    pub(in crate::app) fn of(problem: Problem) -> Report {
        Report::new(&problem.anywhere(), &Sources::default())
    }
}
