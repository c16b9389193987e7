//! Evaluates a module where a thread is: with its indices and its arrays, and with no effect on anything.

use super::event::{Access, At, Kind};
use super::state::{Block, State};
use super::thread::{Observer, Parameter, Phase, Thread, World};
use crate::device::fault::FaultKind;
use crate::ir::Checks;
use crate::ir::def::Module;

/// The statements that it may execute.
const MOST_STEPS: u64 = 1 << 20;

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub enum NoAnswer {
    Fault(FaultKind),
    /// It waits for other threads.
    Waits,
    /// It reads an element of this array that nobody wrote.
    Unwritten(String),
}

/// Looks for reads of what nobody wrote.
#[derive(Default)]
struct Unwritten(Option<String>);

impl Observer for Unwritten {
    fn access(&mut self, _: At, access: &Access<'_, '_>) {
        if access.kind == Kind::Read && access.before.is_none() {
            self.0.get_or_insert_with(|| access.array.name.to_string());
        }
    }
}

/// Runs a kernel as if the thread ran it; returns what it prints. Its parameters are values, and arrays of the thread, its block or the
/// launch.
pub fn ask(
    state: &State<'_>,
    block: &Block<'_>,
    thread: &Thread<'_>,
    module: &Module,
    parameters: &[Parameter],
) -> Result<String, NoAnswer> {
    let (mut global, mut shared, mut output) = (state.global.clone(), block.shared.clone(), String::new());
    let mut unwritten = Unwritten::default();
    let mut asked = Thread::new(module, thread.ids);
    asked.local = thread.local.clone();
    let mut world = World {
        parameters,
        checks: Checks::default(),
        global: &mut global,
        shared: &mut shared,
        output: &mut output,
        observer: &mut unwritten,
        at: At::default(),
        copied: 0,
    };
    let fault = |(kind, _)| NoAnswer::Fault(kind);
    asked.start(&mut world).map_err(fault)?;
    while asked.is_ready() {
        asked.step(&mut world, MOST_STEPS).map_err(fault)?;
    }
    match (asked.phase, unwritten.0) {
        (_, Some(array)) => Err(NoAnswer::Unwritten(array)),
        (Phase::Done, None) => Ok(output),
        _ => Err(NoAnswer::Waits),
    }
}
