//! What a run with checks reports of an operation on the operands of one lane, and of a read.
//!
//! The simulator has its own code for these checks, in several forms; tests compare its reports with those of this file.

use super::memory::Array;
use crate::base::source::Span;
use crate::device::fault::FaultKind;
use crate::ir::Checks;
use crate::ir::def::{BinOp, Space};
use crate::lang::ops::{AtomicOp, MathFn, UnaryOp};
use crate::lang::scalar::exact::{
    holds, is_first_nonfinite, is_reported, is_reported_conversion, is_reported_math, is_reported_unary,
};
use crate::lang::scalar::{Scalar, Value, dynamic};

/// The fault that stops a thread, and its span.
pub(super) type Stop = (FaultKind, Span);

/// Reports what `report` returns.
fn stop(report: Option<FaultKind>, span: Span) -> Result<(), Stop> {
    report.map_or(Ok(()), |kind| Err((kind, span)))
}

/// `0 - value` overflows.
fn negation(value: Value) -> FaultKind {
    FaultKind::overflow("-", Value::zero(value.ty), value)
}

pub(super) fn unary(checks: Checks, op: UnaryOp, value: Value, span: Span) -> Result<(), Stop> {
    stop((checks.arithmetic && is_reported_unary(op, value)).then(|| negation(value)), span)
}

/// Checks an operator before its result is computed.
pub(super) fn binary(checks: Checks, op: BinOp, left: Value, right: Value, span: Span) -> Result<(), Stop> {
    if !checks.arithmetic || !is_reported(op.operator(), left, right) {
        return Ok(());
    }
    let kind = match op {
        BinOp::Shl | BinOp::Shr => FaultKind::ShiftAmount { amount: right, ty: left.ty },
        // Processors compute the remainder with the quotient.
        BinOp::Rem => FaultKind::overflow("/", left, right),
        _ => FaultKind::overflow(op.operator().symbol(), left, right),
    };
    Err((kind, span))
}

/// Checks the result of an operator.
pub(super) fn computed(checks: Checks, op: BinOp, operands: [Value; 2], result: Value, span: Span) -> Result<(), Stop> {
    let text = || operands.map(|value| value.to_string()).join(&format!(" {} ", op.operator().symbol()));
    finite(checks, text, &operands, result, span)
}

pub(super) fn math(checks: Checks, function: MathFn, args: &[Value], result: Value, span: Span) -> Result<(), Stop> {
    if checks.arithmetic && is_reported_math(function, args) {
        let kind = match *args {
            [base, exponent] => FaultKind::overflow("**", base, exponent),
            _ => negation(args[0]),
        };
        return Err((kind, span));
    }
    let text = || {
        let args: Vec<String> = args.iter().map(Value::to_string).collect();
        format!("{}({})", format!("{function:?}").to_lowercase(), args.join(", "))
    };
    finite(checks, text, args, result, span)
}

pub(super) fn conversion(checks: Checks, value: Value, result: Value, span: Span) -> Result<(), Stop> {
    let to = result.ty;
    if checks.arithmetic && is_reported_conversion(to, value) {
        return Err((FaultKind::Conversion { value, to }, span));
    }
    finite(checks, || format!("{}({value})", to.name()), &[value], result, span)
}

fn finite(
    checks: Checks,
    operation: impl FnOnce() -> String,
    operands: &[Value],
    result: Value,
    span: Span,
) -> Result<(), Stop> {
    let is_reported = checks.nan && is_first_nonfinite(operands, result);
    stop(is_reported.then(|| FaultKind::NotFinite { operation: operation(), result }), span)
}

pub(super) fn atomic(checks: Checks, op: AtomicOp, old: Value, value: Value, span: Span) -> Result<(), Stop> {
    let (name, exact) = match op {
        AtomicOp::Add => ("atomic_add", old.as_integer().zip(value.as_integer()).map(|(a, b)| a + b)),
        AtomicOp::Sub => ("atomic_sub", old.as_integer().zip(value.as_integer()).map(|(a, b)| a - b)),
        _ => return Ok(()),
    };
    let operation = || format!("{name}({old}, {value})");
    match exact {
        Some(exact) => {
            let overflows = checks.arithmetic && old.ty.is_signed() && !holds(old.ty, exact);
            stop(overflows.then(|| FaultKind::Overflow { operation: operation(), ty: old.ty }), span)
        }
        None => {
            let result = dynamic::atomic(op, old, value, None).unwrap_or(old);
            finite(checks, operation, &[old, value], result, span)
        }
    }
}

/// Returns the report of a warp's sum that overflows.
pub(super) fn sum(checks: Checks, ty: Scalar, values: impl Iterator<Item = i128>) -> Option<FaultKind> {
    let sum: i128 = if checks.arithmetic && ty.is_signed() { values.sum() } else { 0 };
    let operation = || format!("warp_reduce_add: the sum {sum}");
    (!holds(ty, sum)).then(|| FaultKind::Overflow { operation: operation(), ty })
}

/// Returns the report of a warp's sum of floats.
pub(super) fn float_sum(checks: Checks, values: &[Value], result: Value) -> Option<FaultKind> {
    let is_reported = checks.nan && is_first_nonfinite(values, result);
    is_reported.then(|| FaultKind::NotFinite { operation: "warp_reduce_add".into(), result })
}

/// Checks a read, or an atomic, of memory that was not written.
pub(super) fn read(checks: Checks, array: &Array<'_>, offset: usize, space: Space, span: Span) -> Result<(), Stop> {
    let space = match space {
        Space::Shared => "shared",
        Space::Local => "local",
        _ => "out",
    };
    stop(checks.memory.then(|| FaultKind::Unwritten { place: array.place(offset), space }), span)
}
