//! What all kernels and arrays of one GPU have in common: the driver, the compiler, the cache, the counts.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::batch::Batch;
use super::cache::{self, Store};
use super::driver::{Address, Answer, Driver, Event, Module, Properties, Refusal};
use super::nvrtc::{Compiler, Failure, Place};
use super::records::Records;
use super::replay::Replays;
use super::text::abi::Options;
use crate::base::late::Late;
use crate::device::{DeviceError, Statistics};
use crate::ir::ranges::Summary;

/// What the app decides about GPUs.
#[derive(Clone, Default)]
pub struct Settings {
    /// Where NVRTC may lie.
    pub nvrtc: Vec<Place>,
    /// Keeps machine code between runs.
    pub store: Option<Arc<dyn Store>>,
    /// Takes the time of every launch.
    pub timed: bool,
    /// Machine code names the program's lines, for tools that show them. Then it is compiled anew whenever a kernel moves.
    pub lines: bool,
    /// What texts are made for, as far as a launch leaves it open.
    pub text: Options,
    /// Kernels run in a process of their own.
    #[cfg(target_os = "linux")]
    pub isolation: Option<Isolation>,
}

/// What it takes to run kernels in a process of their own.
#[cfg(target_os = "linux")]
#[derive(Clone)]
pub struct Isolation {
    /// Starts processes.
    pub starter: Arc<dyn super::isolate::Starter>,
    /// Runs launches again that killed their process, to find the reason.
    pub witness: Arc<dyn crate::device::Device>,
    /// Told when there can be no such processes, and kernels run in this one; without it that is an error.
    pub otherwise: Option<fn(&str)>,
}

/// The one of a GPU.
pub(crate) struct Context {
    pub name: String,
    pub properties: Properties,
    pub settings: Settings,
    driver: Late<Answer<Arc<dyn Driver>>>,
    compiler: Late<Result<Arc<dyn Compiler>, Vec<String>>>,
    counts: Counts,
    /// Pairs of events around launches whose time was not asked for yet.
    timings: Mutex<Vec<(Event, Event)>>,
    /// Launches whose faults nobody knows yet.
    pub records: Mutex<Records>,
    /// Launches since one that may have no end; 0 if there is none.
    pub behind: AtomicUsize,
    /// Another process has taken the place of the one that had them.
    pub stale: AtomicBool,
    /// Launches that may not be done, where they are kept to be run again.
    pub replays: Replays,
    /// Launches of a `batch { }`, and whether one is open.
    pub batch: Mutex<Batch>,
    pub batching: AtomicBool,
}

#[derive(Default)]
struct Counts {
    launches: AtomicU64,
    uploads: AtomicU64,
    uploaded: AtomicU64,
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

/// Bytes of an upload that may have to wait for page-locked memory, which launches before it keep busy.
const LARGE: usize = 1 << 20;

/// Launches whose events are kept before their times are read.
const TIMINGS: usize = 1024;

impl Context {
    /// A GPU whose driver is started by `open` in a thread of its own, while another opens the compiler.
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
            counts: Counts::default(),
            timings: Mutex::default(),
            records: Mutex::default(),
            behind: AtomicUsize::new(0),
            stale: AtomicBool::new(false),
            replays: Replays::default(),
            batch: Mutex::default(),
            batching: AtomicBool::new(false),
        }
    }

    pub fn driver(&self) -> Result<&Arc<dyn Driver>, DeviceError> {
        self.driver.get().as_ref().map_err(|refusal| self.error(refusal.clone()))
    }

    /// The driver, if it could be opened.
    pub fn opened(&self) -> Option<&Arc<dyn Driver>> {
        self.driver.get().as_ref().ok()
    }

    /// A driver's refusal in the device's words.
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

    /// Runs a call of the driver.
    pub fn call<T>(&self, run: impl FnOnce(&dyn Driver) -> Answer<T>) -> Result<T, DeviceError> {
        run(&**self.driver()?).map_err(|refusal| self.error(refusal))
    }

    /// Memory for so many bytes; for none, no address.
    pub fn allocate(&self, bytes: u64) -> Result<Address, DeviceError> {
        if bytes == 0 {
            return Ok(Address::default());
        }
        let driver = self.driver()?;
        let address = match driver.allocate(bytes) {
            // What the pool keeps for later may be all that is missing.
            Err(refusal) if refusal.is_out_of_memory() => {
                // Trimming waits, and not for what has no end.
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
            // A large copy waits for room, and nobody would tell a kernel to stop that is before it.
            self.confirm()?;
        }
        add(&self.counts.uploads, 1);
        add(&self.counts.uploaded, bytes.len() as u64);
        self.call(|driver| driver.upload(to, bytes))
    }

    pub fn download(&self, from: Address, bytes: &mut [u8]) -> Result<(), DeviceError> {
        if bytes.is_empty() {
            return Ok(());
        }
        add(&self.counts.downloads, 1);
        add(&self.counts.downloaded, bytes.len() as u64);
        self.copy_here(from, bytes)
    }

    /// Machine code for a text, compiled or from the cache. `kernel` is for messages.
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

    /// Notes how much of a text is guarded.
    pub fn count_guards(&self, guards: &Summary) {
        add(&self.counts.checkable, u64::from(guards.accesses + guards.divisions));
        add(&self.counts.guarded, u64::from(guards.guarded + guards.guarded_divisions));
    }

    /// Loads machine code, and notes how long that takes.
    pub fn load(&self, cubin: &[u8]) -> Result<Module, DeviceError> {
        let begin = Instant::now();
        let loaded = self.call(|driver| driver.load(cubin));
        add(&self.counts.load_nanos, begin.elapsed().as_nanos() as u64);
        loaded
    }

    /// Notes how long a launch took to begin.
    pub fn count_begin(&self, since: Instant) {
        add(&self.counts.begin_nanos, since.elapsed().as_nanos() as u64);
    }

    pub fn count_launch(&self) {
        add(&self.counts.launches, 1);
    }

    /// Runs a launch and, where launches are timed, takes its time.
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
            uploads: of(&counts.uploads),
            uploaded: of(&counts.uploaded),
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

/// Why there is no compiler, in one sentence.
pub(crate) fn no_nvrtc(complaints: &[String]) -> String {
    let tried = match complaints {
        [] => String::new(),
        [first, ..] => format!(" ({first})"),
    };
    format!("its compiler NVRTC is not found{tried}; `pip install nvidia-cuda-nvrtc` brings it, `CLK_NVRTC` names it")
}
