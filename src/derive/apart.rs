//! What is computed apart from a reverse derivative over an index space, without atomic additions: adjoints that are gathered
//! ([`gather`]), and sums over all threads ([`totals`]).
//!
//! Input: the derivative. Output: kernels that run before it, and the derivative without what they do.

use super::def::{Gather, Role, Totals, role_of};
use super::gather;
use super::lost::Lost;
use super::repeat::{remove_additions, repeatable};
use super::totals;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;

/// Takes out of a derivative what is better computed apart. `accesses` are those of the original parameters, none of a value.
pub(super) fn taken_out(
    made: &mut Module,
    roles: &mut [Role],
    accesses: &[Option<Access>],
) -> Result<(Vec<Gather>, Option<Totals>), Lost> {
    let Form::Threads { rank } = made.kernel.form else { return Ok((vec![], None)) };
    let body = &made.functions[made.kernel.body];
    if roles.iter().any(|role| matches!(role, Role::Tape(_))) {
        return Ok((vec![], None));
    }
    let Some(held) = repeatable(body, roles, accesses) else { return Ok((vec![], None)) };
    let (mut gathers, mut sums, mut gone) = (vec![], vec![], vec![]);
    for (at, role) in roles.iter().enumerate() {
        let (Role::Adjoint(param), Some(KernelParam::Array { memory, .. })) = (*role, made.kernel.params.get(at))
        else {
            continue;
        };
        let access = accesses.get(param).copied().flatten();
        if !matches!(access, None | Some(Access::In)) {
            continue;
        }
        if let Some(common) = totals::common(body, *memory, access.is_none()) {
            sums.extend(common.into_iter().map(|common| (param, common)));
            gone.push((at, *memory, true));
        } else if let Some(sites) = gather::sites(body, *memory, rank) {
            gathers.push(gather::gather((made, roles, &held), (param, *memory), &sites)?);
            gone.push((at, *memory, false));
        }
    }
    let totals = totals::totals((made, roles, &held), &sums)?;
    for (at, memory, is_sum) in gone {
        if !is_sum || totals.is_some() {
            let body = made.kernel.body;
            remove_additions(&mut made.functions[body].body, memory);
            only_read(made, roles, at);
        }
    }
    Ok((gathers, totals))
}

/// Returns whether a derivative does more than to take the adjoints of results: it passes on those of arrays that are read and written,
/// even if no statement touches them.
pub(super) fn has_effect(made: &Module, roles: &[Role], accesses: &[Option<Access>]) -> bool {
    let passes_on = |role: &Role| matches!(role, Role::Adjoint(at) if accesses.get(*at) == Some(&Some(Access::InOut)));
    if roles.iter().any(passes_on) {
        return true;
    }
    let body = &made.functions[made.kernel.body];
    let is_taken = |memory: MemId| match role_of(body, roles, memory) {
        Some(Role::Adjoint(param)) => accesses.get(param) == Some(&Some(Access::Out)),
        _ => body.memories[memory].space == Space::Local,
    };
    let mut found = false;
    each_stmt(&body.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, .. } => found |= !is_taken(place.memory),
        StmtKind::Atomic { .. } => found = true,
        _ => {}
    });
    found
}

/// Lets a kernel read the parameter in place of its adjoint, which it does not touch any more.
fn only_read(made: &mut Module, roles: &mut [Role], at: usize) {
    let body = made.kernel.body;
    let Some(KernelParam::Array { access, memory, .. }) = made.kernel.params.get_mut(at) else { return };
    *access = Access::In;
    made.functions[body].memories[*memory].space = Space::Global { param: at as u32, access: Access::In };
    if let Role::Adjoint(param) = roles[at]
        && matches!(made.kernel.params.get(param), Some(KernelParam::Array { .. }))
    {
        roles[at] = Role::Primal(param);
    }
}
