//! Runs both orders of the two accesses of a race, and compares the results.
//!
//! Input: a small launch with a race. Output: a note for each order. It contains the value that each thread reads, the
//! value of the element after both accesses, and the first element that differs at the end of the two runs. If the
//! orders cannot be compared, the output is a note with the reason.

use super::replay_case::{Refill, ReplayCase, race_of};
use clk_differential::difference;
use clk_ir::def::{Access, KernelParam};
use clk_runtime::{AccessKind, Fault, Race, ThreadId, fault_title, thread_description};
use clk_scalar::format;
use clk_step::order::{self, ObservedValue, OrderOutcome, RaceParty, ScheduleError};
use clk_step::{StepLaunch, ThreadValue};

/// Returns the notes, and whether the results of the two orders differ.
pub(super) fn order_notes(case: &ReplayCase<'_>, fault: &Fault, mut arguments: Refill) -> (Vec<String>, bool) {
    let Some(race) = race_of(fault) else { return (vec![], false) };
    let thread = ThreadId { block: fault.block, thread: fault.thread, index: fault.index.clone() };
    let parties = [
        RaceParty { thread, span: fault.span, kind: stepper_kind(race.access_kind) },
        RaceParty { thread: race.other.clone(), span: race.other_span, kind: stepper_kind(race.other_access_kind) },
    ];
    let module = &case.prepared.module;
    let extents = arguments.arguments.extents;
    let Some(args) = arguments.arguments.all(module) else { return (vec![], false) };
    let launch = StepLaunch::new(module, extents, &args, 0);
    let ran = order::both(&launch, &args, &parties, &race.place, case.stop);
    drop(args);
    match ran {
        Ok(outcomes) => outcome_notes(case, race, &parties, &arguments, &outcomes),
        Err(ScheduleError::Interrupted) => (vec![], false),
        Err(obstacle) => (vec![format!("its two orders were not compared: {}", why(obstacle))], false),
    }
}

/// Returns the access kind that the stepper reports for an access: it reports atomic loads as read-modify-writes.
fn stepper_kind(kind: AccessKind) -> AccessKind {
    if kind == AccessKind::AtomicLoad { AccessKind::AtomicRmw } else { kind }
}

fn why(obstacle: ScheduleError) -> &'static str {
    match obstacle {
        ScheduleError::Elsewhere => {
            "run thread by thread, the two threads do not reach these accesses between the same barriers"
        }
        ScheduleError::Waits => "one thread waits for something that the other does after its access",
        ScheduleError::TooLong => "a run thread by thread takes too many steps",
        ScheduleError::Interrupted => "interrupted",
        ScheduleError::Memory => "there is not enough memory",
    }
}

/// The first difference between the results of two runs: an element, and its value at the end of each run.
struct OrderDifference {
    element: String,
    values: [String; 2],
}

fn outcome_notes(
    case: &ReplayCase<'_>,
    race: &Race,
    parties: &[RaceParty; 2],
    filled: &Refill,
    outcomes: &[OrderOutcome; 2],
) -> (Vec<String>, bool) {
    let order_difference = first_difference(case, filled, outcomes);
    let kinds = [race.access_kind, race.other_access_kind];
    let names = [0, 1].map(|party| {
        let thread = &parties[party].thread;
        thread_description(thread.index.as_deref(), thread.thread, thread.block)
    });
    let mut notes = vec![];
    for (first, outcome) in outcomes.iter().enumerate() {
        let mut statements: Vec<String> = (0..2)
            .filter_map(|party| Some((party, outcome.observed[party].filter(|observed| observed.reads)?)))
            .map(|(party, observed)| read(if party == first { "it" } else { &names[party] }, observed))
            .collect();
        if statements.is_empty() || !kinds.contains(&AccessKind::Load) {
            let left = outcome.left.map_or("nothing".to_string(), |val| value(&val));
            statements.push(format!("`{}` is {left} after both", race.place));
        }
        match (&outcome.fault, &order_difference) {
            (Some(kind), _) => {
                let fault = kind.clone().into_launch_fault(case.kernel.name_span);
                statements.push(format!("then a thread faults: {}", fault_title(&fault)));
            }
            (None, Some(order_difference)) => statements
                .push(format!("in the end `{}` is {}", order_difference.element, order_difference.values[first])),
            (None, None) => {}
        }
        notes.push(format!("if {} {} it first, {}", names[first], verb(kinds[first]), statements.join("; ")));
    }
    let faults = outcomes.iter().any(|outcome| outcome.fault.is_some());
    if order_difference.is_none() && !faults {
        notes.push("both orders lead to the same results with these arguments".into());
    }
    (notes, order_difference.is_some() || faults)
}

fn verb(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::Load | AccessKind::AtomicLoad => "reads",
        AccessKind::Store => "writes",
        AccessKind::AtomicRmw => "updates",
    }
}

fn read(reader: &str, observed: ObservedValue) -> String {
    match observed.unwritten {
        true => format!("{reader} reads an unwritten element ({} here)", value(&observed.value)),
        false => format!("{reader} reads {}", value(&observed.value)),
    }
}

fn value(val: &ThreadValue) -> String {
    let all: Vec<String> = val.values().map(format::plain).collect();
    if let [one] = &all[..] { one.clone() } else { format!("({})", all.join(", ")) }
}

/// Returns the first element of the written arrays in which the runs differ.
fn first_difference(case: &ReplayCase<'_>, filled: &Refill, outcomes: &[OrderOutcome; 2]) -> Option<OrderDifference> {
    for (position, param) in case.prepared.module.kernel.params.iter().enumerate() {
        let KernelParam::Array { name, access, .. } = param else { continue };
        if *access == Access::In {
            continue;
        }
        let (layout, _) = case.layout(position)?;
        let (_, shape) = filled.arguments.storage.get(position)?.as_ref()?;
        let [one, other] = outcomes;
        if let Some(found) = difference(one.arrays.get(position)?, other.arrays.get(position)?, shape, layout) {
            let index = if found.index.is_empty() { String::new() } else { format!("[{}]", found.index) };
            return Some(OrderDifference { element: format!("{name}{index}{}", found.field), values: found.values });
        }
    }
    None
}
