//! Limits of the process of a call: memory, size of files, and number of launches.

#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(unix)]
use crate::{disk, memory};
use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_runtime::{
    Arg, Control, Device, DeviceError, DeviceSelector, DeviceWrapper, Devices, Executable, Fault, FaultKind,
    LaunchConfig, PrintedText,
};

/// Address space in bytes that a call needs in addition to its memory limit and to the address space that the process
/// has when it begins: stacks of workers.
#[cfg(unix)]
const RESERVED: u64 = 128 << 20;

/// Address space in bytes that the process of a call has when it begins, if the system does not tell: the largest
/// [stack](crate::stack::STACKS) and the binary.
#[cfg(unix)]
const USUAL_SIZE: u64 = 1 << 30;

/// Maximum size of a file that a call writes, in bytes.
#[cfg(unix)]
const MAX_FILE: u64 = 1 << 30;

/// Limits this process. Limits that the system does not support are ignored.
#[cfg(unix)]
pub(super) fn limit_process(bytes: u64) {
    let limit = |resource, most: libc::rlim_t| {
        let mut current = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: the structure lives until the call returns.
        unsafe { libc::getrlimit(resource, &raw mut current) };
        // A lower limit that this process already has stays in effect.
        let most = most.min(current.rlim_max).min(current.rlim_cur);
        let limits = libc::rlimit { rlim_cur: most, rlim_max: most };
        // SAFETY: the structure lives until the call returns.
        unsafe { libc::setrlimit(resource, &raw const limits) };
    };
    let begun = address_space().unwrap_or(USUAL_SIZE);
    limit(libc::RLIMIT_AS, bytes.saturating_add(begun).saturating_add(RESERVED));
    limit(libc::RLIMIT_FSIZE, MAX_FILE);
    limit(libc::RLIMIT_CORE, 0);
    // The allocator's settings depend on whether address space is limited.
    memory::prepare();
}

/// Returns the size of this process's address space in bytes.
#[cfg(unix)]
fn address_space() -> Option<u64> {
    let pages = disk::read_system_file(Path::new("/proc/self/statm")).ok()?;
    let pages: u64 = std::str::from_utf8(&pages).ok()?.split(' ').next()?.parse().ok()?;
    // SAFETY: the call has no preconditions.
    let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
    pages.checked_mul(page)
}

#[cfg(not(unix))]
pub(super) fn limit_process(_: u64) {}

/// The launches of a call so far.
pub(super) struct LaunchCount {
    most: u64,
    so_far: AtomicU64,
}

impl LaunchCount {
    pub fn new(most: u64) -> LaunchCount {
        LaunchCount { most, so_far: AtomicU64::new(0) }
    }

    /// Counts a launch; returns whether it is allowed.
    pub fn count(&self) -> bool {
        self.so_far.fetch_add(1, Ordering::Relaxed) < self.most
    }

    /// Returns whether a launch was refused.
    pub fn is_exceeded(&self) -> bool {
        self.so_far.load(Ordering::Relaxed) > self.most
    }
}

/// A device on which a call may launch only a number of kernels. Further launches end as if they were interrupted.
pub(super) struct LaunchLimiter {
    pub device: Arc<dyn Device>,
    pub launches: Arc<LaunchCount>,
}

impl DeviceWrapper for LaunchLimiter {
    fn inner(&self) -> &dyn Device {
        &*self.device
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        Arc::new(CountedKernel { kernel: self.device.load(kernel, sources), launches: self.launches.clone() })
    }
}

/// A kernel whose launches are counted.
struct CountedKernel {
    kernel: Arc<dyn Executable>,
    launches: Arc<LaunchCount>,
}

impl Executable for CountedKernel {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        match self.launches.count() {
            true => self.kernel.launch(config, args, control),
            false => Err(FaultKind::Interrupted.into_launch_fault(config.span)),
        }
    }

    fn depends_on_promises(&self) -> bool {
        self.kernel.depends_on_promises()
    }

    fn prepare_block_shape(&self, block: [u32; 3]) {
        self.kernel.prepare_block_shape(block);
    }
}

/// The devices that `on … { }` can select: only the simulator, because a kernel without an end cannot be ended on a
/// GPU.
pub(super) struct SimulatorOnly(pub Arc<dyn Device>);

impl Devices for SimulatorOnly {
    fn open(&self, wanted: DeviceSelector) -> Result<Arc<dyn Device>, DeviceError> {
        let unavailable = |device: String| {
            Err(DeviceError::Unavailable { device, why: "`clk mcp` runs kernels on one simulator".into() })
        };
        match wanted {
            DeviceSelector::Sim(None | Some(0)) => Ok(self.0.clone()),
            DeviceSelector::Sim(Some(number)) => unavailable(format!("sim:{number}")),
            DeviceSelector::Gpu(number) => unavailable(number.map_or("gpu".into(), |number| format!("gpu:{number}"))),
        }
    }
}
