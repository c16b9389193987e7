//! Formats the elements of an array as texts of equal width, with aligned decimal points.

use crate::array::ElementType;
use crate::value::HostValue;
use clk_base::escape;
use clk_scalar::{Scalar, format};

/// Maximum number of digits after the decimal point.
const PRECISION: usize = 8;
/// If the largest magnitude is at least this, all numbers are shown with exponents.
const LARGE: f64 = 1e8;
/// If the smallest nonzero magnitude is below this, all numbers are shown with exponents.
const SMALL: f64 = 1e-4;
/// If the ratio of the largest to the smallest nonzero magnitude is above this, all numbers are shown with exponents.
const SPREAD: f64 = 1e3;

/// The elements of an array that are shown; a large array shows only some.
pub struct Cells<'a> {
    element: &'a ElementType,
    values: &'a [HostValue],
}

impl<'a> Cells<'a> {
    pub fn new(element: &'a ElementType, values: &'a [HostValue]) -> Self {
        Cells { element, values }
    }

    /// Returns one text per element, all of the same width.
    pub fn texts(&self) -> Vec<String> {
        match self.element {
            ElementType::Scalar(_) => {
                let numbers: Vec<clk_scalar::ScalarValue> =
                    self.values.iter().filter_map(HostValue::as_scalar).collect();
                column(is_float(self.element), &numbers)
            }
            ElementType::Vector(_, lanes) => self.vectors(usize::from(*lanes)),
            ElementType::Record(record) => {
                let field = |k: usize| -> Vec<HostValue> { self.values.iter().filter_map(|v| part(v, k)).collect() };
                let columns = record.fields.iter().enumerate().map(|(k, f)| Cells::new(&f.element, &field(k)).texts());
                let columns: Vec<Vec<String>> = columns.collect();
                let name = |k: usize| record.fields.get(k).map_or("".into(), |field| escape::name(&field.name));
                let cell = |row: usize| -> String {
                    let texts = columns.iter().enumerate().map(|(k, texts)| {
                        let text = texts.get(row).map_or("", String::as_str);
                        if record.is_tuple() { text.to_string() } else { format!("{}: {text}", name(k)) }
                    });
                    let all = texts.collect::<Vec<_>>().join(", ");
                    if record.is_tuple() { format!("({all})") } else { format!("{{{all}}}") }
                };
                (0..self.values.len()).map(cell).collect()
            }
        }
    }

    fn vectors(&self, lanes: usize) -> Vec<String> {
        let components = self.values.iter().filter_map(|value| match value {
            HostValue::Vector(vector) => Some(vector.values()),
            _ => None,
        });
        let texts = column(is_float(self.element), &components.flatten().collect::<Vec<_>>());
        texts.chunks(lanes.max(1)).map(|lanes| format!("({})", lanes.join(", "))).collect()
    }
}

fn part(value: &HostValue, k: usize) -> Option<HostValue> {
    match value {
        HostValue::Record(record) => record.fields.get(k).cloned(),
        HostValue::Tuple(parts) => parts.get(k).cloned(),
        _ => None,
    }
}

/// Formats the numbers of a column: floats with aligned decimal points if `floats`, otherwise integers.
fn column(floats: bool, numbers: &[clk_scalar::ScalarValue]) -> Vec<String> {
    match floats {
        false => right_aligned(numbers.iter().map(|number| format::plain(*number)).collect()),
        true if has_exponents(numbers) => right_aligned(exponential(numbers)),
        true => right_aligned(fixed(numbers)),
    }
}

/// Pads texts on the left to the width of the widest.
pub(crate) fn right_aligned(texts: Vec<String>) -> Vec<String> {
    let width = texts.iter().map(|text| text.chars().count()).max().unwrap_or(0);
    texts.into_iter().map(|text| format!("{text:>width$}")).collect()
}

fn has_exponents(numbers: &[clk_scalar::ScalarValue]) -> bool {
    let sizes = || numbers.iter().map(|n| n.as_f64().abs()).filter(|x| x.is_finite() && *x != 0.0);
    let (largest, smallest) = (sizes().fold(0.0, f64::max), sizes().fold(f64::INFINITY, f64::min));
    largest >= LARGE || largest > 0.0 && (smallest < SMALL || largest / smallest > SPREAD)
}

/// Formats numbers in positional notation, such as `1.25`. Pads numbers with fewer digits on the right with blanks.
fn fixed(numbers: &[clk_scalar::ScalarValue]) -> Vec<String> {
    let texts: Vec<String> = numbers.iter().map(|n| positional(*n)).collect();
    let fraction = |text: &str| text.split_once('.').map_or(0, |(_, digits)| digits.len());
    let longest = texts.iter().map(|text| fraction(text)).max().unwrap_or(0);
    let pad = |text: String| match text.contains('.') {
        true => format!("{text}{}", " ".repeat(longest - fraction(&text))),
        false => text,
    };
    texts.into_iter().map(pad).collect()
}

/// Formats a number in positional notation, with the fewest digits that are parsed as the same value. The fraction has
/// at most [`PRECISION`] digits.
fn positional(number: clk_scalar::ScalarValue) -> String {
    let wide = number.as_f64();
    if !wide.is_finite() {
        return format::plain(number);
    }
    let digits = decimals(number);
    let text = format!("{wide:.0$}", digits.min(PRECISION));
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{whole}.{}", fraction.trim_end_matches('0')),
        None => format!("{text}."),
    }
}

/// Returns the number of digits after the decimal point in the shortest representation.
fn decimals(number: clk_scalar::ScalarValue) -> usize {
    let (mantissa, exponent) = scientific(number);
    let digits = mantissa.split_once('.').map_or(0, |(_, digits)| digits.len() as i64);
    usize::try_from(digits - exponent).unwrap_or(0)
}

/// Returns mantissa and exponent of a number, such as `1.5` and `-7` for `1.5e-7`. The mantissa has the fewest digits
/// that are parsed as the same value.
fn scientific(number: clk_scalar::ScalarValue) -> (String, i64) {
    let text = match number.ty {
        Scalar::F32 => format!("{:e}", number.to::<f32>()),
        // The shortest text of a 16-bit float is parsed as `f64`, whose shortest text has the same digits.
        Scalar::F16 | Scalar::Bf16 => format!("{:e}", format::plain(number).parse::<f64>().unwrap_or(number.as_f64())),
        _ => format!("{:e}", number.as_f64()),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.to_string(), exponent.parse().unwrap_or(0))
}

/// Formats numbers in scientific notation, such as `1.50e-07`, all with the same number of digits.
fn exponential(numbers: &[clk_scalar::ScalarValue]) -> Vec<String> {
    let needed = |number: &clk_scalar::ScalarValue| match number.as_f64().is_finite() {
        true => scientific(*number).0.split_once('.').map_or(0, |(_, digits)| digits.len()),
        false => 0,
    };
    // A number that is rounded to the maximum precision may end in zeros, which are not shown.
    let shown_digits = |number: &clk_scalar::ScalarValue| match needed(number) {
        n if n > PRECISION => {
            let text = format!("{:.PRECISION$e}", number.as_f64());
            let digits = text.split_once('e').map_or("", |(mantissa, _)| mantissa);
            digits.split_once('.').map_or(0, |(_, digits)| digits.trim_end_matches('0').len())
        }
        n => n,
    };
    let digits = numbers.iter().map(shown_digits).max().unwrap_or(0);
    let text = |number: &clk_scalar::ScalarValue| {
        let wide = number.as_f64();
        if !wide.is_finite() {
            return format::plain(*number);
        }
        let text = format!("{wide:.digits$e}");
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i64 = exponent.parse().unwrap_or(0);
        let (point, sign) = (if digits == 0 { "." } else { "" }, if exponent < 0 { '-' } else { '+' });
        format!("{mantissa}{point}e{sign}{:02}", exponent.unsigned_abs())
    };
    numbers.iter().map(text).collect()
}

/// Returns whether an element type is a float, whose numbers are shown with a decimal point.
pub(crate) fn is_float(element: &ElementType) -> bool {
    element.scalar().is_some_and(Scalar::is_float)
}
