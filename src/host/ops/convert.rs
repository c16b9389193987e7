//! Conversions between scalar types, elementwise.

use crate::array::{Array, ElementType};
use crate::graph::{ElementwiseOp, ExecContext};
use crate::ops::elementwise::{ARGUMENTS, apply};
use crate::ops::operand::{ScalarOperands, undefined};
use crate::problem::{HostResult, RuntimeError};
use crate::value::{HostValue, Vector};
use clk_scalar::{Scalar, dynamic};
use clk_syntax::literal;

/// Evaluates `f32(x)` by the language's conversion rules, elementwise on vectors and arrays.
pub fn convert(exec: &ExecContext, to: Scalar, value: &HostValue) -> HostResult<HostValue> {
    match value {
        HostValue::Scalar(number) => Ok(HostValue::Scalar(number.to_type(to))),
        HostValue::Int(n) => Ok(HostValue::Scalar(match clk_scalar::ScalarValue::from_integer(to, *n) {
            Some(exact) if to != Scalar::Bool => exact,
            _ => clk_scalar::ScalarValue::of(*n as i64).to_type(to),
        })),
        HostValue::Float(x) => Ok(HostValue::Scalar(clk_scalar::ScalarValue::of(*x).to_type(to))),
        HostValue::Vector(vector) => {
            Ok(HostValue::Vector(Vector::new(to, vector.values().map(|lane| lane.to_type(to).bits))))
        }
        HostValue::Array(array) => match array.scalar() {
            Some(from) if from == to => Ok(value.clone()),
            _ => {
                let function = format!("`{to}`");
                let operands = ScalarOperands::new(&[value], &function)?;
                apply(exec, ElementwiseOp::Convert(to), operands, &ARGUMENTS, || undefined(&function, &[value]))
            }
        },
        HostValue::Unit
        | HostValue::Str(_)
        | HostValue::Record(_)
        | HostValue::Tuple(_)
        | HostValue::Range(_)
        | HostValue::Table(_) => Err(undefined(&format!("`{to}`"), &[value])),
        HostValue::Strings(_) | HostValue::Timing(_) | HostValue::Kernel(_) | HostValue::Traced(_) => {
            Err(undefined(&format!("`{to}`"), &[value]))
        }
    }
}

/// Evaluates `bitcast(f32x4, x)` for an array: reinterprets its bytes as elements of another type.
pub(crate) fn bitcast_array(to: ElementType, array: &Array) -> HostResult<HostValue> {
    let from = array.element();
    if [from, &to].iter().any(|element| matches!(element.scalar(), None | Some(Scalar::Bool))) && *from != to {
        return Err(undefined(&format!("`bitcast({to}, …)`"), &[&HostValue::Array(array.clone())]));
    }
    array.reinterpret(to.clone()).map(HostValue::Array).ok_or_else(|| {
        let row = array.shape().last().copied().unwrap_or(1);
        RuntimeError::new("E0503", format!("a row of {row} {from} does not make whole {to}"))
            .label(format!("{from} has {} bytes, {to} has {}", from.size(), to.size()))
            .help("the last extent times the size of an element must be a multiple of the new size")
    })
}

/// Evaluates `bitcast(u32, x)`: reinterprets the bits as another type of the same size.
pub fn bitcast(to: Scalar, value: &HostValue) -> HostResult<HostValue> {
    let value = value.clone().with_default_type();
    let undefined = || undefined(&format!("`bitcast({to}, …)`"), &[&value]);
    let sizes = |from: Scalar| {
        let (a, b) = (from.size() * 8, to.size() * 8);
        RuntimeError::new("E0505", format!("`bitcast` from {from} to {to}, which have different sizes"))
            .label(format!("{from} has {a} bits, {to} has {b}"))
    };
    let check_size = |from: Scalar| match from.size() == to.size() {
        true if (from == Scalar::Bool) == (to == Scalar::Bool) => Ok(()),
        true => Err(undefined()),
        false => Err(sizes(from)),
    };
    match &value {
        HostValue::Scalar(number) => {
            check_size(number.ty)?;
            dynamic::bitcast(to, *number).map(HostValue::Scalar).map_err(|_| undefined())
        }
        HostValue::Vector(vector) => {
            check_size(vector.ty())?;
            Ok(HostValue::Vector(Vector::new(to, vector.values().map(|lane| lane.bits))))
        }
        HostValue::Array(array) => {
            check_size(array.scalar().ok_or_else(undefined)?)?;
            bitcast_array(array.element().with_scalar(to), array)
        }
        _ => Err(undefined()),
    }
}

/// Maximum number of characters of a text that a message shows.
const SHOWN: usize = 40;

/// Evaluates `parse(i32, text)`.
pub(crate) fn parse(ty: Scalar, text: &str) -> HostResult<HostValue> {
    match literal::parse_value(ty, text.trim()) {
        Some(number) => Ok(HostValue::Scalar(number)),
        None => {
            let shown: String = text.chars().take(SHOWN).collect();
            let more = if shown.len() < text.len() { " and so on" } else { "" };
            let problem = RuntimeError::new("E0544", format!("the text {shown:?}{more} is not a value of type {ty}"));
            Err(match ty {
                Scalar::Bool => problem.help("a bool is spelled `true` or `false`"),
                _ if ty.is_int() && literal::parse_value(Scalar::F64, text.trim()).is_some() => problem
                    .note("it is a number, but not an integer that fits the type")
                    .help("parse it as `f64` and convert"),
                _ if text.trim().starts_with("0o") => {
                    problem.help("numbers are decimal, or in hexadecimal and binary: `0x1f`, `0b101`")
                }
                _ if text.contains(',') && literal::parse_value(ty, text.replace(',', ".").trim()).is_some() => {
                    problem.help("numbers have a point: `replace(text, \",\", \".\")`")
                }
                _ => problem,
            })
        }
    }
}
