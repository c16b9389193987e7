//! NVIDIA GPUs through CUDA.
//!
//! [`text`] generates CUDA C++ and launch metadata from a prepared kernel, without a GPU. [`nvrtc`] compiles the code,
//! and [`cubin`] reads its resource usage. [`driver`] is the interface to the GPU's
//! driver. Each GPU has a [`context`] with its arrays (`memory`), kernels and their variants, launch plans, batches,
//! and fault records of asynchronous launches. With [`isolate`], the driver runs in a worker process, so a kernel that
//! corrupts its context costs only that process. `replay` then finds the cause.

#![allow(rustdoc::private_intra_doc_links)]

mod batch;
mod context;
pub mod cubin;
pub mod driver;
#[cfg(target_os = "linux")]
pub mod isolate;
mod kernel;
mod launch;
mod memory;
mod nccl;
pub mod nvrtc;
mod pending_kernels;
mod plan;
mod records;
mod replay;
pub mod text;
mod variant;

use std::any::Any;
use std::sync::Arc;

use self::context::GpuContext;
use self::driver::nvidia::{self, Nvidia};
use self::driver::{Driver, DriverResult, Properties, StreamEvent};
use self::nvrtc::{CudaCompiler, Nvrtc};
use clk_base::aligned::BufferGuard;
use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_runtime::exchange::{CollectiveDevice, CollectiveError};
use clk_runtime::import::{ForeignStream, ImportedBuffer};
use clk_runtime::storage::{DeviceBytes, Storage};
use clk_runtime::{
    BoxedTimestamp, Capabilities, Device, DeviceError, DeviceKind, DeviceMemory, Executable, Interop, PendingUpload,
    Statistics, ThreadStateGuard, Timestamp,
};

#[cfg(target_os = "linux")]
pub use context::Isolation;
pub use context::no_nvrtc;
pub use context::{GpuSettings, TensorInstructions};

/// An NVIDIA GPU, as a device of Clk.
pub struct CudaGpu {
    context: Arc<GpuContext>,
}

impl CudaGpu {
    /// Opens the GPU with this ordinal. Its context is created in the background; if this fails, the first launch
    /// reports the error.
    pub fn open(ordinal: u32, settings: GpuSettings) -> Result<CudaGpu, DeviceError> {
        #[cfg(target_os = "linux")]
        if let Some(isolation) = settings.isolation.clone() {
            return Self::open_isolated(ordinal, settings, isolation);
        }
        let properties = nvidia::probe(ordinal)
            .map_err(|absent| DeviceError::Unavailable { device: format!("gpu:{ordinal}"), why: absent.to_string() })?;
        let places = settings.nvrtc.clone();
        Ok(Self::with_parts(
            properties,
            settings,
            |properties| Nvidia::open(properties).map(|driver| Arc::new(driver) as Arc<dyn Driver>),
            move || Nvrtc::open(&places).map(|nvrtc| Arc::new(nvrtc) as Arc<dyn CudaCompiler>),
        ))
    }

    /// Like [`CudaGpu::open`], but kernels run in a worker process.
    #[cfg(target_os = "linux")]
    fn open_isolated(ordinal: u32, settings: GpuSettings, isolation: Isolation) -> Result<CudaGpu, DeviceError> {
        let starting = isolate::start(ordinal, isolation.starter)
            .map_err(|error| DeviceError::Unavailable { device: format!("gpu:{ordinal}"), why: error.to_string() })?;
        let (places, properties) = (settings.nvrtc.clone(), starting.properties().clone());
        let open = move |properties| match (starting.finish(), isolation.fallback_notice) {
            (Ok(driver), _) => Ok(Arc::new(driver) as Arc<dyn Driver>),
            (Err(refusal), None) => Err(refusal),
            (Err(refusal), Some(tell)) => {
                tell(&format!("{} says {}", refusal.call, refusal.name));
                // Initialize the driver in this process: so far, only the worker process has used it.
                nvidia::probe(ordinal)?;
                Nvidia::open(properties).map(|driver| Arc::new(driver) as Arc<dyn Driver>)
            }
        };
        let compiler = move || Nvrtc::open(&places).map(|nvrtc| Arc::new(nvrtc) as Arc<dyn CudaCompiler>);
        Ok(Self::with_parts(properties, settings, open, compiler))
    }

    /// Creates a GPU with this driver and compiler instead of NVIDIA's, for tests.
    pub fn with_parts(
        properties: Properties,
        settings: GpuSettings,
        driver: impl FnOnce(Properties) -> DriverResult<Arc<dyn Driver>> + Send + 'static,
        compiler: impl FnOnce() -> Result<Arc<dyn CudaCompiler>, Vec<String>> + Send + 'static,
    ) -> CudaGpu {
        CudaGpu { context: Arc::new(GpuContext::new(properties, settings, driver, compiler)) }
    }

    pub fn properties(&self) -> &Properties {
        &self.context.properties
    }
}

/// See [`Interop::preserve_thread_state`]. Works for all GPUs, and before any is opened.
pub fn preserve_thread_state() -> ThreadStateGuard {
    Box::new(nvidia::ContextGuard::begin())
}

impl Device for CudaGpu {
    fn name(&self) -> String {
        self.context.name.clone()
    }

    fn model(&self) -> String {
        self.context.properties.name.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: DeviceKind::Gpu,
            checks: false,
            host_instruction_set: None,
            shared_memory_per_block: Some(self.context.properties.shared_per_block),
            asynchronous: true,
            gpu_kernels: true,
            slow_compilation: true,
            fixed_mma_order: true,
        }
    }

    fn shows_variables(&self) -> bool {
        false
    }

    fn memory(&self) -> Option<&dyn DeviceMemory> {
        Some(self)
    }

    fn interop(&self) -> Option<&dyn Interop> {
        Some(self)
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        let sources = sources.filter(|_| self.context.settings.lines).map(|sources| Arc::new(sources.clone()));
        Arc::new(kernel::KernelVariants::new(self.context.clone(), kernel, sources))
    }

    fn collectives(&self) -> Result<Box<dyn CollectiveDevice>, CollectiveError> {
        Ok(Box::new(nccl::NcclDevice::new(&self.context, &self.context.settings.nccl)?))
    }

    fn finish(&self) -> Result<(), DeviceError> {
        self.context.finish()
    }

    fn report_pending_faults(&self) -> Result<(), DeviceError> {
        self.context.confirm()
    }

    fn begin_batch(&self) {
        self.context.begin_batch();
    }

    fn end_batch(&self) -> Result<(), DeviceError> {
        self.context.end_batch()
    }

    fn record_timestamp(&self) -> Option<BoxedTimestamp> {
        self.context.flush().ok()?;
        let event = self.context.call(|driver| {
            let event = driver.event()?;
            driver.record(event)?;
            Ok(event)
        });
        event.ok().map(|event| Box::new(CudaTimestamp { context: self.context.clone(), event }) as BoxedTimestamp)
    }

    fn spilled(&self) -> u64 {
        self.context.arrays.spilled()
    }

    fn statistics(&self) -> Statistics {
        self.context.statistics()
    }
}

impl DeviceMemory for CudaGpu {
    fn size(&self) -> Option<u64> {
        Some(self.context.properties.memory)
    }

    fn reserve_upload(&self, bytes: usize, spare: bool) -> Result<Option<Box<dyn PendingUpload>>, DeviceError> {
        Ok(memory::StagingBuffer::new(&self.context, bytes, spare)?
            .map(|room| Box::new(room) as Box<dyn PendingUpload>))
    }

    fn upload(&self, storage: &Storage) -> Result<(), DeviceError> {
        memory::make_readable(storage, &self.context).map(drop)
    }

    unsafe fn pin(&self, bytes: &[u8]) -> Option<BufferGuard> {
        let driver = self.context.driver_if_open()?;
        // SAFETY: as required of the caller.
        unsafe { driver.lock(bytes) }.ok()?;
        Some(Box::new(PinnedPages { context: self.context.clone(), start: bytes.as_ptr().addr() }))
    }
}

impl Interop for CudaGpu {
    fn preserve_thread_state(&self) -> ThreadStateGuard {
        preserve_thread_state()
    }

    unsafe fn import_buffer(&self, lent: &ImportedBuffer, copied: bool) -> Result<Arc<dyn DeviceBytes>, DeviceError> {
        memory::import_buffer(lent, copied, &self.context).map(|buffer| buffer as Arc<dyn DeviceBytes>)
    }

    unsafe fn write_back(&self, lent: &ImportedBuffer, storage: &Storage) -> Result<(), DeviceError> {
        memory::returned(lent, storage, &self.context)
    }

    fn make_owned(&self, storage: &mut Storage) -> Result<Arc<dyn DeviceBytes>, DeviceError> {
        memory::owned(storage, &self.context).map(|buffer| buffer as Arc<dyn DeviceBytes>)
    }

    fn order_streams_after(&self, streams: &[ForeignStream]) -> Result<(), DeviceError> {
        self.context.order_streams_after(streams)
    }
}

/// Pinned pages of host memory.
struct PinnedPages {
    context: Arc<GpuContext>,
    start: usize,
}

impl Drop for PinnedPages {
    fn drop(&mut self) {
        if let Some(driver) = self.context.driver_if_open() {
            driver.unlock(self.start);
        }
    }
}

/// An event in the GPU's stream.
struct CudaTimestamp {
    context: Arc<GpuContext>,
    event: StreamEvent,
}

impl Timestamp for CudaTimestamp {
    fn seconds_since(&self, earlier: &dyn Timestamp) -> Option<f64> {
        let earlier = earlier.as_any().downcast_ref::<CudaTimestamp>()?;
        let milliseconds = self.context.call(|driver| driver.elapsed(earlier.event, self.event)).ok()?;
        Some(milliseconds * 1e-3)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for CudaTimestamp {
    fn drop(&mut self) {
        if let Ok(driver) = self.context.driver() {
            driver.forget_event(self.event);
        }
    }
}

#[cfg(test)]
mod tests;
