//! A progress bar for long launches and measurements, on standard error if that is a terminal.
//!
//! Other output to the terminal removes the bar first, and so does every end of the process.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::tty;
use crate::device::Progress;

/// Minimum duration of a launch before a bar is shown.
const LONG: Duration = Duration::from_millis(700);
const TICK: Duration = Duration::from_millis(100);

/// Columns kept free to the right of the bar: the terminal echoes `^C` there, and a wrapped line could not be erased.
const MARGIN: usize = 8;

/// The bar on the screen, if any.
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

/// Starts showing progress, in parts that are called so; `None` if standard error is no terminal.
pub(crate) fn watch(progress: &Arc<Progress>, parts: &'static str) -> Option<Watch> {
    if !std::io::stderr().is_terminal() {
        return None;
    }
    let ended = Arc::new((Mutex::new(false), Condvar::new()));
    let (progress, end) = (progress.clone(), ended.clone());
    let thread =
        std::thread::Builder::new().name("clk-progress".into()).spawn(move || follow(&progress, parts, &end)).ok()?;
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

/// Draws the bar until the run has ended.
fn follow(progress: &Progress, parts: &str, (ended, wake): &(Mutex<bool>, Condvar)) {
    let mut since = Instant::now();
    let mut before = 0;
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
            clear();
        }
        before = begun;
        if of > 1 && begun < of && since.elapsed() > LONG {
            let Ok(mut shown) = SHOWN.lock() else { return };
            // The launch may have ended while this thread waited for the lock.
            if progress.of.load(Ordering::Relaxed) == of && !ENDING.load(Ordering::SeqCst) {
                shown.get_or_insert_with(|| new_bar(of, parts, since)).set_position(begun);
            }
        }
    }
    clear();
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
