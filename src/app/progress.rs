//! A progress bar for long launches and measurements, and a note about launches without progress, on standard error if that is a terminal.
//!
//! Other output to the terminal removes them first, and so does every end of the process.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::tty;
use crate::base::escape;
use crate::base::source::Sources;
use crate::device::Progress;
use crate::device::stall::WorkerCounts;

/// Minimum duration of a launch before a bar is shown.
const LONG: Duration = Duration::from_millis(700);
const TICK: Duration = Duration::from_millis(100);
/// Minimum time without progress before a note is shown.
const STALLED: Duration = Duration::from_secs(1);

/// Columns kept free to the right of the bar: the terminal echoes `^C` there, and a wrapped line could not be erased.
const MARGIN: usize = 8;

/// The bar or the note on the screen, if any.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Set when the process is ending: no bar is drawn any more.
static ENDING: AtomicBool = AtomicBool::new(false);

/// Removes the bar before other output is written.
pub(crate) fn clear() {
    let shown = SHOWN.lock().ok().and_then(|mut shown| shown.take());
    if let Some(bar) = shown {
        bar.finish_and_clear();
    }
}

/// The same without blocking indefinitely: the drawing thread may hold the lock while the terminal accepts no output.
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

/// Removes the bar for good, before the process ends.
pub(crate) fn leave() {
    ENDING.store(true, Ordering::SeqCst);
    try_clear();
}

/// Shows the progress of a run's launches until it is dropped.
pub(crate) struct Watch {
    ended: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

/// What the parts of a launch are called.
pub(crate) const OF_LAUNCHES: &str = "groups of threads";

/// How a note about launches without progress tells their places and the way out.
pub(crate) struct Notes {
    sources: Sources,
    check: &'static str,
}

impl Notes {
    /// `check` is how the user switches all checks on.
    pub fn new(sources: &Sources, check: &'static str) -> Notes {
        Notes { sources: sources.clone(), check }
    }
}

/// Starts showing progress, in parts that are called so; `None` if standard error is no terminal. With `notes`, launches without progress
/// get a note.
pub(crate) fn watch(
    progress: &Arc<Progress>,
    parts: &'static str,
    notes: impl FnOnce() -> Option<Notes>,
) -> Option<Watch> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let notes = notes();
    if notes.is_some() {
        progress.stalls.enable();
    }
    let ended = Arc::new((Mutex::new(false), Condvar::new()));
    let (progress, end) = (progress.clone(), ended.clone());
    let thread = std::thread::Builder::new()
        .name("clk-progress".into())
        .spawn(move || follow(&progress, parts, notes.as_ref(), &end))
        .ok()?;
    Some(Watch { ended, thread: Some(thread) })
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Ok(mut ended) = self.ended.0.lock() {
            *ended = true;
        }
        self.ended.1.notify_all();
        if let Some(thread) = self.thread.take() {
            // The thread only draws; a panic in it does not affect the run.
            let _ = thread.join();
        }
    }
}

/// Draws the bar or the note until the run has ended.
fn follow(progress: &Progress, parts: &str, notes: Option<&Notes>, (ended, wake): &(Mutex<bool>, Condvar)) {
    let mut since = Instant::now();
    let mut before = 0;
    let mut stall = Stall::new(progress);
    // Whether the note is shown.
    let mut noted = false;
    let Ok(mut done) = ended.lock() else { return };
    while !*done {
        done = match wake.wait_timeout(done, TICK) {
            Ok((done, _)) => done,
            Err(_) => return,
        };
        let (begun, of) = (progress.begun.load(Ordering::Relaxed), progress.of.load(Ordering::Relaxed));
        // A different launch than at the last tick.
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
            if progress.of.load(Ordering::Relaxed) == of && !ENDING.load(Ordering::SeqCst) {
                shown.get_or_insert_with(|| new_bar(of, parts, since)).set_position(begun);
            }
        }
    }
    clear();
}

/// Measures how long a launch has made no progress.
struct Stall {
    /// When the launch was last seen to make progress.
    since: Instant,
    /// When `counts` was taken.
    seen: Instant,
    counts: WorkerCounts,
    begun: u64,
    /// The place of the loop in which a worker waits, once the launch counts as stalled.
    place: Option<String>,
}

impl Stall {
    fn new(progress: &Progress) -> Stall {
        let now = Instant::now();
        let counts = progress.stalls.counts();
        Stall { since: now, seen: now, counts, begun: progress.begun.load(Ordering::Relaxed), place: None }
    }

    /// Returns the lines of the note, if there has been no progress for a while.
    fn note(&mut self, progress: &Progress, notes: &Notes) -> Option<[String; 2]> {
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
            let begun = progress.begun.load(Ordering::Relaxed);
            let spin = progress.stalls.spin(&self.counts).filter(|_| begun == self.begun);
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

/// Cuts a line to this number of columns.
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

/// Returns the template of the bar for a terminal of this width.
fn template(columns: usize, parts: &str) -> String {
    /// Length of the longest text beside the bar, with the longest name of parts.
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
    fn the_bar_leaves_room_for_what_the_terminal_echoes() {
        assert_eq!(template(120, OF_LAUNCHES), "{bar:30} {percent:>3}% of {len} groups of threads, {eta} to go");
        assert_eq!(template(80, OF_LAUNCHES), "{bar:24} {percent:>3}% of {len} groups of threads, {eta} to go");
        assert_eq!(template(80, "choices"), "{bar:24} {percent:>3}% of {len} choices, {eta} to go");
        assert_eq!(template(60, OF_LAUNCHES), "{bar:30} {percent:>3}%");
        assert_eq!(template(30, OF_LAUNCHES), "{bar:17} {percent:>3}%");
        assert_eq!(template(5, OF_LAUNCHES), "{bar:1} {percent:>3}%");
    }
}
