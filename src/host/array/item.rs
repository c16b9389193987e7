//! The Rust types that the scalars of arrays are viewed as.

use bytemuck::Pod;
use half::{bf16, f16};

use crate::lang::scalar::Scalar;

/// A Rust type with the bits of one scalar type (`bool` has none: its bytes have to be 0 or 1).
pub trait Item: Pod + Send + Sync {
    const SCALAR: Scalar;
}

macro_rules! items {
    ($($rust:ty => $scalar:ident),* $(,)?) => {
        $(impl Item for $rust {
            const SCALAR: Scalar = Scalar::$scalar;
        })*
    };
}

items! {
    i8 => I8, i16 => I16, i32 => I32, i64 => I64,
    u8 => U8, u16 => U16, u32 => U32, u64 => U64,
    f16 => F16, bf16 => Bf16, f32 => F32, f64 => F64,
}
