//! Layer 7: the only room that does I/O: command line, REPL, files, the terminal.

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

/// How `clk` ends.
pub(crate) mod exit {
    pub(crate) const OK: u8 = 0;
    /// The program, a check or a test failed.
    pub(crate) const FAILURE: u8 = 1;
    /// The command line was not understood.
    pub(crate) const USAGE: u8 = 2;
    /// The device that was asked for is not there.
    pub(crate) const NO_DEVICE: u8 = 3;
    /// A fault of Clk's own.
    pub(crate) const INTERNAL: u8 = 70;
    /// Ctrl-C
    pub(crate) const INTERRUPTED: u8 = 130;
    /// To which the number of the signal is added by which the system asked for the end.
    pub(crate) const SIGNAL: u8 = 128;
}

/// Stack of the thread that does the work: deep expressions and calls are walked recursively. It is only address space until
/// it is used; where even that is limited, less has to do.
const STACKS: [usize; 3] = [512 << 20, 64 << 20, 8 << 20];

thread_local! {
    /// Where the stack of this thread ends, with room for what is no call of a script; 0 if that is not known.
    static STACK_END: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// See [`STACK_END`].
pub(crate) fn stack_end() -> usize {
    STACK_END.get()
}

/// The whole of the binary.
pub fn main() -> ExitCode {
    memory::prepare();
    crash::install();
    memory::at_abort();
    memory::survive_file_limits();
    room::ask(memory::available);
    leave(run())
}

/// Ends the process without the exit handlers of libraries: a script may be done while threads still open the driver of a GPU
/// or compile a kernel, and what they work with would be taken apart under them.
#[cfg(unix)]
fn leave(code: u8) -> ExitCode {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    end(code)
}

/// Ends the process as it is: other threads may be at work, and what they work with is not taken apart under them.
#[cfg(unix)]
fn end(code: u8) -> ! {
    // SAFETY: it only ends the process.
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

/// The exit code of a command that has unwound.
fn unwound(payload: Box<dyn std::any::Any + Send>) -> u8 {
    match Unwound::of(payload) {
        Ok(why) => {
            let mut console = console::Console::new(console::Look::default());
            console.report(&why.anywhere(), &Default::default());
            exit::FAILURE
        }
        // After a panic the hook has spoken.
        Err(_) => exit::INTERNAL,
    }
}

/// Does the work on a thread with a large stack; gives the exit code.
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
