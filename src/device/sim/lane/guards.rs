//! What the checks of a kernel need to know of its regions. Input: analyses of the kernel. Output: plain data, for the builder.

use rustc_hash::FxHashSet;

use crate::ir::def::ExprId;

/// How a kernel is checked.
#[derive(Debug, Default)]
pub(crate) struct Guards {
    /// Signed overflow, amounts of shifts, and conversions to integers are checked.
    pub arithmetic: bool,
    /// The checker hears of operations of warps, which order their threads.
    pub memory: bool,
    /// The first NaN or infinity is looked for.
    pub nan: bool,
    /// Operations that cannot overflow.
    pub exact: FxHashSet<ExprId>,
    /// By memory.
    pub memories: Vec<Guard>,
}

/// How accesses to a memory are checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Guard {
    /// No access can be wrong.
    #[default]
    Free,
    /// No access can be wrong in launches in which each element belongs to one thread; others do not enter the region.
    Own,
    /// As [`Guard::Own`], but a read needs an earlier write. A byte for each `unit` bytes of the memory says whether there was one.
    Marked { unit: usize },
    /// Threads share its elements: the checker hears of accesses before the region runs ([`Op::Report`](super::Op::Report)) or as they
    /// happen ([`Op::Touch`](super::Op::Touch)).
    Shared,
    /// Regions do not access it.
    Refused,
}
