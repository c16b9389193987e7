//! Conversion of untraced values to vectors of `f64` and back.

use super::tape::not_differentiable;
use super::value_shape::ValueShape;
use crate::array::{Array, ElementType};
use crate::problem::HostResult;
use crate::value::{HostValue, Vector};
use clk_base::{alloc, stop};
use clk_scalar::Scalar;

/// Returns the numbers in a float, a vector or an array, in order.
pub(crate) fn flatten(value: &HostValue) -> HostResult<Vec<f64>> {
    match value {
        HostValue::Scalar(number) => Ok(vec![number.as_f64()]),
        HostValue::Int(number) => Ok(vec![*number as f64]),
        HostValue::Float(number) => Ok(vec![*number]),
        HostValue::Vector(vector) => Ok(vector.values().map(|lane| lane.as_f64()).collect()),
        HostValue::Array(array) => {
            let Some(scalar) = array.scalar() else { return Err(not_differentiable("an array of structs")) };
            let chunks = array.bytes()?.chunks_exact(scalar.size());
            let count = array.count() * array.element().lanes();
            Ok(alloc::collect(count, chunks.map(|bytes| clk_scalar::ScalarValue::from_bytes(scalar, bytes).as_f64())))
        }
        other => Err(not_differentiable(&format!("a `{}` is no float", other.type_name()))),
    }
}

/// Inverse of [`flatten`]: returns a value with the shape of `like` that contains these numbers. Its float type is `ty`
/// if given, otherwise the type of `like`; numbers are rounded to it.
pub(crate) fn unflatten(like: &HostValue, numbers: &[f64], ty: Option<Scalar>) -> HostResult<HostValue> {
    let form = ValueShape::for_value(like).ok_or_else(|| not_differentiable("it is no float"))?;
    let scalar = ty.unwrap_or(form.scalar);
    let bits = |number: f64| clk_scalar::ScalarValue::of(number).to_type(scalar).bits;
    match (form.shape, form.lanes) {
        (Some(shape), lanes) => {
            let element = match lanes {
                1 => ElementType::Scalar(scalar),
                lanes => ElementType::Vector(scalar, lanes as u8),
            };
            let mut array = Array::zeros(element, &shape)?;
            for (place, &number) in stop::polled(array.bytes_mut()?.chunks_exact_mut(scalar.size()).zip(numbers)) {
                place.copy_from_slice(&bits(number).to_le_bytes()[..scalar.size()]);
            }
            Ok(HostValue::Array(array))
        }
        (None, 1) => {
            let number = numbers.first().copied().unwrap_or(0.0);
            Ok(HostValue::Scalar(clk_scalar::ScalarValue { ty: scalar, bits: bits(number) }))
        }
        (None, _) => Ok(HostValue::Vector(Vector::new(scalar, numbers.iter().map(|&number| bits(number))))),
    }
}

/// Returns numbers with random signs. Each magnitude is the one of the corresponding number, times a random factor
/// between one half and one. Zeros use the mean magnitude instead, or 1 if all are zero.
pub(crate) fn random_like(numbers: &[f64], seed: u64) -> Vec<f64> {
    let sizes = || numbers.iter().map(|x| x.abs()).filter(|size| *size > 0.0 && size.is_finite());
    let count = sizes().count();
    let mean = if count > 0 { sizes().sum::<f64>() / count as f64 } else { 1.0 };
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let random = |x: &f64| {
        let bits = next();
        let part = 0.5 + 0.5 * (bits >> 11) as f64 / (1u64 << 53) as f64;
        let size = if *x == 0.0 || !x.is_finite() { mean } else { x.abs() };
        if bits & 1 == 0 { part * size } else { -part * size }
    };
    alloc::collect(numbers.len(), numbers.iter().map(random))
}

/// Returns `count` copies of a number.
pub(crate) fn repeat_number(number: f64, count: usize) -> Vec<f64> {
    alloc::collect(count, std::iter::repeat_n(number, count))
}

/// Returns the dot product of two vectors.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the sum of the magnitudes of the dot product's terms.
pub(crate) fn dot_magnitude(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a * b).abs()).sum()
}
