//! Mathematical functions and `select`, elementwise.

use crate::base::stop;
use crate::host::array::broadcast::{broadcast_to, common_shape};
use crate::host::array::{Array, Item};
use crate::host::ops::map::map;
use crate::host::ops::operand::{Operands, common_scalar, undefined};
use crate::host::ops::zip::Rows;
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::builtin::Builtin;
use crate::lang::ops::MathFn;
use crate::lang::scalar::{Float, Integer, Number, Scalar, dynamic};
use crate::{with_float, with_integer, with_number};

/// Applies a function of scalars elementwise. (`min` and `max` of one array are [`reduce`](mod@super::reduce).)
pub fn math(function: MathFn, args: &[Value]) -> Outcome<Value> {
    let what = format!("`{}`", Builtin::Math(function).name());
    let values: Vec<&Value> = args.iter().collect();
    let arity = dynamic::arity(function);
    if values.len() != arity {
        return Err(Problem::new("E0541", format!("{what} takes {arity} arguments, not {}", values.len())));
    }
    // If all arguments are untyped literals, a function of floats takes them as floats.
    let settled;
    let values = match common_scalar(&values) {
        None if is_float_only(function) => {
            settled = args.iter().map(float_default).collect::<Vec<_>>();
            settled.iter().collect()
        }
        _ => values,
    };
    let operands = Operands::new(&values, &what)?;
    let result = match arity {
        1 => one(function, &operands),
        2 => two(function, &operands),
        _ => three(function, &operands),
    };
    operands.value(result.ok_or_else(|| undefined(&what, &values))??)
}

fn is_float_only(function: MathFn) -> bool {
    let entry = Builtin::Math(function).entry();
    entry.signature.starts_with("<T: Float>")
}

fn float_default(value: &Value) -> Value {
    match value {
        Value::Int(n) => Value::of(*n as f32),
        other => other.clone(),
    }
}

type Computed = Option<Outcome<Array>>;

fn one(function: MathFn, operands: &Operands) -> Computed {
    let array = operands.arrays.first()?;
    match function {
        MathFn::Abs => return with_number!(operands.scalar, T => Some(map(array, |x: T| x.op_abs())), bool => None),
        MathFn::Sign => return with_number!(operands.scalar, T => Some(map(array, |x: T| x.op_sign())), bool => None),
        MathFn::Sqrt => return with_float!(operands.scalar, T => Some(map(array, |x: T| x.op_sqrt())), _ => None),
        _ => {}
    }
    with_float!(operands.scalar,
        T => match float_test::<T>(function) {
            Some(test) => Some(map(array, test)),
            None => float_one::<T>(function).map(|f| map(array, f)),
        },
        _ => with_integer!(operands.scalar, T => integer_one::<T>(function).map(|f| map(array, f)), _ => None))
}

fn float_test<T: Float>(function: MathFn) -> Option<fn(T) -> bool> {
    Some(match function {
        MathFn::IsNan => T::op_isnan,
        MathFn::IsInf => T::op_isinf,
        MathFn::IsFinite => T::op_isfinite,
        _ => return None,
    })
}

fn float_one<T: Float>(function: MathFn) -> Option<fn(T) -> T> {
    use MathFn::*;
    Some(match function {
        Floor => T::op_floor,
        Ceil => T::op_ceil,
        Round => T::op_round,
        Trunc => T::op_trunc,
        Fract => T::op_fract,
        Rsqrt => T::op_rsqrt,
        Cbrt => T::op_cbrt,
        Exp => T::op_exp,
        Exp2 => T::op_exp2,
        Exp10 => T::op_exp10,
        Expm1 => T::op_expm1,
        Log => T::op_log,
        Log2 => T::op_log2,
        Log10 => T::op_log10,
        Log1p => T::op_log1p,
        Sin => T::op_sin,
        Cos => T::op_cos,
        Tan => T::op_tan,
        Asin => T::op_asin,
        Acos => T::op_acos,
        Atan => T::op_atan,
        Sinh => T::op_sinh,
        Cosh => T::op_cosh,
        Tanh => T::op_tanh,
        Asinh => T::op_asinh,
        Acosh => T::op_acosh,
        Atanh => T::op_atanh,
        Erf => T::op_erf,
        Erfc => T::op_erfc,
        Lgamma => T::op_lgamma,
        Tgamma => T::op_tgamma,
        _ => return None,
    })
}

fn integer_one<T: Integer>(function: MathFn) -> Option<fn(T) -> T> {
    use MathFn::*;
    Some(match function {
        Popcount => T::op_popcount,
        Clz => T::op_clz,
        Ctz => T::op_ctz,
        ReverseBits => T::op_reverse_bits,
        WrappingNeg => T::op_neg,
        _ => return None,
    })
}

fn two(function: MathFn, operands: &Operands) -> Computed {
    match function {
        MathFn::Min => {
            return with_number!(operands.scalar, T => Some(pairs(operands, |x: T, y: T| x.op_min(y))), bool => None);
        }
        MathFn::Max => {
            return with_number!(operands.scalar, T => Some(pairs(operands, |x: T, y: T| x.op_max(y))), bool => None);
        }
        _ => {}
    }
    with_float!(operands.scalar,
        T => float_two::<T>(function).map(|f| pairs(operands, f)),
        _ => with_integer!(operands.scalar, T => integer_two::<T>(function).map(|f| pairs(operands, f)), _ => None))
}

fn float_two<T: Float>(function: MathFn) -> Option<fn(T, T) -> T> {
    use MathFn::*;
    Some(match function {
        Copysign => T::op_copysign,
        Atan2 => T::op_atan2,
        Hypot => T::op_hypot,
        Pow => T::op_pow,
        _ => return None,
    })
}

fn integer_two<T: Integer>(function: MathFn) -> Option<fn(T, T) -> T> {
    use MathFn::*;
    Some(match function {
        Pow => T::op_pow,
        MulHi => T::op_mul_hi,
        WrappingAdd => T::op_add,
        WrappingSub => T::op_sub,
        WrappingMul => T::op_mul,
        SaturatingAdd => T::op_saturating_add,
        SaturatingSub => T::op_saturating_sub,
        _ => return None,
    })
}

const ARGUMENTS: [&str; 3] = ["the first argument", "the second argument", "the third argument"];

/// Applies `f` to every pair of scalars.
fn pairs<T: Item>(operands: &Operands, f: impl Fn(T, T) -> T + Copy) -> Outcome<Array> {
    let shapes = [operands.shape(0), operands.shape(1)];
    let [first, second, _] = ARGUMENTS;
    let mut shape = common_shape(&[(first, shapes[0].as_slice()), (second, &shapes[1])])?;
    let rows = Rows::new(&shape, &shapes[0], &shapes[1]);
    if operands.lanes > 1 {
        shape.pop();
    }
    let (a, b) = (operands.items::<T>(0)?, operands.items::<T>(1)?);
    Array::build(operands.element(T::SCALAR), &shape, |result| rows.map(a, b, result, f))
}

fn three(function: MathFn, operands: &Operands) -> Computed {
    match function {
        MathFn::Clamp => with_number!(operands.scalar,
            T => Some(triples(operands, |x: T, low: T, high: T| x.op_clamp(low, high))), bool => None),
        MathFn::Fma => with_float!(operands.scalar,
            T => Some(triples(operands, |x: T, y: T, z: T| x.op_fma(y, z))), _ => None),
        _ => None,
    }
}

/// Applies `f` to every triple of scalars.
fn triples<T: Item + Number>(operands: &Operands, f: impl Fn(T, T, T) -> T) -> Outcome<Array> {
    let shapes = [operands.shape(0), operands.shape(1), operands.shape(2)];
    let named: Vec<(&str, &[usize])> = ARGUMENTS.into_iter().zip(shapes.iter().map(Vec::as_slice)).collect();
    let mut shape = common_shape(&named)?;
    let mut repeated = Vec::with_capacity(3);
    for (array, own) in operands.arrays.iter().zip(&shapes) {
        repeated.push(spread(array, T::SCALAR, own, &shape)?);
    }
    let items = repeated.iter().map(Array::items).collect::<Outcome<Vec<&[T]>>>()?;
    if operands.lanes > 1 {
        shape.pop();
    }
    Array::build(operands.element(T::SCALAR), &shape, |result| {
        for (start, places) in stop::parts_mut(result) {
            let from = |i: usize| items.get(i).and_then(|items| items.get(start..)).unwrap_or(&[]);
            let args = from(0).iter().zip(from(1)).zip(from(2));
            places.iter_mut().zip(args).for_each(|(place, ((&x, &y), &z))| *place = f(x, y, z));
        }
    })
}

/// Broadcasts the scalars of an array of shape `own` (lanes included) to `shape`.
fn spread(array: &Array, scalar: Scalar, own: &[usize], shape: &[usize]) -> Outcome<Array> {
    let mut flat = Array::from_bytes(scalar, own, array.bytes()?)?;
    if let Some(repeated) = broadcast_to(&flat, shape) {
        flat = repeated?;
    }
    Ok(flat)
}

/// Evaluates `x / y` rounded up.
pub fn ceil_div(x: &Value, y: &Value) -> Outcome<Value> {
    use crate::lang::ops::BinaryOp::{Add, Div, Ne, Rem};
    let values = [x, y];
    let scalar = common_scalar(&values).unwrap_or(Scalar::I32);
    if !scalar.is_int() {
        return Err(undefined("`ceil_div`", &values));
    }
    let quotient = super::binary(Div, x, y)?;
    let remainder = super::binary(Rem, x, y)?;
    let zero = Value::Int(0);
    let partial = super::convert(scalar, &super::binary(Ne, &remainder, &zero)?)?;
    super::binary(Add, &quotient, &partial)
}

/// Returns `then` where `cond` holds, else `other`, elementwise for any element type.
pub fn select(cond: &Value, then: &Value, other: &Value) -> Outcome<Value> {
    let scalar = common_scalar(&[then, other]);
    let adapt = |value: &Value| scalar.map_or(Ok(value.clone()), |s| super::operand::adapt(value, s, "`select`"));
    let (then, other) = (adapt(then)?, adapt(other)?);
    let any_array = [cond, &then, &other].into_iter().any(|value| matches!(value, Value::Array(_)));
    match (cond, cond.as_bool()) {
        (_, Some(holds)) if !any_array => Ok(if holds { then } else { other }),
        (Value::Vector(lanes), _) if !any_array => select_lanes(lanes, &then, &other),
        _ => select_arrays(cond, &then, &other),
    }
}

fn select_lanes(cond: &crate::host::value::Vector, then: &Value, other: &Value) -> Outcome<Value> {
    use crate::host::value::Vector;
    let lanes = |value: &Value| match value {
        Value::Vector(v) if v.lanes() == cond.lanes() => Some(v.all_bits()),
        Value::Scalar(number) => Some([number.bits; 4]),
        _ => None,
    };
    let whole = Value::Vector(*cond);
    match (common_scalar(&[then, other]), lanes(then), lanes(other), cond.ty()) {
        (Some(scalar), Some(then), Some(other), Scalar::Bool) => {
            let chosen = cond.values().zip(then.into_iter().zip(other));
            Ok(Value::Vector(Vector::new(scalar, chosen.map(|(c, (t, o))| if c.is_true() { t } else { o }))))
        }
        _ => Err(undefined("`select`", &[&whole, then, other])),
    }
}

fn select_arrays(cond: &Value, then: &Value, other: &Value) -> Outcome<Value> {
    use super::operand::array_or_plain;
    let parts = [cond, then, other].map(|value| array_or_plain(value, "`select`"));
    let [cond_array, then_array, other_array] = parts;
    let (cond_array, then_array, other_array) = (cond_array?, then_array?, other_array?);
    if *cond_array.element() != Scalar::Bool.into() || then_array.element() != other_array.element() {
        return Err(undefined("`select`", &[cond, then, other]));
    }
    let arrays = [&*cond_array, &*then_array, &*other_array];
    let named: Vec<(&str, &[usize])> = ARGUMENTS.into_iter().zip(arrays.map(Array::shape)).collect();
    let shape = common_shape(&named)?;
    let mut wide = Vec::with_capacity(3);
    for array in arrays {
        wide.push(match broadcast_to(array, &shape) {
            Some(repeated) => repeated?,
            None => array.clone(),
        });
    }
    let bytes = |i: usize| wide.get(i).map_or(Ok(&[] as &[u8]), Array::bytes);
    let (conds, thens, others) = (bytes(0)?, bytes(1)?, bytes(2)?);
    let size = then_array.element().size().max(1);
    let mut result = Array::zeros(then_array.element().clone(), &shape)?;
    let sources = thens.chunks_exact(size).zip(others.chunks_exact(size));
    let places = result.bytes_mut()?.chunks_exact_mut(size);
    for ((place, (then, other)), &holds) in stop::polled(places.zip(sources).zip(conds)) {
        place.copy_from_slice(if holds != 0 { then } else { other });
    }
    Ok(Value::Array(result))
}
