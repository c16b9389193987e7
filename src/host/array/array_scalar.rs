//! The Rust types in which array elements can be accessed.

use bytemuck::{CheckedBitPattern, NoUninit};

/// A Rust type that corresponds to a scalar type. Casts from bytes check that all values are valid (a `bool` must be 0
/// or 1).
pub trait ArrayScalar: clk_scalar::ScalarType + CheckedBitPattern + NoUninit {}

impl<T: clk_scalar::ScalarType + CheckedBitPattern + NoUninit> ArrayScalar for T {}
