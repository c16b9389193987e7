//! Standard output for results and standard error for diagnostics, in the style requested by the user.

use std::io::{self, BufWriter, IsTerminal, Write};

use std::sync::Arc;

use serde_json::{Value, json};

use super::graphics::{self, Protocol};
use super::output::junit::CaseStatus;
use super::output::{self, OutputDocument, OutputFormat, PlainMessage, annotation};
use super::{progress, ranks, tty};
use clk_base::diag::Diagnostic;
use clk_base::escape;
use clk_base::render::{self, DiagCounts, RenderStyle};
use clk_base::source::{SourceMap, Span};
use clk_host::picture::shown::ShownPicture;
use clk_host::value::HostValue;
use clk_import::ImportOptions;

/// When to use color, by the option `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ColorMode {
    #[default]
    Auto,
    Always,
    Never,
}

/// Options of the command line for the output.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OutputOptions {
    pub color: ColorMode,
    pub ascii: bool,
    pub format: OutputFormat,
}

/// A receiver for all output of a console, such as a notebook, that replaces the terminal.
pub(crate) trait DisplaySink: Send + Sync {
    /// Receives text that a script prints.
    fn print(&self, text: &str);
    /// Receives the lines of an error that has no code.
    fn error(&self, lines: &str);
    fn report(&self, diagnostic: &Diagnostic, sources: &SourceMap);
    fn show(&self, shown: &ShownPicture);
    /// Receives the value of an entry, and the value as text.
    fn value(&self, value: &HostValue, text: &str);
    /// Receives results as text and, if the console's output is JSON, as data.
    fn results(&self, _: Vec<Value>, text: &str) {
        self.print(text);
    }
}

pub(crate) struct Console {
    /// If set, receives all output instead of the standard streams.
    pub stage: Option<Arc<dyn DisplaySink>>,
    out: BufWriter<io::Stdout>,
    out_is_terminal: bool,
    /// Whether to flush after each write even if standard output is not a terminal. Set for ranks, because their
    /// launcher forwards each line at once.
    is_live: bool,
    /// Style of standard output.
    pub style: RenderStyle,
    /// Style of standard error.
    pub error_style: RenderStyle,
    format: OutputFormat,
    /// The document of the format. It is written to standard output when the command ends; all other output goes to
    /// standard error.
    document: Option<OutputDocument>,
    /// Numbers of errors and warnings reported so far.
    pub tally: DiagCounts,
    /// Whether an internal error of Clk has been reported.
    pub internal: bool,
    /// `-D` and `-I` for CUDA files.
    pub cuda_options: ImportOptions,
    /// The terminal's graphics protocol: outer `None` until it is detected, inner `None` if the terminal has none.
    graphics: Option<Option<Protocol>>,
}

impl Console {
    pub fn new(look: OutputOptions) -> Self {
        let out_is_terminal = io::stdout().is_terminal();
        let width = text_width();
        let style = |color| RenderStyle { color, ascii: look.ascii, width };
        Console {
            stage: None,
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
            out_is_terminal,
            is_live: ranks::is_launched(),
            style: style(is_colored(look.color, anstream::AutoStream::choice(&io::stdout()))),
            error_style: style(is_colored(look.color, anstream::AutoStream::choice(&io::stderr()))),
            format: look.format,
            document: OutputDocument::of(look.format),
            tally: DiagCounts::default(),
            internal: false,
            cuda_options: ImportOptions::default(),
            graphics: None,
        }
    }

    /// Creates a console that sends all output to a display sink, in color.
    pub fn staged(stage: Arc<dyn DisplaySink>) -> Self {
        let style = RenderStyle { color: true, ascii: false, width: 100 };
        let look = OutputOptions { color: ColorMode::Never, ..OutputOptions::default() };
        Console { stage: Some(stage), style, error_style: style, ..Console::new(look) }
    }

    /// Writes a text to standard output verbatim.
    pub fn print(&mut self, text: &str) {
        if let Some(stage) = &self.stage {
            return stage.print(text);
        }
        progress::clear();
        if self.document.is_some() {
            let _ = io::stderr().lock().write_all(text.as_bytes());
            return;
        }
        let written = self.out.write_all(text.as_bytes());
        let written =
            if self.out_is_terminal || self.is_live { written.and_then(|()| self.out.flush()) } else { written };
        self.check(written);
    }

    /// Writes a line to standard output.
    pub fn line(&mut self, text: &str) {
        self.print(text);
        self.print("\n");
    }

    /// Writes a line to standard output, with control sequences escaped. For lines with untrusted content, such as file
    /// names.
    pub fn fact(&mut self, text: &str) {
        self.line(&escape::lines(text));
    }

    /// Writes results: as records in JSON, else as one text; SARIF and display sinks get both.
    pub fn results(&mut self, kind: &str, data: impl FnOnce() -> Vec<Value>, text: impl FnOnce(RenderStyle) -> String) {
        let text = if self.is_json() { String::new() } else { text(self.style) };
        let records = if self.keeps_records() {
            data().into_iter().map(|one| output::record(kind, one)).collect()
        } else {
            vec![]
        };
        if let Some(stage) = &self.stage {
            return stage.results(records, &text);
        }
        records.into_iter().for_each(|record| self.write_record(record));
        self.print(&text);
    }

    /// Handles the result of a write. A closed pipe (`clk run … | head`) ends the process; the exit code says whether
    /// errors were reported.
    fn check(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                let code = if self.tally.errors > 0 { super::exit::FAILURE } else { super::exit::OK };
                std::process::exit(code.into())
            }
            Err(error) => {
                let _ = writeln!(io::stderr(), "error: standard output cannot be written: {error}");
                std::process::exit(super::exit::FAILURE.into());
            }
        }
    }

    pub fn flush(&mut self) {
        if self.stage.is_some() {
            return;
        }
        progress::clear();
        let flushed = self.out.flush();
        self.check(flushed);
    }

    /// Flushes standard output, then writes one or more lines to standard error, with control sequences escaped.
    pub fn error_line(&mut self, text: &str) {
        if let Some(stage) = &self.stage {
            return stage.error(&escape::lines(text));
        }
        self.flush();
        let shown = match self.format {
            OutputFormat::Json => {
                let PlainMessage { severity, text, help } = PlainMessage::parse(text);
                let message = json!({ "severity": severity, "text": text, "help": help });
                escape::json(output::record("message", message).to_string())
            }
            _ => escape::lines(text).into_owned(),
        };
        let _ = writeln!(io::stderr().lock(), "{shown}");
        if let Some(OutputDocument::Sarif(log)) = &mut self.document {
            let message = PlainMessage::parse(text);
            let help = message.help.map(|help| format!("\nHelp: {help}")).unwrap_or_default();
            log.notify(message.severity, &format!("{}{help}", message.text), None);
        }
    }

    /// Whether results are only JSON lines.
    pub fn is_json(&self) -> bool {
        self.format == OutputFormat::Json && self.stage.is_none()
    }

    /// Whether results are written as text for a reader.
    pub fn is_human(&self) -> bool {
        self.stage.is_some() || matches!(self.format, OutputFormat::Human | OutputFormat::Github)
    }

    /// Whether records are written: as JSON lines, in a SARIF log, or to a display sink.
    pub fn keeps_records(&self) -> bool {
        matches!(self.format, OutputFormat::Json | OutputFormat::Sarif)
    }

    /// Writes a record as a JSON line, or adds it to the SARIF log; in other formats does nothing.
    pub fn record(&mut self, kind: &str, object: Value) {
        let record = output::record(kind, object);
        match &self.stage {
            Some(stage) if self.keeps_records() => stage.results(vec![record], ""),
            Some(_) => {}
            None => self.write_record(record),
        }
    }

    fn write_record(&mut self, record: Value) {
        if self.is_json() {
            self.line(&escape::json(record.to_string()));
        } else if let Some(OutputDocument::Sarif(log)) = &mut self.document {
            log.add_record(record);
        }
    }

    /// Writes a notice that GitHub shows at its place; in other formats does nothing.
    pub fn notice(&mut self, title: &str, message: &str, place: Option<Span>, sources: &SourceMap) {
        if self.format == OutputFormat::Github {
            let line = annotation::annotation("notice", title, message, place, sources);
            self.line(&line);
        }
    }

    /// Begins with the tests of a file. Earlier diagnostics that belong to no test are not in the JUnit report.
    pub fn start_test_suite(&mut self) {
        if let Some(OutputDocument::Junit(report)) = &mut self.document {
            report.start_suite();
        }
    }

    /// Adds the result of a test to the JUnit report; in other formats does nothing. The diagnostics reported since the
    /// previous test belong to this one.
    pub fn add_test_case(&mut self, suite: &str, name: &str, status: CaseStatus, seconds: Option<f64>, printed: &str) {
        if let Some(OutputDocument::Junit(report)) = &mut self.document {
            report.add_case(suite, name, status, seconds, printed);
        }
    }

    /// Writes the document of the format, if it has one. Called when a command ends with this exit code.
    pub fn finish(&mut self, code: u8) {
        match self.document.take() {
            Some(OutputDocument::Sarif(log)) => self.print(&log.finish(code)),
            Some(OutputDocument::Junit(report)) => self.print(&report.finish()),
            None => {}
        }
        self.flush();
    }

    /// Flushes standard output, then reports a diagnostic on standard error and counts it.
    pub fn report(&mut self, diagnostic: &Diagnostic, sources: &SourceMap) {
        self.tally.count(diagnostic);
        self.internal |= diagnostic.code == super::crash::CODE;
        if let Some(stage) = &self.stage {
            return stage.report(diagnostic, sources);
        }
        let text = match self.format {
            OutputFormat::Json => render::json(diagnostic, sources) + "\n",
            _ => render::text(diagnostic, sources, self.error_style) + "\n",
        };
        self.flush();
        let _ = io::stderr().lock().write_all(text.as_bytes());
        match &mut self.document {
            Some(OutputDocument::Sarif(log)) => log.add_diagnostic(diagnostic, sources),
            Some(OutputDocument::Junit(report)) => report.add_diagnostic(diagnostic, sources),
            None => {}
        }
        if self.format == OutputFormat::Github {
            self.line(&annotation::of_diagnostic(diagnostic, sources));
        }
    }

    pub fn report_all(&mut self, diagnostics: &[Diagnostic], sources: &SourceMap) {
        for diagnostic in diagnostics {
            self.report(diagnostic, sources);
        }
    }

    /// Queries the terminal's width again: it may have been resized during a session.
    pub fn measure(&mut self) {
        if self.stage.is_some() {
            return;
        }
        self.style.width = text_width();
        self.error_style.width = self.style.width;
    }

    /// Whether standard output is a terminal in which the cursor can be moved.
    pub fn has_cursor(&self) -> bool {
        self.out_is_terminal && self.style.color && self.stage.is_none() && self.document.is_none()
    }

    /// Returns the terminal's graphics protocol, if any; detects it at the first call.
    pub fn graphics(&mut self) -> Option<Protocol> {
        if !self.out_is_terminal || self.style.ascii || !self.style.color {
            return None;
        }
        self.flush();
        *self.graphics.get_or_insert_with(graphics::detect)
    }

    /// Writes the final line of a command, such as "2 errors and 1 warning".
    pub fn summary(&mut self) {
        if let Some(summary) = self.tally.summary()
            && !self.is_json()
        {
            self.error_line(&summary);
        }
    }

    /// Wraps a text in an ANSI color if standard output is colored.
    pub fn paint(&self, color: &str, text: &str) -> String {
        paint(self.style, color, text)
    }
}

/// Wraps a text in an ANSI color if the style has color.
pub(crate) fn paint(style: RenderStyle, color: &str, text: &str) -> String {
    if style.color { format!("\x1b[{color}m{text}\x1b[0m") } else { text.to_string() }
}

fn is_colored(when: ColorMode, auto: anstream::ColorChoice) -> bool {
    match when {
        ColorMode::Always => true,
        ColorMode::Never => false,
        ColorMode::Auto => matches!(auto, anstream::ColorChoice::Always | anstream::ColorChoice::AlwaysAnsi),
    }
}

/// Returns the number of columns at which paragraphs are wrapped.
fn text_width() -> usize {
    tty::width().clamp(40, 120)
}
