//! Conversions between scalar types, elementwise.

use crate::host::array::{Array, Element};
use crate::host::graph::Op;
use crate::host::ops::elementwise::{ARGUMENTS, apply};
use crate::host::ops::operand::{Operands, undefined};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::{Value, Vector};
use crate::lang::scalar::{self, Scalar, dynamic};
use crate::syntax::literal;

/// Evaluates `f32(x)` by the language's conversion rules, elementwise on vectors and arrays.
pub fn convert(to: Scalar, value: &Value) -> Outcome<Value> {
    match value {
        Value::Scalar(number) => Ok(Value::Scalar(number.to_type(to))),
        Value::Int(n) => Ok(Value::Scalar(match scalar::Value::from_integer(to, *n) {
            Some(exact) if to != Scalar::Bool => exact,
            _ => scalar::Value::of(*n as i64).to_type(to),
        })),
        Value::Float(x) => Ok(Value::Scalar(scalar::Value::of(*x).to_type(to))),
        Value::Vector(vector) => Ok(Value::Vector(Vector::new(to, vector.values().map(|lane| lane.to_type(to).bits)))),
        Value::Array(array) => match array.scalar() {
            Some(from) if from == to => Ok(value.clone()),
            _ => {
                let what = format!("`{to}`");
                let operands = Operands::new(&[value], &what)?;
                apply(Op::Convert(to), operands, &ARGUMENTS, || undefined(&what, &[value]))
            }
        },
        Value::Unit | Value::Str(_) | Value::Record(_) | Value::Tuple(_) | Value::Range(_) | Value::Table(_) => {
            Err(undefined(&format!("`{to}`"), &[value]))
        }
        Value::Strings(_) | Value::Timing(_) | Value::Kernel(_) | Value::Traced(_) => {
            Err(undefined(&format!("`{to}`"), &[value]))
        }
    }
}

/// Evaluates `bitcast(f32x4, x)` for an array: reinterprets its bytes as elements of another type.
pub(crate) fn bitcast_array(to: Element, array: &Array) -> Outcome<Value> {
    let from = array.element();
    if [from, &to].iter().any(|element| matches!(element.scalar(), None | Some(Scalar::Bool))) && *from != to {
        return Err(undefined(&format!("`bitcast({to}, …)`"), &[&Value::Array(array.clone())]));
    }
    array.reinterpret(to.clone()).map(Value::Array).ok_or_else(|| {
        let row = array.shape().last().copied().unwrap_or(1);
        Problem::new("E0503", format!("a row of {row} {from} does not make whole {to}"))
            .label(format!("{from} has {} bytes, {to} has {}", from.size(), to.size()))
            .help("the last extent times the size of an element has to be a multiple of the new size")
    })
}

/// Evaluates `bitcast(u32, x)`: reinterprets the bits as another type of the same size.
pub fn bitcast(to: Scalar, value: &Value) -> Outcome<Value> {
    let value = value.clone().settled();
    let undefined = || undefined(&format!("`bitcast({to}, …)`"), &[&value]);
    let sizes = |from: Scalar| {
        let (a, b) = (from.size() * 8, to.size() * 8);
        Problem::new("E0505", format!("`bitcast` from {from} to {to}, which have different sizes"))
            .label(format!("{from} has {a} bits, {to} has {b}"))
    };
    let fits = |from: Scalar| match from.size() == to.size() {
        true if (from == Scalar::Bool) == (to == Scalar::Bool) => Ok(()),
        true => Err(undefined()),
        false => Err(sizes(from)),
    };
    match &value {
        Value::Scalar(number) => {
            fits(number.ty)?;
            dynamic::bitcast(to, *number).map(Value::Scalar).map_err(|_| undefined())
        }
        Value::Vector(vector) => {
            fits(vector.ty())?;
            Ok(Value::Vector(Vector::new(to, vector.values().map(|lane| lane.bits))))
        }
        Value::Array(array) => {
            fits(array.scalar().ok_or_else(undefined)?)?;
            bitcast_array(array.element().with_scalar(to), array)
        }
        _ => Err(undefined()),
    }
}

/// Number of characters of a text shown in a message.
const SHOWN: usize = 40;

/// Evaluates `parse(i32, text)`.
pub(crate) fn parse(ty: Scalar, text: &str) -> Outcome<Value> {
    match literal::value(ty, text.trim()) {
        Some(number) => Ok(Value::Scalar(number)),
        None => {
            let shown: String = text.chars().take(SHOWN).collect();
            let more = if shown.len() < text.len() { " and so on" } else { "" };
            let problem = Problem::new("E0544", format!("the text {shown:?}{more} is not a value of type {ty}"));
            Err(match ty {
                Scalar::Bool => problem.help("a bool is spelled `true` or `false`"),
                _ if ty.is_int() && literal::value(Scalar::F64, text.trim()).is_some() => problem
                    .note("it is a number, but no integer that the type can hold")
                    .help("parse it as `f64` and convert"),
                _ if text.trim().starts_with("0o") => {
                    problem.help("numbers are decimal, or in hexadecimal and binary: `0x1f`, `0b101`")
                }
                _ if text.contains(',') && literal::value(ty, text.replace(',', ".").trim()).is_some() => {
                    problem.help("numbers have a point: `replace(text, \",\", \".\")`")
                }
                _ => problem,
            })
        }
    }
}
