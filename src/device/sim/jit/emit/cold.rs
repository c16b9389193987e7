//! What is done out of line. Input: what a quick check knows. Output: plain values that wait for the end of the code.

use std::ops::Range;

use crate::device::sim::jit::asm::Vreg;
use crate::device::sim::lane::{Inst, Value};

/// What happens out of line, before the code goes on behind where it came from.
pub(super) enum Cold {
    /// Leaves if one of these vectors has an active lane.
    One {
        mask: Value,
        vectors: Range<usize>,
    },
    /// Leaves if an active lane of these vectors is out of bounds.
    Row {
        inst: Inst,
        c: i32,
        copy: usize,
        vectors: Range<usize>,
    },
    Rsqrt {
        x: Vreg,
    },
    /// Looks whether to stop.
    Poll,
}
