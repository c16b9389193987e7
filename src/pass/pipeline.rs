//! The passes in the order they run.

use super::*;
use crate::ir::compact;
use crate::ir::def::Module;

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
