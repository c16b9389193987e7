//! Arithmetic checks on the host, the same as in kernels: signed overflow, shift amounts outside of the width, powers with
//! negative exponents, and floats out of an integer type's range.
//!
//! Each check runs before its operation and reports the first failing element. Operands that the operation itself refuses pass
//! the check; an array that cannot be read fails it.

use crate::host::graph::each;
use crate::host::ops::binary::index_text;
use crate::host::ops::operand::{Operands, common_scalar};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::exact::{limits, outside, overflows};
use crate::lang::scalar::{self, Scalar};

/// Checks `left op right`.
pub(crate) fn of_binary(op: BinaryOp, left: &Value, right: &Value) -> Outcome<()> {
    use BinaryOp::{Add, Div, Mul, Pow, Rem, Shl, Shr, Sub};
    let Some(ty) = common_scalar(&[left, right]).filter(|ty| ty.is_int()) else { return Ok(()) };
    // Fast path for scalars, which loops of scripts compute with.
    if let (Value::Scalar(a), Value::Scalar(b)) = (left, right)
        && a.ty == b.ty
        && let (Some(a), Some(b)) = (a.as_integer(), b.as_integer())
        && !matches!(op, Shl | Shr)
        && !(ty.is_signed() && overflows(op, ty, a, b))
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
    let wrong = |x: f64| outside(to, x);
    if let Value::Float(x) = value {
        return if wrong(*x) { Err(misfit(&scalar::Value::of(*x).to_string(), to, None)) } else { Ok(()) };
    }
    if common_scalar(&[value]).is_none_or(|from| !from.is_float()) {
        return Ok(());
    }
    let found = first(&[value], |values| matches!(values, [x] if wrong(x.as_f64())))?;
    found.map_or(Ok(()), |found| Err(misfit(&found.shown(0), to, found.place)))
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

fn overflow(operation: String, ty: Scalar, place: Option<String>) -> Problem {
    let problem = Problem::new("E0612", format!("{operation} does not fit `{ty}`"))
        .note("the result wraps; unsigned types do so by definition")
        .help("use a wider type, or say that wrapping is meant: `wrapping_add(a, b)`");
    located(problem, place)
}

/// The scalars of an element for which an operation is wrong.
struct Found {
    values: Vec<scalar::Value>,
    /// The element, if an operand is an array.
    place: Option<String>,
}

impl Found {
    fn integer(&self, operand: usize) -> i128 {
        self.values.get(operand).and_then(|value| value.as_integer()).unwrap_or(0)
    }

    fn shown(&self, operand: usize) -> String {
        self.values.get(operand).map_or_else(String::new, ToString::to_string)
    }
}

/// Finds the first scalars that satisfy a predicate; `None` also if the operation itself refuses the operands.
fn first(values: &[&Value], wrong: impl Fn(&[scalar::Value]) -> bool) -> Outcome<Option<Found>> {
    let Ok(operands) = Operands::new(values, "a check") else { return Ok(None) };
    let Ok(shape) = operands.shape(&["", ""]) else { return Ok(None) };
    let mut found = None;
    each(&operands.list, &shape, |position, scalars| {
        if wrong(scalars) {
            found = Some((position, scalars.to_vec()));
        }
        found.is_none()
    })?;
    let outer = if operands.lanes > 1 { &shape[..shape.len() - 1] } else { &shape[..] };
    Ok(found.map(|(at, values)| {
        let place = (!operands.plain).then(|| format!("element {}", index_text(outer, at / operands.lanes.max(1))));
        Found { values, place }
    }))
}

/// Checks negation: the smallest number of a signed type has no negative.
fn least(value: &Value, shown: impl Fn(i128) -> String) -> Outcome<()> {
    let Some(ty) = common_scalar(&[value]).filter(|ty| ty.is_signed() && ty.is_int()) else { return Ok(()) };
    let (low, _) = limits(ty);
    let found = first(&[value], |values| matches!(values, [x] if x.as_integer() == Some(low)))?;
    found.map_or(Ok(()), |found| Err(overflow(shown(low), ty, found.place)))
}

/// Checks that the results of all pairs fit.
fn pairs(left: &Value, right: &Value, ty: Scalar, op: BinaryOp) -> Outcome<()> {
    let found = first(&[left, right], |values| match values {
        [a, b] => matches!((a.as_integer(), b.as_integer()), (Some(a), Some(b)) if overflows(op, ty, a, b)),
        _ => false,
    })?;
    let Some(found) = found else { return Ok(()) };
    let (a, b) = (found.integer(0), found.integer(1));
    let shown = |n: i128| if n < 0 { format!("({n})") } else { n.to_string() };
    let operation = format!("{} {} {}", shown(a), op.symbol(), shown(b));
    if op == BinaryOp::Pow && b < 0 {
        let problem = Problem::new("E0612", format!("{operation} is no `{ty}`"))
            .note("a negative power is a fraction, of which the integer part is left")
            .help("compute it with floats: `2.0 ** x`");
        return Err(located(problem, found.place));
    }
    Err(overflow(operation, ty, found.place))
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
    let found = first(&[right], |values| matches!(values, [n] if n.as_integer().is_some_and(wrong)))?;
    found.map_or(Ok(()), |found| {
        Err(said(found.integer(0), found.place.as_ref().map(|place| format!("{place} of the amounts"))))
    })
}
