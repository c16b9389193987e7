//! A bounded queue of messages to the client, which a thread writes to standard output.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::framing::{self, Framing};

/// Maximum total size in bytes of the messages in the queue. One message may be larger.
const MAX_QUEUED: usize = 16 << 20;
/// If the queue has more bytes than this, messages that the client can do without are dropped.
const BUSY: usize = 64 << 10;
/// If the queue is full and the client reads nothing for this time, the output is closed.
const STALL: Duration = Duration::from_secs(10);
/// Number of bytes to write at once. After each part, the client is known to read.
const PART: usize = 32 << 10;

#[derive(Default)]
struct PendingOutput {
    /// The messages that no write has begun for.
    messages: VecDeque<Vec<u8>>,
    /// Total size in bytes of the messages that are not written, including the one that is being written.
    bytes: usize,
    /// Number of parts written so far.
    parts: u64,
    is_closed: bool,
}

/// The queue, which its threads share.
#[derive(Clone)]
pub(super) struct MessageQueue {
    framing: Framing,
    state: Arc<Mutex<PendingOutput>>,
    changed: Arc<Condvar>,
}

impl MessageQueue {
    /// Starts the thread that writes to standard output.
    pub fn start(framing: Framing) -> io::Result<MessageQueue> {
        MessageQueue::to(standard_output(), framing)
    }

    fn to(mut stream: impl Write + Send + 'static, framing: Framing) -> io::Result<MessageQueue> {
        let queue = MessageQueue { framing, state: Arc::default(), changed: Arc::default() };
        let writer = queue.clone();
        let work = move || writer.write_all(&mut stream);
        std::thread::Builder::new().name("clk-output".into()).stack_size(256 << 10).spawn(work)?;
        Ok(queue)
    }

    fn lock(&self) -> MutexGuard<'_, PendingOutput> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    /// Adds a message. If the queue is full, waits for the client to read, and closes the output if it reads nothing.
    pub fn push(&self, message: &Value) {
        let Some(bytes) = self.framed(message) else { return };
        let mut state = self.lock();
        let (mut parts, mut deadline) = (state.parts, Instant::now() + STALL);
        while !state.is_closed && state.bytes > 0 && state.bytes + bytes.len() > MAX_QUEUED {
            if state.parts != parts {
                (parts, deadline) = (state.parts, Instant::now() + STALL);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.close(&mut state);
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.add(&mut state, bytes);
    }

    /// Adds a message unless the client reads slowly.
    pub fn push_if_idle(&self, message: &Value) {
        let Some(bytes) = self.framed(message) else { return };
        let mut state = self.lock();
        if state.bytes + bytes.len() <= BUSY {
            self.add(&mut state, bytes);
        }
    }

    /// Waits until all messages are written, at most until a deadline.
    pub fn drain(&self, deadline: Instant) {
        let mut state = self.lock();
        while !state.is_closed && state.bytes > 0 && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn framed(&self, message: &Value) -> Option<Vec<u8>> {
        let mut bytes = vec![];
        // Writing to memory does not fail.
        framing::write_framed(&mut bytes, self.framing, message).ok().map(|()| bytes)
    }

    fn add(&self, state: &mut PendingOutput, bytes: Vec<u8>) {
        if !state.is_closed {
            state.bytes += bytes.len();
            state.messages.push_back(bytes);
            self.changed.notify_all();
        }
    }

    fn close(&self, state: &mut PendingOutput) {
        *state = PendingOutput { is_closed: true, ..PendingOutput::default() };
        self.changed.notify_all();
    }

    /// Writes all messages, until the output is closed.
    fn write_all(&self, stream: &mut impl Write) {
        loop {
            let mut state = self.lock();
            let message = loop {
                if state.is_closed {
                    return;
                }
                match state.messages.pop_front() {
                    Some(message) => break message,
                    None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                }
            };
            drop(state);
            for part in message.chunks(PART) {
                let written = stream.write_all(part).and_then(|()| stream.flush());
                let mut state = self.lock();
                if written.is_err() {
                    return self.close(&mut state);
                }
                state.parts += 1;
                state.bytes = state.bytes.saturating_sub(part.len());
                self.changed.notify_all();
            }
        }
    }
}

/// Returns standard output. On Unix it is another handle: a blocked write must not hold the lock of the stream, which
/// the end of the process needs.
fn standard_output() -> Box<dyn Write + Send> {
    #[cfg(unix)]
    if let Ok(handle) = std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned() {
        return Box::new(std::fs::File::from(handle));
    }
    Box::new(io::stdout())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A stream that accepts nothing until it is released.
    struct BlockedStream(Arc<Mutex<Vec<u8>>>);

    impl Write for BlockedStream {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn blocked_client_blocks_nobody_until_the_queue_is_full() {
        let written = Arc::new(Mutex::new(vec![]));
        let blocked = written.lock().expect("not poisoned");
        let queue = MessageQueue::to(BlockedStream(written.clone()), Framing::Lines).expect("a thread");
        // The writer waits for the lock, and these calls return.
        for number in 0..100 {
            queue.push(&json!([number, "x".repeat(1000)]));
        }
        queue.push_if_idle(&json!("dropped"));
        let start = Instant::now();
        queue.drain(start + Duration::from_millis(50));
        assert!(start.elapsed() >= Duration::from_millis(50) && !queue.is_closed());
        drop(blocked);
        queue.drain(start + Duration::from_secs(60));
        queue.push_if_idle(&json!("kept"));
        queue.drain(start + Duration::from_secs(60));
        let text = String::from_utf8(written.lock().expect("not poisoned").clone()).expect("text");
        assert_eq!(text.lines().count(), 101);
        assert!(text.ends_with("\"kept\"\n") && !text.contains("dropped"));
    }
}
