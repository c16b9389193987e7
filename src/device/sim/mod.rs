//! The lane-vectorised simulator: runs DeviceIR on the CPU, defines what kernels mean, and reports their faults.
//!
//! `compile` turns a kernel into flat [`code`]; a [`frame`] holds the registers of one lane group and runs it; `lanes`,
//! `strip`, `memory`, `local`, `shared`, `atomics`, `warp` and `control` are what its ops do; `geometry` cuts a launch into groups and
//! `sched` spreads them over workers.

// Lane loops count through several arrays at once, and a reference into code that a raw pointer leads to is taken where it
// can be seen.
#![allow(clippy::needless_range_loop, clippy::needless_borrow, clippy::explicit_counter_loop)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Arg, Control, Device, Executable, Extents, Fault, FaultKind, Output};
use crate::ir::Prepared;

mod atomics;
mod check;
mod code;
mod compare;
mod compile;
mod control;
mod dot;
mod fault;
mod frame;
mod geometry;
mod group;
mod isa;
mod lanes;
mod listen;
mod local;
mod memory;
mod parts;
mod sched;
mod shared;
mod store;
mod strip;
mod tree;
mod warp;

pub use isa::Isa;

/// The simulator. By default with the best instruction set that this machine has.
#[derive(Clone, Debug, Default)]
pub struct Simulator {
    isa: Isa,
}

impl Simulator {
    /// With this instruction set, or the baseline where the machine has not got it.
    pub fn with(isa: Isa) -> Simulator {
        Simulator { isa: if isa.is_here() { isa } else { Isa::Base } }
    }
}

impl Device for Simulator {
    fn name(&self) -> String {
        "sim".into()
    }

    fn is_watchful(&self) -> bool {
        true
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        Arc::new(Program { code: compile::compile(&kernel, self.isa), isa: self.isa })
    }
}

/// Bytes of arrays that a checked launch keeps as they were, at most. With more, the first thread of a report may differ from run
/// to run.
const KEPT: usize = 64 << 20;

struct Program {
    code: code::Code,
    isa: Isa,
}

impl Executable for Program {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        control.launches.fetch_add(1, Ordering::Relaxed);
        if self.code.checks.memory {
            return self.launch_checked(&extents, args, control);
        }
        self.run(&extents, args, control, control.workers)
    }
}

impl Program {
    fn run(
        &self,
        extents: &Extents,
        args: &mut [Arg<'_>],
        control: &Control,
        workers: usize,
    ) -> Result<Output, Box<Fault>> {
        let code = &self.code;
        let bindings: Vec<frame::Binding> = args.iter_mut().map(bind).collect();
        let geometry = geometry::Geometry::new(extents, code);
        let workers = if control.deterministic && code.ordered { 1 } else { workers };
        let isa = self.isa;
        if !code.checks.memory {
            let launch = frame::Launch { code, geometry: &geometry, bindings, control, workers, watch: None, isa };
            return sched::run(&launch, extents);
        }
        // Who waits for a later block waits for ever if blocks run one after the other; so that this is found on every run. And what
        // fences order is known for certain only if an atomic operation and its event are one.
        let workers = if code.polls || code.fences { 1 } else { sched::machine(workers) };
        let watch = check::Watch::new(code, &geometry, extents, &bindings, workers, control.warnings.clone());
        let watch = Some(watch);
        let launch = frame::Launch { code, geometry: &geometry, bindings, control, workers, watch, isa };
        let result = sched::run(&launch, extents);
        if let (Ok(_), Some(watch)) = (&result, &launch.watch) {
            watch.finish(&launch.bindings, control.larger);
        }
        result
    }

    /// Several workers find what is wrong fast, but which thread is the first depends on them. So what they found is looked for
    /// again by one worker, from where the launch began.
    fn launch_checked(&self, extents: &Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        let workers = sched::machine(control.workers);
        let size = |arg: &mut Arg<'_>| written(arg).map_or(0, |bytes| bytes.len());
        let certain = workers == 1 || self.code.cooperative || !check::may_race(&self.code, extents);
        if certain || args.iter_mut().map(size).sum::<usize>() > KEPT {
            return self.run(extents, args, control, workers);
        }
        let before: Vec<Option<Vec<u8>>> =
            args.iter_mut().map(|arg| written(arg).map(|bytes| bytes.to_vec())).collect();
        let quiet = Control { warnings: Arc::default(), ..control.clone() };
        let result = self.run(extents, args, &quiet, workers);
        let silent = quiet.warnings.lock().is_ok_and(|w| w.is_empty());
        let interrupted = matches!(&result, Err(fault) if fault.kind == FaultKind::Interrupted);
        if (result.is_ok() && silent) || interrupted {
            return result;
        }
        for (arg, before) in args.iter_mut().zip(before) {
            if let (Some(bytes), Some(before)) = (written(arg), before) {
                bytes.copy_from_slice(&before);
            }
        }
        let again = self.run(extents, args, control, 1);
        // What both write may not have been in memory yet when several workers ran.
        let is_race = |fault: &Fault| matches!(fault.kind, FaultKind::Race(_));
        let benign = control.warnings.lock().is_ok_and(|w| w.iter().any(is_race));
        match result {
            Err(fault) if again.is_ok() && !(benign && is_race(&fault)) => Err(fault),
            _ => again,
        }
    }
}

/// The bytes of an array that the kernel may write.
fn written<'b>(arg: &'b mut Arg<'_>) -> Option<&'b mut [u8]> {
    match arg {
        Arg::Write { bytes, .. } => Some(bytes),
        Arg::ArrayMut { storage, .. } => Some(storage.bytes_mut()),
        Arg::Value(_) | Arg::Read { .. } | Arg::Array { .. } => None,
    }
}

fn bind(arg: &mut Arg<'_>) -> frame::Binding {
    match arg {
        Arg::Value(values) => frame::Binding::Value(values.clone()),
        // Read-only arrays are never written: the verifier sees to it.
        Arg::Read { bytes, shape } => {
            frame::Binding::Array { ptr: bytes.as_ptr().cast_mut(), len: bytes.len(), shape: shape.clone() }
        }
        Arg::Write { bytes, shape } => {
            frame::Binding::Array { ptr: bytes.as_mut_ptr(), len: bytes.len(), shape: shape.clone() }
        }
        Arg::Array { storage, shape } => {
            let bytes = storage.bytes();
            frame::Binding::Array { ptr: bytes.as_ptr().cast_mut(), len: bytes.len(), shape: shape.clone() }
        }
        Arg::ArrayMut { storage, shape } => {
            let bytes = storage.bytes_mut();
            frame::Binding::Array { ptr: bytes.as_mut_ptr(), len: bytes.len(), shape: shape.clone() }
        }
    }
}
