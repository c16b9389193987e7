//! Serving of one client: requests are read ahead while others run, and answered in order.

use std::io::{self, BufWriter, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::ending::Ending;
use super::frame::{Message, Reader};
use super::job::Job;
use super::ops::{self, Next};
use super::pulse::{Pulse, Watched};
use super::state::State;
use crate::app::context::Context;
use crate::app::{exit, script};
use crate::compile::Session;

/// Maximum number of requests read ahead.
const AHEAD: usize = 1024;
/// Interval at which a waiting connection checks whether the server ends.
const LOOK: Duration = Duration::from_millis(50);

/// Size in bytes of the requests that were read and have not run yet.
#[derive(Default)]
struct Waiting {
    bytes: u64,
    /// The connection is over: nothing runs any more, so waiting would never end.
    is_closed: bool,
}

/// What bounds the size of the requests that are read ahead.
#[derive(Default)]
struct Gate {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Gate {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request, waiting until the sum is within the limit; returns whether the connection is still open. A single request is
    /// always admitted.
    fn add(&self, bytes: u64, limit: u64) -> bool {
        let is_full = |waiting: &mut Waiting| {
            !waiting.is_closed && waiting.bytes > 0 && waiting.bytes.saturating_add(bytes) > limit
        };
        let waited = self.changed.wait_while(self.waiting(), is_full);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.bytes = waiting.bytes.saturating_add(bytes);
        !waiting.is_closed
    }

    fn take(&self, bytes: u64) {
        let mut waiting = self.waiting();
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        self.changed.notify_all();
    }
}

/// Closes a gate when the connection's work ends, however it ends.
struct Closing(Arc<Gate>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.waiting().is_closed = true;
        self.0.changed.notify_all();
    }
}

/// Serves standard input and standard output.
pub(crate) fn standard(job: &Job, context: &mut Context) -> u8 {
    let Some(session) = program(job, context) else { return exit::FAILURE };
    let ending = Ending::of(&context.interrupt);
    let interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let mut state = State::new(session, interpreter, job.max_bytes);
    // The reading thread may block forever; the process ends without joining it.
    converse(io::stdin(), io::stdout(), &mut state, &ending, Arc::new(Pulse::new()));
    ending.exit_code()
}

/// Compiles the program that every client starts with; reports errors and returns `None` if there are any.
pub(crate) fn program(job: &Job, context: &mut Context) -> Option<Session> {
    let compiled = script::compile_file(&job.file, &mut context.console);
    if compiled.is_none() {
        context.console.summary();
    }
    compiled.map(|compiled| compiled.session)
}

/// Answers requests until the stream ends, the client disconnects or the server ends.
pub(crate) fn converse(
    input: impl Read + Send + 'static,
    output: impl Write,
    state: &mut State,
    ending: &Ending,
    pulse: Arc<Pulse>,
) {
    let (send, receive) = sync_channel(AHEAD);
    let gate = Arc::new(Gate::default());
    let _closing = Closing(gate.clone());
    let (limit, bounded) = (state.limit, gate.clone());
    let input = Watched::new(input, pulse.clone());
    let reading =
        std::thread::Builder::new().name("clk-requests".into()).spawn(move || read(input, limit, &send, &bounded));
    if reading.is_err() {
        return;
    }
    let mut out = BufWriter::with_capacity(1 << 16, Watched::new(output, pulse));
    // A reply does not wait for kernels whose results were not requested.
    state.interpreter.pipelined = true;
    while let Some(message) = following(&receive, &mut out, ending) {
        let bytes = message.bytes;
        let (reply, next) = ops::answer(state, message);
        gate.take(bytes);
        let sent = reply.send(&mut out);
        if next == Next::Stop {
            ending.end();
        }
        if sent.is_err() || next != Next::Go {
            break;
        }
    }
    // Fails if the client has disconnected, which is harmless.
    let _ = out.flush();
}

/// Returns the next request; flushes replies before waiting for it.
fn following(receive: &Receiver<Message>, out: &mut impl Write, ending: &Ending) -> Option<Message> {
    match receive.try_recv() {
        Ok(message) if !ending.is_set() => return Some(message),
        Ok(_) | Err(TryRecvError::Disconnected) => return None,
        Err(TryRecvError::Empty) => out.flush().ok()?,
    }
    loop {
        match receive.recv_timeout(LOOK) {
            _ if ending.is_set() => return None,
            Ok(message) => return Some(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn read<R: Read>(input: Watched<R>, limit: u64, send: &SyncSender<Message>, gate: &Gate) {
    let pulse = input.pulse.clone();
    let mut reader = Reader::new(input, limit);
    loop {
        let message = match reader.message_watched(|within| pulse.set_within(within)) {
            Ok(Some(message)) => message,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Message::given_up(),
            // An unreadable stream is treated as ended.
            Ok(None) | Err(_) => return,
        };
        pulse.end();
        let last = message.last;
        if !gate.add(message.bytes, limit) || send.send(message).is_err() || last {
            return;
        }
    }
}
