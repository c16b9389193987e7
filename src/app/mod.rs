//! Layer 7: the command line, REPL, servers and terminal; the only module that does I/O.

mod cache;
mod cli;
mod console;
mod crash;
mod devices;
mod difference;
mod disk;
mod fixes;
mod folders;
pub(crate) mod generated;
mod graphics;
mod interrupt;
#[cfg(target_os = "linux")]
mod isolate;
mod launch;
mod leftovers;
pub mod libraries;
mod listing;
mod lsp;
mod markdown;
mod memory;
mod names;
mod picture;
mod private;
mod progress;
mod repl;
mod script;
mod world;

use std::process::ExitCode;

pub use memory::Memory;

use crate::base::room;
use crate::host::unwind::Unwound;

/// Exit codes of `clk`.
pub(crate) mod exit {
    pub(crate) const OK: u8 = 0;
    /// The program, a check or a test failed.
    pub(crate) const FAILURE: u8 = 1;
    /// The command line is invalid.
    pub(crate) const USAGE: u8 = 2;
    /// The requested device is not available.
    pub(crate) const NO_DEVICE: u8 = 3;
    /// An internal error of Clk.
    pub(crate) const INTERNAL: u8 = 70;
    /// Ctrl-C.
    pub(crate) const INTERRUPTED: u8 = 130;
    /// Added to the number of the signal that ended the process.
    pub(crate) const SIGNAL: u8 = 128;
}

/// Stack sizes in bytes to try for the working thread: deep expressions and calls are walked recursively. Stack is only address
/// space until it is used; if the system limits even that, a smaller one is taken.
const STACKS: [usize; 3] = [512 << 20, 64 << 20, 8 << 20];

thread_local! {
    /// Address near the end of this thread's stack that leaves a reserve for code other than script calls; 0 if unknown.
    static STACK_END: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns [`STACK_END`] of this thread.
pub(crate) fn stack_end() -> usize {
    STACK_END.get()
}

/// The entry point of the binary.
pub fn main() -> ExitCode {
    memory::prepare();
    crash::install();
    memory::at_abort();
    memory::survive_file_limits();
    room::ask(memory::available);
    leave(run())
}

/// Ends the process without exit handlers: threads may still be opening a GPU driver or compiling a kernel when a script is
/// done, and exit handlers would tear down the libraries they use.
#[cfg(unix)]
fn leave(code: u8) -> ExitCode {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    end(code)
}

/// Ends the process without exit handlers, which would tear down libraries that other threads are using.
#[cfg(unix)]
fn end(code: u8) -> ! {
    // SAFETY: only ends the process.
    unsafe { libc::_exit(code.into()) }
}

#[cfg(not(unix))]
fn end(code: u8) -> ! {
    std::process::exit(code.into())
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
fn run() -> u8 {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    for stack in STACKS {
        let arguments = arguments.clone();
        let work = std::thread::Builder::new().name("clk".into()).stack_size(stack).spawn(move || {
            let top = 0u8;
            STACK_END.set(std::ptr::from_ref(&top).addr().saturating_sub(stack - stack / 8));
            cli::main(arguments)
        });
        if let Ok(work) = work {
            return work.join().unwrap_or_else(unwound);
        }
    }
    cli::main(arguments)
}
