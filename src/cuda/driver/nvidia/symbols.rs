//! The functions of the driver's library that Clk calls.
//!
//! Input: the open library. Output: the name of a missing function, and bindings that cudarc does not have. cudarc
//! looks up a function at its first call and panics if the library does not have it. Clk therefore looks up all names
//! in advance, and reports a missing function like a missing driver.

use std::ffi::c_float;
use std::sync::OnceLock;

use cudarc::driver::result::DriverError;
use cudarc::driver::sys::{self, CUevent, CUresult};

/// Functions that initialize the driver and query its version.
const START_FUNCTIONS: [&str; 3] = ["cuInit", "cuDriverGetVersion", "cuGetErrorName"];

/// All other functions that Clk calls.
const OTHER_FUNCTIONS: [&str; 61] = [
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

/// The two names of one function. Drivers before 12.8 have only the first.
const ELAPSED: [&str; 2] = ["cuEventElapsedTime", "cuEventElapsedTime_v2"];

/// Proof that the library of a driver has been opened.
#[derive(Clone, Copy)]
pub(super) struct Library(());

impl Library {
    /// Returns the library if it can be opened.
    pub(super) fn open() -> Option<Library> {
        // SAFETY: the function only opens and closes libraries by their names.
        unsafe { sys::is_culib_present() }.then_some(Library(()))
    }

    fn has_function(self, name: &str) -> bool {
        // SAFETY: the library is open, and the symbol is not called.
        unsafe { sys::culib().get::<unsafe extern "C" fn()>(name.as_bytes()) }.is_ok()
    }

    /// Returns the name of a function in [`START_FUNCTIONS`] that the library lacks.
    pub(super) fn missing_start_function(self) -> Option<&'static str> {
        START_FUNCTIONS.into_iter().find(|name| !self.has_function(name))
    }

    /// Returns the name of any other function that the library lacks.
    pub(super) fn missing_function(self) -> Option<&'static str> {
        static LACKING: OnceLock<Option<&str>> = OnceLock::new();
        *LACKING.get_or_init(|| {
            let elapsed = ELAPSED.iter().all(|name| !self.has_function(name)).then_some(ELAPSED[0]);
            OTHER_FUNCTIONS.into_iter().find(|name| !self.has_function(name)).or(elapsed)
        })
    }
}

/// Returns the milliseconds between two recorded events.
///
/// cudarc has a binding only for the second name of [`ELAPSED`].
///
/// # Safety
/// Both events are alive, recorded and from the same context, and the library is open.
pub(super) unsafe fn elapsed(from: CUevent, to: CUevent) -> Result<f32, DriverError> {
    type Elapsed = unsafe extern "C" fn(*mut c_float, CUevent, CUevent) -> CUresult;
    let mut milliseconds = 0.0;
    // SAFETY: the type is the one in `cuda.h`, and is the same for both names.
    match ELAPSED.iter().find_map(|name| unsafe { sys::culib().get::<Elapsed>(name.as_bytes()) }.ok()) {
        // SAFETY: the caller guarantees valid events, and `milliseconds` is a number.
        Some(function) => unsafe { function(&mut milliseconds, from, to) }.result().map(|()| milliseconds),
        None => Err(DriverError(CUresult::CUDA_ERROR_NOT_FOUND)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The driver function that each function of `cudarc::driver::result` calls.
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

    /// Returns the paths of functions that occur after a prefix in source code.
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
    fn called_functions_are_looked_up_at_start() {
        let texts = [include_str!("mod.rs"), include_str!("guest.rs"), include_str!("shared.rs")];
        let text = [texts.concat(), include_str!("staging.rs").into()].concat();
        let wrapped = |name: &&str| {
            let entry = WRAPPED.iter().find(|(wrapper, _)| wrapper == name);
            entry.unwrap_or_else(|| panic!("which function does `cudarc::driver::result::{name}` call?")).1
        };
        let mut all: BTreeSet<&str> =
            called(&text, "cu::").iter().filter(|n| **n != "DriverError").map(wrapped).collect();
        all.extend(called(&text, "sys::").into_iter().filter(|name| name.starts_with("cu")));
        // `error_name` of cudarc calls this function.
        all.insert("cuGetErrorName");
        let listed: BTreeSet<&str> = START_FUNCTIONS.into_iter().chain(OTHER_FUNCTIONS).collect();
        assert_eq!(listed, all);
    }
}
