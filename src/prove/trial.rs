//! Tests what is expected of kernels and not proved, with the launches that tests make.
//!
//! Input: launches with their arguments. Each runs on the simulator first, with the checks that its kernel's `expect` clause needs, on
//! copies of its arrays. Output: an error for what a run contradicts, and warnings for what is neither proved nor tested.

use std::sync::{Arc, Mutex, MutexGuard};

use rustc_hash::FxHashMap;

use super::examine::examine;
use super::orders;
use super::report::{Property, Report, Verdict};
use super::twin::{self, Gap, Wide};
use crate::base::aligned::AlignedBytes;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Expect, Expected, Kernel, KernelId, Program};
use crate::check::widen;
use crate::compile;
use crate::compile::trial::{Argument, Trial, Trials};
use crate::device::both::{Difference, difference};
use crate::device::sim::Simulator;
use crate::device::{Arg, Control, Device, Executable, Fault, FaultKind, fault_diagnostic};
use crate::ir::def::KernelParam;
use crate::ir::{Checks, Counted, Prepared};
use crate::lower::Instance;

/// What is known of the contracts of kernels that tests launch.
#[derive(Default)]
pub struct Contracts {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kernels: FxHashMap<KernelId, Known>,
    loaded: FxHashMap<(Instance, Manner), Option<Loaded>>,
    twin: Option<Arc<Program>>,
}

/// A kernel ready to be run.
#[derive(Clone)]
struct Loaded {
    executable: Arc<dyn Executable>,
    prepared: Arc<Prepared>,
}

/// How a kernel is prepared.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Manner {
    checks: Checks,
    counted: bool,
    /// The twin in `f64`.
    twin: bool,
}

/// A kernel with what is proved of it.
struct Known {
    contracts: Vec<Contract>,
    report: Report,
    /// Why there is no twin, if one is needed.
    obstacle: Option<(Span, String)>,
}

struct Contract {
    expect: Expect,
    /// Without one, results are compared with those of the twin.
    property: Option<Property>,
    /// For all launches that the signature describes.
    proved: bool,
    tested: bool,
    /// Why a launch did not test it.
    stopped: Option<String>,
}

impl Known {
    fn new(program: &Program, id: KernelId) -> Known {
        let report = examine(program, id);
        let of = |expect: &Expect| {
            let property = Property::of(expect.what);
            let is_proved = |property| matches!(report.verdict(property), Some(Verdict::Proved { .. }));
            let proved = property.is_some_and(is_proved) && report.unexamined.is_empty();
            Contract { expect: *expect, property, proved, tested: false, stopped: None }
        };
        let expects = program.kernels.get(id).map_or(&[][..], |kernel| &kernel.expects);
        let contracts: Vec<Contract> = expects.iter().map(of).collect();
        let compared = contracts.iter().any(|contract| contract.property.is_none());
        let obstacle = if compared { twin::obstacle(program, id) } else { None };
        Known { contracts, report, obstacle }
    }

    /// Returns the contracts that a launch is to test.
    fn due(&mut self, declared: bool) -> Vec<&mut Contract> {
        self.contracts.iter_mut().filter(|contract| !(contract.proved && declared)).collect()
    }

    /// Returns whether a fault contradicts a contract.
    fn breaks(report: &Report, property: Property, fault: &Fault) -> bool {
        // Sums of data may overflow.
        let counts = property != Property::NoOverflow || report.doubtful.contains(&fault.span);
        counts && property.is_broken_by(&fault.kind)
    }
}

impl State {
    fn known(&mut self, program: &Program, id: KernelId) -> &mut Known {
        self.kernels.entry(id).or_insert_with(|| Known::new(program, id))
    }

    /// Returns the program's twin in `f64`.
    fn twin(&mut self, program: &Program) -> Arc<Program> {
        self.twin.get_or_insert_with(|| Arc::new(widen::program(program))).clone()
    }

    fn load(&mut self, program: &Program, instance: &Instance, manner: Manner) -> Option<Loaded> {
        let load = || {
            let mut prepared = compile::kernel(program, instance, manner.checks).ok()?;
            prepared.counted = manner.counted.then_some(Counted::Kernel);
            let prepared = Arc::new(prepared);
            Some(Loaded { executable: Simulator::default().load(prepared.clone()), prepared })
        };
        self.loaded.entry((instance.clone(), manner)).or_insert_with(load).clone()
    }
}

impl Contracts {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns a warning for each contract of a kernel that is neither proved nor was tested.
    pub fn untested(&self, program: &Program, id: KernelId) -> Vec<Diagnostic> {
        let Some(kernel) = program.kernels.get(id).filter(|kernel| !kernel.expects.is_empty()) else { return vec![] };
        let mut state = self.state();
        let known = state.known(program, id);
        let left = known.contracts.iter().filter(|contract| !contract.proved && !contract.tested);
        left.map(|contract| {
            let how = if contract.property.is_some() { "neither proved nor tested" } else { "not tested" };
            let title = format!("`expect {}` of `{}` is {how}", contract.expect.what.text(), kernel.name);
            let warning = Diagnostic::warning("W0610", title).at(contract.expect.span, "expected here");
            let warning = match contract.property.and_then(|property| known.report.verdict(property)) {
                Some(Verdict::Unknown { why, place: Some(place) }) => warning.because(*place, why),
                Some(Verdict::Unknown { why, place: None }) => warning.note(why),
                Some(Verdict::Refuted { .. }) => warning.note("`clk check` shows sizes at which it does not hold"),
                _ => warning,
            };
            match (&contract.stopped, &known.obstacle) {
                (Some(_), Some((place, why))) if contract.property.is_none() => {
                    warning.because(*place, format!("it has no twin in `f64`: {why}"))
                }
                (Some(why), _) => warning.note(format!("the launches of tests did not test it: {why}")),
                (None, _) => warning.help(format!("launch `{}` in a `test`", kernel.name)),
            }
        })
        .collect()
    }
}

impl Trials for Contracts {
    fn wants(&self, program: &Program, kernel: KernelId, declared: bool) -> bool {
        let expects = program.kernels.get(kernel).is_some_and(|kernel| !kernel.expects.is_empty());
        expects && !self.state().known(program, kernel).due(declared).is_empty()
    }

    fn launch(&self, program: &Program, trial: &Trial<'_>) -> Result<(), Box<Diagnostic>> {
        let Some(kernel) = program.kernels.get(trial.instance.kernel) else { return Ok(()) };
        let (id, mut state) = (trial.instance.kernel, self.state());
        let due: Vec<Expect> = state.known(program, id).due(trial.declared).iter().map(|c| c.expect).collect();
        let has = |wanted: &dyn Fn(&Expected) -> bool| due.iter().any(|expect| wanted(&expect.what));
        let plain = Manner { checks: Checks::default(), counted: false, twin: false };
        let checked = Manner {
            checks: Checks { memory: true, arithmetic: has(&|what| *what == Expected::NoOverflow), nan: false },
            counted: has(&|what| matches!(what, Expected::BankWays(_) | Expected::Sectors(_))),
            ..plain
        };
        let (ordered, compared) = (Expected::AnyOrder, |what: &Expected| matches!(what, Expected::MaxUlp(_)));
        if has(&|what| *what != ordered && !compared(what))
            && let Some(loaded) = state.load(program, &trial.instance, checked)
        {
            checked_run(kernel, state.known(program, id), &loaded, trial)?;
        }
        if has(&|what| *what == ordered)
            && let Some(loaded) = state.load(program, &trial.instance, plain)
        {
            both_orders(kernel, state.known(program, id), &loaded, trial)?;
        }
        if has(&compared)
            && let Some(own) = state.load(program, &trial.instance, plain)
        {
            let manner = Manner { twin: true, ..plain };
            let wide = state.twin(program);
            let wide = state.load(&wide, &twin::instance(&trial.instance), manner);
            with_twin(kernel, state.known(program, id), (&own, wide.as_ref()), trial)?;
        }
        Ok(())
    }
}

/// Runs a launch with checks; what it reports may contradict contracts.
fn checked_run(kernel: &Kernel, known: &mut Known, loaded: &Loaded, trial: &Trial<'_>) -> Result<(), Box<Diagnostic>> {
    let control =
        Control { warnings: Arc::default(), crowds: Arc::default(), keep_races: true, ..alone(trial.control) };
    let Some(mut arrays) = Arrays::of(trial) else { return Ok(()) };
    let result = loaded.executable.launch(trial.extents, &mut arrays.all(trial), &control);
    let taken = |list: &Mutex<Vec<Fault>>| list.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
    let mut faults = taken(&control.warnings);
    faults.extend(taken(&control.crowds));
    let stopped = result.as_ref().err().map(|fault| fault_diagnostic(fault).title);
    if matches!(&result, Err(fault) if fault.kind == FaultKind::Interrupted) {
        return Ok(());
    }
    faults.extend(result.err().map(|fault| *fault));
    let report = std::mem::take(&mut known.report);
    let mut broken = None;
    for contract in known.due(trial.declared) {
        let Some(property) = contract.property.filter(|property| *property != Property::Order) else { continue };
        match faults.iter().find(|fault| Known::breaks(&report, property, fault)) {
            Some(fault) => {
                contract.tested = true;
                broken
                    .get_or_insert_with(|| contradicted(kernel, &contract.expect, fault_diagnostic(fault), trial.span));
            }
            None if stopped.is_none() => contract.tested = true,
            None => contract.stopped = stopped.clone(),
        }
    }
    known.report = report;
    broken.map_or(Ok(()), Err)
}

/// Runs a launch forward and backward, and compares what it leaves in its arrays.
fn both_orders(kernel: &Kernel, known: &mut Known, loaded: &Loaded, trial: &Trial<'_>) -> Result<(), Box<Diagnostic>> {
    let (Some(mut first), Some(mut last)) = (Arrays::of(trial), Arrays::of(trial)) else { return Ok(()) };
    let mut stopped = None;
    for (arrays, backward) in [(&mut first, false), (&mut last, true)] {
        // Several workers have no order.
        let control = Control { backward, workers: 1, ..alone(trial.control) };
        match loaded.executable.launch(trial.extents, &mut arrays.all(trial), &control) {
            Err(fault) if fault.kind == FaultKind::Interrupted => return Ok(()),
            Err(fault) => stopped = Some(fault_diagnostic(&fault).title),
            Ok(_) => {}
        }
    }
    let differs = if stopped.is_none() { differing(&loaded.prepared, trial, &first, &last) } else { None };
    for contract in known.due(trial.declared).into_iter().filter(|contract| contract.property == Some(Property::Order))
    {
        contract.tested |= stopped.is_none();
        contract.stopped = stopped.clone();
        if let Some((array, found)) = &differs {
            let found = orders::described(array, found, kernel.name_span);
            return Err(contradicted(kernel, &contract.expect, found, trial.span));
        }
    }
    Ok(())
}

/// Runs a launch and its twin in `f64`, and compares the floats that both leave in arrays.
fn with_twin(
    kernel: &Kernel,
    known: &mut Known,
    (own, wide): (&Loaded, Option<&Loaded>),
    trial: &Trial<'_>,
) -> Result<(), Box<Diagnostic>> {
    let obstacle = known.obstacle.clone();
    let Some(contract) = known.due(trial.declared).into_iter().find(|contract| contract.property.is_none()) else {
        return Ok(());
    };
    let Expected::MaxUlp(limit) = contract.expect.what else { return Ok(()) };
    let found = match (obstacle, wide) {
        (Some((_, why)), _) => Err(why),
        (None, None) => Err("in `f64` it cannot be compiled".to_string()),
        (None, Some(wide)) => both_widths(own, wide, trial, limit),
    };
    match found {
        Err(why) => contract.stopped = Some(why),
        Ok(None) => contract.tested = true,
        Ok(Some(gap)) => {
            contract.tested = true;
            return Err(contradicted(kernel, &contract.expect, described(kernel, &gap, limit), trial.span));
        }
    }
    Ok(())
}

/// Returns the element that is too far from its twin; an error if a run ends early.
fn both_widths(own: &Loaded, wide: &Loaded, trial: &Trial<'_>, limit: u32) -> Result<Option<Gap>, String> {
    let room = || "there is not enough memory".to_string();
    // Sums of floats have one order.
    let control = Control { deterministic: true, ..alone(trial.control) };
    let run = |loaded: &Loaded, trial: &Trial<'_>| {
        let mut arrays = Arrays::of(trial).ok_or_else(room)?;
        let ran = loaded.executable.launch(trial.extents, &mut arrays.all(trial), &control);
        ran.map(|_| arrays.written).map_err(|fault| fault_diagnostic(&fault).title)
    };
    let left = run(own, trial)?;
    let widened = Wide::of(trial, &own.prepared, &wide.prepared).ok_or_else(room)?;
    let right = run(wide, &widened.trial(trial, &wide.prepared)).map_err(|why| format!("in `f64`, {why}"))?;
    Ok(twin::gap(trial, (&own.prepared, &left), (&wide.prepared, &right), limit))
}

/// Returns the report of an element that is too far from its twin.
fn described(kernel: &Kernel, gap: &Gap, limit: u32) -> Diagnostic {
    let Gap { place, own, twin, ty, ulps, beyond, of, .. } = gap;
    let far = match ulps.is_finite() {
        true => format!("{ulps:.1} units in the last place of `{}` away", ty.name()),
        false => "which no number of units bridges".to_string(),
    };
    let title = format!("`{place}` is {own}, and in `f64` it is {twin}, {far}");
    let (first, more) = (gap.stores.first().copied().unwrap_or(kernel.name_span), gap.stores.iter().skip(1));
    let found = Diagnostic::warning("E0618", title).at(first, "");
    let found = more.fold(found, |found, place| found.because(*place, format!("`{}` is written here, too", gap.array)));
    let verb = if *beyond == 1 { "is" } else { "are" };
    let plural = if limit == 1 { "" } else { "s" };
    found
        .note(format!(
            "{beyond} of {of} floats {verb} further than {limit} unit{plural} from the same kernel in `f64`, on the simulator"
        ))
        .help("sum in a wider type or pairwise, or avoid differences of numbers that are nearly equal")
}

/// Returns the first array that differs, and where.
fn differing(prepared: &Prepared, trial: &Trial<'_>, first: &Arrays, last: &Arrays) -> Option<(String, Difference)> {
    let body = prepared.module.functions.get(prepared.module.kernel.body)?;
    for (position, param) in prepared.module.kernel.params.iter().enumerate() {
        let (KernelParam::Array { name, memory, .. }, Argument::Array { shape, .. }) =
            (param, trial.args.get(position)?)
        else {
            continue;
        };
        if let (Some(one), Some(other)) = (&first.written[position], &last.written[position])
            && let Some(found) = difference(one, other, shape, &body.memories.get(*memory)?.layout)
        {
            return Some((name.clone(), found));
        }
    }
    None
}

/// Returns a control for a run that nobody else hears of.
fn alone(control: &Control) -> Control {
    Control {
        stop: control.stop.clone(),
        max_steps: control.max_steps,
        workers: control.workers,
        launched: control.launched,
        wait: true,
        ..Control::default()
    }
}

/// Returns the error of a test.
fn contradicted(kernel: &Kernel, expect: &Expect, found: Diagnostic, launched: Span) -> Box<Diagnostic> {
    let title = format!("`{}` is not what `expect {}` says", kernel.name, expect.what.text());
    let mut error = Diagnostic::error("E0618", title).at(expect.span, "expected here");
    for label in found.labels {
        let text = match (label.primary, label.text.as_str()) {
            (true, "") => found.title.clone(),
            (true, text) => format!("{}: {text}", found.title),
            (false, text) => text.to_string(),
        };
        error = error.because(label.span, text);
    }
    error = error.because(launched, "launched here");
    Box::new(Diagnostic { notes: found.notes, help: found.help, ..error })
}

/// Copies of the arrays that a launch writes, by position.
struct Arrays {
    written: Vec<Option<AlignedBytes>>,
}

impl Arrays {
    /// `None`: there is not enough memory.
    fn of(trial: &Trial<'_>) -> Option<Arrays> {
        let copy = |arg: &Argument<'_>| match arg {
            Argument::Array { bytes, writes: true, .. } => AlignedBytes::copy_of(bytes).map(Some),
            _ => Some(None),
        };
        Some(Arrays { written: trial.args.iter().map(copy).collect::<Option<_>>()? })
    }

    fn all<'a>(&'a mut self, trial: &'a Trial<'_>) -> Vec<Arg<'a>> {
        let arg = |(arg, own): (&'a Argument<'_>, &'a mut Option<AlignedBytes>)| match (arg, own) {
            (Argument::Value(lanes), _) => Arg::Value(lanes.clone()),
            (Argument::Array { shape, .. }, Some(own)) => Arg::Write { bytes: own, shape: shape.clone() },
            (Argument::Array { bytes, shape, .. }, None) => Arg::Read { bytes, shape: shape.clone() },
        };
        trial.args.iter().zip(&mut self.written).map(arg).collect()
    }
}
