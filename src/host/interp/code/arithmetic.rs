//! Functions that apply an operator to the bits of scalars: one for each operator and type, instantiated from
//! `clk_scalar`.

use clk_scalar::ops::{BinaryOp, UnaryOp};
use clk_scalar::{Integer, Logic, NumericScalar, Scalar, ScalarType};
use clk_scalar::{with_element, with_float, with_integer, with_logic, with_number};

use super::{FastOp, FastTest};

/// A function of one operand.
pub(super) enum UnaryFn {
    Total(fn(u64) -> u64),
    /// The function returns `None` for operands that need the slow path, `clk_host::ops`.
    Partial(fn(u64) -> Option<u64>),
}

/// A function of two operands.
pub(super) enum BinaryFn {
    Total(fn(u64, u64) -> u64),
    Partial(fn(u64, u64) -> Option<u64>),
}

/// Returns the function of a binary operator on scalars of a type. Shift amounts are `u32` or `i32`. Returns `None` for
/// operators that only `clk_host::ops` implements.
pub(super) fn binary_fn(op: BinaryOp, ty: Scalar, checked: bool) -> Option<BinaryFn> {
    use BinaryOp::*;
    match op {
        Eq => Some(BinaryFn::Total(with_element!(ty, T => equal::<T>))),
        Ne => Some(BinaryFn::Total(with_element!(ty, T => unequal::<T>))),
        BitAnd | BitOr | BitXor => with_logic!(ty, T => Some(BinaryFn::Total(match op {
            BitAnd => and::<T>,
            BitOr => or::<T>,
            _ => xor::<T>,
        })), _ => None),
        Shl | Shr => with_integer!(ty, T => Some(match (op, checked) {
            (Shl, false) => BinaryFn::Total(shl::<T>),
            (Shl, true) => BinaryFn::Partial(checked_shl::<T>),
            (_, false) => BinaryFn::Total(shr::<T>),
            (_, true) => BinaryFn::Partial(checked_shr::<T>),
        }), _ => None),
        Lt | Le | Gt | Ge => with_number!(ty, T => Some(BinaryFn::Total(match op {
            Lt => less::<T>,
            Le => at_most::<T>,
            Gt => greater::<T>,
            _ => at_least::<T>,
        })), bool => None),
        Add | Sub | Mul if checked && ty.is_signed() => with_integer!(ty, T => Some(BinaryFn::Partial(match op {
            Add => checked_add::<T>,
            Sub => checked_sub::<T>,
            _ => checked_mul::<T>,
        })), _ => None),
        Add | Sub | Mul => with_number!(ty, T => Some(BinaryFn::Total(match op {
            Add => add::<T>,
            Sub => sub::<T>,
            _ => mul::<T>,
        })), bool => None),
        Div | Rem => with_float!(ty,
            T => Some(BinaryFn::Total(if op == Div { div::<T> } else { rem::<T> })),
            _ => with_integer!(ty, T => Some(BinaryFn::Partial(if op == Div { integer_div::<T> } else { integer_rem::<T> })), _ => None)),
        Pow if checked && ty.is_signed() => None,
        Pow => with_number!(ty, T => Some(BinaryFn::Total(pow::<T>)), bool => None),
        MatMul | And | Or => None,
    }
}

/// Returns the function of a unary operator.
pub(super) fn unary_fn(op: UnaryOp, ty: Scalar, checked: bool) -> Option<UnaryFn> {
    match op {
        UnaryOp::Neg if checked && ty.is_signed() => {
            with_integer!(ty, T => Some(UnaryFn::Partial(checked_neg::<T>)), _ => None)
        }
        UnaryOp::Neg => with_number!(ty, T => Some(UnaryFn::Total(neg::<T>)), bool => None),
        UnaryOp::Not => with_logic!(ty, T => Some(UnaryFn::Total(not::<T>)), _ => None),
    }
}

/// Returns the function that converts between two types. If `checked`, the function of a float-to-integer conversion
/// returns `None` for values out of range.
pub(super) fn convert_fn(from: Scalar, to: Scalar, checked: bool) -> UnaryFn {
    if checked && from.is_float() && to.is_int() {
        return with_float!(from,
            S => with_integer!(to, T => UnaryFn::Partial(checked_convert::<S, T>), _ => UnaryFn::Partial(always_none)),
            _ => UnaryFn::Partial(always_none));
    }
    with_element!(from, S => with_element!(to, T => UnaryFn::Total(converted::<S, T>)))
}

/// Returns the dedicated instruction of an operator; `None` if it has none, or if the operator may fail.
pub(super) fn fast_op(op: BinaryOp, ty: Scalar, checked: bool) -> Option<FastOp> {
    use BinaryOp::{Add, Div, Mul, Sub};
    Some(match (op, ty) {
        (Add, Scalar::F32) => FastOp::AddF32,
        (Sub, Scalar::F32) => FastOp::SubF32,
        (Mul, Scalar::F32) => FastOp::MulF32,
        (Div, Scalar::F32) => FastOp::DivF32,
        (Add, Scalar::F64) => FastOp::AddF64,
        (Sub, Scalar::F64) => FastOp::SubF64,
        (Mul, Scalar::F64) => FastOp::MulF64,
        (Div, Scalar::F64) => FastOp::DivF64,
        _ if checked => return None,
        (Add, Scalar::I32) => FastOp::AddI32,
        (Sub, Scalar::I32) => FastOp::SubI32,
        (Mul, Scalar::I32) => FastOp::MulI32,
        (Add, Scalar::I64) => FastOp::AddI64,
        (Sub, Scalar::I64) => FastOp::SubI64,
        (Mul, Scalar::I64) => FastOp::MulI64,
        _ => return None,
    })
}

/// Returns the dedicated instruction of a comparison; `None` if it has none. The first flag says whether to swap the
/// operands. The comparison is true if the instruction's result equals the second flag.
pub(super) fn fast_test(op: BinaryOp, ty: Scalar) -> Option<(FastTest, bool, bool)> {
    use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
    let (lt, le, eq) = match ty {
        Scalar::I32 => (FastTest::LtI32, FastTest::LeI32, Some(FastTest::EqI32)),
        Scalar::I64 => (FastTest::LtI64, FastTest::LeI64, Some(FastTest::EqI64)),
        Scalar::F32 => (FastTest::LtF32, FastTest::LeF32, None),
        Scalar::F64 => (FastTest::LtF64, FastTest::LeF64, None),
        _ => return None,
    };
    Some(match op {
        Lt => (lt, false, true),
        Le => (le, false, true),
        Gt => (lt, true, true),
        Ge => (le, true, true),
        Eq => (eq?, false, true),
        Ne => (eq?, false, false),
        _ => return None,
    })
}

macro_rules! numbers {
    ($($name:ident: $op:ident,)*) => {$(
        fn $name<T: NumericScalar>(a: u64, b: u64) -> u64 {
            T::from_raw(a).$op(T::from_raw(b)).to_raw()
        }
    )*};
}

numbers! {
    add: op_add,
    sub: op_sub,
    mul: op_mul,
    div: op_div,
    rem: op_rem,
    pow: op_pow,
    less: op_lt,
    at_most: op_le,
    greater: op_gt,
    at_least: op_ge,
}

fn equal<T: ScalarType>(a: u64, b: u64) -> u64 {
    T::from_raw(a).op_eq(T::from_raw(b)).into()
}

fn unequal<T: ScalarType>(a: u64, b: u64) -> u64 {
    T::from_raw(a).op_ne(T::from_raw(b)).into()
}

fn and<T: Logic>(a: u64, b: u64) -> u64 {
    T::from_raw(a).op_and(T::from_raw(b)).to_raw()
}

fn or<T: Logic>(a: u64, b: u64) -> u64 {
    T::from_raw(a).op_or(T::from_raw(b)).to_raw()
}

fn xor<T: Logic>(a: u64, b: u64) -> u64 {
    T::from_raw(a).op_xor(T::from_raw(b)).to_raw()
}

fn not<T: Logic>(a: u64) -> u64 {
    T::from_raw(a).op_not().to_raw()
}

fn neg<T: NumericScalar>(a: u64) -> u64 {
    T::from_raw(a).op_neg().to_raw()
}

fn shl<T: Integer>(a: u64, amount: u64) -> u64 {
    T::from_raw(a).op_shl(amount as u32).to_raw()
}

fn shr<T: Integer>(a: u64, amount: u64) -> u64 {
    T::from_raw(a).op_shr(amount as u32).to_raw()
}

fn checked_shl<T: Integer>(a: u64, amount: u64) -> Option<u64> {
    (amount < u64::from(T::BITS)).then(|| shl::<T>(a, amount))
}

fn checked_shr<T: Integer>(a: u64, amount: u64) -> Option<u64> {
    (amount < u64::from(T::BITS)).then(|| shr::<T>(a, amount))
}

/// Returns the bits of an exact result as a value of the signed type `T`; `None` if the result is out of range.
fn fitting<T: Integer>(exact: Option<i64>) -> Option<u64> {
    let number = clk_scalar::ScalarType::to::<T>(exact?);
    (number.to::<i64>() == exact?).then(|| number.to_raw())
}

fn wide<T: Integer>(bits: u64) -> i64 {
    T::from_raw(bits).to::<i64>()
}

fn checked_add<T: Integer>(a: u64, b: u64) -> Option<u64> {
    fitting::<T>(wide::<T>(a).checked_add(wide::<T>(b)))
}

fn checked_sub<T: Integer>(a: u64, b: u64) -> Option<u64> {
    fitting::<T>(wide::<T>(a).checked_sub(wide::<T>(b)))
}

fn checked_mul<T: Integer>(a: u64, b: u64) -> Option<u64> {
    fitting::<T>(wide::<T>(a).checked_mul(wide::<T>(b)))
}

fn checked_neg<T: Integer>(a: u64) -> Option<u64> {
    fitting::<T>(wide::<T>(a).checked_neg())
}

/// Divides. Returns `None` if the divisor is 0, which is an error, or -1, for which the quotient may overflow.
fn integer_div<T: Integer>(a: u64, b: u64) -> Option<u64> {
    let (a, b) = (T::from_raw(a), T::from_raw(b));
    (!is_special(b)).then(|| a.op_div(b).to_raw())
}

fn integer_rem<T: Integer>(a: u64, b: u64) -> Option<u64> {
    let (a, b) = (T::from_raw(a), T::from_raw(b));
    (!is_special(b)).then(|| a.op_rem(b).to_raw())
}

fn is_special<T: Integer>(divisor: T) -> bool {
    divisor == T::default() || T::SCALAR.is_signed() && divisor.to::<i64>() == -1
}

fn converted<S: ScalarType, T: ScalarType>(a: u64) -> u64 {
    S::from_raw(a).to::<T>().to_raw()
}

/// Converts a float to an integer. Returns `None` unless its integer part is definitely in range.
fn checked_convert<S: ScalarType, T: Integer>(a: u64) -> Option<u64> {
    let x = S::from_raw(a).to::<f64>();
    let bits = T::BITS.min(53) - u32::from(T::SCALAR.is_signed());
    let limit = (1u64 << bits) as f64;
    let low = if T::SCALAR.is_signed() { -limit } else { 0.0 };
    (x >= low && x < limit).then(|| S::from_raw(a).to::<T>().to_raw())
}

fn always_none(_: u64) -> Option<u64> {
    None
}
