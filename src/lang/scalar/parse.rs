//! Parsing of values.

use super::{Scalar, Value};

/// Parses a number (or `true`, `false`) as in source code: `_` between digits, `0x`, `0b` and `0o` for integers, `inf` and
/// `nan` for floats, and a sign. `None` if it is not a value of the type or out of range.
pub fn parse(ty: Scalar, text: &str) -> Option<Value> {
    match ty {
        Scalar::Bool => match text {
            "true" => Some(Value::of(true)),
            "false" => Some(Value::of(false)),
            _ => None,
        },
        _ if ty.is_float() => float(ty, text),
        _ => Value::from_integer(ty, integer(text)?),
    }
}

/// Parses an integer of up to 127 bits.
pub(crate) fn integer(text: &str) -> Option<i128> {
    let (negative, digits) = sign(text);
    let (radix, digits) = match digits.get(..2) {
        Some("0x" | "0X") => (16, &digits[2..]),
        Some("0b" | "0B") => (2, &digits[2..]),
        Some("0o" | "0O") => (8, &digits[2..]),
        _ => (10, digits),
    };
    let digits = without_separators(digits)?;
    let first = digits.chars().next()?;
    if !first.is_digit(radix) {
        return None;
    }
    let magnitude = i128::from_str_radix(&digits, radix).ok()?;
    Some(if negative { -magnitude } else { magnitude })
}

fn float(ty: Scalar, text: &str) -> Option<Value> {
    let (negative, digits) = sign(text);
    let digits = without_separators(digits)?;
    let spelled = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') || digits == "inf" || digits == "nan";
    if !spelled {
        return None;
    }
    let signed = if negative { format!("-{digits}") } else { digits.clone() };
    let wide: f64 = signed.parse().ok()?;
    let value = match ty {
        // Parsed as `f32` so that it is rounded only once.
        Scalar::F32 => Value::of(signed.parse::<f32>().ok()?),
        _ => Value::of(wide).to_type(ty),
    };
    // A finite number that becomes infinite is out of range.
    let overflow = value.as_f64().is_infinite() && digits != "inf";
    (!overflow).then_some(value)
}

fn sign(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// Removes the `_` between digits; `None` if there is one elsewhere.
fn without_separators(text: &str) -> Option<String> {
    if text.starts_with('_') || text.ends_with('_') {
        return None;
    }
    Some(text.replace('_', ""))
}
