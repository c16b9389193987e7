//! Arrays that are too large for a device with memory of its own, part by part.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::far::Far;
use super::*;

const PARTS: usize = 12;
/// Elements of a part.
const PART: usize = 1 << 15;
const BYTES: usize = 4 * PART;

/// Returns a device that has room for a few parts.
fn small() -> Arc<Far> {
    Arc::new(Far { memory: Some(4 * BYTES as u64), ..Far::default() })
}

/// Returns numbers in so many rows, each of which is a part.
fn rows(number: usize) -> Array {
    let items: Vec<f32> = (0..number * PART).map(|i| (i * 7919 % 1009) as f32 - 500.0).collect();
    Array::from_shaped(&items, &[number, PART]).expect("memory")
}

fn row(x: &Array, k: usize) -> Value {
    ops::index(&Value::Array(x.clone()), &[SliceSpec::At(k as i64)]).expect("a row")
}

/// Returns twice a value and one more, in steps of its own.
fn worked(value: &Value) -> Value {
    let twice = ops::binary(BinaryOp::Mul, value, &Value::Float(2.0)).expect("numbers");
    ops::binary(BinaryOp::Add, &twice, &Value::Float(1.0)).expect("numbers")
}

fn moved(far: &Far) -> (usize, usize, usize) {
    let of = |count: &std::sync::atomic::AtomicUsize| count.load(Ordering::Relaxed) / BYTES;
    (of(&far.copied.to), of(&far.copied.ahead), of(&far.copied.back))
}

#[test]
fn parts_are_copied_once_and_ahead() {
    let far = small();
    let (x, mut y) = (rows(PARTS), Array::unplaced(Scalar::F32, &[PARTS, PART]).expect("memory"));
    far.run(|| {
        for k in 0..PARTS {
            ops::assign(&mut y, &[SliceSpec::At(k as i64)], &worked(&row(&x, k))).expect("an assignment");
        }
    });
    // From the third part on, each was there when it was asked for.
    assert_eq!(moved(&far), (PARTS, PARTS - 2, PARTS));
    let expected: Vec<f32> = x.items::<f32>().expect("numbers").iter().map(|x| 2.0 * x + 1.0).collect();
    assert_eq!(y.items::<f32>().expect("numbers"), expected);
}

/// An array whose parts are replaced is read ahead like any other.
#[test]
fn parts_are_replaced() {
    let (far, mut x) = (small(), rows(PARTS));
    let expected: Vec<f32> = x.items::<f32>().expect("numbers").iter().map(|x| 2.0 * x + 1.0).collect();
    far.run(|| {
        for k in 0..PARTS {
            let part = worked(&row(&x, k));
            ops::assign(&mut x, &[SliceSpec::At(k as i64)], &part).expect("an assignment");
        }
    });
    assert_eq!(moved(&far), (PARTS, PARTS - 2, PARTS));
    assert_eq!(x.items::<f32>().expect("numbers"), expected);
}

#[test]
fn sums_and_products_read_parts() {
    let far = small();
    let x = rows(PARTS);
    let total = |k: usize| ops::reduce(Reduce::Sum, &row(&x, k), None).expect("a sum");
    let expected: Vec<String> = (0..PARTS).map(|k| format!("{:?}", total(k))).collect();
    let mut found = Vec::new();
    far.run(|| found = (0..PARTS).map(|k| format!("{:?}", total(k))).collect());
    assert_eq!(found, expected);
    assert_eq!(moved(&far), (PARTS, PARTS - 2, 0));
}

/// What was copied ahead is forgotten when the array is written, in place.
#[test]
fn a_write_forgets_what_is_ahead() {
    let far = small();
    let mut x = rows(PARTS);
    let place = Arc::as_ptr(x.data());
    let mut sums = Vec::new();
    far.run(|| {
        for k in 0..PARTS {
            let part = worked(&row(&x, k));
            let Value::Array(part) = &part else { panic!("no array") };
            sums.push(part.items::<f32>().expect("numbers")[7]);
            let next = [SliceSpec::At((k + 1).min(PARTS - 1) as i64), SliceSpec::At(7)];
            ops::assign(&mut x, &next, &Value::Float(f64::from(k as u32))).expect("an assignment");
        }
    });
    assert_eq!(Arc::as_ptr(x.data()), place, "it was copied as a whole");
    let first = rows(PARTS).items::<f32>().expect("numbers")[7];
    let expected: Vec<f32> = (0..PARTS).map(|k| if k == 0 { first } else { (k - 1) as f32 } * 2.0 + 1.0).collect();
    assert_eq!(sums, expected);
}

/// A part keeps the values that it had when it was taken.
#[test]
fn parts_keep_their_values() {
    let far = small();
    let mut x = rows(PARTS);
    let old = x.items::<f32>().expect("numbers").to_vec();
    let mut parts = Vec::new();
    far.run(|| {
        parts = (0..3).map(|k| worked(&row(&x, k))).collect();
        let whole = [SliceSpec::At(1)];
        ops::assign(&mut x, &whole, &Value::Float(9.0)).expect("an assignment");
        for part in &parts {
            array(part).storage().expect("computed");
        }
    });
    for (k, part) in parts.iter().enumerate() {
        let expected: Vec<f32> = old[k * PART..(k + 1) * PART].iter().map(|x| 2.0 * x + 1.0).collect();
        assert_eq!(array(part).items::<f32>().expect("numbers"), expected, "part {k}");
    }
}

/// Parts of parts, parts that overlap, that go backward, and that are no row, have the values of the host.
#[test]
fn any_parts_are_right() {
    let (far, x) = (small(), rows(PARTS));
    let mut random = Random(7);
    for case in 0..40 {
        let (a, b) = (random.below(PARTS), random.below(PARTS));
        let (low, high) = (a.min(b) as i64, a.max(b) as i64 + 1);
        let step = random.pick(&[1, 1, 1, 2]);
        let outer = SliceSpec::Range { start: Some(low), end: Some(high), inclusive: false, step: Some(step) };
        let from = random.below(PART / 2) as i64;
        let to = if random.below(2) == 0 { PART as i64 } else { from + 1 + random.below(PART / 2) as i64 };
        let inner = SliceSpec::Range { start: Some(from), end: Some(to), inclusive: false, step: None };
        let work = || {
            let whole = ops::index(&Value::Array(x.clone()), &[outer]).expect("rows");
            let part = ops::index(&whole, &[SliceSpec::At(0), inner]).expect("a part");
            let sum = ops::binary(BinaryOp::Add, &worked(&part), &part).expect("numbers");
            let all = ops::reduce(Reduce::Max, &worked(&whole), None).expect("a maximum");
            (array(&sum).items::<f32>().expect("numbers").to_vec(), format!("{all:?}"))
        };
        let expected = work();
        far.run(|| assert_eq!(work(), expected, "case {case}: {low}..{high} step {step}, {from}..{to}"));
    }
}
