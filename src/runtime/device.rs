//! The interface of a device: [`Device`] runs kernels, [`DeviceMemory`] holds arrays in memory of its own, and
//! [`Interop`] shares this memory with other libraries. [`Capabilities`] describes what the host chooses kernels and
//! copies by. `docs/internals/backends.md` explains how to write a back end.

use std::any::Any;
use std::sync::Arc;

use clk_base::aligned::BufferGuard;
use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;

use super::exchange::{CollectiveDevice, CollectiveError};
use super::import::{ForeignStream, ImportedBuffer};
use super::isa::Isa;
use super::storage::{DeviceBytes, Storage};
use super::{Arg, Control, DeviceError, Fault, LaunchConfig, PrintedText};

/// A device that runs kernels: the simulator, a GPU.
///
/// No method has a default, so that a back end decides about each. A device that changes some methods of another device
/// implements [`DeviceWrapper`](super::DeviceWrapper) instead.
pub trait Device: Send + Sync {
    /// Returns the device's name for `--device`: `sim`, `gpu:0`.
    fn name(&self) -> String;

    /// Returns the device model, such as `sim` or `NVIDIA H200`. It is part of the key of data that is stored on disk.
    fn model(&self) -> String;

    /// Returns the properties by which the host chooses kernels and checks. They never change.
    fn capabilities(&self) -> Capabilities;

    /// Returns whether kernels that are named in the source are compiled so that a debugger can show all source
    /// variables ([`PreparedKernel::is_unoptimized`]). It is not one of the capabilities, because the host asks before
    /// it compiles, and a kernel with an error should not open a device.
    fn shows_variables(&self) -> bool;

    /// Returns the device's own memory; `None` if kernels use the memory of the host.
    fn memory(&self) -> Option<&dyn DeviceMemory>;

    /// Returns the interface to other libraries that use the device; `None` if they cannot share arrays with it.
    fn interop(&self) -> Option<&dyn Interop>;

    /// Compiles a kernel for the device; called once per kernel. Compilation may continue in the background; the first
    /// launch then reports a compilation error. With `sources`, the device may generate line information.
    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable>;

    /// Returns the interface for collective operations with devices of other processes, or the reason why the device
    /// does not support them.
    fn collectives(&self) -> Result<Box<dyn CollectiveDevice>, CollectiveError>;

    /// Waits for all pending operations.
    fn finish(&self) -> Result<(), DeviceError>;

    /// Waits for asynchronous launches that may still report a fault, and returns the first fault as
    /// [`DeviceError::EarlierLaunch`].
    fn report_pending_faults(&self) -> Result<(), DeviceError>;

    /// Begins a batch: the device may delay launches until the batch ends or an operation has to wait for them.
    fn begin_batch(&self);

    /// Ends the batch of [`Device::begin_batch`]; batches may be nested.
    fn end_batch(&self) -> Result<(), DeviceError>;

    /// Records a timestamp that the device takes on its own clock after all pending operations. `None` for synchronous
    /// devices, for which the host's clock suffices.
    fn record_timestamp(&self) -> Option<BoxedTimestamp>;

    /// Returns the number of bytes that were evicted to the host so far because the device's memory was full. The host
    /// calls this after each statement, so it must be cheap.
    fn spilled(&self) -> u64;

    /// Returns statistics of the device so far.
    fn statistics(&self) -> Statistics;
}

/// The memory of a device whose kernels do not use the host's memory. Arrays are copied to it before a launch, and
/// results are copied back when the host reads them.
pub trait DeviceMemory {
    /// Returns the size of the memory in bytes, if it is known.
    fn size(&self) -> Option<u64>;

    /// Reserves memory for an upload that overlaps with running kernels; `None` if the device does not support that.
    /// With `spare`, the call fails if memory is full, instead of evicting an array.
    fn reserve_upload(&self, bytes: usize, spare: bool) -> Result<Option<Box<dyn PendingUpload>>, DeviceError>;

    /// Copies an array to the memory, as a launch that reads it would.
    fn upload(&self, storage: &Storage) -> Result<(), DeviceError>;

    /// Pins pages of host memory, so that copies need no staging buffer. Returns `None` if that fails, or if it would
    /// pin too much of this machine's memory.
    ///
    /// # Safety
    /// The bytes stay at their address until the guard is dropped.
    unsafe fn pin(&self, bytes: &[u8]) -> Option<BufferGuard>;
}

/// Sharing of arrays with other libraries in the same process that use the same GPU; see [`import`](super::import).
pub trait Interop {
    /// Returns a guard for a call from a thread of another library. When it is dropped, it restores the state of the
    /// driver that belongs to the thread and that operations of this device change.
    fn preserve_thread_state(&self) -> ThreadStateGuard;

    /// Imports a buffer of another library as the memory of an array, which kernels use in place. With `copied`, the
    /// array gets a copy of the buffer instead.
    ///
    /// # Safety
    /// The buffer stays allocated in that GPU's memory until `keep_alive` is dropped. Its address is a multiple of 16
    /// unless `copied` is set. The stream exists. After the last use, the caller calls [`Device::finish`], or
    /// [`Interop::order_streams_after`] with that stream. Until then no other code accesses the buffer, or writes it if
    /// the array is only read.
    unsafe fn import_buffer(&self, lent: &ImportedBuffer, copied: bool) -> Result<Arc<dyn DeviceBytes>, DeviceError>;

    /// Copies an array's bytes to an imported buffer of the same size, after all pending work of the device. Does
    /// nothing if the array is stored in that buffer.
    ///
    /// # Safety
    /// The requirements of [`Interop::import_buffer`] hold, and the caller may write the buffer.
    unsafe fn write_back(&self, lent: &ImportedBuffer, storage: &Storage) -> Result<(), DeviceError>;

    /// Ensures that an array is in device memory that is neither imported nor shared, by copying it if necessary.
    /// Returns that memory, whose address does not change while the caller holds it.
    fn make_owned(&self, storage: &mut Storage) -> Result<Arc<dyn DeviceBytes>, DeviceError>;

    /// Makes later work of these streams of another library wait for all pending operations of the device. If a pending
    /// operation may report a fault, the host waits instead, as in [`Device::finish`].
    fn order_streams_after(&self, streams: &[ForeignStream]) -> Result<(), DeviceError>;
}

/// Restores the driver's state of a thread when dropped ([`Interop::preserve_thread_state`]).
pub type ThreadStateGuard = Box<dyn Any>;

/// Properties of a device by which the host chooses kernels, checks and how to measure. [`Device::memory`] tells
/// whether arrays must be copied to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The kind of device, which determines the selectors of further devices for shards.
    pub kind: DeviceKind,
    /// Whether the device supports [`Checks`](clk_ir::Checks).
    pub checks: bool,
    /// The instruction set with which the host may compute results itself instead of launching a kernel; `None` if all
    /// results must come from kernels.
    pub host_instruction_set: Option<Isa>,
    /// The maximum size of shared memory per block in bytes; `None` if the host need not choose kernels by it.
    pub shared_memory_per_block: Option<u32>,
    /// Whether launches return before their kernels end. Launches can then be queued, and the time of the call is not
    /// the time of the kernel. Stop requests need not interrupt kernels, since the host does not wait for them.
    pub asynchronous: bool,
    /// Whether array expressions use the kernels for GPUs, which have many small threads and cache rows in shared
    /// memory.
    pub gpu_kernels: bool,
    /// Whether compilation takes so long that kernels should be loaded before their first launch.
    pub slow_compilation: bool,
    /// Whether `mma` adds in the order of the hardware's matrix units, even if the program asks for sequential sums.
    pub fixed_mma_order: bool,
}

impl Capabilities {
    /// A device that runs kernels synchronously in the host's memory and supports nothing else.
    pub const SYNCHRONOUS: Capabilities = Capabilities {
        kind: DeviceKind::Simulator,
        checks: false,
        host_instruction_set: None,
        shared_memory_per_block: None,
        asynchronous: false,
        gpu_kernels: false,
        slow_compilation: false,
        fixed_mma_order: false,
    };
}

/// The kinds of devices that a program can select by number ([`DeviceSelector`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A virtual device of the simulator.
    Simulator,
    Gpu,
}

/// Reserved device memory for an upload that overlaps with kernels.
pub trait PendingUpload: Send {
    /// Copies `bytes`, which has the reserved length. May be called from any thread. Returns as soon as the caller may
    /// reuse `bytes`; device operations that use the copy wait until it is complete.
    fn copy(self: Box<Self>, bytes: &[u8]) -> Result<Arc<dyn DeviceBytes>, DeviceError>;
}

/// A point in time on a device's clock.
pub trait Timestamp {
    /// Returns the seconds from an earlier timestamp of the same device to this one. Waits until the device has reached
    /// this timestamp.
    fn seconds_since(&self, earlier: &dyn Timestamp) -> Option<f64>;

    /// Returns `self` as [`Any`], so that the device can downcast it to its own type.
    fn as_any(&self) -> &dyn Any;
}

pub type BoxedTimestamp = Box<dyn Timestamp>;

/// Statistics of a device: counts, bytes and seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    pub launches: u64,
    /// Number of launches in which a whole-kernel matrix product ran on matrix units (such as tensor cores) instead of
    /// the kernel's body.
    pub on_matrix_units: u64,
    /// Number of copies from the host to the device.
    pub uploads: u64,
    /// Number of bytes copied from the host to the device.
    pub uploaded: u64,
    /// Number of these bytes whose copies overlapped with kernels and did not delay a launch.
    pub overlapped_upload_bytes: u64,
    /// Number of copies from the device to the host.
    pub downloads: u64,
    /// Number of bytes copied from the device to the host.
    pub downloaded: u64,
    /// Number of kernels that were compiled.
    pub compiled: u64,
    /// Total compile time in seconds.
    pub compile_seconds: f64,
    /// Number of kernels that were found in the kernel cache.
    pub cached: u64,
    /// Total lookup time in the kernel cache, in seconds.
    pub cached_seconds: f64,
    /// Seconds spent loading machine code into the driver.
    pub load_seconds: f64,
    /// Seconds that the host spent issuing launches, if launches are timed. Launches that waited for compilation are
    /// excluded.
    pub issue_seconds: f64,
    /// Number of array accesses and integer divisions in the generated code.
    pub checkable_ops: u64,
    /// Number of these operations that have a run-time guard, because they could not be proved safe.
    pub guarded: u64,
    /// Total run time of kernels in seconds, if launches are timed.
    pub kernel_seconds: f64,
    /// Bytes of device memory that arrays occupy now.
    pub array_bytes: u64,
    /// Maximum of `array_bytes` so far.
    pub peak_array_bytes: u64,
    /// Statistics of the simulator's JIT compiler.
    pub machine_code: Option<MachineCode>,
}

/// Statistics of the simulator's JIT compiler. It compiles regions of kernels to machine code; the interpreter executes
/// the other regions.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineCode {
    /// Number of regions in the loaded kernels.
    pub regions: u64,
    /// Number of these regions that were compiled.
    pub compiled: u64,
    /// Total size of the machine code in bytes.
    pub bytes: u64,
    /// Total compile time in seconds.
    pub seconds: f64,
    /// Number of times that thread groups entered machine code.
    pub entered: u64,
    /// Number of times that thread groups left machine code for the interpreter.
    pub left: u64,
}

/// The selection of a device by `on … { }` in a script or by the option `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceSelector {
    /// The simulator, or with a number one of its virtual devices (`--device sim:N`).
    Sim(Option<u32>),
    /// The GPU with this number. `gpu` without a number selects the first GPU.
    Gpu(Option<u32>),
}

/// Provides access to the available devices. Calls with the same selector return the same device.
pub trait Devices: Send + Sync {
    fn open(&self, wanted: DeviceSelector) -> Result<Arc<dyn Device>, DeviceError>;
}

/// A kernel compiled for a device.
pub trait Executable: Send + Sync {
    /// Runs the kernel and returns its output. The arguments match the kernel's parameters: the host has checked types,
    /// ranks and dimensions. The call may return before the kernel ends, unless the kernel prints, an argument is
    /// [`Arg::Write`], or [`LaunchConfig::wait`] is set. In that case a fault is reported by a later launch, by a copy,
    /// or by [`Device::report_pending_faults`].
    fn launch(&self, config: &LaunchConfig, args: &mut [Arg<'_>], control: &Control)
    -> Result<PrintedText, Box<Fault>>;

    /// Returns whether the compiled kernel relies on the signature's assumptions about array elements. If so, the host
    /// should verify them before each launch ([`SignaturePromise::promises`](super::SignaturePromise)).
    fn depends_on_promises(&self) -> bool;

    /// Announces that launches with this block shape will follow, so that the device can compile for it in the
    /// background.
    fn prepare_block_shape(&self, block: [u32; 3]);
}
