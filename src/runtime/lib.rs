//! Layer 3: devices that run DeviceIR. A device executes a launch of a prepared kernel, and returns the results or a
//! fault.

#![allow(rustdoc::private_intra_doc_links)]
// The JIT compiler generates x86-64 code, and WebAssembly builds have no GPU driver. Other targets do not use all of
// the code that these share with the interpreter.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports))]

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use clk_ir::Checks;
use clk_scalar::ScalarValue;

pub mod code_cache;
mod device;
mod diagnose;
mod disagreement;
pub mod exchange;
mod extents;
mod fault;
pub mod fault_record;
pub mod import;
mod isa;
mod launch_config;
pub mod launch_facts;
pub mod ordered;
pub mod plan_cache;
pub mod profile;
pub mod resident_arrays;
pub mod stall;
pub mod storage;
#[cfg(target_os = "linux")]
pub mod worker_process;
mod wrapper;
pub mod write_coverage;

pub use device::{
    BoxedTimestamp, Capabilities, Device, DeviceKind, DeviceMemory, DeviceSelector, Devices, Executable, Interop,
    MachineCode, PendingUpload, Statistics, ThreadStateGuard, Timestamp,
};
pub use diagnose::{
    RaceRemedy, are_indices_swapped, device_diagnostic, fault_diagnostic, fault_message, fault_title,
    thread_description,
};
pub use disagreement::{
    Cause, DifferingArray, Disagreement, DivergenceKind, DivergentOp, FUNCTION_ULPS, FirstDivergence, Variation,
};
pub use extents::{LaunchExtents, LaunchOrigin};
pub use fault::{
    AccessKind, LockAcquisition, Race, ReplayVerdict, ThreadId, WarpAccessCost, WarpMaskError, WorkerLoss, size,
};
pub use fault::{DeviceError, EarlierFault, Fault, FaultKind, PrintedText};
pub use isa::Isa;
pub use launch_config::LaunchConfig;
use storage::Storage;
pub use wrapper::DeviceWrapper;

/// One argument of a launch, in the order of `clk_ir::def::Kernel::params`.
pub enum Arg<'a> {
    /// A scalar, or the lanes of a vector.
    Value(Vec<ScalarValue>),
    /// The elements of an array that is only read.
    Read { bytes: &'a [u8], shape: Vec<u32> },
    /// The elements of an `out` or `inout` array. The slice is aligned to at least 16 bytes.
    Write { bytes: &'a mut [u8], shape: Vec<u32> },
    /// An array that is only read; its bytes may be on the host or on a device.
    Array { storage: &'a Storage, shape: Vec<u32> },
    /// An `out` or `inout` array; its bytes may be on the host or on a device.
    ArrayMut { storage: &'a mut Storage, shape: Vec<u32> },
}

impl Arg<'_> {
    /// Returns the shape of an array argument; `None` for a value.
    pub fn shape(&self) -> Option<&[u32]> {
        match self {
            Arg::Value(_) => None,
            Arg::Read { shape, .. } | Arg::Write { shape, .. } => Some(shape),
            Arg::Array { shape, .. } | Arg::ArrayMut { shape, .. } => Some(shape),
        }
    }
}

/// Options that all launches of a run share: limits, checks and what to record. [`LaunchConfig`] has the parameters of
/// one launch.
#[derive(Clone, Default)]
pub struct Control {
    /// Set by Ctrl-C: a launch stops soon after with [`FaultKind::Interrupted`].
    pub stop: Arc<AtomicBool>,
    /// Maximum number of loop iterations that a lane group executes in a launch; more raise [`FaultKind::StepLimit`]. 0
    /// means no limit. Tile loops that run as one collective operation are not counted.
    pub max_steps: u64,
    /// Number of worker threads of the simulator. 0 means one for each available processor.
    pub workers: usize,
    /// The checks of launches. Checks are compiled into the kernel, so that a change requires loading the kernel
    /// again.
    pub checks: Checks,
    /// Makes results reproducible that depend on the order of blocks, such as atomic sums of floats: they are computed
    /// as if blocks ran sequentially.
    pub deterministic: bool,
    /// Reverses the execution order of threads and blocks wherever the language does not specify one. For devices that
    /// otherwise use a fixed order.
    pub reverse_order: bool,
    /// The order in which blocks start if `reverse_order` is set.
    pub blocks: BlockOrder,
    /// Warnings and notes of checks, which do not stop the launch. The host collects them.
    pub warnings: Arc<Mutex<Vec<Fault>>>,
    /// Whether races between writes of equal values (W0601) are reported even if a fault ends the launch. Such a race
    /// disproves that the kernel is free of races; but since the launch did not end, it does not show that the result
    /// is independent of the order.
    pub keep_races: bool,
    /// For each access, the warp with the highest cost. Empty unless the kernel was prepared to count access costs. The
    /// host collects them.
    pub worst_accesses: Arc<Mutex<Vec<Fault>>>,
    /// Collects the cost of launches on the simulator, if set. Kernels must be prepared for that.
    pub counting: Option<profile::ProfileCollector>,
    /// Number of launches so far. Only used for statistics.
    pub launches: Arc<AtomicU64>,
    /// Progress of the current launch, for progress displays.
    pub progress: Arc<LaunchProgress>,
}

/// The order in which the blocks of a launch with [`Control::reverse_order`] start. One worker runs all blocks, so that
/// the result depends only on this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlockOrder {
    /// The blocks start in reverse order, beginning with the last one.
    #[default]
    Reversed,
    /// The blocks start in their usual order, beginning with the first one.
    InOrder,
    /// A rotation of the reversed order: the first `n` blocks start in reverse order, then all other blocks in reverse
    /// order. Only for grids whose blocks are all resident at once.
    Rotated(u64),
}

/// Facts about a launch that the compiled kernel may rely on. The host has verified that the arrays and the launch
/// geometry match the kernel's signature and its assumptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignaturePromise {
    /// The largest number of elements, or extent of an axis, of any array argument.
    pub largest: u64,
    /// Whether the host has verified that the elements of the arrays satisfy the signature's assumptions.
    pub promises: bool,
}

/// Whether other launches of a kernel may have a larger grid or a larger block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LargerDimensions {
    pub grid: bool,
    pub block: bool,
}

/// Number of started thread groups of a launch, and total number of thread groups. Both remain 0 on devices that do not
/// track progress.
#[derive(Debug, Default)]
pub struct LaunchProgress {
    pub started: AtomicU64,
    pub total: AtomicU64,
    pub stalls: Arc<stall::Stalls>,
}
