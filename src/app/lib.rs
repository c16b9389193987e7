//! Clk, a small, standalone language for GPU kernels.
//!
//! Data flows in one direction, from text to result:
//!
//! ```text
//!  .clk text ─▶ syntax ─▶ check ─▶ lower ─▶ ir ─▶ pass ─┬▶ sim    lanes of a block in lockstep, on the processor
//!                  AST    typed tree   DeviceIR   Verified └▶ cuda   CUDA text ─▶ NVRTC ─▶ an NVIDIA GPU
//!                            └──────▶ host (runs the script, owns arrays, launches through `dyn Device`)
//! ```
//!
//! # Crates in reading order
//!
//! Each crate belongs to a layer, and depends only on crates of lower layers. Crates of the same layer are independent
//! of each other, unless the table says otherwise. An edit recompiles only its own crate and those that depend on it.
//! Imports between the files of one crate have no cycles either, as `tests/repository/tidy.rs` checks.
//!
//! | layer | crate | purpose |
//! | --- | --- | --- |
//! | 0 | [`clk_base`] | infrastructure independent of Clk: arenas, sources and spans, diagnostics and their rendering |
//! | 0 | [`clk_codes`] | one page for each diagnostic code |
//! | 1 | [`clk_scalar`] | the vocabulary of all stages: scalars and their exact arithmetic, operators, the tables of functions and builtins |
//! | 2 | [`clk_syntax`] | lexer and parser: from text to tokens to a syntax tree; parsing always succeeds with a tree |
//! | 2 | `clk_import` | the front end for CUDA C++ files: preprocessor, parser and translation to Clk text |
//! | 2 | [`clk_ir`] | DeviceIR: definition, builder, text form, verifier |
//! | 3 | [`clk_check`] | name resolution and type checking, with dimensions and the host/device distinction: the typed tree |
//! | 3 | [`clk_pass`] | optimization passes on DeviceIR, verified before and after |
//! | 3 | [`clk_runtime`] | the interface of devices: the `Device` trait, arguments, storage, faults and their messages |
//! | 3 | [`clk_fmt`] | the formatter, which determines the whitespace between tokens |
//! | 4 | [`clk_sim`] | the simulator |
//! | 4 | [`clk_cuda`] | NVIDIA GPUs, by way of CUDA text |
//! | 4 | [`clk_step`] | the stepper: the reference interpreter, which runs one thread at a time, forward and backward |
//! | 4 | [`clk_lower`] | from a typed kernel with its compile-time arguments to DeviceIR |
//! | 4 | [`clk_derive`] | derivatives of kernels: from DeviceIR to DeviceIR |
//! | 5 | [`clk_differential`] | execution on two devices, with a comparison of the results |
//! | 5 | [`clk_compile`] | from sources to a checked program, without I/O |
//! | 6 | [`clk_host`] | values, arrays and the interpreter of scripts |
//! | 6 | [`clk_prove`] | proofs that a kernel is correct for every size, and counterexamples that a run confirms |
//! | 6 | [`clk_profile`] | the cost of launches on a GPU: lines, bounds on time, advice |
//! | 6 | [`clk_ide`] | queries of editors: hover, completion, names, hints; offsets and strings only |
//! | 7 | [`clk_lang`](crate) | the only crate with I/O: command line, session, servers, files |
//!
//! # Invariants
//!
//! - Invalid programs cause diagnostics, never panics. A panic is a bug in Clk and is reported as one.
//! - Every node of every tree has a span, so every error can be located.
//! - Only a verified module ([`clk_ir::verify::Verified`]) reaches a device.
//! - [`clk_scalar`] defines all arithmetic. Constant folding, the host, the simulator and the CUDA code produce the
//!   same bits.
//! - Builtins, operators and codes are each defined in one table, which the checker, help, documentation and tests
//!   share.

// Module docs may link to private items: `cargo doc --document-private-items` shows them.
#![allow(rustdoc::private_intra_doc_links)]

mod cache;
mod cli;
mod command_error;
mod console;
mod context;
mod crash;
mod cuda_fences;
mod cuda_files;
mod cuda_launches;
mod cuda_program;
mod cuda_proofs;
mod dap;
mod debug;
mod derived_lengths;
mod devices;
mod difference;
mod disk;
mod effects;
pub mod embed;
mod emit_stage;
pub mod exit;
mod faulty_kernels;
mod figure_text;
mod fixes;
pub(crate) mod framing;
mod generated;
mod gradient;
mod graphics;
mod interrupt;
mod json_rpc;
mod launch;
mod listing;
mod lsp;
mod manual;
mod markdown;
mod mcp;
mod memory;
mod output;
mod own_program;
mod perf_map;
mod permissions;
mod picture;
mod profile;
mod progress;
mod project;
mod proof;
mod ranks;
mod repl;
mod script;
mod site;
mod stack;
mod suggestions;
mod temp_files;
mod tty;
mod tuning_files;
mod uri;
mod user_dirs;
mod why;
#[cfg(target_os = "linux")]
mod worker_processes;

use std::ffi::OsString;
use std::process::ExitCode;

pub use devices::nvidia::libraries;
pub use memory::RecordingAllocator;

use clk_base::alloc;
use clk_host::unwind::UnwindReason;

/// The entry point of the `clk` binary.
pub fn main() -> ExitCode {
    leave(run_process(std::env::args_os().collect()))
}

/// Prepares this process, which does nothing else, and runs the command line; returns the exit code.
fn run_process(arguments: Vec<OsString>) -> u8 {
    ranks::prepare();
    memory::prepare();
    crash::install_hook();
    memory::install_abort_handler();
    memory::ignore_file_size_signal();
    alloc::set_available_query(memory::available);
    run(arguments)
}

/// Ends the process without running exit handlers. Other threads may still be opening a GPU driver or compiling a
/// kernel, and exit handlers would unload the libraries that they use.
#[cfg(unix)]
fn leave(code: u8) -> ExitCode {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    let _ = std::io::stderr().flush();
    exit::exit_immediately(code)
}

#[cfg(not(unix))]
fn leave(code: u8) -> ExitCode {
    ExitCode::from(code)
}

/// Reports why a command stopped by unwinding; returns the exit code.
fn unwound(payload: Box<dyn std::any::Any + Send>) -> u8 {
    match UnwindReason::from_payload(payload) {
        Ok(why) => {
            let mut console = console::Console::new(console::OutputOptions::default());
            console.report(&why.anywhere(), &Default::default());
            exit::FAILURE
        }
        // The panic hook has already reported the panic.
        Err(_) => exit::INTERNAL,
    }
}

/// Runs the command line on a thread with a large stack; returns the exit code.
fn run(arguments: Vec<OsString>) -> u8 {
    for stack in stack::STACKS {
        let arguments = arguments.clone();
        let work = std::thread::Builder::new().name("clk".into()).stack_size(stack).spawn(move || {
            let top = 0u8;
            stack::set_stack_end(std::ptr::from_ref(&top).addr().saturating_sub(stack - stack / 8));
            cli::main(arguments)
        });
        if let Ok(work) = work {
            return work.join().unwrap_or_else(unwound);
        }
    }
    cli::main(arguments)
}
