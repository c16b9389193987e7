//! The handshake: the first message on each connection to rank 0, with the client's rank and program.
//!
//! Input: connections from ranks and from unrelated clients. Output: the connections that are from ranks, and the
//! reasons why others were rejected. One thread reads all connections without blocking: a connection on which nothing
//! is sent uses a file descriptor, but does not delay the others. The duration of a handshake is limited.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::wire::{self, Hello, RankMessage};
use clk_base::escape;

/// Maximum duration of a handshake, from the connection to its last byte.
const MAX_TIME: Duration = Duration::from_secs(10);
/// Minimum duration for which a connection is kept, even if others are waiting. A rank sends its handshake at once.
const MIN_TIME: Duration = Duration::from_secs(1);
/// Maximum number of handshakes in progress.
const MAX_PENDING: usize = 512;
/// Maximum length of a text from a client that is repeated in messages.
const MAX_QUOTED: usize = 40;

/// The result of a handshake that was received completely.
pub(super) enum HandshakeResult {
    Rank(u32, TcpStream),
    /// The client is not a rank of this job, for this reason.
    Misfit(String),
}

/// A connection on which the handshake is incomplete.
struct PendingConnection {
    stream: TcpStream,
    heard: Vec<u8>,
    since: Instant,
}

/// Receives handshakes. Holds the connections whose handshake is incomplete, in the order of their arrival.
pub(super) struct HandshakeServer {
    own: Hello,
    guests: VecDeque<PendingConnection>,
}

impl HandshakeServer {
    pub fn new(own: Hello) -> HandshakeServer {
        HandshakeServer { own, guests: VecDeque::new() }
    }

    /// Returns whether the job has a token. If so, a handshake with that token comes from a process of this job.
    pub fn has_token(&self) -> bool {
        !self.own.token.is_empty()
    }

    /// Returns whether a further connection can be accepted. At the limit, closes connections that are older than
    /// [`MIN_TIME`] first.
    pub fn has_room(&mut self) -> bool {
        if self.guests.len() >= MAX_PENDING {
            self.make_room();
        }
        self.guests.len() < MAX_PENDING
    }

    /// Closes the pending connections that are older than [`MIN_TIME`].
    pub fn make_room(&mut self) {
        self.guests.retain(|guest| guest.since.elapsed() < MIN_TIME);
    }

    pub fn admit(&mut self, stream: TcpStream) {
        if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok() {
            self.guests.push_back(PendingConnection { stream, heard: Vec::new(), since: Instant::now() });
        }
    }

    /// Reads the bytes that have arrived, without blocking. Returns the results of the handshakes that are now
    /// complete.
    pub fn poll(&mut self) -> Vec<HandshakeResult> {
        let mut greeted = Vec::new();
        for _ in 0..self.guests.len() {
            let Some(mut guest) = self.guests.pop_front() else { break };
            match guest.read_hello() {
                HandshakeInput::Part if guest.since.elapsed() < MAX_TIME => self.guests.push_back(guest),
                HandshakeInput::Part | HandshakeInput::Nonsense => {}
                HandshakeInput::Hello(hello) => greeted.extend(validate_hello(guest.stream, &hello, &self.own)),
            }
        }
        greeted
    }
}

enum HandshakeInput {
    Part,
    Hello(Hello),
    /// The connection has ended, or its bytes are not a handshake.
    Nonsense,
}

impl PendingConnection {
    fn read_hello(&mut self) -> HandshakeInput {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return HandshakeInput::Nonsense,
                Ok(count) => self.heard.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return HandshakeInput::Part,
                Err(_) => return HandshakeInput::Nonsense,
            }
            match wire::read_hello(&self.heard) {
                Ok(None) => {}
                Ok(Some(RankMessage::Hello(hello))) => return HandshakeInput::Hello(hello),
                Ok(Some(_)) | Err(_) => return HandshakeInput::Nonsense,
            }
        }
    }
}

pub(super) fn send_refusal(mut stream: TcpStream, why: &str) {
    let _ = wire::write(&mut stream, &RankMessage::Refused { why: why.to_string() });
}

/// Checks a handshake, and answers it if it is invalid. `None` if the connection belongs to another job.
fn validate_hello(stream: TcpStream, hello: &Hello, own: &Hello) -> Option<HandshakeResult> {
    stream.set_nonblocking(false).ok()?;
    if hello.token != own.token {
        send_refusal(stream, "this is not its job: it has another token");
        return None;
    }
    let reason = match hello {
        other if (other.protocol, &other.version) != (own.protocol, &own.version) => {
            let version: String = hello.version.chars().take(MAX_QUOTED).collect();
            let version = escape::name(&version);
            format!("rank {} runs another version of Clk: {version}, and rank 0 has {}", hello.rank, own.version)
        }
        other if other.program != own.program => format!("rank {} runs another program than rank 0", hello.rank),
        other if other.ranks != own.ranks || other.rank == 0 || other.rank >= own.ranks => {
            format!("a rank {} of {} wants to join {} ranks", hello.rank, hello.ranks, own.ranks)
        }
        _ => return Some(HandshakeResult::Rank(hello.rank, stream)),
    };
    send_refusal(stream, &reason);
    Some(HandshakeResult::Misfit(reason))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    fn hello() -> Hello {
        let (version, program, token) = ("1".into(), "p".into(), "t".into());
        Hello { protocol: wire::PROTOCOL, version, program, token, rank: 1, ranks: 2 }
    }

    fn bytes(hello: Hello) -> Vec<u8> {
        let mut bytes = vec![];
        wire::write(&mut bytes, &RankMessage::Hello(hello)).expect("written");
        bytes
    }

    /// For tests: returns a server for handshakes, and a function that connects to it.
    fn port() -> (HandshakeServer, impl FnMut(&mut HandshakeServer) -> TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let connect = move |greeter: &mut HandshakeServer| {
            let stream = TcpStream::connect(address).expect("connected");
            greeter.admit(listener.accept().expect("accepted").0);
            stream
        };
        (HandshakeServer::new(hello()), connect)
    }

    /// For tests: polls until a handshake is complete.
    fn next(greeter: &mut HandshakeServer) -> HandshakeResult {
        let start = Instant::now();
        loop {
            if let Some(greeted) = greeter.poll().pop() {
                return greeted;
            }
            assert!(start.elapsed().as_secs() < 60, "nobody is greeted");
            std::thread::yield_now();
        }
    }

    #[test]
    fn ranks_connect_despite_silent_and_slow_clients() {
        let (mut greeter, mut connect) = port();
        let mut strangers: Vec<TcpStream> = (0..100).map(|_| connect(&mut greeter)).collect();
        let whole = bytes(hello());
        let mut rank = connect(&mut greeter);
        for byte in &whole[..whole.len() - 1] {
            rank.write_all(&[*byte]).expect("written");
            strangers.iter_mut().for_each(|stranger| stranger.write_all(&[9]).map_or((), |()| ()));
            assert!(greeter.poll().is_empty(), "a part of a greeting is none");
        }
        rank.write_all(&whole[whole.len() - 1..]).expect("written");
        assert!(matches!(next(&mut greeter), HandshakeResult::Rank(1, _)));
    }

    #[test]
    fn unsuitable_hellos_are_refused() {
        let (mut greeter, mut connect) = port();
        let misfits = [
            Hello { version: "2\u{1b}[31m".repeat(1000), ..hello() },
            Hello { program: "q".into(), ..hello() },
            Hello { rank: 2, ..hello() },
            Hello { rank: 0, ..hello() },
            Hello { ranks: 3, ..hello() },
        ];
        for misfit in misfits {
            let mut stream = connect(&mut greeter);
            stream.write_all(&bytes(misfit)).expect("written");
            let HandshakeResult::Misfit(why) = next(&mut greeter) else { panic!("a misfit") };
            assert!(why.len() < 600 && !why.contains('\u{1b}'), "{why}");
            assert!(matches!(wire::read(&mut stream, 0), Ok(Some(RankMessage::Refused { .. }))));
        }
    }

    #[test]
    fn clients_without_token_learn_nothing() {
        let (mut greeter, mut connect) = port();
        let mut other = connect(&mut greeter);
        other.write_all(&bytes(Hello { token: "u".into(), version: "2".into(), ..hello() })).expect("written");
        let mut nonsense: Vec<TcpStream> = vec![];
        let twice = [bytes(hello()), bytes(hello())].concat();
        for text in
            [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 100], &[2, 0, 0, 0, b'{', b'}', 0, 0, 0, 0, 0, 0, 0, 0], &twice]
        {
            nonsense.push(connect(&mut greeter));
            nonsense.last_mut().expect("one").write_all(text).expect("written");
        }
        let start = Instant::now();
        while !greeter.guests.is_empty() {
            assert!(greeter.poll().is_empty() && start.elapsed().as_secs() < 9, "they are sent away at once");
        }
        assert!(matches!(wire::read(&mut other, 0), Ok(Some(RankMessage::Refused { why })) if why.contains("token")));
    }

    #[test]
    fn total_handshake_time_is_limited() {
        let (mut greeter, mut connect) = port();
        let mut slow = connect(&mut greeter);
        let silent = connect(&mut greeter);
        slow.write_all(&[9]).expect("written");
        assert!(greeter.poll().is_empty() && greeter.guests.len() == 2);
        greeter.make_room();
        assert_eq!(greeter.guests.len(), 2, "both are new");
        // Changes the times of the connections, so that they seem older.
        for (at, age) in [MIN_TIME, MAX_TIME].into_iter().enumerate() {
            greeter.guests[at].since = Instant::now().checked_sub(age).expect("a time");
        }
        slow.write_all(&[9]).expect("written");
        assert!(greeter.poll().is_empty() && greeter.guests.len() == 1);
        greeter.make_room();
        assert!(greeter.guests.is_empty());
        drop(silent);
    }
}
