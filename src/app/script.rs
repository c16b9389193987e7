//! Compiling and running a program file: the part shared by `run`, `test`, `bench`, `emit` and the REPL.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::console::Console;
use super::disk::{self, Disk};
use super::exit;
use super::interrupt::Interrupt;
use super::tunings::Beside;
use crate::base::diag::Diagnostic;
use crate::compile::{Outcome, Session};
use crate::device::sim::Simulator;
use crate::device::{Control, Device, Devices};
use crate::host;
use crate::host::interp::{Copies, Interpreter, Options, World};
use crate::host::value::Value;
use crate::ir::Checks;
use crate::lower::Sums;
use crate::prove::Witness;

/// Options for running programs, from the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub max_steps: u64,
    pub workers: usize,
    pub seed: Option<u64>,
    /// `--check` or `--no-check`; `None` leaves it to the command.
    pub check: Option<bool>,
    /// Whether to report what the size of a launch keeps the requested checks from finding.
    pub hints: bool,
    pub trap_nan: bool,
    pub deterministic: bool,
    /// How `mma` adds on the simulator.
    pub sums: Sums,
    /// Whether to count the copies of arrays that each statement causes.
    pub count_copies: bool,
    pub places: Places,
}

/// Devices for a program; the simulator by default.
#[derive(Clone, Default)]
pub(crate) struct Places {
    pub device: Option<Arc<dyn Device>>,
    /// The devices available to `on … { }`.
    pub all: Option<Arc<dyn Devices>>,
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Places").field("device", &self.device.is_some()).finish_non_exhaustive()
    }
}

impl Limits {
    /// Returns what launches look for.
    pub fn checks(&self) -> Checks {
        let on = self.check.unwrap_or(false);
        Checks { memory: on, arithmetic: on, nan: self.trap_nan }
    }

    /// Returns a new interpreter for a script with these arguments.
    pub fn interpreter(&self, interrupt: &Interrupt, args: Vec<String>) -> Interpreter {
        // Queried only once: counting the cores reads several files on Linux, which takes longer than a small launch.
        let workers = match self.workers {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        };
        let checks = self.checks();
        let (max_steps, deterministic) = (self.max_steps, self.deterministic);
        let stop = interrupt.flag();
        let control = Control { stop, max_steps, workers, checks, deterministic, ..Control::default() };
        let device = self.places.device.clone().unwrap_or_else(|| Arc::new(Simulator::default()));
        let mut interpreter = Interpreter::new(Options { args, control, seed: self.seed, device });
        interpreter.devices = self.places.all.clone();
        interpreter.hints = self.hints;
        interpreter.evidence = Some(Arc::new(Witness));
        interpreter.sums = self.sums;
        interpreter.copies = self.count_copies.then(Copies::default);
        interpreter.stack_end = super::stack::end();
        interpreter.tuning.store = Some(Arc::new(Beside));
        interpreter
    }
}

/// A compiled program and the chunks to run.
pub(crate) struct Compiled {
    pub session: Session,
    pub chunks: Range<usize>,
}

/// Reads and compiles a file; reports errors and returns `None` if there are any.
pub(crate) fn compile_file(path: &Path, console: &mut Console) -> Option<Compiled> {
    match disk::read_source(path) {
        Ok(text) => compile_text(&path.display().to_string(), &text, folder_of(path), console),
        Err(why) => {
            let session = Session::default();
            console.report(&disk::unreadable(path, &why), &session.sources);
            None
        }
    }
}

/// Compiles a text as the main script; reports errors and returns `None` if there are any.
pub(crate) fn compile_text(name: &str, text: &str, folder: &Path, console: &mut Console) -> Option<Compiled> {
    let mut session = Session { folder: folder.to_path_buf(), ..Session::default() };
    let mut outcome = session.add(name, text, &Disk);
    if !outcome.failed() {
        outcome.diagnostics.extend(session.examine());
    }
    console.report_all(&outcome.diagnostics, &session.sources);
    let Outcome { chunks, .. } = &outcome;
    (!outcome.failed()).then(|| Compiled { chunks: chunks.clone(), session })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Runs chunks in order until the first failure.
pub(crate) fn run_chunks(
    compiled: &Compiled,
    interpreter: &mut Interpreter,
    world: &mut dyn World,
) -> Result<(), Box<Diagnostic>> {
    for chunk in compiled.chunks.clone() {
        interpreter.run_chunk(&compiled.session, chunk, world)?;
    }
    Ok(())
}

/// Formats a value as a session shows it.
pub(crate) fn shown(value: &Value) -> Result<String, Box<Diagnostic>> {
    host::format::print(value).map_err(|problem| Box::new(problem.anywhere()))
}

/// Returns the exit code of a run that ended with a diagnostic.
pub(crate) fn failure_code(interrupt: &Interrupt) -> u8 {
    interrupt.exit_code().unwrap_or(exit::FAILURE)
}
