//! What a run was too small to show. Input: its warnings, and the kernels whose launches all were small. Output: the warnings, of which
//! proofs have settled some, and added others.

use super::examine::examine;
use super::instances::of_file;
use super::report::{Property, Report, Verdict};
use crate::base::diag::Diagnostic;
use crate::check::typed::{KernelId, ModuleId, Program};

/// A kernel, and what its launches never had, although its signature allows it: several blocks, or several warps in one.
#[derive(Clone, Copy, Debug)]
pub struct Small {
    pub kernel: KernelId,
    pub blocks: bool,
    pub warps: bool,
}

/// What a launch of another size may do wrong although one of this size does not.
const BEYOND: [Property; 4] = [Property::InBounds, Property::RaceFree, Property::Barriers, Property::NoOverflow];

/// Settles the warnings of a run. Kernels of the program's own file (others are proved in theirs) whose launches were too small to tell are
/// proved instead: notes of hazards that no launch has are dropped, others say why that is not known, and faults of larger launches
/// are added, but for the one with which the run itself has `failed`. It ends early once it is `stopped`.
pub fn settled(
    (mut warnings, failed): (Vec<Diagnostic>, Option<&Diagnostic>),
    small: impl Iterator<Item = Small>,
    program: &Program,
    main: Option<ModuleId>,
    stopped: &dyn Fn() -> bool,
) -> Vec<Diagnostic> {
    let own = of_file(program, main);
    let is_new = |found: &Diagnostic| {
        failed.is_none_or(|failed| (failed.code, failed.primary()) != (found.code, found.primary()))
    };
    for missed in small.filter(|missed| own.contains(&missed.kernel)) {
        if stopped() {
            break;
        }
        let (kernel, report) = (&program.kernels[missed.kernel], examine(program, missed.kernel));
        let proved = matches!(report.verdict(Property::RaceFree), Some(Verdict::Proved { .. }));
        let of_kernel = |one: &Diagnostic| one.code == "W0603" && one.primary() == Some(kernel.name_span);
        warnings.retain(|one| !(proved && of_kernel(one)));
        warnings.iter_mut().filter(|one| of_kernel(one)).for_each(|hazard| settle(hazard, &report));
        let refuted = report.verdicts.iter().filter(|(property, _)| BEYOND.contains(property));
        warnings.extend(refuted.filter_map(|(_, verdict)| larger(verdict, &report.kernel, missed, is_new)));
    }
    warnings
}

/// Adds to the note of a hazard what the proof says of it.
fn settle(hazard: &mut Diagnostic, report: &Report) {
    let said = match report.verdict(Property::RaceFree) {
        Some(Verdict::Refuted { sizes, .. }) => format!("a launch with {sizes} has a race, reported below"),
        Some(Verdict::Unknown { why, .. }) => format!("a proof for all sizes was tried, and does not settle it: {why}"),
        _ => return,
    };
    hazard.notes.push(said);
}

/// Returns the warning of a fault that a larger launch has.
fn larger(
    verdict: &Verdict,
    kernel: &str,
    missed: Small,
    is_new: impl FnOnce(&Diagnostic) -> bool,
) -> Option<Diagnostic> {
    let Verdict::Refuted { sizes, found } = verdict else { return None };
    if !is_new(found) {
        return None;
    }
    let had = match (missed.blocks, missed.warps) {
        (true, true) => "at most one block, of at most 32 threads",
        (true, false) => "at most one block",
        _ => "blocks of at most 32 threads",
    };
    let mut warning =
        Diagnostic::warning("W0611", format!("another launch of `{kernel}` has a fault: {}", found.title));
    warning.labels.clone_from(&found.labels);
    warning.notes.push(format!("launches of this run had {had}; one with {sizes} has it ({})", found.code));
    warning.notes.extend(found.notes.iter().cloned());
    warning.help.clone_from(&found.help);
    Some(warning)
}
