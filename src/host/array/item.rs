//! The Rust types that the scalars of arrays are viewed as.

use bytemuck::{CheckedBitPattern, NoUninit};

use crate::lang::scalar;

/// A Rust type with the bits of one scalar type. Of bytes it is checked that they are some value of it (a `bool` is 0 or 1).
pub trait Item: scalar::Element + CheckedBitPattern + NoUninit {}

impl<T: scalar::Element + CheckedBitPattern + NoUninit> Item for T {}
