//! Arrays whose length the source of a kernel does not state, such as a pointer parameter of a CUDA kernel. An access
//! past the end of such an array is no violation: the length may be larger.

use clk_check::typed::{Dim, ExprKind, Kernel, Type};
use clk_check::visit;
use clk_runtime::FaultKind;
use clk_scalar::ops::BinaryOp;

/// The length of these arrays in replays. It is so large that other faults occur before their end is reached.
const REPLAY_LENGTH: i128 = 1 << 16;

/// The dimensions that no `assume` clause of a kernel limits in all launches, and the arrays that have them.
#[derive(Clone, Default)]
pub(super) struct UnstatedLengths {
    dims: Vec<u32>,
    arrays: Vec<String>,
}

impl UnstatedLengths {
    pub fn of(kernel: &Kernel) -> UnstatedLengths {
        let mut stated = vec![];
        for expr in kernel.assumes.iter().flat_map(|assume| assume.exprs()) {
            // `mode != 1 || N >= n` says nothing about other modes.
            if matches!(expr.kind, ExprKind::Binary { op: BinaryOp::Or, .. }) {
                continue;
            }
            visit::expr(expr, &mut |part| {
                if let ExprKind::Dim(dim) = part.kind {
                    stated.push(dim);
                }
            });
        }
        let dims: Vec<u32> = (0..kernel.sig.dims.len() as u32).filter(|dim| !stated.contains(dim)).collect();
        let is_unstated = |ty: &Type| match ty {
            Type::Array(array) => array.dims.iter().any(|dim| matches!(dim, Dim::Name(dim) if dims.contains(dim))),
            _ => false,
        };
        let arrays = kernel.sig.params.iter().filter(|param| is_unstated(&param.ty));
        let arrays = arrays.map(|param| param.name.to_string()).collect();
        UnstatedLengths { dims, arrays }
    }

    pub fn is_dim(&self, dim: usize) -> bool {
        self.dims.iter().any(|known| *known as usize == dim)
    }

    pub fn is_array(&self, name: &str) -> bool {
        self.arrays.iter().any(|known| known == name)
    }

    /// Makes the arrays long in the sizes of a replay.
    pub fn extend(&self, dims: &mut [i128]) {
        for dim in &self.dims {
            if let Some(length) = dims.get_mut(*dim as usize) {
                *length = REPLAY_LENGTH;
            }
        }
    }

    /// Returns whether a fault is an access past an unstated length. Negative indices are faults for all lengths.
    pub fn excuse(&self, fault: &FaultKind) -> bool {
        match fault {
            FaultKind::OutOfBounds { array, indices, .. } => {
                self.is_array(array) && indices.iter().all(|index| *index >= 0)
            }
            _ => false,
        }
    }
}
