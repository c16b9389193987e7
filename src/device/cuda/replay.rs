//! Launches as data, so that one that killed its process can be run again on the simulator, which finds the faulty line.
//!
//! The arrays are those that the lost process left: arrays that a kernel only reads are unchanged, arrays that it also writes may
//! not be.

mod record;

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

pub use self::record::Replays;
use self::record::judge;
pub(crate) use self::record::{Kept, Record};
use super::context::Context;
use super::driver::{Casualty, Refusal};
use crate::device::{Device, DeviceError, Loss, Verdict};

/// More than a driver has pending.
const MOST: usize = 4096;
/// How long the simulator searches for a fault, and for the location of a kernel that does not end.
const LONGEST: Duration = Duration::from_secs(5);
const LONGEST_STOPPED: Duration = Duration::from_secs(1);

impl Context {
    /// Returns whether kernels run in a separate process.
    pub fn is_isolated(&self) -> bool {
        self.witness().is_some()
    }

    #[cfg(target_os = "linux")]
    fn witness(&self) -> Option<Arc<dyn Device>> {
        self.settings.isolation.as_ref().map(|isolation| isolation.witness.clone())
    }

    #[cfg(not(target_os = "linux"))]
    fn witness(&self) -> Option<Arc<dyn Device>> {
        None
    }

    /// Records the launches that are passed to the driver next, as one.
    pub fn keep(&self, records: impl IntoIterator<Item = Arc<Record>>) {
        let mut records = records.into_iter().peekable();
        if records.peek().is_none() {
            return;
        }
        let Some(driver) = self.opened() else { return };
        let number = driver.launched() + 1;
        let mut kept = self.replays.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(records.map(|record| (number, record)));
        let over = kept.len().saturating_sub(MOST);
        kept.drain(..over);
    }

    /// Waits for recorded launches, and then drops them.
    pub fn settle(&self) -> Result<(), DeviceError> {
        let is_empty = self.replays.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if !is_empty {
            self.call(|driver| driver.synchronize())?;
            self.forget_replays();
        }
        Ok(())
    }

    /// Drops all recorded launches, which are done.
    pub fn forget_replays(&self) {
        self.replays.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Returns the loss that a failed driver call reports; `None` if no process was lost.
    pub fn loss(&self, refusal: &Refusal) -> Option<Loss> {
        let witness = self.witness()?;
        let driver = self.opened()?;
        let casualty = driver.take_casualty()?;
        self.stale.store(true, Ordering::Relaxed);
        let kept = std::mem::take(&mut *self.replays.0.lock().unwrap_or_else(PoisonError::into_inner));
        let of_number = |(number, record)| (Some(number) == casualty.launch).then_some(record);
        let suspects: Vec<Arc<Record>> = kept.into_iter().filter_map(of_number).collect();
        let longest = if casualty.stopped { LONGEST_STOPPED } else { LONGEST };
        let (guilty, verdict) = match &casualty.problem {
            Some(_) => (suspects.first(), Verdict::Untried("the arrays cannot be reached".into())),
            None => judge(&suspects, &*witness, &**driver, longest),
        };
        let kernel = guilty.map(|record| {
            let kernel = &record.kernel.module.kernel;
            (kernel.name.to_string(), kernel.span)
        });
        let launched = guilty.map(|record| record.launched);
        let how = format!("{} says {}", refusal.call, refusal.name);
        let Casualty { waiting, stopped, replaced, problem, .. } = casualty;
        let replaced = replaced.ok_or_else(|| problem.unwrap_or_default());
        Some(Loss { device: self.name.clone(), how, stopped, kernel, launched, waiting, replaced, verdict })
    }
}
