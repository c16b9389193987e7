//! `clk watch`: runs a program and its tests again whenever the program, an imported file or its `clk.toml` changes.
//! Each run is a separate process, which is ended at the next change, so an endless loop in the program does not block
//! the watch.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, SystemTime};

use clap::{Arg, ArgMatches, Command};

use super::common_args;
use crate::context::AppContext;
use crate::disk::{self, Disk};
use crate::exit;
use crate::project::{self, LOCK, MANIFEST};
use clk_base::file_error::FileError;
use clk_base::source::SourceMap;
use clk_compile::{Files, LoadedFile, MissingModule, Session};

/// Interval at which the files are checked for changes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
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
        .arg(common_args::script("The script, and its arguments (`args`)"))
}

/// Options of `clk watch`.
#[derive(Debug)]
pub(crate) struct WatchOptions {
    only: Option<String>,
    /// The words of the command line from the file name on: the script and its arguments.
    words: Vec<OsString>,
    /// The options of Clk on the command line, which are passed to each run.
    options: Vec<OsString>,
}

/// Reads the options of `clk watch`. Options for the runs are kept exactly as the user wrote them.
pub(crate) fn options_of(matches: &ArgMatches) -> WatchOptions {
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
    WatchOptions { only, words, options }
}

/// A file's modification time and size; `None` if it does not exist.
type FileStamp = Option<(SystemTime, u64)>;

fn file_stamp(path: &Path) -> FileStamp {
    let data = std::fs::metadata(path).ok()?;
    Some((data.modified().ok()?, data.len()))
}

/// Reads files from disk and records which ones.
#[derive(Default)]
struct RecordingDisk(RefCell<BTreeMap<PathBuf, FileStamp>>);

impl RecordingDisk {
    fn note(&self, path: &Path) {
        self.0.borrow_mut().entry(path.to_path_buf()).or_insert_with(|| file_stamp(path));
    }
}

impl Files for RecordingDisk {
    fn read(&self, path: &Path) -> Result<String, FileError> {
        self.note(path);
        Disk.read(path)
    }

    fn load(&self, path: &Path, sources: &mut SourceMap) -> Result<LoadedFile, FileError> {
        self.note(path);
        Disk.load(path, sources)
    }

    fn module(&self, words: &[&str], folder: &Path) -> Option<Result<PathBuf, MissingModule>> {
        if let Some(root) = project::folder_of(folder) {
            self.note(&root.join(MANIFEST));
            self.note(&root.join(LOCK));
        }
        let result = Disk.module(words, folder);
        if let Some(Ok(path)) = &result {
            self.note(path);
        }
        result
    }
}

/// Returns all files that a program reads its sources from, and whether it has tests.
fn files_of(file: &Path) -> (BTreeMap<PathBuf, FileStamp>, bool) {
    let recorded = RecordingDisk::default();
    recorded.note(file);
    let folder = file.parent().unwrap_or(Path::new("")).to_path_buf();
    let mut session = Session { folder, ..Session::default() };
    if let Ok(text) = disk::read_source(file) {
        session.add(&file.display().to_string(), &text, &recorded);
    }
    let has_tests = session.program.tests.iter().any(|(_, test)| Some(test.module) == session.main);
    (recorded.0.into_inner(), has_tests)
}

pub(crate) fn file(wanted: &WatchOptions, context: &mut AppContext) -> u8 {
    let Some(file) = wanted.words.first().map(PathBuf::from) else { return exit::USAGE };
    if let Err(why) = disk::read_source(&file) {
        context.console.report(&disk::unreadable(&file, &why), &Default::default());
        return exit::FAILURE;
    }
    loop {
        let (files, has_tests) = files_of(&file);
        let changed = || files.iter().any(|(path, known)| file_stamp(path) != *known);
        for action in actions(wanted, has_tests) {
            if run_action(action, wanted, context, &changed).is_err() {
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
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

fn actions(wanted: &WatchOptions, has_tests: bool) -> Vec<&str> {
    match wanted.only.as_deref() {
        Some(only) => vec![only],
        None if has_tests => vec!["run", "test"],
        None => vec!["run"],
    }
}

/// Runs one command until it ends, a file changes or Ctrl-C is pressed; `Err` if the command cannot be started.
fn run_action(
    action: &str,
    wanted: &WatchOptions,
    context: &mut AppContext,
    changed: &dyn Fn() -> bool,
) -> Result<(), ()> {
    let words = if action == "run" { &wanted.words[..] } else { &wanted.words[..1] };
    context.console.line(&format!("clk {action} {}", wanted.words[0].to_string_lossy()));
    context.console.flush();
    let start = std::env::current_exe()
        .and_then(|clk| std::process::Command::new(clk).args(&wanted.options).arg(action).args(words).spawn());
    let mut child = start.map_err(|error| {
        let why = FileError::from(error);
        context.console.error_line(&format!("error: `clk {action}` cannot be started: {why}"));
    })?;
    loop {
        match child.try_wait() {
            Ok(Some(_)) | Err(_) => return Ok(()),
            Ok(None) if changed() || context.interrupt.is_set() => {
                end(&mut child);
                return Ok(());
            }
            Ok(None) => std::thread::sleep(POLL_INTERVAL / 10),
        }
    }
}

/// Ends a run after a file has changed. Sends the signal of Ctrl-C, so that the run can remove its temporary files.
fn end(child: &mut Child) {
    #[cfg(unix)]
    // SAFETY: the call sends a signal to a child process that has not been waited for, so its process number is still
    // its own.
    unsafe {
        libc::kill(child.id() as libc::pid_t, libc::SIGTERM);
    }
    #[cfg(not(unix))]
    let _ = child.kill();
    let _ = child.wait();
}
