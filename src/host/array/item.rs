//! The Rust types as which array elements can be viewed.

use bytemuck::{CheckedBitPattern, NoUninit};

use crate::lang::scalar;

/// A Rust type that corresponds to a scalar type. Views of bytes are checked for validity (a `bool` is 0 or 1).
pub trait Item: scalar::Element + CheckedBitPattern + NoUninit {}

impl<T: scalar::Element + CheckedBitPattern + NoUninit> Item for T {}
