//! Finds arrays that a `threads` kernel overwrites completely, so that their old contents need not be copied to the GPU.

use crate::device::Extents;
use crate::ir::def::{ExprKind, Form, Function, KernelParam, MemId, Module, Stmt, StmtKind};
use crate::ir::visit;

/// Returns, by parameter, whether every thread of a `threads` kernel overwrites its own element of the array completely, and none
/// reads any.
pub(crate) fn own_elements(module: &Module) -> Vec<bool> {
    let params = &module.kernel.params;
    let (Form::Threads { rank }, Some(body)) = (module.kernel.form, module.functions.get(module.kernel.body)) else {
        return vec![false; params.len()];
    };
    // A thread may return before the store.
    let mut returns = false;
    visit::each_stmt(&body.body, &mut |stmt: &Stmt| returns |= matches!(stmt.kind, StmtKind::Return(_)));
    let own = |param: &KernelParam| match param {
        KernelParam::Array { memory, .. } => {
            !returns && !is_read(body, *memory) && is_stored(body, *memory, rank.into())
        }
        KernelParam::Value { .. } => false,
    };
    params.iter().map(own).collect()
}

/// Returns whether an array of this shape has exactly one element per thread.
pub(crate) fn covers(shape: &[u32], extents: &Extents) -> bool {
    match extents {
        Extents::Threads(sizes) => sizes.get(..shape.len()) == Some(shape),
        Extents::Grid { .. } => false,
    }
}

/// Returns whether a kernel's body reads an array.
pub(crate) fn is_read(body: &Function, memory: MemId) -> bool {
    let mut read =
        body.exprs.iter().any(|(_, e)| matches!(&e.kind, ExprKind::Load { place, .. } if place.memory == memory));
    visit::each_stmt(&body.body, &mut |stmt: &Stmt| {
        read |= matches!(&stmt.kind, StmtKind::Atomic { place, .. } if place.memory == memory);
    });
    read
}

/// Returns whether stores that every thread executes write each leaf of the element at the thread's index.
fn is_stored(body: &Function, memory: MemId, rank: usize) -> bool {
    let Some(layout) = body.memories.get(memory).map(|m| &m.layout) else { return false };
    let mut written = vec![false; layout.leaves.len()];
    for stmt in &body.body {
        let StmtKind::Store { place, .. } = &stmt.kind else { continue };
        let is_index =
            |(k, index): (usize, &_)| body.exprs.get(*index).is_some_and(|e| e.kind == ExprKind::Index(k as u8));
        let own = place.indices.len() == rank && place.indices.iter().enumerate().all(is_index);
        if place.memory == memory
            && own
            && place.component.is_none()
            && let Some(written) = written.get_mut(place.leaf as usize)
        {
            *written = true;
        }
    }
    !written.is_empty() && written.iter().all(|&w| w)
}
