//! A fault with the kernel and the launch in which it occurred, from which advice is derived.

use clk_check::typed::{Body, Kernel, Program};
use clk_runtime::{Fault, LaunchExtents};

pub(super) struct FaultContext<'a> {
    pub program: &'a Program,
    pub kernel: &'a Kernel,
    pub body: &'a Body,
    pub extents: LaunchExtents,
    pub fault: &'a Fault,
}
