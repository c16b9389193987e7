//! The device of a debugged run: the stepper runs launches that can stop, and another device runs all others.
//!
//! A launch without breakpoints runs on the device that the user selected. If it faults there, its arrays are restored
//! and the stepper runs it again up to the fault.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::session::{Debug, DebugSettings, StopLocation};
use clk_base::source::{SourceMap, Span};
use clk_base::stop::Stopped;
use clk_ir::{Checks, PreparedKernel};
use clk_pass::InvalidIrError;
use clk_runtime::exchange::{CollectiveDevice, CollectiveError};
use clk_runtime::{
    Arg, BoxedTimestamp, Capabilities, Control, Device, DeviceWrapper, Executable, Fault, FaultKind, LaunchConfig,
    PrintedText,
};
use clk_step::StepLaunch;
use clk_step::timeline::{Interrupted, Timeline};

/// Maximum total size of the snapshots of one launch, in bytes.
const SNAPSHOT_BYTES: u64 = 512 << 20;

/// How to continue after the user has examined a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DebugContinuation {
    /// Run the launch to its end and continue the script.
    GoOn,
    /// End this run.
    Quit,
}

/// The user interface of the debugger: a terminal or an editor.
pub(crate) trait DebuggerFrontEnd: Send {
    /// Called before the script begins and after each run; returns whether to run the script (again).
    fn between(&mut self, settings: &mut DebugSettings) -> bool;

    /// Called when a launch has stopped; returns when the user wants to continue or quit.
    fn launch(&mut self, debug: &mut Debug<'_, '_>) -> DebugContinuation;

    /// Called before a launch that the stepper runs from its beginning; returns whether to run it. Otherwise it ends as
    /// if it was interrupted.
    fn permits_launch(&mut self) -> bool {
        true
    }

    /// Called when a launch on the other device begins or ends. Such a launch has no intermediate stops; only its stop
    /// flag can end it early.
    fn runs_freely(&mut self, _is_running: bool) {}

    /// Called after a launch was interrupted; returns whether the user requested a pause rather than the end of the
    /// run.
    fn is_paused(&mut self) -> bool {
        false
    }

    /// Shows a note about a launch.
    fn note(&mut self, text: &str);

    /// Returns whether the user ended the run in order to restart it.
    fn restarts(&self) -> bool;

    /// Returns whether the debugger opens only at a fault (`--debug-on-fault`). Quitting then ends a run that has
    /// failed.
    fn is_for_faults(&self) -> bool {
        false
    }
}

pub(crate) struct DebuggerState {
    pub settings: DebugSettings,
    pub front: Box<dyn DebuggerFrontEnd>,
    /// Number of launches in this run so far.
    pub launches: u64,
    pub has_quit: bool,
}

/// A device that runs a launch in the stepper if it can stop, and on `inner` otherwise.
pub(crate) struct Debugger {
    state: Arc<Mutex<DebuggerState>>,
    inner: Arc<dyn Device>,
}

impl Debugger {
    pub fn new(state: Arc<Mutex<DebuggerState>>, inner: Arc<dyn Device>) -> Debugger {
        Debugger { state, inner }
    }
}

/// The model is that of the inner device, so that a debugged run uses the configurations that `clk tune` recorded for
/// it. `clk tune` itself never runs under the debugger, so no time of the stepper is recorded.
impl DeviceWrapper for Debugger {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    /// Checks would be compiled only into the kernels that the other device runs.
    fn capabilities(&self) -> Capabilities {
        Capabilities { checks: false, ..self.inner.capabilities() }
    }

    fn shows_variables(&self) -> bool {
        true
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        if kernel.is_unoptimized {
            Arc::new(DebuggedKernel {
                kernel,
                state: self.state.clone(),
                inner: self.inner.clone(),
                loaded: OnceLock::new(),
            })
        } else {
            self.inner.load(kernel, sources)
        }
    }

    /// The processes of a debugged run may stop at different places. The operations then run on the host, because on
    /// the device they would occupy the devices of all processes while one of them is stopped.
    fn collectives(&self) -> Result<Box<dyn CollectiveDevice>, CollectiveError> {
        Err(CollectiveError::Debugged(self.inner.name()))
    }

    /// The clock of the other device does not measure the stepper.
    fn record_timestamp(&self) -> Option<BoxedTimestamp> {
        None
    }
}

/// Why a launch runs under the debugger.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DebugReason {
    /// A breakpoint can stop it, or the user wants to stop at its start.
    Stop,
    /// The user has paused it on the other device. The debugger restarts it and stops at its start, because only the
    /// stepper can stop at intermediate states.
    Pause,
    /// It has faulted on the other device.
    Fault,
}

/// How a launch under the debugger ended.
enum DebugOutcome {
    Over(PrintedText),
    /// The user continued a paused launch from its start and has set no breakpoints in it, so it can run on the other
    /// device.
    Untouched,
    /// The user ended this run.
    Quit,
}

/// A kernel compiled without optimization, so that every source variable still exists.
struct DebuggedKernel {
    kernel: Arc<PreparedKernel>,
    state: Arc<Mutex<DebuggerState>>,
    inner: Arc<dyn Device>,
    /// The optimized kernel on the other device; loaded when a launch first needs it.
    loaded: OnceLock<Result<Arc<dyn Executable>, InvalidIrError>>,
}

pub(crate) fn lock(state: &Mutex<DebuggerState>) -> MutexGuard<'_, DebuggerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Executable for DebuggedKernel {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        let mut state = lock(&self.state);
        state.launches += 1;
        let interrupted = || FaultKind::Interrupted.into_launch_fault(self.span());
        let mut reason = state.settings.applies_to(&self.kernel.module).then_some(DebugReason::Stop);
        // The other device has its own limits. A launch that the stepper repeats was permitted before.
        if reason.is_some() && !state.front.permits_launch() {
            return Err(interrupted());
        }
        loop {
            if let Some(known) = reason {
                match self.run_debugged(&mut state, config, args, control, known)? {
                    DebugOutcome::Over(output) => return Ok(output),
                    DebugOutcome::Untouched => {}
                    DebugOutcome::Quit => return Err(interrupted()),
                }
            }
            let before = saved(args);
            state.front.runs_freely(true);
            let ran = catch_unwind(AssertUnwindSafe(|| self.launch_on_inner(config, args, control)));
            state.front.runs_freely(false);
            let ran = ran.unwrap_or_else(|payload| match payload.is::<Stopped>() {
                true => Err(interrupted()),
                false => resume_unwind(payload),
            });
            let fault = match ran {
                Err(fault) if fault.kind == FaultKind::Interrupted && state.front.is_paused() => {
                    restore(args, before);
                    reason = Some(DebugReason::Pause);
                    continue;
                }
                Err(fault) if fault.kind != FaultKind::Interrupted => fault,
                other => return other,
            };
            restore(args, before);
            return match self.run_debugged(&mut state, config, args, control, DebugReason::Fault)? {
                DebugOutcome::Quit => Err(interrupted()),
                DebugOutcome::Over(_) | DebugOutcome::Untouched => {
                    let text =
                        "run step by step, the launch does not fault: its behavior depends on the order of its threads";
                    state.front.note(text);
                    Err(fault)
                }
            };
        }
    }

    /// The kernel of the other device is loaded at the first launch and cannot be asked before. It runs without
    /// promises about array elements.
    fn depends_on_promises(&self) -> bool {
        false
    }

    fn prepare_block_shape(&self, _: [u32; 3]) {}
}

impl DebuggedKernel {
    fn span(&self) -> Span {
        self.kernel.module.kernel.span
    }

    fn launch_on_inner(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        let load = || {
            let prepared = clk_pass::prepare_for((*self.kernel.module).clone(), Checks::default())?;
            Ok(self.inner.load(Arc::new(prepared), None))
        };
        match self.loaded.get_or_init(load) {
            // Waits for the launch, so that a fault is attributed to it.
            Ok(executable) => executable.launch(&config.synchronous(), args, control),
            // Lowering produces only modules that the passes accept, so this error is a bug in Clk.
            Err(broken) => Err(FaultKind::Assert { message: broken.to_string() }.into_launch_fault(self.span())),
        }
    }

    /// Runs a launch in the stepper and lets the user examine it, first at its start or, if it has faulted before, at
    /// its fault.
    fn run_debugged(
        &self,
        state: &mut DebuggerState,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
        reason: DebugReason,
    ) -> Result<DebugOutcome, Box<Fault>> {
        let failed = |error| FaultKind::Device(error).into_launch_fault(self.span());
        let launch = StepLaunch::new(&self.kernel.module, config.extents, args, 0);
        let timeline = Timeline::new(launch, args, SNAPSHOT_BYTES, control.stop.clone()).map_err(failed)?;
        let DebuggerState { settings, front, launches, has_quit } = state;
        let mut debug = Debug::new(timeline, settings, *launches, config.span);
        match reason {
            DebugReason::Stop => {}
            DebugReason::Pause => debug.arrival = StopLocation::Interrupted,
            DebugReason::Fault => debug.go_to(u64::MAX),
        }
        let is_vain = reason == DebugReason::Fault && matches!(debug.arrival, StopLocation::End);
        let continuation = if is_vain { DebugContinuation::GoOn } else { front.launch(&mut debug) };
        if continuation == DebugContinuation::Quit {
            *has_quit = true;
            return Ok(DebugOutcome::Quit);
        }
        if reason == DebugReason::Pause && debug.is_untouched() {
            return Ok(DebugOutcome::Untouched);
        }
        if let Err(Interrupted) = debug.run_to_end() {
            return Ok(DebugOutcome::Quit);
        }
        let state = debug.state();
        state.write_back(args).map_err(failed)?;
        match state.faults.first() {
            Some(fault) => Err(Box::new(fault.clone())),
            None => Ok(DebugOutcome::Over(debug.timeline.output().to_string())),
        }
    }
}

/// Copies the contents of the arrays that a launch may write, so that they can be restored.
fn saved(args: &[Arg<'_>]) -> Vec<Option<Vec<u8>>> {
    let one = |arg: &Arg<'_>| match arg {
        Arg::Write { bytes, .. } => Some(bytes.to_vec()),
        Arg::ArrayMut { storage, .. } => storage.bytes().ok().map(<[u8]>::to_vec),
        Arg::Value(_) | Arg::Read { .. } | Arg::Array { .. } => None,
    };
    args.iter().map(one).collect()
}

fn restore(args: &mut [Arg<'_>], before: Vec<Option<Vec<u8>>>) {
    for (arg, before) in args.iter_mut().zip(before) {
        match (arg, before) {
            (Arg::Write { bytes, .. }, Some(before)) => bytes.copy_from_slice(&before),
            (Arg::ArrayMut { storage, .. }, Some(before)) => {
                if let Ok(bytes) = storage.bytes_mut() {
                    bytes.copy_from_slice(&before);
                }
            }
            _ => {}
        }
    }
}
