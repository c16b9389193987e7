//! Evaluates operations on values that may be traced. Contains the forward-mode rules, which compute the tangent of a
//! result from the tangents of the operands, and the partial derivatives that both modes use.

use super::tape::{DerivativeAuditor, GradTape, not_differentiable};
use super::tape_op::TapeOp;
use super::trace_value::{is_traced, level_of, primal, split_link, trace};
use super::value_shape::ValueShape;
use crate::array::broadcast::broadcast_to;
use crate::graph::ExecContext;
use crate::ops::{self, ReduceKind};
use crate::problem::{HostResult, NO_GRAD, RuntimeError};
use crate::value::{GradLink, HostValue};
use clk_scalar::Scalar;
use clk_scalar::derivative::{self, Partial, TermAlgebra};
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};

/// Evaluates an operation. The result is traced if one of the operands is traced.
pub(crate) fn apply(exec: &ExecContext, op: &TapeOp, args: Vec<HostValue>) -> HostResult<HostValue> {
    let Some(level) = level_of(&args) else {
        // No operand is a traced number or array, but one contains traced values, such as the tuple `(a, b)` for an
        // array of tuples.
        if args.iter().any(is_traced) {
            return Err(struct_array_error());
        }
        return op.compute(exec, &args);
    };
    if op.is_discrete() {
        return op.compute(exec, &args.iter().map(primal).collect::<Vec<_>>());
    }
    check_differentiable(op)?;
    let (inner_args, links): (Vec<HostValue>, Vec<Option<GradLink>>) =
        args.iter().map(|arg| split_link(arg, level)).unzip();
    let result = apply(exec, op, inner_args.clone())?;
    if let Some((auditor, link)) = DerivativeAuditor::for_links(&links) {
        let active: Vec<bool> = links.iter().map(Option::is_some).collect();
        auditor.0.check_op(exec, op, &inner_args, &active, &result)?;
        return Ok(trace(result, level, link));
    }
    match GradTape::for_links(&links) {
        Some(tape) => match tape.record(op, inner_args, &links, &result) {
            Some(node) => Ok(trace(result, level, GradLink::Node(tape, node))),
            None => Err(not_differentiable(&format!("a `{}` comes of it", result.type_name()))),
        },
        None => {
            let tangents: Vec<Option<HostValue>> =
                links.into_iter().map(|link| link.and_then(GradLink::into_tangent)).collect();
            let tangent = tangent(exec, op, &inner_args, &result, &tangents)?;
            Ok(trace(result, level, GradLink::Tangent(tangent)))
        }
    }
}

/// Returns the error for a derivative through an array of structs or tuples.
pub(crate) fn struct_array_error() -> RuntimeError {
    let help = "keep each field in an array of its own, or the fields of one type in an array of vectors";
    not_differentiable("derivatives are not taken through arrays of structs and tuples").help(help)
}

/// Returns an error if an operation has no derivative, or if its derivative is not implemented.
fn check_differentiable(op: &TapeOp) -> HostResult<()> {
    match op {
        TapeOp::Convert(to) if !to.is_float() => Err(not_differentiable(&format!("a float becomes `{to}`"))),
        TapeOp::Math(function @ (MathFn::Lgamma | MathFn::Tgamma)) => {
            let title = format!("the derivative of `{}` is not computed", function.row().name);
            Err(RuntimeError::new("E0720", title)
                .label("its argument depends on the differentiated parameters")
                .help(NO_GRAD))
        }
        _ => Ok(()),
    }
}

/// Returns the tangent of a result, in the shape of the result. `tangents` are the tangents of the operands; `None` for
/// inactive operands.
pub(super) fn tangent(
    exec: &ExecContext,
    op: &TapeOp,
    args: &[HostValue],
    result: &HostValue,
    tangents: &[Option<HostValue>],
) -> HostResult<HostValue> {
    let form = ValueShape::for_value(result).ok_or_else(|| not_differentiable("its result is no float"))?;
    let sum = match op {
        TapeOp::Unary(_)
        | TapeOp::Binary(_)
        | TapeOp::Math(_)
        | TapeOp::Reduce(ReduceKind::Prod | ReduceKind::Min | ReduceKind::Max, _) => {
            let mut sum: Option<HostValue> = None;
            for (operand, tangent) in tangents.iter().enumerate() {
                let Some(tangent) = tangent else { continue };
                let Some(part) = tangent_term(exec, op, args, result, operand, tangent)? else { continue };
                sum = Some(match sum {
                    None => part,
                    Some(sum) => apply(exec, &TapeOp::Binary(BinaryOp::Add), vec![sum, part])?,
                });
            }
            sum
        }
        // The operation is linear, so it is applied to the tangents. Constant operands have the tangent zero.
        _ => {
            let operand = |(arg, tangent): (&HostValue, &Option<HostValue>)| match (tangent, ValueShape::for_value(arg))
            {
                (Some(tangent), _) => Ok(tangent.clone()),
                (None, Some(form)) => form.zeros(),
                (None, None) if matches!(arg, HostValue::Int(_) | HostValue::Float(_)) => Ok(HostValue::Float(0.0)),
                (None, None) => Ok(arg.clone()),
            };
            let operands = args.iter().zip(tangents).map(operand).collect::<HostResult<Vec<HostValue>>>()?;
            Some(apply(exec, op, operands)?)
        }
    };
    match sum {
        Some(sum) => form.broadcast(exec, sum),
        None => form.zeros(),
    }
}

/// Returns the term that the tangent of one operand contributes to the tangent of the result; `None` if it is zero.
fn tangent_term(
    exec: &ExecContext,
    op: &TapeOp,
    args: &[HostValue],
    result: &HostValue,
    operand: usize,
    tangent: &HostValue,
) -> HostResult<Option<HostValue>> {
    let tangent = tangent.clone();
    if let TapeOp::Binary(BinaryOp::MatMul) = op {
        let mut factors = args.to_vec();
        factors[operand] = tangent;
        return apply(exec, op, factors).map(Some);
    }
    let weighted = match partial(exec, op, args, result, operand)? {
        Partial::Zero => return Ok(None),
        Partial::One => tangent,
        Partial::MinusOne => apply(exec, &TapeOp::Unary(UnaryOp::Neg), vec![tangent])?,
        Partial::Times(factor) => apply(exec, &TapeOp::Binary(BinaryOp::Mul), vec![factor, tangent])?,
    };
    match op {
        TapeOp::Reduce(_, axes) => {
            apply(exec, &TapeOp::Reduce(ReduceKind::Sum, axes.clone()), vec![weighted]).map(Some)
        }
        _ => Ok(Some(weighted)),
    }
}

/// Returns the partial derivative of an elementwise operation with respect to an operand, or of a reduction with
/// respect to each element.
pub(super) fn partial(
    exec: &ExecContext,
    op: &TapeOp,
    args: &[HostValue],
    result: &HostValue,
    operand: usize,
) -> HostResult<Partial<HostValue>> {
    let partial_derivative = match (op, args) {
        (TapeOp::Unary(UnaryOp::Neg), _) => Some(Partial::MinusOne),
        (TapeOp::Binary(op), [x, y]) => derivative::binary_partial(&mut TapedTerms(exec), *op, x, y, result, operand)?,
        (TapeOp::Math(function), args) => {
            derivative::math_partial(&mut TapedTerms(exec), *function, args, result, operand)?
        }
        (TapeOp::Reduce(how, axes), [x]) => {
            Some(Partial::Times(reduction_partial(exec, *how, x, result, axes.as_deref())?))
        }
        _ => None,
    };
    partial_derivative.ok_or_else(|| not_differentiable("this has no derivative"))
}

/// Returns the result of a reduction in the shape of the operand, with extent 1 for the reduced axes.
pub(super) fn keep_reduced_axes(
    exec: &ExecContext,
    x: &ValueShape,
    result: HostValue,
    axes: Option<&[i64]>,
) -> HostResult<HostValue> {
    let (Some(shape), Some(axes)) = (&x.shape, axes) else { return Ok(result) };
    let axes = ops::operand::axes(axes, shape.len(), "a reduction")?;
    let shape: Vec<usize> =
        shape.iter().enumerate().map(|(axis, &n)| if axes.contains(&axis) { 1 } else { n }).collect();
    reshape(exec, result, &shape)
}

fn reduction_partial(
    exec: &ExecContext,
    how: ReduceKind,
    x: &HostValue,
    result: &HostValue,
    axes: Option<&[i64]>,
) -> HostResult<HostValue> {
    let own = ValueShape::for_value(x).ok_or_else(|| not_differentiable("a reduction of no floats"))?;
    // The terms are computed in a wider type, because products overflow more easily than their factors, and counts can
    // exceed the range of `f16`.
    let accumulator = match (how, own.scalar) {
        (ReduceKind::Prod, _) => Scalar::F64,
        (_, Scalar::F16 | Scalar::Bf16) => Scalar::F32,
        (_, scalar) => scalar,
    };
    let partial_derivative = reduction_partial_in_accumulator(
        exec,
        how,
        &convert_to(exec, x, accumulator)?,
        &convert_to(exec, result, accumulator)?,
        axes,
    )?;
    convert_to(exec, &partial_derivative, own.scalar)
}

/// Converts a value to another float type.
pub(super) fn convert_to(exec: &ExecContext, value: &HostValue, to: Scalar) -> HostResult<HostValue> {
    match ValueShape::for_value(value) {
        Some(form) if form.scalar != to => apply(exec, &TapeOp::Convert(to), vec![value.clone()]),
        _ => Ok(value.clone()),
    }
}

fn reduction_partial_in_accumulator(
    exec: &ExecContext,
    how: ReduceKind,
    x: &HostValue,
    result: &HostValue,
    axes: Option<&[i64]>,
) -> HostResult<HostValue> {
    let form = ValueShape::for_value(x).ok_or_else(|| not_differentiable("a reduction of no floats"))?;
    let result = keep_reduced_axes(exec, &form, result.clone(), axes)?;
    let (zero, one) = (form.number(0.0), form.number(1.0));
    let binary = |op, a: &HostValue, b: &HostValue| apply(exec, &TapeOp::Binary(op), vec![a.clone(), b.clone()]);
    let select = |cond: &HostValue, a: &HostValue, b: &HostValue| {
        apply(exec, &TapeOp::Select, vec![cond.clone(), a.clone(), b.clone()])
    };
    let total = |how, x: &HostValue| {
        let total = apply(exec, &TapeOp::Reduce(how, axes.map(<[i64]>::to_vec)), vec![x.clone()])?;
        keep_reduced_axes(exec, &form, total, axes)
    };
    if how != ReduceKind::Prod {
        // If several elements have the extreme value, the derivative is divided among them.
        let is_extreme = binary(BinaryOp::Eq, x, &result)?;
        let marks = select(&is_extreme, &one, &zero)?;
        let count = total(ReduceKind::Sum, &marks)?;
        return binary(BinaryOp::Div, &marks, &count);
    }
    // The derivative is the product of the other factors. If a factor is 0, it cannot be computed by a division.
    let is_zero = binary(BinaryOp::Eq, x, &zero)?;
    let zeros = total(ReduceKind::Sum, &select(&is_zero, &one, &zero)?)?;
    if is_traced(x) && is_any_true(exec, &binary(BinaryOp::Gt, &zeros, &zero)?)? {
        let title = "the second derivative of a product with a factor 0 is not computed";
        return Err(RuntimeError::new("E0720", title).label("a factor of this `prod` is 0"));
    }
    let factors = select(&is_zero, &one, x)?;
    let product = total(ReduceKind::Prod, &factors)?;
    let without_zeros = binary(BinaryOp::Div, &product, &factors)?;
    let only_zero = select(&is_zero, &product, &zero)?;
    let several = select(&binary(BinaryOp::Eq, &zeros, &one)?, &only_zero, &zero)?;
    select(&binary(BinaryOp::Eq, &zeros, &zero)?, &without_zeros, &several)
}

fn is_any_true(exec: &ExecContext, condition: &HostValue) -> HostResult<bool> {
    match condition {
        HostValue::Array(_) => Ok(ops::reduce(exec, ReduceKind::Any, condition, None)?.as_bool() == Some(true)),
        other => Ok(other.as_bool() == Some(true)),
    }
}

impl ValueShape {
    /// Broadcasts a tangent or cotangent to this shape.
    pub fn broadcast(&self, exec: &ExecContext, value: HostValue) -> HostResult<HostValue> {
        match ValueShape::for_value(&value) {
            Some(form) if form == *self => Ok(value),
            _ => apply(exec, &TapeOp::Binary(BinaryOp::Add), vec![value, self.zeros()?]),
        }
    }
}

/// Reshapes a value. A single value becomes an array of one element.
pub(super) fn reshape(exec: &ExecContext, value: HostValue, shape: &[usize]) -> HostResult<HostValue> {
    match ValueShape::for_value(&value) {
        Some(ValueShape { shape: Some(own), .. }) if own == shape => Ok(value),
        Some(ValueShape { shape: None, .. }) => {
            let one = apply(exec, &TapeOp::Literal, vec![value])?;
            apply(exec, &TapeOp::Reshape(shape.to_vec()), vec![one])
        }
        _ => apply(exec, &TapeOp::Reshape(shape.to_vec()), vec![value]),
    }
}

/// Broadcasts a value to a shape, and flattens the result to a 1-d array.
pub(crate) fn broadcast_flat(exec: &ExecContext, value: HostValue, shape: &[usize]) -> HostResult<HostValue> {
    let count = shape.iter().product();
    match (ValueShape::for_value(&value), primal(&value)) {
        (Some(form), _) => {
            reshape(exec, ValueShape { shape: Some(shape.to_vec()), ..form }.broadcast(exec, value)?, &[count])
        }
        // The elements are integers or structs.
        (None, HostValue::Array(array)) => match broadcast_to(&array, shape) {
            Some(repeated) => repeated?.with_shape(&[count]).map(HostValue::Array),
            None => Err(not_differentiable("an array that does not fit")),
        },
        (None, _) => Ok(value),
    }
}

/// The arithmetic of derivative formulas on values that may be traced.
struct TapedTerms<'e>(&'e ExecContext);

impl TermAlgebra for TapedTerms<'_> {
    type Value = HostValue;
    type Error = RuntimeError;

    fn number(&mut self, like: &HostValue, number: f64) -> HostResult<HostValue> {
        Ok(match (like, ValueShape::for_value(like)) {
            (_, Some(form)) => form.number(number),
            (HostValue::Int(_), None) if number.fract() == 0.0 => HostValue::Int(number as i128),
            (_, None) => HostValue::Float(number),
        })
    }

    fn unary(&mut self, op: UnaryOp, value: &HostValue) -> HostResult<HostValue> {
        apply(self.0, &TapeOp::Unary(op), vec![value.clone()])
    }

    fn binary(&mut self, op: BinaryOp, left: &HostValue, right: &HostValue) -> HostResult<HostValue> {
        apply(self.0, &TapeOp::Binary(op), vec![left.clone(), right.clone()])
    }

    fn math(&mut self, function: MathFn, args: &[HostValue]) -> HostResult<HostValue> {
        apply(self.0, &TapeOp::Math(function), args.to_vec())
    }

    fn select(&mut self, cond: &HostValue, then: &HostValue, other: &HostValue) -> HostResult<HostValue> {
        apply(self.0, &TapeOp::Select, vec![cond.clone(), then.clone(), other.clone()])
    }
}
