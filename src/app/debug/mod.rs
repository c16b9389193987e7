//! `clk debug`: runs a script, and its kernels one statement at a time, forwards and backwards.
//!
//! In: a script, and commands. Out: what threads hold and where they are. Idea: the debugger is a device: a launch that it is to stop in is
//! handed to the stepper ([`crate::device::step`]), and the user moves along its [`Timeline`](crate::device::step::timeline::Timeline)
//! before the script goes on. [`session`] is what the terminal and the protocol of editors (`clk dap`) share.

mod commands;
pub(crate) mod device;
pub(crate) mod evaluate;
pub(crate) mod frame;
pub(crate) mod point;
mod prompt;
pub(crate) mod seek;
pub(crate) mod session;
pub(crate) mod show;
pub(crate) mod table;
mod terminal;
mod words;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use self::device::{Debugger, Desk, Front, lock};
use self::session::Settings;
use self::terminal::Terminal;
use super::console::{Console, Look};
use super::context::Context;
use super::script::{self, Compiled};
use super::world;
use super::{disk, exit};
use crate::device::sim::Simulator;
use crate::host::interp::{Shown, World};

/// What is said where checks are asked for.
pub(crate) const UNCHECKED: &str = "`--check` and `--trap-nan` do nothing in the debugger";

/// Debugs a script file.
pub(crate) fn main(path: &Path, args: Vec<String>, given: Vec<String>, context: &mut Context) -> u8 {
    let Some(compiled) = script::compile_file(path, &mut context.console) else {
        context.console.summary();
        return exit::FAILURE;
    };
    // Each run is stopped by Ctrl-C, and the debugger by none.
    context.interrupt.be_patient(3);
    in_terminal(&compiled, args, context, |terminal| terminal, given)
}

/// Runs a script, and opens the debugger at the first fault of a kernel, if somebody is there to use it; else says how to get there.
pub(crate) fn on_fault(path: &Path, compiled: &Compiled, args: Vec<String>, context: &mut Context) -> u8 {
    let how = format!(
        "note: standard input is no terminal, so `--debug-on-fault` opens no debugger here; `clk debug -c run -c COMMAND {}` performs \
         commands at the fault",
        path.display()
    );
    context.interrupt.be_patient(3);
    in_terminal(compiled, args, context, |terminal| terminal.for_faults(how), vec![])
}

fn in_terminal(
    compiled: &Compiled,
    args: Vec<String>,
    context: &mut Context,
    as_wanted: impl FnOnce(Terminal) -> Terminal,
    given: Vec<String>,
) -> u8 {
    if context.limits.checks().any() {
        context.console.error_line(&format!("note: {UNCHECKED}; `break nan` stops where NaN is computed"));
    }
    let console = Arc::new(Mutex::new(std::mem::replace(&mut context.console, Console::new(Look::default()))));
    let terminal = as_wanted(Terminal::new(console.clone(), context.interrupt.clone(), given));
    let code = runs(compiled, &args, context, Box::new(terminal), &mut Shared(console.clone()), &mut |found| {
        let mut console = console.lock().unwrap_or_else(PoisonError::into_inner);
        console.report(found, &compiled.session.sources);
    });
    console.lock().unwrap_or_else(PoisonError::into_inner).flush();
    code
}

/// Runs a script under a debugger as often as the user wants; returns the exit code of the last run.
pub(crate) fn runs(
    compiled: &Compiled,
    args: &[String],
    context: &mut Context,
    front: Box<dyn Front>,
    world: &mut dyn World,
    report: &mut dyn FnMut(&crate::base::diag::Diagnostic),
) -> u8 {
    let settings = Settings::new(&compiled.session);
    let desk = Arc::new(Mutex::new(Desk { settings, front, launches: 0, has_quit: false }));
    let inner = context.limits.places.device.take().unwrap_or_else(|| Arc::new(Simulator::default()));
    context.limits.places.device = Some(Arc::new(Debugger::new(desk.clone(), inner)));
    let mut code = exit::OK;
    loop {
        {
            let mut desk = lock(&desk);
            let Desk { settings, front, launches, has_quit } = &mut *desk;
            if !front.between(settings) {
                return code;
            }
            (*launches, *has_quit) = (0, false);
        }
        context.interrupt.clear();
        let mut interpreter = context.limits.interpreter(&context.interrupt, args.to_vec());
        let ran = script::run_chunks(compiled, &mut interpreter, world);
        let ended = interpreter.ended;
        drop(interpreter);
        let desk = lock(&desk);
        if desk.has_quit && !desk.front.is_again() {
            return if desk.front.is_for_faults() { exit::FAILURE } else { code };
        }
        if desk.has_quit {
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

/// The terminal, as the script and the debugger share it.
struct Shared(Arc<Mutex<Console>>);

impl World for Shared {
    fn print(&mut self, text: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).print(text);
    }

    fn show(&mut self, shown: Shown) {
        let mut console = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        world::Terminal { console: &mut console }.show(shown);
    }

    fn read(&mut self, path: &str) -> Result<Vec<u8>, String> {
        disk::read(&disk::path_of(path))
    }

    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), String> {
        let mut console = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        world::Terminal { console: &mut console }.write(path, bytes)
    }
}
