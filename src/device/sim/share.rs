//! Work of the host on the simulator's workers: moving data that no kernel computes.
//!
//! In: items, and what to do with each; out: all is done when [`each`] returns. Workers take the next item when they are done with one, and
//! stop where the thread that shares its work is asked to.

use std::sync::{Mutex, PoisonError};

use super::sched;
use crate::base::stop;

/// Does the work of all items on so many workers, where 0 means as many as the machine runs at once.
pub fn each<T>(workers: usize, items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let workers = sched::machine(workers);
    if workers <= 1 {
        return items.for_each(work);
    }
    let (items, flag) = (Mutex::new(items), stop::flag());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let until_none = || {
        while let Some(item) = next() {
            stop::poll();
            work(item);
        }
    };
    sched::shared(workers - 1, &|| stop::watched(flag.clone(), until_none));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::base::stop::Flag;

    #[test]
    fn every_item_is_worked_on_once() {
        for workers in [0, 1, 2, 7] {
            let mut bytes = vec![0u8; 1000];
            each(workers, bytes.chunks_mut(7).enumerate(), |(number, part)| {
                part.iter_mut().for_each(|byte| *byte += number as u8);
            });
            assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == (i / 7) as u8), "{workers} workers");
        }
    }

    #[test]
    fn all_workers_stop_when_asked_to() {
        let (flag, done) = (Flag::default(), AtomicUsize::new(0));
        let stopped = stop::until_stopped(&flag, || {
            each(3, 0..1000, |_| {
                if done.fetch_add(1, Ordering::Relaxed) == 5 {
                    flag.store(true, Ordering::Relaxed);
                }
            });
        });
        assert!(stopped.is_err() && done.load(Ordering::Relaxed) < 1000);
    }
}
