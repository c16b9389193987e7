//! The program's side of GPU isolation: a driver that forwards its calls to the child processes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::super::driver::{
    DevicePtr, Driver, DriverArgument, DriverError, DriverFunction, DriverLaunch, DriverModule, DriverResult, Graph,
    LaunchShape, Peer, Properties, StickyError, StreamEvent, StridedWords,
};
use super::arenas::{Arenas, CONTROL, first};
use super::journal::{Journal, Operation};
use super::serve::MAX_INLINE_BYTES;
use super::wire::{self, WorkerReply, WorkerRequest};
use super::{IpcHandle, code};
use clk_runtime::import::ForeignStream;
use clk_runtime::worker_process::{Child, ChildRole, FLAG, Process, SharedSegment, Starter};

/// Maximum number of pending operations. When it is reached, the program waits for them.
const MAX_PENDING: usize = 4096;
/// Maximum number of bytes of buffered messages. When it is reached, the messages are sent.
const MAX_UNSENT_BYTES: usize = 16 << 10;
/// Minimum time between two requests to the worker whether an operation is done. Between them, only the shared segment
/// is read.
const POLL_INTERVAL: Duration = Duration::from_micros(300);

/// A GPU whose memory belongs to the memory owner process and whose kernels run in the worker process.
pub struct IsolatedGpu {
    pub(super) properties: Properties,
    pub(super) starter: Arc<dyn Starter>,
    pub(super) segment: SharedSegment,
    link: Mutex<WorkerLink>,
    /// Locked during a large copy, which uses the slots of the segment.
    pub(super) slots: Mutex<()>,
}

/// The connection to a child process.
pub(super) struct ChildSocket {
    socket: UnixStream,
    pub child: Arc<dyn Child>,
    unsent: Vec<u8>,
    message: Vec<u8>,
}

impl ChildSocket {
    pub fn new(process: Process) -> ChildSocket {
        ChildSocket { socket: process.socket, child: process.child, unsent: vec![], message: vec![] }
    }

    /// Buffers a message that has no reply. It is sent with the next request at the latest.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.unsent.extend_from_slice(message);
        if self.unsent.len() > MAX_UNSENT_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let sent = self.socket.write_all(&self.unsent);
        self.unsent.clear();
        sent
    }

    pub fn read(&mut self) -> io::Result<WorkerReply> {
        if !wire::read(&mut self.socket, wire::MAX_REPLY, &mut self.message)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        WorkerReply::decode(&self.message).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    pub fn ask(&mut self, request: &WorkerRequest<'_>) -> io::Result<WorkerReply> {
        self.send(&request.encode())?;
        self.flush()?;
        self.read()
    }
}

impl Drop for ChildSocket {
    fn drop(&mut self) {
        // Kill the child. It exits when the socket closes, but not while a kernel runs that never ends.
        self.child.kill();
        let child = self.child.clone();
        // If no thread can be started, the system reaps the child when this process ends.
        let _ = std::thread::Builder::new().name("gpu child".into()).spawn(move || child.wait());
    }
}

/// The connections to the child processes, and the data that setting up a new worker requires.
pub(super) struct WorkerLink {
    pub memory_owner: ChildSocket,
    /// `None` if the last worker was lost and no other could be started.
    pub worker: Option<ChildSocket>,
    /// A lost worker that was killed but had not ended within the time limit of [`Child::wait`].
    pub ending: Option<Arc<dyn Child>>,
    /// The number of the current worker. Modules, functions, graphs and events of earlier workers must be created
    /// again.
    pub generation: u64,
    pub arenas: Arenas,
    pub handles: BTreeMap<u32, IpcHandle>,
    /// The resolved addresses that GPU memory contains: maps each location to the address before resolution.
    pub resolved_addresses: BTreeMap<DevicePtr, DevicePtr>,
    modules: HashMap<u32, (Arc<[u8]>, u64)>,
    functions: HashMap<u32, FunctionEntry>,
    graphs: HashMap<u32, (Vec<DriverLaunch>, u64)>,
    /// For each event, the generation in which it was recorded, and the number of the operation before it.
    events: HashMap<u32, (u64, u32)>,
    pub journal: Journal,
    launched: u64,
    next: u32,
    /// The time at which the worker was last asked whether operations are done.
    last_poll: Instant,
    pub sticky_error: Option<StickyError>,
}

struct FunctionEntry {
    module: u32,
    name: String,
    static_shared: u32,
    allowed: u32,
    generation: u64,
}

impl WorkerLink {
    pub fn new(keeper: ChildSocket, worker: ChildSocket) -> WorkerLink {
        WorkerLink {
            memory_owner: keeper,
            worker: Some(worker),
            ending: None,
            generation: 0,
            arenas: Arenas::default(),
            handles: BTreeMap::new(),
            resolved_addresses: BTreeMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            graphs: HashMap::new(),
            events: HashMap::new(),
            journal: Journal::default(),
            launched: 0,
            next: 0,
            last_poll: Instant::now(),
            sticky_error: None,
        }
    }

    fn next_id(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub fn ask_memory_owner(&mut self, request: &WorkerRequest<'_>) -> DriverResult<WorkerReply> {
        match self.memory_owner.ask(request) {
            Ok(WorkerReply::Refused(refusal)) => Err(refusal),
            Ok(reply) => Ok(reply),
            Err(_) => Err(worker_gone(
                "the process that keeps the GPU's memory has ended, and the arrays in it are lost".into(),
            )),
        }
    }
}

pub(super) fn worker_gone(name: String) -> DriverError {
    DriverError { call: Cow::Borrowed("the worker"), code: code::GONE, name }
}

/// Returns the error for a reply that does not match the request.
fn unexpected_reply() -> DriverError {
    worker_gone("it answers what was not asked".into())
}

/// Returns the error for an invalid handle.
fn invalid_handle(call: &'static str) -> DriverError {
    DriverError { call: Cow::Borrowed(call), code: 400, name: "CUDA_ERROR_INVALID_HANDLE".into() }
}

impl IsolatedGpu {
    pub(super) fn new(
        properties: Properties,
        starter: Arc<dyn Starter>,
        segment: SharedSegment,
        link: WorkerLink,
    ) -> IsolatedGpu {
        IsolatedGpu { properties, starter, segment, link: Mutex::new(link), slots: Mutex::default() }
    }

    pub(super) fn link(&self) -> MutexGuard<'_, WorkerLink> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to the worker and returns the reply. If the worker is lost, replaces it, and repeats the request
    /// if no launch was lost.
    pub(super) fn ask(&self, link: &mut WorkerLink, request: &WorkerRequest<'_>) -> DriverResult<WorkerReply> {
        for _ in 0..2 {
            let Some(worker) = &mut link.worker else {
                self.start_again(link)?;
                continue;
            };
            return match worker.ask(request) {
                Ok(WorkerReply::Refused(refusal)) if refusal.is_sticky() => {
                    Err(self.replace_worker(link, Some(refusal)))
                }
                Ok(WorkerReply::Refused(refusal)) => Err(refusal),
                Ok(reply) => Ok(reply),
                Err(_) => {
                    let refusal = self.replace_worker(link, None);
                    let harmless =
                        link.sticky_error.as_ref().is_some_and(|c| c.launch.is_none() && c.replaced.is_some());
                    if harmless {
                        link.sticky_error = None;
                        continue;
                    }
                    Err(refusal)
                }
            };
        }
        Err(worker_gone("it ended twice".into()))
    }

    fn expect_done(&self, link: &mut WorkerLink, request: &WorkerRequest<'_>) -> DriverResult {
        match self.ask(link, request)? {
            WorkerReply::Done => Ok(()),
            _ => Err(unexpected_reply()),
        }
    }

    fn expect_number(&self, link: &mut WorkerLink, request: &WorkerRequest<'_>) -> DriverResult<u32> {
        match self.ask(link, request)? {
            WorkerReply::Number(number) => Ok(number),
            _ => Err(unexpected_reply()),
        }
    }

    /// Sends a message that has no reply. `now`: sends it immediately rather than buffering it, because the GPU may be
    /// idle.
    pub(super) fn send_message(&self, link: &mut WorkerLink, message: &[u8], now: bool) -> DriverResult {
        self.ensure_worker(link)?;
        let Some(worker) = &mut link.worker else { return Err(worker_gone("there is none".into())) };
        let sent = worker.send(message).and_then(|()| if now { worker.flush() } else { Ok(()) });
        match sent {
            Ok(()) => Ok(()),
            Err(_) => Err(self.replace_worker(link, None)),
        }
    }

    /// Ensures that there is a worker. Must be called before an operation is added to the journal, because a new worker
    /// counts from the journal's number. It must also be called before functions, graphs and events are used, because a
    /// new worker has none.
    fn ensure_worker(&self, link: &mut WorkerLink) -> DriverResult {
        match link.worker {
            Some(_) => Ok(()),
            None => self.start_again(link),
        }
    }

    /// Ensures that there is a worker, and that the journal has room for an operation.
    fn prepare(&self, link: &mut WorkerLink) -> DriverResult {
        self.ensure_worker(link)?;
        if link.journal.len() >= 64 {
            link.journal.remove_completed(self.segment.done());
        }
        if link.journal.len() >= MAX_PENDING {
            self.expect_done(link, &WorkerRequest::Synchronize)?;
            link.journal.remove_completed(self.segment.done());
        }
        Ok(())
    }

    /// Adds an operation to the journal, and sends it to the worker.
    fn operate(&self, link: &mut WorkerLink, message: Vec<u8>, launch: Option<u64>) -> DriverResult {
        self.prepare(link)?;
        match launch {
            Some(number) => {
                link.journal.push(Operation::Launch(number));
                self.send_message(link, &message, true)
            }
            None => {
                let sent = self.send_message(link, &message, false);
                // If the worker was replaced, the new one has not received the message yet.
                let must_resend = sent.is_err() && link.worker.is_some();
                link.journal.push(Operation::Memory(message.clone()));
                if must_resend { self.send_message(link, &message, false).and(sent) } else { sent }
            }
        }
    }

    /// Adds an arena: the memory owner allocates it, and the worker maps it.
    pub(super) fn add_arena(&self, link: &mut WorkerLink, bytes: u64) -> DriverResult {
        let arena = link.arenas.number();
        let handle = match link.ask_memory_owner(&WorkerRequest::Keep { arena, bytes })? {
            WorkerReply::Handle(handle) => handle,
            _ => return Err(unexpected_reply()),
        };
        match self.expect_done(link, &WorkerRequest::Map { arena, handle }) {
            Ok(()) => {
                link.handles.insert(arena, handle);
                link.arenas.add(bytes);
                Ok(())
            }
            Err(refusal) => {
                let _ = self.ask(link, &WorkerRequest::Unmap { arena });
                let _ = link.ask_memory_owner(&WorkerRequest::Release { arena });
                Err(refusal)
            }
        }
    }

    /// Ensures that the current worker has loaded a function and its module.
    fn ensure_function(&self, link: &mut WorkerLink, function: u32) -> DriverResult {
        self.ensure_worker(link)?;
        let entry = link.functions.get(&function).ok_or_else(|| invalid_handle("launch"))?;
        if entry.generation == link.generation {
            return Ok(());
        }
        let (module, name, allowed) = (entry.module, entry.name.clone(), entry.allowed);
        let (cubin, loaded) = link.modules.get(&module).cloned().ok_or_else(|| invalid_handle("launch"))?;
        if loaded != link.generation {
            self.expect_done(link, &WorkerRequest::Load { module, cubin: Cow::Borrowed(&cubin) })?;
            if let Some(kept) = link.modules.get_mut(&module) {
                kept.1 = link.generation;
            }
        }
        self.expect_number(link, &WorkerRequest::Function { function, module, name: name.into() })?;
        if allowed > 0 {
            self.expect_done(link, &WorkerRequest::AllowShared { function, bytes: allowed })?;
        }
        if let Some(entry) = link.functions.get_mut(&function) {
            entry.generation = link.generation;
        }
        Ok(())
    }

    fn ensure_graph(&self, link: &mut WorkerLink, graph: u32) -> DriverResult {
        self.ensure_worker(link)?;
        let (launches, made) = link.graphs.get(&graph).ok_or_else(|| invalid_handle("graph"))?;
        if *made == link.generation {
            return Ok(());
        }
        let launches = launches.clone();
        for launch in &launches {
            self.ensure_function(link, launch.function.0 as u32)?;
        }
        self.expect_done(link, &WorkerRequest::Graph { graph, launches: Cow::Borrowed(&launches) })?;
        if let Some(kept) = link.graphs.get_mut(&graph) {
            kept.1 = link.generation;
        }
        Ok(())
    }

    fn ensure_event(&self, link: &mut WorkerLink, event: u32) -> DriverResult {
        self.ensure_worker(link)?;
        match link.events.get(&event) {
            None => Err(invalid_handle("event")),
            Some((made, _)) if *made == link.generation => Ok(()),
            Some(_) => {
                self.send_message(link, &WorkerRequest::Event { event }.encode(), false)?;
                link.events.insert(event, (link.generation, link.journal.number()));
                Ok(())
            }
        }
    }

    /// Returns whether the operation with this number is done, according to the shared segment. Returns false if an
    /// operation has failed.
    fn is_done(&self, number: u32) -> bool {
        self.segment.done().wrapping_sub(number) < 1 << 31 && !self.segment.has_failed()
    }

    /// Returns whether to ask the worker again. It is asked once in [`POLL_INTERVAL`], so that the program notices when
    /// the worker is lost.
    fn is_poll_due(link: &mut WorkerLink) -> bool {
        let due = link.last_poll.elapsed() >= POLL_INTERVAL;
        if due {
            link.last_poll = Instant::now();
        }
        due
    }
}

impl Driver for IsolatedGpu {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn allocate(&self, bytes: u64) -> DriverResult<DevicePtr> {
        let link = &mut *self.link();
        if let Some(address) = link.arenas.allocate(bytes) {
            return Ok(address);
        }
        self.add_arena(link, Arenas::arena_size_for(bytes))?;
        link.arenas.allocate(bytes).ok_or_else(unexpected_reply)
    }

    fn free(&self, address: DevicePtr) {
        let link = &mut *self.link();
        let end = DevicePtr(address.0 + link.arenas.free(address));
        if link.resolved_addresses.range(address..end).next().is_some() {
            link.resolved_addresses.retain(|place, _| !(address..end).contains(place));
        }
    }

    fn zero(&self, to: DevicePtr, bytes: u64) -> DriverResult {
        self.operate(&mut self.link(), WorkerRequest::Zero { to, bytes }.encode(), None)
    }

    fn upload(&self, to: DevicePtr, bytes: &[u8]) -> DriverResult {
        match bytes.len() <= MAX_INLINE_BYTES {
            true => self.operate(&mut self.link(), WorkerRequest::Upload { to, bytes: bytes.into() }.encode(), None),
            false => self.upload_large(to, bytes),
        }
    }

    fn download(&self, from: DevicePtr, bytes: &mut [u8]) -> DriverResult {
        if bytes.len() > MAX_INLINE_BYTES {
            return self.download_large(from, bytes);
        }
        let link = &mut *self.link();
        match self.ask(link, &WorkerRequest::Download { from, bytes: bytes.len() as u32 })? {
            WorkerReply::Bytes(found) if found.len() == bytes.len() => {
                bytes.copy_from_slice(&found);
                Ok(())
            }
            _ => Err(unexpected_reply()),
        }
    }

    fn copy(&self, to: DevicePtr, from: DevicePtr, bytes: u64) -> DriverResult {
        self.operate(&mut self.link(), WorkerRequest::Copy { to, from, bytes }.encode(), None)
    }

    fn copy_from_peer(&self, _: DevicePtr, _: Peer, _: u64, _: [StreamEvent; 2], _: StreamEvent) -> DriverResult {
        Err(DriverError::not_supported("a copy between GPUs"))
    }

    fn load(&self, cubin: &[u8]) -> DriverResult<DriverModule> {
        let link = &mut *self.link();
        let module = link.next_id();
        self.expect_done(link, &WorkerRequest::Load { module, cubin: cubin.into() })?;
        link.modules.insert(module, (cubin.into(), link.generation));
        Ok(DriverModule(module as usize))
    }

    fn unload(&self, module: DriverModule) {
        let link = &mut *self.link();
        let module = module.0 as u32;
        link.functions.retain(|_, entry| entry.module != module);
        if let Some((_, generation)) = link.modules.remove(&module)
            && generation == link.generation
        {
            let _ = self.send_message(link, &WorkerRequest::Unload { module }.encode(), false);
        }
    }

    fn function(&self, module: DriverModule, name: &str) -> DriverResult<DriverFunction> {
        let link = &mut *self.link();
        let (module, function, name) = (module.0 as u32, link.next_id(), name.to_string());
        let static_shared =
            self.expect_number(link, &WorkerRequest::Function { function, module, name: (&name).into() })?;
        let generation = link.generation;
        link.functions.insert(function, FunctionEntry { module, name, static_shared, allowed: 0, generation });
        Ok(DriverFunction(function as usize))
    }

    fn allow_shared(&self, function: DriverFunction, bytes: u32) -> DriverResult {
        let link = &mut *self.link();
        let function = function.0 as u32;
        self.ensure_function(link, function)?;
        self.expect_done(link, &WorkerRequest::AllowShared { function, bytes })?;
        if let Some(entry) = link.functions.get_mut(&function) {
            entry.allowed = bytes;
        }
        Ok(())
    }

    fn static_shared(&self, function: DriverFunction) -> u32 {
        self.link().functions.get(&(function.0 as u32)).map_or(0, |entry| entry.static_shared)
    }

    fn resident_blocks(&self, function: DriverFunction, threads: u32, shared: u32) -> DriverResult<u32> {
        let link = &mut *self.link();
        let function = function.0 as u32;
        self.ensure_function(link, function)?;
        self.expect_number(link, &WorkerRequest::Resident { function, threads, shared })
    }

    unsafe fn launch(
        &self,
        function: DriverFunction,
        shape: &LaunchShape,
        arguments: &[DriverArgument],
    ) -> DriverResult {
        let link = &mut *self.link();
        let function = function.0 as u32;
        self.prepare(link)?;
        self.ensure_function(link, function)?;
        link.launched += 1;
        let launch = Some(link.launched);
        let message = WorkerRequest::Launch { function, shape: *shape, arguments: arguments.into() }.encode();
        self.operate(link, message, launch)
    }

    unsafe fn graph(&self, launches: &[DriverLaunch]) -> DriverResult<Graph> {
        let link = &mut *self.link();
        for launch in launches {
            self.ensure_function(link, launch.function.0 as u32)?;
        }
        let graph = link.next_id();
        self.expect_done(link, &WorkerRequest::Graph { graph, launches: launches.into() })?;
        link.graphs.insert(graph, (launches.to_vec(), link.generation));
        Ok(Graph(graph as usize))
    }

    unsafe fn run_graph(&self, graph: Graph, changes: &[(usize, &DriverLaunch)]) -> DriverResult {
        let link = &mut *self.link();
        let graph = graph.0 as u32;
        self.prepare(link)?;
        self.ensure_graph(link, graph)?;
        if let Some((launches, _)) = link.graphs.get_mut(&graph) {
            for (at, launch) in changes {
                if let Some(place) = launches.get_mut(*at) {
                    place.clone_from(launch);
                }
            }
        }
        link.launched += 1;
        let launch = Some(link.launched);
        let changes = changes.iter().map(|(at, launch)| (*at as u32, Cow::Borrowed(*launch))).collect();
        self.operate(link, WorkerRequest::RunGraph { graph, changes }.encode(), launch)
    }

    fn forget_graph(&self, graph: Graph) {
        let link = &mut *self.link();
        let graph = graph.0 as u32;
        if let Some((_, generation)) = link.graphs.remove(&graph)
            && generation == link.generation
        {
            let _ = self.send_message(link, &WorkerRequest::ForgetGraph { graph }.encode(), false);
        }
    }

    fn flag(&self) -> DriverResult<DevicePtr> {
        Ok(DevicePtr(first(CONTROL).0 + FLAG as u64))
    }

    fn is_flag_set(&self) -> bool {
        self.segment.flag() != 0
    }

    fn clear_flag(&self) {
        self.segment.clear_flag();
    }

    fn synchronize(&self) -> DriverResult {
        let link = &mut *self.link();
        // Ask the worker only if the segment does not say that the operation is done.
        match link.worker.is_some() && self.is_done(link.journal.number()) {
            true => Ok(()),
            false => self.expect_done(link, &WorkerRequest::Synchronize),
        }
    }

    fn is_idle(&self) -> DriverResult<bool> {
        let link = &mut *self.link();
        if self.is_done(link.journal.number()) {
            return Ok(true);
        }
        match Self::is_poll_due(link) {
            true => Ok(self.expect_number(link, &WorkerRequest::IsIdle)? != 0),
            false => Ok(false),
        }
    }

    fn is_event_reached(&self, event: StreamEvent) -> DriverResult<bool> {
        let link = &mut *self.link();
        let event = event.0 as u32;
        let (made, number) = *link.events.get(&event).ok_or_else(|| invalid_handle("event"))?;
        // If the event belongs to a lost worker, the operations before it are done or will never be.
        if made != link.generation || self.is_done(number) {
            return Ok(true);
        }
        match Self::is_poll_due(link) {
            true => Ok(self.expect_number(link, &WorkerRequest::IsReached { event })? != 0),
            false => Ok(false),
        }
    }

    fn write_words_now(&self, words: StridedWords, value: u32) -> DriverResult {
        self.expect_done(&mut self.link(), &WorkerRequest::Poke { words, value })
    }

    fn memory(&self) -> DriverResult<(u64, u64)> {
        let link = &mut *self.link();
        match link.ask_memory_owner(&WorkerRequest::Memory)? {
            WorkerReply::Memory { free, total } => Ok((free.saturating_add(link.arenas.idle()).min(total), total)),
            _ => Err(unexpected_reply()),
        }
    }

    fn trim(&self) -> DriverResult {
        let link = &mut *self.link();
        self.expect_done(link, &WorkerRequest::Synchronize)?;
        let mut first = Ok(());
        for arena in link.arenas.take_unused() {
            // Remove the arena first. If the worker is replaced during the request, the new one does not map it, so it
            // can be released in any case.
            link.handles.remove(&arena);
            let unmapped = self.expect_done(link, &WorkerRequest::Unmap { arena });
            let released = link.ask_memory_owner(&WorkerRequest::Release { arena }).map(drop);
            first = first.and(unmapped).and(released);
        }
        first
    }

    fn event(&self) -> DriverResult<StreamEvent> {
        let link = &mut *self.link();
        let event = link.next_id();
        self.send_message(link, &WorkerRequest::Event { event }.encode(), false)?;
        link.events.insert(event, (link.generation, link.journal.number()));
        Ok(StreamEvent(event as usize))
    }

    fn record(&self, event: StreamEvent) -> DriverResult {
        let link = &mut *self.link();
        let event = event.0 as u32;
        self.ensure_event(link, event)?;
        link.events.insert(event, (link.generation, link.journal.number()));
        self.send_message(link, &WorkerRequest::Record { event }.encode(), true)
    }

    fn elapsed(&self, from: StreamEvent, to: StreamEvent) -> DriverResult<f64> {
        let link = &mut *self.link();
        let (from, to) = (from.0 as u32, to.0 as u32);
        for event in [from, to] {
            if link.events.get(&event).is_none_or(|(made, _)| *made != link.generation) {
                return Err(invalid_handle("cuEventElapsedTime"));
            }
        }
        match self.ask(link, &WorkerRequest::Elapsed { from, to })? {
            WorkerReply::Milliseconds(time) => Ok(time),
            _ => Err(unexpected_reply()),
        }
    }

    fn forget_event(&self, event: StreamEvent) {
        let link = &mut *self.link();
        let event = event.0 as u32;
        if let Some((generation, _)) = link.events.remove(&event)
            && generation == link.generation
        {
            let _ = self.send_message(link, &WorkerRequest::ForgetEvent { event }.encode(), false);
        }
    }

    fn resolve(&self, address: DevicePtr) -> DriverResult<u64> {
        match self.ask(&mut self.link(), &WorkerRequest::Resolve { address })? {
            WorkerReply::Place(place) => Ok(place),
            _ => Err(unexpected_reply()),
        }
    }

    fn hold(&self, addresses: &[(DevicePtr, DevicePtr)]) {
        self.link().resolved_addresses.extend(addresses.iter().copied());
    }

    fn launched(&self) -> u64 {
        self.link().launched
    }

    fn take_sticky_error(&self) -> Option<StickyError> {
        self.link().sticky_error.take()
    }

    /// The context and its stream belong to the worker.
    fn stream(&self) -> Option<usize> {
        None
    }

    /// The worker executes requests in order.
    fn can_overlap_uploads(&self) -> bool {
        false
    }

    fn upload_overlapped(&self, to: DevicePtr, bytes: &[u8], _: StreamEvent) -> DriverResult<StreamEvent> {
        self.upload(to, bytes)?;
        let done = self.event()?;
        self.record(done).map(|()| done)
    }

    /// Streams of this process are unknown to the worker.
    fn wait_for_stream(&self, _: ForeignStream) -> DriverResult {
        Err(DriverError::not_supported("cuStreamWaitEvent"))
    }

    fn make_streams_wait_for_this(&self, _: &[ForeignStream]) -> DriverResult {
        self.synchronize()
    }

    /// The worker cannot access pages of this process.
    unsafe fn lock(&self, _: &[u8]) -> DriverResult {
        Err(DriverError::not_supported("cuMemHostRegister"))
    }

    fn unlock(&self, _: usize) {}

    fn quiet(&self) -> DriverResult {
        self.synchronize()
    }

    /// All operations have one order, so later ones need not wait.
    fn wait(&self, _: StreamEvent) -> DriverResult {
        Ok(())
    }
}

/// The child processes of a GPU, which have been started but are not ready yet. The worker has reported the GPU's
/// properties.
pub struct Starting {
    properties: Properties,
    starter: Arc<dyn Starter>,
    segment: SharedSegment,
    memory_owner: ChildSocket,
    worker: ChildSocket,
}

/// Why the child processes of a GPU did not start.
#[derive(Debug, Error)]
pub enum WorkerStartError {
    #[error("its processes do not start: {0}")]
    Io(#[from] io::Error),
    /// The worker cannot use the GPU, for this reason.
    #[error("{0}")]
    GpuUnavailable(String),
    #[error("its worker process speaks another language")]
    UnexpectedReply,
    /// The worker ended before its first reply, in this way.
    #[error("its worker process does not start: {0}")]
    Ended(String),
}

/// Starts the child processes for the GPU with this ordinal.
pub fn start(ordinal: u32, starter: Arc<dyn Starter>) -> Result<Starting, WorkerStartError> {
    let segment = SharedSegment::create()?;
    let mut worker = ChildSocket::new(starter.start(ChildRole::Worker, ordinal, &segment)?);
    let keeper = ChildSocket::new(starter.start(ChildRole::Keeper, ordinal, &segment)?);
    match worker.read() {
        Ok(WorkerReply::Properties(properties)) => {
            Ok(Starting { properties: *properties, starter, segment, memory_owner: keeper, worker })
        }
        Ok(WorkerReply::Absent(why)) => Err(WorkerStartError::GpuUnavailable(why)),
        Ok(_) => Err(WorkerStartError::UnexpectedReply),
        Err(_) => Err(WorkerStartError::Ended(how_it_ended(&worker))),
    }
}

impl Starting {
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Waits until both processes are ready, and tests whether the worker can map memory of the memory owner.
    pub fn finish(mut self) -> DriverResult<IsolatedGpu> {
        wait_until_ready(&mut self.worker)?;
        match self.memory_owner.read() {
            Ok(WorkerReply::Properties(_)) => wait_until_ready(&mut self.memory_owner)?,
            _ => return Err(worker_gone("the process that keeps the GPU's memory does not start".into())),
        }
        let remote = IsolatedGpu::new(
            self.properties,
            self.starter,
            self.segment,
            WorkerLink::new(self.memory_owner, self.worker),
        );
        {
            let link = &mut *remote.link();
            remote.send_message(link, &WorkerRequest::Begin { number: 0 }.encode(), false)?;
            remote.add_arena(link, Arenas::arena_size_for(1))?;
        }
        Ok(remote)
    }
}

/// Waits until a child process has created its context.
pub(super) fn wait_until_ready(wire: &mut ChildSocket) -> DriverResult {
    match wire.read() {
        Ok(WorkerReply::Done) => Ok(()),
        Ok(WorkerReply::Refused(refusal)) => Err(refusal),
        Ok(_) => Err(unexpected_reply()),
        Err(_) => Err(does_not_start(wire)),
    }
}

/// Returns the error for a child process that ended before it was ready.
pub(super) fn does_not_start(wire: &ChildSocket) -> DriverError {
    worker_gone(format!("it does not start: {}", how_it_ended(wire)))
}

/// Waits until a child process has ended. Returns how it ended.
fn how_it_ended(wire: &ChildSocket) -> String {
    wire.child.wait().unwrap_or_else(|| "it does not end".into())
}
