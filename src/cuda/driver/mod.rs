//! The interface to a GPU driver: memory, copies, modules and launches, all ordered by one stream. [`nvidia`]
//! implements it for real GPUs. Tests use a fake driver whose memory is host memory.

pub mod nvidia;
pub(crate) mod shared_ptr;

use std::borrow::Cow;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::text::abi::{MAX_AXES, TmaBox};
use clk_runtime::import::ForeignStream;

/// An address in GPU memory; 0 means that there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DevicePtr(pub u64);

/// Handle of a module: machine code that has been loaded into the GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverModule(pub usize);

/// Handle of a function in a module that can be launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverFunction(pub usize);

/// Handle of a CUDA event: a recorded position in a stream, with the time at which it was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEvent(pub usize);

/// Handle of a CUDA graph: a sequence of launches that one call starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Graph(pub usize);

/// Properties of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Properties {
    /// The driver's name of the GPU.
    pub name: String,
    /// The ordinal of the GPU, which is the `N` in `gpu:N`.
    pub ordinal: u32,
    /// The compute capability as a number, for example 90 for `sm_90`.
    pub architecture: u32,
    /// Size of the GPU's memory in bytes.
    pub memory: u64,
    pub multiprocessors: u32,
    /// Maximum shared memory of a block in bytes, after opting in.
    pub shared_per_block: u32,
    /// The maximum number of blocks of a grid along x, y and z.
    pub grid: [u32; 3],
    /// The CUDA version that the driver supports, for example 13000 for 13.0.
    pub driver: u32,
}

/// The geometry of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchShape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
    /// Whether the launch is cooperative: all blocks are resident at once and may wait for each other.
    pub cooperative: bool,
}

/// An argument of a launch, in a form that can be stored and sent to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DriverArgument {
    /// A number, or the lanes of a vector stored contiguously: the first `len` of these bytes.
    Value {
        bytes: [u64; 4],
        #[serde(deserialize_with = "value_len")]
        len: u8,
    },
    /// An address in GPU memory, or 0 for none.
    Address(DevicePtr),
    /// A 128-byte descriptor of an array for the tensor memory accelerator (TMA).
    Map(TensorMap),
}

/// Deserializes the number of bytes of a [`DriverArgument::Value`].
fn value_len<'a, D: Deserializer<'a>>(from: D) -> Result<u8, D::Error> {
    let len = u8::deserialize(from)?;
    if len <= 32 { Ok(len) } else { Err(D::Error::custom("a value has at most 32 bytes")) }
}

/// The element types of arrays that TMA copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapElement {
    F16,
    Bf16,
    /// `f32`, which the copy rounds to tf32 (to nearest, ties to even).
    Tf32,
}

impl MapElement {
    pub const ALL: [MapElement; 3] = [MapElement::F16, MapElement::Bf16, MapElement::Tf32];

    /// Returns the size of an element in bytes.
    pub fn size(self) -> u64 {
        if self == MapElement::Tf32 { 4 } else { 2 }
    }
}

/// Describes a contiguous array of up to five axes, from which TMA copies boxes (rectangular windows) to shared memory.
/// A box consists of rows of 128 bytes. The 16-byte chunk `k` of row `r` is stored at position `k XOR (r mod 8)`.
/// Elements of a box outside the array become zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMap {
    /// The address of the array, a multiple of 16.
    pub address: DevicePtr,
    pub element: MapElement,
    /// `axes` is the number of axes (at least 2), and `extents` has the positive extents along them, last axis first.
    /// The bytes along the last axis are a multiple of 16.
    pub axes: u32,
    pub extents: [u32; MAX_AXES],
    /// The shape of a box. An extent may span at most 256 indices, including skipped ones, and a step is at most 8.
    pub tma_box: TmaBox,
}

/// A launch, in a form that can be stored and sent to another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverLaunch {
    pub function: DriverFunction,
    pub shape: LaunchShape,
    /// The arguments, in the order of the function's parameters.
    pub arguments: Vec<DriverArgument>,
}

/// 32-bit words in GPU memory whose addresses are `pitch` bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StridedWords {
    pub first: DevicePtr,
    pub pitch: u64,
    pub count: u64,
}

/// The error of a driver call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriverError {
    /// The name of the driver's function.
    pub call: Cow<'static, str>,
    /// The call's result code (`CUresult`).
    pub code: u32,
    /// The name of the result code, for example `CUDA_ERROR_OUT_OF_MEMORY`.
    pub name: String,
}

impl DriverError {
    /// The code of `CUDA_ERROR_OUT_OF_MEMORY`. After this error, the context remains usable.
    pub const OUT_OF_MEMORY: u32 = 2;

    /// Returns the error of a call that a driver does not support.
    pub fn not_supported(call: &'static str) -> DriverError {
        DriverError { call: call.into(), code: 801, name: "CUDA_ERROR_NOT_SUPPORTED".into() }
    }

    pub fn is_out_of_memory(&self) -> bool {
        self.code == Self::OUT_OF_MEMORY
    }

    /// Returns whether the error is sticky: after it, every further GPU call of this process fails. Examples are errors
    /// for an illegal or misaligned address, a failed assertion, or a trap.
    pub fn is_sticky(&self) -> bool {
        (700..=720).contains(&self.code) && ![701, 704, 705].contains(&self.code) || self.code == 999
    }
}

/// The reason why a GPU cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GpuUnavailable {
    #[error("NVIDIA's driver (libcuda.so.1) is not installed")]
    NoDriver,
    #[error("NVIDIA's driver finds no GPU")]
    NoDevice,
    /// The ordinal `wanted` is too large for the number of GPUs.
    #[error("{}", no_such_device(*.wanted, *.count))]
    NoSuchDevice { wanted: u32, count: u32 },
    /// Initializing the driver, or querying the GPU, failed.
    #[error("NVIDIA's driver does not start: {} says {}", .0.call, .0.name)]
    Refused(DriverError),
    /// The driver is older than the oldest supported version.
    #[error("NVIDIA's driver is too old: it is for CUDA {}.{}", .driver / 1000, .driver % 1000 / 10)]
    TooOld { driver: u32 },
    /// The driver's library lacks a function that Clk calls.
    #[error("NVIDIA's driver is not whole: its library has no `{function}`; installing it again may help")]
    Lacks { function: &'static str },
}

impl From<GpuUnavailable> for DriverError {
    fn from(error: GpuUnavailable) -> DriverError {
        match error {
            GpuUnavailable::Refused(error) => error,
            other => DriverError { call: "the driver".into(), code: 100, name: other.to_string() },
        }
    }
}

fn no_such_device(wanted: u32, count: u32) -> String {
    match count {
        1 => format!("there is one GPU, `gpu:0`, and no `gpu:{wanted}`"),
        _ => format!("there are {count} GPUs, the last is `gpu:{}`", count - 1),
    }
}

/// What a sticky error of the worker process caused.
#[derive(Clone, Debug, PartialEq)]
pub struct StickyError {
    /// The number of the launch that was running, if any, counted from 1.
    pub launch: Option<u64>,
    /// Number of launches that were queued after `launch` and did not start.
    pub waiting: usize,
    /// Whether the user interrupted the launch, so the worker was killed.
    pub stopped: bool,
    /// Seconds until a new worker was ready, or `None` if it could not be started.
    pub replaced: Option<f64>,
    /// The reason why no new worker could be started.
    pub problem: Option<String>,
}

pub type DriverResult<T = ()> = Result<T, DriverError>;

/// An address in the memory of another GPU.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// The ordinal of the other GPU.
    pub ordinal: u32,
    pub address: DevicePtr,
}

/// The driver of one GPU. Operations execute in the order of the calls, but most calls return before their operation is
/// done. No method has a default, so that each driver decides about it.
pub trait Driver: Send + Sync {
    fn properties(&self) -> &Properties;

    /// Makes the GPU's context current on this thread and returns the handle of its stream. Returns `None` if the
    /// context belongs to another process.
    fn stream(&self) -> Option<usize>;

    /// Allocates this many bytes (more than 0), uninitialized.
    fn allocate(&self, bytes: u64) -> DriverResult<DevicePtr>;

    /// Frees memory once all earlier operations are done.
    fn free(&self, address: DevicePtr);

    fn zero(&self, address: DevicePtr, bytes: u64) -> DriverResult;

    /// Copies bytes to the GPU. The caller may change the bytes as soon as the call returns.
    fn upload(&self, to: DevicePtr, bytes: &[u8]) -> DriverResult;

    /// Returns whether [`Driver::upload_overlapped`] overlaps with kernels.
    fn can_overlap_uploads(&self) -> bool;

    /// Begins a copy to the GPU once a recorded event is reached; the copy overlaps with all other operations. Any
    /// thread may call this. Callers must [`Driver::wait`] for the returned event before operations that use the bytes.
    fn upload_overlapped(&self, to: DevicePtr, bytes: &[u8], after: StreamEvent) -> DriverResult<StreamEvent>;

    /// Pins pages of host memory, so that copies from and to them need no staging buffer.
    ///
    /// # Safety
    /// The bytes stay at their address until [`Driver::unlock`].
    unsafe fn lock(&self, bytes: &[u8]) -> DriverResult;

    /// Unpins the pages that one call of [`Driver::lock`] pinned, beginning at this address.
    fn unlock(&self, start: usize);

    /// Copies bytes from the GPU after all earlier operations. Returns when the copy is done.
    fn download(&self, from: DevicePtr, bytes: &mut [u8]) -> DriverResult;

    /// Copies within GPU memory.
    fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: u64) -> DriverResult;

    /// Copies from the memory of another GPU once the events `after` are reached, and records `done` at the end. The
    /// copy overlaps with this GPU's work. Both GPUs must wait for `done` ([`Driver::wait`]) before other operations
    /// use the memory.
    fn copy_from_peer(
        &self,
        to: DevicePtr,
        from: Peer,
        bytes: u64,
        after: [StreamEvent; 2],
        done: StreamEvent,
    ) -> DriverResult;

    /// Loads machine code (a cubin).
    fn load(&self, cubin: &[u8]) -> DriverResult<DriverModule>;

    fn unload(&self, module: DriverModule);

    /// Returns the function with this name in a module.
    fn function(&self, module: DriverModule, name: &str) -> DriverResult<DriverFunction>;

    /// Allows a function more dynamic shared memory than the default of 48 KiB.
    fn allow_shared(&self, function: DriverFunction, bytes: u32) -> DriverResult;

    /// Returns the size in bytes of a function's static shared memory.
    fn static_shared(&self, function: DriverFunction) -> u32;

    /// Returns the maximum number of a function's blocks that can be resident on the whole GPU at once, which limits
    /// cooperative launches.
    fn resident_blocks(&self, function: DriverFunction, threads: u32, shared: u32) -> DriverResult<u32>;

    /// Launches a function.
    ///
    /// # Safety
    /// The arguments match the kernel's parameters in number and size; addresses among them belong to memory that is
    /// not freed before this call returns.
    unsafe fn launch(
        &self,
        function: DriverFunction,
        shape: &LaunchShape,
        arguments: &[DriverArgument],
    ) -> DriverResult;

    /// Creates a graph that runs these launches sequentially. None of them may be cooperative.
    ///
    /// # Safety
    /// The conditions of [`Driver::launch`] hold whenever the graph is run.
    unsafe fn graph(&self, launches: &[DriverLaunch]) -> DriverResult<Graph>;

    /// Starts a graph after replacing the launches at these positions; a replacement has the same function as the
    /// replaced launch. Earlier starts of the graph are not affected.
    ///
    /// # Safety
    /// The conditions of [`Driver::graph`] hold for the graph after the replacements.
    unsafe fn run_graph(&self, graph: Graph, changes: &[(usize, &DriverLaunch)]) -> DriverResult;

    /// Destroys a graph. Launches that the graph has already started finish normally.
    fn forget_graph(&self, graph: Graph);

    /// Returns the device address of a flag in host memory that kernels can write. The flag is 0 until a kernel writes
    /// it.
    fn flag(&self) -> DriverResult<DevicePtr>;

    /// Returns whether a kernel has written the flag. Without a wait for the kernel, the write may not be visible yet.
    /// The call only reads a word of host memory.
    fn is_flag_set(&self) -> bool;

    /// Resets the flag to 0.
    fn clear_flag(&self);

    /// Waits for all pending operations. Returns an error if one of them failed.
    fn synchronize(&self) -> DriverResult;

    /// Returns whether no operations are pending.
    fn is_idle(&self) -> DriverResult<bool>;

    /// Returns whether all operations before a recorded event are done.
    fn is_event_reached(&self, event: StreamEvent) -> DriverResult<bool>;

    /// Writes a value to words in GPU memory immediately, while kernels run. [`Driver::flag`] must have been called
    /// before these kernels were launched.
    fn write_words_now(&self, words: StridedWords, value: u32) -> DriverResult;

    /// Returns the number of free bytes and of all bytes of the GPU's memory.
    fn memory(&self) -> DriverResult<(u64, u64)>;

    /// Returns unused memory of the memory pool to the system. Waits for pending operations.
    fn trim(&self) -> DriverResult;

    fn event(&self) -> DriverResult<StreamEvent>;

    fn record(&self, event: StreamEvent) -> DriverResult;

    /// Makes all later operations wait for the pending work of another stream of this process.
    fn wait_for_stream(&self, stream: ForeignStream) -> DriverResult;

    /// Makes all later operations of these streams of this process wait for the pending work of this driver's stream.
    fn make_streams_wait_for_this(&self, streams: &[ForeignStream]) -> DriverResult;

    /// Waits for all operations of all streams of this process, including those that other libraries created.
    fn quiet(&self) -> DriverResult;

    /// Makes all later operations wait for a recorded event of this GPU or of another GPU that this process uses.
    fn wait(&self, event: StreamEvent) -> DriverResult;

    /// Returns the milliseconds between two recorded events. Waits for the second event.
    fn elapsed(&self, from: StreamEvent, to: StreamEvent) -> DriverResult<f64>;

    fn forget_event(&self, event: StreamEvent);

    /// Converts an address to the one that kernels can dereference. This is necessary for addresses that are stored in
    /// GPU memory. The driver itself converts the arguments of launches.
    fn resolve(&self, address: DevicePtr) -> DriverResult<u64>;

    /// Declares that GPU memory contains resolved addresses, as pairs of a location and an address. The driver must
    /// keep them valid until the memory is freed.
    fn hold(&self, addresses: &[(DevicePtr, DevicePtr)]);

    /// Returns the number of launches so far, where a graph is one launch. Drivers that need not identify a lost launch
    /// return 0.
    fn launched(&self) -> u64;

    /// Returns what the last sticky error caused, once, if the driver recovers from such errors.
    fn take_sticky_error(&self) -> Option<StickyError>;
}
