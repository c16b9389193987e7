//! A test device with its own memory, like a GPU; a simulator runs its kernels. The tests check which bytes are copied,
//! and when.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::array::AlignedBytes;
use crate::array::SliceSpec;
use crate::graph::context::ExecContext;
use crate::ops::GatherIndex;
use clk_base::aligned::BufferGuard;
use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_runtime::storage::{DeviceBytes, Storage};
use clk_runtime::{
    Arg, Capabilities, Device, DeviceError, DeviceKind, DeviceMemory, DeviceWrapper, Executable, Fault, LaunchConfig,
    PendingUpload, PrintedText,
};

/// A device that counts the bytes copied to it and back.
#[derive(Default)]
pub(super) struct RemoteTestDevice {
    pub sim: Simulator,
    pub copied: Arc<CopiedBytes>,
    /// The size of the device's memory. If set, the device supports uploads of slices of arrays.
    pub memory: Option<u64>,
}

#[derive(Default)]
pub(super) struct CopiedBytes {
    pub to: AtomicUsize,
    pub back: AtomicUsize,
    /// Number of bytes of prefetched uploads.
    pub prefetched: AtomicUsize,
}

/// Device memory that is reserved for a slice of an array.
struct ReservedUpload(usize, Arc<CopiedBytes>, bool);

impl PendingUpload for ReservedUpload {
    fn copy(self: Box<Self>, bytes: &[u8]) -> Result<Arc<dyn DeviceBytes>, DeviceError> {
        assert_eq!(bytes.len(), self.0);
        self.1.to.fetch_add(bytes.len(), Ordering::Relaxed);
        self.1.prefetched.fetch_add(if self.2 { bytes.len() } else { 0 }, Ordering::Relaxed);
        Ok(Arc::new(Bytes(AlignedBytes::copy_of(bytes).expect("memory"), self.1)))
    }
}

/// An allocation in the memory of the device.
struct Bytes(AlignedBytes, Arc<CopiedBytes>);

impl DeviceBytes for Bytes {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.1.back.fetch_add(into.len(), Ordering::Relaxed);
        into.copy_from_slice(&self.0[offset as usize..][..into.len()]);
        Ok(())
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

struct Kernel(Arc<dyn Executable>, Arc<CopiedBytes>);

impl Kernel {
    /// Returns a copy of an argument's bytes on the device. Uploads them first if necessary.
    fn own(&self, storage: &Storage) -> Storage {
        let mut remote = storage.remote();
        let device_bytes =
            remote.clone().map(|bytes| bytes.into_any().downcast::<Bytes>().expect("this device's memory"));
        let bytes = device_bytes.unwrap_or_else(|| {
            let own = storage.here().map(|here| AlignedBytes::copy_of(here).expect("memory"));
            self.1.to.fetch_add(own.as_ref().map_or(0, |own| own.len()), Ordering::Relaxed);
            let own = own.unwrap_or_else(|| AlignedBytes::zeroed(storage.len()).expect("memory"));
            Arc::new(Bytes(own, self.1.clone()))
        });
        // The memory of a truncated array is larger than the array.
        let copy = AlignedBytes::copy_of(&bytes.0[..storage.len()]).expect("memory");
        *remote = Some(bytes);
        Storage::of_bytes(copy)
    }
}

impl Executable for Kernel {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        let mut own: Vec<Option<Storage>> = args
            .iter()
            .map(|arg| match arg {
                Arg::Array { storage, .. } => Some(self.own(storage)),
                Arg::ArrayMut { storage, .. } => Some(self.own(storage)),
                _ => None,
            })
            .collect();
        let mut device_args: Vec<Arg<'_>> = Vec::new();
        for (arg, own) in args.iter().zip(&mut own) {
            device_args.push(match (arg, own) {
                (Arg::Array { shape, .. }, Some(own)) => Arg::Array { storage: own, shape: shape.clone() },
                (Arg::ArrayMut { shape, .. }, Some(own)) => Arg::ArrayMut { storage: own, shape: shape.clone() },
                (Arg::Value(value), _) => Arg::Value(value.clone()),
                _ => panic!("bytes of the host"),
            });
        }
        let output = self.0.launch(config, &mut device_args, control)?;
        drop(device_args);
        for (arg, own) in args.iter_mut().zip(own) {
            if let (Arg::ArrayMut { storage, .. }, Some(own)) = (arg, own) {
                let bytes = AlignedBytes::copy_of(own.bytes().expect("bytes")).expect("memory");
                storage.set_device_copy(Arc::new(Bytes(bytes, self.1.clone())));
            }
        }
        Ok(output)
    }

    fn depends_on_promises(&self) -> bool {
        self.0.depends_on_promises()
    }

    fn prepare_block_shape(&self, block: [u32; 3]) {
        self.0.prepare_block_shape(block);
    }
}

impl DeviceWrapper for RemoteTestDevice {
    fn inner(&self) -> &dyn Device {
        &self.sim
    }

    fn name(&self) -> String {
        "far".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: DeviceKind::Gpu,
            asynchronous: true,
            gpu_kernels: true,
            slow_compilation: true,
            fixed_mma_order: true,
            ..Capabilities::SYNCHRONOUS
        }
    }

    fn memory(&self) -> Option<&dyn DeviceMemory> {
        Some(self)
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        Arc::new(Kernel(self.sim.load(kernel, sources), self.copied.clone()))
    }
}

impl DeviceMemory for RemoteTestDevice {
    fn size(&self) -> Option<u64> {
        self.memory
    }

    fn upload(&self, _: &Storage) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn pin(&self, _: &[u8]) -> Option<BufferGuard> {
        None
    }

    fn reserve_upload(&self, bytes: usize, spare: bool) -> Result<Option<Box<dyn PendingUpload>>, DeviceError> {
        Ok(self.memory.map(|_| Box::new(ReservedUpload(bytes, self.copied.clone(), spare)) as Box<dyn PendingUpload>))
    }
}

impl RemoteTestDevice {
    /// Returns a copy of an array that is only on the device.
    pub(super) fn upload(&self, value: &HostValue) -> HostValue {
        take(value, &self.copied)
    }

    /// Runs `work` on the device. Returns the number of bytes that are copied from the device.
    pub(super) fn run(self: &Arc<RemoteTestDevice>, work: impl FnOnce(&ExecContext)) -> usize {
        let before = self.copied.back.load(Ordering::Relaxed);
        work(&ExecContext::new(self.clone(), &Control::default(), Default::default()).with_min_donated(0));
        self.copied.back.load(Ordering::Relaxed) - before
    }
}

fn take(value: &HostValue, copied: &Arc<CopiedBytes>) -> HostValue {
    let mut moved = array(value).clone();
    let bytes = AlignedBytes::copy_of(moved.bytes().expect("bytes")).expect("memory");
    moved.storage_mut().expect("memory").set_device_copy(Arc::new(Bytes(bytes, copied.clone())));
    HostValue::Array(moved)
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn random_views_agree_on_the_device() {
    let far = Arc::new(RemoteTestDevice::default());
    far.run(|exec| seeds(1).for_each(|seed| views::Fuzz::moved(seed, |x| take(x, &Arc::default())).run(exec, 25)));
}

/// Returns an array on the device: a permutation of the numbers below `n`.
fn mixed(far: &RemoteTestDevice, n: usize) -> HostValue {
    let items: Vec<i32> = (0..n as i64).map(|i| (i * 7919 % n as i64) as i32).collect();
    far.upload(&HostValue::Array(Array::from_items(&items).expect("memory")))
}

#[test]
fn selections_masks_and_sorts_stay_on_the_device() {
    let far = Arc::new(RemoteTestDevice::default());
    let (mut x, mut sorted) = (mixed(&far, 20_370), HostValue::Unit);
    let ten = HostValue::Int(10);
    let work = |exec: &ExecContext| {
        let floats = ops::convert(exec, Scalar::F64, &x).expect("floats");
        let at =
            ops::math(exec, MathFn::Abs, &[ops::unary(exec, UnaryOp::Neg, &x).expect("numbers")]).expect("positions");
        let HostValue::Array(picks) = &at else { panic!("no array") };
        let back = ops::gather(exec, &x, &[GatherIndex::Array(picks.clone())]).expect("a selection");
        let less = ops::binary(exec, BinaryOp::Lt, &back, &ten).expect("a mask");
        let few = ops::gather(exec, &back, &[GatherIndex::Array(array(&less).clone())]).expect("a selection");
        assert_eq!(array(&few).shape(), [10]);
        let HostValue::Array(target) = &mut x else { panic!("no array") };
        ops::scatter(exec, target, &[GatherIndex::Array(array(&less).clone())], &HostValue::Int(-1))
            .expect("an assignment");
        ops::scatter(exec, target, &[GatherIndex::Array(picks.clone())], &back).expect("an assignment");
        let of_rows = ops::SortOrder { axis: Some(1), descending: false };
        let rows = ops::sort(exec, &ops::reshape(&x, &[97, 210]).expect("rows"), of_rows).expect("sorted");
        array(&rows).storage().expect("computed");
        sorted = ops::sort(exec, &floats, Default::default()).expect("sorted");
        array(&sorted).storage().expect("computed");
    };
    // Only numbers of selected elements and results of bounds checks are copied.
    let copied = far.run(work);
    assert!(copied <= 16, "{copied} bytes came back");
    let expected: Vec<f64> = (0..20_370).map(f64::from).collect();
    assert_eq!(array(&sorted).items::<f64>().expect("numbers"), expected);
}

/// Selections by masks have the same results on the device and on the host, for stored masks and for deferred
/// comparisons. Only one number per mask is copied from the device.
#[test]
fn mask_selections_run_on_the_device() {
    let exec = &ExecContext::default();
    let far = Arc::new(RemoteTestDevice::default());
    let of = |scalar: Scalar, n: usize| {
        let items: Vec<i32> = (0..n).map(|k| (k * 7919 % 101) as i32 - 50 * i32::from(scalar.is_signed())).collect();
        ops::convert(exec, scalar, &HostValue::Array(Array::from_items(&items).expect("memory"))).expect("numbers")
    };
    let compare = |exec: &ExecContext, x: &HostValue, op: BinaryOp, limit: f64, turned: bool| {
        let scalar = array(x).scalar().expect("numbers");
        let limit = HostValue::Scalar(clk_scalar::ScalarValue::of(limit).to_type(scalar));
        let mask = if turned { ops::binary(exec, op, &limit, x) } else { ops::binary(exec, op, x, &limit) };
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
                let mask = compare(exec, &here, op, limit, turned);
                mask.storage().expect("computed");
                let select = |exec: &ExecContext, x: &HostValue, mask: &Array| {
                    ops::gather(exec, x, &[GatherIndex::Array(mask.clone())]).expect("a selection")
                };
                let expected = [select(exec, &here, &mask), select(exec, &other, &mask)];
                let (x, y, marks) = (far.upload(&here), far.upload(&other), far.upload(&HostValue::Array(mask)));
                let mut results = Vec::new();
                let copied = far.run(|exec| {
                    results.push(select(exec, &x, &compare(exec, &x, op, limit, turned)));
                    results.push(select(exec, &y, &compare(exec, &x, op, limit, turned)));
                    results.push(select(exec, &x, array(&marks)));
                    results.push(select(exec, &y, array(&marks)));
                    // A truncated array can be used like any other array.
                    let twice = ops::binary(exec, BinaryOp::Add, &results[1], &results[1]).expect("numbers");
                    array(&twice).storage().expect("computed");
                });
                // Small sums are computed on the host.
                let few = Some(array(&results[1])).filter(|few| few.count() <= 64).map_or(0, Array::byte_len);
                assert_eq!(copied, 32 + few, "four counts come back");
                for (results, expected) in results.iter().zip(expected.iter().cycle()) {
                    assert_eq!(array(results).shape(), array(expected).shape(), "{scalar}, {n}, {op:?}, {limit}");
                    assert_eq!(array(results).bytes(), array(expected).bytes(), "{scalar}, {n}, {op:?}, {limit}");
                }
            }
        }
    }
}

/// `argsort` has the same results on the device and on the host, for arrays with many equal elements.
#[test]
fn argsort_runs_on_the_device() {
    let exec = &ExecContext::default();
    let far = Arc::new(RemoteTestDevice::default());
    let special = [0.0, -0.0, 1.5, -2.0, f64::NAN, -f64::NAN, f64::INFINITY, -1e-300, 1e300, -f64::INFINITY];
    let floats: Vec<f64> = (0..9000).map(|k| special[k * 7919 % 10]).collect();
    let bits = |k: usize| (k as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (k % 3 * 30);
    let mixed: Vec<u64> = (0..9000).map(|k| bits(k % 4000)).collect();
    let of = |scalar: Scalar| {
        let items = if scalar.is_float() { Array::from_items(&floats) } else { Array::from_items(&mixed) };
        ops::convert(exec, scalar, &HostValue::Array(items.expect("memory"))).expect("numbers")
    };
    for scalar in NUMBERS {
        let host_value = of(scalar);
        let (expected, there) =
            (ops::argsort(exec, &host_value, Default::default()).expect("positions"), far.upload(&host_value));
        let mut positions = HostValue::Unit;
        let work = |exec: &ExecContext| {
            positions = ops::argsort(exec, &there, Default::default()).expect("positions");
            array(&positions).storage().expect("computed");
        };
        assert_eq!(far.run(work), 0, "nothing comes back");
        assert_eq!(array(&positions).items::<i32>(), array(&expected).items::<i32>(), "{scalar}");
    }
}

/// Scatter-add is bit-identical on the device and on the host. Assignments to slices of zeros are executed on the
/// device.
#[test]
fn scatter_add_runs_on_the_device() {
    let exec = &ExecContext::default();
    let far = Arc::new(RemoteTestDevice::default());
    let mut random = Random(7);
    let mut positions = |n: usize, below: usize| {
        let items: Vec<i32> = (0..n).map(|_| random.random_below(below) as i32).collect();
        Array::from_items(&items).expect("memory")
    };
    let rows = |scalar: Scalar, shape: &[i64]| {
        let count = shape.iter().product::<i64>() as usize;
        let items: Vec<f64> = (0..count).map(|k| (k * 7919 % 1009) as f64 / 7.0 - 50.0).collect();
        let items = HostValue::Array(Array::from_items(&items).expect("memory"));
        ops::reshape(&ops::convert(exec, scalar, &items).expect("numbers"), shape).expect("rows")
    };
    let (one, pair) = (positions(900, 40), [positions(700, 9), positions(700, 31)]);
    let mask: Vec<u8> = (0..900).map(|k| u8::from(k % 7 < 3)).collect();
    let mask =
        ops::convert(exec, Scalar::Bool, &HostValue::Array(Array::from_items(&mask).expect("memory"))).expect("marks");
    let part = GatherIndex::Spec(SliceSpec::Range { start: Some(3), end: Some(7), inclusive: false, step: None });
    for scalar in [Scalar::F16, Scalar::Bf16, Scalar::F32, Scalar::F64] {
        let cases = [
            (rows(scalar, &[900]), vec![GatherIndex::Array(one.clone())], vec![40]),
            (rows(scalar, &[900, 12]), vec![GatherIndex::Array(one.clone())], vec![50, 12]),
            (rows(scalar, &[700]), pair.iter().cloned().map(GatherIndex::Array).collect(), vec![9, 31]),
            (rows(scalar, &[387]), vec![GatherIndex::Array(array(&mask).clone())], vec![900]),
            (rows(scalar, &[4, 900]), vec![part.clone(), GatherIndex::Array(one.clone())], vec![11, 40]),
        ];
        for (case, (rows, picks, shape)) in cases.iter().enumerate() {
            let expected = ops::scatter_add(exec, rows, picks, shape).expect("sums");
            let (device_value, mut found) = (far.upload(rows), HostValue::Unit);
            let picks: Vec<GatherIndex> = match case {
                2 => picks.clone(),
                _ => picks.iter().map(|pick| moved(&far, pick)).collect(),
            };
            let copied = far.run(|exec| {
                found = ops::scatter_add(exec, &device_value, &picks, shape).expect("sums");
                array(&found).storage().expect("computed");
            });
            assert!(copied <= 16 || case == 4, "{copied} bytes of case {case} came back");
            assert_eq!(array(&found).bytes(), array(&expected).bytes(), "{scalar}, case {case}");
        }
    }
    let device_value = far.upload(&rows(Scalar::F32, &[40, 40]));
    let mut zeros = Array::unplaced(ElementType::Scalar(Scalar::F32), &[99, 64]).expect("memory");
    let inner = SliceSpec::Range { start: Some(5), end: Some(45), inclusive: false, step: None };
    let copied = far.run(|exec| {
        let twice = ops::binary(exec, BinaryOp::Add, &device_value, &device_value).expect("numbers");
        ops::assign(exec, &mut zeros, &[inner, inner], &twice).expect("an assignment");
        zeros.storage().expect("computed");
    });
    assert_eq!(copied, 0, "nothing comes back");
    let part = ops::index(exec, &HostValue::Array(zeros), &[inner, inner]).expect("a part");
    let twice = ops::binary(exec, BinaryOp::Add, &device_value, &device_value).expect("numbers");
    assert_eq!(array(&part).bytes(), array(&twice).bytes());
}

fn moved(far: &RemoteTestDevice, pick: &GatherIndex) -> GatherIndex {
    match pick {
        GatherIndex::Array(at) => GatherIndex::Array(array(&far.upload(&HostValue::Array(at.clone()))).clone()),
        other => other.clone(),
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of kernels")]
fn random_programs_agree_on_the_device() {
    let far = Arc::new(RemoteTestDevice::default());
    far.run(|exec| {
        seeds(1).filter(|seed| seed % 4 == 3).for_each(|seed| program_of(exec, seed, false, |x| far.upload(x)))
    });
}

#[test]
fn single_elements_are_written_on_the_device() {
    let exec = &ExecContext::default();
    use crate::array::RecordLayout;
    let far = Arc::new(RemoteTestDevice::default());
    let at = |indices: &[i64]| indices.iter().map(|&i| SliceSpec::At(i)).collect::<Vec<_>>();
    let HostValue::Array(mut x) = far.upload(&ops::reshape(&numbers(60_000), &[200, 300]).expect("rows")) else {
        panic!()
    };
    let before = x.clone();
    let work = |exec: &ExecContext| {
        ops::assign(exec, &mut x, &at(&[3, 7]), &HostValue::Float(0.5)).expect("written");
        ops::assign(exec, &mut x, &at(&[199, 299]), &HostValue::Int(-1)).expect("written");
        assert_eq!(ops::assign(exec, &mut x, &at(&[200, 0]), &HostValue::Int(1)).expect_err("outside").code, "E0502");
        assert_eq!(
            ops::assign(exec, &mut x, &at(&[0, 0]), &HostValue::bool(true)).expect_err("no number").code,
            "E0504"
        );
    };
    assert_eq!(far.run(work), 0, "nothing comes back");
    let mut expected = numbers(60_000);
    let HostValue::Array(numbers) = &mut expected else { panic!() };
    assert_eq!(before.items::<f32>().expect("numbers"), numbers.items::<f32>().expect("numbers"), "a value of its own");
    let items = numbers.items_mut::<f32>().expect("numbers");
    (items[3 * 300 + 7], items[59_999]) = (0.5, -1.0);
    assert_eq!(x.items::<f32>().expect("numbers"), items);
    // Test structs, whose fields are written separately, and vectors.
    let fields = [("mass".into(), ElementType::Scalar(Scalar::F32)), ("kind".into(), ElementType::Scalar(Scalar::I32))];
    let element = ElementType::Record(Arc::new(RecordLayout::new("Particle", fields)));
    let bytes: Vec<u8> = (0..500 * element.size()).map(|i| (i % 50) as u8).collect();
    let particles = HostValue::Array(Array::from_bytes(element, &[500], &bytes).expect("structs"));
    let vectors =
        HostValue::Array(Array::from_bytes(ElementType::Vector(Scalar::F32, 2), &[500], &[0; 4000]).expect("vectors"));
    let write = |exec: &ExecContext, particles: &mut Array, vectors: &mut Array| {
        let first = ops::index(exec, &HostValue::Array(particles.clone()), &at(&[1])).expect("a struct");
        ops::assign(exec, particles, &at(&[499]), &first).expect("written");
        let both = ops::compose(Scalar::F32, 2, &[HostValue::Float(1.0), HostValue::Float(2.0)]).expect("a vector");
        ops::assign(exec, vectors, &at(&[2]), &both).expect("written");
    };
    let (mut own, mut there) = ((particles.clone(), vectors.clone()), (far.upload(&particles), far.upload(&vectors)));
    let (HostValue::Array(a), HostValue::Array(b)) = (&mut own.0, &mut own.1) else { panic!() };
    let (HostValue::Array(c), HostValue::Array(d)) = (&mut there.0, &mut there.1) else { panic!() };
    write(exec, a, b);
    assert!(far.run(|exec| write(exec, c, d)) <= 8, "one struct is read");
    assert_eq!((&*c, &*d), (&*a, &*b));
}

/// A loop that accesses all elements of an array moves the array to the host.
#[test]
fn many_single_elements_are_written_on_the_host() {
    let far = Arc::new(RemoteTestDevice::default());
    let HostValue::Array(mut x) = far.upload(&numbers(1 << 20)) else { panic!() };
    let all = |exec: &ExecContext| {
        (0..1000).for_each(|i| ops::assign(exec, &mut x, &[SliceSpec::At(i)], &HostValue::Float(0.5)).expect("written"))
    };
    assert_eq!(far.run(all), 4 << 20, "once");
    assert_eq!(x.items::<f32>().expect("numbers")[998..1002], [0.5, 0.5, 1000.0, 1001.0]);
}

/// Returns the results of slices, columns, concatenations and assignments of arrays of structs, and of assignments to a
/// deferred expression.
fn of_structs(exec: &ExecContext, particles: &HostValue, numbers: &HostValue) -> Vec<Array> {
    let span = |start, end, step| SliceSpec::Range { start: Some(start), end: Some(end), inclusive: false, step };
    let part = ops::index(exec, particles, &[span(100, 1900, Some(3))]).expect("a slice");
    let turned = ops::flip(exec, &part, 0).expect("a flip");
    let joined = ops::concat(exec, &[turned.clone(), particles.clone()], 0).expect("one array");
    let [masses, places, kinds] = [0, 1, 2].map(|field| ops::field(exec, &joined, field).expect("a column"));
    let doubled = add(exec, &masses, &masses);
    let HostValue::Array(mut written) = particles.clone() else { panic!("no array") };
    let heavy =
        ops::binary(exec, BinaryOp::Mul, &ops::field(exec, particles, 0).expect("a column"), &HostValue::Float(3.0));
    let column = ops::PartProjection::of_field(&written, 0).expect("a column");
    column.write_back(exec, &mut written, array(&heavy.expect("numbers"))).expect("written");
    ops::assign(exec, &mut written, &[span(50, 650, None)], &turned).expect("written");
    let HostValue::Array(mut sum) = add(exec, numbers, numbers) else { panic!("no array") };
    ops::assign(exec, &mut sum, &[span(3, 1500, Some(2))], &HostValue::Float(7.0)).expect("written");
    let all = [&part, &turned, &joined, &masses, &places, &kinds, &doubled].map(|value| array(value).clone());
    let all: Vec<Array> = all.into_iter().chain([written, sum]).collect();
    all.iter().for_each(|array| assert!(array.storage().is_ok()));
    all
}

#[test]
fn structs_stay_on_the_device() {
    let exec = &ExecContext::default();
    use crate::array::RecordLayout;
    let fields = [
        ("mass".into(), ElementType::Scalar(Scalar::F32)),
        ("at".into(), ElementType::Vector(Scalar::F64, 3)),
        ("kind".into(), ElementType::Scalar(Scalar::U8)),
    ];
    let element = ElementType::Record(Arc::new(RecordLayout::new("Particle", fields)));
    let mut random = Random(7);
    let bytes: Vec<u8> = (0..2000 * element.size()).map(|_| (random.next() % 60) as u8).collect();
    let particles = HostValue::Array(Array::from_bytes(element, &[2000], &bytes).expect("structs"));
    let expected = of_structs(exec, &particles, &numbers(2000));
    let (far, mut found) = (Arc::new(RemoteTestDevice::default()), Vec::new());
    let (there, sums) = (far.upload(&particles), far.upload(&numbers(2000)));
    assert_eq!(far.run(|exec| found = of_structs(exec, &there, &sums)), 0, "nothing comes back");
    for (k, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "result {k}");
    }
}

/// A small operand of a kernel is computed on the device, so that the launch does not wait for earlier work.
#[test]
fn scalars_read_by_kernels_stay_on_the_device() {
    let far = Arc::new(RemoteTestDevice::default());
    let (matrix, step) = (far.upload(&numbers(7000)), far.upload(&numbers(10)));
    let matrix = ops::reshape(&matrix, &[700, 10]).expect("rows");
    let half = HostValue::Float(0.5);
    let few = |exec: &ExecContext| {
        let scaled = ops::binary(exec, BinaryOp::Mul, &step, &half).expect("numbers");
        ops::binary(exec, BinaryOp::Sub, &numbers(10), &scaled).expect("numbers")
    };
    let (mut sum, mut alone) = (HostValue::Unit, HostValue::Unit);
    let copied = far.run(|exec| {
        sum = ops::binary(exec, BinaryOp::Add, &matrix, &few(exec)).expect("numbers");
        array(&sum).storage().expect("computed");
    });
    assert_eq!(copied, 0, "nothing comes back");
    assert_eq!(array(&sum).items::<f32>().expect("numbers")[6999], 6999.0 + 4.5);
    let copied = far.run(|exec| {
        alone = few(exec);
        array(&alone).storage().expect("computed");
    });
    assert_eq!(copied, 40, "for others they are fetched");
    assert_eq!(array(&alone).items::<f32>().expect("numbers")[9], 4.5);
}
