//! Driver functions for processes that share GPU memory.

use std::sync::Arc;

use cudarc::driver::result as cu;
use cudarc::driver::sys;

use super::{Nvidia, probe, said};
use crate::device::cuda::driver::{Address, Answer, Event, Properties};
use crate::device::cuda::isolate::{Handle, Opener, Shareable};

impl Shareable for Nvidia {
    fn allocate_shared(&self, bytes: u64) -> Answer<(Address, Handle)> {
        self.enter()?;
        // Memory of the pool cannot be exported.
        // SAFETY: the context is current.
        let address = said("cuMemAlloc", unsafe { cu::malloc_sync(bytes as usize) })?;
        let mut handle = sys::CUipcMemHandle { reserved: [0; 64] };
        // SAFETY: the address was just allocated, `handle` receives the handle.
        let named = said("cuIpcGetMemHandle", unsafe { sys::cuIpcGetMemHandle(&mut handle, address) }.result());
        match named {
            Ok(()) => Ok((Address(address), Handle(handle.reserved.map(|byte| byte as u8)))),
            Err(refusal) => {
                // SAFETY: the address is not known anywhere else.
                let _ = unsafe { cu::free_sync(address) };
                Err(refusal)
            }
        }
    }

    fn free_shared(&self, address: Address) {
        if self.enter().is_ok() {
            // SAFETY: the owner frees it once, after all workers have unmapped it.
            let _ = unsafe { cu::free_sync(address.0) };
        }
    }

    fn map(&self, handle: &Handle) -> Answer<Address> {
        self.enter()?;
        let handle = sys::CUipcMemHandle { reserved: handle.0.map(|byte| byte as _) };
        let lazily = sys::CUipcMem_flags::CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS as u32;
        let mut address = 0;
        // SAFETY: `address` receives the address; an invalid handle is rejected.
        let opened = unsafe { sys::cuIpcOpenMemHandle_v2(&mut address, handle, lazily) };
        said("cuIpcOpenMemHandle", opened.result())?;
        Ok(Address(address))
    }

    fn unmap(&self, address: Address) {
        if self.enter().is_ok() {
            // SAFETY: it was mapped by `map`, and no pending operation uses it.
            let _ = unsafe { sys::cuIpcCloseMemHandle(address.0) };
        }
    }

    unsafe fn pin(&self, memory: *mut u8, bytes: usize) -> Answer<Address> {
        self.enter()?;
        let flags = sys::CU_MEMHOSTREGISTER_PORTABLE | sys::CU_MEMHOSTREGISTER_DEVICEMAP;
        // SAFETY: guaranteed by the caller.
        let pinned = unsafe { sys::cuMemHostRegister_v2(memory.cast(), bytes, flags) };
        said("cuMemHostRegister", pinned.result())?;
        let mut address = 0;
        // SAFETY: the memory was just registered, `address` receives the address.
        let asked = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut address, memory.cast(), 0) };
        said("cuMemHostGetDevicePointer", asked.result())?;
        Ok(Address(address))
    }

    unsafe fn upload_pinned(&self, to: Address, from: *const u8, bytes: usize) -> Answer {
        self.enter()?;
        // SAFETY: guaranteed by the caller; the stream is alive.
        let copied = unsafe { sys::cuMemcpyHtoDAsync_v2(to.0, from.cast(), bytes, self.stream) };
        said("cuMemcpyHtoDAsync", copied.result())
    }

    unsafe fn download_pinned(&self, from: Address, to: *mut u8, bytes: usize) -> Answer {
        self.enter()?;
        // SAFETY: guaranteed by the caller; the stream is alive.
        let copied = unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from.0, bytes, self.stream) };
        said("cuMemcpyDtoHAsync", copied.result())
    }

    fn wait_for(&self, event: Event) -> Answer {
        self.enter()?;
        // SAFETY: the event is alive.
        said("cuEventSynchronize", unsafe { cu::event::synchronize(event.0 as sys::CUevent) })
    }

    fn write_word(&self, address: Address, value: u32) -> Answer {
        self.enter()?;
        // SAFETY: the address is that of a pinned word; the stream is alive.
        let written = unsafe { sys::cuStreamWriteValue32_v2(self.stream, address.0, value, 0) };
        said("cuStreamWriteValue32", written.result())
    }
}

/// NVIDIA's GPU with this ordinal, for a child process to open.
pub struct Numbered(pub u32);

impl Opener for Numbered {
    fn probe(&self) -> Result<Properties, String> {
        probe(self.0).map_err(|absent| absent.to_string())
    }

    fn open(&self, properties: Properties) -> Answer<Arc<dyn Shareable>> {
        Ok(Arc::new(Nvidia::open(properties)?))
    }
}
