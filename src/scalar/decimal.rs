//! A number literal, with enough precision to round it correctly to any float type.
//!
//! The literal is stored as the nearest `f64` and as an `f64` rounded *to odd*. Rounding the latter to a shorter type
//! gives the same result as rounding the digits themselves: there is no double rounding error (Boldo, Melquiond: *When
//! Double Rounding is Odd*, 2005).

use std::cmp::Ordering;

use super::{Scalar, ScalarValue};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decimal {
    nearest: f64,
    /// The number rounded to odd if the rounding to a shorter type depends on it, else the same as `nearest`.
    odd: f64,
}

impl Decimal {
    /// Parses digits with an optional decimal point and exponent, as [`f64`] does; `None` if they are not a number.
    pub fn parse(text: &str) -> Option<Decimal> {
        let nearest: f64 = text.parse().ok().filter(|number: &f64| !number.is_nan())?;
        let rest = match () {
            _ if nearest == 0.0 => digits(text).cmp(&digits("0")),
            _ if is_short(text) || !is_tie(nearest) => Ordering::Equal,
            _ => digits(text).cmp(&digits(&format!("{nearest:.800e}"))),
        };
        Some(Decimal { nearest, odd: to_odd(nearest, rest) })
    }

    pub fn from_f64(number: f64) -> Decimal {
        Decimal { nearest: number, odd: number }
    }

    pub fn from_integer(integer: i128) -> Decimal {
        let nearest = integer as f64;
        let rest = integer.unsigned_abs().cmp(&(nearest.abs() as u128));
        Decimal { nearest, odd: to_odd(nearest, rest) }
    }

    /// Returns the nearest `f64` (ties to even), which may be infinite or 0.
    pub fn as_f64(self) -> f64 {
        self.nearest
    }

    /// Returns the nearest value of a float type; `None` if the number overflows, or underflows to 0.
    pub fn round_to(self, ty: Scalar) -> Option<ScalarValue> {
        let value = match ty {
            Scalar::F64 => ScalarValue::of(self.nearest),
            _ => ScalarValue::of(self.odd).to_type(ty),
        };
        let rounded = value.as_f64();
        let underflows = rounded == 0.0 && self.odd != 0.0;
        (ty.is_float() && rounded.is_finite() && !underflows).then_some(value)
    }
}

/// Returns whether the literal has so few digits that it equals `nearest`, or is nearer to `nearest` than to any
/// midpoint between two values of a shorter type. Then rounding to odd is not necessary.
fn is_short(text: &str) -> bool {
    let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
    fraction.len() <= 8 && text.len() <= 15 && !text.contains(['e', 'E'])
}

/// Returns whether the number may be a midpoint between two values of a shorter type. Then digits beyond the precision
/// of `f64` determine the rounding.
fn is_tie(number: f64) -> bool {
    number.is_finite() && number.to_bits().trailing_zeros() >= 28
}

/// Rounds to odd. `rest` compares the magnitude of the number with that of `nearest`.
fn to_odd(nearest: f64, rest: Ordering) -> f64 {
    let bits = nearest.to_bits();
    f64::from_bits(match rest {
        Ordering::Equal => bits,
        Ordering::Greater => bits | 1,
        Ordering::Less => (bits - 1) | 1,
    })
}

/// Returns the exponent of the first nonzero digit, and the digits from it on without trailing zeros. These pairs are
/// ordered like the magnitudes of the numbers; the pair for 0 is the least.
fn digits(text: &str) -> (i64, String) {
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all: String = [whole, fraction].concat();
    let significant = all.trim_start_matches('0');
    if significant.is_empty() {
        return (i64::MIN, String::new());
    }
    // With an exponent that does not fit in `i64`, the number is 0 or infinite for every mantissa.
    let written: i64 = exponent.parse().unwrap_or(if exponent.starts_with('-') { -(1 << 40) } else { 1 << 40 });
    let leading = (all.len() - significant.len()) as i64;
    (written + whole.len() as i64 - leading, significant.trim_end_matches('0').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(ty: Scalar, text: &str) -> Option<u64> {
        Some(Decimal::parse(text)?.round_to(ty)?.bits)
    }

    #[test]
    fn digits_are_rounded_once() {
        let half = "1.000000059604644775390625";
        let above_half = format!("{half}0000000000000000000000001");
        let below_half = "1.00000005960464477539062499999999999999999999";
        for (text, expected) in [(half, 1.0f32), (&above_half, 1.000_000_1), (below_half, 1.0)] {
            assert_eq!(bits(Scalar::F32, text), Some(expected.to_bits().into()), "{text}");
            assert_eq!(text.parse(), Ok(expected));
        }
        // 1 + 2^-11 is the midpoint of 1 and the next `f16`, 1 + 2^-10. The second literal is slightly greater than the
        // midpoint.
        assert_eq!(bits(Scalar::F16, "1.00048828125"), Some(0x3c00));
        assert_eq!(bits(Scalar::F16, "1.00048828125000000000000000001"), Some(0x3c01));
        assert_eq!(bits(Scalar::F16, "1.00048828124999999999999999999"), Some(0x3c00));
        assert_eq!(bits(Scalar::Bf16, "1.00390625000000000000000000001e0"), Some(0x3f81));
    }

    #[test]
    fn f32_agrees_with_the_standard_library() {
        for mantissa in 1..3000u32 {
            for exponent in [-46, -45, -40, -20, -7, -1, 0, 3, 9, 25, 37] {
                let text = format!("{}.{mantissa:04}e{exponent}", mantissa % 7);
                let number: f32 = text.parse().expect("a number");
                let expected = (number.is_finite() && number != 0.0).then_some(u64::from(number.to_bits()));
                assert_eq!(bits(Scalar::F32, &text), expected, "{text}");
            }
        }
    }

    #[test]
    fn integers_are_rounded_once() {
        let tie = (1i128 << 53) + (1 << 29);
        for integer in [tie - 1, tie, tie + 1, -tie - 1, 16_777_217, u64::MAX.into(), 0] {
            let expected = (integer as f32).to_bits();
            assert_eq!(
                Decimal::from_integer(integer).round_to(Scalar::F32).map(|v| v.bits),
                Some(expected.into()),
                "{integer}"
            );
        }
        assert_eq!(Decimal::from_integer(65519).round_to(Scalar::F16).map(ScalarValue::as_f64), Some(65504.0));
        assert_eq!(Decimal::from_integer(65520).round_to(Scalar::F16), None);
    }

    #[test]
    fn numbers_outside_a_type_have_no_value() {
        for (ty, text) in [
            (Scalar::F32, "3.5e38"),
            (Scalar::F32, "7e-46"),
            (Scalar::F16, "65520"),
            (Scalar::F16, "2.9e-8"),
            (Scalar::Bf16, "3.4e38"),
            (Scalar::F64, "1.8e308"),
            (Scalar::F64, "1e-400"),
            (Scalar::F64, "1e-99999999999999999999"),
            (Scalar::I32, "1"),
        ] {
            assert_eq!(bits(ty, text), None, "{ty} {text}");
        }
        for (ty, text) in [(Scalar::F32, "8e-46"), (Scalar::F64, "0.000e-999"), (Scalar::F16, "3e-8")] {
            assert!(bits(ty, text).is_some(), "{ty} {text}");
        }
    }
}
