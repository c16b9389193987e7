//! Contract trials: tests those `expect` clauses of kernels that are not proved, with the launches that tests make.
//!
//! Input: launches with their arguments. Before each launch, a trial runs on the simulator with copies of its arrays,
//! and with the checks that the kernel's `expect` clauses need. Output: an error for each clause that a trial violates,
//! and a warning for each clause that is neither proved nor tested.

use std::sync::{Arc, Mutex, MutexGuard};

use rustc_hash::FxHashMap;

use super::f64_shadow::{self, ShadowDeviation, WidenedArrays};
use super::order_comparison;
use super::prover::prove_kernel;
use super::report::{ProofReport, ProofVerdict, Property};
use clk_base::aligned::AlignedBytes;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::promote_f64;
use clk_check::typed::{Expect, Expected, Kernel, KernelId, Program};
use clk_compile::advice::FaultOrigin;
use clk_compile::trials::{TrialArgument, TrialLaunch, Trials};
use clk_differential::{Difference, difference};
use clk_ir::def::KernelParam;
use clk_ir::{Checks, CostCounting, PreparedKernel};
use clk_lower::Instance;
use clk_runtime::{Arg, Control, Device, Executable, Fault, FaultKind, LaunchConfig, fault_title};
use clk_sim::Simulator;

/// The contracts (`expect` clauses) of kernels that tests launch, with their proofs and the results of the trials.
#[derive(Default)]
pub struct ContractTrials {
    state: Mutex<TrialState>,
}

#[derive(Default)]
struct TrialState {
    proved: FxHashMap<KernelId, ProvedKernel>,
    loaded: FxHashMap<(Instance, TrialOptions), Option<LoadedKernel>>,
    shadow_program: Option<Arc<Program>>,
}

/// A compiled kernel that is ready to run on the simulator.
#[derive(Clone)]
struct LoadedKernel {
    executable: Arc<dyn Executable>,
    prepared: Arc<PreparedKernel>,
}

/// Options for compiling a kernel for a trial.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TrialOptions {
    checks: Checks,
    counts_costs: bool,
    /// Whether the kernel's `f64` shadow is compiled instead.
    is_shadow: bool,
}

/// A kernel's contracts, and the report of its proof.
struct ProvedKernel {
    contracts: Vec<Contract>,
    report: ProofReport,
    /// Set if an `f64` shadow is needed but impossible: the reason and its location.
    no_shadow_reason: Option<(Span, String)>,
}

struct Contract {
    expect: Expect,
    /// The property that the contract requires. `None` for `max_ulp`, which is tested by comparing the kernel's results
    /// with the results of its `f64` shadow.
    property: Option<Property>,
    /// Whether the contract is proved for all launches that the signature allows.
    is_proved: bool,
    is_tested: bool,
    /// The reason why a launch could not test the contract.
    untested_reason: Option<String>,
}

impl ProvedKernel {
    fn new(program: &Program, id: KernelId) -> ProvedKernel {
        let report = prove_kernel(program, id);
        let contract_of = |expect: &Expect| {
            let property = Property::from_expected(expect.expected);
            let is_proved = |property| matches!(report.verdict(property), Some(ProofVerdict::Proved { .. }));
            let proved = property.is_some_and(is_proved) && report.unexamined.is_empty();
            Contract { expect: *expect, property, is_proved: proved, is_tested: false, untested_reason: None }
        };
        let expects = program.kernels.get(id).map_or(&[][..], |kernel| &kernel.expects);
        let contracts: Vec<Contract> = expects.iter().map(contract_of).collect();
        let needs_shadow = contracts.iter().any(|contract| contract.property.is_none());
        let obstacle = if needs_shadow { f64_shadow::unsupported_construct(program, id) } else { None };
        ProvedKernel { contracts, report, no_shadow_reason: obstacle }
    }

    /// Returns the contracts that a launch must test.
    fn contracts_to_test(&mut self, declared: bool) -> Vec<&mut Contract> {
        self.contracts.iter_mut().filter(|contract| !(contract.is_proved && declared)).collect()
    }

    /// Returns whether a fault violates a contract.
    fn is_broken_by(report: &ProofReport, property: Property, fault: &Fault) -> bool {
        // `expect no_overflow` only covers operations that affect an index or a condition. Other sums may overflow.
        let counts = property != Property::NoOverflow || report.possible_overflows.contains(&fault.span);
        counts && property.is_broken_by(&fault.kind)
    }
}

impl TrialState {
    fn proved_kernel(&mut self, program: &Program, id: KernelId) -> &mut ProvedKernel {
        self.proved.entry(id).or_insert_with(|| ProvedKernel::new(program, id))
    }

    /// Returns the program's `f64` shadow.
    fn shadow(&mut self, program: &Program) -> Arc<Program> {
        self.shadow_program.get_or_insert_with(|| Arc::new(promote_f64::program(program))).clone()
    }

    fn load(&mut self, program: &Program, instance: &Instance, options: TrialOptions) -> Option<LoadedKernel> {
        let load = || {
            let mut prepared = clk_compile::compile_kernel(program, instance, options.checks).ok()?;
            prepared.cost_counting = options.counts_costs.then_some(CostCounting::Kernel);
            let prepared = Arc::new(prepared);
            Some(LoadedKernel { executable: Simulator::default().load(prepared.clone(), None), prepared })
        };
        self.loaded.entry((instance.clone(), options)).or_insert_with(load).clone()
    }
}

impl ContractTrials {
    fn lock_state(&self) -> MutexGuard<'_, TrialState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns a warning for each contract of a kernel that was neither proved nor tested.
    pub fn untested(&self, program: &Program, id: KernelId) -> Vec<Diagnostic> {
        let Some(kernel) = program.kernels.get(id).filter(|kernel| !kernel.expects.is_empty()) else { return vec![] };
        let mut state = self.lock_state();
        let kernel_state = state.proved_kernel(program, id);
        let left = kernel_state.contracts.iter().filter(|contract| !contract.is_proved && !contract.is_tested);
        left.map(|contract| {
            let outcome = if contract.property.is_some() { "neither proved nor tested" } else { "not tested" };
            let title = format!("`expect {}` of `{}` is {outcome}", contract.expect.expected.text(), kernel.name);
            let warning = Diagnostic::warning("W0610", title).at(contract.expect.span, "expected here");
            let warning = match contract.property.and_then(|property| kernel_state.report.verdict(property)) {
                Some(ProofVerdict::Unknown { why, place: Some(place) }) => warning.because(*place, why),
                Some(ProofVerdict::Unknown { why, place: None }) => warning.note(why),
                Some(ProofVerdict::Refuted { .. }) => warning.note("`clk check` shows sizes at which it does not hold"),
                _ => warning,
            };
            match (&contract.untested_reason, &kernel_state.no_shadow_reason) {
                (Some(_), Some((place, why))) if contract.property.is_none() => {
                    warning.because(*place, format!("it has no `f64` shadow: {why}"))
                }
                (Some(why), _) => warning.note(format!("the launches of tests did not test it: {why}")),
                (None, _) => warning.help(format!("launch `{}` in a `test`", kernel.name)),
            }
        })
        .collect()
    }
}

impl Trials for ContractTrials {
    fn wants(&self, program: &Program, kernel: KernelId, declared: bool) -> bool {
        let expects = program.kernels.get(kernel).is_some_and(|kernel| !kernel.expects.is_empty());
        expects && !self.lock_state().proved_kernel(program, kernel).contracts_to_test(declared).is_empty()
    }

    fn launch(&self, program: &Program, trial: &TrialLaunch<'_>) -> Result<(), Box<Diagnostic>> {
        let Some(kernel) = program.kernels.get(trial.instance.kernel) else { return Ok(()) };
        let (id, mut state) = (trial.instance.kernel, self.lock_state());
        let expects: Vec<Expect> =
            state.proved_kernel(program, id).contracts_to_test(trial.declared).iter().map(|c| c.expect).collect();
        let has_expectation =
            |predicate: &dyn Fn(&Expected) -> bool| expects.iter().any(|expect| predicate(&expect.expected));
        let plain = TrialOptions { checks: Checks::default(), counts_costs: false, is_shadow: false };
        let checked = TrialOptions {
            checks: Checks {
                memory: true,
                arithmetic: has_expectation(&|expected| *expected == Expected::NoOverflow),
                nan: false,
            },
            counts_costs: has_expectation(&|expected| matches!(expected, Expected::BankWays(_) | Expected::Sectors(_))),
            ..plain
        };
        let (ordered, compared) = (Expected::AnyOrder, |expected: &Expected| matches!(expected, Expected::MaxUlp(_)));
        if has_expectation(&|expected| *expected != ordered && !compared(expected))
            && let Some(loaded) = state.load(program, &trial.instance, checked)
        {
            let origin = FaultOrigin::of_trial(program, kernel, trial.extents);
            test_with_checks(origin, kernel, state.proved_kernel(program, id), &loaded, trial)?;
        }
        if has_expectation(&|expected| *expected == ordered)
            && let Some(loaded) = state.load(program, &trial.instance, plain)
        {
            test_both_orders(kernel, state.proved_kernel(program, id), &loaded, trial)?;
        }
        if has_expectation(&compared)
            && let Some(own) = state.load(program, &trial.instance, plain)
        {
            let options = TrialOptions { is_shadow: true, ..plain };
            let wide = state.shadow(program);
            let wide = state.load(&wide, &f64_shadow::shadow_instance(&trial.instance), options);
            test_against_shadow(kernel, state.proved_kernel(program, id), &own, wide.as_ref(), trial)?;
        }
        Ok(())
    }
}

/// Runs a launch with checks. Contracts that are violated by the faults that the checks report have failed.
fn test_with_checks(
    origin: FaultOrigin<'_>,
    kernel: &Kernel,
    proved: &mut ProvedKernel,
    loaded: &LoadedKernel,
    trial: &TrialLaunch<'_>,
) -> Result<(), Box<Diagnostic>> {
    let control = Control {
        warnings: Arc::default(),
        worst_accesses: Arc::default(),
        keep_races: true,
        ..isolated_control(trial.control)
    };
    let Some(mut arrays) = WrittenArrayCopies::copy_from(trial) else { return Ok(()) };
    let result = loaded.executable.launch(&trial_config(trial), &mut arrays.all(trial), &control);
    let take_faults =
        |list: &Mutex<Vec<Fault>>| list.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
    let mut faults = take_faults(&control.warnings);
    faults.extend(take_faults(&control.worst_accesses));
    let stopped = result.as_ref().err().map(|fault| fault_title(fault));
    if matches!(&result, Err(fault) if fault.kind == FaultKind::Interrupted) {
        return Ok(());
    }
    faults.extend(result.err().map(|fault| *fault));
    let report = std::mem::take(&mut proved.report);
    let mut broken = None;
    for contract in proved.contracts_to_test(trial.declared) {
        let Some(property) = contract.property.filter(|property| *property != Property::Order) else { continue };
        match faults.iter().find(|fault| ProvedKernel::is_broken_by(&report, property, fault)) {
            Some(fault) => {
                contract.is_tested = true;
                broken
                    .get_or_insert_with(|| contract_error(kernel, &contract.expect, origin.explain(fault), trial.span));
            }
            None if stopped.is_none() => contract.is_tested = true,
            None => contract.untested_reason = stopped.clone(),
        }
    }
    proved.report = report;
    broken.map_or(Ok(()), Err)
}

/// Runs a launch with blocks and warps in forward and in reverse order, and compares the resulting arrays.
fn test_both_orders(
    kernel: &Kernel,
    proved: &mut ProvedKernel,
    loaded: &LoadedKernel,
    trial: &TrialLaunch<'_>,
) -> Result<(), Box<Diagnostic>> {
    let (Some(mut first), Some(mut last)) =
        (WrittenArrayCopies::copy_from(trial), WrittenArrayCopies::copy_from(trial))
    else {
        return Ok(());
    };
    let mut stopped = None;
    for (arrays, reverse_order) in [(&mut first, false), (&mut last, true)] {
        // With several worker threads, the order would be nondeterministic.
        let control = Control { reverse_order, workers: 1, ..isolated_control(trial.control) };
        match loaded.executable.launch(&trial_config(trial), &mut arrays.all(trial), &control) {
            Err(fault) if fault.kind == FaultKind::Interrupted => return Ok(()),
            Err(fault) => stopped = Some(fault_title(&fault)),
            Ok(_) => {}
        }
    }
    let first_difference =
        if stopped.is_none() { first_array_difference(&loaded.prepared, trial, &first, &last) } else { None };
    for contract in proved
        .contracts_to_test(trial.declared)
        .into_iter()
        .filter(|contract| contract.property == Some(Property::Order))
    {
        contract.is_tested |= stopped.is_none();
        contract.untested_reason = stopped.clone();
        if let Some((array, difference)) = &first_difference {
            let diagnostic = order_comparison::describe_difference(array, difference, kernel.name_span);
            return Err(contract_error(kernel, &contract.expect, diagnostic, trial.span));
        }
    }
    Ok(())
}

/// Runs a launch and its `f64` shadow, and compares the floats in the resulting arrays.
fn test_against_shadow(
    kernel: &Kernel,
    proved: &mut ProvedKernel,
    own: &LoadedKernel,
    wide: Option<&LoadedKernel>,
    trial: &TrialLaunch<'_>,
) -> Result<(), Box<Diagnostic>> {
    let reason = proved.no_shadow_reason.clone();
    let Some(contract) =
        proved.contracts_to_test(trial.declared).into_iter().find(|contract| contract.property.is_none())
    else {
        return Ok(());
    };
    let Expected::MaxUlp(limit) = contract.expect.expected else { return Ok(()) };
    let deviation = match (reason, wide) {
        (Some((_, why)), _) => Err(why),
        (None, None) => Err("its `f64` shadow cannot be compiled".to_string()),
        (None, Some(wide)) => run_both_widths(own, wide, trial, limit),
    };
    match deviation {
        Err(why) => contract.untested_reason = Some(why),
        Ok(None) => contract.is_tested = true,
        Ok(Some(deviation)) => {
            contract.is_tested = true;
            return Err(contract_error(
                kernel,
                &contract.expect,
                describe_deviation(kernel, &deviation, limit),
                trial.span,
            ));
        }
    }
    Ok(())
}

/// Runs a launch and its `f64` shadow. Returns the element that deviates most, if it exceeds the limit; an error if a
/// run ends early.
fn run_both_widths(
    own: &LoadedKernel,
    wide: &LoadedKernel,
    trial: &TrialLaunch<'_>,
    limit: u32,
) -> Result<Option<ShadowDeviation>, String> {
    let out_of_memory = || "there is not enough memory".to_string();
    // `deterministic` fixes the order of atomic additions of floats.
    let control = Control { deterministic: true, ..isolated_control(trial.control) };
    let run = |loaded: &LoadedKernel, trial: &TrialLaunch<'_>| {
        let mut arrays = WrittenArrayCopies::copy_from(trial).ok_or_else(out_of_memory)?;
        let ran = loaded.executable.launch(&trial_config(trial), &mut arrays.all(trial), &control);
        ran.map(|_| arrays.written).map_err(|fault| fault_title(&fault))
    };
    let left = run(own, trial)?;
    let widened = WidenedArrays::of(trial, &own.prepared, &wide.prepared).ok_or_else(out_of_memory)?;
    let right = run(wide, &widened.trial(trial, &wide.prepared)).map_err(|why| format!("in `f64`, {why}"))?;
    Ok(f64_shadow::max_deviation(trial, &own.prepared, &left, &wide.prepared, &right, limit))
}

/// Returns the diagnostic about an element that deviates too far from its shadow.
fn describe_deviation(kernel: &Kernel, deviation: &ShadowDeviation, limit: u32) -> Diagnostic {
    let ShadowDeviation { place, own, shadow, ty, ulps, exceeding, compared, .. } = deviation;
    let far = match ulps.is_finite() {
        true => format!("{ulps:.1} units in the last place of `{}` away", ty.name()),
        false => "infinitely far away".to_string(),
    };
    let title = format!("`{place}` is {own}, and in `f64` it is {shadow}, {far}");
    let (first, more) =
        (deviation.stores.first().copied().unwrap_or(kernel.name_span), deviation.stores.iter().skip(1));
    let diagnostic = Diagnostic::warning("E0618", title).at(first, "");
    let diagnostic = more.fold(diagnostic, |diagnostic, place| {
        diagnostic.because(*place, format!("`{}` is also written here", deviation.array))
    });
    let verb = if *exceeding == 1 { "is" } else { "are" };
    let plural = if limit == 1 { "" } else { "s" };
    diagnostic
        .note(format!(
            "{exceeding} of {compared} floats {verb} further than {limit} unit{plural} from the same kernel in `f64`, \
             on the simulator"
        ))
        .help("sum in a wider type or pairwise, or avoid subtracting nearly equal numbers")
}

/// Returns the first array that differs, and the difference.
fn first_array_difference(
    prepared: &PreparedKernel,
    trial: &TrialLaunch<'_>,
    first: &WrittenArrayCopies,
    last: &WrittenArrayCopies,
) -> Option<(String, Difference)> {
    let body = prepared.module.functions.get(prepared.module.kernel.body)?;
    for (position, param) in prepared.module.kernel.params.iter().enumerate() {
        let (KernelParam::Array { name, memory, .. }, TrialArgument::Array { shape, .. }) =
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

/// Returns controls for a trial run that keep its reports separate from the reports of the actual launch.
fn isolated_control(control: &Control) -> Control {
    Control { stop: control.stop.clone(), max_steps: control.max_steps, workers: control.workers, ..Control::default() }
}

fn trial_config(trial: &TrialLaunch<'_>) -> LaunchConfig {
    LaunchConfig::new(trial.extents, trial.span).synchronous()
}

/// Returns the error about a test launch that violates a contract.
fn contract_error(kernel: &Kernel, expect: &Expect, diagnostic: Diagnostic, launched: Span) -> Box<Diagnostic> {
    let title = format!("`{}` violates `expect {}`", kernel.name, expect.expected.text());
    let mut error = Diagnostic::error("E0618", title).at(expect.span, "expected here");
    for label in diagnostic.labels {
        let text = match (label.is_primary(), label.text.as_str()) {
            (true, "") => diagnostic.title.clone(),
            (true, text) => format!("{}: {text}", diagnostic.title),
            (false, text) => text.to_string(),
        };
        error = error.because(label.span, text);
    }
    error = error.because(launched, "launched here");
    Box::new(Diagnostic { notes: diagnostic.notes, help: diagnostic.help, ..error })
}

/// Copies of the arrays that a launch writes, by position.
struct WrittenArrayCopies {
    written: Vec<Option<AlignedBytes>>,
}

impl WrittenArrayCopies {
    /// Copies the arrays that the launch writes. `None` if there is not enough memory.
    fn copy_from(trial: &TrialLaunch<'_>) -> Option<WrittenArrayCopies> {
        let copy = |arg: &TrialArgument<'_>| match arg {
            TrialArgument::Array { bytes, writes: true, .. } => AlignedBytes::copy_of(bytes).map(Some),
            _ => Some(None),
        };
        Some(WrittenArrayCopies { written: trial.args.iter().map(copy).collect::<Option<_>>()? })
    }

    fn all<'a>(&'a mut self, trial: &'a TrialLaunch<'_>) -> Vec<Arg<'a>> {
        let arg = |(arg, own): (&'a TrialArgument<'_>, &'a mut Option<AlignedBytes>)| match (arg, own) {
            (TrialArgument::Value(lanes), _) => Arg::Value(lanes.clone()),
            (TrialArgument::Array { shape, .. }, Some(own)) => Arg::Write { bytes: own, shape: shape.clone() },
            (TrialArgument::Array { bytes, shape, .. }, None) => Arg::Read { bytes, shape: shape.clone() },
        };
        trial.args.iter().zip(&mut self.written).map(arg).collect()
    }
}
