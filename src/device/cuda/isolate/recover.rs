//! Recovery from the loss of a worker.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use super::super::driver::{Answer, Casualty, Refusal};
use super::remote::{Link, Remote, Wire, gone, ready};
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
        // Once it has ended, its kernels have too, and nothing writes to the memory any more.
        let (ended, stopped) = match &old {
            Some(old) => (old.child.wait(), old.child.is_stopped()),
            None => ("there was none".into(), false),
        };
        drop(old);
        link.journal.done(self.segment.done());
        let left = link.journal.take();
        let result = next
            .map_err(|error| gone(error.to_string()))
            .and_then(|next| self.install(link, Wire::new(next), &left.memory));
        link.casualty = Some(Casualty {
            launch: left.running,
            waiting: left.waiting,
            stopped,
            replaced: result.as_ref().ok().map(|()| begin.elapsed().as_secs_f64()),
            problem: result.err().map(|refusal| refusal.name),
        });
        let call = Cow::Borrowed("the worker");
        match (stopped, why) {
            (true, _) => Refusal { call, code: code::STOPPED, name: "it was stopped".into() },
            (false, Some(refusal)) => refusal,
            (false, None) => Refusal { call, code: code::ENDED, name: ended },
        }
    }

    /// Tries again to start a worker where there is none.
    pub(super) fn start_again(&self, link: &mut Link) -> Answer {
        let next = self.starter.start(Role::Worker, self.properties.ordinal, &self.segment);
        let next = next.map_err(|error| gone(format!("it does not start: {error}")))?;
        let left = link.journal.take();
        self.install(link, Wire::new(next), &left.memory)
    }

    /// Installs a new worker: maps the memory, and sends the old worker's pending operations on memory.
    fn install(&self, link: &mut Link, mut worker: Wire, memory: &[Vec<u8>]) -> Answer {
        match worker.read() {
            Ok(Reply::Properties(_)) => ready(&mut worker)?,
            Ok(Reply::Absent(why)) => return Err(gone(why)),
            _ => return Err(gone(format!("it does not start: {}", worker.child.wait()))),
        }
        link.generation += 1;
        let broken = |error: io::Error| gone(format!("it does not get ready: {error}"));
        let done = |reply| match reply {
            Reply::Done => Ok(()),
            Reply::Refused(refusal) => Err(refusal),
            _ => Err(gone("it answers what was not asked".into())),
        };
        // Both sides count the operations below.
        let again = memory.len() + link.held.len();
        let number = link.journal.number().wrapping_sub(again as u32);
        worker.send(&Request::Begin { number }.encode()).map_err(broken)?;
        for (&arena, &handle) in &link.handles {
            done(worker.ask(&Request::Map { arena, handle }).map_err(broken)?)?;
        }
        for message in memory {
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
        link.worker = Some(worker);
        Ok(())
    }
}
