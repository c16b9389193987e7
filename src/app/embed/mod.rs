//! Embeds Clk in another process, such as Python. The process can call kernels and functions with its own arrays, and
//! start sessions for notebooks.
//!
//! Input: sources, and arguments as plain data. Output: values, or [`EmbedReport`]s of errors. An [`EmbedProgram`]
//! compiles a call once for each combination of argument types, as `clk launch` does. It runs calls on one interpreter
//! for each configuration. A [`Notebook`] is a session on its own thread; its output is a sequence of [`Event`]s.

mod argument;
pub(super) mod describe;
mod gpu_arrays;
pub(super) mod html;
mod inspect;
mod program;
pub(super) mod report;
mod stubs;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use argument::{EmbedValue, numpy_name};
pub use describe::{Callable, ParamDescription, ParamKind};
pub use gpu_arrays::{ExportedArray, Lending, gpu_of_address, is_capturing, lender_stream};
pub use inspect::{CallProfile, KernelProof, OriginQuery};
pub use program::{CallOptions, CallResult, CheckLevel, EmbedCall, EmbedProgram};
pub use report::{EmbedReport, ReportLocation};
pub use stubs::text as stubs;

pub use super::repl::notebook::{Candidate, Event, Notebook, NotebookError};

use crate::{memory, ranks};
use clk_base::alloc;
use clk_host::unwind;

/// Prepares this process for the other functions. Must be called once, before them.
pub fn prepare() {
    alloc::set_available_query(memory::available);
}

/// Leaves the communicator if this process is one of several ranks. Called at the end of the process. Rank 0 waits for
/// the other ranks, or until `stop` is set.
pub fn leave(stop: &Arc<AtomicBool>) {
    let _ = unwind::catch_stop(stop.clone(), ranks::leave_embedded);
}

/// Runs Clk's command line; returns the exit code. `relaunch` is the command that starts this program again, for worker
/// processes.
pub fn command_line(arguments: Vec<OsString>, relaunch: Vec<OsString>) -> u8 {
    super::own_program::set_relaunch_command(relaunch);
    super::run_process(arguments)
}

/// Returns the reason if a name is not the name of a device; `None` if it is.
pub fn device_error(name: &str) -> Option<String> {
    name.parse::<super::devices::DeviceChoice>().err().map(|error| error.title)
}

/// Returns the name of each device and a description, which for an unavailable device is the reason.
pub fn devices() -> Vec<(String, String)> {
    super::devices::list_devices()
}
