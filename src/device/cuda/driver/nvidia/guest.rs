//! Clk in a process with other users of CUDA, such as Python with torch.
//!
//! Input: addresses and calls that come from there. Output: whose memory an address is, a stream for producers to meet, and a thread that
//! is left with the context that it had. Idea: all use the primary context of a GPU, so that memory, streams and events are common.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::result as cu;
use cudarc::driver::sys::{self, CUpointer_attribute_enum as Attribute, CUresult};

use super::symbols::Library;
use super::{Absent, said, start};
use crate::device::cuda::driver::Answer;

/// Whether there is a driver that can say which context is current.
fn is_present() -> bool {
    static PRESENT: OnceLock<bool> = OnceLock::new();
    *PRESENT.get_or_init(|| Library::open().is_some_and(|library| library.lacks().is_none()))
}

/// Returns the current context of this thread; null if there is none.
fn current() -> sys::CUcontext {
    cu::ctx::get_current().ok().flatten().unwrap_or(null_mut())
}

/// The time in which Clk works for another user of the thread: at its end the context is current that was so before.
pub struct Visit(Option<usize>);

impl Visit {
    pub fn begin() -> Visit {
        Visit(is_present().then(|| current().addr()))
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let Some(before) = self.0 else { return };
        if current().addr() != before {
            // SAFETY: it was current on this thread, or is none; should it be gone meanwhile, the driver says so.
            let _ = unsafe { cu::ctx::set_current(before as sys::CUcontext) };
        }
    }
}

/// Returns a stream of a GPU, made once, that those who lend memory have wait for their work.
pub fn meeting(gpu: u32) -> Result<usize, String> {
    static STREAMS: Mutex<BTreeMap<u32, usize>> = Mutex::new(BTreeMap::new());
    let mut streams = STREAMS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stream) = streams.get(&gpu) {
        return Ok(*stream);
    }
    let _visit = Visit::begin();
    start().map_err(|absent| absent.to_string())?;
    let stream = made(gpu).map_err(|refusal| Absent::Refused(refusal).to_string())?;
    streams.insert(gpu, stream);
    Ok(stream)
}

fn made(gpu: u32) -> Answer<usize> {
    let device = said("cuDeviceGet", cu::device::get(gpu as i32))?;
    // SAFETY: the device handle is valid; the context is retained until the process ends.
    let context = said("cuDevicePrimaryCtxRetain", unsafe { cu::primary_ctx::retain(device) })?;
    // SAFETY: the context is alive.
    said("cuCtxSetCurrent", unsafe { cu::ctx::set_current(context) })?;
    let stream = said("cuStreamCreate", cu::stream::create(cu::stream::StreamKind::NonBlocking))?;
    Ok(stream as usize)
}

/// Returns whether a stream's work is being recorded in a graph: then it must not even be asked what it has to do.
pub fn is_recorded(stream: usize) -> bool {
    if !is_present() {
        return false;
    }
    let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
    // SAFETY: the stream is alive by the word of who works on it.
    match unsafe { sys::cuStreamIsCapturing(stream as sys::CUstream, &raw mut status) } {
        CUresult::CUDA_SUCCESS => status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE,
        // The default stream, while another one that waits for it is recorded.
        answer => answer == CUresult::CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
    }
}

/// Returns the number of the GPU whose memory has this address; `None` if it is no GPU's.
pub fn owner(address: u64) -> Option<u32> {
    start().ok()?;
    let ask = |attribute| {
        let mut answer = 0_i32;
        // SAFETY: both attributes are numbers of this size; an address that CUDA does not know is an error.
        let asked = unsafe { sys::cuPointerGetAttribute((&raw mut answer).cast::<c_void>(), attribute, address) };
        asked.result().ok().map(|()| answer)
    };
    let kind = ask(Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE)?;
    if kind != sys::CUmemorytype::CU_MEMORYTYPE_DEVICE as i32 {
        return None;
    }
    ask(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL).and_then(|gpu| u32::try_from(gpu).ok())
}
