//! Recorded launches, and their replay on another device with the current contents of the arrays.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::driver::{DevicePtr, Driver, DriverResult};
use clk_base::aligned::AlignedBytes;
use clk_ir::PreparedKernel;
use clk_runtime::storage::Storage;
use clk_runtime::{Arg, Control, Device, FaultKind, LaunchConfig, LaunchOrigin, ReplayVerdict, size};
use clk_scalar::ScalarValue;

/// A recorded launch.
pub(crate) struct LaunchRecord {
    pub kernel: Arc<PreparedKernel>,
    pub origin: LaunchOrigin,
    pub args: Vec<RecordedArg>,
}

/// An argument of a recorded launch.
pub(crate) enum RecordedArg {
    Value(Vec<ScalarValue>),
    /// An array in GPU memory. No later operation has written it since the worker was lost.
    Array {
        address: DevicePtr,
        bytes: u64,
        shape: Vec<u32>,
        writes: bool,
    },
}

/// The recorded launches, each with the number that the driver assigned. The launches of a graph share a number.
#[derive(Default)]
pub struct Replays(pub(super) Mutex<VecDeque<(u64, Arc<LaunchRecord>)>>);

/// Maximum total size in bytes of the arrays of a launch that is replayed.
const LARGEST: u64 = 1 << 30;

/// Replays launches until one faults or exceeds the time limit.
pub(super) fn replay_suspects<'a>(
    suspects: &'a [Arc<LaunchRecord>],
    witness: &dyn Device,
    driver: &dyn Driver,
    longest: Duration,
) -> (Option<&'a Arc<LaunchRecord>>, ReplayVerdict) {
    let mut verdict = ReplayVerdict::NotRun("which launch it was is not known".into());
    for record in suspects {
        verdict = record.run_on(witness, driver, longest);
        if matches!(verdict, ReplayVerdict::Fault(_) | ReplayVerdict::StillRunning(..)) {
            return (Some(record), verdict);
        }
    }
    // If several launches were replayed and all ended normally, it is not known which of them was the cause.
    (if let [one] = suspects { Some(one) } else { None }, verdict)
}

impl LaunchRecord {
    /// Replays the launch on another device, with copies of its arrays from the driver.
    fn run_on(&self, witness: &dyn Device, driver: &dyn Driver, longest: Duration) -> ReplayVerdict {
        let bytes =
            self.args.iter().map(|arg| if let RecordedArg::Array { bytes, .. } = arg { *bytes } else { 0 }).sum();
        if bytes > LARGEST {
            return ReplayVerdict::NotRun(format!("its arrays are {} large", size(bytes)));
        }
        let mut arrays = match self.arrays(driver) {
            Ok(Some(arrays)) => arrays,
            Ok(None) => return ReplayVerdict::NotRun("there is no memory for its arrays".into()),
            Err(refusal) => return ReplayVerdict::NotRun(format!("{} says {}", refusal.call, refusal.name)),
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
        let Ok(watch) = watch else { return ReplayVerdict::NotRun("no thread can be had to watch it".into()) };
        let begin = Instant::now();
        let outcome = witness.load(self.kernel.clone(), None).launch(
            &LaunchConfig::new(self.origin.extents, self.origin.launched),
            &mut args,
            &control,
        );
        drop(over);
        let _ = watch.join();
        match outcome {
            Ok(_) => ReplayVerdict::Nothing,
            Err(fault) if fault.kind == FaultKind::Interrupted => {
                ReplayVerdict::StillRunning(fault, begin.elapsed().as_secs_f64())
            }
            Err(fault) => ReplayVerdict::Fault(fault),
        }
    }

    /// Returns copies of the arrays, or `None` if they are too large.
    fn arrays(&self, driver: &dyn Driver) -> DriverResult<Option<Vec<Storage>>> {
        let mut arrays = Vec::with_capacity(self.args.len());
        for arg in &self.args {
            arrays.push(match *arg {
                RecordedArg::Array { address, bytes, .. } if bytes > 0 => {
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

impl RecordedArg {
    fn arg<'a>(&self, array: &'a mut Storage) -> Arg<'a> {
        match self {
            RecordedArg::Value(values) => Arg::Value(values.clone()),
            RecordedArg::Array { shape, writes: true, .. } => Arg::ArrayMut { storage: array, shape: shape.clone() },
            RecordedArg::Array { shape, writes: false, .. } => Arg::Array { storage: array, shape: shape.clone() },
        }
    }
}
