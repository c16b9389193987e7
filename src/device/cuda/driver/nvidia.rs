//! NVIDIA's driver through `cudarc`, which opens `libcuda.so.1` on the first call.

mod block;
mod guest;
#[cfg(target_os = "linux")]
mod shared;
mod staging;
mod symbols;

pub use guest::{Visit, is_recorded, meeting, owner};
#[cfg(target_os = "linux")]
pub use shared::Numbered;

use std::collections::BTreeMap;
use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::result as cu;
use cudarc::driver::sys::{self, CUdevice_attribute_enum as Attribute, CUresult};
use smallvec::SmallVec;

use self::block::{STAGED, Staging, Way};
use self::symbols::Library;
use super::super::text::abi::MOST_AXES;
use super::{
    Address, Answer, Argument, Driver, Event, Function, Graph, Launch, Map, MapElement, Module, Peer, Properties,
    Refusal, Shape, Words,
};

/// Why there is no usable GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absent {
    /// No driver is installed.
    NoDriver,
    /// The driver finds no GPU.
    NoDevice,
    /// There are fewer GPUs than the wanted ordinal.
    NoSuchDevice { wanted: u32, count: u32 },
    /// The driver fails to start.
    Refused(Refusal),
    /// The driver is older than [`OLDEST`].
    TooOld { driver: u32 },
    /// The driver's library does not have a function that it should have.
    Lacks { function: &'static str },
}

/// The oldest driver version with all functions that are called.
const OLDEST: u32 = 12_000;

fn refusal(call: &'static str, code: CUresult) -> Refusal {
    let name = cu::DriverError(code).error_name().map(|name| name.to_string_lossy().into_owned());
    Refusal { call: call.into(), code: code as u32, name: name.unwrap_or_else(|_| format!("CUresult {}", code as u32)) }
}

/// Adds the name of the call to its error.
fn said<T>(call: &'static str, result: Result<T, cu::DriverError>) -> Answer<T> {
    result.map_err(|error| refusal(call, error.0))
}

/// Initializes the driver and returns its version; the first call in a process takes some 100 ms.
fn start() -> Result<u32, Absent> {
    let library = Library::open().ok_or(Absent::NoDriver)?;
    let whole = |lacking: Option<&'static str>| lacking.map_or(Ok(()), |function| Err(Absent::Lacks { function }));
    whole(library.lacks_first())?;
    said("cuInit", cu::init()).map_err(|refusal| match refusal.code {
        code if code == CUresult::CUDA_ERROR_NO_DEVICE as u32 => Absent::NoDevice,
        _ => Absent::Refused(refusal),
    })?;
    let mut version = 0;
    // SAFETY: `version` is an integer.
    let asked = unsafe { sys::cuDriverGetVersion(&mut version) }.result();
    said("cuDriverGetVersion", asked).map_err(Absent::Refused)?;
    let version = version as u32;
    if version < OLDEST {
        return Err(Absent::TooOld { driver: version });
    }
    whole(library.lacks())?;
    Ok(version)
}

/// Returns the number of GPUs.
pub fn count() -> Result<u32, Absent> {
    start()?;
    let count = said("cuDeviceGetCount", cu::device::get_count()).map_err(Absent::Refused)?;
    if count <= 0 { Err(Absent::NoDevice) } else { Ok(count as u32) }
}

/// Returns the properties of a GPU, without creating a context.
pub fn probe(ordinal: u32) -> Result<Properties, Absent> {
    let driver = start()?;
    let count = count()?;
    if ordinal >= count {
        return Err(Absent::NoSuchDevice { wanted: ordinal, count });
    }
    properties(ordinal, driver).map_err(Absent::Refused)
}

/// Returns what tells a GPU from the others of its machine: its place on the bus.
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

fn name(device: sys::CUdevice) -> Answer<String> {
    let mut name = [0 as c_char; 128];
    // SAFETY: there is room for so many bytes.
    let asked = unsafe { sys::cuDeviceGetName(name.as_mut_ptr(), name.len() as i32, device) };
    said("cuDeviceGetName", asked.result())?;
    let bytes: Vec<u8> = name.iter().map(|&byte| byte as u8).take_while(|&byte| byte != 0).collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn properties(ordinal: u32, driver: u32) -> Answer<Properties> {
    let device = said("cuDeviceGet", cu::device::get(ordinal as i32))?;
    let attribute = |which| {
        // SAFETY: the device handle is valid.
        said("cuDeviceGetAttribute", unsafe { cu::device::get_attribute(device, which) }).map(|n| n.max(0) as u32)
    };
    use Attribute::*;
    let major = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok(Properties {
        name: name(device)?,
        ordinal,
        architecture: 10 * major + minor,
        // SAFETY: the device handle is valid.
        memory: said("cuDeviceTotalMem", unsafe { cu::device::total_mem(device) })? as u64,
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

/// A GPU with its context, one stream and the memory pool of that stream.
pub(crate) struct Nvidia {
    properties: Properties,
    context: sys::CUcontext,
    stream: sys::CUstream,
    /// A second stream, for operations that must not wait behind a running kernel.
    aside: sys::CUstream,
    /// A third one, for uploads that kernels do not wait for.
    beside: sys::CUstream,
    /// A fourth one, for copies from other GPUs beside kernels.
    copies: sys::CUstream,
    pool: sys::CUmemoryPool,
    staging: Mutex<Vec<Staging>>,
    /// Lengths of locked parts of the host's memory, by address.
    locked: Mutex<BTreeMap<usize, usize>>,
    flag: OnceLock<Answer<Flag>>,
    poking: Mutex<()>,
    /// An event by which streams wait for each other, once one has; locked from its record to the last wait.
    meeting: Mutex<Option<Event>>,
    /// GPUs with which mutual access to memory pools was set up.
    peers: Mutex<Vec<u32>>,
}

// SAFETY: the driver may be called from any thread with these handles, and every call here makes the context current first.
unsafe impl Send for Nvidia {}
// SAFETY: as above; mutable state is behind locks.
unsafe impl Sync for Nvidia {}

/// Grants GPU `user` access to the memory pool of GPU `owner`, if the hardware can do that.
fn open_pool(owner: u32, user: u32) {
    let (Ok(own), Ok(other)) = (cu::device::get(owner as i32), cu::device::get(user as i32)) else { return };
    let mut can = 0;
    // SAFETY: both device handles are valid, `can` is an integer.
    let asked = unsafe { sys::cuDeviceCanAccessPeer(&mut can, other, own) };
    // SAFETY: as above.
    let pool = unsafe { cu::device::get_default_mem_pool(own) };
    if let (Ok(()), true, Ok(pool)) = (asked.result(), can != 0, pool) {
        let location =
            sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: user as i32 };
        let access =
            sys::CUmemAccessDesc { location, flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
        // SAFETY: the pool is the device's own, `access` one description. If it fails, copies are slower but correct.
        let _ = unsafe { sys::cuMemPoolSetAccess(pool, &access, 1) };
    }
}

/// A word of page-locked memory and its device address; and a buffer for poked values, since page-locked memory cannot be
/// allocated while a kernel runs.
struct Flag {
    word: &'static AtomicU32,
    address: Address,
    room: *mut u32,
}

// SAFETY: only the holder of the `poking` lock uses the buffer.
unsafe impl Send for Flag {}
// SAFETY: as above.
unsafe impl Sync for Flag {}

/// Bytes reserved for the flag (a cache line), and the number of words poked at once.
const FLAG_LINE: usize = 64;
const POKED: usize = 1024;

/// A graph: the template, its executable form, and its nodes in order.
struct Chain {
    graph: sys::CUgraph,
    ready: sys::CUgraphExec,
    nodes: Vec<sys::CUgraphNode>,
}

impl Drop for Chain {
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

/// Passes the arguments in the form that the driver wants: pointers to values, which it copies before it returns.
fn with_pointers<T>(arguments: &[Argument], run: impl FnOnce(*mut *mut c_void) -> T) -> Answer<T> {
    const USUAL: usize = 24;
    let maps = arguments.iter().filter_map(|argument| if let Argument::Map(map) = argument { Some(map) } else { None });
    let maps: Vec<sys::CUtensorMap> = maps.map(encoded).collect::<Answer<_>>()?;
    let mut next = maps.iter();
    let mut of = |argument: &Argument| -> *mut c_void {
        match argument {
            Argument::Map(_) => next.next().map_or(null_mut(), |map| std::ptr::from_ref(map).cast_mut().cast()),
            Argument::Value { bytes, .. } => bytes.as_ptr().cast_mut().cast(),
            Argument::Address(address) => (&raw const address.0).cast_mut().cast(),
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

/// Returns a map in the form that the hardware wants.
fn encoded(map: &Map) -> Answer<sys::CUtensorMap> {
    use sys::CUtensorMapDataType as Type;
    let mut encoded = sys::CUtensorMap { opaque: [0; 16] };
    let kind = match map.element {
        MapElement::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        MapElement::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        MapElement::Tf32 => Type::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
    };
    let axes = map.axes as usize;
    let extents = map.extents.map(u64::from);
    let mut pitch = [map.element.size(); MOST_AXES];
    for axis in 0..axes {
        pitch[axis] = extents[axis] * if axis == 0 { map.element.size() } else { pitch[axis - 1] };
    }
    let mut of_box = [1; MOST_AXES];
    for (axis, own) in of_box.iter_mut().enumerate() {
        *own = (map.of_box.extents[axis] - 1) * map.of_box.steps[axis] + 1;
    }
    // SAFETY: the lists have as many numbers as there are axes, strides one less. The array is only read by kernels.
    let made = unsafe {
        sys::cuTensorMapEncodeTiled(
            &mut encoded,
            kind,
            map.axes,
            map.address.0 as *mut c_void,
            extents.as_ptr(),
            pitch.as_ptr(),
            of_box.as_ptr(),
            map.of_box.steps.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    said("cuTensorMapEncodeTiled", made.result())?;
    Ok(encoded)
}

/// Calls `run` with the node parameters of a launch.
fn with_node<T>(launch: &Launch, run: impl FnOnce(&sys::CUDA_KERNEL_NODE_PARAMS) -> T) -> Answer<T> {
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
    /// Creates the GPU's primary context, which takes some 100 ms.
    pub fn open(properties: Properties) -> Answer<Nvidia> {
        let device = said("cuDeviceGet", cu::device::get(properties.ordinal as i32))?;
        // SAFETY: the device handle is valid; the context is retained until the process ends.
        let context = said("cuDevicePrimaryCtxRetain", unsafe { cu::primary_ctx::retain(device) })?;
        // SAFETY: the context was just created.
        said("cuCtxSetCurrent", unsafe { cu::ctx::set_current(context) })?;
        let stream = said("cuStreamCreate", cu::stream::create(cu::stream::StreamKind::NonBlocking))?;
        let another = || said("cuStreamCreate", cu::stream::create(cu::stream::StreamKind::NonBlocking));
        let (aside, beside, copies) = (another()?, another()?, another()?);
        // SAFETY: the device handle is valid.
        let pool = said("cuDeviceGetDefaultMemPool", unsafe { cu::device::get_default_mem_pool(device) })?;
        let mut keep = u64::MAX;
        // Otherwise the pool returns its memory at every synchronization and the next allocation is a hundred times slower.
        // SAFETY: this attribute is a 64-bit number.
        let kept = unsafe {
            cu::mem_pool::set_attribute(
                pool,
                sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut keep).cast(),
            )
        };
        said("cuMemPoolSetAttribute", kept)?;
        Ok(Nvidia {
            properties,
            context,
            stream,
            aside,
            beside,
            copies,
            pool,
            staging: Mutex::default(),
            locked: Mutex::default(),
            flag: OnceLock::new(),
            poking: Mutex::default(),
            meeting: Mutex::default(),
            peers: Mutex::default(),
        })
    }

    /// Enables mutual access to the memory pools of this GPU and another where the hardware supports it; otherwise copies between
    /// them go through host memory.
    fn meet(&self, peer: u32) {
        let mut peers = self.peers.lock().unwrap_or_else(PoisonError::into_inner);
        if !peers.contains(&peer) {
            peers.push(peer);
            open_pool(peer, self.properties.ordinal);
            open_pool(self.properties.ordinal, peer);
        }
    }

    /// Returns the flag, created on first use.
    fn own_flag(&self) -> Answer<&Flag> {
        let flag = self.flag.get_or_init(|| {
            self.enter()?;
            let wanted = sys::CU_MEMHOSTALLOC_PORTABLE | sys::CU_MEMHOSTALLOC_DEVICEMAP;
            // SAFETY: the context is current.
            let memory = said("cuMemHostAlloc", unsafe { cu::malloc_host(FLAG_LINE + 4 * POKED, wanted) })?;
            let mut address = 0;
            // SAFETY: the memory was just allocated, `address` is a number.
            let asked = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, memory, 0) };
            said("cuMemHostGetDevicePointer", asked.result())?;
            // SAFETY: the memory is large enough for the word, aligned to a page, and stays allocated until the process ends.
            let word = unsafe {
                memory.cast::<u32>().write(0);
                &*memory.cast::<AtomicU32>()
            };
            Ok(Flag { word, address: Address(address), room: memory.cast::<u32>().wrapping_add(FLAG_LINE / 4) })
        });
        flag.as_ref().map_err(Clone::clone)
    }

    /// Has all later operations of streams wait for what another one has to do now.
    fn line_up(&self, first: sys::CUstream, others: &[sys::CUstream]) -> Answer {
        let mut event = self.meeting.lock().unwrap_or_else(PoisonError::into_inner);
        let event = match *event {
            Some(event) => event,
            None => {
                let made = said("cuEventCreate", cu::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING))?;
                *event.insert(Event(made as usize))
            }
        };
        // SAFETY: event and stream are alive, the latter by the word of who lends memory. Waits are for what the event was recorded for then.
        said("cuEventRecord", unsafe { cu::event::record(event.0 as sys::CUevent, first) })?;
        others.iter().try_for_each(|&other| wait(other, event))
    }

    /// Makes the context current on this thread, if it is not: other libraries of the process may have chosen theirs.
    fn enter(&self) -> Answer {
        if matches!(cu::ctx::get_current(), Ok(Some(current)) if current == self.context) {
            return Ok(());
        }
        // SAFETY: the context lives as long as the process.
        said("cuCtxSetCurrent", unsafe { cu::ctx::set_current(self.context) })
    }
}

/// Has all later operations of a stream, whose context is the current one, wait for an event.
fn wait(stream: sys::CUstream, event: Event) -> Answer {
    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: the stream and the event are alive.
    said("cuStreamWaitEvent", unsafe { cu::stream::wait_event(stream, event.0 as sys::CUevent, flags) })
}

impl Driver for Nvidia {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn stream(&self) -> Option<usize> {
        self.enter().ok()?;
        Some(self.stream as usize)
    }

    fn allocate(&self, bytes: u64) -> Answer<Address> {
        self.enter()?;
        // SAFETY: the stream is alive.
        said("cuMemAllocAsync", unsafe { cu::malloc_async(self.stream, bytes as usize) }).map(Address)
    }

    fn free(&self, address: Address) {
        if self.enter().is_ok() {
            // If the context is lost, all its memory is freed anyway.
            // SAFETY: the owner frees the address once.
            let _ = unsafe { cu::free_async(address.0, self.stream) };
        }
    }

    fn zero(&self, address: Address, bytes: u64) -> Answer {
        self.enter()?;
        // SAFETY: the owner allocated at least this many bytes.
        said("cuMemsetD8Async", unsafe { cu::memset_d8_async(address.0, 0, bytes as usize, self.stream) })
    }

    fn upload(&self, to: Address, bytes: &[u8]) -> Answer {
        self.enter()?;
        if bytes.len() < STAGED && self.way(bytes.as_ptr().addr(), bytes.len()) == Way::Plain {
            // The driver has copied pageable memory when this returns.
            // SAFETY: the owner allocated at least this many bytes.
            return said("cuMemcpyHtoDAsync", unsafe { cu::memcpy_htod_async(to.0, bytes, self.stream) });
        }
        self.upload_staged(to, bytes, self.stream)
    }

    fn has_beside(&self) -> bool {
        true
    }

    fn upload_beside(&self, to: Address, bytes: &[u8], after: Event) -> Answer<Event> {
        self.enter()?;
        let way = self.way(bytes.as_ptr().addr(), bytes.len());
        // Made first: once the copy has begun, nothing but the GPU can fail.
        let done = self.event()?;
        let copied = wait(self.beside, after).and_then(|()| match &way {
            Way::Locked(pieces) => self.upload_locked(to, bytes, pieces, self.beside),
            Way::Plain | Way::Staged => self.upload_staged(to, bytes, self.beside),
        });
        let recorded = copied.and_then(|()| {
            // SAFETY: event and stream are alive and of one context.
            said("cuEventRecord", unsafe { cu::event::record(done.0 as sys::CUevent, self.beside) })
        });
        let waited = recorded.and_then(|()| match way {
            // The bus reads the bytes themselves.
            // SAFETY: the event is alive.
            Way::Locked(_) => said("cuEventSynchronize", unsafe { cu::event::synchronize(done.0 as sys::CUevent) }),
            Way::Plain | Way::Staged => Ok(()),
        });
        waited.map(|()| done).inspect_err(|_| {
            // Neither the GPU's memory nor the host's must be freed while a part of the copy is under way.
            // SAFETY: the stream is alive.
            let _ = unsafe { cu::stream::synchronize(self.beside) };
            self.forget_event(done);
        })
    }

    unsafe fn lock(&self, bytes: &[u8]) -> Answer {
        self.enter()?;
        self.lock_pages(bytes)
    }

    fn unlock(&self, start: usize) {
        if self.enter().is_ok() {
            self.unlock_pages(start);
        }
    }

    fn download(&self, from: Address, bytes: &mut [u8]) -> Answer {
        self.enter()?;
        match self.way(bytes.as_ptr().addr(), bytes.len()) {
            Way::Locked(pieces) => self.download_locked(from, bytes, &pieces),
            Way::Plain if bytes.len() < STAGED => {
                // SAFETY: the owner allocated at least this many bytes, and the next call waits for the copy.
                let copied = unsafe { cu::memcpy_dtoh_async(bytes, from.0, self.stream) };
                said("cuMemcpyDtoHAsync", copied)?;
                self.synchronize()
            }
            Way::Plain | Way::Staged => self.download_staged(from, bytes),
        }
    }

    fn copy(&self, to: Address, from: Address, bytes: u64) -> Answer {
        self.enter()?;
        // SAFETY: the owners allocated at least this many bytes.
        said("cuMemcpyDtoDAsync", unsafe { cu::memcpy_dtod_async(to.0, from.0, bytes as usize, self.stream) })
    }

    fn copy_from_peer(&self, to: Address, from: Peer, bytes: u64, after: [Event; 2], done: Event) -> Answer {
        let device = said("cuDeviceGet", cu::device::get(from.ordinal as i32))?;
        // SAFETY: the context exists, since memory of it does; it is released below.
        let peer = said("cuDevicePrimaryCtxRetain", unsafe { cu::primary_ctx::retain(device) })?;
        self.meet(from.ordinal);
        let copied = self.enter().and_then(|()| {
            after.into_iter().try_for_each(|event| wait(self.copies, event))?;
            // SAFETY: the owners allocated at least this many bytes in these contexts.
            let copied =
                unsafe { cu::memcpy_peer_async(self.context, to.0, peer, from.address.0, bytes as usize, self.copies) };
            said("cuMemcpyPeerAsync", copied)?;
            // SAFETY: event and stream are alive and of one context.
            said("cuEventRecord", unsafe { cu::event::record(done.0 as sys::CUevent, self.copies) })
        });
        // SAFETY: it was retained above.
        let _ = unsafe { cu::primary_ctx::release(device) };
        copied
    }

    fn load(&self, cubin: &[u8]) -> Answer<Module> {
        self.enter()?;
        // SAFETY: the machine code is intact: it comes from NVRTC, or from a cache that verified its checksum.
        let module = said("cuModuleLoadData", unsafe { cu::module::load_data(cubin.as_ptr().cast()) })?;
        Ok(Module(module as usize))
    }

    fn unload(&self, module: Module) {
        if self.enter().is_ok() {
            // SAFETY: the owner unloads the module once.
            let _ = unsafe { cu::module::unload(module.0 as sys::CUmodule) };
        }
    }

    fn function(&self, module: Module, name: &str) -> Answer<Function> {
        self.enter()?;
        let name = CString::new(name).unwrap_or_default();
        // SAFETY: the module is loaded.
        let function = unsafe { cu::module::get_function(module.0 as sys::CUmodule, name) };
        said("cuModuleGetFunction", function).map(|f| Function(f as usize))
    }

    fn allow_shared(&self, function: Function, bytes: u32) -> Answer {
        self.enter()?;
        let most = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function's module is loaded.
        let set = unsafe { cu::function::set_function_attribute(function.0 as sys::CUfunction, most, bytes as i32) };
        said("cuFuncSetAttribute", set)
    }

    fn static_shared(&self, function: Function) -> u32 {
        let which = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES;
        // SAFETY: the function's module is loaded.
        let bytes = unsafe { cu::function::get_function_attribute(function.0 as sys::CUfunction, which) };
        bytes.map_or(0, |bytes| bytes.max(0) as u32)
    }

    fn resident_blocks(&self, function: Function, threads: u32, shared: u32) -> Answer<u32> {
        self.enter()?;
        let mut blocks = 0;
        // SAFETY: the function's module is loaded, `blocks` is an integer.
        let asked = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                function.0 as sys::CUfunction,
                threads as i32,
                shared as usize,
            )
        };
        said("cuOccupancyMaxActiveBlocksPerMultiprocessor", asked.result())?;
        Ok(blocks.max(0) as u32 * self.properties.multiprocessors)
    }

    unsafe fn launch(&self, function: Function, shape: &Shape, arguments: &[Argument]) -> Answer {
        self.enter()?;
        let ([gx, gy, gz], [bx, by, bz]) = (shape.grid, shape.block);
        let (function, shared, stream) = (function.0 as sys::CUfunction, shape.shared, self.stream);
        with_pointers(arguments, |pointers| match shape.cooperative {
            false => {
                // SAFETY: guaranteed by the caller.
                let launched = unsafe {
                    sys::cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, pointers, null_mut())
                };
                said("cuLaunchKernel", launched.result())
            }
            true => {
                // SAFETY: guaranteed by the caller.
                let launched = unsafe {
                    sys::cuLaunchCooperativeKernel(function, gx, gy, gz, bx, by, bz, shared, stream, pointers)
                };
                said("cuLaunchCooperativeKernel", launched.result())
            }
        })?
    }

    unsafe fn graph(&self, launches: &[Launch]) -> Answer<Graph> {
        self.enter()?;
        let mut chain = Chain { graph: null_mut(), ready: null_mut(), nodes: Vec::with_capacity(launches.len()) };
        // SAFETY: `chain.graph` receives the handle.
        said("cuGraphCreate", unsafe { sys::cuGraphCreate(&mut chain.graph, 0) }.result())?;
        for launch in launches {
            let mut node = null_mut();
            let before = chain.nodes.last().map_or(null(), std::ptr::from_ref);
            let added = with_node(launch, |params| {
                // SAFETY: guaranteed by the caller; the node before is of the same graph.
                unsafe {
                    sys::cuGraphAddKernelNode_v2(&mut node, chain.graph, before, chain.nodes.len().min(1), params)
                }
            })?;
            said("cuGraphAddKernelNode", added.result())?;
            chain.nodes.push(node);
        }
        // SAFETY: the graph is alive, `chain.ready` receives the handle.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&mut chain.ready, chain.graph, 0) };
        said("cuGraphInstantiate", made.result())?;
        Ok(Graph(Box::into_raw(Box::new(chain)) as usize))
    }

    unsafe fn run_graph(&self, graph: Graph, changes: &[(usize, &Launch)]) -> Answer {
        self.enter()?;
        // SAFETY: `graph` returned this handle and it was not destroyed; nothing mutates the chain.
        let chain = unsafe { &*(graph.0 as *const Chain) };
        for (index, launch) in changes {
            let Some(&node) = chain.nodes.get(*index) else { continue };
            // SAFETY: guaranteed by the caller; the node is of this graph.
            let changed = with_node(launch, |params| unsafe {
                sys::cuGraphExecKernelNodeSetParams_v2(chain.ready, node, params)
            })?;
            said("cuGraphExecKernelNodeSetParams", changed.result())?;
        }
        // SAFETY: graph and stream are alive.
        said("cuGraphLaunch", unsafe { sys::cuGraphLaunch(chain.ready, self.stream) }.result())
    }

    fn forget_graph(&self, graph: Graph) {
        if self.enter().is_ok() {
            // SAFETY: `graph` created it, and the owner destroys it once.
            drop(unsafe { Box::from_raw(graph.0 as *mut Chain) });
        }
    }

    fn flag(&self) -> Answer<Address> {
        self.own_flag().map(|flag| flag.address)
    }

    fn is_flag_up(&self) -> bool {
        matches!(self.flag.get(), Some(Ok(flag)) if flag.word.load(Ordering::Acquire) != 0)
    }

    fn lower_flag(&self) {
        if let Some(Ok(flag)) = self.flag.get() {
            flag.word.store(0, Ordering::Release);
        }
    }

    fn synchronize(&self) -> Answer {
        self.enter()?;
        // SAFETY: the stream is alive.
        said("cuStreamSynchronize", unsafe { cu::stream::synchronize(self.stream) })
    }

    fn is_idle(&self) -> Answer<bool> {
        self.enter()?;
        // SAFETY: the stream is alive.
        match unsafe { sys::cuStreamQuery(self.stream) } {
            CUresult::CUDA_SUCCESS => Ok(true),
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => Err(refusal("cuStreamQuery", other)),
        }
    }

    fn is_reached(&self, event: Event) -> Answer<bool> {
        self.enter()?;
        // SAFETY: the event is alive.
        match unsafe { sys::cuEventQuery(event.0 as sys::CUevent) } {
            CUresult::CUDA_SUCCESS => Ok(true),
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            other => Err(refusal("cuEventQuery", other)),
        }
    }

    fn poke(&self, words: Words, value: u32) -> Answer {
        let flag = self.own_flag()?;
        self.enter()?;
        let _alone = self.poking.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the buffer behind the flag has this size, and the lock makes access exclusive.
        unsafe { std::slice::from_raw_parts_mut(flag.room, POKED).fill(value) };
        for done in (0..words.count).step_by(POKED) {
            // Copies have engines of their own; a memset may need a multiprocessor, and all may be occupied.
            let copy = sys::CUDA_MEMCPY2D {
                srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_HOST,
                srcHost: flag.room.cast(),
                srcPitch: size_of::<u32>(),
                dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
                dstDevice: words.first.0 + done * words.pitch,
                dstPitch: words.pitch as usize,
                WidthInBytes: size_of::<u32>(),
                Height: (words.count - done).min(POKED as u64) as usize,
                srcXInBytes: 0,
                srcY: 0,
                srcDevice: 0,
                srcArray: null_mut(),
                dstXInBytes: 0,
                dstY: 0,
                dstHost: null_mut(),
                dstArray: null_mut(),
            };
            // SAFETY: the owner allocated at least this many bytes; the second stream is alive, and is waited for below.
            said("cuMemcpy2DAsync", unsafe { sys::cuMemcpy2DAsync_v2(&copy, self.aside) }.result())?;
        }
        // SAFETY: the stream is alive.
        said("cuStreamSynchronize", unsafe { cu::stream::synchronize(self.aside) })
    }

    fn memory(&self) -> Answer<(u64, u64)> {
        self.enter()?;
        let (free, total) = said("cuMemGetInfo", cu::mem_get_info())?;
        Ok((free as u64, total as u64))
    }

    fn trim(&self) -> Answer {
        self.synchronize()?;
        // SAFETY: the pool is the device's own.
        said("cuMemPoolTrimTo", unsafe { cu::mem_pool::trim_to(self.pool, 0) })
    }

    fn event(&self) -> Answer<Event> {
        self.enter()?;
        said("cuEventCreate", cu::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)).map(|e| Event(e as usize))
    }

    fn record(&self, event: Event) -> Answer {
        self.enter()?;
        // SAFETY: event and stream are alive and of one context.
        said("cuEventRecord", unsafe { cu::event::record(event.0 as sys::CUevent, self.stream) })
    }

    fn come_behind(&self, stream: usize) -> Answer {
        self.enter()?;
        // Without asking whether there is something to wait for: to be told so takes longer.
        self.line_up(stream as sys::CUstream, &[self.stream])
    }

    fn go_before(&self, streams: &[usize]) -> Answer {
        self.enter()?;
        let streams: SmallVec<[sys::CUstream; 2]> = streams.iter().map(|&stream| stream as sys::CUstream).collect();
        self.line_up(self.stream, &streams)
    }

    fn quiet(&self) -> Answer {
        self.enter()?;
        said("cuCtxSynchronize", cu::ctx::synchronize())
    }

    fn wait(&self, event: Event) -> Answer {
        self.enter()?;
        wait(self.stream, event)
    }

    fn elapsed(&self, from: Event, to: Event) -> Answer<f64> {
        self.enter()?;
        // SAFETY: both events are alive.
        said("cuEventSynchronize", unsafe { cu::event::synchronize(to.0 as sys::CUevent) })?;
        // SAFETY: both events are alive and were recorded.
        let time = unsafe { symbols::elapsed(from.0 as sys::CUevent, to.0 as sys::CUevent) };
        said("cuEventElapsedTime", time).map(f64::from)
    }

    fn forget_event(&self, event: Event) {
        // SAFETY: the owner destroys the event once.
        let _ = unsafe { cu::event::destroy(event.0 as sys::CUevent) };
    }
}
