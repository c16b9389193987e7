//! Static analysis of a kernel's geometry: finds extents that are literals or constants, and kernels that read
//! `global_idx`.

use std::sync::Arc;

use clk_check::typed::{Body, Expr, ExprKind, FnRef, Geometry, Kernel, Program};
use clk_check::visit;
use clk_runtime::LargerDimensions;
use clk_scalar::builtin::Builtin;

/// Returns the block shape of a `grid` kernel if its extents are literals or constants.
pub fn constant_block(program: &Program, kernel: &Kernel) -> Option<[u32; 3]> {
    match &kernel.geometry {
        Geometry::Grid { block, .. } => constant_extents(program, block),
        Geometry::Threads { .. } => None,
    }
}

/// Returns whether other launches of a kernel may have a larger grid or block. They may unless the signature declares a
/// constant.
pub(super) fn growable_dimensions(program: &Program, kernel: &Kernel) -> LargerDimensions {
    match &kernel.geometry {
        Geometry::Grid { grid, block, .. } => LargerDimensions {
            grid: constant_extents(program, grid).is_none(),
            block: constant_extents(program, block).is_none(),
        },
        Geometry::Threads { .. } => LargerDimensions::default(),
    }
}

/// Returns whether a kernel, or a function that it calls, reads the component `axis` of `global_idx`.
pub(super) fn reads_global_idx(program: &Program, kernel: &Kernel, axis: u8) -> bool {
    let mut waiting: Vec<Arc<Body>> = kernel.body.iter().cloned().collect();
    let (mut seen, mut found) = (Vec::new(), false);
    while let Some(body) = waiting.pop() {
        let (mut all, mut other) = (0, 0);
        visit::exprs(&body.root, &mut |e| match &e.kind {
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

fn constant_extents(program: &Program, extents: &[Expr]) -> Option<[u32; 3]> {
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
