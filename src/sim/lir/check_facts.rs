//! Facts about a kernel's run-time checks (`--check`), which the region builder needs. Input: analyses of the kernel.
//! Output: plain data.

use rustc_hash::FxHashSet;

use clk_ir::def::ExprId;

/// The checks that are enabled for a kernel, and the operations and memories for which they can be omitted.
#[derive(Debug, Default)]
pub(crate) struct CheckFacts {
    /// Whether signed overflow, shift amounts and conversions to integers are checked.
    pub arithmetic: bool,
    /// Whether the sanitizer checks memory accesses. It then also tracks warp operations, because they order threads.
    pub memory: bool,
    /// Whether the first NaN or infinity is reported (`--trap-nan`).
    pub nan: bool,
    /// Expressions whose operator provably does not overflow.
    pub exact: FxHashSet<ExprId>,
    /// How accesses are checked, for each memory.
    pub memories: Vec<AccessGuard>,
}

/// How accesses to a memory are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AccessGuard {
    /// No access to the memory needs a check.
    #[default]
    Unchecked,
    /// No access needs a check if only one thread accesses each element. A launch enters the region only if this is
    /// proved.
    Owned,
    /// Like [`AccessGuard::Owned`], but a read requires an earlier write. One initialization byte per `unit` bytes of
    /// memory records writes.
    OwnedInit { unit: usize },
    /// Threads share the elements. Accesses are reported to the sanitizer before the region runs
    /// ([`LaneOp::SubmitReports`](super::LaneOp::SubmitReports)) or as they happen
    /// ([`LaneOp::ReportAccess`](super::LaneOp::ReportAccess)).
    Shared,
    /// Regions must not access the memory.
    Forbidden,
}
