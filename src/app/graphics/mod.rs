//! Terminal graphics: detects the protocol (Kitty, iTerm or Sixel) and encodes pictures.
//!
//! Kitty and iTerm are recognized by environment variables. Sixel is detected by a "primary device attributes" query.
//! No query is sent if its answer could mix with the user's input.

use std::fmt::Write as _;

use clk_host::picture::base64;
use clk_host::picture::raster::Raster;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Kitty,
    ITerm,
    Sixel,
}

/// Detects the protocol from environment variables: `None` if the terminal must be queried, `Some(None)` if it cannot
/// show pictures.
fn detect_by_environment(variable: impl Fn(&str) -> Option<String>) -> Option<Option<Protocol>> {
    let variable_is = |name: &str, value: &str| variable(name).is_some_and(|v| v.eq_ignore_ascii_case(value));
    if let Some(wanted) = variable("CLK_GRAPHICS") {
        return Some(match wanted.as_str() {
            "kitty" => Some(Protocol::Kitty),
            "iterm" => Some(Protocol::ITerm),
            "sixel" => Some(Protocol::Sixel),
            _ => None,
        });
    }
    let term = variable("TERM").unwrap_or_default();
    if term.is_empty() || term == "dumb" || term == "linux" {
        return Some(None);
    }
    // Inside a terminal multiplexer, variables describe the outer terminal, but only the multiplexer draws. It must be
    // queried.
    if variable("TMUX").is_some() || term.starts_with("screen") || term.starts_with("tmux") {
        return None;
    }
    if variable("KITTY_WINDOW_ID").is_some() || term.contains("kitty") || variable_is("TERM_PROGRAM", "ghostty") {
        return Some(Some(Protocol::Kitty));
    }
    let iterm = ["iTerm.app", "WezTerm"].iter().any(|name| variable_is("TERM_PROGRAM", name))
        || variable_is("LC_TERMINAL", "iTerm2");
    if iterm { Some(Some(Protocol::ITerm)) } else { None }
}

/// Returns the graphics protocol of the terminal on standard output, if it has one.
pub(crate) fn detect() -> Option<Protocol> {
    detect_by_environment(|name| std::env::var(name).ok())
        .unwrap_or_else(|| query::has_sixel().then_some(Protocol::Sixel))
}

/// Encodes a picture for the terminal, followed by a newline.
pub(crate) fn draw(raster: &Raster, protocol: Protocol) -> Option<String> {
    let mut text = match protocol {
        Protocol::Kitty => kitty(&raster.png().ok()?),
        Protocol::ITerm => iterm(&raster.png().ok()?),
        Protocol::Sixel => sixel(raster),
    };
    text.push('\n');
    Some(text)
}

/// Encodes a PNG for Kitty, in chunks of 4096 characters. `q=2` suppresses the terminal's responses.
fn kitty(png: &[u8]) -> String {
    let data = base64::encode(png);
    let mut text = String::new();
    let pieces = data.as_bytes().chunks(4096);
    let count = pieces.len();
    for (i, piece) in pieces.enumerate() {
        let control = if i == 0 { "a=T,f=100,q=2," } else { "" };
        let more = u8::from(i + 1 < count);
        let _ = write!(text, "\x1b_G{control}m={more};{}\x1b\\", String::from_utf8_lossy(piece));
    }
    text
}

fn iterm(png: &[u8]) -> String {
    format!("\x1b]1337;File=inline=1;size={};preserveAspectRatio=1:{}\x07", png.len(), base64::encode(png))
}

/// Number of levels of each color channel in a Sixel picture.
const LEVELS: usize = 6;

/// Thresholds of ordered dithering by position, in sixteenths of a level.
const DITHER: [[usize; 4]; 4] = [[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]];

fn sixel(raster: &Raster) -> String {
    let mut text = format!("\x1bP0;1q\"1;1;{};{}", raster.width, raster.height);
    for color in 0..LEVELS.pow(3) {
        let level = |divisor: usize| color / divisor % LEVELS * 100 / (LEVELS - 1);
        let _ = write!(text, "#{color};2;{};{};{}", level(LEVELS * LEVELS), level(LEVELS), level(1));
    }
    let colors = color_indices(raster);
    for band in colors.chunks(6 * raster.width) {
        sixel_band(band, raster.width, &mut text);
        text.push('-');
    }
    text + "\x1b\\"
}

/// Returns, for each pixel, the index of its color in a cube of [`LEVELS`]³ colors, with dithering.
fn color_indices(raster: &Raster) -> Vec<usize> {
    let mut colors = Vec::with_capacity(raster.width * raster.height);
    for (at, pixel) in raster.pixels.chunks_exact(3).enumerate() {
        let (x, y) = (at % raster.width, at / raster.width);
        let threshold = DITHER[y % 4][x % 4];
        let level = |c: u8| {
            let exact = usize::from(c) * (LEVELS - 1) * 16 / 255;
            (exact / 16 + usize::from(exact % 16 > threshold)).min(LEVELS - 1)
        };
        colors.push(pixel.iter().fold(0, |color, &c| color * LEVELS + level(c)));
    }
    colors
}

/// Encodes a band of six rows. Each color that occurs has one bit mask of its pixels per column.
fn sixel_band(band: &[usize], width: usize, text: &mut String) {
    let mut present: Vec<usize> = band.to_vec();
    present.sort_unstable();
    present.dedup();
    for (i, color) in present.iter().enumerate() {
        if i > 0 {
            text.push('$');
        }
        let _ = write!(text, "#{color}");
        let column = |x: usize| {
            let rows = band.chunks(width).enumerate();
            rows.fold(0u8, |bits, (y, row)| bits | u8::from(row.get(x) == Some(color)) << y)
        };
        let mut x = 0;
        while x < width {
            let bits = column(x);
            let run = (x..width).take_while(|&x| column(x) == bits).count();
            let character = char::from(63 + bits);
            match run {
                0..4 => text.extend(std::iter::repeat_n(character, run)),
                _ => drop(write!(text, "!{run}{character}")),
            }
            x += run;
        }
    }
}

#[cfg(unix)]
mod query {
    //! Queries the terminal's attributes. The answer is neither shown nor left in the input.

    use std::io::{IsTerminal, Write};
    use std::time::{Duration, Instant};

    /// How long to wait for an answer. A terminal that does not answer in this time is assumed not to support Sixel.
    const PATIENCE: Duration = Duration::from_millis(200);

    pub(crate) fn has_sixel() -> bool {
        if !std::io::stdin().is_terminal() || is_typing(Duration::ZERO) {
            return false;
        }
        let Some(raw) = RawModeGuard::enter() else { return false };
        let mut out = std::io::stdout();
        let sent = out.write_all(b"\x1b[c").and_then(|()| out.flush());
        let answer = if sent.is_ok() { read_answer() } else { vec![] };
        drop(raw);
        lists_sixel(&answer)
    }

    /// Whether an answer to the query, such as `ESC [ ? 62 ; 4 ; 22 c`, lists attribute 4, which means Sixel.
    pub(crate) fn lists_sixel(answer: &[u8]) -> bool {
        let text = String::from_utf8_lossy(answer);
        let attributes = text.split_once("\x1b[?").and_then(|(_, rest)| rest.split_once('c'));
        attributes.is_some_and(|(list, _)| list.split(';').skip(1).any(|attribute| attribute == "4"))
    }

    fn read_answer() -> Vec<u8> {
        let end = Instant::now() + PATIENCE;
        let mut answer = Vec::new();
        while answer.last() != Some(&b'c') && answer.len() < 64 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || !is_typing(left) {
                break;
            }
            let mut byte = 0u8;
            // SAFETY: reads one byte into a variable that lives until the call returns.
            let read = unsafe { libc::read(libc::STDIN_FILENO, (&raw mut byte).cast(), 1) };
            if read != 1 {
                break;
            }
            answer.push(byte);
        }
        answer
    }

    /// Whether input from the terminal is available now or within this time.
    fn is_typing(within: Duration) -> bool {
        let mut ready = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
        let timeout = within.as_millis().min(1000) as libc::c_int;
        // SAFETY: passes one descriptor structure that lives until the call returns.
        unsafe { libc::poll(&raw mut ready, 1, timeout) > 0 }
    }

    /// Terminal mode without echo and line buffering; the previous mode is restored on drop.
    struct RawModeGuard(libc::termios);

    impl RawModeGuard {
        fn enter() -> Option<RawModeGuard> {
            // SAFETY: a `termios` is plain data for which zeros are valid; `tcgetattr` fills it.
            let mut before: libc::termios = unsafe { std::mem::zeroed() };
            // SAFETY: both calls get a termios that lives until they return.
            unsafe {
                if libc::tcgetattr(libc::STDIN_FILENO, &raw mut before) != 0 {
                    return None;
                }
                let mut raw = before;
                raw.c_lflag &= !(libc::ICANON | libc::ECHO);
                (libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const raw) == 0)
                    .then_some(RawModeGuard(before))
            }
        }
    }

    impl Drop for RawModeGuard {
        fn drop(&mut self) {
            // SAFETY: the settings are those that `tcgetattr` returned.
            unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const self.0) };
        }
    }
}

#[cfg(not(unix))]
mod query {
    pub(crate) fn has_sixel() -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
