//! Limits of the process of a call: memory, size of files, and number of launches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_runtime::{
    Arg, Control, Device, DeviceError, DeviceWrapper, Executable, Fault, FaultKind, LaunchConfig, PrintedText,
};

/// Address space in bytes that a call needs in addition to its memory limit: the largest [stack](crate::stack::STACKS),
/// stacks of workers, and the binary. Most of it is never used.
#[cfg(unix)]
const RESERVED: u64 = 1 << 30;

/// Maximum size of a file that a call writes, in bytes.
#[cfg(unix)]
const MAX_FILE: u64 = 1 << 30;

/// Limits this process. Limits that the system does not support are ignored.
#[cfg(unix)]
pub(super) fn limit_process(memory: u64) {
    let limit = |resource, most: u64| {
        let most = libc::rlim_t::try_from(most).unwrap_or(libc::RLIM_INFINITY);
        let mut current = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the structure lives until the call returns.
        unsafe { libc::getrlimit(resource, &raw mut current) };
        // A lower limit that this process already has stays in effect.
        let most = most.min(current.rlim_max).min(current.rlim_cur);
        let limits = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the structure lives until the call returns.
        unsafe { libc::setrlimit(resource, &raw const limits) };
    };
    limit(libc::RLIMIT_AS, memory.saturating_add(RESERVED));
    limit(libc::RLIMIT_FSIZE, MAX_FILE);
    limit(libc::RLIMIT_CORE, 0);
}

#[cfg(not(unix))]
pub(super) fn limit_process(_: u64) {}

/// A device whose launches fail after a number of them.
pub(super) struct LaunchLimiter {
    device: Arc<dyn Device>,
    launches: Arc<LaunchCount>,
}

struct LaunchCount {
    most: u64,
    so_far: AtomicU64,
}

impl LaunchLimiter {
    pub fn new(device: Arc<dyn Device>, most: u64) -> LaunchLimiter {
        LaunchLimiter { device, launches: Arc::new(LaunchCount { most, so_far: AtomicU64::new(0) }) }
    }
}

impl DeviceWrapper for LaunchLimiter {
    fn inner(&self) -> &dyn Device {
        &*self.device
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        let name = self.device.name();
        Arc::new(CountedKernel { kernel: self.device.load(kernel, sources), name, launches: self.launches.clone() })
    }
}

/// A kernel whose launches are counted.
struct CountedKernel {
    kernel: Arc<dyn Executable>,
    /// The name of the device.
    name: String,
    launches: Arc<LaunchCount>,
}

impl Executable for CountedKernel {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        if self.launches.so_far.fetch_add(1, Ordering::Relaxed) >= self.launches.most {
            let why = format!("`clk mcp` allows {} launches in one call (`--launches`)", self.launches.most);
            let error = DeviceError::Unavailable { device: self.name.clone(), why };
            return Err(FaultKind::Device(error).into_launch_fault(config.span));
        }
        self.kernel.launch(config, args, control)
    }

    fn depends_on_promises(&self) -> bool {
        self.kernel.depends_on_promises()
    }

    fn prepare_block_shape(&self, block: [u32; 3]) {
        self.kernel.prepare_block_shape(block);
    }
}
