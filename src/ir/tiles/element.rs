//! Element kernels: the kernels that compute the numbers and elements of a tile program, one thread per element.

use crate::def::{Access, ExprId, ExprKind, Function, MemId, MemorySpace, Module, Place, StmtKind};
use crate::visit::each_stmt;

/// The array parameters that an element kernel accesses, by position, in the order of the accesses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessedArrays {
    pub loads: Vec<u32>,
    pub stores: Vec<u32>,
}

/// Returns the array parameters that a kernel loads from and stores to. An array that is passed to a function counts as
/// accessed in the ways that the function's signature allows.
pub fn accessed_arrays(module: &Module) -> AccessedArrays {
    let mut found = AccessedArrays::default();
    let Some(body) = module.functions.get(module.kernel.body) else { return found };
    let param_of = |memory: MemId| match body.memories.get(memory)?.space {
        MemorySpace::Global { param, .. } => Some(param),
        _ => None,
    };
    for (_, expr) in body.exprs.iter() {
        if let ExprKind::Load { place, .. } = &expr.kind {
            found.loads.extend(param_of(place.memory));
        }
    }
    each_stmt(&body.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, .. } => found.stores.extend(param_of(place.memory)),
        StmtKind::Call { function, memories, .. } => {
            let Some(callee) = module.functions.get(*function) else { return };
            for (_, declared) in callee.memories.iter() {
                let MemorySpace::Param { position, access } = declared.space else { continue };
                let param = memories.get(position as usize).and_then(|&memory| param_of(memory));
                found.loads.extend(param.filter(|_| access != Access::Out));
                found.stores.extend(param.filter(|_| access != Access::In));
            }
        }
        _ => {}
    });
    for list in [&mut found.loads, &mut found.stores] {
        let mut unique = vec![];
        list.retain(|param| {
            !unique.contains(param) && {
                unique.push(*param);
                true
            }
        });
    }
    found
}

/// Returns whether a function computes the same regardless of how many threads execute it, which ones, and in which
/// order: it has no side effects other than stores, does not depend on its thread, and shares no memory with other
/// threads of its block.
pub fn is_elementwise(function: &Function) -> bool {
    let depends_on_thread = |kind: &ExprKind| matches!(kind, ExprKind::Id(..) | ExprKind::LaneIdx | ExprKind::WarpIdx);
    let mut found = function.exprs.iter().all(|(_, expr)| !depends_on_thread(&expr.kind))
        && function.memories.iter().all(|(_, memory)| memory.space != MemorySpace::Shared);
    each_stmt(&function.body, &mut |stmt| {
        use StmtKind::*;
        found &= !matches!(
            stmt.kind,
            Atomic { .. } | Barrier { .. } | Warp { .. } | Fence(_) | Assert { .. } | Print { .. }
        );
    });
    found
}

/// Returns whether a kernel stores to one element of an array parameter, and loads no other element of it.
pub fn updates_in_place(module: &Module, param: u32) -> bool {
    let Some(body) = module.functions.get(module.kernel.body) else { return false };
    let is_of_param = |place: &Place| {
        body.memories
            .get(place.memory)
            .is_some_and(|memory| matches!(memory.space, MemorySpace::Global { param: own, .. } if own == param))
    };
    let (mut stored, mut in_place) = (None, true);
    each_stmt(&body.body, &mut |stmt| match &stmt.kind {
        StmtKind::Store { place, .. } if is_of_param(place) => in_place &= stored.replace(place).is_none(),
        StmtKind::Call { memories, .. } => {
            let passes = |&memory: &MemId| is_of_param(&Place { memory, indices: vec![], leaf: 0, component: None });
            in_place &= !memories.iter().any(passes);
        }
        _ => {}
    });
    let Some(stored) = stored else { return false };
    let is_stored = |place: &Place| {
        let mut pairs = place.indices.iter().zip(&stored.indices);
        place.indices.len() == stored.indices.len() && pairs.all(|(&a, &b)| is_same_value(body, a, b))
    };
    in_place
        && body.exprs.iter().all(|(_, expr)| match &expr.kind {
            ExprKind::Load { place, .. } if is_of_param(place) => is_stored(place),
            _ => true,
        })
}

/// Returns whether two expressions have the same value wherever they are evaluated, because they apply the same pure
/// operations to the same values.
fn is_same_value(function: &Function, a: ExprId, b: ExprId) -> bool {
    let [Some(left), Some(right)] = [a, b].map(|id| function.exprs.get(id)) else { return false };
    if a == b {
        return true;
    }
    let operands_of = |kind: &ExprKind| {
        let mut operands = vec![];
        kind.operands(|operand| operands.push(operand));
        operands
    };
    let (own, other) = (operands_of(&left.kind), operands_of(&right.kind));
    let mut unified = right.kind.clone();
    let mut next = own.iter();
    unified.operands_mut(|operand| *operand = next.next().copied().unwrap_or(*operand));
    left.ty == right.ty
        && left.kind.is_pure()
        && unified == left.kind
        && own.len() == other.len()
        && own.iter().zip(&other).all(|(&a, &b)| is_same_value(function, a, b))
}
