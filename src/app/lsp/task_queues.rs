//! Executes requests in one task queue for each document. Each nonempty queue has a thread.
//!
//! The thread that reads messages never executes tasks, so that it can always cancel them. A slow analysis does not
//! delay requests for other documents. The tasks of a document run in order, and the publication of its diagnostics
//! runs last. Each task uses a snapshot of the documents from the time of its message. A task is stopped by its
//! [flag](stop::StopFlag), which the compiler polls. The answer to a request is sent by the thread that removes the
//! request's id, so that each request gets exactly one answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::requests;
use super::snapshot::DocumentsView;
use crate::crash;
use crate::json_rpc::{self, MessageOutput, RequestError};
use crate::stack::{self, STACKS};
use clk_base::stop;

/// Maximum number of requests that wait in a queue.
const MAX_WAITING: usize = 1024;
/// How long a request may continue to analyze a text that has changed meanwhile, unless the client cancels it.
const OUTDATED_TIMEOUT: Duration = Duration::from_secs(20);
/// After the input stream has ended, how long to wait for the remaining tasks.
const FINISH_TIMEOUT: Duration = Duration::from_secs(10);

/// A task of a queue.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LspTask {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// Publishes the diagnostics of the document.
    Publish,
    /// Searches for faults in the next kernel of a CUDA file, and publishes them.
    SearchFaults,
}

impl LspTask {
    fn is_request(&self) -> bool {
        matches!(self, LspTask::Request { .. })
    }
}

struct QueuedTask {
    task: LspTask,
    view: DocumentsView,
}

/// The task that a queue's thread executes.
struct RunningTask {
    /// The id of the request that is executed; `None` after it was answered, and for other tasks.
    id: Option<Value>,
    is_request: bool,
    view: DocumentsView,
    since: Instant,
    flag: stop::StopFlag,
}

#[derive(Default)]
struct TaskQueue {
    waiting: VecDeque<QueuedTask>,
    running: Option<RunningTask>,
}

#[derive(Default)]
struct QueueState {
    /// The nonempty queues, keyed by the URI of their document.
    lanes: BTreeMap<String, TaskQueue>,
}

/// The queues of all documents.
pub(crate) struct TaskQueues {
    state: Mutex<QueueState>,
    idle: Condvar,
    pub output: MessageOutput,
}

impl TaskQueues {
    pub fn new(output: MessageOutput) -> Arc<TaskQueues> {
        Arc::new(TaskQueues { state: Mutex::default(), idle: Condvar::new(), output })
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a task to the queue of a document. Requests are inserted before a waiting publication, and a new
    /// publication replaces a waiting one.
    pub fn push(self: &Arc<Self>, address: &str, task: LspTask, view: DocumentsView) {
        let mut state = self.lock();
        let is_new = !state.lanes.contains_key(address);
        let lane = state.lanes.entry(address.to_owned()).or_default();
        if !task.is_request() {
            lane.waiting.retain(|job| job.task.is_request());
        }
        let job = QueuedTask { task, view };
        match &job.task {
            LspTask::Request { id, .. } if lane.waiting.len() >= MAX_WAITING => {
                drop(state);
                let why = "too many requests wait for this document";
                self.output.send(json_rpc::error_response(id, json_rpc::SERVER_CANCELLED, why));
                return;
            }
            LspTask::Request { .. } => {
                let last = lane.waiting.iter().position(|job| !job.task.is_request());
                lane.waiting.insert(last.unwrap_or(lane.waiting.len()), job);
            }
            LspTask::Publish | LspTask::SearchFaults => lane.waiting.push_back(job),
        }
        drop(state);
        if is_new {
            self.start(address);
        }
    }

    /// Starts the thread of a queue. If the system provides no thread, executes the tasks in the current one.
    fn start(self: &Arc<Self>, address: &str) {
        for size in STACKS {
            let (lanes, address) = (self.clone(), address.to_owned());
            let work = move || {
                let top = 0u8;
                stack::set_stack_end(std::ptr::from_ref(&top).addr().saturating_sub(size - size / 8));
                lanes.run(&address);
            };
            if std::thread::Builder::new().name("clk-lane".into()).stack_size(size).spawn(work).is_ok() {
                return;
            }
        }
        self.run(address);
    }

    /// Executes the tasks of a queue until it is empty.
    fn run(&self, address: &str) {
        while let Some((job, flag)) = self.next(address) {
            let done = crash::catch_panic(|| stop::until_stopped(&flag, || perform(&job, address)));
            let (answered, messages) = match done {
                Ok(Ok(done)) => done,
                // The thread that stopped this task has already answered the request.
                Ok(Err(stop::Stopped)) => continue,
                Err(fault) => {
                    let message = format!("{}; see the server's standard error", fault.title);
                    (Err(RequestError { code: json_rpc::INTERNAL_ERROR, message }), vec![])
                }
            };
            // The text has changed during the publication, and another publication follows. The outdated diagnostics
            // are not sent.
            let id = match self.lock().lanes.get_mut(address).and_then(|lane| lane.running.as_mut()) {
                Some(running) if !running.is_request && flag.load(Ordering::Relaxed) => continue,
                Some(running) => running.id.take(),
                None => continue,
            };
            if id.is_some() || !job.task.is_request() {
                messages.into_iter().for_each(|message| self.output.send(message));
            }
            if !job.task.is_request() && job.view.has_unsearched(address) {
                self.continue_search(address, job.view, &flag);
            }
            if let Some(id) = id {
                self.output.send(match answered {
                    Ok(result) => json_rpc::result_response(&id, result),
                    Err(failure) => json_rpc::error_response(&id, failure.code, &failure.message),
                });
            }
        }
    }

    /// Adds the search for faults in the next kernel after the waiting requests, unless the text has changed.
    fn continue_search(&self, address: &str, view: DocumentsView, flag: &stop::StopFlag) {
        let mut state = self.lock();
        let Some(lane) = state.lanes.get_mut(address) else { return };
        if !flag.load(Ordering::Relaxed) && lane.waiting.iter().all(|job| job.task.is_request()) {
            lane.waiting.push_back(QueuedTask { task: LspTask::SearchFaults, view });
        }
    }

    /// Takes the next task of a queue; removes the queue if it is empty.
    fn next(&self, address: &str) -> Option<(QueuedTask, stop::StopFlag)> {
        let mut state = self.lock();
        let lane = state.lanes.get_mut(address)?;
        lane.running = None;
        let Some(job) = lane.waiting.pop_front() else {
            state.lanes.remove(address);
            self.idle.notify_all();
            return None;
        };
        let id = if let LspTask::Request { id, .. } = &job.task { Some(id.clone()) } else { None };
        let (flag, view, is_request) = (stop::StopFlag::default(), job.view.clone(), job.task.is_request());
        lane.running = Some(RunningTask { id, is_request, view, since: Instant::now(), flag: flag.clone() });
        Some((job, flag))
    }

    /// Removes or stops a request that the client has canceled, and answers it.
    pub fn cancel(&self, id: &Value) {
        let mut state = self.lock();
        let is_meant = |job: &QueuedTask| matches!(&job.task, LspTask::Request { id: own, .. } if own == id);
        let mut is_pending = false;
        for lane in state.lanes.values_mut() {
            let count = lane.waiting.len();
            lane.waiting.retain(|job| !is_meant(job));
            is_pending |= lane.waiting.len() < count;
            if let Some(running) = lane.running.as_mut().filter(|running| running.id.as_ref() == Some(id)) {
                running.id = None;
                running.flag.store(true, Ordering::Relaxed);
                is_pending = true;
            }
        }
        drop(state);
        // A request that was answered before it was canceled gets no second answer.
        if is_pending {
            self.output.send(json_rpc::error_response(id, json_rpc::REQUEST_CANCELLED, "it was taken back"));
        }
    }

    /// Stops outdated work after a text has changed. A publication or search is stopped at once. A request is stopped
    /// only if it has run for more than [`OUTDATED_TIMEOUT`] and is still analyzing the text.
    pub fn outdate(&self, address: &str) {
        let mut state = self.lock();
        let Some(lane) = state.lanes.get_mut(address) else { return };
        lane.waiting.retain(|job| job.task.is_request());
        let Some(running) = &mut lane.running else { return };
        let is_late = running.since.elapsed() > OUTDATED_TIMEOUT && !running.view.is_analyzed(address);
        if running.is_request && !is_late {
            return;
        }
        running.flag.store(true, Ordering::Relaxed);
        let id = running.id.take();
        drop(state);
        if let Some(id) = id {
            self.output.send(json_rpc::error_response(&id, json_rpc::CONTENT_MODIFIED, "the text has changed"));
        }
    }

    /// Waits until all queues are empty, but at most for [`FINISH_TIMEOUT`].
    pub fn finish(&self) {
        let end = Instant::now() + FINISH_TIMEOUT;
        let mut state = self.lock();
        while !state.lanes.is_empty() && !self.output.is_closed() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.idle.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Executes a task; returns the answer of a request, and messages to send to the client.
fn perform(job: &QueuedTask, address: &str) -> (Result<Value, RequestError>, Vec<Value>) {
    let mut messages = vec![];
    let answered = match &job.task {
        LspTask::Request { method, params, .. } => requests::answer(&job.view, method, params, &mut messages),
        LspTask::Publish => {
            messages.extend(job.view.publication(address));
            Ok(Value::Null)
        }
        LspTask::SearchFaults => {
            messages.extend(job.view.fault_publication(address));
            Ok(Value::Null)
        }
    };
    (answered, messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// For tests: returns queues, a snapshot with a document whose analysis never ends, and the list of messages sent.
    fn endless() -> (Arc<TaskQueues>, DocumentsView, Arc<Mutex<Vec<Value>>>) {
        let sent = Arc::new(Mutex::new(vec![]));
        let lanes = TaskQueues::new(MessageOutput::to(sent.clone()));
        let mut view = DocumentsView::default();
        view.open("file:///slow.clk", "clk", "print(1)\n".into(), 1);
        view.open("file:///fast.clk", "clk", "print(1)\n".into(), 1);
        view.delay("file:///slow.clk");
        (lanes, view, sent)
    }

    fn hover(id: u64, address: &str) -> LspTask {
        let params = json!({ "textDocument": { "uri": address }, "position": { "line": 0, "character": 1 } });
        LspTask::Request { id: json!(id), method: "textDocument/hover".into(), params }
    }

    fn wait(sent: &Mutex<Vec<Value>>, is_there: impl Fn(&[Value]) -> bool) {
        while !is_there(&sent.lock().expect("messages")) {
            std::thread::yield_now();
        }
    }

    fn code(sent: &Mutex<Vec<Value>>, id: u64) -> Vec<Value> {
        let sent = sent.lock().expect("messages");
        sent.iter().filter(|message| message["id"] == id).map(|message| message["error"]["code"].clone()).collect()
    }

    #[test]
    fn slow_document_does_not_delay_others() {
        let (lanes, view, sent) = endless();
        let (slow, fast) = ("file:///slow.clk", "file:///fast.clk");
        lanes.push(slow, LspTask::Publish, view.clone());
        lanes.push(slow, hover(1, slow), view.clone());
        lanes.push(slow, hover(2, slow), view.clone());
        lanes.push(fast, hover(3, fast), view.clone());
        wait(&sent, |all| all.iter().any(|message| message["id"] == 3));
        assert_eq!((code(&sent, 1), code(&sent, 3)), (vec![], vec![Value::Null]));
        // Cancels a request that waits. Then cancels one that is running, because the publication before it was
        // stopped.
        lanes.cancel(&json!(2));
        assert_eq!(code(&sent, 2), [json!(json_rpc::REQUEST_CANCELLED)]);
        lanes.outdate(slow);
        lanes.cancel(&json!(1));
        assert_eq!(code(&sent, 1), [json!(json_rpc::REQUEST_CANCELLED)]);
        lanes.cancel(&json!(1));
        lanes.cancel(&json!(3));
        lanes.finish();
        assert!(lanes.lock().lanes.is_empty());
        assert_eq!(sent.lock().expect("messages").len(), 3, "one answer each, and no diagnostics");
    }

    #[test]
    fn queue_length_is_limited() {
        let (lanes, view, sent) = endless();
        let slow = "file:///slow.clk";
        for id in 0..2 + MAX_WAITING as u64 {
            lanes.push(slow, hover(id, slow), view.clone());
        }
        let last = 1 + MAX_WAITING as u64;
        assert!((0..=last).any(|id| code(&sent, id) == [json!(json_rpc::SERVER_CANCELLED)]));
        for id in 0..=last {
            lanes.cancel(&json!(id));
        }
        lanes.finish();
        let answered = |id| code(&sent, id).len() == 1;
        assert!((0..=last).all(answered), "each request has one answer");
    }
}
