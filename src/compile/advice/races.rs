//! Advice on a race between two threads of a block: where a barrier is needed. That depends on the loops around the two
//! accesses.

use super::context::FaultContext;
use super::enclosing::{EnclosingBlock, enclosing_blocks, is_barrier};
use super::thread_variance::ThreadCount;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_check::typed::*;
use clk_check::visit;
use clk_runtime::{AccessKind, LaunchExtents, Race, RaceRemedy};
use clk_scalar::ops::BinaryOp;

/// The number of threads in a warp.
const WARP: u64 = 32;

/// The positions of the two racing accesses relative to each other and to loops, which determine where barriers are
/// needed.
enum RaceLocation {
    /// In different statements, in the same iteration of the loops around both.
    SameIteration,
    /// In the same statement, in the same iteration of the loops around it.
    SameStatement,
    /// In different iterations of a loop, because there is a barrier between them in the loop's body.
    DifferentIterations,
    /// In different statements of a loop, either in the same iteration or in different iterations.
    SameOrDifferentIterations,
    /// In the same statement of a loop, either in the same iteration or in different iterations.
    SameStatementInLoop,
}

pub(super) fn advise(case: &FaultContext<'_>, race: &Race, mut diagnostic: Diagnostic) -> Diagnostic {
    let remedy = RaceRemedy::of(race, case.fault.span);
    if remedy == RaceRemedy::AtomicUpdate {
        if let Some(place) = accumulated_place(case) {
            let specific = "does both at once; or let each thread write a place of its own";
            diagnostic.help = vec![format!("`atomic_add({place}, …)` {specific}")];
        }
        return match race.same_block && may_meet_in_loop(case) {
            true => diagnostic
                .help("if the two are in different iterations, put a `barrier()` at the end of the loop's body"),
            false => diagnostic,
        };
    }
    if let Some(stride) = stride_of_one_block(case) {
        diagnostic.help.clear();
        return diagnostic.fix(
            "the stride must be the number of all threads: `step block_dim.x * grid_dim.x`",
            stride,
            "block_dim.x * grid_dim.x",
            Applicability::MaybeIncorrect,
        );
    }
    if let Some((operation, place, value)) = conditional_extreme(case) {
        diagnostic.help =
            vec![format!("`{operation}({place}, {value})` compares and writes at once, without the `if`")];
        return diagnostic;
    }
    if let Some(place) = updated_place(case) {
        diagnostic.help = vec![format!("`atomic_add({place}, …)` reads, adds and writes at once")];
        return diagnostic;
    }
    if remedy == RaceRemedy::OneWriter
        && !race.same_block
        && let Some((array, index)) = element_of_blocks(case)
    {
        diagnostic.help.clear();
        return diagnostic.fix(
            format!("each block writes the same element; `{array}[block_idx.x]` is one for each block"),
            index,
            "block_idx.x",
            Applicability::MaybeIncorrect,
        );
    }
    if remedy != RaceRemedy::Barrier || !case.fault.span.is_in(case.body.root.span) {
        return diagnostic;
    }
    let (first, second) = in_source_order(case.fault.span, race.other_span);
    let enclosing = enclosing_blocks(&case.body.root, first);
    let common: Vec<&EnclosingBlock<'_>> = enclosing.iter().filter(|one| one.contains(second)).collect();
    // A barrier under a divergent condition would be an error, so only the blocks outside of such conditions are
    // considered. A loop whose condition reads the raced location is assumed to be intended as uniform.
    let reads_place = |one: &EnclosingBlock<'_>| {
        one.is_loop && one.on.is_some_and(|on| first.is_in(on.span) || second.is_in(on.span))
    };
    let varying = common.iter().position(|one| !reads_place(one) && one.on.is_some_and(|on| case.varies(on)));
    let reached = &common[..varying.unwrap_or(common.len())];
    let enclosing_loop = reached.iter().rev().find(|one| one.is_loop);
    if enclosing_loop.is_none() && varying.is_some() {
        diagnostic.help.clear();
        return diagnostic.help("put a `barrier()` between the two, where all threads of the block reach it");
    }
    let innermost = common.last().map_or(&case.body.root, |one| one.block);
    let place = match enclosing_loop {
        Some(enclosing_loop) => locate_in_loop(enclosing_loop, first, second),
        None if same_statement(innermost, first, second) => RaceLocation::SameStatement,
        None => RaceLocation::SameIteration,
    };
    let Some(barrier_help) = barrier_help(case, race, &place) else { return diagnostic };
    diagnostic.help.clear();
    let Some(enclosing_loop) =
        enclosing_loop.filter(|_| !matches!(place, RaceLocation::SameIteration | RaceLocation::SameStatement))
    else {
        return diagnostic.help(barrier_help);
    };
    if let Some(on) = enclosing_loop.on {
        diagnostic = diagnostic.because(on.span, "both are in this loop");
    }
    let before = if enclosing_loop.continues() { ", and one before each `continue`" } else { "" };
    diagnostic.help(format!("{barrier_help}{before}"))
}

/// Returns the specific help text; `None` if the general help text is correct.
fn barrier_help(case: &FaultContext<'_>, race: &Race, place: &RaceLocation) -> Option<&'static str> {
    let writes = [race.access_kind, race.other_access_kind] == [AccessKind::Store; 2];
    Some(match place {
        RaceLocation::SameIteration if is_single_warp(case) => {
            "put a `barrier()` or a `warp_barrier()` between the two"
        }
        RaceLocation::SameIteration => return None,
        RaceLocation::SameStatement if writes => "let each thread write elements of its own",
        RaceLocation::SameStatement => "read first, then `barrier()`, then write",
        RaceLocation::DifferentIterations => {
            "the two are in different iterations: put a `barrier()` at the end of the loop's body"
        }
        RaceLocation::SameOrDifferentIterations => {
            "put a `barrier()` between the two, and one at the end of the loop's body"
        }
        RaceLocation::SameStatementInLoop if writes => {
            "put a `barrier()` at the end of the loop's body; in one iteration, let each thread write elements of its \
             own"
        }
        RaceLocation::SameStatementInLoop => {
            "put a `barrier()` at the end of the loop's body; where one iteration reads what another thread writes in \
             it, read first, then `barrier()`, then write"
        }
    })
}

/// If the racing statement is `place += value`, returns the text of `place`.
fn accumulated_place(case: &FaultContext<'_>) -> Option<String> {
    let mut accumulated = None;
    visit::stmts(&case.body.root, &mut |stmt| {
        if let StmtKind::Assign { place, op: Some(BinaryOp::Add), .. } = &stmt.kind
            && place.span == case.fault.span
            && matches!(place.ty, Type::Scalar(_))
        {
            accumulated = case.place(place);
        }
    });
    accumulated
}

/// If the race is in a statement `place = place + value`, returns the text of `place`.
fn updated_place(case: &FaultContext<'_>) -> Option<String> {
    let mut updated = None;
    visit::stmts(&case.body.root, &mut |stmt| {
        let StmtKind::Assign { place, op: None, value } = &stmt.kind else { return };
        let ExprKind::Binary { op: BinaryOp::Add, left, right } = &value.kind else { return };
        let (text, at) = (case.place(place), case.fault.span);
        let operand = [left, right].into_iter().find(|operand| text.is_some() && case.place(operand) == text);
        if let Some(operand) = operand
            && (place.span == at || operand.span == at)
            && matches!(place.ty, Type::Scalar(_))
        {
            updated = text;
        }
    });
    updated
}

/// If the faulting statement writes an element with a constant index of an array that has as many elements as the
/// grid has blocks, returns the name of the array and the span of the index.
fn element_of_blocks(case: &FaultContext<'_>) -> Option<(String, Span)> {
    let Geometry::Grid { grid, .. } = &case.kernel.geometry else { return None };
    let [blocks] = &grid[..] else { return None };
    let mut element = None;
    visit::stmts(&case.body.root, &mut |stmt| {
        if let StmtKind::Assign { place, .. } = &stmt.kind
            && place.span == case.fault.span
            && let ExprKind::Index { base, indices } = &place.kind
            && let ([index], ExprKind::Local(id), Type::Array(array)) = (&indices[..], &base.kind, &base.ty)
            && let (ExprKind::Int(_), [dim]) = (&index.kind, &array.dims[..])
            && case.extent(dim) == case.text(blocks)
            && let Some(local) = case.body.locals.get(*id)
        {
            element = Some((local.name.to_string(), index.span));
        }
    });
    element
}

/// Returns the stride of the loop `for i in global_idx.x..N step block_dim.x` around the fault. Several blocks execute
/// the same iterations of it.
fn stride_of_one_block(case: &FaultContext<'_>) -> Option<Span> {
    let is_block_size = |e: &Expr| case.text(e).is_some_and(|text| text == "block_dim.x");
    let mut stride = None;
    visit::stmts(&case.body.root, &mut |stmt| {
        if let StmtKind::For { iter, .. } = &stmt.kind
            && case.fault.span.is_in(stmt.span)
            && let ExprKind::Range { start: Some(start), step: Some(step), .. } = &iter.kind
            && case.number(start) == Some((ThreadCount::Grid, 0))
            && is_block_size(case.definition(step))
        {
            stride = Some(step.span);
        }
    });
    stride
}

/// If the racing statement is `place = value` in `if value > place { … }`, returns the atomic operation that does both,
/// the texts of `place` and of `value`.
fn conditional_extreme(case: &FaultContext<'_>) -> Option<(&'static str, String, String)> {
    let at = case.fault.span;
    let mut found = None;
    visit::exprs(&case.body.root, &mut |e| {
        let ExprKind::If { cond, then, other: None } = &e.kind else { return };
        let ([Stmt { kind: StmtKind::Assign { place, op: None, value }, .. }], ExprKind::Binary { op, left, right }) =
            (&then.stmts[..], &cond.kind)
        else {
            return;
        };
        if place.span != at && !at.is_in(cond.span) {
            return;
        }
        let operand = |e: &Expr| case.place(e).or_else(|| case.text(e));
        let (Some(place), Some(value)) = (operand(place), operand(value)) else { return };
        let (left, right) = (operand(left), operand(right));
        let is_greater = match (left.as_ref() == Some(&value), right.as_ref() == Some(&value)) {
            (true, false) if right.as_ref() == Some(&place) => matches!(op, BinaryOp::Gt | BinaryOp::Ge),
            (false, true) if left.as_ref() == Some(&place) => matches!(op, BinaryOp::Lt | BinaryOp::Le),
            _ => return,
        };
        let is_comparison = matches!(op, BinaryOp::Gt | BinaryOp::Ge | BinaryOp::Lt | BinaryOp::Le);
        let operation = if is_greater { "atomic_max" } else { "atomic_min" };
        if is_comparison {
            found = Some((operation, place, value));
        }
    });
    found
}

/// Returns whether the statement is in a loop that could contain a barrier, and different threads access different
/// elements in the same iteration.
fn may_meet_in_loop(case: &FaultContext<'_>) -> bool {
    let enclosing = enclosing_blocks(&case.body.root, case.fault.span);
    let within = enclosing.iter().rposition(|one| one.is_loop).map_or(0, |last| last + 1);
    let uniform = !enclosing[..within].iter().any(|one| one.on.is_some_and(|on| case.varies(on)));
    let mut differs = false;
    visit::exprs(&case.body.root, &mut |e| {
        if let (true, ExprKind::Index { indices, .. }) = (e.span == case.fault.span, &e.kind) {
            differs |= indices.iter().any(|index| case.varies(index));
        }
    });
    within > 0 && uniform && differs
}

fn in_source_order(a: Span, b: Span) -> (Span, Span) {
    if a.start <= b.start { (a, b) } else { (b, a) }
}

fn same_statement(block: &Block, first: Span, second: Span) -> bool {
    block.stmts.iter().any(|stmt| first.is_in(stmt.span) && second.is_in(stmt.span))
}

/// Returns how two accesses in the body of a loop are related. A barrier in the body that is not between the two
/// separates accesses in different iterations.
fn locate_in_loop(around: &EnclosingBlock<'_>, first: Span, second: Span) -> RaceLocation {
    let stmts = &around.block.stmts;
    // Position 0 is the loop's condition; the statements and the final expression of the body follow.
    let at = |span: Span| match around.on {
        Some(on) if span.is_in(on.span) => 0,
        _ => 1 + stmts.iter().position(|stmt| span.is_in(stmt.span)).unwrap_or(stmts.len()),
    };
    let (a, b) = (at(first), at(second));
    let (before, after) = (stmts.iter().take(a.saturating_sub(1)), stmts.iter().skip(b));
    let has_outer_barrier = before.chain(after).any(is_barrier);
    let between = stmts.iter().take(b.saturating_sub(1)).skip(a).any(is_barrier);
    match (a == b, between, has_outer_barrier) {
        (true, _, true) => RaceLocation::SameStatement,
        (true, _, false) => RaceLocation::SameStatementInLoop,
        (false, true, false) => RaceLocation::DifferentIterations,
        (false, false, true) => RaceLocation::SameIteration,
        _ => RaceLocation::SameOrDifferentIterations,
    }
}

/// Returns whether every launch of the kernel has blocks of a single warp.
fn is_single_warp(case: &FaultContext<'_>) -> bool {
    let Geometry::Grid { block, .. } = &case.kernel.geometry else { return false };
    let constant = |e: &Expr| match &e.kind {
        ExprKind::Int(n) => Some(*n),
        ExprKind::Const(id) => case.program.consts.get(*id)?.const_value,
        _ => None,
    };
    let threads = block.iter().try_fold(1, |all: i128, e| all.checked_mul(constant(e)?));
    let launched = match case.extents {
        LaunchExtents::Grid { block, .. } => block.iter().map(|&n| u64::from(n)).product::<u64>(),
        LaunchExtents::Threads(_) => return false,
    };
    threads.is_some_and(|n| n <= i128::from(WARP)) && launched <= WARP
}
