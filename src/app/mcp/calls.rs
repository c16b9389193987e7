//! Runs the calls of tools, each in a child process.
//!
//! Each running call has a thread, which waits for events: the output of the child, a cancellation, the time limit. The
//! thread that removes a call from the table answers it, so each call gets exactly one answer, or none if it was
//! canceled.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::job::{self, ToolJob};
use super::options::McpOptions;
use super::reply::ReplyTarget;
use super::schema::{self, CallStatus};
use super::tools::Tool;
use crate::json_rpc::{self, MessageOutput, RequestError};
use crate::{crash, own_program};

/// Maximum number of calls that wait.
const MAX_WAITING: usize = 256;
/// Maximum total size in bytes of the jobs of calls that wait.
const MAX_WAITING_BYTES: usize = 64 << 20;
/// How long a child may take after its time limit to stop by itself and to report where it was.
const GRACE: Duration = Duration::from_secs(2);
/// Interval of progress notifications.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// After the input has ended, how long to wait for calls.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes of a child's standard error that are reported.
const MAX_ERRORS: u64 = 4 << 10;

/// Environment variables that a Python interpreter may need in order to find its libraries and Clk's package.
const EMBEDDING_VARIABLES: [&str; 4] = ["PYTHONHOME", "PYTHONPATH", "VIRTUAL_ENV", "LD_LIBRARY_PATH"];

/// A call that a client has requested.
pub(super) struct ToolCallRequest {
    pub id: Value,
    pub tool: &'static Tool,
    pub arguments: Arguments,
    pub progress_token: Option<Value>,
    pub target: ReplyTarget,
}

/// A call in the table, with the end of its channel that its thread reads.
struct Call {
    serial: u64,
    id: Value,
    tool: &'static Tool,
    /// The line for the child process. The arguments take less memory as text.
    job: String,
    limit: Duration,
    progress_token: Option<Value>,
    target: ReplyTarget,
    events: Receiver<CallEvent>,
    sender: Sender<CallEvent>,
}

/// A call that was not answered.
struct OpenCall {
    /// Distinguishes the call from an earlier one with the same id, which was canceled and has not ended yet.
    serial: u64,
    sender: Sender<CallEvent>,
}

/// An event for the thread of a running call.
enum CallEvent {
    /// The child has written its result.
    Result(Vec<u8>),
    /// The child has closed its output.
    Closed,
    Cancel,
}

#[derive(Default)]
struct TableState {
    waiting: VecDeque<Call>,
    /// Total size in bytes of the jobs of the waiting calls.
    waiting_bytes: usize,
    /// All calls that were not answered, by the JSON text of their ids.
    open: BTreeMap<String, OpenCall>,
    /// Number of calls so far.
    calls: u64,
    /// Number of threads that run calls.
    threads: usize,
}

/// The running and the waiting calls.
pub(super) struct CallTable {
    options: Arc<McpOptions>,
    output: MessageOutput,
    state: Mutex<TableState>,
    /// Signaled when a thread has ended.
    changed: Condvar,
}

impl CallTable {
    pub fn new(options: Arc<McpOptions>, output: MessageOutput) -> Arc<CallTable> {
        Arc::new(CallTable { options, output, state: Mutex::default(), changed: Condvar::new() })
    }

    pub fn may_write(&self) -> bool {
        self.options.may_write
    }

    fn lock(&self) -> MutexGuard<'_, TableState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a call, or lets it wait.
    pub fn start(self: &Arc<Self>, request: ToolCallRequest) -> Result<(), RequestError> {
        let ToolCallRequest { id, tool, arguments, progress_token, target } = request;
        let key = id.to_string();
        let limit = arguments.time_limit(self.options.limits.time);
        let job = ToolJob { tool, arguments: &arguments, options: &self.options }.to_line();
        drop(arguments);
        let mut state = self.lock();
        if state.open.contains_key(&key) {
            let message = "a request with this `id` is in progress".to_owned();
            return Err(RequestError { code: json_rpc::INVALID_REQUEST, message });
        }
        if state.waiting.len() >= MAX_WAITING || state.waiting_bytes + job.len() > MAX_WAITING_BYTES {
            drop(state);
            let busy = schema::failure(CallStatus::Refused, "too many calls wait; try again later");
            target.send(json_rpc::result_response(&id, busy));
            return Ok(());
        }
        let (sender, events) = channel();
        let serial = state.calls;
        state.calls += 1;
        state.open.insert(key, OpenCall { serial, sender: sender.clone() });
        state.waiting_bytes += job.len();
        state.waiting.push_back(Call { serial, id, tool, job, limit, progress_token, target, events, sender });
        if state.threads < self.options.limits.parallel {
            let table = self.clone();
            let thread = std::thread::Builder::new().name("clk-mcp-call".into()).spawn(move || table.work());
            match thread {
                Ok(_) => state.threads += 1,
                // Running threads take the call later. Without any, it fails now.
                Err(_) if state.threads > 0 => {}
                Err(error) => {
                    let calls = std::mem::take(&mut state.waiting);
                    state.waiting_bytes = 0;
                    drop(state);
                    for call in calls {
                        let why = format!("no thread can be started: {error}");
                        self.answer(&call, schema::failure(CallStatus::Crashed, &why));
                    }
                }
            }
        }
        Ok(())
    }

    /// Cancels a call, which gets no answer. Ignores ids of other requests.
    pub fn cancel(&self, id: &Value) {
        let key = id.to_string();
        let mut state = self.lock();
        let Some(OpenCall { serial, sender }) = state.open.remove(&key) else { return };
        let waiting = state.waiting.iter().position(|call| call.serial == serial);
        match waiting.and_then(|index| state.waiting.remove(index)) {
            Some(call) => {
                state.waiting_bytes -= call.job.len();
                drop(state);
                call.target.skip();
            }
            // The thread of the call ends the child. If the call has just ended, nothing receives the event.
            None => drop(sender.send(CallEvent::Cancel)),
        }
    }

    /// Waits for the open calls, and for the client to read the answers, for a limited time. Then cancels the calls. If
    /// the client has closed the output, cancels them at once.
    pub fn finish(&self) {
        let deadline = Instant::now() + FINISH_TIMEOUT;
        let mut state = self.lock();
        while state.threads > 0 && !self.output.is_closed() && Instant::now() < deadline {
            // The output may be closed without a signal.
            let left = deadline.saturating_duration_since(Instant::now()).min(Duration::from_millis(200));
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.waiting.clear();
        state.waiting_bytes = 0;
        let open = std::mem::take(&mut state.open);
        open.values().for_each(|call| drop(call.sender.send(CallEvent::Cancel)));
        if state.threads == 0 {
            drop(state);
            return self.output.drain(deadline);
        }
        // The threads end their children. A thread may also wait for the client to read its answer.
        let deadline = Instant::now() + GRACE;
        while state.threads > 0 && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Runs waiting calls until there are none.
    fn work(self: Arc<Self>) {
        loop {
            let mut state = self.lock();
            let Some(call) = state.waiting.pop_front() else {
                state.threads -= 1;
                self.changed.notify_all();
                return;
            };
            state.waiting_bytes -= call.job.len();
            drop(state);
            match crash::catch_panic(|| self.run(&call)) {
                Ok(Some(result)) => self.answer(&call, result),
                Ok(None) => call.target.skip(),
                Err(panic) => self.answer(&call, schema::failure(CallStatus::Crashed, &panic.title)),
            }
        }
    }

    /// Answers a call unless it was canceled.
    fn answer(&self, call: &Call, result: Value) {
        let key = call.id.to_string();
        let mut state = self.lock();
        let is_open = state.open.get(&key).is_some_and(|open| open.serial == call.serial);
        if is_open {
            state.open.remove(&key);
        }
        drop(state);
        match is_open {
            true => call.target.send(json_rpc::result_response(&call.id, result)),
            false => call.target.skip(),
        }
    }

    /// Runs a call; returns its result, or `None` if it was canceled.
    fn run(&self, call: &Call) -> Option<Value> {
        let Call { tool, job, limit, progress_token, .. } = call;
        let limit = *limit;
        let mut child = match CallProcess::start(job, self.options.limits.output, call.sender.clone()) {
            Ok(child) => child,
            Err(error) => {
                let why = format!("the process of the call cannot be started: {error}");
                return Some(schema::failure(CallStatus::Crashed, &why));
            }
        };
        let start = Instant::now();
        let mut next_progress = start;
        loop {
            let now = Instant::now();
            if let Some(token) = progress_token.as_ref().filter(|_| now >= next_progress) {
                next_progress = now + PROGRESS_INTERVAL;
                self.output.send_if_idle(progress(token, tool, now - start, limit));
            }
            if now >= start + limit + GRACE {
                child.kill();
                let why = format!("the time limit of {} s was reached", limit.as_secs_f64());
                return Some(schema::failure(CallStatus::TimeLimit, &why));
            }
            let mut wait = (start + limit + GRACE).saturating_duration_since(now);
            if progress_token.is_some() {
                wait = wait.min(next_progress.saturating_duration_since(now));
            }
            match call.events.recv_timeout(wait) {
                Ok(CallEvent::Cancel) => {
                    child.kill();
                    return None;
                }
                Ok(CallEvent::Result(line)) => {
                    // The child has nothing left to do.
                    child.kill();
                    return Some(serde_json::from_slice(&line).unwrap_or_else(|_| {
                        schema::failure(CallStatus::Crashed, "the process of the call has written an invalid result")
                    }));
                }
                // The table keeps a sender, so the channel stays open.
                Ok(CallEvent::Closed) | Err(RecvTimeoutError::Disconnected) => {
                    return Some(schema::failure(CallStatus::Crashed, &child.crash_report()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

fn progress(token: &Value, tool: &Tool, elapsed: Duration, limit: Duration) -> Value {
    // Rounded to milliseconds. The value increases, because the interval is longer.
    let seconds = elapsed.as_millis() as f64 / 1e3;
    let message = format!("{}: {seconds:.1} s of at most {} s", tool.name, limit.as_secs_f64());
    let params = json!({ "progressToken": token, "progress": seconds, "message": message });
    json_rpc::notification("notifications/progress", params)
}

/// The child process of a call. It is killed when this is dropped.
struct CallProcess {
    child: Child,
    /// The child's standard input. When it closes, the child ends.
    _input: ChildStdin,
}

impl CallProcess {
    /// Starts the process of a job. Sends its result, or the end of its output, as an event.
    fn start(job: &str, output_limit: usize, events: Sender<CallEvent>) -> io::Result<CallProcess> {
        let mut command = own_program::command();
        command.arg(job::COMMAND).env_clear();
        // The child enters the root later. An interpreter that Clk is embedded in must not load modules from there.
        command.current_dir(std::path::Path::new("/"));
        if own_program::is_embedded() {
            command.env("PYTHONSAFEPATH", "1").envs(variables(&EMBEDDING_VARIABLES));
        }
        // Windows cannot start a process without this variable.
        #[cfg(windows)]
        command.envs(variables(&["SystemRoot"]));
        // Ctrl-C in a terminal reaches only the server.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        // The child reads the job before it writes. If this fails, the child has ended, and so has its output.
        let _ = input.write_all(job.as_bytes());
        let process = CallProcess { child, _input: input };
        // The limits of text and data, with room for the parts that do not count.
        let most = (output_limit as u64).saturating_mul(2).saturating_add(1 << 20);
        let read = move || drop(events.send(read_result(output, most)));
        std::thread::Builder::new().name("clk-mcp-read".into()).stack_size(64 << 10).spawn(read)?;
        Ok(process)
    }

    fn kill(&mut self) {
        // Fails if the process has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Describes how a process has ended that wrote no result.
    fn crash_report(&mut self) -> String {
        // A process that has closed its output without a result is of no use. Its errors remain in the pipe.
        let _ = self.child.kill();
        let mut errors = vec![];
        if let Some(stderr) = self.child.stderr.take() {
            let _ = stderr.take(MAX_ERRORS).read_to_end(&mut errors);
        }
        let ended = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let errors = String::from_utf8_lossy(&errors);
        format!("{}\nthe process of the call ended without a result ({ended})", errors.trim_end()).trim_start().into()
    }
}

impl Drop for CallProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the variables that are set, with their values.
fn variables(names: &'static [&'static str]) -> impl Iterator<Item = (&'static str, OsString)> {
    names.iter().filter_map(|name| Some((*name, std::env::var_os(name)?)))
}

/// Reads the line with the result.
fn read_result(output: ChildStdout, most: u64) -> CallEvent {
    let mut line = vec![];
    let read = BufReader::new(output.take(most)).read_until(b'\n', &mut line);
    match read {
        Ok(_) if line.last() == Some(&b'\n') => CallEvent::Result(line),
        _ => CallEvent::Closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::options::CallLimits;
    use crate::mcp::tools;

    #[test]
    fn canceled_call_does_not_answer_a_later_one_with_its_id() {
        let sent = Arc::new(Mutex::new(vec![]));
        let output = MessageOutput::to(sent.clone());
        let limits =
            CallLimits { time: Duration::from_secs(1), memory: 1 << 30, launches: 1, output: 100, parallel: 0 };
        let options = McpOptions { root: None, named_root: None, may_write: false, limits };
        // No call runs.
        let table = CallTable::new(Arc::new(options), output.clone());
        let start = || {
            let tool = tools::find("check").expect("the tool");
            let arguments = Arguments::check(tool.parameters, json!({ "source": "" })).expect("valid");
            let target = ReplyTarget::Client(output.clone());
            let request = ToolCallRequest { id: json!(7), tool, arguments, progress_token: None, target };
            table.start(request).expect("a new id");
            let call = table.lock().waiting.pop_back().expect("the call");
            table.lock().waiting_bytes = 0;
            call
        };
        let old = start();
        table.cancel(&json!(7));
        let new = start();
        table.answer(&old, json!("old"));
        assert!(sent.lock().expect("not poisoned").is_empty());
        table.answer(&new, json!("new"));
        table.answer(&new, json!("again"));
        let sent: Vec<Value> =
            sent.lock().expect("not poisoned").iter().map(|answer| answer["result"].clone()).collect();
        assert_eq!(sent, [json!("new")]);
    }
}
