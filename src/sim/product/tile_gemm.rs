//! Describes products of tiles in shared memory, and selects those for which there is specialized code.
//!
//! Input: extents, operand type, and how terms are added. Output: whether [`fma_chain`](super::fma_chain) or
//! [`tensor_core_sums`](super::tensor_core_sums) can compute the product.

use clk_ir::def::MmaPrecision;
use clk_runtime::Isa;
use clk_scalar::Scalar;
use clk_scalar::tensor_core_model::TensorCoreModel;

/// The extents, the operand type and the precision of a product of tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TileGemm {
    pub rows: usize,
    pub columns: usize,
    pub inner: usize,
    /// The operand type.
    pub scalar: Scalar,
    pub sums: MmaPrecision,
}

impl TileGemm {
    /// Returns the number of terms that tensor cores add at once. If there are several groups of terms, the loop that
    /// the product replaces pads the last group with zeros.
    pub fn terms_per_group(&self) -> usize {
        match self.sums {
            MmaPrecision::TensorCore(cores) => cores.group(self.scalar.size()) as usize,
            MmaPrecision::Sequential => 16,
        }
    }

    /// Returns whether there is specialized code for the product with this instruction set.
    pub fn is_covered(&self, isa: Isa) -> bool {
        let typed = matches!(self.scalar, Scalar::F16 | Scalar::Bf16 | Scalar::F32);
        // Truncated sums are implemented for one tensor-core model only.
        let modeled = matches!(self.sums, MmaPrecision::TensorCore(TensorCoreModel::Sm90) | MmaPrecision::Sequential);
        typed
            && modeled
            && isa != Isa::Base
            && isa.is_supported()
            && self.rows > 0
            && self.columns > 0
            && self.inner > 0
    }
}
