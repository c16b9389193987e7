//! NVIDIA GPUs through CUDA.
//!
//! [`text`] turns a prepared kernel into CUDA C++ with launch metadata; it needs no GPU. [`nvrtc`] compiles the text, [`cache`]
//! stores the machine code, [`cubin`] reads its resource usage, and [`driver`] is the GPU's driver. The other modules join them:
//! a [`context`] per GPU, arrays in its `memory`, a `kernel` with its variants, the `plan` of a launch and the `launch`, the
//! `batch` of launches, the `records` of asynchronous launches, and the `fault` that a kernel reports. Libraries are opened on
//! first use, so that one binary runs on machines with and without them.
//!
//! With [`isolate`] the driver lives in another process, so that a kernel that kills its context costs only that process;
//! `replay` then runs the launch again on another device to find the reason.

mod arrays;
mod batch;
pub mod cache;
mod context;
pub mod cubin;
pub mod driver;
mod fault;
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
pub mod whole;

use std::any::Any;
use std::sync::Arc;

use self::context::Context;
use self::driver::nvidia::{self, Absent, Nvidia};
use self::driver::{Answer, Driver, Event, Properties};
use self::nvrtc::{Compiler, Nvrtc};
use super::exchange::Exchange;
use super::lent::Lent;
use super::storage::{Remote, Storage};
use super::{Coming, Device, DeviceError, Executable, Mark, Moment, Statistics};
use crate::base::aligned::Guard;
use crate::base::source::Sources;
use crate::ir::Prepared;

#[cfg(target_os = "linux")]
pub use context::Isolation;
pub use context::no_nvrtc;
pub use context::{Instructions, Settings};

/// One GPU.
pub struct Gpu {
    context: Arc<Context>,
}

impl Gpu {
    /// Opens the GPU with this ordinal. Its context is created in the background; an error shows in the first launch.
    pub fn open(ordinal: u32, settings: Settings) -> Result<Gpu, DeviceError> {
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
            move || Nvrtc::open(&places).map(|nvrtc| Arc::new(nvrtc) as Arc<dyn Compiler>),
        ))
    }

    /// As [`Gpu::open`], with kernels in a separate process.
    #[cfg(target_os = "linux")]
    fn open_isolated(ordinal: u32, settings: Settings, isolation: Isolation) -> Result<Gpu, DeviceError> {
        let starting = isolate::start(ordinal, isolation.starter)
            .map_err(|why| DeviceError::Unavailable { device: format!("gpu:{ordinal}"), why })?;
        let (places, properties) = (settings.nvrtc.clone(), starting.properties().clone());
        let open = move |properties| match (starting.finish(), isolation.otherwise) {
            (Ok(driver), _) => Ok(Arc::new(driver) as Arc<dyn Driver>),
            (Err(refusal), None) => Err(refusal),
            (Err(refusal), Some(tell)) => {
                tell(&format!("{} says {}", refusal.call, refusal.name));
                // The driver has not been initialized in this process yet.
                nvidia::probe(ordinal).map_err(|absent| absent.refusal())?;
                Nvidia::open(properties).map(|driver| Arc::new(driver) as Arc<dyn Driver>)
            }
        };
        let compiler = move || Nvrtc::open(&places).map(|nvrtc| Arc::new(nvrtc) as Arc<dyn Compiler>);
        Ok(Self::with_parts(properties, settings, open, compiler))
    }

    /// Creates a GPU with another driver and compiler than NVIDIA's, for tests.
    pub fn with_parts(
        properties: Properties,
        settings: Settings,
        driver: impl FnOnce(Properties) -> Answer<Arc<dyn Driver>> + Send + 'static,
        compiler: impl FnOnce() -> Result<Arc<dyn Compiler>, Vec<String>> + Send + 'static,
    ) -> Gpu {
        Gpu { context: Arc::new(Context::new(properties, settings, driver, compiler)) }
    }

    pub fn properties(&self) -> &Properties {
        &self.context.properties
    }
}

impl Absent {
    /// Converts to a failed driver call.
    #[cfg(target_os = "linux")]
    fn refusal(self) -> driver::Refusal {
        match self {
            Absent::Refused(refusal) => refusal,
            other => driver::Refusal { call: "the driver".into(), code: 100, name: other.to_string() },
        }
    }
}

impl std::fmt::Display for Absent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Absent::NoDriver => f.write_str("NVIDIA's driver (libcuda.so.1) is not installed"),
            Absent::NoDevice => f.write_str("NVIDIA's driver finds no GPU"),
            Absent::NoSuchDevice { wanted, count: 1 } => write!(f, "there is one GPU, `gpu:0`, and no `gpu:{wanted}`"),
            Absent::NoSuchDevice { count, .. } => write!(f, "there are {count} GPUs, the last is `gpu:{}`", count - 1),
            Absent::Refused(refusal) => {
                write!(f, "NVIDIA's driver does not start: {} says {}", refusal.call, refusal.name)
            }
            Absent::TooOld { driver } => {
                write!(f, "NVIDIA's driver is too old: it is for CUDA {}.{}", driver / 1000, driver % 1000 / 10)
            }
            Absent::Lacks { function } => {
                write!(f, "NVIDIA's driver is not whole: its library has no `{function}`; installing it again may help")
            }
        }
    }
}

impl Device for Gpu {
    fn name(&self) -> String {
        self.context.name.clone()
    }

    fn model(&self) -> String {
        self.context.properties.name.clone()
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        Arc::new(kernel::Kernel::new(self.context.clone(), kernel, None))
    }

    fn load_named(&self, kernel: Arc<Prepared>, sources: &Sources) -> Arc<dyn Executable> {
        let sources = self.context.settings.lines.then(|| Arc::new(sources.clone()));
        Arc::new(kernel::Kernel::new(self.context.clone(), kernel, sources))
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn memory(&self) -> Option<u64> {
        Some(self.context.properties.memory)
    }

    fn expect(&self, bytes: usize, spare: bool) -> Result<Option<Box<dyn Coming>>, DeviceError> {
        Ok(memory::Room::new(&self.context, bytes, spare)?.map(|room| Box::new(room) as Box<dyn Coming>))
    }

    fn have(&self, storage: &Storage) -> Result<(), DeviceError> {
        memory::for_reading(storage, &self.context).map(drop)
    }

    unsafe fn lend(&self, lent: &Lent, copied: bool) -> Result<Arc<dyn Remote>, DeviceError> {
        memory::borrowed(lent, copied, &self.context).map(|buffer| buffer as Arc<dyn Remote>)
    }

    unsafe fn give_back(&self, lent: &Lent, storage: &Storage) -> Result<(), DeviceError> {
        memory::returned(lent, storage, &self.context)
    }

    fn own(&self, storage: &mut Storage) -> Result<Arc<dyn Remote>, DeviceError> {
        memory::owned(storage, &self.context).map(|buffer| buffer as Arc<dyn Remote>)
    }

    unsafe fn lock(&self, bytes: &[u8]) -> Option<Guard> {
        let driver = self.context.opened()?;
        // SAFETY: as required of the caller.
        unsafe { driver.lock(bytes) }.ok()?;
        Some(Box::new(Locked { context: self.context.clone(), start: bytes.as_ptr().addr() }))
    }

    fn block_memory(&self) -> Option<u32> {
        Some(self.context.properties.shared_per_block)
    }

    fn exchange(&self) -> Result<Box<dyn Exchange>, String> {
        Ok(Box::new(nccl::Ready::new(&self.context, &self.context.settings.nccl)?))
    }

    fn finish(&self) -> Result<(), DeviceError> {
        self.context.finish()
    }

    fn pass_on(&self, streams: &[usize]) -> Result<(), DeviceError> {
        self.context.pass_on(streams)
    }

    fn begin_batch(&self) {
        self.context.begin_batch();
    }

    fn end_batch(&self) -> Result<(), DeviceError> {
        self.context.end_batch()
    }

    fn confirm(&self) -> Result<(), DeviceError> {
        self.context.confirm()
    }

    fn mark(&self) -> Option<Mark> {
        self.context.flush().ok()?;
        let event = self.context.call(|driver| {
            let event = driver.event()?;
            driver.record(event)?;
            Ok(event)
        });
        event.ok().map(|event| Box::new(Recorded { context: self.context.clone(), event }) as Mark)
    }

    fn statistics(&self) -> Statistics {
        self.context.statistics()
    }

    fn spilled(&self) -> u64 {
        self.context.arrays.spilled()
    }
}

/// Locked pages of the host's memory.
struct Locked {
    context: Arc<Context>,
    start: usize,
}

impl Drop for Locked {
    fn drop(&mut self) {
        if let Some(driver) = self.context.opened() {
            driver.unlock(self.start);
        }
    }
}

/// An event in the GPU's stream.
struct Recorded {
    context: Arc<Context>,
    event: Event,
}

impl Moment for Recorded {
    fn since(&self, earlier: &dyn Moment) -> Option<f64> {
        let earlier = earlier.as_any().downcast_ref::<Recorded>()?;
        let milliseconds = self.context.call(|driver| driver.elapsed(earlier.event, self.event)).ok()?;
        Some(milliseconds * 1e-3)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if let Ok(driver) = self.context.driver() {
            driver.forget_event(self.event);
        }
    }
}

#[cfg(test)]
mod tests;
