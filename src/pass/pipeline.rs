//! The passes in the order they run.

use super::*;
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

/// What every kernel goes through.
#[rustfmt::skip]
pub static STANDARD: &[Pass] = &[
    pass("inline", "calls become the bodies they call", inline::run),
    pass("compact", "number expressions in order, each dynamic extent with its own", crate::ir::compact::compact),
];
