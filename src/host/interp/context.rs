//! State of the interpreter: options, variables, caches, side effects ([`HostEffects`]), and [`Signal`]s that end
//! evaluation early.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::call_cache::CallCache;
use super::code::Codes;
use super::compiled_kernels::DeviceKernels;
use super::copy_statistics::CopyStatistics;
use super::frame::HostFrame;
use super::launch_coverage::LaunchCoverage;
use super::layout::Layouts;
use super::provenance::ProvenanceTrace;
use super::recorded_launch::RecordedLaunch;
use crate::files::ByteSource;
use crate::grad::GradTape;
use crate::graph::{self, ExecContext};
use crate::picture::shown::ShownPicture;
use crate::ranks::RankCommunicator;
use crate::shard::ShardTransferCounters;
use crate::tuned::Tuning;
use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_base::source::{SourceMap, Span};
use clk_check::typed::{ConstId, Expr, Program, Type};
use clk_compile::trials::{RaceEvidenceFinder, Trials};
use clk_lower::MmaPrecision;
use clk_runtime::exchange::CommunicatorDevice;
use clk_runtime::{Control, Device, Devices, FaultKind};

/// Side effects of scripts. Implemented by `app`, and by recording implementations in tests.
pub trait HostEffects {
    /// Writes a text to standard output verbatim.
    fn print(&mut self, text: &str);
    /// Shows a picture in the terminal.
    fn show(&mut self, picture: ShownPicture);
    /// Returns the content of a file.
    fn read(&mut self, path: &str) -> Result<Vec<u8>, FileError>;
    /// Opens a file that is read in parts. By default, reads it as a whole.
    fn open(&mut self, path: &str) -> Result<Arc<dyn ByteSource>, FileError> {
        Ok(Arc::new(self.read(path)?))
    }
    /// Writes a file completely, or leaves it unchanged.
    fn write(&mut self, path: &str, bytes: &[u8]) -> Result<(), FileError>;
}

/// Options for running scripts.
#[derive(Clone)]
pub struct ScriptOptions {
    /// The script's arguments, `args`.
    pub args: Vec<String>,
    /// Settings of launches, such as the stop flag, the step limit and the number of worker threads.
    pub control: Control,
    /// Replaces the default seed (0) of the stream used by `random` and similar builtins without a `seed` argument.
    pub seed: Option<u64>,
    /// The device on which kernels run.
    pub device: Arc<dyn Device>,
}

/// Reason why an evaluation ended without a value: an error, or a statement such as `return`.
pub(crate) enum Signal {
    Error(Box<Diagnostic>),
    /// The returned value and its location.
    Return(HostValue, Span),
    Break,
    Continue,
    /// The script called `exit` with this code at this location.
    Exit(u8, Span),
}

pub(crate) type Eval<T = HostValue> = Result<T, Signal>;

/// The seed and position of the script's random number stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RandomPosition {
    pub seed: u64,
    /// Index of the next random substream. Each call of a random builtin uses one.
    pub next_substream: u64,
}

impl RandomPosition {
    /// Returns the start position of the random stream of a seed.
    pub fn begin(seed: Option<u64>) -> RandomPosition {
        RandomPosition { seed: seed.unwrap_or(0), next_substream: 0 }
    }
}

/// State of a script or a session.
pub struct Interpreter {
    pub options: ScriptOptions,
    /// The value of each script variable, by `GlobalId`. `None` until its `let` has been executed.
    pub globals: Vec<Option<HostValue>>,
    /// Globals that hold the arguments of a call from another language, such as Python. The call uses each of them
    /// once, so it moves by-reference arguments out. With a clone, the first write would copy the array.
    pub movable_globals: Range<usize>,
    pub random_position: RandomPosition,
    /// Maximum size in bytes of an array allocated by a launch; `None` if only memory limits it.
    pub max_array_bytes: Option<u64>,
    /// Whether a run may return before its launches complete. The caller must then call
    /// [`Device::report_pending_faults`].
    pub pipelined: bool,
    /// Summation order of `mma` on the simulator.
    pub mma_precision: MmaPrecision,
    /// Autotuning mode and the measured configurations.
    pub tuning: Tuning,
    /// Host-device copies by statement, if they are counted (`--stats`).
    pub copy_statistics: Option<CopyStatistics>,
    /// Exit code, if the last execution called `exit`. A caller that can end the process exits with this code. Other
    /// callers report the error that the execution returned.
    pub exit_code: Option<u8>,
    /// Compiled kernels of array expressions, and results that are still to be computed.
    pub(crate) expressions: Arc<graph::ExpressionState>,
    pub device_pool: DevicePool,
    pub ranks: RankExchange,
    pub observers: LaunchObservers,
    pub warning_log: WarningLog,
    pub stack: CallStack,
    pub(crate) caches: CodeCaches,
    pub(crate) const_values: ConstValues,
    pub(crate) derivatives: DerivativeState,
}

/// The devices of a script, and the kernels compiled for them.
#[derive(Default)]
pub struct DevicePool {
    /// Devices available to `on … { }`; `None` leaves only [`ScriptOptions::device`].
    pub available: Option<Arc<dyn Devices>>,
    pub(crate) kernels: DeviceKernels,
    /// Compiled kernels of devices other than the current one, by device name.
    pub(crate) inactive_kernels: Vec<(String, DeviceKernels)>,
    /// Devices used by `on … { }` since the last wait for all launches.
    pub(crate) used: Vec<Arc<dyn Device>>,
    /// Devices that hold shards of arrays.
    pub(crate) shards: Vec<Arc<dyn Device>>,
    /// Counters of the data moved between shards.
    pub shard_counters: Arc<ShardTransferCounters>,
}

/// The exchange of values with other ranks.
#[derive(Default)]
pub struct RankExchange {
    /// Communicator of a multi-process run; `None` in a run with a single rank.
    pub communicator: Option<Arc<dyn RankCommunicator>>,
    /// Number of calls of collective operations, `send` and `receive` so far.
    pub(crate) call_count: u64,
    /// This rank's GPU communicator. `None` before the first collective on an array; `Some(None)` if the ranks exchange
    /// data through the host instead.
    pub(crate) device_communicator: Option<Option<Arc<dyn CommunicatorDevice>>>,
}

/// What is tried before launches, searched after races, and recorded about launches.
#[derive(Default)]
pub struct LaunchObservers {
    /// Whether launches with checks report which kinds of races cannot occur at the sizes that were launched.
    pub coverage_hints: bool,
    /// The fault of the last launch that faulted. Callers may take it.
    pub last_fault: Option<FaultKind>,
    /// If `coverage_hints` is set: kernels that were only launched with a single block or warp.
    pub coverage: LaunchCoverage,
    /// Tries each launch in other configurations before it runs (`clk test`).
    pub trials: Option<Arc<dyn Trials>>,
    /// Finds additional notes for a reported race.
    pub race_evidence: Option<Arc<dyn RaceEvidenceFinder>>,
    /// All launches so far. `None` if launches are not recorded for provenance queries (`clk why`).
    pub recorded_launches: Option<Vec<RecordedLaunch>>,
    /// If `recorded_launches` is set: the array expressions that produced each array.
    pub provenance: ProvenanceTrace,
}

/// Warnings of launches.
#[derive(Default)]
pub struct WarningLog {
    /// Warnings that the caller has not taken yet, without duplicates.
    pub pending: Vec<Diagnostic>,
    pub(super) reported: Vec<Diagnostic>,
    /// Whether the note that arrays were moved to the host (W0607) was already reported.
    pub(crate) has_noted_spill: bool,
}

/// The nested calls of a script, and its current statement.
#[derive(Default)]
pub struct CallStack {
    pub(crate) depth: usize,
    /// Lowest address that this thread's stack may use; 0 if unknown.
    pub end: usize,
    /// Number of calls that are left out of the call trace of the current error.
    pub(crate) unshown_calls: usize,
    /// The current statement, for errors without a location of their own.
    pub(crate) span: Span,
}

/// Maximum depth of nested script calls if [`CallStack::end`] is known. [`MAX_DEPTH_UNKNOWN_STACK`] applies otherwise.
const MAX_DEPTH: usize = 10_000;
const MAX_DEPTH_UNKNOWN_STACK: usize = 1000;

impl CallStack {
    /// If one more call would exceed the depth limit or the stack, returns the maximum depth for the error message. The
    /// stack is checked separately because calls inside large expressions use more stack per call.
    pub(crate) fn exceeded_limit(&self) -> Option<usize> {
        let marker = 0u8;
        let address = std::ptr::from_ref(&marker).addr();
        let limit = if self.end == 0 { MAX_DEPTH_UNKNOWN_STACK } else { MAX_DEPTH };
        (self.depth >= limit || address < self.end).then_some(limit.min(self.depth))
    }
}

/// Compiled code of functions and script chunks, and memory that calls reuse.
#[derive(Default)]
pub(crate) struct CodeCaches {
    /// Cache of the bytecode of functions and script chunks.
    pub codes: Codes,
    /// Cache of bound and checked calls, by call expression.
    pub(super) calls: CallCache,
    /// Number of the program's definitions when the call and launch caches were filled.
    pub definition_count: usize,
    /// Unused frames that calls can reuse. They are boxed so that moving them is cheap.
    #[allow(clippy::vec_box)]
    pub frames: Vec<Box<HostFrame>>,
    pub layouts: Layouts,
}

/// The values of `const` items.
#[derive(Default)]
pub(crate) struct ConstValues {
    /// Values of the `const` items that were evaluated so far, each with its expression.
    pub known: FxHashMap<ConstId, (Arc<Expr>, HostValue)>,
    /// `const` items that are being evaluated, to detect cycles.
    pub in_progress: Vec<ConstId>,
}

/// The derivatives that are being computed.
#[derive(Default)]
pub(crate) struct DerivativeState {
    /// Nesting depth of the derivatives.
    pub depth: u32,
    /// Tapes that are currently recording, outermost first.
    pub tapes: Vec<Arc<GradTape>>,
    /// Whether `no_grad` values are recorded or replayed, for `gradcheck`.
    pub no_grad: NoGradCapture,
}

/// How `no_grad(x)` is evaluated. `gradcheck` records the values of `no_grad` expressions at the original arguments. It
/// replays them when it runs the function at displaced arguments, so that they stay constant.
#[derive(Default)]
pub(crate) enum NoGradCapture {
    /// The value of `no_grad(x)` is `x`.
    #[default]
    Off,
    /// Like `Off`, but records each value.
    Recording(Vec<HostValue>),
    /// The value of each `no_grad` expression is the next recorded value.
    Replaying(std::collections::VecDeque<HostValue>),
}

impl NoGradCapture {
    pub fn capture(&mut self, value: HostValue) -> HostValue {
        match self {
            NoGradCapture::Off => value,
            NoGradCapture::Recording(values) => {
                values.push(value.clone());
                value
            }
            NoGradCapture::Replaying(values) => values.pop_front().unwrap_or(value),
        }
    }
}

/// The value of a chunk's last statement, if that is an expression with a value.
#[derive(Clone, Debug)]
pub struct LastValue {
    pub value: HostValue,
    pub ty: Type,
    /// Whether the expression is followed by `;`, so that the value is not shown.
    pub is_quiet: bool,
}

/// Context of an evaluation: the interpreter's state, the program, its sources and side effects.
pub(crate) struct EvalContext<'a> {
    pub interp: &'a mut Interpreter,
    pub program: &'a Program,
    pub sources: &'a SourceMap,
    pub effects: &'a mut dyn HostEffects,
    /// The context of array expressions on the current device.
    pub exec: ExecContext,
}
