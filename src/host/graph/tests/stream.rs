//! Tests of out-of-core arrays: arrays that are too large for the memory of a device and are processed slice by slice.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::far::RemoteTestDevice;
use super::*;

const PARTS: usize = 12;
/// Number of elements in a slice.
const PART: usize = 1 << 15;
const BYTES: usize = 4 * PART;

/// Returns a device whose memory has space for only a few slices.
fn small() -> Arc<RemoteTestDevice> {
    Arc::new(RemoteTestDevice { memory: Some(4 * BYTES as u64), ..RemoteTestDevice::default() })
}

/// Returns an array with `number` rows of `PART` elements.
fn rows(number: usize) -> Array {
    let items: Vec<f32> = (0..number * PART).map(|i| (i * 7919 % 1009) as f32 - 500.0).collect();
    Array::from_shaped(&items, &[number, PART]).expect("memory")
}

fn row(exec: &ExecContext, x: &Array, k: usize) -> HostValue {
    ops::index(exec, &HostValue::Array(x.clone()), &[SliceSpec::At(k as i64)]).expect("a row")
}

/// Computes `2 * value + 1` with separate operations.
fn double_plus_one(exec: &ExecContext, value: &HostValue) -> HostValue {
    let twice = ops::binary(exec, BinaryOp::Mul, value, &HostValue::Float(2.0)).expect("numbers");
    ops::binary(exec, BinaryOp::Add, &twice, &HostValue::Float(1.0)).expect("numbers")
}

fn moved(far: &RemoteTestDevice) -> (usize, usize, usize) {
    let of = |count: &std::sync::atomic::AtomicUsize| count.load(Ordering::Relaxed) / BYTES;
    (of(&far.copied.to), of(&far.copied.prefetched), of(&far.copied.back))
}

#[test]
fn parts_are_prefetched_once() {
    let far = small();
    let (x, mut y) = (rows(PARTS), Array::unplaced(Scalar::F32, &[PARTS, PART]).expect("memory"));
    far.run(|exec| {
        for k in 0..PARTS {
            ops::assign(exec, &mut y, &[SliceSpec::At(k as i64)], &double_plus_one(exec, &row(exec, &x, k)))
                .expect("an assignment");
        }
    });
    // All slices except the first two were prefetched.
    assert_eq!(moved(&far), (PARTS, PARTS - 2, PARTS));
    let expected: Vec<f32> = x.items::<f32>().expect("numbers").iter().map(|x| 2.0 * x + 1.0).collect();
    assert_eq!(y.items::<f32>().expect("numbers"), expected);
}

/// Prefetching also works if the slices of the array are overwritten with results.
#[test]
fn parts_are_evicted() {
    let (far, mut x) = (small(), rows(PARTS));
    let expected: Vec<f32> = x.items::<f32>().expect("numbers").iter().map(|x| 2.0 * x + 1.0).collect();
    far.run(|exec| {
        for k in 0..PARTS {
            let part = double_plus_one(exec, &row(exec, &x, k));
            ops::assign(exec, &mut x, &[SliceSpec::At(k as i64)], &part).expect("an assignment");
        }
    });
    assert_eq!(moved(&far), (PARTS, PARTS - 2, PARTS));
    assert_eq!(x.items::<f32>().expect("numbers"), expected);
}

#[test]
fn sums_and_products_read_parts() {
    let exec = &ExecContext::default();
    let far = small();
    let x = rows(PARTS);
    let total =
        |exec: &ExecContext, k: usize| ops::reduce(exec, ReduceKind::Sum, &row(exec, &x, k), None).expect("a sum");
    let expected: Vec<String> = (0..PARTS).map(|k| format!("{:?}", total(exec, k))).collect();
    let mut sums = Vec::new();
    far.run(|exec| sums = (0..PARTS).map(|k| format!("{:?}", total(exec, k))).collect());
    assert_eq!(sums, expected);
    assert_eq!(moved(&far), (PARTS, PARTS - 2, 0));
}

/// A write to an array discards its prefetched slices.
#[test]
fn a_write_discards_prefetched_parts() {
    let far = small();
    let mut x = rows(PARTS);
    let place = Arc::as_ptr(x.data());
    let mut sums = Vec::new();
    far.run(|exec| {
        for k in 0..PARTS {
            let part = double_plus_one(exec, &row(exec, &x, k));
            let HostValue::Array(part) = &part else { panic!("no array") };
            sums.push(part.items::<f32>().expect("numbers")[7]);
            let next = [SliceSpec::At((k + 1).min(PARTS - 1) as i64), SliceSpec::At(7)];
            ops::assign(exec, &mut x, &next, &HostValue::Float(f64::from(k as u32))).expect("an assignment");
        }
    });
    assert_eq!(Arc::as_ptr(x.data()), place, "it was copied as a whole");
    let first = rows(PARTS).items::<f32>().expect("numbers")[7];
    let expected: Vec<f32> = (0..PARTS).map(|k| if k == 0 { first } else { (k - 1) as f32 } * 2.0 + 1.0).collect();
    assert_eq!(sums, expected);
}

/// A slice keeps its values when its array is written later.
#[test]
fn evicted_parts_keep_their_values() {
    let far = small();
    let mut x = rows(PARTS);
    let old = x.items::<f32>().expect("numbers").to_vec();
    let mut parts = Vec::new();
    far.run(|exec| {
        parts = (0..3).map(|k| double_plus_one(exec, &row(exec, &x, k))).collect();
        let whole = [SliceSpec::At(1)];
        ops::assign(exec, &mut x, &whole, &HostValue::Float(9.0)).expect("an assignment");
        for part in &parts {
            array(part).storage().expect("computed");
        }
    });
    for (k, part) in parts.iter().enumerate() {
        let expected: Vec<f32> = old[k * PART..(k + 1) * PART].iter().map(|x| 2.0 * x + 1.0).collect();
        assert_eq!(array(part).items::<f32>().expect("numbers"), expected, "part {k}");
    }
}

/// Slices of slices, overlapping slices, slices in backward order, and slices that are not contiguous have the same
/// results as on the host.
#[test]
fn random_parts_have_the_right_values() {
    let (far, x) = (small(), rows(PARTS));
    let mut random = Random(7);
    for case in 0..40 {
        let (a, b) = (random.random_below(PARTS), random.random_below(PARTS));
        let (low, high) = (a.min(b) as i64, a.max(b) as i64 + 1);
        let step = random.pick(&[1, 1, 1, 2]);
        let outer = SliceSpec::Range { start: Some(low), end: Some(high), inclusive: false, step: Some(step) };
        let from = random.random_below(PART / 2) as i64;
        let to =
            if random.random_below(2) == 0 { PART as i64 } else { from + 1 + random.random_below(PART / 2) as i64 };
        let inner = SliceSpec::Range { start: Some(from), end: Some(to), inclusive: false, step: None };
        let work = |exec: &ExecContext| {
            let whole = ops::index(exec, &HostValue::Array(x.clone()), &[outer]).expect("rows");
            let part = ops::index(exec, &whole, &[SliceSpec::At(0), inner]).expect("a part");
            let sum = ops::binary(exec, BinaryOp::Add, &double_plus_one(exec, &part), &part).expect("numbers");
            let all = ops::reduce(exec, ReduceKind::Max, &double_plus_one(exec, &whole), None).expect("a maximum");
            (array(&sum).items::<f32>().expect("numbers").to_vec(), format!("{all:?}"))
        };
        let expected = work(&ExecContext::default());
        far.run(|exec| assert_eq!(work(exec), expected, "case {case}: {low}..{high} step {step}, {from}..{to}"));
    }
}
