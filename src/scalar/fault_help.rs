//! Help texts of arithmetic faults, which the host and kernels share.

use crate::Scalar;
use crate::exact::limits;

/// Returns the help for a signed overflow. `operation` is the failed operation with its operands, such as `2 * (-3)`.
pub fn overflow_help(operation: &str, ty: Scalar) -> String {
    let wider = if ty.bits() < 32 { Scalar::I32 } else { Scalar::I64 };
    let negation = operation.starts_with("-(");
    let operators = [(" + ", "wrapping_add"), (" - ", "wrapping_sub"), (" * ", "wrapping_mul")];
    let operator = operators.into_iter().find(|(symbol, _)| !negation && operation.contains(symbol));
    let wrapping = match operator {
        Some((_, function)) => format!("; if wrapping is intended, write `{function}(a, b)`"),
        None if negation => "; if wrapping is intended, write `wrapping_neg(a)`".into(),
        None => String::new(),
    };
    let computation = match operator {
        _ if ty == Scalar::I64 => "compute with floats: `f64(a)`".into(),
        Some((symbol, _)) => format!("compute in a wider type: `{wider}(a){symbol}{wider}(b)`"),
        None => format!("compute in a wider type: `{wider}(a)`"),
    };
    format!("{computation}{wrapping}")
}

/// Returns the help for a float that does not fit the integer type of a conversion.
pub fn conversion_help(value: f64, to: Scalar) -> String {
    let fits = |ty: &Scalar| {
        let (low, high) = limits(*ty);
        value >= low as f64 && value < high as f64
    };
    if value.is_nan() {
        return format!("replace NaN before the conversion: `if isnan(x) {{ 0 }} else {{ {to}(x) }}`");
    }
    if to.bits() <= 16 {
        let (low, high) = limits(to);
        return format!("limit the value first if that is intended: `{to}(clamp(x, {low}.0, {high}.0))`");
    }
    let wider = [Scalar::I32, Scalar::I64, Scalar::U64].into_iter().find(|ty| *ty != to && fits(ty));
    let wider = wider.map(|ty| format!("`{ty}(x)` can represent it"));
    let limited =
        (value < 0.0 && !to.is_signed()).then(|| format!("`{to}(max(x, 0.0))` turns negative numbers into 0"));
    match (wider, limited) {
        (Some(wider), Some(limited)) => format!("{wider}; {limited}"),
        (Some(help), None) | (None, Some(help)) => help,
        (None, None) => "keep the value a float, or divide it before the conversion".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_help_names_the_function_of_the_operator() {
        assert!(overflow_help("(-5) - 3", Scalar::I8).contains("`wrapping_sub(a, b)`"));
        assert!(overflow_help("-(-128)", Scalar::I8).contains("`wrapping_neg(a)`"));
        assert!(!overflow_help("2 ** 40", Scalar::I32).contains("wrapping"));
    }

    #[test]
    fn conversion_help_suggests_a_type_that_fits() {
        assert_eq!(
            conversion_help(-2.0, Scalar::U32),
            "`i32(x)` can represent it; `u32(max(x, 0.0))` turns negative numbers into 0"
        );
        assert!(conversion_help(300.0, Scalar::U8).contains("`u8(clamp(x, 0.0, 255.0))`"));
        assert!(conversion_help(3e9, Scalar::I32).starts_with("`i64(x)`"));
    }
}
