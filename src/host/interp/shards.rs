//! Arrays on several devices in scripts: `gpus`, `shard`, `gather`, and launches on the parts of arrays.
//!
//! A launch with a sharded argument is cut into one launch for each part: [`parts`](crate::ir::footprint::parts) says along which coordinate, or why
//! not, and [`part`](crate::pass::part) makes the kernel of a part. Halos that are read are exchanged first; those of what is written are stale behind
//! it. Arrays that are not sharded are read by all parts; those that the launch makes are cut as they are written.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Expr, Kernel, Launch};
use crate::compile;
use crate::device::storage::Storage;
use crate::device::{Arg, Control, Device, DeviceError, Executable, Extents, Fault, Wanted, device_diagnostic};
use crate::host::array::{Array, Element, byte_count};
use crate::host::graph::Site;
use crate::host::ops::operand;
use crate::host::problem::{Outcome, Problem};
use crate::host::shard::value::{Exchange, State};
use crate::host::shard::{self, Layout, Sharded, Team};
use crate::host::value::Value;
use crate::ir::def::{Access, KernelParam};
use crate::ir::footprint::parts::{Coordinate, CutArray, Refusal};
use crate::ir::{MOST_ELEMENTS, Numbers, Prepared};
use crate::lower::Instance;
use crate::pass;

use super::builtin::Named;
use super::cuts::{ArrayArg, Plan, PlanKey, prints};
use super::eval::named;
use super::frame::Frame;
use super::launch::{Passed, push_value};
use super::machine::{Eval, Machine, Signal};

/// Launches whose cuts are remembered.
const KEPT: usize = 1024;

/// The largest number of devices, and of parts of an array.
const MOST_DEVICES: u32 = 1024;

/// An argument of a launch in parts.
enum Slot {
    Value(Value),
    Whole(Array),
    /// A cut array that is only read.
    Read(Sharded),
    Write(Cut),
}

/// A cut array while it is written.
struct Cut {
    /// The position of the argument in the kernel.
    param: u32,
    element: Element,
    shape: Vec<usize>,
    layout: Layout,
    state: State,
}

/// What a launch in parts leaves: the arrays that it may have written, by parameter.
pub(super) type Left = Vec<Option<Value>>;

impl Machine<'_> {
    /// `gpus(n)`: the numbers of devices, which there have to be.
    pub(super) fn gpus(&mut self, frame: &mut Frame, args: &[Expr], span: Span) -> Eval {
        let Some(count) = args.first() else { return Err(self.broken(span, "a number of devices")) };
        let wanted = self.integer(frame, count)?;
        let Some(wanted) = u32::try_from(wanted).ok().filter(|n| (1..=MOST_DEVICES).contains(n)) else {
            let diagnostic = Diagnostic::error("E0740", format!("there cannot be {wanted} devices"));
            return Err(self.error(diagnostic.at(count.span, "a number from 1 on is expected")));
        };
        for number in 0..wanted {
            self.member(number, span)?;
        }
        let numbers: Vec<i32> = (0..wanted as i32).collect();
        Array::from_items(&numbers).map(Value::Array).map_err(|p| self.problem(p, span))
    }

    /// Returns a device by its number: a GPU, or a virtual device of the simulator.
    fn member(&mut self, number: u32, span: Span) -> Eval<Arc<dyn Device>> {
        let own = self.interp.options.device.clone();
        let far = own.is_remote();
        let wanted = if far { Wanted::Gpu(Some(number)) } else { Wanted::Sim(Some(number)) };
        let opened = match &self.interp.devices {
            Some(devices) => devices.open(wanted),
            None if number == 0 => Ok(own),
            None => {
                Err(DeviceError::Unavailable { device: format!("number {number}"), why: "there is one device".into() })
            }
        };
        let device = opened.map_err(|error| {
            let why = device_diagnostic(&error, span).title;
            let diagnostic = Diagnostic::error("E0740", format!("there is no device number {number}"));
            let diagnostic = diagnostic.at(span, "asked for here").note(why);
            self.error(match far {
                true => diagnostic.help("`clk doctor` lists the GPUs of this machine"),
                false => diagnostic.help(format!(
                    "the simulator has as many virtual devices as it is given: `--device sim:{}`",
                    number + 1
                )),
            })
        })?;
        if !self.interp.members.iter().any(|known| Arc::ptr_eq(known, &device)) {
            self.interp.members.push(device.clone());
        }
        Ok(device)
    }

    /// `shard(x, devices, axis = 0, halo = 0, granule = g)`
    pub(super) fn shard(&mut self, frame: &mut Frame, args: &[Expr], more: Named<'_>, span: Span) -> Eval {
        let values = self.values(frame, args)?;
        let [Value::Array(array), Value::Array(devices)] = &values[..] else {
            let values: Vec<&Value> = values.iter().collect();
            return Err(self.problem(operand::undefined("`shard`", &values), span));
        };
        let mut given = |name: &str, least: i64| match named(more, name) {
            None => Ok(None),
            Some(expr) => match self.integer(frame, expr)? {
                n if (least..=i64::from(i32::MAX)).contains(&n) || name == "axis" => Ok(Some(n)),
                n => {
                    let diagnostic = Diagnostic::error("E0740", format!("`{name}` cannot be {n}"));
                    Err(self.error(diagnostic.at(expr.span, format!("at least {least} is expected"))))
                }
            },
        };
        let (axis, halo, granule) = (given("axis", 0)?, given("halo", 0)?, given("granule", 1)?);
        let settled = operand::axis(axis.unwrap_or(0), array.rank(), "`shard`");
        let axis = settled.map_err(|p| self.problem(p, span))?;
        if devices.count() > MOST_DEVICES as usize {
            let title = format!("an array cannot be cut into {} parts", devices.count());
            let diagnostic = Diagnostic::error("E0740", title).at(span, "one is cut for each device");
            return Err(self.error(diagnostic.note(format!("at most {MOST_DEVICES} parts are possible"))));
        }
        let mut sites = vec![];
        for at in 0..devices.count() {
            let number = devices.item(at).map_err(|p| self.problem(p, span))?;
            let number = number.and_then(|number| number.as_int()).and_then(|n| u32::try_from(n).ok());
            let Some(number) = number else {
                let diagnostic = Diagnostic::error("E0740", "devices are numbered from 0");
                return Err(self.error(diagnostic.at(span, "one of the numbers is negative")));
            };
            let device = self.member(number, span)?;
            sites.push(Site::new(device, &self.interp.options.control, self.interp.expressions.clone()));
        }
        if sites.is_empty() {
            let diagnostic = Diagnostic::error("E0740", "an array cannot be cut into no parts");
            return Err(self.error(diagnostic.at(span, "no device is given").help("`gpus(n)` gives the first `n`")));
        }
        let team = Team { sites: sites.into(), counts: self.interp.shards.clone() };
        let size = |n: Option<i64>| n.map(|n| n as usize);
        let (halo, granule) = (size(halo).unwrap_or(0), size(granule));
        let layout = Layout::even(axis, array.shape()[axis], team.sites.len(), halo, granule);
        shard::shard(array, &layout, &team).map(Value::Array).map_err(|p| self.problem(p, span))
    }

    /// Launches on the parts of arrays. An error comes with the arrays that may have been written.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn launch_in_parts(
        &mut self,
        launch: &Launch,
        kernel: &Kernel,
        inner: &Frame,
        extents: Extents,
        passed: Vec<Passed>,
        hidden: &[Value],
        span: Span,
    ) -> (Left, Eval<()>) {
        let instance = Instance { sums: self.sums(), ..Instance::new(launch.kernel, inner.generics.to_vec()) };
        let written = |passed: &[Passed]| -> Left { passed.iter().map(Passed::written).collect() };
        let prepared = self.cut(launch, kernel, inner, extents, &passed, hidden, &instance, span);
        let (plan, team, positions, whole) = match prepared {
            Ok(prepared) => prepared,
            Err(signal) => return (written(&passed), Err(signal)),
        };
        // Begun before what is written is looked at: of an array that is both, the halos have to be there.
        let exchanges = match exchanges(&plan, &passed, &positions) {
            Ok(exchanges) => exchanges,
            Err(problem) => return (written(&passed), Err(self.problem(problem, span))),
        };
        let mut slots = match slots((&plan, &team), passed, &positions) {
            Ok(slots) => slots,
            Err(problem) => return (vec![], Err(self.problem(problem, span))),
        };
        team.counts.launches.fetch_add(1, Ordering::Relaxed);
        let cut = (&team, &*whole, &instance);
        // Copied before anything is launched, behind which the copies would wait.
        let mut ran = have(&slots, &team, &plan).map_err(|problem| self.problem(problem, span));
        let stages = if ran.is_ok() { self.stages(&plan, exchanges) } else { vec![] };
        for (ranges, exchanged) in stages {
            let waited = exchanged.into_iter().try_for_each(Exchange::finish);
            ran = waited.map_err(|problem| self.problem(problem, span));
            for (part, range) in ranges.iter().enumerate().filter(|(_, range)| !range.is_empty()) {
                if ran.is_ok() {
                    ran = self.run_part(&plan, (part, range), cut, extents, (&mut slots, hidden), span);
                }
            }
            if ran.is_err() {
                break;
            }
        }
        let mut left = Left::with_capacity(slots.len());
        for slot in slots {
            left.push(match slot {
                Slot::Write(Cut { element, shape, layout, state, .. }) => {
                    let state = State { fresh: false, ..state };
                    match Sharded::array(element, &shape, layout, team.clone(), state) {
                        Ok(array) => Some(Value::Array(array)),
                        Err(problem) => {
                            ran = ran.and(Err(self.problem(problem, span)));
                            Some(Value::Unit)
                        }
                    }
                }
                _ => None,
            });
        }
        (left, ran)
    }

    /// Returns what is launched, one after the other, and the exchanges of halos that are finished before each: the interior of all parts
    /// does not wait for them.
    fn stages(&self, plan: &Plan, exchanges: Vec<Exchange>) -> Vec<(Vec<Range<u32>>, Vec<Exchange>)> {
        // Checks look at a launch as a whole.
        let checked = self.interp.options.control.checks.any();
        if exchanges.is_empty() || checked || plan.interior.iter().all(Range::is_empty) {
            return vec![(plan.ranges.clone(), exchanges)];
        }
        let sides = plan.ranges.iter().zip(&plan.interior);
        let (before, behind) = sides.map(|(all, inner)| (all.start..inner.start, inner.end..all.end)).unzip();
        vec![(plan.interior.clone(), vec![]), (before, exchanges), (behind, vec![])]
    }

    /// Decides how a launch is cut; returns that, the devices, the positions of arguments in the kernel, and the kernel.
    #[allow(clippy::too_many_arguments, clippy::type_complexity)]
    fn cut(
        &mut self,
        launch: &Launch,
        kernel: &Kernel,
        inner: &Frame,
        extents: Extents,
        passed: &[Passed],
        hidden: &[Value],
        instance: &Instance,
        span: Span,
    ) -> Eval<(Arc<Plan>, Team, Vec<u32>, Arc<Prepared>)> {
        let refuse = |why: &str| -> Refusal { Refusal::Other { span: None, why: why.into() } };
        let refused = |machine: &Self, refusal: Refusal| machine.refused(kernel, &refusal, span);
        let mut team: Option<Team> = None;
        let (mut arrays, mut values, mut positions, mut position) = (vec![], vec![], vec![], 0);
        for (i, item) in passed.iter().enumerate() {
            positions.push(position);
            match item {
                Passed::Array(array, writes) => {
                    let sharded = shard::of(array);
                    if let Some(sharded) = &sharded {
                        let own = sharded.team();
                        if team.as_ref().is_some_and(|team| !team.is(own)) {
                            return Err(refused(self, refuse("its arrays are on different devices")));
                        }
                        team.get_or_insert_with(|| own.clone());
                    }
                    arrays.push(ArrayArg {
                        param: position,
                        shape: array.shape().to_vec(),
                        layout: sharded.map(|sharded| sharded.layout().clone()),
                        is_new: *writes && !matches!(launch.args.get(i), Some(Some(_))),
                    });
                    position += 1;
                }
                Passed::Value(value) => {
                    let mut args = vec![];
                    push_value(&mut args, value).map_err(|p| self.problem(p, span))?;
                    for arg in args {
                        note(&mut values, position, &arg);
                        position += 1;
                    }
                }
            }
        }
        for value in hidden {
            let mut args = vec![];
            push_value(&mut args, value).map_err(|p| self.problem(p, span))?;
            for arg in args {
                note(&mut values, position, &arg);
                position += 1;
            }
        }
        let Some(team) = team else { return Err(self.broken(span, "a launch without parts")) };
        let (grid, block) = match extents {
            Extents::Threads(sizes) => (sizes, [1; 3]),
            Extents::Grid { grid, block } => (grid, block),
        };
        let key = PlanKey { instance: instance.clone(), extents, arrays, values };
        // Depends on dimensions that no key has.
        let counts = key.arrays.iter().map(|array| array.shape.iter().product::<usize>() as u64);
        match self.largest(launch, kernel, inner, counts) {
            None => return Err(refused(self, refuse("it has a geometry of its own"))),
            Some(largest) if largest > MOST_ELEMENTS => {
                return Err(refused(self, refuse("its arrays are larger than proofs are about")));
            }
            Some(_) => {}
        }
        let whole = self.whole_kernel(instance, span)?;
        // Most launches can be cut whatever the values of numbers are, which may be others each time.
        let any = PlanKey { values: vec![], ..key.clone() };
        let cuts = &self.interp.kernels.cuts;
        if let Some(plan) = cuts.get(&any).or_else(|| cuts.get(&key)) {
            return Ok((plan.clone(), team, positions, whole));
        }
        if whole.module.kernel.cooperative {
            return Err(refused(self, refuse("its blocks wait for each other at a barrier of the grid")));
        }
        if prints(&whole) {
            return Err(refused(self, refuse("it prints, in the order of its blocks")));
        }
        let Some(declared) = &whole.declared else {
            return Err(refused(self, refuse("its launches cannot be written down")));
        };
        let extent = |param: u32, axis: u8| {
            let found = key.arrays.iter().find(|array| array.param == param);
            found.and_then(|array| array.shape.get(axis as usize)).map(|&n| n as i128)
        };
        let value = |param: u32| key.values.iter().find(|(of, _)| *of == param).map(|(_, n)| *n);
        let numbers = Numbers { extent: &extent, value: &value, grid, block };
        let without = Numbers { extent: &extent, value: &|_| None, grid, block };
        let cut = |array: &ArrayArg| {
            let Layout { axis, halo, cuts } = array.layout.as_ref()?;
            Some(CutArray { param: array.param, axis: *axis as u8, cuts: cuts.to_vec(), halo: *halo })
        };
        let cuts: Vec<CutArray> = key.arrays.iter().filter_map(cut).collect();
        let new: Vec<u32> = key.arrays.iter().filter(|array| array.is_new).map(|array| array.param).collect();
        let (key, parted, numbers) = match declared.parted(&whole.module, &without, &cuts, &new) {
            Ok(parted) => (any, Ok(parted), &without),
            Err(_) => (key.clone(), declared.parted_alone(&whole.module, &numbers, &cuts, &new), &numbers),
        };
        let parted = parted.map_err(|refusal| refused(self, refusal))?;
        let plan = Arc::new(Plan { parted, filled: declared.written(&whole.module, numbers) });
        if self.interp.kernels.cuts.len() >= KEPT {
            self.interp.kernels.cuts.clear();
        }
        self.interp.kernels.cuts.insert(key, plan.clone());
        Ok((plan, team, positions, whole))
    }

    /// Returns the kernel of whole launches, of which those of parts are made.
    fn whole_kernel(&mut self, instance: &Instance, span: Span) -> Eval<Arc<Prepared>> {
        if let Some(known) = self.interp.kernels.whole.get(instance) {
            return Ok(known.clone());
        }
        let compiled = compile::kernel(self.program, instance, self.checks());
        let prepared = Arc::new(compiled.map_err(|d| self.first_of(d, span))?);
        self.interp.kernels.whole.insert(instance.clone(), prepared.clone());
        Ok(prepared)
    }

    /// Returns the kernel of a part on its device.
    fn part_kernel(
        &mut self,
        plan: &Plan,
        (whole, instance): (&Prepared, &Instance),
        device: &Arc<dyn Device>,
        span: Span,
    ) -> Eval<Arc<dyn Executable>> {
        let axes: Vec<(u32, u8)> = plan.arrays.iter().map(|array| (array.param, array.axis)).collect();
        let at = Arc::as_ptr(device).cast::<()>().addr();
        let key = (instance.clone(), plan.coordinate, axes, plan.in_bounds, at);
        if let Some(known) = self.interp.kernels.parts.get(&key) {
            return Ok(known.clone());
        }
        let module = pass::part::of_launch(&whole.module, plan.coordinate, &key.2);
        let prepared = pass::prepare_for(module, whole.checks);
        let mut prepared = prepared.map_err(|why| {
            let diagnostic = Diagnostic::error("E0999", "internal error: a compiler pass broke a kernel");
            self.error(diagnostic.at(span, "launched here").note(why).help("please report this as a bug of Clk"))
        })?;
        prepared.in_bounds = plan.in_bounds;
        let executable = device.load_named(Arc::new(prepared), self.sources);
        self.interp.kernels.parts.insert(key, executable.clone());
        Ok(executable)
    }

    fn run_part(
        &mut self,
        plan: &Plan,
        (part, range): (usize, &Range<u32>),
        (team, whole, instance): (&Team, &Prepared, &Instance),
        extents: Extents,
        (slots, hidden): (&mut [Slot], &[Value]),
        span: Span,
    ) -> Eval<()> {
        let site = &team.sites[part];
        let executable = self.part_kernel(plan, (whole, instance), site.device(), span)?;
        let (mut extents, mut blocks) = (extents, 0);
        match (&mut extents, plan.coordinate) {
            (Extents::Threads(sizes), Coordinate::Index(k)) => sizes[usize::from(k)] = range.len() as u32,
            (Extents::Grid { grid, .. }, Coordinate::Block(k)) => {
                blocks = std::mem::replace(&mut grid[usize::from(k)], range.len() as u32);
            }
            _ => return Err(self.broken(span, "a launch that is cut along no coordinate of it")),
        }
        let _at = site.clone().enter();
        let number = |n: usize| Arg::Value(vec![crate::lang::scalar::Value::of(n as i32)]);
        let mut more = vec![number(range.start as usize)];
        if matches!(plan.coordinate, Coordinate::Block(_)) {
            more.push(number(blocks as usize));
        }
        // Checks see that all of an `out` array is written: the rows of neighbors are not.
        let checked = self.interp.options.control.checks.memory;
        let lacks_halo =
            |param: u32| checked && whole.module.kernel.params[param as usize].access() == Some(Access::Out);
        for array in &plan.arrays {
            let halo = if lacks_halo(array.param) { 0 } else { array.halo };
            let start = array.cuts[part].saturating_sub(halo);
            let len = array.cuts.last().copied().unwrap_or(0);
            more.extend([number(start), number(len)]);
        }
        let mut own = own_rows(slots, part, &lacks_halo).map_err(|p| self.problem(p, span))?;
        let control = Control { larger: None, declared: None, ..self.interp.options.control.clone() };
        // Copies of what all parts read, which live as long as the launch takes to be issued.
        let copies: Result<Vec<Option<Array>>, Problem> = slots
            .iter()
            .map(|slot| match slot {
                Slot::Whole(array) => shard::replica(array, site).map(Some),
                Slot::Read(sharded) => Ok(Some(sharded.part(part))),
                Slot::Value(_) | Slot::Write(_) => Ok(None),
            })
            .collect();
        let copies = copies.map_err(|p| self.problem(p, span))?;
        let result = (|| {
            let mut args = vec![];
            for ((slot, copy), own) in slots.iter_mut().zip(&copies).zip(&mut own) {
                match (slot, copy) {
                    (Slot::Value(value), _) => push_value(&mut args, value)?,
                    (Slot::Write(cut), _) => {
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
            Ok(executable.launch(extents, &mut args, &control))
        })();
        put_rows(slots, part, own).map_err(|p| self.problem(p, span))?;
        match result {
            Ok(Ok(output)) => {
                self.take_warnings(None, span);
                self.say(&output);
                Ok(())
            }
            Ok(Err(fault)) => Err(self.part_fault(&fault, (plan, whole), (part, range.start), span)),
            Err(problem) => Err(self.problem(problem, span)),
        }
    }

    /// Returns the fault of a part's launch, with what tells its numbers from those of the whole launch.
    fn part_fault(
        &mut self,
        fault: &Fault,
        (plan, whole): (&Plan, &Prepared),
        (part, start): (usize, u32),
        span: Span,
    ) -> Signal {
        let mut begins = vec![];
        if start > 0 {
            begins.push(match plan.coordinate {
                Coordinate::Index(k) => format!("index {k} at {start}"),
                Coordinate::Block(k) => format!("block_idx.{} at {start}", ["x", "y", "z"][usize::from(k).min(2)]),
            });
        }
        for array in &plan.arrays {
            let first = array.cuts[part].saturating_sub(array.halo);
            if let Some(KernelParam::Array { name, .. }) = whole.module.kernel.params.get(array.param as usize) {
                begins.push(format!("`{name}` at row {first}"));
            }
        }
        let note = format!("these are the numbers of part {part}, which begins with {}", begins.join(", "));
        self.fault(fault, None, span, vec![note])
    }

    /// Returns the error for a launch that cannot be cut.
    fn refused(&self, kernel: &Kernel, refusal: &Refusal, span: Span) -> Signal {
        let name = &kernel.name;
        let unshard = "`gather(x)` puts an array together, for a launch on one device";
        self.error(match refusal {
            Refusal::Leaves { span: at, name: array, axis, writes, halo, enough, part, unknowns } => {
                let what = if *writes { "write" } else { "read" };
                let title = format!("a launch of `{name}` cannot be cut: a {what} of `{array}` may leave its part");
                let holds = match (*writes, *halo) {
                    (true, _) => "a part writes the rows that it owns alone".to_string(),
                    (false, 0) => "a part has its own rows alone".to_string(),
                    (false, halo) => format!("a part has its own rows and {halo} on each side"),
                };
                let mut diagnostic = Diagnostic::error("E0741", title)
                    .at(span, "launched here, on a sharded array")
                    .because(*at, format!("in part {part}, the index along axis {axis} may be outside: {holds}"));
                for (why, place) in unknowns {
                    diagnostic = diagnostic.because(*place, format!("the index depends on a value {why}"));
                }
                match enough {
                    Some(enough) => diagnostic.help(format!("a halo would do: `shard({array}, …, halo = {enough})`")),
                    None if *writes => {
                        diagnostic.help("have each thread write the row that it stands for").help(unshard)
                    }
                    None => diagnostic
                        .help(format!("no halo would do; if each part needs all of it, pass `gather({array})`")),
                }
            }
            Refusal::Straddles { span: at, name: array, granule, cut } => {
                let title = format!("a launch of `{name}` cannot be cut: a block stands on both sides of a cut");
                Diagnostic::error("E0743", title)
                    .at(span, "launched here, on a sharded array")
                    .because(*at, format!("a block writes {granule} rows of `{array}`, which is cut at row {cut}"))
                    .help(format!("cut at multiples of that: `shard({array}, …, granule = {granule})`"))
            }
            Refusal::Unsharded { span: at, name: array } => {
                let title = format!("a launch of `{name}` cannot be cut: `{array}`, which is not sharded, is written");
                Diagnostic::error("E0742", title)
                    .at(span, "launched here, on a sharded array")
                    .because(*at, "all parts would write it")
                    .help(format!("shard `{array}` in the same way, or leave the argument out"))
                    .help(unshard)
            }
            Refusal::Other { span: at, why } => {
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

impl Passed {
    /// Returns whether it is an array in parts.
    pub(super) fn is_sharded(&self) -> bool {
        matches!(self, Passed::Array(array, _) if shard::of(array).is_some())
    }

    /// Returns the array that the kernel may write.
    fn written(&self) -> Option<Value> {
        match self {
            Passed::Array(array, true) => Some(Value::Array(array.clone())),
            _ => None,
        }
    }
}

/// Has each device have the arrays that all parts read.
fn have(slots: &[Slot], team: &Team, plan: &Plan) -> Outcome<()> {
    for (site, _) in team.sites.iter().zip(&plan.ranges).filter(|(_, range)| !range.is_empty()) {
        for slot in slots {
            if let Slot::Whole(array) = slot {
                site.device().have(shard::replica(array, site)?.storage()?)?;
            }
        }
    }
    Ok(())
}

/// Returns the rows that a part owns of arrays of which it is to see no others.
fn own_rows(slots: &[Slot], part: usize, lacks_halo: &dyn Fn(u32) -> bool) -> Result<Vec<Option<Array>>, Problem> {
    let own = |slot: &Slot| match slot {
        Slot::Write(cut) if cut.layout.halo > 0 && lacks_halo(cut.param) => {
            let (held, own) = (cut.layout.held(part), cut.layout.own(part));
            let local = own.start - held.start..own.end - held.start;
            shard::rows(&cut.state.parts[part], cut.layout.axis, local).map(Some)
        }
        _ => Ok(None),
    };
    slots.iter().map(own).collect()
}

/// Writes them back.
fn put_rows(slots: &mut [Slot], part: usize, rows: Vec<Option<Array>>) -> Result<(), Problem> {
    for (slot, own) in slots.iter_mut().zip(rows) {
        if let (Slot::Write(cut), Some(own)) = (slot, own) {
            let at = cut.layout.own(part).start - cut.layout.held(part).start;
            shard::put(&mut cut.state.parts[part], cut.layout.axis, at, &own)?;
        }
    }
    Ok(())
}

/// Notes the value of an integer argument.
fn note(values: &mut Vec<(u32, i128)>, position: u32, arg: &Arg<'_>) {
    if let Arg::Value(lanes) = arg
        && let [value] = &lanes[..]
        && let Some(n) = value.as_integer()
    {
        values.push((position, n));
    }
}

/// Begins to exchange the halos that are read; those of arrays that are written, too, are exchanged at once.
fn exchanges(plan: &Plan, passed: &[Passed], positions: &[u32]) -> Outcome<Vec<Exchange>> {
    let mut begun = vec![];
    for (item, position) in passed.iter().zip(positions) {
        let Passed::Array(array, writes) = item else { continue };
        if let Some(sharded) = shard::of(array).filter(|_| plan.halos.contains(position)) {
            match writes {
                true => sharded.refresh()?,
                false => begun.extend(sharded.begin()?),
            }
        }
    }
    Ok(begun)
}

/// Takes the arguments apart.
fn slots((plan, team): (&Plan, &Team), passed: Vec<Passed>, positions: &[u32]) -> Outcome<Vec<Slot>> {
    let mut slots = Vec::with_capacity(passed.len());
    for (item, position) in passed.into_iter().zip(positions) {
        let (array, writes) = match item {
            Passed::Value(value) => {
                slots.push(Slot::Value(value));
                continue;
            }
            Passed::Array(array, writes) => (array, writes),
        };
        let cut = plan.arrays.iter().find(|cut| cut.param == *position);
        slots.push(match (cut, shard::of(&array)) {
            (None, _) => Slot::Whole(array),
            (Some(_), Some(sharded)) if !writes => Slot::Read(sharded),
            (Some(cut), sharded) => {
                let (element, shape) = (array.element().clone(), array.shape().to_vec());
                let layout = Layout { axis: cut.axis as usize, halo: cut.halo, cuts: cut.cuts.clone().into() };
                let state = match sharded {
                    Some(sharded) => sharded.parts(),
                    None => {
                        let filled = plan.filled.contains(&cut.param);
                        let part = |part: usize| {
                            let mut own = shape.clone();
                            own[layout.axis] = layout.held(part).len();
                            new_part(&element, &own, filled && team.sites[part].device().is_remote())
                        };
                        State { parts: (0..layout.parts()).map(part).collect::<Outcome<_>>()?, fresh: true }
                    }
                };
                Slot::Write(Cut { param: cut.param, element, shape, layout, state })
            }
        });
        // The array is let go, so that the parts are written in place.
    }
    Ok(slots)
}

/// Creates a part that a kernel writes. If `filled`, it writes all rows of the part: those of neighbors are not read before they have been
/// exchanged.
fn new_part(element: &Element, shape: &[usize], filled: bool) -> Outcome<Array> {
    if !filled {
        return Array::unplaced(element.clone(), shape);
    }
    let storage = Storage::unset(byte_count(element, shape)?);
    Array::with_storage(element.clone(), shape, storage)
}
