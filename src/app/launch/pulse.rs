//! Liveness of a client: the time since it last made the progress that the server waits for. A server at its connection limit
//! uses it to choose the connection to close, and requests that stall midway are abandoned.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// A request that has begun and receives no bytes for this long is abandoned (checked when a read times out).
const LIMIT: Duration = Duration::from_secs(30);

/// Activity of one client. Times are in milliseconds since the first use of the clock, counted from 1; 0 is none.
#[derive(Debug)]
pub(crate) struct Pulse {
    connected: u64,
    /// Time of the last byte of an incomplete request.
    reading: AtomicU64,
    /// Time since which a reply has been waiting for the client to read it.
    writing: AtomicU64,
    /// Number of complete requests.
    requests: AtomicU64,
}

fn now() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    1 + u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(0)
}

fn since(time: u64) -> Option<Duration> {
    (time > 0).then(|| Duration::from_millis(now().saturating_sub(time)))
}

impl Pulse {
    pub fn new() -> Pulse {
        let none = AtomicU64::default;
        Pulse { connected: now(), reading: none(), writing: none(), requests: none() }
    }

    /// Sets whether a request has begun and is incomplete.
    pub fn set_within(&self, within: bool) {
        self.reading.store(if within { now() } else { 0 }, Ordering::Relaxed);
    }

    /// Records that a request is complete.
    pub fn end(&self) {
        self.set_within(false);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how long the client has not done what the server waits for; `None` if the client is the one that waits, or is idle
    /// between two requests.
    pub fn stuck_for(&self) -> Option<Duration> {
        let waits = [&self.reading, &self.writing].map(|time| since(time.load(Ordering::Relaxed)));
        let silent = since(self.connected).filter(|_| self.requests.load(Ordering::Relaxed) == 0);
        waits.into_iter().flatten().max().or(silent)
    }
}

/// A stream whose reads and writes update a [`Pulse`].
pub(crate) struct Watched<S> {
    stream: S,
    pub pulse: Arc<Pulse>,
}

impl<S> Watched<S> {
    pub fn new(stream: S, pulse: Arc<Pulse>) -> Watched<S> {
        Watched { stream, pulse }
    }
}

impl<S: Read> Read for Watched<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let reading = &self.pulse.reading;
            match self.stream.read(buffer) {
                // The read timeout of the stream has expired.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if since(reading.load(Ordering::Relaxed)).is_some_and(|time| time >= LIMIT) {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                read => {
                    // Only this thread begins and ends requests.
                    if reading.load(Ordering::Relaxed) > 0 {
                        reading.store(now(), Ordering::Relaxed);
                    }
                    return read;
                }
            }
        }
    }
}

impl<S: Write> Watched<S> {
    fn waiting<T>(&mut self, write: impl FnOnce(&mut S) -> io::Result<T>) -> io::Result<T> {
        self.pulse.writing.store(now(), Ordering::Relaxed);
        let written = write(&mut self.stream);
        self.pulse.writing.store(0, Ordering::Relaxed);
        written
    }
}

impl<S: Write> Write for Watched<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting(|stream| stream.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.waiting(|stream| stream.write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.waiting(S::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_whom() {
        let pulse = Pulse::new();
        assert!(pulse.stuck_for().is_some(), "nothing has come yet");
        pulse.set_within(true);
        assert!(pulse.stuck_for().is_some(), "the rest of a request");
        pulse.end();
        assert_eq!(pulse.stuck_for(), None, "the client may be idle");
        pulse.writing.store(now(), Ordering::Relaxed);
        assert!(pulse.stuck_for().is_some(), "an answer is not taken");
    }

    /// A stream that returns scripted results.
    struct Slow(Vec<io::Result<&'static [u8]>>);

    impl Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.pop().unwrap_or(Ok(b""))?;
            buffer[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        }
    }

    #[test]
    fn only_a_request_that_was_begun_is_given_up() {
        let nothing = || Err(ErrorKind::WouldBlock.into());
        let pulse = Arc::new(Pulse::new());
        let mut buffer = [0; 8];
        let mut stream = Watched::new(Slow(vec![Ok(b"{"), nothing(), nothing()]), pulse.clone());
        assert_eq!(stream.read(&mut buffer).expect("read"), 1, "between requests there is all the time");
        // The request began long ago; the clock may have started only now.
        std::thread::sleep(Duration::from_millis(2));
        pulse.reading.store(1, Ordering::Relaxed);
        let mut stream = Watched::new(Slow(vec![Ok(b"}"), nothing()]), pulse.clone());
        assert_eq!(stream.read(&mut buffer).expect("read"), 1, "not yet");
        assert!(pulse.reading.load(Ordering::Relaxed) > 1, "it goes on");
    }
}
