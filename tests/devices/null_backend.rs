//! A complete back end that uses only the public interface of devices: the example of `docs/internals/backends.md`. It
//! has memory of its own, runs kernels in the stepper, and refuses kernels with `f64`.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clk_base::aligned::{AlignedBytes, BufferGuard};
use clk_base::diag::Diagnostic;
use clk_base::source::SourceMap;
use clk_compile::{NoFiles, Session};
use clk_host::interp::{Interpreter, ScriptOptions};
use clk_ir::PreparedKernel;
use clk_ir::def::{Module, Ty};
use clk_runtime::exchange::{CollectiveDevice, CollectiveError};
use clk_runtime::storage::{DeviceBytes, Storage};
use clk_runtime::{
    Arg, BoxedTimestamp, Capabilities, Control, Device, DeviceError, DeviceKind, DeviceMemory, Executable, Fault,
    FaultKind, Interop, LaunchConfig, PendingUpload, PrintedText, Statistics,
};
use clk_scalar::Scalar;
use clk_sim::Simulator;
use clk_step::{NoObserver, StepLaunch};
use clk_testing::world::CapturedOutput;

#[derive(Default)]
struct Counters {
    launches: AtomicU64,
    uploads: AtomicU64,
    uploaded: AtomicU64,
    downloads: AtomicU64,
    downloaded: AtomicU64,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

/// The device. Its memory is a part of the host's, which only kernels and copies access.
#[derive(Default)]
struct NullDevice {
    counters: Arc<Counters>,
}

impl Device for NullDevice {
    fn name(&self) -> String {
        "null".into()
    }

    fn model(&self) -> String {
        "null".into()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: DeviceKind::Gpu,
            checks: false,
            host_instruction_set: None,
            shared_memory_per_block: None,
            asynchronous: false,
            gpu_kernels: false,
            slow_compilation: false,
            fixed_mma_order: false,
        }
    }

    fn shows_variables(&self) -> bool {
        false
    }

    fn memory(&self) -> Option<&dyn DeviceMemory> {
        Some(self)
    }

    fn interop(&self) -> Option<&dyn Interop> {
        None
    }

    fn load(&self, kernel: Arc<PreparedKernel>, _: Option<&SourceMap>) -> Arc<dyn Executable> {
        Arc::new(NullKernel { is_refused: has_f64(&kernel.module), kernel, counters: self.counters.clone() })
    }

    fn collectives(&self) -> Result<Box<dyn CollectiveDevice>, CollectiveError> {
        Err(CollectiveError::Unsupported("null".into()))
    }

    fn finish(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn report_pending_faults(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn begin_batch(&self) {}

    fn end_batch(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn record_timestamp(&self) -> Option<BoxedTimestamp> {
        None
    }

    fn spilled(&self) -> u64 {
        0
    }

    fn statistics(&self) -> Statistics {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            launches: read(&self.counters.launches),
            uploads: read(&self.counters.uploads),
            uploaded: read(&self.counters.uploaded),
            downloads: read(&self.counters.downloads),
            downloaded: read(&self.counters.downloaded),
            ..Statistics::default()
        }
    }
}

impl DeviceMemory for NullDevice {
    fn size(&self) -> Option<u64> {
        None
    }

    fn reserve_upload(&self, _: usize, _: bool) -> Result<Option<Box<dyn PendingUpload>>, DeviceError> {
        Ok(None)
    }

    fn upload(&self, storage: &Storage) -> Result<(), DeviceError> {
        resident(storage, &self.counters).map(drop)
    }

    unsafe fn pin(&self, _: &[u8]) -> Option<BufferGuard> {
        None
    }
}

/// An array in the device's memory. It never changes: a launch that writes an array creates a new one.
struct NullBytes {
    bytes: AlignedBytes,
    counters: Arc<Counters>,
}

impl DeviceBytes for NullBytes {
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        add(&self.counters.downloads, 1);
        add(&self.counters.downloaded, into.len() as u64);
        into.copy_from_slice(&self.bytes[offset as usize..][..into.len()]);
        Ok(())
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

fn copy(bytes: &[u8]) -> Result<AlignedBytes, DeviceError> {
    AlignedBytes::copy_of(bytes).ok_or(DeviceError::NoHostMemory { wanted: bytes.len() as u64 })
}

/// Returns the array's copy in the device's memory. Uploads it if there is none.
fn resident(storage: &Storage, counters: &Arc<Counters>) -> Result<Arc<NullBytes>, DeviceError> {
    let remote = storage.remote().clone();
    // The elements of a new array are zero and in no memory yet.
    let is_new = remote.is_none() && storage.here().is_none();
    if let Some(own) = remote.and_then(|remote| remote.into_any().downcast::<NullBytes>().ok()) {
        return Ok(own);
    }
    // Bytes on another device are copied by way of the host.
    let bytes = copy(storage.bytes()?)?;
    if !is_new {
        add(&counters.uploads, 1);
        add(&counters.uploaded, bytes.len() as u64);
    }
    let own = Arc::new(NullBytes { bytes, counters: counters.clone() });
    *storage.remote() = Some(own.clone());
    Ok(own)
}

struct NullKernel {
    kernel: Arc<PreparedKernel>,
    is_refused: bool,
    counters: Arc<Counters>,
}

fn has_f64(module: &Module) -> bool {
    let is_f64 = |ty: Ty| ty.scalar() == Scalar::F64;
    module.functions.iter().any(|(_, function)| function.exprs.iter().any(|(_, expr)| is_f64(expr.ty)))
}

/// Maximum number of statements that a thread may execute if the program sets no limit.
const MAX_STEPS: u64 = 1_000_000;

impl Executable for NullKernel {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        add(&control.launches, 1);
        add(&self.counters.launches, 1);
        let module = &self.kernel.module;
        let fault = |kind: FaultKind| kind.into_launch_fault(module.kernel.span);
        let failed = |error: DeviceError| fault(FaultKind::Device(error));
        if self.is_refused {
            return Err(failed(DeviceError::Unavailable { device: "null".into(), why: "it has no f64".into() }));
        }
        let mut reads: Vec<Option<Arc<NullBytes>>> = Vec::new();
        let mut writes: Vec<Option<AlignedBytes>> = Vec::new();
        for arg in args.iter() {
            let (read, write) = match arg {
                Arg::Array { storage, .. } => (Some(resident(storage, &self.counters).map_err(failed)?), None),
                Arg::ArrayMut { storage, .. } => {
                    let before = resident(storage, &self.counters).map_err(failed)?;
                    (None, Some(copy(&before.bytes[..storage.len()]).map_err(failed)?))
                }
                Arg::Value(_) | Arg::Read { .. } | Arg::Write { .. } => (None, None),
            };
            reads.push(read);
            writes.push(write);
        }
        let mut own: Vec<Arg<'_>> = Vec::new();
        for (arg, (read, write)) in args.iter_mut().zip(reads.iter().zip(&mut writes)) {
            own.push(match (arg, read, write) {
                (Arg::Array { storage, shape }, Some(read), _) => {
                    Arg::Read { bytes: &read.bytes[..storage.len()], shape: shape.clone() }
                }
                (Arg::ArrayMut { shape, .. }, _, Some(write)) => Arg::Write { bytes: write, shape: shape.clone() },
                (Arg::Value(values), ..) => Arg::Value(values.clone()),
                (Arg::Read { bytes, shape }, ..) => Arg::Read { bytes, shape: shape.clone() },
                (Arg::Write { bytes, shape }, ..) => Arg::Write { bytes, shape: shape.clone() },
                (Arg::Array { .. } | Arg::ArrayMut { .. }, ..) => unreachable!("arrays have copies on the device"),
            });
        }
        let most = if control.max_steps == 0 { MAX_STEPS } else { control.max_steps };
        let launch = StepLaunch::new(module, config.extents, &own, most);
        let mut state = launch.start(&own).map_err(failed)?;
        let mut output = PrintedText::new();
        while state.step(&launch, &mut output, &mut NoObserver) {
            if control.stop.load(Ordering::Relaxed) {
                return Err(fault(FaultKind::Interrupted));
            }
        }
        state.write_back(&mut own).map_err(failed)?;
        drop(own);
        for (arg, write) in args.iter_mut().zip(writes) {
            if let (Arg::ArrayMut { storage, .. }, Some(bytes)) = (arg, write) {
                storage.set_device_copy(Arc::new(NullBytes { bytes, counters: self.counters.clone() }));
            }
        }
        state.faults.into_iter().next().map_or(Ok(output), |fault| Err(Box::new(fault)))
    }

    fn depends_on_promises(&self) -> bool {
        false
    }

    fn prepare_block_shape(&self, _: [u32; 3]) {}
}

/// Runs a script on a device. Returns what it printed, and the error that ended it.
fn run(device: Arc<dyn Device>, text: &str) -> (String, Option<Box<Diagnostic>>) {
    let mut session = Session::default();
    let outcome = session.add("null.clk", text, &NoFiles);
    assert!(!outcome.failed(), "{:#?}", outcome.diagnostics);
    let options = ScriptOptions { args: vec![], control: Control::default(), seed: None, device };
    let (mut interpreter, mut paper) = (Interpreter::new(options), CapturedOutput::default());
    let error = outcome.chunks.into_iter().find_map(|chunk| interpreter.run_chunk(&session, chunk, &mut paper).err());
    (paper.0, error)
}

const SCALE: &str = "kernel scale(x: [f32; N], s: f32, out y: [f32; N]) threads(i: N) { y[i] = s * x[i] }\n";

#[test]
fn arrays_stay_on_the_device_between_launches() {
    let device = Arc::new(NullDevice::default());
    let script = "let x: [f32; 4] = [1.0, 2.0, 3.0, 4.0]\nlet y = scale(x, 2.0)\nlet z = scale(y, 5.0)\nprint(z)";
    let (printed, error) = run(device.clone(), &format!("{SCALE}{script}"));
    assert_eq!((printed.trim(), error), ("[10. 20. 30. 40.]", None));
    let Statistics { launches, uploads, uploaded, downloaded, .. } = device.statistics();
    assert_eq!((launches, uploads, uploaded), (2, 1, 16), "only `x` is copied to the device");
    assert!(downloaded < 32, "only `z` is read: {downloaded} bytes");
}

#[test]
fn faults_are_located_like_on_the_simulator() {
    let text = "kernel shift(x: [i32; N], out y: [i32; N]) threads(i: N) { y[i] = x[i + 1] }\nprint(shift([1, 2, 3]))";
    let ends = [Arc::new(NullDevice::default()) as Arc<dyn Device>, Arc::new(Simulator::default())].map(|device| {
        let error = run(device, text).1.expect("an index out of bounds");
        (error.code, error.title.clone(), error.primary())
    });
    assert_eq!(ends[0].0, "E0601");
    assert_eq!(ends[0], ends[1]);
}

#[test]
fn unsupported_kernels_are_refused() {
    let half = "kernel half(x: [f64; N], out y: [f64; N]) threads(i: N) { y[i] = x[i] / 2.0 }\nprint(half([1.0f64]))";
    let swap = "kernel swap(x: [f64x2; N], out y: [f64x2; N]) threads(i: N) { y[i] = x[i].yx }
        print(swap([f64x2(1.0, 2.0)]))";
    for text in [half, swap] {
        let (printed, error) = run(Arc::new(NullDevice::default()), text);
        let error = error.expect("a refusal");
        assert!(printed.is_empty() && format!("{error:?}").contains("it has no f64"), "{error:#?}");
    }
}

/// Shared memory, barriers, atomics, warp operations, and array expressions that are large enough for the device.
#[test]
fn results_equal_those_of_the_simulator() {
    let programs = [
        "kernel total(x: [i32; N], inout sum: [i32; 1]) grid(ceil_div(N, 64)) block(64) {
            shared part: [i32; 64]
            let (t, i) = (thread_idx.x, global_idx.x)
            part[t] = if i < N { x[i] } else { 0 }
            barrier()
            if t == 0 {
                var all = 0
                for k in 0..64 { all += part[k] }
                atomic_add(sum[0], all)
            }
        }
        var sum = zeros(1, type = i32)
        total(random_int(0, 100, 1000, seed = 3), sum)
        print(sum)",
        "kernel rotate(x: [f32; N], out y: [f32; N]) grid(N / 32) block(32) {
            let i = global_idx.x
            y[i] = shuffle(x[i], (lane_idx + 1) % 32)
        }
        print(rotate(random_normal(64, seed = 1)))",
        "let x = random_int(0, 100, 20_000, seed = 5)
        let y = random_int(0, 100, 20_000, seed = 6)
        let z = select(x > y, x * y + 1, abs(x - y))
        print(sum(z), z[17], max(z[5..2000]))",
    ];
    for text in programs {
        let device = Arc::new(NullDevice::default());
        let own = run(device.clone(), text);
        assert_eq!(own.1, None);
        assert_eq!(own, run(Arc::new(Simulator::default()), text), "{text}");
        assert!(device.statistics().launches > 0, "{text}");
    }
}
