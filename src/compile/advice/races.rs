//! A race of two threads of a block: where a barrier has to be, which depends on the loop around the two accesses.

use super::case::Case;
use super::loops::{Around, around, is_barrier};
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::*;
use crate::check::walk;
use crate::device::{Deed, Extents, Race};
use crate::lang::ops::BinaryOp;

/// The threads of a warp.
const WARP: u64 = 32;

/// The general help that is replaced.
const BETWEEN: &str = "put a `barrier()` between the two";

/// What the general help says of a statement that reads and writes one place.
const AN_ATOMIC: &str = "an atomic operation, such as `atomic_add`,";
const OWN: &str = "let each thread write a place of its own";

/// Where the two accesses are, and with that where barriers have to be.
enum Place {
    /// In different statements, in one iteration of the loops around both.
    Apart,
    /// In one statement, in one iteration of the loops around it.
    One,
    /// In a loop, with a barrier between them: they are in different iterations.
    Parted,
    /// In different statements of a loop, in one iteration or in two.
    Loop,
    /// In one statement of a loop.
    OneInLoop,
}

pub(super) fn advised(case: &Case<'_>, race: &Race, mut diagnostic: Diagnostic) -> Diagnostic {
    if let Some(place) = accumulator(case) {
        for help in &mut diagnostic.help {
            *help = help.replace(AN_ATOMIC, &format!("`atomic_add({place}, …)`"));
        }
    }
    if race.same_block && diagnostic.help.iter().any(|help| help.ends_with(OWN)) && meets_in_loop(case) {
        diagnostic =
            diagnostic.help("if the two are in different iterations, put a `barrier()` at the end of the loop's body");
    }
    if !diagnostic.help.iter().any(|help| help == BETWEEN) || !case.fault.span.is_in(case.body.root.span) {
        return diagnostic;
    }
    let (first, second) = ordered(case.fault.span, race.other_span);
    let chain = around(&case.body.root, first);
    let common: Vec<&Around<'_>> = chain.iter().filter(|one| one.has(second)).collect();
    // Under a condition that differs between threads, a barrier is a mistake of its own.
    // A loop that reads the place in its condition is to go on for all of them.
    let asks = |one: &Around<'_>| one.is_loop && one.on.is_some_and(|on| first.is_in(on.span) || second.is_in(on.span));
    let varying = common.iter().position(|one| !asks(one) && one.on.is_some_and(|on| case.varies(on)));
    let reached = &common[..varying.unwrap_or(common.len())];
    let around = reached.iter().rev().find(|one| one.is_loop);
    if around.is_none() && varying.is_some() {
        diagnostic.help.clear();
        return diagnostic.help("put a `barrier()` between the two, where all threads of the block reach it");
    }
    let innermost = common.last().map_or(&case.body.root, |one| one.block);
    let place = match around {
        Some(around) => in_loop(around, first, second),
        None if same_statement(innermost, first, second) => Place::One,
        None => Place::Apart,
    };
    let Some(help) = help(case, race, &place) else { return diagnostic };
    diagnostic.help.clear();
    let Some(around) = around.filter(|_| !matches!(place, Place::Apart | Place::One)) else {
        return diagnostic.help(help);
    };
    if let Some(on) = around.on {
        diagnostic = diagnostic.because(on.span, "both are in this loop");
    }
    let before = if around.continues() { ", and one before each `continue`" } else { "" };
    diagnostic.help(format!("{help}{before}"))
}

/// `None`: the general help is right.
fn help(case: &Case<'_>, race: &Race, place: &Place) -> Option<&'static str> {
    let writes = [race.deed, race.other_deed] == [Deed::Writes; 2];
    Some(match place {
        Place::Apart if warp_is_enough(case) => "put a `barrier()` or a `warp_barrier()` between the two",
        Place::Apart => return None,
        Place::One if writes => "let each thread write elements of its own",
        Place::One => "read first, then `barrier()`, then write",
        Place::Parted => "the two are in different iterations: put a `barrier()` at the end of the loop's body",
        Place::Loop => "put a `barrier()` between the two, and one at the end of the loop's body",
        Place::OneInLoop if writes => {
            "put a `barrier()` at the end of the loop's body; in one iteration, let each thread write elements of its own"
        }
        Place::OneInLoop => {
            "put a `barrier()` at the end of the loop's body; where one iteration reads what another thread writes in it, read \
             first, then `barrier()`, then write"
        }
    })
}

/// Returns the place of the faulty `place += value`.
fn accumulator(case: &Case<'_>) -> Option<String> {
    let mut found = None;
    walk::stmts(&case.body.root, &mut |stmt| {
        if let StmtKind::Assign { place, op: Some(BinaryOp::Add), .. } = &stmt.kind
            && place.span == case.fault.span
            && matches!(place.ty, Type::Scalar(_))
        {
            found = case.place(place);
        }
    });
    found
}

/// Whether a statement is in a loop that a barrier could be in, and different threads mean different places by it.
fn meets_in_loop(case: &Case<'_>) -> bool {
    let chain = around(&case.body.root, case.fault.span);
    let within = chain.iter().rposition(|one| one.is_loop).map_or(0, |last| last + 1);
    let uniform = !chain[..within].iter().any(|one| one.on.is_some_and(|on| case.varies(on)));
    let mut differs = false;
    walk::exprs(&case.body.root, &mut |e| {
        if let (true, ExprKind::Index { indices, .. }) = (e.span == case.fault.span, &e.kind) {
            differs |= indices.iter().any(|index| case.varies(index));
        }
    });
    within > 0 && uniform && differs
}

fn ordered(a: Span, b: Span) -> (Span, Span) {
    if a.start <= b.start { (a, b) } else { (b, a) }
}

fn same_statement(block: &Block, first: Span, second: Span) -> bool {
    block.stmts.iter().any(|stmt| first.is_in(stmt.span) && second.is_in(stmt.span))
}

/// Returns where two accesses are in the body of a loop. A barrier in the body beside them keeps its iterations apart.
fn in_loop(around: &Around<'_>, first: Span, second: Span) -> Place {
    let stmts = &around.block.stmts;
    // The condition stands before all statements, at 0, the last expression of the body behind them.
    let at = |span: Span| match around.on {
        Some(on) if span.is_in(on.span) => 0,
        _ => 1 + stmts.iter().position(|stmt| span.is_in(stmt.span)).unwrap_or(stmts.len()),
    };
    let (a, b) = (at(first), at(second));
    let (before, behind) = (stmts.iter().take(a.saturating_sub(1)), stmts.iter().skip(b));
    let apart = before.chain(behind).any(is_barrier);
    let between = stmts.iter().take(b.saturating_sub(1)).skip(a).any(is_barrier);
    match (a == b, between, apart) {
        (true, _, true) => Place::One,
        (true, _, false) => Place::OneInLoop,
        (false, true, false) => Place::Parted,
        (false, false, true) => Place::Apart,
        _ => Place::Loop,
    }
}

/// Whether a block is one warp, whatever the arguments.
fn warp_is_enough(case: &Case<'_>) -> bool {
    let Geometry::Grid { block, .. } = &case.kernel.geometry else { return false };
    let constant = |e: &Expr| match &e.kind {
        ExprKind::Int(n) => Some(*n),
        ExprKind::Const(id) => case.program.consts.get(*id)?.known,
        _ => None,
    };
    let threads = block.iter().try_fold(1, |all: i128, e| all.checked_mul(constant(e)?));
    let launched = match case.extents {
        Extents::Grid { block, .. } => block.iter().map(|&n| u64::from(n)).product::<u64>(),
        Extents::Threads(_) => return false,
    };
    threads.is_some_and(|n| n <= i128::from(WARP)) && launched <= WARP
}
