//! Arithmetic checks on the host, with the same rules as in kernels: signed overflow, invalid shift amounts, integer
//! powers with negative exponents, and conversions of floats that are out of an integer type's range.
//!
//! Each check runs before its operation and reports the first failing element. It accepts operands that the operation
//! itself will reject. It returns an error if an array cannot be read.

use crate::graph::for_each_scalar;
use crate::ops::binary::index_text;
use crate::ops::operand::{ScalarOperands, common_scalar};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_scalar::Scalar;
use clk_scalar::exact::{is_out_of_range, limits, overflows};
use clk_scalar::fault_help::{conversion_help, overflow_help};
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};

/// Checks the operation `left op right`.
pub(crate) fn check_binary(op: BinaryOp, left: &HostValue, right: &HostValue) -> HostResult<()> {
    use BinaryOp::{Add, Div, Mul, Pow, Rem, Shl, Shr, Sub};
    let Some(ty) = common_scalar(&[left, right]).filter(|ty| ty.is_int()) else { return Ok(()) };
    // Fast path for scalars, which are the most frequent operands in loops of scripts.
    if let (HostValue::Scalar(a), HostValue::Scalar(b)) = (left, right)
        && a.ty == b.ty
        && let (Some(a), Some(b)) = (a.as_integer(), b.as_integer())
        && !matches!(op, Shl | Shr)
        && !(ty.is_signed() && overflows(op, ty, a, b))
    {
        return Ok(());
    }
    match op {
        Shl | Shr => check_shift(common_scalar(&[left]).unwrap_or(ty), left, right),
        Add | Sub | Mul | Div | Rem | Pow if ty.is_signed() => check_pairs(left, right, ty, op),
        _ => Ok(()),
    }
}

/// Checks the negation `-x`.
pub(crate) fn check_unary(op: UnaryOp, value: &HostValue) -> HostResult<()> {
    match op {
        UnaryOp::Neg => check_negation(value, |x| format!("-({x})")),
        UnaryOp::Not => Ok(()),
    }
}

/// Checks a call of a mathematical function with integer arguments.
pub(crate) fn check_math(function: MathFn, args: &[HostValue]) -> HostResult<()> {
    match (function, args) {
        (MathFn::Pow, [base, exponent]) => check_binary(BinaryOp::Pow, base, exponent),
        (MathFn::Abs, [x]) => check_negation(x, |x| format!("abs({x})")),
        _ => Ok(()),
    }
}

/// Checks the conversion of floats to an integer type, such as `i32(x)`.
pub(crate) fn check_conversion(to: Scalar, value: &HostValue) -> HostResult<()> {
    if !to.is_int() {
        return Ok(());
    }
    let wrong = |x: f64| is_out_of_range(to, x);
    if let HostValue::Float(x) = value {
        return if wrong(*x) {
            Err(conversion_error(&clk_scalar::ScalarValue::of(*x).to_string(), *x, to, None))
        } else {
            Ok(())
        };
    }
    if common_scalar(&[value]).is_none_or(|from| !from.is_float()) {
        return Ok(());
    }
    let failing = first_failing(&[value], |values| matches!(values, [x] if wrong(x.as_f64())))?;
    failing.map_or(Ok(()), |failing| Err(conversion_error(&failing.shown(0), failing.float(0), to, failing.place)))
}

fn conversion_error(shown: &str, value: f64, to: Scalar, place: Option<String>) -> RuntimeError {
    let problem = RuntimeError::new("E0614", format!("{shown} does not fit `{to}`"))
        .note("it becomes the nearest number that fits, NaN becomes 0")
        .help(conversion_help(value, to));
    with_place(problem, place)
}

fn with_place(problem: RuntimeError, place: Option<String>) -> RuntimeError {
    match place {
        Some(place) => problem.label(place),
        None => problem,
    }
}

fn overflow_error(operation: String, ty: Scalar, place: Option<String>) -> RuntimeError {
    let help = overflow_help(&operation, ty);
    let problem = RuntimeError::new("E0612", format!("{operation} does not fit `{ty}`"))
        .note("the result wraps; unsigned types do so by definition")
        .help(help);
    with_place(problem, place)
}

/// The operands of the first element for which a check fails.
struct OverflowElement {
    values: Vec<clk_scalar::ScalarValue>,
    /// The indices of the element as text, if an operand is an array.
    place: Option<String>,
}

impl OverflowElement {
    fn integer(&self, operand: usize) -> i128 {
        self.values.get(operand).and_then(|value| value.as_integer()).unwrap_or(0)
    }

    fn float(&self, operand: usize) -> f64 {
        self.values.get(operand).map_or(f64::NAN, |value| value.as_f64())
    }

    fn shown(&self, operand: usize) -> String {
        self.values.get(operand).map_or_else(String::new, ToString::to_string)
    }
}

/// Finds the first element whose operands satisfy a predicate. `None` if there is none, or if the operation itself will
/// reject the operands.
fn first_failing(
    values: &[&HostValue],
    wrong: impl Fn(&[clk_scalar::ScalarValue]) -> bool,
) -> HostResult<Option<OverflowElement>> {
    let Ok(operands) = ScalarOperands::new(values, "a check") else { return Ok(None) };
    let Ok(shape) = operands.shape(&["", ""]) else { return Ok(None) };
    let mut failing = None;
    for_each_scalar(&operands.list, &shape, |position, scalars| {
        if wrong(scalars) {
            failing = Some((position, scalars.to_vec()));
        }
        failing.is_none()
    })?;
    let outer = if operands.lanes > 1 { &shape[..shape.len() - 1] } else { &shape[..] };
    Ok(failing.map(|(at, values)| {
        let place = (!operands.plain).then(|| format!("element {}", index_text(outer, at / operands.lanes.max(1))));
        OverflowElement { values, place }
    }))
}

/// Checks a negation. It overflows for the smallest number of a signed type.
fn check_negation(value: &HostValue, shown: impl Fn(i128) -> String) -> HostResult<()> {
    let Some(ty) = common_scalar(&[value]).filter(|ty| ty.is_signed() && ty.is_int()) else { return Ok(()) };
    let (low, _) = limits(ty);
    let failing = first_failing(&[value], |values| matches!(values, [x] if x.as_integer() == Some(low)))?;
    failing.map_or(Ok(()), |failing| Err(overflow_error(shown(low), ty, failing.place)))
}

/// Checks that the results of a binary operation fit their type.
fn check_pairs(left: &HostValue, right: &HostValue, ty: Scalar, op: BinaryOp) -> HostResult<()> {
    let failing = first_failing(&[left, right], |values| match values {
        [a, b] => matches!((a.as_integer(), b.as_integer()), (Some(a), Some(b)) if overflows(op, ty, a, b)),
        _ => false,
    })?;
    let Some(failing) = failing else { return Ok(()) };
    let (a, b) = (failing.integer(0), failing.integer(1));
    let shown = |n: i128| if n < 0 { format!("({n})") } else { n.to_string() };
    let operation = format!("{} {} {}", shown(a), op.symbol(), shown(b));
    if op == BinaryOp::Pow && b < 0 {
        let problem = RuntimeError::new("E0612", format!("{operation} is no `{ty}`"))
            .note("a negative power is a fraction; only its integer part is kept")
            .help("compute it with floats: `2.0 ** x`");
        return Err(with_place(problem, failing.place));
    }
    Err(overflow_error(operation, ty, failing.place))
}

/// Checks the amounts of a shift, which may have any integer type.
fn check_shift(ty: Scalar, left: &HostValue, right: &HostValue) -> HostResult<()> {
    let width = i128::from(ty.bits());
    let wrong = |n: i128| !(0..width).contains(&n);
    let said = |n: i128, place: Option<String>| {
        let problem = RuntimeError::new("E0613", format!("a shift of `{ty}` by {n}"))
            .note(format!("the amount counts modulo {width}, the width of `{ty}`"));
        with_place(problem, place)
    };
    // If the left operand is empty, there is no shift to check.
    if matches!(left, HostValue::Array(array) if array.count() == 0) {
        return Ok(());
    }
    if let HostValue::Int(n) = right {
        return if wrong(*n) { Err(said(*n, None)) } else { Ok(()) };
    }
    let failing = first_failing(&[right], |values| matches!(values, [n] if n.as_integer().is_some_and(wrong)))?;
    failing.map_or(Ok(()), |failing| {
        Err(said(failing.integer(0), failing.place.as_ref().map(|place| format!("{place} of the amounts"))))
    })
}
