//! Clk inside of another process, such as Python's: programs whose kernels and functions are called with the process's own arrays,
//! and sessions for notebooks.
//!
//! Input: sources, and arguments as plain data. Output: values, or [`Report`]s of what was wrong. A [`Program`] compiles each
//! combination of argument types once, as `clk launch` does, and runs it on an interpreter per device; a [`Notebook`] is a session
//! on a thread of its own, whose output is a stream of [`Event`]s.

mod argument;
pub(super) mod describe;
pub(super) mod html;
mod inspect;
mod lending;
mod program;
pub(super) mod report;
mod stubs;

use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub use argument::{Argument, numpy_name};
pub use describe::{Callable, Kind, Parameter};
pub use inspect::{CallProfile, OriginQuery, Proof};
pub use lending::{Far, Lending, is_recorded, meeting, owner};
pub use program::{Call, Check, How, Program, Returned};
pub use report::{Place, Report};
pub use stubs::text as stubs;

pub use super::repl::notebook::{Candidate, Event, Notebook};

use crate::app::{memory, ranks};
use crate::base::room;
use crate::host::unwind;

/// Prepares this process; called once.
pub fn prepare() {
    room::ask(memory::available);
}

/// Ends the part of this process among the ranks that programs exchange values with, if it has one: at the end of the process. Rank 0 waits
/// for the others until `stop` is set.
pub fn leave(stop: &Arc<AtomicBool>) {
    let _ = unwind::caught(stop.clone(), ranks::part);
}

/// Runs the command line; returns the exit code. `relaunch` is what starts this program again, for processes that run kernels.
pub fn command_line(arguments: Vec<OsString>, relaunch: Vec<OsString>) -> u8 {
    #[cfg(target_os = "linux")]
    super::isolate::relaunch_by(relaunch);
    #[cfg(not(target_os = "linux"))]
    drop(relaunch);
    super::run_process(arguments)
}

/// Returns why this is not the name of a device; `None` if it is one.
pub fn device_error(name: &str) -> Option<String> {
    name.parse::<super::devices::Choice>().err()
}

/// Returns the names of the devices, each with a description or the reason why it cannot be used.
pub fn devices() -> Vec<(String, String)> {
    super::devices::list()
}
