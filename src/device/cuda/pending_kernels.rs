//! StalledKernels that may wait forever, to be shown while the host waits for them.
//!
//! Input: launches of such kernels, and the waits of the host. Output: [`Stalls::kernels`](crate::device::stall::Stalls::kernels). Launches
//! record nothing unless a terminal shows notes, and a wait costs a lock.

use std::sync::PoisonError;

use super::context::{Context, PendingKernels};
use super::kernel::Kernel;
use crate::device::Control;
use crate::device::stall::{AwaitedKernels, StalledKernels};

/// Maximum number of kernels that are named.
const MAX_NAMES: usize = 2;

/// While this exists, the host waits for the kernels.
pub(crate) struct HostWait<'a> {
    context: &'a Context,
    shown: Option<AwaitedKernels>,
}

impl Drop for HostWait<'_> {
    fn drop(&mut self) {
        if self.shown.is_some() {
            *self.context.pending_kernels.lock().unwrap_or_else(PoisonError::into_inner) = PendingKernels::default();
        }
    }
}

impl Context {
    /// Records a launch that is about to be issued, if it may wait forever.
    pub fn record_pending(&self, kernel: &Kernel, control: &Control) {
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

    /// Records that the host waits for the launches so far.
    pub fn begin_wait(&self) -> HostWait<'_> {
        let pending = self.pending_kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let kernels = |names: &[String]| StalledKernels { device: self.name.clone(), names: names.to_vec() };
        let shown = pending.progress.as_ref().map(|progress| progress.stalls.wait(kernels(&pending.names)));
        HostWait { context: self, shown }
    }
}
