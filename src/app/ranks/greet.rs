//! Greetings: each connection to the port of rank 0 says which rank of which program it is.
//!
//! Input: connections, of ranks and of strangers. Output: the connections of ranks, and the reasons why others cannot join. One thread reads all
//! connections without blocking, so a silent one costs a descriptor and delays no rank. The time of a greeting is limited in total,
//! however its bytes arrive.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::wire::{self, Hello, Message};
use crate::base::escape;

/// The time for a greeting, from the connection to its last byte.
const LONGEST: Duration = Duration::from_secs(10);
/// The time that a connection has in any case, even if others wait for its place. Ranks send their greeting at once.
const FAIR: Duration = Duration::from_secs(1);
/// The number of connections that are read at once.
const MOST: usize = 512;
/// The longest part of a stranger's text that messages quote.
const QUOTED: usize = 40;

/// What a greeting has led to.
pub(super) enum Greeted {
    Rank(u32, TcpStream),
    /// It is not one of these ranks, for this reason.
    Misfit(String),
}

/// A connection that has not said yet who it is.
struct Guest {
    stream: TcpStream,
    heard: Vec<u8>,
    since: Instant,
}

/// The connections that have not said yet who they are, in the order of their arrival.
pub(super) struct Greeter {
    own: Hello,
    guests: VecDeque<Guest>,
}

impl Greeter {
    pub fn new(own: Hello) -> Greeter {
        Greeter { own, guests: VecDeque::new() }
    }

    /// Whether a greeting proves that its sender belongs to this job.
    pub fn has_token(&self) -> bool {
        !self.own.token.is_empty()
    }

    /// Whether there is room for another connection. If there is none, the oldest connections lose their place once they had their
    /// time.
    pub fn has_room(&mut self) -> bool {
        if self.guests.len() >= MOST {
            self.make_room();
        }
        self.guests.len() < MOST
    }

    /// Closes the connections that have had their time.
    pub fn make_room(&mut self) {
        self.guests.retain(|guest| guest.since.elapsed() < FAIR);
    }

    pub fn admit(&mut self, stream: TcpStream) {
        if stream.set_nonblocking(true).and_then(|()| stream.set_nodelay(true)).is_ok() {
            self.guests.push_back(Guest { stream, heard: Vec::new(), since: Instant::now() });
        }
    }

    /// Reads what has arrived; returns the connections whose greeting is complete.
    pub fn hear(&mut self) -> Vec<Greeted> {
        let mut greeted = Vec::new();
        for _ in 0..self.guests.len() {
            let Some(mut guest) = self.guests.pop_front() else { break };
            match guest.hear() {
                Heard::Part if guest.since.elapsed() < LONGEST => self.guests.push_back(guest),
                Heard::Part | Heard::Nonsense => {}
                Heard::Hello(hello) => greeted.extend(answer(guest.stream, &hello, &self.own)),
            }
        }
        greeted
    }
}

enum Heard {
    Part,
    Hello(Hello),
    /// Something else, or the end of the connection.
    Nonsense,
}

impl Guest {
    fn hear(&mut self) -> Heard {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Heard::Nonsense,
                Ok(count) => self.heard.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Heard::Part,
                Err(_) => return Heard::Nonsense,
            }
            match wire::greeting(&self.heard) {
                Ok(None) => {}
                Ok(Some(Message::Hello(hello))) => return Heard::Hello(hello),
                Ok(Some(_)) | Err(_) => return Heard::Nonsense,
            }
        }
    }
}

pub(super) fn refuse(mut stream: TcpStream, why: &str) {
    let _ = wire::write(&mut stream, &Message::Refused { why: why.to_string() });
}

/// Answers a greeting, unless it is that of a rank; `None` if the connection is of another job.
fn answer(stream: TcpStream, hello: &Hello, own: &Hello) -> Option<Greeted> {
    stream.set_nonblocking(false).ok()?;
    if hello.token != own.token {
        refuse(stream, "this is not its job: it has another token");
        return None;
    }
    let misfit = match hello {
        other if (other.protocol, &other.version) != (own.protocol, &own.version) => {
            let version: String = hello.version.chars().take(QUOTED).collect();
            let version = escape::name(&version);
            format!("rank {} runs another version of Clk: {version}, and rank 0 has {}", hello.rank, own.version)
        }
        other if other.program != own.program => format!("rank {} runs another program than rank 0", hello.rank),
        other if other.ranks != own.ranks || other.rank == 0 || other.rank >= own.ranks => {
            format!("a rank {} of {} wants to join {} ranks", hello.rank, hello.ranks, own.ranks)
        }
        _ => return Some(Greeted::Rank(hello.rank, stream)),
    };
    refuse(stream, &misfit);
    Some(Greeted::Misfit(misfit))
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
        wire::write(&mut bytes, &Message::Hello(hello)).expect("written");
        bytes
    }

    /// A greeter, and how to connect to it.
    fn port() -> (Greeter, impl FnMut(&mut Greeter) -> TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let connect = move |greeter: &mut Greeter| {
            let stream = TcpStream::connect(address).expect("connected");
            greeter.admit(listener.accept().expect("accepted").0);
            stream
        };
        (Greeter::new(hello()), connect)
    }

    /// Hears until a greeting is complete.
    fn next(greeter: &mut Greeter) -> Greeted {
        let start = Instant::now();
        loop {
            if let Some(greeted) = greeter.hear().pop() {
                return greeted;
            }
            assert!(start.elapsed().as_secs() < 60, "nobody is greeted");
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_rank_is_heard_among_silent_and_slow_strangers() {
        let (mut greeter, mut connect) = port();
        let mut strangers: Vec<TcpStream> = (0..100).map(|_| connect(&mut greeter)).collect();
        let whole = bytes(hello());
        let mut rank = connect(&mut greeter);
        for byte in &whole[..whole.len() - 1] {
            rank.write_all(&[*byte]).expect("written");
            strangers.iter_mut().for_each(|stranger| stranger.write_all(&[9]).map_or((), |()| ()));
            assert!(greeter.hear().is_empty(), "a part of a greeting is none");
        }
        rank.write_all(&whole[whole.len() - 1..]).expect("written");
        assert!(matches!(next(&mut greeter), Greeted::Rank(1, _)));
    }

    #[test]
    fn greetings_that_do_not_fit() {
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
            let Greeted::Misfit(why) = next(&mut greeter) else { panic!("a misfit") };
            assert!(why.len() < 600 && !why.contains('\u{1b}'), "{why}");
            assert!(matches!(wire::read(&mut stream, 0), Ok(Some(Message::Refused { .. }))));
        }
    }

    #[test]
    fn strangers_get_no_answer_but_that_they_are_strangers() {
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
            assert!(greeter.hear().is_empty() && start.elapsed().as_secs() < 9, "they are sent away at once");
        }
        assert!(matches!(wire::read(&mut other, 0), Ok(Some(Message::Refused { why })) if why.contains("token")));
    }

    #[test]
    fn the_time_of_a_greeting_is_limited_in_total() {
        let (mut greeter, mut connect) = port();
        let mut slow = connect(&mut greeter);
        let silent = connect(&mut greeter);
        slow.write_all(&[9]).expect("written");
        assert!(greeter.hear().is_empty() && greeter.guests.len() == 2);
        greeter.make_room();
        assert_eq!(greeter.guests.len(), 2, "both are new");
        // As if they had connected earlier.
        for (at, age) in [FAIR, LONGEST].into_iter().enumerate() {
            greeter.guests[at].since = Instant::now().checked_sub(age).expect("a time");
        }
        slow.write_all(&[9]).expect("written");
        assert!(greeter.hear().is_empty() && greeter.guests.len() == 1);
        greeter.make_room();
        assert!(greeter.guests.is_empty());
        drop(silent);
    }
}
