//! Sharded arrays in scripts: `gpus`, `shard`, and launches on sharded arrays.
//!
//! A launch with a sharded argument becomes one launch per shard.
//! [`clk_ir::footprint::partition`] decides along which coordinate, and
//! [`clk_pass::partition`] derives the kernel. Halos of arrays that the kernel reads are exchanged
//! first; halos of written arrays become stale. Arrays that are not sharded are replicated; new arrays are sharded as
//! they are written.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::array::{Array, ElementType, byte_count};
use crate::graph::ExecContext;
use crate::ops::operand;
use crate::problem::{HostResult, RuntimeError};
use crate::shard::sharded::{HaloExchange, ShardState};
use crate::shard::{self, ShardDevices, ShardLayout, Sharded};
use crate::value::HostValue;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{Expr, Kernel};
use clk_compile::advice::FaultOrigin;
use clk_ir::def::{Access, KernelParam};
use clk_ir::footprint::partition::{PartitionCoordinate, PartitionError, ShardedParam};
use clk_ir::{LaunchNumbers, MAX_ELEMENTS, PreparedKernel};
use clk_lower::Instance;
use clk_runtime::storage::Storage;
use clk_runtime::{
    Arg, Device, DeviceError, DeviceKind, DeviceSelector, Executable, Fault, LaunchConfig, LaunchExtents,
    device_diagnostic,
};

use super::builtin::NamedArgs;
use super::context::{Eval, EvalContext, Signal};
use super::eval::named_arg;
use super::frame::HostFrame;
use super::launch::{PreparedArgument, push_value};
use super::launch_cache::LaunchParts;
use super::launch_cache::LaunchSite;
use super::partition_cache::{PartitionArrayArg, PartitionPlan, PartitionPlanKey, kernel_prints};

/// Maximum number of cached partition plans.
const MAX_PLANS: usize = 1024;

/// Maximum number of devices, and of shards of an array.
const MOST_DEVICES: u32 = 1024;

/// An argument of a sharded launch.
enum ShardedArgument {
    Value(HostValue),
    Whole(Array),
    /// A sharded array that is only read.
    Read(Sharded),
    Write(ShardedOutput),
}

/// A sharded array that the launch writes.
struct ShardedOutput {
    /// The index of the kernel's parameter.
    param: u32,
    element: ElementType,
    shape: Vec<usize>,
    layout: ShardLayout,
    state: ShardState,
}

/// Results of a sharded launch: for each parameter, the array if the launch may have written it.
pub(super) type ShardedResults = Vec<Option<HostValue>>;

/// A launch on sharded arrays, and how it is partitioned into one launch for each shard.
struct PartitionedLaunch {
    plan: Arc<PartitionPlan>,
    devices: ShardDevices,
    /// For each argument: the index of its first kernel parameter. A struct has several.
    positions: Vec<u32>,
    instance: Instance,
    /// The kernel for launches on whole arrays, from which the kernels for shards are derived.
    whole: Arc<PreparedKernel>,
}

impl EvalContext<'_> {
    /// Evaluates `gpus(n)`, an array of the device numbers from 0 to `n - 1`. Returns an error if one does not exist.
    pub(super) fn eval_gpus(&mut self, frame: &mut HostFrame, args: &[Expr], span: Span) -> Eval {
        let Some(count) = args.first() else { return Err(self.internal_error(span, "a number of devices")) };
        let device_count = self.eval_integer(frame, count)?;
        let Some(device_count) = u32::try_from(device_count).ok().filter(|n| (1..=MOST_DEVICES).contains(n)) else {
            let diagnostic = Diagnostic::error("E0740", format!("there cannot be {device_count} devices"));
            return Err(self.error(diagnostic.at(count.span, "a number from 1 on is expected")));
        };
        for number in 0..device_count {
            self.open_shard_device(number, span)?;
        }
        let numbers: Vec<i32> = (0..device_count as i32).collect();
        Array::from_items(&numbers).map(HostValue::Array).map_err(|p| self.problem(p, span))
    }

    /// Returns a device by its number: a GPU, or a virtual device of the simulator.
    fn open_shard_device(&mut self, number: u32, span: Span) -> Eval<Arc<dyn Device>> {
        let own = self.interp.options.device.clone();
        let kind = own.capabilities().kind;
        let selector = match kind {
            DeviceKind::Gpu => DeviceSelector::Gpu(Some(number)),
            DeviceKind::Simulator => DeviceSelector::Sim(Some(number)),
        };
        let opened = match &self.interp.device_pool.available {
            Some(devices) => devices.open(selector),
            None if number == 0 => Ok(own),
            None => {
                Err(DeviceError::Unavailable { device: format!("number {number}"), why: "there is one device".into() })
            }
        };
        let device = opened.map_err(|error| {
            let why = device_diagnostic(&error, span).title;
            let diagnostic = Diagnostic::error("E0740", format!("there is no device number {number}"));
            let diagnostic = diagnostic.at(span, "requested here").note(why);
            self.error(match kind {
                DeviceKind::Gpu => diagnostic.help("`clk doctor` lists the GPUs of this machine"),
                DeviceKind::Simulator => diagnostic.help(format!(
                    "the number of virtual devices of the simulator is an option: `--device sim:{}`",
                    number + 1
                )),
            })
        })?;
        if !self.interp.device_pool.shards.iter().any(|known| Arc::ptr_eq(known, &device)) {
            self.interp.device_pool.shards.push(device.clone());
        }
        Ok(device)
    }

    /// Evaluates `shard(x, devices, axis = 0, halo = 0, granule = g)`.
    pub(super) fn eval_shard(&mut self, frame: &mut HostFrame, args: &[Expr], more: NamedArgs<'_>, span: Span) -> Eval {
        let values = self.eval_all(frame, args)?;
        let [HostValue::Array(array), HostValue::Array(devices)] = &values[..] else {
            let values: Vec<&HostValue> = values.iter().collect();
            return Err(self.problem(operand::undefined("`shard`", &values), span));
        };
        let mut option = |name: &str, least: i64| match named_arg(more, name) {
            None => Ok(None),
            Some(expr) => match self.eval_integer(frame, expr)? {
                n if (least..=i64::from(i32::MAX)).contains(&n) || name == "axis" => Ok(Some(n)),
                n => {
                    let diagnostic = Diagnostic::error("E0740", format!("`{name}` cannot be {n}"));
                    Err(self.error(diagnostic.at(expr.span, format!("at least {least} is expected"))))
                }
            },
        };
        let (axis, halo, granule) = (option("axis", 0)?, option("halo", 0)?, option("granule", 1)?);
        let resolved = operand::axis(axis.unwrap_or(0), array.rank(), "`shard`");
        let axis = resolved.map_err(|p| self.problem(p, span))?;
        if devices.count() > MOST_DEVICES as usize {
            let title = format!("an array cannot be cut into {} parts", devices.count());
            let diagnostic = Diagnostic::error("E0740", title).at(span, "one is cut for each device");
            return Err(self.error(diagnostic.note(format!("at most {MOST_DEVICES} parts are possible"))));
        }
        let mut contexts = vec![];
        for at in 0..devices.count() {
            let number = devices.item(at).map_err(|p| self.problem(p, span))?;
            let number = number.and_then(|number| number.as_int()).and_then(|n| u32::try_from(n).ok());
            let Some(number) = number else {
                let diagnostic = Diagnostic::error("E0740", "devices are numbered from 0");
                return Err(self.error(diagnostic.at(span, "one of the numbers is negative")));
            };
            let device = self.open_shard_device(number, span)?;
            let context = ExecContext::new(device, &self.interp.options.control, self.interp.expressions.clone());
            contexts.push(context.at(span));
        }
        if contexts.is_empty() {
            let diagnostic = Diagnostic::error("E0740", "an array cannot be cut into no parts");
            return Err(self.error(diagnostic.at(span, "no device is given").help("`gpus(n)` gives the first `n`")));
        }
        let team = ShardDevices { contexts: contexts.into(), counters: self.interp.device_pool.shard_counters.clone() };
        let size = |n: Option<i64>| n.map(|n| n as usize);
        let (halo, granule) = (size(halo).unwrap_or(0), size(granule));
        let layout = ShardLayout::even(axis, array.shape()[axis], team.contexts.len(), halo, granule);
        shard::shard(array, &layout, &team).map(HostValue::Array).map_err(|p| self.problem(p, span))
    }

    /// Launches a kernel on sharded arrays. Even after an error, returns the arrays that the launch may have written.
    pub(super) fn launch_sharded(
        &mut self,
        site: LaunchSite<'_>,
        inner: &HostFrame,
        parts: LaunchParts<'_>,
        prepared_args: Vec<PreparedArgument>,
    ) -> (ShardedResults, Eval<()>) {
        let span = site.span;
        let written = |prepared_args: &[PreparedArgument]| -> ShardedResults {
            prepared_args.iter().map(PreparedArgument::output_array).collect()
        };
        let partitioned = match self.partition_launch(site, inner, parts, &prepared_args) {
            Ok(partitioned) => partitioned,
            Err(signal) => return (written(&prepared_args), Err(signal)),
        };
        let PartitionedLaunch { plan, devices: team, positions, .. } = &partitioned;
        // Halo exchanges begin before the outputs are prepared, because an `inout` array needs its halos.
        let exchanges = match begin_halo_exchanges(plan, &prepared_args, positions) {
            Ok(exchanges) => exchanges,
            Err(problem) => return (written(&prepared_args), Err(self.problem(problem, span))),
        };
        let mut slots = match sharded_arguments(plan, team, prepared_args, positions) {
            Ok(slots) => slots,
            Err(problem) => return (vec![], Err(self.problem(problem, span))),
        };
        team.counters.launches.fetch_add(1, Ordering::Relaxed);
        // All uploads precede all launches; otherwise the uploads would wait for launches.
        let mut ran = upload_shared_arrays(&slots, team, plan).map_err(|problem| self.problem(problem, span));
        let stages = if ran.is_ok() { self.stages(plan, exchanges) } else { vec![] };
        for (ranges, exchanged) in stages {
            let waited = exchanged.into_iter().try_for_each(HaloExchange::finish);
            ran = waited.map_err(|problem| self.problem(problem, span));
            for (part, range) in ranges.iter().enumerate().filter(|(_, range)| !range.is_empty()) {
                if ran.is_ok() {
                    ran = self.run_part(&partitioned, parts, part, range, &mut slots, span);
                }
            }
            if ran.is_err() {
                break;
            }
        }
        let mut left = ShardedResults::with_capacity(slots.len());
        for slot in slots {
            left.push(match slot {
                ShardedArgument::Write(ShardedOutput { element, shape, layout, state, .. }) => {
                    let state = ShardState { fresh: false, ..state };
                    match Sharded::into_array(element, &shape, layout, team.clone(), state) {
                        Ok(array) => Some(HostValue::Array(array)),
                        Err(problem) => {
                            ran = ran.and(Err(self.problem(problem, span)));
                            Some(HostValue::Unit)
                        }
                    }
                }
                _ => None,
            });
        }
        (left, ran)
    }

    /// Returns the stages in which a launch runs. Each has the range of indices or blocks for each shard, and the halo
    /// exchanges to finish before the stage. The first stage computes the interior of all shards, which needs no halo,
    /// so that it overlaps with the exchanges.
    fn stages(&self, plan: &PartitionPlan, exchanges: Vec<HaloExchange>) -> Vec<(Vec<Range<u32>>, Vec<HaloExchange>)> {
        // Launches with checks run in one stage, because checks need all threads of a shard in one launch.
        let checked = self.interp.options.control.checks.any();
        if exchanges.is_empty() || checked || plan.interior.iter().all(Range::is_empty) {
            return vec![(plan.ranges.clone(), exchanges)];
        }
        let sides = plan.ranges.iter().zip(&plan.interior);
        let (before, behind) = sides.map(|(all, inner)| (all.start..inner.start, inner.end..all.end)).unzip();
        vec![(plan.interior.clone(), vec![]), (before, exchanges), (behind, vec![])]
    }

    /// Chooses the coordinate along which a launch is partitioned, and the range of each shard. Returns an error if the
    /// launch cannot be partitioned.
    fn partition_launch(
        &mut self,
        site: LaunchSite<'_>,
        inner: &HostFrame,
        parts: LaunchParts<'_>,
        prepared_args: &[PreparedArgument],
    ) -> Eval<PartitionedLaunch> {
        let LaunchSite { launch, kernel, span } = site;
        let LaunchParts { extents, hidden, .. } = parts;
        let instance = Instance { sums: self.mma_precision(), ..Instance::new(launch.kernel, inner.generics.to_vec()) };
        let refuse = |why: &str| -> PartitionError { PartitionError::Other { span: None, why: why.into() } };
        let refused = |machine: &Self, refusal: PartitionError| machine.partition_error(kernel, &refusal, span);
        let mut team: Option<ShardDevices> = None;
        let (mut arrays, mut values, mut positions, mut position) = (vec![], vec![], vec![], 0);
        for (i, item) in prepared_args.iter().enumerate() {
            positions.push(position);
            match item {
                PreparedArgument::Array(array, writes) => {
                    let sharded = shard::as_sharded(array);
                    if let Some(sharded) = &sharded {
                        let own = sharded.team();
                        if team.as_ref().is_some_and(|team| !team.has_same_devices(own)) {
                            return Err(refused(self, refuse("its arrays are on different devices")));
                        }
                        team.get_or_insert_with(|| own.clone());
                    }
                    arrays.push(PartitionArrayArg {
                        param: position,
                        shape: array.shape().to_vec(),
                        layout: sharded.map(|sharded| sharded.layout().clone()),
                        is_new: *writes && !matches!(launch.args.get(i), Some(Some(_))),
                    });
                    position += 1;
                }
                PreparedArgument::Value(value) => {
                    let mut args = vec![];
                    push_value(&mut args, value).map_err(|p| self.problem(p, span))?;
                    for arg in args {
                        record_integer(&mut values, position, &arg);
                        position += 1;
                    }
                }
            }
        }
        for value in hidden {
            let mut args = vec![];
            push_value(&mut args, value).map_err(|p| self.problem(p, span))?;
            for arg in args {
                record_integer(&mut values, position, &arg);
                position += 1;
            }
        }
        let Some(team) = team else { return Err(self.internal_error(span, "a launch without parts")) };
        let (grid, block) = match extents {
            LaunchExtents::Threads(sizes) => (sizes, [1; 3]),
            LaunchExtents::Grid { grid, block } => (grid, block),
        };
        let key = PartitionPlanKey { instance: instance.clone(), extents, arrays, values };
        // This check depends on dimensions that are not part of the key, so it precedes the cache.
        let counts = key.arrays.iter().map(|array| array.shape.iter().product::<usize>() as u64);
        match self.largest_extent(launch, kernel, inner, counts) {
            None => return Err(refused(self, refuse("it has a geometry of its own"))),
            Some(largest) if largest > MAX_ELEMENTS => {
                return Err(refused(self, refuse("its arrays are too large for the partitioning proof")));
            }
            Some(_) => {}
        }
        let whole = self.whole_kernel(&instance, span)?;
        // Most plans do not depend on the values of integer arguments. They are cached under a key without values, so
        // that a launch in a loop with a changing argument finds its plan.
        let any = PartitionPlanKey { values: vec![], ..key.clone() };
        let cuts = &self.interp.device_pool.kernels.partition_plans;
        if let Some(plan) = cuts.get(&any).or_else(|| cuts.get(&key)) {
            return Ok(PartitionedLaunch { plan: plan.clone(), devices: team, positions, instance, whole });
        }
        if whole.module.kernel.cooperative {
            return Err(refused(self, refuse("its blocks wait for each other at a barrier of the grid")));
        }
        if kernel_prints(&whole) {
            return Err(refused(self, refuse("it prints, in the order of its blocks")));
        }
        let Some(declared) = &whole.declared_launches else {
            return Err(refused(self, refuse("its launches cannot be analyzed")));
        };
        let extent = |param: u32, axis: u8| {
            let array_arg = key.arrays.iter().find(|array| array.param == param);
            array_arg.and_then(|array| array.shape.get(axis as usize)).map(|&n| n as i128)
        };
        let value = |param: u32| key.values.iter().find(|(of, _)| *of == param).map(|(_, n)| *n);
        let numbers = LaunchNumbers { extent: &extent, value: &value, grid, block };
        let without = LaunchNumbers { extent: &extent, value: &|_| None, grid, block };
        let cut = |array: &PartitionArrayArg| {
            let ShardLayout { axis, halo, cuts } = array.layout.as_ref()?;
            Some(ShardedParam { param: array.param, axis: *axis as u8, boundaries: cuts.to_vec(), halo: *halo })
        };
        let cuts: Vec<ShardedParam> = key.arrays.iter().filter_map(cut).collect();
        let new: Vec<u32> = key.arrays.iter().filter(|array| array.is_new).map(|array| array.param).collect();
        let (key, parted, numbers) = match declared.partition(&whole.module, &without, &cuts, &new) {
            Ok(parted) => (any, Ok(parted), &without),
            Err(_) => (key.clone(), declared.partition_this_launch(&whole.module, &numbers, &cuts, &new), &numbers),
        };
        let partition = parted.map_err(|refusal| refused(self, refusal))?;
        let plan = Arc::new(PartitionPlan { partition, fully_written: declared.written(&whole.module, numbers) });
        if self.interp.device_pool.kernels.partition_plans.len() >= MAX_PLANS {
            self.interp.device_pool.kernels.partition_plans.clear();
        }
        self.interp.device_pool.kernels.partition_plans.insert(key, plan.clone());
        Ok(PartitionedLaunch { plan, devices: team, positions, instance, whole })
    }

    /// Returns the kernel for launches on whole arrays, from which the kernels for shards are derived.
    fn whole_kernel(&mut self, instance: &Instance, span: Span) -> Eval<Arc<PreparedKernel>> {
        if let Some(known) = self.interp.device_pool.kernels.whole_kernels.get(instance) {
            return Ok(known.clone());
        }
        let compiled = clk_compile::compile_kernel(self.program, instance, self.active_checks());
        let prepared = Arc::new(compiled.map_err(|d| self.first_error(d, span))?);
        self.interp.device_pool.kernels.whole_kernels.insert(instance.clone(), prepared.clone());
        Ok(prepared)
    }

    /// Returns the kernel for a shard, loaded on its device.
    fn part_kernel(
        &mut self,
        plan: &PartitionPlan,
        whole: &PreparedKernel,
        instance: &Instance,
        device: &Arc<dyn Device>,
        span: Span,
    ) -> Eval<Arc<dyn Executable>> {
        let axes: Vec<(u32, u8)> = plan.arrays.iter().map(|array| (array.param, array.axis)).collect();
        let at = Arc::as_ptr(device).cast::<()>().addr();
        let key = (instance.clone(), plan.coordinate, axes, plan.in_bounds, at);
        if let Some(known) = self.interp.device_pool.kernels.part_kernels.get(&key) {
            return Ok(known.clone());
        }
        let module = clk_pass::partition::build_part_kernel(&whole.module, plan.coordinate, &key.2);
        let prepared = clk_pass::prepare_for(module, whole.checks);
        let mut prepared = prepared.map_err(|why| {
            let diagnostic = Diagnostic::error("E0999", "internal error: a compiler pass broke a kernel");
            self.error(
                diagnostic.at(span, "launched here").note(why.to_string()).help("please report this as a bug of Clk"),
            )
        })?;
        prepared.in_bounds = plan.in_bounds;
        let executable = device.load(Arc::new(prepared), Some(self.sources));
        self.interp.device_pool.kernels.part_kernels.insert(key, executable.clone());
        Ok(executable)
    }

    /// Launches the kernel for shard `part` on a range of the partitioned coordinate.
    fn run_part(
        &mut self,
        partitioned: &PartitionedLaunch,
        parts: LaunchParts<'_>,
        part: usize,
        range: &Range<u32>,
        slots: &mut [ShardedArgument],
        span: Span,
    ) -> Eval<()> {
        let PartitionedLaunch { plan, devices: team, instance, whole, .. } = partitioned;
        let LaunchParts { extents, hidden, .. } = parts;
        let exec = &self.exec.on(&team.contexts[part]);
        let executable = self.part_kernel(plan, whole, instance, exec.device(), span)?;
        let (mut extents, mut blocks) = (extents, 0);
        match (&mut extents, plan.coordinate) {
            (LaunchExtents::Threads(sizes), PartitionCoordinate::Index(k)) => {
                sizes[usize::from(k)] = range.len() as u32
            }
            (LaunchExtents::Grid { grid, .. }, PartitionCoordinate::Block(k)) => {
                blocks = std::mem::replace(&mut grid[usize::from(k)], range.len() as u32);
            }
            _ => return Err(self.internal_error(span, "a launch that is cut along no coordinate of it")),
        }
        let number = |n: usize| Arg::Value(vec![clk_scalar::ScalarValue::of(n as i32)]);
        let mut more = vec![number(range.start as usize)];
        if matches!(plan.coordinate, PartitionCoordinate::Block(_)) {
            more.push(number(blocks as usize));
        }
        // Memory checks require that a launch writes all elements of an `out` array. A shard does not write its halo,
        // the rows of its neighbors, so it is launched on an `out` array without halo.
        let checked = self.interp.options.control.checks.memory;
        let lacks_halo =
            |param: u32| checked && whole.module.kernel.params[param as usize].access() == Some(Access::Out);
        for array in &plan.arrays {
            let halo = if lacks_halo(array.param) { 0 } else { array.halo };
            let start = array.boundaries[part].saturating_sub(halo);
            let len = array.boundaries.last().copied().unwrap_or(0);
            more.extend([number(start), number(len)]);
        }
        let mut own = own_rows(exec, slots, part, &lacks_halo).map_err(|p| self.problem(p, span))?;
        // Arrays that this shard reads: replicas of unsharded arrays, and its shards. They must live until the launch
        // is issued.
        let copies: Result<Vec<Option<Array>>, RuntimeError> = slots
            .iter()
            .map(|slot| match slot {
                ShardedArgument::Whole(array) => shard::replicate(array, exec).map(Some),
                ShardedArgument::Read(sharded) => Ok(Some(sharded.part(part))),
                ShardedArgument::Value(_) | ShardedArgument::Write(_) => Ok(None),
            })
            .collect();
        let copies = copies.map_err(|p| self.problem(p, span))?;
        let control = &self.interp.options.control;
        let result = (|| {
            let mut args = vec![];
            for ((slot, copy), own) in slots.iter_mut().zip(&copies).zip(&mut own) {
                match (slot, copy) {
                    (ShardedArgument::Value(value), _) => push_value(&mut args, value)?,
                    (ShardedArgument::Write(cut), _) => {
                        let array = own.as_mut().unwrap_or(&mut cut.state.parts[part]);
                        let shape = array.extents();
                        args.push(Arg::ArrayMut { storage: array.storage_mut()?, shape });
                    }
                    (_, Some(array)) => args.push(Arg::Array { storage: array.storage()?, shape: array.extents() }),
                    (_, None) => {}
                }
            }
            hidden.iter().try_for_each(|value| push_value(&mut args, value))?;
            args.extend(more);
            let config = LaunchConfig { is_part: true, ..LaunchConfig::new(extents, span) };
            Ok(executable.launch(&config, &mut args, control))
        })();
        write_rows_back(exec, slots, part, own).map_err(|p| self.problem(p, span))?;
        match result {
            Ok(Ok(output)) => {
                self.collect_device_warnings(FaultOrigin::new(self.program, None, span));
                self.print_output(&output);
                Ok(())
            }
            Ok(Err(fault)) => Err(self.part_fault(&fault, plan, whole, part, range.start, span)),
            Err(problem) => Err(self.problem(problem, span)),
        }
    }

    /// Returns the error for a fault in the launch of a shard. Its note tells where the shard begins in the whole
    /// launch, because the indices in the error are relative to the shard.
    fn part_fault(
        &mut self,
        fault: &Fault,
        plan: &PartitionPlan,
        whole: &PreparedKernel,
        part: usize,
        start: u32,
        span: Span,
    ) -> Signal {
        let mut begins = vec![];
        if start > 0 {
            begins.push(match plan.coordinate {
                PartitionCoordinate::Index(k) => format!("index {k} at {start}"),
                PartitionCoordinate::Block(k) => {
                    format!("block_idx.{} at {start}", ["x", "y", "z"][usize::from(k).min(2)])
                }
            });
        }
        for array in &plan.arrays {
            let first = array.boundaries[part].saturating_sub(array.halo);
            if let Some(KernelParam::Array { name, .. }) = whole.module.kernel.params.get(array.param as usize) {
                begins.push(format!("`{name}` at row {first}"));
            }
        }
        let note = format!("these indices are relative to part {part}, which begins with {}", begins.join(", "));
        self.fault_error(fault, FaultOrigin::new(self.program, None, span), vec![note])
    }

    /// Returns the error for a launch that cannot be partitioned.
    fn partition_error(&self, kernel: &Kernel, refusal: &PartitionError, span: Span) -> Signal {
        let name = &kernel.name;
        let unshard = "`gather(x)` puts an array together, for a launch on one device";
        self.error(match refusal {
            PartitionError::OutsideShard {
                span: at,
                name: array,
                axis,
                writes,
                halo,
                sufficient_halo,
                part,
                unknowns,
            } => {
                let access = if *writes { "write" } else { "read" };
                let title = format!("a launch of `{name}` cannot be cut: a {access} of `{array}` may leave its part");
                let holds = match (*writes, *halo) {
                    (true, _) => "a part may only write the rows that it owns".to_string(),
                    (false, 0) => "a part only has its own rows".to_string(),
                    (false, halo) => format!("a part has its own rows and {halo} on each side"),
                };
                let mut diagnostic = Diagnostic::error("E0741", title)
                    .at(span, "launched here, on a sharded array")
                    .because(*at, format!("in part {part}, the index along axis {axis} may be outside: {holds}"));
                for (why, place) in unknowns {
                    diagnostic = diagnostic.because(*place, format!("the index depends on a value {why}"));
                }
                match sufficient_halo {
                    Some(enough) => diagnostic.help(format!("a halo would do: `shard({array}, …, halo = {enough})`")),
                    None if *writes => diagnostic.help("have each thread write its own row").help(unshard),
                    None => diagnostic
                        .help(format!("no halo is large enough; if each part needs all of it, pass `gather({array})`")),
                }
            }
            PartitionError::StraddlesBoundary { span: at, name: array, granule, boundary: cut } => {
                let title = format!("a launch of `{name}` cannot be cut: a block spans the boundary between two parts");
                Diagnostic::error("E0743", title)
                    .at(span, "launched here, on a sharded array")
                    .because(*at, format!("a block writes {granule} rows of `{array}`, which is cut at row {cut}"))
                    .help(format!("cut at multiples of that: `shard({array}, …, granule = {granule})`"))
            }
            PartitionError::UnshardedWrite { span: at, name: array } => {
                let title = format!("a launch of `{name}` cannot be cut: `{array}`, which is not sharded, is written");
                Diagnostic::error("E0742", title)
                    .at(span, "launched here, on a sharded array")
                    .because(*at, "all parts would write it")
                    .help(format!("shard `{array}` in the same way, or leave the argument out"))
                    .help(unshard)
            }
            PartitionError::Other { span: at, why } => {
                let title = format!("a launch of `{name}` cannot be cut: {why}");
                let mut diagnostic = Diagnostic::error("E0742", title).at(span, "launched here, on a sharded array");
                if let Some(at) = at {
                    diagnostic = diagnostic.because(*at, "because of this access");
                }
                diagnostic.help(unshard)
            }
        })
    }
}

impl PreparedArgument {
    /// Returns whether the argument is a sharded array.
    pub(super) fn is_sharded(&self) -> bool {
        matches!(self, PreparedArgument::Array(array, _) if shard::as_sharded(array).is_some())
    }

    /// If the argument is an array that the kernel may write, returns the array.
    fn output_array(&self) -> Option<HostValue> {
        match self {
            PreparedArgument::Array(array, true) => Some(HostValue::Array(array.clone())),
            _ => None,
        }
    }
}

/// Uploads the arrays that all shards read to each device.
fn upload_shared_arrays(slots: &[ShardedArgument], team: &ShardDevices, plan: &PartitionPlan) -> HostResult<()> {
    for (exec, _) in team.contexts.iter().zip(&plan.ranges).filter(|(_, range)| !range.is_empty()) {
        for slot in slots {
            if let ShardedArgument::Whole(array) = slot {
                let copy = shard::replicate(array, exec)?;
                let storage = copy.storage()?;
                exec.device().memory().map_or(Ok(()), |memory| memory.upload(storage))?;
            }
        }
    }
    Ok(())
}

/// For each output that is launched without its halo (`lacks_halo`): returns a copy of the rows that shard `part` owns.
fn own_rows(
    exec: &ExecContext,
    slots: &[ShardedArgument],
    part: usize,
    lacks_halo: &dyn Fn(u32) -> bool,
) -> Result<Vec<Option<Array>>, RuntimeError> {
    let own = |slot: &ShardedArgument| match slot {
        ShardedArgument::Write(cut) if cut.layout.halo > 0 && lacks_halo(cut.param) => {
            let (held, own) = (cut.layout.rows_with_halo(part), cut.layout.owned_rows(part));
            let local = own.start - held.start..own.end - held.start;
            shard::slice_rows(exec, &cut.state.parts[part], cut.layout.axis, local).map(Some)
        }
        _ => Ok(None),
    };
    slots.iter().map(own).collect()
}

/// Writes the rows that [`own_rows`] returned back to their shards.
fn write_rows_back(
    exec: &ExecContext,
    slots: &mut [ShardedArgument],
    part: usize,
    rows: Vec<Option<Array>>,
) -> Result<(), RuntimeError> {
    for (slot, own) in slots.iter_mut().zip(rows) {
        if let (ShardedArgument::Write(cut), Some(own)) = (slot, own) {
            let at = cut.layout.owned_rows(part).start - cut.layout.rows_with_halo(part).start;
            shard::write_rows(exec, &mut cut.state.parts[part], cut.layout.axis, at, &own)?;
        }
    }
    Ok(())
}

/// If the argument is an integer, appends its parameter index and its value.
fn record_integer(values: &mut Vec<(u32, i128)>, position: u32, arg: &Arg<'_>) {
    if let Arg::Value(lanes) = arg
        && let [value] = &lanes[..]
        && let Some(n) = value.as_integer()
    {
        values.push((position, n));
    }
}

/// Starts to exchange the halos of arrays that the kernel reads. Completes the exchange at once for arrays that it also
/// writes.
fn begin_halo_exchanges(
    plan: &PartitionPlan,
    prepared_args: &[PreparedArgument],
    positions: &[u32],
) -> HostResult<Vec<HaloExchange>> {
    let mut begun = vec![];
    for (item, position) in prepared_args.iter().zip(positions) {
        let PreparedArgument::Array(array, writes) = item else { continue };
        if let Some(sharded) = shard::as_sharded(array).filter(|_| plan.halos.contains(position)) {
            match writes {
                true => sharded.exchange_halos()?,
                false => begun.extend(sharded.begin_exchange()?),
            }
        }
    }
    Ok(begun)
}

/// Converts prepared arguments to arguments of a sharded launch, and allocates the shards of new outputs.
fn sharded_arguments(
    plan: &PartitionPlan,
    team: &ShardDevices,
    prepared_args: Vec<PreparedArgument>,
    positions: &[u32],
) -> HostResult<Vec<ShardedArgument>> {
    let mut slots = Vec::with_capacity(prepared_args.len());
    for (item, position) in prepared_args.into_iter().zip(positions) {
        let (array, writes) = match item {
            PreparedArgument::Value(value) => {
                slots.push(ShardedArgument::Value(value));
                continue;
            }
            PreparedArgument::Array(array, writes) => (array, writes),
        };
        let cut = plan.arrays.iter().find(|cut| cut.param == *position);
        slots.push(match (cut, shard::as_sharded(&array)) {
            (None, _) => ShardedArgument::Whole(array),
            (Some(_), Some(sharded)) if !writes => ShardedArgument::Read(sharded),
            (Some(cut), sharded) => {
                let (element, shape) = (array.element().clone(), array.shape().to_vec());
                let layout =
                    ShardLayout { axis: cut.axis as usize, halo: cut.halo, cuts: cut.boundaries.clone().into() };
                let state = match sharded {
                    Some(sharded) => sharded.parts(),
                    None => {
                        let filled = plan.fully_written.contains(&cut.param);
                        let part = |part: usize| {
                            let mut own = shape.clone();
                            own[layout.axis] = layout.rows_with_halo(part).len();
                            new_part(&element, &own, filled && team.contexts[part].device().memory().is_some())
                        };
                        ShardState { parts: (0..layout.parts()).map(part).collect::<HostResult<_>>()?, fresh: true }
                    }
                };
                ShardedArgument::Write(ShardedOutput { param: cut.param, element, shape, layout, state })
            }
        });
        // `array` is dropped here. The output then has the only reference to its shards, which are written in place.
    }
    Ok(slots)
}

/// Creates a shard of a new output. If `filled`, its memory is not initialized: the kernel overwrites all rows that the
/// shard owns, and halo rows are exchanged before they are read.
fn new_part(element: &ElementType, shape: &[usize], filled: bool) -> HostResult<Array> {
    if !filled {
        return Array::unplaced(element.clone(), shape);
    }
    let storage = Storage::unset(byte_count(element, shape)?);
    Array::with_storage(element.clone(), shape, storage)
}
