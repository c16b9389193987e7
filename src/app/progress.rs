//! Shows a progress bar for long launches and measurements, and a note about launches that stall. Writes to standard
//! error if that is a terminal.
//!
//! The bar and the note are erased before other output is written to the terminal, and before the process ends.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::tty;
use clk_base::escape;
use clk_base::source::SourceMap;
use clk_runtime::LaunchProgress;
use clk_runtime::stall::WorkerCounts;

/// A bar is shown only for launches that take longer than this.
const LONG: Duration = Duration::from_millis(700);
const TICK: Duration = Duration::from_millis(100);
/// A note is shown only after this time without progress.
const STALLED: Duration = Duration::from_secs(1);

/// Number of columns that stay free to the right of the bar. The terminal echoes `^C` there, and a line that wraps
/// could not be erased.
const MARGIN: usize = 8;

/// The bar or the note that is on the screen, if any.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Set when the process is about to end. After that, no bar or note is drawn.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Erases the bar or the note before other output is written.
pub(crate) fn clear() {
    let shown = SHOWN.lock().ok().and_then(|mut shown| shown.take());
    if let Some(bar) = shown {
        bar.finish_and_clear();
    }
}

/// Like [`clear`], but does not block for long: the drawing thread may hold the lock while the terminal accepts no
/// output.
pub(crate) fn try_clear() {
    const TRIES: u32 = 5;
    for _ in 0..TRIES {
        match SHOWN.try_lock() {
            Ok(mut shown) => return shown.take().iter().for_each(ProgressBar::finish_and_clear),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::Poisoned(_)) => return,
        }
    }
}

/// Erases the bar and prevents further drawing, before the process ends.
pub(crate) fn leave() {
    ENDING.store(true, Ordering::SeqCst);
    try_clear();
}

/// Shows the progress of launches until it is dropped.
pub(crate) struct Watch {
    end_signal: Arc<RunEndSignal>,
    thread: Option<JoinHandle<()>>,
}

/// Tells the drawing thread that it must end.
#[derive(Default)]
struct RunEndSignal {
    has_ended: Mutex<bool>,
    /// Wakes the drawing thread before its next tick.
    wake: Condvar,
}

/// The unit that the progress bar of a launch counts.
pub(crate) const OF_LAUNCHES: &str = "groups of threads";

/// Data for notes about stalled launches: the sources, and the command that finds the cause.
pub(crate) struct StallNotes {
    sources: SourceMap,
    check: &'static str,
}

impl StallNotes {
    /// `check` is the text that the user types to enable all checks.
    pub fn new(sources: &SourceMap, check: &'static str) -> StallNotes {
        StallNotes { sources: sources.clone(), check }
    }
}

/// Starts showing progress, counted in `parts`; returns `None` if standard error is not a terminal. With `notes`, also
/// shows a note if a launch stalls.
pub(crate) fn watch(
    progress: &Arc<LaunchProgress>,
    parts: &'static str,
    notes: impl FnOnce() -> Option<StallNotes>,
) -> Option<Watch> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let notes = notes();
    if notes.is_some() {
        progress.stalls.enable();
    }
    let end_signal = Arc::new(RunEndSignal::default());
    let (progress, end) = (progress.clone(), end_signal.clone());
    let thread = std::thread::Builder::new()
        .name("clk-progress".into())
        .spawn(move || follow(&progress, parts, notes.as_ref(), &end))
        .ok()?;
    Some(Watch { end_signal, thread: Some(thread) })
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Ok(mut has_ended) = self.end_signal.has_ended.lock() {
            *has_ended = true;
        }
        self.end_signal.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread only draws, so a panic in it is ignored.
            let _ = thread.join();
        }
    }
}

/// Draws the bar or the note until the end signal is set.
fn follow(progress: &LaunchProgress, parts: &str, notes: Option<&StallNotes>, end_signal: &RunEndSignal) {
    let mut since = Instant::now();
    let mut before = 0;
    let mut stall = Stall::new(progress);
    // Whether the note is on the screen.
    let mut noted = false;
    let Ok(mut done) = end_signal.has_ended.lock() else { return };
    while !*done {
        done = match end_signal.wake.wait_timeout(done, TICK) {
            Ok((done, _)) => done,
            Err(_) => return,
        };
        let (begun, of) = (progress.started.load(Ordering::Relaxed), progress.total.load(Ordering::Relaxed));
        // The launch is a different one than at the last tick.
        if of == 0 || begun < before {
            since = Instant::now();
            if !noted {
                clear();
            }
        }
        before = begun;
        let text = notes.and_then(|notes| stall.note(progress, notes));
        if noted != text.is_some() {
            clear();
            noted = !noted;
        }
        if let Some([first, second]) = text {
            let Ok(mut shown) = SHOWN.lock() else { return };
            if !ENDING.load(Ordering::SeqCst) {
                let bar = shown.get_or_insert_with(new_note);
                let room = tty::width().saturating_sub(MARGIN);
                bar.set_prefix(cut(&first, room));
                bar.set_message(cut(&second, room));
                bar.tick();
            }
        } else if of > 1 && begun < of && since.elapsed() > LONG {
            let Ok(mut shown) = SHOWN.lock() else { return };
            // The launch may have ended while this thread waited for the lock.
            if progress.total.load(Ordering::Relaxed) == of && !ENDING.load(Ordering::SeqCst) {
                shown.get_or_insert_with(|| new_bar(of, parts, since)).set_position(begun);
            }
        }
    }
    clear();
}

/// Measures for how long a launch has made no progress.
struct Stall {
    /// When the launch was last seen to make progress.
    since: Instant,
    /// When the workers' counts were last read.
    seen: Instant,
    counts: WorkerCounts,
    started: u64,
    /// The location of the loop in which a worker waits, once the launch is considered stalled.
    place: Option<String>,
}

impl Stall {
    fn new(progress: &LaunchProgress) -> Stall {
        let now = Instant::now();
        let counts = progress.stalls.counts();
        Stall { since: now, seen: now, counts, started: progress.started.load(Ordering::Relaxed), place: None }
    }

    /// Returns the two lines of the note, if the launch has stalled.
    fn note(&mut self, progress: &LaunchProgress, notes: &StallNotes) -> Option<[String; 2]> {
        let check = notes.check;
        if let Some((waited, kernels)) = progress.stalls.kernels().filter(|(waited, _)| *waited > STALLED) {
            let names: Vec<String> = kernels.names.iter().map(|name| format!("`{}`", escape::name(name))).collect();
            let names = match &names[..] {
                [one] => format!("kernel {one} has"),
                several => format!("kernels {} have", several.join(", ")),
            };
            let seconds = waited.as_secs();
            return Some([
                format!("{names} not ended on {} for {seconds} s; Ctrl-C ends the run", kernels.device),
                format!("{check} finds a divergent barrier or a lock within a warp, on the simulator"),
            ]);
        }
        if self.seen.elapsed() > STALLED {
            let started = progress.started.load(Ordering::Relaxed);
            let spin = progress.stalls.spin(&self.counts).filter(|_| started == self.started);
            self.place = spin.map(|place| {
                let (line, column) = notes.sources.line_column(place);
                format!("{}:{line}:{column}", escape::name(notes.sources.name(place.file)))
            });
            let since = self.since;
            *self = Stall { place: self.place.take(), ..Stall::new(progress) };
            if self.place.is_some() {
                self.since = since;
            }
        }
        let place = self.place.as_ref()?;
        let seconds = self.since.elapsed().as_secs();
        Some([
            format!("no progress for {seconds} s: the loop at {place} waits for other threads"),
            format!("{check} reports the cause if they never come; Ctrl-C ends the run"),
        ])
    }
}

fn new_note() -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix}\n{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(style);
    bar
}

/// Truncates a line to this number of columns.
fn cut(line: &str, columns: usize) -> String {
    match line.char_indices().nth(columns) {
        Some(_) => line.chars().take(columns.saturating_sub(1)).chain(['…']).collect(),
        None => line.to_string(),
    }
}

fn new_bar(of: u64, parts: &str, since: Instant) -> ProgressBar {
    let style =
        ProgressStyle::with_template(&template(tty::width(), parts)).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = ProgressBar::with_draw_target(Some(of), ProgressDrawTarget::stderr_with_hz(10));
    bar.set_style(style.progress_chars("##-"));
    bar.with_elapsed(since.elapsed())
}

/// Returns the indicatif template of the bar for a terminal of this width.
fn template(columns: usize, parts: &str) -> String {
    /// Length of the longest text after the bar, including the longest unit.
    const WORDS: usize = " 100% of 1234567890 , 59m to go".len() + OF_LAUNCHES.len();
    const PERCENT: usize = " 100%".len();
    let room = columns.saturating_sub(MARGIN);
    let (bar, words) = match room.checked_sub(WORDS) {
        Some(bar) if bar >= 10 => (bar, format!(" of {{len}} {parts}, {{eta}} to go")),
        _ => (room.saturating_sub(PERCENT).max(1), String::new()),
    };
    format!("{{bar:{}}} {{percent:>3}}%{words}", bar.min(30))
}

#[cfg(test)]
mod tests {
    use super::{OF_LAUNCHES, template};

    #[test]
    fn the_bar_leaves_space_for_echoed_keys() {
        assert_eq!(template(120, OF_LAUNCHES), "{bar:30} {percent:>3}% of {len} groups of threads, {eta} to go");
        assert_eq!(template(80, OF_LAUNCHES), "{bar:24} {percent:>3}% of {len} groups of threads, {eta} to go");
        assert_eq!(template(80, "choices"), "{bar:24} {percent:>3}% of {len} choices, {eta} to go");
        assert_eq!(template(60, OF_LAUNCHES), "{bar:30} {percent:>3}%");
        assert_eq!(template(30, OF_LAUNCHES), "{bar:17} {percent:>3}%");
        assert_eq!(template(5, OF_LAUNCHES), "{bar:1} {percent:>3}%");
    }
}
