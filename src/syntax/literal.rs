//! Values and errors of number literals and string escapes.

use clk_scalar::decimal::Decimal;
use clk_scalar::ops::UnaryOp;
use clk_scalar::{Scalar, ScalarValue, dynamic};
use smol_str::SmolStr;

/// The components of a number literal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NumberParts<'t> {
    pub radix: u32,
    /// Digits without `0x` and suffix, with underscores.
    pub digits: &'t str,
    /// Type suffix; empty if there is none.
    pub suffix: &'t str,
    /// Whether the literal has a decimal point, an exponent or a float suffix.
    pub float: bool,
}

/// Splits a number literal into its components. This never fails; [`problem`] finds errors.
pub(crate) fn split(text: &str) -> NumberParts<'_> {
    let radix = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => 16,
        [b'0', b'b' | b'B', ..] => 2,
        _ => 10,
    };
    if radix != 10 {
        let body = text.get(2..).unwrap_or("");
        let end = body.find(|c: char| !(c.is_digit(radix) || c == '_')).unwrap_or(body.len());
        let (digits, suffix) = body.split_at(end);
        return NumberParts { radix, digits, suffix, float: false };
    }
    let end = decimal_end(text.as_bytes());
    let (digits, suffix) = text.split_at(end);
    let float = digits.contains(['.', 'e', 'E']) || Scalar::from_name(suffix).is_some_and(Scalar::is_float);
    NumberParts { radix, digits, suffix, float }
}

/// Returns the offset of the suffix, after digits, point and exponent.
fn decimal_end(bytes: &[u8]) -> usize {
    let digits = |mut at: usize| -> usize {
        while bytes.get(at).is_some_and(|b| b.is_ascii_digit() || *b == b'_') {
            at += 1;
        }
        at
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            end = digits(end + 1 + sign);
        }
    }
    end
}

/// Returns the value of an integer literal. Invalid digits are ignored, and values over `u64::MAX` saturate.
pub(crate) fn integer(number: NumberParts<'_>) -> u64 {
    let mut value: u64 = 0;
    for digit in number.digits.chars().filter_map(|c| c.to_digit(number.radix)) {
        match value.checked_mul(number.radix.into()).and_then(|v| v.checked_add(digit.into())) {
            Some(next) => value = next,
            None => return u64::MAX,
        }
    }
    value
}

/// Returns the digits of a float without underscores.
pub(crate) fn float_text(number: NumberParts<'_>) -> SmolStr {
    if number.digits.contains('_') { number.digits.replace('_', "").into() } else { number.digits.into() }
}

/// Parses a value of type `ty`: a literal without a suffix and with an optional sign, or `inf` or `nan` for floats.
/// `None` if the text is not such a literal or its value does not fit the type.
pub fn parse_value(ty: Scalar, text: &str) -> Option<ScalarValue> {
    if ty == Scalar::Bool {
        return matches!(text, "true" | "false").then(|| ScalarValue::of(text == "true"));
    }
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    match text {
        "inf" | "nan" if ty.is_float() => {
            let special = if text == "inf" { f64::INFINITY } else { f64::NAN };
            Some(ScalarValue::of(if negative { -special } else { special }).to_type(ty))
        }
        _ if !is_plain(text) => None,
        _ if ty.is_int() => {
            let number = split(text);
            let magnitude = (!number.float && problem(text).is_none()).then(|| i128::from(integer(number)))?;
            ScalarValue::from_integer(ty, if negative { -magnitude } else { magnitude })
        }
        _ => {
            let number = split(text);
            let magnitude = match number.radix {
                // The conversion is correctly rounded for any number of digits.
                10 => Decimal::parse(&float_text(number))?.round_to(ty)?,
                _ => Decimal::from_integer(problem(text).is_none().then(|| integer(number))?.into()).round_to(ty)?,
            };
            if negative { dynamic::unary(UnaryOp::Neg, magnitude).ok() } else { Some(magnitude) }
        }
    }
}

/// Returns whether a text is a single number literal without a suffix.
fn is_plain(text: &str) -> bool {
    let number = split(text);
    let digit_follows = |point: usize| text.as_bytes().get(point + 1).is_some_and(u8::is_ascii_digit);
    text.starts_with(|c: char| c.is_ascii_digit())
        && number.suffix.is_empty()
        && number.digits.contains(|c: char| c.is_digit(number.radix))
        && number.digits.find('.').is_none_or(digit_follows)
}

/// An error in a number literal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LiteralError {
    /// `0x` or `0b` without digits.
    NoDigits,
    /// The value does not fit in 64 bits.
    TooLarge,
    /// An unknown suffix, as in `12abc`, and the suffix that was probably meant, if any.
    Suffix { suffix: String, meant: Option<&'static str> },
    /// An integer suffix on a float: `7.5i32`.
    FloatWithIntSuffix(&'static str),
}

/// Returns the first error in a number literal, if any.
pub(crate) fn problem(text: &str) -> Option<LiteralError> {
    if text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let number = split(text);
    if !number.digits.contains(|c: char| c.is_digit(number.radix)) {
        return Some(LiteralError::NoDigits);
    }
    if !number.suffix.is_empty() {
        match Scalar::from_name(number.suffix) {
            Some(s) if !s.is_num() => {
                return Some(LiteralError::Suffix { suffix: number.suffix.into(), meant: None });
            }
            Some(s) if s.is_int() && number.float => return Some(LiteralError::FloatWithIntSuffix(s.name())),
            Some(_) => {}
            None => {
                let meant = clk_suffix(number.suffix);
                return Some(LiteralError::Suffix { suffix: number.suffix.into(), meant });
            }
        }
    }
    let overflows = || {
        let digits = number.digits.chars().filter_map(|c| c.to_digit(number.radix));
        let value = digits.fold(0u128, |v, d| v.saturating_mul(number.radix.into()).saturating_add(d.into()));
        value > u64::MAX.into()
    };
    (!number.float && overflows()).then_some(LiteralError::TooLarge)
}

/// Maps a number suffix of another language to the suffix in Clk.
fn clk_suffix(suffix: &str) -> Option<&'static str> {
    Some(match suffix.to_ascii_lowercase().as_str() {
        "f" => "f32",
        "u" => "u32",
        "l" | "ll" => "i64",
        "ul" | "ull" | "lu" | "llu" => "u64",
        "h" => "f16",
        "d" => "f64",
        "usize" => "u64",
        "isize" => "i64",
        "i" => "i32",
        _ => return None,
    })
}

/// Decodes the escape at the start of `text`, which begins with a backslash. Returns its length, and the character if
/// it is valid.
pub(crate) fn escape(text: &str) -> (usize, Option<char>) {
    let mut chars = text.chars();
    chars.next();
    let Some(c) = chars.next() else { return (text.len(), None) };
    let plain = |value| (1 + c.len_utf8(), value);
    match c {
        'n' => plain(Some('\n')),
        't' => plain(Some('\t')),
        'r' => plain(Some('\r')),
        '0' => plain(Some('\0')),
        '\\' | '"' | '\'' | '{' | '}' => plain(Some(c)),
        'u' => {
            let rest = chars.as_str();
            let inside = rest.strip_prefix('{').and_then(|r| r.split_once('}')).map(|(inside, _)| inside);
            match inside {
                Some(hex) if hex.len() <= 8 => {
                    let value = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
                    (2 + hex.len() + 2, value)
                }
                _ => plain(None),
            }
        }
        _ => plain(None),
    }
}

/// Resolves the escapes and doubled braces in a segment of a string.
pub(crate) fn unescape(text: &str) -> SmolStr {
    if !text.contains(['\\', '{', '}']) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '\\' => {
                let (length, value) = escape(rest);
                out.extend(value);
                length
            }
            '{' | '}' if rest.get(1..).is_some_and(|r| r.starts_with(c)) => {
                out.push(c);
                2
            }
            _ => {
                out.push(c);
                c.len_utf8()
            }
        };
        rest = rest.get(length..).unwrap_or("");
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_split() {
        let parts = |text| {
            let n = split(text);
            (n.radix, n.digits, n.suffix, n.float)
        };
        assert_eq!(parts("42"), (10, "42", "", false));
        assert_eq!(parts("7u32"), (10, "7", "u32", false));
        assert_eq!(parts("1f16"), (10, "1", "f16", true));
        assert_eq!(parts("1e5"), (10, "1e5", "", true));
        assert_eq!(parts("2.5e-3f64"), (10, "2.5e-3", "f64", true));
        assert_eq!(parts("0xffu8"), (16, "ff", "u8", false));
        assert_eq!(parts("0b10_10"), (2, "10_10", "", false));
    }

    #[test]
    fn invalid_numbers_have_errors() {
        assert_eq!(problem("18446744073709551615"), None);
        assert_eq!(problem("18446744073709551616"), Some(LiteralError::TooLarge));
        assert_eq!(problem("0x"), Some(LiteralError::NoDigits));
        assert_eq!(problem("1.0f"), Some(LiteralError::Suffix { suffix: "f".into(), meant: Some("f32") }));
        assert_eq!(problem("1.5i32"), Some(LiteralError::FloatWithIntSuffix("i32")));
    }

    #[test]
    fn values_parse_like_literals() {
        let read = |ty, text| parse_value(ty, text).map(|v: ScalarValue| v.as_f64());
        for (text, expected) in [
            ("7", 7.0),
            ("+7", 7.0),
            ("-7", -7.0),
            ("007", 7.0),
            ("1_0_", 10.0),
            ("0x1F", 31.0),
            ("0X_f", 15.0),
            ("-0b1_1", -3.0),
            ("-128", -128.0),
        ] {
            assert_eq!(read(Scalar::I8, text), Some(expected), "{text}");
            assert_eq!(read(Scalar::F16, text), Some(expected), "{text}");
        }
        for (text, expected) in
            [("1.5", 1.5), ("1_0.5_0e0_1", 105.0), ("1_e3", 1000.0), ("2E-1", 0.2), ("-1e+1", -10.0)]
        {
            assert_eq!(read(Scalar::F64, text), Some(expected), "{text}");
            assert_eq!(read(Scalar::I32, text), None, "{text}");
        }
        for text in [
            "", "-", "--1", "- 1", "0o17", "0x", "0b12", "_1", "7u32", "1f32", "1.5f64", ".5", "5.", "1._5", "1e",
            "1e_5", "1.2.3", "1+2", "1 2", "٣", "e5", "0x1.8", "infinity", "INF", "true", "1,5",
        ] {
            assert_eq!(read(Scalar::F64, text), None, "{text}");
            assert_eq!(read(Scalar::I32, text), None, "{text}");
        }
        assert_eq!(read(Scalar::I8, "128"), None);
        assert_eq!(read(Scalar::U64, "18446744073709551616"), None);
        assert_eq!(read(Scalar::F32, "18446744073709551616"), Some(18446744073709551616.0));
        assert_eq!(read(Scalar::F32, "0x1_0000_0000_0000_0000"), None);
        assert_eq!(read(Scalar::F32, "-inf"), Some(f64::NEG_INFINITY));
        assert!(read(Scalar::Bf16, "nan").is_some_and(f64::is_nan));
        assert_eq!(read(Scalar::F32, "1e39"), None);
        assert_eq!(parse_value(Scalar::F32, "-0"), Some(ScalarValue::of(-0.0f32)));
    }

    #[test]
    fn escapes_resolve() {
        assert_eq!(unescape(r#"a\n\t\"\u{e9}{{x}}"#), "a\n\t\"\u{e9}{x}");
    }
}
