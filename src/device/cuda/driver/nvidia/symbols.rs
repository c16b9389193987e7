//! The functions of the driver's library that are called. In: the open library. Out: which of them it lacks, and those that cudarc
//! does not bind.
//!
//! cudarc looks a function up when it is first called, and panics if the library has none of that name. So all names are looked up
//! once before, and a library without one of them is an error like a missing driver.

use std::ffi::c_float;
use std::sync::OnceLock;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUevent, CUresult};

/// What it takes to start the driver and to ask for its version.
const FIRST: [&str; 3] = ["cuInit", "cuDriverGetVersion", "cuGetErrorName"];

/// Everything else.
const OTHERS: [&str; 61] = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDeviceCanAccessPeer",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDeviceGetCount",
    "cuDeviceGetDefaultMemPool",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRelease_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDeviceTotalMem_v2",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventQuery",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuFuncGetAttribute",
    "cuFuncSetAttribute",
    "cuGraphAddKernelNode_v2",
    "cuGraphCreate",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuGraphExecKernelNodeSetParams_v2",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
    "cuIpcCloseMemHandle",
    "cuIpcGetMemHandle",
    "cuIpcOpenMemHandle_v2",
    "cuLaunchCooperativeKernel",
    "cuLaunchKernel",
    "cuMemAllocAsync",
    "cuMemAlloc_v2",
    "cuMemFreeAsync",
    "cuMemFree_v2",
    "cuMemGetInfo_v2",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer_v2",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemPoolSetAccess",
    "cuMemPoolSetAttribute",
    "cuMemPoolTrimTo",
    "cuMemcpy2DAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyPeerAsync",
    "cuMemsetD8Async",
    "cuModuleGetFunction",
    "cuModuleLoadData",
    "cuModuleUnload",
    "cuOccupancyMaxActiveBlocksPerMultiprocessor",
    "cuPointerGetAttribute",
    "cuStreamCreate",
    "cuStreamIsCapturing",
    "cuStreamQuery",
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamWriteValue32_v2",
    "cuTensorMapEncodeTiled",
];

/// The same function: drivers before 12.8 have the first one only.
const ELAPSED: [&str; 2] = ["cuEventElapsedTime", "cuEventElapsedTime_v2"];

/// The library of a driver that is there.
#[derive(Clone, Copy)]
pub(super) struct Library(());

impl Library {
    /// Returns the library if it can be opened.
    pub(super) fn open() -> Option<Library> {
        // SAFETY: it opens and closes libraries by their names.
        unsafe { sys::is_culib_present() }.then_some(Library(()))
    }

    fn has(self, name: &str) -> bool {
        // SAFETY: the library is there, and the address is only compared with none.
        unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok()
    }

    /// Returns a function that the library lacks of those that start the driver.
    pub(super) fn lacks_first(self) -> Option<&'static str> {
        FIRST.into_iter().find(|name| !self.has(name))
    }

    /// Returns a function that the library lacks of all others.
    pub(super) fn lacks(self) -> Option<&'static str> {
        static LACKING: OnceLock<Option<&str>> = OnceLock::new();
        *LACKING.get_or_init(|| {
            let elapsed = ELAPSED.iter().all(|name| !self.has(name)).then_some(ELAPSED[0]);
            OTHERS.into_iter().find(|name| !self.has(name)).or(elapsed)
        })
    }
}

/// Milliseconds between two recorded events.
///
/// cudarc binds only the second one of [`ELAPSED`].
///
/// # Safety
/// Both events are alive, of one context and recorded, and the library has been opened.
pub(super) unsafe fn elapsed(from: CUevent, to: CUevent) -> Result<f32, DriverError> {
    type Elapsed = unsafe extern "C" fn(*mut c_float, CUevent, CUevent) -> CUresult;
    let mut milliseconds = 0.0;
    // SAFETY: the type is that of `cuda.h`, the same for both.
    match ELAPSED.iter().find_map(|name| unsafe { sys::culib().get::<Elapsed>(name.as_bytes()) }.ok()) {
        // SAFETY: the caller's promise; `milliseconds` is a number.
        Some(function) => unsafe { function(&mut milliseconds, from, to) }.result().map(|()| milliseconds),
        None => Err(DriverError(CUresult::CUDA_ERROR_NOT_FOUND)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// What `cudarc::driver::result` calls, by its names.
    const WRAPPED: &[(&str, &str)] = &[
        ("ctx::get_current", "cuCtxGetCurrent"),
        ("ctx::set_current", "cuCtxSetCurrent"),
        ("ctx::synchronize", "cuCtxSynchronize"),
        ("device::get", "cuDeviceGet"),
        ("device::get_attribute", "cuDeviceGetAttribute"),
        ("device::get_count", "cuDeviceGetCount"),
        ("device::get_default_mem_pool", "cuDeviceGetDefaultMemPool"),
        ("device::total_mem", "cuDeviceTotalMem_v2"),
        ("event::create", "cuEventCreate"),
        ("event::destroy", "cuEventDestroy_v2"),
        ("event::record", "cuEventRecord"),
        ("event::synchronize", "cuEventSynchronize"),
        ("free_async", "cuMemFreeAsync"),
        ("free_sync", "cuMemFree_v2"),
        ("function::get_function_attribute", "cuFuncGetAttribute"),
        ("function::set_function_attribute", "cuFuncSetAttribute"),
        ("init", "cuInit"),
        ("malloc_async", "cuMemAllocAsync"),
        ("malloc_host", "cuMemHostAlloc"),
        ("malloc_sync", "cuMemAlloc_v2"),
        ("mem_get_info", "cuMemGetInfo_v2"),
        ("mem_pool::set_attribute", "cuMemPoolSetAttribute"),
        ("mem_pool::trim_to", "cuMemPoolTrimTo"),
        ("memcpy_dtod_async", "cuMemcpyDtoDAsync_v2"),
        ("memcpy_dtoh_async", "cuMemcpyDtoHAsync_v2"),
        ("memcpy_htod_async", "cuMemcpyHtoDAsync_v2"),
        ("memcpy_peer_async", "cuMemcpyPeerAsync"),
        ("memset_d8_async", "cuMemsetD8Async"),
        ("module::get_function", "cuModuleGetFunction"),
        ("module::load_data", "cuModuleLoadData"),
        ("module::unload", "cuModuleUnload"),
        ("primary_ctx::release", "cuDevicePrimaryCtxRelease_v2"),
        ("primary_ctx::retain", "cuDevicePrimaryCtxRetain"),
        ("stream::create", "cuStreamCreate"),
        ("stream::synchronize", "cuStreamSynchronize"),
        ("stream::wait_event", "cuStreamWaitEvent"),
    ];

    /// The paths that follow a prefix in code, as far as something is called by them.
    fn called<'t>(text: &'t str, prefix: &str) -> BTreeSet<&'t str> {
        let path = |at: usize| {
            let rest = &text[at + prefix.len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(rest.len());
            (rest[end..].starts_with('(')).then_some(&rest[..end])
        };
        let starts = text.match_indices(prefix).filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphanumeric()));
        starts.filter_map(|(at, _)| path(at)).collect()
    }

    #[test]
    fn every_function_that_is_called_is_looked_up_before() {
        let texts = [include_str!("../nvidia.rs"), include_str!("guest.rs"), include_str!("shared.rs")];
        let text = [texts.concat(), include_str!("staging.rs").into()].concat();
        let wrapped = |name: &&str| {
            let known = WRAPPED.iter().find(|(wrapper, _)| wrapper == name);
            known.unwrap_or_else(|| panic!("which function does `cudarc::driver::result::{name}` call?")).1
        };
        let mut all: BTreeSet<&str> =
            called(&text, "cu::").iter().filter(|n| **n != "DriverError").map(wrapped).collect();
        all.extend(called(&text, "sys::").into_iter().filter(|name| name.starts_with("cu")));
        // `error_name`.
        all.insert("cuGetErrorName");
        let listed: BTreeSet<&str> = FIRST.into_iter().chain(OTHERS).collect();
        assert_eq!(listed, all);
    }
}
