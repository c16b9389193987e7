//! The passes in the order they run.

use super::*;
use crate::ir::def::Module;
use crate::ir::{Checks, compact};

/// A transformation of a valid module into a valid module that does the same.
pub struct Pass {
    pub name: &'static str,
    pub about: &'static str,
    pub run: fn(&mut Module),
}

const fn pass(name: &'static str, about: &'static str, run: fn(&mut Module)) -> Pass {
    Pass { name, about, run }
}

const INLINE: Pass = pass("inline", "calls become the bodies they call", inline::run);
const INLINE_TRACED: Pass = pass("inline", "the same, and spans say what called them", inline::run_traced);
const COMPACT: Pass =
    pass("compact", "number expressions in order, each dynamic extent with its own", compact::compact);
const STRUCTURE: Pass = pass("structure", "jumps to where control goes anyway become branches", structure::run);
const FORWARD: Pass = pass("forward", "reads of locals become the value that is known", forward::run);
const SIMPLIFY: Pass = pass("simplify", "fold constants, drop operations that do nothing", simplify::run);
const DEAD: Pass = pass("dead", "drop what nothing needs", dead::run);
const UNROLL: Pass = pass("unroll", "small loops become their turns", unroll::run);
const SCALARISE: Pass = pass("scalarise", "local arrays with constant indices become locals", scalarise::run);
const CSE: Pass = pass("cse", "compute and load nothing twice", cse::run);
const CHOOSE: Pass = pass("choose", "small branches become selections", choose::run);
const HOIST: Pass = pass("hoist", "what a loop does not change is computed before it", hoist::run);
const CHOOSE_SAFE: Pass =
    pass("choose", "small branches that no check looks at become selections", choose::run_checked);
const HOIST_SAFE: Pass = pass("hoist", "the same, of what no check looks at", hoist::run_checked);
const TIDY: Pass = pass("tidy", "drop unused locals and memories, number the rest in order", tidy::run);

/// What every kernel goes through.
#[rustfmt::skip]
pub static STANDARD: &[Pass] = &[
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
pub static TRAPPING: &[Pass] = &[
    INLINE_TRACED, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY, DEAD, CSE, DEAD, TIDY,
];

/// The passes for these checks.
pub fn passes(checks: Checks) -> &'static [Pass] {
    match (checks.nan, checks.any()) {
        (true, _) => TRAPPING,
        (false, true) => CHECKED,
        (false, false) => STANDARD,
    }
}

/// For runs with checks: local arrays stay arrays, whose elements may be unwritten, and nothing that a check could stop at is
/// computed where the program does not compute it.
#[rustfmt::skip]
pub static CHECKED: &[Pass] = &[
    INLINE_TRACED, COMPACT, STRUCTURE,
    FORWARD, SIMPLIFY, DEAD, CSE,
    CHOOSE_SAFE, FORWARD, SIMPLIFY, DEAD, CHOOSE_SAFE, FORWARD, SIMPLIFY, CSE, DEAD,
    HOIST_SAFE, CSE, DEAD, TIDY,
];
