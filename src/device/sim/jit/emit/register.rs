//! Registers of masks. Input: numbers. Output: the names of a register in either instruction set.

use crate::device::sim::jit::asm::{Kreg, Vreg};

/// A register that holds a mask: a mask register with AVX-512, and with AVX2 a vector register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mask(pub(super) u8);

/// Scratch masks. With AVX2, they are the scratch vectors `V[0]`, `V[3]` and `V[4]`.
pub(super) const K0: Mask = Mask(0);
pub(super) const K6: Mask = Mask(6);
pub(super) const K7: Mask = Mask(7);

impl Mask {
    /// Returns the mask register (AVX-512).
    pub(super) fn k(self) -> Kreg {
        Kreg(self.0)
    }

    /// Returns the vector register (AVX2).
    pub(super) fn v(self) -> Vreg {
        Vreg(self.0)
    }
}
