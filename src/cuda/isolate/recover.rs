//! Recovery from the loss of a worker.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use super::super::driver::{DriverError, DriverResult, StickyError};
use super::code;
use super::remote::{ChildSocket, IsolatedGpu, WorkerLink, does_not_start, wait_until_ready, worker_gone};
use super::wire::{WorkerReply, WorkerRequest};
use clk_runtime::worker_process::ChildRole;

impl IsolatedGpu {
    /// Ends the worker and replaces it by a new one. `why` is the driver's error, if there was one. Returns the error
    /// to report to the program.
    pub(super) fn replace_worker(&self, link: &mut WorkerLink, why: Option<DriverError>) -> DriverError {
        let begin = Instant::now();
        let old = link.worker.take();
        if let Some(old) = &old {
            old.child.kill();
        }
        // Start the new worker while the old one ends.
        let next = self.starter.start(ChildRole::Worker, self.properties.ordinal, &self.segment);
        let (ended, stopped) = match &old {
            Some(old) => (old.child.wait(), old.child.is_stopped()),
            None => (Some("there was none".into()), false),
        };
        if ended.is_none() {
            link.ending = old.map(|old| old.child.clone());
        }
        link.journal.remove_completed(self.segment.done());
        let lost_launches = link.journal.take_launches();
        let result = match ended {
            Some(_) => next
                .map_err(|error| worker_gone(error.to_string()))
                .and_then(|next| self.install_worker(link, ChildSocket::new(next))),
            None => Err(still_ending()),
        };
        link.sticky_error = Some(StickyError {
            launch: lost_launches.running,
            waiting: lost_launches.waiting,
            stopped,
            replaced: result.as_ref().ok().map(|()| begin.elapsed().as_secs_f64()),
            problem: result.err().map(|refusal| refusal.name),
        });
        let call = Cow::Borrowed("the worker");
        match (stopped, why) {
            (true, _) => DriverError { call, code: code::STOPPED, name: "it was stopped".into() },
            (false, Some(refusal)) => refusal,
            (false, None) => {
                let name = ended.unwrap_or_else(|| "it was killed and has not ended".into());
                DriverError { call, code: code::ENDED, name }
            }
        }
    }

    /// Starts a worker after an earlier attempt to replace the lost worker failed.
    pub(super) fn start_again(&self, link: &mut WorkerLink) -> DriverResult {
        if let Some(old) = &link.ending {
            old.wait().ok_or_else(still_ending)?;
            link.ending = None;
        }
        let next = self.starter.start(ChildRole::Worker, self.properties.ordinal, &self.segment);
        let next = next.map_err(|error| worker_gone(format!("it does not start: {error}")))?;
        // The lost worker may have completed operations after its launches were removed from the journal.
        link.journal.remove_completed(self.segment.done());
        self.install_worker(link, ChildSocket::new(next))
    }

    /// Sets up a new worker: lets it map the memory, and sends it the pending operations on memory. If this fails, the
    /// operations stay pending.
    fn install_worker(&self, link: &mut WorkerLink, mut worker: ChildSocket) -> DriverResult {
        match worker.read() {
            Ok(WorkerReply::Properties(_)) => wait_until_ready(&mut worker)?,
            Ok(WorkerReply::Absent(why)) => return Err(worker_gone(why)),
            _ => return Err(does_not_start(&worker)),
        }
        link.generation += 1;
        let broken = |error: io::Error| worker_gone(format!("it does not get ready: {error}"));
        let done = |reply| match reply {
            WorkerReply::Done => Ok(()),
            WorkerReply::Refused(refusal) => Err(refusal),
            _ => Err(worker_gone("it answers what was not asked".into())),
        };
        // Renumber the pending operations, because the new worker counts the operations that are sent below.
        let number = link.journal.renumber(link.resolved_addresses.len());
        worker.send(&WorkerRequest::Begin { number }.encode()).map_err(broken)?;
        for (&arena, &handle) in &link.handles {
            done(worker.ask(&WorkerRequest::Map { arena, handle }).map_err(broken)?)?;
        }
        for message in link.journal.memory() {
            worker.send(message).map_err(broken)?;
        }
        // Arenas have different addresses in the new worker, so the resolved addresses in GPU memory must be rewritten.
        let mut resolved = BTreeMap::new();
        for (&to, &address) in &link.resolved_addresses {
            let place = match resolved.get(&address) {
                Some(&place) => place,
                None => match worker.ask(&WorkerRequest::Resolve { address }).map_err(broken)? {
                    WorkerReply::Place(place) => *resolved.entry(address).or_insert(place),
                    _ => return Err(worker_gone("it answers what was not asked".into())),
                },
            };
            let bytes = Cow::Owned(place.to_le_bytes().to_vec());
            worker.send(&WorkerRequest::Upload { to, bytes }.encode()).map_err(broken)?;
        }
        done(worker.ask(&WorkerRequest::Synchronize).map_err(broken)?)?;
        link.journal.remove_completed(self.segment.done());
        link.worker = Some(worker);
        Ok(())
    }
}

/// Returns the error for a lost worker that has not ended yet. A new worker must not start before, because the old one
/// could still write to the shared memory.
fn still_ending() -> DriverError {
    worker_gone(
        "the last one was killed and has not ended; until it has, its kernel can still write to the GPU's memory"
            .into(),
    )
}
