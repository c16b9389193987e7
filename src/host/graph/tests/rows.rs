//! Expressions with reductions of their rows, which one kernel computes.

use super::*;
use crate::host::array::SliceSpec;
use crate::host::ops::Reduce;

fn binary(op: BinaryOp, a: &Value, b: &Value) -> Value {
    ops::binary(op, a, b).expect("an operation")
}

fn math(f: MathFn, x: &Value) -> Value {
    ops::math(f, std::slice::from_ref(x)).expect("a function")
}

/// The reduction of each row, as a column.
fn of_rows(how: Reduce, x: &Value) -> Value {
    let found = ops::reduce(how, x, Some(1)).expect("a reduction");
    ops::reshape(&found, &[-1, 1]).expect("a column")
}

fn softmax(x: &Value) -> Value {
    // Written as people do, with the same expression twice.
    let e = || math(MathFn::Exp, &binary(BinaryOp::Sub, x, &of_rows(Reduce::Max, x)));
    binary(BinaryOp::Div, &e(), &of_rows(Reduce::Sum, &e()))
}

/// Sums of rows that nobody has looked at do not keep all their arrays.
#[test]
fn deferred_reductions_keep_few_bytes() {
    let sums: Vec<Value> = (1..=7)
        .map(|k| {
            // 64 MiB each.
            let x = Value::Array(Array::unplaced(Scalar::F32, &[1 << 10, 1 << 14]).expect("memory"));
            of_rows(Reduce::Sum, &binary(BinaryOp::Add, &x, &Value::Int(k)))
        })
        .collect();
    let waits: Vec<bool> = sums.iter().map(|sum| array(sum).data().computed().is_none()).collect();
    assert_eq!(waits, [false, false, false, true, true, true, true]);
    assert_eq!(array(&sums[1]).items::<f32>().expect("sums")[5], 2.0 * (1 << 14) as f32);
}

fn table(rows: usize, len: usize) -> Value {
    ops::reshape(&numbers(rows * len), &[rows as i64, len as i64]).expect("rows")
}

#[test]
fn softmax_is_one_kernel() {
    softmax_in_one_kernel();
    keeping_rows(Simulator::default(), softmax_in_one_kernel);
}

fn softmax_in_one_kernel() {
    // With and without masks, in blocks of one row and of several.
    for (rows, len) in [(100, 50), (70, 64), (256, 64), (70, 65), (64, 1000), (64, 1024), (65, 4500), (64, 32768)] {
        let x = binary(BinaryOp::Rem, &table(rows, len), &Value::Float(7.0));
        array(&x).bytes().expect("numbers");
        let mut found = Value::Unit;
        let once = || {
            let m = of_rows(Reduce::Max, &x);
            let e = math(MathFn::Exp, &binary(BinaryOp::Sub, &x, &m));
            found = binary(BinaryOp::Div, &e, &of_rows(Reduce::Sum, &e));
            array(&found).bytes().expect("numbers");
        };
        assert_eq!(launches(once), 1, "{rows} {len}");
        let mut again = Value::Unit;
        let twice = || {
            again = softmax(&x);
            array(&again).bytes().expect("numbers");
        };
        assert_eq!(launches(twice), 1, "{rows} {len}");
        // The same, one operation after the other.
        let forced = |value: Value| {
            array(&value).bytes().expect("numbers");
            value
        };
        let m = forced(of_rows(Reduce::Max, &x));
        let e = forced(math(MathFn::Exp, &forced(binary(BinaryOp::Sub, &x, &m))));
        let expected = forced(binary(BinaryOp::Div, &e, &forced(of_rows(Reduce::Sum, &e))));
        assert!(found == expected && again == expected, "{rows} {len}");
    }
}

#[test]
fn results_of_rows_and_columns_take_part() {
    let x = binary(BinaryOp::Rem, &table(80, 300), &Value::Float(11.0));
    array(&x).bytes().expect("numbers");
    let gain = numbers(300);
    let mut found = Value::Unit;
    let normal = || {
        let centre = of_rows(Reduce::Mean, &x);
        let apart = binary(BinaryOp::Sub, &x, &centre);
        let variance = of_rows(Reduce::Mean, &binary(BinaryOp::Mul, &apart, &apart));
        let scale = math(MathFn::Rsqrt, &binary(BinaryOp::Add, &variance, &Value::Float(1e-5)));
        found = binary(BinaryOp::Mul, &binary(BinaryOp::Mul, &apart, &scale), &gain);
        array(&found).bytes().expect("numbers");
    };
    assert_eq!(launches(normal), 1);
    // What is left of the rows: the logarithm of a sum.
    let log_sum = || {
        let m = ops::reduce(Reduce::Max, &x, Some(1)).expect("maxima");
        let column = ops::reshape(&m, &[-1, 1]).expect("a column");
        let e = math(MathFn::Exp, &binary(BinaryOp::Sub, &x, &column));
        let sum = ops::reduce(Reduce::Sum, &e, Some(1)).expect("sums");
        let found = binary(BinaryOp::Add, &m, &math(MathFn::Log, &sum));
        let row = ops::index(&found, &[SliceSpec::At(3)]).expect("a number");
        assert!(matches!(row, Value::Scalar(x) if x.as_f64() > 10.0), "{row:?}");
    };
    assert_eq!(launches(log_sum), 1);
}

/// A random expression of rows with columns, computed at once or operation by operation.
fn expression(seed: u64, now: bool) -> Vec<Vec<u8>> {
    let mut random = Random(seed ^ 0x205);
    let (rows, len) = (64 + random.below(40), random.pick(&[2usize, 3, 63, 64, 65, 200, 1024, 1030, 4100]));
    let scalar = random.pick(&[Scalar::F32, Scalar::F64, Scalar::F16, Scalar::I32]);
    let random_array = |random: &mut Random, shape: &[usize]| {
        let mut array = Array::zeros(scalar, shape).expect("memory");
        for place in array.bytes_mut().expect("memory").chunks_exact_mut(scalar.size()) {
            let number = scalar::Value::of((random.below(33) as f64 - 16.0) / 4.0).to_type(scalar);
            place.copy_from_slice(&number.to_bytes()[..scalar.size()]);
        }
        Value::Array(array)
    };
    // Elements, rows and columns.
    let mut whole = vec![random_array(&mut random, &[rows, len]), random_array(&mut random, &[rows, len])];
    let mut row = vec![random_array(&mut random, &[rows, 1])];
    let column = random_array(&mut random, &[len]);
    let done = |value: Value| {
        if now {
            array(&value).bytes().expect("numbers");
        }
        value
    };
    for _ in 0..10 {
        let op = random.pick(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul]);
        let pick = |random: &mut Random, from: &[Value]| from[random.below(from.len())].clone();
        match random.below(7) {
            0 => {
                let (a, b) = (pick(&mut random, &whole), pick(&mut random, &whole));
                whole.push(done(binary(op, &a, &b)));
            }
            1 => {
                let (a, b) = (pick(&mut random, &whole), pick(&mut random, &row));
                whole.push(done(binary(op, &a, &b)));
            }
            2 => {
                let a = pick(&mut random, &whole);
                whole.push(done(binary(op, &a, &column)));
            }
            3 => {
                let (a, b) = (pick(&mut random, &row), pick(&mut random, &row));
                row.push(done(binary(op, &a, &b)));
            }
            4 if scalar.is_float() => {
                let a = pick(&mut random, &whole);
                whole.push(done(math(MathFn::Tanh, &a)));
            }
            _ => {
                let hows: &[Reduce] = match scalar.is_float() {
                    true => &[Reduce::Sum, Reduce::Mean, Reduce::Min, Reduce::Max, Reduce::Prod],
                    false => &[Reduce::Min, Reduce::Max],
                };
                let (how, a) = (random.pick(hows), pick(&mut random, &whole));
                row.push(done(of_rows(how, &a)));
            }
        }
        if whole.len() > 4 {
            whole.remove(random.below(2));
        }
    }
    let results = whole.into_iter().rev().chain(row);
    results.map(|value| array(&value).bytes().expect("numbers").to_vec()).collect()
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of kernels")]
fn random_expressions_of_rows_agree() {
    on_each(1, |seed| assert!(expression(seed, false) == expression(seed, true), "seed {seed}"));
}

/// A division by zero has the same code wherever it is computed.
#[test]
fn divisions_by_zero_in_kernels_of_rows() {
    let items: Vec<i32> = (0..100 * 50).map(|i| i % 50).collect();
    let x = Value::Array(Array::from_items(&items).expect("memory"));
    let x = ops::reshape(&x, &[100, 50]).expect("rows");
    let least = of_rows(Reduce::Min, &x);
    let error = ops::binary(BinaryOp::Div, &x, &least).map(|found| array(&found).bytes().map(|_| ()));
    assert_eq!(error.expect_err("a division by zero").code, "E0506");
}
