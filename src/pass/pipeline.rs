//! The passes in the order they run.

use super::*;
use crate::ir::def::Module;
use crate::ir::{Checks, compact};

/// A transformation of a valid module into a valid module that does the same.
pub(crate) struct Pass {
    pub name: &'static str,
    pub run: fn(&mut Module),
}

const fn pass(name: &'static str, run: fn(&mut Module)) -> Pass {
    Pass { name, run }
}

/// Calls become the bodies they call.
const INLINE: Pass = pass("inline", inline::run);
/// The same, and spans say what called them.
const INLINE_TRACED: Pass = pass("inline", inline::run_traced);
/// Number expressions in order, each dynamic extent with its own.
const COMPACT: Pass = pass("compact", compact::compact);
/// Jumps to where control goes anyway become branches.
const STRUCTURE: Pass = pass("structure", structure::run);
/// Reads of locals become the value that is known.
const FORWARD: Pass = pass("forward", forward::run);
/// Fold constants, drop operations that do nothing.
const SIMPLIFY: Pass = pass("simplify", simplify::run);
/// Drop what nothing needs.
const DEAD: Pass = pass("dead", dead::run);
/// Small loops become their turns.
const UNROLL: Pass = pass("unroll", unroll::run);
/// Local arrays with constant indices become locals.
const SCALARISE: Pass = pass("scalarise", scalarise::run);
/// Compute and load nothing twice.
const CSE: Pass = pass("cse", cse::run);
/// Small branches become selections.
const CHOOSE: Pass = pass("choose", choose::run);
/// What a loop does not change is computed before it.
const HOIST: Pass = pass("hoist", hoist::run);
/// Small branches that no check looks at become selections.
const CHOOSE_SAFE: Pass = pass("choose", choose::run_checked);
/// The same, of what no check looks at.
const HOIST_SAFE: Pass = pass("hoist", hoist::run_checked);
/// Drop unused locals and memories, number the rest in order.
const TIDY: Pass = pass("tidy", tidy::run);

/// What every kernel goes through.
#[rustfmt::skip]
pub(crate) static STANDARD: &[Pass] = &[
    INLINE, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY, DEAD,
    // Local arrays become registers.
    UNROLL, STRUCTURE, FORWARD, SIMPLIFY, DEAD, SCALARISE, FORWARD, SIMPLIFY, CSE,
    // Values instead of branches; inner ones first, which may make outer ones small enough.
    CHOOSE, FORWARD, SIMPLIFY, DEAD, CHOOSE, FORWARD, SIMPLIFY, CSE, DEAD,
    HOIST, CSE, DEAD, TIDY,
];

/// For runs that look for the first NaN: every operation is computed where the program computes it, and nowhere else.
#[rustfmt::skip]
pub(crate) static TRAPPING: &[Pass] = &[
    INLINE_TRACED, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY, DEAD, CSE, DEAD, TIDY,
];

/// The passes for these checks.
pub(crate) fn passes(checks: Checks) -> &'static [Pass] {
    match (checks.nan, checks.any()) {
        (true, _) => TRAPPING,
        (false, true) => CHECKED,
        (false, false) => STANDARD,
    }
}

/// For runs with checks: local arrays stay arrays, whose elements may be unwritten, and nothing that a check could stop at is
/// computed where the program does not compute it.
#[rustfmt::skip]
pub(crate) static CHECKED: &[Pass] = &[
    INLINE_TRACED, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY, DEAD, CSE,
    CHOOSE_SAFE, FORWARD, SIMPLIFY, DEAD, CHOOSE_SAFE, FORWARD, SIMPLIFY, CSE, DEAD,
    HOIST_SAFE, CSE, DEAD, TIDY,
];
