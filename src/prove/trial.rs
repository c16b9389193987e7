//! Tests what is expected of kernels and not proved, with the launches that tests make.
//!
//! Input: launches with their arguments. Each runs on the simulator first, with the checks that its kernel's `expect` clause needs, on
//! copies of its arrays. Output: an error for what a run contradicts, and warnings for what is neither proved nor tested.

use std::sync::{Arc, Mutex, MutexGuard};

use rustc_hash::FxHashMap;

use super::examine::examine;
use super::orders;
use super::report::{Property, Report, Verdict};
use crate::base::aligned::AlignedBytes;
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{Expect, Kernel, KernelId, Program};
use crate::compile;
use crate::compile::trial::{Argument, Trial, Trials};
use crate::device::both::{Difference, difference};
use crate::device::sim::{Jit, Simulator};
use crate::device::{Arg, Control, Device, Executable, Fault, FaultKind, fault_diagnostic};
use crate::ir::def::KernelParam;
use crate::ir::{Checks, Prepared};
use crate::lower::Instance;

/// What is known of the contracts of kernels that tests launch.
#[derive(Default)]
pub(crate) struct Contracts {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    kernels: FxHashMap<KernelId, Known>,
    loaded: FxHashMap<(Instance, Manner), Option<Loaded>>,
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
}

/// A kernel with what is proved of it.
struct Known {
    contracts: Vec<Contract>,
    report: Report,
}

struct Contract {
    expect: Expect,
    property: Property,
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
            let proved =
                matches!(report.verdict(property), Some(Verdict::Proved { .. })) && report.unexamined.is_empty();
            Contract { expect: *expect, property, proved, tested: false, stopped: None }
        };
        let expects = program.kernels.get(id).map_or(&[][..], |kernel| &kernel.expects);
        Known { contracts: expects.iter().map(of).collect(), report }
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

    fn load(&mut self, program: &Program, instance: &Instance, manner: Manner) -> Option<Loaded> {
        let load = || {
            let mut prepared = compile::kernel(program, instance, manner.checks).ok()?;
            prepared.counted = manner.counted;
            let prepared = Arc::new(prepared);
            // Machine code has its own order.
            let simulator = Simulator::default();
            let simulator = if manner.checks.any() { simulator } else { simulator.compiling(Jit::Off) };
            Some(Loaded { executable: simulator.load(prepared.clone()), prepared })
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
            let title =
                format!("`expect {}` of `{}` is neither proved nor tested", contract.expect.what.text(), kernel.name);
            let warning = Diagnostic::warning("W0610", title).at(contract.expect.span, "expected here");
            let warning = match known.report.verdict(contract.property) {
                Some(Verdict::Unknown { why, place: Some(place) }) => warning.because(*place, why),
                Some(Verdict::Unknown { why, place: None }) => warning.note(why),
                Some(Verdict::Refuted { .. }) => warning.note("`clk check` shows sizes at which it does not hold"),
                _ => warning,
            };
            match &contract.stopped {
                Some(why) => warning.note(format!("the launches of tests did not test it: {why}")),
                None => warning.help(format!("launch `{}` in a `test`", kernel.name)),
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
        let mut state = self.state();
        let properties: Vec<Property> =
            state.known(program, trial.instance.kernel).due(trial.declared).iter().map(|c| c.property).collect();
        let has = |wanted: &dyn Fn(&Property) -> bool| properties.iter().any(wanted);
        let checked = Manner {
            checks: Checks { memory: true, arithmetic: has(&|p| *p == Property::NoOverflow), nan: false },
            counted: has(&|p| matches!(p, Property::BankWays(_) | Property::Sectors(_))),
        };
        if has(&|p| *p != Property::Order)
            && let Some(loaded) = state.load(program, &trial.instance, checked)
        {
            checked_run(kernel, state.known(program, trial.instance.kernel), &loaded, trial)?;
        }
        let plain = Manner { checks: Checks::default(), counted: false };
        if has(&|p| *p == Property::Order)
            && let Some(loaded) = state.load(program, &trial.instance, plain)
        {
            both_orders(kernel, state.known(program, trial.instance.kernel), &loaded, trial)?;
        }
        Ok(())
    }
}

/// Runs a launch with checks; what it reports may contradict contracts.
fn checked_run(kernel: &Kernel, known: &mut Known, loaded: &Loaded, trial: &Trial<'_>) -> Result<(), Box<Diagnostic>> {
    let control = Control { warnings: Arc::default(), crowds: Arc::default(), ..alone(trial.control) };
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
    for contract in known.due(trial.declared).into_iter().filter(|contract| contract.property != Property::Order) {
        match faults.iter().find(|fault| Known::breaks(&report, contract.property, fault)) {
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
    for contract in known.due(trial.declared).into_iter().filter(|contract| contract.property == Property::Order) {
        contract.tested |= stopped.is_none();
        contract.stopped = stopped.clone();
        if let Some((array, found)) = &differs {
            let found = orders::described(array, found, kernel.name_span);
            return Err(contradicted(kernel, &contract.expect, found, trial.span));
        }
    }
    Ok(())
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
        let text = if label.primary { format!("{}: {}", found.title, label.text) } else { label.text };
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
