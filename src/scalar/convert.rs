//! Conversions between scalar types.
//!
//! A conversion to an integer wraps integers, truncates and saturates floats, and converts NaN to 0. A conversion to a
//! float rounds once, to nearest even. A conversion to `bool` is true for all values except zero (so NaN is true). A
//! `bool` is converted to 0 or 1.

use super::half_convert::{f64_to_odd_f32, i64_to_odd_f64, u64_to_odd_f64};
use super::{bf16, f16, half_convert};

/// Conversion to this type, with one function per source type.
pub trait Convert: Sized {
    fn from_bool(value: bool) -> Self;
    fn from_i8(value: i8) -> Self;
    fn from_i16(value: i16) -> Self;
    fn from_i32(value: i32) -> Self;
    fn from_i64(value: i64) -> Self;
    fn from_u8(value: u8) -> Self;
    fn from_u16(value: u16) -> Self;
    fn from_u32(value: u32) -> Self;
    fn from_u64(value: u64) -> Self;
    fn from_f16(value: f16) -> Self;
    fn from_bf16(value: bf16) -> Self;
    fn from_f32(value: f32) -> Self;
    fn from_f64(value: f64) -> Self;
}

macro_rules! function {
    ($($name:ident($value:ident: $from:ty) $body:expr;)*) => {
        $(
            #[inline(always)]
            fn $name($value: $from) -> Self {
                $body
            }
        )*
    };
}

/// Implements [`Convert`] for types for which Rust's `as` has the semantics of Clk's conversions.
macro_rules! primitive {
    ($($ty:ty)*) => {
        $(impl Convert for $ty {
            function! {
                from_bool(v: bool) v as u8 as $ty;
                from_i8(v: i8) v as $ty;
                from_i16(v: i16) v as $ty;
                from_i32(v: i32) v as $ty;
                from_i64(v: i64) v as $ty;
                from_u8(v: u8) v as $ty;
                from_u16(v: u16) v as $ty;
                from_u32(v: u32) v as $ty;
                from_u64(v: u64) v as $ty;
                from_f16(v: f16) half_convert::f16_to_f32(v) as $ty;
                from_bf16(v: bf16) half_convert::bf16_to_f32(v) as $ty;
                from_f32(v: f32) v as $ty;
                from_f64(v: f64) v as $ty;
            }
        })*
    };
}

primitive!(i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

impl Convert for bool {
    function! {
        from_bool(v: bool) v;
        from_i8(v: i8) v != 0;
        from_i16(v: i16) v != 0;
        from_i32(v: i32) v != 0;
        from_i64(v: i64) v != 0;
        from_u8(v: u8) v != 0;
        from_u16(v: u16) v != 0;
        from_u32(v: u32) v != 0;
        from_u64(v: u64) v != 0;
        from_f16(v: f16) v.to_bits() & 0x7fff != 0;
        from_bf16(v: bf16) v.to_bits() & 0x7fff != 0;
        from_f32(v: f32) v != 0.0;
        from_f64(v: f64) v != 0.0;
    }
}

/// Implements [`Convert`] for a 16-bit float. Values with more digits than an `f32` are first rounded to odd `f32`
/// values; then the second rounding has the same result as a single rounding.
macro_rules! half_float {
    ($ty:ty, $from_f32:path) => {
        impl Convert for $ty {
            function! {
                from_bool(v: bool) $from_f32(v as u8 as f32);
                from_i8(v: i8) $from_f32(v as f32);
                from_i16(v: i16) $from_f32(v as f32);
                from_i32(v: i32) $from_f32(f64_to_odd_f32(v as f64));
                from_i64(v: i64) $from_f32(f64_to_odd_f32(i64_to_odd_f64(v)));
                from_u8(v: u8) $from_f32(v as f32);
                from_u16(v: u16) $from_f32(v as f32);
                from_u32(v: u32) $from_f32(f64_to_odd_f32(v as f64));
                from_u64(v: u64) $from_f32(f64_to_odd_f32(u64_to_odd_f64(v)));
                from_f16(v: f16) $from_f32(half_convert::f16_to_f32(v));
                from_bf16(v: bf16) $from_f32(half_convert::bf16_to_f32(v));
                from_f32(v: f32) $from_f32(v);
                from_f64(v: f64) $from_f32(f64_to_odd_f32(v));
            }
        }
    };
}

half_float!(f16, half_convert::f32_to_f16);
half_float!(bf16, half_convert::f32_to_bf16);
