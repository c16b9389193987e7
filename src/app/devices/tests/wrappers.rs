//! Lists the methods that each wrapper of a device changes. A recording device shows whether a call of the wrapper
//! reaches the wrapped device and returns its result.

use std::sync::{Arc, Mutex, OnceLock};

use super::super::{AutoDevice, DeviceOptions, DeviceRegistry};
use crate::debug::device::{DebugContinuation, Debugger, DebuggerFrontEnd, DebuggerState};
use crate::debug::session::{Debug, DebugSettings};
use clk_base::aligned::BufferGuard;
use clk_base::source::SourceMap;
use clk_compile::{NoFiles, Session};
use clk_differential::Both;
use clk_ir::{Checks, PreparedKernel};
use clk_lower::Instance;
use clk_runtime::exchange::{CollectiveDevice, CollectiveError};
use clk_runtime::import::{ForeignStream, ImportedBuffer};
use clk_runtime::ordered::DeterministicDevice;
use clk_runtime::storage::{DeviceBytes, Storage};
use clk_runtime::{
    BoxedTimestamp, Capabilities, Device, DeviceError, DeviceKind, DeviceMemory, Executable, Interop, Isa,
    PendingUpload, Statistics, ThreadStateGuard,
};
use clk_sim::Simulator;

macro_rules! methods {
    ($($name:ident,)*) => {
        /// The methods of [`Device`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Method { $($name,)* }

        const METHODS: &[Method] = &[$(Method::$name,)*];
    };
}

methods! {
    Name, Model, Capabilities, ShowsVariables, Memory, Interop, Load, Collectives, Finish, ReportPendingFaults, BeginBatch,
    EndBatch, RecordTimestamp, Spilled, Statistics,
}

/// Calls a method; returns a description of its result that distinguishes the recording device from others.
fn call(device: &dyn Device, method: Method, kernel: &Arc<PreparedKernel>) -> String {
    match method {
        Method::Name => device.name(),
        Method::Model => device.model(),
        Method::Capabilities => format!("{:?}", device.capabilities()),
        Method::ShowsVariables => device.shows_variables().to_string(),
        Method::Memory => format!("{:?}", device.memory().map(DeviceMemory::size)),
        Method::Interop => format!("{:?}", device.interop().is_some()),
        Method::Load => {
            device.load(kernel.clone(), None);
            String::new()
        }
        Method::Collectives => device.collectives().map_or_else(|error| error.to_string(), |_| String::new()),
        Method::Finish => format!("{:?}", device.finish()),
        Method::ReportPendingFaults => format!("{:?}", device.report_pending_faults()),
        Method::BeginBatch => {
            device.begin_batch();
            String::new()
        }
        Method::EndBatch => format!("{:?}", device.end_batch()),
        Method::RecordTimestamp => format!("{:?}", device.record_timestamp().is_some()),
        Method::Spilled => device.spilled().to_string(),
        Method::Statistics => format!("{:?}", device.statistics()),
    }
}

/// A device that records the calls of its methods. Its results differ from those of all other devices.
#[derive(Default)]
struct MethodRecorder {
    calls: Mutex<Vec<Method>>,
    simulator: Simulator,
}

impl MethodRecorder {
    fn record(&self, method: Method) {
        self.calls.lock().expect("the list").push(method);
    }

    fn take_calls(&self) -> Vec<Method> {
        std::mem::take(&mut self.calls.lock().expect("the list"))
    }
}

fn unavailable(why: &str) -> Result<(), DeviceError> {
    Err(DeviceError::Unavailable { device: "recorder".into(), why: why.into() })
}

impl Device for MethodRecorder {
    fn name(&self) -> String {
        self.record(Method::Name);
        "recorder".into()
    }

    fn model(&self) -> String {
        self.record(Method::Model);
        "model of the recorder".into()
    }

    fn capabilities(&self) -> Capabilities {
        self.record(Method::Capabilities);
        Capabilities {
            kind: DeviceKind::Gpu,
            checks: true,
            host_instruction_set: Some(Isa::Base),
            shared_memory_per_block: Some(7),
            asynchronous: true,
            gpu_kernels: true,
            slow_compilation: true,
            fixed_mma_order: true,
        }
    }

    fn shows_variables(&self) -> bool {
        self.record(Method::ShowsVariables);
        false
    }

    fn memory(&self) -> Option<&dyn DeviceMemory> {
        self.record(Method::Memory);
        Some(self)
    }

    fn interop(&self) -> Option<&dyn Interop> {
        self.record(Method::Interop);
        Some(self)
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        self.record(Method::Load);
        self.simulator.load(kernel, sources)
    }

    fn collectives(&self) -> Result<Box<dyn CollectiveDevice>, CollectiveError> {
        self.record(Method::Collectives);
        Err(CollectiveError::Unsupported("the recorder".into()))
    }

    fn finish(&self) -> Result<(), DeviceError> {
        self.record(Method::Finish);
        unavailable("finish")
    }

    fn report_pending_faults(&self) -> Result<(), DeviceError> {
        self.record(Method::ReportPendingFaults);
        unavailable("report_pending_faults")
    }

    fn begin_batch(&self) {
        self.record(Method::BeginBatch);
    }

    fn end_batch(&self) -> Result<(), DeviceError> {
        self.record(Method::EndBatch);
        unavailable("end_batch")
    }

    fn record_timestamp(&self) -> Option<BoxedTimestamp> {
        self.record(Method::RecordTimestamp);
        None
    }

    fn spilled(&self) -> u64 {
        self.record(Method::Spilled);
        11
    }

    fn statistics(&self) -> Statistics {
        self.record(Method::Statistics);
        Statistics { launches: 13, ..Statistics::default() }
    }
}

impl DeviceMemory for MethodRecorder {
    fn size(&self) -> Option<u64> {
        Some(17)
    }

    fn reserve_upload(&self, _: usize, _: bool) -> Result<Option<Box<dyn PendingUpload>>, DeviceError> {
        Ok(None)
    }

    fn upload(&self, _: &Storage) -> Result<(), DeviceError> {
        Ok(())
    }

    unsafe fn pin(&self, _: &[u8]) -> Option<BufferGuard> {
        None
    }
}

impl Interop for MethodRecorder {
    fn preserve_thread_state(&self) -> ThreadStateGuard {
        Box::new(())
    }

    unsafe fn import_buffer(&self, _: &ImportedBuffer, _: bool) -> Result<Arc<dyn DeviceBytes>, DeviceError> {
        unreachable!("nothing is imported")
    }

    unsafe fn write_back(&self, _: &ImportedBuffer, _: &Storage) -> Result<(), DeviceError> {
        Ok(())
    }

    fn make_owned(&self, _: &mut Storage) -> Result<Arc<dyn DeviceBytes>, DeviceError> {
        unreachable!("nothing is exported")
    }

    fn order_streams_after(&self, _: &[ForeignStream]) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Returns the methods whose call does not reach the wrapped device alone, or returns another result.
fn changed(wrapper: &dyn Device, wrapped: &MethodRecorder, kernel: &Arc<PreparedKernel>) -> Vec<Method> {
    wrapped.take_calls();
    let is_changed = |method: &Method| {
        let result = call(wrapper, *method, kernel);
        let is_forwarded = wrapped.take_calls() == [*method];
        let direct = call(wrapped, *method, kernel);
        assert_eq!(wrapped.take_calls(), [*method]);
        !is_forwarded || result != direct
    };
    METHODS.iter().copied().filter(is_changed).collect()
}

fn kernel(text: &str, is_unoptimized: bool) -> (Session, Arc<PreparedKernel>) {
    let mut session = Session::default();
    let outcome = session.add("wrapped.clk", text, &NoFiles);
    assert!(!outcome.failed(), "{:?}", outcome.diagnostics);
    let (id, _) = session.program.kernels_of(session.main).next().expect("a kernel");
    let instance = Instance::new(id, vec![]);
    let prepared = match is_unoptimized {
        true => clk_compile::compile_unoptimized(&session.program, &instance),
        false => clk_compile::compile_kernel(&session.program, &instance, Checks::default()),
    };
    (session, Arc::new(prepared.expect("a kernel")))
}

const PLAIN: &str = "kernel plain(out y: [f32; N]) threads(i: N) { y[i] = 1.0 }";
const UNORDERED: &str = "kernel total(x: [f32; N], inout y: [f32; 1]) threads(i: N) { atomic_add(y[0], x[i]) }";

#[test]
fn deterministic_device_changes_order_dependent_kernels() {
    let recorder = Arc::new(MethodRecorder::default());
    let wrapper = DeterministicDevice::new(recorder.clone(), Arc::new(Simulator::default()));
    assert_eq!(changed(&wrapper, &recorder, &kernel(PLAIN, false).1), [Method::Collectives]);
    assert_eq!(changed(&wrapper, &recorder, &kernel(UNORDERED, false).1), [Method::Load, Method::Collectives]);
}

#[test]
fn auto_device_changes_nothing_once_it_is_chosen() {
    let recorder = Arc::new(MethodRecorder::default());
    let found: Arc<dyn Device> = recorder.clone();
    let machine = DeviceRegistry::new(DeviceOptions::default());
    let wrapper = AutoDevice { machine: machine.clone(), aloud: false, found: OnceLock::from(found) };
    assert_eq!(changed(&wrapper, &recorder, &kernel(PLAIN, false).1), []);
    let unopened = AutoDevice { machine, aloud: false, found: OnceLock::new() };
    let without_device =
        [Method::ShowsVariables, Method::Finish, Method::ReportPendingFaults, Method::Spilled, Method::Statistics];
    for method in without_device {
        call(&unopened, method, &kernel(PLAIN, false).1);
    }
    assert!(unopened.found.get().is_none(), "these methods do not choose a device");
}

/// The interpreter asks before it compiles a kernel, which may have an error.
#[test]
fn asking_for_shown_variables_opens_no_device() {
    let machine = DeviceRegistry::new(DeviceOptions::default());
    let device = AutoDevice { machine, aloud: false, found: OnceLock::new() };
    assert!(!device.shows_variables() && device.found.get().is_none());
}

#[test]
fn differential_device_uses_host_memory_and_is_synchronous() {
    let recorder = Arc::new(MethodRecorder::default());
    let wrapper = Both::new(Arc::new(Simulator::default()), recorder.clone(), true);
    let expected = [
        Method::Name,
        Method::Capabilities,
        Method::ShowsVariables,
        Method::Memory,
        Method::Interop,
        Method::Load,
        Method::Collectives,
        Method::ReportPendingFaults,
        Method::BeginBatch,
        Method::EndBatch,
        Method::RecordTimestamp,
        Method::Spilled,
    ];
    assert_eq!(changed(&wrapper, &recorder, &kernel(PLAIN, false).1), expected);
}

/// A user interface of the debugger that is never used, because no kernel is launched.
struct UnusedFrontEnd;

impl DebuggerFrontEnd for UnusedFrontEnd {
    fn between(&mut self, _: &mut DebugSettings) -> bool {
        false
    }

    fn launch(&mut self, _: &mut Debug<'_, '_>) -> DebugContinuation {
        DebugContinuation::GoOn
    }

    fn note(&mut self, _: &str) {}

    fn restarts(&self) -> bool {
        false
    }
}

#[test]
fn debugger_changes_unoptimized_kernels() {
    let recorder = Arc::new(MethodRecorder::default());
    let (session, unoptimized) = kernel(PLAIN, true);
    let (settings, front) = (DebugSettings::new(&session), Box::new(UnusedFrontEnd));
    let state = DebuggerState { settings, front, launches: 0, has_quit: false };
    let wrapper = Debugger::new(Arc::new(Mutex::new(state)), recorder.clone());
    let always = [Method::Capabilities, Method::ShowsVariables, Method::Collectives, Method::RecordTimestamp];
    assert_eq!(changed(&wrapper, &recorder, &kernel(PLAIN, false).1), always);
    let expected =
        [Method::Capabilities, Method::ShowsVariables, Method::Load, Method::Collectives, Method::RecordTimestamp];
    assert_eq!(changed(&wrapper, &recorder, &unoptimized), expected);
}
