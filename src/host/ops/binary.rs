//! Binary and unary operators.

use crate::array::{Array, shape_text};
use crate::graph::{self, ElementwiseOp, ExecContext, NodeOperand};
use crate::ops::elementwise::apply;
use crate::ops::matmul::matmul;
use crate::ops::operand::{ScalarOperands, undefined};
use crate::ops::text;
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::stop;
use clk_scalar::ops::{BinaryOp, UnaryOp};
use clk_scalar::{Scalar, dynamic};

/// Evaluates `left op right`, elementwise on arrays with broadcasting. `&&` and `||` evaluate both sides.
pub fn binary(exec: &ExecContext, op: BinaryOp, left: &HostValue, right: &HostValue) -> HostResult<HostValue> {
    match (op, left, right) {
        (BinaryOp::MatMul, _, _) => matmul(exec, left, right),
        (_, HostValue::Scalar(a), HostValue::Scalar(b)) => scalars(exec, op, *a, *b, left, right),
        (_, HostValue::Str(_) | HostValue::Strings(_), _) | (_, _, HostValue::Str(_) | HostValue::Strings(_)) => {
            text::binary(op, left, right)
        }
        (_, HostValue::Int(a), HostValue::Int(b)) => int_literals(op, *a, *b, left, right),
        (_, HostValue::Int(_) | HostValue::Float(_), HostValue::Int(_) | HostValue::Float(_)) => {
            float_literals(op, left, right)
        }
        (BinaryOp::Eq | BinaryOp::Ne, _, _) if is_whole(left) && is_whole(right) => equality(exec, op, left, right),
        _ => arrays(exec, op, left, right),
    }
}

fn name(op: BinaryOp) -> String {
    format!("`{}`", op.symbol())
}

fn scalars(
    exec: &ExecContext,
    op: BinaryOp,
    a: clk_scalar::ScalarValue,
    b: clk_scalar::ScalarValue,
    left: &HostValue,
    right: &HostValue,
) -> HostResult<HostValue> {
    match dynamic::binary(op, a, b) {
        Ok(result) => Ok(HostValue::Scalar(result)),
        Err(dynamic::ScalarError::DivisionByZero) => Err(division_by_zero(op, None)),
        Err(dynamic::ScalarError::Undefined) if a.ty == b.ty => Err(undefined(&name(op), &[left, right])),
        // The call returns the error for the type mismatch, with the same message as for arrays.
        Err(dynamic::ScalarError::Undefined) => arrays(exec, op, left, right),
    }
}

/// Evaluates an operation on two untyped integer literals. The result is an untyped literal too.
fn int_literals(op: BinaryOp, a: i128, b: i128, left: &HostValue, right: &HostValue) -> HostResult<HostValue> {
    use BinaryOp::*;
    let result = match op {
        Add => a.checked_add(b),
        Sub => a.checked_sub(b),
        Mul => a.checked_mul(b),
        Div | Rem if b == 0 => return Err(division_by_zero(op, None)),
        Div => a.checked_div(b),
        Rem => a.checked_rem(b),
        Pow => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
        BitAnd => Some(a & b),
        BitOr => Some(a | b),
        BitXor => Some(a ^ b),
        Shl => u32::try_from(b).ok().filter(|b| *b < 64).and_then(|b| a.checked_mul(1 << b)),
        Shr => u32::try_from(b).ok().map(|b| a >> b.min(127)),
        Eq => return Ok(HostValue::bool(a == b)),
        Ne => return Ok(HostValue::bool(a != b)),
        Lt => return Ok(HostValue::bool(a < b)),
        Le => return Ok(HostValue::bool(a <= b)),
        Gt => return Ok(HostValue::bool(a > b)),
        Ge => return Ok(HostValue::bool(a >= b)),
        And | Or | MatMul => return Err(undefined(&name(op), &[left, right])),
    };
    match result {
        Some(n) => Ok(HostValue::Int(n)),
        None => Err(RuntimeError::new("E0541", format!("{a} {} {b} is too large a number", op.symbol()))),
    }
}

fn float_literals(op: BinaryOp, left: &HostValue, right: &HostValue) -> HostResult<HostValue> {
    let wide = |value: &HostValue| value.adapt(Scalar::F64).ok_or_else(|| undefined(&name(op), &[left, right]));
    match dynamic::binary(op, wide(left)?, wide(right)?) {
        Ok(result) if result.ty == Scalar::F64 => Ok(HostValue::Float(result.as_f64())),
        Ok(result) => Ok(HostValue::Scalar(result)),
        Err(_) => Err(undefined(&name(op), &[left, right])),
    }
}

/// Returns whether `==` compares a value as a whole instead of elementwise.
fn is_whole(value: &HostValue) -> bool {
    match value {
        HostValue::Unit | HostValue::Record(_) | HostValue::Tuple(_) | HostValue::Range(_) | HostValue::Kernel(_) => {
            true
        }
        HostValue::Scalar(_) | HostValue::Int(_) | HostValue::Float(_) | HostValue::Vector(_) | HostValue::Array(_) => {
            false
        }
        HostValue::Str(_)
        | HostValue::Table(_)
        | HostValue::Strings(_)
        | HostValue::Timing(_)
        | HostValue::Traced(_) => false,
    }
}

fn equality(exec: &ExecContext, op: BinaryOp, left: &HostValue, right: &HostValue) -> HostResult<HostValue> {
    let equal = match (left, right) {
        (HostValue::Record(a), HostValue::Record(b)) if a.layout == b.layout => all_equal(exec, &a.fields, &b.fields)?,
        (HostValue::Tuple(a), HostValue::Tuple(b)) if a.len() == b.len() => all_equal(exec, a, b)?,
        (HostValue::Range(a), HostValue::Range(b)) => a == b,
        (HostValue::Kernel(a), HostValue::Kernel(b)) => a == b,
        (HostValue::Unit, HostValue::Unit) => true,
        _ => return Err(undefined(&name(op), &[left, right])),
    };
    Ok(HostValue::bool(equal == (op == BinaryOp::Eq)))
}

fn all_equal(exec: &ExecContext, a: &[HostValue], b: &[HostValue]) -> HostResult<bool> {
    let mut equal = true;
    for (a, b) in a.iter().zip(b) {
        equal &= match binary(exec, BinaryOp::Eq, a, b)? {
            HostValue::Array(parts) => parts.bytes()?.iter().all(|&byte| byte != 0),
            HostValue::Vector(v) => v.values().all(|lane| lane.is_true()),
            value => value.as_bool() == Some(true),
        };
    }
    Ok(equal)
}

const SIDES: [&str; 2] = ["the left side", "the right side"];

fn arrays(exec: &ExecContext, op: BinaryOp, left: &HostValue, right: &HostValue) -> HostResult<HostValue> {
    let amount;
    let right = match op {
        BinaryOp::Shl | BinaryOp::Shr => {
            amount = shift_amount(exec, op, left, right)?;
            &amount
        }
        _ => right,
    };
    let operands = ScalarOperands::new(&[left, right], &name(op))?;
    let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem) && operands.scalar.is_int();
    if divides && matches!(operands.list[..], [_, NodeOperand::Scalar(divisor)] if divisor.bits == 0) {
        // If the other operand is empty, there is no division, and zeros in the divisor are allowed.
        if operands.list.iter().all(|operand| !operand.shape().contains(&0)) {
            return Err(division_by_zero(op, None));
        }
    }
    let result = apply(exec, ElementwiseOp::Binary(op), operands, &SIDES, || undefined(&name(op), &[left, right]));
    result.map_err(|problem| match right {
        HostValue::Array(divisor) if divides && problem.code == graph::DIVISION_BY_ZERO => {
            first_zero(op, divisor).unwrap_or(problem)
        }
        HostValue::Vector(_) if divides && problem.code == graph::DIVISION_BY_ZERO => division_by_zero(op, None),
        _ => problem,
    })
}

/// Returns the error for the first element of the divisor that is 0.
fn first_zero(op: BinaryOp, divisor: &Array) -> Option<RuntimeError> {
    let size = divisor.scalar()?.size();
    let mut divisors = stop::polled(divisor.bytes().ok()?.chunks_exact(size));
    let position = divisors.position(|bytes| bytes.iter().all(|&byte| byte == 0))?;
    Some(division_by_zero(op, Some((divisor, position / divisor.element().lanes().max(1)))))
}

/// Converts the amount of a shift, which may have any integer type, to the type of the left operand. Only its low bits
/// affect the result.
fn shift_amount(exec: &ExecContext, op: BinaryOp, left: &HostValue, right: &HostValue) -> HostResult<HostValue> {
    let scalar = |value: &HostValue| super::operand::common_scalar(&[value]);
    match (scalar(left), scalar(right)) {
        (Some(to), Some(from)) if to.is_int() && from.is_int() => super::convert(exec, to, right),
        (Some(to), None) if to.is_int() => match right {
            HostValue::Int(n) => Ok(HostValue::Scalar(clk_scalar::ScalarValue::of(*n as i64).to_type(to))),
            _ => Err(undefined(&name(op), &[left, right])),
        },
        (None, Some(from)) if from.is_int() => Ok(right.clone()),
        _ => Err(undefined(&name(op), &[left, right])),
    }
}

fn division_by_zero(op: BinaryOp, place: Option<(&Array, usize)>) -> RuntimeError {
    let operation = if op == BinaryOp::Rem { "remainder of a division" } else { "division" };
    let problem = RuntimeError::new("E0506", format!("integer {operation} by zero"));
    match place {
        Some((divisor, position)) if divisor.rank() > 0 => {
            let place = index_text(divisor.shape(), position);
            problem.label(format!("element {place} of the right side is 0"))
        }
        _ => problem.label("the right side is 0"),
    }
}

/// Formats a row-major position as indices: `[1, 2]`.
pub(crate) fn index_text(shape: &[usize], position: usize) -> String {
    let mut rest = position;
    let mut indices: Vec<usize> = Vec::with_capacity(shape.len());
    for &len in shape.iter().rev() {
        indices.push(rest % len.max(1));
        rest /= len.max(1);
    }
    indices.reverse();
    let text = shape_text(&indices);
    format!("[{}]", text.trim_matches(['(', ')', ',']))
}

/// Evaluates `-x` or `!x`, elementwise.
pub fn unary(exec: &ExecContext, op: UnaryOp, value: &HostValue) -> HostResult<HostValue> {
    let symbol = match op {
        UnaryOp::Neg => "`-`",
        UnaryOp::Not => "`!`",
    };
    match (op, value) {
        (UnaryOp::Neg, HostValue::Int(n)) => return Ok(HostValue::Int(n.wrapping_neg())),
        (UnaryOp::Not, HostValue::Int(n)) => return Ok(HostValue::Int(!n)),
        (UnaryOp::Neg, HostValue::Float(x)) => return Ok(HostValue::Float(-x)),
        _ => {}
    }
    let operands = ScalarOperands::new(&[value], symbol)?;
    apply(exec, ElementwiseOp::Unary(op), operands, &["the operand"], || undefined(symbol, &[value]))
}
