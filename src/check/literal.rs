//! Numbers of the source and the types that they get.
//!
//! In: a number as it is written, and a type: the checker's, or that of a type parameter when a function is run or compiled. Out:
//! the nearest value, or the message on a number for which the type has none.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::lang::scalar::decimal::Decimal;
use crate::lang::scalar::{Scalar, Value, exact, format};

#[derive(Clone, Copy)]
pub enum Literal {
    Int(i128),
    Float(Decimal),
}

impl Literal {
    /// None if the type does not hold it: an integer outside of its range, a float that would be infinite or 0.
    pub fn to(self, ty: Scalar) -> Option<Value> {
        match self {
            Literal::Int(number) if ty == Scalar::Bool => Some(Value::of(number != 0)),
            Literal::Int(number) if ty.is_float() => Decimal::of_integer(number).to(ty),
            Literal::Int(number) => Value::from_integer(ty, number),
            Literal::Float(number) => number.to(ty),
        }
    }

    fn text(self) -> String {
        match self {
            Literal::Int(number) => number.to_string(),
            Literal::Float(number) if number.as_f64().abs() >= 1e6 => format!("{:e}", number.as_f64()),
            Literal::Float(number) => format::plain(Value::of(number.as_f64())),
        }
    }

    /// The message where a type does not hold it.
    pub fn misfit(self, ty: Scalar, span: Span) -> Diagnostic {
        let text = self.text();
        if ty.is_int() {
            return misfit(&text, ty, span, &range(ty))
                .help("give it a type that is wide enough: a suffix such as `i64`, or a conversion");
        }
        let d = misfit(&text, ty, span, &float_range(ty, self.is_small()));
        match [Scalar::F32, Scalar::F64].into_iter().find(|&wider| self.to(wider).is_some()) {
            Some(wider) => d.help(format!("`{text}{wider}` is a number of the type `{wider}`, which goes further")),
            None => d,
        }
    }

    fn is_small(self) -> bool {
        matches!(self, Literal::Float(number) if number.as_f64().abs() < 1.0)
    }
}

/// The message on a float that no type holds, as it is written.
pub(crate) fn beyond_all(text: &str, number: Decimal, span: Span) -> Diagnostic {
    misfit(text, Scalar::F64, span, &float_range(Scalar::F64, Literal::Float(number).is_small()))
        .note("no type of numbers goes further")
}

fn misfit(text: &str, ty: Scalar, span: Span, range: &str) -> Diagnostic {
    Diagnostic::error("E0313", format!("{text} does not fit into `{ty}`")).at(span, range)
}

fn range(ty: Scalar) -> String {
    let (low, high) = exact::limits(ty);
    format!("`{ty}` goes from {low} to {high}")
}

fn float_range(ty: Scalar, small: bool) -> String {
    // The digits of a type's largest number and of its smallest above 0.
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
