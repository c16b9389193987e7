//! Measures how long the server has been waiting for a client to make progress. At its connection limit, a server
//! closes the connection for which it has waited longest. A request that stops midway is abandoned.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// If an incomplete request receives no bytes for this long, it is abandoned. This is checked when a read times out.
const LIMIT: Duration = Duration::from_secs(30);

/// The times of a client's activity, in milliseconds since the clock's first use. They start at 1; 0 means none.
#[derive(Debug)]
pub(crate) struct Pulse {
    connected: u64,
    /// When the last byte of the current, incomplete request arrived.
    reading: AtomicU64,
    /// When the server began to wait for the client to read the current reply.
    writing: AtomicU64,
    /// Number of complete requests received so far.
    requests: AtomicU64,
}

fn clock_millis() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    1 + u64::try_from(START.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(0)
}

fn elapsed_since(time: u64) -> Option<Duration> {
    (time > 0).then(|| Duration::from_millis(clock_millis().saturating_sub(time)))
}

impl Pulse {
    pub fn new() -> Pulse {
        let none = AtomicU64::default;
        Pulse { connected: clock_millis(), reading: none(), writing: none(), requests: none() }
    }

    /// Sets whether a request has begun but is incomplete.
    pub fn set_within(&self, within: bool) {
        self.reading.store(if within { clock_millis() } else { 0 }, Ordering::Relaxed);
    }

    /// Records that a request was received completely.
    pub fn end(&self) {
        self.set_within(false);
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how long the server has been waiting for the client. `None` if the client is waiting for the server, or
    /// is idle between two requests.
    pub fn stalled_for(&self) -> Option<Duration> {
        let waits = [&self.reading, &self.writing].map(|time| elapsed_since(time.load(Ordering::Relaxed)));
        let silent = elapsed_since(self.connected).filter(|_| self.requests.load(Ordering::Relaxed) == 0);
        waits.into_iter().flatten().max().or(silent)
    }
}

/// A stream that records its reads and writes in a [`Pulse`].
pub(crate) struct PulsedStream<S> {
    stream: S,
    pub pulse: Arc<Pulse>,
}

impl<S> PulsedStream<S> {
    pub fn new(stream: S, pulse: Arc<Pulse>) -> PulsedStream<S> {
        PulsedStream { stream, pulse }
    }
}

impl<S: Read> Read for PulsedStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let reading = &self.pulse.reading;
            match self.stream.read(buffer) {
                // The read timeout of the socket has passed.
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if elapsed_since(reading.load(Ordering::Relaxed)).is_some_and(|time| time >= LIMIT) {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                read => {
                    // No other thread begins or ends requests, so this value cannot change in between.
                    if reading.load(Ordering::Relaxed) > 0 {
                        reading.store(clock_millis(), Ordering::Relaxed);
                    }
                    return read;
                }
            }
        }
    }
}

impl<S: Write> PulsedStream<S> {
    fn waiting<T>(&mut self, write: impl FnOnce(&mut S) -> io::Result<T>) -> io::Result<T> {
        self.pulse.writing.store(clock_millis(), Ordering::Relaxed);
        let written = write(&mut self.stream);
        self.pulse.writing.store(0, Ordering::Relaxed);
        written
    }
}

impl<S: Write> Write for PulsedStream<S> {
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
    fn server_and_client_waits_are_distinguished() {
        let pulse = Pulse::new();
        assert!(pulse.stalled_for().is_some(), "nothing has come yet");
        pulse.set_within(true);
        assert!(pulse.stalled_for().is_some(), "the rest of a request");
        pulse.end();
        assert_eq!(pulse.stalled_for(), None, "the client may be idle");
        pulse.writing.store(clock_millis(), Ordering::Relaxed);
        assert!(pulse.stalled_for().is_some(), "an answer is not taken");
    }

    /// A stream for tests, whose reads return the results in a list.
    struct ScriptedStream(Vec<io::Result<&'static [u8]>>);

    impl Read for ScriptedStream {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = self.0.pop().unwrap_or(Ok(b""))?;
            buffer[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        }
    }

    #[test]
    fn timeout_applies_only_to_begun_requests() {
        let nothing = || Err(ErrorKind::WouldBlock.into());
        let pulse = Arc::new(Pulse::new());
        let mut buffer = [0; 8];
        let mut stream = PulsedStream::new(ScriptedStream(vec![Ok(b"{"), nothing(), nothing()]), pulse.clone());
        assert_eq!(stream.read(&mut buffer).expect("read"), 1, "between requests there is all the time");
        // Makes the request's beginning lie in the past even if the clock has only just started.
        std::thread::sleep(Duration::from_millis(2));
        pulse.reading.store(1, Ordering::Relaxed);
        let mut stream = PulsedStream::new(ScriptedStream(vec![Ok(b"}"), nothing()]), pulse.clone());
        assert_eq!(stream.read(&mut buffer).expect("read"), 1, "not yet");
        assert!(pulse.reading.load(Ordering::Relaxed) > 1, "it goes on");
    }
}
