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

/// A random program of rows and columns, whose arrays share bytes as other types and shapes.
struct Program {
    random: Random,
    /// Each operation is computed before the next one.
    now: bool,
    /// Whether the reference computes the elements too.
    checked: bool,
    text: String,
    /// Elements, and values of rows.
    whole: Vec<Known>,
    row: Vec<Known>,
}

impl Program {
    fn leaf(&mut self, scalar: Scalar, shape: &[usize]) -> Known {
        let count = shape.iter().product();
        let number = |_| scalar::Value::of((self.random.below(33) as f64 - 16.0) / 4.0).to_type(scalar);
        let items: Vec<scalar::Value> = (0..count).map(number).collect();
        let bytes: Vec<u8> = items.iter().flat_map(|item| item.to_bytes()[..scalar.size()].to_vec()).collect();
        let value = Value::Array(Array::from_bytes(scalar, shape, &bytes).expect("memory"));
        Known { value, shape: shape.to_vec(), items: if self.checked { items } else { vec![] } }
    }

    fn some(&mut self, of_rows: bool) -> Known {
        let from = if of_rows { &self.row } else { &self.whole };
        from[self.random.below(from.len())].clone()
    }

    fn push(&mut self, of_rows: bool, text: String, known: Known) {
        if self.now {
            array(&known.value).bytes().expect("numbers");
        }
        self.text += &format!("{text} -> {} {:?}\n", known.scalar(), known.shape);
        if of_rows { &mut self.row } else { &mut self.whole }.push(known);
    }

    /// Applies an operation to elements, by the host's function and by the reference.
    fn each(
        &self,
        operands: &[&Known],
        apply: impl Fn(&[Value]) -> crate::host::problem::Outcome<Value>,
        f: impl Fn(&[scalar::Value]) -> Result<scalar::Value, Failure>,
    ) -> Known {
        let values: Vec<Value> = operands.iter().map(|known| known.value.clone()).collect();
        let value = apply(&values).expect("an operation");
        let (shape, items) = match self.checked {
            true => reference(operands, f),
            false => (array(&value).shape().to_vec(), vec![]),
        };
        Known { value, shape, items }
    }

    fn pair(&mut self, op: BinaryOp, a: Known, b: Known) -> Option<Known> {
        (a.scalar() == b.scalar())
            .then(|| self.each(&[&a, &b], |v| ops::binary(op, &v[0], &v[1]), |v| dynamic::binary(op, v[0], v[1])))
    }

    /// The bits of an array as numbers of another type. Without the reference, a float may be NaN, so only integers are seen as integers.
    fn bits(&mut self, known: &Known) -> Option<Known> {
        let to = bits_of(&mut self.random, known)?;
        if !self.checked && (known.scalar().is_float() || to.is_float()) {
            return None;
        }
        Some(self.each(&[known], |v| ops::bitcast(to, &v[0]), |v| dynamic::bitcast(to, v[0])))
    }

    /// The numbers of another type.
    fn converted(&self, known: &Known, to: Scalar) -> Known {
        self.each(&[known], |v| ops::convert(to, &v[0]), |v| Ok(v[0].to_type(to)))
    }

    fn reduction(&mut self, known: &Known) -> Known {
        let hows: &[Reduce] = match known.scalar().is_float() {
            true => &[Reduce::Sum, Reduce::Mean, Reduce::Min, Reduce::Max, Reduce::Prod],
            false => &[Reduce::Min, Reduce::Max],
        };
        let how = self.random.pick(hows);
        let items = if self.checked { reduced(how, known, Some(1)) } else { vec![] };
        Known { value: of_rows(how, &known.value), shape: vec![known.shape[0], 1], items }
    }

    fn step(&mut self, column: &Known, scalar: Scalar) {
        let op = self.random.pick(&[BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul]);
        let choice = self.random.below(11);
        let of_rows = matches!(choice, 3) || choice >= 9 && self.random.below(3) == 0;
        let a = self.some(of_rows);
        let made = match choice {
            0 | 3 => {
                let b = self.some(of_rows);
                self.pair(op, a, b)
            }
            1 => {
                let b = self.some(true);
                self.pair(op, a, b)
            }
            2 => self.pair(op, a, column.clone()),
            4 if a.scalar().is_float() => {
                let f = MathFn::Tanh;
                Some(self.each(&[&a], |v| ops::math(f, v), |v| dynamic::math(f, v)))
            }
            // The numbers of an array and its bits in one expression.
            8 | 9 => self.bits(&a).map(|bits| self.converted(&bits, scalar)),
            10 => self.bits(&a),
            _ => {
                let made = self.reduction(&a);
                return self.push(true, "reduction".into(), made);
            }
        };
        if let Some(made) = made {
            self.push(of_rows, format!("{choice} {op:?}"), made);
        }
    }
}

/// Runs a random expression of rows with columns, computed at once or operation by operation. Results of short rows are compared with
/// the reference; returns the bytes of the others.
fn expression(seed: u64, now: bool) -> Vec<Vec<u8>> {
    let mut random = Random(seed ^ 0x205);
    let (rows, len) = match random.below(3) {
        0 => (64 + random.below(40), random.pick(&[200usize, 1024, 1030, 4100])),
        _ => (64 + random.below(20), random.pick(&[2usize, 3, 63, 64, 65, 130])),
    };
    let scalar = random.pick(&[Scalar::F32, Scalar::F64, Scalar::F16, Scalar::I32]);
    let text = format!("seed {seed}: {rows} rows of {len}\n");
    let mut program = Program { random, now, checked: len <= 130, text, whole: vec![], row: vec![] };
    program.whole = vec![program.leaf(scalar, &[rows, len]), program.leaf(scalar, &[rows, len])];
    program.row = vec![program.leaf(scalar, &[rows, 1])];
    let column = program.leaf(scalar, &[len]);
    for _ in 0..12 {
        program.step(&column, scalar);
        if program.whole.len() > 5 {
            let at = program.random.below(2);
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
    on_each(1, |seed| assert!(expression(seed, false) == expression(seed, true), "seed {seed}"));
}

/// Values and bits of one deferred array in an expression of rows, in both orders.
#[test]
fn an_array_and_its_bits_are_two_operands() {
    let work = || {
        for (rows, len) in [(64, 2), (64, 1), (70, 65), (63, 3)] {
            let ones =
                binary(BinaryOp::Mul, &binary(BinaryOp::Mul, &table(rows, len), &Value::Float(0.0)), &table(rows, len));
            for first in [true, false] {
                let y = binary(BinaryOp::Add, &ones, &Value::Float(1.0));
                let bits = ops::bitcast(Scalar::U32, &y).expect("bits");
                let low = binary(BinaryOp::BitAnd, &bits, &Value::Int(0x3f80_0001));
                let low = ops::convert(Scalar::F32, &low).expect("numbers");
                let share = binary(BinaryOp::Div, &y, &of_rows(Reduce::Sum, &y));
                let (a, b) = if first { (&share, &low) } else { (&low, &share) };
                let found = binary(BinaryOp::Sub, a, b);
                let expected = 1.0 / len as f32 - 1_065_353_216.0;
                let expected = if first { expected } else { -expected };
                let found = array(&found).items::<f32>().expect("numbers");
                assert!(found.iter().all(|&x| x == expected), "{rows} {len} {first}: {found:?}");
            }
        }
    };
    work();
    keeping_rows(Simulator::default(), work);
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
