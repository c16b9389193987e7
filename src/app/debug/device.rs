//! The device of a debugged run: the stepper for launches that are looked at, another device for all others.
//!
//! A launch that nothing asks to stop in runs on the device that the run was to have; should it fault there, its arrays are put back and
//! the stepper runs it again, up to the fault.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::session::{Arrival, Debug, Settings};
use crate::base::source::Span;
use crate::base::stop::Stopped;
use crate::device::step::Launch;
use crate::device::step::timeline::{Interrupted, Timeline};
use crate::device::{Arg, Control, Device, DeviceError, Executable, Extents, Fault, FaultKind, Output, Statistics};
use crate::ir::{Checks, Prepared};
use crate::pass;

/// Bytes for the copies of a launch's state.
const COPIES: u64 = 512 << 20;

/// What the user wants of a launch that has been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// To its end, and on with the script.
    GoOn,
    /// No more of this run.
    Quit,
}

/// Where the user sits.
pub(crate) trait Front: Send {
    /// The script has not begun, or is over; returns whether to run it.
    fn between(&mut self, settings: &mut Settings) -> bool;

    /// A launch is at a stop; returns when the user is through with it.
    fn launch(&mut self, debug: &mut Debug<'_, '_>) -> Wish;

    /// A launch begins or ends that runs on the other device, where only its stop flag reaches it.
    fn runs_freely(&mut self, _is_running: bool) {}

    /// Returns whether the user has asked to look at the launch that was interrupted.
    fn is_paused(&mut self) -> bool {
        false
    }

    /// Says something about a launch.
    fn note(&mut self, text: &str);

    /// Whether the run was ended to begin anew.
    fn is_again(&self) -> bool;

    /// Whether only a fault opens the debugger, so that who quits quits a run that has failed.
    fn is_for_faults(&self) -> bool {
        false
    }
}

pub(crate) struct Desk {
    pub settings: Settings,
    pub front: Box<dyn Front>,
    /// Launches so far in this run.
    pub launches: u64,
    pub has_quit: bool,
}

/// A debugger as a device.
pub(crate) struct Debugger {
    desk: Arc<Mutex<Desk>>,
    inner: Arc<dyn Device>,
}

impl Debugger {
    pub fn new(desk: Arc<Mutex<Desk>>, inner: Arc<dyn Device>) -> Debugger {
        Debugger { desk, inner }
    }
}

impl Device for Debugger {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        if kernel.named {
            Arc::new(Stepped { kernel, desk: self.desk.clone(), inner: self.inner.clone(), loaded: OnceLock::new() })
        } else {
            self.inner.load(kernel)
        }
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn finish(&self) -> Result<(), DeviceError> {
        self.inner.finish()
    }

    fn confirm(&self) -> Result<(), DeviceError> {
        self.inner.confirm()
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    fn shows_names(&self) -> bool {
        true
    }

    fn instructions(&self) -> Option<crate::device::sim::Isa> {
        self.inner.instructions()
    }
}

/// Why a launch is run under the debugger.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reason {
    /// Something asks to stop in it.
    Stop,
    /// The user has paused it on the other device. It is stopped at its start: only the stepper knows states in between.
    Pause,
    /// It has faulted on the other device.
    Fault,
}

/// How that has ended.
enum Ended {
    Over(Output),
    /// The launch is still at its start and has no breakpoints, so it can run on the other device.
    Untouched,
    /// The user wants no more of this run.
    Quit,
}

/// A kernel with the names of its source.
struct Stepped {
    kernel: Arc<Prepared>,
    desk: Arc<Mutex<Desk>>,
    inner: Arc<dyn Device>,
    /// The kernel on the other device, once a launch needs it there.
    loaded: OnceLock<Result<Arc<dyn Executable>, String>>,
}

pub(crate) fn lock(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Executable for Stepped {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        let mut desk = lock(&self.desk);
        desk.launches += 1;
        let interrupted = || FaultKind::Interrupted.of_launch(self.span());
        let mut reason = desk.settings.concern(&self.kernel.module).then_some(Reason::Stop);
        loop {
            if let Some(known) = reason {
                match self.debugged(&mut desk, extents, args, control, known)? {
                    Ended::Over(output) => return Ok(output),
                    Ended::Untouched => {}
                    Ended::Quit => return Err(interrupted()),
                }
            }
            let before = saved(args);
            desk.front.runs_freely(true);
            let ran = catch_unwind(AssertUnwindSafe(|| self.as_usual(extents, args, control)));
            desk.front.runs_freely(false);
            let ran = ran.unwrap_or_else(|payload| match payload.is::<Stopped>() {
                true => Err(interrupted()),
                false => resume_unwind(payload),
            });
            let fault = match ran {
                Err(fault) if fault.kind == FaultKind::Interrupted && desk.front.is_paused() => {
                    restore(args, before);
                    reason = Some(Reason::Pause);
                    continue;
                }
                Err(fault) if fault.kind != FaultKind::Interrupted => fault,
                other => return other,
            };
            restore(args, before);
            return match self.debugged(&mut desk, extents, args, control, Reason::Fault)? {
                Ended::Quit => Err(interrupted()),
                Ended::Over(_) | Ended::Untouched => {
                    let text =
                        "run step by step, the launch does not fault: what it does depends on the order of its threads";
                    desk.front.note(text);
                    Err(fault)
                }
            };
        }
    }
}

impl Stepped {
    fn span(&self) -> Span {
        self.kernel.module.kernel.span
    }

    fn as_usual(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        let load = || {
            let prepared = pass::prepare_for((*self.kernel.module).clone(), Checks::default())?;
            Ok(self.inner.load(Arc::new(prepared)))
        };
        match self.loaded.get_or_init(load) {
            // The fault has to be this launch's.
            Ok(executable) => executable.launch(extents, args, &Control { wait: true, ..control.clone() }),
            // A module that lowering has made passes through them.
            Err(broken) => Err(FaultKind::Assert { message: broken.clone() }.of_launch(self.span())),
        }
    }

    /// Runs a launch under the debugger: from its start, or up to a fault that it has.
    fn debugged(
        &self,
        desk: &mut Desk,
        extents: Extents,
        args: &mut [Arg<'_>],
        control: &Control,
        reason: Reason,
    ) -> Result<Ended, Box<Fault>> {
        let failed = |error| FaultKind::Device(error).of_launch(self.span());
        let launch = Launch::new(&self.kernel.module, extents, args, 0);
        let timeline = Timeline::new(launch, args, COPIES, control.stop.clone()).map_err(failed)?;
        let Desk { settings, front, launches, has_quit } = desk;
        let mut debug = Debug::new(timeline, settings, *launches, control.launched);
        match reason {
            Reason::Stop => {}
            Reason::Pause => debug.arrival = Arrival::Interrupted,
            Reason::Fault => debug.go_to(u64::MAX),
        }
        let is_vain = reason == Reason::Fault && matches!(debug.arrival, Arrival::End);
        let wish = if is_vain { Wish::GoOn } else { front.launch(&mut debug) };
        if wish == Wish::Quit {
            *has_quit = true;
            return Ok(Ended::Quit);
        }
        if reason == Reason::Pause && debug.is_untouched() {
            return Ok(Ended::Untouched);
        }
        if let Err(Interrupted) = debug.run_out() {
            return Ok(Ended::Quit);
        }
        let state = debug.state();
        state.write_back(args).map_err(failed)?;
        match state.faults.first() {
            Some(fault) => Err(Box::new(fault.clone())),
            None => Ok(Ended::Over(debug.timeline.output().to_string())),
        }
    }
}

/// Returns the bytes of the arrays that a launch may write.
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
