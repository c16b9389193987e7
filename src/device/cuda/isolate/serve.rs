//! The children's side: a loop that executes the program's requests.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use super::super::driver::{Address, Answer, Argument, Event, Function, Graph, Launch, Map, Module, Refusal, Words};
use super::arenas::{CONTROL, split};
use super::segment::{CONTROL_BYTES, DONE, SLOT_BYTES, SLOTS, Segment};
use super::wire::{self, Malformed, Reply, Request};
use super::{Opener, Shareable};

/// The largest reply with data, in bytes.
pub(crate) const INLINE: usize = 64 << 10;

/// Reports the GPU's properties, opens it, and reports that.
fn open(opener: &dyn Opener, socket: &mut UnixStream) -> io::Result<Option<Arc<dyn Shareable>>> {
    let properties = match opener.probe() {
        Ok(properties) => properties,
        Err(why) => {
            socket.write_all(&Reply::Absent(why).encode())?;
            return Ok(None);
        }
    };
    socket.write_all(&Reply::Properties(Box::new(properties.clone())).encode())?;
    match opener.open(properties) {
        Ok(driver) => {
            socket.write_all(&Reply::Done.encode())?;
            Ok(Some(driver))
        }
        Err(refusal) => {
            socket.write_all(&Reply::Refused(refusal).encode())?;
            Ok(None)
        }
    }
}

fn nonsense(_: Malformed) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message that says nothing")
}

/// Runs the keeper: owns memory by number, until the program is gone.
pub fn keep(opener: &dyn Opener, mut socket: UnixStream) -> io::Result<()> {
    let Some(driver) = open(opener, &mut socket)? else { return Ok(()) };
    let mut kept: HashMap<u32, Address> = HashMap::new();
    let mut stream = BufReader::new(socket.try_clone()?);
    let mut message = Vec::new();
    while wire::read(&mut stream, wire::MAX_REQUEST, &mut message)? {
        let reply = match Request::decode(&message).map_err(nonsense)? {
            Request::Keep { arena, bytes } => match driver.allocate_shared(bytes) {
                Ok((address, handle)) => {
                    kept.insert(arena, address);
                    Reply::Handle(handle)
                }
                Err(refusal) => Reply::Refused(refusal),
            },
            Request::Release { arena } => {
                if let Some(address) = kept.remove(&arena) {
                    driver.free_shared(address);
                }
                Reply::Done
            }
            Request::Memory => match driver.memory() {
                Ok((free, total)) => Reply::Memory { free, total },
                Err(refusal) => Reply::Refused(refusal),
            },
            _ => return Err(nonsense(Malformed)),
        };
        socket.write_all(&reply.encode())?;
    }
    Ok(())
}

/// Runs the worker: executes everything else, until the program is gone.
pub fn work(opener: &dyn Opener, mut socket: UnixStream, segment: Segment) -> io::Result<()> {
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
    // The driver needs it in order to poke while kernels run; as a flag it is unused here.
    let _ = worker.driver.flag();
    let mut stream = BufReader::with_capacity(1 << 16, socket.try_clone()?);
    let mut message = Vec::new();
    while wire::read(&mut stream, wire::MAX_REQUEST, &mut message)? {
        let request = Request::decode(&message).map_err(nonsense)?;
        let reply = match worker.perform(request) {
            // An earlier error is the reply to this question.
            Some(answer) => match worker.failed.take() {
                Some(refusal) => {
                    worker.segment.set_failed(false);
                    Reply::Refused(refusal)
                }
                None => answer.unwrap_or_else(Reply::Refused),
            },
            None => continue,
        };
        socket.write_all(&reply.encode())?;
    }
    Ok(())
}

struct Worker {
    driver: Arc<dyn Shareable>,
    segment: Segment,
    /// The device address of the control page.
    control: Option<Address>,
    /// The number of the last counted operation.
    number: u32,
    /// An error that was not reported yet.
    failed: Option<Refusal>,
    slots_pinned: bool,
    /// By slot, the event after which it is free again.
    slots: [Option<Event>; SLOTS],
    arenas: HashMap<u32, Address>,
    modules: HashMap<u32, Module>,
    functions: HashMap<u32, Function>,
    graphs: HashMap<u32, Graph>,
    events: HashMap<u32, Event>,
}

/// Returns the error of a request that names an object that does not exist.
fn unknown(what: &'static str) -> Refusal {
    Refusal { call: Cow::Borrowed(what), code: 400, name: "CUDA_ERROR_INVALID_HANDLE".into() }
}

impl Worker {
    fn pin_control(&self) -> Answer<Address> {
        // SAFETY: the segment is mapped as long as the worker runs.
        unsafe { self.driver.pin(self.segment.control(), CONTROL_BYTES) }
    }

    /// Executes a request. Returns `None` if it has no reply.
    fn perform(&mut self, request: Request<'_>) -> Option<Answer<Reply>> {
        if let Some(answer) = self.operate(&request) {
            self.note(answer);
            return None;
        }
        self.answer(request)
    }

    fn note(&mut self, answer: Answer) {
        if let Err(refusal) = answer {
            self.failed.get_or_insert(refusal);
            self.segment.set_failed(true);
        }
    }

    /// Executes a counted operation without a reply. Returns `None` for other requests.
    fn operate(&mut self, request: &Request<'_>) -> Option<Answer> {
        let answer = match request {
            Request::Zero { to, bytes } => self.place(*to).and_then(|to| self.driver.zero(to, *bytes)),
            Request::Upload { to, bytes } => self.place(*to).and_then(|to| self.driver.upload(to, bytes)),
            Request::Copy { to, from, bytes } => {
                let both = self.place(*to).and_then(|to| Ok((to, self.place(*from)?)));
                both.and_then(|(to, from)| self.driver.copy(to, from, *bytes))
            }
            // After an unreported error, kernels would work on invalid memory.
            Request::Launch { .. } | Request::RunGraph { .. } if self.failed.is_some() => Ok(()),
            Request::Launch { function, shape, arguments } => self.launch(*function, shape, arguments),
            Request::RunGraph { graph, changes } => self.run_graph(*graph, changes),
            _ => return None,
        };
        self.number = self.number.wrapping_add(1);
        let marked = match self.control {
            Some(control) => self.driver.write_word(Address(control.0 + DONE as u64), self.number),
            None => Ok(()),
        };
        Some(answer.and(marked))
    }

    /// Records that all operations are done.
    fn all_done(&self) {
        self.segment.set_done(self.number);
    }

    fn launch(&self, function: u32, shape: &super::super::driver::Shape, arguments: &[Argument]) -> Answer {
        let function = *self.functions.get(&function).ok_or_else(|| unknown("launch"))?;
        let arguments = self.translated(arguments)?;
        // SAFETY: guaranteed by the program, and the addresses are those of mapped memory now.
        unsafe { self.driver.launch(function, shape, &arguments) }
    }

    fn translated(&self, arguments: &[Argument]) -> Answer<Vec<Argument>> {
        let each = |argument: &Argument| match argument {
            Argument::Address(address) => self.place(*address).map(Argument::Address),
            Argument::Map(map) => self.place(map.address).map(|address| Argument::Map(Map { address, ..*map })),
            value => Ok(*value),
        };
        arguments.iter().map(each).collect()
    }

    fn translated_launch(&self, launch: &Launch) -> Answer<Launch> {
        let function = *self.functions.get(&(launch.function.0 as u32)).ok_or_else(|| unknown("graph"))?;
        Ok(Launch { function, shape: launch.shape, arguments: self.translated(&launch.arguments)? })
    }

    fn run_graph(&self, graph: u32, changes: &[(u32, Cow<'_, Launch>)]) -> Answer {
        let graph = *self.graphs.get(&graph).ok_or_else(|| unknown("graph"))?;
        let changed: Answer<Vec<(usize, Launch)>> =
            changes.iter().map(|(at, launch)| Ok((*at as usize, self.translated_launch(launch)?))).collect();
        let changed = changed?;
        let changes: Vec<(usize, &Launch)> = changed.iter().map(|(at, launch)| (*at, launch)).collect();
        // SAFETY: as for launches.
        unsafe { self.driver.run_graph(graph, &changes) }
    }

    /// Translates an address of the program to this process's mapping.
    fn place(&self, address: Address) -> Answer<Address> {
        if address.0 == 0 {
            return Ok(address);
        }
        let (arena, offset) = split(address);
        let base = match arena {
            CONTROL => self.control,
            arena => self.arenas.get(&arena).copied(),
        };
        base.map(|base| Address(base.0.wrapping_add(offset))).ok_or_else(|| unknown("address"))
    }

    fn event(&self, event: u32) -> Answer<Event> {
        self.events.get(&event).copied().ok_or_else(|| unknown("event"))
    }

    /// Executes all other requests.
    fn answer(&mut self, request: Request<'_>) -> Option<Answer<Reply>> {
        let done = |answer: Answer| Some(answer.map(|()| Reply::Done));
        match request {
            Request::Map { arena, handle } => {
                return done(self.driver.map(&handle).map(|address| {
                    self.arenas.insert(arena, address);
                }));
            }
            Request::Unmap { arena } => {
                if let Some(address) = self.arenas.remove(&arena) {
                    self.driver.unmap(address);
                }
                return done(Ok(()));
            }
            Request::Begin { number } => {
                self.number = number;
                self.segment.set_failed(false);
                self.segment.set_done(number);
            }
            Request::UploadSlot { to, slot, bytes } => {
                let copied = self.through_slot(slot, bytes, |worker, place, bytes| {
                    let to = worker.place(to)?;
                    // SAFETY: the slot belongs to this copy until it is settled.
                    unsafe { worker.driver.upload_pinned(to, place, bytes) }
                });
                self.note(copied);
            }
            Request::DownloadSlot { from, slot, bytes } => {
                let copied = self.through_slot(slot, bytes, |worker, place, bytes| {
                    let from = worker.place(from)?;
                    // SAFETY: the slot belongs to this copy until it is settled.
                    unsafe { worker.driver.download_pinned(from, place, bytes) }
                });
                self.note(copied);
            }
            Request::Settle { slot } => {
                let event = self.slots.get(slot as usize).copied().flatten();
                return done(event.map_or(Ok(()), |event| self.driver.wait_for(event)));
            }
            Request::Download { from, bytes } => return Some(self.download(from, bytes)),
            Request::Synchronize => {
                let waited = self.driver.synchronize();
                if waited.is_ok() {
                    self.all_done();
                }
                return done(waited);
            }
            Request::IsIdle => {
                let idle = self.driver.is_idle();
                if idle == Ok(true) {
                    self.all_done();
                }
                return Some(idle.map(|idle| Reply::Number(idle.into())));
            }
            Request::Poke { words, value } => {
                let place = self.place(words.first);
                let poked = place.and_then(|first| self.driver.poke(Words { first, ..words }, value));
                return done(poked);
            }
            Request::Resolve { address } => {
                return Some(self.place(address).map(|place| Reply::Place(place.0)));
            }
            Request::Memory => {
                return Some(self.driver.memory().map(|(free, total)| Reply::Memory { free, total }));
            }
            other => return self.code_and_events(other),
        }
        None
    }

    fn download(&self, from: Address, bytes: u32) -> Answer<Reply> {
        let mut buffer = vec![0; (bytes as usize).min(INLINE)];
        self.driver.download(self.place(from)?, &mut buffer)?;
        self.all_done();
        Ok(Reply::Bytes(buffer))
    }

    /// Copies between the GPU and a slot.
    fn through_slot(&mut self, slot: u32, bytes: u32, copy: impl FnOnce(&Worker, *mut u8, usize) -> Answer) -> Answer {
        let place = self.segment.slot(slot).filter(|_| bytes as usize <= SLOT_BYTES).ok_or_else(|| unknown("slot"))?;
        if !self.slots_pinned {
            // SAFETY: the segment is mapped as long as the worker runs. If pinning fails, copies are slower but correct.
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

    fn code_and_events(&mut self, request: Request<'_>) -> Option<Answer<Reply>> {
        match request {
            Request::Load { module, cubin } => {
                return Some(self.driver.load(&cubin).map(|loaded| {
                    self.modules.insert(module, loaded);
                    Reply::Done
                }));
            }
            Request::Unload { module } => {
                if let Some(module) = self.modules.remove(&module) {
                    self.driver.unload(module);
                }
            }
            Request::Function { function, module, name } => return Some(self.function(function, module, &name)),
            Request::AllowShared { function, bytes } => {
                let function = self.functions.get(&function).copied().ok_or_else(|| unknown("function"));
                let allowed = function.and_then(|function| self.driver.allow_shared(function, bytes));
                return Some(allowed.map(|()| Reply::Done));
            }
            Request::Resident { function, threads, shared } => {
                let function = self.functions.get(&function).copied().ok_or_else(|| unknown("function"));
                let blocks = function.and_then(|function| self.driver.resident_blocks(function, threads, shared));
                return Some(blocks.map(Reply::Number));
            }
            Request::Graph { graph, launches } => {
                let launches: Answer<Vec<Launch>> = launches.iter().map(|l| self.translated_launch(l)).collect();
                // SAFETY: as for launches.
                let made = launches.and_then(|launches| unsafe { self.driver.graph(&launches) });
                return Some(made.map(|made| {
                    self.graphs.insert(graph, made);
                    Reply::Done
                }));
            }
            Request::ForgetGraph { graph } => {
                if let Some(graph) = self.graphs.remove(&graph) {
                    self.driver.forget_graph(graph);
                }
            }
            Request::Event { event } => {
                let made = self.driver.event().map(|made| {
                    self.events.insert(event, made);
                });
                self.note(made);
            }
            Request::Record { event } => {
                let recorded = self.event(event).and_then(|event| self.driver.record(event));
                self.note(recorded);
            }
            Request::IsReached { event } => {
                let reached = self.event(event).and_then(|event| self.driver.is_reached(event));
                return Some(reached.map(|reached| Reply::Number(reached.into())));
            }
            Request::Elapsed { from, to } => {
                let both = self.event(from).and_then(|from| Ok((from, self.event(to)?)));
                return Some(both.and_then(|(from, to)| self.driver.elapsed(from, to)).map(Reply::Milliseconds));
            }
            Request::ForgetEvent { event } => {
                if let Some(event) = self.events.remove(&event) {
                    self.driver.forget_event(event);
                }
            }
            // The keeper's requests.
            _ => return Some(Err(unknown("request"))),
        }
        None
    }

    fn function(&mut self, function: u32, module: u32, name: &str) -> Answer<Reply> {
        let module = *self.modules.get(&module).ok_or_else(|| unknown("module"))?;
        let found = self.driver.function(module, name)?;
        self.functions.insert(function, found);
        Ok(Reply::Number(self.driver.static_shared(found)))
    }
}

/// Calls `gone` when the program is gone, whatever the child is busy with: a call of the driver may never return.
pub fn watch(socket: &UnixStream, gone: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let socket = socket.try_clone()?;
    let wait = move || {
        // With no events requested, only hangup is reported.
        let mut end = libc::pollfd { fd: socket.as_raw_fd(), events: 0, revents: 0 };
        loop {
            // SAFETY: `end` is one entry.
            let ready = unsafe { libc::poll(&raw mut end, 1, -1) };
            if ready > 0 {
                break;
            }
        }
        gone();
    };
    std::thread::Builder::new().name("program's end".into()).spawn(wait).map(drop)
}
