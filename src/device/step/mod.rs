//! The stepper: runs a launch one statement of one thread at a time, in an order that is always the same.
//!
//! In: a module, a launch, and an observer. Out: its state after so many steps, in both directions, or its outcome. Idea: a state
//! is a value that can be copied, its arrays lie in pages that copies share, and going backwards is going forwards from an earlier
//! copy ([`timeline`]). The semantics of DeviceIR in the simplest form: tests compare all devices with it.
//!
//! Blocks run in order, x fastest. In a block, the threads run in order, each until it ends, faults, or waits at a barrier or a warp
//! operation; then the operations at which all have arrived are performed, and the threads run on, in order again. A step is one
//! statement of one thread; operations that threads meet at belong to the step of the last one that arrives. The blocks of a
//! cooperative launch run one after the other from one grid barrier to the next.
//!
//! Unwritten memory reads as zero, and is known to be unwritten. After a fault the other threads run on, as a device may report any of
//! several faults; whoever wants to stop at a fault looks at [`state::State::faults`].

mod ask;
mod check;
mod eval;
mod event;
mod meet;
mod memory;
pub mod order;
pub mod origin;
mod state;
mod thread;
pub mod timeline;
mod value;

#[cfg(test)]
mod tests;

use crate::device::fault::Fault;
use crate::device::{Arg, Extents};
use crate::ir::Checks;
use crate::ir::def::Module;

pub use ask::{NoAnswer, ask};
pub use event::{Access, At, Kind};
pub use memory::{Array, Bytes, Store};
pub use state::{Block, Launch, State};
pub use thread::{Frame, Ids, Nobody, Observer, Parameter, Phase, Thread, Wait};
pub use value::Val;

/// The statements per thread after which [`launch`] ends it with a fault.
const MOST_STEPS: u64 = 100_000;

/// The outcome of a launch.
pub struct Outcome {
    pub output: String,
    /// The first fault of every thread that faulted.
    pub faults: Vec<Fault>,
}

/// Runs a kernel like [`crate::device::Executable::launch`]. Arrays are written even if there are faults.
///
/// # Panics
/// if the module is not a verified one, or an argument does not fit its parameter or is not in the host's memory.
pub fn launch(module: &Module, extents: Extents, args: &mut [Arg<'_>]) -> Outcome {
    launch_checked(module, extents, args, Checks::default())
}

/// Like [`launch`], but with checks.
///
/// # Panics
/// as [`launch`].
pub fn launch_checked(module: &Module, extents: Extents, args: &mut [Arg<'_>], checks: Checks) -> Outcome {
    let launch = Launch::new(module, extents, args, MOST_STEPS).checked(checks);
    let mut state = launch.start(args).expect("arrays of the host");
    let mut output = String::new();
    while state.step(&launch, &mut output, &mut Nobody) {}
    state.write_back(args).expect("arrays of the host");
    Outcome { output, faults: state.faults }
}
