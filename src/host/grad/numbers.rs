//! The floats that values consist of, as numbers, and values made of numbers. In and out: values without traces.

use super::form::Form;
use super::tape::lost;
use crate::base::{room, stop};
use crate::host::array::{Array, Element};
use crate::host::problem::Outcome;
use crate::host::value::{Value, Vector};
use crate::lang::scalar::{self, Scalar};

/// Returns the floats of a number, a vector or an array, in order.
pub(crate) fn numbers(value: &Value) -> Outcome<Vec<f64>> {
    match value {
        Value::Scalar(number) => Ok(vec![number.as_f64()]),
        Value::Int(number) => Ok(vec![*number as f64]),
        Value::Float(number) => Ok(vec![*number]),
        Value::Vector(vector) => Ok(vector.values().map(|lane| lane.as_f64()).collect()),
        Value::Array(array) => {
            let Some(scalar) = array.scalar() else { return Err(lost("an array of structs")) };
            let chunks = array.bytes()?.chunks_exact(scalar.size());
            let count = array.count() * array.element().lanes();
            Ok(room::collect(count, chunks.map(|bytes| scalar::Value::from_bytes(scalar, bytes).as_f64())))
        }
        other => Err(lost(&format!("a `{}` is no float", other.type_name()))),
    }
}

/// Returns a value of the form of another, or of its twin in another type, with these numbers, rounded.
pub(crate) fn of_numbers(like: &Value, numbers: &[f64], ty: Option<Scalar>) -> Outcome<Value> {
    let form = Form::of(like).ok_or_else(|| lost("it is no float"))?;
    let scalar = ty.unwrap_or(form.scalar);
    let bits = |number: f64| scalar::Value::of(number).to_type(scalar).bits;
    match (form.shape, form.lanes) {
        (Some(shape), lanes) => {
            let element = match lanes {
                1 => Element::Scalar(scalar),
                lanes => Element::Vector(scalar, lanes as u8),
            };
            let mut array = Array::zeros(element, &shape)?;
            for (place, &number) in stop::polled(array.bytes_mut()?.chunks_exact_mut(scalar.size()).zip(numbers)) {
                place.copy_from_slice(&bits(number).to_le_bytes()[..scalar.size()]);
            }
            Ok(Value::Array(array))
        }
        (None, 1) => {
            let number = numbers.first().copied().unwrap_or(0.0);
            Ok(Value::Scalar(scalar::Value { ty: scalar, bits: bits(number) }))
        }
        (None, _) => Ok(Value::Vector(Vector::new(scalar, numbers.iter().map(|&number| bits(number))))),
    }
}

/// Returns numbers of random signs and sizes, from a half to one times those of others: where those are 0, times their mean, or one.
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
    room::collect(numbers.len(), numbers.iter().map(random))
}

/// Returns `count` copies of a number.
pub(crate) fn repeated(number: f64, count: usize) -> Vec<f64> {
    room::collect(count, std::iter::repeat_n(number, count))
}

/// Returns the sum of the products of numbers.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the sum of the sizes of the products of numbers.
pub(crate) fn size(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a * b).abs()).sum()
}
