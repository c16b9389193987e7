//! Proves a kernel: tries all obligations, collects certificates, and replays candidate counterexamples.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustc_hash::FxHashMap;

use super::replay::{ReplayFilling, ReplayFinding, ReplayRunner, ReplaySizes};
use super::report::{ProofReport, ProofVerdict, Property};
use super::unstated_lengths::UnstatedLengths;
use super::{assumed_sizes, evidence, instances, order_comparison};
use clk_base::linear::{self, AffineForm, LinearProblem, SolverBudget, Var, decide};
use clk_base::source::Span;
use clk_base::stop;
use clk_check::typed::{Kernel, KernelId, Program};
use clk_compile::symbolic_launch::{self, LaunchSizes, MAX_DIMENSION, SizedLaunch, UndescribedLaunch};
use clk_ir::PreparedKernel;
use clk_ir::def::{Access, Function as Body, MemorySpace, Module};
use clk_ir::footprint::overflow_free::{OverflowFreeFootprint, compute_overflow_free};
use clk_ir::footprint::proof_obligation::{ObligationAnswer, ProofObligation};
use clk_ir::footprint::warp_cost_bounds::{CostMeasure, SymbolicWarps};
use clk_ir::footprint::{BarrierReach, Footprint, SignedOverflow, at_most, constant, number, single, variable};
use clk_ir::footprint::{property_obligations, write_coverage};
use clk_ir::inexact_operations::InexactOperations;
use clk_ir::inlined_calls::resolve_span;
use clk_lower::Instance;
use clk_runtime::FaultKind;
use clk_scalar::ScalarValue;

/// The maximum dimension that the second attempt assumes, if the first one cannot exclude overflow.
const SMALLER: i128 = 1 << 29;
/// Upper limits on the sizes of candidate counterexamples, in the order in which they are tried.
const CANDIDATE_LIMITS: [i128; 4] = [6, 70, 700, 9000];
/// Solver budget for a proof. Most proofs need a hundredth of it.
const PROOF: SolverBudget = SolverBudget { cases: 250, exchanges: 5_000 };
/// Solver budget for finding a small candidate.
const CANDIDATE: SolverBudget = SolverBudget { cases: 100, exchanges: 2_000 };
/// The maximum number of candidates that are replayed for a property.
const MAX_TRIES: usize = 4;
/// The maximum number of obligations that are tried after the first unproved one.
const MAX_AFTER_UNPROVED: usize = 24;

const STOPPED: &str = "the proof was stopped";

/// Proves all known instances of a kernel and reports the weakest verdict.
pub fn prove_kernel(program: &Program, id: KernelId) -> ProofReport {
    prove_kernel_until(program, id, &Arc::default())
}

/// How kernels are proved.
#[derive(Clone, Default)]
pub struct ProofOptions {
    /// Soon after this is set, the proof ends. Properties that are not yet decided remain unknown.
    pub stop: Arc<AtomicBool>,
    /// Whether dimensions that no `assume` clause mentions are unstated lengths: an access past such a length is
    /// *unknown*, not *refuted*.
    pub unstated_lengths: bool,
    /// Whether overflow of signed integers is undefined behavior, as in C++. Then unknown properties are proved for the
    /// launches without an overflow ([`ProofVerdict::Proved::without_overflow`]).
    pub overflow_is_undefined: bool,
    /// For arrays by name: the initial values of the first elements in each launch that is tried as a counterexample;
    /// the other elements are zero. Proofs hold for all contents.
    pub initial_contents: FxHashMap<String, Vec<ScalarValue>>,
}

/// Like [`prove_kernel`], but can be stopped: soon after `stop` is set, the proof ends, and properties that are not yet
/// decided remain unknown.
pub fn prove_kernel_until(program: &Program, id: KernelId, stop: &Arc<AtomicBool>) -> ProofReport {
    prove_kernel_with(program, id, &ProofOptions { stop: stop.clone(), ..ProofOptions::default() })
}

/// Like [`prove_kernel`], with options.
pub fn prove_kernel_with(program: &Program, id: KernelId, options: &ProofOptions) -> ProofReport {
    let Some(kernel) = program.kernels.get(id) else { return ProofReport::default() };
    let instances::Instances { proved: examined, not_examined: others } =
        instances::find_instances(program, id, kernel);
    let has_several = examined.len() > 1;
    let mut assumption_spans: Vec<Span> = kernel.assumes.iter().map(|assume| assume.span).collect();
    assumption_spans.dedup();
    let mut reports = examined.into_iter().map(|named| {
        let mut report = ProofReport {
            kernel: kernel.name.to_string(),
            assuming: assumption_spans.clone(),
            ..ProofReport::default()
        };
        match named.prepared {
            Ok(prepared) => {
                let mut inexact = InexactOperations::of(&prepared.module);
                let calls = &prepared.module.functions[prepared.module.kernel.body].calls;
                inexact.unordered_sums.iter_mut().for_each(|span| *span = resolve_span(calls, *span).0);
                report.inexact = Some(inexact);
                let properties = Property::of_kernel(kernel, Some(&prepared.module));
                let examination = Examination::new(program, kernel, &named.instance, &prepared, options);
                if stop::until_stopped(&options.stop, || examination.run(&mut report)).is_err() {
                    report.all_unknown(&properties, STOPPED, Some(kernel.name_span));
                }
            }
            Err(why) => {
                let properties = Property::of_kernel(kernel, None);
                report.all_unknown(&properties, &why, Some(kernel.name_span));
            }
        }
        report.instance = named.text;
        report
    });
    let first = reports.next().unwrap_or_default();
    let all = match has_several {
        true => reports.fold(first.with_instance_names(), |all, one| all.merge(one.with_instance_names())),
        false => first,
    };
    ProofReport { unexamined: others, ..all }
}

struct Examination<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
    instance: &'a Instance,
    module: &'a Module,
    body: &'a Body,
    has_unstated_lengths: bool,
    overflow_is_undefined: bool,
    seeks_counterexamples: bool,
    runner: ReplayRunner<'a>,
    certificates: String,
    unconfirmed: usize,
    /// Whether a counterexample was dropped because another size of the block avoids it.
    depends_on_block: bool,
}

/// Why a kernel cannot be analyzed.
#[derive(Debug, thiserror::Error)]
enum AnalysisError {
    #[error(transparent)]
    Launch(#[from] UndescribedLaunch),
    #[error("too many operations may overflow")]
    Overflows,
}

/// The result of analyzing a kernel: its footprint, and the operations that may overflow.
struct AnalyzedKernel {
    launch: SizedLaunch,
    footprint: Footprint,
    /// Signed operations that may overflow and on which an index or condition depends.
    overflowing: Vec<ProofObligation>,
    steps: usize,
    certificates: String,
}

/// The result of trying to prove an obligation.
enum ProofAnswer {
    Proved,
    /// The solver found a solution, so there may be a violation for some sizes.
    MayFail,
    Unknown(String),
}

impl<'a> Examination<'a> {
    fn new(
        program: &'a Program,
        kernel: &'a Kernel,
        instance: &'a Instance,
        prepared: &'a PreparedKernel,
        options: &ProofOptions,
    ) -> Self {
        let module: &Module = &prepared.module;
        let body = &module.functions[module.kernel.body];
        let lengths = if options.unstated_lengths { UnstatedLengths::of(kernel) } else { UnstatedLengths::default() };
        let mut runner = ReplayRunner::new(program, kernel, instance, module, lengths, &options.stop);
        runner.initial_contents = options.initial_contents.clone();
        Examination {
            program,
            kernel,
            instance,
            module,
            body,
            has_unstated_lengths: options.unstated_lengths,
            overflow_is_undefined: options.overflow_is_undefined,
            seeks_counterexamples: true,
            runner,
            certificates: String::new(),
            unconfirmed: 0,
            depends_on_block: false,
        }
    }

    fn run(mut self, report: &mut ProofReport) {
        let properties = Property::of_kernel(self.kernel, Some(self.module));
        let mut analyzed = match self.analyze(MAX_DIMENSION, SignedOverflow::Possible) {
            Ok(analyzed) => analyzed,
            Err(error) => return report.all_unknown(&properties, &error.to_string(), Some(self.kernel.name_span)),
        };
        let no_launch = property_obligations::is_launchable(&analyzed.launch.symbolic);
        if let (Some(assume), ProofAnswer::Proved) =
            (self.kernel.assumes.first(), self.prove_obligation(&no_launch, &mut String::new()))
        {
            return report.all_unknown(&properties, "no launch keeps all assumptions", Some(assume.span));
        }
        if !analyzed.overflowing.is_empty()
            && let Ok(smaller) = self.analyze(SMALLER, SignedOverflow::Possible)
            && smaller.overflowing.len() < analyzed.overflowing.len()
        {
            report.largest = Some(SMALLER);
            analyzed = smaller;
        }
        self.certificates = std::mem::take(&mut analyzed.certificates);
        if let Some((why, span)) = &analyzed.footprint.stopped {
            let (place, _) = resolve_span(&self.body.calls, *span);
            report.all_unknown(&properties, why, Some(place));
            for (property, verdict) in &mut report.verdicts {
                if let Some(counterexample) = self.find_counterexample(*property, &analyzed.launch, &[]) {
                    *verdict = refuted(counterexample);
                }
            }
            return;
        }
        report.verdicts = self.verdicts(&properties, &analyzed, &[]);
        report.possible_overflows = analyzed.overflowing.iter().map(|question| self.place(question.span)).collect();
        let overflow = match analyzed.overflowing.is_empty() {
            true => ProofVerdict::proved(analyzed.steps),
            false => self.prove_property(Property::NoOverflow, std::mem::take(&mut analyzed.overflowing), &analyzed),
        };
        if self.overflow_is_undefined && !matches!(overflow, ProofVerdict::Proved { .. }) {
            self.prove_without_overflow(&properties, report);
        }
        report.verdicts.push((Property::NoOverflow, overflow));
        report.verdicts.sort_by_key(|(property, _)| *property);
        report.certificates = self.certificates;
        report.unconfirmed = self.unconfirmed;
    }

    /// Returns the verdicts for all properties but `NoOverflow`. Those of `known` that are decided remain.
    fn verdicts(
        &mut self,
        properties: &[Property],
        analyzed: &AnalyzedKernel,
        known: &[(Property, ProofVerdict)],
    ) -> Vec<(Property, ProofVerdict)> {
        let (launch, footprint) = (&analyzed.launch.symbolic, &analyzed.footprint);
        let decided = |property: Property| {
            let (_, verdict) = known.iter().find(|(own, _)| *own == property)?;
            (!matches!(verdict, ProofVerdict::Unknown { .. })).then(|| verdict.clone())
        };
        let bounds = decided(Property::InBounds).unwrap_or_else(|| {
            let bounds = property_obligations::all_bounds(self.body, launch, footprint);
            self.prove_property(Property::InBounds, bounds, analyzed)
        });
        let races = decided(Property::RaceFree).unwrap_or_else(|| self.prove_race_freedom(analyzed));
        let may_race = !matches!(races, ProofVerdict::Proved { .. });
        let barriers = decided(Property::Barriers).unwrap_or_else(|| self.prove_barriers(analyzed, may_race));
        let written = decided(Property::Written).unwrap_or_else(|| self.prove_written(analyzed));
        let order = decided(Property::Order).unwrap_or_else(|| self.order(analyzed, &races, &barriers));
        let mut verdicts = vec![
            (Property::InBounds, bounds),
            (Property::RaceFree, races),
            (Property::Written, written),
            (Property::Barriers, barriers),
            (Property::Order, order),
        ];
        if properties.contains(&Property::Initialized) {
            let verdict = decided(Property::Initialized);
            let verdict = verdict.unwrap_or_else(|| self.prove_initialized(analyzed, may_race));
            verdicts.push((Property::Initialized, verdict));
        }
        if properties.contains(&Property::Assertions) {
            let verdict = decided(Property::Assertions).unwrap_or_else(|| {
                let obligations = property_obligations::assertions(launch, footprint);
                self.prove_property(Property::Assertions, obligations, analyzed)
            });
            verdicts.push((Property::Assertions, verdict));
        }
        for limit in Property::limits(self.kernel) {
            verdicts.push((limit, decided(limit).unwrap_or_else(|| self.prove_limit(limit, analyzed))));
        }
        verdicts
    }

    fn prove_race_freedom(&mut self, analyzed: &AnalyzedKernel) -> ProofVerdict {
        let (launch, footprint) = (&analyzed.launch.symbolic, &analyzed.footprint);
        let races = match property_obligations::race_freedom(self.body, launch, footprint) {
            Some(asked) => self.prove_property(Property::RaceFree, asked, analyzed),
            None => self.search_or_unknown(Property::RaceFree, "there are too many pairs of accesses", None, analyzed),
        };
        let barrier = footprint.barriers.iter().find(|barrier| barrier.reach == BarrierReach::Unknown);
        match (races, barrier) {
            (ProofVerdict::Proved { .. }, Some(barrier)) => {
                let why = "not all threads are known to reach this barrier".to_string();
                ProofVerdict::Unknown { why, place: Some(self.place(barrier.span)) }
            }
            (races, _) => races,
        }
    }

    /// Proves unknown properties for the launches in which no signed operation overflows. If that fails too, the reason
    /// of this failure replaces the first one.
    fn prove_without_overflow(&mut self, properties: &[Property], report: &mut ProofReport) {
        if !report.verdicts.iter().any(|(_, verdict)| matches!(verdict, ProofVerdict::Unknown { .. })) {
            return;
        }
        let largest = report.largest.unwrap_or(MAX_DIMENSION);
        let Ok(analyzed) = self.analyze(largest, SignedOverflow::Undefined) else { return };
        if analyzed.footprint.stopped.is_some() {
            return;
        }
        self.seeks_counterexamples = false;
        // The properties are in the same order.
        let others = self.verdicts(properties, &analyzed, &report.verdicts);
        for ((_, verdict), (_, other)) in report.verdicts.iter_mut().zip(others) {
            if matches!(verdict, ProofVerdict::Unknown { .. }) {
                *verdict = match other {
                    ProofVerdict::Proved { steps, .. } => ProofVerdict::Proved { steps, without_overflow: true },
                    other => other,
                };
            }
        }
    }

    fn place(&self, span: Span) -> Span {
        resolve_span(&self.body.calls, span).0
    }

    /// Analyzes the body repeatedly, until all results on which the footprint relies are proved to fit their types.
    fn analyze(&self, largest: i128, overflow: SignedOverflow) -> Result<AnalyzedKernel, AnalysisError> {
        let launch = symbolic_launch::symbolic_launch(
            self.program,
            self.kernel,
            self.instance,
            self.module,
            &LaunchSizes::Any(largest),
        )?;
        let mut prove = |question: &ProofObligation| {
            let mut certificate = String::new();
            matches!(self.prove_obligation(question, &mut certificate), ProofAnswer::Proved).then_some(certificate)
        };
        let analysis = compute_overflow_free(self.module, &launch.symbolic, overflow, &mut prove)
            .ok_or(AnalysisError::Overflows)?;
        let OverflowFreeFootprint { footprint, overflowing, proofs } = analysis;
        Ok(AnalyzedKernel { launch, footprint, overflowing, steps: proofs.len(), certificates: proofs.concat() })
    }

    /// Tries to prove an obligation. If proved, appends the certificate to `certificates`.
    fn prove_obligation(&self, question: &ProofObligation, certificates: &mut String) -> ProofAnswer {
        let Ok(answer) = stop::until_stopped(&self.runner.stop, || question.answer(&PROOF)) else {
            return ProofAnswer::Unknown(STOPPED.into());
        };
        match answer {
            ObligationAnswer::Proved(problem, certificate) => {
                write_certificate(certificates, question, problem, &certificate.to_string());
                ProofAnswer::Proved
            }
            ObligationAnswer::MayFail => ProofAnswer::MayFail,
            ObligationAnswer::Unknown(why) => ProofAnswer::Unknown(why),
        }
    }

    /// Tries to prove a property by its obligations. If one is not proved, searches for a counterexample.
    fn prove_property(
        &mut self,
        property: Property,
        obligations: Vec<ProofObligation>,
        analyzed: &AnalyzedKernel,
    ) -> ProofVerdict {
        let mut steps = 0;
        let mut certificates = String::new();
        let mut unproved: Option<(String, Span)> = None;
        let mut suggestions: Vec<(Span, &String)> = vec![];
        let mut candidates: Vec<ReplaySizes> = vec![];
        let mut remaining = if self.seeks_counterexamples { MAX_AFTER_UNPROVED } else { 1 };
        for question in &obligations {
            // After the first unproved obligation, the property can no longer be proved. Further obligations are tried
            // only to find a counterexample.
            remaining -= usize::from(unproved.is_some());
            if remaining == 0 || candidates.len() >= MAX_TRIES {
                break;
            }
            let answer = self.prove_obligation(question, &mut certificates);
            if let (Some(promise), false) = (&question.suggested_promise, matches!(answer, ProofAnswer::Proved)) {
                suggestions.push((self.place(question.span), promise));
            }
            match answer {
                ProofAnswer::Proved => steps += 1,
                ProofAnswer::MayFail => {
                    if self.seeks_counterexamples {
                        for sizes in self.candidates(property, question, analyzed) {
                            if !candidates.contains(&sizes) {
                                candidates.push(sizes);
                            }
                        }
                    }
                    unproved.get_or_insert_with(|| {
                        self.explain_unproved(question, "no run at the candidate sizes shows it")
                    });
                }
                ProofAnswer::Unknown(why) => {
                    unproved.get_or_insert_with(|| self.explain_unproved(question, &why));
                }
            }
        }
        let Some((why, span)) = unproved else {
            self.certificates.push_str(&certificates);
            return ProofVerdict::proved(steps);
        };
        let has_candidates = !candidates.is_empty();
        match self.find_counterexample(property, &analyzed.launch, &candidates) {
            Some(mut found) => {
                let labels = &found.diagnostic.labels;
                let suggestion = suggestions.iter().find(|(place, _)| labels.iter().any(|label| label.span == *place));
                if let Some((_, promise)) = suggestion {
                    let help = format!("if no caller passes such elements, promise it: `assume {promise}`");
                    found.diagnostic = found.diagnostic.help(help);
                }
                refuted(found)
            }
            None => {
                self.unconfirmed += usize::from(has_candidates);
                ProofVerdict::Unknown { why, place: Some(span) }
            }
        }
    }

    fn search_or_unknown(
        &mut self,
        property: Property,
        why: &str,
        place: Option<Span>,
        analyzed: &AnalyzedKernel,
    ) -> ProofVerdict {
        match self.find_counterexample(property, &analyzed.launch, &[]) {
            Some(found) => refuted(found),
            None => ProofVerdict::Unknown { why: why.into(), place },
        }
    }

    /// Returns the reason why an obligation is unproved, and the location to report.
    fn explain_unproved(&self, question: &ProofObligation, otherwise: &str) -> (String, Span) {
        if let Some(promise) = &question.suggested_promise {
            let why = format!("perhaps {}, unless callers promise `assume {promise}`", question.description);
            return (why, self.place(question.span));
        }
        let name = question.memory.map(|memory| &self.body.memories[memory].name);
        if let Some(name) = name.filter(|name| self.runner.lengths.is_array(name)) {
            return (format!("the source does not state the length of `{name}`"), self.place(question.span));
        }
        match question.unknowns.first() {
            Some((why, span)) => {
                let place = self.place(*span);
                (format!("perhaps {}; {why}", question.description), place)
            }
            None => (format!("perhaps {}; {otherwise}", question.description), self.place(question.span)),
        }
    }

    /// Returns launch sizes at which the obligation may be violated, small ones first.
    fn candidates(
        &self,
        property: Property,
        question: &ProofObligation,
        analyzed: &AnalyzedKernel,
    ) -> Vec<ReplaySizes> {
        let geometry = analyzed.launch.dims.iter().chain(&analyzed.launch.space);
        let geometry: Vec<Var> = geometry.flat_map(|form| form.terms().iter().map(|&(var, _)| var)).collect();
        // Small sizes do not overflow, but a parameter that is not a size may have any value.
        let any_scalar = [6, 70].into_iter().filter(|_| property == Property::NoOverflow).map(|most| (most, true));
        let limits = CANDIDATE_LIMITS.into_iter().map(|most| (most, false)).chain(any_scalar);
        let mut tries = vec![];
        let (problem, launch) =
            property_obligations::with_thread(&analyzed.launch.symbolic, &analyzed.footprint, question);
        for (most, any_scalar) in limits {
            let mut problem = problem.clone();
            for (_, copy) in launch.iter().filter(|(var, _)| !any_scalar || geometry.contains(var)) {
                let copy = variable(*copy);
                problem.facts.push(at_most(&copy, &number(most)));
                problem.facts.push(at_most(&number(-most), &copy));
            }
            let verdict = stop::until_stopped(&self.runner.stop, || decide(&problem, &CANDIDATE));
            if let Ok(linear::SolverVerdict::Point(point)) = verdict {
                let values: FxHashMap<Var, i128> =
                    launch.iter().map(|(var, copy)| (*var, point[copy.index()])).collect();
                tries.push(self.replay_at(&analyzed.launch, &|form| value_at(form, &values).unwrap_or(most.min(5))));
                break;
            }
        }
        tries
    }

    fn replay_at(&self, launch: &SizedLaunch, value: &dyn Fn(&AffineForm) -> i128) -> ReplaySizes {
        let evaluate = |form: &AffineForm| constant(form).unwrap_or_else(|| value(form));
        let mut dims: Vec<i128> = launch.dims.iter().map(evaluate).collect();
        self.runner.lengths.extend(&mut dims);
        ReplaySizes {
            dims,
            scalars: launch.scalars.iter().map(|(position, form)| (*position, evaluate(form))).collect(),
        }
    }

    /// Replays the kernel at the candidate sizes, then at some small ones, until a run violates the property.
    fn find_counterexample(
        &mut self,
        property: Property,
        launch: &SizedLaunch,
        proposed: &[ReplaySizes],
    ) -> Option<ReplayFinding> {
        if !self.seeks_counterexamples {
            return None;
        }
        let mut tries: Vec<ReplaySizes> = proposed.to_vec();
        // The sizes are pairs of dimension and integer parameter. For `Order`, a launch needs several lane groups,
        // because the threads of a lane group always run in lockstep.
        let sizes: &[(i128, i128)] = match property {
            Property::Order => &[(5, 5), (100, 100), (1100, 3)],
            // Launches with whole warps are tried first.
            Property::BankWays(_) | Property::Sectors(_) => &[(100, 100), (33, 1), (64, 64), (5, 5), (2, 2), (1, 1)],
            _ => &[(1, 1), (2, 2), (5, 0), (5, 5), (33, 1), (100, 100)],
        };
        for &(n, scalar) in sizes {
            tries.push(self.replay_at(launch, &|form| if launch.dims.contains(form) { n } else { scalar }));
        }
        if self.has_unstated_lengths {
            // A parameter that the obligation does not mention may violate an assumption.
            tries.extend(proposed.iter().cloned());
            tries.extend(assumed_sizes::uneven_sizes(launch));
            for sizes in tries.iter_mut().skip(proposed.len()) {
                assumed_sizes::fit_sizes(self.program, self.kernel, self.instance, sizes);
                self.runner.lengths.extend(&mut sizes.dims);
            }
        }
        if property == Property::Order {
            return order_comparison::compare_orders(&self.runner, &tries);
        }
        let mut counterexample = tries.iter().find_map(|sizes| self.runner.run(sizes, property))?;
        if let (false, Some((sizes, _))) = (counterexample.needs_contents, &counterexample.fault) {
            // Arrays of zeros may cause a fault too: all threads that read their index from memory use the same one.
            let others = [ReplayFilling::Positions, ReplayFilling::Numbers(1)];
            let initial_contents = std::mem::take(&mut self.runner.initial_contents);
            counterexample.needs_contents = others.into_iter().any(|filling| {
                let findings = self.runner.findings(sizes, filling);
                findings.is_some_and(|findings| findings.iter().all(|found| found.property != property))
            });
            self.runner.initial_contents = initial_contents;
        }
        if let (Property::Initialized, Some((sizes, _))) = (property, &counterexample.fault)
            && self.has_unstated_lengths
            && assumed_sizes::with_other_blocks(launch, sizes)
                .into_iter()
                .any(|launches| self.are_without_faults(launches))
        {
            self.depends_on_block = true;
            return None;
        }
        if let (Property::RaceFree, Some((sizes, fault))) = (property, &counterexample.fault) {
            let (instance, stop) = (self.instance, &self.runner.stop);
            let notes = evidence::counterexample_evidence(self.program, self.kernel, instance, sizes, fault, stop);
            counterexample.diagnostic.notes.extend(notes);
        }
        Some(counterexample)
    }

    /// Returns whether launches have no fault.
    fn are_without_faults(&mut self, launches: Vec<ReplaySizes>) -> bool {
        launches.into_iter().all(|mut sizes| {
            assumed_sizes::fit_sizes(self.program, self.kernel, self.instance, &mut sizes);
            self.runner.lengths.extend(&mut sizes.dims);
            self.runner.findings(&sizes, ReplayFilling::Numbers(0)).is_some_and(|findings| findings.is_empty())
        })
    }

    /// Proves that results do not depend on the order of blocks and warps. Without races, and if all threads reach the
    /// barriers, only atomic operations can depend on the order.
    fn order(&mut self, analyzed: &AnalyzedKernel, races: &ProofVerdict, barriers: &ProofVerdict) -> ProofVerdict {
        for (verdict, what) in [(races, "threads may race"), (barriers, "threads may miss a barrier")] {
            if let ProofVerdict::Unknown { why, place } = verdict {
                return self.search_or_unknown(Property::Order, &format!("{what}: {why}"), *place, analyzed);
            }
            if let ProofVerdict::Refuted { found, .. } = verdict {
                return self.search_or_unknown(Property::Order, what, found.primary(), analyzed);
            }
        }
        match property_obligations::atomic_order(self.body, &analyzed.launch.symbolic, &analyzed.footprint) {
            Some(obligations) => self.prove_property(Property::Order, obligations, analyzed),
            None => {
                self.search_or_unknown(Property::Order, "there are too many pairs of atomic operations", None, analyzed)
            }
        }
    }

    /// Proves an upper limit on the cost of warp-wide accesses.
    fn prove_limit(&mut self, property: Property, analyzed: &AnalyzedKernel) -> ProofVerdict {
        let (cost, most) = match property {
            Property::BankWays(most) => (CostMeasure::SharedTransactions, most),
            Property::Sectors(most) => (CostMeasure::Sectors, most),
            _ => return ProofVerdict::proved(0),
        };
        let mut warps = match SymbolicWarps::new(self.module, &analyzed.launch.symbolic, &analyzed.footprint) {
            Ok(warps) => warps,
            Err(why) => return self.search_or_unknown(property, why, Some(self.kernel.name_span), analyzed),
        };
        let mut steps = 0;
        for access in &analyzed.footprint.accesses {
            let memory = &self.body.memories[access.memory];
            if CostMeasure::for_space(memory.space) != Some(cost) {
                continue;
            }
            let why = match (warps.cost(self.body, access, cost), cost) {
                (Ok(count), _) if count <= most => {
                    steps += 1;
                    continue;
                }
                (Ok(count), CostMeasure::SharedTransactions) => {
                    format!("a warp may take {count} transactions to access `{}`", memory.name)
                }
                (Ok(count), CostMeasure::Sectors) => format!("a warp may touch {count} sectors of `{}`", memory.name),
                (Err(why), _) => format!("the accesses of a warp to `{}` are unknown: {why}", memory.name),
            };
            return self.search_or_unknown(property, &why, Some(self.place(access.span)), analyzed);
        }
        ProofVerdict::proved(steps)
    }

    fn prove_barriers(&mut self, analyzed: &AnalyzedKernel, may_race: bool) -> ProofVerdict {
        let is_doubtful =
            |reach: BarrierReach| reach == BarrierReach::Unknown || may_race && reach == BarrierReach::IfRaceFree;
        match analyzed.footprint.barriers.iter().find(|barrier| is_doubtful(barrier.reach)) {
            None => ProofVerdict::proved(0),
            Some(barrier) => {
                let place = self.place(barrier.span);
                let why = match barrier.reach {
                    BarrierReach::Unknown => "not all threads are known to reach this barrier",
                    _ => "whether threads reach this barrier depends on memory that may be written at the same time",
                };
                self.search_or_unknown(Property::Barriers, why, Some(place), analyzed)
            }
        }
    }

    fn prove_written(&mut self, analyzed: &AnalyzedKernel) -> ProofVerdict {
        let mut obligations = vec![];
        let is_out = |access| access == Access::Out;
        let unwritten =
            write_coverage::coverage_obligations(self.body, &analyzed.launch.symbolic, &analyzed.footprint, is_out);
        for (memory, mut alternatives) in unwritten {
            if alternatives.is_empty() {
                let memory = &self.body.memories[memory];
                let why = format!("no statement is known to cover `{}`", memory.name);
                let place = self.place(memory.span);
                return self.search_or_unknown(Property::Written, &why, Some(place), analyzed);
            }
            let is_proof = |question: &ProofObligation| {
                matches!(self.prove_obligation(question, &mut String::new()), ProofAnswer::Proved)
            };
            let best = if alternatives.len() == 1 { 0 } else { alternatives.iter().position(is_proof).unwrap_or(0) };
            obligations.push(alternatives.swap_remove(best));
        }
        self.prove_property(Property::Written, obligations, analyzed)
    }
}

impl Examination<'_> {
    /// Proves that every element of a shared array that a thread reads is written before. The proof needs the order
    /// of the writes and reads, so the array must be free of races and all threads must reach the barriers.
    fn prove_initialized(&mut self, analyzed: &AnalyzedKernel, may_race: bool) -> ProofVerdict {
        let (launch, footprint) = (&analyzed.launch.symbolic, &analyzed.footprint);
        let is_doubtful =
            |reach: BarrierReach| reach == BarrierReach::Unknown || may_race && reach == BarrierReach::IfRaceFree;
        if let Some(barrier) = footprint.barriers.iter().find(|barrier| is_doubtful(barrier.reach)) {
            let place = Some(self.place(barrier.span));
            let why = "not all threads are known to reach this barrier";
            return self.search_or_unknown(Property::Initialized, why, place, analyzed);
        }
        let mut obligations = vec![];
        for (id, memory) in self.body.memories.iter().filter(|(_, memory)| memory.space == MemorySpace::Shared) {
            let Some(reads) = write_coverage::initialized_read_obligations(self.body, launch, footprint, id) else {
                continue;
            };
            if reads.is_empty() {
                continue;
            }
            let is_proof = |question: &ProofObligation| {
                matches!(self.prove_obligation(question, &mut String::new()), ProofAnswer::Proved)
            };
            if may_race {
                let races = property_obligations::race_freedom_of(self.body, launch, footprint, &|memory| memory == id);
                if !races.is_some_and(|races| races.iter().all(is_proof)) {
                    let why = format!("two threads may race on `{}`", memory.name);
                    let place = Some(self.place(memory.span));
                    return self.search_or_unknown(Property::Initialized, &why, place, analyzed);
                }
            }
            for read in reads {
                let mut ways = read.obligations;
                if ways.is_empty() {
                    let why = format!("no statement is known to write the elements of `{}` before", memory.name);
                    let place = Some(self.place(read.span));
                    return self.search_or_unknown(Property::Initialized, &why, place, analyzed);
                }
                let best = if ways.len() == 1 { 0 } else { ways.iter().position(is_proof).unwrap_or(0) };
                obligations.push(ways.swap_remove(best));
            }
        }
        let mut verdict = self.prove_property(Property::Initialized, obligations, analyzed);
        if let (ProofVerdict::Unknown { why, .. }, true) = (&mut verdict, self.depends_on_block) {
            *why = "a read element is unwritten only in blocks of some sizes; a comment states the size".into();
        }
        verdict
    }
}

fn refuted(counterexample: ReplayFinding) -> ProofVerdict {
    let ReplayFinding { sizes, needs_contents, diagnostic, fault, .. } = counterexample;
    let past_end_of = match fault.map(|(_, fault)| fault.kind) {
        Some(FaultKind::OutOfBounds { array, indices, .. }) if indices.iter().all(|index| *index >= 0) => Some(array),
        _ => None,
    };
    ProofVerdict::Refuted { sizes, needs_contents, past_end_of, found: Box::new(diagnostic) }
}

/// Returns the value of an affine form that is a single variable, if the variable's value is known.
fn value_at(form: &AffineForm, values: &FxHashMap<Var, i128>) -> Option<i128> {
    values.get(&single(form)?).copied()
}

fn write_certificate(to: &mut String, question: &ProofObligation, problem: &LinearProblem, certificate: &str) {
    let names = &problem.variables;
    let _ = writeln!(to, "never: {}", question.description);
    for (i, name) in names.iter().enumerate() {
        let _ = writeln!(to, "  x{i} is {name}");
    }
    for (p, x, y) in &problem.products {
        let _ = writeln!(to, "  x{} = x{} * x{}", p.0, x.0, y.0);
    }
    for fact in &problem.facts {
        let _ = writeln!(to, "  {}", formula_text(fact));
    }
    for line in certificate.lines() {
        let _ = writeln!(to, "    {line}");
    }
}

/// Returns the text of a formula with variable numbers instead of names.
fn formula_text(formula: &clk_base::linear::Formula) -> String {
    use clk_base::linear::{Atom, Formula};
    let list = |parts: &[Formula], by: &str| parts.iter().map(formula_text).collect::<Vec<_>>().join(by);
    match formula {
        Formula::Atom(Atom::NonNegative(form)) => format!("{form} >= 0"),
        Formula::Atom(Atom::Zero(form)) => format!("{form} == 0"),
        Formula::And(parts) => format!("({})", list(parts, " and ")),
        Formula::Or(parts) => format!("({})", list(parts, " or ")),
    }
}
