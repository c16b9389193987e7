//! The interface between the list of devices and its entries for GPUs, and the options of the command line for devices.

#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::perf_map;
use clk_cuda::TensorInstructions;
use clk_runtime::code_cache::CacheStore;
use clk_runtime::import::ForeignStream;
#[cfg(target_os = "linux")]
use clk_runtime::worker_process::{ChildRole, Starter};
use clk_runtime::{Device, DeviceError, Isa, ThreadStateGuard};
use clk_sim::{Jit, Proofs};

/// Whether GPU kernels run in a separate process, so that a kernel that destroys its GPU context does not end this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Isolate {
    #[default]
    No,
    /// Isolates kernels if the system supports it. Otherwise reports this, and runs kernels in this process.
    IfPossible,
    Yes,
}

/// Options of the command line for the code that GPUs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GpuCodeOptions {
    /// Whether accesses and divisions that are not proved safe have a guard, which reports a fault.
    pub checked: bool,
    /// Whether each thread of a `threads` kernel may process several indices.
    pub coarsen: bool,
    /// Whether the code may use approximate functions and divisions, and flush subnormals to zero.
    pub fast_math: bool,
    /// Whether `a * b + c` may be contracted to an FMA, which rounds once.
    pub contract: bool,
}

impl Default for GpuCodeOptions {
    fn default() -> GpuCodeOptions {
        GpuCodeOptions { checked: true, coarsen: true, fast_math: false, contract: false }
    }
}

/// What a back end needs to open a GPU.
pub(crate) struct GpuSetup<'a> {
    pub options: &'a DeviceOptions,
    /// The cache of compiled kernels, if there is a directory for it.
    pub store: Option<Arc<dyn CacheStore>>,
    /// Whether kernels run in child processes.
    #[cfg(target_os = "linux")]
    pub isolate: Isolate,
    /// Starts child processes.
    #[cfg(target_os = "linux")]
    pub starter: Arc<dyn Starter>,
    /// The device that repeats a launch which was lost with its child process.
    #[cfg(target_os = "linux")]
    pub replay_device: Arc<dyn Device>,
}

/// The reason why a back end cannot use its GPUs.
pub(crate) type BackEndError = Box<dyn std::error::Error + Send + Sync>;

/// A back end for GPUs: an entry in the list of [`devices`](super).
pub(crate) trait GpuBackEnd: Sync {
    /// Returns the number of GPUs, or the reason why there are none.
    fn count(&self) -> Result<u32, BackEndError>;

    /// Describes a GPU, or says why it cannot be used.
    fn describe(&self, number: u32) -> String;

    /// Opens a GPU.
    fn open(&self, number: u32, setup: GpuSetup<'_>) -> Result<Arc<dyn Device>, DeviceError>;

    /// Returns the names and versions of the libraries that the back end needs, for `clk doctor`.
    fn libraries(&self) -> Vec<(&'static str, String)>;

    /// Runs a child process of GPU isolation until the program ends. `segment` is a descriptor of a
    /// [`SharedSegment`](clk_runtime::worker_process::SharedSegment).
    #[cfg(target_os = "linux")]
    fn serve(&self, role: ChildRole, number: u32, socket: UnixStream, segment: OwnedFd) -> std::io::Result<()>;

    /// Like [`clk_runtime::Interop::preserve_thread_state`], for code without a device.
    fn preserve_thread_state(&self) -> ThreadStateGuard;

    /// Returns the stream of a GPU on which libraries that lend arrays order their pending work before Clk's.
    fn lender_stream(&self, number: u32) -> Result<ForeignStream, BackEndError>;

    /// Returns whether launches on a stream are currently recorded instead of executed.
    fn is_capturing(&self, stream: ForeignStream) -> bool;

    /// Returns the number of the GPU whose memory contains this address.
    fn owner_of(&self, address: u64) -> Option<u32>;
}

/// Options of the command line for devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceOptions {
    /// Whether to measure the duration of launches.
    pub timed: bool,
    /// Whether machine code carries line information.
    pub lines: bool,
    /// Options for the code that GPUs run.
    pub text: GpuCodeOptions,
    /// Which tensor core instructions the generated code may use.
    pub tensor: TensorInstructions,
    /// Whether `--mma` names the GPU generation whose `mma` results must be reproduced exactly.
    pub relies: bool,
    /// The host instruction set that the simulator uses.
    pub isa: Isa,
    /// When the simulator compiles kernels to machine code.
    pub jit: Jit,
    /// Whether the simulator omits a check if a proof rules out the error.
    pub proofs: Proofs,
    /// Whether to write a map of the simulator's machine code for `perf`.
    pub perf: perf_map::PerfMapOption,
    /// Whether the results of kernels must not depend on the order in which threads run.
    pub deterministic: bool,
}
