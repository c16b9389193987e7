//! Tests scalar arithmetic whose results are exactly defined: half precision, conversions, integers, and operations on
//! dynamic values.

use clk_host::ops;
use clk_scalar::dynamic::{self, ScalarError};
use clk_scalar::half::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use clk_scalar::ops::{AtomicOp, BinaryOp, MathFn, UnaryOp};
use clk_scalar::{Float, Integer, NumericScalar, Scalar, ScalarType, ScalarValue, bf16, f16, format};

/// Returns pseudo-random 64-bit words. As numbers of various types, many of them are at the limits of the type.
fn words() -> impl Iterator<Item = u64> {
    let mut state = 7u64;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let mixed = (state ^ (state >> 29)).wrapping_mul(0xbf58476d1ce4e5b9);
        let word = mixed ^ (mixed >> 32);
        match state >> 61 {
            0 => word >> (state >> 52 & 63),
            1 => word & word.rotate_left(17) & word.rotate_left(31),
            2 => word | word.rotate_left(9) | word.rotate_left(39),
            _ => word,
        }
    })
}

#[test]
fn every_half_round_trips_through_f32() {
    for bits in 0..=u16::MAX {
        let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
        assert_eq!(f16_to_f32(h).to_bits() & 0xffbf_ffff, h.to_f32().to_bits() & 0xffbf_ffff, "{bits:#x}");
        assert_eq!(bf16_to_f32(b).to_bits(), (bits as u32) << 16);
        if !h.is_nan() {
            assert_eq!(f32_to_f16(f16_to_f32(h)).to_bits(), bits);
        }
        if !b.is_nan() {
            assert_eq!(f32_to_bf16(bf16_to_f32(b)).to_bits(), bits);
        }
    }
}

/// Returns the nearest half-precision number, ties to even. A binary search finds it, independently of the tested
/// conversions.
fn nearest(value: f64, widen: impl Fn(u16) -> f64, infinity: u16) -> u16 {
    let magnitude = value.abs();
    let (mut low, mut high) = (0, infinity);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if widen(middle) <= magnitude { low = middle } else { high = middle }
    }
    // Rounding treats infinity as the number that would follow the largest finite one.
    let next_value = if high == infinity { 2.0 * widen(low) - widen(low - 1) } else { widen(high) };
    let (below, above) = (magnitude - widen(low), next_value - magnitude);
    let bits = if below < above || below == above && low % 2 == 0 { low } else { high };
    bits | if value.is_sign_negative() { 0x8000 } else { 0 }
}

#[test]
fn conversions_to_half_round_once() {
    let f16_of = |v: f64| nearest(v, |b| f16::from_bits(b).to_f64(), 0x7c00);
    let bf16_of = |v: f64| nearest(v, |b| f32::from_bits((b as u32) << 16) as f64, 0x7f80);
    for word in words().take(300_000) {
        let f = f32::from_bits(word as u32);
        if !f.is_nan() {
            assert_eq!(f32_to_f16(f).to_bits(), f16_of(f as f64), "{f:e}");
            assert_eq!(f32_to_bf16(f).to_bits(), bf16_of(f as f64), "{f:e}");
        }
        // An f64 near the midpoint of two half-precision numbers, where low-order bits determine the rounding.
        let middle =
            (f16::from_bits(word as u16 & 0x7bff).to_f64() + f16::from_bits((word as u16 & 0x7bff) + 1).to_f64()) / 2.0;
        let d = f64::from_bits((middle.to_bits() + (word >> 62)).wrapping_sub(1));
        if d.is_finite() {
            assert_eq!(d.to::<f16>().to_bits(), f16_of(d), "{d:e}");
        }
        let middle = f32::from_bits((f.to_bits() & 0x7fff_0000) | 0x8000) as f64;
        let d = f64::from_bits((middle.to_bits() + (word >> 62)).wrapping_sub(1));
        if d.is_finite() {
            assert_eq!(d.to::<bf16>().to_bits(), bf16_of(d), "{d:e}");
        }
        // Integers next to the midpoint of two bf16.
        let i = (word as i64 >> (word % 40)) & !0xff | (word as i64 & 1);
        let exact = |i: i64| if i.unsigned_abs() < 1 << 53 { Some(i as f64) } else { None };
        if let Some(x) = exact(i) {
            assert_eq!(i.to::<f16>().to_bits(), f16_of(x), "{i}");
            assert_eq!(i.to::<bf16>().to_bits(), bf16_of(x), "{i}");
        }
    }
    // 2^62 + 2^54 is the midpoint of two bf16. The next integer has to round up, although an f64 cannot represent it.
    let middle = (1i64 << 62) + (1 << 54);
    assert_eq!(middle.to::<bf16>().to_f64(), 2f64.powi(62));
    assert_eq!((middle + 1).to::<bf16>().to_f64(), 2f64.powi(62) + 2f64.powi(55));
    assert_eq!((-middle - 1).to::<bf16>().to_f64(), -(2f64.powi(62) + 2f64.powi(55)));
    assert_eq!((middle as u64 + 1).to::<bf16>().to_f64(), 2f64.powi(62) + 2f64.powi(55));
    assert_eq!(u64::MAX.to::<f16>(), f16::INFINITY);
}

#[test]
fn half_arithmetic_rounds_once() {
    let f16_of = |v: f64| nearest(v, |b| f16::from_bits(b).to_f64(), 0x7c00);
    for word in words().take(200_000) {
        let at = |shift: u32| f16::from_bits((word >> shift) as u16);
        let (a, b, c) = (at(0), at(16), at(32));
        if a.is_finite() && b.is_finite() && c.is_finite() {
            let (x, y, z) = (a.to_f64(), b.to_f64(), c.to_f64());
            // Sums and products of two half-precision numbers are exact in f64.
            assert_eq!(a.op_mul(b).to_bits(), f16_of(x * y));
            assert_eq!(a.op_add(b).to_bits(), f16_of(x + y));
            assert_eq!(a.op_sub(c).to_bits(), f16_of(x - z));
            let sum = x * y + z;
            let exact = (x * y).mul_add(1.0, z) == sum && sum - x * y == z && sum - z == x * y;
            if exact && sum != 0.0 {
                assert_eq!(a.op_fma(b, c).to_bits(), f16_of(sum), "{a} * {b} + {c}");
            }
        }
    }
    let tiny = |x: f64| bf16::from_f64(x);
    let middle = bf16::from_f64(1.0 + 1.0 / 128.0);
    let half = bf16::from_f64(1.5);
    // 1.5 * 1.0078125 = 1.51171875 is the midpoint of 1.5078125 and 1.515625.
    assert_eq!(middle.op_fma(half, tiny(1e-30)).to_f64(), 1.515625);
    assert_eq!(middle.op_fma(half, tiny(-1e-30)).to_f64(), 1.5078125);
}

#[test]
fn conversions() {
    assert_eq!(f32::NAN.to::<i32>(), 0);
    assert_eq!(f32::INFINITY.to::<u8>(), 255);
    assert_eq!((-3.9f64).to::<i8>(), -3);
    assert_eq!((-3.9f32).to::<u64>(), 0);
    assert_eq!(300i32.to::<u8>(), 44);
    assert_eq!((-1i8).to::<u64>(), u64::MAX);
    assert_eq!(16777217i32.to::<f32>(), 16777216.0);
    assert!(f32::NAN.to::<bool>() && !(-0.0f32).to::<bool>() && !f16::NEG_ZERO.to::<bool>());
    assert_eq!(true.to::<f64>(), 1.0);
    assert_eq!(f16::INFINITY.to::<i16>(), i16::MAX);
    for from in Scalar::ALL {
        for to in Scalar::ALL {
            let one = ScalarValue::one(from);
            assert_eq!(dynamic::convert(to, one), ScalarValue::one(to), "{from} to {to}");
            let cast = dynamic::bitcast(to, one);
            assert_eq!(cast.is_ok(), from.size() == to.size());
        }
    }
}

#[test]
fn integers() {
    assert_eq!(i32::MIN.op_div(-1), i32::MIN);
    assert_eq!(i32::MIN.op_rem(-1), 0);
    assert_eq!((-7i32).op_div(2), -3);
    assert_eq!((-7i32).op_rem(2), -1);
    assert_eq!(7i32.checked_div(0), None);
    assert_eq!(1i32.op_shl(33), 2);
    assert_eq!((-8i8).op_shr(9), -4);
    assert_eq!(3i32.op_pow(20), 3486784401u32 as i32);
    assert_eq!(
        (2i32.op_pow(-1), 1i32.op_pow(-5), (-1i32).op_pow(-5), (-1i32).op_pow(-4), 0i32.op_pow(-1)),
        (0, 1, -1, 1, 0)
    );
    assert_eq!((0i32.op_pow(0), 255u8.op_pow(255)), (1, 255));
    assert_eq!(i32::MIN.op_abs(), i32::MIN);
    assert_eq!(((-5i32).op_sign(), 5u32.op_sign(), 0i8.op_sign()), (-1, 1, 0));
    assert_eq!((i32::MIN.op_mul_hi(i32::MIN), u64::MAX.op_mul_hi(u64::MAX)), (1 << 30, u64::MAX - 1));
    assert_eq!((i64::MIN.op_mul_hi(-1), i8::MIN.op_mul_hi(2)), (0, -1));
    assert_eq!((1i8.op_clz(), 8i16.op_ctz(), 0i32.op_ctz(), (-1i8).op_popcount()), (7, 3, 32, 8));
    assert_eq!((100i8.op_saturating_add(100), 0u32.op_saturating_sub(1)), (127, 0));
}

#[test]
fn floats() {
    assert_eq!(f32::NAN.op_min(1.0), 1.0);
    assert_eq!(1f64.op_max(f64::NAN), 1.0);
    assert!(f32::NAN.op_max(f32::NAN).is_nan());
    assert!((-0.0f32).op_min(0.0).is_sign_negative() && 0.0f32.op_min(-0.0).is_sign_negative());
    assert!((-0.0f64).op_max(0.0).is_sign_positive() && 0.0f64.op_max(-0.0).is_sign_positive());
    assert_eq!((2.5f32.op_round(), 3.5f32.op_round(), (-0.5f32).op_round().to_bits()), (2.0, 4.0, 1 << 31));
    assert_eq!(((-1.25f32).op_fract(), 1.25f64.op_fract()), (0.75, 0.25));
    let (tie, next) = (1.0 + 0.5f32.powi(11), 1.0 + 0.5f32.powi(10));
    assert_eq!((tie.op_tf32(), next.op_tf32(), 1.1f64.op_tf32()), (1.0, next, 1.1));
    assert!((-0.0f32).op_sign().is_sign_negative() && f32::NAN.op_sign().is_nan());
    assert_eq!(1e30f32.op_rem(7.0), libm::fmodf(1e30, 7.0));
    assert_eq!(5.5f32.op_clamp(0.0, 1.0), 1.0);
    assert_eq!((-2f32).op_pow(3.0), -8.0);
}

#[test]
fn dynamic_operations() {
    let i = |v: i32| ScalarValue::of(v);
    assert_eq!(dynamic::binary(BinaryOp::Div, i(1), i(0)), Err(ScalarError::DivisionByZero));
    assert_eq!(
        dynamic::binary(BinaryOp::Rem, ScalarValue::of(1f32), ScalarValue::of(0f32)).map(|v| v.is_nan()),
        Ok(true)
    );
    assert_eq!(dynamic::binary(BinaryOp::Shl, i(1), ScalarValue::of(-1i8)), Ok(i(i32::MIN)));
    assert_eq!(dynamic::binary(BinaryOp::Lt, i(-1), i(1)), Ok(ScalarValue::of(true)));
    assert_eq!(dynamic::binary(BinaryOp::Add, i(1), ScalarValue::of(1i64)), Err(ScalarError::Undefined));
    assert_eq!(dynamic::binary(BinaryOp::Or, ScalarValue::of(true), ScalarValue::of(false)), Ok(ScalarValue::of(true)));
    assert_eq!(dynamic::unary(UnaryOp::Not, ScalarValue::of(1u8)), Ok(ScalarValue::of(254u8)));
    assert_eq!(dynamic::unary(UnaryOp::Neg, ScalarValue::of(true)), Err(ScalarError::Undefined));
    assert_eq!(dynamic::math(MathFn::IsNan, &[ScalarValue::of(f16::NAN)]), Ok(ScalarValue::of(true)));
    assert_eq!(dynamic::math(MathFn::Max, &[i(3), i(4)]), Ok(i(4)));
    assert_eq!(dynamic::math(MathFn::Exp, &[i(3)]), Err(ScalarError::Undefined));
    assert_eq!(dynamic::math(MathFn::Fma, &[i(3)]), Err(ScalarError::Undefined));
    assert_eq!(dynamic::math(MathFn::Exp, &[ScalarValue::of(0.5f32)]), Ok(ScalarValue::of(0.5f32.op_exp())));
    assert_eq!(dynamic::atomic(AtomicOp::CompareExchange, i(3), i(9), Some(i(3))), Ok(i(9)));
    assert_eq!(dynamic::atomic(AtomicOp::CompareExchange, i(3), i(9), Some(i(4))), Ok(i(3)));
    assert_eq!(dynamic::atomic(AtomicOp::Min, i(3), i(-9), None), Ok(i(-9)));
    assert_eq!(ScalarValue::from_integer(Scalar::U8, 256), None);
    assert_eq!(ScalarValue::from_integer(Scalar::U64, u64::MAX.into()), Some(ScalarValue::of(u64::MAX)));
    assert_eq!(ScalarValue::of(-1i16).as_integer(), Some(-1));
}

#[test]
fn text() {
    let show = |v: ScalarValue, spec: &str| format::format(v, spec).unwrap_or_else(|e| format!("error: {e}"));
    let plain = |v: ScalarValue| show(v, "");
    assert_eq!(plain(ScalarValue::of(1f32)), "1.0");
    assert_eq!(plain(ScalarValue::of(0.1f32)), "0.1");
    assert_eq!(plain(ScalarValue::of(1e-7f32)), "1e-7");
    assert_eq!(plain(ScalarValue::of(1e16f64)), "1e16");
    assert_eq!(plain(ScalarValue::of(f32::NAN)), "nan");
    assert_eq!(plain(ScalarValue::of(f64::NEG_INFINITY)), "-inf");
    assert_eq!(plain(ScalarValue::of(0.1f64.to::<f16>())), "0.1");
    assert_eq!(plain(ScalarValue::of(f16::MAX)), "65500.0");
    assert_eq!(plain(ScalarValue::of(3.140625f64.to::<bf16>())), "3.14");
    assert_eq!(plain(ScalarValue::of(true)), "true");
    assert_eq!(show(ScalarValue::of(3.1258f32), ".2"), "3.13");
    assert_eq!(show(ScalarValue::of(-3.1258f32), "+08.2"), "-0003.13");
    assert_eq!(show(ScalarValue::of(42), "+5"), "  +42");
    assert_eq!(show(ScalarValue::of(42), "*^6"), "**42**");
    assert_eq!(show(ScalarValue::of(42), "<6"), "42    ");
    assert_eq!(show(ScalarValue::of(-1i8), "x"), "ff");
    assert_eq!(show(ScalarValue::of(5u8), "08b"), "00000101");
    assert_eq!(show(ScalarValue::of(1234.5f64), ".1e"), "1.2e3");
    assert_eq!(show(ScalarValue::of(f32::INFINITY), "06"), "   inf");
    assert!(show(ScalarValue::of(1f32), "x").starts_with("error"));
    assert!(show(ScalarValue::of(1), "q").starts_with("error"));
    assert!(show(ScalarValue::of(1), "99999999999999999999").starts_with("error"));
    for ty in Scalar::ALL {
        for word in words().take(2000) {
            let value = ScalarValue::from_bits(ty, word);
            if !value.is_nan() {
                let text = clk_host::value::HostValue::str(plain(value));
                assert_eq!(ops::parse(ty, &text), Ok(clk_host::value::HostValue::Scalar(value)), "{text:?}");
            }
        }
    }
}
