//! Support for running Clk in a process with other users of CUDA, such as Python with PyTorch.
//!
//! Input: addresses and calls from other libraries. Output: the GPU that owns an address, a stream that synchronizes
//! with the owners of imported buffers, and a guard that restores a thread's context. All users share the primary
//! context of a GPU, so they can use each other's memory, streams and events.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::result as cu;
use cudarc::driver::sys::{self, CUpointer_attribute_enum as Attribute, CUresult};

use super::symbols::Library;
use super::{check_call, start};
use crate::driver::{DriverResult, GpuUnavailable};

/// Returns whether a driver is installed and can report the current context.
fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| Library::open().is_some_and(|library| library.missing_function().is_none()))
}

/// Returns the current context of this thread, or null if there is none.
fn current() -> sys::CUcontext {
    cu::ctx::get_current().ok().flatten().unwrap_or(null_mut())
}

/// Guard for code that may change the CUDA context of a thread which another library uses. Restores the context when
/// dropped.
pub struct ContextGuard(Option<usize>);

impl ContextGuard {
    pub fn begin() -> ContextGuard {
        ContextGuard(is_present().then(|| current().addr()))
    }
}

impl Drop for ContextGuard {
    fn drop(&mut self) {
        let Some(before) = self.0 else { return };
        if current().addr() != before {
            // SAFETY: the context was current on this thread, or is null. If it has been destroyed meanwhile, the
            // driver returns an error.
            let _ = unsafe { cu::ctx::set_current(before as sys::CUcontext) };
        }
    }
}

/// Returns the stream of a GPU on which owners of imported buffers make Clk wait for their work. It is created once for
/// each GPU.
pub fn meeting(gpu: u32) -> Result<usize, GpuUnavailable> {
    static STREAMS: Mutex<BTreeMap<u32, usize>> = Mutex::new(BTreeMap::new());
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stream) = streams.get(&gpu) {
        return Ok(*stream);
    }
    let _visit = ContextGuard::begin();
    start()?;
    let stream = create_stream(gpu).map_err(GpuUnavailable::Refused)?;
    streams.insert(gpu, stream);
    Ok(stream)
}

fn create_stream(gpu: u32) -> DriverResult<usize> {
    let device = check_call("cuDeviceGet", cu::device::get(gpu as i32))?;
    // SAFETY: the device handle is valid; the context is retained until the process ends.
    let context = check_call("cuDevicePrimaryCtxRetain", unsafe { cu::primary_ctx::retain(device) })?;
    // SAFETY: the context is alive.
    check_call("cuCtxSetCurrent", unsafe { cu::ctx::set_current(context) })?;
    let stream = check_call("cuStreamCreate", cu::stream::create(cu::stream::StreamKind::NonBlocking))?;
    Ok(stream as usize)
}

/// Returns whether a graph is being captured from a stream. During capture, even queries of the stream's state are not
/// allowed.
pub fn is_recorded(stream: usize) -> bool {
    if !is_present() {
        return false;
    }
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the library that uses the stream guarantees that it is alive.
    match unsafe { sys::cuStreamIsCapturing(stream as sys::CUstream, &raw mut status) } {
        CUresult::CUDA_SUCCESS => status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE,
        // The driver returns this code for the default stream while another stream that waits for it is being captured.
        answer => answer == CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
    }
}

/// Returns the ordinal of the GPU whose memory contains this address, or `None` if the address is not in GPU memory.
pub fn owner(address: u64) -> Option<u32> {
    start().ok()?;
    let ask = |attribute| {
        let mut answer = 0_i32;
        // SAFETY: both attributes are numbers of this size. For an unknown address, the driver returns an error.
        let result = unsafe { sys::cuPointerGetAttribute((&raw mut answer).cast::<c_void>(), attribute, address) };
        result.result().ok().map(|()| answer)
    };
    let kind = ask(Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE)?;
    if kind != sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as i32 {
        return None;
    }
    ask(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL).and_then(|gpu| u32::try_from(gpu).ok())
}
