//! The parameters of one launch.

use clk_base::source::Span;
use clk_ir::def::Kernel;

use super::extents::{LaunchExtents, LaunchOrigin};
use super::{LargerDimensions, SignaturePromise};

/// The parameters of one launch, apart from its arguments. [`Control`](super::Control) has the options that all
/// launches of a run share.
#[derive(Clone, Copy, Debug)]
pub struct LaunchConfig {
    pub extents: LaunchExtents,
    /// The statement that launches the kernel, or the array expression that the kernel computes. Faults of asynchronous
    /// launches are reported with it.
    pub span: Span,
    /// Set if the launch should also report hazards that only occur in larger launches. States which dimensions may be
    /// larger in other launches.
    pub larger: Option<LargerDimensions>,
    /// Set if the launch satisfies the kernel's signature.
    pub declared: Option<SignaturePromise>,
    /// Whether the launch computes a part of an index space, so that its extents are not those of the source.
    pub is_part: bool,
    /// Makes the launch synchronous: it returns after the kernel has ended, and reports the kernel's own fault.
    pub wait: bool,
}

impl LaunchConfig {
    /// Returns the configuration of a launch by the code at `span`.
    pub fn new(extents: LaunchExtents, span: Span) -> LaunchConfig {
        LaunchConfig { extents, span, larger: None, declared: None, is_part: false, wait: false }
    }

    /// Makes the launch synchronous.
    pub fn synchronous(self) -> LaunchConfig {
        LaunchConfig { wait: true, ..self }
    }
}

/// A launch by code without a location.
impl From<LaunchExtents> for LaunchConfig {
    fn from(extents: LaunchExtents) -> LaunchConfig {
        LaunchConfig::new(extents, Span::default())
    }
}

impl LaunchOrigin {
    pub fn new(kernel: &Kernel, config: &LaunchConfig) -> LaunchOrigin {
        let name = Some(kernel.span).filter(|_| !config.is_part);
        LaunchOrigin { kernel: name, extents: config.extents, launched: config.span }
    }
}
