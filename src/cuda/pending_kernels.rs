//! Tracks kernels that may run forever, so that their names can be shown while the host waits for them.
//!
//! Input: launches of such kernels, and the waits of the host. Output:
//! [`Stalls::kernels`](clk_runtime::stall::Stalls::kernels). Launches record nothing unless the notes are shown in a
//! terminal. A wait of the host only takes a lock.

use std::sync::PoisonError;

use super::context::{GpuContext, PendingKernels};
use super::kernel::KernelVariants;
use clk_runtime::Control;
use clk_runtime::stall::{AwaitedKernels, StalledKernels};

/// Maximum number of kernels whose names are shown.
const MAX_NAMES: usize = 2;

/// Guard that exists while the host waits for the kernels. Dropping it removes the note.
pub(crate) struct HostWait<'a> {
    context: &'a GpuContext,
    shown: Option<AwaitedKernels>,
}

impl Drop for HostWait<'_> {
    fn drop(&mut self) {
        if self.shown.is_some() {
            *self.context.pending_kernels.lock().unwrap_or_else(PoisonError::into_inner) = PendingKernels::default();
        }
    }
}

impl GpuContext {
    /// Records a launch that is about to be issued, if its kernel may run forever.
    pub fn record_pending(&self, kernel: &KernelVariants, control: &Control) {
        if !control.progress.stalls.is_enabled() || !kernel.may_hang() {
            return;
        }
        let mut pending = self.pending_kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &kernel.definition().name;
        if pending.names.len() < MAX_NAMES && !pending.names.contains(name) {
            pending.names.push(name.clone());
        }
        pending.progress = Some(control.progress.clone());
    }

    /// Records that the host begins to wait for the launches so far.
    pub fn begin_wait(&self) -> HostWait<'_> {
        let pending = self.pending_kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let kernels = |names: &[String]| StalledKernels { device: self.name.clone(), names: names.to_vec() };
        let shown = pending.progress.as_ref().map(|progress| progress.stalls.wait(kernels(&pending.names)));
        HostWait { context: self, shown }
    }
}
