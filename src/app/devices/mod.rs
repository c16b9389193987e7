//! The devices of this machine, selected by the names in `--device`, `CLK_DEVICE` and `on … { }`.

mod back_end;
pub(crate) mod nvidia;
mod wgsl;

use std::collections::BTreeMap;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
#[cfg(target_os = "linux")]
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::cache::{self, Cache};
use super::perf_map;
#[cfg(target_os = "linux")]
use super::worker_processes::WorkerProcesses;
use clk_differential::Both;
use clk_runtime::code_cache::CacheStore;
use clk_runtime::import::ForeignStream;
use clk_runtime::ordered::DeterministicDevice;
#[cfg(target_os = "linux")]
use clk_runtime::worker_process::ChildRole;
use clk_runtime::{Device, DeviceError, DeviceSelector, DeviceWrapper, Devices, Statistics, ThreadStateGuard};
use clk_sim::Simulator;
use smallvec::SmallVec;

pub(crate) use back_end::{DeviceOptions, GpuCodeOptions, Isolate};
use back_end::{GpuBackEnd, GpuSetup};
pub(crate) use nvidia::CudaEmitter;

/// The environment variable that selects the default device. The command line overrides it.
pub(crate) const VARIABLE: &str = "CLK_DEVICE";

/// The environment variable that sets the simulator's instruction set, for tests and measurements. The default is the
/// best one that the processor supports.
pub(crate) const ISA: &str = "CLK_SIM_ISA";

/// The environment variable that sets when the simulator compiles kernels to machine code.
pub(crate) const JIT: &str = "CLK_SIM_JIT";

/// The environment variable that sets the tensor core instructions for GPUs, for tests and measurements. The default is
/// the best ones that the GPU supports.
pub(crate) const TENSOR: &str = "CLK_GPU_TENSOR";

/// A device selection, as written by the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum DeviceChoice {
    /// The first GPU, or the simulator if there is none.
    #[default]
    Auto,
    /// Like `Auto`, but requested explicitly: a fallback to the simulator is reported with its reason.
    AutoAloud,
    /// The simulator. With a number, this many virtual devices, each simulated separately.
    Sim(Option<u32>),
    Gpu(Option<u32>),
    /// Every launch runs on the simulator and on the GPU, and the results are compared.
    Both(Option<u32>),
}

impl std::str::FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |rest: &str| match rest.strip_prefix(':') {
            None if rest.is_empty() => Ok(None),
            Some(digits) => digits.parse().map(Some).map_err(|_| ()),
            None => Err(()),
        };
        let choice = match text {
            "auto" => Ok(DeviceChoice::AutoAloud),
            "sim:0" => Err(()),
            _ if text.starts_with("sim") => number(&text["sim".len()..]).map(DeviceChoice::Sim),
            _ => match (text.strip_prefix("gpu"), text.strip_prefix("both")) {
                (Some(rest), _) => number(rest).map(DeviceChoice::Gpu),
                (_, Some(rest)) => number(rest).map(DeviceChoice::Both),
                _ => Err(()),
            },
        };
        choice.map_err(|()| {
            format!("there is no device `{text}`; devices are auto, sim, sim:N, gpu, gpu:N, both and both:N")
        })
    }
}

/// The list of back ends for GPUs. `gpu:N` counts the GPUs of all back ends in this order.
static GPU_BACK_ENDS: &[&dyn GpuBackEnd] = &[&wgsl::WgslGpus, &nvidia::NvidiaGpus];

/// Returns the back end of the GPU with this number, and the number of the GPU in it.
fn gpu_back_end(number: u32) -> (&'static dyn GpuBackEnd, u32) {
    let mut own = number;
    // Counting GPUs initializes their driver. The last back end is not asked, because isolation leaves that to the
    // worker process. It reports the error if there is no such GPU.
    for back_end in &GPU_BACK_ENDS[..GPU_BACK_ENDS.len() - 1] {
        match back_end.count() {
            Ok(count) if own < count => return (*back_end, own),
            count => own -= count.unwrap_or(0),
        }
    }
    (GPU_BACK_ENDS[GPU_BACK_ENDS.len() - 1], own)
}

/// Returns the number of GPUs, or the reason why there are none.
fn count_gpus() -> Result<u32, String> {
    let counts: Vec<Result<u32, String>> = GPU_BACK_ENDS.iter().map(|back_end| back_end.count()).collect();
    match counts.iter().flatten().sum() {
        0 => counts.into_iter().find(Result::is_err).unwrap_or(Ok(0)),
        count => Ok(count),
    }
}

/// Returns the names and versions of the libraries for GPUs, for `clk doctor`.
pub(crate) fn list_libraries() -> Vec<(&'static str, String)> {
    GPU_BACK_ENDS.iter().flat_map(|back_end| back_end.libraries()).collect()
}

/// Runs a child process of GPU isolation until the program ends.
#[cfg(target_os = "linux")]
pub(crate) fn serve(role: ChildRole, number: u32, socket: UnixStream, segment: OwnedFd) -> std::io::Result<()> {
    let (back_end, number) = gpu_back_end(number);
    back_end.serve(role, number, socket, segment)
}

/// Returns a guard that restores the driver state of a thread that belongs to another library.
pub(crate) fn preserve_thread_state() -> SmallVec<[ThreadStateGuard; 1]> {
    GPU_BACK_ENDS.iter().map(|back_end| back_end.preserve_thread_state()).collect()
}

/// Returns the stream of a GPU on which libraries that lend arrays order their pending work before Clk's.
pub(crate) fn lender_stream(number: u32) -> Result<ForeignStream, String> {
    let (back_end, number) = gpu_back_end(number);
    back_end.lender_stream(number)
}

/// Returns whether launches on a stream are currently recorded instead of executed.
pub(crate) fn is_capturing(stream: ForeignStream) -> bool {
    GPU_BACK_ENDS.iter().any(|back_end| back_end.is_capturing(stream))
}

/// Returns the number of the GPU whose memory contains this address.
pub(crate) fn gpu_of_address(address: u64) -> Option<u32> {
    let mut before = 0;
    for back_end in GPU_BACK_ENDS {
        if let Some(own) = back_end.owner_of(address) {
            return Some(before + own);
        }
        // Counting is not necessary for the only back end.
        if GPU_BACK_ENDS.len() > 1 {
            before += back_end.count().unwrap_or(0);
        }
    }
    None
}

/// All devices, each opened on first use.
pub(crate) struct DeviceRegistry {
    simulator: Arc<Simulator>,
    /// The virtual devices from `sim:1` on. Each is a simulator with its own copies of arrays.
    others: Mutex<Vec<Arc<Simulator>>>,
    usage: DeviceOptions,
    isolate: Mutex<Isolate>,
    /// The number of this process among the ranks on its node.
    local: AtomicU32,
    /// Opened GPUs by ordinal and isolation.
    gpus: Mutex<BTreeMap<(u32, bool), Arc<dyn Device>>>,
    #[cfg(target_os = "linux")]
    children: Arc<WorkerProcesses>,
    store: OnceLock<Option<Arc<Cache>>>,
}

impl DeviceRegistry {
    pub fn new(usage: DeviceOptions) -> Arc<DeviceRegistry> {
        let simulator = simulator(&usage);
        Arc::new(DeviceRegistry {
            simulator: Arc::new(simulator),
            others: Mutex::default(),
            usage,
            isolate: Mutex::default(),
            local: AtomicU32::new(0),
            gpus: Mutex::default(),
            #[cfg(target_os = "linux")]
            children: Arc::default(),
            store: OnceLock::new(),
        })
    }

    /// Whether `--mma` names the GPU generation whose `mma` results must be reproduced exactly.
    pub fn requires_exact_mma(&self) -> bool {
        self.usage.relies
    }

    /// Sets the local rank of this process. The device `gpu` is then the GPU with this number, modulo the number of
    /// GPUs.
    pub fn prefer_gpu(&self, local: u32) {
        self.local.store(local, Ordering::Relaxed);
    }

    fn usual_gpu(&self) -> u32 {
        match self.local.load(Ordering::Relaxed) {
            0 => 0,
            // Some launchers make only one GPU visible to each process, so the number may be too large.
            local => local % count_gpus().unwrap_or(1).max(1),
        }
    }

    /// Returns whether GPUs that are opened from now on are isolated.
    pub fn isolation(&self) -> Isolate {
        *self.isolate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_isolation(&self, isolate: Isolate) {
        *self.isolate.lock().unwrap_or_else(PoisonError::into_inner) = isolate;
    }

    /// Ends the worker processes that run kernels; returns whether there were any.
    pub fn stop_kernels(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.children.stop_workers();
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Returns the device for a selection. Opens a GPU that is selected by name; `auto` tries to open one at the first
    /// launch.
    pub fn choose(self: &Arc<Self>, choice: DeviceChoice) -> Result<Arc<dyn Device>, DeviceError> {
        match choice {
            DeviceChoice::Auto => {
                Ok(Arc::new(AutoDevice { machine: self.clone(), aloud: false, found: OnceLock::new() }))
            }
            DeviceChoice::AutoAloud => {
                Ok(Arc::new(AutoDevice { machine: self.clone(), aloud: true, found: OnceLock::new() }))
            }
            DeviceChoice::Sim(None) => self.open(DeviceSelector::Sim(None)),
            DeviceChoice::Sim(Some(count)) => {
                // `sim:0` is `self.simulator`, so only the other virtual devices are created here.
                let more = count.min(MAX_VIRTUAL) as usize - 1;
                let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                others.resize_with(more, || Arc::new(simulator(&self.usage)));
                drop(others);
                self.open(DeviceSelector::Sim(Some(0)))
            }
            DeviceChoice::Gpu(number) => self.open(DeviceSelector::Gpu(number)),
            DeviceChoice::Both(number) => {
                let exact = !self.usage.text.fast_math && !self.usage.text.contract;
                Ok(Arc::new(Both::new(
                    self.open(DeviceSelector::Sim(None))?,
                    self.open(DeviceSelector::Gpu(number))?,
                    exact,
                )))
            }
        }
    }

    /// Returns the cache of compiled kernels, if there is a directory for it.
    fn store(&self) -> Option<Arc<dyn CacheStore>> {
        let store = self.store.get_or_init(|| {
            let folder: PathBuf = cache::folder()?;
            Cache::open(&folder).ok().map(Arc::new)
        });
        store.clone().map(|store| store as _)
    }
}

impl Devices for DeviceRegistry {
    fn open(&self, wanted: DeviceSelector) -> Result<Arc<dyn Device>, DeviceError> {
        let number = match wanted {
            DeviceSelector::Sim(None | Some(0)) => return Ok(self.simulator.clone()),
            DeviceSelector::Sim(Some(number)) => {
                let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                return match others.get(number as usize - 1) {
                    Some(other) => Ok(other.clone()),
                    None => Err(DeviceError::Unavailable {
                        device: format!("sim:{number}"),
                        why: format!("virtual devices are sim:0 to sim:{}", others.len()),
                    }),
                };
            }
            DeviceSelector::Gpu(number) => number.unwrap_or_else(|| self.usual_gpu()),
        };
        let mut gpus = self.gpus.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (number, self.isolation() != Isolate::No);
        if let Some(gpu) = gpus.get(&key) {
            return Ok(gpu.clone());
        }
        let (back_end, own) = gpu_back_end(number);
        let mut gpu = back_end.open(
            own,
            GpuSetup {
                options: &self.usage,
                store: self.store(),
                #[cfg(target_os = "linux")]
                isolate: self.isolation(),
                #[cfg(target_os = "linux")]
                starter: self.children.clone(),
                #[cfg(target_os = "linux")]
                replay_device: self.simulator.clone(),
            },
        )?;
        if self.usage.deterministic {
            gpu = Arc::new(DeterministicDevice::new(gpu, self.simulator.clone()));
        }
        gpus.insert(key, gpu.clone());
        Ok(gpu)
    }
}

/// Maximum number of virtual devices.
const MAX_VIRTUAL: u32 = 64;

fn simulator(usage: &DeviceOptions) -> Simulator {
    let simulator = Simulator::with_isa(usage.isa).with_jit(usage.jit).with_proofs(usage.proofs);
    if usage.perf.0 { simulator.with_listener(perf_map::writer()) } else { simulator }
}

/// Returns the name of each device and a description, which for an unavailable GPU is the reason.
pub(crate) fn list_devices() -> Vec<(String, String)> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut devices = vec![("sim".to_string(), format!("{threads} threads"))];
    let describe = |number: u32| {
        let (back_end, own) = gpu_back_end(number);
        (format!("gpu:{number}"), back_end.describe(own))
    };
    match count_gpus() {
        Err(absent) => devices.push(("gpu".to_string(), format!("none: {absent}"))),
        Ok(count) => devices.extend((0..count).map(describe)),
    }
    devices
}

/// The device `auto`: the first GPU if there is one, otherwise the simulator. It is chosen at the first launch.
struct AutoDevice {
    machine: Arc<DeviceRegistry>,
    aloud: bool,
    found: OnceLock<Arc<dyn Device>>,
}

impl AutoDevice {
    fn device(&self) -> &Arc<dyn Device> {
        self.found.get_or_init(|| match self.machine.open(DeviceSelector::Gpu(None)) {
            Ok(gpu) => gpu,
            Err(error) => {
                if self.aloud {
                    let why = match error {
                        DeviceError::Unavailable { why, .. } => why,
                        other => other.to_string(),
                    };
                    eprintln!("note: kernels run on the simulator: {why}");
                }
                self.machine.simulator.clone()
            }
        })
    }
}

/// Only methods that do not need a device leave it unopened.
impl DeviceWrapper for AutoDevice {
    fn inner(&self) -> &dyn Device {
        &**self.device()
    }

    /// `auto` chooses only devices that run optimized kernels.
    fn shows_variables(&self) -> bool {
        self.found.get().is_some_and(|device| device.shows_variables())
    }

    fn finish(&self) -> Result<(), DeviceError> {
        self.found.get().map_or(Ok(()), |device| device.finish())
    }

    fn report_pending_faults(&self) -> Result<(), DeviceError> {
        self.found.get().map_or(Ok(()), |device| device.report_pending_faults())
    }

    fn spilled(&self) -> u64 {
        self.found.get().map_or(0, |device| device.spilled())
    }

    fn statistics(&self) -> Statistics {
        self.found.get().map_or_else(Statistics::default, |device| device.statistics())
    }
}

#[cfg(test)]
mod tests;
