//! Products of tiles in the memory of a block: what there is code for.
//!
//! Input: extents, the type of the factors, how terms are added. Output: whether there is code, for [`chain`](super::chain) and
//! [`cut`](super::cut).

use super::super::isa::Isa;
use crate::ir::def::Sums;
use crate::lang::cores::Cores;
use crate::lang::scalar::Scalar;

/// A product of tiles, apart from where they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub rows: usize,
    pub columns: usize,
    pub inner: usize,
    /// The type of the factors.
    pub scalar: Scalar,
    pub sums: Sums,
}

impl Held {
    /// Returns how many terms tensor cores add at once; the loop that this stands for has zeros behind the last of several groups.
    pub fn group(&self) -> usize {
        match self.sums {
            Sums::Cut(cores) => cores.group(self.scalar.size()) as usize,
            Sums::Rounded => 16,
        }
    }

    /// Returns whether there is code for it.
    pub fn is_covered(&self, isa: Isa) -> bool {
        let typed = matches!(self.scalar, Scalar::F16 | Scalar::Bf16 | Scalar::F32);
        // The code is for one model.
        let modeled = matches!(self.sums, Sums::Cut(Cores::Sm90) | Sums::Rounded);
        typed && modeled && isa != Isa::Base && isa.is_here() && self.rows > 0 && self.columns > 0 && self.inner > 0
    }
}
