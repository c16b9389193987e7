//! Post-mortem replay: launches are recorded so that the simulator can replay the launch that killed its worker and
//! find the faulty line.
//!
//! The replay uses the arrays as the lost worker left them. Arrays that the kernel only reads are unchanged; arrays
//! that it also writes may have changed.

mod record;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

pub use self::record::Replays;
use self::record::replay_suspects;
pub(crate) use self::record::{LaunchRecord, RecordedArg};
use super::context::GpuContext;
use super::driver::{DriverError, StickyError};
use clk_runtime::{Device, DeviceError, ReplayVerdict, WorkerLoss};

/// Maximum number of recorded launches, which exceeds the number of launches that a driver queues.
const MOST: usize = 4096;
/// Time limits of a replay: `LONGEST` for finding a fault, `LONGEST_STOPPED` for finding the location of a kernel that
/// the user stopped.
const LONGEST: Duration = Duration::from_secs(5);
const LONGEST_STOPPED: Duration = Duration::from_secs(1);

impl GpuContext {
    /// Returns whether kernels run in a worker process.
    pub fn is_isolated(&self) -> bool {
        self.replay_device().is_some()
    }

    #[cfg(target_os = "linux")]
    fn replay_device(&self) -> Option<Arc<dyn Device>> {
        self.settings.isolation.as_ref().map(|isolation| isolation.replay_device.clone())
    }

    #[cfg(not(target_os = "linux"))]
    fn replay_device(&self) -> Option<Arc<dyn Device>> {
        None
    }

    /// Records launches that the driver is about to receive as one operation (a single launch or a graph).
    pub fn record_replays(&self, records: impl IntoIterator<Item = Arc<LaunchRecord>>) {
        let mut records = records.into_iter().peekable();
        if records.peek().is_none() {
            return;
        }
        let Some(driver) = self.driver_if_open() else { return };
        let number = driver.launched() + 1;
        let mut launches = self.replays.0.lock().unwrap_or_else(PoisonError::into_inner);
        launches.extend(records.map(|record| (number, record)));
        let over = launches.len().saturating_sub(MOST);
        launches.drain(..over);
    }

    /// Waits for the recorded launches, and then drops the records.
    pub fn wait_for_recorded(&self) -> Result<(), DeviceError> {
        let is_empty = self.replays.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if !is_empty {
            self.call(|driver| driver.synchronize())?;
            self.forget_replays();
        }
        Ok(())
    }

    /// Drops all recorded launches. They must be done.
    pub fn forget_replays(&self) {
        self.replays.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// If a driver call failed because its worker was lost, replays the launch and returns the cause. Otherwise,
    /// returns `None`.
    pub fn worker_loss(&self, refusal: &DriverError) -> Option<WorkerLoss> {
        let simulator = self.replay_device()?;
        let driver = self.driver_if_open()?;
        let error = driver.take_sticky_error()?;
        self.are_records_stale.store(true, Ordering::Relaxed);
        let launches = std::mem::take(&mut *self.replays.0.lock().unwrap_or_else(PoisonError::into_inner));
        let of_number = |(number, record)| (Some(number) == error.launch).then_some(record);
        let suspects: Vec<Arc<LaunchRecord>> = launches.into_iter().filter_map(of_number).collect();
        let longest = if error.stopped { LONGEST_STOPPED } else { LONGEST };
        let (guilty, verdict) = match &error.problem {
            Some(_) => (suspects.first(), ReplayVerdict::NotRun("the arrays cannot be reached".into())),
            None => replay_suspects(&suspects, &*simulator, &**driver, longest),
        };
        let kernel = guilty.map(|record| {
            let kernel = &record.kernel.module.kernel;
            (kernel.name.to_string(), kernel.span)
        });
        let origin = guilty.map(|record| record.origin);
        let cause = format!("{} says {}", refusal.call, refusal.name);
        let StickyError { waiting, stopped, replaced, problem, .. } = error;
        let replaced = replaced.ok_or_else(|| problem.unwrap_or_default());
        Some(WorkerLoss { device: self.name.clone(), cause, stopped, kernel, origin, waiting, replaced, verdict })
    }
}
