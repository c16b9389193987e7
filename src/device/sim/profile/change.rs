//! Changes of a kernel that leave its results as they are: which of them might pay for a launch, and the changed kernel.
//!
//! Input: a kernel, and what one of its launches cost. Output: another kernel, which is run with the same arguments.

use crate::device::Extents;
use crate::device::profile::{Change, Profile};
use crate::ir::Prepared;
use crate::ir::def::*;
use crate::ir::verify::verify;

/// Returns the changes that are worth a run.
pub(crate) fn changes(kernel: &Prepared, profile: &Profile) -> Vec<Change> {
    let module: &Module = &kernel.module;
    let Some(body) = module.functions.get(module.kernel.body) else { return vec![] };
    let mut found = vec![];
    // Half of what is moved is not used.
    let wasteful = |access: &&crate::device::profile::Access| access.cost.sectors > 2 * access.cost.fewest;
    if let Form::Threads { rank } = module.kernel.form
        && !prints(&body.body)
        && profile.accesses.iter().filter(|access| !access.shared).any(|access| wasteful(&access))
    {
        found.extend((0..rank.saturating_sub(1)).map(|index| Change::Swap(index, rank - 1)));
    }
    for (id, memory) in body.memories.iter() {
        let crowded = profile.accesses.iter().filter(|access| access.memory == id.index() && access.shared);
        let conflicts = crowded.map(|access| access.cost.passes - access.cost.least).sum::<u64>() > 0;
        let elements = |f: &Module| f.kernel.tiles.is_none() && f.kernel.product.is_none();
        if let (true, true, [_, .., Extent::Known(last)]) = (conflicts, elements(module), &memory.extents[..])
            && !is_whole(&body.body, id)
        {
            found.push(Change::Pad(id.index(), *last));
        }
    }
    found
}

/// Returns whether a kernel prints: its threads do so in their order.
fn prints(block: &Block) -> bool {
    let mut found = false;
    crate::ir::visit::each_stmt(block, &mut |stmt| found |= matches!(stmt.kind, StmtKind::Print { .. }));
    found
}

/// Returns whether a loop does something with all of such an array, whose extents it knows.
fn is_whole(block: &Block, memory: MemId) -> bool {
    let mut found = false;
    crate::ir::visit::each_stmt(block, &mut |stmt| {
        if let StmtKind::For { together: Some(together), .. } = &stmt.kind {
            found |= match together {
                Together::Product(of) => [of.sum, of.left, of.right].contains(&memory),
                Together::Copy(of) => [of.to, of.from].contains(&memory),
            };
        }
    });
    found
}

/// Returns the changed kernel; `None` if it is none.
pub(crate) fn changed(kernel: &Prepared, change: &Change) -> Option<Prepared> {
    let mut module: Module = (*kernel.module).clone();
    module.functions.get(module.kernel.body)?;
    let body = &mut module.functions[module.kernel.body];
    match *change {
        Change::Swap(a, b) => {
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
        Change::Pad(number, last) => {
            let (_, memory) = body.memories.iter_mut().nth(number)?;
            *memory.extents.last_mut()? = Extent::Known(last.checked_add(1)?);
        }
    }
    let module = verify(module).ok()?;
    Some(Prepared { counted: kernel.counted, ..Prepared::new(module, kernel.checks) })
}

/// Returns the extents with which a changed kernel is launched.
pub(crate) fn exchanged(extents: &Extents, change: &Change) -> Extents {
    match (*extents, change) {
        (Extents::Threads(mut n), Change::Swap(a, b)) => {
            n.swap(usize::from(*a), usize::from(*b));
            Extents::Threads(n)
        }
        (same, _) => same,
    }
}
