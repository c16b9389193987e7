//! The optional checks of the stepper for scalar arithmetic and for reads of unwritten memory.
//!
//! The simulator implements the same checks with specialized code; tests compare the two implementations.

use super::memory::ArrayRef;
use clk_base::source::Span;
use clk_ir::Checks;
use clk_ir::def::{BinOp, MemorySpace};
use clk_runtime::FaultKind;
use clk_scalar::exact::{
    is_first_nonfinite, is_reported, is_reported_conversion, is_reported_math, is_reported_unary, is_representable,
};
use clk_scalar::ops::{AtomicOp, MathFn, UnaryOp};
use clk_scalar::{Scalar, ScalarValue, dynamic};

/// The fault that stops a thread, and its span.
pub(super) type ThreadFault = (FaultKind, Span);

/// Returns an error with `span` if `report` is a fault.
fn fail_if(report: Option<FaultKind>, span: Span) -> Result<(), ThreadFault> {
    report.map_or(Ok(()), |kind| Err((kind, span)))
}

/// Returns the overflow fault of the negation of `value`.
fn negation(value: ScalarValue) -> FaultKind {
    FaultKind::overflow("-", ScalarValue::zero(value.ty), value)
}

pub(super) fn unary(checks: Checks, op: UnaryOp, value: ScalarValue, span: Span) -> Result<(), ThreadFault> {
    fail_if((checks.arithmetic && is_reported_unary(op, value)).then(|| negation(value)), span)
}

/// Checks a binary operator's operands for overflow and invalid shift amounts, before its result is computed.
pub(super) fn binary(
    checks: Checks,
    op: BinOp,
    left: ScalarValue,
    right: ScalarValue,
    span: Span,
) -> Result<(), ThreadFault> {
    if !checks.arithmetic || !is_reported(op.operator(), left, right) {
        return Ok(());
    }
    let kind = match op {
        BinOp::Shl | BinOp::Shr => FaultKind::ShiftAmount { amount: right, ty: left.ty },
        // An overflowing remainder (`MIN % -1`) is reported as the overflow of the division, because processors compute
        // both together.
        BinOp::Rem => FaultKind::overflow("/", left, right),
        _ => FaultKind::overflow(op.operator().symbol(), left, right),
    };
    Err((kind, span))
}

/// Checks the computed result of a binary operator for NaN and infinity.
pub(super) fn computed(
    checks: Checks,
    op: BinOp,
    operands: [ScalarValue; 2],
    result: ScalarValue,
    span: Span,
) -> Result<(), ThreadFault> {
    let text = || operands.map(|value| value.to_string()).join(&format!(" {} ", op.operator().symbol()));
    finite(checks, text, &operands, result, span)
}

pub(super) fn math(
    checks: Checks,
    function: MathFn,
    args: &[ScalarValue],
    result: ScalarValue,
    span: Span,
) -> Result<(), ThreadFault> {
    if checks.arithmetic && is_reported_math(function, args) {
        let kind = match *args {
            [base, exponent] => FaultKind::overflow("**", base, exponent),
            _ => negation(args[0]),
        };
        return Err((kind, span));
    }
    let text = || {
        let args: Vec<String> = args.iter().map(ScalarValue::to_string).collect();
        format!("{}({})", format!("{function:?}").to_lowercase(), args.join(", "))
    };
    finite(checks, text, args, result, span)
}

pub(super) fn conversion(
    checks: Checks,
    value: ScalarValue,
    result: ScalarValue,
    span: Span,
) -> Result<(), ThreadFault> {
    let to = result.ty;
    if checks.arithmetic && is_reported_conversion(to, value) {
        return Err((FaultKind::Conversion { value, to }, span));
    }
    finite(checks, || format!("{}({value})", to.name()), &[value], result, span)
}

fn finite(
    checks: Checks,
    operation: impl FnOnce() -> String,
    operands: &[ScalarValue],
    result: ScalarValue,
    span: Span,
) -> Result<(), ThreadFault> {
    let is_reported = checks.nan && is_first_nonfinite(operands, result);
    fail_if(is_reported.then(|| FaultKind::NotFinite { operation: operation(), result }), span)
}

pub(super) fn atomic(
    checks: Checks,
    op: AtomicOp,
    old: ScalarValue,
    value: ScalarValue,
    span: Span,
) -> Result<(), ThreadFault> {
    let (name, exact) = match op {
        AtomicOp::Add => ("atomic_add", old.as_integer().zip(value.as_integer()).map(|(a, b)| a + b)),
        AtomicOp::Sub => ("atomic_sub", old.as_integer().zip(value.as_integer()).map(|(a, b)| a - b)),
        _ => return Ok(()),
    };
    let operation = || format!("{name}({old}, {value})");
    match exact {
        Some(exact) => {
            let overflows = checks.arithmetic && old.ty.is_signed() && !is_representable(old.ty, exact);
            fail_if(overflows.then(|| FaultKind::Overflow { operation: operation(), ty: old.ty }), span)
        }
        None => {
            let result = dynamic::atomic(op, old, value, None).unwrap_or(old);
            finite(checks, operation, &[old, value], result, span)
        }
    }
}

/// Returns the fault of a warp-wide integer sum if it overflows.
pub(super) fn sum(checks: Checks, ty: Scalar, values: impl Iterator<Item = i128>) -> Option<FaultKind> {
    let sum: i128 = if checks.arithmetic && ty.is_signed() { values.sum() } else { 0 };
    let operation = || format!("warp_reduce_add: the sum {sum}");
    (!is_representable(ty, sum)).then(|| FaultKind::Overflow { operation: operation(), ty })
}

/// Returns the fault of a warp-wide float sum if its result is the first NaN or infinity.
pub(super) fn float_sum(checks: Checks, values: &[ScalarValue], result: ScalarValue) -> Option<FaultKind> {
    let is_reported = checks.nan && is_first_nonfinite(values, result);
    is_reported.then(|| FaultKind::NotFinite { operation: "warp_reduce_add".into(), result })
}

/// Reports a load or an atomic operation that reads unwritten memory, if these checks are enabled.
pub(super) fn read(
    checks: Checks,
    array: &ArrayRef<'_>,
    offset: usize,
    space: MemorySpace,
    span: Span,
) -> Result<(), ThreadFault> {
    let space = match space {
        MemorySpace::Shared => "shared",
        MemorySpace::Local => "local",
        _ => "out",
    };
    fail_if(checks.memory.then(|| FaultKind::Unwritten { place: array.place(offset), space }), span)
}
