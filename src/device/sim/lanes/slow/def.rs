//! Description of an operation without a specialized loop.

use crate::device::sim::reg::Reg;
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::Scalar;

/// An operation, without operands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Math(MathFn),
    Convert,
    Bitcast,
}

/// An operation with its operands and its result type.
#[derive(Clone, Debug)]
pub(crate) struct SlowDef {
    pub function: Function,
    pub args: Vec<(Reg, Scalar)>,
    pub out: Scalar,
}
