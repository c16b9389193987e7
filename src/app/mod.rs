//! Layer 7: the command line, REPL, servers and terminal; the only module that does I/O.

mod cache;
mod cli;
mod console;
mod context;
mod crash;
mod dap;
mod debug;
mod devices;
mod difference;
mod disk;
pub mod embed;
pub mod exit;
mod fixes;
mod folders;
pub(crate) mod framing;
mod generated;
mod gradient;
mod graphics;
mod interrupt;
#[cfg(target_os = "linux")]
mod isolate;
mod launch;
mod leftovers;
pub mod libraries;
mod listing;
mod lsp;
mod manual;
mod markdown;
mod memory;
mod names;
mod perf;
mod picture;
mod private;
mod profile;
mod progress;
mod project;
mod proof;
mod ranks;
mod repl;
mod script;
mod site;
mod stack;
mod tty;
mod tunings;
mod why;
mod world;

use std::ffi::OsString;
use std::process::ExitCode;

pub use memory::Memory;

use crate::base::room;
use crate::host::unwind::Unwound;

/// The entry point of the binary.
pub fn main() -> ExitCode {
    leave(run_process(std::env::args_os().collect()))
}

/// Runs the command line in a process that does nothing else; returns the exit code.
fn run_process(arguments: Vec<OsString>) -> u8 {
    ranks::prepare();
    memory::prepare();
    crash::install();
    memory::at_abort();
    memory::survive_file_limits();
    room::ask(memory::available);
    run(arguments)
}

/// Ends the process without exit handlers: threads may still be opening a GPU driver or compiling a kernel when a script is
/// done, and exit handlers would tear down the libraries they use.
#[cfg(unix)]
fn leave(code: u8) -> ExitCode {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    exit::end(code)
}

#[cfg(not(unix))]
fn leave(code: u8) -> ExitCode {
    ExitCode::from(code)
}

/// Returns the exit code of a command that has unwound, after reporting the reason.
fn unwound(payload: Box<dyn std::any::Any + Send>) -> u8 {
    match Unwound::of(payload) {
        Ok(why) => {
            let mut console = console::Console::new(console::Look::default());
            console.report(&why.anywhere(), &Default::default());
            exit::FAILURE
        }
        // A panic has already been reported by the hook.
        Err(_) => exit::INTERNAL,
    }
}

/// Runs the command line on a thread with a large stack; returns the exit code.
fn run(arguments: Vec<OsString>) -> u8 {
    for stack in stack::STACKS {
        let arguments = arguments.clone();
        let work = std::thread::Builder::new().name("clk".into()).stack_size(stack).spawn(move || {
            let top = 0u8;
            stack::set_end(std::ptr::from_ref(&top).addr().saturating_sub(stack - stack / 8));
            cli::main(arguments)
        });
        if let Ok(work) = work {
            return work.join().unwrap_or_else(unwound);
        }
    }
    cli::main(arguments)
}
