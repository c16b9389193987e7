//! State shared by all kernels and arrays of one GPU: driver, compiler, cache, statistics.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::batch::BatchState;
use super::driver::{DevicePtr, Driver, DriverError, DriverModule, DriverResult, Properties, StreamEvent};
use super::nvrtc::{CudaCompiler, NvrtcError, NvrtcPath};
use super::records::FaultRecords;
use super::replay::Replays;
use super::text::abi::CodegenOptions;
use clk_base::background::Background;
use clk_ir::ranges::Summary;
use clk_runtime::code_cache::{self, CacheKey, CacheStore};
use clk_runtime::exchange::{ENDED, ExchangeGuard};
use clk_runtime::resident_arrays::ResidentArrays;
use clk_runtime::{DeviceError, LaunchProgress, Statistics};
use clk_scalar::tensor_core_model::TensorCoreModel;

/// Settings for GPUs, which the app chooses.
#[derive(Clone, Default)]
pub struct GpuSettings {
    /// Candidate locations of NVRTC.
    pub nvrtc: Vec<NvrtcPath>,
    /// Identifier of this machine, without spaces.
    pub machine: String,
    /// Candidate locations of NCCL.
    pub nccl: Vec<PathBuf>,
    /// The store of the machine code cache; `None` disables the cache.
    pub store: Option<Arc<dyn CacheStore>>,
    /// Whether the time of every launch is measured.
    pub timed: bool,
    /// Whether machine code contains line information for tools. If set, a kernel is recompiled whenever it moves in
    /// its file.
    pub lines: bool,
    /// Options for code generation, except those that depend on the launch.
    pub text: CodegenOptions,
    /// The tensor-core instructions that generated code uses.
    pub tensor: TensorInstructions,
    /// Whether the user selected a tensor-core model for `mma`, and relies on the published behavior of this GPU's
    /// tensor cores.
    pub relies: bool,
    /// Called once, with a message for the user, if `mma` is computed without the GPU's tensor cores.
    pub tell: Option<fn(&str)>,
    /// If set, kernels run in a worker process.
    #[cfg(target_os = "linux")]
    pub isolation: Option<Isolation>,
}

/// The set of tensor-core instructions that generated code may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TensorInstructions {
    /// The fastest instructions that the GPU has.
    #[default]
    Best,
    /// Only the instructions that all GPUs from sm_80 on have. For tests and measurements.
    Sync,
}

/// The text selects no instructions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are no instructions `{0}` for tensor cores; there are best and sync")]
pub struct UnknownTensorInstructions(String);

impl FromStr for TensorInstructions {
    type Err = UnknownTensorInstructions;

    fn from_str(text: &str) -> Result<TensorInstructions, UnknownTensorInstructions> {
        match text {
            "best" => Ok(TensorInstructions::Best),
            "sync" => Ok(TensorInstructions::Sync),
            _ => Err(UnknownTensorInstructions(text.into())),
        }
    }
}

/// The parts of the app that running kernels in a worker process requires.
#[cfg(target_os = "linux")]
#[derive(Clone)]
pub struct Isolation {
    /// Starts the child processes.
    pub starter: Arc<dyn clk_runtime::worker_process::Starter>,
    /// The device that replays a launch after it killed its worker, to find the cause.
    pub replay_device: Arc<dyn clk_runtime::Device>,
    /// Called with the reason if no worker process can be started; kernels then run in this process. If `None`, this
    /// situation is an error.
    pub fallback_notice: Option<fn(&str)>,
}

/// The kernels since the last wait of the host that may run forever.
#[derive(Default)]
pub(crate) struct PendingKernels {
    pub progress: Option<Arc<LaunchProgress>>,
    pub names: Vec<String>,
}

/// The shared state of a GPU.
pub(crate) struct GpuContext {
    pub name: String,
    pub properties: Properties,
    pub settings: GpuSettings,
    driver: Background<DriverResult<Arc<dyn Driver>>>,
    /// The arrays in the GPU's memory.
    pub arrays: ResidentArrays,
    compiler: Background<Result<Arc<dyn CudaCompiler>, Vec<String>>>,
    counts: GpuCounters,
    /// Pairs of events, before and after a launch, whose duration has not been read yet.
    timings: Mutex<Vec<(StreamEvent, StreamEvent)>>,
    /// Fault records of launches for which the host does not know yet whether they faulted.
    pub records: Mutex<FaultRecords>,
    /// Number of launches since the first one that may run forever; 0 if there is none.
    pub launches_after_endless: AtomicUsize,
    /// Whether a new worker has replaced the one in which `records` and graphs were created.
    pub are_records_stale: AtomicBool,
    /// Launches that may not have completed, recorded for replay.
    pub replays: Replays,
    /// `batch` is the state of `batch { }` blocks, `batching` whether one is open.
    pub batch: Mutex<BatchState>,
    pub batching: AtomicBool,
    /// Kernels that may run forever, for the display of what the host waits for.
    pub pending_kernels: Mutex<PendingKernels>,
    /// Whether `GpuSettings::tell` has been called.
    was_noticed: AtomicBool,
    /// `guard` confirms that the collective calls of all processes matched. `has_new_exchange` is set if there were
    /// calls since the last confirmation.
    guard: OnceLock<ExchangeGuard>,
    has_new_exchange: AtomicBool,
}

#[derive(Default)]
struct GpuCounters {
    launches: AtomicU64,
    on_matrix_units: AtomicU64,
    uploads: AtomicU64,
    uploaded: AtomicU64,
    overlapped_upload_bytes: AtomicU64,
    downloads: AtomicU64,
    downloaded: AtomicU64,
    compiled: AtomicU64,
    compile_nanos: AtomicU64,
    cached: AtomicU64,
    cached_nanos: AtomicU64,
    load_nanos: AtomicU64,
    begin_nanos: AtomicU64,
    checkable_ops: AtomicU64,
    guarded: AtomicU64,
    kernel_nanos: AtomicU64,
    array_bytes: AtomicU64,
    peak_array_bytes: AtomicU64,
}

fn add(count: &AtomicU64, amount: u64) -> u64 {
    count.fetch_add(amount, Ordering::Relaxed) + amount
}

/// Minimum size in bytes of uploads that may have to wait for staging buffers which earlier operations occupy.
const LARGE_UPLOAD: usize = 1 << 20;

/// Number of launches after which the durations between their events are read.
const TIMINGS: usize = 1024;

impl GpuContext {
    /// Creates the context of a GPU. `open` starts the driver and `compiler` opens the compiler, each on its own
    /// thread.
    pub fn new(
        properties: Properties,
        settings: GpuSettings,
        open: impl FnOnce(Properties) -> DriverResult<Arc<dyn Driver>> + Send + 'static,
        compiler: impl FnOnce() -> Result<Arc<dyn CudaCompiler>, Vec<String>> + Send + 'static,
    ) -> GpuContext {
        let theirs = properties.clone();
        GpuContext {
            name: format!("gpu:{}", properties.ordinal),
            driver: Background::start("gpu context", move || open(theirs)),
            compiler: Background::start("nvrtc", compiler),
            properties,
            settings,
            arrays: ResidentArrays::default(),
            counts: GpuCounters::default(),
            timings: Mutex::default(),
            records: Mutex::default(),
            launches_after_endless: AtomicUsize::new(0),
            are_records_stale: AtomicBool::new(false),
            replays: Replays::default(),
            batch: Mutex::default(),
            batching: AtomicBool::new(false),
            pending_kernels: Mutex::default(),
            was_noticed: AtomicBool::new(false),
            guard: OnceLock::new(),
            has_new_exchange: AtomicBool::new(false),
        }
    }

    pub fn driver(&self) -> Result<&Arc<dyn Driver>, DeviceError> {
        self.driver.get().as_ref().map_err(|refusal| self.error(refusal.clone()))
    }

    /// Returns the driver if it was opened successfully.
    pub fn driver_if_open(&self) -> Option<&Arc<dyn Driver>> {
        self.driver.get().as_ref().ok()
    }

    /// Converts the error of a driver call to the error that the device reports.
    pub fn error(&self, refusal: DriverError) -> DeviceError {
        if let Some(loss) = self.worker_loss(&refusal) {
            return DeviceError::Lost(Box::new(loss));
        }
        DeviceError::Driver {
            device: self.name.clone(),
            call: refusal.call.to_string(),
            lost: refusal.is_sticky(),
            name: refusal.name,
        }
    }

    /// Calls the driver and converts its error.
    pub fn call<T>(&self, run: impl FnOnce(&dyn Driver) -> DriverResult<T>) -> Result<T, DeviceError> {
        run(&**self.driver()?).map_err(|refusal| self.error(refusal))
    }

    /// Allocates this many bytes. Returns address 0 if `bytes` is 0.
    pub fn allocate(&self, bytes: u64) -> Result<DevicePtr, DeviceError> {
        if bytes == 0 {
            return Ok(DevicePtr::default());
        }
        let driver = self.driver()?;
        let address = match driver.allocate(bytes) {
            // If memory is full, return the pool's unused memory to the system and retry.
            Err(refusal) if refusal.is_out_of_memory() => {
                // Trimming waits for pending operations. First ensure that these do not include a kernel that may run
                // forever.
                self.confirm()?;
                driver.trim().and_then(|()| driver.allocate(bytes))
            }
            answer => answer,
        };
        match address {
            Ok(address) => {
                let current_bytes = add(&self.counts.array_bytes, bytes);
                self.counts.peak_array_bytes.fetch_max(current_bytes, Ordering::Relaxed);
                Ok(address)
            }
            Err(refusal) if refusal.is_out_of_memory() => {
                let (free, total) = driver.memory().unwrap_or((0, self.properties.memory));
                let arrays = self.counts.array_bytes.load(Ordering::Relaxed);
                Err(DeviceError::OutOfMemory { device: self.name.clone(), wanted: bytes, free, total, arrays })
            }
            Err(refusal) => Err(self.error(refusal)),
        }
    }

    pub fn free(&self, address: DevicePtr, bytes: u64) {
        if let (true, Ok(driver)) = (bytes > 0, self.driver()) {
            self.free_after_launches(&**driver, address);
            self.counts.array_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    pub fn upload(&self, to: DevicePtr, bytes: &[u8]) -> Result<(), DeviceError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let waits = bytes.len() >= LARGE_UPLOAD || self.is_isolated();
        if waits && self.launches_after_endless.load(Ordering::Relaxed) > 0 {
            // A large copy may wait for a staging buffer until earlier kernels end, and cannot ask these to stop. So
            // wait for them first.
            self.confirm()?;
        }
        add(&self.counts.uploads, 1);
        add(&self.counts.uploaded, bytes.len() as u64);
        self.call(|driver| driver.upload(to, bytes))
    }

    /// Like [`GpuContext::upload`], but the copy begins once an event is reached, and overlaps with all other work.
    /// Returns the event that is reached when the copy ends.
    pub fn upload_overlapped(
        &self,
        to: DevicePtr,
        bytes: &[u8],
        after: StreamEvent,
    ) -> Result<StreamEvent, DeviceError> {
        add(&self.counts.uploads, 1);
        add(&self.counts.uploaded, bytes.len() as u64);
        add(&self.counts.overlapped_upload_bytes, bytes.len() as u64);
        self.call(|driver| driver.upload_overlapped(to, bytes, after))
    }

    pub fn download(&self, from: DevicePtr, bytes: &mut [u8]) -> Result<(), DeviceError> {
        if bytes.is_empty() {
            return Ok(());
        }
        add(&self.counts.downloads, 1);
        add(&self.counts.downloaded, bytes.len() as u64);
        self.download_checked(from, bytes)?;
        self.check_exchange_guard()
    }

    /// Makes the GPU's context current on this thread.
    pub fn enter(&self) -> Result<(), DeviceError> {
        let why = "its context cannot be made current";
        let failed = || DeviceError::Unavailable { device: self.name.clone(), why: why.into() };
        self.driver()?.stream().map(drop).ok_or_else(failed)
    }

    /// Sets the guard that confirms collective operations. Only the first call has an effect.
    pub fn set_exchange_guard(&self, guard: ExchangeGuard) {
        let _ = self.guard.set(guard);
    }

    /// Records that a collective operation was issued.
    pub fn note_exchange(&self) {
        self.has_new_exchange.store(true, Ordering::SeqCst);
    }

    /// Fails if the collective calls of the processes since the last check did not match.
    fn check_exchange_guard(&self) -> Result<(), DeviceError> {
        if !self.has_new_exchange.swap(false, Ordering::SeqCst) {
            return Ok(());
        }
        let Some(guard) = self.guard.get() else { return Ok(()) };
        if guard() {
            return Ok(());
        }
        self.note_exchange();
        Err(DeviceError::Unavailable { device: self.name.clone(), why: ENDED.into() })
    }

    /// Compiles generated code to machine code, or returns the machine code from the cache. `kernel` is the kernel's
    /// name for messages.
    pub fn machine_code(&self, kernel: &str, source: &str, options: &[String]) -> Result<Vec<u8>, DeviceError> {
        let compiler = self
            .compiler
            .get()
            .as_ref()
            .map_err(|complaints| DeviceError::Unavailable { device: self.name.clone(), why: no_nvrtc(complaints) })?;
        let architecture = self.properties.architecture;
        let key = || cubin_key(source, options, architecture, compiler.version());
        let started = Instant::now();
        let (cubin, made) = code_cache::fetch(self.settings.store.as_ref(), key, || {
            let begin = Instant::now();
            let compiled = compiler.compile(source, &format!("{kernel}.cu"), architecture, options);
            add(&self.counts.compile_nanos, begin.elapsed().as_nanos() as u64);
            compiled.map(|compiled| compiled.cubin).map_err(|failure| rejected(kernel, failure))
        })?;
        match made {
            true => drop(add(&self.counts.compiled, 1)),
            false => {
                add(&self.counts.cached, 1);
                add(&self.counts.cached_nanos, started.elapsed().as_nanos() as u64);
            }
        }
        Ok(cubin)
    }

    /// Returns whether the results of the GPU's tensor cores are bit-identical to those of the wanted model. If not,
    /// shows a notice once.
    pub fn has_matching_tensor_cores(&self, wanted: TensorCoreModel) -> bool {
        let architecture = self.properties.architecture;
        let Some(own) = TensorCoreModel::for_architecture(architecture) else { return false };
        if wanted.can_use_gpu(architecture, self.settings.relies) {
            return true;
        }
        if let (Some(tell), false) = (self.settings.tell, self.was_noticed.swap(true, Ordering::Relaxed)) {
            let why = match own == wanted {
                true => format!(
                    "that its tensor cores have the bits of {own} is published, and was not tried; `--mma {own}` relies on it"
                ),
                false => format!(
                    "its tensor cores round differently from those of {wanted}; `--mma {own}` makes `mma` round like them on all devices"
                ),
            };
            tell(&format!("`mma` is computed by arithmetic on {} (sm_{architecture}), slowly: {why}", self.name));
        }
        false
    }

    /// Counts a launch that runs a product on tensor cores.
    pub fn count_product(&self) {
        add(&self.counts.on_matrix_units, 1);
    }

    /// Adds the numbers of guards in generated code to the statistics.
    pub fn count_guards(&self, guards: &Summary) {
        add(&self.counts.checkable_ops, u64::from(guards.accesses + guards.divisions));
        add(&self.counts.guarded, u64::from(guards.guarded + guards.guarded_divisions));
    }

    /// Loads machine code, and adds the time that loading took to the statistics.
    pub fn load(&self, cubin: &[u8]) -> Result<DriverModule, DeviceError> {
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

    /// Runs a launch. If launches are timed, records events before and after it.
    pub fn run_timed(&self, launch: impl FnOnce(&dyn Driver) -> DriverResult) -> Result<(), DeviceError> {
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

    fn read_timings(&self, timings: &mut Vec<(StreamEvent, StreamEvent)>) {
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
            on_matrix_units: of(&counts.on_matrix_units),
            uploads: of(&counts.uploads),
            uploaded: of(&counts.uploaded),
            overlapped_upload_bytes: of(&counts.overlapped_upload_bytes),
            downloads: of(&counts.downloads),
            downloaded: of(&counts.downloaded),
            compiled: of(&counts.compiled),
            compile_seconds: of(&counts.compile_nanos) as f64 * 1e-9,
            cached: of(&counts.cached),
            cached_seconds: of(&counts.cached_nanos) as f64 * 1e-9,
            load_seconds: of(&counts.load_nanos) as f64 * 1e-9,
            issue_seconds: of(&counts.begin_nanos) as f64 * 1e-9,
            checkable_ops: of(&counts.checkable_ops),
            guarded: of(&counts.guarded),
            kernel_seconds: of(&counts.kernel_nanos) as f64 * 1e-9,
            array_bytes: of(&counts.array_bytes),
            peak_array_bytes: of(&counts.peak_array_bytes),
            machine_code: None,
        }
    }
}

impl Drop for GpuContext {
    fn drop(&mut self) {
        self.drop_records();
    }
}

fn rejected(kernel: &str, failure: NvrtcError) -> DeviceError {
    let log = match failure {
        NvrtcError::Rejected { log } => log,
        NvrtcError::Call { function, name, .. } => format!("{function} says {name}"),
    };
    DeviceError::Rejected { kernel: kernel.to_string(), log }
}

/// Returns a sentence that says why NVRTC cannot be opened.
pub fn no_nvrtc(complaints: &[String]) -> String {
    let tried = match complaints {
        [] => String::new(),
        [first, ..] => format!(" ({first})"),
    };
    format!("its compiler NVRTC is not found{tried}; `pip install nvidia-cuda-nvrtc` brings it, `CLK_NVRTC` names it")
}

/// Returns the cache key of machine code: everything that it depends on.
fn cubin_key(source: &str, options: &[String], architecture: u32, nvrtc: (i32, i32)) -> CacheKey {
    let numbers = [architecture.to_le_bytes(), nvrtc.0.to_le_bytes(), nvrtc.1.to_le_bytes()];
    let key = numbers.iter().fold(CacheKey::new(), |key, number| key.part(number));
    options.iter().fold(key, |key, option| key.part(option.as_bytes())).part(source.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_names_depend_on_all_inputs() {
        let fast = ["-G".to_string()];
        let name = cubin_key("text", &[], 90, (13, 0)).name();
        let others = [
            cubin_key("text ", &[], 90, (13, 0)),
            cubin_key("text", &fast, 90, (13, 0)),
            cubin_key("text", &[], 89, (13, 0)),
            cubin_key("text", &[], 90, (13, 1)),
            cubin_key("text", &[], 90, (12, 0)),
        ];
        for other in others {
            assert_ne!(other.name(), name);
        }
    }

    /// Entries that earlier builds of this version wrote stay valid.
    #[test]
    fn entry_names_are_stable() {
        let options = ["--std=c++17".to_string(), "--fmad=false".to_string()];
        let name = cubin_key("text", &options, 90, (13, 0)).name();
        assert_eq!(
            name, "13fa313a743dd068ef3e72f6b470360b9a0c13391db5a3017cfe876952339bbf",
            "the name depends on Clk's version and changes with it"
        );
    }
}
