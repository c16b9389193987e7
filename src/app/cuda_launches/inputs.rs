//! Contents of arrays and values of parameters that nothing determines. They depend only on the name, so each run has
//! the same.

use clk_host::array::{Array, ElementType, element_value};
use clk_host::problem::HostResult;
use clk_host::value::HostValue;
use clk_import::InitialValue;
use clk_scalar::{Scalar, ScalarValue};

/// How integers in arrays are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntegerContents {
    /// Random integers from 0 to below a limit, so that they may be indices.
    Random { limit: u64 },
    /// The position of the element, modulo a limit.
    Positions { limit: u64 },
    /// One number for all elements.
    All(u64),
}

/// Generates the elements of an array.
pub(crate) fn array(element: &ElementType, count: usize, name: &str, integers: IntegerContents) -> HostResult<Array> {
    let mut array = Array::zeros(element.clone(), &[count])?;
    let leaves = element.layout().leaves;
    let size = element.size().max(1);
    let mut random = RandomNumbers::of(name);
    for (at, bytes) in array.bytes_mut()?.chunks_exact_mut(size).enumerate() {
        for leaf in &leaves {
            let scalar = leaf.ty.scalar();
            for lane in 0..usize::from(leaf.ty.lanes()) {
                let start = leaf.offset + lane * scalar.size();
                let value = number(scalar, at as u64, integers, &mut random);
                let Some(to) = bytes.get_mut(start..start + scalar.size()) else { continue };
                to.iter_mut().zip(value.bits.to_le_bytes()).for_each(|(to, from)| *to = from);
            }
        }
    }
    Ok(array)
}

/// Creates an array whose bytes are all the same.
pub(crate) fn filled(element: &ElementType, count: usize, byte: u8) -> HostResult<Array> {
    let mut array = Array::zeros(element.clone(), &[count])?;
    array.bytes_mut()?.fill(byte);
    Ok(array)
}

/// Returns an initial value as a scalar of 64 bits.
pub(crate) fn scalar_of(value: InitialValue) -> ScalarValue {
    match value {
        InitialValue::Int(value) => match i64::try_from(value) {
            Ok(value) => ScalarValue::of(value),
            Err(_) => ScalarValue::of(value as u64),
        },
        InitialValue::Float(value) => ScalarValue::of(value),
    }
}

/// Creates an array of scalars with these first elements; the others are zero.
pub(crate) fn listed(element: &ElementType, count: usize, values: &[InitialValue]) -> HostResult<Array> {
    let mut array = Array::zeros(element.clone(), &[count])?;
    let Some(scalar) = element.scalar() else { return Ok(array) };
    for (bytes, value) in array.bytes_mut()?.chunks_exact_mut(scalar.size()).zip(values) {
        let value = scalar_of(*value).to_type(scalar);
        bytes.iter_mut().zip(value.bits.to_le_bytes()).for_each(|(to, from)| *to = from);
    }
    Ok(array)
}

/// Returns the value of a parameter. `numbers` returns the number of each integer in it, by its index among the numbers
/// of the parameter.
pub(crate) fn value(
    element: &ElementType,
    name: &str,
    given: Option<f64>,
    numbers: &dyn Fn(usize) -> Option<i128>,
) -> Option<HostValue> {
    let mut bytes = vec![0; element.size()];
    let mut random = RandomNumbers::of(name);
    for (at, leaf) in element.layout().leaves.iter().enumerate() {
        let scalar = leaf.ty.scalar();
        for lane in 0..usize::from(leaf.ty.lanes()) {
            let value = match (numbers(at), given) {
                (Some(number), _) if scalar.is_int() => ScalarValue::from_integer(scalar, number)?,
                (_, Some(given)) if scalar.is_float() => ScalarValue::of(given).to_type(scalar),
                _ => number(scalar, 1, IntegerContents::Positions { limit: 2 }, &mut random),
            };
            let start = leaf.offset + lane * scalar.size();
            let to = bytes.get_mut(start..start + scalar.size())?;
            to.iter_mut().zip(value.bits.to_le_bytes()).for_each(|(to, from)| *to = from);
        }
    }
    Some(element_value::read(element, &bytes))
}

fn number(scalar: Scalar, at: u64, integers: IntegerContents, random: &mut RandomNumbers) -> ScalarValue {
    let next = random.next();
    if scalar.is_float() {
        // A multiple of 2^-10, so that sums are exact in most types.
        return ScalarValue::of((next >> 54) as f64 / 1024.0).to_type(scalar);
    }
    let limit = |limit: u64| match scalar {
        Scalar::Bool => 2,
        _ => limit.clamp(1, if scalar.size() == 1 { 128 } else { 1 << 15 }),
    };
    let integer = match integers {
        IntegerContents::Random { limit: below } => (next >> 16) % limit(below),
        IntegerContents::Positions { limit: below } => at % limit(below),
        IntegerContents::All(number) => number,
    };
    ScalarValue::from_bits(scalar, integer)
}

/// A stream of random numbers (SplitMix64).
struct RandomNumbers(u64);

impl RandomNumbers {
    fn of(name: &str) -> RandomNumbers {
        RandomNumbers(digest(name.as_bytes()))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// Returns a digest of bytes (64-bit FNV-1a).
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
