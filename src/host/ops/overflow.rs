//! Arithmetic checks on the host, the same as in kernels: signed overflow, shift amounts outside of the width, powers with
//! negative exponents, and floats out of an integer type's range.
//!
//! Each check runs before its operation and reports the first failing element. Operands that the operation itself refuses pass
//! the check; an array that cannot be read fails it.

use crate::base::stop;
use crate::host::array::broadcast::common_shape;
use crate::host::array::{Array, Element, Item};
use crate::host::ops::binary::index_text;
use crate::host::ops::operand::{Operands, common_scalar};
use crate::host::ops::totals::wide;
use crate::host::ops::zip::Rows;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::exact::{exact, holds, limits};
use crate::lang::scalar::{self, Integer, Scalar};
use crate::{with_float, with_integer};

/// Checks `left op right`.
pub(crate) fn of_binary(op: BinaryOp, left: &Value, right: &Value) -> Outcome<()> {
    use BinaryOp::{Add, Div, Mul, Pow, Rem, Shl, Shr, Sub};
    let Some(ty) = common_scalar(&[left, right]).filter(|ty| ty.is_int()) else { return Ok(()) };
    // Fast path for scalars, which loops of scripts compute with.
    if let (Value::Scalar(a), Value::Scalar(b)) = (left, right)
        && a.ty == b.ty
        && let (Some(a), Some(b)) = (a.as_integer(), b.as_integer())
        && !matches!(op, Shl | Shr)
        && !(ty.is_signed() && wrong(op, ty, a, b))
    {
        return Ok(());
    }
    match op {
        Shl | Shr => shift(common_scalar(&[left]).unwrap_or(ty), left, right),
        Add | Sub | Mul | Div | Rem | Pow if ty.is_signed() => pairs(left, right, ty, op),
        _ => Ok(()),
    }
}

/// Checks `-x`.
pub(crate) fn of_unary(op: UnaryOp, value: &Value) -> Outcome<()> {
    match op {
        UnaryOp::Neg => least(value, |x| format!("-({x})")),
        UnaryOp::Not => Ok(()),
    }
}

/// Checks functions that compute with integers.
pub(crate) fn of_math(function: MathFn, args: &[Value]) -> Outcome<()> {
    match (function, args) {
        (MathFn::Pow, [base, exponent]) => of_binary(BinaryOp::Pow, base, exponent),
        (MathFn::Abs, [x]) => least(x, |x| format!("abs({x})")),
        _ => Ok(()),
    }
}

/// Checks `i32(x)` of a float.
pub(crate) fn of_conversion(to: Scalar, value: &Value) -> Outcome<()> {
    if !to.is_int() {
        return Ok(());
    }
    let (low, high) = limits(to);
    let wrong = |x: f64| x.is_nan() || x.trunc() < low as f64 || x.trunc() > high as f64 || x.trunc() as i128 > high;
    if let Value::Float(x) = value {
        return if wrong(*x) { Err(misfit(&scalar::Value::of(*x).to_string(), to, None)) } else { Ok(()) };
    }
    let Ok(operands) = Operands::new(&[value], "a conversion") else { return Ok(()) };
    let found = with_float!(operands.scalar, T => {
        stop::polled(operands.items::<T>(0)?.iter().enumerate())
            .find(|(_, x)| wrong(scalar::Element::to::<f64>(**x)))
            .map(|(at, x)| (at, scalar::Value::of(*x).to_string()))
    }, _ => None);
    found.map_or(Ok(()), |(at, shown)| Err(misfit(&shown, to, place(value, &operands, at))))
}

fn misfit(shown: &str, to: Scalar, place: Option<String>) -> Problem {
    let problem = Problem::new("E0614", format!("{shown} does not fit `{to}`"))
        .note("it becomes the nearest number that fits, NaN becomes 0")
        .help("say that this is meant: `i32(clamp(x, low, high))`");
    located(problem, place)
}

fn located(problem: Problem, place: Option<String>) -> Problem {
    match place {
        Some(place) => problem.label(place),
        None => problem,
    }
}

/// Describes the location of the scalar at this position in an array, the first operand; `None` for a plain value.
fn place(value: &Value, operands: &Operands, at: usize) -> Option<String> {
    let shape = operands.arrays.first().map_or(&[][..], |array| array.shape());
    place_in(value, shape, at, operands.lanes)
}

fn place_in(value: &Value, shape: &[usize], at: usize, lanes: usize) -> Option<String> {
    matches!(value, Value::Array(_)).then(|| format!("element {}", index_text(shape, at / lanes.max(1))))
}

fn overflow(operation: String, ty: Scalar, place: Option<String>) -> Problem {
    let problem = Problem::new("E0612", format!("{operation} does not fit `{ty}`"))
        .note("the result wraps; unsigned types do so by definition")
        .help("use a wider type, or say that wrapping is meant: `wrapping_add(a, b)`");
    located(problem, place)
}

/// Checks negation: the smallest number of a signed type has no negative.
fn least(value: &Value, shown: impl Fn(i128) -> String) -> Outcome<()> {
    let Some(ty) = common_scalar(&[value]).filter(|ty| ty.is_signed() && ty.is_int()) else { return Ok(()) };
    let Ok(operands) = Operands::new(&[value], "-") else { return Ok(()) };
    let (low, _) = limits(ty);
    let at = with_integer!(ty, T => stop::polled(operands.items::<T>(0)?).position(|x| wide(*x) == low), _ => None);
    at.map_or(Ok(()), |at| Err(overflow(shown(low), ty, place(value, &operands, at))))
}

/// Checks that the results of all pairs fit.
fn pairs(left: &Value, right: &Value, ty: Scalar, op: BinaryOp) -> Outcome<()> {
    let Ok(operands) = Operands::new(&[left, right], op.symbol()) else { return Ok(()) };
    with_integer!(ty, T => all_fit::<T>(&operands, left, right, op), _ => Ok(()))
}

fn all_fit<T: Item + Integer>(operands: &Operands, left: &Value, right: &Value, op: BinaryOp) -> Outcome<()> {
    let ty = T::SCALAR;
    let wrong = |a: T, b: T| wrong(op, ty, wide(a), wide(b));
    let Some((at, shape)) = first_of(operands, wrong)? else { return Ok(()) };
    let (a, b) = (wide::<T>(operand_at(operands, 0, &shape, at)?), wide::<T>(operand_at(operands, 1, &shape, at)?));
    let shown = |n: i128| if n < 0 { format!("({n})") } else { n.to_string() };
    let operation = format!("{} {} {}", shown(a), op.symbol(), shown(b));
    let any = if matches!(left, Value::Array(_)) { left } else { right };
    let outer = if operands.lanes > 1 { &shape[..shape.len() - 1] } else { &shape[..] };
    let place = place_in(any, outer, at, operands.lanes);
    if op == BinaryOp::Pow && b < 0 {
        let problem = Problem::new("E0612", format!("{operation} is no `{ty}`"))
            .note("a negative power is a fraction, of which the integer part is left")
            .help("compute it with floats: `2.0 ** x`");
        return Err(located(problem, place));
    }
    Err(overflow(operation, ty, place))
}

/// Whether an operation on numbers of a signed type overflows.
fn wrong(op: BinaryOp, ty: Scalar, a: i128, b: i128) -> bool {
    match op {
        // Division by zero is reported elsewhere.
        BinaryOp::Div | BinaryOp::Rem => b == -1 && a == limits(ty).0,
        BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Pow => {
            exact(op, a, b).is_none_or(|result| !holds(ty, result))
        }
        _ => false,
    }
}

/// Returns the row-major position of the first pair that satisfies a predicate, and the common shape (lanes last).
fn first_of<T: Item>(operands: &Operands, holds: impl Fn(T, T) -> bool + Copy) -> Outcome<Option<(usize, Vec<usize>)>> {
    let shapes = [operands.shape(0), operands.shape(1)];
    let Ok(shape) = common_shape(&[("", shapes[0].as_slice()), ("", &shapes[1])]) else { return Ok(None) };
    let rows = Rows::new(&shape, &shapes[0], &shapes[1]);
    let (a, b) = (operands.items(0)?, operands.items(1)?);
    let flags = Array::build(Element::Scalar(Scalar::Bool), &shape, |out| rows.map(a, b, out, holds));
    // Where this has no room, the operation has none either.
    let Ok(flags) = flags else { return Ok(None) };
    let at = stop::polled(flags.bytes()?).position(|&flag| flag != 0);
    Ok(at.map(|at| (at, shape)))
}

/// Returns the element of an operand at a position of the common shape.
fn operand_at<T: Item>(operands: &Operands, i: usize, shape: &[usize], at: usize) -> Outcome<T> {
    let own = operands.shape(i);
    let (mut rest, mut stride, mut position) = (at, 1, 0);
    for (axis, &len) in shape.iter().enumerate().rev() {
        let index = rest % len.max(1);
        rest /= len.max(1);
        let Some(&extent) = (axis + own.len()).checked_sub(shape.len()).and_then(|axis| own.get(axis)) else {
            continue;
        };
        position += if extent == 1 { 0 } else { index * stride };
        stride *= extent;
    }
    Ok(operands.items::<T>(i)?.get(position).copied().unwrap_or_default())
}

/// Checks the amount of a shift, which may be of any integer type.
fn shift(ty: Scalar, left: &Value, right: &Value) -> Outcome<()> {
    let width = i128::from(ty.bits());
    let wrong = |n: i128| !(0..width).contains(&n);
    let said = |n: i128, place: Option<String>| {
        let problem = Problem::new("E0613", format!("a shift of `{ty}` by {n}"))
            .note(format!("the amount counts modulo {width}, the width of `{ty}`"));
        located(problem, place)
    };
    // An empty operand means that nothing is shifted.
    if matches!(left, Value::Array(array) if array.count() == 0) {
        return Ok(());
    }
    if let Value::Int(n) = right {
        return if wrong(*n) { Err(said(*n, None)) } else { Ok(()) };
    }
    let Ok(operands) = Operands::new(&[right], "a shift") else { return Ok(()) };
    let found = with_integer!(operands.scalar, T => {
        stop::polled(operands.items::<T>(0)?).map(|x| wide(*x)).enumerate().find(|(_, n)| wrong(*n))
    }, _ => None);
    found.map_or(Ok(()), |(at, n)| Err(said(n, place(right, &operands, at).map(|p| format!("{p} of the amounts")))))
}
