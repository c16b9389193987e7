//! The execution context of array expressions: the device that a script uses, and the expression kernels that are
//! loaded on it.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustc_hash::FxHashMap;

use crate::array::Array;
use crate::graph::prefetch::PrefetchStream;
use crate::problem::HostResult;
use clk_ir::{Checks, CostCounting, PreparedKernel};
use clk_runtime::{Control, Device, Executable};
use clk_sim::Simulator;

/// Minimum size of a result for buffer donation. A donating kernel must be compiled separately, which does not pay off
/// for smaller results.
const MIN_DONATED_BYTES: usize = 1 << 20;

/// The loaded kernels of expressions, by device and cache key.
#[derive(Default)]
pub(crate) struct FusedKernels(Mutex<FxHashMap<(String, Vec<u8>), Arc<dyn Executable>>>);

impl FusedKernels {
    /// Returns the kernel with this cache key for a device. Builds and loads it on first use.
    fn get_or_load<E>(
        &self,
        device: &str,
        key: Vec<u8>,
        make: impl FnOnce() -> Result<Arc<dyn Executable>, E>,
    ) -> Result<Arc<dyn Executable>, E> {
        let key = (device.to_string(), key);
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let executable = make()?;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(key, executable.clone());
        Ok(executable)
    }
}

/// A device, and the options of launches on it. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ExecContext(Arc<ExecContextInner>);

struct ExecContextInner {
    device: Arc<dyn Device>,
    /// The device's name. It is determined lazily, because that may initialize the device.
    name: OnceLock<String>,
    control: Control,
    kernels: Arc<FusedKernels>,
    /// If the device is a GPU, the context that computes small results on the CPU.
    host: OnceLock<Option<ExecContext>>,
    caches_rows: OnceLock<bool>,
    min_donated_bytes: OnceLock<usize>,
    prefetches: PrefetchStream,
}

thread_local! {
    /// The context of the script that runs on this thread.
    static CURRENT: RefCell<Option<ExecContext>> = const { RefCell::new(None) };
    /// While code is being timed, the deferred results that will be computed at the end even if they are unused.
    static COLLECTED: RefCell<Option<Vec<Array>>> = const { RefCell::new(None) };
}

impl ExecContext {
    /// Creates a context. Its launches use the stop flag and the number of workers from `control`.
    pub fn new(device: Arc<dyn Device>, control: &Control, kernels: Arc<FusedKernels>) -> ExecContext {
        let control = Control {
            checks: Checks::default(),
            max_steps: 0,
            warnings: Arc::default(),
            launches: Arc::default(),
            ..control.clone()
        };
        ExecContext(Arc::new(ExecContextInner {
            device,
            name: OnceLock::new(),
            control,
            kernels,
            host: OnceLock::new(),
            caches_rows: OnceLock::new(),
            min_donated_bytes: OnceLock::new(),
            prefetches: PrefetchStream::default(),
        }))
    }

    /// Returns the context of the script that runs on this thread; a context with a simulator if there is no script.
    pub fn current() -> ExecContext {
        CURRENT.with_borrow_mut(|context| {
            let make = || ExecContext::new(Arc::new(Simulator::default()), &Control::default(), Arc::default());
            context.get_or_insert_with(make).clone()
        })
    }

    /// Makes this the thread's context until the guard is dropped.
    pub fn enter(self) -> ContextRestorer {
        ContextRestorer(CURRENT.replace(Some(self)))
    }

    /// Makes this the thread's context permanently, if a script runs on the thread.
    pub fn set_current(self) {
        CURRENT.with_borrow_mut(|context| {
            if context.is_some() {
                *context = Some(self);
            }
        });
    }

    pub fn device(&self) -> &Arc<dyn Device> {
        &self.0.device
    }

    pub fn control(&self) -> &Control {
        &self.0.control
    }

    pub fn name(&self) -> &str {
        self.0.name.get_or_init(|| self.0.device.name())
    }

    /// Returns the state of out-of-core reads on this device.
    pub fn prefetches(&self) -> &PrefetchStream {
        &self.0.prefetches
    }

    /// Returns the context of the CPU if this device has its own memory, to which operands must be copied.
    pub fn host_context(&self) -> Option<&ExecContext> {
        let make = || {
            let has_own_memory = self.0.device.memory().is_some();
            has_own_memory.then(|| ExecContext::new(Arc::new(Simulator::default()), &self.0.control, Arc::default()))
        };
        self.0.host.get_or_init(make).as_ref()
    }

    /// Whether expressions use the kernels for GPUs. True on a GPU, and on a simulator that counts the cost of launches
    /// on a GPU.
    pub fn is_gpu(&self) -> bool {
        self.0.device.capabilities().gpu_kernels || self.counts_launches()
    }

    /// Whether the costs of expression kernels are counted
    /// ([`ProfileCollector`](clk_runtime::profile::ProfileCollector)).
    pub fn counts_launches(&self) -> bool {
        self.0.control.counting.as_ref().is_some_and(|counting| counting.expressions)
    }

    /// Returns the kernel with this cache key. Builds and loads it on first use.
    pub fn kernel<E>(
        &self,
        mut key: Vec<u8>,
        make: impl FnOnce() -> Result<Arc<dyn Executable>, E>,
    ) -> Result<Arc<dyn Executable>, E> {
        key.push(self.counts_launches().into());
        self.0.kernels.get_or_load(self.name(), key, make)
    }

    /// Loads a kernel on the device.
    pub fn load(&self, mut prepared: PreparedKernel) -> Arc<dyn Executable> {
        prepared.cost_counting = self.counts_launches().then_some(CostCounting::Expression);
        self.0.device.load(Arc::new(prepared), None)
    }

    /// Returns whether row-wise kernels cache their rows in shared memory. GPUs do, because their caches are small
    /// compared with the number of rows in flight.
    pub fn caches_rows(&self) -> bool {
        *self.0.caches_rows.get_or_init(|| self.is_gpu())
    }

    /// Makes row-wise kernels on a simulator cache rows in shared memory, like on GPUs.
    #[cfg(test)]
    pub fn with_cached_rows(self) -> ExecContext {
        self.0.caches_rows.set(true).expect("a new site");
        self
    }

    /// Returns the minimum size for buffer donation.
    pub fn min_donated_bytes(&self) -> usize {
        *self.0.min_donated_bytes.get_or_init(|| MIN_DONATED_BYTES)
    }

    #[cfg(test)]
    pub fn with_min_donated(self, bytes: usize) -> Self {
        self.0.min_donated_bytes.set(bytes).expect("a new site");
        self
    }

    pub fn is_same(&self, other: &ExecContext) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Restores the thread's previous context when dropped.
pub(crate) struct ContextRestorer(Option<ExecContext>);

impl Drop for ContextRestorer {
    fn drop(&mut self) {
        CURRENT.set(self.0.take());
    }
}

/// Collects deferred results while code is timed, and computes them at the end. Otherwise the time of unused results
/// would not be measured.
pub(crate) struct ResultCollector(Option<Vec<Array>>);

/// Maximum number of collected results. If there are more, the oldest one is computed immediately.
const MAX_COLLECTED: usize = 16;

impl ResultCollector {
    pub fn begin() -> ResultCollector {
        ResultCollector(COLLECTED.replace(Some(Vec::new())))
    }

    /// Calls `evaluate` without collecting its results.
    pub fn suspend<R>(evaluate: impl FnOnce() -> R) -> R {
        let _suspended = ResultCollector(COLLECTED.replace(None));
        evaluate()
    }

    /// Computes the collected results.
    pub fn finish(self) -> HostResult<()> {
        let arrays = COLLECTED.with_borrow_mut(|held| held.as_mut().map(std::mem::take)).unwrap_or_default();
        arrays.iter().try_for_each(|array| array.storage().map(drop))
    }

    /// Removes an array from the collected results, because another kernel computes it inline.
    pub fn forget(array: &Array) {
        COLLECTED.with_borrow_mut(|held| {
            let others = |kept: &Array| !Arc::ptr_eq(kept.data(), array.data());
            held.iter_mut().for_each(|held| held.retain(others));
        });
    }

    /// Adds a new result if code is being timed, and removes the operands of its expression.
    pub fn record<'a>(result: &Array, operands: impl Iterator<Item = &'a Array>) -> HostResult<()> {
        operands.for_each(ResultCollector::forget);
        let oldest = COLLECTED.with_borrow_mut(|collected| {
            let collected = collected.as_mut()?;
            collected.push(result.clone());
            (collected.len() > MAX_COLLECTED).then(|| collected.remove(0))
        });
        oldest.map_or(Ok(()), |array| array.storage().map(drop))
    }
}

impl Drop for ResultCollector {
    fn drop(&mut self) {
        COLLECTED.set(self.0.take());
    }
}
