//! Driver functions for processes that share GPU memory (CUDA IPC).

use std::sync::Arc;

use cudarc::driver::result as cu;
use cudarc::driver::sys;

use super::{Nvidia, check_call, probe};
use crate::driver::{DevicePtr, DriverResult, GpuUnavailable, Properties, StreamEvent};
use crate::isolate::{IpcHandle, Opener, Shareable};

impl Shareable for Nvidia {
    fn allocate_shared(&self, bytes: u64) -> DriverResult<(DevicePtr, IpcHandle)> {
        self.enter()?;
        // Allocate outside the pool, because memory of the pool cannot be exported.
        // SAFETY: the context is current, and the call has no other preconditions.
        let address = check_call("cuMemAlloc", unsafe { cu::malloc_sync(bytes as usize) })?;
        let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: the address was just allocated, and `handle` receives the handle.
        let result = check_call("cuIpcGetMemHandle", unsafe { sys::cuIpcGetMemHandle(&mut handle, address) }.result());
        match result {
            Ok(()) => Ok((DevicePtr(address), IpcHandle(handle.reserved.map(|byte| byte as u8)))),
            Err(refusal) => {
                // SAFETY: no other code has the address yet.
                let _ = unsafe { cu::free_sync(address) };
                Err(refusal)
            }
        }
    }

    fn free_shared(&self, address: DevicePtr) {
        if self.enter().is_ok() {
            // SAFETY: the owner frees the memory once, after all workers have unmapped it.
            let _ = unsafe { cu::free_sync(address.0) };
        }
    }

    fn map(&self, handle: &IpcHandle) -> DriverResult<DevicePtr> {
        self.enter()?;
        let handle = sys::CUipcMemHandle { reserved: handle.0.map(|byte| byte as _) };
        let lazily = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let mut address = 0;
        // SAFETY: `address` receives the address; an invalid handle is rejected.
        let opened = unsafe { sys::cuIpcOpenMemHandle_v2(&mut address, handle, lazily) };
        check_call("cuIpcOpenMemHandle", opened.result())?;
        Ok(DevicePtr(address))
    }

    fn unmap(&self, address: DevicePtr) {
        if self.enter().is_ok() {
            // SAFETY: `map` mapped the memory, and no pending operation uses it.
            let _ = unsafe { sys::cuIpcCloseMemHandle(address.0) };
        }
    }

    unsafe fn pin(&self, memory: *mut u8, bytes: usize) -> DriverResult<DevicePtr> {
        self.enter()?;
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: guaranteed by the caller.
        let pinned = unsafe { sys::cuMemHostRegister_v2(memory.cast(), bytes, flags) };
        check_call("cuMemHostRegister", pinned.result())?;
        let mut address = 0;
        // SAFETY: the memory was just registered, and `address` receives the address.
        let result = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, memory.cast(), 0) };
        check_call("cuMemHostGetDevicePointer", result.result())?;
        Ok(DevicePtr(address))
    }

    unsafe fn upload_pinned(&self, to: DevicePtr, from: *const u8, bytes: usize) -> DriverResult {
        self.enter()?;
        // SAFETY: guaranteed by the caller; the stream is alive.
        let copied = unsafe { sys::cuMemcpyHtoDAsync_v2(to.0, from.cast(), bytes, self.stream) };
        check_call("cuMemcpyHtoDAsync", copied.result())
    }

    unsafe fn download_pinned(&self, from: DevicePtr, to: *mut u8, bytes: usize) -> DriverResult {
        self.enter()?;
        // SAFETY: guaranteed by the caller; the stream is alive.
        let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from.0, bytes, self.stream) };
        check_call("cuMemcpyDtoHAsync", copied.result())
    }

    fn wait_for(&self, event: StreamEvent) -> DriverResult {
        self.enter()?;
        // SAFETY: the event is alive.
        check_call("cuEventSynchronize", unsafe { cu::event::synchronize(event.0 as sys::CUevent) })
    }

    fn write_word(&self, address: DevicePtr, value: u32) -> DriverResult {
        self.enter()?;
        // SAFETY: the address is that of a pinned word; the stream is alive.
        let written = unsafe { sys::cuStreamWriteValue32_v2(self.stream, address.0, value, 0) };
        check_call("cuStreamWriteValue32", written.result())
    }
}

/// The NVIDIA GPU with this ordinal, for a child process to open.
pub struct GpuByOrdinal(pub u32);

impl Opener for GpuByOrdinal {
    fn probe(&self) -> Result<Properties, GpuUnavailable> {
        probe(self.0)
    }

    fn open(&self, properties: Properties) -> DriverResult<Arc<dyn Shareable>> {
        Ok(Arc::new(Nvidia::open(properties)?))
    }
}
