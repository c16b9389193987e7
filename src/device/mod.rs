//! Layer 3: what can run DeviceIR. A device takes a prepared kernel and a launch, and gives back results or a fault.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use crate::base::source::Span;
use crate::ir::Prepared;
use crate::lang::scalar::Value;

pub mod cuda;
mod diagnose;
pub mod sim;

pub use diagnose::fault_diagnostic;

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
    /// Launches so far, for statistics.
    pub launches: Arc<AtomicU64>,
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
    StepLimit {
        steps: u64,
    },
    Interrupted,
    /// `step` of a `for` was zero.
    ZeroStep,
    /// A `shared` array's extent was negative, or more shared memory than `limit` was asked for.
    SharedSize {
        bytes: u64,
        limit: u64,
    },
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

    /// Translates a kernel into what the device runs. Done once per kernel and kept.
    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable>;
}

/// A kernel in a device's own form.
pub trait Executable: Send + Sync {
    /// Runs it to the end. The arguments fit the kernel's parameters (the host has checked types, ranks and dimensions).
    /// Returns what the kernel printed.
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>>;
}
