//! Arrays in GPU memory.

use std::any::Any;
use std::sync::Arc;

use super::context::Context;
use super::driver::Address;
use crate::device::DeviceError;
use crate::device::storage::{Remote, RemoteCopy, Storage};

/// The memory of one array, freed with its last owner.
pub(crate) struct Buffer {
    context: Arc<Context>,
    address: Address,
    bytes: u64,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.context.free(self.address, self.bytes);
    }
}

impl Remote for Buffer {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.context.download(Address(self.address.0 + offset), into)
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl Buffer {
    /// Allocates uninitialized memory.
    pub fn new(context: &Arc<Context>, bytes: u64) -> Result<Buffer, DeviceError> {
        let address = context.allocate(bytes)?;
        Ok(Buffer { context: context.clone(), address, bytes })
    }

    pub fn zeroed(context: &Arc<Context>, bytes: u64) -> Result<Buffer, DeviceError> {
        let buffer = Self::new(context, bytes)?;
        if bytes > 0 {
            context.call(|driver| driver.zero(buffer.address, bytes))?;
        }
        Ok(buffer)
    }

    pub fn of_bytes(context: &Arc<Context>, bytes: &[u8]) -> Result<Buffer, DeviceError> {
        let buffer = Self::new(context, bytes.len() as u64)?;
        context.upload(buffer.address, bytes)?;
        Ok(buffer)
    }

    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns the size in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    pub fn download(&self, into: &mut [u8]) -> Result<(), DeviceError> {
        self.context.download(self.address, into)
    }

    /// Copies the bytes to new memory of `context`, which may be another GPU's.
    fn copied_to(&self, context: &Arc<Context>) -> Result<Buffer, DeviceError> {
        let copy = Self::new(context, self.bytes)?;
        if self.bytes == 0 {
            return Ok(copy);
        }
        self.context.flush()?;
        if Arc::ptr_eq(&self.context, context) {
            context.call(|driver| driver.copy(copy.address, self.address, self.bytes))?;
        } else if self.context.is_isolated() || context.is_isolated() {
            // One of the two GPUs is driven by another process: copies through the host.
            context.flush()?;
            let mut bytes = vec![0; self.bytes as usize];
            self.download(&mut bytes)?;
            context.upload(copy.address, &bytes)?;
        } else {
            context.flush()?;
            self.context.finish()?;
            let peer = self.context.properties.ordinal;
            if context.call(|driver| driver.copy_from_peer(copy.address, peer, self.address, self.bytes)).is_err() {
                // The GPUs have no peer access.
                let mut bytes = vec![0; self.bytes as usize];
                self.download(&mut bytes)?;
                context.upload(copy.address, &bytes)?;
            }
        }
        Ok(copy)
    }
}

/// Returns the GPU memory of a storage, on any GPU.
fn buffer(remote: &RemoteCopy) -> Option<Arc<Buffer>> {
    remote.clone()?.into_any().downcast().ok()
}

/// Returns it if it is on this GPU.
fn own(remote: &RemoteCopy, context: &Arc<Context>) -> Option<Arc<Buffer>> {
    buffer(remote).filter(|buffer| Arc::ptr_eq(&buffer.context, context))
}

/// Returns the array in this GPU's memory, copied there if necessary; copies elsewhere stay valid.
pub(crate) fn for_reading(storage: &Storage, context: &Arc<Context>) -> Result<Arc<Buffer>, DeviceError> {
    let mut remote = storage.remote();
    if let Some(buffer) = own(&remote, context) {
        return Ok(buffer);
    }
    let buffer = Arc::new(brought(storage, &remote, context)?);
    *remote = Some(buffer.clone());
    Ok(buffer)
}

/// Returns the array in this GPU's memory, for a kernel that writes it; all other copies are dropped. `whole`: the kernel
/// overwrites every element and reads none, so that nothing is copied.
pub(crate) fn for_writing(
    storage: &mut Storage,
    context: &Arc<Context>,
    whole: bool,
) -> Result<Arc<Buffer>, DeviceError> {
    let found = own(&storage.remote(), context);
    // One reference is this one, the second the storage's; more belong to arrays that share the memory.
    let buffer = match found {
        Some(buffer) if Arc::strong_count(&buffer) <= 2 => buffer,
        _ if whole => Arc::new(Buffer::new(context, storage.len() as u64)?),
        Some(shared) => Arc::new(shared.copied_to(context)?),
        None => {
            let remote = storage.remote().clone();
            Arc::new(brought(storage, &remote, context)?)
        }
    };
    storage.written_remotely(buffer.clone());
    Ok(buffer)
}

/// Copies the bytes to this GPU from wherever they are.
fn brought(storage: &Storage, remote: &RemoteCopy, context: &Arc<Context>) -> Result<Buffer, DeviceError> {
    if let Some(bytes) = storage.here() {
        return Buffer::of_bytes(context, bytes);
    }
    match buffer(remote) {
        Some(elsewhere) => elsewhere.copied_to(context),
        None => match remote {
            Some(remote) => {
                let mut bytes = vec![0; storage.len()];
                remote.read(0, &mut bytes)?;
                Buffer::of_bytes(context, &bytes)
            }
            None => Buffer::zeroed(context, storage.len() as u64),
        },
    }
}
