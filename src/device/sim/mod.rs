//! The lane-vectorized simulator: runs DeviceIR on the CPU, defines the semantics of kernels, and reports their faults.
//!
//! `compile` turns a kernel into flat [`code`]; a [`frame`] holds the registers of one lane group and runs it; `lanes`, `strip`,
//! `memory`, `local`, `shared`, `atomics`, `warp` and `control` implement its ops; `geometry` divides a launch into groups and
//! `sched` distributes them to workers; `sanitizer` finds races.
//!
//! # Two ways from a kernel to its results
//! `compile` makes interpreted code of DeviceIR itself, and `lane::build` makes LaneIR of it, for machine code; neither goes through the
//! other. Each checks the other: random kernels run both ways, and nearly all faults of either were found so. One lowering for both would
//! have made the same mistake twice. What the interpreter's code has of its own (chains of operators, strips, dot products and reductions by halves as
//! one op) is what it lives on where there is no machine code: without it, kernels of the suite take up to four times as long there.
//!
//! # Safety
//! Compiled code runs without looking at register numbers, table entries and jump targets: ops trust the compiler, and machine code
//! trusts LaneIR. What they trust in is written down as rules, and checked in builds with debug assertions: rules C1 to C13 of
//! compiled code by [`verify`], rules R1 to R10 of LaneIR by [`lane::verify`]. What holds of each group that runs are rules G1 to G6
//! of [`group`]. Each `unsafe` block says on which of them it rests. Indices that kernels compute are checked whenever they run.

// Lane loops count through several arrays at once, and references derived from raw pointers to the code are taken explicitly.
#![allow(clippy::needless_range_loop, clippy::needless_borrow, clippy::explicit_counter_loop)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::group::{Coding, MAX_LANES};
use self::memory::layout::{Binding, misfit};
use self::report::Report;
use self::tier::Launching;
use self::version::{Lean, Version};
use super::{Arg, Control, Device, DeviceError, Executable, Extents, Fault, FaultKind, Output, Statistics};
use crate::base::room;
use crate::base::source::Sources;
use crate::ir::{Counted, Prepared};
use crate::lang::scalar::Value;

mod atomics;
mod code;
mod compare;
mod compile;
mod control;
mod copy;
mod dot;
mod enter;
mod events;
mod fault;
mod frame;
mod geometry;
mod group;
mod isa;
#[cfg(target_arch = "x86_64")]
mod jit;
mod lane;
mod lanes;
mod listing;
mod local;
mod memory;
mod note;
mod patterns;
mod poll;
pub mod product;
mod profile;
mod reg;
mod report;
mod sanitizer;
mod sched;
mod shape;
mod share;
mod shared;
mod store;
mod strip;
mod tier;
mod tiles;
mod tree;
mod verify;
mod version;
mod warp;
mod warp_split;

pub use isa::Isa;
pub use listing::lanes_text;
pub use patterns::{Patterns, patterns};
pub use report::{Listener, Symbol};
pub use sched::machine as workers;
pub use share::each;
pub use tier::Jit;
pub use tier::Obstacle;
pub use version::Proofs;

/// The simulator. By default with the best instruction set that this machine supports.
#[derive(Clone, Debug, Default)]
pub struct Simulator {
    isa: Isa,
    jit: Jit,
    proofs: Proofs,
    report: Arc<Report>,
}

impl Simulator {
    /// Creates a simulator for this instruction set, or for the baseline where the machine does not support it.
    pub fn with(isa: Isa) -> Simulator {
        Simulator { isa: if isa.is_here() { isa } else { Isa::Base }, ..Simulator::default() }
    }

    /// Returns the simulator with this choice of when kernels are compiled to machine code.
    pub fn compiling(self, jit: Jit) -> Simulator {
        Simulator { jit, ..self }
    }

    /// Returns the simulator with this choice of whether runs with checks look at accesses that are proved to be right.
    pub fn with_proofs(self, proofs: Proofs) -> Simulator {
        Simulator { proofs, ..self }
    }

    /// Returns a simulator that tells a listener about each piece of machine code.
    pub fn telling(self, listener: Listener) -> Simulator {
        Simulator { report: Arc::new(Report::telling(listener)), ..self }
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
        self.load_named(kernel, &Sources::default())
    }

    fn load_named(&self, kernel: Arc<Prepared>, sources: &Sources) -> Arc<dyn Executable> {
        let compiled = compile::compile(&kernel, self.isa, self.jit.is_here(self.isa));
        let Ok(compiled) = compiled else { return Arc::new(Unable { kernel }) };
        let names = self.report.names(&kernel.module.kernel.name, &compiled.code, sources);
        let full = Version::new(compiled, names, self.report.clone());
        let (simulator, lean, doubted) = (self.clone(), Lean::default(), AtomicBool::new(false));
        Arc::new(Program { kernel, simulator, full, lean, doubted })
    }

    fn instructions(&self) -> Option<Isa> {
        Some(self.isa)
    }

    fn statistics(&self) -> Statistics {
        self.report.statistics()
    }
}

/// A kernel that is too large to be compiled.
struct Unable {
    kernel: Arc<Prepared>,
}

impl Executable for Unable {
    fn launch(&self, _: Extents, _: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        control.launches.fetch_add(1, Ordering::Relaxed);
        let limit = code::NONE.to_string();
        let (device, what) = ("sim".to_string(), DeviceError::REGISTERS);
        let error = DeviceError::TooLarge { device, what, wanted: format!("more than {limit}"), limit };
        Err(FaultKind::Device(error).of_launch(self.kernel.module.kernel.span))
    }
}

/// Bytes of writable arrays of a counted launch that is run again with changes, at most.
const KEPT_FOR_CHANGES: usize = 256 << 20;

/// Bytes of writable arrays that a checked launch saves in order to run again, at most, where no threads can race: the second run would
/// only name the first thread with a fault. With more, that may differ from run to run.
const KEPT_FOR_NAMES: usize = 1 << 20;

/// Bytes that exact checking takes for each byte of the arrays that a kernel writes, at most for elements of 4 bytes.
const EXACT: usize = 20;

struct Program {
    kernel: Arc<Prepared>,
    simulator: Simulator,
    /// The code that tells the checker of all accesses.
    full: Version,
    lean: Lean,
    /// A launch had to be repeated without rough records of loads.
    doubted: AtomicBool,
}

impl Executable for Program {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        control.launches.fetch_add(1, Ordering::Relaxed);
        self.simulator.report.count_launch();
        let args: Result<Vec<HostArg<'_>>, DeviceError> = args.iter_mut().map(HostArg::of).collect();
        let args = &mut args.map_err(|error| FaultKind::Device(error).of_launch(self.full.code.place))?;
        if self.full.code.checks.memory {
            return self.launch_checked(&extents, args, control);
        }
        if self.full.code.is_profiled() {
            return self.launch_counted(&extents, args, control);
        }
        self.run(&self.full, &extents, args, control, plain(control)).result
    }
}

/// An argument whose bytes are in host memory.
enum HostArg<'a> {
    Value(&'a [Value]),
    Read { bytes: &'a [u8], shape: &'a [u32] },
    Write { bytes: &'a mut [u8], shape: &'a [u32] },
}

impl<'a> HostArg<'a> {
    /// Copies an array to the host that only another device has.
    fn of(arg: &'a mut Arg<'_>) -> Result<HostArg<'a>, DeviceError> {
        Ok(match arg {
            Arg::Value(values) => HostArg::Value(values),
            Arg::Read { bytes, shape } => HostArg::Read { bytes, shape },
            Arg::Write { bytes, shape } => HostArg::Write { bytes, shape },
            Arg::Array { storage, shape } => HostArg::Read { bytes: storage.bytes()?, shape },
            Arg::ArrayMut { storage, shape } => HostArg::Write { bytes: storage.bytes_mut()?, shape },
        })
    }
}

/// Parameters of one run of a launch.
#[derive(Clone, Copy)]
struct Manner {
    workers: usize,
    /// With checks: every access is tracked individually, without shortcuts.
    careful: bool,
    /// Whatever may happen in any order happens in the reverse of the usual one.
    backward: bool,
    /// Machine code may run.
    coded: bool,
    /// It may record loads roughly, as the launch can be repeated.
    rough: bool,
}

/// The outcome of a run.
struct Ran {
    result: Result<Output, Box<Fault>>,
    /// It relied on fences and atomics to rule out a race.
    decided: bool,
    /// Rough records were in the way of a verdict.
    doubtful: bool,
    /// What was counted.
    profile: Option<crate::device::profile::Profile>,
}

/// Parameters of a run without checks.
fn plain(control: &Control) -> Manner {
    Manner { workers: control.workers, careful: false, backward: control.backward, coded: true, rough: false }
}

impl Program {
    fn run(
        &self,
        version: &Version,
        extents: &Extents,
        args: &mut [HostArg<'_>],
        control: &Control,
        manner: Manner,
    ) -> Ran {
        let (ops, code) = (version.ops.as_slice(), &version.code);
        let bindings: Vec<Binding> = args.iter_mut().map(bind).collect();
        if let Some(misfit) = misfit(&bindings, code) {
            panic!("the launch does not suit the kernel: {misfit}");
        }
        if let Extents::Grid { block, .. } = extents {
            let threads = block.iter().fold(1usize, |all, &n| all.saturating_mul(n as usize));
            assert!(threads <= MAX_LANES, "a block has {threads} threads");
        }
        let geometry = geometry::Geometry::new(extents, code);
        let workers = if control.deterministic && code.ordered { 1 } else { manner.workers };
        let (isa, jit, backward) = (self.simulator.isa, self.simulator.jit, manner.backward);
        let checked = code.checks.memory;
        // If blocks ran one after the other, a block that waits for a later one would wait forever; one worker finds that in
        // every run. And the order that fences establish is exact only if an atomic operation and its event are indivisible.
        let workers = match checked {
            true if code.polls || manner.careful => 1,
            true => sched::machine(workers),
            false => workers,
        };
        let watch = checked.then(|| {
            sanitizer::Watch::new(code, &geometry, extents, &bindings, workers, (manner.careful, manner.rough), control)
        });
        // The interpreter has one order of updates, whatever the machine and whenever there is machine code; and it alone reverses them.
        let orders = (control.deterministic || backward) && code.regions.iter().any(lane::Region::has_updates);
        let coded = manner.coded && code.counted.is_none() && !orders;
        let coding = if coded { Launching::of(&version.tier, (isa, jit), code, &geometry) } else { None };
        let counting = control.counting.as_ref().filter(|_| code.is_profiled());
        let counts = counting.map(|counting| profile::Tally::new(code, &geometry, &bindings, counting.blocks));
        let launch = frame::Launch {
            ops,
            code,
            counts,
            geometry: &geometry,
            bindings,
            control,
            workers,
            watch,
            backward,
            isa,
            coding: coding.as_ref().map(|coding| coding as &dyn Coding),
            report: &self.simulator.report,
        };
        let mut result = sched::run(&launch, extents);
        let Some(watch) = &launch.watch else {
            let frame::Launch { counts, bindings, .. } = launch;
            let name = &self.kernel.module.kernel.name;
            let profile = counts.map(|counts| counts.profile(name, extents, &geometry, &bindings));
            return Ran { result, decided: false, doubtful: false, profile };
        };
        if let Ok(output) = &mut result
            && let Some(fault) = watch.lock_order()
        {
            result = Err(Box::new(Fault { output: std::mem::take(output), ..*fault }));
        }
        let (decided, doubtful) = (watch.decided(), watch.is_doubtful());
        if result.is_ok() {
            watch.finish(&launch.bindings, control.larger);
        }
        Ran { result, decided, doubtful, profile: None }
    }

    /// Runs a launch and counts what it costs. The first one of its kind also runs with each change that might pay, on the arrays as
    /// they were before.
    fn launch_counted(
        &self,
        extents: &Extents,
        args: &mut [HostArg<'_>],
        control: &Control,
    ) -> Result<Output, Box<Fault>> {
        let Some(counting) = &control.counting else {
            return self.run(&self.full, extents, args, control, plain(control)).result;
        };
        let kernel = &self.kernel.module.kernel;
        let of = self.kernel.counted.unwrap_or(Counted::Kernel);
        // Others are not the user's to change.
        let new = of == Counted::Kernel && !counting.knows(&kernel.name, kernel.span, *extents);
        let size: usize = args.iter_mut().map(|arg| written(arg).map_or(0, |bytes| bytes.len())).sum();
        let before = (new && size <= KEPT_FOR_CHANGES).then(|| copies(args));
        let Ran { result, profile, .. } = self.run(&self.full, extents, args, control, plain(control));
        let Some(mut profile) = profile.filter(|_| result.is_ok()) else { return result };
        profile.tiled = kernel.tiles.is_some() || kernel.product.is_some();
        profile.of = of;
        match of {
            Counted::Kernel => profile.product = profile::product(&self.kernel.module),
            Counted::Derivative => {}
            Counted::Expression => profile.move_to(crate::device::profile::place()),
        }
        if let Some(before) = before {
            self.try_changes(&mut profile, &before, args, control);
        }
        counting.add(profile);
        result
    }

    /// Runs a launch again with changes of the kernel that might pay, and adds what they would do.
    fn try_changes(
        &self,
        profile: &mut crate::device::profile::Profile,
        before: &[Option<Vec<u8>>],
        args: &mut [HostArg<'_>],
        control: &Control,
    ) {
        let after = copies(args);
        for change in profile::changes(&self.kernel, profile) {
            let Some(kernel) = profile::changed(&self.kernel, &change) else { continue };
            let Ok(compiled) = compile::compile(&kernel, self.simulator.isa, false) else { continue };
            let version = Version::new(compiled, vec![], self.simulator.report.clone());
            restore(args, before);
            let extents = profile::exchanged(&profile.extents, &change);
            let ran = self.run(&version, &extents, args, &unheard(control), plain(control));
            let (Ok(_), Some(found)) = (ran.result, ran.profile) else { continue };
            let same = copies(args) == after;
            let (before, after) = (profile.totals(), found.totals());
            let accesses = found.accesses;
            profile.trials.push(crate::device::profile::Trial { change, before, after, accesses, same });
        }
        restore(args, &after);
    }

    fn launch_checked(
        &self,
        extents: &Extents,
        args: &mut [HostArg<'_>],
        control: &Control,
    ) -> Result<Output, Box<Fault>> {
        match self.full.code.syncs {
            true => self.launch_both_ways(extents, args, control),
            false => self.launch_fast(extents, args, control),
        }
    }

    /// Runs a launch whose threads synchronize by fences and atomics. Where these ruled out a race, they may not do so in another
    /// order of blocks; the launch then runs again backward.
    fn launch_both_ways(
        &self,
        extents: &Extents,
        args: &mut [HostArg<'_>],
        control: &Control,
    ) -> Result<Output, Box<Fault>> {
        let before = copies(args);
        let manner = Manner { workers: 1, careful: true, backward: false, coded: false, rough: false };
        let first = unheard(control);
        let Ran { mut result, decided, .. } = self.run(&self.full, extents, args, &first, manner);
        if decided && result.is_ok() {
            let after = copies(args);
            restore(args, &before);
            let manner = Manner { backward: true, ..manner };
            let other = self.run(&self.full, extents, args, &unheard(control), manner).result;
            restore(args, &after);
            if let Err(fault) = other
                && is_of_order(&fault.kind)
            {
                result = result.and_then(|output| Err(Box::new(Fault { output, ..*fault })));
            }
        }
        hear(control, &first, &result);
        result
    }

    /// Runs on several workers and by machine code, which find faults quickly, but which thread is reported first depends on timing. If there is a
    /// report, one worker runs the launch again from its initial state; with individual tracking if it was a race, so that the
    /// right threads are named.
    fn launch_fast(
        &self,
        extents: &Extents,
        args: &mut [HostArg<'_>],
        control: &Control,
    ) -> Result<Output, Box<Fault>> {
        let workers = sched::machine(control.workers);
        let Simulator { proofs, isa, jit, .. } = self.simulator;
        let lean = self.lean.of(&self.kernel, &self.full, (proofs, isa, jit), threads(extents), control);
        let version = lean.unwrap_or(&self.full);
        let coded = !version.code.polls;
        let manner = Manner { workers, careful: false, backward: false, coded, rough: false };
        let size = |arg: &mut HostArg<'_>| written(arg).map_or(0, |bytes| bytes.len());
        // Machine code has recorded accesses to shared arrays when it leaves for the interpreter, which then may blame others.
        let names = sanitizer::watches_shared(&version.code);
        let size = args.iter_mut().map(size).sum::<usize>();
        let is_race = |fault: &Fault| matches!(fault.kind, FaultKind::Race(_));
        let warned = |control: &Control| control.warnings.lock().is_ok_and(|w| w.iter().any(is_race));
        let repeats = match names || sanitizer::may_race(&version.code, extents) {
            true => room::has(size),
            false => size <= KEPT_FOR_NAMES,
        };
        if !repeats {
            let coded = manner.coded && !names;
            let only = unheard(control);
            let result = self.run(version, extents, args, &only, Manner { coded, ..manner }).result;
            if result.is_ok() && warned(&only) {
                // Whether other accesses to these elements conflict takes a second run.
                room::lacking(size);
            }
            hear(control, &only, &result);
            return result;
        }
        let before = copies(args);
        let mut quiet = unheard(control);
        let rough = !self.doubted.load(Ordering::Relaxed);
        let mut ran = self.run(version, extents, args, &quiet, Manner { rough, ..manner });
        let is_interrupted =
            |result: &Result<Output, Box<Fault>>| matches!(result, Err(fault) if fault.kind == FaultKind::Interrupted);
        if ran.doubtful && !is_interrupted(&ran.result) {
            // It would be so in most launches of the kernel.
            self.doubted.store(true, Ordering::Relaxed);
            restore(args, &before);
            quiet = unheard(control);
            ran = self.run(version, extents, args, &quiet, manner);
        }
        let result = ran.result;
        let silent = quiet.warnings.lock().is_ok_and(|w| w.is_empty());
        if (result.is_ok() && silent) || is_interrupted(&result) {
            return result;
        }
        restore(args, &before);
        let races = matches!(&result, Err(fault) if is_race(fault));
        let fits = threads(extents) <= CAREFUL || races && room::has(size.saturating_mul(EXACT));
        // Words forget the accesses before a write. So if one race is harmless, only exact checking knows whether all are.
        let careful = fits || warned(&quiet);
        let second = unheard(control);
        let manner = Manner { workers: 1, careful, backward: false, coded: false, rough: false };
        let again = self.run(&self.full, extents, args, &second, manner).result;
        // Equal values written by both threads of a race may not have been in memory yet when several workers ran.
        let benign = warned(&second);
        let result = match result {
            Err(fault) if again.is_ok() && !(benign && is_race(&fault)) => Err(fault),
            _ => again,
        };
        hear(control, &second, &result);
        result
    }
}

/// Returns a control like this one with a warning list of its own.
fn unheard(control: &Control) -> Control {
    Control { warnings: Arc::default(), ..control.clone() }
}

/// Forwards the warnings of a run. That the order of writes does not matter is known only at the end of a launch: accesses that a fault
/// has prevented may conflict with them.
fn hear(control: &Control, run: &Control, result: &Result<Output, Box<Fault>>) {
    let (Ok(mut to), Ok(mut from)) = (control.warnings.lock(), run.warnings.lock()) else { return };
    let keep_races = result.is_ok() || control.keep_races;
    from.drain(..)
        .filter(|warning| keep_races || !matches!(warning.kind, FaultKind::Race(_)))
        .for_each(|warning| sanitizer::keep(&mut to, warning));
}

/// Up to this many threads, a launch with a fault that is no race is run again with individual tracking.
const CAREFUL: u64 = 1 << 16;

fn threads(extents: &Extents) -> u64 {
    let count = |n: &[u32; 3]| n.iter().fold(1, |count: u64, &n| count.saturating_mul(n.into()));
    match extents {
        Extents::Threads(n) => count(n),
        Extents::Grid { grid, block } => count(grid).saturating_mul(count(block)),
    }
}

/// Returns whether another order of blocks may reveal this kind of fault. (Other faults may be artifacts of the order, where the
/// program relies on one.)
fn is_of_order(kind: &FaultKind) -> bool {
    use FaultKind::*;
    matches!(kind, Race(_) | Unwritten { .. } | Deadlock { .. } | LockOrder(..))
}

/// Copies the arrays that the kernel may write, in their current state.
fn copies(args: &mut [HostArg<'_>]) -> Vec<Option<Vec<u8>>> {
    args.iter_mut().map(|arg| written(arg).map(|bytes| room::copy(bytes))).collect()
}

fn restore(args: &mut [HostArg<'_>], copies: &[Option<Vec<u8>>]) {
    for (arg, copy) in args.iter_mut().zip(copies) {
        if let (Some(bytes), Some(copy)) = (written(arg), copy) {
            bytes.copy_from_slice(copy);
        }
    }
}

/// Returns the bytes of an array that the kernel may write.
fn written<'b>(arg: &'b mut HostArg<'_>) -> Option<&'b mut [u8]> {
    match arg {
        HostArg::Write { bytes, .. } => Some(bytes),
        HostArg::Value(_) | HostArg::Read { .. } => None,
    }
}

fn bind(arg: &mut HostArg<'_>) -> Binding {
    match arg {
        HostArg::Value(values) => Binding::Value((*values).into()),
        // Read-only arrays are never written: the verifier ensures it.
        HostArg::Read { bytes, shape } => {
            Binding::Array { ptr: bytes.as_ptr().cast_mut(), len: bytes.len(), shape: (*shape).into(), writable: false }
        }
        HostArg::Write { bytes, shape } => {
            Binding::Array { ptr: bytes.as_mut_ptr(), len: bytes.len(), shape: (*shape).into(), writable: true }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::storage::{Gone, Storage};
    use crate::ir::build::{FunctionBuilder, module};
    use crate::ir::def::{Access, Form, Layout};
    use crate::ir::typing::F32;
    use crate::ir::verify::verify;

    /// Each constant has a register, and ops have no numbers for so many.
    #[test]
    #[cfg_attr(miri, ignore = "it compiles 65,536 stores, which takes Miri hours")]
    fn a_kernel_of_too_many_constants_is_refused() {
        let mut b = FunctionBuilder::new("constants");
        let y = b.array("y", Access::Out, Layout::plain(F32), 1);
        let i = b.index(0);
        for k in 0..=code::NONE.into() {
            let value = b.f32(k as f32);
            b.store(y, &[i], value);
        }
        let module = verify(module(Default::default(), b, Form::Threads { rank: 1 })).expect("a sound kernel");
        let kernel = Simulator::default().load(Arc::new(Prepared::new(module, Default::default())));
        let mut array = Storage::zeros(8);
        let args = &mut [Arg::ArrayMut { storage: &mut array, shape: vec![2] }];
        let fault = kernel.launch(Extents::Threads([2, 1, 1]), args, &Control::default()).unwrap_err();
        let what = DeviceError::REGISTERS;
        assert!(matches!(fault.kind, FaultKind::Device(DeviceError::TooLarge { what: w, .. }) if w == what));
    }

    #[test]
    fn arrays_of_a_lost_device_are_the_launchs_error() {
        let mut b = FunctionBuilder::new("copy");
        let x = b.array("x", Access::In, Layout::plain(F32), 1);
        let y = b.array("y", Access::Out, Layout::plain(F32), 1);
        let i = b.index(0);
        let value = b.load(x, &[i]);
        b.store(y, &[i], value);
        let module = verify(module(Default::default(), b, Form::Threads { rank: 1 })).expect("a sound kernel");
        let kernel = Simulator::default().load(Arc::new(Prepared::new(module, Default::default())));
        for far in [0, 1] {
            let mut arrays = [Storage::zeros(8), Storage::zeros(8)];
            arrays[far].written_remotely(Arc::new(Gone::unavailable()));
            let [x, y] = &mut arrays;
            let args = &mut [Arg::Array { storage: x, shape: vec![2] }, Arg::ArrayMut { storage: y, shape: vec![2] }];
            let fault = kernel.launch(Extents::Threads([2, 1, 1]), args, &Control::default()).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Device(Gone::unavailable().0));
        }
    }
}
