//! The pass pipelines.

use super::*;
use crate::ir::def::Module;
use crate::ir::{Checks, compact};

/// A transformation of a valid module into an equivalent valid module.
pub(crate) struct Pass {
    pub name: &'static str,
    pub run: fn(&mut Module),
}

const fn pass(name: &'static str, run: fn(&mut Module)) -> Pass {
    Pass { name, run }
}

/// Replaces calls by the bodies of the callees.
const INLINE: Pass = pass("inline", inline::run);
/// The same, with spans that record the call.
const INLINE_TRACED: Pass = pass("inline", inline::run_traced);
/// Renumbers expressions canonically, with separate trees for dynamic extents.
const COMPACT: Pass = pass("compact", compact::compact);
/// Replaces jumps to where control continues anyway by branches.
const STRUCTURE: Pass = pass("structure", structure::run);
/// Replaces reads of locals by known values.
const FORWARD: Pass = pass("forward", forward::run);
/// Folds constants and removes operations without effect.
const SIMPLIFY: Pass = pass("simplify", simplify::run);
/// Forgets what derivatives take as constants.
const RELEASE: Pass = pass("release", simplify::release);
/// Removes dead code.
const DEAD: Pass = pass("dead", dead::run);
/// Removes dead code, also what may fault elsewhere.
const DEAD_REPEATED: Pass = pass("dead", dead::run_repeated);
/// Unrolls small loops.
const UNROLL: Pass = pass("unroll", unroll::run);
/// Replaces local arrays with constant indices by locals.
const SCALARIZE: Pass = pass("scalarize", scalarize::run);
/// Eliminates common subexpressions and repeated loads.
const CSE: Pass = pass("cse", cse::run);
/// As `CSE`, but loads of what the thread has stored stay: they may race.
const CSE_SAFE: Pass = pass("cse", cse::run_checked);
/// Converts small branches to selects.
const IF_CONVERT: Pass = pass("if_convert", if_convert::run);
/// Hoists loop-invariant expressions.
const HOIST: Pass = pass("hoist", hoist::run);
/// As `IF_CONVERT`, for branches without operations that checks observe.
const IF_CONVERT_SAFE: Pass = pass("if_convert", if_convert::run_checked);
/// As `HOIST`, for expressions without operations that checks observe.
const HOIST_SAFE: Pass = pass("hoist", hoist::run_checked);
/// As `SIMPLIFY`, but operations on constants that checks report stay.
const SIMPLIFY_SAFE: Pass = pass("simplify", simplify::run_checked);
/// Like `SIMPLIFY_SAFE`, but also keeps operations on constants that give a NaN or an infinity.
const SIMPLIFY_TRAPPING: Pass = pass("simplify", simplify::run_trapping);
/// Like `DEAD`, but keeps unused operations that checks report.
const DEAD_SAFE: Pass = pass("dead", dead::run_checked);
/// Like `DEAD_SAFE`, but also keeps unused operations on floats.
const DEAD_TRAPPING: Pass = pass("dead", dead::run_trapping);
/// Removes unused locals and memories and renumbers the rest.
const TIDY: Pass = pass("tidy", tidy::run);

/// The pipeline for runs without checks.
#[rustfmt::skip]
pub(crate) static STANDARD: &[Pass] = &[
    INLINE, RELEASE, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY, DEAD,
    // Local arrays become registers.
    UNROLL, STRUCTURE, FORWARD, SIMPLIFY, DEAD, SCALARIZE, FORWARD, SIMPLIFY, CSE,
    // If-conversion; inner branches first, which may make outer ones small enough.
    IF_CONVERT, FORWARD, SIMPLIFY, DEAD, IF_CONVERT, FORWARD, SIMPLIFY, CSE, DEAD,
    HOIST, CSE, DEAD, TIDY,
];

/// The pipeline for runs that trap the first NaN: every operation is computed exactly where the program computes it.
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

/// The pipeline for runs with checks: local arrays stay arrays, whose elements may be unwritten, and no operation at which a
/// check could stop is computed where the program does not compute it.
#[rustfmt::skip]
pub(crate) static CHECKED: &[Pass] = &[
    INLINE_TRACED, RELEASE, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY_SAFE, DEAD_SAFE, CSE_SAFE,
    IF_CONVERT_SAFE, FORWARD, SIMPLIFY_SAFE, DEAD_SAFE, IF_CONVERT_SAFE, FORWARD, SIMPLIFY_SAFE, CSE_SAFE, DEAD_SAFE,
    HOIST_SAFE, CSE_SAFE, DEAD_SAFE, TIDY,
];

/// The pipeline before a derivative is taken: one function, few jumps, few locals.
#[rustfmt::skip]
pub(crate) static DERIVED: &[Pass] = &[
    INLINE, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY, DEAD,
    UNROLL, STRUCTURE, FORWARD, SIMPLIFY, DEAD, SCALARIZE, FORWARD, SIMPLIFY, CSE, DEAD, TIDY,
];

/// The same for what a derivative computes apart: of operations that another kernel has done, only what is needed.
#[rustfmt::skip]
pub(crate) static REPEATED: &[Pass] = &[
    INLINE, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY, DEAD_REPEATED,
    UNROLL, STRUCTURE, FORWARD, SIMPLIFY, DEAD_REPEATED, SCALARIZE, FORWARD, SIMPLIFY, CSE, DEAD_REPEATED, TIDY,
];

/// The pipeline of a kernel that is printed as source.
#[rustfmt::skip]
pub(crate) static READABLE: &[Pass] = &[COMPACT, STRUCTURE, FORWARD, SIMPLIFY, DEAD, CSE, DEAD, TIDY];
