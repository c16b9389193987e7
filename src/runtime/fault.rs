//! Faults of kernels and errors of devices. A fault can contain a device error if the device failed during a launch. A
//! device error can contain the fault of an earlier asynchronous launch.

use std::fmt;

use thiserror::Error;

use super::disagreement::{Disagreement, Variation};
use super::extents::LaunchOrigin;
use clk_base::source::Span;
pub use clk_ir::AccessKind;
use clk_scalar::{Scalar, ScalarValue};

/// Text that kernels printed, in block order. The host displays it.
pub type PrintedText = String;

/// The reason why a launch ended early. Only the first faulting thread is reported, with the number of other threads
/// that had the same fault.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub kind: FaultKind,
    /// The faulting expression or statement.
    pub span: Span,
    /// The enclosing calls, innermost first, if known.
    pub trace: Vec<Span>,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    /// In a `LaunchForm::Threads` launch, the thread's index tuple, which diagnostics show instead of block and thread.
    pub index: Option<Vec<u32>>,
    /// The number of other threads with the same fault at the same location. The simulator counts those that it runs
    /// together with the faulting thread, a GPU those of all blocks that ran.
    pub others: u64,
    /// Text that kernels printed before the fault.
    pub output: PrintedText,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// An access out of bounds. `shape` is the shape of `array`; `axis` is the first axis whose index is out of bounds.
    OutOfBounds {
        array: String,
        indices: Vec<i64>,
        shape: Vec<u32>,
        axis: usize,
        write: bool,
    },
    DivisionByZero {
        left: ScalarValue,
    },
    /// A failed `assert`, with its formatted message.
    Assert {
        message: String,
    },
    /// Some threads of the block (or warp) reached this barrier or warp operation, and others can no longer reach it.
    Divergence {
        what: &'static str,
        arrived: u32,
        expected: u32,
        elsewhere: Option<Span>,
    },
    /// Threads wait for an event that can no longer happen.
    Deadlock {
        detail: String,
    },
    /// A lock-order inversion: the first thread holds one lock and acquires a second one. The other threads acquire the
    /// same locks in a different order. The execution did not deadlock, but another schedule can. Only found if checks
    /// are enabled.
    LockOrder(Box<LockAcquisition>, Vec<LockAcquisition>),
    /// A data race. Only found if checks are enabled. A benign race, in which both threads write the same value, is a
    /// warning.
    Race(Box<Race>),
    /// A thread read the element `place` before any thread had written it.
    Unwritten {
        place: String,
        /// The kind of memory: `shared`, `local` or `out`.
        space: &'static str,
    },
    /// A warning: the kernel ended without writing `count` elements of an `out` array. `places` names some of them.
    Incomplete {
        array: String,
        shape: Box<[u32]>,
        /// The indices of the first unwritten element.
        first: Box<[u32]>,
        places: Vec<String>,
        count: u64,
        total: u64,
    },
    /// A note: the launch has only one block (or only one warp per block). Therefore the checks cannot find hazards
    /// between two blocks (or warps).
    CoverageGaps {
        warps: bool,
        reason: String,
    },
    /// The cost of one access by one warp. Only reported if the kernel was prepared to count access costs.
    Crowd(Box<WarpAccessCost>),
    /// A signed operation whose result overflows: `2147483647 + 1`.
    Overflow {
        operation: String,
        ty: Scalar,
    },
    ShiftAmount {
        amount: ScalarValue,
        ty: Scalar,
    },
    /// The explicit mask of a warp operation does not match the lanes that execute it.
    Among {
        what: &'static str,
        /// The mask that `lane` passed.
        mask: u32,
        lane: u32,
        wrong: WarpMaskError,
    },
    /// A `shuffle` from lane `lane`, or a `shuffle_xor` with mask `lane`, in a warp with only `lanes` lanes.
    InvalidLane {
        what: &'static str,
        lane: i64,
        lanes: u32,
    },
    /// A float that is out of range of the integer type it is converted to.
    Conversion {
        value: ScalarValue,
        to: Scalar,
    },
    /// An operation on finite operands whose result is NaN or infinite, such as `0 / 0`.
    NotFinite {
        operation: String,
        result: ScalarValue,
    },
    StepLimit {
        steps: u64,
    },
    Interrupted,
    /// `step` of a `for` was zero.
    ZeroStep,
    /// A `shared` array with an invalid extent.
    SharedExtent {
        array: String,
        extent: i64,
    },
    /// The kernel requested `bytes` bytes of shared memory, which is more than `limit`. `u64::MAX` means that the size
    /// overflowed.
    SharedSize {
        bytes: u64,
        limit: u64,
    },
    /// The device failed or rejected the launch.
    Device(DeviceError),
    /// Two devices ran the same launch with different results, and the difference is a bug.
    Disagreement(Box<Disagreement>),
    /// A note: two devices ran the same launch with different results, and the language permits the difference.
    Variation(Box<Variation>),
}

impl Fault {
    /// Returns the access cost of a [`FaultKind::Crowd`].
    pub fn access_cost(&self) -> Option<&WarpAccessCost> {
        if let FaultKind::Crowd(crowd) = &self.kind { Some(crowd) } else { None }
    }
}

impl FaultKind {
    /// Returns the fault for an operator that overflowed. Its text shows the operation, such as `2147483647 + 1`, with
    /// negative operands in parentheses.
    pub fn overflow(symbol: &str, left: ScalarValue, right: ScalarValue) -> FaultKind {
        let shown = |value: ScalarValue| {
            let text = value.to_string();
            if text.starts_with('-') { format!("({text})") } else { text }
        };
        FaultKind::Overflow { operation: format!("{} {symbol} {}", shown(left), shown(right)), ty: left.ty }
    }

    /// Returns a fault that concerns the whole launch and no particular thread. `span` is the span of the kernel.
    pub fn into_launch_fault(self, span: Span) -> Box<Fault> {
        Box::new(Fault {
            kind: self,
            span,
            trace: vec![],
            block: [0; 3],
            thread: [0; 3],
            index: None,
            others: 0,
            output: PrintedText::new(),
        })
    }
}

/// A thread of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadId {
    pub block: [u32; 3],
    pub thread: [u32; 3],
    /// In a `LaunchForm::Threads` launch, the thread's index tuple, which diagnostics show instead of block and thread.
    pub index: Option<Vec<u32>>,
}

/// The cost of one access by one warp: the number of shared-memory passes (bank conflicts) or of global-memory sectors.
/// Two of the warp's threads serve as examples.
#[derive(Clone, Debug, PartialEq)]
pub struct WarpAccessCost {
    pub array: String,
    /// Whether `count` is a number of shared-memory passes. Otherwise it is a number of global-memory sectors.
    pub shared: bool,
    pub count: u32,
    /// Number of threads of the warp that execute the access.
    pub threads: u32,
    /// The smallest possible `count` for that number of threads.
    pub fewest: u32,
    /// The shared-memory bank with the most passes.
    pub bank: u32,
    /// The element that the fault's thread accesses.
    pub place: String,
    pub other: ThreadId,
    /// The element that the thread `other` accesses.
    pub other_place: String,
}

/// What is wrong with the mask of a warp operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpMaskError {
    /// A lane passes a mask that does not include the lane itself.
    Own,
    /// The mask includes this lane, but the lane does not execute the operation.
    LaneAbsent(u32),
    /// The mask includes the lane given by the first number, but that lane passes a different mask, the second number.
    Other(u32, u32),
    /// A shuffle reads from this lane, but the mask does not include it.
    Source(i64),
}

/// The acquisition of a lock by a thread that already holds another lock.
#[derive(Clone, Debug, PartialEq)]
pub struct LockAcquisition {
    pub thread_id: ThreadId,
    pub span: Span,
    /// The array element that is the lock: `lock[0]`.
    pub held_lock: String,
    pub acquired_lock: String,
}

/// Two conflicting accesses to one element that are not ordered by happens-before. The fault's thread made the access
/// that came second in this execution.
#[derive(Clone, Debug, PartialEq)]
pub struct Race {
    /// The accessed element or field: `s[63]`, `x[3, 4]`, `p[5].mass`.
    pub place: String,
    /// Whether the element is in shared memory. Otherwise it is in global memory.
    pub shared: bool,
    pub access_kind: AccessKind,
    /// The value that the thread writes or reads, if known.
    pub value: Option<ScalarValue>,
    pub other: ThreadId,
    pub other_access_kind: AccessKind,
    pub other_value: Option<ScalarValue>,
    pub other_span: Span,
    /// Whether both threads are in the same block.
    pub same_block: bool,
    /// Whether both threads are in the same warp.
    pub same_warp: bool,
}

impl Race {
    /// Returns whether both accesses write the same value, in which case their order does not affect the result.
    pub fn is_benign(&self) -> bool {
        self.access_kind == AccessKind::Store
            && self.other_access_kind == AccessKind::Store
            && self.value.is_some_and(|v| self.other_value.is_some_and(|o| v.ty == o.ty && v.bits == o.bits))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in thread {:?} of block {:?}", self.kind, self.thread, self.block)
    }
}

/// Why a device failed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum DeviceError {
    /// An allocation of `wanted` bytes failed, but no data is lost. `free` and `total` are the sizes of the device's
    /// free and total memory. `arrays` is the number of bytes that this program's arrays use.
    #[error("`{device}` has no room for {}", size(*.wanted))]
    OutOfMemory { device: String, wanted: u64, free: u64, total: u64, arrays: u64 },
    /// There is not enough host memory for an array that is read back from the device.
    #[error("there is not enough memory to read an array of {} from the device", size(*.wanted))]
    NoHostMemory { wanted: u64 },
    /// The launch requests `wanted` of the resource `what`, but the device has only `limit`.
    #[error("the launch needs {wanted} {what}, and `{device}` has {limit}")]
    TooLarge { device: String, what: &'static str, wanted: String, limit: String },
    /// The device's compiler rejected the generated code, which is a bug in Clk.
    #[error("internal error: the text generated for `{kernel}` was refused")]
    Rejected { kernel: String, log: String },
    /// A driver call failed. After a sticky error (`lost`) all further calls of this process fail too.
    #[error("`{device}` failed: {call} says {name}")]
    Driver { device: String, call: String, name: String, lost: bool },
    /// The fault of a launch, which is reported where its results are used: because the launch was asynchronous, or
    /// because it is a part of a derivative.
    #[error("a kernel launched before has failed: {}", .0.fault)]
    EarlierLaunch(Box<EarlierFault>),
    /// The worker process that runs kernels died or was killed. The arrays survive in another process, so that a new
    /// worker can use them.
    #[error("{0}")]
    Lost(Box<WorkerLoss>),
    /// The device cannot be used, for the reason `why`.
    #[error("`{device}` cannot be used: {why}")]
    Unavailable { device: String, why: String },
}

/// A fault, and what is known about its launch.
#[derive(Clone, Debug, PartialEq)]
pub struct EarlierFault {
    pub fault: Fault,
    pub origin: LaunchOrigin,
}

/// Describes the death of a worker process.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerLoss {
    pub device: String,
    /// The driver's error, or the exit status of the process.
    pub cause: String,
    /// Whether the user interrupted the kernel.
    pub stopped: bool,
    /// Name and span of the kernel that was running.
    pub kernel: Option<(String, Span)>,
    pub origin: Option<LaunchOrigin>,
    /// Number of launches that were queued after the running kernel and never started.
    pub waiting: usize,
    /// Seconds until a new worker was ready, or the reason why no worker could be started.
    pub replaced: Result<f64, String>,
    /// The result of replaying the launch on the simulator.
    pub verdict: ReplayVerdict,
}

/// The result of replaying a launch with its arrays as the lost worker left them.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayVerdict {
    /// The replayed launch faults.
    Fault(Box<Fault>),
    /// The replayed launch was stopped after this number of seconds. The fault describes a thread that was still
    /// running.
    StillRunning(Box<Fault>, f64),
    /// The replayed launch ends without a fault.
    Nothing,
    /// The launch was not replayed, for this reason.
    NotRun(String),
}

impl DeviceError {
    /// The resource that the error message names if a kernel is too large for the simulator.
    pub const REGISTERS: &'static str = "registers for the values and constants of the kernel";
}

impl fmt::Display for WorkerLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kernel {
            _ if self.stopped => f.write_str("interrupted"),
            Some((kernel, _)) => write!(f, "`{}` failed in kernel `{kernel}`: {}", self.device, self.cause),
            None => write!(f, "`{}` failed: {}", self.device, self.cause),
        }
    }
}

/// Formats a number of bytes: `1.5 GiB`.
pub fn size(bytes: u64) -> String {
    let (scale, unit) = match bytes {
        b if b >= 1 << 30 => ((1u64 << 30) as f64, "GiB"),
        b if b >= 1 << 20 => ((1u64 << 20) as f64, "MiB"),
        b if b >= 1 << 10 => ((1u64 << 10) as f64, "KiB"),
        _ => return format!("{bytes} bytes"),
    };
    format!("{:.1} {unit}", bytes as f64 / scale)
}
