//! Standard output for results and standard error for diagnostics, in the style requested by the user.

use std::io::{self, BufWriter, IsTerminal, Write};

use std::sync::Arc;

use super::graphics::{self, Protocol};
use super::{progress, ranks, tty};
use crate::base::diag::Diagnostic;
use crate::base::escape;
use crate::base::render::{self, Style, Tally};
use crate::base::source::Sources;
use crate::host::interp::Shown;
use crate::host::value::Value;

/// When to use color (`--color`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    #[default]
    Auto,
    Always,
    Never,
}

/// Output options of the command line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub color: When,
    pub ascii: bool,
    /// Diagnostics, test and benchmark results as JSON lines.
    pub json: bool,
}

/// Where output goes that is not for a terminal but for a program, such as a notebook.
pub(crate) trait Stage: Send + Sync {
    /// Takes output verbatim.
    fn print(&self, text: &str);
    /// Takes lines of an error that has no code.
    fn error(&self, lines: &str);
    fn report(&self, diagnostic: &Diagnostic, sources: &Sources);
    fn show(&self, shown: &Shown);
    /// Takes the value of an entry, and its text.
    fn value(&self, value: &Value, text: &str);
}

pub(crate) struct Console {
    /// Takes everything in place of the standard streams, if there is one.
    pub stage: Option<Arc<dyn Stage>>,
    out: BufWriter<io::Stdout>,
    out_is_terminal: bool,
    /// Whether each text is to be seen at once, although this is no terminal: somebody passes lines on.
    is_live: bool,
    /// Style of standard output.
    pub style: Style,
    /// Style of standard error.
    pub error_style: Style,
    pub json: bool,
    /// Counts of the diagnostics reported so far.
    pub tally: Tally,
    /// Whether an internal error was among them.
    pub internal: bool,
    /// The terminal's graphics protocol: outer `None` until detected, inner `None` if it has none.
    graphics: Option<Option<Protocol>>,
}

impl Console {
    pub fn new(look: Look) -> Self {
        let out_is_terminal = io::stdout().is_terminal();
        let width = text_width();
        let style = |color| Style { color, ascii: look.ascii, width };
        Console {
            stage: None,
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
            out_is_terminal,
            is_live: ranks::is_launched(),
            style: style(colored(look.color, anstream::AutoStream::choice(&io::stdout()))),
            error_style: style(colored(look.color, anstream::AutoStream::choice(&io::stderr()))),
            json: look.json,
            tally: Tally::default(),
            internal: false,
            graphics: None,
        }
    }

    /// Creates a console that gives everything to a stage, in color.
    pub fn staged(stage: Arc<dyn Stage>) -> Self {
        let style = Style { color: true, ascii: false, width: 100 };
        let look = Look { color: When::Never, ..Look::default() };
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

    /// Writes a line with untrusted content (such as file names) to standard output, with control sequences escaped.
    pub fn fact(&mut self, text: &str) {
        self.line(&escape::lines(text));
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
    pub fn report(&mut self, diagnostic: &Diagnostic, sources: &Sources) {
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

    pub fn report_all(&mut self, diagnostics: &[Diagnostic], sources: &Sources) {
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

    /// Writes the closing line, such as "2 errors and 1 warning".
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
pub(crate) fn paint(style: Style, color: &str, text: &str) -> String {
    if style.color { format!("\x1b[{color}m{text}\x1b[0m") } else { text.to_string() }
}

fn colored(when: When, auto: anstream::ColorChoice) -> bool {
    match when {
        When::Always => true,
        When::Never => false,
        When::Auto => matches!(auto, anstream::ColorChoice::Always | anstream::ColorChoice::AlwaysAnsi),
    }
}

/// Returns the number of columns for running text.
fn text_width() -> usize {
    tty::width().clamp(40, 120)
}
