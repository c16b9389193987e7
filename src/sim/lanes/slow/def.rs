//! Description of an operation without a specialized loop.

use crate::register_ids::Reg;
use clk_scalar::Scalar;
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};

/// An operation, without operands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SlowOp {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Math(MathFn),
    Convert,
    Bitcast,
}

/// An operation with its operands and its result type.
#[derive(Clone, Debug)]
pub(crate) struct SlowDef {
    pub function: SlowOp,
    pub args: Vec<(Reg, Scalar)>,
    pub out: Scalar,
}
