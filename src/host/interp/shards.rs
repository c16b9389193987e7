//! Arrays on several devices in scripts: `gpus`, `shard`, `gather`, and launches on the parts of arrays.
//!
//! A launch with a sharded argument is cut into one launch for each part: [`parts`](crate::ir::footprint::parts) says along which coordinate, or why
//! not, and [`part`](crate::pass::part) makes the kernel of a part. Halos that are read are exchanged first; those of what is written are stale behind
//! it. Arrays that are not sharded are read by all parts; those that the launch makes are cut as they are written.

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
use crate::host::problem::Problem;
use crate::host::shard::value::State;
use crate::host::shard::{self, Layout, Sharded, Team};
use crate::host::value::Value;
use crate::ir::footprint::parts::{Coordinate, CutArray, Parted, Refusal};
use crate::ir::{MOST_ELEMENTS, Numbers, Prepared};
use crate::lower::Instance;
use crate::pass;

use super::builtin::Named;
use super::eval::named;
use super::frame::Frame;
use super::launch::{Passed, push_value};
use super::machine::{Eval, Machine, Signal};

/// How a launch is cut: what that depends on.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct PlanKey {
    instance: Instance,
    extents: [u32; 6],
    /// By position of the argument: the shape of an array, and how it is cut; the value of an integer.
    arrays: Vec<(u32, Vec<usize>, Option<Layout>)>,
    values: Vec<(u32, i128)>,
}

/// How a launch is cut, and the arrays that it writes as a whole.
pub(crate) struct Plan {
    parted: Parted,
    filled: Vec<u32>,
}

impl std::ops::Deref for Plan {
    type Target = Parted;

    fn deref(&self) -> &Parted {
        &self.parted
    }
}

/// The kernel of a part: the instance, what it is cut along, the axes of cut arrays, whether accesses are in bounds, the device.
pub(crate) type PartKey = (Instance, Coordinate, Vec<(u32, u8)>, bool, usize);

/// Launches whose cuts are remembered.
const KEPT: usize = 1024;

/// An argument of a launch in parts.
enum Slot {
    Value(Value),
    Whole(Array),
    Cut { cut: Cut, writes: bool },
}

/// A cut array while it is launched on.
struct Cut {
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
        let Some(wanted) = u32::try_from(wanted).ok().filter(|n| (1..=1024).contains(n)) else {
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
        let made = |i: usize| !matches!(launch.args.get(i), Some(Some(_)));
        let written = |passed: &[Passed]| -> Left { passed.iter().map(Passed::written).collect() };
        let prepared = self.cut(launch, kernel, inner, extents, &passed, hidden, (&instance, &made), span);
        let (plan, team, positions, whole) = match prepared {
            Ok(prepared) => prepared,
            Err(signal) => return (written(&passed), Err(signal)),
        };
        let mut slots = match slots((&plan, &team), passed, &positions) {
            Ok(slots) => slots,
            Err((passed, problem)) => return (written(&passed), Err(self.problem(problem, span))),
        };
        team.counts.launches.fetch_add(1, Ordering::Relaxed);
        let mut ran = Ok(());
        for part in 0..plan.ranges.len() {
            if plan.ranges[part].is_empty() {
                continue;
            }
            ran = self.run_part(&plan, part, (&team, &whole, &instance), extents, (&mut slots, hidden), span);
            if ran.is_err() {
                break;
            }
        }
        let mut left = Left::with_capacity(slots.len());
        for slot in slots {
            left.push(match slot {
                Slot::Cut { cut, writes: true } => {
                    let Cut { element, shape, layout, state } = cut;
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
        (instance, made): (&Instance, &dyn Fn(usize) -> bool),
        span: Span,
    ) -> Eval<(Arc<Plan>, Team, Vec<u32>, Arc<Prepared>)> {
        let refuse = |why: &str| -> Refusal { Refusal::Other { span: None, why: why.into() } };
        let refused = |machine: &Self, refusal: Refusal| machine.refused(kernel, &refusal, span);
        let mut team: Option<Team> = None;
        let (mut arrays, mut values, mut positions, mut position) = (vec![], vec![], vec![], 0);
        for item in passed {
            positions.push(position);
            match item {
                Passed::Array(array, _) => {
                    let sharded = shard::of(array);
                    if let Some(sharded) = &sharded {
                        let own = sharded.team();
                        if team.as_ref().is_some_and(|team| !team.is(own)) {
                            return Err(refused(self, refuse("its arrays are on different devices")));
                        }
                        team.get_or_insert_with(|| own.clone());
                    }
                    arrays.push((position, array.shape().to_vec(), sharded.map(|sharded| sharded.layout().clone())));
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
        let [a, b, c] = grid;
        let [d, e, f] = block;
        let key = PlanKey { instance: instance.clone(), extents: [a, b, c, d, e, f], arrays, values };
        let whole = self.whole_kernel(instance, span)?;
        if let Some(plan) = self.interp.kernels.cuts.get(&key) {
            return Ok((plan.clone(), team, positions, whole));
        }
        let counts = key.arrays.iter().map(|(_, shape, _)| shape.iter().product::<usize>() as u64);
        match self.largest(launch, kernel, inner, counts) {
            None => return Err(refused(self, refuse("it has a geometry of its own"))),
            Some(largest) if largest > MOST_ELEMENTS => {
                return Err(refused(self, refuse("its arrays are larger than proofs are about")));
            }
            Some(_) => {}
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
            let found = key.arrays.iter().find(|(of, ..)| *of == param);
            found.and_then(|(_, shape, _)| shape.get(axis as usize)).map(|&n| n as i128)
        };
        let value = |param: u32| key.values.iter().find(|(of, _)| *of == param).map(|(_, n)| *n);
        let numbers = Numbers { extent: &extent, value: &value, grid, block };
        let cut = |(param, _, layout): &(u32, Vec<usize>, Option<Layout>)| {
            let Layout { axis, halo, cuts } = layout.as_ref()?;
            Some(CutArray { param: *param, axis: *axis as u8, cuts: cuts.to_vec(), halo: *halo })
        };
        let cuts: Vec<CutArray> = key.arrays.iter().filter_map(cut).collect();
        let is_made = |(i, _): &(usize, &u32)| made(*i) && matches!(passed[*i], Passed::Array(_, true));
        let new: Vec<u32> = positions.iter().enumerate().filter(is_made).map(|(_, &at)| at).collect();
        let plan = declared.parted(&whole.module, &numbers, &cuts, &new);
        let parted = plan.map_err(|refusal| refused(self, refusal))?;
        let plan = Arc::new(Plan { parted, filled: declared.written(&whole.module, &numbers) });
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
        part: usize,
        (team, whole, instance): (&Team, &Prepared, &Instance),
        extents: Extents,
        (slots, hidden): (&mut [Slot], &[Value]),
        span: Span,
    ) -> Eval<()> {
        let site = &team.sites[part];
        let executable = self.part_kernel(plan, (whole, instance), site.device(), span)?;
        let range = &plan.ranges[part];
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
        for array in &plan.arrays {
            let start = array.cuts[part].saturating_sub(array.halo);
            let len = array.cuts.last().copied().unwrap_or(0);
            more.extend([number(start), number(len)]);
        }
        let control = Control { larger: None, declared: None, ..self.interp.options.control.clone() };
        // Copies of what all parts read, which live as long as the launch takes to be issued.
        let copies: Result<Vec<Option<Array>>, Problem> = slots
            .iter()
            .map(|slot| match slot {
                Slot::Whole(array) => shard::replica(array, site).map(Some),
                _ => Ok(None),
            })
            .collect();
        let copies = copies.map_err(|p| self.problem(p, span))?;
        let result = (|| {
            let mut args = vec![];
            for (slot, copy) in slots.iter_mut().zip(&copies) {
                match slot {
                    Slot::Value(value) => push_value(&mut args, value)?,
                    Slot::Whole(array) => {
                        let array = copy.as_ref().unwrap_or(array);
                        args.push(Arg::Array { storage: array.storage()?, shape: array.extents() });
                    }
                    Slot::Cut { cut, writes } => {
                        let array = &mut cut.state.parts[part];
                        let shape = array.extents();
                        args.push(match writes {
                            true => Arg::ArrayMut { storage: array.storage_mut()?, shape },
                            false => Arg::Array { storage: array.storage()?, shape },
                        });
                    }
                }
            }
            hidden.iter().try_for_each(|value| push_value(&mut args, value))?;
            args.extend(more);
            Ok(executable.launch(extents, &mut args, &control))
        })();
        match result {
            Ok(Ok(output)) => {
                self.take_warnings(span);
                self.say(&output);
                Ok(())
            }
            Ok(Err(fault)) => Err(self.part_fault(&fault, plan, part, span)),
            Err(problem) => Err(self.problem(problem, span)),
        }
    }

    /// Returns the fault of a part's launch, with what tells its numbers from those of the whole launch.
    fn part_fault(&mut self, fault: &Fault, plan: &Plan, part: usize, span: Span) -> Signal {
        let range = &plan.ranges[part];
        let what = match plan.coordinate {
            Coordinate::Index(k) => format!("its index {k} counts from {}", range.start),
            Coordinate::Block(k) => {
                let axis = ["x", "y", "z"].get(usize::from(k)).copied().unwrap_or("x");
                format!("its blocks along {axis} count from {}", range.start)
            }
        };
        let mut notes = vec![format!("in part {part} of {}: {what}", plan.ranges.len())];
        for array in &plan.arrays {
            let start = array.cuts[part].saturating_sub(array.halo);
            if start > 0 {
                notes.push(format!(
                    "argument {} of the part begins at row {start} of its axis {}",
                    array.param, array.axis
                ));
            }
        }
        self.fault(fault, span, notes)
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
            Refusal::Other { span: at, why } => {
                let title = format!("a launch of `{name}` cannot be cut: {why}");
                let mut diagnostic = Diagnostic::error("E0742", title).at(span, "launched here, on a sharded array");
                if let Some(at) = at {
                    diagnostic = diagnostic.because(*at, "because of this access");
                }
                diagnostic.help("shard what it writes in the same way, or leave the argument out").help(unshard)
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

/// Notes the value of an integer argument.
fn note(values: &mut Vec<(u32, i128)>, position: u32, arg: &Arg<'_>) {
    if let Arg::Value(lanes) = arg
        && let [value] = &lanes[..]
        && let Some(n) = value.as_integer()
    {
        values.push((position, n));
    }
}

/// Returns whether a kernel prints.
fn prints(kernel: &Prepared) -> bool {
    let mut found = false;
    for (_, function) in kernel.module.functions.iter() {
        crate::ir::visit::each_stmt(&function.body, &mut |stmt| {
            found |= matches!(stmt.kind, crate::ir::def::StmtKind::Print { .. });
        });
    }
    found
}

/// Takes the arguments apart. Halos that are read are exchanged.
fn slots(
    (plan, team): (&Plan, &Team),
    passed: Vec<Passed>,
    positions: &[u32],
) -> Result<Vec<Slot>, (Vec<Passed>, Problem)> {
    let read = |i: usize| positions.get(i).is_some_and(|position| plan.halos.contains(position));
    for (i, item) in passed.iter().enumerate() {
        if let Passed::Array(array, _) = item
            && let Some(sharded) = shard::of(array)
            && read(i)
            && let Err(problem) = sharded.refresh()
        {
            return Err((passed, problem));
        }
    }
    let mut slots = Vec::with_capacity(passed.len());
    let mut failed = None;
    for (i, item) in passed.into_iter().enumerate() {
        let (array, writes) = match item {
            Passed::Value(value) => {
                slots.push(Slot::Value(value));
                continue;
            }
            Passed::Array(array, writes) => (array, writes),
        };
        let cut = plan.arrays.iter().find(|cut| Some(&cut.param) == positions.get(i));
        let Some(cut) = cut else {
            slots.push(Slot::Whole(array));
            continue;
        };
        let (element, shape) = (array.element().clone(), array.shape().to_vec());
        let layout = Layout { axis: cut.axis as usize, halo: cut.halo, cuts: cut.cuts.clone().into() };
        let state = match shard::of(&array) {
            Some(sharded) => sharded.parts(),
            None => {
                let filled = plan.filled.contains(&cut.param);
                let part = |part: usize| {
                    let mut own = shape.clone();
                    own[layout.axis] = layout.held(part).len();
                    // Rows of neighbors are not written, but not read either before they have been exchanged.
                    if filled && team.sites[part].device().is_remote() {
                        let storage = Storage::unset(byte_count(&element, &own)?);
                        return Array::with_storage(element.clone(), &own, storage);
                    }
                    Array::unplaced(element.clone(), &own)
                };
                match (0..layout.parts()).map(part).collect() {
                    Ok(parts) => State { parts, fresh: true },
                    Err(problem) => {
                        failed = Some(problem);
                        State { parts: vec![], fresh: true }
                    }
                }
            }
        };
        // The array is let go, so that the parts are written in place.
        drop(array);
        slots.push(Slot::Cut { cut: Cut { element, shape, layout, state }, writes });
    }
    match failed {
        None => Ok(slots),
        Some(problem) => Err((vec![], problem)),
    }
}
