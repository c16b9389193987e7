//! Binary and unary operators.

use crate::base::stop;
use crate::host::array::broadcast::common_shape;
use crate::host::array::{Array, Item, shape_text};
use crate::host::ops::map::map;
use crate::host::ops::matmul::matmul;
use crate::host::ops::operand::{Operands, undefined};
use crate::host::ops::text;
use crate::host::ops::zip::Rows;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar::{self, Integer, Logic, Number, Scalar, dynamic};
use crate::{with_element, with_integer, with_logic, with_number};

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
        Value::Str(_) | Value::Table(_) | Value::Strings(_) | Value::Timing(_) => false,
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
    let shapes = [operands.shape(0), operands.shape(1)];
    let mut shape = common_shape(&[("the left side", shapes[0].as_slice()), ("the right side", &shapes[1])])?;
    let rows = Rows::new(&shape, &shapes[0], &shapes[1]);
    if operands.lanes > 1 {
        shape.pop();
    }
    let result = Elementwise { op, operands: &operands, shape: &shape, rows };
    let array = result.compute().ok_or_else(|| undefined(&name(op), &[left, right]))??;
    operands.value(array)
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

struct Elementwise<'o> {
    op: BinaryOp,
    operands: &'o Operands<'o>,
    shape: &'o [usize],
    rows: Rows,
}

impl Elementwise<'_> {
    /// Computes the result; `None` if the operator is not defined for the type.
    fn compute(&self) -> Option<Outcome<Array>> {
        use BinaryOp::*;
        let scalar = self.operands.scalar;
        match self.op {
            Eq | Ne => Some(with_element!(scalar, T => self.equal::<T>())),
            Lt | Le | Gt | Ge => with_number!(scalar, T => Some(self.order::<T>()), bool => None),
            Add | Sub | Mul | Pow => with_number!(scalar, T => Some(self.arithmetic::<T>()), bool => None),
            Div | Rem => with_number!(scalar, T => Some(self.division::<T>()), bool => None),
            And | Or if scalar != Scalar::Bool => None,
            And | Or | BitAnd | BitOr | BitXor => with_logic!(scalar, T => Some(self.logic::<T>()), _ => None),
            Shl | Shr => with_integer!(scalar, T => Some(self.shift::<T>()), _ => None),
            MatMul => None,
        }
    }

    fn map<T: Item, R: Item>(&self, f: impl Fn(T, T) -> R + Copy) -> Outcome<Array> {
        let (a, b) = (self.operands.items::<T>(0)?, self.operands.items::<T>(1)?);
        let element = self.operands.element(R::SCALAR);
        Array::build(element, self.shape, |result| self.rows.map(a, b, result, f))
    }

    fn equal<T: Item>(&self) -> Outcome<Array> {
        match self.op {
            BinaryOp::Eq => self.map(|a: T, b: T| a.op_eq(b)),
            _ => self.map(|a: T, b: T| a.op_ne(b)),
        }
    }

    fn order<T: Item + Number>(&self) -> Outcome<Array> {
        match self.op {
            BinaryOp::Lt => self.map(|a: T, b: T| a.op_lt(b)),
            BinaryOp::Le => self.map(|a: T, b: T| a.op_le(b)),
            BinaryOp::Gt => self.map(|a: T, b: T| a.op_gt(b)),
            _ => self.map(|a: T, b: T| a.op_ge(b)),
        }
    }

    fn arithmetic<T: Item + Number>(&self) -> Outcome<Array> {
        match self.op {
            BinaryOp::Add => self.map(|a: T, b: T| a.op_add(b)),
            BinaryOp::Sub => self.map(|a: T, b: T| a.op_sub(b)),
            BinaryOp::Mul => self.map(|a: T, b: T| a.op_mul(b)),
            _ => self.map(|a: T, b: T| a.op_pow(b)),
        }
    }

    fn division<T: Item + Number>(&self) -> Outcome<Array> {
        if let (true, Some(divisor)) = (T::SCALAR.is_int(), self.operands.arrays.get(1)) {
            let mut parts = stop::parts(divisor.items::<T>()?);
            let zero = parts.find_map(|(start, part)| Some(start + part.iter().position(|&d| d == T::default())?));
            if let (Some(position), false) = (zero, self.shape.contains(&0)) {
                return Err(division_by_zero(self.op, Some((divisor, position / self.operands.lanes.max(1)))));
            }
        }
        match self.op {
            BinaryOp::Div => self.map(|a: T, b: T| a.op_div(b)),
            _ => self.map(|a: T, b: T| a.op_rem(b)),
        }
    }

    fn logic<T: Item + Logic>(&self) -> Outcome<Array> {
        match self.op {
            BinaryOp::And | BinaryOp::BitAnd => self.map(|a: T, b: T| a.op_and(b)),
            BinaryOp::Or | BinaryOp::BitOr => self.map(|a: T, b: T| a.op_or(b)),
            _ => self.map(|a: T, b: T| a.op_xor(b)),
        }
    }

    fn shift<T: Item + Integer>(&self) -> Outcome<Array> {
        match self.op {
            BinaryOp::Shl => self.map(|a: T, b: T| a.op_shl(b.to())),
            _ => self.map(|a: T, b: T| a.op_shr(b.to())),
        }
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
    let Some(array) = operands.arrays.first() else { return Err(undefined(what, &[value])) };
    let result = match op {
        UnaryOp::Neg => with_number!(operands.scalar, T => Some(map(array, |x: T| x.op_neg())), bool => None),
        UnaryOp::Not => with_logic!(operands.scalar, T => Some(map(array, |x: T| x.op_not())), _ => None),
    };
    operands.value(result.ok_or_else(|| undefined(what, &[value]))??)
}
