//! A back end that writes WGSL for elementwise kernels and validates it. There is no WebGPU here: the stepper runs the
//! kernels.

mod text;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use clk_base::aligned::{AlignedBytes, BufferGuard};
use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_runtime::exchange::CollectiveDevice;
use clk_runtime::storage::{DeviceBytes, Storage};
use clk_runtime::{
    Arg, BoxedTimestamp, Capabilities, Control, Device, DeviceError, DeviceKind, DeviceMemory, Executable, Fault,
    FaultKind, Interop, LaunchConfig, PendingUpload, PrintedText, Statistics,
};
use clk_step::{NoObserver, StepLaunch};

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
pub struct WgslGpu {
    counters: Arc<Counters>,
}

impl Device for WgslGpu {
    fn name(&self) -> String {
        "gpu:0".into()
    }

    fn model(&self) -> String {
        "gpu:0".into()
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
        let refusal = text::wgsl(&kernel.module).and_then(|text| {
            if std::env::var_os("CLK_SHOW_WGSL").is_some() {
                eprintln!("{text}");
            }
            let module = naga::front::wgsl::parse_str(&text).map_err(|error| error.emit_to_string(&text))?;
            let mut validator =
                naga::valid::Validator::new(naga::valid::ValidationFlags::all(), naga::valid::Capabilities::empty());
            validator.validate(&module).map(drop).map_err(|error| error.emit_to_string(&text))
        });
        Arc::new(WgslKernel { refusal: refusal.err(), kernel, counters: self.counters.clone() })
    }

    fn collectives(&self) -> Result<Box<dyn CollectiveDevice>, String> {
        Err("gpu:0 exchanges nothing with other processes".into())
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

impl DeviceMemory for WgslGpu {
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
struct WgslBytes {
    bytes: AlignedBytes,
    counters: Arc<Counters>,
}

impl DeviceBytes for WgslBytes {
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
fn resident(storage: &Storage, counters: &Arc<Counters>) -> Result<Arc<WgslBytes>, DeviceError> {
    let remote = storage.remote().clone();
    // The elements of a new array are zero and in no memory yet.
    let is_new = remote.is_none() && storage.here().is_none();
    if let Some(own) = remote.and_then(|remote| remote.into_any().downcast::<WgslBytes>().ok()) {
        return Ok(own);
    }
    // Bytes on another device are copied by way of the host.
    let bytes = copy(storage.bytes()?)?;
    if !is_new {
        add(&counters.uploads, 1);
        add(&counters.uploaded, bytes.len() as u64);
    }
    let own = Arc::new(WgslBytes { bytes, counters: counters.clone() });
    *storage.remote() = Some(own.clone());
    Ok(own)
}

struct WgslKernel {
    kernel: Arc<PreparedKernel>,
    refusal: Option<String>,
    counters: Arc<Counters>,
}

/// Maximum number of statements that a thread may execute if the program sets no limit.
const MAX_STEPS: u64 = 1_000_000;

impl Executable for WgslKernel {
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
        if let Some(why) = &self.refusal {
            return Err(failed(DeviceError::Unavailable { device: "gpu:0".into(), why: why.clone() }));
        }
        let mut reads: Vec<Option<Arc<WgslBytes>>> = Vec::new();
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
                storage.set_device_copy(Arc::new(WgslBytes { bytes, counters: self.counters.clone() }));
            }
        }
        state.faults.into_iter().next().map_or(Ok(output), |fault| Err(Box::new(fault)))
    }

    fn depends_on_promises(&self) -> bool {
        false
    }

    fn prepare_block_shape(&self, _: [u32; 3]) {}
}

