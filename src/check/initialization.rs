//! Reads of variables and `out` parameters before they are written, and the loops that contain them.

use crate::typed::LocalId;
use clk_base::source::Span;
use clk_scalar::ops::BinaryOp;

/// A read of an `out` parameter, or of a variable declared without a value, before any write.
pub(crate) struct EarlyRead {
    pub local: LocalId,
    pub span: Span,
    pub outer_loop: Option<u32>,
    /// The operator if a compound assignment reads it, as in `y[i] += 1`.
    pub op: Option<BinaryOp>,
    /// Whether the place may differ between threads. Determined for compound assignments only.
    pub depends_on_thread: bool,
}

/// The loops around the statement that is being checked.
#[derive(Default)]
pub(crate) struct EnclosingLoops {
    depth: u32,
    /// The number of outermost loops so far, which identifies the current one.
    outermost: u32,
    /// Whether a `break` of the innermost enclosing loop has been checked.
    has_break: bool,
}

impl EnclosingLoops {
    /// Enters a loop. Returns the state that [`EnclosingLoops::leave`] restores.
    pub fn enter(&mut self) -> bool {
        if self.depth == 0 {
            self.outermost += 1;
        }
        self.depth += 1;
        std::mem::replace(&mut self.has_break, false)
    }

    /// Leaves a loop. Returns whether it contains a `break`.
    pub fn leave(&mut self, outer: bool) -> bool {
        self.depth -= 1;
        std::mem::replace(&mut self.has_break, outer)
    }

    pub fn record_break(&mut self) {
        self.has_break = true;
    }

    pub fn is_inside(&self) -> bool {
        self.depth > 0
    }

    /// Returns the number of the outermost enclosing loop.
    pub fn outermost(&self) -> Option<u32> {
        self.is_inside().then_some(self.outermost)
    }
}

/// Possible reads before writes. A later write in the same outermost loop justifies a read, because the loop may have
/// written the variable in an earlier iteration.
#[derive(Default)]
pub(crate) struct Initialization {
    pub early_reads: Vec<EarlyRead>,
    /// The locals that were written in loops, each with the number of the outermost loop.
    pub writes_in_loops: Vec<(LocalId, u32)>,
}
