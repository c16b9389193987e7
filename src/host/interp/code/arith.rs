//! Functions on the bits of scalars, one per operator and type, made of the arithmetic of `lang::scalar`.

use crate::lang::ops::{BinaryOp, UnaryOp};
use crate::lang::scalar::{Element, Integer, Logic, Number, Scalar};
use crate::{with_element, with_float, with_integer, with_logic, with_number};

use super::{Fast, Test};

/// A function of one operand.
pub(super) enum One {
    Total(fn(u64) -> u64),
    /// Gives up where `host::ops` has to decide.
    Partial(fn(u64) -> Option<u64>),
}

/// A function of two operands.
pub(super) enum Two {
    Total(fn(u64, u64) -> u64),
    Partial(fn(u64, u64) -> Option<u64>),
}

/// Returns the function of an operator on two scalars of a type; the amount of a shift is a `u32` or an `i32`. `None` if this
/// operator is left to `host::ops`.
pub(super) fn binary(op: BinaryOp, ty: Scalar, checked: bool) -> Option<Two> {
    use BinaryOp::*;
    match op {
        Eq => Some(Two::Total(with_element!(ty, T => equal::<T>))),
        Ne => Some(Two::Total(with_element!(ty, T => unequal::<T>))),
        BitAnd | BitOr | BitXor => with_logic!(ty, T => Some(Two::Total(match op {
            BitAnd => and::<T>,
            BitOr => or::<T>,
            _ => xor::<T>,
        })), _ => None),
        Shl | Shr => with_integer!(ty, T => Some(match (op, checked) {
            (Shl, false) => Two::Total(shl::<T>),
            (Shl, true) => Two::Partial(shl_within::<T>),
            (_, false) => Two::Total(shr::<T>),
            (_, true) => Two::Partial(shr_within::<T>),
        }), _ => None),
        Lt | Le | Gt | Ge => with_number!(ty, T => Some(Two::Total(match op {
            Lt => less::<T>,
            Le => at_most::<T>,
            Gt => greater::<T>,
            _ => at_least::<T>,
        })), bool => None),
        Add | Sub | Mul if checked && ty.is_signed() => with_integer!(ty, T => Some(Two::Partial(match op {
            Add => add_within::<T>,
            Sub => sub_within::<T>,
            _ => mul_within::<T>,
        })), _ => None),
        Add | Sub | Mul => with_number!(ty, T => Some(Two::Total(match op {
            Add => add::<T>,
            Sub => sub::<T>,
            _ => mul::<T>,
        })), bool => None),
        Div | Rem => with_float!(ty,
            T => Some(Two::Total(if op == Div { div::<T> } else { rem::<T> })),
            _ => with_integer!(ty, T => Some(Two::Partial(if op == Div { div_by::<T> } else { rem_by::<T> })), _ => None)),
        Pow if checked && ty.is_signed() => None,
        Pow => with_number!(ty, T => Some(Two::Total(pow::<T>)), bool => None),
        MatMul | And | Or => None,
    }
}

/// Returns the function of a unary operator.
pub(super) fn unary(op: UnaryOp, ty: Scalar, checked: bool) -> Option<One> {
    match op {
        UnaryOp::Neg if checked && ty.is_signed() => {
            with_integer!(ty, T => Some(One::Partial(neg_within::<T>)), _ => None)
        }
        UnaryOp::Neg => with_number!(ty, T => Some(One::Total(neg::<T>)), bool => None),
        UnaryOp::Not => with_logic!(ty, T => Some(One::Total(not::<T>)), _ => None),
    }
}

/// Returns the function of a conversion. A checked one of a float to an integer type gives up outside of its range.
pub(super) fn convert(from: Scalar, to: Scalar, checked: bool) -> One {
    if checked && from.is_float() && to.is_int() {
        return with_float!(from,
            S => with_integer!(to, T => One::Partial(convert_within::<S, T>), _ => One::Partial(never)),
            _ => One::Partial(never));
    }
    with_element!(from, S => with_element!(to, T => One::Total(converted::<S, T>)))
}

/// Returns the instruction for a frequent operator that cannot fail.
pub(super) fn fast(op: BinaryOp, ty: Scalar, checked: bool) -> Option<Fast> {
    use BinaryOp::{Add, Div, Mul, Sub};
    Some(match (op, ty) {
        (Add, Scalar::F32) => Fast::AddF32,
        (Sub, Scalar::F32) => Fast::SubF32,
        (Mul, Scalar::F32) => Fast::MulF32,
        (Div, Scalar::F32) => Fast::DivF32,
        (Add, Scalar::F64) => Fast::AddF64,
        (Sub, Scalar::F64) => Fast::SubF64,
        (Mul, Scalar::F64) => Fast::MulF64,
        (Div, Scalar::F64) => Fast::DivF64,
        _ if checked => return None,
        (Add, Scalar::I32) => Fast::AddI32,
        (Sub, Scalar::I32) => Fast::SubI32,
        (Mul, Scalar::I32) => Fast::MulI32,
        (Add, Scalar::I64) => Fast::AddI64,
        (Sub, Scalar::I64) => Fast::SubI64,
        (Mul, Scalar::I64) => Fast::MulI64,
        _ => return None,
    })
}

/// Returns the instruction for a frequent comparison: which, whether its operands are exchanged, and the result that means
/// that the comparison holds.
pub(super) fn test(op: BinaryOp, ty: Scalar) -> Option<(Test, bool, bool)> {
    use BinaryOp::{Eq, Ge, Gt, Le, Lt, Ne};
    let (lt, le, eq) = match ty {
        Scalar::I32 => (Test::LtI32, Test::LeI32, Some(Test::EqI32)),
        Scalar::I64 => (Test::LtI64, Test::LeI64, Some(Test::EqI64)),
        Scalar::F32 => (Test::LtF32, Test::LeF32, None),
        Scalar::F64 => (Test::LtF64, Test::LeF64, None),
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
        fn $name<T: Number>(a: u64, b: u64) -> u64 {
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

fn equal<T: Element>(a: u64, b: u64) -> u64 {
    T::from_raw(a).op_eq(T::from_raw(b)).into()
}

fn unequal<T: Element>(a: u64, b: u64) -> u64 {
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

fn neg<T: Number>(a: u64) -> u64 {
    T::from_raw(a).op_neg().to_raw()
}

fn shl<T: Integer>(a: u64, amount: u64) -> u64 {
    T::from_raw(a).op_shl(amount as u32).to_raw()
}

fn shr<T: Integer>(a: u64, amount: u64) -> u64 {
    T::from_raw(a).op_shr(amount as u32).to_raw()
}

fn shl_within<T: Integer>(a: u64, amount: u64) -> Option<u64> {
    (amount < u64::from(T::BITS)).then(|| shl::<T>(a, amount))
}

fn shr_within<T: Integer>(a: u64, amount: u64) -> Option<u64> {
    (amount < u64::from(T::BITS)).then(|| shr::<T>(a, amount))
}

/// Returns a number of a signed type, if it fits.
fn fitting<T: Integer>(exact: Option<i64>) -> Option<u64> {
    let number = crate::lang::scalar::Element::to::<T>(exact?);
    (number.to::<i64>() == exact?).then(|| number.to_raw())
}

fn wide<T: Integer>(bits: u64) -> i64 {
    T::from_raw(bits).to::<i64>()
}

fn add_within<T: Integer>(a: u64, b: u64) -> Option<u64> {
    fitting::<T>(wide::<T>(a).checked_add(wide::<T>(b)))
}

fn sub_within<T: Integer>(a: u64, b: u64) -> Option<u64> {
    fitting::<T>(wide::<T>(a).checked_sub(wide::<T>(b)))
}

fn mul_within<T: Integer>(a: u64, b: u64) -> Option<u64> {
    fitting::<T>(wide::<T>(a).checked_mul(wide::<T>(b)))
}

fn neg_within<T: Integer>(a: u64) -> Option<u64> {
    fitting::<T>(wide::<T>(a).checked_neg())
}

/// Gives up for a zero divisor, and for a signed one of -1, whose quotient may overflow.
fn div_by<T: Integer>(a: u64, b: u64) -> Option<u64> {
    let (a, b) = (T::from_raw(a), T::from_raw(b));
    (!is_special(b)).then(|| a.op_div(b).to_raw())
}

fn rem_by<T: Integer>(a: u64, b: u64) -> Option<u64> {
    let (a, b) = (T::from_raw(a), T::from_raw(b));
    (!is_special(b)).then(|| a.op_rem(b).to_raw())
}

fn is_special<T: Integer>(divisor: T) -> bool {
    divisor == T::default() || T::SCALAR.is_signed() && divisor.to::<i64>() == -1
}

fn converted<S: Element, T: Element>(a: u64) -> u64 {
    S::from_raw(a).to::<T>().to_raw()
}

/// Converts a float whose integer part surely fits.
fn convert_within<S: Element, T: Integer>(a: u64) -> Option<u64> {
    let x = S::from_raw(a).to::<f64>();
    let bits = T::BITS.min(53) - u32::from(T::SCALAR.is_signed());
    let limit = (1u64 << bits) as f64;
    let low = if T::SCALAR.is_signed() { -limit } else { 0.0 };
    (x >= low && x < limit).then(|| S::from_raw(a).to::<T>().to_raw())
}

fn never(_: u64) -> Option<u64> {
    None
}
