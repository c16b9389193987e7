//! What a kernel's head alone says of its geometry: extents that are literals and constants, and whether threads ask for their index in
//! the grid.

use std::sync::Arc;

use crate::check::typed::{Body, Expr, ExprKind, FnRef, Geometry, Kernel, Program};
use crate::check::walk;
use crate::device::Larger;
use crate::lang::builtin::Builtin;

/// Returns the block size of a `grid` kernel if it consists of literals and constants.
pub fn constant_block(program: &Program, kernel: &Kernel) -> Option<[u32; 3]> {
    match &kernel.geometry {
        Geometry::Grid { block, .. } => extents_of(program, block),
        Geometry::Threads { .. } => None,
    }
}

/// Returns which of grid and block could be larger in other launches of a kernel, because its signature does not fix them.
pub(super) fn larger(program: &Program, kernel: &Kernel) -> Larger {
    match &kernel.geometry {
        Geometry::Grid { grid, block, .. } => {
            Larger { grid: extents_of(program, grid).is_none(), block: extents_of(program, block).is_none() }
        }
        Geometry::Threads { .. } => Larger::default(),
    }
}

/// Whether a kernel, or a function it calls, reads `global_idx` along an axis.
pub(super) fn reads_global_idx(program: &Program, kernel: &Kernel, axis: u8) -> bool {
    let mut waiting: Vec<Arc<Body>> = kernel.body.iter().cloned().collect();
    let (mut seen, mut found) = (Vec::new(), false);
    while let Some(body) = waiting.pop() {
        let (mut all, mut other) = (0, 0);
        walk::exprs(&body.root, &mut |e| match &e.kind {
            ExprKind::Variable(Builtin::GlobalIdx) => all += 1,
            ExprKind::Swizzle { base, lanes } if matches!(base.kind, ExprKind::Variable(Builtin::GlobalIdx)) => {
                other += usize::from(!lanes.contains(&axis));
            }
            ExprKind::Call { callee: FnRef::Fn { id, .. }, .. } if !seen.contains(id) => {
                seen.push(*id);
                waiting.extend(program.fns.get(*id).and_then(|f| f.body.clone()));
            }
            _ => {}
        });
        found |= all > other;
    }
    found
}

fn extents_of(program: &Program, extents: &[Expr]) -> Option<[u32; 3]> {
    let mut sizes = [1; 3];
    for (slot, value) in sizes.iter_mut().zip(extents) {
        let value = match &value.kind {
            ExprKind::Const(id) => &program.consts[*id].value.kind,
            other => other,
        };
        let ExprKind::Int(value) = value else { return None };
        *slot = u32::try_from(*value).ok()?;
    }
    Some(sizes)
}
