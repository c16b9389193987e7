//! The lane-vectorized simulator: runs DeviceIR on the CPU, defines the semantics of kernels, and reports their faults.
//!
//! `compile` turns a kernel into flat [`code`]; a [`frame`] holds the registers of one lane group and interprets it;
//! `geometry` divides a launch into groups, and `sched` distributes them to workers. `sanitizer` finds races. `jit`
//! compiles parts of kernels to machine code. The design and the safety rules are described in
//! `docs/internals/simulator.md`.

#![allow(rustdoc::private_intra_doc_links)]
// The JIT compiler generates x86-64 code, and WebAssembly builds have no GPU driver. Other targets do not use all of
// the code that these share with the interpreter.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports))]
// Loops over lanes index several arrays at once. Code that dereferences raw pointers to tables takes references
// explicitly.
#![allow(clippy::needless_range_loop, clippy::needless_borrow, clippy::explicit_counter_loop)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use self::check_elision::{CompiledVersion, ElidedVersion};
use self::group::{MAX_LANES, RegionCodeSource};
use self::memory::layout::{BoundParam, find_mismatch};
use self::statistics::SimStatistics;
use self::tiering::LaunchTier;
use clk_base::alloc;
use clk_base::source::SourceMap;
use clk_ir::{CostCounting, PreparedKernel};
use clk_runtime::exchange::{CollectiveDevice, CollectiveError};
use clk_runtime::{
    Arg, BoxedTimestamp, Capabilities, Control, Device, DeviceError, DeviceMemory, Executable, Fault, FaultKind,
    Interop, Isa, LaunchConfig, LaunchExtents, PrintedText, Statistics,
};
use clk_scalar::ScalarValue;

mod access_site;
mod affine_compare;
mod affine_value;
mod atomics;
mod check_elision;
mod code;
mod code_patterns;
mod compile;
mod control_flow;
mod current_mask;
mod dot;
mod enter_region;
mod events;
mod fault;
mod frame;
mod geometry;
mod group;
mod group_registers;
#[cfg(target_arch = "x86_64")]
mod jit;
mod lane_ir_text;
mod lanes;
mod lir;
mod local_arrays;
mod memory;
mod op_shape;
mod parallel_for;
mod polling;
pub mod product;
mod profile;
mod register_ids;
mod rule_violation;
mod sanitizer;
mod sched;
mod shared_memory;
mod statistics;
mod step_budget;
mod store;
mod strip;
mod tiering;
mod tile_copy;
mod tiles;
mod tree;
mod verify;
mod warp_ops;
mod warp_split;

pub use check_elision::Proofs;
pub use code_patterns::{CodePatterns, code_patterns};
pub use lane_ir_text::lane_ir_text;
pub use parallel_for::parallel_for;
pub use sched::worker_count;
pub use statistics::{CodeSymbol, Listener};
pub use tiering::Jit;
pub use tiering::NoJitReason;

/// The CPU simulator. By default it uses the best instruction set that this machine supports.
#[derive(Clone, Debug, Default)]
pub struct Simulator {
    isa: Isa,
    jit: Jit,
    proofs: Proofs,
    report: Arc<SimStatistics>,
}

impl Simulator {
    /// Creates a simulator for this instruction set, or for the baseline if the machine does not support it.
    pub fn with_isa(isa: Isa) -> Simulator {
        Simulator { isa: if isa.is_supported() { isa } else { Isa::Base }, ..Simulator::default() }
    }

    /// Sets the conditions under which kernels are compiled to machine code.
    pub fn with_jit(self, jit: Jit) -> Simulator {
        Simulator { jit, ..self }
    }

    /// Sets whether checked runs skip accesses that are proved to be correct.
    pub fn with_proofs(self, proofs: Proofs) -> Simulator {
        Simulator { proofs, ..self }
    }

    /// Sets a listener that is called for the machine code of each region as soon as it is compiled.
    pub fn with_listener(self, listener: Listener) -> Simulator {
        Simulator { report: Arc::new(SimStatistics::with_listener(listener)), ..self }
    }
}

impl Device for Simulator {
    fn name(&self) -> String {
        "sim".into()
    }

    fn model(&self) -> String {
        self.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { checks: true, host_instruction_set: Some(self.isa), ..Capabilities::SYNCHRONOUS }
    }

    fn shows_variables(&self) -> bool {
        false
    }

    fn memory(&self) -> Option<&dyn DeviceMemory> {
        None
    }

    fn interop(&self) -> Option<&dyn Interop> {
        None
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        let compiled = compile::compile(&kernel, self.isa, self.jit.is_available(self.isa));
        let Ok(compiled) = compiled else { return Arc::new(OversizedKernel { kernel }) };
        let none = SourceMap::default();
        let sources = sources.unwrap_or(&none);
        let names = self.report.region_names(&kernel.module.kernel.name, &compiled.code.source, sources);
        let full = CompiledVersion::new(compiled, names, self.report.clone());
        let (simulator, lean, doubted) = (self.clone(), ElidedVersion::default(), AtomicBool::new(false));
        Arc::new(SimExecutable { kernel, simulator, instrumented: full, elided: lean, needs_exact_loads: doubted })
    }

    fn collectives(&self) -> Result<Box<dyn CollectiveDevice>, CollectiveError> {
        Err(CollectiveError::Unsupported("sim".into()))
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
        self.report.statistics()
    }
}

/// A kernel that needs more registers than ops can address; launching it returns an error.
struct OversizedKernel {
    kernel: Arc<PreparedKernel>,
}

impl Executable for OversizedKernel {
    fn launch(&self, _: &LaunchConfig, _: &mut [Arg<'_>], control: &Control) -> Result<PrintedText, Box<Fault>> {
        control.launches.fetch_add(1, Ordering::Relaxed);
        let limit = code::NONE.to_string();
        let (device, what) = ("sim".to_string(), DeviceError::REGISTERS);
        let error = DeviceError::TooLarge { device, what, wanted: format!("more than {limit}"), limit };
        Err(FaultKind::Device(error).into_launch_fault(self.kernel.module.kernel.span))
    }

    fn depends_on_promises(&self) -> bool {
        false
    }

    fn prepare_block_shape(&self, _: [u32; 3]) {}
}

/// Maximum size in bytes of the writable arrays of a profiled launch for which changes of the kernel are tried out. A
/// trial needs a copy of these arrays.
const MAX_SAVED_FOR_TRIALS: usize = 256 << 20;

/// Maximum size in bytes of the writable arrays of a launch that runs a second time after a fault although its threads
/// cannot race. The second run makes the report deterministic: it reports the first thread with a fault. With larger
/// arrays, the reported thread may differ from launch to launch.
const MAX_SAVED_FOR_RERUN: usize = 1 << 20;

/// Upper bound on the memory that the exact race check needs, in bytes per byte of the writable arrays. Arrays with
/// 4-byte elements need the most.
const EXACT_CHECK_BYTES: usize = 20;

struct SimExecutable {
    kernel: Arc<PreparedKernel>,
    simulator: Simulator,
    /// The code that reports all accesses to the checker.
    instrumented: CompiledVersion,
    elided: ElidedVersion,
    /// Set if an earlier launch had to be repeated because machine code recorded loads coarsely. Later launches record
    /// each load exactly from the start.
    needs_exact_loads: AtomicBool,
}

impl Executable for SimExecutable {
    fn launch(
        &self,
        config: &LaunchConfig,
        args: &mut [Arg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        control.launches.fetch_add(1, Ordering::Relaxed);
        self.simulator.report.count_launch();
        let args: Result<Vec<HostArg<'_>>, DeviceError> = args.iter_mut().map(HostArg::from_arg).collect();
        let args = &mut args
            .map_err(|error| FaultKind::Device(error).into_launch_fault(self.instrumented.code.source.kernel_span()))?;
        if self.instrumented.code.events.checks.memory {
            return self.launch_checked(config, args, control);
        }
        if self.instrumented.code.events.is_profiled() {
            return self.launch_counted(config, args, control);
        }
        self.run(&self.instrumented, config, args, control, unchecked_options(control)).result
    }

    fn depends_on_promises(&self) -> bool {
        false
    }

    fn prepare_block_shape(&self, _: [u32; 3]) {}
}

/// A kernel argument whose bytes are in host memory.
enum HostArg<'a> {
    Value(&'a [ScalarValue]),
    Read { bytes: &'a [u8], shape: &'a [u32] },
    Write { bytes: &'a mut [u8], shape: &'a [u32] },
}

impl<'a> HostArg<'a> {
    /// Converts an argument, and copies the array to the host if it is only on another device.
    fn from_arg(arg: &'a mut Arg<'_>) -> Result<HostArg<'a>, DeviceError> {
        Ok(match arg {
            Arg::Value(values) => HostArg::Value(values),
            Arg::Read { bytes, shape } => HostArg::Read { bytes, shape },
            Arg::Write { bytes, shape } => HostArg::Write { bytes, shape },
            Arg::Array { storage, shape } => HostArg::Read { bytes: storage.bytes()?, shape },
            Arg::ArrayMut { storage, shape } => HostArg::Write { bytes: storage.bytes_mut()?, shape },
        })
    }
}

/// Parameters of one execution of a launch; a checked launch may be executed several times.
#[derive(Clone, Copy)]
struct RunOptions {
    workers: usize,
    /// For checked launches: track every access individually (exact check).
    is_exact: bool,
    /// Run everything whose order is unspecified in the reverse of the usual order.
    reverse_order: bool,
    /// Run the machine code of regions that have been compiled.
    uses_jit: bool,
    /// Let machine code record loads coarsely, as `some lanes load some elements`. This is allowed only if the launch
    /// can be repeated.
    coarse_loads: bool,
}

/// The result of one execution of a launch.
struct SimRunResult {
    result: Result<PrintedText, Box<Fault>>,
    /// Set if the checker found no race only because fences or atomics ordered the accesses.
    order_mattered: bool,
    /// Set if the checker could not decide whether there is a race, because loads were recorded coarsely.
    is_inconclusive: bool,
    /// The counted costs, if the code counts costs.
    profile: Option<clk_runtime::profile::Profile>,
}

/// Returns the options for an execution without checks.
fn unchecked_options(control: &Control) -> RunOptions {
    RunOptions {
        workers: control.workers,
        is_exact: false,
        reverse_order: control.reverse_order,
        uses_jit: true,
        coarse_loads: false,
    }
}

impl SimExecutable {
    fn run(
        &self,
        version: &CompiledVersion,
        config: &LaunchConfig,
        args: &mut [HostArg<'_>],
        control: &Control,
        options: RunOptions,
    ) -> SimRunResult {
        let (ops, code, extents) = (version.ops.as_slice(), &version.code, &config.extents);
        let bindings: Vec<BoundParam> = args.iter_mut().map(bind_arg).collect();
        if let Some(misfit) = find_mismatch(&bindings, code) {
            panic!("the arguments do not fit the kernel: {misfit}");
        }
        if let LaunchExtents::Grid { block, .. } = extents {
            let threads = block.iter().fold(1usize, |all, &n| all.saturating_mul(n as usize));
            assert!(threads <= MAX_LANES, "a block has {threads} threads");
        }
        let geometry = geometry::GroupGeometry::new(extents, code);
        let workers = if control.deterministic && code.properties.depends_on_order { 1 } else { options.workers };
        let (isa, jit, reverse_order) = (self.simulator.isa, self.simulator.jit, options.reverse_order);
        let checked = code.events.checks.memory;
        // Run checked launches with polling loops on one worker. If blocks ran sequentially, a block that waits for a
        // later block would wait forever; one worker reports this deadlock in every launch. Exact tracking also needs
        // one worker: the recorded order is exact only if no other thread runs between an atomic operation and its
        // event.
        let workers = match checked {
            true if code.properties.has_polling || options.is_exact => 1,
            true => sched::worker_count(workers),
            false => workers,
        };
        let checks = checked.then(|| {
            sanitizer::SharedCheckState::new(
                code,
                &geometry,
                extents,
                &bindings,
                workers,
                options.is_exact,
                options.coarse_loads,
                control,
            )
        });
        // Interpret atomic updates if their order must be deterministic or reversed. Only the interpreter's order is
        // the same on all machines, and only the interpreter can reverse it.
        let orders = (control.deterministic || reverse_order) && code.regions.iter().any(lir::LaneRegion::has_atomics);
        let uses_jit = options.uses_jit && code.events.counted_warps.is_none() && !orders;
        let code_source =
            if uses_jit { LaunchTier::for_launch(&version.tier, isa, jit, code, &geometry) } else { None };
        let counting = control.counting.as_ref().filter(|_| code.events.is_profiled());
        let counts = counting.map(|counting| profile::LaunchProfiler::new(code, &geometry, &bindings, counting.blocks));
        let launch = frame::SimLaunch {
            ops,
            code,
            counts,
            geometry: &geometry,
            bindings,
            control,
            workers,
            checks,
            reverse_order,
            isa,
            region_code: code_source.as_ref().map(|code_source| code_source as &dyn RegionCodeSource),
            report: &self.simulator.report,
        };
        let mut result = sched::run(&launch, extents);
        let Some(checks) = &launch.checks else {
            let frame::SimLaunch { counts, bindings, .. } = launch;
            let name = &self.kernel.module.kernel.name;
            let profile = counts.map(|counts| counts.profile(name, extents, &geometry, &bindings));
            return SimRunResult { result, order_mattered: false, is_inconclusive: false, profile };
        };
        if let Ok(output) = &mut result
            && let Some(fault) = checks.lock_inversion()
        {
            result = Err(Box::new(Fault { output: std::mem::take(output), ..*fault }));
        }
        let (order_mattered, is_inconclusive) = (checks.order_mattered(), checks.is_inconclusive());
        if result.is_ok() {
            checks.finish(&launch.bindings, config.larger);
        }
        SimRunResult { result, order_mattered, is_inconclusive, profile: None }
    }

    /// Runs a launch and counts its costs. The first launch of a kernel with given extents also runs with each change
    /// of the kernel that might make it faster, starting from copies of the original arrays.
    fn launch_counted(
        &self,
        config: &LaunchConfig,
        args: &mut [HostArg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        let Some(counting) = &control.counting else {
            return self.run(&self.instrumented, config, args, control, unchecked_options(control)).result;
        };
        let kernel = &self.kernel.module.kernel;
        let of = self.kernel.cost_counting.unwrap_or(CostCounting::Kernel);
        // Changes are suggested only for kernels that the user wrote.
        let new = of == CostCounting::Kernel && !counting.has_profile(&kernel.name, kernel.span, config.extents);
        let size: usize = args.iter_mut().map(|arg| written_bytes(arg).map_or(0, |bytes| bytes.len())).sum();
        let before = (new && size <= MAX_SAVED_FOR_TRIALS).then(|| copy_written_arrays(args));
        let SimRunResult { result, profile, .. } =
            self.run(&self.instrumented, config, args, control, unchecked_options(control));
        let Some(mut profile) = profile.filter(|_| result.is_ok()) else { return result };
        profile.tiled = kernel.tile_program.is_some() || kernel.gemm.is_some();
        profile.of = of;
        match of {
            CostCounting::Kernel => profile.product = profile::product(&self.kernel.module),
            CostCounting::Derivative => {}
            CostCounting::Expression => profile.set_location(config.span),
        }
        if let Some(before) = before {
            self.try_changes(&mut profile, &before, config, args, control);
        }
        counting.add(profile);
        result
    }

    /// Runs a launch again with each change of the kernel that might make it faster, and records the resulting costs.
    fn try_changes(
        &self,
        profile: &mut clk_runtime::profile::Profile,
        before: &[Option<Vec<u8>>],
        config: &LaunchConfig,
        args: &mut [HostArg<'_>],
        control: &Control,
    ) {
        let after = copy_written_arrays(args);
        for change in profile::propose_changes(&self.kernel, profile) {
            let Some(kernel) = profile::apply_change(&self.kernel, &change) else { continue };
            let Ok(compiled) = compile::compile(&kernel, self.simulator.isa, false) else { continue };
            let version = CompiledVersion::new(compiled, vec![], self.simulator.report.clone());
            restore_arrays(args, before);
            let extents = profile::changed_extents(&profile.extents, &change);
            let changed = LaunchConfig { extents, ..*config };
            let ran = self.run(&version, &changed, args, &with_own_warnings(control), unchecked_options(control));
            let (Ok(_), Some(new_profile)) = (ran.result, ran.profile) else { continue };
            let same = copy_written_arrays(args) == after;
            let (before, after) = (profile.totals(), new_profile.totals());
            let accesses = new_profile.accesses;
            profile.trials.push(clk_runtime::profile::ChangeTrial { change, before, after, accesses, same });
        }
        restore_arrays(args, &after);
    }

    fn launch_checked(
        &self,
        config: &LaunchConfig,
        args: &mut [HostArg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        match self.instrumented.code.properties.has_sync {
            true => self.launch_in_both_orders(config, args, control),
            false => self.launch_fast(config, args, control),
        }
    }

    /// Checks a launch whose threads synchronize by fences and atomics. If two accesses do not race only because of
    /// this synchronization, they may race in another order of blocks. So the launch then runs again with the blocks in
    /// reverse order.
    fn launch_in_both_orders(
        &self,
        config: &LaunchConfig,
        args: &mut [HostArg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        let before = copy_written_arrays(args);
        let options =
            RunOptions { workers: 1, is_exact: true, reverse_order: false, uses_jit: false, coarse_loads: false };
        let first = with_own_warnings(control);
        let SimRunResult { mut result, order_mattered, .. } =
            self.run(&self.instrumented, config, args, &first, options);
        if order_mattered && result.is_ok() {
            let after = copy_written_arrays(args);
            restore_arrays(args, &before);
            let options = RunOptions { reverse_order: true, ..options };
            let other = self.run(&self.instrumented, config, args, &with_own_warnings(control), options).result;
            restore_arrays(args, &after);
            if let Err(fault) = other
                && depends_on_block_order(&fault.kind)
            {
                result = result.and_then(|output| Err(Box::new(Fault { output, ..*fault })));
            }
        }
        forward_warnings(control, &first, &result);
        result
    }

    /// Checks a launch on several workers and with machine code. This finds faults quickly, but the reported thread
    /// depends on timing. If there is a fault or a warning, a single worker runs the launch again from the initial
    /// state, so that the reported threads are the same in every launch. After a race, the second run tracks accesses
    /// individually.
    fn launch_fast(
        &self,
        config: &LaunchConfig,
        args: &mut [HostArg<'_>],
        control: &Control,
    ) -> Result<PrintedText, Box<Fault>> {
        let (extents, workers) = (&config.extents, sched::worker_count(control.workers));
        let Simulator { proofs, isa, jit, .. } = self.simulator;
        let (threads, declared) = (thread_count(extents), config.declared);
        let elided = self.elided.for_launch(&self.kernel, &self.instrumented, proofs, isa, jit, threads, declared);
        let version = elided.unwrap_or(&self.instrumented);
        let uses_jit = !version.code.properties.has_polling;
        let options = RunOptions { workers, is_exact: false, reverse_order: false, uses_jit, coarse_loads: false };
        let size = |arg: &mut HostArg<'_>| written_bytes(arg).map_or(0, |bytes| bytes.len());
        // When machine code exits to the interpreter, it may already have recorded accesses to shared arrays. A later
        // fault could then name the wrong threads.
        let checks_shared = sanitizer::checks_shared_arrays(&version.code);
        let size = args.iter_mut().map(size).sum::<usize>();
        let is_race = |fault: &Fault| matches!(fault.kind, FaultKind::Race(_));
        let warned = |control: &Control| control.warnings.lock().is_ok_and(|w| w.iter().any(is_race));
        let repeats = match checks_shared || sanitizer::may_race(&version.code, extents) {
            true => alloc::is_available(size),
            false => size <= MAX_SAVED_FOR_RERUN,
        };
        if !repeats {
            let uses_jit = options.uses_jit && !checks_shared;
            let only = with_own_warnings(control);
            let result = self.run(version, config, args, &only, RunOptions { uses_jit, ..options }).result;
            if result.is_ok() && warned(&only) {
                // A second execution would be needed to decide whether other accesses to these elements conflict.
                alloc::fail(size);
            }
            forward_warnings(control, &only, &result);
            return result;
        }
        let before = copy_written_arrays(args);
        let mut first = with_own_warnings(control);
        let coarse_loads = !self.needs_exact_loads.load(Ordering::Relaxed);
        let mut ran = self.run(version, config, args, &first, RunOptions { coarse_loads, ..options });
        let is_interrupted = |result: &Result<PrintedText, Box<Fault>>| matches!(result, Err(fault) if fault.kind == FaultKind::Interrupted);
        if ran.is_inconclusive && !is_interrupted(&ran.result) {
            // If one launch is inconclusive, most later launches of the kernel would also be inconclusive.
            self.needs_exact_loads.store(true, Ordering::Relaxed);
            restore_arrays(args, &before);
            first = with_own_warnings(control);
            ran = self.run(version, config, args, &first, options);
        }
        let result = ran.result;
        let silent = first.warnings.lock().is_ok_and(|w| w.is_empty());
        if (result.is_ok() && silent) || is_interrupted(&result) {
            return result;
        }
        restore_arrays(args, &before);
        let races = matches!(&result, Err(fault) if is_race(fault));
        let allows_exact = thread_count(extents) <= MAX_EXACT_THREADS
            || races && alloc::is_available(size.saturating_mul(EXACT_CHECK_BYTES));
        // A write replaces the record of earlier accesses in a shadow word. So if one race is harmless, only the exact
        // check can decide whether all races on the element are harmless.
        let is_exact = allows_exact || warned(&first);
        let second = with_own_warnings(control);
        let options = RunOptions { workers: 1, is_exact, reverse_order: false, uses_jit: false, coarse_loads: false };
        let rerun = self.run(&self.instrumented, config, args, &second, options).result;
        // The first execution may report a race as an error although both threads write equal values: with several
        // workers, the first value may not have been in memory yet.
        let benign = warned(&second);
        let result = match result {
            Err(fault) if rerun.is_ok() && !(benign && is_race(&fault)) => Err(fault),
            _ => rerun,
        };
        forward_warnings(control, &second, &result);
        result
    }
}

/// Returns a copy of the launch control with a separate, empty list of warnings.
fn with_own_warnings(control: &Control) -> Control {
    Control { warnings: Arc::default(), ..control.clone() }
}

/// Adds the warnings of one execution to those of the launch. A warning that a race is harmless is dropped if the
/// execution did not complete, because an access that was not executed might have conflicted harmfully.
fn forward_warnings(control: &Control, run: &Control, result: &Result<PrintedText, Box<Fault>>) {
    let (Ok(mut to), Ok(mut from)) = (control.warnings.lock(), run.warnings.lock()) else { return };
    let keep_races = result.is_ok() || control.keep_races;
    from.drain(..)
        .filter(|warning| keep_races || !matches!(warning.kind, FaultKind::Race(_)))
        .for_each(|warning| sanitizer::add_warning(&mut to, warning));
}

/// Maximum number of threads of a launch that runs again with individual tracking after a fault other than a race.
const MAX_EXACT_THREADS: u64 = 1 << 16;

fn thread_count(extents: &LaunchExtents) -> u64 {
    let count = |n: &[u32; 3]| n.iter().fold(1, |count: u64, &n| count.saturating_mul(n.into()));
    match extents {
        LaunchExtents::Threads(n) => count(n),
        LaunchExtents::Grid { grid, block } => count(grid).saturating_mul(count(block)),
    }
}

/// Returns whether a fault that only occurs with blocks in reverse order is reported. Other kinds of faults may be
/// artifacts of that order if the program relies on the usual order.
fn depends_on_block_order(kind: &FaultKind) -> bool {
    use FaultKind::*;
    matches!(kind, Race(_) | Unwritten { .. } | Deadlock { .. } | LockOrder(..))
}

/// Copies the current contents of the arrays that the kernel may write.
fn copy_written_arrays(args: &mut [HostArg<'_>]) -> Vec<Option<Vec<u8>>> {
    args.iter_mut().map(|arg| written_bytes(arg).map(|bytes| alloc::copy(bytes))).collect()
}

fn restore_arrays(args: &mut [HostArg<'_>], copies: &[Option<Vec<u8>>]) {
    for (arg, copy) in args.iter_mut().zip(copies) {
        if let (Some(bytes), Some(copy)) = (written_bytes(arg), copy) {
            bytes.copy_from_slice(copy);
        }
    }
}

/// Returns the bytes of an argument if it is an array that the kernel may write.
fn written_bytes<'b>(arg: &'b mut HostArg<'_>) -> Option<&'b mut [u8]> {
    match arg {
        HostArg::Write { bytes, .. } => Some(bytes),
        HostArg::Value(_) | HostArg::Read { .. } => None,
    }
}

fn bind_arg(arg: &mut HostArg<'_>) -> BoundParam {
    match arg {
        HostArg::Value(values) => BoundParam::Value((*values).into()),
        // The kernel never writes a read-only array; the verifier ensures this.
        HostArg::Read { bytes, shape } => BoundParam::Array {
            ptr: bytes.as_ptr().cast_mut(),
            len: bytes.len(),
            shape: (*shape).into(),
            writable: false,
        },
        HostArg::Write { bytes, shape } => {
            BoundParam::Array { ptr: bytes.as_mut_ptr(), len: bytes.len(), shape: (*shape).into(), writable: true }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_ir::build::{FunctionBuilder, build_module};
    use clk_ir::def::{Access, ElementLayout, LaunchForm};
    use clk_ir::typing::F32;
    use clk_ir::verify::verify;
    use clk_runtime::storage::{FailedMemory, Storage};

    /// Each constant needs a register, and there are at most 2^16 registers.
    #[test]
    #[cfg_attr(miri, ignore = "it compiles 65,536 stores, which takes Miri hours")]
    fn kernels_with_too_many_constants_are_refused() {
        let mut b = FunctionBuilder::new("constants");
        let y = b.array("y", Access::Out, ElementLayout::plain(F32), 1);
        let i = b.index(0);
        for k in 0..=code::NONE.into() {
            let value = b.f32(k as f32);
            b.store(y, &[i], value);
        }
        let module =
            verify(build_module(Default::default(), b, LaunchForm::Threads { rank: 1 })).expect("a sound kernel");
        let kernel = Simulator::default().load(Arc::new(PreparedKernel::new(module, Default::default())), None);
        let mut array = Storage::zeros(8);
        let args = &mut [Arg::ArrayMut { storage: &mut array, shape: vec![2] }];
        let fault = kernel.launch(&LaunchExtents::Threads([2, 1, 1]).into(), args, &Control::default()).unwrap_err();
        let what = DeviceError::REGISTERS;
        assert!(matches!(fault.kind, FaultKind::Device(DeviceError::TooLarge { what: w, .. }) if w == what));
    }

    #[test]
    fn unavailable_arrays_fail_the_launch() {
        let mut b = FunctionBuilder::new("copy");
        let x = b.array("x", Access::In, ElementLayout::plain(F32), 1);
        let y = b.array("y", Access::Out, ElementLayout::plain(F32), 1);
        let i = b.index(0);
        let value = b.load(x, &[i]);
        b.store(y, &[i], value);
        let module =
            verify(build_module(Default::default(), b, LaunchForm::Threads { rank: 1 })).expect("a sound kernel");
        let kernel = Simulator::default().load(Arc::new(PreparedKernel::new(module, Default::default())), None);
        for far in [0, 1] {
            let mut arrays = [Storage::zeros(8), Storage::zeros(8)];
            arrays[far].set_device_copy(Arc::new(FailedMemory::unavailable()));
            let [x, y] = &mut arrays;
            let args = &mut [Arg::Array { storage: x, shape: vec![2] }, Arg::ArrayMut { storage: y, shape: vec![2] }];
            let fault =
                kernel.launch(&LaunchExtents::Threads([2, 1, 1]).into(), args, &Control::default()).unwrap_err();
            assert_eq!(fault.kind, FaultKind::Device(FailedMemory::unavailable().0));
        }
    }
}
