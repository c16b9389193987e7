//! Launch plans, and the reasons why a launch fails.

use std::sync::Arc;

use crate::driver::LaunchShape;
use crate::variant::KernelVariant;
use clk_runtime::{DeviceError, Fault};

/// Whether memory for packed operands is available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackingMemory {
    Some,
    None,
}

/// A variant and its launch geometry.
pub(crate) struct LaunchPlan {
    pub variant: Arc<KernelVariant>,
    pub shape: LaunchShape,
    /// For each argument, whether the launch overwrites the whole array.
    pub whole: Vec<bool>,
}

/// The reason why a launch failed.
pub(crate) enum LaunchError {
    Fault(Box<Fault>),
    Device(DeviceError),
}

impl From<DeviceError> for LaunchError {
    fn from(error: DeviceError) -> LaunchError {
        LaunchError::Device(error)
    }
}
