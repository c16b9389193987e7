//! Parallel loops on the simulator's workers, for host work such as copying data.
//!
//! Input: items and a closure. When [`parallel_for`] returns, all items have been processed, unless the calling thread
//! received a stop request. Each worker repeatedly takes the next unprocessed item.

use std::sync::{Mutex, PoisonError};

use super::sched;
use clk_base::stop;

/// Calls `work` for all items on this many workers; 0 means the number of threads that the machine runs at once.
pub fn parallel_for<T>(workers: usize, items: impl Iterator<Item = T> + Send, work: impl Fn(T) + Sync) {
    let workers = sched::worker_count(workers);
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
    sched::run_shared(workers - 1, &|| stop::with_flag(flag.clone(), until_none));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use clk_base::stop::StopFlag;

    #[test]
    fn each_item_is_processed_once() {
        for workers in [0, 1, 2, 7] {
            let mut bytes = vec![0u8; 1000];
            parallel_for(workers, bytes.chunks_mut(7).enumerate(), |(number, part)| {
                part.iter_mut().for_each(|byte| *byte += number as u8);
            });
            assert!(bytes.iter().enumerate().all(|(i, &byte)| byte == (i / 7) as u8), "{workers} workers");
        }
    }

    #[test]
    fn stop_request_ends_all_workers() {
        let (flag, done) = (StopFlag::default(), AtomicUsize::new(0));
        let stopped = stop::until_stopped(&flag, || {
            parallel_for(3, 0..1000, |_| {
                if done.fetch_add(1, Ordering::Relaxed) == 5 {
                    flag.store(true, Ordering::Relaxed);
                }
            });
        });
        assert!(stopped.is_err() && done.load(Ordering::Relaxed) < 1000);
    }
}
