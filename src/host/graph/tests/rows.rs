//! Tests of expressions with reductions of their rows, which one row-wise kernel computes.

use super::*;
use crate::array::SliceSpec;
use crate::ops::ReduceKind;

fn binary(exec: &ExecContext, op: BinaryOp, a: &HostValue, b: &HostValue) -> HostValue {
    ops::binary(exec, op, a, b).expect("an operation")
}

fn math(exec: &ExecContext, f: MathFn, x: &HostValue) -> HostValue {
    ops::math(exec, f, std::slice::from_ref(x)).expect("a function")
}

/// Reduces each row of a matrix; the result is a matrix of one column.
fn row_reduction(exec: &ExecContext, how: ReduceKind, x: &HostValue) -> HostValue {
    let reduced = ops::reduce(exec, how, x, Some(1)).expect("a reduction");
    ops::reshape(&reduced, &[-1, 1]).expect("a column")
}

fn softmax(exec: &ExecContext, x: &HostValue) -> HostValue {
    // The expression is computed twice, as users would write it.
    let e = || math(exec, MathFn::Exp, &binary(exec, BinaryOp::Sub, x, &row_reduction(exec, ReduceKind::Max, x)));
    binary(exec, BinaryOp::Div, &e(), &row_reduction(exec, ReduceKind::Sum, &e()))
}

/// Deferred sums of rows that are never read do not keep too many of their operands alive.
#[test]
fn deferred_reductions_keep_few_bytes() {
    let exec = &ExecContext::default();
    let sums: Vec<HostValue> = (1..=7)
        .map(|k| {
            // Each array has 64 MiB.
            let x = HostValue::Array(Array::unplaced(Scalar::F32, &[1 << 10, 1 << 14]).expect("memory"));
            row_reduction(exec, ReduceKind::Sum, &binary(exec, BinaryOp::Add, &x, &HostValue::Int(k)))
        })
        .collect();
    let waits: Vec<bool> = sums.iter().map(|sum| array(sum).data().computed().is_none()).collect();
    assert_eq!(waits, [false, false, false, true, true, true, true]);
    assert_eq!(array(&sums[1]).items::<f32>().expect("sums")[5], 2.0 * (1 << 14) as f32);
}

fn table(rows: usize, len: usize) -> HostValue {
    ops::reshape(&numbers(rows * len), &[rows as i64, len as i64]).expect("rows")
}

#[test]
fn softmax_is_one_kernel() {
    let exec = &ExecContext::default();
    softmax_in_one_kernel(exec);
    run_with_cached_rows(Simulator::default(), softmax_in_one_kernel);
}

fn softmax_in_one_kernel(exec: &ExecContext) {
    // The shapes need kernels with and without masks, and blocks of one row and of several rows.
    for (rows, len) in [(100, 50), (70, 64), (256, 64), (70, 65), (64, 1000), (64, 1024), (65, 4500), (64, 32768)] {
        let x = binary(exec, BinaryOp::Rem, &table(rows, len), &HostValue::Float(7.0));
        array(&x).bytes().expect("numbers");
        let mut result = HostValue::Unit;
        let one_use = |exec: &ExecContext| {
            let m = row_reduction(exec, ReduceKind::Max, &x);
            let e = math(exec, MathFn::Exp, &binary(exec, BinaryOp::Sub, &x, &m));
            result = binary(exec, BinaryOp::Div, &e, &row_reduction(exec, ReduceKind::Sum, &e));
            array(&result).bytes().expect("numbers");
        };
        assert_eq!(launches(one_use), 1, "{rows} {len}");
        let mut second_result = HostValue::Unit;
        let twice = |exec: &ExecContext| {
            second_result = softmax(exec, &x);
            array(&second_result).bytes().expect("numbers");
        };
        assert_eq!(launches(twice), 1, "{rows} {len}");
        // Compare with the computation without fusion.
        let forced = |value: HostValue| {
            array(&value).bytes().expect("numbers");
            value
        };
        let m = forced(row_reduction(exec, ReduceKind::Max, &x));
        let e = forced(math(exec, MathFn::Exp, &forced(binary(exec, BinaryOp::Sub, &x, &m))));
        let expected = forced(binary(exec, BinaryOp::Div, &e, &forced(row_reduction(exec, ReduceKind::Sum, &e))));
        assert!(result == expected && second_result == expected, "{rows} {len}");
    }
}

#[test]
fn row_and_column_results_are_fused() {
    let exec = &ExecContext::default();
    let x = binary(exec, BinaryOp::Rem, &table(80, 300), &HostValue::Float(11.0));
    array(&x).bytes().expect("numbers");
    let gain = numbers(300);
    let mut normalized = HostValue::Unit;
    let normal = |exec: &ExecContext| {
        let centre = row_reduction(exec, ReduceKind::Mean, &x);
        let centered = binary(exec, BinaryOp::Sub, &x, &centre);
        let variance = row_reduction(exec, ReduceKind::Mean, &binary(exec, BinaryOp::Mul, &centered, &centered));
        let scale = math(exec, MathFn::Rsqrt, &binary(exec, BinaryOp::Add, &variance, &HostValue::Float(1e-5)));
        normalized = binary(exec, BinaryOp::Mul, &binary(exec, BinaryOp::Mul, &centered, &scale), &gain);
        array(&normalized).bytes().expect("numbers");
    };
    assert_eq!(launches(normal), 1);
    // The result has one value per row: the logarithm of a sum.
    let log_sum = |exec: &ExecContext| {
        let m = ops::reduce(exec, ReduceKind::Max, &x, Some(1)).expect("maxima");
        let column = ops::reshape(&m, &[-1, 1]).expect("a column");
        let e = math(exec, MathFn::Exp, &binary(exec, BinaryOp::Sub, &x, &column));
        let sum = ops::reduce(exec, ReduceKind::Sum, &e, Some(1)).expect("sums");
        let normalized = binary(exec, BinaryOp::Add, &m, &math(exec, MathFn::Log, &sum));
        let row = ops::index(exec, &normalized, &[SliceSpec::At(3)]).expect("a number");
        assert!(matches!(row, HostValue::Scalar(x) if x.as_f64() > 10.0), "{row:?}");
    };
    assert_eq!(launches(log_sum), 1);
}

/// A random program with values per element and values per row. Some arrays are bitcasts or reshapes of others.
struct Program {
    random: Random,
    /// Whether each operation is computed before the next one, so that nothing is fused.
    now: bool,
    /// Whether the reference implementation computes the elements too.
    checked: bool,
    text: String,
    /// Arrays with one value per element.
    whole: Vec<ExpectedArray>,
    row: Vec<ExpectedArray>,
}

impl Program {
    fn leaf(&mut self, scalar: Scalar, shape: &[usize]) -> ExpectedArray {
        let count = shape.iter().product();
        let number =
            |_| clk_scalar::ScalarValue::of((self.random.random_below(33) as f64 - 16.0) / 4.0).to_type(scalar);
        let items: Vec<clk_scalar::ScalarValue> = (0..count).map(number).collect();
        let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_bytes()[..scalar.size()].to_vec()).collect();
        let value = HostValue::Array(Array::from_bytes(scalar, shape, &bytes).expect("memory"));
        ExpectedArray { value, shape: shape.to_vec(), items: if self.checked { items } else { vec![] } }
    }

    fn some(&mut self, of_rows: bool) -> ExpectedArray {
        let from = if of_rows { &self.row } else { &self.whole };
        from[self.random.random_below(from.len())].clone()
    }

    fn push(&mut self, of_rows: bool, text: String, known: ExpectedArray) {
        if self.now {
            array(&known.value).bytes().expect("numbers");
        }
        self.text += &format!("{text} -> {} {:?}\n", known.scalar(), known.shape);
        if of_rows { &mut self.row } else { &mut self.whole }.push(known);
    }

    /// Applies an elementwise operation with Clk and with the reference implementation.
    fn each(
        &self,
        operands: &[&ExpectedArray],
        apply: impl Fn(&[HostValue]) -> crate::problem::HostResult<HostValue>,
        f: impl Fn(&[clk_scalar::ScalarValue]) -> Result<clk_scalar::ScalarValue, ScalarError>,
    ) -> ExpectedArray {
        let values: Vec<HostValue> = operands.iter().map(|known| known.value.clone()).collect();
        let value = apply(&values).expect("an operation");
        let (shape, items) = match self.checked {
            true => reference(operands, f),
            false => (array(&value).shape().to_vec(), vec![]),
        };
        ExpectedArray { value, shape, items }
    }

    fn pair(&mut self, exec: &ExecContext, op: BinaryOp, a: ExpectedArray, b: ExpectedArray) -> Option<ExpectedArray> {
        (a.scalar() == b.scalar())
            .then(|| self.each(&[&a, &b], |v| ops::binary(exec, op, &v[0], &v[1]), |v| dynamic::binary(op, v[0], v[1])))
    }

    /// Bitcasts an array. If the reference is not computed, only integers are bitcast to integers, because a float may
    /// be NaN.
    fn bits(&mut self, known: &ExpectedArray) -> Option<ExpectedArray> {
        let to = bitcast_type(&mut self.random, known)?;
        if !self.checked && (known.scalar().is_float() || to.is_float()) {
            return None;
        }
        Some(self.each(&[known], |v| ops::bitcast(to, &v[0]), |v| dynamic::bitcast(to, v[0])))
    }

    /// Converts an array to another scalar type.
    fn converted(&self, exec: &ExecContext, known: &ExpectedArray, to: Scalar) -> ExpectedArray {
        self.each(&[known], |v| ops::convert(exec, to, &v[0]), |v| Ok(v[0].to_type(to)))
    }

    fn reduction(&mut self, exec: &ExecContext, known: &ExpectedArray) -> ExpectedArray {
        let hows: &[ReduceKind] = match known.scalar().is_float() {
            true => &[ReduceKind::Sum, ReduceKind::Mean, ReduceKind::Min, ReduceKind::Max, ReduceKind::Prod],
            false => &[ReduceKind::Min, ReduceKind::Max],
        };
        let kind = self.random.pick(hows);
        let items = if self.checked { reference_reduction(kind, known, Some(1)) } else { vec![] };
        ExpectedArray { value: row_reduction(exec, kind, &known.value), shape: vec![known.shape[0], 1], items }
    }

    fn step(&mut self, exec: &ExecContext, column: &ExpectedArray, scalar: Scalar) {
        let op = self.random.pick(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul]);
        let choice = self.random.random_below(11);
        let of_rows = matches!(choice, 3) || choice >= 9 && self.random.random_below(3) == 0;
        let a = self.some(of_rows);
        let result = match choice {
            0 | 3 => {
                let b = self.some(of_rows);
                self.pair(exec, op, a, b)
            }
            1 => {
                let b = self.some(true);
                self.pair(exec, op, a, b)
            }
            2 => self.pair(exec, op, a, column.clone()),
            4 if a.scalar().is_float() => {
                let f = MathFn::Tanh;
                Some(self.each(&[&a], |v| ops::math(exec, f, v), |v| dynamic::math(f, v)))
            }
            // Use the numbers of an array and its bits in the same expression.
            8 | 9 => self.bits(&a).map(|bits| self.converted(exec, &bits, scalar)),
            10 => self.bits(&a),
            _ => {
                let result = self.reduction(exec, &a);
                return self.push(true, "reduction".into(), result);
            }
        };
        if let Some(result) = result {
            self.push(of_rows, format!("{choice} {op:?}"), result);
        }
    }
}

/// Runs a random program with or without fusion. Results with short rows are compared with the reference; returns the
/// bytes of the others.
fn expression(exec: &ExecContext, seed: u64, now: bool) -> Vec<Vec<u8>> {
    let mut random = Random(seed ^ 0x205);
    let (rows, len) = match random.random_below(3) {
        0 => (64 + random.random_below(40), random.pick(&[200usize, 1024, 1030, 4100])),
        _ => (64 + random.random_below(20), random.pick(&[2usize, 3, 63, 64, 65, 130])),
    };
    let scalar = random.pick(&[Scalar::F32, Scalar::F64, Scalar::F16, Scalar::I32]);
    let text = format!("seed {seed}: {rows} rows of {len}\n");
    let mut program = Program { random, now, checked: len <= 130, text, whole: vec![], row: vec![] };
    program.whole = vec![program.leaf(scalar, &[rows, len]), program.leaf(scalar, &[rows, len])];
    program.row = vec![program.leaf(scalar, &[rows, 1])];
    let column = program.leaf(scalar, &[len]);
    for _ in 0..12 {
        program.step(exec, &column, scalar);
        if program.whole.len() > 5 {
            let at = program.random.random_below(2);
            program.whole.remove(at);
        }
    }
    let results = program.whole.iter().rev().chain(&program.row);
    results
        .filter(|known| {
            if program.checked {
                known.check(&program.text);
            }
            !program.checked
        })
        .map(|known| array(&known.value).bytes().expect("numbers").to_vec())
        .collect()
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of kernels")]
fn random_expressions_of_rows_agree() {
    on_each(1, |exec, seed| assert!(expression(exec, seed, false) == expression(exec, seed, true), "seed {seed}"));
}

/// Tests an expression that uses both the values and the bits of a deferred array, in both orders.
#[test]
fn an_array_and_its_bits_are_two_operands() {
    let work = |exec: &ExecContext| {
        for (rows, len) in [(64, 2), (64, 1), (70, 65), (63, 3)] {
            let ones = binary(
                exec,
                BinaryOp::Mul,
                &binary(exec, BinaryOp::Mul, &table(rows, len), &HostValue::Float(0.0)),
                &table(rows, len),
            );
            for first in [true, false] {
                let y = binary(exec, BinaryOp::Add, &ones, &HostValue::Float(1.0));
                let bits = ops::bitcast(Scalar::U32, &y).expect("bits");
                let low = binary(exec, BinaryOp::BitAnd, &bits, &HostValue::Int(0x3f80_0001));
                let low = ops::convert(exec, Scalar::F32, &low).expect("numbers");
                let share = binary(exec, BinaryOp::Div, &y, &row_reduction(exec, ReduceKind::Sum, &y));
                let (a, b) = if first { (&share, &low) } else { (&low, &share) };
                let difference = binary(exec, BinaryOp::Sub, a, b);
                let expected = 1.0 / len as f32 - 1_065_353_216.0;
                let expected = if first { expected } else { -expected };
                let difference = array(&difference).items::<f32>().expect("numbers");
                assert!(difference.iter().all(|&x| x == expected), "{rows} {len} {first}: {difference:?}");
            }
        }
    };
    work(&ExecContext::default());
    run_with_cached_rows(Simulator::default(), work);
}

/// A division by zero has the same error code on all paths of evaluation.
#[test]
fn divisions_by_zero_in_row_kernels() {
    let exec = &ExecContext::default();
    let items: Vec<i32> = (0..100 * 50).map(|i| i % 50).collect();
    let x = HostValue::Array(Array::from_items(&items).expect("memory"));
    let x = ops::reshape(&x, &[100, 50]).expect("rows");
    let least = row_reduction(exec, ReduceKind::Min, &x);
    let error = ops::binary(exec, BinaryOp::Div, &x, &least).map(|found| array(&found).bytes().map(|_| ()));
    assert_eq!(error.expect_err("a division by zero").code, "E0506");
}
