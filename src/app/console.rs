//! Standard output for results and standard error for diagnostics, in the style requested by the user.

use std::io::{self, BufWriter, IsTerminal, Write};

use std::sync::Arc;

use serde_json::Value;

use super::graphics::{self, Protocol};
use super::{progress, ranks, tty};
use clk_base::diag::Diagnostic;
use clk_base::escape;
use clk_base::render::{self, DiagCounts, RenderStyle};
use clk_base::source::SourceMap;
use clk_host::interp::ShownPicture;
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
    /// Whether to print diagnostics and the results of tests and benchmarks as JSON lines.
    pub json: bool,
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
    pub json: bool,
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
            json: look.json,
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

    /// Writes results: each as a line of JSON if the output is JSON, else all as one text. A display sink gets both.
    pub fn results(&mut self, data: impl FnOnce() -> Vec<Value>, text: impl FnOnce(RenderStyle) -> String) {
        if let Some(stage) = &self.stage {
            return stage.results(if self.json { data() } else { vec![] }, &text(self.style));
        }
        if self.json {
            data().iter().for_each(|value| self.line(&escape::json(value.to_string())));
        } else {
            self.print(&text(self.style));
        }
    }

    /// Returns whether results are written as text.
    pub fn writes_text(&self) -> bool {
        !self.json || self.stage.is_some()
    }

    /// Handles the result of a write. A closed pipe (`clk run … | head`) ends the process successfully.
    fn check(&mut self, written: io::Result<()>) {
        match written {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => std::process::exit(super::exit::OK.into()),
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
        let _ = writeln!(io::stderr().lock(), "{}", escape::lines(text));
    }

    /// Flushes standard output, then reports a diagnostic on standard error and counts it.
    pub fn report(&mut self, diagnostic: &Diagnostic, sources: &SourceMap) {
        self.tally.count(diagnostic);
        self.internal |= diagnostic.code == super::crash::CODE;
        if let Some(stage) = &self.stage {
            return stage.report(diagnostic, sources);
        }
        let text = if self.json {
            render::json(diagnostic, sources) + "\n"
        } else {
            render::text(diagnostic, sources, self.error_style) + "\n"
        };
        self.flush();
        let _ = io::stderr().lock().write_all(text.as_bytes());
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
            && !self.json
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
