//! Cold paths: the kinds of out-of-line code, and the data that each one needs until it is emitted.

use std::ops::Range;

use crate::jit::asm::Vreg;
use crate::lir::{LaneInst, LaneValue};

/// The kinds of out-of-line code. At its end, each one jumps back to the main code.
pub(super) enum ColdPath {
    /// Takes a side exit if one of these vectors has an active lane.
    One {
        mask: LaneValue,
        vectors: Range<usize>,
    },
    /// Takes a side exit if the index of an active lane of these vectors is out of bounds.
    Row {
        inst: LaneInst,
        c: i32,
        copy: usize,
        vectors: Range<usize>,
    },
    Rsqrt {
        x: Vreg,
    },
    /// Polls the stop flag.
    Poll,
}
