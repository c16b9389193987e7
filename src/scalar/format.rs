//! Formatting of values: the output of `print`, and format specifications as in `"{value:>8.3}"`.

use std::fmt;

use thiserror::Error;

use super::{Scalar, ScalarValue, bf16, f16};

/// A format specification: `[fill][<^>][+][0][width][.precision][x|X|b|o|e]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    pub fill: char,
    /// By default numbers are right-aligned and text is left-aligned.
    pub align: Option<Align>,
    pub plus: bool,
    /// Whether to pad with zeros between the sign and the digits.
    pub zeros: bool,
    pub width: usize,
    pub precision: Option<usize>,
    pub style: NumberStyle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Center,
    Right,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberStyle {
    Plain,
    LowerHex,
    UpperHex,
    Binary,
    Octal,
    Exponent,
}

/// The syntax of specifications, for messages.
pub const SYNTAX: &str = "a format is `[fill][<^>][+][0][width][.precision][x|X|b|o|e]`, as in `{x:>10.3}`";

/// The maximum width and precision. Larger values could exhaust the memory.
const LARGEST: usize = 1000;

/// Why a text is not a specification, or does not fit a value. The message is a clause for the end of a sentence that
/// begins with the specification.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    #[error("needs a number after the `.`")]
    NoPrecision,
    #[error("does not know `{0}`; a type is one of x, X, b, o, e")]
    UnknownStyle(String),
    /// The digits are those of the width or the precision.
    #[error("asks for {0} places; the maximum is {LARGEST}")]
    TooManyPlaces(String),
    #[error("asks for digits, but the value is a bool")]
    DigitsOfBool,
    #[error("asks for digits after the decimal point, but the value is an {0}")]
    DecimalsOfInteger(Scalar),
    #[error("is for integers, but the value is an {0}; `bitcast` gives its bits")]
    BitsOfFloat(Scalar),
    /// The specification does more than pad.
    #[error("is for numbers, and the value is of type {0}")]
    NotANumber(String),
    #[error("is for numbers and texts, and the value is a table")]
    Table,
}

impl Spec {
    pub fn parse(text: &str) -> Result<Spec, FormatError> {
        let mut spec = Spec {
            fill: ' ',
            align: None,
            plus: false,
            zeros: false,
            width: 0,
            precision: None,
            style: NumberStyle::Plain,
        };
        let mut rest = spec.take_align(text);
        if let Some(after) = rest.strip_prefix('+') {
            (spec.plus, rest) = (true, after);
        }
        if let Some(after) = rest.strip_prefix('0') {
            (spec.zeros, rest) = (true, after);
        }
        let (width, after) = number(rest)?;
        (spec.width, rest) = (width.unwrap_or(0), after);
        if let Some(after) = rest.strip_prefix('.') {
            let (precision, after) = number(after)?;
            spec.precision = Some(precision.ok_or(FormatError::NoPrecision)?);
            rest = after;
        }
        spec.style = match rest {
            "" => NumberStyle::Plain,
            "x" => NumberStyle::LowerHex,
            "X" => NumberStyle::UpperHex,
            "b" => NumberStyle::Binary,
            "o" => NumberStyle::Octal,
            "e" => NumberStyle::Exponent,
            _ => return Err(FormatError::UnknownStyle(rest.into())),
        };
        Ok(spec)
    }

    fn take_align<'t>(&mut self, text: &'t str) -> &'t str {
        let align = |c: Option<char>| match c {
            Some('<') => Some(Align::Left),
            Some('^') => Some(Align::Center),
            Some('>') => Some(Align::Right),
            _ => None,
        };
        let mut chars = text.chars();
        let first = chars.next();
        let after_first = chars.as_str();
        if let (Some(fill), Some(found)) = (first, align(chars.next())) {
            (self.fill, self.align) = (fill, Some(found));
            return chars.as_str();
        }
        self.align = align(first);
        if self.align.is_some() { after_first } else { text }
    }

    /// Pads a text to the width; `default` is the alignment if none is specified.
    pub fn pad(&self, text: &str, default: Align) -> String {
        let missing = self.width.saturating_sub(text.chars().count());
        let left = match self.align.unwrap_or(default) {
            Align::Left => 0,
            Align::Center => missing / 2,
            Align::Right => missing,
        };
        let fill = |n: usize| std::iter::repeat_n(self.fill, n);
        fill(left).chain(text.chars()).chain(fill(missing - left)).collect()
    }
}

/// Converts a specification of Python, C or Rust: `.3f` is `.3`, `5d` is `5`, `,.2f` is `.2`, and `-8s` is `<8`.
/// Letters that state the type of the value, separators and conversions such as `!r` are dropped. `None` if the rest
/// means nothing.
pub fn from_foreign(text: &str) -> Option<String> {
    let text = ["!r", "!s", "!a"].iter().find_map(|conversion| text.strip_prefix(conversion)).unwrap_or(text);
    let text = text.strip_prefix(':').unwrap_or(text);
    let text = text.strip_suffix(['f', 'F', 'd', 'i', 's', 'g', 'G', 'n', '?']).unwrap_or(text);
    let text = text.replace([',', '_', '#'], "");
    let text = match text.strip_prefix('-').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        Some(width) => format!("<{width}"),
        None => text,
    };
    Spec::parse(&text).is_ok().then_some(text)
}

/// Splits a text into its leading digits, as a number, and the remaining text.
fn number(text: &str) -> Result<(Option<usize>, &str), FormatError> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    match digits.parse::<usize>() {
        _ if digits.is_empty() => Ok((None, rest)),
        Ok(n) if n <= LARGEST => Ok((Some(n), rest)),
        _ => Err(FormatError::TooManyPlaces(digits.into())),
    }
}

/// Formats a value by a specification.
pub fn format(value: ScalarValue, spec: &str) -> Result<String, FormatError> {
    if spec.is_empty() { Ok(plain(value)) } else { with_spec(value, &Spec::parse(spec)?) }
}

/// Formats a value by a parsed specification.
pub fn with_spec(value: ScalarValue, spec: &Spec) -> Result<String, FormatError> {
    let text = match value.as_integer() {
        _ if value.ty == Scalar::Bool => {
            return match (spec.precision, spec.style) {
                (None, NumberStyle::Plain) => Ok(spec.pad(&plain(value), Align::Left)),
                _ => Err(FormatError::DigitsOfBool),
            };
        }
        Some(integer) => integer_text(value, integer, spec)?,
        None => float_text(value, spec)?,
    };
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => (if spec.plus { "+" } else { "" }, text.as_str()),
    };
    let is_number = digits.starts_with(|c: char| c.is_ascii_hexdigit()) && digits != "inf";
    let digits = match spec.zeros && is_number && spec.align.is_none() {
        true => format!("{digits:0>width$}", width = spec.width.saturating_sub(sign.len())),
        false => digits.to_string(),
    };
    Ok(spec.pad(&format!("{sign}{digits}"), Align::Right))
}

/// Formats an integer. Hexadecimal, binary and octal show the two's complement bits of negative numbers.
fn integer_text(value: ScalarValue, integer: i128, spec: &Spec) -> Result<String, FormatError> {
    if spec.precision.is_some() {
        return Err(FormatError::DecimalsOfInteger(value.ty));
    }
    Ok(match spec.style {
        NumberStyle::Plain => integer.to_string(),
        NumberStyle::LowerHex => format!("{:x}", value.bits),
        NumberStyle::UpperHex => format!("{:X}", value.bits),
        NumberStyle::Binary => format!("{:b}", value.bits),
        NumberStyle::Octal => format!("{:o}", value.bits),
        NumberStyle::Exponent => format!("{integer:e}"),
    })
}

fn float_text(value: ScalarValue, spec: &Spec) -> Result<String, FormatError> {
    let number = value.as_f64();
    match (spec.style, spec.precision) {
        _ if !number.is_finite() => Ok(plain(value)),
        (NumberStyle::Plain, None) => Ok(plain(value)),
        (NumberStyle::Plain, Some(digits)) => Ok(format!("{number:.digits$}")),
        (NumberStyle::Exponent, Some(digits)) => Ok(format!("{number:.digits$e}")),
        (NumberStyle::Exponent, None) => Ok(shortest_exponent(value)),
        (NumberStyle::LowerHex | NumberStyle::UpperHex | NumberStyle::Binary | NumberStyle::Octal, _) => {
            Err(FormatError::BitsOfFloat(value.ty))
        }
    }
}

/// Formats a value as `print` does. Floats have the fewest digits that read back as the same value, and always a
/// decimal point or an exponent, or they are `nan` or `inf`.
pub fn plain(value: ScalarValue) -> String {
    match value.as_integer() {
        _ if value.ty == Scalar::Bool => value.is_true().to_string(),
        Some(integer) => integer.to_string(),
        None => plain_float(value),
    }
}

fn plain_float(value: ScalarValue) -> String {
    let number = value.as_f64();
    if number.is_nan() {
        return "nan".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.into();
    }
    match value.ty {
        // An `f64` parsed from the shortest decimal of a 16-bit float is printed as this same decimal.
        Scalar::F16 | Scalar::Bf16 => format!("{:?}", shortest_exponent(value).parse().unwrap_or(number)),
        Scalar::F32 => format!("{:?}", value.to::<f32>()),
        _ => format!("{number:?}"),
    }
}

/// Formats as `1.5e-7`, with the fewest digits that read back as the same value.
fn shortest_exponent(value: ScalarValue) -> String {
    let number = value.as_f64();
    let reads_back = |text: &str| {
        let read: f64 = text.parse().unwrap_or(number);
        match value.ty {
            Scalar::F16 => ScalarValue::of(read).to::<f16>().to_bits() == value.bits as u16,
            _ => ScalarValue::of(read).to::<bf16>().to_bits() == value.bits as u16,
        }
    };
    match value.ty {
        Scalar::F32 => format!("{:e}", value.to::<f32>()),
        Scalar::F64 => format!("{number:e}"),
        _ => {
            (0..9).map(|digits| format!("{number:.digits$e}")).find(|t| reads_back(t)).unwrap_or(format!("{number:e}"))
        }
    }
}

/// Formats as `print` does.
impl fmt::Display for ScalarValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(*self))
    }
}
