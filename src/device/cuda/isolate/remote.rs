//! The program's side: a driver that forwards its calls to the child processes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::super::driver::{
    Address, Answer, Argument, Casualty, Driver, Event, Function, Graph, Launch, Module, Peer, Properties, Refusal,
    Shape, Words,
};
use super::arenas::{Arenas, CONTROL, first};
use super::journal::{Journal, Operation};
use super::segment::{FLAG, Segment};
use super::serve::INLINE;
use super::wire::{self, Reply, Request};
use super::{Child, Handle, Process, Role, Starter, code};

/// Pending operations, at most, before the program waits for them.
const MOST_PENDING: usize = 4096;
/// Bytes of messages that are buffered, at most, before they are sent.
const MOST_UNSENT: usize = 16 << 10;
/// How long the reply that something is not done yet is trusted, while the segment agrees.
const PATIENCE: Duration = Duration::from_micros(300);

/// A GPU whose memory belongs to one process and whose kernels run in another.
pub struct Remote {
    pub(super) properties: Properties,
    pub(super) starter: Arc<dyn Starter>,
    pub(super) segment: Segment,
    link: Mutex<Link>,
    /// Held by the large copy that uses the slots.
    pub(super) slots: Mutex<()>,
}

/// The connection to a child.
pub(super) struct Wire {
    socket: UnixStream,
    pub child: Arc<dyn Child>,
    unsent: Vec<u8>,
    message: Vec<u8>,
}

impl Wire {
    pub fn new(process: Process) -> Wire {
        Wire { socket: process.socket, child: process.child, unsent: vec![], message: vec![] }
    }

    /// Queues a message without a reply; it is sent with the next question at the latest.
    pub fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.unsent.extend_from_slice(message);
        if self.unsent.len() > MOST_UNSENT { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let sent = self.socket.write_all(&self.unsent);
        self.unsent.clear();
        sent
    }

    pub fn read(&mut self) -> io::Result<Reply> {
        if !wire::read(&mut self.socket, wire::MAX_REPLY, &mut self.message)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Reply::decode(&self.message).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    pub fn ask(&mut self, request: &Request<'_>) -> io::Result<Reply> {
        self.send(&request.encode())?;
        self.flush()?;
        self.read()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // The child would exit by itself when the socket closes, but a kernel that never ends would prevent that.
        self.child.kill();
        let child = self.child.clone();
        // If no thread can be started, the system reaps the child when this process ends.
        let _ = std::thread::Builder::new().name("gpu child".into()).spawn(move || child.wait());
    }
}

/// The program's state of the children, and the data to set up a new worker.
pub(super) struct Link {
    pub keeper: Wire,
    /// `None` if the last one was lost and no other could be started.
    pub worker: Option<Wire>,
    /// A lost worker that was killed and had not ended when [`Child::wait`] gave up.
    pub ending: Option<Arc<dyn Child>>,
    /// The number of the worker; objects made by an earlier one have to be created again.
    pub generation: u64,
    pub arenas: Arenas,
    pub handles: BTreeMap<u32, Handle>,
    /// Resolved addresses that memory holds, by location.
    pub held: BTreeMap<Address, Address>,
    modules: HashMap<u32, (Arc<[u8]>, u64)>,
    functions: HashMap<u32, Entry>,
    graphs: HashMap<u32, (Vec<Launch>, u64)>,
    /// By event: the generation in which it was created, and the number of the operation before it.
    events: HashMap<u32, (u64, u32)>,
    pub journal: Journal,
    launched: u64,
    next: u32,
    /// When the worker was last asked whether it is done.
    asked: Instant,
    pub casualty: Option<Casualty>,
}

struct Entry {
    module: u32,
    name: String,
    static_shared: u32,
    allowed: u32,
    generation: u64,
}

impl Link {
    pub fn new(keeper: Wire, worker: Wire) -> Link {
        Link {
            keeper,
            worker: Some(worker),
            ending: None,
            generation: 0,
            arenas: Arenas::default(),
            handles: BTreeMap::new(),
            held: BTreeMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            graphs: HashMap::new(),
            events: HashMap::new(),
            journal: Journal::default(),
            launched: 0,
            next: 0,
            asked: Instant::now(),
            casualty: None,
        }
    }

    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub fn ask_keeper(&mut self, request: &Request<'_>) -> Answer<Reply> {
        match self.keeper.ask(request) {
            Ok(Reply::Refused(refusal)) => Err(refusal),
            Ok(reply) => Ok(reply),
            Err(_) => {
                Err(gone("the process that keeps the GPU's memory has ended, and the arrays in it are lost".into()))
            }
        }
    }
}

pub(super) fn gone(name: String) -> Refusal {
    Refusal { call: Cow::Borrowed("the worker"), code: code::GONE, name }
}

/// Returns the error of a reply that does not fit the question.
fn nonsense() -> Refusal {
    gone("it answers what was not asked".into())
}

/// Returns the error of an invalid handle.
fn invalid(call: &'static str) -> Refusal {
    Refusal { call: Cow::Borrowed(call), code: 400, name: "CUDA_ERROR_INVALID_HANDLE".into() }
}

impl Remote {
    pub(super) fn new(properties: Properties, starter: Arc<dyn Starter>, segment: Segment, link: Link) -> Remote {
        Remote { properties, starter, segment, link: Mutex::new(link), slots: Mutex::default() }
    }

    pub(super) fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a question to the worker, and replaces the worker if it is lost. The question is repeated if no launch was lost.
    pub(super) fn ask(&self, link: &mut Link, request: &Request<'_>) -> Answer<Reply> {
        for _ in 0..2 {
            let Some(worker) = &mut link.worker else {
                self.start_again(link)?;
                continue;
            };
            return match worker.ask(request) {
                Ok(Reply::Refused(refusal)) if refusal.is_lost() => Err(self.replace(link, Some(refusal))),
                Ok(Reply::Refused(refusal)) => Err(refusal),
                Ok(reply) => Ok(reply),
                Err(_) => {
                    let refusal = self.replace(link, None);
                    let harmless = link.casualty.as_ref().is_some_and(|c| c.launch.is_none() && c.replaced.is_some());
                    if harmless {
                        link.casualty = None;
                        continue;
                    }
                    Err(refusal)
                }
            };
        }
        Err(gone("it ended twice".into()))
    }

    fn expect_done(&self, link: &mut Link, request: &Request<'_>) -> Answer {
        match self.ask(link, request)? {
            Reply::Done => Ok(()),
            _ => Err(nonsense()),
        }
    }

    fn expect_number(&self, link: &mut Link, request: &Request<'_>) -> Answer<u32> {
        match self.ask(link, request)? {
            Reply::Number(number) => Ok(number),
            _ => Err(nonsense()),
        }
    }

    /// Sends a message without a reply; `now`: flushes, because the GPU could start with it.
    pub(super) fn tell(&self, link: &mut Link, message: &[u8], now: bool) -> Answer {
        self.ensure_worker(link)?;
        let Some(worker) = &mut link.worker else { return Err(gone("there is none".into())) };
        let sent = worker.send(message).and_then(|()| if now { worker.flush() } else { Ok(()) });
        match sent {
            Ok(()) => Ok(()),
            Err(_) => Err(self.replace(link, None)),
        }
    }

    /// Ensures that there is a worker. A new worker counts from the journal's number, which must not include an operation that it
    /// has not received, and it has none of the functions, graphs and events; so this comes first.
    fn ensure_worker(&self, link: &mut Link) -> Answer {
        match link.worker {
            Some(_) => Ok(()),
            None => self.start_again(link),
        }
    }

    /// Ensures that there is a worker, and that the journal has room for an operation.
    fn prepare(&self, link: &mut Link) -> Answer {
        self.ensure_worker(link)?;
        if link.journal.len() >= 64 {
            link.journal.done(self.segment.done());
        }
        if link.journal.len() >= MOST_PENDING {
            self.expect_done(link, &Request::Synchronize)?;
            link.journal.done(self.segment.done());
        }
        Ok(())
    }

    /// Sends a counted operation.
    fn operate(&self, link: &mut Link, message: Vec<u8>, launch: Option<u64>) -> Answer {
        self.prepare(link)?;
        match launch {
            Some(number) => {
                link.journal.push(Operation::Launch(number));
                self.tell(link, &message, true)
            }
            None => {
                let told = self.tell(link, &message, false);
                // A worker that was replaced just now has not received it yet.
                let again = told.is_err() && link.worker.is_some();
                link.journal.push(Operation::Memory(message.clone()));
                if again { self.tell(link, &message, false).and(told) } else { told }
            }
        }
    }

    /// Adds an arena: allocated by the keeper, mapped by the worker.
    pub(super) fn grow(&self, link: &mut Link, bytes: u64) -> Answer {
        let arena = link.arenas.number();
        let handle = match link.ask_keeper(&Request::Keep { arena, bytes })? {
            Reply::Handle(handle) => handle,
            _ => return Err(nonsense()),
        };
        match self.expect_done(link, &Request::Map { arena, handle }) {
            Ok(()) => {
                link.handles.insert(arena, handle);
                link.arenas.add(bytes);
                Ok(())
            }
            Err(refusal) => {
                let _ = self.ask(link, &Request::Unmap { arena });
                let _ = link.ask_keeper(&Request::Release { arena });
                Err(refusal)
            }
        }
    }

    /// Ensures that this worker has a function and its module.
    fn ensure_function(&self, link: &mut Link, function: u32) -> Answer {
        self.ensure_worker(link)?;
        let entry = link.functions.get(&function).ok_or_else(|| invalid("launch"))?;
        if entry.generation == link.generation {
            return Ok(());
        }
        let (module, name, allowed) = (entry.module, entry.name.clone(), entry.allowed);
        let (cubin, loaded) = link.modules.get(&module).cloned().ok_or_else(|| invalid("launch"))?;
        if loaded != link.generation {
            self.expect_done(link, &Request::Load { module, cubin: Cow::Borrowed(&cubin) })?;
            if let Some(kept) = link.modules.get_mut(&module) {
                kept.1 = link.generation;
            }
        }
        self.expect_number(link, &Request::Function { function, module, name: name.into() })?;
        if allowed > 0 {
            self.expect_done(link, &Request::AllowShared { function, bytes: allowed })?;
        }
        if let Some(entry) = link.functions.get_mut(&function) {
            entry.generation = link.generation;
        }
        Ok(())
    }

    fn ensure_graph(&self, link: &mut Link, graph: u32) -> Answer {
        self.ensure_worker(link)?;
        let (launches, made) = link.graphs.get(&graph).ok_or_else(|| invalid("graph"))?;
        if *made == link.generation {
            return Ok(());
        }
        let launches = launches.clone();
        for launch in &launches {
            self.ensure_function(link, launch.function.0 as u32)?;
        }
        self.expect_done(link, &Request::Graph { graph, launches: Cow::Borrowed(&launches) })?;
        if let Some(kept) = link.graphs.get_mut(&graph) {
            kept.1 = link.generation;
        }
        Ok(())
    }

    fn ensure_event(&self, link: &mut Link, event: u32) -> Answer {
        self.ensure_worker(link)?;
        match link.events.get(&event) {
            None => Err(invalid("event")),
            Some((made, _)) if *made == link.generation => Ok(()),
            Some(_) => {
                self.tell(link, &Request::Event { event }.encode(), false)?;
                link.events.insert(event, (link.generation, link.journal.number()));
                Ok(())
            }
        }
    }

    /// Returns whether the operation with this number is done, according to the segment.
    fn is_done(&self, number: u32) -> bool {
        self.segment.done().wrapping_sub(number) < 1 << 31 && !self.segment.has_failed()
    }

    /// Returns whether to ask the worker again; it is asked from time to time, so that its loss is noticed.
    fn shall_ask(link: &mut Link) -> bool {
        let due = link.asked.elapsed() >= PATIENCE;
        if due {
            link.asked = Instant::now();
        }
        due
    }
}

impl Driver for Remote {
    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn allocate(&self, bytes: u64) -> Answer<Address> {
        let link = &mut *self.link();
        if let Some(address) = link.arenas.allocate(bytes) {
            return Ok(address);
        }
        self.grow(link, Arenas::wanted(bytes))?;
        link.arenas.allocate(bytes).ok_or_else(nonsense)
    }

    fn free(&self, address: Address) {
        let link = &mut *self.link();
        let end = Address(address.0 + link.arenas.free(address));
        if link.held.range(address..end).next().is_some() {
            link.held.retain(|place, _| !(address..end).contains(place));
        }
    }

    fn zero(&self, to: Address, bytes: u64) -> Answer {
        self.operate(&mut self.link(), Request::Zero { to, bytes }.encode(), None)
    }

    fn upload(&self, to: Address, bytes: &[u8]) -> Answer {
        match bytes.len() <= INLINE {
            true => self.operate(&mut self.link(), Request::Upload { to, bytes: bytes.into() }.encode(), None),
            false => self.upload_large(to, bytes),
        }
    }

    fn download(&self, from: Address, bytes: &mut [u8]) -> Answer {
        if bytes.len() > INLINE {
            return self.download_large(from, bytes);
        }
        let link = &mut *self.link();
        match self.ask(link, &Request::Download { from, bytes: bytes.len() as u32 })? {
            Reply::Bytes(found) if found.len() == bytes.len() => {
                bytes.copy_from_slice(&found);
                Ok(())
            }
            _ => Err(nonsense()),
        }
    }

    fn copy(&self, to: Address, from: Address, bytes: u64) -> Answer {
        self.operate(&mut self.link(), Request::Copy { to, from, bytes }.encode(), None)
    }

    fn copy_from_peer(&self, _: Address, _: Peer, _: u64, _: [Event; 2], _: Event) -> Answer {
        let name = "CUDA_ERROR_NOT_SUPPORTED".into();
        Err(Refusal { call: Cow::Borrowed("a copy between GPUs"), code: 801, name })
    }

    fn load(&self, cubin: &[u8]) -> Answer<Module> {
        let link = &mut *self.link();
        let module = link.fresh();
        self.expect_done(link, &Request::Load { module, cubin: cubin.into() })?;
        link.modules.insert(module, (cubin.into(), link.generation));
        Ok(Module(module as usize))
    }

    fn unload(&self, module: Module) {
        let link = &mut *self.link();
        let module = module.0 as u32;
        link.functions.retain(|_, entry| entry.module != module);
        if let Some((_, generation)) = link.modules.remove(&module)
            && generation == link.generation
        {
            let _ = self.tell(link, &Request::Unload { module }.encode(), false);
        }
    }

    fn function(&self, module: Module, name: &str) -> Answer<Function> {
        let link = &mut *self.link();
        let (module, function, name) = (module.0 as u32, link.fresh(), name.to_string());
        let static_shared = self.expect_number(link, &Request::Function { function, module, name: (&name).into() })?;
        let generation = link.generation;
        link.functions.insert(function, Entry { module, name, static_shared, allowed: 0, generation });
        Ok(Function(function as usize))
    }

    fn allow_shared(&self, function: Function, bytes: u32) -> Answer {
        let link = &mut *self.link();
        let function = function.0 as u32;
        self.ensure_function(link, function)?;
        self.expect_done(link, &Request::AllowShared { function, bytes })?;
        if let Some(entry) = link.functions.get_mut(&function) {
            entry.allowed = bytes;
        }
        Ok(())
    }

    fn static_shared(&self, function: Function) -> u32 {
        self.link().functions.get(&(function.0 as u32)).map_or(0, |entry| entry.static_shared)
    }

    fn resident_blocks(&self, function: Function, threads: u32, shared: u32) -> Answer<u32> {
        let link = &mut *self.link();
        let function = function.0 as u32;
        self.ensure_function(link, function)?;
        self.expect_number(link, &Request::Resident { function, threads, shared })
    }

    unsafe fn launch(&self, function: Function, shape: &Shape, arguments: &[Argument]) -> Answer {
        let link = &mut *self.link();
        let function = function.0 as u32;
        self.prepare(link)?;
        self.ensure_function(link, function)?;
        link.launched += 1;
        let launch = Some(link.launched);
        let message = Request::Launch { function, shape: *shape, arguments: arguments.into() }.encode();
        self.operate(link, message, launch)
    }

    unsafe fn graph(&self, launches: &[Launch]) -> Answer<Graph> {
        let link = &mut *self.link();
        for launch in launches {
            self.ensure_function(link, launch.function.0 as u32)?;
        }
        let graph = link.fresh();
        self.expect_done(link, &Request::Graph { graph, launches: launches.into() })?;
        link.graphs.insert(graph, (launches.to_vec(), link.generation));
        Ok(Graph(graph as usize))
    }

    unsafe fn run_graph(&self, graph: Graph, changes: &[(usize, &Launch)]) -> Answer {
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
        self.operate(link, Request::RunGraph { graph, changes }.encode(), launch)
    }

    fn forget_graph(&self, graph: Graph) {
        let link = &mut *self.link();
        let graph = graph.0 as u32;
        if let Some((_, generation)) = link.graphs.remove(&graph)
            && generation == link.generation
        {
            let _ = self.tell(link, &Request::ForgetGraph { graph }.encode(), false);
        }
    }

    fn flag(&self) -> Answer<Address> {
        Ok(Address(first(CONTROL).0 + FLAG as u64))
    }

    fn is_flag_up(&self) -> bool {
        self.segment.flag() != 0
    }

    fn lower_flag(&self) {
        self.segment.lower_flag();
    }

    fn synchronize(&self) -> Answer {
        let link = &mut *self.link();
        // Without a question if the segment has the answer.
        match link.worker.is_some() && self.is_done(link.journal.number()) {
            true => Ok(()),
            false => self.expect_done(link, &Request::Synchronize),
        }
    }

    fn is_idle(&self) -> Answer<bool> {
        let link = &mut *self.link();
        if self.is_done(link.journal.number()) {
            return Ok(true);
        }
        match Self::shall_ask(link) {
            true => Ok(self.expect_number(link, &Request::IsIdle)? != 0),
            false => Ok(false),
        }
    }

    fn is_reached(&self, event: Event) -> Answer<bool> {
        let link = &mut *self.link();
        let event = event.0 as u32;
        let (made, number) = *link.events.get(&event).ok_or_else(|| invalid("event"))?;
        // Operations of a lost worker before an event are done or never will be.
        if made != link.generation || self.is_done(number) {
            return Ok(true);
        }
        match Self::shall_ask(link) {
            true => Ok(self.expect_number(link, &Request::IsReached { event })? != 0),
            false => Ok(false),
        }
    }

    fn poke(&self, words: Words, value: u32) -> Answer {
        self.expect_done(&mut self.link(), &Request::Poke { words, value })
    }

    fn memory(&self) -> Answer<(u64, u64)> {
        let link = &mut *self.link();
        match link.ask_keeper(&Request::Memory)? {
            Reply::Memory { free, total } => Ok((free.saturating_add(link.arenas.idle()).min(total), total)),
            _ => Err(nonsense()),
        }
    }

    fn trim(&self) -> Answer {
        let link = &mut *self.link();
        self.expect_done(link, &Request::Synchronize)?;
        let mut first = Ok(());
        for arena in link.arenas.take_unused() {
            // A worker that replaces this one does not map the arena, so it is released whatever the worker answers.
            link.handles.remove(&arena);
            let unmapped = self.expect_done(link, &Request::Unmap { arena });
            let released = link.ask_keeper(&Request::Release { arena }).map(drop);
            first = first.and(unmapped).and(released);
        }
        first
    }

    fn event(&self) -> Answer<Event> {
        let link = &mut *self.link();
        let event = link.fresh();
        self.tell(link, &Request::Event { event }.encode(), false)?;
        link.events.insert(event, (link.generation, link.journal.number()));
        Ok(Event(event as usize))
    }

    fn record(&self, event: Event) -> Answer {
        let link = &mut *self.link();
        let event = event.0 as u32;
        self.ensure_event(link, event)?;
        link.events.insert(event, (link.generation, link.journal.number()));
        self.tell(link, &Request::Record { event }.encode(), true)
    }

    fn elapsed(&self, from: Event, to: Event) -> Answer<f64> {
        let link = &mut *self.link();
        let (from, to) = (from.0 as u32, to.0 as u32);
        for event in [from, to] {
            if link.events.get(&event).is_none_or(|(made, _)| *made != link.generation) {
                return Err(invalid("cuEventElapsedTime"));
            }
        }
        match self.ask(link, &Request::Elapsed { from, to })? {
            Reply::Milliseconds(time) => Ok(time),
            _ => Err(nonsense()),
        }
    }

    fn forget_event(&self, event: Event) {
        let link = &mut *self.link();
        let event = event.0 as u32;
        if let Some((generation, _)) = link.events.remove(&event)
            && generation == link.generation
        {
            let _ = self.tell(link, &Request::ForgetEvent { event }.encode(), false);
        }
    }

    fn resolve(&self, address: Address) -> Answer<u64> {
        match self.ask(&mut self.link(), &Request::Resolve { address })? {
            Reply::Place(place) => Ok(place),
            _ => Err(nonsense()),
        }
    }

    fn hold(&self, addresses: &[(Address, Address)]) {
        self.link().held.extend(addresses.iter().copied());
    }

    fn launched(&self) -> u64 {
        self.link().launched
    }

    fn take_casualty(&self) -> Option<Casualty> {
        self.link().casualty.take()
    }
}

/// Children that were started for a GPU; the worker has reported its properties.
pub struct Starting {
    properties: Properties,
    starter: Arc<dyn Starter>,
    segment: Segment,
    keeper: Wire,
    worker: Wire,
}

/// Starts the children for the GPU with this ordinal. The error is the reason why there are none.
pub fn start(ordinal: u32, starter: Arc<dyn Starter>) -> Result<Starting, String> {
    let failed = |error: io::Error| format!("its processes do not start: {error}");
    let segment = Segment::create().map_err(failed)?;
    let mut worker = Wire::new(starter.start(Role::Worker, ordinal, &segment).map_err(failed)?);
    let keeper = Wire::new(starter.start(Role::Keeper, ordinal, &segment).map_err(failed)?);
    match worker.read() {
        Ok(Reply::Properties(properties)) => Ok(Starting { properties: *properties, starter, segment, keeper, worker }),
        Ok(Reply::Absent(why)) => Err(why),
        Ok(_) => Err("its worker process speaks another language".into()),
        Err(_) => Err(format!("its worker process does not start: {}", how_it_ended(&worker))),
    }
}

impl Starting {
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Waits until both are ready, and tests whether one can use the other's memory.
    pub fn finish(mut self) -> Answer<Remote> {
        ready(&mut self.worker)?;
        match self.keeper.read() {
            Ok(Reply::Properties(_)) => ready(&mut self.keeper)?,
            _ => return Err(gone("the process that keeps the GPU's memory does not start".into())),
        }
        let remote = Remote::new(self.properties, self.starter, self.segment, Link::new(self.keeper, self.worker));
        {
            let link = &mut *remote.link();
            remote.tell(link, &Request::Begin { number: 0 }.encode(), false)?;
            remote.grow(link, Arenas::wanted(1))?;
        }
        Ok(remote)
    }
}

/// Waits until a child has its context.
pub(super) fn ready(wire: &mut Wire) -> Answer {
    match wire.read() {
        Ok(Reply::Done) => Ok(()),
        Ok(Reply::Refused(refusal)) => Err(refusal),
        Ok(_) => Err(nonsense()),
        Err(_) => Err(does_not_start(wire)),
    }
}

/// Returns the error of a child that ended before it was ready.
pub(super) fn does_not_start(wire: &Wire) -> Refusal {
    gone(format!("it does not start: {}", how_it_ended(wire)))
}

/// Waits until a child has ended; returns how.
fn how_it_ended(wire: &Wire) -> String {
    wire.child.wait().unwrap_or_else(|| "it does not end".into())
}
