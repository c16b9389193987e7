//! Kernels that may wait forever, to be shown while the host waits for them.
//!
//! Input: launches of such kernels, and the waits of the host. Output: [`Stalls::kernels`](crate::device::stall::Stalls::kernels). Launches
//! record nothing unless a terminal shows notes, and a wait costs a lock.

use std::sync::PoisonError;

use super::context::{Context, Doubtful};
use super::kernel::Kernel;
use crate::device::Control;
use crate::device::stall::{Awaited, Kernels};

/// The most kernels that are named.
const MOST: usize = 2;

/// The host waits, until this is dropped.
pub(crate) struct Waiting<'a> {
    context: &'a Context,
    shown: Option<Awaited>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.shown.is_some() {
            *self.context.doubtful.lock().unwrap_or_else(PoisonError::into_inner) = Doubtful::default();
        }
    }
}

impl Context {
    /// Records a launch that is about to be issued, if it may wait forever.
    pub fn doubt(&self, kernel: &Kernel, control: &Control) {
        if !control.progress.stalls.is_wanted() || !kernel.may_hang() {
            return;
        }
        let mut doubtful = self.doubtful.lock().unwrap_or_else(PoisonError::into_inner);
        let name = &kernel.definition().name;
        if doubtful.names.len() < MOST && !doubtful.names.contains(name) {
            doubtful.names.push(name.clone());
        }
        doubtful.progress = Some(control.progress.clone());
    }

    /// Records that the host waits for the launches so far.
    pub fn waiting(&self) -> Waiting<'_> {
        let doubtful = self.doubtful.lock().unwrap_or_else(PoisonError::into_inner);
        let kernels = |names: &[String]| Kernels { device: self.name.clone(), names: names.to_vec() };
        let shown = doubtful.progress.as_ref().map(|progress| progress.stalls.wait(kernels(&doubtful.names)));
        Waiting { context: self, shown }
    }
}
