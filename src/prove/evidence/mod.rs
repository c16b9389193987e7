//! Evidence for a race: the smallest launch found that still has it, and what the two orders of the two accesses lead to.
//!
//! Input: a launch in which a checked run has found a race. Output: notes for its report. Launches of smaller sizes run with checks as
//! long as one reports a race of the same two lines; the smallest one runs thread by thread, so that the one access comes first, and
//! then the other. All of that is bounded by a number of runs, of threads and of loop turns, so that it prints the same on any machine.

mod case;
mod orders;
mod shrink;
mod text;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::replay::Try;
use crate::check::typed::{Kernel, Program};
use crate::compile::trial::{Argument, Evidence, Raced, Written};
use crate::device::{Extents, Fault};
use crate::lang::scalar::Value;
use crate::lower::Instance;
use case::{Budget, Case, Contents, Fill, Given, Size, Which};
use shrink::Small;

/// Runs of smaller launches, and the threads of all of them.
const RUNS: u32 = 300;
const THREADS: u64 = 1 << 16;

/// Looks for evidence where a checked run reports a race.
pub struct Witness;

impl Evidence for Witness {
    fn of_race(&self, program: &Program, raced: &Raced<'_>, fault: &Fault) -> Vec<String> {
        let trial = &raced.trial;
        let Some(kernel) = program.kernels.get(trial.instance.kernel) else { return vec![] };
        let value = |arg: &Argument<'_>| if let Argument::Value(lanes) = arg { Some(lanes.clone()) } else { None };
        let values: Vec<Option<Vec<Value>>> = trial.args.iter().map(value).collect();
        let given = trial.args.iter().map(known).collect();
        let Some(case) = Case::new(program, kernel, &trial.instance, (values, given), &trial.control.stop) else {
            return vec![];
        };
        let start = start(&case, raced);
        let own = |other| Contents { own: true, other };
        notes(&case, (fault, &start), &[own(Fill::Zeros), own(Fill::Ramp)], Some(&raced.written))
    }
}

/// Returns an array whose contents are those of before the launch.
fn known<'a>(arg: &'a Argument<'_>) -> Option<Given<'a>> {
    match arg {
        Argument::Array { bytes, shape, writes: false } => Some(Given { bytes, shape }),
        _ => None,
    }
}

/// Returns the sizes of a launch.
fn start(case: &Case<'_>, raced: &Raced<'_>) -> Size {
    let integer = |(position, value): (usize, &Option<Vec<Value>>)| match value.as_deref() {
        Some([one]) => Some((position as u32, one.as_integer()?)),
        _ => None,
    };
    let scalars = case.values.iter().enumerate().filter_map(integer).collect();
    let geometry = match raced.trial.extents {
        Extents::Grid { grid, block } if !raced.trial.declared => Some([grid, block]),
        _ => None,
    };
    Size { what: Try { dims: raced.dims.clone(), scalars }, free: case.integers().unwrap_or_default(), geometry }
}

/// Returns the evidence for a race of a counterexample, whose arguments are made up.
pub(super) fn of_counterexample(
    program: &Program,
    kernel: &Kernel,
    instance: &Instance,
    (what, fault): (&Try, &Fault),
    stop: &Arc<AtomicBool>,
) -> Vec<String> {
    let Some(case) = Case::new(program, kernel, instance, (vec![], vec![]), stop) else { return vec![] };
    let start = Size { what: what.clone(), free: case.integers().unwrap_or_default(), geometry: None };
    let made = |other| Contents { own: false, other };
    notes(&case, (fault, &start), &[made(Fill::Ramp), made(Fill::Zeros)], None)
}

fn notes(
    case: &Case<'_>,
    (fault, start): (&Fault, &Size),
    contents: &[Contents],
    written: Option<&Written<'_>>,
) -> Vec<String> {
    let Some(which) = Which::of(fault) else { return vec![] };
    let mut budget = Budget { runs: RUNS, threads: THREADS, stop: case.stop };
    let Some(small) = shrink::smallest(case, &which, start, contents, &mut budget) else {
        return if budget.is_stopped() { vec![] } else { vec![missing(&budget)] };
    };
    let mut best = small;
    let Some(filled) = case.arguments(&best.size, best.contents) else { return vec![] };
    let mut told = orders::notes(case, &best.fault, filled);
    // Other contents may show what these hide.
    for other in [Fill::Ramp, Fill::Zeros].map(|other| Contents { own: false, other }) {
        if told.1 || budget.is_spent() {
            break;
        }
        if let Some(fault) = case.has(&which, &best.size, other, &mut budget)
            && let Some(filled) = case.arguments(&best.size, other)
        {
            let again = orders::notes(case, &fault, filled);
            if again.1 {
                best = Small { contents: other, fault, ..best };
                told = again;
            }
        }
    }
    let mut shows = "that has it";
    if !told.1
        && let Some((larger, again)) = telling(case, &which, (start, &best), &mut budget)
    {
        (best, told) = (larger, again);
        shows = "in which it shows";
    }
    let Some(filled) = case.arguments(&best.size, best.contents) else { return vec![] };
    let said = text::of(case, &best.size, &filled, written);
    let mut notes = vec![format!("the smallest launch found {shows}: {said}")];
    if let Some(first) = told.0.first_mut().filter(|first| first.starts_with("if ")) {
        first.insert_str(0, "in that launch, ");
    }
    notes.append(&mut told.0);
    notes
}

/// Returns a somewhat larger launch whose two orders lead to different results, with their notes.
fn telling(
    case: &Case<'_>,
    which: &Which,
    (start, small): (&Size, &Small),
    budget: &mut Budget<'_>,
) -> Option<(Small, (Vec<String>, bool))> {
    let contents = [true, false].map(|own| Contents { own, other: Fill::Ramp });
    for size in shrink::larger(case, start, &small.size) {
        for contents in contents {
            if budget.is_spent() {
                return None;
            }
            let Some(fault) = case.has(which, &size, contents, budget) else { continue };
            if small.ends_well && !case.ends_well(&size, contents, budget) {
                continue;
            }
            let told = orders::notes(case, &fault, case.arguments(&size, contents)?);
            if told.1 {
                return Some((Small { size, contents, fault, ends_well: small.ends_well }, told));
            }
        }
    }
    None
}

/// Says why there is no smaller launch.
fn missing(budget: &Budget<'_>) -> String {
    let runs = RUNS - budget.runs;
    match budget.is_spent() {
        true => format!("a smaller launch that has it was not found in {runs} runs"),
        false => "no launch of few threads was found that has it, so its two orders were not run".to_string(),
    }
}
