//! Binary and unary operators.

use crate::base::stop;
use crate::host::array::{Array, shape_text};
use crate::host::graph::{self, Op, Operand};
use crate::host::ops::elementwise::apply;
use crate::host::ops::matmul::matmul;
use crate::host::ops::operand::{Operands, undefined};
use crate::host::ops::text;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar::{self, Scalar, dynamic};

/// Evaluates `left op right`, elementwise on arrays with broadcasting. `&&` and `||` evaluate both sides.
pub fn binary(op: BinaryOp, left: &Value, right: &Value) -> Outcome<Value> {
    match (op, left, right) {
        (BinaryOp::MatMul, _, _) => matmul(left, right),
        (_, Value::Scalar(a), Value::Scalar(b)) => scalars(op, *a, *b, left, right),
        (_, Value::Str(_) | Value::Strings(_), _) | (_, _, Value::Str(_) | Value::Strings(_)) => {
            text::binary(op, left, right)
        }
        (_, Value::Int(a), Value::Int(b)) => int_literals(op, *a, *b, left, right),
        (_, Value::Int(_) | Value::Float(_), Value::Int(_) | Value::Float(_)) => float_literals(op, left, right),
        (BinaryOp::Eq | BinaryOp::Ne, _, _) if is_whole(left) && is_whole(right) => equality(op, left, right),
        _ => arrays(op, left, right),
    }
}

fn name(op: BinaryOp) -> String {
    format!("`{}`", op.symbol())
}

fn scalars(op: BinaryOp, a: scalar::Value, b: scalar::Value, left: &Value, right: &Value) -> Outcome<Value> {
    match dynamic::binary(op, a, b) {
        Ok(result) => Ok(Value::Scalar(result)),
        Err(dynamic::Failure::DivisionByZero) => Err(division_by_zero(op, None)),
        Err(dynamic::Failure::Undefined) if a.ty == b.ty => Err(undefined(&name(op), &[left, right])),
        // Reports a type mismatch by the same message as for arrays.
        Err(dynamic::Failure::Undefined) => arrays(op, left, right),
    }
}

/// Operations on two untyped literals give an untyped literal.
fn int_literals(op: BinaryOp, a: i128, b: i128, left: &Value, right: &Value) -> Outcome<Value> {
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
        Eq => return Ok(Value::bool(a == b)),
        Ne => return Ok(Value::bool(a != b)),
        Lt => return Ok(Value::bool(a < b)),
        Le => return Ok(Value::bool(a <= b)),
        Gt => return Ok(Value::bool(a > b)),
        Ge => return Ok(Value::bool(a >= b)),
        And | Or | MatMul => return Err(undefined(&name(op), &[left, right])),
    };
    match result {
        Some(n) => Ok(Value::Int(n)),
        None => Err(Problem::new("E0541", format!("{a} {} {b} is too large a number", op.symbol()))),
    }
}

fn float_literals(op: BinaryOp, left: &Value, right: &Value) -> Outcome<Value> {
    let wide = |value: &Value| value.adapt(Scalar::F64).ok_or_else(|| undefined(&name(op), &[left, right]));
    match dynamic::binary(op, wide(left)?, wide(right)?) {
        Ok(result) if result.ty == Scalar::F64 => Ok(Value::Float(result.as_f64())),
        Ok(result) => Ok(Value::Scalar(result)),
        Err(_) => Err(undefined(&name(op), &[left, right])),
    }
}

/// Whether a value is compared as a whole rather than elementwise.
fn is_whole(value: &Value) -> bool {
    match value {
        Value::Unit | Value::Record(_) | Value::Tuple(_) | Value::Range(_) | Value::Kernel(_) => true,
        Value::Scalar(_) | Value::Int(_) | Value::Float(_) | Value::Vector(_) | Value::Array(_) => false,
        Value::Str(_) | Value::Table(_) | Value::Strings(_) | Value::Timing(_) | Value::Traced(_) => false,
    }
}

fn equality(op: BinaryOp, left: &Value, right: &Value) -> Outcome<Value> {
    let equal = match (left, right) {
        (Value::Record(a), Value::Record(b)) if a.layout == b.layout => all_equal(&a.fields, &b.fields)?,
        (Value::Tuple(a), Value::Tuple(b)) if a.len() == b.len() => all_equal(a, b)?,
        (Value::Range(a), Value::Range(b)) => a == b,
        (Value::Kernel(a), Value::Kernel(b)) => a == b,
        (Value::Unit, Value::Unit) => true,
        _ => return Err(undefined(&name(op), &[left, right])),
    };
    Ok(Value::bool(equal == (op == BinaryOp::Eq)))
}

fn all_equal(a: &[Value], b: &[Value]) -> Outcome<bool> {
    let mut equal = true;
    for (a, b) in a.iter().zip(b) {
        equal &= match binary(BinaryOp::Eq, a, b)? {
            Value::Array(parts) => parts.bytes()?.iter().all(|&byte| byte != 0),
            Value::Vector(v) => v.values().all(|lane| lane.is_true()),
            value => value.as_bool() == Some(true),
        };
    }
    Ok(equal)
}

const SIDES: [&str; 2] = ["the left side", "the right side"];

fn arrays(op: BinaryOp, left: &Value, right: &Value) -> Outcome<Value> {
    let amount;
    let right = match op {
        BinaryOp::Shl | BinaryOp::Shr => {
            amount = shift_amount(op, left, right)?;
            &amount
        }
        _ => right,
    };
    let operands = Operands::new(&[left, right], &name(op))?;
    let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem) && operands.scalar.is_int();
    if divides && matches!(operands.list[..], [_, Operand::Scalar(divisor)] if divisor.bits == 0) {
        // There is nothing to divide where the other side is empty.
        if operands.list.iter().all(|operand| !operand.shape().contains(&0)) {
            return Err(division_by_zero(op, None));
        }
    }
    let result = apply(Op::Binary(op), operands, &SIDES, || undefined(&name(op), &[left, right]));
    result.map_err(|problem| match right {
        Value::Array(divisor) if divides && problem.code == graph::ZERO => first_zero(op, divisor).unwrap_or(problem),
        Value::Vector(_) if divides && problem.code == graph::ZERO => division_by_zero(op, None),
        _ => problem,
    })
}

/// Returns the error for the first divisor that is 0.
fn first_zero(op: BinaryOp, divisor: &Array) -> Option<Problem> {
    let size = divisor.scalar()?.size();
    let mut divisors = stop::polled(divisor.bytes().ok()?.chunks_exact(size));
    let position = divisors.position(|bytes| bytes.iter().all(|&byte| byte == 0))?;
    Some(division_by_zero(op, Some((divisor, position / divisor.element().lanes().max(1)))))
}

/// Evaluates a shift. The amount may be of any integer type; only its low bits count.
fn shift_amount(op: BinaryOp, left: &Value, right: &Value) -> Outcome<Value> {
    let scalar = |value: &Value| super::operand::common_scalar(&[value]);
    match (scalar(left), scalar(right)) {
        (Some(to), Some(from)) if to.is_int() && from.is_int() => super::convert(to, right),
        (Some(to), None) if to.is_int() => match right {
            Value::Int(n) => Ok(Value::Scalar(scalar::Value::of(*n as i64).to_type(to))),
            _ => Err(undefined(&name(op), &[left, right])),
        },
        (None, Some(from)) if from.is_int() => Ok(right.clone()),
        _ => Err(undefined(&name(op), &[left, right])),
    }
}

fn division_by_zero(op: BinaryOp, place: Option<(&Array, usize)>) -> Problem {
    let what = if op == BinaryOp::Rem { "remainder of a division" } else { "division" };
    let problem = Problem::new("E0506", format!("integer {what} by zero"));
    match place {
        Some((divisor, position)) if divisor.rank() > 0 => {
            let place = index_text(divisor.shape(), position);
            problem.label(format!("element {place} of the right side is 0"))
        }
        _ => problem.label("the right side is 0"),
    }
}

/// Formats a row-major position as indices, `[1, 2]`.
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
pub fn unary(op: UnaryOp, value: &Value) -> Outcome<Value> {
    let what = match op {
        UnaryOp::Neg => "`-`",
        UnaryOp::Not => "`!`",
    };
    match (op, value) {
        (UnaryOp::Neg, Value::Int(n)) => return Ok(Value::Int(n.wrapping_neg())),
        (UnaryOp::Not, Value::Int(n)) => return Ok(Value::Int(!n)),
        (UnaryOp::Neg, Value::Float(x)) => return Ok(Value::Float(-x)),
        _ => {}
    }
    let operands = Operands::new(&[value], what)?;
    apply(Op::Unary(op), operands, &["the operand"], || undefined(what, &[value]))
}
