//! Adjoints computed by separate kernels instead of atomic additions: gathered adjoints ([`gather`]), and sums over all
//! threads ([`reductions`]).
//!
//! Input: a reverse derivative over an index space. Output: separate kernels that run before the derivative, and the
//! derivative without the additions that they compute.

use super::derived::{DerivedParamRole, GatherKernel, ReductionKernel, role_of};
use super::error::NotDifferentiable;
use super::gather;
use super::recompute::{ReverseKernel, find_reread_places, remove_additions};
use super::reductions;
use clk_ir::def::*;
use clk_ir::visit::each_stmt;

/// Moves the computation of adjoints out of a derivative into separate kernels. `accesses[p]` describes parameter `p`
/// of the primal kernel; `None` for by-value parameters.
pub(super) fn outline_adjoints(
    module: &mut Module,
    roles: &mut [DerivedParamRole],
    accesses: &[Option<Access>],
) -> Result<(Vec<GatherKernel>, Option<ReductionKernel>), NotDifferentiable> {
    let LaunchForm::Threads { rank } = module.kernel.form else { return Ok((vec![], None)) };
    let body = &module.functions[module.kernel.body];
    if roles.iter().any(|role| matches!(role, DerivedParamRole::Tape(_))) {
        return Ok((vec![], None));
    }
    let Some(reread_places) = find_reread_places(body, roles, accesses) else { return Ok((vec![], None)) };
    let reverse = ReverseKernel { module, roles, reread_places: &reread_places };
    let (mut gathers, mut sums, mut outlined) = (vec![], vec![], vec![]);
    for (at, role) in roles.iter().enumerate() {
        let (DerivedParamRole::Adjoint(param), Some(KernelParam::Array { memory, .. })) =
            (*role, module.kernel.params.get(at))
        else {
            continue;
        };
        let access = accesses.get(param).copied().flatten();
        if !matches!(access, None | Some(Access::In)) {
            continue;
        }
        if let Some(additions) = reductions::uniform_additions(body, *memory, access.is_none()) {
            sums.extend(additions.into_iter().map(|addition| (param, addition)));
            outlined.push((at, *memory, true));
        } else if let Some(sites) = gather::addition_targets(body, *memory, rank) {
            gathers.push(gather::make_gather_kernel(reverse, param, *memory, &sites)?);
            outlined.push((at, *memory, false));
        }
    }
    let reduction = reductions::make_reduction_kernel(reverse, &sums)?;
    for (at, memory, is_sum) in outlined {
        if !is_sum || reduction.is_some() {
            let body = module.kernel.body;
            remove_additions(&mut module.functions[body].body, memory);
            make_read_only(module, roles, at);
        }
    }
    Ok((gathers, reduction))
}

/// Returns whether a derivative does more than zero the adjoints of outputs. Always true if it has adjoints of `inout`
/// arrays, because these are both inputs and outputs.
pub(super) fn has_effect(module: &Module, roles: &[DerivedParamRole], accesses: &[Option<Access>]) -> bool {
    let is_passed_on = |role: &DerivedParamRole| matches!(role, DerivedParamRole::Adjoint(at) if accesses.get(*at) == Some(&Some(Access::InOut)));
    if roles.iter().any(is_passed_on) {
        return true;
    }
    let body = &module.functions[module.kernel.body];
    let is_consumed = |memory: MemId| match role_of(body, roles, memory) {
        Some(DerivedParamRole::Adjoint(param)) => accesses.get(param) == Some(&Some(Access::Out)),
        _ => body.memories[memory].space == MemorySpace::Local,
    };
    let mut has_effect = false;
    each_stmt(&body.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, .. } => has_effect |= !is_consumed(place.memory),
        StmtKind::Atomic { .. } => has_effect = true,
        _ => {}
    });
    has_effect
}

/// Replaces an adjoint that the kernel no longer accesses: the primal parameter is passed instead, read-only.
fn make_read_only(module: &mut Module, roles: &mut [DerivedParamRole], at: usize) {
    let body = module.kernel.body;
    let Some(KernelParam::Array { access, memory, .. }) = module.kernel.params.get_mut(at) else { return };
    *access = Access::In;
    module.functions[body].memories[*memory].space = MemorySpace::Global { param: at as u32, access: Access::In };
    if let DerivedParamRole::Adjoint(param) = roles[at]
        && matches!(module.kernel.params.get(param), Some(KernelParam::Array { .. }))
    {
        roles[at] = DerivedParamRole::Primal(param);
    }
}
