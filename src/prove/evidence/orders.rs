//! The two orders of the two accesses of a race, and the results that they lead to.
//!
//! Input: a small launch with a race, and the race. Output: a note for each order, with what the one thread reads, what the element
//! holds behind both, and the first element of the results that differs; or a note that says why that is not known.

use super::case::{Case, Filled, race};
use crate::device::both::difference;
use crate::device::step::order::{self, Obstacle, Outcome, Party, Seen};
use crate::device::step::{Kind, Launch, Val};
use crate::device::{Deed, Fault, Race, Who, fault_diagnostic, who_text};
use crate::ir::def::{Access, KernelParam};
use crate::lang::scalar::format;

/// Returns the notes, and whether the results of the orders differ.
pub(super) fn notes(case: &Case<'_>, fault: &Fault, mut filled: Filled) -> (Vec<String>, bool) {
    let Some(race) = race(fault) else { return (vec![], false) };
    let own = Who { block: fault.block, thread: fault.thread, index: fault.index.clone() };
    let parties = [
        Party { who: own, span: fault.span, kind: kind(race.deed) },
        Party { who: race.other.clone(), span: race.other_span, kind: kind(race.other_deed) },
    ];
    let module = &case.prepared.module;
    let extents = filled.arguments.extents;
    let Some(args) = filled.arguments.all(module) else { return (vec![], false) };
    let launch = Launch::new(module, extents, &args, 0);
    let ran = order::both(&launch, &args, &parties, &race.place, case.stop);
    drop(args);
    match ran {
        Ok(outcomes) => told(case, (race, &parties), &filled, &outcomes),
        Err(Obstacle::Interrupted) => (vec![], false),
        Err(obstacle) => (vec![format!("its two orders were not compared: {}", why(obstacle))], false),
    }
}

fn kind(deed: Deed) -> Kind {
    match deed {
        Deed::Reads => Kind::Read,
        Deed::Writes => Kind::Write,
        Deed::Updates | Deed::Looks => Kind::Atomic,
    }
}

fn why(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Elsewhere => "run thread by thread, the two do not come to these accesses in one epoch",
        Obstacle::Waits => "the one thread waits for what the other does behind its access",
        Obstacle::TooLong => "a run thread by thread takes too many steps",
        Obstacle::Interrupted => "interrupted",
        Obstacle::Memory => "there is not enough memory",
    }
}

/// What differs at the end of two runs: the name of an element, and its value in each.
struct Differs {
    element: String,
    values: [String; 2],
}

fn told(
    case: &Case<'_>,
    (race, parties): (&Race, &[Party; 2]),
    filled: &Filled,
    outcomes: &[Outcome; 2],
) -> (Vec<String>, bool) {
    let differs = differing(case, filled, outcomes);
    let deeds = [race.deed, race.other_deed];
    let names = [0, 1].map(|party| {
        let who = &parties[party].who;
        who_text(who.index.as_deref(), who.thread, who.block)
    });
    let mut notes = vec![];
    for (first, outcome) in outcomes.iter().enumerate() {
        let mut said: Vec<String> = (0..2)
            .filter_map(|party| Some((party, outcome.seen[party].filter(|seen| seen.reads)?)))
            .map(|(party, seen)| read(if party == first { "it" } else { &names[party] }, seen))
            .collect();
        if said.is_empty() || !deeds.contains(&Deed::Reads) {
            let left = outcome.left.map_or("nothing".to_string(), |val| value(&val));
            said.push(format!("`{}` is {left} behind both", race.place));
        }
        match (&outcome.fault, &differs) {
            (Some(kind), _) => {
                let fault = kind.clone().of_launch(case.kernel.name_span);
                said.push(format!("then a thread faults: {}", fault_diagnostic(&fault).title));
            }
            (None, Some(differs)) => {
                said.push(format!("in the end `{}` is {}", differs.element, differs.values[first]))
            }
            (None, None) => {}
        }
        notes.push(format!("if {} {} it first, {}", names[first], verb(deeds[first]), said.join("; ")));
    }
    let faults = outcomes.iter().any(|outcome| outcome.fault.is_some());
    if differs.is_none() && !faults {
        notes.push("both orders lead to the same results with these arguments".into());
    }
    (notes, differs.is_some() || faults)
}

fn verb(deed: Deed) -> &'static str {
    match deed {
        Deed::Reads | Deed::Looks => "reads",
        Deed::Writes => "writes",
        Deed::Updates => "updates",
    }
}

fn read(who: &str, seen: Seen) -> String {
    match seen.unwritten {
        true => format!("{who} reads what nobody has written ({} here)", value(&seen.value)),
        false => format!("{who} reads {}", value(&seen.value)),
    }
}

fn value(val: &Val) -> String {
    let all: Vec<String> = val.values().map(format::plain).collect();
    if let [one] = &all[..] { one.clone() } else { format!("({})", all.join(", ")) }
}

/// Returns the first element of the arrays that are written in which the runs differ.
fn differing(case: &Case<'_>, filled: &Filled, outcomes: &[Outcome; 2]) -> Option<Differs> {
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
            return Some(Differs { element: format!("{name}{index}{}", found.field), values: found.values });
        }
    }
    None
}
