//! The connections of a rank: to rank 0, or, of rank 0, from all others.
//!
//! Input: a [`Place`], and what the program is. Output: a [`Member`], the [`Group`] of this rank. Each connection has a thread that
//! reads, so that nobody waits for a reader; the answers that it finds wake the script that waits for them.
//!
//! Rank 0 listens, on the loopback address if all ranks are on its machine. Who connects has a moment to say who it is: a rank of this
//! program and this version of Clk that knows the token ([`greet`](super::greet)). Others are sent away. A rank of another program that
//! knows the token ends all ranks; without a token, that could be anybody.
//!
//! When the ranks have ended, the script is asked to stop as by Ctrl-C. If it does not stop within [`PATIENCE`], the process is ended. A
//! process of another language goes on ([`LastResort`]).

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::environment::{self, Place};
use super::greet::{Greeted, Greeter, refuse};
use super::hub::{Hub, Outgoing};
use super::wire::{self, Hello, Message};
use crate::app::exit;
use crate::base::{room, stop, threads};
use crate::host::problem::Problem;
use crate::host::ranks::{Call, Deed, Ending, Group};
use crate::host::unwind::Unwound;

/// How long a script may take to notice that the ranks have ended.
const PATIENCE: Duration = Duration::from_secs(2);
/// How long it may take to end once it has noticed.
const LAST: Duration = Duration::from_secs(10);
/// How often a thread that waits looks whether the script is to stop.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two looks at the port.
const PAUSE: Duration = Duration::from_millis(2);

/// What the program is, and how long ranks wait for each other at the start.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub hash: String,
    pub patience: Duration,
}

/// What a rank has heard.
#[derive(Default)]
struct Heard {
    answers: HashMap<u64, Message>,
    /// Calls by devices that fit, and those that were made.
    fits: u64,
    announced: u64,
    all_done: bool,
    ended: Option<Ending>,
    /// Whether the script knows that the ranks have ended.
    noticed: bool,
    /// What else has to be stopped then.
    stops: Vec<Box<dyn FnOnce() + Send>>,
}

/// What the threads of a rank share.
struct Shared {
    rank: u32,
    heard: Mutex<Heard>,
    changed: Condvar,
    running: Mutex<Running>,
    last_resort: LastResort,
}

/// What happens to work that does not stop after the ranks have ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LastResort {
    /// The process is ended: it has nothing but the script to run.
    Exit,
    /// Nothing: the process belongs to another language, whose code gets an error from its next call.
    Nothing,
}

/// The stop flags of the work that is under way, by number.
#[derive(Default)]
struct Running {
    next: u64,
    flags: BTreeMap<u64, stop::Flag>,
}

/// Work that the end of the ranks stops, until this is dropped.
pub(crate) struct Stoppable {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Stoppable {
    fn drop(&mut self) {
        self.shared.running().flags.remove(&self.number);
    }
}

impl Shared {
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>, flag: stop::Flag) -> Stoppable {
        let mut running = self.running();
        let number = running.next;
        running.next += 1;
        running.flags.insert(number, flag);
        Stoppable { shared: self.clone(), number }
    }

    /// Stops the work with these numbers, unless it has ended meanwhile.
    fn stop(&self, numbers: &[u64]) {
        let running = self.running();
        numbers
            .iter()
            .filter_map(|number| running.flags.get(number))
            .for_each(|flag| flag.store(true, Ordering::SeqCst));
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(self: &Arc<Self>, message: Message) {
        let mut heard = self.heard();
        match message {
            Message::Answer { number, .. } | Message::Words { number, .. } | Message::Unable { number, .. } => {
                heard.answers.insert(number, message);
            }
            Message::Fits { .. } => heard.fits += 1,
            Message::AllDone => heard.all_done = true,
            Message::Differ { one, other, stuck } => {
                let (one, other) = (Box::new(one), Box::new(other));
                let ending = if stuck { Ending::Stuck(one, other) } else { Ending::Differ(one, other) };
                self.end(heard, ending);
                return;
            }
            Message::Over { waits, over } => return self.end(heard, Ending::Over { waits: Box::new(waits), over }),
            Message::Failed { rank, .. } if rank == self.rank => {}
            Message::Failed { rank, message } => return self.end(heard, Ending::Failed { rank, message }),
            _ => return self.end(heard, Ending::Broken("rank 0 sends what it does not send".into())),
        }
        drop(heard);
        self.changed.notify_all();
    }

    /// Takes note that the ranks have ended, and has the script stop.
    fn end(self: &Arc<Self>, mut heard: MutexGuard<'_, Heard>, ending: Ending) {
        if heard.ended.is_some() || heard.all_done {
            return;
        }
        heard.ended = Some(ending.clone());
        let stops = std::mem::take(&mut heard.stops);
        drop(heard);
        self.changed.notify_all();
        stops.into_iter().for_each(|stop| stop());
        // Work that begins later gets the ending from its first call.
        let numbers: Vec<u64> = self.running().flags.keys().copied().collect();
        let (shared, own) = (self.clone(), numbers.clone());
        let see = move || shared.see_to_the_end(&ending, &own);
        if start("clk-ranks-end".into(), see).is_err() {
            self.stop(&numbers);
        }
    }

    fn see_to_the_end(&self, ending: &Ending, numbers: &[u64]) {
        // Whoever waits for an answer gets the ending instead; others are stopped.
        self.wait(Instant::now() + Duration::from_millis(100));
        self.stop(numbers);
        if self.last_resort == LastResort::Nothing {
            return;
        }
        self.wait(Instant::now() + PATIENCE);
        if self.heard().noticed {
            std::thread::sleep(LAST);
        }
        let text = ending.at(Default::default(), &Default::default()).title;
        eprintln!("error: {text}");
        crate::app::leftovers::remove();
        exit::end(exit::OTHER_RANK)
    }

    fn wait(&self, until: Instant) {
        while Instant::now() < until && !self.heard().noticed {
            std::thread::sleep(LOOK);
        }
    }

    /// Waits until `found` finds something, or the ranks have ended.
    fn until<T>(&self, found: impl Fn(&mut Heard) -> Option<T>) -> Result<T, Ending> {
        let mut heard = self.heard();
        loop {
            if let Some(found) = found(&mut heard) {
                return Ok(found);
            }
            if let Some(ending) = heard.ended.clone() {
                heard.noticed = true;
                return Err(ending);
            }
            let waited = self.changed.wait_timeout(heard, LOOK);
            heard = waited.map_or_else(|poisoned| poisoned.into_inner().0, |(heard, _)| heard);
            if heard.ended.is_none() {
                drop(heard);
                stop::poll();
                heard = self.heard();
            }
        }
    }
}

/// What rank 0 has more than the others.
struct Center {
    hub: Mutex<Hub>,
    /// By rank; none of rank 0.
    streams: Vec<Option<Mutex<TcpStream>>>,
    /// Threads that read.
    readers: AtomicU32,
    shared: Arc<Shared>,
}

impl Center {
    fn hub(&self) -> MutexGuard<'_, Hub> {
        self.hub.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, from: u32, message: Message) {
        let out = self.hub().take(from, message);
        self.give(out);
    }

    /// Passes messages on: the own one last, since it may be what this process ends with.
    fn give(&self, mut out: Vec<Outgoing>) {
        out.sort_by_key(|(rank, _)| *rank == 0);
        for (rank, message) in out {
            match self.streams.get(rank as usize) {
                Some(Some(stream)) => {
                    let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                    // One that is gone is noticed by who reads from it.
                    let _ = wire::write(&mut *stream, &message);
                }
                _ => self.shared.hear(message),
            }
        }
    }

    fn read(&self, rank: u32, mut stream: TcpStream) {
        let how = loop {
            match wire::read(&mut stream, wire::ANY_VALUE) {
                Ok(Some(message)) => self.take(rank, message),
                Ok(None) => break "its process is gone".to_string(),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    break format!("what it sends makes no sense ({error})");
                }
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    return self.collapse(&format!("it has no memory for what rank {rank} sends"));
                }
                Err(_) => break "its process is gone".to_string(),
            }
        };
        let out = self.hub().lost(rank, &how);
        self.give(out);
    }

    /// Ends all ranks because a thread of rank 0 has failed.
    fn collapse(&self, why: &str) {
        let out = self.hub().collapse(why);
        self.give(out);
        self.shared.end(self.shared.heard(), Ending::Broken(format!("rank 0 cannot serve the other ranks: {why}")));
    }
}

enum Side {
    Center(Arc<Center>),
    Client(Mutex<TcpStream>),
}

/// This rank among the others.
pub(crate) struct Member {
    ranks: u32,
    shared: Arc<Shared>,
    side: Side,
    number: Mutex<u64>,
}

impl Member {
    fn next(&self) -> u64 {
        let mut number = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        *number
    }

    fn send(&self, message: Message) -> Result<(), Ending> {
        match &self.side {
            Side::Center(center) => {
                center.take(0, message);
                Ok(())
            }
            Side::Client(stream) => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                wire::write(&mut *stream, &message).or_else(|error| self.broken(&error))
            }
        }
    }

    /// A write that fails: the reader learns why, if rank 0 has said so.
    fn broken(&self, error: &io::Error) -> Result<(), Ending> {
        let deadline = Instant::now() + PATIENCE;
        let said = self.shared.until(|_| (Instant::now() > deadline).then_some(()));
        said.and_then(|()| Err(Ending::Broken(format!("rank 0 cannot be reached any more: {error}"))))
    }

    /// Has the end of the ranks stop work, by this flag.
    pub fn begin(&self, flag: stop::Flag) -> Stoppable {
        self.shared.begin(flag)
    }

    /// Says why this rank fails, so that the others can say it.
    pub fn fail(&self, message: &str) {
        self.shared.heard().noticed = true;
        let short: String = message.chars().take(4000).collect();
        let _ = self.send(Message::Failed { rank: self.shared.rank, message: short });
        self.leave();
    }

    /// Says that the script is over. Rank 0 waits for the others, which need it.
    pub fn finish(&self) -> Result<(), Ending> {
        self.settle()?;
        self.send(Message::Done)?;
        match &self.side {
            Side::Center(_) => self.shared.until(|heard| heard.all_done.then_some(())),
            Side::Client(_) => {
                self.shared.heard().all_done = true;
                Ok(())
            }
        }
    }

    /// Sees to it that what was said arrives before the process ends.
    pub fn leave(&self) {
        self.shared.heard().noticed = true;
        match &self.side {
            Side::Client(stream) => {
                let _ = stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Write);
            }
            Side::Center(center) => {
                for stream in center.streams.iter().flatten() {
                    let _ = stream.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Write);
                }
                let until = Instant::now() + PATIENCE;
                while center.readers.load(Ordering::SeqCst) > 0 && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
}

impl Group for Member {
    fn rank(&self) -> u32 {
        self.shared.rank
    }

    fn ranks(&self) -> u32 {
        self.ranks
    }

    fn call(&self, call: &Call, bytes: &[u8]) -> Result<Vec<u8>, Ending> {
        if let Some(ending) = self.ended() {
            self.shared.heard().noticed = true;
            return Err(ending);
        }
        let number = self.next();
        if call.by_device {
            self.shared.heard().announced += 1;
        }
        match &self.side {
            Side::Center(center) => {
                let value = room::copy(bytes);
                center.take(0, Message::Call { number, call: call.clone(), value });
            }
            Side::Client(stream) => {
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                if let Err(error) = wire::write_call(&mut *stream, number, call, bytes) {
                    drop(stream);
                    self.broken(&error)?;
                }
            }
        }
        if call.by_device || matches!(call.deed, Deed::Send { .. }) {
            return Ok(vec![]);
        }
        match self.shared.until(|heard| heard.answers.remove(&number))? {
            Message::Answer { value, .. } => Ok(value),
            Message::Unable { code, title, notes, .. } => {
                let code = ["E0612", "E0509"].into_iter().find(|known| code == *known).unwrap_or("E0554");
                Err(Ending::Refused(Box::new(Problem { notes, ..Problem::new(code, title) })))
            }
            _ => Err(Ending::Broken("rank 0 gives no answer to a call".into())),
        }
    }

    fn agree(&self, call: &Call, word: &str) -> Result<Vec<String>, Ending> {
        let number = self.next();
        self.send(Message::Word { number, call: call.clone(), word: word.to_string() })?;
        match self.shared.until(|heard| heard.answers.remove(&number))? {
            Message::Words { words, .. } => Ok(words),
            _ => Err(Ending::Broken("rank 0 gives no answer to a word".into())),
        }
    }

    fn settle(&self) -> Result<(), Ending> {
        self.shared.until(|heard| (heard.fits >= heard.announced).then_some(()))
    }

    fn at_end(&self, stop: Box<dyn FnOnce() + Send>) {
        self.shared.heard().stops.push(stop);
    }

    fn tell(&self, note: &str) {
        if self.shared.rank == 0 {
            eprintln!("note: {}", crate::base::escape::lines(note));
        }
    }

    fn ended(&self) -> Option<Ending> {
        self.shared.heard().ended.clone()
    }
}

fn hello(place: &Place, program: &Program) -> Hello {
    Hello {
        protocol: wire::PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_string(),
        program: program.hash.clone(),
        token: place.token.clone(),
        rank: place.rank,
        ranks: place.ranks,
    }
}

/// Joins the other ranks; waits for them.
pub(super) fn join(
    place: &Place,
    program: &Program,
    listener: Option<TcpListener>,
    stop: &stop::Flag,
    last_resort: LastResort,
) -> Result<Arc<Member>, String> {
    let shared = Arc::new(Shared {
        rank: place.rank,
        heard: Mutex::default(),
        changed: Condvar::new(),
        running: Mutex::default(),
        last_resort,
    });
    let side = match place.rank {
        0 => Side::Center(gather(place, program, listener, &shared, stop)?),
        _ => Side::Client(Mutex::new(connect(place, program, &shared, stop)?)),
    };
    Ok(Arc::new(Member { ranks: place.ranks, shared, side, number: Mutex::default() }))
}

/// Where rank 0 listens: of the family of the addresses that its name has, IPv4 if it has both or cannot be looked up.
fn own_address(place: &Place) -> IpAddr {
    let named = (place.host.as_str(), place.port).to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    let is_six = !named.is_empty() && named.iter().all(SocketAddr::is_ipv6);
    match (place.is_local(), is_six) {
        (true, false) => Ipv4Addr::LOCALHOST.into(),
        (false, false) => Ipv4Addr::UNSPECIFIED.into(),
        (true, true) => Ipv6Addr::LOCALHOST.into(),
        (false, true) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn listen(place: &Place) -> Result<TcpListener, String> {
    TcpListener::bind((own_address(place), place.port)).map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::AddrInUse => "another program uses it".to_string(),
            _ => error.to_string(),
        };
        format!(
            "rank 0 cannot listen on port {}: {why}; {} names another, for all ranks",
            place.port,
            environment::PORT
        )
    })
}

/// Returns the end of a wait; `None` if it is later than clocks can say.
fn deadline(patience: Duration) -> Option<Instant> {
    Instant::now().checked_add(patience)
}

fn is_past(until: Option<Instant>) -> bool {
    until.is_some_and(|until| Instant::now() > until)
}

/// Waits for all other ranks.
fn gather(
    place: &Place,
    program: &Program,
    listener: Option<TcpListener>,
    shared: &Arc<Shared>,
    stop: &stop::Flag,
) -> Result<Arc<Center>, String> {
    let listener = listener.map_or_else(|| listen(place), Ok)?;
    let failed = |error: io::Error| format!("rank 0 cannot listen: {error}");
    listener.set_nonblocking(true).map_err(failed)?;
    let mut greeter = Greeter::new(hello(place, program));
    let mut streams: Vec<Option<TcpStream>> = (0..place.ranks).map(|_| None).collect();
    let mut left = place.ranks as usize - 1;
    let mut refused: Option<String> = None;
    let until = deadline(program.patience);
    while left > 0 {
        // Those beyond wait at the port until there is room: they may be ranks.
        while greeter.has_room() {
            match listener.accept() {
                Ok((stream, _)) => greeter.admit(stream),
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => break,
                Err(_) => {
                    // The most frequent reason is that there are no more descriptors.
                    greeter.make_room();
                    break;
                }
            }
        }
        let greeted = greeter.hear();
        if greeted.is_empty() {
            std::thread::sleep(PAUSE);
        }
        for greeted in greeted {
            match greeted {
                Greeted::Misfit(why) if greeter.has_token() => return Err(why),
                // Without a token, anybody can have sent it.
                Greeted::Misfit(why) => refused = refused.or(Some(why)),
                Greeted::Rank(rank, stream) => match streams.get_mut(rank as usize) {
                    Some(slot @ None) => {
                        *slot = Some(stream);
                        left -= 1;
                    }
                    _ => refuse(stream, &format!("there is a rank {rank} already")),
                },
            }
        }
        stop::poll();
        if stop.load(Ordering::SeqCst) {
            return Err("interrupted".into());
        }
        if is_past(until) {
            let missing = streams.iter().enumerate().skip(1).filter(|(_, stream)| stream.is_none());
            let missing: Vec<String> = missing.map(|(rank, _)| rank.to_string()).collect();
            let seconds = program.patience.as_secs();
            let refused = refused.map_or(String::new(), |why| format!("; a connection was refused: {why}"));
            return Err(format!(
                "after {seconds} s there is still no rank {}{refused}; {} says how long to wait",
                missing.join(", "),
                environment::WAIT
            ));
        }
    }
    let readers: Vec<Option<TcpStream>> = streams
        .iter()
        .map(|stream| stream.as_ref().map(TcpStream::try_clone).transpose())
        .collect::<io::Result<_>>()
        .map_err(failed)?;
    let center = Arc::new(Center {
        hub: Mutex::new(Hub::new(place.ranks)),
        streams: streams.into_iter().map(|stream| stream.map(Mutex::new)).collect(),
        readers: AtomicU32::new(place.ranks - 1),
        shared: shared.clone(),
    });
    for (rank, stream) in readers.into_iter().enumerate() {
        let Some(stream) = stream else { continue };
        let center = center.clone();
        let read = move || {
            reporting(|| center.read(rank as u32, stream), |why| center.collapse(&why));
            center.readers.fetch_sub(1, Ordering::SeqCst);
        };
        start(format!("clk-rank-{rank}"), read).map_err(failed)?;
    }
    // No rank goes on before all are here.
    for stream in center.streams.iter().flatten() {
        let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = wire::write(&mut *stream, &Message::Welcome);
    }
    Ok(center)
}

fn start(name: String, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    threads::deaf(|| std::thread::Builder::new().name(name).spawn(work)).map(drop)
}

/// Does the work of a thread; if that unwinds, `tell` gets the reason. A thread that ended silently would leave the other ranks waiting.
fn reporting(work: impl FnOnce(), tell: impl FnOnce(String)) {
    let Err(payload) = catch_unwind(AssertUnwindSafe(work)) else { return };
    tell(match Unwound::of(payload) {
        Ok(why) => why.anywhere().title,
        // The panic itself was reported where it happened.
        Err(_) => "an internal error of Clk".into(),
    });
}

/// Connects to rank 0 and waits until all ranks are there.
fn connect(place: &Place, program: &Program, shared: &Arc<Shared>, stop: &stop::Flag) -> Result<TcpStream, String> {
    let until = deadline(program.patience);
    let given_up = |why: String| {
        let seconds = program.patience.as_secs();
        format!(
            "rank 0 is not reached at {}:{} within {seconds} s: {why}; {} says how long to wait",
            place.host,
            place.port,
            environment::WAIT
        )
    };
    let stopped = || {
        stop::poll();
        stop.load(Ordering::SeqCst)
    };
    let mut stream = loop {
        match dial(place) {
            Ok(stream) => break stream,
            Err(error) if is_past(until) => return Err(given_up(error.to_string())),
            Err(_) => std::thread::sleep(LOOK),
        }
        if stopped() {
            return Err("interrupted".into());
        }
    };
    let failed = |error: io::Error| format!("the connection to rank 0 is broken: {error}");
    stream.set_nodelay(true).map_err(failed)?;
    wire::write(&mut stream, &Message::Hello(hello(place, program))).map_err(failed)?;
    let mut reader = stream.try_clone().map_err(failed)?;
    let (tell, told) = std::sync::mpsc::channel();
    let theirs = shared.clone();
    let read = move || {
        let _ = tell.send(wire::read(&mut reader, wire::NO_VALUE));
        let broken =
            |why: String| theirs.end(theirs.heard(), Ending::Broken(format!("rank 0 is not heard any more: {why}")));
        reporting(|| listen_to(&mut reader, &theirs), broken);
    };
    start("clk-rank-0".into(), read).map_err(failed)?;
    loop {
        match told.recv_timeout(LOOK) {
            Ok(Ok(Some(Message::Welcome))) => return Ok(stream),
            Ok(Ok(Some(Message::Refused { why }))) => return Err(format!("rank 0 refuses this one: {why}")),
            Ok(Ok(None)) => return Err("rank 0 is gone before all ranks were there".into()),
            Ok(Ok(Some(_))) => return Err(format!("what listens at {}:{} is not rank 0", place.host, place.port)),
            Ok(Err(error)) => return Err(failed(error)),
            Err(_) if is_past(until) => return Err(given_up("not all ranks are there".into())),
            Err(_) if stopped() => return Err("interrupted".into()),
            Err(_) => {}
        }
    }
}

fn dial(place: &Place) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (place.host.as_str(), place.port).to_socket_addrs()?.collect::<Vec<SocketAddr>>() {
        match TcpStream::connect_timeout(&address, Duration::from_secs(2)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Hears rank 0 until the connection ends.
fn listen_to(stream: &mut TcpStream, shared: &Arc<Shared>) {
    loop {
        let why = match wire::read(stream, wire::ANY_VALUE) {
            Ok(Some(message)) => {
                shared.hear(message);
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return shared
                    .end(shared.heard(), Ending::Broken(format!("what rank 0 sends makes no sense: {error}")));
            }
            Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                let why = format!("rank {} has no memory for what rank 0 sends", shared.rank);
                return shared.end(shared.heard(), Ending::Broken(why));
            }
            Ok(None) | Err(_) => "its process is gone".to_string(),
        };
        return shared.end(shared.heard(), Ending::Failed { rank: 0, message: why });
    }
}
