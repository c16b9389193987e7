//! The devices of this machine, by the names that `--device`, `CLK_DEVICE` and `on … { }` take.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::cache::{self, Cache};
use super::disk;
#[cfg(target_os = "linux")]
use super::isolate::Children;
use super::libraries;
use super::perf;
use crate::base::aligned::Guard;
use crate::base::source::Sources;
use crate::device::both::Both;
#[cfg(target_os = "linux")]
use crate::device::cuda::Isolation;
use crate::device::cuda::driver::nvidia;
use crate::device::cuda::text::Options;
use crate::device::cuda::{Gpu, Instructions, Settings};
use crate::device::exchange::Exchange;
use crate::device::lent::Lent;
use crate::device::ordered::Ordered;
use crate::device::sim::{Isa, Jit, Proofs, Simulator};
use crate::device::storage::{Remote, Storage};
use crate::device::{Coming, Device, DeviceError, Devices, Executable, Mark, Statistics, Wanted, size};
use crate::ir::Prepared;

/// The environment variable with the default device; the command line overrides it.
pub(crate) const VARIABLE: &str = "CLK_DEVICE";

/// The environment variable with the simulator's instruction set, for tests and measurements; by default the best one available.
pub(crate) const ISA: &str = "CLK_SIM_ISA";

/// The environment variable that says when the simulator compiles kernels to machine code.
pub(crate) const JIT: &str = "CLK_SIM_JIT";

/// The environment variable with the instructions for tensor cores of GPUs, for tests and measurements; by default the best ones.
pub(crate) const TENSOR: &str = "CLK_GPU_TENSOR";

/// A device selection, as written by the user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The first GPU, or the simulator if there is none.
    #[default]
    Auto,
    /// The same, requested explicitly: a fallback to the simulator is reported with its reason.
    AutoAloud,
    /// The simulator, or so many virtual devices.
    Sim(Option<u32>),
    Gpu(Option<u32>),
    /// Every launch runs on the simulator and on the GPU, and the results are compared.
    Both(Option<u32>),
}

impl std::str::FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |rest: &str| match rest.strip_prefix(':') {
            None if rest.is_empty() => Ok(None),
            Some(digits) => digits.parse().map(Some).map_err(|_| ()),
            None => Err(()),
        };
        let named = match text {
            "auto" => Ok(Choice::AutoAloud),
            "sim:0" => Err(()),
            _ if text.starts_with("sim") => number(&text["sim".len()..]).map(Choice::Sim),
            _ => match (text.strip_prefix("gpu"), text.strip_prefix("both")) {
                (Some(rest), _) => number(rest).map(Choice::Gpu),
                (_, Some(rest)) => number(rest).map(Choice::Both),
                _ => Err(()),
            },
        };
        named.map_err(|()| {
            format!("there is no device `{text}`; devices are auto, sim, sim:N, gpu, gpu:N, both and both:N")
        })
    }
}

/// Whether kernels run on GPUs in a separate process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Isolate {
    #[default]
    No,
    /// Where isolation is not possible, this is reported and kernels run in this process.
    IfPossible,
    Yes,
}

/// Options for devices from the command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usage {
    /// Whether to measure the time of launches.
    pub timed: bool,
    /// Whether machine code carries line information.
    pub lines: bool,
    /// Options of CUDA code generation.
    pub text: Options,
    /// The instructions for tensor cores.
    pub tensor: Instructions,
    /// Whether the tensor cores whose bits `mma` has are named.
    pub relies: bool,
    /// The simulator's instruction set.
    pub isa: Isa,
    /// When it compiles kernels to machine code.
    pub jit: Jit,
    /// Whether its checks look at what is proved.
    pub proofs: Proofs,
    /// Whether profilers are told about machine code.
    pub perf: perf::Wanted,
    /// Whether results may not depend on the order of threads.
    pub deterministic: bool,
}

/// All devices, each opened on first use.
pub(crate) struct Machine {
    simulator: Arc<Simulator>,
    /// Virtual devices: simulators of which each has arrays of its own.
    others: Mutex<Vec<Arc<Simulator>>>,
    usage: Usage,
    isolate: Mutex<Isolate>,
    /// The number of this process on its node.
    local: AtomicU32,
    /// Opened GPUs by ordinal and isolation.
    gpus: Mutex<BTreeMap<(u32, bool), Arc<dyn Device>>>,
    #[cfg(target_os = "linux")]
    children: Arc<Children>,
    store: OnceLock<Option<Arc<Cache>>>,
}

impl Machine {
    pub fn new(usage: Usage) -> Arc<Machine> {
        let simulator = simulator(&usage);
        Arc::new(Machine {
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

    /// Whether the command line names the tensor cores whose bits `mma` has.
    pub fn relies(&self) -> bool {
        self.usage.relies
    }

    /// Sets which GPU `gpu` is: that of a process's number on its node, as far as there are so many.
    pub fn prefer_gpu(&self, local: u32) {
        self.local.store(local, Ordering::Relaxed);
    }

    fn usual_gpu(&self) -> u32 {
        match self.local.load(Ordering::Relaxed) {
            0 => 0,
            // A launcher may show each process one GPU alone.
            local => local % nvidia::count().unwrap_or(1).max(1),
        }
    }

    /// Returns the isolation mode of GPUs that are opened from now on.
    pub fn isolation(&self) -> Isolate {
        *self.isolate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_isolation(&self, isolate: Isolate) {
        *self.isolate.lock().unwrap_or_else(PoisonError::into_inner) = isolate;
    }

    /// Ends the processes in which kernels run; returns whether there were any.
    pub fn stop_kernels(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.children.stop_workers();
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Returns the device for a selection. A GPU requested by name is opened now; `auto` looks for one at the first launch.
    pub fn choose(self: &Arc<Self>, choice: Choice) -> Result<Arc<dyn Device>, DeviceError> {
        match choice {
            Choice::Auto => Ok(Arc::new(Auto { machine: self.clone(), aloud: false, found: OnceLock::new() })),
            Choice::AutoAloud => Ok(Arc::new(Auto { machine: self.clone(), aloud: true, found: OnceLock::new() })),
            Choice::Sim(None) => self.open(Wanted::Sim(None)),
            Choice::Sim(Some(count)) => {
                // The first one is the simulator itself.
                let more = count.min(MOST_VIRTUAL) as usize - 1;
                let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                others.resize_with(more, || Arc::new(simulator(&self.usage)));
                drop(others);
                self.open(Wanted::Sim(Some(0)))
            }
            Choice::Gpu(number) => self.open(Wanted::Gpu(number)),
            Choice::Both(number) => {
                let exact = !self.usage.text.fast_math && !self.usage.text.contract;
                Ok(Arc::new(Both::new(self.open(Wanted::Sim(None))?, self.open(Wanted::Gpu(number))?, exact)))
            }
        }
    }

    fn settings(&self) -> Settings {
        let store = self.store.get_or_init(|| {
            let folder: PathBuf = cache::folder()?;
            Cache::open(&folder).ok().map(Arc::new)
        });
        Settings {
            nvrtc: libraries::nvrtc_places(),
            nccl: libraries::nccl_places(),
            machine: machine(),
            store: store.clone().map(|store| store as _),
            timed: self.usage.timed,
            lines: self.usage.lines,
            text: self.usage.text.clone(),
            tensor: self.usage.tensor,
            relies: self.usage.relies,
            tell: Some(|what| eprintln!("note: {what}")),
            #[cfg(target_os = "linux")]
            isolation: self.isolation_settings(),
        }
    }

    #[cfg(target_os = "linux")]
    fn isolation_settings(&self) -> Option<Isolation> {
        let tell =
            |why: &str| eprintln!("note: kernels run in this process, since others cannot use the GPU together: {why}");
        let otherwise: Option<fn(&str)> = match self.isolation() {
            Isolate::No => return None,
            Isolate::IfPossible => Some(tell),
            Isolate::Yes => None,
        };
        Some(Isolation { starter: self.children.clone(), witness: self.simulator.clone(), otherwise })
    }
}

impl Devices for Machine {
    fn open(&self, wanted: Wanted) -> Result<Arc<dyn Device>, DeviceError> {
        let number = match wanted {
            Wanted::Sim(None | Some(0)) => return Ok(self.simulator.clone()),
            Wanted::Sim(Some(number)) => {
                let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
                return match others.get(number as usize - 1) {
                    Some(other) => Ok(other.clone()),
                    None => Err(DeviceError::Unavailable {
                        device: format!("sim:{number}"),
                        why: format!("virtual devices are sim:0 to sim:{}", others.len()),
                    }),
                };
            }
            Wanted::Gpu(number) => number.unwrap_or_else(|| self.usual_gpu()),
        };
        let mut gpus = self.gpus.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (number, self.isolation() != Isolate::No);
        if let Some(gpu) = gpus.get(&key) {
            return Ok(gpu.clone());
        }
        let mut gpu: Arc<dyn Device> = Arc::new(Gpu::open(number, self.settings())?);
        if self.usage.deterministic {
            gpu = Arc::new(Ordered::new(gpu, self.simulator.clone()));
        }
        gpus.insert(key, gpu.clone());
        Ok(gpu)
    }
}

/// The most virtual devices.
const MOST_VIRTUAL: u32 = 64;

fn simulator(usage: &Usage) -> Simulator {
    let simulator = Simulator::with(usage.isa).compiling(usage.jit).with_proofs(usage.proofs);
    if usage.perf.0 { simulator.telling(perf::writer()) } else { simulator }
}

/// Returns what tells this machine from others, for processes that look whether they have the same GPU. Containers on one machine have the same.
fn machine() -> String {
    let bytes = disk::read(Path::new("/proc/sys/kernel/random/boot_id")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).split_whitespace().collect()
}

/// Returns the name of every device with a description, or, for an unavailable GPU, with the reason.
pub(crate) fn list() -> Vec<(String, String)> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut found = vec![("sim".to_string(), format!("{threads} threads"))];
    match nvidia::count() {
        Err(absent) => found.push(("gpu".to_string(), format!("none: {absent}"))),
        Ok(count) => found.extend((0..count).map(|number| (format!("gpu:{number}"), about_gpu(number)))),
    }
    found
}

fn about_gpu(number: u32) -> String {
    match nvidia::probe(number) {
        Err(absent) => absent.to_string(),
        Ok(gpu) => format!(
            "{}, {}, sm_{}, {} multiprocessors, driver for CUDA {}.{}",
            gpu.name,
            size(gpu.memory),
            gpu.architecture,
            gpu.multiprocessors,
            gpu.driver / 1000,
            gpu.driver % 1000 / 10
        ),
    }
}

/// The first GPU if there is one, else the simulator, decided at the first launch.
struct Auto {
    machine: Arc<Machine>,
    aloud: bool,
    found: OnceLock<Arc<dyn Device>>,
}

impl Auto {
    fn device(&self) -> &Arc<dyn Device> {
        self.found.get_or_init(|| match self.machine.open(Wanted::Gpu(None)) {
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

impl Device for Auto {
    fn name(&self) -> String {
        self.device().name()
    }

    fn model(&self) -> String {
        self.device().model()
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        self.device().load(kernel)
    }

    fn load_named(&self, kernel: Arc<Prepared>, sources: &Sources) -> Arc<dyn Executable> {
        self.device().load_named(kernel, sources)
    }

    fn is_remote(&self) -> bool {
        self.device().is_remote()
    }

    fn block_memory(&self) -> Option<u32> {
        self.device().block_memory()
    }

    fn memory(&self) -> Option<u64> {
        self.device().memory()
    }

    fn expect(&self, bytes: usize, spare: bool) -> Result<Option<Box<dyn Coming>>, DeviceError> {
        self.device().expect(bytes, spare)
    }

    fn have(&self, storage: &Storage) -> Result<(), DeviceError> {
        self.device().have(storage)
    }

    unsafe fn lend(&self, lent: &Lent, copied: bool) -> Result<Arc<dyn Remote>, DeviceError> {
        // SAFETY: as required of the caller.
        unsafe { self.device().lend(lent, copied) }
    }

    unsafe fn give_back(&self, lent: &Lent, storage: &Storage) -> Result<(), DeviceError> {
        // SAFETY: as required of the caller.
        unsafe { self.device().give_back(lent, storage) }
    }

    fn own(&self, storage: &mut Storage) -> Result<Arc<dyn Remote>, DeviceError> {
        self.device().own(storage)
    }

    unsafe fn lock(&self, bytes: &[u8]) -> Option<Guard> {
        // SAFETY: as required of the caller.
        unsafe { self.device().lock(bytes) }
    }

    fn is_watchful(&self) -> bool {
        self.device().is_watchful()
    }

    fn instructions(&self) -> Option<Isa> {
        self.device().instructions()
    }

    fn exchange(&self) -> Result<Box<dyn Exchange>, String> {
        self.device().exchange()
    }

    fn finish(&self) -> Result<(), DeviceError> {
        self.found.get().map_or(Ok(()), |device| device.finish())
    }

    fn pass_on(&self, streams: &[usize]) -> Result<(), DeviceError> {
        self.found.get().map_or(Ok(()), |device| device.pass_on(streams))
    }

    fn confirm(&self) -> Result<(), DeviceError> {
        self.found.get().map_or(Ok(()), |device| device.confirm())
    }

    fn begin_batch(&self) {
        self.device().begin_batch();
    }

    fn end_batch(&self) -> Result<(), DeviceError> {
        self.device().end_batch()
    }

    fn mark(&self) -> Option<Mark> {
        self.device().mark()
    }

    fn spilled(&self) -> u64 {
        self.found.get().map_or(0, |device| device.spilled())
    }

    fn statistics(&self) -> Statistics {
        self.found.get().map_or_else(Statistics::default, |device| device.statistics())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices() {
        let parse = |text: &str| text.parse::<Choice>();
        assert_eq!(parse("auto"), Ok(Choice::AutoAloud));
        assert_eq!(parse("gpu"), Ok(Choice::Gpu(None)));
        assert_eq!((parse("sim"), parse("sim:4")), (Ok(Choice::Sim(None)), Ok(Choice::Sim(Some(4)))));
        assert_eq!(parse("gpu:3"), Ok(Choice::Gpu(Some(3))));
        assert_eq!(parse("both:1"), Ok(Choice::Both(Some(1))));
        for wrong in ["gpus", "gpu:", "gpu:x", "", "GPU", "gpu:-1", "cpu", "sim:0", "sim:", "simulator"] {
            assert!(parse(wrong).is_err_and(|e| e.contains("devices are auto, sim")), "{wrong}");
        }
    }

    #[test]
    fn the_simulator_has_no_memory_of_gpus() {
        let simulator = Machine::new(Usage::default()).open(Wanted::Sim(None)).expect("there");
        let lent = Lent { gpu: 2, address: 0x1000, bytes: 4, after: None, in_order: false, keeper: Arc::new(()) };
        // SAFETY: nothing is done with it.
        let refused = unsafe { simulator.lend(&lent, false) }.err().expect("a refusal");
        assert!(refused.to_string().contains("gpu:2"), "{refused}");
        // SAFETY: as above.
        assert!(unsafe { simulator.give_back(&lent, &Storage::zeros(4)) }.is_err());
        assert!(simulator.own(&mut Storage::zeros(4)).is_err());
    }

    #[test]
    fn the_same_device_is_given_out_each_time() {
        let machine = Machine::new(Usage::default());
        let (a, b) = (machine.open(Wanted::Sim(None)).expect("there"), machine.open(Wanted::Sim(None)).expect("there"));
        assert_eq!((a.name(), b.name()), ("sim".to_string(), "sim".to_string()));
        assert!(!machine.choose(Choice::Sim(None)).expect("there").is_remote());
        let number = |n| machine.open(Wanted::Sim(Some(n)));
        assert!(number(0).is_ok() && number(1).is_err_and(|error| error.to_string().contains("sim:0 to sim:0")));
        for count in [2, 5, 3] {
            machine.choose(Choice::Sim(Some(count))).expect("there");
            assert!(number(count - 1).is_ok() && number(count).is_err(), "{count} of them");
        }
        assert!(!Arc::ptr_eq(&number(1).expect("there"), &number(2).expect("there")), "each has arrays of its own");
    }
}
