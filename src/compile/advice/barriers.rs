//! A barrier that some threads do not reach: they returned, went around it, or left its loop earlier.

use super::case::Case;
use super::loops::around;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::*;
use crate::check::walk;

pub(super) fn advised(
    case: &Case<'_>,
    (what, elsewhere): (&str, Option<Span>),
    mut diagnostic: Diagnostic,
) -> Diagnostic {
    let at = case.fault.span;
    if !at.is_in(case.body.root.span) {
        return diagnostic;
    }
    let chain = around(&case.body.root, at);
    // The place where the threads parted decides, where it is known (at a `for` it is all of the loop): else what differs between
    // threads by its text.
    let parts =
        |on: &Expr| elsewhere.map_or_else(|| case.varies(on), |span| span.is_in(on.span) || on.span.is_in(span));
    let by = chain.iter().find(|one| one.on.is_some_and(parts));
    // Shown is the range of a `for`, not all of it.
    if let (Some(on), Some(all)) = (by.and_then(|one| one.on), elsewhere) {
        let labels = diagnostic.labels.iter_mut().filter(|label| label.span == all && on.span.is_in(all));
        labels.for_each(|label| label.span = on.span);
    }
    let help = match by {
        Some(one) if one.is_loop => {
            "let all threads of the block run the loop as often, and let only the work in it depend on the thread"
                .to_string()
        }
        Some(_) => "move it out of the `if`, and let only the work in between depend on the thread".to_string(),
        None => {
            let Some(first) = first_return(case, at, parts) else { return diagnostic };
            diagnostic = diagnostic.because(first, "threads that return here do not come");
            format!(
                "instead of the `return`, put the work of the others into an `if`, and let all threads go on to the `{what}`"
            )
        }
    };
    diagnostic.help.clear();
    diagnostic.help(help)
}

/// Returns the first `return` before a place that is under a condition at which threads part.
fn first_return(case: &Case<'_>, at: Span, parts: impl Copy + std::ops::Fn(&Expr) -> bool) -> Option<Span> {
    let mut found = None;
    walk::stmts(&case.body.root, &mut |stmt| {
        if found.is_none()
            && matches!(stmt.kind, StmtKind::Return(_))
            && stmt.span.end <= at.start
            && around(&case.body.root, stmt.span).iter().any(|one| one.on.is_some_and(parts))
        {
            found = Some(stmt.span);
        }
    });
    found
}
