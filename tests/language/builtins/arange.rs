//! Compares `arange` of floats with exact arithmetic. Each element is `start + i * step`, rounded once. The array ends
//! before the first element that reaches or passes `stop`.

use clk_host::ops::{arange, linspace};
use clk_host::value::HostValue;
use clk_scalar::Scalar;

use clk_testing::random::Random;

/// The exact arithmetic of the tests uses multiples of 2^-`POINT`.
const POINT: i32 = 64;

/// Number of bits in the significand of a float type.
fn precision(scalar: Scalar) -> u32 {
    match scalar {
        Scalar::Bf16 => 8,
        Scalar::F16 => 11,
        Scalar::F32 => 24,
        _ => 53,
    }
}

fn exact(number: f64) -> i128 {
    let scaled = number * 2f64.powi(POINT);
    assert!(scaled.fract() == 0.0 && scaled.abs() < 2f64.powi(120), "{number} has a longer fraction");
    scaled as i128
}

/// Rounds a number to this many significant bits, ties to even.
fn rounded(number: i128, bits: u32) -> i128 {
    let size = number.unsigned_abs();
    let shift = (128 - size.leading_zeros()).saturating_sub(bits);
    let (significand, rest) = (size >> shift, size & ((1u128 << shift) - 1));
    let half = if shift > 0 { 1u128 << (shift - 1) } else { 1 };
    let up = shift > 0 && (rest > half || rest == half && significand & 1 == 1);
    number.signum() * ((significand + u128::from(up)) << shift) as i128
}

fn numbers(value: &HostValue) -> Vec<f64> {
    let HostValue::Array(array) = value else { panic!("no array") };
    let scalar = array.scalar().expect("floats");
    let chunks = array.bytes().expect("its bytes").chunks_exact(scalar.size());
    chunks.map(|bytes| clk_scalar::ScalarValue::from_bytes(scalar, bytes).as_f64()).collect()
}

fn of(scalar: Scalar, number: f64) -> HostValue {
    HostValue::Scalar(clk_scalar::ScalarValue::of(number).to_type(scalar))
}

fn number(value: &HostValue) -> f64 {
    value.as_scalar().expect("a number").as_f64()
}

#[test]
fn arange_of_floats_is_exact() {
    let mut random = Random(0x5eed);
    let mut equal = 0;
    for scalar in [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64] {
        let bits = precision(scalar);
        for case in 0..400 {
            let divisor = [1, 2, 3, 5, 7, 10, 20, 100][random.next_below(8)] as f64;
            let first = random.next_below(600) as f64 - 300.0;
            let by = (1 + random.next_below(50)) as f64 * if random.next_below(3) == 0 { -1.0 } else { 1.0 };
            let count = random.next_below(if scalar == Scalar::F64 { 400 } else { 150 }) as f64;
            let more = [0.0, 0.0, 0.5, -0.25][random.next_below(4)];
            let (start, step) = (of(scalar, first / divisor), of(scalar, by / divisor));
            let stop = of(scalar, (first + by * (count + more)) / divisor);
            let elements = numbers(&arange(&[start.clone(), stop.clone(), step.clone()]).expect("an array"));
            let end = exact(number(&stop));
            let element = |i: i128| rounded(exact(number(&start)) + i * exact(number(&step)), bits);
            let is_before = |i: i128| if by > 0.0 { element(i) < end } else { element(i) > end };
            let expected = (0..).take_while(|&i| is_before(i)).map(element);
            let actual: Vec<i128> = elements.iter().map(|&x| exact(x)).collect();
            let shown = format!("arange({start:?}, {stop:?}, {step:?}), case {case}");
            assert_eq!(actual, expected.collect::<Vec<_>>(), "{shown}");
            equal += usize::from(element(actual.len() as i128) == end);
        }
    }
    assert!(equal > 300, "the next element equals `stop` in {equal} cases");
}

#[test]
fn ends_of_arange() {
    let count = |args: &[f64], scalar| {
        let args: Vec<HostValue> = args.iter().map(|&x| of(scalar, x)).collect();
        arange(&args).map(|array| numbers(&array).len()).map_err(|problem| problem.code)
    };
    for scalar in [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64] {
        // As an `f16`, three times 0.1 is less than 0.3.
        assert_eq!(count(&[0.0, 0.3, 0.1], scalar), Ok(if scalar == Scalar::F16 { 4 } else { 3 }), "{scalar}");
        assert_eq!(count(&[1.0, 0.0, 0.25], scalar), Ok(0), "{scalar}");
        assert_eq!(count(&[1.0, 1.0, -0.25], scalar), Ok(0), "{scalar}");
        assert_eq!(count(&[0.0, 1.0, 0.0], scalar), Err("E0540"), "{scalar}");
        for wrong in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for place in 0..3 {
                let mut args = [0.0, 1.0, 0.5];
                args[place] = wrong;
                assert_eq!(count(&args, scalar), Err("E0541"), "{scalar} {args:?}");
            }
        }
    }
    assert_eq!(count(&[0.0, 1e30, 1.0], Scalar::F32), Err("E0509"));
    assert_eq!(count(&[1e300, 1e301, 1e-300], Scalar::F64), Err("E0509"));
    // `arange` keeps all elements that round to the same number, and omits those that round to `stop`.
    assert_eq!(count(&[2048.0, 2052.0, 0.5], Scalar::F16), Ok(6));
}

#[test]
fn linspace_has_both_ends() {
    let of_f64 = |start: f64, stop: f64, n| {
        numbers(&linspace(&of(Scalar::F64, start), &of(Scalar::F64, stop), n).expect("an array"))
    };
    assert_eq!(of_f64(-1.7e308, 1.7e308, 3), [-1.7e308, 0.0, 1.7e308]);
    assert_eq!(of_f64(-0.0, 1.0, 2)[0].to_bits(), (-0.0f64).to_bits());
    let mut random = Random(0x11ed);
    for _ in 0..300 {
        let n = 2 + random.next_below(50) as i64;
        let (start, stop) = (random.next_below(600) as f64 / 7.0 - 40.0, random.next_below(600) as f64 / 3.0 - 90.0);
        for scalar in [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64] {
            let (start, stop) = (of(scalar, start), of(scalar, stop));
            let elements = numbers(&linspace(&start, &stop, n).expect("an array"));
            assert_eq!(
                (elements.len() as i64, elements[0], elements[elements.len() - 1]),
                (n, number(&start), number(&stop))
            );
            let rises = number(&start) <= number(&stop);
            assert!(elements.is_sorted_by(|a, b| if rises { a <= b } else { a >= b }), "{elements:?}");
        }
    }
}
