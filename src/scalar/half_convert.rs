//! Conversions to and from 16-bit floats, and rounding to `tf32`. Also rounds wider types to odd, so that a second
//! rounding to a 16-bit float is correct.

use super::{bf16, f16};

/// Converts with rounding to nearest even.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> f16 {
    let bits = value.to_bits();
    let doubled = bits.wrapping_add(bits);
    // Two exact multiplications by powers of two turn values that are too large for f16 into infinity and leave all
    // others unchanged.
    let scaled = f32::from_bits(bits & 0x7fff_ffff) * f32::from_bits(0x7780_0000) * f32::from_bits(0x0880_0000);
    // Adding a power of two rounds the value to 11 significant bits.
    let exponent = doubled & 0xff00_0000;
    let exponent = if exponent < 0x7100_0000 { 0x7100_0000 } else { exponent };
    let rounded = (f32::from_bits((exponent >> 1).wrapping_add(0x0780_0000)) + scaled).to_bits();
    let number = ((rounded >> 13) & 0x7c00).wrapping_add(rounded & 0x0fff);
    let magnitude = if doubled > 0xff00_0000 { 0x7e00 } else { number };
    f16::from_bits(((bits >> 16) & 0x8000 | magnitude) as u16)
}

/// Converts exactly.
#[inline(always)]
pub fn f16_to_f32(value: f16) -> f32 {
    let bits = (value.to_bits() as u32) << 16;
    let doubled = bits.wrapping_add(bits);
    let normal = f32::from_bits((doubled >> 4).wrapping_add(0xe0 << 23)) * f32::from_bits(0x0780_0000);
    let subnormal = f32::from_bits((doubled >> 17) | (126 << 23)) - 0.5;
    let magnitude = if doubled < 1 << 27 { subnormal } else { normal };
    f32::from_bits(bits & 0x8000_0000 | magnitude.to_bits())
}

/// Converts with rounding to nearest even.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> bf16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let quiet = (bits >> 16) | 0x40;
    let nan = bits & 0x7fff_ffff > 0x7f80_0000;
    bf16::from_bits(if nan { quiet } else { rounded } as u16)
}

/// Converts exactly.
#[inline(always)]
pub fn bf16_to_f32(value: bf16) -> f32 {
    f32::from_bits((value.to_bits() as u32) << 16)
}

/// Rounds to `tf32`, with ties to even. The result is an `f32` whose last 13 of 23 fraction bits are zero. NaNs become
/// quiet.
#[inline(always)]
pub(crate) fn f32_to_tf32(value: f32) -> f32 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0xfff + ((bits >> 13) & 1));
    let nan = bits & 0x7fff_ffff > 0x7f80_0000;
    f32::from_bits(if nan { bits | 0x40_0000 } else { rounded } & 0xffff_e000)
}

/// Rounds to odd: truncates, and sets the last bit if the result is inexact. A later rounding to fewer bits then has
/// the result of a single rounding.
#[inline(always)]
pub(crate) fn f64_to_odd_f32(value: f64) -> f32 {
    let nearest = value as f32;
    let back = nearest as f64;
    let bits = nearest.to_bits();
    let towards_zero = if back.abs() > value.abs() { bits.wrapping_sub(1) } else { bits };
    let inexact = back != value && !value.is_nan();
    f32::from_bits(if inexact { towards_zero | 1 } else { bits })
}

/// Converts to `f64`, rounded to odd if inexact.
#[inline(always)]
pub(crate) fn i64_to_odd_f64(value: i64) -> f64 {
    let is_exact = value.unsigned_abs() < 1 << 53;
    let sticky = ((value & 0x7ff != 0) as i64) << 11;
    (if is_exact { value } else { value & !0x7ff | sticky }) as f64
}

/// Converts to `f64`, rounded to odd if inexact.
#[inline(always)]
pub(crate) fn u64_to_odd_f64(value: u64) -> f64 {
    let is_exact = value < 1 << 53;
    let sticky = ((value & 0x7ff != 0) as u64) << 11;
    (if is_exact { value } else { value & !0x7ff | sticky }) as f64
}
