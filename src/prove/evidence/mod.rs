//! Evidence for a race: the smallest launch found that still has the race, and the outcomes of both orders of the two
//! accesses.
//!
//! Input: a launch in which the simulator's checks found a race. Output: notes for the diagnostic. Smaller and smaller
//! launches run with checks, as long as these report a race between the same two lines. The smallest launch then runs
//! thread by thread twice, once in each order of the two accesses. Limits are on the numbers of runs, threads and loop
//! iterations rather than on time, so the output is the same on any machine.

mod access_orders;
mod launch_text;
mod replay_case;
mod shrink;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::replay::ReplaySizes;
use clk_check::typed::{Kernel, Program};
use clk_compile::trials::{LaunchText, RaceEvidenceFinder, RacedLaunch, TrialArgument};
use clk_lower::Instance;
use clk_runtime::{Fault, LaunchExtents};
use clk_scalar::ScalarValue;
use replay_case::{ArrayArgument, ArrayFill, Contents, LaunchSize, RaceIdentity, ReplayBudget, ReplayCase};
use shrink::ShrunkRace;

/// Limits: the number of runs of smaller launches, and the total number of their threads.
const MAX_RUNS: u32 = 300;
const MAX_THREADS: u64 = 1 << 16;

/// Finds evidence for races that checks report in launches of a script.
pub struct RaceEvidence;

impl RaceEvidenceFinder for RaceEvidence {
    fn of_race(&self, program: &Program, raced: &RacedLaunch<'_>, fault: &Fault) -> Vec<String> {
        let trial = &raced.trial;
        let Some(kernel) = program.kernels.get(trial.instance.kernel) else { return vec![] };
        let value =
            |arg: &TrialArgument<'_>| if let TrialArgument::Value(lanes) = arg { Some(lanes.clone()) } else { None };
        let values: Vec<Option<Vec<ScalarValue>>> = trial.args.iter().map(value).collect();
        let arrays = trial.args.iter().map(unwritten_array).collect();
        let Some(case) = ReplayCase::new(program, kernel, &trial.instance, values, arrays, &trial.control.stop) else {
            return vec![];
        };
        let start = launch_size(&case, raced);
        let from_launch = |other| Contents { own: true, other };
        find_evidence(
            &case,
            fault,
            &start,
            &[from_launch(ArrayFill::Zeros), from_launch(ArrayFill::Ramp)],
            Some(&raced.written),
        )
    }
}

/// Returns an array argument if the launch does not write it, so that its contents are still those before the launch.
fn unwritten_array<'a>(arg: &'a TrialArgument<'_>) -> Option<ArrayArgument<'a>> {
    match arg {
        TrialArgument::Array { bytes, shape, writes: false } => Some(ArrayArgument { bytes, shape }),
        _ => None,
    }
}

/// Returns the sizes of the launch that has the race.
fn launch_size(case: &ReplayCase<'_>, raced: &RacedLaunch<'_>) -> LaunchSize {
    let integer = |(position, value): (usize, &Option<Vec<ScalarValue>>)| match value.as_deref() {
        Some([one]) => Some((position as u32, one.as_integer()?)),
        _ => None,
    };
    let scalars = case.values.iter().enumerate().filter_map(integer).collect();
    let geometry = match raced.trial.extents {
        LaunchExtents::Grid { grid, block } if !raced.trial.declared => Some([grid, block]),
        _ => None,
    };
    LaunchSize {
        sizes: ReplaySizes { dims: raced.dims.clone(), scalars },
        free: case.integers().unwrap_or_default(),
        geometry,
    }
}

/// Returns the evidence for a race in a counterexample, whose arguments were generated.
pub(super) fn counterexample_evidence(
    program: &Program,
    kernel: &Kernel,
    instance: &Instance,
    sizes: &ReplaySizes,
    fault: &Fault,
    stop: &Arc<AtomicBool>,
) -> Vec<String> {
    let Some(case) = ReplayCase::new(program, kernel, instance, vec![], vec![], stop) else { return vec![] };
    let start = LaunchSize { sizes: sizes.clone(), free: case.integers().unwrap_or_default(), geometry: None };
    let made_up = |other| Contents { own: false, other };
    find_evidence(&case, fault, &start, &[made_up(ArrayFill::Ramp), made_up(ArrayFill::Zeros)], None)
}

fn find_evidence(
    case: &ReplayCase<'_>,
    fault: &Fault,
    launch_size: &LaunchSize,
    contents: &[Contents],
    written: Option<&LaunchText<'_>>,
) -> Vec<String> {
    let Some(race) = RaceIdentity::of(fault) else { return vec![] };
    let mut budget = ReplayBudget { runs: MAX_RUNS, threads: MAX_THREADS, stop: case.stop };
    let Some(small) = shrink::find_smallest(case, &race, launch_size, contents, &mut budget) else {
        return if budget.is_stopped() { vec![] } else { vec![missing_evidence_note(&budget)] };
    };
    let mut best = small;
    let Some(filled) = case.arguments(&best.size, best.contents) else { return vec![] };
    let mut order_notes = access_orders::order_notes(case, &best.fault, filled);
    // With other array contents, the two orders may have different results.
    for other in [ArrayFill::Ramp, ArrayFill::Zeros].map(|other| Contents { own: false, other }) {
        if order_notes.1 || budget.is_spent() {
            break;
        }
        if let Some(fault) = case.reproduce_race(&race, &best.size, other, &mut budget)
            && let Some(filled) = case.arguments(&best.size, other)
        {
            let other_notes = access_orders::order_notes(case, &fault, filled);
            if other_notes.1 {
                best = ShrunkRace { contents: other, fault, ..best };
                order_notes = other_notes;
            }
        }
    }
    let mut shows = "that has it";
    if !order_notes.1
        && let Some((larger, other_notes)) = find_revealing_launch(case, &race, launch_size, &best, &mut budget)
    {
        (best, order_notes) = (larger, other_notes);
        shows = "in which it shows";
    }
    let Some(filled) = case.arguments(&best.size, best.contents) else { return vec![] };
    let launch_text = launch_text::launch_text(case, &best.size, &filled, written);
    let mut notes = vec![format!("the smallest launch found {shows}: {launch_text}")];
    if let Some(first) = order_notes.0.first_mut().filter(|first| first.starts_with("if ")) {
        first.insert_str(0, "in that launch, ");
    }
    notes.append(&mut order_notes.0);
    notes
}

/// Returns a slightly larger launch for which the two orders have different results, with the notes about these
/// results.
fn find_revealing_launch(
    case: &ReplayCase<'_>,
    race: &RaceIdentity,
    launch_size: &LaunchSize,
    small: &ShrunkRace,
    budget: &mut ReplayBudget<'_>,
) -> Option<(ShrunkRace, (Vec<String>, bool))> {
    let contents = [true, false].map(|own| Contents { own, other: ArrayFill::Ramp });
    for size in shrink::larger_launches(case, launch_size, &small.size) {
        for contents in contents {
            if budget.is_spent() {
                return None;
            }
            let Some(fault) = case.reproduce_race(race, &size, contents, budget) else { continue };
            if small.ends_well && !case.ends_well(&size, contents, budget) {
                continue;
            }
            let order_notes = access_orders::order_notes(case, &fault, case.arguments(&size, contents)?);
            if order_notes.1 {
                return Some((ShrunkRace { size, contents, fault, ends_well: small.ends_well }, order_notes));
            }
        }
    }
    None
}

/// Returns a note with the reason why no smaller launch was found.
fn missing_evidence_note(budget: &ReplayBudget<'_>) -> String {
    let runs = MAX_RUNS - budget.runs;
    match budget.is_spent() {
        true => format!("a smaller launch that has it was not found in {runs} runs"),
        false => "no launch with few threads was found that has it, so its two orders were not run".to_string(),
    }
}
