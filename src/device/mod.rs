//! Layer 3: what can run DeviceIR. A device takes a prepared kernel and a launch, and gives back results or a fault.

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
    /// `Form::Threads`: the extent of each index (unused ones are 1), the first varies slowest.
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
    /// Of an `out` or `inout` array. Bytes are aligned to 16 at least.
    Write { bytes: &'a mut [u8], shape: Vec<u32> },
    /// An array that is only read, wherever its bytes are.
    Array { storage: &'a Storage, shape: Vec<u32> },
    /// An `out` or `inout` array, wherever its bytes are.
    ArrayMut { storage: &'a mut Storage, shape: Vec<u32> },
}

impl Arg<'_> {
    /// Of an array.
    pub fn shape(&self) -> Option<&[u32]> {
        match self {
            Arg::Value(_) => None,
            Arg::Read { shape, .. } | Arg::Write { shape, .. } => Some(shape),
            Arg::Array { shape, .. } | Arg::ArrayMut { shape, .. } => Some(shape),
        }
    }
}

/// What bounds a launch from outside.
#[derive(Clone, Default)]
pub struct Control {
    /// Set by Ctrl-C: the launch stops soon after with [`FaultKind::Interrupted`].
    pub stop: Arc<AtomicBool>,
    /// Loop turns a thread group may take in total before [`FaultKind::StepLimit`]; 0 is no limit.
    pub max_steps: u64,
    /// Worker threads; 0 picks the machine's.
    pub workers: usize,
    /// What runs look for. A kernel is prepared for its checks: it is loaded anew if they change.
    pub checks: Checks,
    /// Sums of floats by atomics, and all else that depends on which block comes first, as if blocks ran one after the other.
    pub deterministic: bool,
    /// What can come in any order comes in the opposite of the usual one; for devices that have a usual one.
    pub backward: bool,
    /// The statement that launches, for faults that show later.
    pub launched: Span,
    /// Whether other launches of the kernel may have a larger grid or larger blocks, if the run wants to be told what this one cannot
    /// show.
    pub larger: Option<Larger>,
    /// The launch returns when it is over, with its own fault.
    pub wait: bool,
    /// What checks found that is no reason to stop, for the host to take.
    pub warnings: Arc<Mutex<Vec<Fault>>>,
    /// Launches so far, for statistics.
    pub launches: Arc<AtomicU64>,
    /// How far the launch is that runs now, for whoever wants to show it.
    pub progress: Arc<Progress>,
}

/// What is not the same in every launch of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Larger {
    pub grid: bool,
    pub block: bool,
}

/// Groups of a launch that were begun, of so many. A device that cannot tell leaves both at 0.
#[derive(Debug, Default)]
pub struct Progress {
    pub begun: AtomicU64,
    pub of: AtomicU64,
}

/// Text that kernels printed, in block order, to be shown by the host.
pub type Output = String;

/// Why a launch ended early, or what it was stopped for. One fault is one report: the first thread's, with the count of the others.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    pub kind: FaultKind,
    /// The expression or statement at fault.
    pub span: Span,
    /// The enclosing call, innermost first, where known.
    pub trace: Vec<Span>,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    /// `Form::Threads`: the index tuple instead of block and thread.
    pub index: Option<Vec<u32>>,
    /// How many other threads met the same fault at the same place (in the blocks that ran).
    pub others: u64,
    /// What the kernels had printed until then.
    pub output: Output,
}

#[derive(Clone, Debug, PartialEq)]
pub enum FaultKind {
    /// `indices` against `shape` of the array named `array`; `axis` is the first that does not fit.
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
    /// Some threads of the block (or warp) reached this barrier or warp operation, and others cannot any more.
    Divergence {
        what: &'static str,
        arrived: u32,
        expected: u32,
        elsewhere: Option<Span>,
    },
    /// Threads wait for what can no longer happen.
    Deadlock {
        detail: String,
    },
    /// Found by checks: a thread that has a lock takes another, and these others do so in another order. In this run they did not
    /// meet.
    LockOrder(Box<LockStep>, Vec<LockStep>),
    /// Found by checks. A warning if it is benign.
    Race(Box<Race>),
    /// `place` was read, and nobody had written it.
    Unwritten {
        place: String,
        /// `shared`, `local` or `out`
        space: &'static str,
    },
    /// A warning: these elements of an `out` array were not written when the kernel ended, `count` in all.
    Incomplete {
        array: String,
        places: Vec<String>,
        count: u64,
        total: u64,
    },
    /// A note: a launch of one block (of blocks of one warp) cannot show what goes wrong between two, for this reason.
    Unseen {
        warps: bool,
        reason: String,
    },
    /// A signed operation whose result does not fit: `2147483647 + 1`.
    Overflow {
        operation: String,
        ty: Scalar,
    },
    ShiftAmount {
        amount: Value,
        ty: Scalar,
    },
    /// `shuffle` from (`shuffle_xor` by) a lane that a warp of so many `lanes` does not have.
    /// The lanes that an operation of a warp names in `among` are not those that do it.
    Among {
        what: &'static str,
        /// The lane's mask, and the lane itself.
        mask: u32,
        lane: u32,
        wrong: Among,
    },
    NoLane {
        what: &'static str,
        lane: i64,
        lanes: u32,
    },
    /// A float that does not fit the integer type it is converted to.
    Conversion {
        value: Value,
        to: Scalar,
    },
    /// The first NaN or infinity: an operation on finite numbers, `0 / 0`.
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
    /// A `shared` array cannot have an axis of so many elements.
    SharedExtent {
        array: String,
        extent: i64,
    },
    /// More shared memory than `limit` was asked for; `u64::MAX` is more than can be counted.
    SharedSize {
        bytes: u64,
        limit: u64,
    },
    /// The device itself failed, or refuses the launch.
    Device(DeviceError),
    /// Two devices that ran the same launch do not agree.
    Disagreement(Box<both::Disagreement>),
    /// A note: they need not.
    Variation(Box<both::Variation>),
}

impl FaultKind {
    /// As the end of a launch that no thread is to blame for; `span` is the kernel's.
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

/// What is wrong with the lanes that a warp operation names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    /// The lane itself is not among them.
    Own,
    /// This one is, and is not there.
    Away(u32),
    /// This one is, and names others.
    Other(u32, u32),
    /// A shuffle asks for a lane that is not among them.
    Source(i64),
}

/// What a thread does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Reads,
    Writes,
    /// By an atomic operation.
    Updates,
    /// By an atomic load.
    Looks,
}

impl Deed {
    pub fn is_atomic(self) -> bool {
        matches!(self, Deed::Updates | Deed::Looks)
    }
}

/// A thread takes a lock while it has another.
#[derive(Clone, Debug, PartialEq)]
pub struct LockStep {
    pub(crate) who: Who,
    pub span: Span,
    /// `lock[0]`
    pub has: String,
    pub takes: String,
}

/// Two accesses to one place that nothing orders. The fault's own thread is the one whose access came second when it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Race {
    /// `s[63]`, `x[3, 4]`, `p[5].mass`
    pub place: String,
    /// In shared memory; else in global.
    pub shared: bool,
    pub(crate) deed: Deed,
    /// What the thread writes or finds, where known.
    pub value: Option<Value>,
    pub(crate) other: Who,
    pub(crate) other_deed: Deed,
    pub other_value: Option<Value>,
    pub other_span: Span,
    /// The two are in one block, in one warp.
    pub same_block: bool,
    pub same_warp: bool,
}

impl Race {
    /// Both write the same: nothing depends on who comes first.
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

/// Something that runs kernels: the simulator, a GPU.
pub trait Device: Send + Sync {
    /// As `--device` names it: `sim`, `gpu:0`.
    fn name(&self) -> String;

    /// Translates a kernel into what the device runs. Done once per kernel and kept. May return before the work is done;
    /// what goes wrong with it is the first launch's error.
    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable>;

    /// As [`Device::load`], of a kernel whose lines are in these sources, for devices that name lines to tools.
    fn load_named(&self, kernel: Arc<Prepared>, _sources: &Sources) -> Arc<dyn Executable> {
        self.load(kernel)
    }

    /// Whether kernels run on memory of the device's own, which arrays go to and come back from.
    fn is_remote(&self) -> bool {
        false
    }

    /// Whether its runs can look for what [`Checks`] name.
    fn is_watchful(&self) -> bool {
        false
    }

    /// Waits for everything under way.
    fn finish(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Waits for launches that may yet report a fault, and reports the first one's ([`DeviceError::Earlier`]); for devices whose
    /// launches return before they are over.
    fn confirm(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Launches from here on belong together, and may be begun together when the batch ends, or when something has to wait.
    fn begin_batch(&self) {}

    /// Ends what [`Device::begin_batch`] began; batches may be nested.
    fn end_batch(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Notes the time on the device's own clock, behind everything under way; none for devices that return when they are
    /// done, where the usual clock does.
    fn mark(&self) -> Option<Mark> {
        None
    }

    /// What the device did so far.
    fn statistics(&self) -> Statistics {
        Statistics::default()
    }
}

/// A moment on a device's clock.
pub trait Moment {
    /// Seconds from an earlier moment of the same device to this one; waits until it is reached.
    fn since(&self, earlier: &dyn Moment) -> Option<f64>;

    /// For the device, which knows its own.
    fn as_any(&self) -> &dyn std::any::Any;
}

pub(crate) type Mark = Box<dyn Moment>;

/// What a device did: counts, bytes and seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    pub launches: u64,
    /// Copies to the device, and their bytes.
    pub uploads: u64,
    pub uploaded: u64,
    /// Copies from the device, and their bytes.
    pub downloads: u64,
    pub downloaded: u64,
    /// Kernels that were compiled, and the seconds that took.
    pub compiled: u64,
    pub compile_seconds: f64,
    /// Kernels that the cache had, and the seconds it took to get them.
    pub cached: u64,
    pub cached_seconds: f64,
    /// Seconds in which machine code was handed to the driver.
    pub load_seconds: f64,
    /// Seconds that the host took to begin launches, where they were timed; without those that waited for a compiler.
    pub begin_seconds: f64,
    /// Accesses and divisions in the kernels' texts, and those that were not proved right and so are guarded.
    pub checkable: u64,
    pub guarded: u64,
    /// Seconds that kernels ran, where they were timed.
    pub kernel_seconds: f64,
    /// Bytes of the device's memory that arrays hold, now and at most.
    pub held: u64,
    pub held_most: u64,
}

/// What a script may ask for by `on … { }`, and a user by `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wanted {
    Sim,
    /// `gpu` is the first.
    Gpu(Option<u32>),
}

/// All devices there are. The same one is given out each time.
pub trait Devices: Send + Sync {
    fn open(&self, wanted: Wanted) -> Result<Arc<dyn Device>, DeviceError>;
}

/// A kernel in a device's own form.
pub trait Executable: Send + Sync {
    /// Runs it. The arguments fit the kernel's parameters (the host has checked types, ranks and dimensions).
    /// Returns what the kernel printed. It may return before the kernel is over, unless the kernel prints, an argument is
    /// [`Arg::Write`] or [`Control::wait`] is set; a fault shows in a later launch, copy or [`Device::confirm`] then.
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>>;

    /// Says that launches with blocks of this shape will come, so that a device can get ready while the script goes on.
    fn expect_blocks(&self, _block: [u32; 3]) {}
}
