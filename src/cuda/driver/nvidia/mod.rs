//! Implements the driver interface with NVIDIA's driver, through `cudarc`, which opens `libcuda.so.1` on the first
//! call.

mod guest;
mod host_copy;
#[cfg(target_os = "linux")]
mod shared;
mod staging;
mod symbols;

pub use guest::{ContextGuard, is_recorded, meeting, owner};
#[cfg(target_os = "linux")]
pub use shared::GpuByOrdinal;

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::result as cu;
use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute, CUresult};
use smallvec::SmallVec;

use self::host_copy::{HostCopyMode, MIN_STAGED_BYTES, Staging};
use self::symbols::Library;
use super::super::text::abi::MAX_AXES;
use super::{
    DevicePtr, Driver, DriverArgument, DriverError, DriverFunction, DriverLaunch, DriverModule, DriverResult,
    GpuUnavailable, Graph, LaunchShape, MapElement, Peer, Properties, StickyError, StreamEvent, StridedWords,
    TensorMap,
};
use clk_runtime::import::ForeignStream;

/// The oldest driver version that has all functions Clk calls.
const OLDEST: u32 = 12_000;

fn driver_error(call: &'static str, code: CUresult) -> DriverError {
    let name = cu::DriverError(code).error_name().map(|name| name.to_string_lossy().into_owned());
    DriverError {
        call: call.into(),
        code: code as u32,
        name: name.unwrap_or_else(|_| format!("CUresult {}", code as u32)),
    }
}

/// Converts the result of a driver function, and adds the function's name to an error.
fn check_call<T>(call: &'static str, result: Result<T, cu::DriverError>) -> DriverResult<T> {
    result.map_err(|error| driver_error(call, error.0))
}

/// Initializes the driver and returns its version. The first call in a process takes about 100 ms.
fn start() -> Result<u32, GpuUnavailable> {
    let library = Library::open().ok_or(GpuUnavailable::NoDriver)?;
    let whole =
        |lacking: Option<&'static str>| lacking.map_or(Ok(()), |function| Err(GpuUnavailable::Lacks { function }));
    whole(library.missing_start_function())?;
    check_call("cuInit", cu::init()).map_err(|driver_error| match driver_error.code {
        code if code == CUresult::CUDA_ERROR_NO_DEVICE as u32 => GpuUnavailable::NoDevice,
        _ => GpuUnavailable::Refused(driver_error),
    })?;
    let mut version = 0;
    // SAFETY: `version` is an integer.
    let result = unsafe { sys::cuDriverGetVersion(&mut version) }.result();
    check_call("cuDriverGetVersion", result).map_err(GpuUnavailable::Refused)?;
    let version = version as u32;
    if version < OLDEST {
        return Err(GpuUnavailable::TooOld { driver: version });
    }
    whole(library.missing_function())?;
    Ok(version)
}

/// Returns the number of GPUs.
pub fn count() -> Result<u32, GpuUnavailable> {
    start()?;
    let count = check_call("cuDeviceGetCount", cu::device::get_count()).map_err(GpuUnavailable::Refused)?;
    if count <= 0 { Err(GpuUnavailable::NoDevice) } else { Ok(count as u32) }
}

/// Returns the properties of a GPU, without creating a context.
pub fn probe(ordinal: u32) -> Result<Properties, GpuUnavailable> {
    let driver = start()?;
    let count = count()?;
    if ordinal >= count {
        return Err(GpuUnavailable::NoSuchDevice { wanted: ordinal, count });
    }
    properties(ordinal, driver).map_err(GpuUnavailable::Refused)
}

/// Returns an identifier that is unique among the GPUs of the machine: the location on the PCI bus.
pub(crate) fn identity(ordinal: u32) -> Option<String> {
    use Attribute::{
        CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
    };
    start().ok()?;
    let device = cu::device::get(ordinal as i32).ok()?;
    let attributes =
        [CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID];
    // SAFETY: the device handle is valid.
    let numbers = attributes.map(|which| unsafe { cu::device::get_attribute(device, which) }.ok());
    match numbers {
        [Some(domain), Some(bus), Some(device)] => Some(format!("{domain:x}:{bus:x}:{device:x}")),
        _ => None,
    }
}

fn name(device: sys::CUdevice) -> DriverResult<String> {
    let mut name = [0 as c_char; 128];
    // SAFETY: the buffer has this size.
    let result = unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device) };
    check_call("cuDeviceGetName", result.result())?;
    let bytes: Vec<u8> = name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn properties(ordinal: u32, driver: u32) -> DriverResult<Properties> {
    let device = check_call("cuDeviceGet", cu::device::get(ordinal as i32))?;
    let attribute = |which| {
        // SAFETY: the device handle is valid.
        check_call("cuDeviceGetAttribute", unsafe { cu::device::get_attribute(device, which) }).map(|n| n.max(0) as u32)
    };
    use Attribute::*;
    let major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok(Properties {
        name: name(device)?,
        ordinal,
        architecture: 10 * major + minor,
        // SAFETY: the device handle is valid.
        memory: check_call("cuDeviceTotalMem", unsafe { cu::device::total_mem(device) })? as u64,
        multiprocessors: attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        shared_per_block: attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        grid: [
            attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        driver,
    })
}

/// A GPU with its context, its streams and its memory pool.
pub(crate) struct Nvidia {
    properties: Properties,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// A second stream, for operations that must not wait for a running kernel.
    control_stream: sys::CUstream,
    /// A third stream, for uploads that overlap with kernels.
    upload_stream: sys::CUstream,
    /// A fourth stream, for copies from other GPUs that overlap with kernels.
    peer_stream: sys::CUstream,
    pool: sys::CUmemoryPool,
    staging: Mutex<Vec<Staging>>,
    /// Lengths of pinned ranges of host memory, by address.
    locked: Mutex<BTreeMap<usize, usize>>,
    flag: OnceLock<DriverResult<PinnedFlag>>,
    poking: Mutex<()>,
    /// The event with which streams wait for each other, created on first use. The lock is held from recording the
    /// event until all waits for it have been issued.
    host_wait_event: Mutex<Option<StreamEvent>>,
    /// Ordinals of the GPUs for which [`Nvidia::enable_peer_access`] has been called.
    peers: Mutex<Vec<u32>>,
}

// SAFETY: the driver may be called from any thread with these handles, and every call here makes the context current
// first.
unsafe impl Send for Nvidia {}
// SAFETY: as above; locks protect mutable state.
unsafe impl Sync for Nvidia {}

/// Grants GPU `user` access to the memory pool of GPU `owner`, if the hardware supports it.
fn open_pool(owner: u32, user: u32) {
    let (Ok(own), Ok(other)) = (cu::device::get(owner as i32), cu::device::get(user as i32)) else { return };
    let mut can = 0;
    // SAFETY: both device handles are valid, and `can` points to an integer.
    let result = unsafe { sys::cuDeviceCanAccessPeer(&mut can, other, own) };
    // SAFETY: as above.
    let pool = unsafe { cu::device::get_default_mem_pool(own) };
    if let (Ok(()), true, Ok(pool)) = (result.result(), can != 0, pool) {
        let location =
            sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: user as i32 };
        let access =
            sys::CUmemAccessDesc { location, flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
        // If this fails, copies are slower but correct. SAFETY: the pool belongs to the device, and `access` is one
        // description.
        let _ = unsafe { sys::cuMemPoolSetAccess(pool, &access, 1) };
    }
}

/// The flag (a word of pinned memory) with its device address, and a pinned buffer for [`Driver::write_words_now`]. The
/// buffer is allocated in advance, because pinned memory cannot be allocated while a kernel runs.
struct PinnedFlag {
    word: &'static AtomicU32,
    address: DevicePtr,
    word_buffer: *mut u32,
}

// SAFETY: only the holder of the `poking` lock uses the buffer.
unsafe impl Send for PinnedFlag {}
// SAFETY: as above.
unsafe impl Sync for PinnedFlag {}

/// `FLAG_LINE` is the number of bytes reserved for the flag: a cache line. The other constant is the number of words
/// that one copy writes.
const FLAG_LINE: usize = 64;
const WORDS_PER_WRITE: usize = 1024;

/// The driver's handles for a graph: the graph, its executable instance, and its nodes in launch order.
struct GraphHandles {
    graph: sys::CUgraph,
    ready: sys::CUgraphExec,
    nodes: Vec<sys::CUgraphNode>,
}

impl Drop for GraphHandles {
    fn drop(&mut self) {
        // SAFETY: both were created for this chain, or are null.
        unsafe {
            if !self.ready.is_null() {
                let _ = sys::cuGraphExecDestroy(self.ready);
            }
            let _ = sys::cuGraphDestroy(self.graph);
        }
    }
}

/// Calls `run` with the arguments in the form that the driver expects: pointers to the values. The driver copies the
/// values before it returns.
fn with_pointers<T>(arguments: &[DriverArgument], run: impl FnOnce(*mut *mut c_void) -> T) -> DriverResult<T> {
    const USUAL: usize = 24;
    let maps =
        arguments.iter().filter_map(|argument| if let DriverArgument::Map(map) = argument { Some(map) } else { None });
    let maps: Vec<sys::CUtensorMap> = maps.map(encode_tensor_map).collect::<DriverResult<_>>()?;
    let mut next = maps.iter();
    let mut of = |argument: &DriverArgument| -> *mut c_void {
        match argument {
            DriverArgument::Map(_) => next.next().map_or(null_mut(), |map| std::ptr::from_ref(map).cast_mut().cast()),
            DriverArgument::Value { bytes, .. } => bytes.as_ptr().cast_mut().cast(),
            DriverArgument::Address(address) => (&raw const address.0).cast_mut().cast(),
        }
    };
    if arguments.len() <= USUAL {
        let mut pointers = [null_mut(); USUAL];
        pointers.iter_mut().zip(arguments).for_each(|(slot, argument)| *slot = of(argument));
        Ok(run(pointers.as_mut_ptr()))
    } else {
        Ok(run(arguments.iter().map(of).collect::<Vec<_>>().as_mut_ptr()))
    }
}

/// Encodes a tensor map as a descriptor for the hardware.
fn encode_tensor_map(map: &TensorMap) -> DriverResult<sys::CUtensorMap> {
    use sys::CUtensorMapDataType as Type;
    let mut encode_tensor_map = sys::CUtensorMap { opaque: [0; 16] };
    let kind = match map.element {
        MapElement::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        MapElement::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        MapElement::Tf32 => Type::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    };
    let axes = map.axes as usize;
    let extents = map.extents.map(u64::from);
    let mut pitch = [map.element.size(); MAX_AXES];
    for axis in 0..axes {
        pitch[axis] = extents[axis] * if axis == 0 { map.element.size() } else { pitch[axis - 1] };
    }
    let mut tma_box = [1; MAX_AXES];
    for (axis, own) in tma_box.iter_mut().enumerate() {
        *own = (map.tma_box.extents[axis] - 1) * map.tma_box.steps[axis] + 1;
    }
    // SAFETY: each list has one number per axis, except the list of strides, which has one less. Kernels only read the
    // array.
    let result = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encode_tensor_map,
            kind,
            map.axes,
            map.address.0 as *mut c_void,
            extents.as_ptr(),
            pitch.as_ptr(),
            tma_box.as_ptr(),
            map.tma_box.steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    check_call("cuTensorMapEncodeTiled", result.result())?;
    Ok(encode_tensor_map)
}

/// Calls `run` with the node parameters of a launch.
fn with_node_params<T>(launch: &DriverLaunch, run: impl FnOnce(&sys::CUDA_KERNEL_NODE_PARAMS) -> T) -> DriverResult<T> {
    let ([gx, gy, gz], [bx, by, bz]) = (launch.shape.grid, launch.shape.block);
    with_pointers(&launch.arguments, |pointers| {
        run(&sys::CUDA_KERNEL_NODE_PARAMS {
            func: launch.function.0 as sys::CUfunction,
            gridDimX: gx,
            gridDimY: gy,
            gridDimZ: gz,
            blockDimX: bx,
            blockDimY: by,
            blockDimZ: bz,
            sharedMemBytes: launch.shape.shared,
            kernelParams: pointers,
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        })
    })
}

impl Nvidia {
    /// Creates the GPU's primary context, which takes about 100 ms.
    pub fn open(properties: Properties) -> DriverResult<Nvidia> {
        let device = check_call("cuDeviceGet", cu::device::get(properties.ordinal as i32))?;
        // SAFETY: the device handle is valid; the context is retained until the process ends.
        let context = check_call("cuDevicePrimaryCtxRetain", unsafe { cu::primary_ctx::retain(device) })?;
        // SAFETY: the context was just created.
        check_call("cuCtxSetCurrent", unsafe { cu::ctx::set_current(context) })?;
        let stream = check_call("cuStreamCreate", cu::stream::create(cu::stream::StreamKind::NonBlocking))?;
        let another = || check_call("cuStreamCreate", cu::stream::create(cu::stream::StreamKind::NonBlocking));
        let (control_stream, upload_stream, peer_stream) = (another()?, another()?, another()?);
        // SAFETY: the device handle is valid.
        let pool = check_call("cuDeviceGetDefaultMemPool", unsafe { cu::device::get_default_mem_pool(device) })?;
        let mut keep = u64::MAX;
        // Let the pool retain its memory. By default, it returns unused memory at every synchronization, and the next
        // allocation takes a hundred times longer.
        // SAFETY: the pool is the device's own, and this attribute is a 64-bit number.
        let result = unsafe {
            cu::mem_pool::set_attribute(
                pool,
                sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut keep).cast(),
            )
        };
        check_call("cuMemPoolSetAttribute", result)?;
        Ok(Nvidia {
            properties,
            context,
            stream,
            control_stream,
            upload_stream,
            peer_stream,
            pool,
            staging: Mutex::default(),
            locked: Mutex::default(),
            flag: OnceLock::new(),
            poking: Mutex::default(),
            host_wait_event: Mutex::default(),
            peers: Mutex::default(),
        })
    }

    /// If the hardware supports it, gives this GPU and another one access to each other's memory pools. Otherwise,
    /// copies between them go through host memory.
    fn enable_peer_access(&self, peer: u32) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if !peers.contains(&peer) {
            peers.push(peer);
            open_pool(peer, self.properties.ordinal);
            open_pool(self.properties.ordinal, peer);
        }
    }

    /// Returns the flag. The first call creates it.
    fn pinned_flag(&self) -> DriverResult<&PinnedFlag> {
        let flag = self.flag.get_or_init(|| {
            self.enter()?;
            let flags = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
            // SAFETY: the context is current.
            let memory =
                check_call("cuMemHostAlloc", unsafe { cu::malloc_host(FLAG_LINE + 4 * WORDS_PER_WRITE, flags) })?;
            let mut address = 0;
            // SAFETY: the memory was just allocated, and `address` points to a number.
            let result = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, memory, 0) };
            check_call("cuMemHostGetDevicePointer", result.result())?;
            // SAFETY: the memory is large enough for the word, aligned to a page, and stays allocated until the process
            // ends.
            let word = unsafe {
                memory.cast::<u32>().write(0);
                &*memory.cast::<AtomicU32>()
            };
            Ok(PinnedFlag {
                word,
                address: DevicePtr(address),
                word_buffer: memory.cast::<u32>().wrapping_add(FLAG_LINE / 4),
            })
        });
        flag.as_ref().map_err(Clone::clone)
    }

    /// Makes all later operations of the streams `others` wait for the pending work of the stream `first`.
    fn make_streams_wait(&self, first: sys::CUstream, others: &[sys::CUstream]) -> DriverResult {
        let mut event = self.host_wait_event.lock().unwrap_or_else(PoisonError::into_inner);
        let event = match *event {
            Some(event) => event,
            None => {
                let raw_event =
                    check_call("cuEventCreate", cu::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING))?;
                *event.insert(StreamEvent(raw_event as usize))
            }
        };
        // SAFETY: the event is alive, and the owner of imported memory guarantees that the stream is alive. Later waits
        // refer to this recording of the event.
        check_call("cuEventRecord", unsafe { cu::event::record(event.0 as sys::CUevent, first) })?;
        others.iter().try_for_each(|&other| wait(other, event))
    }

    /// Makes the context current on this thread if another library of the process has set a different context.
    fn enter(&self) -> DriverResult {
        if matches!(cu::ctx::get_current(), Ok(Some(current)) if current == self.context) {
            return Ok(());
        }
        // SAFETY: the context lives as long as the process.
        check_call("cuCtxSetCurrent", unsafe { cu::ctx::set_current(self.context) })
    }
}

/// Makes all later operations of a stream of the current context wait for an event.
fn wait(stream: sys::CUstream, event: StreamEvent) -> DriverResult {
    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: the stream and the event are alive.
    check_call("cuStreamWaitEvent", unsafe { cu::stream::wait_event(stream, event.0 as sys::CUevent, flags) })
}

impl Driver for Nvidia {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn stream(&self) -> Option<usize> {
        self.enter().ok()?;
        Some(self.stream as usize)
    }

    fn allocate(&self, bytes: u64) -> DriverResult<DevicePtr> {
        self.enter()?;
        // SAFETY: the stream is alive.
        check_call("cuMemAllocAsync", unsafe { cu::malloc_async(self.stream, bytes as usize) }).map(DevicePtr)
    }

    fn free(&self, address: DevicePtr) {
        if self.enter().is_ok() {
            // Ignore an error: if the context is lost, its memory is already freed. SAFETY: the owner frees the address
            // once.
            let _ = unsafe { cu::free_async(address.0, self.stream) };
        }
    }

    fn zero(&self, address: DevicePtr, bytes: u64) -> DriverResult {
        self.enter()?;
        // SAFETY: the owner allocated at least this many bytes.
        check_call("cuMemsetD8Async", unsafe { cu::memset_d8_async(address.0, 0, bytes as usize, self.stream) })
    }

    fn upload(&self, to: DevicePtr, bytes: &[u8]) -> DriverResult {
        self.enter()?;
        if bytes.len() < MIN_STAGED_BYTES
            && self.host_copy_mode(bytes.as_ptr().addr(), bytes.len()) == HostCopyMode::Plain
        {
            // For pageable memory, the driver has read all bytes when this call returns. SAFETY: the owner allocated at
            // least this many bytes.
            return check_call("cuMemcpyHtoDAsync", unsafe { cu::memcpy_htod_async(to.0, bytes, self.stream) });
        }
        self.upload_staged(to, bytes, self.stream)
    }

    fn can_overlap_uploads(&self) -> bool {
        true
    }

    fn upload_overlapped(&self, to: DevicePtr, bytes: &[u8], after: StreamEvent) -> DriverResult<StreamEvent> {
        self.enter()?;
        let mode = self.host_copy_mode(bytes.as_ptr().addr(), bytes.len());
        // Create the event before the copy begins, so that no driver call except the copy itself can fail after it.
        let done = self.event()?;
        let copied = wait(self.upload_stream, after).and_then(|()| match &mode {
            HostCopyMode::Pinned(pieces) => self.upload_pinned_ranges(to, bytes, pieces, self.upload_stream),
            HostCopyMode::Plain | HostCopyMode::Staged => self.upload_staged(to, bytes, self.upload_stream),
        });
        let recorded = copied.and_then(|()| {
            // SAFETY: event and stream are alive and of one context.
            check_call("cuEventRecord", unsafe { cu::event::record(done.0 as sys::CUevent, self.upload_stream) })
        });
        let waited = recorded.and_then(|()| match mode {
            // The GPU reads the host's bytes directly, so wait for the copy.
            HostCopyMode::Pinned(_) => {
                // SAFETY: the event is alive.
                check_call("cuEventSynchronize", unsafe { cu::event::synchronize(done.0 as sys::CUevent) })
            }
            HostCopyMode::Plain | HostCopyMode::Staged => Ok(()),
        });
        waited.map(|()| done).inspect_err(|_| {
            // Wait, because neither the GPU's nor the host's memory may be freed while a part of the copy is in
            // progress. SAFETY: the stream is alive.
            let _ = unsafe { cu::stream::synchronize(self.upload_stream) };
            self.forget_event(done);
        })
    }

    unsafe fn lock(&self, bytes: &[u8]) -> DriverResult {
        self.enter()?;
        self.pin_pages(bytes)
    }

    fn unlock(&self, start: usize) {
        if self.enter().is_ok() {
            self.unpin_pages(start);
        }
    }

    fn download(&self, from: DevicePtr, bytes: &mut [u8]) -> DriverResult {
        self.enter()?;
        match self.host_copy_mode(bytes.as_ptr().addr(), bytes.len()) {
            HostCopyMode::Pinned(pieces) => self.download_pinned_ranges(from, bytes, &pieces),
            HostCopyMode::Plain if bytes.len() < MIN_STAGED_BYTES => {
                // SAFETY: the owner allocated at least this many bytes, and the next call waits for the copy.
                let copied = unsafe { cu::memcpy_dtoh_async(bytes, from.0, self.stream) };
                check_call("cuMemcpyDtoHAsync", copied)?;
                self.synchronize()
            }
            HostCopyMode::Plain | HostCopyMode::Staged => self.download_staged(from, bytes),
        }
    }

    fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: u64) -> DriverResult {
        self.enter()?;
        // SAFETY: the owners allocated at least this many bytes.
        check_call("cuMemcpyDtoDAsync", unsafe { cu::memcpy_dtod_async(to.0, from.0, bytes as usize, self.stream) })
    }

    fn copy_from_peer(
        &self,
        to: DevicePtr,
        from: Peer,
        bytes: u64,
        after: [StreamEvent; 2],
        done: StreamEvent,
    ) -> DriverResult {
        let device = check_call("cuDeviceGet", cu::device::get(from.ordinal as i32))?;
        // SAFETY: the context exists, because it contains allocated memory. It is released below.
        let peer = check_call("cuDevicePrimaryCtxRetain", unsafe { cu::primary_ctx::retain(device) })?;
        self.enable_peer_access(from.ordinal);
        let copied = self.enter().and_then(|()| {
            after.into_iter().try_for_each(|event| wait(self.peer_stream, event))?;
            // SAFETY: the owners allocated at least this many bytes in these contexts.
            let copied = unsafe {
                cu::memcpy_peer_async(self.context, to.0, peer, from.address.0, bytes as usize, self.peer_stream)
            };
            check_call("cuMemcpyPeerAsync", copied)?;
            // SAFETY: event and stream are alive and of one context.
            check_call("cuEventRecord", unsafe { cu::event::record(done.0 as sys::CUevent, self.peer_stream) })
        });
        // SAFETY: the context was retained above.
        let _ = unsafe { cu::primary_ctx::release(device) };
        copied
    }

    fn load(&self, cubin: &[u8]) -> DriverResult<DriverModule> {
        self.enter()?;
        // SAFETY: the machine code is intact: it comes from NVRTC, or from a cache that verified its checksum.
        let module = check_call("cuModuleLoadData", unsafe { cu::module::load_data(cubin.as_ptr().cast()) })?;
        Ok(DriverModule(module as usize))
    }

    fn unload(&self, module: DriverModule) {
        if self.enter().is_ok() {
            // SAFETY: the owner unloads the module once.
            let _ = unsafe { cu::module::unload(module.0 as sys::CUmodule) };
        }
    }

    fn function(&self, module: DriverModule, name: &str) -> DriverResult<DriverFunction> {
        self.enter()?;
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the module is loaded.
        let function = unsafe { cu::module::get_function(module.0 as sys::CUmodule, name) };
        check_call("cuModuleGetFunction", function).map(|f| DriverFunction(f as usize))
    }

    fn allow_shared(&self, function: DriverFunction, bytes: u32) -> DriverResult {
        self.enter()?;
        let most = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function's module is loaded.
        let set = unsafe { cu::function::set_function_attribute(function.0 as sys::CUfunction, most, bytes as i32) };
        check_call("cuFuncSetAttribute", set)
    }

    fn static_shared(&self, function: DriverFunction) -> u32 {
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        // SAFETY: the function's module is loaded.
        let bytes = unsafe { cu::function::get_function_attribute(function.0 as sys::CUfunction, attribute) };
        bytes.map_or(0, |bytes| bytes.max(0) as u32)
    }

    fn resident_blocks(&self, function: DriverFunction, threads: u32, shared: u32) -> DriverResult<u32> {
        self.enter()?;
        let mut blocks = 0;
        // SAFETY: the function's module is loaded, `blocks` is an integer.
        let result = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                function.0 as sys::CUfunction,
                threads as i32,
                shared as usize,
            )
        };
        check_call("cuOccupancyMaxActiveBlocksPerMultiprocessor", result.result())?;
        Ok(blocks.max(0) as u32 * self.properties.multiprocessors)
    }

    unsafe fn launch(
        &self,
        function: DriverFunction,
        shape: &LaunchShape,
        arguments: &[DriverArgument],
    ) -> DriverResult {
        self.enter()?;
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        let (function, shared, stream) = (function.0 as sys::CUfunction, shape.shared, self.stream);
        with_pointers(arguments, |pointers| match shape.cooperative {
            false => {
                // SAFETY: guaranteed by the caller.
                let launched = unsafe {
                    sys::cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, pointers, null_mut())
                };
                check_call("cuLaunchKernel", launched.result())
            }
            true => {
                // SAFETY: guaranteed by the caller.
                let launched = unsafe {
                    sys::cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, stream, pointers)
                };
                check_call("cuLaunchCooperativeKernel", launched.result())
            }
        })?
    }

    unsafe fn graph(&self, launches: &[DriverLaunch]) -> DriverResult<Graph> {
        self.enter()?;
        let mut chain =
            GraphHandles { graph: null_mut(), ready: null_mut(), nodes: Vec::with_capacity(launches.len()) };
        // SAFETY: `chain.graph` receives the handle.
        check_call("cuGraphCreate", unsafe { sys::cuGraphCreate(&mut chain.graph, 0) }.result())?;
        for launch in launches {
            let mut node = null_mut();
            let before = chain.nodes.last().map_or(null(), std::ptr::from_ref);
            let added = with_node_params(launch, |params| {
                // SAFETY: the caller guarantees valid launches, and the previous node belongs to the same graph.
                unsafe {
                    sys::cuGraphAddKernelNode_v2(&mut node, chain.graph, before, chain.nodes.len().min(1), params)
                }
            })?;
            check_call("cuGraphAddKernelNode", added.result())?;
            chain.nodes.push(node);
        }
        // SAFETY: the graph is alive, `chain.ready` receives the handle.
        let result = unsafe { sys::cuGraphInstantiateWithFlags(&mut chain.ready, chain.graph, 0) };
        check_call("cuGraphInstantiate", result.result())?;
        Ok(Graph(Box::into_raw(Box::new(chain)) as usize))
    }

    unsafe fn run_graph(&self, graph: Graph, changes: &[(usize, &DriverLaunch)]) -> DriverResult {
        self.enter()?;
        // SAFETY: the handle comes from `graph` and has not been destroyed, and nothing mutates the chain.
        let chain = unsafe { &*(graph.0 as *const GraphHandles) };
        for (index, launch) in changes {
            let Some(&node) = chain.nodes.get(*index) else { continue };
            // SAFETY: the caller guarantees a valid launch, and the node belongs to this graph.
            let changed = with_node_params(launch, |params| unsafe {
                sys::cuGraphExecKernelNodeSetParams_v2(chain.ready, node, params)
            })?;
            check_call("cuGraphExecKernelNodeSetParams", changed.result())?;
        }
        // SAFETY: graph and stream are alive.
        check_call("cuGraphLaunch", unsafe { sys::cuGraphLaunch(chain.ready, self.stream) }.result())
    }

    fn forget_graph(&self, graph: Graph) {
        if self.enter().is_ok() {
            // SAFETY: `graph` created it, and the owner destroys it once.
            drop(unsafe { Box::from_raw(graph.0 as *mut GraphHandles) });
        }
    }

    fn flag(&self) -> DriverResult<DevicePtr> {
        self.pinned_flag().map(|flag| flag.address)
    }

    fn is_flag_set(&self) -> bool {
        matches!(self.flag.get(), Some(Ok(flag)) if flag.word.load(Ordering::Acquire) != 0)
    }

    fn clear_flag(&self) {
        if let Some(Ok(flag)) = self.flag.get() {
            flag.word.store(0, Ordering::Release);
        }
    }

    fn synchronize(&self) -> DriverResult {
        self.enter()?;
        // SAFETY: the stream is alive.
        check_call("cuStreamSynchronize", unsafe { cu::stream::synchronize(self.stream) })
    }

    fn is_idle(&self) -> DriverResult<bool> {
        self.enter()?;
        // SAFETY: the stream is alive.
        match unsafe { sys::cuStreamQuery(self.stream) } {
            CUresult::CUDA_SUCCESS => Ok(true),
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => Err(driver_error("cuStreamQuery", other)),
        }
    }

    fn is_event_reached(&self, event: StreamEvent) -> DriverResult<bool> {
        self.enter()?;
        // SAFETY: the event is alive.
        match unsafe { sys::cuEventQuery(event.0 as sys::CUevent) } {
            CUresult::CUDA_SUCCESS => Ok(true),
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => Err(driver_error("cuEventQuery", other)),
        }
    }

    fn write_words_now(&self, words: StridedWords, value: u32) -> DriverResult {
        let flag = self.pinned_flag()?;
        self.enter()?;
        let _alone = self.poking.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the buffer after the flag has this size, and the lock makes access exclusive.
        unsafe { std::slice::from_raw_parts_mut(flag.word_buffer, WORDS_PER_WRITE).fill(value) };
        for done in (0..words.count).step_by(WORDS_PER_WRITE) {
            // Use a copy, which a copy engine executes. A memset may need a multiprocessor, and running kernels may
            // occupy all of them.
            let copy = sys::CUDA_MEMCPY2D {
                srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
                srcHost: flag.word_buffer.cast(),
                srcPitch: size_of::<u32>(),
                dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
                dstDevice: words.first.0 + done * words.pitch,
                dstPitch: words.pitch as usize,
                WidthInBytes: size_of::<u32>(),
                Height: (words.count - done).min(WORDS_PER_WRITE as u64) as usize,
                srcXInBytes: 0,
                srcY: 0,
                srcDevice: 0,
                srcArray: null_mut(),
                dstXInBytes: 0,
                dstY: 0,
                dstHost: null_mut(),
                dstArray: null_mut(),
            };
            // SAFETY: the owner allocated at least this many bytes. The control stream is alive, and the next call
            // waits for it.
            check_call("cuMemcpy2DAsync", unsafe { sys::cuMemcpy2DAsync_v2(&copy, self.control_stream) }.result())?;
        }
        // SAFETY: the stream is alive.
        check_call("cuStreamSynchronize", unsafe { cu::stream::synchronize(self.control_stream) })
    }

    fn memory(&self) -> DriverResult<(u64, u64)> {
        self.enter()?;
        let (free, total) = check_call("cuMemGetInfo", cu::mem_get_info())?;
        Ok((free as u64, total as u64))
    }

    fn trim(&self) -> DriverResult {
        self.synchronize()?;
        // SAFETY: the pool belongs to the device.
        check_call("cuMemPoolTrimTo", unsafe { cu::mem_pool::trim_to(self.pool, 0) })
    }

    fn event(&self) -> DriverResult<StreamEvent> {
        self.enter()?;
        check_call("cuEventCreate", cu::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT))
            .map(|e| StreamEvent(e as usize))
    }

    fn record(&self, event: StreamEvent) -> DriverResult {
        self.enter()?;
        // SAFETY: event and stream are alive and of one context.
        check_call("cuEventRecord", unsafe { cu::event::record(event.0 as sys::CUevent, self.stream) })
    }

    fn wait_for_stream(&self, stream: ForeignStream) -> DriverResult {
        self.enter()?;
        // Wait in any case: a query whether the stream has pending work would take longer.
        self.make_streams_wait(stream.0 as sys::CUstream, &[self.stream])
    }

    fn make_streams_wait_for_this(&self, streams: &[ForeignStream]) -> DriverResult {
        self.enter()?;
        let streams: SmallVec<[sys::CUstream; 2]> = streams.iter().map(|stream| stream.0 as sys::CUstream).collect();
        self.make_streams_wait(self.stream, &streams)
    }

    fn quiet(&self) -> DriverResult {
        self.enter()?;
        check_call("cuCtxSynchronize", cu::ctx::synchronize())
    }

    fn wait(&self, event: StreamEvent) -> DriverResult {
        self.enter()?;
        wait(self.stream, event)
    }

    fn elapsed(&self, from: StreamEvent, to: StreamEvent) -> DriverResult<f64> {
        self.enter()?;
        // SAFETY: both events are alive.
        check_call("cuEventSynchronize", unsafe { cu::event::synchronize(to.0 as sys::CUevent) })?;
        // SAFETY: both events are alive and were recorded.
        let time = unsafe { symbols::elapsed(from.0 as sys::CUevent, to.0 as sys::CUevent) };
        check_call("cuEventElapsedTime", time).map(f64::from)
    }

    fn forget_event(&self, event: StreamEvent) {
        // SAFETY: the owner destroys the event once.
        let _ = unsafe { cu::event::destroy(event.0 as sys::CUevent) };
    }

    fn resolve(&self, address: DevicePtr) -> DriverResult<u64> {
        Ok(address.0)
    }

    fn hold(&self, _: &[(DevicePtr, DevicePtr)]) {}

    fn launched(&self) -> u64 {
        0
    }

    fn take_sticky_error(&self) -> Option<StickyError> {
        None
    }
}
