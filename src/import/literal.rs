//! Interprets the text of number, character and string tokens.

use crate::ast::{BasicType, CharLiteral, FloatLiteral, IntLength, IntLiteral, StringLiteral};
use smol_str::SmolStr;

/// Interprets an integer literal: `12`, `0x1fULL`, `0b11`, `017`, `1'000`. `None` if it is not one, or too large.
pub(crate) fn integer(text: &str) -> Option<IntLiteral> {
    let digits: String = text.chars().filter(|&c| c != '\'').collect();
    let lower = digits.to_ascii_lowercase();
    let (radix, body) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    let end = body.find(|c: char| !c.is_digit(radix)).unwrap_or(body.len());
    let (number, suffix) = body.split_at(end);
    let (unsigned, length) = match suffix {
        "" => (false, IntLength::Int),
        "u" => (true, IntLength::Int),
        "l" => (false, IntLength::Long),
        "ul" | "lu" => (true, IntLength::Long),
        "ll" => (false, IntLength::LongLong),
        "ull" | "llu" => (true, IntLength::LongLong),
        // The suffix `z` is C++23's.
        _ => return None,
    };
    // `0u` and `0L` have no digits after the prefix of octal numbers.
    let value = match (number, radix) {
        ("", 8) => 0,
        ("", _) => return None,
        _ => u64::from_str_radix(number, radix).ok()?,
    };
    Some(IntLiteral { value, radix, unsigned, length })
}

/// Interprets a floating-point literal: `1.5`, `.5f`, `1e-3`, `0x1.8p3`. `None` if it is not one.
pub(crate) fn float(text: &str) -> Option<FloatLiteral> {
    let digits: String = text.chars().filter(|&c| c != '\'').collect();
    let lower = digits.to_ascii_lowercase();
    let hex = lower.starts_with("0x");
    let (number, ty) = match lower.as_bytes().last()? {
        b'f' if !hex || lower.contains('p') => (&lower[..lower.len() - 1], BasicType::Float),
        b'l' => (&lower[..lower.len() - 1], BasicType::LongDouble),
        _ => (&lower[..], BasicType::Double),
    };
    if hex {
        let (mantissa, exponent) = hex_float(&number[2..])?;
        let double = round_binary(mantissa, exponent, f64::MANTISSA_DIGITS as i32, f64::MIN_EXP - 1, 1023)?;
        let single = round_binary(mantissa, exponent, f32::MANTISSA_DIGITS as i32, f32::MIN_EXP - 1, 127);
        let single = match ty {
            BasicType::Float => single?,
            _ => single.unwrap_or(f64::INFINITY),
        };
        let single = single as f32;
        return Some(FloatLiteral { text: number.into(), double, single, ty });
    }
    let plain = number.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'+' | b'-'));
    let marked = number.contains(['.', 'e']);
    if !plain || !marked {
        return None;
    }
    let (double, single): (f64, f32) = (number.parse().ok()?, number.parse().ok()?);
    let finite = if ty == BasicType::Float { single.is_finite() } else { double.is_finite() };
    finite.then(|| FloatLiteral { text: SmolStr::new(number), double, single, ty })
}

/// Parses `1.8p3` without `0x` to a mantissa and a power of two. `None` if it has more than 64 significant bits.
fn hex_float(text: &str) -> Option<(u64, i64)> {
    let (digits, exponent) = text.split_once('p')?;
    let mut exponent: i64 = exponent.parse().ok().filter(|e: &i64| e.abs() < 100_000)?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let fraction = fraction.trim_end_matches('0');
    exponent -= 4 * i64::try_from(fraction.len()).ok()?;
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let mantissa = if significant.is_empty() && all.bytes().all(|b| b == b'0') {
        0
    } else {
        u64::from_str_radix(significant, 16).ok()?
    };
    Some((mantissa, exponent))
}

/// Rounds `mantissa * 2^exponent` to a format, ties to even, and returns the result as an `f64`, which represents it
/// exactly. `None` if it overflows.
fn round_binary(mantissa: u64, exponent: i64, precision: i32, least: i32, greatest: i64) -> Option<f64> {
    if mantissa == 0 {
        return Some(0.0);
    }
    let top = exponent + 63 - i64::from(mantissa.leading_zeros());
    // The exponent of the last place: limited by the precision, or by the smallest subnormal number.
    let last = (top - i64::from(precision - 1)).max(i64::from(least) - i64::from(precision - 1));
    let shift = last - exponent;
    let rounded = if shift <= 0 {
        return scaled(mantissa, exponent, greatest);
    } else if shift > 64 {
        0
    } else {
        let (kept, rest) = match shift {
            64 => (0, mantissa),
            _ => (mantissa >> shift, mantissa & ((1 << shift) - 1)),
        };
        let half = 1u64 << (shift - 1);
        kept + u64::from(rest > half || (rest == half && kept % 2 == 1))
    };
    scaled(rounded, last, greatest)
}

/// Returns `mantissa * 2^exponent`, which is exact. `None` if its exponent is greater than `greatest`.
fn scaled(mantissa: u64, exponent: i64, greatest: i64) -> Option<f64> {
    if mantissa == 0 {
        return Some(0.0);
    }
    if exponent + 63 - i64::from(mantissa.leading_zeros()) > greatest {
        return None;
    }
    let mut value = mantissa as f64;
    let mut left = exponent;
    while left != 0 {
        let step = left.clamp(-1000, 1000) as i32;
        value *= 2f64.powi(step);
        left -= i64::from(step);
    }
    Some(value)
}

/// Splits a literal into the type of its prefix and the text after the prefix.
fn encoding(text: &str) -> (BasicType, &str) {
    let prefixes =
        [("u8", BasicType::Char), ("u", BasicType::Char16), ("U", BasicType::Char32), ("L", BasicType::WideChar)];
    let found = prefixes.into_iter().find_map(|(prefix, ty)| {
        let rest = text.strip_prefix(prefix)?;
        rest.starts_with(['"', '\'', 'R']).then_some((ty, rest))
    });
    found.unwrap_or((BasicType::Char, text))
}

/// Interprets a character literal: `'a'`, `'\n'`, `L'x'`. A literal with several characters is not accepted.
pub(crate) fn character(text: &str) -> Option<CharLiteral> {
    let (ty, rest) = encoding(text);
    let inner = rest.strip_prefix('\'')?.strip_suffix('\'')?;
    let mut chars = inner.chars();
    let value = match chars.next()? {
        '\\' => escape(&mut chars)?,
        c => c as u32,
    };
    if chars.next().is_some() || (ty == BasicType::Char && value > 0xff) {
        return None;
    }
    // A `char` is signed: '\xff' is -1.
    let value = if ty == BasicType::Char { i32::from(value as u8 as i8) as u32 } else { value };
    Some(CharLiteral { value, ty })
}

/// Interprets the escape sequence after a backslash.
fn escape(chars: &mut std::str::Chars<'_>) -> Option<u32> {
    Some(match chars.next()? {
        'n' => 10,
        't' => 9,
        'r' => 13,
        'a' => 7,
        'b' => 8,
        'f' => 12,
        'v' => 11,
        'e' => 27,
        c @ ('\\' | '\'' | '"' | '?') => c as u32,
        c @ '0'..='7' => escape_digits(chars, Some(c), 8, 1, 3)?,
        'x' => escape_digits(chars, None, 16, 1, 8)?,
        'u' => escape_digits(chars, None, 16, 4, 4)?,
        'U' => escape_digits(chars, None, 16, 8, 8)?,
        _ => return None,
    })
}

/// Reads between `least` and `most` digits, including `first`, which has been read already.
fn escape_digits(
    chars: &mut std::str::Chars<'_>,
    first: Option<char>,
    radix: u32,
    least: usize,
    most: usize,
) -> Option<u32> {
    let mut digits: String = first.into_iter().collect();
    while digits.len() < most && chars.as_str().starts_with(|c: char| c.is_digit(radix)) {
        digits.extend(chars.next());
    }
    if digits.len() < least { None } else { u32::from_str_radix(&digits, radix).ok() }
}

/// Interprets a string literal, also a raw one. `None` if an escape sequence is invalid.
pub(crate) fn string(text: &str) -> Option<StringLiteral> {
    let (ty, rest) = encoding(text);
    if let Some(raw) = rest.strip_prefix('R') {
        let (delimiter, rest) = raw.strip_prefix('"')?.split_once('(')?;
        let inner = rest.strip_suffix('"')?.strip_suffix(delimiter)?.strip_suffix(')')?;
        return Some(StringLiteral { bytes: inner.as_bytes().to_vec(), ty });
    }
    let inner = rest.strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        let universal = c == '\\' && chars.as_str().starts_with(['u', 'U']);
        let value = if c == '\\' { escape(&mut chars)? } else { c as u32 };
        if c == '\\' && !universal && value <= 0xff {
            bytes.push(value as u8);
        } else {
            bytes.extend_from_slice(char::from_u32(value)?.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }
    Some(StringLiteral { bytes, ty })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_radix_and_suffix() {
        let of = |text| integer(text).map(|i| (i.value, i.radix, i.unsigned, i.length));
        assert_eq!(of("0"), Some((0, 10, false, IntLength::Int)));
        assert_eq!(of("1'000'000u"), Some((1_000_000, 10, true, IntLength::Int)));
        assert_eq!(of("0xFFull"), Some((255, 16, true, IntLength::LongLong)));
        assert_eq!(of("0b101L"), Some((5, 2, false, IntLength::Long)));
        assert_eq!(of("017"), Some((15, 8, false, IntLength::Int)));
        assert_eq!(of("0u"), Some((0, 8, true, IntLength::Int)));
        assert_eq!(of("18446744073709551616"), None);
        assert_eq!(of("08"), None);
        assert_eq!(of("12abc"), None);
        assert_eq!(of("0x"), None);
    }

    #[test]
    fn floats_are_rounded_once() {
        let of = |text| float(text).map(|f| (f.double, f.single, f.ty));
        assert_eq!(of("1.5"), Some((1.5, 1.5, BasicType::Double)));
        assert_eq!(of("1.f"), Some((1.0, 1.0, BasicType::Float)));
        assert_eq!(of(".1F"), Some((0.1, 0.1, BasicType::Float)));
        assert_eq!(of("1e-3l"), Some((0.001, 0.001, BasicType::LongDouble)));
        // Rounding to `double` first would give a tie, which rounds to another `float`.
        assert_eq!(of("1.00000017881393432617187499f").map(|f| f.1), Some(1.000_000_1));
        assert_eq!(of("0x1.8p1f"), Some((3.0, 3.0, BasicType::Float)));
        assert_eq!(of("0x1.0000018p0").map(|f| f.1), Some(1.000_000_1));
        assert_eq!(of("0x1p-149f").map(|f| f.1), Some(f32::from_bits(1)));
        assert_eq!(of("0x1p-1074").map(|f| f.0), Some(f64::from_bits(1)));
        assert_eq!(of("0x0p0").map(|f| f.0), Some(0.0));
        assert_eq!(of("12"), None);
        assert_eq!(of("1f"), None);
        assert_eq!(of("1e400"), None);
        assert_eq!(of("1.2.3"), None);
    }

    #[test]
    fn characters_and_strings_have_escapes() {
        assert_eq!(character("'a'").map(|c| c.value), Some(97));
        assert_eq!(character(r"'\xff'").map(|c| c.value as i32), Some(-1));
        assert_eq!(character("L'é'").map(|c| (c.value, c.ty)), Some((0xe9, BasicType::WideChar)));
        assert_eq!(character("'ab'"), None);
        assert_eq!(string(r#""a\n\x41\u00e9""#).map(|s| s.bytes), Some("a\nA\u{e9}".as_bytes().to_vec()));
        assert_eq!(string(r#"R"x(a\n")x""#).map(|s| s.bytes), Some(b"a\\n\"".to_vec()));
        assert_eq!(string(r#""\q""#), None);
    }
}
