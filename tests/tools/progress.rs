//! Tests the progress bar of long launches, which is shown only on a terminal, and removed when the launch ends.
#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};

use clk_testing::pty::Session;

/// A kernel with many slow groups of threads, so that the launch would practically never end.
const ENDLESS: &str = "kernel long(out y: [u32; N]) threads(i: N) {\n    var n = 0u32\n    for k in 0..1000000 { n = n * 5 + u32(k) }\n    y[i] = n\n}\n\
                       print(long(N = 10000000)[0])\n";

fn command(folder: &std::path::Path) -> Command {
    std::fs::write(folder.join("long.clk"), ENDLESS).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_clk"));
    command.args(["run", "--device", "sim", "long.clk"]).current_dir(folder).env_remove("NO_COLOR");
    command
}

/// Splits the output at the final error. The interrupted launch reports it or, on a busy machine, the process, which
/// stops waiting for the launch.
fn at_end(shown: &str) -> (&str, &str) {
    let end = ["E0607", "E0599"].iter().find_map(|code| shown.split_once(code));
    end.unwrap_or_else(|| panic!("no message of the end: {shown:?}"))
}

#[test]
fn terminals_show_a_bar_during_launches() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = command(folder.path());
    command.stdout(Stdio::null());
    let mut session = Session::of(command, false);
    session.wait_for("groups of threads");
    session.interrupt();
    let shown = session.rest();
    // The line of the bar is cleared before the diagnostic is written, and the bar is not drawn again.
    let (before, message) = at_end(shown);
    assert!(before.contains("\x1b[2K"), "{shown:?}");
    assert!(!message.contains("groups of threads"), "{shown:?}");
}

/// Returns the part of the bar that is still visible at the end: the output after the line was cleared for the last
/// time.
fn left(shown: &str) -> &str {
    shown.rsplit("\x1b[2K").next().unwrap_or(shown)
}

#[test]
fn the_bar_is_removed_however_the_process_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    for signals in [vec![libc::SIGINT, libc::SIGINT], vec![libc::SIGTERM], vec![libc::SIGTERM, libc::SIGINT]] {
        let mut session = Session::of(command(folder.path()), true);
        session.wait_for("groups of threads");
        signals.iter().for_each(|&signal| session.signal(signal));
        let shown = session.rest();
        assert!(shown.contains("\x1b[2K") && !left(shown).contains("groups of threads"), "{signals:?}: {shown:?}");
    }
}

#[test]
fn the_bar_fits_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    for columns in [20, 40, 60, 80] {
        let mut command = command(folder.path());
        command.env_remove("COLUMNS");
        let mut session = Session::in_columns(command, true, columns);
        session.wait_for("%");
        session.interrupt();
        let shown = session.rest().to_string();
        let bars = shown.split(['\r', '\n']).filter(|line| line.contains("##") || line.contains("--"));
        for bar in bars.map(|line| line.split('\x1b').next().unwrap_or(line)) {
            assert!(bar.chars().count() + 8 <= usize::from(columns), "{columns} columns: {bar:?}");
        }
        let (before, _) = at_end(&shown);
        assert!(!left(before).contains('%'), "{shown:?}");
    }
}

#[test]
fn pipes_have_no_bar() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = command(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("clk starts");
    // This time is longer than the delay before the bar appears.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    // SAFETY: sends a signal to a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    at_end(&text);
    assert!(!text.contains("groups of threads") && !text.contains('\r'), "{text:?}");
}

/// A kernel whose threads take a lock within one warp: the waiting threads keep the owner of the lock from continuing.
const LOCK: &str = "kernel add(inout lock: [i32; 1], inout sum: [i32; 1]) grid(2) block(32) {\n    \
                    while atomic_compare_exchange(lock[0], 0, 1) != 0 { }\n    sum[0] += 1\n    fence()\n    \
                    atomic_exchange(lock[0], 0)\n}\nvar lock = [0]\nvar sum = [0]\nadd(lock, sum)\n";

/// A kernel with a work queue in one block: each thread takes numbers until the queue is empty, which takes long.
const QUEUE: &str = "kernel work(inout next: [u32; 1], inout y: [u32; N]) grid(1) block(32) {\n    loop {\n        \
                     let i = atomic_add(next[0], 1u32)\n        if i > 4000000000u32 { break }\n        \
                     y[thread_idx.x] = i\n    }\n}\nvar next = zeros(1, type = u32)\nvar y = zeros(32, type = u32)\n\
                     work(next, y)\n";

fn run(folder: &std::path::Path, text: &str, options: &[&str]) -> Command {
    std::fs::write(folder.join("lock.clk"), text).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_clk"));
    command.args(["run", "--device", "sim"]).args(options).arg("lock.clk").current_dir(folder).env_remove("NO_COLOR");
    command
}

#[test]
fn a_launch_without_progress_has_a_note() {
    let folder = tempfile::tempdir().expect("a folder");
    for options in [&[][..], &["--workers", "1"], &["--workers", "3"]] {
        let mut session = Session::of(run(folder.path(), LOCK, options), true);
        session.wait_for("the loop at lock.clk:2:5 waits for other threads");
        session.wait_for("`--check` reports the cause");
        session.interrupt();
        let shown = session.rest();
        let (before, message) = at_end(shown);
        assert!(!left(before).contains("--check") && !message.contains("no progress"), "{shown:?}");
    }
}

#[test]
fn checks_report_the_cause_of_a_launch_without_progress() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut session = Session::of(run(folder.path(), LOCK, &["--check"]), true);
    let shown = session.rest();
    assert!(shown.contains("E0605") && !shown.contains("no progress"), "{shown:?}");
    let divergent = "kernel half(inout y: [i32; 64]) grid(1) block(64) {\n    if thread_idx.x < 40 { barrier() }\n    \
                     y[thread_idx.x] = 1\n}\nvar y = zeros(64, type = i32)\nhalf(y)\n";
    let mut session = Session::of(run(folder.path(), divergent, &["--check"]), true);
    let shown = session.rest();
    assert!(shown.contains("E0604"), "{shown:?}");
}

#[test]
fn work_and_pipes_have_no_note() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut work = Session::of(run(folder.path(), QUEUE, &[]), true);
    let piped = tempfile::tempdir().expect("a folder");
    let mut command = run(piped.path(), LOCK, &["--json"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("clk starts");
    // Once this launch has printed its note, the launches that started earlier have had enough time to print one.
    let waits = tempfile::tempdir().expect("a folder");
    let mut waits = Session::of(run(waits.path(), LOCK, &[]), true);
    waits.wait_for("no progress for 3 s");
    // SAFETY: sends a signal to a child that has not been waited for.
    assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) }, 0);
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("no progress"), "{text:?}");
    work.interrupt();
    let shown = work.rest();
    assert!(!shown.contains("no progress"), "{shown:?}");
}
