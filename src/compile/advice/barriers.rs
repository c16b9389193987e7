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
    // The place where the threads parted decides, where it is known: else what differs between threads by its text.
    let parts = |on: &Expr| elsewhere.map_or_else(|| case.varies(on), |span| span.is_in(on.span));
    let by = chain.iter().find(|one| one.on.is_some_and(parts));
    let help = match by {
        Some(one) if one.is_loop => {
            "let all threads of the block run the loop as often, and let only the work in it depend on the thread"
                .to_string()
        }
        Some(_) => "move it out of the `if`, and let only the work in between depend on the thread".to_string(),
        None => {
            let returns = returns(case, at, elsewhere);
            let [first, ..] = returns[..] else { return diagnostic };
            diagnostic = diagnostic.because(first, "threads that return here do not come");
            format!(
                "instead of the `return`, put the work of the others into an `if`, and let all threads go on to the `{what}`"
            )
        }
    };
    diagnostic.help.clear();
    diagnostic.help(help)
}

/// Returns the `return`s of some threads before a place; only those of the condition at which threads parted, if that is known.
fn returns(case: &Case<'_>, at: Span, elsewhere: Option<Span>) -> Vec<Span> {
    let mut found = vec![];
    walk::stmts(&case.body.root, &mut |stmt| {
        if matches!(stmt.kind, StmtKind::Return(_)) && stmt.span.end <= at.start {
            let chain = around(&case.body.root, stmt.span);
            let counts = |on: &Expr| elsewhere.map_or_else(|| case.varies(on), |span| span.is_in(on.span));
            if chain.iter().any(|one| one.on.is_some_and(counts)) {
                found.push(stmt.span);
            }
        }
    });
    found
}
