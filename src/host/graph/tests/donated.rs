//! Results that are written over an operand: when they are, and what must not change then.

use super::far::Far;
use super::*;
use crate::host::array::SliceSpec;

/// Where the bytes are that an array has on the host.
fn address(value: &Value) -> usize {
    array(value).bytes().expect("bytes").as_ptr().addr()
}

fn times(a: &Value, b: &Value) -> Value {
    ops::binary(BinaryOp::Mul, a, b).expect("a product")
}

fn first(value: &Value, n: usize) -> Vec<f32> {
    array(value).items::<f32>().expect("numbers")[..n].to_vec()
}

/// `x * 2 + y`.
fn step(x: &Value, y: &Value) -> Value {
    add(&times(x, &Value::Float(2.0)), y)
}

#[test]
fn a_new_value_is_written_over_the_old_one() {
    for device in simulators() {
        within(device, || {
            let (mut x, y) = (numbers(1000), numbers(1000));
            let before = address(&x);
            x = step(&x, &y);
            assert_eq!((first(&x, 3), address(&x)), (vec![0.0, 3.0, 6.0], before));
            assert_eq!(first(&y, 3), [0.0, 1.0, 2.0]);
            // Twice in one expression, and through a common part that nobody else has.
            x = {
                let double = add(&x, &x);
                times(&double, &add(&double, &y))
            };
            assert_eq!((first(&x, 3), address(&x)), (vec![0.0, 6.0 * 7.0, 12.0 * 14.0], before));
        });
    }
}

#[test]
fn long_histories_are_written_over_their_beginning() {
    within(Simulator::default(), || {
        let mut x = numbers(1000);
        let before = address(&x);
        for _ in 0..10 * node::MOST {
            x = add(&x, &Value::Float(1.0));
        }
        assert_eq!((first(&x, 2), address(&x)), (vec![640.0, 641.0], before));
    });
}

#[test]
fn small_results_are_not() {
    let _standing =
        Site::new(std::sync::Arc::new(Simulator::default()), &Control::default(), Default::default()).enter();
    for (n, is_over) in [((1 << 18) - 1, false), (1 << 18, true)] {
        let mut x = numbers(n);
        let before = address(&x);
        x = step(&x, &Value::Float(1.0));
        assert_eq!((first(&x, 2), address(&x) == before), (vec![1.0, 3.0], is_over));
    }
}

/// What others still read is not changed.
#[test]
fn aliases_views_and_others_keep_old_values() {
    let far = std::sync::Arc::new(Far::default());
    let work = |moved: &dyn Fn(Value) -> Value| {
        let old: Vec<f32> = first(&numbers(1000), 1000);
        let keeps = |keep: &dyn Fn(&Value) -> Value, expected: &dyn Fn(usize) -> f32| {
            let mut x = moved(numbers(1000));
            let kept = keep(&x);
            x = step(&x, &Value::Float(1.0));
            assert_eq!(first(&x, 4), [1.0, 3.0, 5.0, 7.0]);
            let found = array(&kept).items::<f32>().expect("numbers");
            assert!(found.iter().enumerate().all(|(i, n)| *n == expected(i)), "{found:?}");
        };
        keeps(&Value::clone, &|i| old[i]);
        keeps(&|x| step(x, &Value::Float(0.0)), &|i| 2.0 * old[i]);
        keeps(&|x| ops::index(x, &[span(3, 900)]).expect("a slice"), &|i| old[i + 3]);
        keeps(&|x| ops::flip(x, 0).expect("a flip"), &|i| old[999 - i]);
        keeps(&|x| ops::reshape(x, &[10, 100]).expect("rows"), &|i| old[i]);
        keeps(&|x| add(&ops::index(x, &[span(1, 1000)]).expect("a slice"), &Value::Float(0.5)), &|i| old[i] + 1.5);
    };
    within(Simulator::default(), || work(&|x| x));
    far.run(|| work(&|x| far.take(&x)));
}

/// Elements that are read elsewhere than where they are written.
#[test]
fn neighbors_are_read_before_they_change() {
    within(Simulator::default(), || {
        let mut x = numbers(1000);
        let flipped = ops::flip(&x, 0).expect("a flip");
        x = add(&x, &flipped);
        drop(flipped);
        assert!(array(&x).items::<f32>().expect("numbers").iter().all(|n| *n == 999.0));
        let mut x = numbers(1000);
        let (left, right) = (ops::index(&x, &[span(0, 999)]), ops::index(&x, &[span(1, 1000)]));
        x = add(&left.expect("a slice"), &right.expect("a slice"));
        assert!(array(&x).items::<f32>().expect("numbers").iter().enumerate().all(|(i, n)| *n == 2.0 * i as f32 + 1.0));
        let row = ops::reshape(&numbers(1000), &[1, 1000]).expect("a row");
        let mut rows = ops::reshape(&numbers(3000), &[3, 1000]).expect("rows");
        rows = add(&row, &rows);
        assert_eq!(array(&rows).items::<f32>().expect("numbers")[1001], 1002.0);
        assert_eq!(first(&row, 3), [0.0, 1.0, 2.0]);
    });
}

/// A fault leaves the operands as they were; so does a kernel that cannot run, whose result can be asked for again.
#[test]
fn faults_leave_old_values() {
    within(Simulator::default(), || {
        let counts = Value::Array(Array::from_items(&(0..1000).collect::<Vec<i32>>()).expect("memory"));
        let mut divisors = ops::binary(BinaryOp::Sub, &counts, &Value::Int(500)).expect("numbers");
        divisors = ops::binary(BinaryOp::Mul, &divisors, &Value::Int(2)).expect("numbers");
        let sum = ops::binary(BinaryOp::Add, &counts, &Value::Int(1)).expect("numbers");
        assert_eq!(ops::binary(BinaryOp::Div, &sum, &divisors).expect_err("a zero").code, "E0506");
        assert_eq!(array(&sum).items::<i32>().expect("numbers")[..2], [1, 2]);
        assert_eq!(array(&divisors).items::<i32>().expect("numbers")[..2], [-1000, -998]);
        assert_eq!(array(&counts).items::<i32>().expect("numbers")[..2], [0, 1]);
    });
}

#[test]
fn what_cannot_run_can_be_asked_for_again() {
    use crate::device::storage::Gone;
    within(Simulator::default(), || {
        let (mut x, mut y) = (numbers(1000), array(&numbers(1000)).clone());
        y.storage_mut().expect("memory").written_remotely(std::sync::Arc::new(Gone::unavailable()));
        x = step(&x, &Value::Array(y.clone()));
        for _ in 0..2 {
            assert!(array(&x).bytes().is_err());
        }
        let stop: crate::base::stop::Flag = Default::default();
        let control = Control { stop: stop.clone(), ..Control::default() };
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        let site = Site::new(std::sync::Arc::new(Simulator::default()), &control, Default::default()).donate_from(0);
        let _standing = site.enter();
        let mut z = numbers(100_000);
        z = step(&z, &Value::Float(1.0));
        // It is not stopped half way.
        assert_eq!(first(&z, 3), [1.0, 3.0, 5.0]);
    });
}

fn span(start: i64, end: i64) -> SliceSpec {
    SliceSpec::Range { start: Some(start), end: Some(end), inclusive: false, step: None }
}
