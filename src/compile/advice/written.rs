//! Elements that no thread wrote: often because there are fewer threads than elements.

use super::case::Case;
use crate::base::diag::Diagnostic;
use crate::check::typed::*;
use crate::device::Extents;
use crate::lang::ops::BinaryOp;

pub(super) fn advised(case: &Case<'_>, elements: u64, mut diagnostic: Diagnostic) -> Diagnostic {
    let (count, block) = match case.extents {
        Extents::Grid { grid, block } => (threads(grid) * threads(block), Some(block)),
        Extents::Threads(n) => (threads(n), None),
    };
    if count >= elements {
        return diagnostic;
    }
    let plural = if count == 1 { "thread" } else { "threads" };
    diagnostic = diagnostic.note(format!("the launch has {count} {plural} for {elements} elements"));
    // Whole blocks of elements are lost in another way.
    if block.is_some_and(|block| !elements.is_multiple_of(threads(block).max(1)))
        && let Some((written, rounded)) = rounded_down(case)
    {
        diagnostic.help.insert(0, format!("`{written}` rounds down: `{rounded}` blocks?"));
    }
    diagnostic
}

fn threads(extents: [u32; 3]) -> u64 {
    extents.iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul)
}

/// Returns an extent of the grid that is rounded down, `N / 4` with blocks of 4 threads, and how it is rounded up.
fn rounded_down(case: &Case<'_>) -> Option<(String, String)> {
    let Geometry::Grid { grid, block, .. } = &case.kernel.geometry else { return None };
    grid.iter().zip(block).find_map(|(blocks, threads)| {
        let ExprKind::Binary { op: BinaryOp::Div, left, right } = &blocks.kind else { return None };
        let (n, by) = (case.text(left)?, case.text(right)?);
        (case.text(threads)? == by).then(|| (format!("{n} / {by}"), format!("ceil_div({n}, {by})")))
    })
}
