//! Compiles and runs program files. Shared by `run`, `test`, `bench`, `emit` and sessions.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::console::Console;
use super::cuda_files::{self, CudaProgram};
use super::cuda_program;
use super::disk::{self, Disk, DiskWithCuda};
use super::exit;
use super::interrupt::Interrupt;
use super::tuning_files::TuningFiles;
use clk_base::arena::Id;
use clk_base::diag::Diagnostic;
use clk_check::typed::TestSection;
use clk_compile::{CompileResult, Session};
use clk_host::interp::{CopyStatistics, HostEffects, Interpreter, ScriptOptions};
use clk_host::value::HostValue;
use clk_ir::Checks;
use clk_lower::MmaPrecision;
use clk_prove::RaceEvidence;
use clk_runtime::{Control, Device, Devices};
use clk_sim::Simulator;

/// Options of the command line for running programs.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunLimits {
    pub max_steps: u64,
    pub workers: usize,
    pub seed: Option<u64>,
    /// Whether `--check` or `--no-check` was given; `None` if neither was, so that the command decides.
    pub check: Option<bool>,
    /// Whether to warn about errors that can occur only in launches larger than the ones that ran.
    pub hints: bool,
    pub trap_nan: bool,
    pub deterministic: bool,
    /// The precision with which `mma` accumulates on the simulator.
    pub sums: MmaPrecision,
    /// Whether to count, for each statement, the copies of arrays between host and device that it causes.
    pub count_copies: bool,
    pub places: ScriptDevices,
}

/// The devices that a program may use. Without a device, the simulator is used.
#[derive(Clone, Default)]
pub(crate) struct ScriptDevices {
    pub device: Option<Arc<dyn Device>>,
    /// The devices that `on … { }` can select.
    pub all: Option<Arc<dyn Devices>>,
}

impl fmt::Debug for ScriptDevices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptDevices").field("device", &self.device.is_some()).finish_non_exhaustive()
    }
}

impl RunLimits {
    /// Returns the checks that launches perform.
    pub fn checks(&self) -> Checks {
        let on = self.check.unwrap_or(false);
        Checks { memory: on, arithmetic: on, nan: self.trap_nan }
    }

    /// Returns a new interpreter; `args` are the arguments of the script.
    pub fn interpreter(&self, interrupt: &Interrupt, args: Vec<String>) -> Interpreter {
        // The number of cores is determined only once: on Linux this reads several files, which takes longer than a
        // small launch.
        let workers = match self.workers {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        };
        let checks = self.checks();
        let (max_steps, deterministic) = (self.max_steps, self.deterministic);
        let stop = interrupt.flag();
        let control = Control { stop, max_steps, workers, checks, deterministic, ..Control::default() };
        let device = self.places.device.clone().unwrap_or_else(|| Arc::new(Simulator::default()));
        let mut interpreter = Interpreter::new(ScriptOptions { args, control, seed: self.seed, device });
        interpreter.device_pool.available = self.places.all.clone();
        interpreter.observers.coverage_hints = self.hints;
        interpreter.observers.race_evidence = Some(Arc::new(RaceEvidence));
        interpreter.mma_precision = self.sums;
        interpreter.copy_statistics = self.count_copies.then(CopyStatistics::default);
        interpreter.stack.end = super::stack::stack_end();
        interpreter.tuning.store = Some(Arc::new(TuningFiles));
        interpreter
    }
}

/// A compiled program, and the range of chunks that its script consists of.
pub(crate) struct CompiledScript {
    pub session: Session,
    pub chunks: Range<usize>,
    /// The kernels and launches of a CUDA file.
    pub cuda: CudaProgram,
}

impl CompiledScript {
    /// Returns the tests of the main script whose titles contain the filter, and the number of its other tests. Tests
    /// of imported files are not included.
    pub fn own_tests(&self, filter: Option<&str>) -> (Vec<Id<TestSection>>, usize) {
        let tests = &self.session.program.tests;
        let own = tests.iter().filter(|(_, test)| Some(test.module) == self.session.main);
        let (chosen, left): (Vec<_>, Vec<_>) = own.partition(|(_, test)| filter.is_none_or(|f| test.title.contains(f)));
        (chosen.into_iter().map(|(id, _)| id).collect(), left.len())
    }

    /// Returns whether the script is the translation of a CUDA file.
    pub fn is_cuda(&self) -> bool {
        let main = self.session.main.and_then(|main| self.session.program.modules.get(main));
        main.is_some_and(|main| self.session.sources.is_generated(main.file))
    }

    /// Returns whether the script has statements at its top level.
    pub fn has_statements(&self) -> bool {
        let chunks = self.session.program.chunks.get(self.chunks.clone()).unwrap_or_default();
        chunks.iter().any(|chunk| !chunk.body.root.stmts.is_empty() || chunk.body.root.tail.is_some())
    }
}

/// Reads and compiles a file; reports errors and returns `None` if there are any. Errors about kernels of a CUDA file
/// without a translation are only in `console.tally`.
pub(crate) fn compile_file(path: &Path, console: &mut Console) -> Option<CompiledScript> {
    let mut session = Session { folder: folder_of(path).to_path_buf(), ..Session::default() };
    if cuda_files::is_cuda_file(path) {
        let loaded = cuda_program::load(path, &mut session.sources, console)?;
        let outcome = session.add_file(loaded.file, &Disk);
        let compiled = examined(session, outcome, console)?;
        return Some(CompiledScript { cuda: loaded.program, ..compiled });
    }
    match session.add_path(path, &DiskWithCuda(&console.cuda_options)) {
        Ok(outcome) => examined(session, outcome, console),
        Err(why) => {
            console.report(&disk::unreadable(path, &why), &session.sources);
            None
        }
    }
}

/// Compiles a text as the main script; reports errors and returns `None` if there are any.
pub(crate) fn compile_text(name: &str, text: &str, folder: &Path, console: &mut Console) -> Option<CompiledScript> {
    let mut session = Session { folder: folder.to_path_buf(), ..Session::default() };
    let outcome = session.add(name, text, &DiskWithCuda(&console.cuda_options));
    examined(session, outcome, console)
}

/// Examines the kernels of a compiled script; reports its diagnostics and returns `None` if there are errors.
fn examined(session: Session, mut outcome: CompileResult, console: &mut Console) -> Option<CompiledScript> {
    if !outcome.failed() {
        outcome.diagnostics.extend(session.examine());
    }
    console.report_all(&outcome.diagnostics, &session.sources);
    (!outcome.failed()).then(|| CompiledScript {
        chunks: outcome.chunks.clone(),
        session,
        cuda: CudaProgram::default(),
    })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Runs chunks in order until the first failure.
pub(crate) fn run_chunks(
    compiled: &CompiledScript,
    interpreter: &mut Interpreter,
    world: &mut dyn HostEffects,
) -> Result<(), Box<Diagnostic>> {
    for chunk in compiled.chunks.clone() {
        interpreter.run_chunk(&compiled.session, chunk, world)?;
    }
    Ok(())
}

/// Formats a value in the way a session shows it.
pub(crate) fn format_value(value: &HostValue) -> Result<String, Box<Diagnostic>> {
    clk_host::format::print(value).map_err(|problem| Box::new(problem.anywhere()))
}

/// Returns the exit code of a run that ended with a diagnostic.
pub(crate) fn failure_code(interrupt: &Interrupt) -> u8 {
    interrupt.exit_code().unwrap_or(exit::FAILURE)
}
