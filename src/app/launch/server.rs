//! Serves one client. A thread reads requests ahead while earlier ones run. Replies are sent in the order of the
//! requests.

use std::io::{self, BufWriter, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::frame::{ClientMessage, MessageReader};
use super::job::LaunchJob;
use super::liveness::{Pulse, PulsedStream};
use super::operations::{self, AfterReply};
use super::shutdown::ShutdownSignals;
use super::state::ClientState;
use crate::context::AppContext;
use crate::{exit, script};
use clk_compile::Session;

/// Maximum number of requests that are read ahead.
const MAX_QUEUED_REQUESTS: usize = 1024;
/// Interval at which an idle connection checks whether the server shuts down.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Total size of the requests that were read but have not started.
#[derive(Default)]
struct QueuedBytes {
    bytes: u64,
    /// Whether the connection is closed. No further request will run then, so that no thread may wait for one.
    is_closed: bool,
}

/// Limits the total size of the requests that are read ahead of their execution.
#[derive(Default)]
struct QueueLimit {
    waiting: Mutex<QueuedBytes>,
    changed: Condvar,
}

impl QueueLimit {
    fn waiting(&self) -> MutexGuard<'_, QueuedBytes> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the size of a request; waits until the total is within the limit. A request that is alone is always
    /// admitted. Returns whether the connection is still open.
    fn add(&self, bytes: u64, limit: u64) -> bool {
        let is_full = |waiting: &mut QueuedBytes| {
            !waiting.is_closed && waiting.bytes > 0 && waiting.bytes.saturating_add(bytes) > limit
        };
        let waited = self.changed.wait_while(self.waiting(), is_full);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.bytes = waiting.bytes.saturating_add(bytes);
        !waiting.is_closed
    }

    fn release(&self, bytes: u64) {
        let mut waiting = self.waiting();
        waiting.bytes = waiting.bytes.saturating_sub(bytes);
        self.changed.notify_all();
    }
}

/// Marks a connection's queue as closed when it is dropped, even during a panic.
struct GateGuard(Arc<QueueLimit>);

impl Drop for GateGuard {
    fn drop(&mut self) {
        self.0.waiting().is_closed = true;
        self.0.changed.notify_all();
    }
}

/// Serves requests on standard input; writes replies to standard output.
pub(crate) fn standard(job: &LaunchJob, context: &mut AppContext) -> u8 {
    let Some(session) = program(job, context) else { return exit::FAILURE };
    let ending = ShutdownSignals::of(&context.interrupt);
    let interpreter = context.limits.interpreter(&context.interrupt, vec![]);
    let mut state = ClientState::new(session, interpreter, job.max_bytes);
    // Does not wait for the thread that reads, which may be blocked forever. It ends with the process.
    serve_client(io::stdin(), io::stdout(), &mut state, &ending, Arc::new(Pulse::new()));
    ending.exit_code()
}

/// Compiles the program with which each client starts. Reports errors and returns `None` if there are any.
pub(crate) fn program(job: &LaunchJob, context: &mut AppContext) -> Option<Session> {
    let compiled = script::compile_file(&job.file, &mut context.console);
    if compiled.is_none() {
        context.console.summary();
    }
    compiled.map(|compiled| compiled.session)
}

/// Answers requests until the stream ends, the client disconnects or the server shuts down.
pub(crate) fn serve_client(
    input: impl Read + Send + 'static,
    output: impl Write,
    state: &mut ClientState,
    ending: &ShutdownSignals,
    pulse: Arc<Pulse>,
) {
    let (send, receive) = sync_channel(MAX_QUEUED_REQUESTS);
    let gate = Arc::new(QueueLimit::default());
    let _closing = GateGuard(gate.clone());
    let (limit, bounded) = (state.limit, gate.clone());
    let input = PulsedStream::new(input, pulse.clone());
    let reading =
        std::thread::Builder::new().name("clk-requests".into()).spawn(move || read(input, limit, &send, &bounded));
    if reading.is_err() {
        return;
    }
    let mut out = BufWriter::with_capacity(1 << 16, PulsedStream::new(output, pulse));
    // A launch whose results the client has not requested may still be running when its reply is sent.
    state.interpreter.pipelined = true;
    while let Some(message) = next_request(&receive, &mut out, ending) {
        let bytes = message.bytes;
        let (reply, next) = operations::answer_request(state, message);
        gate.release(bytes);
        let sent = reply.send(&mut out);
        if next == AfterReply::Stop {
            ending.end();
        }
        if sent.is_err() || next != AfterReply::Go {
            break;
        }
    }
    // This fails if the client has disconnected, which is harmless.
    let _ = out.flush();
}

/// Returns the next request. Before waiting for it, sends the replies that are still buffered.
fn next_request(
    receive: &Receiver<ClientMessage>,
    out: &mut impl Write,
    ending: &ShutdownSignals,
) -> Option<ClientMessage> {
    match receive.try_recv() {
        Ok(message) if !ending.is_set() => return Some(message),
        Ok(_) | Err(TryRecvError::Disconnected) => return None,
        Err(TryRecvError::Empty) => out.flush().ok()?,
    }
    loop {
        match receive.recv_timeout(POLL_INTERVAL) {
            _ if ending.is_set() => return None,
            Ok(message) => return Some(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return None,
        }
    }
}

fn read<R: Read>(input: PulsedStream<R>, limit: u64, send: &SyncSender<ClientMessage>, gate: &QueueLimit) {
    let pulse = input.pulse.clone();
    let mut reader = MessageReader::new(input, limit);
    loop {
        let message = match reader.message_watched(|within| pulse.set_within(within)) {
            Ok(Some(message)) => message,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => ClientMessage::timed_out(),
            // A read error ends the connection, like the end of the stream.
            Ok(None) | Err(_) => return,
        };
        pulse.end();
        let last = message.last;
        if !gate.add(message.bytes, limit) || send.send(message).is_err() || last {
            return;
        }
    }
}
