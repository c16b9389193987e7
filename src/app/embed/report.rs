//! Diagnostics as plain data for other languages, with their complete text.

use clk_base::diag::{Diagnostic, Severity};
use clk_base::render::{self, RenderStyle};
use clk_base::source::SourceMap;
use clk_host::problem::RuntimeError;

/// A diagnostic as plain data.
#[derive(Clone, Debug)]
pub struct EmbedReport {
    pub code: &'static str,
    /// `error`, `warning` or `note`.
    pub severity: &'static str,
    pub title: String,
    pub notes: Vec<String>,
    pub help: Vec<String>,
    /// The labeled source locations of the message, beginning with the primary one.
    pub places: Vec<ReportLocation>,
    /// The complete text of the message, without and with ANSI colors.
    pub plain: String,
    pub colored: String,
}

/// A labeled source location. Lines and columns count from 1, columns in characters; `start` and `end` are byte
/// offsets.
#[derive(Clone, Debug)]
pub struct ReportLocation {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    pub end_column: usize,
    pub start: usize,
    pub end: usize,
    pub text: String,
}

impl EmbedReport {
    pub(crate) fn new(diagnostic: &Diagnostic, sources: &SourceMap) -> EmbedReport {
        let diagnostic = &*diagnostic.at_origins(sources);
        let style = |color| RenderStyle { color, ..RenderStyle::default() };
        let mut labels: Vec<_> = diagnostic.labels.iter().collect();
        labels.sort_by_key(|label| !label.is_primary());
        let places = labels.into_iter().map(|label| {
            let (line, column) = sources.line_column(label.span);
            let (end_line, end_column) = sources.line_column(label.span.after());
            let file = sources.name(label.span.file).to_owned();
            let (start, end) = (label.span.start as usize, label.span.end as usize);
            ReportLocation { file, line, column, end_line, end_column, start, end, text: label.text.clone() }
        });
        EmbedReport {
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

    pub(super) fn all(diagnostics: &[Diagnostic], sources: &SourceMap) -> Vec<EmbedReport> {
        diagnostics.iter().map(|diagnostic| EmbedReport::new(diagnostic, sources)).collect()
    }

    /// Returns an error that is about the call itself and has no location in the source.
    pub fn of_call(code: &'static str, title: impl Into<String>, notes: Vec<String>, help: Vec<String>) -> EmbedReport {
        EmbedReport::of(RuntimeError { notes, help, ..RuntimeError::new(code, title) })
    }

    pub(crate) fn of(problem: RuntimeError) -> EmbedReport {
        EmbedReport::new(&problem.anywhere(), &SourceMap::default())
    }
}
