//! Operations on values whose type is known only at run time: for constant folding, the host and the reference interpreter.
//! They dispatch to the generic functions, so that the bits are the same everywhere. A NaN that they compute has the bits
//! [`Scalar::nan`].

use std::fmt;

use super::{Element, Float, Integer, Logic, Number, Scalar, Value};
use crate::lang::functions::math_functions;
use crate::lang::ops::{AtomicOp, BinaryOp, MathFn, UnaryOp};
use crate::{with_element, with_float, with_integer, with_logic, with_number};

/// Why an operation has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An integer division or remainder by zero.
    DivisionByZero,
    /// The operation is not defined for these types, which the checker rules out.
    Undefined,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::DivisionByZero => "division by zero",
            Failure::Undefined => "the operation is not defined for these types",
        })
    }
}

type Outcome = Result<Value, Failure>;

/// Evaluates a binary operator on values of one type; a shift's amount may be of any integer type. `And` and `Or` operate on
/// `bool`, with both sides evaluated.
pub fn binary(op: BinaryOp, left: Value, right: Value) -> Outcome {
    use BinaryOp::*;
    if matches!(op, Shl | Shr) {
        return shift(op == Shl, left, right);
    }
    if left.ty != right.ty {
        return Err(Failure::Undefined);
    }
    match op {
        Eq | Ne => Ok(Value::of(equal(left, right) == (op == Eq))),
        And | Or if left.ty != Scalar::Bool => Err(Failure::Undefined),
        And | Or | BitAnd | BitOr | BitXor => logic(op, left, right),
        Div | Rem if left.ty.is_int() && right.bits == 0 => Err(Failure::DivisionByZero),
        Add | Sub | Mul | Div | Rem | Pow | Lt | Le | Gt | Ge => numeric(op, left, right),
        MatMul | Shl | Shr => Err(Failure::Undefined),
    }
}

fn equal(left: Value, right: Value) -> bool {
    with_element!(left.ty, T => T::from_raw(left.bits).op_eq(T::from_raw(right.bits)))
}

fn shift(left_ward: bool, value: Value, amount: Value) -> Outcome {
    if !amount.ty.is_int() {
        return Err(Failure::Undefined);
    }
    let amount: u32 = amount.to();
    with_integer!(value.ty, T => {
        let value = T::from_raw(value.bits);
        Ok(Value::of(if left_ward { value.op_shl(amount) } else { value.op_shr(amount) }))
    }, _ => Err(Failure::Undefined))
}

fn logic(op: BinaryOp, left: Value, right: Value) -> Outcome {
    with_logic!(left.ty, T => {
        let (a, b) = (T::from_raw(left.bits), T::from_raw(right.bits));
        Ok(Value::of(match op {
            BinaryOp::And | BinaryOp::BitAnd => a.op_and(b),
            BinaryOp::Or | BinaryOp::BitOr => a.op_or(b),
            _ => a.op_xor(b),
        }))
    }, _ => Err(Failure::Undefined))
}

fn numeric(op: BinaryOp, left: Value, right: Value) -> Outcome {
    use BinaryOp::*;
    with_number!(left.ty, T => {
        let (a, b) = (T::from_raw(left.bits), T::from_raw(right.bits));
        Ok(match op {
            Add => Value::of(a.op_add(b)),
            Sub => Value::of(a.op_sub(b)),
            Mul => Value::of(a.op_mul(b)),
            Div => Value::of(a.op_div(b)),
            Rem => Value::of(a.op_rem(b)),
            Pow => Value::of(a.op_pow(b)),
            Lt => Value::of(a.op_lt(b)),
            Le => Value::of(a.op_le(b)),
            Gt => Value::of(a.op_gt(b)),
            Ge => Value::of(a.op_ge(b)),
            _ => return Err(Failure::Undefined),
        }
        .with_defined_nan())
    }, bool => Err(Failure::Undefined))
}

pub fn unary(op: UnaryOp, value: Value) -> Outcome {
    match op {
        UnaryOp::Neg => with_number!(value.ty, T => Ok(Value::of(T::from_raw(value.bits).op_neg())),
            bool => Err(Failure::Undefined)),
        UnaryOp::Not => with_logic!(value.ty, T => Ok(Value::of(T::from_raw(value.bits).op_not())),
            _ => Err(Failure::Undefined)),
    }
}

/// Evaluates a mathematical function on scalars of one type.
pub fn math(function: MathFn, args: &[Value]) -> Outcome {
    let (first, rest) = args.split_first().ok_or(Failure::Undefined)?;
    if args.len() != function.row().arity || rest.iter().any(|v| v.ty != first.ty) {
        return Err(Failure::Undefined);
    }
    // Unused arguments are filled with the first one.
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
        // These change bits, also of a NaN; `tf32` as tensor cores do.
        MathFn::Tf32 | MathFn::Abs | MathFn::Copysign => value.ok_or(Failure::Undefined),
        _ => value.map(Value::with_defined_nan).ok_or(Failure::Undefined),
    }
}

/// Writes the functions that evaluate the families of the table.
macro_rules! evaluate {
    ([] $($family:ident $rows:tt)*) => {
        $(evaluate!(@ $family $rows);)*
    };
    (@ Numbers $rows:tt) => { evaluate!(numbers Number $rows); };
    (@ Powers $rows:tt) => { evaluate!(powers Number $rows); };
    (@ Floats $rows:tt) => { evaluate!(floats Float $rows); };
    (@ Tests $rows:tt) => { evaluate!(tests Float $rows); };
    (@ Approximations $rows:tt) => { evaluate!(approximations Float $rows); };
    (@ Singles $rows:tt) => { evaluate!(singles Float $rows); };
    (@ Integers $rows:tt) => { evaluate!(integers Integer $rows); };
    ($name:ident $trait:ident { $(
        $variant:ident $n:literal ($first:ident $(, $more:ident)*) $method:ident $by:tt $cost:literal $cuda:tt $doc:literal;
    )* }) => {
        fn $name<T: $trait>(function: MathFn, args: &[T]) -> Option<Value> {
            Some(match (function, args) {
                $((MathFn::$variant, &[$first $(, $more)*]) => Value::of($first.$method($($more),*)),)*
                _ => return None,
            })
        }
    };
}

math_functions!(evaluate);

/// Converts a value by the rules of [`super::Convert`].
pub fn convert(to: Scalar, value: Value) -> Value {
    if to == value.ty { value } else { value.to_type(to).with_defined_nan() }
}

/// Reinterprets the bits as another type of the same size.
pub fn bitcast(to: Scalar, value: Value) -> Outcome {
    if to.size() == value.ty.size() { Ok(Value::from_bits(to, value.bits)) } else { Err(Failure::Undefined) }
}

/// Returns the new value of a memory location after an atomic operation on `old`. Only a compare-exchange uses `compare`, which
/// is compared bitwise.
pub fn atomic(op: AtomicOp, old: Value, value: Value, compare: Option<Value>) -> Outcome {
    if old.ty != value.ty {
        return Err(Failure::Undefined);
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
            _ => Err(Failure::Undefined),
        },
    }
}
