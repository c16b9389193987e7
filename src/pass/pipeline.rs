//! The pass pipelines.

use super::*;
use clk_ir::def::Module;
use clk_ir::{Checks, renumber};

/// A pass: transforms a valid module into an equivalent valid module.
pub(crate) struct Pass {
    pub name: &'static str,
    pub run: fn(&mut Module),
}

const fn pass(name: &'static str, run: fn(&mut Module)) -> Pass {
    Pass { name, run }
}

/// Replaces calls by the bodies of the callees.
const INLINE: Pass = pass("inline", inline::run);
/// Like `INLINE`, but spans also identify the inlined call.
const INLINE_TRACED: Pass = pass("inline", inline::run_traced);
/// Renumbers expressions canonically, and removes unused ones.
const COMPACT: Pass = pass("compact", renumber::compact);
/// Removes jumps to a point that execution reaches anyway at the end of the branch.
const STRUCTURE: Pass = pass("structure", structurize::run);
/// Replaces reads of locals by known values.
const FORWARD: Pass = pass("forward", forward_locals::run);
/// Folds constants and removes operations without effect.
const SIMPLIFY: Pass = pass("simplify", simplify::run);
/// Removes the markers of values that derivatives treat as constants (`no_grad`).
const RELEASE: Pass = pass("release", simplify::drop_gradient_barriers);
/// Removes dead code.
const DEAD: Pass = pass("dead", dead_code::run);
/// Removes dead code, including operations that may fault. For kernels that repeat operations of a previously executed
/// kernel.
const DEAD_REPEATED: Pass = pass("dead", dead_code::run_for_recomputation);
/// Unrolls small loops.
const UNROLL: Pass = pass("unroll", unroll::run);
/// Replaces local arrays with constant indices by locals.
const SCALARIZE: Pass = pass("scalarize", scalarize::run);
/// Eliminates common subexpressions and repeated loads.
const CSE: Pass = pass("cse", cse::run);
/// Like `CSE`, but keeps loads of values that the thread has just stored, because they may be races.
const CSE_SAFE: Pass = pass("cse", cse::run_checked);
/// Converts small branches to selects.
const IF_CONVERT: Pass = pass("if_convert", if_convert::run);
/// Hoists loop-invariant expressions.
const HOIST: Pass = pass("hoist", hoist::run);
/// Like `IF_CONVERT`, but only for branches without operations that checks may report.
const IF_CONVERT_SAFE: Pass = pass("if_convert", if_convert::run_checked);
/// Like `HOIST`, but only for expressions that checks cannot report.
const HOIST_SAFE: Pass = pass("hoist", hoist::run_checked);
/// Like `SIMPLIFY`, but does not fold operations on constants that checks report.
const SIMPLIFY_SAFE: Pass = pass("simplify", simplify::run_checked);
/// Like `SIMPLIFY_SAFE`, but also does not fold operations on constants that result in a NaN or an infinity.
const SIMPLIFY_TRAPPING: Pass = pass("simplify", simplify::run_trapping);
/// Like `DEAD`, but keeps unused operations that checks may report.
const DEAD_SAFE: Pass = pass("dead", dead_code::run_checked);
/// Like `DEAD_SAFE`, but also keeps unused operations on floats.
const DEAD_TRAPPING: Pass = pass("dead", dead_code::run_trapping);
/// Removes unused locals and memories and renumbers the rest.
const TIDY: Pass = pass("tidy", remove_unused::run);

/// The pipeline for launches without checks.
#[rustfmt::skip]
pub(crate) static STANDARD: &[Pass] = &[
    INLINE, RELEASE, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY, DEAD,
    // Moves local arrays to registers.
    UNROLL, STRUCTURE, FORWARD, SIMPLIFY, DEAD, SCALARIZE, FORWARD, SIMPLIFY, CSE,
    // If-conversion. The first run converts inner branches, which may make outer ones small enough for the second run.
    IF_CONVERT, FORWARD, SIMPLIFY, DEAD, IF_CONVERT, FORWARD, SIMPLIFY, CSE, DEAD,
    HOIST, CSE, DEAD, TIDY,
];

/// The pipeline for launches that stop at the first NaN. No operation is moved or removed that may produce a NaN.
#[rustfmt::skip]
pub(crate) static TRAPPING: &[Pass] = &[
    INLINE_TRACED, RELEASE, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY_TRAPPING, DEAD_TRAPPING, CSE_SAFE, DEAD_TRAPPING, TIDY,
];

/// Returns the pipeline for these checks.
pub(crate) fn passes(checks: Checks) -> &'static [Pass] {
    match (checks.nan, checks.any()) {
        (true, _) => TRAPPING,
        (false, true) => CHECKED,
        (false, false) => STANDARD,
    }
}

/// The pipeline for launches with checks. Local arrays are not replaced by locals, because checks report reads of
/// unwritten elements. No operation that a check may report is moved to a point where the program would not execute it.
#[rustfmt::skip]
pub(crate) static CHECKED: &[Pass] = &[
    INLINE_TRACED, RELEASE, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY_SAFE, DEAD_SAFE, CSE_SAFE,
    IF_CONVERT_SAFE, FORWARD, SIMPLIFY_SAFE, DEAD_SAFE, IF_CONVERT_SAFE, FORWARD, SIMPLIFY_SAFE, CSE_SAFE, DEAD_SAFE,
    HOIST_SAFE, CSE_SAFE, DEAD_SAFE, TIDY,
];

/// The pipeline before differentiation: all calls are inlined, and most jumps and locals are removed.
#[rustfmt::skip]
pub(crate) static DERIVED: &[Pass] = &[
    INLINE, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY, DEAD,
    UNROLL, STRUCTURE, FORWARD, SIMPLIFY, DEAD, SCALARIZE, FORWARD, SIMPLIFY, CSE, DEAD, TIDY,
];

/// The pipeline for separate adjoint kernels, which repeat operations of another kernel: removes the operations that
/// they do not need.
#[rustfmt::skip]
pub(crate) static REPEATED: &[Pass] = &[
    INLINE, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY, DEAD_REPEATED,
    UNROLL, STRUCTURE, FORWARD, SIMPLIFY, DEAD_REPEATED, SCALARIZE, FORWARD, SIMPLIFY, CSE, DEAD_REPEATED, TIDY,
];

/// The pipeline for a kernel that is printed as source.
#[rustfmt::skip]
pub(crate) static READABLE: &[Pass] = &[COMPACT, STRUCTURE, FORWARD, SIMPLIFY, DEAD, CSE, DEAD, TIDY];
