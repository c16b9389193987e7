//! `clk debug`: runs a script, and its kernels one statement at a time, forwards and backwards.
//!
//! Input: a script and commands. Output: values of variables and locations of threads. The debugger is a device: the
//! stepper ([`clk_step`]) runs launches that can stop, and the user moves along their
//! [`Timeline`](clk_step::timeline::Timeline). The terminal and the editor protocol (`clk dap`) share
//! [`session`].

pub(crate) mod breakpoint;
mod command_table;
pub(crate) mod commands;
pub(crate) mod device;
pub(crate) mod evaluate;
pub(crate) mod frame;
mod prompt;
pub(crate) mod session;
pub(crate) mod show;
pub(crate) mod stmt_table;
pub(crate) mod stop_search;
mod terminal;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use self::device::{Debugger, DebuggerFrontEnd, DebuggerState, lock};
use self::session::DebugSettings;
use self::terminal::DebugTerminal;
use super::command_error::CommandResult;
use super::console::{Console, OutputOptions};
use super::context::AppContext;
use super::cuda_launches::{CudaLaunchOptions, CudaLaunchPlan};
use super::effects;
use super::script::{self, CompiledScript};
use super::{disk, exit};
use clk_base::arena::Id;
use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_check::typed::TestSection;
use clk_host::files::ByteSource;
use clk_host::interp::{HostEffects, Interpreter};
use clk_host::picture::shown::ShownPicture;
use clk_sim::Simulator;

/// The note shown if the user requests checks, which the debugger does not support.
pub(crate) const UNCHECKED: &str = "`--check` and `--trap-nan` do nothing in the debugger";

/// The part of a script that the debugger runs.
pub(crate) enum DebugTarget {
    Statements,
    Tests(Vec<Id<TestSection>>),
    /// The launches of a CUDA file.
    Launches(CudaLaunchPlan),
}

/// A script to be debugged.
pub(crate) struct DebuggedScript<'a> {
    pub path: &'a Path,
    pub args: Vec<String>,
    /// Debug the tests whose titles contain this text.
    pub test: Option<&'a str>,
    /// The launches of a CUDA file.
    pub launches: CudaLaunchOptions,
}

impl DebugTarget {
    /// Returns the target for a program: the tests whose titles contain `test`, or its statements.
    pub fn of(compiled: &CompiledScript, path: &Path, test: Option<&str>) -> CommandResult<DebugTarget> {
        let (tests, others) = compiled.own_tests(test);
        match (test, tests.first()) {
            (Some(_), Some(_)) => Ok(DebugTarget::Tests(tests)),
            (Some(title), None) => {
                let others = match others {
                    0 => "the file has no tests".into(),
                    1 => "the file has one other test".into(),
                    n => format!("the file has {n} other tests"),
                };
                Err(format!("error: no test has a title that contains \"{title}\"; {others}").into())
            }
            (None, Some(_)) if !compiled.has_statements() => Err(format!(
                "error: {0} has tests but no other statements; `clk debug --test TITLE {0}` debugs a test",
                path.display()
            )
            .into()),
            (None, _) => Ok(DebugTarget::Statements),
        }
    }

    /// Returns the launches of a CUDA file.
    pub fn of_cuda(
        compiled: &mut CompiledScript,
        launches: &CudaLaunchOptions,
        context: &mut AppContext,
    ) -> CommandResult<DebugTarget> {
        let plan = CudaLaunchPlan::of(compiled, launches, &context.limits, &context.interrupt)?;
        Ok(DebugTarget::Launches(plan.announced(&compiled.session, &mut context.console)))
    }

    /// Runs the target. Tests that read script variables need the statements before them.
    fn run(
        &self,
        compiled: &CompiledScript,
        interpreter: &mut Interpreter,
        world: &mut dyn HostEffects,
    ) -> Result<(), Box<Diagnostic>> {
        let tests = match self {
            DebugTarget::Statements => return script::run_chunks(compiled, interpreter, world),
            DebugTarget::Launches(plan) => return plan.run(&compiled.session, interpreter, world),
            DebugTarget::Tests(tests) => tests,
        };
        if tests.iter().any(|&id| compiled.session.program.tests[id].uses_globals) {
            script::run_chunks(compiled, interpreter, world)?;
        }
        tests.iter().try_for_each(|&id| interpreter.run_test(&compiled.session, id, world))
    }
}

/// Debugs a script file, some of its tests, or the launches of a CUDA file.
pub(crate) fn main(script: DebuggedScript<'_>, given: Vec<String>, context: &mut AppContext) -> u8 {
    let DebuggedScript { path, args, test, launches } = script;
    let Some(mut compiled) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    let target = match compiled.is_cuda() {
        true => DebugTarget::of_cuda(&mut compiled, &launches, context),
        false => launches.for_clk_program().and_then(|()| DebugTarget::of(&compiled, path, test)),
    };
    let target = match target {
        Ok(target) => target,
        Err(why) => return context.show(Err(why)),
    };
    // Ctrl-C stops the current run but never the debugger.
    context.interrupt.be_patient(3);
    in_terminal(&compiled, &target, args, context, |terminal| terminal, given)
}

/// Runs the launches of a CUDA file, and opens the debugger at the first fault of a kernel.
pub(crate) fn cuda_faults(
    path: &Path,
    mut compiled: CompiledScript,
    launches: &CudaLaunchOptions,
    context: &mut AppContext,
) -> u8 {
    match DebugTarget::of_cuda(&mut compiled, launches, context) {
        Ok(target) => faults_of(path, &compiled, &target, vec![], context),
        Err(why) => context.show(Err(why)),
    }
}

/// Runs a script and opens the debugger at the first fault of a kernel. If standard input is not a terminal, prints how
/// to debug the fault instead.
pub(crate) fn on_fault(path: &Path, compiled: &CompiledScript, args: Vec<String>, context: &mut AppContext) -> u8 {
    faults_of(path, compiled, &DebugTarget::Statements, args, context)
}

fn faults_of(
    path: &Path,
    compiled: &CompiledScript,
    target: &DebugTarget,
    args: Vec<String>,
    context: &mut AppContext,
) -> u8 {
    let hint = format!(
        "note: standard input is no terminal, so `--debug-on-fault` opens no debugger here; `clk debug -c run -c COMMAND {}` performs \
         commands at the fault",
        path.display()
    );
    context.interrupt.be_patient(3);
    in_terminal(compiled, target, args, context, |terminal| terminal.for_faults(hint), vec![])
}

fn in_terminal(
    compiled: &CompiledScript,
    target: &DebugTarget,
    args: Vec<String>,
    context: &mut AppContext,
    as_wanted: impl FnOnce(DebugTerminal) -> DebugTerminal,
    given: Vec<String>,
) -> u8 {
    if context.limits.checks().any() {
        context.console.error_line(&format!("note: {UNCHECKED}; `break nan` stops where NaN is computed"));
    }
    let console = Arc::new(Mutex::new(std::mem::replace(&mut context.console, Console::new(OutputOptions::default()))));
    let terminal = as_wanted(DebugTerminal::new(console.clone(), context.interrupt.clone(), given));
    let code =
        runs(compiled, target, &args, context, Box::new(terminal), &mut SharedConsole(console.clone()), &mut |found| {
            let mut console = console.lock().unwrap_or_else(PoisonError::into_inner);
            console.report(found, &compiled.session.sources);
        });
    console.lock().unwrap_or_else(PoisonError::into_inner).flush();
    code
}

/// Runs a script under the debugger, once more for each restart; returns the exit code of the last run.
pub(crate) fn runs(
    compiled: &CompiledScript,
    target: &DebugTarget,
    args: &[String],
    context: &mut AppContext,
    front: Box<dyn DebuggerFrontEnd>,
    world: &mut dyn HostEffects,
    report: &mut dyn FnMut(&Diagnostic),
) -> u8 {
    let settings = DebugSettings::new(&compiled.session);
    let state = Arc::new(Mutex::new(DebuggerState { settings, front, launches: 0, has_quit: false }));
    let inner = context.limits.places.device.take().unwrap_or_else(|| Arc::new(Simulator::default()));
    context.limits.places.device = Some(Arc::new(Debugger::new(state.clone(), inner)));
    let mut code = exit::OK;
    loop {
        {
            let mut state = lock(&state);
            let DebuggerState { settings, front, launches, has_quit } = &mut *state;
            if !front.between(settings) {
                return code;
            }
            (*launches, *has_quit) = (0, false);
        }
        context.interrupt.clear();
        let mut interpreter = context.limits.interpreter(&context.interrupt, args.to_vec());
        let ran = target.run(compiled, &mut interpreter, world);
        let ended = interpreter.exit_code;
        drop(interpreter);
        let state = lock(&state);
        if state.has_quit && !state.front.restarts() {
            return if state.front.is_for_faults() { exit::FAILURE } else { code };
        }
        if state.has_quit {
            continue;
        }
        code = match ran {
            Ok(()) => ended.unwrap_or(exit::OK),
            Err(_) if ended.is_some() => ended.unwrap_or(exit::OK),
            Err(found) => {
                report(&found);
                exit::FAILURE
            }
        };
    }
}

/// The console, to which both the script and the debugger write.
struct SharedConsole(Arc<Mutex<Console>>);

impl HostEffects for SharedConsole {
    fn print(&mut self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).print(text);
    }

    fn show(&mut self, shown: ShownPicture) {
        let mut console = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        effects::TerminalEffects { console: &mut console }.show(shown);
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        disk::read(&disk::path_of(path))
    }

    fn open(&mut self, path: &str) -> Result<Arc<dyn ByteSource>, FileError> {
        disk::open_parts(&disk::path_of(path))
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        let mut console = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        effects::TerminalEffects { console: &mut console }.write(path, bytes)
    }
}
