//! Control flow of compiled code: the rules for jumps, and the successors of an op.

use super::registers::{CodeVerifier, VerifyResult};
use crate::op_shape::{OpFlow, OperandRole};
use crate::rule_violation::violation;
use crate::strip::TURNS;

impl CodeVerifier<'_> {
    pub fn target(&self, number: u32, at: usize) -> VerifyResult {
        let body = self.code.body..self.ops.len() as u32;
        match (at as u32) < self.code.body {
            true => Err(violation("C3 flow", "a jump of the prologue")),
            false if body.contains(&number) => Ok(()),
            false => Err(violation("C3 flow", format!("a jump to {number}"))),
        }
    }

    pub fn flow(&self, at: usize) -> VerifyResult {
        let last = match self.shapes[at].flow {
            OpFlow::Next => at + 1,
            OpFlow::Skip => at + 2,
            OpFlow::Jump | OpFlow::End => at,
        };
        match last < self.ops.len() {
            true => Ok(()),
            false => Err(violation("C3 flow", "there is no op after it")),
        }
    }

    /// Returns the positions of an op's possible successors.
    pub fn next(&self, at: usize) -> impl Iterator<Item = usize> {
        let (op, shape) = (self.ops[at], self.shapes[at]);
        let successors = match shape.flow {
            OpFlow::Next => at + 1..at + 2,
            OpFlow::Skip => at + 1..at + 3,
            OpFlow::Jump | OpFlow::End => 0..0,
        };
        let jumps = shape.x == OperandRole::Target || shape.name == "strip" && self.jumps(at);
        successors.chain(jumps.then_some(op.x as usize))
    }

    /// Returns whether a strip contains an operation that may jump.
    pub fn jumps(&self, at: usize) -> bool {
        let op = self.ops[at];
        op.c == TURNS || self.code.strips.get(op.y as usize).is_some_and(|def| def.kept.is_some())
    }
}
