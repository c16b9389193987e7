//! `clk watch`: runs a program and its tests again whenever it, a file that it imports or a `clk.toml` above it changes. Each run is a
//! process of its own, which the next change ends, so that an endless loop does not end the watch.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, SystemTime};

use clap::{Arg, ArgMatches, Command};

use super::words;
use crate::app::context::Context;
use crate::app::disk::{self, Disk};
use crate::app::exit;
use crate::app::project::{self, LOCK, MANIFEST};
use crate::compile::{Files, Missing, Session};

/// Time between two looks at the files.
const PAUSE: Duration = Duration::from_millis(100);
const ONLY: &str = "only";

pub(crate) fn command() -> Command {
    Command::new("watch")
        .about("Run a script and its tests again whenever a file of it changes; Ctrl-C ends")
        .override_usage("clk watch [OPTIONS] FILE [ARGS]...")
        .arg(
            Arg::new(ONLY)
                .long(ONLY)
                .value_name("WHAT")
                .value_parser(["check", "run", "test"])
                .help("Do only this [default: run, and test if there are tests]"),
        )
        .arg(words::script("The script, and what it finds in `args`"))
}

/// What is done at each change.
#[derive(Debug)]
pub(crate) struct Wanted {
    only: Option<String>,
    /// The file and the script's arguments.
    words: Vec<OsString>,
    /// The options of Clk on the command line, which each run gets.
    options: Vec<OsString>,
}

/// Returns what a command line asks for. Options are taken from it as they were written.
pub(crate) fn wanted(matches: &ArgMatches) -> Wanted {
    let words: Vec<OsString> = matches.get_many::<OsString>("script").unwrap_or_default().cloned().collect();
    let only = matches.get_one::<String>(ONLY).cloned();
    let mut options: Vec<OsString> = std::env::args_os().skip(1).collect();
    options.truncate(options.len().saturating_sub(words.len()));
    if let Some(at) = options.iter().position(|word| word == "watch") {
        options.remove(at);
    }
    let is_only = |word: &OsString| word.to_str().is_some_and(|word| word == "--only" || word.starts_with("--only="));
    if let Some(at) = options.iter().position(is_only) {
        let last = if options[at] == "--only" { at + 1 } else { at };
        options.drain(at..=last);
    }
    Wanted { only, words, options }
}

/// A file's time and size; `None` if it is not there.
type Stamp = Option<(SystemTime, u64)>;

fn stamp(path: &Path) -> Stamp {
    let data = std::fs::metadata(path).ok()?;
    Some((data.modified().ok()?, data.len()))
}

/// The disk, with a list of what was read.
#[derive(Default)]
struct Recorded(RefCell<BTreeMap<PathBuf, Stamp>>);

impl Recorded {
    fn note(&self, path: &Path) {
        self.0.borrow_mut().entry(path.to_path_buf()).or_insert_with(|| stamp(path));
    }
}

impl Files for Recorded {
    fn read(&self, path: &Path) -> Result<String, String> {
        self.note(path);
        Disk.read(path)
    }

    fn module(&self, words: &[&str], folder: &Path) -> Option<Result<PathBuf, Missing>> {
        if let Some(root) = project::folder_of(folder) {
            self.note(&root.join(MANIFEST));
            self.note(&root.join(LOCK));
        }
        let found = Disk.module(words, folder);
        if let Some(Ok(path)) = &found {
            self.note(path);
        }
        found
    }
}

/// Returns the files that a program consists of, and whether it has tests.
fn files_of(file: &Path) -> (BTreeMap<PathBuf, Stamp>, bool) {
    let recorded = Recorded::default();
    recorded.note(file);
    let folder = file.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut session = Session { folder, ..Session::default() };
    if let Ok(text) = disk::read_source(file) {
        session.add(&file.display().to_string(), &text, &recorded);
    }
    let has_tests = session.program.tests.iter().any(|(_, test)| Some(test.module) == session.main);
    (recorded.0.into_inner(), has_tests)
}

pub(crate) fn file(wanted: &Wanted, context: &mut Context) -> u8 {
    let Some(file) = wanted.words.first().map(PathBuf::from) else { return exit::USAGE };
    if let Err(why) = disk::read_source(&file) {
        context.console.report(&disk::unreadable(&file, &why), &Default::default());
        return exit::FAILURE;
    }
    loop {
        let (files, has_tests) = files_of(&file);
        let changed = || files.iter().any(|(path, known)| stamp(path) != *known);
        for action in actions(wanted, has_tests) {
            if perform(action, wanted, context, &changed).is_err() {
                return exit::FAILURE;
            }
            if changed() || context.interrupt.is_set() {
                break;
            }
        }
        if changed() && !context.interrupt.is_set() {
            continue;
        }
        let count = files.values().filter(|known| known.is_some()).count();
        let s = if count == 1 { "" } else { "s" };
        context.console.line(&format!("watching {count} file{s}; Ctrl-C ends"));
        context.console.flush();
        while !changed() {
            if context.interrupt.is_set() {
                return context.interrupt.exit_code().unwrap_or(exit::INTERRUPTED);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn actions(wanted: &Wanted, has_tests: bool) -> Vec<&str> {
    match wanted.only.as_deref() {
        Some(only) => vec![only],
        None if has_tests => vec!["run", "test"],
        None => vec!["run"],
    }
}

/// Runs one action to its end, the next change or Ctrl-C; `Err` if that is not possible at all.
fn perform(action: &str, wanted: &Wanted, context: &mut Context, changed: &dyn Fn() -> bool) -> Result<(), ()> {
    let words = if action == "run" { &wanted.words[..] } else { &wanted.words[..1] };
    context.console.line(&format!("clk {action} {}", wanted.words[0].to_string_lossy()));
    context.console.flush();
    let start = std::env::current_exe()
        .and_then(|clk| std::process::Command::new(clk).args(&wanted.options).arg(action).args(words).spawn());
    let mut child = start.map_err(|error| {
        let why = disk::reason(&error);
        context.console.error_line(&format!("error: `clk {action}` cannot be started: {why}"));
    })?;
    loop {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => return Ok(()),
            Ok(None) if changed() || context.interrupt.is_set() => {
                end(&mut child);
                return Ok(());
            }
            Ok(None) => std::thread::sleep(PAUSE / 10),
        }
    }
}

/// Ends a run that is out of date, as Ctrl-C does: it may have files to remove.
fn end(child: &mut Child) {
    #[cfg(unix)]
    // SAFETY: sends a signal to a child that has not been waited for.
    unsafe {
        libc::kill(child.id() as libc::pid_t, libc::SIGTERM);
    }
    #[cfg(not(unix))]
    let _ = child.kill();
    let _ = child.wait();
}
