//! Tests random array expressions. Each is evaluated with fusion, without fusion (operation by operation), and by a
//! simple reference implementation, on the simulator with and without the JIT compiler.

mod donated;
mod far;
mod picks;
mod shards;
mod stream;
mod views;

use super::*;
use crate::array::broadcast::common_shape;
use crate::array::{Array, ElementType, SliceSpec};
use crate::ops::{self, ReduceKind};
use crate::value::HostValue;
use clk_runtime::Control;
use clk_runtime::Isa;
use clk_scalar::Scalar;
use clk_scalar::dynamic::{self, ScalarError};
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};
use clk_sim::{Jit, Simulator};

mod products;
mod programs;
mod rows;
mod totals;

/// Deterministic random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn random_below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.random_below(from.len())]
    }
}

/// An array, and its elements according to the reference implementation.
#[derive(Clone)]
struct ExpectedArray {
    value: HostValue,
    shape: Vec<usize>,
    items: Vec<clk_scalar::ScalarValue>,
}

impl ExpectedArray {
    fn scalar(&self) -> Scalar {
        match &self.value {
            HostValue::Array(array) => array.scalar().expect("numbers"),
            HostValue::Scalar(number) => number.ty,
            other => panic!("{other:?}"),
        }
    }

    /// Compares the array that Clk computed with the reference.
    fn check(&self, text: &str) {
        let computed: Vec<clk_scalar::ScalarValue> = match &self.value {
            HostValue::Array(array) => {
                assert_eq!(array.shape(), self.shape, "{text}");
                let (bytes, scalar) = (array.bytes().expect("computed"), array.scalar().expect("numbers"));
                bytes
                    .chunks_exact(scalar.size())
                    .map(|item| clk_scalar::ScalarValue::from_bytes(scalar, item))
                    .collect()
            }
            HostValue::Scalar(number) => vec![*number],
            other => panic!("{other:?}"),
        };
        // The language does not specify the bits of a NaN result.
        let same = |a: &clk_scalar::ScalarValue, b: &clk_scalar::ScalarValue| {
            a == b || a.ty == b.ty && a.is_nan() && b.is_nan()
        };
        let differs = computed.iter().zip(&self.items).position(|(a, b)| !same(a, b));
        if let Some(at) = differs {
            panic!("{text}\nelement {at} is {}, not {}", computed[at], self.items[at]);
        }
        assert_eq!(computed.len(), self.items.len(), "{text}");
    }
}

const SHAPES: &[&[usize]] = &[
    &[100],
    &[7, 100],
    &[7, 1],
    &[3, 7, 100],
    &[3, 1, 100],
    &[3, 1, 1],
    &[1],
    &[],
    &[2, 3, 7, 100],
    &[2, 1, 7, 1],
    &[7, 0],
    &[1, 100],
    &[100, 7],
];

fn random_leaf(random: &mut Random, scalar: Scalar) -> ExpectedArray {
    let shape = random.pick(SHAPES).to_vec();
    let mut array = Array::zeros(scalar, &shape).expect("memory");
    let size = scalar.size();
    let mut items = Vec::new();
    for place in array.bytes_mut().expect("memory").chunks_exact_mut(size) {
        let number = match random.random_below(6) {
            0 => clk_scalar::ScalarValue::of(random.next() as i64),
            1 => clk_scalar::ScalarValue::of(f64::from_bits(random.next())),
            2 => clk_scalar::ScalarValue::of(f64::NAN),
            _ => clk_scalar::ScalarValue::of((random.random_below(2000) as f64 - 1000.0) / 8.0),
        };
        let number = number.to_type(scalar);
        place.copy_from_slice(&number.to_bytes()[..size]);
        items.push(number);
    }
    if shape.is_empty() && random.random_below(2) == 0 {
        return ExpectedArray { value: HostValue::Scalar(items[0]), shape, items };
    }
    ExpectedArray { value: HostValue::Array(array), shape, items }
}

/// Applies a function of scalars to each element of broadcast operands (reference implementation).
fn reference(
    operands: &[&ExpectedArray],
    f: impl Fn(&[clk_scalar::ScalarValue]) -> Result<clk_scalar::ScalarValue, ScalarError>,
) -> (Vec<usize>, Vec<clk_scalar::ScalarValue>) {
    let named_shapes: Vec<(&str, &[usize])> = operands.iter().map(|known| ("", known.shape.as_slice())).collect();
    let shape = common_shape(&named_shapes).expect("shapes that fit");
    let count: usize = shape.iter().product();
    let items = (0..count).map(|position| {
        let values: Vec<clk_scalar::ScalarValue> = operands
            .iter()
            .map(|known| {
                let (mut rest, mut stride, mut at) = (position, 1, 0);
                for (axis, &len) in shape.iter().enumerate().rev() {
                    let index = rest % len;
                    rest /= len;
                    let Some(own) = (axis + known.shape.len()).checked_sub(shape.len()) else { continue };
                    at += if known.shape[own] == 1 { 0 } else { index * stride };
                    stride *= known.shape[own];
                }
                known.items[at]
            })
            .collect();
        f(&values).expect("defined")
    });
    let items = items.collect();
    (shape, items)
}

const NUMBERS: [Scalar; 12] = {
    use Scalar::*;
    [I8, I16, I32, I64, U8, U16, U32, U64, F16, Bf16, F32, F64]
};

/// Returns the scalar types of this size.
fn types_of_size(size: usize) -> &'static [Scalar] {
    match size {
        1 => &[Scalar::I8, Scalar::U8],
        2 => &[Scalar::F16, Scalar::Bf16, Scalar::I16, Scalar::U16],
        4 => &[Scalar::F32, Scalar::I32, Scalar::U32],
        _ => &[Scalar::F64, Scalar::I64, Scalar::U64],
    }
}

/// Returns a random type to which an array can be bitcast. `None` for an array of `bool`, and for an array with NaNs,
/// because their bits are unspecified.
fn bitcast_type(random: &mut Random, known: &ExpectedArray) -> Option<Scalar> {
    let is_open = known.scalar() == Scalar::Bool || known.items.iter().any(|item| item.is_nan());
    (!is_open).then(|| random.pick(types_of_size(known.scalar().size())))
}

/// Builds random expressions. With `now`, each operation is computed before the next one, so that nothing is fused.
struct Builder {
    random: Random,
    now: bool,
    text: String,
    /// The index of an operand of the last operation.
    operand: usize,
}

impl Builder {
    fn operation(&mut self, exec: &ExecContext, pool: &[ExpectedArray]) -> Option<ExpectedArray> {
        use BinaryOp::*;
        use MathFn::*;
        if self.random.random_below(3) == 0 {
            return self.array_operation(exec, pool);
        }
        self.operand = self.random.random_below(pool.len());
        let first = pool[self.operand].clone();
        let scalar = first.scalar();
        let is_compatible = |result: &&ExpectedArray| {
            let named_shapes = [("", first.shape.as_slice()), ("", result.shape.as_slice())];
            result.scalar() == scalar && common_shape(&named_shapes).is_ok()
        };
        let others: Vec<&ExpectedArray> = pool.iter().filter(is_compatible).collect();
        let second = others[self.random.random_below(others.len())].clone();
        let choice = self.random.random_below(11);
        let (value, (shape, items), text) = match choice {
            0..=3 => {
                let ops: &[BinaryOp] = match scalar {
                    Scalar::Bool => &[BitAnd, BitOr, BitXor, Eq, Ne],
                    s if s.is_int() => {
                        &[Add, Sub, Mul, BinaryOp::Pow, BitAnd, BitOr, BitXor, Shl, Shr, Eq, Lt, Ge, Div, Rem]
                    }
                    _ => &[Add, Sub, Mul, Div, Rem, Eq, Ne, Lt, Le, Gt, Ge],
                };
                let op = self.random.pick(ops);
                let is_empty = first.items.is_empty() || second.items.is_empty();
                if matches!(op, Div | Rem) && scalar.is_int() && !is_empty && second.items.iter().any(|x| x.bits == 0) {
                    let error = ops::binary(exec, op, &first.value, &second.value).expect_err("a division by zero");
                    assert_eq!(error.code, "E0506");
                    return None;
                }
                let value = ops::binary(exec, op, &first.value, &second.value).expect("an operator");
                (value, reference(&[&first, &second], |v| dynamic::binary(op, v[0], v[1])), format!("{op:?}"))
            }
            4 => {
                let op = match scalar {
                    Scalar::Bool => UnaryOp::Not,
                    s if s.is_int() => self.random.pick(&[UnaryOp::Neg, UnaryOp::Not]),
                    _ => UnaryOp::Neg,
                };
                let value = ops::unary(exec, op, &first.value).expect("an operator");
                (value, reference(&[&first], |v| dynamic::unary(op, v[0])), format!("{op:?}"))
            }
            5 | 6 => {
                let functions: &[MathFn] = match scalar {
                    Scalar::Bool => return None,
                    s if s.is_int() => &[Abs, Sign, Popcount, Clz, Ctz, ReverseBits, WrappingNeg],
                    _ => &[Abs, Sign, Sqrt, Floor, Round, Exp, Log, Sin, Tanh, IsNan, IsInf, IsFinite, Rsqrt, Fract],
                };
                let f = self.random.pick(functions);
                let value = ops::math(exec, f, std::slice::from_ref(&first.value)).expect("a function");
                (value, reference(&[&first], |v| dynamic::math(f, v)), format!("{f:?}"))
            }
            7 => {
                let functions: &[MathFn] = match scalar {
                    Scalar::Bool => return None,
                    s if s.is_int() => &[Min, Max, MulHi, SaturatingAdd, SaturatingSub, WrappingMul],
                    _ => &[Min, Max, Copysign, Hypot],
                };
                let f = self.random.pick(functions);
                if f == Copysign && second.items.iter().any(|item| item.is_nan()) {
                    return None;
                }
                let value = ops::math(exec, f, &[first.value.clone(), second.value.clone()]).expect("a function");
                (value, reference(&[&first, &second], |v| dynamic::math(f, v)), format!("{f:?}"))
            }
            8 => {
                let to = if self.random.random_below(8) == 0 { Scalar::Bool } else { self.random.pick(&NUMBERS) };
                let value = ops::convert(exec, to, &first.value).expect("a conversion");
                (value, reference(&[&first], |v| Ok(v[0].to_type(to))), format!("{to}"))
            }
            9 => {
                let to = bitcast_type(&mut self.random, &first)?;
                let value = ops::bitcast(to, &first.value).expect("bits");
                (value, reference(&[&first], |v| dynamic::bitcast(to, v[0])), format!("bitcast({to})"))
            }
            _ => {
                let holds = |result: &&ExpectedArray| {
                    let named_shapes =
                        [("", first.shape.as_slice()), ("", second.shape.as_slice()), ("", result.shape.as_slice())];
                    result.scalar() == Scalar::Bool && common_shape(&named_shapes).is_ok()
                };
                let conditions: Vec<&ExpectedArray> = pool.iter().filter(holds).collect();
                if conditions.is_empty() {
                    return None;
                }
                let cond = conditions[self.random.random_below(conditions.len())];
                let value = ops::select(exec, &cond.value, &first.value, &second.value).expect("a choice");
                let expected = reference(&[cond, &first, &second], |v| Ok(if v[0].is_true() { v[1] } else { v[2] }));
                (value, expected, "select".to_string())
            }
        };
        self.text += &format!("{text}({scalar}) {:?}\n", shape);
        let result = ExpectedArray { value, shape, items };
        if self.now {
            result.check(&self.text);
        }
        Some(result)
    }
}

fn program(exec: &ExecContext, seed: u64, now: bool) {
    program_of(exec, seed, now, HostValue::clone);
}

/// Runs one random program, whose results are read in random order. `moved` is applied to some of its arrays, for
/// example to move them to a device.
fn program_of(exec: &ExecContext, seed: u64, now: bool, mut moved: impl FnMut(&HostValue) -> HostValue) {
    let mut random = Random(seed);
    let mut pool: Vec<ExpectedArray> = Vec::new();
    for _ in 0..4 {
        let scalar = if random.random_below(6) == 0 { Scalar::Bool } else { random.pick(&NUMBERS) };
        let count = 1 + random.random_below(2);
        pool.extend((0..count).map(|_| random_leaf(&mut random, scalar)));
    }
    for known in &mut pool {
        if matches!(known.value, HostValue::Array(_)) && random.random_below(4) > 0 {
            known.value = moved(&known.value);
        }
    }
    let mut builder = Builder { random, now, text: format!("seed {seed}\n"), operand: 0 };
    for _ in 0..12 {
        let result = builder.operation(exec, &pool);
        match result {
            // Assign the result to the variable of an operand, so that the result may reuse the operand's memory.
            Some(result) if builder.random.random_below(2) == 0 => pool[builder.operand] = result,
            result => pool.extend(result),
        }
        if builder.random.random_below(4) == 0 {
            // Give two variables the same value.
            let alias = pool[builder.random.random_below(pool.len())].clone();
            pool.push(alias);
        }
        if pool.len() > 8 && builder.random.random_below(3) == 0 {
            // Drop a value without reading it.
            let at = builder.random.random_below(pool.len());
            pool.remove(at);
        }
    }
    while !pool.is_empty() {
        let at = builder.random.random_below(pool.len());
        pool.remove(at).check(&builder.text);
    }
}

fn simulators() -> Vec<Simulator> {
    let mut all = vec![Simulator::default()];
    match Jit::Always.no_jit_reason(Isa::detect()) {
        None => all.push(Simulator::default().with_jit(Jit::Always)),
        Some(why) => println!("not compiled: {why}"),
    }
    all
}

fn run_on<T>(device: impl clk_runtime::Device + 'static, work: impl FnOnce(&ExecContext) -> T) -> T {
    with_workers(device, 0, work)
}

/// Runs `work` on a simulator with this number of workers.
fn with_workers<T>(
    device: impl clk_runtime::Device + 'static,
    workers: usize,
    work: impl FnOnce(&ExecContext) -> T,
) -> T {
    let control = Control { workers, ..Control::default() };
    work(&ExecContext::new(std::sync::Arc::new(device), &control, Default::default()).with_min_donated(0))
}

/// Runs `work` on a simulator whose row-wise kernels cache rows in shared memory, like on GPUs.
fn run_with_cached_rows<T>(device: Simulator, work: impl FnOnce(&ExecContext) -> T) -> T {
    let context = ExecContext::new(std::sync::Arc::new(device), &Control::default(), Default::default());
    work(&context.with_cached_rows())
}

/// Returns the seeds of random programs, beginning at `CLK_RANDOM_SEED`. Their number is `times` times
/// `CLK_RANDOM_PROGRAMS`, which has a small default.
fn seeds(times: u64) -> std::ops::Range<u64> {
    let env_number =
        |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let first = env_number("CLK_RANDOM_SEED", 0);
    first..first + times * env_number("CLK_RANDOM_PROGRAMS", 40)
}

/// Runs random programs on each simulator.
fn on_each(times: u64, program: fn(&ExecContext, u64)) {
    for device in simulators() {
        let run = |exec: &ExecContext, is_chosen: fn(&u64) -> bool| {
            seeds(times).filter(is_chosen).for_each(|seed| program(exec, seed));
        };
        run_on(device.clone(), |exec| run(exec, |seed| seed % 4 != 0));
        run_with_cached_rows(device, |exec| run(exec, |seed| seed % 4 == 0));
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn random_programs_agree() {
    for workers in [1, 3] {
        for device in simulators() {
            let seeds = seeds(1).filter(|seed| seed % 2 == workers as u64 / 2);
            with_workers(device, workers, |exec| seeds.for_each(|seed| program(exec, seed, seed % 8 < 2)));
        }
    }
}

fn numbers(n: usize) -> HostValue {
    let items: Vec<f32> = (0..n).map(|i| i as f32).collect();
    HostValue::Array(Array::from_items(&items).expect("memory"))
}

fn add(exec: &ExecContext, a: &HostValue, b: &HostValue) -> HostValue {
    ops::binary(exec, BinaryOp::Add, a, b).expect("a sum")
}

fn array(value: &HostValue) -> &Array {
    match value {
        HostValue::Array(array) => array,
        other => panic!("{other:?}"),
    }
}

/// Runs `work`, and returns the number of launches.
fn launches(work: impl FnOnce(&ExecContext)) -> u64 {
    let device = std::sync::Arc::new(Simulator::default());
    work(&ExecContext::new(device.clone(), &Control::default(), Default::default()));
    clk_runtime::Device::statistics(&*device).launches
}

/// Entries of a session have contexts of their own on the same device.
#[test]
fn operations_of_different_contexts_are_fused_on_one_device() {
    let x = numbers(1000);
    let launches = |same_device: bool, counting: Option<clk_runtime::profile::ProfileCollector>| {
        let devices = [0, 1].map(|_| std::sync::Arc::new(Simulator::default()));
        let control = Control::default();
        let first = ExecContext::new(devices[0].clone(), &control, Default::default());
        let control = Control { counting, ..control };
        let second = ExecContext::new(devices[usize::from(!same_device)].clone(), &control, Default::default());
        let sum = add(&second, &add(&first, &x, &x), &HostValue::Float(1.0));
        assert_eq!(array(&sum).items::<f32>().expect("numbers")[..3], [1.0, 3.0, 5.0]);
        devices.map(|device| clk_runtime::Device::statistics(&*device).launches)
    };
    assert_eq!(launches(true, None), [1, 0]);
    assert_eq!(launches(false, None), [1, 1]);
    let counting = clk_runtime::profile::ProfileCollector::default().with_expressions(true);
    assert_eq!(launches(true, Some(counting.clone())), [2, 0], "only the second operation is counted");
    assert_eq!(counting.take().len(), 1);
}

#[test]
fn chains_are_one_kernel_and_unread_results_cost_nothing() {
    let x = numbers(1000);
    assert_eq!(launches(|exec| drop(add(exec, &x, &x))), 0);
    let chain = |exec: &ExecContext| {
        let mut sum = add(exec, &x, &HostValue::Float(1.0));
        for _ in 0..20 {
            sum = add(exec, &sum, &x);
        }
        assert_eq!(array(&sum).items::<f32>().expect("numbers")[3], 64.0);
    };
    assert_eq!(launches(chain), 1);
}

#[test]
fn shared_operands_are_computed_at_most_twice() {
    let x = numbers(1000);
    let work = |exec: &ExecContext| {
        let common = add(exec, &x, &x);
        let users: Vec<HostValue> = (0..5).map(|k| add(exec, &common, &HostValue::Int(k))).collect();
        for (k, user) in users.iter().enumerate() {
            assert_eq!(array(user).items::<f32>().expect("numbers")[10], 20.0 + k as f32);
        }
        assert_eq!(array(&common).items::<f32>().expect("numbers")[10], 20.0);
    };
    // Five expressions use the common operand, which is computed once.
    assert_eq!(launches(work), 6);
}

#[test]
fn long_histories_are_computed_in_parts() {
    let x = numbers(1000);
    let work = |exec: &ExecContext| {
        let mut sum = x.clone();
        for _ in 0..10 * node::MAX_OPS {
            sum = add(exec, &sum, &HostValue::Float(1.0));
        }
        assert_eq!(array(&sum).items::<f32>().expect("numbers")[1], 1.0 + 10.0 * node::MAX_OPS as f32);
    };
    let parts = launches(work);
    assert!((10..30).contains(&parts), "{parts}");
}

#[test]
fn collected_results_are_computed_without_a_reader() {
    let x = numbers(1000);
    let work = |exec: &ExecContext| {
        let collector = exec.begin_collecting();
        drop(add(exec, &add(exec, &x, &x), &x));
        drop(add(exec, &x, &HostValue::Float(1.0)));
        collector.finish().expect("computed");
    };
    assert_eq!(launches(work), 2);
}

/// An expression that only a reduction or an assignment reads is fused into the kernel of the reduction or assignment,
/// even if the code is timed.
#[test]
fn collected_operands_are_fused_into_their_reader() {
    let x = numbers(5000);
    let work = |exec: &ExecContext| {
        drop(ops::reduce(exec, ReduceKind::Sum, &add(exec, &x, &x), None).expect("a sum"));
        drop(ops::reduce(exec, ReduceKind::Argmax, &add(exec, &x, &HostValue::Float(1.0)), None).expect("a position"));
        let mut target = array(&x).clone();
        let part = [SliceSpec::Range { start: Some(0), end: Some(4000), inclusive: false, step: None }];
        let value = add(exec, &numbers(4000), &HostValue::Float(2.0));
        ops::assign(exec, &mut target, &part, &value).expect("a part");
    };
    let with_collector = |exec: &ExecContext| {
        let with_collector = exec.begin_collecting();
        work(exec);
        with_collector.finish().expect("computed");
    };
    assert_eq!(launches(with_collector), launches(work));
}

#[test]
fn a_repeated_operand_is_computed_first() {
    let (row, column) = (numbers(100), numbers(50));
    let column = ops::reshape(&column, &[50, 1]).expect("a column");
    let work = |exec: &ExecContext| {
        let table = add(exec, &add(exec, &column, &HostValue::Float(1.0)), &add(exec, &row, &HostValue::Float(2.0)));
        let table = array(&table);
        assert_eq!(table.shape(), [50, 100]);
        assert_eq!(table.items::<f32>().expect("numbers")[100 * 7 + 9], 19.0);
    };
    // The column is small, so that it is computed immediately.
    assert_eq!(launches(work), 2);
}

#[test]
fn vectors_and_reinterpreted_bytes() {
    let exec = &ExecContext::default();
    let items: Vec<f32> = (0..300).map(|i| i as f32).collect();
    let bytes: Vec<u8> = items.iter().flat_map(|x| x.to_le_bytes()).collect();
    let points =
        HostValue::Array(Array::from_bytes(ElementType::Vector(Scalar::F32, 3), &[100], &bytes).expect("points"));
    let sum = add(exec, &points, &numbers(100));
    let bits = ops::bitcast(Scalar::U32, &sum).expect("bits");
    let back = ops::bitcast(Scalar::F32, &add(exec, &bits, &HostValue::Int(0))).expect("floats");
    let round_trip = array(&back);
    assert_eq!(round_trip.type_name(), "[f32x3; 100]");
    let expected: Vec<f32> = (0..300).map(|i| i as f32 + (i / 3) as f32).collect();
    assert_eq!(round_trip.items::<f32>().expect("numbers"), expected);
}

/// Combines elements in the documented order of reductions: in each round, a result combines every `m`-th element.
fn tree(
    mut elements: Vec<clk_scalar::ScalarValue>,
    f: impl Fn(clk_scalar::ScalarValue, clk_scalar::ScalarValue) -> clk_scalar::ScalarValue,
) -> clk_scalar::ScalarValue {
    loop {
        let mut m = elements.len().div_ceil(64);
        if m >= 4096 {
            m = m.next_multiple_of(16);
            m += if m.is_multiple_of(32) { 16 } else { 0 };
        }
        let results = (0..m).map(|j| {
            let own: Vec<clk_scalar::ScalarValue> = elements.iter().copied().skip(j).step_by(m).collect();
            own[1..].iter().fold(own[0], |total, &x| f(total, x))
        });
        elements = results.collect();
        if m == 1 {
            return elements[0];
        }
    }
}

/// Reduces along one axis or all axes (reference implementation).
fn reference_reduction(
    how: ops::ReduceKind,
    known: &ExpectedArray,
    axis: Option<usize>,
) -> Vec<clk_scalar::ScalarValue> {
    use ops::ReduceKind::*;
    let (own, shape) = (known.scalar(), &known.shape);
    let wide = if matches!(how, Sum | Mean | Prod) { Scalar::F64 } else { own };
    let (outer, len, inner) = match axis {
        None => (1, known.items.len(), 1),
        Some(k) => (shape[..k].iter().product(), shape[k], shape[k + 1..].iter().product::<usize>()),
    };
    let column = |c: usize| {
        let element = |row: usize| known.items[(c / inner * len + row) * inner + c % inner].to_type(wide);
        let total = tree((0..len).map(element).collect(), |a, b| {
            match how {
                Sum | Mean => dynamic::binary(BinaryOp::Add, a, b),
                Prod => dynamic::binary(BinaryOp::Mul, a, b),
                Min => dynamic::math(MathFn::Min, &[a, b]),
                Max => dynamic::math(MathFn::Max, &[a, b]),
                All => dynamic::binary(BinaryOp::BitAnd, a, b),
                _ => dynamic::binary(BinaryOp::BitOr, a, b),
            }
            .expect("defined")
        });
        let total = match how {
            Mean => dynamic::binary(BinaryOp::Div, total, clk_scalar::ScalarValue::of(len as f64)).expect("defined"),
            _ => total,
        };
        total.to_type(own)
    };
    (0..outer * inner).map(column).collect()
}

/// Compares reductions of random arrays along each axis with the reference. Some of the arrays are deferred
/// expressions.
fn reductions(exec: &ExecContext, seed: u64) {
    use ops::ReduceKind::*;
    let mut random = Random(seed ^ 0xabc);
    let shapes: &[&[usize]] = &[&[5000], &[1], &[63, 65], &[3, 130, 20], &[1, 70, 1], &[2, 3, 4, 300], &[64, 1], &[9]];
    let shape = random.pick(shapes);
    let scalar = random.pick(&[Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bool, Scalar::I32, Scalar::U8]);
    let hows: &[ops::ReduceKind] = match scalar {
        Scalar::Bool => &[All, Any],
        s if s.is_int() => &[Min, Max],
        _ => &[Sum, Mean, Prod, Min, Max],
    };
    let kind = random.pick(hows);
    let mut array = Array::zeros(scalar, shape).expect("memory");
    let mut items = Vec::new();
    for place in array.bytes_mut().expect("memory").chunks_exact_mut(scalar.size()) {
        let number = match random.random_below(400) {
            0 => clk_scalar::ScalarValue::of(f64::NAN),
            1 => clk_scalar::ScalarValue::of(f64::INFINITY),
            _ => clk_scalar::ScalarValue::of((random.next() >> 11) as f64 / (1u64 << 52) as f64),
        };
        let number = number.to_type(scalar);
        place.copy_from_slice(&number.to_bytes()[..scalar.size()]);
        items.push(number);
    }
    let mut operand = ExpectedArray { value: HostValue::Array(array), shape: shape.to_vec(), items };
    match random.random_below(3) {
        0 if scalar != Scalar::Bool => {
            let two = clk_scalar::ScalarValue::of(2i32).to_type(scalar);
            operand.value =
                ops::binary(exec, BinaryOp::Mul, &operand.value, &HostValue::Scalar(two)).expect("a product");
            let double = |x: &clk_scalar::ScalarValue| dynamic::binary(BinaryOp::Mul, *x, two).expect("a product");
            operand.items = operand.items.iter().map(double).collect();
        }
        1 if shape.len() > 1 && scalar != Scalar::Bool => {
            // Use an operand that is broadcast along the first axis.
            let row = operand.clone();
            let row = ops::index(exec, &row.value, &[crate::array::SliceSpec::At(0)]).expect("a row");
            operand.value = ops::math(exec, MathFn::Min, &[operand.value.clone(), row]).expect("minima");
            let width = operand.items.len() / shape[0];
            let min = |at: usize| dynamic::math(MathFn::Min, &[operand.items[at], operand.items[at % width]]);
            operand.items = (0..operand.items.len()).map(|at| min(at).expect("a minimum")).collect();
        }
        _ => {}
    }
    let axis = random.random_below(shape.len() + 1);
    let axis = (axis < shape.len()).then_some(axis);
    let value = ops::reduce(exec, kind, &operand.value, axis.map(|axis| axis as i64)).expect("a reduction");
    let expected = reference_reduction(kind, &operand, axis);
    let left = match axis {
        None => vec![],
        Some(axis) => shape.iter().enumerate().filter(|(k, _)| *k != axis).map(|(_, n)| *n).collect(),
    };
    let text = format!("seed {seed}: {kind:?} of {scalar} {shape:?} along {axis:?}");
    ExpectedArray { value, shape: left, items: expected }.check(&text);
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of kernels")]
fn reductions_have_the_documented_order() {
    on_each(4, reductions);
}

/// If a round has many results, the distance between the elements that one thread combines is not a power of two.
#[test]
fn long_reductions_have_the_documented_order() {
    for n in [1 << 18, 300_001] {
        let items: Vec<f32> = (0..n as u64).map(|i| (i * 7919 % 10_007) as f32 * 1e-3 - 5.0).collect();
        let wide = items.iter().map(|&x| clk_scalar::ScalarValue::of(f64::from(x))).collect();
        let add = |a, b| dynamic::binary(BinaryOp::Add, a, b).expect("a sum");
        let expected = tree(wide, add).to_type(Scalar::F32);
        let x = HostValue::Array(Array::from_items(&items).expect("memory"));
        for device in simulators() {
            let sum = run_on(device, |exec| ops::reduce(exec, ops::ReduceKind::Sum, &x, None).expect("a sum"));
            assert_eq!(sum, HostValue::Scalar(expected), "{n}");
        }
    }
}

#[test]
fn reduced_expressions_are_not_stored() {
    let x = numbers(5000);
    let work = |exec: &ExecContext| {
        let product = ops::binary(exec, BinaryOp::Mul, &x, &x).expect("a product");
        let sum = ops::reduce(exec, ops::ReduceKind::Sum, &product, None).expect("a sum");
        assert_eq!(sum, HostValue::of((0..5000u64).map(|i| i * i).sum::<u64>() as f32));
    };
    // The first round reduces 5000 elements to 79 results, which one block combines.
    assert_eq!(launches(work), 2);
}
