//! A recorded launch, and its repetition on another device with the current contents of its arrays.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::base::aligned::AlignedBytes;
use crate::base::source::Span;
use crate::device::cuda::driver::{Address, Answer, Driver};
use crate::device::storage::Storage;
use crate::device::{Arg, Control, Device, Extents, FaultKind, Verdict, size};
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
pub struct Replays(pub(super) Mutex<VecDeque<(u64, Arc<Record>)>>);

/// The largest total size of arrays with which a launch is run again.
const LARGEST: u64 = 1 << 30;

/// Runs launches again until one fails or does not end.
pub(super) fn judge<'a>(
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
