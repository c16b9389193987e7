//! Finds arrays that a launch overwrites completely, so that their old contents need not be cleared or copied to the GPU.
//!
//! Of `grid` kernels [`crate::ir::footprint::whole`] tells, for launches as declared; of `threads` kernels, which may be those of
//! array expressions, the form of stores: they run for arrays of any sizes.

use super::text::LaunchFacts;
use crate::device::{Declared, Extents};
use crate::ir::def::{ExprKind, Form, Function, KernelParam, MemId, Module, Stmt, StmtKind};
use crate::ir::{MOST_ELEMENTS, Numbers, Prepared, visit};

/// Returns, by parameter, whether the blocks of a launch overwrite all of the array and read nothing of it; and whether that depends on
/// the values of parameters.
pub fn by_blocks(kernel: &Prepared, facts: &dyn LaunchFacts, declared: Option<Declared>) -> (Vec<bool>, bool) {
    let mut whole = vec![false; kernel.module.kernel.params.len()];
    let is_declared = declared.is_some_and(|launch| launch.largest <= MOST_ELEMENTS);
    let (Some(known), true, Extents::Grid { grid, block }) = (&kernel.declared, is_declared, facts.extents()) else {
        return (whole, false);
    };
    let extent = |param: u32, axis: u8| facts.extent(param as usize, axis.into()).map(i128::from);
    let value = |param: u32| facts.value(param as usize)?.as_integer();
    for param in known.written(&kernel.module, &Numbers { extent: &extent, value: &value, grid, block }) {
        if let Some(whole) = whole.get_mut(param as usize) {
            *whole = true;
        }
    }
    (whole, known.whole(&kernel.module).depends_on_values())
}

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
fn is_read(body: &Function, memory: MemId) -> bool {
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
