//! State shared by all kernels and arrays of one GPU: driver, compiler, cache, statistics.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::arrays::Arrays;
use super::batch::Batch;
use super::cache::{self, Store};
use super::driver::{Address, Answer, Driver, Event, Module, Properties, Refusal};
use super::nvrtc::{Compiler, Failure, Place};
use super::records::Records;
use super::replay::Replays;
use super::text::abi::Options;
use crate::base::late::Late;
use crate::device::exchange::{ENDED, Guard};
use crate::device::{DeviceError, Progress, Statistics};
use crate::ir::ranges::Summary;
use crate::lang::cores::Cores;

/// Settings of GPUs that the app chooses.
#[derive(Clone, Default)]
pub struct Settings {
    /// Candidate locations of NVRTC.
    pub nvrtc: Vec<Place>,
    /// What tells this machine from others, without spaces.
    pub machine: String,
    /// Candidate locations of NCCL.
    pub nccl: Vec<PathBuf>,
    /// The cache of machine code.
    pub store: Option<Arc<dyn Store>>,
    /// Measures the time of every launch.
    pub timed: bool,
    /// Machine code carries line information, for tools that show it. A kernel is then recompiled whenever it moves in its file.
    pub lines: bool,
    /// Options of generated text, as far as launches do not decide them.
    pub text: Options,
    /// The instructions of texts for tensor cores.
    pub tensor: Instructions,
    /// Whether the user names the tensor cores whose bits `mma` has, and with that relies on what is published about this GPU's.
    pub relies: bool,
    /// Called where a product is computed without tensor cores that the GPU has, once, with a sentence that says why.
    pub tell: Option<fn(&str)>,
    /// Runs kernels in a separate process.
    #[cfg(target_os = "linux")]
    pub isolation: Option<Isolation>,
}

/// Instructions for tensor cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Instructions {
    /// The best that the GPU has.
    #[default]
    Best,
    /// Those that all GPUs from sm_80 on have, for tests and measurements.
    Sync,
}

impl FromStr for Instructions {
    type Err = String;

    fn from_str(text: &str) -> Result<Instructions, String> {
        match text {
            "best" => Ok(Instructions::Best),
            "sync" => Ok(Instructions::Sync),
            _ => Err(format!("there are no instructions `{text}` for tensor cores; there are best and sync")),
        }
    }
}

/// What is needed to run kernels in a separate process.
#[cfg(target_os = "linux")]
#[derive(Clone)]
pub struct Isolation {
    /// Starts processes.
    pub starter: Arc<dyn super::isolate::Starter>,
    /// The device on which launches that killed their process are run again to find the reason.
    pub witness: Arc<dyn crate::device::Device>,
    /// Called when there can be no such processes and kernels run in this one; without it that is an error.
    pub otherwise: Option<fn(&str)>,
}

/// Kernels launched since the host last waited that may run forever.
#[derive(Default)]
pub(crate) struct PendingKernels {
    pub progress: Option<Arc<Progress>>,
    pub names: Vec<String>,
}

/// The shared state of a GPU.
pub(crate) struct Context {
    pub name: String,
    pub properties: Properties,
    pub settings: Settings,
    driver: Late<Answer<Arc<dyn Driver>>>,
    /// Arrays in its memory.
    pub arrays: Arrays,
    compiler: Late<Result<Arc<dyn Compiler>, Vec<String>>>,
    counts: Counts,
    /// Pairs of events around launches whose time was not read yet.
    timings: Mutex<Vec<(Event, Event)>>,
    /// Fault records of launches whose outcome is not known yet.
    pub records: Mutex<Records>,
    /// Launches since the first one that may run forever; 0 if there is none.
    pub behind: AtomicUsize,
    /// A new process has replaced the one that held records and graphs.
    pub stale: AtomicBool,
    /// Launches that may still be pending, kept in order to be run again.
    pub replays: Replays,
    /// The launches of a `batch { }`, and whether one is open.
    pub batch: Mutex<Batch>,
    pub batching: AtomicBool,
    /// Kernels whose end the host may wait for in vain, to be shown.
    pub pending_kernels: Mutex<PendingKernels>,
    /// Why tensor cores are not used has been said.
    told: AtomicBool,
    /// Who says whether arrays of other processes belong to this one's, and whether there are new ones.
    guard: OnceLock<Guard>,
    exchanged: AtomicBool,
}

#[derive(Default)]
struct Counts {
    launches: AtomicU64,
    on_tensor_cores: AtomicU64,
    uploads: AtomicU64,
    uploaded: AtomicU64,
    uploaded_beside: AtomicU64,
    downloads: AtomicU64,
    downloaded: AtomicU64,
    compiled: AtomicU64,
    compile_nanos: AtomicU64,
    cached: AtomicU64,
    cached_nanos: AtomicU64,
    load_nanos: AtomicU64,
    begin_nanos: AtomicU64,
    checkable: AtomicU64,
    guarded: AtomicU64,
    kernel_nanos: AtomicU64,
    held: AtomicU64,
    held_most: AtomicU64,
}

fn add(count: &AtomicU64, amount: u64) -> u64 {
    count.fetch_add(amount, Ordering::Relaxed) + amount
}

/// Uploads of at least this many bytes may have to wait for page-locked memory that earlier operations occupy.
const LARGE: usize = 1 << 20;

/// The number of launches whose events are kept before their times are read.
const TIMINGS: usize = 1024;

impl Context {
    /// Creates the context of a GPU; `open` starts the driver on a thread of its own, while `compiler` opens the compiler on
    /// another.
    pub fn new(
        properties: Properties,
        settings: Settings,
        open: impl FnOnce(Properties) -> Answer<Arc<dyn Driver>> + Send + 'static,
        compiler: impl FnOnce() -> Result<Arc<dyn Compiler>, Vec<String>> + Send + 'static,
    ) -> Context {
        let theirs = properties.clone();
        Context {
            name: format!("gpu:{}", properties.ordinal),
            driver: Late::start("gpu context", move || open(theirs)),
            compiler: Late::start("nvrtc", compiler),
            properties,
            settings,
            arrays: Arrays::default(),
            counts: Counts::default(),
            timings: Mutex::default(),
            records: Mutex::default(),
            behind: AtomicUsize::new(0),
            stale: AtomicBool::new(false),
            replays: Replays::default(),
            batch: Mutex::default(),
            batching: AtomicBool::new(false),
            pending_kernels: Mutex::default(),
            told: AtomicBool::new(false),
            guard: OnceLock::new(),
            exchanged: AtomicBool::new(false),
        }
    }

    pub fn driver(&self) -> Result<&Arc<dyn Driver>, DeviceError> {
        self.driver.get().as_ref().map_err(|refusal| self.error(refusal.clone()))
    }

    /// Returns the driver, if it could be opened.
    pub fn opened(&self) -> Option<&Arc<dyn Driver>> {
        self.driver.get().as_ref().ok()
    }

    /// Converts a failed driver call to the device's error.
    pub fn error(&self, refusal: Refusal) -> DeviceError {
        if let Some(loss) = self.loss(&refusal) {
            return DeviceError::Lost(Box::new(loss));
        }
        DeviceError::Driver {
            device: self.name.clone(),
            call: refusal.call.to_string(),
            lost: refusal.is_lost(),
            name: refusal.name,
        }
    }

    /// Calls the driver and converts its error.
    pub fn call<T>(&self, run: impl FnOnce(&dyn Driver) -> Answer<T>) -> Result<T, DeviceError> {
        run(&**self.driver()?).map_err(|refusal| self.error(refusal))
    }

    /// Allocates this many bytes; address 0 for none.
    pub fn allocate(&self, bytes: u64) -> Result<Address, DeviceError> {
        if bytes == 0 {
            return Ok(Address::default());
        }
        let driver = self.driver()?;
        let address = match driver.allocate(bytes) {
            // Freeing the pool's unused memory may be enough.
            Err(refusal) if refusal.is_out_of_memory() => {
                // Trimming waits for pending operations, which must not include one that runs forever.
                self.confirm()?;
                driver.trim().and_then(|()| driver.allocate(bytes))
            }
            answer => answer,
        };
        match address {
            Ok(address) => {
                let held = add(&self.counts.held, bytes);
                self.counts.held_most.fetch_max(held, Ordering::Relaxed);
                Ok(address)
            }
            Err(refusal) if refusal.is_out_of_memory() => {
                let (free, total) = driver.memory().unwrap_or((0, self.properties.memory));
                let arrays = self.counts.held.load(Ordering::Relaxed);
                Err(DeviceError::OutOfMemory { device: self.name.clone(), wanted: bytes, free, total, arrays })
            }
            Err(refusal) => Err(self.error(refusal)),
        }
    }

    pub fn free(&self, address: Address, bytes: u64) {
        if let (true, Ok(driver)) = (bytes > 0, self.driver()) {
            self.free_behind(&**driver, address);
            self.counts.held.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    pub fn upload(&self, to: Address, bytes: &[u8]) -> Result<(), DeviceError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let waits = bytes.len() >= LARGE || self.is_isolated();
        if waits && self.behind.load(Ordering::Relaxed) > 0 {
            // A large copy waits for staging memory, and a kernel in front of it could not be asked to stop meanwhile.
            self.confirm()?;
        }
        add(&self.counts.uploads, 1);
        add(&self.counts.uploaded, bytes.len() as u64);
        self.call(|driver| driver.upload(to, bytes))
    }

    /// As [`Context::upload`], beside all else, once an event is reached; returns the event of its end.
    pub fn upload_beside(&self, to: Address, bytes: &[u8], after: Event) -> Result<Event, DeviceError> {
        add(&self.counts.uploads, 1);
        add(&self.counts.uploaded, bytes.len() as u64);
        add(&self.counts.uploaded_beside, bytes.len() as u64);
        self.call(|driver| driver.upload_beside(to, bytes, after))
    }

    pub fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        if bytes.is_empty() {
            return Ok(());
        }
        add(&self.counts.downloads, 1);
        add(&self.counts.downloaded, bytes.len() as u64);
        self.copy_here(from, bytes)?;
        self.belongs()
    }

    /// Makes the GPU's context current on this thread.
    pub fn enter(&self) -> Result<(), String> {
        let driver = self.driver().map_err(|error| error.to_string())?;
        driver.stream().map(drop).ok_or_else(|| "its context cannot be made current".to_string())
    }

    /// Sets who is asked before bytes go to the host that depend on other processes; the first one counts.
    pub fn guard_by(&self, guard: Guard) {
        let _ = self.guard.set(guard);
    }

    /// Takes note that bytes of other processes are here.
    pub fn exchanged(&self) {
        self.exchanged.store(true, Ordering::SeqCst);
    }

    /// An error if bytes of other processes do not belong to those of this one.
    fn belongs(&self) -> Result<(), DeviceError> {
        if !self.exchanged.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        let Some(guard) = self.guard.get() else { return Ok(()) };
        if guard() {
            return Ok(());
        }
        self.exchanged();
        Err(DeviceError::Unavailable { device: self.name.clone(), why: ENDED.into() })
    }

    /// Returns the machine code for a text, compiled or from the cache. `kernel` is for messages.
    pub fn machine_code(&self, kernel: &str, source: &str, options: &[String]) -> Result<Vec<u8>, DeviceError> {
        let compiler = self
            .compiler
            .get()
            .as_ref()
            .map_err(|complaints| DeviceError::Unavailable { device: self.name.clone(), why: no_nvrtc(complaints) })?;
        let architecture = self.properties.architecture;
        let key = cache::Key { source, options, architecture, nvrtc: compiler.version() };
        let asked = Instant::now();
        let (cubin, made) = cache::fetch(self.settings.store.as_ref(), &key, || {
            let begin = Instant::now();
            let compiled = compiler.compile(source, &format!("{kernel}.cu"), architecture, options);
            add(&self.counts.compile_nanos, begin.elapsed().as_nanos() as u64);
            compiled.map(|compiled| compiled.cubin).map_err(|failure| rejected(kernel, failure))
        })?;
        match made {
            true => drop(add(&self.counts.compiled, 1)),
            false => {
                add(&self.counts.cached, 1);
                add(&self.counts.cached_nanos, asked.elapsed().as_nanos() as u64);
            }
        }
        Ok(cubin)
    }

    /// Whether the GPU's tensor cores compute with the bits of these; if not, says so once.
    pub fn has_cores(&self, wanted: Cores) -> bool {
        let architecture = self.properties.architecture;
        let Some(own) = Cores::of(architecture) else { return false };
        if wanted.multiply_on(architecture, self.settings.relies) {
            return true;
        }
        if let (Some(tell), false) = (self.settings.tell, self.told.swap(true, Ordering::Relaxed)) {
            let why = match own == wanted {
                true => format!(
                    "that its tensor cores have the bits of {own} is published, and was not tried; `--mma {own}` relies on it"
                ),
                false => format!(
                    "its tensor cores have other bits than those of {wanted}; `--mma {own}` gives `mma` theirs, on all devices"
                ),
            };
            tell(&format!("`mma` is computed by arithmetic on {} (sm_{architecture}), slowly: {why}", self.name));
        }
        false
    }

    /// Counts a launch of a product on tensor cores.
    pub fn count_product(&self) {
        add(&self.counts.on_tensor_cores, 1);
    }

    /// Adds the guards of a text to the statistics.
    pub fn count_guards(&self, guards: &Summary) {
        add(&self.counts.checkable, u64::from(guards.accesses + guards.divisions));
        add(&self.counts.guarded, u64::from(guards.guarded + guards.guarded_divisions));
    }

    /// Loads machine code, and adds the time to the statistics.
    pub fn load(&self, cubin: &[u8]) -> Result<Module, DeviceError> {
        let begin = Instant::now();
        let loaded = self.call(|driver| driver.load(cubin));
        add(&self.counts.load_nanos, begin.elapsed().as_nanos() as u64);
        loaded
    }

    /// Adds the time that issuing a launch took to the statistics.
    pub fn count_begin(&self, since: Instant) {
        add(&self.counts.begin_nanos, since.elapsed().as_nanos() as u64);
    }

    pub fn count_launch(&self) {
        add(&self.counts.launches, 1);
    }

    /// Runs a launch and, where launches are timed, measures it.
    pub fn timed(&self, launch: impl FnOnce(&dyn Driver) -> Answer) -> Result<(), DeviceError> {
        if !self.settings.timed {
            return self.call(launch);
        }
        let pair = self.call(|driver| {
            let pair = (driver.event()?, driver.event()?);
            driver.record(pair.0)?;
            launch(driver)?;
            driver.record(pair.1)?;
            Ok(pair)
        })?;
        let mut timings = self.timings.lock().unwrap_or_else(PoisonError::into_inner);
        timings.push(pair);
        if timings.len() >= TIMINGS {
            self.read_timings(&mut timings);
        }
        Ok(())
    }

    fn read_timings(&self, timings: &mut Vec<(Event, Event)>) {
        let Ok(driver) = self.driver() else { return };
        for (from, to) in timings.drain(..) {
            if let Ok(milliseconds) = driver.elapsed(from, to) {
                add(&self.counts.kernel_nanos, (milliseconds * 1e6) as u64);
            }
            driver.forget_event(from);
            driver.forget_event(to);
        }
    }

    pub fn statistics(&self) -> Statistics {
        let mut timings = self.timings.lock().unwrap_or_else(PoisonError::into_inner);
        if !timings.is_empty() {
            self.read_timings(&mut timings);
        }
        drop(timings);
        let counts = &self.counts;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Statistics {
            launches: of(&counts.launches),
            on_tensor_cores: of(&counts.on_tensor_cores),
            uploads: of(&counts.uploads),
            uploaded: of(&counts.uploaded),
            uploaded_beside: of(&counts.uploaded_beside),
            downloads: of(&counts.downloads),
            downloaded: of(&counts.downloaded),
            compiled: of(&counts.compiled),
            compile_seconds: of(&counts.compile_nanos) as f64 * 1e-9,
            cached: of(&counts.cached),
            cached_seconds: of(&counts.cached_nanos) as f64 * 1e-9,
            load_seconds: of(&counts.load_nanos) as f64 * 1e-9,
            begin_seconds: of(&counts.begin_nanos) as f64 * 1e-9,
            checkable: of(&counts.checkable),
            guarded: of(&counts.guarded),
            kernel_seconds: of(&counts.kernel_nanos) as f64 * 1e-9,
            held: of(&counts.held),
            held_most: of(&counts.held_most),
            machine_code: None,
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.drop_records();
    }
}

fn rejected(kernel: &str, failure: Failure) -> DeviceError {
    let log = match failure {
        Failure::Rejected { log } => log,
        Failure::Call { function, name, .. } => format!("{function} says {name}"),
    };
    DeviceError::Rejected { kernel: kernel.to_string(), log }
}

/// Returns, in one sentence, why there is no compiler.
pub fn no_nvrtc(complaints: &[String]) -> String {
    let tried = match complaints {
        [] => String::new(),
        [first, ..] => format!(" ({first})"),
    };
    format!("its compiler NVRTC is not found{tried}; `pip install nvidia-cuda-nvrtc` brings it, `CLK_NVRTC` names it")
}
