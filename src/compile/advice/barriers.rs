//! Advice on a barrier that some threads do not reach because they returned, took another branch, or exited a loop
//! earlier.

use super::context::FaultContext;
use super::enclosing::enclosing_blocks;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::*;
use clk_check::visit;

pub(super) fn advise(
    case: &FaultContext<'_>,
    barrier: &str,
    divergence: Option<Span>,
    mut diagnostic: Diagnostic,
) -> Diagnostic {
    let at = case.fault.span;
    if !at.is_in(case.body.root.span) {
        return diagnostic;
    }
    let enclosing = enclosing_blocks(&case.body.root, at);
    // A condition is divergent if the fault reports divergence at its location (for a `for`, at the whole loop). If the
    // fault reports no location, a condition is treated as divergent if its value may vary between threads.
    let diverges =
        |on: &Expr| divergence.map_or_else(|| case.varies(on), |span| span.is_in(on.span) || on.span.is_in(span));
    let divergent = enclosing.iter().find(|one| one.on.is_some_and(diverges));
    // Moves the label from the whole `for` loop to its range.
    if let (Some(on), Some(all)) = (divergent.and_then(|one| one.on), divergence) {
        let labels = diagnostic.labels.iter_mut().filter(|label| label.span == all && on.span.is_in(all));
        labels.for_each(|label| label.span = on.span);
    }
    let help = match divergent {
        Some(one) if one.is_loop => {
            "give all threads of the block the same number of iterations, and let only the work in them depend on the \
             thread"
                .to_string()
        }
        Some(_) => "move it out of the `if`, and let only the work in between depend on the thread".to_string(),
        None => {
            let Some(first) = first_divergent_return(case, at, diverges) else { return diagnostic };
            diagnostic = diagnostic.because(first, "threads that return here do not come");
            format!(
                "instead of the `return`, put the work of the others into an `if`, and let all threads go on to the \
                 `{barrier}`"
            )
        }
    };
    diagnostic.help.clear();
    diagnostic.help(help)
}

/// Returns the first `return` before a location that is under a divergent condition.
fn first_divergent_return(
    case: &FaultContext<'_>,
    at: Span,
    diverges: impl Copy + std::ops::Fn(&Expr) -> bool,
) -> Option<Span> {
    let mut first = None;
    visit::stmts(&case.body.root, &mut |stmt| {
        if first.is_none()
            && matches!(stmt.kind, StmtKind::Return(_))
            && stmt.span.end <= at.start
            && enclosing_blocks(&case.body.root, stmt.span).iter().any(|one| one.on.is_some_and(diverges))
        {
            first = Some(stmt.span);
        }
    });
    first
}
