//! Conversion of the arrays that charts and heat maps show.

use crate::array::Array;
use crate::problem::{HostResult, RuntimeError};
use clk_base::{alloc, stop};
use clk_scalar::ScalarValue;

/// Converts the elements of an array to `f64`, for the builtin `name`.
pub(super) fn numbers(name: &str, array: &Array) -> HostResult<Vec<f64>> {
    let Some(scalar) = array.scalar().filter(|_| array.element().lanes() == 1) else {
        let title = format!("`{name}` draws numbers, not elements of type {}", array.element());
        return Err(RuntimeError::new("E0717", title));
    };
    let numbers =
        array.bytes()?.chunks_exact(scalar.size()).map(|bytes| ScalarValue::from_bytes(scalar, bytes).as_f64());
    Ok(alloc::collect(array.count(), stop::polled(numbers)))
}
