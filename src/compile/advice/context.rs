//! A fault with the kernel and the launch in which it occurred, from which advice is derived.

use std::sync::Arc;

use clk_check::typed::{ArrayType, Body, Expr, Kernel, LocalKind, Program};
use clk_runtime::{Fault, LaunchExtents};

pub(super) struct FaultContext<'a> {
    pub program: &'a Program,
    pub kernel: &'a Kernel,
    pub body: &'a Body,
    pub extents: LaunchExtents,
    pub fault: &'a Fault,
}

/// The array access that caused the fault.
pub(super) struct BoundsAccess {
    pub array: Arc<ArrayType>,
    pub kind: LocalKind,
    pub indices: Vec<Expr>,
}
