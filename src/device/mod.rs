//! Layer 3: devices that run DeviceIR. A device takes a prepared kernel and a launch, and returns results or a fault.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use crate::base::source::{Sources, Span};
use crate::ir::{Checks, Prepared};
use crate::lang::scalar::{Scalar, Value};

pub mod both;
pub mod cuda;
mod diagnose;
mod error;
pub mod sim;
pub(crate) mod storage;

pub(crate) use diagnose::{device_diagnostic, fault_diagnostic};
pub use error::{DeviceError, Earlier};
pub(crate) use error::{Loss, Verdict, size};
use storage::Storage;

/// The extents of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extents {
    /// `Form::Threads`: the extent of each index (unused ones are 1); the first varies slowest.
    Threads([u32; 3]),
    /// `Form::Grid`: x, y, z.
    Grid { grid: [u32; 3], block: [u32; 3] },
}

/// One argument of a launch, in the order of `ir::def::Kernel::params`.
pub enum Arg<'a> {
    /// A scalar, or the lanes of a vector.
    Value(Vec<Value>),
    /// The elements of an array that is only read.
    Read { bytes: &'a [u8], shape: Vec<u32> },
    /// The elements of an `out` or `inout` array. Bytes are aligned to at least 16.
    Write { bytes: &'a mut [u8], shape: Vec<u32> },
    /// An array that is only read, in any memory.
    Array { storage: &'a Storage, shape: Vec<u32> },
    /// An `out` or `inout` array, in any memory.
    ArrayMut { storage: &'a mut Storage, shape: Vec<u32> },
}

impl Arg<'_> {
    /// Returns the shape of an array argument.
    pub fn shape(&self) -> Option<&[u32]> {
        match self {
            Arg::Value(_) => None,
            Arg::Read { shape, .. } | Arg::Write { shape, .. } => Some(shape),
            Arg::Array { shape, .. } | Arg::ArrayMut { shape, .. } => Some(shape),
        }
    }
}

/// Controls a launch from outside: limits, checks and options.
#[derive(Clone, Default)]
pub struct Control {
    /// Set by Ctrl-C: the launch stops soon after with [`FaultKind::Interrupted`].
    pub stop: Arc<AtomicBool>,
    /// Loop iterations that a lane group may run in total before [`FaultKind::StepLimit`]; 0 is no limit.
    pub max_steps: u64,
    /// Worker threads; 0 uses the machine's parallelism.
    pub workers: usize,
    /// The checks that runs perform. A kernel is prepared for its checks: it is loaded anew if they change.
    pub checks: Checks,
    /// Atomic sums of floats, and all else that depends on the order of blocks, are computed as if blocks ran one after the
    /// other.
    pub deterministic: bool,
    /// Whatever may happen in any order happens in reverse order; for devices with a usual order.
    pub backward: bool,
    /// The statement that launches, for faults that are noticed later.
    pub launched: Span,
    /// Whether other launches of the kernel may have a larger grid or larger blocks; set if the run shall report hazards that
    /// this launch cannot show.
    pub larger: Option<Larger>,
    /// The launch returns when it is over, with its own fault.
    pub wait: bool,
    /// Findings of checks that did not stop the launch, for the host to take.
    pub warnings: Arc<Mutex<Vec<Fault>>>,
    /// Launches so far, for statistics.
    pub launches: Arc<AtomicU64>,
    /// Progress of the current launch, for display.
    pub progress: Arc<Progress>,
}

/// The dimensions that differ between launches of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Larger {
    pub grid: bool,
    pub block: bool,
}

/// Number of groups of a launch that have started, and of all. A device that does not track them leaves both at 0.
#[derive(Debug, Default)]
pub struct Progress {
    pub begun: AtomicU64,
    pub of: AtomicU64,
}

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
    Disagreement(Box<both::Disagreement>),
    /// A note: two devices differ in a way that the language permits.
    Variation(Box<both::Variation>),
}

impl FaultKind {
    /// Returns the fault of a launch as a whole, not of a thread; `span` is the kernel's.
    pub(crate) fn of_launch(self, span: Span) -> Box<Fault> {
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
pub(crate) struct Who {
    pub block: [u32; 3],
    pub thread: [u32; 3],
    /// `Form::Threads`: the index tuple instead of block and thread.
    pub index: Option<Vec<u32>>,
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
pub(crate) enum Deed {
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
    pub(crate) deed: Deed,
    /// The value that the thread writes or reads, where known.
    pub value: Option<Value>,
    pub(crate) other: Who,
    pub(crate) other_deed: Deed,
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

/// A device that runs kernels: the simulator, a GPU.
pub trait Device: Send + Sync {
    /// Returns its name for `--device`: `sim`, `gpu:0`.
    fn name(&self) -> String;

    /// Compiles a kernel for the device. Called once per kernel. May return before the work is done; an error is then reported by
    /// the first launch.
    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable>;

    /// As [`Device::load`], with the sources of the kernel's spans, for devices that produce line information.
    fn load_named(&self, kernel: Arc<Prepared>, _sources: &Sources) -> Arc<dyn Executable> {
        self.load(kernel)
    }

    /// Returns whether kernels run on separate device memory, to and from which arrays are copied.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns whether its runs can perform [`Checks`].
    fn is_watchful(&self) -> bool {
        false
    }

    /// Waits for all pending operations.
    fn finish(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Waits for launches that may still report a fault, and reports the first one's ([`DeviceError::Earlier`]); for devices with
    /// asynchronous launches.
    fn confirm(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Begins a batch: launches may be held back until the batch ends, or until something has to wait.
    fn begin_batch(&self) {}

    /// Ends the batch of [`Device::begin_batch`]; batches may be nested.
    fn end_batch(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Records a time stamp on the device's own clock, behind all pending operations; `None` for synchronous devices, where the
    /// host's clock suffices.
    fn mark(&self) -> Option<Mark> {
        None
    }

    /// Returns statistics of the device so far.
    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}

/// A time stamp on a device's clock.
pub trait Moment {
    /// Returns the seconds from an earlier time stamp of the same device to this one; waits until it is reached.
    fn since(&self, earlier: &dyn Moment) -> Option<f64>;

    /// For downcasts by the device.
    fn as_any(&self) -> &dyn std::any::Any;
}

pub(crate) type Mark = Box<dyn Moment>;

/// Statistics of a device: counts, bytes and seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    pub launches: u64,
    /// Copies to the device, and their bytes.
    pub uploads: u64,
    pub uploaded: u64,
    /// Copies from the device, and their bytes.
    pub downloads: u64,
    pub downloaded: u64,
    /// Compiled kernels, and the seconds that took.
    pub compiled: u64,
    pub compile_seconds: f64,
    /// Kernels found in the cache, and the seconds that took.
    pub cached: u64,
    pub cached_seconds: f64,
    /// Seconds spent to load machine code into the driver.
    pub load_seconds: f64,
    /// Seconds that the host spent to issue launches, where they were timed; without those that waited for a compiler.
    pub begin_seconds: f64,
    /// Accesses and divisions in the kernels' texts, and those that were not proved safe and are guarded.
    pub checkable: u64,
    pub guarded: u64,
    /// Seconds that kernels ran, where they were timed.
    pub kernel_seconds: f64,
    /// Bytes of device memory that arrays take, now and at the peak.
    pub held: u64,
    pub held_most: u64,
}

/// A device that a script selects by `on … { }`, or a user by `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    Sim,
    /// `gpu` without a number is the first one.
    Gpu(Option<u32>),
}

/// Access to the available devices. Each call for the same one returns the same device.
pub trait Devices: Send + Sync {
    fn open(&self, wanted: Wanted) -> Result<Arc<dyn Device>, DeviceError>;
}

/// A kernel compiled for a device.
pub trait Executable: Send + Sync {
    /// Runs the kernel. The arguments match the kernel's parameters (the host has checked types, ranks and dimensions). Returns
    /// the kernel's output. It may return before the kernel is over, unless the kernel prints, an argument is [`Arg::Write`] or
    /// [`Control::wait`] is set; a fault is then reported by a later launch, copy or [`Device::confirm`].
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>>;

    /// Announces launches with blocks of this shape, so that a device can prepare while the script continues.
    fn expect_blocks(&self, _block: [u32; 3]) {}
}
