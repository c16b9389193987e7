//! Operations among the lanes of a warp, for all of its lanes.
//!
//! Input: the statement. Output: [`Op::Warp`] for each component of the value. Those that name the lanes that take part, and those
//! whose lanes are checked, are the interpreter's.

use super::*;
use crate::lang::ops::WarpOp;

impl Builder<'_> {
    pub(super) fn warp(&mut self, op: WarpOp, value: ExprId, lane: Option<ExprId>, result: ExprId) -> Option<()> {
        if self.guards.memory || self.guards.arithmetic || self.guards.nan {
            return None;
        }
        let scalar = self.f.exprs[value].ty.scalar();
        let lane = match lane {
            Some(lane) => {
                let of = self.f.exprs[lane].ty.scalar();
                let amount = self.operand(lane)?.into_iter().next()?;
                Some(self.vector(&amount, of))
            }
            None => None,
        };
        let mut found = vec![];
        for value in self.operand(value)? {
            found.push(match op {
                WarpOp::Ballot | WarpOp::Any | WarpOp::All => {
                    let holds = self.mask_of(&value)?;
                    self.vote(op, holds)
                }
                _ => {
                    let elem = Elem::of(scalar)?;
                    let ty = if op == WarpOp::MatchAny { Ty::V32 } else { elem.vector() };
                    let value = self.vector(&value, scalar);
                    let args: Vec<Value> = std::iter::once(value).chain(lane).collect();
                    Lane::Vector(self.result_under(Op::Warp(op, elem), ty, &args, self.mask))
                }
            });
        }
        self.values.insert(result, found);
        Some(())
    }

    fn vote(&mut self, op: WarpOp, holds: Value) -> Lane {
        let op_of = Op::Warp(op, Elem::U32);
        match op {
            WarpOp::Ballot => Lane::Vector(self.result_under(op_of, Ty::V32, &[holds], self.mask)),
            _ => Lane::Mask(self.result_under(op_of, Ty::Mask, &[holds], self.mask)),
        }
    }
}
