//! Differences of scalars between two executions of the same instructions, such as consecutive blocks or iterations.
//!
//! Input: an instruction, and the differences of its operands. Output: the difference of its result, an affine form of
//! values that are equal in both executions. Only prefetches use it, so a wrong difference costs only time.

use clk_base::affine::Affine;

use crate::lir::{LaneBinOp, LaneElem, LaneInst, LaneOp, LaneValue};

/// The difference of a scalar, in terms of values of the setup.
pub(crate) type ScalarDifference = Affine<LaneValue>;

/// Returns the difference of an instruction's result; `None` if it is unknown. `difference` returns the difference of
/// an operand. `value` returns an operand that is equal in both executions as an affine form, if the form is known.
pub(super) fn result_difference(
    inst: &LaneInst,
    difference: &dyn Fn(LaneValue) -> Option<ScalarDifference>,
    value: &dyn Fn(LaneValue) -> Option<Affine<LaneValue>>,
) -> Option<ScalarDifference> {
    let [a, b, c] = inst.args;
    match inst.op {
        LaneOp::Const(_) | LaneOp::Coord(_) => Some(Affine::from(0)),
        LaneOp::Sext | LaneOp::Zext | LaneOp::Trunc | LaneOp::Move => difference(a),
        LaneOp::SelectScalar => difference(b).filter(|then| difference(c).as_ref() == Some(then)),
        LaneOp::Scalar(bin, elem) => {
            let (x, y) = (difference(a)?, difference(b)?);
            let is_equal = |difference: &ScalarDifference| difference.as_constant() == Some(0);
            // The code for a prefetch multiplies by 64-bit values only.
            let factor = |of| value(of).filter(|by| elem == LaneElem::I64 || by.as_constant().is_some());
            match bin {
                _ if is_equal(&x) && is_equal(&y) => Some(x),
                LaneBinOp::Add => x.add(&y),
                LaneBinOp::Sub => x.sub(&y),
                LaneBinOp::Mul if is_equal(&y) => x.multiply(&factor(b)?, |_, _| None),
                LaneBinOp::Mul if is_equal(&x) => y.multiply(&factor(a)?, |_, _| None),
                LaneBinOp::Shl => {
                    let count = value(b)?.as_constant().filter(|count| (0..32).contains(count))?;
                    x.scale(1 << count)
                }
                _ => None,
            }
        }
        _ => None,
    }
}
