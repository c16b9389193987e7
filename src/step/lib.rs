//! The stepper: the reference interpreter of DeviceIR. It runs a launch one statement of one thread at a time, in a
//! fixed order.
//!
//! Input: a module, a launch, and an observer. Output: the state after a given number of steps, or the outcome of the
//! launch. States are cheap to copy, because copies share the pages of arrays. To go backwards, the stepper runs
//! forwards from an earlier copy ([`timeline`]). Tests compare all devices with the stepper.
//! `docs/internals/stepper.md` describes the order of execution, steps and faults.

#![allow(rustdoc::private_intra_doc_links)]

mod check;
mod eval;
mod event;
mod memory;
pub mod order;
pub mod origin;
mod query;
mod rendezvous;
mod state;
mod thread;
pub mod timeline;
mod value;

use clk_ir::Checks;
use clk_ir::def::Module;
use clk_runtime::Fault;
use clk_runtime::{Arg, LaunchExtents};

pub use event::{AccessEvent, AccessKind, StepPosition};
pub use memory::{ArrayRef, ArrayStorage, PagedBytes};
pub use query::{QueryError, ask};
pub use state::{BlockState, LaunchSnapshot, StepLaunch};
pub use thread::{CallFrame, NoObserver, ParamValue, StepObserver, Thread, ThreadIds, ThreadPhase, Wait};
pub use value::ThreadValue;

/// Maximum number of statements that a thread may execute in [`launch`] before it is stopped with a fault.
const MOST_STEPS: u64 = 100_000;

/// The outcome of a launch.
pub struct LaunchOutcome {
    pub output: String,
    /// The faults of all threads that faulted. A thread stops at its first fault.
    pub faults: Vec<Fault>,
}

/// Runs a kernel like [`clk_runtime::Executable::launch`]. Writes the arrays even if threads fault.
///
/// # Panics
/// Panics if an argument does not fit its parameter or is not in host memory.
pub fn launch(module: &Module, extents: LaunchExtents, args: &mut [Arg<'_>]) -> LaunchOutcome {
    launch_checked(module, extents, args, Checks::default())
}

/// Like [`launch`], but with checks.
///
/// # Panics
/// Like [`launch`].
pub fn launch_checked(module: &Module, extents: LaunchExtents, args: &mut [Arg<'_>], checks: Checks) -> LaunchOutcome {
    let launch = StepLaunch::new(module, extents, args, MOST_STEPS).checked(checks);
    let mut state = launch.start(args).expect("arrays of the host");
    let mut output = String::new();
    while state.step(&launch, &mut output, &mut NoObserver) {}
    state.write_back(args).expect("arrays of the host");
    LaunchOutcome { output, faults: state.faults }
}
