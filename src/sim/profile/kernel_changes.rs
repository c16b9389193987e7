//! Changes of a kernel that preserve its results: finds changes that might make a launch faster, and applies them.
//!
//! Input: a kernel, and the cost of one of its launches. Output: a changed kernel, which takes the same arguments.

use clk_ir::PreparedKernel;
use clk_ir::def::*;
use clk_ir::verify::verify;
use clk_runtime::LaunchExtents;
use clk_runtime::profile::{LayoutChange, Profile};

/// Returns the changes that might make the profiled launch faster, so that a trial run is worthwhile.
pub(crate) fn propose_changes(kernel: &PreparedKernel, profile: &Profile) -> Vec<LayoutChange> {
    let module: &Module = &kernel.module;
    let Some(body) = module.functions.get(module.kernel.body) else { return vec![] };
    let mut worthwhile = vec![];
    // An access is wasteful if it transfers more than twice the minimum number of sectors.
    let wasteful = |access: &&clk_runtime::profile::AccessProfile| access.cost.sectors > 2 * access.cost.fewest;
    if let LaunchForm::Threads { rank } = module.kernel.form
        && !prints(&body.body)
        && profile.accesses.iter().filter(|access| !access.shared).any(|access| wasteful(&access))
    {
        worthwhile.extend((0..rank.saturating_sub(1)).map(|index| LayoutChange::Swap(index, rank - 1)));
    }
    for (id, memory) in body.memories.iter() {
        let crowded = profile.accesses.iter().filter(|access| access.memory == id.index() && access.shared);
        let conflicts = crowded.map(|access| access.cost.passes - access.cost.least).sum::<u64>() > 0;
        let elements = |f: &Module| f.kernel.tile_program.is_none() && f.kernel.gemm.is_none();
        if let (true, true, [_, .., Extent::Known(last)]) = (conflicts, elements(module), &memory.extents[..])
            && !is_whole(&body.body, id)
        {
            worthwhile.push(LayoutChange::Pad(id.index(), *last));
        }
    }
    worthwhile
}

/// Returns whether a kernel prints. If it does, its indices must not be swapped, because that would change the order of
/// the output.
fn prints(block: &Block) -> bool {
    let mut has_print = false;
    clk_ir::visit::each_stmt(block, &mut |stmt| has_print |= matches!(stmt.kind, StmtKind::Print { .. }));
    has_print
}

/// Returns whether a collective loop uses the array. Such loops assume the array's extents.
fn is_whole(block: &Block, memory: MemId) -> bool {
    let mut is_used = false;
    clk_ir::visit::each_stmt(block, &mut |stmt| {
        if let StmtKind::For { collective: Some(collective), .. } = &stmt.kind {
            is_used |= match collective {
                CollectiveLoop::Gemm(of) => [of.sum, of.left, of.right].contains(&memory),
                CollectiveLoop::Copy(of) => [of.to, of.from].contains(&memory),
            };
        }
    });
    is_used
}

/// Returns the changed kernel; `None` if the change does not apply.
pub(crate) fn apply_change(kernel: &PreparedKernel, change: &LayoutChange) -> Option<PreparedKernel> {
    let mut module: Module = (*kernel.module).clone();
    module.functions.get(module.kernel.body)?;
    let body = &mut module.functions[module.kernel.body];
    match *change {
        LayoutChange::Swap(a, b) => {
            for (_, expr) in body.exprs.iter_mut() {
                if let ExprKind::Index(index) = &mut expr.kind {
                    *index = if *index == a {
                        b
                    } else if *index == b {
                        a
                    } else {
                        *index
                    };
                }
            }
        }
        LayoutChange::Pad(number, last) => {
            let (_, memory) = body.memories.iter_mut().nth(number)?;
            *memory.extents.last_mut()? = Extent::Known(last.checked_add(1)?);
        }
    }
    let module = verify(module).ok()?;
    Some(PreparedKernel { cost_counting: kernel.cost_counting, ..PreparedKernel::new(module, kernel.checks) })
}

/// Returns the extents with which the changed kernel is launched.
pub(crate) fn changed_extents(extents: &LaunchExtents, change: &LayoutChange) -> LaunchExtents {
    match (*extents, change) {
        (LaunchExtents::Threads(mut n), LayoutChange::Swap(a, b)) => {
            n.swap(usize::from(*a), usize::from(*b));
            LaunchExtents::Threads(n)
        }
        (same, _) => same,
    }
}
