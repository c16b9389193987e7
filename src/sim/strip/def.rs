//! The definition of a strip: its memory operands and its program.

use crate::register_ids::{MaskId, Reg};

/// A memory operand of a strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StripOperand {
    Reg(Reg),
    /// A temporary of the strip.
    Scratch(u8),
    /// The mask that is current when the strip begins.
    Mask,
    /// The mask that the strip computes.
    Kept(MaskId),
}

/// Operations of a strip. `a` and `b` are the accumulators, `m`, `n` and `q` memory operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[rustfmt::skip]
pub(crate) enum StripOpcode {
    /// `a = m`
    Load, LoadB,
    /// `m = a`
    Store, StoreB,
    /// `m = a` in the lanes of mask `n`.
    StoreMasked,
    // `a = a op m`
    Add, Sub, SubFrom, Mul,
    // `b = b op m`
    AddB, SubB, SubFromB, MulB,
    // `a = a op b`
    AddAB, SubAB, SubFromAB, MulAB,
    // `a = m op n`
    LoadAdd, LoadSub, LoadMul,
    // `b = m op n`
    LoadAddB, LoadSubB, LoadMulB,
    /// `a = a op a`
    Square, SquareB, Double, DoubleB,
    // `a = (a op m) op n`
    AddAdd, AddSub, AddMul, SubAdd, SubSub, SubMul, FromAdd, FromSub, FromMul, MulAdd, MulSub, MulFrom, MulMul,
    /// `q = a = m * n + q`
    Accumulate,
    // `a = a op m`
    Div, DivInto, Min, Max, Lt, Le, Gt, Ge, Eq, Ne,
    AddI, SubI, SubFromI, MulI, LtI, LeI, GtI, GeI, LtU, LeU, GtU, GeU, EqI, NeI,
    And, Or, Xor,
    // `a = f(a)`
    Neg, Abs, Sqrt, Rsqrt, NegI, Not, FromI, FromU,
    /// `a = a * m + n`, rounded once.
    Fma,
    /// `a = a ? m : n`
    Select,
    /// `m = n & a`, where `n` is the old mask and `m` the new one.
    Keep,
    /// `m = n & !a`
    KeepNot,
    /// Prefetches the next accumulator's part of `m` for writing.
    Ahead,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Micro {
    pub code: StripOpcode,
    pub m: u8,
    pub n: u8,
    pub q: u8,
}

/// The program of a strip.
#[derive(Clone, Debug, Default)]
pub(crate) struct StripDef {
    pub(crate) places: Vec<StripOperand>,
    pub micros: Vec<Micro>,
    /// The mask that it computes.
    pub kept: Option<MaskId>,
}

impl StripDef {
    /// Adds a prefetch of the cache lines of an operand that are written next: a store that waits for its line stalls
    /// those behind it.
    pub fn fetch_ahead(&mut self, place: StripOperand) {
        if let Some(m) = self.places.iter().position(|&p| p == place).and_then(|at| u8::try_from(at).ok()) {
            self.micros.insert(0, Micro { code: StripOpcode::Ahead, m, n: 0, q: 0 });
        }
    }
}
