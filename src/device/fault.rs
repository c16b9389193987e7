//! Faults of kernels, and failures of a device itself. Either may contain the other: a launch can end because its device failed,
//! and a device can report the fault of an earlier launch.

use std::fmt;

use super::both::{Disagreement, Variation};
use crate::base::source::Span;
use crate::lang::scalar::{Scalar, Value};

/// Text that kernels printed, in block order; the host shows it.
pub type Output = String;

/// Why a launch ended early. A fault is reported once: for the first thread, with the number of others.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub kind: FaultKind,
    /// The faulting expression or statement.
    pub span: Span,
    /// The enclosing call, innermost first, where known.
    pub trace: Vec<Span>,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    /// `Form::Threads`: the index tuple instead of block and thread.
    pub index: Option<Vec<u32>>,
    /// The number of other threads with the same fault at the same location (in the blocks that ran).
    pub others: u64,
    /// The output of the kernels until then.
    pub output: Output,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// `indices` against `shape` of the array named `array`; `axis` is the first one out of bounds.
    OutOfBounds {
        array: String,
        indices: Vec<i64>,
        shape: Vec<u32>,
        axis: usize,
        write: bool,
    },
    DivisionByZero {
        left: Value,
    },
    /// A failed `assert`, with its formatted message.
    Assert {
        message: String,
    },
    /// Some threads of the block (or warp) reached this barrier or warp operation, and others cannot reach it any more.
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
    /// Found by checks: a lock order inversion. A thread that holds a lock takes another one, and these other threads do so in
    /// another order. In this run there was no deadlock.
    LockOrder(Box<LockStep>, Vec<LockStep>),
    /// A data race found by checks. A warning if it is benign.
    Race(Box<Race>),
    /// `place` was read before any thread had written it.
    Unwritten {
        place: String,
        /// `shared`, `local` or `out`
        space: &'static str,
    },
    /// A warning: `count` elements of an `out` array, among them these, were not written when the kernel ended.
    Incomplete {
        array: String,
        places: Vec<String>,
        count: u64,
        total: u64,
    },
    /// A note: a launch of one block (or of blocks of one warp) cannot show a hazard between two, for this reason.
    Unseen {
        warps: bool,
        reason: String,
    },
    /// Counted, if a kernel was prepared for it: what an access costs a warp.
    Crowd(Box<Crowd>),
    /// A signed operation whose result overflows: `2147483647 + 1`.
    Overflow {
        operation: String,
        ty: Scalar,
    },
    ShiftAmount {
        amount: Value,
        ty: Scalar,
    },
    /// The explicit mask of a warp operation does not match the lanes that execute it.
    Among {
        what: &'static str,
        /// The lane's mask, and the lane itself.
        mask: u32,
        lane: u32,
        wrong: Among,
    },
    /// A `shuffle` from (`shuffle_xor` by) a lane that a warp of `lanes` lanes does not have.
    NoLane {
        what: &'static str,
        lane: i64,
        lanes: u32,
    },
    /// A float that is out of range of the integer type that it is converted to.
    Conversion {
        value: Value,
        to: Scalar,
    },
    /// The first NaN or infinity: the result of an operation on finite numbers, such as `0 / 0`.
    NotFinite {
        operation: String,
        result: Value,
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
    /// More than `limit` bytes of shared memory were requested; `u64::MAX` is more than can be counted.
    SharedSize {
        bytes: u64,
        limit: u64,
    },
    /// The device itself failed, or rejects the launch.
    Device(DeviceError),
    /// Two devices that ran the same launch disagree.
    Disagreement(Box<Disagreement>),
    /// A note: two devices differ in a way that the language permits.
    Variation(Box<Variation>),
}

impl Fault {
    /// Returns what a warp paid for an access, if that is what it says.
    pub(crate) fn crowd(&self) -> Option<&Crowd> {
        if let FaultKind::Crowd(crowd) = &self.kind { Some(crowd) } else { None }
    }
}

impl FaultKind {
    /// Returns the fault of an operator, such as `2147483647 + 1`; negative operands are in parentheses.
    pub(super) fn overflow(symbol: &str, left: Value, right: Value) -> FaultKind {
        let shown = |value: Value| {
            let text = value.to_string();
            if text.starts_with('-') { format!("({text})") } else { text }
        };
        FaultKind::Overflow { operation: format!("{} {symbol} {}", shown(left), shown(right)), ty: left.ty }
    }

    /// Returns the fault of a launch as a whole, not of a thread; `span` is the kernel's.
    pub fn of_launch(self, span: Span) -> Box<Fault> {
        Box::new(Fault {
            kind: self,
            span,
            trace: vec![],
            block: [0; 3],
            thread: [0; 3],
            index: None,
            others: 0,
            output: Output::new(),
        })
    }
}

/// A thread of a launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    pub block: [u32; 3],
    pub thread: [u32; 3],
    /// `Form::Threads`: the index tuple instead of block and thread.
    pub index: Option<Vec<u32>>,
}

/// What the threads of a warp pay together for an access, and two of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Crowd {
    pub(crate) array: String,
    /// Passes of shared memory; else sectors of global memory.
    pub shared: bool,
    pub count: u32,
    /// The threads that take part, and what as many need at least.
    pub(crate) threads: u32,
    pub(crate) fewest: u32,
    /// Of shared memory, the bank that takes the most passes.
    pub(crate) bank: u32,
    /// The element of the fault's thread, another thread, and its element.
    pub(crate) place: String,
    pub(crate) other: Who,
    pub(crate) other_place: String,
}

/// What is wrong with the mask of a warp operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// The mask does not include the lane itself.
    Own,
    /// It includes this lane, which does not execute the operation.
    Away(u32),
    /// It includes this lane, which passes this other mask.
    Other(u32, u32),
    /// A shuffle reads from a lane that the mask does not include.
    Source(i64),
}

/// The kind of a thread's memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    Reads,
    Writes,
    /// An atomic read-modify-write.
    Updates,
    /// An atomic load.
    Looks,
}

impl Deed {
    pub fn is_atomic(self) -> bool {
        matches!(self, Deed::Updates | Deed::Looks)
    }
}

/// A thread acquires a lock while it holds another.
#[derive(Clone, Debug, PartialEq)]
pub struct LockStep {
    pub(crate) who: Who,
    pub span: Span,
    /// `lock[0]`
    pub has: String,
    pub takes: String,
}

/// Two conflicting accesses to one element without a happens-before order. The fault's own thread is the one whose access was
/// second in this run.
#[derive(Clone, Debug, PartialEq)]
pub struct Race {
    /// `s[63]`, `x[3, 4]`, `p[5].mass`
    pub place: String,
    /// In shared memory; else in global memory.
    pub shared: bool,
    pub deed: Deed,
    /// The value that the thread writes or reads, where known.
    pub value: Option<Value>,
    pub other: Who,
    pub other_deed: Deed,
    pub other_value: Option<Value>,
    pub other_span: Span,
    /// Both threads are in the same block, in the same warp.
    pub same_block: bool,
    pub same_warp: bool,
}

impl Race {
    /// Returns whether both accesses write the same value, so that their order does not matter.
    pub(crate) fn is_benign(&self) -> bool {
        self.deed == Deed::Writes
            && self.other_deed == Deed::Writes
            && self.value.is_some_and(|v| self.other_value.is_some_and(|o| v.ty == o.ty && v.bits == o.bits))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in thread {:?} of block {:?}", self.kind, self.thread, self.block)
    }
}

/// Why a device failed.
#[derive(Clone, Debug, PartialEq)]
pub enum DeviceError {
    /// An allocation of `wanted` bytes failed; nothing is lost. `free` and `total` are the device's, `arrays` the bytes that this
    /// program's arrays take of it.
    OutOfMemory { device: String, wanted: u64, free: u64, total: u64, arrays: u64 },
    /// Host memory has no room for an array that is read back from the device.
    NoHostMemory { wanted: u64 },
    /// The launch exceeds a limit of the device: the resource, the requested amount, and the limit.
    TooLarge { device: String, what: &'static str, wanted: String, limit: String },
    /// The device's compiler rejected the text that Clk generated: a bug in Clk.
    Rejected { kernel: String, log: String },
    /// A driver call failed. `lost`: all further calls of this process fail too.
    Driver { device: String, call: String, name: String, lost: bool },
    /// A fault of an earlier asynchronous launch, which is only noticed now.
    Earlier(Box<Earlier>),
    /// The process that runs kernels was lost; arrays were not, and a new process has them.
    Lost(Box<Loss>),
    /// The device is not usable at all.
    Unavailable { device: String, why: String },
}

/// A fault of a launch that had already returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Earlier {
    pub fault: Fault,
    /// The statement that launched it.
    pub launched: Span,
}

/// The loss of a process that runs kernels, and what is known of the cause.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    pub device: String,
    /// The driver's error, or how the process ended.
    pub how: String,
    /// The user asked to stop it.
    pub stopped: bool,
    /// Name and span of the kernel that was running.
    pub kernel: Option<(String, Span)>,
    /// The statement that launched it.
    pub launched: Option<Span>,
    /// Launches queued behind it, which did not start.
    pub waiting: usize,
    /// Seconds until a new process had replaced it, or why none has.
    pub replaced: Result<f64, String>,
    /// The result of the launch on the simulator.
    pub(crate) verdict: Verdict,
}

/// The result of running a launch again with its arrays as the lost process left them.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It faults.
    Fault(Box<Fault>),
    /// It was still running, at this location, after this many seconds.
    Endless(Box<Fault>, f64),
    /// It ends normally.
    Nothing,
    /// It was not run again, for this reason.
    Untried(String),
}

impl DeviceError {
    /// What a kernel that is too large for the simulator needs too many of.
    pub(crate) const REGISTERS: &'static str = "registers for the values and constants of the kernel";
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceError::OutOfMemory { device, wanted, .. } => {
                write!(f, "`{device}` has no room for {}", size(*wanted))
            }
            DeviceError::NoHostMemory { wanted } => {
                write!(f, "there is not enough memory to read an array of {} from the device", size(*wanted))
            }
            DeviceError::TooLarge { device, what, wanted, limit } => {
                write!(f, "the launch needs {wanted} {what}, and `{device}` has {limit}")
            }
            DeviceError::Rejected { kernel, .. } => {
                write!(f, "internal error: the text generated for `{kernel}` was refused")
            }
            DeviceError::Driver { device, call, name, .. } => write!(f, "`{device}` failed: {call} says {name}"),
            DeviceError::Earlier(earlier) => write!(f, "a kernel launched before has failed: {}", earlier.fault),
            DeviceError::Lost(loss) => match (&loss.kernel, loss.stopped) {
                (_, true) => f.write_str("interrupted"),
                (Some((kernel, _)), _) => write!(f, "`{}` failed in kernel `{kernel}`: {}", loss.device, loss.how),
                (None, _) => write!(f, "`{}` failed: {}", loss.device, loss.how),
            },
            DeviceError::Unavailable { device, why } => write!(f, "`{device}` cannot be used: {why}"),
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
