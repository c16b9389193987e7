//! Automatic differentiation of kernels, from DeviceIR to DeviceIR. A kernel without a correct derivative is rejected.
//!
//! [`forward`] adds a tangent to every active value. [`reverse_mode()`] returns an adjoint kernel. Its forward part
//! executes the primal kernel again and records values on a tape; its reverse sweep propagates adjoints. Some adjoints
//! are computed by separate kernels, which need no atomics. `docs/internals/derivatives.md` describes the passes, the
//! invariants and the rejected programs.

#![allow(rustdoc::private_intra_doc_links)]

mod activity;
mod derived;
mod error;
mod forward_mode;
mod gather;
mod gemm;
mod gemm_operands;
mod jump_removal;
mod launches;
mod non_atomic;
mod outlined_adjoints;
mod plan;
mod recompute;
mod reductions;
mod reloadable;
mod reverse_mode;
mod reverse_sweep;
mod rules;
mod shadow;
mod source_text;
mod tape;
mod warp;

pub use derived::{Derived, DerivedParamRole, GatherKernel, ReductionKernel, TapeCountingKernel, TapeLoop};
pub use error::NotDifferentiable;
pub use launches::DerivativeLaunches;
pub use shadow::adjoint_scalar;
pub use source_text::{KernelHeader, print};

use clk_ir::def::{KernelParam, MemId, Module};

/// Derives a kernel in forward mode. `active[p]` is set if launch parameter `p` has a tangent. `is_gradient` is set if
/// the kernel is itself an adjoint kernel, in which several threads may consume the same adjoint.
pub fn forward(module: &Module, active: &[bool], is_gradient: bool) -> Result<Derived, NotDifferentiable> {
    let module = clk_pass::for_derivative(module).map_err(NotDifferentiable::internal)?;
    forward_mode::derive(&module, active, is_gradient)
}

/// Derives a kernel in reverse mode. `active[p]` is set if launch parameter `p` has an adjoint, which the kernel
/// computes for an input and reads for an output. The result is valid only for the launches that `launches` describes.
pub fn reverse_mode(
    module: &Module,
    active: &[bool],
    launches: &DerivativeLaunches,
) -> Result<Derived, NotDifferentiable> {
    let module = clk_pass::for_derivative(module).map_err(NotDifferentiable::internal)?;
    reverse_mode::derive(module, active, launches)
}

/// Simplifies a derived kernel so that its printed text is easier to read.
pub fn simplify(module: &Module) -> Result<Module, clk_pass::InvalidIrError> {
    clk_pass::simplify_for_reading(module)
}

/// Returns, for each parameter of a kernel, whether it can be active: whether it is or contains a float.
pub fn can_be_active(module: &Module) -> Vec<bool> {
    let Some(body) = module.functions.get(module.kernel.body) else { return vec![] };
    let is_active_memory = |memory: MemId| activity::has_floats(&body.memories[memory].layout);
    let is_active = |param: &KernelParam| match param {
        KernelParam::Value { ty, .. } => ty.scalar().is_float(),
        KernelParam::Array { memory, .. } => is_active_memory(*memory),
    };
    module.kernel.params.iter().map(is_active).collect()
}
