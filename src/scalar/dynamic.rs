//! Operations on values whose type is known only at run time, for constant folding, the host and the reference
//! interpreter. They call the generic functions for the type, so that results have the same bits in all parts of Clk.
//! Every NaN that they compute has the bits [`Scalar::canonical_nan`].

use thiserror::Error;

use super::{Float, Integer, Logic, NumericScalar, Scalar, ScalarType, ScalarValue};
use crate::functions::math_functions;
use crate::ops::{AtomicOp, BinaryOp, MathFn, UnaryOp};
use crate::{with_element, with_float, with_integer, with_logic, with_number};

/// Why an operation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ScalarError {
    /// An integer division or remainder by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// The checker rejects programs with such operations.
    #[error("the operation is not defined for these types")]
    Undefined,
}

type ScalarResult = Result<ScalarValue, ScalarError>;

/// Evaluates a binary operator on values of the same type; the amount of a shift can have any integer type. `And` and
/// `Or` operate on two `bool` values, without short-circuit evaluation.
pub fn binary(op: BinaryOp, left: ScalarValue, right: ScalarValue) -> ScalarResult {
    use BinaryOp::*;
    if matches!(op, Shl | Shr) {
        return shift(op == Shl, left, right);
    }
    if left.ty != right.ty {
        return Err(ScalarError::Undefined);
    }
    match op {
        Eq | Ne => Ok(ScalarValue::of(equal(left, right) == (op == Eq))),
        And | Or if left.ty != Scalar::Bool => Err(ScalarError::Undefined),
        And | Or | BitAnd | BitOr | BitXor => logic(op, left, right),
        Div | Rem if left.ty.is_int() && right.bits == 0 => Err(ScalarError::DivisionByZero),
        Add | Sub | Mul | Div | Rem | Pow | Lt | Le | Gt | Ge => numeric(op, left, right),
        MatMul | Shl | Shr => Err(ScalarError::Undefined),
    }
}

fn equal(left: ScalarValue, right: ScalarValue) -> bool {
    with_element!(left.ty, T => T::from_raw(left.bits).op_eq(T::from_raw(right.bits)))
}

fn shift(left_ward: bool, value: ScalarValue, amount: ScalarValue) -> ScalarResult {
    if !amount.ty.is_int() {
        return Err(ScalarError::Undefined);
    }
    let amount: u32 = amount.to();
    with_integer!(value.ty, T => {
        let value = T::from_raw(value.bits);
        Ok(ScalarValue::of(if left_ward { value.op_shl(amount) } else { value.op_shr(amount) }))
    }, _ => Err(ScalarError::Undefined))
}

fn logic(op: BinaryOp, left: ScalarValue, right: ScalarValue) -> ScalarResult {
    with_logic!(left.ty, T => {
        let (a, b) = (T::from_raw(left.bits), T::from_raw(right.bits));
        Ok(ScalarValue::of(match op {
            BinaryOp::And | BinaryOp::BitAnd => a.op_and(b),
            BinaryOp::Or | BinaryOp::BitOr => a.op_or(b),
            _ => a.op_xor(b),
        }))
    }, _ => Err(ScalarError::Undefined))
}

fn numeric(op: BinaryOp, left: ScalarValue, right: ScalarValue) -> ScalarResult {
    use BinaryOp::*;
    with_number!(left.ty, T => {
        let (a, b) = (T::from_raw(left.bits), T::from_raw(right.bits));
        Ok(match op {
            Add => ScalarValue::of(a.op_add(b)),
            Sub => ScalarValue::of(a.op_sub(b)),
            Mul => ScalarValue::of(a.op_mul(b)),
            Div => ScalarValue::of(a.op_div(b)),
            Rem => ScalarValue::of(a.op_rem(b)),
            Pow => ScalarValue::of(a.op_pow(b)),
            Lt => ScalarValue::of(a.op_lt(b)),
            Le => ScalarValue::of(a.op_le(b)),
            Gt => ScalarValue::of(a.op_gt(b)),
            Ge => ScalarValue::of(a.op_ge(b)),
            _ => return Err(ScalarError::Undefined),
        }
        .with_canonical_nan())
    }, bool => Err(ScalarError::Undefined))
}

pub fn unary(op: UnaryOp, value: ScalarValue) -> ScalarResult {
    match op {
        UnaryOp::Neg => with_number!(value.ty, T => Ok(ScalarValue::of(T::from_raw(value.bits).op_neg())),
            bool => Err(ScalarError::Undefined)),
        UnaryOp::Not => with_logic!(value.ty, T => Ok(ScalarValue::of(T::from_raw(value.bits).op_not())),
            _ => Err(ScalarError::Undefined)),
    }
}

/// Evaluates a mathematical function on scalars of the same type.
pub fn math(function: MathFn, args: &[ScalarValue]) -> ScalarResult {
    let (first, rest) = args.split_first().ok_or(ScalarError::Undefined)?;
    if args.len() != function.row().arity || rest.iter().any(|v| v.ty != first.ty) {
        return Err(ScalarError::Undefined);
    }
    // The value of a missing argument does not matter; the first argument is used.
    let at = |i: usize| args.get(i).unwrap_or(first).bits;
    let bits = [at(0), at(1), at(2)];
    let value = with_number!(first.ty, T => {
        let args = &bits.map(T::from_raw)[..args.len()];
        numbers(function, args).or_else(|| powers(function, args))
    }, bool => None);
    let value = value.or_else(|| {
        with_float!(first.ty,
            T => {
                let args = &bits.map(T::from_raw)[..args.len()];
                floats(function, args)
                    .or_else(|| tests(function, args))
                    .or_else(|| approximations(function, args))
                    .or_else(|| singles(function, args))
            },
            _ => with_integer!(first.ty, T => integers(function, &bits.map(T::from_raw)[..args.len()]), _ => None))
    });
    match function {
        // These functions operate on the bits, even those of a NaN, so their result is not replaced by the canonical
        // NaN. Tensor cores convert NaN to `tf32` in the same way.
        MathFn::Tf32 | MathFn::Abs | MathFn::Copysign => value.ok_or(ScalarError::Undefined),
        _ => value.map(ScalarValue::with_canonical_nan).ok_or(ScalarError::Undefined),
    }
}

/// Generates a function for each family of the table of mathematical functions. It evaluates any function of the
/// family.
macro_rules! evaluate {
    ([] $($family:ident $rows:tt)*) => {
        $(evaluate!(@ $family $rows);)*
    };
    (@ Numbers $rows:tt) => { evaluate!(numbers NumericScalar $rows); };
    (@ Powers $rows:tt) => { evaluate!(powers NumericScalar $rows); };
    (@ Floats $rows:tt) => { evaluate!(floats Float $rows); };
    (@ Tests $rows:tt) => { evaluate!(tests Float $rows); };
    (@ Approximations $rows:tt) => { evaluate!(approximations Float $rows); };
    (@ Singles $rows:tt) => { evaluate!(singles Float $rows); };
    (@ Integers $rows:tt) => { evaluate!(integers Integer $rows); };
    ($name:ident $trait:ident { $(
        $variant:ident $n:literal ($first:ident $(, $more:ident)*) $method:ident $by:tt $cost:literal $cuda:tt $doc:literal;
    )* }) => {
        fn $name<T: $trait>(function: MathFn, args: &[T]) -> Option<ScalarValue> {
            Some(match (function, args) {
                $((MathFn::$variant, &[$first $(, $more)*]) => ScalarValue::of($first.$method($($more),*)),)*
                _ => return None,
            })
        }
    };
}

math_functions!(evaluate);

/// Converts a value by the rules of [`super::Convert`].
pub fn convert(to: Scalar, value: ScalarValue) -> ScalarValue {
    if to == value.ty { value } else { value.to_type(to).with_canonical_nan() }
}

/// Reinterprets the bits of a value as a value of another type with the same size.
pub fn bitcast(to: Scalar, value: ScalarValue) -> ScalarResult {
    if to.size() == value.ty.size() { Ok(ScalarValue::from_bits(to, value.bits)) } else { Err(ScalarError::Undefined) }
}

/// Returns the new value of a memory location after an atomic operation on `old`. Only a compare-exchange uses
/// `compare`, and compares it bitwise.
pub fn atomic(op: AtomicOp, old: ScalarValue, value: ScalarValue, compare: Option<ScalarValue>) -> ScalarResult {
    if old.ty != value.ty {
        return Err(ScalarError::Undefined);
    }
    match op {
        AtomicOp::Add => binary(BinaryOp::Add, old, value),
        AtomicOp::Sub => binary(BinaryOp::Sub, old, value),
        AtomicOp::Min => math(MathFn::Min, &[old, value]),
        AtomicOp::Max => math(MathFn::Max, &[old, value]),
        AtomicOp::And => binary(BinaryOp::BitAnd, old, value),
        AtomicOp::Or => binary(BinaryOp::BitOr, old, value),
        AtomicOp::Xor => binary(BinaryOp::BitXor, old, value),
        AtomicOp::Exchange => Ok(value),
        AtomicOp::CompareExchange => match compare {
            Some(expected) if expected.ty == old.ty => Ok(if expected.bits == old.bits { value } else { old }),
            _ => Err(ScalarError::Undefined),
        },
    }
}
