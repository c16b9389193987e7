//! Arrays in GPU memory.
//!
//! Where there is no more of it, arrays that no launch has in hand are moved to the host, those first that were used longest ago. They
//! stay [`Remote`] to everybody else: a launch that needs one has it brought back, and a read is one of the bytes on the host.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::arrays::Resident;
use super::context::Context;
use super::driver::{Address, Event, Peer};
use crate::base::aligned::AlignedBytes;
use crate::device::lent::{Keeper, Lent};
use crate::device::storage::{Arrival, Remote, RemoteCopy, Storage};
use crate::device::{Coming, DeviceError};

/// The memory of one array, freed with its last owner.
pub(crate) struct Buffer {
    context: Arc<Context>,
    place: Mutex<Place>,
    bytes: u64,
    /// The end of a copy of all its bytes for which the other operations have not waited yet.
    coming: Mutex<Option<Event>>,
    /// When a launch needed it last, counted in such uses.
    used: AtomicU64,
    /// What keeps it, if it is lent.
    lender: Option<Lender>,
}

/// What keeps lent memory, and whether what frees it comes behind the work here by itself.
struct Lender {
    keeper: Keeper,
    in_order: bool,
}

enum Place {
    Here(Address),
    /// Moved to the host.
    Spilled(AlignedBytes),
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // It is free when the copy is over.
        let _ = self.arrive();
        if let Some(Lender { keeper, in_order }) = &self.lender {
            // Nobody else sees to it that nothing uses the memory any more.
            if !in_order && Arc::strong_count(keeper) == 1 {
                let _ = self.context.flush();
                let _ = self.context.call(|driver| driver.synchronize());
            }
            return;
        }
        if let Place::Here(address) = *self.place() {
            self.context.free(address, self.bytes);
        }
    }
}

impl Remote for Buffer {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.arrive()?;
        match &*self.place() {
            Place::Here(address) => self.context.download(Address(address.0 + offset), into),
            Place::Spilled(bytes) => {
                let start = offset as usize;
                if let Some(from) = bytes.get(start..start + into.len()) {
                    into.copy_from_slice(from);
                }
                Ok(())
            }
        }
    }

    fn copy_to(&self, start: u64, target: Arc<dyn Remote>, at: u64, len: u64) -> Result<Option<Arrival>, DeviceError> {
        let Ok(target) = target.into_any().downcast::<Buffer>() else { return Ok(None) };
        // One reference is this one, the second its storage's; more belong to arrays that share the memory.
        let shared = Arc::strong_count(&target) > 2;
        let isolated = self.context.is_isolated() || target.context.is_isolated();
        let (Some(from), Some(to)) = (self.here(), target.here()) else { return Ok(None) };
        if shared || isolated {
            return Ok(None);
        }
        self.arrive()?;
        target.arrive()?;
        let (from, to) = (Address(from.0 + start), Address(to.0 + at));
        if Arc::ptr_eq(&self.context, &target.context) {
            self.context.flush()?;
            self.context.call(|driver| driver.copy(to, from, len))?;
            return Ok(Some(Arrival::new(|| Ok(()))));
        }
        // Where the GPUs have no peer access, it is done otherwise.
        Ok(between(&self.context, from, &target.context, to, len).ok())
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

impl Resident for Buffer {
    fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn spill(self: Arc<Self>) -> Result<u64, DeviceError> {
        // One that is brought back at this moment is held by who does that.
        let Ok(mut place) = self.place.try_lock() else { return Ok(0) };
        let Place::Here(address) = *place else { return Ok(0) };
        if self.bytes == 0 || Arc::strong_count(&self) > 2 {
            return Ok(0);
        }
        let Some(mut bytes) = AlignedBytes::unset(self.bytes as usize) else { return Ok(0) };
        self.arrive()?;
        self.context.download(address, &mut bytes)?;
        self.context.free(address, self.bytes);
        *place = Place::Spilled(bytes);
        Ok(self.bytes)
    }
}

impl Buffer {
    /// Allocates uninitialized memory.
    pub fn new(context: &Arc<Context>, bytes: u64) -> Result<Buffer, DeviceError> {
        Ok(Buffer::at(context, room(context, bytes)?, bytes))
    }

    /// Returns the array at an address that was allocated for it.
    fn at(context: &Arc<Context>, address: Address, bytes: u64) -> Buffer {
        let place = Mutex::new(Place::Here(address));
        Buffer {
            context: context.clone(),
            place,
            bytes,
            coming: Mutex::default(),
            used: AtomicU64::new(0),
            lender: None,
        }
    }

    /// Returns lent memory. All that the GPU is told to do from now on comes behind what the lender's stream has to do.
    fn lent(context: &Arc<Context>, lent: &Lent) -> Result<Buffer, DeviceError> {
        if let Some(stream) = lent.after {
            context.call(|driver| driver.come_behind(stream))?;
        }
        Ok(Buffer {
            context: context.clone(),
            place: Mutex::new(Place::Here(Address(lent.address))),
            bytes: lent.bytes as u64,
            coming: Mutex::default(),
            used: AtomicU64::new(0),
            lender: Some(Lender { keeper: lent.keeper.clone(), in_order: lent.in_order }),
        })
    }

    pub fn zeroed(context: &Arc<Context>, bytes: u64) -> Result<Buffer, DeviceError> {
        let buffer = Self::new(context, bytes)?;
        if bytes > 0 {
            context.call(|driver| driver.zero(buffer.address(), bytes))?;
        }
        Ok(buffer)
    }

    pub fn of_bytes(context: &Arc<Context>, bytes: &[u8]) -> Result<Buffer, DeviceError> {
        let buffer = Self::new(context, bytes.len() as u64)?;
        context.upload(buffer.address(), bytes)?;
        Ok(buffer)
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address, if it is not on the host.
    fn here(&self) -> Option<Address> {
        match *self.place() {
            Place::Here(address) => Some(address),
            Place::Spilled(_) => None,
        }
    }

    /// Returns the address; only of one that is held since it was made, or brought back, as others may be on the host.
    pub fn address(&self) -> Address {
        match *self.place() {
            Place::Here(address) => address,
            Place::Spilled(_) => Address::default(),
        }
    }

    /// Makes it one that may be moved to the host.
    fn listed(self) -> Arc<Buffer> {
        self.use_now();
        let buffer = Arc::new(self);
        let listed: Arc<dyn Resident> = buffer.clone();
        buffer.context.arrays.add(Arc::downgrade(&listed));
        buffer
    }

    fn use_now(&self) {
        self.used.store(self.context.arrays.use_one(), Ordering::Relaxed);
    }

    /// Has what follows wait for the copy of its bytes.
    fn arrive(&self) -> Result<(), DeviceError> {
        let coming = self.coming.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(event) = coming else { return Ok(()) };
        self.context.call(|driver| {
            let waits = driver.wait(event);
            driver.forget_event(event);
            waits
        })
    }

    /// Brings an array back that was moved to the host. The caller holds it, so that it stays.
    fn bring_back(&self) -> Result<(), DeviceError> {
        self.use_now();
        self.arrive()?;
        let mut place = self.place();
        if let Place::Spilled(bytes) = &*place {
            let address = room(&self.context, self.bytes)?;
            if let Err(error) = self.context.upload(address, bytes) {
                self.context.free(address, self.bytes);
                return Err(error);
            }
            *place = Place::Here(address);
        }
        Ok(())
    }

    pub fn download(&self, into: &mut [u8]) -> Result<(), DeviceError> {
        self.read(0, into)
    }

    /// Copies the bytes to new memory of `context`, which may be another GPU's.
    fn copied_to(&self, context: &Arc<Context>) -> Result<Buffer, DeviceError> {
        let copy = Self::new(context, self.bytes)?;
        if self.bytes == 0 {
            return Ok(copy);
        }
        if let Place::Spilled(bytes) = &*self.place() {
            context.upload(copy.address(), bytes)?;
            return Ok(copy);
        }
        self.context.flush()?;
        self.arrive()?;
        if Arc::ptr_eq(&self.context, context) {
            context.call(|driver| driver.copy(copy.address(), self.address(), self.bytes))?;
        } else if self.context.is_isolated() || context.is_isolated() {
            // One of the two GPUs is driven by another process: copies through the host.
            context.flush()?;
            let mut bytes = vec![0; self.bytes as usize];
            self.download(&mut bytes)?;
            context.upload(copy.address(), &bytes)?;
        } else {
            let arrival = between(&self.context, self.address(), context, copy.address(), self.bytes);
            if arrival.and_then(Arrival::settle).is_err() {
                // The GPUs have no peer access.
                let mut bytes = vec![0; self.bytes as usize];
                self.download(&mut bytes)?;
                context.upload(copy.address(), &bytes)?;
            }
        }
        Ok(copy)
    }
}

/// Memory for bytes that are copied beside the kernels that run.
pub(crate) struct Room {
    buffer: Buffer,
    /// Reached when nothing before has the memory in hand any more.
    free: Mark,
}

/// A recorded event.
struct Mark {
    context: Arc<Context>,
    event: Event,
}

impl Drop for Mark {
    fn drop(&mut self) {
        if let Some(driver) = self.context.opened() {
            driver.forget_event(self.event);
        }
    }
}

impl Room {
    /// Returns room for so many bytes, with `spare` only if nothing has to make room; `None` if the driver copies in order only.
    pub fn new(context: &Arc<Context>, bytes: usize, spare: bool) -> Result<Option<Room>, DeviceError> {
        if bytes == 0 || !context.driver()?.has_beside() {
            return Ok(None);
        }
        let buffer = match spare {
            true => Buffer::at(context, context.allocate(bytes as u64)?, bytes as u64),
            false => Buffer::new(context, bytes as u64)?,
        };
        let free = Mark { context: context.clone(), event: context.call(|driver| driver.event())? };
        context.call(|driver| driver.record(free.event))?;
        Ok(Some(Room { buffer, free }))
    }
}

impl Coming for Room {
    fn copy(self: Box<Self>, bytes: &[u8]) -> Result<Arc<dyn Remote>, DeviceError> {
        let Room { buffer, free } = *self;
        debug_assert_eq!(bytes.len() as u64, buffer.bytes, "the bytes that there is room for");
        let bytes = bytes.get(..buffer.bytes as usize).unwrap_or(bytes);
        let event = buffer.context.upload_beside(buffer.address(), bytes, free.event)?;
        *buffer.coming.lock().unwrap_or_else(PoisonError::into_inner) = Some(event);
        Ok(buffer.listed())
    }
}

/// Copies from the memory of one GPU to that of another one, behind what both have to do now, and beside what they do from then on.
/// Nobody waits here.
fn between(
    from: &Arc<Context>,
    source: Address,
    to: &Arc<Context>,
    target: Address,
    bytes: u64,
) -> Result<Arrival, DeviceError> {
    from.flush()?;
    to.flush()?;
    let now = |context: &Arc<Context>| {
        context.call(|driver| {
            let event = driver.event()?;
            driver.record(event).map(|()| event)
        })
    };
    let forget = |context: &Arc<Context>, event: Event| {
        // One that is waited for stays until then.
        let _ = context.call(|driver| {
            driver.forget_event(event);
            Ok(())
        });
    };
    let after = [now(from)?, now(to)?];
    let done = to.call(|driver| driver.event())?;
    let peer = Peer { ordinal: from.properties.ordinal, address: source };
    let copied = to.call(|driver| driver.copy_from_peer(target, peer, bytes, after, done));
    forget(from, after[0]);
    forget(to, after[1]);
    let (from, to) = (from.clone(), to.clone());
    let arrival = Arrival::new(move || {
        let waits = [&from, &to].into_iter().try_for_each(|context| context.call(|driver| driver.wait(done)));
        forget(&to, done);
        waits
    });
    copied.map(|()| arrival)
}

/// Allocates memory, for which other arrays are moved to the host if there is no more of it.
fn room(context: &Arc<Context>, bytes: u64) -> Result<Address, DeviceError> {
    loop {
        match context.allocate(bytes) {
            Err(full @ DeviceError::OutOfMemory { .. }) => {
                // Launches that are held back have addresses of arrays.
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
    storage.set_pokes(0);
    let mut remote = storage.remote();
    if let Some(buffer) = own(&remote, context) {
        buffer.bring_back()?;
        return Ok(buffer);
    }
    let buffer = brought(storage, &remote, context)?.listed();
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
    let new = match found {
        Some(buffer) if Arc::strong_count(&buffer) <= 2 => {
            buffer.bring_back()?;
            storage.written_remotely(buffer.clone());
            return Ok(buffer);
        }
        _ if whole => Buffer::new(context, storage.len() as u64)?,
        Some(shared) => shared.copied_to(context)?,
        None => {
            let remote = storage.remote().clone();
            brought(storage, &remote, context)?
        }
    };
    let buffer = new.listed();
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
            None if storage.is_unset() => Buffer::new(context, storage.len() as u64),
            None => Buffer::zeroed(context, storage.len() as u64),
        },
    }
}

/// Returns lent memory, or a copy of it that is made behind all that its lender has to do.
pub(crate) fn borrowed(lent: &Lent, copied: bool, context: &Arc<Context>) -> Result<Arc<Buffer>, DeviceError> {
    let why = if context.is_isolated() {
        "kernels run in another process, which has not the memory of this one".into()
    } else if lent.gpu != context.properties.ordinal {
        format!("the array is in the memory of gpu:{}", lent.gpu)
    } else {
        let buffer = Buffer::lent(context, lent)?;
        return Ok(if copied { buffer.copied_to(context)?.listed() } else { Arc::new(buffer) });
    };
    Err(DeviceError::Unavailable { device: context.name.clone(), why })
}

/// Copies an array's bytes to lent memory, unless they are there.
pub(crate) fn returned(lent: &Lent, storage: &Storage, context: &Arc<Context>) -> Result<(), DeviceError> {
    let buffer = for_reading(storage, context)?;
    let (from, to) = (buffer.address(), Address(lent.address));
    let bytes = buffer.bytes.min(lent.bytes as u64);
    if from == to || bytes == 0 {
        return Ok(());
    }
    context.flush()?;
    context.call(|driver| driver.copy(to, from, bytes))
}

/// Returns the array in this GPU's memory, in a place that it has for itself.
pub(crate) fn owned(storage: &mut Storage, context: &Arc<Context>) -> Result<Arc<Buffer>, DeviceError> {
    let found = own(&storage.remote(), context);
    match found.filter(|buffer| buffer.lender.is_some()) {
        None => for_writing(storage, context, false),
        Some(lent) => {
            let copy = lent.copied_to(context)?.listed();
            storage.written_remotely(copy.clone());
            Ok(copy)
        }
    }
}
