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
pub mod generated;
mod graphics;
mod interrupt;
#[cfg(target_os = "linux")]
mod isolate;
mod launch;
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

/// How `clk` ends.
pub mod exit {
    pub const OK: u8 = 0;
    /// The program, a check or a test failed.
    pub const FAILURE: u8 = 1;
    /// The command line was not understood.
    pub const USAGE: u8 = 2;
    /// The device that was asked for is not there.
    pub const NO_DEVICE: u8 = 3;
    /// A fault of Clk's own.
    pub const INTERNAL: u8 = 70;
    pub const INTERRUPTED: u8 = 130;
}

/// Stack of the thread that does the work: deep expressions and calls are walked recursively. It is only address space until
/// it is used; where even that is limited, less has to do.
const STACKS: [usize; 3] = [512 << 20, 64 << 20, 8 << 20];

/// The whole of the binary.
pub fn main() -> ExitCode {
    memory::prepare();
    crash::install();
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    for stack in STACKS {
        let arguments = arguments.clone();
        let work = std::thread::Builder::new().name("clk".into()).stack_size(stack).spawn(move || cli::main(arguments));
        if let Ok(work) = work {
            // After a panic the hook has spoken.
            return ExitCode::from(work.join().unwrap_or(exit::INTERNAL));
        }
    }
    ExitCode::from(cli::main(arguments))
}
