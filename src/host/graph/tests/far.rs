//! A device with memory of its own, as a GPU has it, whose kernels a simulator runs: what is copied back, and when.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::device::storage::{Remote, Storage};
use crate::device::{Arg, Coming, Device, DeviceError, Executable, Extents, Fault, Output};
use crate::host::array::AlignedBytes;
use crate::host::array::SliceSpec;
use crate::host::ops::Pick;
use crate::ir::Prepared;

/// The device; counts the bytes that are copied to it and back.
#[derive(Default)]
pub(super) struct Far {
    pub sim: Simulator,
    pub copied: Arc<Copied>,
    /// The bytes of its memory, if arrays are copied there in parts.
    pub memory: Option<u64>,
}

#[derive(Default)]
pub(super) struct Copied {
    pub to: AtomicUsize,
    pub back: AtomicUsize,
    /// Of the bytes to it, those that were copied before anybody asked.
    pub ahead: AtomicUsize,
}

/// Room for a part of an array.
struct Room(usize, Arc<Copied>, bool);

impl Coming for Room {
    fn copy(self: Box<Self>, bytes: &[u8]) -> Result<Arc<dyn Remote>, DeviceError> {
        assert_eq!(bytes.len(), self.0);
        self.1.to.fetch_add(bytes.len(), Ordering::Relaxed);
        self.1.ahead.fetch_add(if self.2 { bytes.len() } else { 0 }, Ordering::Relaxed);
        Ok(Arc::new(Bytes(AlignedBytes::copy_of(bytes).expect("memory"), self.1)))
    }
}

/// Memory of the device.
struct Bytes(AlignedBytes, Arc<Copied>);

impl Remote for Bytes {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.1.back.fetch_add(into.len(), Ordering::Relaxed);
        into.copy_from_slice(&self.0[offset as usize..][..into.len()]);
        Ok(())
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

struct Kernel(Arc<dyn Executable>, Arc<Copied>);

impl Kernel {
    /// Returns a copy of the device's bytes of an argument, which are copied there first.
    fn own(&self, storage: &Storage) -> Storage {
        let mut remote = storage.remote();
        let there = remote.clone().map(|bytes| bytes.into_any().downcast::<Bytes>().expect("this device's memory"));
        let bytes = there.unwrap_or_else(|| {
            let own = storage.here().map(|here| AlignedBytes::copy_of(here).expect("memory"));
            self.1.to.fetch_add(own.as_ref().map_or(0, |own| own.len()), Ordering::Relaxed);
            let own = own.unwrap_or_else(|| AlignedBytes::zeroed(storage.len()).expect("memory"));
            Arc::new(Bytes(own, self.1.clone()))
        });
        // The memory of an array that was cut is larger.
        let copy = AlignedBytes::copy_of(&bytes.0[..storage.len()]).expect("memory");
        *remote = Some(bytes);
        Storage::of_bytes(copy)
    }
}

impl Executable for Kernel {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        let mut own: Vec<Option<Storage>> = args
            .iter()
            .map(|arg| match arg {
                Arg::Array { storage, .. } => Some(self.own(storage)),
                Arg::ArrayMut { storage, .. } => Some(self.own(storage)),
                _ => None,
            })
            .collect();
        let mut there: Vec<Arg<'_>> = Vec::new();
        for (arg, own) in args.iter().zip(&mut own) {
            there.push(match (arg, own) {
                (Arg::Array { shape, .. }, Some(own)) => Arg::Array { storage: own, shape: shape.clone() },
                (Arg::ArrayMut { shape, .. }, Some(own)) => Arg::ArrayMut { storage: own, shape: shape.clone() },
                (Arg::Value(value), _) => Arg::Value(value.clone()),
                _ => panic!("bytes of the host"),
            });
        }
        let output = self.0.launch(extents, &mut there, control)?;
        drop(there);
        for (arg, own) in args.iter_mut().zip(own) {
            if let (Arg::ArrayMut { storage, .. }, Some(own)) = (arg, own) {
                let bytes = AlignedBytes::copy_of(own.bytes().expect("bytes")).expect("memory");
                storage.written_remotely(Arc::new(Bytes(bytes, self.1.clone())));
            }
        }
        Ok(output)
    }
}

impl Device for Far {
    fn name(&self) -> String {
        "far".into()
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        Arc::new(Kernel(self.sim.load(kernel), self.copied.clone()))
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn memory(&self) -> Option<u64> {
        self.memory
    }

    fn expect(&self, bytes: usize, spare: bool) -> Result<Option<Box<dyn Coming>>, DeviceError> {
        Ok(self.memory.map(|_| Box::new(Room(bytes, self.copied.clone(), spare)) as Box<dyn Coming>))
    }
}

impl Far {
    /// Moves an array there.
    pub(super) fn take(&self, value: &Value) -> Value {
        take(value, &self.copied)
    }

    /// Runs work there; returns the bytes that it copies back.
    pub(super) fn run(self: &Arc<Far>, work: impl FnOnce()) -> usize {
        let before = self.copied.back.load(Ordering::Relaxed);
        let _standing = Site::new(self.clone(), &Control::default(), Default::default()).donate_from(0).enter();
        work();
        self.copied.back.load(Ordering::Relaxed) - before
    }
}

fn take(value: &Value, copied: &Arc<Copied>) -> Value {
    let mut moved = array(value).clone();
    let bytes = AlignedBytes::copy_of(moved.bytes().expect("bytes")).expect("memory");
    moved.storage_mut().expect("memory").written_remotely(Arc::new(Bytes(bytes, copied.clone())));
    Value::Array(moved)
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn random_views_agree_there() {
    let far = Arc::new(Far::default());
    far.run(|| seeds(1).for_each(|seed| views::Fuzz::moved(seed, |x| take(x, &Arc::default())).run(25)));
}

/// Returns an array there: `n` numbers in another order.
fn mixed(far: &Far, n: usize) -> Value {
    let items: Vec<i32> = (0..n as i64).map(|i| (i * 7919 % n as i64) as i32).collect();
    far.take(&Value::Array(Array::from_items(&items).expect("memory")))
}

#[test]
fn selections_masks_and_sorts_stay_there() {
    let far = Arc::new(Far::default());
    let (mut x, mut sorted) = (mixed(&far, 20_370), Value::Unit);
    let ten = Value::Int(10);
    let work = || {
        let floats = ops::convert(Scalar::F64, &x).expect("floats");
        let at = ops::math(MathFn::Abs, &[ops::unary(UnaryOp::Neg, &x).expect("numbers")]).expect("positions");
        let Value::Array(picks) = &at else { panic!("no array") };
        let back = ops::gather(&x, &[Pick::Array(picks.clone())]).expect("a selection");
        let less = ops::binary(BinaryOp::Lt, &back, &ten).expect("a mask");
        let few = ops::gather(&back, &[Pick::Array(array(&less).clone())]).expect("a selection");
        assert_eq!(array(&few).shape(), [10]);
        let Value::Array(target) = &mut x else { panic!("no array") };
        ops::scatter(target, &[Pick::Array(array(&less).clone())], &Value::Int(-1)).expect("an assignment");
        ops::scatter(target, &[Pick::Array(picks.clone())], &back).expect("an assignment");
        let rows = ops::sort(&ops::reshape(&x, &[97, 210]).expect("rows")).expect("sorted");
        array(&rows).storage().expect("computed");
        sorted = ops::sort(&floats).expect("sorted");
        array(&sorted).storage().expect("computed");
    };
    // The counts of marks, and whether positions are inside.
    let copied = far.run(work);
    assert!(copied <= 16, "{copied} bytes came back");
    let expected: Vec<f64> = (0..20_370).map(f64::from).collect();
    assert_eq!(array(&sorted).items::<f64>().expect("numbers"), expected);
}

/// What masks mark, given or deferred comparisons, few and most, is what the host selects, and one number comes back.
#[test]
fn what_masks_mark_is_selected_there() {
    let far = Arc::new(Far::default());
    let of = |scalar: Scalar, n: usize| {
        let items: Vec<i32> = (0..n).map(|k| (k * 7919 % 101) as i32 - 50 * i32::from(scalar.is_signed())).collect();
        ops::convert(scalar, &Value::Array(Array::from_items(&items).expect("memory"))).expect("numbers")
    };
    let compare = |x: &Value, op: BinaryOp, limit: f64, turned: bool| {
        let scalar = array(x).scalar().expect("numbers");
        let limit = Value::Scalar(crate::lang::scalar::Value::of(limit).to_type(scalar));
        let mask = if turned { ops::binary(op, &limit, x) } else { ops::binary(op, x, &limit) };
        array(&mask.expect("a mask")).clone()
    };
    let operators = [BinaryOp::Lt, BinaryOp::Le, BinaryOp::Gt, BinaryOp::Ge, BinaryOp::Eq, BinaryOp::Ne];
    let scalars =
        [Scalar::I8, Scalar::U8, Scalar::F16, Scalar::Bf16, Scalar::I32, Scalar::U32, Scalar::F32, Scalar::F64];
    for (case, scalar) in scalars.into_iter().enumerate() {
        for n in [1500, 8193] {
            let (op, turned) = (operators[(case + n) % 6], case % 2 == 0);
            let (here, other) = (of(scalar, n), of(Scalar::I64, n));
            for limit in [-60.0, 3.0, 40.0] {
                let mask = compare(&here, op, limit, turned);
                mask.storage().expect("computed");
                let select =
                    |x: &Value, mask: &Array| ops::gather(x, &[Pick::Array(mask.clone())]).expect("a selection");
                let expected = [select(&here, &mask), select(&other, &mask)];
                let (x, y, marks) = (far.take(&here), far.take(&other), far.take(&Value::Array(mask)));
                let mut found = Vec::new();
                let copied = far.run(|| {
                    found.push(select(&x, &compare(&x, op, limit, turned)));
                    found.push(select(&y, &compare(&x, op, limit, turned)));
                    found.push(select(&x, array(&marks)));
                    found.push(select(&y, array(&marks)));
                    // What is cut is an array like others.
                    let twice = ops::binary(BinaryOp::Add, &found[1], &found[1]).expect("numbers");
                    array(&twice).storage().expect("computed");
                });
                // A few sums are computed on the host.
                let few = Some(array(&found[1])).filter(|few| few.count() <= 64).map_or(0, Array::byte_len);
                assert_eq!(copied, 32 + few, "four counts come back");
                for (found, expected) in found.iter().zip(expected.iter().cycle()) {
                    assert_eq!(array(found).shape(), array(expected).shape(), "{scalar}, {n}, {op:?}, {limit}");
                    assert_eq!(array(found).bytes(), array(expected).bytes(), "{scalar}, {n}, {op:?}, {limit}");
                }
            }
        }
    }
}

/// Positions are those that the host finds, of numbers of which many are equal.
#[test]
fn orders_are_found_there() {
    let far = Arc::new(Far::default());
    let special = [0.0, -0.0, 1.5, -2.0, f64::NAN, -f64::NAN, f64::INFINITY, -1e-300, 1e300, -f64::INFINITY];
    let floats: Vec<f64> = (0..9000).map(|k| special[k * 7919 % 10]).collect();
    let bits = |k: usize| (k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (k % 3 * 30);
    let mixed: Vec<u64> = (0..9000).map(|k| bits(k % 4000)).collect();
    let of = |scalar: Scalar| {
        let items = if scalar.is_float() { Array::from_items(&floats) } else { Array::from_items(&mixed) };
        ops::convert(scalar, &Value::Array(items.expect("memory"))).expect("numbers")
    };
    for scalar in NUMBERS {
        let here = of(scalar);
        let (expected, there) = (ops::argsort(&here).expect("positions"), far.take(&here));
        let mut found = Value::Unit;
        let work = || {
            found = ops::argsort(&there).expect("positions");
            array(&found).storage().expect("computed");
        };
        assert_eq!(far.run(work), 0, "nothing comes back");
        assert_eq!(array(&found).items::<i32>(), array(&expected).items::<i32>(), "{scalar}");
    }
}

/// Sums at positions have the bits of the host's, and so have parts of zeros.
#[test]
fn what_is_added_at_positions_is_added_there() {
    let far = Arc::new(Far::default());
    let mut random = Random(7);
    let mut positions = |n: usize, below: usize| {
        let items: Vec<i32> = (0..n).map(|_| random.below(below) as i32).collect();
        Array::from_items(&items).expect("memory")
    };
    let rows = |scalar: Scalar, shape: &[i64]| {
        let count = shape.iter().product::<i64>() as usize;
        let items: Vec<f64> = (0..count).map(|k| (k * 7919 % 1009) as f64 / 7.0 - 50.0).collect();
        let items = Value::Array(Array::from_items(&items).expect("memory"));
        ops::reshape(&ops::convert(scalar, &items).expect("numbers"), shape).expect("rows")
    };
    let (one, pair) = (positions(900, 40), [positions(700, 9), positions(700, 31)]);
    let mask: Vec<u8> = (0..900).map(|k| u8::from(k % 7 < 3)).collect();
    let mask = ops::convert(Scalar::Bool, &Value::Array(Array::from_items(&mask).expect("memory"))).expect("marks");
    let part = Pick::Spec(SliceSpec::Range { start: Some(3), end: Some(7), inclusive: false, step: None });
    for scalar in [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64] {
        let cases = [
            (rows(scalar, &[900]), vec![Pick::Array(one.clone())], vec![40]),
            (rows(scalar, &[900, 12]), vec![Pick::Array(one.clone())], vec![50, 12]),
            (rows(scalar, &[700]), pair.iter().cloned().map(Pick::Array).collect(), vec![9, 31]),
            (rows(scalar, &[387]), vec![Pick::Array(array(&mask).clone())], vec![900]),
            (rows(scalar, &[4, 900]), vec![part.clone(), Pick::Array(one.clone())], vec![11, 40]),
        ];
        for (case, (rows, picks, shape)) in cases.iter().enumerate() {
            let expected = ops::collect(rows, picks, shape).expect("sums");
            let (there, mut found) = (far.take(rows), Value::Unit);
            let picks: Vec<Pick> = match case {
                2 => picks.clone(),
                _ => picks.iter().map(|pick| moved(&far, pick)).collect(),
            };
            let copied = far.run(|| {
                found = ops::collect(&there, &picks, shape).expect("sums");
                array(&found).storage().expect("computed");
            });
            assert!(copied <= 16 || case == 4, "{copied} bytes of case {case} came back");
            assert_eq!(array(&found).bytes(), array(&expected).bytes(), "{scalar}, case {case}");
        }
    }
    let there = far.take(&rows(Scalar::F32, &[40, 40]));
    let mut zeros = Array::unplaced(Element::Scalar(Scalar::F32), &[99, 64]).expect("memory");
    let inner = SliceSpec::Range { start: Some(5), end: Some(45), inclusive: false, step: None };
    let copied = far.run(|| {
        let twice = ops::binary(BinaryOp::Add, &there, &there).expect("numbers");
        ops::assign(&mut zeros, &[inner, inner], &twice).expect("an assignment");
        zeros.storage().expect("computed");
    });
    assert_eq!(copied, 0, "nothing comes back");
    let part = ops::index(&Value::Array(zeros), &[inner, inner]).expect("a part");
    let twice = ops::binary(BinaryOp::Add, &there, &there).expect("numbers");
    assert_eq!(array(&part).bytes(), array(&twice).bytes());
}

fn moved(far: &Far, pick: &Pick) -> Pick {
    match pick {
        Pick::Array(at) => Pick::Array(array(&far.take(&Value::Array(at.clone()))).clone()),
        other => other.clone(),
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn random_programs_agree_there() {
    let far = Arc::new(Far::default());
    far.run(|| seeds(1).filter(|seed| seed % 4 == 3).for_each(|seed| program_of(seed, false, |x| far.take(x))));
}

#[test]
fn single_elements_are_written_there() {
    use crate::host::array::RecordLayout;
    let far = Arc::new(Far::default());
    let at = |indices: &[i64]| indices.iter().map(|&i| SliceSpec::At(i)).collect::<Vec<_>>();
    let Value::Array(mut x) = far.take(&ops::reshape(&numbers(60_000), &[200, 300]).expect("rows")) else { panic!() };
    let before = x.clone();
    let work = || {
        ops::assign(&mut x, &at(&[3, 7]), &Value::Float(0.5)).expect("written");
        ops::assign(&mut x, &at(&[199, 299]), &Value::Int(-1)).expect("written");
        assert_eq!(ops::assign(&mut x, &at(&[200, 0]), &Value::Int(1)).expect_err("outside").code, "E0502");
        assert_eq!(ops::assign(&mut x, &at(&[0, 0]), &Value::bool(true)).expect_err("no number").code, "E0504");
    };
    assert_eq!(far.run(work), 0, "nothing comes back");
    let mut expected = numbers(60_000);
    let Value::Array(numbers) = &mut expected else { panic!() };
    assert_eq!(before.items::<f32>().expect("numbers"), numbers.items::<f32>().expect("numbers"), "a value of its own");
    let items = numbers.items_mut::<f32>().expect("numbers");
    (items[3 * 300 + 7], items[59_999]) = (0.5, -1.0);
    assert_eq!(x.items::<f32>().expect("numbers"), items);
    // Structs, whose fields are written alone, and vectors.
    let fields = [("mass".into(), Element::Scalar(Scalar::F32)), ("kind".into(), Element::Scalar(Scalar::I32))];
    let element = Element::Record(Arc::new(RecordLayout::new("Particle", fields)));
    let bytes: Vec<u8> = (0..500 * element.size()).map(|i| (i % 50) as u8).collect();
    let particles = Value::Array(Array::from_bytes(element, &[500], &bytes).expect("structs"));
    let vectors =
        Value::Array(Array::from_bytes(Element::Vector(Scalar::F32, 2), &[500], &[0; 4000]).expect("vectors"));
    let write = |particles: &mut Array, vectors: &mut Array| {
        let first = ops::index(&Value::Array(particles.clone()), &at(&[1])).expect("a struct");
        ops::assign(particles, &at(&[499]), &first).expect("written");
        let both = ops::compose(Scalar::F32, 2, &[Value::Float(1.0), Value::Float(2.0)]).expect("a vector");
        ops::assign(vectors, &at(&[2]), &both).expect("written");
    };
    let (mut own, mut there) = ((particles.clone(), vectors.clone()), (far.take(&particles), far.take(&vectors)));
    let (Value::Array(a), Value::Array(b)) = (&mut own.0, &mut own.1) else { panic!() };
    let (Value::Array(c), Value::Array(d)) = (&mut there.0, &mut there.1) else { panic!() };
    write(a, b);
    assert!(far.run(|| write(c, d)) <= 8, "one struct is read");
    assert_eq!((&*c, &*d), (&*a, &*b));
}

/// A loop over all elements is one of the host.
#[test]
fn many_single_elements_are_written_on_the_host() {
    let far = Arc::new(Far::default());
    let Value::Array(mut x) = far.take(&numbers(1 << 20)) else { panic!() };
    let all = || (0..1000).for_each(|i| ops::assign(&mut x, &[SliceSpec::At(i)], &Value::Float(0.5)).expect("written"));
    assert_eq!(far.run(all), 4 << 20, "once");
    assert_eq!(x.items::<f32>().expect("numbers")[998..1002], [0.5, 0.5, 1000.0, 1001.0]);
}

/// Slices, columns, joined arrays and assignments of structs, and what is written to an expression that has yet to be computed.
fn of_structs(particles: &Value, numbers: &Value) -> Vec<Array> {
    let span = |start, end, step| SliceSpec::Range { start: Some(start), end: Some(end), inclusive: false, step };
    let part = ops::index(particles, &[span(100, 1900, Some(3))]).expect("a slice");
    let turned = ops::flip(&part, 0).expect("a flip");
    let joined = ops::concat(&[turned.clone(), particles.clone()], 0).expect("one array");
    let [masses, places, kinds] = [0, 1, 2].map(|field| ops::field(&joined, field).expect("a column"));
    let doubled = add(&masses, &masses);
    let Value::Array(mut written) = particles.clone() else { panic!("no array") };
    let heavy = ops::binary(BinaryOp::Mul, &ops::field(particles, 0).expect("a column"), &Value::Float(3.0));
    let column = ops::Column::of_field(&written, 0).expect("a column");
    column.put(&mut written, array(&heavy.expect("numbers"))).expect("written");
    ops::assign(&mut written, &[span(50, 650, None)], &turned).expect("written");
    let Value::Array(mut sum) = add(numbers, numbers) else { panic!("no array") };
    ops::assign(&mut sum, &[span(3, 1500, Some(2))], &Value::Float(7.0)).expect("written");
    let all = [&part, &turned, &joined, &masses, &places, &kinds, &doubled].map(|value| array(value).clone());
    let all: Vec<Array> = all.into_iter().chain([written, sum]).collect();
    all.iter().for_each(|array| assert!(array.storage().is_ok()));
    all
}

#[test]
fn structs_stay_there() {
    use crate::host::array::RecordLayout;
    let fields = [
        ("mass".into(), Element::Scalar(Scalar::F32)),
        ("at".into(), Element::Vector(Scalar::F64, 3)),
        ("kind".into(), Element::Scalar(Scalar::U8)),
    ];
    let element = Element::Record(Arc::new(RecordLayout::new("Particle", fields)));
    let mut random = Random(7);
    let bytes: Vec<u8> = (0..2000 * element.size()).map(|_| (random.next() % 60) as u8).collect();
    let particles = Value::Array(Array::from_bytes(element, &[2000], &bytes).expect("structs"));
    let expected = of_structs(&particles, &numbers(2000));
    let (far, mut found) = (Arc::new(Far::default()), Vec::new());
    let (there, sums) = (far.take(&particles), far.take(&numbers(2000)));
    assert_eq!(far.run(|| found = of_structs(&there, &sums)), 0, "nothing comes back");
    for (k, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "result {k}");
    }
}

/// A kernel that reads a few scalars of its device does not wait for what is before it.
#[test]
fn few_scalars_that_a_kernel_reads_stay_there() {
    let far = Arc::new(Far::default());
    let (matrix, step) = (far.take(&numbers(7000)), far.take(&numbers(10)));
    let matrix = ops::reshape(&matrix, &[700, 10]).expect("rows");
    let half = Value::Float(0.5);
    let few = || {
        let scaled = ops::binary(BinaryOp::Mul, &step, &half).expect("numbers");
        ops::binary(BinaryOp::Sub, &numbers(10), &scaled).expect("numbers")
    };
    let (mut sum, mut alone) = (Value::Unit, Value::Unit);
    let copied = far.run(|| {
        sum = ops::binary(BinaryOp::Add, &matrix, &few()).expect("numbers");
        array(&sum).storage().expect("computed");
    });
    assert_eq!(copied, 0, "nothing comes back");
    assert_eq!(array(&sum).items::<f32>().expect("numbers")[6999], 6999.0 + 4.5);
    let copied = far.run(|| {
        alone = few();
        array(&alone).storage().expect("computed");
    });
    assert_eq!(copied, 40, "for others they are fetched");
    assert_eq!(array(&alone).items::<f32>().expect("numbers")[9], 4.5);
}
