//! Evaluates a query, compiled to a module, in the context of a thread. The query can use the thread's indices and
//! arrays, and has no side effects.

use super::event::{AccessEvent, AccessKind, StepPosition};
use super::state::{BlockState, LaunchSnapshot};
use super::thread::{ParamValue, StepObserver, Thread, ThreadEnvironment, ThreadPhase};
use clk_ir::Checks;
use clk_ir::def::Module;
use clk_runtime::FaultKind;

/// Maximum number of statements that a query may execute.
const MOST_STEPS: u64 = 1 << 20;

/// The reason why a query has no result.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryError {
    Fault(FaultKind),
    /// The query waits for other threads.
    Waits,
    /// The query reads an unwritten element of this array.
    Unwritten(String),
}

/// Records the first array that has an unwritten element which the query reads.
#[derive(Default)]
struct UnwrittenReads(Option<String>);

impl StepObserver for UnwrittenReads {
    fn access(&mut self, _: StepPosition, access: &AccessEvent<'_, '_>) {
        if access.kind == AccessKind::Load && access.before.is_none() {
            self.0.get_or_insert_with(|| access.array.name.to_string());
        }
    }
}

/// Runs a query as if the thread executed it, and returns the printed output. Its parameters are values, or arrays of
/// the thread, its block or the launch.
pub fn ask(
    state: &LaunchSnapshot<'_>,
    block: &BlockState<'_>,
    thread: &Thread<'_>,
    module: &Module,
    parameters: &[ParamValue],
) -> Result<String, QueryError> {
    let (mut global, mut shared, mut output) = (state.global.clone(), block.shared.clone(), String::new());
    let mut unwritten = UnwrittenReads::default();
    let mut query_thread = Thread::new(module, thread.ids);
    query_thread.local = thread.local.clone();
    let mut world = ThreadEnvironment {
        parameters,
        checks: Checks::default(),
        global: &mut global,
        shared: &mut shared,
        output: &mut output,
        observer: &mut unwritten,
        at: StepPosition::default(),
        copied: 0,
    };
    let fault = |(kind, _)| QueryError::Fault(kind);
    query_thread.start(&mut world).map_err(fault)?;
    while query_thread.is_ready() {
        query_thread.step(&mut world, MOST_STEPS).map_err(fault)?;
    }
    match (query_thread.phase, unwritten.0) {
        (_, Some(array)) => Err(QueryError::Unwritten(array)),
        (ThreadPhase::Done, None) => Ok(output),
        _ => Err(QueryError::Waits),
    }
}
