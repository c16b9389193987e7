//! Recovery from the loss of a worker.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use super::super::driver::{Answer, Casualty, Refusal};
use super::remote::{Link, Remote, Wire, does_not_start, gone, ready};
use super::wire::{Reply, Request};
use super::{Role, code};

impl Remote {
    /// Ends the old worker and replaces it by a new one. `why` is the driver's error, if there was one; returns the error to
    /// report to the program.
    pub(super) fn replace(&self, link: &mut Link, why: Option<Refusal>) -> Refusal {
        let begin = Instant::now();
        let old = link.worker.take();
        if let Some(old) = &old {
            old.child.kill();
        }
        // The new worker starts while the old one ends.
        let next = self.starter.start(Role::Worker, self.properties.ordinal, &self.segment);
        let (ended, stopped) = match &old {
            Some(old) => (old.child.wait(), old.child.is_stopped()),
            None => (Some("there was none".into()), false),
        };
        if ended.is_none() {
            link.ending = old.map(|old| old.child.clone());
        }
        link.journal.done(self.segment.done());
        let lost = link.journal.take_launches();
        let result = match ended {
            Some(_) => {
                next.map_err(|error| gone(error.to_string())).and_then(|next| self.install(link, Wire::new(next)))
            }
            None => Err(still_ending()),
        };
        link.casualty = Some(Casualty {
            launch: lost.running,
            waiting: lost.waiting,
            stopped,
            replaced: result.as_ref().ok().map(|()| begin.elapsed().as_secs_f64()),
            problem: result.err().map(|refusal| refusal.name),
        });
        let call = Cow::Borrowed("the worker");
        match (stopped, why) {
            (true, _) => Refusal { call, code: code::STOPPED, name: "it was stopped".into() },
            (false, Some(refusal)) => refusal,
            (false, None) => {
                let name = ended.unwrap_or_else(|| "it was killed and has not ended".into());
                Refusal { call, code: code::ENDED, name }
            }
        }
    }

    /// Tries again to start a worker where there is none.
    pub(super) fn start_again(&self, link: &mut Link) -> Answer {
        if let Some(old) = &link.ending {
            old.wait().ok_or_else(still_ending)?;
            link.ending = None;
        }
        let next = self.starter.start(Role::Worker, self.properties.ordinal, &self.segment);
        let next = next.map_err(|error| gone(format!("it does not start: {error}")))?;
        // The last worker may have completed operations after its launches were given up.
        link.journal.done(self.segment.done());
        self.install(link, Wire::new(next))
    }

    /// Installs a new worker: maps the memory, and sends the pending operations on memory. If that fails, they stay pending.
    fn install(&self, link: &mut Link, mut worker: Wire) -> Answer {
        match worker.read() {
            Ok(Reply::Properties(_)) => ready(&mut worker)?,
            Ok(Reply::Absent(why)) => return Err(gone(why)),
            _ => return Err(does_not_start(&worker)),
        }
        link.generation += 1;
        let broken = |error: io::Error| gone(format!("it does not get ready: {error}"));
        let done = |reply| match reply {
            Reply::Done => Ok(()),
            Reply::Refused(refusal) => Err(refusal),
            _ => Err(gone("it answers what was not asked".into())),
        };
        // Both sides count the operations below.
        let number = link.journal.renumber(link.held.len());
        worker.send(&Request::Begin { number }.encode()).map_err(broken)?;
        for (&arena, &handle) in &link.handles {
            done(worker.ask(&Request::Map { arena, handle }).map_err(broken)?)?;
        }
        for message in link.journal.memory() {
            worker.send(message).map_err(broken)?;
        }
        // Arenas have new addresses in the new worker.
        let mut resolved = BTreeMap::new();
        for (&to, &address) in &link.held {
            let place = match resolved.get(&address) {
                Some(&place) => place,
                None => match worker.ask(&Request::Resolve { address }).map_err(broken)? {
                    Reply::Place(place) => *resolved.entry(address).or_insert(place),
                    _ => return Err(gone("it answers what was not asked".into())),
                },
            };
            let bytes = Cow::Owned(place.to_le_bytes().to_vec());
            worker.send(&Request::Upload { to, bytes }.encode()).map_err(broken)?;
        }
        done(worker.ask(&Request::Synchronize).map_err(broken)?)?;
        link.journal.done(self.segment.done());
        link.worker = Some(worker);
        Ok(())
    }
}

/// The error of starting a worker while the last one still runs: it could write to memory that the new one has set up.
fn still_ending() -> Refusal {
    gone(
        "the last one was killed and has not ended; until it has, its kernel can still write to the GPU's memory"
            .into(),
    )
}
