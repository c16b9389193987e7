//! Random array expressions: computed fused, operation by operation, and by the most obvious code, on the interpreted and the
//! compiled simulator.

mod donated;
mod far;
mod picks;
mod shards;
mod stream;
mod views;

use super::*;
use crate::device::Control;
use crate::device::sim::{Isa, Jit, Simulator};
use crate::host::array::broadcast::common_shape;
use crate::host::array::{Array, Element, SliceSpec};
use crate::host::ops::{self, Reduce};
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::dynamic::{self, Failure};
use crate::lang::scalar::{self, Scalar};

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

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// An array with its elements as the reference computes them.
#[derive(Clone)]
struct Known {
    value: Value,
    shape: Vec<usize>,
    items: Vec<scalar::Value>,
}

impl Known {
    fn scalar(&self) -> Scalar {
        match &self.value {
            Value::Array(array) => array.scalar().expect("numbers"),
            Value::Scalar(number) => number.ty,
            other => panic!("{other:?}"),
        }
    }

    /// Compares with what Clk computed.
    fn check(&self, text: &str) {
        let found: Vec<scalar::Value> = match &self.value {
            Value::Array(array) => {
                assert_eq!(array.shape(), self.shape, "{text}");
                let (bytes, scalar) = (array.bytes().expect("computed"), array.scalar().expect("numbers"));
                bytes.chunks_exact(scalar.size()).map(|item| scalar::Value::from_bytes(scalar, item)).collect()
            }
            Value::Scalar(number) => vec![*number],
            other => panic!("{other:?}"),
        };
        // Which NaN it is, the language leaves open.
        let same = |a: &scalar::Value, b: &scalar::Value| a == b || a.ty == b.ty && a.is_nan() && b.is_nan();
        let differs = found.iter().zip(&self.items).position(|(a, b)| !same(a, b));
        if let Some(at) = differs {
            panic!("{text}\nelement {at} is {}, not {}", found[at], self.items[at]);
        }
        assert_eq!(found.len(), self.items.len(), "{text}");
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

fn leaf(random: &mut Random, scalar: Scalar) -> Known {
    let shape = random.pick(SHAPES).to_vec();
    let mut array = Array::zeros(scalar, &shape).expect("memory");
    let size = scalar.size();
    let mut items = Vec::new();
    for place in array.bytes_mut().expect("memory").chunks_exact_mut(size) {
        let number = match random.below(6) {
            0 => scalar::Value::of(random.next() as i64),
            1 => scalar::Value::of(f64::from_bits(random.next())),
            2 => scalar::Value::of(f64::NAN),
            _ => scalar::Value::of((random.below(2000) as f64 - 1000.0) / 8.0),
        };
        let number = number.to_type(scalar);
        place.copy_from_slice(&number.to_bytes()[..size]);
        items.push(number);
    }
    if shape.is_empty() && random.below(2) == 0 {
        return Known { value: Value::Scalar(items[0]), shape, items };
    }
    Known { value: Value::Array(array), shape, items }
}

/// Applies a function of scalars to each element of broadcast operands, the obvious way.
fn reference(
    operands: &[&Known],
    f: impl Fn(&[scalar::Value]) -> Result<scalar::Value, Failure>,
) -> (Vec<usize>, Vec<scalar::Value>) {
    let named: Vec<(&str, &[usize])> = operands.iter().map(|known| ("", known.shape.as_slice())).collect();
    let shape = common_shape(&named).expect("shapes that fit");
    let count: usize = shape.iter().product();
    let items = (0..count).map(|position| {
        let values: Vec<scalar::Value> = operands
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

/// The types whose elements have as many bytes.
fn of_size(size: usize) -> &'static [Scalar] {
    match size {
        1 => &[Scalar::I8, Scalar::U8],
        2 => &[Scalar::F16, Scalar::Bf16, Scalar::I16, Scalar::U16],
        4 => &[Scalar::F32, Scalar::I32, Scalar::U32],
        _ => &[Scalar::F64, Scalar::I64, Scalar::U64],
    }
}

/// Returns a type as which the bits of an array can be seen. The language leaves the bits of a NaN open.
fn bits_of(random: &mut Random, known: &Known) -> Option<Scalar> {
    let is_open = known.scalar() == Scalar::Bool || known.items.iter().any(|item| item.is_nan());
    (!is_open).then(|| random.pick(of_size(known.scalar().size())))
}

/// Builds expressions; `now` computes each operation before the next one.
struct Builder {
    random: Random,
    now: bool,
    text: String,
    /// The operand of the last operation.
    operand: usize,
}

impl Builder {
    fn operation(&mut self, pool: &[Known]) -> Option<Known> {
        use BinaryOp::*;
        use MathFn::*;
        if self.random.below(3) == 0 {
            return self.whole(pool);
        }
        self.operand = self.random.below(pool.len());
        let first = pool[self.operand].clone();
        let scalar = first.scalar();
        let fits = |known: &&Known| {
            let named = [("", first.shape.as_slice()), ("", known.shape.as_slice())];
            known.scalar() == scalar && common_shape(&named).is_ok()
        };
        let others: Vec<&Known> = pool.iter().filter(fits).collect();
        let second = others[self.random.below(others.len())].clone();
        let choice = self.random.below(11);
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
                    let error = ops::binary(op, &first.value, &second.value).expect_err("a division by zero");
                    assert_eq!(error.code, "E0506");
                    return None;
                }
                let value = ops::binary(op, &first.value, &second.value).expect("an operator");
                (value, reference(&[&first, &second], |v| dynamic::binary(op, v[0], v[1])), format!("{op:?}"))
            }
            4 => {
                let op = match scalar {
                    Scalar::Bool => UnaryOp::Not,
                    s if s.is_int() => self.random.pick(&[UnaryOp::Neg, UnaryOp::Not]),
                    _ => UnaryOp::Neg,
                };
                let value = ops::unary(op, &first.value).expect("an operator");
                (value, reference(&[&first], |v| dynamic::unary(op, v[0])), format!("{op:?}"))
            }
            5 | 6 => {
                let functions: &[MathFn] = match scalar {
                    Scalar::Bool => return None,
                    s if s.is_int() => &[Abs, Sign, Popcount, Clz, WrappingNeg],
                    _ => &[Abs, Sign, Sqrt, Floor, Round, Exp, Log, Sin, Tanh, IsNan, IsFinite, Rsqrt, Fract],
                };
                let f = self.random.pick(functions);
                let value = ops::math(f, std::slice::from_ref(&first.value)).expect("a function");
                (value, reference(&[&first], |v| dynamic::math(f, v)), format!("{f:?}"))
            }
            7 => {
                let functions: &[MathFn] = match scalar {
                    Scalar::Bool => return None,
                    s if s.is_int() => &[Min, Max, MulHi, SaturatingAdd, WrappingMul],
                    _ => &[Min, Max, Copysign, Hypot],
                };
                let f = self.random.pick(functions);
                if f == Copysign && second.items.iter().any(|item| item.is_nan()) {
                    return None;
                }
                let value = ops::math(f, &[first.value.clone(), second.value.clone()]).expect("a function");
                (value, reference(&[&first, &second], |v| dynamic::math(f, v)), format!("{f:?}"))
            }
            8 => {
                let to = if self.random.below(8) == 0 { Scalar::Bool } else { self.random.pick(&NUMBERS) };
                let value = ops::convert(to, &first.value).expect("a conversion");
                (value, reference(&[&first], |v| Ok(v[0].to_type(to))), format!("{to}"))
            }
            9 => {
                let to = bits_of(&mut self.random, &first)?;
                let value = ops::bitcast(to, &first.value).expect("bits");
                (value, reference(&[&first], |v| dynamic::bitcast(to, v[0])), format!("bitcast({to})"))
            }
            _ => {
                let holds = |known: &&Known| {
                    let named =
                        [("", first.shape.as_slice()), ("", second.shape.as_slice()), ("", known.shape.as_slice())];
                    known.scalar() == Scalar::Bool && common_shape(&named).is_ok()
                };
                let conditions: Vec<&Known> = pool.iter().filter(holds).collect();
                if conditions.is_empty() {
                    return None;
                }
                let cond = conditions[self.random.below(conditions.len())];
                let value = ops::select(&cond.value, &first.value, &second.value).expect("a choice");
                let expected = reference(&[cond, &first, &second], |v| Ok(if v[0].is_true() { v[1] } else { v[2] }));
                (value, expected, "select".to_string())
            }
        };
        self.text += &format!("{text}({scalar}) {:?}\n", shape);
        let known = Known { value, shape, items };
        if self.now {
            known.check(&self.text);
        }
        Some(known)
    }
}

fn program(seed: u64, now: bool) {
    program_of(seed, now, Value::clone);
}

/// Runs one random program, of some arrays that are moved; results are looked at in random order.
fn program_of(seed: u64, now: bool, mut moved: impl FnMut(&Value) -> Value) {
    let mut random = Random(seed);
    let mut pool: Vec<Known> = Vec::new();
    for _ in 0..4 {
        let scalar = if random.below(6) == 0 { Scalar::Bool } else { random.pick(&NUMBERS) };
        let count = 1 + random.below(2);
        pool.extend((0..count).map(|_| leaf(&mut random, scalar)));
    }
    for known in &mut pool {
        if matches!(known.value, Value::Array(_)) && random.below(4) > 0 {
            known.value = moved(&known.value);
        }
    }
    let mut builder = Builder { random, now, text: format!("seed {seed}\n"), operand: 0 };
    for _ in 0..12 {
        let made = builder.operation(&pool);
        match made {
            // The variable has a new value, which its old one may be used for.
            Some(made) if builder.random.below(2) == 0 => pool[builder.operand] = made,
            made => pool.extend(made),
        }
        if builder.random.below(4) == 0 {
            // Two variables with one value.
            let alias = pool[builder.random.below(pool.len())].clone();
            pool.push(alias);
        }
        if pool.len() > 8 && builder.random.below(3) == 0 {
            // Gone before anybody looked at it.
            let at = builder.random.below(pool.len());
            pool.remove(at);
        }
    }
    while !pool.is_empty() {
        let at = builder.random.below(pool.len());
        pool.remove(at).check(&builder.text);
    }
}

fn simulators() -> Vec<Simulator> {
    let mut all = vec![Simulator::default()];
    match Jit::Always.obstacle(Isa::detect()) {
        None => all.push(Simulator::default().compiling(Jit::Always)),
        Some(why) => println!("not compiled: {why}"),
    }
    all
}

fn within<T>(device: Simulator, work: impl FnOnce() -> T) -> T {
    with_workers(device, 0, work)
}

/// Runs work on a device with so many workers.
fn with_workers<T>(device: Simulator, workers: usize, work: impl FnOnce() -> T) -> T {
    let control = Control { workers, ..Control::default() };
    let _standing = Site::new(std::sync::Arc::new(device), &control, Default::default()).donate_from(0).enter();
    work()
}

/// Runs work on a simulator that computes rows as GPUs do.
fn keeping_rows<T>(device: Simulator, work: impl FnOnce() -> T) -> T {
    let _standing = Site::new(std::sync::Arc::new(device), &Control::default(), Default::default()).keep_rows().enter();
    work()
}

/// The seeds of random programs, `times` as many as `CLK_RANDOM_PROGRAMS` says, or a few, from `CLK_RANDOM_SEED` on.
fn seeds(times: u64) -> std::ops::Range<u64> {
    let wanted = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let first = wanted("CLK_RANDOM_SEED", 0);
    first..first + times * wanted("CLK_RANDOM_PROGRAMS", 40)
}

/// Runs random programs on each simulator.
fn on_each(times: u64, program: fn(u64)) {
    for device in simulators() {
        within(device.clone(), || seeds(times).filter(|seed| seed % 4 != 0).for_each(program));
        keeping_rows(device, || seeds(times).filter(|seed| seed % 4 == 0).for_each(program));
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn random_programs_agree() {
    for workers in [1, 3] {
        for device in simulators() {
            let seeds = seeds(1).filter(|seed| seed % 2 == workers as u64 / 2);
            with_workers(device, workers, || seeds.for_each(|seed| program(seed, seed % 8 < 2)));
        }
    }
}

fn numbers(n: usize) -> Value {
    let items: Vec<f32> = (0..n).map(|i| i as f32).collect();
    Value::Array(Array::from_items(&items).expect("memory"))
}

fn add(a: &Value, b: &Value) -> Value {
    ops::binary(BinaryOp::Add, a, b).expect("a sum")
}

fn array(value: &Value) -> &Array {
    match value {
        Value::Array(array) => array,
        other => panic!("{other:?}"),
    }
}

/// Runs work and returns the launches it took.
fn launches(work: impl FnOnce()) -> u64 {
    let device = std::sync::Arc::new(Simulator::default());
    let _standing = Site::new(device.clone(), &Control::default(), Default::default()).enter();
    work();
    crate::device::Device::statistics(&*device).launches
}

#[test]
fn a_chain_is_one_kernel_and_unread_results_are_none() {
    let x = numbers(1000);
    assert_eq!(launches(|| drop(add(&x, &x))), 0);
    let chain = || {
        let mut sum = add(&x, &Value::Float(1.0));
        for _ in 0..20 {
            sum = add(&sum, &x);
        }
        assert_eq!(array(&sum).items::<f32>().expect("numbers")[3], 64.0);
    };
    assert_eq!(launches(chain), 1);
}

#[test]
fn what_several_kernels_read_is_computed_at_most_twice() {
    let x = numbers(1000);
    let work = || {
        let common = add(&x, &x);
        let users: Vec<Value> = (0..5).map(|k| add(&common, &Value::Int(k))).collect();
        for (k, user) in users.iter().enumerate() {
            assert_eq!(array(user).items::<f32>().expect("numbers")[10], 20.0 + k as f32);
        }
        assert_eq!(array(&common).items::<f32>().expect("numbers")[10], 20.0);
    };
    // Five users and the common part once.
    assert_eq!(launches(work), 6);
}

#[test]
fn long_histories_are_computed_in_parts() {
    let x = numbers(1000);
    let work = || {
        let mut sum = x.clone();
        for _ in 0..10 * node::MOST {
            sum = add(&sum, &Value::Float(1.0));
        }
        assert_eq!(array(&sum).items::<f32>().expect("numbers")[1], 1.0 + 10.0 * node::MOST as f32);
    };
    let parts = launches(work);
    assert!((10..30).contains(&parts), "{parts}");
}

#[test]
fn what_is_held_is_computed_without_a_reader() {
    let x = numbers(1000);
    let work = || {
        let held = Held::begin();
        drop(add(&add(&x, &x), &x));
        drop(add(&x, &Value::Float(1.0)));
        held.finish().expect("computed");
    };
    assert_eq!(launches(work), 2);
}

/// What only a reduction or an assignment reads is part of its kernel, timed or not.
#[test]
fn what_is_held_is_not_computed_beside_its_reader() {
    let x = numbers(5000);
    let work = || {
        drop(ops::reduce(Reduce::Sum, &add(&x, &x), None).expect("a sum"));
        drop(ops::reduce(Reduce::Argmax, &add(&x, &Value::Float(1.0)), None).expect("a position"));
        let mut target = array(&x).clone();
        let part = [SliceSpec::Range { start: Some(0), end: Some(4000), inclusive: false, step: None }];
        let value = add(&numbers(4000), &Value::Float(2.0));
        ops::assign(&mut target, &part, &value).expect("a part");
    };
    let held = || {
        let held = Held::begin();
        work();
        held.finish().expect("computed");
    };
    assert_eq!(launches(held), launches(work));
}

#[test]
fn a_repeated_operand_is_computed_first() {
    let (row, column) = (numbers(100), numbers(50));
    let column = ops::reshape(&column, &[50, 1]).expect("a column");
    let work = || {
        let table = add(&add(&column, &Value::Float(1.0)), &add(&row, &Value::Float(2.0)));
        let table = array(&table);
        assert_eq!(table.shape(), [50, 100]);
        assert_eq!(table.items::<f32>().expect("numbers")[100 * 7 + 9], 19.0);
    };
    // The column has too few elements to be deferred.
    assert_eq!(launches(work), 2);
}

#[test]
fn vectors_and_reinterpreted_bytes() {
    let items: Vec<f32> = (0..300).map(|i| i as f32).collect();
    let bytes: Vec<u8> = items.iter().flat_map(|x| x.to_le_bytes()).collect();
    let points = Value::Array(Array::from_bytes(Element::Vector(Scalar::F32, 3), &[100], &bytes).expect("points"));
    let sum = add(&points, &numbers(100));
    let bits = ops::bitcast(Scalar::U32, &sum).expect("bits");
    let back = ops::bitcast(Scalar::F32, &add(&bits, &Value::Int(0))).expect("floats");
    let found = array(&back);
    assert_eq!(found.type_name(), "[f32x3; 100]");
    let expected: Vec<f32> = (0..300).map(|i| i as f32 + (i / 3) as f32).collect();
    assert_eq!(found.items::<f32>().expect("numbers"), expected);
}

/// Combines in the documented order: rounds of results that take every `m`-th element.
fn tree(mut elements: Vec<scalar::Value>, f: impl Fn(scalar::Value, scalar::Value) -> scalar::Value) -> scalar::Value {
    loop {
        let mut m = elements.len().div_ceil(64);
        if m >= 4096 {
            m = m.next_multiple_of(16);
            m += if m.is_multiple_of(32) { 16 } else { 0 };
        }
        let results = (0..m).map(|j| {
            let own: Vec<scalar::Value> = elements.iter().copied().skip(j).step_by(m).collect();
            own[1..].iter().fold(own[0], |total, &x| f(total, x))
        });
        elements = results.collect();
        if m == 1 {
            return elements[0];
        }
    }
}

/// Reduces along an axis, or all axes, by the most obvious code.
fn reduced(how: ops::Reduce, known: &Known, axis: Option<usize>) -> Vec<scalar::Value> {
    use ops::Reduce::*;
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
            Mean => dynamic::binary(BinaryOp::Div, total, scalar::Value::of(len as f64)).expect("defined"),
            _ => total,
        };
        total.to_type(own)
    };
    (0..outer * inner).map(column).collect()
}

/// Reduces random arrays, which are results of an operation or not, along each axis.
fn reductions(seed: u64) {
    use ops::Reduce::*;
    let mut random = Random(seed ^ 0xabc);
    let shapes: &[&[usize]] = &[&[5000], &[1], &[63, 65], &[3, 130, 20], &[1, 70, 1], &[2, 3, 4, 300], &[64, 1], &[9]];
    let shape = random.pick(shapes);
    let scalar = random.pick(&[Scalar::F32, Scalar::F64, Scalar::F16, Scalar::Bool, Scalar::I32, Scalar::U8]);
    let hows: &[ops::Reduce] = match scalar {
        Scalar::Bool => &[All, Any],
        s if s.is_int() => &[Min, Max],
        _ => &[Sum, Mean, Prod, Min, Max],
    };
    let how = random.pick(hows);
    let mut array = Array::zeros(scalar, shape).expect("memory");
    let mut items = Vec::new();
    for place in array.bytes_mut().expect("memory").chunks_exact_mut(scalar.size()) {
        let number = match random.below(400) {
            0 => scalar::Value::of(f64::NAN),
            1 => scalar::Value::of(f64::INFINITY),
            _ => scalar::Value::of((random.next() >> 11) as f64 / (1u64 << 52) as f64),
        };
        let number = number.to_type(scalar);
        place.copy_from_slice(&number.to_bytes()[..scalar.size()]);
        items.push(number);
    }
    let mut known = Known { value: Value::Array(array), shape: shape.to_vec(), items };
    match random.below(3) {
        0 if scalar != Scalar::Bool => {
            let two = scalar::Value::of(2i32).to_type(scalar);
            known.value = ops::binary(BinaryOp::Mul, &known.value, &Value::Scalar(two)).expect("a product");
            let double = |x: &scalar::Value| dynamic::binary(BinaryOp::Mul, *x, two).expect("a product");
            known.items = known.items.iter().map(double).collect();
        }
        1 if shape.len() > 1 && scalar != Scalar::Bool => {
            // An operand that repeats along the first axis.
            let row = known.clone();
            let row = ops::index(&row.value, &[crate::host::array::SliceSpec::At(0)]).expect("a row");
            known.value = ops::math(MathFn::Min, &[known.value.clone(), row]).expect("minima");
            let width = known.items.len() / shape[0];
            let min = |at: usize| dynamic::math(MathFn::Min, &[known.items[at], known.items[at % width]]);
            known.items = (0..known.items.len()).map(|at| min(at).expect("a minimum")).collect();
        }
        _ => {}
    }
    let axis = random.below(shape.len() + 1);
    let axis = (axis < shape.len()).then_some(axis);
    let found = ops::reduce(how, &known.value, axis.map(|axis| axis as i64)).expect("a reduction");
    let expected = reduced(how, &known, axis);
    let left = match axis {
        None => vec![],
        Some(axis) => shape.iter().enumerate().filter(|(k, _)| *k != axis).map(|(_, n)| *n).collect(),
    };
    let text = format!("seed {seed}: {how:?} of {scalar} {shape:?} along {axis:?}");
    Known { value: found, shape: left, items: expected }.check(&text);
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of kernels")]
fn reductions_have_the_documented_order() {
    on_each(4, reductions);
}

/// Many results of a round do not lie a power of two apart.
#[test]
fn the_order_of_many_elements_is_the_documented_one() {
    for n in [1 << 18, 300_001] {
        let items: Vec<f32> = (0..n as u64).map(|i| (i * 7919 % 10_007) as f32 * 1e-3 - 5.0).collect();
        let wide = items.iter().map(|&x| scalar::Value::of(f64::from(x))).collect();
        let add = |a, b| dynamic::binary(BinaryOp::Add, a, b).expect("a sum");
        let expected = tree(wide, add).to_type(Scalar::F32);
        let x = Value::Array(Array::from_items(&items).expect("memory"));
        for device in simulators() {
            let sum = within(device, || ops::reduce(ops::Reduce::Sum, &x, None).expect("a sum"));
            assert_eq!(sum, Value::Scalar(expected), "{n}");
        }
    }
}

#[test]
fn what_is_reduced_takes_no_memory() {
    let x = numbers(5000);
    let work = || {
        let product = ops::binary(BinaryOp::Mul, &x, &x).expect("a product");
        let sum = ops::reduce(ops::Reduce::Sum, &product, None).expect("a sum");
        assert_eq!(sum, Value::of((0..5000u64).map(|i| i * i).sum::<u64>() as f32));
    };
    // 5000 elements give 79, which one block combines.
    assert_eq!(launches(work), 2);
}
