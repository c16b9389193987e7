//! Converts number literals to their types.
//!
//! Input: a literal and its type. The type of a literal in generic code is known only when the function is executed or
//! compiled. Output: the nearest value of the type, or an error if the number is out of range.

use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_scalar::decimal::Decimal;
use clk_scalar::{Scalar, ScalarValue, exact, format};

#[derive(Clone, Copy)]
pub enum NumberLiteral {
    Int(i128),
    Float(Decimal),
}

impl NumberLiteral {
    /// Returns the value; `None` if the number is out of range: an integer that does not fit, or a float that would
    /// round to infinity or 0.
    pub fn to(self, ty: Scalar) -> Option<ScalarValue> {
        match self {
            NumberLiteral::Int(number) if ty == Scalar::Bool => Some(ScalarValue::of(number != 0)),
            NumberLiteral::Int(number) if ty.is_float() => Decimal::from_integer(number).round_to(ty),
            NumberLiteral::Int(number) => ScalarValue::from_integer(ty, number),
            NumberLiteral::Float(number) => number.round_to(ty),
        }
    }

    fn text(self) -> String {
        match self {
            NumberLiteral::Int(number) => number.to_string(),
            NumberLiteral::Float(number) if number.as_f64().abs() >= 1e6 => format!("{:e}", number.as_f64()),
            NumberLiteral::Float(number) => format::plain(ScalarValue::of(number.as_f64())),
        }
    }

    /// Builds the error for a type whose range does not include the number.
    pub fn out_of_range(self, ty: Scalar, span: Span) -> Diagnostic {
        let text = self.text();
        if ty.is_int() {
            return range_error(&text, ty, span, &range(ty))
                .help("give it a type that is wide enough: a suffix such as `i64`, or a conversion");
        }
        let d = range_error(&text, ty, span, &float_range(ty, self.is_small()));
        match [Scalar::F32, Scalar::F64].into_iter().find(|&wider| self.to(wider).is_some()) {
            Some(wider) => {
                d.help(format!("`{text}{wider}` is a number of the type `{wider}`, which has a larger range"))
            }
            None => d,
        }
    }

    fn is_small(self) -> bool {
        matches!(self, NumberLiteral::Float(number) if number.as_f64().abs() < 1.0)
    }
}

/// Builds the error for a float, `text` in the source, that is out of range for every type.
pub(crate) fn out_of_all_ranges(text: &str, number: Decimal, span: Span) -> Diagnostic {
    range_error(text, Scalar::F64, span, &float_range(Scalar::F64, NumberLiteral::Float(number).is_small()))
        .note("no numeric type has a larger range")
}

fn range_error(text: &str, ty: Scalar, span: Span, range: &str) -> Diagnostic {
    Diagnostic::error("E0313", format!("{text} does not fit into `{ty}`")).at(span, range)
}

fn range(ty: Scalar) -> String {
    let (low, high) = exact::limits(ty);
    format!("`{ty}` goes from {low} to {high}")
}

fn float_range(ty: Scalar, small: bool) -> String {
    // The largest number of each type, and its smallest number above 0.
    let (largest, smallest) = match ty {
        Scalar::F16 => ("65504", "6e-8"),
        Scalar::Bf16 => ("3.39e38", "9.2e-41"),
        Scalar::F32 => ("3.4028235e38", "1.4e-45"),
        _ => ("1.7976931348623157e308", "4.9e-324"),
    };
    match small {
        true => format!("`{ty}` would make it 0: its smallest number above that is {smallest}"),
        false => format!("`{ty}` goes from -{largest} to {largest}"),
    }
}
