//! The network connections of a rank. Rank 0 is connected to every other rank; the others are connected only to rank 0.
//!
//! Input: a [`RankEnvironment`] and a hash of the program. Output: a [`RankMember`], which is the [`RankCommunicator`]
//! of this rank. A separate thread reads each connection, so that senders never block. It wakes the script when an
//! answer arrives.
//!
//! Rank 0 listens for connections, only on the loopback address if all ranks run on its machine. A client must complete
//! a [handshake](super::handshake) in time. The handshake shows that it is a rank of the same program and version of
//! Clk, and that it knows the job's token. If a client that knows the token runs another program, all ranks end. If the
//! job has no token, such a client may be unrelated and is only rejected.
//!
//! When the ranks end, the script of this rank is stopped as by Ctrl-C. If it does not stop within [`STOP_TIMEOUT`],
//! the process is ended, unless another language has started it ([`LastResort`]).

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::coordinator::{Coordinator, Outgoing};
use super::environment::RankEnvironment;
use super::handshake::{HandshakeResult, HandshakeServer, send_refusal};
use super::join_error::JoinError;
use super::wire::{self, Hello, RankMessage};
use crate::exit;
use clk_base::{alloc, stop, threads};
use clk_host::problem::RuntimeError;
use clk_host::ranks::{Collective, CollectiveCall, RankCommunicator, RanksError};
use clk_host::unwind::UnwindReason;

/// How long a script may take to notice that the ranks have ended.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a script may take to end after it has noticed this.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// Interval at which a waiting thread checks whether it must stop.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Interval at which rank 0 checks its port for new connections.
const ACCEPT_INTERVAL: Duration = Duration::from_millis(2);

/// The program of a rank: a hash of its sources, and how long to wait for the other ranks at the start.
#[derive(Clone, Debug)]
pub(super) struct RankProgram {
    pub hash: String,
    pub patience: Duration,
}

/// What a rank has received from rank 0.
#[derive(Default)]
struct ReceivedMessages {
    answers: HashMap<u64, RankMessage>,
    /// Number of calls between devices for which rank 0 has confirmed that all ranks match. `announced` is the number
    /// of such calls that this rank has sent.
    fits: u64,
    announced: u64,
    all_done: bool,
    ended: Option<RanksError>,
    /// Whether the script has seen the error that reports the end of the ranks.
    noticed: bool,
    /// Actions to perform when the ranks end, in addition to stopping the script.
    stops: Vec<Box<dyn FnOnce() + Send>>,
}

/// The state shared by the threads of a rank.
struct RankState {
    rank: u32,
    heard: Mutex<ReceivedMessages>,
    changed: Condvar,
    running: Mutex<RunningWork>,
    last_resort: LastResort,
}

/// What to do if the script does not stop after the ranks have ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LastResort {
    /// End the process, which runs only the script.
    Exit,
    /// Do nothing. The process belongs to another language, and its next call of Clk returns the error.
    Nothing,
}

/// The stop flags of the runs and calls in progress, by number.
#[derive(Default)]
struct RunningWork {
    next: u64,
    flags: BTreeMap<u64, stop::StopFlag>,
}

/// Registers a run or call, so that it is stopped when the ranks end. Dropping this ends the registration.
pub(crate) struct WorkRegistration {
    shared: Arc<RankState>,
    number: u64,
}

impl Drop for WorkRegistration {
    fn drop(&mut self) {
        self.shared.running().flags.remove(&self.number);
    }
}

impl RankState {
    fn running(&self) -> MutexGuard<'_, RunningWork> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>, flag: stop::StopFlag) -> WorkRegistration {
        let mut running = self.running();
        let number = running.next;
        running.next += 1;
        running.flags.insert(number, flag);
        WorkRegistration { shared: self.clone(), number }
    }

    /// Stops the runs and calls with these numbers, unless they have ended meanwhile.
    fn stop(&self, numbers: &[u64]) {
        let running = self.running();
        numbers
            .iter()
            .filter_map(|number| running.flags.get(number))
            .for_each(|flag| flag.store(true, Ordering::SeqCst));
    }

    fn received(&self) -> MutexGuard<'_, ReceivedMessages> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle_message(self: &Arc<Self>, message: RankMessage) {
        let mut heard = self.received();
        match message {
            RankMessage::Answer { number, .. }
            | RankMessage::Words { number, .. }
            | RankMessage::Unable { number, .. } => {
                heard.answers.insert(number, message);
            }
            RankMessage::Fits { .. } => heard.fits += 1,
            RankMessage::AllDone => heard.all_done = true,
            RankMessage::Differ { one, other, stuck } => {
                let (one, other) = (Box::new(one), Box::new(other));
                let ending = if stuck { RanksError::Deadlock(one, other) } else { RanksError::Differ(one, other) };
                self.end(heard, ending);
                return;
            }
            RankMessage::Over { waits, over } => {
                return self.end(heard, RanksError::Exited { waits: Box::new(waits), over });
            }
            RankMessage::Failed { rank, .. } if rank == self.rank => {}
            RankMessage::Failed { rank, message } => return self.end(heard, RanksError::Failed { rank, message }),
            _ => {
                return self
                    .end(heard, RanksError::Disconnected("rank 0 sends a message that rank 0 does not send".into()));
            }
        }
        drop(heard);
        self.changed.notify_all();
    }

    /// Records that the ranks have ended, and stops the script.
    fn end(self: &Arc<Self>, mut heard: MutexGuard<'_, ReceivedMessages>, ending: RanksError) {
        if heard.ended.is_some() || heard.all_done {
            return;
        }
        heard.ended = Some(ending.clone());
        let stops = std::mem::take(&mut heard.stops);
        drop(heard);
        self.changed.notify_all();
        stops.into_iter().for_each(|stop| stop());
        // Stops only the work in progress. A later call returns the error without starting.
        let numbers: Vec<u64> = self.running().flags.keys().copied().collect();
        let (shared, own) = (self.clone(), numbers.clone());
        let see = move || shared.force_end(&ending, &own);
        if start_thread("clk-ranks-end".into(), see).is_err() {
            self.stop(&numbers);
        }
    }

    fn force_end(&self, ending: &RanksError, numbers: &[u64]) {
        // A script that is waiting for an answer gets the error instead. Only a script that is busy must be stopped by
        // its flag.
        self.wait(Instant::now() + Duration::from_millis(100));
        self.stop(numbers);
        if self.last_resort == LastResort::Nothing {
            return;
        }
        self.wait(Instant::now() + STOP_TIMEOUT);
        if self.received().noticed {
            std::thread::sleep(END_TIMEOUT);
        }
        let text = ending.at(Default::default(), &Default::default()).title;
        eprintln!("error: {text}");
        crate::temp_files::remove_all();
        exit::exit_immediately(exit::OTHER_RANK)
    }

    fn wait(&self, until: Instant) {
        while Instant::now() < until && !self.received().noticed {
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Waits until `found` returns a value; returns an error if the ranks end before that.
    fn wait_until<T>(&self, found: impl Fn(&mut ReceivedMessages) -> Option<T>) -> Result<T, RanksError> {
        let mut heard = self.received();
        loop {
            if let Some(found) = found(&mut heard) {
                return Ok(found);
            }
            if let Some(ending) = heard.ended.clone() {
                heard.noticed = true;
                return Err(ending);
            }
            let waited = self.changed.wait_timeout(heard, POLL_INTERVAL);
            heard = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(heard, _)| heard);
            if heard.ended.is_none() {
                drop(heard);
                stop::poll();
                heard = self.received();
            }
        }
    }
}

/// The additional state of the process that is rank 0.
struct RankZero {
    hub: Mutex<Coordinator>,
    /// The connection to each rank, by rank; `None` for rank 0 itself.
    streams: Vec<Option<Mutex<TcpStream>>>,
    /// Number of threads that are reading connections.
    readers: AtomicU32,
    shared: Arc<RankState>,
}

impl RankZero {
    fn hub(&self) -> MutexGuard<'_, Coordinator> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn handle_message(&self, from: u32, message: RankMessage) {
        let out = self.hub().handle_message(from, message);
        self.send_all(out);
    }

    /// Sends messages to ranks. Handles the message to rank 0 itself last, because it may end this process.
    fn send_all(&self, mut out: Vec<Outgoing>) {
        out.sort_by_key(|(rank, _)| *rank == 0);
        for (rank, message) in out {
            match self.streams.get(rank as usize) {
                Some(Some(stream)) => {
                    let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                    // If the connection is closed, the thread that reads it notices.
                    let _ = wire::write(&mut *stream, &message);
                }
                _ => self.shared.handle_message(message),
            }
        }
    }

    fn read(&self, rank: u32, mut stream: TcpStream) {
        let reason = loop {
            match wire::read(&mut stream, wire::ANY_VALUE) {
                Ok(Some(message)) => self.handle_message(rank, message),
                Ok(None) => break "its process is gone".to_string(),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    break format!("its message is invalid ({error})");
                }
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    return self.collapse(&format!("it has no memory for what rank {rank} sends"));
                }
                Err(_) => break "its process is gone".to_string(),
            }
        };
        let out = self.hub().connection_lost(rank, &reason);
        self.send_all(out);
    }

    /// Ends all ranks, because a thread of rank 0 has failed and cannot serve them.
    fn collapse(&self, why: &str) {
        let out = self.hub().collapse(why);
        self.send_all(out);
        self.shared.end(
            self.shared.received(),
            RanksError::Disconnected(format!("rank 0 cannot serve the other ranks: {why}")),
        );
    }
}

enum RankSide {
    Center(Arc<RankZero>),
    Client(Mutex<TcpStream>),
}

/// The membership of this process in the communicator: its rank, and its connections.
pub(crate) struct RankMember {
    ranks: u32,
    shared: Arc<RankState>,
    side: RankSide,
    number: Mutex<u64>,
}

impl RankMember {
    fn next(&self) -> u64 {
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        *number
    }

    fn send(&self, message: RankMessage) -> Result<(), RanksError> {
        match &self.side {
            RankSide::Center(center) => {
                center.handle_message(0, message);
                Ok(())
            }
            RankSide::Client(stream) => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                wire::write(&mut *stream, &message).or_else(|error| self.write_failed(&error))
            }
        }
    }

    /// Returns the error for a failed write. If rank 0 has sent the reason why it closed the connection, returns that
    /// reason.
    fn write_failed(&self, error: &io::Error) -> Result<(), RanksError> {
        let deadline = Instant::now() + STOP_TIMEOUT;
        let said = self.shared.wait_until(|_| (Instant::now() > deadline).then_some(()));
        said.and_then(|()| Err(RanksError::Disconnected(format!("rank 0 cannot be reached any more: {error}"))))
    }

    /// Registers a stop flag, which is set when the ranks end.
    pub fn begin(&self, flag: stop::StopFlag) -> WorkRegistration {
        self.shared.begin(flag)
    }

    /// Sends the reason why this rank has failed, which the other ranks report.
    pub fn fail(&self, message: &str) {
        self.shared.received().noticed = true;
        let short: String = message.chars().take(4000).collect();
        let _ = self.send(RankMessage::Failed { rank: self.shared.rank, message: short });
        self.leave();
    }

    /// Tells rank 0 that the script of this rank has finished. Rank 0 itself waits for the other ranks, because they
    /// depend on it.
    pub fn finish(&self) -> Result<(), RanksError> {
        self.settle()?;
        self.send(RankMessage::Done)?;
        match &self.side {
            RankSide::Center(_) => self.shared.wait_until(|heard| heard.all_done.then_some(())),
            RankSide::Client(_) => {
                self.shared.received().all_done = true;
                Ok(())
            }
        }
    }

    /// Sends all buffered data and closes the connections, so that no message is lost when the process ends.
    pub fn leave(&self) {
        self.shared.received().noticed = true;
        match &self.side {
            RankSide::Client(stream) => {
                let _ = stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Write);
            }
            RankSide::Center(center) => {
                for stream in center.streams.iter().flatten() {
                    let _ = stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Write);
                }
                let deadline = Instant::now() + STOP_TIMEOUT;
                while center.readers.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
}

impl RankCommunicator for RankMember {
    fn rank(&self) -> u32 {
        self.shared.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn call(&self, call: &CollectiveCall, bytes: &[u8]) -> Result<Vec<u8>, RanksError> {
        if let Some(ending) = self.ended() {
            self.shared.received().noticed = true;
            return Err(ending);
        }
        let number = self.next();
        if call.by_device {
            self.shared.received().announced += 1;
        }
        match &self.side {
            RankSide::Center(center) => {
                let value = alloc::copy(bytes);
                center.handle_message(0, RankMessage::Call { number, call: call.clone(), value });
            }
            RankSide::Client(stream) => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(error) = wire::write_call(&mut *stream, number, call, bytes) {
                    drop(stream);
                    self.write_failed(&error)?;
                }
            }
        }
        if call.by_device || matches!(call.op, Collective::Send { .. }) {
            return Ok(vec![]);
        }
        match self.shared.wait_until(|heard| heard.answers.remove(&number))? {
            RankMessage::Answer { value, .. } => Ok(value),
            RankMessage::Unable { code, title, notes, .. } => {
                let code = ["E0612", "E0509"].into_iter().find(|known| code == *known).unwrap_or("E0554");
                Err(RanksError::Refused(Box::new(RuntimeError { notes, ..RuntimeError::new(code, title) })))
            }
            _ => Err(RanksError::Disconnected("rank 0 gives no answer to a call".into())),
        }
    }

    fn agree(&self, call: &CollectiveCall, word: &str) -> Result<Vec<String>, RanksError> {
        let number = self.next();
        self.send(RankMessage::Word { number, call: call.clone(), word: word.to_string() })?;
        match self.shared.wait_until(|heard| heard.answers.remove(&number))? {
            RankMessage::Words { words, .. } => Ok(words),
            _ => Err(RanksError::Disconnected("rank 0 gives no answer to a word".into())),
        }
    }

    fn settle(&self) -> Result<(), RanksError> {
        self.shared.wait_until(|heard| (heard.fits >= heard.announced).then_some(()))
    }

    fn at_end(&self, stop: Box<dyn FnOnce() + Send>) {
        self.shared.received().stops.push(stop);
    }

    fn tell(&self, note: &str) {
        if self.shared.rank == 0 {
            eprintln!("note: {}", clk_base::escape::lines(note));
        }
    }

    fn ended(&self) -> Option<RanksError> {
        self.shared.received().ended.clone()
    }
}

fn hello(place: &RankEnvironment, program: &RankProgram) -> Hello {
    Hello {
        protocol: wire::PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_string(),
        program: program.hash.clone(),
        token: place.token.clone(),
        rank: place.rank,
        ranks: place.ranks,
    }
}

/// Connects to the other ranks, and waits until all are connected.
pub(super) fn join(
    place: &RankEnvironment,
    program: &RankProgram,
    listener: Option<TcpListener>,
    stop: &stop::StopFlag,
    last_resort: LastResort,
) -> Result<Arc<RankMember>, JoinError> {
    let shared = Arc::new(RankState {
        rank: place.rank,
        heard: Mutex::default(),
        changed: Condvar::new(),
        running: Mutex::default(),
        last_resort,
    });
    let side = match place.rank {
        0 => RankSide::Center(accept_ranks(place, program, listener, &shared, stop)?),
        _ => RankSide::Client(Mutex::new(connect(place, program, &shared, stop)?)),
    };
    Ok(Arc::new(RankMember { ranks: place.ranks, shared, side, number: Mutex::default() }))
}

/// Returns the address on which rank 0 listens. It is an IPv6 address only if the host name has no IPv4 address.
fn own_address(place: &RankEnvironment) -> IpAddr {
    let addresses = (place.host.as_str(), place.port).to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    let is_six = !addresses.is_empty() && addresses.iter().all(SocketAddr::is_ipv6);
    match (place.is_local(), is_six) {
        (true, false) => Ipv4Addr::LOCALHOST.into(),
        (false, false) => Ipv4Addr::UNSPECIFIED.into(),
        (true, true) => Ipv6Addr::LOCALHOST.into(),
        (false, true) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn listen(place: &RankEnvironment) -> Result<TcpListener, JoinError> {
    TcpListener::bind((own_address(place), place.port))
        .map_err(|error| JoinError::PortInUse { port: place.port, error })
}

/// Returns the time at which a wait ends; `None` if that is too far in the future to be represented.
fn deadline(patience: Duration) -> Option<Instant> {
    Instant::now().checked_add(patience)
}

fn is_past(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() > until)
}

/// Accepts connections until all other ranks are connected.
fn accept_ranks(
    place: &RankEnvironment,
    program: &RankProgram,
    listener: Option<TcpListener>,
    shared: &Arc<RankState>,
    stop: &stop::StopFlag,
) -> Result<Arc<RankZero>, JoinError> {
    let listener = listener.map_or_else(|| listen(place), Ok)?;
    listener.set_nonblocking(true).map_err(JoinError::Listen)?;
    let mut greeter = HandshakeServer::new(hello(place, program));
    let mut streams: Vec<Option<TcpStream>> = (0..place.ranks).map(|_| None).collect();
    let mut left = place.ranks as usize - 1;
    let mut refused: Option<String> = None;
    let end = deadline(program.patience);
    while left > 0 {
        // At the limit, further connections stay in the listener's queue. They are not refused, because they may be
        // ranks.
        while greeter.has_room() {
            match listener.accept() {
                Ok((stream, _)) => greeter.admit(stream),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => break,
                Err(_) => {
                    // The most frequent cause is that the process has no free file descriptors.
                    greeter.make_room();
                    break;
                }
            }
        }
        let greeted = greeter.poll();
        if greeted.is_empty() {
            std::thread::sleep(ACCEPT_INTERVAL);
        }
        for greeted in greeted {
            match greeted {
                HandshakeResult::Misfit(why) if greeter.has_token() => return Err(JoinError::Misfit(why)),
                // The job has no token, so the client may be unrelated. It does not end the ranks.
                HandshakeResult::Misfit(why) => refused = refused.or(Some(why)),
                HandshakeResult::Rank(rank, stream) => match streams.get_mut(rank as usize) {
                    Some(slot @ None) => {
                        *slot = Some(stream);
                        left -= 1;
                    }
                    _ => send_refusal(stream, &format!("there is a rank {rank} already")),
                },
            }
        }
        stop::poll();
        if stop.load(Ordering::SeqCst) {
            return Err(JoinError::Interrupted);
        }
        if is_past(end) {
            let missing = streams.iter().enumerate().skip(1).filter(|(_, stream)| stream.is_none());
            let ranks = missing.map(|(rank, _)| rank).collect();
            return Err(JoinError::MissingRanks { seconds: program.patience.as_secs(), ranks, refused });
        }
    }
    let readers: Vec<Option<TcpStream>> = streams
        .iter()
        .map(|stream| stream.as_ref().map(TcpStream::try_clone).transpose())
        .collect::<io::Result<_>>()
        .map_err(JoinError::Listen)?;
    let center = Arc::new(RankZero {
        hub: Mutex::new(Coordinator::new(place.ranks)),
        streams: streams.into_iter().map(|stream| stream.map(Mutex::new)).collect(),
        readers: AtomicU32::new(place.ranks - 1),
        shared: shared.clone(),
    });
    for (rank, stream) in readers.into_iter().enumerate() {
        let Some(stream) = stream else { continue };
        let center = center.clone();
        let read = move || {
            run_reporting(|| center.read(rank as u32, stream), |why| center.collapse(&why));
            center.readers.fetch_sub(1, Ordering::SeqCst);
        };
        start_thread(format!("clk-rank-{rank}"), read).map_err(JoinError::Listen)?;
    }
    // Tells all ranks that every rank is connected. None continues before that.
    for stream in center.streams.iter().flatten() {
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = wire::write(&mut *stream, &RankMessage::Welcome);
    }
    Ok(center)
}

fn start_thread(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    threads::with_signals_blocked(|| std::thread::Builder::new().name(name).spawn(work)).map(drop)
}

/// Runs the work of a thread. If the work unwinds, calls `tell` with the reason, because the other ranks would
/// otherwise wait forever.
fn run_reporting(work: impl FnOnce(), tell: impl FnOnce(String)) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(work)) else { return };
    tell(match UnwindReason::from_payload(payload) {
        Ok(why) => why.anywhere().title,
        // The panic hook has already reported the panic itself.
        Err(_) => "an internal error of Clk".into(),
    });
}

/// Connects to rank 0, and waits until all ranks are connected.
fn connect(
    place: &RankEnvironment,
    program: &RankProgram,
    shared: &Arc<RankState>,
    stop: &stop::StopFlag,
) -> Result<TcpStream, JoinError> {
    let end = deadline(program.patience);
    let address = || format!("{}:{}", place.host, place.port);
    let given_up =
        |reason: String| JoinError::Unreachable { address: address(), seconds: program.patience.as_secs(), reason };
    let stopped = || {
        stop::poll();
        stop.load(Ordering::SeqCst)
    };
    let mut stream = loop {
        match connect_once(place) {
            Ok(stream) => break stream,
            Err(error) if is_past(end) => return Err(given_up(error.to_string())),
            Err(_) => std::thread::sleep(POLL_INTERVAL),
        }
        if stopped() {
            return Err(JoinError::Interrupted);
        }
    };
    let failed = JoinError::Connection;
    stream.set_nodelay(true).map_err(failed)?;
    wire::write(&mut stream, &RankMessage::Hello(hello(place, program))).map_err(failed)?;
    let mut reader = stream.try_clone().map_err(failed)?;
    let (tell, told) = std::sync::mpsc::channel();
    let theirs = shared.clone();
    let read = move || {
        let _ = tell.send(wire::read(&mut reader, wire::NO_VALUE));
        let broken = |why: String| {
            theirs.end(theirs.received(), RanksError::Disconnected(format!("rank 0 is not heard any more: {why}")))
        };
        run_reporting(|| read_messages(&mut reader, &theirs), broken);
    };
    start_thread("clk-rank-0".into(), read).map_err(failed)?;
    loop {
        match told.recv_timeout(POLL_INTERVAL) {
            Ok(Ok(Some(RankMessage::Welcome))) => return Ok(stream),
            Ok(Ok(Some(RankMessage::Refused { why }))) => return Err(JoinError::Refused(why)),
            Ok(Ok(None)) => return Err(JoinError::Gone),
            Ok(Ok(Some(_))) => return Err(JoinError::NotRankZero(address())),
            Ok(Err(error)) => return Err(failed(error)),
            Err(_) if is_past(end) => return Err(given_up("not all ranks are there".into())),
            Err(_) if stopped() => return Err(JoinError::Interrupted),
            Err(_) => {}
        }
    }
}

fn connect_once(place: &RankEnvironment) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (place.host.as_str(), place.port).to_socket_addrs()?.collect::<Vec<SocketAddr>>() {
        match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Handles the messages from rank 0 until the connection ends.
fn read_messages(stream: &mut TcpStream, shared: &Arc<RankState>) {
    loop {
        let why = match wire::read(stream, wire::ANY_VALUE) {
            Ok(Some(message)) => {
                shared.handle_message(message);
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return shared.end(
                    shared.received(),
                    RanksError::Disconnected(format!("what rank 0 sends makes no sense: {error}")),
                );
            }
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                let why = format!("rank {} has no memory for what rank 0 sends", shared.rank);
                return shared.end(shared.received(), RanksError::Disconnected(why));
            }
            Ok(None) | Err(_) => "its process is gone".to_string(),
        };
        return shared.end(shared.received(), RanksError::Failed { rank: 0, message: why });
    }
}
