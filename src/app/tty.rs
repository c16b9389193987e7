//! The terminal: its width, and its settings, which are restored at the end.

/// Returns the number of columns of the terminal: `COLUMNS` if set, else as the terminal reports it, else 100.
pub(crate) fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    columns.or_else(terminal_width).unwrap_or(100)
}

/// Returns the number of columns of the terminal on standard output or standard error, if either is one.
#[cfg(unix)]
fn terminal_width() -> Option<usize> {
    let ask = |stream: libc::c_int| {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: `TIOCGWINSZ` fills a `winsize` that lives until the call returns, and fails if the stream is no terminal.
        let answered = unsafe { libc::ioctl(stream, libc::TIOCGWINSZ, &raw mut size) } == 0;
        (answered && size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    [libc::STDOUT_FILENO, libc::STDERR_FILENO].into_iter().find_map(ask)
}

#[cfg(not(unix))]
fn terminal_width() -> Option<usize> {
    None
}

/// The terminal's settings when the session started.
#[cfg(unix)]
static FOUND: std::sync::OnceLock<libc::termios> = std::sync::OnceLock::new();

#[cfg(unix)]
pub fn remember() {
    // SAFETY: a zeroed `termios` is valid and lives until the call, which fills it, returns.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the settings are writable.
    if unsafe { libc::tcgetattr(libc::STDIN_FILENO, &raw mut settings) } == 0 {
        let _ = FOUND.set(settings);
    }
}

/// Restores the terminal's settings before the process ends during line editing.
#[cfg(unix)]
pub(crate) fn leave() {
    if let Some(settings) = FOUND.get() {
        // SAFETY: sets values that `tcgetattr` returned.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, settings) };
        // Disables bracketed paste mode.
        print!("\x1b[?2004l\r\n");
        let _ = std::io::Write::flush(&mut std::io::stdout());
    }
}

#[cfg(not(unix))]
pub fn remember() {}

#[cfg(not(unix))]
pub(crate) fn leave() {}
