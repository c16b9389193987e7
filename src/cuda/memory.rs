//! Arrays in GPU memory.
//!
//! When memory is full, arrays that no launch uses are evicted to the host, least recently used first. All other code
//! still treats an evicted array as device memory ([`DeviceBytes`]). A launch makes it resident again, and a read
//! copies from the host.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::GpuContext;
use super::driver::{DevicePtr, Peer, StreamEvent};
use clk_base::aligned::AlignedBytes;
use clk_runtime::import::{ImportedBuffer, KeepAlive};
use clk_runtime::resident_arrays::ResidentArray;
use clk_runtime::storage::{DeviceBytes, DeviceCopy, PendingTransfer, Storage};
use clk_runtime::{DeviceError, PendingUpload};

/// The GPU memory of an array. It is freed when the last owner is dropped.
pub(crate) struct Buffer {
    context: Arc<GpuContext>,
    place: Mutex<BufferLocation>,
    bytes: u64,
    /// The event at the end of an upload, until other operations have been made to wait for it.
    pending_upload: Mutex<Option<StreamEvent>>,
    /// The number of the last launch that used the array; see
    /// [`count_use`](clk_runtime::resident_arrays::ResidentArrays::count_use).
    last_use: AtomicU64,
    /// The owner of an imported buffer.
    import_owner: Option<ImportOwner>,
}

/// The owner of an imported buffer. `in_order`: the owner frees the buffer in stream order, after Clk's work.
struct ImportOwner {
    keep_alive: KeepAlive,
    in_order: bool,
}

enum BufferLocation {
    OnDevice(DevicePtr),
    /// The array has been evicted to the host.
    OnHost(AlignedBytes),
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // Wait for a pending upload, after which nothing uses the memory.
        let _ = self.wait_for_upload();
        if let Some(ImportOwner { keep_alive, in_order }) = &self.import_owner {
            // The owner does not wait for Clk's work, so wait here until no operation uses the memory.
            if !in_order && Arc::strong_count(keep_alive) == 1 {
                let _ = self.context.flush();
                let _ = self.context.call(|driver| driver.synchronize());
            }
            return;
        }
        if let BufferLocation::OnDevice(address) = *self.place() {
            self.context.free(address, self.bytes);
        }
    }
}

impl DeviceBytes for Buffer {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.wait_for_upload()?;
        match &*self.place() {
            BufferLocation::OnDevice(address) => self.context.download(DevicePtr(address.0 + offset), into),
            BufferLocation::OnHost(bytes) => {
                let start = offset as usize;
                if let Some(from) = bytes.get(start..start + into.len()) {
                    into.copy_from_slice(from);
                }
                Ok(())
            }
        }
    }

    fn copy_to(
        &self,
        start: u64,
        target: Arc<dyn DeviceBytes>,
        at: u64,
        len: u64,
    ) -> Result<Option<PendingTransfer>, DeviceError> {
        let Ok(target) = target.into_any().downcast::<Buffer>() else { return Ok(None) };
        // There are two references to the buffer if only this storage uses it: this one and that of the storage. If
        // there are more, other arrays share the buffer.
        let shared = Arc::strong_count(&target) > 2;
        let isolated = self.context.is_isolated() || target.context.is_isolated();
        let (Some(from), Some(to)) = (self.here(), target.here()) else { return Ok(None) };
        if shared || isolated {
            return Ok(None);
        }
        self.wait_for_upload()?;
        target.wait_for_upload()?;
        let (from, to) = (DevicePtr(from.0 + start), DevicePtr(to.0 + at));
        if Arc::ptr_eq(&self.context, &target.context) {
            self.context.flush()?;
            self.context.call(|driver| driver.copy(to, from, len))?;
            return Ok(Some(PendingTransfer::new(|| Ok(()))));
        }
        // Without peer access between the GPUs, this fails, and the caller copies through the host.
        Ok(copy_between_gpus(&self.context, from, &target.context, to, len).ok())
    }

    fn place(&self) -> Option<(u32, u64)> {
        if self.context.is_isolated() {
            return None;
        }
        self.here().map(|address| (self.context.properties.ordinal, address.0))
    }

    fn quiet(&self) -> Result<(), DeviceError> {
        self.context.call(|driver| driver.quiet())
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl ResidentArray for Buffer {
    fn last_use(&self) -> u64 {
        self.last_use.load(Ordering::Relaxed)
    }

    fn spill(self: Arc<Self>) -> Result<u64, DeviceError> {
        // If the lock is taken, another thread is making the buffer resident.
        let Ok(mut place) = self.place.try_lock() else { return Ok(0) };
        let BufferLocation::OnDevice(address) = *place else { return Ok(0) };
        if self.bytes == 0 || Arc::strong_count(&self) > 2 {
            return Ok(0);
        }
        let Some(mut bytes) = AlignedBytes::for_overwrite(self.bytes as usize) else { return Ok(0) };
        self.wait_for_upload()?;
        self.context.download(address, &mut bytes)?;
        self.context.free(address, self.bytes);
        *place = BufferLocation::OnHost(bytes);
        Ok(self.bytes)
    }
}

impl Buffer {
    /// Allocates uninitialized memory.
    pub fn new(context: &Arc<GpuContext>, bytes: u64) -> Result<Buffer, DeviceError> {
        Ok(Buffer::at(context, allocate_or_evict(context, bytes)?, bytes))
    }

    /// Creates the buffer for memory that has been allocated at this address.
    fn at(context: &Arc<GpuContext>, address: DevicePtr, bytes: u64) -> Buffer {
        let place = Mutex::new(BufferLocation::OnDevice(address));
        Buffer {
            context: context.clone(),
            place,
            bytes,
            pending_upload: Mutex::default(),
            last_use: AtomicU64::new(0),
            import_owner: None,
        }
    }

    /// Imports a buffer. Makes all later work of the GPU wait for the pending work of the owner's stream.
    fn import(context: &Arc<GpuContext>, import: &ImportedBuffer) -> Result<Buffer, DeviceError> {
        if let Some(stream) = import.after {
            context.call(|driver| driver.wait_for_stream(stream))?;
        }
        Ok(Buffer {
            context: context.clone(),
            place: Mutex::new(BufferLocation::OnDevice(DevicePtr(import.address))),
            bytes: import.bytes as u64,
            pending_upload: Mutex::default(),
            last_use: AtomicU64::new(0),
            import_owner: Some(ImportOwner { keep_alive: import.keep_alive.clone(), in_order: import.in_order }),
        })
    }

    pub fn zeroed(context: &Arc<GpuContext>, bytes: u64) -> Result<Buffer, DeviceError> {
        let buffer = Self::new(context, bytes)?;
        if bytes > 0 {
            context.call(|driver| driver.zero(buffer.address(), bytes))?;
        }
        Ok(buffer)
    }

    pub fn of_bytes(context: &Arc<GpuContext>, bytes: &[u8]) -> Result<Buffer, DeviceError> {
        let buffer = Self::new(context, bytes.len() as u64)?;
        context.upload(buffer.address(), bytes)?;
        Ok(buffer)
    }

    fn place(&self) -> MutexGuard<'_, BufferLocation> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address in GPU memory, or `None` if the array is on the host.
    fn here(&self) -> Option<DevicePtr> {
        match *self.place() {
            BufferLocation::OnDevice(address) => Some(address),
            BufferLocation::OnHost(_) => None,
        }
    }

    /// Returns the address of a buffer. The caller must know that it has not been evicted since it was created or made
    /// resident.
    pub fn address(&self) -> DevicePtr {
        match *self.place() {
            BufferLocation::OnDevice(address) => address,
            BufferLocation::OnHost(_) => DevicePtr::default(),
        }
    }

    /// Registers the array, so that it can be evicted when memory is full.
    fn into_evictable(self) -> Arc<Buffer> {
        self.note_use();
        let buffer = Arc::new(self);
        let into_evictable: Arc<dyn ResidentArray> = buffer.clone();
        buffer.context.arrays.add(Arc::downgrade(&into_evictable));
        buffer
    }

    fn note_use(&self) {
        self.last_use.store(self.context.arrays.count_use(), Ordering::Relaxed);
    }

    /// Makes later operations wait for the pending upload, if there is one.
    fn wait_for_upload(&self) -> Result<(), DeviceError> {
        let pending_upload = self.pending_upload.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(event) = pending_upload else { return Ok(()) };
        self.context.call(|driver| {
            let waits = driver.wait(event);
            driver.forget_event(event);
            waits
        })
    }

    /// Makes an evicted array resident again. The caller holds a reference, so the array cannot be evicted meanwhile.
    fn make_resident(&self) -> Result<(), DeviceError> {
        self.note_use();
        self.wait_for_upload()?;
        let mut place = self.place();
        if let BufferLocation::OnHost(bytes) = &*place {
            let address = allocate_or_evict(&self.context, self.bytes)?;
            if let Err(error) = self.context.upload(address, bytes) {
                self.context.free(address, self.bytes);
                return Err(error);
            }
            *place = BufferLocation::OnDevice(address);
        }
        Ok(())
    }

    pub fn download(&self, into: &mut [u8]) -> Result<(), DeviceError> {
        self.read(0, into)
    }

    /// Copies the bytes to newly allocated memory of `context`, which may belong to another GPU.
    fn copy_to_context(&self, context: &Arc<GpuContext>) -> Result<Buffer, DeviceError> {
        let copy = Self::new(context, self.bytes)?;
        if self.bytes == 0 {
            return Ok(copy);
        }
        if let BufferLocation::OnHost(bytes) = &*self.place() {
            context.upload(copy.address(), bytes)?;
            return Ok(copy);
        }
        self.context.flush()?;
        self.wait_for_upload()?;
        if Arc::ptr_eq(&self.context, context) {
            context.call(|driver| driver.copy(copy.address(), self.address(), self.bytes))?;
        } else if self.context.is_isolated() || context.is_isolated() {
            // One of the GPUs is driven by a worker process, so copy through the host.
            context.flush()?;
            let mut bytes = vec![0; self.bytes as usize];
            self.download(&mut bytes)?;
            context.upload(copy.address(), &bytes)?;
        } else {
            let arrival = copy_between_gpus(&self.context, self.address(), context, copy.address(), self.bytes);
            if arrival.and_then(PendingTransfer::settle).is_err() {
                // The GPUs have no peer access, so copy through the host.
                let mut bytes = vec![0; self.bytes as usize];
                self.download(&mut bytes)?;
                context.upload(copy.address(), &bytes)?;
            }
        }
        Ok(copy)
    }
}

/// GPU memory reserved for an upload that overlaps with kernels.
pub(crate) struct StagingBuffer {
    buffer: Buffer,
    /// The event that is reached when no earlier operation uses the memory.
    free: RecordedEvent,
}

/// An event that is destroyed on drop.
struct RecordedEvent {
    context: Arc<GpuContext>,
    event: StreamEvent,
}

impl Drop for RecordedEvent {
    fn drop(&mut self) {
        if let Some(driver) = self.context.driver_if_open() {
            driver.forget_event(self.event);
        }
    }
}

impl StagingBuffer {
    /// Reserves GPU memory. `spare`: fails rather than evicting arrays. Returns `None` if the driver cannot overlap
    /// uploads with kernels.
    pub fn new(context: &Arc<GpuContext>, bytes: usize, spare: bool) -> Result<Option<StagingBuffer>, DeviceError> {
        if bytes == 0 || !context.driver()?.can_overlap_uploads() {
            return Ok(None);
        }
        let buffer = match spare {
            true => Buffer::at(context, context.allocate(bytes as u64)?, bytes as u64),
            false => Buffer::new(context, bytes as u64)?,
        };
        let free = RecordedEvent { context: context.clone(), event: context.call(|driver| driver.event())? };
        context.call(|driver| driver.record(free.event))?;
        Ok(Some(StagingBuffer { buffer, free }))
    }
}

impl PendingUpload for StagingBuffer {
    fn copy(self: Box<Self>, bytes: &[u8]) -> Result<Arc<dyn DeviceBytes>, DeviceError> {
        let StagingBuffer { buffer, free } = *self;
        debug_assert_eq!(bytes.len() as u64, buffer.bytes, "the bytes that there is room for");
        let bytes = bytes.get(..buffer.bytes as usize).unwrap_or(bytes);
        let event = buffer.context.upload_overlapped(buffer.address(), bytes, free.event)?;
        *buffer.pending_upload.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
        Ok(buffer.into_evictable())
    }
}

/// Begins a copy between the memory of two GPUs, without waiting for it. The copy starts after the pending work of both
/// GPUs and overlaps with their later work.
fn copy_between_gpus(
    from: &Arc<GpuContext>,
    source: DevicePtr,
    to: &Arc<GpuContext>,
    target: DevicePtr,
    bytes: u64,
) -> Result<PendingTransfer, DeviceError> {
    from.flush()?;
    to.flush()?;
    let record_event = |context: &Arc<GpuContext>| {
        context.call(|driver| {
            let event = driver.event()?;
            driver.record(event).map(|()| event)
        })
    };
    let forget = |context: &Arc<GpuContext>, event: StreamEvent| {
        // The driver keeps an event alive until all waits for it are over, so it can be released here.
        let _ = context.call(|driver| {
            driver.forget_event(event);
            Ok(())
        });
    };
    let after = [record_event(from)?, record_event(to)?];
    let done = to.call(|driver| driver.event())?;
    let peer = Peer { ordinal: from.properties.ordinal, address: source };
    let copied = to.call(|driver| driver.copy_from_peer(target, peer, bytes, after, done));
    forget(from, after[0]);
    forget(to, after[1]);
    let (from, to) = (from.clone(), to.clone());
    let arrival = PendingTransfer::new(move || {
        let waits = [&from, &to].into_iter().try_for_each(|context| context.call(|driver| driver.wait(done)));
        forget(&to, done);
        waits
    });
    copied.map(|()| arrival)
}

/// Allocates memory, and evicts other arrays if necessary.
fn allocate_or_evict(context: &Arc<GpuContext>, bytes: u64) -> Result<DevicePtr, DeviceError> {
    loop {
        match context.allocate(bytes) {
            Err(full @ DeviceError::OutOfMemory { .. }) => {
                // Issue delayed launches first, because they contain addresses of arrays that may be evicted.
                context.flush()?;
                let mut freed = 0;
                while freed < bytes {
                    match context.arrays.spill()? {
                        0 if freed == 0 => return Err(full),
                        0 => break,
                        more => freed += more,
                    }
                }
            }
            answer => return answer,
        }
    }
}

/// Returns the buffer of a device copy, on any GPU.
fn buffer(remote: &DeviceCopy) -> Option<Arc<Buffer>> {
    remote.clone()?.into_any().downcast().ok()
}

/// Returns the buffer of a device copy if it is on this GPU.
fn buffer_on(remote: &DeviceCopy, context: &Arc<GpuContext>) -> Option<Arc<Buffer>> {
    buffer(remote).filter(|buffer| Arc::ptr_eq(&buffer.context, context))
}

/// Returns the array's buffer on this GPU for a kernel that reads it. Copies the array to this GPU if necessary; copies
/// elsewhere stay valid.
pub(crate) fn make_readable(storage: &Storage, context: &Arc<GpuContext>) -> Result<Arc<Buffer>, DeviceError> {
    storage.set_element_write_count(0);
    let mut remote = storage.remote();
    if let Some(buffer) = buffer_on(&remote, context) {
        buffer.make_resident()?;
        return Ok(buffer);
    }
    let buffer = upload_storage(storage, &remote, context)?.into_evictable();
    *remote = Some(buffer.clone());
    Ok(buffer)
}

/// Returns the array's buffer on this GPU for a kernel that writes it, and drops all other copies. `whole`: the kernel
/// overwrites every element and reads none, so the old contents are not copied.
pub(crate) fn make_writable(
    storage: &mut Storage,
    context: &Arc<GpuContext>,
    whole: bool,
) -> Result<Arc<Buffer>, DeviceError> {
    let existing = buffer_on(&storage.remote(), context);
    // There are two references to the buffer if only this storage uses it: this one and that of the storage. If there
    // are more, other arrays share the buffer.
    let new = match existing {
        Some(buffer) if Arc::strong_count(&buffer) <= 2 => {
            buffer.make_resident()?;
            storage.set_device_copy(buffer.clone());
            return Ok(buffer);
        }
        _ if whole => Buffer::new(context, storage.len() as u64)?,
        Some(shared) => shared.copy_to_context(context)?,
        None => {
            let remote = storage.remote().clone();
            upload_storage(storage, &remote, context)?
        }
    };
    let buffer = new.into_evictable();
    storage.set_device_copy(buffer.clone());
    Ok(buffer)
}

/// Copies the array's bytes to this GPU from the host or another GPU.
fn upload_storage(storage: &Storage, remote: &DeviceCopy, context: &Arc<GpuContext>) -> Result<Buffer, DeviceError> {
    if let Some(bytes) = storage.here() {
        return Buffer::of_bytes(context, bytes);
    }
    match buffer(remote) {
        Some(elsewhere) => elsewhere.copy_to_context(context),
        None => match remote {
            Some(remote) => {
                let mut bytes = vec![0; storage.len()];
                remote.read(0, &mut bytes)?;
                Buffer::of_bytes(context, &bytes)
            }
            None if storage.is_uninitialized() => Buffer::new(context, storage.len() as u64),
            None => Buffer::zeroed(context, storage.len() as u64),
        },
    }
}

/// Imports a buffer of another library, or copies it after the pending work of its owner.
pub(crate) fn import_buffer(
    import: &ImportedBuffer,
    copied: bool,
    context: &Arc<GpuContext>,
) -> Result<Arc<Buffer>, DeviceError> {
    let why = if context.is_isolated() {
        "kernels run in another process, which has not the memory of this one".into()
    } else if import.gpu != context.properties.ordinal {
        format!("the array is in the memory of gpu:{}", import.gpu)
    } else {
        let buffer = Buffer::import(context, import)?;
        return Ok(if copied { buffer.copy_to_context(context)?.into_evictable() } else { Arc::new(buffer) });
    };
    Err(DeviceError::Unavailable { device: context.name.clone(), why })
}

/// Copies an array's bytes to an imported buffer, unless the array is stored in this buffer.
pub(crate) fn returned(
    import: &ImportedBuffer,
    storage: &Storage,
    context: &Arc<GpuContext>,
) -> Result<(), DeviceError> {
    let buffer = make_readable(storage, context)?;
    let (from, to) = (buffer.address(), DevicePtr(import.address));
    let bytes = buffer.bytes.min(import.bytes as u64);
    if from == to || bytes == 0 {
        return Ok(());
    }
    context.flush()?;
    context.call(|driver| driver.copy(to, from, bytes))
}

/// Returns the array's buffer on this GPU, in memory that is neither imported nor shared with other arrays.
pub(crate) fn owned(storage: &mut Storage, context: &Arc<GpuContext>) -> Result<Arc<Buffer>, DeviceError> {
    let existing = buffer_on(&storage.remote(), context);
    match existing.filter(|buffer| buffer.import_owner.is_some()) {
        None => make_writable(storage, context, false),
        Some(import) => {
            let copy = import.copy_to_context(context)?.into_evictable();
            storage.set_device_copy(copy.clone());
            Ok(copy)
        }
    }
}
