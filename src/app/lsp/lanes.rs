//! Execution of requests: a lane of jobs for each document, with a thread while it has jobs.
//!
//! The thread that reads messages never computes, so that it can always cancel, and a document whose analysis takes long delays no other one.
//! The jobs of a document run in order, publication of its diagnostics last. A job has a [`View`] of the documents at the time of its
//! message. It is stopped by its [flag](stop::Flag), which the compiler polls. The thread that removes the id of a request answers it, so that it
//! has exactly one answer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::answer::{self, Failure};
use super::output::Output;
use super::requests;
use super::view::View;
use crate::app::crash;
use crate::app::stack::{self, STACKS};
use crate::base::stop;

/// Requests that may wait in a lane.
const MOST_WAITING: usize = 1024;
/// How long a request may analyze a text that has changed meanwhile, if the client does not cancel it.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the server computes on after the stream has ended.
const LINGER: Duration = Duration::from_secs(10);

/// What a lane does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Task {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// Sends the diagnostics of the lane's document.
    Publish,
}

struct Job {
    task: Task,
    view: View,
}

/// The job that a lane's thread executes.
struct Running {
    /// The id of a request, until it is answered.
    id: Option<Value>,
    is_publication: bool,
    view: View,
    since: Instant,
    flag: stop::Flag,
}

#[derive(Default)]
struct Lane {
    waiting: VecDeque<Job>,
    running: Option<Running>,
}

#[derive(Default)]
struct State {
    /// Those with jobs, by the address of their document.
    lanes: BTreeMap<String, Lane>,
}

/// All lanes.
pub(crate) struct Lanes {
    state: Mutex<State>,
    idle: Condvar,
    pub output: Output,
}

impl Lanes {
    pub fn new(output: Output) -> Arc<Lanes> {
        Arc::new(Lanes { state: Mutex::default(), idle: Condvar::new(), output })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a job to a lane. A publication replaces one that waits, and lets requests go first.
    pub fn push(self: &Arc<Self>, address: &str, task: Task, view: View) {
        let mut state = self.lock();
        let is_new = !state.lanes.contains_key(address);
        let lane = state.lanes.entry(address.to_owned()).or_default();
        if let Task::Publish = task {
            lane.waiting.retain(|job| job.task != Task::Publish);
        }
        let job = Job { task, view };
        match &job.task {
            Task::Request { id, .. } if lane.waiting.len() >= MOST_WAITING => {
                drop(state);
                let why = "too many requests wait for this document";
                self.output.send(answer::error(id, answer::SERVER_CANCELLED, why));
                return;
            }
            Task::Request { .. } => {
                let last = lane.waiting.iter().position(|job| job.task == Task::Publish);
                lane.waiting.insert(last.unwrap_or(lane.waiting.len()), job);
            }
            Task::Publish => lane.waiting.push_back(job),
        }
        drop(state);
        if is_new {
            self.start(address);
        }
    }

    /// Starts the thread of a lane; without threads, the jobs run here.
    fn start(self: &Arc<Self>, address: &str) {
        for size in STACKS {
            let (lanes, address) = (self.clone(), address.to_owned());
            let work = move || {
                let top = 0u8;
                stack::set_end(std::ptr::from_ref(&top).addr().saturating_sub(size - size / 8));
                lanes.run(&address);
            };
            if std::thread::Builder::new().name("clk-lane".into()).stack_size(size).spawn(work).is_ok() {
                return;
            }
        }
        self.run(address);
    }

    /// Executes the jobs of a lane until it has none.
    fn run(&self, address: &str) {
        while let Some((job, flag)) = self.next(address) {
            let done = crash::survived(|| stop::until_stopped(&flag, || perform(&job, address)));
            let (answered, messages) = match done {
                Ok(Ok(done)) => done,
                // Whoever stopped it has answered.
                Ok(Err(stop::Stopped)) => continue,
                Err(fault) => {
                    let message = format!("{}; see the server's standard error", fault.title);
                    (Err(Failure { code: answer::INTERNAL_ERROR, message }), vec![])
                }
            };
            // A publication of a text that has changed since is followed by another one.
            let id = match self.lock().lanes.get_mut(address).and_then(|lane| lane.running.as_mut()) {
                Some(running) if running.is_publication && flag.load(Ordering::Relaxed) => continue,
                Some(running) => running.id.take(),
                None => continue,
            };
            if id.is_some() || job.task == Task::Publish {
                messages.into_iter().for_each(|message| self.output.send(message));
            }
            if let Some(id) = id {
                self.output.send(match answered {
                    Ok(result) => answer::result(&id, result),
                    Err(failure) => answer::error(&id, failure.code, &failure.message),
                });
            }
        }
    }

    /// Takes the next job of a lane; without one, the lane ends.
    fn next(&self, address: &str) -> Option<(Job, stop::Flag)> {
        let mut state = self.lock();
        let lane = state.lanes.get_mut(address)?;
        lane.running = None;
        let Some(job) = lane.waiting.pop_front() else {
            state.lanes.remove(address);
            self.idle.notify_all();
            return None;
        };
        let id = if let Task::Request { id, .. } = &job.task { Some(id.clone()) } else { None };
        let (flag, view, is_publication) = (stop::Flag::default(), job.view.clone(), id.is_none());
        lane.running = Some(Running { id, is_publication, view, since: Instant::now(), flag: flag.clone() });
        Some((job, flag))
    }

    /// Answers a request that was taken back, and stops it.
    pub fn cancel(&self, id: &Value) {
        let mut state = self.lock();
        let is_meant = |job: &Job| matches!(&job.task, Task::Request { id: own, .. } if own == id);
        let mut found = false;
        for lane in state.lanes.values_mut() {
            let count = lane.waiting.len();
            lane.waiting.retain(|job| !is_meant(job));
            found |= lane.waiting.len() < count;
            if let Some(running) = lane.running.as_mut().filter(|running| running.id.as_ref() == Some(id)) {
                running.id = None;
                running.flag.store(true, Ordering::Relaxed);
                found = true;
            }
        }
        drop(state);
        // One that was answered has no other answer.
        if found {
            self.output.send(answer::error(id, answer::REQUEST_CANCELLED, "it was taken back"));
        }
    }

    /// Stops work on a text that has been replaced: a publication at once, a request that still analyzes the text after [`PATIENCE`].
    pub fn outdate(&self, address: &str) {
        let mut state = self.lock();
        let Some(lane) = state.lanes.get_mut(address) else { return };
        lane.waiting.retain(|job| job.task != Task::Publish);
        let Some(running) = &mut lane.running else { return };
        let is_late = running.since.elapsed() > PATIENCE && !running.view.is_analyzed(address);
        if !running.is_publication && !is_late {
            return;
        }
        running.flag.store(true, Ordering::Relaxed);
        let id = running.id.take();
        drop(state);
        if let Some(id) = id {
            self.output.send(answer::error(&id, answer::CONTENT_MODIFIED, "the text has changed"));
        }
    }

    /// Waits until all jobs are done, or for some time.
    pub fn finish(&self) {
        let end = Instant::now() + LINGER;
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

/// Executes a job; returns the answer, and messages for the client.
fn perform(job: &Job, address: &str) -> (Result<Value, Failure>, Vec<Value>) {
    let mut messages = vec![];
    let answered = match &job.task {
        Task::Request { method, params, .. } => requests::answer(&job.view, method, params, &mut messages),
        Task::Publish => {
            messages.extend(job.view.publication(address));
            Ok(Value::Null)
        }
    };
    (answered, messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns lanes, a view with a document whose analysis never ends, and the list of sent messages.
    fn endless() -> (Arc<Lanes>, View, Arc<Mutex<Vec<Value>>>) {
        let sent = Arc::new(Mutex::new(vec![]));
        let lanes = Lanes::new(Output::to(sent.clone()));
        let mut view = View::default();
        view.open("file:///slow.clk", "print(1)\n".into(), 1);
        view.open("file:///fast.clk", "print(1)\n".into(), 1);
        view.delay("file:///slow.clk");
        (lanes, view, sent)
    }

    fn hover(id: u64, address: &str) -> Task {
        let params = json!({ "textDocument": { "uri": address }, "position": { "line": 0, "character": 1 } });
        Task::Request { id: json!(id), method: "textDocument/hover".into(), params }
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
    fn a_document_that_takes_long_delays_no_other_one() {
        let (lanes, view, sent) = endless();
        let (slow, fast) = ("file:///slow.clk", "file:///fast.clk");
        lanes.push(slow, Task::Publish, view.clone());
        lanes.push(slow, hover(1, slow), view.clone());
        lanes.push(slow, hover(2, slow), view.clone());
        lanes.push(fast, hover(3, fast), view.clone());
        wait(&sent, |all| all.iter().any(|message| message["id"] == 3));
        assert_eq!((code(&sent, 1), code(&sent, 3)), (vec![], vec![Value::Null]));
        // A request that waits, then the one that runs once the publication is stopped.
        lanes.cancel(&json!(2));
        assert_eq!(code(&sent, 2), [json!(answer::REQUEST_CANCELLED)]);
        lanes.outdate(slow);
        lanes.cancel(&json!(1));
        assert_eq!(code(&sent, 1), [json!(answer::REQUEST_CANCELLED)]);
        lanes.cancel(&json!(1));
        lanes.cancel(&json!(3));
        lanes.finish();
        assert!(lanes.lock().lanes.is_empty());
        assert_eq!(sent.lock().expect("messages").len(), 3, "one answer each, and no diagnostics");
    }

    #[test]
    fn a_lane_holds_only_so_many_requests() {
        let (lanes, view, sent) = endless();
        let slow = "file:///slow.clk";
        for id in 0..2 + MOST_WAITING as u64 {
            lanes.push(slow, hover(id, slow), view.clone());
        }
        let last = 1 + MOST_WAITING as u64;
        assert!((0..=last).any(|id| code(&sent, id) == [json!(answer::SERVER_CANCELLED)]));
        for id in 0..=last {
            lanes.cancel(&json!(id));
        }
        lanes.finish();
        let answered = |id| code(&sent, id).len() == 1;
        assert!((0..=last).all(answered), "each request has one answer");
    }
}
