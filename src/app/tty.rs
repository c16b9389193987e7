//! The width of the terminal, and its settings, which are restored when the process ends.

/// Returns the number of columns of the terminal: the variable `COLUMNS`, else the width that the terminal reports,
/// else 100.
pub(crate) fn width() -> usize {
    let columns = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    columns.or_else(terminal_width).unwrap_or(100)
}

/// Returns the width of the terminal to which standard output or standard error is connected, if any.
#[cfg(unix)]
fn terminal_width() -> Option<usize> {
    let ask = |stream: libc::c_int| {
        let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: `TIOCGWINSZ` fills a `winsize` that lives until the call returns, and fails if the stream is not a
        // terminal.
        let answered = unsafe { libc::ioctl(stream, libc::TIOCGWINSZ, &raw mut size) } == 0;
        (answered && size.ws_col > 0).then_some(usize::from(size.ws_col))
    };
    [libc::STDOUT_FILENO, libc::STDERR_FILENO].into_iter().find_map(ask)
}

#[cfg(not(unix))]
fn terminal_width() -> Option<usize> {
    None
}

/// The terminal's settings at the start of the session.
#[cfg(unix)]
static SAVED: std::sync::OnceLock<libc::termios> = std::sync::OnceLock::new();

#[cfg(unix)]
pub(crate) fn save_settings() {
    // SAFETY: a zeroed `termios` is valid and lives until the call, which fills it, returns.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the call writes to `settings`, which lives until it returns.
    if unsafe { libc::tcgetattr(libc::STDIN_FILENO, &raw mut settings) } == 0 {
        let _ = SAVED.set(settings);
    }
}

/// Restores the terminal's settings before the process ends during line editing.
#[cfg(unix)]
pub(crate) fn restore() {
    if let Some(settings) = SAVED.get() {
        // SAFETY: the values were returned by `tcgetattr`.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, settings) };
        // Disables bracketed paste mode.
        print!("\x1b[?2004l\r\n");
        let _ = std::io::Write::flush(&mut std::io::stdout());
    }
}

#[cfg(not(unix))]
pub(crate) fn save_settings() {}

#[cfg(not(unix))]
pub(crate) fn restore() {}
