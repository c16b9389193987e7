//! Advice on reads of elements that no thread has written, often because there are fewer threads than elements.

use super::context::FaultContext;
use clk_base::diag::Diagnostic;
use clk_check::typed::*;
use clk_runtime::LaunchExtents;
use clk_scalar::ops::BinaryOp;

pub(super) fn advise(case: &FaultContext<'_>, elements: u64, mut diagnostic: Diagnostic) -> Diagnostic {
    let (count, block) = match case.extents {
        LaunchExtents::Grid { grid, block } => (thread_count(grid) * thread_count(block), Some(block)),
        LaunchExtents::Threads(n) => (thread_count(n), None),
    };
    if count >= elements {
        return diagnostic;
    }
    let plural = if count == 1 { "thread" } else { "threads" };
    diagnostic = diagnostic.note(format!("the launch has {count} {plural} for {elements} elements"));
    // If the number of elements is a multiple of the block size, rounding is not the cause.
    if block.is_some_and(|block| !elements.is_multiple_of(thread_count(block).max(1)))
        && let Some((written, rounded)) = find_rounded_down(case)
    {
        diagnostic.help.insert(0, format!("`{written}` rounds down: `{rounded}` blocks?"));
    }
    diagnostic
}

fn thread_count(extents: [u32; 3]) -> u64 {
    extents.iter().map(|&n| u64::from(n)).fold(1, u64::saturating_mul)
}

/// Returns an extent of the grid that is rounded down, such as `N / 4` with blocks of 4 threads, and its rounded-up
/// form.
fn find_rounded_down(case: &FaultContext<'_>) -> Option<(String, String)> {
    let Geometry::Grid { grid, block, .. } = &case.kernel.geometry else { return None };
    grid.iter().zip(block).find_map(|(blocks, thread_count)| {
        let ExprKind::Binary { op: BinaryOp::Div, left, right } = &blocks.kind else { return None };
        let (n, by) = (case.text(left)?, case.text(right)?);
        (case.text(thread_count)? == by).then(|| (format!("{n} / {by}"), format!("ceil_div({n}, {by})")))
    })
}
