//! Where control goes: the rules for jumps, and the positions behind an op.

use super::base::{Verdict, Verifier};
use crate::device::sim::shape::{Flow, Word};
use crate::device::sim::strip::TURNS;

impl Verifier<'_> {
    pub fn target(&self, number: u32, at: usize) -> Verdict {
        let body = self.code.body..self.ops.len() as u32;
        match (at as u32) < self.code.body {
            true => Err("C3 flow: a jump of the prologue".into()),
            false if body.contains(&number) => Ok(()),
            false => Err(format!("C3 flow: a jump to {number}")),
        }
    }

    pub fn flow(&self, at: usize) -> Verdict {
        let last = match self.shapes[at].flow {
            Flow::Next => at + 1,
            Flow::Skip => at + 2,
            Flow::Jump | Flow::End => at,
        };
        match last < self.ops.len() {
            true => Ok(()),
            false => Err("C3 flow: there is no op behind it".into()),
        }
    }

    /// Returns the positions that an op may be followed by.
    pub fn next(&self, at: usize) -> impl Iterator<Item = usize> {
        let (op, shape) = (self.ops[at], self.shapes[at]);
        let behind = match shape.flow {
            Flow::Next => at + 1..at + 2,
            Flow::Skip => at + 1..at + 3,
            Flow::Jump | Flow::End => 0..0,
        };
        let jumps = shape.x == Word::Target || shape.name == "strip" && self.jumps(at);
        behind.chain(jumps.then_some(op.x as usize))
    }

    /// Returns whether a strip jumps.
    pub fn jumps(&self, at: usize) -> bool {
        let op = self.ops[at];
        op.c == TURNS || self.code.strips.get(op.y as usize).is_some_and(|def| def.kept.is_some())
    }
}
