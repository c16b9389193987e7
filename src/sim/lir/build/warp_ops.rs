//! Builds warp operations in which all lanes of a warp participate.
//!
//! Input: the statement. Output: [`LaneOp::Warp`] for each component of the value. The interpreter handles warp
//! operations that name the participating lanes, and all warp operations of kernels with `--check` or `--trap-nan`.

use super::*;
use clk_scalar::ops::WarpOp;

impl RegionBuilder<'_> {
    pub(super) fn warp(&mut self, op: WarpOp, value: ExprId, lane: Option<ExprId>, result: ExprId) -> Option<()> {
        if self.outside.guards.memory || self.outside.guards.arithmetic || self.outside.guards.nan {
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
        let mut results = vec![];
        for value in self.operand(value)? {
            results.push(match op {
                WarpOp::Ballot | WarpOp::Any | WarpOp::All => {
                    let holds = self.mask_of(&value)?;
                    self.vote(op, holds)
                }
                _ => {
                    let elem = LaneElem::from_scalar(scalar)?;
                    let ty = if op == WarpOp::MatchAny { LaneTy::V32 } else { elem.vector_ty() };
                    let value = self.vector(&value, scalar);
                    let args: Vec<LaneValue> = std::iter::once(value).chain(lane).collect();
                    ComponentValue::Vector(self.result_under(LaneOp::Warp(op, elem), ty, &args, self.flow.mask))
                }
            });
        }
        self.values.insert(result, results);
        Some(())
    }

    fn vote(&mut self, op: WarpOp, holds: LaneValue) -> ComponentValue {
        let op_of = LaneOp::Warp(op, LaneElem::U32);
        match op {
            WarpOp::Ballot => ComponentValue::Vector(self.result_under(op_of, LaneTy::V32, &[holds], self.flow.mask)),
            _ => ComponentValue::Mask(self.result_under(op_of, LaneTy::Mask, &[holds], self.flow.mask)),
        }
    }
}
