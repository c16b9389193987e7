//! Finds arrays that a launch overwrites completely. Their old contents need not be cleared or copied to the device.
//!
//! For `grid` kernels, `clk_ir::footprint` proves this for launches that match the signature. For `threads` kernels,
//! including array expressions, the indices of the stores prove it for all sizes.

use super::launch_facts::{ArgFacts, LaunchFacts};
use super::{LaunchExtents, SignaturePromise};
use clk_ir::def::{ExprKind, Function, KernelParam, LaunchForm, MemId, Module, Stmt, StmtKind};
use clk_ir::{LaunchNumbers, MAX_ELEMENTS, PreparedKernel, visit};

/// For each parameter, returns whether the blocks of a launch overwrite the whole array and read none of its elements.
/// Also returns whether this depends on the values of parameters.
pub fn overwritten_by_grid(
    kernel: &PreparedKernel,
    facts: &dyn LaunchFacts,
    declared: Option<SignaturePromise>,
) -> (Vec<bool>, bool) {
    let mut whole = vec![false; kernel.module.kernel.params.len()];
    let is_declared = declared.is_some_and(|launch| launch.largest <= MAX_ELEMENTS);
    let (Some(known), true, LaunchExtents::Grid { grid, block }) =
        (&kernel.declared_launches, is_declared, facts.extents())
    else {
        return (whole, false);
    };
    let extent = |param: u32, axis: u8| facts.extent(param as usize, axis.into()).map(i128::from);
    let value = |param: u32| facts.value(param as usize)?.as_integer();
    for param in known.written(&kernel.module, &LaunchNumbers { extent: &extent, value: &value, grid, block }) {
        if let Some(whole) = whole.get_mut(param as usize) {
            *whole = true;
        }
    }
    (whole, known.full_overwrites(&kernel.module).depends_on_values())
}

/// For each parameter, returns whether every thread of a `threads` kernel completely overwrites its own element of the
/// array and no thread reads any element.
pub fn overwritten_by_threads(module: &Module) -> Vec<bool> {
    let params = &module.kernel.params;
    let (LaunchForm::Threads { rank }, Some(body)) = (module.kernel.form, module.functions.get(module.kernel.body))
    else {
        return vec![false; params.len()];
    };
    // If the body contains a return, a thread may end before the store.
    let mut returns = false;
    visit::each_stmt(&body.body, &mut |stmt: &Stmt| returns |= matches!(stmt.kind, StmtKind::Return(_)));
    let own = |param: &KernelParam| match param {
        KernelParam::Array { memory, .. } => {
            !returns && !is_read(body, *memory) && is_fully_stored(body, *memory, rank.into())
        }
        KernelParam::Value { .. } => false,
    };
    params.iter().map(own).collect()
}

/// For each argument of a launch, returns whether the launch overwrites the whole array. The other parameters are the
/// results of [`overwritten_by_threads`] and [`overwritten_by_grid`].
pub fn fully_overwritten(facts: &ArgFacts<'_, '_>, by_threads: &[bool], by_grid: &[bool]) -> Vec<bool> {
    let whole = |param: usize, shape: &[u32]| match facts.extents {
        LaunchExtents::Threads(_) => {
            by_threads.get(param).copied().unwrap_or(false) && has_one_element_per_thread(shape, &facts.extents)
        }
        LaunchExtents::Grid { .. } => by_grid.get(param).copied().unwrap_or(false),
    };
    facts.args.iter().enumerate().map(|(param, arg)| arg.shape().is_some_and(|shape| whole(param, shape))).collect()
}

/// Returns whether an array of this shape has exactly one element per thread.
fn has_one_element_per_thread(shape: &[u32], extents: &LaunchExtents) -> bool {
    match extents {
        LaunchExtents::Threads(sizes) => sizes.get(..shape.len()) == Some(shape),
        LaunchExtents::Grid { .. } => false,
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

/// Returns whether every thread executes stores that together write each leaf (scalar or vector field) of the element
/// at the thread's index.
fn is_fully_stored(body: &Function, memory: MemId, rank: usize) -> bool {
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
