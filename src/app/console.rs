//! Standard output and standard error: results on the one, diagnostics on the other, in the style that was asked for.

use std::io::{self, BufWriter, IsTerminal, Write};

use super::graphics::{self, Protocol};
use super::progress;
use crate::base::diag::Diagnostic;
use crate::base::escape;
use crate::base::render::{self, Style, Tally};
use crate::base::source::Sources;

/// When to use color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    #[default]
    Auto,
    Always,
    Never,
}

/// How the user wants to be spoken to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Look {
    pub color: When,
    pub ascii: bool,
    /// Diagnostics, test and bench results as JSON lines.
    pub json: bool,
}

pub(crate) struct Console {
    out: BufWriter<io::Stdout>,
    out_is_terminal: bool,
    /// Of standard output.
    pub style: Style,
    /// Of standard error.
    pub error_style: Style,
    pub json: bool,
    /// What was reported so far.
    pub tally: Tally,
    /// A fault of Clk's own was among it.
    pub internal: bool,
    /// How the terminal takes pictures, once that is known.
    graphics: Option<Option<Protocol>>,
}

impl Console {
    pub fn new(look: Look) -> Self {
        let out_is_terminal = io::stdout().is_terminal();
        let width = text_width();
        let style = |color| Style { color, ascii: look.ascii, width };
        Console {
            out: BufWriter::with_capacity(1 << 16, io::stdout()),
            out_is_terminal,
            style: style(colored(look.color, anstream::AutoStream::choice(&io::stdout()))),
            error_style: style(colored(look.color, anstream::AutoStream::choice(&io::stderr()))),
            json: look.json,
            tally: Tally::default(),
            internal: false,
            graphics: None,
        }
    }

    /// Writes to standard output, exactly this.
    pub fn print(&mut self, text: &str) {
        progress::clear();
        let written = self.out.write_all(text.as_bytes());
        let written = if self.out_is_terminal { written.and_then(|()| self.out.flush()) } else { written };
        self.check(written);
    }

    /// Writes a line to standard output.
    pub fn line(&mut self, text: &str) {
        self.print(text);
        self.print("\n");
    }

    /// Writes a line to standard output that may hold names from anywhere: what a terminal would obey is spelled out.
    pub fn fact(&mut self, text: &str) {
        self.line(&escape::lines(text));
    }

    /// Whoever read our output has closed it (`clk run … | head`): there is no more to do, and nothing went wrong.
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
        progress::clear();
        let flushed = self.out.flush();
        self.check(flushed);
    }

    /// Writes a line (or several) to standard error, behind all output so far. It may hold names from anywhere: what a
    /// terminal would obey is spelled out.
    pub fn error_line(&mut self, text: &str) {
        self.flush();
        let _ = writeln!(io::stderr().lock(), "{}", escape::lines(text));
    }

    /// Reports a diagnostic on standard error, behind all output so far.
    pub fn report(&mut self, diagnostic: &Diagnostic, sources: &Sources) {
        self.tally.count(diagnostic);
        self.internal |= diagnostic.code == super::crash::CODE;
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

    /// Asks again how wide the terminal is: a session's may have been resized.
    pub fn measure(&mut self) {
        self.style.width = text_width();
        self.error_style.width = self.style.width;
    }

    /// How the terminal takes pictures, if it does. It is found out when the first one is shown.
    pub fn graphics(&mut self) -> Option<Protocol> {
        if !self.out_is_terminal || self.style.ascii || !self.style.color {
            return None;
        }
        self.flush();
        *self.graphics.get_or_insert_with(graphics::detect)
    }

    /// The closing line: "2 errors and 1 warning".
    pub fn summary(&mut self) {
        if let Some(summary) = self.tally.summary()
            && !self.json
        {
            self.error_line(&summary);
        }
    }

    /// A text in an ANSI color of standard output, where color is wanted.
    pub fn paint(&self, color: &str, text: &str) -> String {
        paint(self.style, color, text)
    }
}

/// A text in an ANSI color, where the style has color.
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

/// Columns to write text in.
fn text_width() -> usize {
    width().clamp(40, 120)
}

/// Columns of the terminal, or as the shell says.
pub(crate) fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    columns.or_else(terminal_width).unwrap_or(100)
}

/// Columns of the terminal that standard output or standard error is.
#[cfg(unix)]
fn terminal_width() -> Option<usize> {
    let ask = |stream: libc::c_int| {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: the call fills a size that lives until it returns, and fails for what is no terminal.
        let answered = unsafe { libc::ioctl(stream, libc::TIOCGWINSZ, &raw mut size) } == 0;
        (answered && size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    [libc::STDOUT_FILENO, libc::STDERR_FILENO].into_iter().find_map(ask)
}

#[cfg(not(unix))]
fn terminal_width() -> Option<usize> {
    None
}
