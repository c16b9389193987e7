//! The execution context of array expressions: the device that a script uses, the expression kernels that are loaded
//! on it, and the location of the expression.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use rustc_hash::FxHashMap;

use crate::array::{Array, Data};
use crate::graph::prefetch::PrefetchStream;
use crate::problem::HostResult;
use clk_base::source::Span;
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

/// What the contexts of an interpreter share: the loaded kernels, and results that are still to be computed.
#[derive(Default)]
pub(crate) struct ExpressionState {
    kernels: FusedKernels,
    pending: Arc<PendingResults>,
    host: OnceLock<HostExecution>,
}

/// The CPU as a second device, which computes small results if the device is a GPU.
#[derive(Clone)]
struct HostExecution {
    device: Arc<dyn Device>,
    state: Arc<ExpressionState>,
}

impl ExpressionState {
    /// Returns a state with the same pending results, but without loaded kernels.
    pub fn without_kernels(&self) -> Arc<ExpressionState> {
        let pending = self.pending.clone();
        Arc::new(ExpressionState { kernels: FusedKernels::default(), pending, host: OnceLock::new() })
    }

    /// Returns the CPU and its kernels, which all contexts with this state use.
    fn host(&self) -> HostExecution {
        let make = || HostExecution { device: Arc::new(Simulator::default()), state: self.without_kernels() };
        self.host.get_or_init(make).clone()
    }
}

/// Deferred results that are computed although nothing has read them.
#[derive(Default)]
struct PendingResults {
    /// Deferred reductions that keep large operands alive, oldest first.
    pinned: Mutex<Vec<PinningReduction>>,
    /// While code is being timed, the results that will be computed at the end even if they are unused.
    collected: Mutex<Option<Vec<Array>>>,
}

/// A deferred reduction whose operands keep `bytes` bytes alive.
struct PinningReduction {
    result: Weak<Data>,
    bytes: usize,
}

/// Number of most recent reductions that are never computed early: the current expression may be fused with them.
const RECENT: usize = 4;

impl PendingResults {
    fn collected(&self) -> MutexGuard<'_, Option<Vec<Array>>> {
        self.collected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tracks a deferred reduction. Returns the oldest ones if all tracked reductions together keep more than `limit`
    /// bytes alive.
    fn pin(&self, result: &Array, bytes: usize, limit: usize) -> Vec<Arc<Data>> {
        let mut waiting = self.pinned.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|reduction| reduction.result.upgrade().is_some_and(|data| data.computed().is_none()));
        waiting.push(PinningReduction { result: Arc::downgrade(result.data()), bytes });
        let mut all = waiting.iter().fold(0, |all: usize, reduction| all.saturating_add(reduction.bytes));
        let mut due = Vec::new();
        while all > limit && waiting.len() > RECENT {
            let oldest = waiting.remove(0);
            all -= oldest.bytes.min(all);
            due.extend(oldest.result.upgrade());
        }
        due
    }
}

/// A device, the options of launches on it, and the location of the expression. Cheap to clone.
#[derive(Clone)]
pub struct ExecContext {
    inner: Arc<ExecContextInner>,
    /// The code to which faults and costs are attributed.
    location: Span,
    /// Whether operations in this context change the collected results.
    collects: bool,
}

struct ExecContextInner {
    device: Arc<dyn Device>,
    /// The device's name. It is determined lazily, because that may initialize the device.
    name: OnceLock<String>,
    control: Control,
    state: Arc<ExpressionState>,
    /// If the device is a GPU, the context that computes small results on the CPU.
    host: OnceLock<Option<ExecContext>>,
    caches_rows: OnceLock<bool>,
    min_donated_bytes: OnceLock<usize>,
    prefetches: PrefetchStream,
}

impl ExecContext {
    /// Creates a context. Its launches use the stop flag and the number of workers from `control`.
    pub(crate) fn new(device: Arc<dyn Device>, control: &Control, state: Arc<ExpressionState>) -> ExecContext {
        let control = Control {
            checks: Checks::default(),
            max_steps: 0,
            warnings: Arc::default(),
            launches: Arc::default(),
            ..control.clone()
        };
        let inner = ExecContextInner {
            device,
            name: OnceLock::new(),
            control,
            state,
            host: OnceLock::new(),
            caches_rows: OnceLock::new(),
            min_donated_bytes: OnceLock::new(),
            prefetches: PrefetchStream::default(),
        };
        ExecContext { inner: Arc::new(inner), location: Span::default(), collects: true }
    }

    pub fn device(&self) -> &Arc<dyn Device> {
        &self.inner.device
    }

    pub fn control(&self) -> &Control {
        &self.inner.control
    }

    pub fn name(&self) -> &str {
        self.inner.name.get_or_init(|| self.inner.device.name())
    }

    /// Returns the state of out-of-core reads on this device.
    pub(crate) fn prefetches(&self) -> &PrefetchStream {
        &self.inner.prefetches
    }

    pub(crate) fn location(&self) -> Span {
        self.location
    }

    /// Returns this context with another location.
    pub(crate) fn at(&self, location: Span) -> ExecContext {
        ExecContext { location, ..self.clone() }
    }

    /// Returns the context of another device, with this location and this setting of
    /// [`ExecContext::without_collecting`].
    pub(crate) fn on(&self, device: &ExecContext) -> ExecContext {
        ExecContext { inner: device.inner.clone(), ..*self }
    }

    /// Replaces the location and returns the previous one.
    pub(crate) fn replace_location(&mut self, location: Span) -> Span {
        std::mem::replace(&mut self.location, location)
    }

    /// Returns the context of the CPU if this device has its own memory, to which operands must be copied.
    pub(crate) fn host_context(&self) -> Option<ExecContext> {
        let make = || {
            let has_own_memory = self.inner.device.memory().is_some();
            has_own_memory.then(|| {
                let HostExecution { device, state } = self.inner.state.host();
                ExecContext::new(device, &self.inner.control, state)
            })
        };
        let host = self.inner.host.get_or_init(make).as_ref()?;
        Some(ExecContext { inner: host.inner.clone(), ..*self })
    }

    /// Whether expressions use the kernels for GPUs. True on a GPU, and on a simulator that counts the cost of launches
    /// on a GPU.
    pub fn is_gpu(&self) -> bool {
        self.inner.device.capabilities().gpu_kernels || self.counts_launches()
    }

    /// Whether the costs of expression kernels are counted
    /// ([`ProfileCollector`](clk_runtime::profile::ProfileCollector)).
    pub fn counts_launches(&self) -> bool {
        self.inner.control.counting.as_ref().is_some_and(|counting| counting.expressions)
    }

    /// Returns the kernel with this cache key. Builds and loads it on first use.
    pub fn kernel<E>(
        &self,
        mut key: Vec<u8>,
        make: impl FnOnce() -> Result<Arc<dyn Executable>, E>,
    ) -> Result<Arc<dyn Executable>, E> {
        key.push(self.counts_launches().into());
        self.inner.state.kernels.get_or_load(self.name(), key, make)
    }

    /// Loads a kernel on the device.
    pub fn load(&self, mut prepared: PreparedKernel) -> Arc<dyn Executable> {
        prepared.cost_counting = self.counts_launches().then_some(CostCounting::Expression);
        self.inner.device.load(Arc::new(prepared), None)
    }

    /// Returns whether row-wise kernels cache their rows in shared memory. GPUs do, because their caches are small
    /// compared with the number of rows in flight.
    pub fn caches_rows(&self) -> bool {
        *self.inner.caches_rows.get_or_init(|| self.is_gpu())
    }

    /// Makes row-wise kernels on a simulator cache rows in shared memory, like on GPUs.
    #[cfg(test)]
    pub fn with_cached_rows(self) -> ExecContext {
        self.inner.caches_rows.set(true).expect("a new site");
        self
    }

    /// Returns the minimum size for buffer donation.
    pub fn min_donated_bytes(&self) -> usize {
        *self.inner.min_donated_bytes.get_or_init(|| MIN_DONATED_BYTES)
    }

    #[cfg(test)]
    pub fn with_min_donated(self, bytes: usize) -> Self {
        self.inner.min_donated_bytes.set(bytes).expect("a new site");
        self
    }

    /// Returns a context whose operations do not change the collected results.
    pub fn without_collecting(&self) -> ExecContext {
        ExecContext { collects: false, ..self.clone() }
    }

    /// Tracks a deferred reduction whose operands keep `bytes` bytes alive. If all tracked reductions together keep
    /// more than `limit` bytes alive, computes the oldest ones.
    pub fn pin(&self, result: &Array, bytes: usize, limit: usize) {
        for data in self.inner.state.pending.pin(result, bytes, limit) {
            // An error is ignored here, because a later reader computes the reduction again and reports it.
            drop(data.storage());
        }
    }

    /// Begins to collect results. They are collected until the guard is dropped.
    pub(crate) fn begin_collecting(&self) -> ResultCollector {
        let pending = self.inner.state.pending.clone();
        let outer = pending.collected().replace(Vec::new());
        ResultCollector { pending, outer }
    }

    /// Removes an array from the collected results, because another kernel computes it inline.
    pub fn forget_result(&self, array: &Array) {
        if !self.collects {
            return;
        }
        if let Some(collected) = &mut *self.inner.state.pending.collected() {
            collected.retain(|kept| !Arc::ptr_eq(kept.data(), array.data()));
        }
    }

    /// Adds a new result if code is being timed, and removes the operands of its expression.
    pub fn record_result<'a>(&self, result: &Array, operands: impl Iterator<Item = &'a Array>) -> HostResult<()> {
        if !self.collects {
            return Ok(());
        }
        let oldest = {
            let mut collected = self.inner.state.pending.collected();
            let Some(collected) = &mut *collected else { return Ok(()) };
            for operand in operands {
                collected.retain(|kept| !Arc::ptr_eq(kept.data(), operand.data()));
            }
            collected.push(result.clone());
            (collected.len() > MAX_COLLECTED).then(|| collected.remove(0))
        };
        oldest.map_or(Ok(()), |array| array.storage().map(drop))
    }

    /// Returns whether one kernel may compute operations of both contexts. Contexts of different entries of a session,
    /// or of different `on … { }` blocks, are different objects for the same device.
    pub(crate) fn can_share_kernel(&self, other: &ExecContext) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
            || Arc::ptr_eq(&self.inner.device, &other.inner.device)
                && self.counts_launches() == other.counts_launches()
                && Arc::ptr_eq(&self.inner.control.stop, &other.inner.control.stop)
    }
}

/// Maximum number of collected results. If there are more, the oldest one is computed immediately.
const MAX_COLLECTED: usize = 16;

/// Collects deferred results while code is timed, and computes them at the end. Otherwise the time of unused results
/// would not be measured.
pub(crate) struct ResultCollector {
    pending: Arc<PendingResults>,
    outer: Option<Vec<Array>>,
}

impl ResultCollector {
    /// Computes the collected results.
    pub fn finish(self) -> HostResult<()> {
        let arrays = self.pending.collected().as_mut().map(std::mem::take).unwrap_or_default();
        arrays.iter().try_for_each(|array| array.storage().map(drop))
    }
}

impl Drop for ResultCollector {
    fn drop(&mut self) {
        *self.pending.collected() = self.outer.take();
    }
}

/// A context with a simulator, for code outside of an interpreter.
impl Default for ExecContext {
    fn default() -> ExecContext {
        ExecContext::new(Arc::new(Simulator::default()), &Control::default(), Arc::default())
    }
}
