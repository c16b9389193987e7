//! The child processes' side of GPU isolation: a loop that executes the program's requests.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::super::driver::{
    DevicePtr, DriverArgument, DriverError, DriverFunction, DriverLaunch, DriverModule, DriverResult, Graph,
    StreamEvent, StridedWords, TensorMap,
};
use super::arenas::{CONTROL, split};
use super::wire::{self, WireError, WorkerReply, WorkerRequest};
use super::{Opener, Shareable};
use clk_runtime::worker_process::{CONTROL_BYTES, DONE, SLOT_BYTES, SLOTS, SharedSegment};

/// The largest reply with data, in bytes.
pub(crate) const MAX_INLINE_BYTES: usize = 64 << 10;

/// Reports the GPU's properties, creates its context, and reports that the context is ready.
fn open(opener: &dyn Opener, socket: &mut UnixStream) -> io::Result<Option<Arc<dyn Shareable>>> {
    let properties = match opener.probe() {
        Ok(properties) => properties,
        Err(why) => {
            socket.write_all(&WorkerReply::Absent(why.to_string()).encode())?;
            return Ok(None);
        }
    };
    socket.write_all(&WorkerReply::Properties(Box::new(properties.clone())).encode())?;
    match opener.open(properties) {
        Ok(driver) => {
            socket.write_all(&WorkerReply::Done.encode())?;
            Ok(Some(driver))
        }
        Err(refusal) => {
            socket.write_all(&WorkerReply::Refused(refusal).encode())?;
            Ok(None)
        }
    }
}

fn malformed_request(_: WireError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message that says nothing")
}

/// Runs the memory owner: allocates and frees numbered arenas until the program ends.
pub fn keep(opener: &dyn Opener, mut socket: UnixStream) -> io::Result<()> {
    let Some(driver) = open(opener, &mut socket)? else { return Ok(()) };
    let mut allocations: HashMap<u32, DevicePtr> = HashMap::new();
    let mut stream = BufReader::new(socket.try_clone()?);
    let mut message = Vec::new();
    while wire::read(&mut stream, wire::MAX_REQUEST, &mut message)? {
        let reply = match WorkerRequest::decode(&message).map_err(malformed_request)? {
            WorkerRequest::Keep { arena, bytes } => match driver.allocate_shared(bytes) {
                Ok((address, handle)) => {
                    allocations.insert(arena, address);
                    WorkerReply::Handle(handle)
                }
                Err(refusal) => WorkerReply::Refused(refusal),
            },
            WorkerRequest::Release { arena } => {
                if let Some(address) = allocations.remove(&arena) {
                    driver.free_shared(address);
                }
                WorkerReply::Done
            }
            WorkerRequest::Memory => match driver.memory() {
                Ok((free, total)) => WorkerReply::Memory { free, total },
                Err(refusal) => WorkerReply::Refused(refusal),
            },
            _ => return Err(malformed_request(WireError)),
        };
        socket.write_all(&reply.encode())?;
    }
    Ok(())
}

/// Runs the worker: executes all other requests until the program ends.
pub fn work(opener: &dyn Opener, mut socket: UnixStream, segment: SharedSegment) -> io::Result<()> {
    let Some(driver) = open(opener, &mut socket)? else { return Ok(()) };
    let mut worker = Worker {
        driver,
        segment,
        control: None,
        number: 0,
        failed: None,
        slots_pinned: false,
        slots: [None; SLOTS],
        arenas: HashMap::new(),
        modules: HashMap::new(),
        functions: HashMap::new(),
        graphs: HashMap::new(),
        events: HashMap::new(),
    };
    worker.control = worker.pin_control().ok();
    // Create the flag, because the driver can write words while kernels run only after that. Kernels set the flag in
    // the control page instead.
    let _ = worker.driver.flag();
    let mut stream = BufReader::with_capacity(1 << 16, socket.try_clone()?);
    let mut message = Vec::new();
    while wire::read(&mut stream, wire::MAX_REQUEST, &mut message)? {
        let request = WorkerRequest::decode(&message).map_err(malformed_request)?;
        let reply = match worker.perform(request) {
            // An unreported error of an earlier operation replaces the reply to this request.
            Some(answer) => match worker.failed.take() {
                Some(refusal) => {
                    worker.segment.set_failed(false);
                    WorkerReply::Refused(refusal)
                }
                None => answer.unwrap_or_else(WorkerReply::Refused),
            },
            None => continue,
        };
        socket.write_all(&reply.encode())?;
    }
    Ok(())
}

struct Worker {
    driver: Arc<dyn Shareable>,
    segment: SharedSegment,
    /// The device address of the control page.
    control: Option<DevicePtr>,
    /// The number of the last operation. The program counts operations in the same way.
    number: u32,
    /// The error of an operation without a reply, until it is reported in the reply to a later request.
    failed: Option<DriverError>,
    slots_pinned: bool,
    /// For each slot, the event that is reached when the slot can be reused.
    slots: [Option<StreamEvent>; SLOTS],
    arenas: HashMap<u32, DevicePtr>,
    modules: HashMap<u32, DriverModule>,
    functions: HashMap<u32, DriverFunction>,
    graphs: HashMap<u32, Graph>,
    events: HashMap<u32, StreamEvent>,
}

/// Returns the error for a request with the number of an object that does not exist.
fn invalid_handle(what: &'static str) -> DriverError {
    DriverError { call: Cow::Borrowed(what), code: 400, name: "CUDA_ERROR_INVALID_HANDLE".into() }
}

impl Worker {
    fn pin_control(&self) -> DriverResult<DevicePtr> {
        // SAFETY: the segment is mapped as long as the worker runs.
        unsafe { self.driver.pin(self.segment.control(), CONTROL_BYTES) }
    }

    /// Executes a request. Returns `None` if the request has no reply.
    fn perform(&mut self, request: WorkerRequest<'_>) -> Option<DriverResult<WorkerReply>> {
        if let Some(answer) = self.operate(&request) {
            self.record_error(answer);
            return None;
        }
        self.answer(request)
    }

    fn record_error(&mut self, answer: DriverResult) {
        if let Err(refusal) = answer {
            self.failed.get_or_insert(refusal);
            self.segment.set_failed(true);
        }
    }

    /// Executes an operation, that is, a counted request without a reply. Returns `None` for other requests.
    fn operate(&mut self, request: &WorkerRequest<'_>) -> Option<DriverResult> {
        let answer = match request {
            WorkerRequest::Zero { to, bytes } => self.translate(*to).and_then(|to| self.driver.zero(to, *bytes)),
            WorkerRequest::Upload { to, bytes } => self.translate(*to).and_then(|to| self.driver.upload(to, bytes)),
            WorkerRequest::Copy { to, from, bytes } => {
                let both = self.translate(*to).and_then(|to| Ok((to, self.translate(*from)?)));
                both.and_then(|(to, from)| self.driver.copy(to, from, *bytes))
            }
            // Skip kernels after an unreported error, because they could use invalid memory.
            WorkerRequest::Launch { .. } | WorkerRequest::RunGraph { .. } if self.failed.is_some() => Ok(()),
            WorkerRequest::Launch { function, shape, arguments } => self.launch(*function, shape, arguments),
            WorkerRequest::RunGraph { graph, changes } => self.run_graph(*graph, changes),
            _ => return None,
        };
        self.number = self.number.wrapping_add(1);
        let marked = match self.control {
            Some(control) => self.driver.write_word(DevicePtr(control.0 + DONE as u64), self.number),
            None => Ok(()),
        };
        Some(answer.and(marked))
    }

    /// Writes to the segment that all operations are done.
    fn all_done(&self) {
        self.segment.set_done(self.number);
    }

    fn launch(
        &self,
        function: u32,
        shape: &super::super::driver::LaunchShape,
        arguments: &[DriverArgument],
    ) -> DriverResult {
        let function = *self.functions.get(&function).ok_or_else(|| invalid_handle("launch"))?;
        let arguments = self.translate_arguments(arguments)?;
        // SAFETY: the sending process guarantees what `launch` requires, and the translated addresses are those of
        // memory that this process has mapped.
        unsafe { self.driver.launch(function, shape, &arguments) }
    }

    fn translate_arguments(&self, arguments: &[DriverArgument]) -> DriverResult<Vec<DriverArgument>> {
        let each = |argument: &DriverArgument| match argument {
            DriverArgument::Address(address) => self.translate(*address).map(DriverArgument::Address),
            DriverArgument::Map(map) => {
                self.translate(map.address).map(|address| DriverArgument::Map(TensorMap { address, ..*map }))
            }
            value => Ok(*value),
        };
        arguments.iter().map(each).collect()
    }

    fn translate_launch(&self, launch: &DriverLaunch) -> DriverResult<DriverLaunch> {
        let function = *self.functions.get(&(launch.function.0 as u32)).ok_or_else(|| invalid_handle("graph"))?;
        Ok(DriverLaunch { function, shape: launch.shape, arguments: self.translate_arguments(&launch.arguments)? })
    }

    fn run_graph(&self, graph: u32, changes: &[(u32, Cow<'_, DriverLaunch>)]) -> DriverResult {
        let graph = *self.graphs.get(&graph).ok_or_else(|| invalid_handle("graph"))?;
        let changed: DriverResult<Vec<(usize, DriverLaunch)>> =
            changes.iter().map(|(at, launch)| Ok((*at as usize, self.translate_launch(launch)?))).collect();
        let changed = changed?;
        let changes: Vec<(usize, &DriverLaunch)> = changed.iter().map(|(at, launch)| (*at, launch)).collect();
        // SAFETY: as for launches.
        unsafe { self.driver.run_graph(graph, &changes) }
    }

    /// Translates an address of the program to the address in this process.
    fn translate(&self, address: DevicePtr) -> DriverResult<DevicePtr> {
        if address.0 == 0 {
            return Ok(address);
        }
        let (arena, offset) = split(address);
        let base = match arena {
            CONTROL => self.control,
            arena => self.arenas.get(&arena).copied(),
        };
        base.map(|base| DevicePtr(base.0.wrapping_add(offset))).ok_or_else(|| invalid_handle("address"))
    }

    fn event(&self, event: u32) -> DriverResult<StreamEvent> {
        self.events.get(&event).copied().ok_or_else(|| invalid_handle("event"))
    }

    /// Executes all other requests, which have a reply.
    fn answer(&mut self, request: WorkerRequest<'_>) -> Option<DriverResult<WorkerReply>> {
        let done = |answer: DriverResult| Some(answer.map(|()| WorkerReply::Done));
        match request {
            WorkerRequest::Map { arena, handle } => {
                return done(self.driver.map(&handle).map(|address| {
                    self.arenas.insert(arena, address);
                }));
            }
            WorkerRequest::Unmap { arena } => {
                if let Some(address) = self.arenas.remove(&arena) {
                    self.driver.unmap(address);
                }
                return done(Ok(()));
            }
            WorkerRequest::Begin { number } => {
                self.number = number;
                self.segment.set_failed(false);
                self.segment.set_done(number);
            }
            WorkerRequest::UploadSlot { to, slot, bytes } => {
                let copied = self.through_slot(slot, bytes, |worker, place, bytes| {
                    let to = worker.translate(to)?;
                    // SAFETY: the slot belongs to this copy until it is settled.
                    unsafe { worker.driver.upload_pinned(to, place, bytes) }
                });
                self.record_error(copied);
            }
            WorkerRequest::DownloadSlot { from, slot, bytes } => {
                let copied = self.through_slot(slot, bytes, |worker, place, bytes| {
                    let from = worker.translate(from)?;
                    // SAFETY: the slot belongs to this copy until it is settled.
                    unsafe { worker.driver.download_pinned(from, place, bytes) }
                });
                self.record_error(copied);
            }
            WorkerRequest::Settle { slot } => {
                let event = self.slots.get(slot as usize).copied().flatten();
                return done(event.map_or(Ok(()), |event| self.driver.wait_for(event)));
            }
            WorkerRequest::Download { from, bytes } => return Some(self.download(from, bytes)),
            WorkerRequest::Synchronize => {
                let waited = self.driver.synchronize();
                if waited.is_ok() {
                    self.all_done();
                }
                return done(waited);
            }
            WorkerRequest::IsIdle => {
                let idle = self.driver.is_idle();
                if idle == Ok(true) {
                    self.all_done();
                }
                return Some(idle.map(|idle| WorkerReply::Number(idle.into())));
            }
            WorkerRequest::Poke { words, value } => {
                let place = self.translate(words.first);
                let poked = place.and_then(|first| self.driver.write_words_now(StridedWords { first, ..words }, value));
                return done(poked);
            }
            WorkerRequest::Resolve { address } => {
                return Some(self.translate(address).map(|place| WorkerReply::Place(place.0)));
            }
            WorkerRequest::Memory => {
                return Some(self.driver.memory().map(|(free, total)| WorkerReply::Memory { free, total }));
            }
            other => return self.code_and_events(other),
        }
        None
    }

    fn download(&self, from: DevicePtr, bytes: u32) -> DriverResult<WorkerReply> {
        let mut buffer = vec![0; (bytes as usize).min(MAX_INLINE_BYTES)];
        self.driver.download(self.translate(from)?, &mut buffer)?;
        self.all_done();
        Ok(WorkerReply::Bytes(buffer))
    }

    /// Copies between the GPU and a slot.
    fn through_slot(
        &mut self,
        slot: u32,
        bytes: u32,
        copy: impl FnOnce(&Worker, *mut u8, usize) -> DriverResult,
    ) -> DriverResult {
        let place =
            self.segment.slot(slot).filter(|_| bytes as usize <= SLOT_BYTES).ok_or_else(|| invalid_handle("slot"))?;
        if !self.slots_pinned {
            // SAFETY: the segment is mapped as long as the worker runs. If pinning fails, copies are slower but
            // correct.
            let _ = unsafe { self.driver.pin(self.segment.slots(), SLOTS * SLOT_BYTES) };
            self.slots_pinned = true;
        }
        let event = match self.slots[slot as usize] {
            Some(event) => event,
            None => self.driver.event()?,
        };
        self.slots[slot as usize] = Some(event);
        copy(self, place, bytes as usize)?;
        self.driver.record(event)
    }

    fn code_and_events(&mut self, request: WorkerRequest<'_>) -> Option<DriverResult<WorkerReply>> {
        match request {
            WorkerRequest::Load { module, cubin } => {
                return Some(self.driver.load(&cubin).map(|loaded| {
                    self.modules.insert(module, loaded);
                    WorkerReply::Done
                }));
            }
            WorkerRequest::Unload { module } => {
                if let Some(module) = self.modules.remove(&module) {
                    self.driver.unload(module);
                }
            }
            WorkerRequest::Function { function, module, name } => return Some(self.function(function, module, &name)),
            WorkerRequest::AllowShared { function, bytes } => {
                let function = self.functions.get(&function).copied().ok_or_else(|| invalid_handle("function"));
                let allowed = function.and_then(|function| self.driver.allow_shared(function, bytes));
                return Some(allowed.map(|()| WorkerReply::Done));
            }
            WorkerRequest::Resident { function, threads, shared } => {
                let function = self.functions.get(&function).copied().ok_or_else(|| invalid_handle("function"));
                let blocks = function.and_then(|function| self.driver.resident_blocks(function, threads, shared));
                return Some(blocks.map(WorkerReply::Number));
            }
            WorkerRequest::Graph { graph, launches } => {
                let launches: DriverResult<Vec<DriverLaunch>> =
                    launches.iter().map(|l| self.translate_launch(l)).collect();
                // SAFETY: as for launches.
                let result = launches.and_then(|launches| unsafe { self.driver.graph(&launches) });
                return Some(result.map(|result| {
                    self.graphs.insert(graph, result);
                    WorkerReply::Done
                }));
            }
            WorkerRequest::ForgetGraph { graph } => {
                if let Some(graph) = self.graphs.remove(&graph) {
                    self.driver.forget_graph(graph);
                }
            }
            WorkerRequest::Event { event } => {
                let result = self.driver.event().map(|result| {
                    self.events.insert(event, result);
                });
                self.record_error(result);
            }
            WorkerRequest::Record { event } => {
                let recorded = self.event(event).and_then(|event| self.driver.record(event));
                self.record_error(recorded);
            }
            WorkerRequest::IsReached { event } => {
                let reached = self.event(event).and_then(|event| self.driver.is_event_reached(event));
                return Some(reached.map(|reached| WorkerReply::Number(reached.into())));
            }
            WorkerRequest::Elapsed { from, to } => {
                let both = self.event(from).and_then(|from| Ok((from, self.event(to)?)));
                return Some(both.and_then(|(from, to)| self.driver.elapsed(from, to)).map(WorkerReply::Milliseconds));
            }
            WorkerRequest::ForgetEvent { event } => {
                if let Some(event) = self.events.remove(&event) {
                    self.driver.forget_event(event);
                }
            }
            // The other requests are for the memory owner.
            _ => return Some(Err(invalid_handle("request"))),
        }
        None
    }

    fn function(&mut self, function: u32, module: u32, name: &str) -> DriverResult<WorkerReply> {
        let module = *self.modules.get(&module).ok_or_else(|| invalid_handle("module"))?;
        let entry = self.driver.function(module, name)?;
        self.functions.insert(function, entry);
        Ok(WorkerReply::Number(self.driver.static_shared(entry)))
    }
}
