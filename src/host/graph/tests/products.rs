//! Tests products of random shapes and types against explicit chains of fused multiply-adds and sums.

use std::sync::Arc;

use super::*;

/// Returns a random array of mostly small numbers. Some are large, infinite or NaN.
fn random_operand(random: &mut Random, scalar: Scalar, shape: &[usize]) -> ExpectedArray {
    let mut array = Array::zeros(scalar, shape).expect("memory");
    let large = random.random_below(3) == 0;
    let mut items = Vec::new();
    for place in array.bytes_mut().expect("memory").chunks_exact_mut(scalar.size()) {
        let number = match random.random_below(300) {
            0 if scalar.is_float() => clk_scalar::ScalarValue::of(f64::INFINITY),
            1 if large => clk_scalar::ScalarValue::of(random.next() as i64),
            _ if scalar.is_float() => {
                clk_scalar::ScalarValue::of((random.next() >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
            }
            _ if scalar.is_signed() => clk_scalar::ScalarValue::of(random.random_below(13) as i64 - 6),
            _ => clk_scalar::ScalarValue::of(random.random_below(7) as i64),
        };
        let number = number.to_type(scalar);
        place.copy_from_slice(&number.to_bytes()[..scalar.size()]);
        items.push(number);
    }
    ExpectedArray { value: HostValue::Array(array), shape: shape.to_vec(), items }
}

/// Computes the exact sum of products of integers; `None` if it does not fit the type `to`.
pub(super) fn exact(
    pairs: &[(clk_scalar::ScalarValue, clk_scalar::ScalarValue)],
    to: Scalar,
) -> Option<clk_scalar::ScalarValue> {
    let number = |x: clk_scalar::ScalarValue| x.as_integer().expect("an integer");
    let sum = pairs.iter().try_fold(0i128, |sum, &(x, y)| sum.checked_add(number(x).checked_mul(number(y))?));
    sum.and_then(|sum| clk_scalar::ScalarValue::from_integer(to, sum))
}

/// Computes a sum of products in the order of matrix products: runs of 512 terms, each a chain of fused multiply-adds.
pub(super) fn chain(
    pairs: &[(clk_scalar::ScalarValue, clk_scalar::ScalarValue)],
    to: Scalar,
) -> clk_scalar::ScalarValue {
    let wide = if to.size() < 4 { Scalar::F32 } else { to };
    let zero = clk_scalar::ScalarValue::zero(wide);
    let add = |sum, &(x, y): &(clk_scalar::ScalarValue, clk_scalar::ScalarValue)| {
        dynamic::math(MathFn::Fma, &[x.to_type(wide), y.to_type(wide), sum]).expect("a sum")
    };
    let runs = pairs.chunks(512).map(|run| run.iter().fold(zero, add));
    runs.fold(zero, |sum, run| dynamic::binary(BinaryOp::Add, sum, run).expect("a sum")).to_type(to)
}

/// Computes a sum of products in the order of reductions.
pub(super) fn ordered(
    pairs: &[(clk_scalar::ScalarValue, clk_scalar::ScalarValue)],
    to: Scalar,
) -> clk_scalar::ScalarValue {
    let wide = |x: clk_scalar::ScalarValue| x.to_type(Scalar::F64);
    let terms = pairs.iter().map(|&(x, y)| dynamic::binary(BinaryOp::Mul, wide(x), wide(y)).expect("a product"));
    tree(terms.collect(), |a, b| dynamic::binary(BinaryOp::Add, a, b).expect("a sum")).to_type(to)
}

fn product(exec: &ExecContext, seed: u64) {
    product_of(exec, seed, Clone::clone);
}

fn product_of(exec: &ExecContext, seed: u64, moved: impl Fn(&HostValue) -> HostValue) {
    let mut random = Random(seed ^ 0x9e3);
    let scalar = random.pick(&NUMBERS);
    let extents: &[usize] = &[1, 2, 3, 5, 17, 40, 70, 100];
    let mut extent = |most: usize| random.pick(&extents[..most]);
    let (m, mut k, n) = (extent(8), extent(7), extent(6));
    let batch = [extent(3), extent(2)];
    let form = random.random_below(6);
    // Sometimes test more than 512 terms (several runs), but only for two kinds of products, to save time.
    if form > 3 && random.random_below(4) == 0 {
        k = random.pick(&[511, 512, 513, 1100]);
    }
    let (of_a, of_b): (Vec<usize>, Vec<usize>) = match form {
        0 => (vec![m, k], vec![k]),
        1 => (vec![k], vec![batch[0], k, n]),
        2 => (vec![40 * k], vec![40 * k]),
        3 => (vec![batch[0], 1, m, k], vec![batch[1], k, n]),
        4 => (vec![batch[0], m, k], vec![batch[0], k, n]),
        _ => (vec![m, k], vec![k, n]),
    };
    let (a, b) = (random_operand(&mut random, scalar, &of_a), random_operand(&mut random, scalar, &of_b));
    let (is_row, is_column) = (of_a.len() == 1, of_b.len() == 1);
    // Treat the operands as matrices, with leading axes that are broadcast.
    let as_matrix = |shape: &[usize], row: bool| match shape {
        [k] if row => vec![1, *k],
        [k] => vec![*k, 1],
        other => other.to_vec(),
    };
    let (of_a, of_b) = (as_matrix(&of_a, true), as_matrix(&of_b, false));
    let (front_a, front_b) = (&of_a[..of_a.len() - 2], &of_b[..of_b.len() - 2]);
    let front = common_shape(&[("", front_a), ("", front_b)]).expect("axes that fit");
    let (rows, inner, columns) = (of_a[of_a.len() - 2], of_a[of_a.len() - 1], of_b[of_b.len() - 1]);
    let start = |z: usize, own: &[usize]| {
        let (mut rest, mut stride, mut at) = (z, 1, 0);
        for (axis, &len) in front.iter().enumerate().rev() {
            let index = rest % len;
            rest /= len;
            let Some(axis) = (axis + own.len()).checked_sub(front.len()) else { continue };
            at += if own[axis] == 1 { 0 } else { index * stride };
            stride *= own[axis];
        }
        at
    };
    let element = |at: usize| {
        let (z, i, j) = (at / (rows * columns), at / columns % rows, at % columns);
        let (p, q) = (start(z, front_a) * rows + i, start(z, front_b) * inner);
        let pairs: Vec<_> = (0..inner).map(|k| (a.items[p * inner + k], b.items[(q + k) * columns + j])).collect();
        match scalar.is_int() {
            true => exact(&pairs, scalar),
            false if is_row || is_column => Some(ordered(&pairs, scalar)),
            false => Some(chain(&pairs, scalar)),
        }
    };
    let count = front.iter().product::<usize>() * rows * columns;
    let expected: Option<Vec<clk_scalar::ScalarValue>> = (0..count).map(element).collect();
    let mut shape = front.clone();
    shape.extend((!is_row).then_some(rows));
    shape.extend((!is_column).then_some(columns));
    let text = format!("seed {seed}: {scalar} {of_a:?} @ {of_b:?}");
    match (ops::matmul(exec, &moved(&a.value), &moved(&b.value)), expected) {
        (Ok(value), Some(items)) => ExpectedArray { value, shape, items }.check(&text),
        (Err(error), None) => assert_eq!(error.code, "E0546", "{text}"),
        (Ok(_), None) => panic!("{text}: not refused"),
        (Err(error), Some(_)) => panic!("{text}: {error:?}"),
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of kernels")]
fn products_have_the_documented_order() {
    on_each(2, product);
    // On this device, runs are computed in parallel.
    let far = Arc::new(far::RemoteTestDevice::default());
    far.run(|exec| seeds(1).for_each(|seed| product_of(exec, seed, |x| far.upload(x))));
}

#[test]
fn sums_of_products_of_integers_are_exact_or_refused() {
    let exec = &ExecContext::default();
    let full = |n: i64, shape: &[usize]| HostValue::Array(Array::full(&HostValue::of(n), shape).expect("memory"));
    let signs: Vec<i64> = (0..900).map(|i| if i / 30 % 2 == 0 { 1 } else { -1 }).collect();
    let signs = HostValue::Array(Array::from_shaped(&signs, &[30, 30]).expect("memory"));
    // The terms have magnitude 2^62 and cancel.
    let zero = ops::matmul(exec, &full(1 << 62, &[30, 30]), &signs).expect("a product");
    assert_eq!(zero, full(0, &[30, 30]));
    let wrong = ops::matmul(exec, &full(1 << 62, &[30, 30]), &full(2, &[30, 30])).expect_err("too large");
    assert_eq!((wrong.code, wrong.title.contains("276701161105643274240")), ("E0546", true), "{wrong:?}");
    let bytes = HostValue::Array(Array::from_shaped(&[200u8; 900], &[30, 30]).expect("memory"));
    let wrong = ops::matmul(exec, &bytes, &bytes).expect_err("too large");
    assert!(wrong.title.contains("1200000"), "{wrong:?}");
}
