//! Examines a kernel: asks all questions, collects certificates, has candidates run.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustc_hash::FxHashMap;

use super::replay::{Found, Runner, Try};
use super::report::{Property, Report, Verdict};
use super::{evidence, instances, orders};
use crate::base::linear::{self, Budget, Linear, Problem, Var, decide};
use crate::base::source::Span;
use crate::check::typed::{Kernel, KernelId, Program};
use crate::compile::sizes::{self, LARGEST, Launch, Sizes};
use crate::ir::Prepared;
use crate::ir::calls::resolve;
use crate::ir::def::{Access, Function as Body, Module};
use crate::ir::footprint::question::{Answer, Question};
use crate::ir::footprint::settle::{Settled, settle};
use crate::ir::footprint::warp::{Cost, Warps};
use crate::ir::footprint::{Footprint, Reached, at_most, constant, number, single, variable};
use crate::ir::footprint::{claim, cover};
use crate::lower::Instance;

/// The second largest dimension tried.
const SMALLER: i128 = 1 << 29;
/// The largest sizes of candidates, tried one after the other.
const CANDIDATES: [i128; 4] = [6, 70, 700, 9000];
/// The work for an answer, and for a candidate of few sizes. Most answers take a hundredth of it.
const PROOF: Budget = Budget { cases: 250, exchanges: 5_000 };
const CANDIDATE: Budget = Budget { cases: 100, exchanges: 2_000 };
/// Candidates that are run for a property.
const MAX_TRIES: usize = 4;
/// Questions that are asked after one that is open.
const MAX_AFTER: usize = 24;

/// Examines a kernel: all its instances that the program tells of, of which the worst counts.
pub fn examine(program: &Program, id: KernelId) -> Report {
    examine_until(program, id, &Arc::default())
}

/// As [`examine`]; runs of candidates end soon after the flag is set, and what they would have shown is unknown.
pub fn examine_until(program: &Program, id: KernelId, stop: &Arc<AtomicBool>) -> Report {
    let Some(kernel) = program.kernels.get(id) else { return Report::default() };
    let instances::Instances { examined, others } = instances::of(program, id, kernel);
    let several = examined.len() > 1;
    let mut assuming: Vec<Span> = kernel.assumes.iter().map(|assume| assume.span).collect();
    assuming.dedup();
    let mut reports = examined.into_iter().map(|named| {
        let mut report = Report { kernel: kernel.name.to_string(), assuming: assuming.clone(), ..Report::default() };
        match named.prepared {
            Ok(prepared) => Examination::new(program, kernel, (&named.instance, &prepared), stop).run(&mut report),
            Err(why) => report.all_unknown(kernel, &why, Some(kernel.name_span)),
        }
        report.instance = named.text;
        report
    });
    let first = reports.next().unwrap_or_default();
    let all = match several {
        true => reports.fold(first.named(), |all, one| all.with(one.named())),
        false => first,
    };
    Report { unexamined: others, ..all }
}

struct Examination<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
    instance: &'a Instance,
    module: &'a Module,
    body: &'a Body,
    runner: Runner<'a>,
    certificates: String,
    unconfirmed: usize,
}

/// The footprint of a kernel, and which of its operations may overflow.
struct Walked {
    launch: Launch,
    found: Footprint,
    /// Signed operations that an index or a condition depends on and that may overflow.
    overflowing: Vec<Question>,
    steps: usize,
    certificates: String,
}

/// The answer to a question.
enum Asked {
    Never,
    /// Perhaps, for some sizes.
    Maybe,
    Open(String),
}

impl<'a> Examination<'a> {
    fn new(
        program: &'a Program,
        kernel: &'a Kernel,
        (instance, prepared): (&'a Instance, &'a Prepared),
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let module: &Module = &prepared.module;
        let body = &module.functions[module.kernel.body];
        let runner = Runner::new(program, kernel, (instance, module), stop);
        Examination { program, kernel, instance, module, body, runner, certificates: String::new(), unconfirmed: 0 }
    }

    fn run(mut self, report: &mut Report) {
        let mut walked = match self.walk(LARGEST) {
            Ok(walked) => walked,
            Err(why) => return report.all_unknown(self.kernel, &why, Some(self.kernel.name_span)),
        };
        let launched = claim::launches(&walked.launch.given);
        if let (Some(assume), Asked::Never) = (self.kernel.assumes.first(), self.ask(&launched, &mut String::new())) {
            return report.all_unknown(self.kernel, "no launch keeps all assumptions", Some(assume.span));
        }
        if !walked.overflowing.is_empty()
            && let Ok(smaller) = self.walk(SMALLER)
            && smaller.overflowing.len() < walked.overflowing.len()
        {
            report.largest = Some(SMALLER);
            walked = smaller;
        }
        self.certificates = std::mem::take(&mut walked.certificates);
        if let Some((why, span)) = &walked.found.stopped {
            let (place, _) = resolve(&self.body.calls, *span);
            report.all_unknown(self.kernel, why, Some(place));
            for (property, verdict) in &mut report.verdicts {
                if let Some(found) = self.search(*property, &walked.launch, &[]) {
                    *verdict = refuted(found);
                }
            }
            return;
        }
        let bounds =
            self.property(Property::InBounds, claim::bounds(self.body, &walked.launch.given, &walked.found), &walked);
        let mut races = match claim::races(self.body, &walked.launch.given, &walked.found) {
            Some(asked) => self.property(Property::RaceFree, asked, &walked),
            None => self.open(Property::RaceFree, "there are too many pairs of accesses", None, &walked),
        };
        let barrier = walked.found.barriers.iter().find(|barrier| barrier.reached == Reached::Perhaps);
        if let (Verdict::Proved { .. }, Some(barrier)) = (&races, barrier) {
            let why = "not all threads are known to reach this barrier".to_string();
            races = Verdict::Unknown { why, place: Some(self.place(barrier.span)) };
        }
        let racy = !matches!(races, Verdict::Proved { .. });
        let barriers = self.barriers(&walked, racy);
        let written = self.written(&walked);
        report.doubtful = walked.overflowing.iter().map(|question| self.place(question.span)).collect();
        let overflow = match walked.overflowing.is_empty() {
            true => Verdict::Proved { steps: walked.steps },
            false => self.property(Property::NoOverflow, std::mem::take(&mut walked.overflowing), &walked),
        };
        let order = self.order(&walked, &races, &barriers);
        report.verdicts = vec![
            (Property::InBounds, bounds),
            (Property::RaceFree, races),
            (Property::Written, written),
            (Property::Barriers, barriers),
            (Property::NoOverflow, overflow),
            (Property::Order, order),
        ];
        for limit in Property::limits(self.kernel) {
            report.verdicts.push((limit, self.limit(limit, &walked)));
        }
        report.certificates = self.certificates;
        report.unconfirmed = self.unconfirmed;
    }

    fn place(&self, span: Span) -> Span {
        resolve(&self.body.calls, span).0
    }

    /// Walks the body until all results that are followed are known to fit their types.
    fn walk(&self, largest: i128) -> Result<Walked, String> {
        let launch = sizes::launch(self.program, self.kernel, self.instance, self.module, &Sizes::Any(largest))?;
        let mut prove = |question: &Question| {
            let mut certificate = String::new();
            matches!(self.ask(question, &mut certificate), Asked::Never).then_some(certificate)
        };
        let settled =
            settle(self.module, &launch.given, &mut prove).ok_or("too many operations may overflow".to_string())?;
        let Settled { found, overflowing, proofs } = settled;
        Ok(Walked { launch, found, overflowing, steps: proofs.len(), certificates: proofs.concat() })
    }

    /// Asks a question; what is never the case comes with a certificate.
    fn ask(&self, question: &Question, certificates: &mut String) -> Asked {
        match question.answer(&PROOF) {
            Answer::Never(problem, certificate) => {
                write_certificate(certificates, question, problem, &certificate.to_string());
                Asked::Never
            }
            Answer::Maybe => Asked::Maybe,
            Answer::Open(why) => Asked::Open(why),
        }
    }

    /// Asks whether a property can be violated.
    fn property(&mut self, property: Property, asked: Vec<Question>, walked: &Walked) -> Verdict {
        let mut steps = 0;
        let mut certificates = String::new();
        let mut open: Option<(String, Span)> = None;
        let mut offers: Vec<(Span, &String)> = vec![];
        let mut candidates: Vec<Try> = vec![];
        let mut left = MAX_AFTER;
        for question in &asked {
            // Once a question is open, others only serve to find a counterexample.
            left -= usize::from(open.is_some());
            if left == 0 || candidates.len() >= MAX_TRIES {
                break;
            }
            let asked = self.ask(question, &mut certificates);
            if let (Some(offer), false) = (&question.offer, matches!(asked, Asked::Never)) {
                offers.push((self.place(question.span), offer));
            }
            match asked {
                Asked::Never => steps += 1,
                Asked::Maybe => {
                    for what in self.candidates(question, walked) {
                        if !candidates.contains(&what) {
                            candidates.push(what);
                        }
                    }
                    open.get_or_insert_with(|| self.why(question, "no run of the proposed sizes shows it"));
                }
                Asked::Open(why) => {
                    open.get_or_insert_with(|| self.why(question, &why));
                }
            }
        }
        let Some((why, span)) = open else {
            self.certificates.push_str(&certificates);
            return Verdict::Proved { steps };
        };
        let proposed = !candidates.is_empty();
        match self.search(property, &walked.launch, &candidates) {
            Some(mut found) => {
                let labels = &found.diagnostic.labels;
                let own = offers.iter().find(|(place, _)| labels.iter().any(|label| label.span == *place));
                if let Some((_, offer)) = own {
                    let help = format!("if no caller passes such elements, promise it: `assume {offer}`");
                    found.diagnostic = found.diagnostic.help(help);
                }
                refuted(found)
            }
            None => {
                self.unconfirmed += usize::from(proposed);
                Verdict::Unknown { why, place: Some(span) }
            }
        }
    }

    fn open(&mut self, property: Property, why: &str, place: Option<Span>, walked: &Walked) -> Verdict {
        match self.search(property, &walked.launch, &[]) {
            Some(found) => refuted(found),
            None => Verdict::Unknown { why: why.into(), place },
        }
    }

    /// Returns why a question is open, and where.
    fn why(&self, question: &Question, otherwise: &str) -> (String, Span) {
        if let Some(offer) = &question.offer {
            let why = format!("perhaps {}, unless callers promise `assume {offer}`", question.what);
            return (why, self.place(question.span));
        }
        match question.unknowns.first() {
            Some((why, span)) => {
                let place = self.place(*span);
                (format!("perhaps {}; {why}", question.what), place)
            }
            None => (format!("perhaps {}; {otherwise}", question.what), self.place(question.span)),
        }
    }

    /// Returns sizes at which the answer may be "yes", small ones first.
    fn candidates(&self, question: &Question, walked: &Walked) -> Vec<Try> {
        let mut tries = vec![];
        let (problem, launch) = claim::launched(&walked.launch.given, &walked.found, question);
        for most in CANDIDATES {
            let mut problem = problem.clone();
            for (_, copy) in &launch {
                let copy = variable(*copy);
                problem.facts.push(at_most(&copy, &number(most)));
                problem.facts.push(at_most(&number(-most), &copy));
            }
            if let linear::Verdict::Point(point) = decide(&problem, &CANDIDATE) {
                let values: FxHashMap<Var, i128> =
                    launch.iter().map(|(var, copy)| (*var, point[copy.index()])).collect();
                tries.push(attempt(&walked.launch, &|form| at(form, &values).unwrap_or(most.min(5))));
                break;
            }
        }
        tries
    }

    /// Runs the kernel at proposed sizes, then at some small ones, until a run contradicts the property.
    fn search(&mut self, property: Property, launch: &Launch, proposed: &[Try]) -> Option<Found> {
        let mut tries: Vec<Try> = proposed.to_vec();
        // Threads of one group of the simulator go in step, whatever the order.
        let sizes: &[(i128, i128)] = match property {
            Property::Order => &[(5, 5), (100, 100), (1100, 3)],
            // Whole warps first.
            Property::BankWays(_) | Property::Sectors(_) => &[(100, 100), (33, 1), (64, 64), (5, 5), (2, 2), (1, 1)],
            _ => &[(1, 1), (2, 2), (5, 0), (5, 5), (33, 1), (100, 100)],
        };
        for &(n, scalar) in sizes {
            tries.push(attempt(launch, &|form| if launch.dims.contains(form) { n } else { scalar }));
        }
        if property == Property::Order {
            return orders::compare(&self.runner, &tries);
        }
        let mut found = tries.iter().find_map(|what| self.runner.run(what, property))?;
        if let (Property::RaceFree, Some((what, fault))) = (property, &found.fault) {
            let (instance, stop) = (self.instance, &self.runner.stop);
            let notes = evidence::of_counterexample(self.program, self.kernel, instance, (what, fault), stop);
            found.diagnostic.notes.extend(notes);
        }
        Some(found)
    }

    /// Asks whether the order of blocks and warps matters. Without races and with all threads at the barriers, only atomic
    /// operations can make it so.
    fn order(&mut self, walked: &Walked, races: &Verdict, barriers: &Verdict) -> Verdict {
        for (verdict, what) in [(races, "threads may race"), (barriers, "threads may miss a barrier")] {
            if let Verdict::Unknown { why, place } = verdict {
                return self.open(Property::Order, &format!("{what}: {why}"), *place, walked);
            }
            if let Verdict::Refuted { found, .. } = verdict {
                return self.open(Property::Order, what, found.primary(), walked);
            }
        }
        match claim::order(self.body, &walked.launch.given, &walked.found) {
            Some(asked) => self.property(Property::Order, asked, walked),
            None => self.open(Property::Order, "there are too many pairs of atomic operations", None, walked),
        }
    }

    /// Asks whether a warp may pay more for an access.
    fn limit(&mut self, property: Property, walked: &Walked) -> Verdict {
        let (cost, most) = match property {
            Property::BankWays(most) => (Cost::Passes, most),
            Property::Sectors(most) => (Cost::Sectors, most),
            _ => return Verdict::Proved { steps: 0 },
        };
        let mut warps = match Warps::of(self.module, &walked.launch.given, &walked.found) {
            Ok(warps) => warps,
            Err(why) => return self.open(property, why, Some(self.kernel.name_span), walked),
        };
        let mut steps = 0;
        for touch in &walked.found.accesses {
            let memory = &self.body.memories[touch.memory];
            if Cost::of(memory.space) != Some(cost) {
                continue;
            }
            let why = match (warps.cost(self.body, touch, cost), cost) {
                (Ok(count), _) if count <= most => {
                    steps += 1;
                    continue;
                }
                (Ok(count), Cost::Passes) => format!("a warp may take {count} passes to access `{}`", memory.name),
                (Ok(count), Cost::Sectors) => format!("a warp may touch {count} sectors of `{}`", memory.name),
                (Err(why), _) => format!("of `{}` is not known what a warp accesses: {why}", memory.name),
            };
            return self.open(property, &why, Some(self.place(touch.span)), walked);
        }
        Verdict::Proved { steps }
    }

    fn barriers(&mut self, walked: &Walked, racy: bool) -> Verdict {
        let doubtful = |reached: Reached| reached == Reached::Perhaps || racy && reached == Reached::WithoutRaces;
        match walked.found.barriers.iter().find(|barrier| doubtful(barrier.reached)) {
            None => Verdict::Proved { steps: 0 },
            Some(barrier) => {
                let place = self.place(barrier.span);
                let why = match barrier.reached {
                    Reached::Perhaps => "not all threads are known to reach this barrier",
                    _ => "whether threads reach this barrier depends on memory that may be written at the same time",
                };
                self.open(Property::Barriers, why, Some(place), walked)
            }
        }
    }

    fn written(&mut self, walked: &Walked) -> Verdict {
        let mut asked = vec![];
        let is_out = |access| access == Access::Out;
        let unwritten = cover::unwritten(self.body, &walked.launch.given, &walked.found, is_out);
        for (memory, mut ways) in unwritten {
            if ways.is_empty() {
                let memory = &self.body.memories[memory];
                let why = format!("no statement is known to cover `{}`", memory.name);
                let place = self.place(memory.span);
                return self.open(Property::Written, &why, Some(place), walked);
            }
            let is_proof = |question: &Question| matches!(self.ask(question, &mut String::new()), Asked::Never);
            let best = if ways.len() == 1 { 0 } else { ways.iter().position(is_proof).unwrap_or(0) };
            asked.push(ways.swap_remove(best));
        }
        self.property(Property::Written, asked, walked)
    }
}

fn refuted(found: Found) -> Verdict {
    Verdict::Refuted { sizes: found.sizes, found: Box::new(found.diagnostic) }
}

/// Returns the value of a form that is a variable of the launch.
fn at(form: &Linear, values: &FxHashMap<Var, i128>) -> Option<i128> {
    values.get(&single(form)?).copied()
}

fn attempt(launch: &Launch, value: &dyn Fn(&Linear) -> i128) -> Try {
    let known = |form: &Linear| constant(form).unwrap_or_else(|| value(form));
    Try {
        dims: launch.dims.iter().map(known).collect(),
        scalars: launch.scalars.iter().map(|(position, form)| (*position, known(form))).collect(),
    }
}

fn write_certificate(to: &mut String, question: &Question, problem: &Problem, certificate: &str) {
    let names = &problem.variables;
    let _ = writeln!(to, "never: {}", question.what);
    for (i, name) in names.iter().enumerate() {
        let _ = writeln!(to, "  x{i} is {name}");
    }
    for (p, x, y) in &problem.products {
        let _ = writeln!(to, "  x{} = x{} * x{}", p.0, x.0, y.0);
    }
    for fact in &problem.facts {
        let _ = writeln!(to, "  {}", shown(fact));
    }
    for line in certificate.lines() {
        let _ = writeln!(to, "    {line}");
    }
}

/// Returns the text of a formula, without names of variables.
fn shown(formula: &crate::base::linear::Formula) -> String {
    use crate::base::linear::{Atom, Formula};
    let list = |parts: &[Formula], by: &str| parts.iter().map(shown).collect::<Vec<_>>().join(by);
    match formula {
        Formula::Atom(Atom::NonNegative(form)) => format!("{form} >= 0"),
        Formula::Atom(Atom::Zero(form)) => format!("{form} == 0"),
        Formula::And(parts) => format!("({})", list(parts, " and ")),
        Formula::Or(parts) => format!("({})", list(parts, " or ")),
    }
}
