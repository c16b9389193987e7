//! Launches as data, so that one that killed its process can be run again on the simulator, which finds the faulty line.
//!
//! The arrays are those that the lost process left: arrays that a kernel only reads are unchanged, arrays that it also writes may
//! not be.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use super::context::Context;
use super::driver::{Address, Answer, Casualty, Driver, Refusal};
use crate::base::aligned::AlignedBytes;
use crate::base::source::Span;
use crate::device::storage::Storage;
use crate::device::{Arg, Control, Device, DeviceError, Extents, FaultKind, Loss, Verdict, size};
use crate::ir::Prepared;
use crate::lang::scalar::Value;

/// One launch.
pub(crate) struct Record {
    pub kernel: Arc<Prepared>,
    /// The statement that launches.
    pub launched: Span,
    pub extents: Extents,
    pub args: Vec<Kept>,
}

/// One argument of a launch.
pub(crate) enum Kept {
    Value(Vec<Value>),
    /// Memory that was not written since the process was lost.
    Array {
        address: Address,
        bytes: u64,
        shape: Vec<u32>,
        writes: bool,
    },
}

/// The last launches, by the numbers that the driver assigns. The launches of a graph share one number.
#[derive(Default)]
pub(crate) struct Replays(Mutex<VecDeque<(u64, Arc<Record>)>>);

/// More than a driver has pending.
const MOST: usize = 4096;
/// The largest total size of arrays with which a launch is run again.
const LARGEST: u64 = 1 << 30;
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

/// Runs launches again until one fails or does not end.
fn judge<'a>(
    suspects: &'a [Arc<Record>],
    witness: &dyn Device,
    driver: &dyn Driver,
    longest: Duration,
) -> (Option<&'a Arc<Record>>, Verdict) {
    let mut verdict = Verdict::Untried("which launch it was is not known".into());
    for record in suspects {
        verdict = record.run_on(witness, driver, longest);
        if matches!(verdict, Verdict::Fault(_) | Verdict::Endless(..)) {
            return (Some(record), verdict);
        }
    }
    // If several end normally, any of them may have been the one.
    (if let [one] = suspects { Some(one) } else { None }, verdict)
}

impl Record {
    /// Runs the launch on another device, with its arrays as the driver has them.
    fn run_on(&self, witness: &dyn Device, driver: &dyn Driver, longest: Duration) -> Verdict {
        let bytes = self.args.iter().map(|arg| if let Kept::Array { bytes, .. } = arg { *bytes } else { 0 }).sum();
        if bytes > LARGEST {
            return Verdict::Untried(format!("its arrays are {} large", size(bytes)));
        }
        let mut arrays = match self.arrays(driver) {
            Ok(Some(arrays)) => arrays,
            Ok(None) => return Verdict::Untried("there is no memory for its arrays".into()),
            Err(refusal) => return Verdict::Untried(format!("{} says {}", refusal.call, refusal.name)),
        };
        let mut args: Vec<Arg<'_>> = self.args.iter().zip(&mut arrays).map(|(kept, array)| kept.arg(array)).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let control = Control { stop: stop.clone(), ..Control::default() };
        let (over, wait) = mpsc::channel::<()>();
        let watch = std::thread::Builder::new().name("replay watch".into()).spawn(move || {
            if wait.recv_timeout(longest) == Err(mpsc::RecvTimeoutError::Timeout) {
                stop.store(true, Ordering::Relaxed);
            }
        });
        let Ok(watch) = watch else { return Verdict::Untried("no thread can be had to watch it".into()) };
        let begin = Instant::now();
        let outcome = witness.load(self.kernel.clone()).launch(self.extents, &mut args, &control);
        drop(over);
        let _ = watch.join();
        match outcome {
            Ok(_) => Verdict::Nothing,
            Err(fault) if fault.kind == FaultKind::Interrupted => {
                Verdict::Endless(fault, begin.elapsed().as_secs_f64())
            }
            Err(fault) => Verdict::Fault(fault),
        }
    }

    /// Returns copies of the arrays; `None` if there is no memory for them.
    fn arrays(&self, driver: &dyn Driver) -> Answer<Option<Vec<Storage>>> {
        let mut arrays = Vec::with_capacity(self.args.len());
        for arg in &self.args {
            arrays.push(match *arg {
                Kept::Array { address, bytes, .. } if bytes > 0 => {
                    let Some(mut copy) = AlignedBytes::zeroed(bytes as usize) else { return Ok(None) };
                    driver.download(address, &mut copy)?;
                    Storage::of_bytes(copy)
                }
                _ => Storage::zeros(0),
            });
        }
        Ok(Some(arrays))
    }
}

impl Kept {
    fn arg<'a>(&self, array: &'a mut Storage) -> Arg<'a> {
        match self {
            Kept::Value(values) => Arg::Value(values.clone()),
            Kept::Array { shape, writes: true, .. } => Arg::ArrayMut { storage: array, shape: shape.clone() },
            Kept::Array { shape, writes: false, .. } => Arg::Array { storage: array, shape: shape.clone() },
        }
    }
}
