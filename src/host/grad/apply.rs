//! Carrying out deeds on values that are traced or not. Forward rules: the tangent of a deed's result from those of its operands. Also
//! the partial derivatives that both directions use.

use super::deed::Deed;
use super::form::Form;
use super::tape::{Auditor, Tape, lost};
use super::wrap::{is_traced, level_of, links, primal, traced};
use crate::host::array::broadcast::broadcast_to;
use crate::host::ops::{self, Reduce};
use crate::host::problem::{NO_GRAD, Outcome, Problem};
use crate::host::value::{Link, Value};
use crate::lang::derivative::{self, Partial, Terms};
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::Scalar;

/// Computes a deed; the result is traced as its operands are.
pub(crate) fn apply(deed: &Deed, args: Vec<Value>) -> Outcome<Value> {
    let Some(level) = level_of(&args) else {
        // An array of the tuple `(a, b)`, for instance.
        if args.iter().any(is_traced) {
            return Err(of_structs());
        }
        return deed.plain(&args);
    };
    if deed.is_discrete() {
        return deed.plain(&args.iter().map(primal).collect::<Vec<_>>());
    }
    refuse(deed)?;
    let (inner, links): (Vec<Value>, Vec<Option<Link>>) = args.iter().map(|arg| links(arg, level)).unzip();
    let result = apply(deed, inner.clone())?;
    if let Some((auditor, link)) = Auditor::of(&links) {
        let active: Vec<bool> = links.iter().map(Option::is_some).collect();
        auditor.0.deed(deed, &inner, &active, &result)?;
        return Ok(traced(result, level, link));
    }
    match Tape::of(&links) {
        Some(tape) => match tape.record(deed, inner, &links, &result) {
            Some(node) => Ok(traced(result, level, Link::Node(tape, node))),
            None => Err(lost(&format!("a `{}` comes of it", result.type_name()))),
        },
        None => {
            let tangents: Vec<Option<Value>> =
                links.into_iter().map(|link| link.and_then(Link::into_tangent)).collect();
            let tangent = tangent(deed, &inner, &result, &tangents)?;
            Ok(traced(result, level, Link::Tangent(tangent)))
        }
    }
}

/// Returns the error for a derivative through an array of structs or tuples.
pub(crate) fn of_structs() -> Problem {
    let help = "keep each field in an array of its own, or the fields of one type in an array of vectors";
    lost("derivatives are not taken through arrays of structs and tuples").help(help)
}

/// Refuses what has no derivative, or none that is computed.
fn refuse(deed: &Deed) -> Outcome<()> {
    match deed {
        Deed::Convert(to) if !to.is_float() => Err(lost(&format!("a float becomes `{to}`"))),
        Deed::Math(function @ (MathFn::Lgamma | MathFn::Tgamma)) => {
            let title = format!("the derivative of `{}` is not computed", function.row().name);
            Err(Problem::new("E0720", title).label("its argument depends on what is differentiated by").help(NO_GRAD))
        }
        _ => Ok(()),
    }
}

/// Returns the tangent of a result, which has its form. `tangents` are those of the operands that have one.
pub(super) fn tangent(deed: &Deed, args: &[Value], result: &Value, tangents: &[Option<Value>]) -> Outcome<Value> {
    let form = Form::of(result).ok_or_else(|| lost("its result is no float"))?;
    let sum = match deed {
        Deed::Unary(_)
        | Deed::Binary(_)
        | Deed::Math(_)
        | Deed::Reduce(Reduce::Prod | Reduce::Min | Reduce::Max, _) => {
            let mut sum: Option<Value> = None;
            for (operand, tangent) in tangents.iter().enumerate() {
                let Some(tangent) = tangent else { continue };
                let Some(part) = contribution(deed, args, result, operand, tangent)? else { continue };
                sum = Some(match sum {
                    None => part,
                    Some(sum) => apply(&Deed::Binary(BinaryOp::Add), vec![sum, part])?,
                });
            }
            sum
        }
        // Linear: the same is done with the tangents, and with zeros for what is constant.
        _ => {
            let operand = |(arg, tangent): (&Value, &Option<Value>)| match (tangent, Form::of(arg)) {
                (Some(tangent), _) => Ok(tangent.clone()),
                (None, Some(form)) => form.zeros(),
                (None, None) if matches!(arg, Value::Int(_) | Value::Float(_)) => Ok(Value::Float(0.0)),
                (None, None) => Ok(arg.clone()),
            };
            let operands = args.iter().zip(tangents).map(operand).collect::<Outcome<Vec<Value>>>()?;
            Some(apply(deed, operands)?)
        }
    };
    match sum {
        Some(sum) => form.expanded(sum),
        None => form.zeros(),
    }
}

/// Returns what the tangent of one operand adds to that of the result.
fn contribution(
    deed: &Deed,
    args: &[Value],
    result: &Value,
    operand: usize,
    tangent: &Value,
) -> Outcome<Option<Value>> {
    let tangent = tangent.clone();
    if let Deed::Binary(BinaryOp::MatMul) = deed {
        let mut factors = args.to_vec();
        factors[operand] = tangent;
        return apply(deed, factors).map(Some);
    }
    let weighted = match partial(deed, args, result, operand)? {
        Partial::Zero => return Ok(None),
        Partial::One => tangent,
        Partial::MinusOne => apply(&Deed::Unary(UnaryOp::Neg), vec![tangent])?,
        Partial::Times(factor) => apply(&Deed::Binary(BinaryOp::Mul), vec![factor, tangent])?,
    };
    match deed {
        Deed::Reduce(_, axes) => apply(&Deed::Reduce(Reduce::Sum, axes.clone()), vec![weighted]).map(Some),
        _ => Ok(Some(weighted)),
    }
}

/// Returns the partial derivative of an elementwise deed, or of a reduction by each element.
pub(super) fn partial(deed: &Deed, args: &[Value], result: &Value, operand: usize) -> Outcome<Partial<Value>> {
    let found = match (deed, args) {
        (Deed::Unary(UnaryOp::Neg), _) => Some(Partial::MinusOne),
        (Deed::Binary(op), [x, y]) => derivative::of_binary(&mut Deeds, *op, (x, y), result, operand)?,
        (Deed::Math(function), args) => derivative::of_math(&mut Deeds, *function, args, result, operand)?,
        (Deed::Reduce(how, axes), [x]) => Some(Partial::Times(of_reduction(*how, x, result, axes.as_deref())?)),
        _ => None,
    };
    found.ok_or_else(|| lost("this has no derivative"))
}

/// Returns the result of a reduction with the axes that it is of, of extent 1.
pub(super) fn kept(x: &Form, result: Value, axes: Option<&[i64]>) -> Outcome<Value> {
    let (Some(shape), Some(axes)) = (&x.shape, axes) else { return Ok(result) };
    let axes = ops::operand::axes(axes, shape.len(), "a reduction")?;
    let shape: Vec<usize> =
        shape.iter().enumerate().map(|(axis, &n)| if axes.contains(&axis) { 1 } else { n }).collect();
    reshaped(result, &shape)
}

fn of_reduction(how: Reduce, x: &Value, result: &Value, axes: Option<&[i64]>) -> Outcome<Value> {
    let own = Form::of(x).ok_or_else(|| lost("a reduction of no floats"))?;
    // Products leave the range of a type before their factors do, and counts that of `f16`.
    let wide = match (how, own.scalar) {
        (Reduce::Prod, _) => Scalar::F64,
        (_, Scalar::F16 | Scalar::Bf16) => Scalar::F32,
        (_, scalar) => scalar,
    };
    let found = wide_reduction(how, &converted(x, wide)?, &converted(result, wide)?, axes)?;
    converted(&found, own.scalar)
}

/// Returns a value in another type of floats.
pub(super) fn converted(value: &Value, to: Scalar) -> Outcome<Value> {
    match Form::of(value) {
        Some(form) if form.scalar != to => apply(&Deed::Convert(to), vec![value.clone()]),
        _ => Ok(value.clone()),
    }
}

fn wide_reduction(how: Reduce, x: &Value, result: &Value, axes: Option<&[i64]>) -> Outcome<Value> {
    let form = Form::of(x).ok_or_else(|| lost("a reduction of no floats"))?;
    let result = kept(&form, result.clone(), axes)?;
    let (zero, one) = (form.number(0.0), form.number(1.0));
    let binary = |op, a: &Value, b: &Value| apply(&Deed::Binary(op), vec![a.clone(), b.clone()]);
    let select = |cond: &Value, a: &Value, b: &Value| apply(&Deed::Select, vec![cond.clone(), a.clone(), b.clone()]);
    let total = |how, x: &Value| {
        let total = apply(&Deed::Reduce(how, axes.map(<[i64]>::to_vec)), vec![x.clone()])?;
        kept(&form, total, axes)
    };
    if how != Reduce::Prod {
        // Elements that share the extreme share the derivative.
        let is_extreme = binary(BinaryOp::Eq, x, &result)?;
        let marks = select(&is_extreme, &one, &zero)?;
        let count = total(Reduce::Sum, &marks)?;
        return binary(BinaryOp::Div, &marks, &count);
    }
    // The product of the others, which a division does not give where an element is 0.
    let is_zero = binary(BinaryOp::Eq, x, &zero)?;
    let zeros = total(Reduce::Sum, &select(&is_zero, &one, &zero)?)?;
    if is_traced(x) && any(&binary(BinaryOp::Gt, &zeros, &zero)?)? {
        let title = "the second derivative of a product with a factor 0 is not computed";
        return Err(Problem::new("E0720", title).label("a factor of this `prod` is 0"));
    }
    let factors = select(&is_zero, &one, x)?;
    let product = total(Reduce::Prod, &factors)?;
    let without_zeros = binary(BinaryOp::Div, &product, &factors)?;
    let alone = select(&is_zero, &product, &zero)?;
    let several = select(&binary(BinaryOp::Eq, &zeros, &one)?, &alone, &zero)?;
    select(&binary(BinaryOp::Eq, &zeros, &zero)?, &without_zeros, &several)
}

fn any(condition: &Value) -> Outcome<bool> {
    match condition {
        Value::Array(_) => Ok(ops::reduce(Reduce::Any, condition, None)?.as_bool() == Some(true)),
        other => Ok(other.as_bool() == Some(true)),
    }
}

impl Form {
    /// Repeats a derivative that broadcasts to this form.
    pub fn expanded(&self, value: Value) -> Outcome<Value> {
        match Form::of(&value) {
            Some(form) if form == *self => Ok(value),
            _ => apply(&Deed::Binary(BinaryOp::Add), vec![value, self.zeros()?]),
        }
    }
}

/// Returns a value in another shape; a single value as an array of one element.
pub(super) fn reshaped(value: Value, shape: &[usize]) -> Outcome<Value> {
    match Form::of(&value) {
        Some(Form { shape: Some(own), .. }) if own == shape => Ok(value),
        Some(Form { shape: None, .. }) => {
            let one = apply(&Deed::Literal, vec![value])?;
            apply(&Deed::Reshape(shape.to_vec()), vec![one])
        }
        _ => apply(&Deed::Reshape(shape.to_vec()), vec![value]),
    }
}

/// Returns the elements of an array broadcast to a shape, as one axis.
pub(crate) fn spread(value: Value, shape: &[usize]) -> Outcome<Value> {
    let count = shape.iter().product();
    match (Form::of(&value), primal(&value)) {
        (Some(form), _) => reshaped(Form { shape: Some(shape.to_vec()), ..form }.expanded(value)?, &[count]),
        // Of integers and structs.
        (None, Value::Array(array)) => match broadcast_to(&array, shape) {
            Some(repeated) => repeated?.with_shape(&[count]).map(Value::Array),
            None => Err(lost("an array that does not fit")),
        },
        (None, _) => Ok(value),
    }
}

/// Terms of derivatives that are deeds.
struct Deeds;

impl Terms for Deeds {
    type Value = Value;
    type Error = Problem;

    fn number(&mut self, like: &Value, number: f64) -> Outcome<Value> {
        Ok(match (like, Form::of(like)) {
            (_, Some(form)) => form.number(number),
            (Value::Int(_), None) if number.fract() == 0.0 => Value::Int(number as i128),
            (_, None) => Value::Float(number),
        })
    }

    fn unary(&mut self, op: UnaryOp, value: &Value) -> Outcome<Value> {
        apply(&Deed::Unary(op), vec![value.clone()])
    }

    fn binary(&mut self, op: BinaryOp, left: &Value, right: &Value) -> Outcome<Value> {
        apply(&Deed::Binary(op), vec![left.clone(), right.clone()])
    }

    fn math(&mut self, function: MathFn, args: &[Value]) -> Outcome<Value> {
        apply(&Deed::Math(function), args.to_vec())
    }

    fn select(&mut self, cond: &Value, then: &Value, other: &Value) -> Outcome<Value> {
        apply(&Deed::Select, vec![cond.clone(), then.clone(), other.clone()])
    }
}
