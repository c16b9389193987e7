//! Creation of arrays: constant, sequential, random.

use crate::array::{AlignedBytes, Array, ArrayScalar, ElementType, byte_count, no_memory};
use crate::ops::operand::{adapt, common_scalar, undefined};
use crate::problem::{HostResult, RuntimeError};
use crate::value::HostValue;
use clk_base::stop;
use clk_scalar::philox::Philox;
use clk_scalar::{Scalar, ScalarType as _, bf16, f16};
use clk_scalar::{with_float, with_integer, with_number};

/// Converts the dimensions of a new array to extents; an error if one is negative.
pub(crate) fn shape(dims: &[i64]) -> HostResult<Vec<usize>> {
    let extent = |&d: &i64| {
        usize::try_from(d).map_err(|_| RuntimeError::new("E0541", format!("an axis cannot have {d} elements")))
    };
    dims.iter().map(extent).collect()
}

/// Evaluates `zeros`. The memory is allocated on first use, either on a device or on the host. A size that exceeds the
/// host's memory is reported immediately.
pub fn zeros(dims: &[i64], ty: Scalar) -> HostResult<HostValue> {
    let (element, shape) = (ElementType::Scalar(ty), shape(dims)?);
    if !AlignedBytes::can_allocate(byte_count(&element, &shape)?) {
        return Err(no_memory(&element, &shape));
    }
    Array::unplaced(element, &shape).map(HostValue::Array)
}

pub fn ones(dims: &[i64], ty: Scalar) -> HostResult<HostValue> {
    full(dims, &HostValue::Scalar(clk_scalar::ScalarValue::one(ty)))
}

pub fn full(dims: &[i64], value: &HostValue) -> HostResult<HostValue> {
    Array::full(&value.clone().with_default_type(), &shape(dims)?).map(HostValue::Array)
}

/// Returns the identity matrix.
pub fn eye(n: i64, ty: Scalar) -> HostResult<HostValue> {
    let shape = shape(&[n, n])?;
    let mut array = Array::zeros(ty, &shape)?;
    let (one, size) = (clk_scalar::ScalarValue::one(ty).to_bytes(), ty.size());
    let step = (n.max(0) as usize + 1).saturating_mul(size);
    for place in stop::polled(array.bytes_mut()?.chunks_mut(step)) {
        place.iter_mut().zip(one).take(size).for_each(|(byte, one)| *byte = one);
    }
    Ok(HostValue::Array(array))
}

/// Returns `n` equidistant values from `start` to `stop`, both inclusive, computed in `f64`. If the distance overflows
/// `f64`, the values are computed from halved bounds.
pub fn linspace(start: &HostValue, stop: &HostValue, n: i64) -> HostResult<HostValue> {
    let scalar = common_scalar(&[start, stop]).unwrap_or(Scalar::F32);
    let wide = |value: &HostValue| Some(adapt(value, scalar, "`linspace`").ok()?.as_scalar()?.as_f64());
    let undefined = || undefined("`linspace`", &[start, stop]);
    let (first, last) = (wide(start).ok_or_else(undefined)?, wide(stop).ok_or_else(undefined)?);
    let factor = if (last - first).is_finite() || !first.is_finite() || !last.is_finite() { 1.0 } else { 2.0 };
    let step = (last / factor - first / factor) / (n - 1).max(1) as f64;
    let at = |i: usize| match i {
        0 => first,
        i if i as i64 == n - 1 => last,
        i => (i as f64 * step + first / factor) * factor,
    };
    with_float!(scalar, T => fill::<T>(&shape(&[n])?, |i| at(i).to::<T>()), _ => Err(undefined())).map(HostValue::Array)
}

/// Evaluates `arange(stop)`, `arange(start, stop)` or `arange(start, stop, step)`: the numbers `start + i * step` that
/// are less than `stop`, or greater than `stop` if the step is negative. `start` is 0 by default.
pub fn arange(args: &[HostValue]) -> HostResult<HostValue> {
    let (zero, one) = (HostValue::Int(0), HostValue::Int(1));
    let (start, stop, step) = match args {
        [stop] => (&zero, stop, &one),
        [start, stop] => (start, stop, &one),
        [start, stop, step] => (start, stop, step),
        _ => return Err(RuntimeError::new("E0541", format!("`arange` takes 1 to 3 arguments, not {}", args.len()))),
    };
    let bounds = [start, stop, step];
    let has_point = bounds.iter().any(|value| matches!(value, HostValue::Float(_)));
    let scalar = common_scalar(&bounds).unwrap_or(if has_point { Scalar::F32 } else { Scalar::I32 });
    let number = |value: &HostValue| {
        let value = adapt(value, scalar, "`arange`")?.as_scalar();
        value.filter(|n| n.ty == scalar && n.ty.is_num()).ok_or_else(|| undefined("`arange`", &bounds))
    };
    let (start, stop, step) = (number(start)?, number(stop)?, number(step)?);
    match (start.as_integer(), stop.as_integer(), step.as_integer()) {
        (Some(start), Some(stop), Some(step)) => count_integers(scalar, start, stop, step),
        _ => count_floats(scalar, start.as_f64(), stop.as_f64(), step.as_f64()),
    }
}

fn zero_step() -> RuntimeError {
    RuntimeError::new("E0540", "`arange` cannot step by 0")
}

fn too_long(n: impl std::fmt::Display) -> RuntimeError {
    RuntimeError::new("E0509", format!("`arange` would make {n} elements"))
        .note(format!("an axis has at most {} elements", crate::array::MAX_EXTENT))
}

fn count_integers(scalar: Scalar, start: i128, stop: i128, step: i128) -> HostResult<HostValue> {
    let (distance, stride) = if step > 0 { (stop - start, step) } else { (start - stop, -step) };
    if stride == 0 {
        return Err(zero_step());
    }
    let n = if distance > 0 { (distance + stride - 1) / stride } else { 0 };
    let n = i64::try_from(n).map_err(|_| too_long(n))?;
    let at = |i: usize| clk_scalar::ScalarValue::from_integer(scalar, start + step * i as i128).map_or(0, |v| v.bits);
    let array = with_integer!(scalar, T => fill::<T>(&shape(&[n])?, |i| T::from_raw(at(i))), _ => Err(zero_step()))?;
    if (start, step) == (0, 1) {
        array.data().record_index_bound(scalar, n as usize);
        array.data().record_iota(scalar);
    }
    Ok(HostValue::Array(array))
}

/// Creates the array of the floats `start + i * step` before `stop`. Each is rounded once to the type.
///
/// For example, `arange(0.0, 0.3, 0.1)` has three elements. The exact value of `0 + 3 * 0.1` with the `f32` number 0.1
/// is less than `stop`, but equals `stop` after rounding to `f32`. Since the rounded elements are monotonic, bisection
/// finds their number.
fn count_floats(scalar: Scalar, start: f64, stop: f64, step: f64) -> HostResult<HostValue> {
    if step == 0.0 {
        return Err(zero_step());
    }
    if ![start, stop, step].iter().all(|bound| bound.is_finite()) {
        let title = format!("`arange` counts from {start} to below {stop} by {step}");
        return Err(RuntimeError::new("E0541", title).label("all three must be finite"));
    }
    let steps = LinearSpace { start, step };
    with_float!(scalar, T => steps.before::<T>(stop), _ => Err(zero_step())).map(HostValue::Array)
}

/// A sequence of equidistant floats.
#[derive(Clone, Copy)]
struct LinearSpace {
    start: f64,
    step: f64,
}

impl LinearSpace {
    /// Returns element `i`, rounded once. For types narrower than `f64`, `i * step` is exact in `f64` if `i` is less
    /// than 2^29. The sum is rounded to odd in `f64`, so that rounding it again to the type yields the number nearest
    /// to the exact sum.
    #[inline(always)]
    fn at<T: ArrayScalar>(self, i: usize) -> T {
        if T::SCALAR == Scalar::F64 {
            return (i as f64).mul_add(self.step, self.start).to::<T>();
        }
        let product = i as f64 * self.step;
        let sum = product + self.start;
        // Compute the rounding error of the sum (Knuth's TwoSum).
        let part = sum - product;
        let error = (product - (sum - part)) + (self.start - part);
        let bits = sum.to_bits();
        let odd = match (error > 0.0) == (sum > 0.0) {
            _ if error == 0.0 || bits & 1 == 1 => bits,
            true => bits + 1,
            false => bits - 1,
        };
        f64::from_bits(odd).to::<T>()
    }

    /// Returns the array of all elements before `stop`.
    fn before<T: ArrayScalar>(self, stop: f64) -> HostResult<Array> {
        let is_before = |i: usize| {
            let element = self.at::<T>(i).to::<f64>();
            if self.step > 0.0 { element < stop } else { element > stop }
        };
        let most = crate::array::MAX_EXTENT;
        if is_before(most) {
            return Err(too_long(((stop - self.start) / self.step).ceil()));
        }
        let (mut least, mut end) = (0, most);
        while least < end {
            let middle = usize::midpoint(least, end);
            if is_before(middle) { least = middle + 1 } else { end = middle }
        }
        fill::<T>(&[least], |i| self.at::<T>(i))
    }
}

/// Creates an array in which each element is `value` of its row-major position.
fn fill<T: ArrayScalar>(shape: &[usize], value: impl Fn(usize) -> T) -> HostResult<Array> {
    Array::build(ElementType::Scalar(T::SCALAR), shape, |items: &mut [T]| {
        for (start, places) in stop::polled_chunks_mut(items) {
            places.iter_mut().enumerate().for_each(|(i, place)| *place = value(start + i));
        }
    })
}

/// Returns uniform random numbers in [0, 1). Element i depends only on the substream and i. 16-bit floats use only as
/// many random bits as their significand has, so that no number is rounded up to 1.
pub fn random(dims: &[i64], stream: impl Into<Philox>, ty: Scalar) -> HostResult<HostValue> {
    let (shape, stream): (_, Philox) = (shape(dims)?, stream.into());
    let short = |i: usize, bits: u32| (stream.word(i as u64) >> (32 - bits)) as f32 / (1u32 << bits) as f32;
    match ty {
        Scalar::F32 => words(&shape, stream, clk_scalar::philox::uniform_f32),
        Scalar::F64 => fill(&shape, |i| stream.uniform_f64(i as u64)),
        Scalar::F16 => fill(&shape, |i| short(i, 11).to::<f16>()),
        Scalar::Bf16 => fill(&shape, |i| short(i, 8).to::<bf16>()),
        _ => {
            Err(not_float("random", ty)
                .help(format!("for integers use `random_int(low, high, …)`, or convert: `{ty}(…)`")))
        }
    }
    .map(HostValue::Array)
}

/// Creates an array whose elements are computed from one 32-bit random number each. The generator returns blocks of
/// four.
fn words(shape: &[usize], stream: Philox, number: impl Fn(u32) -> f32) -> HostResult<Array> {
    Array::build(ElementType::Scalar(Scalar::F32), shape, |items: &mut [f32]| {
        for (block, places) in stop::polled(items.chunks_mut(4).enumerate()) {
            let words = stream.block(block as u64);
            places.iter_mut().zip(words).for_each(|(place, word)| *place = number(word));
        }
    })
}

/// Returns normally distributed random numbers with mean 0 and standard deviation 1.
pub fn random_normal(dims: &[i64], stream: impl Into<Philox>, ty: Scalar) -> HostResult<HostValue> {
    let (shape, stream): (_, Philox) = (shape(dims)?, stream.into());
    match ty {
        Scalar::F64 => fill(&shape, |i| stream.normal_f64(i as u64)),
        _ => with_float!(ty, T => fill::<T>(&shape, |i| stream.normal_f32(i as u64).to::<T>()),
            _ => Err(not_float("random_normal", ty))),
    }
    .map(HostValue::Array)
}

fn not_float(what: &str, ty: Scalar) -> RuntimeError {
    RuntimeError::new("E0505", format!("`{what}` makes floats, not {ty}"))
}

/// Returns uniform random integers from `low` (inclusive) to `high` (exclusive).
pub fn random_int(low: &HostValue, high: &HostValue, dims: &[i64], stream: impl Into<Philox>) -> HostResult<HostValue> {
    let scalar = common_scalar(&[low, high]).unwrap_or(Scalar::I32);
    let undefined = || undefined("`random_int`", &[low, high]);
    let bound = |value: &HostValue| {
        let number = adapt(value, scalar, "`random_int`")?.as_scalar();
        number.filter(|n| n.ty == scalar).and_then(|n| n.as_integer()).ok_or_else(undefined)
    };
    let (from, to) = (bound(low)?, bound(high)?);
    let range = match u64::try_from(to - from) {
        Ok(range) if range > 0 => range,
        _ => {
            return Err(RuntimeError::new(
                "E0541",
                format!("`random_int` from {from} to below {to}: there is no such number"),
            )
            .label("the second bound must be greater than the first"));
        }
    };
    let (shape, stream): (_, Philox) = (shape(dims)?, stream.into());
    let at = |i: usize| (from as u64).wrapping_add(stream.uniform_below(i as u64, range));
    let make = |scalar| with_number!(scalar, T => fill::<T>(&shape, |i| T::from_raw(at(i))), bool => Err(undefined()));
    if scalar.is_int() { make(scalar).map(HostValue::Array) } else { Err(undefined()) }
}
