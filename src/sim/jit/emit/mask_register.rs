//! Registers that contain masks: mask registers with AVX-512, vector registers with AVX2.

use crate::jit::asm::{Kreg, Vreg};

/// The register of a mask: a mask register with AVX-512, or a vector register with AVX2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MaskRegister(pub(super) u8);

/// Scratch masks. With AVX2, they are the scratch vectors `V[0]`, `V[3]` and `V[4]`.
pub(super) const K0: MaskRegister = MaskRegister(0);
pub(super) const K6: MaskRegister = MaskRegister(6);
pub(super) const K7: MaskRegister = MaskRegister(7);

impl MaskRegister {
    /// Returns the AVX-512 mask register with this number.
    pub(super) fn k(self) -> Kreg {
        Kreg(self.0)
    }

    /// Returns the AVX2 vector register that contains the mask.
    pub(super) fn v(self) -> Vreg {
        Vreg(self.0)
    }
}
